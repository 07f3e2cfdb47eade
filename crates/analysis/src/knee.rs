//! Where a stage's curve bends: the load from which more load no longer pays.
//!
//! Closed loop: the fewest connections whose median rate is within 5 % of the stage's highest. Open loop:
//! the highest offered rate that was met while p99 stayed within ten times that of the lowest rate. Both
//! are chosen over curvature methods (Kneedle, Satopaa et al. 2011) because an experiment has four to eight
//! levels and a noise of 2-4 %, where a second difference says little. No knee is reported when
//! the curve still rises at its last level: then it was not reached.

use crate::stats::{median, share};
use crate::words::{percent, plural};
use crate::{Cell, Knee, TrialAnalysis};
use plan::{Levels, Plan, TrialPlan};

/// From this share of the highest rate on, more connections gain no more than the noise.
const PLATEAU: f64 = 0.95;
/// For an M/M/1 queue ten times the unloaded response time stands for a utilization of 90 %.
pub(crate) const P99_FACTOR: f64 = 10.0;
/// A bend needs a level before it and one after it.
const FEWEST_POINTS: usize = 3;

/// One level of a curve.
#[derive(Clone, Copy, Debug)]
struct Point {
    load: f64,
    rate: f64,
    p99: Option<f64>,
    /// All trials that count are valid: an open-loop level that failed now and then was not met.
    met: bool,
}

/// A curve: its stage, the levels that stay the same along it, and whether it is an open loop.
type CurveKey = (String, Vec<(String, String)>, bool);

/// Knees of all stages.
pub(crate) fn knees(plan: &Plan, cells: &[Cell], trials: &[TrialAnalysis]) -> Vec<Knee> {
    let mut curves: Vec<(CurveKey, Vec<Point>)> = Vec::new();
    for cell in cells {
        let Some((key, point)) = place(plan, cell, trials) else {
            continue;
        };
        match curves.iter_mut().find(|(k, _)| *k == key) {
            Some((_, points)) => points.push(point),
            None => curves.push((key, vec![point])),
        }
    }
    curves.into_iter().filter_map(knee).collect()
}

/// The trial plan behind a cell tells which factors move the load.
fn place(plan: &Plan, cell: &Cell, trials: &[TrialAnalysis]) -> Option<(CurveKey, Point)> {
    let stage = plan.stages.iter().position(|s| s.name == cell.stage)?;
    let of_stage = || plan.trials.iter().filter(move |t| t.stage == stage);
    let trial = of_stage().find(|t| t.levels == cell.levels)?;
    let open = trial.load.arrival.offered_per_s().is_some() || trial.rate_of_capacity.is_some();
    let same: Vec<&TrialPlan> = of_stage().collect();
    let fixed = cell
        .levels
        .iter()
        .filter(|(factor, _)| !moves_plan(&same, trial, factor, open))
        .map(|(factor, level)| (factor.clone(), level.clone()))
        .collect();
    let load = if open {
        offered(cell, trials)?
    } else {
        f64::from(trial.load.connections)
    };
    let point = Point {
        load,
        rate: cell.achieved_per_s.map_or(0.0, |s| s.median),
        p99: cell.response_ns_p99.map(|s| s.median),
        met: cell.is_measured() && cell.valid.len() == cell.counted(),
    };
    Some(((cell.stage.clone(), fixed, open), point))
}

/// The rate that a cell's trials were asked for, the invalid ones included: a plan that says "90 % of the
/// capacity" does not know it.
fn offered(cell: &Cell, trials: &[TrialAnalysis]) -> Option<f64> {
    let ended = trials.iter().filter(|t| cell.trials.contains(&t.id));
    median(&ended.filter_map(|t| t.offered_per_s).collect::<Vec<_>>())
}

/// A factor moves the load when two trials or cells that differ in it alone differ in their load: `one` and
/// any of `all`, each with its levels.
pub fn moves_load<'a, L: PartialEq>(
    factor: &str,
    one: (&Levels, &L),
    all: impl IntoIterator<Item = (&'a Levels, L)>,
) -> bool {
    let without = |levels: &Levels| {
        let mut rest = levels.clone();
        rest.remove(factor);
        rest
    };
    let (levels, load) = one;
    let rest = without(levels);
    all.into_iter()
        .any(|(other, its)| its != *load && without(other) == rest)
}

fn moves_plan(of_stage: &[&TrialPlan], trial: &TrialPlan, factor: &str, open: bool) -> bool {
    let load = |t: &TrialPlan| {
        let rate = t.load.arrival.offered_per_s();
        match open {
            true => (rate, t.rate_of_capacity, 0),
            false => (None, None, t.load.connections),
        }
    };
    let all = of_stage.iter().map(|t| (&t.levels, load(t)));
    moves_load(factor, (&trial.levels, &load(trial)), all)
}

fn knee(((stage, fixed, open), mut points): (CurveKey, Vec<Point>)) -> Option<Knee> {
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    let (axis, point, method) = if open {
        let (point, method) = open_knee(&points)?;
        ("offered_per_s", point, method)
    } else {
        let (point, method) = closed_knee(&points)?;
        ("connections", point, method)
    };
    Some(Knee {
        stage,
        levels: fixed.into_iter().collect(),
        axis: axis.to_owned(),
        at: point.load,
        achieved_per_s: point.rate,
        response_ns_p99: point.p99,
        method,
    })
}

fn closed_knee(points: &[Point]) -> Option<(Point, String)> {
    let valid: Vec<Point> = points.iter().copied().filter(|p| p.rate > 0.0).collect();
    let highest = valid.iter().map(|p| p.rate).reduce(f64::max)?;
    let knee = *valid.iter().find(|p| p.rate >= PLATEAU * highest)?;
    let last = valid.last()?;
    let method = format!(
        "fewest connections that reach {} of the highest median rate of {}",
        percent(PLATEAU),
        plural(valid.len() as u64, "level")
    );
    (valid.len() >= FEWEST_POINTS && knee.load < last.load).then_some((knee, method))
}

fn open_knee(points: &[Point]) -> Option<(Point, String)> {
    let lowest = points.first().filter(|p| p.met)?;
    let times = |p: &Point| share(p.p99?, lowest.p99?);
    let within = |p: &Point| p.met && times(p).is_some_and(|x| x <= P99_FACTOR);
    let held = points.iter().take_while(|p| within(p)).count();
    let knee = *points.get(held.checked_sub(1)?)?;
    let method = format!(
        "highest offered rate of {} that was met with a p99 of at most {P99_FACTOR} times that at the lowest rate",
        plural(points.len() as u64, "level")
    );
    (points.len() >= FEWEST_POINTS && held < points.len()).then_some((knee, method))
}
