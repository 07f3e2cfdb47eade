//! Results of other tools become a record: load generators, strace, vmstat, mpstat, tables of numbers in a text.
//!
//! ```text
//! bytes -> text (a page's traces taken away) -> words -> a reader for each tool -> results with their lines
//!       -> places (heading, words before, command line) -> levels -> RunRecord
//! ```
//! `prony import` stores the record, and `report` and `compare` read it like any other; `prony diagnose --from` takes
//! the same readers for its facts ([`read_pasted`]). The rule: a number is imported as printed or not at all. So a
//! result that ends early or contradicts itself (its count over its time is not its rate, its percentiles fall) is left
//! out, by its lines and with the reason, and never repaired.
//!
//! The other way leads to a load: [`convert`] makes a workload file of what a browser, curl or an OpenAPI document
//! says of requests; an [`AccessLog`] or an [`ArrivalList`] becomes requests that are due when they were.

mod ab;
mod assemble;
mod caveats;
mod error;
mod format;
mod found;
mod hdr;
mod host;
mod json;
mod pasted;
mod pidstat;
mod place;
mod plainly;
mod read;
mod replay;
mod strace;
mod table;
mod text;
mod trex;
mod workload;
mod wrk;

pub use assemble::{Imported, ImportedResult, LeftOut, Making, Options};
pub use error::ImportError;
pub use format::Format;
pub use pasted::read_pasted;
pub use read::{Source, import};
pub use replay::{AccessLog, ArrivalList, Cut, LeftOutLine, Replay, ReplayError};
pub use workload::{ConvertedWorkload, WorkloadFormat, WorkloadOptions, convert};
