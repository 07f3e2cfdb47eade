//! The waiting line of one load thread: two cursors over the same schedule.
//!
//! `due` stands at the first request that is not due yet, `head` at the first that nobody has taken;
//! what lies between them waits. Each request is *passed* once by each cursor, so that counts made at
//! one cursor are exact whatever happens at the other.

use super::Pacer;

/// Which requests of a schedule exist and which are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests due before this are warm-up.
    pub measured_from: u64,
    /// Requests due at this time or later do not exist.
    pub until: u64,
    /// So many requests are measured; none exists after the last.
    pub budget: u64,
}

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

    /// Due time of the next request that exists; a closed loop's is always due `now`.
    #[inline]
    fn peek(&self, now: u64, limits: &Limits) -> Option<u64> {
        let due = self.pacer.next_due().unwrap_or(now);
        (due < limits.until && self.measured < limits.budget).then_some(due)
    }

    #[inline]
    fn pass(&mut self, due: u64, limits: &Limits) {
        self.passed += 1;
        self.measured += u64::from(due >= limits.measured_from);
        self.pacer.advance();
    }
}

/// The waiting line; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Backlog {
    head: Cursor,
    due: Cursor,
    limits: Limits,
    closed: bool,
}

impl Backlog {
    /// A line in which nobody waits yet.
    pub fn new(pacer: Pacer, limits: Limits) -> Self {
        Backlog {
            closed: matches!(pacer, Pacer::Closed),
            head: Cursor::new(pacer.clone()),
            due: Cursor::new(pacer),
            limits,
        }
    }

    /// Brings the end of the schedule forward or back.
    pub fn set_until(&mut self, until: u64) {
        self.limits.until = until;
    }

    /// Due time of the next request to take, in the past or in the future; `None` when there is none
    /// left. In a closed loop it is `now`.
    #[inline]
    pub fn next_due(&self, now: u64) -> Option<u64> {
        self.head.peek(now, &self.limits)
    }

    /// Takes the request that has waited longest; `None` when none is due.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due(now).filter(|&due| due <= now)?;
        self.head.pass(due, &self.limits);
        Some(due)
    }

    /// Takes the longest-waiting request if it was due before `limit`: it has waited for too long.
    pub fn take_expired(&mut self, limit: u64) -> Option<u64> {
        if self.closed {
            return None;
        }
        let due = self.head.peek(limit, &self.limits)?;
        (due < limit).then(|| self.head.pass(due, &self.limits))?;
        Some(due)
    }

    /// Walks the `due` cursor up to `now`; returns how many requests wait for a connection. In a
    /// closed loop nothing ever waits.
    pub fn waiting(&mut self, now: u64) -> u64 {
        if self.closed {
            return 0;
        }
        while let Some(due) = self.due.peek(now, &self.limits).filter(|&due| due <= now) {
            self.due.pass(due, &self.limits);
        }
        self.due.passed.saturating_sub(self.head.passed)
    }

    /// Measured requests that came due (open loop) or were taken (closed loop). Exact after
    /// [`Backlog::waiting`].
    pub fn scheduled(&self) -> u64 {
        if self.closed {
            self.head.measured
        } else {
            self.due.measured.max(self.head.measured)
        }
    }

    /// No request is left to take, now or later.
    #[inline]
    pub fn is_exhausted(&self, now: u64) -> bool {
        self.next_due(now).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrival::Share;
    use record::Arrival;

    const SECOND: u64 = 1_000_000_000;

    fn line(arrival: Arrival, limits: Limits) -> Backlog {
        Backlog::new(Pacer::new(&arrival, Share { index: 0, of: 1 }, 0), limits)
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
        let mut line = line(Arrival::Constant { per_s: 10.0 }, unlimited());
        assert_eq!(line.waiting(SECOND - 1), 10);
        assert_eq!(line.take(SECOND - 1), Some(0));
        assert_eq!(line.take(SECOND - 1), Some(100_000_000));
        assert_eq!(line.waiting(SECOND - 1), 8);
        assert_eq!(line.scheduled(), 10);
        assert_eq!(line.take(150_000_000), None, "the third is due at 200 ms");
    }

    #[test]
    fn expired_requests_leave_at_the_head() {
        let mut line = line(Arrival::Constant { per_s: 10.0 }, unlimited());
        assert_eq!(line.take_expired(150_000_000), Some(0));
        assert_eq!(line.take_expired(150_000_000), Some(100_000_000));
        assert_eq!(line.take_expired(150_000_000), None);
        assert_eq!(line.next_due(0), Some(200_000_000));
    }

    #[test]
    fn the_end_and_the_budget_bound_the_schedule() {
        let ends_at_a_second = Limits {
            until: SECOND,
            ..unlimited()
        };
        let mut by_time = line(Arrival::Constant { per_s: 10.0 }, ends_at_a_second);
        assert_eq!(by_time.waiting(5 * SECOND), 10);
        let three_after_warm_up = Limits {
            measured_from: SECOND,
            budget: 3,
            ..unlimited()
        };
        let mut by_count = line(Arrival::Constant { per_s: 10.0 }, three_after_warm_up);
        assert_eq!(by_count.waiting(5 * SECOND), 13);
        assert_eq!(by_count.scheduled(), 3);
        for _ in 0..13 {
            assert!(by_count.take(5 * SECOND).is_some());
        }
        assert!(by_count.is_exhausted(5 * SECOND));
    }

    #[test]
    fn a_closed_loop_never_waits() {
        let two = Limits {
            budget: 2,
            ..unlimited()
        };
        let mut line = line(Arrival::Closed, two);
        assert_eq!(line.waiting(SECOND), 0);
        assert_eq!(line.take_expired(SECOND), None);
        assert_eq!(line.take(5), Some(5));
        assert_eq!(line.take(9), Some(9));
        assert_eq!(line.take(10), None);
        assert_eq!(line.scheduled(), 2);
    }
}
