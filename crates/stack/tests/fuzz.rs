//! Seeded mutation of frames, and sequences of segments against a connection: nothing panics, no byte is wrong, nothing
//! is sent that was not promised or that the peer has no room for, and nothing is left.
//!
//! All of a case's chance comes from its seed, which a failure names. The canaries plant a fault in a copy of each
//! property and fail unless it is found. Bounded here; `make stack-long` goes on for minutes with new seeds.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod common;

use common::script::{OURS, PEERS, PEERS_MAC, frame};
use common::{Port, byte};
use stack::device::Device;
use stack::device::capture::Capture;
use stack::device::fault::{Fault, Faults};
use stack::device::loopback;
use stack::device::queues::{self, Owners};
use stack::frame::{Frame, RxMeta, TxMeta};
use stack::host::Host;
use stack::link;
use stack::random::Random;
use stack::tcp::{App, Ended, Event, FlowId, Settings, Stack};
use stack::wire::tcp::{Segment, flag, read};
use std::net::{IpAddr, SocketAddr};
use std::panic::{RefUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The first seed at which a property panics.
fn fuzz(
    seeds: impl IntoIterator<Item = u64>,
    property: impl Fn(u64) + RefUnwindSafe,
) -> Option<u64> {
    seeds
        .into_iter()
        .find(|&seed| catch_unwind(|| property(seed)).is_err())
}

/// Seeds that the bounded tests do not have, until the time is over.
fn for_so_long(time: Duration) -> impl Iterator<Item = u64> {
    let began = Instant::now();
    (1_000_000..).take_while(move |_| began.elapsed() < time)
}

// ---- Frames ----

/// Valid frames of every kind, for mutants that get past the first header.
fn seeds() -> Vec<Vec<u8>> {
    let head = |ether_type: [u8; 2]| {
        let mut bytes = [[2, 0, 0, 0, 0, 1], PEERS_MAC].concat();
        bytes.extend(ether_type);
        bytes
    };
    let (ours, peers) = (OURS.octets(), PEERS.octets());
    let arp = |operation| {
        let mut bytes = head([8, 6]);
        bytes.extend([0, 1, 8, 0, 6, 4, 0, operation]);
        bytes.extend([&PEERS_MAC[..], &peers, &[0; 6], &ours].concat());
        bytes
    };
    let syn = Segment {
        source_port: 4_000,
        destination_port: 80,
        flags: flag::SYN,
        window: 60_000,
        mss: 1_460,
        sack_permitted: true,
        window_scale: Some(7),
        timestamps: Some((1, 2)),
        ..Segment::default()
    };
    let mut data = syn;
    (data.flags, data.mss, data.window_scale) = (flag::ACK, 0, None);
    data.sack_permitted = false;
    data.sack_count = 2;
    let with_protocol = |protocol: u8, body: &[u8]| {
        let mut bytes = frame(&syn, &[], 0);
        bytes.truncate(34);
        bytes[23] = protocol;
        bytes.extend(body);
        let total = (bytes.len() - 14) as u16;
        bytes[16..18].copy_from_slice(&total.to_be_bytes());
        bytes
    };
    // An error about a segment of ours, quoted.
    let quoted = [&[3, 4, 0, 0, 0, 0, 2, 88][..], &frame(&data, &[], 0)[14..]].concat();
    let v6 = |next: u8, body: &[u8]| {
        let mut bytes = head([0x86, 0xdd]);
        bytes.extend([0x60, 0, 0, 0, 0, body.len() as u8, next, 255]);
        bytes.extend("fd00::2".parse::<std::net::Ipv6Addr>().unwrap().octets());
        bytes.extend("fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
        bytes.extend(body);
        bytes
    };
    let mut solicitation = vec![135, 0, 0, 0, 0, 0, 0, 0];
    solicitation.extend("fd00::1".parse::<std::net::Ipv6Addr>().unwrap().octets());
    solicitation.extend([&[1, 1][..], &PEERS_MAC].concat());
    vec![
        arp(1),
        arp(2),
        frame(&syn, &[], 0),
        frame(&data, &[7; 300], 0),
        frame(&data, &[7; 9_000], 0),
        with_protocol(1, &[8, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9]),
        with_protocol(1, &quoted),
        with_protocol(17, &[0, 53, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4]),
        v6(58, &solicitation),
        v6(6, &frame(&data, &[7; 200], 0)[34..]),
        v6(17, &[0, 53, 0, 80, 0, 12, 0, 0, 1, 2, 3, 4]),
        v6(0, &[6, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]),
    ]
}

fn mutant(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len() as u32) as usize].clone();
    for _ in 0..random.below(5) {
        let at = random.below(bytes.len() as u32 + 1) as usize;
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes
                .splice(at..at, [random.next_u32() as u8])
                .for_each(drop),
            2 if at + 2 <= bytes.len() => {
                // Lengths that are nearly right, and ends of ranges.
                let value = [0, 1, 19, 20, 0x7fff, 0xfffe, 0xffff][random.below(7) as usize];
                bytes[at..at + 2].copy_from_slice(&u16::to_be_bytes(value));
            }
            _ if at < bytes.len() => bytes[at] = random.next_u32() as u8,
            _ => {}
        }
    }
    bytes
}

struct Quiet;

impl App for Quiet {
    fn pull(&mut self, _: FlowId, _: u32, _: u64, into: &mut [u8]) {
        into.fill(1);
    }
    fn received(&mut self, stack: &mut Stack, flow: FlowId, _: u32, bytes: &[u8]) {
        stack.send(flow, bytes.len());
    }
    fn event(&mut self, stack: &mut Stack, flow: FlowId, _: u32, event: Event) {
        if event == Event::PeerClosed {
            stack.close(flow);
        }
    }
}

/// Frames that nobody sane sends, through every decorator, into a whole host; `see` is told of each.
fn frames(seed: u64, see: impl Fn(&[u8])) {
    let mut random = Random::new(seed);
    let seeds = seeds();
    let wire = loopback::Settings::default();
    let (mut there, here) = loopback::pair(&wire);
    let (_, other) = loopback::pair(&wire);
    let mut joined = queues::join(vec![here, other], &Owners::Peers).unwrap();
    drop(joined.pop());
    let faults = Faults {
        loss: 0.05,
        duplicate: 0.1,
        reorder: 0.1,
        corrupt: 0.1,
        ..Faults::default()
    };
    let mut now = 0;
    let faulty = Fault::new(joined.remove(0), faults, faults, seed, || 0);
    let device = Capture::new(faulty, Vec::new(), 96, || 0);
    let link = link::Settings {
        interface: "lo".to_owned(),
        mac: [0; 6],
        own: vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
        networks: vec!["10.0.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
        gateways: vec![],
    };
    let locals: [IpAddr; 2] = [OURS.into(), "fd00::1".parse().unwrap()];
    let settings = Settings {
        flows_max: 64,
        ..Settings::default()
    };
    // Its own link address is 2; what comes is for 1.
    let mut host = Host::new(device, &link, settings, &locals, seed, now).unwrap();
    host.stack.listen(80);
    for _ in 0..60 {
        let mut bytes = mutant(&mut random, &seeds);
        if random.below(8) > 0 && bytes.len() >= 6 {
            bytes[5] = 2;
        }
        see(&bytes);
        let meta = TxMeta {
            checksum: (random.below(3) == 0).then_some(stack::frame::PartialChecksum {
                start: 34,
                offset: 16,
            }),
            segment_bytes: [0, 0, 1, 500, 1_448][random.below(5) as usize],
            ..TxMeta::default()
        };
        there
            .transmit(bytes.len(), &mut |room| {
                room.copy_from_slice(&bytes);
                Some((bytes.len(), meta))
            })
            .unwrap();
        there.flush().unwrap();
        now += u64::from(random.below(20_000_000));
        host.receive(now, 100, &mut Quiet).unwrap();
        host.send(now, &mut Quiet).unwrap();
        there.receive(1_000, &mut |_| ()).unwrap();
    }
    host.end(now, &mut Quiet);
    assert_eq!(host.stack.flows(), 0);
}

#[test]
fn no_frame_breaks_a_host_or_a_decorator() {
    assert_eq!(fuzz(0..200, |seed| frames(seed, |_| ())), None, "this seed");
}

#[test]
fn the_fuzz_of_frames_finds_a_planted_fault() {
    let fails_at_resets_from_v6 = |bytes: &[u8]| {
        let is_v6 = bytes.get(12..14) == Some(&[0x86, 0xdd]);
        let resets = bytes.get(67).is_some_and(|flags| flags & flag::RST != 0);
        assert!(!is_v6 || !resets || bytes[20] != 6, "planted");
    };
    assert!(fuzz(0..400, |seed| frames(seed, fails_at_resets_from_v6)).is_some());
}

// ---- Sequences of segments ----

/// The program: what it gets must be the peer's stream.
#[derive(Default)]
struct Watch {
    flow: Option<FlowId>,
    got: u64,
    promised: u64,
    acked: u64,
    ended: Option<Ended>,
    peer_closed: bool,
}

impl App for Watch {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        assert!(offset + into.len() as u64 <= self.promised && offset >= self.acked);
        into.iter_mut()
            .zip(offset..)
            .for_each(|(b, at)| *b = byte(7, at));
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, bytes: &[u8]) {
        assert!(!self.peer_closed && self.ended.is_none());
        for got in bytes {
            assert_eq!(*got, byte(9, self.got));
            self.got += 1;
        }
    }

    fn event(&mut self, _: &mut Stack, flow: FlowId, _: u32, event: Event) {
        match event {
            Event::Accepted => self.flow = Some(flow),
            Event::Connected => {}
            Event::Acked { offset } => {
                assert!(offset > self.acked && offset <= self.promised);
                self.acked = offset;
            }
            Event::PeerClosed => self.peer_closed = true,
            Event::Ended(why) => assert!(self.ended.replace(why).is_none(), "once"),
        }
    }
}

/// The peer: its stream's bytes are right, its numbers and windows are what chance says.
struct Peer {
    random: Random,
    is_server: bool,
    iss: u32,
    /// Ours, when it was seen.
    our_iss: Option<u32>,
    our_port: u16,
    /// Of our stream, how far we have sent.
    sent: u64,
    /// How far we may at most: the furthest edge that was ever told.
    edge: u64,
    shift: u8,
    /// The furthest of its own stream that was ever sent.
    furthest: u64,
    /// Its stream ends here, when it has said so.
    fin_at: Option<u64>,
}

const WINDOW: u32 = 200_000;

impl Peer {
    fn around(&mut self, at: u64) -> u64 {
        match self.random.below(8) {
            0..=3 => at,
            4 => at + u64::from(self.random.below(3_000)),
            5 => at.saturating_sub(u64::from(self.random.below(3_000))),
            6 => at + u64::from(self.random.below(300_000)),
            _ => at.saturating_sub(1),
        }
    }

    fn syn(&mut self) -> Vec<u8> {
        self.shift = self.random.below(4) as u8;
        let with_ack = !self.is_server;
        self.edge = self.edge.max(60_000);
        let segment = Segment {
            seq: self.iss,
            ack: self.our_iss.map_or(0, |iss| iss.wrapping_add(1)),
            flags: flag::SYN | if with_ack { flag::ACK } else { 0 },
            window: 60_000,
            mss: 300 + self.random.below(1_161) as u16,
            window_scale: Some(self.shift),
            sack_permitted: self.random.below(3) > 0,
            ..self.ports()
        };
        frame(&segment, &[], 0)
    }

    fn ports(&self) -> Segment {
        Segment {
            source_port: if self.is_server { 4_000 } else { 80 },
            destination_port: self.our_port,
            ..Segment::default()
        }
    }

    /// A segment of an open connection.
    fn segment(&mut self, got: u64, has_ended: bool) -> Vec<u8> {
        let begin = self.around(got);
        let mut len = match self.random.below(4) {
            0 => 0,
            _ => u64::from(self.random.below(1_400)),
        };
        let mut flags = flag::ACK;
        if let Some(end) = self.fin_at {
            len = len.min(end.saturating_sub(begin));
            if begin + len == end && self.random.below(2) == 0 {
                flags |= flag::FIN;
            }
        } else if self.random.below(40) == 0 && begin + len >= self.furthest {
            self.fin_at = Some(begin + len);
            flags |= flag::FIN;
        }
        self.furthest = self.furthest.max(begin + len);
        let ack = self.around(self.sent);
        let window = self.random.next_u32() as u16 >> self.random.below(16);
        if ack <= self.sent + 1 || has_ended {
            self.edge = self.edge.max(ack + (u64::from(window) << self.shift));
        }
        let mut segment = Segment {
            seq: self.iss.wrapping_add(1).wrapping_add(begin as u32),
            ack: self
                .our_iss
                .unwrap_or(0)
                .wrapping_add(1)
                .wrapping_add(ack as u32),
            flags,
            window,
            ..self.ports()
        };
        for _ in 0..self.random.below(4) {
            let from = self.around(self.sent) as u32;
            let base = self.our_iss.unwrap_or(0).wrapping_add(1);
            let to = from.wrapping_add(self.random.below(4_000));
            segment.sack[usize::from(segment.sack_count)] =
                (base.wrapping_add(from), base.wrapping_add(to));
            segment.sack_count += 1;
        }
        // One in many is no sane segment at all.
        match self.random.below(200) {
            0 => segment.flags = self.random.next_u32() as u8 & !flag::RST,
            1 => segment.flags |= flag::RST,
            _ => {}
        }
        if segment.flags & (flag::SYN | flag::FIN) != flags & (flag::SYN | flag::FIN) {
            // Its stream stays what it is.
            segment.flags &= !(flag::FIN | flag::SYN);
        }
        let payload: Vec<u8> = (begin..begin + len).map(|at| byte(9, at)).collect();
        frame(&segment, &payload, 0)
    }

    /// Looks at what we have sent.
    fn see(&mut self, bytes: &[u8], app: &Watch) -> Segment {
        let (segment, header) = read(&bytes[34..]).unwrap();
        if segment.has(flag::SYN) {
            self.our_iss = Some(segment.seq);
            self.our_port = segment.source_port;
            return segment;
        }
        let payload = &bytes[34 + header..];
        let Some(iss) = self.our_iss.filter(|_| !segment.has(flag::RST)) else {
            return segment;
        };
        let offset = u64::from(segment.seq.wrapping_sub(iss).wrapping_sub(1));
        let end = offset + payload.len() as u64;
        if !payload.is_empty() {
            assert!(end <= app.promised, "what was not promised");
            let right = payload.iter().zip(offset..);
            right.for_each(|(b, at)| assert_eq!(*b, byte(7, at)));
            assert!(
                end <= self.edge + 1,
                "up to {end}, and there is room up to {}",
                self.edge
            );
            self.sent = self.sent.max(end);
        }
        if segment.has(flag::ACK) && app.flow.is_some() {
            let acked = u64::from(segment.ack.wrapping_sub(self.iss).wrapping_sub(1));
            let is_of_stream = acked != u64::from(u32::MAX);
            let end = self.furthest + u64::from(self.fin_at.is_some());
            assert!(
                !is_of_stream || acked <= end,
                "acknowledged {acked} of {end}"
            );
        }
        segment
    }
}

/// Hands a frame over, in two pieces when it is longer than its first one.
fn deliver(stack: &mut Stack, app: &mut Watch, now: u64, bytes: &[u8], cut: usize) {
    let (head, rest) = bytes.split_at(bytes.len().min(74 + cut));
    let rest = [rest];
    let rest = if rest[0].is_empty() { &[][..] } else { &rest };
    let meta = RxMeta::PLAIN;
    stack.input(now, Frame { head, rest, meta }, app);
}

/// One connection, a client's or a server's, and what chance makes of its peer; `see` is told of what is sent.
fn segments(seed: u64, see: impl Fn(&Segment)) {
    let mut random = Random::new(seed);
    let is_server = random.below(2) == 0;
    let settings = Settings {
        flows_max: 8,
        receive_window_bytes: WINDOW,
        timestamps: false,
        nagle: random.below(4) == 0,
        sack: random.below(4) > 0,
        keep_out_of_order: random.below(4) > 0,
        reassembly_chunks_max: 1 + random.below(200),
        time_wait_ms: 500,
        ..Settings::default()
    };
    let mut port = Port::new(1, random.below(2) == 0);
    let mut stack = Stack::new(settings, &port.capabilities, &[OURS.into()], seed, 0);
    let mut app = Watch::default();
    let mut peer = Peer {
        iss: random.next_u32(),
        is_server,
        our_iss: None,
        our_port: 80,
        sent: 0,
        edge: 0,
        shift: 0,
        furthest: 0,
        fin_at: None,
        random: Random::new(seed ^ 0xfeed),
    };
    let mut now = 0;
    let mut turn = |stack: &mut Stack, app: &mut Watch, peer: &mut Peer, now: u64| {
        stack.poll(now, &mut port, app).unwrap();
        for ip in stack.take_unresolved() {
            stack.set_link_address(ip, PEERS_MAC);
            stack.poll(now, &mut port, app).unwrap();
        }
        for (bytes, _) in port.sent.drain(..) {
            see(&peer.see(&bytes, app));
        }
    };
    stack.listen(80);
    if !is_server {
        let to = SocketAddr::from((PEERS, 80));
        app.flow = Some(stack.connect(now, 0, to, 0).unwrap());
        turn(&mut stack, &mut app, &mut peer, now);
    }
    let syn = peer.syn();
    deliver(&mut stack, &mut app, now, &syn, 0);
    turn(&mut stack, &mut app, &mut peer, now);
    for _ in 0..300 {
        now += u64::from(random.below(50_000_000)) >> random.below(12);
        if let Some(flow) = app.flow.filter(|_| app.ended.is_none()) {
            match random.below(12) {
                0..=2 => app.promised += stack.send(flow, random.below(9_000) as usize) as u64,
                3 => stack.set_receive_window(flow, random.below(WINDOW)),
                4 if random.below(20) == 0 => stack.close(flow),
                _ => {}
            }
        }
        let bytes = peer.segment(app.got, app.ended.is_some());
        let cut = random.below(100) as usize;
        deliver(&mut stack, &mut app, now, &bytes, cut);
        assert!(app.got <= peer.furthest);
        turn(&mut stack, &mut app, &mut peer, now);
    }
    stack.abort_all();
    turn(&mut stack, &mut app, &mut peer, now);
    stack.abort_all();
    turn(&mut stack, &mut app, &mut peer, now);
    assert!(stack.is_empty(), "{} flows are left", stack.flows());
}

#[test]
fn no_sequence_of_segments_breaks_a_connection() {
    assert_eq!(
        fuzz(0..600, |seed| segments(seed, |_| ())),
        None,
        "this seed"
    );
}

#[test]
fn the_fuzz_of_segments_finds_planted_faults() {
    let never_ends = |segment: &Segment| assert!(!segment.has(flag::FIN), "planted");
    assert!(fuzz(0..200, |seed| segments(seed, never_ends)).is_some());
    let never_two_blocks = |segment: &Segment| assert!(segment.sack_count < 2, "planted");
    assert!(fuzz(0..200, |seed| segments(seed, never_two_blocks)).is_some());
}

#[test]
#[ignore = "long: make stack-long"]
fn minutes_of_frames_and_segments_break_nothing() {
    let half = Duration::from_secs(120);
    let quiet = |_: &Segment| ();
    assert_eq!(fuzz(for_so_long(half), |seed| segments(seed, quiet)), None);
    assert_eq!(fuzz(for_so_long(half), |seed| frames(seed, |_| ())), None);
}
