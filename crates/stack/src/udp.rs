//! UDP without state: datagrams out of a list into the device, and received ones checked and handed to the program.
//!
//! Like TCP's, payload that is sent is pulled from the program ([`App::fill`]) when its packet is written. A datagram
//! whose neighbour is still being asked for waits; nothing is ever cut into fragments.

use crate::device::Device;
use crate::frame::{Checksum, Frame, PartialChecksum, TxMeta};
use crate::link::{Link, Resolution};
use crate::tcp::App;
use crate::wire::checksum;
use crate::wire::{ethernet, ip, ipv4, ipv6, udp};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Datagrams that may wait to be sent; beyond, the oldest goes.
const WAITING_MAX: usize = 1 << 16;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// Our address and port.
    pub from: SocketAddr,
    /// The peer's, of the same version of IP.
    pub to: SocketAddr,
    /// Bytes of its payload.
    pub len: u16,
    /// By which the program knows what to fill in.
    pub tag: u64,
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The peer's address and port.
    pub from: SocketAddr,
    /// Ours.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams sent.
    pub sent: u64,
    /// Bytes of their payload.
    pub sent_bytes: u64,
    /// Datagrams received whole.
    pub received: u64,
    /// Bytes of their payload.
    pub received_bytes: u64,
    /// With a wrong checksum.
    pub bad_checksums: u64,
    /// Too short, or cut into fragments.
    pub malformed: u64,
    /// A peer's host said that nobody listens at its port.
    pub port_unreachable: u64,
    /// Not sent, since the peer's link address was not found or too many waited.
    pub undelivered: u64,
}

impl UdpCounters {
    /// Names and values.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("udp_sent", self.sent),
            ("udp_sent_bytes", self.sent_bytes),
            ("udp_received", self.received),
            ("udp_received_bytes", self.received_bytes),
            ("udp_bad_checksums", self.bad_checksums),
            ("udp_malformed", self.malformed),
            ("udp_port_unreachable", self.port_unreachable),
            ("udp_undelivered", self.undelivered),
        ]
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Udp {
    waiting: VecDeque<Outgoing>,
    /// A datagram that came in pieces, put together.
    gathered: Vec<u8>,
    counters: UdpCounters,
    /// Hops that a packet may take.
    hop_limit: u8,
    traffic_class: u8,
}

impl Udp {
    /// Nothing sent, nothing received.
    pub fn new(hop_limit: u8, traffic_class: u8) -> Self {
        Udp {
            hop_limit,
            traffic_class,
            ..Udp::default()
        }
    }

    /// What was counted.
    pub fn counters(&self) -> UdpCounters {
        self.counters
    }

    /// Lets a datagram wait for the next turn of sending.
    pub fn queue(&mut self, datagram: Outgoing) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.counters.undelivered += 1;
        }
        self.waiting.push_back(datagram);
    }

    /// Datagrams wait that could be sent now, as far as is known.
    pub fn has_datagrams(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends what waits; those whose neighbour is being asked for stay. False when the device was full.
    pub(crate) fn send<D: Device, A: App>(
        &mut self,
        now_ns: u64,
        device: &mut D,
        link: &mut Link,
        app: &mut A,
    ) -> io::Result<bool> {
        let mut known: Option<(IpAddr, ethernet::MacAddress)> = None;
        for _ in 0..self.waiting.len() {
            let Some(datagram) = self.waiting.front().copied() else {
                break;
            };
            let to = datagram.to.ip();
            let mac = match known {
                Some((ip, mac)) if ip == to => mac,
                _ => match link.resolve(to, now_ns) {
                    Ok(Resolution::Known(mac)) => mac,
                    Ok(Resolution::Waiting) => {
                        self.waiting.rotate_left(1);
                        continue;
                    }
                    Err(_) => {
                        self.waiting.pop_front();
                        self.counters.undelivered += 1;
                        app.undelivered(datagram.from, datagram.to);
                        continue;
                    }
                },
            };
            known = Some((to, mac));
            if !self.write(device, link.mac(), mac, &datagram, app)? {
                return Ok(false);
            }
            self.waiting.pop_front();
            self.counters.sent += 1;
            self.counters.sent_bytes += u64::from(datagram.len);
        }
        Ok(true)
    }

    fn write<D: Device, A: App>(
        &self,
        device: &mut D,
        own: ethernet::MacAddress,
        mac: ethernet::MacAddress,
        datagram: &Outgoing,
        app: &mut A,
    ) -> io::Result<bool> {
        let finishes = device.capabilities().checksums;
        let len = udp::HEADER_BYTES + usize::from(datagram.len);
        let is_ipv6 = datagram.from.is_ipv6();
        let ip_bytes = if is_ipv6 {
            ipv6::HEADER_BYTES
        } else {
            ipv4::HEADER_BYTES
        };
        let udp_at = ethernet::HEADER_BYTES + ip_bytes;
        let headers = udp_at + udp::HEADER_BYTES;
        let total = udp_at + len;
        let (class, hops) = (self.traffic_class, self.hop_limit);
        device.transmit(total, &mut |frame| {
            let frame = &mut frame[..total];
            let link = ethernet::Header {
                destination: mac,
                source: own,
                ether_type: ethernet::ip_type(is_ipv6),
            };
            frame[..ethernet::HEADER_BYTES].copy_from_slice(&link.bytes());
            let ip = &mut frame[ethernet::HEADER_BYTES..];
            let pseudo = match (datagram.from.ip(), datagram.to.ip()) {
                (IpAddr::V4(from), IpAddr::V4(to)) => {
                    if let Some(head) = ip.first_chunk_mut() {
                        ipv4::write(head, from, to, udp::PROTOCOL, class, hops, len);
                    }
                    checksum::pseudo_v4(from, to, udp::PROTOCOL, len)
                }
                (IpAddr::V6(from), IpAddr::V6(to)) => {
                    if let Some(head) = ip.first_chunk_mut() {
                        ipv6::write(head, &from, &to, udp::PROTOCOL, class, hops, len);
                    }
                    checksum::pseudo_v6(&from, &to, udp::PROTOCOL, len)
                }
                _ => return None,
            };
            let mut header = udp::Header {
                source_port: datagram.from.port(),
                destination_port: datagram.to.port(),
                len,
                checksum: 0,
            };
            if let Some(head) = frame[udp_at..].first_chunk_mut() {
                udp::write(head, &header);
            }
            app.fill(datagram.tag, &mut frame[headers..]);
            let checksum = finishes.then_some(PartialChecksum {
                start: udp_at as u16,
                offset: udp::CHECKSUM_AT as u16,
            });
            header.checksum = match finishes {
                true => pseudo.partial(),
                false => udp::field(pseudo.bytes(&frame[udp_at..])),
            };
            if let Some(head) = frame[udp_at..].first_chunk_mut() {
                udp::write(head, &header);
            }
            let meta = TxMeta {
                checksum,
                segment_bytes: 0,
                header_bytes: headers as u16,
                is_ipv6,
            };
            Some((total, meta))
        })
    }

    /// Looks at a packet for us; false when it is no UDP.
    pub(crate) fn receive<A: App>(
        &mut self,
        frame: &Frame<'_>,
        is_ipv6: bool,
        app: &mut A,
    ) -> bool {
        let bytes = &frame.head[ethernet::HEADER_BYTES.min(frame.head.len())..];
        let header = ip::read(ethernet::ip_type(is_ipv6), bytes);
        let Some(ip) = header.filter(|ip| ip.protocol == udp::PROTOCOL) else {
            return false;
        };
        let (from, to) = (ip.source, ip.destination);
        let gathered: &[u8] = if frame.rest.is_empty() {
            bytes
        } else {
            self.gathered.clear();
            self.gathered.extend_from_slice(bytes);
            for piece in frame.rest {
                self.gathered.extend_from_slice(piece);
            }
            &self.gathered
        };
        let whole = gathered.get(ip.header_bytes..ip.total_bytes);
        let whole = whole.filter(|_| !ip.is_fragment);
        let header = whole.and_then(udp::read);
        let (Some(bytes), Some(header)) = (whole, header) else {
            self.counters.malformed += 1;
            return true;
        };
        let Some(bytes) = bytes.get(..header.len) else {
            self.counters.malformed += 1;
            return true;
        };
        let has_none = header.checksum == 0 && !is_ipv6;
        if frame.meta.checksum == Checksum::Unknown && !has_none {
            let pseudo = ip::pseudo(from, to, udp::PROTOCOL, header.len);
            // Kernels on this host leave the sum of the pseudo header to a device that is none.
            if pseudo.bytes(bytes).finish() != 0 && header.checksum != pseudo.partial() {
                self.counters.bad_checksums += 1;
                return true;
            }
        }
        self.counters.received += 1;
        self.counters.received_bytes += (header.len - udp::HEADER_BYTES) as u64;
        app.datagram(Datagram {
            from: SocketAddr::new(from, header.source_port),
            to: SocketAddr::new(to, header.destination_port),
            bytes: &bytes[udp::HEADER_BYTES..],
        });
        true
    }

    /// The peer's host has said that nobody listens where a datagram of ours went.
    pub(crate) fn refused<A: App>(&mut self, from: SocketAddr, to: SocketAddr, app: &mut A) {
        self.counters.port_unreachable += 1;
        app.undelivered(from, to);
    }
}
