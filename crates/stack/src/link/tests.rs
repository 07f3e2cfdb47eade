//! Packet scripts: what comes in, what the link says of it and what it sends.

use super::*;
use crate::frame::RxMeta;
use crate::wire::damage::{any_bytes, damaged};
use std::net::Ipv4Addr;

const MAC: MacAddress = [2, 0, 0, 0, 0, 1];
const PEER_MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const SECOND: u64 = 1_000_000_000;

fn settings() -> Settings {
    Settings {
        interface: "veth0".to_owned(),
        mac: MAC,
        own: vec![
            "10.9.16.0-10.9.31.255".parse().unwrap(),
            "fd00::1:0/112".parse().unwrap(),
        ],
        networks: vec!["10.9.0.0/16".parse().unwrap(), "fd00::/64".parse().unwrap()],
        gateways: vec![],
    }
}

fn link() -> Link {
    Link::new(settings()).unwrap()
}

/// A frame from the peer.
fn frame(destination: MacAddress, ether_type: u16, packet: &[u8]) -> Vec<u8> {
    let header = ethernet::Header {
        destination,
        source: PEER_MAC,
        ether_type,
    };
    [&header.bytes()[..], packet].concat()
}

fn receive(link: &mut Link, bytes: &[u8], now_ns: u64) -> Received {
    let frame = Frame {
        head: bytes,
        rest: &[],
        meta: RxMeta::PLAIN,
    };
    link.receive(&frame, now_ns)
}

/// Frames that the link wants to send, without waiting for a device.
fn sent(link: &mut Link) -> Vec<(ethernet::Header, Vec<u8>)> {
    let parse = |frame: Vec<u8>| {
        let (header, rest) = ethernet::Header::parse(&frame).unwrap();
        assert_eq!(header.source, MAC);
        (header, rest.to_vec())
    };
    link.waiting.drain(..).map(parse).collect()
}

fn request(target: Ipv4Addr) -> arp::Packet {
    arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: PEER_MAC,
        sender: PEER,
        target_mac: [0; 6],
        target,
    }
}

#[test]
fn thousands_of_addresses_are_answered_for_and_others_are_not() {
    let mut link = link();
    for third in 0..=255u8 {
        let target = Ipv4Addr::new(10, 9, third, 77);
        let asked = frame(BROADCAST, ethernet::ARP, &request(target).bytes());
        assert_eq!(receive(&mut link, &asked, 0), Received::Done);
        let answers = sent(&mut link);
        if (16..32).contains(&third) {
            let [(header, reply)] = &answers[..] else {
                panic!("{answers:?}");
            };
            let reply = arp::Packet::parse(reply).unwrap();
            assert_eq!(header.destination, PEER_MAC);
            assert_eq!((reply.sender, reply.sender_mac), (target, MAC));
            assert_eq!((reply.target, reply.target_mac), (PEER, PEER_MAC));
        } else {
            assert_eq!(answers, []);
        }
    }
    assert_eq!(link.counters().answered, 16);
    assert_eq!(link.counters().foreign_frames, 240);
    // Who asked us is known without being asked.
    let resolution = link.resolve(PEER.into(), 0).unwrap();
    assert_eq!(resolution, Resolution::Known(PEER_MAC));
}

#[test]
fn a_neighbour_is_asked_for_and_its_answer_used() {
    let mut link = link();
    assert_eq!(link.resolve(PEER.into(), 0).unwrap(), Resolution::Waiting);
    let asked = sent(&mut link);
    assert_eq!(asked[0].0.destination, BROADCAST);
    let asked = arp::Packet::parse(&asked[0].1).unwrap();
    assert_eq!(asked.target, PEER);
    assert!(link.is_own(asked.sender.into()));
    let reply = arp::Packet {
        operation: arp::Operation::Reply,
        target_mac: MAC,
        ..request(asked.sender)
    };
    receive(&mut link, &frame(MAC, ethernet::ARP, &reply.bytes()), 5);
    let resolution = link.resolve(PEER.into(), 5).unwrap();
    assert_eq!(resolution, Resolution::Known(PEER_MAC));
    assert_eq!(sent(&mut link), []);
}

#[test]
fn an_unanswered_arp_names_the_address() {
    let mut link = link();
    link.resolve(PEER.into(), 0).unwrap();
    (1..=3).for_each(|second| link.poll(second * SECOND));
    assert_eq!(sent(&mut link).len(), 3);
    let error = link.resolve(PEER.into(), 3 * SECOND).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot reach 10.9.0.1 through veth0: unanswered ARP, nobody answers for 10.9.0.1 after 3 requests"
    );
    assert_eq!(
        error.remedy(),
        "check that a host with 10.9.0.1 is on the network of veth0 and that the link is up"
    );
}

#[test]
fn nothing_goes_outside_the_networks_without_a_gateway() {
    let far: IpAddr = "192.0.2.1".parse().unwrap();
    let error = link().resolve(far, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "192.0.2.1 is outside the networks of veth0 (10.9.0.0/16, fd00::/64)"
    );
    let mut link = Link::new(Settings {
        gateways: vec![PEER.into()],
        ..settings()
    })
    .unwrap();
    assert_eq!(link.resolve(far, 0).unwrap(), Resolution::Waiting);
    let asked = sent(&mut link);
    assert_eq!(arp::Packet::parse(&asked[0].1).unwrap().target, PEER);
    (1..=3).for_each(|second| link.poll(second * SECOND));
    let error = link.resolve(far, 3 * SECOND).unwrap_err().to_string();
    assert!(
        error.contains("192.0.2.1") && error.contains("nobody answers for 10.9.0.1"),
        "{error}"
    );
    let far_v6: IpAddr = "2001:db8::1".parse().unwrap();
    let error = link.resolve(far_v6, 0);
    assert!(
        matches!(error, Err(Error::OutsideNetwork { .. })),
        "{error:?}"
    );
}

#[test]
fn what_cannot_be_a_target_or_an_address_of_ours_is_refused() {
    let mut link = link();
    for target in [
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "ff02::1",
        "10.9.16.5",
        "fd00::1:9",
    ] {
        let error = link.resolve(target.parse().unwrap(), 0);
        assert!(
            matches!(error, Err(Error::BadTarget { .. })),
            "{target}: {error:?}"
        );
    }
    let refused = |settings: Settings| Link::new(settings).unwrap_err().to_string();
    let own = |text: &str| Settings {
        own: text.split(' ').filter_map(|t| t.parse().ok()).collect(),
        ..settings()
    };
    assert!(refused(own("")).contains("no address of ours"));
    assert!(refused(own("224.0.0.1")).contains("no host may have"));
    let gateways = vec!["192.0.2.1".parse().unwrap()];
    let far = refused(Settings {
        gateways,
        ..settings()
    });
    assert!(far.contains("gateway 192.0.2.1 is on none"), "{far}");
    // Without an address of version 6, nothing of version 6 can be reached.
    let error = Link::new(own("10.9.16.1"))
        .unwrap()
        .resolve(PEER_V6.into(), 0);
    assert!(matches!(error, Err(Error::BadTarget { .. })), "{error:?}");
}

#[test]
fn neighbour_discovery_is_spoken_both_ways() {
    let mut link = link();
    let own: Ipv6Addr = "fd00::1:1234".parse().unwrap();
    let group = ndp::solicited_node(own);
    let asked = ndp::Message::Solicitation {
        target: own,
        source_mac: Some(PEER_MAC),
    };
    let bytes = frame(
        ndp::group_mac(group),
        ethernet::IPV6,
        &asked.packet(PEER_V6, group),
    );
    assert_eq!(receive(&mut link, &bytes, 0), Received::Done);
    let answers = sent(&mut link);
    assert_eq!(answers[0].0.destination, PEER_MAC);
    let said = ndp::Message::parse(own, PEER_V6, &answers[0].1[40..]).unwrap();
    let expected = ndp::Message::Advertisement {
        target: own,
        target_mac: Some(MAC),
        is_solicited: true,
        is_override: true,
    };
    assert_eq!(said, expected);
    let known = link.resolve(PEER_V6.into(), 0).unwrap();
    assert_eq!(known, Resolution::Known(PEER_MAC));

    // One that crossed a router is not believed.
    let mut routed = bytes;
    routed[14 + 7] = 254;
    receive(&mut link, &routed, 0);
    assert_eq!(
        (sent(&mut link).len(), link.counters().malformed_frames),
        (0, 1)
    );

    let other: Ipv6Addr = "fd00::5".parse().unwrap();
    assert_eq!(link.resolve(other.into(), 0).unwrap(), Resolution::Waiting);
    let asked = sent(&mut link);
    assert_eq!(
        asked[0].0.destination,
        ndp::group_mac(ndp::solicited_node(other))
    );
    let reply = ndp::Message::Advertisement {
        target: other,
        target_mac: Some(PEER_MAC),
        is_solicited: true,
        is_override: false,
    };
    let first: Ipv6Addr = "fd00::1:1".parse().unwrap();
    receive(
        &mut link,
        &frame(MAC, ethernet::IPV6, &reply.packet(other, first)),
        0,
    );
    let known = link.resolve(other.into(), 0).unwrap();
    assert_eq!(known, Resolution::Known(PEER_MAC));
}

/// An IPv4 packet from the peer.
fn packet_v4(to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut head = [0; 20];
    ipv4::write(&mut head, PEER, to, protocol, 0, 64, payload.len());
    [&head[..], payload].concat()
}

fn echo(len: usize) -> Vec<u8> {
    let mut message = vec![0x5a; 8 + len];
    message[..4].copy_from_slice(&[8, 0, 0, 0]);
    let sum = crate::wire::checksum::Sum::ZERO.bytes(&message).finish();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

#[test]
fn an_echo_is_answered_also_in_pieces_and_padded() {
    let mut link = link();
    let own = Ipv4Addr::new(10, 9, 16, 9);
    let mut whole = frame(MAC, ethernet::IPV4, &packet_v4(own, 1, &echo(100)));
    whole.extend([0xee; 7]);
    assert_eq!(receive(&mut link, &whole, 0), Received::Done);
    let (head, rest) = whole.split_at(60);
    let (second, third) = rest.split_at(13);
    let pieces = Frame {
        head,
        rest: &[second, third],
        meta: RxMeta::PLAIN,
    };
    assert_eq!(link.receive(&pieces, 0), Received::Done);
    let replies = sent(&mut link);
    assert_eq!(replies[0], replies[1]);
    let (header, packet) = &replies[0];
    let read = ipv4::read(packet).unwrap();
    assert!(ipv4::is_sum_right(packet, &read));
    assert_eq!((read.source, read.destination), (own, PEER));
    assert_eq!((header.destination, packet.len()), (PEER_MAC, 128));
    assert_eq!((packet[20], &packet[28..]), (0, &[0x5a; 100][..]));
    assert_eq!(link.counters().echoes, 2);
}

#[test]
fn packets_are_for_the_stack_when_their_address_is_ours() {
    let mut link = link();
    let own = Ipv4Addr::new(10, 9, 16, 9);
    let ours = frame(MAC, ethernet::IPV4, &packet_v4(own, 6, &[0; 20]));
    let packet = Received::Packet { is_ipv6: false };
    assert_eq!(receive(&mut link, &ours, 0), packet);
    let check = |link: &mut Link, bytes: &[u8], pick: fn(LinkCounters) -> u64| {
        let before = pick(link.counters());
        assert_eq!(receive(link, bytes, 0), Received::Done);
        assert_eq!(pick(link.counters()), before + 1);
    };
    let theirs = packet_v4(Ipv4Addr::new(10, 9, 0, 9), 6, &[0; 20]);
    check(&mut link, &frame(MAC, ethernet::IPV4, &theirs), |c| {
        c.foreign_frames
    });
    let elsewhere = frame(
        [2, 0, 0, 0, 0, 3],
        ethernet::IPV4,
        &packet_v4(own, 6, &[0; 20]),
    );
    check(&mut link, &elsewhere, |c| c.foreign_frames);
    check(&mut link, &frame(BROADCAST, 0x88cc, &[0; 20]), |c| {
        c.unknown_frames
    });
    check(&mut link, &ours[..40], |c| c.malformed_frames);
    check(&mut link, &[], |c| c.malformed_frames);
    assert_eq!(sent(&mut link), []);
}

#[test]
fn an_icmp_error_is_handed_up_only_about_a_flow_of_ours() {
    let mut link = link();
    let own = Ipv4Addr::new(10, 9, 16, 9);
    let error = |quoted_source: Ipv4Addr| {
        let mut quoted = [0; 20];
        ipv4::write(&mut quoted, quoted_source, PEER, 6, 0, 64, 20);
        let ports = [0xc0, 1, 0, 80, 0, 0, 0, 9];
        let mut message = [&[3, 4, 0, 0, 0, 0, 5, 0], &quoted[..], &ports].concat();
        let sum = crate::wire::checksum::Sum::ZERO.bytes(&message).finish();
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        frame(MAC, ethernet::IPV4, &packet_v4(own, 1, &message))
    };
    let received = receive(&mut link, &error(own), 0);
    let Received::Error { flow, problem } = received else {
        panic!("{received:?}");
    };
    assert_eq!(problem, Problem::TooBig { mtu_bytes: 1280 });
    assert_eq!(
        (flow.source, flow.source_port, flow.sequence),
        (own.into(), 0xc001, Some(9))
    );
    assert_eq!(receive(&mut link, &error(PEER), 0), Received::Done);
}

#[test]
fn somebody_with_an_address_of_ours_is_noticed_and_not_learned() {
    let mut link = link();
    let own = Ipv4Addr::new(10, 9, 16, 9);
    let claim = arp::Packet {
        sender: own,
        ..request(own)
    };
    receive(
        &mut link,
        &frame(BROADCAST, ethernet::ARP, &claim.bytes()),
        0,
    );
    assert_eq!(link.counters().conflicts, 1);
    assert_eq!(link.conflict(), Some((own.into(), PEER_MAC)));
}

#[test]
fn a_flood_of_requests_waits_in_bounded_memory() {
    let mut link = link();
    let asked = frame(
        BROADCAST,
        ethernet::ARP,
        &request(Ipv4Addr::new(10, 9, 16, 9)).bytes(),
    );
    (0..10_000).for_each(|_| {
        receive(&mut link, &asked, 0);
    });
    assert_eq!(link.waiting.len(), WAITING_MAX);
    assert_eq!(link.counters().answers_dropped, 10_000 - WAITING_MAX as u64);
}

#[test]
fn any_frame_is_received_without_panic() {
    let mut link = link();
    let mut check = |bytes: &[u8]| {
        receive(&mut link, bytes, 0);
        link.waiting.clear();
        let (head, rest) = bytes.split_at(bytes.len().min(60));
        let pieces = Frame {
            head,
            rest: &[rest],
            meta: RxMeta::PLAIN,
        };
        link.receive(&pieces, 0);
    };
    any_bytes(20, &mut check);
    let own = Ipv4Addr::new(10, 9, 16, 9);
    let asked = ndp::Message::Solicitation {
        target: "fd00::1:1".parse().unwrap(),
        source_mac: Some(PEER_MAC),
    };
    for (ether_type, packet) in [
        (ethernet::ARP, request(own).bytes().to_vec()),
        (ethernet::IPV4, packet_v4(own, 1, &echo(20))),
        (
            ethernet::IPV6,
            asked.packet(PEER_V6, "fd00::1:1".parse().unwrap()),
        ),
    ] {
        damaged(21, &frame(MAC, ether_type, &packet), &mut check);
    }
}
