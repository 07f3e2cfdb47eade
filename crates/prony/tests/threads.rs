//! `prony traffic` and `prony origin` by several threads, each on a queue of one interface: over memory, over a TAP
//! with several queues, over a veth pair of two. Every connection, request and byte is counted at both ends, so that
//! none was begun twice, lost between two threads or left out of the sums.
//!
//! Wires need root and `ip`; without, the tests say so and end.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
#[path = "common/wires.rs"]
mod wires;

use common::{Finished, finish};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use wires::{PRONY, Wire, file};

fn n(value: &Value, pointer: &str) -> u64 {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// Whatever the verdict: on a host that others load too, a schedule may be late. Counts are exact all the same.
fn json(done: &Finished) -> Value {
    let is_known = matches!(done.code, Some(0 | 3));
    assert!(is_known, "{:?}: {}{}", done.code, done.stdout, done.stderr);
    serde_json::from_str(&done.stdout).unwrap()
}

fn counter(run: &Value, name: &str, side: &str) -> u64 {
    let rows = run["counters"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    row.and_then(|row| row[side].as_u64())
        .unwrap_or_else(|| panic!("no {name} of {side}"))
}

/// Each of the threads has carried something, and their parts are the side's sums.
fn threads_add_up(side: &Value, count: usize) {
    let threads = side["threads"].as_array().unwrap();
    assert_eq!(threads.len(), count, "{side}");
    let sum = |field: &str| threads.iter().map(|t| n(t, field)).sum::<u64>();
    assert_eq!(sum("/rx_frames"), n(side, "/ports/rx_frames"));
    assert_eq!(sum("/tx_frames"), n(side, "/ports/tx_frames"));
    assert!(threads.iter().all(|t| n(t, "/tx_frames") > 0), "{side}");
    let cpu: f64 = (threads.iter())
        .map(|t| t["cpu_user_s"].as_f64().unwrap())
        .sum();
    assert!((cpu - side["cpu_user_s"].as_f64().unwrap()).abs() < 1e-6);
}

const PAGES: u64 = 301;

/// Three templates of a client, none of which can be divided evenly.
fn client(wire: &Wire, more: &str) -> String {
    format!(
        "[client]\ntransport = \"{}\"\ninterface = \"{}\"\naddresses = \"10.9.0.2-10.9.0.9\"\n{more}\n\
         [[template]]\nname = \"page\"\ntarget = \"http://10.9.0.1:8080/bytes/20000\"\n\
         count = {PAGES}\nconcurrent = 15\nrequests = 3\n\
         [[template]]\nname = \"rate\"\ntarget = \"http://10.9.0.1:8080/bytes/100\"\ncount = 99\nrate = 500\n\
         [[template]]\nname = \"nobody\"\ntarget = \"tcp://10.9.0.1:9\"\ncount = 2\nconcurrent = 1\nsteps = [\"client 1\"]\n",
        wire.transport, wire.interface
    )
}

fn traffic(wire: &Wire, path: &str, flags: &str) -> Finished {
    finish(&mut wire.stacks(&format!("{PRONY} traffic --json {path} {flags}")))
}

fn a_client_counts_what_the_server_counts(mut wire: Wire) {
    let directory = tempfile::tempdir().unwrap();
    wire.server(&format!("{PRONY} origin --listen 10.9.0.1:8080"), 8080);
    let path = file(directory.path(), "t.toml", client(&wire, "threads = 2"));
    let run = json(&traffic(&wire, &path, ""));
    for (template, count, exchanges) in [(0, PAGES, 3 * PAGES), (1, 99, 99)] {
        let template = &run["templates"][template];
        for figure in ["/attempted", "/connected", "/completed"] {
            assert_eq!(n(template, figure), count, "{figure} of {template}");
        }
        assert_eq!(n(template, "/exchanges"), exchanges, "{template}");
        assert_eq!(n(template, "/statuses/200"), exchanges, "{template}");
    }
    assert_eq!(n(&run, "/templates/2/failed/connect_refused"), 2);
    assert_eq!(counter(&run, "tcps_connattempt", "client"), PAGES + 101);
    assert_eq!(counter(&run, "tcps_connects", "client"), PAGES + 99);
    threads_add_up(&run["sides"][0], 2);
    let stats = wire.run("curl -s http://10.9.0.1:8080/stats");
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(n(&stats, "/total/requests"), 3 * PAGES + 99);
    // The one that asks for the counters comes beside.
    assert_eq!(n(&stats, "/total/accepted"), PAGES + 99 + 1);
    wire.expect_no_socket();
    wire.expect_no_program();
}

#[test]
fn a_client_by_two_threads_over_a_tap_counts_what_the_server_counts() {
    if let Some(wire) = Wire::tap_with("thrtap", "multi_queue") {
        a_client_counts_what_the_server_counts(wire);
    }
}

#[test]
fn a_client_by_two_threads_over_af_xdp_counts_what_the_server_counts() {
    if let Some(wire) = Wire::veth_of("thrxdp", "af_xdp", 2) {
        a_client_counts_what_the_server_counts(wire);
    }
}

fn a_load_counts_what_the_emulated_server_counts(wire: &Wire) {
    let origin = wire.origin("-t 2");
    assert!(origin.said.contains("by 2 threads"), "{}", origin.said);
    let load = "load -c 32 -n 2000 --json --requests-per-connection 5 http://10.9.0.3/bytes/3000";
    let load = json(&finish(&mut wire.kernels(&format!("{PRONY} {load}"))));
    assert_eq!(n(&load, "/requests/succeeded"), 2_000, "{load}");
    let stats = origin.stop();
    assert_eq!(n(&stats, "/total/requests"), 2_000);
    let threads = stats["threads"].as_array().unwrap();
    assert_eq!(threads.len(), 2);
    assert!(threads.iter().all(|t| n(t, "/requests") > 0), "{stats}");
    assert_eq!(
        n(&stats, "/stack/tcp/accepts"),
        n(&stats, "/total/accepted")
    );
    assert_eq!(stats["stack"]["threads"].as_array().unwrap().len(), 2);
    wire.expect_no_socket();
    wire.expect_no_program();
}

#[test]
fn an_emulated_server_by_two_threads_over_a_tap_answers_each_request_once() {
    if let Some(wire) = Wire::tap_with("throtap", "multi_queue") {
        a_load_counts_what_the_emulated_server_counts(&wire);
    }
}

#[test]
fn an_emulated_server_by_two_threads_over_af_xdp_answers_each_request_once() {
    if let Some(wire) = Wire::veth_of("throxdp", "af_xdp", 2) {
        a_load_counts_what_the_emulated_server_counts(&wire);
    }
}

#[test]
fn a_server_side_by_two_threads_answers_the_kernels_clients() {
    let Some(wire) = Wire::tap_with("thrserve", "multi_queue") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let text = "duration = \"4s\"\n\
        [server]\ntransport = \"tap\"\ninterface = \"tap0\"\nthreads = 2\ncapture = \"frames.pcap\"\n\
        [[template]]\nname = \"page\"\ntarget = \"http://10.9.0.2/bytes/5000\"\nconcurrent = 1\n";
    let path = file(directory.path(), "t.toml", text);
    let served = std::thread::scope(|scope| {
        let serving = scope.spawn(|| traffic(&wire, &path, ""));
        let load = format!(
            "{PRONY} load -c 16 -n 600 --json --requests-per-connection 1 http://10.9.0.2/"
        );
        // As soon as it answers.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
        let load = loop {
            let done = finish(&mut wire.kernels(&load));
            if done.code == Some(0) || std::time::Instant::now() > until {
                break done;
            }
        };
        assert_eq!(n(&json(&load), "/requests/succeeded"), 600);
        serving.join().unwrap()
    });
    let run = json(&served);
    // Of a load that began too early some may have come.
    let accepted = n(&run, "/templates/0/accepted");
    assert!(accepted >= 600, "{run}");
    assert_eq!(counter(&run, "tcps_accepts", "server"), accepted);
    threads_add_up(&run["sides"][0], 2);
    // Both threads' packets are in one file, each connection's in their order: a replay finds any of them whole.
    let frames = fs::read(directory.path().join("frames.pcap")).unwrap();
    let (mut rest, mut packets) = (&frames[24..], 0);
    while let Some((head, more)) = rest.split_first_chunk::<16>() {
        let len = u32::from_ne_bytes(head[8..12].try_into().unwrap()) as usize;
        rest = &more[len..];
        packets += 1;
    }
    assert!(rest.is_empty() && packets >= 600 * 6, "{packets}");
}

fn in_memory(directory: &Path, text: &str, flags: &[&str]) -> Finished {
    let path = file(directory, "t.toml", text);
    finish(
        Command::new(PRONY)
            .args(["traffic", "--json", &path])
            .args(flags),
    )
}

#[test]
fn threads_face_each_other_in_memory_and_reach_their_counts() {
    let directory = tempfile::tempdir().unwrap();
    let text = "transport = \"loopback\"\n\
        [[template]]\nname = \"page\"\ntarget = \"http://10.9.0.1/bytes/3000\"\ncount = 1001\nconcurrent = 7\nrequests = 2\n\
        [[template]]\nname = \"say\"\ntarget = \"tcp://10.9.0.1:7000-7002\"\ncount = 50\nrate = 400\nsteps = [\"client 9\", \"server 5000\"]\n\
        [[template]]\nname = \"lookup\"\ntarget = \"udp://10.9.0.1:53\"\ncount = 50\nconcurrent = 5\nrequest = 40\nresponse = 120\nexchanges = 3\n";
    let out = directory.path().join("out");
    let run = json(&in_memory(
        directory.path(),
        text,
        &["-t", "3", "--out", out.to_str().unwrap()],
    ));
    for (template, count) in [(0, 1_001), (1, 50), (2, 50)] {
        let template = &run["templates"][template];
        for figure in ["/attempted", "/connected", "/completed"] {
            assert_eq!(n(template, figure), count, "{figure} of {template}");
        }
    }
    assert_eq!(n(&run, "/templates/0/exchanges"), 2_002);
    assert_eq!(counter(&run, "tcps_accepts", "server"), 1_051);
    assert_eq!(
        counter(&run, "tcps_sndbyte_ok", "client"),
        counter(&run, "tcps_rcvbyte", "server")
    );
    for side in [0, 1] {
        threads_add_up(&run["sides"][side], 3);
    }
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("client 2") && page.contains("Handed over"));
    let shown = finish(Command::new(PRONY).args(["report", out.to_str().unwrap()]));
    assert!(shown.stdout.contains("server 1"), "{}", shown.stdout);
}

#[test]
fn what_threads_cannot_have_is_refused_with_the_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let memory =
        "transport = \"loopback\"\n[[template]]\ntarget = \"http://10.9.0.1/\"\nconcurrent = 2\n";
    for (text, flags, said, remedy) in [
        (
            memory.to_owned(),
            &["-t", "3"][..],
            "connections for 2 at one time",
            "use 2 threads",
        ),
        (
            format!("{memory}[client]\nports = \"7000-7001\"\nthreads = 3\n"),
            &[],
            "2 local ports",
            "widen `ports`",
        ),
        (
            format!("{memory}[client]\nthreads = 3\n[server]\nthreads = 2\n"),
            &[],
            "faces one thread",
            "threads",
        ),
    ] {
        let done = in_memory(directory.path(), &text, flags);
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
        assert!(done.stderr.contains(remedy), "{}", done.stderr);
    }
    if let Some(wire) = Wire::tap("throne") {
        let path = file(directory.path(), "c.toml", client(&wire, "threads = 2"));
        let done = traffic(&wire, &path, "");
        assert_eq!(done.code, Some(4), "{}", done.stderr);
        assert!(
            done.stderr.contains("mode tap multi_queue"),
            "{}",
            done.stderr
        );
        let origin = wire.origin("-t 2");
        assert!(
            origin.said.contains("mode tap multi_queue"),
            "{}",
            origin.said
        );
    }
    if let Some(wire) = Wire::veth_of("thrfew", "af_xdp", 2) {
        let path = file(directory.path(), "c.toml", client(&wire, ""));
        let done = traffic(&wire, &path, "-t 3");
        assert_eq!(done.code, Some(4), "{}", done.stderr);
        assert!(
            done.stderr.contains("2 queues, and 3 threads"),
            "{}",
            done.stderr
        );
        assert!(done.stderr.contains("ethtool -L"), "{}", done.stderr);
    }
}
