//! A capture file to segments of TCP: pcap and pcapng, with the link types that tcpdump writes.
//!
//! In the flow: `replay` puts the segments of one flow back in order. What is no TCP is counted and left out, so that a
//! capture of a whole interface can be given.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::net::{IpAddr, SocketAddr};

/// Room for the largest block: tcpdump keeps at most 256 KiB of a frame.
const BLOCK_BYTES: usize = 1 << 20;

/// One segment as captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Nanoseconds, in the capture's own time.
    pub at_ns: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub sequence: u32,
    /// Of the other direction; `None` without the flag.
    pub acknowledged: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    pub payload: Vec<u8>,
    /// The capture keeps only the beginning of the frame.
    pub is_cut: bool,
}

/// What a capture holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Capture {
    /// In the order of the file.
    pub segments: Vec<Segment>,
    /// Frames that are no TCP over IP, or none that could be read.
    pub others: usize,
}

/// An interface of a pcapng file.
#[derive(Clone, Copy)]
struct Interface {
    link: Linktype,
    offset_s: i64,
    per_s: u64,
}

/// All segments of a capture.
///
/// # Errors
/// Why the file is no capture, or where it ends too early.
pub(super) fn read(bytes: &[u8]) -> Result<Capture, String> {
    let mut reader = create_reader(BLOCK_BYTES, bytes)
        .map_err(|_| "it is neither a pcap nor a pcapng file".to_owned())?;
    let mut capture = Capture::default();
    let mut interfaces: Vec<Interface> = Vec::new();
    let (mut link, mut per_s) = (Linktype::ETHERNET, 1_000_000);
    // What was asked for and did not come: the file ends there.
    let mut refilled = false;
    loop {
        let used = match reader.next() {
            Ok((used, block)) => {
                refilled = false;
                match block {
                    PcapBlockOwned::LegacyHeader(header) => {
                        link = header.network;
                        per_s = match header.is_nanosecond_precision() {
                            true => 1_000_000_000,
                            false => 1_000_000,
                        };
                    }
                    PcapBlockOwned::Legacy(frame) => {
                        let at_ns =
                            time_ns(u64::from(frame.ts_sec), u64::from(frame.ts_usec), per_s);
                        let is_cut = frame.caplen < frame.origlen;
                        take(&mut capture, link, at_ns, is_cut, frame.data);
                    }
                    PcapBlockOwned::NG(block) => {
                        take_block(&mut capture, &mut interfaces, &block);
                    }
                }
                used
            }
            Err(PcapError::Eof) => return Ok(capture),
            Err(PcapError::Incomplete(_)) if !refilled => {
                refilled = true;
                reader.refill().map_err(|_| ends_early())?;
                continue;
            }
            Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => return Err(ends_early()),
            Err(PcapError::BufferTooSmall) => {
                return Err(format!("it has a block of more than {BLOCK_BYTES} bytes"));
            }
            Err(_) => return Err("it is damaged: a block is not what it says".to_owned()),
        };
        reader.consume(used);
    }
}

fn ends_early() -> String {
    "it ends in the middle of a frame: the capture was stopped before it was written".to_owned()
}

/// Nanoseconds of seconds and a fraction of which there are `per_s`.
fn time_ns(seconds: u64, fraction: u64, per_s: u64) -> u64 {
    let fraction = u128::from(fraction) * 1_000_000_000 / u128::from(per_s.max(1));
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(fraction).unwrap_or(0))
}

fn take_block(capture: &mut Capture, interfaces: &mut Vec<Interface>, block: &Block<'_>) {
    match block {
        // Each section counts its interfaces anew.
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(one) => interfaces.push(Interface {
            link: one.linktype,
            offset_s: one.ts_offset(),
            per_s: one.ts_resolution().unwrap_or(1_000_000),
        }),
        Block::EnhancedPacket(frame) => {
            let Some(one) = interfaces.get(frame.if_id as usize) else {
                capture.others += 1;
                return;
            };
            let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
            let seconds = (ticks / one.per_s.max(1)).saturating_add_signed(one.offset_s);
            let at_ns = time_ns(seconds, ticks % one.per_s.max(1), one.per_s);
            let data = &frame.data[..frame.data.len().min(frame.caplen as usize)];
            take(capture, one.link, at_ns, frame.caplen < frame.origlen, data);
        }
        // Without a time: the bytes are there, the pauses are not.
        Block::SimplePacket(frame) => match interfaces.first() {
            Some(one) => {
                let is_cut = (frame.data.len() as u32) < frame.origlen;
                let data = &frame.data[..frame.data.len().min(frame.origlen as usize)];
                take(capture, one.link, 0, is_cut, data);
            }
            None => capture.others += 1,
        },
        _ => {}
    }
}

/// Bytes before the IP header of the link types whose header says nothing else that matters here.
fn before_ip(link: Linktype) -> Option<usize> {
    match link {
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Some(0),
        Linktype::NULL | Linktype::LOOP => Some(4),
        // Version 2 of Linux' "cooked" frames.
        Linktype(276) => Some(20),
        _ => None,
    }
}

fn take(capture: &mut Capture, link: Linktype, at_ns: u64, is_cut: bool, frame: &[u8]) {
    match segment(link, at_ns, is_cut, frame) {
        Some(segment) => capture.segments.push(segment),
        None => capture.others += 1,
    }
}

fn segment(link: Linktype, at_ns: u64, is_cut: bool, frame: &[u8]) -> Option<Segment> {
    let sliced = match (link, before_ip(link)) {
        (Linktype::ETHERNET, _) => SlicedPacket::from_ethernet(frame).ok()?,
        (Linktype::LINUX_SLL, _) => SlicedPacket::from_linux_sll(frame).ok()?,
        (_, Some(before)) => SlicedPacket::from_ip(frame.get(before..)?).ok()?,
        _ => return None,
    };
    let (from, to): (IpAddr, IpAddr) = match sliced.net? {
        NetSlice::Ipv4(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Ipv6(ip) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        NetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        return None;
    };
    Some(Segment {
        at_ns,
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
        syn: tcp.syn(),
        fin: tcp.fin(),
        rst: tcp.rst(),
        payload: tcp.payload().to_vec(),
        is_cut,
    })
}

#[cfg(test)]
pub(super) mod made {
    //! Captures made by hand, frame by frame.

    use etherparse::PacketBuilder;

    /// One frame: milliseconds, whether the client sends, relative sequence and acknowledgement, flags, payload.
    pub type Frame<'a> = (u64, bool, u32, u32, &'a str, &'a [u8]);

    const CLIENT: ([u8; 4], u16, u32) = ([10, 0, 0, 1], 40_000, 0xffff_fff0);
    const SERVER: ([u8; 4], u16, u32) = ([10, 0, 0, 2], 80, 1_000);

    fn ethernet(frame: &Frame<'_>) -> Vec<u8> {
        let (_, is_client, sequence, ack, flags, payload) = *frame;
        let (from, to) = if is_client {
            (CLIENT, SERVER)
        } else {
            (SERVER, CLIENT)
        };
        let mut tcp = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(from.0, to.0, 64)
            .tcp(from.1, to.1, from.2.wrapping_add(sequence), 65_000);
        for flag in flags.chars() {
            tcp = match flag {
                'S' => tcp.syn(),
                'F' => tcp.fin(),
                'R' => tcp.rst(),
                _ => tcp.ack(to.2.wrapping_add(ack)),
            };
        }
        let mut bytes = Vec::new();
        tcp.write(&mut bytes, payload)
            .expect("a vector takes all bytes");
        bytes
    }

    /// A classic file, as `tcpdump -w` writes it.
    pub fn pcap(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
            file.extend(word.to_le_bytes());
        }
        for frame in frames {
            let (bytes, us) = (ethernet(frame), frame.0 * 1_000);
            let len = bytes.len() as u32;
            for word in [(us / 1_000_000) as u32, (us % 1_000_000) as u32, len, len] {
                file.extend(word.to_le_bytes());
            }
            file.extend(bytes);
        }
        file
    }

    /// The same as Wireshark writes it.
    pub fn pcapng(frames: &[Frame<'_>]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let len = 12 + body.len() as u32;
            for part in [
                &kind.to_le_bytes(),
                &len.to_le_bytes(),
                body,
                &len.to_le_bytes(),
            ] {
                file.extend_from_slice(part);
            }
        };
        let words = |words: &[u32]| {
            words
                .iter()
                .flat_map(|w| w.to_le_bytes())
                .collect::<Vec<u8>>()
        };
        block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        block(1, &words(&[1, 262_144]));
        for frame in frames {
            let (bytes, us) = (ethernet(frame), frame.0 * 1_000);
            let len = bytes.len() as u32;
            let mut body = words(&[0, (us >> 32) as u32, us as u32, len, len]);
            body.extend(&bytes);
            body.resize(body.len().next_multiple_of(4), 0);
            block(6, &body);
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_say_the_same() {
        let frames: [made::Frame<'_>; 2] = [
            (1_500, true, 0, 0, "S", b""),
            (2_000, false, 0, 1, "SA", b""),
        ];
        let classic = read(&made::pcap(&frames)).unwrap();
        assert_eq!(classic, read(&made::pcapng(&frames)).unwrap());
        assert_eq!(classic.segments[0].at_ns, 1_500_000_000);
        assert_eq!(classic.segments[0].from.to_string(), "10.0.0.1:40000");
        assert_eq!(classic.segments[1].acknowledged, Some(0xffff_fff1));
    }

    #[test]
    fn what_is_no_capture_is_refused_with_the_reason() {
        let whole = made::pcap(&[(0, true, 0, 0, "S", b"")]);
        for (bytes, why) in [
            (
                &b"GET / HTTP/1.1\r\n\r\n"[..],
                "neither a pcap nor a pcapng",
            ),
            (&b""[..], "neither"),
            (&whole[..whole.len() - 3], "ends in the middle of a frame"),
        ] {
            assert!(read(bytes).unwrap_err().contains(why), "{why}");
        }
        let cut = &whole[..24];
        assert_eq!(
            read(cut),
            Ok(Capture::default()),
            "a capture without a frame"
        );
    }
}
