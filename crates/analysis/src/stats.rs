//! Medians, spreads and the interval of a median, without any assumption about the distribution:
//! the noise of servers on a shared machine is not Gaussian (it jumps between speeds).

use crate::{Ratio, Spread};

/// Share of intervals that shall cover the true median.
const CONFIDENCE: f64 = 0.95;
/// From here on the binomial distribution is as good as normal, and 0.5^n leaves the range of `f64` later.
const EXACT_UP_TO: usize = 100;

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Median; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Median with the range; `None` of nothing.
pub(crate) fn spread(values: &[f64]) -> Option<Spread> {
    let sorted = sorted(values);
    Some(Spread {
        median: median(&sorted)?,
        min: *sorted.first()?,
        max: *sorted.last()?,
    })
}

/// `part / whole`, `None` when that is not a finite number.
pub(crate) fn share(part: f64, whole: f64) -> Option<f64> {
    let share = part / whole;
    (whole != 0.0 && share.is_finite()).then_some(share)
}

/// Median of pair ratios with the order-statistic interval of the median (David and Nagaraja, Order
/// Statistics, 3rd ed., 7.1): `[x(k), x(n+1-k)]` covers it with probability `1 - 2 P(Bin(n, 1/2) < k)`,
/// whatever the distribution. Six pairs are the fewest that reach 95 %. With fewer the interval is
/// the whole range, and `coverage` says what that is worth: 93.75 % for five, 75 % for three, 0 for one.
pub(crate) fn ratio(pair_ratios: &[f64]) -> Option<Ratio> {
    let sorted = sorted(pair_ratios);
    let n = sorted.len();
    let (k, coverage) = order_statistic(n);
    Some(Ratio {
        ratio: median(&sorted)?,
        low: sorted[k - 1],
        high: sorted[n - k],
        pairs: u32::try_from(n).unwrap_or(u32::MAX),
        coverage,
    })
}

/// The largest `k` (from 1) whose interval covers at least 95 %, and what it covers.
fn order_statistic(n: usize) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let half_width = 1.96 * (n as f64).sqrt() / 2.0;
        return ((n as f64 / 2.0 - half_width).floor() as usize, CONFIDENCE);
    }
    let mut probability = 0.5_f64.powi(n as i32); // P(Bin(n, 1/2) = 0)
    let mut below = probability; // P(Bin(n, 1/2) < k) for k = 1
    let mut k = 1;
    loop {
        probability *= (n - k.min(n) + 1) as f64 / k as f64;
        let next = below + probability;
        if 2 * (k + 1) > n || 1.0 - 2.0 * next < CONFIDENCE {
            return (k, (1.0 - 2.0 * below).max(0.0));
        }
        below = next;
        k += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_range() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 10.0]), Some(3.0));
        let s = spread(&[2.0, 9.0, 4.0]).unwrap();
        assert_eq!((s.median, s.min, s.max), (4.0, 2.0, 9.0));
    }

    #[test]
    fn order_statistics_as_tabulated() {
        // (pairs, k, coverage) from the table of the sign test.
        for (n, k, coverage) in [
            (1, 1, 0.0),
            (3, 1, 0.75),
            (5, 1, 0.9375),
            (6, 1, 0.968_75),
            (8, 1, 0.992_187_5),
            (9, 2, 0.960_937_5),
            (10, 2, 0.978_515_625),
            (20, 6, 0.958_610_5),
            (400, 180, 0.95),
        ] {
            let (found, covers) = order_statistic(n);
            assert_eq!(found, k, "{n} pairs");
            assert!((covers - coverage).abs() < 1e-4, "{n} pairs: {covers}");
        }
    }

    #[test]
    fn ratio_of_nothing_is_nothing() {
        assert_eq!(ratio(&[]), None);
        let one = ratio(&[1.5]).unwrap();
        assert_eq!((one.ratio, one.low, one.high), (1.5, 1.5, 1.5));
        assert_eq!((one.pairs, one.coverage), (1, 0.0));
        assert_eq!(share(1.0, 0.0), None);
    }
}
