//! Traffic of a TCP in user space: may its figures be used, what did it cost, and its counters as a table.
//!
//! In the flow: [`judge`] first, as for every load; [`figures`] is what every output shows; [`trials`] puts the counters
//! into a record as figures of trials, so that they stand in the same table as an imported run of TRex and can be
//! compared with it. The surprise: what a connection cost is left out, not shown, where the kernel's work for the other
//! side may have been done on the generator's core (a veth without pinned NAPI or RPS).

mod cores;
mod counters;
mod figures;
mod judge;
mod trials;

pub use cores::{CoreFigures, cores};
pub use counters::{CounterRow, meaning};
pub use figures::{CPU_NOT_COMPARABLE, SideFigures, TemplateFigures, TrafficFigures, figures};
pub use judge::{judge, warnings};
pub use trials::{STAGE, trials};

#[cfg(test)]
mod samples;
