//! Where a level stops being held: the edge, with an interval, from rates that held and rates that did not.
//!
//! Near the edge a step holds by luck. The chance is taken as a logistic curve over the logarithm of the rate, one half
//! at the edge; how wide the curve is nobody knows, so it is estimated along with the edge, and a step may be wrong
//! altogether now and then. Bayes' rule over a grid gives the edge's distribution: its median is the estimate, its
//! central 95 % the interval. The next step is made at the median while the interval is wide (probabilistic bisection;
//! Waeber, Frazier and Henderson 2013), then at its quartiles in turn, where steps also tell how wide the curve is. As
//! in QUEST (Watson and Pelli 1983) with an unknown slope (Kontsevich and Tyler 1999). The surprise: nothing here
//! knows what a level is.

/// Scales of the curve, as shares of the rate, and how likely each is before there are steps: those of one rate differ
/// by 0.4 % to a quarter, and seldom by more.
const WIDTHS: [(f64, f64); 8] = [
    (0.002, 1.0),
    (0.004, 1.0),
    (0.008, 1.0),
    (0.016, 1.0),
    (0.032, 1.0),
    (0.064, 1.0),
    (0.125, 1.0),
    (0.25, 0.5),
];
/// One step in so many is wrong, whatever its rate.
const WRONG: f64 = 0.02;
/// Rates that are held against the steps.
const POINTS: usize = 400;
/// The edge lies within this factor of the ends that the steps leave: an early step may have held by luck, or not.
const BEYOND: f64 = 3.0;
/// The ratio of the interval's ends above which the middle is asked about.
const WIDE: f64 = 1.5;
/// Outside the interval on either side.
const TAIL: f64 = 0.025;

/// The edge, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub low: f64,
    /// A quarter of the distribution lies below.
    pub lower: f64,
    pub median: f64,
    /// A quarter of the distribution lies above.
    pub upper: f64,
    pub high: f64,
}

impl Edge {
    /// Where the next step says most; `step` is its number.
    pub(crate) fn next(&self, step: usize) -> f64 {
        match step % 2 {
            _ if self.high > self.low * WIDE => self.median,
            0 => self.lower,
            _ => self.upper,
        }
    }
}

/// The edge between `low` and `high`, by steps with their rates and whether they held.
pub(crate) fn edge(steps: &[(f64, bool)], (low, high): (f64, f64)) -> Edge {
    let (from, to) = ((low / BEYOND).ln(), (high * BEYOND).ln());
    let at = |i: usize| from + (to - from) * i as f64 / (POINTS - 1) as f64;
    let steps: Vec<(f64, bool)> = steps
        .iter()
        .map(|(rate, held)| (rate.ln(), *held))
        .collect();
    let weight = |i| {
        let each = WIDTHS.iter();
        each.map(|(width, likely)| likely * likelihood(&steps, at(i), *width))
            .sum()
    };
    let weights: Vec<f64> = (0..POINTS).map(weight).collect();
    let all: f64 = weights.iter().sum();
    let quantile = |share: f64| {
        let mut before = 0.0;
        let found = weights.iter().position(|weight| {
            before += weight;
            before >= share * all
        });
        at(found.unwrap_or(POINTS - 1)).exp()
    };
    Edge {
        low: quantile(TAIL),
        lower: quantile(0.25),
        median: quantile(0.5),
        upper: quantile(0.75),
        high: quantile(1.0 - TAIL),
    }
}

/// How likely the steps are with the edge at `edge`; rates are logarithms.
fn likelihood(steps: &[(f64, bool)], edge: f64, width: f64) -> f64 {
    let each = steps.iter().map(|(rate, held)| {
        let away = if *held { edge - rate } else { rate - edge };
        WRONG / 2.0 + (1.0 - WRONG) / (1.0 + (-away / width).exp())
    });
    each.product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::Random;

    #[test]
    fn one_step_on_each_side_leaves_what_is_between() {
        let found = edge(&[(1_000.0, true), (2_000.0, false)], (1_000.0, 2_000.0));
        assert!((found.median / 1_414.0 - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.low < 1_050.0 && found.high > 1_900.0, "{found:?}");
    }

    #[test]
    fn a_wrong_step_far_away_does_not_move_the_edge() {
        let mut steps = Vec::new();
        for _ in 0..4 {
            steps.extend([(980.0, true), (1_020.0, false)]);
        }
        let clean = edge(&steps, (980.0, 1_020.0));
        steps.push((850.0, false));
        let moved = edge(&steps, (850.0, 1_020.0));
        assert!(
            (moved.median / clean.median - 1.0).abs() < 0.02,
            "{clean:?} {moved:?}"
        );
    }

    /// Steps as a search makes them, at every width of the curve but the widest.
    #[test]
    fn the_interval_holds_the_edge_in_19_of_20_searches() {
        let (mut hits, all) = (0, 500_u32);
        for seed in 0..all {
            let mut random = Random::new(u64::from(seed) + 1);
            let (width, _) = WIDTHS[seed as usize % 7];
            let truth = 1_000.0 * (1.0 + random.uniform());
            let mut steps = vec![(1_000.0, true), (2_000.0, false)];
            for _ in 0..9 {
                let rate = edge(&steps, (1_000.0, 2_000.0)).next(steps.len());
                let luck = (random.uniform().recip() - 1.0).ln() * width;
                steps.push((rate, rate.ln() < truth.ln() + luck));
            }
            let found = edge(&steps, (1_000.0, 2_000.0));
            hits += u32::from(found.low <= truth && truth <= found.high);
        }
        assert!(hits * 20 >= all * 19, "{hits}");
    }
}
