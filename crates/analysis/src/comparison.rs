//! Two records side by side: what is faster or slower, how sure that is, and what their servers do for each request.
//!
//! Cells with the same stage and levels are compared by rate, latency and CPU per request: with an interval where both
//! have trials enough, by the bare ratio where not. Calls per request stand beside that, because they do not depend on
//! how fast a machine is. What was loaded differently or is not valid is refused, with the reason.
//!
//! The surprise: trials of two records never ran in turn. Their interval covers what differs between the trials of a
//! record, not what happened to the host between the two; only `prony run` interleaves. So the comparison says so, and
//! warns where the hosts differ or where all cells moved alike.

use crate::cells::{not_measured, p50, p99};
use crate::contrast::{self, FEWEST, Family, Sample, correct};
use crate::diagnosis::{CallChange, signature_diff};
use crate::stats::{median, share, spread};
use crate::words::{self, percent, plural};
use crate::{Method, Ratio, Spread, TrialAnalysis, trial::analyse_trial};
use plan::{Again, Levels, Plan};
use record::{
    Arrival, LoadSpec, PROOF_STAGE, RunRecord, Signature, TrialRecord, TrialState, Warning,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Offered rates that differ by less are the same load: a share of a capacity comes out a little different each time.
const SAME_RATE: f64 = 0.05;
/// Share of failed requests of a valid trial, where a record does not say.
const ERROR_LIMIT: f64 = 0.01;
/// Smaller differences read as none.
const SMALLEST_SHOWN: f64 = 0.001;
/// Ratios of all cells within this distance of each other moved alike.
const ALIKE: f64 = 0.03;

/// What of two records is held against what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompareOptions {
    /// Relative difference of a count of calls (0 to 1) that is none.
    pub tolerance: f64,
    /// Relative change for the worse (0.05: 5 %) beyond which a difference is a regression; `None`: any that is seen.
    pub threshold: Option<f64>,
}

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing valid could be compared.
    #[default]
    NotComparable,
    /// There was something to compare, and nothing to judge it by: too few trials, no counted calls, no threshold.
    NotJudged,
    /// Something got worse: beyond the threshold, where there is one.
    Regression,
    /// Nothing got worse, but a server does something else for each request.
    OtherCalls,
    /// Something got better, and nothing worse.
    Improvement,
    /// No difference was seen.
    NoDifference,
}

/// What is said of one figure of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Better: a higher rate, a shorter time, less CPU, fewer calls.
    Faster,
    /// Worse.
    Slower,
    /// No difference was seen.
    NoDifference,
    /// Too few trials for an interval, and no threshold to hold the ratio against.
    NotJudged,
}

/// One figure of a cell in both records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureCompared {
    /// `rate_per_s`, `response_ns_p50`, `response_ns_p99`, `cpu_us_per_request`, `calls_per_request`.
    pub figure: String,
    pub unit: String,
    /// Over the valid trials of the first record.
    pub before: Spread,
    /// Of the second.
    pub after: Spread,
    /// Valid trials that have the figure, in the first and in the second record.
    pub trials: (u32, u32),
    /// The second divided by the first, with its interval and the smallest effect that would have been found.
    pub ratio: Ratio,
    /// What is said of it.
    pub judgement: Judgement,
    /// It is worse beyond the threshold.
    pub regression: bool,
}

/// CPU that something used, as a mean over the valid trials: 1 is one core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCompared {
    /// Target, `generator`, or `host`.
    pub owner: String,
    /// Mode: `user`, `system`, `softirq`, ...; `all` for the sum.
    pub mode: String,
    /// Cores, in the first record.
    pub before: Option<f64>,
    /// Cores, in the second.
    pub after: Option<f64>,
}

/// One cell that both records have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellCompared {
    pub stage: String,
    /// Level of each factor.
    pub levels: Levels,
    /// What is compared; empty where that is refused.
    pub figures: Vec<FigureCompared>,
    /// Who used the CPU.
    pub cpu: Vec<CpuCompared>,
    /// What limited the cell, in the first and in the second record.
    pub limits: (String, String),
    /// Both records have counted calls here.
    pub counted: bool,
    /// Calls per request that differ, largest difference first.
    pub changes: Vec<CallChange>,
    /// Calls that differ and whose number depends on how fast things go: shown, and no regression.
    pub by_timing: Vec<CallChange>,
}

/// A cell that may not be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Its name.
    pub cell: String,
    pub why: String,
}

/// What two records have in common and where they differ.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The result.
    pub outcome: Outcome,
    /// The same in one sentence with the numbers.
    pub why: String,
    /// Threshold of a regression, as a share; `null` without one.
    pub threshold: Option<f64>,
    /// Figures that were tested: the family that the p-values are corrected for.
    pub comparisons: u32,
    /// Cells that both have.
    pub cells: Vec<CellCompared>,
    /// Cells that both have and that may not be compared by their figures.
    pub refused: Vec<Refused>,
    /// Cells that only one of them has, by name.
    pub unmatched: Vec<String>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

impl Comparison {
    /// Nothing differs that does not depend on timing.
    pub fn same(&self) -> bool {
        matches!(self.outcome, Outcome::NoDifference)
    }
}

/// Calls that a server makes when it has nothing to do or when two threads meet: one per wake-up, not per request.
const BY_TIMING: [&str; 12] = [
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "futex",
    "sched_yield",
    "restart_syscall",
    "nanosleep",
    "clock_nanosleep",
];

/// The number of this call per request depends on how requests meet in time, and differs without a cause.
pub(crate) fn is_by_timing(call: &str) -> bool {
    BY_TIMING.contains(&call)
}

/// A figure, by its name and unit; where more is better; and how a trial has it.
struct Figure {
    name: &'static str,
    unit: &'static str,
    more_is_better: bool,
    of: fn(&TrialAnalysis) -> Option<f64>,
}

/// Counted, not timed: it repeats within 1 % on any machine, and so it is judged without an interval.
const CALLS: &str = "calls_per_request";

const FIGURES: [Figure; 4] = [
    Figure {
        name: "rate_per_s",
        unit: "1/s",
        more_is_better: true,
        of: |t| t.achieved_per_s,
    },
    Figure {
        name: "response_ns_p50",
        unit: "ns",
        more_is_better: false,
        of: p50,
    },
    Figure {
        name: "response_ns_p99",
        unit: "ns",
        more_is_better: false,
        of: p99,
    },
    Figure {
        name: "cpu_us_per_request",
        unit: "us",
        more_is_better: false,
        of: |t| t.target_cpu_us_per_request,
    },
];

/// All trials of a record with the same stage and levels.
struct Side<'a> {
    stage: &'a str,
    levels: &'a Levels,
    records: Vec<&'a TrialRecord>,
    valid: Vec<TrialAnalysis>,
    /// Those that are not valid.
    invalid: Vec<TrialAnalysis>,
}

impl Side<'_> {
    fn name(&self) -> String {
        let levels = self.levels.iter().map(|(k, v)| format!(" {k}={v}"));
        format!("{}{}", self.stage, levels.collect::<String>())
    }

    fn load(&self) -> Option<&LoadSpec> {
        self.records.first().map(|t| &t.load)
    }

    fn signature(&self) -> Option<&Signature> {
        self.records.iter().find_map(|t| {
            let signature = t.examination.as_ref()?.signature.as_ref()?;
            (signature.requests > 0).then_some(signature)
        })
    }

    /// Why it has no figures.
    fn not_measured(&self) -> Option<String> {
        let all: Vec<&TrialAnalysis> = self.valid.iter().chain(&self.invalid).collect();
        not_measured(&all, self.valid.len())
    }

    fn values(&self, of: fn(&TrialAnalysis) -> Option<f64>) -> Vec<f64> {
        self.valid.iter().filter_map(of).collect()
    }

    /// Limits named by the valid trials, the most frequent first.
    fn limit(&self) -> String {
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for trial in &self.valid {
            *named.entry(trial.verdict.limit.name()).or_default() += 1;
        }
        let most = named.into_iter().max_by_key(|(_, n)| *n);
        most.map_or_else(String::new, |(name, _)| name.to_owned())
    }

    /// Cores that an owner used, by mode, as a mean over the valid trials.
    fn cpu(&self) -> BTreeMap<(String, String), f64> {
        let mut sum: BTreeMap<(String, String), f64> = BTreeMap::new();
        let n = self.valid.len() as f64;
        for usage in self.valid.iter().flat_map(|t| &t.usage) {
            let modes = usage.by_mode.iter().filter(|(mode, _)| *mode != "idle");
            let all = (&"all".to_owned(), &usage.utilization);
            for (mode, cores) in modes.chain(std::iter::once(all)) {
                *sum.entry((usage.owner.clone(), mode.clone())).or_default() += cores / n;
            }
        }
        sum
    }
}

/// Compares two records, cell by cell.
pub fn compare(a: &RunRecord, b: &RunRecord, options: CompareOptions) -> Comparison {
    let (before, after) = (sides(a), sides(b));
    let mut comparison = Comparison {
        threshold: options.threshold,
        warnings: hosts(a, b),
        ..Comparison::default()
    };
    let pairs = matched(&before, &after, &mut comparison);
    let refusals: Vec<Result<(), String>> =
        pairs.iter().map(|(was, is)| comparable(was, is)).collect();
    let tested = |(was, is): &(&Side<'_>, &Side<'_>)| {
        let both = |f: &&Figure| was.values(f.of).len().min(is.values(f.of).len()) >= FEWEST;
        FIGURES.iter().filter(both).count()
    };
    let valid = pairs.iter().zip(&refusals).filter(|(_, r)| r.is_ok());
    let family = Family {
        comparisons: valid.map(|(pair, _)| tested(pair)).sum(),
        sequential: false,
    };
    comparison.comparisons = u32::try_from(family.comparisons).unwrap_or(u32::MAX);
    for ((was, is), refusal) in pairs.into_iter().zip(refusals) {
        let mut cell = CellCompared {
            stage: was.stage.to_owned(),
            levels: was.levels.clone(),
            ..CellCompared::default()
        };
        match refusal {
            Ok(()) => figures(was, is, family, &mut cell),
            Err(why) => comparison.refused.push(Refused {
                cell: was.name(),
                why,
            }),
        }
        calls(was, is, options.tolerance, &mut cell);
        if cell.counted || !cell.figures.is_empty() {
            comparison.cells.push(cell);
        }
    }
    let figures = comparison.cells.iter_mut().flat_map(|c| &mut c.figures);
    correct(
        &mut figures.map(|f| &mut f.ratio).collect::<Vec<_>>(),
        false,
    );
    judge(&mut comparison, options);
    comparison
}

fn sides(record: &RunRecord) -> Vec<Side<'_>> {
    let limit = record
        .plan
        .get("error_limit")
        .and_then(serde_json::Value::as_f64);
    let again = record.plan.get("again");
    let again = again
        .and_then(|again| Vec::<Again>::deserialize(again).ok())
        .unwrap_or_default();
    let replaced = |trial: &TrialRecord| {
        let complete = |id: u32| {
            let mut trials = record.trials.iter();
            trials.any(|t| t.id == id && t.state == TrialState::Complete)
        };
        again
            .iter()
            .any(|a| a.replaces && a.of == trial.id && complete(a.trial))
    };
    let mut sides: Vec<Side<'_>> = Vec::new();
    let plan = Plan::deserialize(&record.plan).ok();
    let is_step = |stage: &str| plan.iter().flat_map(Plan::searches).any(|s| s == stage);
    // A proof's arms are copies of a server, and compared with each other already; a search has its own rates.
    let own = |t: &&TrialRecord| t.stage != PROOF_STAGE && !is_step(&t.stage);
    for trial in record.trials.iter().filter(own) {
        let at = sides
            .iter()
            .position(|s| s.stage == trial.stage && *s.levels == trial.levels);
        let side = match at {
            Some(at) => &mut sides[at],
            None => {
                sides.push(Side {
                    stage: &trial.stage,
                    levels: &trial.levels,
                    records: Vec::new(),
                    valid: Vec::new(),
                    invalid: Vec::new(),
                });
                let last = sides.len() - 1;
                &mut sides[last]
            }
        };
        let (analysed, _) = analyse_trial(trial, limit.unwrap_or(ERROR_LIMIT));
        side.records.push(trial);
        match analysed.verdict.valid {
            _ if replaced(trial) => {}
            true => side.valid.push(analysed),
            false => side.invalid.push(analysed),
        }
    }
    sides
}

/// Cells of the same stage and levels; where stages are named differently, those of the same levels; and two records
/// of one cell each, whatever it is called.
fn matched<'a>(
    before: &'a [Side<'a>],
    after: &'a [Side<'a>],
    comparison: &mut Comparison,
) -> Vec<(&'a Side<'a>, &'a Side<'a>)> {
    let mut pairs: Vec<(&Side<'_>, &Side<'_>)> = Vec::new();
    for was in before {
        let same = after
            .iter()
            .find(|is| is.stage == was.stage && is.levels == was.levels);
        let unique =
            |sides: &[Side<'_>]| sides.iter().filter(|s| s.levels == was.levels).count() == 1;
        let alike = || {
            let found = after.iter().find(|is| is.levels == was.levels);
            found.filter(|_| unique(before) && unique(after))
        };
        pairs.extend(same.or_else(alike).map(|is| (was, is)));
    }
    if let ([was], [is], []) = (before, after, pairs.as_slice()) {
        comparison.warnings.push(Warning::new(
            "other_cell",
            format!(
                "`{}` is compared with `{}`: each record has one cell",
                was.name(),
                is.name()
            ),
            "",
        ));
        pairs.push((was, is));
    }
    let lone = |side: &&Side<'_>| {
        !pairs
            .iter()
            .any(|(was, is)| std::ptr::eq(*was, *side) || std::ptr::eq(*is, *side))
    };
    comparison.unmatched = before
        .iter()
        .chain(after)
        .filter(lone)
        .map(Side::name)
        .collect();
    pairs
}

/// Whether two cells were loaded alike and have something valid to show.
fn comparable(was: &Side<'_>, is: &Side<'_>) -> Result<(), String> {
    if let (Some(a), Some(b)) = (was.load(), is.load()) {
        same_load(a, b)?;
    }
    for (side, which) in [(was, "first"), (is, "second")] {
        if let Some(why) = side.not_measured() {
            return Err(format!("not measured in the {which} record: {why}"));
        }
    }
    Ok(())
}

/// How the rate changes, in words.
fn course(load: &LoadSpec) -> String {
    match load.rate_pieces.is_empty() {
        true => "one height".to_owned(),
        false => format!("{} requests per second", load.rate_pieces),
    }
}

fn same_load(a: &LoadSpec, b: &LoadSpec) -> Result<(), String> {
    let differ = |what: &str, before: String, after: String| match before == after {
        true => Ok(()),
        false => Err(format!("another load: {what} {before} and {after}")),
    };
    let arrival = |load: &LoadSpec| match load.arrival {
        Arrival::Closed => "closed loop".to_owned(),
        Arrival::Constant { .. } => "open loop (constant)".to_owned(),
        Arrival::Poisson { .. } => "open loop (Poisson)".to_owned(),
    };
    differ("by", arrival(a), arrival(b))?;
    if let (Some(x), Some(y)) = (a.arrival.offered_per_s(), b.arrival.offered_per_s())
        && (x - y).abs() > SAME_RATE * x.max(y)
    {
        return Err(format!(
            "another load: {} and {} offered per second",
            words::rate(x),
            words::rate(y)
        ));
    }
    differ("a rate of", course(a), course(b))?;
    differ(
        "connections",
        a.connections.to_string(),
        b.connections.to_string(),
    )?;
    let each = |load: &LoadSpec| {
        load.requests_per_connection
            .map_or("unlimited".to_owned(), words::count)
    };
    differ("requests per connection", each(a), each(b))?;
    differ("pipeline", a.pipeline.to_string(), b.pipeline.to_string())?;
    differ(
        "HTTP version",
        a.http.name().to_owned(),
        b.http.name().to_owned(),
    )?;
    differ("streams", a.streams.to_string(), b.streams.to_string())?;
    differ("method", a.method.clone(), b.method.clone())?;
    match a.url.is_empty() || b.url.is_empty() {
        true => Ok(()), // Output of another tool that does not name it.
        false => differ("path", path(&a.url), path(&b.url)),
    }
}

/// What of a URL is asked of the server; host and port change from run to run.
fn path(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("/", |at| &rest[at..]).to_owned()
}

/// Medians and ratios of everything that both cells have, and who used the CPU.
fn figures(was: &Side<'_>, is: &Side<'_>, family: Family, cell: &mut CellCompared) {
    for figure in &FIGURES {
        let (before, after) = (was.values(figure.of), is.values(figure.of));
        cell.figures
            .extend(compared(figure, &before, &after, family));
    }
    let (before, after) = (was.cpu(), is.cpu());
    let mut keys: Vec<&(String, String)> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    cell.cpu = keys
        .into_iter()
        .map(|key| CpuCompared {
            owner: key.0.clone(),
            mode: key.1.clone(),
            before: before.get(key).copied(),
            after: after.get(key).copied(),
        })
        .collect();
    cell.limits = (was.limit(), is.limit());
}

fn compared(
    figure: &Figure,
    before: &[f64],
    after: &[f64],
    family: Family,
) -> Option<FigureCompared> {
    let number = |values: &[f64]| u32::try_from(values.len()).unwrap_or(u32::MAX);
    Some(FigureCompared {
        figure: figure.name.to_owned(),
        unit: figure.unit.to_owned(),
        before: spread(before)?,
        after: spread(after)?,
        trials: (number(before), number(after)),
        ratio: contrast::ratio(&Sample::apart(before, after), family)?,
        judgement: Judgement::NotJudged,
        regression: false,
    })
}

/// What the servers do for each request: every call that differs, and the sum of those that do not depend on timing.
fn calls(was: &Side<'_>, is: &Side<'_>, tolerance: f64, cell: &mut CellCompared) {
    let (Some(before), Some(after)) = (was.signature(), is.signature()) else {
        return;
    };
    let differs = |c: &CallChange| (c.after - c.before).abs() > tolerance * c.before.max(c.after);
    let by_timing = |c: &CallChange| is_by_timing(&c.call);
    (cell.by_timing, cell.changes) = signature_diff(before, after)
        .into_iter()
        .filter(differs)
        .partition(by_timing);
    cell.counted = true;
    let (Some(x), Some(y)) = (
        calls_per_request(before, after),
        calls_per_request(after, before),
    ) else {
        return;
    };
    let one = |value| Spread {
        median: value,
        min: value,
        max: value,
    };
    cell.figures.extend(share(y, x).map(|ratio| FigureCompared {
        figure: CALLS.to_owned(),
        unit: "calls".to_owned(),
        before: one(x),
        after: one(y),
        trials: (1, 1),
        ratio: Ratio {
            ratio,
            low: ratio,
            high: ratio,
            pairs: 1,
            coverage: 0.0,
            method: Method::None,
            p: None,
            p_adjusted: None,
            smallest_effect: None,
        },
        judgement: match () {
            () if (y - x).abs() <= tolerance * x.max(y) => Judgement::NoDifference,
            () if y < x => Judgement::Faster,
            () => Judgement::Slower,
        },
        regression: false,
    }));
}

/// Calls per request, but for those that wait; `None` when none were counted. Only targets that the other record has
/// counted too: a call that was not counted is not a call that was not made.
fn calls_per_request(signature: &Signature, other: &Signature) -> Option<f64> {
    let requests = signature.requests + signature.failed;
    let counted = |name: &str| {
        other
            .targets
            .iter()
            .any(|t| t.target == name && t.calls.is_some())
    };
    let targets = signature.targets.iter().filter(|t| counted(&t.target));
    let calls: Vec<u64> = targets
        .filter_map(|t| t.calls.as_ref())
        .flatten()
        .filter(|c| !BY_TIMING.contains(&c.call.as_str()))
        .map(|c| c.calls)
        .collect();
    match calls.is_empty() {
        true => None,
        false => share(calls.iter().sum::<u64>() as f64, requests as f64),
    }
}

/// Says of every figure what it shows, and of all of them together what they come to.
fn judge(comparison: &mut Comparison, options: CompareOptions) {
    for figure in comparison.cells.iter_mut().flat_map(|c| &mut c.figures) {
        let worse = match more_is_better(&figure.figure) {
            true => 1.0 - figure.ratio.ratio,
            false => figure.ratio.ratio - 1.0,
        };
        let beyond = options.threshold.is_none_or(|t| worse > t);
        if figure.figure != CALLS {
            figure.judgement = match (figure.ratio.differs(), options.threshold) {
                (Some(false), _) => Judgement::NoDifference,
                (Some(true), _) if worse > 0.0 => Judgement::Slower,
                (Some(true), _) => Judgement::Faster,
                (None, None) => Judgement::NotJudged,
                (None, Some(t)) if worse > t => Judgement::Slower,
                (None, Some(t)) if -worse > t => Judgement::Faster,
                (None, Some(_)) => Judgement::NoDifference,
            };
        }
        figure.regression = figure.judgement == Judgement::Slower && beyond;
    }
    comparison.warnings.extend(moved_alike(&comparison.cells));
    (comparison.outcome, comparison.why) = outcome(comparison, options);
}

fn more_is_better(figure: &str) -> bool {
    FIGURES.iter().any(|f| f.name == figure && f.more_is_better)
}

fn outcome(comparison: &Comparison, options: CompareOptions) -> (Outcome, String) {
    let figures = || {
        comparison
            .cells
            .iter()
            .flat_map(|c| c.figures.iter().map(move |f| (c, f)))
    };
    let cells = plural(comparison.cells.len() as u64, "cell");
    if comparison.cells.is_empty() {
        let why = match comparison.refused.first() {
            Some(first) => format!("{}: {}", first.cell, first.why),
            None => "the records have no cell in common".to_owned(),
        };
        return (Outcome::NotComparable, why);
    }
    let farthest = |wanted: fn(&FigureCompared) -> bool| {
        let distance = |f: &FigureCompared| f.ratio.ratio.max(f64::MIN_POSITIVE).ln().abs();
        figures()
            .filter(|(_, f)| wanted(f))
            .max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
            .map(|(cell, f)| {
                format!(
                    "{} x{:.3} ({})",
                    f.figure,
                    f.ratio.ratio,
                    words::levels(&cell.levels)
                )
            })
    };
    if let Some(worst) = farthest(|f| f.regression) {
        let beyond = options
            .threshold
            .map_or_else(String::new, |t| format!(" by more than {}", percent(t)));
        return (Outcome::Regression, format!("{worst} is worse{beyond}"));
    }
    let changed = comparison
        .cells
        .iter()
        .filter(|c| !c.changes.is_empty())
        .count();
    if changed > 0 && options.threshold.is_none() {
        return (
            Outcome::OtherCalls,
            format!("in {changed} of {cells} a server does something else for each request"),
        );
    }
    if let Some(best) = farthest(|f| f.judgement == Judgement::Faster) {
        return (
            Outcome::Improvement,
            format!("{best} is better, and nothing is worse"),
        );
    }
    let judged = figures()
        .filter(|(_, f)| f.judgement != Judgement::NotJudged)
        .count();
    let counted = comparison.cells.iter().any(|c| c.counted);
    if judged == 0 && !counted {
        return (
            Outcome::NotJudged,
            format!("{cells}: too few trials for an interval, no counted calls, and no threshold"),
        );
    }
    if judged == 0 {
        return (
            Outcome::NoDifference,
            format!(
                "{cells}, by the calls alone: too few trials for an interval, and no threshold"
            ),
        );
    }
    let rates = figures().filter(|(_, f)| f.figure == FIGURES[0].name);
    let smallest = rates.filter_map(|(_, f)| f.ratio.smallest_effect);
    let seen = smallest.reduce(f64::max).map_or_else(String::new, |s| {
        format!(
            "; a difference of the rate of {} would have been found four times in five in every cell",
            percent(s.max(SMALLEST_SHOWN))
        )
    });
    let judged = plural(judged as u64, "figure");
    (
        Outcome::NoDifference,
        format!("{cells}, {judged} judged{seen}"),
    )
}

/// What of the hosts and of the programs differs between the records.
fn hosts(a: &RunRecord, b: &RunRecord) -> Vec<Warning> {
    let fact = |record: &RunRecord, group: &str, name: &str| {
        let mut items = record.environment.iter();
        items
            .find(|i| i.group == group && i.name == name)
            .and_then(|i| i.value.clone())
    };
    let mut differ = Vec::new();
    for (group, name) in [
        ("cpu", "machine"),
        ("cpu", "model"),
        ("cpu", "count"),
        ("kernel", "release"),
        ("memory", "total"),
    ] {
        if let (Some(x), Some(y)) = (fact(a, group, name), fact(b, group, name))
            && x != y
        {
            differ.push(format!("{group} {name} {x} and {y}"));
        }
    }
    let mut warnings = Vec::new();
    if !differ.is_empty() {
        warnings.push(Warning::new(
            "other_host",
            format!(
                "the records were made on different hosts: {}",
                differ.join(", ")
            ),
            "measure both on one host; counts of calls may be compared all the same",
        ));
    }
    if a.manifest.prony != b.manifest.prony {
        warnings.push(Warning::new(
            "other_version",
            format!(
                "prony {} and {} made the records",
                a.manifest.prony, b.manifest.prony
            ),
            "",
        ));
    }
    warnings
}

/// Several cells whose rates all changed by the same factor: a host that changed its speed does that, and a change of
/// a server seldom.
fn moved_alike(cells: &[CellCompared]) -> Option<Warning> {
    let rates: Vec<f64> = cells
        .iter()
        .filter_map(|c| c.figures.iter().find(|f| f.figure == FIGURES[0].name))
        .filter(|f| f.ratio.differs() == Some(true))
        .map(|f| f.ratio.ratio)
        .collect();
    let middle = median(&rates)?;
    let alike = rates.iter().all(|r| (r / middle - 1.0).abs() <= ALIKE);
    (rates.len() > 1 && alike).then(|| {
        Warning::new(
            "moved_alike",
            format!(
                "the rates of {} all changed by x{middle:.3}: the host may have",
                plural(rates.len() as u64, "cell")
            ),
            "put both into one experiment, whose blocks run in turn",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, Figures, StageSample};
    use record::{CallStats, Examination, FdClass, Nanos, TargetSignature};

    const PLAIN: CompareOptions = CompareOptions {
        tolerance: 0.02,
        threshold: None,
    };

    fn gate(threshold: f64) -> CompareOptions {
        CompareOptions {
            threshold: Some(threshold),
            ..PLAIN
        }
    }

    /// Two cells; the rate is `factor` of 10,000/s with a spread of 1 % over the repeats.
    fn record(factor: f64, repeats: u32) -> RunRecord {
        let stage = StageSample {
            name: "main",
            factors: vec![("path", vec!["direct", "proxied"])],
            baseline: vec![],
            repeats,
        };
        samples::run(&[stage], |levels, block| {
            let share = if levels["path"] == "direct" { 1.0 } else { 0.5 };
            let wobble = 1.0 + 0.002 * f64::from(block * 7 % 5);
            let per_s = 10_000.0 * share * factor * wobble;
            Figures {
                answers: (per_s * 10.0) as u64,
                service: Nanos((1e10 / per_s) as u64),
                server: 0.95,
                generator: 0.2,
            }
        })
    }

    fn signed(readv: u64, epoll_wait: u64) -> RunRecord {
        let mut record = record(1.0, 1);
        let stats = |call: &str, calls| CallStats {
            call: call.into(),
            class: FdClass::Upstream,
            calls,
            ..CallStats::default()
        };
        record.trials[0].examination = Some(Examination {
            signature: Some(Signature {
                requests: 1_000,
                targets: vec![TargetSignature {
                    target: "server".into(),
                    calls: Some(vec![stats("readv", readv), stats("epoll_wait", epoll_wait)]),
                    ..TargetSignature::default()
                }],
                ..Signature::default()
            }),
            ..Examination::default()
        });
        record
    }

    #[test]
    fn what_got_slower_is_a_regression_and_what_did_not_is_none() {
        for (factor, repeats, options, want) in [
            (1.0, 6, PLAIN, Outcome::NoDifference),
            (0.9, 6, PLAIN, Outcome::Regression),
            (1.1, 6, PLAIN, Outcome::Improvement),
            (0.9, 6, gate(0.05), Outcome::Regression),
            (0.97, 6, gate(0.05), Outcome::NoDifference),
            // One trial each: only a threshold can judge.
            (0.9, 1, PLAIN, Outcome::NotJudged),
            (0.9, 1, gate(0.05), Outcome::Regression),
            (0.97, 1, gate(0.05), Outcome::NoDifference),
            (1.2, 1, gate(0.05), Outcome::Improvement),
        ] {
            let found = compare(&record(1.0, repeats), &record(factor, repeats), options);
            let want = match (factor, repeats) {
                // A difference that was seen, and that the threshold lets pass.
                (0.97, 6) => Outcome::NoDifference,
                _ => want,
            };
            assert_eq!(
                found.outcome, want,
                "{factor}, {repeats} repeats: {}",
                found.why
            );
            assert_eq!((found.cells.len(), found.unmatched.len()), (2, 0));
        }
        let found = compare(&record(1.0, 6), &record(0.97, 6), gate(0.05));
        let rate = &found.cells[0].figures[0];
        assert_eq!(
            (rate.judgement, rate.regression),
            (Judgement::Slower, false)
        );
        assert!((rate.ratio.ratio - 0.97).abs() < 0.005);
        assert!(rate.ratio.smallest_effect.unwrap() < 0.03);
        assert_eq!(found.comparisons, 8);
        let names: Vec<&str> = found.cells[0]
            .figures
            .iter()
            .map(|f| f.figure.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "rate_per_s",
                "response_ns_p50",
                "response_ns_p99",
                "cpu_us_per_request"
            ]
        );
        assert!(
            found.warnings.iter().any(|w| w.name == "moved_alike"),
            "{:?}",
            found.warnings
        );
        let server = found.cells[0]
            .cpu
            .iter()
            .find(|c| c.owner == "web" && c.mode == "all");
        assert!((server.unwrap().before.unwrap() - 0.95).abs() < 0.01);
    }

    #[test]
    fn one_trial_each_has_no_interval_and_says_so() {
        let found = compare(&record(1.0, 1), &record(0.5, 1), PLAIN);
        let rate = &found.cells[0].figures[0];
        assert_eq!(
            (rate.judgement, rate.ratio.interval()),
            (Judgement::NotJudged, None)
        );
        assert!(found.why.contains("too few trials"), "{}", found.why);
    }

    #[test]
    fn another_load_and_invalid_trials_are_refused() {
        let check = |change: fn(&mut TrialRecord), why: &str| {
            let mut other = record(1.0, 3);
            other.trials.iter_mut().for_each(change);
            let found = compare(&record(1.0, 3), &other, PLAIN);
            assert_eq!(found.outcome, Outcome::NotComparable, "{why}");
            assert_eq!(found.refused.len(), 2);
            assert!(
                found.refused[0].why.contains(why),
                "{}",
                found.refused[0].why
            );
        };
        check(|t| t.load.connections = 99, "connections 10 and 99");
        check(
            |t| t.load.url = "http://h/other".into(),
            "path / and /other",
        );
        check(
            |t| t.load.arrival = Arrival::Constant { per_s: 5.0 },
            "closed loop and open loop",
        );
        check(
            |t| t.load.requests_per_connection = Some(1),
            "unlimited and 1",
        );
        check(
            |t| t.outcome.as_mut().unwrap().requests = Default::default(),
            "not measured in the second record: none of 3 trials is valid",
        );
        // Another port is the same load.
        let mut moved = record(1.0, 3);
        moved
            .trials
            .iter_mut()
            .for_each(|t| t.load.url = "http://127.0.0.2:99/".into());
        assert_eq!(compare(&record(1.0, 3), &moved, PLAIN).refused, []);
    }

    #[test]
    fn a_call_more_for_each_request_is_a_difference_and_a_wake_up_is_not() {
        let found = compare(&signed(10_000, 300), &signed(10_050, 3_000), PLAIN);
        assert!(found.same(), "{}", found.why);
        assert_eq!(found.cells[0].by_timing.len(), 1);
        let fewer = compare(&signed(10_000, 300), &signed(1_000, 300), PLAIN);
        assert_eq!(fewer.outcome, Outcome::OtherCalls);
        let change = &fewer.cells[0].changes[0];
        assert_eq!((change.before, change.after), (10.0, 1.0));
        let more = compare(&signed(1_000, 300), &signed(10_000, 300), gate(0.05));
        assert_eq!(more.outcome, Outcome::Regression);
        assert!(more.why.contains("calls_per_request x10"), "{}", more.why);
        let tolerant = CompareOptions {
            tolerance: 0.05,
            threshold: None,
        };
        assert!(compare(&signed(10_000, 1), &signed(10_400, 1), tolerant).same());
    }

    #[test]
    fn hosts_that_differ_are_warned_about_and_lone_cells_named() {
        let mut other = record(1.0, 3);
        other.trials.retain(|t| t.levels["path"] == "direct");
        other.environment.push(record::EnvironmentItem {
            group: "cpu".into(),
            name: "count".into(),
            value: Some("64".into()),
            reason: None,
        });
        let mut first = record(1.0, 3);
        first.environment.push(record::EnvironmentItem {
            value: Some("2".into()),
            ..other.environment[0].clone()
        });
        let found = compare(&first, &other, PLAIN);
        assert_eq!(found.unmatched, ["main path=proxied"]);
        assert!(
            found.warnings[0].seen.contains("cpu count 2 and 64"),
            "{:?}",
            found.warnings
        );
    }
}
