//! A whole run: its trials, cells and knees, and one verdict over all of them.

use crate::cells::cells;
use crate::knee::knees;
use crate::trial::analyse_trial;
use crate::words::{levels, plural, rate};
use crate::{AnalysisError, Cell, Limit, RunAnalysis, TrialAnalysis, Verdict};
use plan::Plan;
use record::{RunRecord, Warning};
use std::collections::BTreeMap;

/// Trials that a warning names by number before it says "and more".
const NAMED_TRIALS: usize = 5;

/// Analyses a run from nothing but its record.
///
/// # Errors
/// [`AnalysisError::Plan`] when the stored plan cannot be read.
pub fn analyse(record: &RunRecord) -> Result<RunAnalysis, AnalysisError> {
    let plan: Plan =
        serde_json::from_value(record.plan.clone()).map_err(|e| AnalysisError::Plan {
            cause: e.to_string(),
        })?;
    let (trials, own): (Vec<TrialAnalysis>, Vec<Vec<Warning>>) = record
        .trials
        .iter()
        .map(|t| analyse_trial(t, plan.error_limit))
        .unzip();
    let cells = cells(&plan, &trials);
    Ok(RunAnalysis {
        verdict: run_verdict(&cells, &trials),
        capacity_per_s: best(&cells, true).and_then(rate_of),
        knees: knees(&plan, &cells),
        warnings: warnings(record, &plan, &trials, &own),
        cells,
        trials,
    })
}

fn rate_of(cell: &Cell) -> Option<f64> {
    cell.achieved_per_s.map(|s| s.median)
}

/// The cell with the highest valid rate, of the closed loops or of the open ones.
fn best(cells: &[Cell], closed: bool) -> Option<&Cell> {
    cells
        .iter()
        .filter(|c| c.offered_per_s.is_none() == closed && rate_of(c).is_some())
        .max_by(|a, b| {
            let rate = |c: &Cell| rate_of(c).unwrap_or(0.0);
            rate(a).total_cmp(&rate(b))
        })
}

/// What limits the server at its best. A closed-loop sweep searches the capacity; without one the highest
/// open-loop rate speaks.
fn run_verdict(cells: &[Cell], trials: &[TrialAnalysis]) -> Verdict {
    let Some(best) = best(cells, true).or_else(|| best(cells, false)) else {
        return no_valid_trial(trials);
    };
    let verdict = best
        .verdict
        .clone()
        .unwrap_or_else(|| Verdict::invalid("the best cell has no verdict", ""));
    if let Some(faster) = faster_but_limited(best, &verdict, trials) {
        return capacity_not_found(best, faster);
    }
    Verdict {
        why: format!("{}: {}", at_its_best(best), verdict.why),
        ..verdict
    }
}

fn at_its_best(cell: &Cell) -> String {
    let rate = rate(rate_of(cell).unwrap_or(0.0));
    match cell.levels.is_empty() {
        true => format!("{rate}/s"),
        false => format!("{rate}/s at {}", levels(&cell.levels)),
    }
}

/// A closed-loop trial that the generator limited and that was faster than the best valid cell, when the
/// server did not limit that cell: the server can do more, and this run cannot say how much.
fn faster_but_limited<'a>(
    best: &Cell,
    verdict: &Verdict,
    trials: &'a [TrialAnalysis],
) -> Option<&'a TrialAnalysis> {
    if verdict.limit == Limit::Server || best.offered_per_s.is_some() {
        return None;
    }
    let limited = trials
        .iter()
        .filter(|t| !t.verdict.valid && t.verdict.limit == Limit::Generator);
    limited
        .filter(|t| t.offered_per_s.is_none() && t.achieved_per_s > rate_of(best))
        .max_by(|a, b| {
            let rate = |t: &TrialAnalysis| t.achieved_per_s.unwrap_or(0.0);
            rate(a).total_cmp(&rate(b))
        })
}

fn capacity_not_found(best: &Cell, faster: &TrialAnalysis) -> Verdict {
    Verdict {
        valid: false,
        why: format!(
            "the capacity was not found: the highest valid rate is {}, and at {} {}",
            at_its_best(best),
            levels(&faster.levels),
            faster.verdict.why
        ),
        ..faster.verdict.clone()
    }
}

fn no_valid_trial(trials: &[TrialAnalysis]) -> Verdict {
    let Some(first) = trials.first() else {
        return Verdict::invalid("no trial ended", "run it again, or continue it");
    };
    Verdict {
        valid: false,
        why: format!(
            "none of {} is valid; the first: {}",
            plural(trials.len() as u64, "trial"),
            first.verdict.why
        ),
        ..first.verdict.clone()
    }
}

fn warnings(
    record: &RunRecord,
    plan: &Plan,
    trials: &[TrialAnalysis],
    own: &[Vec<Warning>],
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend(not_run(record, plan, trials));
    warnings.extend(not_valid(trials));
    warnings.extend(unavailable(record));
    warnings.extend(merged(trials, own));
    warnings
}

fn not_run(record: &RunRecord, plan: &Plan, trials: &[TrialAnalysis]) -> Option<Warning> {
    let missing = plan.trials.len().saturating_sub(trials.len());
    let stopped = if record.manifest.interrupted {
        ": a person stopped the run"
    } else {
        ""
    };
    (missing > 0 || record.manifest.interrupted).then(|| {
        Warning::new(
            "trials_not_run",
            format!(
                "{missing} of {} did not run{stopped}",
                plural(plan.trials.len() as u64, "planned trial")
            ),
            "continue the run",
        )
    })
}

/// One warning a limit, so that forty trials with the same fault read as one line.
fn not_valid(trials: &[TrialAnalysis]) -> Vec<Warning> {
    let mut by_reason: BTreeMap<String, Vec<&TrialAnalysis>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| !t.verdict.valid) {
        by_reason
            .entry(reason(&trial.verdict))
            .or_default()
            .push(trial);
    }
    by_reason
        .into_values()
        .map(|group| {
            Warning::new(
                "trials_not_valid",
                format!(
                    "{} of {} not valid and left out ({}): {}",
                    group.len(),
                    match trials.len() {
                        1 => "1 trial is".to_owned(),
                        n => format!("{n} trials are"),
                    },
                    numbers(group.iter().map(|t| t.id)),
                    group[0].verdict.why
                ),
                group[0].verdict.remedy.clone(),
            )
        })
        .collect()
}

/// The first clause of a reason without its numbers.
fn reason(verdict: &Verdict) -> String {
    let clause = verdict
        .why
        .split([':', ';', '('])
        .next()
        .unwrap_or_default();
    let words = clause.chars().filter(|c| !c.is_ascii_digit());
    format!("{}/{}", verdict.limit.name(), words.collect::<String>())
}

fn numbers(ids: impl Iterator<Item = u32>) -> String {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    let shown = ids[..ids.len().min(NAMED_TRIALS)].join(", ");
    let noun = if ids.len() == 1 { "trial" } else { "trials" };
    match ids.len().saturating_sub(NAMED_TRIALS) {
        0 => format!("{noun} {shown}"),
        more => format!("{noun} {shown} and {more} more"),
    }
}

/// What could not be watched in any trial, once each.
fn unavailable(record: &RunRecord) -> Vec<Warning> {
    let mut seen: BTreeMap<&str, Warning> = BTreeMap::new();
    for gap in record.trials.iter().flat_map(|t| &t.unavailable) {
        seen.entry(&gap.what).or_insert_with(|| {
            Warning::new(
                "not_watched",
                format!("{} could not be watched: {}", gap.what, gap.reason),
                gap.remedy.clone(),
            )
        });
    }
    seen.into_values().collect()
}

/// The trials' own warnings, those of one name merged.
fn merged(trials: &[TrialAnalysis], own: &[Vec<Warning>]) -> Vec<Warning> {
    let mut by_name: BTreeMap<&str, Vec<(u32, &Warning)>> = BTreeMap::new();
    for (trial, warnings) in trials.iter().zip(own) {
        for warning in warnings {
            by_name
                .entry(&warning.name)
                .or_default()
                .push((trial.id, warning));
        }
    }
    by_name
        .into_values()
        .map(|group| {
            let (_, first) = group[0];
            let at = numbers(group.iter().map(|(id, _)| *id));
            Warning {
                seen: format!("{} ({at})", first.seen),
                ..first.clone()
            }
        })
        .collect()
}
