//! `prony traffic --lab`: every way of loading has its row, nothing is left behind, and what a killed one left is
//! taken away by `--lab-restore`. And the host's own connections while AF_XDP comes and goes.
//!
//! Needs root and `ip`; without, each test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

mod common;
#[path = "common/wires.rs"]
mod wires;

use common::{finish, prony};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wires::{PRONY, Wire, end, ip};

/// Network namespaces of that prony process.
fn namespaces(pid: u32) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let of_it = format!("prony-{pid}-");
    names.filter(|name| name.starts_with(&of_it)).collect()
}

/// Processes that run in one of these namespaces.
fn inside(names: &[String]) -> usize {
    let of = |name: &String| {
        let output = Command::new("ip").args(["netns", "pids", name]).output();
        String::from_utf8_lossy(&output.unwrap().stdout)
            .lines()
            .count()
    };
    names.iter().map(of).sum()
}

fn may_make_namespaces() -> bool {
    let name = format!("prony-may-{}", std::process::id());
    let may = ip(&format!("netns add {name}")) && ip(&format!("netns del {name}"));
    if !may {
        println!("skipped: making a network namespace needs root and the program `ip`");
    }
    may
}

#[test]
fn the_laboratory_loads_every_way_and_leaves_nothing() {
    if !may_make_namespaces() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let child = prony(state.path())
        .args("traffic --lab -d 150ms -c 16 --json".split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let done = common::finish_child(child);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let document = done.json();
    let rows = document["rows"].as_array().unwrap();
    for (client, over, server) in [
        ("stack", "tap", ""),
        ("stack", "af_xdp", ""),
        ("sockets", "tap", "emulated"),
        ("sockets", "af_xdp", "emulated"),
        ("stack", "af_xdp", "emulated"),
    ] {
        let is_it = |row: &&serde_json::Value| {
            let is_emulated = row["server"] == "emulated";
            row["client"] == client && row["over"] == over && is_emulated == (server == "emulated")
        };
        let of_it: Vec<_> = rows.iter().filter(is_it).collect();
        assert_eq!(of_it.len(), 2, "{client} {server} {over}");
        for row in of_it {
            assert!(row["requests"].as_u64() > Some(50), "{row}");
            assert_eq!(row["failed"], 0, "{row}");
            let is_charged = document["charging"].is_string();
            assert_eq!(row["client_cpu_us"].is_number(), is_charged, "{row}");
        }
    }
    let is_said = !document["warnings"].as_array().unwrap().is_empty();
    assert!(document["charging"].is_string() || is_said);
    assert_eq!(namespaces(pid), Vec::<String>::new());
    assert_eq!(fs::read_dir(state.path().join("prony")).unwrap().count(), 0);
}

/// Starts a laboratory and kills it in the middle of its loads.
fn killed(state: &Path) -> u32 {
    let mut child = prony(state)
        .args("traffic --lab -d 20s -c 16".split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    let until = Instant::now() + Duration::from_secs(30);
    while inside(&namespaces(pid)) < 2 {
        assert!(Instant::now() < until, "the laboratory does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    end(&mut child, "-KILL");
    assert_eq!(namespaces(pid).len(), 2, "nobody has taken it away yet");
    pid
}

#[test]
fn what_a_killed_laboratory_left_is_taken_away() {
    if !may_make_namespaces() {
        return;
    }
    for again in ["traffic --lab-restore", "tune show"] {
        let state = tempfile::tempdir().unwrap();
        let pid = killed(state.path());
        let left = namespaces(pid);
        let done = finish(prony(state.path()).args(again.split(' ')));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(
            done.stderr.contains("removed what a killed prony left"),
            "{}",
            done.stderr
        );
        assert_eq!(namespaces(pid), Vec::<String>::new());
        assert_eq!(inside(&left), 0);
        assert_eq!(fs::read_dir(state.path().join("prony")).unwrap().count(), 0);
        let done = finish(prony(state.path()).args(["traffic", "--lab-restore"]));
        assert!(done.stderr.contains("nothing was left"), "{}", done.stderr);
    }
}

#[test]
fn a_connection_of_the_host_loses_nothing_while_af_xdp_comes_and_goes() {
    const BYTES: usize = 120_000_000;
    let temp = tempfile::tempdir().unwrap();
    let Some(mut wire) = Wire::veth("ohost", "af_xdp") else {
        return;
    };
    wire.server(&format!("{PRONY} origin --listen 10.9.0.1:8080"), 8080);
    let got = temp.path().join("got");
    // 10.9.0.254 is the host's own address on the interface that AF_XDP takes.
    let mut download = wire
        .stacks(&format!(
            "curl -s -S --limit-rate 20M -o {} http://10.9.0.1:8080/bytes/{BYTES}",
            got.display()
        ))
        .spawn()
        .unwrap();
    let mut turns = 0;
    while download.try_wait().unwrap().is_none() {
        // Ends by itself, by Ctrl-C, by kill -9.
        let load = wire.load("--source 10.9.0.6-10.9.0.9 -n 300 -c 8 http://10.9.0.1:8080/");
        assert_eq!(load.json()["requests"]["succeeded"], 300, "{}", load.stderr);
        wire.expect_no_program();
        let origin = wire.origin("");
        let size = wire.run("curl -s -o /dev/null -w %{size_download} http://10.9.0.3/bytes/10");
        assert_eq!(size, "10");
        match turns % 2 {
            0 => drop(origin.stop()),
            _ => origin.kill(),
        }
        wire.expect_no_program();
        turns += 1;
    }
    assert!(turns >= 4, "AF_XDP came and went {turns} times only");
    assert!(download.wait().unwrap().success());
    let body = fs::read(&got).unwrap();
    assert_eq!(body.len(), BYTES);
    // The pattern repeats every 64 KiB.
    let (first, rest) = body.split_at(65_536);
    assert!(rest.iter().eq(first.iter().cycle().take(rest.len())));
}
