//! The order of trials: every combination of levels once a block, each block shuffled by the seed.
//!
//! Interleaving is what makes two cells comparable on a host whose speed wanders; the shuffle keeps a
//! drift within a block from always hitting the same cell. The first block is shuffled too.

use crate::{Factor, Levels};

/// Every combination of levels, the last factor turning fastest. One empty cell without factors.
pub(crate) fn cells(factors: &[Factor]) -> Vec<Levels> {
    let mut cells = vec![Levels::new()];
    for factor in factors {
        cells = cells
            .iter()
            .flat_map(|cell| {
                factor.levels.iter().map(move |level| {
                    let mut cell = cell.clone();
                    cell.insert(factor.name.clone(), level.clone());
                    cell
                })
            })
            .collect();
    }
    cells
}

/// `splitmix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014).
/// Ours because the order of a stored seed must never change with a library's version.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix(u64);

impl SplitMix {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`. The bias of the plain remainder is below 1e-14 for a thousand cells.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("smaller than bound, which is a usize")
    }

    /// Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' reference code for seed 1234567.
    #[test]
    fn splitmix_known_answers() {
        let mut random = SplitMix::new(1_234_567);
        let got = [random.next(), random.next(), random.next()];
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_reaches_every_order() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut items = [0, 1, 2, 3];
            SplitMix::new(seed).shuffle(&mut items);
            let mut sorted = items;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
            seen.insert(items);
        }
        assert_eq!(seen.len(), 24);
    }

    #[test]
    fn cells_turn_the_last_factor_fastest() {
        let factor = |name: &str, levels: &[&str]| Factor {
            name: name.to_owned(),
            levels: levels.iter().map(|l| (*l).to_owned()).collect(),
        };
        let got: Vec<String> = cells(&[factor("b", &["1", "2"]), factor("a", &["x", "y"])])
            .iter()
            .map(|c| format!("{}{}", c["b"], c["a"]))
            .collect();
        assert_eq!(got, ["1x", "1y", "2x", "2y"]);
        assert_eq!(cells(&[]), [Levels::new()]);
    }
}
