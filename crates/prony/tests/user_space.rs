//! `prony load --transport tap|af_xdp|af_packet` against `prony origin` on the kernel's TCP, through a TAP or a veth
//! pair in network namespaces of the test's own: every response and every byte is counted, and nothing is left at
//! either end.
//!
//! Needs root and `ip`; without, the test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PRONY: &str = env!("CARGO_BIN_EXE_prony");

/// A namespace with the origin in it, and a TAP there or a veth pair to another namespace; all of it goes with this
/// value.
struct Lab {
    /// Where the server is.
    name: String,
    /// Where the load is made: the same one with a TAP.
    client: String,
    transport: &'static str,
    interface: &'static str,
    origin: Option<Child>,
    url: String,
}

fn ip(args: &[&str]) -> bool {
    let output = Command::new("ip").args(args).output();
    output.is_ok_and(|output| output.status.success())
}

impl Lab {
    /// With a TAP; `None`, with the reason said, where the host does not allow it.
    fn new(tag: &str) -> Option<Lab> {
        Lab::with_tap(tag, &[])
    }

    /// With a TAP that was made with `flags`.
    fn with_tap(tag: &str, flags: &[&str]) -> Option<Lab> {
        let lab = Lab::empty(tag, "tap", "tap0")?;
        let n = lab.name.clone();
        let made = [
            "-n", &n, "tuntap", "add", "dev", "tap0", "mode", "tap", "vnet_hdr",
        ];
        if !ip(&[&made, flags].concat()) {
            println!("skipped: this kernel has no TAP (/dev/net/tun)");
            return None;
        }
        assert!(ip(&["-n", &n, "addr", "add", "10.9.0.1/24", "dev", "tap0"]));
        assert!(ip(&["-n", &n, "link", "set", "tap0", "up"]));
        Some(lab.served())
    }

    /// With a veth pair of so many queues.
    fn of_two(tag: &str, transport: &'static str, queues: &str) -> Option<Lab> {
        let mut lab = Lab::empty(tag, transport, "veth0")?;
        lab.client = format!("{}c", lab.name);
        let (n, c) = (lab.name.clone(), lab.client.clone());
        assert!(ip(&["netns", "add", &c]));
        let queues = ["numrxqueues", queues, "numtxqueues", queues];
        let (one, other) = (["-n", &n, "link", "add", "veth1"], ["name", "veth0"]);
        let pair = [
            &one[..],
            &queues,
            &["type", "veth", "peer"],
            &other,
            &queues,
        ];
        assert!(ip(&[&pair.concat()[..], &["netns", &c]].concat()));
        for (at, interface, address) in
            [(&n, "veth1", "10.9.0.1/24"), (&c, "veth0", "10.9.0.254/24")]
        {
            assert!(ip(&["-n", at, "addr", "add", address, "dev", interface]));
            assert!(ip(&["-n", at, "link", "set", interface, "up"]));
        }
        Some(lab.served())
    }

    fn empty(tag: &str, transport: &'static str, interface: &'static str) -> Option<Lab> {
        let name = format!("prony-{tag}-{}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            println!("skipped: making a network namespace needs root and the program `ip`");
            return None;
        }
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        Some(Lab {
            client: name.clone(),
            name,
            transport,
            interface,
            origin: None,
            url: String::new(),
        })
    }

    fn served(mut self) -> Lab {
        let mut origin = Lab::within(&self.name, &[PRONY, "origin", "--listen", "10.9.0.1:8080"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(origin.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        self.origin = Some(origin);
        self.url = "http://10.9.0.1:8080".to_owned();
        self
    }

    fn within(namespace: &str, command: &[&str]) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", namespace]).args(command);
        inside
    }

    fn load(&self, path: &str, flags: &str) -> (Value, String) {
        let url = format!("{}{path}", self.url);
        let base = [
            "load",
            "--json",
            "--transport",
            self.transport,
            "--interface",
            self.interface,
        ];
        let mut command = Lab::within(&self.client, &[PRONY]);
        command.args(base).args(flags.split_whitespace()).arg(&url);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
            error,
        )
    }

    /// The kernel holds no connection any more. A socket that its server was using when the last segment came takes
    /// it a moment later; what nobody answers stays for many seconds.
    fn expect_no_socket(&self, flags: &str) {
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let open = self.open_sockets();
            if open.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{flags}: the kernel holds {open}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kernel sockets that are neither listening nor in TIME-WAIT, as ss shows them.
    fn open_sockets(&self) -> String {
        let states = [
            "established",
            "fin-wait-1",
            "fin-wait-2",
            "close-wait",
            "last-ack",
            "closing",
            "syn-recv",
        ];
        let mut command = Lab::within(&self.name, &["ss", "-Htan"]);
        for state in states {
            command.args(["state", state]);
        }
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(mut origin) = self.origin.take() {
            let _ = origin.kill();
            let _ = origin.wait();
        }
        for name in [&self.name, &self.client] {
            ip(&["netns", "del", name]);
        }
    }
}

#[test]
fn a_load_over_a_tap_counts_every_byte_and_leaves_nothing() {
    if let Some(lab) = Lab::new("tap") {
        every_byte_is_counted(&lab, "stack over tap", "");
    }
}

#[test]
fn threads_of_a_load_have_queues_of_their_own() {
    let Some(lab) = Lab::with_tap("taps", &["multi_queue"]) else {
        return;
    };
    every_byte_is_counted(&lab, "stack over tap", "-t 2");
    every_byte_is_counted(&lab, "stack over tap", "-t 1");
    drop(lab);
    if let Some(lab) = Lab::of_two("xdps", "af_xdp", "2") {
        every_byte_is_counted(&lab, "stack over af_xdp", "-t 2");
        let (_, error) = lab.load("/", "-t 3 -c 3 -n 3 --source 10.9.0.2");
        assert!(error.contains("2 queues, and 3 threads need"), "{error}");
    }
}

#[test]
fn more_threads_than_queues_are_refused_with_the_remedy() {
    if let Some(lab) = Lab::new("tapone") {
        let (_, error) = lab.load("/", "-t 2 -c 2 -n 2 --source 10.9.0.2");
        assert!(error.contains("mode tap multi_queue"), "{error}");
    }
}

#[test]
fn a_load_over_af_xdp_counts_every_byte_and_leaves_nothing() {
    if let Some(lab) = Lab::of_two("xdp", "af_xdp", "1") {
        every_byte_is_counted(&lab, "stack over af_xdp", "");
        let links = Lab::within(&lab.client, &["ip", "-d", "link", "show", "veth0"])
            .output()
            .unwrap();
        let links = String::from_utf8_lossy(&links.stdout).into_owned();
        assert!(!links.contains("prog/xdp"), "{links}");
    }
}

#[test]
fn a_load_over_af_packet_counts_every_byte_and_leaves_nothing() {
    if let Some(lab) = Lab::of_two("packet", "af_packet", "1") {
        every_byte_is_counted(&lab, "stack over af_packet", "");
        every_byte_is_counted(&lab, "stack over af_packet", "-t 2");
    }
}

fn every_byte_is_counted(lab: &Lab, engine_name: &str, more: &str) {
    for (path, bytes, requests, flags) in [
        ("/bytes/1024", 1_024, 4_000, "-c 32"),
        (
            "/bytes/1024",
            1_024,
            4_000,
            "-c 32 --requests-per-connection 1",
        ),
        (
            "/bytes/1024",
            1_024,
            4_000,
            "-c 32 --requests-per-connection 1 --close rst",
        ),
        ("/bytes/1024", 1_024, 1_000, "-c 1 --coalesce 0"),
        ("/bytes/1048576", 1 << 20, 200, "-c 8"),
        (
            "/bytes/1048576",
            1 << 20,
            100,
            "-c 8 --requests-per-connection 1",
        ),
        ("/bytes/1024", 1_024, 2_000, "-R 4000 -c 16"),
    ] {
        let flags =
            format!("{flags} {more} -n {requests} --timeout 10s --source 10.9.0.2-10.9.0.5");
        let (result, error) = lab.load(path, &flags);
        let count = |name: &str| result["requests"][name].as_u64();
        assert_eq!(
            count("succeeded"),
            Some(requests),
            "{flags}: {error}{result}"
        );
        assert_eq!(result["status"]["200"].as_u64(), Some(requests), "{flags}");
        let received = result["bytes"]["received"].as_u64().unwrap();
        let body = requests * bytes;
        // Heads of at most 400 bytes beside the bodies.
        assert!(
            received > body && received < body + requests * 400,
            "{flags}: {received}"
        );
        let engine = result["generator"]["engine"].as_str().unwrap();
        assert!(engine.starts_with(engine_name), "{engine}");
        let stack = &result["stack"];
        let counter = |name: &str| {
            let rows = stack["counters"].as_array().unwrap();
            rows.iter().find(|r| r["name"] == name).unwrap()["client"].as_u64()
        };
        assert_eq!(stack["transport"], lab.transport, "{flags}");
        assert_eq!(
            counter("tcps_connects"),
            result["connections"]["opened"].as_u64(),
            "{flags}"
        );
        assert!(counter("tcps_rcvbyte").unwrap() >= received, "{flags}");
        assert!(
            stack["ports"]["rx_bytes"].as_u64().unwrap() > received,
            "{flags}"
        );
        lab.expect_no_socket(&flags);
    }
}

#[test]
fn a_port_where_nobody_listens_is_refused_and_an_address_of_the_host_is_named() {
    let Some(mut lab) = Lab::new("refuse") else {
        return;
    };
    let (_, error) = lab.load("/", "-n 1 --source 10.9.0.1");
    assert!(error.contains("this host has 10.9.0.1 on tap0"), "{error}");
    let (_, error) = lab.load("/", "-n 1");
    assert!(
        error.contains("name free addresses of 10.9.0.0/24 with --source"),
        "{error}"
    );
    lab.url = "http://10.9.0.1:81".to_owned();
    let (result, error) = lab.load("/", "-n 5 -c 1 -d 1s --source 10.9.0.2");
    let refused = result["requests"]["failed"]["connect_refused"].as_u64();
    assert!(refused > Some(0), "{error}{result}");
}
