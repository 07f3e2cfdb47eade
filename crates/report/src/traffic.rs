//! Traffic of a TCP in user space: the document behind `prony traffic --json`, and the same for a terminal.
//!
//! The table of counters leaves out what is zero on both sides, as TRex does; the document has everything.

use crate::json::FORMAT;
use crate::text::{Style, columns, verdict_text, warnings_text};
use analysis::traffic::{CoreFigures, CounterRow, SideFigures, TemplateFigures, TrafficFigures};
use analysis::words::{count, percent, rate};
use analysis::{LatencySummary, Verdict};
use record::traffic::{
    Pace, Protocol, Side, TcpSettings, Template, TemplateOutcome, TrafficInterval,
};
use record::{Bytes, Nanos, TrafficRun, TrafficSpec, Warning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What `prony traffic --json` prints, and `traffic` of a run's document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficDocument {
    /// Version of this document.
    pub format: u32,
    /// Whether the figures may be used, what limits, and why.
    pub verdict: Verdict,
    /// What was asked for.
    pub asked: TrafficAsked,
    /// A person stopped it before its end.
    pub interrupted: bool,
    #[serde(flatten)]
    pub figures: TrafficFigures,
    /// The host's cores over the run; empty where they were not watched.
    pub cores: Vec<CoreFigures>,
    /// About a second each.
    pub intervals: Vec<IntervalFigures>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// Directory of the record; empty without one.
    pub record: String,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficAsked {
    /// Length without draining, s; `null` ends with the counts.
    pub duration_s: Option<f64>,
    pub ramp_s: f64,
    pub drain_s: f64,
    pub seed: u64,
    /// Of the file; `null` where that side is somebody else's.
    pub client: Option<SideAsked>,
    pub server: Option<SideAsked>,
    pub templates: Vec<TemplateAsked>,
}

/// One end as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideAsked {
    /// `tap`, `af_xdp`, `af_packet` or `loopback`.
    pub transport: String,
    /// Empty over memory.
    pub interface: String,
    pub addresses: Vec<String>,
    /// Threads, each with a queue of its own.
    #[serde(default = "one")]
    pub threads: u32,
    /// How long packets may gather, ns.
    pub coalesce_ns: u64,
    /// Settings of TCP that the file gives, by name; a flag is 0 or 1.
    pub tcp: BTreeMap<String, serde_json::Value>,
    /// Faults are made on purpose.
    pub has_faults: bool,
}

fn one() -> u32 {
    1
}

/// One template as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateAsked {
    pub name: String,
    /// `http`, `stream` or `udp`.
    pub protocol: String,
    pub tls: bool,
    /// The first target; a range has more.
    pub target: String,
    /// How many targets.
    pub targets: u64,
    /// Connections per second; `null` where a number is kept open.
    pub rate_per_s: Option<f64>,
    /// `constant` or `poisson`; `null` likewise.
    pub arrival: Option<String>,
    /// Connections kept open; `null` at a rate.
    pub concurrent: Option<u32>,
    pub concurrent_max: Option<u32>,
    pub count: Option<u64>,
}

/// A slice of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalFigures {
    /// Its end, s from the beginning.
    pub at_s: f64,
    pub attempted: u64,
    pub connected: u64,
    pub completed: u64,
    pub failed: u64,
    pub exchanges: u64,
    /// Open at its end.
    pub open: u64,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    /// Segments sent again.
    pub retransmitted: u64,
}

/// The document of a run; `series` are the samples of the host beside it.
pub fn document(run: &TrafficRun, series: &[record::Series], directory: &str) -> TrafficDocument {
    let begin = run.outcome.intervals.first().map_or(Nanos(0), |i| i.from);
    let mut warnings = run.outcome.warnings.clone();
    warnings.extend(analysis::traffic::warnings(run));
    TrafficDocument {
        format: FORMAT,
        verdict: analysis::traffic::judge(run),
        asked: asked(&run.spec),
        interrupted: run.outcome.interrupted,
        figures: analysis::traffic::figures(run),
        cores: analysis::traffic::cores(series),
        intervals: run
            .outcome
            .intervals
            .iter()
            .map(|i| interval(i, begin))
            .collect(),
        warnings,
        record: directory.to_owned(),
    }
}

/// The published schema of [`TrafficDocument`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(TrafficDocument).to_value()
}

fn interval(i: &TrafficInterval, begin: Nanos) -> IntervalFigures {
    IntervalFigures {
        at_s: i.to.since(begin).as_secs_f64(),
        attempted: i.attempted,
        connected: i.connected,
        completed: i.completed,
        failed: i.failed,
        exchanges: i.exchanges,
        open: i.open,
        tx_bytes: i.tx_bytes,
        rx_bytes: i.rx_bytes,
        retransmitted: i.retransmitted,
    }
}

fn asked(spec: &TrafficSpec) -> TrafficAsked {
    TrafficAsked {
        duration_s: spec.duration.map(Nanos::as_secs_f64),
        ramp_s: spec.ramp.as_secs_f64(),
        drain_s: spec.drain.as_secs_f64(),
        seed: spec.seed,
        client: spec.client.as_ref().map(side_asked),
        server: spec.server.as_ref().map(side_asked),
        templates: spec.templates.iter().map(template_asked).collect(),
    }
}

fn side_asked(side: &Side) -> SideAsked {
    SideAsked {
        transport: side.transport.name().to_owned(),
        interface: side.interface.clone(),
        addresses: side.addresses.clone(),
        threads: side.threads,
        coalesce_ns: side.coalesce.0,
        tcp: given(&side.tcp),
        has_faults: side.faults.is_some(),
    }
}

/// The settings that are not left to the stack.
fn given(tcp: &TcpSettings) -> BTreeMap<String, serde_json::Value> {
    let value = serde_json::to_value(tcp).unwrap_or_default();
    let all = value.as_object().cloned().unwrap_or_default();
    all.into_iter().filter(|(_, v)| !v.is_null()).collect()
}

fn template_asked(t: &Template) -> TemplateAsked {
    let (rate_per_s, arrival, concurrent) = match t.pace {
        Pace::Constant(per_s) => (Some(per_s), Some("constant"), None),
        Pace::Poisson(per_s) => (Some(per_s), Some("poisson"), None),
        Pace::Concurrent(n) => (None, None, Some(n)),
    };
    TemplateAsked {
        name: t.name.clone(),
        protocol: match t.protocol {
            Protocol::Http(_) => "http",
            Protocol::Stream(_) => "stream",
            Protocol::Udp { .. } => "udp",
        }
        .to_owned(),
        tls: t.tls.is_some(),
        target: t
            .targets
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
        targets: t.targets.len() as u64,
        rate_per_s,
        arrival: arrival.map(str::to_owned),
        concurrent,
        concurrent_max: t.concurrent_max,
        count: t.count,
    }
}

/// The result for a terminal: verdict, templates, latencies, sides, ports, counters that are not zero, warnings.
pub fn traffic_text(document: &TrafficDocument, style: Style) -> String {
    let sections = [
        verdict_text(&document.verdict, style),
        asked_text(&document.asked),
        titled("templates", &template_rows(&document.figures), style),
        titled("latency", &latency_rows(&document.figures.templates), style),
        titled("sides", &side_rows(&document.figures.sides), style),
        titled("threads", &thread_rows(&document.figures.sides), style),
        titled("ports", &port_rows(&document.figures), style),
        titled("cores", &core_rows(&document.cores), style),
        counters_text(&document.figures.counters, style),
        warnings_text(&document.warnings, style),
    ];
    let shown: Vec<String> = sections.into_iter().filter(|s| !s.is_empty()).collect();
    shown.join("\n")
}

/// A table under its name; nothing for one without a row below its head.
fn titled(name: &str, rows: &[Vec<String>], style: Style) -> String {
    if rows.len() < 2 {
        return String::new();
    }
    let mut rows = rows.to_vec();
    name.clone_into(&mut rows[0][0]);
    let last = rows[0].len() - 1;
    // The meaning of a counter stands last, and failures in words.
    let words_last = ["counters", "templates"].contains(&name);
    let table = columns(&rows, |c| c == 0 || (words_last && c == last));
    let (head, body) = table.split_once('\n').unwrap_or((&table, ""));
    format!("{}\n{body}", style.heading(head))
}

fn cells(row: &[&str]) -> Vec<String> {
    row.iter().map(|&cell| cell.to_owned()).collect()
}

/// A span for people who typed it: whole seconds as `10s`.
fn time(seconds: f64) -> String {
    match seconds.fract() == 0.0 {
        true => format!("{seconds:.0}s"),
        false => Nanos((seconds * 1e9).round() as u64).to_string(),
    }
}

/// What would be run, for a terminal.
pub fn asked_text(asked: &TrafficAsked) -> String {
    columns(&asked_rows(asked), |_| true)
}

/// What was asked for, in two columns: of what, and how.
pub fn asked_rows(asked: &TrafficAsked) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, side) in [("client", &asked.client), ("server", &asked.server)] {
        rows.extend(side.as_ref().map(|s| cells(&[name, &side_words(s)])));
    }
    for t in &asked.templates {
        rows.push(cells(&[&t.name, &template_words(t)]));
    }
    let mut length = asked
        .duration_s
        .map_or_else(|| "until its counts are reached".to_owned(), time);
    if asked.ramp_s > 0.0 {
        length += &format!(", {} of them to grow", time(asked.ramp_s));
    }
    rows.push(cells(&[
        "duration",
        &format!("{length}, then at most {} to finish", time(asked.drain_s)),
    ]));
    rows
}

fn side_words(side: &SideAsked) -> String {
    let mut words = side.transport.clone();
    if !side.interface.is_empty() {
        words += &format!(" on {}", side.interface);
    }
    words += &format!(", {}", side.addresses.join(", "));
    words += &match side.coalesce_ns {
        0 => ", packets are looked at at once".to_owned(),
        ns => format!(", packets gather for {}", Nanos(ns)),
    };
    if side.threads > 1 {
        words += &format!(", {} threads", side.threads);
    }
    if !side.tcp.is_empty() {
        let given: Vec<String> = side
            .tcp
            .iter()
            .map(|(name, v)| format!("{name}={}", plain(v)))
            .collect();
        words += &format!(", {}", given.join(" "));
    }
    if side.has_faults {
        words += ", with faults on purpose";
    }
    words
}

fn plain(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn template_words(t: &TemplateAsked) -> String {
    let mut words = format!(
        "{}{} to {}",
        t.protocol,
        if t.tls { " over TLS" } else { "" },
        t.target
    );
    if t.targets > 1 {
        words += &format!(" and {} more", count(t.targets - 1));
    }
    words += &match (t.rate_per_s, t.concurrent) {
        (Some(per_s), _) => {
            format!(", {}/s {}", rate(per_s), t.arrival.as_deref().unwrap_or(""))
        }
        (None, Some(n)) => format!(", {} kept open", count(n.into())),
        (None, None) => String::new(),
    };
    if let Some(n) = t.concurrent_max {
        words += &format!(", at most {} open", count(n.into()));
    }
    if let Some(n) = t.count {
        words += &format!(", {} in total", count(n));
    }
    words
}

fn template_rows(figures: &TrafficFigures) -> Vec<Vec<String>> {
    let both = figures.templates.iter().any(|t| t.accepted.is_some());
    let mut rows = vec![cells(&[
        "",
        "due",
        "begun",
        "connected",
        "accepted",
        "completed",
        "per s",
        "exchanges/s",
        "received",
        "not as they should",
    ])];
    for t in &figures.templates {
        let mut row = vec![t.name.clone()];
        row.extend([t.scheduled, t.attempted, t.connected].map(count));
        row.push(t.accepted.map_or_else(none, count));
        row.push(count(t.completed));
        row.push(t.completed_per_s.map_or_else(none, rate));
        row.push(t.exchanges_per_s.map_or_else(none, rate));
        row.push(Bytes(t.received_bytes).to_string());
        row.push(wrong_words(t));
        rows.push(row);
    }
    if !both {
        for row in &mut rows {
            row.remove(4);
        }
    }
    rows
}

fn none() -> String {
    "-".to_owned()
}

/// What did not go as it should, in words.
pub fn wrong_words(t: &TemplateFigures) -> String {
    let failed = t
        .failed
        .iter()
        .map(|(kind, n)| format!("{} {kind}", count(*n)));
    let others = [
        (t.late, "late"),
        (t.dropped, "never begun"),
        (t.unfinished, "unfinished"),
    ];
    let others = others.into_iter().filter(|(n, _)| *n > 0);
    let all: Vec<String> = failed
        .chain(others.map(|(n, what)| format!("{} {what}", count(n))))
        .collect();
    match all.is_empty() {
        true => none(),
        false => all.join(", "),
    }
}

/// Microseconds with a decimal, as the counters of such generators are read.
fn us(ns: u64) -> String {
    let us = ns as f64 / 1e3;
    match us >= 1_000.0 {
        true => count(us.round() as u64),
        false => format!("{us:.1}"),
    }
}

fn latency_rows(templates: &[TemplateFigures]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&["", "us", "p50", "p99", "p99.9", "max"])];
    for t in templates {
        let l = &t.latency_ns;
        for (what, summary) in [
            ("connect", l.connect),
            ("first byte", l.first_byte),
            ("response", l.response),
        ] {
            let Some(s): Option<LatencySummary> = summary else {
                continue;
            };
            let mut row = cells(&[&t.name, what]);
            row.extend([s.p50, s.p99, s.p999, s.max].map(us));
            rows.push(row);
        }
    }
    rows
}

fn side_rows(sides: &[SideFigures]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&[
        "",
        "busy",
        "user",
        "system",
        "us/connection",
        "of it user",
        "cores per Gb/s",
        "flows at most",
        "bytes/flow",
        "coalesce",
    ])];
    for s in sides {
        let decimal = |v: Option<f64>| v.map_or_else(none, |v| format!("{v:.2}"));
        rows.push(vec![
            s.side.clone(),
            percent(s.utilization),
            format!("{:.2}s", s.cpu_user_s),
            format!("{:.2}s", s.cpu_system_s),
            decimal(s.cpu_us_per_connection),
            decimal(s.cpu_user_us_per_connection),
            s.cores_per_gbit.map_or_else(none, |v| format!("{v:.3}")),
            count(s.peak_flows),
            format!("{:.0}", s.flow_bytes),
            Nanos(s.coalesce_ns).to_string(),
        ]);
    }
    rows
}

/// One row for each thread of the sides that have several.
fn thread_rows(sides: &[SideFigures]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&[
        "",
        "cpu",
        "busy",
        "user",
        "system",
        "flows at most",
        "frames sent",
        "received",
        "handed over",
    ])];
    for side in sides {
        for (number, t) in side.threads.iter().enumerate() {
            rows.push(vec![
                format!("{} {number}", side.side),
                t.cpu.map_or_else(none, |cpu| cpu.to_string()),
                percent(t.utilization),
                format!("{:.2}s", t.cpu_user_s),
                format!("{:.2}s", t.cpu_system_s),
                count(t.peak_flows),
                count(t.tx_frames),
                count(t.rx_frames),
                count(t.handed_over),
            ]);
        }
    }
    rows
}

fn port_rows(figures: &TrafficFigures) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&[
        "", "sent", "frames/s", "Mbit/s", "dropped", "waited", "received", "frames/s", "Mbit/s",
        "dropped",
    ])];
    let seconds = figures.duration_s.max(f64::MIN_POSITIVE);
    let mbit = |bytes: u64| format!("{:.1}", bytes as f64 * 8.0 / 1e6 / seconds);
    for s in &figures.sides {
        let p = &s.ports;
        rows.push(vec![
            s.side.clone(),
            Bytes(p.tx_bytes).to_string(),
            rate(p.tx_frames as f64 / seconds),
            mbit(p.tx_bytes),
            count(p.tx_dropped),
            count(p.tx_full),
            Bytes(p.rx_bytes).to_string(),
            rate(p.rx_frames as f64 / seconds),
            mbit(p.rx_bytes),
            count(p.rx_dropped),
        ]);
    }
    rows
}

fn core_rows(cores: &[CoreFigures]) -> Vec<Vec<String>> {
    /// Less is idle.
    const WORKED: f64 = 0.01;
    let mut rows = vec![cells(&["", "busy", "user", "system", "softirq"])];
    for c in cores.iter().filter(|c| c.utilization >= WORKED) {
        let mode = |name: &str| c.by_mode.get(name).copied().map_or_else(none, percent);
        rows.push(vec![
            format!("core {}", c.core),
            percent(c.utilization),
            mode("user"),
            mode("system"),
            mode("softirq"),
        ]);
    }
    rows
}

/// The table of counters that are not zero; a side that is nobody's of ours has no column.
pub(crate) fn counters_text(counters: &[CounterRow], style: Style) -> String {
    let mut rows = counter_rows(counters);
    for side in [2, 1] {
        if rows.iter().skip(1).all(|row| row[side] == "-") {
            rows.iter_mut().for_each(|row| {
                row.remove(side);
            });
        }
    }
    titled("counters", &rows, style)
}

/// The rows of a table of counters that are not zero on both sides.
fn counter_rows(counters: &[CounterRow]) -> Vec<Vec<String>> {
    let mut rows = vec![cells(&["", "client", "server", "meaning"])];
    let value = |v: Option<u64>| v.map_or_else(none, |v| v.to_string());
    for row in counters.iter().filter(|row| row.is_told()) {
        rows.push(vec![
            row.name.clone(),
            value(row.client),
            value(row.server),
            row.meaning.clone(),
        ]);
    }
    rows
}

/// One line of live progress: what the last second brought.
pub fn progress_line(spec: &TrafficSpec, begin: Nanos, slice: &TrafficInterval) -> String {
    let seconds = slice
        .to
        .since(slice.from)
        .as_secs_f64()
        .max(f64::MIN_POSITIVE);
    let per_s = |n: u64| rate(n as f64 / seconds);
    let mut line = format!("{:>6.1}s", slice.to.since(begin).as_secs_f64());
    if let Some(all) = spec.duration {
        line += &format!(" of {:.1}s", all.as_secs_f64());
    }
    let mbit = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
    line += &format!(
        "  {:>9}/s completed  {} open  failed {}  tx {:.0} rx {:.0} Mbit/s  sent again {}",
        per_s(slice.completed),
        count(slice.open),
        count(slice.failed),
        mbit(slice.tx_bytes),
        mbit(slice.rx_bytes),
        count(slice.retransmitted)
    );
    line
}

/// The templates as they stand, for the live screen.
pub fn live_templates(templates: &[TemplateOutcome]) -> Vec<String> {
    let mut rows = vec![cells(&[
        "",
        "begun",
        "connected",
        "completed",
        "failed",
        "late",
        "response p50",
        "p99",
    ])];
    for t in templates {
        let at = |q: f64| t.response.quantile(q).map_or_else(none, |v| v.to_string());
        let failed: u64 = t.failed.values().sum();
        rows.push(vec![
            t.name.clone(),
            count(t.attempted),
            count(t.connected.max(t.accepted)),
            count(t.completed),
            count(failed),
            count(t.late),
            at(0.5),
            at(0.99),
        ]);
    }
    columns(&rows, |c| c == 0)
        .lines()
        .map(str::to_owned)
        .collect()
}
