//! Two stacks over a simulated wire that loses, repeats, delays, turns around and damages: every byte is checked,
//! nothing is left behind, and the throughput of each cell is a golden file (`BLESS=1` rewrites it).
//!
//! The wire is what a program has too: a loopback pair, each end behind a `Fault`, on a clock that the test moves. It
//! carries 100 Mbit/s each way with a queue of 256 packets, so that senders find a limit without chance as well.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::world::{World, settings};
use stack::device::fault::Faults;
use stack::tcp::{CLIENT, CongestionControl, SERVER, Settings};
use std::fmt::Write as _;

/// A wire with faults, and what its queue and rate are in all tests here.
fn weather(faults: Faults) -> Faults {
    Faults {
        rate_bits_per_s: 100_000_000,
        queue_bytes: 256 * 1_514,
        ..faults
    }
}

/// Megabits a second of one transfer of `bytes` up, verified.
fn transfer(
    client: &Settings,
    server: &Settings,
    faults: Faults,
    bytes: u64,
    segments: bool,
    seed: u64,
) -> (f64, World) {
    let mut world = World::new(client, server, weather(faults), segments, seed);
    world.sides[0].program.closes_first = true;
    world.connect(bytes);
    let minutes = 60_000_000_000;
    assert!(
        world.run(60 * minutes, World::is_done),
        "{faults:?}: never ends"
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
        "{:>9} {:>8} {:>26} {:>8} {:>8} {:>8}",
        "delay_us", "lost_%", "else", "cubic", "newreno", "no_sack"
    );
    for delay_us in [100, 5_000, 30_000] {
        for loss in [0.0, 0.001, 0.01, 0.05] {
            for (name, reorder, duplicate, corrupt) in [
                ("", 0.0, 0.0, 0.0),
                ("1 % overtaken, 1 % twice", 0.01, 0.01, 0.0),
                ("1 % damaged", 0.0, 0.0, 0.01),
            ] {
                let faults = Faults {
                    loss,
                    duplicate,
                    reorder,
                    corrupt,
                    delay_ns: delay_us * 1_000,
                    ..Faults::default()
                };
                let cell = |change: fn(&mut Settings)| {
                    let settings = settings(change);
                    transfer(&settings, &settings, faults, 2_000_000, false, 42).0
                };
                let cubic = cell(|_| ());
                let reno = cell(|s| s.congestion_control = CongestionControl::NewReno);
                let plain = cell(|s| s.sack = false);
                let share = loss * 100.0;
                let _ = writeln!(
                    table,
                    "{delay_us:>9} {share:>8} {name:>26} {cubic:>8.2} {reno:>8.2} {plain:>8.2}"
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
        Faults {
            delay_ns: 50_000,
            ..Faults::default()
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
    let faults = Faults {
        loss: 0.02,
        duplicate: 0.005,
        reorder: 0.01,
        delay_ns: 2_000_000,
        ..Faults::default()
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
                faults,
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
        let faults = Faults {
            loss: 0.03,
            duplicate: 0.01,
            reorder: 0.02,
            corrupt: 0.005,
            delay_ns: 300_000,
            ..Faults::default()
        };
        let both = settings(|s| s.time_wait_ms = 2_000);
        let mut world = World::new(&both, &both, weather(faults), false, seed);
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
