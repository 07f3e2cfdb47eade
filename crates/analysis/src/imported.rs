//! Trials that another tool reported: their verdict, and their figures side by side.
//!
//! They go through the same cells as measured ones, so that curves, spreads and ratios are made by one piece of code.
//! What only they have is the table: everything that the tools said, with a gain whose interval is the rounding of
//! the printed numbers. That interval says nothing of noise: one printed run has none to show.

use crate::words::{count, percent};
use crate::{Evidence, Limit, RunAnalysis, Spread, TrialAnalysis, Verdict};
use plan::{Levels, Plan, Stage};
use record::{GainKind, Reported, ReportedFigure, Warning};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A gain over the baseline's figure, as a share: 0.5 is half as much again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedGain {
    /// From the printed values.
    pub value: f64,
    /// Smallest that the rounding of both allows.
    pub low: f64,
    /// Largest that it allows.
    pub high: f64,
    /// How it is computed.
    pub kind: GainKind,
}

/// A figure in a table of what was reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedCell {
    /// Trial that holds it.
    pub trial: u32,
    pub figure: ReportedFigure,
    /// Against the baseline's column; `None` in that column and without one.
    pub gain: Option<ReportedGain>,
}

/// A row: levels and the figure's name, and a cell for each column where the figure was reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedRow {
    /// Levels of the factors that are not the columns', in the table's order; then the figure's name where the table
    /// has several.
    pub head: Vec<String>,
    /// One entry for each column.
    pub cells: Vec<Option<ReportedCell>>,
}

/// What was reported of a stage, levels of one factor side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedTable {
    pub stage: String,
    /// The one figure that it holds; empty for several.
    pub figure: String,
    /// Heads of the columns in front of the cells.
    pub heads: Vec<String>,
    /// Factor of the columns; empty when there is one column.
    pub factor: String,
    /// Its levels, the baseline first where there is one.
    pub columns: Vec<String>,
    /// Tools that reported.
    pub tools: Vec<String>,
    pub rows: Vec<ReportedRow>,
}

/// Factors whose levels are parts of one load: they stand side by side, and none is a gain over another.
const PARTS: [&str; 2] = ["side", "port"];

/// Tables of all stages with imported trials.
pub fn reported_tables(plan: &Plan, analysis: &RunAnalysis) -> Vec<ReportedTable> {
    plan.stages
        .iter()
        .flat_map(|stage| {
            let trials: Vec<&TrialAnalysis> = analysis
                .trials
                .iter()
                .filter(|t| t.stage == stage.name && t.reported.is_some())
                .collect();
            tables(stage, &trials)
        })
        .collect()
}

/// Two records' reports side by side: `a` is the baseline. Cells are matched by stage and levels; records with one
/// imported trial each are compared whatever their levels.
pub fn compare_reported(a: &RunAnalysis, b: &RunAnalysis) -> Vec<ReportedTable> {
    const RECORD: &str = "record";
    let reported = |of: &RunAnalysis, name: &str| -> Vec<TrialAnalysis> {
        let own = of.trials.iter().filter(|t| t.reported.is_some());
        let named = own.map(|t| {
            let mut trial = t.clone();
            trial.levels.insert(RECORD.to_owned(), name.to_owned());
            trial
        });
        named.collect()
    };
    let (mut before, mut after) = (reported(a, "before"), reported(b, "after"));
    if let ([one], [other]) = (before.as_mut_slice(), after.as_mut_slice()) {
        other.stage.clone_from(&one.stage);
        for trial in [one, other] {
            trial.levels.retain(|name, _| name == RECORD);
        }
    }
    let all: Vec<TrialAnalysis> = before.into_iter().chain(after).collect();
    let mut stages: Vec<&str> = Vec::new();
    for trial in &all {
        if !stages.contains(&trial.stage.as_str()) {
            stages.push(&trial.stage);
        }
    }
    let made = stages.into_iter().flat_map(|name| {
        let trials: Vec<&TrialAnalysis> = all.iter().filter(|t| t.stage == name).collect();
        tables(&stage_of(name, RECORD, &trials), &trials)
    });
    // A row that only one of them has compares nothing.
    made.filter_map(|mut table| {
        table
            .rows
            .retain(|row| row.cells.iter().all(Option::is_some));
        (table.columns.len() == 2 && !table.rows.is_empty()).then_some(table)
    })
    .collect()
}

/// The factors of trials in the order in which their levels come.
fn stage_of(name: &str, compared: &str, trials: &[&TrialAnalysis]) -> Stage {
    let mut factors: Vec<plan::Factor> = Vec::new();
    for (factor, level) in trials.iter().flat_map(|t| &t.levels) {
        match factors.iter_mut().find(|f| f.name == *factor) {
            Some(f) if f.levels.contains(level) => {}
            Some(f) => f.levels.push(level.clone()),
            None => factors.push(plan::Factor {
                name: factor.clone(),
                levels: vec![level.clone()],
            }),
        }
    }
    Stage {
        name: name.to_owned(),
        factors,
        baseline: Levels::from([(compared.to_owned(), "before".to_owned())]),
        repeats: 1,
        examine: false,
        search: None,
        metric: None,
    }
}

/// The factor whose levels stand side by side: the baseline's, else one that is called a case.
fn column_factor(stage: &Stage) -> Option<&plan::Factor> {
    let of_baseline = stage.baseline.keys().next();
    stage
        .factors
        .iter()
        .find(|f| Some(&f.name) == of_baseline || (of_baseline.is_none() && f.name == "case"))
        .filter(|f| f.levels.len() > 1)
}

fn tables(stage: &Stage, trials: &[&TrialAnalysis]) -> Vec<ReportedTable> {
    if trials.is_empty() {
        return Vec::new();
    }
    let across = column_factor(stage);
    let columns = across.map_or_else(
        || vec![String::new()],
        |factor| {
            let mut levels = factor.levels.clone();
            if let Some(base) = stage.baseline.get(&factor.name) {
                levels.sort_by_key(|l| l != base);
            }
            levels
        },
    );
    let down: Vec<&plan::Factor> = stage
        .factors
        .iter()
        .filter(|f| across.is_none_or(|a| a.name != f.name) && f.levels.len() > 1)
        .collect();
    let names = figure_names(trials);
    let rows_of = |names: &[&str], with_name: bool| {
        let mut rows = Vec::new();
        for levels in combinations(&down, trials) {
            for name in names {
                let across = across.map(|a| a.name.as_str());
                let compares = stage.baseline.keys().any(|f| !PARTS.contains(&f.as_str()));
                let cells = cells(trials, &levels, (across, &columns), name, compares);
                if cells.iter().any(Option::is_some) {
                    let mut head: Vec<String> = levels.iter().map(|(_, l)| l.clone()).collect();
                    if with_name {
                        head.push((*name).to_owned());
                    }
                    rows.push(ReportedRow { head, cells });
                }
            }
        }
        rows
    };
    let mut tools: Vec<String> = Vec::new();
    let reports = trials.iter().filter_map(|t| t.reported.as_ref());
    for tool in reports.flat_map(|r| r.tool.split(" + ")) {
        if !tools.iter().any(|t| t == tool) {
            tools.push(tool.to_owned());
        }
    }
    let table = |figure: &str, heads: Vec<String>, rows| ReportedTable {
        stage: stage.name.clone(),
        figure: figure.to_owned(),
        heads,
        factor: across.map(|a| a.name.clone()).unwrap_or_default(),
        columns: columns.clone(),
        tools: tools.clone(),
        rows,
    };
    let mut heads: Vec<String> = down.iter().map(|f| f.name.clone()).collect();
    if down.is_empty() {
        heads.push("figure".to_owned());
        return vec![table("", heads, rows_of(&names, true))];
    }
    let made = names
        .iter()
        .map(|name| table(name, heads.clone(), rows_of(&[name], false)));
    made.filter(|t| !t.rows.is_empty()).collect()
}

/// Names of the figures in the order of the reports; what repeats a level is none.
fn figure_names<'a>(trials: &[&'a TrialAnalysis]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for trial in trials {
        let mut last = None;
        for figure in trial.reported.iter().flat_map(|r| &r.figures) {
            let value = figure.value.to_string();
            let is_level = trial.levels.values().any(|level| *level == value)
                && [
                    "connections",
                    "threads",
                    "offered_per_s",
                    "processes",
                    "workers",
                ]
                .contains(&figure.name.as_str());
            let known = names.iter().position(|n| *n == figure.name);
            match known {
                Some(at) => last = Some(at),
                None if is_level => {}
                None => {
                    // Behind the figure that stands before it in its own report.
                    let at = last.map_or(names.len(), |at: usize| at + 1);
                    names.insert(at, &figure.name);
                    last = Some(at);
                }
            }
        }
    }
    names
}

/// A row's factors with their levels.
type RowLevels = Vec<(String, String)>;

/// Levels of the factors that go down, in the order of the plan, as far as trials have them.
fn combinations(down: &[&plan::Factor], trials: &[&TrialAnalysis]) -> Vec<RowLevels> {
    let mut found: Vec<(Vec<usize>, RowLevels)> = Vec::new();
    for trial in trials {
        let level = |f: &&plan::Factor| {
            let level = trial.levels.get(&f.name).cloned().unwrap_or_default();
            (f.name.clone(), level)
        };
        let levels: RowLevels = down.iter().map(level).collect();
        let order = down
            .iter()
            .zip(&levels)
            .map(|(f, (_, l))| f.levels.iter().position(|x| x == l).unwrap_or(usize::MAX));
        let order: Vec<usize> = order.collect();
        if !found.iter().any(|(o, _)| *o == order) {
            found.push((order, levels));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().map(|(_, levels)| levels).collect()
}

fn cells(
    trials: &[&TrialAnalysis],
    levels: &[(String, String)],
    (across, columns): (Option<&str>, &[String]),
    name: &str,
    compares: bool,
) -> Vec<Option<ReportedCell>> {
    let at = |column: &String| {
        let fits = |t: &&&TrialAnalysis| {
            let level = |f: &str| t.levels.get(f).map_or("", String::as_str);
            levels.iter().all(|(f, l)| level(f) == l) && across.is_none_or(|f| level(f) == column)
        };
        trials.iter().filter(fits).find_map(|t| {
            let figure = t.reported.as_ref()?.figure(name)?;
            Some((t.id, figure))
        })
    };
    let base = columns.first().and_then(at).filter(|_| compares);
    columns
        .iter()
        .enumerate()
        .map(|(i, column)| {
            let (trial, figure) = at(column)?;
            let gain = base
                .filter(|_| i > 0)
                .and_then(|(_, base)| gain(base, figure));
            Some(ReportedCell {
                trial,
                figure: figure.clone(),
                gain,
            })
        })
        .collect()
}

/// The gain of a figure over the baseline's, with what rounding leaves open; `None` when it is not a number.
pub fn gain(base: &ReportedFigure, figure: &ReportedFigure) -> Option<ReportedGain> {
    let (over, under) = match figure.gain {
        GainKind::Change => (figure, base),
        GainKind::SpeedUp => (base, figure),
    };
    if base.unit != figure.unit || under.value <= under.rounding {
        return None;
    }
    let ratio = |a: f64, b: f64| a / b - 1.0;
    let found = ReportedGain {
        value: ratio(over.value, under.value),
        low: ratio(over.value - over.rounding, under.value + under.rounding),
        high: ratio(over.value + over.rounding, under.value - under.rounding),
        kind: figure.gain,
    };
    [found.value, found.low, found.high]
        .iter()
        .all(|v| v.is_finite())
        .then_some(found)
}

/// Compared results that were made under another load: a gain between them is not one of what the factor names.
pub(crate) fn differing_loads(plan: &Plan, trials: &[TrialAnalysis]) -> Vec<Warning> {
    const LOADS: [&str; 2] = ["connections", "offered_per_s"];
    let mut found = Vec::new();
    for stage in &plan.stages {
        let Some((factor, base)) = stage.baseline.iter().next() else {
            continue;
        };
        let rest = |t: &TrialAnalysis| {
            let mut levels = t.levels.clone();
            levels.remove(factor);
            levels
        };
        let of_stage = || trials.iter().filter(|t| t.stage == stage.name);
        let differs = of_stage().find_map(|t| {
            let baseline = of_stage().find(|b| b.levels.get(factor) == Some(base) && rest(b) == rest(t))?;
            let (own, its) = (t.reported.as_ref()?, baseline.reported.as_ref()?);
            LOADS.iter().find_map(|name| {
                let (own, its) = (own.value(name)?, its.value(name)?);
                (own != its).then(|| {
                    let level = t.levels.get(factor).map_or("", String::as_str);
                    format!("{factor}={level} was loaded with {name} of {own}, {factor}={base} with {its}")
                })
            })
        });
        found.extend(differs.map(|seen| {
            Warning::new(
                "loads_differ",
                format!("{seen}: a gain between them is not that of {factor} alone"),
                "load both alike",
            )
        }));
    }
    found
}

/// A trial's figures from what was reported.
pub(crate) fn analysis(
    blank: TrialAnalysis,
    reported: &Reported,
    error_limit: f64,
) -> TrialAnalysis {
    let verdict = verdict(reported, error_limit);
    TrialAnalysis {
        offered_per_s: reported.value("offered_per_s"),
        achieved_per_s: reported.value("rate_per_s").filter(|rate| *rate > 0.0),
        error_share: reported.error_share(),
        verdict,
        reported: Some(reported.clone()),
        ..blank
    }
}

/// The median spread of a cell, as wide as the ranges that its reports give.
pub(crate) fn widened<'a>(spread: Spread, reports: impl Iterator<Item = &'a Reported>) -> Spread {
    let ranges = reports.filter_map(|r| r.figure("rate_per_s")?.range);
    ranges.fold(spread, |s, (low, high)| Spread {
        min: s.min.min(low),
        max: s.max.max(high),
        ..s
    })
}

/// A latency that was reported, ns.
pub(crate) fn latency_ns(trial: &TrialAnalysis, which: &str) -> Option<f64> {
    trial
        .reported
        .as_ref()?
        .value(&format!("latency_ns.{which}"))
}

/// May a report's figures be used? Only what it admits itself speaks against it.
fn verdict(reported: &Reported, error_limit: f64) -> Verdict {
    let tool = &reported.tool;
    let lines = match reported.lines {
        (from, to) if from == to => format!("line {from}"),
        (from, to) => format!("lines {from} to {to}"),
    };
    let source = format!("{}, {lines}", reported.file);
    let invalid = |why: String, remedy: &str| Verdict {
        evidence: evidence(reported, &source),
        ..Verdict::invalid(why, remedy)
    };
    let nothing = reported.value("rate_per_s").is_some_and(|rate| rate <= 0.0)
        || reported.value("requests").is_some_and(|n| n <= 0.0);
    if nothing {
        return invalid(
            format!("{tool} reports that no request was answered ({source})"),
            "find out why the server did not respond",
        );
    }
    if let Some(share) = reported.error_share().filter(|share| *share > error_limit) {
        return invalid(
            format!(
                "{} of {} requests failed as {tool} reports ({source}), and its rate and latencies contain them",
                percent(share),
                count(reported.ended().unwrap_or(0.0) as u64)
            ),
            "fix what fails, and load it again",
        );
    }
    let unanswered = ["hey", "oha", "bombardier"].contains(&tool.as_str())
        && reported.value("rate_per_s").is_some()
        && reported.ended().is_none();
    if unanswered {
        return invalid(
            format!(
                "{tool} reports a rate and no status at all: nothing shows that a request was answered"
            ),
            "check the URL that it was given",
        );
    }
    let base = if reported
        .figures
        .iter()
        .any(|f| f.name.starts_with("latency_ns"))
    {
        format!(", latencies {}", reported.latency_base.words())
    } else {
        String::new()
    };
    Verdict {
        valid: true,
        limit: Limit::Unknown,
        evidence: evidence(reported, &source),
        ..Verdict::invalid(
            format!(
                "reported by {tool} and not measured here ({source}){base}; what limited it is not known"
            ),
            "",
        )
    }
}

fn evidence(reported: &Reported, source: &str) -> Vec<Evidence> {
    let told = ["rate_per_s", "requests"];
    let found = told.iter().filter_map(|name| reported.figure(name));
    found
        .map(|f| Evidence::new(&f.name, f.value, &f.unit, None, source))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, value: f64, rounding: f64) -> ReportedFigure {
        ReportedFigure::new(name, "ns", value, rounding)
    }

    #[test]
    fn a_gain_is_as_sharp_as_the_printed_digits() {
        // 964.53ms and 1.11s: the second is rounded to 10 ms.
        let (base, new) = (figure("max", 964.53e6, 5e3), figure("max", 1.11e9, 5e6));
        let found = gain(&base, &new).unwrap();
        assert!((found.value - 0.1508).abs() < 1e-4);
        assert!((0.1455..0.1457).contains(&found.low) && (0.1559..0.1561).contains(&found.high));
        // Whole milliseconds below the rounding give no gain at all.
        assert_eq!(
            gain(&figure("p50", 0.0, 5e5), &figure("p50", 1e6, 5e5)),
            None
        );
        let speed_up = ReportedFigure {
            gain: GainKind::SpeedUp,
            ..figure("l", 2_000.0, 0.5)
        };
        assert_eq!(
            gain(&figure("l", 3_000.0, 0.5), &speed_up).unwrap().value,
            0.5
        );
    }

    #[test]
    fn what_a_tool_admits_makes_its_figures_invalid() {
        let mut wrk = Reported {
            tool: "wrk".into(),
            figures: vec![
                ReportedFigure::new("requests", "1", 24_849.0, 0.0),
                ReportedFigure::new("rate_per_s", "1/s", 24_731.72, 0.005),
            ],
            ..Reported::default()
        };
        assert!(verdict(&wrk, 0.01).valid);
        wrk.figures
            .push(ReportedFigure::new("failed.non_2xx", "1", 24_849.0, 0.0));
        let refused = verdict(&wrk, 0.01);
        assert!(
            !refused.valid && refused.why.contains("100 % of 24,849"),
            "{}",
            refused.why
        );
        let hey = Reported {
            tool: "hey".into(),
            figures: vec![ReportedFigure::new("rate_per_s", "1/s", 91_517.0, 0.5)],
            ..Reported::default()
        };
        assert!(!verdict(&hey, 0.01).valid);
    }
}
