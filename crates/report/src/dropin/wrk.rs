//! wrk's layout, and wrk2's, which is the same frame around an HdrHistogram.
//!
//! The surprise is in the units: a number goes to the next one from 85 % of it on, so that 900 us is `0.90ms`. The row
//! `Req/Sec` is of the rates of the time series, divided by the threads, as wrk's is of each thread's.

use super::{SocketFailures, seconds, statuses};
use record::{Histogram, LoadOutcome, LoadSpec};
use std::fmt::Write as _;

/// Which of the two, and what was asked of its layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Print the distribution of the latencies.
    pub latency: bool,
    /// wrk2's layout.
    pub wrk2: bool,
    /// wrk2: the latencies from the send too.
    pub uncorrected: bool,
}

/// wrk's percentiles.
const SHOWN: [f64; 4] = [50.0, 75.0, 90.0, 99.0];
/// wrk2's.
const SHOWN_2: [f64; 8] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
/// Points of wrk2's spectrum for each halving of the distance to 1.
const PER_HALF: u32 = 5;

/// The whole of the tool's standard output.
pub fn text(spec: &LoadSpec, outcome: &LoadOutcome, threads: u32, options: Options) -> String {
    let asked_s = spec.duration.unwrap_or_default().as_secs_f64();
    let mut text = format!(
        "Running {} test @ {}\n  {threads} threads and {} connections\n",
        scaled(asked_s, &SECONDS, 0),
        spec.url,
        spec.connections
    );
    if options.wrk2 {
        calibrations(&mut text, outcome, threads);
    }
    text += "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n";
    statistics(&mut text, "Latency", &of_latency(&outcome.response), micros);
    statistics(&mut text, "Req/Sec", &of_rate(outcome, threads), |n| {
        scaled(n, &METRIC, 2)
    });
    if options.latency && options.wrk2 {
        hdr(
            &mut text,
            "HdrHistogram - Recorded Latency",
            &outcome.response,
        );
    } else if options.latency {
        text += "  Latency Distribution\n";
        for p in SHOWN {
            let value = micros(quantile_us(&outcome.response, p));
            let _ = writeln!(text, "{p:>7.0}%{}", padded(&value, 10));
        }
    }
    if options.wrk2 && options.uncorrected {
        let title = "HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account)";
        hdr(&mut text, title, &outcome.service);
    }
    totals(&mut text, outcome);
    text
}

fn totals(text: &mut String, outcome: &LoadOutcome) {
    let seconds = seconds(outcome);
    let received = outcome.received_bytes as f64;
    let answers = outcome.requests.completed;
    let _ = writeln!(
        text,
        "  {answers} requests in {}, {}B read",
        micros(seconds * 1e6),
        scaled(received, &BINARY, 2)
    );
    let failures = SocketFailures::of(outcome);
    if failures.all() > 0 {
        let _ = writeln!(
            text,
            "  Socket errors: connect {}, read {}, write 0, timeout {}",
            failures.connect,
            failures.read + failures.other,
            failures.timeout
        );
    }
    let refused = statuses(outcome, 400, u16::MAX);
    if refused > 0 {
        let _ = writeln!(text, "  Non-2xx or 3xx responses: {refused}");
    }
    let _ = writeln!(text, "Requests/sec: {:>9.2}", answers as f64 / seconds);
    let transfer = scaled(received / seconds, &BINARY, 2);
    let _ = writeln!(text, "Transfer/sec: {transfer:>10}B");
}

/// A row of wrk's statistics: mean, standard deviation, largest, share of the values within one deviation of the mean.
struct Row {
    mean: f64,
    stddev: f64,
    max: f64,
    /// Percent; not a number, as wrk has it, where there is no value.
    within: f64,
}

fn of_latency(histogram: &Histogram) -> Row {
    let mean = histogram.mean_ns().unwrap_or(0.0);
    let stddev = histogram.stddev_ns().unwrap_or(0.0);
    let low = record::Nanos((mean - stddev).max(0.0) as u64);
    let high = record::Nanos((mean + stddev) as u64);
    let within = histogram.share_between(low, high);
    Row {
        mean: mean / 1e3,
        stddev: stddev / 1e3,
        max: histogram.max().map_or(0.0, |ns| ns.0 as f64 / 1e3),
        within: within.map_or(f64::NAN, |share| share * 100.0),
    }
}

fn of_rate(outcome: &LoadOutcome, threads: u32) -> Row {
    let measured = |i: &&record::Interval| {
        i.from >= outcome.measured_from && i.to <= outcome.measured_to && i.to > i.from
    };
    let rate = |i: &record::Interval| {
        let answered = (i.succeeded + i.failed) as f64;
        answered / i.to.since(i.from).as_secs_f64() / f64::from(threads.max(1))
    };
    let rates: Vec<f64> = (outcome.intervals.iter())
        .filter(measured)
        .map(rate)
        .collect();
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n.max(1.0);
    let square = |r: &f64| (r - mean).powi(2);
    let stddev = match rates.len() {
        0 | 1 => 0.0,
        _ => (rates.iter().map(square).sum::<f64>() / (n - 1.0)).sqrt(),
    };
    let within = rates.iter().filter(|r| (*r - mean).abs() <= stddev);
    Row {
        mean,
        stddev,
        max: rates.iter().copied().fold(0.0, f64::max),
        within: within.count() as f64 / n * 100.0,
    }
}

fn statistics(text: &mut String, name: &str, row: &Row, unit: impl Fn(f64) -> String) {
    let within = match row.within {
        share if share.is_nan() => "    -nan".to_owned(),
        share => format!("{share:>8.2}"),
    };
    let _ = writeln!(
        text,
        "    {name:<10}{}{}{}{within}%",
        padded(&unit(row.mean), 8),
        padded(&unit(row.stddev), 10),
        padded(&unit(row.max), 9)
    );
}

/// wrk2 samples its rate after a calibration; prony's is what it is from the start, and so are these figures.
fn calibrations(text: &mut String, outcome: &LoadOutcome, threads: u32) {
    let mean_ms = outcome.response.mean_ns().unwrap_or(0.0) / 1e6;
    let slices = outcome.intervals.iter().map(|i| i.to.since(i.from).0);
    let slice_ms = slices.max().unwrap_or(0) / 1_000_000;
    for _ in 0..threads {
        let _ = writeln!(
            text,
            "  Thread calibration: mean lat.: {mean_ms:.3}ms, rate sampling interval: {slice_ms}ms"
        );
    }
}

/// The distribution and HdrHistogram's percentile spectrum, in milliseconds.
fn hdr(text: &mut String, title: &str, histogram: &Histogram) {
    let _ = writeln!(text, "  Latency Distribution ({title})");
    for p in SHOWN_2 {
        let value = micros(quantile_us(histogram, p));
        let _ = writeln!(text, "{p:>7.3}%{}", padded(&value, 10));
    }
    *text += "\n  Detailed Percentile spectrum:\n";
    *text += "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n";
    *text += &crate::export::spectrum_rows(histogram, PER_HALF);
    *text += "----------------------------------------------------------\n";
}

fn quantile_us(histogram: &Histogram, percent: f64) -> f64 {
    // 99.9 / 100 is a little more than 0.999, and of a thousand values the next one.
    let ns = histogram.quantile((percent * 1e3).round() / 1e5);
    ns.map_or(0.0, |ns| ns.0 as f64 / 1e3)
}

/// A scale: how much makes the next unit, the first unit, and those above it.
type Scale = (f64, &'static str, &'static [&'static str]);

const MICROS: Scale = (1000.0, "us", &["ms"]);
const SECONDS: Scale = (60.0, "s", &["m"]);
const METRIC: Scale = (1000.0, "", &["k", "M", "G", "T"]);
const BINARY: Scale = (1024.0, "", &["K", "M", "G", "T"]);

fn scaled(mut n: f64, (scale, first, units): &Scale, decimals: usize) -> String {
    let mut unit = *first;
    for next in *units {
        if n < scale * 0.85 {
            break;
        }
        n /= scale;
        unit = next;
    }
    format!("{n:.decimals$}{unit}")
}

/// A time in microseconds; whole seconds and more have a scale of their own.
fn micros(us: f64) -> String {
    match us {
        us if us >= 1e6 => scaled(us / 1e6, &SECONDS, 2),
        us => scaled(us, &MICROS, 2),
    }
}

/// To the right in `width`, the digits below each other: a unit of fewer than two letters is filled up.
fn padded(value: &str, width: usize) -> String {
    let letters = value.chars().rev().take(2);
    let letters = letters.take_while(char::is_ascii_alphabetic).count();
    let fill = 2 - letters;
    format!("{value:>0$}{1:2$}", width - fill, "", fill)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_85_per_cent_of_the_next() {
        for (us, want) in [
            (0.0, "0.00us"),
            (849.0, "849.00us"),
            (900.0, "0.90ms"),
            (61_100.0, "61.10ms"),
            (1_220_000.0, "1.22s"),
            (50_000_000.0, "50.00s"),
            (60_000_000.0, "1.00m"),
        ] {
            assert_eq!(micros(us), want);
        }
        assert_eq!(scaled(34_950.0, &METRIC, 2), "34.95k");
        assert_eq!(scaled(512.0, &BINARY, 2), "512.00");
        assert_eq!(scaled(10_640_000.0, &BINARY, 2), "10.15M");
        assert_eq!(scaled(30.0, &SECONDS, 0), "30s");
        assert_eq!(scaled(7200.0, &SECONDS, 0), "120m");
    }

    #[test]
    fn digits_stand_below_each_other() {
        assert_eq!(padded("98.66us", 8), " 98.66us");
        assert_eq!(padded("34.95k", 8), " 34.95k ");
        assert_eq!(padded("12.00", 8), " 12.00  ");
    }
}
