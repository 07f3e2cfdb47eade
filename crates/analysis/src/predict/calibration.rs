//! How often recorded cases were right: what predictions took and missed, and what a score is worth as a confidence.
//!
//! ```text
//! confidence   bound on the gain -> share of recorded cases with such a bound that were right (isotonic, Jeffreys)
//! slope        what a change took, by kind of work / what its row promised, as logarithms (weighted median)
//! width        how far measured ratios lay from that -> what nine in ten stay within (conformal); on both sides by
//!              themselves where enough are recorded, as changes bring more than promised far oftener than less
//! ```
//! Both leave out the family of the server that is judged, so that what is said of an nginx was learned from others.
//! The surprise: the rules' own scores tell nothing of what is right on a server that nobody has seen, and how much of
//! the time a cause explains does. With too few recorded cases there is no number at all, which is said then.
//!
//! Sources: B. Zadrozny, C. Elkan: Transforming Classifier Scores into Accurate Multiclass Probability Estimates, KDD
//! 2002 (isotonic regression by pooling adjacent violators). L. Brown, T. Cai, A. DasGupta: Interval Estimation for a
//! Binomial Proportion, Statistical Science 16(2), 2001 (Jeffreys). V. Vovk, A. Gammerman, G. Shafer: Algorithmic
//! Learning in a Random World, 2005, and R. Barber, E. Candes, A. Ramdas, R. Tibshirani: Predictive Inference with the
//! Jackknife+, Annals of Statistics 49(1), 2021 (residuals of those that were left out).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

/// Fewest cases of a bin: fewer say nothing about a share, and finer bins told families that were left out worse.
const FEWEST_OF_BIN: usize = 20;
/// Fewest changes of a kind that have a width of their own: the largest miss of seven holds seven in eight new ones.
const FEWEST_CHANGES: usize = 7;
/// Fewest changes of a kind whose two sides are told apart: one in twenty on either side is one of nineteen.
const FEWEST_OF_SIDES: usize = 19;
/// Changes that an assumption is worth as much as.
const LEANS: f64 = 3.0;
/// A logarithm that is as good as no change: noise of a quiet load.
const LITTLE: f64 = 0.03;
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
    /// `cause` where a cause was named, `none` where the server was called healthy, `unlabelled` where a place was told
    /// that no cause names, `further` for what was named behind the first.
    pub class: String,
    /// Bounds on the gain (share of the limiting resource's time, 0 where none is known) where it was right.
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
    /// Name of the case that it was measured on.
    #[serde(default)]
    pub case: String,
    /// Name of the cause.
    pub cause: String,
    /// What the change takes: `row`, `calls`, `connections`, `wait`, `pace`, `cap` or `cores`.
    #[serde(default)]
    pub kind: String,
    /// Name of the metric.
    pub metric: String,
    /// Ratio by the model alone, when the row goes, and with all that belongs to it.
    pub net: (f64, f64),
    /// Relative spread of the rate of the load that it was predicted from.
    pub noise: f64,
    /// Measured ratio.
    pub measured: f64,
}

/// What such findings were worth in recorded cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// Score of the rules, 0 to 1: no frequency.
    pub score: f64,
    /// Recorded cases with such a bound on the gain, of other families of servers.
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

/// A stretch of bounds on the gain with what became of them.
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
    /// The share of recorded cases with such a bound on the gain that were right; `None` where there are too few of
    /// other families than `family`. `score` is that of the rules, and is handed on.
    pub fn confidence(
        &self,
        class: &str,
        score: f64,
        gain_bound: Option<f64>,
        family: &str,
    ) -> Option<Calibrated> {
        let bound = gain_bound.unwrap_or_default();
        let bins = self.bins(class, family);
        let bin = bins
            .iter()
            .rev()
            .find(|bin| bound >= bin.from)
            .or(bins.first())?;
        Some(Calibrated {
            score,
            cases: bin.cases,
            right: bin.right,
        })
    }

    /// Bins in rising order of bounds, in which the share that was right never falls.
    fn bins(&self, class: &str, left_out: &str) -> Vec<Bin> {
        let of_class = |n: &&Named| n.class == class && n.family != left_out;
        let mut outcomes: Vec<(f64, bool)> = Vec::new();
        for named in self.named.iter().filter(of_class) {
            outcomes.extend(named.right.iter().map(|bound| (*bound, true)));
            outcomes.extend(named.wrong.iter().map(|bound| (*bound, false)));
        }
        outcomes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut bins: Vec<Bin> = Vec::new();
        for (at, (bound, right)) in outcomes.iter().enumerate() {
            let one = Bin {
                from: *bound,
                right: u32::from(*right),
                cases: 1,
            };
            let same = at > 0 && outcomes[at - 1].0 == *bound;
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

    /// What recorded changes that `of_others` chooses say of a kind of change; `None` with too few of this metric.
    pub fn learned(
        &self,
        kind: &str,
        metric: &str,
        of_others: &dyn Fn(&Brought) -> bool,
    ) -> Option<Learned> {
        let same = |b: &&Brought| b.metric == metric && of_others(b);
        let all: Vec<&Brought> = self.brought.iter().filter(same).collect();
        let own = all.iter().filter(|b| b.kind == kind).count();
        // Few of its kind have no width of their own: that of all kinds is told instead.
        let wide = own < FEWEST_CHANGES;
        let judged: Vec<&Brought> = (all.iter().filter(|b| wide || b.kind == kind))
            .copied()
            .collect();
        let n = judged.len();
        if n < FEWEST_CHANGES {
            return None;
        }
        // Each by what those of other families took.
        let off = |b: &Brought| {
            let others: Vec<&Brought> = (all.iter().filter(|o| o.family != b.family))
                .copied()
                .collect();
            b.further(slope(&others, &b.kind))
        };
        let off: Vec<(f64, f64)> = (judged.iter())
            .map(|b| (off(b), scale(b.promised(), b.noise)))
            .collect();
        let (by, far) = if own < FEWEST_OF_SIDES {
            let missed = off.iter().map(|(off, scale)| off.abs() / scale);
            (ranked(missed.collect(), HELD)?, None)
        } else {
            let side = (1.0 + HELD) / 2.0;
            let less = off.iter().map(|(off, scale)| -off / scale);
            let more = off.iter().map(|(off, _)| *off);
            let far = ranked(more.collect(), side)?.max(0.0);
            (ranked(less.collect(), side)?.max(0.0), Some(far))
        };
        Some(Learned {
            slope: slope(&all, kind),
            by,
            far,
            rises: rises(metric),
            own,
            changes: n,
        })
    }
}

/// The miss that this part of new ones stays below, by those that were recorded.
fn ranked(mut misses: Vec<f64>, held: f64) -> Option<f64> {
    misses.sort_by(f64::total_cmp);
    let rank = (((misses.len() + 1) as f64 * held).ceil() as usize).min(misses.len());
    misses.get(rank.checked_sub(1)?).copied()
}

/// Whether more of a metric is better.
fn rises(metric: &str) -> bool {
    metric == crate::Metric::Rate.name()
}

/// What changes of a kind took of what their rows promised, as logarithms; kinds with few changes lean on all, and all
/// on 1: what the row says.
fn slope(of: &[&Brought], kind: &str) -> f64 {
    let own: Vec<&Brought> = of.iter().filter(|b| b.kind == kind).copied().collect();
    let lean = |n: usize, found: f64, on: f64| {
        let n = n as f64;
        (n * found + LEANS * on) / (n + LEANS)
    };
    let all = lean(of.len(), middle(of), 1.0);
    lean(own.len(), middle(&own), all)
}

/// The slope through the origin with the least sum of distances: the median of slopes, by what was promised.
fn middle(of: &[&Brought]) -> f64 {
    let promised = of.iter().map(|b| (b.promised(), b.measured.ln()));
    let some = promised.filter(|(x, _)| x.abs() > LITTLE);
    let mut slopes: Vec<(f64, f64)> = some.map(|(x, y)| (y / x, x.abs())).collect();
    slopes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = slopes.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (slope, weight) in slopes {
        below += weight;
        if below >= half {
            return slope;
        }
    }
    1.0
}

/// Pools neighbours until the share that was right never falls with the bound.
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

/// What recorded changes say of one that is to be predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// What they took of what their rows promised, as logarithms.
    slope: f64,
    /// What nine in ten missed at most, in units of [`scale`]; with `far` how much less than promised they brought.
    by: f64,
    /// How much more than promised, as a logarithm: what else a fault cost does not grow with what its row takes.
    far: Option<f64>,
    /// The metric is better the more of it there is.
    rises: bool,
    /// Changes of the same kind.
    pub own: usize,
    /// Changes that the width comes from.
    pub changes: usize,
}

impl Learned {
    /// Ratio and its interval where a model says `row`, from a load with such noise.
    pub fn of(&self, row: f64, noise: f64) -> (f64, (f64, f64)) {
        let middle = self.slope * row.ln();
        let less = self.by * scale(row.ln(), noise);
        let more = self.far.unwrap_or(less);
        let (low, high) = if self.rises {
            (less, more)
        } else {
            (more, less)
        };
        (middle.exp(), ((middle - low).exp(), (middle + high).exp()))
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        let few = if self.own < FEWEST_CHANGES {
            ": too few of its own kind, so the width is that of all"
        } else {
            ""
        };
        format!(
            "{} measured changes of this kind on other servers took x{:.2} of it (as logarithms); the interval holds \
             nine in ten of {}{few}",
            self.own, self.slope, self.changes
        )
    }
}

/// Errors grow with what is promised, and with the noise of the load that it is predicted from.
fn scale(promised: f64, noise: f64) -> f64 {
    noise.max(LITTLE) + promised.abs()
}

impl Brought {
    /// Logarithm of the ratio by the model.
    fn promised(&self) -> f64 {
        self.net.1.ln()
    }

    /// How much further than promised the metric went, as a logarithm; negative where it fell short.
    fn further(&self, slope: f64) -> f64 {
        let off = self.measured.ln() - slope * self.promised();
        if rises(&self.metric) { off } else { -off }
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
            let mut bounds = named.right.iter().chain(&named.wrong);
            assert!(bounds.all(|b| (0.0..=1.0).contains(b)), "{named:?}");
            assert!(["cause", "none", "unlabelled", "further"].contains(&named.class.as_str()));
        }
        for brought in &found.brought {
            let ratios = [brought.net.0, brought.net.1, brought.measured];
            assert!(
                ratios.iter().all(|r| r.is_finite() && *r > 0.0),
                "{brought:?}"
            );
        }
    }

    /// Bounds become frequencies, and a family that is worse than all others is told apart only when it is among them.
    #[test]
    fn bounds_become_the_frequencies_of_other_families() {
        let mut random = Random::new(3);
        let mut calibration = Calibration::default();
        let truth = |bound: f64| bound * bound;
        for family in ["a", "b", "c", "d"] {
            let mut named = of(family, Vec::new(), Vec::new());
            for _ in 0..400 {
                let bound = random.uniform();
                let right = random.uniform() < if family == "d" { 0.0 } else { truth(bound) };
                let outcomes = if right {
                    &mut named.right
                } else {
                    &mut named.wrong
                };
                outcomes.push(bound);
            }
            calibration.named.push(named);
        }
        let mut last = 0.0;
        for step in 1..20 {
            let bound = f64::from(step) / 20.0;
            let found = calibration
                .confidence("cause", 0.5, Some(bound), "d")
                .unwrap();
            assert!(found.cases as usize >= FEWEST_OF_BIN);
            let frequency = found.frequency();
            assert!(
                (frequency - truth(bound)).abs() < 0.2,
                "{bound}: {frequency}"
            );
            assert!(frequency >= last, "it never falls");
            last = frequency;
            let with_bad = calibration
                .confidence("cause", 0.5, Some(bound), "a")
                .unwrap();
            assert!(with_bad.frequency() <= frequency + 0.05);
        }
        // Over all bounds, what is said is what comes true.
        let (mut said, mut came, mut n) = (0.0, 0.0, 0.0);
        for named in calibration.named.iter().filter(|n| n.family != "d") {
            for (bounds, right) in [(&named.right, 1.0), (&named.wrong, 0.0)] {
                for bound in bounds {
                    let found = calibration
                        .confidence("cause", 0.5, Some(*bound), "d")
                        .unwrap();
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
            one(40).confidence("cause", 0.8, None, "nginx"),
            None,
            "its own family"
        );
        assert_eq!(
            one(40).confidence("none", 0.8, None, "go"),
            None,
            "another class"
        );
        assert_eq!(
            one(FEWEST_OF_BIN - 1).confidence("cause", 0.8, Some(0.8), "go"),
            None
        );
        let found = one(40).confidence("cause", 0.2, None, "go").unwrap();
        assert_eq!((found.score, found.right, found.cases), (0.2, 40, 40));
        // Not even forty of forty are certainty.
        assert!(found.frequency() < 0.99);
    }

    fn changes(random: &mut Random, n: usize, kind: &str, slope: f64, error: f64) -> Vec<Brought> {
        let families = ["a", "b", "c", "d", "e"];
        let change = |i: usize| {
            let row = 1.0 - (0.05 + 0.9 * random.uniform());
            let off = error * random.normal() * (row.ln().abs() + LITTLE);
            Brought {
                family: families[i % families.len()].to_owned(),
                kind: kind.to_owned(),
                net: (row, row),
                measured: (slope * row.ln() + off).exp(),
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
                    brought: changes(&mut random, 30, "row", 1.4, error),
                    ..Calibration::default()
                };
                let learned = calibration.learned("row", "", &|_| true).unwrap();
                for new in changes(&mut random, 20, "row", 1.4, error) {
                    let (ratio, (low, high)) = learned.of(new.net.1, new.noise);
                    assert!(low <= ratio && ratio <= high);
                    held += usize::from((low..=high).contains(&new.measured));
                    all += 1;
                }
            }
            let share = f64::from(held as u32) / f64::from(all as u32);
            assert!((0.86..0.97).contains(&share), "{error}: {share}");
        }
        let few = Calibration {
            brought: changes(&mut random, 6, "row", 1.0, 0.1),
            ..Calibration::default()
        };
        assert_eq!(few.learned("row", "", &|_| true), None);
    }

    /// Changes that bring what was promised or several times as much, and never less.
    #[test]
    fn what_brings_more_than_promised_is_no_doubt_about_the_least() {
        let mut random = Random::new(10);
        let mut change = |metric: &str| {
            let row = 1.0 - (0.05 + 0.9 * random.uniform());
            let (row, more) = match metric {
                "rate_per_s" => (1.0 / row, 20_f64.powf(random.uniform())),
                _ => (row, 0.05_f64.powf(random.uniform())),
            };
            Brought {
                family: if random.uniform() < 0.5 { "a" } else { "b" }.to_owned(),
                kind: "wait".to_owned(),
                metric: metric.to_owned(),
                net: (row, row),
                measured: row * more,
                noise: 0.02,
                ..Brought::default()
            }
        };
        for (metric, promised) in [("response_ns_p50", 0.5), ("rate_per_s", 2.0)] {
            let brought: Vec<Brought> = (0..60).map(|_| change(metric)).collect();
            let of = |n: usize| {
                let calibration = Calibration {
                    brought: brought[..n].to_vec(),
                    ..Calibration::default()
                };
                let learned = calibration.learned("wait", metric, &|_| true).unwrap();
                let (_, (low, high)) = learned.of(promised, 0.02);
                let says = low > 1.0 || high < 1.0;
                let inside = |b: &&Brought| {
                    let (_, (low, high)) = learned.of(b.net.1, b.noise);
                    (low..=high).contains(&b.measured)
                };
                (says, brought.iter().filter(inside).count())
            };
            let (says, inside) = of(60);
            assert!(says && inside >= 51, "{metric}: {inside} of 60");
            // Of few nobody knows on which side of it the next one lies.
            assert!(!of(FEWEST_OF_SIDES - 1).0, "{metric}");
        }
    }

    #[test]
    fn kinds_take_more_or_less_than_their_rows_say() {
        let mut random = Random::new(9);
        let mut brought = changes(&mut random, 40, "row", 1.5, 0.1);
        brought.extend(changes(&mut random, 40, "calls", 0.8, 0.1));
        let calibration = Calibration {
            brought,
            ..Calibration::default()
        };
        let of = |kind| calibration.learned(kind, "", &|_| true).unwrap();
        assert!((of("row").slope - 1.5).abs() < 0.1, "{:?}", of("row"));
        assert!((of("calls").slope - 0.8).abs() < 0.1);
        // Of a kind without changes nothing is known but what all have in common, and as wide as all are.
        let unknown = of("wait");
        assert_eq!((unknown.own, unknown.changes), (0, 80));
        assert!(unknown.far.is_none() && unknown.by > 0.0, "{unknown:?}");
        assert!(unknown.slope > 0.8 && unknown.slope < 1.5);
        // Nobody learns from those that are left out.
        let learned = calibration
            .learned("row", "", &|b| b.kind != "calls")
            .unwrap();
        assert_eq!(learned.changes, 40);
        assert_eq!(calibration.learned("row", "", &|b| b.family == "f"), None);
    }
}
