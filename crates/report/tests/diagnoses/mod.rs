//! Diagnoses and examinations as real ones would be: a proxy whose buffers are smaller than the answers, the same
//! server mended, a server with several causes, and one of which nothing could be seen.

#![allow(dead_code, reason = "each test file uses some of them")]

use analysis::{
    Account, Asked, Branch, Calibrated, CallChange, Change, Diagnosis, Evidence, FactValue,
    Finding, Held, JudgedBy, Ledger, Metric, NextLimit, Plan, Proof, ProofRatio, Row, RuledOut,
    Station, Status, TrialPlan, Unseen, WhatIf,
};
use record::{
    CallStats, Examination, FdClass, Frame, Lookout, Nanos, Overhead, OverheadPart, ProbeCost,
    Profile, ProfileKind, Second, Server, Signature, Stack, TargetSignature, Tier, TimeSpan,
    Unavailable, VersionFact, WaitState, Watching,
};
use std::collections::BTreeMap;

fn evidence(
    signal: &str,
    value: f64,
    unit: &str,
    threshold: Option<f64>,
    source: &str,
) -> Evidence {
    Evidence {
        signal: signal.into(),
        value: Some(value),
        unit: unit.into(),
        threshold,
        source: source.into(),
    }
}

fn ruled_out(cause: &str, title: &str, target: &str, why: &str) -> RuledOut {
    RuledOut {
        cause: cause.into(),
        title: title.into(),
        target: target.into(),
        why: why.into(),
    }
}

fn fact(name: &str, target: &str, value: Option<f64>, unit: &str, source: &str) -> FactValue {
    FactValue {
        name: name.into(),
        target: target.into(),
        value,
        unit: unit.into(),
        source: source.into(),
    }
}

/// Buffers of 4 KiB for an answer of 91 KB.
fn small_buffers() -> Finding {
    Finding {
        cause: "small_proxy_buffers".into(),
        title: "Proxy buffers smaller than the answers".into(),
        target: "server".into(),
        confidence: 0.9,
        status: Status::Supported,
        why: "Each answer of 91 KB is read from the upstream in 10 calls and written to the client in 12, \
              because a buffer holds 4096 bytes; 9 of 10 reads fill their buffers."
            .into(),
        evidence: vec![
            evidence("read.upstream.per_request", 10.0, "calls/request", Some(4.0), "signature pass, system calls on upstream sockets"),
            evidence("read.upstream.mean_bytes", 9_124.0, "bytes", None, "signature pass, system calls on upstream sockets"),
            evidence("read.upstream.full_share", 0.9, "1", Some(0.5), "signature pass, calls that returned all that they asked for"),
            evidence("write.client.per_request", 12.0, "calls/request", Some(4.0), "signature pass, system calls on client sockets"),
            evidence("cpu.system_share", 0.71, "1", Some(0.5), "/proc/PID/task/*/stat over the timed load"),
        ],
        remedy: "Raise proxy_buffers so that one answer fits: `proxy_buffers 4 128k; proxy_buffer_size 128k;`".into(),
        changes: vec![
            Change {
                place: "/etc/nginx/nginx.conf:31".into(),
                context: "http".into(),
                sections: vec!["http".into()],
                from: "proxy_buffers 8 4k;".into(),
                to: "proxy_buffers 4 128k;".into(),
            },
            Change {
                place: String::new(),
                context: "http".into(),
                sections: vec!["http".into()],
                from: String::new(),
                to: "proxy_buffer_size 128k;".into(),
            },
        ],
        gain_bound: Some(0.46),
        gain_unknown: None,
        variant: None,
        worth_changing: true,
        predicted: Some(would_bring()),
        calibrated: Some(Calibrated {
            score: 0.9,
            cases: 41,
            right: 37,
        }),
        proof: None,
    }
}

/// What it would bring, before it was measured.
fn would_bring() -> WhatIf {
    WhatIf {
        metric: Metric::Rate,
        ratio: Some(1.36),
        interval: Some((1.2, 1.5)),
        net: Some((1.3, 1.42)),
        rate: None,
        next_limit: Some(NextLimit {
            station: "upstream".into(),
            target: "upstream-9000".into(),
            at_ratio: 1.62,
        }),
        kind: "row".to_owned(),
        model: "closed queueing network, MVA".into(),
        basis: vec![
            "the row takes 46 % of the CPU time of server, 51 % with all that belongs to it".into(),
            "64 requests in flight".into(),
        ],
        withheld: None,
    }
}

/// The proof of [`small_buffers`].
fn proof() -> Proof {
    let ratio =
        |role: &str, signal: &str, unit: &str, before: f64, after: f64, interval| ProofRatio {
            role: role.into(),
            signal: signal.into(),
            unit: unit.into(),
            before,
            after,
            ratio: Some(after / before),
            interval,
            as_predicted: true,
        };
    Proof {
        result: "proved".into(),
        why: "rate_per_s x1.41 (1.36 to 1.44), against the twin x1.41 (1.35 to 1.44), the twins x1.00; read.upstream.per_request 10.00 -> 1.00 as predicted; control read.upstream.bytes_per_request 91200.00 -> 91200.00 unmoved".into(),
        judged_by: Some(JudgedBy {
            metric: Metric::Rate,
            why: "the cause caps the rate".into(),
        }),
        changes: small_buffers().changes,
        evidence: vec![
            ratio("metric", "rate_per_s", "1/s", 4_812.0, 6_785.0, Some((1.36, 1.44))),
            ratio("against_twin", "rate_per_s", "1/s", 4_801.0, 6_785.0, Some((1.35, 1.44))),
            ratio("mechanism", "read.upstream.per_request", "calls/request", 10.0, 1.0, None),
            ratio("control", "read.upstream.bytes_per_request", "bytes/request", 91_200.0, 91_200.0, None),
            ratio("secondary", "response_ns_p50", "ns", 3_100_000.0, 2_200_000.0, Some((0.68, 0.75))),
            ratio("noise", "rate_per_s", "1/s", 4_812.0, 4_801.0, Some((0.97, 1.03))),
            ratio("put_back", "rate_per_s", "1/s", 6_785.0, 4_830.0, Some((0.69, 0.73))),
        ],
        calls: vec![
            CallChange {
                target: "server".into(),
                call: "readv".into(),
                class: FdClass::Upstream,
                before: 10.0,
                after: 1.0,
                mean_bytes_before: Some(9_120.0),
                mean_bytes_after: Some(91_200.0),
            },
            CallChange {
                target: "server".into(),
                call: "mmap".into(),
                class: FdClass::None,
                before: 0.0,
                after: 0.5,
                mean_bytes_before: None,
                mean_bytes_after: None,
            },
        ],
        predicted: Some(Held {
            metric: Metric::Rate,
            ratio: Some(1.36),
            interval: Some((1.2, 1.5)),
            measured: 1.41,
            measured_interval: Some((1.36, 1.44)),
            within: Some(true),
            withheld: None,
        }),
    }
}

fn worker_station() -> Station {
    Station {
        name: "worker".into(),
        target: "server".into(),
        why:
            "nginx worker 1234 on core 0 was busy 99 % of the time; the generator had 38 % headroom"
                .into(),
    }
}

fn facts() -> Vec<FactValue> {
    vec![
        fact("client.rate_per_s", "", Some(4_812.0), "1/s", "timed load"),
        fact(
            "read.upstream.per_request",
            "server",
            Some(10.0),
            "calls/request",
            "signature pass",
        ),
        fact(
            "worker.busiest",
            "server",
            Some(0.99),
            "1",
            "/proc/PID/task/*/schedstat",
        ),
        fact(
            "jvm.gc_share",
            "server",
            None,
            "1",
            "no JVM behind this target",
        ),
    ]
}

fn ruled() -> Vec<RuledOut> {
    vec![
        ruled_out(
            "no_upstream_keepalive",
            "No keep-alive to the upstream",
            "server",
            "0.00 connects per request: connections to the upstream are kept",
        ),
        ruled_out(
            "proxy_temp_files",
            "Answers spooled to temporary files",
            "server",
            "0.00 writes to temporary files per request",
        ),
        ruled_out(
            "compression_level",
            "High compression level",
            "server",
            "0.0 % of samples in deflate; the answer is not compressed",
        ),
        ruled_out(
            "slow_backend",
            "A slow backend",
            "upstream-8080",
            "the upstream answers in 0.31 ms, 7 % of the response time of 4.4 ms",
        ),
        ruled_out(
            "loss",
            "Loss between client and server",
            "",
            "0 segments retransmitted in 3,000 requests",
        ),
        ruled_out(
            "delayed_ack",
            "Nagle's algorithm against delayed acknowledgements",
            "",
            "0.0 % of answers took 40 ms",
        ),
        ruled_out(
            "cgroup_quota",
            "CPU quota of a cgroup",
            "server",
            "0 throttled periods",
        ),
    ]
}

fn row(kind: &str, label: &str, share: f64, place: &str) -> Row {
    Row {
        kind: kind.into(),
        label: label.into(),
        share,
        share_error: 0.02,
        place: place.into(),
        source: "on-CPU profile, scaled to the run time of the threads".into(),
        own_work: kind != "function",
        ..Row::default()
    }
}

/// Both accounts of a proxy whose worker is full, and what could not be seen.
fn ledger() -> Ledger {
    let waits = [(
        "other_turns",
        "waiting while the worker serves other requests",
        0.9,
    )];
    let waits = waits.map(|(kind, label, share)| Row {
        requests: Some(57.6),
        ..row(kind, label, share, "")
    });
    let client = Row {
        requests: Some(6.4),
        ..row("client", "the client and the path to it", 0.1, "")
    };
    Ledger {
        rate: Some(Account {
            basis: analysis::Basis::Cpu,
            target: "server".into(),
            of: "the time of core 0".into(),
            total: 48.2,
            unit: "us/request".into(),
            requests: None,
            rows: vec![
                Row {
                    cause: Some("small_proxy_buffers".into()),
                    ..row(
                        "net_receive",
                        "receiving over TCP",
                        0.46,
                        "ngx_event_pipe in nginx",
                    )
                },
                row("net_send", "sending over TCP", 0.3, "ngx_writev in nginx"),
                row(
                    "function",
                    "ngx_http_proxy_process_header",
                    0.2,
                    "ngx_http_proxy_process_header in nginx",
                ),
                row("idle", "idle: nothing was there to do", 0.04, ""),
            ],
            branches: vec![Branch {
                function: "ngx_event_pipe".into(),
                callers: vec!["ngx_http_upstream_process_upstream".into()],
                share: 0.71,
                server: String::new(),
                line: String::new(),
            }],
            asked: Vec::new(),
        }),
        latency: Some(Account {
            basis: analysis::Basis::Requests,
            target: "server".into(),
            of: "the mean response time".into(),
            total: 3_085.0,
            unit: "us".into(),
            requests: Some(64.0),
            rows: waits.into_iter().chain([client]).collect(),
            branches: vec![Branch {
                function: "Cursor.execute (store.py:80)".into(),
                callers: vec!["customers (shop.py:40)".into()],
                server: String::new(),
                line: "shop.py:47: row = cursor.execute(QUERY, [key])".into(),
                share: 0.64,
            }],
            asked: vec![Asked {
                server: "127.0.0.1:5432 (postgres)".into(),
                protocol: "PostgreSQL".into(),
                text: "SELECT name FROM orders WHERE customer = ?".into(),
                per_request: Some(38.0),
                share: 0.82,
                wait_ms: 0.41,
                empty_share: Some(0.0),
                rows: Some(1.0),
            }],
        }),
        tail: None,
        servers: Vec::new(),
        cpu: BTreeMap::new(),
        not_visible: vec!["the slowest 1 % at server: too few turns, 80 were traced".into()],
    }
}

/// One cause that holds, unproved.
pub fn one_cause() -> Diagnosis {
    Diagnosis {
        station: worker_station(),
        findings: vec![small_buffers()],
        ruled_out: ruled(),
        unseen: vec![Unseen {
            cause: "client_window".into(),
            target: "server".into(),
            signals: vec!["socket.client.rwnd_limited_share".into()],
            why: "sock_diag gives tcp_info only for sockets of the same user; run as root".into(),
        }],
        unexplained: Some(0.12),
        ledger: Some(ledger()),
        facts: facts(),
        tier: "ebpf".into(),
    }
}

/// Several causes, the first proved, one true without weight, one refuted.
pub fn many_causes() -> Diagnosis {
    let first = Finding {
        status: Status::Proved,
        confidence: 0.99,
        proof: Some(proof()),
        ..small_buffers()
    };
    let keepalive = Finding {
        cause: "no_upstream_keepalive".into(),
        title: "No keep-alive to the upstream".into(),
        target: "server".into(),
        confidence: 0.7,
        status: Status::Supported,
        why: "Every request opens a connection to 127.0.0.1:8080 and closes it: 1.00 connects per request.".into(),
        evidence: vec![evidence("upstream.connects_per_request", 1.0, "calls/request", Some(0.1), "signature pass, sockets that reached ESTABLISHED")],
        remedy: "Add `keepalive 32;` to the upstream block, with `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`".into(),
        changes: vec![],
        gain_bound: Some(0.18),
        gain_unknown: None,
        variant: None,
        worth_changing: true,
        predicted: None,
        calibrated: None,
        proof: None,
    };
    let log = Finding {
        cause: "unbuffered_log".into(),
        title: "Access log written for every request".into(),
        confidence: 0.8,
        why: "1.00 writes of 142 bytes to access.log per request take 0.4 % of the worker's time."
            .into(),
        evidence: vec![evidence(
            "log_write.per_request",
            1.0,
            "calls/request",
            Some(0.5),
            "signature pass, writes to files opened with O_APPEND",
        )],
        remedy: "Add `buffer=64k flush=1s` to access_log".into(),
        gain_bound: Some(0.004),
        gain_unknown: None,
        variant: None,
        worth_changing: false,
        predicted: None,
        ..keepalive.clone()
    };
    let tcp = Finding {
        cause: "small_send_buffer".into(),
        title: "Small send buffer".into(),
        target: String::new(),
        confidence: 0.1,
        status: Status::Refuted,
        why: "With sndbuf=1m the rate moved by 0.2 % (noise 3 %).".into(),
        gain_bound: None,
        gain_unknown: None,
        variant: None,
        ..keepalive.clone()
    };
    Diagnosis {
        findings: vec![first, keepalive, log, tcp],
        ruled_out: ruled().split_off(1),
        ..one_cause()
    }
}

/// A healthy server that is CPU-bound by its own work.
pub fn healthy() -> Diagnosis {
    Diagnosis {
        findings: vec![Finding {
            cause: "none".into(),
            title: "Healthy: CPU-bound by its own work".into(),
            target: "server".into(),
            confidence: 0.9,
            status: Status::Supported,
            why: "The worker is full with 1 read of 91 KB and 2 writes for each request; no cause holds.".into(),
            evidence: vec![
                evidence("worker.busiest", 0.99, "1", Some(0.9), "/proc/PID/task/*/schedstat"),
                evidence("read.upstream.per_request", 1.0, "calls/request", Some(4.0), "signature pass, system calls on upstream sockets"),
            ],
            remedy: "Add workers or cores; nothing in the configuration stands in the way.".into(),
            changes: vec![],
            gain_bound: None,
            gain_unknown: None,
            variant: Some("healthy_cpu_bound".into()),
            worth_changing: false,
            predicted: None,
            calibrated: None,
            proof: None,
        }],
        unseen: vec![],
        unexplained: Some(0.04),
        ledger: None,
        ..one_cause()
    }
}

/// Nothing could be looked at: another host, no probes.
pub fn nothing_visible() -> Diagnosis {
    let unseen = |cause: &str, signals: &[&str], why: &str| Unseen {
        cause: cause.into(),
        target: String::new(),
        signals: signals.iter().map(|&s| s.into()).collect(),
        why: why.into(),
    };
    let why =
        "192.0.2.7 is not on this host; run prony diagnose there, or give --pid of its processes";
    Diagnosis {
        station: Station {
            name: "unknown".into(),
            target: String::new(),
            why: "the server's processes are not on this host, so what it waits for cannot be told from here".into(),
        },
        findings: vec![],
        ruled_out: vec![],
        unseen: vec![
            unseen("saturated_single_worker", &["worker.busiest", "worker.count"], why),
            unseen("small_proxy_buffers", &["read.upstream.per_request"], why),
            unseen("no_upstream_keepalive", &["upstream.connects_per_request"], why),
            unseen("slow_backend", &["upstream.wait_ms_mean"], why),
            unseen("unbuffered_log", &["log_write.per_request"], why),
        ],
        unexplained: None,
        ledger: None,
        facts: vec![],
        tier: "proc".into(),
    }
}

fn sizes(of: &[(u64, u64)]) -> Vec<u64> {
    let mut bins = vec![0; 21];
    for (size, calls) in of {
        bins[size.ilog2() as usize] += calls;
    }
    bins
}

fn moved(call: &str, class: FdClass, full: u64, by_size: &[(u64, u64)]) -> CallStats {
    let calls = by_size.iter().map(|(_, n)| n).sum();
    let bytes = by_size.iter().map(|(size, n)| size * n).sum();
    CallStats {
        call: call.into(),
        class,
        calls,
        time_ns: Some(calls * 3_100),
        bytes,
        asked_bytes: bytes + bytes / 10,
        full,
        partial: calls - full,
        sizes: sizes(by_size),
        top_sizes: by_size.to_vec(),
        ..CallStats::default()
    }
}

fn plain(call: &str, class: FdClass, calls: u64) -> CallStats {
    CallStats {
        call: call.into(),
        class,
        calls,
        time_ns: Some(calls * 900),
        ..CallStats::default()
    }
}

/// 3,000 requests: 10 reads and 12 writes each, as with 8 buffers of 4 KiB.
pub fn examination() -> Examination {
    let mut again = plain("recvfrom", FdClass::Client, 3_120);
    again.errors = BTreeMap::from([("EAGAIN".into(), 60)]);
    again.bytes = 3_060 * 44;
    again.partial = 3_060;
    again.sizes = sizes(&[(44, 3_060)]);
    again.top_sizes = vec![(44, 3_060)];
    let front = vec![
        moved(
            "readv",
            FdClass::Upstream,
            27_000,
            &[(4_096, 24_000), (32_768, 3_000), (25_704, 3_000)],
        ),
        moved(
            "writev",
            FdClass::Client,
            36_000,
            &[(8_192, 30_000), (4_096, 3_000), (5_224, 3_000)],
        ),
        moved("writev", FdClass::Upstream, 3_000, &[(96, 3_000)]),
        again,
        moved("write", FdClass::File, 3_000, &[(142, 2_100), (141, 900)]),
        plain("epoll_wait", FdClass::Poll, 9_400),
        plain("epoll_ctl", FdClass::Poll, 6_000),
        plain("connect", FdClass::Upstream, 60),
        plain("accept4", FdClass::Listener, 10),
        plain("close", FdClass::Other, 12),
    ];
    let back = vec![
        moved(
            "write",
            FdClass::Client,
            33_000,
            &[(8_192, 33_000), (1_128, 3_000)],
        ),
        moved("read", FdClass::Client, 0, &[(96, 3_000)]),
        plain("futex", FdClass::None, 5_400),
    ];
    let target = |name: &str, calls: Option<Vec<CallStats>>| TargetSignature {
        target: name.into(),
        calls,
        ..TargetSignature::default()
    };
    Examination {
        signature: Some(Signature {
            tier: Tier::Ebpf,
            requests: 3_000,
            connections: 10,
            connections_opened: 10,
            window_ns: 1_840_000_000,
            targets: vec![
                target("server", Some(front)),
                target("upstream-8080", Some(back)),
                target("upstream-8081", None),
            ],
            unavailable: vec![Unavailable {
                what: "system calls of upstream-8081".into(),
                reason: "its process ended while the probes were armed".into(),
                remedy: "examine it again".into(),
            }],
            cost: vec![ProbeCost {
                probe: "syscalls".into(),
                events: 236_000,
                expected_share: Some(0.084),
                measured_ns: Some(61_000_000),
            }],
            ..Signature::default()
        }),
        monitor_cost: vec![ProbeCost {
            probe: "profile".into(),
            events: 792,
            expected_share: Some(0.003),
            measured_ns: Some(4_200_000),
        }],
        profiles: vec![
            profile(ProfileKind::OnCpu, true),
            profile(ProfileKind::OffCpu, true),
        ],
        ..Examination::default()
    }
}

/// The same server with buffers of 128 KiB: 1 read and 2 writes for each request.
pub fn mended() -> Examination {
    let mut examination = examination();
    if let Some(target) = examination
        .signature
        .as_mut()
        .and_then(|s| s.targets.first_mut())
    {
        target.calls = Some(vec![
            moved("readv", FdClass::Upstream, 0, &[(91_240, 3_000)]),
            moved(
                "writev",
                FdClass::Client,
                3_000,
                &[(65_536, 3_000), (25_704, 3_000)],
            ),
            moved("writev", FdClass::Upstream, 3_000, &[(96, 3_000)]),
            plain("epoll_wait", FdClass::Poll, 6_100),
        ]);
    }
    examination.profiles = vec![
        profile(ProfileKind::OnCpu, false),
        profile(ProfileKind::OffCpu, false),
    ];
    examination
}

/// Stacks of a proxy's worker, `;` between frames, `module!symbol`, and their weights before and after.
const ON_CPU: [(&str, &str, u64, u64); 14] = [
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_process_upstream;nginx!ngx_event_pipe;nginx!ngx_readv_chain;libc.so.6!readv;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_readv;k!sock_read_iter;k!tcp_recvmsg;k!tcp_recvmsg_locked;k!skb_copy_datagram_iter;k!copy_user_enhanced_fast_string",
        118,
        96,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_process_upstream;nginx!ngx_event_pipe;nginx!ngx_readv_chain;libc.so.6!readv;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_readv;k!sock_read_iter;k!tcp_recvmsg;k!release_sock",
        47,
        4,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_process_upstream;nginx!ngx_event_pipe;nginx!ngx_event_pipe_write_to_downstream;nginx!ngx_http_output_filter;nginx!ngx_http_write_filter;nginx!ngx_linux_sendfile_chain;nginx!ngx_writev;libc.so.6!writev;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_writev;k!sock_write_iter;k!tcp_sendmsg;k!tcp_sendmsg_locked;k!copy_user_enhanced_fast_string",
        96,
        84,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_process_upstream;nginx!ngx_event_pipe;nginx!ngx_event_pipe_write_to_downstream;nginx!ngx_http_output_filter;nginx!ngx_http_write_filter;nginx!ngx_linux_sendfile_chain;nginx!ngx_writev;libc.so.6!writev;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_writev;k!sock_write_iter;k!tcp_sendmsg;k!tcp_sendmsg_locked;k!tcp_push;k!__tcp_push_pending_frames;k!tcp_write_xmit;k!__tcp_transmit_skb;k!ip_queue_xmit;k!ip_finish_output2;k!__dev_queue_xmit;k!loopback_xmit",
        141,
        38,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_process_upstream;nginx!ngx_event_pipe;nginx!ngx_event_pipe_write_to_downstream;nginx!ngx_http_output_filter;nginx!ngx_http_write_filter;nginx!ngx_linux_sendfile_chain;nginx!ngx_writev;libc.so.6!writev;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_writev;k!sock_write_iter;k!tcp_sendmsg;k!__local_bh_enable_ip;k!do_softirq;k!net_rx_action;k!process_backlog;k!ip_rcv;k!tcp_v4_rcv;k!tcp_rcv_established",
        88,
        31,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_wait_request_handler;nginx!ngx_http_process_request_line;nginx!ngx_http_process_request_headers;nginx!ngx_http_parse_header_line",
        24,
        26,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_wait_request_handler;nginx!ngx_http_process_request_line;nginx!ngx_http_core_run_phases;nginx!ngx_http_core_find_config_phase;libpcre2-8.so.0!pcre2_match_8",
        19,
        21,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_http_upstream_finalize_request;nginx!ngx_http_log_handler;libc.so.6!write;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!ksys_write;k!vfs_write;k!ext4_file_write_iter",
        22,
        23,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;libc.so.6!epoll_wait;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!do_epoll_wait;k!ep_poll",
        41,
        17,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;nginx!ngx_http_upstream_handler;nginx!ngx_event_pipe;nginx!ngx_palloc;libc.so.6!malloc",
        12,
        5,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_event_expire_timers",
        6,
        6,
    ),
    (
        "upstream-8080",
        "libc.so.6!start_thread;java!thread_native_entry;perf-77.map!Lorg/apache/tomcat/util/net/NioEndpoint$SocketProcessor;::doRun;perf-77.map!Lorg/apache/coyote/http11/Http11Processor;::service;libnio.so!Java_sun_nio_ch_FileDispatcherImpl_write0;libc.so.6!write;k!entry_SYSCALL_64_after_hwframe;k!do_syscall_64;k!ksys_write;k!tcp_sendmsg;k!copy_user_enhanced_fast_string",
        104,
        104,
    ),
    (
        "upstream-8080",
        "libc.so.6!start_thread;java!thread_native_entry;perf-77.map!Lorg/apache/tomcat/util/net/NioEndpoint$SocketProcessor;::doRun;perf-77.map!Lorg/apache/coyote/http11/Http11Processor;::service;perf-77.map!Ljava/lang/String;::<init>",
        52,
        51,
    ),
    (
        "upstream-8080",
        "libc.so.6!start_thread;java!thread_native_entry;libjvm.so!GCTaskThread::run",
        22,
        20,
    ),
];

/// Off the CPU, ns.
const OFF_CPU: [(&str, &str, u64, u64); 3] = [
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_process_events_and_timers;nginx!ngx_epoll_process_events;libc.so.6!epoll_wait;k!do_syscall_64;k!do_epoll_wait;k!schedule_hrtimeout_range",
        310_000_000,
        720_000_000,
    ),
    (
        "server",
        "nginx!main;nginx!ngx_master_process_cycle;nginx!ngx_worker_process_cycle;nginx!ngx_http_log_handler;libc.so.6!write;k!do_syscall_64;k!ext4_file_write_iter;k!jbd2_log_wait_commit",
        24_000_000,
        23_000_000,
    ),
    (
        "upstream-8080",
        "libc.so.6!start_thread;java!thread_native_entry;libc.so.6!pthread_cond_wait;k!do_syscall_64;k!futex_wait_queue",
        4_100_000_000,
        4_300_000_000,
    ),
];

fn profile(kind: ProfileKind, before: bool) -> Profile {
    let lines: &[(&str, &str, u64, u64)] = match kind {
        ProfileKind::OnCpu => &ON_CPU,
        ProfileKind::OffCpu | ProfileKind::Tasks => &OFF_CPU,
    };
    let mut frames: Vec<Frame> = Vec::new();
    let mut index = |text: &str| {
        let (module, symbol) = text.split_once('!').unwrap_or(("nginx", text));
        let frame = Frame {
            symbol: symbol.into(),
            module: if module == "k" { "kernel" } else { module }.into(),
            kernel: module == "k",
        };
        let found = frames.iter().position(|f| *f == frame);
        found.unwrap_or_else(|| {
            frames.push(frame);
            frames.len() - 1
        }) as u32
    };
    let stacks: Vec<Stack> = lines
        .iter()
        .map(|(target, text, slow, fast)| Stack {
            target: (*target).into(),
            pid: 1234,
            thread: if *target == "server" {
                "nginx"
            } else {
                "http-nio-8080"
            }
            .into(),
            // A class name of a JVM ends in `;` before `::`.
            frames: text
                .replace(";::", "\u{1}")
                .split(';')
                .map(|f| index(&f.replace('\u{1}', "::")))
                .collect(),
            weight: if before { *slow } else { *fast },
            state: (kind == ProfileKind::OffCpu).then_some(WaitState::Sleeping),
        })
        .collect();
    let samples = stacks.iter().map(|s| s.weight).sum();
    Profile {
        kind,
        hz: if kind == ProfileKind::OnCpu { 99 } else { 0 },
        samples,
        lost: 3,
        unwound: samples - samples / 50,
        frames,
        stacks,
    }
}

/// Diagnoses of the two cells of the stage that varies the buffers: before, proved and with several causes, and
/// after. Their trials get what was examined.
pub fn examined(record: &mut record::RunRecord) -> BTreeMap<u32, Diagnosis> {
    let mut diagnoses = BTreeMap::new();
    let of_stage = record.trials.iter_mut().filter(|t| t.stage == "buffers");
    for trial in of_stage.take(2) {
        let slow = trial.levels.values().any(|level| level == "8 4k");
        let (diagnosis, examination) = match slow {
            true => (many_causes(), examination()),
            false => (healthy(), mended()),
        };
        trial.examination = Some(examination);
        diagnoses.insert(trial.id, diagnosis);
    }
    diagnoses
}

/// Makes a run a watch of half a minute in which four seconds stall: the first trial is of a slow second, the last of
/// the beginning. `when` is what a person asked for.
pub fn watched(record: &mut record::RunRecord, when: &str) -> BTreeMap<u32, Diagnosis> {
    record.trials.truncate(2);
    let mut plan: Plan =
        serde_json::from_value(record.plan.clone()).expect("the plan of a run is one");
    plan.stages.truncate(1);
    plan.stages[0].factors.clear();
    plan.stages[0].baseline.clear();
    plan.stages[0].search = None;
    plan.again.clear();
    let mut diagnoses = BTreeMap::new();
    for (trial, seconds) in record.trials.iter_mut().zip(["slow", "at the beginning"]) {
        trial.outcome = None;
        trial.stage.clone_from(&plan.stages[0].name);
        trial.levels = BTreeMap::from([("seconds".to_owned(), seconds.to_owned())]);
        let (diagnosis, mut examination) = match seconds {
            "slow" => (one_cause(), examination()),
            _ => (healthy(), mended()),
        };
        examination.watching = Some(Watching {
            window: TimeSpan {
                from: Nanos::from_secs(5),
                to: Nanos::from_secs(6),
            },
            counted: None,
            overhead: Some(overhead()),
            lookout: (seconds == "slow").then(|| lookout(when)),
        });
        examination.servers = vec![versioned(match seconds {
            "slow" => ("3.0.17-1~deb12u2", "ab12cd34ef56ab78"),
            _ => ("3.0.15-1~deb12u1", "0123456789abcdef"),
        })];
        trial.examination = Some(examination);
        diagnoses.insert(trial.id, diagnosis);
    }
    let planned = record.trials.iter().map(|trial| TrialPlan {
        id: trial.id,
        stage: 0,
        block: trial.block,
        levels: trial.levels.clone(),
        targets: Vec::new(),
        load: trial.load.clone(),
        rate_of_capacity: None,
        topology: None,
        irqs: Vec::new(),
    });
    plan.trials = planned.collect();
    record.plan = serde_json::to_value(plan).expect("a plan is plain data");
    diagnoses
}

/// A server with one library of this version and build id, and one that nobody can name.
fn versioned((version, build_id): (&str, &str)) -> Server {
    let library = |name: &str| VersionFact {
        name: name.into(),
        path: format!("/usr/lib/{name}"),
        ..VersionFact::default()
    };
    Server {
        target: "server".into(),
        kind: "nginx".into(),
        versions: vec![
            VersionFact {
                version: version.into(),
                build_id: build_id.into(),
                source: "package libssl3".into(),
                ..library("libssl.so.3")
            },
            VersionFact {
                reason: "no package note, no package that dpkg or apk lists".into(),
                ..library("libown.so")
            },
        ],
        ..Server::default()
    }
}

fn overhead() -> Overhead {
    let part = |what: &str, cpu_ns, known: &str| OverheadPart {
        what: what.into(),
        cpu_ns,
        known: known.into(),
    };
    Overhead {
        budget: 0.01,
        share: 0.0083,
        cpus: 4,
        elapsed_ns: 30_000_000_000,
        parts: vec![
            part("process", 610_000_000, "measured"),
            part("probes", 250_000_000, "measured"),
            part("samples", 136_000_000, "estimated"),
        ],
        afterwards_ns: 420_000_000,
        held_by: vec!["turns for 1.2s instead of 2s".into()],
    }
}

fn lookout(when: &str) -> Lookout {
    let second = |i: u64| {
        let stalls = [12, 19, 20, 27].contains(&i);
        let wave = (i % 5) as f64;
        let open = if stalls {
            61.0 + wave
        } else {
            2.0 + 0.1 * wave
        };
        let values = [
            ("open", open),
            ("rate", 1_200.0 + wave),
            ("mean", open / 1.2),
            ("io_pressure", if stalls { 0.82 } else { 0.01 }),
            ("cpu", 0.4 + 0.01 * wave),
        ];
        Second {
            span: TimeSpan {
                from: Nanos::from_secs(10 + i),
                to: Nanos::from_secs(11 + i),
            },
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            slow: match (stalls, when) {
                (false, _) => String::new(),
                (true, "") => format!("mean {:.1} against 1.8", open / 1.2),
                (true, when) => when.to_owned(),
            },
            probed: i < 3,
        }
    };
    Lookout {
        when: when.to_owned(),
        seconds: (0..30).map(second).collect(),
        unavailable: vec![Unavailable {
            what: "not visible: throttled>5%".into(),
            reason: "`throttled` could not be read in any second".into(),
            remedy: "run prony as root".into(),
        }],
    }
}

/// The document of a watch that was held against an earlier record too.
pub fn watched_document(
    record: &record::RunRecord,
    analysis: &analysis::RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> report::json::RunDocument {
    let mut document = report::json::run_document(record, analysis, ".", diagnoses);
    document.against = Some(analysis::against_earlier(
        ("records/monday", "2026-03-02T09:00:00Z"),
        (&record.trials[1], &record.environment),
        (&record.trials[0], &record.environment),
        0.01,
    ));
    document
}
