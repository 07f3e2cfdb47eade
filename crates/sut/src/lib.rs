//! The system under test: start it, pin it, wait until it is ready, watch that it lives, stop it.
//!
//! In the flow this stands between a trial's plan and its load. [`Launcher::start`] turns a
//! [`plan::TargetSpec`] into a [`RunningTarget`]; dropping that, or the death of prony, ends it. What is
//! changed on the host is written to the [`Journal`] before the change, so that the next start can undo
//! what a killed one left. The surprise: a target is tied to the *thread* that started it (see
//! [`Launcher::start`]).

mod adapter;
mod cgroup;
pub mod config;
pub mod discover;
mod error;
mod filling;
mod installed;
mod irq;
pub mod journal;
mod lab;
mod launcher;
mod likeness;
mod listen;
mod members;
mod network;
mod places;
mod process;
mod ready;
mod relimit;
mod rlimits;
mod running;
mod server;
pub mod tuning;
mod workdir;

pub use adapter::stub_status_requests;
pub use error::{Holder, TargetError};
pub use installed::lacks;
pub use irq::PinnedIrqs;
pub use journal::{Change, ChangeId, Journal, Kept, Pending, Recovered, state_dir};
pub use lab::{Lab, LabSide, Peers};
pub use launcher::Launcher;
pub use listen::holder_of;
pub use network::Network;
pub use rlimits::keep_limits;
pub use running::RunningTarget;
