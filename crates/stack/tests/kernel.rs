//! The devices against this host's kernel, in a network namespace of the test's own, which goes with its thread: the
//! kernel's echo requests, and a stream each way through its TCP.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

mod lab;

use lab::{Ours, Talk, has_program, in_namespace, ip};
use stack::address::AddressRange;
use stack::device::Device as _;
use stack::device::af_packet::{self, AfPacket};
use stack::device::af_xdp::{self, AfXdp, Mode};
use stack::device::tap::{Settings, Tap};
use stack::error::Error;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "pronytap0";

fn tap(is_offloaded: bool) -> Tap {
    let tap = Tap::open(&Settings {
        name: NAME.to_owned(),
        mtu_bytes: Some(1_500),
        is_offloaded,
    });
    let tap = tap.unwrap_or_else(|e| panic!("{e}; {}", e.remedy()));
    ip(&format!("addr add 10.9.0.1/16 dev {NAME}"));
    ip(&format!("addr add fd00::1/64 dev {NAME} nodad"));
    tap
}

#[test]
fn a_tap_answers_the_kernels_echo_and_carries_a_stream_each_way() {
    in_namespace(|| {
        let mut ours = Ours::new(tap(true), NAME);
        ours.answers_echo("10.9.0.1", "10.9.16.77");
        ours.answers_echo("fd00::1", "fd00::1:77");
        for kernel in ["10.9.0.1", "fd00::1"] {
            let talk = ours.talks_with_the_kernel(kernel.parse().unwrap(), 4 << 20);
            assert_eq!(talk, Talk::done(4 << 20));
        }
        assert!(ours.longest_received > 16_000, "{}", ours.longest_received);
        assert!(ours.longest_sent() > 16_000, "super-segments left as such");
        assert_eq!(ours.wire.counters.tx_dropped, 0);
    });
}

#[test]
fn a_tap_without_offloads_is_a_wire_of_packets() {
    in_namespace(|| {
        let mut ours = Ours::new(tap(false), NAME);
        let talk = ours.talks_with_the_kernel("10.9.0.1".parse().unwrap(), 1 << 20);
        assert_eq!(talk, Talk::done(1 << 20));
        assert!(ours.longest_received <= 1_514, "{}", ours.longest_received);
    });
}

#[test]
fn a_tap_goes_with_its_descriptor_and_is_nobody_elses_meanwhile() {
    in_namespace(|| {
        let first = tap(true);
        let second = Tap::open(&Settings {
            name: NAME.to_owned(),
            mtu_bytes: None,
            is_offloaded: true,
        });
        assert!(matches!(second, Err(Error::Busy { .. })), "{second:?}");
        let own: Vec<AddressRange> = vec!["10.9.0.0/24".parse().unwrap()];
        let refused = stack::device::interface::refuse_host_addresses(&own);
        assert!(
            matches!(refused, Err(Error::HostAddress { .. })),
            "{refused:?}"
        );
        let lo = Tap::open(&Settings {
            name: "lo".to_owned(),
            mtu_bytes: None,
            is_offloaded: true,
        });
        assert!(matches!(lo, Err(Error::Unsupported { .. })), "{lo:?}");
        drop(first);
        // A child that another test is starting has the descriptor until it executes its program.
        let named = || stack::device::interface::Interface::named(NAME);
        let until = Instant::now() + Duration::from_secs(10);
        while named().is_ok() && Instant::now() < until {
            std::thread::yield_now();
        }
        let gone = named().unwrap_err();
        assert!(matches!(gone, Error::NoInterface { .. }), "{gone}");
    });
}

const VETH: &str = "pronyveth0";

/// A pair of which the kernel has the other end.
fn veth(mtu: u32) {
    ip(&format!(
        "link add {VETH} mtu {mtu} type veth peer name pronyveth1 mtu {mtu}"
    ));
    ip(&format!("link set {VETH} up"));
    ip("link set pronyveth1 up");
    ip("addr add 10.9.0.1/16 dev pronyveth1");
    ip("addr add fd00::1/64 dev pronyveth1 nodad");
}

fn settings(mode: Mode) -> af_xdp::Settings {
    af_xdp::Settings {
        interface: VETH.to_owned(),
        own: vec![
            "10.9.16.0/24".parse().unwrap(),
            "fd00::1:0/112".parse().unwrap(),
        ],
        mode,
    }
}

fn af_xdp(mode: Mode) -> AfXdp {
    AfXdp::open(&settings(mode)).unwrap_or_else(|e| panic!("{e}; {}", e.remedy()))
}

fn packets(is_offloaded: bool) -> af_packet::Settings {
    af_packet::Settings {
        interface: VETH.to_owned(),
        own: settings(Mode::Best).own,
        is_offloaded,
    }
}

/// What the kernel of this namespace has counted, by the names of /proc/net/snmp.
fn kernel_counter(protocol: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut both = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = both.find(|(n, _)| *n == name).unwrap();
    value.parse().unwrap()
}

#[test]
fn af_packet_answers_the_kernels_echo_and_carries_a_stream_each_way() {
    for (mtu, is_offloaded) in [(1_500, true), (1_500, false), (9_000, true)] {
        in_namespace(|| {
            veth(mtu);
            let device = AfPacket::open(&packets(is_offloaded));
            let device = device.unwrap_or_else(|e| panic!("{e}; {}", e.remedy()));
            let mut ours = Ours::new(device, VETH);
            ours.answers_echo("10.9.0.1", "10.9.16.77");
            ours.answers_echo("fd00::1", "fd00::1:77");
            for kernel in ["10.9.0.1", "fd00::1"] {
                let talk = ours.talks_with_the_kernel(kernel.parse().unwrap(), 4 << 20);
                assert_eq!(talk, Talk::done(4 << 20));
            }
            let frame = mtu as usize + 14;
            assert!(ours.longest_received > frame, "{}", ours.longest_received);
            assert_eq!(ours.longest_sent() > frame, is_offloaded);
            let counters = ours.wire.counters;
            assert_eq!(counters.tx_dropped, 0);
            // The ring overflows while others have this thread's core: how often is theirs to say. TCP has made up for
            // it, and that all bytes came is what a frame lost without a count would have broken.
            assert!(counters.rx_dropped < counters.rx_frames, "{counters:?}");
            assert_eq!(ours.link.counters().foreign_frames, 0, "none but ours");
            // The kernel has seen all of it and was not to answer: it has none of our addresses.
            assert_eq!(kernel_counter("Tcp:", "OutRsts"), 0);
            assert_eq!(kernel_counter("Icmp:", "OutDestUnreachs"), 0);
        });
    }
}

#[test]
fn af_packet_counts_what_found_no_room_and_refuses_a_host_that_forwards() {
    in_namespace(|| {
        veth(1_500);
        let mut device = AfPacket::open(&packets(true)).unwrap();
        let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
        // The neighbour is told, so that nobody has to answer.
        let mac = device.capabilities().mac.map(|byte| format!("{byte:02x}"));
        let mac = mac.join(":");
        ip(&format!("neigh add 10.9.16.7 lladdr {mac} dev pronyveth1"));
        const SENT: u64 = 3_000;
        for _ in 0..SENT {
            socket.send_to(b"to nobody", "10.9.16.7:9").unwrap();
        }
        let mut taken = 0;
        let until = Instant::now() + Duration::from_secs(10);
        while taken + device.counters().rx_dropped < SENT && Instant::now() < until {
            taken += device.receive(10_000, &mut |_| ()).unwrap() as u64;
        }
        let dropped = device.counters().rx_dropped;
        assert!(dropped > 1_000 && taken > 900, "{dropped} and {taken}");
        assert_eq!(taken + dropped, SENT);
        drop(device);
        let path = format!("/proc/sys/net/ipv4/conf/{VETH}/forwarding");
        std::fs::write(path, "1").unwrap();
        let refused = AfPacket::open(&packets(true)).unwrap_err();
        assert!(refused.to_string().contains("forwards"), "{refused}");
        assert!(refused.remedy().contains("sysctl"), "{}", refused.remedy());
    });
}

#[test]
fn af_xdp_answers_the_kernels_echo_and_carries_a_stream_each_way() {
    for (mode, mtu, name) in [
        (Mode::Best, 1_500, "af_xdp (native, copy)"),
        (Mode::Generic, 1_500, "af_xdp (generic, copy)"),
        (Mode::Best, 9_000, "af_xdp (native, copy)"),
    ] {
        in_namespace(|| {
            veth(mtu);
            let device = af_xdp(mode);
            assert_eq!(device.capabilities().name, name);
            assert!(has_program(VETH));
            let mut ours = Ours::new(device, VETH);
            ours.answers_echo("10.9.0.1", "10.9.16.77");
            ours.answers_echo("fd00::1", "fd00::1:77");
            for kernel in ["10.9.0.1", "fd00::1"] {
                let talk = ours.talks_with_the_kernel(kernel.parse().unwrap(), 1 << 20);
                assert_eq!(talk, Talk::done(1 << 20));
            }
            let frame = mtu as usize + 14;
            assert_eq!(ours.longest_sent(), frame, "as long as the MTU has it");
            // The generic path hands out what the kernel has not cut.
            let uncut = mode == Mode::Generic;
            assert_eq!(
                ours.longest_received > frame,
                uncut,
                "{}",
                ours.longest_received
            );
            drop(ours);
            assert!(!has_program(VETH), "it went with its link");
        });
    }
}

#[test]
fn af_xdp_binds_all_queues_and_leaves_the_hosts_own_packets_alone() {
    in_namespace(|| {
        ip(&format!(
            "link add {VETH} numrxqueues 2 numtxqueues 2 type veth peer name pronyveth1 numrxqueues 2 numtxqueues 2"
        ));
        ip(&format!("link set {VETH} up"));
        ip("link set pronyveth1 up");
        ip("addr add 10.9.0.1/16 dev pronyveth1");
        let mut ours = Ours::new(af_xdp(Mode::Best), VETH);
        for _ in 0..8 {
            let talk = ours.talks_with_the_kernel("10.9.0.1".parse().unwrap(), 1 << 16);
            assert_eq!(talk, Talk::done(1 << 16));
        }
        assert_eq!(
            ours.link.counters().foreign_frames,
            0,
            "nothing but ours was taken"
        );
    });
}

#[test]
fn af_xdp_refuses_what_cannot_be_with_a_remedy() {
    in_namespace(|| {
        veth(1_500);
        let first = af_xdp(Mode::Best);
        let refused = |settings: &af_xdp::Settings| {
            let error = AfXdp::open(settings).unwrap_err();
            assert!(!error.remedy().is_empty());
            error
        };
        let busy = refused(&settings(Mode::Best));
        assert!(matches!(busy, Error::Busy { .. }), "{busy}");
        drop(first);
        let missing = refused(&af_xdp::Settings {
            interface: "pronynone".to_owned(),
            ..settings(Mode::Best)
        });
        assert!(missing.to_string().contains("`pronyveth1`"), "{missing}");
        let of_host = refused(&af_xdp::Settings {
            own: vec!["10.9.0.0/24".parse().unwrap()],
            ..settings(Mode::Best)
        });
        assert!(matches!(of_host, Error::HostAddress { .. }), "{of_host}");
        ip(&format!("link set {VETH} mtu 1000"));
        let small = refused(&settings(Mode::Best));
        assert!(small.to_string().contains("1280 are the least"), "{small}");
    });
}

#[test]
fn af_xdp_leaves_no_program_after_kill_9() {
    in_namespace(|| {
        veth(1_500);
        // It inherits this thread's namespace.
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "holds_the_interface"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let holds = lines
            .map_while(Result::ok)
            .any(|line| line.contains("it is held"));
        let during = has_program(VETH);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(holds && during);
        assert!(!has_program(VETH));
        drop(af_xdp(Mode::Best));
    });
}

#[test]
#[ignore = "not a test: a child that is killed while it holds an interface"]
fn holds_the_interface() {
    use std::io::Write as _;
    let _device = af_xdp(Mode::Best);
    let mut out = std::io::stdout();
    out.write_all(b"\nit is held\n").unwrap();
    out.flush().unwrap();
    // Ends with the parent at the latest, which does not read it to its end.
    std::thread::sleep(std::time::Duration::from_secs(60));
}
