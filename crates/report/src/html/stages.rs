//! The summary table of each stage: one row for each cell, the median of its valid trials with its spread.

use super::curves::{Curves, load_factor};
use super::gains::{GainsView, gains};
use super::heat::{HeatView, heat};
use super::shares::{CpuView, WorkersView, cpu, workers};
use super::{levels_text, ranges};
use crate::intervals::{WINDOW_WORDS, interval_words, shown};
use crate::number::{Number, Source, Unit};
use crate::text::window_mark;
use analysis::words::plural;
use analysis::{Cell, Levels, Plan, Ratio, RunAnalysis, Spread, Stage};
use record::RunRecord;
use serde::Serialize;
use std::cmp::Ordering;

/// A stage.
#[derive(Debug, Serialize)]
pub struct StageView {
    name: String,
    factors: Vec<String>,
    baseline: String,
    repeats: Option<String>,
    /// Some cell has an offered rate, a ratio: the columns are shown only then.
    offered: bool,
    ratios: bool,
    target_cpu: bool,
    /// What the mark behind a rate says; empty without one.
    windows: &'static str,
    /// What the ratios' intervals are worth; empty without a ratio.
    intervals: String,
    rows: Vec<Row>,
    /// Indexes of the stage's curves in the plot data.
    curves: Vec<CurvesView>,
    gains: Option<GainsView>,
    heat: Vec<HeatView>,
    cpu: Option<CpuView>,
    workers: Option<WorkersView>,
    /// What of these three there is, in words.
    figures: String,
}

#[derive(Debug, Serialize)]
struct CurvesView {
    index: usize,
    axis_words: &'static str,
    lines: usize,
    knee: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    index: usize,
    levels: Vec<String>,
    baseline: bool,
    planned: Option<Number>,
    valid: usize,
    /// Trials that the figures are of.
    used: usize,
    /// The rate is of a shorter window than the other columns.
    mark: &'static str,
    not_measured: Option<String>,
    no_ratio: Option<String>,
    trials: String,
    offered: Option<SpreadView>,
    rate: Option<SpreadView>,
    p50: Option<SpreadView>,
    p99: Option<SpreadView>,
    cpu: Option<SpreadView>,
    rate_ratio: Option<RatioView>,
    p99_ratio: Option<RatioView>,
}

/// Median, smallest and largest, with their places on a bar from 0 to the column's largest value, per cent.
#[derive(Debug, Serialize)]
struct SpreadView {
    median: Option<Number>,
    min: Option<Number>,
    max: Option<Number>,
    bar: Option<Bar>,
}

#[derive(Debug, Serialize)]
struct Bar {
    median: String,
    min: String,
    width: String,
}

#[derive(Debug, Serialize)]
struct RatioView {
    ratio: Option<Number>,
    low: Option<Number>,
    high: Option<Number>,
    pairs: Option<Number>,
    /// What the interval allows to say.
    word: &'static str,
}

/// Stages in the order in which they ran.
pub fn stages(
    record: &RunRecord,
    analysis: &RunAnalysis,
    plan: Option<&Plan>,
    curves: &[Curves],
    source: &Source,
) -> Vec<StageView> {
    let mut names: Vec<&str> = Vec::new();
    for cell in &analysis.cells {
        if !names.contains(&cell.stage.as_str()) {
            names.push(&cell.stage);
        }
    }
    names
        .into_iter()
        .map(|name| stage(name, record, analysis, plan, curves, source))
        .collect()
}

fn stage(
    name: &str,
    record: &RunRecord,
    analysis: &RunAnalysis,
    plan: Option<&Plan>,
    curves: &[Curves],
    source: &Source,
) -> StageView {
    let cells: Vec<(usize, &Cell)> = analysis
        .cells
        .iter()
        .enumerate()
        .filter(|(_, c)| c.stage == name)
        .collect();
    let planned = plan.and_then(|p| p.stages.iter().find(|s| s.name == name));
    let baseline = planned.map(|s| &s.baseline).filter(|b| !b.is_empty());
    let factors = factors(planned, &cells);
    let scale = largest(cells.iter().filter_map(|(_, c)| c.achieved_per_s));
    let some = |has: fn(&Cell) -> bool| cells.iter().any(|(_, c)| has(c));
    let gains = gains(&cells, source);
    let heat = heat(
        &cells,
        &factors,
        planned,
        |f| load_factor(record, &cells, f),
        source,
    );
    let cpu = cpu(&cells, analysis, source);
    let workers = workers(&cells, record, analysis, source);
    let figures: Vec<&str> = [
        (gains.is_some(), "gain against the baseline"),
        (!heat.is_empty(), "levels by level"),
        (cpu.is_some(), "CPU by mode"),
        (workers.is_some(), "how the workers share"),
    ]
    .into_iter()
    .filter_map(|(there, name)| there.then_some(name))
    .collect();
    let mut figures = figures.join(", ");
    if let Some(first) = figures.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    StageView {
        figures,
        name: name.to_owned(),
        baseline: baseline.map(levels_text).unwrap_or_default(),
        repeats: planned.map(|s| plural(u64::from(s.repeats), "repeat")),
        offered: some(|c| c.offered_per_s.is_some()),
        ratios: some(|c| c.rate_ratio.is_some() || c.p99_ratio.is_some() || c.no_ratio.is_some()),
        windows: match some(|c| c.rate_dropped_s > Some(0.0)) {
            true => WINDOW_WORDS,
            false => "",
        },
        target_cpu: some(|c| c.target_cpu_us_per_request.is_some()),
        intervals: interval_words(cells.iter().filter_map(|(_, c)| c.rate_ratio)),
        rows: cells
            .iter()
            .map(|&(i, cell)| Row {
                baseline: baseline.is_some_and(|b| is_within(b, &cell.levels)),
                ..row(i, cell, &factors, scale, source)
            })
            .collect(),
        gains,
        heat,
        cpu,
        workers,
        factors,
        curves: curves_views(name, curves),
    }
}

fn curves_views(stage: &str, curves: &[Curves]) -> Vec<CurvesView> {
    let of_stage = curves.iter().enumerate().filter(|(_, c)| c.stage == stage);
    of_stage
        .map(|(index, c)| CurvesView {
            index,
            axis_words: c.axis.words(),
            lines: c.lines.len(),
            knee: c.lines.iter().any(|l| l.knee_at.is_some()),
        })
        .collect()
}

/// Factors in the order of the file; those that only the cells know, behind them.
fn factors(planned: Option<&Stage>, cells: &[(usize, &Cell)]) -> Vec<String> {
    let planned = planned.iter().flat_map(|s| &s.factors);
    let mut names: Vec<String> = planned.map(|f| f.name.clone()).collect();
    for factor in cells.iter().flat_map(|(_, c)| c.levels.keys()) {
        if !names.contains(factor) {
            names.push(factor.clone());
        }
    }
    names
}

fn is_within(some: &Levels, all: &Levels) -> bool {
    some.iter()
        .all(|(factor, level)| all.get(factor) == Some(level))
}

fn row(index: usize, cell: &Cell, factors: &[String], scale: f64, source: &Source) -> Row {
    let at = |field: &str| format!("/comparisons/{index}/{field}");
    let spread = |field: &str, unit, of: Option<Spread>| {
        of.map(|_| spread_view(source, &at(field), unit, None))
    };
    let ratio = |field: &str, of: Option<Ratio>| of.map(|r| ratio_view(source, &at(field), r));
    let level = |factor: &String| cell.levels.get(factor).cloned().unwrap_or_default();
    Row {
        index,
        levels: factors.iter().map(level).collect(),
        baseline: false,
        planned: source.number(&at("planned"), Unit::Count),
        valid: cell.valid.len(),
        used: cell.used().len(),
        mark: window_mark(cell),
        not_measured: cell.not_measured.clone(),
        no_ratio: cell.no_ratio.clone(),
        trials: ranges(&cell.trials),
        offered: spread("offered_per_s", Unit::PerSecond, cell.offered_per_s),
        rate: cell.achieved_per_s.map(|s| {
            let bar = Some(bar(s, scale));
            spread_view(source, &at("achieved_per_s"), Unit::PerSecond, bar)
        }),
        p50: spread("response_ns_p50", Unit::Nanos, cell.response_ns_p50),
        p99: spread("response_ns_p99", Unit::Nanos, cell.response_ns_p99),
        cpu: spread(
            "target_cpu_us_per_request",
            Unit::Micros,
            cell.target_cpu_us_per_request,
        ),
        rate_ratio: ratio("rate_ratio", cell.rate_ratio),
        p99_ratio: ratio("p99_ratio", cell.p99_ratio),
    }
}

fn spread_view(source: &Source, pointer: &str, unit: Unit, bar: Option<Bar>) -> SpreadView {
    let number = |field: &str| source.number(&format!("{pointer}/{field}"), unit);
    SpreadView {
        median: number("median"),
        min: number("min"),
        max: number("max"),
        bar,
    }
}

fn ratio_view(source: &Source, pointer: &str, ratio: Ratio) -> RatioView {
    let number = |field: &str| source.number(&format!("{pointer}/{field}"), Unit::Ratio);
    RatioView {
        ratio: number("ratio"),
        low: ratio.interval().and_then(|_| number("low")),
        high: ratio.interval().and_then(|_| number("high")),
        pairs: source.number(&format!("{pointer}/pairs"), Unit::Count),
        word: match shown(ratio) {
            Some(Ordering::Greater) => "higher",
            Some(Ordering::Less) => "lower",
            Some(Ordering::Equal) => "no difference shown",
            None => "too few pairs",
        },
    }
}

fn largest(spreads: impl Iterator<Item = Spread>) -> f64 {
    spreads.map(|s| s.max).fold(0.0, f64::max)
}

fn bar(spread: Spread, scale: f64) -> Bar {
    let percent = |value: f64| format!("{:.2}", 100.0 * value / scale.max(f64::MIN_POSITIVE));
    Bar {
        median: percent(spread.median),
        min: percent(spread.min),
        width: percent(spread.max - spread.min),
    }
}
