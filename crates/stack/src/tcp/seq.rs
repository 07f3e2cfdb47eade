//! Arithmetic of sequence numbers: a circle of 2^32 on which "before" holds within half of it (RFC 9293 3.4).

/// `a` comes before `b`.
#[inline]
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// `a` comes before `b`, or is it.
#[inline]
pub fn until(a: u32, b: u32) -> bool {
    !before(b, a)
}

/// The later of two.
#[inline]
pub fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

/// The earlier of two.
#[inline]
pub fn earlier(a: u32, b: u32) -> u32 {
    if before(a, b) { a } else { b }
}

/// How far it is from `a` to `b`; 0 when `b` comes before.
#[inline]
pub fn distance(a: u32, b: u32) -> u32 {
    if before(b, a) { 0 } else { b.wrapping_sub(a) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn order_holds_across_the_wrap() {
        assert!(before(u32::MAX, 0) && before(0xffff_fff0, 0x10));
        assert!(!before(5, 5) && until(5, 5));
        assert_eq!(distance(u32::MAX, 4), 5);
        assert_eq!(distance(4, u32::MAX), 0);
    }

    #[test]
    fn order_does_not_depend_on_where_the_circle_begins() {
        let mut random = Random::new(3);
        for _ in 0..100_000 {
            let (at, step) = (random.next_u32(), 1 + random.below(0x7fff_ffff));
            let next = at.wrapping_add(step);
            assert!(before(at, next) && !before(next, at) && until(at, next));
            assert_eq!((later(at, next), earlier(at, next)), (next, at));
            assert_eq!((distance(at, next), distance(next, at)), (step, 0));
        }
    }
}
