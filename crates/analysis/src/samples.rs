//! Synthetic outcomes and series for the tests of this crate: a load of 10 s after 2 s of warm-up.

use record::{
    Connections, GeneratorCost, Histogram, Kind, LoadOutcome, LoadSpec, Nanos, ProcessRecord,
    RequestCounts, Series, TargetRecord, ThreadCost,
};
use std::collections::BTreeMap;

pub(crate) const FROM: u64 = 2;
pub(crate) const TO: u64 = 12;

/// Seeded random numbers for simulations (xorshift64*, Vigna 2016).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 0 to 1, neither included.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal (Box and Muller 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Nothing happened in no time.
pub(crate) fn nothing() -> LoadOutcome {
    LoadOutcome {
        started_at: Nanos(0),
        measured_from: Nanos(0),
        measured_to: Nanos(0),
        interrupted: false,
        requests: RequestCounts::default(),
        status: BTreeMap::new(),
        received_bytes: 0,
        sent_bytes: 0,
        response: Histogram::new(),
        service: Histogram::new(),
        connect: Histogram::new(),
        first_byte: Histogram::new(),
        connections: Connections::default(),
        generator: GeneratorCost {
            engine: "epoll".into(),
            threads: vec![],
            syscalls: 0,
            pauses: Some(record::Pauses::default()),
            peak_rss_bytes: 0,
            schedule_lag: Histogram::new(),
            stack: None,
        },
        by_request: Vec::new(),
        by_piece: Vec::new(),
        event_streams: None,
        successes_per_connection: vec![],
        intervals: vec![],
        first_failure: BTreeMap::new(),
        warnings: vec![],
        contents: None,
        log: Vec::new(),
    }
}

/// 10,000 answers in 10 s over 10 connections of 10 ms each; the generator at 30 % on core 1.
pub(crate) fn outcome() -> LoadOutcome {
    with_rate(10_000, Nanos::from_millis(10), 0.3)
}

/// So many answers in 10 s, each of that service time; the generator's thread at `generator` of core 1.
pub(crate) fn with_rate(answers: u64, service: Nanos, generator: f64) -> LoadOutcome {
    let mut times = Histogram::new();
    (0..1_000.min(answers)).for_each(|_| times.record(service));
    let busy_ns = (generator * 10e9) as u64;
    LoadOutcome {
        started_at: Nanos(0),
        measured_from: Nanos::from_secs(FROM),
        measured_to: Nanos::from_secs(TO),
        requests: RequestCounts {
            scheduled: answers,
            sent: answers,
            completed: answers,
            succeeded: answers,
            ..RequestCounts::default()
        },
        status: BTreeMap::from([(200, answers)]),
        response: times.clone(),
        service: times,
        connections: Connections {
            asked: 10,
            opened: 10,
            peak_open: 10,
            ..Connections::default()
        },
        generator: GeneratorCost {
            threads: vec![ThreadCost {
                tid: 901,
                cpu: Some(1),
                cpus: Vec::new(),
                cpu_user_ns: busy_ns / 2,
                cpu_system_ns: busy_ns - busy_ns / 2,
                wall_ns: 10_000_000_000,
                spin_ns: 0,
                completed: answers,
            }],
            ..nothing().generator
        },
        ..nothing()
    }
}

pub(crate) fn spec() -> LoadSpec {
    LoadSpec::new("http://127.0.0.1:8080/")
}

/// A target with one worker on core 0, pid as given.
pub(crate) fn target(name: &str, pid: i32, address: &str) -> TargetRecord {
    TargetRecord {
        name: name.into(),
        kind: "nginx".into(),
        address: address.into(),
        cpus: vec![0],
        processes: vec![ProcessRecord {
            pid,
            role: "worker".into(),
            name: "nginx".into(),
            cpus: vec![0],
        }],
        ..TargetRecord::default()
    }
}

pub(crate) fn nginx() -> TargetRecord {
    target("web", 7, "127.0.0.1:8080")
}

/// A counter that grows by `per_s` from a second before the load to a second after it.
pub(crate) fn counter(signal: &str, per_s: f64) -> Series {
    let mut series = Series::new(signal, "x", "/proc", Kind::Counter);
    for t in 0..=TO + 1 {
        series.push(Nanos::from_secs(t), 100.0 + per_s * t as f64);
    }
    series
}

/// A thread that runs for `busy` of the time, a third of it in user mode, and waits for `wait`.
pub(crate) fn thread(target: &str, pid: i32, tid: i32, busy: f64, wait: f64) -> Vec<Series> {
    [
        ("thread.run_s", busy),
        ("thread.cpu_user_s", busy / 3.0),
        ("thread.cpu_system_s", busy * 2.0 / 3.0),
        ("thread.run_queue_wait_s", wait),
    ]
    .map(|(signal, share)| {
        counter(signal, share)
            .with("target", target)
            .with("pid", pid)
            .with("tid", tid)
            .with("name", "nginx")
    })
    .into()
}

/// A core by mode: system, softirq, steal; the rest idle.
pub(crate) fn core(number: u32, system: f64, softirq: f64, steal: f64) -> Vec<Series> {
    [
        ("cpu.user_s", 0.0),
        ("cpu.system_s", system),
        ("cpu.softirq_s", softirq),
        ("cpu.steal_s", steal),
        ("cpu.idle_s", 1.0 - system - softirq - steal),
    ]
    .map(|(signal, share)| counter(signal, share).with("core", number))
    .into()
}

/// A stage of a synthetic run: every trial is a closed or open loop whose figures a function of its levels
/// and block gives.
pub(crate) struct StageSample {
    pub name: &'static str,
    pub factors: Vec<(&'static str, Vec<&'static str>)>,
    pub baseline: Vec<(&'static str, &'static str)>,
    pub repeats: u32,
}

/// What a synthetic trial shows.
#[derive(Clone, Copy)]
pub(crate) struct Figures {
    pub answers: u64,
    pub service: Nanos,
    pub server: f64,
    pub generator: f64,
}

impl Figures {
    /// With a generator that was the limit while the server had room.
    pub(crate) fn limited(self, limited: bool) -> Self {
        match limited {
            true => Self {
                server: 0.4,
                generator: 0.99,
                ..self
            },
            false => self,
        }
    }
}

fn levels_of(factors: &[(&'static str, Vec<&'static str>)]) -> Vec<plan::Levels> {
    let start = vec![plan::Levels::new()];
    factors.iter().fold(start, |all, (factor, levels)| {
        let with = |base: &plan::Levels, level: &&str| {
            let mut next = base.clone();
            next.insert((*factor).to_owned(), (*level).to_owned());
            next
        };
        let more = all
            .iter()
            .flat_map(|base| levels.iter().map(|l| with(base, l)));
        more.collect()
    })
}

/// The load of some levels: `connections` and `rate` are what their names say.
fn load_of(levels: &plan::Levels) -> LoadSpec {
    let number = |name: &str| levels.get(name)?.parse::<f64>().ok();
    let mut load = spec();
    load.connections = number("connections").unwrap_or(10.0) as u32;
    if let Some(per_s) = number("rate") {
        load.arrival = record::Arrival::Constant { per_s };
    }
    load
}

/// A record of such stages, every trial complete.
pub(crate) fn run(
    stages: &[StageSample],
    figures: impl Fn(&plan::Levels, u32) -> Figures,
) -> record::RunRecord {
    let mut plan = plan::Plan {
        question: "What limits it?".into(),
        stages: vec![],
        trials: vec![],
        seed: 1,
        error_limit: 0.01,
        tune: None,
        warnings: vec![],
        ..plan::Plan::default()
    };
    let mut trials = vec![];
    for (stage, sample) in stages.iter().enumerate() {
        plan.stages.push(plan_stage(sample));
        for block in 0..sample.repeats {
            // Every second block runs backwards, as interleaving might.
            let mut cells = levels_of(&sample.factors);
            if block % 2 == 1 {
                cells.reverse();
            }
            for levels in cells {
                let id = plan.trials.len() as u32;
                let load = load_of(&levels);
                trials.push(trial(id, sample, block, &levels, figures(&levels, block)));
                plan.trials.push(plan::TrialPlan {
                    id,
                    stage,
                    block,
                    levels,
                    targets: vec![],
                    load,
                    rate_of_capacity: None,
                    topology: None,
                    irqs: Vec::new(),
                });
            }
        }
    }
    record::RunRecord {
        manifest: manifest(&plan.question),
        plan: serde_json::to_value(&plan).expect("a plan has string keys"),
        experiment: String::new(),
        environment: vec![],
        trials,
        traffic: None,
    }
}

fn manifest(question: &str) -> record::Manifest {
    record::Manifest {
        format: 1,
        prony: "0.1.0".into(),
        question: question.into(),
        command: vec!["prony".into(), "run".into()],
        started: "2026-01-02T03:04:05Z".into(),
        ended: Some("2026-01-02T03:05:05Z".into()),
        interrupted: false,
    }
}

fn plan_stage(sample: &StageSample) -> plan::Stage {
    let text = |s: &&str| (*s).to_owned();
    plan::Stage {
        name: sample.name.into(),
        factors: sample
            .factors
            .iter()
            .map(|(name, levels)| plan::Factor {
                name: text(name),
                levels: levels.iter().map(text).collect(),
            })
            .collect(),
        baseline: sample
            .baseline
            .iter()
            .map(|(factor, level)| (text(factor), text(level)))
            .collect(),
        repeats: sample.repeats,
        examine: true,
        search: None,
        metric: None,
    }
}

fn trial(
    id: u32,
    stage: &StageSample,
    block: u32,
    levels: &plan::Levels,
    figures: Figures,
) -> record::TrialRecord {
    let mut outcome = with_rate(figures.answers, figures.service, figures.generator);
    outcome.connections.asked = load_of(levels).connections;
    record::TrialRecord {
        id,
        stage: stage.name.into(),
        block,
        levels: levels.clone(),
        load: load_of(levels),
        state: record::TrialState::Complete,
        outcome: Some(outcome),
        reported: None,
        targets: vec![nginx()],
        unavailable: vec![],
        warnings: vec![],
        series: thread("web", 7, 7, figures.server, 0.0),
        hosts: Vec::new(),
        examination: None,
        files: BTreeMap::new(),
    }
}
