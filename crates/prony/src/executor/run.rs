//! A run: the plan's trials in order, each saved as soon as it ends.

use super::trial;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal::{self, Progress};
use analysis::{RunAnalysis, TrialAnalysis};
use plan::Plan;
use record::{RunRecord, TrialRecord, TrialState, Warning};
use target::Launcher;

/// Where a run stands when it ends.
pub struct Ended {
    /// The record with all trials that ended.
    pub record: RunRecord,
    /// Stopped by a person.
    pub interrupted: bool,
    /// The record could not be written any further, and why.
    pub store_failed: Option<String>,
}

/// Runs those trials of `plan` that `record` still lacks.
///
/// # Errors
/// [`Failure`] when the record cannot be analysed, which the capacity for relative rates needs.
pub fn run(
    plan: &Plan,
    mut record: RunRecord,
    store: &mut DirStore,
    launcher: &mut Launcher,
    interrupted: &dyn Fn() -> bool,
) -> Result<Ended, Failure> {
    record.trials.retain(|t| t.state == TrialState::Complete);
    let todo: Vec<_> = plan
        .trials
        .iter()
        .filter(|t| !record.trials.iter().any(|done| done.id == t.id))
        .collect();
    let mut store_failed: Option<String> = None;
    // By place, not by number: cells that are skipped keep their numbers.
    let place_of = |trial: &plan::TrialPlan| plan.trials.iter().position(|t| t.id == trial.id);
    for trial in todo {
        if interrupted() {
            break;
        }
        let capacity = match trial.rate_of_capacity {
            Some(_) => analyse(&record)?.capacity_per_s,
            None => None,
        };
        let place = format!(
            "[{}/{}] ",
            place_of(trial).map_or(0, |place| place + 1),
            plan.trials.len()
        );
        let mut progress = Progress::new(&place);
        let ended = trial::run(plan, trial, capacity, launcher, &mut progress, interrupted);
        progress.clear();
        let saved = ended.save(store);
        record.trials.push(ended);
        record.trials.sort_by_key(|t| t.id);
        show(&place, &record, trial.id)?;
        store_failed = saved
            .err()
            .map(|e| e.to_string())
            .or(store.full().map(str::to_owned));
        if store_failed.is_some() {
            break;
        }
    }
    Ok(Ended {
        record,
        interrupted: interrupted(),
        store_failed,
    })
}

/// Analyses a record; what cannot be analysed is an error of its files.
///
/// # Errors
/// [`Failure`] with the analysis' words.
pub fn analyse(record: &RunRecord) -> Result<RunAnalysis, Failure> {
    analysis::analyse(record).map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))
}

/// One line for the trial that just ended, and the reason where it failed.
fn show(place: &str, record: &RunRecord, id: u32) -> Result<(), Failure> {
    let analysed = analyse(record)?;
    let find = |t: &&TrialAnalysis| t.id == id;
    if let Some(trial) = analysed.trials.iter().find(find) {
        terminal::note(&format!("{place}{}", report::text::trial_line(trial)));
    }
    let ended: Option<&TrialRecord> = record.trials.iter().find(|t| t.id == id);
    if let Some(TrialState::Failed { error, remedy }) = ended.map(|t| &t.state) {
        terminal::warning(&Warning::new("trial_failed", error, remedy));
    }
    Ok(())
}
