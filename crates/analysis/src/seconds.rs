//! A longer watch, second by second: what each second was like, which were slow, and what differs in the slow ones.
//!
//! A second is slow when it fulfils a condition that a person gave, or when it differs from the median of the normal
//! ones by a robust distance: no absolute threshold is needed. The surprise: a quantile is tested without any request's
//! time. Of the requests that stand open, those of one age say how many reach it (a request is met at an age in
//! proportion to how long it stays there), so that `n / width of the age class / rate` is the share that lasts so long.

use crate::rank::{Null, differences};
use crate::stats::median;
use plan::When;
use record::{Nanos, Second, Series, TimeSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewer normal seconds than this do not say what is normal.
pub(crate) const FEWEST_NORMAL: usize = 8;
/// Distance from the median, in robust standard deviations, from which a second differs: one in some 10^9 of normal
/// noise.
const FAR: f64 = 6.0;
/// A difference of less than this part of the median is none.
const LEAST: f64 = 0.25;
/// Median absolute deviation of a normal distribution / its standard deviation.
const MAD_OF_NORMAL: f64 = 0.674_489_75;
/// What a slow second shows in, which way, and the least difference that its source resolves.
pub(crate) const SYMPTOMS: [(&str, Way, f64); 6] = [
    ("mean", Way::Up, 4.0),
    ("open", Way::Up, 2.0),
    ("rate", Way::Both, 1.0),
    ("segments", Way::Both, 10.0),
    ("overflows", Way::Up, 1.0),
    ("retransmits", Way::Up, 5.0),
];

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Up,
    Both,
}

/// With many signals one stands out by chance: each interval covers so much that all of them do by 95 % (Bonferroni).
const LEVEL: f64 = 1.0 - 0.05 / UNITS.len() as f64;
/// Signals with their units.
pub(crate) const UNITS: [(&str, &str); 17] = [
    ("mean", "ms"),
    ("rate", "1/s"),
    ("segments", "1/s"),
    ("accepts", "1/s"),
    ("open", "requests"),
    ("connections", "connections"),
    ("slow_readers", "connections"),
    ("receive_queue", "bytes"),
    ("cpu", "share of a core"),
    ("cores", "cores"),
    ("run_queue", "share of the time"),
    ("host", "share of the host"),
    ("throttled", "share of the time"),
    ("io_pressure", "share of the time"),
    ("memory_pressure", "share of the time"),
    ("retransmits", "1/s"),
    ("overflows", "1/s"),
];

/// What the samples say of one second. `front` is the server in front; `requests_per_segment` turns segments sent into
/// requests where requests were counted.
pub fn second(
    all: &[Series],
    span: TimeSpan,
    front: &str,
    requests_per_segment: Option<f64>,
) -> Second {
    let seconds = span.length().as_secs_f64();
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let mut most: BTreeMap<&str, f64> = BTreeMap::new();
    let mut ages: BTreeMap<String, f64> = BTreeMap::new();
    let (mut idle, mut cores) = (None::<f64>, 0.0);
    for series in all {
        let ours = series.label("target") == Some(front);
        let per_s = || Some(series.delta(span.from, span.to)?.max(0.0) / seconds);
        let client = ours && series.label("class") == Some("client");
        let mut add = |name: &'static str, value: Option<f64>| {
            if let Some(value) = value {
                *sums.entry(name).or_default() += value;
            }
        };
        match series.signal.as_str() {
            "tcp.out_segs" => add("segments", per_s()),
            "tcp.passive_opens" => add("accepts", per_s()),
            "tcp.retrans_segs" => add("retransmits", per_s()),
            "tcp.listen_overflows" => add("overflows", per_s()),
            "pressure.io_some_s" => add("io_pressure", per_s()),
            "pressure.memory_some_s" => add("memory_pressure", per_s()),
            "cgroup.throttled_s" if ours => add("throttled", per_s()),
            "socket.open_requests" if client => add("open", mean(series, span)),
            "socket.slow_readers" if client => add("slow_readers", mean(series, span)),
            "socket.connections" if client => add("connections", mean(series, span)),
            "socket.recv_queue_bytes" if client => add("receive_queue", mean(series, span)),
            "socket.open_by_age" if client => {
                if let (Some(ms), Some(n)) = (series.label("over_ms"), mean(series, span)) {
                    *ages.entry(format!("open_over_{ms}ms")).or_default() += n;
                }
            }
            "thread.run_s" if ours => {
                let used = per_s();
                add("cores", used);
                let busiest = most.entry("cpu").or_default();
                *busiest = busiest.max(used.unwrap_or(0.0));
            }
            "thread.run_queue_wait_s" if ours => {
                let longest = most.entry("run_queue").or_default();
                *longest = longest.max(per_s().unwrap_or(0.0));
            }
            "cpu.idle_s" | "cpu.iowait_s" => {
                if let Some(share) = per_s() {
                    *idle.get_or_insert(0.0) += share;
                }
                cores += f64::from(u8::from(series.signal == "cpu.idle_s"));
            }
            _ => {}
        }
    }
    sums.extend(most);
    let mut values: BTreeMap<String, f64> = sums
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    values.extend(ages);
    if let Some(idle) = idle.filter(|_| cores > 0.0) {
        values.insert("host".to_owned(), (1.0 - idle / cores).clamp(0.0, 1.0));
    }
    let rate = requests_per_segment
        .zip(values.get("segments"))
        .map(|(r, s)| r * s);
    if let Some(rate) = rate {
        values.insert("rate".to_owned(), rate);
        if let Some(open) = values.get("open").filter(|_| rate > 0.0) {
            let mean = open / rate * 1e3;
            values.insert("mean".to_owned(), mean);
        }
    }
    Second {
        span,
        values,
        ..Second::default()
    }
}

fn mean(series: &Series, span: TimeSpan) -> Option<f64> {
    let samples = series.at_ns.iter().zip(&series.values);
    let inside: Vec<f64> = samples
        .filter(|(at, _)| span.holds(**at))
        .map(|(_, value)| *value)
        .collect();
    (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
}

/// Share of the requests that last this long at least, ms; `None` where the rate or the ages are not known.
fn lasting(second: &Second, ms: f64) -> Option<f64> {
    let rate = second.values.get("rate").copied().filter(|r| *r > 0.0)?;
    let classes = second.values.iter().filter_map(|(name, n)| {
        let over: f64 = name
            .strip_prefix("open_over_")?
            .strip_suffix("ms")?
            .parse()
            .ok()?;
        // From `over` to twice that, so it is as wide as it begins.
        (over >= ms).then(|| n / (over / 1e3))
    });
    classes
        .reduce(f64::max)
        .map(|reach_per_s| reach_per_s / rate)
}

/// Whether a second fulfils a condition; `None` where the signal is not visible.
pub fn fulfils(second: &Second, when: &When) -> Option<bool> {
    let beyond = |value: f64| {
        if when.above {
            value > when.value
        } else {
            value < when.value
        }
    };
    let quantile = match when.signal {
        "p50" => 0.5,
        "p90" => 0.1,
        "p99" => 0.01,
        signal => return second.values.get(signal).map(|value| beyond(*value)),
    };
    let reached = lasting(second, when.value)? >= quantile;
    Some(reached == when.above)
}

/// Why the newest second is slow: a condition of `when`, or, without any, a robust distance from those before that were
/// normal. Empty when it is not.
pub fn slow(before: &[Second], newest: &Second, when: &[When]) -> String {
    if !when.is_empty() {
        let met = when.iter().find(|when| fulfils(newest, when) == Some(true));
        return met.map_or(String::new(), |when| when.text.clone());
    }
    let normal: Vec<&Second> = before.iter().filter(|s| is_normal(s)).collect();
    for (signal, way, least) in SYMPTOMS {
        let Some(value) = newest.values.get(signal) else {
            continue;
        };
        let others: Vec<f64> = normal
            .iter()
            .filter_map(|s| s.values.get(signal).copied())
            .collect();
        let Some((middle, deviation)) = robust(&others) else {
            continue;
        };
        let apart = value - middle;
        let far = (FAR * deviation).max(LEAST * middle).max(least);
        if apart > far || way == Way::Both && -apart > far {
            return format!("{signal} {value:.1} against {middle:.1}");
        }
    }
    String::new()
}

pub(crate) fn is_normal(second: &Second) -> bool {
    second.slow.is_empty() && !second.probed
}

/// Median and robust standard deviation; `None` of too few.
fn robust(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < FEWEST_NORMAL {
        return None;
    }
    let middle = median(values)?;
    let apart: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    Some((middle, median(&apart)? / MAD_OF_NORMAL))
}

/// A signal in the slow seconds against the normal ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowDiffers {
    pub signal: String,
    pub unit: String,
    /// Median of the normal seconds.
    pub normal: f64,
    /// Median of the slow ones.
    pub slow: f64,
    /// Slow less normal (Hodges and Lehmann).
    pub difference: f64,
    /// Its interval by Wilcoxon's rank sum, 95 % over all signals together; `None` for too few seconds.
    pub interval: Option<(f64, f64)>,
    /// Difference in robust standard deviations of the normal seconds; `None` where those do not differ at all.
    pub distance: Option<f64>,
}

/// What differs in the slow seconds, farthest first: what has an interval without zero, or, for fewer than three slow
/// seconds, what is far from the normal ones.
pub fn slow_differs(seconds: &[Second]) -> Vec<SlowDiffers> {
    let mut found: Vec<SlowDiffers> = UNITS
        .iter()
        .filter_map(|(signal, unit)| differs(seconds, signal, unit))
        .collect();
    let distance = |d: &SlowDiffers| d.distance.unwrap_or(f64::MAX).abs();
    found.sort_by(|a, b| distance(b).total_cmp(&distance(a)));
    found
}

fn differs(seconds: &[Second], signal: &str, unit: &str) -> Option<SlowDiffers> {
    let of = |test: &dyn Fn(&Second) -> bool| -> Vec<f64> {
        let chosen = seconds.iter().filter(|s| !s.probed && test(s));
        chosen
            .filter_map(|s| s.values.get(signal).copied())
            .collect()
    };
    let (normal, slow) = (of(&|s| s.slow.is_empty()), of(&|s| !s.slow.is_empty()));
    let (middle, deviation) = robust(&normal)?;
    let slow_middle = median(&slow)?;
    let mut apart = differences(&normal, &slow);
    apart.sort_by(f64::total_cmp);
    let difference = median(&apart)?;
    let interval = (slow.len() >= 3)
        .then(|| Null::rank_sum(normal.len(), slow.len()).interval(&apart, LEVEL))
        .flatten()
        .map(|i| (i.low, i.high));
    let distance = (deviation > 0.0).then(|| difference / deviation);
    let shown = match interval {
        Some((low, high)) => low > 0.0 || high < 0.0,
        None => distance.map_or(difference != 0.0, |d| d.abs() >= FAR),
    };
    shown.then(|| SlowDiffers {
        signal: signal.to_owned(),
        unit: unit.to_owned(),
        normal: middle,
        slow: slow_middle,
        difference,
        interval,
        distance,
    })
}

/// The spans of a second each that are over at `until`, from `from` on.
pub fn spans(from: Nanos, until: Nanos) -> Vec<TimeSpan> {
    let whole = until.since(from).0 / Nanos::SECOND.0;
    let at = |i: u64| Nanos(from.0 + i * Nanos::SECOND.0);
    (0..whole)
        .map(|i| TimeSpan {
            from: at(i),
            to: at(i + 1),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Random;

    /// Seconds at 1,000/s with 5 % of noise and 2 requests open; those in `stalled` hold 50.
    fn seconds(n: u64, stalled: &[u64]) -> Vec<Second> {
        let mut random = Random::new(7);
        let mut all: Vec<Second> = Vec::new();
        for i in 0..n {
            let stalls = stalled.contains(&i);
            let rate = 1_000.0 * (1.0 + 0.05 * random.normal());
            let open = if stalls {
                50.0
            } else {
                2.0 + 0.2 * random.normal()
            };
            let cpu = 0.5 + 0.02 * random.normal();
            let values = [
                ("rate", rate),
                ("open", open),
                ("mean", open / rate * 1e3),
                ("cpu", cpu),
                ("open_over_64ms", if stalls { 10.0 } else { 0.0 }),
            ];
            let mut second = Second {
                values: values.map(|(name, value)| (name.to_owned(), value)).into(),
                ..Second::default()
            };
            second.slow = slow(&all, &second, &[]);
            all.push(second);
        }
        all
    }

    #[test]
    fn a_second_that_differs_is_slow_and_noise_is_not() {
        let found = |n, stalled: &[u64]| -> Vec<u64> {
            let all = seconds(n, stalled);
            let slow = (0..n).zip(&all).filter(|(_, s)| !s.slow.is_empty());
            slow.map(|(i, _)| i).collect()
        };
        assert_eq!(found(600, &[]), [0; 0]);
        assert_eq!(found(60, &[20, 40, 41]), [20, 40, 41]);
        // Before anybody knows what is normal nothing is called slow.
        assert_eq!(found(60, &[3]), [0; 0]);
    }

    #[test]
    fn what_differs_in_slow_seconds_has_an_interval_without_zero() {
        let all = seconds(60, &[20, 30, 40, 50]);
        let differ = slow_differs(&all);
        let names: Vec<&str> = differ.iter().map(|d| d.signal.as_str()).collect();
        assert!(
            names.contains(&"open") && names.contains(&"mean"),
            "{names:?}"
        );
        assert!(
            !names.contains(&"cpu") && !names.contains(&"rate"),
            "{names:?}"
        );
        let open = differ.iter().find(|d| d.signal == "open").unwrap();
        let (low, high) = open.interval.unwrap();
        assert!(low > 45.0 && high < 50.0, "{open:?}");
        // One slow second has no interval; it is far all the same.
        let one = slow_differs(&seconds(60, &[20]));
        let open = one.iter().find(|d| d.signal == "open").unwrap();
        assert_eq!(open.interval, None);
        assert!(open.distance.unwrap() > FAR);
    }

    #[test]
    fn a_quantile_follows_from_the_ages_of_open_requests() {
        let all = seconds(30, &[20]);
        let when = |text: &str| When::parse(text).unwrap();
        // 10 met between 64 and 128 ms: 156 a second reach that age, of 1,000.
        for (text, normal, stalled) in [
            ("p99>50ms", false, true),
            ("p90>50ms", false, true),
            ("p50>50ms", false, false),
            ("p99<50ms", true, false),
            ("open>10", false, true),
            ("rate<100", false, false),
        ] {
            let when = when(text);
            assert_eq!(fulfils(&all[5], &when), Some(normal), "{text}");
            assert_eq!(fulfils(&all[20], &when), Some(stalled), "{text}");
        }
        assert_eq!(fulfils(&all[5], &when("throttled>5%")), None, "not visible");
        assert_eq!(slow(&all, &all[20], &[when("p99>50ms")]), "p99>50ms");
    }

    #[test]
    fn a_second_is_made_of_samples() {
        let mut segments = Series::new("tcp.out_segs", "segments", "/proc", record::Kind::Counter);
        let mut open = Series::new("socket.open_requests", "c", "diag", record::Kind::Gauge)
            .with("target", "web")
            .with("class", "client");
        for t in 0..=8u64 {
            segments.push(Nanos::from_millis(t * 250), t as f64 * 500.0);
            open.push(Nanos::from_millis(t * 250), 4.0);
        }
        let all = [segments, open];
        let span = spans(Nanos(0), Nanos::from_millis(2_100))[1];
        assert_eq!((span.from, span.to), (Nanos::SECOND, Nanos::from_secs(2)));
        let found = second(&all, span, "web", Some(0.5));
        assert_eq!(found.values["segments"], 2_000.0);
        assert_eq!(found.values["rate"], 1_000.0);
        assert_eq!(found.values["mean"], 4.0);
        assert!(!found.values.contains_key("cpu"), "{found:?}");
        // Another server's connections are not this one's, and without a count there is no rate.
        let other = second(&all, span, "other", None);
        assert_eq!(other.values.len(), 1, "{other:?}");
    }
}
