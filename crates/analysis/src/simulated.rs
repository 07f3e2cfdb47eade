//! Do the comparisons keep their promises? Thousands of seeded experiments on noise like that of a shared host.
//!
//! A false alarm is a family of equal cells of which one is called different; it may happen in 5 % of the experiments,
//! and no more than three binomial standard errors above that here. The surprise: two records without blocks have no
//! such promise. On a host that drifts they differ, and the last test shows that this simulation sees it.

use crate::Ratio;
use crate::contrast::{self, ALPHA, Family, POWER, Sample, correct};
use crate::samples::Random;

mod proofs;

/// What the host does to the rate of a trial, as a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noise {
    /// 3 % of normal noise.
    Normal,
    /// A slow drift of 30 % over the experiment and a wave.
    Drift,
    /// Two speeds, 20 % apart, that stay for about a dozen trials.
    TwoSpeeds,
    /// One trial in ten is slower by up to half.
    Outliers,
    /// Each trial remembers most of the one before it (AR(1), 0.8).
    Autocorrelated,
    /// Quiet blocks and blocks with ten times the noise.
    Unequal,
}

const NOISES: [Noise; 6] = [
    Noise::Normal,
    Noise::Drift,
    Noise::TwoSpeeds,
    Noise::Outliers,
    Noise::Autocorrelated,
    Noise::Unequal,
];

/// A host in time: each trial asks it for its speed.
struct Host {
    noise: Noise,
    random: Random,
    trial: u32,
    state: f64,
    loud: bool,
}

impl Host {
    fn new(noise: Noise, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            noise,
            state: random.normal(),
            loud: false,
            random,
            trial: 0,
        }
    }

    fn begin_block(&mut self) {
        self.loud = self.random.uniform() < 0.3;
    }

    /// Speed of the next trial, as a factor around 1.
    fn speed(&mut self) -> f64 {
        let at = f64::from(self.trial);
        self.trial += 1;
        let log = 0.03 * self.random.normal()
            + match self.noise {
                Noise::Normal => 0.0,
                Noise::Drift => -0.01 * at + 0.1 * (at / 5.0).sin(),
                Noise::TwoSpeeds => {
                    if self.random.uniform() < 1.0 / 12.0 {
                        self.state = -self.state;
                    }
                    0.1 * self.state.signum()
                }
                Noise::Outliers if self.random.uniform() < 0.1 => -0.5 * self.random.uniform(),
                Noise::Outliers => 0.0,
                Noise::Autocorrelated => {
                    self.state = 0.8 * self.state + 0.6 * self.random.normal();
                    0.05 * self.state
                }
                Noise::Unequal if self.loud => 0.3 * self.random.normal(),
                Noise::Unequal => 0.0,
            };
        log.exp()
    }

    /// One block in random order: the rate of each cell, the first is the baseline. `effects` are factors.
    fn block(&mut self, effects: &[f64]) -> Vec<f64> {
        self.begin_block();
        let mut order: Vec<usize> = (0..effects.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (self.random.uniform() * (i + 1) as f64) as usize);
        }
        let mut rates = vec![0.0; effects.len()];
        for cell in order {
            rates[cell] = effects[cell] * self.speed();
        }
        rates
    }

    /// Ratios of every cell to the first over so many blocks, corrected as one family.
    fn experiment(&mut self, effects: &[f64], blocks: usize) -> Vec<Ratio> {
        let blocks: Vec<Vec<f64>> = (0..blocks).map(|_| self.block(effects)).collect();
        ratios(&blocks, false)
    }
}

fn ratios(blocks: &[Vec<f64>], sequential: bool) -> Vec<Ratio> {
    let cells = blocks[0].len();
    let pairs = |cell: usize| -> Vec<f64> { blocks.iter().map(|b| b[cell] / b[0]).collect() };
    let family = Family {
        comparisons: cells - 1,
        sequential,
    };
    let mut ratios: Vec<Ratio> = (1..cells)
        .filter_map(|cell| contrast::ratio(&Sample::pairs(&pairs(cell)), family))
        .collect();
    correct(&mut ratios.iter_mut().collect::<Vec<_>>(), sequential);
    ratios
}

fn differs(ratios: &[Ratio]) -> bool {
    ratios.iter().any(|r| r.differs() == Some(true))
}

/// Share of `n` experiments for which `found` holds.
fn share(n: u64, found: impl Fn(u64) -> bool) -> f64 {
    (0..n).filter(|seed| found(*seed)).count() as f64 / n as f64
}

/// Three binomial standard errors of a share over so many experiments.
fn error(share: f64, n: u64) -> f64 {
    3.0 * (share * (1.0 - share) / n as f64).sqrt()
}

#[test]
fn equal_cells_are_called_different_no_more_often_than_promised() {
    let n = 400;
    for noise in NOISES {
        // (cells, blocks): ranks with one comparison and with four, and Student's t where ranks cannot reach 5 %.
        for (cells, blocks) in [(2, 6), (2, 11), (5, 9), (2, 5), (5, 5), (3, 3)] {
            let effects = vec![1.0; cells];
            let alarm = |seed| differs(&Host::new(noise, seed).experiment(&effects, blocks));
            let alarms = share(n, alarm);
            assert!(
                alarms <= ALPHA + error(ALPHA, n),
                "{noise:?}, {cells} cells, {blocks} blocks: {alarms}"
            );
        }
    }
}

/// Not where ranks need nearly all pairs on one side: six pairs, or ten with a correction for four levels, say nothing
/// of the tail that a rare outlier comes from.
#[test]
fn an_effect_above_the_smallest_detectable_one_is_found_as_often_as_promised() {
    let n = 400;
    for noise in NOISES {
        let several = if noise == Noise::Outliers { 2 } else { 5 };
        for (cells, blocks) in [(2, 8), (2, 12), (several, 10), (2, 5)] {
            let equal = vec![1.0; cells];
            let stated =
                |seed| Host::new(noise, seed).experiment(&equal, blocks)[0].smallest_effect;
            let mut smallest: Vec<f64> = (0..n).filter_map(stated).collect();
            smallest.sort_by(f64::total_cmp);
            let effect = 1.1 * smallest[smallest.len() / 2];
            let mut effects = equal.clone();
            effects[1] = 1.0 + effect;
            let found = share(n, |seed| {
                let ratios = Host::new(noise, seed + n).experiment(&effects, blocks);
                ratios[0].differs() == Some(true)
            });
            assert!(
                found >= POWER - error(POWER, n),
                "{noise:?}, {cells} cells, {blocks} blocks: {effect:.3} found in {found}"
            );
        }
    }
}

/// Blocks until the interval is narrow, at most 30: is there a false alarm at the end?
fn alarm_when_narrow(noise: Noise, half_width: f64, seed: u64) -> bool {
    let mut host = Host::new(noise, seed);
    let mut blocks: Vec<Vec<f64>> = (0..5).map(|_| host.block(&[1.0, 1.0])).collect();
    loop {
        blocks.push(host.block(&[1.0, 1.0]));
        let ratios = ratios(&blocks, true);
        let narrow = ratios[0].half_width().is_some_and(|w| w <= half_width);
        if narrow || blocks.len() >= 30 {
            return differs(&ratios);
        }
    }
}

#[test]
fn stopping_when_the_interval_is_narrow_raises_no_false_alarms() {
    let n = 300;
    for noise in NOISES {
        for half_width in [0.06, 0.025] {
            let alarms = share(n, |seed| alarm_when_narrow(noise, half_width, seed));
            assert!(
                alarms <= ALPHA + error(ALPHA, n),
                "{noise:?}, +-{half_width}: {alarms}"
            );
        }
    }
}

/// Two records without pairs: equal where the host is the same in both, and different as soon as it drifts.
#[test]
fn two_records_are_equal_on_one_host_and_different_on_one_that_drifts() {
    let n = 400;
    let alarm = |noise: Noise, trials: usize, seed: u64| {
        let mut host = Host::new(noise, seed);
        let mut record = || -> Vec<f64> { (0..trials).map(|_| host.speed()).collect() };
        let sample = Sample::apart(&record(), &record());
        let mut found = contrast::ratio(&sample, Family::ONE);
        correct(&mut found.iter_mut().collect::<Vec<_>>(), false);
        found.is_some_and(|r| r.differs() == Some(true))
    };
    for noise in [Noise::Normal, Noise::Outliers] {
        for trials in [3, 5, 9] {
            let alarms = share(n, |seed| alarm(noise, trials, seed));
            assert!(
                alarms <= ALPHA + error(ALPHA, n),
                "{noise:?}, {trials}: {alarms}"
            );
        }
    }
    assert!(share(n, |seed| alarm(Noise::Drift, 9, seed)) > 0.3);
}
