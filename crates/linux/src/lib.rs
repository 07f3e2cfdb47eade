//! How this kernel is read and asked, one module an interface; nothing here knows what it is asked for.
//!
//! In the flow: below everything that touches the host. `sut` finds and holds processes with it, `monitor` reads its
//! files, `traffic` its clocks and limits. The surprise: readers of files take the directory that stands for `/proc`
//! or `/`, so that a test can lay one out; sock_diag and ethtool are conversations with the running kernel.

pub mod affinity;
pub mod clock;
mod error;
pub mod ethtool;
pub mod memory;
pub mod namespace;
pub mod pidfd;
pub mod procfs;
pub mod root;
pub mod routes;
pub mod sock_diag;
pub mod sockets;
pub mod veth;

pub use error::Error;
pub use root::{Reread, Root};
