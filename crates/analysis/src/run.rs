//! A whole run: its trials, cells and knees, and one verdict over all of them.

use crate::cells::cells;
use crate::fairness::fairness;
use crate::knee::knees;
use crate::search::searches;
use crate::tables::tables;
use crate::trial::analyse_trial;
use crate::warn::FOREIGN_CPU;
use crate::words::{levels, plural, rate, trial_numbers};
use crate::{
    AnalysisError, Cell, Limit, RunAnalysis, TrialAnalysis, Verdict, disturbed, imported, traffic,
};
use plan::Plan;
use record::{PROOF_STAGE, RunRecord, Unavailable, Warning};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Analyses a run from nothing but its record.
///
/// # Errors
/// [`AnalysisError::Plan`] when the stored plan cannot be read.
pub fn analyse(record: &RunRecord) -> Result<RunAnalysis, AnalysisError> {
    let plan = Plan::deserialize(&record.plan).map_err(|e| AnalysisError::Plan {
        cause: e.to_string(),
    })?;
    let is_step = |stage: &str| plan.searches().any(|name| name == stage);
    let (steps, others): (Vec<_>, Vec<_>) = record
        .trials
        .iter()
        .map(|t| analyse_trial(t, plan.error_limit))
        .partition(|(trial, _)| is_step(&trial.stage));
    let steps: Vec<TrialAnalysis> = steps.into_iter().map(|(trial, _)| trial).collect();
    let (mut trials, own): (Vec<TrialAnalysis>, Vec<Vec<Warning>>) = others.into_iter().unzip();
    disturbed::mark(&plan, record, &mut trials);
    let judged = record.traffic.as_ref().map(traffic::judge);
    if let Some(verdict) = &judged {
        // Its trials are parts of one run.
        trials
            .iter_mut()
            .for_each(|t| t.verdict.clone_from(verdict));
    }
    let searches = searches(record, &plan, &trials, &steps);
    let cells = cells(&plan, &trials);
    let (answered, planned) = answered(&cells);
    Ok(RunAnalysis {
        verdict: judged.unwrap_or_else(|| run_verdict(&cells, &trials)),
        cells_answered: answered,
        cells_planned: planned,
        capacity_per_s: best(&cells, true).and_then(rate_of),
        searches,
        knees: knees(&plan, &cells, &trials),
        fairness: fairness(record, &plan, &cells, &trials),
        warnings: warnings(record, &plan, &trials, &own),
        tables: tables(record, &plan, &cells, &trials),
        cells,
        trials,
    })
}

fn rate_of(cell: &Cell) -> Option<f64> {
    cell.achieved_per_s.map(|s| s.median)
}

/// Cells that have figures, and all. The arms of a proof are copies and answer nothing.
fn answered(cells: &[Cell]) -> (u32, u32) {
    let own = || cells.iter().filter(|c| c.stage != PROOF_STAGE);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (
        count(own().filter(|c| c.is_measured()).count()),
        count(own().count()),
    )
}

/// The cell with the highest valid rate, of the closed loops or of the open ones. The arms of a proof are copies: they
/// say nothing of the server's own best.
fn best(cells: &[Cell], closed: bool) -> Option<&Cell> {
    cells
        .iter()
        .filter(|c| c.stage != PROOF_STAGE)
        .filter(|c| c.offered_per_s.is_none() == closed && rate_of(c).is_some())
        .max_by(|a, b| {
            let rate = |c: &Cell| rate_of(c).unwrap_or(0.0);
            rate(a).total_cmp(&rate(b))
        })
}

/// What limits the server at its best. A closed-loop sweep searches the capacity; without one the highest
/// open-loop rate speaks.
fn run_verdict(cells: &[Cell], trials: &[TrialAnalysis]) -> Verdict {
    let Some(best) = best(cells, true).or_else(|| best(cells, false)) else {
        return nothing_answered(cells, trials);
    };
    let verdict = best
        .verdict
        .clone()
        .unwrap_or_else(|| Verdict::invalid("the best cell has no verdict", ""));
    let (answered, planned) = answered(cells);
    let part = format!("{answered} of {}", plural(planned.into(), "cell"));
    if let Some(faster) = faster_but_not_measured(best, &verdict, cells, trials) {
        return capacity_not_found(&part, best, faster);
    }
    let part = match answered < planned {
        true => format!("answered for {part}: "),
        false => String::new(),
    };
    Verdict {
        why: format!("{part}{}: {}", at_its_best(best), verdict.why),
        ..verdict
    }
}

fn at_its_best(cell: &Cell) -> String {
    let rate = rate(rate_of(cell).unwrap_or(0.0));
    match cell.levels.is_empty() {
        true => format!("{rate}/s"),
        false => format!("{rate}/s at {}", levels(&cell.levels)),
    }
}

/// A closed-loop trial that was faster than the best cell, and that the generator limited or whose cell is not
/// measured, when the server did not limit the best cell: the server can do more, and this run cannot say how much.
fn faster_but_not_measured<'a>(
    best: &Cell,
    verdict: &Verdict,
    cells: &[Cell],
    trials: &'a [TrialAnalysis],
) -> Option<&'a TrialAnalysis> {
    if verdict.limit == Limit::Server || best.offered_per_s.is_some() {
        return None;
    }
    let limited = trials
        .iter()
        .filter(|t| t.stage != PROOF_STAGE)
        .filter(|t| match t.verdict.valid {
            true => {
                let cell = cells.iter().find(|c| c.valid.contains(&t.id));
                cell.is_some_and(|c| !c.is_measured())
            }
            false => t.verdict.limit == Limit::Generator,
        });
    limited
        .filter(|t| t.offered_per_s.is_none() && t.achieved_per_s > rate_of(best))
        .max_by(|a, b| {
            let rate = |t: &TrialAnalysis| t.achieved_per_s.unwrap_or(0.0);
            rate(a).total_cmp(&rate(b))
        })
}

fn capacity_not_found(part: &str, best: &Cell, faster: &TrialAnalysis) -> Verdict {
    let more = match faster.verdict.valid {
        true => format!(
            "a trial reached {}/s, too few of whose like are valid",
            rate(faster.achieved_per_s.unwrap_or(0.0))
        ),
        false => faster.verdict.why.clone(),
    };
    Verdict {
        valid: false,
        why: format!(
            "the capacity was not found: the highest rate of the {part} that are measured is {}, and at {} {more}",
            at_its_best(best),
            levels(&faster.levels),
        ),
        ..faster.verdict.clone()
    }
}

fn nothing_answered(cells: &[Cell], trials: &[TrialAnalysis]) -> Verdict {
    let invalid = trials.iter().find(|t| !t.verdict.valid);
    let Some(first) = invalid.or(trials.first()) else {
        return Verdict::invalid("no trial ended", "run it again, or continue it");
    };
    let valid = trials.iter().filter(|t| t.verdict.valid).count();
    let of = plural(trials.len() as u64, "trial");
    let how_many = match valid {
        0 => format!("none of {of} is valid"),
        n => format!(
            "answered for none of {}: {n} of {of} valid, too few of each cell",
            plural(answered(cells).1.into(), "cell")
        ),
    };
    Verdict {
        valid: false,
        why: format!("{how_many}; the first: {}", first.verdict.why),
        ..first.verdict.clone()
    }
}

fn warnings(
    record: &RunRecord,
    plan: &Plan,
    trials: &[TrialAnalysis],
    own: &[Vec<Warning>],
) -> Vec<Warning> {
    let mut warnings = plan.warnings.clone();
    if let Some(run) = &record.traffic {
        warnings.extend(run.outcome.warnings.iter().cloned());
        warnings.extend(traffic::warnings(run));
        return warnings;
    }
    warnings.extend(not_run(record, plan, trials));
    warnings.extend(not_valid(trials));
    warnings.extend(disturbed::warning(trials));
    warnings.extend(imported::differing_loads(plan, trials));
    warnings.extend(unavailable(record));
    warnings.extend(merged(trials, own));
    warnings
}

fn not_run(record: &RunRecord, plan: &Plan, trials: &[TrialAnalysis]) -> Option<Warning> {
    let planned = plan.trials.iter();
    // The steps of a search are planned as many as it may need.
    let planned = planned
        .filter(|t| plan.stages[t.stage].search.is_none())
        .count();
    let missing = planned.saturating_sub(trials.len());
    let stopped = if record.manifest.interrupted {
        ": the run was interrupted"
    } else {
        ""
    };
    (missing > 0 || record.manifest.interrupted).then(|| {
        Warning::new(
            "trials_not_run",
            format!(
                "{missing} of {} did not run{stopped}",
                plural(planned as u64, "planned trial")
            ),
            "continue the run",
        )
    })
}

/// One warning a limit, so that forty trials with the same fault read as one line.
fn not_valid(trials: &[TrialAnalysis]) -> Vec<Warning> {
    let mut by_reason: BTreeMap<String, Vec<&TrialAnalysis>> = BTreeMap::new();
    for trial in trials.iter().filter(|t| !t.verdict.valid) {
        by_reason
            .entry(reason(&trial.verdict))
            .or_default()
            .push(trial);
    }
    by_reason
        .into_values()
        .map(|group| {
            Warning::new(
                "trials_not_valid",
                format!(
                    "{} of {} {} not valid and left out ({}): {}",
                    group.len(),
                    plural(trials.len() as u64, "trial"),
                    if group.len() == 1 { "is" } else { "are" },
                    trial_numbers(group.iter().map(|t| t.id)),
                    group[0].verdict.why
                ),
                group[0].verdict.remedy.clone(),
            )
        })
        .collect()
}

/// The first clause of a reason without its numbers.
fn reason(verdict: &Verdict) -> String {
    let clause = verdict
        .why
        .split([':', ';', '('])
        .next()
        .unwrap_or_default();
    let words = clause.chars().filter(|c| !c.is_ascii_digit());
    format!("{}/{}", verdict.limit.name(), words.collect::<String>())
}

/// What could not be watched in any trial, once each: trials whose servers took other ports say the same.
fn unavailable(record: &RunRecord) -> Vec<Warning> {
    let mut seen: BTreeMap<(&str, &str), (&Unavailable, BTreeSet<&str>)> = BTreeMap::new();
    for gap in record.trials.iter().flat_map(|t| &t.unavailable) {
        let kind = gap.what.split(" of ").next().unwrap_or_default();
        let alike = seen.entry((kind, &gap.remedy));
        let (_, whats) = alike.or_insert_with(|| (gap, BTreeSet::new()));
        whats.insert(&gap.what);
    }
    let warning = |(gap, whats): (&Unavailable, BTreeSet<&str>)| {
        let alike = match whats.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more alike)"),
        };
        let failed = match gap.what.as_str() {
            // It went on, at a slower pace.
            "sampling" => "",
            _ => "could not be watched: ",
        };
        Warning::new(
            "not_watched",
            format!("{} {failed}{}{alike}", gap.what, gap.reason),
            gap.remedy.clone(),
        )
    };
    seen.into_values().map(warning).collect()
}

/// The trials' own warnings, those of one name merged.
fn merged(trials: &[TrialAnalysis], own: &[Vec<Warning>]) -> Vec<Warning> {
    let mut by_name: BTreeMap<&str, Vec<(u32, &Warning)>> = BTreeMap::new();
    for (trial, warnings) in trials.iter().zip(own) {
        // What other programs took is said once for the run.
        for warning in warnings
            .iter()
            .filter(|w| w.name != FOREIGN_CPU || !trial.is_disturbed())
        {
            by_name
                .entry(&warning.name)
                .or_default()
                .push((trial.id, warning));
        }
    }
    by_name
        .into_values()
        .map(|group| {
            let (_, first) = group[0];
            let at = trial_numbers(group.iter().map(|(id, _)| *id));
            Warning {
                seen: format!("{} ({at})", first.seen),
                ..first.clone()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Figures, StageSample, nothing, run};
    use plan::Levels;
    use record::{Nanos, TrialState, Unavailable};

    fn number(levels: &Levels, factor: &str) -> f64 {
        levels[factor].parse().unwrap()
    }

    /// A closed-loop sweep: 1,000/s a connection up to 60 of them, then the worker is full; through the proxy
    /// half of that; every block has its own speed, as a shared host does.
    fn sweep(repeats: u32) -> (Vec<StageSample>, impl Fn(&Levels, u32) -> Figures) {
        let stage = StageSample {
            name: "main",
            factors: vec![
                ("path", vec!["direct", "proxied"]),
                ("connections", vec!["10", "30", "60", "100", "200"]),
            ],
            baseline: vec![("path", "direct")],
            repeats,
        };
        let figures = |levels: &Levels, block: u32| {
            let slower = if levels["path"] == "direct" { 1.0 } else { 2.0 };
            let speed = [1.0, 0.8, 1.1, 0.9, 1.05, 0.95, 1.2][block as usize % 7];
            let connections = number(levels, "connections");
            let per_s = connections.min(60.0) * 1_000.0 * speed / slower;
            Figures {
                answers: (per_s * 10.0) as u64,
                service: Nanos((connections / per_s * 1e9) as u64),
                server: if connections < 60.0 { 0.5 } else { 0.99 },
                generator: 0.4,
            }
        };
        (vec![stage], figures)
    }

    fn cell<'a>(analysis: &'a RunAnalysis, levels: &[(&str, &str)]) -> &'a Cell {
        let matches = |c: &&Cell| levels.iter().all(|(k, v)| c.levels[*k] == *v);
        analysis.cells.iter().find(matches).unwrap()
    }

    fn warning<'a>(analysis: &'a RunAnalysis, name: &str) -> &'a Warning {
        let found = analysis.warnings.iter().find(|w| w.name == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", analysis.warnings))
    }

    fn has_only_numbers(analysis: &RunAnalysis) {
        let text = format!("{analysis:?}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn a_sweep_has_cells_in_the_order_of_the_file() {
        let (stages, figures) = sweep(5);
        let analysis = analyse(&run(&stages, figures)).unwrap();
        let order: Vec<String> = analysis.cells.iter().map(|c| levels(&c.levels)).collect();
        assert_eq!(order[0], "connections=10 path=direct");
        assert_eq!(order[4], "connections=200 path=direct");
        assert_eq!(order[5], "connections=10 path=proxied");
        let best = cell(&analysis, &[("path", "direct"), ("connections", "100")]);
        assert_eq!((best.planned, best.valid.len()), (5, 5));
        let rate = best.achieved_per_s.unwrap();
        assert_eq!(
            (rate.median, rate.min, rate.max),
            (60_000.0, 48_000.0, 66_000.0)
        );
        assert_eq!(best.verdict.as_ref().unwrap().limit, Limit::Server);
        assert_eq!(analysis.capacity_per_s, Some(60_000.0));
        has_only_numbers(&analysis);
    }

    #[test]
    fn ratios_pair_the_blocks() {
        // The speeds of the blocks differ by 30 %; within a block the proxy costs exactly half.
        for (repeats, coverage) in [(5, 0.95), (7, 0.95)] {
            let (stages, figures) = sweep(repeats);
            let analysis = analyse(&run(&stages, figures)).unwrap();
            let proxied = cell(&analysis, &[("path", "proxied"), ("connections", "100")]);
            let ratio = proxied.rate_ratio.unwrap();
            assert_eq!((ratio.ratio, ratio.low, ratio.high), (0.5, 0.5, 0.5));
            assert_eq!((ratio.pairs, ratio.coverage), (repeats, coverage));
            assert!((proxied.p99_ratio.unwrap().ratio - 2.0).abs() < 0.01);
            let direct = cell(&analysis, &[("path", "direct"), ("connections", "100")]);
            assert_eq!(direct.rate_ratio, None);
        }
    }

    #[test]
    fn the_run_says_what_limits_the_server_at_its_best() {
        let (stages, figures) = sweep(3);
        let verdict = analyse(&run(&stages, figures)).unwrap().verdict;
        assert!(verdict.valid);
        assert_eq!(
            (verdict.limit, verdict.resource.as_str()),
            (Limit::Server, "worker")
        );
        assert!(
            verdict.why.starts_with("60,000/s at connections="),
            "{}",
            verdict.why
        );
        assert!(
            verdict.why.contains("nginx worker 7 on core 0"),
            "{}",
            verdict.why
        );
    }

    #[test]
    fn each_path_has_its_own_knee() {
        let (stages, figures) = sweep(3);
        let knees = analyse(&run(&stages, figures)).unwrap().knees;
        let found: Vec<_> = knees
            .iter()
            .map(|k| {
                (
                    k.levels["path"].as_str(),
                    k.axis.as_str(),
                    k.at,
                    k.achieved_per_s,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("direct", "connections", 60.0, 60_000.0),
                ("proxied", "connections", 60.0, 30_000.0)
            ]
        );
    }

    #[test]
    fn a_curve_that_still_rises_has_no_knee() {
        let (mut stages, figures) = sweep(3);
        stages[0].factors[1].1 = vec!["10", "30", "60"];
        assert_eq!(analyse(&run(&stages, figures)).unwrap().knees, []);
    }

    /// Open loop: 2 ms at first, 5 ms at 3,000/s, 50 ms at 4,000/s; 5,000/s are not met.
    fn open_loop(rates: Vec<&'static str>) -> RunAnalysis {
        let stage = StageSample {
            name: "open",
            factors: vec![("rate", rates)],
            baseline: vec![],
            repeats: 3,
        };
        let figures = |levels: &Levels, _| {
            let offered = number(levels, "rate");
            Figures {
                answers: (offered.min(4_500.0) * 10.0) as u64,
                service: match offered {
                    r if r < 3_000.0 => Nanos::from_millis(2),
                    r if r < 4_000.0 => Nanos::from_millis(5),
                    _ => Nanos::from_millis(50),
                },
                server: offered / 5_000.0,
                generator: 0.2,
            }
        };
        analyse(&run(&[stage], figures)).unwrap()
    }

    #[test]
    fn an_open_loop_bends_where_its_p99_grows() {
        let analysis = open_loop(vec!["1000", "2000", "3000", "4000", "5000"]);
        let knee = &analysis.knees[0];
        assert_eq!((knee.axis.as_str(), knee.at), ("offered_per_s", 3_000.0));
        assert_eq!(analysis.capacity_per_s, None);
        assert!(analysis.verdict.valid);
        assert_eq!(analysis.verdict.limit, Limit::OfferedLoad);
        let unmet = cell(&analysis, &[("rate", "5000")]);
        assert_eq!((unmet.valid.len(), unmet.achieved_per_s), (0, None));
        assert!(
            warning(&analysis, "trials_not_valid")
                .seen
                .contains("3 of 15 trials are not valid")
        );
        assert_eq!(open_loop(vec!["1000", "2000", "3000"]).knees, []);
        has_only_numbers(&analysis);
    }

    /// A closed loop of 8,000/s; the open loop holds 4,500/s. The steps of the search carry no levels.
    fn searched(rates: Vec<&'static str>) -> record::RunRecord {
        let stage = |name, factor, levels: Vec<&'static str>| StageSample {
            name,
            factors: vec![(factor, levels)],
            baseline: vec![],
            repeats: 1,
        };
        let stages = [
            stage("closed", "connections", vec!["16", "64"]),
            stage("edge", "rate", rates),
        ];
        let figures = |levels: &Levels, _| match levels.get("rate") {
            None => Figures {
                answers: 80_000,
                service: Nanos::from_millis(number(levels, "connections") as u64 / 8),
                server: 0.99,
                generator: 0.4,
            },
            Some(_) => Figures {
                answers: (number(levels, "rate").min(4_500.0) * 10.0) as u64,
                service: Nanos::from_millis(2),
                server: number(levels, "rate") / 5_000.0,
                generator: 0.2,
            },
        };
        let mut record = run(&stages, figures);
        let mut plan: Plan = serde_json::from_value(record.plan).unwrap();
        plan.stages[1].search = Some(plan::SearchFor::Rate);
        for (step, trial) in plan.trials.iter_mut().filter(|t| t.stage == 1).enumerate() {
            trial.levels.clear();
            trial.block = step as u32;
        }
        record.plan = serde_json::to_value(&plan).unwrap();
        for trial in record.trials.iter_mut().filter(|t| t.stage == "edge") {
            trial.levels.clear();
        }
        record
    }

    #[test]
    fn a_step_that_was_not_met_is_no_failed_trial() {
        let record = searched(vec!["4000", "6000", "5000", "4250", "4250"]);
        let analysis = analyse(&record).unwrap();
        let plan: Plan = serde_json::from_value(record.plan).unwrap();
        let search = &analysis.searches[0];
        let held: Vec<Option<bool>> = search.steps.iter().map(|s| s.held).collect();
        assert_eq!(held, [true, false, false, true, true].map(Some));
        assert_eq!(
            (search.bound_per_s, search.found_per_s),
            (Some(8_000.0), Some(4_250.0))
        );
        assert_eq!(search.limit_above, Some(Limit::Server));
        assert_eq!(analysis.trials.len(), 2);
        assert_eq!(analysis.cells.len(), 2);
        assert!(analysis.warnings.is_empty(), "{:?}", analysis.warnings);
        assert!(analysis.verdict.valid);
        assert_eq!(analysis.full_rate_per_s(&plan, 2), Some(4_250.0));
        assert_eq!(
            analysis.full_rate_per_s(&plan, 1),
            Some(8_000.0),
            "no search before it"
        );
    }

    #[test]
    fn a_stored_search_says_where_it_goes_on() {
        let next = |rates| analyse(&searched(rates)).unwrap().searches[0].next_per_s();
        assert_eq!(next(vec!["4000"]), Some(6_000.0));
        assert_eq!(next(vec!["4000", "6000"]), Some(5_000.0));
        assert_eq!(next(vec!["4000", "6000", "5000"]), Some(4_500.0));
        assert_eq!(next(vec!["4400", "4600"]), Some(4_400.0), "once more");
        assert_eq!(next(vec!["4400", "4600", "4400"]), None);
    }

    /// One connection is the sweep's only valid cell; from eight on the generator is the limit.
    #[test]
    fn a_capacity_hidden_by_the_generator_is_not_claimed() {
        let stage = StageSample {
            name: "main",
            factors: vec![("connections", vec!["1", "8", "64"])],
            baseline: vec![],
            repeats: 2,
        };
        let figures = |levels: &Levels, _| {
            let connections = number(levels, "connections");
            let per_s = connections.min(4.0) * 10_000.0;
            Figures {
                answers: (per_s * 10.0) as u64,
                service: Nanos((connections / per_s * 1e9) as u64),
                server: 0.4,
                generator: if connections > 4.0 { 0.99 } else { 0.4 },
            }
        };
        let analysis = analyse(&run(&[stage], figures)).unwrap();
        assert!(!analysis.verdict.valid);
        assert_eq!(analysis.verdict.limit, Limit::Generator);
        assert!(
            analysis
                .verdict
                .why
                .starts_with("the capacity was not found"),
            "{}",
            analysis.verdict.why
        );
        let left_out = warning(&analysis, "trials_not_valid");
        assert!(
            left_out.seen.contains("4 of 6 trials are not valid"),
            "{}",
            left_out.seen
        );
    }

    /// Two loads of five trials; at the higher one the generator was the limit in all blocks but `valid`.
    fn survivors(valid: &'static [u32]) -> record::RunRecord {
        let stage = StageSample {
            name: "main",
            factors: vec![("connections", vec!["10", "100"])],
            baseline: vec![("connections", "10")],
            repeats: 5,
        };
        run(&[stage], |levels, block| {
            let more = levels["connections"] == "100";
            Figures {
                answers: if more { 900_000 } else { 500_000 },
                service: Nanos(200_000),
                server: 0.99,
                generator: 0.5,
            }
            .limited(more && !valid.contains(&block))
        })
    }

    /// Once the one trial of five in which the generator had less to do was the best cell and the capacity.
    #[test]
    fn a_survivor_of_five_trials_is_not_the_capacity() {
        let record = survivors(&[2]);
        let analysis = analyse(&record).unwrap();
        let few = cell(&analysis, &[("connections", "100")]);
        let why = few.not_measured.as_deref().unwrap();
        assert!(
            why.starts_with(
                "1 of 5 trials valid, and a figure takes 3: the generator was the limit"
            ),
            "{why}"
        );
        assert_eq!((few.valid.len(), few.used()), (1, [].as_slice()));
        assert_eq!(
            (few.achieved_per_s, few.response_ns_p99, few.rate_ratio),
            (None, None, None)
        );
        assert_eq!(few.no_ratio.as_deref(), Some("not measured"));
        assert!(!few.verdict.as_ref().unwrap().valid);
        assert_eq!(analysis.capacity_per_s, Some(50_000.0));
        assert_eq!((analysis.cells_answered, analysis.cells_planned), (1, 2));
        let verdict = &analysis.verdict;
        assert!(
            verdict
                .why
                .starts_with("answered for 1 of 2 cells: 50,000/s at connections=10: "),
            "{}",
            verdict.why
        );
        assert!(verdict.valid);
        assert_eq!(analysis.fairness[0].comparisons, 0);
        // With one more block it speaks.
        let analysis = analyse(&survivors(&[0, 2, 3])).unwrap();
        assert_eq!(analysis.capacity_per_s, Some(90_000.0));
        assert_eq!((analysis.cells_answered, analysis.cells_planned), (2, 2));
        assert!(
            analysis
                .verdict
                .why
                .starts_with("90,000/s at connections=100")
        );
        let held = crate::compare(
            &survivors(&[0, 1, 2]),
            &record,
            crate::CompareOptions {
                tolerance: 0.01,
                threshold: None,
            },
        );
        assert!(
            held.refused[0]
                .why
                .starts_with("not measured in the second record: 1 of 5 trials valid"),
            "{:?}",
            held.refused
        );
    }

    #[test]
    fn a_run_in_which_no_cell_speaks_is_not_valid() {
        let mut record = survivors(&[2]);
        let few: Vec<u32> = (record.trials.iter())
            .filter(|t| t.levels["connections"] == "10" && t.block > 1)
            .map(|t| t.id)
            .collect();
        for trial in record.trials.iter_mut().filter(|t| few.contains(&t.id)) {
            trial.outcome = Some(nothing());
        }
        let verdict = analyse(&record).unwrap().verdict;
        assert!(!verdict.valid);
        assert!(
            verdict.why.starts_with(
                "answered for none of 2 cells: 3 of 10 trials valid, too few of each cell"
            ),
            "{}",
            verdict.why
        );
    }

    /// The generator's worker takes the whole of another program: the record of [`survivors`] with cores watched and
    /// `foreign` cores in these trials.
    fn disturbed_in(ids: &[u32], foreign: f64) -> record::RunRecord {
        let mut record = survivors(&[0, 1, 2, 3, 4]);
        for trial in &mut record.trials {
            let more = if ids.contains(&trial.id) {
                foreign
            } else {
                0.0
            };
            trial.series.extend(crate::samples::core(0, 0.99, 0.0, 0.0));
            trial
                .series
                .extend(crate::samples::core(1, 0.5 + more, 0.0, 0.0));
        }
        record
    }

    #[test]
    fn a_ratio_takes_three_pairs_that_nobody_disturbed() {
        let ratio = |ids: &[u32], foreign: f64| {
            let analysis = analyse(&disturbed_in(ids, foreign)).unwrap();
            let cell = cell(&analysis, &[("connections", "100")]).clone();
            (cell.rate_ratio.map(|r| r.pairs), cell.no_ratio)
        };
        // Trials 0 and 1 are the first block.
        assert_eq!(ratio(&[], 0.4), (Some(5), None));
        assert_eq!(ratio(&[0, 1, 2], 0.4), (Some(3), None));
        assert_eq!(ratio(&[0, 3, 5, 6], 0.08), (Some(5), None));
        let few = Some("4 of 5 pairs disturbed".to_owned());
        assert_eq!(ratio(&[0, 3, 5, 6], 0.4), (None, few));
        let analysis = analyse(&disturbed_in(&[0, 3], 0.4)).unwrap();
        let seen = &warning(&analysis, "trials_disturbed").seen;
        assert!(
            seen.contains("more than 0.1 core in 2 of 10 trials (trials 0, 3; 0.40 cores at most): none of them"),
            "{seen}"
        );
        assert_eq!(
            crate::disturbed(&analyse(&disturbed_in(&[0, 3], 0.4)).unwrap().trials),
            [0, 3]
        );
    }

    #[test]
    fn what_was_measured_again_stands_in_the_place_of_the_disturbed_trial() {
        let mut record = disturbed_in(&[3], 0.4);
        let mut plan: Plan = serde_json::from_value(record.plan.clone()).unwrap();
        assert_eq!(plan.measure_again(&[3]), 1);
        record.plan = serde_json::to_value(&plan).unwrap();
        let ended = |of: u32, id: u32, block: u32| record::TrialRecord {
            id,
            block,
            ..record.trials.iter().find(|t| t.id == of).unwrap().clone()
        };
        let mut added: Vec<record::TrialRecord> = (plan.again.iter())
            .map(|a| ended(a.of, a.trial, 5))
            .collect();
        for trial in &mut added {
            trial.series.retain(|s| s.signal != "cpu.system_s");
            trial.series.extend(crate::samples::core(1, 0.5, 0.0, 0.0));
        }
        record.trials.extend(added);
        let analysis = analyse(&record).unwrap();
        let of = analysis.trials.iter().find(|t| t.id == 3).unwrap();
        assert!(of.is_disturbed() && of.replaced_by.is_some());
        let levels = of.levels.clone();
        let cell = analysis.cells.iter().find(|c| c.levels == levels).unwrap();
        assert_eq!(cell.replaced, [3]);
        assert_eq!(
            (cell.planned, cell.trials.len(), cell.valid.len()),
            (5, 6, 5)
        );
        assert!(!cell.valid.contains(&3));
        assert!(
            warning(&analysis, "trials_disturbed")
                .seen
                .ends_with("the second measurement stands")
        );
        // Until it is complete, the disturbed one counts.
        record.trials.truncate(10);
        let analysis = analyse(&record).unwrap();
        let cell = analysis.cells.iter().find(|c| c.levels == levels).unwrap();
        assert!(cell.replaced.is_empty() && cell.valid.contains(&3));
    }

    #[test]
    fn trials_that_disagree_leave_the_limit_unknown() {
        let stage = StageSample {
            name: "main",
            factors: vec![],
            baseline: vec![],
            repeats: 5,
        };
        let verdict = |saturated: u32| {
            let stage = StageSample {
                factors: vec![],
                baseline: vec![],
                ..stage
            };
            let figures = move |_: &Levels, block| Figures {
                answers: 10_000,
                service: Nanos::from_millis(10),
                server: if block < saturated { 0.99 } else { 0.5 },
                generator: 0.2,
            };
            analyse(&run(&[stage], figures)).unwrap().cells[0]
                .verdict
                .clone()
                .unwrap()
        };
        assert_eq!(verdict(4).limit, Limit::Server);
        let split = verdict(3);
        assert_eq!((split.valid, split.limit), (true, Limit::Unknown));
        assert!(
            split.why.contains("server in 3, offered_load in 2"),
            "{}",
            split.why
        );
    }

    #[test]
    fn a_run_without_a_valid_trial_is_not_valid() {
        let (stages, figures) = sweep(2);
        let mut record = run(&stages, figures);
        record.manifest.interrupted = true;
        record.trials.truncate(3);
        record.trials[0].state = TrialState::Failed {
            error: "port 8080 is taken".into(),
            remedy: "free it".into(),
        };
        record.trials[0].outcome = None;
        record.trials[1].state = TrialState::Interrupted;
        record.trials[2].outcome = Some(nothing());
        record.trials[2].unavailable = vec![Unavailable {
            what: "tcp".into(),
            reason: "no permission".into(),
            remedy: "run as root".into(),
        }];
        let analysis = analyse(&record).unwrap();
        assert!(!analysis.verdict.valid);
        assert!(
            analysis
                .verdict
                .why
                .contains("none of 3 trials is valid; the first: port 8080 is taken")
        );
        assert_eq!(analysis.capacity_per_s, None);
        assert!(
            warning(&analysis, "trials_not_run")
                .seen
                .contains("17 of 20 planned trials did not run")
        );
        assert_eq!(
            warning(&analysis, "not_watched").seen,
            "tcp could not be watched: no permission"
        );
        // The same of another port is the same gap.
        let of = |port: u16| Unavailable {
            what: format!("listen.queue of 10.0.0.1:{port}"),
            reason: format!("no socket listens on 10.0.0.1:{port}"),
            remedy: "run as root".into(),
        };
        record.trials[2].unavailable = vec![of(80), of(81), of(81)];
        assert_eq!(
            warning(&analyse(&record).unwrap(), "not_watched").seen,
            "listen.queue of 10.0.0.1:80 could not be watched: no socket listens on 10.0.0.1:80 (and 1 more alike)"
        );
        has_only_numbers(&analysis);
        record.trials.clear();
        let empty = analyse(&record).unwrap();
        assert_eq!(empty.verdict.why, "no trial ended");
        assert_eq!(empty.cells.len(), 10);
        has_only_numbers(&empty);
    }

    #[test]
    fn a_trial_states_costs_and_counts() {
        let (stages, figures) = sweep(1);
        let mut record = run(&stages, figures);
        let trial = &mut record.trials[2];
        trial.targets[0].requests_counted = Some(720_000);
        trial.targets[0]
            .requests_by_worker
            .insert("nginx 7".into(), 720_000);
        let outcome = trial.outcome.as_mut().unwrap();
        outcome.intervals = (0..12)
            .map(|s| record::Interval {
                from: Nanos::from_secs(s),
                to: Nanos::from_secs(s + 1),
                succeeded: 60_000,
                ..Default::default()
            })
            .collect();
        let analysis = analyse(&record).unwrap();
        let trial = &analysis.trials[2];
        assert_eq!(trial.achieved_per_s, Some(60_000.0));
        assert_eq!(trial.counted_by_server, Some(1.0));
        let close = |found: Option<f64>, want: f64| (found.unwrap() / want - 1.0).abs() < 1e-3;
        assert!(close(trial.target_cpu_us_per_request, 9.9e6 / 600_000.0));
        assert!(close(trial.generator_cpu_us_per_request, 4e6 / 600_000.0));
        assert!(close(trial.littles_law, 1.0));
        assert!(trial.steady.as_ref().unwrap().steady);
        let worker = trial.usage.iter().find(|u| u.owner == "web").unwrap();
        assert_eq!(
            (worker.name.as_str(), worker.requests),
            ("nginx 7", Some(720_000))
        );
    }

    /// The rate of such a row is of ten seconds less two, its latencies and its CPU are of all ten.
    #[test]
    fn a_row_whose_rate_leaves_out_a_warm_up_says_so() {
        let mut record = survivors(&[0, 1, 2, 3, 4]);
        for trial in record.trials.iter_mut().filter(|t| t.block == 1) {
            let slices = (2..12).map(|s| record::Interval {
                from: Nanos::from_secs(s),
                to: Nanos::from_secs(s + 1),
                succeeded: if s < 4 { 10_000 } else { 60_000 },
                ..Default::default()
            });
            trial.outcome.as_mut().unwrap().intervals = slices.collect();
        }
        let analysis = analyse(&record).unwrap();
        assert_eq!(analysis.cells[0].rate_dropped_s, Some(2.0));
        let said = analysis.fairness[0].said.join("; ");
        assert!(
            said.contains("not in the rates marked *")
                && said.contains("p50, p99 and CPU of those rows are of the whole measured part"),
            "{said}"
        );
        let short = analyse(&survivors(&[0, 1, 2, 3, 4])).unwrap();
        assert_eq!(
            short.cells[0].rate_dropped_s, None,
            "too few slices to tell"
        );
    }

    #[test]
    fn a_plan_of_another_shape_is_refused() {
        let (stages, figures) = sweep(1);
        let mut record = run(&stages, figures);
        record.plan = serde_json::json!({ "stages": 3 });
        let error = analyse(&record).unwrap_err();
        assert!(error.to_string().contains("plan.json"), "{error}");
        assert!(!error.remedy().is_empty());
    }
}
