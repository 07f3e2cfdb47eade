//! The highest open-loop rate that holds, found step by step.
//!
//! A closed loop's capacity is no rate that an open loop can be offered. The closed loop keeps every connection busy
//! and lets responses gather, so that a server works on them in batches; requests that come one by one cost it more.
//! A share of that capacity may fail by design. So a stage may search: each step is a short trial at one rate, and the
//! rate of the next follows from those before it, as their record has them. The surprise: a rate counts as found only
//! when it has held twice, because near the edge one trial holds by luck. `find` looks for an edge with an interval, by
//! the same steps.

use crate::limit::GENERATOR_BUSY;
use crate::{Limit, RunAnalysis, TrialAnalysis, Verdict};
use plan::{Levels, Plan, SEARCH_STEPS};
use record::RunRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The search ends when the lowest rate that failed is at most this much above the highest that held: closer than the
/// noise between short trials (2-4 %) there is nothing to find.
pub(crate) const PRECISION: f64 = 0.05;
/// Nothing held down to this share of the bound: the search gives up.
const LOWEST: f64 = 1.0 / 64.0;
/// From a rate that held once and not again the search goes back to this share of it: twice its precision.
pub(crate) const STEP_BACK: f64 = 0.9;
/// A step that said nothing is taken again; at this many of one rate that rate counts as not met, so that the search
/// ends on a busy host too, lower.
pub(crate) const MOST_SILENT: usize = 2;

/// The search of one stage for one combination of levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Stage's name.
    pub stage: String,
    pub levels: Levels,
    /// Rate that it begins at, per second: the highest that a closed loop before it reached; `null` without one.
    pub bound_per_s: Option<f64>,
    /// Its steps, in the order in which they ran.
    pub steps: Vec<SearchStep>,
    /// The highest rate that held, per second; `null` when none did.
    pub found_per_s: Option<f64>,
    /// What limited the lowest rate that did not hold; `null` when every rate held.
    pub limit_above: Option<Limit>,
}

/// One step: a short trial at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchStep {
    pub trial: u32,
    /// Rate that was offered, per second.
    pub offered_per_s: f64,
    /// Successes per second; `null` without one.
    pub achieved_per_s: Option<f64>,
    /// 99th percentile of the response time, ns; `null` without a success.
    pub response_ns_p99: Option<u64>,
    /// The schedule was met, errors stayed within their limit and the generator had headroom; `null` when the step says
    /// nothing, because the trial failed or others took the CPU of the server or the generator.
    pub held: Option<bool>,
    /// What limited it, or why it does not count.
    pub why: String,
    /// The limiting side.
    pub limit: Limit,
}

/// The searches of a run. Their trials, the `steps`, are no trials of the run: a rate that did not hold is no failure.
pub(crate) fn searches(
    record: &RunRecord,
    plan: &Plan,
    trials: &[TrialAnalysis],
    steps: &[TrialAnalysis],
) -> Vec<Search> {
    let mut all = Vec::new();
    for (index, stage) in plan.stages.iter().enumerate() {
        if stage.search.is_none() {
            continue;
        }
        let bound = bound(plan, trials, index);
        let mut cells: Vec<&Levels> = Vec::new();
        for trial in plan.trials.iter().filter(|t| t.stage == index) {
            if !cells.contains(&&trial.levels) {
                cells.push(&trial.levels);
            }
        }
        all.extend(cells.into_iter().map(|levels| {
            let own = |t: &&TrialAnalysis| t.stage == stage.name && t.levels == *levels;
            let steps = steps.iter().filter(own);
            search(
                &stage.name,
                levels,
                bound,
                steps.filter_map(|t| step(record, t)).collect(),
            )
        }));
    }
    all
}

/// The highest rate of a closed loop before the stage. Valid or not: one that the generator limited bounds the open
/// loop of the same generator all the same.
fn bound(plan: &Plan, trials: &[TrialAnalysis], stage: usize) -> Option<f64> {
    let before: Vec<&str> = plan.stages[..stage]
        .iter()
        .map(|s| s.name.as_str())
        .collect();
    let closed = trials
        .iter()
        .filter(|t| before.contains(&t.stage.as_str()) && t.offered_per_s.is_none());
    closed.filter_map(|t| t.achieved_per_s).reduce(f64::max)
}

fn search(stage: &str, levels: &Levels, bound: Option<f64>, steps: Vec<SearchStep>) -> Search {
    let Bracket { low, failed, .. } = bracket(&steps);
    let above = steps.iter().find(|s| Some(s.offered_per_s) == failed);
    Search {
        stage: stage.to_owned(),
        levels: levels.clone(),
        bound_per_s: bound,
        found_per_s: low,
        limit_above: above.map(|s| s.limit),
        steps,
    }
}

fn step(record: &RunRecord, trial: &TrialAnalysis) -> Option<SearchStep> {
    let asked = record.trials.iter().find(|t| t.id == trial.id)?;
    let verdict = &trial.verdict;
    let (held, limit) = match asked.outcome {
        None => (None, verdict.limit),
        Some(_) => held(verdict, trial.generator_utilization),
    };
    Some(SearchStep {
        trial: trial.id,
        offered_per_s: asked.load.arrival.offered_per_s()?,
        achieved_per_s: trial.achieved_per_s,
        response_ns_p99: trial.response_ns.map(|l| l.p99),
        held,
        why: verdict.why.clone(),
        limit,
    })
}

/// Whether a rate held, as the verdict on its step and the generator's busiest thread say; and what limited it.
pub(crate) fn held(verdict: &Verdict, generator: Option<f64>) -> (Option<bool>, Limit) {
    let busy = generator.is_some_and(|u| u >= GENERATOR_BUSY);
    // A generator with headroom that sends late was kept from its core by somebody else, as was a server whose CPU
    // others took: neither says anything about the rate.
    let disturbed = !verdict.valid
        && match verdict.limit {
            Limit::Generator => !busy,
            Limit::Unknown => verdict.resource == "host_cpu",
            _ => false,
        };
    if disturbed {
        (None, verdict.limit)
    } else if verdict.valid && busy {
        (Some(false), Limit::Generator)
    } else {
        (Some(verdict.valid), verdict.limit)
    }
}

/// What the steps say so far. Between `failed` and `held` lie the rates that held in one step and not in another.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Bracket {
    /// The highest rate that held below every rate that ever failed.
    pub low: Option<f64>,
    /// The lowest rate that ever failed.
    pub failed: Option<f64>,
    /// The highest rate that ever held.
    pub held: Option<f64>,
    /// The lowest rate that failed above every rate that ever held.
    pub high: Option<f64>,
}

/// Steps of one rate with one end.
pub(crate) fn alike(steps: &[SearchStep], rate: f64, held: Option<bool>) -> usize {
    let same = steps.iter().filter(|s| s.offered_per_s == rate);
    same.filter(|s| s.held == held).count()
}

pub(crate) fn bracket(steps: &[SearchStep]) -> Bracket {
    let rates = |wanted: bool| {
        let all = steps.iter().filter(move |s| match s.held {
            Some(held) => held == wanted,
            None => !wanted && alike(steps, s.offered_per_s, None) >= MOST_SILENT,
        });
        all.map(|s| s.offered_per_s)
    };
    let failed = rates(false).reduce(f64::min);
    let held = rates(true).reduce(f64::max);
    let below = rates(true).filter(|rate| failed.is_none_or(|failed| *rate < failed));
    let above = rates(false).filter(|rate| held.is_none_or(|held| *rate > held));
    Bracket {
        low: below.reduce(f64::max),
        failed,
        held,
        high: above.reduce(f64::min),
    }
}

/// Toward the edge from what is known of it: halving until a rate holds, then bisecting between that one and `above`,
/// the lowest that did not; `None` when they are close.
pub(crate) fn toward(bracket: &Bracket, above: f64) -> Option<f64> {
    match (bracket.low, bracket.held) {
        // It held once and not again: the edge is close below.
        (None, Some(_)) => Some(above * STEP_BACK),
        (None, None) => Some(above / 2.0),
        (Some(low), _) => (above > low * (1.0 + PRECISION)).then(|| f64::midpoint(low, above)),
    }
}

/// A server that does not answer ends a search.
pub(crate) fn is_dead(steps: &[SearchStep]) -> bool {
    let dead = |s: &SearchStep| s.held.is_none() && s.achieved_per_s.is_none();
    let last = steps.last_chunk::<MOST_SILENT>();
    last.is_some_and(|l| l.iter().all(dead))
}

/// Nothing is known of the server at a rate that the generator did not make.
pub(crate) fn is_ceiling(steps: &[SearchStep], rate: f64) -> bool {
    let mut own = steps.iter().filter(|s| s.offered_per_s == rate);
    own.any(|s| s.held.is_none() || s.limit == Limit::Generator)
}

impl Search {
    /// The rate of the next step; `None` when the search has ended. What `toward` says, then the rate that held once
    /// more.
    pub fn next_per_s(&self) -> Option<f64> {
        let bound = self.bound_per_s?;
        if self.steps.len() >= SEARCH_STEPS as usize || is_dead(&self.steps) {
            return None;
        }
        let bracket = bracket(&self.steps);
        let Some(next) = toward(&bracket, bracket.failed.unwrap_or(bound)) else {
            return (bracket.low).filter(|low| alike(&self.steps, *low, Some(true)) < 2);
        };
        (next >= bound * LOWEST).then(|| next.round().max(1.0))
    }
}

impl RunAnalysis {
    /// A trial that is the step of a search.
    pub fn is_step(&self, trial: u32) -> bool {
        let mut steps = self.searches.iter().flat_map(|s| &s.steps);
        steps.any(|s| s.trial == trial)
    }

    /// What 100 % of a rate is for a stage: the lowest rate that the last search before it found, so that it holds in
    /// every cell of that search; without a search the capacity of the closed loops.
    pub fn full_rate_per_s(&self, plan: &Plan, stage: usize) -> Option<f64> {
        let mut before = plan.stages[..stage].iter().rev();
        let Some(searched) = before.find(|s| s.search.is_some()) else {
            return self.capacity_per_s;
        };
        let found = self.searches.iter().filter(|s| s.stage == searched.name);
        let found: Option<Vec<f64>> = found.map(|s| s.found_per_s).collect();
        found?.into_iter().reduce(f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that holds every rate below `edge`; a step whose number is in `silent` says nothing.
    fn run(bound: f64, holds: impl Fn(usize, f64) -> Option<bool>) -> Search {
        let mut now = search("search", &Levels::new(), Some(bound), Vec::new());
        while let Some(rate) = now.next_per_s() {
            let mut steps = now.steps;
            steps.push(SearchStep {
                trial: steps.len() as u32,
                offered_per_s: rate,
                achieved_per_s: holds(steps.len(), rate).map(|_| rate),
                response_ns_p99: None,
                held: holds(steps.len(), rate),
                why: String::new(),
                limit: Limit::Server,
            });
            now = search("search", &Levels::new(), Some(bound), steps);
        }
        now
    }

    fn offered(search: &Search) -> Vec<f64> {
        search.steps.iter().map(|s| s.offered_per_s).collect()
    }

    #[test]
    fn a_rate_is_found_within_five_per_cent_wherever_it_lies() {
        for percent in 2..=100 {
            let edge = 240_000.0 * f64::from(percent) / 100.0;
            let search = run(240_000.0, |_, rate| Some(rate <= edge));
            let found = search.found_per_s.unwrap();
            assert!(found <= edge && search.steps.len() <= SEARCH_STEPS as usize);
            let reached = search.steps.len() < SEARCH_STEPS as usize;
            assert!(
                found >= edge * if reached { 0.95 } else { 0.8 },
                "{percent} %: {found} of {edge}, {:?}",
                offered(&search)
            );
            let confirmed = search.steps.iter().filter(|s| s.offered_per_s == found);
            assert!(!reached || confirmed.count() == 2);
        }
    }

    #[test]
    fn a_rate_that_held_by_luck_is_given_up() {
        // 120, 180, 150, 135, 142.5 (by luck), 146.25: the second trial of 142.5 fails.
        let search = run(240_000.0, |step, rate| {
            Some(rate < 140_000.0 || (step == 4 && rate < 145_000.0))
        });
        assert!(
            search.found_per_s.unwrap() < 140_000.0,
            "{:?}",
            offered(&search)
        );
        let twice = search
            .steps
            .iter()
            .filter(|s| Some(s.offered_per_s) == search.found_per_s);
        assert_eq!(twice.count(), 2);
    }

    #[test]
    fn the_first_rate_that_held_by_luck_is_left_by_a_small_step() {
        let search = run(240_000.0, |step, rate| Some(rate < 115_000.0 || step == 0));
        // Halved it would have been 60,000.
        assert_eq!(offered(&search)[6..8], [120_000.0, 108_000.0]);
        assert_eq!(search.found_per_s, Some(114_000.0));
    }

    #[test]
    fn a_disturbed_step_is_taken_again_and_a_dead_server_ends_the_search() {
        let search = run(1_000.0, |step, rate| (step != 0).then_some(rate <= 600.0));
        assert_eq!(offered(&search)[..2], [500.0, 500.0]);
        assert!(search.found_per_s.unwrap() >= 570.0);
        let dead = run(1_000.0, |_, _| None);
        assert_eq!((dead.steps.len(), dead.found_per_s), (2, None));
    }

    /// On a busy host what is disturbed twice counts as not met: the search ends lower, not without an end.
    #[test]
    fn a_rate_that_is_disturbed_twice_is_given_up() {
        let mut search = run(1_000.0, |_, rate| (rate < 300.0).then_some(true));
        assert_eq!(search.found_per_s, None, "a server that was dead twice");
        for step in &mut search.steps {
            step.achieved_per_s = Some(step.offered_per_s);
        }
        assert_eq!(search.next_per_s(), Some(250.0));
    }

    #[test]
    fn nothing_holds_and_nothing_is_found() {
        let search = run(64_000.0, |_, _| Some(false));
        assert_eq!(search.found_per_s, None);
        assert_eq!(offered(&search).last(), Some(&1_000.0));
        assert_eq!(search.limit_above, Some(Limit::Server));
    }
}
