//! `prony traffic` end to end: both sides over memory, a client over a TAP against `prony origin` on the kernel's TCP,
//! Ctrl-C, and what is refused. The numbers of a result must agree with each other and with the server's.
//!
//! The TAP needs root and `ip`; without, the test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PRONY: &str = env!("CARGO_BIN_EXE_prony");

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("t.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

struct Ran {
    code: Option<i32>,
    json: Value,
    stderr: String,
}

fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran {
        code: output.status.code(),
        json: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        stderr,
    }
}

fn traffic(file: &str, flags: &[&str]) -> Ran {
    ran(Command::new(PRONY)
        .args(["traffic", "--json", file])
        .args(flags))
}

fn n(value: &Value, pointer: &str) -> u64 {
    let found = value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("no {pointer} in {value}"));
    found
        .as_u64()
        .unwrap_or_else(|| panic!("{pointer} is {found}"))
}

fn counter(run: &Value, name: &str, side: &str) -> u64 {
    let rows = run["counters"].as_array().unwrap();
    let row = rows.iter().find(|r| r["name"] == name);
    row.and_then(|r| r[side].as_u64())
        .unwrap_or_else(|| panic!("no {name} of {side}"))
}

/// What must hold in every result of a run whose client is ours.
fn sums_agree(run: &Value) {
    let mut connected = 0;
    for t in run["templates"].as_array().unwrap() {
        let failed = t["failed"].as_object().unwrap().iter();
        let failed: u64 = failed
            .filter(|(kind, _)| !kind.ends_with("_at_server"))
            .map(|(_, n)| n.as_u64().unwrap())
            .sum();
        assert_eq!(
            n(t, "/attempted"),
            n(t, "/completed") + failed + n(t, "/unfinished"),
            "{t}"
        );
        assert!(n(t, "/connected") <= n(t, "/attempted"), "{t}");
        // UDP has no handshake that TCP could count.
        connected += if t["name"] == "lookup" {
            0
        } else {
            n(t, "/connected")
        };
    }
    assert_eq!(counter(run, "tcps_connects", "client"), connected);
    assert_eq!(
        counter(run, "tcps_connects", "client"),
        counter(run, "tcps_closed", "client"),
        "nothing is left open"
    );
}

const MEMORY: &str = r#"
transport = "loopback"
seed = 7
[[template]]
name = "page"
target = "http://10.9.0.1/bytes/3000"
count = 300
concurrent = 8
requests = 2
[[template]]
name = "dialogue"
target = "tcp://10.9.0.1:7000"
count = 100
concurrent = 4
steps = ["client \"ask\"", "server 5000", "pause 1ms", "client hex 00ff", "server closes"]
[[template]]
name = "lookup"
target = "udp://10.9.0.1:53"
count = 50
concurrent = 5
request = 40
response = 120
exchanges = 3
"#;

#[test]
fn both_sides_over_memory_reach_their_counts_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let ran = traffic(&file(dir.path(), MEMORY), &["--out", out.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, ran.json);
    let run = &ran.json;
    assert_eq!(run["verdict"]["valid"], true);
    for (i, completed, exchanges, received) in [
        (0, 300, Some(600), Some(600 * 3000)),
        (1, 100, None, Some(100 * 5000)),
        (2, 50, Some(150), Some(150 * 120)),
    ] {
        let t = &run["templates"][i];
        assert_eq!(n(t, "/completed"), completed, "{t}");
        if let Some(exchanges) = exchanges {
            assert_eq!(n(t, "/exchanges"), exchanges, "{t}");
        }
        // HTTP's heads are payload too.
        let least = received.unwrap_or(0);
        assert!(n(t, "/received_bytes") >= least, "{t}");
    }
    sums_agree(run);
    assert_eq!(counter(run, "tcps_accepts", "server"), 400);
    assert_eq!(
        counter(run, "tcps_sndbyte_ok", "client"),
        counter(run, "tcps_rcvbyte", "server")
    );
    assert_eq!(
        counter(run, "tcps_rcvbyte", "client"),
        counter(run, "tcps_sndbyte_ok", "server")
    );
    // Memory loses nothing, so what one side sent the other has.
    for (from, to) in [(0, 1), (1, 0)] {
        let (tx, rx) = (
            format!("/sides/{from}/ports/tx_bytes"),
            format!("/sides/{to}/ports/rx_bytes"),
        );
        assert_eq!(n(run, &tx), n(run, &rx));
    }
    // The record says the same.
    for name in [
        "traffic.json",
        "report.json",
        "report.html",
        "manifest.json",
    ] {
        assert!(out.join(name).exists(), "{name}");
    }
    let again = ran_report(&out);
    assert_eq!(again["traffic"]["templates"], run["templates"]);
    assert_eq!(again["verdict"], run["verdict"]);
    let kept = traffic(&file(dir.path(), MEMORY), &["--out", out.to_str().unwrap()]);
    assert_eq!(kept.code, Some(2), "a record is never written over");
    assert!(
        kept.stderr.contains("holds a record already"),
        "{}",
        kept.stderr
    );
}

fn ran_report(record: &Path) -> Value {
    let path = record.to_str().unwrap();
    let ran = ran(Command::new(PRONY).args(["report", path, "--format", "json"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    ran.json
}

#[test]
fn every_example_is_a_traffic_file() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/traffic");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let ran = traffic(path.to_str().unwrap(), &["--dry-run"]);
        assert_eq!(ran.code, Some(0), "{}: {}", path.display(), ran.stderr);
        assert!(!ran.json["templates"].as_array().unwrap().is_empty());
        seen += 1;
    }
    assert!(seen >= 4, "{seen} examples");
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let text = "transport = \"loopback\"\nduration = \"60s\"\n[[template]]\ntarget = \"http://10.9.0.1/\"\nrate = 300\n";
    let mut child = Command::new(PRONY)
        .args(["traffic", "--json", &file(dir.path(), text)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let mut said = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let run: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(run["interrupted"], true);
    assert!(
        n(&run, "/templates/0/completed") > 100,
        "{}",
        run["templates"]
    );
    assert!(run["duration_s"].as_f64().unwrap() < 30.0);
    sums_agree(&run);
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let side = |interface: &str, transport: &str| {
        format!(
            "[client]\ntransport = \"{transport}\"\ninterface = \"{interface}\"\naddresses = \"127.9.0.2-127.9.0.9\"\n\
             [[template]]\ntarget = \"http://127.9.0.1/\"\nrate = 10\n"
        )
    };
    for (text, code, said) in [
        (side("nowhere0", "tap"), 4, "no network interface `nowhere0`"),
        (side("lo", "tpa"), 2, "t.toml:2:13: unknown value `tpa` in transport"),
        ("[[template]]\n".to_owned(), 2, "t.toml:1:1: [[template]] has no `target`"),
        (
            "transport = \"loopback\"\n[[template]]\ntarget = \"tcp://10.9.0.1:7\"\nrate = 1\npcap = \"none.pcap\"\n"
                .to_owned(),
            2,
            "cannot read `none.pcap`",
        ),
    ] {
        let ran = traffic(&file(dir.path(), &text), &["-d", "1s"]);
        assert_eq!(ran.code, Some(code), "{text}\n{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{text}\n{}", ran.stderr);
    }
    let missing = traffic("/nowhere/t.toml", &[]);
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("docs/traffic.md"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_flow_that_was_captured_is_replayed_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    // One connection is captured by prony itself, and replayed from the file.
    let captured = "transport = \"loopback\"\n[client]\ncapture = \"flow.pcap\"\n[[template]]\n\
        target = \"tcp://10.9.0.1:7000\"\ncount = 1\nconcurrent = 1\n\
        steps = [\"client \\\"hello\\\"\", \"server 40000\", \"client 3000\", \"client closes\"]\n";
    let first = traffic(&file(dir.path(), captured), &[]);
    assert_eq!(first.code, Some(0), "{}\n{}", first.stderr, first.json);
    let replayed = "transport = \"loopback\"\n[[template]]\ntarget = \"tcp://10.9.0.1:7000\"\ncount = 20\nconcurrent = 4\npcap = \"flow.pcap\"\n";
    let again = traffic(&file(dir.path(), replayed), &[]);
    assert_eq!(again.code, Some(0), "{}\n{}", again.stderr, again.json);
    let (one, twenty) = (&first.json["templates"][0], &again.json["templates"][0]);
    assert_eq!(n(twenty, "/completed"), 20);
    for bytes in ["/sent_bytes", "/received_bytes"] {
        assert_eq!(n(twenty, bytes), 20 * n(one, bytes), "{bytes}");
    }
    assert_eq!(n(one, "/received_bytes"), 40_000);
}

#[test]
fn a_capture_that_finds_no_room_is_told_and_stops_no_traffic() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let text = "transport = \"loopback\"\n[client]\ncapture = \"/dev/full\"\n[[template]]\n\
        target = \"http://10.9.0.1/bytes/3000\"\ncount = 50\nconcurrent = 5\n";
    let path = file(dir.path(), text);
    let ran = traffic(&path, &["--out", out.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, ran.json);
    assert_eq!(n(&ran.json, "/templates/0/completed"), 50);
    let record = std::fs::read_to_string(out.join("traffic.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    for warnings in [&ran.json["warnings"], &record["outcome"]["warnings"]] {
        let mut all = warnings.as_array().unwrap().iter();
        let told = all.find(|w| w["name"] == "device_trouble").unwrap();
        let message = told["seen"].as_str().unwrap();
        assert!(
            message.contains("the client side: the capture ends early"),
            "{message}"
        );
        assert!(message.contains("No space left on device"), "{message}");
    }
    // Each connection is a handshake, a request, a response in three segments at least, and an end.
    let client = &record["outcome"]["sides"][0];
    let missing = n(client, "/device/capture_missing");
    assert!(missing > 50 * 8, "{client}");
    assert_eq!(n(client, "/device/capture_packets"), 0);
    let shown = Command::new(PRONY)
        .args(["traffic", &path])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("the capture ends early"), "{shown}");
}

/// A namespace with a TAP and `prony origin` in it; all of it goes with this value.
struct Lab {
    name: String,
    origin: Option<Child>,
}

fn ip(args: &[&str]) -> bool {
    let output = Command::new("ip").args(args).output();
    output.is_ok_and(|output| output.status.success())
}

impl Lab {
    fn new() -> Option<Lab> {
        let name = format!("prony-traffic-{}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            println!("skipped: making a network namespace needs root and the program `ip`");
            return None;
        }
        let mut lab = Lab { name, origin: None };
        let at = lab.name.clone();
        if !ip(&[
            "-n", &at, "tuntap", "add", "dev", "tap0", "mode", "tap", "vnet_hdr",
        ]) {
            println!("skipped: this kernel has no TAP (/dev/net/tun)");
            return None;
        }
        assert!(ip(&[
            "-n",
            &at,
            "addr",
            "add",
            "10.9.0.1/24",
            "dev",
            "tap0"
        ]));
        assert!(ip(&["-n", &at, "link", "set", "tap0", "up"]));
        let mut origin = lab
            .within(&[PRONY, "origin", "--listen", "10.9.0.1:8080", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(origin.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        lab.origin = Some(origin);
        Some(lab)
    }

    fn within(&self, command: &[&str]) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name]).args(command);
        inside
    }

    /// What the server itself counted.
    fn counted(&mut self) -> Value {
        let mut origin = self.origin.take().unwrap();
        let pid = origin.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let mut said = String::new();
        origin
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        origin.wait().unwrap();
        serde_json::from_str(&said).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut origin) = self.origin.take() {
            let _ = origin.kill();
            let _ = origin.wait();
        }
        ip(&["netns", "del", &self.name]);
    }
}

#[test]
fn a_client_over_a_tap_and_the_kernels_server_count_the_same() {
    let Some(mut lab) = Lab::new() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let text = "[client]\ntransport = \"tap\"\ninterface = \"tap0\"\naddresses = \"10.9.0.2-10.9.0.9\"\n\
        [[template]]\nname = \"page\"\ntarget = \"http://10.9.0.1:8080/bytes/20000\"\ncount = 400\nconcurrent = 16\nrequests = 3\n\
        [[template]]\nname = \"nobody\"\ntarget = \"tcp://10.9.0.1:9\"\ncount = 2\nconcurrent = 1\nsteps = [\"client 1\"]\n";
    let path = file(dir.path(), text);
    let ran = ran(&mut lab.within(&[PRONY, "traffic", "--json", &path]));
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.stderr, ran.json);
    let run = &ran.json;
    sums_agree(run);
    assert_eq!(n(run, "/templates/0/completed"), 400);
    assert_eq!(n(run, "/templates/0/statuses/200"), 1200);
    assert_eq!(n(run, "/templates/0/exchanges"), 1200);
    assert_eq!(n(run, "/templates/1/failed/connect_refused"), 2);
    assert_eq!(counter(run, "tcps_connattempt", "client"), 402);
    let server = lab.counted();
    assert_eq!(n(&server, "/total/requests"), 1200);
    assert_eq!(n(&server, "/total/accepted"), 400);
    let client = &run["sides"][0];
    assert_eq!(client["coalesce_ns"], 50_000);
    assert!(
        client["cpu_us_per_connection"].as_f64().unwrap() > 0.0,
        "{client}"
    );
    assert!(n(client, "/ports/rx_bytes") > 1200 * 20_000);
}
