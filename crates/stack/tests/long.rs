//! What only shows after long: gigabytes through loss without a wrong byte, ten million connections that leave nothing,
//! peers that vanish, reset, never read or flood. Bounded here, whole by `make stack-long` (`--ignored`).
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

mod common;
mod lab;

use common::byte;
use common::world::{World, settings};
use lab::{in_namespace, ip};
use stack::device::fault::{Fault, Faults};
use stack::device::loopback::{self, Loopback};
use stack::device::tap::{self, Tap};
use stack::device::{Capabilities, Device, DeviceCounters};
use stack::frame::{Frame, RxMeta, TxMeta};
use stack::host::Host;
use stack::link;
use stack::random::Random;
use stack::tcp::{App, CLIENT, Ended, Event, FlowId, SERVER, Settings, Stack};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

const SECOND_NS: u64 = 1_000_000_000;
const MEGABYTE: u64 = 1_000_000;

// ---- Gigabytes through loss ----

const ROUGH: Faults = Faults {
    loss: 0.01,
    duplicate: 0.002,
    reorder: 0.01,
    corrupt: 0.001,
    delay_ns: 20_000,
    jitter_ns: 5_000,
    held_ns: 4_000_000,
    rate_bits_per_s: 10_000_000_000,
    queue_bytes: 1 << 20,
};

/// So many bytes each way on one connection, of which every one is compared.
fn every_byte_is_right(bytes: u64) {
    let both = settings(|_| ());
    let mut world = World::new(&both, &both, ROUGH, true, 11);
    world.sides[1].program.answer = bytes;
    world.sides[0].program.closes_first = true;
    world.connect(bytes);
    let until = 1_000_000 * SECOND_NS;
    assert!(world.run(until, World::is_done), "it never ends");
    world.check_ends();
    world.check_empty();
    let lost = world.sides[0].device.faults()[0].lost;
    assert!(lost > bytes / 1_448 / 200, "only {lost} were lost");
}

#[test]
fn megabytes_through_loss_without_a_wrong_byte() {
    every_byte_is_right(20 * MEGABYTE);
}

/// More than the sequence numbers have room for.
#[test]
#[ignore = "long: make stack-long"]
fn ten_gigabytes_through_loss_without_a_wrong_byte() {
    every_byte_is_right(5_000 * MEGABYTE);
}

/// A program that sends and checks so many bytes, each way.
struct Bulk {
    bytes: u64,
    promised: u64,
    received: u64,
    ended: Option<Ended>,
}

impl Bulk {
    fn promise(&mut self, stack: &mut Stack, flow: FlowId) {
        let left = (self.bytes - self.promised).min(1 << 24) as usize;
        self.promised += stack.send(flow, left) as u64;
        if self.promised == self.bytes {
            stack.close(flow);
        }
    }
}

/// Bytes of a pattern with no period below its length of 64 KiB; quick to compare for both ends.
fn pattern() -> Vec<u8> {
    (0..1 << 16).map(|at| byte(1, at)).collect()
}

/// The pattern is turned by the number of its repetition, so that a whole one out of place is noticed.
fn check(pattern: &[u8], got: &[u8], at: u64) {
    for (byte, at) in got.iter().zip(at..) {
        assert_eq!(*byte, patterned(pattern, at), "at {at}");
    }
}

fn patterned(pattern: &[u8], at: u64) -> u8 {
    pattern[(at & 0xffff) as usize] ^ (at >> 16) as u8
}

struct Checked<'a> {
    bulk: Bulk,
    pattern: &'a [u8],
}

impl App for Checked<'_> {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        for (byte, at) in into.iter_mut().zip(offset..) {
            *byte = patterned(self.pattern, at);
        }
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, bytes: &[u8]) {
        check(self.pattern, bytes, self.bulk.received);
        self.bulk.received += bytes.len() as u64;
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, _: u32, event: Event) {
        match event {
            Event::Connected => self.bulk.promise(stack, flow),
            Event::Acked { offset } => {
                let low = self.bulk.promised - offset.min(self.bulk.promised) < 1 << 23;
                if low && self.bulk.promised < self.bulk.bytes {
                    self.bulk.promise(stack, flow);
                }
            }
            Event::Ended(why) => self.bulk.ended = Some(why),
            Event::Accepted | Event::PeerClosed => {}
        }
    }
}

fn link_settings(interface: &str, own: &str) -> link::Settings {
    link::Settings {
        interface: interface.to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        own: vec![own.parse().unwrap()],
        networks: vec!["10.9.0.0/16".parse().unwrap()],
        gateways: vec![],
    }
}

/// The kernel reads to the end while it writes as much.
fn kernel_end(listener: &TcpListener, bytes: u64) {
    let pattern = pattern();
    let (mut stream, _) = listener.accept().unwrap();
    let mut reading = stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut buffer, mut at) = (vec![0; 1 << 18], 0);
            loop {
                let len = reading.read(&mut buffer).unwrap();
                if len == 0 {
                    break;
                }
                check(&pattern, &buffer[..len], at);
                at += len as u64;
            }
            assert_eq!(at, bytes, "what the kernel received");
        });
        let (mut at, mut buffer) = (0, vec![0; 1 << 18]);
        while at < bytes {
            let len = (bytes - at).min(1 << 18) as usize;
            for (byte, at) in buffer[..len].iter_mut().zip(at..) {
                *byte = patterned(&pattern, at);
            }
            stream.write_all(&buffer[..len]).unwrap();
            at += len as u64;
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
    });
}

/// As [`every_byte_is_right`], with the kernel's TCP at the other end of a TAP.
fn every_byte_is_right_at_the_kernel(bytes: u64, limit_s: u64) {
    in_namespace(move || {
        let tap = Tap::open(&tap::Settings {
            name: "pronytap0".to_owned(),
            mtu_bytes: Some(1_500),
            is_offloaded: true,
        });
        let tap = tap.unwrap_or_else(|e| panic!("{e}; {}", e.remedy()));
        ip("addr add 10.9.0.1/16 dev pronytap0");
        let listener = TcpListener::bind("10.9.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let began = Instant::now();
        let now_ns = move || began.elapsed().as_nanos() as u64;
        // Neither end of a TAP is a wire, so only what a wire does to packets is done.
        let faults = Faults {
            delay_ns: 0,
            jitter_ns: 0,
            rate_bits_per_s: 0,
            ..ROUGH
        };
        let device = Fault::new(tap, faults, faults, 5, now_ns);
        let own: IpAddr = "10.9.16.5".parse().unwrap();
        let link = link_settings("pronytap0", "10.9.16.5");
        let settings = Settings::default();
        let mut host = Host::new(device, &link, settings, &[own], 5, now_ns()).unwrap();
        let server = std::thread::spawn(move || kernel_end(&listener, bytes));
        let pattern = pattern();
        let mut app = Checked {
            bulk: Bulk {
                bytes,
                promised: 0,
                received: 0,
                ended: None,
            },
            pattern: &pattern,
        };
        host.stack.connect(now_ns(), 0, to, 0).unwrap();
        while app.bulk.ended.is_none() {
            let now = now_ns();
            assert!(
                now < limit_s * SECOND_NS,
                "{} are through",
                app.bulk.received
            );
            host.send(now, &mut app).unwrap();
            if host.receive(now, 256, &mut app).unwrap() == 0 {
                let due = host.next_deadline_ns().unwrap_or(now + SECOND_NS);
                host.wait(due.saturating_sub(now).min(SECOND_NS)).unwrap();
            }
        }
        server.join().unwrap();
        assert_eq!(app.bulk.ended, Some(Ended::Orderly));
        assert_eq!(app.bulk.received, bytes);
        let [sent, received] = host.device.faults();
        let counters = host.stack.counters(CLIENT);
        assert!(sent.lost > 0 && received.lost > 0 && received.reordered > 0);
        assert!(counters.sndrexmitpack > 0 && counters.rcvoopack > 0);
        eprintln!(
            "{bytes} bytes each way in {:.1} s; sent {sent:?}, received {received:?}",
            began.elapsed().as_secs_f64()
        );
    });
}

#[test]
fn megabytes_through_loss_to_and_from_the_kernel() {
    every_byte_is_right_at_the_kernel(10 * MEGABYTE, 120);
}

#[test]
#[ignore = "long: make stack-long"]
fn ten_gigabytes_through_loss_to_and_from_the_kernel() {
    every_byte_is_right_at_the_kernel(5_000 * MEGABYTE, 3_600);
}

// ---- Millions of connections ----

const REQUEST: u64 = 100;
const ANSWER: u64 = 1_000;

/// Both ends of short connections; what it keeps does not grow with their number.
#[derive(Default)]
struct Short {
    /// Bytes received on each connection of ours, by its number.
    received: Vec<u64>,
    /// And on those of peers, whose numbers are used again.
    accepted: Vec<u64>,
    free: Vec<u32>,
    left: u64,
    done: u64,
    /// Ended otherwise than orderly.
    other: u64,
}

/// Numbers of accepted connections begin here.
const ACCEPTED: u32 = 1 << 20;

impl Short {
    fn connect(&mut self, stack: &mut Stack, user: u32) {
        if self.left > 0 {
            self.left -= 1;
            self.received[user as usize] = 0;
            let to = SocketAddr::from(([10, 9, 0, 2], 80));
            stack.connect(0, 0, to, user).unwrap();
        }
    }
}

impl App for Short {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        into.iter_mut()
            .zip(offset..)
            .for_each(|(b, at)| *b = byte(3, at));
    }

    fn received(&mut self, stack: &mut Stack, flow: FlowId, user: u32, bytes: &[u8]) {
        let is_ours = user < ACCEPTED;
        let got = if is_ours {
            &mut self.received[user as usize]
        } else {
            &mut self.accepted[(user - ACCEPTED) as usize]
        };
        for (byte_, at) in bytes.iter().zip(*got..) {
            assert_eq!(*byte_, byte(3, at));
        }
        *got += bytes.len() as u64;
        assert!(*got <= if is_ours { ANSWER } else { REQUEST });
        if !is_ours && *got == REQUEST {
            stack.send(flow, ANSWER as usize);
            stack.close(flow);
        }
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, user: u32, event: Event) {
        match event {
            Event::Connected => {
                stack.send(flow, REQUEST as usize);
            }
            Event::Accepted => {
                let number = self.free.pop().unwrap_or_else(|| {
                    self.accepted.push(0);
                    self.accepted.len() as u32 - 1
                });
                self.accepted[number as usize] = 0;
                stack.set_user(flow, ACCEPTED + number);
            }
            Event::PeerClosed if user < ACCEPTED => stack.close(flow),
            Event::Ended(why) => {
                self.other += u64::from(why != Ended::Orderly);
                if user < ACCEPTED {
                    self.done += 1;
                    let got = self.received[user as usize];
                    assert!(got == ANSWER || why != Ended::Orderly, "{got} and {why:?}");
                    self.connect(stack, user);
                } else {
                    self.free.push(user - ACCEPTED);
                }
            }
            Event::Acked { .. } | Event::PeerClosed => {}
        }
    }
}

type Wire = Fault<Loopback, Box<dyn FnMut() -> u64>>;

/// Two hosts, client first, on a clock that is moved.
struct Pair<D: Device> {
    hosts: [Host<D>; 2],
    now: u64,
    clock: std::rc::Rc<std::cell::Cell<u64>>,
}

fn wires(faults: Faults) -> ([Wire; 2], std::rc::Rc<std::cell::Cell<u64>>) {
    let (a, b) = loopback::pair(&loopback::Settings {
        ring_frames: 1 << 16,
        ..loopback::Settings::default()
    });
    let clock = std::rc::Rc::<std::cell::Cell<u64>>::default();
    let wire = |end, seed| -> Wire {
        let clock = std::rc::Rc::clone(&clock);
        Fault::new(
            end,
            faults,
            Faults::default(),
            seed,
            Box::new(move || clock.get()),
        )
    };
    ([wire(a, 1), wire(b, 2)], clock)
}

fn pair(settings: &Settings, faults: Faults) -> Pair<Wire> {
    let (wires, clock) = wires(faults);
    let mut last = 0;
    let mut pair = Pair {
        hosts: wires.map(|wire| {
            last += 1;
            host(wire, settings, last)
        }),
        now: 0,
        clock,
    };
    pair.hosts[1].stack.listen(80);
    pair
}

fn host<D: Device>(device: D, settings: &Settings, last: u8) -> Host<D> {
    let own = IpAddr::from([10, 9, 0, last]);
    let link = link_settings("lo", &own.to_string());
    let seed = u64::from(last);
    Host::new(device, &link, settings.clone(), &[own], seed, 0).unwrap()
}

/// When a device that is late by itself has something to do.
trait Due: Device {
    fn due(&self) -> Option<u64>;
}

impl Due for Wire {
    fn due(&self) -> Option<u64> {
        self.next_at_ns()
    }
}

impl<D: Due> Pair<D> {
    /// Runs until nothing is to come, `until`, or `done`.
    fn run<A: App>(&mut self, apps: &mut [A; 2], until: u64, done: impl Fn(&[A; 2]) -> bool) {
        while !done(apps) {
            self.clock.set(self.now);
            let mut came = 0;
            for (host, app) in self.hosts.iter_mut().zip(&mut *apps) {
                host.send(self.now, app).unwrap();
            }
            for (host, app) in self.hosts.iter_mut().zip(&mut *apps) {
                came += host.receive(self.now, usize::MAX, app).unwrap();
            }
            if came > 0 {
                continue;
            }
            let hosts = self.hosts.iter();
            let due = hosts.flat_map(|host| [host.next_deadline_ns(), host.device.due()]);
            match due.flatten().min() {
                Some(next) if next <= until => self.now = self.now.max(next),
                _ => return,
            }
        }
    }

    fn is_empty(&mut self) -> bool {
        self.hosts.iter_mut().all(|host| host.stack.is_empty())
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

/// All of them are begun, answered and closed, 256 at a time, and no state is left; by how many bytes this process
/// grew meanwhile, other tests in it included.
fn short_flows_leave_nothing(count: u64, faults: Faults) -> u64 {
    const AT_ONCE: u32 = 256;
    let settings = Settings {
        flows_max: 65_536,
        time_wait_ms: 20,
        ..Settings::default()
    };
    let mut pair = pair(&settings, faults);
    let mut client = Short {
        received: vec![0; AT_ONCE as usize],
        left: count,
        ..Short::default()
    };
    (0..AT_ONCE).for_each(|user| client.connect(&mut pair.hosts[0].stack, user));
    let mut apps = [client, Short::default()];
    let forever = u64::MAX;
    // What is touched once is memory for good: the tables, and what a burst of losses takes.
    let warm = count / 10;
    pair.run(&mut apps, forever, |apps| apps[0].done >= warm);
    let before = resident_bytes();
    pair.run(&mut apps, forever, |apps| apps[0].done >= count);
    let grown = resident_bytes().saturating_sub(before);
    pair.run(&mut apps, forever, |_| false);
    assert!(pair.is_empty(), "something is left of {count}");
    assert_eq!((apps[0].done, apps[0].other), (count, 0));
    let client = pair.hosts[0].stack.counters(CLIENT);
    let server = pair.hosts[1].stack.counters(SERVER);
    assert_eq!((client.connects, client.closed), (count, count));
    assert_eq!((server.accepts, server.closed), (count, count));
    grown
}

#[test]
fn thousands_of_connections_leave_nothing() {
    short_flows_leave_nothing(20_000, Faults::default());
    let rough = Faults {
        loss: 0.01,
        reorder: 0.01,
        delay_ns: 20_000,
        ..Faults::default()
    };
    short_flows_leave_nothing(5_000, rough);
}

#[test]
#[ignore = "long: make stack-long"]
fn ten_million_connections_leave_nothing() {
    let rough = Faults {
        loss: 0.01,
        reorder: 0.01,
        delay_ns: 20_000,
        ..Faults::default()
    };
    for (count, faults) in [(9_000_000, Faults::default()), (1_000_000, rough)] {
        let grown = short_flows_leave_nothing(count, faults);
        eprintln!("{count} connections, memory grew by {grown} bytes");
        // All of their state would be hundreds of megabytes. Nothing else runs in this process then.
        assert!(grown < 2_000_000, "memory grew by {grown} bytes");
    }
}

// ---- Peers that misbehave ----

/// Notes how connections end, and sends when it is told to.
#[derive(Default)]
struct Notes {
    open: Vec<FlowId>,
    ended: Vec<Ended>,
    received: u64,
    /// Window that an accepted connection is given at once.
    window: Option<u32>,
}

impl App for Notes {
    fn pull(&mut self, _: FlowId, _: u32, offset: u64, into: &mut [u8]) {
        into.iter_mut()
            .zip(offset..)
            .for_each(|(b, at)| *b = byte(3, at));
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, _: u32, bytes: &[u8]) {
        self.received += bytes.len() as u64;
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, _: u32, event: Event) {
        match event {
            Event::Connected => self.open.push(flow),
            Event::Accepted => {
                self.open.push(flow);
                if let Some(bytes) = self.window {
                    stack.set_receive_window(flow, bytes);
                }
            }
            Event::PeerClosed => stack.close(flow),
            Event::Ended(why) => {
                self.open.retain(|it| *it != flow);
                self.ended.push(why);
            }
            Event::Acked { .. } => {}
        }
    }
}

const PEERS: usize = 500;

/// So many open connections.
fn opened(settings: &Settings, apps: &mut [Notes; 2], faults: Faults) -> Pair<Wire> {
    let mut pair = pair(settings, faults);
    let to = SocketAddr::from(([10, 9, 0, 2], 80));
    for user in 0..PEERS as u32 {
        pair.hosts[0].stack.connect(0, 0, to, user).unwrap();
    }
    pair.run(apps, 100 * SECOND_NS, |apps| {
        apps.iter().all(|app| app.open.len() == PEERS)
    });
    assert!(apps.iter().all(|app| app.open.len() == PEERS));
    pair
}

/// A stack that remembers nothing of what its predecessor on this address did.
fn restart(pair: &mut Pair<Wire>, at: usize, settings: &Settings) {
    let own = IpAddr::from([10, 9, 0, at as u8 + 1]);
    let capabilities = pair.hosts[at].device.capabilities().clone();
    let mut fresh = Stack::new(settings.clone(), &capabilities, &[own], 99, pair.now);
    fresh.listen(80);
    pair.hosts[at].stack = fresh;
}

#[test]
fn connections_to_a_peer_that_has_crashed_end_when_they_are_used() {
    let settings = Settings {
        challenge_acks_per_s: 100_000,
        ..Settings::default()
    };
    let mut apps = [Notes::default(), Notes::default()];
    let mut pair = opened(&settings, &mut apps, Faults::default());
    restart(&mut pair, 1, &settings);
    for flow in apps[0].open.clone() {
        pair.hosts[0].stack.send(flow, 100);
    }
    pair.run(&mut apps, u64::MAX, |_| false);
    assert_eq!(apps[0].ended, vec![Ended::Reset; PEERS]);
    assert!(pair.is_empty());
}

#[test]
fn connections_to_a_peer_that_has_vanished_end_by_keep_alive() {
    let settings = Settings {
        keep_alive_idle_ms: 1_000,
        keep_alive_interval_ms: 500,
        keep_alive_probes_max: 3,
        stray: stack::tcp::Stray::Ignore,
        ..Settings::default()
    };
    let mut apps = [Notes::default(), Notes::default()];
    let mut pair = opened(&settings, &mut apps, Faults::default());
    restart(&mut pair, 0, &settings);
    let from = pair.now;
    pair.run(&mut apps, from + 100 * SECOND_NS, |apps| {
        apps[1].ended.len() == PEERS
    });
    assert_eq!(apps[1].ended, vec![Ended::TimedOut; PEERS]);
    assert!(pair.now - from < 4 * SECOND_NS);
    assert!(pair.is_empty());
}

#[test]
fn a_peer_that_does_not_read_gets_all_when_it_does_even_through_loss() {
    let faults = Faults {
        loss: 0.1,
        delay_ns: 1_000_000,
        ..Faults::default()
    };
    let settings = Settings::default();
    let mut apps = [
        Notes::default(),
        Notes {
            window: Some(0),
            ..Notes::default()
        },
    ];
    let mut pair = opened(&settings, &mut apps, faults);
    // More than the window of the handshake, which is told before anybody can say otherwise.
    let bytes = 70_000;
    for flow in apps[0].open.clone() {
        assert_eq!(pair.hosts[0].stack.send(flow, bytes), bytes);
        pair.hosts[0].stack.close(flow);
    }
    // What the peer was told in the handshake it may still take; then only probes go.
    let until = pair.now + 300 * SECOND_NS;
    pair.run(&mut apps, until, |_| false);
    assert_eq!(apps[0].ended, []);
    for flow in apps[1].open.clone() {
        pair.hosts[1].stack.set_receive_window(flow, 1 << 16);
    }
    pair.run(&mut apps, u64::MAX, |_| false);
    assert_eq!(apps[1].received, (PEERS * bytes) as u64);
    assert_eq!(apps[0].ended, vec![Ended::Orderly; PEERS]);
    assert!(pair.is_empty());
}

#[test]
fn connections_that_are_reset_anywhere_leave_nothing() {
    let settings = Settings {
        time_wait_ms: 100,
        ..Settings::default()
    };
    let faults = Faults {
        loss: 0.02,
        reorder: 0.02,
        delay_ns: 100_000,
        jitter_ns: 100_000,
        ..Faults::default()
    };
    let mut random = Random::new(4);
    for _ in 0..8 {
        let mut apps = [Notes::default(), Notes::default()];
        let mut pair = opened(&settings, &mut apps, faults);
        let mut live: [Vec<FlowId>; 2] = [apps[0].open.clone(), apps[1].open.clone()];
        while live.iter().any(|flows| !flows.is_empty()) {
            for (at, app) in apps.iter_mut().enumerate() {
                let stack = &mut pair.hosts[at].stack;
                for flow in app.open.clone() {
                    match random.below(12) {
                        0 => {
                            stack.abort(flow);
                            app.open.retain(|it| *it != flow);
                        }
                        1 => stack.close(flow),
                        2..=6 => drop(stack.send(flow, random.below(30_000) as usize)),
                        _ => {}
                    }
                }
            }
            let until = pair.now + u64::from(random.below(2_000_000));
            pair.run(&mut apps, until, |_| false);
            pair.now = until;
            live = [apps[0].open.clone(), apps[1].open.clone()];
        }
        pair.run(&mut apps, u64::MAX, |_| false);
        assert!(pair.is_empty());
    }
}

/// A device on whose wire others shout.
struct Flooded {
    wire: Wire,
    random: Random,
    frame: Vec<u8>,
    shouted: u64,
    /// Frames of others for each turn.
    a_turn: u32,
    /// Which they knock at.
    port: u16,
}

impl Flooded {
    /// Frames of every kind that is none of our business, or should not be.
    fn shout(&mut self) -> &[u8] {
        let random = &mut self.random;
        self.shouted += 1;
        self.frame.clear();
        self.frame.resize(60 + random.below(200) as usize, 0);
        let frame = &mut self.frame;
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        frame[6..14].copy_from_slice(&[2, 0, 0, 0, 9, 9, 8, 0]);
        let last = if random.below(2) == 0 { 2 } else { 77 };
        let header = frame[14..].first_chunk_mut().unwrap();
        let from = std::net::Ipv4Addr::from(0x0a09_8000 + random.below(4_096));
        let to = [10, 9, 0, last].into();
        stack::wire::ipv4::write(header, from, to, 6, 0, 64, 40);
        match random.below(6) {
            // Another station.
            0 => frame[5] = 9,
            // Another protocol.
            1 => frame[12..14].copy_from_slice(&(random.next_u32() as u16).to_be_bytes()),
            // Everybody.
            2 => frame[..6].fill(0xff),
            // A damaged one.
            3 => frame[14 + random.below(30) as usize] ^= 1 << random.below(8),
            // Half a handshake, with a right sum.
            4 => {
                let segment = stack::wire::tcp::Segment {
                    source_port: random.next_u32() as u16,
                    destination_port: self.port,
                    seq: random.next_u32(),
                    flags: 2,
                    mss: 1_460,
                    ..Default::default()
                };
                let len = stack::wire::tcp::write(&mut frame[34..], &segment);
                frame.truncate(34 + len);
                let header = frame[14..].first_chunk_mut().unwrap();
                stack::wire::ipv4::write(header, from, to, 6, 0, 64, len);
                let pseudo = stack::wire::checksum::pseudo_v4(from, to, 6, len);
                let sum = pseudo.bytes(&frame[34..]).finish();
                frame[50..52].copy_from_slice(&sum.to_be_bytes());
            }
            // Noise.
            _ => frame[14..].fill_with(|| random.next_u32() as u8),
        }
        &self.frame
    }
}

impl Device for Flooded {
    fn capabilities(&self) -> &Capabilities {
        self.wire.capabilities()
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        let done = self.wire.receive(budget, sink)?;
        if done > 0 {
            for _ in 0..self.a_turn {
                let head = self.shout();
                let (rest, meta) = (&[], RxMeta::PLAIN);
                sink(Frame { head, rest, meta });
            }
        }
        Ok(done)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        self.wire.transmit(len_max, fill)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wire.flush()
    }

    fn wait(&mut self, timeout_ns: u64) -> io::Result<()> {
        self.wire.wait(timeout_ns)
    }

    fn counters(&self) -> DeviceCounters {
        self.wire.counters()
    }
}

impl Due for Flooded {
    fn due(&self) -> Option<u64> {
        self.wire.next_at_ns()
    }
}

/// A client, and a server on whose wire others shout.
fn flooded(settings: &Settings, a_turn: u32, port: u16) -> Pair<Flooded> {
    let ([a, b], clock) = wires(Faults {
        delay_ns: 10_000,
        ..Faults::default()
    });
    let flooded = |wire, a_turn| Flooded {
        wire,
        random: Random::new(8),
        frame: Vec::new(),
        shouted: 0,
        a_turn,
        port,
    };
    let mut pair = Pair {
        hosts: [
            host(flooded(a, 0), settings, 1),
            host(flooded(b, a_turn), settings, 2),
        ],
        now: 0,
        clock,
    };
    pair.hosts[1].stack.listen(80);
    pair
}

fn sixteen(pair: &mut Pair<Flooded>, count: u64) -> [Short; 2] {
    let mut client = Short {
        received: vec![0; 16],
        left: count,
        ..Short::default()
    };
    (0..16).for_each(|user| client.connect(&mut pair.hosts[0].stack, user));
    [client, Short::default()]
}

/// Connections go on beside a flood of frames of others, which leaves nothing.
fn a_flood_changes_nothing(count: u64, a_turn: u32) {
    let settings = Settings {
        flows_max: 4_096,
        time_wait_ms: 20,
        ..Settings::default()
    };
    let mut pair = flooded(&settings, a_turn, 81);
    let mut apps = sixteen(&mut pair, count);
    pair.run(&mut apps, u64::MAX, |_| false);
    assert_eq!((apps[0].done, apps[0].other), (count, 0));
    assert!(pair.is_empty());
    let shouted = pair.hosts[1].device.shouted;
    let link = pair.hosts[1].link.counters();
    let seen = link.foreign_frames + link.unknown_frames + link.malformed_frames;
    assert!(seen > shouted / 2, "{link:?}");
    eprintln!("{count} connections beside {shouted} frames of others");
}

#[test]
fn half_handshakes_are_bounded_and_forgotten() {
    let settings = Settings {
        flows_max: 4_096,
        syn_received_max: 512,
        time_wait_ms: 20,
        ..Settings::default()
    };
    let mut pair = flooded(&settings, 2_000, 80);
    let mut apps = sixteen(&mut pair, 100);
    pair.run(&mut apps, SECOND_NS, |_| false);
    let server = &pair.hosts[1].stack;
    // Beside them are the connections of the client.
    assert!((500..=528).contains(&server.flows()), "{}", server.flows());
    assert!(server.counters(SERVER).badsyn > 0);
    pair.hosts[1].device.a_turn = 0;
    pair.run(&mut apps, u64::MAX, |_| false);
    assert_eq!(
        apps[0].done, 100,
        "all of them, when the others are forgotten"
    );
    assert!(pair.is_empty());
}

#[test]
fn a_flood_of_frames_of_others_changes_nothing() {
    a_flood_changes_nothing(2_000, 40);
}

#[test]
#[ignore = "long: make stack-long"]
fn a_long_flood_of_frames_of_others_changes_nothing() {
    a_flood_changes_nothing(100_000, 200);
}

/// The kernel as a client that never reads, resets, or goes away in the middle of what it asked for.
#[test]
fn clients_of_the_kernel_that_misbehave_leave_nothing() {
    in_namespace(|| {
        let tap = Tap::open(&tap::Settings {
            name: "pronytap0".to_owned(),
            mtu_bytes: Some(1_500),
            is_offloaded: true,
        });
        let tap = tap.unwrap_or_else(|e| panic!("{e}; {}", e.remedy()));
        ip("addr add 10.9.0.1/16 dev pronytap0");
        let began = Instant::now();
        let now_ns = move || began.elapsed().as_nanos() as u64;
        let own: IpAddr = "10.9.0.2".parse().unwrap();
        let link = link_settings("pronytap0", "10.9.0.2");
        let settings = Settings {
            time_wait_ms: 50,
            ..Settings::default()
        };
        let mut host = Host::new(tap, &link, settings, &[own], 5, 0).unwrap();
        host.stack.listen(80);
        let clients = std::thread::spawn(move || {
            for n in 0..60 {
                let mut stream = TcpStream::connect((own, 80)).unwrap();
                stream.write_all(&vec![0; REQUEST as usize]).unwrap();
                match n % 3 {
                    // Closed with unread bytes: the kernel resets.
                    0 => std::thread::yield_now(),
                    1 => stream.shutdown(std::net::Shutdown::Both).unwrap(),
                    _ => {
                        let mut some = [0; 1_000];
                        stream.read_exact(&mut some).unwrap();
                    }
                }
            }
        });
        /// Answers any request with more than a socket holds, and never stops by itself.
        #[derive(Default)]
        struct Endless(u32);
        impl App for Endless {
            fn pull(&mut self, _: FlowId, _: u32, _: u64, into: &mut [u8]) {
                into.fill(7);
            }
            fn received(&mut self, stack: &mut Stack, flow: FlowId, _: u32, _: &[u8]) {
                stack.send(flow, 100 << 20);
            }
            fn event(&mut self, _: &mut Stack, _: FlowId, _: u32, event: Event) {
                self.0 += u32::from(matches!(event, Event::Ended(_)));
            }
        }
        let mut app = Endless::default();
        while app.0 < 60 {
            let now = now_ns();
            assert!(now < 60 * SECOND_NS, "{} have ended", app.0);
            host.send(now, &mut app).unwrap();
            if host.receive(now, 256, &mut app).unwrap() == 0 {
                host.wait(1_000_000).unwrap();
            }
        }
        clients.join().unwrap();
        assert!(host.stack.is_empty());
    });
}
