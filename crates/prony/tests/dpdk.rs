//! `--transport dpdk`: refused with the way to it where it is not built in, and a load on the kernel's TCP by a virtual
//! device where it is (`make dpdk-test`).

mod common;
#[path = "common/wires.rs"]
mod wires;

#[cfg(not(feature = "dpdk"))]
#[test]
fn a_build_without_dpdk_says_how_to_get_one() {
    let flags = "--interface 0000:01:00.0 --source 10.9.0.2 --network 10.9.0.0/24 -d 1s";
    let mut command = std::process::Command::new(wires::PRONY);
    command.args(["load", "http://10.9.0.1/", "--transport", "dpdk"]);
    let done = common::finish(command.args(flags.split(' ')));
    assert!(
        done.stderr.contains("this build has no such device"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("--features dpdk"), "{}", done.stderr);
    assert_eq!((done.code, done.stdout.as_str()), (Some(4), ""));
}

#[cfg(feature = "dpdk")]
#[test]
fn a_load_over_a_virtual_device_of_dpdks() {
    let Some(mut wire) = wires::Wire::tap("dpdk") else {
        return;
    };
    // DPDK's TAP has several queues, which this one has not.
    wire.run("ip link del tap0");
    wire.run("ip tuntap add dtap0 mode tap multi_queue");
    wire.run("ip addr add 10.9.0.1/24 dev dtap0");
    wire.run("ip link set dtap0 up");
    wire.transport = "dpdk";
    wire.interface = "net_tap0,iface=dtap0";
    wire.server(&format!("{} origin --listen 10.9.0.1:80", wires::PRONY), 80);
    let flags = "--source 10.9.0.2-10.9.0.9 -c 8 -n 2000 --requests-per-connection 10";
    let done = wire.load(&format!("http://10.9.0.1/bytes/32768 {flags}"));
    // Beside other tests the generator may be the limit, and says so.
    assert!(
        matches!(done.code, Some(0 | 3)),
        "{}{}",
        done.stdout,
        done.stderr
    );
    let result = done.json();
    assert_eq!(result["requests"]["succeeded"], 2_000, "{result:#}");
    let opened = result["connections"]["opened"].as_u64();
    assert!(opened.is_some_and(|opened| opened >= 200), "{result:#}");
    let engine = result["generator"]["engine"].as_str();
    assert!(
        engine.is_some_and(|it| it.contains("dpdk (net_tap, segments)")),
        "{result:#}"
    );
    wire.expect_no_socket();
}
