//! A closed loop's requests: a fixed number of clients, each of which asks again when its response has come.
//!
//! A client is idle or waits for a response. An idle one has a request due at once, whatever the time is; with all
//! of them waiting nothing is due until a response frees one. So a closed loop has no schedule to be late for, and
//! its requests are scheduled when they are sent.

use super::Limits;

/// The clients of one thread; see the module.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    idle: u64,
    /// Measured requests taken.
    measured: u64,
    limits: Limits,
}

impl Clients {
    /// So many idle clients.
    pub fn new(population: u64, limits: Limits) -> Self {
        Clients {
            idle: population,
            measured: 0,
            limits,
        }
    }

    /// Brings the end forward or back.
    pub fn set_until(&mut self, until: u64) {
        self.limits.until = until;
    }

    /// `now` if a client is idle and its request exists.
    #[inline]
    pub fn next_due(&self, now: u64) -> Option<u64> {
        (self.idle > 0 && self.limits.allow(now, self.measured)).then_some(now)
    }

    /// An idle client's request; `None` without one.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due(now)?;
        self.idle -= 1;
        self.measured += u64::from(due >= self.limits.measured_from);
        Some(due)
    }

    /// A client's request has met its fate.
    #[inline]
    pub fn freed(&mut self) {
        self.idle += 1;
    }

    /// An idle client leaves for good: there is no connection for it.
    pub fn retire(&mut self) {
        self.idle = self.idle.saturating_sub(1);
    }

    /// Requests that could be sent now if there were a connection for each.
    pub fn waiting(&self, now: u64) -> u64 {
        if self.is_exhausted(now) {
            return 0;
        }
        self.idle.min(self.limits.budget - self.measured)
    }

    /// Measured requests taken.
    pub fn scheduled(&self) -> u64 {
        self.measured
    }

    /// No request will be due, now or later.
    #[inline]
    pub fn is_exhausted(&self, now: u64) -> bool {
        !self.limits.allow(now, self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_frees_a_client_and_nothing_else_does() {
        let three = Limits {
            measured_from: 6,
            until: 100,
            budget: 3,
        };
        let mut clients = Clients::new(2, three);
        assert_eq!(clients.waiting(5), 2);
        assert_eq!((clients.take(5), clients.take(6)), (Some(5), Some(6)));
        assert_eq!(
            (clients.take(7), clients.waiting(7)),
            (None, 0),
            "both wait for a response"
        );
        clients.freed();
        clients.freed();
        assert_eq!((clients.take(9), clients.take(9)), (Some(9), Some(9)));
        assert_eq!(clients.scheduled(), 3, "the first was warm-up");
        clients.freed();
        assert_eq!(clients.next_due(10), None, "the budget is spent");
        assert!(clients.is_exhausted(10));
    }

    #[test]
    fn the_end_leaves_nothing_due() {
        let until_100 = Limits {
            measured_from: 0,
            until: 100,
            budget: u64::MAX,
        };
        let clients = Clients::new(4, until_100);
        assert_eq!((clients.waiting(99), clients.next_due(99)), (4, Some(99)));
        assert_eq!((clients.waiting(100), clients.next_due(100)), (0, None));
    }
}
