//! How often recorded cases were right: the width of a prediction, and what a score is worth as a confidence.
//!
//! ```text
//! confidence   score of the rules -> share of recorded cases with such a score that were right (isotonic, Jeffreys)
//! width        how far measured ratios lay outside of their rows -> what nine in ten stay within (split conformal)
//! ```
//! Both leave out the family of the server that is judged, so that what is said of an nginx was learned from others.
//! The surprise: with too few recorded cases there is no number at all, and that is what is said then.
//!
//! Sources: B. Zadrozny, C. Elkan: Transforming Classifier Scores into Accurate Multiclass Probability Estimates, KDD
//! 2002 (isotonic regression by pooling adjacent violators). L. Brown, T. Cai, A. DasGupta: Interval Estimation for a
//! Binomial Proportion, Statistical Science 16(2), 2001 (Jeffreys). Y. Romano, E. Patterson, E. Candes: Conformalized
//! Quantile Regression, NeurIPS 2019 (an interval that is widened by what others missed).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Fewest cases of a bin of scores: fewer say nothing about a share.
const FEWEST_OF_BIN: usize = 12;
/// Part of the measured ratios that an interval is to hold.
const HELD: f64 = 0.9;

/// What was recorded, as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// How it was made.
    #[serde(default)]
    pub made: String,
    /// What diagnoses named first, by family of servers.
    #[serde(default)]
    pub named: Vec<Named>,
    /// What changes brought, each beside what was predicted.
    #[serde(default)]
    pub brought: Vec<Brought>,
}

/// Outcomes of one family of servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Family of servers: `nginx`, `python`.
    pub family: String,
    /// `cause` where a cause was named, `none` where the server was called healthy, `further` for what was named
    /// behind the first.
    pub class: String,
    /// Scores of the rules where what was named was right.
    pub right: Vec<f64>,
    /// And where it was not.
    pub wrong: Vec<f64>,
}

/// A measured change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brought {
    /// Family of servers.
    pub family: String,
    /// Name of the cause.
    pub cause: String,
    /// Name of the metric.
    pub metric: String,
    /// Predicted ratio when the row alone goes, and with its callers.
    pub net: (f64, f64),
    /// Relative spread of the rate of the load that it was predicted from.
    pub noise: f64,
    /// Measured ratio.
    pub measured: f64,
}

/// What a score was worth in recorded cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// Score of the rules, 0 to 1: no frequency.
    pub score: f64,
    /// Recorded cases with such a score, of other families of servers.
    pub cases: u32,
    /// Those in which it was right.
    pub right: u32,
}

impl Calibrated {
    /// Jeffreys' estimate of the share that is right.
    pub fn frequency(&self) -> f64 {
        jeffreys(self.right, self.cases)
    }
}

fn jeffreys(right: u32, cases: u32) -> f64 {
    (f64::from(right) + 0.5) / (f64::from(cases) + 1.0)
}

/// What is compiled in.
pub(crate) fn calibration() -> &'static Calibration {
    static CALIBRATION: OnceLock<Calibration> = OnceLock::new();
    CALIBRATION.get_or_init(|| {
        toml::from_str(include_str!("../../catalogue/calibration.toml"))
            .expect("a test parses the file that is compiled in")
    })
}

/// A stretch of scores with what became of them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bin {
    from: f64,
    right: u32,
    cases: u32,
}

impl Bin {
    fn frequency(&self) -> f64 {
        jeffreys(self.right, self.cases)
    }

    fn with(self, next: Bin) -> Bin {
        Bin {
            from: self.from,
            right: self.right + next.right,
            cases: self.cases + next.cases,
        }
    }
}

impl Calibration {
    /// The share of recorded cases with such a score that were right; `None` where there are too few of other
    /// families than `family`.
    pub fn confidence(&self, class: &str, score: f64, family: &str) -> Option<Calibrated> {
        let bins = self.bins(class, family);
        let bin = bins
            .iter()
            .rev()
            .find(|bin| score >= bin.from)
            .or(bins.first())?;
        Some(Calibrated {
            score,
            cases: bin.cases,
            right: bin.right,
        })
    }

    /// Bins in rising order of scores, in which the share that was right never falls.
    fn bins(&self, class: &str, left_out: &str) -> Vec<Bin> {
        let of_class = |n: &&Named| n.class == class && n.family != left_out;
        let mut outcomes: Vec<(f64, bool)> = Vec::new();
        for named in self.named.iter().filter(of_class) {
            outcomes.extend(named.right.iter().map(|score| (*score, true)));
            outcomes.extend(named.wrong.iter().map(|score| (*score, false)));
        }
        outcomes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut bins: Vec<Bin> = Vec::new();
        for (at, (score, right)) in outcomes.iter().enumerate() {
            let one = Bin {
                from: *score,
                right: u32::from(*right),
                cases: 1,
            };
            let same = at > 0 && outcomes[at - 1].0 == *score;
            match bins.last_mut() {
                Some(last) if same || (last.cases as usize) < FEWEST_OF_BIN => {
                    *last = last.with(one)
                }
                _ => bins.push(one),
            }
        }
        // What is left over at the top joins its neighbour.
        if bins
            .last()
            .is_some_and(|b| (b.cases as usize) < FEWEST_OF_BIN)
            && let Some(rest) = bins.pop()
        {
            match bins.last_mut() {
                Some(last) => *last = last.with(rest),
                None => return Vec::new(),
            }
        }
        pooled(bins)
    }

    /// By how much, in units of `scale`, the logarithm of a measured ratio lies outside of its row at most nine times
    /// in ten; negative where rows are wider than they need be. `None` with too few changes of this metric and of other
    /// families.
    pub(crate) fn widening(&self, metric: &str, left_out: &str) -> Option<Widening> {
        let of_others = |b: &&Brought| b.family != left_out && b.metric == metric;
        let others = self.brought.iter().filter(of_others);
        let mut outside: Vec<f64> = others.map(Brought::outside).collect();
        outside.sort_by(f64::total_cmp);
        let n = outside.len();
        let rank = ((n + 1) as f64 * HELD).ceil() as usize;
        let by = *outside.get(rank.checked_sub(1)?)?;
        Some(Widening { by, changes: n })
    }
}

/// Pools neighbours until the share that was right never falls with the score.
fn pooled(bins: Vec<Bin>) -> Vec<Bin> {
    let mut rising: Vec<Bin> = Vec::new();
    for mut bin in bins {
        while let Some(last) = rising.last().copied()
            && last.frequency() > bin.frequency()
        {
            rising.pop();
            bin = last.with(bin);
        }
        rising.push(bin);
    }
    rising
}

/// What makes a row an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Widening {
    /// In units of [`scale`].
    by: f64,
    /// Measured changes that it comes from.
    pub changes: usize,
}

impl Widening {
    /// The interval around a row of ratios, which its point never leaves.
    pub(crate) fn around(self, net: (f64, f64), point: f64, noise: f64) -> (f64, f64) {
        let by = self.by * scale(net, noise);
        let (low, high) = (net.0.min(net.1), net.0.max(net.1));
        let (low, high) = ((low.ln() - by).exp(), (high.ln() + by).exp());
        (low.min(point), high.max(point))
    }
}

/// Errors grow with what is predicted, and with the noise of the load that it is predicted from.
fn scale(net: (f64, f64), noise: f64) -> f64 {
    noise + net.0.ln().abs().max(net.1.ln().abs())
}

impl Brought {
    fn outside(&self) -> f64 {
        let (low, high) = (self.net.0.min(self.net.1), self.net.0.max(self.net.1));
        let measured = self.measured.ln();
        let outside = (low.ln() - measured).max(measured - high.ln());
        outside / scale(self.net, self.noise).max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Random;

    fn of(family: &str, right: Vec<f64>, wrong: Vec<f64>) -> Named {
        Named {
            family: family.to_owned(),
            class: "cause".to_owned(),
            right,
            wrong,
        }
    }

    #[test]
    fn what_is_compiled_in_can_be_read() {
        let found: Calibration =
            toml::from_str(include_str!("../../catalogue/calibration.toml")).unwrap();
        for named in &found.named {
            let scores = named.right.iter().chain(&named.wrong);
            assert!(scores.clone().all(|s| (0.0..=1.0).contains(s)), "{named:?}");
            assert!(["cause", "none", "further"].contains(&named.class.as_str()));
        }
        for brought in &found.brought {
            let ratios = [brought.net.0, brought.net.1, brought.measured];
            assert!(
                ratios.iter().all(|r| r.is_finite() && *r > 0.0),
                "{brought:?}"
            );
        }
    }

    /// Scores that are not frequencies become frequencies, and a family that is worse than all others is told apart
    /// only when it is among them.
    #[test]
    fn scores_become_the_frequencies_of_other_families() {
        let mut random = Random::new(3);
        let mut calibration = Calibration::default();
        let truth = |score: f64| score * score;
        for family in ["a", "b", "c", "d"] {
            let mut named = of(family, Vec::new(), Vec::new());
            for _ in 0..400 {
                let score = random.uniform();
                let right = random.uniform() < if family == "d" { 0.0 } else { truth(score) };
                let outcomes = if right {
                    &mut named.right
                } else {
                    &mut named.wrong
                };
                outcomes.push(score);
            }
            calibration.named.push(named);
        }
        let mut last = 0.0;
        for step in 1..20 {
            let score = f64::from(step) / 20.0;
            let found = calibration.confidence("cause", score, "d").unwrap();
            assert!(found.cases as usize >= FEWEST_OF_BIN);
            let frequency = found.frequency();
            assert!(
                (frequency - truth(score)).abs() < 0.2,
                "{score}: {frequency}"
            );
            assert!(frequency >= last, "it never falls");
            last = frequency;
            let with_bad = calibration.confidence("cause", score, "a").unwrap();
            assert!(with_bad.frequency() <= frequency + 0.05);
        }
        // Over all scores, what is said is what comes true.
        let (mut said, mut came, mut n) = (0.0, 0.0, 0.0);
        for named in calibration.named.iter().filter(|n| n.family != "d") {
            for (scores, right) in [(&named.right, 1.0), (&named.wrong, 0.0)] {
                for score in scores {
                    let found = calibration.confidence("cause", *score, "d").unwrap();
                    said += found.frequency();
                    came += right;
                    n += 1.0;
                }
            }
        }
        assert!(((said - came) / n).abs() < 0.02, "{said} {came}");
    }

    #[test]
    fn too_few_cases_are_no_confidence() {
        let one = |n: usize| Calibration {
            named: vec![of("nginx", vec![0.8; n], vec![])],
            ..Calibration::default()
        };
        assert_eq!(
            one(40).confidence("cause", 0.8, "nginx"),
            None,
            "its own family"
        );
        assert_eq!(one(40).confidence("none", 0.8, "go"), None, "another class");
        assert_eq!(one(FEWEST_OF_BIN - 1).confidence("cause", 0.8, "go"), None);
        let found = one(40).confidence("cause", 0.2, "go").unwrap();
        assert_eq!((found.right, found.cases), (40, 40));
        // Not even forty of forty are certainty.
        assert!(found.frequency() < 0.99);
    }

    fn changes(random: &mut Random, n: usize, error: f64) -> Vec<Brought> {
        let change = |_| {
            let gain = 0.05 + 0.9 * random.uniform();
            let net = (1.0 - 0.8 * gain, 1.0 - gain);
            let middle = (net.0 * net.1).sqrt();
            let measured = middle * (error * random.normal() * middle.ln().abs()).exp();
            Brought {
                family: "nginx".to_owned(),
                net,
                measured,
                noise: 0.02,
                ..Brought::default()
            }
        };
        (0..n).map(change).collect()
    }

    #[test]
    fn nine_in_ten_intervals_hold() {
        let mut random = Random::new(8);
        for error in [0.05, 0.3, 0.8] {
            let (mut held, mut all) = (0, 0);
            for _ in 0..200 {
                let calibration = Calibration {
                    brought: changes(&mut random, 30, error),
                    ..Calibration::default()
                };
                let widening = calibration.widening("", "go").unwrap();
                for new in changes(&mut random, 20, error) {
                    let point = (new.net.0 * new.net.1).sqrt();
                    let (low, high) = widening.around(new.net, point, new.noise);
                    held += usize::from((low..=high).contains(&new.measured));
                    all += 1;
                }
            }
            let share = f64::from(held as u32) / f64::from(all as u32);
            assert!((0.87..0.97).contains(&share), "{error}: {share}");
        }
        let few = Calibration {
            brought: changes(&mut random, 8, 0.1),
            ..Calibration::default()
        };
        assert_eq!(few.widening("", "go"), None);
    }
}
