//! What a thread has to do at a later time, in order of time.
//!
//! Nothing is ever taken out early: whoever is no longer concerned (a connection that has gone) is
//! recognised when its time comes.

use record::Nanos;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things due at a time.
#[derive(Debug)]
pub struct Timers<T>(BinaryHeap<Reverse<(Nanos, T)>>);

impl<T: Ord> Timers<T> {
    /// No timer.
    pub fn new() -> Self {
        Self(BinaryHeap::new())
    }

    /// `what` is due at `at`.
    pub fn push(&mut self, at: Nanos, what: T) {
        self.0.push(Reverse((at, what)));
    }

    /// When the first is due.
    pub fn next_at(&self) -> Option<Nanos> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// The first one that is due at `now`.
    pub fn pop_due(&mut self, now: Nanos) -> Option<T> {
        if self.next_at()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, what))| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_of_time_and_not_early() {
        let mut timers = Timers::new();
        assert_eq!(
            (timers.next_at(), timers.pop_due(Nanos(u64::MAX))),
            (None, None)
        );
        for (at, what) in [(30, 'c'), (10, 'a'), (20, 'b')] {
            timers.push(Nanos(at), what);
        }
        assert_eq!(timers.next_at(), Some(Nanos(10)));
        assert_eq!(timers.pop_due(Nanos(9)), None);
        assert_eq!(timers.pop_due(Nanos(20)), Some('a'));
        assert_eq!(timers.pop_due(Nanos(20)), Some('b'));
        assert_eq!(timers.pop_due(Nanos(20)), None);
        assert_eq!(timers.next_at(), Some(Nanos(30)));
    }
}
