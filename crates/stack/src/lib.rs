//! User-space TCP/IP for very many short flows, and the devices that carry it.
//!
//! Everything above [`device`] is sans-IO: it opens nothing, reads no clock (time is an argument, nanoseconds
//! of one monotonic clock) and draws no random number that was not seeded by its caller. Frames come in from
//! [`device::Device::receive`] and go out through [`device::Device::transmit`]; [`frame`] is what both sides say of
//! one. [`link`] stands between the two: it has our addresses, knows the neighbours and answers for us. [`host`] puts
//! them together: [`tcp`], [`udp`] and a device.

pub mod address;
pub mod device;
pub mod error;
pub mod frame;
pub mod host;
pub mod link;
pub mod random;
pub mod tcp;
pub mod udp;
pub mod wire;
