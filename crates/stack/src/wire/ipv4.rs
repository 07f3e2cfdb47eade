//! IPv4 headers (RFC 791): read out of any bytes, written with their checksum.

use super::checksum::Sum;
use std::net::Ipv4Addr;

/// Length of a header without options.
pub const HEADER_BYTES: usize = 20;

/// A header as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where the payload begins.
    pub header_bytes: usize,
    /// Header and payload.
    pub total_bytes: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Part of a packet that was cut.
    pub is_fragment: bool,
    /// Hops left.
    pub ttl: u8,
    /// What it carries.
    pub protocol: u8,
    /// From.
    pub source: Ipv4Addr,
    /// To.
    pub destination: Ipv4Addr,
}

/// Reads a header; `None` when the bytes are none. Whether all of the packet is there is not asked: an ICMP error
/// quotes only its beginning.
pub fn read(bytes: &[u8]) -> Option<Header> {
    let fixed: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let header_bytes = usize::from(fixed[0] & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let is_header = fixed[0] >> 4 == 4
        && header_bytes >= HEADER_BYTES
        && header_bytes <= bytes.len()
        && total_bytes >= header_bytes;
    is_header.then(|| Header {
        header_bytes,
        total_bytes,
        traffic_class: fixed[1],
        // More fragments, or an offset.
        is_fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0,
        ttl: fixed[8],
        protocol: fixed[9],
        source: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
        destination: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
    })
}

/// Whether the checksum of a header that was read is right.
pub fn is_sum_right(bytes: &[u8], header: &Header) -> bool {
    Sum::ZERO.bytes(&bytes[..header.header_bytes]).finish() == 0
}

/// Writes a header without options, "don't fragment" set, for `payload_bytes` after it.
pub fn write(
    into: &mut [u8; HEADER_BYTES],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    traffic_class: u8,
    ttl: u8,
    payload_bytes: usize,
) {
    let total = (HEADER_BYTES + payload_bytes) as u16;
    into[0] = 0x45;
    into[1] = traffic_class;
    into[2..4].copy_from_slice(&total.to_be_bytes());
    // A packet that may not be cut needs no identification (RFC 6864 4.1).
    into[4..6].fill(0);
    into[6..8].copy_from_slice(&[0x40, 0]);
    into[8] = ttl;
    into[9] = protocol;
    into[10..12].fill(0);
    into[12..16].copy_from_slice(&source.octets());
    into[16..20].copy_from_slice(&destination.octets());
    let sum = Sum::ZERO.bytes(&into[..]).finish();
    into[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [u8; 20] {
        let mut bytes = [0; 20];
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        write(&mut bytes, a, b, 6, 2, 64, 100);
        bytes
    }

    #[test]
    fn reads_what_it_wrote() {
        let bytes = sample();
        let header = read(&bytes).unwrap();
        assert!(is_sum_right(&bytes, &header));
        assert_eq!((header.header_bytes, header.total_bytes), (20, 120));
        assert_eq!((header.protocol, header.traffic_class), (6, 2));
        assert_eq!((header.ttl, header.is_fragment), (64, false));
        assert_eq!(header.source, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(header.destination, Ipv4Addr::new(10, 0, 0, 2));
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = sample();
        let refused = |change: fn(&mut [u8; 20])| {
            let mut bytes = good;
            change(&mut bytes);
            read(&bytes).is_none()
        };
        assert!(refused(|b| b[0] = 0x65), "version 6");
        assert!(refused(|b| b[0] = 0x44), "shorter than a header");
        assert!(refused(|b| b[0] = 0x4f), "options beyond the bytes");
        assert!(refused(|b| b[2..4].fill(0)), "total below the header");
        assert!(!refused(|_| ()));
        assert!((0..20).all(|len| read(&good[..len]).is_none()));
    }

    #[test]
    fn fragments_and_damage_are_seen() {
        let mut bytes = sample();
        bytes[6] = 0x20;
        let header = read(&bytes).unwrap();
        assert!(header.is_fragment && !is_sum_right(&bytes, &header));
    }
}
