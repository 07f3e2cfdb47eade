//! A run as tidy CSV (quoted as in RFC 4180, lines end with a line feed): one row for each trial and metric, with
//! its unit, as R and pandas read it.
//!
//! Every factor of the run is a column, `factor_NAME`, empty where a stage does not have it. A trial that is not
//! valid has rows too, and says so: filter by `valid`; or by `used`, which leaves those that the figures of their cells
//! are of (a cell with too few valid trials has none, and of a trial that was measured again the second one counts).
//! A value that was not measured is empty, which both read as missing.

use analysis::{LatencySummary, RunAnalysis, TrialAnalysis};
use record::{LoadOutcome, RunRecord, TrialRecord};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// One run of several in a table.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Its name in the column `record`.
    pub name: &'a str,
    pub record: &'a RunRecord,
    pub analysis: &'a RunAnalysis,
}

/// All trials of all runs, in one table with one header.
pub fn csv(runs: &[Run]) -> String {
    let factors: BTreeSet<&String> = runs
        .iter()
        .flat_map(|r| &r.analysis.trials)
        .flat_map(|t| t.levels.keys())
        .collect();
    let mut text = String::new();
    let fixed_before = ["record", "started", "stage", "cell"].map(str::to_owned);
    let fixed_after = [
        "block", "trial", "valid", "used", "limit", "of", "metric", "value", "unit",
    ]
    .map(str::to_owned);
    let columns = factors.iter().map(|f| format!("factor_{f}"));
    line(
        &mut text,
        fixed_before.into_iter().chain(columns).chain(fixed_after),
    );
    for run in runs {
        for trial in &run.analysis.trials {
            let stored = run.record.trials.iter().find(|t| t.id == trial.id);
            let cells = &run.analysis.cells;
            let cell = cells
                .iter()
                .position(|c| c.stage == trial.stage && c.levels == trial.levels);
            let used = cell.is_some_and(|at| cells[at].used().contains(&trial.id));
            let before = [
                run.name.to_owned(),
                run.record.manifest.started.clone(),
                trial.stage.clone(),
                cell.map_or_else(String::new, |c| c.to_string()),
            ];
            let levels = factors
                .iter()
                .map(|f| trial.levels.get(*f).cloned().unwrap_or_default());
            let key: Vec<String> = before.into_iter().chain(levels).collect();
            for metric in metrics(trial, stored) {
                let after = [
                    trial.block.to_string(),
                    trial.id.to_string(),
                    trial.verdict.valid.to_string(),
                    used.to_string(),
                    trial.verdict.limit.name().to_owned(),
                    metric.of,
                    metric.name,
                    metric.value.map_or_else(String::new, |v| v.to_string()),
                    metric.unit.to_owned(),
                ];
                line(&mut text, key.iter().cloned().chain(after));
            }
        }
    }
    text
}

/// A line of the table; fields are quoted where they must be.
fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&quoted(&field));
    }
    text.push('\n');
}

/// A field as it stands in a line.
pub(crate) fn quoted(field: &str) -> Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

/// A value of a trial.
struct Metric<'a> {
    /// Core, process, worker; empty for the trial as a whole.
    of: String,
    name: String,
    value: Option<f64>,
    unit: &'a str,
}

fn metrics<'a>(trial: &'a TrialAnalysis, stored: Option<&TrialRecord>) -> Vec<Metric<'a>> {
    let outcome = stored.and_then(|t| t.outcome.as_ref());
    let open_loop = stored.is_some_and(|t| t.load.arrival.offered_per_s().is_some());
    let of_trial = |name: &str, value: Option<f64>, unit| Metric {
        of: String::new(),
        name: name.to_owned(),
        value,
        unit,
    };
    let mut all: Vec<Metric<'a>> = Vec::new();
    if open_loop {
        all.push(of_trial("offered_per_s", trial.offered_per_s, "1/s"));
    }
    all.push(of_trial("achieved_per_s", trial.achieved_per_s, "1/s"));
    all.extend(latency("response_ns", trial.response_ns));
    if open_loop {
        all.extend(latency("service_ns", trial.service_ns));
    }
    let of_steady = trial.steady.as_ref();
    all.extend([
        of_trial("error_share", trial.error_share, "1"),
        of_trial(
            "target_cpu_us_per_request",
            trial.target_cpu_us_per_request,
            "us",
        ),
        of_trial(
            "generator_cpu_us_per_request",
            trial.generator_cpu_us_per_request,
            "us",
        ),
        of_trial("generator_utilization", trial.generator_utilization, "1"),
        of_trial("foreign_cores", trial.foreign_cores, "cores"),
        of_trial("rate_dropped", of_steady.map(|s| s.dropped_s), "s"),
        of_trial("rate_drift", of_steady.map(|s| s.drift), "1"),
        of_trial("rate_variation", of_steady.map(|s| s.variation), "1"),
    ]);
    all.extend(outcome.into_iter().flat_map(requests));
    for usage in &trial.usage {
        let of = || format!("{} {}", usage.owner, usage.name);
        let metric = |name: String, value: f64| Metric {
            of: of(),
            name,
            value: Some(value),
            unit: "1",
        };
        all.push(metric("cpu_utilization".to_owned(), usage.utilization));
        let modes = usage.by_mode.iter();
        all.extend(modes.map(|(mode, share)| metric(format!("cpu_{mode}"), *share)));
    }
    for target in stored.iter().flat_map(|t| &t.targets) {
        let workers = target.requests_by_worker.iter();
        all.extend(workers.map(|(worker, count)| Metric {
            of: format!("{} {worker}", target.name),
            name: "requests_of_worker".to_owned(),
            value: Some(*count as f64),
            unit: "requests",
        }));
    }
    if let Some(reported) = &trial.reported {
        all.extend(reported.figures.iter().map(|figure| Metric {
            of: format!("reported by {}", reported.tool),
            name: figure.name.clone(),
            value: Some(figure.value),
            unit: &figure.unit,
        }));
    }
    all
}

/// A figure of a latency's summary, with its name.
type Figure = (&'static str, fn(&LatencySummary) -> f64);

fn latency<'a>(prefix: &str, summary: Option<LatencySummary>) -> Vec<Metric<'a>> {
    let fields: [Figure; 11] = [
        ("min", |s| s.min as f64),
        ("mean", |s| s.mean),
        ("p50", |s| s.p50 as f64),
        ("p75", |s| s.p75 as f64),
        ("p90", |s| s.p90 as f64),
        ("p95", |s| s.p95 as f64),
        ("p99", |s| s.p99 as f64),
        ("p999", |s| s.p999 as f64),
        ("p9999", |s| s.p9999 as f64),
        ("max", |s| s.max as f64),
        ("stddev", |s| s.stddev),
    ];
    let metric = |(name, of): &Figure| Metric {
        of: String::new(),
        name: format!("{prefix}_{name}"),
        value: summary.as_ref().map(of),
        unit: "ns",
    };
    fields.iter().map(metric).collect()
}

fn requests<'a>(outcome: &LoadOutcome) -> Vec<Metric<'a>> {
    let r = &outcome.requests;
    [
        ("scheduled", r.scheduled),
        ("sent", r.sent),
        ("completed", r.completed),
        ("succeeded", r.succeeded),
        ("late", r.late),
        ("dropped", r.dropped),
        ("failed", r.failures()),
    ]
    .map(|(name, count)| Metric {
        of: String::new(),
        name: format!("requests_{name}"),
        value: Some(count as f64),
        unit: "requests",
    })
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        for (field, want) in [
            ("plain", "plain"),
            ("4 128k", "4 128k"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let mut text = String::new();
            line(&mut text, [field.to_owned()].into_iter());
            assert_eq!(text, format!("{want}\n"));
        }
    }
}
