//! Bytes that came out of order, in chunks of 2 KiB from one pool, a sorted list a flow.
//!
//! The pool is bounded and grows to its bound as it is used: a load without loss never touches it.

use super::flow::NONE;
use super::loss::Loss;
use super::seq::{before, distance, later};

/// Bytes of a chunk: a segment of an Ethernet in one.
pub const CHUNK_BYTES: usize = 2_048;

#[derive(Clone, Copy, Default)]
struct Chunk {
    seq: u32,
    len: u32,
    next: u32,
}

/// The pool.
pub struct Pool {
    chunks: Vec<Chunk>,
    bytes: Vec<u8>,
    free: Vec<u32>,
    used: u32,
    max: u32,
}

impl Pool {
    /// A pool of at most `max` chunks.
    pub fn new(max: u32) -> Self {
        Pool {
            chunks: Vec::new(),
            bytes: Vec::new(),
            free: Vec::new(),
            used: 0,
            max,
        }
    }

    /// Chunks taken.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// So many bytes can be kept, even in the smallest pieces that `pieces` slices and `gaps` make of them.
    pub fn has_room(&self, len: u32, cuts: usize) -> bool {
        let needed = len as usize / CHUNK_BYTES + 1 + cuts;
        needed <= (self.max - self.used) as usize
    }

    fn take(&mut self) -> u32 {
        self.used += 1;
        self.free.pop().unwrap_or_else(|| {
            self.chunks.push(Chunk::default());
            self.bytes.resize(self.chunks.len() * CHUNK_BYTES, 0);
            self.chunks.len() as u32 - 1
        })
    }

    fn give(&mut self, index: u32) {
        self.used -= 1;
        self.free.push(index);
    }

    /// Keeps `bytes` at `seq`, of which nothing is here yet. [`Pool::has_room`] was asked.
    pub fn keep(&mut self, loss: &mut Loss, mut seq: u32, bytes: &[u8]) {
        for piece in bytes.chunks(CHUNK_BYTES) {
            let index = self.take();
            let at = index as usize * CHUNK_BYTES;
            self.bytes[at..at + piece.len()].copy_from_slice(piece);
            let previous = self.place_of(loss, seq);
            let next = match previous {
                NONE => std::mem::replace(&mut loss.chunks_first, index),
                _ => std::mem::replace(&mut self.chunks[previous as usize].next, index),
            };
            self.chunks[index as usize] = Chunk {
                seq,
                len: piece.len() as u32,
                next,
            };
            if next == NONE {
                loss.chunks_last = index;
            }
            seq = seq.wrapping_add(piece.len() as u32);
        }
    }

    /// The last chunk before `seq`; mostly the last of all.
    fn place_of(&self, loss: &Loss, seq: u32) -> u32 {
        let last = loss.chunks_last;
        if last != NONE && before(self.chunks[last as usize].seq, seq) {
            return last;
        }
        let (mut previous, mut at) = (NONE, loss.chunks_first);
        while at != NONE && before(self.chunks[at as usize].seq, seq) {
            previous = at;
            at = self.chunks[at as usize].next;
        }
        previous
    }

    /// Takes the first chunk out when it continues at `seq` (or lies before it): its bytes from `seq` on, in `into`.
    /// `None` when it does not.
    pub fn next(
        &mut self,
        loss: &mut Loss,
        seq: u32,
        into: &mut [u8; CHUNK_BYTES],
    ) -> Option<usize> {
        let index = loss.chunks_first;
        if index == NONE || before(seq, self.chunks[index as usize].seq) {
            return None;
        }
        let chunk = self.chunks[index as usize];
        loss.chunks_first = chunk.next;
        if chunk.next == NONE {
            loss.chunks_last = NONE;
        }
        let skip = distance(chunk.seq, seq).min(chunk.len) as usize;
        let at = index as usize * CHUNK_BYTES;
        let rest = &self.bytes[at + skip..at + chunk.len as usize];
        let len = rest.len();
        into[..len].copy_from_slice(rest);
        self.give(index);
        Some(len)
    }

    /// Gives all chunks of a flow back.
    pub fn forget(&mut self, loss: &mut Loss) -> u32 {
        let mut count = 0;
        let mut index = std::mem::replace(&mut loss.chunks_first, NONE);
        loss.chunks_last = NONE;
        while index != NONE {
            let next = self.chunks[index as usize].next;
            self.give(index);
            index = next;
            count += 1;
        }
        count
    }
}

/// The parts of [from, to) that are in no range of what is here, lowest first.
pub fn gaps(loss: &Loss, from: u32, to: u32, mut each: impl FnMut(u32, u32)) {
    let mut at = from;
    for (a, b) in loss.out_of_order.all() {
        if !before(*a, to) {
            break;
        }
        if before(at, *a) {
            each(at, *a);
        }
        at = later(at, *b);
    }
    if before(at, to) {
        each(at, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_gap_before_several_ranges_is_one_gap() {
        let mut loss = Loss::default();
        let check = |loss: &Loss, from: u32, to: u32, expected: &[(u32, u32)]| {
            let mut found = Vec::new();
            gaps(loss, from, to, |a, b| found.push((a, b)));
            assert_eq!(found, expected);
        };
        check(&loss, 10, 20, &[(10, 20)]);
        for (from, to) in [(30, 40), (50, 60), (70, 80)] {
            assert!(loss.out_of_order.insert(from, to));
        }
        check(&loss, 10, 20, &[(10, 20)]);
        check(&loss, 10, 30, &[(10, 30)]);
        check(&loss, 10, 75, &[(10, 30), (40, 50), (60, 70)]);
        check(&loss, 35, 55, &[(40, 50)]);
        check(&loss, 50, 60, &[]);
        check(&loss, 65, 90, &[(65, 70), (80, 90)]);
    }

    /// Pieces in any order, overlapping, give the stream once.
    #[test]
    fn pieces_in_any_order_give_the_stream() {
        let mut random = Random::new(17);
        for round in 0..300 {
            let base = random.next_u32();
            let stream: Vec<u8> = (0..30_000).map(|_| random.next_u32() as u8).collect();
            let mut pool = Pool::new(64);
            let mut loss = Loss::default();
            let mut got: Vec<u8> = Vec::new();
            let mut into = [0; CHUNK_BYTES];
            while got.len() < stream.len() {
                let here = got.len() as u32;
                let from = here + random.below(9_000);
                let to = (from + 1 + random.below(5_000)).min(stream.len() as u32);
                let (a, b) = (base.wrapping_add(from), base.wrapping_add(to));
                let room = pool.has_room(5_000, 26);
                if from < to && (room || from == here) {
                    let mut missing = Vec::new();
                    gaps(&loss, a, b, |a, b| missing.push((a, b)));
                    if pool.has_room(b.wrapping_sub(a), missing.len())
                        && loss.out_of_order.insert(a, b)
                    {
                        for (a, b) in missing {
                            let range =
                                a.wrapping_sub(base) as usize..b.wrapping_sub(base) as usize;
                            pool.keep(&mut loss, a, &stream[range]);
                        }
                    }
                }
                let mut next = base.wrapping_add(here);
                while let Some(len) = pool.next(&mut loss, next, &mut into) {
                    got.extend(&into[..len]);
                    next = next.wrapping_add(len as u32);
                }
                loss.out_of_order.forget_before(next);
            }
            assert!(got == stream, "round {round}");
            pool.forget(&mut loss);
            assert_eq!(pool.used(), 0);
        }
    }
}
