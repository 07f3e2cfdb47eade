//! Load generators whose lines have no fixed wording: JMeter's summariser, locust's table, artillery, k6's
//! iterations, and what a histogram of response times shows.
//!
//! A generator's last summary is its result: those before it are of parts of the run. The surprise is k6: the time of
//! an iteration counts what its script and k6's own limits add, which no time of a request does.

use super::events::{artefact, told};
use super::pieces::{Piece, pieces, seconds, value};
use record::pasted::Artefact;

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let split: Vec<_> = lines.iter().map(|l| pieces(l)).collect();
    let mut done = Vec::new();
    done.extend(jmeter(&split));
    done.extend(locust(&split));
    done.extend(artillery(&split));
    done.extend(iterations(&split));
    done.extend(siege_command(lines));
    done.extend(populations(lines));
    done
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
fn locust(lines: &Lines<'_>) -> Option<Artefact> {
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
        // Before version 1 the last line had no times.
        if numbers.len() < 8 {
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

/// Errors of the system as artillery lists them.
const SYSTEM: [&str; 6] = [
    "ETIMEDOUT",
    "ESOCKETTIMEDOUT",
    "ECONNREFUSED",
    "ECONNRESET",
    "EPIPE",
    "EMFILE",
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
            "RPS" => "load.rate_per_s",
            "Mean" if line.get(1).is_some_and(|p| p.text == "response/sec") => "load.rate_per_s",
            "Scenarios" if line.get(1).is_some_and(|p| p.text == "launched") => "load.requests",
            name if name.starts_with('E') && line.len() == 2 && SYSTEM.contains(&name) => {
                found.add("load.not_answered", n.unwrap_or(0.0));
                continue;
            }
            "max" if times => "load.max_ms",
            "median" if times => "load.p50_ms",
            "min" | "p95" | "p99" if times => continue,
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
        // What was asked for in all, also where it did not come back.
        match name {
            "load.requests" if first == "Scenarios" => found.largest(name, n),
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
