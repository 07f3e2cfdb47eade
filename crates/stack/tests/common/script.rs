//! Packet scripts: what a program and a peer do, at which millisecond, and which segments must come out.
//!
//! ```text
//! 0    connect                              the program: connect, listen, send N, close, forget, abort, end, window N
//! 0    > S 0:0(0) <mss 1460>                must be sent now; `win` and options are compared when they are given
//! 10   < S. 0:0(0) ack 1 win 9000 <mss 1000>    the peer's, `<ce>` marks congestion; numbers count from each SYN
//! 10   <+ F. 1:1(0) ack 1                       the peer's, and the next line happens before anything is sent
//! 300  quiet                                nothing was sent up to here
//! 300  is Established                       also: got N (bytes), event TEXT, count NAME N, empty, gone
//! ```

use super::Port;
use stack::frame::{Frame, RxMeta};
use stack::tcp::{App, CLIENT, Event, FlowId, SERVER, Settings, Stack};
use stack::wire::checksum::pseudo_v4;
use stack::wire::tcp::{CHECKSUM_AT, Segment, flag, read, write};
use stack::wire::{ipv4, tcp};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};

pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const PEERS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub const PEERS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The peer's first number: near the end of the circle, so that every script crosses it.
const PEERS_ISS: u32 = 0u32.wrapping_sub(3_000);
/// A tick of the wheel, and the rounding to it.
const LATE_NS: u64 = 1_100_000;

#[derive(Default)]
struct Recorder {
    flow: Option<FlowId>,
    got: u64,
    events: Vec<String>,
}

impl App for Recorder {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = super::byte(7, at);
        }
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, bytes: &[u8]) {
        for byte in bytes {
            assert_eq!(*byte, super::byte(9, self.got));
            self.got += 1;
        }
    }

    fn event(&mut self, _: &mut Stack, flow: FlowId, _: u32, event: Event) {
        if event == Event::Accepted {
            self.flow = Some(flow);
        }
        if !matches!(event, Event::Acked { .. }) {
            self.events.push(format!("{event:?}"));
        }
    }
}

struct Stage {
    stack: Stack,
    port: Port,
    program: Recorder,
    now: u64,
    tuple: Tuple,
}

/// What a script's numbers count from.
#[derive(Clone, Copy, Default)]
pub struct Tuple {
    /// The first number of the side under test, when its first SYN was seen.
    pub iss: Option<u32>,
    pub our_port: u16,
    pub peer_port: u16,
}

/// A script that is not played but kept.
pub struct Kept {
    pub name: String,
    pub settings: Settings,
    pub script: String,
}

thread_local! {
    static KEPT: RefCell<Option<Vec<Kept>>> = const { RefCell::new(None) };
}

/// What `scripts` would play, on this thread.
pub fn kept(scripts: impl FnOnce()) -> Vec<Kept> {
    KEPT.set(Some(Vec::new()));
    scripts();
    KEPT.take().unwrap_or_default()
}

/// What scripts play with when they do not say otherwise.
pub fn standard() -> Settings {
    Settings {
        flows_max: 8,
        timestamps: false,
        window_scaling: false,
        ..Settings::default()
    }
}

/// Plays a script.
pub fn play(name: &str, change: impl FnOnce(&mut Settings), script: &str) {
    let mut settings = standard();
    change(&mut settings);
    let is_kept = KEPT.with_borrow_mut(|kept| {
        let Some(kept) = kept else {
            return false;
        };
        kept.push(Kept {
            name: name.to_owned(),
            settings: settings.clone(),
            script: script.to_owned(),
        });
        true
    });
    if is_kept {
        return;
    }
    let port = Port::new(1, false);
    let start = 5_000_000_000;
    let mut stage = Stage {
        stack: Stack::new(settings, &port.capabilities, &[OURS.into()], 1, start),
        port,
        program: Recorder::default(),
        now: start,
        tuple: Tuple {
            iss: None,
            our_port: 80,
            peer_port: 80,
        },
    };
    for (number, line) in script.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let (at, what) = line
            .split_once(char::is_whitespace)
            .expect("time and action");
        let at = start + at.parse::<u64>().expect("milliseconds") * 1_000_000;
        stage.step(at, what.trim(), &format!("{name}, line {number}: {line}"));
    }
}

impl Stage {
    fn step(&mut self, at: u64, what: &str, place: &str) {
        if let Some(expected) = what.strip_prefix("> ") {
            return self.expect(at, expected, place);
        }
        if at > self.now {
            self.pass_to(at);
        }
        let got = self.take();
        assert_eq!(got, None, "{place}: sent before");
        if let Some(segment) = what.strip_prefix("<+ ") {
            return self.inject(segment);
        }
        if let Some(segment) = what.strip_prefix("< ") {
            self.inject(segment);
        } else {
            self.command(what, place);
        }
        self.poll();
    }

    fn poll(&mut self) {
        self.stack
            .poll(self.now, &mut self.port, &mut self.program)
            .unwrap();
        for ip in self.stack.take_unresolved() {
            self.stack.set_link_address(ip, PEERS_MAC);
            self.stack
                .poll(self.now, &mut self.port, &mut self.program)
                .unwrap();
        }
    }

    /// Lets time pass until something is sent or `until` has come.
    fn pass_to(&mut self, until: u64) {
        while self.port.sent.is_empty() {
            match self.stack.next_deadline_ns().filter(|at| *at <= until) {
                Some(at) => self.now = self.now.max(at),
                None => {
                    self.now = self.now.max(until);
                    return;
                }
            }
            self.poll();
        }
    }

    fn expect(&mut self, at: u64, expected: &str, place: &str) {
        self.pass_to(at + LATE_NS);
        let (segment, payload, class) = self
            .take()
            .unwrap_or_else(|| panic!("{place}: nothing was sent"));
        let shown = self.tuple.show(&segment, payload, class, expected);
        assert_eq!(shown, expected, "{place}");
        let early = self.now < at;
        assert!(
            !early && self.now <= at + LATE_NS,
            "{place}: sent at {} ms",
            (self.now - 5_000_000_000) / 1_000_000
        );
        self.now = self.now.max(at);
    }

    /// The oldest segment that was sent.
    fn take(&mut self) -> Option<(Segment, usize, u8)> {
        if self.port.sent.is_empty() {
            return None;
        }
        let (frame, _) = self.port.sent.remove(0);
        let ip = ipv4::read(&frame[14..]).expect("IPv4");
        assert!(ipv4::is_sum_right(&frame[14..], &ip));
        let tcp_at = 14 + ip.header_bytes;
        let pseudo = pseudo_v4(
            ip.source,
            ip.destination,
            tcp::PROTOCOL,
            frame.len() - tcp_at,
        );
        assert_eq!(pseudo.bytes(&frame[tcp_at..]).finish(), 0, "checksum");
        let (segment, header) = read(&frame[tcp_at..]).expect("TCP");
        if segment.has(flag::SYN) && self.tuple.iss.is_none() {
            self.tuple.iss = Some(segment.seq);
            self.tuple.our_port = segment.source_port;
        }
        let payload = &frame[tcp_at + header..];
        let offset = u64::from(
            segment
                .seq
                .wrapping_sub(self.tuple.iss.unwrap_or(0))
                .wrapping_sub(1),
        );
        let right = payload
            .iter()
            .zip(offset..)
            .all(|(byte, at)| *byte == super::byte(7, at));
        assert!(right, "payload");
        Some((segment, payload.len(), ip.traffic_class))
    }

    fn inject(&mut self, text: &str) {
        let frame = self.tuple.frame(text);
        let frame = Frame {
            head: &frame,
            rest: &[],
            meta: RxMeta::PLAIN,
        };
        self.stack.input(self.now, frame, &mut self.program);
    }

    fn command(&mut self, what: &str, place: &str) {
        let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
        let flow = self.program.flow;
        let open = || flow.unwrap_or_else(|| panic!("{place}: no flow"));
        match verb {
            "connect" => {
                let to = SocketAddr::from((PEERS, self.tuple.peer_port));
                self.program.flow = Some(self.stack.connect(self.now, 0, to, 0).unwrap());
            }
            "listen" => {
                self.stack.listen(80);
                self.tuple.peer_port = 4_000;
            }
            "send" => assert_eq!(
                self.stack.send(open(), rest.parse().unwrap()).to_string(),
                rest
            ),
            "close" => self.stack.close(open()),
            "forget" => self.stack.close_and_forget(open()),
            "abort" => self.stack.abort(open()),
            "end" => self.stack.abort_all(),
            "window" => self.stack.set_receive_window(open(), rest.parse().unwrap()),
            "quiet" => {}
            "is" => assert_eq!(format!("{:?}", self.stack.state(open())), rest, "{place}"),
            "got" => assert_eq!(self.program.got.to_string(), rest, "{place}"),
            "event" => {
                assert!(!self.program.events.is_empty(), "{place}: no event");
                assert_eq!(self.program.events.remove(0), rest, "{place}");
            }
            "silent" => assert_eq!(self.program.events, [""; 0], "{place}"),
            "count" => {
                let (name, expected) = rest.split_once(' ').unwrap();
                let sides = [CLIENT, SERVER].map(|side| {
                    let mut named = self.stack.counters(side).named();
                    named
                        .find(|(n, _)| *n == name)
                        .unwrap_or_else(|| panic!("{place}"))
                        .1
                });
                assert_eq!((sides[0] + sides[1]).to_string(), expected, "{place}");
            }
            "gone" => assert_eq!(self.stack.flows(), 0, "{place}"),
            "empty" => assert!(self.stack.is_empty(), "{place}"),
            // The next SYN of ours begins another connection.
            "new" => self.tuple.iss = None,
            "too_big" => self.too_big(rest.parse().unwrap()),
            "unreachable" => {
                let (local, remote) = self.ends();
                let seq = self.tuple.iss.unwrap_or(0);
                self.stack
                    .unreachable(self.now, local, remote, seq, &mut self.program);
            }
            other => panic!("{place}: no command {other}"),
        }
    }

    fn too_big(&mut self, mtu: u16) {
        let (local, remote) = self.ends();
        let seq = self.tuple.iss.unwrap_or(0).wrapping_add(1);
        self.stack.too_big(self.now, local, remote, seq, mtu);
    }

    fn ends(&self) -> (SocketAddr, SocketAddr) {
        let remote = SocketAddr::from((PEERS, self.tuple.peer_port));
        (SocketAddr::from((OURS, self.tuple.our_port)), remote)
    }
}

impl Tuple {
    /// A segment as a script writes it, with what `like` has.
    pub fn show(&self, segment: &Segment, payload: usize, class: u8, like: &str) -> String {
        let letters = [
            (flag::SYN, 'S'),
            (flag::FIN, 'F'),
            (flag::RST, 'R'),
            (flag::PSH, 'P'),
            (flag::ECE, 'E'),
            (flag::CWR, 'W'),
            (flag::ACK, '.'),
        ];
        let mut text: String = letters
            .iter()
            .filter(|(bit, _)| segment.has(*bit))
            .map(|(_, c)| *c)
            .collect();
        let from = segment.seq.wrapping_sub(self.iss.unwrap_or(0));
        let to = from.wrapping_add(payload as u32);
        if segment.has(flag::RST) && self.iss.is_none() {
            text += &format!(" {}", segment.seq);
        } else {
            text += &format!(" {from}:{to}({payload})");
        }
        if segment.has(flag::ACK) {
            text += &format!(" ack {}", segment.ack.wrapping_sub(PEERS_ISS));
        }
        if like.contains(" win ") {
            text += &format!(" win {}", segment.window);
        }
        if like.contains('<') {
            text += &format!(" <{}>", options(segment, class).join(","));
        }
        text
    }

    /// The peer's segment as a script writes it.
    pub fn frame(&self, text: &str) -> Vec<u8> {
        let (body, options) = text.split_once(" <").unwrap_or((text, ""));
        let words: Vec<&str> = body.split_whitespace().collect();
        let number = |after: &str| {
            let at = words.iter().position(|word| *word == after)?;
            words[at + 1].parse::<i64>().ok()
        };
        let (from, rest) = words[1].split_once(':').expect("from:to(len)");
        let len: usize = rest
            .split_once('(')
            .unwrap()
            .1
            .trim_end_matches(')')
            .parse()
            .unwrap();
        let from: i64 = from.parse().unwrap();
        let mut segment = Segment {
            source_port: self.peer_port,
            destination_port: self.our_port,
            seq: PEERS_ISS.wrapping_add(from as u32),
            ack: number("ack").map_or(0, |n| self.iss.unwrap_or(0).wrapping_add(n as u32)),
            window: number("win").unwrap_or(60_000) as u16,
            ..Segment::default()
        };
        for letter in words[0].chars() {
            segment.flags |= match letter {
                'S' => flag::SYN,
                'F' => flag::FIN,
                'R' => flag::RST,
                'P' => flag::PSH,
                'E' => flag::ECE,
                'W' => flag::CWR,
                _ => flag::ACK,
            };
        }
        let mut class = 0;
        for option in options
            .trim_end_matches('>')
            .split(',')
            .filter(|option| !option.is_empty())
        {
            let (kind, value) = option.trim().split_once(' ').unwrap_or((option.trim(), ""));
            match kind {
                "mss" => segment.mss = value.parse().unwrap(),
                "wscale" => segment.window_scale = value.parse().ok(),
                "sackOK" => segment.sack_permitted = true,
                "ce" => class = 3,
                "TS" => {
                    let (a, b) = value.split_once('/').unwrap();
                    segment.timestamps = Some((a.parse().unwrap(), b.parse().unwrap()));
                }
                "sack" => {
                    let (a, b) = value.split_once('-').unwrap();
                    let edge = |text: &str| {
                        self.iss
                            .unwrap_or(0)
                            .wrapping_add(text.parse::<u32>().unwrap())
                    };
                    segment.sack[usize::from(segment.sack_count)] = (edge(a), edge(b));
                    segment.sack_count += 1;
                }
                other => panic!("no option {other}"),
            }
        }
        let offset = (from - 1).max(0) as u64;
        let payload: Vec<u8> = (0..len as u64)
            .map(|at| super::byte(9, offset + at))
            .collect();
        frame(&segment, &payload, class)
    }
}

fn options(segment: &Segment, class: u8) -> Vec<String> {
    let mut list = Vec::new();
    if segment.mss > 0 {
        list.push(format!("mss {}", segment.mss));
    }
    if segment.sack_permitted {
        list.push("sackOK".to_owned());
    }
    if segment.timestamps.is_some() {
        list.push("TS".to_owned());
    }
    if let Some(shift) = segment.window_scale {
        list.push(format!("wscale {shift}"));
    }
    for (from, to) in segment.sack_blocks() {
        list.push(format!(
            "sack {}-{}",
            from.wrapping_sub(PEERS_ISS),
            to.wrapping_sub(PEERS_ISS)
        ));
    }
    if class & 3 == 2 {
        list.push("ect".to_owned());
    }
    list
}

/// A frame from the peer, with its checksums.
pub fn frame(segment: &Segment, payload: &[u8], class: u8) -> Vec<u8> {
    let header = segment.header_bytes();
    let mut bytes = vec![0; 34 + header];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[6..12].copy_from_slice(&PEERS_MAC);
    bytes[12..14].copy_from_slice(&[8, 0]);
    let ip = bytes[14..].first_chunk_mut().unwrap();
    ipv4::write(
        ip,
        PEERS,
        OURS,
        tcp::PROTOCOL,
        class,
        64,
        header + payload.len(),
    );
    write(&mut bytes[34..], segment);
    bytes.extend(payload);
    let pseudo = pseudo_v4(PEERS, OURS, tcp::PROTOCOL, header + payload.len());
    let sum = pseudo.bytes(&bytes[34..]).finish();
    bytes[34 + CHECKSUM_AT..][..2].copy_from_slice(&sum.to_be_bytes());
    bytes
}
