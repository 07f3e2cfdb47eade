//! A million connections of a traffic program open and idle at once, on both sides: what each side takes for one, the
//! stack's part and the program's, and what the process takes in all. It wants a core for each side
//! (`make stack-long`): what waits for a core counts as on its way.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use record::traffic::{Http, Pace, Protocol, Side, TcpSettings, Template, TrafficSpec};
use record::{Carrier, Close, Nanos};
use stack::device::loopback;
use std::cell::Cell;
use traffic::program::{End, Ends, run};

const FLOWS: u32 = 1_000_000;
/// Of one side, for all of them.
const MOST_BYTES: usize = 200_000_000;

/// Bytes of this process that are in memory or were put out of it: a kernel may do so with what rests (DAMON, swap).
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.and_then(|rest| rest.split_whitespace().next());
        digits.map_or(0, |digits| digits.parse::<usize>().unwrap())
    };
    1_024 * (kib("VmRSS:") + kib("VmSwap:"))
}

fn side(addresses: &str) -> Side {
    Side {
        transport: Carrier::Loopback,
        interface: String::new(),
        addresses: vec![addresses.to_owned()],
        order: Default::default(),
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: Nanos(0),
        threads: 1,
        cpu: None,
        cpus: Vec::new(),
        tcp: TcpSettings {
            flows_max: Some(FLOWS),
            ..TcpSettings::default()
        },
        capture: None,
        faults: None,
    }
}

fn end(device: loopback::Loopback, addresses: &str) -> Option<End> {
    Some(End {
        devices: vec![Box::new(device)],
        link: stack::link::Settings {
            interface: "memory".to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            own: vec![addresses.parse().unwrap()],
            networks: vec!["10.9.0.0/16".parse().unwrap()],
            gateways: Vec::new(),
        },
    })
}

#[test]
#[ignore = "long: make stack-long"]
fn a_million_idle_connections_take_less_than_200_megabytes_of_a_side() {
    let (client, server) = ("10.9.1.1-10.9.1.40", "10.9.2.1");
    // Each has had one response, and thinks for longer than the test lasts.
    let hour = Nanos::from_secs(3_600);
    let spec = TrafficSpec {
        // Slower than a build for tests is: what begins must not wait for what was begun, which takes more.
        ramp: Nanos::from_secs(45),
        client: Some(side(client)),
        server: Some(side(server)),
        templates: vec![Template {
            name: "idle".to_owned(),
            targets: vec!["10.9.2.1:80".parse().unwrap()],
            pace: Pace::Concurrent(FLOWS),
            concurrent_max: None,
            count: None,
            protocol: Protocol::Http(Http {
                path: "/".to_owned(),
                method: "GET".to_owned(),
                headers: Vec::new(),
                body_bytes: 0,
                requests: 2,
                response_bytes: 100,
                think: hour,
                expect: None,
            }),
            close: Close::Fin,
            timeout: hour,
            tls: None,
        }],
        ..TrafficSpec::default()
    };
    let (one, other) = loopback::pair(&loopback::Settings {
        is_lossless: true,
        ..loopback::Settings::default()
    });
    let ends = Ends {
        client: end(one, client),
        server: end(other, server),
    };
    let before = resident();
    let (answered, is_idle, taken) = (Cell::new(0), Cell::new(false), Cell::new(0));
    let mut stop = || is_idle.get();
    let mut watch = |slice: &record::traffic::TrafficInterval,
                     _: &[record::traffic::TemplateOutcome]| {
        // The interval after the one in which the last was answered: every acknowledgement has come.
        if answered.get() == u64::from(FLOWS) && !is_idle.get() {
            taken.set(resident() - before);
            is_idle.set(true);
        }
        answered.set(answered.get() + slice.exchanges);
    };
    let outcome = run(&spec, ends, &mut stop, &mut watch).unwrap();
    let template = &outcome.templates[0];
    assert_eq!(template.failed, Default::default());
    assert_eq!(template.exchanges, u64::from(FLOWS));
    assert_eq!(template.unfinished, u64::from(FLOWS));
    for side in &outcome.sides {
        assert_eq!(side.peak_flows, u64::from(FLOWS), "{}", side.side);
        let bytes = side.flow_bytes * f64::from(FLOWS);
        assert!(bytes < MOST_BYTES as f64, "{}: {bytes} bytes", side.side);
    }
    let taken = taken.get();
    assert!(taken < 2 * MOST_BYTES, "{taken} bytes");
    let stacks = 2 * 128 * FLOWS as usize;
    assert!(
        taken > stacks,
        "{taken} bytes: the measurement sees nothing"
    );
}
