//! "What limits it": causes as cards, calls per request, sizes, flame graphs, for every cell that was examined.
//!
//! Each item of evidence links to the place that shows it, which its name's first word tells.

use super::number::{Number, Source, Unit};
use super::{figures, flame, levels_text};
use crate::json::RunDocument;
use crate::quantity::unit_of;
use analysis::{CallChange, Change, Evidence, Finding, Plan, ProofRatio, Status, words};
use record::{CallStats, FdClass, Profile, ProfileKind, RunRecord, Signature};
use serde::Serialize;

/// Frames of all flame graphs of a page, about 200 bytes each.
const FRAMES_OF_PAGE: usize = 6_000;
/// Frames of one: 300 KB.
const FRAMES_OF_GRAPH: usize = 1_400;
/// Fewer than this show nothing.
const FRAMES_AT_LEAST: usize = 200;

/// One examined cell.
#[derive(Debug, Serialize)]
pub struct LimitView {
    index: usize,
    stage: String,
    levels: String,
    trial: u32,
    station: String,
    station_why: String,
    unexplained: Option<Number>,
    tier: String,
    findings: Vec<FindingView>,
    ruled_out: Vec<NamedWhy>,
    unseen: Vec<NamedWhy>,
    facts: Vec<FactView>,
    requests: Option<Number>,
    lost: Option<Number>,
    targets: Vec<CallsView>,
    costs: Vec<CostView>,
    graphs: Vec<GraphView>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    cause: String,
    title: String,
    target: String,
    status: &'static str,
    tone: &'static str,
    confidence: Option<Number>,
    why: String,
    remedy: String,
    changes: Vec<Change>,
    gain_bound: Option<Number>,
    worth_changing: bool,
    evidence: Vec<EvidenceView>,
    proof: Option<ProofView>,
}

#[derive(Debug, Serialize)]
struct EvidenceView {
    signal: String,
    link: String,
    /// Trial to show behind the link; `None` where the link leads elsewhere.
    choose: Option<u32>,
    value: Option<Number>,
    threshold: Option<Number>,
    unit: String,
    bar: Option<String>,
    source: String,
}

#[derive(Debug, Serialize)]
struct ProofView {
    result: String,
    why: String,
    rows: Vec<ProofRow>,
    calls: Vec<CallChangeView>,
}

#[derive(Debug, Serialize)]
struct CallChangeView {
    call: String,
    class: &'static str,
    target: String,
    before: Option<Number>,
    after: Option<Number>,
    mean_before: Option<Number>,
    mean_after: Option<Number>,
}

#[derive(Debug, Serialize)]
struct ProofRow {
    role: String,
    signal: String,
    unit: String,
    before: Option<Number>,
    after: Option<Number>,
    ratio: Option<Number>,
    low: Option<Number>,
    high: Option<Number>,
    plot: Option<String>,
    as_predicted: bool,
}

#[derive(Debug, Serialize)]
struct NamedWhy {
    cause: String,
    target: String,
    why: String,
    signals: String,
}

#[derive(Debug, Serialize)]
struct FactView {
    name: String,
    target: String,
    value: Option<Number>,
    unit: String,
    source: String,
}

/// One target's calls and sizes.
#[derive(Debug, Serialize)]
struct CallsView {
    target: String,
    counted: bool,
    rows: Vec<CallView>,
    sizes: Vec<SizesView>,
}

#[derive(Debug, Serialize)]
struct CallView {
    call: String,
    class: &'static str,
    per_request: Option<Number>,
    mean: Option<Number>,
    top: Option<Number>,
    top_share: Option<Number>,
    full: Option<Number>,
    errors: Vec<(String, Option<Number>)>,
    time: Option<Number>,
}

#[derive(Debug, Serialize)]
struct SizesView {
    caption: String,
    top: String,
    svg: String,
}

#[derive(Debug, Serialize)]
struct CostView {
    probe: String,
    events: Option<Number>,
    expected: Option<Number>,
    measured: Option<Number>,
}

#[derive(Debug, Serialize)]
struct GraphView {
    id: String,
    title: &'static str,
    caption: String,
    difference: bool,
    svg: String,
}

/// All examined cells of the document.
pub fn limits(
    record: &RunRecord,
    document: &RunDocument,
    plan: Option<&Plan>,
    source: &Source,
) -> Vec<LimitView> {
    let all = 0..document.diagnosed.len();
    let mut views: Vec<LimitView> = all.map(|i| view(record, document, i, source)).collect();
    let pairs = graph_sources(record, document, plan);
    let number: usize = pairs.iter().map(Vec::len).sum();
    let frames = (FRAMES_OF_PAGE / number.max(1)).clamp(FRAMES_AT_LEAST, FRAMES_OF_GRAPH);
    for (i, (view, sources)) in views.iter_mut().zip(pairs).enumerate() {
        let drawn = sources.iter().enumerate();
        view.graphs = drawn
            .filter_map(|(n, profiles)| graph_view(&format!("{i}-{n}"), profiles, frames))
            .collect();
    }
    views
}

fn status(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Refuted => ("refuted", ""),
        Status::Suspected => ("suspected", ""),
        Status::Supported => ("supported", "invalid"),
        Status::Proved => ("proved", "invalid"),
    }
}

fn view(record: &RunRecord, document: &RunDocument, i: usize, source: &Source) -> LimitView {
    let cell = &document.diagnosed[i];
    let said = &cell.diagnosed;
    let at = format!("/diagnosed/{i}");
    let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
    let trial = record.trials.iter().find(|t| t.id == cell.trial);
    let signature = trial
        .and_then(|t| t.examination.as_ref())
        .and_then(|e| e.signature.as_ref());
    let findings = said.diagnosis.iter().enumerate();
    let ruled_out = said.ruled_out.iter().map(|r| NamedWhy {
        cause: r.cause.clone(),
        target: r.target.clone(),
        why: r.why.clone(),
        signals: String::new(),
    });
    let unseen = said.unseen.iter().map(|u| NamedWhy {
        cause: u.cause.clone(),
        target: u.target.clone(),
        why: u.why.clone(),
        signals: u.signals.join(", "),
    });
    let facts = said.facts.iter().enumerate().map(|(n, fact)| {
        let values: Vec<f64> = fact.value.into_iter().collect();
        let (unit, behind) = unit_of(&fact.name, &fact.unit, &values);
        FactView {
            name: fact.name.clone(),
            target: fact.target.clone(),
            value: number(&format!("facts/{n}/value"), unit),
            unit: behind.to_owned(),
            source: fact.source.clone(),
        }
    });
    LimitView {
        index: i,
        stage: cell.stage.clone(),
        levels: levels_text(&cell.levels),
        trial: cell.trial,
        station: match said.station.target.as_str() {
            "" => said.station.name.replace('_', " "),
            target => format!("{} of {target}", said.station.name.replace('_', " ")),
        },
        station_why: said.station.why.clone(),
        unexplained: number("unexplained", Unit::Share),
        tier: said.tier.clone(),
        findings: findings
            .map(|(n, f)| finding(f, &format!("{at}/diagnosis/{n}"), (i, cell.trial), source))
            .collect(),
        ruled_out: ruled_out.collect(),
        unseen: unseen.collect(),
        facts: facts.collect(),
        requests: number("signature/requests", Unit::Count),
        lost: (said.signature.as_ref().is_some_and(|s| s.lost > 0))
            .then(|| number("signature/lost", Unit::Count))
            .flatten(),
        targets: targets(document, i, signature, source),
        costs: costs(document, i, source),
        graphs: Vec::new(),
    }
}

fn finding(
    finding: &Finding,
    at: &str,
    (cell, trial): (usize, u32),
    source: &Source,
) -> FindingView {
    let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
    let (words, tone) = status(finding.status);
    let tone = if finding.cause == "none" {
        "valid"
    } else {
        tone
    };
    let evidence = finding.evidence.iter().enumerate();
    FindingView {
        cause: finding.cause.clone(),
        title: finding.title.clone(),
        target: finding.target.clone(),
        status: words,
        tone,
        confidence: number("confidence", Unit::Share),
        why: finding.why.clone(),
        remedy: finding.remedy.clone(),
        changes: finding.changes.clone(),
        gain_bound: number("gain_bound", Unit::Share),
        worth_changing: finding.worth_changing,
        evidence: evidence
            .map(|(n, e)| {
                let at = format!("{at}/evidence/{n}");
                evidence_view(e, &at, (cell, trial), source)
            })
            .collect(),
        proof: finding.proof.as_ref().map(|proof| ProofView {
            result: proof.result.replace('_', " "),
            why: proof.why.clone(),
            rows: proof
                .evidence
                .iter()
                .enumerate()
                .map(|(n, r)| proof_row(r, &format!("{at}/proof/evidence/{n}"), source))
                .collect(),
            calls: proof
                .calls
                .iter()
                .enumerate()
                .map(|(n, c)| call_change(c, &format!("{at}/proof/calls/{n}"), source))
                .collect(),
        }),
    }
}

fn evidence_view(
    e: &Evidence,
    at: &str,
    (cell, trial): (usize, u32),
    source: &Source,
) -> EvidenceView {
    let values: Vec<f64> = std::iter::once(e.value).chain(e.threshold).collect();
    let (unit, behind) = unit_of(&e.signal, &e.unit, &values);
    let group = e.signal.split(['.', '{']).next().unwrap_or("");
    let (link, choose) = match group {
        "call" | "read" | "write" => (format!("#calls-{cell}"), None),
        "profile" | "blocked" => (format!("#flames-{cell}"), None),
        "client" | "cpu" | "worker" | "core" | "thread" | "host" => {
            ("#one-trial".to_owned(), Some(trial))
        }
        _ => (format!("#facts-{cell}"), None),
    };
    EvidenceView {
        signal: e.signal.clone(),
        link,
        choose,
        value: source.number(&format!("{at}/value"), unit),
        threshold: source.number(&format!("{at}/threshold"), unit),
        unit: behind.to_owned(),
        bar: figures::threshold_bar(e.value, e.threshold),
        source: e.source.clone(),
    }
}

fn proof_row(ratio: &ProofRatio, at: &str, source: &Source) -> ProofRow {
    let (unit, behind) = unit_of(&ratio.signal, &ratio.unit, &[ratio.before, ratio.after]);
    let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
    ProofRow {
        role: ratio.role.replace('_', " "),
        signal: ratio.signal.clone(),
        unit: behind.to_owned(),
        before: number("before", unit),
        after: number("after", unit),
        ratio: number("ratio", Unit::Ratio),
        low: number("interval/0", Unit::Ratio),
        high: number("interval/1", Unit::Ratio),
        plot: ratio
            .ratio
            .zip(ratio.interval)
            .and_then(|(r, interval)| figures::interval(r, interval)),
        as_predicted: ratio.as_predicted,
    }
}

fn call_change(change: &CallChange, at: &str, source: &Source) -> CallChangeView {
    let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
    CallChangeView {
        call: change.call.clone(),
        class: change.class.name(),
        target: change.target.clone(),
        before: number("before", Unit::Plain),
        after: number("after", Unit::Plain),
        mean_before: number("mean_bytes_before", Unit::Count),
        mean_after: number("mean_bytes_after", Unit::Count),
    }
}

fn targets(
    document: &RunDocument,
    i: usize,
    signature: Option<&Signature>,
    source: &Source,
) -> Vec<CallsView> {
    let Some(table) = &document.diagnosed[i].diagnosed.signature else {
        return Vec::new();
    };
    let target = |(t, target): (usize, &crate::signature::TargetTable)| {
        let calls = target.calls.as_deref().unwrap_or_default();
        let row = |(c, call): (usize, &crate::signature::CallRow)| {
            let at = format!("/diagnosed/{i}/signature/targets/{t}/calls/{c}");
            let number = |field: &str, unit| source.number(&format!("{at}/{field}"), unit);
            CallView {
                call: call.call.clone(),
                class: call.class.name(),
                per_request: number("per_request", Unit::Plain),
                mean: number("mean_bytes", Unit::Count),
                top: number("top_bytes", Unit::Count),
                top_share: number("top_share", Unit::Share),
                full: number("full_share", Unit::Share),
                errors: call
                    .errors_per_request
                    .keys()
                    .map(|errno| {
                        let value = number(&format!("errors_per_request/{errno}"), Unit::Plain);
                        (errno.clone(), value)
                    })
                    .collect(),
                time: number("time_us_per_request", Unit::Micros),
            }
        };
        let stats = signature
            .and_then(|s| s.targets.get(t))
            .and_then(|t| t.calls.as_deref())
            .unwrap_or_default();
        CallsView {
            target: target.target.clone(),
            counted: target.calls.is_some(),
            rows: calls.iter().enumerate().map(row).collect(),
            sizes: size_views(stats, table.requests),
        }
    };
    table.targets.iter().enumerate().map(target).collect()
}

/// Reads and writes, each on client, upstream and file.
fn size_views(stats: &[CallStats], requests: u64) -> Vec<SizesView> {
    let mut views = Vec::new();
    for (words, is_kind) in [
        ("Reads from", is_read as fn(&str) -> bool),
        ("Writes to", is_write),
    ] {
        for class in [FdClass::Client, FdClass::Upstream, FdClass::File] {
            let of: Vec<&CallStats> = stats
                .iter()
                .filter(|s| s.class == class && is_kind(&s.call))
                .collect();
            views.extend(figures::sizes(&of, requests).map(|svg| SizesView {
                caption: format!("{words} {}", class.name()),
                top: figures::top_words(&of, requests),
                svg,
            }));
        }
    }
    views
}

fn is_read(call: &str) -> bool {
    call.contains("read") || call.starts_with("recv")
}

/// sendfile writes too: its sizes are what reached the socket.
fn is_write(call: &str) -> bool {
    call.contains("write") || call.starts_with("send")
}

fn costs(document: &RunDocument, i: usize, source: &Source) -> Vec<CostView> {
    let said = &document.diagnosed[i].diagnosed;
    let of_pass = said.signature.as_ref().map_or(&[][..], |s| &s.cost);
    [
        ("monitor_cost", said.monitor_cost.as_slice()),
        ("signature/cost", of_pass),
    ]
    .into_iter()
    .flat_map(|(list, costs)| {
        costs.iter().enumerate().map(move |(n, cost)| {
            let number = |field: &str, unit| {
                source.number(&format!("/diagnosed/{i}/{list}/{n}/{field}"), unit)
            };
            CostView {
                probe: cost.probe.clone(),
                events: number("events", Unit::Count),
                expected: number("expected_share", Unit::Share),
                measured: number("measured_ns", Unit::Nanos),
            }
        })
    })
    .collect()
}

/// For each cell its profiles, alone and beside those of its baseline.
fn graph_sources<'a>(
    record: &'a RunRecord,
    document: &RunDocument,
    plan: Option<&Plan>,
) -> Vec<Vec<Vec<&'a Profile>>> {
    let profiles = |trial: u32| {
        let trial = record.trials.iter().find(|t| t.id == trial);
        let examination = trial.and_then(|t| t.examination.as_ref());
        examination.map_or(&[][..], |e| &e.profiles)
    };
    let cells = &document.diagnosed;
    let of_cell = |cell: &crate::json::CellDiagnosed| {
        let own = profiles(cell.trial);
        let mut graphs: Vec<Vec<&Profile>> = own.iter().map(|p| vec![p]).collect();
        let stage = plan.and_then(|p| p.stages.iter().find(|s| s.name == cell.stage));
        let Some(baseline) = stage.map(|s| &s.baseline).filter(|b| !b.is_empty()) else {
            return graphs;
        };
        let mut levels = cell.levels.clone();
        levels.extend(baseline.clone());
        let of_baseline = |c: &&crate::json::CellDiagnosed| {
            c.stage == cell.stage && c.levels == levels && c.trial != cell.trial
        };
        if let Some(before) = cells.iter().find(of_baseline) {
            for after in own {
                let before = profiles(before.trial).iter();
                graphs.extend(
                    before
                        .filter(|b| b.kind == after.kind)
                        .map(|b| vec![b, after]),
                );
            }
        }
        graphs
    };
    cells.iter().map(of_cell).collect()
}

fn graph_view(id: &str, profiles: &[&Profile], frames: usize) -> Option<GraphView> {
    let graph = flame::graph(profiles, frames)?;
    let difference = profiles.len() == 2;
    let last = profiles.last()?;
    let title = match (last.kind, difference) {
        (ProfileKind::OnCpu, false) => "On the CPU",
        (ProfileKind::OffCpu, false) => "Off the CPU",
        (ProfileKind::OnCpu, true) => "On the CPU, compared with the baseline",
        (ProfileKind::OffCpu, true) => "Off the CPU, compared with the baseline",
    };
    let taken: Vec<String> = profiles
        .iter()
        .map(|p| {
            let hz = match p.hz {
                0 => String::new(),
                hz => format!(" at {hz}/s"),
            };
            let unwound = p.unwound as f64 / p.samples.max(1) as f64;
            let lost = match p.lost {
                0 => String::new(),
                lost => format!(", {} lost", words::count(lost)),
            };
            let root = words::percent(unwound);
            match p.kind {
                ProfileKind::OnCpu => format!(
                    "{} samples{hz}, {root} followed to their root{lost}",
                    words::count(p.samples)
                ),
                ProfileKind::OffCpu => format!("{root} of the waits followed to their root{lost}"),
            }
        })
        .collect();
    let cut = match graph.cut {
        cut if cut > 0.0 => format!(
            "; frames too small to draw hold {} of it",
            words::percent(cut)
        ),
        _ => String::new(),
    };
    Some(GraphView {
        id: id.to_owned(),
        title,
        caption: taken.join(", against ") + &cut,
        difference,
        svg: graph.svg,
    })
}
