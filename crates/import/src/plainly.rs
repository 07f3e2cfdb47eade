//! Tools that print a heading and values behind it: weighttp, h2load, hey, oha, bombardier, vegeta, k6, fortio.
//!
//! Each has its own reader below; what they share is the walk over the words: a result begins at words that only this
//! tool prints, and lasts until the next one begins.

use super::found::{Found, Harvest, Nature};
use super::text::{
    Number, Word, bytes_at, count, duration, duration_at, loose, number, percent, percentile_name,
    phrase, thousands,
};
use record::LatencyBase;

/// Counts and times that a tool took at different moments agree within this.
const SLACK: f64 = 0.02;

/// A reader of one tool.
struct Reader {
    tool: &'static str,
    base: LatencyBase,
    /// Whether a result begins here.
    begins: fn(&[Word<'_>], usize) -> bool,
    /// Reads what stands there; the index behind it.
    piece: fn(&mut Found, &[Word<'_>], usize) -> Option<usize>,
    /// Completes a result.
    finish: fn(&mut Found),
    slack: f64,
}

fn walk(words: &[Word<'_>], reader: &Reader) -> Harvest {
    let mut harvest = Harvest::default();
    let mut open: Option<Found> = None;
    let close = |open: Option<Found>, harvest: &mut Harvest| {
        if let Some(mut found) = open {
            (reader.finish)(&mut found);
            harvest.take(found, "rate_per_s", reader.slack);
        }
    };
    let mut at = 0;
    while at < words.len() {
        if (reader.begins)(words, at) {
            close(open.take(), &mut harvest);
            let line = words[at].line;
            open = Some(Found::new(Nature::Load, reader.tool, reader.base, line));
        }
        let next = open
            .as_mut()
            .and_then(|found| (reader.piece)(found, words, at));
        match (next, open.as_mut()) {
            (Some(next), Some(found)) => {
                // A row that the text cuts off may end behind its last word.
                at = next.min(words.len());
                found.reach(words[at - 1].line);
            }
            _ => at += 1,
        }
    }
    close(open, &mut harvest);
    harvest
}

fn nothing(_: &mut Found) {}

/// `3000 total, 3000 started, ...`: counts with their names, until one is not in the list.
fn named_counts(words: &[Word<'_>], mut at: usize, names: &[&str]) -> (Vec<(String, f64)>, usize) {
    let mut found = Vec::new();
    while let (Some(n), Some(name)) = (
        words.get(at).and_then(|w| count(w.text)),
        words.get(at + 1).map(|w| w.text.trim_end_matches(',')),
    ) {
        if !names.contains(&name) {
            break;
        }
        found.push((name.to_owned(), n));
        at += 2;
    }
    (found, at)
}

/// Requests and status classes as weighttp and h2load print them.
fn counts(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
    if let Some(next) = phrase(words, at, "requests:") {
        let names = [
            "total",
            "started",
            "done",
            "succeeded",
            "failed",
            "errored",
            "timeout",
        ];
        let (list, next) = named_counts(words, next, &names);
        for (name, n) in &list {
            match name.as_str() {
                "done" => found.set_count("requests", *n),
                "succeeded" => found.set_count("succeeded", *n),
                // h2load counts what errored or timed out among the failed ones.
                "failed" => found.set_count("failed.all", *n),
                _ => {}
            }
        }
        return (!list.is_empty()).then_some(next);
    }
    if let Some(next) = phrase(words, at, "status codes:") {
        let (list, next) = named_counts(words, next, &["2xx", "3xx", "4xx", "5xx"]);
        for (class, n) in &list {
            found.set_count(format!("status.{class}"), *n);
        }
        return (!list.is_empty()).then_some(next);
    }
    None
}

/// weighttp up to 0.4.
pub(crate) fn weighttp(words: &[Word<'_>]) -> Harvest {
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        phrase(words, at, "finished in").is_some()
            && words.get(at + 3).is_some_and(|w| w.text == "sec,")
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        let Some(next) = phrase(words, at, "finished in") else {
            return traffic(found, words, at).or_else(|| counts(found, words, at));
        };
        let mut parts = Vec::new();
        let mut next = next;
        for unit in ["sec,", "millisec", "microsec,"] {
            parts.push(count(words.get(next)?.text)?);
            next = phrase(words, next + 1, unit)?;
            next = phrase(words, next, "and").unwrap_or(next);
        }
        let seconds = parts[0] + parts[1] * 1e-3 + parts[2] * 1e-6;
        let rate = number(words.get(next)?.text)?;
        let next = phrase(words, next + 1, "req/s,")?;
        let transfer = number(words.get(next)?.text)?;
        let next = phrase(words, next + 1, "kbyte/s")?;
        found.set(
            "duration_s",
            "s",
            Number {
                value: seconds,
                half: 5e-7,
            },
        );
        // It cuts the fraction off: up to one more.
        found.set("rate_per_s", "1/s", Number { half: 1.0, ..rate });
        found.set("transfer_bytes_per_s", "bytes/s", transfer.times(1024.0));
        Some(next)
    }
    fn traffic(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        let next = phrase(words, at, "traffic:")?;
        let total = count(words.get(next)?.text)?;
        let next = phrase(words, next + 1, "bytes total,")?;
        found.set("received_bytes", "bytes", Number::exact(total));
        Some(next)
    }
    walk(
        words,
        &Reader {
            tool: "weighttp",
            base: LatencyBase::Unknown,
            begins,
            piece,
            finish: nothing,
            slack: 0.002,
        },
    )
}

/// h2load.
pub(crate) fn h2load(words: &[Word<'_>]) -> Harvest {
    const ROWS: [(&str, &str); 3] = [
        ("time for request:", "latency_ns"),
        ("time for connect:", "connect_ns"),
        ("time to 1st byte:", "first_byte_ns"),
    ];
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        phrase(words, at, "finished in").is_some()
            && words
                .get(at + 2)
                .is_some_and(|w| duration(w.text).is_some())
            && phrase(words, at + 4, "req/s,").is_some()
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        if phrase(words, at, "finished in").is_some() {
            let (time, next) = duration_at(words, at + 2)?;
            let rate = number(words.get(next)?.text)?;
            let next = phrase(words, next + 1, "req/s,")?;
            let (transfer, next) = bytes_at(words, next)?;
            found.set("duration_s", "s", time.times(1e-9));
            found.set("rate_per_s", "1/s", rate);
            found.set("transfer_bytes_per_s", "bytes/s", transfer);
            return Some(next);
        }
        for (head, name) in ROWS {
            if let Some(mut next) = phrase(words, at, head) {
                for which in ["min", "max", "mean", "stddev"] {
                    let (value, after) = duration_at(words, next)?;
                    found.set_ns(format!("{name}.{which}"), value);
                    next = after;
                }
                return Some(next);
            }
        }
        if let Some(next) = phrase(words, at, "traffic:") {
            // `1.10MB (1156000) total`: the exact number stands in brackets.
            let exact = count(words.get(next + 1)?.text)?;
            found.set("received_bytes", "bytes", Number::exact(exact));
            return Some(next + 2);
        }
        counts(found, words, at)
    }
    walk(
        words,
        &Reader {
            tool: "h2load",
            base: LatencyBase::Sent,
            begins,
            piece,
            finish: nothing,
            slack: SLACK,
        },
    )
}

/// What hey and oha have in common.
fn summary_piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
    const TIMES: [(&str, &str); 3] = [
        ("Slowest:", "latency_ns.max"),
        ("Fastest:", "latency_ns.min"),
        ("Average:", "latency_ns.mean"),
    ];
    for (head, name) in TIMES {
        if let Some(next) = phrase(words, at, head) {
            let (time, next) = duration_at(words, next)?;
            found.set_ns(name, time);
            return Some(next);
        }
    }
    if let Some(next) = phrase(words, at, "Total:") {
        let (time, next) = duration_at(words, next)?;
        found.set("duration_s", "s", time.times(1e-9));
        return Some(next);
    }
    if let Some(next) = phrase(words, at, "Requests/sec:") {
        found.set("rate_per_s", "1/s", number(words.get(next)?.text)?);
        return Some(next + 1);
    }
    if let Some(next) = phrase(words, at, "Total data:") {
        let (size, next) = bytes_at(words, next)?;
        found.set("received_bytes", "bytes", size);
        return Some(next);
    }
    if phrase(words, at + 1, "in").is_some() {
        let which = percent(words[at].text)?.value;
        let (time, next) = duration_at(words, at + 2)?;
        found.set_ns(percentile_name("latency_ns", which), time);
        return Some(next);
    }
    if let Some(next) = phrase(words, at, "Error distribution:") {
        return Some(errors(found, words, next));
    }
    // `[200] 3000 responses`.
    let status = words[at].text.strip_prefix('[')?.strip_suffix(']')?;
    let n = count(words.get(at + 1)?.text)?;
    let next = phrase(words, at + 2, "responses")?;
    let code: u16 = status.parse().ok().filter(|c| (100..600).contains(c))?;
    let kind = if code < 400 {
        "status"
    } else {
        "failed.status"
    };
    found.set_count(format!("{kind}.{code}"), n);
    Some(next)
}

/// `[20] Get "http://...": connect: connection refused`, one after the other.
fn errors(found: &mut Found, words: &[Word<'_>], at: usize) -> usize {
    let mut all = 0.0;
    let mut next = at;
    while let Some(word) = words.get(next) {
        let inner = word
            .text
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix(']'));
        if let Some(n) = inner.and_then(count) {
            all += n;
        } else if word.text.ends_with("Summary:") || inner.is_none() && next == at {
            break;
        }
        next += 1;
        // The list ends where a line is no error any more.
        let new_line = words.get(next).is_some_and(|w| w.line > word.line);
        let entry = words.get(next).is_some_and(|w| w.text.starts_with('['));
        if new_line && !entry {
            break;
        }
    }
    if all > 0.0 {
        found.set_count("failed.errors", all);
    }
    next
}

/// Without an answer the times that are printed are zeros of nothing; an output that was cut off before its statuses
/// has times of answers.
fn no_times_of_nothing(found: &mut Found) {
    let figures = &mut found.reported.figures;
    let any = |head: &str| {
        figures
            .iter()
            .any(|f| f.name.starts_with(head) && f.value > 0.0)
    };
    let cut_off = !any("failed.") && any("latency_ns.max");
    if !any("status.") && !cut_off {
        figures.retain(|f| !f.name.starts_with("latency_ns."));
    }
}

fn summary_begins(words: &[Word<'_>], at: usize) -> bool {
    phrase(words, at, "Summary:").is_some()
}

/// hey.
pub(crate) fn hey(words: &[Word<'_>]) -> Harvest {
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        summary_begins(words, at) && phrase(words, at + 1, "Total:").is_some()
    }
    walk(
        words,
        &Reader {
            tool: "hey",
            base: LatencyBase::Sent,
            begins,
            piece: summary_piece,
            finish: no_times_of_nothing,
            slack: SLACK,
        },
    )
}

/// oha, as text.
pub(crate) fn oha(words: &[Word<'_>]) -> Harvest {
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        summary_begins(words, at) && phrase(words, at + 1, "Success rate:").is_some()
    }
    fn finish(found: &mut Found) {
        no_times_of_nothing(found);
        // Requests that were cut off at the deadline are in the error list and not in the rate.
        found.reported.figures.retain(|f| f.name != "duration_s");
    }
    walk(
        words,
        &Reader {
            tool: "oha",
            base: LatencyBase::Unknown,
            begins,
            piece: summary_piece,
            finish,
            slack: SLACK,
        },
    )
}

/// bombardier, as text.
pub(crate) fn bombardier(words: &[Word<'_>]) -> Harvest {
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        phrase(words, at, "Bombarding").is_some() && words.len() > at + 2
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        if let Some(next) = phrase(words, at, "Bombarding") {
            words.get(next)?.text.clone_into(&mut found.url);
            return Some(next + 1);
        }
        if words[at].text == "using" {
            let n = count(words.get(at + 1)?.text)?;
            phrase(words, at + 2, "connection(s)")?;
            found.set_count("connections", n);
            return Some(at + 3);
        }
        if let Some(next) = phrase(words, at, "Reqs/sec") {
            found.set("rate_per_s", "1/s", number(words.get(next)?.text)?);
            return Some(next + 3);
        }
        if phrase(words, at, "Latency Distribution").is_some() {
            return Some(at + 2);
        }
        if let Some(mut next) = phrase(words, at, "Latency") {
            for which in ["mean", "stddev", "max"] {
                let (value, after) = duration_at(words, next)?;
                found.set_ns(format!("latency_ns.{which}"), value);
                next = after;
            }
            return Some(next);
        }
        if let Some(next) = phrase(words, at, "Throughput:") {
            let (rate, next) = bytes_at(words, next)?;
            found.set("transfer_bytes_per_s", "bytes/s", rate);
            return Some(next);
        }
        if phrase(words, at + 1, "-").is_some() {
            let name = match words[at].text {
                class @ ("1xx" | "2xx" | "3xx") => format!("status.{class}"),
                class @ ("4xx" | "5xx") => format!("failed.{class}"),
                "others" => "failed.others".to_owned(),
                _ => return None,
            };
            found.set_count(name, count(words.get(at + 2)?.text)?);
            return Some(at + 3);
        }
        let which = percent(words[at].text)?.value;
        let (time, next) = duration_at(words, at + 1)?;
        found.set_ns(percentile_name("latency_ns", which), time);
        Some(next)
    }
    walk(
        words,
        &Reader {
            tool: "bombardier",
            base: LatencyBase::Sent,
            begins,
            piece,
            finish: no_times_of_nothing,
            slack: SLACK,
        },
    )
}

/// `vegeta report`.
pub(crate) fn vegeta(words: &[Word<'_>]) -> Harvest {
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        let rate = words
            .get(at + 2)
            .map_or("", |w| w.text.trim_end_matches([',', ']']));
        phrase(words, at, "Requests [total,").is_some() && rate == "rate"
    }
    /// The names in the brackets at `at`, and the index behind them.
    fn columns(words: &[Word<'_>], at: usize) -> Option<(Vec<String>, usize)> {
        let mut names = Vec::new();
        let mut next = at;
        words.get(at)?.text.strip_prefix('[')?;
        loop {
            let text = words.get(next)?.text;
            names.push(text.trim_matches(['[', ']', ',']).to_owned());
            next += 1;
            if text.ends_with(']') {
                return Some((names, next));
            }
            if names.len() > 12 {
                return None;
            }
        }
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        let head = words[at].text;
        let (names, mut next) = match head {
            "Requests" | "Duration" | "Latencies" | "Success" => columns(words, at + 1)?,
            "Bytes" if phrase(words, at + 1, "In").is_some() => columns(words, at + 2)?,
            "Status" => columns(words, phrase(words, at, "Status Codes")?)?,
            _ => return None,
        };
        if head == "Status" {
            while let Some((code, n)) = words.get(next).and_then(|w| w.text.split_once(':')) {
                let (Ok(code), Some(n)) = (code.parse::<u16>(), count(n)) else {
                    break;
                };
                let kind = if (100..400).contains(&code) {
                    "status"
                } else {
                    "failed.status"
                };
                found.set_count(format!("{kind}.{code}"), n);
                next += 1;
            }
            return Some(next);
        }
        for name in names {
            let text = words.get(next)?.text;
            match (head, name.as_str()) {
                ("Requests", "total") => found.set_count("requests", count(text)?),
                ("Requests", "rate") => found.set("offered_per_s", "1/s", loose(text)?),
                ("Requests", "throughput") => found.set("rate_per_s", "1/s", loose(text)?),
                ("Duration", "total") => found.set("total_s", "s", duration(text)?.times(1e-9)),
                ("Duration", "attack") => found.set("attack_s", "s", duration(text)?.times(1e-9)),
                ("Bytes", "total") => {
                    found.set("received_bytes", "bytes", Number::exact(count(text)?));
                }
                ("Latencies", which) => {
                    let value = duration(text)?;
                    match which.parse::<f64>() {
                        Ok(p) => found.set_ns(percentile_name("latency_ns", p), value),
                        Err(_) => found.set_ns(format!("latency_ns.{which}"), value),
                    }
                }
                _ => {}
            }
            next += 1;
        }
        Some(next)
    }
    walk(
        words,
        &Reader {
            tool: "vegeta",
            base: LatencyBase::Scheduled,
            begins,
            piece,
            finish: with_its_rate,
            slack: SLACK,
        },
    )
}

/// Before version 12 vegeta printed no throughput: it is what succeeded over the whole time.
fn with_its_rate(found: &mut Found) {
    let succeeded = found.reported.figures.iter();
    let succeeded: f64 = succeeded
        .filter(|f| f.name.starts_with("status."))
        .map(|f| f.value)
        .sum();
    if let Some(s) = found.reported.value("total_s").filter(|s| *s > 0.0) {
        found.set("rate_per_s", "1/s", Number::exact(succeeded / s));
    }
}

/// k6's summary at the end of a test.
pub(crate) fn k6(words: &[Word<'_>]) -> Harvest {
    /// `http_reqs......................:` is the metric `http_reqs`.
    fn metric<'a>(word: &Word<'a>) -> Option<&'a str> {
        let name = word.text.strip_suffix(':')?.trim_end_matches('.');
        (word.text.len() > name.len() + 1).then_some(name)
    }
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        const FIRST: [&str; 4] = [
            "checks",
            "checks_total",
            "data_received",
            "http_req_blocked",
        ];
        let is_first = |w: &Word<'_>| metric(w).is_some_and(|m| FIRST.contains(&m));
        is_first(&words[at]) && !words[at.saturating_sub(60)..at].iter().any(is_first)
            || metric(&words[at]) == Some("http_req_duration")
                && !words[at.saturating_sub(120)..at].iter().any(is_first)
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        let mut next = at + 1;
        match metric(&words[at])? {
            name @ ("http_req_duration" | "http_req_connecting" | "http_req_waiting") => {
                let name = match name {
                    "http_req_duration" => "latency_ns",
                    "http_req_connecting" => "connect_ns",
                    _ => "first_byte_ns",
                };
                while let Some((which, value)) =
                    words.get(next).and_then(|w| w.text.split_once('='))
                {
                    let value = duration(value)?;
                    let which = match which {
                        "avg" => "mean".to_owned(),
                        "med" => "p50".to_owned(),
                        p => match p.strip_prefix("p(").and_then(|p| p.strip_suffix(')')) {
                            Some(p) => format!("p{p}"),
                            None => p.to_owned(),
                        },
                    };
                    found.set_ns(format!("{name}.{which}"), value);
                    next += 1;
                }
            }
            name @ ("http_reqs" | "dropped_iterations") => {
                let n = count(words.get(next)?.text)?;
                let rate = number(words.get(next + 1)?.text.strip_suffix("/s")?)?;
                if name == "http_reqs" {
                    found.set_count("requests", n);
                    found.set("rate_per_s", "1/s", rate);
                } else {
                    found.set_count("dropped", n);
                }
                next += 2;
            }
            "http_req_failed" => {
                found.set("failed_share", "%", percent(words.get(next)?.text)?);
                next += 1;
            }
            name @ ("vus_max" | "vus") => {
                found.set_count(name, count(words.get(next)?.text)?);
                next += 1;
            }
            _ => return None,
        }
        Some(next)
    }
    walk(
        words,
        &Reader {
            tool: "k6",
            base: LatencyBase::Sent,
            begins,
            piece,
            finish: nothing,
            slack: SLACK,
        },
    )
}

/// fortio, as text.
pub(crate) fn fortio(words: &[Word<'_>]) -> Harvest {
    const S: f64 = 1e9;
    fn begins(words: &[Word<'_>], at: usize) -> bool {
        phrase(words, at, "Ended after").is_some()
    }
    fn piece(found: &mut Found, words: &[Word<'_>], at: usize) -> Option<usize> {
        if let Some(next) = phrase(words, at, "Ended after") {
            let (time, next) = duration_at(words, next)?;
            let next = phrase(words, next, ":").unwrap_or(next);
            let calls = count(words.get(next)?.text)?;
            let next = phrase(words, next + 1, "calls.")?;
            let rate = thousands(words.get(next)?.text.strip_prefix("qps=")?)?;
            found.set("duration_s", "s", time.times(1e-9));
            found.set_count("requests", calls);
            found.set("rate_per_s", "1/s", rate);
            return Some(next + 1);
        }
        if let Some(next) = phrase(words, at, "Aggregated Function Time :") {
            const PARTS: [(&str, &str); 4] = [
                ("avg", "mean"),
                ("+/-", "stddev"),
                ("min", "min"),
                ("max", "max"),
            ];
            let mut next = phrase(words, next, "count")? + 1;
            for (head, which) in PARTS {
                next = phrase(words, next, head)?;
                let value = number(words.get(next)?.text)?;
                found.set_ns(format!("latency_ns.{which}"), value.times(S));
                next += 1;
            }
            return Some(next);
        }
        if let Some(next) = phrase(words, at, "# target") {
            let which = percent(words.get(next)?.text)?.value;
            let value = number(words.get(next + 1)?.text)?;
            found.set_ns(percentile_name("latency_ns", which), value.times(S));
            return Some(next + 2);
        }
        if let Some(next) = phrase(words, at, "Code") {
            let code = words.get(next)?.text;
            let next = phrase(words, next + 1, ":")?;
            let n = count(words.get(next)?.text)?;
            let good = code.parse::<u16>().is_ok_and(|c| (100..400).contains(&c));
            let kind = if good { "status" } else { "failed.status" };
            found.set_count(format!("{kind}.{code}"), n);
            return Some(next + 1);
        }
        None
    }
    walk(
        words,
        &Reader {
            tool: "fortio",
            base: LatencyBase::Sent,
            begins,
            piece,
            finish: nothing,
            slack: SLACK,
        },
    )
}
