//! "What limits it": causes as cards, calls per request, sizes, flame graphs, for every cell that was examined.
//!
//! Each item of evidence links to the place that shows it, which its name's first word tells.

use super::curves::load_factor;
use super::ledger::{self, AccountView};
use super::{figures, flame, levels_text};
use crate::json::{CellDiagnosed, RunDocument};
use crate::number::{Number, Source, Unit};
use crate::quantity::unit_of;
use crate::text::{held, would_bring};
use analysis::{CallChange, Cell, Change, Evidence, Finding, Plan, ProofRatio, Status, words};
use record::{
    CallStats, FdClass, PROOF_STAGE, Profile, ProfileKind, RunRecord, Signature, TrialRecord,
};
use serde::Serialize;

/// Frames of all flame graphs of a page, about 200 bytes each.
const FRAMES_OF_PAGE: usize = 2_000;
/// Frames of one: 200 KB.
const FRAMES_OF_GRAPH: usize = 1_000;
/// Fewer than this show nothing.
const FRAMES_AT_LEAST: usize = 100;

/// Calls of a target that are listed, the most frequent first.
const CALLS_SHOWN: usize = 20;

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
    accounts: Vec<AccountView>,
    /// What the accounts lack.
    not_visible: Vec<String>,
    tier: String,
    findings: Vec<FindingView>,
    ruled_out: Vec<NamedWhy>,
    unseen: Vec<NamedWhy>,
    facts: Vec<FactView>,
    /// Facts that were known; with several cells on the page only the cited ones are listed.
    facts_known: usize,
    requests: Option<Number>,
    lost: Option<Number>,
    targets: Vec<CallsView>,
    costs: Vec<CostView>,
    graphs: Vec<GraphView>,
    /// Graphs that the page has no room for.
    graphs_left_out: usize,
    /// Files that calls and stacks are from.
    examination: String,
    profiles: String,
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
    gain_unknown: Option<String>,
    /// What its change would bring, in a line; `None` where nothing is said.
    would_bring: Option<String>,
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
    judged_by: Option<String>,
    /// What was predicted of it, beside what came.
    held: Option<String>,
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
    /// Rarer calls, which the document lists.
    more: usize,
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
    title: String,
    caption: String,
    difference: bool,
    svg: String,
}

/// One cell of the run: what limits it, in one line.
#[derive(Debug, Serialize)]
pub struct CellRow {
    index: usize,
    /// Empty where all cells are of one stage.
    stage: String,
    levels: String,
    rate: Option<Number>,
    cpu: Option<Number>,
    limit: String,
    why: String,
    /// Causes that the counts support, and before them the first one, whether they do or not.
    causes: Vec<String>,
    /// Its place among the examined cells.
    details: Option<usize>,
}

/// A row for each cell of the run; the arms of a proof stand with the cause that it is about.
pub fn cells(document: &RunDocument, source: &Source) -> Vec<CellRow> {
    let all = document.comparisons.iter().enumerate();
    let cells: Vec<(usize, &Cell)> = all.filter(|(_, c)| c.stage != PROOF_STAGE).collect();
    let one_stage = cells.iter().all(|(_, c)| c.stage == cells[0].1.stage);
    let row = |&(index, cell): &(usize, &Cell)| {
        let number = |field: &str, unit| {
            source.number(&format!("/comparisons/{index}/{field}/median"), unit)
        };
        let mut diagnosed = document.diagnosed.iter();
        let details = diagnosed.position(|d| d.stage == cell.stage && d.levels == cell.levels);
        let findings = details.map_or(&[][..], |i| &document.diagnosed[i].diagnosed.diagnosis);
        let named = |&(at, f): &(usize, &Finding)| {
            f.cause != "none" && (at == 0 || f.status >= Status::Supported)
        };
        let words = |(_, f): (usize, &Finding)| match f.status {
            Status::Suspected => format!("{} ({})", f.cause, status(f.status).0),
            _ => f.cause.clone(),
        };
        CellRow {
            index,
            stage: match one_stage {
                true => String::new(),
                false => cell.stage.clone(),
            },
            levels: words::levels(&cell.levels),
            rate: number("achieved_per_s", Unit::PerSecond),
            cpu: number("target_cpu_us_per_request", Unit::Micros),
            limit: limit_words(cell),
            why: cell
                .verdict
                .as_ref()
                .map(|v| v.why.clone())
                .unwrap_or_default(),
            causes: findings
                .iter()
                .enumerate()
                .filter(named)
                .map(words)
                .collect(),
            details,
        }
    };
    cells.iter().map(row).collect()
}

/// `server: worker`, or why the cell says nothing.
fn limit_words(cell: &Cell) -> String {
    let Some(verdict) = &cell.verdict else {
        return "not run".to_owned();
    };
    let name = verdict.limit.name().replace('_', " ");
    let limit = match verdict.resource.replace('_', " ") {
        same if same.is_empty() || same == name => name,
        resource => format!("{name}: {resource}"),
    };
    match verdict.valid {
        true => limit,
        false => format!("not valid: {limit}"),
    }
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
    let mut sources = graph_sources(record, document, plan);
    for (view, left_out) in views.iter_mut().zip(keep_most_telling(&mut sources)) {
        view.graphs_left_out = left_out;
    }
    let number: usize = sources.iter().map(Vec::len).sum();
    let frames = (FRAMES_OF_PAGE / number.max(1)).clamp(FRAMES_AT_LEAST, FRAMES_OF_GRAPH);
    for (i, (view, sources)) in views.iter_mut().zip(sources).enumerate() {
        let drawn = sources.iter().enumerate();
        view.graphs = drawn
            .filter_map(|(n, graph)| graph_view(&format!("{i}-{n}"), graph, frames))
            .collect();
    }
    views
}

/// Leaves as many graphs as a page has room for: those on the CPU before those off it, within each the differences
/// last. Returns how many each cell lost.
fn keep_most_telling(sources: &mut [Vec<GraphSource>]) -> Vec<usize> {
    let most = FRAMES_OF_PAGE / FRAMES_AT_LEAST;
    let rank = |g: &GraphSource| (g.after.kind != ProfileKind::OnCpu, g.before.is_some());
    let mut ranks: Vec<_> = sources.iter().flatten().map(rank).collect();
    ranks.sort_unstable();
    let Some(last) = ranks.get(most).copied() else {
        return vec![0; sources.len()];
    };
    // Of those that share the last rank, the first cells' are kept.
    let mut room = most - ranks.iter().filter(|r| **r < last).count();
    sources
        .iter_mut()
        .map(|of_cell| {
            let before = of_cell.len();
            of_cell.retain(|g| {
                let at_last = rank(g) == last;
                let keep = rank(g) < last || (at_last && room > 0);
                room -= usize::from(at_last && keep);
                keep
            });
            before - of_cell.len()
        })
        .collect()
}

/// What a graph is drawn from.
struct GraphSource<'a> {
    after: &'a Profile,
    /// Drawn as a difference against this one, with the name of its cell and its trial.
    before: Option<(&'a Profile, String, u32)>,
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
    // A sweep has as many lists of facts as cells, each of hundreds; the document holds them all.
    let alone = document.diagnosed.len() == 1;
    let cited = |name: &str| {
        let mut evidence = said.diagnosis.iter().flat_map(|f| &f.evidence);
        evidence.any(|e| e.signal.contains(name))
    };
    let listed = said.facts.iter().enumerate();
    let listed = listed.filter(|(_, fact)| alone || cited(&fact.name));
    let facts = listed.map(|(n, fact)| {
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
        accounts: said
            .ledger
            .as_ref()
            .map(|l| ledger::accounts(l, &format!("{at}/ledger"), source))
            .unwrap_or_default(),
        not_visible: said
            .ledger
            .as_ref()
            .map(|l| l.not_visible.clone())
            .unwrap_or_default(),
        tier: said.tier.clone(),
        findings: findings
            .map(|(n, f)| finding(f, &format!("{at}/diagnosis/{n}"), (i, cell.trial), source))
            .collect(),
        ruled_out: ruled_out.collect(),
        unseen: unseen.collect(),
        facts: facts.collect(),
        facts_known: said.facts.len(),
        requests: number("signature/requests", Unit::Count),
        lost: (said.signature.as_ref().is_some_and(|s| s.lost > 0))
            .then(|| number("signature/lost", Unit::Count))
            .flatten(),
        targets: targets(document, i, signature, source),
        costs: costs(document, i, source),
        graphs: Vec::new(),
        graphs_left_out: 0,
        examination: format!("{}/examination.json", TrialRecord::directory(cell.trial)),
        profiles: format!("{}/profiles.json", TrialRecord::directory(cell.trial)),
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
        gain_unknown: finding.gain_unknown.clone(),
        would_bring: finding
            .predicted
            .as_ref()
            .filter(|said| said.ratio.is_some() || said.interval.is_some())
            .map(would_bring),
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
            judged_by: proof
                .judged_by
                .as_ref()
                .map(|by| format!("{}, because {}", by.metric.words(), by.why)),
            held: proof.predicted.as_ref().map(held),
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
    let values: Vec<f64> = e.value.into_iter().chain(e.threshold).collect();
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
        bar: e
            .value
            .and_then(|value| figures::threshold_bar(value, e.threshold)),
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
            more: calls.len().saturating_sub(CALLS_SHOWN),
            rows: calls
                .iter()
                .take(CALLS_SHOWN)
                .enumerate()
                .map(row)
                .collect(),
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

/// For each cell its profiles, alone and beside those of the cell that it is compared with.
fn graph_sources<'a>(
    record: &'a RunRecord,
    document: &RunDocument,
    plan: Option<&Plan>,
) -> Vec<Vec<GraphSource<'a>>> {
    let profiles = |trial: u32| {
        let trial = record.trials.iter().find(|t| t.id == trial);
        let examination = trial.and_then(|t| t.examination.as_ref());
        examination.map_or(&[][..], |e| &e.profiles)
    };
    let of_cell = |cell: &CellDiagnosed| {
        let own = profiles(cell.trial);
        let other = compared_with(cell, record, document, plan);
        let mut graphs = Vec::new();
        for after in own {
            graphs.push(GraphSource {
                after,
                before: None,
            });
            let before = other.and_then(|o| {
                let same_kind = profiles(o.trial).iter().find(|p| p.kind == after.kind)?;
                Some((same_kind, levels_text(&o.levels), o.trial))
            });
            graphs.extend(before.map(|before| GraphSource {
                after,
                before: Some(before),
            }));
        }
        graphs
    };
    document.diagnosed.iter().map(of_cell).collect()
}

/// The examined cell before this one: its baseline; without one the first of the stage that differs in one factor
/// alone, unless that factor is the load. The arms of a proof differ in their arm, so that before and after stand side
/// by side.
fn compared_with<'a>(
    cell: &CellDiagnosed,
    record: &RunRecord,
    document: &'a RunDocument,
    plan: Option<&Plan>,
) -> Option<&'a CellDiagnosed> {
    let mut of_stage = document
        .diagnosed
        .iter()
        .filter(|c| c.stage == cell.stage && c.trial != cell.trial);
    let stage = plan.and_then(|p| p.stages.iter().find(|s| s.name == cell.stage));
    if let Some(baseline) = stage.map(|s| &s.baseline).filter(|b| !b.is_empty()) {
        let mut levels = cell.levels.clone();
        levels.extend(baseline.clone());
        return of_stage.find(|c| c.levels == levels);
    }
    let cells: Vec<(usize, &Cell)> = document
        .comparisons
        .iter()
        .enumerate()
        .filter(|(_, c)| c.stage == cell.stage)
        .collect();
    let first = of_stage.find(|other| {
        let same_factors = other.levels.keys().eq(cell.levels.keys());
        let differing = cell
            .levels
            .iter()
            .filter(|(factor, level)| other.levels.get(*factor) != Some(level));
        let differing: Vec<&String> = differing.map(|(factor, _)| factor).collect();
        same_factors && differing.len() == 1 && !load_factor(record, &cells, differing[0])
    })?;
    // Each pair once: the earlier cell is the one before.
    (first.trial < cell.trial).then_some(first)
}

fn graph_view(id: &str, source: &GraphSource, frames: usize) -> Option<GraphView> {
    let before = source.before.as_ref();
    let profiles: Vec<&Profile> = before
        .map(|(profile, _, _)| *profile)
        .into_iter()
        .chain([source.after])
        .collect();
    let graph = flame::graph(&profiles, frames)?;
    let difference = before.is_some();
    let title = match (source.after.kind, before) {
        (ProfileKind::OnCpu, None) => "On the CPU".to_owned(),
        (ProfileKind::OffCpu, None) => "Off the CPU".to_owned(),
        (ProfileKind::Tasks, None) => "Goroutines, waiting or running".to_owned(),
        (ProfileKind::Tasks, Some((_, levels, trial))) => {
            format!("Goroutines, waiting or running, compared with {levels} (trial {trial})")
        }
        (ProfileKind::OnCpu, Some((_, levels, trial))) => {
            format!("On the CPU, compared with {levels} (trial {trial})")
        }
        (ProfileKind::OffCpu, Some((_, levels, trial))) => {
            format!("Off the CPU, compared with {levels} (trial {trial})")
        }
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
                ProfileKind::Tasks => format!(
                    "{} times that a goroutine was seen{lost}",
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
