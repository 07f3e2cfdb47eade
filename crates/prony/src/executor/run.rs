//! A run: the plan's trials in order, each saved as soon as it ends.
//!
//! The surprise: the plan may grow while it runs. Where it asks for a precision, blocks are added to a stage until its
//! intervals are narrow enough. At the end trials in which other programs took CPU are measured again, as long as the
//! budget of time allows. The stored plan grows with it.

use super::outlook::Outlook;
use super::source::Source;
use super::target::Targets;
use super::{rate, trial};
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal::{self, Progress};
use crate::{host, screen};
use analysis::{RunAnalysis, TrialAnalysis};
use linux::namespace::Home;
use plan::{Lack, Plan, TrialPlan};
use record::{Clock, Nanos, RunRecord, TrialRecord, TrialState, Warning};
use traffic::MonotonicClock;

/// Where a run stands when it ends.
pub struct Ended {
    /// The record with all trials that ended.
    pub record: RunRecord,
    /// Interrupted by Ctrl-C or a signal.
    pub interrupted: bool,
    /// The record could not be written any further, and why.
    pub store_failed: Option<String>,
}

/// Runs those trials of `plan` that `record` still lacks, and more blocks of a stage until it is as precise as the plan
/// asks.
///
/// # Errors
/// [`Failure`] when the record cannot be analysed, which the capacity for relative rates needs, and when a trial left
/// this thread in another network namespace.
pub fn run(
    plan: &Plan,
    mut record: RunRecord,
    store: &mut DirStore,
    targets: &mut Targets,
    source: &mut Source,
    interrupted: &dyn Fn() -> bool,
) -> Result<Ended, Failure> {
    record.trials.retain(|t| t.state == TrialState::Complete);
    let mut plan = plan.clone();
    // Stages before this one are done, however precise they are.
    let mut stage = 0;
    let mut store_failed: Option<String> = None;
    let mut outlook = Outlook::default();
    let clock = MonotonicClock;
    let started_at = clock.now();
    let home = Home::here().map_err(stranded)?;
    while store_failed.is_none() && !interrupted() {
        let done = |id: u32| record.trials.iter().any(|t| t.id == id);
        let next = plan.trials.iter().find(|t| !done(t.id)).cloned();
        let reached = next.as_ref().map_or(plan.stages.len(), |t| t.stage);
        if stage < reached {
            if repeat(&mut plan, &record, stage) {
                store_failed = save_plan(&plan, &mut record, store);
            } else {
                stage += 1;
            }
            continue;
        }
        let Some(trial) = next else {
            if measure_again(&mut plan, &record)? {
                store_failed = save_plan(&plan, &mut record, store);
                continue;
            }
            break;
        };
        let searched = plan.stages[trial.stage].search.is_some();
        let arrival = match searched || trial.rate_of_capacity.is_some() {
            true => {
                let analysed = analyse(&record)?;
                if !searched && rate::found_nothing(&plan, &analysed, &trial) {
                    skip_shares(&mut plan, &trial);
                    store_failed = save_plan(&plan, &mut record, store);
                    continue;
                }
                let search = rate::search_of(&plan, &analysed, &trial);
                if search.is_some_and(|s| !s.steps.is_empty() && s.next_per_s().is_none()) {
                    end_search(&mut plan, &record, &trial);
                    store_failed = save_plan(&plan, &mut record, store);
                    continue;
                }
                rate::arrival(&plan, &record, &analysed, &trial)
            }
            false => Ok(trial.load.arrival),
        };
        let place = format!(
            "[{}/{}] ",
            // By place, not by number: cells that are skipped keep their numbers.
            plan.trials
                .iter()
                .position(|t| t.id == trial.id)
                .map_or(0, |place| place + 1),
            plan.trials.len()
        );
        let ahead = plan.trials.iter().filter(|t| !done(t.id));
        let left = outlook.left(ahead.map(TrialPlan::time));
        show_screen(&record, &plan, &trial, &place, left);
        // On a terminal the lines above say it.
        let mut progress = match screen::is_live() {
            true => Progress::new(""),
            false => Progress::new(&format!("{place}{left} left: ")),
        };
        let mut ended = trial::run(
            &plan,
            &trial,
            arrival,
            targets,
            source,
            &mut progress,
            interrupted,
        );
        progress.clear();
        let lost = home.check().err();
        if let Some(error) = &lost {
            ended.state = TrialState::Failed {
                error: error.to_string(),
                remedy: error.remedy().to_owned(),
            };
        }
        outlook.ended(trial.time(), clock.now().since(started_at));
        let saved = ended.save(store);
        record.trials.push(ended);
        record.trials.sort_by_key(|t| t.id);
        show(&place, &record, trial.id)?;
        // What came after would be measured in the wrong namespace.
        if let Some(error) = lost {
            return Err(stranded(error));
        }
        store_failed = saved
            .err()
            .map(|e| e.to_string())
            .or(store.full().map(str::to_owned));
    }
    screen::close();
    Ok(Ended {
        record,
        interrupted: interrupted(),
        store_failed,
    })
}

/// The thread of the run is not where it was when the run began.
#[expect(
    clippy::needless_pass_by_value,
    reason = "it is what `map_err` hands over"
)]
fn stranded(error: linux::Error) -> Failure {
    Failure::new(Exit::Environment, error.to_string(), error.remedy())
}

/// A share of a rate that was not found is no trial: the cells of the stage are skipped, with the reason once.
fn skip_shares(plan: &mut Plan, first: &TrialPlan) {
    let warned = plan.warnings.len();
    plan.skip(|trial| {
        let is_share = trial.stage == first.stage && trial.rate_of_capacity.is_some();
        is_share.then(|| Lack {
            reason: "their rates are shares of the highest that holds, and the search before them found none"
                .to_owned(),
            remedy: "see the steps of the search: on a busy host, stop what else runs and measure again"
                .to_owned(),
        })
    });
    plan.warnings[warned..].iter().for_each(terminal::warning);
}

/// Takes the steps that a search no longer needs out of the plan.
fn end_search(plan: &mut Plan, record: &RunRecord, ended: &TrialPlan) {
    let done = |id: u32| record.trials.iter().any(|t| t.id == id);
    let is_left = |t: &TrialPlan| t.stage == ended.stage && t.levels == ended.levels && !done(t.id);
    plan.trials.retain(|t| !is_left(t));
}

/// Adds a block to a stage whose planned blocks are done and that is not precise enough yet, as long as the plan's
/// limits and the stages after it allow. Says where it stands, and why it ends where it ends early.
fn repeat(plan: &mut Plan, record: &RunRecord, stage: usize) -> bool {
    let Some(until) = plan.until.filter(|_| plan.stages[stage].search.is_none()) else {
        return false;
    };
    let Some(precision) = analysis::precision(record, plan, stage) else {
        return false;
    };
    let name = plan.stages[stage].name.clone();
    terminal::note(&format!("stage {name}: {}", precision.why));
    let blocks = plan
        .trials
        .iter()
        .filter(|t| t.stage == stage)
        .map(|t| t.block + 1);
    let blocks = blocks.max().unwrap_or(0);
    let longer = plan.time() + plan.block_time(stage);
    // Later stages have used what this one found (the capacity), and their trials have their numbers.
    let later = plan.stages[stage + 1..].iter();
    let later_ran = later
        .clone()
        .any(|s| record.trials.iter().any(|t| t.stage == s.name));
    let ends = if precision.met || later_ran {
        return false;
    } else if precision.hopeless {
        "no cell has enough valid trials for an interval".to_owned()
    } else if blocks >= until.most_repeats {
        format!("it has reached `max_repeats` ({})", until.most_repeats)
    } else if until.budget.is_some_and(|budget| longer > budget) {
        "another block would exceed the time budget".to_owned()
    } else {
        plan.add_block(stage);
        return true;
    };
    terminal::warning(&Warning::new(
        "not_precise",
        format!("stage {name} ends before it is as precise as asked for: {ends}"),
        "raise `measure`, `max_repeats` or `budget`",
    ));
    false
}

/// Adds trials in which other programs took CPU once more; false when there is none left, or no time for it.
fn measure_again(plan: &mut Plan, record: &RunRecord) -> Result<bool, Failure> {
    let disturbed = analysis::disturbed(&analyse(record)?.trials);
    let (before, trials) = (plan.time(), plan.trials.len());
    let again = plan.measure_again(&disturbed);
    if again > 0 {
        terminal::note(&format!(
            "other programs took CPU, or a host was lost, in {}: {again} measured again, with what is compared with them {} more, about {}",
            analysis::words::plural(disturbed.len() as u64, "trial"),
            analysis::words::plural((plan.trials.len() - trials) as u64, "trial"),
            Nanos(plan.time().0 - before.0)
        ));
    }
    Ok(again > 0)
}

/// Stores the plan with its new block, so that an interrupted run can be continued with it.
fn save_plan(plan: &Plan, record: &mut RunRecord, store: &mut DirStore) -> Option<String> {
    record.plan = serde_json::to_value(plan).expect("a plan is plain data with string keys");
    record.save_head(store).err().map(|e| e.to_string())
}

/// How the run goes, on a terminal: what is left, when it ends, the cells of the stage as they stand.
fn show_screen(record: &RunRecord, plan: &Plan, trial: &TrialPlan, place: &str, left: Nanos) {
    if !screen::is_live() {
        return;
    }
    let mut lines = vec![format!(
        "{place}{left} left, ends about {}: {}",
        host::time_of_day_in(left),
        plan.question
    )];
    // What cannot be analysed yet is said by whoever needs it; the screen goes without.
    if let Ok(analysis) = analyse(record) {
        let stage = &plan.stages[trial.stage].name;
        lines.extend(report::text::live_cells(&analysis, stage, &trial.levels));
    }
    screen::head(lines);
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
    for search in &analysed.searches {
        if let Some(step) = search.steps.iter().find(|s| s.trial == id) {
            let line = report::text::search_line(&search.stage, step);
            terminal::note(&format!("{place}{line}"));
        }
    }
    let ended: Option<&TrialRecord> = record.trials.iter().find(|t| t.id == id);
    if let Some(TrialState::Failed { error, remedy }) = ended.map(|t| &t.state) {
        terminal::warning(&Warning::new("trial_failed", error, remedy));
    }
    Ok(())
}
