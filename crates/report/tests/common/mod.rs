//! Fixtures of the golden tests: one load in several fates, one run, and the golden files themselves.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a fixture that cannot be made must stop the test, and each test file uses some of them"
)]

use analysis::{Factor, Levels, Plan, Stage, TrialPlan};
use record::{
    Arrival, Connections, EventStreams, FailureKind, GeneratorCost, Histogram, Interval, Kind,
    LoadOutcome, LoadSpec, Manifest, Nanos, ProcessRecord, RequestCounts, RunRecord, Series,
    TargetRecord, ThreadCost, TrialRecord, TrialState, Warning,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Compares with a file below the crate, or rewrites it with `BLESS=1`.
pub fn golden(path: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        want == found,
        "{} differs (BLESS=1 rewrites it); found:\n{found}",
        path.display()
    );
}

/// Service times around `typical`: a long tail up to ten times of it.
fn times(typical: Nanos) -> Histogram {
    let mut histogram = Histogram::new();
    for i in 1..=1_000u64 {
        let tail = if i > 990 { i - 989 } else { 1 };
        histogram.record(Nanos(typical.0 * tail * (900 + i % 200) / 1_000));
    }
    histogram
}

/// 10 s after 2 s of warm-up; the generator's one thread on core 1 busy for `generator` of the time.
pub fn outcome(answers: u64, service: Nanos, generator: f64) -> LoadOutcome {
    let busy_ns = (generator * 10e9) as u64;
    LoadOutcome {
        started_at: Nanos(0),
        measured_from: Nanos::from_secs(2),
        measured_to: Nanos::from_secs(12),
        interrupted: false,
        requests: RequestCounts {
            scheduled: answers,
            sent: answers,
            completed: answers,
            succeeded: answers,
            ..RequestCounts::default()
        },
        status: BTreeMap::from([(200, answers)]),
        received_bytes: answers * 1_262,
        sent_bytes: answers * 44,
        response: times(service),
        service: times(service),
        connect: times(Nanos(80_000)),
        first_byte: times(Nanos(service.0 / 2)),
        connections: Connections {
            asked: 64,
            opened: 64,
            peak_open: 64,
            ..Connections::default()
        },
        generator: GeneratorCost {
            engine: "epoll".into(),
            threads: vec![ThreadCost {
                tid: 901,
                cpu: Some(1),
                cpus: Vec::new(),
                cpu_user_ns: busy_ns / 4,
                cpu_system_ns: busy_ns - busy_ns / 4,
                wall_ns: 10_000_000_000,
                spin_ns: 0,
                completed: answers,
            }],
            syscalls: answers * 2,
            pauses: Some(record::Pauses::default()),
            peak_rss_bytes: 9_437_184,
            schedule_lag: Histogram::new(),
            stack: None,
        },
        by_request: Vec::new(),
        by_piece: Vec::new(),
        event_streams: None,
        successes_per_connection: vec![answers / 64; 64],
        intervals: vec![slice()],
        first_failure: BTreeMap::new(),
        warnings: vec![],
        contents: None,
        log: Vec::new(),
    }
}

/// One slice of live progress.
pub fn slice() -> Interval {
    Interval {
        from: Nanos::from_millis(2_500),
        to: Nanos::from_millis(3_000),
        sent: 30_010,
        succeeded: 30_000,
        failed: 2,
        received_bytes: 37_860_000,
        response_ns_p50: 1_040_000,
        response_ns_p99: 3_200_000,
        response_ns_max: 9_000_000,
        queued: 12,
        generator_permille: 620,
    }
}

/// 64 connections for 10 s after 2 s of warm-up.
pub fn spec() -> LoadSpec {
    LoadSpec {
        connections: 64,
        warmup: Nanos::from_secs(2),
        ..LoadSpec::new("http://127.0.0.1:8080/bytes/1k")
    }
}

/// A nginx worker that runs for `busy` of the time.
pub fn worker(busy: f64) -> Vec<Series> {
    [
        ("thread.run_s", busy),
        ("thread.cpu_user_s", busy * 0.4),
        ("thread.cpu_system_s", busy * 0.6),
    ]
    .map(|(signal, share)| {
        let mut series = Series::new(signal, "s", "/proc", Kind::Counter)
            .with("target", "web")
            .with("pid", 1234)
            .with("tid", 1234)
            .with("name", "nginx");
        (0..14).for_each(|t| series.push(Nanos::from_secs(t), share * t as f64));
        series
    })
    .into()
}

/// The target behind [`worker`].
pub fn target() -> TargetRecord {
    TargetRecord {
        name: "web".into(),
        kind: "nginx".into(),
        address: "127.0.0.1:8080".into(),
        cpus: vec![0],
        processes: vec![ProcessRecord {
            pid: 1234,
            role: "worker".into(),
            name: "nginx".into(),
            cpus: vec![0],
        }],
        ..TargetRecord::default()
    }
}

/// A load by its fate, with everything that judges it.
pub struct Load {
    pub name: &'static str,
    pub spec: LoadSpec,
    pub outcome: LoadOutcome,
    pub series: Vec<Series>,
    pub targets: Vec<TargetRecord>,
}

impl Load {
    pub fn verdict(&self) -> analysis::Verdict {
        analysis::judge_load(&self.outcome, &self.series, &self.spec, &self.targets, 0.01)
    }
}

fn watched(name: &'static str, outcome: LoadOutcome, server: f64) -> Load {
    Load {
        name,
        spec: spec(),
        outcome,
        series: worker(server),
        targets: vec![target()],
    }
}

fn refused() -> Load {
    let mut outcome = outcome(0, Nanos(0), 0.01);
    outcome.requests.failed = BTreeMap::from([(FailureKind::ConnectRefused, 64)]);
    outcome.first_failure = BTreeMap::from([(
        FailureKind::ConnectRefused,
        "Connection refused (os error 111)".into(),
    )]);
    outcome.response = Histogram::new();
    outcome.service = Histogram::new();
    outcome.first_byte = Histogram::new();
    outcome.connect = Histogram::new();
    outcome.connections = Connections {
        asked: 64,
        ..Connections::default()
    };
    outcome.status.clear();
    Load {
        series: vec![],
        targets: vec![],
        ..watched("refused", outcome, 0.0)
    }
}

fn open_loop() -> Load {
    let mut load = watched("open_loop", outcome(10_000, Nanos(900_000), 0.5), 0.12);
    load.spec.arrival = Arrival::Constant { per_s: 1_000.0 };
    load.outcome.generator.threads[0].spin_ns = 4_000_000_000;
    (1..100).for_each(|us| {
        load.outcome
            .generator
            .schedule_lag
            .record(Nanos(us * 1_000))
    });
    load.outcome.requests.late = 3;
    load.outcome.requests.failed = BTreeMap::from([(FailureKind::Status5xx, 4)]);
    load.outcome.requests.succeeded -= 4;
    load.outcome.status = BTreeMap::from([(200, 9_996), (503, 4)]);
    load.outcome.warnings = vec![Warning::new(
        "connections_lowered",
        "1000 connections were asked, but only 64 files may be open",
        "raise the limit with ulimit -n",
    )];
    load
}

fn event_streams() -> Load {
    let mut load = watched(
        "event_streams",
        outcome(64_000, Nanos(10_000_000), 0.08),
        0.05,
    );
    load.spec.sse = true;
    load.spec.url = "http://127.0.0.1:8080/events".into();
    let outcome = &mut load.outcome;
    outcome.event_streams = Some(EventStreams {
        opened: 171,
        reopened: 107,
        ended: 106,
        open: 64,
        comments: 120,
        first_event: times(Nanos(2_000_000)),
        gap: std::mem::take(&mut outcome.response),
    });
    outcome.service.clear();
    outcome.status.clear();
    outcome.connections.opened = 171;
    outcome.requests.retried = 106;
    outcome.requests.failed = BTreeMap::from([(FailureKind::Truncated, 1)]);
    let words = "the server ended the stream in the middle of an event";
    outcome.first_failure = BTreeMap::from([(FailureKind::Truncated, words.into())]);
    (
        outcome.successes_per_connection[0],
        outcome.successes_per_connection[1],
    ) = (900, 1_100);
    load
}

/// A load in each fate that looks different.
pub fn loads() -> Vec<Load> {
    let tls = {
        let mut load = watched("tls", outcome(100_000, Nanos(6_400_000), 0.3), 0.99);
        load.spec.url = "https://127.0.0.1:8443/".into();
        load.spec.requests_per_connection = Some(1);
        load.outcome.connections.opened = 100_064;
        load.outcome.connections.tls_full = 64;
        load.outcome.connections.tls_resumed = 100_000;
        load.outcome.connections.alpn = "http/1.1".into();
        load
    };
    let mut gathering = outcome(612_344, Nanos(1_040_000), 0.62);
    gathering.generator.pauses = Some(record::Pauses {
        count: 90_000,
        total_ns: 4_400_000_000,
    });
    vec![
        watched("saturated_worker", gathering, 0.99),
        watched(
            "saturated_generator",
            outcome(612_344, Nanos(1_040_000), 0.98),
            0.6,
        ),
        refused(),
        open_loop(),
        tls,
        event_streams(),
    ]
}

fn stage(
    name: &str,
    factors: &[(&str, &[&str])],
    baseline: &[(&str, &str)],
    repeats: u32,
) -> Stage {
    Stage {
        name: name.into(),
        factors: factors
            .iter()
            .map(|(name, levels)| Factor {
                name: (*name).into(),
                levels: levels.iter().map(|l| (*l).into()).collect(),
            })
            .collect(),
        baseline: baseline
            .iter()
            .map(|(f, l)| ((*f).into(), (*l).into()))
            .collect(),
        repeats,
        examine: true,
        search: None,
        metric: None,
    }
}

fn trial_plan(id: u32, stage: usize, block: u32, levels: &[(&str, &str)]) -> TrialPlan {
    let levels: Levels = levels
        .iter()
        .map(|(f, l)| ((*f).to_owned(), (*l).to_owned()))
        .collect();
    let mut load = spec();
    if let Some(n) = levels.get("connections") {
        load.connections = n.parse().unwrap();
    }
    if levels.get("keepalive").is_some_and(|k| k == "off") {
        load.requests_per_connection = Some(1);
    }
    let rate_of_capacity = levels.get("rate").map(|r| r.parse().unwrap());
    if let Some(share) = rate_of_capacity {
        load.arrival = Arrival::Poisson {
            per_s: share * 60_000.0,
            seed: 1,
        };
    }
    TrialPlan {
        id,
        stage,
        block,
        levels,
        targets: vec![],
        load,
        rate_of_capacity,
        topology: None,
        irqs: Vec::new(),
    }
}

/// A closed-loop stage (keep-alive on and off, three numbers of connections, three repeats), then an
/// open-loop stage with two rates.
pub fn plan() -> Plan {
    let connections = ["10", "64", "250"];
    let keepalive = ["on", "off"];
    let mut trials = Vec::new();
    for block in 0..3 {
        for k in keepalive {
            for c in connections {
                let id = trials.len() as u32;
                trials.push(trial_plan(
                    id,
                    0,
                    block,
                    &[("keepalive", k), ("connections", c)],
                ));
            }
        }
    }
    for rate in ["0.5", "0.9"] {
        trials.push(trial_plan(trials.len() as u32, 1, 0, &[("rate", rate)]));
    }
    Plan {
        question: "What does keep-alive bring?".into(),
        stages: vec![
            stage(
                "sweep",
                &[("keepalive", &keepalive), ("connections", &connections)],
                &[("keepalive", "on")],
                3,
            ),
            stage("levels", &[("rate", &["0.5", "0.9"])], &[], 1),
        ],
        trials,
        seed: 7,
        error_limit: 0.01,
        tune: None,
        warnings: vec![Warning::new(
            "thin_budget",
            "three repeats give no 95 % interval",
            "repeat six times",
        )],
        ..Plan::default()
    }
}

fn trial_outcome(trial: &TrialPlan) -> LoadOutcome {
    let connections = f64::from(trial.load.connections);
    let speed = [1.0, 0.9, 1.1][trial.block as usize];
    let cost = if trial.load.requests_per_connection.is_some() {
        4.0
    } else {
        1.0
    };
    let per_s = match trial.load.arrival.offered_per_s() {
        Some(offered) => offered,
        None => speed * 60_000.0_f64.min(connections * 3_000.0) / cost,
    };
    let generator = if connections > 200.0 && trial.block == 1 {
        0.99
    } else {
        0.5
    };
    let mut outcome = outcome(
        (per_s * 10.0) as u64,
        Nanos((connections / per_s * 1e9) as u64),
        generator,
    );
    if trial.load.requests_per_connection.is_some() {
        outcome.connect = Histogram::new();
    }
    outcome
}

/// The run of [`plan`]: the worker is full from 64 connections on; one trial's server did not start, and in the
/// second block at 250 connections the generator was the limit.
pub fn run() -> RunRecord {
    let plan = plan();
    let trials = plan.trials.iter().map(|trial| {
        let outcome = trial_outcome(trial);
        let full = trial.load.connections >= 64 && trial.rate_of_capacity.is_none();
        let limited = outcome.generator.utilization() > Some(0.9);
        TrialRecord {
            id: trial.id,
            stage: plan.stages[trial.stage].name.clone(),
            block: trial.block,
            levels: trial.levels.clone(),
            load: trial.load.clone(),
            state: TrialState::Complete,
            outcome: Some(outcome),
            reported: None,
            targets: vec![target()],
            unavailable: vec![],
            warnings: vec![],
            series: worker(if full && !limited { 0.99 } else { 0.6 }),
            hosts: Vec::new(),
            examination: None,
            files: BTreeMap::new(),
        }
    });
    let mut trials: Vec<TrialRecord> = trials.collect();
    trials[3].state = TrialState::Failed {
        error: "starting web: nginx: bind() to 127.0.0.1:8080 failed (98: Address already in use)"
            .into(),
        remedy: "stop what listens there, or let prony choose the port".into(),
    };
    trials[3].outcome = None;
    RunRecord {
        manifest: Manifest {
            format: 1,
            prony: "0.1.0".into(),
            question: plan.question.clone(),
            command: vec!["prony".into(), "run".into()],
            started: "2026-01-02T03:04:05Z".into(),
            ended: Some("2026-01-02T03:09:05Z".into()),
            interrupted: false,
        },
        plan: serde_json::to_value(&plan).unwrap(),
        experiment: String::new(),
        environment: vec![],
        trials,
        traffic: None,
    }
}
