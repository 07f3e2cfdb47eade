//! A million connections open at once, and what they take: 128 bytes each, and what finds them by tuple and by time.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::Port;
use stack::frame::{Checksum, Frame, RxMeta};
use stack::tcp::{App, Event, FlowId, SERVER, Settings, Stack};
use stack::wire::tcp::{PROTOCOL, Segment, flag, read, write};
use stack::wire::{ipv4, tcp};
use std::net::Ipv4Addr;

const FLOWS: u32 = 1_000_000;

struct Silent;

impl App for Silent {
    fn pull(&mut self, _: FlowId, _: u32, _: u64, _: &mut [u8]) {}
    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, _: &[u8]) {}
    fn event(&mut self, _: &mut Stack, _: FlowId, _: u32, _: Event) {}
}

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

#[test]
fn a_million_connections_take_less_than_200_megabytes() {
    let ours = Ipv4Addr::new(10, 0, 0, 1);
    let settings = Settings {
        flows_max: FLOWS,
        syn_received_max: FLOWS,
        ..Settings::default()
    };
    let mut port = Port::new(1, false);
    let before = resident();
    let mut stack = Stack::new(settings, &port.capabilities, &[ours.into()], 1, 0);
    stack.listen(80);
    let mut bytes = [0; 74];
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&[8, 0]);
    let meta = RxMeta {
        checksum: Checksum::Valid,
        ..RxMeta::PLAIN
    };
    for n in 0..FLOWS {
        let peer = Ipv4Addr::from(0x0a01_0000 + n / 50_000);
        let mut segment = Segment {
            source_port: 10_000 + (n % 50_000) as u16,
            destination_port: 80,
            flags: flag::SYN,
            window: 60_000,
            mss: 1_460,
            ..Segment::default()
        };
        let mut deliver = |stack: &mut Stack, segment: &Segment| {
            let header = segment.header_bytes();
            ipv4::write(
                bytes[14..].first_chunk_mut().unwrap(),
                peer,
                ours,
                PROTOCOL,
                0,
                64,
                header,
            );
            write(&mut bytes[34..], segment);
            let frame = Frame {
                head: &bytes[..34 + header],
                rest: &[],
                meta,
            };
            stack.input(1_000, frame, &mut Silent);
        };
        deliver(&mut stack, &segment);
        stack.poll(1_000, &mut port, &mut Silent).unwrap();
        let (frame, _) = port.sent.pop().unwrap();
        let (syn_ack, _) = read(&frame[14 + 20..]).unwrap();
        assert!(syn_ack.has(flag::SYN | flag::ACK), "{}", tcp::HEADER_BYTES);
        (segment.seq, segment.ack) = (1, syn_ack.seq.wrapping_add(1));
        (segment.flags, segment.mss) = (flag::ACK, 0);
        deliver(&mut stack, &segment);
    }
    let taken = resident() - before;
    assert_eq!(stack.counters(SERVER).accepts, u64::from(FLOWS));
    assert_eq!(stack.flows(), FLOWS);
    assert!(taken < 200_000_000, "{taken} bytes");
    assert!(
        taken > 128_000_000,
        "{taken} bytes: the measurement sees nothing"
    );
}
