//! ICMP (RFC 792) and ICMPv6 (RFC 4443): echo requests, and the errors that concern a flow of ours.
//!
//! An error quotes the packet that it is about; what matters of it is the flow, and for TCP its sequence number, by
//! which an error that somebody made up is told from a real one (RFC 5927 4.1).

use super::checksum::{self, Sum};
use super::ndp::ICMPV6;
use super::{ethernet, ip};
use std::net::{IpAddr, Ipv6Addr};

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;

/// Bytes before the data of an echo, and before the packet that an error quotes.
pub const HEADER_BYTES: usize = 8;

/// The flow that an error is about, as its sender (us) sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Our address.
    pub source: IpAddr,
    /// The peer's.
    pub destination: IpAddr,
    /// 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// Our port.
    pub source_port: u16,
    /// The peer's.
    pub destination_port: u16,
    /// Sequence number of the quoted segment, for TCP.
    pub sequence: Option<u32>,
}

/// What happened to the quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The network or host is not reachable, or somebody forbids it: a soft error for TCP (RFC 1122 4.2.3.9).
    Unreachable {
        /// As it was received.
        code: u8,
    },
    /// The host takes no such protocol or port: a hard error.
    Refused {
        /// As it was received.
        code: u8,
    },
    /// It does not fit into the next link.
    TooBig {
        /// What would fit, as an IP packet; 0 from a router that does not say (RFC 1191 4).
        mtu_bytes: u32,
    },
    /// Its hops were used up, or a fragment is missing.
    TimeExceeded,
    /// A field of it was not understood.
    BadHeader,
}

/// A message of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To be answered.
    EchoRequest,
    /// About a flow.
    Error {
        /// Which.
        flow: Flow,
        /// What.
        problem: Problem,
    },
}

/// Reads what follows an IPv4 header. `None`: not whole, damaged, or nothing that concerns us.
pub fn parse_v4(bytes: &[u8]) -> Option<Message> {
    let (head, quoted) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if Sum::ZERO.bytes(bytes).finish() != 0 {
        return None;
    }
    let (kind, code) = (head[0], head[1]);
    let problem = match (kind, code) {
        (8, 0) => return Some(Message::EchoRequest),
        (3, 4) => Problem::TooBig {
            mtu_bytes: u32::from(u16::from_be_bytes([head[6], head[7]])),
        },
        (3, 2 | 3) => Problem::Refused { code },
        (3, _) => Problem::Unreachable { code },
        (11, _) => Problem::TimeExceeded,
        (12, _) => Problem::BadHeader,
        _ => return None,
    };
    let flow = flow_of(ethernet::IPV4, quoted)?;
    Some(Message::Error { flow, problem })
}

/// Reads what follows an IPv6 header; neighbour discovery is read by [`super::ndp`].
pub fn parse_v6(source: Ipv6Addr, destination: Ipv6Addr, bytes: &[u8]) -> Option<Message> {
    let (head, quoted) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    if !is_whole_v6(source, destination, bytes) {
        return None;
    }
    let (kind, code) = (head[0], head[1]);
    let problem = match (kind, code) {
        (128, 0) => return Some(Message::EchoRequest),
        (1, 4) => Problem::Refused { code },
        (1, _) => Problem::Unreachable { code },
        (2, _) => Problem::TooBig {
            mtu_bytes: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        },
        (3, _) => Problem::TimeExceeded,
        (4, _) => Problem::BadHeader,
        _ => return None,
    };
    let flow = flow_of(ethernet::IPV6, quoted)?;
    Some(Message::Error { flow, problem })
}

/// The checksum of an ICMPv6 message holds.
pub fn is_whole_v6(source: Ipv6Addr, destination: Ipv6Addr, bytes: &[u8]) -> bool {
    let pseudo = checksum::pseudo_v6(&source, &destination, ICMPV6, bytes.len());
    pseudo.bytes(bytes).finish() == 0
}

/// Turns the ICMP message of an echo request into its reply in place: the type changes, and the checksum by as much
/// (RFC 1624 eqn. 3).
pub fn answer_echo(message: &mut [u8]) {
    let [kind, _, high, low, ..] = message else {
        return;
    };
    let reply: u8 = if *kind == 8 { 0 } else { 129 };
    let field = u16::from_be_bytes([*high, *low]);
    let changed = checksum::update(field, u16::from(*kind) << 8, u16::from(reply) << 8);
    [*high, *low] = changed.to_be_bytes();
    *kind = reply;
}

/// The flow of a packet that an error quotes.
fn flow_of(ether_type: u16, packet: &[u8]) -> Option<Flow> {
    let header = ip::read(ether_type, packet).filter(|header| !header.is_fragment)?;
    quoted_ports(&header, &packet[header.header_bytes..])
}

/// At least 8 bytes behind the header are quoted (RFC 792), which hold the ports and TCP's sequence number.
fn quoted_ports(header: &ip::Header, bytes: &[u8]) -> Option<Flow> {
    const TCP: u8 = 6;
    let &[s0, s1, d0, d1, q0, q1, q2, q3] = bytes.first_chunk::<8>()?;
    Some(Flow {
        source: header.source,
        destination: header.destination,
        protocol: header.protocol,
        source_port: u16::from_be_bytes([s0, s1]),
        destination_port: u16::from_be_bytes([d0, d1]),
        sequence: (header.protocol == TCP).then(|| u32::from_be_bytes([q0, q1, q2, q3])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::{any_bytes, damaged};
    use std::net::Ipv4Addr;

    const US: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
    const US_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1);

    fn summed(mut message: Vec<u8>, pseudo: Sum) -> Vec<u8> {
        let checksum = pseudo.bytes(&message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        message
    }

    const TCP_HEAD: [u8; 8] = [0xc0, 0x01, 0x00, 0x50, 0x01, 0x02, 0x03, 0x04];

    fn error_v4(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0];
        message.extend(rest);
        message.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        message.extend(US.octets());
        message.extend(PEER.octets());
        message.extend(TCP_HEAD);
        summed(message, Sum::ZERO)
    }

    fn error_v6(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
        let mut message = vec![kind, code, 0, 0];
        message.extend(rest);
        message.extend([0x60, 0, 0, 0, 0, 20, 6, 64]);
        message.extend(US_V6.octets());
        message.extend(PEER_V6.octets());
        message.extend(TCP_HEAD);
        let pseudo = checksum::pseudo_v6(&PEER_V6, &US_V6, ICMPV6, message.len());
        summed(message, pseudo)
    }

    fn flow(source: IpAddr, destination: IpAddr) -> Flow {
        Flow {
            source,
            destination,
            protocol: 6,
            source_port: 49153,
            destination_port: 80,
            sequence: Some(0x0102_0304),
        }
    }

    #[test]
    fn errors_name_the_flow_and_the_problem() {
        let check = |kind, code, rest, problem| {
            let flow = flow(US.into(), PEER.into());
            let expected = Some(Message::Error { flow, problem });
            assert_eq!(parse_v4(&error_v4(kind, code, rest)), expected);
        };
        check(3, 4, [0, 0, 5, 0], Problem::TooBig { mtu_bytes: 1280 });
        check(3, 4, [0; 4], Problem::TooBig { mtu_bytes: 0 });
        check(3, 3, [0; 4], Problem::Refused { code: 3 });
        check(3, 1, [0; 4], Problem::Unreachable { code: 1 });
        check(11, 0, [0; 4], Problem::TimeExceeded);
        check(12, 0, [0; 4], Problem::BadHeader);
        assert_eq!(parse_v4(&error_v4(5, 0, [0; 4])), None, "a redirect");
    }

    #[test]
    fn errors_of_version_6_name_the_flow_and_the_problem() {
        let check = |kind, code, rest, problem| {
            let flow = flow(US_V6.into(), PEER_V6.into());
            let expected = Some(Message::Error { flow, problem });
            let message = error_v6(kind, code, rest);
            assert_eq!(parse_v6(PEER_V6, US_V6, &message), expected);
        };
        check(2, 0, [0, 0, 5, 0], Problem::TooBig { mtu_bytes: 1280 });
        check(1, 4, [0; 4], Problem::Refused { code: 4 });
        check(1, 0, [0; 4], Problem::Unreachable { code: 0 });
        check(3, 0, [0; 4], Problem::TimeExceeded);
        check(4, 1, [0; 4], Problem::BadHeader);
    }

    #[test]
    fn a_damaged_message_is_none() {
        let mut message = error_v4(3, 4, [0, 0, 5, 0]);
        message[7] ^= 1;
        assert_eq!(parse_v4(&message), None);
        let mut message = error_v6(2, 0, [0, 0, 5, 0]);
        message[20] ^= 1;
        assert_eq!(parse_v6(PEER_V6, US_V6, &message), None);
    }

    #[test]
    fn an_echo_is_answered_with_its_data_and_a_checksum_that_holds() {
        for data in [&b""[..], b"x", b"abcdefgh", &[0xff; 33]] {
            let mut message = summed([&[8, 0, 0, 0, 0x12, 0x34, 0, 1], data].concat(), Sum::ZERO);
            assert_eq!(parse_v4(&message), Some(Message::EchoRequest));
            answer_echo(&mut message);
            assert_eq!(message[0], 0);
            assert_eq!(Sum::ZERO.bytes(&message).finish(), 0);
            assert_eq!(&message[8..], data);

            let message = [&[128, 0, 0, 0, 0x12, 0x34, 0, 1], data].concat();
            let pseudo = checksum::pseudo_v6(&PEER_V6, &US_V6, ICMPV6, message.len());
            let mut message = summed(message, pseudo);
            assert_eq!(
                parse_v6(PEER_V6, US_V6, &message),
                Some(Message::EchoRequest)
            );
            answer_echo(&mut message);
            assert_eq!(message[0], 129);
            assert!(
                is_whole_v6(US_V6, PEER_V6, &message),
                "the sum of two addresses has no order"
            );
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic() {
        let check = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            parse_v4(&bytes);
            parse_v6(PEER_V6, US_V6, &bytes);
            // With a checksum that holds, what lies behind it is reached.
            if bytes.len() >= 4 {
                bytes[2..4].fill(0);
                parse_v4(&summed(bytes.clone(), Sum::ZERO));
                let pseudo = checksum::pseudo_v6(&PEER_V6, &US_V6, ICMPV6, bytes.len());
                parse_v6(PEER_V6, US_V6, &summed(bytes.clone(), pseudo));
            }
            answer_echo(&mut bytes);
        };
        any_bytes(6, check);
        damaged(7, &error_v4(3, 4, [0; 4]), check);
        damaged(8, &error_v6(2, 0, [0; 4]), check);
    }
}
