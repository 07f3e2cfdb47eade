//! Network namespaces with a TAP or a veth pair, and programs in them; all of it goes with the value.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test, helpers included, a panic is the report; a skipped one says why"
)]

use crate::common::{Finished, finish};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const PRONY: &str = env!("CARGO_BIN_EXE_prony");
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// Runs `ip`, and says whether that went well.
pub fn ip(line: &str) -> bool {
    let output = Command::new("ip").args(line.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

/// The program is installed.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|dir| dir.join(program).is_file());
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// A wire of which prony's stack has one end and a kernel the other.
pub struct Wire {
    /// Where the kernel's end is, 10.9.0.1/24.
    pub kernel: String,
    /// Where the stack's end is: the same namespace with a TAP.
    pub stack: String,
    pub transport: &'static str,
    pub interface: &'static str,
    children: Vec<Child>,
}

impl Wire {
    /// A TAP; `None`, with the reason said, where the host does not allow it.
    pub fn tap(tag: &str) -> Option<Wire> {
        Wire::tap_with(tag, "")
    }

    /// A TAP that was made with `flags`.
    pub fn tap_with(tag: &str, flags: &str) -> Option<Wire> {
        let wire = Wire::empty(tag, "tap", "tap0")?;
        let n = &wire.kernel;
        if !ip(&format!(
            "-n {n} tuntap add dev tap0 mode tap vnet_hdr {flags}"
        )) {
            println!("skipped: this kernel has no TAP (/dev/net/tun)");
            return None;
        }
        wire.up("tap0", n, "10.9.0.1/24");
        Some(wire)
    }

    /// A veth pair between two namespaces.
    pub fn veth(tag: &str, transport: &'static str) -> Option<Wire> {
        Wire::veth_of(tag, transport, 1)
    }

    /// A veth pair of so many queues.
    pub fn veth_of(tag: &str, transport: &'static str, queues: u32) -> Option<Wire> {
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        let mut wire = Wire::empty(tag, transport, "veth0")?;
        wire.stack = format!("{}s", wire.kernel);
        let (n, s) = (&wire.kernel, &wire.stack);
        assert!(ip(&format!("netns add {s}")));
        settle(s);
        assert!(ip(&format!(
            "-n {n} link add veth1 {queues} type veth peer name veth0 {queues} netns {s}"
        )));
        wire.up("veth1", n, "10.9.0.1/24");
        wire.up("veth0", s, "10.9.0.254/24");
        Some(wire)
    }

    fn empty(tag: &str, transport: &'static str, interface: &'static str) -> Option<Wire> {
        let kernel = format!("prony-{tag}-{}", std::process::id());
        if !ip(&format!("netns add {kernel}")) {
            println!("skipped: making a network namespace needs root and the program `ip`");
            return None;
        }
        settle(&kernel);
        Some(Wire {
            stack: kernel.clone(),
            kernel,
            transport,
            interface,
            children: Vec::new(),
        })
    }

    fn up(&self, interface: &str, namespace: &str, address: &str) {
        assert!(ip(&format!(
            "-n {namespace} addr add {address} dev {interface}"
        )));
        assert!(ip(&format!("-n {namespace} link set {interface} up")));
    }

    /// A command in the kernel's namespace.
    pub fn kernels(&self, line: &str) -> Command {
        within(&self.kernel, line)
    }

    /// A command where the stack is.
    pub fn stacks(&self, line: &str) -> Command {
        within(&self.stack, line)
    }

    /// Runs a command in the kernel's namespace; it must go well.
    pub fn run(&self, line: &str) -> String {
        let done = finish(&mut self.kernels(line));
        assert_eq!(done.code, Some(0), "{line}: {}{}", done.stdout, done.stderr);
        done.stdout
    }

    /// `prony origin` over the stack, answering on 10.9.0.2 to 10.9.0.5, port 80.
    pub fn origin(&self, flags: &str) -> Origin {
        let line = format!(
            "{PRONY} origin --transport {} --interface {} --address 10.9.0.2-10.9.0.5 --listen 0.0.0.0:80 --json {flags}",
            self.transport, self.interface
        );
        Origin::start(&mut self.stacks(&line))
    }

    /// `prony load` over the stack.
    pub fn load(&self, flags: &str) -> Finished {
        let line = format!(
            "{PRONY} load --json --transport {} --interface {} {flags}",
            self.transport, self.interface
        );
        finish(&mut self.stacks(&line))
    }

    /// Starts a server in the kernel's namespace, and waits until it listens on the port.
    pub fn server(&mut self, line: &str, port: u16) {
        let child = self
            .kernels(line)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.children.push(child);
        let until = Instant::now() + START;
        let listens = format!("ss -Hltn sport = :{port}");
        while finish(&mut self.kernels(&listens)).stdout.is_empty() {
            assert!(Instant::now() < until, "{line} does not listen on {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The kernel holds no connection over the wire any more, but those in TIME-WAIT.
    pub fn expect_no_socket(&self) {
        let until = Instant::now() + Duration::from_secs(2);
        let mut line = "ss -Htan".to_owned();
        for state in
            "established fin-wait-1 fin-wait-2 close-wait last-ack closing syn-recv syn-sent"
                .split_whitespace()
        {
            write!(line, " state {state}").unwrap();
        }
        loop {
            let open = finish(&mut self.kernels(&line)).stdout;
            let of_wire: Vec<&str> = open.lines().filter(|l| l.contains("10.9.0.")).collect();
            if of_wire.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "the kernel holds {of_wire:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// No XDP program is on the stack's interface.
    pub fn expect_no_program(&self) {
        let line = format!("ip -d link show {}", self.interface);
        let shown = finish(&mut self.stacks(&line)).stdout;
        assert!(!shown.contains("prog/xdp"), "{shown}");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for child in &mut self.children {
            end(child, "-TERM");
        }
        for name in [&self.kernel, &self.stack] {
            ip(&format!("netns del {name}"));
        }
    }
}

/// Brings up loopback in a new namespace, which takes over from its host whether it forwards packets: it shall not.
fn settle(namespace: &str) {
    assert!(ip(&format!("-n {namespace} link set lo up")));
    let off = "echo 0 > /proc/sys/net/ipv4/ip_forward";
    let off = Command::new("ip")
        .args(["netns", "exec", namespace, "sh", "-c", off])
        .status();
    assert!(off.is_ok_and(|status| status.success()), "{namespace}");
}

fn within(namespace: &str, line: &str) -> Command {
    let mut inside = Command::new("ip");
    inside
        .args(["netns", "exec", namespace])
        .args(line.split_whitespace());
    inside
}

/// Sends a signal and waits for the end.
pub fn end(child: &mut Child, signal: &str) {
    let _ = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    let until = Instant::now() + Duration::from_secs(5);
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// A running `prony origin`.
pub struct Origin {
    child: Child,
    /// What it said first.
    pub said: String,
}

impl Origin {
    fn start(command: &mut Command) -> Origin {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        if !said.starts_with("serving") {
            stderr.read_to_string(&mut said).unwrap();
        }
        Origin { child, said }
    }

    /// Ctrl-C; its counters.
    pub fn stop(mut self) -> Value {
        end(&mut self.child, "-INT");
        let mut out = String::new();
        let stdout = self.child.stdout.as_mut().unwrap();
        stdout.read_to_string(&mut out).unwrap();
        serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{}", self.said))
    }

    /// Ends it without a chance to clean up.
    pub fn kill(mut self) {
        end(&mut self.child, "-KILL");
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            end(&mut self.child, "-INT");
        }
    }
}

/// Writes a file and gives its path.
pub fn file(directory: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
