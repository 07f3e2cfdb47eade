//! What cannot be said, and why: trials that did not run, cells that are not measured, ratios of too few pairs.

use super::{NAMED, Said, Sentence, stages};
use crate::intervals::FEWEST_PAIRS_WORDS;
use crate::json::{CellDiagnosed, RunDocument};
use analysis::words::{levels as levels_words, plural};
use analysis::{Cell, Levels, Limit, Plan, TrialPlan, Unseen, moves_load};
use record::PROOF_STAGE;

/// What a reader might look for and must not find here.
pub(super) fn cannot_say(document: &RunDocument, plan: Option<&Plan>) -> Vec<Sentence> {
    let mut all = Vec::new();
    let verdict = &document.verdict;
    if !verdict.valid {
        all.push(
            Sentence::new(Said::CannotSay, "", "#/verdict/why").words(format!(
                "What the server can do: {}.",
                verdict.why.trim_end_matches('.')
            )),
        );
    } else if verdict.limit == Limit::Unknown {
        all.push(
            Sentence::new(Said::CannotSay, "", "#/verdict/why").words(format!(
                "What limits the server: {}.",
                verdict.why.trim_end_matches('.')
            )),
        );
    }
    all.extend(not_run(document, plan));
    for stage in stages(document) {
        all.extend(not_measured(document, stage));
        all.extend(no_interval(document, stage));
        all.extend(no_baseline(document, stage, plan));
    }
    all.extend(unsteady(document));
    all.extend(unseen(document));
    all
}

fn not_run(document: &RunDocument, plan: Option<&Plan>) -> Option<Sentence> {
    let plan = plan?;
    let planned = plan.trials.iter();
    // The steps of a search are planned as many as it may need.
    let planned = planned
        .filter(|t| plan.stages[t.stage].search.is_none())
        .count();
    let missing = planned.saturating_sub(document.trials.len());
    (missing > 0).then(|| {
        let stopped = if document.interrupted {
            ", because the run was stopped"
        } else {
            ""
        };
        Sentence::new(Said::CannotSay, "", "#/trials").words(format!(
            "Anything of the {} that did not run{stopped}.",
            plural(missing as u64, "planned trial")
        ))
    })
}

/// Cells without figures, each with its reason.
fn not_measured(document: &RunDocument, stage: &str) -> Vec<Sentence> {
    let cells = document.comparisons.iter().enumerate();
    let invalid: Vec<(usize, &Cell)> = cells
        .filter(|(_, c)| c.stage == stage && !c.is_measured() && !c.trials.is_empty())
        .collect();
    let mut all: Vec<Sentence> = invalid
        .iter()
        .take(NAMED)
        .map(|(index, cell)| {
            let why = cell.not_measured.as_deref().unwrap_or_default();
            let why = why.trim_end_matches('.');
            Sentence::new(
                Said::CannotSay,
                stage,
                format!("#/comparisons/{index}/not_measured"),
            )
            .words(format!(
                "Anything of {} in stage {stage}: {why}.",
                levels_words(&cell.levels)
            ))
        })
        .collect();
    if let Some((index, _)) = invalid.get(NAMED) {
        let more = invalid.len() - NAMED;
        all.push(
            Sentence::new(Said::CannotSay, stage, format!("#/comparisons/{index}")).words(format!(
                "The same holds for {} of stage {stage}.",
                plural(more as u64, "more cell")
            )),
        );
    }
    all
}

/// Cells that have figures, and too few pairs with their baseline.
fn no_interval(document: &RunDocument, stage: &str) -> Option<Sentence> {
    let cells = document.comparisons.iter().enumerate();
    let short: Vec<(usize, &Cell)> = cells
        .filter(|(_, c)| c.stage == stage && c.is_measured() && c.no_ratio.is_some())
        .collect();
    let (index, first) = short.first()?;
    let others = match short.len() - 1 {
        0 => String::new(),
        n => format!(" and {}", plural(n as u64, "more cell")),
    };
    Some(
        Sentence::new(Said::CannotSay, stage, format!("#/comparisons/{index}/no_ratio")).words(
            format!(
                "Whether {}{others} of stage {stage} differ from the baseline: {}; {FEWEST_PAIRS_WORDS}.",
                levels_words(&first.levels),
                first.no_ratio.as_deref().unwrap_or_default()
            ),
        ),
    )
}

/// Several levels that nothing compares.
fn no_baseline(document: &RunDocument, stage: &str, plan: Option<&Plan>) -> Option<Sentence> {
    let planned = plan?.stages.iter().find(|s| s.name == stage)?;
    if !planned.baseline.is_empty() {
        return None;
    }
    // The factor that is the load is not a choice between levels: its knee speaks for it.
    let of_stage = plan.map(|p| p.stages.iter().position(|s| s.name == stage));
    let is_load = |factor: &str| {
        let all = plan.iter().flat_map(|p| &p.trials);
        let trials: Vec<(&Levels, Asked)> = all
            .filter(|t| Some(Some(t.stage)) == of_stage)
            .map(|t| (&t.levels, asked(t)))
            .collect();
        let moves = |(levels, load): &(&Levels, Asked)| {
            moves_load(factor, (levels, load), trials.iter().copied())
        };
        ["connections", "rate"].contains(&factor) || trials.iter().any(moves)
    };
    let free = planned
        .factors
        .iter()
        .find(|f| f.levels.len() > 1 && !is_load(&f.name))?;
    let index = document.comparisons.iter().position(|c| c.stage == stage)?;
    Some(
        Sentence::new(Said::CannotSay, stage, format!("#/comparisons/{index}")).words(format!(
            "Which level of {} is better in stage {stage}: it has no baseline, so no ratio with an interval was formed. Set `baseline` in its design.",
            free.name
        )),
    )
}

/// How hard a trial loads by plan: connections, rate, share of the capacity.
type Asked = (u32, Option<f64>, Option<f64>);

fn asked(trial: &TrialPlan) -> Asked {
    (
        trial.load.connections,
        trial.load.arrival.offered_per_s(),
        trial.rate_of_capacity,
    )
}

fn unsteady(document: &RunDocument) -> Option<Sentence> {
    let mut tested = 0;
    let mut drifting = Vec::new();
    for (i, trial) in document.trials.iter().enumerate() {
        if let Some(steady) = trial.steady.as_ref().filter(|_| trial.verdict.valid) {
            tested += 1;
            drifting.extend((!steady.steady).then_some(i));
        }
    }
    let first = drifting.first()?;
    Some(
        Sentence::new(Said::CannotSay, "", format!("#/trials/{first}/steady")).words(format!(
            "Whether the figures would stay: not in steady state: {} of {}. Warm up or measure for longer.",
            drifting.len(),
            plural(tested, "valid trial"),
        )),
    )
}

/// Signals that only other tools' pasted output brings: no run has them, and none misses them.
const PASTED: &str = "pasted.";

/// Causes whose signals were missing, of the examined cell that misses the most.
fn unseen(document: &RunDocument) -> Option<Sentence> {
    let missed = |d: &CellDiagnosed| -> Vec<String> {
        let of_run = |u: &&Unseen| u.signals.iter().any(|s| !s.starts_with(PASTED));
        let causes = d.diagnosed.unseen.iter().filter(of_run);
        causes.map(|u| u.cause.clone()).collect()
    };
    let cells = document.diagnosed.iter().enumerate();
    let (index, causes) = cells
        .filter(|(_, d)| d.stage != PROOF_STAGE)
        .map(|(index, d)| (index, missed(d)))
        .max_by_key(|(_, causes)| causes.len())?;
    let named = causes.get(..NAMED).unwrap_or(&causes).join(", ");
    let more = match causes.len().saturating_sub(NAMED) {
        0 => String::new(),
        n => format!(" and {}", plural(n as u64, "more cause")),
    };
    (!causes.is_empty()).then(|| {
        Sentence::new(Said::CannotSay, "", format!("#/diagnosed/{index}/unseen")).words(format!(
            "Whether {named}{more} plays a part: signals that would tell were missing; the reasons stand where the causes do."
        ))
    })
}
