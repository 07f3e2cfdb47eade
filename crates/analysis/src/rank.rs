//! Exact distributions of the two rank statistics, and what the interval of a given level is made of.
//!
//! Wilcoxon's signed rank is the number of Walsh averages on one side, the rank sum the number of differences between
//! two samples on one side (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3rd ed., 3.1 and 4.1). Both
//! statistics are counts of a sorted list, so that one function turns a list into an interval and a p-value that agree
//! with each other. The surprise: ties need no treatment, because a value that is exactly zero is counted against the
//! effect from both sides.

use statrs::distribution::{ContinuousCDF, Normal};

/// Beyond this many values the normal approximation is as good as exact.
const EXACT_UP_TO: usize = 60;

/// Distribution of the statistic when there is no effect: `P(T = t)` for t from 0.
#[derive(Clone, Debug)]
pub(crate) struct Null(Vec<f64>);

impl Null {
    /// Signed rank of `n` pairs: the number of subsets of {1..n} by their sum.
    pub(crate) fn signed_rank(n: usize) -> Self {
        if n > EXACT_UP_TO {
            let n = n as f64;
            let mean = n * (n + 1.0) / 4.0;
            return Self::normal(mean, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt());
        }
        let mut p = vec![1.0];
        for rank in 1..=n {
            let mut next = vec![0.0; p.len() + rank];
            for (sum, probability) in p.iter().enumerate() {
                next[sum] += probability / 2.0;
                next[sum + rank] += probability / 2.0;
            }
            p = next;
        }
        Self(p)
    }

    /// Rank sum (Mann-Whitney U) of samples of `n` and `m` values, by the recurrence of Mann and Whitney (1947):
    /// the largest value belongs to one sample or to the other.
    pub(crate) fn rank_sum(n: usize, m: usize) -> Self {
        if n.max(m) > EXACT_UP_TO {
            let (n, m) = (n as f64, m as f64);
            return Self::normal(n * m / 2.0, (n * m * (n + m + 1.0) / 12.0).sqrt());
        }
        // `row[j]` is the distribution for i values of one and j of the other.
        let mut row: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
        for i in 1..=n {
            let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
            for j in 1..=m {
                let (of_first, of_second) = (i as f64, j as f64);
                let mut p = vec![0.0; i * j + 1];
                // The largest of all is in the first sample: it lies above all j of the other.
                for (u, probability) in row[j].iter().enumerate() {
                    p[u + j] += probability * of_first / (of_first + of_second);
                }
                for (u, probability) in next[j - 1].iter().enumerate() {
                    p[u] += probability * of_second / (of_first + of_second);
                }
                next.push(p);
            }
            row = next;
        }
        Self(row.pop().unwrap_or_else(|| vec![1.0]))
    }

    fn normal(mean: f64, deviation: f64) -> Self {
        let normal = Normal::new(mean, deviation).ok();
        let below = |t: f64| normal.as_ref().map_or(0.0, |n| n.cdf(t));
        let values = (2.0 * mean).round() as usize + 1;
        let mass = |t: usize| below(t as f64 + 0.5) - below(t as f64 - 0.5);
        Self((0..values).map(mass).collect())
    }

    /// `P(T <= t)`.
    fn up_to(&self, t: usize) -> f64 {
        self.0.iter().take(t + 1).sum()
    }

    /// The smallest two-sided p-value that the statistic can reach.
    pub(crate) fn smallest_p(&self) -> f64 {
        (2.0 * self.up_to(0)).min(1.0)
    }

    /// Two-sided p-value of a list of averages or differences: twice the probability of as few values on the lean side.
    pub(crate) fn p(&self, values: &[f64]) -> f64 {
        let not_above = values.iter().filter(|v| **v <= 0.0).count();
        let not_below = values.iter().filter(|v| **v >= 0.0).count();
        (2.0 * self.up_to(not_above.min(not_below))).min(1.0)
    }

    /// The narrowest interval of the sorted list that covers at least `level`, and what it covers; the widest one
    /// where none does.
    pub(crate) fn interval(&self, sorted: &[f64], level: f64) -> Option<Interval> {
        let mut below = self.up_to(0);
        let mut cut = 0;
        while 2 * (cut + 1) < sorted.len() {
            let next = below + self.0.get(cut + 1).copied().unwrap_or(0.0);
            // The sums are of halves: what is equal on paper may differ in the last bit.
            if 1.0 - 2.0 * next < level - 1e-12 {
                break;
            }
            below = next;
            cut += 1;
        }
        Some(Interval {
            low: *sorted.get(cut)?,
            high: *sorted.get(sorted.len().checked_sub(1 + cut)?)?,
            coverage: (1.0 - 2.0 * below).max(0.0),
        })
    }
}

/// An interval and the probability that it covers the true value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub low: f64,
    pub high: f64,
    pub coverage: f64,
}

/// Means of all pairs of values, each with itself too, sorted (Walsh 1949).
pub(crate) fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages: Vec<f64> = (0..values.len())
        .flat_map(|i| (i..values.len()).map(move |j| (i, j)))
        .map(|(i, j)| (values[i] + values[j]) / 2.0)
        .collect();
    averages.sort_by(f64::total_cmp);
    averages
}

/// Every value of `after` less every value of `before`, sorted.
pub(crate) fn differences(before: &[f64], after: &[f64]) -> Vec<f64> {
    let mut differences: Vec<f64> = before
        .iter()
        .flat_map(|a| after.iter().map(move |b| b - a))
        .collect();
    differences.sort_by(f64::total_cmp);
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_rank_as_tabulated() {
        // (pairs, T, P(T <= t)) from the tables of Wilcoxon (1947) and of Hollander, Wolfe, Chicken (A.4).
        for (n, t, probability) in [
            (5, 0, 0.031_25),
            (6, 0, 0.015_625),
            (6, 2, 0.046_875),
            (8, 3, 0.019_531_25),
            (10, 8, 0.024_414_062_5),
            (20, 52, 0.024_2),
            (200, 8_441, 0.025),
        ] {
            let found = Null::signed_rank(n).up_to(t);
            assert!((found - probability).abs() < 2e-4, "{n} pairs: {found}");
        }
    }

    #[test]
    fn rank_sums_as_tabulated() {
        // (n, m, U, P(U <= u)) from the table of Mann and Whitney (1947).
        for (n, m, u, probability) in [
            (3, 3, 0, 0.05),
            (4, 4, 1, 0.028_571),
            (5, 5, 2, 0.015_873),
            (5, 3, 0, 0.017_857),
            (8, 8, 13, 0.024_9),
            (8, 6, 8, 0.021_3),
        ] {
            let found = Null::rank_sum(n, m).up_to(u);
            assert!((found - probability).abs() < 2e-4, "{n}, {m}: {found}");
            let swapped = Null::rank_sum(m, n).up_to(u);
            assert!((swapped - found).abs() < 1e-12);
        }
        let all: f64 = Null::rank_sum(7, 4).0.iter().sum();
        assert!((all - 1.0).abs() < 1e-12);
    }

    #[test]
    fn interval_and_p_value_agree() {
        let pairs = [0.3, 0.1, -0.05, 0.2, 0.25, 0.15, 0.4, 0.35];
        let averages = walsh_averages(&pairs);
        let null = Null::signed_rank(pairs.len());
        // One negative value of rank 1: T = 1, and P(T <= 1) = 2/256.
        assert!((null.p(&averages) - 4.0 / 256.0).abs() < 1e-12);
        let inside = null.interval(&averages, 0.95).unwrap();
        assert!((inside.coverage - (1.0 - 2.0 * 5.0 / 256.0)).abs() < 1e-12);
        assert!(inside.low > 0.0 && inside.high < 0.4, "{inside:?}");
        let wide = null.interval(&averages, 0.99).unwrap();
        assert!(wide.low < 0.0 && wide.low < inside.low);
        // Nothing differs, and nothing is seen.
        assert_eq!(null.p(&walsh_averages(&[0.0; 8])), 1.0);
        assert_eq!(
            Null::rank_sum(5, 5).p(&differences(&[1.0; 5], &[1.0; 5])),
            1.0
        );
        assert_eq!(null.interval(&[], 0.95), None);
    }
}
