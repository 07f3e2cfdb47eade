//! Two stacks over a simulated wire that loses, repeats, delays, turns around and damages: every byte is checked,
//! nothing is left behind, and the throughput of each cell is a golden file (`BLESS=1` rewrites it).
//!
//! The wire carries 100 Mbit/s each way with a queue of 256 packets, so that senders find a limit without chance as
//! well.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{Port, Program, Talk};
use stack::frame::{Frame, RxMeta};
use stack::random::Random;
use stack::tcp::{CLIENT, CongestionControl, Ended, SERVER, Settings, Stack};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

const BITS_PER_S: u64 = 100_000_000;
const QUEUE_NS: u64 = 256 * 1_514 * 8 * 1_000_000_000 / BITS_PER_S;

#[derive(Clone, Copy, Debug, Default)]
struct Weather {
    /// Per 10,000 frames.
    lost: u32,
    repeated: u32,
    /// Delayed by up to four milliseconds more.
    turned: u32,
    damaged: u32,
    delay_us: u64,
}

struct Side {
    stack: Stack,
    port: Port,
    program: Program,
    /// When its wire is free again.
    free_at: u64,
}

impl Side {
    fn new(settings: &Settings, last: u8, ip: IpAddr, segments: bool, seed: u64) -> Self {
        let port = Port::new(last, segments);
        Side {
            stack: Stack::new(settings.clone(), &port.capabilities, &[ip], seed, 0),
            port,
            program: Program::default(),
            free_at: 0,
        }
    }
}

struct World {
    now: u64,
    /// [client, server]
    sides: [Side; 2],
    /// Frames under way by arrival and number: to whom.
    wire: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    number: u64,
    weather: Weather,
    random: Random,
}

const SERVER_IP: [u8; 4] = [10, 0, 0, 2];

impl World {
    fn new(
        client: &Settings,
        server: &Settings,
        weather: Weather,
        segments: bool,
        seed: u64,
    ) -> Self {
        let ips: [IpAddr; 2] = [[10, 0, 0, 1].into(), SERVER_IP.into()];
        let mut world = World {
            now: 0,
            sides: [
                Side::new(client, 1, ips[0], segments, seed),
                Side::new(server, 2, ips[1], segments, seed + 1),
            ],
            wire: BTreeMap::new(),
            number: 0,
            weather,
            random: Random::new(seed ^ 0xabcd),
        };
        world.sides[1].stack.listen(80);
        world.sides[1].program.answer = 0;
        world
    }

    fn connect(&mut self, bytes: u64) {
        let side = &mut self.sides[0];
        let user = side.program.talks.len() as u32;
        side.program.talks.push(Talk {
            to_send: bytes,
            ..Talk::default()
        });
        let to = SocketAddr::from((SERVER_IP, 80));
        side.stack.connect(self.now, 0, to, user).unwrap();
    }

    fn chance(&mut self, per_10_000: u32) -> bool {
        self.random.below(10_000) < per_10_000
    }

    fn poll(&mut self) {
        for at in 0..2 {
            let side = &mut self.sides[at];
            side.stack
                .poll(self.now, &mut side.port, &mut side.program)
                .unwrap();
            for ip in side.stack.take_unresolved() {
                side.stack
                    .set_link_address(ip, [2, 0, 0, 0, 0, if at == 0 { 2 } else { 1 }]);
            }
            side.stack
                .poll(self.now, &mut side.port, &mut side.program)
                .unwrap();
            for (frame, _) in std::mem::take(&mut self.sides[at].port.sent) {
                self.put(at, frame);
            }
        }
    }

    fn put(&mut self, from: usize, mut frame: Vec<u8>) {
        let weather = self.weather;
        let side = &mut self.sides[from];
        let begin = side.free_at.max(self.now);
        if begin - self.now > QUEUE_NS {
            return;
        }
        side.free_at = begin + frame.len() as u64 * 8 * 1_000_000_000 / BITS_PER_S;
        let mut at = side.free_at + weather.delay_us * 1_000;
        if self.chance(weather.lost) {
            return;
        }
        if self.chance(weather.turned) {
            at += u64::from(self.random.below(4_000_000));
        }
        if self.chance(weather.damaged) {
            let byte = 14 + self.random.below(frame.len() as u32 - 14) as usize;
            frame[byte] ^= 1 << self.random.below(8);
        }
        if self.chance(weather.repeated) {
            self.number += 1;
            let later = at + u64::from(self.random.below(2_000_000));
            self.wire
                .insert((later, self.number), (1 - from, frame.clone()));
        }
        self.number += 1;
        self.wire.insert((at, self.number), (1 - from, frame));
    }

    /// Runs until `done` or `until`; false when the time was over first.
    fn run(&mut self, until: u64, mut done: impl FnMut(&mut World) -> bool) -> bool {
        loop {
            self.poll();
            if done(self) {
                return true;
            }
            let arrival = self.wire.keys().next().map(|(at, _)| *at);
            let deadlines = self
                .sides
                .iter()
                .filter_map(|side| side.stack.next_deadline_ns());
            let Some(next) = deadlines.chain(arrival).min() else {
                return false;
            };
            self.now = self.now.max(next);
            if self.now > until {
                return false;
            }
            while let Some(entry) = self.wire.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let (to, frame) = entry.remove();
                let side = &mut self.sides[to];
                let frame = Frame {
                    head: &frame,
                    rest: &[],
                    meta: RxMeta::PLAIN,
                };
                side.stack.input(self.now, frame, &mut side.program);
            }
        }
    }

    fn is_done(&mut self) -> bool {
        let opened = self.sides[0].program.is_done();
        opened && self.sides[1].program.is_done()
    }

    fn check_ends(&self) {
        let [client, server] = &self.sides;
        assert_eq!(client.program.talks.len(), server.program.talks.len());
        for (mine, theirs) in [(client, server), (server, client)] {
            let sent: u64 = mine.program.talks.iter().map(|talk| talk.to_send).sum();
            let received: u64 = theirs.program.talks.iter().map(|talk| talk.received).sum();
            assert_eq!(sent, received);
            let orderly = |talk: &Talk| talk.ended == Some(Ended::Orderly);
            assert!(mine.program.talks.iter().all(orderly));
        }
    }

    fn check_empty(&mut self) {
        let until = self.now + 400_000_000_000;
        self.run(until, |_| false);
        assert!(
            self.sides.iter_mut().all(|side| side.stack.is_empty()),
            "something is left"
        );
    }
}

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings {
        flows_max: 2_048,
        receive_window_bytes: 512 * 1_024,
        ..Settings::default()
    };
    change(&mut settings);
    settings
}

/// Megabits a second of one transfer of `bytes` up, verified.
fn transfer(
    client: &Settings,
    server: &Settings,
    weather: Weather,
    bytes: u64,
    segments: bool,
    seed: u64,
) -> (f64, World) {
    let mut world = World::new(client, server, weather, segments, seed);
    world.sides[0].program.closes_first = true;
    world.connect(bytes);
    let minutes = 60_000_000_000;
    assert!(
        world.run(60 * minutes, World::is_done),
        "{weather:?}: never ends"
    );
    let took = world.now;
    world.check_ends();
    world.check_empty();
    ((bytes * 8) as f64 * 1_000.0 / took as f64, world)
}

#[test]
fn streams_survive_every_weather_and_the_throughput_is_known() {
    let mut table = String::from("Mbit/s of 2 MB, one direction, wire of 100 Mbit/s\n");
    let _ = writeln!(
        table,
        "{:>9} {:>8} {:>22} {:>8} {:>8} {:>8}",
        "delay_us", "lost_%", "else", "cubic", "newreno", "no_sack"
    );
    for delay_us in [100, 5_000, 30_000] {
        for lost in [0, 10, 100, 500] {
            for (name, turned, repeated, damaged) in [
                ("", 0, 0, 0),
                ("1 % late, 1 % twice", 100, 100, 0),
                ("1 % damaged", 0, 0, 100),
            ] {
                let weather = Weather {
                    lost,
                    repeated,
                    turned,
                    damaged,
                    delay_us,
                };
                let cell = |change: fn(&mut Settings)| {
                    let settings = settings(change);
                    transfer(&settings, &settings, weather, 2_000_000, false, 42).0
                };
                let cubic = cell(|_| ());
                let reno = cell(|s| s.congestion_control = CongestionControl::NewReno);
                let plain = cell(|s| s.sack = false);
                let share = f64::from(lost) / 100.0;
                let _ = writeln!(
                    table,
                    "{delay_us:>9} {share:>8} {name:>22} {cubic:>8.2} {reno:>8.2} {plain:>8.2}"
                );
            }
        }
    }
    golden("throughput.txt", &table);
}

fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(known, text, "BLESS=1 takes the new table over");
}

#[test]
fn super_segments_without_a_wire_between_lose_nothing() {
    let settings = settings(|_| ());
    let (rate, world) = transfer(
        &settings,
        &settings,
        Weather {
            delay_us: 50,
            ..Weather::default()
        },
        20_000_000,
        true,
        7,
    );
    assert!(rate > 50.0, "{rate}");
    let sent = world.sides[0].stack.counters(CLIENT);
    assert_eq!(sent.sndbyte_ok, 20_000_000);
    assert!(
        world.sides[1].stack.counters(SERVER).rcvpack < sent.sndpack / 4,
        "nothing was merged"
    );
}

#[test]
fn settings_of_both_ends_need_not_agree() {
    let weather = Weather {
        lost: 200,
        repeated: 50,
        turned: 100,
        damaged: 0,
        delay_us: 2_000,
    };
    let changes: [fn(&mut Settings); 11] = [
        |_| (),
        |s| s.timestamps = false,
        |s| s.window_scaling = false,
        |s| s.sack = false,
        |s| s.keep_out_of_order = false,
        |s| s.receive_window_bytes = 3_000,
        |s| s.nagle = true,
        |s| s.delayed_ack_ms = 0,
        |s| s.ecn = true,
        |s| s.mss_bytes = 300,
        |s| s.reassembly_chunks_max = 12,
    ];
    for (i, ours) in changes.iter().enumerate() {
        for (j, theirs) in changes.iter().enumerate() {
            let seed = (i * 100 + j) as u64;
            transfer(
                &settings(ours),
                &settings(theirs),
                weather,
                150_000,
                false,
                seed,
            );
        }
    }
}

#[test]
fn thousands_of_short_connections_through_loss_leave_nothing() {
    for (seed, closes_first) in [(1, true), (2, false)] {
        let weather = Weather {
            lost: 300,
            repeated: 100,
            turned: 200,
            damaged: 50,
            delay_us: 300,
        };
        let both = settings(|s| s.time_wait_ms = 2_000);
        let mut world = World::new(&both, &both, weather, false, seed);
        world.sides[0].program.closes_first = closes_first;
        world.sides[1].program.closes_first = !closes_first;
        world.sides[1].program.answer = 3_000;
        for round in 0..20 {
            for _ in 0..100 {
                world.connect(100 + round * 37);
            }
            let until = world.now + 3_600_000_000_000;
            assert!(world.run(until, World::is_done), "round {round} never ends");
        }
        world.check_ends();
        world.check_empty();
        let counters = *world.sides[0].stack.counters(CLIENT);
        assert_eq!(
            (counters.connattempt, counters.connects, counters.closed),
            (2_000, 2_000, 2_000)
        );
        assert_eq!(counters.drops + counters.conndrops, 0);
    }
}
