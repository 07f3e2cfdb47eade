//! A few ranges of sequence numbers, sorted and apart from each other: what a peer has by SACK, and what came out of
//! order.

use super::seq::{before, earlier, later, until};
use crate::wire::tcp::Edges;

/// Ranges that are kept at most.
pub const RANGES_MAX: usize = 24;

/// The ranges.
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    edges: [Edges; RANGES_MAX],
    count: u8,
}

impl Default for Ranges {
    fn default() -> Self {
        Ranges {
            edges: [(0, 0); RANGES_MAX],
            count: 0,
        }
    }
}

impl Ranges {
    /// The ranges, lowest first.
    pub fn all(&self) -> &[Edges] {
        &self.edges[..usize::from(self.count)]
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Numbers in all ranges between two.
    pub fn within(&self, from: u32, to: u32) -> u32 {
        let of = |(a, b): &Edges| super::seq::distance(later(*a, from), earlier(*b, to));
        self.all().iter().map(of).sum()
    }

    /// Numbers in all ranges.
    #[cfg(test)]
    pub fn total(&self) -> u32 {
        self.all().iter().map(|(a, b)| b.wrapping_sub(*a)).sum()
    }

    /// Adds a range. False, and nothing is added, when there would be too many.
    pub fn insert(&mut self, from: u32, to: u32) -> bool {
        let all = self.all();
        // Those that the new one touches: [first, last).
        let first = all.iter().take_while(|(_, b)| before(*b, from)).count();
        let last = all.iter().take_while(|(a, _)| until(*a, to)).count();
        let count = usize::from(self.count);
        if first == last {
            if count == RANGES_MAX {
                return false;
            }
            self.edges.copy_within(first..count, first + 1);
            self.edges[first] = (from, to);
            self.count += 1;
            return true;
        }
        self.edges[first] = (
            earlier(from, self.edges[first].0),
            later(to, self.edges[last - 1].1),
        );
        self.edges.copy_within(last..count, first + 1);
        self.count = (first + 1 + count - last) as u8;
        true
    }

    /// Forgets everything before `seq`.
    pub fn forget_before(&mut self, seq: u32) {
        let gone = self
            .all()
            .iter()
            .take_while(|(_, b)| until(*b, seq))
            .count();
        let count = usize::from(self.count);
        self.edges.copy_within(gone..count, 0);
        self.count -= gone as u8;
        if self.count > 0 {
            self.edges[0].0 = later(self.edges[0].0, seq);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// The range that holds `seq`.
    pub fn holding(&self, seq: u32) -> Option<Edges> {
        let all = self.all().iter();
        all.copied()
            .find(|(a, b)| until(*a, seq) && before(seq, *b))
    }

    /// The first range that begins after `seq`.
    pub fn after(&self, seq: u32) -> Option<Edges> {
        self.all().iter().copied().find(|(a, _)| before(seq, *a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Against a set of numbers, wherever on the circle it lies.
    #[test]
    fn holds_what_a_set_holds() {
        let mut random = Random::new(21);
        for round in 0..4_000 {
            let base = random.next_u32();
            let mut set = [false; 200];
            let mut ranges = Ranges::default();
            for _ in 0..60 {
                let (a, len) = (random.below(180), 1 + random.below(12));
                let b = (a + len).min(200);
                if random.below(8) == 0 {
                    set[..a as usize].fill(false);
                    ranges.forget_before(base.wrapping_add(a));
                } else if ranges.insert(base.wrapping_add(a), base.wrapping_add(b)) {
                    set[a as usize..b as usize].fill(true);
                } else {
                    assert_eq!(ranges.all().len(), RANGES_MAX);
                }
                let total = set.iter().filter(|has| **has).count();
                assert_eq!(ranges.total() as usize, total, "round {round}");
                for (at, has) in set.iter().enumerate() {
                    let seq = base.wrapping_add(at as u32);
                    assert_eq!(ranges.holding(seq).is_some(), *has, "round {round}");
                }
                let (a, b) = (random.below(100), 100 + random.below(100));
                let inside = set[a as usize..b as usize].iter().filter(|has| **has);
                let within = ranges.within(base.wrapping_add(a), base.wrapping_add(b));
                assert_eq!(within as usize, inside.count(), "round {round}");
                let apart = ranges.all().windows(2).all(|w| before(w[0].1, w[1].0));
                assert!(apart, "round {round}: {:?}", ranges.all());
            }
        }
    }
}
