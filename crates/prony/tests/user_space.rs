//! `prony load --transport tap` against `prony origin` on the kernel's TCP, through a TAP in a network namespace of the
//! test's own: every response and every byte is counted, and nothing is left at either end.
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

const PRONY: &str = env!("CARGO_BIN_EXE_prony");

/// A namespace with a TAP, and the origin in it; all of it goes with this value.
struct Lab {
    name: String,
    origin: Option<Child>,
    url: String,
}

fn ip(args: &[&str]) -> bool {
    let output = Command::new("ip").args(args).output();
    output.is_ok_and(|output| output.status.success())
}

impl Lab {
    /// `None`, with the reason said, where the host does not allow it.
    fn new(tag: &str) -> Option<Lab> {
        let name = format!("prony-{tag}-{}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            println!("skipped: making a network namespace needs root and the program `ip`");
            return None;
        }
        let mut lab = Lab {
            name,
            origin: None,
            url: String::new(),
        };
        let n = lab.name.clone();
        assert!(ip(&["-n", &n, "link", "set", "lo", "up"]));
        if !ip(&[
            "-n", &n, "tuntap", "add", "dev", "tap0", "mode", "tap", "vnet_hdr",
        ]) {
            println!("skipped: this kernel has no TAP (/dev/net/tun)");
            return None;
        }
        assert!(ip(&["-n", &n, "addr", "add", "10.9.0.1/24", "dev", "tap0"]));
        assert!(ip(&["-n", &n, "link", "set", "tap0", "up"]));
        let mut origin = lab
            .inside(&[PRONY, "origin", "--listen", "10.9.0.1:8080"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(origin.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        lab.origin = Some(origin);
        lab.url = "http://10.9.0.1:8080".to_owned();
        Some(lab)
    }

    fn inside(&self, command: &[&str]) -> Command {
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.name]).args(command);
        inside
    }

    fn load(&self, path: &str, flags: &str) -> (Value, String) {
        let url = format!("{}{path}", self.url);
        let base = [
            "load",
            "--json",
            "--transport",
            "tap",
            "--interface",
            "tap0",
        ];
        let mut command = self.inside(&[PRONY]);
        command.args(base).args(flags.split_whitespace()).arg(&url);
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
            error,
        )
    }

    /// Kernel sockets that are neither listening nor in TIME-WAIT.
    fn open_sockets(&self) -> usize {
        let states = [
            "established",
            "fin-wait-1",
            "fin-wait-2",
            "close-wait",
            "last-ack",
            "closing",
            "syn-recv",
        ];
        let mut command = self.inside(&["ss", "-Htan"]);
        for state in states {
            command.args(["state", state]);
        }
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).lines().count()
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
fn a_load_over_a_tap_counts_every_byte_and_leaves_nothing() {
    let Some(lab) = Lab::new("tap") else {
        return;
    };
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
        let flags = format!("{flags} -n {requests} --timeout 10s --source 10.9.0.2-10.9.0.5");
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
        assert!(engine.starts_with("stack over tap"), "{engine}");
        assert_eq!(
            lab.open_sockets(),
            0,
            "{flags}: the kernel still holds connections"
        );
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
