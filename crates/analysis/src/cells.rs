//! Trials with the same levels become a cell: medians over the valid ones, and the ratio to the baseline
//! over pairs of the same block, which cancels the speed changes of a shared host. The statistics of a ratio are those
//! of [`contrast`](crate::contrast).

use crate::contrast::{self, Family, Sample, correct};
use crate::stats::{share, spread};
use crate::{Cell, Limit, Ratio, Spread, TrialAnalysis, Verdict};
use crate::{imported, words};
use plan::{Levels, Plan, Stage};
use std::collections::BTreeMap;

/// Share of a cell's valid trials that must name the same limit for the cell to have one.
const AGREEMENT: f64 = 0.8;

/// Cells of all stages, in the order of the file, baseline ratios included.
pub(crate) fn cells(plan: &Plan, trials: &[TrialAnalysis]) -> Vec<Cell> {
    plan.stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.search.is_none())
        .flat_map(|(index, stage)| {
            let mut planned: BTreeMap<Vec<usize>, (Levels, u32)> = BTreeMap::new();
            for trial in plan.trials.iter().filter(|t| t.stage == index) {
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
    let valid: Vec<&TrialAnalysis> = trials.iter().copied().filter(|t| t.verdict.valid).collect();
    Cell {
        stage: stage.name.clone(),
        planned,
        trials: trials.iter().map(|t| t.id).collect(),
        valid: valid.iter().map(|t| t.id).collect(),
        offered_per_s: over(&valid, |t| t.offered_per_s),
        achieved_per_s: over(&valid, |t| t.achieved_per_s)
            .map(|s| imported::widened(s, valid.iter().filter_map(|t| t.reported.as_ref()))),
        response_ns_p50: over(&valid, p50),
        response_ns_p99: over(&valid, p99),
        target_cpu_us_per_request: over(&valid, |t| t.target_cpu_us_per_request),
        verdict: cell_verdict(&trials, &valid),
        rate_ratio: None,
        p99_ratio: None,
        p50_ratio: None,
        cpu_ratio: None,
        levels,
    }
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
    for (figure, place) in COMPARED {
        let pairs: Vec<Vec<f64>> = cells
            .iter()
            .map(|cell| {
                let valid = of_stage.iter().filter(|t| cell.valid.contains(&t.id));
                let baseline = baseline(stage, &cell.levels, of_stage);
                let pair = |t: &&TrialAnalysis| {
                    let other = baseline.iter().find(|b| b.block == t.block)?;
                    share(figure(t)?, figure(other)?)
                };
                valid.filter_map(pair).collect()
            })
            .collect();
        let family = Family {
            comparisons: pairs.iter().filter(|p| p.len() >= contrast::FEWEST).count(),
            sequential,
        };
        for (cell, pairs) in cells.iter_mut().zip(&pairs) {
            *place(cell) = contrast::ratio(&Sample::pairs(pairs), family);
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

/// Valid trials of the cell that this one is compared with: its own levels but for those of the baseline.
fn baseline<'a>(
    stage: &Stage,
    levels: &Levels,
    of_stage: &[&'a TrialAnalysis],
) -> Vec<&'a TrialAnalysis> {
    let mut wanted = levels.clone();
    wanted.extend(stage.baseline.clone());
    if stage.baseline.is_empty() || wanted == *levels {
        return Vec::new();
    }
    let mut trials = with_levels(of_stage, &wanted);
    trials.retain(|t| t.verdict.valid);
    trials
}

type Figure = fn(&TrialAnalysis) -> Option<f64>;

fn over(trials: &[&TrialAnalysis], figure: Figure) -> Option<Spread> {
    let values: Vec<f64> = trials.iter().filter_map(|t| figure(t)).collect();
    spread(&values)
}

fn cell_verdict(trials: &[&TrialAnalysis], valid: &[&TrialAnalysis]) -> Option<Verdict> {
    if valid.is_empty() {
        return trials.first().map(|t| t.verdict.clone());
    }
    let limits = limits_named(valid);
    let (most, n) = *limits.first()?;
    if (n as f64) < AGREEMENT * valid.len() as f64 {
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
