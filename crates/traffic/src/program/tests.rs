//! Both sides over a wire in memory, with and without faults: every count and every byte.

use super::*;
use record::traffic::{
    Data, Http, Order, Pace, Protocol, Step, TcpSettings, Template, TlsSettings,
};
use record::{Carrier, Close};
use stack::address::Network;
use stack::device::fault::{Fault, Faults};
use stack::device::loopback;
use std::net::SocketAddr;

const SECOND: u64 = 1_000_000_000;

/// A spec of both sides with one template, to be changed by a test.
fn spec(protocol: Protocol, pace: Pace, count: u64) -> TrafficSpec {
    let side = |addresses: &str| Side {
        transport: Carrier::Tap,
        interface: "wire".to_owned(),
        addresses: vec![addresses.to_owned()],
        order: Order::Sequential,
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: Nanos(20_000),
        threads: 1,
        cpu: None,
        cpus: Vec::new(),
        tcp: TcpSettings {
            flows_max: Some(4_096),
            // A test has no time for the clocks of kernels.
            rto_min_ms: Some(20),
            ..TcpSettings::default()
        },
        capture: None,
        faults: None,
    };
    TrafficSpec {
        duration: None,
        drain: Nanos(2 * SECOND),
        seed: 7,
        client: Some(side("10.9.1.0/24")),
        server: Some(side("10.9.2.1")),
        templates: vec![template("one", 80, protocol, pace, Some(count))],
        ..TrafficSpec::default()
    }
}

fn template(name: &str, port: u16, protocol: Protocol, pace: Pace, count: Option<u64>) -> Template {
    Template {
        name: name.to_owned(),
        targets: vec![SocketAddr::from(([10, 9, 2, 1], port))],
        pace,
        concurrent_max: None,
        count,
        protocol,
        close: Close::Fin,
        timeout: Nanos(20 * SECOND),
        tls: None,
    }
}

fn http(requests: u64, response_bytes: u64) -> Protocol {
    Protocol::Http(Http {
        path: "/index.html".to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        body_bytes: 0,
        requests,
        response_bytes,
        think: Nanos(0),
        expect: None,
    })
}

fn link(addresses: &str) -> link::Settings {
    link::Settings {
        interface: "wire".to_owned(),
        mac: [2, 0, 0, 0, 0, 9],
        own: vec![addresses.parse().unwrap()],
        networks: vec![Network::new([10, 9, 0, 0].into(), 16).unwrap()],
        gateways: Vec::new(),
    }
}

/// A wire whose client end has these faults both ways.
fn ends(faults: Option<Faults>) -> Ends {
    let settings = loopback::Settings {
        segments: faults.is_none(),
        checksums: faults.is_none(),
        is_lossless: true,
        ..loopback::Settings::default()
    };
    let (client, server) = loopback::pair(&settings);
    let client: Box<dyn Device + Send> = match faults {
        None => Box::new(client),
        Some(faults) => Box::new(Fault::new(client, faults, faults, 3, now_ns)),
    };
    Ends {
        client: Some(End {
            devices: vec![client],
            link: link("10.9.1.0/24"),
        }),
        server: Some(End {
            devices: vec![Box::new(server)],
            link: link("10.9.2.1"),
        }),
    }
}

fn run_with(spec: &TrafficSpec, faults: Option<Faults>) -> TrafficOutcome {
    run(spec, ends(faults), &mut || false, &mut |_, _| {}).unwrap()
}

/// The one template's figures, of which all connections were completed.
fn all_completed(spec: &TrafficSpec, faults: Option<Faults>) -> (TrafficOutcome, TemplateOutcome) {
    let outcome = run_with(spec, faults);
    let template = outcome.templates[0].clone();
    let count = spec.templates[0].count.unwrap();
    assert_eq!(template.failed, Default::default());
    let counts = [
        template.attempted,
        template.connected,
        template.completed,
        template.unfinished,
    ];
    assert_eq!(counts, [count, count, count, 0]);
    (outcome, template)
}

const LOSSY: Faults = Faults {
    loss: 0.02,
    duplicate: 0.01,
    reorder: 0.05,
    corrupt: 0.0,
    delay_ns: 200_000,
    jitter_ns: 100_000,
    held_ns: 2_000_000,
    rate_bits_per_s: 0,
    queue_bytes: 0,
};

#[test]
fn a_connection_for_each_request_is_counted_exactly() {
    let spec = spec(http(1, 1_024), Pace::Concurrent(16), 500);
    let (outcome, template) = all_completed(&spec, None);
    assert_eq!((template.accepted, template.exchanges), (500, 500));
    assert_eq!(template.statuses, [(200, 500)].into());
    assert_eq!(template.response.count(), 500);
    assert_eq!(template.first_byte.count(), 500);
    assert_eq!(template.connect.count(), 500);
    assert!(template.received_bytes > 500 * 1_024);
    let [client, server] = outcome.sides.as_slice() else {
        panic!("two sides");
    };
    assert_eq!(
        (client.side.as_str(), server.side.as_str()),
        ("client", "server")
    );
    assert_eq!(client.tcp["connattempt"], 500);
    assert_eq!(server.tcp["accepts"], 500);
    assert!(client.peak_flows <= 16 && client.peak_flows > 0);
    assert!(client.device["tx_frames"] >= 1_000);
    assert!(client.flow_bytes < 300.0, "{}", client.flow_bytes);
    let attempted: u64 = outcome.intervals.iter().map(|it| it.attempted).sum();
    assert_eq!(attempted, 500, "the intervals add up");
    assert!(!outcome.interrupted);
}

#[test]
fn a_kept_connection_carries_its_requests() {
    let spec = spec(http(20, 40_000), Pace::Concurrent(4), 8);
    let (_, template) = all_completed(&spec, None);
    assert_eq!((template.exchanges, template.response.count()), (160, 160));
    assert!(template.received_bytes > 160 * 40_000);
}

#[test]
fn http_comes_whole_through_loss_and_disorder() {
    let mut spec = spec(http(5, 30_000), Pace::Concurrent(8), 40);
    let Protocol::Http(http) = &mut spec.templates[0].protocol else {
        panic!("it is HTTP");
    };
    (http.method, http.body_bytes) = ("POST".to_owned(), 20_000);
    let (outcome, template) = all_completed(&spec, Some(LOSSY));
    assert_eq!(template.exchanges, 200);
    let sent_again: u64 = outcome
        .sides
        .iter()
        .map(|side| side.tcp["sndrexmitpack"])
        .sum();
    assert!(sent_again > 0, "the wire has lost something");
}

fn conversation() -> Protocol {
    Protocol::Stream(vec![
        Step::ServerSends(Data::Bytes(b"220 ready\r\n".to_vec())),
        Step::ClientSends(Data::Bytes(b"HELO\r\n".to_vec())),
        Step::ServerSends(Data::Pattern(300_000)),
        Step::Pause(Nanos(3_000_000)),
        Step::ClientSends(Data::Pattern(200_000)),
        Step::ClientSends(Data::Bytes(b".\r\n".to_vec())),
        Step::ServerSends(Data::Bytes(b"bye\r\n".to_vec())),
    ])
}

#[test]
fn a_stream_is_right_to_the_byte_both_ways() {
    for close in [Close::Fin, Close::Rst] {
        let mut spec = spec(conversation(), Pace::Concurrent(4), 12);
        spec.templates[0].close = close;
        let (_, template) = all_completed(&spec, None);
        assert_eq!(template.exchanges, 12 * 6, "steps");
        assert_eq!(template.sent_bytes, 12 * 200_009);
        assert_eq!(template.received_bytes, 12 * 300_016);
        assert_eq!(template.response.count(), 12);
        assert!(
            template.response.min().unwrap() >= Nanos(3_000_000),
            "it pauses"
        );
    }
}

#[test]
fn a_stream_is_right_through_loss_and_disorder() {
    let spec = spec(conversation(), Pace::Concurrent(4), 8);
    all_completed(&spec, Some(LOSSY));
}

/// Sequence numbers go round after 4 GiB, offsets do not.
#[test]
fn a_stream_is_right_beyond_four_gibibytes() {
    let steps = vec![
        Step::ClientSends(Data::Pattern((4 << 30) + 12_345)),
        Step::ServerSends(Data::Pattern(1_000)),
    ];
    let spec = spec(Protocol::Stream(steps), Pace::Concurrent(1), 1);
    let (_, template) = all_completed(&spec, None);
    assert_eq!(template.sent_bytes, (4 << 30) + 12_345);
}

#[test]
fn sides_close_when_the_steps_say_so() {
    let half_closed = vec![
        Step::ClientSends(Data::Pattern(5_000)),
        Step::ClientCloses(Close::Fin),
        Step::ServerSends(Data::Pattern(50_000)),
        Step::ServerCloses(Close::Fin),
    ];
    let reset_by_server = vec![
        Step::ClientSends(Data::Pattern(500)),
        Step::ServerSends(Data::Pattern(70_000)),
        Step::ServerCloses(Close::Rst),
    ];
    let reset_by_client = vec![
        Step::ServerSends(Data::Pattern(70_000)),
        Step::ClientCloses(Close::Rst),
    ];
    for steps in [half_closed, reset_by_server, reset_by_client, Vec::new()] {
        let spec = spec(Protocol::Stream(steps), Pace::Concurrent(3), 9);
        all_completed(&spec, None);
    }
}

fn datagrams(exchanges: u32, gap: Nanos) -> Protocol {
    Protocol::Udp {
        request_bytes: 64,
        response_bytes: 512,
        exchanges,
        gap,
    }
}

#[test]
fn datagrams_are_asked_and_answered() {
    let spec = spec(datagrams(5, Nanos(1_000_000)), Pace::Concurrent(8), 40);
    let (outcome, template) = all_completed(&spec, None);
    assert_eq!((template.exchanges, template.response.count()), (200, 200));
    assert_eq!(template.received_bytes, 200 * 512);
    assert_eq!(outcome.sides[0].link["udp_sent"], 200);
    assert_eq!(outcome.sides[1].link["udp_received"], 200);
}

#[test]
fn lost_answers_are_counted_after_the_timeout() {
    let mut spec = spec(datagrams(1, Nanos(0)), Pace::Constant(2_000.0), 400);
    // Longer than a lost request for the neighbour takes.
    spec.templates[0].timeout = Nanos(2_500_000_000);
    let faults = Faults {
        loss: 0.2,
        ..Faults::default()
    };
    let outcome = run_with(&spec, Some(faults));
    let template = &outcome.templates[0];
    let lost = template.failed["timeout"];
    assert_eq!((template.attempted, template.completed + lost), (400, 400));
    // 1 - 0.8^2, with room for chance.
    assert!((80..220).contains(&lost), "{lost}");
    assert!(lost <= outcome.sides[0].link["udp_sent"]);
}

#[test]
fn tls_carries_requests_and_streams() {
    for insecure in [false, true] {
        for protocol in [http(3, 100_000), conversation()] {
            let mut spec = spec(protocol, Pace::Concurrent(2), 4);
            spec.templates[0].tls = Some(TlsSettings {
                server_name: Some("prony.test".to_owned()),
                insecure,
                certificate: None,
            });
            all_completed(&spec, None);
        }
    }
}

#[test]
fn tls_survives_loss_and_disorder() {
    let mut spec = spec(conversation(), Pace::Concurrent(2), 4);
    spec.templates[0].tls = Some(TlsSettings {
        server_name: None,
        insecure: false,
        certificate: None,
    });
    all_completed(&spec, Some(LOSSY));
}

#[test]
fn a_certificate_that_nobody_trusts_fails_each_connection() {
    let made = rcgen::generate_simple_self_signed(vec!["prony.test".to_owned()]).unwrap();
    let mut spec = spec(http(1, 100), Pace::Constant(200.0), 10);
    spec.templates[0].tls = Some(TlsSettings {
        server_name: Some("prony.test".to_owned()),
        insecure: false,
        certificate: Some((made.cert.pem(), made.signing_key.serialize_pem())),
    });
    let outcome = run_with(&spec, None);
    let template = &outcome.templates[0];
    assert_eq!((template.failed["tls"], template.completed), (10, 0));
}

#[test]
fn templates_run_beside_each_other_at_their_paces() {
    let mut spec = spec(http(1, 100), Pace::Concurrent(2), 100);
    let constant = Pace::Constant(500.0);
    let poisson = Pace::Poisson(400.0);
    spec.templates
        .push(template("two", 81, conversation(), constant, Some(30)));
    spec.templates.push(template(
        "three",
        53,
        datagrams(1, Nanos(0)),
        poisson,
        Some(90),
    ));
    let outcome = run_with(&spec, None);
    let counts: Vec<_> = (outcome.templates.iter())
        .map(|t| (t.name.as_str(), t.scheduled, t.completed))
        .collect();
    assert_eq!(
        counts,
        [("one", 100, 100), ("two", 30, 30), ("three", 90, 90)]
    );
}

#[test]
fn a_cap_holds_and_what_waits_behind_it_is_late() {
    let pause = vec![
        Step::Pause(Nanos(20_000_000)),
        Step::ClientSends(Data::Pattern(10)),
    ];
    let mut spec = spec(Protocol::Stream(pause), Pace::Constant(1_000.0), 40);
    spec.templates[0].concurrent_max = Some(4);
    let (outcome, template) = all_completed(&spec, None);
    assert!(outcome.sides[0].peak_flows <= 4);
    assert!(template.late >= 30, "{}", template.late);
    // The last began after nine rounds of 20 ms and was due after 39 ms.
    assert!(template.response.max().unwrap() >= Nanos(120_000_000));
    assert_eq!(outcome.warnings[0].name, "connections_late");
}

#[test]
fn the_end_leaves_nothing_uncounted() {
    let pause = vec![
        Step::Pause(Nanos(60 * SECOND)),
        Step::ClientSends(Data::Pattern(10)),
    ];
    let mut spec = spec(Protocol::Stream(pause), Pace::Constant(100.0), 1_000_000);
    spec.duration = Some(Nanos(SECOND / 2));
    spec.drain = Nanos(SECOND / 10);
    spec.templates[0].concurrent_max = Some(20);
    let outcome = run_with(&spec, None);
    let template = &outcome.templates[0];
    assert_eq!((template.scheduled, template.attempted), (50, 20));
    assert_eq!((template.dropped, template.unfinished), (30, 20));
    assert!((SECOND * 6 / 10..SECOND * 2).contains(&outcome.wall_ns));
}

#[test]
fn the_intervals_add_up_when_the_run_ends_with_one() {
    let mut spec = spec(http(1, 100), Pace::Concurrent(16), u64::MAX);
    spec.templates[0].count = None;
    spec.duration = Some(Nanos(SECOND));
    let outcome = run_with(&spec, None);
    let all = |of: fn(&TrafficInterval) -> u64| outcome.intervals.iter().map(of).sum::<u64>();
    let template = &outcome.templates[0];
    assert_eq!(all(|it| it.completed), template.completed);
    let last = outcome.intervals.last().unwrap();
    assert!(last.completed > 0 && last.to.0 <= outcome.wall_ns);
}

#[test]
fn a_stop_drains_and_says_so() {
    let mut spec = spec(http(1, 100), Pace::Concurrent(4), u64::MAX);
    spec.templates[0].count = None;
    let mut looks = 0;
    let mut seen = 0;
    let outcome = run(
        &spec,
        ends(None),
        &mut || {
            looks += 1;
            looks > 60
        },
        &mut |interval, templates| {
            seen += interval.completed;
            assert_eq!(templates[0].completed, seen);
        },
    )
    .unwrap();
    let template = &outcome.templates[0];
    assert!(outcome.interrupted && template.completed > 0 && seen > 0);
    assert_eq!(template.attempted, template.completed + template.unfinished);
    assert_eq!(template.unfinished, 0, "they may finish");
}

#[test]
fn ipv6_carries_the_same() {
    let mut spec = spec(http(2, 20_000), Pace::Concurrent(4), 20);
    spec.templates.push(template(
        "udp",
        53,
        datagrams(3, Nanos(0)),
        Pace::Concurrent(2),
        Some(10),
    ));
    for template in &mut spec.templates {
        template.targets[0].set_ip("fd00::2:1".parse().unwrap());
    }
    let both = [
        ("fd00::1:0/120", &mut spec.client),
        ("fd00::2:1", &mut spec.server),
    ];
    for (addresses, side) in both {
        let side = side.as_mut().unwrap();
        side.addresses = vec![addresses.to_owned()];
        side.order = Order::Random;
    }
    let mut ends = ends(None);
    for (end, addresses) in [
        (&mut ends.client, "fd00::1:0/120"),
        (&mut ends.server, "fd00::2:1"),
    ] {
        let link = &mut end.as_mut().unwrap().link;
        link.own = vec![addresses.parse().unwrap()];
        link.networks = vec!["fd00::/64".parse().unwrap()];
    }
    let outcome = run(&spec, ends, &mut || false, &mut |_, _| {}).unwrap();
    let done: Vec<_> = (outcome.templates.iter())
        .map(|template| (template.completed, template.exchanges))
        .collect();
    assert_eq!(done, [(20, 40), (10, 30)]);
}

#[test]
fn a_ramp_lets_connections_in_one_after_the_other() {
    let pause = vec![
        Step::ClientSends(Data::Pattern(1)),
        Step::Pause(Nanos(10 * SECOND)),
        Step::ClientSends(Data::Pattern(1)),
    ];
    let mut spec = spec(Protocol::Stream(pause), Pace::Concurrent(200), 200);
    spec.ramp = Nanos(2 * SECOND);
    spec.duration = Some(Nanos(SECOND));
    spec.drain = Nanos(0);
    let outcome = run_with(&spec, None);
    let begun = outcome.templates[0].attempted;
    assert!((50..=101).contains(&begun), "{begun}");
    assert_eq!(outcome.templates[0].unfinished, begun);
}

/// A client side alone against something of the test's own making.
fn client_of(spec: &mut TrafficSpec, faults: Option<Faults>) -> (Ends, End) {
    spec.server = None;
    let both = ends(faults);
    let client = Ends {
        client: both.client,
        server: None,
    };
    (client, both.server.unwrap())
}

/// A server side with templates of its own.
fn beside(
    spec: &TrafficSpec,
    server: End,
    change: impl FnOnce(&mut TrafficSpec),
) -> TrafficOutcome {
    let mut of_server = spec.clone();
    of_server.server = super::tests::spec(http(1, 1), Pace::Concurrent(1), 1).server;
    of_server.client = None;
    change(&mut of_server);
    let ends = Ends {
        client: None,
        server: Some(server),
    };
    run(&of_server, ends, &mut || false, &mut |_, _| {}).unwrap()
}

#[test]
fn bytes_that_differ_are_noticed_by_whoever_receives_them() {
    let steps = |up: u8, down: u8| {
        Protocol::Stream(vec![
            Step::ClientSends(Data::Bytes(vec![up; 2_000])),
            Step::ServerSends(Data::Bytes(vec![down; 10])),
            Step::ClientSends(Data::Pattern(1)),
        ])
    };
    let check = |up, down, client_saw: &str, server_saw: &str| {
        let mut spec = spec(steps(1, 1), Pace::Constant(200.0), 5);
        let (client, server) = client_of(&mut spec, None);
        let (outcome, seen) = thread::scope(|scope| {
            let server = scope.spawn(|| {
                beside(&spec, server, |spec| {
                    spec.templates[0].protocol = steps(up, down);
                    spec.duration = Some(Nanos(SECOND));
                })
            });
            let outcome = run(&spec, client, &mut || false, &mut |_, _| {}).unwrap();
            (outcome, server.join().unwrap())
        });
        let failed = |kind: &str| [(kind.to_owned(), 5)].into();
        assert_eq!(outcome.templates[0].failed, failed(client_saw));
        assert_eq!(seen.templates[0].failed, failed(server_saw));
        assert_eq!(seen.templates[0].accepted, 5);
    };
    check(1, 2, "wrong_bytes", "reset");
    check(2, 1, "reset", "wrong_bytes");
}

#[test]
fn an_open_arrival_counts_from_its_time_while_the_server_stands_still() {
    let mut spec = spec(http(1, 10), Pace::Constant(100.0), 30);
    spec.client.as_mut().unwrap().tcp.rto_min_ms = Some(50);
    let (client, server) = client_of(&mut spec, None);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            // Nobody looks at the wire for 300 ms.
            thread::sleep(Duration::from_millis(300));
            beside(&spec, server, |spec| spec.duration = Some(Nanos(SECOND)))
        });
        run(&spec, client, &mut || false, &mut |_, _| {}).unwrap()
    });
    let template = &outcome.templates[0];
    assert_eq!(template.completed, 30, "{:?}", template.failed);
    // All were due within the first 290 ms, and none could be answered before 300 ms: the mean wait is 155 ms at least.
    assert!(template.response.mean_ns().unwrap() > 150e6);
    assert!(template.response.max().unwrap() >= Nanos(295_000_000));
}

#[test]
fn what_cannot_run_is_refused_with_the_remedy() {
    let check = |change: fn(&mut TrafficSpec), text: &str| {
        let mut spec = spec(http(1, 1), Pace::Concurrent(1), 1);
        change(&mut spec);
        let error = run(&spec, ends(None), &mut || false, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        let _ = error.remedy();
    };
    check(|s| s.templates.clear(), "no template");
    check(|s| s.templates[0].targets.clear(), "no target");
    check(|s| s.templates[0].pace = Pace::Constant(0.0), "is no rate");
    check(
        |s| s.templates[0].targets = vec![SocketAddr::from(([192, 168, 0, 1], 80))],
        "outside the networks",
    );
    check(
        |s| s.client.as_mut().unwrap().addresses = vec!["10.9.1".to_owned()],
        "is no range of addresses",
    );
    check(
        |s| s.templates.push(s.templates[0].clone()),
        "the same target",
    );
    check(
        |s| {
            s.templates[0].protocol = Protocol::Udp {
                request_bytes: 1_473,
                response_bytes: 1,
                exchanges: 1,
                gap: Nanos(0),
            };
        },
        "does not fit into a packet of 1500 bytes",
    );
    let late_step = vec![
        Step::ClientCloses(Close::Fin),
        Step::ClientSends(Data::Pattern(1)),
    ];
    let mut spec = spec(Protocol::Stream(late_step), Pace::Concurrent(1), 1);
    spec.client = None;
    assert!(matches!(
        run(&spec, ends(None), &mut || false, &mut |_, _| {}),
        Err(ProgramError::Template { .. })
    ));
}

/// Both sides with so many threads, each with a wire of its own.
fn threaded(mut spec: TrafficSpec, count: u32) -> (TrafficSpec, Ends) {
    let mut all = Ends::default();
    for side in [&mut spec.client, &mut spec.server].into_iter().flatten() {
        side.threads = count;
    }
    for _ in 0..count {
        let one = ends(None);
        for (into, from) in [(&mut all.client, one.client), (&mut all.server, one.server)] {
            match (into, from) {
                (Some(into), Some(from)) => into.devices.extend(from.devices),
                (into, from) => *into = from,
            }
        }
    }
    (spec, all)
}

#[test]
fn threads_of_a_side_count_exactly_together() {
    let mut asked = spec(http(3, 5_000), Pace::Concurrent(10), 101);
    asked.templates.extend([
        template("two", 81, conversation(), Pace::Concurrent(2), Some(7)),
        template(
            "three",
            53,
            datagrams(2, Nanos(0)),
            Pace::Concurrent(5),
            Some(33),
        ),
        template("four", 82, http(1, 100), Pace::Poisson(2_000.0), Some(200)),
    ]);
    let (asked, ends) = threaded(asked, 3);
    let outcome = run(&asked, ends, &mut || false, &mut |_, _| {}).unwrap();
    for (template, (count, exchanges)) in
        (outcome.templates.iter()).zip([(101, 303), (7, 42), (33, 66), (200, 200)])
    {
        assert_eq!(template.failed, Default::default());
        let counts = [
            template.scheduled,
            template.attempted,
            template.connected,
            template.completed,
        ];
        assert_eq!(counts, [count; 4], "{}", template.name);
        assert_eq!(template.exchanges, exchanges, "{}", template.name);
    }
    // UDP has no handshake that could be accepted.
    assert_eq!(outcome.templates[0].accepted, 101);
    assert_eq!(outcome.templates[0].response.count(), 303);
    let [client, server] = outcome.sides.as_slice() else {
        panic!("two sides");
    };
    assert_eq!(client.tcp["connattempt"], 308);
    assert_eq!(server.tcp["accepts"], 308);
    assert_eq!((client.threads.len(), server.threads.len()), (3, 3));
    for side in [client, server] {
        let of = |part: fn(&record::traffic::SideThread) -> u64| -> u64 {
            side.threads.iter().map(part).sum()
        };
        assert_eq!(of(|t| t.cpu_user_ns), side.cpu_user_ns);
        assert_eq!(of(|t| t.rx_frames), side.device["rx_frames"]);
        assert!(side.threads.iter().all(|t| t.rx_frames > 0));
    }
    let attempted: u64 = outcome.intervals.iter().map(|it| it.attempted).sum();
    assert_eq!(attempted, 341, "the intervals add up");
}

#[test]
fn a_stop_is_heard_by_all_threads() {
    let mut asked = spec(http(1, 100), Pace::Concurrent(8), 1);
    asked.templates[0].count = None;
    let (asked, ends) = threaded(asked, 2);
    let began = now_ns();
    let mut stop = || now_ns() > began + SECOND / 2;
    let outcome = run(&asked, ends, &mut stop, &mut |_, _| {}).unwrap();
    let template = &outcome.templates[0];
    assert!(outcome.interrupted && template.completed > 0);
    assert_eq!(template.attempted, template.completed + template.unfinished);
    assert_eq!(template.completed, template.accepted);
}

#[test]
fn threads_that_cannot_have_their_part_are_refused() {
    let refused = |change: fn(&mut TrafficSpec), text: &str, remedy: &str| {
        let (mut asked, ends) = threaded(spec(http(1, 100), Pace::Concurrent(4), 9), 3);
        change(&mut asked);
        let error = run(&asked, ends, &mut || false, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(error.remedy().contains(remedy), "{}", error.remedy());
    };
    refused(
        |spec| spec.templates[0].pace = Pace::Concurrent(2),
        "3 threads, and its templates have connections for 2",
        "use 2 threads",
    );
    refused(
        |spec| spec.client.as_mut().unwrap().ports = Some((7_000, 7_001)),
        "3 threads and 2 local ports",
        "widen `ports`",
    );
}

#[test]
fn a_response_is_what_the_template_says_or_fails_by_its_kind() {
    use record::traffic::Expect;
    let with = |requests, expect: Expect| {
        let mut spec = spec(http(requests, 40_000), Pace::Concurrent(4), 12);
        let Protocol::Http(http) = &mut spec.templates[0].protocol else {
            panic!("it is HTTP");
        };
        http.expect = Some(expect);
        spec
    };
    let right = Expect {
        status: Some(200),
        bytes: Some(40_000),
        body: Some(Data::Pattern(40_000)),
    };
    // One a connection, so that each head says `close`, and several, of which the last does.
    for requests in [1, 3] {
        all_completed(&with(requests, right.clone()), None);
    }
    all_completed(&with(2, right.clone()), Some(LOSSY));
    for (expect, kind) in [
        (
            Expect {
                status: Some(404),
                ..right.clone()
            },
            "wrong_status",
        ),
        (
            Expect {
                body: Some(Data::Bytes(b"hello".to_vec())),
                ..right.clone()
            },
            "wrong_bytes",
        ),
        (
            Expect {
                body: None,
                bytes: Some(39_999),
                ..right.clone()
            },
            "wrong_length",
        ),
        (
            Expect {
                body: Some(Data::Pattern(40_001)),
                bytes: Some(40_001),
                ..right
            },
            "wrong_length",
        ),
    ] {
        let outcome = run_with(&with(2, expect), None);
        let template = &outcome.templates[0];
        assert_eq!((template.completed, template.failed[kind]), (0, 12));
    }
}
