//! When requests are due: pure arithmetic on the run's clock, no clock of its own.
//!
//! The load loop asks an `Arrivals` two things, as vegeta's loop asks its Pacer: when is the next request due,
//! and what does a response free. A closed loop is a number of clients, each freed by its response; an open loop is
//! a schedule that no response moves. What follows from that for the loop (how long late responses still count,
//! how many requests go onto one connection, what lateness means) is answered here too, so that the loop never
//! asks which of them it runs.
//!
//! The surprise: the schedule *is* the queue. Due times can be computed again at will, so the requests
//! that wait for a connection are never stored; two cursors walk the same sequence, one at what is due
//! and one at what has been taken, and any number may wait in constant memory.

mod clients;
mod pacer;
mod schedule;

pub use pacer::{Pacer, Share};

use clients::Clients;
use record::{Arrival, RateCourse, Timetable};
use schedule::Schedule;
use std::sync::Arc;

/// How long responses may come after the stop of an open loop, at most.
const GRACE_MAX_NS: u64 = 2_000_000_000;

/// Which requests exist and which are measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests due before this are warm-up.
    pub measured_from: u64,
    /// Requests due at this time or later do not exist.
    pub until: u64,
    /// So many requests are measured; none exists after the last.
    pub budget: u64,
}

impl Limits {
    #[inline]
    fn allow(&self, due: u64, measured: u64) -> bool {
        due < self.until && measured < self.budget
    }
}

/// The arrival process of one load thread; see the module.
#[derive(Clone, Debug)]
pub(crate) enum Arrivals {
    /// A closed loop.
    Clients(Clients),
    /// An open loop.
    Schedule(Schedule),
}

impl Arrivals {
    /// Part `share` of `arrival` from `start_ns` on, at a rate that follows `course` if there is one; a closed loop has
    /// `clients` in this part.
    pub fn new(
        arrival: &Arrival,
        course: Option<&Arc<RateCourse>>,
        share: Share,
        clients: u64,
        start_ns: u64,
        limits: Limits,
    ) -> Self {
        let pacer = match (*arrival, course.map(Arc::clone)) {
            (Arrival::Closed, _) => return Arrivals::Clients(Clients::new(clients, limits)),
            (Arrival::Constant { .. }, Some(course)) => {
                Pacer::changing(course, None, share, start_ns)
            }
            (Arrival::Poisson { seed, .. }, Some(course)) => {
                Pacer::changing(course, Some(seed), share, start_ns)
            }
            (Arrival::Constant { per_s }, None) => Pacer::constant(per_s, share, start_ns),
            (Arrival::Poisson { per_s, seed }, None) => {
                Pacer::poisson(per_s, seed, share, start_ns)
            }
        };
        Arrivals::Schedule(Schedule::new(pacer, limits))
    }

    /// Part `share` of the requests of a timetable from `start_ns` on.
    pub fn listed(table: &Timetable, share: Share, start_ns: u64, limits: Limits) -> Self {
        let pacer = Pacer::listed(table.clone(), share, start_ns);
        Arrivals::Schedule(Schedule::new(pacer, limits))
    }

    /// Of a replay, which request of the workload the one taken last is.
    pub fn last_which(&self) -> Option<u32> {
        match self {
            Arrivals::Clients(_) => None,
            Arrivals::Schedule(schedule) => schedule.last_which(),
        }
    }

    /// All of a process that grows to its rate within `ramp_ns`: `pacer` alone, without clients.
    pub fn ramped(pacer: Pacer, ramp_ns: u64, limits: Limits) -> Self {
        Arrivals::Schedule(Schedule::new(pacer.ramped(ramp_ns), limits))
    }

    /// So many clients, each of which asks again when it is freed.
    pub fn clients(population: u64, limits: Limits) -> Self {
        Arrivals::Clients(Clients::new(population, limits))
    }

    /// Before the start: nothing is due, and nothing will be.
    pub fn none() -> Self {
        let limits = Limits {
            measured_from: 0,
            until: 0,
            budget: 0,
        };
        Arrivals::Clients(Clients::new(0, limits))
    }

    /// Brings the end forward or back: nothing is due at `until` or later.
    pub fn set_until(&mut self, until: u64) {
        match self {
            Arrivals::Clients(clients) => clients.set_until(until),
            Arrivals::Schedule(schedule) => schedule.set_until(until),
        }
    }

    /// When the next request to take is due, in the past or in the future; `None` when none is left, or when none
    /// will be before a response frees one.
    #[inline]
    pub fn next_due(&self, now: u64) -> Option<u64> {
        match self {
            Arrivals::Clients(clients) => clients.next_due(now),
            Arrivals::Schedule(schedule) => schedule.next_due(),
        }
    }

    /// A request that was taken has met its fate, a response or a failure.
    #[inline]
    pub fn freed(&mut self) {
        match self {
            Arrivals::Clients(clients) => clients.freed(),
            Arrivals::Schedule(_) => {}
        }
    }

    /// There is one place less for a request on its way.
    pub fn retire(&mut self) {
        match self {
            Arrivals::Clients(clients) => clients.retire(),
            Arrivals::Schedule(_) => {}
        }
    }

    /// Takes the request that has been due for longest and returns its due time; `None` when none is due.
    #[inline]
    pub fn take(&mut self, now: u64) -> Option<u64> {
        match self {
            Arrivals::Clients(clients) => clients.take(now),
            Arrivals::Schedule(schedule) => schedule.take(now),
        }
    }

    /// Takes a request that was due before `limit` and has thus waited for too long.
    pub fn take_expired(&mut self, limit: u64) -> Option<u64> {
        match self {
            Arrivals::Clients(_) => None,
            Arrivals::Schedule(schedule) => schedule.take_expired(limit),
        }
    }

    /// How many requests are due and not taken.
    pub fn waiting(&mut self, now: u64) -> u64 {
        match self {
            Arrivals::Clients(clients) => clients.waiting(now),
            Arrivals::Schedule(schedule) => schedule.waiting(now),
        }
    }

    /// When one more request will wait than [`Arrivals::waiting`] has just counted, if time alone brings it.
    pub fn next_uncounted(&self) -> Option<u64> {
        match self {
            Arrivals::Clients(_) => None,
            Arrivals::Schedule(schedule) => schedule.next_uncounted(),
        }
    }

    /// Measured requests so far. Exact after [`Arrivals::waiting`].
    pub fn scheduled(&self) -> u64 {
        match self {
            Arrivals::Clients(clients) => clients.scheduled(),
            Arrivals::Schedule(schedule) => schedule.scheduled(),
        }
    }

    /// No request is left to take, now or later.
    #[inline]
    pub fn is_exhausted(&self, now: u64) -> bool {
        match self {
            Arrivals::Clients(clients) => clients.is_exhausted(now),
            Arrivals::Schedule(schedule) => schedule.is_exhausted(),
        }
    }

    /// Of `room` requests that a connection could take, how many it is given at once: all its clients' in a closed
    /// loop, one in an open loop, so that arrivals spread over the connections.
    #[inline]
    pub fn batch(&self, room: usize) -> usize {
        match self {
            Arrivals::Clients(_) => room,
            Arrivals::Schedule(_) => room.min(1),
        }
    }

    /// How late the generator itself was: from when a request was due and a connection was free for it. `None` where
    /// there is no schedule to be late for.
    #[inline]
    pub fn lag_ns(&self, due: u64, free_since: u64, sent_at: u64) -> Option<u64> {
        match self {
            Arrivals::Clients(_) => None,
            Arrivals::Schedule(_) => Some(sent_at.saturating_sub(due.max(free_since))),
        }
    }

    /// How long after the stop a response still counts. Leaving out those of an open loop would cut the tail off its
    /// latencies; those of a closed loop would add one for each connection to its rate.
    pub fn grace_ns(&self, timeout_ns: u64) -> u64 {
        match self {
            Arrivals::Clients(_) => 0,
            Arrivals::Schedule(_) => timeout_ns.min(GRACE_MAX_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Share = Share { index: 0, of: 1 };

    fn arrivals(arrival: Arrival) -> Arrivals {
        let limits = Limits {
            measured_from: 0,
            until: u64::MAX,
            budget: u64::MAX,
        };
        Arrivals::new(&arrival, None, WHOLE, 2, 0, limits)
    }

    #[test]
    fn a_response_frees_a_client_and_leaves_a_schedule_alone() {
        let mut closed = arrivals(Arrival::Closed);
        let mut open = arrivals(Arrival::Constant { per_s: 1e9 });
        for process in [&mut closed, &mut open] {
            assert!(process.take(5).is_some() && process.take(5).is_some());
        }
        assert_eq!((closed.waiting(5), open.waiting(5)), (0, 4));
        closed.freed();
        open.freed();
        assert_eq!((closed.next_due(7), open.next_due(7)), (Some(7), Some(2)));
        assert_eq!((closed.waiting(7), open.waiting(7)), (1, 6));
        assert_eq!(
            (closed.next_uncounted(), open.next_uncounted()),
            (None, Some(8))
        );
    }

    #[test]
    fn lag_is_the_generators_and_lateness_everybodys() {
        let open = arrivals(Arrival::Constant { per_s: 1.0 });
        // Due at 0, the connection came free at 5 ms, sent 10 us later: late, but not our fault.
        assert_eq!(open.lag_ns(0, 5_000_000, 5_010_000), Some(10_000));
        // A connection had been free all the time: the whole delay is ours.
        assert_eq!(open.lag_ns(0, 0, 5_010_000), Some(5_010_000));
        assert_eq!(arrivals(Arrival::Closed).lag_ns(0, 0, 9), None);
    }

    #[test]
    fn an_open_loop_waits_for_its_last_responses_and_a_closed_one_does_not() {
        let open = arrivals(Arrival::Constant { per_s: 1.0 });
        assert_eq!(open.grace_ns(3), 3);
        assert_eq!(open.grace_ns(u64::MAX), GRACE_MAX_NS);
        assert_eq!(arrivals(Arrival::Closed).grace_ns(3), 0);
    }
}
