//! Traffic of a TCP in user space: the first screen of such a run, and its tables.
//!
//! The table of counters shows what is not zero on a side; the others are in the document.

use crate::json::RunDocument;
use crate::number::{Number, Source, Unit};
use crate::traffic::{asked_rows, wrong_words};
use serde::Serialize;

/// What is said of each of several threads.
const THREAD: [(&str, Unit); 8] = [
    ("cpu", Unit::Count),
    ("utilization", Unit::Share),
    ("cpu_user_s", Unit::Seconds),
    ("cpu_system_s", Unit::Seconds),
    ("peak_flows", Unit::Count),
    ("tx_frames", Unit::Count),
    ("rx_frames", Unit::Count),
    ("handed_over", Unit::Count),
];

/// What the page says of the traffic.
#[derive(Debug, Serialize)]
pub struct TrafficView {
    valid: bool,
    why: String,
    remedy: String,
    completed: Option<Number>,
    duration: Option<Number>,
    asked: Vec<Vec<String>>,
    bars: String,
    slices: Option<Number>,
    templates: Vec<TemplateView>,
    latencies: Vec<LatencyView>,
    has_accepted: bool,
    sides: Vec<SideView>,
    threads: Vec<ThreadView>,
    cores: Vec<CoreView>,
    counters: Vec<CounterView>,
    /// Counters that are zero on both sides.
    zeros: usize,
}

#[derive(Debug, Serialize)]
struct TemplateView {
    name: String,
    due: Option<Number>,
    begun: Option<Number>,
    connected: Option<Number>,
    accepted: Option<Number>,
    completed: Option<Number>,
    per_s: Option<Number>,
    exchanges_per_s: Option<Number>,
    received: Option<Number>,
    wrong: String,
}

#[derive(Debug, Serialize)]
struct LatencyView {
    name: String,
    what: &'static str,
    points: Vec<Option<Number>>,
}

#[derive(Debug, Serialize)]
struct SideView {
    name: String,
    transport: String,
    busy: Option<Number>,
    user: Option<Number>,
    system: Option<Number>,
    each: Option<Number>,
    each_user: Option<Number>,
    per_gbit: Option<Number>,
    peak: Option<Number>,
    flow: Option<Number>,
    coalesce: Option<Number>,
    tx_bytes: Option<Number>,
    tx_frames: Option<Number>,
    tx_dropped: Option<Number>,
    rx_bytes: Option<Number>,
    rx_frames: Option<Number>,
    rx_dropped: Option<Number>,
}

/// A thread of a side that has several.
#[derive(Debug, Serialize)]
struct ThreadView {
    name: String,
    numbers: Vec<Option<Number>>,
}

#[derive(Debug, Serialize)]
struct CoreView {
    core: Option<Number>,
    modes: Vec<Option<Number>>,
}

#[derive(Debug, Serialize)]
struct CounterView {
    name: String,
    client: Option<Number>,
    server: Option<Number>,
    meaning: String,
}

/// Less is an idle core.
const WORKED: f64 = 0.01;
/// Height of the bars, CSS pixels.
const HEIGHT: f64 = 90.0;

/// The traffic of the document; `None` in another run.
pub fn traffic(document: &RunDocument, source: &Source) -> Option<TrafficView> {
    let run = document.traffic.as_ref()?;
    let number = |pointer: String, unit| source.number(&format!("/traffic{pointer}"), unit);
    let template = |(i, t): (usize, &analysis::traffic::TemplateFigures)| {
        let of = |field: &str, unit| number(format!("/templates/{i}/{field}"), unit);
        TemplateView {
            name: t.name.clone(),
            due: of("scheduled", Unit::Count),
            begun: of("attempted", Unit::Count),
            connected: of("connected", Unit::Count),
            accepted: of("accepted", Unit::Count),
            completed: of("completed", Unit::Count),
            per_s: of("completed_per_s", Unit::PerSecond),
            exchanges_per_s: of("exchanges_per_s", Unit::PerSecond),
            received: of("received_bytes", Unit::Bytes),
            wrong: wrong_words(t),
        }
    };
    let latencies = run.figures.templates.iter().enumerate().flat_map(|(i, t)| {
        let l = &t.latency_ns;
        let all = [
            ("connect", "connect", l.connect.is_some()),
            ("first byte", "first_byte", l.first_byte.is_some()),
            ("response", "response", l.response.is_some()),
        ];
        let there = all.into_iter().filter(|(.., is_there)| *is_there);
        there.map(move |(what, field, _)| (i, t.name.clone(), what, field))
    });
    let latencies = latencies.map(|(i, name, what, field)| LatencyView {
        name,
        what,
        points: ["p50", "p99", "p999", "max"]
            .map(|p| {
                number(
                    format!("/templates/{i}/latency_ns/{field}/{p}"),
                    Unit::Nanos,
                )
            })
            .into(),
    });
    let counters = &run.figures.counters;
    let told = counters.iter().enumerate().filter(|(_, row)| row.is_told());
    Some(TrafficView {
        valid: run.verdict.valid,
        why: run.verdict.why.clone(),
        remedy: run.verdict.remedy.clone(),
        completed: number("/completed_per_s".to_owned(), Unit::PerSecond),
        duration: number("/duration_s".to_owned(), Unit::Seconds),
        asked: asked_rows(&run.asked),
        bars: bars(run),
        slices: run.intervals.last().and_then(|_| {
            let last = run.intervals.len() - 1;
            number(format!("/intervals/{last}/at_s"), Unit::Seconds)
        }),
        templates: run
            .figures
            .templates
            .iter()
            .enumerate()
            .map(template)
            .collect(),
        latencies: latencies.collect(),
        has_accepted: run.figures.templates.iter().any(|t| t.accepted.is_some()),
        sides: (0..run.figures.sides.len())
            .map(|i| side(document, i, source))
            .collect(),
        threads: (run.figures.sides.iter().enumerate())
            .flat_map(|(i, side)| (0..side.threads.len()).map(move |n| (i, side, n)))
            .map(|(i, side, n)| ThreadView {
                name: format!("{} {n}", side.side),
                numbers: THREAD
                    .map(|(field, unit)| number(format!("/sides/{i}/threads/{n}/{field}"), unit))
                    .into(),
            })
            .collect(),
        cores: run
            .cores
            .iter()
            .enumerate()
            .filter(|(_, c)| c.utilization >= WORKED)
            .map(|(i, _)| CoreView {
                core: number(format!("/cores/{i}/core"), Unit::Count),
                modes: [
                    "utilization",
                    "by_mode/user",
                    "by_mode/system",
                    "by_mode/softirq",
                ]
                .map(|field| number(format!("/cores/{i}/{field}"), Unit::Share))
                .into(),
            })
            .collect(),
        zeros: counters.len() - told.clone().count(),
        counters: told
            .map(|(i, row)| CounterView {
                name: row.name.clone(),
                client: number(format!("/counters/{i}/client"), Unit::Count),
                server: number(format!("/counters/{i}/server"), Unit::Count),
                meaning: row.meaning.clone(),
            })
            .collect(),
    })
}

fn side(document: &RunDocument, i: usize, source: &Source) -> SideView {
    let of = |field: &str, unit| source.number(&format!("/traffic/sides/{i}/{field}"), unit);
    let side = document
        .traffic
        .as_ref()
        .and_then(|t| t.figures.sides.get(i));
    SideView {
        name: side.map_or_else(String::new, |s| s.side.clone()),
        transport: side.map_or_else(String::new, |s| s.transport.clone()),
        busy: of("utilization", Unit::Share),
        user: of("cpu_user_s", Unit::Seconds),
        system: of("cpu_system_s", Unit::Seconds),
        each: of("cpu_us_per_connection", Unit::Micros),
        each_user: of("cpu_user_us_per_connection", Unit::Micros),
        per_gbit: of("cores_per_gbit", Unit::Plain),
        peak: of("peak_flows", Unit::Count),
        flow: of("flow_bytes", Unit::Bytes),
        coalesce: of("coalesce_ns", Unit::Nanos),
        tx_bytes: of("ports/tx_bytes", Unit::Bytes),
        tx_frames: of("ports/tx_frames", Unit::Count),
        tx_dropped: of("ports/tx_dropped", Unit::Count),
        rx_bytes: of("ports/rx_bytes", Unit::Bytes),
        rx_frames: of("ports/rx_frames", Unit::Count),
        rx_dropped: of("ports/rx_dropped", Unit::Count),
    }
}

/// Connections completed a second in each interval as bars; the table says the same in numbers.
fn bars(run: &crate::traffic::TrafficDocument) -> String {
    use std::fmt::Write as _;
    let befores = std::iter::once(0.0).chain(run.intervals.iter().map(|i| i.at_s));
    let rates: Vec<(f64, f64)> = (run.intervals.iter().zip(befores))
        .map(|(i, before)| {
            // The last one may be short.
            let seconds = (i.at_s - before).max(f64::MIN_POSITIVE);
            (i.completed as f64 / seconds, i.failed as f64 / seconds)
        })
        .collect();
    let most = rates.iter().map(|(c, f)| c.max(*f)).fold(0.0, f64::max);
    if run.intervals.len() < 2 || most <= 0.0 {
        return String::new();
    }
    let width = 100.0 / run.intervals.len() as f64;
    let mut svg = format!(
        "<svg class=\"seconds\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 100 {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Connections completed in each interval\">"
    );
    for (i, (slice, rate)) in run.intervals.iter().zip(&rates).enumerate() {
        let bar = |per_s: f64| per_s / most * HEIGHT;
        let x = i as f64 * width;
        for (class, height) in [("normal", bar(rate.0)), ("slow", bar(rate.1))] {
            if height > 0.0 {
                // Writing to a string cannot fail.
                let _ = write!(
                    svg,
                    "<rect class=\"{class}\" x=\"{x:.3}\" y=\"{:.2}\" width=\"{:.3}\" height=\"{height:.2}\"><title>{} s: {} completed, {} failed</title></rect>",
                    HEIGHT - height,
                    width * 0.86,
                    crate::number::trimmed(slice.at_s),
                    slice.completed,
                    slice.failed
                );
            }
        }
    }
    svg + "</svg>"
}
