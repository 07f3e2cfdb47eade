//! Which flow a tuple belongs to: open addressing with linear probing, 8 bytes an entry.
//!
//! An entry holds 32 bits of the hash and the flow's number. The owner compares the tuple itself, in the flow, when the
//! hash agrees. Removal shifts followers back, so that there are no tombstones and an idle table stays fast.

#[derive(Clone, Copy, Default)]
struct Entry {
    hash: u32,
    /// The flow's number and 1; 0 where the entry is empty.
    flow: u32,
}

/// The table.
pub struct Table {
    entries: Vec<Entry>,
    mask: usize,
    used: usize,
}

impl Table {
    /// A table for `max` flows that stays at most three quarters full.
    pub fn new(max: u32) -> Self {
        let len = (max as usize * 4 / 3 + 1).next_power_of_two().max(16);
        Table {
            entries: vec![Entry::default(); len],
            mask: len - 1,
            used: 0,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>()
    }

    /// The first flow with this hash for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let entry = self.entries[at];
            if entry.flow == 0 {
                return None;
            }
            if entry.hash == hash && is_it(entry.flow - 1) {
                return Some(entry.flow - 1);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds a flow that is not in it. There is room: the slab of flows ends first.
    #[inline]
    pub fn insert(&mut self, hash: u32, flow: u32) {
        debug_assert!(self.used < self.mask);
        let mut at = hash as usize & self.mask;
        while self.entries[at].flow != 0 {
            at = (at + 1) & self.mask;
        }
        self.entries[at] = Entry {
            hash,
            flow: flow + 1,
        };
        self.used += 1;
    }

    /// Removes a flow; nothing happens when it is not in it.
    #[inline]
    pub fn remove(&mut self, hash: u32, flow: u32) {
        let mut at = hash as usize & self.mask;
        while self.entries[at].flow != flow + 1 {
            if self.entries[at].flow == 0 {
                return;
            }
            at = (at + 1) & self.mask;
        }
        self.used -= 1;
        // Followers that could stand here move up.
        let mut next = (at + 1) & self.mask;
        while self.entries[next].flow != 0 {
            let home = self.entries[next].hash as usize & self.mask;
            let from_home = next.wrapping_sub(home) & self.mask;
            let from_hole = next.wrapping_sub(at) & self.mask;
            if from_home >= from_hole {
                self.entries[at] = self.entries[next];
                at = next;
            }
            next = (next + 1) & self.mask;
        }
        self.entries[at] = Entry::default();
    }

    /// Flows in it.
    pub fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::HashMap;

    #[test]
    fn holds_what_a_map_holds() {
        let mut random = Random::new(5);
        let mut table = Table::new(300);
        let mut model: HashMap<u32, u32> = HashMap::new();
        for _ in 0..200_000 {
            let flow = random.below(300);
            // Few hashes, so that they collide and wrap around the end.
            let hash = (flow % 7).wrapping_mul(0x2000_0001).wrapping_sub(3);
            if model.remove(&flow).is_some() {
                table.remove(hash, flow);
            } else {
                model.insert(flow, hash);
                table.insert(hash, flow);
            }
            let probe = random.below(300);
            let hash = (probe % 7).wrapping_mul(0x2000_0001).wrapping_sub(3);
            let found = table.find(hash, |flow| flow == probe);
            assert_eq!(found.is_some(), model.contains_key(&probe));
            assert_eq!(table.used(), model.len());
        }
    }
}
