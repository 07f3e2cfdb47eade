//! The figures of a traffic run as trials of a record, in the form that imported ones have.
//!
//! So `prony report`, `compare`, `index` and the page read a run of prony's own and an imported one of TRex with the
//! same code: the stage `counters` has a trial for each side, `ports` one for each port, with TRex's names. The ports
//! are numbered as TRex does: 0 is the client's, 1 the server's.

use super::figures::{SideFigures, TrafficFigures, figures};
use crate::LatencySummary;
use plan::{Factor, Levels, Plan, Stage, TrialPlan};
use record::{
    LatencyBase, LoadSpec, Reported, ReportedFigure, TrafficRun, TrialRecord, TrialState,
};
use std::collections::BTreeMap;

/// Stage of the run as a whole.
pub const STAGE: &str = "traffic";
/// What reported it.
const TOOL: &str = "prony traffic";

/// The plan of a run's record and its trials.
pub fn trials(run: &TrafficRun, question: &str) -> (Plan, Vec<TrialRecord>) {
    let all = figures(run);
    let mut making = Making::default();
    making.trial(STAGE, None, whole(&all));
    if all.templates.len() > 1 {
        for (i, t) in all.templates.iter().enumerate() {
            making.trial("templates", Some(("template", &t.name)), template(&all, i));
        }
    }
    for side in &all.sides {
        let is_client = side.side == "client";
        let told = all.counters.iter().filter(|row| row.is_told());
        let counted = told.filter_map(|row| {
            let value = if is_client { row.client } else { row.server };
            Some(whole_number(&row.name, value? as f64))
        });
        let peak = whole_number("m_peak_flows", side.peak_flows as f64);
        making.trial(
            "counters",
            Some(("side", &side.side)),
            std::iter::once(peak).chain(counted).collect(),
        );
    }
    for side in &all.sides {
        let port = if side.side == "client" { "0" } else { "1" };
        making.trial("ports", Some(("port", port)), ports(&all, side));
    }
    let plan = Plan {
        question: question.to_owned(),
        trials: making
            .trials
            .iter()
            .map(|t| planned(t, &making.stages))
            .collect(),
        stages: making.stages,
        seed: run.spec.seed,
        error_limit: 0.01,
        ..Plan::default()
    };
    (plan, making.trials)
}

#[derive(Default)]
struct Making {
    stages: Vec<Stage>,
    trials: Vec<TrialRecord>,
}

impl Making {
    fn trial(&mut self, stage: &str, level: Option<(&str, &str)>, figures: Vec<ReportedFigure>) {
        let levels: Levels = level
            .into_iter()
            .map(|(factor, level)| (factor.to_owned(), level.to_owned()))
            .collect();
        let at = self
            .stages
            .iter()
            .position(|s| s.name == stage)
            .unwrap_or_else(|| {
                self.stages.push(Stage {
                    name: stage.to_owned(),
                    factors: Vec::new(),
                    // The first stands on the left; parts of one run are no gain over each other.
                    baseline: levels.clone(),
                    repeats: 1,
                    examine: false,
                    search: None,
                    metric: None,
                });
                self.stages.len() - 1
            });
        if let Some((factor, level)) = level {
            let factors = &mut self.stages[at].factors;
            match factors.first_mut() {
                Some(known) => known.levels.push(level.to_owned()),
                None => factors.push(Factor {
                    name: factor.to_owned(),
                    levels: vec![level.to_owned()],
                }),
            }
        }
        self.trials.push(TrialRecord {
            id: u32::try_from(self.trials.len()).unwrap_or(u32::MAX),
            stage: stage.to_owned(),
            block: 0,
            levels,
            load: LoadSpec::new(String::new()),
            state: TrialState::Complete,
            outcome: None,
            reported: Some(Reported {
                tool: TOOL.to_owned(),
                file: "traffic.json".to_owned(),
                lines: (1, 1),
                command: String::new(),
                latency_base: LatencyBase::Scheduled,
                figures,
            }),
            targets: Vec::new(),
            unavailable: Vec::new(),
            warnings: Vec::new(),
            series: Vec::new(),
            hosts: Vec::new(),
            examination: None,
            files: BTreeMap::new(),
        });
    }
}

fn planned(trial: &TrialRecord, stages: &[Stage]) -> TrialPlan {
    TrialPlan {
        id: trial.id,
        stage: stages
            .iter()
            .position(|s| s.name == trial.stage)
            .unwrap_or(0),
        block: 0,
        levels: trial.levels.clone(),
        targets: Vec::new(),
        load: trial.load.clone(),
        rate_of_capacity: None,
        topology: None,
        irqs: Vec::new(),
    }
}

fn whole_number(name: &str, value: f64) -> ReportedFigure {
    ReportedFigure::new(name, "1", value, 0.0)
}

fn latencies<'a>(
    name: &'a str,
    summary: Option<LatencySummary>,
) -> impl Iterator<Item = ReportedFigure> + use<'a> {
    let points = summary.map(|s| [("p50", s.p50), ("p99", s.p99), ("p99.9", s.p999)]);
    let points = points.into_iter().flatten();
    points.map(move |(at, ns)| ReportedFigure::new(format!("{name}.{at}"), "ns", ns as f64, 0.0))
}

/// The global figures, under the names of `prony import trex`.
fn whole(all: &TrafficFigures) -> Vec<ReportedFigure> {
    let sum = |part: fn(&super::TemplateFigures) -> u64| {
        all.templates.iter().map(part).sum::<u64>() as f64
    };
    let mut figures = Vec::new();
    let mut put = |name: &str, unit: &str, value: Option<f64>| {
        figures.extend(value.map(|v| ReportedFigure::new(name, unit, v, 0.0)));
    };
    let seconds = all.duration_s.max(f64::MIN_POSITIVE);
    put("rate_per_s", "1/s", all.completed_per_s);
    put("offered_per_s", "1/s", all.offered_per_s);
    put("duration_s", "s", Some(all.duration_s));
    put(
        "opened_flows",
        "1",
        Some(sum(|t| t.connected.max(t.accepted.unwrap_or(0)))),
    );
    let bytes = |part: fn(&SideFigures) -> u64| all.sides.first().map(part).unwrap_or(0) as f64;
    put(
        "tx_per_s",
        "bit/s",
        Some(bytes(|s| s.ports.tx_bytes) * 8.0 / seconds),
    );
    put(
        "rx_per_s",
        "bit/s",
        Some(bytes(|s| s.ports.rx_bytes) * 8.0 / seconds),
    );
    put(
        "packets_per_s",
        "1/s",
        Some(bytes(|s| s.ports.tx_frames + s.ports.rx_frames) / seconds),
    );
    put(
        "cpu.utilization",
        "%",
        all.sides.first().map(|s| s.utilization * 100.0),
    );
    // What the server side alone saw are the same connections again, where the client is ours.
    let is_client = all.sides.iter().any(|s| s.side == "client");
    let own = |kind: &&String| !is_client || !kind.ends_with("_at_server");
    let mut kinds = BTreeMap::<&String, u64>::new();
    for (kind, n) in all.templates.iter().flat_map(|t| &t.failed) {
        *kinds.entry(kind).or_default() += if own(&kind) { *n } else { 0 };
    }
    kinds.retain(|kind, _| own(kind));
    let ended = sum(|t| t.completed) + kinds.values().sum::<u64>() as f64;
    put("requests", "1", Some(ended).filter(|n| *n > 0.0));
    for (kind, n) in kinds {
        put(&format!("failed.{kind}"), "1", Some(n as f64));
    }
    if let [only] = all.templates.as_slice() {
        figures.extend(latencies("latency_ns", only.latency_ns.response));
        figures.extend(latencies("connect_ns", only.latency_ns.connect));
        figures.extend(latencies("first_byte_ns", only.latency_ns.first_byte));
    }
    figures
}

fn template(all: &TrafficFigures, index: usize) -> Vec<ReportedFigure> {
    let t = &all.templates[index];
    let mut figures = Vec::new();
    figures.extend(
        t.completed_per_s
            .map(|v| ReportedFigure::new("rate_per_s", "1/s", v, 0.0)),
    );
    for (name, n) in [
        ("attempted", t.attempted),
        ("connected", t.connected),
        ("completed", t.completed),
        ("late", t.late),
    ] {
        figures.push(whole_number(name, n as f64));
    }
    figures.extend(
        t.failed
            .iter()
            .map(|(kind, n)| whole_number(&format!("failed.{kind}"), *n as f64)),
    );
    figures.extend(latencies("latency_ns", t.latency_ns.response));
    figures.extend(latencies("connect_ns", t.latency_ns.connect));
    figures.extend(latencies("first_byte_ns", t.latency_ns.first_byte));
    figures
}

/// As TRex prints its ports.
fn ports(all: &TrafficFigures, side: &SideFigures) -> Vec<ReportedFigure> {
    let p = &side.ports;
    let mut figures = vec![
        whole_number("opackets", p.tx_frames as f64),
        ReportedFigure::new("obytes", "1", p.tx_bytes as f64, 0.0),
        whole_number("ipackets", p.rx_frames as f64),
        ReportedFigure::new("ibytes", "1", p.rx_bytes as f64, 0.0),
        whole_number("ierrors", p.rx_dropped as f64),
        whole_number("oerrors", p.tx_dropped as f64),
    ];
    let per_s = p.tx_bytes as f64 * 8.0 / all.duration_s.max(f64::MIN_POSITIVE);
    figures.push(ReportedFigure::new("tx_per_s", "bit/s", per_s, 0.0));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::samples::{both_full, run};

    #[test]
    fn counters_of_both_sides_stand_in_one_table() {
        let (plan, trials) = trials(&both_full(), "How many?");
        let record = record::RunRecord {
            manifest: record::Manifest {
                format: 1,
                prony: String::new(),
                question: plan.question.clone(),
                command: Vec::new(),
                started: String::new(),
                ended: None,
                interrupted: false,
            },
            plan: serde_json::to_value(&plan).unwrap(),
            experiment: String::new(),
            environment: Vec::new(),
            trials,
            traffic: Some(both_full()),
        };
        let analysis = crate::analyse(&record).unwrap();
        assert_eq!(analysis.verdict, super::super::judge(&both_full()));
        let tables = crate::imported::reported_tables(&plan, &analysis);
        let table = tables.iter().find(|t| t.stage == "counters").unwrap();
        assert_eq!((table.factor.as_str(), table.columns.len()), ("side", 2));
        let names: Vec<&str> = table.rows.iter().map(|r| r.head[0].as_str()).collect();
        assert_eq!(
            names,
            [
                "m_peak_flows",
                "tcps_connattempt",
                "tcps_connects",
                "tcps_sndtotal",
                "asked"
            ]
        );
        assert!(
            table
                .rows
                .iter()
                .all(|r| r.cells.iter().flatten().all(|c| c.gain.is_none()))
        );
    }

    #[test]
    fn one_template_stands_in_the_whole() {
        let (plan, trials) = trials(&run(), "q");
        let stages: Vec<&str> = plan.stages.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(stages, ["traffic", "counters", "ports"]);
        let whole = trials[0].reported.as_ref().unwrap();
        assert_eq!(whole.value("rate_per_s"), Some(1_999.0));
        assert_eq!(whole.value("failed.timeout"), Some(10.0));
        assert_eq!(whole.error_share(), Some(10.0 / 20_000.0));
        assert!(whole.value("latency_ns.p99").is_some());
    }
}
