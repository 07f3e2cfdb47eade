//! What stands on the wire: views that read headers out of any bytes without a panic, and writers that put them there.
//!
//! A view says `None` where the bytes are no such header; that a field is plausible is for its reader to judge.

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod tcp;
pub mod udp;

#[cfg(test)]
pub(crate) mod damage;
