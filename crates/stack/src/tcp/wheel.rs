//! The timer wheel: four levels of 256 slots, ticks of 262 microseconds (2^18 ns), links inside the flows.
//!
//! A flow hangs in it once, for the earliest of its deadlines or earlier: a deadline that moves away, as that of a
//! retransmission does with every acknowledgement, moves nothing here. Whoever takes an expired flow looks at its
//! deadlines and hangs it in again (after Varghese and Lauck 1987, scheme 7).

use super::flow::{Flow, NONE, bit};

/// A tick is 2^18 ns.
pub const TICK_SHIFT: u32 = 18;
const SLOTS: usize = 256;
const LEVELS: usize = 4;
/// In [`Flow::timer_prev`]: the flow is the first of the slot in the lower bits.
const FIRST: u32 = 1 << 31;

/// The tick of a time. Wraps after 13 days; deadlines are far nearer.
#[inline]
pub fn tick(now_ns: u64) -> u32 {
    (now_ns >> TICK_SHIFT) as u32
}

/// Ticks after which a span that begins within the present tick is surely over: a timer may be late, never early.
#[inline]
pub fn ticks_of_ms(ms: u32) -> u32 {
    ticks_of_us(ms.saturating_mul(1_000))
}

/// As [`ticks_of_ms`].
#[inline]
pub fn ticks_of_us(us: u32) -> u32 {
    (u64::from(us) * 1_000).div_ceil(1 << TICK_SHIFT) as u32 + 1
}

/// The wheel.
pub struct Wheel {
    heads: Vec<u32>,
    occupied: [[u64; SLOTS / 64]; LEVELS],
    /// The next tick to be looked at.
    now: u32,
    hanging: u32,
}

impl Wheel {
    /// An empty wheel at `now`.
    pub fn new(now: u32) -> Self {
        Wheel {
            heads: vec![NONE; SLOTS * LEVELS],
            occupied: [[0; SLOTS / 64]; LEVELS],
            now,
            hanging: 0,
        }
    }

    /// Flows in it.
    pub fn hanging(&self) -> u32 {
        self.hanging
    }

    /// Hangs a flow in for `due`, or moves it.
    pub fn set(&mut self, flows: &mut [Flow], index: u32, due: u32) {
        if flows[index as usize].has(bit::TIMED) {
            self.remove(flows, index);
        }
        self.hang(flows, index, due);
        flows[index as usize].set(bit::TIMED);
        self.hanging += 1;
    }

    fn hang(&mut self, flows: &mut [Flow], index: u32, due: u32) {
        // What is past is due at the next look.
        let delta = due.wrapping_sub(self.now);
        let (due, delta) = if (delta as i32) < 0 {
            (self.now, 0)
        } else {
            (due, delta)
        };
        let level = match delta {
            0..=0xff => 0,
            0x100..=0xffff => 1,
            0x1_0000..=0xff_ffff => 2,
            _ => 3,
        };
        let slot = (due >> (8 * level)) as usize & (SLOTS - 1);
        let place = level * SLOTS + slot;
        let head = self.heads[place];
        let flow = &mut flows[index as usize];
        flow.timer_due = due;
        flow.timer_next = head;
        flow.timer_prev = FIRST | place as u32;
        if head != NONE {
            flows[head as usize].timer_prev = index;
        }
        self.heads[place] = index;
        self.occupied[level][slot / 64] |= 1 << (slot % 64);
    }

    /// Takes a flow out; nothing happens when it does not hang.
    pub fn remove(&mut self, flows: &mut [Flow], index: u32) {
        let flow = &mut flows[index as usize];
        if !flow.has(bit::TIMED) {
            return;
        }
        flow.clear(bit::TIMED);
        self.hanging -= 1;
        let (next, prev) = (flow.timer_next, flow.timer_prev);
        if next != NONE {
            flows[next as usize].timer_prev = prev;
        }
        if prev & FIRST == 0 {
            flows[prev as usize].timer_next = next;
        } else {
            let place = (prev & !FIRST) as usize;
            self.heads[place] = next;
            if next == NONE {
                self.clear(place);
            }
        }
    }

    fn clear(&mut self, place: usize) {
        let (level, slot) = (place / SLOTS, place % SLOTS);
        self.occupied[level][slot / 64] &= !(1 << (slot % 64));
    }

    /// The next flow whose tick has come by `until`; `None` when there is no more. It no longer hangs.
    pub fn pop(&mut self, flows: &mut [Flow], until: u32) -> Option<u32> {
        loop {
            let slot = self.now as usize & (SLOTS - 1);
            let block_end = self.now | 0xff;
            let next = first_from(&self.occupied[0], slot).map(|s| self.now + (s - slot) as u32);
            match next {
                Some(at) if (until.wrapping_sub(at) as i32) >= 0 => {
                    self.now = at;
                    let index = self.heads[at as usize & (SLOTS - 1)];
                    self.remove(flows, index);
                    return Some(index);
                }
                // Nothing in this block up to then.
                _ if (until.wrapping_sub(block_end) as i32) <= 0 => {
                    if (until.wrapping_sub(self.now) as i32) > 0 {
                        self.now = until;
                    }
                    // The last tick of a block may have been reached; its successor begins with a cascade.
                    return None;
                }
                _ => {
                    self.now = block_end.wrapping_add(1);
                    self.cascade(flows, 1);
                }
            }
        }
    }

    /// Spreads the slot that begins now over the level below.
    fn cascade(&mut self, flows: &mut [Flow], level: usize) {
        if level == LEVELS {
            return;
        }
        let slot = (self.now >> (8 * level)) as usize & (SLOTS - 1);
        if slot == 0 {
            self.cascade(flows, level + 1);
        }
        let place = level * SLOTS + slot;
        let mut index = std::mem::replace(&mut self.heads[place], NONE);
        self.clear(place);
        while index != NONE {
            let flow = &flows[index as usize];
            let (next, due) = (flow.timer_next, flow.timer_due);
            self.hang(flows, index, due);
            index = next;
        }
    }

    /// A tick before which nothing is due; `None` when nothing hangs.
    pub fn next_due(&self) -> Option<u32> {
        if self.hanging == 0 {
            return None;
        }
        let slot = self.now as usize & (SLOTS - 1);
        if let Some(found) = first_from(&self.occupied[0], slot) {
            return Some(self.now + (found - slot) as u32);
        }
        // Level 0 wraps: what is left of it begins at the next block, as do the levels above.
        let next_block = (self.now | 0xff).wrapping_add(1);
        if self.occupied[0].iter().any(|word| *word != 0) {
            return Some(next_block);
        }
        for level in 1..LEVELS {
            let shift = 8 * level;
            let at = self.now >> shift;
            let slot = at as usize & (SLOTS - 1);
            let ahead = first_from(&self.occupied[level], slot + 1)
                .map(|found| found - slot)
                .or_else(|| first_from(&self.occupied[level], 0).map(|found| found + SLOTS - slot));
            if let Some(ahead) = ahead {
                // A level above may begin earlier than this slot: never later than the end of this level's round.
                let round_end = ((at | 0xff).wrapping_add(1)) << shift;
                let begins = (at.wrapping_add(ahead as u32)) << shift;
                let nearer = begins.wrapping_sub(self.now) <= round_end.wrapping_sub(self.now);
                return Some(if nearer { begins } else { round_end });
            }
        }
        Some(next_block)
    }
}

/// The first set bit at or after `from`.
fn first_from(words: &[u64; SLOTS / 64], from: usize) -> Option<usize> {
    let mut at = from;
    while at < SLOTS {
        let word = words[at / 64] >> (at % 64);
        if word != 0 {
            return Some(at + word.trailing_zeros() as usize);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Every flow comes out at its tick, not before, and the wheel never sleeps past one.
    fn check(start: u32, spread: u32, seed: u64) {
        let mut random = Random::new(seed);
        let mut flows = vec![Flow::default(); 400];
        let mut wheel = Wheel::new(start);
        let mut due: Vec<Option<u32>> = vec![None; flows.len()];
        let mut now = start;
        for round in 0..20_000 {
            let index = random.below(400);
            if random.below(5) == 0 {
                wheel.remove(&mut flows, index);
                due[index as usize] = None;
            } else {
                let at = now.wrapping_add(random.below(spread));
                wheel.set(&mut flows, index, at);
                due[index as usize] = Some(at);
            }
            let hanging = due.iter().flatten().count();
            assert_eq!(wheel.hanging() as usize, hanging);
            let nearest = due.iter().flatten().map(|at| at.wrapping_sub(now)).min();
            assert!(
                wheel.next_due().map(|at| at.wrapping_sub(now) as i32) <= nearest.map(|n| n as i32),
                "round {round}: sleeps past a deadline"
            );
            if random.below(4) == 0 {
                now = now.wrapping_add(random.below(spread / 8 + 1));
                while let Some(index) = wheel.pop(&mut flows, now) {
                    let at = due[index as usize].take().expect("it hung");
                    assert!((now.wrapping_sub(at) as i32) >= 0, "round {round}: early");
                }
                let late = due
                    .iter()
                    .flatten()
                    .filter(|at| (now.wrapping_sub(**at) as i32) >= 0);
                assert_eq!(late.count(), 0, "round {round}");
            }
        }
    }

    #[test]
    fn every_flow_comes_out_at_its_tick() {
        check(0, 200, 1);
        check(77, 3_000, 2);
        check(250, 100_000, 3);
        check(u32::MAX - 5_000, 70_000, 4);
        check(0x00ff_fff0, 40_000_000, 5);
    }

    #[test]
    fn what_lies_in_the_past_is_due_at_once() {
        let mut flows = vec![Flow::default(); 1];
        let mut wheel = Wheel::new(1_000);
        wheel.set(&mut flows, 0, 10);
        assert_eq!(wheel.pop(&mut flows, 1_000), Some(0));
        assert_eq!(wheel.hanging(), 0);
    }
}
