//! A header of either version of IP, for all that asks the same of both.

use super::checksum::{self, Sum};
use super::{ethernet, ipv4, ipv6};
use std::net::IpAddr;

/// A header as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where the payload begins, after options and extension headers.
    pub header_bytes: usize,
    /// All headers and the payload; what the link has padded lies behind.
    pub total_bytes: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Part of a packet that was cut.
    pub is_fragment: bool,
    /// Hops left.
    pub hops_left: u8,
    /// What it carries.
    pub protocol: u8,
    /// From.
    pub source: IpAddr,
    /// To.
    pub destination: IpAddr,
}

impl From<ipv4::Header> for Header {
    #[inline]
    fn from(header: ipv4::Header) -> Self {
        Header {
            header_bytes: header.header_bytes,
            total_bytes: header.total_bytes,
            traffic_class: header.traffic_class,
            is_fragment: header.is_fragment,
            hops_left: header.ttl,
            protocol: header.protocol,
            source: header.source.into(),
            destination: header.destination.into(),
        }
    }
}

impl From<ipv6::Header> for Header {
    #[inline]
    fn from(header: ipv6::Header) -> Self {
        Header {
            header_bytes: header.header_bytes,
            total_bytes: header.total_bytes,
            traffic_class: header.traffic_class,
            is_fragment: header.is_fragment,
            hops_left: header.hop_limit,
            protocol: header.protocol,
            source: header.source.into(),
            destination: header.destination.into(),
        }
    }
}

/// Reads a header of the version that the link names; `None` when the bytes are none, or of neither.
#[inline]
pub fn read(ether_type: u16, bytes: &[u8]) -> Option<Header> {
    match ether_type {
        ethernet::IPV4 => ipv4::read(bytes).map(Header::from),
        ethernet::IPV6 => ipv6::read(bytes).map(Header::from),
        _ => None,
    }
}

/// The pseudo header of a packet of TCP or UDP with `len` bytes of it. Addresses of two versions have none.
#[inline]
pub fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, len: usize) -> Sum {
    match (source, destination) {
        (IpAddr::V4(from), IpAddr::V4(to)) => checksum::pseudo_v4(from, to, protocol, len),
        (IpAddr::V6(from), IpAddr::V6(to)) => checksum::pseudo_v6(&from, &to, protocol, len),
        _ => Sum::ZERO,
    }
}
