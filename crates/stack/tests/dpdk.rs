//! DPDK's virtual devices against this host's kernel, as the other devices in kernel.rs: `make dpdk-test`.
//!
//! EAL starts once in this process, without huge pages; each test opens a device of its own in its own namespace.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

#[cfg(feature = "dpdk")]
mod lab;

#[cfg(not(feature = "dpdk"))]
#[test]
fn dpdk_is_tested_where_it_is_built_in() {
    eprintln!("skipped: built without the feature `dpdk` (make dpdk-test)");
}

#[cfg(feature = "dpdk")]
mod built_in {
    use super::lab::{Ours, Talk, has_program, in_namespace, ip};
    use stack::device::dpdk::{Dpdk, Settings};
    use stack::device::interface::Interface;
    use stack::device::queues::{self, Owners, port_ranges};
    use stack::device::{Device, DeviceCounters};
    use stack::error::Error;
    use stack::frame::Frame;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn settings(device: &str) -> Settings {
        Settings {
            device: device.to_owned(),
            own: vec![
                "10.9.16.0/24".parse().unwrap(),
                "fd00::1:0/112".parse().unwrap(),
            ],
        }
    }

    fn dpdk(device: &str) -> Dpdk {
        Dpdk::open(&settings(device)).unwrap_or_else(|e| panic!("{e}; {}", e.remedy()))
    }

    fn addresses(interface: &str) {
        ip(&format!("addr add 10.9.0.1/16 dev {interface}"));
        ip(&format!("addr add fd00::1/64 dev {interface} nodad"));
    }

    fn veth(name: &str, mtu: u32) {
        ip(&format!(
            "link add {name} mtu {mtu} type veth peer name {name}p mtu {mtu}"
        ));
        ip(&format!("link set {name} up"));
        ip(&format!("link set {name}p up"));
        addresses(&format!("{name}p"));
    }

    /// Echoes and a stream each way, over both versions of IP.
    fn talks<D: Device>(device: D, interface: &str, bytes: u64) -> Ours<D> {
        let mut ours = Ours::new(device, interface);
        ours.answers_echo("10.9.0.1", "10.9.16.77");
        ours.answers_echo("fd00::1", "fd00::1:77");
        for kernel in ["10.9.0.1", "fd00::1"] {
            let talk = ours.talks_with_the_kernel(kernel.parse().unwrap(), bytes);
            assert_eq!(talk, Talk::done(bytes));
        }
        ours
    }

    fn lost(counters: DeviceCounters) -> (u64, u64) {
        (counters.rx_dropped, counters.tx_dropped)
    }

    #[test]
    fn net_tap_cuts_and_sums_for_us() {
        in_namespace(|| {
            let device = dpdk("net_tap0,iface=pronydtap0");
            addresses("pronydtap0");
            let capabilities = device.capabilities().clone();
            assert_eq!(capabilities.name, "dpdk (net_tap, segments)");
            let ours = talks(device, "pronydtap0", 4 << 20);
            assert!(ours.longest_sent() > 16_000, "{}", ours.longest_sent());
            assert_eq!(lost(ours.wire.counters()), (0, 0));
            drop(ours);
            let gone = Interface::named("pronydtap0").unwrap_err();
            assert!(matches!(gone, Error::NoInterface { .. }), "{gone}");
        });
    }

    #[test]
    fn net_af_packet_carries_a_stream_each_way() {
        in_namespace(|| {
            veth("pronydv0", 1_500);
            // The driver's slots are 2 KiB: the kernel has to cut by itself.
            ip("link set pronydv0p gso_max_segs 1");
            let device = dpdk("net_af_packet0,iface=pronydv0");
            assert_eq!(device.capabilities().name, "dpdk (net_af_packet)");
            let ours = talks(device, "pronydv0", 1 << 20);
            assert_eq!(ours.longest_sent(), 1_514);
        });
    }

    #[test]
    fn net_af_xdp_carries_a_stream_each_way_and_leaves_no_program() {
        in_namespace(|| {
            veth("pronydv1", 1_500);
            let device = dpdk("net_af_xdp0,iface=pronydv1");
            assert_eq!(device.capabilities().name, "dpdk (net_af_xdp)");
            assert!(has_program("pronydv1"));
            drop(talks(device, "pronydv1", 1 << 20));
            assert!(!has_program("pronydv1"));
        });
    }

    #[test]
    fn frames_of_several_buffers_come_and_go() {
        in_namespace(|| {
            let mut device = dpdk("net_tap1,iface=pronydtap1");
            addresses("pronydtap1");
            // The kernel's end alone: its datagram is longer than a buffer.
            ip("link set pronydtap1 mtu 9000");
            let mac = device.capabilities().mac.map(|byte| format!("{byte:02x}"));
            let mac = mac.join(":");
            ip(&format!("neigh add 10.9.16.7 lladdr {mac} dev pronydtap1"));
            let socket = std::net::UdpSocket::bind("10.9.0.1:0").unwrap();
            let message: Vec<u8> = (0..8_000u32).map(|n| (n % 251) as u8).collect();
            socket.send_to(&message, "10.9.16.7:9").unwrap();
            let until = Instant::now() + Duration::from_secs(10);
            let mut got = Vec::new();
            while got.is_empty() && Instant::now() < until {
                let mut sink = |frame: Frame<'_>| {
                    if frame.len() > 8_000 {
                        assert!(!frame.rest.is_empty(), "a buffer has 2 KiB");
                        got = [&[frame.head], frame.rest].concat().concat();
                    }
                };
                device.receive(64, &mut sink).unwrap();
            }
            assert!(got.ends_with(&message), "{} bytes", got.len());
            ip("link set pronydtap1 mtu 1500");
            let ours = talks(device, "pronydtap1", 1 << 20);
            assert!(ours.longest_sent() > 16_000, "sent in as many buffers");
        });
    }

    #[test]
    fn queues_of_one_port_serve_several_threads() {
        in_namespace(|| {
            let own = settings("net_tap2,iface=pronydtap2");
            let both = Dpdk::open_queues(&own, 2).unwrap_or_else(|e| panic!("{e}; {}", e.remedy()));
            addresses("pronydtap2");
            let owners = Owners::LocalPorts(port_ranges((1_024, 65_535), 2));
            let mut joined = queues::join(both, &owners).unwrap();
            drop(joined.pop());
            // The queue of the one that has ended is served by the other.
            talks(joined.pop().unwrap(), "pronydtap2", 1 << 20);
        });
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_remedy() {
        in_namespace(|| {
            let refused = |device: &str, cause: &str, remedy: &str| {
                let error = Dpdk::open(&settings(device)).unwrap_err();
                assert!(error.to_string().contains(cause), "{error}");
                assert!(error.remedy().contains(remedy), "{}", error.remedy());
            };
            refused("eth0", "no device of DPDK's", "dpdk-devbind");
            refused("net_nosuch0", "finds no port", "driver is installed");
            refused(
                "net_af_packet5,iface=pronynone",
                "finds no port",
                "arguments",
            );
            refused(
                "net_null0 --no-such-option",
                "other options",
                "same options",
            );
            ip("link add pronydv2 type veth peer name pronydv3");
            ip("addr add 10.9.16.1/24 dev pronydv3");
            let error = Dpdk::open(&settings("net_af_packet6,iface=pronydv2")).unwrap_err();
            assert!(matches!(error, Error::HostAddress { .. }), "{error}");
        });
    }

    /// What EAL says at its start, and its threads' words: none of it may stand among results.
    #[test]
    fn eal_prints_nothing_and_says_why_it_does_not_start() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "built_in::starts_eal_wrongly",
            ])
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        let both = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{both}");
        let mut lines = out.lines().filter(|line| {
            !line.is_empty() && !line.starts_with("running") && !line.starts_with("test ")
        });
        assert_eq!(lines.next(), None, "{out}");
    }

    #[test]
    #[ignore = "not a test: a child whose output is looked at"]
    fn starts_eal_wrongly() {
        let error = Dpdk::open(&settings("net_null0 --no-such-option")).unwrap_err();
        assert!(error.to_string().contains("EAL does not start"), "{error}");
        assert!(
            error.remedy().contains("--no-such-option"),
            "{}",
            error.remedy()
        );
        let again = Dpdk::open(&settings("net_null0")).unwrap_err();
        assert!(!again.remedy().is_empty(), "{again}");
    }
}
