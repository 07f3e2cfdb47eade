//! Rate and latency against load: one set of lines for each stage and kind of load.
//!
//! The surprise: which factor *is* the load is not stored. It is found by the rule that the analysis has for
//! the knee, [`moves_load`]. The levels of all other factors name the line.

use super::levels_text;
use analysis::{Cell, Knee, Levels, RunAnalysis, Spread, moves_load};
use record::{RunRecord, TrialRecord};
use serde::Serialize;

/// What the horizontal axis shows; the names are those of [`Knee::axis`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// Closed loop.
    Connections,
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
}

/// One line; all lists have one entry per load, loads rising. Spreads are the analysis's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// Levels of the other factors.
    pub name: String,
    #[serde(skip)]
    levels: Levels,
    /// Load at the knee.
    pub knee_at: Option<f64>,
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
    asked: f64,
}

impl Loaded<'_> {
    /// Its place on the axis: an open loop's is the rate that was offered.
    fn load(&self) -> f64 {
        self.cell.offered_per_s.map_or(self.asked, |s| s.median)
    }
}

/// The curves of all stages in which the load was varied.
pub fn curves(record: &RunRecord, analysis: &RunAnalysis) -> Vec<Curves> {
    let mut groups: Vec<((&str, Axis), Vec<Loaded>)> = Vec::new();
    for cell in &analysis.cells {
        let Some((axis, asked)) = asked_of(record, cell) else {
            continue;
        };
        let key = (cell.stage.as_str(), axis);
        let loaded = Loaded { cell, asked };
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, cells)) => cells.push(loaded),
            None => groups.push((key, vec![loaded])),
        }
    }
    groups
        .into_iter()
        .filter(|(_, cells)| cells.iter().any(|c| c.asked != cells[0].asked))
        .map(|((stage, axis), cells)| Curves {
            stage: stage.to_owned(),
            axis,
            lines: lines(axis, cells, &analysis.knees),
        })
        .collect()
}

/// The load that was asked of a cell's first trial; `None` when no trial of the cell ended.
fn asked_of(record: &RunRecord, cell: &Cell) -> Option<(Axis, f64)> {
    let trial = trial(record, *cell.trials.first()?)?;
    Some(match trial.load.arrival.offered_per_s() {
        Some(per_s) => (Axis::OfferedPerS, per_s),
        None => (Axis::Connections, f64::from(trial.load.connections)),
    })
}

/// The factor is the load of these cells, by the rule of [`moves_load`].
pub fn load_factor(record: &RunRecord, cells: &[(usize, &Cell)], factor: &str) -> bool {
    let asked = |cell: &Cell| asked_of(record, cell).map(|(_, asked)| asked);
    let all: Vec<(&Levels, f64)> = cells
        .iter()
        .filter_map(|(_, c)| Some((&c.levels, asked(c)?)))
        .collect();
    all.iter()
        .any(|(levels, load)| moves_load(factor, (levels, load), all.iter().copied()))
}

fn trial(record: &RunRecord, id: u32) -> Option<&TrialRecord> {
    record.trials.iter().find(|t| t.id == id)
}

/// Lines in the order of the cells, which is the order of the file; each by rising load.
fn lines(axis: Axis, mut cells: Vec<Loaded>, knees: &[Knee]) -> Vec<Line> {
    let levels: Vec<Levels> = cells.iter().map(|c| fixed_levels(c, &cells)).collect();
    let mut lines: Vec<Line> = Vec::new();
    for (cell, levels) in cells.iter().zip(levels) {
        if lines.iter().all(|l| l.levels != levels) {
            lines.push(Line {
                name: levels_text(&levels),
                knee_at: knee_at(knees, &cell.cell.stage, axis, &levels),
                levels,
                ..Line::default()
            });
        }
    }
    cells.sort_by(|a, b| a.load().total_cmp(&b.load()));
    for cell in &cells {
        for line in lines.iter_mut().filter(|l| l.holds(cell.cell)) {
            line.push(cell);
        }
    }
    lines
}

fn knee_at(knees: &[Knee], stage: &str, axis: Axis, levels: &Levels) -> Option<f64> {
    let of_line = |k: &&Knee| k.stage == stage && k.axis == axis.name() && k.levels == *levels;
    knees.iter().find(of_line).map(|k| k.at)
}

impl Line {
    fn holds(&self, cell: &Cell) -> bool {
        let mut levels = self.levels.iter();
        levels.all(|(factor, level)| cell.levels.get(factor) == Some(level))
    }

    fn push(&mut self, point: &Loaded) {
        self.load.push(point.load());
        self.rate.push(point.cell.achieved_per_s);
        self.p50.push(point.cell.response_ns_p50);
        self.p99.push(point.cell.response_ns_p99);
    }
}

/// Levels of the factors that stay the same along the cell's line.
fn fixed_levels(cell: &Loaded, cells: &[Loaded]) -> Levels {
    let asked = || cells.iter().map(|c| (&c.cell.levels, c.asked));
    let all = cell.cell.levels.iter();
    all.filter(|(factor, _)| !moves_load(factor, (&cell.cell.levels, &cell.asked), asked()))
        .map(|(factor, level)| (factor.clone(), level.clone()))
        .collect()
}
