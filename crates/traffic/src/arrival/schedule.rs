//! An open loop's requests: due times that no response moves, as two cursors over the same sequence.
//!
//! `due` stands at the first request that is not due yet, `head` at the first that has not been taken;
//! what lies between them waits. Each request is *passed* once by each cursor, so that counts made at
//! one cursor are exact whatever happens at the other.

use super::{Limits, Pacer};

/// One position in the schedule.
#[derive(Clone, Debug)]
struct Cursor {
    pacer: Pacer,
    /// Requests passed.
    passed: u64,
    /// Those of them that are measured.
    measured: u64,
}

impl Cursor {
    fn new(pacer: Pacer) -> Self {
        Cursor {
            pacer,
            passed: 0,
            measured: 0,
        }
    }

    /// Due time of the next request that exists.
    #[inline]
    fn peek(&self, limits: &Limits) -> Option<u64> {
        let due = self.pacer.next_due();
        limits.allow(due, self.measured).then_some(due)
    }

    #[inline]
    fn pass(&mut self, due: u64, limits: &Limits) {
        self.passed += 1;
        self.measured += u64::from(due >= limits.measured_from);
        self.pacer.advance();
    }
}

/// The schedule; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    head: Cursor,
    due: Cursor,
    limits: Limits,
}

impl Schedule {
    /// A schedule of which nothing has come due.
    pub fn new(pacer: Pacer, limits: Limits) -> Self {
        Schedule {
            head: Cursor::new(pacer.clone()),
            due: Cursor::new(pacer),
            limits,
        }
    }

    /// Brings the end of the schedule forward or back.
    pub fn set_until(&mut self, until: u64) {
        self.limits.until = until;
    }

    /// Due time of the next request to take, in the past or in the future; `None` when none is left.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        self.head.peek(&self.limits)
    }

    /// Takes the request that has waited longest; `None` when none is due.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due().filter(|&due| due <= now)?;
        self.head.pass(due, &self.limits);
        Some(due)
    }

    /// Of a replay, which request the one taken last is.
    pub fn last_which(&self) -> Option<u32> {
        self.head.pacer.last_which()
    }

    /// Takes the longest-waiting request if it was due before `limit`: it has waited for too long.
    pub fn take_expired(&mut self, limit: u64) -> Option<u64> {
        let due = self.next_due().filter(|&due| due < limit)?;
        self.head.pass(due, &self.limits);
        Some(due)
    }

    /// Walks the `due` cursor up to `now`; returns how many requests are due and not taken.
    pub fn waiting(&mut self, now: u64) -> u64 {
        while let Some(due) = self.due.peek(&self.limits).filter(|&due| due <= now) {
            self.due.pass(due, &self.limits);
        }
        self.due.passed.saturating_sub(self.head.passed)
    }

    /// Due time of the first request that [`Schedule::waiting`] has not counted.
    pub fn next_uncounted(&self) -> Option<u64> {
        self.due.peek(&self.limits)
    }

    /// Measured requests that came due. Exact after [`Schedule::waiting`].
    pub fn scheduled(&self) -> u64 {
        self.due.measured.max(self.head.measured)
    }

    /// No request is left to take, now or later.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.next_due().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::Share;

    const SECOND: u64 = 1_000_000_000;

    fn ten_per_s(limits: Limits) -> Schedule {
        Schedule::new(Pacer::constant(10.0, Share { index: 0, of: 1 }, 0), limits)
    }

    fn unlimited() -> Limits {
        Limits {
            measured_from: 0,
            until: u64::MAX,
            budget: u64::MAX,
        }
    }

    #[test]
    fn what_is_due_and_not_taken_waits() {
        let mut line = ten_per_s(unlimited());
        assert_eq!(line.waiting(SECOND - 1), 10);
        assert_eq!(line.take(SECOND - 1), Some(0));
        assert_eq!(line.take(SECOND - 1), Some(100_000_000));
        assert_eq!(line.waiting(SECOND - 1), 8);
        assert_eq!(line.scheduled(), 10);
        assert_eq!(line.take(150_000_000), None, "the third is due at 200 ms");
    }

    #[test]
    fn expired_requests_leave_at_the_head() {
        let mut line = ten_per_s(unlimited());
        assert_eq!(line.take_expired(150_000_000), Some(0));
        assert_eq!(line.take_expired(150_000_000), Some(100_000_000));
        assert_eq!(line.take_expired(150_000_000), None);
        assert_eq!(line.next_due(), Some(200_000_000));
    }

    #[test]
    fn the_end_and_the_budget_bound_the_schedule() {
        let ends_at_a_second = Limits {
            until: SECOND,
            ..unlimited()
        };
        let mut by_time = ten_per_s(ends_at_a_second);
        assert_eq!(by_time.waiting(5 * SECOND), 10);
        let three_after_warm_up = Limits {
            measured_from: SECOND,
            budget: 3,
            ..unlimited()
        };
        let mut by_count = ten_per_s(three_after_warm_up);
        assert_eq!(by_count.waiting(5 * SECOND), 13);
        assert_eq!(by_count.scheduled(), 3);
        for _ in 0..13 {
            assert!(by_count.take(5 * SECOND).is_some());
        }
        assert!(by_count.is_exhausted());
    }
}
