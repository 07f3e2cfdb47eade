//! Segments that no sane peer would send: the stack neither panics nor keeps anything, and a connection beside them
//! gets its bytes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::script::{OURS, PEERS, frame};
use common::{Port, Program, Talk};
use stack::frame::{Frame, RxMeta};
use stack::random::Random;
use stack::tcp::{CLIENT, SERVER, Settings, Stack};
use stack::wire::checksum::pseudo_v6;
use stack::wire::ipv6;
use stack::wire::tcp::{CHECKSUM_AT, PROTOCOL, Segment, write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// A program whose payload is whatever comes.
struct Careless {
    random: Random,
}

impl stack::tcp::App for Careless {
    fn pull(&mut self, _: stack::tcp::FlowId, _: u32, _: u64, into: &mut [u8]) {
        into.fill(1);
    }

    fn received(&mut self, stack: &mut Stack, flow: stack::tcp::FlowId, _: u32, _: &[u8]) {
        self.act(stack, flow);
    }

    fn event(
        &mut self,
        stack: &mut Stack,
        flow: stack::tcp::FlowId,
        _: u32,
        event: stack::tcp::Event,
    ) {
        if !matches!(event, stack::tcp::Event::Ended(_)) {
            self.act(stack, flow);
        }
    }
}

impl Careless {
    /// Anything, from inside a callback.
    fn act(&mut self, stack: &mut Stack, flow: stack::tcp::FlowId) {
        match self.random.below(16) {
            0 => stack.close(flow),
            1 => stack.abort(flow),
            2 => stack.close_and_forget(flow),
            3 => stack.set_receive_window(flow, self.random.below(100_000)),
            4..=9 => drop(stack.send(flow, self.random.below(20_000) as usize)),
            10 => {
                let _ = stack.connect(0, 0, SocketAddr::from((PEERS, 80)), 0);
            }
            _ => {}
        }
    }
}

#[test]
fn no_sequence_of_segments_breaks_it() {
    let mut connects = 0;
    for seed in 0..40 {
        let settings = Settings {
            flows_max: 40,
            ports: (1_000, 1_020),
            ecn: seed % 3 == 0,
            nagle: seed % 4 == 0,
            keep_alive_idle_ms: if seed % 5 == 0 { 300 } else { 0 },
            time_wait_ms: 500,
            reassembly_chunks_max: 30,
            ..Settings::default()
        };
        let mut random = Random::new(seed);
        let mut port = Port::new(1, seed % 2 == 0);
        let mut program = Careless {
            random: Random::new(seed + 1_000),
        };
        let mut stack = Stack::new(settings, &port.capabilities, &[OURS.into()], seed, 0);
        stack.listen(80);
        let mut now = 0;
        let (mut theirs, mut ours) = (random.next_u32(), random.next_u32());
        // Those of the peer and of the stack.
        let mut ports = (1_000, 80);
        for _ in 0..6_000 {
            // Numbers that were seen, more or less.
            for (sent, _) in port.sent.drain(..) {
                let (segment, _) = stack::wire::tcp::read(&sent[34..]).unwrap();
                // A reset of ours tells of no connection.
                if random.below(3) > 0 && !segment.has(4) {
                    ours = segment.seq.wrapping_add(u32::from(segment.has(2)));
                    theirs = segment.ack;
                    ports = (segment.destination_port, segment.source_port);
                }
            }
            let around = |random: &mut Random, at: u32| match random.below(4) {
                0 => at,
                1 => at.wrapping_add(random.below(5_000)),
                2 => at.wrapping_sub(random.below(5_000)),
                _ => at.wrapping_add(random.below(3)).wrapping_sub(1),
            };
            let is_server = random.below(2) == 0;
            let port_of_client = 1_000 + random.below(24) as u16;
            let flags = match random.below(8) {
                0 => 2,
                1 => 0x12,
                2 => random.next_u32() as u8,
                3 => 0x11,
                _ => 0x10,
            };
            if random.below(8) == 0 {
                ports = if is_server {
                    (port_of_client, 80)
                } else {
                    (80, port_of_client)
                };
            }
            let mut segment = Segment {
                source_port: ports.0,
                destination_port: ports.1,
                seq: around(&mut random, theirs),
                ack: around(&mut random, ours),
                flags,
                window: random.next_u32() as u16 >> random.below(16),
                mss: if flags & 2 != 0 {
                    random.next_u32() as u16 >> random.below(16)
                } else {
                    0
                },
                window_scale: (flags & 2 != 0 && random.below(2) == 0)
                    .then(|| random.below(20) as u8),
                sack_permitted: flags & 2 != 0 && random.below(2) == 0,
                timestamps: (random.below(2) == 0).then(|| (random.below(50), random.below(50))),
                ..Segment::default()
            };
            if flags & 2 == 0 && random.below(3) == 0 {
                segment.sack_count = random.below(4) as u8;
                for edges in &mut segment.sack {
                    let from = around(&mut random, ours);
                    *edges = (from, from.wrapping_add(random.below(4_000)));
                }
            }
            let payload = vec![9; random.below(4) as usize * random.below(600) as usize];
            let bytes = frame(&segment, &payload, 0);
            stack.input(
                now,
                Frame {
                    head: &bytes,
                    rest: &[],
                    meta: RxMeta::PLAIN,
                },
                &mut program,
            );
            if random.below(3) > 0 {
                now += u64::from(random.below(30_000_000)) << random.below(6);
                port.room = 1 + random.below(40) as usize;
                stack.poll(now, &mut port, &mut program).unwrap();
                for ip in stack.take_unresolved() {
                    stack.set_link_address(ip, [2, 0, 0, 0, 0, 2]);
                }
            }
        }
        port.room = usize::MAX;
        stack.abort_all();
        stack.poll(now, &mut port, &mut program).unwrap();
        stack.abort_all();
        stack.poll(now, &mut port, &mut program).unwrap();
        assert!(
            stack.is_empty(),
            "seed {seed}: {} flows are left",
            stack.flows()
        );
        connects += stack.counters(CLIENT).connects + stack.counters(SERVER).connects;
    }
    assert!(
        connects > 1_000,
        "the noise reached no connection: {connects}"
    );
}

#[test]
fn no_bytes_break_it() {
    let mut random = Random::new(3);
    let port = Port::new(1, false);
    let locals: [IpAddr; 2] = [OURS.into(), Ipv6Addr::LOCALHOST.into()];
    let mut stack = Stack::new(Settings::default(), &port.capabilities, &locals, 1, 0);
    let mut program = Program::default();
    stack.listen(80);
    let segment = Segment {
        destination_port: 80,
        flags: 0x12,
        ..Segment::default()
    };
    for round in 0..200_000 {
        let mut bytes = frame(&segment, &[1; 40], 0);
        for _ in 0..1 + random.below(4) {
            let at = random.below(bytes.len() as u32) as usize;
            bytes[at] = random.next_u32() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u32 + 1) as usize);
        let pieces = [&bytes[..]];
        let meta = RxMeta {
            checksum: if round % 2 == 0 {
                stack::frame::Checksum::Valid
            } else {
                RxMeta::PLAIN.checksum
            },
            ..RxMeta::PLAIN
        };
        let rest = if round % 3 == 0 { &pieces[..] } else { &[] };
        stack.input(
            0,
            Frame {
                head: &bytes,
                rest,
                meta,
            },
            &mut program,
        );
    }
    stack.abort_all();
}

/// The whole way over IPv6, in frames of several pieces, with every split of the sum.
#[test]
fn pieces_of_a_frame_are_one_segment() {
    let (ours, peers) = (
        "fd00::1".parse::<Ipv6Addr>().unwrap(),
        "fd00::2".parse::<Ipv6Addr>().unwrap(),
    );
    let mut port = Port::new(1, false);
    let mut stack = Stack::new(
        Settings::default(),
        &port.capabilities,
        &[ours.into()],
        1,
        0,
    );
    let mut program = Program {
        talks: vec![Talk::default()],
        ..Program::default()
    };
    stack
        .connect(0, 0, SocketAddr::from((peers, 80)), 0)
        .unwrap();
    stack.set_link_address(peers.into(), [2, 0, 0, 0, 0, 2]);
    stack.poll(0, &mut port, &mut program).unwrap();
    let (syn, _) = stack::wire::tcp::read(&port.sent.remove(0).0[54..]).unwrap();
    assert_eq!(syn.mss, 1_440);
    let mut deliver = |seq: u32, flags: u8, payload: &[u8], cut: usize| {
        let segment = Segment {
            source_port: 80,
            destination_port: syn.source_port,
            seq,
            ack: syn.seq.wrapping_add(1),
            flags,
            window: 9_000,
            ..Segment::default()
        };
        let mut bytes = vec![0; 74];
        bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
        ipv6::write(
            bytes[14..].first_chunk_mut().unwrap(),
            &peers,
            &ours,
            PROTOCOL,
            0,
            64,
            20 + payload.len(),
        );
        write(&mut bytes[54..], &segment);
        bytes.extend(payload);
        let sum = pseudo_v6(&peers, &ours, PROTOCOL, 20 + payload.len())
            .bytes(&bytes[54..])
            .finish();
        bytes[54 + CHECKSUM_AT..][..2].copy_from_slice(&sum.to_be_bytes());
        let (head, rest) = bytes.split_at(74 + cut);
        let (a, b) = rest.split_at(rest.len() / 3);
        stack.input(
            0,
            Frame {
                head,
                rest: &[a, b],
                meta: RxMeta::PLAIN,
            },
            &mut program,
        );
    };
    deliver(0, 0x12, &[], 0);
    let stream = syn.source_port.max(80);
    let bytes: Vec<u8> = (0..900).map(|at| common::byte(stream, at)).collect();
    for cut in 0..30 {
        deliver(
            1 + cut * 30,
            0x10,
            &bytes[cut as usize * 30..][..30],
            cut as usize,
        );
    }
    assert_eq!(stack.counters(CLIENT).rcvbadsum, 0);
    assert_eq!(stack.counters(CLIENT).rcvbyte, 900);
    assert_eq!(program.talks[0].received, 900);
}
