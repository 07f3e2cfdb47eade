//! HdrHistogram's own text forms: the percentile spectrum, and the interval log.
//!
//! Neither is a load's result by itself: there is no rate in a spectrum, and a log has one only by its intervals. The
//! log's histograms are decoded and merged, so its percentiles are exact to three digits.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, Word, number, percentile_name, phrase};
use record::{Histogram, LatencyBase};

/// Percentiles that are read off a merged histogram.
const SHOWN: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999];

/// Spectra that stand alone, and interval logs.
pub(crate) fn read(text: &str, words: &[Word<'_>]) -> Harvest {
    let mut harvest = spectra(words);
    log(text, &mut harvest);
    harvest
}

/// `Value Percentile TotalCount 1/(1-Percentile)` and its rows; those within a result of wrk2 repeat its latencies.
fn spectra(words: &[Word<'_>]) -> Harvest {
    let mut harvest = Harvest::default();
    let mut at = 0;
    while at < words.len() {
        let Some(next) = phrase(words, at, "Value Percentile TotalCount 1/(1-Percentile)") else {
            at += 1;
            continue;
        };
        let before = &words[at.saturating_sub(3)..at];
        let of_wrk2 = before.iter().any(|w| w.text == "spectrum:");
        let (found, end) = spectrum(words, next, words[at].line);
        if !of_wrk2 {
            harvest.take(found, "latency_ns.max", 0.0);
        }
        at = end;
    }
    harvest
}

fn spectrum(words: &[Word<'_>], mut at: usize, line: u32) -> (Found, usize) {
    /// The text form is written in milliseconds by everything that writes it for HTTP.
    const UNIT: f64 = 1e6;
    let mut found = Found::new(Nature::Load, "HdrHistogram", LatencyBase::Unknown, line);
    let mut rows: Vec<(f64, Number)> = Vec::new();
    while let (Some(value), Some(share), Some(_)) = (
        words.get(at).and_then(|w| number(w.text)),
        words.get(at + 1).and_then(|w| number(w.text)),
        words.get(at + 2).and_then(|w| number(w.text)),
    ) {
        rows.push((share.value * 100.0, value.times(UNIT)));
        found.reach(words[at].line);
        // The last row has `inf` or nothing in its fourth column.
        let fourth = words.get(at + 3).map_or("", |w| w.text);
        let last = share.value >= 1.0;
        at += if number(fourth).is_some() && !last || fourth == "inf" {
            4
        } else {
            3
        };
        if last {
            break;
        }
    }
    for p in SHOWN {
        // A row says: this share of the values is at most its value.
        if let Some((_, value)) = rows.iter().find(|(share, _)| *share >= p - 1e-9) {
            found.set_ns(percentile_name("latency_ns", p), *value);
        }
    }
    if let Some((share, value)) = rows.last()
        && *share >= 100.0
    {
        found.set_ns("latency_ns.max", *value);
    }
    found
        .doubts
        .push("the unit of an HdrHistogram spectrum is not in it: taken as ms".to_owned());
    summary(&mut found, words, at, UNIT);
    (found, at)
}

/// `#[Mean = 1.5, StdDeviation = 0.5]` and `#[Max = 9.0, Total count = 100]`.
fn summary(found: &mut Found, words: &[Word<'_>], at: usize, unit: f64) {
    for i in at..words.len().min(at + 16) {
        let head = words[i].text.trim_start_matches(['#', '[']);
        let value = words
            .get(i + 2)
            .and_then(|w| number(w.text.trim_end_matches([',', ']'])));
        let (true, Some(value)) = (words.get(i + 1).is_some_and(|w| w.text == "="), value) else {
            continue;
        };
        match head {
            "Mean" => found.set_ns("latency_ns.mean", value.times(unit)),
            "StdDeviation" => found.set_ns("latency_ns.stddev", value.times(unit)),
            "count" => found.set_count("requests", value.value),
            _ => continue,
        }
        found.reach(words[i].line);
    }
}

/// `"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"` and its lines.
fn log(text: &str, harvest: &mut Harvest) {
    let mut merged = Histogram::new();
    // Lines of a tag are of something else than those without one.
    let is_tagged = |line: &str| line.trim_start().starts_with("Tag=");
    let untagged = |line: &str| line.contains("HIST") && !is_tagged(line);
    let leave_tagged = text.lines().any(untagged);
    let (mut seconds, mut first, mut last, mut largest) = (0.0, 0, 0, 0.0_f64);
    for (number, line) in (1_u32..).zip(text.lines()) {
        let Some(at) = line
            .find("HIST")
            .filter(|_| !leave_tagged || !is_tagged(line))
        else {
            continue;
        };
        let fields: Vec<&str> = line[..at].trim_end_matches(',').split(',').collect();
        let [.., length, max] = fields.as_slice() else {
            continue;
        };
        let (Ok(length), Ok(max)) = (length.trim().parse::<f64>(), max.trim().parse::<f64>())
        else {
            continue;
        };
        match Histogram::from_base64(line[at..].trim()) {
            Ok(interval) if length.is_finite() && length >= 0.0 => {
                merged.merge(&interval);
                seconds += length;
                largest = largest.max(max);
                first = if first == 0 { number } else { first };
                last = number;
            }
            _ => harvest.left_out.push((
                number,
                number,
                "an interval of an HdrHistogram log that cannot be decoded".to_owned(),
            )),
        }
    }
    if merged.count() > 0 {
        harvest
            .found
            .push(of_log(&merged, seconds, largest, (first, last)));
    }
}

fn of_log(merged: &Histogram, seconds: f64, largest: f64, lines: (u32, u32)) -> Found {
    let mut found = Found::new(
        Nature::Load,
        "HdrHistogram log",
        LatencyBase::Unknown,
        lines.0,
    );
    found.reach(lines.1);
    // The log's own largest value is in ms, whatever the histogram counts in.
    let top = merged.max().map_or(0.0, |ns| ns.0 as f64);
    let units = [(1.0, "ns"), (1e3, "us"), (1e6, "ms")];
    let fits = |scale: f64| (top * scale / 1e6 / largest - 1.0).abs() < 0.01;
    let unit = units
        .iter()
        .find(|(scale, _)| largest > 0.0 && fits(*scale));
    let scale = unit.map_or(1.0, |(scale, _)| *scale);
    if unit.is_none() {
        found
            .doubts
            .push("the unit of an HdrHistogram log is not in it: taken as ns".to_owned());
    }
    let sharp = |value: f64| Number {
        value: value * scale,
        half: value * scale * 5e-4,
    };
    let count = merged.count() as f64;
    found.set_count("requests", count);
    if seconds > 0.0 {
        found.set(
            "duration_s",
            "s",
            Number {
                value: seconds,
                half: 5e-4,
            },
        );
        found.set(
            "rate_per_s",
            "1/s",
            Number {
                value: count / seconds,
                half: count / seconds * 1e-3,
            },
        );
    }
    for (name, value) in [
        ("min", merged.min().map(|ns| ns.0 as f64)),
        ("mean", merged.mean_ns()),
        ("max", merged.max().map(|ns| ns.0 as f64)),
        ("stddev", merged.stddev_ns()),
    ] {
        if let Some(value) = value {
            found.set_ns(format!("latency_ns.{name}"), sharp(value));
        }
    }
    for p in SHOWN {
        if let Some(ns) = merged.quantile(p / 100.0) {
            found.set_ns(percentile_name("latency_ns", p), sharp(ns.0 as f64));
        }
    }
    found
}
