//! Two records side by side by what their servers do for each request: a regression test where timing cannot be one.

use crate::diagnosis::{CallChange, signature_diff};
use plan::Levels;
use record::{RunRecord, Signature, TrialRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One cell that both records examined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellCompared {
    /// Stage.
    pub stage: String,
    /// Level of each factor.
    pub levels: Levels,
    /// Calls per request that differ, largest difference first.
    pub changes: Vec<CallChange>,
    /// Calls that differ and whose number depends on how fast things go: shown, and no regression.
    pub by_timing: Vec<CallChange>,
}

/// What two records have in common and where they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Cells with a signature in both.
    pub cells: Vec<CellCompared>,
    /// Cells that only one of them has counted, by name.
    pub unmatched: Vec<String>,
}

impl Comparison {
    /// Nothing differs that does not depend on timing.
    pub fn same(&self) -> bool {
        self.cells.iter().all(|cell| cell.changes.is_empty())
    }
}

/// Calls that a server makes when it has nothing to do or when two threads meet: one per wake-up, not per request.
const BY_TIMING: [&str; 12] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "futex",
    "sched_yield",
    "restart_syscall",
    "nanosleep",
    "clock_nanosleep",
];

/// Compares the signatures of two records, cell by cell. `tolerance` is the relative difference of a count (0 to 1)
/// that is none.
pub fn compare(a: &RunRecord, b: &RunRecord, tolerance: f64) -> Comparison {
    let mut comparison = Comparison::default();
    for (trial, before) in signed(a) {
        match signed(b).find(|(other, _)| same_cell(trial, other)) {
            Some((_, after)) => {
                let differs =
                    |c: &CallChange| (c.after - c.before).abs() > tolerance * c.before.max(c.after);
                let (by_timing, changes) = signature_diff(before, after)
                    .into_iter()
                    .filter(differs)
                    .partition(|c| BY_TIMING.contains(&c.call.as_str()));
                comparison.cells.push(CellCompared {
                    stage: trial.stage.clone(),
                    levels: trial.levels.clone(),
                    changes,
                    by_timing,
                });
            }
            None => comparison.unmatched.push(name(trial)),
        }
    }
    let only_b =
        signed(b).filter(|(trial, _)| !signed(a).any(|(other, _)| same_cell(trial, other)));
    comparison
        .unmatched
        .extend(only_b.map(|(trial, _)| name(trial)));
    comparison
}

fn signed(record: &RunRecord) -> impl Iterator<Item = (&TrialRecord, &Signature)> {
    record.trials.iter().filter_map(|trial| {
        let signature = trial.examination.as_ref()?.signature.as_ref()?;
        (signature.requests > 0).then_some((trial, signature))
    })
}

fn same_cell(a: &TrialRecord, b: &TrialRecord) -> bool {
    a.stage == b.stage && a.levels == b.levels
}

fn name(trial: &TrialRecord) -> String {
    let levels = trial.levels.iter().map(|(k, v)| format!(" {k}={v}"));
    format!("{}{}", trial.stage, levels.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{CallStats, Examination, FdClass, Manifest, TargetSignature};

    fn record(readv: u64, epoll_wait: u64) -> RunRecord {
        let stats = |call: &str, calls| CallStats {
            call: call.into(),
            class: FdClass::Upstream,
            calls,
            ..CallStats::default()
        };
        let mut trial = blank();
        trial.examination = Some(Examination {
            signature: Some(Signature {
                requests: 1_000,
                targets: vec![TargetSignature {
                    target: "server".into(),
                    calls: Some(vec![stats("readv", readv), stats("epoll_wait", epoll_wait)]),
                    ..TargetSignature::default()
                }],
                ..Signature::default()
            }),
            ..Examination::default()
        });
        RunRecord {
            manifest: Manifest {
                format: record::run::FORMAT,
                prony: "0.1.0".into(),
                question: String::new(),
                command: vec![],
                started: String::new(),
                ended: None,
                interrupted: false,
            },
            plan: serde_json::Value::Null,
            experiment: String::new(),
            environment: vec![],
            trials: vec![trial],
        }
    }

    fn blank() -> TrialRecord {
        TrialRecord {
            id: 0,
            stage: "diagnose".into(),
            block: 0,
            levels: Levels::new(),
            load: record::LoadSpec::new("http://127.0.0.1:1/"),
            state: record::TrialState::Complete,
            outcome: None,
            targets: vec![],
            unavailable: vec![],
            warnings: vec![],
            series: vec![],
            examination: None,
            files: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn a_call_more_for_each_request_is_a_difference_and_a_wake_up_is_not() {
        let same = compare(&record(10_000, 300), &record(10_050, 3_000), 0.02);
        assert!(same.same());
        assert_eq!(same.cells[0].by_timing.len(), 1);
        let fewer = compare(&record(10_000, 300), &record(1_000, 300), 0.02);
        assert!(!fewer.same());
        let change = &fewer.cells[0].changes[0];
        assert_eq!((change.before, change.after), (10.0, 1.0));
        assert!(compare(&record(10_000, 1), &record(10_400, 1), 0.05).same());
    }

    #[test]
    fn a_cell_that_only_one_has_is_named() {
        let mut other = record(1, 1);
        other.trials[0].stage = "elsewhere".into();
        let compared = compare(&record(1, 1), &other, 0.02);
        assert!(compared.cells.is_empty());
        assert_eq!(compared.unmatched.len(), 2);
    }
}
