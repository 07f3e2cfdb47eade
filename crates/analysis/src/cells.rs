//! Trials with the same levels become a cell: medians over the valid ones, and the ratio to the baseline
//! over pairs of the same block, which cancels the speed changes of a shared host. The statistics of a ratio are those
//! of [`contrast`](crate::contrast).
//!
//! A cell speaks only when most of its trials are valid. The surprise is why: a trial is not valid when the generator
//! had more to do, or more requests failed, so the few that are left of many are those in which less went wrong, and
//! their median is not the cell's.

use crate::contrast::{self, Family, Sample, correct};
use crate::stats::{share, spread};
use crate::{Cell, Limit, Ratio, Spread, TrialAnalysis, Verdict};
use crate::{imported, words};
use plan::{Levels, Plan, Stage};
use std::collections::BTreeMap;

/// Fewest valid trials of a cell that was planned with as many; of fewer, all must be valid.
const FEWEST_VALID: usize = 3;
/// So many of so many valid trials of a cell must name the same limit for the cell to have one: a trial in three may
/// stand on the other side of a threshold that the cell is close to.
const AGREEMENT: (usize, usize) = (2, 3);

/// Cells of all stages, in the order of the file, baseline ratios included.
pub(crate) fn cells(plan: &Plan, trials: &[TrialAnalysis]) -> Vec<Cell> {
    plan.stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.search.is_none())
        .flat_map(|(index, stage)| {
            let mut planned: BTreeMap<Vec<usize>, (Levels, u32)> = BTreeMap::new();
            let again = |id: u32| plan.again.iter().any(|a| a.replaces && a.of == id);
            let of_plan = plan.trials.iter().filter(|t| t.stage == index);
            for trial in of_plan.filter(|t| !again(t.id)) {
                let order = place(stage, &trial.levels);
                planned.entry(order).or_insert((trial.levels.clone(), 0)).1 += 1;
            }
            let of_stage: Vec<&TrialAnalysis> =
                trials.iter().filter(|t| t.stage == stage.name).collect();
            let mut cells: Vec<Cell> = planned
                .into_values()
                .map(|(levels, planned)| cell(stage, levels, planned, &of_stage))
                .collect();
            compare(stage, &mut cells, &of_stage, plan.until.is_some());
            cells
        })
        .collect()
}

/// Index of each level in the file, to sort by.
fn place(stage: &Stage, levels: &Levels) -> Vec<usize> {
    let index = |factor: &plan::Factor| {
        let level = levels.get(&factor.name);
        factor.levels.iter().position(|l| Some(l) == level)
    };
    stage
        .factors
        .iter()
        .map(|f| index(f).unwrap_or(usize::MAX))
        .collect()
}

fn cell(stage: &Stage, levels: Levels, planned: u32, of_stage: &[&TrialAnalysis]) -> Cell {
    let trials = with_levels(of_stage, &levels);
    let standing: Vec<&TrialAnalysis> = (trials.iter().copied())
        .filter(|t| t.replaced_by.is_none())
        .collect();
    let valid: Vec<&TrialAnalysis> = (standing.iter().copied())
        .filter(|t| t.verdict.valid)
        .collect();
    let ids = |trials: &[&TrialAnalysis]| trials.iter().map(|t| t.id).collect();
    let valid_ids = ids(&valid);
    let not_measured = not_measured(&standing, valid.len());
    let valid = match not_measured {
        Some(_) => Vec::new(),
        None => valid,
    };
    Cell {
        stage: stage.name.clone(),
        planned,
        trials: ids(&trials),
        valid: valid_ids,
        replaced: trials
            .iter()
            .filter(|t| t.replaced_by.is_some())
            .map(|t| t.id)
            .collect(),
        offered_per_s: over(&valid, |t| t.offered_per_s),
        achieved_per_s: over(&valid, |t| t.achieved_per_s)
            .map(|s| imported::widened(s, valid.iter().filter_map(|t| t.reported.as_ref()))),
        rate_dropped_s: over(&valid, |t| Some(t.steady.as_ref()?.dropped_s)).map(|s| s.max),
        response_ns_p50: over(&valid, p50),
        response_ns_p99: over(&valid, p99),
        target_cpu_us_per_request: over(&valid, |t| t.target_cpu_us_per_request),
        verdict: cell_verdict(&standing, &valid, not_measured.as_deref()),
        not_measured,
        no_ratio: None,
        rate_ratio: None,
        p99_ratio: None,
        p50_ratio: None,
        cpu_ratio: None,
        levels,
    }
}

/// Why a cell of these trials has no figures; `None` where enough of them are valid. One that a person stopped does not
/// count.
pub(crate) fn not_measured(trials: &[&TrialAnalysis], valid: usize) -> Option<String> {
    let ended = trials.iter().filter(|t| !t.interrupted).count();
    if ended == 0 {
        return Some("no trial ended".to_owned());
    }
    let needed = ended.div_ceil(2).max(ended.min(FEWEST_VALID));
    if valid >= needed {
        return None;
    }
    let invalid = trials.iter().find(|t| !t.verdict.valid && !t.interrupted)?;
    // The first clause is the reason, the rest explains it.
    let why = invalid.verdict.why.split(';').next().unwrap_or_default();
    let of = words::plural(ended as u64, "trial");
    Some(match (valid, ended) {
        (_, 1) => format!("its one trial is not valid: {why}"),
        (0, _) => format!("none of {of} is valid: {why}"),
        (valid, _) => format!("{valid} of {of} valid, and a figure takes {needed}: {why}"),
    })
}

/// A figure of a trial, and where a cell keeps its ratio to the baseline.
type Compared = (Figure, fn(&mut Cell) -> &mut Option<Ratio>);

const COMPARED: [Compared; 4] = [
    (|t| t.achieved_per_s, |c| &mut c.rate_ratio),
    (p99, |c| &mut c.p99_ratio),
    (p50, |c| &mut c.p50_ratio),
    (|t| t.target_cpu_us_per_request, |c| &mut c.cpu_ratio),
];

/// Ratios of all cells to their baselines. The cells of a stage are one family for each figure: with many levels one
/// of them stands out by chance, and the p-values are corrected for that.
fn compare(stage: &Stage, cells: &mut [Cell], of_stage: &[&TrialAnalysis], sequential: bool) {
    let pairs_of: Vec<Option<Pairs<'_>>> = cells
        .iter()
        .map(|cell| Some(Pairs::of(cell, baseline(stage, cell, cells)?, of_stage)))
        .collect();
    for (cell, pairs) in cells.iter_mut().zip(&pairs_of) {
        cell.no_ratio = pairs.as_ref().and_then(Pairs::too_few);
    }
    for (figure, place) in COMPARED {
        let pairs: Vec<Vec<f64>> = pairs_of
            .iter()
            .map(|pairs| {
                let usable = pairs.iter().flat_map(|p| &p.usable);
                usable
                    .filter_map(|(own, base)| share(figure(own)?, figure(base)?))
                    .collect()
            })
            .collect();
        let family = Family {
            comparisons: pairs.iter().filter(|p| p.len() >= contrast::FEWEST).count(),
            sequential,
        };
        for (cell, pairs) in cells.iter_mut().zip(&pairs) {
            let ratio = contrast::ratio(&Sample::pairs(pairs), family);
            *place(cell) = ratio.filter(|r| r.interval().is_some());
        }
        let mut ratios: Vec<&mut Ratio> =
            cells.iter_mut().filter_map(|c| place(c).as_mut()).collect();
        correct(&mut ratios, sequential);
    }
}

/// Median response time, ns; what another tool reported where nothing was measured.
pub(crate) fn p50(trial: &TrialAnalysis) -> Option<f64> {
    let measured = trial.response_ns.map(|l| l.p50 as f64);
    measured.or_else(|| imported::latency_ns(trial, "p50"))
}

/// 99th percentile of the response time, ns; what another tool reported where nothing was measured.
pub(crate) fn p99(trial: &TrialAnalysis) -> Option<f64> {
    let measured = trial.response_ns.map(|l| l.p99 as f64);
    measured.or_else(|| imported::latency_ns(trial, "p99"))
}

fn with_levels<'a>(of_stage: &[&'a TrialAnalysis], levels: &Levels) -> Vec<&'a TrialAnalysis> {
    of_stage
        .iter()
        .copied()
        .filter(|t| t.levels == *levels)
        .collect()
}

/// The cell that this one is compared with: its own levels but for those of the baseline.
pub(crate) fn baseline<'a>(stage: &Stage, cell: &Cell, cells: &'a [Cell]) -> Option<&'a Cell> {
    let mut wanted = cell.levels.clone();
    wanted.extend(stage.baseline.clone());
    if stage.baseline.is_empty() || wanted == cell.levels {
        return None;
    }
    let is_it = |c: &&Cell| c.stage == cell.stage && c.levels == wanted;
    cells.iter().find(is_it)
}

/// Trials of a cell and of its baseline in the same block.
pub(crate) struct Pairs<'a> {
    /// Both are measured, and no other program took CPU in either.
    pub usable: Vec<(&'a TrialAnalysis, &'a TrialAnalysis)>,
    /// Blocks in which both ended.
    ended: usize,
    /// Those of them in which both are valid.
    valid: usize,
    silent: Option<&'static str>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn of(cell: &Cell, baseline: &Cell, trials: &[&'a TrialAnalysis]) -> Self {
        let of = |cell: &Cell| -> Vec<&'a TrialAnalysis> {
            let counts = |t: &&&TrialAnalysis| {
                cell.trials.contains(&t.id) && !cell.replaced.contains(&t.id) && !t.interrupted
            };
            trials.iter().filter(counts).copied().collect()
        };
        let others = of(baseline);
        let all: Vec<_> = of(cell)
            .into_iter()
            .filter_map(|t| Some((t, *others.iter().find(|o| o.block == t.block)?)))
            .collect();
        let valid: Vec<_> = (all.iter().copied())
            .filter(|(own, base)| own.verdict.valid && base.verdict.valid)
            .collect();
        let silent = match (cell.is_measured(), baseline.is_measured()) {
            (true, true) => None,
            (false, _) => Some("not measured"),
            (true, false) => Some("the baseline is not measured"),
        };
        Self {
            ended: all.len(),
            valid: valid.len(),
            usable: (valid.into_iter())
                .filter(|(own, base)| !own.is_disturbed() && !base.is_disturbed())
                .filter(|_| silent.is_none())
                .collect(),
            silent,
        }
    }

    /// Why no gain can be formed of them.
    pub(crate) fn too_few(&self) -> Option<String> {
        if let Some(silent) = self.silent {
            return Some(silent.to_owned());
        }
        let (ended, valid) = (self.ended, self.valid);
        (self.usable.len() < contrast::FEWEST).then(|| match () {
            () if ended < contrast::FEWEST => {
                format!("{} of 3", words::plural(ended as u64, "pair"))
            }
            () if valid < contrast::FEWEST => format!("{valid} of {ended} pairs valid"),
            () => format!("{} of {valid} pairs disturbed", valid - self.usable.len()),
        })
    }
}

type Figure = fn(&TrialAnalysis) -> Option<f64>;

fn over(trials: &[&TrialAnalysis], figure: Figure) -> Option<Spread> {
    let values: Vec<f64> = trials.iter().filter_map(|t| figure(t)).collect();
    spread(&values)
}

fn cell_verdict(
    trials: &[&TrialAnalysis],
    valid: &[&TrialAnalysis],
    not_measured: Option<&str>,
) -> Option<Verdict> {
    if let Some(why) = not_measured {
        let invalid = trials.iter().find(|t| !t.verdict.valid)?;
        return Some(Verdict {
            valid: false,
            why: why.to_owned(),
            ..invalid.verdict.clone()
        });
    }
    let limits = limits_named(valid);
    let (most, n) = *limits.first()?;
    if n * AGREEMENT.1 < valid.len() * AGREEMENT.0 {
        return Some(disagreement(valid, &limits));
    }
    let mut agreeing: Vec<&TrialAnalysis> = valid.to_vec();
    agreeing.retain(|t| t.verdict.limit == most);
    agreeing.sort_by(|a, b| {
        let rate = |t: &TrialAnalysis| t.achieved_per_s.unwrap_or(0.0);
        rate(a).total_cmp(&rate(b))
    });
    Some(agreeing[(agreeing.len() - 1) / 2].verdict.clone())
}

/// Limits with the number of trials that name them, most frequent first.
fn limits_named(trials: &[&TrialAnalysis]) -> Vec<(Limit, usize)> {
    let mut limits: Vec<(Limit, usize)> = Vec::new();
    for trial in trials {
        match limits.iter_mut().find(|(l, _)| *l == trial.verdict.limit) {
            Some((_, n)) => *n += 1,
            None => limits.push((trial.verdict.limit, 1)),
        }
    }
    limits.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    limits
}

fn disagreement(valid: &[&TrialAnalysis], limits: &[(Limit, usize)]) -> Verdict {
    let parts: Vec<String> = limits
        .iter()
        .map(|(limit, n)| format!("{} in {n}", limit.name()))
        .collect();
    Verdict {
        valid: true,
        ..Verdict::invalid(
            format!(
                "the {} disagree about the limit: {}",
                words::plural(valid.len() as u64, "valid trial"),
                parts.join(", ")
            ),
            "the cell stands between two regimes: look at its trials, or repeat more often",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_trials_and_three_of_them_make_a_figure() {
        let record = crate::samples::run(
            &[crate::samples::StageSample {
                name: "main",
                factors: vec![],
                baseline: vec![],
                repeats: 1,
            }],
            |_, _| crate::samples::Figures {
                answers: 10_000,
                service: record::Nanos::from_millis(1),
                server: 0.99,
                generator: 0.3,
            },
        );
        let (valid, _) = crate::analyse_trial(&record.trials[0], 0.01);
        let invalid = TrialAnalysis {
            verdict: Verdict::invalid("the generator was the limit: full; more", ""),
            ..valid.clone()
        };
        let check = |n: usize, of: usize, measured: bool| {
            let stopped = TrialAnalysis {
                interrupted: true,
                ..invalid.clone()
            };
            let trials: Vec<&TrialAnalysis> = std::iter::repeat_n(&valid, n)
                .chain(std::iter::repeat_n(&invalid, of - n))
                .chain(std::iter::repeat_n(&stopped, of.min(1)))
                .collect();
            let found = not_measured(&trials, n);
            assert_eq!(found.is_none(), measured, "{n} of {of}: {found:?}");
        };
        for (n, of, measured) in [
            (1, 1, true),
            (0, 1, false),
            (2, 2, true),
            (1, 2, false),
            (3, 3, true),
            (2, 3, false),
            (2, 4, false),
            (3, 4, true),
            (2, 5, false),
            (3, 5, true),
            (3, 6, true),
            (3, 7, false),
            (4, 7, true),
        ] {
            check(n, of, measured);
        }
        let why = not_measured(&[&invalid, &valid], 1).unwrap();
        assert_eq!(
            why,
            "1 of 2 trials valid, and a figure takes 2: the generator was the limit: full"
        );
    }
}
