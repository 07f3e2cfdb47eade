//! Who is the limit: the first fork of every diagnosis, before any cause is looked at.
//!
//! The verdict on the load says whether its figures may be used and which side was full. Where nobody was
//! full the waits decide: what a request waits for, by the longest share, or how many are served at one time.

use super::Station;
use super::fact::{FactSet, FactView};
use crate::words::percent;
use crate::{Account, Limit, Row, Verdict};

/// A thread that ran for this share of the time had no time off.
pub(super) const SATURATED: f64 = 0.95;
/// A server that uses this much of cores that have no time left fills them, though others take some of it.
const MOST_OF_CORES: f64 = 0.8;
/// A server whose requests only run or wait for a CPU fills it where it has at least this part of it: what is short of
/// the whole is the kernel's and the host's.
const MOST_BY_ITSELF: f64 = 0.6;
/// Time throttled from which a quota shapes the rate.
const THROTTLED: f64 = 0.05;
/// A resource used up to this share refuses the next.
const USED_UP: f64 = 0.95;
/// Share of a single-client response time from which a wait is what a request mostly does.
const WAITED: f64 = 0.3;
/// Share of responses in a quantum from which the client's path shapes them.
const QUANTUM: f64 = 0.2;
/// Share of the busy time that a window may limit before the path is the limit.
const WINDOW: f64 = 0.3;
/// Fewer requests served at one time than this share of the connections: something lets only some through.
const PARALLEL: f64 = 0.5;
/// Requests that are in line for a CPU for this share of their time, and for less than the other share in anything that
/// is not the servers' own work, want a CPU and nothing else.
const IN_LINE: f64 = 0.5;
const LITTLE_ELSE: f64 = 0.1;
/// Interrupt work on the server's cores from which the core and not its thread is what is full.
const SOFTIRQ: f64 = 0.3;

/// Waits that are not an upstream's, with what they are in words.
const WAITS: [(&str, &str); 10] = [
    ("disk", "the disk"),
    ("lock", "a lock"),
    ("sleep", "a sleep"),
    ("dns", "a name look-up"),
    ("unix", "a Unix socket"),
    ("pipe", "a pipe"),
    ("child", "a child process"),
    ("sync", "data to reach the disk"),
    ("file", "a file"),
    ("other", "something that the probes do not name"),
];

fn station(name: &str, target: &str, why: String) -> Station {
    Station {
        name: name.to_owned(),
        target: target.to_owned(),
        why,
    }
}

/// Names the station. `latency` is the account of the mean response time, where there is one.
pub(crate) fn find(
    facts: &FactSet,
    verdict: Option<&Verdict>,
    latency: Option<&Account>,
) -> Station {
    let front = facts.targets.first().map_or("", String::as_str);
    let by_verdict = |name: &str, target: &str| {
        station(
            name,
            target,
            verdict.map_or(String::new(), |v| v.why.clone()),
        )
    };
    if verdict.is_some_and(|v| v.limit == Limit::Generator) {
        return by_verdict("generator", "");
    }
    if let Some(found) = used_up(facts, front) {
        return found;
    }
    if let Some(found) = saturated(facts, front) {
        return found;
    }
    match verdict.map(|v| v.resource.as_str()) {
        Some("backend") => return by_verdict("upstream", ""),
        Some("worker") => return by_verdict("worker", front),
        Some("core" | "cores" | "host_cpu") => return by_verdict("core", front),
        Some("cpu_quota") => return by_verdict("limit", front),
        Some("listen_queue") => return by_verdict("listen_queue", front),
        _ => {}
    }
    if verdict.is_some_and(|v| v.limit == Limit::Network) {
        return by_verdict("client_path", "");
    }
    latency
        .and_then(|account| in_line(facts, account, front))
        .or_else(|| waiting(facts, front))
        .or_else(|| client_path(facts, latency, front))
        .or_else(|| few_at_once(facts, front))
        .or_else(|| held_back(facts, front))
        .unwrap_or_else(|| match verdict {
            Some(v) if v.limit == Limit::OfferedLoad => by_verdict("none", ""),
            Some(v) => station("unknown", "", v.why.clone()),
            None => by_facts_alone(facts, front),
        })
}

/// Facts from elsewhere carry no verdict: a full worker was handled, so an idle one is idle.
fn by_facts_alone(facts: &FactSet, front: &str) -> Station {
    match facts.view(front).value("worker.busiest") {
        Some(busy) => {
            let why = format!("the busiest worker ran {} of the time", percent(busy));
            station("none", "", why)
        }
        None => station("unknown", "", "nothing says who was busy".to_owned()),
    }
}

fn used_up(facts: &FactSet, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let at_least = |name: &str, limit: f64| view.value(name).filter(|v| *v >= limit);
    if let Some(share) = at_least("cgroup.throttled_share", THROTTLED) {
        let why = format!("its CPU quota stopped it {} of the time", percent(share));
        return Some(station("limit", front, why));
    }
    if let Some(share) = at_least("limit.files_used_share", USED_UP) {
        let why = format!("a process holds {} of its open files", percent(share));
        return Some(station("limit", front, why));
    }
    let share = at_least("client.failed.no_local_port_share", 0.01)?;
    let why = format!("{} of the requests found no local port", percent(share));
    Some(station("limit", "", why))
}

/// The server behind the URL first; then those behind it.
fn saturated(facts: &FactSet, front: &str) -> Option<Station> {
    let full = |target: &&String| {
        let view = facts.view(target);
        let busy = view.value("worker.busiest").unwrap_or(0.0);
        let use_of_allowed = view.value("cpu.use_of_allowed").unwrap_or(0.0);
        let wanted = cpu_wanted_by_itself(&view).unwrap_or(0.0);
        let left = view
            .value("cpu.idle_allowed")
            .zip(view.value("cpu.cores_allowed").filter(|n| *n > 0.0))
            .map_or(1.0, |(idle, cores)| idle / cores);
        busy >= SATURATED
            || use_of_allowed >= SATURATED
            || use_of_allowed >= MOST_OF_CORES && left <= 1.0 - SATURATED
            || wanted >= SATURATED
    };
    let target = facts.targets.iter().find(full)?;
    let view = facts.view(target);
    let busiest = view.value("worker.busiest").unwrap_or(0.0);
    let busy = percent(busiest);
    if target != front {
        let wanted = cpu_wanted_by_itself(&view).filter(|wanted| *wanted >= SATURATED);
        let why = match wanted.filter(|_| busiest < SATURATED) {
            None => format!("the busiest worker of {target} ran {busy} of the time"),
            Some(wanted) => wait_for_its_cpu(target, wanted),
        };
        return Some(station("upstream", target, why));
    }
    let softirq = view.value("core.own_softirq_share").unwrap_or(0.0);
    let name = if softirq >= SOFTIRQ { "core" } else { "worker" };
    // Where many threads fill the cores together, none of them is busy.
    let used = view.value("cpu.use_of_allowed");
    let why = match used.filter(|_| busiest < SATURATED) {
        Some(used) => format!(
            "its threads together used {} of the CPU that it may use, the busiest worker {busy} of a core",
            percent(used)
        ),
        None => format!("the busiest worker ran {busy} of the time"),
    };
    Some(station(name, target, why))
}

/// Share of their time in which a server's requests run or wait for a CPU, where most of what its cores do is its own:
/// whoever waits for a CPU waits for a full one. The time of processes that it starts is not always the server's in the
/// kernel's books, and is never anybody else's.
pub(crate) fn cpu_wanted_by_itself(view: &FactView<'_>) -> Option<f64> {
    let value = |name: &str| view.value(name);
    let others = ["foreign", "peers", "generator"].map(|who| format!("core.own_{who}_share"));
    let others: f64 = others.iter().filter_map(|name| value(name)).sum();
    let left = value("core.own_mean").map(|used| used - others);
    let own = value("cpu.use_of_allowed").into_iter().chain(left);
    value("turn.cpu_share").filter(|_| own.reduce(f64::max) >= Some(MOST_BY_ITSELF))
}

/// What is said of a server whose requests do so.
pub(crate) fn wait_for_its_cpu(target: &str, wanted: f64) -> String {
    format!(
        "requests in {target} ran or waited for a CPU {} of their time, and its cores do little else",
        percent(wanted)
    )
}

/// The first server whose requests run or wait for its own CPU all the time, and the share of their time.
pub(crate) fn full_of_requests(facts: &FactSet) -> Option<(&str, f64)> {
    let wanted = |target: &String| cpu_wanted_by_itself(&facts.view(target));
    let mut all = facts.targets.iter().map(|t| (t.as_str(), wanted(t)));
    all.find_map(|(target, wanted)| Some((target, wanted.filter(|w| *w >= SATURATED)?)))
}

/// A load by no clock whose requests are in line for the servers' CPU most of the time, though nobody ran all of it: a
/// host whose CPUs are taken away now and then, or a generator that answers late, lets them stand idle for moments.
fn in_line(facts: &FactSet, latency: &Account, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let of = |name: &str| view.value(name);
    let busy = of("core.own_mean").zip(of("core.own_foreign_share"));
    let busy = busy.is_some_and(|(used, foreign)| used - foreign >= MOST_OF_CORES);
    let by_a_clock = of("client.open_loop").is_some_and(|open| open > 0.0);
    if by_a_clock || !busy {
        return None;
    }
    // Whoever waits for a thread that only works waits for its CPU, too.
    let in_line = |row: &Row| match row.kind.as_str() {
        "other_turns" | "run_queue" => true,
        "no_free_thread" => row.own_work,
        _ => false,
    };
    let line = latency.share_of(in_line);
    let inside = 1.0 - latency.share_of(|row| row.kind == "client");
    let elsewhere = latency.share_of(|row| !row.own_work && row.kind != "client");
    (line >= IN_LINE && elsewhere < LITTLE_ELSE * inside).then(|| {
        let why = format!(
            "requests were in line for a CPU {} of their time in the servers",
            percent(line / inside)
        );
        station("core", front, why)
    })
}

/// What a request waits for most, when that is most of its time.
fn waiting(facts: &FactSet, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let share = |reason: &str| view.value(&format!("blocked.{reason}_share"));
    let longest = WAITS
        .iter()
        .filter_map(|(reason, words)| Some((share(reason)?, *words)))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(share, _)| *share >= WAITED);
    let turns = view.value("upstream.service_share");
    let upstream = turns.into_iter().chain(share("upstream")).reduce(f64::max);
    let upstream = upstream.filter(|share| *share >= WAITED);
    match (longest, upstream) {
        (Some((blocked, words)), other) if other.is_none_or(|o| blocked > o) => {
            let why = format!(
                "{} of a request's time is waiting for {words}",
                percent(blocked)
            );
            Some(station("blocked", front, why))
        }
        (_, Some(share)) => {
            let why = format!(
                "{} of a request's time is waiting for an upstream",
                percent(share)
            );
            Some(station("upstream", "", why))
        }
        _ => None,
    }
}

/// A single client sees how long its responses take, and not where: what stood in the servers all the time, by the
/// account of it, was on no way to the client.
fn client_path(facts: &FactSet, latency: Option<&Account>, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let ways = ["client", "path", "receiving", "sending"];
    let on_the_way = latency.map(|a| a.share_of(|row| ways.contains(&row.kind.as_str())));
    if on_the_way.is_some_and(|share| share < LITTLE_ELSE) {
        return None;
    }
    let signs = [
        (
            "client.single_client_quantum_40ms_share",
            QUANTUM,
            "of the responses to a single client took 38 to 50 ms",
        ),
        (
            "client.single_client_quantum_200ms_share",
            QUANTUM,
            "of the responses to a single client took 195 to 240 ms",
        ),
        (
            "socket.client.rwnd_limited_share",
            WINDOW,
            "of the sending time was limited by the client's window",
        ),
        (
            "socket.client.sndbuf_limited_share",
            WINDOW,
            "of the sending time was limited by the send buffer",
        ),
        (
            "tcp.retransmits_share",
            0.01,
            "of the segments were retransmitted",
        ),
    ];
    let found = signs.iter().find_map(|(name, limit, words)| {
        let share = view.value(name).filter(|v| v >= limit)?;
        Some(format!("{} {words}", percent(share)))
    });
    Some(station("client_path", "", found?))
}

/// Nobody is full and still requests wait for each other.
fn few_at_once(facts: &FactSet, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let share = view
        .value("client.parallel_share")
        .filter(|s| *s < PARALLEL)?;
    let closed = view.value("client.open_loop") == Some(0.0);
    let busy = view.value("worker.busiest")?;
    let slots = view.value("client.effective_parallelism")?;
    (closed && busy < 0.85 && share > 0.0).then(|| {
        let why = format!(
            "about {slots:.1} requests are served at one time, {} of the connections, while the busiest worker runs {} of the time",
            percent(share),
            percent(busy)
        );
        station("limit", front, why)
    })
}

/// Watched traffic: requests stand in the server for longer than its work and the waits that were seen.
fn held_back(facts: &FactSet, front: &str) -> Option<Station> {
    let view = facts.view(front);
    let share = view.value("traffic.explained_share")?;
    let turn = view.value("traffic.turn_mean_ms")?;
    let busy = view.value("worker.busiest")?;
    let open = view.value("traffic.open_requests");
    let open = open.map_or(String::new(), |n| {
        format!("{n:.1} requests are open at one time; ")
    });
    (share < PARALLEL && busy < 0.85).then(|| {
        let why = format!(
            "{open}a request stands in the server for {turn:.1} ms, and work and waits that were seen are {} of that, while \
             the busiest worker runs {} of the time",
            percent(share),
            percent(busy)
        );
        station("limit", front, why)
    })
}

/// The station as a cause at this target sees it.
pub(crate) fn seen_from<'a>(station: &'a Station, target: &str, front: &str) -> &'a str {
    match station.name.as_str() {
        // A server behind the URL whose own worker is full.
        "upstream" if !station.target.is_empty() && station.target == target => "worker",
        _ if target == front || target.is_empty() => &station.name,
        "upstream" if station.target.is_empty() => "unknown",
        // Another one is full: what waits for a server behind it does not set the rate.
        "worker" | "core" | "generator" | "client_path" | "listen_queue" => "elsewhere",
        "upstream" => "elsewhere",
        _ => "none",
    }
}
