//! A load that runs out of local ports names them. It needs a host with very few: a network namespace
//! with two, which the kernel gives to anybody inside a user namespace.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{finish, prony};
use std::process::{Command, Stdio};

/// Two ports, both held by a load that is under way; the origin listens outside of their range.
const SCRIPT: &str = r#"
set -e
ip link set lo up
echo 40000 40001 > /proc/sys/net/ipv4/ip_local_port_range
"$PRONY" origin --listen 127.0.0.1:9000 --delay constant:50ms 2> "$STATE/origin" &
origin=$!
trap 'kill $origin' EXIT
for try in $(seq 400); do grep -q http:// "$STATE/origin" && break; sleep 0.05; done
"$PRONY" load http://127.0.0.1:9000/ -c 2 -d 60s > /dev/null 2>&1 &
holder=$!
trap 'kill $holder $origin' EXIT
established_to_origin='0100007F:2328 01 '
held() { grep -c "$established_to_origin" /proc/net/tcp || true; }
for try in $(seq 400); do test "$(held)" = 2 && break; sleep 0.05; done
"$PRONY" load http://127.0.0.1:9000/ -c 1 -n 2 --json
"#;

fn namespaces_are_allowed() -> bool {
    Command::new("unshare")
        .args(["-Urn", "ip", "link", "set", "lo", "up"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn a_host_without_a_free_local_port_is_named() {
    assert!(
        namespaces_are_allowed(),
        "this test needs a network namespace (unshare -Urn) and ip: run as root, or allow user namespaces \
         (sysctl kernel.unprivileged_userns_clone=1), and apt-get install iproute2"
    );
    let state = tempfile::tempdir().unwrap();
    let program = prony(state.path()).get_program().to_owned();
    let finished = finish(
        Command::new("unshare")
            .args(["-Urn", "sh", "-c", SCRIPT])
            .env("PRONY", program)
            .env("STATE", state.path())
            .env("XDG_STATE_HOME", state.path()),
    );
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(document["requests"]["succeeded"], 0, "{document}");
    assert_eq!(document["requests"]["failed"]["no_local_port"], 2);
}
