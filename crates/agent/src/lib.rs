//! Loads and targets on many hosts: framed messages between a conductor, which is the command that a person runs, and
//! one agent a host, which carries threads of the load or runs targets; what carries the messages; clocks, leases and
//! sums.
//!
//! The conductor holds all state. What it asks for happens at most once and has a deadline; an agent that hears
//! nothing of it for [`LEASE`] ends its load, its targets and itself. How a load is made is the [`Generator`]'s, how a
//! target is run that of [`Targets`].

pub mod carrier;
pub mod clock;
pub mod conductor;
pub mod frame;
mod link;
pub mod message;
pub mod nats;
pub mod serve;
mod targets;
mod together;

pub use carrier::{Host, HostError};
pub use conductor::targets::{TargetEnd, TargetHosts, Watched, Watching};
pub use conductor::{Agent, Fleet, FleetError, Flow, Gathered};
pub use message::{Done, Hello, Prepare, Refusal, Right};
pub use serve::{Gate, Generator, ServeError, serve};
pub use targets::{MakeTargets, Targets};

use std::time::Duration;

/// An agent that hears nothing for so long ends its load.
pub const LEASE: Duration = Duration::from_secs(10);
/// How often each end says that it lives.
pub const BEAT: Duration = Duration::from_secs(1);
/// An agent that is not heard for so long is lost.
pub const SILENCE: Duration = Duration::from_secs(6);
