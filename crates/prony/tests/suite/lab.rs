//! `prony traffic --lab`: every way of loading has its row, nothing is left behind, and what a killed one left is
//! taken away by `--lab-restore`. And the host's own connections while AF_XDP comes and goes.
//!
//! Needs root and `ip`; without, each test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use crate::common::{finish, prony};
use crate::wires::{PRONY, Wire, end, ip};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
    let flags = "-d 150ms -c 16 --lab-rounds 2 --lab-body 3000 --lab-initial-window 2";
    let document = laboratory(state.path(), flags, None);
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
    assert_eq!(
        (&document["rounds"], &document["body_bytes"]),
        (&2.into(), &3000.into())
    );
}

/// A traffic file in the laboratory; the document.
fn placed(dir: &Path, text: &str, flags: &str) -> serde_json::Value {
    let file = dir.join("lab.toml");
    fs::write(&file, text).unwrap();
    laboratory(dir, flags, Some(&file))
}

/// Runs the laboratory, which must leave nothing; the document.
fn laboratory(dir: &Path, flags: &str, file: Option<&Path>) -> serde_json::Value {
    let child = prony(dir)
        .args("traffic --lab --json".split(' '))
        .args(flags.split_whitespace())
        .args(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let done = crate::common::finish_child(child);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(namespaces(pid), Vec::<String>::new());
    assert_eq!(fs::read_dir(dir.join("prony")).unwrap().count(), 0);
    done.json()
}

#[test]
fn a_traffic_file_has_the_kernel_or_a_stack_at_its_other_end_in_the_laboratory() {
    if !may_make_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let client = r#"
[client]
transport = "tap"
interface = "tap0"
addresses = "10.9.0.2-10.9.0.40"
[[template]]
target = "http://10.9.0.1-10.9.0.1:8080/bytes/20000"
concurrent = 16
count = 300
"#;
    let both = r#"
transport = "loopback"
[client]
addresses = ["16.0.0.1-16.0.0.20", "fd16::2"]
[[template]]
target = "http://48.0.0.1/bytes/32k"
concurrent = 8
count = 150
[[template]]
target = "tcp://[fd48::1]:5001"
concurrent = 8
count = 150
steps = ["client 1000", "server 70000", "client closes"]
"#;
    for (text, flags, device) in [
        (client, "", "tap"),
        (client, "--lab-over af_xdp", "af_xdp"),
        (
            client,
            "--lab-over af_packet --lab-initial-window 2",
            "af_packet",
        ),
        (both, "", "af_xdp"),
        (both, "--lab-over af_packet --coalesce 0s", "af_packet"),
    ] {
        let document = placed(dir.path(), text, flags);
        let rows = document["templates"].as_array().unwrap();
        let completed: u64 = rows.iter().map(|t| t["completed"].as_u64().unwrap()).sum();
        assert_eq!(completed, 300, "{flags}: {document:#}");
        assert_eq!(document["asked"]["client"]["transport"], device, "{flags}");
    }
}

#[test]
fn a_server_alone_is_reached_from_the_laboratorys_other_side() {
    if !may_make_namespaces() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.toml");
    let text = "duration = \"60s\"\n[server]\ntransport = \"af_xdp\"\ninterface = \"veth0\"\n\
        [[template]]\ntarget = \"http://10.8.0.1-10.8.0.60:80/bytes/32KiB\"\nconcurrent = 1\n";
    for device in ["tap", "af_xdp"] {
        fs::write(&file, text).unwrap();
        let mut child = prony(dir.path())
            .args(format!("traffic --lab --lab-over {device} --json").split(' '))
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("curl http://10.8.0.1:80/") {
            said.clear();
            assert!(stderr.read_line(&mut said).unwrap() > 0, "no note");
        }
        let client = namespaces(pid);
        let client = client
            .iter()
            .find(|name| name.ends_with("-client"))
            .unwrap();
        assert!(said.contains(client.as_str()), "{said}");
        let curl = "-s --retry 20 --retry-connrefused --retry-delay 1 --connect-timeout 2 -o /dev/null -w %{size_download}";
        let output = Command::new("ip")
            .args(["netns", "exec", client, "curl"])
            .args(curl.split(' '))
            .arg("http://10.8.0.7/bytes/32KiB")
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "32768", "{device}");
        end(&mut child, "-INT");
        assert_eq!(namespaces(pid), Vec::<String>::new());
    }
}

#[test]
fn what_the_laboratory_cannot_be_for_a_file_is_refused_before_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("refused.toml");
    let client =
        "[client]\ntransport = \"af_xdp\"\ninterface = \"veth0\"\naddresses = \"10.8.0.2\"\n";
    let template = "[[template]]\nconcurrent = 1\ntarget = ";
    let stream = format!("{client}{template}\"tcp://10.8.0.1:9\"\nsteps = [\"client 10\"]\n");
    let memory = format!("transport = \"loopback\"\n{template}\"http://10.8.0.1/\"\n");
    for (text, flags, says, remedy) in [
        (
            &stream,
            "",
            "nobody in the laboratory answers [[template]] `template1`",
            "add [server]",
        ),
        (
            &memory,
            "--lab-over tap",
            "leads to a kernel",
            "--lab-over af_xdp",
        ),
        (
            &memory,
            "--lab-over af_xdp,tap",
            "over one device",
            "--lab-over",
        ),
        (
            &memory,
            "--lab-over kernel",
            "must be tap, af_xdp or af_packet",
            "",
        ),
        (&memory, "--lab-body 5", "cannot be used with", ""),
    ] {
        fs::write(&file, text).unwrap();
        let args = format!("traffic --lab {flags}");
        let done = finish(prony(dir.path()).args(args.split_whitespace()).arg(&file));
        assert_eq!(done.code, Some(2), "{flags}: {}", done.stderr);
        assert!(done.stderr.contains(says), "{flags}: {}", done.stderr);
        assert!(done.stderr.contains(remedy), "{flags}: {}", done.stderr);
    }
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
