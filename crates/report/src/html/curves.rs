//! Rate and latency against load: one set of lines for each stage and kind of load.
//!
//! The surprise: which factor *is* the load is not stored. It is found: the factor whose level alone
//! decides the number of connections (closed loop) or the offered rate (open loop). The other factors
//! make the lines.

use analysis::{Cell, Knee, RunAnalysis, Spread};
use record::{RunRecord, TrialRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the horizontal axis shows; the names are those of [`Knee::axis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Closed loop.
    Connections,
    /// Open loop.
    OfferedPerS,
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Axis::Connections => "connections",
            Axis::OfferedPerS => "offered_per_s",
        }
    }

    /// In words, for captions.
    pub fn words(self) -> &'static str {
        match self {
            Axis::Connections => "connections",
            Axis::OfferedPerS => "offered load",
        }
    }

    /// Names by which the factor of this axis usually goes.
    fn usual_factors(self) -> &'static [&'static str] {
        match self {
            Axis::Connections => &["connections", "clients"],
            Axis::OfferedPerS => &["rate", "offered_per_s", "rate_of_capacity"],
        }
    }
}

/// The two plots of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// Stage's name.
    pub stage: String,
    /// Horizontal axis.
    pub axis: Axis,
    /// One line for each combination of the other factors.
    pub lines: Vec<Line>,
    /// Load at the knee.
    pub knee_at: Option<f64>,
}

/// One line; all lists have one entry per load, loads rising. Spreads are the analysis's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Levels of the other factors.
    pub name: String,
    /// Connections, or offered rate per second.
    pub load: Vec<f64>,
    /// Successes per second.
    pub rate: Vec<Option<Spread>>,
    /// Median response time, ns.
    pub p50: Vec<Option<Spread>>,
    /// 99th percentile of the response time, ns.
    pub p99: Vec<Option<Spread>>,
}

/// A cell with the load that was asked of it.
struct Loaded<'a> {
    cell: &'a Cell,
    load: f64,
}

/// The curves of all stages in which the load was varied.
pub fn curves(record: &RunRecord, analysis: &RunAnalysis) -> Vec<Curves> {
    let mut groups: Vec<((&str, Axis), Vec<Loaded>)> = Vec::new();
    for cell in &analysis.cells {
        let Some((axis, load)) = load_of(record, cell) else {
            continue;
        };
        let key = (cell.stage.as_str(), axis);
        let loaded = Loaded { cell, load };
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, cells)) => cells.push(loaded),
            None => groups.push((key, vec![loaded])),
        }
    }
    groups
        .into_iter()
        .filter(|(_, cells)| distinct(cells.iter().map(|c| c.load)) > 1)
        .map(|((stage, axis), cells)| Curves {
            stage: stage.to_owned(),
            axis,
            lines: lines(axis, cells),
            knee_at: knee_at(&analysis.knees, stage, axis),
        })
        .collect()
}

/// The load that was asked of a cell's first trial; `None` when no trial of the cell ended.
fn load_of(record: &RunRecord, cell: &Cell) -> Option<(Axis, f64)> {
    let trial = trial(record, *cell.trials.first()?)?;
    Some(match trial.load.arrival.offered_per_s() {
        Some(per_s) => (Axis::OfferedPerS, per_s),
        None => (Axis::Connections, f64::from(trial.load.connections)),
    })
}

fn trial(record: &RunRecord, id: u32) -> Option<&TrialRecord> {
    record.trials.iter().find(|t| t.id == id)
}

fn knee_at(knees: &[Knee], stage: &str, axis: Axis) -> Option<f64> {
    knees
        .iter()
        .find(|k| k.stage == stage && k.axis == axis.name())
        .map(|k| k.at)
}

fn distinct(loads: impl Iterator<Item = f64>) -> usize {
    loads.map(f64::to_bits).collect::<BTreeSet<_>>().len()
}

fn lines(axis: Axis, mut cells: Vec<Loaded>) -> Vec<Line> {
    let load_factor = load_factor(axis, &cells);
    // Names in the order of the cells, which is the order of the file; then each line by rising load.
    let mut lines: Vec<Line> = Vec::new();
    for cell in &cells {
        let name = line_name(cell.cell, load_factor.as_deref());
        if lines.iter().all(|l| l.name != name) {
            lines.push(Line {
                name,
                ..Line::default()
            });
        }
    }
    cells.sort_by(|a, b| a.load.total_cmp(&b.load));
    for cell in cells {
        let name = line_name(cell.cell, load_factor.as_deref());
        for line in lines.iter_mut().filter(|l| l.name == name) {
            line.push(&cell);
        }
    }
    lines
}

impl Line {
    fn push(&mut self, point: &Loaded) {
        self.load.push(point.load);
        self.rate.push(point.cell.achieved_per_s);
        self.p50.push(point.cell.response_ns_p50);
        self.p99.push(point.cell.response_ns_p99);
    }
}

fn line_name(cell: &Cell, load_factor: Option<&str>) -> String {
    let others = cell
        .levels
        .iter()
        .filter(|(factor, _)| Some(factor.as_str()) != load_factor)
        .map(|(factor, level)| format!("{factor}={level}"));
    others.collect::<Vec<_>>().join(", ")
}

/// The factor whose level alone decides the load, the usual names first.
fn load_factor(axis: Axis, cells: &[Loaded]) -> Option<String> {
    let mut factors: Vec<&String> = cells.first()?.cell.levels.keys().collect();
    factors.sort_by_key(|f| !axis.usual_factors().contains(&f.as_str()));
    factors
        .into_iter()
        .find(|factor| {
            axis.usual_factors().contains(&factor.as_str()) || decides_load(factor, cells)
        })
        .cloned()
}

fn decides_load(factor: &str, cells: &[Loaded]) -> bool {
    let mut load_by_level: BTreeMap<&str, f64> = BTreeMap::new();
    let one_load_per_level = cells.iter().all(|c| {
        let Some(level) = c.cell.levels.get(factor) else {
            return false;
        };
        *load_by_level.entry(level).or_insert(c.load) == c.load
    });
    one_load_per_level && distinct(load_by_level.values().copied()) == load_by_level.len()
}
