//! Where does the warm-up end, and is the rest in steady state? Tested, not assumed.
//!
//! First the warm-up that reaches into the measured part is cut off by MSER-5 (White 1997; Franklin and White 2008):
//! the cut is where the squared standard error of the rest is smallest, over means of five slices. It is made only in
//! the first half, because a minimum at its end means that no steady part was found, and only where what is cut differs
//! from the rest by three standard errors, because every series has a smallest standard error somewhere.
//!
//! Then two signs must agree before the rest is called unsteady: the rate of its second half differs from the first by
//! more than 5 %, and a Mann-Kendall trend test (Mann 1945, Kendall 1975) over the slices rejects "no trend" at 5 %.
//! The first alone would blame noise, the second alone a harmless creep. The test takes slices as independent; a server
//! that freezes now and then is variable, but steady. The surprise: only the rate is freed of the warm-up; a histogram
//! of latencies cannot be cut afterwards. So a row whose rate is cut says that its other columns are not
//! ([`Cell::rate_dropped_s`](crate::Cell::rate_dropped_s)).

use crate::Steady;
use crate::stats::share;
use record::{Arrival, Interval, LoadOutcome, LoadSpec};

/// The normal approximation of the test statistic holds from about eight values on.
const FEWEST_INTERVALS: usize = 8;
/// Slices in a batch, from so many slices on: the 5 of MSER-5.
const BATCH: usize = 5;
const BATCHED_FROM: usize = 50;
/// Standard errors by which a warm-up differs from what follows.
const WARMUP_ERRORS: f64 = 3.0;
/// Largest change between the halves that is still called steady.
const DRIFT_LIMIT: f64 = 0.05;
/// Two-sided 5 % of the normal distribution.
const Z_LIMIT: f64 = 1.96;

/// Tests the measured part; `None` when it has fewer than eight slices or no success, and where the rate is to change.
pub(crate) fn steady(outcome: &LoadOutcome, spec: &LoadSpec) -> Option<Steady> {
    if spec.has_changing_rate() {
        return None;
    }
    let measured: Vec<&Interval> = outcome
        .intervals
        .iter()
        .filter(|i| i.from >= outcome.measured_from && i.to <= outcome.measured_to && i.to > i.from)
        .collect();
    if measured.len() < FEWEST_INTERVALS {
        return None;
    }
    // An open loop is offered the same rate from its first request on.
    let cut = match spec.arrival {
        Arrival::Closed => warmup(&rates(&measured)),
        Arrival::Constant { .. } | Arrival::Poisson { .. } => Cut::At(0),
    };
    let (dropped, kept) = match cut {
        Cut::At(slices) => measured.split_at(slices),
        Cut::Nowhere => measured.split_at(0),
    };
    let drift = drift(kept)?;
    let rates = rates(kept);
    let has_trend = drift.abs() > DRIFT_LIMIT && trend_z(&rates).abs() > Z_LIMIT;
    Some(Steady {
        steady: !has_trend && !matches!(cut, Cut::Nowhere),
        drift,
        variation: variation(&rates)?,
        dropped_s: seconds(dropped),
        rate_per_s: match dropped.is_empty() {
            true => outcome.achieved_per_s(),
            false => rate(kept),
        },
    })
}

/// Where a warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// After so many slices.
    At(usize),
    /// Not in the first half.
    Nowhere,
}

fn seconds(slices: &[&Interval]) -> f64 {
    // From a sum of nothing, so that nothing is 0 and not -0.
    slices
        .iter()
        .fold(0.0, |sum, i| sum + i.to.since(i.from).as_secs_f64())
}

fn rate(slices: &[&Interval]) -> Option<f64> {
    let answers: u64 = slices.iter().map(|i| i.succeeded).sum();
    share(answers as f64, seconds(slices))
}

fn rates(slices: &[&Interval]) -> Vec<f64> {
    slices.iter().filter_map(|i| rate(&[i])).collect()
}

/// MSER-5: the number of slices to drop, a whole number of batches.
fn warmup(rates: &[f64]) -> Cut {
    let batch = if rates.len() >= BATCHED_FROM {
        BATCH
    } else {
        1
    };
    let means: Vec<f64> = rates.chunks_exact(batch).map(mean).collect();
    let half = means.len() / 2;
    let error = |cut: usize| squared_error(&means[cut..]);
    let Some(cut) = (0..=half).min_by(|a, b| error(*a).total_cmp(&error(*b))) else {
        return Cut::At(0);
    };
    let (dropped, kept) = means.split_at(cut);
    if cut == 0 || !differs(dropped, kept) {
        Cut::At(0)
    } else if cut < half {
        Cut::At(cut * batch)
    } else if (mean(dropped) / mean(kept) - 1.0).abs() > DRIFT_LIMIT {
        Cut::Nowhere
    } else {
        Cut::At(0) // A creep, and harmless.
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The statistic that MSER minimises: the sum of squares over the square of the number.
fn squared_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n * n)
}

fn differs(dropped: &[f64], kept: &[f64]) -> bool {
    let n = kept.len() as f64;
    let deviation = (squared_error(kept) * n).sqrt();
    let error = deviation * (1.0 / dropped.len() as f64 + 1.0 / n).sqrt();
    (mean(dropped) - mean(kept)).abs() > WARMUP_ERRORS * error
}

/// Relative change of the rate from the first half of the time to the second.
fn drift(slices: &[&Interval]) -> Option<f64> {
    let (first, last) = (slices.first()?, slices.last()?);
    let middle = first.from.0 + last.to.since(first.from).0 / 2;
    let at = slices.partition_point(|i| i.from.0 < middle);
    let (before, after) = slices.split_at(at);
    Some(share(rate(after)?, rate(before)?)? - 1.0)
}

fn variation(rates: &[f64]) -> Option<f64> {
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let squares: f64 = rates.iter().map(|r| (r - mean).powi(2)).sum();
    share((squares / (n - 1.0)).sqrt(), mean)
}

/// Mann-Kendall statistic in standard deviations, with the correction for continuity; ties are not
/// corrected for, which errs on the side of "steady".
fn trend_z(rates: &[f64]) -> f64 {
    let n = rates.len() as f64;
    let s: f64 = rates
        .iter()
        .enumerate()
        .flat_map(|(i, a)| rates[i + 1..].iter().map(move |b| (b - a, a == b)))
        .map(|(step, tie)| if tie { 0.0 } else { step.signum() })
        .sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (s.abs() - 1.0).max(0.0) * s.signum() / deviation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use record::Nanos;

    fn check(rates: &[u64], want: Option<bool>) {
        let mut outcome = samples::outcome();
        let step = outcome.measured().0 / (rates.len() as u64).max(1);
        outcome.intervals = (0u64..)
            .zip(rates)
            .map(|(i, &succeeded)| Interval {
                from: outcome.measured_from + Nanos(i * step),
                to: outcome.measured_from + Nanos((i + 1) * step),
                succeeded,
                ..Interval::default()
            })
            .collect();
        let found = steady(&outcome, &LoadSpec::new("")).map(|s| s.steady);
        assert_eq!(found, want, "{rates:?}");
    }

    #[test]
    fn steady_and_its_look_alikes() {
        check(&[], None);
        check(&[100; 7], None);
        check(&[0; 10], None);
        check(&[100; 10], Some(true));
        // Noise, and a freeze every other interval: variable, but without a trend.
        check(&[98, 103, 99, 101, 97, 104, 100, 99, 102, 98], Some(true));
        check(&[100, 0, 100, 0, 100, 0, 100, 0, 100, 0], Some(true));
        // A creep of 2 % is there, but harmless.
        check(
            &[1000, 1002, 1004, 1006, 1008, 1010, 1012, 1014, 1016, 1018],
            Some(true),
        );
        // A warm-up that is not over, and a step down in the middle.
        check(&[20, 40, 60, 80, 90, 95, 98, 99, 100, 101], Some(false));
        check(&[100, 101, 99, 100, 102, 80, 79, 81, 80, 78], Some(false));
    }

    /// Slices of 100 ms: a warm-up of so many at 60 %, then 1,000/s with a deterministic ripple.
    fn warming(slices: u64, warm: u64) -> LoadOutcome {
        let mut outcome = samples::outcome();
        let from = outcome.measured_from;
        let slice = |i: u64| Interval {
            from: from + Nanos(i * 100_000_000),
            to: from + Nanos((i + 1) * 100_000_000),
            succeeded: if i < warm { 60 } else { 100 } + i * 7 % 5,
            ..Interval::default()
        };
        outcome.intervals = (0..slices).map(slice).collect();
        outcome
    }

    #[test]
    fn the_warm_up_is_cut_off_and_the_rest_is_what_counts() {
        for (slices, warm, dropped_s, settled) in [
            (100, 0, 0.0, true),
            (100, 10, 1.0, true),
            (100, 12, 1.5, true),
            (100, 60, 0.0, false),
            (20, 3, 0.3, true),
        ] {
            let found = steady(&warming(slices, warm), &LoadSpec::new("")).unwrap();
            assert!(
                (found.dropped_s - dropped_s).abs() < 1e-9,
                "{warm} of {slices}: {found:?}"
            );
            assert_eq!(found.steady, settled, "{warm} of {slices}: {found:?}");
            if settled && warm > 0 {
                let rate = found.rate_per_s.unwrap();
                assert!((rate - 1_020.0).abs() < 5.0, "{rate}");
            }
        }
        let open = LoadSpec {
            arrival: Arrival::Constant { per_s: 1_000.0 },
            ..LoadSpec::new("")
        };
        assert_eq!(steady(&warming(100, 10), &open).unwrap().dropped_s, 0.0);
    }

    /// A cut is made in few of many series without any warm-up, and then changes little.
    #[test]
    fn noise_alone_is_seldom_cut() {
        let mut random = samples::Random::new(5);
        let mut cut = 0;
        for _ in 0..500 {
            let rates: Vec<f64> = (0..100).map(|_| 1_000.0 + 30.0 * random.normal()).collect();
            cut += u32::from(warmup(&rates) != Cut::At(0));
        }
        assert!(cut <= 40, "{cut} of 500");
    }
}
