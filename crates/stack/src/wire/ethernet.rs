//! Ethernet II headers (IEEE 802.3, RFC 894): two addresses and a type. A length in place of a type, and tags, are
//! types that nobody here knows.

/// Bytes of a header.
pub const HEADER_BYTES: usize = 14;

/// A link address.
pub type MacAddress = [u8; 6];

/// All stations.
pub const BROADCAST: MacAddress = [0xff; 6];

/// The types that the stack speaks.
pub const IPV4: u16 = 0x0800;
/// Address resolution.
pub const ARP: u16 = 0x0806;
/// The next protocol is IPv6.
pub const IPV6: u16 = 0x86dd;

/// The type of a packet of IP.
pub fn ip_type(is_ipv6: bool) -> u16 {
    if is_ipv6 { IPV6 } else { IPV4 }
}

/// What stands before every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The station that it is for.
    pub destination: MacAddress,
    /// Who sends it.
    pub source: MacAddress,
    /// What follows.
    pub ether_type: u16,
}

impl Header {
    /// The header of a frame and what follows it; `None` when the frame is shorter.
    pub fn parse(frame: &[u8]) -> Option<(Header, &[u8])> {
        let (head, rest) = frame.split_first_chunk::<HEADER_BYTES>()?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *head;
        let header = Header {
            destination: [d0, d1, d2, d3, d4, d5],
            source: [s0, s1, s2, s3, s4, s5],
            ether_type: u16::from_be_bytes([t0, t1]),
        };
        Some((header, rest))
    }

    /// The bytes of the header.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..6].copy_from_slice(&self.destination);
        bytes[6..12].copy_from_slice(&self.source);
        bytes[12..].copy_from_slice(&self.ether_type.to_be_bytes());
        bytes
    }
}

/// The address is of a group: multicast or broadcast.
pub fn is_group(address: MacAddress) -> bool {
    address[0] & 1 != 0
}

/// As people write it: `02:00:5e:10:00:01`.
pub fn shown(address: MacAddress) -> String {
    let [a, b, c, d, e, f] = address;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::any_bytes;

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            destination: [1, 2, 3, 4, 5, 6],
            source: [7, 8, 9, 10, 11, 12],
            ether_type: IPV6,
        };
        let bytes = header.bytes();
        assert_eq!(Header::parse(&bytes), Some((header, &[][..])));
        assert_eq!(Header::parse(&bytes[..13]), None);
        assert_eq!(shown(header.source), "07:08:09:0a:0b:0c");
    }

    #[test]
    fn any_bytes_are_a_header_when_there_are_enough() {
        any_bytes(1, |bytes| {
            assert_eq!(Header::parse(bytes).is_some(), bytes.len() >= HEADER_BYTES);
            if let Some((header, rest)) = Header::parse(bytes) {
                assert_eq!([&header.bytes()[..], rest].concat(), bytes);
            }
        });
    }
}
