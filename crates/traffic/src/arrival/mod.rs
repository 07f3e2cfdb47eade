//! When requests are due: pure arithmetic on the run's clock, no clock of its own.
//!
//! [`Pacer`] yields the due times of one thread; the backlog holds the two ends of the waiting line.
//! The surprise: the schedule *is* the queue. Due times can be computed again at will, so the requests
//! that wait for a connection are never stored; two cursors walk the same sequence, one at what is due
//! and one at what has been taken, and any number may wait in constant memory.

mod backlog;
mod pacer;

pub(crate) use backlog::{Backlog, Limits};
pub use pacer::{Pacer, Share};
