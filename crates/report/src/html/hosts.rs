//! The hosts of a load: what each brought, and a lane for each of them, the server's host included, on one axis of
//! time.

use super::series::busy;
use crate::number::{Number, Source, Unit};
use analysis::{AgentState, TrialAnalysis};
use record::{Interval, LoadOutcome, Nanos, Series, TrialRecord};
use serde::Serialize;
use std::fmt::Write;

/// Height of a lane, px.
const HEIGHT: f64 = 36.0;
/// Bars of a lane at most.
const BARS: usize = 120;

/// A load of several hosts.
#[derive(Debug, Serialize)]
pub struct HostsView {
    rows: Vec<HostRow>,
    lanes: Vec<Lane>,
}

/// What one host brought.
#[derive(Debug, Serialize)]
struct HostRow {
    host: String,
    valid: bool,
    /// Why its part is not valid, or was not carried.
    why: String,
    threads: Option<Number>,
    connections: Option<Number>,
    rate: Option<Number>,
    share: Option<Number>,
    p50: Option<Number>,
    p99: Option<Number>,
    busy: Option<Number>,
    clock: Option<Number>,
}

/// One host over the time of the load.
#[derive(Debug, Serialize)]
struct Lane {
    host: String,
    what: &'static str,
    svg: String,
}

/// The hosts of a trial; `None` for a load of this host alone. `at` is where the trial stands in `source`.
pub fn hosts(
    trial: &TrialRecord,
    analysed: &TrialAnalysis,
    source: &Source,
    at: &str,
) -> Option<HostsView> {
    let outcome = trial.outcome.as_ref()?;
    if analysed.agents.is_empty() {
        return None;
    }
    let row = |(i, agent): (usize, &analysis::AgentFigures)| {
        let number = |field: &str, unit| source.number(&format!("{at}/agents/{i}/{field}"), unit);
        let why = match &agent.state {
            AgentState::Carried(carried) => {
                let verdict = carried.verdict.as_ref().filter(|verdict| !verdict.valid);
                verdict.map(|verdict| verdict.why.clone())
            }
            AgentState::Refused { why, .. } => Some(format!("refused: {why}")),
            AgentState::Lost { why, .. } => Some(format!("lost: {why}")),
        };
        HostRow {
            host: agent.host.clone(),
            valid: why.is_none(),
            why: why.unwrap_or_default(),
            threads: number("threads", Unit::Count),
            connections: number("connections/asked", Unit::Count),
            rate: number("achieved_per_s", Unit::PerSecond),
            share: number("share_of_requests", Unit::Share),
            p50: number("response_ns/p50", Unit::Nanos),
            p99: number("response_ns/p99", Unit::Nanos),
            busy: number("utilization", Unit::Share),
            clock: number("clock/bound_ns", Unit::Nanos),
        }
    };
    Some(HostsView {
        rows: analysed.agents.iter().enumerate().map(row).collect(),
        lanes: lanes(trial, outcome),
    })
}

/// Answers of each host and the CPU of each, all over the time from the start of the load to its end.
fn lanes(trial: &TrialRecord, outcome: &LoadOutcome) -> Vec<Lane> {
    let windows = windows(outcome);
    let carried = || {
        let parts = trial.hosts.iter();
        parts.filter_map(|part| Some((&part.host, part.carried()?)))
    };
    let answers: Vec<_> = carried()
        .map(|(host, part)| (host, answers(&part.outcome.intervals, &windows)))
        .collect();
    let all = answers.iter().flat_map(|(_, values)| values);
    // One scale, so that lanes can be held against each other.
    let most = all.copied().fold(0.0, f64::max);
    let warm = outcome.measured_from;
    let lane = |host: &str, what, values: &[f64], most| Lane {
        host: host.to_owned(),
        what,
        svg: bars(values, most, &windows, warm),
    };
    let mut lanes = Vec::new();
    for ((host, part), (_, answers)) in carried().zip(&answers) {
        lanes.push(lane(host, "answers", answers, most));
        lanes.extend(cpu(&part.series, &windows).map(|cpu| lane(host, "CPU", &cpu, 1.0)));
    }
    let here = cpu(&trial.series, &windows);
    lanes.extend(here.map(|cpu| lane("the server's host", "CPU", &cpu, 1.0)));
    lanes
}

fn windows(outcome: &LoadOutcome) -> Vec<(Nanos, Nanos)> {
    let (from, to) = (outcome.started_at.0, outcome.measured_to.0);
    let span = to.saturating_sub(from);
    let edge = |n: usize| Nanos(from + span * n as u64 / BARS as u64);
    (0..BARS).map(|n| (edge(n), edge(n + 1))).collect()
}

/// Answers in each window: those of a slice are spread over its time.
fn answers(intervals: &[Interval], windows: &[(Nanos, Nanos)]) -> Vec<f64> {
    let of_window = |&(from, to): &(Nanos, Nanos)| {
        let within = intervals.iter().map(|slice| {
            let shared = to.min(slice.to).since(from.max(slice.from));
            let whole = slice.to.since(slice.from).as_secs_f64();
            match whole > 0.0 {
                true => slice.succeeded as f64 * shared.as_secs_f64() / whole,
                false => 0.0,
            }
        });
        within.sum()
    };
    windows.iter().map(of_window).collect()
}

/// Share of all cores that was busy in each window; `None` where they were not watched.
fn cpu(series: &[Series], windows: &[(Nanos, Nanos)]) -> Option<Vec<f64>> {
    let cores: Vec<&Series> = series
        .iter()
        .filter(|s| s.label("core").is_some())
        .collect();
    (!cores.is_empty()).then(|| windows.iter().map(|window| busy(&cores, *window)).collect())
}

/// A bar for each window; those of the warm-up are pale.
fn bars(values: &[f64], most: f64, windows: &[(Nanos, Nanos)], measured_from: Nanos) -> String {
    let width = 100.0 / values.len().max(1) as f64;
    let mut svg = format!(
        "<svg class=\"seconds\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"over the time of the load\">"
    );
    for (n, (value, (from, _))) in values.iter().zip(windows).enumerate() {
        let height = if most > 0.0 {
            value / most * HEIGHT
        } else {
            0.0
        };
        if height <= 0.0 {
            continue;
        }
        let class = if *from < measured_from {
            "probed"
        } else {
            "normal"
        };
        write!(
            svg,
            "<rect class=\"{class}\" x=\"{:.2}%\" y=\"{:.1}\" width=\"{width:.2}%\" height=\"{height:.1}\"/>",
            n as f64 * width,
            HEIGHT - height,
        )
        .expect("writing to a string does not fail");
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_slice_are_spread_over_its_time() {
        let slice = |from, to, succeeded| Interval {
            from: Nanos(from),
            to: Nanos(to),
            succeeded,
            ..Interval::default()
        };
        let intervals = [slice(0, 100, 10), slice(100, 200, 40)];
        let windows = [
            (Nanos(0), Nanos(50)),
            (Nanos(50), Nanos(150)),
            (Nanos(300), Nanos(400)),
        ];
        assert_eq!(answers(&intervals, &windows), [5.0, 25.0, 0.0]);
    }

    #[test]
    fn bars_of_the_warm_up_are_pale() {
        let windows = [
            (Nanos(0), Nanos(1)),
            (Nanos(1), Nanos(2)),
            (Nanos(2), Nanos(3)),
        ];
        let svg = bars(&[1.0, 2.0, 0.0], 2.0, &windows, Nanos(1));
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert!(
            svg.contains("class=\"probed\" x=\"0.00%\" y=\"18.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"normal\" x=\"33.33%\" y=\"0.0\""),
            "{svg}"
        );
    }
}
