//! ApacheBench.
//!
//! The surprise is its failed requests: a body of another length than the first counts as one, so every page with a
//! time in it fails. Those are kept apart as `length_differs` and not counted as failures.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, Word, count, number, percent, percentile_name, phrase};
use record::LatencyBase;

const SLACK: f64 = 0.002;
const MS: f64 = 1e6;

/// All results: each begins with its server or its concurrency and ends with its slowest request.
pub(crate) fn read(words: &[Word<'_>]) -> Harvest {
    let mut harvest = Harvest::default();
    let mut open: Option<Found> = None;
    let mut host = String::new();
    let mut at = 0;
    while at < words.len() {
        let begins = (phrase(words, at, "Server Software:").is_some()
            && open.as_ref().is_none_or(|o| o.has("rate_per_s")))
            || (phrase(words, at, "Concurrency Level:").is_some()
                && open.as_ref().is_none_or(|o| o.has("connections")));
        if begins {
            if let Some(found) = open.take() {
                finish(found, &mut harvest);
            }
            open = Some(Found::new(
                Nature::Load,
                "ab",
                LatencyBase::Sent,
                words[at].line,
            ));
        }
        let Some(found) = open.as_mut() else {
            at += 1;
            continue;
        };
        match piece(found, &mut host, words, at) {
            Some(next) => {
                found.reach(words[next - 1].line);
                at = next;
                if found.has("latency_ns.p100")
                    && let Some(done) = open.take()
                {
                    finish(done, &mut harvest);
                }
            }
            None => at += 1,
        }
    }
    if let Some(found) = open {
        finish(found, &mut harvest);
    }
    harvest
}

fn finish(mut found: Found, harvest: &mut Harvest) {
    // The slowest request is the table's largest total too.
    let figures = &mut found.reported.figures;
    if figures.iter().any(|f| f.name == "latency_ns.max") {
        figures.retain(|f| f.name != "latency_ns.p100");
    } else if let Some(slowest) = figures.iter_mut().find(|f| f.name == "latency_ns.p100") {
        "latency_ns.max".clone_into(&mut slowest.name);
    }
    harvest.take(found, "rate_per_s", SLACK);
}

/// Heads with a count behind them, and the figures' names.
const COUNTS: [(&str, &str); 5] = [
    ("Concurrency Level:", "connections"),
    ("Complete requests:", "requests"),
    ("Write errors:", "failed.write"),
    ("Non-2xx responses:", "failed.non_2xx"),
    ("Keep-Alive requests:", "keep_alive_requests"),
];

/// Heads of the connection times, and the figures' names.
const TIMES: [(&str, &str); 4] = [
    ("Connect:", "connect_ns"),
    ("Processing:", "processing_ns"),
    ("Waiting:", "first_byte_ns"),
    ("Total:", "latency_ns"),
];

fn piece(found: &mut Found, host: &mut String, words: &[Word<'_>], at: usize) -> Option<usize> {
    for (head, name) in COUNTS {
        if let Some(next) = phrase(words, at, head) {
            found.set_count(name, count(words.get(next)?.text)?);
            return Some(next + 1);
        }
    }
    for (head, name) in TIMES {
        if phrase(words, at, head).is_some() {
            return times(found, name, words, at + 1);
        }
    }
    if let Some(next) = phrase(words, at, "Server Hostname:") {
        words.get(next)?.text.clone_into(host);
        return Some(next + 1);
    }
    if let Some(next) = phrase(words, at, "Document Path:") {
        found.url = format!("http://{host}{}", words.get(next)?.text);
        return Some(next + 1);
    }
    if let Some(next) = phrase(words, at, "Time taken for tests:") {
        let time = number(words.get(next)?.text)?;
        let after = phrase(words, next + 1, "seconds")?;
        found.set("duration_s", "s", time);
        return Some(after);
    }
    if let Some(next) = phrase(words, at, "Requests per second:") {
        let rate = number(words.get(next)?.text)?;
        let after = phrase(words, next + 1, "[#/sec]")?;
        found.set("rate_per_s", "1/s", rate);
        return Some(after);
    }
    if let Some(next) = phrase(words, at, "Total transferred:") {
        found.set(
            "received_bytes",
            "bytes",
            Number::exact(count(words.get(next)?.text)?),
        );
        return Some(next + 1);
    }
    if let Some(next) = phrase(words, at, "Transfer rate:") {
        let rate = number(words.get(next)?.text)?;
        let after = phrase(words, next + 1, "[Kbytes/sec]")?;
        found.set("transfer_bytes_per_s", "bytes/s", rate.times(1024.0));
        return Some(after);
    }
    if let Some(next) = phrase(words, at, "Failed requests:") {
        return failed(found, words, next);
    }
    percentile(found, words, at)
}

/// `Failed requests: 12`, the next line `(Connect: 0, Receive: 0, Length: 12, Exceptions: 0)`.
fn failed(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
    let all = count(words.get(at)?.text)?;
    let kinds = ["Connect", "Receive", "Length", "Exceptions"];
    let mut next = at + 1;
    let mut values = Vec::new();
    for kind in kinds {
        let head = words
            .get(next)
            .map_or("", |w| w.text.trim_start_matches('('));
        if !head.trim_end_matches(':').eq_ignore_ascii_case(kind) {
            break;
        }
        values.push(count(words.get(next + 1)?.text)?);
        next += 2;
    }
    if values.len() < kinds.len() {
        found.set_count("failed.all", all);
        return Some(at + 1);
    }
    for (kind, value) in kinds.iter().zip(values) {
        match *kind {
            "Length" => found.set_count("length_differs", value),
            kind => found.set_count(format!("failed.{}", kind.to_lowercase()), value),
        }
    }
    Some(next)
}

/// `Total: 1 3 0.7 3 25`: min, mean, standard deviation, median, max; ms.
fn times(found: &mut Found, name: &str, words: &[Word<'_>], at: usize) -> Option<usize> {
    let values: Option<Vec<Number>> = (0..5).map(|i| number(words.get(at + i)?.text)).collect();
    for (which, value) in ["min", "mean", "stddev", "median", "max"]
        .iter()
        .zip(values?)
    {
        // The median of the total stands among the percentiles again.
        let which = if *which == "median" { "p50" } else { which };
        found.set_ns(format!("{name}.{which}"), value.times(MS));
    }
    Some(at + 5)
}

fn percentile(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
    let which = percent(words[at].text)?.value;
    if ![50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0].contains(&which) {
        return None;
    }
    let value = number(words.get(at + 1)?.text)?;
    if which == 100.0 && phrase(words, at + 2, "(longest request)").is_none() {
        return None;
    }
    found.set_ns(percentile_name("latency_ns", which), value.times(MS));
    Some(at + 2)
}
