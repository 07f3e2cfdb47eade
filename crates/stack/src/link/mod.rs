//! The link layer: our addresses, the neighbours, and what is answered without the stack above (ARP, neighbour
//! discovery, echo).
//!
//! Sans-IO: a received frame goes into [`Link::receive`], which says what it is; what the link itself has to send waits
//! until [`Link::send`]. One link address stands for thousands of IP addresses. The surprise: packets do not wait for
//! a neighbour here. Who gets [`Resolution::Waiting`] tries again, as TCP does anyway.

mod neighbours;

use crate::address::{AddressRange, Network};
use crate::device::Device;
use crate::error::Error;
use crate::frame::{Frame, TxMeta};
use crate::wire::ethernet::{self, BROADCAST, MacAddress};
use crate::wire::icmp::{self, Flow, Problem};
use crate::wire::{arp, ip, ipv4, ipv6, ndp};
use neighbours::{Ask, Lookup, Neighbours, TRIES};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// Answers that may wait to be sent: a flood of requests is answered no faster than the device sends.
const WAITING_MAX: usize = 256;

/// Hops that a reply may take (RFC 1700's default).
const HOPS: u8 = 64;

/// Who we are on a link.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The interface, for messages.
    pub interface: String,
    /// Our link address.
    pub mac: MacAddress,
    /// Our addresses; nobody else answers for them.
    pub own: Vec<AddressRange>,
    /// What is reached without a gateway.
    pub networks: Vec<Network>,
    /// Where all else goes, one for each version of IP; without one nothing is sent outside `networks`.
    pub gateways: Vec<IpAddr>,
}

/// What the link counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames for other stations, and packets for addresses that are not ours.
    pub foreign_frames: u64,
    /// Of types that nobody here speaks (tags, LLDP, ...).
    pub unknown_frames: u64,
    /// Too short, or impossible.
    pub malformed_frames: u64,
    /// Requests and solicitations for neighbours that we sent.
    pub asked: u64,
    /// Those of others that we answered.
    pub answered: u64,
    /// Echo requests that we answered.
    pub echoes: u64,
    /// ICMP errors about our flows.
    pub icmp_errors: u64,
    /// Answers that were not sent, because too many waited.
    pub answers_dropped: u64,
    /// Times that somebody else said to have an address of ours.
    pub conflicts: u64,
}

impl LinkCounters {
    /// Names and values.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("foreign_frames", self.foreign_frames),
            ("unknown_frames", self.unknown_frames),
            ("malformed_frames", self.malformed_frames),
            ("asked", self.asked),
            ("answered", self.answered),
            ("echoes", self.echoes),
            ("icmp_errors", self.icmp_errors),
            ("answers_dropped", self.answers_dropped),
            ("conflicts", self.conflicts),
        ]
    }
}

/// What a received frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet for one of our addresses; it begins at [`ethernet::HEADER_BYTES`].
    Packet {
        /// Its version of IP is 6.
        is_ipv6: bool,
    },
    /// Something happened to a packet of ours on its way.
    Error {
        /// The flow it is about.
        flow: Flow,
        /// What happened.
        problem: Problem,
    },
    /// The link has dealt with it, or it is not for us; the counters say which.
    Done,
}

/// Where a packet must go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// To this station.
    Known(MacAddress),
    /// It is being asked for; to be tried again when something was received, or later.
    Waiting,
}

/// The link layer of one interface.
#[derive(Debug)]
pub struct Link {
    settings: Settings,
    neighbours: Neighbours,
    /// Frames of our own, ready to be sent.
    waiting: VecDeque<Vec<u8>>,
    counters: LinkCounters,
    /// The last one who said to have an address of ours.
    conflict: Option<(IpAddr, MacAddress)>,
}

impl Link {
    /// A link that knows nobody yet.
    ///
    /// # Errors
    /// [`Error::BadAddresses`] when there is no address of ours, or a gateway is on no network.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let bad = |cause: String| Error::BadAddresses {
            interface: settings.interface.clone(),
            cause,
        };
        if settings.own.is_empty() {
            return Err(bad("there is no address of ours".to_owned()));
        }
        for gateway in &settings.gateways {
            if !settings.networks.iter().any(|n| n.contains(*gateway)) {
                return Err(bad(format!(
                    "the gateway {gateway} is on none of its networks"
                )));
            }
        }
        let unusable = |range: &&AddressRange| !is_host(range.first()) || !is_host(range.last());
        if let Some(range) = settings.own.iter().find(unusable) {
            return Err(bad(format!(
                "{range} holds addresses that no host may have"
            )));
        }
        Ok(Self {
            settings,
            neighbours: Neighbours::default(),
            waiting: VecDeque::new(),
            counters: LinkCounters::default(),
            conflict: None,
        })
    }

    /// What it counted.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// The last one who said to have an address of ours, and which.
    pub fn conflict(&self) -> Option<(IpAddr, MacAddress)> {
        self.conflict
    }

    /// Our link address.
    pub fn mac(&self) -> MacAddress {
        self.settings.mac
    }

    /// The address is ours.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.settings
            .own
            .iter()
            .any(|range| range.contains(address))
    }

    /// The station to which packets for `destination` go; it is asked for when it is not known.
    ///
    /// # Errors
    /// [`Error::Unanswered`], [`Error::OutsideNetwork`], [`Error::BadTarget`].
    pub fn resolve(&mut self, destination: IpAddr, now_ns: u64) -> Result<Resolution, Error> {
        let next_hop = self.next_hop(destination)?;
        let mut asks = Asks::default();
        let lookup = self
            .neighbours
            .look_up(next_hop, now_ns, &mut |ask| asks.push(ask));
        self.ask(&asks);
        match lookup {
            Lookup::Known(mac) => Ok(Resolution::Known(mac)),
            Lookup::Waiting => Ok(Resolution::Waiting),
            Lookup::Failed => Err(Error::Unanswered {
                protocol: if next_hop.is_ipv4() {
                    "ARP"
                } else {
                    "neighbour solicitation"
                },
                address: destination,
                next_hop,
                interface: self.settings.interface.clone(),
                tries: TRIES,
            }),
        }
    }

    fn next_hop(&self, destination: IpAddr) -> Result<IpAddr, Error> {
        let bad = |cause| Error::BadTarget {
            address: destination,
            cause,
        };
        if !is_host(destination) {
            return Err(bad("it is not the address of one host"));
        }
        if self.is_own(destination) {
            return Err(bad("it is an address of ours"));
        }
        if self.source_for(destination).is_none() {
            return Err(bad("we have no address of its version of IP"));
        }
        let settings = &self.settings;
        if settings.networks.iter().any(|n| n.contains(destination)) {
            return Ok(destination);
        }
        let mut gateways = settings.gateways.iter();
        let gateway = gateways.find(|g| g.is_ipv4() == destination.is_ipv4());
        gateway.copied().ok_or_else(|| Error::OutsideNetwork {
            address: destination,
            interface: settings.interface.clone(),
            networks: shown(&settings.networks),
        })
    }

    /// An address of ours that a neighbour can answer to.
    fn source_for(&self, destination: IpAddr) -> Option<IpAddr> {
        let mut own = self.settings.own.iter();
        own.find(|range| range.first().is_ipv4() == destination.is_ipv4())
            .map(AddressRange::first)
    }

    /// When [`Link::poll`] has something to do.
    pub fn next_at(&self) -> Option<u64> {
        self.neighbours.next_at()
    }

    /// Does what is due: repeats requests that were not answered.
    pub fn poll(&mut self, now_ns: u64) {
        let mut asks = Asks::default();
        self.neighbours.poll(now_ns, &mut |ask| asks.push(ask));
        self.ask(&asks);
    }

    /// Something waits for [`Link::send`].
    pub fn has_frames(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Hands what waits to the device, as far as it has room.
    ///
    /// # Errors
    /// The device's.
    pub fn send(&mut self, device: &mut dyn Device) -> io::Result<()> {
        while let Some(frame) = self.waiting.front() {
            let is_taken = device.transmit(frame.len(), &mut |room| {
                room[..frame.len()].copy_from_slice(frame);
                Some((frame.len(), TxMeta::default()))
            })?;
            if !is_taken {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Looks at a received frame: for the stack, or dealt with here.
    pub fn receive(&mut self, frame: &Frame<'_>, now_ns: u64) -> Received {
        let Some((header, rest)) = ethernet::Header::parse(frame.head) else {
            self.counters.malformed_frames += 1;
            return Received::Done;
        };
        if header.destination != self.settings.mac && !ethernet::is_group(header.destination) {
            self.counters.foreign_frames += 1;
            return Received::Done;
        }
        match header.ether_type {
            ethernet::IPV4 => self.receive_ip(frame, rest, false, now_ns),
            ethernet::IPV6 => self.receive_ip(frame, rest, true, now_ns),
            ethernet::ARP => {
                self.receive_arp(rest, now_ns);
                Received::Done
            }
            _ => {
                self.counters.unknown_frames += 1;
                Received::Done
            }
        }
    }

    fn receive_ip(
        &mut self,
        frame: &Frame<'_>,
        rest: &[u8],
        is_ipv6: bool,
        now_ns: u64,
    ) -> Received {
        let packet_bytes = frame.len() - ethernet::HEADER_BYTES;
        let header = ip::read(ethernet::ip_type(is_ipv6), rest);
        let Some(header) = header.filter(|ip| ip.total_bytes <= packet_bytes) else {
            self.counters.malformed_frames += 1;
            return Received::Done;
        };
        let is_own = self.is_own(header.destination);
        match header.protocol {
            icmp::ICMP if !is_ipv6 && is_own => self.receive_icmp(frame, rest, &header),
            ndp::ICMPV6 if is_ipv6 => {
                if self.receive_neighbour(frame, rest, &header, now_ns) {
                    return Received::Done;
                }
                if is_own {
                    return self.receive_icmp(frame, rest, &header);
                }
                self.foreign()
            }
            _ if is_own => Received::Packet { is_ipv6 },
            _ => self.foreign(),
        }
    }

    fn foreign(&mut self) -> Received {
        self.counters.foreign_frames += 1;
        Received::Done
    }

    fn receive_arp(&mut self, bytes: &[u8], now_ns: u64) {
        let Some(packet) = arp::Packet::parse(bytes) else {
            self.counters.malformed_frames += 1;
            return;
        };
        let sender = IpAddr::from(packet.sender);
        let is_for_us = self.is_own(packet.target.into());
        self.heard(sender, packet.sender_mac, is_for_us, now_ns);
        if !is_for_us {
            self.counters.foreign_frames += 1;
        } else if packet.operation == arp::Operation::Request {
            let reply = arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: self.settings.mac,
                sender: packet.target,
                target_mac: packet.sender_mac,
                target: packet.sender,
            };
            self.counters.answered += 1;
            self.queue(packet.sender_mac, ethernet::ARP, &[&reply.bytes()]);
        }
    }

    /// Learns from what a neighbour said of itself.
    fn heard(&mut self, sender: IpAddr, mac: MacAddress, may_add: bool, now_ns: u64) {
        let is_station = !ethernet::is_group(mac) && mac != [0; 6];
        if mac == self.settings.mac || !is_station || !is_host(sender) {
            return;
        }
        if self.is_own(sender) {
            self.counters.conflicts += 1;
            self.conflict = Some((sender, mac));
            return;
        }
        let is_near = self.settings.networks.iter().any(|n| n.contains(sender));
        self.neighbours
            .heard(sender, mac, may_add && is_near, now_ns);
    }

    /// Whether it was a message of neighbour discovery, which is dealt with then.
    fn receive_neighbour(
        &mut self,
        frame: &Frame<'_>,
        rest: &[u8],
        header: &ip::Header,
        now_ns: u64,
    ) -> bool {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (header.source, header.destination)
        else {
            return false;
        };
        // These messages are short: one in pieces is none.
        let Some(bytes) = rest.get(header.header_bytes..header.total_bytes) else {
            return false;
        };
        if !matches!(bytes.first(), Some(133..=137)) {
            return false;
        }
        let is_believed = header.hops_left == ndp::HOP_LIMIT
            && frame.rest.is_empty()
            && icmp::is_whole_v6(source, destination, bytes);
        let message = is_believed.then(|| ndp::Message::parse(source, destination, bytes));
        match message.flatten() {
            Some(ndp::Message::Solicitation { target, source_mac }) => {
                self.solicited(source, target, source_mac, now_ns);
            }
            Some(ndp::Message::Advertisement {
                target,
                target_mac: Some(mac),
                is_override,
                ..
            }) => {
                // RFC 4861 7.2.5: without the flag, another address than the known one is not taken.
                let known = self.neighbours.mac(target.into());
                if is_override || known.is_none_or(|known| known == mac) {
                    self.heard(target.into(), mac, false, now_ns);
                }
            }
            Some(ndp::Message::Advertisement { .. }) => {}
            None => self.counters.malformed_frames += 1,
        }
        true
    }

    fn solicited(
        &mut self,
        source: Ipv6Addr,
        target: Ipv6Addr,
        source_mac: Option<MacAddress>,
        now_ns: u64,
    ) {
        let is_for_us = self.is_own(target.into());
        if let Some(mac) = source_mac {
            self.heard(source.into(), mac, is_for_us, now_ns);
        }
        if !is_for_us {
            self.counters.foreign_frames += 1;
            return;
        }
        // RFC 4861 7.2.4: a probe for duplicates is answered to all nodes.
        let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let is_probe = source.is_unspecified();
        let to = if is_probe { all_nodes } else { source };
        let known = source_mac.or_else(|| self.neighbours.mac(source.into()));
        let Some(mac) = (if is_probe {
            Some(ndp::group_mac(all_nodes))
        } else {
            known
        }) else {
            return;
        };
        let said = ndp::Message::Advertisement {
            target,
            target_mac: Some(self.settings.mac),
            is_solicited: !is_probe,
            is_override: true,
        };
        self.counters.answered += 1;
        self.queue(mac, ethernet::IPV6, &[&said.packet(target, to)]);
    }

    fn receive_icmp(&mut self, frame: &Frame<'_>, rest: &[u8], header: &ip::Header) -> Received {
        if header.is_fragment {
            return self.foreign();
        }
        // An echo may be as long as the MTU: for once the pieces are put together.
        let gathered: Vec<u8>;
        let packet = if frame.rest.is_empty() {
            &rest[..header.total_bytes]
        } else {
            let rest: Vec<&[u8]> = [&[rest], frame.rest].concat();
            gathered = rest.concat();
            &gathered[..header.total_bytes]
        };
        let bytes = &packet[header.header_bytes..];
        let message = match (header.source, header.destination) {
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                icmp::parse_v6(source, destination, bytes)
            }
            _ => icmp::parse_v4(bytes),
        };
        match message {
            Some(icmp::Message::EchoRequest) => self.answer_echo(frame, header, bytes),
            Some(icmp::Message::Error { flow, problem }) if self.is_own(flow.source) => {
                self.counters.icmp_errors += 1;
                Received::Error { flow, problem }
            }
            _ => self.foreign(),
        }
    }

    /// The reply goes back to the station that the request came from: it needs no neighbour.
    fn answer_echo(&mut self, frame: &Frame<'_>, header: &ip::Header, bytes: &[u8]) -> Received {
        let station = ethernet::Header::parse(frame.head).map(|(ethernet, _)| ethernet.source);
        let Some(station) = station.filter(|mac| !ethernet::is_group(*mac)) else {
            return self.foreign();
        };
        let mut message = bytes.to_vec();
        icmp::answer_echo(&mut message);
        self.counters.echoes += 1;
        match (header.source, header.destination) {
            (IpAddr::V4(peer), IpAddr::V4(own)) => {
                let mut head = [0; ipv4::HEADER_BYTES];
                ipv4::write(&mut head, own, peer, icmp::ICMP, 0, HOPS, message.len());
                self.queue(station, ethernet::IPV4, &[&head, &message]);
            }
            (IpAddr::V6(peer), IpAddr::V6(own)) => {
                let mut head = [0; ipv6::HEADER_BYTES];
                ipv6::write(&mut head, &own, &peer, ndp::ICMPV6, 0, HOPS, message.len());
                self.queue(station, ethernet::IPV6, &[&head, &message]);
            }
            _ => {}
        }
        Received::Done
    }

    fn ask(&mut self, asks: &Asks) {
        for Ask { address, mac } in asks {
            let Some(source) = self.source_for(*address) else {
                continue;
            };
            self.counters.asked += 1;
            match (source, *address) {
                (IpAddr::V4(sender), IpAddr::V4(target)) => {
                    let request = arp::Packet {
                        operation: arp::Operation::Request,
                        sender_mac: self.settings.mac,
                        sender,
                        target_mac: [0; 6],
                        target,
                    };
                    let to = mac.unwrap_or(BROADCAST);
                    self.queue(to, ethernet::ARP, &[&request.bytes()]);
                }
                (IpAddr::V6(source), IpAddr::V6(target)) => {
                    let message = ndp::Message::Solicitation {
                        target,
                        source_mac: Some(self.settings.mac),
                    };
                    let group = ndp::solicited_node(target);
                    let (to, station) = match mac {
                        Some(mac) => (target, *mac),
                        None => (group, ndp::group_mac(group)),
                    };
                    self.queue(station, ethernet::IPV6, &[&message.packet(source, to)]);
                }
                _ => {}
            }
        }
    }

    fn queue(&mut self, destination: MacAddress, ether_type: u16, pieces: &[&[u8]]) {
        if self.waiting.len() >= WAITING_MAX {
            self.counters.answers_dropped += 1;
            return;
        }
        let header = ethernet::Header {
            destination,
            source: self.settings.mac,
            ether_type,
        };
        let mut frame = header.bytes().to_vec();
        pieces
            .iter()
            .for_each(|piece| frame.extend_from_slice(piece));
        self.waiting.push_back(frame);
    }
}

/// Requests that a call has found to be due; mostly none, which allocates nothing.
type Asks = Vec<Ask>;

/// One host may have it: no group, not everyone, not nobody.
fn is_host(address: IpAddr) -> bool {
    let is_everyone = matches!(address, IpAddr::V4(a) if a.is_broadcast());
    !address.is_multicast() && !address.is_unspecified() && !is_everyone
}

fn shown(networks: &[Network]) -> String {
    let shown: Vec<String> = networks.iter().map(Network::to_string).collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests;
