//! A gate: whether a level of an experiment is worse than its baseline by more than is allowed.
//!
//! Only what is certain fails. An interval decides and not its middle, so a host on which little can be told tells
//! little and fails nothing; how small an effect it could have seen is a part of the result. Counts per request are
//! free of noise and decide by themselves.

use crate::cells::baseline;
use crate::comparison::is_by_timing;
use crate::{CallChange, Cell, Levels, Plan, Ratio, RunAnalysis, signature_diff};
use record::{RunRecord, Signature, TrialState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a gate allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateOptions {
    /// Largest relative change for the worse that still passes: 0.05 for a rate down to 1/1.05, a time up to 1.05.
    pub threshold: f64,
    /// Calls per request may grow by this share.
    pub tolerance: f64,
}

/// What a gate came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    pub options: GateOptions,
    pub result: GateResult,
    /// A row for each cell beside its baseline and each figure.
    pub rows: Vec<GateRow>,
    /// Calls per request that differ from the baseline's, for each cell that was counted.
    pub calls: Vec<GateCalls>,
    /// Cells that say nothing, and why.
    pub silent: Vec<GateSilent>,
}

/// What a gate came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateResult {
    /// Nothing can be worse by more than is allowed.
    Passed,
    /// Something is worse by more than is allowed.
    Failed,
    /// Nothing is seen to be; something could be.
    Undecided,
}

/// One figure of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateRow {
    pub stage: String,
    pub levels: Levels,
    pub figure: GateFigure,
    /// The figure over the baseline's.
    pub ratio: Ratio,
    pub reading: GateReading,
}

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateFigure {
    RatePerS,
    ResponseNsP99,
    CpuUsPerRequest,
}

/// What an interval says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateReading {
    /// All of it is worse than is allowed.
    Worse,
    /// None of it is.
    Held,
    /// It reaches from one side to the other.
    Undecided,
}

/// Calls per request that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateCalls {
    pub stage: String,
    pub levels: Levels,
    pub changes: Vec<CallChange>,
    /// Some grew by more than the tolerance.
    pub more: bool,
}

/// A cell without a ratio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSilent {
    pub stage: String,
    pub levels: Levels,
    pub why: String,
    /// None of its trials could run, while the baseline's could.
    pub broken: bool,
}

/// A call counts as added when it comes at least once more for every second request: how often a socket is found empty
/// varies by less, and one trial of each cell is counted.
const ADDED: f64 = 0.5;

/// Holds every cell of a run against its baseline; `None` for a run without one.
pub fn gate(record: &RunRecord, analysis: &RunAnalysis, options: GateOptions) -> Option<Gate> {
    let plan = Plan::deserialize(&record.plan).ok()?;
    let mut gate = Gate {
        options,
        result: GateResult::Passed,
        rows: Vec::new(),
        calls: Vec::new(),
        silent: Vec::new(),
    };
    let mut has_baseline = false;
    for cell in &analysis.cells {
        let stage = plan.stages.iter().find(|stage| stage.name == cell.stage);
        let Some(before) = stage.and_then(|stage| baseline(stage, cell, &analysis.cells)) else {
            continue;
        };
        has_baseline = true;
        gate.add(record, cell, before);
    }
    gate.result = gate.result();
    has_baseline.then_some(gate)
}

impl Gate {
    fn add(&mut self, record: &RunRecord, cell: &Cell, before: &Cell) {
        let figures = [
            (GateFigure::RatePerS, cell.rate_ratio),
            (GateFigure::ResponseNsP99, cell.p99_ratio),
            (GateFigure::CpuUsPerRequest, cell.cpu_ratio),
        ];
        let threshold = self.options.threshold;
        let rows = figures.into_iter().filter_map(|(figure, ratio)| {
            let ratio = ratio?;
            Some(GateRow {
                stage: cell.stage.clone(),
                levels: cell.levels.clone(),
                figure,
                reading: reading(figure, &ratio, threshold)?,
                ratio,
            })
        });
        let known = self.rows.len();
        self.rows.extend(rows);
        if self.rows.len() == known {
            let broken = failure(record, cell).filter(|_| failure(record, before).is_none());
            let why = cell.not_measured.clone().or_else(|| cell.no_ratio.clone());
            self.silent.push(GateSilent {
                broken: broken.is_some(),
                stage: cell.stage.clone(),
                levels: cell.levels.clone(),
                why: broken
                    .or(why)
                    .unwrap_or_else(|| "there are too few pairs of trials".to_owned()),
            });
        }
        let (Some(one), Some(other)) = (counted(record, before), counted(record, cell)) else {
            return;
        };
        let mut changes = signature_diff(one, other);
        changes.retain(|change| !is_by_timing(&change.call));
        let grown = |c: &CallChange| {
            let added = c.after - c.before;
            added >= ADDED && added > c.before * self.options.tolerance
        };
        self.calls.push(GateCalls {
            stage: cell.stage.clone(),
            levels: cell.levels.clone(),
            more: changes.iter().any(grown),
            changes,
        });
    }

    fn result(&self) -> GateResult {
        let reads = |wanted| self.rows.iter().any(|row| row.reading == wanted);
        let broken = self.silent.iter().any(|silent| silent.broken);
        if broken || reads(GateReading::Worse) || self.calls.iter().any(|calls| calls.more) {
            GateResult::Failed
        } else if reads(GateReading::Undecided) || !self.silent.is_empty() {
            GateResult::Undecided
        } else {
            GateResult::Passed
        }
    }
}

/// `None` where the pairs are too few for an interval.
fn reading(figure: GateFigure, ratio: &Ratio, threshold: f64) -> Option<GateReading> {
    let (low, high) = ratio.interval()?;
    let most = 1.0 + threshold;
    // For the worse is down for a rate, and up for what a request takes.
    let (least_worse, worst) = match figure {
        GateFigure::RatePerS => (1.0 / high, 1.0 / low),
        GateFigure::ResponseNsP99 | GateFigure::CpuUsPerRequest => (low, high),
    };
    Some(if least_worse > most {
        GateReading::Worse
    } else if worst <= most {
        GateReading::Held
    } else {
        GateReading::Undecided
    })
}

/// Why none of the cell's trials ran.
fn failure(record: &RunRecord, cell: &Cell) -> Option<String> {
    let mut why = None;
    for trial in record.trials.iter().filter(|t| cell.trials.contains(&t.id)) {
        let TrialState::Failed { error, .. } = &trial.state else {
            return None;
        };
        why = Some(error.clone());
    }
    why
}

/// The counts of the cell's examined trial.
fn counted<'a>(record: &'a RunRecord, cell: &Cell) -> Option<&'a Signature> {
    let of_cell = record
        .trials
        .iter()
        .rev()
        .filter(|t| cell.trials.contains(&t.id));
    let mut examined = of_cell.filter_map(|t| t.examination.as_ref()?.signature.as_ref());
    examined.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, high: f64, pairs: u32) -> Ratio {
        Ratio {
            ratio: f64::midpoint(low, high),
            low,
            high,
            pairs,
            coverage: 0.95,
            method: crate::Method::None,
            p: None,
            p_adjusted: None,
            smallest_effect: None,
        }
    }

    #[test]
    fn an_interval_decides_and_not_its_middle() {
        let read = |figure, low, high| reading(figure, &ratio(low, high, 6), 0.05);
        let (rate, p99) = (GateFigure::RatePerS, GateFigure::ResponseNsP99);
        assert_eq!(read(rate, 0.90, 0.94), Some(GateReading::Worse));
        // The middle is 8 % down, and a noisy host cannot tell it from 4.
        assert_eq!(read(rate, 0.88, 0.96), Some(GateReading::Undecided));
        assert_eq!(read(rate, 0.96, 1.30), Some(GateReading::Held));
        assert_eq!(read(p99, 1.06, 3.0), Some(GateReading::Worse));
        assert_eq!(read(p99, 0.5, 3.0), Some(GateReading::Undecided));
        assert_eq!(read(p99, 0.5, 1.05), Some(GateReading::Held));
        assert_eq!(reading(p99, &ratio(2.0, 3.0, 2), 0.05), None);
    }

    #[test]
    fn a_call_more_for_each_request_fails_without_any_time() {
        let change = |before: f64, after: f64| CallChange {
            target: "server".to_owned(),
            call: "read".to_owned(),
            class: record::FdClass::Client,
            before,
            after,
            mean_bytes_before: None,
            mean_bytes_after: None,
        };
        let gate = |more| Gate {
            options: GateOptions {
                threshold: 0.05,
                tolerance: 0.02,
            },
            result: GateResult::Passed,
            rows: Vec::new(),
            calls: vec![GateCalls {
                stage: "main".to_owned(),
                levels: Levels::new(),
                changes: vec![change(1.0, 2.0)],
                more,
            }],
            silent: Vec::new(),
        };
        assert_eq!(gate(true).result(), GateResult::Failed);
        assert_eq!(gate(false).result(), GateResult::Passed);
        let mut silent = gate(false);
        silent.silent.push(GateSilent {
            stage: "main".to_owned(),
            levels: Levels::new(),
            why: "no pairs".to_owned(),
            broken: false,
        });
        assert_eq!(silent.result(), GateResult::Undecided, "never red");
        silent.silent[0].broken = true;
        assert_eq!(silent.result(), GateResult::Failed, "it does not start");
    }
}
