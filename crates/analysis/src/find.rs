//! The highest offered rate that holds a service level, or the knee, with an interval: `prony load --find-max` and
//! `--find-knee`.
//!
//! A search makes steps, short open loops at one rate each, judged as those of a run's search are (`search`). It
//! doubles the rate from a low one until a step does not hold, or halves it until one does; from then on each step is
//! where it says most about the edge (`edge`), so that steps repeat where they differ by luck, until the edge's
//! interval is narrow.
//! The surprise: a step that the generator limited is neither: no rate from there on is offered again, and where the
//! server holds up to it the answer is "at least".

use crate::edge::{Edge, edge};
use crate::knee::P99_FACTOR;
use crate::search::{self, Bracket, MOST_SILENT, PRECISION, STEP_BACK, SearchStep};
use crate::slo::Slo;
use crate::words::{plural, rate};
use crate::{Limit, Verdict};
use record::{Interval, LoadOutcome, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps at most.
const MOST_STEPS: u32 = 24;
/// With fewer there is a bracket at best.
const FEWEST_STEPS: u32 = 6;
/// The first step's rate, as a share of the closed loop's; a knee's low load.
const FIRST: f64 = 0.1;
/// Nothing held down to this share of the first step's rate: the search gives up.
const LOWEST: f64 = 1.0 / 16.0;
/// An interval is narrow when its upper end is at most this much above the lower: short steps differ by 2-4 %.
const NARROW: f64 = 2.0 * PRECISION;
/// Rates closer than this are one: a step is repeated rather than made beside another.
const SAME: f64 = 0.01;
/// Steps of the knee's low load, of which the median counts, and of a rate just below what the generator makes.
const REPEATS: usize = 3;
/// A rate is said to hold when it has held so often, as in a run's search.
const HELD_TWICE: u32 = 2;
/// Disturbed steps in a row that end a search.
const MOST_DISTURBED: usize = 3;
/// Between two steps: the server answers what it still has, then one request by itself.
const REST: Nanos = Nanos::from_millis(300);
/// To start and end a load, at most, as planned.
const AROUND: Nanos = Nanos::from_millis(200);
/// A response time that rises in every quarter of a step, by this factor in all, belongs to a queue that grows: of
/// quarters without a trend one in 24 rises throughout, and medians of a hundred differ by a fifth.
const RISE_LIMIT: f64 = 2.0;
/// Responses of a quarter, at least.
const FEWEST_RESPONSES: u64 = 100;
const QUARTERS: usize = 4;
/// Slices of a quarter, at least.
const FEWEST_SLICES: usize = 2;

/// What a rate has to hold, beside its schedule, the error limit and a steady response time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Aim {
    /// A service level.
    pub slo: Option<Slo>,
    /// A p99 of at most ten times that at a low load: the open loop's knee.
    pub knee: bool,
}

impl Aim {
    /// In words.
    pub fn sought(&self) -> String {
        let knee = format!("p99 at most {P99_FACTOR} times that at a low load");
        let parts: Vec<String> = (self.slo.iter().map(ToString::to_string))
            .chain(self.knee.then_some(knee))
            .collect();
        match parts.is_empty() {
            true => "the schedule met".to_owned(),
            false => parts.join(", "),
        }
    }
}

/// What a search will do and how long it takes at most, stated before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchPlan {
    /// What each step has to hold.
    pub sought: String,
    pub connections: u32,
    /// Rate of the first step, per second; `null` takes a tenth of a closed loop's rate with the same connections.
    pub from_per_s: Option<f64>,
    /// Warm-up of each step, s.
    pub warmup_s: f64,
    /// Measured part of each step, s.
    pub measured_s: f64,
    /// Steps at most.
    pub most_steps: u32,
    /// Length of the whole search at most, s; a request that times out at its end comes on top.
    pub at_most_s: f64,
}

/// The time given has room for fewer steps than a search needs.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{budget} has room for {steps} steps of {step}, and a search needs {FEWEST_STEPS}")]
pub struct BudgetTooShort {
    pub budget: Nanos,
    pub steps: u32,
    /// One step with its warm-up.
    pub step: Nanos,
}

impl SearchPlan {
    /// A plan whose search takes `budget` at most.
    ///
    /// # Errors
    /// [`BudgetTooShort`].
    pub fn new(
        aim: &Aim,
        connections: u32,
        from_per_s: Option<f64>,
        (warmup, measured): (Nanos, Nanos),
        budget: Option<Nanos>,
    ) -> Result<Self, BudgetTooShort> {
        let step = warmup + measured + REST + AROUND;
        let before = u64::from(from_per_s.is_none());
        let room = budget.map_or(u64::MAX, |b| (b.0 / step.0.max(1)).saturating_sub(before));
        let most_steps = room.min(u64::from(MOST_STEPS)) as u32;
        if let Some(budget) = budget.filter(|_| most_steps < FEWEST_STEPS) {
            return Err(BudgetTooShort {
                budget,
                steps: most_steps,
                step,
            });
        }
        let loads = before + u64::from(most_steps);
        Ok(Self {
            sought: aim.sought(),
            connections,
            from_per_s,
            warmup_s: warmup.as_secs_f64(),
            measured_s: measured.as_secs_f64(),
            most_steps,
            at_most_s: Nanos(step.0 * loads).as_secs_f64(),
        })
    }

    /// The pause between two steps.
    pub fn rest(&self) -> Nanos {
        REST
    }
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// The edge lies in the interval.
    Between,
    /// A rate held, and none above it failed for a reason of the server's.
    AtLeast,
    /// No rate held, down to the lowest that was offered.
    NotHeld,
    /// The steps say nothing of the server.
    NotValid,
}

/// Why a search made no further step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The interval is narrow.
    Narrow,
    /// The generator is the limit above.
    Generator,
    /// All steps were made.
    Steps,
    /// The time was over.
    Budget,
    /// Not held at the lowest rate.
    Lowest,
    /// Others took the CPU in step after step.
    Disturbed,
    /// No response in any step.
    NoResponse,
    /// A person stopped it.
    Interrupted,
}

impl Ended {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Ended::Narrow => "the interval is narrow enough",
            Ended::Generator => "the generator is the limit from there on",
            Ended::Steps => "all steps were made",
            Ended::Budget => "the time was over",
            Ended::Lowest => "no lower rate is tried",
            Ended::Disturbed => "others took the CPU in step after step",
            Ended::NoResponse => "nothing responded",
            Ended::Interrupted => "interrupted",
        }
    }
}

/// A search, its steps, and what they say so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateSearch {
    pub plan: SearchPlan,
    /// What came of it.
    pub found: Found,
    /// Why it ended; `null` while it goes on.
    pub ended: Option<Ended>,
    /// The highest rate that holds, as estimated, per second; `null` unless `found` is `between`.
    pub edge_per_s: Option<f64>,
    /// Lower end of the estimate's 95 % interval, per second.
    pub edge_low_per_s: Option<f64>,
    /// Upper end of it, per second.
    pub edge_high_per_s: Option<f64>,
    /// The highest rate that held each time it was offered, up to the edge, per second; `null` when none did.
    pub highest_held_per_s: Option<f64>,
    /// How often that was.
    pub held_times: u32,
    /// The lowest rate above all that held that the server did not hold, per second; `null` when there was none.
    pub lowest_not_held_per_s: Option<f64>,
    /// Rate of the closed loop with the same connections, per second; `null` when none was measured.
    pub closed_loop_per_s: Option<f64>,
    /// 99th percentile of the response time at the knee's low load, ns; `null` without a knee.
    pub low_load_ns_p99: Option<u64>,
    /// In the order in which they ran; `trial` counts from 0.
    pub steps: Vec<SearchStep>,
    /// The edge that the steps tell.
    #[serde(skip)]
    edge: Option<Edge>,
}

impl RateSearch {
    /// Before its first step; `closed_loop_per_s` is the rate of a closed loop with the same connections.
    pub fn new(plan: SearchPlan, closed_loop_per_s: Option<f64>) -> Self {
        Self {
            plan,
            found: Found::NotValid,
            ended: None,
            edge_per_s: None,
            edge_low_per_s: None,
            edge_high_per_s: None,
            highest_held_per_s: None,
            held_times: 0,
            lowest_not_held_per_s: None,
            closed_loop_per_s,
            low_load_ns_p99: None,
            steps: Vec::new(),
            edge: None,
        }
    }

    /// The rate of the next step.
    ///
    /// # Errors
    /// Why there is none.
    pub fn next_per_s(&self, aim: &Aim) -> Result<f64, Ended> {
        let silent = |s: &SearchStep| s.held.is_none();
        let last = self.steps.last_chunk::<MOST_DISTURBED>();
        if self.steps.len() >= MOST_SILENT && self.is_silent() {
            return Err(Ended::NoResponse);
        }
        if last.is_some_and(|last| last.iter().all(silent)) {
            return Err(Ended::Disturbed);
        }
        let rate = self.wanted_per_s(aim)?;
        match self.steps.len() >= self.plan.most_steps as usize {
            true => Err(Ended::Steps),
            false => Ok(rate),
        }
    }

    /// Nothing succeeded in any step.
    fn is_silent(&self) -> bool {
        self.steps.iter().all(|s| s.achieved_per_s.is_none())
    }

    fn wanted_per_s(&self, aim: &Aim) -> Result<f64, Ended> {
        let first = self.plan.from_per_s;
        let first = first.or(self.closed_loop_per_s.map(|rate| rate * FIRST));
        let first = rounded(first.ok_or(Ended::NoResponse)?);
        let bracket = search::bracket(&self.steps);
        let Bracket {
            low,
            failed,
            held,
            high,
        } = bracket;
        let (Some(low), Some(held)) = (low, held) else {
            let Some(failed) = failed else {
                return Ok(first);
            };
            let next = search::toward(&bracket, failed).map_or(failed, rounded);
            return match next >= first * LOWEST {
                true => Ok(next),
                false if search::is_ceiling(&self.steps, failed) => Err(self.why_ceiling(failed)),
                false => Err(Ended::Lowest),
            };
        };
        if aim.knee && self.low_load_ns_p99.is_none() {
            return Ok(low);
        }
        let ceiling = high.filter(|rate| search::is_ceiling(&self.steps, *rate));
        if let Some(edge) = &self.edge {
            return self.beside(edge);
        }
        match (ceiling, failed) {
            (Some(ceiling), _) => {
                let own = Bracket {
                    low: Some(held),
                    ..bracket
                };
                match search::toward(&own, ceiling) {
                    Some(next) => Ok(rounded(next)),
                    None if search::alike(&self.steps, held, Some(true)) < REPEATS => Ok(held),
                    None => Err(self.why_ceiling(ceiling)),
                }
            }
            // A lower one failed: up again by small steps that grow.
            (None, Some(failed)) => {
                let factor = (held / failed).clamp(1.0 / STEP_BACK, 2.0);
                Ok(rounded(self.above(held, factor)))
            }
            (None, None) => Ok(rounded(self.above(held, 2.0))),
        }
    }

    /// So many times the rate; up to the closed loop's, just above it is far enough.
    fn above(&self, held: f64, factor: f64) -> f64 {
        let above = self.closed_loop_per_s.map(|rate| rate / STEP_BACK);
        let above = above.filter(|above| *above > held * (1.0 + PRECISION));
        (factor * held).min(above.unwrap_or(f64::INFINITY))
    }

    /// The rate that says most about the edge.
    fn beside(&self, edge: &Edge) -> Result<f64, Ended> {
        if edge.high <= edge.low * (1.0 + NARROW) {
            // The rate that is named as held has not held by luck.
            return match self.highest_held_per_s {
                Some(rate) if self.held_times < HELD_TWICE => Ok(rate),
                Some(_) => Err(Ended::Narrow),
                None => Ok(rounded(edge.low)),
            };
        }
        let wanted = edge.next(self.steps.len());
        let offered = self.steps.iter().map(|s| s.offered_per_s);
        let away = |rate: f64| (rate / wanted - 1.0).abs();
        let nearest = offered.min_by(|a, b| away(*a).total_cmp(&away(*b)));
        let near = nearest.filter(|rate| away(*rate) <= SAME);
        let next = near.unwrap_or_else(|| rounded(wanted));
        if search::alike(&self.steps, next, None) >= MOST_SILENT {
            return Err(Ended::Disturbed);
        }
        match self.generator_per_s() {
            Some(made) if next >= made => Err(Ended::Generator),
            _ => Ok(next),
        }
    }

    /// The lowest rate at which the generator was the limit.
    fn generator_per_s(&self) -> Option<f64> {
        let own = self.steps.iter().filter(|s| is_generators(s));
        own.map(|s| s.offered_per_s).reduce(f64::min)
    }

    fn why_ceiling(&self, ceiling: f64) -> Ended {
        match self.generator_per_s() {
            Some(made) if made <= ceiling => Ended::Generator,
            _ => Ended::Disturbed,
        }
    }

    /// The edge, once a rate held and a higher one did not for a reason of the server's.
    fn find_edge(&self) -> Option<Edge> {
        let told = self.steps.iter().filter(|s| !is_generators(s));
        let told: Vec<(f64, bool)> = told
            .filter_map(|s| Some((s.offered_per_s, s.held?)))
            .collect();
        search::bracket(&self.steps).low?;
        let failed = told.iter().filter(|(_, held)| !held).map(|(rate, _)| *rate);
        let failed = failed.reduce(f64::max)?;
        let held = told.iter().filter(|(_, held)| *held).map(|(rate, _)| *rate);
        let held = held.reduce(f64::max)?;
        (failed > held).then(|| edge(&told, (held, failed_above(&told))))
    }

    /// Takes in a step at `offered_per_s` that has ended, and was judged.
    pub fn add(
        &mut self,
        aim: &Aim,
        offered_per_s: f64,
        outcome: &LoadOutcome,
        verdict: &Verdict,
    ) -> &SearchStep {
        let p99 = outcome.response.quantile(0.99);
        let (mut held, limit) = search::held(verdict, outcome.generator.utilization());
        let mut why = verdict.why.clone();
        if held == Some(true) {
            let broken = self.broken(aim, outcome);
            if !broken.is_empty() {
                (held, why) = (Some(false), broken.join("; "));
            }
        } else if held == Some(false) && verdict.valid {
            why = "the generator was as good as full".to_owned();
        }
        self.steps.push(SearchStep {
            trial: self.steps.len() as u32,
            offered_per_s,
            achieved_per_s: outcome.achieved_per_s(),
            response_ns_p99: p99.map(|p99| p99.0),
            held,
            why,
            limit,
        });
        if aim.knee && self.low_load_ns_p99.is_none() {
            self.low_load_ns_p99 = self.low_load();
        }
        self.conclude();
        &self.steps[self.steps.len() - 1]
    }

    /// The median over the steps of the low load, when they are enough.
    fn low_load(&self) -> Option<u64> {
        let low = search::bracket(&self.steps).low?;
        let own = |s: &&SearchStep| s.offered_per_s == low && s.held == Some(true);
        let own = self.steps.iter().filter(own);
        let mut p99: Vec<u64> = own.filter_map(|s| s.response_ns_p99).collect();
        p99.sort_unstable();
        (p99.len() >= REPEATS).then(|| p99[p99.len() / 2])
    }

    /// What a step did not hold.
    fn broken(&self, aim: &Aim, outcome: &LoadOutcome) -> Vec<String> {
        let slo = aim.slo.iter().flat_map(|slo| slo.broken(outcome));
        let knee = self.low_load_ns_p99.filter(|_| aim.knee);
        let knee = knee.and_then(|low| knee_passed(outcome, low));
        let rise = rise(outcome).map(|times| {
            format!("not steady: the response time rose throughout the step, {times:.1} times")
        });
        slo.chain(knee).chain(rise).collect()
    }

    fn conclude(&mut self) {
        let Bracket {
            low, failed, high, ..
        } = search::bracket(&self.steps);
        let servers = |rate: &f64| !search::is_ceiling(&self.steps, *rate);
        let edge = self.find_edge();
        self.edge = edge;
        self.found = match (low, failed) {
            (Some(_), _) if edge.is_some() => Found::Between,
            (Some(_), _) => Found::AtLeast,
            (None, Some(failed)) if servers(&failed) && !self.is_silent() => Found::NotHeld,
            (None, _) => Found::NotValid,
        };
        self.lowest_not_held_per_s = high.filter(servers);
        self.highest_held_per_s = self.highest_held(edge.as_ref());
        self.held_times = (self.highest_held_per_s).map_or(0, |rate| {
            search::alike(&self.steps, rate, Some(true)) as u32
        });
        self.edge_per_s = edge.map(|edge| edge.median);
        self.edge_low_per_s = edge.map(|edge| edge.low);
        self.edge_high_per_s = edge.map(|edge| edge.high);
    }

    /// The highest rate up to the edge that held each time.
    fn highest_held(&self, edge: Option<&Edge>) -> Option<f64> {
        let below = |s: &&SearchStep| edge.is_none_or(|edge| s.offered_per_s <= edge.median);
        let held = |s: &&SearchStep| {
            s.held == Some(true) && search::alike(&self.steps, s.offered_per_s, Some(false)) == 0
        };
        let steps = self.steps.iter().filter(below).filter(held);
        steps.map(|s| s.offered_per_s).reduce(f64::max)
    }

    /// The answer in a sentence.
    pub fn summary(&self) -> String {
        let sought = &self.plan.sought;
        let per_s = |r: Option<f64>| r.map_or_else(|| "-".to_owned(), |r| format!("{}/s", rate(r)));
        let held = format!(
            "{} held each time, in {}",
            per_s(self.highest_held_per_s),
            plural(u64::from(self.held_times), "step")
        );
        match self.found {
            Found::Between => format!(
                "{sought} holds up to {} (95 % interval {} to {}); {held}",
                per_s(self.edge_per_s),
                per_s(self.edge_low_per_s),
                per_s(self.edge_high_per_s)
            ),
            Found::AtLeast => format!(
                "{sought} holds at {} at least; {held}, {}",
                per_s(self.highest_held_per_s),
                self.no_end()
            ),
            Found::NotHeld => {
                let rates = self.steps.iter().map(|s| s.offered_per_s);
                let lowest = per_s(rates.reduce(f64::min));
                format!("{sought} does not hold at any rate, down to {lowest}")
            }
            Found::NotValid => {
                let why = self.steps.last().map_or("it has none", |s| s.why.as_str());
                format!("no step of the search says anything of the server: {why}")
            }
        }
    }

    /// Why there is no upper end.
    fn no_end(&self) -> &'static str {
        match self.ended {
            _ if self.generator_per_s().is_some() => "and above it the generator is the limit",
            Some(Ended::Disturbed) => "and above it others took the CPU",
            Some(Ended::Interrupted) => "and it was interrupted there",
            _ => "and no higher rate failed in the steps that were made",
        }
    }
}

/// Nothing is known of the server from a step that the generator limited.
fn is_generators(step: &SearchStep) -> bool {
    step.held == Some(false) && step.limit == Limit::Generator
}

/// The lowest rate that failed above every rate that held.
fn failed_above(told: &[(f64, bool)]) -> f64 {
    let held = told.iter().filter(|(_, held)| *held).map(|(rate, _)| *rate);
    let held = held.fold(0.0, f64::max);
    let failed = told
        .iter()
        .filter(|(rate, it_held)| !it_held && *rate > held);
    failed.map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min)
}

/// To three digits: a rate that a person can type.
fn rounded(per_s: f64) -> f64 {
    let unit = 10_f64.powf(per_s.log10().floor() - 2.0);
    let rounded = (per_s / unit).round() * unit;
    // Hundredths are whole numbers of hundredths again.
    (rounded * 1e4).round() / 1e4
}

fn knee_passed(outcome: &LoadOutcome, low: u64) -> Option<String> {
    let Some(p99) = outcome.response.quantile(0.99) else {
        return Some("no response time was measured".to_owned());
    };
    let times = p99.0 as f64 / low.max(1) as f64;
    (times > P99_FACTOR).then(|| {
        format!(
            "p99 was {p99}, {times:.1} times that at the low load of {}",
            Nanos(low)
        )
    })
}

/// How much the response time rose from the first quarter of a step to the last, where it rose in each and too much.
fn rise(outcome: &LoadOutcome) -> Option<f64> {
    let inside = |i: &&Interval| i.from >= outcome.measured_from && i.to <= outcome.measured_to;
    let slices = outcome.intervals.iter().filter(inside);
    let slices: Vec<&Interval> = slices.filter(|i| i.succeeded > 0).collect();
    let length = slices.len() / QUARTERS;
    let few =
        |quarter: &[&Interval]| quarter.iter().map(|i| i.succeeded).sum::<u64>() < FEWEST_RESPONSES;
    if length < FEWEST_SLICES || slices.chunks_exact(length).any(few) {
        return None;
    }
    let p50: Vec<f64> = slices.iter().map(|i| i.response_ns_p50 as f64).collect();
    let means: Vec<f64> = p50
        .chunks_exact(length)
        .take(QUARTERS)
        .map(|quarter| quarter.iter().sum::<f64>() / length as f64)
        .collect();
    let times = means[QUARTERS - 1] / means[0].max(1.0);
    (means.is_sorted_by(|a, b| a < b) && times > RISE_LIMIT).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_load;
    use crate::samples::{self, Random};
    use record::{Arrival, Histogram, LoadSpec};

    #[derive(Clone, Copy, PartialEq)]
    enum Server {
        /// Poisson arrivals, exponential service (M/M/1), request by request.
        Queue,
        /// The p99 of such a queue by its formula, off by a tenth from step to step.
        Formula,
        /// Each request takes the same time, and the speed differs by 1 % from step to step.
        HardLimit,
    }

    const WARMUP_S: f64 = 0.5;
    const STEP_S: f64 = 4.0;
    const SLICE_S: f64 = 0.25;
    const SERVED_MS: f64 = 1e3 * 4.605_170_185_988_092;

    struct Simulation {
        server: Server,
        per_s: f64,
        /// Rate from which on the generator is full.
        generator_per_s: f64,
        /// Others take the server's CPU in one step of so many.
        disturbed_one_in: Option<usize>,
        steps: usize,
        random: Random,
    }

    impl Simulation {
        fn exponential(&mut self, per_s: f64) -> f64 {
            -self.random.uniform().ln() / per_s
        }

        /// Response times by slice and of the measured part, and how many of them were due.
        fn serve(&mut self, offered: f64) -> (Vec<Histogram>, Histogram, u64) {
            let end = WARMUP_S + STEP_S;
            let mut response = Histogram::new();
            let due_in_all = (offered * STEP_S) as u64;
            let speed = self.per_s * (1.0 + 0.01 * self.random.normal());
            match self.server {
                Server::Formula => {
                    let took = match offered < self.per_s {
                        true => SERVED_MS / (self.per_s - offered),
                        false => return (Vec::new(), response, due_in_all),
                    };
                    let took = Nanos((1e6 * took * (0.1 * self.random.normal()).exp()) as u64);
                    response.record_n(took, due_in_all);
                    (Vec::new(), response, due_in_all)
                }
                Server::HardLimit => {
                    let served = if offered < speed {
                        due_in_all
                    } else {
                        (speed * STEP_S) as u64
                    };
                    let grown = (offered / speed - 1.0).max(0.0) * STEP_S;
                    for part in 1..=10_u32 {
                        let took = 1.0 / speed + grown * f64::from(part) / 10.0;
                        response.record_n(Nanos((took * 1e9) as u64), served / 10);
                    }
                    (Vec::new(), response, due_in_all)
                }
                Server::Queue => {
                    let mut by_slice = vec![Histogram::new(); (end / SLICE_S) as usize];
                    // Served when the one before has left (Lindley 1952).
                    let (mut due, mut free, mut scheduled) = (0.0, 0.0_f64, 0);
                    loop {
                        due += self.exponential(offered);
                        if due >= end {
                            return (by_slice, response, scheduled);
                        }
                        free = free.max(due) + self.exponential(self.per_s);
                        scheduled += u64::from(due >= WARMUP_S);
                        if free >= end {
                            continue;
                        }
                        let took = Nanos(((free - due) * 1e9) as u64);
                        by_slice[(free / SLICE_S) as usize].record(took);
                        if due >= WARMUP_S {
                            response.record(took);
                        }
                    }
                }
            }
        }

        fn step(&mut self, offered: f64) -> (LoadOutcome, Verdict) {
            let (by_slice, response, scheduled) = self.serve(offered);
            let full = if offered > self.generator_per_s {
                0.97
            } else {
                0.3
            };
            let outcome = outcome(&by_slice, response, scheduled, full);
            let arrival = Arrival::Poisson {
                per_s: offered,
                seed: 1,
            };
            let spec = LoadSpec {
                arrival,
                ..samples::spec()
            };
            let mut verdict = judge_load(&outcome, &[], &spec, &[], 0.01);
            self.steps += 1;
            if self
                .disturbed_one_in
                .is_some_and(|n| self.steps.is_multiple_of(n))
            {
                verdict = Verdict::invalid("others took the CPU", "");
                verdict.resource = "host_cpu".to_owned();
            }
            (outcome, verdict)
        }

        fn search(mut self, aim: &Aim) -> RateSearch {
            let closed = self.per_s * (1.0 + 0.03 * self.random.normal());
            let times = (Nanos::SECOND, Nanos::SECOND);
            let plan = SearchPlan::new(aim, 10, None, times, None).unwrap();
            let mut search = RateSearch::new(plan, Some(closed));
            loop {
                match search.next_per_s(aim) {
                    Ok(rate) => {
                        let (outcome, verdict) = self.step(rate);
                        search.add(aim, rate, &outcome, &verdict);
                    }
                    Err(ended) => {
                        search.ended = Some(ended);
                        return search;
                    }
                }
            }
        }
    }

    fn outcome(
        by_slice: &[Histogram],
        response: Histogram,
        scheduled: u64,
        generator: f64,
    ) -> LoadOutcome {
        let mut outcome = samples::with_rate(response.count(), Nanos(1), generator);
        let at = |s: f64| Nanos((s * 1e9).round() as u64);
        outcome.measured_from = at(WARMUP_S);
        outcome.measured_to = at(WARMUP_S + STEP_S);
        outcome.requests.scheduled = scheduled;
        outcome.requests.sent = scheduled;
        outcome.service = response.clone();
        outcome.response = response;
        let slice = |(i, times): (usize, &Histogram)| Interval {
            from: at(i as f64 * SLICE_S),
            to: at((i + 1) as f64 * SLICE_S),
            succeeded: times.count(),
            response_ns_p50: times.quantile(0.5).unwrap_or_default().0,
            ..Interval::default()
        };
        outcome.intervals = by_slice.iter().enumerate().map(slice).collect();
        outcome
    }

    fn simulation(server: Server, per_s: f64, seed: u64) -> Simulation {
        Simulation {
            server,
            per_s,
            generator_per_s: f64::INFINITY,
            disturbed_one_in: None,
            steps: 0,
            random: Random::new(seed),
        }
    }

    /// Of the seeds at least 90 % give an interval that holds the true rate, and is narrow.
    fn check(seeds: u64, per_s: f64, aim: &Aim, truth: f64, server: Server) {
        let (mut hits, mut widths, mut steps) = (0, Vec::new(), 0);
        for seed in 0..seeds {
            let found = simulation(server, per_s, 1 + seed).search(aim);
            let low = found.edge_low_per_s.unwrap_or(0.0);
            let high = found.edge_high_per_s.unwrap_or(f64::INFINITY);
            assert!(found.steps.len() <= MOST_STEPS as usize);
            hits += u64::from(low <= truth && truth <= high && high < f64::INFINITY);
            widths.push((high - low) / truth);
            steps += found.steps.len();
        }
        widths.sort_by(f64::total_cmp);
        let width = widths[widths.len() / 2];
        let said = format!(
            "{}: {hits} of {seeds}, width {width:.3}, {:.1} steps",
            aim.sought(),
            steps as f64 / seeds as f64
        );
        println!("{said}");
        assert!(hits * 10 >= seeds * 9, "{said}");
        assert!(width < 0.2, "{said}");
    }

    fn slo(text: &str) -> Aim {
        Aim {
            slo: Some(text.parse().unwrap()),
            knee: false,
        }
    }

    /// The response time of M/M/1 is exponential with the mean 1 / (mu - lambda).
    #[test]
    fn the_interval_holds_the_true_rate_of_a_queue() {
        let truth = 2_000.0 - SERVED_MS / 10.0;
        check(30, 2_000.0, &slo("p99<10ms"), truth, Server::Queue);
        let truth = 1_000.0 - SERVED_MS / 20.0;
        check(60, 1_000.0, &slo("p99<20ms"), truth, Server::Formula);
        // A tenth of p99 is 8 % of the rate here.
        let truth = 1_000.0 - SERVED_MS / 10.0;
        check(60, 1_000.0, &slo("p99<10ms"), truth, Server::Formula);
    }

    #[test]
    fn the_interval_holds_the_capacity_of_a_hard_limit() {
        check(
            60,
            2_000.0,
            &slo("p99<50ms,errors<1%"),
            2_000.0,
            Server::HardLimit,
        );
    }

    /// A tenth of the closed loop's rate leaves the p99 at ln 100 / 0.9 mu; ten times that is at 0.91 mu.
    #[test]
    fn the_interval_holds_the_knee_of_a_queue() {
        let knee = Aim {
            slo: None,
            knee: true,
        };
        check(60, 1_000.0, &knee, 910.0, Server::Formula);
    }

    #[test]
    fn disturbed_steps_are_taken_again() {
        let mut busy = simulation(Server::HardLimit, 2_000.0, 5);
        busy.disturbed_one_in = Some(4);
        let found = busy.search(&slo("p99<50ms"));
        assert!(found.steps.iter().any(|s| s.held.is_none()));
        assert_eq!(found.found, Found::Between);
        assert!(
            found.edge_low_per_s.unwrap() <= 2_000.0 && found.edge_high_per_s.unwrap() >= 2_000.0
        );
        let mut busy = simulation(Server::HardLimit, 2_000.0, 5);
        busy.disturbed_one_in = Some(1);
        let found = busy.search(&slo("p99<50ms"));
        assert_eq!(
            (found.found, found.ended),
            (Found::NotValid, Some(Ended::Disturbed))
        );
    }

    #[test]
    fn a_full_generator_is_neither_the_servers_failure_nor_its_success() {
        let mut small = simulation(Server::HardLimit, 4_000.0, 3);
        small.generator_per_s = 3_000.0;
        let found = small.search(&slo("p99<50ms"));
        let low = found.highest_held_per_s.unwrap();
        assert!(low > 2_800.0 && low <= 3_000.0, "{low}");
        assert_eq!(
            (found.found, found.ended),
            (Found::AtLeast, Some(Ended::Generator))
        );
        assert_eq!(
            (found.edge_per_s, found.lowest_not_held_per_s),
            (None, None)
        );
        let said = found.summary();
        assert!(
            said.contains("at least") && said.contains("generator is the limit"),
            "{said}"
        );
        // With the generator's limit above the server's edge the answer is whole.
        let mut enough = simulation(Server::HardLimit, 4_000.0, 3);
        enough.generator_per_s = 4_400.0;
        assert_eq!(enough.search(&slo("p99<50ms")).found, Found::Between);
        let mut full = simulation(Server::HardLimit, 4_000.0, 3);
        full.generator_per_s = 0.0;
        let found = full.search(&slo("p99<50ms"));
        assert_eq!(
            (found.found, found.ended),
            (Found::NotValid, Some(Ended::Generator))
        );
    }

    #[test]
    fn a_level_that_no_rate_holds_is_said_to_be_such() {
        let found = simulation(Server::HardLimit, 100.0, 3).search(&slo("p99<5ms"));
        assert_eq!(
            (found.found, found.ended),
            (Found::NotHeld, Some(Ended::Lowest))
        );
        let said = found.summary();
        assert!(
            said.starts_with("p99<5.00ms does not hold at any rate, down to 0."),
            "{said}"
        );
    }

    #[test]
    fn a_plan_says_how_long_it_takes_and_refuses_what_is_too_short() {
        let plan = |from, budget| {
            let times = (Nanos::SECOND, Nanos::from_secs(5));
            SearchPlan::new(&Aim::default(), 10, from, times, budget)
        };
        let whole = plan(None, None).unwrap();
        assert_eq!((whole.most_steps, whole.at_most_s), (24, 162.5));
        let minute = plan(Some(10.0), Some(Nanos::from_secs(60))).unwrap();
        assert_eq!((minute.most_steps, minute.at_most_s), (9, 58.5));
        let short = plan(None, Some(Nanos::from_secs(30))).unwrap_err();
        assert_eq!(short.steps, 3);
    }
}
