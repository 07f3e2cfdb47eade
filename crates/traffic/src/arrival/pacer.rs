//! Due times of one load thread in an open loop: constant or Poisson, at a rate that may change, or as read.

use crate::random::Random;
use record::{Part, RateCourse, Timetable};
use std::sync::Arc;

/// Which part of the load a thread carries: part `index` of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// 0-based.
    pub index: u32,
    /// How many parts there are.
    pub of: u32,
}

impl Share {
    /// This part of a whole that is split as evenly as integers allow; the first parts get the rest.
    pub fn of_count(self, whole: u64) -> u64 {
        let part = Part {
            first: self.index,
            threads: 1,
            of: self.of,
        };
        part.of_count(whole)
    }
}

/// The due times of one thread, in nanoseconds on the run's clock, ascending.
#[derive(Clone, Debug)]
pub enum Pacer {
    /// Equal gaps.
    Constant(Constant),
    /// Exponential gaps.
    Poisson(Poisson),
    /// A rate that changes.
    Changing(Changing),
    /// Due times that were read.
    Listed(Listed),
}

/// Equal gaps; see [`Pacer::constant`].
#[derive(Clone, Debug)]
pub struct Constant {
    start_ns: u64,
    /// Gap between two requests of the whole load.
    gap_ns: f64,
    /// Number of the next request within the whole load; a thread has every `stride`-th one.
    number: u64,
    stride: u64,
    ramp_ns: f64,
}

/// Exponential gaps; see [`Pacer::poisson`].
#[derive(Clone, Debug)]
pub struct Poisson {
    start_ns: u64,
    mean_gap_ns: f64,
    /// Next due time from `start_ns`. An f64 holds nanoseconds exactly for 104 days.
    offset_ns: f64,
    random: Random,
    ramp_ns: f64,
}

/// A rate that changes; see [`Pacer::changing`].
#[derive(Clone, Debug)]
pub struct Changing {
    start_ns: u64,
    course: Arc<RateCourse>,
    /// The leg of the course that the next request is in.
    leg: usize,
    /// How many requests of the whole load are due at the next one of this thread; a whole number at equal gaps.
    count: f64,
    stride: f64,
    /// Draws the strides of Poisson arrivals.
    random: Option<Random>,
    due_ns: u64,
}

/// Due times that were read; see [`Pacer::listed`].
#[derive(Clone, Debug)]
pub struct Listed {
    start_ns: u64,
    table: Timetable,
    /// Number of the next request within the whole load; a thread has every `stride`-th one.
    number: usize,
    stride: usize,
}

impl Changing {
    fn advance(&mut self) {
        self.count += match &mut self.random {
            Some(random) => random.exponential() * self.stride,
            None => self.stride,
        };
        self.find();
    }

    fn find(&mut self) {
        let offset_ns = self.course.reached(self.count, &mut self.leg) * 1e9;
        self.due_ns = self.start_ns.saturating_add(offset_ns.round() as u64);
    }
}

impl Pacer {
    /// Part `share` of a load whose rate follows `course` from `start_ns` on. Requests are evenly spread over the
    /// integral of the rate, of which each thread has every n-th; with a `seed` by independent exponential strides, so
    /// that the union is a Poisson process of that rate.
    pub fn changing(
        course: Arc<RateCourse>,
        seed: Option<u64>,
        share: Share,
        start_ns: u64,
    ) -> Self {
        let mut changing = Changing {
            start_ns,
            course,
            leg: 0,
            count: 0.0,
            stride: f64::from(share.of),
            random: seed.map(|seed| Random::seeded(seed.wrapping_add(u64::from(share.index)))),
            due_ns: start_ns,
        };
        if changing.random.is_some() {
            // A Poisson process does not begin with an event.
            changing.advance();
        } else {
            changing.count = f64::from(share.index);
            changing.find();
        }
        Pacer::Changing(changing)
    }

    /// Part `share` of the requests of a timetable, counted from `start_ns` on: every n-th of them.
    pub fn listed(table: Timetable, share: Share, start_ns: u64) -> Self {
        Pacer::Listed(Listed {
            start_ns,
            table,
            number: share.index as usize,
            stride: share.of as usize,
        })
    }

    /// Of a replay, which request the one before the next is.
    pub fn last_which(&self) -> Option<u32> {
        match self {
            Pacer::Listed(l) => l.table.which(l.number.checked_sub(l.stride)?),
            Pacer::Constant(_) | Pacer::Poisson(_) | Pacer::Changing(_) => None,
        }
    }

    /// Part `share` of `per_s` requests a second at equal gaps, from `start_ns` on. The parts are shifted against
    /// each other so that their union has equal gaps.
    pub fn constant(per_s: f64, share: Share, start_ns: u64) -> Self {
        Pacer::Constant(Constant {
            start_ns,
            gap_ns: 1e9 / per_s,
            number: u64::from(share.index),
            stride: u64::from(share.of),
            ramp_ns: 0.0,
        })
    }

    /// Part `share` of `per_s` requests a second at exponential gaps, from `start_ns` on. The parts are independent
    /// processes, and the union of such is a Poisson process of the whole rate.
    pub fn poisson(per_s: f64, seed: u64, share: Share, start_ns: u64) -> Self {
        let mut poisson = Poisson {
            start_ns,
            mean_gap_ns: 1e9 / per_s * f64::from(share.of),
            offset_ns: 0.0,
            random: Random::seeded(seed.wrapping_add(u64::from(share.index))),
            ramp_ns: 0.0,
        };
        // A Poisson process does not begin with an event.
        poisson.advance();
        Pacer::Poisson(poisson)
    }

    /// The same process, its rate growing evenly from nothing to the whole within `ramp_ns`.
    #[must_use]
    pub fn ramped(mut self, ramp_ns: u64) -> Self {
        match &mut self {
            Pacer::Constant(c) => c.ramp_ns = ramp_ns as f64,
            Pacer::Poisson(p) => p.ramp_ns = ramp_ns as f64,
            // What they follow says how they begin.
            Pacer::Changing(_) | Pacer::Listed(_) => {}
        }
        self
    }

    /// When the next request is due.
    #[inline]
    pub fn next_due(&self) -> u64 {
        let (start_ns, offset_ns, ramp_ns) = match self {
            Pacer::Constant(c) => (c.start_ns, c.number as f64 * c.gap_ns, c.ramp_ns),
            Pacer::Poisson(p) => (p.start_ns, p.offset_ns, p.ramp_ns),
            Pacer::Changing(c) => return c.due_ns,
            Pacer::Listed(l) => {
                let due = l.table.due(l.number);
                return due.map_or(u64::MAX, |due| l.start_ns.saturating_add(due));
            }
        };
        start_ns.saturating_add(bent(offset_ns, ramp_ns) as u64)
    }

    /// Goes on to the request after the next.
    #[inline]
    pub fn advance(&mut self) {
        match self {
            Pacer::Constant(c) => c.number += c.stride,
            Pacer::Poisson(p) => p.advance(),
            Pacer::Changing(c) => c.advance(),
            Pacer::Listed(l) => l.number = l.number.saturating_add(l.stride),
        }
    }
}

/// When a process reaches with a ramp what it reaches at the full rate after `offset_ns`. With the rate r t / R for
/// t < R the expected number is r t^2 / 2R, which is that of the full rate after t^2 / 2R; from R on it is behind by
/// R / 2. Bending time so keeps a Poisson process one (its rate being a function of time).
fn bent(offset_ns: f64, ramp_ns: f64) -> f64 {
    if offset_ns < ramp_ns / 2.0 {
        (2.0 * ramp_ns * offset_ns).sqrt()
    } else {
        offset_ns + ramp_ns / 2.0
    }
}

impl Poisson {
    fn advance(&mut self) {
        self.offset_ns += self.random.exponential() * self.mean_gap_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Nanos, RatePiece, RatePieces};

    const SECOND: u64 = 1_000_000_000;

    const WHOLE: Share = Share { index: 0, of: 1 };

    #[test]
    fn a_ramp_brings_half_and_then_all() {
        let ramped = Pacer::constant(1_000.0, WHOLE, 0).ramped(2 * SECOND);
        // r t^2 / 2R: a quarter of the ramp's number in its first half.
        assert_eq!(due_before(ramped.clone(), SECOND).len(), 250);
        assert_eq!(due_before(ramped.clone(), 2 * SECOND).len(), 1_000);
        assert_eq!(due_before(ramped, 3 * SECOND).len(), 2_000);
        let poisson = Pacer::poisson(10_000.0, 5, WHOLE, 0).ramped(2 * SECOND);
        let first = due_before(poisson.clone(), SECOND).len();
        assert!((2_200..2_800).contains(&first), "{first}");
        let all = due_before(poisson, 3 * SECOND).len();
        assert!((19_400..20_600).contains(&all), "{all}");
    }

    fn due_before(mut pacer: Pacer, end: u64) -> Vec<u64> {
        let mut due = Vec::new();
        while pacer.next_due() < end {
            due.push(pacer.next_due());
            pacer.advance();
        }
        due
    }

    fn union(part: impl Fn(Share) -> Pacer, parts: u32, end: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (0..parts)
            .flat_map(|index| due_before(part(Share { index, of: parts }), end))
            .collect();
        all.sort_unstable();
        all
    }

    fn course(pieces: &[(f64, f64, u64)]) -> Arc<RateCourse> {
        let piece = |&(from_per_s, to_per_s, s)| RatePiece {
            from_per_s,
            to_per_s,
            duration: Nanos::from_secs(s),
        };
        let pieces = RatePieces(pieces.iter().map(piece).collect());
        Arc::new(RateCourse::new(&pieces, Nanos::from_secs(1)))
    }

    #[test]
    fn the_threads_of_a_changing_rate_are_together_the_whole() {
        let mut random = Random::seeded(11);
        for _ in 0..30 {
            let mut rate = || (random.bits() % 5_000) as f64;
            let pieces = [(rate(), rate(), 1), (0.0, rate(), 2), (rate(), rate(), 1)];
            let course = course(&pieces);
            let part = |share| Pacer::changing(Arc::clone(&course), None, share, 77);
            let whole = union(part, 1, 77 + 5 * SECOND);
            for parts in [2, 3, 7, 64] {
                assert_eq!(
                    union(part, parts, 77 + 5 * SECOND),
                    whole,
                    "{parts} parts of {pieces:?}"
                );
            }
            let integral: f64 = pieces.iter().map(|p| (p.0 + p.1) / 2.0 * p.2 as f64).sum();
            let with_warm_up = integral + pieces[0].0;
            assert!(
                (whole.len() as f64 - with_warm_up).abs() <= 1.0,
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn the_threads_of_a_timetable_have_each_request_once_and_know_which() {
        let mut random = Random::seeded(3);
        for n in [0_usize, 1, 2, 50, 1_000] {
            let mut due: Vec<u64> = (0..n).map(|_| random.bits() % (2 * SECOND)).collect();
            due.sort_unstable();
            let table = Timetable::new(due.clone(), (0..n as u32).collect());
            for parts in [1, 2, 3, 64] {
                let mut seen = Vec::new();
                for index in 0..parts {
                    let mut pacer = Pacer::listed(table.clone(), Share { index, of: parts }, 77);
                    assert_eq!(pacer.last_which(), None);
                    while pacer.next_due() < u64::MAX {
                        let due = pacer.next_due();
                        pacer.advance();
                        seen.push((due - 77, pacer.last_which().unwrap()));
                    }
                }
                seen.sort_unstable();
                let whole = due.iter().copied().zip(0..).collect::<Vec<(u64, u32)>>();
                assert_eq!(seen, whole, "{n} over {parts}");
            }
        }
    }

    #[test]
    fn a_changing_rate_has_no_lumps() {
        let course = course(&[
            (1_000.0, 1_000.0, 1),
            (1_000.0, 4_000.0, 2),
            (500.0, 500.0, 1),
        ]);
        let part = |share| Pacer::changing(Arc::clone(&course), None, share, 0);
        let due = union(part, 4, 5 * SECOND);
        // Warm-up, a step, a ramp of 5,000, a step down.
        assert_eq!(due.len(), 1_000 + 1_000 + 5_000 + 500);
        let gaps = due.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().min().unwrap() >= 249_900, "{:?}", gaps.min());
        assert!(gaps.clone().max().unwrap() <= 2_000_000, "{:?}", gaps.max());
        let first_half = due.iter().filter(|t| (2 * SECOND..3 * SECOND).contains(*t));
        assert_eq!(first_half.count(), 1_750, "the mean is 1,750 in it");
    }

    #[test]
    fn poisson_arrivals_follow_a_changing_rate() {
        let course = course(&[(0.0, 20_000.0, 4), (5_000.0, 5_000.0, 4)]);
        for parts in [1, 3] {
            let part = |share| Pacer::changing(Arc::clone(&course), Some(9), share, 0);
            let due = union(part, parts, 9 * SECOND);
            let between = |from, to| {
                let inside = due
                    .iter()
                    .filter(|t| (from * SECOND..to * SECOND).contains(*t));
                inside.count() as f64
            };
            for (from, to, expected) in [(1, 3, 10_000.0), (3, 5, 30_000.0), (5, 9, 20_000.0_f64)] {
                let off = (between(from, to) - expected) / expected.sqrt();
                assert!(off.abs() < 5.0, "{from} to {to} s: off by {off} deviations");
            }
        }
    }

    #[test]
    fn one_second_at_ten_per_second_is_exactly_ten() {
        for start in [0, 7, 123_456_789] {
            let due = due_before(Pacer::constant(10.0, WHOLE, start), start + SECOND);
            assert_eq!(due.len(), 10);
            assert_eq!((due[0], due[9]), (start, start + 900_000_000));
        }
    }

    #[test]
    fn threads_interleave_to_equal_gaps() {
        for parts in [1, 2, 3, 7] {
            let all = union(|share| Pacer::constant(1_000.0, share, 0), parts, SECOND);
            assert_eq!(all.len(), 1_000, "{parts} parts");
            for pair in all.windows(2) {
                assert!(pair[1].abs_diff(pair[0]).abs_diff(1_000_000) <= 1);
            }
        }
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        // 3 per second has no exact gap in nanoseconds; a day later the count must still be exact.
        let day = 86_400 * SECOND;
        let mut pacer = Pacer::constant(3.0, WHOLE, 0);
        for _ in 0..86_400 * 3 {
            pacer.advance();
        }
        assert!(pacer.next_due().abs_diff(day) <= 1_000);
    }

    #[test]
    fn poisson_has_the_mean_and_the_variance_of_its_rate() {
        for parts in [1, 4] {
            let part = |share| Pacer::poisson(1_000.0, 7, share, 0);
            let all = union(part, parts, 100 * SECOND);
            // 100,000 expected with a standard deviation of 316: five of them.
            assert!(all.len().abs_diff(100_000) < 1_600, "{}", all.len());
            let gaps: Vec<f64> = all.windows(2).map(|p| (p[1] - p[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            // An exponential gap's standard deviation equals its mean.
            assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
            let above_mean = gaps.iter().filter(|&&g| g > mean).count() as f64 / gaps.len() as f64;
            assert!((above_mean - (-1.0_f64).exp()).abs() < 0.01, "{above_mean}");
        }
    }

    #[test]
    fn an_absurdly_small_rate_is_due_at_the_end_of_time() {
        let constant = Pacer::constant(1e-12, WHOLE, SECOND);
        let poisson = Pacer::poisson(1e-12, 1, WHOLE, SECOND);
        for mut pacer in [constant, poisson] {
            pacer.advance();
            pacer.advance();
            assert_eq!(pacer.next_due(), u64::MAX);
        }
    }

    #[test]
    fn a_seed_repeats_its_schedule() {
        let due = |seed| due_before(Pacer::poisson(100.0, seed, WHOLE, 0), SECOND);
        assert_eq!(due(1), due(1));
        assert_ne!(due(1), due(2));
    }

    #[test]
    fn counts_are_split_without_loss() {
        for (whole, parts) in [(20, 7), (3, 7), (0, 2), (10, 1)] {
            let split: Vec<u64> = (0..parts)
                .map(|index| Share { index, of: parts }.of_count(whole))
                .collect();
            assert_eq!(split.iter().sum::<u64>(), whole);
            assert!(split.iter().max().unwrap() - split.iter().min().unwrap() <= 1);
        }
    }
}
