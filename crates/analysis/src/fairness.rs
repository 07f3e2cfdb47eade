//! How well could a stage compare? What the host did by itself, what was cut off as warm-up, how narrow the intervals
//! are, and how far a run that repeats until it is precise has come.
//!
//! [`precision`] is asked after every block and decides whether another one follows. Its rule is about the width of the
//! intervals alone, never about what they show: a run that stopped as soon as something looked different would find
//! differences where there are none. The surprise: an open loop is offered its rate, so there it is the median response
//! time that must be precise.

use crate::contrast::{self, FEWEST, Family, Sample};
use crate::stats::{median, share, successive_noise};
use crate::words::{self, percent, plural};
use crate::{Cell, Fairness, Method, Precision, Ratio, TrialAnalysis};
use plan::{Plan, Stage, TWIN, TWIN_YES};
use record::{RunRecord, TrialRecord};

/// Blocks before the width of an interval is looked at: the fewest that give one by ranks.
const FEWEST_BLOCKS: u32 = 6;
/// Difference of the mean CPU frequency between trials from which it colours a comparison.
const FREQUENCY: f64 = 0.01;
/// Share of the host's CPU that the hypervisor took from which it does.
const STEAL: f64 = 0.01;

/// One for every stage that has trials.
pub(crate) fn fairness(
    record: &RunRecord,
    plan: &Plan,
    cells: &[Cell],
    trials: &[TrialAnalysis],
) -> Vec<Fairness> {
    let of_stage = |stage: &Stage| {
        let cells: Vec<&Cell> = cells.iter().filter(|c| c.stage == stage.name).collect();
        let used: Vec<u32> = cells.iter().flat_map(|c| c.used()).copied().collect();
        let trials: Vec<&TrialAnalysis> = trials.iter().filter(|t| used.contains(&t.id)).collect();
        let ids: Vec<u32> = trials.iter().map(|t| t.id).collect();
        let records: Vec<&TrialRecord> = (record.trials.iter())
            .filter(|t| ids.contains(&t.id))
            .collect();
        (!trials.is_empty()).then(|| of(stage, plan, &cells, &trials, &records))
    };
    plan.stages.iter().filter_map(of_stage).collect()
}

fn of(
    stage: &Stage,
    plan: &Plan,
    cells: &[&Cell],
    trials: &[&TrialAnalysis],
    records: &[&TrialRecord],
) -> Fairness {
    let twin = |c: &&&Cell| c.levels.get(TWIN).is_some_and(|level| level == TWIN_YES);
    let twins: Vec<Ratio> = cells
        .iter()
        .filter(twin)
        .filter_map(|c| c.rate_ratio)
        .collect();
    let largest = |values: Vec<f64>| values.into_iter().reduce(f64::max);
    let ratios = || cells.iter().filter_map(|c| c.rate_ratio);
    let mut found = Fairness {
        stage: stage.name.clone(),
        comparisons: ratios().filter(|r| r.p.is_some()).count() as u32,
        smallest_effect: largest(ratios().filter_map(|r| r.smallest_effect).collect()),
        trial_noise: trial_noise(cells, trials),
        twins_differ: twins.iter().filter(|r| r.differs() == Some(true)).count() as u32,
        twins: twins.len() as u32,
        twin_ratio: twins
            .into_iter()
            .max_by(|a, b| a.ratio.ln().abs().total_cmp(&b.ratio.ln().abs())),
        steal: largest(records.iter().filter_map(|t| steal(t)).collect()),
        frequency_spread: frequency_spread(records),
        dropped_s: trials
            .iter()
            .filter_map(|t| t.steady.as_ref())
            .map(|s| s.dropped_s)
            .sum(),
        measured_s: records
            .iter()
            .filter_map(|t| t.outcome.as_ref())
            .map(|o| o.measured().as_secs_f64())
            .sum(),
        unsteady: trials
            .iter()
            .filter(|t| t.steady.as_ref().is_some_and(|s| !s.steady))
            .map(|t| t.id)
            .collect(),
        untested: trials.iter().filter(|t| t.steady.is_none()).count() as u32,
        precision: precision_of(stage, plan, cells, trials),
        said: Vec::new(),
    };
    found.said = said(&found, trials.len());
    found.said.extend(too_few_for_ranks(cells, plan));
    found
}

/// How many repeats it takes until ranks decide, where Student's t had to.
fn too_few_for_ranks(cells: &[&Cell], plan: &Plan) -> Option<String> {
    let ratios = || cells.iter().filter_map(|c| c.rate_ratio);
    let by_t = ratios().any(|r| r.method == Method::StudentT);
    let comparisons = ratios().filter(|r| r.p.is_some()).count();
    let family = Family {
        comparisons,
        sequential: plan.until.is_some(),
    };
    let from = contrast::pairs_for_ranks(family).filter(|_| by_t)?;
    Some(format!(
        "{} by Student's t, which takes the noise as normal: ranks, which do not, decide from {from} repeats on",
        plural(comparisons as u64, "comparison")
    ))
}

/// Noise between the trials of one cell that ran one after another: the median over the cells that have enough.
fn trial_noise(cells: &[&Cell], trials: &[&TrialAnalysis]) -> Option<f64> {
    let noise = |cell: &&Cell| {
        let rates: Vec<f64> = trials
            .iter()
            .filter(|t| cell.used().contains(&t.id))
            .filter_map(|t| t.achieved_per_s)
            .collect();
        successive_noise(&rates)
    };
    median(&cells.iter().filter_map(noise).collect::<Vec<_>>())
}

/// Share of all cores' time that the hypervisor took during the measured part.
fn steal(trial: &TrialRecord) -> Option<f64> {
    let outcome = trial.outcome.as_ref()?;
    let grown = |signal: &'static str| {
        let series = trial.series.iter().filter(move |s| s.signal == signal);
        let deltas = series.filter_map(|s| s.delta(outcome.measured_from, outcome.measured_to));
        deltas.fold(None, |sum: Option<f64>, d| {
            Some(sum.unwrap_or(0.0) + d.max(0.0))
        })
    };
    let cores = trial
        .series
        .iter()
        .filter(|s| s.signal == "cpu.steal_s")
        .count();
    share(
        grown("cpu.steal_s")?,
        outcome.measured().as_secs_f64() * cores as f64,
    )
}

/// How far the mean frequency of the cores differs between trials; `None` where the host does not show it.
fn frequency_spread(trials: &[&TrialRecord]) -> Option<f64> {
    let mean = |trial: &&TrialRecord| {
        let all = trial
            .series
            .iter()
            .filter(|s| s.signal == "cpu.frequency_hz");
        let values: Vec<f64> = all.flat_map(|s| s.values.iter().copied()).collect();
        share(values.iter().sum(), values.len() as f64)
    };
    let means: Vec<f64> = trials.iter().filter_map(mean).collect();
    let (low, high) = (
        means.iter().copied().reduce(f64::min)?,
        means.iter().copied().reduce(f64::max)?,
    );
    share(high - low, low)
}

fn said(f: &Fairness, trials: usize) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(noise) = f.trial_noise {
        said.push(format!(
            "host noise: {} between successive trials of one cell",
            percent(noise)
        ));
    }
    if let (Some(twin), Some((low, high))) = (f.twin_ratio, f.twin_ratio.and_then(|r| r.interval()))
    {
        let verdict = match f.twins_differ {
            0 => "no difference, as it must be",
            _ => {
                "a difference, which only the host can have made: trust no difference of that size"
            }
        };
        said.push(format!(
            "A/A: the twin of the baseline at {:.3} [{low:.3}..{high:.3}], {verdict}",
            twin.ratio
        ));
    }
    if let Some(steal) = f.steal.filter(|s| *s >= STEAL) {
        said.push(format!(
            "the hypervisor took up to {} of the CPU",
            percent(steal)
        ));
    }
    if let Some(spread) = f.frequency_spread.filter(|s| *s >= FREQUENCY) {
        said.push(format!(
            "the CPU frequency differed by {} between trials",
            percent(spread)
        ));
    }
    if let Some(cut) = share(f.dropped_s, f.measured_s).filter(|c| *c > 0.0) {
        said.push(format!(
            "warm-up: {:.1} s of {:.1} s measured were not yet steady and are not in the rates marked * (MSER-5); p50, p99 \
             and CPU of those rows are of the whole measured part",
            f.dropped_s,
            f.dropped_s / cut
        ));
    }
    if !f.unsteady.is_empty() {
        said.push(format!(
            "not in steady state: {} of {}",
            f.unsteady.len(),
            plural(trials as u64, "trial")
        ));
    }
    if let Some(precision) = &f.precision {
        said.push(precision.why.clone());
    }
    said
}

/// How precise a stage is, when the plan asks for a precision: see [`Precision`].
pub fn precision(record: &RunRecord, plan: &Plan, stage: usize) -> Option<Precision> {
    let stage = plan.stages.get(stage)?;
    let mut trials: Vec<TrialAnalysis> = record
        .trials
        .iter()
        .filter(|t| t.stage == stage.name)
        .map(|t| crate::trial::analyse_trial(t, plan.error_limit).0)
        .collect();
    crate::disturbed::mark(plan, record, &mut trials);
    let cells = crate::cells::cells(plan, &trials);
    let cells: Vec<&Cell> = cells.iter().filter(|c| c.stage == stage.name).collect();
    let trials: Vec<&TrialAnalysis> = trials.iter().filter(|t| t.verdict.valid).collect();
    precision_of(stage, plan, &cells, &trials)
}

fn precision_of(
    stage: &Stage,
    plan: &Plan,
    cells: &[&Cell],
    trials: &[&TrialAnalysis],
) -> Option<Precision> {
    let until = plan.until?;
    let blocks = trials.iter().map(|t| t.block + 1).max().unwrap_or(0);
    let compared = !stage.baseline.is_empty();
    // A cell that is never valid has no interval, and would keep the run going for nothing.
    let widths: Vec<(Option<f64>, &Cell)> = cells
        .iter()
        .filter(|c| c.used().len() >= FEWEST)
        .filter(|c| !compared || !within(stage, c))
        .map(|cell| (width(cell, trials, compared), *cell))
        .collect();
    let none = widths.iter().all(|(width, _)| width.is_none()) && blocks >= FEWEST_BLOCKS;
    let widest = widths
        .iter()
        .filter_map(|(width, cell)| Some((width.as_ref()?, *cell)))
        .max_by(|a, b| a.0.total_cmp(b.0));
    let met = blocks >= FEWEST_BLOCKS
        && !widths.is_empty()
        && widths
            .iter()
            .all(|(width, _)| width.is_some_and(|w| w <= until.half_width));
    let asked = percent(until.half_width);
    // The width shrinks with the root of the blocks.
    let blocks_needed = widest.map(|(width, _)| {
        let more = f64::from(blocks) * (width / until.half_width).powi(2);
        (more.ceil().min(f64::from(u32::MAX)) as u32).max(FEWEST_BLOCKS)
    });
    let why = match (widest, met) {
        (Some((width, cell)), true) => format!(
            "precision: +-{} at the widest ({}) after {}; +-{asked} was asked",
            percent(*width),
            words::levels(&cell.levels),
            plural(u64::from(blocks), "block")
        ),
        (Some((width, cell)), false) => format!(
            "precision: +-{} at the widest ({}) after {}, not the +-{asked} that was asked{}",
            percent(*width),
            words::levels(&cell.levels),
            plural(u64::from(blocks), "block"),
            match blocks_needed {
                Some(needed) if needed > blocks => format!(": about {needed} are needed"),
                _ => format!(": {FEWEST_BLOCKS} are the fewest"),
            }
        ),
        (None, _) => format!("precision: no interval yet; +-{asked} was asked"),
    };
    Some(Precision {
        asked: until.half_width,
        reached: widest.map(|(width, _)| *width),
        widest: widest
            .map(|(_, cell)| cell.levels.clone())
            .unwrap_or_default(),
        blocks,
        blocks_needed,
        met,
        hopeless: none,
        why,
    })
}

/// The cell is its own baseline.
fn within(stage: &Stage, cell: &Cell) -> bool {
    let mut baseline = stage.baseline.iter();
    baseline.all(|(factor, level)| cell.levels.get(factor) == Some(level))
}

/// Half the width of the interval of the cell's ratio, or of its own figure where there is no baseline.
fn width(cell: &Cell, trials: &[&TrialAnalysis], compared: bool) -> Option<f64> {
    let open = cell.offered_per_s.is_some();
    if compared {
        let ratio = if open {
            cell.p50_ratio
        } else {
            cell.rate_ratio
        };
        return ratio?.half_width();
    }
    let own = trials.iter().filter(|t| cell.used().contains(&t.id));
    let figure = |t: &&TrialAnalysis| match open {
        true => t.response_ns.map(|l| l.p50 as f64),
        false => t.achieved_per_s,
    };
    let values: Vec<f64> = own.filter_map(figure).collect();
    contrast::ratio(&Sample::pairs(&values), Family::ONE)?.half_width()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, Figures, Random, StageSample};
    use plan::{Levels, Until};
    use record::{Kind, Nanos, Series};

    /// Two paths; each block has its own speed, each trial 1 % of noise.
    fn run(repeats: u32, baseline: bool, asked: Option<f64>) -> RunRecord {
        let stage = StageSample {
            name: "main",
            factors: vec![("path", vec!["direct", "proxied"])],
            baseline: if baseline {
                vec![("path", "direct")]
            } else {
                vec![]
            },
            repeats,
        };
        let random = std::cell::RefCell::new(Random::new(3));
        let figures = |levels: &Levels, block: u32| {
            let noise = 1.0 + 0.01 * random.borrow_mut().normal();
            let speed = [1.0, 0.8, 1.1, 0.9][block as usize % 4];
            let share = if levels["path"] == "direct" { 1.0 } else { 0.5 };
            Figures {
                answers: (100_000.0 * speed * share * noise) as u64,
                service: Nanos::from_millis(1),
                server: 0.99,
                generator: 0.3,
            }
        };
        let mut record = samples::run(&[stage], figures);
        let mut plan: Plan = serde_json::from_value(record.plan.clone()).unwrap();
        plan.until = asked.map(|half_width| Until {
            half_width,
            most_repeats: 50,
            budget: None,
        });
        record.plan = serde_json::to_value(&plan).unwrap();
        record
    }

    fn precise(repeats: u32, baseline: bool, asked: f64) -> Precision {
        let record = run(repeats, baseline, Some(asked));
        let plan: Plan = serde_json::from_value(record.plan.clone()).unwrap();
        precision(&record, &plan, 0).unwrap()
    }

    #[test]
    fn blocks_are_added_until_the_interval_is_narrow() {
        assert!(!precise(5, true, 0.2).met, "six blocks are the fewest");
        assert!(precise(6, true, 0.05).met);
        let far = precise(8, true, 0.001);
        assert!(!far.met && far.blocks_needed.unwrap() > 50, "{far:?}");
        assert_eq!(far.widest["path"], "proxied");
        // Without a baseline the speed of the blocks is in the rate itself, and it is not known to 2 %.
        assert!(precise(12, true, 0.02).met && !precise(12, false, 0.02).met);
        assert!(precise(12, false, 0.3).met);
    }

    #[test]
    fn a_stage_says_how_well_it_compared() {
        let mut record = run(8, true, None);
        let analysis = crate::analyse(&record).unwrap();
        let [stage] = analysis.fairness.as_slice() else {
            panic!("one stage: {:?}", analysis.fairness);
        };
        assert_eq!(
            (stage.comparisons, stage.twins, &stage.precision),
            (1, 0, &None)
        );
        assert!(
            stage.trial_noise.unwrap() > 0.1,
            "the blocks differ: {stage:?}"
        );
        assert!(stage.smallest_effect.unwrap() < 0.05);
        assert_eq!((stage.steal, stage.frequency_spread), (None, None));
        for (i, trial) in record.trials.iter_mut().enumerate() {
            trial.series.extend(samples::core(0, 0.5, 0.1, 0.04));
            let mut frequency = Series::new("cpu.frequency_hz", "Hz", "/sys", Kind::Gauge);
            frequency.push(Nanos::from_secs(3), if i < 4 { 3e9 } else { 2e9 });
            trial.series.push(frequency);
        }
        let stage = crate::analyse(&record).unwrap().fairness.remove(0);
        assert!((stage.steal.unwrap() - 0.04).abs() < 1e-6);
        assert!((stage.frequency_spread.unwrap() - 0.5).abs() < 1e-6);
        let said = stage.said.join("; ");
        assert!(
            said.contains("took up to 4 %") && said.contains("differed by 50 %"),
            "{said}"
        );
    }

    #[test]
    fn a_twin_that_differs_is_said_to_be_the_host() {
        for (second, differs) in [(100_000, 0), (80_000, 1)] {
            let stage = StageSample {
                name: "main",
                factors: vec![(TWIN, vec!["no", TWIN_YES])],
                baseline: vec![(TWIN, "no")],
                repeats: 8,
            };
            let figures = |levels: &Levels, block: u32| Figures {
                answers: if levels[TWIN] == "no" {
                    100_000
                } else {
                    second
                } + u64::from(block % 3) * 50,
                service: Nanos::from_millis(1),
                server: 0.99,
                generator: 0.3,
            };
            let analysis = crate::analyse(&samples::run(&[stage], figures)).unwrap();
            let stage = &analysis.fairness[0];
            assert_eq!((stage.twins, stage.twins_differ), (1, differs));
            assert!(
                stage.said.iter().any(|s| s.starts_with("A/A: the twin")),
                "{:?}",
                stage.said
            );
        }
    }
}
