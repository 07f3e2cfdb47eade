//! The searches for the highest open-loop rate that holds: what was found, and the steps, which are no failures.

use super::{levels_text, paths};
use crate::number::{Number, Source, Unit};
use analysis::{RunAnalysis, Search};
use serde::Serialize;

/// A search.
#[derive(Debug, Serialize)]
pub struct SearchView {
    index: usize,
    stage: String,
    levels: String,
    found: Option<Number>,
    bound: Option<Number>,
    steps: Vec<StepView>,
}

#[derive(Debug, Serialize)]
struct StepView {
    file: String,
    offered: Option<Number>,
    achieved: Option<Number>,
    p99: Option<Number>,
    held: &'static str,
    why: String,
}

/// All searches of the run.
pub fn searches(analysis: &RunAnalysis, source: &Source) -> Vec<SearchView> {
    let all = analysis.searches.iter().enumerate();
    all.map(|(index, search)| search_view(index, search, source))
        .collect()
}

fn search_view(index: usize, search: &Search, source: &Source) -> SearchView {
    let number = |field: &str, unit| source.number(&format!("/searches/{index}/{field}"), unit);
    let step = |(i, step): (usize, &analysis::SearchStep)| StepView {
        file: paths::trial(step.trial),
        offered: number(&format!("steps/{i}/offered_per_s"), Unit::PerSecond),
        achieved: number(&format!("steps/{i}/achieved_per_s"), Unit::PerSecond),
        p99: number(&format!("steps/{i}/response_ns_p99"), Unit::Nanos),
        held: match step.held {
            Some(true) => "held",
            Some(false) => "not met: the search goes lower",
            None => "disturbed: taken again",
        },
        why: step.why.clone(),
    };
    SearchView {
        index,
        stage: search.stage.clone(),
        levels: levels_text(&search.levels),
        found: number("found_per_s", Unit::PerSecond),
        bound: number("bound_per_s", Unit::PerSecond),
        steps: search.steps.iter().enumerate().map(step).collect(),
    }
}
