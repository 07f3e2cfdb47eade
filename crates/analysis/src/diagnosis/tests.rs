//! The catalogue against the extractors, and the logic against synthetic facts.

use super::catalogue::{Condition, FactOf};
use super::expression::{Expression, Template};
use super::fact::matches_pattern;
use super::rules::{Outcome, Scene, Truth, condition, judge};
use super::*;
use crate::samples::{core, nginx, outcome, spec, thread};
use record::{
    CallStats, Examination, FdClass, Frame, Profile, ProfileKind, Series, Server, Signature, Stack,
    TargetSignature, TrialState,
};
use std::collections::{BTreeMap, BTreeSet};

/// A complete trial of one nginx worker at `busy` of core 0.
fn trial(busy: f64) -> TrialRecord {
    let mut series = thread("web", 7, 7, busy, 0.0);
    series.extend(core(0, busy, 0.0, 0.0));
    series.extend(core(1, 0.3, 0.0, 0.0));
    TrialRecord {
        id: 0,
        stage: "load".into(),
        block: 0,
        levels: BTreeMap::new(),
        load: spec(),
        state: TrialState::Complete,
        outcome: Some(outcome()),
        reported: None,
        targets: vec![nginx()],
        unavailable: vec![],
        warnings: vec![],
        series,
        hosts: Vec::new(),
        examination: None,
        files: BTreeMap::new(),
    }
}

fn call(name: &str, class: FdClass, calls: u64, size: u64) -> CallStats {
    CallStats {
        call: name.into(),
        class,
        calls,
        bytes: calls * size,
        asked_bytes: calls * size,
        full: calls,
        time_ns: Some(calls * 2_000),
        top_sizes: vec![(size, calls)],
        ..CallStats::default()
    }
}

/// A signature of 1,000 requests with these calls.
fn with_calls(mut trial: TrialRecord, calls: Vec<CallStats>) -> TrialRecord {
    let target = TargetSignature {
        target: "web".into(),
        calls: Some(calls),
        ..TargetSignature::default()
    };
    trial.examination = Some(Examination {
        servers: vec![Server {
            target: "web".into(),
            kind: "nginx".into(),
            ..Server::default()
        }],
        signature: Some(Signature {
            tier: record::Tier::Ebpf,
            requests: 1_000,
            window_ns: 1_000_000_000,
            targets: vec![target],
            ..Signature::default()
        }),
        ..Examination::default()
    });
    trial
}

fn expressions(cause: &Cause) -> Vec<String> {
    let conditions = cause.conditions();
    let compared = conditions.iter().flat_map(|c| [&c.fact, &c.ratio_to]);
    let mut texts: Vec<String> = compared.flatten().cloned().collect();
    texts.extend(cause.gain.clone());
    texts.extend(cause.peer_gain.clone());
    texts.push(cause.proof.mechanism.clone());
    texts.extend(cause.proof.control.clone());
    texts
}

fn templates(cause: &Cause) -> Vec<&str> {
    let changes = cause.change.iter().map(|c| c.to.as_str());
    let remedies = cause.remedy.values().map(String::as_str);
    remedies
        .chain(changes)
        .chain([cause.why.as_str()])
        .collect()
}

#[test]
fn every_fact_that_a_cause_names_is_declared() {
    let catalogue = catalogue();
    for cause in &catalogue.causes {
        let mut names: Vec<String> = Vec::new();
        for text in expressions(cause) {
            let parsed = Expression::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", cause.name));
            names.extend(parsed.facts().into_iter().map(str::to_owned));
        }
        for text in templates(cause) {
            let parsed = Template::parse(text).unwrap_or_else(|e| panic!("{}: {e}", cause.name));
            names.extend(parsed.facts().into_iter().map(str::to_owned));
        }
        for name in names {
            assert!(catalogue.fact(&name).is_some(), "{}: `{name}`", cause.name);
        }
    }
}

#[test]
fn every_cause_is_well_formed() {
    let catalogue = catalogue();
    let mut names = BTreeSet::new();
    let stations = [
        "generator",
        "worker",
        "core",
        "upstream",
        "blocked",
        "listen_queue",
        "client_path",
        "limit",
        "none",
        "unknown",
    ];
    for cause in &catalogue.causes {
        let name = &cause.name;
        assert!(names.insert(name), "{name} is there twice");
        assert!(
            cause.remedy.contains_key("generic"),
            "{name}: no generic remedy"
        );
        assert!(
            (0.0..=1.0).contains(&cause.confidence),
            "{name}: confidence"
        );
        for station in &cause.station {
            assert!(
                stations.contains(&station.as_str()),
                "{name}: station {station}"
            );
        }
        for beaten in &cause.beats {
            let known = beaten == "none" || catalogue.cause(beaten).is_some();
            assert!(known, "{name} beats `{beaten}`, which is no cause");
        }
        let measured = |c: &&Condition| c.fact.is_some();
        let conditions = cause.conditions();
        assert!(conditions.iter().any(measured), "{name}: nothing measured");
        for c in &conditions {
            let kinds = [
                c.fact.is_some(),
                c.any.is_some(),
                c.all.is_some(),
                c.not.is_some(),
                c.server.is_some(),
                c.config.is_some(),
                c.station.is_some(),
            ];
            assert_eq!(kinds.iter().filter(|k| **k).count(), 1, "{name}: {c:?}");
            let bounds = [c.at_least, c.at_most, c.above, c.below];
            let compared = bounds.iter().any(Option::is_some) || c.between.is_some();
            assert_eq!(compared, c.fact.is_some(), "{name}: {c:?}");
        }
        // Configured is not active: what was only configured never makes a cause.
        let config = cause.required.iter().any(|c| c.config.is_some());
        assert!(!config, "{name}: a configuration is required");
    }
}

/// A control that follows the load, or the waits, moves with every change that works: a request limit that was lifted
/// (rate x116) was not proved because the calls per request fell.
#[test]
fn every_control_is_left_alone_by_its_causes_mechanism() {
    let follows_the_load = [
        "call.",
        "cpu.",
        "poll.",
        "futex.",
        "blocked.",
        "worker.",
        "accept.",
        "client.single_client_",
        "client.p50",
        "client.p99",
        "client.rate",
    ];
    for cause in &catalogue().causes {
        let (name, proof) = (&cause.name, &cause.proof);
        let Some(control) = &proof.control else {
            let why = proof.no_control.as_deref().unwrap_or_default();
            assert!(why.len() > 20, "{name}: no control and no reason");
            continue;
        };
        assert_eq!(proof.no_control, None, "{name}: both a control and none");
        assert_ne!(*control, proof.mechanism, "{name}");
        let moves = follows_the_load.iter().any(|p| control.starts_with(p));
        assert!(!moves, "{name}: {control} moves with the load");
    }
}

#[test]
fn every_metric_of_a_proof_fits_what_its_cause_explains() {
    use crate::Metric::{CpuPerRequest, P50, P99, Rate};
    for cause in &catalogue().causes {
        let name = &cause.name;
        let usual = crate::diagnosed::usual_metric(cause.explains).map(|(metric, _)| metric);
        if let Some(metric) = cause.proof.metric {
            let fitting: &[crate::Metric] = match cause.explains {
                Explains::Cpu => &[CpuPerRequest, Rate],
                // Closed loops spend in the rate what they wait on average (Little's law).
                Explains::Wait | Explains::Quantum => &[P50, P99, Rate],
                Explains::Cap | Explains::Errors => &[Rate],
                Explains::Nothing => &[],
            };
            assert!(fitting.contains(&metric), "{name}: {}", metric.name());
            assert_ne!(Some(metric), usual, "{name} names the usual one");
        }
        // Where the mechanism is that more cores work, they are needed, and CPU per request does not tell.
        if cause.proof.mechanism == "cpu.cores_used" && cause.explains == Explains::Cpu {
            assert!(cause.proof.cores, "{name}: cores to run on");
        }
        if cause.proof.cores {
            assert_eq!(cause.proof.metric, Some(Rate), "{name}");
        }
    }
}

/// Facts that only other tools' output tells: two vmstat and two strace.
fn pasted() -> FactSet {
    let vmstat = " r  b   swpd   in   cs us sy id wa st\n 1 0 0 9 9 1 1 98 0 0\n 5 0 0 900 9 16 82 2 0 0\n\n";
    let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
        50.00    1.0    1    1000    readv\n 50.00    1.0    1    1000    writev\n 50.00    1.0    1    1000    write\n\
        100.00    1.0    3000    total\n";
    let text = format!("{vmstat}{vmstat}{strace}{strace}");
    crate::pasted_facts(&import::read_pasted(&[("paste".into(), text)]))
}

#[test]
fn every_declared_fact_has_an_extractor_and_the_other_way_round() {
    let empty = facts_of(&trial(0.5), &[], 0.01);
    let full = with_calls(
        trial(0.5),
        vec![call("readv", FdClass::Upstream, 10, 4_096)],
    );
    let produced: BTreeSet<String> = empty
        .produced()
        .into_iter()
        .chain(facts_of(&full, &[], 0.01).produced())
        .chain(pasted().produced())
        .collect();
    let declared = catalogue().facts();
    for fact in declared {
        let found = produced
            .iter()
            .any(|p| matches_pattern(&fact.name, p) || matches_pattern(p, &fact.name));
        assert!(found, "`{}` is declared and nothing produces it", fact.name);
    }
    for name in produced {
        let found = declared
            .iter()
            .any(|f| matches_pattern(&f.name, &name) || matches_pattern(&name, &f.name));
        assert!(found, "`{name}` is produced and not declared");
    }
}

/// Names in the code that reads facts, `{...}` as `*`: all of `station` and `rank`, and what extractors look up.
fn read_by_code() -> BTreeSet<String> {
    let sources = [
        (include_str!("station.rs"), "\""),
        (include_str!("rank.rs"), "\""),
        (include_str!("facts/service.rs"), "value(\""),
        (include_str!("facts/upstream.rs"), "value(\""),
        (include_str!("facts/client.rs"), "value(\""),
        (include_str!("facts/cpu.rs"), "value(\""),
    ];
    let mut names = BTreeSet::new();
    for (text, opens) in sources {
        for after in text.split(opens).skip(1) {
            let name = after.split('"').next().unwrap_or_default();
            let mut pattern = String::new();
            for part in name.split('{') {
                let rest = part.split_once('}').map_or(part, |(_, rest)| rest);
                pattern += if pattern.is_empty() && !name.starts_with('{') {
                    ""
                } else {
                    "*"
                };
                pattern += rest;
            }
            names.insert(pattern);
        }
    }
    names
}

/// Facts that no cause and no code reads.
fn unread(catalogue: &Catalogue) -> Vec<String> {
    let mut read = read_by_code();
    for cause in &catalogue.causes {
        let expressions = expressions(cause);
        let parsed = expressions
            .iter()
            .map(|text| Expression::parse(text).unwrap());
        read.extend(
            parsed.flat_map(|e| e.facts().into_iter().map(str::to_owned).collect::<Vec<_>>()),
        );
        let parsed = templates(cause)
            .into_iter()
            .map(|text| Template::parse(text).unwrap());
        read.extend(
            parsed.flat_map(|t| t.facts().into_iter().map(str::to_owned).collect::<Vec<_>>()),
        );
    }
    let is_read = |name: &str| {
        let mut read = read.iter();
        read.any(|r| matches_pattern(name, r) || matches_pattern(r, name))
    };
    let names = catalogue.facts().iter().map(|f| f.name.clone());
    names.filter(|name| !is_read(name)).collect()
}

#[test]
fn every_declared_fact_is_read() {
    assert_eq!(unread(catalogue()), Vec::<String>::new());
    // The canary: what is used by nothing is found, what the station reads is not.
    let facts = r#"
        [target.proc]
        "worker.busiest" = ["1", "read by the station"]
        "worker.shoe_size" = ["1", "read by nobody"]
        [target.profile]
        "profile.gc_share" = ["1", "read as one of a kind"]
    "#;
    let other = Catalogue::parse(facts, &[]).unwrap();
    assert_eq!(unread(&other), ["worker.shoe_size"]);
    for wrong in [
        "[target.proc]\n\"a\" = [\"1\"]",
        "[target.guess]\n\"a\" = [\"1\", \"\"]",
        "[\"a\"]\nunit = \"1\"",
    ] {
        assert!(Catalogue::parse(wrong, &[]).is_err(), "{wrong}");
    }
}

#[test]
fn every_signal_that_is_asked_for_is_in_the_table_of_signals() {
    let architecture = include_str!("../../../../ARCHITECTURE.md");
    let (_, section) = architecture.split_once("## Signals").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split('|').next());
    let known: BTreeSet<&str> = cells
        .flat_map(str::split_whitespace)
        .map(|name| name.trim_matches('`'))
        .collect();
    crate::observed::asked::take();
    facts_of(&trial(0.5), &[], 0.01);
    let asked = crate::observed::asked::take();
    // One of each extractor: they were all run, and as far as their series.
    for signal in [
        "thread.run_s",
        "vm.compact_stalls",
        "cgroup.quota_cores",
        "socket.rtt_s",
        "listen.queue",
        "jvm.gc_s",
        "process.minor_faults",
    ] {
        assert!(asked.contains(signal), "{signal}: {asked:?}");
    }
    for signal in asked {
        assert!(known.contains(signal.as_str()), "`{signal}` is not in it");
    }
}

#[test]
fn facts_of_the_run_and_of_targets_are_where_they_are_declared() {
    let facts = facts_of(&trial(0.5), &[], 0.01);
    for value in facts.values(catalogue()) {
        let declared = catalogue().fact(&value.name).map(|f| f.of);
        let expected = if value.target.is_empty() {
            FactOf::Run
        } else {
            FactOf::Target
        };
        assert_eq!(declared, Some(expected), "{}", value.name);
    }
}

#[test]
fn without_a_signature_no_count_is_zero() {
    let facts = facts_of(&trial(0.5), &[], 0.01);
    for name in [
        "read.upstream.useful_per_request",
        "call.file.openat.per_request",
        "log_write.per_request",
        "blocked.lock_share",
        "upstream.connects_per_request",
        "socket.client.retransmits_per_request",
        "profile.gc_share",
        "alloc.per_request",
    ] {
        let reading = facts.view("web").reading(name);
        assert!(
            matches!(reading, Reading::Unknown(_)),
            "{name}: {reading:?}"
        );
    }
}

#[test]
fn with_a_signature_what_was_not_seen_is_zero() {
    let record = with_calls(
        trial(0.5),
        vec![call("readv", FdClass::Upstream, 10_000, 4_096)],
    );
    let facts = facts_of(&record, &[], 0.01);
    let view = facts.view("web");
    for (name, expected) in [
        ("read.upstream.useful_per_request", Some(10.0)),
        ("read.upstream.mean_bytes", Some(4_096.0)),
        ("read.upstream.full_share", Some(1.0)),
        ("read.client.useful_per_request", Some(0.0)),
        ("read.client.mean_bytes", None),
        ("call.upstream.readv.per_request", Some(10.0)),
        ("call.any.readv.per_request", Some(10.0)),
        ("call.file.fsync.per_request", Some(0.0)),
        ("call.upstream.readv.errors.EAGAIN_per_request", Some(0.0)),
        ("sync.per_request", Some(0.0)),
        ("log_write.per_request", None),
    ] {
        assert_eq!(view.value(name), expected, "{name}");
    }
    let never = view.reading("read.client.mean_bytes");
    assert!(matches!(never, Reading::NotApplicable(_)), "{never:?}");
}

#[test]
fn what_is_written_at_a_position_is_no_log() {
    let file = |name: &str, append, opens, writes| record::FileStats {
        name: name.into(),
        append,
        opens,
        writes,
        written_bytes: writes * 100,
        ..record::FileStats::default()
    };
    for (files, positioned, expected) in [
        (vec![file("access.log", true, 0, 1_000)], 0, 1.0),
        (vec![file("log-of-an-old-hand", false, 0, 3_000)], 0, 3.0),
        (vec![file("store.db", false, 0, 3_000)], 3_000, 0.0),
        // What is read as often as it is written.
        (
            vec![record::FileStats {
                reads: 3_000,
                ..file("page-made-anew.php", false, 0, 3_000)
            }],
            0,
            0.0,
        ),
        (
            vec![
                file("access.log", true, 0, 1_000),
                file("store.db", false, 0, 3_000),
            ],
            3_000,
            1.0,
        ),
        // A file for each request, by a name of its own.
        (
            (0..500)
                .map(|n| file(&format!("{n:010}"), false, 1, 2))
                .collect(),
            1_000,
            0.0,
        ),
        // The same where nobody saw them opened.
        (
            (0..500)
                .map(|n| file(&format!("{n:010}"), false, 0, 1))
                .collect(),
            0,
            0.0,
        ),
        // The positions are those of a file that requests open.
        (
            vec![
                file("log-of-an-old-hand", false, 0, 1_000),
                file("body.tmp", false, 1_000, 2_000),
            ],
            2_000,
            1.0,
        ),
    ] {
        let calls = vec![call("pwrite64", FdClass::File, positioned, 100)];
        let mut record = with_calls(trial(0.5), calls);
        let examination = record.examination.as_mut().unwrap();
        let signature = examination.signature.as_mut().unwrap();
        signature.targets[0].files = Some(files.clone());
        let facts = facts_of(&record, &[], 0.01);
        let view = facts.view("web");
        assert_eq!(
            view.value("log_write.per_request"),
            Some(expected),
            "{files:?}"
        );
        let bytes = view.value("log_write.bytes_per_request");
        assert_eq!(bytes, Some(expected * 100.0), "{files:?}");
    }
}

#[test]
fn calls_around_each_line_of_a_log_are_that_logs() {
    for (lines, expected) in [(8_000, 48.0), (1_000, 1.0)] {
        let calls = vec![
            call("write", FdClass::File, lines, 100),
            call("flock", FdClass::File, 2 * lines, 0),
            call("newfstatat", FdClass::None, 3 * lines, 0),
            // No call of the log's: another number, another object.
            call("openat", FdClass::None, lines * 4 / 10, 0),
            call("sendto", FdClass::Client, lines, 100),
        ];
        let mut record = with_calls(trial(0.5), calls);
        let examination = record.examination.as_mut().unwrap();
        let signature = examination.signature.as_mut().unwrap();
        signature.targets[0].files = Some(vec![record::FileStats {
            name: "debug.log".into(),
            append: true,
            writes: lines,
            written_bytes: lines * 100,
            ..record::FileStats::default()
        }]);
        let facts = facts_of(&record, &[], 0.01);
        let found = facts.view("web").value("log_write.calls_per_request");
        assert_eq!(found, Some(expected), "{lines}");
    }
}

/// Counters without BPF see how often and how much, not what was asked for and what the descriptor led to.
#[test]
fn what_counters_without_bpf_cannot_tell_is_unknown() {
    let mut record = with_calls(
        trial(0.5),
        vec![CallStats {
            asked_bytes: 0,
            full: 0,
            top_sizes: Vec::new(),
            ..call("readv", FdClass::Unknown, 10_000, 4_096)
        }],
    );
    let examination = record.examination.as_mut().unwrap();
    examination.signature.as_mut().unwrap().tier = record::Tier::PerfEvents;
    let facts = facts_of(&record, &[], 0.01);
    let view = facts.view("web");
    for (name, expected) in [
        ("read.any.useful_per_request", 10.0),
        ("read.any.mean_bytes", 4_096.0),
        ("call.any.readv.per_request", 10.0),
        ("call.any.fsync.per_request", 0.0),
        ("call.any.readv.errors.EAGAIN_per_request", 0.0),
    ] {
        assert_eq!(view.value(name), Some(expected), "{name}");
    }
    for name in [
        "read.any.full_share",
        "write.any.partial_share",
        "read.client.useful_per_request",
        "read.upstream.mean_bytes",
        "write.client.per_request",
        "call.any.readv.partial_share",
        "call.client.readv.per_request",
        "call.file.fsync.errors.EIO_per_request",
        "dns.per_request",
    ] {
        let reading = view.reading(name);
        assert!(
            matches!(reading, Reading::Unknown(_)),
            "{name}: {reading:?}"
        );
    }
}

/// A cause with one fact for each part.
fn simple() -> Cause {
    toml::from_str(
        r#"
        name = "x"
        title = "X"
        group = "io"
        why = "{a}"
        explains = "cpu"
        lookalikes = ""
        thresholds = ""
        required = [{ fact = "a", at_least = 1 }, { fact = "b", at_least = 1 }]
        supporting = [{ fact = "c", at_least = 1 }]
        contradicting = [{ fact = "d", at_least = 1 }]
        remedy = { generic = "" }
        proof = { mechanism = "a", moves = "down", control = "b" }
        "#,
    )
    .unwrap()
}

/// `None` leaves a fact unknown.
fn judged(a: Option<f64>, b: Option<f64>, c: Option<f64>, d: Option<f64>) -> Outcome {
    let mut set = FactSet::default();
    for (name, value) in [("a", a), ("b", b), ("c", c), ("d", d)] {
        if let Some(value) = value {
            set.known("", name, value, "test");
        }
    }
    let scene = Scene {
        facts: set.view(""),
        station: "worker",
    };
    judge(&simple(), scene)
}

#[test]
fn a_contradiction_always_rules_out() {
    let values = [None, Some(0.0), Some(1.0)];
    for a in values {
        for b in values {
            for c in values {
                let outcome = judged(a, b, c, Some(1.0));
                let fine = matches!(outcome, Outcome::RuledOut { .. } | Outcome::Absent);
                assert!(fine, "{a:?} {b:?} {c:?}: {outcome:?}");
            }
        }
    }
    assert!(matches!(
        judged(Some(1.0), Some(1.0), None, Some(1.0)),
        Outcome::RuledOut { .. }
    ));
}

#[test]
fn unknown_is_never_zero_and_never_enough() {
    let outcome = judged(None, Some(1.0), Some(1.0), Some(0.0));
    match outcome {
        Outcome::Unseen { signals, .. } => assert_eq!(signals, ["a"]),
        other => panic!("{other:?}"),
    }
    let confidence = |c, d| match judged(Some(1.0), Some(1.0), c, d) {
        Outcome::Holds {
            confidence, status, ..
        } => (confidence, status),
        other => panic!("{other:?}"),
    };
    let (all, status) = confidence(Some(1.0), Some(0.0));
    assert_eq!(status, Status::Supported);
    let (unsupported, status) = confidence(None, Some(0.0));
    assert_eq!(status, Status::Suspected);
    let (unchecked, _) = confidence(Some(1.0), None);
    let (against, _) = confidence(Some(0.0), Some(0.0));
    assert!(against < unsupported && unsupported < unchecked && unchecked < all);
}

#[test]
fn alternatives_in_three_values() {
    let mut set = FactSet::default();
    set.known("", "yes", 1.0, "test");
    set.known("", "no", 0.0, "test");
    set.not_applicable("", "never", "no such thing");
    let scene = Scene {
        facts: set.view(""),
        station: "worker",
    };
    let check = |text: &str, expected: Truth| {
        #[derive(serde::Deserialize)]
        struct One {
            c: Condition,
        }
        let one: One = toml::from_str(&format!("c = {text}")).unwrap();
        assert_eq!(condition(&one.c, scene).truth, expected, "{text}");
    };
    let fact = |name: &str| format!("{{ fact = \"{name}\", at_least = 0.5 }}");
    let (yes, no, gone, never) = (fact("yes"), fact("no"), fact("gone"), fact("never"));
    check(&format!("{{ any = [{yes}, {gone}] }}"), Truth::True);
    check(&format!("{{ any = [{no}, {gone}] }}"), Truth::Unknown);
    check(&format!("{{ all = [{yes}, {gone}] }}"), Truth::Unknown);
    check(&format!("{{ all = [{no}, {gone}] }}"), Truth::False);
    check(&format!("{{ not = {gone} }}"), Truth::Unknown);
    check(&never, Truth::False);
    check("{ fact = \"never\", at_most = 0.5 }", Truth::False);
    check("{ server = [\"nginx\"] }", Truth::Unknown);
    check(
        "{ config = { directive = \"gzip\", unset = true } }",
        Truth::Unknown,
    );
    check("{ station = [\"worker\"] }", Truth::True);
}

#[test]
fn the_same_record_gives_the_same_diagnosis() {
    let record = with_calls(
        trial(0.99),
        vec![call("readv", FdClass::Upstream, 10_000, 4_096)],
    );
    assert_eq!(diagnose(&record, &[], 0.01), diagnose(&record, &[], 0.01));
}

#[test]
fn nothing_but_finite_numbers_is_said() {
    let mut record = with_calls(trial(0.99), vec![call("readv", FdClass::Upstream, 0, 0)]);
    if let Some(outcome) = &mut record.outcome {
        outcome.measured_to = outcome.measured_from;
    }
    let diagnosis = diagnose(&record, &[], 0.01);
    let finite = diagnosis
        .facts
        .iter()
        .filter_map(|f| f.value)
        .all(f64::is_finite);
    assert!(finite);
    let text = serde_json::to_string(&diagnosis).unwrap();
    assert!(!text.contains("NaN"));
}

fn first(record: &TrialRecord) -> Finding {
    let diagnosis = diagnose(record, &[], 0.01);
    diagnosis.findings[0].clone()
}

/// The record with stacks of a server's own work, and with turns that were on the CPU.
fn accounted(mut trial: TrialRecord) -> TrialRecord {
    let turns = record::TurnAccount {
        tasks: None,
        turns: 1_000,
        total_ns: 1_000_000,
        places: vec![record::PlaceTime {
            helper: String::new(),
            place: record::Place::OnCpu,
            detail: String::new(),
            waker: String::new(),
            stack: None,
            told: None,
            turns: 1_000,
            total_ns: 1_000_000,
        }],
        ..record::TurnAccount::default()
    };
    if let Some(examination) = &mut trial.examination {
        let sending = ("tcp_sendmsg", "kernel", true, 100);
        examination.profiles = vec![profile(&[sending, ("ngx_writev", "nginx", false, 10)])];
        examination.turns = Some(record::Turns {
            window_ns: 1_000_000_000,
            traced_ns: 0,
            sampled_one_in: 1,
            targets: vec![record::TargetTurns {
                target: "web".into(),
                account: turns,
                ..record::TargetTurns::default()
            }],
            ..record::Turns::default()
        });
    }
    trial
}

#[test]
fn healthy_servers_are_healthy() {
    for busy in [0.02, 0.5, 0.99] {
        let calls = vec![
            call("read", FdClass::Client, 1_000, 60),
            call("writev", FdClass::Client, 1_000, 1_300),
            call("epoll_wait", FdClass::Poll, 1_000, 1),
        ];
        let mut record = with_calls(trial(busy), calls);
        if let Some(examination) = &mut record.examination {
            // Alone as long as in the load: no request waits for another.
            examination.single_client = Some(outcome());
        }
        // Without an account of the time nobody can say so.
        assert_eq!(first(&record).cause, "unknown", "{busy}");
        let record = accounted(record);
        let finding = first(&record);
        assert_eq!(finding.cause, "none", "{busy}: {finding:#?}");
        let variant = if busy > 0.9 {
            "healthy_cpu_bound"
        } else {
            "healthy_underloaded"
        };
        assert_eq!(
            finding.variant.as_deref(),
            Some(variant),
            "{busy}: {finding:#?}"
        );
    }
}

/// Nobody but its clients reads what a server answers over TLS: it may be healthy, and that is said with it.
#[test]
fn a_healthy_server_whose_statuses_are_not_read_says_so() {
    for (scheme, said) in [("https", true), ("http", false)] {
        let calls = vec![
            call("read", FdClass::Client, 1_000, 60),
            call("writev", FdClass::Client, 1_000, 1_300),
            call("epoll_wait", FdClass::Poll, 1_000, 1),
        ];
        let mut record = accounted(with_calls(trial(0.99), calls));
        record.load.url = record.load.url.replace("http:", &format!("{scheme}:"));
        let head = record::HeadSeen {
            class: FdClass::Client,
            kind: "response".to_owned(),
            version: "HTTP/1.1".to_owned(),
            what: "200".to_owned(),
            seen: 100,
            ..record::HeadSeen::default()
        };
        let signature = record
            .examination
            .as_mut()
            .and_then(|e| e.signature.as_mut());
        for target in signature.into_iter().flat_map(|s| &mut s.targets) {
            target.heads = (!said).then(|| vec![head.clone()]);
        }
        let finding = first(&without_load(record));
        assert_eq!(finding.cause, "none", "{scheme}: {finding:#?}");
        assert_eq!(finding.why.contains("was not seen"), said, "{finding:#?}");
    }
}

/// A full CPU, and a fifth of a request's time behind a lock, as in a program whose threads have one lock for all. What
/// may as well be a condition that a thread signals as soon as it has the CPU is none.
#[test]
fn a_full_server_whose_requests_wait_for_a_lock_is_not_healthy() {
    let calls = vec![
        call("read", FdClass::Client, 1_000, 60),
        call("writev", FdClass::Client, 1_000, 1_300),
        call("epoll_wait", FdClass::Poll, 1_000, 1),
    ];
    let cases = [
        ("flock", 0, "unlabelled"),
        ("futex", 0, "none"),
        ("poll", 0, "none"),
        // Where more than twice as much is the line for the CPU, the lock is a place in it.
        ("flock", 1_000_000, "none"),
    ];
    for (kind, in_line_ns, cause) in cases {
        let mut record = accounted(with_calls(trial(0.99), calls.clone()));
        let examination = record.examination.as_mut().unwrap();
        examination.single_client = Some(outcome());
        let turns = examination.turns.as_mut().unwrap();
        let account = &mut turns.targets[0].account;
        for (place, detail, total_ns) in [
            (record::Place::Blocked, kind, 250_000 + in_line_ns / 4),
            (record::Place::RunQueue, "", in_line_ns),
        ] {
            account.total_ns += total_ns;
            account.places.push(record::PlaceTime {
                helper: String::new(),
                place,
                detail: detail.into(),
                waker: "thread web".into(),
                stack: None,
                told: None,
                turns: 1_000,
                total_ns,
            });
        }
        let finding = first(&record);
        assert_eq!(finding.cause, cause, "{kind} {in_line_ns}: {finding:#?}");
        let told = finding.why.contains("whoever stands there");
        assert_eq!(told, cause == "none" && kind != "poll", "{}", finding.why);
    }
}

/// A row that is called as its kind is.
fn row(kind: &str, share: f64, own_work: bool) -> crate::Row {
    crate::Row {
        kind: kind.to_owned(),
        label: kind.to_owned(),
        share,
        own_work,
        ..crate::Row::default()
    }
}

/// A closed loop whose requests are all answered, by a generator with time off.
const GOOD_LOAD: &[(&str, f64)] = &[
    ("server.is_front", 1.0),
    ("client.rate_per_s", 1_000.0),
    ("client.errors_share", 0.0),
    ("client.unanswered_share", 0.0),
    ("client.open_loop", 0.0),
    ("client.generator_utilization", 0.1),
];

/// A full core: what of it goes into a row of a kind, and how much TCP takes to receive and send.
#[test]
fn what_a_program_of_its_kind_serves_with_does_not_stand_out() {
    let first = |kind: &str, share: f64, net: f64| {
        let full = [
            ("cpu.use_of_allowed", 0.99),
            ("worker.busiest", 0.99),
            ("core.own_mean", 0.99),
        ];
        let rows = vec![
            row(kind, share, false),
            row("net_send", net, true),
            row("poll", 1.0 - share - net, true),
        ];
        let account = crate::Account {
            basis: crate::Basis::Cpu,
            rows,
            ..crate::Account::default()
        };
        let ledger = crate::Ledger {
            cpu: [(String::new(), account.clone())].into(),
            rate: Some(account),
            ..crate::Ledger::default()
        };
        let seen = super::Seen::Measured(Some(Box::new(ledger)));
        let found = super::conclude(&set_facts(&[GOOD_LOAD, &full].concat()), None, seen, "proc");
        found.findings[0].cause.clone()
    };
    for (kind, share, net, cause) in [
        ("library", 0.3, 0.15, "none"),
        ("library", 0.3, 0.05, "unlabelled"),
        ("library", 0.45, 0.15, "unlabelled"),
        ("function", 0.3, 0.15, "none"),
        ("function", 0.3, 0.10, "unlabelled"),
        ("function", 0.4, 0.2, "unlabelled"),
        // A call is no way of serving.
        ("call", 0.3, 0.15, "unlabelled"),
        // What no request asks for is much from a tenth on; what many programs need is not.
        ("reflection", 0.13, 0.15, "unlabelled"),
        ("call_filter", 0.13, 0.15, "unlabelled"),
        ("call_filter", 0.07, 0.15, "none"),
        ("sort", 0.13, 0.15, "none"),
        // Nor is the load a place in the server.
        ("generator", 0.45, 0.15, "none"),
    ] {
        assert_eq!(first(kind, share, net), cause, "{kind} {share} {net}");
    }
}

/// A CPU that is nearly full and whose requests wait for each other: what it is busy with is in its own account alone.
#[test]
fn a_cpu_that_is_nearly_full_is_judged_by_its_own_account() {
    let first = |used: f64, in_line: f64, share: f64| {
        let set = [
            ("cpu.use_of_allowed", used),
            ("worker.busiest", 0.3),
            ("core.own_mean", used),
            ("client.achieved_of_offered", 1.0),
        ];
        let account = |basis, rows| crate::Account {
            basis,
            rows,
            ..crate::Account::default()
        };
        let works = vec![
            row("function", share, false),
            row("poll", 1.0 - share, true),
        ];
        let waits = vec![
            row("run_queue", in_line, true),
            row("net_send", 1.0 - in_line, true),
        ];
        let ledger = crate::Ledger {
            cpu: [("web".to_owned(), account(crate::Basis::CpuUsed, works))].into(),
            latency: Some(account(crate::Basis::Requests, waits)),
            ..crate::Ledger::default()
        };
        let seen = super::Seen::Measured(Some(Box::new(ledger)));
        super::conclude(&set_facts(&[GOOD_LOAD, &set].concat()), None, seen, "proc")
            .findings
            .swap_remove(0)
    };
    let told = first(0.92, 0.9, 0.6);
    assert_eq!(told.cause, "unlabelled", "{told:#?}");
    assert!(
        told.gain_bound
            .is_some_and(|share| (share - 0.6).abs() < 1e-9)
    );
    let healthy = first(0.92, 0.9, 0.1).variant;
    assert_eq!(healthy.as_deref(), Some("healthy_cpu_bound"));
    // Nor is it full, and requests stand in line for it all the same: one of many holds up the others.
    let held_up = first(0.3, 0.9, 0.6);
    assert_eq!(held_up.cause, "unlabelled");
    assert!(held_up.why.contains("90 % of"), "{}", held_up.why);
    assert_eq!(first(0.3, 0.2, 0.6).cause, "none");
}

#[test]
fn a_generator_that_is_full_is_not_the_servers_fault() {
    let mut record = trial(0.5);
    record.outcome = Some(crate::samples::with_rate(
        10_000,
        record::Nanos::from_millis(10),
        0.99,
    ));
    let diagnosis = diagnose(&record, &[], 0.01);
    assert_eq!(diagnosis.station.name, "generator");
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.cause, "unknown");
    assert!(finding.why.contains("not valid"), "{}", finding.why);
}

/// A closed loop whose requests wait for each other while no CPU is busy, for no reason that is seen.
#[test]
fn neither_busy_nor_underloaded_is_not_healthy() {
    let idle = [
        ("cpu.use_of_allowed", 0.2),
        ("worker.busiest", 0.2),
        ("worker.run_queue_wait_share", 0.0),
        ("core.own_mean", 0.2),
    ];
    let with_tail = |parallel: Option<f64>, times: f64| {
        let mut set = set_facts(&[GOOD_LOAD, &idle].concat());
        if let Some(share) = parallel {
            set.known("", "client.parallel_share", share, "test");
        }
        let account = |total: f64, kind: &str| crate::Account {
            total,
            rows: vec![row(kind, 1.0, true)],
            branches: vec![crate::Branch {
                function: "render".to_owned(),
                share: 0.6,
                ..crate::Branch::default()
            }],
            ..crate::Account::default()
        };
        let ledger = crate::Ledger {
            latency: Some(account(1_000.0, "on_cpu")),
            tail: Some(account(1_000.0 * times, "loop")),
            ..crate::Ledger::default()
        };
        let seen = super::Seen::Measured(Some(Box::new(ledger)));
        super::conclude(&set, None, seen, "proc")
            .findings
            .swap_remove(0)
    };
    let first = |parallel| with_tail(parallel, 2.0);
    assert_eq!(first(Some(0.2)).cause, "unknown");
    assert_eq!(first(None).cause, "unknown");
    let healthy = first(Some(0.9));
    assert_eq!(healthy.cause, "none");
    assert_eq!(healthy.variant.as_deref(), Some("healthy_underloaded"));
    let branch = "60 % is below render.";
    assert_eq!(healthy.why.matches(branch).count(), 1, "{}", healthy.why);
    // A long tail is said, and alleges nothing.
    let tail = "The slowest 1 % take 12 times as long as the mean: 100 % of it is loop.";
    assert!(!healthy.why.contains("slowest"), "{}", healthy.why);
    let long = with_tail(Some(0.9), 12.0);
    assert_eq!(long.cause, "none");
    assert!(long.why.contains(tail), "{}", long.why);
}

/// Functions of which none stands out, and all of which one calls, are that one's.
#[test]
fn functions_that_one_calls_are_told_together() {
    let full = [
        ("worker.busiest", 1.0),
        ("cpu.use_of_allowed", 1.0),
        ("core.own_mean", 1.0),
    ];
    let first = |below: [&str; 3]| {
        let set = set_facts(&[GOOD_LOAD, &full].concat());
        let functions = below
            .iter()
            .zip([0.22, 0.18, 0.05])
            .map(|(below, share)| crate::Row {
                below: (*below).to_owned(),
                ..row("function", share, false)
            });
        let others = [row("softirq", 0.35, true), row("net_send", 0.2, true)];
        let ledger = crate::Ledger {
            rate: Some(crate::Account {
                target: "web".to_owned(),
                basis: crate::Basis::Cpu,
                rows: functions.chain(others).collect(),
                ..crate::Account::default()
            }),
            ..crate::Ledger::default()
        };
        let seen = super::Seen::Measured(Some(Box::new(ledger)));
        super::conclude(&set, None, seen, "proc")
            .findings
            .swap_remove(0)
    };
    let told = first(["rules"; 3]);
    assert_eq!(told.cause, "unlabelled", "{told:#?}");
    assert!(told.why.contains("rules and what it calls"), "{}", told.why);
    assert!(
        told.gain_bound
            .is_some_and(|share| (share - 0.45).abs() < 1e-9)
    );
    assert_ne!(first([""; 3]).cause, "unlabelled");
}

#[test]
fn a_load_that_never_started_has_no_cause() {
    let mut record = trial(0.5);
    record.outcome = None;
    record.series.clear();
    let diagnosis = diagnose(&record, &[], 0.01);
    assert_eq!(diagnosis.station.name, "unknown");
    assert_eq!(diagnosis.findings[0].cause, "unknown");
}

fn profile(symbols: &[(&str, &str, bool, u64)]) -> Profile {
    let frames = symbols.iter().map(|(symbol, module, kernel, _)| Frame {
        symbol: (*symbol).into(),
        module: (*module).into(),
        kernel: *kernel,
    });
    let stacks = symbols.iter().enumerate().map(|(i, (.., weight))| Stack {
        target: "web".into(),
        pid: 7,
        thread: "nginx".into(),
        frames: vec![i as u32],
        weight: *weight,
        state: None,
    });
    let samples = symbols.iter().map(|(.., weight)| weight).sum();
    Profile {
        kind: ProfileKind::OnCpu,
        hz: 99,
        samples,
        lost: 0,
        unwound: samples,
        frames: frames.collect(),
        stacks: stacks.collect(),
    }
}

/// What is left when the compiler is done may be limited by something else.
#[test]
fn a_server_whose_runtime_still_compiles_is_not_called_healthy() {
    for (compiling, cause) in [(12, "none"), (60, "unknown")] {
        let calls = vec![
            call("read", FdClass::Client, 1_000, 60),
            call("writev", FdClass::Client, 1_000, 1_300),
            call("epoll_wait", FdClass::Poll, 1_000, 1),
        ];
        let mut record = accounted(with_calls(trial(0.99), calls));
        let examination = record.examination.as_mut().unwrap();
        examination.single_client = Some(outcome());
        let profile = &mut examination.profiles[0];
        profile.stacks.push(Stack {
            thread: "C2 CompilerThre".into(),
            weight: compiling,
            ..profile.stacks[1].clone()
        });
        profile.samples += compiling;
        profile.unwound += compiling;
        let finding = first(&record);
        assert_eq!(finding.cause, cause, "{compiling}: {finding:#?}");
        if cause == "unknown" {
            assert!(finding.why.contains("compiling code"), "{finding:#?}");
        }
    }
}

#[test]
fn samples_count_by_kind_of_work() {
    let mut record = with_calls(trial(0.99), vec![]);
    if let Some(examination) = &mut record.examination {
        examination.profiles = vec![profile(&[
            ("longest_match", "libz.so.1", false, 60),
            ("tcp_sendmsg", "kernel", true, 30),
            ("ngx_http_parse_request_line", "nginx", false, 10),
        ])];
    }
    let facts = facts_of(&record, &[], 0.01);
    let view = facts.view("web");
    for (name, expected) in [
        ("profile.compression_share", 0.6),
        ("profile.net_send_share", 0.3),
        ("profile.kernel_share", 0.3),
        ("profile.gc_share", 0.0),
        ("profile.top_symbol_share", 0.6),
    ] {
        assert_eq!(view.value(name), Some(expected), "{name}");
    }
}

fn set_facts(facts: &[(&str, f64)]) -> FactSet {
    let mut set = FactSet::default();
    set.targets = vec!["web".into()];
    for (name, value) in facts {
        let declared = catalogue().fact(name).map(|f| f.of);
        let target = if declared == Some(FactOf::Run) {
            ""
        } else {
            "web"
        };
        set.known(target, name, *value, "test");
    }
    set
}

#[test]
fn a_server_fills_its_cores_though_the_host_takes_some_of_them() {
    let facts = |used: f64, idle: f64| {
        let set = set_facts(&[
            ("worker.busiest", used),
            ("cpu.use_of_allowed", used),
            ("cpu.idle_allowed", idle),
            ("cpu.cores_allowed", 1.0),
            ("core.own_steal_share", 1.0 - used - idle),
            ("core.own_busiest", used),
        ]);
        super::station::find(&set, None, None).name
    };
    assert_eq!(facts(0.88, 0.04), "worker");
    assert_eq!(facts(0.88, 0.12), "none");
    assert_eq!(facts(0.6, 0.04), "none");
}

/// A core that a shared host takes away for moments stands idle in others: nobody is full by the kernel's books.
#[test]
fn requests_in_line_for_a_cpu_wait_for_the_core_though_nobody_ran_all_of_it() {
    let by = |used: f64, open_loop: Option<f64>, rows: &[(&str, f64, bool)]| {
        let facts = [
            ("worker.busiest", 0.5),
            ("cpu.use_of_allowed", 0.5),
            ("core.own_mean", used),
            ("core.own_foreign_share", 0.0),
            ("upstream.service_share", 1.0),
        ];
        let clock = open_loop.map(|open| ("client.open_loop", open));
        let facts: Vec<(&str, f64)> = facts.into_iter().chain(clock).collect();
        let set = set_facts(&facts);
        let rows = rows
            .iter()
            .map(|&(kind, share, own_work)| row(kind, share, own_work));
        let latency = crate::Account {
            rows: rows.collect(),
            ..crate::Account::default()
        };
        super::station::find(&set, None, Some(&latency)).name
    };
    let named = |used, open_loop, rows: &[(&str, f64, bool)]| by(used, Some(open_loop), rows);
    let line = [
        ("other_turns", 0.35, true),
        ("run_queue", 0.3, true),
        ("client", 0.25, true),
        ("hidden", 0.07, false),
        ("on_cpu", 0.03, true),
    ];
    assert_eq!(named(0.88, 0.0, &line), "core");
    // So it is by somebody else's load, of which nobody knows whether a clock makes it.
    assert_eq!(by(0.88, None, &line), "core");
    // A clock that offers the load leaves its own gaps, and a core that is half idle is nobody's limit.
    assert_eq!(named(0.88, 1.0, &line), "upstream");
    assert_eq!(named(0.5, 0.0, &line), "upstream");
    let sleeps = [
        ("run_queue", 0.6, true),
        ("client", 0.2, true),
        ("sleep", 0.1, false),
        ("on_cpu", 0.1, true),
    ];
    assert_eq!(named(0.88, 0.0, &sleeps), "upstream");
    let runs = [("on_cpu", 0.8, true), ("run_queue", 0.2, true)];
    assert_eq!(named(0.88, 0.0, &runs), "upstream");
}

/// A scatter that waits 40 ms for its answers, by Go's timer: that is no delayed acknowledgement, and what the
/// collector takes beside it is no part of a response.
#[test]
fn a_closed_loop_spares_no_more_cpu_than_its_requests_want() {
    let first = |waits: f64, client: f64| {
        let facts = [
            ("cpu.use_of_allowed", 0.5),
            ("worker.busiest", 0.4),
            ("core.own_mean", 0.5),
            ("client.parallel_share", 0.99),
            ("client.single_client_quantum_40ms_share", 1.0),
            ("profile.gc_share", 0.7),
        ];
        let account = |basis, rows: Vec<crate::Row>| crate::Account {
            basis,
            rows,
            ..crate::Account::default()
        };
        let work = 1.0 - waits - client;
        let requests = vec![
            row("channel", waits, false),
            row("other_turns", work, true),
            row("client", client, true),
        ];
        let requests = account(crate::Basis::Requests, requests);
        let cpu = vec![row("gc", 0.7, false), row("net_send", 0.3, true)];
        let ledger = crate::Ledger {
            cpu: [("web".to_owned(), account(crate::Basis::CpuUsed, cpu))].into(),
            rate: Some(requests.clone()),
            latency: Some(requests),
            ..crate::Ledger::default()
        };
        let seen = super::Seen::Measured(Some(Box::new(ledger)));
        let found = super::conclude(
            &set_facts(&[GOOD_LOAD, &facts].concat()),
            None,
            seen,
            "proc",
        );
        (found.station.name, found.findings[0].cause.clone())
    };
    let (station, cause) = first(0.9, 0.02);
    assert_ne!(station, "client_path");
    assert_eq!(cause, "unlabelled");
    assert_eq!(first(0.1, 0.02).1, "gc_small_heap");
    assert_eq!(first(0.1, 0.5).0, "client_path");
}

#[test]
fn whoever_waits_for_a_cpu_of_its_own_server_waits_for_a_full_one() {
    // Of many short processes the kernel's books hold a part, and none of them runs all the time.
    let facts = |wanted: f64, used: f64, peers: f64| {
        let set = set_facts(&[
            ("worker.busiest", 0.2),
            ("cpu.use_of_allowed", used),
            ("core.own_mean", 0.97),
            ("core.own_peers_share", peers),
            ("turn.cpu_share", wanted),
        ]);
        let full = super::station::full_of_requests(&set);
        let full = full.map(|(target, _)| target.to_owned());
        (super::station::find(&set, None, None).name, full)
    };
    let found = |name: &str, full: bool| (name.to_owned(), full.then(|| "web".to_owned()));
    assert_eq!(facts(0.98, 0.7, 0.3), found("worker", true));
    assert_eq!(facts(0.98, 0.4, 0.1), found("worker", true));
    // Its core is another one's.
    assert_eq!(facts(0.98, 0.2, 0.7), found("none", false));
    assert_eq!(facts(0.5, 0.7, 0.1), found("none", false));
}

#[test]
fn what_a_shared_host_takes_at_times_is_no_cause() {
    for (steal, worth) in [(0.01, None), (0.2, Some(false)), (0.4, Some(true))] {
        let set = set_facts(&[
            ("worker.busiest", 0.96),
            ("cpu.use_of_allowed", 0.96),
            ("core.own_steal_share", steal),
            ("core.steal_share", steal),
            ("core.own_busiest", 0.99),
        ]);
        let diagnosis = diagnose_facts(&set, "proc");
        let found = diagnosis.findings.iter().find(|f| f.cause == "steal_time");
        assert_eq!(found.map(|f| f.worth_changing), worth, "{steal}");
    }
}

#[test]
fn an_unknown_gain_ranks_below_every_known_one_and_is_said() {
    let cause = |name: &str, gain: &str| -> String {
        format!(
            r#"
            [[cause]]
            name = "{name}"
            title = "{name}"
            group = "io"
            why = "x"
            explains = "cpu"
            gain = "{gain}"
            lookalikes = ""
            thresholds = ""
            required = [{{ fact = "worker.busiest", at_least = 0.9 }}]
            remedy = {{ generic = "" }}
            proof = {{ mechanism = "worker.busiest", moves = "down", control = "worker.busiest" }}
            "#
        )
    };
    let set = set_facts(&[("worker.busiest", 0.99), ("client.rate_per_s", 1.0)]);
    let ranked = |causes: &[String]| {
        let causes: Vec<&str> = causes.iter().map(String::as_str).collect();
        let catalogue = Catalogue::parse("", &causes).unwrap();
        let station = super::station::find(&set, None, None);
        let ranked = super::rank::rank(
            &catalogue,
            &set,
            &station,
            None,
            super::Seen::Measured(None),
        );
        let named = ranked.findings.into_iter();
        named
            .map(|f| (f.cause, f.worth_changing, f.gain_unknown.is_some()))
            .collect::<Vec<_>>()
    };
    let (known, small) = (cause("b_known", "0.11"), cause("c_small", "0.01"));
    let unknown = cause("a_unknown", "profile.kernel_share");
    let all = [unknown.clone(), small.clone(), known];
    assert_eq!(
        ranked(&all),
        [
            ("b_known".to_owned(), true, false),
            ("a_unknown".to_owned(), false, true),
            ("c_small".to_owned(), false, false),
        ]
    );
    // Nothing that is known to be worth a change: the cause stands first, and not that the server is healthy.
    let first = |causes: &[String]| ranked(causes).swap_remove(0).0;
    assert_eq!(first(&[small.clone(), unknown]), "a_unknown");
    assert_eq!(first(&[small]), "unknown");
}

/// Facts that other tools print of a proxy whose buffers hold a page: the study's numbers.
#[test]
fn small_buffers_are_found_from_counts_alone() {
    let mut set = set_facts(&[
        ("worker.busiest", 0.98),
        ("cpu.us_per_request", 180.0),
        ("client.answer_bytes", 93_000.0),
        ("client.errors_share", 0.0),
        ("client.open_loop", 0.0),
        ("client.rate_per_s", 5_000.0),
        ("client.answer_compressed", 0.0),
        ("read.upstream.useful_per_request", 22.0),
        ("read.upstream.bytes_per_request", 93_200.0),
        ("read.upstream.mean_bytes", 4_240.0),
        ("read.upstream.typical_bytes", 4_096.0),
        ("read.upstream.full_share", 0.95),
        ("read.upstream.eagain_per_request", 0.0),
        ("write.client.per_request", 12.0),
        ("write.client.useful_per_request", 12.0),
        ("write.client.bytes_per_request", 93_200.0),
        ("write.client.mean_bytes", 7_750.0),
        ("write.client.partial_share", 0.0),
        ("upstream.requests_per_request", 1.0),
        ("call.total_per_request", 40.0),
        ("temp_write.per_request", 0.0),
    ]);
    let diagnosis = diagnose_facts(&set, "proc");
    let causes: Vec<&str> = diagnosis
        .findings
        .iter()
        .map(|f| f.cause.as_str())
        .collect();
    assert!(causes[0].contains("buffer"), "{causes:?}");
    // Without the kernel's part of the CPU nobody knows what it would bring.
    assert!(diagnosis.findings[0].gain_unknown.is_some());
    set.known("web", "cpu.system_share", 0.8, "test");
    assert!(diagnose_facts(&set, "proc").findings[0].worth_changing);
}

#[test]
fn older_records_name_the_single_client_otherwise() {
    let examination = Examination {
        single_client: Some(outcome()),
        ..Examination::default()
    };
    let text = serde_json::to_string(&examination).unwrap();
    let older = text.replace("\"single_client\":", "\"lone\":");
    assert_ne!(older, text);
    let read: Examination = serde_json::from_str(&older).unwrap();
    assert_eq!(read.single_client, examination.single_client);
}

/// The trial as it is without a load of ours: the same window was watched, and the probes counted in half of it.
fn without_load(mut trial: TrialRecord) -> TrialRecord {
    let outcome = trial.outcome.take().unwrap();
    let middle = outcome.measured_from + record::Nanos(outcome.measured().0 / 2);
    let examination = trial.examination.get_or_insert_default();
    examination.single_client = None;
    examination.watching = Some(record::Watching {
        window: record::TimeSpan {
            from: outcome.measured_from,
            to: outcome.measured_to,
        },
        counted: Some(record::TimeSpan {
            from: middle,
            to: outcome.measured_to,
        }),
        ..record::Watching::default()
    });
    trial
}

/// Turns of the server that were all followed.
fn turns_of(window_ns: u64, account: record::TurnAccount) -> record::Turns {
    let target = record::TargetTurns {
        target: "web".to_owned(),
        account,
        ..record::TargetTurns::default()
    };
    record::Turns {
        window_ns,
        sampled_one_in: 1,
        targets: vec![target],
        ..record::Turns::default()
    }
}

/// Counters that every trial has.
fn with_counters(mut trial: TrialRecord) -> TrialRecord {
    for (signal, per_s) in [
        ("tcp.out_segs", 2_000.0),
        ("tcp.retrans_segs", 4.0),
        ("tcp.listen_overflows", 0.5),
        ("pressure.memory_some_s", 0.1),
        ("host.context_switches", 5_000.0),
        ("vm.swap_in", 3.0),
    ] {
        trial.series.push(crate::samples::counter(signal, per_s));
    }
    for (signal, per_s) in [("cgroup.throttled_s", 0.02), ("cgroup.cpu_s", 0.4)] {
        let series = crate::samples::counter(signal, per_s);
        trial.series.push(series.with("target", "web"));
    }
    trial
}

#[test]
fn refusals_of_databases_are_told_from_answers_that_programs_ask_for() {
    let mut record = with_calls(trial(0.5), Vec::new());
    let refused = |protocol: &str, code: &str, answers| record::Refusal {
        protocol: protocol.to_owned(),
        code: code.to_owned(),
        answers,
    };
    let signature = (record.examination.as_mut()).and_then(|e| e.signature.as_mut());
    signature.unwrap().targets[0].refusals = Some(vec![
        refused("PostgreSQL", "23505", 900),
        refused("PostgreSQL", "42501", 700),
        refused("MySQL", "1142", 600),
        refused("PostgreSQL", "40001", 500),
        refused("MySQL", "1213", 100),
        refused("memcached", "object too ", 30),
    ]);
    let facts = facts_of(&record, &[], 0.01);
    let view = facts.view("web");
    assert_eq!(view.value("upstream.conflicts_per_request"), Some(0.6));
    assert_eq!(view.value("upstream.refused_per_request"), Some(0.03));
    let unseen = facts_of(&with_calls(trial(0.5), Vec::new()), &[], 0.01);
    let unseen = unseen.view("web").value("upstream.refused_per_request");
    assert_eq!(unseen, None, "an older record did not look");
}

#[test]
fn look_ups_that_find_nothing_are_told_from_those_of_what_need_not_be_there() {
    let question = |text: &str, turns: u64, told: u64, empty: u64| record::Question {
        protocol: "Redis".to_owned(),
        text: text.to_owned(),
        seen: turns,
        turns,
        told,
        empty,
        ..record::Question::default()
    };
    let of = |asked: Vec<record::Question>| {
        let mut record = with_calls(trial(0.5), Vec::new());
        let signature = (record.examination.as_mut()).and_then(|e| e.signature.as_mut());
        signature.unwrap().targets[0].upstreams = Some(vec![record::UpstreamStats {
            requests: 1_000,
            asked,
            ..record::UpstreamStats::default()
        }]);
        let facts = facts_of(&record, &[], 0.01);
        let value = |name: &str| facts.view("web").value(&format!("upstream.{name}"));
        [
            value("lookups_per_request"),
            value("missed_share"),
            value("fills_per_miss"),
        ]
    };
    let (get, set) = (
        question("GET report:?", 800, 800, 600),
        question("SETEX report:?", 300, 0, 0),
    );
    assert_eq!(
        of(vec![get.clone(), set]),
        [Some(0.8), Some(0.75), Some(0.5)]
    );
    // A value that is written without an answer stands before the next look-up.
    let silent = format!("set report:?{}", record::Question::UNANSWERED);
    let silent = question(&silent, 600, 600, 300);
    assert_eq!(of(vec![silent]), [Some(0.6), Some(0.5), Some(2.0)]);
    // A lock that is not had is no look-up, and a session that is not there is written by nobody.
    let lock = question("SET PHPREDIS_SESSION:?_LOCK", 900, 900, 900);
    assert_eq!(of(vec![lock]), [Some(0.0), None, None]);
    assert_eq!(of(vec![get]), [Some(0.8), Some(0.75), Some(0.0)]);
    assert_eq!(of(Vec::new()), [None; 3], "an older record did not look");
    // Who asks nobody has no look-ups, and that is known.
    let mut alone = with_calls(trial(0.5), Vec::new());
    let signature = (alone.examination.as_mut()).and_then(|e| e.signature.as_mut());
    signature.unwrap().targets[0].upstreams = Some(Vec::new());
    let facts = facts_of(&alone, &[], 0.01);
    let missed = facts.view("web").reading("upstream.missed_share");
    assert!(matches!(missed, Reading::NotApplicable(_)), "{missed:?}");
}

/// A library tries a daemon that is not there, and the server behind is asked all the same.
#[test]
fn a_daemon_that_a_library_does_without_is_no_upstream() {
    let peer = |address: &str, connects: u64, missing: u64, requests: u64| record::UpstreamStats {
        address: address.to_owned(),
        connects,
        connect_errors: (missing > 0)
            .then(|| ("ENOENT".to_owned(), missing))
            .into_iter()
            .collect(),
        requests,
        ..record::UpstreamStats::default()
    };
    let of = |peers: Vec<record::UpstreamStats>| {
        let mut record = with_calls(trial(0.5), Vec::new());
        let signature = (record.examination.as_mut()).and_then(|e| e.signature.as_mut());
        signature.unwrap().targets[0].upstreams = Some(peers);
        let facts = facts_of(&record, &[], 0.01);
        let value = |name: &str| facts.view("web").value(&format!("upstream.{name}"));
        [value("peers"), value("failing_peers")]
    };
    let daemon = peer("/run/helper/request", 500, 500, 0);
    let came = peer("127.0.0.1:40000", 0, 0, 0);
    let asked = peer("127.0.0.1:4730", 500, 0, 1_000);
    assert_eq!(
        of(vec![daemon.clone(), came, asked]),
        [Some(1.0), Some(0.0)]
    );
    // Nobody else answers, or another socket in the file system does, whose place it may share.
    assert_eq!(of(vec![daemon.clone()]), [Some(1.0); 2]);
    let other = peer("/run/php/other.sock", 500, 0, 1_000);
    assert_eq!(of(vec![daemon, other]), [Some(2.0), Some(1.0)]);
}

#[test]
fn growth_over_the_window_needs_no_load() {
    let calls = vec![call("read", FdClass::Client, 1_000, 60)];
    let loaded = with_counters(with_calls(trial(0.5), calls));
    let watched = without_load(loaded.clone());
    let (loaded, watched) = (facts_of(&loaded, &[], 0.01), facts_of(&watched, &[], 0.01));
    let growth = |name: &str| {
        let families = [
            "cpu.",
            "worker.",
            "core.",
            "host.",
            "tcp.",
            "pressure.",
            "cgroup.",
            "vm.",
            "call.",
        ];
        // Slices of the load tell the machine's speeds; and without a load of ours its threads are somebody else's.
        let of_the_load = name.starts_with("host.slow_") || name == "host.foreign_cores";
        families.iter().any(|f| name.starts_with(f)) && !of_the_load
    };
    let (mut known, mut differ) = (0, Vec::new());
    for fact in loaded.values(catalogue()) {
        let of_requests = fact.name.ends_with("_per_request") && !fact.name.starts_with("call.");
        if !growth(&fact.name) || of_requests || fact.value.is_none() {
            continue;
        }
        known += 1;
        let found = watched.view(&fact.target).value(&fact.name);
        if found != fact.value {
            differ.push((fact.name, fact.value, found));
        }
    }
    assert_eq!(differ, []);
    assert!(known >= 25, "{known}");
}

#[test]
fn a_rate_is_carried_from_the_counting_pass_to_the_window() {
    let calls = vec![call("read", FdClass::Client, 1_000, 60)];
    let roomy = without_load(with_counters(with_calls(trial(0.5), calls.clone())));
    let mut record = without_load(with_counters(with_calls(trial(0.99), calls)));
    let rate = |record: &TrialRecord| {
        let facts = facts_of(record, &[], 0.01);
        let view = facts.view("");
        (
            view.value("client.rate_per_s"),
            view.source("client.rate_per_s").to_owned(),
        )
    };
    let window = record
        .examination
        .as_ref()
        .unwrap()
        .watching
        .as_ref()
        .unwrap()
        .window;
    let seconds = window.length().as_secs_f64();
    // A server with room takes what comes, probes or not: 1,000 in the second in which they counted.
    assert!((rate(&roomy).0.unwrap() - 1_000.0).abs() < 1e-6);
    // 1,000 requests in half of the window, in which half of the segments were sent.
    let (found, source) = rate(&record);
    assert!(
        (found.unwrap() - 2_000.0 / seconds).abs() < 1e-6,
        "{found:?}"
    );
    assert!(source.contains("segments"), "{source}");
    // Without the segments what is left is the rate under the probes.
    record.series.retain(|s| s.signal != "tcp.out_segs");
    let (found, source) = rate(&record);
    assert!((found.unwrap() - 1_000.0).abs() < 1e-6, "{found:?}");
    assert!(!source.contains("segments"), "{source}");
    // And where nothing was counted there is no rate, and no zero.
    record.examination.as_mut().unwrap().signature = None;
    assert_eq!(rate(&record).0, None);
}

/// Requests of 0.4 s, each with thousands of calls, of which the budget let none end while these were counted.
#[test]
fn what_was_counted_before_a_request_ended_is_told_by_the_turns() {
    let of = |counted: u64, turns: u64| {
        let calls = vec![call("pread64", FdClass::File, 3_000, 1_024)];
        let mut record = without_load(with_counters(with_calls(trial(0.5), calls)));
        let examination = record.examination.as_mut().unwrap();
        examination.signature.as_mut().unwrap().requests = counted;
        let account = record::TurnAccount {
            turns,
            ..record::TurnAccount::default()
        };
        examination.turns = Some(turns_of(2_000_000_000, account));
        let facts = facts_of(&record, &[], 0.01);
        let rate = facts.view("").value("client.rate_per_s");
        (rate, facts.view("web").value("call.total_per_request"))
    };
    // 30 a second, and so many calls in one.
    assert_eq!(of(0, 60), (Some(30.0), Some(100.0)));
    assert_eq!(of(19, 60), (Some(30.0), Some(100.0)));
    // Enough were counted, or too few were traced.
    assert_eq!(of(300, 60).1, Some(10.0));
    assert_eq!(of(0, 19), (None, None));
}

#[test]
fn a_full_worker_is_a_full_worker_without_a_load() {
    let calls = || vec![call("read", FdClass::Client, 1_000, 60)];
    for (busy, name) in [(0.99, "worker"), (0.4, "none")] {
        let mut record = without_load(with_counters(with_calls(trial(busy), calls())));
        record.series.retain(|s| s.signal != "tcp.listen_overflows");
        let diagnosis = diagnose(&record, &[], 0.01);
        assert_eq!(diagnosis.station.name, name, "{:?}", diagnosis.station);
        assert!(
            !diagnosis.station.why.contains("generator"),
            "{:?}",
            diagnosis.station
        );
    }
}

/// Clients whose connections stand in the listen queue in every sample, while nobody accepts, got no response; those
/// that have given up by then ask for none.
#[test]
fn who_is_never_accepted_is_unanswered() {
    let share = |accepts: u64, queue: f64, waiting: Option<f64>| {
        let calls = vec![
            call("read", FdClass::Client, 1_000, 60),
            call("accept4", FdClass::Listener, accepts, 3),
        ];
        let mut record = without_load(with_counters(with_calls(trial(0.5), calls)));
        let own = record.targets[0].clone();
        let mut level = |signal: &str, labels: &[(&str, &str)], value: f64| {
            let series = crate::samples::counter(signal, 0.0);
            let labelled = |series: Series, (name, of): &(&str, &str)| series.with(name, of);
            let mut series = labels.iter().fold(series, labelled);
            series.values.fill(value);
            record.series.push(series);
        };
        level("listen.queue", &[("address", &own.address)], queue);
        let client = [("target", own.name.as_str()), ("class", "client")];
        level("socket.connections", &client, 16.0);
        if let Some(waiting) = waiting {
            level("socket.waiting", &client, waiting);
        }
        let worked = record::PlaceTime {
            place: record::Place::OnCpu,
            detail: String::new(),
            waker: String::new(),
            stack: None,
            told: None,
            helper: String::new(),
            turns: 100,
            total_ns: 500_000_000,
        };
        let account = record::TurnAccount {
            turns: 100,
            total_ns: worked.total_ns,
            places: vec![worked],
            ..record::TurnAccount::default()
        };
        record.examination.as_mut().unwrap().turns = Some(turns_of(1_000_000_000, account));
        let facts = facts_of(&record, &[], 0.01);
        let value = |name: &str| facts.view("").value(&format!("client.{name}"));
        (value("unanswered_share"), value("parallel_share"))
    };
    // Those that are served are served at once, and the others wait.
    assert_eq!(share(0, 12.0, Some(8.0)), (Some(0.5), Some(0.5)));
    assert_eq!(share(0, 12.0, Some(0.0)), (Some(0.0), Some(1.0)));
    assert_eq!(share(900, 12.0, Some(12.0)), (Some(0.0), Some(1.0)));
    assert_eq!(share(0, 8.0, None), (Some(0.5), Some(0.5)));
    assert_eq!(share(0, 99.0, None), (Some(1.0), Some(0.0)));
}

#[test]
fn what_only_a_client_knows_is_never_a_number() {
    let record = without_load(with_counters(with_calls(trial(0.5), Vec::new())));
    let facts = facts_of(&record, &[], 0.01);
    for name in ["client.fairness", "client.connect_p50_ms"] {
        match facts.view("").reading(name) {
            Reading::Known(value) => panic!("{name}: {value}"),
            Reading::NotApplicable(why) | Reading::Unknown(why) => {
                assert!(why.contains("clients know it"), "{name}: {why}");
            }
        }
    }
}

#[test]
fn the_way_to_the_server_behind_is_what_its_own_turns_do_not_fill() {
    let turns = |target: &str, turns: u64, total_ms: u64, places: &[(record::Place, &str, u64)]| {
        let places = places.iter().map(|&(place, detail, ms)| record::PlaceTime {
            place,
            detail: detail.to_owned(),
            waker: String::new(),
            stack: None,
            told: None,
            helper: String::new(),
            turns,
            total_ns: ms * 1_000_000,
        });
        record::TargetTurns {
            target: target.to_owned(),
            account: record::TurnAccount {
                turns,
                total_ns: total_ms * 1_000_000,
                places: places.collect(),
                ..record::TurnAccount::default()
            },
            ..record::TargetTurns::default()
        }
    };
    let mut app = turns("app", 100, 5_000, &[(record::Place::OnCpu, "", 5_000)]);
    app.threads = Some(record::ThreadTime {
        threads: 4,
        account: turns("", 100, 8_000, &[(record::Place::Idle, "", 600)]).account,
        ..record::ThreadTime::default()
    });
    let waits = [(record::Place::Upstream, "10.0.0.7:9000", 9_000)];
    let web = turns("web", 100, 9_500, &waits);
    let mut seen = with_calls(trial(0.5), Vec::new());
    let examination = seen.examination.as_mut().unwrap();
    examination.servers.push(record::Server {
        target: "app".to_owned(),
        listens: vec!["10.0.0.7:9000".to_owned()],
        ..record::Server::default()
    });
    examination.turns = Some(record::Turns {
        targets: vec![web, app],
        ..record::Turns::default()
    });
    let facts = facts_of(&seen, &[], 0.01);
    let view = facts.view("web");
    assert_eq!(view.value("upstream.path_ms"), Some(40.0));
    assert_eq!(view.value("upstream.threads_idle_share"), Some(0.075));
    // Of several turns there, the longest of each request, whoever found that server.
    let longest = |slow_ms: u64| {
        let mut seen = seen.clone();
        let turns = seen.examination.as_mut().unwrap().turns.as_mut().unwrap();
        let app = &mut turns.targets[1];
        app.account.turns = 400;
        let mut lengths = record::Histogram::new();
        for turn in 0..400 {
            let ms = if turn % 4 == 0 { slow_ms } else { 10 };
            lengths.record(record::Nanos(ms * 1_000_000));
        }
        app.lengths = Some(lengths);
        let facts = facts_of(&seen, &[], 0.01);
        facts.view("web").value("upstream.longest_turn_share")
    };
    assert!((longest(70).unwrap() - 0.7).abs() < 0.01);
    assert!((longest(10).unwrap() - 0.25).abs() < 0.01);
    // What was not seen rules nothing out.
    let facts = facts_of(&with_calls(trial(0.5), Vec::new()), &[], 0.01);
    assert_eq!(facts.view("web").value("upstream.path_ms"), None);
}
