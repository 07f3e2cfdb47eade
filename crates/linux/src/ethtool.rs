//! Rings, coalescing, channels and offloads of a network device, read and set by name.
//!
//! In the flow: `monitor` reads them into the environment, `sut` sets them for a tuning profile. The surprise:
//! this is the ioctl and not the newer netlink family. Every driver serves both, a container answers both alike,
//! and the crate that speaks the netlink family needs an asynchronous runtime and cannot set rings or offloads.

mod device;
mod ioctl;

pub use device::{Device, Figure, NicError, Setting, settings};
