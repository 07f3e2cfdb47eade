//! Everything that was shown, as facts of the run under `seen.*`, and the rows that sentences name.
//!
//! The first artefact of a kind is the case; counters that were printed twice also give what they grew by. The names
//! are those of the `import` crate; what is computed from them stands here.

use super::all_readings;
use crate::diagnosis::{Expression, FactSet};
use crate::words::count;
use crate::words::percent;
use record::Reported;
use record::pasted::{Artefact, CallCount, Pasted, Row, StraceSummary, Table};
use std::collections::{BTreeMap, BTreeSet};

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
    let of_curl = |a: &Artefact| a.tool != CURL || slowest.is_some_and(|s| std::ptr::eq(s, a));
    let cases = pasted.artefacts.iter().enumerate();
    for (_, artefact) in cases.filter(|(i, a)| of_curl(a) && !warms_up(pasted, *i)) {
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
        Some(load) => {
            generator(load, facts);
            without_a_response(&pasted.loads, facts);
        }
        None => part_of_a_load(facts),
    }
    closed_loop(pasted, facts);
    calls(pasted, facts);
}

/// A generator's run of which only its connections are printed comes before the one that counts.
fn warms_up(pasted: &Pasted, at: usize) -> bool {
    let run = &pasted.artefacts[at];
    let bare = run
        .figures
        .keys()
        .all(|name| name == "load.connections" || name == "load.pipelined");
    let later = || {
        pasted.artefacts[at + 1..]
            .iter()
            .any(|a| a.tool == run.tool)
    };
    !run.figures.is_empty() && bare && later()
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

/// Kernel functions that look for a local port for a new connection, and whether it is in use.
const PORT_SEARCH: [&str; 4] = [
    "__inet_check_established",
    "__inet6_check_established",
    "__inet_hash_connect",
    "inet_hash_connect",
];

fn rows(artefact: &Artefact, facts: &mut FactSet) {
    let tool = artefact.tool.as_str();
    if artefact.profile.is_some()
        && facts
            .view("")
            .value("seen.profile.port_search_share")
            .is_none()
    {
        let searching = artefact.rows.iter();
        let searching = searching.filter(|r| PORT_SEARCH.contains(&r.label.as_str()));
        let share = searching.map(|r| r.share).sum();
        facts.known("", "seen.profile.port_search_share", share, tool);
    }
    let first_is_the_runtimes = artefact.rows.first().is_some_and(|r| !is_own(&r.label));
    if tool == "pprof -top"
        && first_is_the_runtimes
        && facts.view("").value("seen.profile.own_share").is_none()
        && let Some(own) = artefact.rows.iter().find(|r| is_own(&r.label))
    {
        facts.known("", "seen.profile.own_share", own.share, tool);
    }
    if ["top", "top of BusyBox"].contains(&tool) {
        daemons(artefact, facts);
    }
    match tool {
        "top" => {
            let generator = artefact.rows.iter().find(|r| {
                let name = r.label.rsplit('/').next().unwrap_or_default();
                ONE_THREAD.contains(&name)
            });
            if let Some(row) = generator {
                facts.known("", "seen.top.generator_busiest", row.share, tool);
            }
            let pages = artefact
                .rows
                .iter()
                .filter(|r| r.label.starts_with("khugepaged") || r.label.starts_with("kcompactd"));
            let most = pages.map(|r| r.share).fold(0.0, f64::max);
            if most > 0.0 {
                facts.known("", "seen.top.khugepaged", most, tool);
            }
            let reclaim = artefact
                .rows
                .iter()
                .filter(|r| r.label.starts_with("kswapd"));
            let most = reclaim.map(|r| r.share).fold(0.0, f64::max);
            if most > 0.0 {
                facts.known("", "seen.top.kswapd", most, tool);
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

/// Programs that run containers for others.
const DAEMONS: [&str; 7] = [
    "dockerd",
    "containerd",
    "kubelet",
    "crio",
    "podman",
    "conmon",
    "k3s-server",
];

/// What the daemons of containers take of the CPU beside all other programs; the programs that watch have none to speak
/// of.
fn daemons(artefact: &Artefact, facts: &mut FactSet) {
    let is_daemon = |row: &&Row| {
        let command = row.label.split_whitespace().next().unwrap_or_default();
        let name = command.rsplit('/').next().unwrap_or_default();
        DAEMONS.iter().any(|d| name.starts_with(d))
    };
    let all: f64 = artefact.rows.iter().map(|r| r.share).sum();
    let theirs: f64 = artefact
        .rows
        .iter()
        .filter(is_daemon)
        .map(|r| r.share)
        .sum();
    if theirs > 0.0 {
        facts.known("", "seen.top.daemons", theirs, &artefact.tool);
        facts.known("", "seen.top.others", all - theirs, &artefact.tool);
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
    let requests = load.value("requests").or_else(|| load.ended());
    let requests = requests.filter(|n| *n > 0.0);
    let connections = load.value("connections");
    let closes = load.tool == "wrk" && facts.view("").value("seen.asked.closes").is_some();
    let mut known = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.known("", &format!("seen.load.{name}"), value, &load.tool);
        }
    };
    known("requests", requests);
    known("connections", connections);
    known("rate_per_s", load.value("rate_per_s"));
    let timeouts = load.value("failed.timeout");
    // wrk counts a response that comes after its time limit as a request, and leaves only its time out.
    let late = timeouts
        .filter(|n| load.tool == "wrk" && requests.is_some_and(|all| *n > 0.0 && *n <= all));
    // Where its command asks for the end of each connection, wrk counts ends as read errors.
    let ends = load.value("failed.read").filter(|_| closes);
    let apart = late.unwrap_or(0.0) + ends.unwrap_or(0.0);
    let failed = load.failures().map(|n| (n - apart).max(0.0));
    known(
        "errors_share",
        requests.map(|n| (failed.unwrap_or(0.0) / n).min(1.0)),
    );
    known("failed", failed);
    known("late", late);
    known("timeouts", timeouts);
    known(
        "longest_ms",
        load.value("latency_ns.max").map(|ns| ns / 1e6),
    );
    known(
        "shortest_ms",
        load.value("latency_ns.min").map(|ns| ns / 1e6),
    );
    known(
        "connect_max_ms",
        load.value("connect_ns.max").map(|ns| ns / 1e6),
    );
    let p50 = load.value("latency_ns.p50");
    let mean = load.value("latency_ns.mean");
    known("mean_ms", mean.filter(|ns| *ns > 0.0).map(|ns| ns / 1e6));
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
    statuses(load, facts);
    let read_errors = load.value("failed.read");
    if let Some(n) = read_errors {
        facts.known("", "seen.wrk.read_errors", n, &load.tool);
    }
    if let Some(n) = load.value("failed.connect") {
        facts.known("", "seen.wrk.connect_errors", n, &load.tool);
    }
}

/// What a generator's mean is of the time that its connections had for a response, with one request at a time on each.
fn closed_loop(pasted: &Pasted, facts: &mut FactSet) {
    let whole = pasted.loads.iter().map(|load| {
        let ms = |name: &str| load.value(name).map(|ns| ns / 1e6);
        let figures = ["connections", "duration_s", "requests"].map(|name| load.value(name));
        (figures, ms("latency_ns.mean"), ms("latency_ns.max"))
    });
    let parts = pasted.artefacts.iter().map(|run| {
        let figures = ["connections", "duration_s", "requests"];
        let figures = figures.map(|name| run.value(&format!("load.{name}")));
        let ms = |name: &str| run.value(name).map(|s| s * 1e3);
        (figures, ms("load.mean_s"), ms("load.max_s"))
    });
    let mut all = whole.chain(parts).filter_map(|(figures, mean, longest)| {
        let [Some(connections), Some(s), Some(requests)] = figures else {
            return None;
        };
        Some((connections, s, requests, mean?, longest))
    });
    let Some((connections, s, requests, mean, longest)) = all.next() else {
        return;
    };
    let possible = connections * s * 1e3 / requests.max(1.0);
    for (name, value) in [
        ("connections", connections),
        ("requests", requests),
        ("mean_ms", mean),
        ("longest_ms", longest.unwrap_or(mean)),
        ("possible_ms", possible),
        ("beyond", mean / possible.max(f64::MIN_POSITIVE)),
    ] {
        let name = format!("seen.closed.{name}");
        facts.known("", &name, value, "a load generator");
    }
}

/// A run in which no response came at all, and beside it one of the same text in which some did.
fn without_a_response(loads: &[Reported], facts: &mut FactSet) {
    let none = |l: &&Reported| l.value("requests") == Some(0.0) && l.value("duration_s").is_some();
    let Some(load) = loads.iter().find(none) else {
        return;
    };
    let duration = load.value("duration_s");
    let mut known = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            facts.known("", &format!("seen.{name}"), value, &load.tool);
        }
    };
    known("no_response.s", duration);
    known("no_response.connections", load.value("connections"));
    let same = loads.iter().filter(|l| l.tool == load.tool);
    let other = same
        .filter(|l| l.value("requests").is_some_and(|n| n > 0.0))
        .find(|l| l.value("connections").is_some());
    known(
        "other_run.rate_per_s",
        other.and_then(|l| l.value("rate_per_s")),
    );
    known(
        "other_run.connections",
        other.and_then(|l| l.value("connections")),
    );
}

/// A generator's output of which the line with the rate is cut off.
fn part_of_a_load(facts: &mut FactSet) {
    let view = facts.view("");
    let of = |name: &str| view.value(&format!("seen.load.{name}"));
    // siege counts a failed one outside of its transactions; of these its versions call different ones successful.
    let apart = view.value("seen.siege.failed");
    let requests = of("requests").map(|n| n + apart.unwrap_or(0.0));
    let requests = requests.filter(|n| *n > 0.0);
    let unsuccessful = requests
        .zip(of("succeeded"))
        .map(|(all, good)| (all - good).max(0.0));
    let failed = of("not_answered").or(apart).or(unsuccessful);
    let counted = failed.zip(requests).map(|(n, all)| (n / all).min(1.0));
    let said = of("success_percent").map(|n| 1.0 - n / 100.0);
    let share = [counted, said].into_iter().flatten().reduce(f64::max);
    let listed: Vec<f64> = ["4xx", "5xx"]
        .iter()
        .filter_map(|class| view.value(&format!("seen.status.{class}")))
        .collect();
    // Some generators list the statuses of errors alone.
    if !listed.is_empty() && view.value("seen.status.all").is_none() {
        let all = requests.unwrap_or(0.0).max(listed.iter().sum());
        facts.known("", "seen.status.all", all, "a load generator");
    }
    let view = facts.view("");
    let of = |name: &str| view.value(&format!("seen.load.{name}"));
    let milliseconds = |ms: &str, s: &str| of(ms).or_else(|| of(s).map(|s| s * 1e3));
    let mean = milliseconds("mean_ms", "mean_s");
    let found = [
        ("failed", failed),
        ("connections", view.value("seen.asked.users")),
        ("errors_share", share),
        ("typical_ms", milliseconds("p50_ms", "p50_s").or(mean)),
        ("shortest_ms", milliseconds("min_ms", "min_s")),
        ("connect_max_ms", of("connect_max")),
        (
            "longest_ms",
            milliseconds("max_ms", "max_s").or_else(|| milliseconds("p99_ms", "p99_s")),
        ),
    ];
    for (name, value) in found {
        if let Some(value) = value {
            facts.known("", &format!("seen.load.{name}"), value, "a load generator");
        }
    }
}

/// Responses by status as a generator counts them; its own text may have told them.
fn statuses(load: &Reported, facts: &mut FactSet) {
    if facts.view("").value("seen.status.all").is_some() {
        return;
    }
    let mut counts: BTreeMap<String, f64> = BTreeMap::new();
    for figure in &load.figures {
        let name = figure.name.strip_prefix("failed.").unwrap_or(&figure.name);
        let Some(status) = name.strip_prefix("status.") else {
            continue;
        };
        let class = format!("{}xx", status.chars().next().unwrap_or('0'));
        let names = BTreeSet::from([status.to_owned(), class, "all".to_owned()]);
        for name in names {
            *counts.entry(name).or_insert(0.0) += figure.value;
        }
    }
    for (name, n) in counts {
        facts.known("", &format!("seen.status.{name}"), n, &load.tool);
    }
}

/// Calls that may wait as long as they like.
const WAITING: [&str; 11] = [
    "nanosleep",
    "clock_nanosleep",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "futex",
    "wait4",
    "waitid",
];

/// Calls that read a clock.
const CLOCKS: [&str; 4] = ["clock_gettime", "gettimeofday", "time", "clock_gettime64"];

fn calls(pasted: &Pasted, facts: &mut FactSet) {
    let Some(summary) = pasted.straces.first() else {
        return;
    };
    if let Some(top) = top_call(summary) {
        facts.known("", "seen.strace_c.top_share", top.share, "strace -c");
        let of_children = summary.rows.iter().filter(|r| is_for_children(r));
        let share = of_children.map(|r| r.share).sum();
        facts.known("", "seen.strace_c.of_children_share", share, "strace -c");
    }
    let all: u64 = summary.rows.iter().map(|r| r.calls).sum();
    let failed: u64 = summary.rows.iter().map(|r| r.errors).sum();
    if all > 0 {
        let share = failed as f64 / all as f64;
        facts.known("", "seen.strace_c.failing_share", share, "strace -c");
        let clocks = || {
            summary
                .rows
                .iter()
                .filter(|r| CLOCKS.contains(&r.call.as_str()))
        };
        let asked: u64 = clocks().map(|r| r.calls).sum();
        let waits = summary.rows.iter();
        let waits = waits.filter(|r| WAITING.contains(&r.call.as_str()));
        let waits: u64 = waits.map(|r| r.calls).sum();
        let seconds =
            |rows: &mut dyn Iterator<Item = &CallCount>| -> f64 { rows.map(|r| r.seconds).sum() };
        let (of_clocks, whole) = (seconds(&mut clocks()), seconds(&mut summary.rows.iter()));
        for (name, n) in [
            ("all_calls", all as f64),
            ("clock_calls", asked as f64),
            ("clock_share", asked as f64 / all as f64),
            ("clock_time_share", of_clocks / whole.max(f64::MIN_POSITIVE)),
            ("whole_ms", whole * 1e3),
            ("waiting_calls", waits as f64),
        ] {
            facts.known("", &format!("seen.strace_c.{name}"), n, "strace -c");
        }
    }
}

/// A wait for a child, which says nothing where the child's own calls are counted too.
fn is_for_children(row: &CallCount) -> bool {
    matches!(row.call.as_str(), "wait4" | "waitid")
}

/// The call that takes most time, by its printed part of the whole: rows may be cut off.
fn top_call(summary: &StraceSummary) -> Option<&CallCount> {
    let largest = |of_children: bool| {
        let rows = summary.rows.iter().filter(|r| r.seconds > 0.0);
        let rows = rows.filter(|r| is_for_children(r) == of_children);
        rows.reduce(|a, b| if b.seconds > a.seconds { b } else { a })
    };
    largest(false).or_else(|| largest(true))
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

/// Characters of a quoted line that are shown.
const QUOTED: usize = 140;

/// A sentence about messages with the first line of them behind it.
pub(super) fn with_quote(says: String, facts: &[&str], pasted: &Pasted) -> String {
    let rows = pasted
        .artefacts
        .iter()
        .filter(|a| a.tool == "log")
        .flat_map(|a| &a.rows);
    let line = rows.into_iter().find(|r| {
        !r.place.is_empty()
            && facts
                .iter()
                .any(|f| f.contains(&format!("seen.{}", r.place)))
    });
    match line {
        Some(row) if !says.contains(&row.label) => {
            let short: String = row.label.chars().take(QUOTED).collect();
            format!("{says} (`{short}`)")
        }
        _ => says,
    }
}

/// A list of what has a name of its own in sentences: the artefact's row, how many of them, in which words.
type Mark = (
    &'static str,
    fn(&Artefact) -> bool,
    usize,
    fn(&Row) -> String,
);

/// A row with what is said of it behind.
fn described(row: &Row) -> String {
    match row.place.as_str() {
        "" => format!("`{}`", row.label),
        place => format!("`{}` ({place})", row.label),
    }
}

/// A state or a flag with its meaning, and how often.
fn meant(row: &Row) -> String {
    let n = count(row.share as u64);
    format!("{} ({n} times: {})", row.label, row.place)
}

const MARKS: [Mark; 40] = [
    ("@busybox", |a| a.tool == "top of BusyBox", 3, row_text),
    ("@tree_first", |a| a.tool == "pyinstrument", 1, described),
    (
        "@called",
        |a| a.value("called.share").is_some(),
        1,
        |r| format!("`{}` in {}", r.label, r.place),
    ),
    (
        "@blocked",
        |a| a.tool == "blocked threads",
        3,
        |r| format!("`{}` ({})", r.label, count(r.share as u64)),
    ),
    (
        "@retried",
        |a| a.tool == "requests that were sent again",
        2,
        |r| format!("`{}` {}, {} times", r.label, r.place, count(r.share as u64)),
    ),
    (
        "@command",
        |a| a.tool == "command of the generator",
        1,
        described,
    ),
    (
        "@begun",
        |a| a.tool == "begun load",
        1,
        |r| format!("{}: `{}`", r.place, r.label),
    ),
    (
        "@redis-benchmark",
        |a| a.tool == "redis-benchmark",
        1,
        described,
    ),
    (
        "@walks",
        |a| a.tool == "lengths of redis",
        1,
        |r| r.label.clone(),
    ),
    (
        "@blocks",
        |a| a.tool == "blocks of the plan",
        1,
        |r| r.label.clone(),
    ),
    ("@file", |a| a.tool == "file that is read", 1, described),
    (
        "@silence",
        |a| a.tool == "silence of a log",
        2,
        |r| format!("{} `{}`", r.place, r.label),
    ),
    (
        "@mtr",
        |a| a.tool == "mtr",
        1,
        |r| format!("`{}`, {}", r.label, r.place),
    ),
    ("@names", |a| a.tool == "dig", 2, described),
    ("@hpa", |a| a.tool == "kubectl get hpa", 1, described),
    (
        "@descriptors",
        |a| a.tool == "descriptors",
        3,
        |r| format!("{} {}", r.label, count(r.share as u64)),
    ),
    ("@speed", |a| a.tool == "openssl speed", 1, described),
    (
        "@failures",
        |a| a.value("failures.all").is_some(),
        3,
        |r| match r.share {
            n if n > 1.0 => format!("`{}` {} times", r.label, count(n as u64)),
            _ => format!("`{}`", r.label),
        },
    ),
    (
        "@goroutines",
        |a| a.value("go.goroutines").is_some(),
        1,
        described,
    ),
    (
        "@connection",
        |a| a.value("connection.kept").is_some(),
        2,
        described,
    ),
    (
        "@digest",
        |a| a.value("digest.count").is_some(),
        1,
        described,
    ),
    ("@plan", |a| a.value("plan.steps").is_some(), 2, described),
    (
        "@ended",
        |a| a.value("haproxy.sessions").is_some(),
        3,
        meant,
    ),
    ("@envoy", |a| a.value("envoy.flagged").is_some(), 3, meant),
    ("@server", |a| a.tool == "show stat", 2, described),
    (
        "@pause",
        |a| a.tool == "GC log",
        1,
        |r| match r.share {
            s if s > 0.0 => format!("`{}` ({s:.3} s)", r.label),
            _ => format!("`{}`", r.label),
        },
    ),
    (
        "@request",
        |a| a.value("framework.longest_s").is_some(),
        1,
        |r| format!("`{}` ({:.3} s)", r.label, r.share),
    ),
    (
        "@waits_for",
        |a| a.value("database.waits").is_some(),
        3,
        |r| format!("{} ({})", r.label, count(r.share as u64)),
    ),
    (
        "@event",
        |a| a.value("redis.event_ms").is_some(),
        2,
        |r| format!("{} ({} ms)", r.label, count(r.share as u64)),
    ),
    (
        "@recorded",
        |a| a.value("jfr.events").is_some(),
        2,
        |r| format!("`{}` ({:.3} s)", r.label, r.share),
    ),
    (
        "@trace_gc",
        |a| a.value("node.collections").is_some(),
        1,
        |r| format!("`{}`", r.label),
    ),
    (
        "@own_loop",
        |a| a.tool == "event loops of the thread dump",
        2,
        |r| format!("`{}`", r.label),
    ),
    (
        "@tail",
        |a| a.value("metrics.tail").is_some(),
        1,
        |r| format!("`{}` is {:.3}", r.label, r.share),
    ),
    (
        "@waits_first",
        |a| a.value("database.waits_first").is_some(),
        1,
        |r| match r.place.as_str() {
            "" => format!("`{}`", r.label),
            older => format!("`{}` (older than it, and not waiting: `{older}`)", r.label),
        },
    ),
    (
        "@series",
        |a| a.value("prometheus.count").is_some(),
        1,
        |r| format!("`{}`", r.label),
    ),
    (
        "@statement",
        |a| a.value("database.longest_s").is_some() && !a.rows.is_empty(),
        1,
        |r| match r.share {
            s if s >= 100.0 => format!("`{}` ({} s)", r.label, count(s as u64)),
            s if s >= 10.0 => {
                let seconds = format!("{s:.1}");
                let seconds = seconds.trim_end_matches(".0");
                format!("`{}` ({seconds} s)", r.label)
            }
            s => format!("`{}` ({s:.3} s)", r.label),
        },
    ),
    (
        "@statuses",
        |a| a.figures.keys().any(|n| n.starts_with("status.")),
        4,
        |r| format!("{} {} times", r.label, count(r.share as u64)),
    ),
    (
        "@messages",
        |a| a.tool == "messages",
        2,
        |r| match r.share {
            n if n > 1.0 => format!("`{}` ({} times)", r.label, count(n as u64)),
            _ => format!("`{}`", r.label),
        },
    ),
    (
        "@frames",
        |a| a.tool == "thread dump",
        3,
        |r| format!("`{}` ({})", r.label, count(r.share as u64)),
    ),
    (
        "@lock",
        |a| a.value("threads.at_one_lock").is_some(),
        1,
        |r| format!("`{}` ({})", r.label, count(r.share as u64)),
    ),
];

/// A sentence whose marks have become rows: those above, and those of tools.
pub(super) fn with_rows(text: &str, pasted: &Pasted) -> String {
    if !text.contains('@') {
        return text.to_owned();
    }
    let mut text = listed(text, pasted);
    for (mark, is, most, words) in MARKS {
        if !text.contains(mark) {
            continue;
        }
        let artefact = pasted.artefacts.iter().find(|a| is(a));
        let rows = artefact.map_or(&[][..], |a| a.rows.as_slice());
        let rows: Vec<String> = rows.iter().take(most).map(words).collect();
        text = text.replace(mark, &rows.join(", "));
    }
    if text.contains("@metrics") {
        text = text.replace("@metrics", &series(pasted));
    }
    if text.contains("@step") {
        text = text.replace("@step", step(pasted));
    }
    if text.contains("@counters") {
        text = text.replace("@counters", &counters(pasted));
    }
    if text.contains("@own") {
        text = text.replace("@own", &own(pasted));
    }
    if text.contains("@alone") {
        text = text.replace("@alone", alone(pasted));
    }
    if text.contains("@states") {
        text = text.replace("@states", &states(pasted));
    }
    if text.contains("@scans") {
        text = text.replace("@scans", &scans(pasted));
    }
    of_tools(&text, pasted)
}

/// A sentence with `@@NAME` replaced by the first rows of the artefact that counts `NAME.rows`, and `@tool:NAME` by its
/// tool.
fn listed(text: &str, pasted: &Pasted) -> String {
    let mut text = text.to_owned();
    for artefact in &pasted.artefacts {
        for name in artefact
            .figures
            .keys()
            .filter_map(|n| n.strip_suffix(".rows"))
        {
            let rows = artefact.rows.iter().take(NAMED).map(described);
            let rows: Vec<String> = rows.collect();
            text = text.replace(&format!("@@{name}"), &rows.join(", "));
            text = text.replace(&format!("@tool:{name}"), &artefact.tool);
        }
    }
    text
}

/// The largest series of a server's metrics.
fn series(pasted: &Pasted) -> String {
    let all = pasted.artefacts.iter().filter(|a| a.tool == "metrics");
    let rows = all.flat_map(|a| &a.rows).take(NAMED);
    let named: Vec<String> = rows
        .map(|r| format!("`{}` {:.0}", r.label, r.share))
        .collect();
    named.join(", ")
}

/// The largest counters of the kernel.
fn counters(pasted: &Pasted) -> String {
    let first = pasted.artefacts.iter().find(|a| a.tool == "netstat -s");
    let mut all: Vec<(&str, f64)> = first
        .into_iter()
        .flat_map(|a| &a.figures)
        .map(|(name, n)| {
            let name = name
                .trim_start_matches("netstat.")
                .trim_start_matches("counter.");
            (name, *n)
        })
        .filter(|(_, n)| *n >= 1.0)
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(NAMED);
    let named: Vec<String> = all
        .iter()
        .map(|(name, n)| format!("{name} {}", count(*n as u64)))
        .collect();
    named.join(", ")
}

/// Of a list of functions the first that is none of the runtime's or the system's.
fn own(pasted: &Pasted) -> String {
    let profile = pasted.artefacts.iter().find(|a| a.profile.is_some());
    let first = profile.and_then(|a| a.rows.iter().find(|r| is_own(&r.label)));
    first.map(row_text).unwrap_or_default()
}

/// Prefixes of what is the runtime's in any Go program.
const RUNTIME: [&str; 7] = [
    "runtime.",
    "runtime/",
    "syscall.",
    "internal/",
    "sync.",
    "sync/",
    "gcWriteBarrier",
];

fn is_own(symbol: &str) -> bool {
    !RUNTIME.iter().any(|r| symbol.starts_with(r))
}

/// Parts of a system that an unknown text is about, and what is run next there.
#[rustfmt::skip]
const STEPS: [(&str, &str); 10] = [
    ("about.database", "the database's slow log with a limit of 0.1 s and `EXPLAIN (ANALYZE, BUFFERS)` of its statement, `SELECT state, wait_event, query FROM pg_stat_activity` or `SHOW FULL PROCESSLIST` while it is slow, and how many queries a request sends (many of one kind are read at once by a JOIN, `select_related` and `prefetch_related`, `includes`)"),
    ("about.code", "who calls the largest row, and how often: a profile with callers (`py-spy record -o out.svg --pid PID`, `stackprof`, `rbspy`, async-profiler, `perf record -g -p PID -- sleep 10`), and the same without it where it can be switched off (middleware, debugging and profiling in production)"),
    ("about.memory", "a profile of what allocates (`memory_profiler`, `memray`, heap snapshots of Node, `jmap -histo:live PID`, `/debug/pprof/heap`), the same after more requests for what grows, and its collections in the log of the runtime"),
    ("about.tls", "whether handshakes are whole or resumed (`openssl s_client -connect HOST:443 -reconnect`: `Reused`; tickets or a cache of sessions that all processes share; many generators never resume a session), the key (`openssl s_client` for RSA 2048 or ECDSA P-256, which costs the server a tenth), connections that are kept; `ss -tinp` and `perf top -p PID` meanwhile"),
    ("about.network", "`ss -tinp` for the connection's state, timers and idle time, `tcpdump -ni any -ttt host ADDRESS` for who waits for whom and who closes, `nstat -az` for retransmits; `curl -w '%{time_namelookup} %{time_connect} %{time_appconnect} %{time_starttransfer}\n' -so /dev/null URL` for whether a new connection is what takes the time"),
    ("about.queue", "how many workers or threads are busy and what these wait for (`py-spy dump --pid PID`, `jstack PID`, `dotnet-stack report -p PID`), calls that block a thread of the pool for another one of it (await instead), `ss -ltn` for the queue before them, and the setting for their number beside the requests at a time; uneven ones: how connections are spread over them, and the server's version"),
    ("about.disk", "`iostat -x 1 5`, `pidstat -d 1 5` and `fatrace` for who reads and writes what, `strace -f -T -e trace=fsync,fdatasync,openat,read,write -p PID` for how long"),
    ("about.processor", "`pidstat -t -p PID 1 5` for which thread computes, `perf record -g -p PID -- sleep 10; perf report --stdio | head -60` for what, `cat /sys/fs/cgroup/cpu.stat` for a quota"),
    ("about.cache", "the same URL twice (`curl -sI URL | grep -iE 'cache|age|vary|cookie'`), the cache's own counters of hits and misses, and what its key holds"),
    ("about.request", "what the longest request waits for: its line in the application's log and a trace of its calls to the database, a cache or storage and other services (upstream), their times in the proxy's log (`$upstream_response_time`), `strace -f -tt -T -p PID` meanwhile"),
];

/// What to run next in that part of the system that an unknown text names most.
fn step(pasted: &Pasted) -> &'static str {
    let n = |name: &str| {
        pasted
            .artefacts
            .iter()
            .find_map(|a| a.value(name))
            .unwrap_or(0.0)
    };
    let most = STEPS.iter().rev().max_by(|a, b| n(a.0).total_cmp(&n(b.0)));
    most.filter(|(name, _)| n(name) > 0.0).map_or(
        "what it does meanwhile: `pidstat -t -p PID 1 5` for whether it computes or waits, `strace -f -tt -T -p PID` for what it waits for",
        |(_, step)| step,
    )
}

/// States of sockets, and how ss prints them.
const STATES: [(&str, &str); 9] = [
    ("sockets.established", "established"),
    ("sockets.syn_sent", "SYN-SENT"),
    ("sockets.syn_recv", "SYN-RECV"),
    ("sockets.fin_wait_1", "FIN-WAIT-1"),
    ("sockets.fin_wait_2", "FIN-WAIT-2"),
    ("sockets.time_wait", "TIME-WAIT"),
    ("sockets.close_wait", "CLOSE-WAIT"),
    ("sockets.last_ack", "LAST-ACK"),
    ("sockets.closing", "CLOSING"),
];

/// Users that hardly get in each other's way.
const ALONE: f64 = 2.0;

/// The test that tells a request's own work from waiting in line.
fn alone(pasted: &Pasted) -> &'static str {
    let loads = pasted.loads.iter().map(|l| l.value("connections"));
    let parts = pasted.artefacts.iter();
    let parts = parts.map(|a| {
        a.value("load.connections")
            .or_else(|| a.value("asked.users"))
    });
    let users = loads.chain(parts).flatten().reduce(f64::max);
    match users.is_some_and(|n| n <= ALONE) {
        true => {
            "a request alone has no line to wait in, so that the time is its own: its queries (how many, and `EXPLAIN`), a profile of the CPU, a cache that is not used, another service"
        }
        false => {
            "the same with one connection (`-c 1`): a time that stays is each request's own work (its queries, a profile of the CPU, a cache that is not used), one that falls was a queue (threads, workers, a pool of connections, a lock)"
        }
    }
}

/// How many sockets are in each state, of those that were counted.
fn states(pasted: &Pasted) -> String {
    let of = |name: &str| pasted.artefacts.iter().find_map(|a| a.value(name));
    let known = STATES.iter().filter_map(|(name, state)| {
        let n = of(name).filter(|n| *n >= 1.0)?;
        Some(format!("{} {state}", count(n as u64)))
    });
    known.collect::<Vec<_>>().join(", ")
}

/// Ways to read all of a table, as databases print them.
const SCANS: [&str; 3] = ["COLLSCAN", "Seq Scan", "Table scan"];

/// The steps or statements that read all of a table, in the database's own words.
fn scans(pasted: &Pasted) -> String {
    let rows = pasted.artefacts.iter().flat_map(|a| &a.rows);
    let named = rows.filter(|r| SCANS.iter().any(|s| r.label.contains(s)));
    let named: Vec<String> = named
        .take(NAMED)
        .map(|r| {
            let short: String = r.label.chars().take(LONGEST).collect();
            format!("`{short}`")
        })
        .collect();
    named.join(", ")
}

/// A sentence with `@TOOL` replaced by the largest row of that tool, `@profile` by that of the first profile,
/// `@@profile` by its largest rows, and `@load` by the generator's name.
fn of_tools(text: &str, pasted: &Pasted) -> String {
    let profile = pasted.artefacts.iter().find(|a| a.profile.is_some());
    let rows = profile.map_or(&[][..], |a| a.rows.as_slice());
    let several: Vec<String> = rows.iter().take(NAMED).map(row_text).collect();
    let largest = |rows: &[Row]| rows.first().map(row_text).unwrap_or_default();
    let whole = pasted.loads.first().map(|l| l.tool.as_str());
    let part = || {
        let mut parts = pasted.artefacts.iter().filter(|a| !a.tool.contains(' '));
        let found = parts.find(|a| a.figures.keys().any(|n| n.starts_with("load.")))?;
        // Figures of another one beside it are not its own.
        let counts = |a: &Artefact| a.value("load.requests").is_some();
        let mut others = pasted.artefacts.iter();
        let two = counts(found) && others.any(|a| a.tool != found.tool && counts(a));
        (!two).then_some(found.tool.as_str())
    };
    let generator = whole.or_else(part).unwrap_or("the generator");
    let mut text = text
        .replace("@@profile", &several.join(", "))
        .replace("@profile", &largest(rows))
        .replace("@load", generator);
    if let Some(call) = pasted.straces.first().and_then(top_call) {
        let row = Row::new(call.call.clone(), call.share);
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
