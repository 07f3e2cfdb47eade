//! Seeded random numbers (xorshift64*, Vigna 2016): initial sequence numbers, ports, and tests. Not for secrets.

/// A generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator of its own sequence for each seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random((seed ^ 0x9e37_79b9_7f4a_7c15).max(1));
        // Seeds that lie close together must not begin alike.
        for _ in 0..8 {
            random.next_u64();
        }
        random
    }

    /// Any number but 0.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Any number.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}
