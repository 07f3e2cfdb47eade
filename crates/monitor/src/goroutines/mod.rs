//! What the goroutines of a Go server wait for, read from outside: no probe, no signal, nothing written.
//!
//! In the flow: [`TaskReader`] looks some hundred times a second at the list that the runtime keeps of its goroutines,
//! in the window of the turn trace; the looks are joined with the turns (`turns`), and the stacks become a profile.
//! The surprise: a goroutine that waits costs no CPU and is on no thread, so that no tracepoint and no profiler ever
//! sees it; its own record in memory says why it waits and since which call.
//!
//! ```text
//! program (version, list, reasons, names) -> look (one sample of all) -> sample (the thread) -> TaskLook, Profile
//! ```
//! **What it takes** is measured by the thread's own clock and bounded by a share of one core: the looks become
//! rarer where there are many goroutines, and of more than some thousand only a part is read in each.

mod layout;
mod look;
mod made;
pub(crate) mod pclntab;
mod program;
mod sample;
#[cfg(test)]
mod tests;

pub use sample::{EndedTasks, TaskConfig, TaskReader, Tasks};

/// What was seen in one look: stacks of the tasks' profile with the number of tasks on each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLook {
    /// ns on the monotonic clock.
    pub at_ns: u64,
    /// Target's name.
    pub target: String,
    pub tasks: Vec<(u32, u32)>,
    /// Those of them that stand ready ([`record::stands_ready`]).
    pub ready: u32,
}
