//! The rate of a trial whose plan knows it only as a share, or as the next step of a search.

use analysis::{RunAnalysis, Search};
use plan::{Plan, TrialPlan};
use record::{Arrival, RunRecord};

/// Why a trial has no rate.
#[derive(Debug)]
pub struct Unresolved {
    pub error: String,
    pub remedy: String,
}

/// The search that a trial is a step of.
pub fn search_of<'a>(
    plan: &Plan,
    analysis: &'a RunAnalysis,
    trial: &TrialPlan,
) -> Option<&'a Search> {
    let stage = &plan.stages[trial.stage];
    stage.search?;
    let mut searches = analysis.searches.iter();
    searches.find(|s| s.stage == stage.name && s.levels == trial.levels)
}

/// The arrivals of a trial: those of its plan, a share of what earlier stages found, or the step that the search is at.
pub fn arrival(
    plan: &Plan,
    record: &RunRecord,
    analysis: &RunAnalysis,
    trial: &TrialPlan,
) -> Result<Arrival, Unresolved> {
    let rate = match (search_of(plan, analysis, trial), trial.rate_of_capacity) {
        (Some(search), _) => search.next_per_s(),
        (None, Some(share)) => rate_before(plan, record, trial.id).or_else(|| {
            let full = analysis.full_rate_per_s(plan, trial.stage)?;
            Some((full * share).round().max(1.0))
        }),
        (None, None) => return Ok(trial.load.arrival),
    };
    let per_s = rate.ok_or_else(|| unresolved(trial))?;
    Ok(match trial.load.arrival {
        Arrival::Poisson { seed, .. } => Arrival::Poisson { per_s, seed },
        Arrival::Constant { .. } | Arrival::Closed => Arrival::Constant { per_s },
    })
}

/// The rate that was offered in the trial that this one measures again, or is beside: the full rate may have become
/// another since, and both are to be of one cell.
fn rate_before(plan: &Plan, record: &RunRecord, id: u32) -> Option<f64> {
    let again = plan.again.iter().find(|a| a.trial == id)?;
    let before = record.trials.iter().find(|t| t.id == again.of)?;
    before.load.arrival.offered_per_s()
}

/// Whether the trial's rate is a share of what a search should have found and did not.
pub fn found_nothing(plan: &Plan, analysis: &RunAnalysis, trial: &TrialPlan) -> bool {
    let before = &plan.stages[..trial.stage];
    before.iter().any(|s| s.search.is_some())
        && trial.rate_of_capacity.is_some()
        && analysis.full_rate_per_s(plan, trial.stage).is_none()
}

fn unresolved(trial: &TrialPlan) -> Unresolved {
    match trial.rate_of_capacity {
        None => Unresolved {
            error:
                "the search has no rate to begin at: no closed-loop trial before it had a response"
                    .to_owned(),
            remedy: "see why the closed-loop trials failed".to_owned(),
        },
        Some(share) => Unresolved {
            error: format!(
                "the rate is {:.0} % of the capacity, but no closed-loop trial before it was valid",
                share * 100.0
            ),
            remedy: "see why the closed-loop trials are not valid, or give the rate as a number"
                .to_owned(),
        },
    }
}
