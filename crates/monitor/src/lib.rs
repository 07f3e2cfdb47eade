//! Readers of what the host says about itself, one module a source.
//!
//! In the flow: an executor starts a [`Watch`] beside a load and gets record series on the same clock
//! back; [`environment::collect`] describes the host once. The signals' names, units and labels are the
//! table in ARCHITECTURE.md, and a test compares the two.
//!
//! The surprise: a source that cannot be read does not stop anything. It becomes one
//! [`record::Unavailable`] with the system's own words, and never a zero.
//!
//! The parsers are our own small functions over text. The `procfs` crate was considered: it takes a root
//! only for processes, knows neither softnet_stat nor the extended TCP counters, opens a file for every
//! read (twice the cost of reading an open one again, see [`linux::Reread`]) and parses whole files of
//! which a sample needs four numbers.

pub mod attach;
pub mod cgroup;
mod cgroup_io;
pub mod conntrack;
pub mod cpu;
pub mod environment;
pub mod error;
pub mod fields;
pub mod full;
pub mod goroutines;
pub mod hotspot;
pub mod jvm;
pub mod listen;
pub mod memory;
pub mod nic;
pub mod pressure;
pub mod probe;
pub mod process;
mod process_memory;
pub mod profile;
pub mod queues;
pub mod recorder;
pub mod sampler;
pub mod scripts;
pub mod slab;
pub mod sockets;
pub mod softirq;
pub mod source;
pub mod task;
pub mod tasks;
pub mod tcp;
pub mod thread;
pub mod tlb;
pub mod tree;
pub mod turns;
pub mod watch;

pub use error::MonitorError;
pub use full::Full;
pub use recorder::{Recorder, SeriesId, Signal};
pub use sampler::{RunClock, Sampler};
pub use source::{Pass, Source};
pub use watch::{Cost, Extras, GENERATOR, Observation, Watch, WatchConfig, Watched};
