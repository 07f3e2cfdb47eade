//! Bytes for the parsers' property tests: random ones of every length, and valid packets with a few bytes changed or
//! cut off, which get further in than noise does.

use crate::random::Random;

const TRIALS: usize = 20_000;

/// Calls `check` with random bytes of random lengths.
pub fn any_bytes(seed: u64, mut check: impl FnMut(&[u8])) {
    let mut random = Random::new(seed);
    let mut bytes = [0; 160];
    for _ in 0..TRIALS {
        let len = random.below(bytes.len() as u32 + 1) as usize;
        bytes[..len].fill_with(|| random.next_u32() as u8);
        check(&bytes[..len]);
    }
}

/// Calls `check` with `packet` in which up to four bytes have changed and of which the end may be missing.
pub fn damaged(seed: u64, packet: &[u8], mut check: impl FnMut(&[u8])) {
    let mut random = Random::new(seed);
    for _ in 0..TRIALS {
        let mut bytes = packet.to_vec();
        for _ in 0..random.below(5) {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        if random.below(10) < 3 {
            bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
        }
        check(&bytes);
    }
}
