//! A run for the tests: 2,000 connections a second for 10 s over a TAP, and one of two sides over memory.

use record::traffic::{Http, Pace, Protocol, Side, SideOutcome, Template, TemplateOutcome};
use record::{Carrier, Close, Nanos, TrafficOutcome, TrafficRun, TrafficSpec};

fn side(transport: Carrier) -> Side {
    Side {
        transport,
        interface: "tap0".to_owned(),
        addresses: vec!["10.9.0.2-10.9.0.250".to_owned()],
        order: record::traffic::Order::Sequential,
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: Nanos(50_000),
        threads: 1,
        cpu: Some(1),
        cpus: Vec::new(),
        tcp: record::traffic::TcpSettings::default(),
        capture: None,
        faults: None,
    }
}

fn of_side(name: &str) -> SideOutcome {
    let counted =
        |pairs: &[(&str, u64)]| pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
    SideOutcome {
        side: name.to_owned(),
        transport: "tap (segments, checksums)".to_owned(),
        tcp: counted(&[
            ("connattempt", 20_000),
            ("connects", 20_000),
            ("sndtotal", 80_000),
            ("rexmttimeo", 0),
        ]),
        link: counted(&[("asked", 1)]),
        device: counted(&[
            ("tx_frames", 80_000),
            ("tx_bytes", 10_000_000),
            ("rx_frames", 90_000),
            ("rx_bytes", 90_000_000),
            ("rx_dropped", 0),
        ]),
        peak_flows: 12,
        flow_bytes: 126.0,
        cpu_user_ns: 100_000_000,
        cpu_system_ns: 300_000_000,
        spun_ns: 0,
        cpu: Some(1),
        threads: Vec::new(),
    }
}

/// Over a TAP, at a rate that was kept.
pub fn run() -> TrafficRun {
    let mut template = TemplateOutcome {
        name: "page".to_owned(),
        scheduled: 20_000,
        attempted: 20_000,
        connected: 20_000,
        completed: 19_990,
        late: 3,
        failed: [("timeout".to_owned(), 10), ("reset".to_owned(), 0)].into(),
        statuses: [(200, 19_990)].into(),
        exchanges: 19_990,
        sent_bytes: 1_200_000,
        received_bytes: 20_000_000,
        ..TemplateOutcome::default()
    };
    for i in 1..=100 {
        template.connect.record(Nanos(i * 1_000));
        template.response.record(Nanos(i * 3_000));
    }
    TrafficRun {
        spec: TrafficSpec {
            duration: Some(Nanos::from_secs(10)),
            client: Some(side(Carrier::Tap)),
            templates: vec![Template {
                name: "page".to_owned(),
                targets: vec![([10, 9, 0, 1], 80).into()],
                pace: Pace::Constant(2_000.0),
                concurrent_max: None,
                count: None,
                protocol: Protocol::Http(Http {
                    path: "/".to_owned(),
                    method: "GET".to_owned(),
                    headers: Vec::new(),
                    body_bytes: 0,
                    requests: 1,
                    response_bytes: 1_024,
                    think: Nanos(0),
                    expect: None,
                }),
                close: Close::Fin,
                timeout: Nanos::from_secs(5),
                tls: None,
            }],
            ..TrafficSpec::default()
        },
        outcome: TrafficOutcome {
            sides: vec![of_side("client")],
            templates: vec![template],
            wall_ns: 10_000_000_000,
            ..TrafficOutcome::default()
        },
    }
}

/// Both ends ours, and full.
pub fn both_full() -> TrafficRun {
    let mut both = run();
    both.spec.client = Some(side(Carrier::Loopback));
    both.spec.server = Some(side(Carrier::Loopback));
    both.spec.templates[0].pace = Pace::Concurrent(64);
    both.outcome.sides.push(of_side("server"));
    for side in &mut both.outcome.sides {
        side.cpu_user_ns = 9_900_000_000;
    }
    both.outcome.templates[0].accepted = 20_000;
    both
}
