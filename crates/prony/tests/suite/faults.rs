//! What stands in the way of a TCP of prony's own is named with its remedy, and what peers and strangers do to it holds
//! nobody else up.
//!
//! Needs root, `ip` and `setpriv`; without, each test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use crate::common::finish;
use crate::wires::{PRONY, Wire, has, ip};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// What `prony origin` says when it is refused; it must not serve.
fn refusal(wire: &Wire, before: &str, flags: &str) -> String {
    let line = format!("timeout 10 {before} {PRONY} origin --listen 0.0.0.0:80 {flags}");
    let done = finish(&mut wire.stacks(&line));
    assert_eq!(done.code, Some(4), "{before} {flags}: {}", done.stderr);
    done.stderr
}

#[test]
fn what_the_process_may_not_do_is_named_with_the_capability() {
    if !has("setpriv") {
        return;
    }
    let Some(wire) = Wire::veth("fcap", "af_xdp") else {
        return;
    };
    // CAP_SYS_ADMIN stands for both of the newer ones.
    for (without, transport, missing) in [
        ("-net_raw", "af_xdp", "CAP_NET_RAW"),
        ("-net_raw", "af_packet", "CAP_NET_RAW"),
        ("-bpf,-sys_admin", "af_xdp", "CAP_BPF"),
        ("-net_admin,-sys_admin", "af_xdp", "CAP_NET_ADMIN"),
    ] {
        let flags = format!("--transport {transport} --interface veth0 --address 10.9.0.2");
        let said = refusal(&wire, &format!("setpriv --bounding-set={without}"), &flags);
        assert!(
            said.contains("which this process does not have"),
            "{without}: {said}"
        );
        assert!(
            said.contains(missing) && said.contains("remedy: run as root, or give"),
            "{without}: {said}"
        );
    }
    let locked = "setpriv --bounding-set=-ipc_lock prlimit --memlock=65536";
    let flags = "--transport af_xdp --interface veth0 --address 10.9.0.2";
    let said = refusal(&wire, locked, flags);
    assert!(
        said.contains("locked-memory limit") && said.contains("ulimit -l"),
        "{said}"
    );
    wire.expect_no_program();
}

#[test]
fn interfaces_and_addresses_that_do_not_fit_are_named_with_the_remedy() {
    let Some(wire) = Wire::veth("fattach", "af_xdp") else {
        return;
    };
    let stack = wire.stack.clone();
    let refused = |flags: &str, cause: &str, remedy: &str| {
        let said = refusal(&wire, "", flags);
        assert!(
            said.contains(cause) && said.contains(remedy),
            "{flags}: {said}"
        );
    };
    let xdp = "--transport af_xdp --interface";
    refused(
        &format!("{xdp} veth9 --address 10.9.0.2"),
        "no network interface `veth9`; there are `lo`",
        "make it first",
    );
    refused(
        "--transport af_xdp --address 10.9.0.2",
        "no interface to attach to",
        "--interface; there are:",
    );
    refused(
        &format!("{xdp} veth0"),
        "needs addresses of its own",
        "free addresses of 10.9.0.0/24 with --address",
    );
    refused(
        &format!("{xdp} veth0 --address 10.9.0.0/24"),
        "this host has 10.9.0.254 on veth0",
        "remove 10.9.0.254",
    );
    refused(
        &format!("{xdp} veth0 --address 10.9.0.2 --gateway 10.1.0.1"),
        "gateway 10.1.0.1 is on none",
        "networks",
    );
    refused(
        "--transport tap --interface veth0 --address 10.9.0.2",
        "that is no TAP",
        "name another one",
    );
    refused(
        &format!("{xdp} veth0 --threads 9 --address 10.9.0.2"),
        "9 ",
        "",
    );
    let holder = wire.origin("");
    refused(
        &format!("{xdp} veth0 --address 10.9.0.6"),
        "veth0 is in use",
        "end that program",
    );
    holder.kill();
    assert!(ip(&format!("-n {stack} link set veth0 mtu 500")));
    refused(
        &format!("{xdp} veth0 --address 10.9.0.2"),
        "MTU is 500 bytes, and 576 are the least",
        "mtu 1500",
    );
    assert!(ip(&format!("-n {stack} link set veth0 mtu 1500 down")));
    refused(
        &format!("{xdp} veth0 --address 10.9.0.2"),
        "it is down",
        "ip link set veth0 up",
    );
    wire.expect_no_program();
}

#[test]
fn an_address_that_nobody_has_and_one_outside_are_named() {
    let Some(wire) = Wire::veth("farp", "af_xdp") else {
        return;
    };
    let load = wire.load("--source 10.9.0.2 -n 3 -c 3 --timeout 8s http://10.9.0.77/");
    let said = load.stderr + &load.stdout;
    assert!(said.contains("nobody answers ARP"), "{said}");
    let load = wire.load("--source 10.9.0.2 -n 3 -c 3 http://10.99.0.1/");
    assert!(
        load.stderr
            .contains("10.99.0.1 is outside the networks of veth0"),
        "{}",
        load.stderr
    );
    assert!(
        load.stderr.contains("remedy: name the gateway"),
        "{}",
        load.stderr
    );
    // Told the router, it is reached: there a kernel answers, if only that nobody listens.
    let kernel = &wire.kernel;
    assert!(ip(&format!("-n {kernel} addr add 10.99.0.1/32 dev lo")));
    let load = wire.load("--source 10.9.0.2 --gateway 10.9.0.1 -n 3 -c 1 -d 1s http://10.99.0.1/");
    let refused = load.json()["requests"]["failed"]["connect_refused"].as_u64();
    assert!(refused > Some(0), "{}{}", load.stderr, load.stdout);
}

#[test]
fn strangers_and_bad_peers_hold_nobody_up() {
    let Some(wire) = Wire::tap("flood") else {
        return;
    };
    const FLOOD: u64 = 20_000;
    let origin = wire.origin("");
    let n = &wire.kernel;
    // Frames for a station that is not there, and datagrams for an address of ours at which nobody listens.
    assert!(ip(&format!(
        "-n {n} neigh add 10.9.0.200 lladdr 02:00:00:00:00:99 dev tap0"
    )));
    let mut floods = Vec::new();
    for address in ["10.9.0.200", "10.9.0.2"] {
        let script =
            format!("for i in $(seq {FLOOD}); do echo x >/dev/udp/{address}/9; done 2>/dev/null");
        let mut flood = wire.kernels("bash -c");
        floods.push(flood.arg(script).stderr(Stdio::null()).spawn().unwrap());
    }
    // One that never reads, one that never asks, one that speaks nonsense, and SYNs to a closed port.
    let script = "exec 3<>/dev/tcp/10.9.0.3/80 4<>/dev/tcp/10.9.0.3/80 5<>/dev/tcp/10.9.0.3/80\n\
                  printf 'GET /bytes/1G HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n' >&3\n\
                  printf '\\026\\003\\001 nonsense\\r\\n\\r\\n' >&5; sleep 20";
    let mut peers = wire.kernels("bash -c");
    let mut peers = peers.arg(script).spawn().unwrap();
    let closed = format!("{PRONY} load --json -n 2000 -c 8 -d 2s http://10.9.0.2:81/");
    let closed = finish(&mut wire.kernels(&closed));
    assert!(
        closed.json()["requests"]["failed"]["connect_refused"].as_u64() > Some(0),
        "{}",
        closed.stdout
    );

    let line = format!(
        "{PRONY} load --json -n 5000 -c 32 --timeout 10s --requests-per-connection 5 http://10.9.0.4/bytes/3000"
    );
    let load = finish(&mut wire.kernels(&line));
    assert_eq!(
        load.json()["requests"]["succeeded"],
        5_000,
        "{}",
        load.stderr
    );
    for mut flood in floods {
        assert!(flood.wait().unwrap().success());
    }
    std::thread::sleep(Duration::from_millis(100));
    let stats: Value = serde_json::from_str(&wire.run("curl -s http://10.9.0.2/stats")).unwrap();
    // The one that never asks and the one that never reads are still there.
    assert!(stats["total"]["open"].as_u64() >= Some(3), "{stats}");
    assert_eq!(stats["total"]["responses"]["4xx"], 1, "{stats}");
    let _ = peers.kill();
    let _ = peers.wait();
    let stats = origin.stop();
    let stack = &stats["stack"];
    let link = |name: &str| stack["link"][name].as_u64().unwrap();
    assert!(link("foreign_frames") >= FLOOD, "{}", stack["link"]);
    assert_eq!(stack["device"]["rx_dropped"], 0, "{}", stack["device"]);
    // What was sent ahead to the one that does not read is bounded.
    assert!(
        stats["total"]["sent_bytes"].as_u64() < Some(100_000_000),
        "{stats}"
    );
    wire.expect_no_socket();
}
