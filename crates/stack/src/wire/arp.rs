//! ARP for IPv4 over Ethernet (RFC 826); packets of other protocols or sizes of address are `None`.

use super::ethernet::MacAddress;
use std::net::Ipv4Addr;

/// Bytes of a packet for IPv4 over Ethernet.
pub const PACKET_BYTES: usize = 28;

/// Ethernet, IPv4, 6 and 4 bytes of address.
const KINDS: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// What is asked or said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Who has it?
    Request,
    /// I have it.
    Reply,
}

/// A request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which of the two.
    pub operation: Operation,
    /// Link address of who speaks.
    pub sender_mac: MacAddress,
    /// Its IP address; 0.0.0.0 in a probe for duplicates (RFC 5227).
    pub sender: Ipv4Addr,
    /// Link address of who is spoken to; zero in a request.
    pub target_mac: MacAddress,
    /// The address that is asked for, or of who asked.
    pub target: Ipv4Addr,
}

impl Packet {
    /// Reads what follows the Ethernet header; padding behind it is passed over.
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let bytes = bytes.first_chunk::<PACKET_BYTES>()?;
        let operation = match u16::from_be_bytes([bytes[6], bytes[7]]) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        let mac = |at: usize| bytes[at..].first_chunk::<6>().copied();
        let ip = |at: usize| bytes[at..].first_chunk::<4>().map(|b| Ipv4Addr::from(*b));
        let packet = Packet {
            operation,
            sender_mac: mac(8)?,
            sender: ip(14)?,
            target_mac: mac(18)?,
            target: ip(24)?,
        };
        (bytes[..6] == KINDS).then_some(packet)
    }

    /// The bytes that follow the Ethernet header.
    pub fn bytes(&self) -> [u8; PACKET_BYTES] {
        let mut bytes = [0; PACKET_BYTES];
        bytes[..6].copy_from_slice(&KINDS);
        bytes[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        bytes[8..14].copy_from_slice(&self.sender_mac);
        bytes[14..18].copy_from_slice(&self.sender.octets());
        bytes[18..24].copy_from_slice(&self.target_mac);
        bytes[24..].copy_from_slice(&self.target.octets());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::{any_bytes, damaged};

    const REQUEST: Packet = Packet {
        operation: Operation::Request,
        sender_mac: [2, 0, 0, 0, 0, 1],
        sender: Ipv4Addr::new(10, 9, 0, 1),
        target_mac: [0; 6],
        target: Ipv4Addr::new(10, 9, 0, 2),
    };

    #[test]
    fn a_request_is_written_as_rfc_826_has_it() {
        let expected = [
            0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 9, 0, 1, 0, 0, 0, 0, 0, 0, 10, 9, 0, 2,
        ];
        assert_eq!(REQUEST.bytes(), expected);
        assert_eq!(Packet::parse(&expected), Some(REQUEST));
        let padded = [&expected[..], &[0; 18]].concat();
        assert_eq!(Packet::parse(&padded), Some(REQUEST));
        assert_eq!(Packet::parse(&expected[..27]), None);
    }

    #[test]
    fn what_is_read_from_any_bytes_is_written_the_same() {
        let check = |bytes: &[u8]| {
            if let Some(packet) = Packet::parse(bytes) {
                assert_eq!(packet.bytes(), bytes[..PACKET_BYTES]);
            }
        };
        any_bytes(2, check);
        damaged(3, &REQUEST.bytes(), check);
    }
}
