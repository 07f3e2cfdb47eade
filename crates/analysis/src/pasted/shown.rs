//! Everything that was shown, as facts of the run under `seen.*`, and the rows that sentences name.
//!
//! The first artefact of a kind is the case; counters that were printed twice also give what they grew by. The names
//! are those of the `import` crate; what is computed from them stands here.

use super::all_readings;
use crate::diagnosis::{Expression, FactSet};
use crate::words::percent;
use record::Reported;
use record::pasted::{Artefact, Pasted, Row, Table};

/// Names of rows that a sentence holds at most.
const NAMED: usize = 3;
/// Characters of a row's name that are shown.
const LONGEST: usize = 60;
/// Times of one request.
const CURL: &str = "curl -w";
/// Generators that use one thread whatever they are told.
const ONE_THREAD: [&str; 5] = ["ab", "httperf", "locust", "artillery", "autocannon"];

/// Adds what was shown.
pub(super) fn add(pasted: &Pasted, facts: &mut FactSet) {
    let slowest = slowest_request(pasted);
    let cases = pasted.artefacts.iter();
    for artefact in cases.filter(|a| a.tool != CURL || slowest.is_some_and(|s| std::ptr::eq(s, *a)))
    {
        for (name, value) in &artefact.figures {
            let name = format!("seen.{name}");
            if facts.view("").value(&name).is_none() {
                facts.known("", &name, *value, &artefact.tool);
            }
        }
    }
    logs(pasted, facts);
    growth(pasted, facts);
    throttling(facts);
    for artefact in &pasted.artefacts {
        rows(artefact, facts);
    }
    if let Some(table) = pasted.vmstats.first() {
        vmstat(table, facts);
    }
    match pasted.loads.first() {
        Some(load) => generator(load, facts),
        None => part_of_a_load(facts),
    }
    calls(pasted, facts);
}

/// Of several requests the slowest is the case.
fn slowest_request(pasted: &Pasted) -> Option<&Artefact> {
    let longest = |a: &Artefact| a.figures.values().copied().fold(0.0, f64::max);
    let requests = pasted.artefacts.iter().filter(|a| a.tool == CURL);
    requests.max_by(|a, b| longest(a).total_cmp(&longest(b)))
}

/// A log that holds one message that is known does not hold the others.
fn logs(pasted: &Pasted, facts: &mut FactSet) {
    if !pasted.artefacts.iter().any(|a| a.tool == "log") {
        return;
    }
    for reading in all_readings() {
        for condition in &reading.when {
            let Some(text) = &condition.fact else {
                continue;
            };
            let Ok(expression) = Expression::parse(text) else {
                continue;
            };
            for name in expression.facts() {
                if name.starts_with("seen.log.") && facts.view("").value(name).is_none() {
                    facts.known("", name, 0.0, "log");
                }
            }
        }
    }
}

/// What counters grew by between the first and the last output of their tool.
fn growth(pasted: &Pasted, facts: &mut FactSet) {
    let counters: Vec<&Artefact> = pasted
        .artefacts
        .iter()
        .filter(|a| a.tool == "netstat -s")
        .collect();
    let [first, .., last] = counters.as_slice() else {
        return;
    };
    for (name, before) in &first.figures {
        if let Some(after) = last.value(name).filter(|after| after >= before) {
            let name = name.replace("netstat.", "seen.growth.");
            facts.known(
                "",
                &name,
                after - before,
                "netstat -s, the last less the first",
            );
        }
    }
}

fn throttling(facts: &mut FactSet) {
    let view = facts.view("");
    let value = |name: &str| view.value(&format!("seen.throttle.{name}"));
    let time_ms = value("time_ns")
        .map(|ns| ns / 1e6)
        .or_else(|| value("time_us").map(|us| us / 1e3));
    let each = time_ms.zip(value("throttled").filter(|n| *n > 0.0));
    if let Some((ms, n)) = each {
        facts.known("", "seen.throttle.stopped_ms", ms / n, "cpu.stat");
    }
}

fn rows(artefact: &Artefact, facts: &mut FactSet) {
    let tool = artefact.tool.as_str();
    match tool {
        "top" => {
            let generator = artefact.rows.iter().find(|r| {
                let name = r.label.rsplit('/').next().unwrap_or_default();
                ONE_THREAD.contains(&name)
            });
            if let Some(row) = generator {
                facts.known("", "seen.top.generator_busiest", row.share, tool);
            }
            let interrupts = artefact.rows.first();
            if let Some(row) = interrupts.filter(|r| r.label.starts_with("ksoftirqd")) {
                facts.known("", "seen.top.ksoftirqd", row.share, tool);
            }
        }
        "show profiling" => facts.known("", "seen.haproxy.profiled", 1.0, tool),
        "list of sockets" => {
            let closing = artefact.rows.iter().filter(|r| r.label == "time_wait");
            let most = closing.map(|r| r.share).fold(0.0, f64::max);
            facts.known("", "seen.sockets.time_wait_to_one", most, tool);
            let waiting = artefact.value("sockets.close_wait").unwrap_or(0.0);
            let listed = artefact.rows.iter().map(|r| r.share).sum::<f64>();
            if listed > 0.0 {
                facts.known("", "seen.sockets.close_wait_share", waiting / listed, tool);
            }
        }
        _ => {}
    }
}

fn vmstat(table: &Table, facts: &mut FactSet) {
    for column in &table.columns {
        // What waits for a disk leaves the CPU idle: all rows count, not those with most CPU.
        let Some(values) = table.column(column).filter(|v| !v.is_empty()) else {
            continue;
        };
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let name = format!("seen.vmstat.{column}");
        facts.known("", &name, mean, "vmstat");
        let mode = match column.as_str() {
            "us" => "user",
            "sy" => "system",
            "id" => "idle",
            "wa" => "iowait",
            "st" => "steal",
            _ => continue,
        };
        facts.known("", &format!("seen.cpu.{mode}"), mean, "vmstat");
    }
}

fn generator(load: &Reported, facts: &mut FactSet) {
    let requests = load.value("requests").filter(|n| *n > 0.0);
    let connections = load.value("connections");
    let mut known = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.known("", &format!("seen.load.{name}"), value, &load.tool);
        }
    };
    known("requests", requests);
    known("connections", connections);
    known("rate_per_s", load.value("rate_per_s"));
    let failed = load.failures().unwrap_or(0.0);
    known("errors_share", requests.map(|n| (failed / n).min(1.0)));
    known("timeouts", load.value("failed.timeout"));
    known(
        "connect_max_ms",
        load.value("connect_ns.max").map(|ns| ns / 1e6),
    );
    let p50 = load.value("latency_ns.p50");
    let mean = load.value("latency_ns.mean");
    let typical = p50.or(mean).filter(|ns| *ns > 0.0);
    known("typical_ms", typical.map(|ns| ns / 1e6));
    let deviation = load
        .value("latency_ns.stddev")
        .zip(mean.filter(|ns| *ns > 0.0));
    let tail = load.value("latency_ns.p99").zip(typical);
    let spread = deviation
        .map(|(s, m)| s / m)
        .or_else(|| tail.map(|(p99, p50)| (p99 - p50) / p50));
    known("spread", spread);
    let kept = load.value("keep_alive_requests").unwrap_or(0.0);
    known(
        "opens_each",
        (load.tool == "ab" && kept == 0.0).then_some(1.0),
    );
    let read_errors = load.value("failed.read");
    if let Some(n) = read_errors {
        facts.known("", "seen.wrk.read_errors", n, &load.tool);
    }
    if let Some(n) = load.value("failed.connect") {
        facts.known("", "seen.wrk.connect_errors", n, &load.tool);
    }
}

/// A generator's output of which the line with the rate is cut off.
fn part_of_a_load(facts: &mut FactSet) {
    let view = facts.view("");
    let requests = view.value("seen.load.requests").filter(|n| *n > 0.0);
    let failed = view.value("seen.load.not_answered");
    let connect = view.value("seen.load.connect_max");
    if let Some((n, all)) = failed.zip(requests) {
        facts.known(
            "",
            "seen.load.errors_share",
            (n / all).min(1.0),
            "a load generator",
        );
    }
    if let Some(ms) = facts.view("").value("seen.load.p50_ms") {
        facts.known("", "seen.load.typical_ms", ms, "a load generator");
    }
    if let Some(ms) = connect {
        facts.known("", "seen.load.connect_max_ms", ms, "a load generator");
    }
}

fn calls(pasted: &Pasted, facts: &mut FactSet) {
    let Some(summary) = pasted.straces.first() else {
        return;
    };
    let seconds: f64 = summary.rows.iter().map(|r| r.seconds).sum();
    let longest = summary.rows.iter().map(|r| r.seconds).fold(0.0, f64::max);
    if seconds > 0.0 {
        facts.known(
            "",
            "seen.strace_c.top_share",
            longest / seconds,
            "strace -c",
        );
    }
    let all: u64 = summary.rows.iter().map(|r| r.calls).sum();
    let failed: u64 = summary.rows.iter().map(|r| r.errors).sum();
    if all > 0 {
        let share = failed as f64 / all as f64;
        facts.known("", "seen.strace_c.failing_share", share, "strace -c");
    }
}

/// A row in words: `deflate_slow in libz.so (41 %)`.
pub(super) fn row_text(row: &Row) -> String {
    let short = |text: &str| -> String {
        let cut: String = text.chars().take(LONGEST).collect();
        if cut.len() < text.len() {
            format!("{cut}...")
        } else {
            cut
        }
    };
    match row.place.as_str() {
        "" => format!("{} ({})", short(&row.label), percent(row.share)),
        place => format!(
            "{} in {} ({})",
            short(&row.label),
            short(place),
            percent(row.share)
        ),
    }
}

/// A sentence with `@TOOL` replaced by the largest row of that tool, `@profile` by that of the first profile,
/// `@@profile` by its largest rows, and `@load` by the generator's name.
pub(super) fn with_rows(text: &str, pasted: &Pasted) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let profile = pasted.artefacts.iter().find(|a| a.profile.is_some());
    let rows = profile.map_or(&[][..], |a| a.rows.as_slice());
    let several: Vec<String> = rows.iter().take(NAMED).map(row_text).collect();
    let largest = |rows: &[Row]| rows.first().map(row_text).unwrap_or_default();
    let generator = pasted
        .loads
        .first()
        .map_or("the generator", |l| l.tool.as_str());
    let mut text = text
        .replace("@@profile", &several.join(", "))
        .replace("@profile", &largest(rows))
        .replace("@load", generator);
    if let Some(call) = pasted.straces.first().and_then(|s| {
        let mut rows = s.rows.iter();
        let first = rows.next()?;
        Some(rows.fold(first, |a, b| if b.seconds > a.seconds { b } else { a }))
    }) {
        let total: f64 = pasted.straces[0].rows.iter().map(|r| r.seconds).sum();
        let row = Row {
            label: call.call.clone(),
            share: call.seconds / total.max(f64::MIN_POSITIVE),
            ..Row::default()
        };
        text = text.replace("@strace -c", &row_text(&row));
    }
    for artefact in &pasted.artefacts {
        let mark = format!("@{}", artefact.tool);
        if text.contains(&mark) && !artefact.rows.is_empty() {
            let row = &artefact.rows[0];
            let words = if artefact.tool == "strace -T" {
                let on = match row.place.as_str() {
                    "" => String::new(),
                    place => format!(" on `{place}`"),
                };
                format!("{}{on} ({:.3} s)", row.label, row.share)
            } else {
                row_text(row)
            };
            text = text.replace(&mark, &words);
        }
    }
    text
}
