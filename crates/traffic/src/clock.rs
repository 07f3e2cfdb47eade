//! The clock of a run: `CLOCK_MONOTONIC`, read through the vDSO (about 25 ns, no system call).
//!
//! The monitors must use the same clock, so that their samples can be laid over the load's.

use crate::sys;
use record::{Clock, Nanos};

/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Nanos {
        Nanos(now_ns())
    }
}

/// A clock that a load loop runs on: besides the time it has the two ways to let time pass without waiting for
/// events.
pub(crate) trait LoopClock: Clock {
    /// Sleeps for `ns`, or less when a signal comes.
    fn pause(&self, ns: u64);

    /// One turn of a spin, shorter than anything that is waited for.
    fn spin(&self);
}

impl LoopClock for MonotonicClock {
    fn pause(&self, ns: u64) {
        sys::pause(ns);
    }

    #[inline]
    fn spin(&self) {
        std::hint::spin_loop();
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds, for the hot path.
#[inline]
pub(crate) fn now_ns() -> u64 {
    linux::clock::monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_backwards() {
        let clock = MonotonicClock;
        let (a, b) = (clock.now(), clock.now());
        assert!(b >= a && a > Nanos(0));
    }
}
