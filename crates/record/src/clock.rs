//! Time as an argument: everything that needs the time takes a [`Clock`].

use crate::Nanos;
use std::cell::Cell;

/// A monotonic clock. All times of one run come from one clock (`CLOCK_MONOTONIC`), so that the
/// load's samples and the monitors' samples can be laid over each other.
pub trait Clock {
    /// Nanoseconds since an arbitrary, fixed origin; never decreases.
    fn now(&self) -> Nanos;
}

/// A clock that a test moves by hand.
#[derive(Debug, Default)]
pub struct ManualClock(Cell<u64>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn at(now: Nanos) -> Self {
        Self(Cell::new(now.0))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Nanos) {
        self.0.set(self.0.get() + by.0);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}
