//! Is the measured part in steady state? Tested, not assumed.
//!
//! Two signs must agree before a trial is called unsteady: the rate of the second half differs from the
//! first by more than 5 %, and a Mann-Kendall trend test (Mann 1945, Kendall 1975) over the intervals
//! rejects "no trend" at 5 %. The first alone would blame noise, the second alone a harmless creep. The
//! test takes intervals as independent; a server that freezes now and then is variable, but steady.

use crate::Steady;
use crate::stats::share;
use record::{Interval, LoadOutcome, Nanos};

/// The normal approximation of the test statistic holds from about eight values on.
const FEWEST_INTERVALS: usize = 8;
/// Largest change between the halves that is still called steady.
const DRIFT_LIMIT: f64 = 0.05;
/// Two-sided 5 % of the normal distribution.
const Z_LIMIT: f64 = 1.96;

/// Tests the measured part; `None` when it has fewer than eight intervals or no success.
pub(crate) fn steady(outcome: &LoadOutcome) -> Option<Steady> {
    let measured: Vec<&Interval> = outcome
        .intervals
        .iter()
        .filter(|i| i.from >= outcome.measured_from && i.to <= outcome.measured_to)
        .collect();
    let rates: Vec<f64> = measured
        .iter()
        .filter_map(|i| share(i.succeeded as f64, i.to.since(i.from).as_secs_f64()))
        .collect();
    if rates.len() < FEWEST_INTERVALS {
        return None;
    }
    let drift = drift(&measured, middle(outcome))?;
    Some(Steady {
        steady: drift.abs() <= DRIFT_LIMIT || trend_z(&rates).abs() <= Z_LIMIT,
        drift,
        variation: variation(&rates)?,
    })
}

fn middle(outcome: &LoadOutcome) -> Nanos {
    outcome.measured_from + Nanos(outcome.measured().0 / 2)
}

fn drift(intervals: &[&Interval], middle: Nanos) -> Option<f64> {
    let rate = |second: bool| {
        let half = intervals.iter().filter(|i| (i.from >= middle) == second);
        let (answers, time) = half.fold((0.0, 0.0), |(answers, time), i| {
            (
                answers + i.succeeded as f64,
                time + i.to.since(i.from).as_secs_f64(),
            )
        });
        share(answers, time)
    };
    Some(share(rate(true)?, rate(false)?)? - 1.0)
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
        let found = steady(&outcome).map(|s| s.steady);
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
}
