//! What a connection and a packet cost: two stacks on one thread, joined in memory, so that no device and no kernel is
//! in the figures. Pin it (`taskset -c 1`) and run it with `--release`.
//!
//! `cost [CONNECTIONS] [REQUEST_BYTES] [RESPONSE_BYTES] [AT_ONCE]`, 400000 100 1024 256 unless said. Each line is one
//! set-up of the wire: super-segments and sums left to a device, as TAP and large NICs do; packets of 1500 bytes with
//! sums left to the device, as DPDK with a NIC; and packets of which the stack sums every byte, as AF_XDP today.
#![allow(clippy::print_stdout, reason = "an example's output is its purpose")]

use stack::address::AddressRange;
use stack::device::loopback::{self, Loopback};
use stack::host::Host;
use stack::link;
use stack::tcp::{App, CLIENT, Event, FlowId, Settings, Stack};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

const PORT: u16 = 80;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SOURCES: u32 = 16;

/// One work: what a connection carries, and how many there are.
#[derive(Clone, Copy)]
struct Work {
    connections: u64,
    request: usize,
    response: usize,
    at_once: u32,
}

/// Either end. A flow's number for its program is what it has still to receive.
struct Program {
    work: Work,
    is_client: bool,
    begun: u64,
    ended: u64,
    failed: u64,
    received: u64,
}

impl App for Program {
    fn pull(&mut self, _: FlowId, _: u32, _: u64, into: &mut [u8]) {
        into.fill(b'x');
    }

    fn received(&mut self, stack: &mut Stack, flow: FlowId, user: u32, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        let left = user.saturating_sub(bytes.len() as u32);
        stack.set_user(flow, left);
        if left == 0 {
            if !self.is_client {
                stack.send(flow, self.work.response);
            }
            stack.close(flow);
        }
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, user: u32, event: Event) {
        match event {
            Event::Connected => {
                stack.send(flow, self.work.request);
            }
            Event::Accepted => stack.set_user(flow, self.work.request as u32),
            Event::Ended(_) => {
                self.ended += 1;
                self.failed += u64::from(user != 0);
            }
            Event::Acked { .. } | Event::PeerClosed => {}
        }
    }
}

impl Program {
    fn new(work: Work, is_client: bool) -> Self {
        Program {
            work,
            is_client,
            begun: 0,
            ended: 0,
            failed: 0,
            received: 0,
        }
    }

    fn begin(&mut self, host: &mut Host<Loopback>, now: u64) {
        let to = SocketAddr::from((SERVER, PORT));
        while self.begun < self.work.connections
            && self.begun - self.ended < u64::from(self.work.at_once)
        {
            let source = self.begun as usize % SOURCES as usize;
            let response = self.work.response as u32;
            if host.stack.connect(now, source, to, response).is_err() {
                return;
            }
            self.begun += 1;
        }
    }
}

fn host(device: Loopback, own: (Ipv4Addr, Ipv4Addr), flows_max: u32) -> Host<Loopback> {
    let range = AddressRange::new(own.0.into(), own.1.into()).expect("in order");
    let locals: Vec<IpAddr> = (0..range.len()).map(|n| range.nth(n)).collect();
    let link = link::Settings {
        interface: "loopback".to_owned(),
        mac: [0; 6],
        own: vec![range],
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        gateways: Vec::new(),
    };
    let settings = Settings {
        flows_max,
        ..Settings::default()
    };
    let mut host = Host::new(device, &link, settings, &locals, 7, 0).expect("addresses fit");
    host.stack.listen(PORT);
    host
}

/// Nanoseconds of each end, and frames over the wire.
fn run(work: Work, wire: &loopback::Settings) -> Option<(u64, u64, u64)> {
    let (near, far) = loopback::pair(wire);
    let first = Ipv4Addr::new(10, 0, 1, 1);
    let last = Ipv4Addr::from(u32::from(first) + SOURCES - 1);
    let mut ends = [
        (host(near, (first, last), 1 << 18), Program::new(work, true)),
        (
            host(far, (SERVER, SERVER), 1 << 18),
            Program::new(work, false),
        ),
    ];
    let (begin, mut took) = (Instant::now(), [0; 2]);
    while ends[0].1.ended < work.connections {
        for (end, took) in ends.iter_mut().zip(&mut took) {
            let (host, program) = end;
            let at = Instant::now();
            let now = at.duration_since(begin).as_nanos() as u64;
            if program.is_client {
                program.begin(host, now);
            }
            host.receive(now, usize::MAX, program).ok()?;
            host.send(now, program).ok()?;
            *took += at.elapsed().as_nanos() as u64;
        }
        if begin.elapsed().as_secs() > 120 {
            return None;
        }
    }
    let sent = &ends[0].0.stack.counters(CLIENT);
    if ends[0].1.failed > 0 || sent.sndrexmitpack > 0 {
        return None;
    }
    use stack::device::Device;
    let frames = ends
        .iter()
        .map(|(host, _)| host.device.counters().tx_frames);
    Some((took[0], took[1], frames.sum()))
}

fn main() {
    let asked: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let number = |at: usize, default: u64| asked.get(at).copied().unwrap_or(default);
    let work = Work {
        connections: number(0, 400_000),
        request: number(1, 100) as usize,
        response: number(2, 1_024) as usize,
        at_once: number(3, 256) as u32,
    };
    println!(
        "{} connections of {} bytes and {} bytes back, {} at once",
        work.connections, work.request, work.response, work.at_once
    );
    for (name, segments, checksums) in [
        ("super-segments", true, true),
        ("packets, sums left", false, true),
        ("packets, summed", false, false),
    ] {
        let wire = loopback::Settings {
            segments,
            checksums,
            ring_frames: 1 << 16,
            is_lossless: true,
            ..loopback::Settings::default()
        };
        let Some((client, server, frames)) = run(work, &wire) else {
            println!("{name:20} failed");
            continue;
        };
        let each = |ns: u64| ns as f64 / work.connections as f64;
        println!(
            "{name:20} {:8.0} connections/s on one core   client {:6.0} ns, server {:6.0} ns a connection   \
             {:5.1} frames, {:4.0} ns a frame and end",
            1e9 / each(client + server),
            each(client),
            each(server),
            frames as f64 / work.connections as f64,
            (client + server) as f64 / frames as f64 / 2.0,
        );
    }
}
