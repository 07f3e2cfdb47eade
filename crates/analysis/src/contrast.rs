//! How much slower or faster, and how sure: a ratio with its interval, its p-value and the smallest effect that could
//! have been seen. [`cells`](crate::cells) pairs the trials of a block, [`comparison`](crate::comparison) has two
//! records without pairs.
//!
//! Everything is computed on logarithms, so that twice and half are equally far from equal. Where ranks decide, the
//! estimate is that of Hodges and Lehmann (1963): the median of all Walsh averages of the pairs, or of all differences
//! between two samples. It bears 29 % of outliers and costs 5 % where there are none. Its interval and its p-value
//! invert Wilcoxon's tests, which assume nothing of the noise but that two equal arms could change places; the random
//! order inside a block makes that true whatever drifts (Fisher's randomisation argument; Lehmann: Nonparametrics,
//! 1.2 and 3.1).
//!
//! The surprise: with few trials the ranks cannot reach 5 %, however large the effect (five pairs: 6.25 %; and the
//! correction for several comparisons asks for more). Then Student's t takes over, which assumes normal noise, and the
//! estimate is the one that its interval is built around: the mean of the logarithms. Every ratio names its method.

use crate::rank::{self, Interval, Null};
use crate::{Method, Ratio};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Share of A/A comparisons that may be called different, over a whole family of comparisons.
pub(crate) const ALPHA: f64 = 0.05;
/// Share of effects of the smallest detectable size that are found.
pub(crate) const POWER: f64 = 0.80;
/// Two pairs span an interval that says next to nothing, and one pair spans none.
pub(crate) const FEWEST: usize = 3;

/// What the comparisons of a family must be corrected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// Comparisons: with many of them one stands out by chance.
    pub comparisons: usize,
    /// Blocks were repeated until the interval was narrow, which ends a run more readily where chance made it narrow.
    pub sequential: bool,
}

impl Family {
    /// A comparison alone, over a number of blocks that was fixed before.
    pub(crate) const ONE: Family = Family {
        comparisons: 1,
        sequential: false,
    };

    /// Factor on the p-value of the most conspicuous comparison.
    fn weight(self) -> f64 {
        self.comparisons.max(1) as f64 * self.stopping()
    }

    /// Stopping at a fixed width (Chow and Robbins 1965) keeps its level only in the limit; with few blocks up to 7 %
    /// of equal pairs were called different in simulations (see `simulated`), and half as much again covers that.
    fn stopping(self) -> f64 {
        if self.sequential { 1.5 } else { 1.0 }
    }
}

/// Log ratios that a comparison stands on.
#[derive(Clone, Debug)]
pub(crate) enum Sample {
    /// Of pairs that ran in the same block.
    Pairs(Vec<f64>),
    /// Of two sets of trials without pairs.
    Apart(Vec<f64>, Vec<f64>),
}

impl Sample {
    /// From the ratios of pairs; what is not above zero has no logarithm and is left out.
    pub(crate) fn pairs(ratios: &[f64]) -> Self {
        Self::Pairs(logs(ratios))
    }

    /// From the values before and after.
    pub(crate) fn apart(before: &[f64], after: &[f64]) -> Self {
        Self::Apart(logs(before), logs(after))
    }

    /// Trials on the lean side.
    fn trials(&self) -> usize {
        match self {
            Sample::Pairs(pairs) => pairs.len(),
            Sample::Apart(before, after) => before.len().min(after.len()),
        }
    }

    /// Walsh averages or differences, whose median is the estimate.
    fn spread_out(&self) -> Vec<f64> {
        match self {
            Sample::Pairs(pairs) => rank::walsh_averages(pairs),
            Sample::Apart(before, after) => rank::differences(before, after),
        }
    }

    fn null(&self) -> Null {
        match self {
            Sample::Pairs(pairs) => Null::signed_rank(pairs.len()),
            Sample::Apart(before, after) => Null::rank_sum(before.len(), after.len()),
        }
    }

    /// Mean, its standard error, and degrees of freedom (Welch 1947 for two samples).
    fn moments(&self) -> Option<Moments> {
        match self {
            Sample::Pairs(pairs) => {
                let (mean, square) = mean_and_squared_error(pairs)?;
                Some(Moments {
                    mean,
                    error: square.sqrt(),
                    freedom: pairs.len() as f64 - 1.0,
                })
            }
            Sample::Apart(before, after) => {
                let (a, square_a) = mean_and_squared_error(before)?;
                let (b, square_b) = mean_and_squared_error(after)?;
                let part = |square: f64, n: usize| square * square / (n as f64 - 1.0);
                let parts = part(square_a, before.len()) + part(square_b, after.len());
                let pooled = (before.len() + after.len()) as f64 - 2.0;
                let welch = (square_a + square_b).powi(2) / parts;
                Some(Moments {
                    mean: b - a,
                    error: (square_a + square_b).sqrt(),
                    freedom: if welch.is_finite() { welch } else { pooled },
                })
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Moments {
    mean: f64,
    error: f64,
    freedom: f64,
}

fn logs(values: &[f64]) -> Vec<f64> {
    let positive = values.iter().filter(|v| **v > 0.0 && v.is_finite());
    positive.map(|v| v.ln()).collect()
}

/// `None` of fewer than two values.
fn mean_and_squared_error(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (values.len() > 1).then(|| (mean, squares / (n - 1.0) / n))
}

/// A test of "no difference" with the interval that belongs to it.
enum Test {
    Rank { null: Null, values: Vec<f64> },
    Student(Moments),
}

impl Test {
    /// Ranks where they can reach the level of a family of so many comparisons, else Student's t.
    fn of(sample: &Sample, values: Vec<f64>, family: Family) -> Option<Self> {
        let null = sample.null();
        if null.smallest_p() * family.weight() <= ALPHA {
            return Some(Test::Rank { null, values });
        }
        sample.moments().map(Test::Student)
    }

    fn method(&self) -> Method {
        match self {
            Test::Rank { .. } => Method::Rank,
            Test::Student(_) => Method::StudentT,
        }
    }

    /// The centre of the test's own interval: an estimate of one kind in an interval of another may lie outside it.
    fn estimate(&self) -> Option<f64> {
        match self {
            Test::Rank { values, .. } => middle(values),
            Test::Student(m) => Some(m.mean),
        }
    }

    fn p(&self) -> f64 {
        match self {
            Test::Rank { null, values } => null.p(values),
            Test::Student(m) if m.error == 0.0 => f64::from(u8::from(m.mean == 0.0)),
            Test::Student(m) => students(m.freedom).map_or(1.0, |t| {
                (2.0 * t.cdf(-(m.mean / m.error).abs())).clamp(0.0, 1.0)
            }),
        }
    }

    fn interval(&self, level: f64) -> Option<Interval> {
        match self {
            Test::Rank { null, values } => null.interval(values, level),
            Test::Student(m) => {
                let width = students(m.freedom)?.inverse_cdf(0.5 + level / 2.0) * m.error;
                Some(Interval {
                    low: m.mean - width,
                    high: m.mean + width,
                    coverage: level,
                })
            }
        }
    }

    /// The true log ratio that is found with a probability of [`POWER`] at the level of the family. For Student's t it
    /// is `(t(level) + t(power)) x standard error`; for ranks the same with the standard error read off the
    /// interval's length (Lehmann 1963), in units of the normal distribution (Noether 1987). Both are freed of the
    /// downward bias that a standard deviation of few values has at its median. Where the ranks need
    /// nearly all pairs on one side, rare outliers can hide an effect of this size more often.
    fn smallest_effect(&self, family: Family, trials: usize) -> Option<f64> {
        let level = 1.0 - ALPHA / family.weight();
        let interval = self.interval(level)?;
        let half_width = (interval.high - interval.low) / 2.0;
        let (reach, extra, freedom) = match self {
            Test::Student(m) => {
                let t = students(m.freedom)?;
                (
                    t.inverse_cdf(0.5 + level / 2.0),
                    t.inverse_cdf(POWER),
                    m.freedom,
                )
            }
            Test::Rank { .. } => {
                let normal = Normal::standard();
                let reach = normal.inverse_cdf(0.5 + interval.coverage / 2.0);
                (reach, normal.inverse_cdf(POWER), trials as f64 - 1.0)
            }
        };
        // Median of the square root of chi squared over its degrees of freedom (Wilson and Hilferty 1931).
        let bias = (1.0 - 2.0 / (9.0 * freedom.max(1.0))).powf(1.5);
        let effect = half_width * (1.0 + extra / reach) / bias;
        effect.is_finite().then_some(effect)
    }
}

fn students(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

/// A ratio as one of a family of comparisons; `None` of nothing. The p-value is not yet corrected for the
/// family: see [`correct`].
pub(crate) fn ratio(sample: &Sample, family: Family) -> Option<Ratio> {
    let trials = sample.trials();
    let values = sample.spread_out();
    let estimate = middle(&values)?;
    let alone = Ratio {
        ratio: estimate.exp(),
        low: values.first()?.exp(),
        high: values.last()?.exp(),
        pairs: u32::try_from(trials).unwrap_or(u32::MAX),
        coverage: 0.0,
        method: Method::None,
        p: None,
        p_adjusted: None,
        smallest_effect: None,
    };
    if trials < FEWEST {
        return Some(alone);
    }
    let Some(test) = Test::of(sample, values, family) else {
        return Some(alone);
    };
    let interval = test.interval(1.0 - ALPHA)?;
    Some(Ratio {
        ratio: test.estimate()?.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
        coverage: interval.coverage,
        method: test.method(),
        p: Some(test.p()),
        p_adjusted: None,
        smallest_effect: test.smallest_effect(family, trials).map(f64::exp_m1),
        ..alone
    })
}

/// Estimate, lower and upper end of the difference between pairs, for figures whose ratio says nothing (shares).
pub(crate) fn difference(pairs: &[f64], family: Family) -> Option<(f64, Interval)> {
    let sample = Sample::Pairs(pairs.to_vec());
    if pairs.len() < FEWEST {
        return None;
    }
    let test = Test::of(&sample, sample.spread_out(), family)?;
    Some((test.estimate()?, test.interval(1.0 - ALPHA)?))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    (n > 0).then(|| (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0)
}

/// Pairs from which on ranks can decide each of so many comparisons; `None` where a hundred are too few.
pub(crate) fn pairs_for_ranks(family: Family) -> Option<usize> {
    (FEWEST..=100).find(|n| Null::signed_rank(*n).smallest_p() * family.weight() <= ALPHA)
}

/// Corrects the p-values of a family by Holm's step-down procedure (1979): the probability that any equal pair of the
/// family is called different stays at 5 %, whatever depends on what.
pub(crate) fn correct(ratios: &mut [&mut Ratio], sequential: bool) {
    ratios.sort_by(|a, b| a.p.unwrap_or(1.0).total_cmp(&b.p.unwrap_or(1.0)));
    let tested = ratios.iter().filter(|r| r.p.is_some()).count();
    let mut largest: f64 = 0.0;
    for (rank, ratio) in ratios.iter_mut().enumerate() {
        let Some(p) = ratio.p else { continue };
        let left = Family {
            comparisons: tested.saturating_sub(rank),
            sequential,
        };
        largest = largest.max(p * left.weight()).min(1.0);
        ratio.p_adjusted = Some(largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_of_nothing_is_nothing() {
        assert_eq!(ratio(&Sample::pairs(&[]), Family::ONE), None);
        assert_eq!(
            ratio(&Sample::pairs(&[0.0, -1.0, f64::NAN]), Family::ONE),
            None
        );
        let one = ratio(&Sample::pairs(&[1.5]), Family::ONE).unwrap();
        assert!((one.ratio - 1.5).abs() < 1e-12);
        assert_eq!((one.pairs, one.interval(), one.p), (1, None, None));
        let two = ratio(&Sample::apart(&[1.0, 1.0], &[2.0]), Family::ONE).unwrap();
        assert_eq!((two.pairs, two.method, two.p), (1, Method::None, None));
    }

    #[test]
    fn the_method_follows_what_ranks_can_reach() {
        let pairs =
            |n: usize| Sample::pairs(&(0..n).map(|i| 2.0 + i as f64 / 100.0).collect::<Vec<_>>());
        for (n, comparisons, method) in [
            (3, 1, Method::StudentT),
            (5, 1, Method::StudentT),
            (6, 1, Method::Rank),
            (6, 2, Method::StudentT),
            (7, 2, Method::Rank),
            (9, 10, Method::Rank),
        ] {
            let family = Family {
                comparisons,
                sequential: false,
            };
            let found = ratio(&pairs(n), family).unwrap();
            assert_eq!(found.method, method, "{n} pairs, {comparisons} comparisons");
            let (low, high) = found.interval().unwrap();
            assert!(low > 1.9 && low <= found.ratio && found.ratio <= high && high < 2.2);
            assert!(found.coverage >= 0.95 - 1e-12);
        }
        let apart = |n: usize| Sample::apart(&vec![1.0; n], &vec![2.0; n]);
        assert_eq!(
            ratio(&apart(3), Family::ONE).unwrap().method,
            Method::StudentT
        );
        assert_eq!(ratio(&apart(4), Family::ONE).unwrap().method, Method::Rank);
    }

    #[test]
    fn students_t_as_in_a_textbook() {
        // Log ratios 1, 2, 3: mean 2, standard error 1/sqrt(3), t(2, 97.5 %) = 4.3027, t = 3.4641 and p = 0.0742.
        let e = std::f64::consts::E;
        let found = ratio(&Sample::pairs(&[e, e.powi(2), e.powi(3)]), Family::ONE).unwrap();
        assert!((found.low.ln() - (2.0 - 4.302_65 / 3f64.sqrt())).abs() < 1e-3);
        assert!((found.p.unwrap() - 0.074_18).abs() < 1e-4);
        // Welch: 1, 2, 3 against 2, 4, 6: difference 2, error sqrt(1/3 + 4/3), 2.94 degrees of freedom, p = 0.2213.
        let before = [e, e.powi(2), e.powi(3)];
        let after = [e.powi(2), e.powi(4), e.powi(6)];
        let found = ratio(&Sample::apart(&before, &after), Family::ONE).unwrap();
        assert!((found.p.unwrap() - 0.221).abs() < 2e-3, "{found:?}");
    }

    #[test]
    fn one_outlier_moves_nothing() {
        let mut pairs = vec![1.10, 1.11, 1.09, 1.10, 1.12, 1.08, 1.10, 1.11, 1.10];
        let clean = ratio(&Sample::pairs(&pairs), Family::ONE).unwrap();
        pairs[4] = 20.0;
        let with = ratio(&Sample::pairs(&pairs), Family::ONE).unwrap();
        assert!(
            (clean.ratio - with.ratio).abs() < 0.02,
            "{clean:?} {with:?}"
        );
        assert!(with.low > 1.05 && with.p.unwrap() < 0.01);
    }

    #[test]
    fn an_outlier_of_five_pairs_shows_the_estimate_that_its_interval_is_built_around() {
        let pairs = [1.0, 1.0, 1.0, 1.0, 1e9];
        let found = ratio(&Sample::pairs(&pairs), Family::ONE).unwrap();
        assert_eq!(found.method, Method::StudentT);
        let mean = 1e9f64.powf(0.2);
        assert!((found.ratio / mean - 1.0).abs() < 1e-9, "{found:?}");
        let centre = (found.low * found.high).sqrt();
        assert!((found.ratio / centre - 1.0).abs() < 1e-9, "{found:?}");
    }

    /// Estimate and interval of the ranks belong together: nothing has to be forced into the interval.
    #[test]
    fn an_estimate_lies_in_its_interval_by_itself() {
        let mut random = crate::samples::Random::new(7);
        for n in 3..20 {
            for _ in 0..200 {
                let heavy = |r: &mut crate::samples::Random| (1.0 / r.uniform()).powf(r.normal());
                let pairs: Vec<f64> = (0..n).map(|_| heavy(&mut random)).collect();
                let found = ratio(&Sample::pairs(&pairs), Family::ONE).unwrap();
                assert!(
                    found.low <= found.ratio && found.ratio <= found.high,
                    "{pairs:?} {found:?}"
                );
            }
        }
    }

    #[test]
    fn pairs_that_ranks_take() {
        let pairs = |comparisons| {
            pairs_for_ranks(Family {
                comparisons,
                sequential: false,
            })
        };
        assert_eq!([1, 2, 10].map(pairs), [Some(6), Some(7), Some(9)]);
    }

    #[test]
    fn holm_corrects_step_by_step() {
        let with = |p| Ratio {
            p,
            ..ratio(&Sample::pairs(&[1.0]), Family::ONE).unwrap()
        };
        let mut ratios = [Some(0.03), Some(0.01), None, Some(0.02), Some(0.9)].map(with);
        correct(&mut ratios.iter_mut().collect::<Vec<_>>(), false);
        let adjusted = ratios.map(|r| r.p_adjusted);
        assert_eq!(
            adjusted,
            [Some(0.06), Some(0.04), None, Some(0.06), Some(0.9)]
        );
    }
}
