//! IPv6 headers (RFC 8200): read out of any bytes, extension headers passed over, and written.

use std::net::Ipv6Addr;

/// Length of the fixed header.
pub const HEADER_BYTES: usize = 40;

/// A header as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Where the payload begins, after extension headers.
    pub header_bytes: usize,
    /// All headers and the payload.
    pub total_bytes: usize,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Part of a packet that was cut.
    pub is_fragment: bool,
    /// Hops left.
    pub hop_limit: u8,
    /// What it carries, after extension headers.
    pub protocol: u8,
    /// From.
    pub source: Ipv6Addr,
    /// To.
    pub destination: Ipv6Addr,
}

fn address(bytes: &[u8]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(bytes);
    octets.into()
}

/// Reads a header; `None` when the bytes are none.
pub fn read(bytes: &[u8]) -> Option<Header> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let fixed: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    if fixed[0] >> 4 != 6 {
        return None;
    }
    let total_bytes = HEADER_BYTES + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let (mut at, mut protocol, mut is_fragment) = (HEADER_BYTES, fixed[6], false);
    while let HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION = protocol {
        let next = bytes.get(at..at + 8)?;
        let len = match protocol {
            FRAGMENT => {
                let word = u16::from_be_bytes([next[2], next[3]]);
                // An atomic fragment (RFC 6946) is the whole packet.
                is_fragment |= word & 0xfff9 != 0;
                8
            }
            _ => (usize::from(next[1]) + 1) * 8,
        };
        protocol = next[0];
        at += len;
    }
    (at <= total_bytes && at <= bytes.len()).then(|| Header {
        header_bytes: at,
        total_bytes,
        traffic_class: fixed[0] << 4 | fixed[1] >> 4,
        is_fragment,
        hop_limit: fixed[7],
        protocol,
        source: address(&fixed[8..24]),
        destination: address(&fixed[24..40]),
    })
}

/// Writes a header for `payload_bytes` after it.
pub fn write(
    into: &mut [u8; HEADER_BYTES],
    source: &Ipv6Addr,
    destination: &Ipv6Addr,
    protocol: u8,
    traffic_class: u8,
    hop_limit: u8,
    payload_bytes: usize,
) {
    into[0] = 0x60 | traffic_class >> 4;
    into[1] = traffic_class << 4;
    into[2..4].fill(0);
    into[4..6].copy_from_slice(&(payload_bytes as u16).to_be_bytes());
    into[6] = protocol;
    into[7] = hop_limit;
    into[8..24].copy_from_slice(&source.octets());
    into[24..40].copy_from_slice(&destination.octets());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> [u8; 56] {
        let mut bytes = [0; 56];
        let (a, b) = (Ipv6Addr::LOCALHOST, "fd00::2".parse().unwrap());
        let head = bytes.first_chunk_mut().unwrap();
        write(head, &a, &b, 6, 0xb9, 64, 16);
        bytes
    }

    #[test]
    fn reads_what_it_wrote() {
        let header = read(&sample()).unwrap();
        assert_eq!((header.header_bytes, header.total_bytes), (40, 56));
        assert_eq!((header.protocol, header.traffic_class), (6, 0xb9));
        assert_eq!(header.source, Ipv6Addr::LOCALHOST);
        assert_eq!(header.destination.to_string(), "fd00::2");
    }

    #[test]
    fn extension_headers_are_passed_over() {
        let mut bytes = sample();
        (bytes[6], bytes[40], bytes[41]) = (60, 6, 0);
        let header = read(&bytes).unwrap();
        assert_eq!((header.header_bytes, header.protocol), (48, 6));
        (bytes[6], bytes[43]) = (44, 1);
        assert!(read(&bytes).unwrap().is_fragment);
        (bytes[6], bytes[41]) = (60, 9);
        assert!(read(&bytes).is_none(), "an extension beyond the end");
        assert!((0..40).all(|len| read(&bytes[..len]).is_none()));
    }
}
