//! Two outputs of one tool, before and after: what changed most.
//!
//! Counts are compared per request where the text has requests, else as they are. A share is compared by how much of
//! the whole it moved, everything else by its ratio.

use super::readings::Held;
use super::shown::row_text;
use crate::Evidence;
use crate::words::percent;
use record::Reported;
use record::pasted::{Artefact, Pasted, Row, StraceSummary, requests_in};
use std::collections::BTreeMap;

/// A function whose share moved by this much is what differs between two profiles.
const MOVED: f64 = 0.08;
/// Calls per request that changed by this factor.
const FACTOR: f64 = 1.5;
/// A call that is made less than this for a request differs by chance.
const RARE: f64 = 0.05;
/// A rate that changed by less is within what two runs differ by.
const RATE: f64 = 1.15;
/// Changes that a sentence holds.
const NAMED: usize = 3;

/// What differs between the last two outputs of a kind.
pub(super) fn between(pasted: &Pasted) -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    held.extend(profiles(pasted));
    held.extend(straces(pasted));
    held.extend(loads(pasted));
    held.extend(runs(pasted));
    held.extend(requests(pasted));
    held.extend(timers(pasted));
    held.extend(benchmarks(pasted));
    held.extend(transfers(pasted));
    held.extend(connections_of_nginx(pasted));
    held
}

fn changed(says: String, next: &str, weight: f64, evidence: Vec<Evidence>) -> Held {
    Held {
        name: "changed".to_owned(),
        cause: None,
        of_generator: false,
        says,
        next: next.to_owned(),
        weight,
        evidence,
    }
}

/// Shares of a whole by name.
type Shares = BTreeMap<String, f64>;

/// The largest changes of a share, in words, and their evidence.
fn moved(old: &Shares, new: &Shares, source: &str) -> Option<(String, Vec<Evidence>)> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut moved: Vec<(f64, f64, &String)> = names
        .into_iter()
        .map(|name| {
            let of = |shares: &Shares| shares.get(name).copied().unwrap_or(0.0);
            (of(old), of(new), name)
        })
        .filter(|(a, b, _)| (a - b).abs() >= MOVED)
        .collect();
    moved.sort_by(|x, y| (y.1 - y.0).abs().total_cmp(&(x.1 - x.0).abs()));
    moved.truncate(NAMED);
    let words: Vec<String> = moved
        .iter()
        .map(|(a, b, name)| {
            let row = Row {
                label: (*name).clone(),
                place: String::new(),
                share: *b,
            };
            let now = row_text(&row);
            format!("{now} was {}", percent(*a))
        })
        .collect();
    let evidence = moved
        .iter()
        .map(|(_, b, name)| Evidence::new(name.as_str(), *b, "1", None, source))
        .collect();
    (!moved.is_empty()).then(|| (words.join(", "), evidence))
}

/// The last two outputs of one kind.
fn last_two(pasted: &Pasted, of: impl Fn(&Artefact) -> bool) -> Option<(&Artefact, &Artefact)> {
    let kind: Vec<&Artefact> = pasted.artefacts.iter().filter(|a| of(a)).collect();
    let [.., before, after] = kind.as_slice() else {
        return None;
    };
    (before.tool == after.tool).then_some((*before, *after))
}

fn profiles(pasted: &Pasted) -> Option<Held> {
    let (before, after) = last_two(pasted, |a| {
        a.profile.is_some() || a.tool == "show profiling"
    })?;
    let shares = |a: &Artefact| -> Shares {
        let mut shares = BTreeMap::new();
        for row in &a.rows {
            *shares.entry(row.label.clone()).or_insert(0.0) += row.share;
        }
        shares
    };
    let (words, evidence) = moved(&shares(before), &shares(after), &after.tool)?;
    Some(changed(
        format!("between the two profiles the largest changes are {words}"),
        "the callers of that function in both (`perf report -g caller`), and what changed there between the two versions or settings",
        0.9,
        evidence,
    ))
}

fn straces(pasted: &Pasted) -> Option<Held> {
    let [.., before, after] = pasted.straces.as_slice() else {
        return None;
    };
    let per_request = |summary: &StraceSummary| {
        let calls = summary.calls();
        let requests = requests_in(&calls)?;
        let each = calls
            .into_iter()
            .map(move |(name, n)| (name, n as f64 / requests));
        Some(each.collect::<BTreeMap<String, f64>>())
    };
    let Some((old, new)) = per_request(before).zip(per_request(after)) else {
        return of_their_time(before, after);
    };
    let mut moved: Vec<(f64, f64, &String)> = old
        .keys()
        .chain(new.keys().filter(|n| !old.contains_key(*n)))
        .map(|name| {
            let of = |calls: &BTreeMap<String, f64>| calls.get(name).copied().unwrap_or(0.0);
            (of(&old), of(&new), name)
        })
        .filter(|(a, b, _)| a.max(*b) >= RARE && a.max(*b) >= FACTOR * a.min(*b))
        .collect();
    moved.sort_by(|x, y| (y.1 - y.0).abs().total_cmp(&(x.1 - x.0).abs()));
    moved.truncate(NAMED);
    if moved.is_empty() {
        return None;
    }
    let words: Vec<String> = moved
        .iter()
        .map(|(a, b, name)| format!("{name} from {a:.2} to {b:.2}"))
        .collect();
    Some(changed(
        format!(
            "per request, the calls that changed most are {}",
            words.join(", ")
        ),
        "`strace -f -T -e trace=CALL -p PID` on the slower one for what those calls are made on",
        0.88,
        Vec::new(),
    ))
}

/// Counts without a common measure say nothing of a request; the time in calls has shares nevertheless.
fn of_their_time(before: &StraceSummary, after: &StraceSummary) -> Option<Held> {
    let shares = |summary: &StraceSummary| -> Shares {
        let all: f64 = summary.rows.iter().map(|r| r.seconds).sum();
        let rows = summary.rows.iter();
        rows.map(|r| (r.call.clone(), r.seconds / all.max(f64::MIN_POSITIVE)))
            .collect()
    };
    let (words, evidence) = moved(&shares(before), &shares(after), "strace -c")?;
    Some(changed(
        format!("of the time in system calls the largest changes are {words}"),
        "the same number of requests under both (`strace -c -f -p PID` during `ab -n 1000`), so that calls can be divided by requests",
        0.8,
        evidence,
    ))
}

/// A phase that grew by less, in seconds, is what two requests differ by.
const PHASE_S: f64 = 0.02;

/// Two requests of curl: in which phase the second one's time went.
fn requests(pasted: &Pasted) -> Option<Held> {
    // A request that failed has no total.
    let (before, after) = last_two(pasted, |a| {
        a.tool == "curl -w" && a.value("curl.total_s").is_some_and(|s| s > 0.0)
    })?;
    let totals = before
        .value("curl.total_s")?
        .max(after.value("curl.total_s")?);
    if let Some(held) = used_again(before, after) {
        return Some(held);
    }
    let (old, new) = (phases(before), phases(after));
    let differences = old.iter().filter_map(|(name, a)| {
        let b = new.iter().find(|(other, _)| other == name)?.1;
        Some((*name, *a, b))
    });
    let (name, a, b) =
        differences.max_by(|x, y| (x.2 - x.1).abs().total_cmp(&(y.2 - y.1).abs()))?;
    let much = (a - b).abs() >= PHASE_S && (a - b).abs() * 2.0 >= totals;
    much.then(|| {
        changed(
            format!("between the two requests the largest difference is {name}: {b:.3} s in the second, {a:.3} s in the first"),
            "what differs between the two (another version of the client, another address, IPv6 against IPv4), one at a time: `curl -v --trace-time` shows where it waits, and `ping` whether the path is the same",
            0.8,
            vec![Evidence::new(name, b, "s", Some(a), "curl -w")],
        )
    })
}

/// Of a request that opens its connection such a part of the time is what the next one saves.
const OPENING: f64 = 0.3;

/// Two requests of which the second had its connection already: what opening it costs the first.
fn used_again(before: &Artefact, after: &Artefact) -> Option<Held> {
    let of = |run: &Artefact, name: &str| run.value(&format!("curl.{name}_s"));
    let connect = of(before, "connect").filter(|s| *s > 0.0)?;
    let opened = of(before, "tls").map_or(connect, |tls| tls.max(connect));
    let (first, second) = (of(before, "total")?, of(after, "total")?);
    let open = || of(after, "connect") == Some(0.0) && of(after, "tls").unwrap_or(0.0) == 0.0;
    if !open() || opened < OPENING * first || second >= first {
        return None;
    }
    let handshake = match opened > connect {
        true => format!(", {:.3} s of it the TLS handshake", opened - connect),
        false => String::new(),
    };
    Some(changed(
        format!(
            "the first request takes {first:.3} s, and {opened:.3} s of that to open its connection{handshake}; the second, on a connection that is open, takes {second:.3} s: whoever opens one for each request pays that each time"
        ),
        "how often one is opened: `tcpdump -ni any 'tcp[tcpflags] & tcp-syn != 0'` for new ones a minute, `curl -sv URL URL 2>&1 | grep -iE 'connection|re-using'`, and after which time without a request the client, the server or a proxy between closes it (keep-alive and idle time-outs of the client's pool and of the server: a request behind that pays again); then what an opening costs: `ping HOST` for the round trip, `openssl s_client -connect HOST:443 -reconnect` for resumption",
        0.82,
        vec![Evidence::new(
            "curl.total_s",
            second,
            "s",
            Some(first),
            "curl -w",
        )],
    ))
}

/// Times of the phases that a run shows, each less what came before it.
fn phases(run: &Artefact) -> Vec<(&'static str, f64)> {
    let marks = [
        ("name lookup", "curl.lookup_s"),
        ("connect", "curl.connect_s"),
        ("TLS handshake", "curl.tls_s"),
        ("first byte", "curl.first_byte_s"),
        ("transfer", "curl.total_s"),
    ];
    let mut done = 0.0_f64;
    let mut found = Vec::new();
    for (name, mark) in marks {
        // Without TLS its time is 0.
        if let Some(at) = run.value(mark).filter(|at| *at > 0.0) {
            found.push((name, (at - done).max(0.0)));
            done = done.max(at);
        }
    }
    found
}

/// Times that logs show: tool, figure, in words.
const TIMERS: [(&str, &str, &str); 7] = [
    ("access log", "access.request_p50_s", "the median request"),
    (
        "access log",
        "access.upstream_p50_s",
        "the median wait for the upstream",
    ),
    (
        "access log",
        "access.request_p99_s",
        "the slowest 1 % of the requests",
    ),
    (
        "HAProxy log",
        "haproxy.queue_p50_s",
        "the median wait in HAProxy's queue",
    ),
    (
        "HAProxy log",
        "haproxy.response_p50_s",
        "the median wait for the server's response",
    ),
    (
        "HAProxy log",
        "haproxy.connect_p50_s",
        "the median connect to the server",
    ),
    (
        "GC log",
        "gc.pause_max_s",
        "the longest pause of the collector",
    ),
];

/// Two logs: which of their times grew by a factor.
fn timers(pasted: &Pasted) -> Option<Held> {
    let mut words = Vec::new();
    let mut evidence = Vec::new();
    for (tool, figure, name) in TIMERS {
        let Some((before, after)) = last_two(pasted, |a| a.tool == tool) else {
            continue;
        };
        let Some((a, b)) = before.value(figure).zip(after.value(figure)) else {
            continue;
        };
        if a > 0.0 && b > 0.0 && (b / a).max(a / b) >= SLOWER {
            words.push(format!("{name} took {b:.3} s and before {a:.3} s"));
            evidence.push(Evidence::new(figure, b, "s", Some(a), tool));
        }
    }
    (!words.is_empty()).then(|| {
        changed(
            format!("between the two logs {}", words.join(", ")),
            "the same requests in both (`grep ' /path ' LOG`), and what was changed between them, one at a time",
            0.75,
            evidence,
        )
    })
}

/// The same test of redis-benchmark twice.
fn benchmarks(pasted: &Pasted) -> Option<Held> {
    let (before, after) = last_two(pasted, |a| a.tool == "redis-benchmark")?;
    let name = &before.rows.first()?.label;
    let same = after.rows.first().is_some_and(|r| r.label == *name)
        && ["redis.payload_bytes", "load.requests", "load.connections"]
            .iter()
            .all(|f| before.value(f) == after.value(f));
    let (a, b) = before
        .value("redis.test_s")
        .zip(after.value("redis.test_s"))?;
    let differs = a > 0.0 && b > 0.0 && (b / a).max(a / b) >= SLOWER;
    (same && differs).then(|| {
        changed(
            format!("the same test of redis-benchmark (`{name}`) took {a:.2} s and then {b:.2} s"),
            "what differs between the two, one at a time: the value's size (`-d`), the address, the device and its MTU (`ip link`); in the slow one `ss -tinm` for the window, rwnd_limited and retrans, and `tcpdump -ttt` for silences between a segment and its acknowledgement",
            0.76,
            vec![Evidence::new("redis.test_s", b, "s", Some(a), "redis-benchmark")],
        )
    })
}

/// nginx' status twice: connections that a response keeps and that were not there before.
fn connections_of_nginx(pasted: &Pasted) -> Option<Held> {
    let (before, after) = last_two(pasted, |a| a.value("nginx.writing").is_some())?;
    let (first, second) = (
        before.value("nginx.writing")?,
        after.value("nginx.writing")?,
    );
    if second < first + 2.0 {
        return None;
    }
    Some(changed(
        format!(
            "between the two statuses of nginx connections in a response (Writing) went from {first:.0} to {second:.0}: as many requests are at work, or have no end"
        ),
        "the status once more after a minute without requests: what is in Writing still never ends; which they are: `ss -tnp` by their peers, `error_log ... debug` for the last line of such a request, `gdb -p PID -batch -ex bt` on a worker; then without the module, script or subrequest that the location uses, one by one, and with `proxy_buffering` and its files on and off",
        0.45,
        vec![Evidence::new(
            "nginx.writing",
            second,
            "",
            Some(first),
            "stub_status",
        )],
    ))
}

/// Bytes of HTTP/2's window of flow control where nobody sets it larger (RFC 9113 6.9.2).
const WINDOW: f64 = 65_535.0;

/// The same transfer twice by curl's meter, once much faster.
fn transfers(pasted: &Pasted) -> Option<Held> {
    let (before, after) = last_two(pasted, |a| a.tool == "curl's meter")?;
    let of = |name: &str| before.value(name).zip(after.value(name));
    let (bytes, rates) = (of("meter.bytes")?, of("meter.per_s")?);
    let alike = (bytes.0 - bytes.1).abs() <= bytes.0 * 0.05;
    let slow = rates.0.min(rates.1);
    let factor = rates.0.max(rates.1) / slow;
    if !alike || slow <= 0.0 || factor < SLOWER {
        return None;
    }
    let told = |a: &Artefact| {
        let row = a.rows.first();
        row.map(|r| match r.label.as_str() {
            "" => r.place.clone(),
            label => format!("{} by `{label}`", r.place),
        })
    };
    let (first, second) = (told(before)?, told(after)?);
    let by = |a: &Artefact, flag: &str| a.rows.first().is_some_and(|r| r.label.contains(flag));
    let versions = ["--http1.1", "--http2", "--http3", "-0", "--http1.0"];
    let differ = versions.iter().any(|f| by(before, f) != by(after, f));
    let ms = WINDOW / slow * 1e3;
    let because = match differ {
        true => format!(
            "; they differ by the version of HTTP, and a window of flow control of 64 KiB, one each round trip, gives the slower rate where a round trip is {ms:.0} ms"
        ),
        false => String::new(),
    };
    Some(changed(
        format!(
            "the same transfer differs by a factor of {factor:.1}: {first}, and {second}{because}"
        ),
        "what differs between the two, one at a time and several times in turn: the version of HTTP (`curl --http1.1` against `--http2`), the address, the proxy; then `ping HOST` for the round trip (slower rate x round trip is what is in flight: near 64 KiB it is HTTP/2's window, which the receiver sets), `nghttp -nv URL` for WINDOW_UPDATE, and `ss -tin dst HOST` for TCP's own window and retransmits",
        0.8,
        vec![Evidence::new(
            "meter.per_s",
            rates.1,
            "bytes/s",
            Some(rates.0),
            "curl's meter",
        )],
    ))
}

/// Tool of a generator whose lines are read one by one.
const LOAD: &str = "part of a load generator's output";
/// Runs that a sentence names.
const RUNS: usize = 4;

/// Several runs of a generator that are no pair: each with its rate and its time.
fn runs(pasted: &Pasted) -> Option<Held> {
    let whole = pasted.loads.iter().map(|load| {
        let ns = load
            .value("latency_ns.p50")
            .or_else(|| load.value("latency_ns.mean"));
        ("", load.value("rate_per_s"), ns.map(|ns| ns / 1e6))
    });
    let parts = pasted
        .artefacts
        .iter()
        .filter(|a| a.tool == "autocannon")
        .map(|run| {
            let url = run.rows.first().map_or("", |r| r.label.as_str());
            (url, run.value("load.rate_per_s"), run.value("load.mean_ms"))
        });
    // Others whose lines are read one by one, each run from its own rate on.
    let others = pasted.artefacts.iter().filter(|a| {
        let own = ["load.rate_per_s", "load.mean_ms", "load.max_ms"];
        a.tool == LOAD && own.iter().all(|name| a.value(name).is_some())
    });
    let others = others.map(|run| ("", run.value("load.rate_per_s"), run.value("load.mean_ms")));
    let all: Vec<_> = match pasted.loads.len() {
        0 => parts.chain(others).collect(),
        1 | 2 => return None,
        _ => whole.collect(),
    };
    let named = all.iter().filter_map(|(url, rate, ms)| {
        let rate = (*rate)?;
        let took = ms.map(|ms| format!(" in {ms:.2} ms")).unwrap_or_default();
        let of = match *url {
            "" => String::new(),
            url => format!(" of `{url}`"),
        };
        Some(format!("{rate:.1} responses a second{took}{of}"))
    });
    let named: Vec<String> = named.take(RUNS).collect();
    (named.len() >= 2).then(|| {
        changed(
            format!("the runs differ: {}", named.join("; ")),
            "the slower one under a profile (`perf record -g -p PID -- sleep 10`; Node: `node --prof`, `0x`, `clinic flame`) and what it does more than the other: a larger response (its size, its serialisation, compression), more queries, or other settings",
            0.5,
            Vec::new(),
        )
    })
}

/// Response times that differ by this factor at the same rate are no noise.
const SLOWER: f64 = 2.0;

fn loads(pasted: &Pasted) -> Option<Held> {
    let [before, after] = pasted.loads.as_slice() else {
        return None;
    };
    let figures = |name: &str| before.value(name).zip(after.value(name));
    let (old, new) = figures("rate_per_s")?;
    let same = before.tool == after.tool
        && before.value("connections") == after.value("connections")
        && old > 0.0
        && new > 0.0;
    if !same {
        return None;
    }
    let slower = figures("latency_ns.p50")
        .or_else(|| figures("latency_ns.mean"))
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && (b / a).max(a / b) >= SLOWER);
    let mut said = if (new / old).max(old / new) >= RATE {
        format!(
            "the second run reached {:.2} times the rate of the first ({old:.0} and {new:.0}/s) with as many connections",
            new / old
        )
    } else if let Some((a, b)) = slower {
        format!(
            "at the same rate ({old:.0} and {new:.0}/s) the second run's typical response took {:.2} times as long as the first's",
            b / a
        )
    } else {
        return alike(before, after);
    };
    if let Some((a, b)) = figures("threads").filter(|(a, b)| a != b) {
        said += &format!(
            "; the generator used {a:.0} and {b:.0} threads, so the difference may be its own"
        );
    }
    if let Some(held) = of_two_addresses(pasted, [before, after], &said) {
        return Some(held);
    }
    Some(changed(
        said,
        "what differs between the two, one at a time, each several times in turn (`prony run` with it as a factor), and `perf record -g -p PID -- sleep 10` in both",
        0.5,
        Vec::new(),
    ))
}

/// Two runs that ask for different work: what each of the two is, and no change.
fn of_two_addresses(pasted: &Pasted, runs: [&Reported; 2], said: &str) -> Option<Held> {
    let mut asked = pasted.artefacts.iter();
    let asked = asked.find(|a| a.value("addresses.rows") == Some(2.0))?;
    let of = asked.rows.iter().zip(runs).map(|(row, run)| {
        let ns = run.value("latency_ns.p50");
        let ms = ns.or_else(|| run.value("latency_ns.mean"))? / 1e6;
        Some(format!("`{}` takes {ms:.1} ms", row.label))
    });
    let of: Vec<String> = of.collect::<Option<_>>()?;
    Some(changed(
        format!(
            "the two runs ask for different work, {}: {said}",
            of.join(" and ")
        ),
        "each of the two on its own, several times in turn: what both have in common is in the time of the shorter one, and the rest of the longer one in what its handler does beyond that (a profile of each: `py-spy record`, `perf record -g -p PID -- sleep 10`)",
        0.5,
        Vec::new(),
    ))
}

/// Two runs of which neither the rate nor the typical response differs by more than two runs of the same may.
fn alike(before: &Reported, after: &Reported) -> Option<Held> {
    let rates = before.value("rate_per_s").zip(after.value("rate_per_s"))?;
    let percent = (rates.1 / rates.0 - 1.0) * 100.0;
    Some(changed(
        format!(
            "the two runs reached {:.1} and {:.1} responses a second, {percent:+.1} %: two runs of the same may differ by that, so that one of each shows no change",
            rates.0, rates.1
        ),
        "more runs of both in turns for their spread (five and more; `prony run` with what changed as a factor says the difference with its interval), the generator on other cores (`taskset`); and what one request costs the server in both, which the load does not blur: CPU time by `perf stat -p PID -- sleep 10` and allocations by a profile, divided by the requests",
        0.2,
        Vec::new(),
    ))
}
