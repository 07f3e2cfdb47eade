//! Where the time of requests goes: a trace of the targets' sockets and threads, and the account of every nanosecond
//! of it.
//!
//! In the flow: [`Tracer`] writes down events while a load runs, in a pass of its own; [`Traced::account`] makes
//! [`record::Turns`] of them, together with the stacks that profilers took in the same window. Nothing here but
//! `trace` touches the system: what a turn is, whose a thread's time was and where a turn's time went are functions
//! of the list of events.
//!
//! ```text
//! events -> threads (what each did) -> sockets (turns, upstreams) -> pieces, started (for whom) -> walk (places)
//!        -> account
//! ```
//! The surprise: no system call is traced. That data came, was read and was written is told by three tracepoints of the
//! socket layer; what a thread waits in is read from its registers when it leaves the CPU.
//!
//! **What a window can show.** Turns longer than the window are not seen. A stall that comes every n seconds has a
//! period once three came, so a period of a third of the window is the longest that is named.

mod account;
mod helpers;
mod looks;
mod pieces;
mod sockets;
mod started;
#[cfg(test)]
mod tests;
mod threads;
mod told;
mod trace;
mod walk;
mod wire;

pub use threads::process_number;
pub use told::{TimeSamples, When};
pub use trace::{TraceConfig, Tracer};

use crate::goroutines::TaskLook;
use record::{ProbeCost, Unavailable};
use std::collections::{HashMap, HashSet};
use wire::Event;

/// A stack that was taken of a thread at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    pub tid: u32,
    /// ns on the monotonic clock.
    pub at_ns: u64,
    /// Index into the stacks of its profile.
    pub stack: u32,
    /// Samples that it stands for.
    pub count: u64,
}

/// What the profilers of the same window took.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// Of the off-CPU profile: taken as a thread left the CPU.
    pub waits: Vec<Located>,
    /// Of the on-CPU profile.
    pub samples: Vec<Located>,
    /// Of the profile of tasks.
    pub looks: Vec<TaskLook>,
    /// What the runtimes of the targets told.
    pub told: TimeSamples,
}

/// A trace that has ended.
#[derive(Debug, Default)]
pub struct Traced {
    targets: Vec<String>,
    /// Index of its target, by process.
    members: HashMap<u32, usize>,
    /// Index of the target that listens there.
    ports: HashMap<u16, usize>,
    /// Processes whose threads carry many tasks, which no wake-up of a thread tells of.
    green: HashSet<u32>,
    /// Processes that are clients of others of their target, and do what these are asked for.
    consumers: HashSet<u32>,
    /// A process of no target is told with its number.
    by_process: bool,
    /// Names of threads.
    names: HashMap<u32, String>,
    /// Sockets, since when, and their peers.
    peers: Vec<(u64, u64, String)>,
    from_ns: u64,
    to_ns: u64,
    /// What is accounted for begins here; what was before only says how things stood.
    begin_ns: u64,
    one_in: u32,
    lost: u64,
    events: Vec<Event>,
    unavailable: Vec<Unavailable>,
    cost: Vec<ProbeCost>,
}
