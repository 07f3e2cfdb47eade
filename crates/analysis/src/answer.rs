//! What a run answers: the last step of the analysis, which every output format shows first.
//!
//! An experiment with a baseline asks what its factor does to the rate (to the p99 where the rate is given), so its
//! answer is a ratio with its interval, the mechanism between the two levels, and what to choose. Any other asks how
//! much is held and what limits it. The surprise: where neither can be said the answer is that, with what to run next.

use crate::contrast::{self, Family, Sample};
use crate::mechanism::{CauseSeen, Known, Pair, RequestChange, mechanism};
use crate::stats::share;
use crate::words;
use crate::{Cell, Diagnosis, Finding, Knee, Limit, Ratio, RunAnalysis, Spread, Status};
use plan::{Levels, Metric, Plan, Stage};
use record::{PROOF_STAGE, RunRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What kind of answer a run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// What a factor does.
    Comparison,
    /// How much is held, and what limits it.
    Capacity,
    /// None: why, and what to run next.
    NotAnswered,
}

/// What an experiment is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerMetric {
    /// Closed loop: more is better.
    Rate,
    /// Open loop: the rate is given, so the tail tells.
    P99,
    /// The servers' CPU per request, where the experiment asks for it.
    Cpu,
}

impl AnswerMetric {
    fn of(self, cell: &Cell) -> Option<Ratio> {
        match self {
            AnswerMetric::Rate => cell.rate_ratio,
            AnswerMetric::P99 => cell.p99_ratio,
            AnswerMetric::Cpu => cell.cpu_ratio,
        }
    }

    /// Above 1 is better, whatever the metric.
    fn gain(self, ratio: f64) -> f64 {
        match self {
            AnswerMetric::Rate => ratio,
            AnswerMetric::P99 | AnswerMetric::Cpu => 1.0 / ratio,
        }
    }
}

/// What a level does against another, in one setting of the other factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    pub stage: String,
    /// Level compared with: of the factors that the baseline fixes.
    pub from: Levels,
    /// Level compared.
    pub to: Levels,
    /// Levels of the other factors.
    pub setting: Levels,
    /// Median and range at `from`.
    pub before: Option<Spread>,
    pub after: Option<Spread>,
    /// `to` divided by `from`, with its interval.
    pub ratio: Ratio,
}

impl Effect {
    /// The difference is there after the correction for the other comparisons.
    pub fn is_shown(&self) -> bool {
        self.ratio.differs() == Some(true)
    }
}

/// A level that could not be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uncompared {
    pub stage: String,
    /// Levels of all factors.
    pub levels: Levels,
    /// Why: as the cell says, `2 pairs of 3` or `not measured`.
    pub why: String,
}

/// How much is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    pub stage: String,
    /// Levels with the highest rate.
    pub levels: Levels,
    /// Rate there, per second; its range is that of the valid trials.
    pub rate_per_s: Spread,
    /// p99 there, ns.
    pub response_ns_p99: Option<Spread>,
    /// Valid trials there.
    pub trials: u32,
    /// The rate was offered (open loop), not searched for.
    pub offered: bool,
    /// Highest open-loop rate that was met, where the rate above is a closed loop's; `null` without one.
    #[serde(default)]
    pub open: Option<Met>,
    /// Where more load stops to pay; `null` where the curve did not bend.
    pub knee: Option<Knee>,
    /// What limits it: `worker`, `backend`, ..., or the side.
    pub limit: Limit,
    /// In words with the numbers.
    pub why: String,
    /// Cause that holds there; `null` where none was found or the cell was not examined.
    pub cause: Option<CauseSeen>,
}

/// An open-loop rate that was met, and how fast it was then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Met {
    pub stage: String,
    pub levels: Levels,
    pub rate_per_s: Spread,
    /// ns.
    pub response_ns_p50: Spread,
    /// ns.
    pub response_ns_p99: Spread,
}

/// Why there is no answer, and what would give one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unanswered {
    /// What is missing.
    pub what: String,
    /// Why, with the numbers.
    pub why: String,
    /// What to run next.
    pub next: String,
}

/// What a run answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// What the experiment was to answer; empty where its file asks nothing.
    pub question: String,
    /// What kind of answer it is.
    pub kind: AnswerKind,
    /// What a comparison is judged by.
    pub metric: AnswerMetric,
    /// What the level that matters does; `null` without a comparison. Where `no_difference_above` is set it is the
    /// level that is farthest from the baseline.
    pub effect: Option<Effect>,
    /// The other levels in the same setting, in the order of the file.
    pub others: Vec<Effect>,
    /// All levels in all other settings and stages.
    pub elsewhere: Vec<Effect>,
    /// Levels of the stage that have no interval, and so no word.
    pub uncompared: Vec<Uncompared>,
    /// Largest relative difference that any interval of the stage still allows; `null` where a difference was shown.
    pub no_difference_above: Option<f64>,
    /// What changes for a request between the two levels of `effect`.
    pub mechanism: Option<RequestChange>,
    /// The best other level against the worst one, where it is shown to be better.
    pub better: Option<Effect>,
    /// What changes for a request between the two levels of `better`.
    pub better_mechanism: Option<RequestChange>,
    /// Blocks that the stage was planned with.
    pub blocks: u32,
    /// How much is held; `null` for a comparison.
    pub capacity: Option<Capacity>,
    /// Why there is no answer; `null` where there is one.
    pub unanswered: Option<Unanswered>,
    /// What to do, where a measured verdict or a cause says it.
    pub remedy: String,
}

impl Answer {
    fn empty(question: &str, kind: AnswerKind) -> Self {
        Self {
            question: question.to_owned(),
            kind,
            metric: AnswerMetric::Rate,
            effect: None,
            others: Vec::new(),
            elsewhere: Vec::new(),
            uncompared: Vec::new(),
            no_difference_above: None,
            mechanism: None,
            better: None,
            better_mechanism: None,
            blocks: 0,
            capacity: None,
            unanswered: None,
            remedy: String::new(),
        }
    }

    /// The cause that explains the effect: named at the worse level and not at the better one.
    pub fn cause(&self) -> Option<&CauseSeen> {
        let of = |m: &'_ Option<RequestChange>, worse_is_after: bool| {
            m.as_ref()?.causes.iter().position(|c| {
                let (better, worse) = match worse_is_after {
                    true => (c.before, c.after),
                    false => (c.after, c.before),
                };
                worse == Some(true) && better != Some(true)
            })
        };
        // Between two levels that both have the server in question the cause says more than against none.
        if let Some(at) = of(&self.better_mechanism, false) {
            return self.better_mechanism.as_ref()?.causes.get(at);
        }
        let effect = self.effect.as_ref()?;
        let worse_is_after = self.metric.gain(effect.ratio.ratio) < 1.0;
        let at = of(&self.mechanism, worse_is_after)?;
        self.mechanism.as_ref()?.causes.get(at)
    }
}

/// What the run answers; `diagnoses` holds those of its trials by id.
pub fn answer(
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> Answer {
    let known = Known {
        record,
        analysis,
        diagnoses,
    };
    // A record of another version may hold another plan; then nothing is compared.
    let plan = Plan::deserialize(&record.plan).ok();
    let stages = plan.as_ref().map_or(&[][..], |p| &p.stages);
    let compared: Vec<&Stage> = stages
        .iter()
        .filter(|s| !s.baseline.is_empty() && s.name != PROOF_STAGE)
        .collect();
    if compared.is_empty() {
        return capacity(known);
    }
    match comparison(known, &compared) {
        Some(answer) => answer,
        None => not_compared(known, &compared),
    }
}

fn effects<'a>(known: Known<'a>, stage: &'a Stage, metric: AnswerMetric) -> Vec<Effect> {
    let cells = known.analysis.cells.iter();
    let of_stage = cells.filter(|c| c.stage == stage.name);
    let effect = |cell: &Cell| {
        let ratio = metric.of(cell)?;
        ratio.interval()?;
        let (to, setting) = split(&cell.levels, &stage.baseline);
        let mut from = cell.levels.clone();
        from.extend(stage.baseline.clone());
        Some(Effect {
            stage: stage.name.clone(),
            from: stage.baseline.clone(),
            before: spread_of(known, &stage.name, &from, metric),
            after: spread_of(known, &stage.name, &cell.levels, metric),
            to,
            setting,
            ratio,
        })
    };
    of_stage.filter_map(effect).collect()
}

/// Median, smallest and largest of a cell's figure.
fn spread_of(
    known: Known<'_>,
    stage: &str,
    levels: &Levels,
    metric: AnswerMetric,
) -> Option<Spread> {
    let cells = &known.analysis.cells;
    let cell = cells
        .iter()
        .find(|c| c.stage == stage && c.levels == *levels)?;
    match metric {
        AnswerMetric::Rate => cell.achieved_per_s,
        AnswerMetric::P99 => cell.response_ns_p99,
        AnswerMetric::Cpu => cell.target_cpu_us_per_request,
    }
}

/// Levels of the factors that the baseline fixes, and those of the others.
fn split(levels: &Levels, baseline: &Levels) -> (Levels, Levels) {
    let both = levels.clone().into_iter();
    both.partition(|(factor, _)| baseline.contains_key(factor))
}

/// What the experiment names; else what its load leaves open.
fn metric_of(known: Known<'_>, stage: &Stage) -> AnswerMetric {
    let cells = known.analysis.cells.iter();
    let mut cells = cells.filter(|c| c.stage == stage.name);
    match (stage.metric, cells.any(|c| c.offered_per_s.is_some())) {
        (Some(Metric::Rate), _) | (None, false) => AnswerMetric::Rate,
        (Some(Metric::P99), _) | (None, true) => AnswerMetric::P99,
        (Some(Metric::Cpu), _) => AnswerMetric::Cpu,
    }
}

/// The stage that answers: the first in which a difference is shown, else the first with an interval.
fn comparison(known: Known<'_>, stages: &[&Stage]) -> Option<Answer> {
    let all: Vec<(&Stage, AnswerMetric, Vec<Effect>)> = stages
        .iter()
        .map(|s| (*s, metric_of(known, s)))
        .map(|(s, metric)| (s, metric, effects(known, s, metric)))
        .filter(|(_, _, effects)| !effects.is_empty())
        .collect();
    let shown = |(_, _, e): &&(&Stage, AnswerMetric, Vec<Effect>)| e.iter().any(Effect::is_shown);
    let (stage, metric, effects) = all.iter().find(shown).or_else(|| all.first())?;
    let matters = matters(known, stage, effects)?;
    let same_setting = |e: &&Effect| e.setting == matters.setting && e.to != matters.to;
    let others: Vec<Effect> = effects.iter().filter(same_setting).cloned().collect();
    let elsewhere = effects.iter().filter(|e| e.setting != matters.setting);
    let other_stages = all
        .iter()
        .filter(|(s, m, _)| s.name != stage.name && m == metric);
    let elsewhere = elsewhere
        .chain(other_stages.flat_map(|(_, _, e)| e))
        .cloned();
    let elsewhere: Vec<Effect> = elsewhere.collect();
    let nothing_shown =
        !matters.is_shown() && !others.iter().chain(&elsewhere).any(Effect::is_shown);
    let pair = |from: &Levels, to: &Levels| -> (Levels, Levels) {
        let with = |level: &Levels| {
            let mut levels = matters.setting.clone();
            levels.extend(level.clone());
            levels
        };
        (with(from), with(to))
    };
    let between = |from: &Levels, to: &Levels| {
        let (before, after) = pair(from, to);
        mechanism(
            known,
            &Pair {
                stage: &stage.name,
                before: &before,
                after: &after,
            },
        )
    };
    let better = better(known, stage, *metric, matters, &others);
    let mut answer = Answer {
        metric: *metric,
        no_difference_above: nothing_shown
            .then(|| farthest(others.iter().chain(&elsewhere).chain([matters]))),
        mechanism: Some(between(&matters.from, &matters.to)),
        better_mechanism: better.as_ref().map(|b| between(&b.from, &b.to)),
        better,
        uncompared: uncompared(known, stage, *metric),
        blocks: stage.repeats,
        others,
        elsewhere,
        effect: Some(matters.clone()),
        ..Answer::empty(&known.record.manifest.question, AnswerKind::Comparison)
    };
    answer.remedy = answer.cause().map(|c| c.remedy.clone()).unwrap_or_default();
    Some(answer)
}

/// Cells of a stage that have no interval against their baseline.
fn uncompared(known: Known<'_>, stage: &Stage, metric: AnswerMetric) -> Vec<Uncompared> {
    let cells = known.analysis.cells.iter();
    let of_stage = cells.filter(|c| c.stage == stage.name);
    let is_baseline = |c: &Cell| {
        stage
            .baseline
            .iter()
            .all(|(f, l)| c.levels.get(f) == Some(l))
    };
    of_stage
        .filter(|c| !is_baseline(c))
        .filter(|c| metric.of(c).and_then(|r| r.interval()).is_none())
        .map(|c| Uncompared {
            stage: stage.name.clone(),
            levels: c.levels.clone(),
            why: match &c.no_ratio {
                Some(why) => why.clone(),
                None => "no interval".to_owned(),
            },
        })
        .collect()
}

/// Largest relative difference that an interval allows.
fn farthest<'a>(effects: impl Iterator<Item = &'a Effect>) -> f64 {
    let ends = effects.filter_map(|e| e.ratio.interval());
    ends.map(|(low, high)| (1.0 - low).max(high - 1.0))
        .fold(0.0, f64::max)
}

/// The level that matters: where the stage is fastest, the one that is farthest from the baseline; one that is shown to
/// differ before any that is not.
fn matters<'a>(known: Known<'_>, stage: &Stage, effects: &'a [Effect]) -> Option<&'a Effect> {
    let cells = known
        .analysis
        .cells
        .iter()
        .filter(|c| c.stage == stage.name);
    let rate = |c: &&Cell| c.achieved_per_s.map_or(0.0, |s| s.median);
    let fastest = cells.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let (_, setting) = split(&fastest.levels, &stage.baseline);
    let far = |e: &Effect| e.ratio.ratio.ln().abs();
    effects.iter().max_by(|a, b| {
        let rank = |e: &Effect| (e.is_shown(), e.setting == setting);
        rank(a).cmp(&rank(b)).then(far(a).total_cmp(&far(b)))
    })
}

/// The best of the other levels against the worst, where the worst is worse than the baseline and the best of the
/// others is shown to be better than it. Over pairs of the same block, as the ratios to the baseline are.
fn better(
    known: Known<'_>,
    stage: &Stage,
    metric: AnswerMetric,
    worst: &Effect,
    others: &[Effect],
) -> Option<Effect> {
    if !worst.is_shown() || metric.gain(worst.ratio.ratio) >= 1.0 {
        return None;
    }
    let best = others.iter().max_by(|a, b| {
        let gain = |e: &Effect| metric.gain(e.ratio.ratio);
        gain(a).total_cmp(&gain(b))
    })?;
    let with = |level: &Levels| {
        let mut levels = worst.setting.clone();
        levels.extend(level.clone());
        levels
    };
    let (before, after) = (with(&worst.to), with(&best.to));
    let pair = Pair {
        stage: &stage.name,
        before: &before,
        after: &after,
    };
    let pairs = known.paired(&pair, |t| match metric {
        AnswerMetric::Rate => t.achieved_per_s,
        AnswerMetric::P99 => crate::cells::p99(t),
        AnswerMetric::Cpu => t.target_cpu_us_per_request,
    });
    let ratios: Vec<f64> = pairs.iter().filter_map(|(a, b)| share(*b, *a)).collect();
    let family = Family {
        comparisons: others.len(),
        sequential: false,
    };
    let mut ratio = contrast::ratio(&Sample::pairs(&ratios), family)?;
    // The best of several was chosen after the fact: corrected as if each had been tested.
    ratio.p_adjusted = ratio.p.map(|p| (p * others.len() as f64).min(1.0));
    let effect = Effect {
        stage: stage.name.clone(),
        from: worst.to.clone(),
        to: best.to.clone(),
        setting: worst.setting.clone(),
        before: worst.after,
        after: best.after,
        ratio,
    };
    (effect.is_shown() && metric.gain(ratio.ratio) > 1.0).then_some(effect)
}

/// A comparison was asked for and none has an interval.
fn not_compared(known: Known<'_>, stages: &[&Stage]) -> Answer {
    let analysis = known.analysis;
    let of_stages = |c: &&Cell| stages.iter().any(|s| s.name == c.stage);
    let cells: Vec<&Cell> = analysis.cells.iter().filter(of_stages).collect();
    let baseline = &stages[0].baseline;
    let is_baseline = |c: &&&Cell| baseline.iter().all(|(f, l)| c.levels.get(f) == Some(l));
    let too_few = cells.iter().find_map(|c| c.no_ratio.clone());
    let too_few = too_few.map_or(String::new(), |why| format!(" ({why})"));
    let (trials, valid) = cells.iter().fold((0, 0), |(all, valid), c| {
        (all + c.trials.len(), valid + c.valid.len())
    });
    let invalid = analysis.trials.iter().find(|t| {
        let here = cells.iter().any(|c| c.trials.contains(&t.id));
        here && !t.verdict.valid
    });
    let clause = |why: &str| {
        let first = why.split(';').next().unwrap_or(why);
        first.trim_end_matches('.').to_owned()
    };
    let unmeasured = cells
        .iter()
        .find(is_baseline)
        .filter(|c| c.achieved_per_s.is_none());
    let of_valid = format!(
        "{valid} of {} {} valid",
        words::plural(trials as u64, "trial"),
        if trials == 1 { "is" } else { "are" }
    );
    let alone = cells.iter().all(|c| is_baseline(&c));
    let skipped = analysis.warnings.iter().find(|w| w.name == "cells_skipped");
    let (what, why) = match unmeasured {
        _ if alone && trials > 0 => (
            format!(
                "only the baseline {} was run, and there is nothing to compare it with",
                words::levels(baseline)
            ),
            skipped.map(|w| w.seen.clone()).unwrap_or_default(),
        ),
        _ if trials == 0 => ("no trial ended".to_owned(), String::new()),
        Some(_) => (
            format!("the baseline {} was not measured", words::levels(baseline)),
            of_valid,
        ),
        None => (
            format!(
                "no level has three pairs of valid trials with the baseline {}, and fewer give no interval{too_few}",
                words::levels(baseline)
            ),
            of_valid,
        ),
    };
    let why = match invalid {
        Some(trial) => format!("{why}; trial {}: {}", trial.id, clause(&trial.verdict.why)),
        None => why,
    };
    let next = match (invalid, known.record.manifest.interrupted) {
        (_, true) => "continue the run".to_owned(),
        _ if trials == 0 => analysis.verdict.remedy.clone(),
        _ if alone && skipped.is_some() => skipped.map(|w| w.remedy.clone()).unwrap_or_default(),
        (Some(trial), _) if !trial.verdict.remedy.is_empty() => trial.verdict.remedy.clone(),
        _ => "repeat each cell three times at least (`repeats` in [design]), better six".to_owned(),
    };
    Answer {
        unanswered: Some(Unanswered { what, why, next }),
        blocks: stages[0].repeats,
        metric: metric_of(known, stages[0]),
        ..Answer::empty(&known.record.manifest.question, AnswerKind::NotAnswered)
    }
}

/// The highest rate, and what limits it.
fn capacity(known: Known<'_>) -> Answer {
    let analysis = known.analysis;
    let question = &known.record.manifest.question;
    let verdict = &analysis.verdict;
    let cells = || {
        let all = analysis.cells.iter();
        all.filter(|c| c.stage != PROOF_STAGE && c.achieved_per_s.is_some())
    };
    let rate = |c: &&Cell| c.achieved_per_s.map_or(0.0, |s| s.median);
    let best = cells()
        .filter(|c| c.offered_per_s.is_none())
        .max_by(|a, b| rate(a).total_cmp(&rate(b)))
        .or_else(|| cells().max_by(|a, b| rate(a).total_cmp(&rate(b))));
    let spread = best.and_then(|c| c.achieved_per_s);
    let (Some(best), Some(rate_per_s), true) = (best, spread, verdict.valid) else {
        return Answer {
            unanswered: Some(Unanswered {
                what: "how much it holds was not measured".to_owned(),
                why: verdict.why.clone(),
                next: verdict.remedy.clone(),
            }),
            remedy: verdict.remedy.clone(),
            ..Answer::empty(question, AnswerKind::NotAnswered)
        };
    };
    let knee = analysis.knees.iter().find(|k| {
        let along = k.levels.iter().all(|(f, l)| best.levels.get(f) == Some(l));
        k.stage == best.stage && along
    });
    let met = cells()
        .filter(|c| best.offered_per_s.is_none() && c.offered_per_s.is_some())
        .max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let met = met.and_then(|c| {
        Some(Met {
            stage: c.stage.clone(),
            levels: c.levels.clone(),
            rate_per_s: c.achieved_per_s?,
            response_ns_p50: c.response_ns_p50?,
            response_ns_p99: c.response_ns_p99?,
        })
    });
    let of_best = best.verdict.as_ref();
    // What stands behind the first, which may only be suspected, is not what limits.
    let cause = known
        .examined(&best.stage, &best.levels)
        .and_then(|(_, d)| d.findings.first().filter(|f| named(f)))
        .map(|f| CauseSeen {
            cause: f.cause.clone(),
            title: f.title.clone(),
            target: f.target.clone(),
            status: f.status,
            gain_bound: f.gain_bound,
            remedy: f.remedy.clone(),
            before: None,
            after: Some(true),
        });
    let remedy = match &cause {
        Some(cause) => cause.remedy.clone(),
        None => verdict.remedy.clone(),
    };
    Answer {
        capacity: Some(Capacity {
            stage: best.stage.clone(),
            levels: best.levels.clone(),
            rate_per_s,
            response_ns_p99: best.response_ns_p99,
            trials: u32::try_from(best.valid.len()).unwrap_or(u32::MAX),
            offered: best.offered_per_s.is_some(),
            open: met,
            knee: knee.cloned(),
            limit: of_best.map_or(Limit::Unknown, |v| v.limit),
            why: of_best.map(|v| v.why.clone()).unwrap_or_default(),
            cause,
        }),
        remedy,
        ..Answer::empty(question, AnswerKind::Capacity)
    }
}

fn named(finding: &Finding) -> bool {
    finding.cause != "none" && finding.worth_changing && finding.status >= Status::Supported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse;
    use crate::samples::{Figures, StageSample, run};
    use record::Nanos;

    /// A factor `path` whose levels serve so many requests in 10 s, in blocks that differ by a few per cent.
    fn recorded(per_level: &[(&'static str, f64)], repeats: u32, baseline: bool) -> RunRecord {
        let stage = StageSample {
            name: "main",
            factors: vec![("path", per_level.iter().map(|(name, _)| *name).collect())],
            baseline: match baseline {
                true => vec![("path", per_level[0].0)],
                false => vec![],
            },
            repeats,
        };
        let figures = |levels: &Levels, block: u32| {
            let (at, (_, rate)) = per_level
                .iter()
                .enumerate()
                .find(|(_, (name, _))| *name == levels["path"])
                .unwrap();
            // The noise of a level is its own, so that the pairs differ.
            let noise = [0.0, 0.02, -0.01, 0.01, -0.02, 0.015][(block as usize + at) % 6];
            Figures {
                answers: (rate * (1.0 + noise)) as u64,
                service: Nanos::from_millis(10),
                server: 0.97,
                generator: 0.3,
            }
        };
        run(&[stage], figures)
    }

    fn answered(per_level: &[(&'static str, f64)], repeats: u32, baseline: bool) -> Answer {
        let record = recorded(per_level, repeats, baseline);
        let analysis = analyse(&record).unwrap();
        answer(&record, &analysis, &BTreeMap::new())
    }

    #[test]
    fn the_level_that_matters_is_the_one_farthest_from_the_baseline() {
        let found = answered(
            &[
                ("direct", 10_000.0),
                ("slow", 3_000.0),
                ("middling", 6_000.0),
            ],
            6,
            true,
        );
        assert_eq!(found.kind, AnswerKind::Comparison);
        let effect = found.effect.as_ref().unwrap();
        assert_eq!(effect.to["path"], "slow");
        assert!(effect.is_shown() && (effect.ratio.ratio - 0.3).abs() < 0.03);
        assert_eq!(found.others.len(), 1);
        assert_eq!(found.no_difference_above, None);
        // The way back from the worst level is compared over pairs too.
        let better = found.better.as_ref().unwrap();
        assert_eq!(
            (better.from["path"].as_str(), better.to["path"].as_str()),
            ("slow", "middling")
        );
        let (low, high) = better.ratio.interval().unwrap();
        assert!(low < 2.0 && 2.0 < high && low > 1.5, "{better:?}");
    }

    #[test]
    fn a_factor_without_effect_is_bounded_by_its_intervals() {
        let found = answered(&[("glibc", 10_000.0), ("jemalloc", 10_010.0)], 6, true);
        assert_eq!(found.kind, AnswerKind::Comparison);
        let bound = found.no_difference_above.unwrap();
        let (low, high) = found.effect.unwrap().ratio.interval().unwrap();
        assert!(low < 1.0 && 1.0 < high);
        assert!((bound - (1.0 - low).max(high - 1.0)).abs() < 1e-12);
    }

    #[test]
    fn the_experiment_may_name_what_it_is_judged_by() {
        let mut record = recorded(&[("direct", 10_000.0), ("slow", 5_000.0)], 6, true);
        record.plan["stages"][0]["metric"] = "cpu_us_per_request".into();
        let analysis = analyse(&record).unwrap();
        let found = answer(&record, &analysis, &BTreeMap::new());
        assert_eq!(found.metric, AnswerMetric::Cpu);
        let effect = found.effect.unwrap();
        let cell = analysis.cells.iter().find(|c| c.levels["path"] == "slow");
        assert_eq!(Some(effect.ratio), cell.unwrap().cpu_ratio);
        // A request takes twice the CPU, and less of it is better.
        assert!((effect.ratio.ratio - 2.0).abs() < 0.1, "{effect:?}");
        assert!(found.metric.gain(effect.ratio.ratio) < 1.0);
    }

    #[test]
    fn two_pairs_answer_nothing_and_say_what_to_run() {
        let found = answered(&[("direct", 10_000.0), ("proxied", 5_000.0)], 2, true);
        assert_eq!(found.kind, AnswerKind::NotAnswered);
        assert_eq!(found.effect, None);
        let unanswered = found.unanswered.unwrap();
        assert!(unanswered.what.contains("(2 pairs of 3)"), "{unanswered:?}");
        assert!(unanswered.next.contains("repeats"), "{unanswered:?}");
    }

    #[test]
    fn without_a_baseline_the_answer_is_how_much_is_held() {
        let found = answered(&[("a", 10_000.0), ("b", 5_000.0)], 3, false);
        assert_eq!(found.kind, AnswerKind::Capacity);
        let capacity = found.capacity.unwrap();
        assert_eq!(capacity.levels["path"], "a");
        assert_eq!(capacity.trials, 3);
    }

    #[test]
    fn no_trial_is_no_answer() {
        for baseline in [true, false] {
            let stage = StageSample {
                name: "main",
                factors: vec![("path", vec!["a", "b"])],
                baseline: if baseline {
                    vec![("path", "a")]
                } else {
                    vec![]
                },
                repeats: 3,
            };
            let figures = |_: &Levels, _| Figures {
                answers: 1,
                service: Nanos::from_millis(1),
                server: 0.1,
                generator: 0.1,
            };
            let mut record = run(&[stage], figures);
            record.trials.clear();
            let analysis = analyse(&record).unwrap();
            let found = answer(&record, &analysis, &BTreeMap::new());
            assert_eq!(found.kind, AnswerKind::NotAnswered);
            assert!(!found.unanswered.unwrap().what.is_empty());
        }
    }
}
