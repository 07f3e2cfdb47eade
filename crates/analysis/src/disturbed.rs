//! Trials in which programs outside the experiment took CPU: which they are, which were measured again, and what a
//! reader must know of it.

use crate::TrialAnalysis;
use crate::words::{plural, trial_numbers};
use plan::Plan;
use record::{RunRecord, TrialState, Warning};
use std::collections::BTreeSet;

/// Numbers of the trials that other programs disturbed.
pub fn disturbed(trials: &[TrialAnalysis]) -> Vec<u32> {
    let disturbed = trials.iter().filter(|t| t.is_disturbed());
    disturbed.map(|t| t.id).collect()
}

/// Names the trial that stands in the place of each one that was measured again.
pub(crate) fn mark(plan: &Plan, record: &RunRecord, trials: &mut [TrialAnalysis]) {
    let complete = record
        .trials
        .iter()
        .filter(|t| t.state == TrialState::Complete);
    let complete: BTreeSet<u32> = complete.map(|t| t.id).collect();
    for again in plan.replaced(&complete) {
        let trial = trials.iter_mut().find(|t| t.id == again.of);
        if let Some(trial) = trial {
            trial.replaced_by = Some(again.trial);
        }
    }
}

/// One warning for all of them.
pub(crate) fn warning(trials: &[TrialAnalysis]) -> Option<Warning> {
    let found: Vec<&TrialAnalysis> = trials.iter().filter(|t| t.is_disturbed()).collect();
    let most = found
        .iter()
        .filter_map(|t| t.foreign_cores)
        .reduce(f64::max)?;
    let again = match found.iter().filter(|t| t.replaced_by.is_some()).count() {
        0 => "none of them was measured again".to_owned(),
        n => format!("{n} of them were measured again, and the second measurement stands"),
    };
    Some(Warning::new(
        "trials_disturbed",
        format!(
            "programs outside the experiment took more than {} core in {} of {} ({}; {most:.2} cores at most): {again}",
            TrialAnalysis::DISTURBED_CORES,
            found.len(),
            plural(trials.len() as u64, "trial"),
            trial_numbers(found.iter().map(|t| t.id)),
        ),
        "stop what else runs on this host; a longer `budget` lets more trials be measured again",
    ))
}
