//! The devices against this host's kernel, in a network namespace of the test's own, which goes with its thread: the
//! kernel's echo requests, and a stream each way through its TCP.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

mod lab;

use lab::{Ours, Talk, in_namespace, ip};
use stack::address::AddressRange;
use stack::device::tap::{Settings, Tap};
use stack::error::Error;

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
        let gone = stack::device::interface::Interface::named(NAME).unwrap_err();
        assert!(matches!(gone, Error::NoInterface { .. }), "{gone}");
    });
}
