//! `prony load --find-max` and `--find-knee`: loads one after the other, each at the rate that says most.
//!
//! What a search is and when it ends is the analysis's (`analysis/src/find.rs`); here are the loads, the rests between
//! them and the clock. The surprise: the result has the form of one load's, that of the highest rate that held, with
//! the search beside it, so that every output of a load is one of a search too.

use super::load::{Measured, export, measure};
use crate::cli::LoadArgs;
use crate::executor::drive::Instrumentation;
use crate::executor::source::Source;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::terminal::{self, Progress};
use analysis::{Aim, Ended, Found, RateSearch, SearchPlan};
use record::{Arrival, Clock, LoadSpec, Nanos};
use report::json::{LoadDocument, SloKept};
use traffic::MonotonicClock;

/// Warm-up and measured part of a step, when nothing else is said.
const WARMUP: Nanos = Nanos::SECOND;
const MEASURED: Nanos = Nanos::from_secs(5);

/// Searches; `spec` is the load of which the rate is searched, and `source` where it is sent from.
///
/// # Errors
/// [`Failure`] when the flags do not make a search, or a load could not start.
pub(super) fn run(args: &LoadArgs, spec: &LoadSpec, source: &mut Source) -> Result<Exit, Failure> {
    let aim = aim(args)?;
    let warmup = args.load.warmup.unwrap_or(WARMUP);
    let measured = args.load.duration.unwrap_or(MEASURED);
    let spec = LoadSpec {
        warmup,
        duration: Some(measured),
        ..spec.steady()
    };
    let plan = SearchPlan::new(
        &aim,
        spec.connections,
        spec.arrival.offered_per_s(),
        (warmup, measured),
        args.search.budget,
    )
    .map_err(|e| {
        Failure::new(
            Exit::Usage,
            e.to_string(),
            "allow more, or shorten the steps: -d 2s",
        )
    })?;
    if args.search.dry_run {
        let text = match args.json {
            true => super::to_json(&plan),
            false => report::text::search_plan_text(&plan),
        };
        terminal::result(&text)?;
        return Ok(Exit::Valid);
    }
    terminal::note(report::text::search_plan_text(&plan).trim_end());
    let allowed = aim.slo.as_ref().and_then(analysis::Slo::errors_allowed);
    let mut finder = Finder {
        spec,
        source,
        // An error that the service level allows does not make a step invalid.
        error_limit: allowed.unwrap_or(0.0).max(args.load.error_limit),
        interrupt: Interrupt::install()?,
        held: Vec::new(),
        last: None,
    };
    let search = finder.find(&aim, plan)?;
    show(args, &aim, &search, finder)?;
    Ok(match (search.ended, search.found) {
        (Some(Ended::Interrupted), _) => Exit::Interrupted,
        (_, Found::Between) => Exit::Valid,
        (_, Found::NotHeld) => Exit::Failed,
        // A rate that is at least so much is no answer to how much it is.
        (_, Found::AtLeast | Found::NotValid) => Exit::Invalid,
    })
}

fn aim(args: &LoadArgs) -> Result<Aim, Failure> {
    let refused = |what: &str, remedy: &str| Err(Failure::new(Exit::Usage, what, remedy));
    if args.load.requests.is_some() {
        return refused(
            "a search has steps of a time, not of a number of requests",
            "give -d in place of -n",
        );
    }
    if args.slo.as_ref().is_some_and(analysis::Slo::asks_for_rate) {
        return refused(
            "a search finds the rate: it cannot be a condition of its service level",
            "leave `rate>...` out of --slo",
        );
    }
    Ok(Aim {
        slo: args.slo.clone(),
        knee: args.search.find_knee,
    })
}

/// A load with the rate that was offered.
struct Step {
    spec: LoadSpec,
    measured: Measured,
}

struct Finder<'a> {
    spec: LoadSpec,
    source: &'a mut Source,
    error_limit: f64,
    interrupt: Interrupt,
    /// Steps that held.
    held: Vec<Step>,
    /// The newest load.
    last: Option<Step>,
}

impl Finder<'_> {
    fn find(&mut self, aim: &Aim, plan: SearchPlan) -> Result<RateSearch, Failure> {
        let began = MonotonicClock.now();
        let at_most = Nanos((plan.at_most_s * 1e9) as u64);
        let one = self.spec.warmup + self.spec.duration.unwrap_or_default() + plan.rest();
        let closed = match plan.from_per_s {
            Some(_) => None,
            None => {
                let rate = self
                    .load(Arrival::Closed, "closed loop: ")?
                    .outcome
                    .achieved_per_s();
                if !self.interrupt.asked() {
                    self.rest(plan.rest())?;
                }
                rate
            }
        };
        let mut search = RateSearch::new(plan, closed);
        loop {
            let next = match search.next_per_s(aim) {
                _ if self.interrupt.asked() => Err(Ended::Interrupted),
                Ok(_) if MonotonicClock.now().since(began) + one > at_most + search.plan.rest() => {
                    Err(Ended::Budget)
                }
                next => next,
            };
            let per_s = match next {
                Ok(per_s) => per_s,
                Err(ended) => {
                    search.ended = Some(ended);
                    return Ok(search);
                }
            };
            if !search.steps.is_empty() {
                self.rest(search.plan.rest())?;
            }
            self.step(aim, &mut search, per_s)?;
        }
    }

    fn step(&mut self, aim: &Aim, search: &mut RateSearch, per_s: f64) -> Result<(), Failure> {
        let number = search.steps.len() as u64;
        let arrival = match self.spec.arrival {
            // Other gaps in each step, or a repeat would repeat the chance too.
            Arrival::Poisson { seed, .. } => Arrival::Poisson {
                per_s,
                seed: seed.wrapping_add(number << 16),
            },
            _ => Arrival::Constant { per_s },
        };
        let prefix = format!(
            "step {} of {} at most: ",
            number + 1,
            search.plan.most_steps
        );
        let Measured {
            outcome, verdict, ..
        } = self.load(arrival, &prefix)?;
        if outcome.interrupted {
            return Ok(());
        }
        let held = search.add(aim, per_s, outcome, verdict).held;
        terminal::note(&report::text::find_line(search));
        if held == Some(true) {
            self.held.extend(self.last.take());
        }
        Ok(())
    }

    fn load(&mut self, arrival: Arrival, prefix: &str) -> Result<&Measured, Failure> {
        let spec = LoadSpec {
            arrival,
            ..self.spec.clone()
        };
        let (limit, interrupt) = (self.error_limit, &self.interrupt);
        let measured = measure(self.source, &spec, limit, interrupt, prefix)?;
        Ok(&self.last.insert(Step { spec, measured }).measured)
    }

    /// One request by itself: whoever answers in order has no backlog left then. And a pause.
    fn rest(&mut self, pause: Nanos) -> Result<(), Failure> {
        let began = MonotonicClock.now();
        let fence = LoadSpec {
            duration: None,
            requests: Some(1),
            requests_per_connection: None,
            ..self.spec.single_client()
        };
        let (around, mut silent) = (Instrumentation::default(), Progress::silent());
        let load = self.source.prepare(&fence)?;
        load.drive(&fence, &around, &mut silent, &mut || false)?;
        let left = pause.0.saturating_sub(MonotonicClock.now().since(began).0);
        std::thread::sleep(std::time::Duration::from_nanos(left));
        Ok(())
    }

    /// The step whose figures are shown: of the highest rate that held the newest, or else the newest load of all.
    fn shown(self, search: &RateSearch) -> Option<Step> {
        let rate = search.highest_held_per_s;
        let at_rate = |step: &Step| rate.is_some() && step.spec.arrival.offered_per_s() == rate;
        let mut held = self.held.into_iter().rev();
        held.find(at_rate).or(self.last)
    }
}

fn show(
    args: &LoadArgs,
    aim: &Aim,
    search: &RateSearch,
    finder: Finder<'_>,
) -> Result<(), Failure> {
    let style = terminal::style();
    let found = report::text::find_text(search, style);
    let Some(Step { spec, measured }) = finder.shown(search) else {
        return terminal::result(&found);
    };
    let Measured {
        outcome, verdict, ..
    } = &measured;
    let document = LoadDocument {
        slo: aim.slo.as_ref().map(|slo| SloKept {
            asked: slo.to_string(),
            broken: slo.broken(outcome),
        }),
        search: Some(search.clone()),
        ..report::json::load_document(&spec, outcome, verdict)
    };
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        let load = report::text::load_at_text(&spec, outcome, verdict, style);
        terminal::result(&format!("{found}\n{load}"))?;
    }
    export(&args.out, &document, outcome)
}
