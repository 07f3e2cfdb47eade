//! What a wire would carry of a frame: super-segments cut into packets, checksums finished.
//!
//! For decorators that stand where the wire would be. The device itself does the same in its own way; here it is done
//! only where a packet must be looked at alone, so nothing is fast, and all is what a receiver would see.

use crate::frame::{Checksum, RxMeta, TxMeta};
use crate::wire::checksum::Sum;
use crate::wire::ethernet::{self, HEADER_BYTES};
use crate::wire::tcp::{CHECKSUM_AT, flag};
use crate::wire::{ip, ipv6, tcp};

const UDP: u8 = 17;

/// What was left undone in a frame, whichever way it goes.
pub(super) trait Undone: Copy {
    /// Payload of each packet that was merged into it, 0 when it is one packet.
    fn segment_bytes(self) -> u16;
    /// The checksum holds only the pseudo header's sum.
    fn is_partial(self) -> bool;
    /// Of a part of the frame that is so many packets.
    fn of_packets(self, packets: usize) -> Self;
    /// Of the same frame with its checksums finished; the receiver has to verify them.
    fn finished(self) -> Self;
}

impl Undone for TxMeta {
    fn segment_bytes(self) -> u16 {
        self.segment_bytes
    }

    fn is_partial(self) -> bool {
        self.checksum.is_some()
    }

    fn of_packets(mut self, packets: usize) -> Self {
        if packets < 2 {
            self.segment_bytes = 0;
        }
        self
    }

    fn finished(mut self) -> Self {
        self.checksum = None;
        self
    }
}

impl Undone for RxMeta {
    fn segment_bytes(self) -> u16 {
        self.segment_bytes
    }

    fn is_partial(self) -> bool {
        self.checksum == Checksum::Partial
    }

    fn of_packets(mut self, packets: usize) -> Self {
        if packets < 2 {
            self.segment_bytes = 0;
        }
        self
    }

    fn finished(mut self) -> Self {
        self.checksum = Checksum::Unknown;
        self
    }
}

/// Where in a frame its layers begin.
#[derive(Clone, Copy, Debug)]
struct Layers {
    protocol: u8,
    /// Of TCP or UDP.
    at: usize,
    /// End of the IP packet: a short frame is filled up behind it.
    end: usize,
    is_ipv6: bool,
}

fn layers(frame: &[u8]) -> Option<Layers> {
    let (header, rest) = ethernet::Header::parse(frame)?;
    let ip = ip::read(header.ether_type, rest).filter(|ip| !ip.is_fragment)?;
    let layers = Layers {
        protocol: ip.protocol,
        at: HEADER_BYTES + ip.header_bytes,
        end: HEADER_BYTES + ip.total_bytes,
        is_ipv6: ip.source.is_ipv6(),
    };
    (layers.end <= frame.len()).then_some(layers)
}

/// End of the headers of a TCP packet, if it is one.
fn payload_at(frame: &[u8], layers: &Layers) -> Option<usize> {
    if layers.protocol != tcp::PROTOCOL {
        return None;
    }
    let (_, header_bytes) = tcp::read(&frame[layers.at..layers.end])?;
    Some(layers.at + header_bytes)
}

/// How many packets a wire would carry for a frame that was merged of segments of `segment_bytes`.
pub(super) fn count(frame: &[u8], segment_bytes: u16) -> usize {
    if segment_bytes == 0 {
        return 1;
    }
    let payload = layers(frame).and_then(|l| Some(l.end - payload_at(frame, &l)?));
    payload.map_or(1, |payload| {
        payload.div_ceil(usize::from(segment_bytes)).max(1)
    })
}

/// Bytes on the wire of those packets, link headers included.
pub(super) fn wire_bytes(frame: &[u8], segment_bytes: u16, packets: usize) -> usize {
    let headers = || layers(frame).and_then(|l| payload_at(frame, &l));
    match packets {
        2.. => frame.len() + (packets - 1) * headers().unwrap_or(usize::from(segment_bytes)),
        _ => frame.len(),
    }
}

/// Puts the packets `from` to `to` of a super-segment into `into`, as one frame with what was left undone in the whole.
pub(super) fn part<U: Undone>(
    frame: &[u8],
    undone: U,
    from: usize,
    to: usize,
    into: &mut Vec<u8>,
) -> U {
    into.clear();
    let left = undone.of_packets(to - from);
    let packets = count(frame, undone.segment_bytes());
    let found = layers(frame).and_then(|l| Some((l, payload_at(frame, &l)?)));
    let Some((layers, payload_at)) = found.filter(|_| packets > 1) else {
        into.extend(frame);
        return left;
    };
    let segment = usize::from(undone.segment_bytes());
    let begin = payload_at + from * segment;
    let end = (payload_at + to * segment).min(layers.end);
    into.extend(&frame[..payload_at]);
    into.extend(&frame[begin..end]);
    let tcp = &mut into[layers.at..];
    let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    let seq = seq.wrapping_add((from * segment) as u32);
    tcp[4..8].copy_from_slice(&seq.to_be_bytes());
    if from > 0 {
        // RFC 3168 6.1.2: the mark stands on one packet, the first.
        tcp[13] &= !flag::CWR;
    }
    if to < packets {
        tcp[13] &= !(flag::FIN | flag::PSH);
    }
    set_ip(into, &layers, from as u16);
    set_sum(into, undone.is_partial());
    left
}

/// Length, identification and checksum of the IP header.
fn set_ip(frame: &mut [u8], layers: &Layers, ahead: u16) {
    let bytes = frame.len() - HEADER_BYTES;
    let ip = &mut frame[HEADER_BYTES..layers.at];
    if layers.is_ipv6 {
        let payload = (bytes - ipv6::HEADER_BYTES) as u16;
        ip[4..6].copy_from_slice(&payload.to_be_bytes());
        return;
    }
    ip[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    let id = u16::from_be_bytes([ip[4], ip[5]]);
    if id != 0 {
        ip[4..6].copy_from_slice(&id.wrapping_add(ahead).to_be_bytes());
    }
    ip[10..12].fill(0);
    let sum = Sum::ZERO.bytes(ip).finish();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Finishes the checksum of a TCP or UDP packet, whatever its field holds.
pub(super) fn finish(frame: &mut [u8]) {
    set_sum(frame, false);
}

fn set_sum(frame: &mut [u8], is_partial: bool) {
    let Some(layers) = layers(frame) else {
        return;
    };
    let place = match layers.protocol {
        tcp::PROTOCOL => CHECKSUM_AT,
        UDP => 6,
        _ => return,
    };
    let at = layers.at + place;
    let len = layers.end - layers.at;
    let ip = &frame[HEADER_BYTES..];
    let pseudo = ip::read(ethernet::ip_type(layers.is_ipv6), ip)
        .map(|ip| ip::pseudo(ip.source, ip.destination, layers.protocol, len));
    let Some(pseudo) = pseudo.filter(|_| at + 2 <= layers.end) else {
        return;
    };
    frame[at..at + 2].fill(0);
    let field = if is_partial {
        pseudo.partial()
    } else {
        match pseudo.bytes(&frame[layers.at..layers.end]).finish() {
            // RFC 768: zero says that there is none.
            0 if layers.protocol == UDP => 0xffff,
            sum => sum,
        }
    };
    frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::frame::PartialChecksum;
    use crate::wire::ipv4;
    use crate::wire::tcp::{Segment, read, write};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// A frame with `payload` bytes of a pattern, as the stack would hand it to a device that segments.
    pub fn sample(is_ipv6: bool, payload: usize, segment_bytes: u16) -> (Vec<u8>, TxMeta) {
        let segment = Segment {
            source_port: 1,
            destination_port: 2,
            seq: 0xffff_f000,
            ack: 5,
            flags: flag::ACK | flag::PSH | flag::FIN | flag::CWR,
            window: 9,
            timestamps: Some((7, 8)),
            ..Segment::default()
        };
        let header = segment.header_bytes();
        let at = HEADER_BYTES + if is_ipv6 { 40 } else { 20 };
        let mut frame = vec![0; at + header];
        let len = header + payload;
        if is_ipv6 {
            frame[12..14].copy_from_slice(&[0x86, 0xdd]);
            let (a, b) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
            let ip = frame[14..].first_chunk_mut().expect("room");
            ipv6::write(ip, &a, &b, tcp::PROTOCOL, 0, 64, len);
        } else {
            frame[12..14].copy_from_slice(&[0x08, 0]);
            let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
            let ip = frame[14..].first_chunk_mut().expect("room");
            ipv4::write(ip, a, b, tcp::PROTOCOL, 0, 64, len);
        }
        write(&mut frame[at..], &segment);
        frame.extend((0..payload).map(|i| (i * 7 + i / 256) as u8));
        set_sum(&mut frame, true);
        let meta = TxMeta {
            checksum: Some(PartialChecksum {
                start: at as u16,
                offset: 16,
            }),
            segment_bytes,
            header_bytes: (at + header) as u16,
            is_ipv6,
        };
        (frame, meta)
    }

    /// The addresses' version, sequence number, flags and payload of a packet whose checksums are right.
    pub fn opened(frame: &[u8]) -> (bool, u32, u8, Vec<u8>) {
        let layers = layers(frame).expect("a packet");
        assert_eq!(layers.end, frame.len());
        if !layers.is_ipv6 {
            let ip = ipv4::read(&frame[14..]).expect("IPv4");
            assert!(ipv4::is_sum_right(&frame[14..], &ip));
        }
        let mut again = frame.to_vec();
        finish(&mut again);
        assert_eq!(again, frame, "the checksum");
        let (segment, header) = read(&frame[layers.at..]).expect("TCP");
        let payload = frame[layers.at + header..].to_vec();
        (layers.is_ipv6, segment.seq, segment.flags, payload)
    }

    #[test]
    fn a_super_segment_is_cut_into_the_packets_of_the_wire() {
        for is_ipv6 in [false, true] {
            let (frame, meta) = sample(is_ipv6, 10_000, 1_448);
            let packets = count(&frame, meta.segment_bytes);
            assert_eq!(packets, 7);
            let headers = usize::from(meta.header_bytes);
            assert_eq!(
                wire_bytes(&frame, 1_448, packets),
                10_000 + packets * headers
            );
            let (mut into, mut all) = (Vec::new(), Vec::new());
            for n in 0..packets {
                let undone = part(&frame, meta, n, n + 1, &mut into);
                assert_eq!((undone.segment_bytes, undone.is_partial()), (0, true));
                finish(&mut into);
                let (version, seq, flags, payload) = opened(&into);
                assert_eq!(version, is_ipv6);
                assert_eq!(seq, 0xffff_f000u32.wrapping_add(all.len() as u32));
                assert_eq!(flags & flag::CWR != 0, n == 0);
                let is_last = n + 1 == packets;
                assert_eq!(flags & (flag::FIN | flag::PSH) != 0, is_last);
                all.extend(payload);
            }
            assert_eq!(all, frame[headers..]);
        }
    }

    #[test]
    fn packets_that_follow_each_other_stay_one_frame() {
        let (frame, meta) = sample(false, 10_000, 1_448);
        let mut into = Vec::new();
        let undone = part(&frame, meta, 2, 5, &mut into);
        assert_eq!(undone.segment_bytes, 1_448);
        assert_eq!(count(&into, undone.segment_bytes), 3);
        let mut whole = Vec::new();
        part(&frame, meta, 0, 7, &mut whole);
        assert_eq!(whole, frame, "all of them are the frame itself");
    }

    #[test]
    fn what_is_no_packet_of_tcp_is_left_as_it_is() {
        let mut frame = vec![7; 60];
        assert_eq!(
            (count(&frame, 1_448), wire_bytes(&frame, 1_448, 1)),
            (1, 60)
        );
        finish(&mut frame);
        assert_eq!(frame, [7; 60]);
    }
}
