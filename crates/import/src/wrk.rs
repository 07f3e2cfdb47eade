//! wrk, and wrk2 which prints the same frame with more percentiles.
//!
//! The surprise is the number of connections: both divide it by the threads and drop the remainder, so that
//! `-t7 -c20` opens 14. What is stored is what was opened.

use super::found::{Found, Harvest, Nature};
use super::text::{
    Word, bytes_at, count, duration, duration_at, loose, number, percent, percentile_name, phrase,
};
use record::LatencyBase;

/// wrk's rate is its count over its run time, which it prints with two decimals.
const SLACK: f64 = 0.002;

/// All results; orphaned pieces are left out.
pub(crate) fn read(words: &[Word<'_>]) -> Harvest {
    let mut harvest = Harvest::default();
    let mut open: Option<Open> = None;
    let mut at = 0;
    while at < words.len() {
        let line = words[at].line;
        if let Some((started, next)) = begin(words, at) {
            // `Running ...` stands before the threads of the same result.
            match (&mut open, started.found.has("connections")) {
                (Some(o), true) if !o.found.has("connections") => o.join(started),
                _ => {
                    close(open.take(), &mut harvest);
                    open = Some(started);
                }
            }
            at = next;
            continue;
        }
        let step = match open.as_mut() {
            Some(open) => open.piece(words, at),
            None => orphan(words, at, &mut harvest),
        };
        match step {
            Some(next) => {
                let last = words[next - 1].line.max(line);
                if let Some(open) = open.as_mut() {
                    open.found.reach(last);
                }
                let ended = open.as_ref().is_some_and(|o| o.ended);
                if ended && !more_follows(words, next) {
                    close(open.take(), &mut harvest);
                }
                at = next;
            }
            None => at += 1,
        }
    }
    close(open, &mut harvest);
    harvest
}

/// After the rate comes the transfer rate.
fn more_follows(words: &[Word<'_>], at: usize) -> bool {
    phrase(words, at, "Transfer/sec:").is_some()
}

fn close(open: Option<Open>, harvest: &mut Harvest) {
    let Some(mut open) = open else { return };
    if open.found.reported.tool == "wrk2" {
        open.found.reported.latency_base = LatencyBase::Scheduled;
    }
    // A sentence may speak of running a test without a result.
    if open.found.has("connections") || open.found.has("rate_per_s") {
        open.truncate_connections();
        harvest.take(open.found, "rate_per_s", SLACK);
    }
}

struct Open {
    found: Found,
    /// Name of the distribution that is being listed.
    latency: &'static str,
    in_spectrum: bool,
    ended: bool,
}

/// `Running 4s test @ URL`, or `4 threads and 500 connections`.
fn begin(words: &[Word<'_>], at: usize) -> Option<(Open, usize)> {
    let mut found = Found::new(Nature::Load, "wrk", LatencyBase::Corrected, words[at].line);
    let next = if phrase(words, at, "Running").is_some() {
        duration(words.get(at + 1)?.text)?;
        let next = phrase(words, at + 2, "test @")?;
        words.get(next)?.text.clone_into(&mut found.url);
        next + 1
    } else {
        let threads = count(words[at].text)?;
        phrase(words, at + 1, "threads and")?;
        let connections = count(words.get(at + 3)?.text)?;
        phrase(words, at + 4, "connections")?;
        found.set_count("connections", connections);
        found.set_count("threads", threads);
        at + 5
    };
    let open = Open {
        found,
        latency: "latency_ns",
        in_spectrum: false,
        ended: false,
    };
    Some((open, next))
}

/// A rate that belongs to no result, for example one in a sentence.
fn orphan(words: &[Word<'_>], at: usize, harvest: &mut Harvest) -> Option<usize> {
    let next = phrase(words, at, "Requests/sec:")?;
    // hey and oha print the same words within a summary of their own.
    let before = &words[at.saturating_sub(16)..at];
    let own = |w: &Word<'_>| ["Slowest:", "Fastest:", "Average:"].contains(&w.text);
    if loose(words.get(next)?.text).is_some() && !before.iter().any(own) {
        let line = words[at].line;
        let why = "a rate that stands outside a result of wrk".to_owned();
        harvest.left_out.push((line, line, why));
    }
    Some(next)
}

impl Open {
    fn join(&mut self, threads: Open) {
        let line = threads.found.reported.lines.1;
        self.found
            .reported
            .figures
            .extend(threads.found.reported.figures);
        self.found.reach(line);
    }

    /// Reads what stands at `at`; the index behind it.
    fn piece(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        let text = words[at].text;
        match text {
            "Latency" => self.latency(words, at),
            "Thread" => {
                let next = phrase(words, at, "Thread calibration:")?;
                "wrk2".clone_into(&mut self.found.reported.tool);
                Some(next)
            }
            "Uncorrected" => {
                let next = phrase(words, at, "Uncorrected Latency")?;
                self.latency = "uncorrected_latency_ns";
                self.in_spectrum = false;
                Some(next)
            }
            "Detailed" => {
                let next = phrase(words, at, "Detailed Percentile spectrum:")?;
                self.in_spectrum = true;
                Some(next)
            }
            "Socket" => self.socket_errors(words, at),
            "Non-2xx" => {
                let next = phrase(words, at, "Non-2xx or 3xx responses:")?;
                self.found
                    .set_count("failed.non_2xx", count(words.get(next)?.text)?);
                Some(next + 1)
            }
            "Requests/sec:" => {
                self.found
                    .set("rate_per_s", "1/s", number(words.get(at + 1)?.text)?);
                self.ended = true;
                Some(at + 2)
            }
            "Transfer/sec:" => {
                let (rate, next) = bytes_at(words, at + 1)?;
                self.found.set("transfer_bytes_per_s", "bytes/s", rate);
                self.ended = true;
                Some(next)
            }
            _ if text.ends_with('%') => self.percentile(words, at),
            _ => self.total(words, at),
        }
    }

    /// `Latency 61.10ms 104.69ms 964.53ms 86.61%`, or the head of a distribution.
    fn latency(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        if let Some(next) = phrase(words, at, "Latency Distribution") {
            if phrase(words, next, "(HdrHistogram").is_some() {
                "wrk2".clone_into(&mut self.found.reported.tool);
                if phrase(words, next, "(HdrHistogram - Uncorrected").is_some() {
                    self.latency = "uncorrected_latency_ns";
                }
            }
            return Some(next);
        }
        let mut next = at + 1;
        let mut values = Vec::new();
        for _ in 0..3 {
            let (value, after) = duration_at(words, next)?;
            values.push(value);
            next = after;
        }
        percent(words.get(next)?.text)?;
        for (name, value) in ["mean", "stddev", "max"].iter().zip(values) {
            self.found.set_ns(format!("latency_ns.{name}"), value);
        }
        Some(next + 1)
    }

    fn percentile(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        let which = percent(words[at].text)?;
        if self.in_spectrum || !(0.0..=100.0).contains(&which.value) {
            return None;
        }
        let (value, next) = duration_at(words, at + 1)?;
        // Thread statistics end in a percentage too, with another number behind it.
        let name = percentile_name(self.latency, which.value);
        self.found.set_ns(name, value);
        Some(next)
    }

    fn socket_errors(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        let mut next = phrase(words, at, "Socket errors:")?;
        for kind in ["connect", "read", "write", "timeout"] {
            next = phrase(words, next, kind)?;
            let value = count(words.get(next)?.text)?;
            self.found.set_count(format!("failed.{kind}"), value);
            next += 1;
        }
        Some(next)
    }

    /// `764342 requests in 1.00m, 66.43GB read`.
    fn total(&mut self, words: &[Word<'_>], at: usize) -> Option<usize> {
        let next = phrase(words, at + 1, "requests in")?;
        let requests = count(words[at].text)?;
        let (time, next) = duration_at(words, next)?;
        let (read, next) = bytes_at(words, next)?;
        phrase(words, next, "read")?;
        self.found.set_count("requests", requests);
        self.found.set("duration_s", "s", time.times(1e-9));
        self.found.set("received_bytes", "bytes", read);
        Some(next + 1)
    }

    fn truncate_connections(&mut self) {
        let r = &mut self.found.reported;
        let (Some(asked), Some(threads)) = (r.value("connections"), r.value("threads")) else {
            return;
        };
        let opened = if threads >= 1.0 {
            (asked / threads).floor() * threads
        } else {
            asked
        };
        if opened != asked && opened > 0.0 {
            let doubt = format!(
                "{} was asked for {asked} connections over {threads} threads and opened {opened}",
                r.tool
            );
            for figure in r.figures.iter_mut().filter(|f| f.name == "connections") {
                figure.value = opened;
            }
            self.found.doubts.push(doubt);
        }
    }
}
