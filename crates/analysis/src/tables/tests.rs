//! Tables of records whose figures are plain enough to be worked out by hand.

use super::*;
use crate::samples::{Figures, StageSample, core, run as sample_run, thread};
use crate::{RunAnalysis, analyse};
use plan::{Only, TableSpec};
use record::{
    AllocatorStats, CallStats, Examination, FdClass, Frame, Interval, Nanos, Profile, ProfileKind,
    RunRecord, Signature, Stack, TargetSignature, TrialRecord, Unavailable,
};
use std::collections::BTreeMap;

/// Two stacks x two numbers of workers, three repeats. The kernel serves 1,000/s a worker, the other twice that;
/// the host's speed differs from block to block.
fn scaling() -> RunRecord {
    let stage = StageSample {
        name: "requests",
        factors: vec![
            ("workers", vec!["1", "2"]),
            ("stack", vec!["kernel", "bypass"]),
        ],
        baseline: vec![("stack", "kernel")],
        repeats: 3,
    };
    sample_run(&[stage], |levels, block| {
        let workers: f64 = levels["workers"].parse().unwrap();
        let faster = if levels["stack"] == "kernel" {
            1.0
        } else {
            2.0
        };
        let speed = [1.0, 0.8, 1.1][block as usize];
        Figures {
            answers: (1_000.0 * workers * faster * speed * 10.0) as u64,
            service: Nanos::from_millis(5),
            server: 0.99,
            generator: 0.3,
        }
    })
}

fn spec(rows: &[&str], columns: &[&str], figures: &[&str]) -> TableSpec {
    let texts = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect();
    TableSpec {
        title: "Table".into(),
        rows: texts(rows),
        columns: texts(columns),
        figures: figures.iter().map(|f| f.parse().unwrap()).collect(),
        ..TableSpec::default()
    }
}

fn with_tables(mut record: RunRecord, specs: &[TableSpec]) -> RunRecord {
    record.plan["tables"] = serde_json::to_value(specs).unwrap();
    record
}

fn table_of(record: RunRecord, spec: &TableSpec) -> Table {
    let analysis: RunAnalysis = analyse(&with_tables(record, std::slice::from_ref(spec))).unwrap();
    assert_eq!(analysis.tables.len(), 1, "{:?}", analysis.tables);
    analysis.tables.into_iter().next().unwrap()
}

fn values(row: &TableRow) -> Vec<Option<f64>> {
    row.values.iter().map(|v| v.value).collect()
}

fn texts<'a>(all: impl IntoIterator<Item = &'a String>) -> Vec<&'a str> {
    all.into_iter().map(String::as_str).collect()
}

#[test]
fn rows_by_columns_with_gains_against_the_baseline() {
    let table = table_of(scaling(), &spec(&["workers"], &["stack"], &["rate_per_s"]));
    assert_eq!(texts(&table.names), ["workers"]);
    assert_eq!(
        texts(table.columns.iter().map(|c| &c.head)),
        ["kernel", "bypass"]
    );
    assert_eq!(texts(&table.rows[1].names), ["2"]);
    assert_eq!(values(&table.rows[0]), [Some(1_000.0), Some(2_000.0)]);
    assert_eq!(values(&table.rows[1]), [Some(2_000.0), Some(4_000.0)]);
    let [kernel, bypass] = &table.rows[1].values[..] else {
        panic!("two columns");
    };
    assert_eq!(kernel.gain, None);
    let gain = bypass.gain.unwrap();
    assert_eq!(
        (gain.change, gain.low, gain.high, gain.pairs),
        (1.0, Some(1.0), Some(1.0), 3)
    );
    assert_eq!(bypass.trials.len(), 3);
    assert!(
        table.notes[0]
            .starts_with("gain: against the baseline with its 95 % interval, over 3 pairs")
    );
}

/// Two stacks in five blocks of different speed, one twice as fast; in blocks that `limited` names the generator was
/// the limit of a stack.
fn five_blocks(limited: fn(&str, u32) -> bool) -> Table {
    let stage = StageSample {
        name: "requests",
        factors: vec![("stack", vec!["kernel", "bypass"])],
        baseline: vec![("stack", "kernel")],
        repeats: 5,
    };
    let record = sample_run(&[stage], |levels, block| {
        let faster = if levels["stack"] == "kernel" { 1 } else { 2 };
        Figures {
            answers: u64::from(block + 1) * 10_000 * faster,
            service: Nanos::from_millis(u64::from(10 - block) / faster),
            server: 0.99,
            generator: 0.3,
        }
        .limited(limited(&levels["stack"], block))
    });
    let figures = ["rate_per_s", "response_ns_mean"];
    table_of(record, &spec(&[], &["stack"], &figures))
}

/// Once `20,968 -> 38,572 (+97 %)`: the one pair of five that was left, without an interval.
#[test]
fn one_pair_of_five_gives_a_reason_and_no_gain() {
    let table = five_blocks(|stack, block| match stack {
        "kernel" => block < 2,
        _ => block == 2 || block == 3,
    });
    for row in &table.rows {
        let bypass = &row.values[1];
        assert!(bypass.value.is_some(), "three of five are valid: {row:?}");
        assert_eq!(bypass.gain, None, "{row:?}");
        assert_eq!(bypass.no_gain.as_deref(), Some("1 of 5 pairs valid"));
    }
    assert!(table.rows.len() > 1);
}

#[test]
fn a_gain_that_its_values_do_not_show_is_over_other_pairs() {
    let all = five_blocks(|_, _| false);
    let gain = all.rows[0].values[1].gain.unwrap();
    assert!((gain.change - 1.0).abs() < 1e-9 && gain.follows, "{gain:?}");
    assert_eq!(gain.pairs, 5);
    // The fast blocks of one side are missing: its median is of slower ones.
    let some = five_blocks(|stack, block| stack == "bypass" && block > 2);
    let (base, value) = (&some.rows[0].values[0], &some.rows[0].values[1]);
    assert_eq!((base.value, value.value), (Some(3_000.0), Some(4_000.0)));
    let gain = value.gain.unwrap();
    assert!(
        (gain.change - 1.0).abs() < 1e-9 && !gain.follows,
        "{gain:?}"
    );
    assert_eq!(gain.pairs, 3);
    let silent = five_blocks(|stack, block| stack == "bypass" && block > 1);
    let value = &silent.rows[0].values[1];
    assert_eq!((value.value, value.gain), (None, None));
    assert_eq!(value.no_gain.as_deref(), Some("not measured"));
    assert!(
        silent
            .notes
            .iter()
            .any(|n| n.starts_with("1 of 2 cells are not measured"))
    );
}

#[test]
fn min_mean_and_max_over_repeats() {
    let figures = ["rate_per_s.min", "rate_per_s.mean", "rate_per_s.max"];
    let mut wanted = spec(&["workers"], &[], &figures);
    wanted.only = vec![Only {
        factor: "stack".into(),
        levels: vec!["kernel".into()],
    }];
    let table = table_of(scaling(), &wanted);
    assert_eq!(
        texts(table.columns.iter().map(|c| &c.head)),
        ["min rate/s", "mean rate/s", "max rate/s"]
    );
    let mean = (1_000.0 + 800.0 + 1_100.0) / 3.0;
    let found = values(&table.rows[0]);
    assert_eq!((found[0], found[2]), (Some(800.0), Some(1_100.0)));
    assert!((found[1].unwrap() - mean).abs() < 1e-9);
}

#[test]
fn without_rows_the_figures_stand_below_each_other() {
    let mut wanted = spec(&[], &["stack"], &["rate_per_s", "response_ns_p50"]);
    wanted.only = vec![Only {
        factor: "workers".into(),
        levels: vec!["2".into()],
    }];
    let table = table_of(scaling(), &wanted);
    let names: Vec<&str> = table.rows.iter().map(|r| r.names[0].as_str()).collect();
    assert_eq!(names, ["rate/s", "p50"]);
    let p50 = &table.rows[1].values[1];
    assert_eq!(p50.unit, "ns");
    assert!((p50.value.unwrap() - 5e6).abs() < 5e3);
    assert_eq!(p50.gain.unwrap().change, 0.0);
}

/// A factor that nobody names must not let two cells fall together.
#[test]
fn a_factor_that_is_not_named_makes_rows_of_its_own() {
    let table = table_of(scaling(), &spec(&["workers"], &[], &["rate_per_s"]));
    assert_eq!(texts(&table.names), ["workers", "stack"]);
    assert_eq!(table.rows.len(), 4);
    assert_eq!(texts(&table.rows[3].names), ["2", "bypass"]);
}

/// One cell with an examined trial; `change` may add what the test is about.
fn examined(change: impl Fn(&mut TrialRecord)) -> RunRecord {
    let stage = StageSample {
        name: "main",
        factors: vec![("buffers", vec!["8 4k", "4 128k"])],
        baseline: vec![("buffers", "8 4k")],
        repeats: 1,
    };
    let mut record = sample_run(&[stage], |_, _| Figures {
        answers: 10_000,
        service: Nanos::from_millis(10),
        server: 0.99,
        generator: 0.3,
    });
    record.trials.iter_mut().for_each(change);
    record
}

fn stats(call: &str, class: FdClass, calls: u64, size: u64) -> CallStats {
    CallStats {
        call: call.into(),
        class,
        calls,
        bytes: calls * size,
        full: calls,
        top_sizes: vec![(size, calls)],
        ..CallStats::default()
    }
}

/// 100 requests counted. With small buffers 20 reads of 4,096 bytes each, else one of 89,172.
fn signed(trial: &mut TrialRecord) {
    let small = trial.levels["buffers"] == "8 4k";
    let (reads, size) = if small { (20, 4_096) } else { (1, 89_172) };
    let frame = |symbol: &str, kernel| Frame {
        symbol: symbol.into(),
        module: if kernel { "kernel" } else { "nginx" }.into(),
        kernel,
    };
    let stack = |frames: &[u32], weight| Stack {
        target: "web".into(),
        pid: 7,
        thread: "nginx".into(),
        frames: frames.to_vec(),
        weight,
        state: None,
    };
    trial.examination = Some(Examination {
        signature: Some(Signature {
            requests: 100,
            targets: vec![TargetSignature {
                target: "web".into(),
                calls: Some(vec![
                    stats("readv", FdClass::Upstream, reads * 100, size),
                    stats("recvfrom", FdClass::Client, 100, 67),
                    stats("recvfrom", FdClass::Upstream, 100, 4_096),
                    stats("brk", FdClass::None, 1, 0),
                ]),
                allocator: Some(AllocatorStats {
                    allocator: "glibc".into(),
                    library: "libc.so.6".into(),
                    calls: BTreeMap::from([
                        ("malloc".into(), 300),
                        ("realloc".into(), 100),
                        ("free".into(), 350),
                    ]),
                }),
                ..TargetSignature::default()
            }],
            ..Signature::default()
        }),
        profiles: vec![Profile {
            kind: ProfileKind::OnCpu,
            hz: 199,
            samples: 100,
            lost: 0,
            unwound: 100,
            frames: vec![
                frame("ngx_readv_chain", false),
                frame("do_syscall_64", true),
                frame("do_readv", true),
                frame("tcp_recvmsg", true),
                frame("__x64_sys_recvfrom", true),
                frame("exit_to_user_mode_loop", true),
            ],
            stacks: vec![
                stack(&[0, 1, 2, 3], 25),
                stack(&[0, 1, 4, 3], 10),
                stack(&[0, 1, 5], 5),
                stack(&[0], 60),
            ],
        }],
        ..Examination::default()
    });
}

#[test]
fn calls_by_number_size_and_time() {
    let mut wanted = spec(&[], &["buffers"], &[]);
    wanted.kind = plan::TableKind::Calls;
    let table = table_of(examined(signed), &wanted);
    let heads = [
        "calls/req 8 4k",
        "calls/req 4 128k",
        "mean size 8 4k",
        "mean size 4 128k",
        "CPU/req 8 4k",
        "CPU/req 4 128k",
    ];
    assert_eq!(texts(table.columns.iter().map(|c| &c.head)), heads);
    assert_eq!(texts(&table.rows[0].names), ["readv", "upstream"]);
    assert_eq!(
        values(&table.rows[0])[..4],
        [Some(20.0), Some(1.0), Some(4_096.0), Some(89_172.0)]
    );
    // The worker ran for 0.99 s a second and answered 1,000: 990 us for each, a quarter of it in readv.
    let us = table.rows[0].values[4].value.unwrap();
    assert!((us - 247.5).abs() < 1e-6);
    assert!((table.rows[1].values[5].value.unwrap() - 99.0).abs() < 1e-6);
    assert_eq!(texts(&table.rows[1].names), ["recvfrom", "client+upstream"]);
    assert_eq!(
        values(&table.rows[1])[..3],
        [Some(2.0), Some(2.0), Some((67.0 + 4_096.0) / 2.0)]
    );
    assert_eq!(
        table.rows.len(),
        2,
        "a call in a hundred requests is left out"
    );
}

#[test]
fn sizes_as_they_were_counted() {
    let mut wanted = spec(&[], &["buffers"], &[]);
    wanted.kind = plan::TableKind::Sizes;
    let table = table_of(examined(signed), &wanted);
    let rows: Vec<(String, Vec<Option<f64>>)> = table
        .rows
        .iter()
        .map(|r| (r.names.join(" "), values(r)))
        .collect();
    assert_eq!(
        rows,
        [
            (
                "readv upstream 89,172".to_owned(),
                vec![Some(0.0), Some(1.0)]
            ),
            (
                "readv upstream 4,096".to_owned(),
                vec![Some(20.0), Some(0.0)]
            ),
            ("recvfrom client 67".to_owned(), vec![Some(1.0), Some(1.0)]),
            (
                "recvfrom upstream 4,096".to_owned(),
                vec![Some(1.0), Some(1.0)]
            ),
        ]
    );
}

#[test]
fn counts_come_from_a_trial_that_is_not_valid_and_times_do_not() {
    let saturated = |trial: &mut TrialRecord| {
        signed(trial);
        let threads = &mut trial.outcome.as_mut().unwrap().generator.threads;
        threads[0].cpu_system_ns = 10_000_000_000;
        trial.series = thread("web", 7, 7, 0.4, 0.0);
    };
    let figures = ["allocations_per_request", "frees_per_request", "rate_per_s"];
    let table = table_of(examined(saturated), &spec(&[], &["buffers"], &figures));
    let found: Vec<Option<f64>> = table.rows.iter().map(|r| r.values[0].value).collect();
    assert_eq!(found, [Some(4.0), Some(3.5), None]);
    let note = table.notes.iter().find(|n| n.contains("are not measured"));
    assert!(
        note.is_some_and(|n| n.contains("2 of 2 cells")),
        "{:?}",
        table.notes
    );
}

#[test]
fn what_could_not_be_measured_is_said_with_its_reason() {
    let without = |trial: &mut TrialRecord| {
        trial.unavailable = vec![Unavailable {
            what: "tlb.loads".into(),
            reason: "this machine has no such counter".into(),
            remedy: String::new(),
        }];
    };
    let figures = [
        "dtlb_loads_per_request",
        "dtlb_misses_per_request",
        "connections_per_s",
    ];
    let table = table_of(examined(without), &spec(&[], &["buffers"], &figures));
    assert_eq!(
        table.notes,
        [
            "dTLB loads/req, dTLB misses/req: not measured: this machine has no such counter",
            "connections/s: the connections carry no fixed number of requests"
        ]
    );
    assert!(
        table
            .rows
            .iter()
            .flat_map(|r| &r.values)
            .all(|v| v.value.is_none())
    );
}

/// Core 0 at 60 % system and 30 % softirq, for 1,000 requests of 12,500 bytes a second: 0.1 Gbit/s.
#[test]
fn what_the_server_s_cores_did() {
    let busy = |trial: &mut TrialRecord| {
        trial.series.extend(core(0, 0.6, 0.3, 0.0));
        trial.series.extend(core(1, 0.2, 0.0, 0.0));
        trial.load.requests_per_connection = Some(2);
        let outcome = trial.outcome.as_mut().unwrap();
        outcome.received_bytes = 125_000_000;
        outcome.intervals = [900, 1_100]
            .iter()
            .zip(2..)
            .map(|(n, second)| Interval {
                from: Nanos::from_secs(second),
                to: Nanos::from_secs(second + 1),
                succeeded: *n,
                ..Interval::default()
            })
            .collect();
    };
    for (figure, wanted) in [
        ("server_system_share", 0.6),
        ("server_softirq_share", 0.3),
        ("server_idle_share", 0.1),
        ("server_system_us_per_request", 600.0),
        ("received_bits_per_s", 1e8),
        ("server_cores_per_gbit_per_s", 9.0),
        ("connections_per_s", 500.0),
        ("server_cpu_us_per_connection", 1_800.0),
        ("peak_rate_per_s", 1_100.0),
        ("generator_user_share", 0.15),
        ("server_cpu_us_per_request", 990.0),
    ] {
        let table = table_of(examined(busy), &spec(&[], &["buffers"], &[figure]));
        let found = table.rows[0].values[0].value.unwrap();
        assert!((found / wanted - 1.0).abs() < 1e-6, "{figure}: {found}");
    }
    let mut wanted = spec(&["buffers"], &[], &[]);
    wanted.kind = plan::TableKind::Cores;
    let table = table_of(examined(busy), &wanted);
    assert_eq!(texts(&table.names), ["buffers", "core"]);
    assert_eq!(texts(&table.rows[1].names), ["8 4k", "1"]);
    let softirq = table.rows[0].values[2].value.unwrap();
    assert!((softirq - 0.3).abs() < 1e-9);
}

#[test]
fn shares_of_workers_by_what_the_server_counts_else_by_cpu_time() {
    let counted = |trial: &mut TrialRecord| {
        let all = [("1", 100), ("2", 500), ("3", 200)];
        trial.targets[0].requests_by_worker = all.map(|(worker, n)| (worker.to_owned(), n)).into();
    };
    let mut wanted = spec(&["buffers"], &[], &[]);
    wanted.kind = plan::TableKind::Workers;
    let table = table_of(examined(counted), &wanted);
    let heads = ["fair", "worker 1", "worker 2", "worker 3"];
    assert_eq!(texts(table.columns.iter().map(|c| &c.head)), heads);
    let third = 1.0 / 3.0;
    assert_eq!(
        values(&table.rows[0]),
        [Some(third), Some(0.625), Some(0.25), Some(0.125)]
    );
    assert!(table.notes[0].contains("counted"));
    let busiest = spec(&["buffers"], &[], &["worker_imbalance"]);
    let table = table_of(examined(counted), &busiest);
    assert_eq!(values(&table.rows[0]), [Some(0.625 * 3.0)]);

    let by_time = |trial: &mut TrialRecord| {
        let mut other = trial.targets[0].processes[0].clone();
        other.pid = 8;
        trial.targets[0].processes.push(other);
        trial.series = thread("web", 7, 7, 0.25, 0.0);
        trial.series.extend(thread("web", 8, 8, 0.75, 0.0));
    };
    let table = table_of(examined(by_time), &wanted);
    assert_eq!(values(&table.rows[0]), [Some(0.5), Some(0.75), Some(0.25)]);
    assert!(table.notes[0].contains("CPU time"));
}

#[test]
fn shares_differ_by_points_and_other_figures_by_ratio() {
    let gain = |pairs: &[(f64, f64)], is_share| gain(pairs, is_share, Family::ONE);
    let half_more = gain(&[(30.0, 20.0), (33.0, 22.0), (27.0, 18.0)], false).unwrap();
    assert!((half_more.change - 0.5).abs() < 1e-12);
    let points = gain(&[(0.13, 0.0), (0.15, 0.0), (0.14, 0.0)], true).unwrap();
    assert!((points.change - 0.14).abs() < 1e-12);
    assert!(points.low.unwrap() > 0.1 && points.high.unwrap() < 0.18);
    assert_eq!(gain(&[(1.0, 0.0); 3], false), None);
    // Two pairs span no interval.
    assert_eq!(gain(&[(3.0, 2.0); 2], false), None);
    assert_eq!(gain(&[], true), None);
}
