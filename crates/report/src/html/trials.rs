//! The trials: the table of all of them, and one detail sheet each.

use super::hosts::{HostsView, hosts};
use super::verdict::VerdictView;
use super::{levels_text, paths};
use crate::number::{Number, Source, Unit, trimmed};
use analysis::{RunAnalysis, TrialAnalysis, Usage};
use record::{FailureKind, LoadOutcome, LoadSpec, RunRecord, TrialRecord, TrialState};
use serde::Serialize;

/// A trial: its row in the table and its detail sheet.
#[derive(Debug, Serialize)]
pub struct TrialView {
    id: u32,
    /// Its place in the analysis; `None` where it was not analysed.
    place: Option<usize>,
    file: String,
    stage: String,
    block: u32,
    levels: String,
    state: &'static str,
    error: String,
    error_remedy: String,
    verdict: Option<VerdictView>,
    offered: Option<Number>,
    rate: Option<Number>,
    p50: Option<Number>,
    p99: Option<Number>,
    error_share: Option<Number>,
    generator_utilization: Option<Number>,
    load: String,
    facts: Vec<Fact>,
    latency: Vec<LatencyRow>,
    requests: Vec<Counted>,
    failures: Vec<Counted>,
    statuses: Vec<Counted>,
    usage: Vec<UsageView>,
    workers: Vec<Counted>,
    /// What each host brought; `None` for a load of one.
    hosts: Option<HostsView>,
}

/// A named number of the detail sheet.
#[derive(Debug, Serialize)]
struct Fact {
    name: &'static str,
    number: Number,
    note: String,
}

/// Something counted, with its share of the whole for the bar, per cent.
#[derive(Debug, Serialize)]
struct Counted {
    name: String,
    number: Option<Number>,
    percent: String,
    note: String,
}

#[derive(Debug, Serialize)]
struct LatencyRow {
    name: &'static str,
    values: Vec<Option<Number>>,
}

/// CPU of a core, process or thread; `modes` are widths on the bar, per cent of one core.
#[derive(Debug, Serialize)]
struct UsageView {
    owner: String,
    name: String,
    utilization: Option<Number>,
    run_queue_wait: Option<Number>,
    requests: Option<Number>,
    modes: Vec<ModeView>,
}

#[derive(Debug, Serialize)]
struct ModeView {
    mode: &'static str,
    percent: String,
}

/// Modes that are work or loss, in stacking order; idle is the rest of the bar.
pub const BUSY_MODES: [&str; 7] = [
    "user", "nice", "system", "softirq", "irq", "steal", "iowait",
];

/// Heads of the latency table, and the fields of [`analysis::LatencySummary`] under them.
pub const LATENCY_FIELDS: [(&str, &str); 11] = [
    ("min", "min"),
    ("mean", "mean"),
    ("p50", "p50"),
    ("p75", "p75"),
    ("p90", "p90"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("p99.9", "p999"),
    ("p99.99", "p9999"),
    ("max", "max"),
    ("stddev", "stddev"),
];

/// All trials of the record, by id.
pub fn trials(record: &RunRecord, analysis: &RunAnalysis, source: &Source) -> Vec<TrialView> {
    let analysed = |id: u32| {
        let mut all = analysis.trials.iter().enumerate();
        all.find(|(_, t)| t.id == id)
    };
    // The steps of a search have a table of their own.
    record
        .trials
        .iter()
        .filter(|trial| !analysis.is_step(trial.id))
        .map(|trial| {
            let own = Source::new(paths::trial(trial.id), trial);
            trial_view(trial, analysed(trial.id), source, &own)
        })
        .collect()
}

fn trial_view(
    trial: &TrialRecord,
    analysed: Option<(usize, &TrialAnalysis)>,
    source: &Source,
    own: &Source,
) -> TrialView {
    let number = |field: &str, unit| {
        let (index, _) = analysed?;
        source.number(&format!("/trials/{index}/{field}"), unit)
    };
    let (state, error, error_remedy) = state_words(&trial.state);
    let of_load = |view: &dyn Fn(&LoadOutcome) -> Vec<Counted>| {
        trial.outcome.as_ref().map(view).unwrap_or_default()
    };
    let usage = analysed.map_or(&[][..], |(_, t)| &t.usage);
    TrialView {
        id: trial.id,
        place: analysed.map(|(index, _)| index),
        file: own.name().to_owned(),
        stage: trial.stage.clone(),
        block: trial.block,
        levels: levels_text(&trial.levels),
        state,
        error,
        error_remedy,
        verdict: analysed.map(|(index, t)| {
            VerdictView::new(&t.verdict, source, &format!("/trials/{index}/verdict"))
        }),
        offered: number("offered_per_s", Unit::PerSecond),
        rate: number("achieved_per_s", Unit::PerSecond),
        p50: number("response_ns/p50", Unit::Nanos),
        p99: number("response_ns/p99", Unit::Nanos),
        error_share: number("error_share", Unit::Share),
        generator_utilization: number("generator_utilization", Unit::Share),
        load: load_words(&trial.load),
        facts: facts(&number, own),
        latency: latency(&number),
        requests: of_load(&|o| requests(o, &trial.load, own)),
        failures: of_load(&|o| failures(o, own)),
        statuses: of_load(&|o| statuses(o, own)),
        usage: usage_views(usage, analysed.map(|(i, _)| i), source),
        workers: workers(trial, own),
        hosts: analysed.and_then(|(i, t)| hosts(trial, t, source, &format!("/trials/{i}"))),
    }
}

fn state_words(state: &TrialState) -> (&'static str, String, String) {
    match state {
        TrialState::Complete => ("complete", String::new(), String::new()),
        TrialState::Interrupted => ("interrupted", String::new(), String::new()),
        TrialState::Failed { error, remedy } => ("failed", error.clone(), remedy.clone()),
    }
}

/// The load that was asked, in one line.
fn load_words(load: &LoadSpec) -> String {
    let mut words = vec![format!("{} {}", load.method, load.url)];
    words.push(match load.arrival {
        record::Arrival::Closed => "closed loop".to_owned(),
        record::Arrival::Constant { per_s } => {
            let rate = crate::number::text(per_s, Unit::PerSecond);
            format!("open loop, {rate}/s at equal gaps")
        }
        record::Arrival::Poisson { per_s, .. } => {
            let rate = crate::number::text(per_s, Unit::PerSecond);
            format!("open loop, {rate}/s at exponential gaps (Poisson)")
        }
    });
    if !load.rate_pieces.is_empty() {
        words.push(format!("on average, by pieces: {}", load.rate_pieces));
    }
    words.push(format!("{} connections", load.connections));
    if let Some(requests) = load.requests_per_connection {
        words.push(format!("{requests} requests per connection"));
    }
    if load.pipeline > 1 {
        words.push(format!("pipeline of {}", load.pipeline));
    }
    if load.http == record::Http::Two {
        words.push(format!("HTTP/2, {} streams per connection", load.streams));
    }
    words.extend((load.limit_rate).map(|rate| format!("{rate}/s per connection at most")));
    words.extend(load.duration.map(|d| format!("measured for {d}")));
    words.extend(load.requests.map(|n| format!("{n} requests")));
    words.push(format!("after {} of warm-up", load.warmup));
    words.join(", ")
}

/// Facts about the trial as a whole, those that exist.
fn facts(number: &impl Fn(&str, Unit) -> Option<Number>, own: &Source) -> Vec<Fact> {
    let connections = own
        .number("/outcome/connections/asked", Unit::Count)
        .map_or(String::new(), |asked| format!("of {} asked", asked.text));
    let fact = |name, number: Option<Number>, note: &str| {
        number.map(|number| Fact {
            name,
            number,
            note: note.to_owned(),
        })
    };
    [
        fact(
            "Connections open at most",
            own.number("/outcome/connections/peak_open", Unit::Count),
            &connections,
        ),
        fact(
            "Connections opened",
            own.number("/outcome/connections/opened", Unit::Count),
            "warm-up included",
        ),
        fact(
            "CPU of the targets per request",
            number("target_cpu_us_per_request", Unit::Micros),
            "",
        ),
        fact(
            "CPU of the generator per request",
            number("generator_cpu_us_per_request", Unit::Micros),
            "spinning left out",
        ),
        fact(
            "Pauses of the generator",
            number("pause_share", Unit::Share),
            "of the mean response time at most; made only while the server was full",
        ),
        fact(
            "Requests that the server counted",
            number("counted_by_server", Unit::Ratio),
            "times those of the generator",
        ),
        fact(
            "Little's law",
            number("littles_law", Unit::Ratio),
            "1 when it closes",
        ),
        fact(
            "Drift of the rate",
            number("steady/drift", Unit::Share),
            "from the first to the second half",
        ),
        fact(
            "Variation of the rate",
            number("steady/variation", Unit::Share),
            "between the slices",
        ),
        fact(
            "Received",
            own.number("/outcome/received_bytes", Unit::Bytes),
            "",
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn latency(number: &impl Fn(&str, Unit) -> Option<Number>) -> Vec<LatencyRow> {
    let values = |of: &str| -> Vec<Option<Number>> {
        let value = |(_, field): &(_, &str)| number(&format!("{of}/{field}"), Unit::Nanos);
        LATENCY_FIELDS.iter().map(value).collect()
    };
    let exact = |values: &[Option<Number>]| -> Vec<Option<String>> {
        let value = |n: &Option<Number>| n.as_ref().map(|n| n.value.clone());
        values.iter().map(value).collect()
    };
    let (response, service) = (values("response_ns"), values("service_ns"));
    let rows = if exact(&response) == exact(&service) {
        vec![("Response and service time", response)]
    } else {
        vec![("Response time", response), ("Service time", service)]
    };
    rows.into_iter()
        .filter(|(_, values)| values.iter().any(Option::is_some))
        .map(|(name, values)| LatencyRow { name, values })
        .collect()
}

/// What became of the requests. The whole is what was scheduled, or sent in a closed loop. `late`, `dropped`
/// and `retried` are shown where they can happen or did.
fn requests(outcome: &LoadOutcome, load: &LoadSpec, own: &Source) -> Vec<Counted> {
    let r = &outcome.requests;
    let whole = r.scheduled.max(r.sent);
    let open_loop = load.arrival.offered_per_s().is_some();
    [
        ("scheduled", r.scheduled, true),
        ("sent", r.sent, true),
        ("completed", r.completed, true),
        ("succeeded", r.succeeded, true),
        ("late", r.late, open_loop),
        ("dropped", r.dropped, open_loop),
        ("retried", r.retried, false),
    ]
    .into_iter()
    .filter(|(_, count, always)| *always || *count > 0)
    .map(|(name, count, _)| Counted {
        name: name.to_owned(),
        number: own.number(&format!("/outcome/requests/{name}"), Unit::Count),
        percent: percent(count, whole),
        note: String::new(),
    })
    .collect()
}

fn failures(outcome: &LoadOutcome, own: &Source) -> Vec<Counted> {
    let all = outcome.requests.failures();
    let counted = |(kind, count): (&FailureKind, &u64)| Counted {
        name: kind.name().to_owned(),
        number: own.number(
            &format!("/outcome/requests/failed/{}", kind.name()),
            Unit::Count,
        ),
        percent: percent(*count, all),
        note: outcome.first_failure.get(kind).cloned().unwrap_or_default(),
    };
    outcome.requests.failed.iter().map(counted).collect()
}

fn statuses(outcome: &LoadOutcome, own: &Source) -> Vec<Counted> {
    let all = outcome.status.values().sum();
    let counted = |(status, count): (&u16, &u64)| Counted {
        name: status.to_string(),
        number: own.number(&format!("/outcome/status/{status}"), Unit::Count),
        percent: percent(*count, all),
        note: String::new(),
    };
    outcome.status.iter().map(counted).collect()
}

fn usage_views(usage: &[Usage], trial: Option<usize>, source: &Source) -> Vec<UsageView> {
    let Some(trial) = trial else {
        return Vec::new();
    };
    let view = |(i, usage): (usize, &Usage)| {
        let number =
            |field: &str, unit| source.number(&format!("/trials/{trial}/usage/{i}/{field}"), unit);
        UsageView {
            owner: usage.owner.clone(),
            name: usage.name.clone(),
            utilization: number("utilization", Unit::Share),
            run_queue_wait: number("run_queue_wait", Unit::Share),
            requests: number("requests", Unit::Count),
            modes: modes(usage),
        }
    };
    usage.iter().enumerate().map(view).collect()
}

/// Widths of the bar; a process that is busy on several cores fills it and its modes share the width.
fn modes(usage: &Usage) -> Vec<ModeView> {
    let whole = usage.utilization.max(1.0);
    BUSY_MODES
        .iter()
        .filter_map(|mode| Some((mode, usage.by_mode.get(*mode)?)))
        .filter(|(_, share)| **share > 0.0)
        .map(|(mode, share)| ModeView {
            mode,
            percent: trimmed(100.0 * share / whole),
        })
        .collect()
}

/// Requests that each worker counted, over all targets that say so.
fn workers(trial: &TrialRecord, own: &Source) -> Vec<Counted> {
    let of_target = |(i, target): (usize, &record::TargetRecord)| {
        let all: u64 = target.requests_by_worker.values().sum();
        let counted = target
            .requests_by_worker
            .iter()
            .map(|(worker, count)| Counted {
                name: format!("{} {worker}", target.name),
                number: own.number(
                    &format!("/targets/{i}/requests_by_worker/{}", pointer_token(worker)),
                    Unit::Count,
                ),
                percent: percent(*count, all),
                note: String::new(),
            });
        counted.collect::<Vec<_>>()
    };
    trial
        .targets
        .iter()
        .enumerate()
        .flat_map(of_target)
        .collect()
}

/// A key as a token of a JSON pointer (RFC 6901 section 3).
pub fn pointer_token(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn percent(part: u64, whole: u64) -> String {
    trimmed(100.0 * part as f64 / whole.max(1) as f64)
}
