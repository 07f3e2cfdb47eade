//! Neighbour solicitations and advertisements (RFC 4861), which are to IPv6 what ARP is to IPv4.
//!
//! A message is read from what follows the IPv6 header and written whole, with that header: its checksum covers the
//! addresses there, and a receiver must not take one whose hop limit is not 255 (it has crossed a router).

use super::checksum::pseudo_v6;
use super::ethernet::MacAddress;
use super::ipv6;
use std::net::Ipv6Addr;

/// Protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;

/// The only hop limit that these messages may arrive with.
pub const HOP_LIMIT: u8 = 255;

/// Bytes of a written message: IPv6 header, message, one option with a link address.
pub const MESSAGE_BYTES: usize = 40 + 24 + 8;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;

/// What is asked or said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Who has `target`?
    Solicitation {
        /// The address that is asked for.
        target: Ipv6Addr,
        /// Link address of who asks; none in a probe for duplicates.
        source_mac: Option<MacAddress>,
    },
    /// I have `target`.
    Advertisement {
        /// The address that is spoken of.
        target: Ipv6Addr,
        /// Its link address.
        target_mac: Option<MacAddress>,
        /// It was asked for, which confirms that both ways work.
        is_solicited: bool,
        /// What was known shall be replaced.
        is_override: bool,
    },
}

impl Message {
    /// Reads what follows an IPv6 header whose hop limit was 255; the checksum has been verified. `None` for other
    /// messages of ICMPv6, and for those that RFC 4861 7.1 has discarded.
    pub fn parse(source: Ipv6Addr, destination: Ipv6Addr, bytes: &[u8]) -> Option<Message> {
        let (head, options) = bytes.split_first_chunk::<24>()?;
        let target = Ipv6Addr::from(*head[8..].first_chunk::<16>()?);
        if head[1] != 0 || target.is_multicast() {
            return None;
        }
        let is_probe = source.is_unspecified();
        match head[0] {
            SOLICITATION => {
                let source_mac = link_address(options, SOURCE_LINK_ADDRESS)?;
                let group = is_probe && (destination != solicited_node(target));
                let discarded = group || (is_probe && source_mac.is_some());
                (!discarded).then_some(Message::Solicitation { target, source_mac })
            }
            ADVERTISEMENT => {
                let is_solicited = head[4] & 0x40 != 0;
                let target_mac = link_address(options, TARGET_LINK_ADDRESS)?;
                let discarded = is_solicited && destination.is_multicast();
                (!discarded).then_some(Message::Advertisement {
                    target,
                    target_mac,
                    is_solicited,
                    is_override: head[4] & 0x20 != 0,
                })
            }
            _ => None,
        }
    }

    /// The packet, IPv6 header and all. A message without a link address has no option and is shorter.
    pub fn packet(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut message = vec![0; 24];
        let (kind, target, option, mac) = match *self {
            Message::Solicitation { target, source_mac } => {
                (SOLICITATION, target, SOURCE_LINK_ADDRESS, source_mac)
            }
            Message::Advertisement {
                target,
                target_mac,
                is_solicited,
                is_override,
            } => {
                message[4] = u8::from(is_solicited) << 6 | u8::from(is_override) << 5;
                (ADVERTISEMENT, target, TARGET_LINK_ADDRESS, target_mac)
            }
        };
        message[0] = kind;
        message[8..24].copy_from_slice(&target.octets());
        if let Some(mac) = mac {
            message.extend_from_slice(&[option, 1]);
            message.extend_from_slice(&mac);
        }
        let pseudo = pseudo_v6(&source, &destination, ICMPV6, message.len());
        let checksum = pseudo.bytes(&message).finish();
        message[2..4].copy_from_slice(&checksum.to_be_bytes());
        let mut head = [0; ipv6::HEADER_BYTES];
        ipv6::write(
            &mut head,
            &source,
            &destination,
            ICMPV6,
            0,
            HOP_LIMIT,
            message.len(),
        );
        [&head[..], &message].concat()
    }
}

/// The link address in the options: `None` when an option is not whole (RFC 4861 4.6: a length of 0 discards the
/// message), `Some(None)` when there is none.
fn link_address(mut options: &[u8], wanted: u8) -> Option<Option<MacAddress>> {
    let mut found = None;
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if kind == wanted && units == 1 {
            found = options[2..].first_chunk::<6>().copied();
        }
        options = &options[len..];
    }
    options.is_empty().then_some(found)
}

/// The group that everyone who has `address` listens to (RFC 4291 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let o = address.octets();
    let low = u16::from_be_bytes([o[14], o[15]]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(o[13]), low)
}

/// The link address of a group (RFC 2464 7).
pub fn group_mac(group: Ipv6Addr) -> MacAddress {
    let o = group.octets();
    [0x33, 0x33, o[12], o[13], o[14], o[15]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::damage::{any_bytes, damaged};

    const US: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);
    const MAC: MacAddress = [2, 0, 0, 0, 0, 9];

    const SOLICIT: Message = Message::Solicitation {
        target: PEER,
        source_mac: Some(MAC),
    };

    #[test]
    fn a_solicitation_is_written_as_rfc_4861_has_it_and_read_back() {
        let group = solicited_node(PEER);
        assert_eq!(group.to_string(), "ff02::1:ff12:3456");
        assert_eq!(group_mac(group), [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let packet = SOLICIT.packet(US, group);
        assert_eq!(packet.len(), MESSAGE_BYTES);
        let message = &packet[40..];
        assert_eq!((message[0], message[1]), (135, 0));
        assert_eq!(message[24..], [1, 1, 2, 0, 0, 0, 0, 9]);
        let pseudo = pseudo_v6(&US, &group, ICMPV6, message.len());
        assert_eq!(pseudo.bytes(message).finish(), 0, "the checksum holds");
        assert_eq!(Message::parse(US, group, message), Some(SOLICIT));
    }

    #[test]
    fn an_advertisement_carries_its_flags() {
        let said = Message::Advertisement {
            target: US,
            target_mac: Some(MAC),
            is_solicited: true,
            is_override: true,
        };
        let packet = said.packet(US, PEER);
        assert_eq!(packet[44], 0x60);
        assert_eq!(Message::parse(US, PEER, &packet[40..]), Some(said));
        // RFC 4861 7.1.2: to a group it cannot have been solicited.
        let group = solicited_node(PEER);
        assert_eq!(Message::parse(US, group, &packet[40..]), None);
    }

    #[test]
    fn what_rfc_4861_discards_is_none() {
        let group = solicited_node(PEER);
        let message = SOLICIT.packet(US, group)[40..].to_vec();
        let nobody = Ipv6Addr::UNSPECIFIED;
        assert_eq!(
            Message::parse(nobody, group, &message),
            None,
            "a probe has no link address"
        );
        let mut zero = message.clone();
        zero[25] = 0;
        assert_eq!(
            Message::parse(US, group, &zero),
            None,
            "an option of no length"
        );
        let mut long = message.clone();
        long[25] = 2;
        assert_eq!(
            Message::parse(US, group, &long),
            None,
            "an option beyond the end"
        );
        assert_eq!(Message::parse(US, group, &message[..23]), None);
        let mut router = message;
        router[0] = 134;
        assert_eq!(Message::parse(US, group, &router), None);
    }

    #[test]
    fn any_bytes_are_read_without_panic_and_the_same_when_written() {
        let check = |bytes: &[u8]| {
            if let Some(message) = Message::parse(US, PEER, bytes) {
                let again = message.packet(US, PEER)[40..].to_vec();
                assert_eq!(Message::parse(US, PEER, &again), Some(message));
            }
        };
        any_bytes(4, check);
        damaged(5, &SOLICIT.packet(US, PEER)[40..], check);
    }
}
