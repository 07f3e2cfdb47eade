//! Load generators whose lines have no fixed wording: JMeter's summariser, locust's table, artillery, k6's
//! iterations, and what a histogram of response times shows.
//!
//! A generator's last summary is its result: those before it are of parts of the run. The surprise is k6: the time of
//! an iteration counts what its script and k6's own limits add, which no time of a request does.

use super::commands;
use super::events::{artefact, told};
use super::pieces::{METHODS, Piece, pieces, seconds, value};
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let split: Vec<_> = lines.iter().map(|l| pieces(unmarked(l))).collect();
    let mut done = Vec::new();
    done.extend(autocannon(lines));
    done.extend(lists_of_locust(lines));
    done.extend(cut_off(&split));
    done.extend(jmeter(&split));
    done.extend(locust(&split, lines));
    done.extend(artillery(&split));
    done.extend(plow(&split));
    done.extend(iterations(&split));
    done.extend(siege_command(lines));
    done.extend(populations(lines));
    done.extend(details(&split));
    done.extend(phases_of_k6(&split));
    done.extend(commands::read(lines));
    done
}

/// Lines without artillery's reports of intervals, where its summary says the same of the whole run.
pub(super) fn without_intervals<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let is = |line: &str, heads: &[&str]| heads.iter().any(|h| line.trim_start().starts_with(h));
    let summary = |line: &&str| is(line, &["Summary report @"]);
    let mut kept = lines.to_vec();
    let Some(end) = lines.iter().rposition(summary) else {
        return kept;
    };
    let heads = [
        "Report @",
        "Metrics for period to:",
        "http.",
        "errors.",
        "vusers.",
    ];
    let interval = |line: &&str| is(line, &heads);
    if let Some(begin) = lines[..end].iter().position(interval) {
        kept[begin..end].fill("");
    }
    kept
}

/// A line without the mark that k6 puts before a metric that has a threshold.
fn unmarked(line: &str) -> &str {
    line.trim_start().trim_start_matches(['✓', '✗', '✔', '✖'])
}

type Lines<'a> = [Vec<Piece<'a>>];

/// The number behind a word.
fn behind(line: &[Piece<'_>], name: &str) -> Option<f64> {
    let at = line
        .iter()
        .position(|p| p.text.eq_ignore_ascii_case(name))?;
    value(line.get(at + 1)?.text)
}

fn put(found: &mut Artefact, name: &str, n: Option<f64>) {
    if let Some(n) = n {
        found.figures.insert(name.to_owned(), n);
    }
}

/// `summary = 509028 in 00:00:51 = 10019.4/s Avg: 153 Min: 10 Max: 991 Err: 0 (0.00%) Active: 2000`; a line with `+` is
/// of an interval, and one with `=` of all so far.
fn jmeter(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("JMeter", 0);
    let mut whole = false;
    for (number, line) in (1_u32..).zip(lines) {
        let rate = line.iter().find_map(|p| value(p.text.strip_suffix("/s")?));
        let (Some(rate), Some(mean), Some(failed)) =
            (rate, behind(line, "Avg"), behind(line, "Err"))
        else {
            continue;
        };
        found.begin_at(number);
        if let Some(users) = behind(line, "Active").filter(|n| *n > 0.0) {
            found.largest("load.connections", users);
            found.largest("jmeter.users", users);
        }
        let interval = line.iter().any(|p| p.text == "+");
        if interval && whole {
            continue;
        }
        whole |= !interval;
        let at = line
            .iter()
            .position(|p| p.text == "in")
            .filter(|at| *at > 0);
        let requests = at.and_then(|at| value(line[at - 1].text));
        put(&mut found, "load.requests", requests);
        put(&mut found, "load.rate_per_s", Some(rate));
        put(&mut found, "load.mean_ms", Some(mean));
        put(&mut found, "load.not_answered", Some(failed));
        put(&mut found, "load.min_ms", behind(line, "Min"));
        put(&mut found, "load.max_ms", behind(line, "Max"));
    }
    told(found)
}

/// `Aggregated 1000 3(0.30%) | 12 3 300 10 | 50.0 0.1`: requests, failures, mean, shortest, longest, median, a second.
fn locust(lines: &Lines<'_>, raw: &[&str]) -> Option<Artefact> {
    let mut found = artefact("locust", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(("Aggregated" | "Total", rest)) = line.split_first().map(|(p, r)| (p.text, r))
        else {
            continue;
        };
        // The share of failures stands in brackets behind their number.
        let percent = rest.get(2).is_some_and(|p| p.text.ends_with('%'));
        let numbers: Vec<f64> = rest.iter().map_while(|p| value(p.text)).collect();
        if !percent {
            continue;
        }
        found.begin_at(number);
        // Before version 1 the last line had no times: those of its requests are above it.
        if numbers.len() < 8 {
            if let Some(of_requests) = requests_of_locust(raw) {
                found.figures.extend(of_requests.figures);
            }
            put(&mut found, "load.requests", numbers.first().copied());
            put(&mut found, "load.not_answered", numbers.get(1).copied());
            put(&mut found, "load.rate_per_s", numbers.get(3).copied());
            continue;
        }
        let names = [
            (0, "load.requests"),
            (1, "load.not_answered"),
            (3, "load.mean_ms"),
            (5, "load.max_ms"),
            (6, "load.p50_ms"),
            (7, "load.rate_per_s"),
        ];
        for (at, name) in names {
            put(&mut found, name, numbers.get(at).copied());
        }
    }
    told(found)
}

/// plow: `Count 81234` and `RPS 8123.4` below `Summary:`, then `Latency 302us 6.1ms 8.2ms 512ms` below its own head.
fn plow(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("plow", 0);
    let mut counts: Vec<(&str, f64)> = Vec::new();
    let mut headed = false;
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.iter().map(|p| p.text).collect();
        match words.as_slice() {
            ["Statistics", "Min", "Mean", "StdDev", "Max"] => {
                found.begin_at(number);
                headed = true;
            }
            ["Latency", _, mean, _, most] if headed => {
                let ms = |text: &str| seconds(text).map(|s| s * 1e3);
                put(&mut found, "load.mean_ms", ms(mean));
                put(&mut found, "load.max_ms", ms(most));
            }
            [name, n] => counts.extend(value(n).map(|n| (*name, n))),
            _ => {}
        }
    }
    for (name, n) in counts {
        match name {
            "Count" => put(&mut found, "load.requests", Some(n)),
            "RPS" => put(&mut found, "load.rate_per_s", Some(n)),
            "4xx" | "5xx" => found.add("load.not_answered", n),
            _ => {}
        }
    }
    told(found)
}

/// autocannon before version 2: `Latency (ms) 171.68 540.17 3275` and `Req/Sec 473.2 17.48 497`, mean, deviation, most.
/// Each run is an artefact.
fn autocannon(lines: &[&str]) -> Vec<Artefact> {
    let mut done: Vec<Artefact> = Vec::new();
    let (mut url, mut users) = (String::new(), None);
    for (number, line) in (1_u32..).zip(lines) {
        if !["(ms)", "Req/Sec", "Running", "connections"]
            .iter()
            .any(|w| line.contains(w))
        {
            continue;
        }
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || "|\u{2502}".contains(c))
            .filter(|w| !w.is_empty())
            .collect();
        match words.as_slice() {
            ["Running", .., "@", at] => (url, users) = ((*at).to_owned(), None),
            [n, "connections", ..] => users = n.parse::<f64>().ok(),
            ["Latency", "(ms)", mean, _, most] => {
                let mut run = artefact("autocannon", number);
                put(&mut run, "load.mean_ms", value(mean));
                put(&mut run, "load.max_ms", value(most));
                put(&mut run, "load.connections", users);
                run.rows.push(Row::new(std::mem::take(&mut url), 1.0));
                done.push(run);
            }
            ["Req/Sec", mean, _, _] => {
                if let Some(run) = done.last_mut() {
                    put(run, "load.rate_per_s", value(mean));
                }
            }
            _ => {}
        }
    }
    done
}

/// locust's requests without the line of all, and its percentiles: `GET /a 500 5(1.00%) | 5 2 12 6 | 9.90 0.00`.
fn lists_of_locust(lines: &[&str]) -> Option<Artefact> {
    let whole = |l: &&&str| {
        let line = l.trim_start();
        (line.starts_with("Aggregated") || line.starts_with("Total")) && line.contains("%)")
    };
    if lines.iter().find(whole).is_some() {
        return None;
    }
    requests_of_locust(lines).or_else(|| percentiles_of_locust(lines))
}

/// ` Aggregated 120 130 150 180 400 1200 3000 9000 12000 12000 12000 1500`: percentiles from the 50th to the 100th.
fn percentiles_of_locust(lines: &[&str]) -> Option<Artefact> {
    (1_u32..).zip(lines).find_map(|(number, line)| {
        let mut words = line.split_whitespace();
        ["Aggregated", "Total"]
            .contains(&words.next()?)
            .then_some(())?;
        let numbers: Vec<f64> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
        let (most, requests) = (numbers.iter().rev().nth(1)?, numbers.last()?);
        let mut found = artefact("locust", number);
        put(&mut found, "load.p50_ms", numbers.first().copied());
        put(&mut found, "load.max_ms", Some(*most));
        put(&mut found, "load.requests", Some(*requests));
        (numbers.len() >= 8).then_some(found)
    })
}

fn requests_of_locust(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("locust", 0);
    let mut slowest = 0.0;
    for (number, line) in (1_u32..).zip(lines) {
        let Some(listed) = request_of_locust(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("load.requests", listed.requests);
        found.add("load.not_answered", listed.failed);
        found.add("load.rate_per_s", listed.rate.unwrap_or(0.0));
        // Before version 1 the mean, the shortest and the longest stood before the median.
        if let [mean, _, most, ..] = listed.times.as_slice() {
            found.largest("load.max_ms", *most);
            if *mean >= slowest {
                slowest = *mean;
                put(&mut found, "load.mean_ms", Some(*mean));
                found.rows = vec![Row::new(listed.name, *mean)];
            }
        }
    }
    told(found).filter(|a| a.value("load.rate_per_s").is_some_and(|r| r > 0.0))
}

/// A line of locust's list.
struct Listed {
    name: String,
    requests: f64,
    failed: f64,
    /// In ms, in the order of that version.
    times: Vec<f64>,
    rate: Option<f64>,
}

fn request_of_locust(line: &str) -> Option<Listed> {
    let (head, rest) = line.split_once("%)")?;
    let (head, _) = head.rsplit_once('(')?;
    let words: Vec<&str> = head.split_whitespace().filter(|w| *w != "|").collect();
    let [name @ .., requests, failed] = words.as_slice() else {
        return None;
    };
    METHODS.contains(name.first()?).then_some(())?;
    let behind: Vec<Vec<f64>> = rest
        .split('|')
        .map(|part| {
            part.split_whitespace()
                .map_while(|w| w.parse().ok())
                .collect()
        })
        .filter(|part: &Vec<f64>| !part.is_empty())
        .collect();
    let times = behind.first()?.clone();
    let last = behind.last().filter(|_| behind.len() > 1)?;
    // Old: the median before the rate; new: the rate before failures a second.
    let rate = match times.len() {
        3 => last.get(1),
        _ => last.first(),
    };
    Some(Listed {
        name: name.join(" "),
        requests: requests.parse().ok()?,
        failed: failed.parse().ok()?,
        times,
        rate: rate.copied(),
    })
}

/// Lines of generators whose beginning or end is cut off: percentiles of oha, hey and wrk, bombardier's table and
/// statuses, k6's metrics.
fn cut_off(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("part of a load generator's output", 0);
    let mut listed = false;
    let first_is = |name: &str| {
        let mut firsts = lines.iter().filter_map(|l| l.first());
        firsts.any(|p| p.text == name)
    };
    let (of_ab, processing) = (
        first_is("66%") && first_is("98%") || first_is("100%"),
        first_is("Processing"),
    );
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.iter().map(|p| p.text).collect();
        let time = |w: &str| seconds(w);
        let ms = |n: Option<f64>| n.map(|s| s * 1e3);
        let (name, n) = match words.as_slice() {
            ["Reqs/sec", mean, _, _] => ("load.rate_per_s", value(mean)),
            ["Latency", "Distribution", ..] => {
                listed = true;
                continue;
            }
            ["Latency", mean, _, most, rest @ ..]
                if time(mean).is_some() && time(most).is_some() && rest.len() <= 1 =>
            {
                found.begin_at(number);
                put(&mut found, "load.max_ms", ms(time(most)));
                ("load.mean_ms", ms(time(mean)))
            }
            // ab's list is of ms without a unit.
            ["50%", n] if of_ab => ("load.p50_ms", value(n)),
            ["100%", n, "longest", "request"] => ("load.max_ms", value(n)),
            ["Total", _, mean, _, median, most] if processing => {
                found.begin_at(number);
                put(&mut found, "load.mean_ms", value(mean));
                put(&mut found, "load.max_ms", value(most));
                ("load.p50_ms", value(median))
            }
            ["time", "for", "request", times @ ..] => {
                let of = |at: usize| ms(times.get(at).and_then(|w| time(w)));
                // Later versions have the median and two percentiles behind the longest.
                let later = times.len() > 6;
                found.begin_at(number);
                put(&mut found, "load.max_ms", of(1));
                put(&mut found, "load.p50_ms", of(2).filter(|_| later));
                ("load.mean_ms", of(if later { 5 } else { 2 }))
            }
            ["status", "codes", rest @ ..] => {
                let counts = rest
                    .chunks_exact(2)
                    .filter_map(|two| Some((two[1], value(two[0])?)));
                let counts: Vec<(&str, f64)> = counts.filter(|(c, _)| c.ends_with("xx")).collect();
                let failed = counts
                    .iter()
                    .filter(|(class, _)| ["4xx", "5xx"].contains(class));
                let failed = failed.map(|c| c.1).sum();
                if counts.len() < 4 {
                    continue;
                }
                found.begin_at(number);
                put(
                    &mut found,
                    "load.requests",
                    Some(counts.iter().map(|c| c.1).sum()),
                );
                ("load.not_answered", Some(failed))
            }
            ["time", "for", "connect", _, most, ..] => ("h2load.connect_max_ms", ms(time(most))),
            ["time", "to", "1st", "byte", _, most, ..] => {
                ("h2load.first_byte_max_ms", ms(time(most)))
            }
            // Of several runs the first one, as its rate is.
            ["50%" | "50.000%", _] if listed && found.value("load.p50_ms").is_some() => continue,
            ["99%" | "99.000%", _] if listed && found.value("load.p99_ms").is_some() => continue,
            ["50%" | "50.000%", took] if listed => ("load.p50_ms", ms(time(took))),
            ["99%" | "99.000%", took] if listed => ("load.p99_ms", ms(time(took))),
            ["Slowest", n, "secs" | "sec"] => ("load.max_ms", value(n).map(|s| s * 1e3)),
            ["Fastest", n, "secs" | "sec"] => ("load.min_ms", value(n).map(|s| s * 1e3)),
            [name, rest @ ..]
                if name.trim_end_matches('.') == "http_req_waiting"
                    || name.trim_end_matches('.') == "http_req_duration" =>
            {
                let of = |wanted: &str| {
                    let at = rest.iter().position(|w| *w == wanted)?;
                    time(rest.get(at + 1)?)
                };
                found.begin_at(number);
                put(&mut found, "load.max_ms", ms(of("max")));
                put(&mut found, "load.mean_ms", ms(of("avg")));
                ("load.p50_ms", ms(of("med")))
            }
            [name, share, rest @ ..] if name.trim_end_matches('.') == "http_req_failed" => {
                let share = share.strip_suffix('%').and_then(value);
                if let Some((failed, all)) = counted_by_k6(rest) {
                    found.begin_at(number);
                    put(&mut found, "load.not_answered", Some(failed));
                    put(&mut found, "load.requests", Some(all));
                }
                ("load.success_percent", share.map(|p| 100.0 - p))
            }
            [
                "1xx",
                _,
                "2xx",
                good,
                "3xx",
                other,
                "4xx",
                refused,
                "5xx",
                failed,
            ] => {
                let n: Option<Vec<f64>> = [good, other, refused, failed]
                    .iter()
                    .map(|w| value(w))
                    .collect();
                let Some([good, other, refused, failed]) = n.as_deref() else {
                    continue;
                };
                found.begin_at(number);
                put(
                    &mut found,
                    "load.requests",
                    Some(good + other + refused + failed),
                );
                ("load.not_answered", Some(refused + failed))
            }
            _ => continue,
        };
        if n.is_some() {
            found.begin_at(number);
            put(&mut found, name, n);
        }
    }
    told(found)
}

/// Failed requests and all of k6: `✓ 90 ✗ 2704`, where the second failed at failing, and `90 out of 2794`.
fn counted_by_k6(words: &[&str]) -> Option<(f64, f64)> {
    match words {
        [failed, "out", "of", all] => value(failed).zip(value(all)),
        [_, failed, _, good] => {
            let (failed, good) = value(failed).zip(value(good))?;
            Some((failed, failed + good))
        }
        _ => None,
    }
}

/// Errors of the system as artillery lists them.
const SYSTEM: [&str; 12] = [
    "ETIMEDOUT",
    "ESOCKETTIMEDOUT",
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "EMFILE",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EHOSTUNREACH",
    "ENETUNREACH",
];

/// Dots lead from a name to its number, `http.request_rate: .... 10/sec`; before version 2 there were `RPS sent: 10`
/// and `Request latency:` above its parts.
fn artillery(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("artillery", 0);
    let mut times = false;
    for (number, line) in (1_u32..).zip(lines) {
        let first = line.first().map_or("", |p| p.text);
        let last = line.last().map_or("", |p| p.text);
        let n = value(last.trim_end_matches("/sec"));
        let name = match first {
            "http.requests" => "load.requests",
            "http.request_rate" => "load.rate_per_s",
            "http.response_time" => {
                times = true;
                continue;
            }
            "vusers.failed" => "load.not_answered",
            "Request" | "Response"
                if line
                    .get(1)
                    .is_some_and(|p| ["latency", "time"].contains(&p.text))
                    && line.len() <= 3 =>
            {
                times = true;
                found.begin_at(number);
                continue;
            }
            "RPS" if line.get(1).is_some_and(|p| p.text == "sent") => "load.rate_per_s",
            "Mean" if line.get(1).is_some_and(|p| p.text == "response/sec") => "load.rate_per_s",
            "Scenarios" if line.get(1).is_some_and(|p| p.text == "launched") => "load.requests",
            "Requests" if line.get(1).is_some_and(|p| p.text == "completed") => "load.requests",
            name if name.starts_with('E') && line.len() == 2 && SYSTEM.contains(&name) => {
                found.add("load.not_answered", n.unwrap_or(0.0));
                continue;
            }
            "max" if times => "load.max_ms",
            "median" if times => "load.p50_ms",
            "p99" if times => "load.p99_ms",
            "min" | "p95" if times => continue,
            name if name.starts_with("errors.") => {
                found.begin_at(number);
                found.add("load.not_answered", n.unwrap_or(0.0));
                continue;
            }
            _ => {
                times = false;
                continue;
            }
        };
        let Some(n) = n else { continue };
        found.begin_at(number);
        // What was asked for in all, also where it did not come back: a scenario may be many requests.
        match name {
            "load.requests" if first != "http.requests" => found.largest(name, n),
            name => put(&mut found, name, Some(n)),
        }
    }
    told(found).filter(|a| !a.is_empty())
}

/// `iteration_duration...: avg=4.36s ... med=4.98s` beside `http_req_duration...: avg=6.73ms`.
fn iterations(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("k6's iterations", 0);
    let (mut requests, mut count) = (None, None);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(name) = line.first().map(|p| p.text.trim_end_matches('.')) else {
            continue;
        };
        let mean = || {
            let at = line.iter().position(|p| p.text == "avg")?;
            seconds(line.get(at + 1)?.text)
        };
        match name {
            "iteration_duration" => put(&mut found, "k6.iteration_s", mean()),
            "http_req_duration" => put(&mut found, "k6.request_s", mean()),
            "http_reqs" => requests = line.get(1).and_then(|p| value(p.text)),
            "iterations" => count = line.get(1).and_then(|p| value(p.text)),
            _ => continue,
        }
        found.begin_at(number);
    }
    let each = requests.zip(count.filter(|n| *n > 0.0)).map(|(r, i)| r / i);
    let iteration = found.value("k6.iteration_s")?;
    // Without its counts an iteration is taken for one request.
    let requests = found.value("k6.request_s")? * each.unwrap_or(1.0);
    put(
        &mut found,
        "k6.outside_s",
        Some((iteration - requests).max(0.0)),
    );
    told(found)
}

/// `DNS-lookup: 5.4315 secs, 0.0298 secs, 16.0029 secs` below hey's and oha's `Details (average, fastest, slowest)`.
fn details(lines: &Lines<'_>) -> Option<Artefact> {
    let mut found = artefact("details of the generator", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.iter().map(|p| p.text).collect();
        let (name, rest) = match words.as_slice() {
            ["DNS+dialup", rest @ ..] => ("details.dial_s", rest),
            ["DNS-lookup", rest @ ..] => ("details.lookup_s", rest),
            ["resp", "wait", rest @ ..] => ("details.wait_s", rest),
            ["resp", "read", rest @ ..] => ("details.read_s", rest),
            _ => continue,
        };
        let [mean, unit, ..] = rest else { continue };
        let unit = match *unit {
            "secs" | "sec" | "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            _ => continue,
        };
        if let Ok(mean) = mean.parse::<f64>() {
            found.begin_at(number);
            put(&mut found, name, Some(mean * unit));
        }
    }
    told(found)
}

/// Means of the parts of k6's requests: the connect, the wait for the first byte, the transfer.
fn phases_of_k6(lines: &Lines<'_>) -> Option<Artefact> {
    #[rustfmt::skip]
    const PARTS: [(&str, &str); 6] = [
        ("http_req_duration", "k6.duration_s"), ("http_req_blocked", "k6.blocked_s"),
        ("http_req_connecting", "k6.connecting_s"), ("http_req_sending", "k6.sending_s"),
        ("http_req_waiting", "k6.waiting_s"), ("http_req_receiving", "k6.receiving_s"),
    ];
    let mut found = artefact("phases of k6", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let [first, label, mean, ..] = line.as_slice() else {
            continue;
        };
        let name = first.text.trim_end_matches('.');
        let part = PARTS.iter().find(|(theirs, _)| *theirs == name);
        if let (Some((_, ours)), "avg", Some(mean)) = (part, label.text, seconds(mean.text)) {
            found.begin_at(number);
            put(&mut found, ours, Some(mean));
        }
    }
    told(found)
}

/// `siege -c 5`: its result does not say how many users there were.
fn siege_command(lines: &[&str]) -> Option<Artefact> {
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|w| *w == "siege") else {
            continue;
        };
        let users = words[at..].windows(2).find_map(|pair| match pair[0] {
            "-c" | "--concurrent" => pair[1].parse::<f64>().ok(),
            flag => flag
                .strip_prefix("-c")
                .or_else(|| flag.strip_prefix("--concurrent="))?
                .parse()
                .ok(),
        });
        if users.is_some() {
            let mut found = artefact("siege's command", number);
            put(&mut found, "load.connections", users);
            return Some(found);
        }
    }
    None
}

/// Each part of the responses must be at least so many of them.
const PART: f64 = 0.05;
/// Between two parts there are at most so many.
const VALLEY: f64 = 0.01;

/// `0.514 [440] |****`: response times of which one part is fast, another slow, and hardly any lie between.
fn populations(lines: &[&str]) -> Option<Artefact> {
    let mut first = 0;
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        if let Some(bucket) = bucket(line) {
            if buckets.is_empty() {
                first = number;
            }
            buckets.push(bucket);
        } else if !buckets.is_empty() {
            break;
        }
    }
    let all: f64 = buckets.iter().map(|b| b.1).sum();
    let mean = |part: &[(f64, f64)]| {
        let n: f64 = part.iter().map(|b| b.1).sum();
        (
            n / all,
            part.iter().map(|b| b.0 * b.1).sum::<f64>() / n.max(1.0),
        )
    };
    let valleys = (1..buckets.len().checked_sub(1)?).filter(|i| buckets[*i].1 <= VALLEY * all);
    let mut parts = valleys.map(|i| (mean(&buckets[..i]), mean(&buckets[i + 1..])));
    let apart = |(fast, slow): &((f64, f64), (f64, f64))| {
        fast.0 >= PART && slow.0 >= PART && slow.1 >= 2.0 * fast.1
    };
    let (fast, slow) = parts.rfind(apart)?;
    let mut found = artefact("histogram of response times", first);
    for (name, n) in [
        ("populations.fast_share", fast.0),
        ("populations.fast_s", fast.1),
        ("populations.slow_s", slow.1),
    ] {
        put(&mut found, name, Some(n));
    }
    Some(found)
}

/// The end of a bucket in seconds, and how many are in it.
fn bucket(line: &str) -> Option<(f64, f64)> {
    let (head, _) = line
        .split_once('|')
        .or_else(|| line.split_once('\u{2502}'))?;
    let (end, n) = head.trim().strip_suffix(']')?.split_once('[')?;
    let end = end.trim();
    let bare = end.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match end[bare.len()..].trim() {
        "" | "s" | "sec" | "secs" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Some((bare.parse::<f64>().ok()? * unit, n.trim().parse().ok()?))
}
