//! Causes that practitioners meet, on hand-made facts: each is named first where its facts hold, and is not where one
//! of them is that of its twin or of a look-alike.

use super::catalogue::FactOf;
use super::types::Status;
use super::{FactSet, catalogue, diagnose_facts};
use record::{Directive, Server};

type Facts = &'static [(&'static str, f64)];

/// A server that waits more than it works, under 16 connections that keep on.
const USUAL: Facts = &[
    ("server.is_front", 1.0),
    ("server.answers_per_request", 1.0),
    ("worker.busiest", 0.2),
    ("worker.run_queue_wait_share", 0.0),
    ("cpu.use_of_allowed", 0.2),
    ("cpu.us_per_request", 200.0),
    ("cpu.system_share", 0.5),
    ("client.connections", 16.0),
    ("client.open_loop", 0.0),
    ("client.asked_keepalive", 1.0),
    ("client.errors_share", 0.0),
    ("client.rate_per_s", 1_000.0),
    ("client.request_body_bytes", 0.0),
    ("client.quantum_40ms_share", 0.0),
    ("client.quantum_200ms_share", 0.0),
    ("client.quantum_1s_share", 0.0),
    ("client.single_client_quantum_40ms_share", 0.0),
    ("cgroup.throttled_share", 0.0),
    ("core.own_mean", 0.3),
    ("upstream.connect_errors_per_request", 0.0),
    ("upstream.answer_5xx_share", 0.0),
    ("upstream.connects_per_request", 0.0),
    ("upstream.quantum_40ms_share", 0.0),
    ("write.client.useful_per_request", 1.0),
    ("read.upstream.useful_per_request", 1.0),
    ("write.upstream.useful_per_request", 1.0),
    ("exec.per_request", 0.0),
];

fn set(kind: &str, directives: Vec<Directive>, facts: &[(&str, f64)]) -> FactSet {
    let mut set = FactSet::default();
    set.targets = vec!["web".into()];
    let server = Server {
        target: "web".into(),
        kind: kind.into(),
        directives,
        ..Server::default()
    };
    set.servers.insert("web".into(), server);
    for (name, value) in USUAL.iter().chain(facts) {
        let of_run = catalogue().fact(name).map(|f| f.of) == Some(FactOf::Run);
        set.known(if of_run { "" } else { "web" }, name, *value, "test");
    }
    set
}

/// Whether a cause is named, and whether it is worth a change.
fn named(cause: &str, kind: &str, facts: &[(&str, f64)]) -> Option<bool> {
    let diagnosis = diagnose_facts(&set(kind, Vec::new(), facts), "ebpf");
    let found = diagnosis.findings.iter().find(|f| f.cause == cause);
    found.map(|f| f.worth_changing)
}

/// Named with these facts, and not when any one of the others takes the place of its like.
#[track_caller]
fn check(cause: &str, kind: &str, facts: Facts, others: Facts) {
    assert_eq!(named(cause, kind, facts), Some(true), "{cause}");
    for other in others {
        let changed: Vec<(&str, f64)> = facts.iter().chain([other]).copied().collect();
        assert_ne!(
            named(cause, kind, &changed),
            Some(true),
            "{cause}: {other:?}"
        );
    }
}

#[test]
fn turns_with_an_upstream_one_after_the_other() {
    check(
        "many_upstream_turns",
        "node",
        &[
            ("upstream.requests_per_request", 20.0),
            ("upstream.in_turn_share", 0.93),
        ],
        &[
            // All at once, a single one, and retries of what fails.
            ("upstream.in_turn_share", 9.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.connect_errors_per_request", 10.0),
            ("worker.busiest", 0.97),
        ],
    );
    // A connection that each request opens begins with turns of its own.
    let opened = |share| {
        let facts = [
            ("upstream.requests_per_request", 4.1),
            ("upstream.in_turn_share", 0.93),
            ("upstream.connects_per_request", 1.0),
            ("turn.opening_share", share),
        ];
        named("many_upstream_turns", "python", &facts)
    };
    assert_eq!(opened(0.1), Some(true));
    assert_eq!(opened(0.6), None);
    // Where an upstream is full of others, each turn takes longer than for a single client: then it counts how many a
    // request was seen to wait for at a time.
    let behind = |at_once| {
        let facts = [
            ("upstream.requests_per_request", 220.0),
            ("upstream.in_turn_share", 5.8),
            ("upstream.at_once", at_once),
            ("upstream.service_share", 0.73),
        ];
        named("many_upstream_turns", "go", &facts)
    };
    assert_eq!(behind(1.1), Some(true));
    assert_ne!(behind(6.0), Some(true));
}

#[test]
fn a_table_that_is_fetched_for_a_page() {
    check(
        "overfetching",
        "java",
        &[
            ("read.upstream.bytes_per_request", 1_800_000.0),
            ("write.client.bytes_per_request", 1_200.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.service_share", 0.69),
            ("upstream.service_ms_mean", 4.4),
        ],
        &[
            // It is passed on, as it is and compressed; a small picture; asked beside the requests; a page of it.
            ("write.client.bytes_per_request", 1_700_000.0),
            ("profile.compression_share", 0.5),
            ("profile.image_share", 0.6),
            ("upstream.requests_per_request", 0.01),
            ("read.upstream.bytes_per_request", 9_000.0),
        ],
    );
}

/// The CPU of a full core goes into rows that are read and made objects of, in a library that has no list of its own.
#[test]
fn rows_that_are_fetched_to_be_counted() {
    let facts = |fetching: f64| {
        let facts = [
            ("read.upstream.bytes_per_request", 36_000.0),
            ("write.client.bytes_per_request", 170.0),
            ("upstream.requests_per_request", 3.0),
            ("upstream.service_share", 0.03),
            ("core.own_mean", 0.99),
            ("core.own_foreign_share", 0.0),
            ("core.own_peers_share", 0.14),
            ("profile.database_share", 0.06),
            ("profile.net_receive_share", 0.01),
            ("profile.fetching_share", fetching),
            ("upstream.asking_cpu_share", 0.06),
            ("worker.busiest", 0.9),
        ];
        named("overfetching", "python", &facts)
    };
    assert_eq!(facts(0.5), Some(true));
    assert_eq!(facts(0.1), None);
}

/// The file that a body goes through is opened before it is written.
#[test]
fn opening_the_file_of_a_body_belongs_to_it() {
    let gain = |opens: f64| {
        let facts = [
            ("read.client.bytes_per_request", 8_300.0),
            ("temp_write.per_request", 2.0),
            ("temp_write.bytes_per_request", 8_200.0),
            ("open.per_request", opens),
            ("write.file.time_us_per_request", 6.0),
            ("read.file.time_us_per_request", 4.0),
            ("cpu.us_per_request", 200.0),
            ("profile.path_lookup_share", 0.8),
            ("worker.busiest", 0.97),
        ];
        let diagnosis = diagnose_facts(&set("generic", Vec::new(), &facts), "ebpf");
        let found = diagnosis.findings.iter();
        let mut found = found.filter(|f| f.cause == "request_body_temp_files");
        found.next().and_then(|f| f.gain_bound)
    };
    assert!(gain(1.0).is_some_and(|bound| (bound - 0.85).abs() < 0.01));
    // Other files are opened too, and their part is theirs.
    assert!(gain(8.0).is_some_and(|bound| (bound - 0.15).abs() < 0.01));
}

/// Watched: 40 ms in a line for the CPU are no acknowledgement that waits.
#[test]
fn forty_milliseconds_inside_a_busy_server_are_its_own() {
    let facts = |inside: f64, pause: f64| {
        let facts = [
            ("traffic.watched", 1.0),
            ("client.quantum_40ms_share", 0.19),
            ("client.single_client_quantum_40ms_share", 0.19),
            ("tcp.delayed_acks_per_request", 0.5),
            ("write.client.useful_per_request", 2.05),
            ("traffic.pause_share", pause),
            ("turn.cpu_share", inside),
            ("turn.other_turns_share", 0.0),
            ("turn.blocked_share", 0.0),
            ("turn.hidden_share", 0.0),
        ];
        named("nagle_delayed_ack", "python", &facts)
    };
    assert_eq!(facts(0.1, 0.0), Some(true));
    assert_ne!(facts(0.6, 0.0), Some(true));
    assert_eq!(facts(0.6, 0.3), Some(true));
}

/// Requests that are on their way to a connection which is being closed fail by that; those that time out do not.
#[test]
fn requests_that_meet_a_close_are_no_other_failure() {
    let facts = |reset: f64, closed_early: f64, timeout: f64| {
        let facts = [
            ("client.connects_per_request", 0.79),
            ("client.closed_by_server_per_request", 0.79),
            ("client.http10", 0.0),
            ("client.errors_share", reset + closed_early + timeout),
            ("client.failed.reset_share", reset),
            ("client.failed.closed_early_share", closed_early),
            ("client.failed.timeout_share", timeout),
            ("profile.connection_share", 0.25),
            ("client.tls", 0.0),
        ];
        named("server_keepalive_off", "generic", &facts)
    };
    assert_eq!(facts(0.06, 0.15, 0.0), Some(true));
    assert_ne!(facts(0.0, 0.0, 0.21), Some(true));
    assert_ne!(facts(0.5, 0.2, 0.0), Some(true));
}

#[test]
fn an_upstream_that_answers_no_connect() {
    check(
        "upstream_connects_unanswered",
        "generic",
        &[
            ("socket.upstream.connecting", 14.0),
            ("upstream.connects_per_request", 0.04),
            ("tcp.syn_retransmits_per_s", 1.0),
        ],
        &[
            // A connect or two; as many that take a millisecond each; a way around the world.
            ("socket.upstream.connecting", 0.5),
            ("upstream.connects_per_request", 14.0),
            ("socket.upstream.rtt_ms", 180.0),
        ],
    );
}

/// Requests share the connection to a peer that is gone, and stand in the loop until its connect is given up.
#[test]
fn an_upstream_that_answers_no_connect_and_that_requests_share() {
    let bound = |hidden: f64| {
        let facts = [
            ("socket.upstream.connecting", 1.0),
            ("upstream.connections", 3.0),
            ("upstream.connects_per_request", 0.01),
            ("turn.hidden_share", hidden),
        ];
        let diagnosis = diagnose_facts(&set("generic", Vec::new(), &facts), "ebpf");
        let mut findings = diagnosis.findings.into_iter();
        let found = findings.find(|f| f.cause == "upstream_connects_unanswered");
        found.and_then(|f| f.gain_bound).unwrap()
    };
    assert!((bound(0.9) - 0.9).abs() < 1e-9);
    assert!((bound(0.0) - 0.25).abs() < 1e-9, "one connection of four");
}

#[test]
fn a_server_that_works_for_a_few_requests_at_a_time() {
    let places: Facts = &[
        ("client.effective_parallelism", 4.0),
        ("client.parallel_share", 0.25),
        ("client.queueing_ratio", 4.0),
        ("client.mean_ms", 34.0),
        ("client.single_client_mean_ms", 8.5),
        ("turn.until_timer_share", 0.98),
        ("turn.read_paused_share", 0.0),
        ("turn.lock_share", 0.0),
        ("turn.limiter_share", 0.0),
    ];
    let others: Facts = &[
        // One at a time is a lock, a rate makes all wait for long, and each has its place.
        ("client.effective_parallelism", 1.0),
        ("client.mean_ms", 120.0),
        ("client.parallel_share", 0.9),
        ("turn.until_timer_share", 0.3),
        ("upstream.connections_busy_share", 0.97),
        ("cpu.use_of_allowed", 0.9),
    ];
    check("concurrency_limit", "python", places, others);
    // Whoever does not even ask for what is there has a limit, however long that lies.
    let paused = [
        ("client.mean_ms", 160.0),
        ("turn.until_timer_share", 0.1),
        ("turn.read_paused_share", 0.87),
    ];
    let paused: Vec<(&str, f64)> = places.iter().copied().chain(paused).collect();
    assert_eq!(named("concurrency_limit", "generic", &paused), Some(true));
}

/// Each of 16 requests has a thread, and five go on at a time: what they wait for is each other.
#[test]
fn requests_that_wait_for_each_other() {
    let facts = &[
        ("client.effective_parallelism", 5.0),
        ("client.parallel_share", 0.3),
        ("client.queueing_ratio", 3.2),
        ("turn.lock_share", 0.64),
        ("turn.blocked_share", 0.64),
        ("turn.no_free_thread_share", 0.0),
        ("turn.listen_queue_share", 0.0),
        ("turn.run_queue_share", 0.04),
        ("blocked.lock_share", 0.001),
        ("upstream.service_share", 0.85),
        ("upstream.service_ms_mean", 20.0),
        ("worker.threads", 16.0),
    ];
    check(
        "lock_contention",
        "ruby",
        facts,
        &[("turn.lock_share", 0.1)],
    );
    for cause in [
        "thread_pool_too_small",
        "external_service_wait",
        "upstream_slow",
        "upstream_queue",
    ] {
        assert_ne!(named(cause, "ruby", facts), Some(true), "{cause}");
    }
}

/// A job beside the requests takes the lock against a single client as well.
#[test]
fn a_lock_that_the_runtime_tells_needs_no_single_client() {
    check(
        "lock_contention",
        "go",
        &[
            ("tasks.lock_share", 0.52),
            ("client.queueing_ratio", 1.45),
            ("client.parallel_share", 0.2),
            ("worker.threads", 6.0),
            ("cpu.use_of_allowed", 0.2),
            ("upstream.service_share", 0.3),
        ],
        &[("tasks.lock_share", 0.2), ("client.parallel_share", 0.95)],
    );
}

/// What would no longer be called is no longer entered either.
#[test]
fn files_opened_each_time_are_worth_their_way_into_the_kernel() {
    let facts = |lookups: f64, entries: f64| {
        let mut facts: Vec<(&'static str, f64)> = FULL.to_vec();
        facts.extend([
            ("open.top_per_request", 1.0),
            ("open.per_request", 1.0),
            ("stat.per_request", 1.0),
            ("call.total_per_request", 8.0),
            ("profile.path_lookup_share", lookups),
            ("profile.syscall_entry_share", entries),
        ]);
        named("open_file_cache_absent", "nginx", &facts)
    };
    assert_eq!(facts(0.09, 0.06), Some(true));
    assert_ne!(facts(0.09, 0.01), Some(true));
}

#[test]
fn turns_that_cost_the_one_who_asks() {
    check(
        "upstream_turns_cost_cpu",
        "python",
        &[
            ("upstream.requests_per_request", 40.0),
            ("upstream.asking_cpu_share", 0.9),
            ("worker.busiest", 0.97),
        ],
        &[
            // A few, each with little beside it, attempts that fail, and a wait.
            ("upstream.requests_per_request", 3.0),
            ("upstream.asking_cpu_share", 0.2),
            ("upstream.connect_errors_per_request", 20.0),
            ("worker.busiest", 0.3),
        ],
    );
}

#[test]
fn a_pool_whose_connections_are_never_free() {
    check(
        "application_pool_too_small",
        "python",
        &[
            ("upstream.fewest_connections", 2.0),
            ("upstream.connections_busy_share", 0.98),
            ("client.queueing_ratio", 7.5),
            ("turn.listen_queue_share", 0.0),
            ("turn.no_free_thread_share", 0.0),
            ("upstream.use_of_allowed", 0.1),
            ("upstream.busiest_worker", 0.1),
        ],
        &[
            // A connection for each client, a full upstream, and too few workers.
            ("upstream.fewest_connections", 32.0),
            ("upstream.connections_busy_share", 0.5),
            ("upstream.use_of_allowed", 0.97),
            ("turn.listen_queue_share", 0.6),
            ("upstream.connects_per_request", 1.0),
        ],
    );
    let facts = [
        ("upstream.fewest_connections", 2.0),
        ("upstream.connections_busy_share", 0.98),
    ];
    assert_eq!(named("application_pool_too_small", "nginx", &facts), None);
}

#[test]
fn a_pool_whose_connections_are_kept_while_something_else_is_asked() {
    check(
        "application_pool_too_small",
        "puma",
        &[
            ("upstream.fewest_connections", 5.0),
            ("upstream.connections_busy_share", 0.22),
            ("turn.lock_share", 0.67),
            ("client.effective_parallelism", 5.2),
            ("client.queueing_ratio", 3.2),
            ("turn.listen_queue_share", 0.0),
            ("turn.no_free_thread_share", 0.0),
            ("upstream.use_of_allowed", 0.04),
        ],
        &[
            // As many connections as clients, a lock, and requests that do not wait for each other.
            ("upstream.fewest_connections", 16.0),
            ("client.effective_parallelism", 1.1),
            ("turn.lock_share", 0.05),
            ("upstream.connects_per_request", 1.0),
        ],
    );
}

#[test]
fn a_lock_that_is_held_while_an_upstream_is_asked() {
    check(
        "lock_contention",
        "python",
        &[
            // The kernel saw futex calls and not whose: the turns tell.
            ("blocked.lock_share", 0.01),
            ("tasks.lock_share", 0.0),
            ("turn.blocked_share", 0.92),
            ("turn.upstream_share", 0.07),
            ("client.effective_parallelism", 1.1),
            ("client.single_client_mean_ms", 6.7),
            ("upstream.service_share", 0.65),
            ("client.queueing_ratio", 13.6),
            ("client.parallel_share", 0.09),
            ("worker.threads", 24.0),
            ("cpu.use_of_allowed", 0.2),
        ],
        &[
            // Requests stand at the upstream; and nobody waits for another.
            ("turn.blocked_share", 0.1),
            ("client.parallel_share", 0.95),
        ],
    );
}

#[test]
fn a_lock_on_a_file() {
    check(
        "session_lock",
        "php-fpm",
        &[("blocked.file_lock_share", 0.9)],
        &[("blocked.file_lock_share", 0.02)],
    );
}

#[test]
fn a_cache_that_keeps_nothing() {
    check(
        "cache_never_hit",
        "varnish",
        &[
            ("server.caches", 1.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.service_share", 0.85),
            ("client.answer_sets_cookie", 1.0),
        ],
        &[
            ("server.caches", 0.0),
            ("upstream.requests_per_request", 0.1),
            ("client.answer_sets_cookie", 0.0),
            ("client.request_body_bytes", 900.0),
        ],
    );
    let reasons = [
        "client.answer_without_lifetime",
        "client.answer_forbids_caching",
        "client.answer_varies_by_client",
        "client.asked_personally",
    ];
    for reason in reasons {
        let facts = [
            ("server.caches", 1.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.service_share", 0.85),
            ("server.needs_lifetimes", 1.0),
            (reason, 1.0),
        ];
        assert_eq!(
            named("cache_never_hit", "varnish", &facts),
            Some(true),
            "{reason}"
        );
    }
    // Where the cache gives a lifetime itself, the response needs none.
    let facts = [
        ("server.caches", 1.0),
        ("upstream.requests_per_request", 1.0),
        ("upstream.service_share", 0.85),
        ("server.needs_lifetimes", 0.0),
        ("client.answer_without_lifetime", 1.0),
    ];
    assert_ne!(named("cache_never_hit", "nginx", &facts), Some(true));
}

#[test]
fn stalls_by_a_clock() {
    check(
        "periodic_stall",
        "node",
        &[
            ("stall.moments", 5.0),
            ("stall.period_s", 1.0),
            ("stall.period_spread", 0.02),
            ("stall.turns_each", 24.0),
            ("stall.time_share", 0.7),
            ("stall.longest_ms", 120.0),
            // Some of its stalls are as long as a retransmission takes, and there was none.
            ("client.quantum_200ms_share", 0.02),
            ("tcp.retransmits_per_request", 0.0),
        ],
        &[
            // By chance, alone, rarely, a quota, retransmissions, and what is worth nothing.
            ("tcp.retransmits_per_request", 0.01),
            ("stall.period_spread", 0.8),
            ("stall.turns_each", 1.2),
            ("stall.moments", 3.0),
            ("cgroup.throttled_share", 0.05),
            ("stall.time_share", 0.04),
        ],
    );
}

#[test]
fn what_is_full_is_the_server_behind() {
    let asks = [
        ("worker.busiest", 0.03),
        ("cpu.use_of_allowed", 0.03),
        ("upstream.busiest_demand", 0.97),
        ("upstream.busiest_worker", 0.95),
        ("upstream.use_of_allowed", 0.95),
        ("upstream.requests_per_request", 2.0),
        ("upstream.slowest_ratio", 1.0),
        ("upstream.service_share", 0.9),
        ("client.queueing_ratio", 15.0),
    ];
    let with = |more: &[(&'static str, f64)]| -> Vec<(&'static str, f64)> {
        asks.iter().chain(more).copied().collect()
    };
    // A front that hardly runs, and a database that always does.
    let saturated = diagnose_facts(&set("go", Vec::new(), &with(&[])), "ebpf");
    let findings = saturated.findings.iter();
    let named_so: Vec<_> = findings
        .map(|f| (f.cause.as_str(), f.worth_changing))
        .collect();
    assert_eq!(
        named_so.first(),
        Some(&("backend_saturated", true)),
        "{saturated:#?}"
    );
    let idle = with(&[
        ("upstream.busiest_demand", 0.5),
        ("upstream.busiest_worker", 0.4),
        ("upstream.use_of_allowed", 0.4),
    ]);
    assert_eq!(named("backend_saturated", "go", &idle), None);
    // What the front spends on opening connections is nothing; what the database does is a part of what is full.
    let opens = |opening| {
        with(&[
            ("upstream.connects_per_request", 0.4),
            ("upstream.closes_first_share", 1.0),
            ("upstream.answer_closes_share", 0.0),
            ("upstream.opening_share", opening),
            ("profile.connect_share", 0.1),
        ])
    };
    let pool = |opening| named("upstream_pool_too_small", "go", &opens(opening));
    assert_eq!(pool(0.3), Some(true));
    assert_eq!(pool(0.01), Some(false));
    // A share of a database that hardly runs is little.
    let mut little = opens(0.3);
    little.extend([
        ("upstream.use_of_allowed", 0.1),
        ("upstream.busiest_demand", 0.1),
        ("upstream.busiest_worker", 0.1),
    ]);
    assert_eq!(named("upstream_pool_too_small", "go", &little), Some(false));
}

#[test]
fn a_server_that_serves_a_connection_to_its_end_has_none_to_be_kept() {
    let opens = |waits, inside| {
        [
            ("upstream.connects_per_request", 1.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.requests_per_connect", 1.0),
            ("upstream.accept_wait_share", waits),
            ("upstream.inside_each", inside),
            ("client.connects_per_request", 0.0),
            ("profile.connect_share", 0.2),
            ("profile.connection_share", 0.1),
            ("cpu.us_per_request", 200.0),
        ]
    };
    for cause in ["no_upstream_keepalive", "connections_not_reused"] {
        let named = |waits, inside| named(cause, "nginx", &opens(waits, inside));
        assert_eq!(
            named(0.95, 0.7),
            None,
            "{cause}: sixteen stand before one process"
        );
        assert!(
            named(0.95, 9.0).is_some(),
            "{cause}: a loop that is full, and has taken the others"
        );
        assert!(
            named(0.1, 0.7).is_some(),
            "{cause}: nobody waits to be accepted"
        );
    }
}

#[test]
fn handshakes_that_bring_no_certificate_are_resumed() {
    let reads = |bytes, requests| {
        [
            ("upstream.connects_per_request", 1.0),
            ("upstream.requests_per_request", requests),
            ("profile.tls_handshake_share", 0.5),
            ("profile.tls_share", 0.5),
            ("client.tls", 0.0),
            ("client.tls_full_per_request", 0.0),
            ("read.upstream.bytes_per_request", bytes),
            ("write.client.bytes_per_request", 1_262.0),
            ("cpu.us_per_request", 900.0),
        ]
    };
    let named = |bytes, requests| {
        named(
            "upstream_tls_without_resumption",
            "nginx",
            &reads(bytes, requests),
        )
    };
    assert_eq!(named(2_834.0, 1.0), Some(true));
    assert_eq!(named(1_464.0, 1.0), None);
    let supported = |bytes| {
        let diagnosis = diagnose_facts(&set("proxy", Vec::new(), &reads(bytes, 1.0)), "ebpf");
        let mut found = diagnosis.findings.into_iter();
        let found = found.find(|f| f.cause == "upstream_tls_without_resumption");
        found.map(|f| f.status == Status::Supported)
    };
    // A chain of certificates says it, whatever a configuration says or nobody knows.
    assert_eq!(
        [supported(2_834.0), supported(2_000.0)],
        [Some(true), Some(false)]
    );
    assert_eq!(named(604.0, 1.0), None);
    // A cache answers most: what it reads says nothing of what it writes.
    assert_eq!(named(604.0, 0.3), Some(true));
}

#[test]
fn a_thread_for_each_connection() {
    // Whoever opens the connections is to blame where that is another server of the test.
    let started = |accepted, front| {
        [
            ("thread_start.per_request", 0.45),
            ("accept.per_request", accepted),
            ("server.is_front", front),
            ("exec.per_request", 0.0),
            ("worker.busiest", 0.97),
        ]
    };
    let named = |accepted, front| named("thread_per_connection", "go", &started(accepted, front));
    assert_eq!(named(0.45, 1.0), Some(true));
    assert_eq!(named(0.45, 0.0), None);
    assert_eq!(named(0.01, 0.0), Some(true));
}

#[test]
fn script_work_is_the_applications_or_the_frameworks() {
    check(
        "interpreter_time",
        "python",
        &[
            ("profile.script_share", 0.95),
            ("profile.net_send_share", 0.06),
            ("profile.net_receive_share", 0.02),
            ("profile.top_symbol_share", 0.1),
            ("script.own_share", 0.8),
            ("worker.busiest", 0.99),
            ("cpu.use_of_allowed", 0.99),
            ("cpu.user_share", 0.9),
        ],
        &[
            // The framework's own, and a bare handler's share.
            ("script.own_share", 0.1),
            ("profile.net_send_share", 0.2),
        ],
    );
    // A framework that does more for each request.
    check(
        "interpreter_time",
        "python",
        &[
            ("profile.script_share", 0.95),
            ("profile.net_send_share", 0.02),
            ("profile.net_receive_share", 0.01),
            ("profile.top_symbol_share", 0.1),
            ("script.own_share", 0.3),
            ("worker.busiest", 0.99),
            ("cpu.use_of_allowed", 0.99),
            ("cpu.user_share", 0.9),
        ],
        &[("script.own_share", 0.05)],
    );
}

#[test]
fn a_farewell_that_nobody_answers_gives_nothing_up() {
    let named = |connects, each| {
        let facts = [
            ("upstream.given_up_share", 0.12),
            ("upstream.given_up_ms", 12.0),
            ("upstream.given_up_time_share", 0.16),
            ("upstream.connects_per_request", connects),
            ("upstream.requests_per_connect", each),
        ];
        named("upstream_given_up", "java", &facts)
    };
    assert_eq!(named(1.0, 8.0), None);
    // A connection that is kept for many requests ends with one that was given up.
    assert_eq!(named(0.12, 8.0), Some(true));
    assert_eq!(named(1.0, 1.0), Some(true));
}

#[test]
fn requests_that_are_held_until_a_timer() {
    check(
        "rate_limit_delays",
        "perl",
        &[
            ("turn.until_timer_share", 0.95),
            ("client.mean_ms", 1_000.0),
            ("client.single_client_mean_ms", 1.5),
            ("cpu.use_of_allowed", 0.02),
            ("worker.busiest", 0.02),
            ("client.rate_spread", 0.03),
        ],
        &[
            ("turn.until_timer_share", 0.3),
            // A handler that sleeps does so for one client too.
            ("client.single_client_mean_ms", 990.0),
        ],
    );
}

#[test]
fn connections_that_are_free_hold_nobody() {
    check(
        "upstream_queue",
        "haproxy",
        &[
            ("upstream.peers", 1.0),
            ("upstream.connections", 3.0),
            ("upstream.connections_busy_share", 0.98),
            ("upstream.service_ms_mean", 5.0),
            ("client.mean_ms", 30.0),
            ("client.single_client_mean_ms", 5.5),
            ("client.parallel_share", 0.2),
        ],
        &[("upstream.connections_busy_share", 0.02)],
    );
}

#[test]
fn threads_that_rest_are_not_too_few() {
    check(
        "thread_pool_too_small",
        "perl",
        &[
            ("client.parallel_share", 0.06),
            ("client.effective_parallelism", 1.0),
            ("client.single_client_mean_ms", 9.0),
            ("client.mean_ms", 150.0),
            ("worker.threads", 1.0),
            ("worker.processes", 1.0),
            ("turn.threads_idle_share", 0.9),
            ("turn.hidden_share", 0.9),
            ("turn.no_free_thread_share", 0.0),
            ("turn.listen_queue_share", 0.0),
            ("upstream.service_share", 0.3),
        ],
        &[("upstream.service_share", 0.9)],
    );
}

#[test]
fn what_is_made_for_each_request_is_known_by_names() {
    check(
        "compiled_per_request",
        "python",
        &[
            ("profile.making_share", 0.5),
            ("profile.pattern_compiling_share", 0.0),
            ("profile.source_compiling_share", 0.0),
            ("profile.reflection_share", 0.0),
            ("cpu.user_share", 0.9),
            ("worker.busiest", 0.98),
            ("cpu.use_of_allowed", 0.98),
            ("core.own_mean", 0.98),
        ],
        &[("profile.making_share", 0.12)],
    );
}

#[test]
fn a_pipe_that_nobody_empties() {
    check(
        "log_consumer_slow",
        "apache",
        &[
            ("write.pipe.per_request", 1.0),
            ("write.pipe.time_us_per_request", 4_000.0),
            ("write.client.per_request", 1.0),
            ("write.client.time_us_per_request", 20.0),
            ("client.mean_ms", 6.0),
        ],
        &[
            ("write.pipe.time_us_per_request", 8.0),
            ("write.client.time_us_per_request", 4_000.0),
            ("client.mean_ms", 400.0),
            ("exec.per_request", 1.0),
        ],
    );
}

#[test]
fn one_upstream_gets_all() {
    check(
        "upstream_skew",
        "nginx",
        &[
            ("upstream.skew", 2.0),
            ("client.queueing_ratio", 2.0),
            ("upstream.service_share", 0.95),
        ],
        &[
            ("upstream.skew", 1.05),
            ("client.queueing_ratio", 1.0),
            ("upstream.slowest_ratio", 8.0),
            ("upstream.connect_errors_per_request", 0.5),
            // Services of their own, one after the other.
            ("upstream.requests_per_request", 4.0),
        ],
    );
}

#[test]
fn a_log_of_many_lines_costs_what_its_calls_cost() {
    check(
        "debug_logging",
        "python",
        &[
            ("log_write.per_request", 12.0),
            ("log_write.mean_bytes", 120.0),
            ("log_write.calls_per_request", 12.0),
            ("call.total_per_request", 20.0),
            ("cpu.system_share", 0.3),
            ("worker.busiest", 0.97),
            ("cpu.use_of_allowed", 0.97),
            ("core.own_mean", 0.97),
        ],
        &[
            // A server that computes, a line a request, and the words of one.
            ("cpu.system_share", 0.03),
            ("log_write.per_request", 1.0),
            ("log_write.mean_bytes", 8.0),
        ],
    );
}

#[test]
fn a_service_that_is_asked_by_datagrams() {
    check(
        "external_service_wait",
        "rspamd",
        &[
            ("turn.datagram_share", 0.94),
            ("turn.name_server_share", 0.0),
            ("client.mean_ms", 85.0),
        ],
        &[
            ("turn.datagram_share", 0.2),
            ("turn.name_server_share", 0.94),
            ("client.mean_ms", 0.2),
        ],
    );
}

/// Handshakes with an upstream are why it is waited for where they take the CPU that limits, and not by their part of a
/// CPU that is left.
#[test]
fn work_goes_before_a_wait_as_far_as_it_limits() {
    let first = |busy| {
        let facts = [
            ("upstream.connects_per_request", 1.0),
            ("upstream.requests_per_request", 4.0),
            ("upstream.service_share", 0.93),
            ("upstream.service_ms_mean", 10.0),
            ("profile.tls_handshake_share", 0.55),
            ("profile.tls_share", 0.6),
            ("read.upstream.bytes_per_request", 3_000.0),
            ("write.client.bytes_per_request", 500.0),
            ("client.tls", 0.0),
            ("client.tls_full_per_request", 0.0),
            ("worker.busiest", busy),
            ("cpu.use_of_allowed", busy),
            ("core.own_mean", busy),
        ];
        let diagnosis = diagnose_facts(&set("apache", Vec::new(), &facts), "ebpf");
        diagnosis.findings[0].cause.clone()
    };
    assert_eq!(first(0.3), "external_service_wait");
    assert_eq!(first(0.84), "upstream_tls_without_resumption");
}

#[test]
fn many_are_woken_for_one() {
    check(
        "thundering_herd",
        "python",
        &[
            ("accept.per_request", 1.0),
            ("call.listener.accept4.errors.EAGAIN_per_request", 9.0),
            ("worker.processes", 16.0),
            ("worker.threads", 16.0),
            ("profile.kernel_share", 0.8),
            ("worker.busiest", 0.9),
            ("cpu.use_of_allowed", 0.95),
        ],
        &[
            // A loop's own way to see that the queue is empty.
            ("call.listener.accept4.errors.EAGAIN_per_request", 1.0),
            ("accept.per_request", 0.01),
        ],
    );
}

#[test]
fn connections_that_end_too_soon_or_never() {
    check(
        "upstream_idle_timeout_short",
        "nginx",
        &[
            ("client.open_loop", 1.0),
            ("client.errors_share", 0.004),
            ("client.status_502_share", 0.004),
            ("upstream.connects_per_request", 0.5),
            ("upstream.requests_per_connect", 2.0),
            ("upstream.requests_per_request", 1.0),
            ("upstream.closes_first_share", 0.0),
            ("upstream.answer_closes_share", 0.0),
            ("upstream.request_close_share", 0.0),
            ("upstream.http10_share", 0.0),
            ("socket.upstream.resets_received_per_request", 0.004),
        ],
        &[
            // The last response says so.
            ("upstream.answer_closes_share", 0.5),
            // The proxy gives them up first.
            ("upstream.closes_first_share", 1.0),
            // The upstream itself fails.
            ("upstream.answer_5xx_share", 0.01),
        ],
    );
    check(
        "close_wait_leak",
        "python",
        &[
            ("socket.client.close_wait", 300.0),
            ("socket.client.close_wait_growth_per_request", 0.0),
            ("socket.upstream.close_wait", 0.0),
            ("socket.upstream.close_wait_growth_per_request", 0.0),
            ("limit.files_limit", 320.0),
            ("limit.files_used_share", 1.0),
            ("client.unanswered_share", 0.2),
        ],
        // For a moment, between the peer's end and its own.
        &[("socket.client.close_wait", 12.0)],
    );
    check(
        "conntrack_full",
        "nginx",
        &[
            ("conntrack.used_share", 1.0),
            ("conntrack.drops_per_s", 40.0),
            ("client.connect_quantum_1s_share", 0.02),
            ("client.connect_quantum_3s_share", 0.0),
            ("tcp.listen_overflows_per_s", 0.0),
            ("tcp.syn_drops_per_s", 0.0),
        ],
        &[
            ("client.connect_quantum_1s_share", 0.0),
            ("tcp.listen_overflows_per_s", 40.0),
        ],
    );
}

#[test]
fn reloads_and_checks() {
    check(
        "reload_storm",
        "nginx",
        &[
            ("worker.generations", 3.5),
            ("worker.main_share", 0.3),
            ("thread_start.per_request", 0.0),
            ("spawn.per_request", 0.001),
            ("worker.busiest", 0.95),
        ],
        &[
            // A pool that grows.
            ("worker.generations", 1.0),
            // Workers that end after a number of requests.
            ("worker.main_share", 0.001),
            ("spawn.per_request", 1.0),
        ],
    );
    check(
        "health_check_flood",
        "haproxy",
        &[
            ("upstream.connects_per_request", 1.5),
            ("socket.upstream.resets_unused_per_request", 1.5),
            ("upstream.requests_per_request", 1.0),
            ("upstream.unasked_share", 0.0),
            ("profile.connect_share", 0.3),
            ("worker.busiest", 0.97),
        ],
        &[
            // A connection for each request, which is closed after it.
            ("socket.upstream.resets_unused_per_request", 0.0),
            ("upstream.connects_per_request", 0.001),
            // Nobody takes them.
            ("upstream.connect_errors_per_request", 1.4),
        ],
    );
}

#[test]
fn resets_limits_and_pressure() {
    check(
        "server_resets",
        "python",
        &[
            ("client.failed.reset_share", 0.2),
            ("client.failed.closed_early_share", 0.0),
            ("client.failed.truncated_share", 0.0),
            ("client.errors_share", 0.2),
            ("socket.client.resets_sent_per_request", 0.9),
        ],
        &[
            ("client.failed.reset_share", 0.0),
            ("socket.client.resets_sent_per_request", 0.0),
            ("limit.files_used_share", 1.0),
        ],
    );
    check(
        "tasks_limit",
        "apache",
        &[("cgroup.pids_share", 1.0), ("client.errors_share", 0.3)],
        &[("cgroup.pids_share", 0.6)],
    );
    check(
        "tcp_memory_pressure",
        "nginx",
        &[("tcp.memory_pressures_per_s", 0.5)],
        &[("tcp.memory_pressures_per_s", 0.0)],
    );
    check(
        "threads_beyond_quota",
        "go",
        &[
            ("cgroup.throttled_periods_share", 0.4),
            ("cgroup.throttled_share", 0.3),
            ("cgroup.quota_cores", 1.0),
            ("cpu.cores_allowed", 8.0),
            ("worker.active", 8.0),
            ("client.p50_ms", 2.0),
            ("client.p99_ms", 60.0),
        ],
        &[
            // As many threads as the quota pays for: it is too small for the work.
            ("worker.active", 1.0),
            ("cgroup.throttled_periods_share", 0.0),
            ("client.p99_ms", 3.0),
        ],
    );
}

#[test]
fn a_delayed_acknowledgement_needs_two_writes() {
    check(
        "nagle_delayed_ack",
        "python",
        &[
            ("client.quantum_40ms_share", 0.9),
            ("client.single_client_quantum_40ms_share", 0.9),
            ("client.single_client_mean_ms", 42.0),
            ("tcp.delayed_acks_per_request", 0.9),
            ("write.client.useful_per_request", 2.0),
        ],
        &[
            // A handler that takes 45 ms, and 16 requests of 3 ms one after the other.
            ("write.client.useful_per_request", 1.0),
            ("client.single_client_quantum_40ms_share", 0.0),
        ],
    );
    // Between a proxy and the server behind it, whose core is full and whose answer is written when it begins.
    check(
        "nagle_delayed_ack",
        "nginx",
        &[
            ("upstream.path_ms", 34.0),
            ("upstream.quantum_40ms_share", 0.04),
            ("tcp.delayed_acks_per_request", 1.9),
            ("read.upstream.useful_per_request", 14.0),
            ("upstream.requests_per_request", 1.0),
            ("core.own_mean", 0.93),
        ],
        &[
            // A queue of the server behind, and an answer in one piece.
            ("upstream.path_ms", 2.0),
            ("read.upstream.useful_per_request", 1.0),
        ],
    );
}

#[test]
fn a_path_that_takes_time() {
    check(
        "upstream_far",
        "nginx",
        &[
            ("socket.upstream.least_rtt_ms", 15.0),
            ("upstream.path_share", 0.95),
            ("upstream.service_share", 0.95),
            ("upstream.service_ms_mean", 15.2),
            ("upstream.requests_per_request", 1.0),
            ("client.single_client_mean_ms", 15.5),
        ],
        &[
            // Slow and near, many turns one after the other, and a server that does not come to read.
            ("socket.upstream.least_rtt_ms", 0.02),
            ("upstream.path_share", 0.05),
            ("upstream.requests_per_request", 20.0),
            ("worker.busiest", 0.97),
        ],
    );
    check(
        "slow_start_after_idle",
        "nginx",
        &[
            ("sysctl.slow_start_after_idle", 1.0),
            ("client.open_loop", 1.0),
            ("client.rate_per_s", 40.0),
            ("client.mean_ms", 80.0),
            ("client.p50_ms", 80.0),
            ("client.transfer_p50_ms", 60.0),
            ("client.single_client_transfer_p50_ms", 4.0),
            ("client.single_client_p50_ms", 24.0),
            ("client.connects_per_request", 0.01),
            ("client.answer_bytes", 120_000.0),
            ("socket.client.mss", 1_448.0),
            ("socket.client.least_rtt_ms", 20.0),
            ("socket.client.rwnd_limited_share", 0.0),
            ("tcp.retransmits_share", 0.0),
        ],
        &[
            ("sysctl.slow_start_after_idle", 0.0),
            // No pause, one flight, new connections, and a link that sets the pace.
            ("client.rate_per_s", 160.0),
            ("client.answer_bytes", 12_000.0),
            ("client.connects_per_request", 1.0),
            ("client.single_client_transfer_p50_ms", 58.0),
            ("tcp.retransmits_share", 0.03),
        ],
    );
    check(
        "syn_lost",
        "nginx",
        &[
            ("client.connect_quantum_1s_share", 0.05),
            ("client.connect_quantum_3s_share", 0.0),
            ("client.connects_per_request", 1.0),
            ("client.connect_p50_ms", 0.2),
            ("client.mean_ms", 55.0),
            ("tcp.listen_overflows_per_s", 0.0),
            ("tcp.syn_drops_per_s", 0.0),
            ("tcp.syn_cookies_per_s", 0.0),
            ("tcp.syn_retransmits_per_s", 25.0),
            ("tcp.retransmits_per_request", 0.025),
            ("listen.queue_share", 0.01),
            ("conntrack.used_share", 0.1),
            ("conntrack.drops_per_s", 0.0),
        ],
        &[
            // The server's own queues, its table, a path that loses all alike, and connections that are kept.
            ("tcp.listen_overflows_per_s", 30.0),
            ("tcp.syn_cookies_per_s", 30.0),
            ("conntrack.used_share", 1.0),
            ("tcp.retransmits_per_request", 0.2),
            ("client.connect_quantum_1s_share", 0.0),
            ("client.connects_per_request", 0.001),
        ],
    );
}

#[test]
fn a_limit_of_disk_use() {
    check(
        "cgroup_io_limit",
        "python",
        &[
            ("cgroup.io_used_share", 0.99),
            ("blocked.disk_share", 0.9),
            ("blocked.sync_share", 0.0),
            ("blocked.disk_us_per_request", 15_000.0),
            ("blocked.sync_us_per_request", 0.0),
            ("read.file.useful_per_request", 1.0),
            ("sendfile.per_request", 0.0),
            ("sync.per_request", 0.0),
        ],
        &[
            // The disk itself, and a limit that nothing waits for.
            ("cgroup.io_used_share", 0.3),
            ("blocked.disk_share", 0.02),
        ],
    );
}

#[test]
fn many_requests_on_few_connections() {
    check(
        "http2_stream_limit",
        "nginx",
        &[
            ("client.pipeline", 32.0),
            ("client.streams_allowed", 4.0),
            ("client.connections", 2.0),
            ("client.parallel_share", 0.9),
            ("client.single_client_p50_ms", 20.0),
        ],
        &[
            // Hardly fewer than were asked for, and a server that is full of what it has.
            ("client.streams_allowed", 30.0),
            ("worker.busiest", 0.97),
        ],
    );
    check(
        "one_connection_one_worker",
        "nginx",
        &[
            ("client.pipeline", 64.0),
            ("client.connections", 1.0),
            ("client.connects_per_request", 0.0),
            ("worker.count", 4.0),
            ("worker.processes", 5.0),
            ("worker.busiest", 0.98),
            ("worker.mean", 0.25),
            ("worker.imbalance", 3.9),
            ("cpu.idle_allowed", 2.9),
            ("cpu.use_of_allowed", 0.25),
            ("host.cores", 8.0),
        ],
        &[
            // One request at a time, a connection for each, and workers that all run.
            ("client.pipeline", 1.0),
            ("client.connections", 8.0),
            ("worker.imbalance", 1.1),
            ("worker.count", 80.0),
        ],
    );
}

#[test]
fn a_filter_before_every_call() {
    check(
        "calls_are_checked",
        "nginx",
        &[
            ("profile.call_filter_share", 0.3),
            ("profile.call_audit_share", 0.0),
            ("call.total_per_request", 6.0),
            ("worker.busiest", 0.98),
            ("core.own_mean", 0.99),
            ("cpu.use_of_allowed", 0.98),
        ],
        &[("profile.call_filter_share", 0.02)],
    );
}

#[test]
fn cores_that_are_slow_for_what_they_could_be() {
    check(
        "clock_low",
        "nginx",
        &[
            ("core.own_clock_share", 0.45),
            ("core.own_busiest", 0.99),
            ("worker.busiest", 0.98),
            ("cpu.use_of_allowed", 0.98),
        ],
        &[
            // All cores of a processor at work, and a core with time left.
            ("core.own_clock_share", 0.8),
            ("core.own_busiest", 0.4),
        ],
    );
    check(
        "smt_siblings_busy",
        "nginx",
        &[
            ("core.sibling_busy_share", 0.95),
            ("core.own_mean", 0.99),
            ("core.own_foreign_share", 0.0),
            ("worker.busiest", 0.98),
            ("cpu.use_of_allowed", 0.98),
        ],
        &[
            ("core.sibling_busy_share", 0.1),
            ("core.own_mean", 0.3),
            ("core.own_foreign_share", 0.4),
        ],
    );
}

/// What was asked for, and what is closed by design, are notes.
#[test]
fn defaults_are_notes() {
    let directive = |name: &str, arg: &str| Directive {
        name: name.into(),
        args: vec![arg.into()],
        ..Directive::default()
    };
    let worth = |cause: &str, kind: &str, directives: Vec<Directive>, facts: &[(&str, f64)]| {
        let diagnosis = diagnose_facts(&set(kind, directives, facts), "ebpf");
        let found = diagnosis.findings.iter().find(|f| f.cause == cause);
        found.map(|f| f.worth_changing)
    };
    let full = ("worker.busiest", 0.97);
    let compressing = [
        full,
        ("profile.compression_share", 0.5),
        ("client.answer_compressed", 1.0),
    ];
    for (kind, name, arg, expected) in [
        ("nginx", "gzip_comp_level", "9", true),
        ("nginx", "gzip_comp_level", "1", false),
        ("nginx", "gzip", "on", false),
        ("apache", "DeflateCompressionLevel", "9", true),
        ("apache", "DeflateCompressionLevel", "6", false),
        ("node", "argument", "server.js", true),
    ] {
        let found = worth(
            "compression_level",
            kind,
            vec![directive(name, arg)],
            &compressing,
        );
        assert_eq!(found, Some(expected), "{kind} {name} {arg}");
    }
    let closing = [
        full,
        ("client.connects_per_request", 1.0),
        ("client.closed_by_server_per_request", 1.0),
        ("profile.connection_share", 0.2),
        ("client.tls", 0.0),
    ];
    let gunicorn = || directive("argument", "/usr/bin/gunicorn");
    let failing: Vec<(&str, f64)> = closing
        .iter()
        .copied()
        .chain([("client.errors_share", 0.08)])
        .collect();
    for (directives, facts, expected) in [
        (vec![gunicorn()], &closing[..], false),
        (vec![gunicorn()], &failing[..], true),
        (
            vec![gunicorn(), directive("--worker-class", "gthread")],
            &closing[..],
            true,
        ),
        (
            vec![directive("--http-socket", "127.0.0.1:1")],
            &closing[..],
            false,
        ),
        (
            vec![directive("--http11-socket", "127.0.0.1:1")],
            &closing[..],
            true,
        ),
    ] {
        let found = worth("server_keepalive_off", "python", directives.clone(), facts);
        assert_eq!(found, Some(expected), "{directives:?}");
    }
}

/// What a server that hardly runs could spare is worth nothing, whether the bound is known or not.
#[test]
fn an_unknown_part_of_a_small_whole_is_a_note() {
    let log = |busy: f64| {
        let facts = [
            ("log_write.per_request", 1.0),
            ("log_write.mean_bytes", 90.0),
            ("call.total_per_request", 9.0),
            ("worker.busiest", busy),
            ("cpu.use_of_allowed", busy),
            ("client.achieved_of_offered", 1.0),
        ];
        let diagnosis = diagnose_facts(&set("nginx", Vec::new(), &facts), "ebpf");
        let found = diagnosis
            .findings
            .iter()
            .find(|f| f.cause == "unbuffered_access_log");
        found.map(|f| f.gain_unknown.is_some())
    };
    assert_eq!(log(0.02), Some(false));
    assert_eq!(log(0.99), Some(true));
}

/// The contradictions that pasted cases showed.
#[test]
fn a_rare_but_long_stop_is_a_quota_and_bind_may_find_no_port() {
    check(
        "cgroup_cpu_quota",
        "go",
        &[
            ("cgroup.throttled_periods_share", 0.003),
            ("cgroup.throttled_share", 0.003),
            ("client.p50_ms", 2.0),
            ("client.p99_ms", 80.0),
        ],
        &[
            ("client.p99_ms", 4.0),
            ("cgroup.throttled_share", 0.0003),
            ("cgroup.throttled_periods_share", 0.0005),
        ],
    );
    let go = &catalogue().cause("cgroup_cpu_quota").unwrap().remedy["go"];
    assert!(go.contains("set `GOMAXPROCS` to the quota"), "{go}");
    let single = &catalogue().cause("single_worker_saturated").unwrap().remedy["go"];
    assert!(single.contains("only where no CPU quota holds"), "{single}");
    check(
        "ports_exhausted",
        "haproxy",
        &[("call.none.bind.errors.EADDRINUSE_per_request", 0.02)],
        &[("call.none.bind.errors.EADDRINUSE_per_request", 0.0)],
    );
    let queues = &catalogue().cause("receive_queue_overflow").unwrap().remedy["generic"];
    assert!(queues.contains("a smaller third value"), "{queues}");
}

/// A worker whose core is full, and half of it moves data.
const FULL: Facts = &[
    ("worker.busiest", 0.99),
    ("core.own_mean", 0.99),
    ("cpu.use_of_allowed", 0.99),
    ("profile.syscall_io_share", 0.5),
    ("profile.syscall_share", 0.5),
];

#[test]
fn calls_beyond_bytes_are_said_where_no_rule_knows_why() {
    let pieces = &[
        ("read.file.useful_per_request", 64.0),
        ("read.file.bytes_per_request", 131_072.0),
        ("read.file.mean_bytes", 2_048.0),
        ("read.any.useful_per_request", 65.0),
        ("read.any.bytes_per_request", 131_172.0),
        ("write.any.useful_per_request", 1.0),
        ("write.any.bytes_per_request", 131_272.0),
    ];
    let facts = |more: &[(&'static str, f64)]| -> Vec<(&'static str, f64)> {
        FULL.iter().chain(pieces).chain(more).copied().collect()
    };
    assert_eq!(named("calls_beyond_bytes", "own", &facts(&[])), Some(true));
    // As many calls for bytes that need them, and few.
    for few in [
        ("read.file.mean_bytes", 65_536.0),
        ("read.file.useful_per_request", 8.0),
        ("cpu.use_of_allowed", 0.05),
    ] {
        assert_ne!(
            named("calls_beyond_bytes", "own", &facts(&[few])),
            Some(true),
            "{few:?}"
        );
    }
    // Whoever knows why, and what it takes, says it instead.
    let exact = [("call.total_per_request", 70.0)];
    assert_eq!(named("tiny_file_reads", "own", &facts(&exact)), Some(true));
    assert_eq!(named("calls_beyond_bytes", "own", &facts(&exact)), None);
}

#[test]
fn connections_not_reused_are_said_where_no_rule_knows_why() {
    let shares = [
        ("profile.connect_share", 0.1),
        ("profile.connection_share", 0.1),
    ];
    let facts = |more: &[(&'static str, f64)]| -> Vec<(&'static str, f64)> {
        FULL.iter().chain(&shares).chain(more).copied().collect()
    };
    let opened = ("upstream.connects_per_request", 0.5);
    assert_eq!(
        named("connections_not_reused", "own", &facts(&[opened])),
        Some(true)
    );
    for other in [
        ("upstream.connects_per_request", 0.01),
        ("client.errors_share", 0.5),
        ("cpu.use_of_allowed", 0.05),
    ] {
        assert_ne!(
            named("connections_not_reused", "own", &facts(&[opened, other])),
            Some(true),
            "{other:?}"
        );
    }
    let all = facts(&[
        ("upstream.connects_per_request", 1.0),
        ("upstream.requests_per_connect", 1.0),
    ]);
    assert_eq!(named("no_upstream_keepalive", "own", &all), Some(true));
    assert_eq!(named("connections_not_reused", "own", &all), None);
}

#[test]
fn a_connection_to_a_database_for_each_request_that_asks_it_often() {
    let facts = [
        ("upstream.connects_per_request", 1.0),
        ("upstream.requests_per_connect", 14.0),
        ("upstream.closes_first_share", 1.0),
        ("upstream.answer_closes_share", 0.0),
        ("profile.connect_share", 0.2),
        ("profile.connection_share", 0.1),
        ("worker.busiest", 0.9),
    ];
    let found = |set: &FactSet| {
        let diagnosis = diagnose_facts(set, "ebpf");
        let cause = |f: &crate::diagnosis::Finding| f.cause == "no_upstream_keepalive";
        diagnosis.findings.iter().any(cause)
    };
    let mut database = set("go", Vec::new(), &facts);
    database.not_applicable("web", "upstream.request_close_share", "it speaks no HTTP");
    assert!(found(&database));
    let mut http = set("go", Vec::new(), &facts);
    http.known("web", "upstream.request_close_share", 0.0, "test");
    assert!(!found(&http));
}

#[test]
fn pages_of_new_processes_are_no_churn_of_memory() {
    let churn: Facts = &[
        ("map.per_request", 16.0),
        ("worker.busiest", 0.97),
        ("faults.minor_per_request", 880.0),
        ("profile.memory_map_share", 0.06),
        ("profile.page_fault_share", 0.26),
        ("thread_start.per_request", 0.0),
        ("spawn.per_request", 0.0),
        ("map.unmap_per_request", 1.0),
    ];
    check("mmap_churn", "nginx", churn, &[("spawn.per_request", 1.8)]);
    let faults = &churn[1..];
    check(
        "page_fault_churn",
        "nginx",
        faults,
        &[("spawn.per_request", 1.8)],
    );
}

#[test]
fn what_a_database_in_the_process_makes_the_collector_do_is_the_databases() {
    let facts: Facts = &[
        ("worker.busiest", 0.97),
        ("profile.database_share", 0.01),
        ("profile.embedded_database_share", 0.5),
        ("profile.search_share", 0.0),
        ("profile.net_send_share", 0.05),
        ("profile.net_receive_share", 0.02),
        ("profile.gc_share", 0.3),
    ];
    let others = &[("profile.embedded_database_share", 0.2)];
    check("database_in_process", "go", facts, others);
    let diagnosis = diagnose_facts(&set("go", Vec::new(), facts), "ebpf");
    assert_eq!(diagnosis.findings[0].cause, "database_in_process");
}
