//! The tables that an experiment asks for, filled from its record: the last step of the analysis.
//!
//! A table is names on the left, columns, and values that carry their unit, the trials behind them and their gain
//! against the baseline. Every output format shows these. The surprise: counts of a signature pass are taken from any
//! trial that ended, because they do not depend on how fast things went; everything timed only from valid ones.

mod cells;
mod cores;
mod figures;
mod signature;
mod trial;
mod workers;

use crate::cells::Pairs;
use crate::contrast::{self, Family, Sample};
use crate::stats::{median, share, spread};
use crate::words::percent;
use crate::{Cell, Ratio, Spread, TrialAnalysis};
use plan::{Figure, FigureOver, Levels, Over, Plan, Stage, TableKind, TableSpec};
use record::RunRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trial::Trial;

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    pub title: String,
    /// What it holds: `figures`, `calls`, `sizes`, `workers`, `cores`, `queues`.
    pub kind: String,
    /// Stage that it is about.
    pub stage: String,
    /// Heads of the names that stand left of each row's values.
    pub names: Vec<String>,
    pub columns: Vec<TableColumn>,
    /// Rows, each with as many values as there are columns.
    pub rows: Vec<TableRow>,
    /// What a reader must know: how gains are formed, and what could not be seen and why.
    pub notes: Vec<String>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableColumn {
    pub head: String,
    /// What its values are: columns of one group stand side by side. Empty where the rows say it.
    pub group: String,
    /// Levels that it stands for.
    pub levels: Levels,
}

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableRow {
    /// Names, one for each of the table's.
    pub names: Vec<String>,
    /// Values, one for each column.
    pub values: Vec<TableValue>,
}

/// A value and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableValue {
    /// The value; `None` where nothing was measured.
    pub value: Option<f64>,
    /// `1/s`, `ns`, `us`, `bytes`, `bit/s`, `share`, `cores`, or `1`.
    pub unit: String,
    /// Over the trials of the cell; `None` where the value is not one of a cell.
    pub spread: Option<Spread>,
    /// Against the baseline; `None` for the baseline itself and without one.
    pub gain: Option<Gain>,
    /// Why there is no gain although there is a baseline.
    #[serde(default)]
    pub no_gain: Option<String>,
    /// Trials that it was taken from.
    pub trials: Vec<u32>,
}

/// How a value differs from the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Relative change (0.08: 8 % more); for a share the difference of the two shares. Over at least three pairs of
    /// valid trials of one block in which other programs took no CPU; of counts the quotient of the two values.
    pub change: f64,
    /// Lower end of its 95 % interval; `None` of counts, which do not depend on how fast things went.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    pub pairs: u32,
    /// It is what the two values show, as far as they are rounded. Where it is not, the pairs are not all of the trials
    /// behind the values, or their middle is another.
    #[serde(default)]
    pub follows: bool,
}

impl From<Ratio> for Gain {
    fn from(ratio: Ratio) -> Self {
        let interval = ratio.interval();
        Self {
            change: ratio.ratio - 1.0,
            low: interval.map(|(low, _)| low - 1.0),
            high: interval.map(|(_, high)| high - 1.0),
            pairs: ratio.pairs,
            follows: false,
        }
    }
}

impl Gain {
    /// Held against the two values that it stands beside.
    fn beside(self, value: Option<f64>, base: Option<f64>, is_share: bool) -> Self {
        let shown = value
            .zip(base)
            .and_then(|(value, base)| change(value, base, is_share));
        Self {
            follows: shown.is_some_and(|shown| percent(shown) == percent(self.change)),
            ..self
        }
    }
}

/// Everything that a table is filled from.
struct Run<'a> {
    cells: &'a [Cell],
    trials: Vec<Trial<'a>>,
    /// Blocks were repeated until the run was precise.
    sequential: bool,
}

/// The tables of a plan.
pub(crate) fn tables(
    record: &RunRecord,
    plan: &Plan,
    cells: &[Cell],
    trials: &[TrialAnalysis],
) -> Vec<Table> {
    let run = Run {
        cells,
        trials: trial::trials(record, plan, trials),
        sequential: plan.until.is_some(),
    };
    let specs = plan.tables.iter();
    specs
        .flat_map(|spec| {
            let stages = plan.stages.iter().filter(|stage| belongs(spec, stage));
            stages
                .map(|stage| run.table(spec, stage))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The stage is the one that was asked for, or has the factors that the table names.
fn belongs(spec: &TableSpec, stage: &Stage) -> bool {
    let has = |name: &String| stage.factors.iter().any(|f| f.name == *name);
    match &spec.stage {
        Some(name) => stage.name == *name,
        None => spec.rows.iter().chain(&spec.columns).all(has),
    }
}

impl<'a> Run<'a> {
    fn table(&self, spec: &TableSpec, stage: &Stage) -> Table {
        let grid = cells::Grid::of(self, spec, stage);
        let mut table = match spec.kind {
            TableKind::Figures => self.figures(spec, stage, &grid),
            TableKind::Calls => signature::calls(self, spec, &grid),
            TableKind::Sizes => signature::sizes(self, spec, &grid),
            TableKind::Workers => workers::table(self, spec, &grid),
            TableKind::Cores => cores::cores(self, &grid),
            TableKind::Queues => cores::queues(self, &grid),
        };
        table.title.clone_from(&spec.title);
        spec.kind.name().clone_into(&mut table.kind);
        table.stage.clone_from(&stage.name);
        table.notes.extend(grid.not_measured());
        table
    }

    /// The trials of a cell that may give a figure.
    fn of_cell(&self, cell: &Cell, figure: Figure) -> Vec<&Trial<'a>> {
        let ids = if figure.is_timed() {
            cell.used()
        } else {
            &cell.trials
        };
        self.trials
            .iter()
            .filter(|t| ids.contains(&t.analysis.id))
            .collect()
    }

    fn value(&self, cell: &Cell, stage: &Stage, wanted: FigureOver) -> TableValue {
        let figure = wanted.figure;
        let found: Vec<(u32, f64)> = self
            .of_cell(cell, figure)
            .iter()
            .filter_map(|t| Some((t.analysis.id, figures::of(t, figure)?)))
            .collect();
        let values: Vec<f64> = found.iter().map(|(_, v)| *v).collect();
        let value = over(&values, wanted.over);
        let (gain, no_gain) = match wanted.over {
            Over::Median | Over::Mean => self.gain(cell, stage, wanted, value),
            Over::Min | Over::Max => (None, None),
        };
        TableValue {
            value,
            unit: figure.unit().to_owned(),
            spread: spread(&values),
            gain,
            no_gain,
            trials: found.into_iter().map(|(id, _)| id).collect(),
        }
    }

    /// The value against that of the baseline's cell, or why that cannot be said: of what the stage's own table
    /// compares what that says.
    fn gain(
        &self,
        cell: &Cell,
        stage: &Stage,
        wanted: FigureOver,
        value: Option<f64>,
    ) -> (Option<Gain>, Option<String>) {
        let Some(baseline) = crate::cells::baseline(stage, cell, self.cells) else {
            return (None, None);
        };
        let figure = wanted.figure;
        let is_share = figure.unit() == "share";
        let of = |t: &Trial<'_>| figures::of(t, figure);
        let others = self.of_cell(baseline, figure);
        let base: Vec<f64> = others.iter().filter_map(|t| of(t)).collect();
        let base = over(&base, wanted.over);
        if !figure.is_timed() {
            let counted = value
                .zip(base)
                .and_then(|(value, base)| change(value, base, is_share));
            return (counted.map(Gain::of_counts), None);
        }
        let trials: Vec<&TrialAnalysis> = self.trials.iter().map(|t| t.analysis).collect();
        let pairs = Pairs::of(cell, baseline, &trials);
        if let Some(why) = pairs.too_few() {
            return (None, Some(why));
        }
        let found = match figure {
            Figure::Rate => cell.rate_ratio.map(Gain::from),
            Figure::ResponseP99 => cell.p99_ratio.map(Gain::from),
            Figure::ResponseP50 => cell.p50_ratio.map(Gain::from),
            Figure::ServerCpuPerRequest => cell.cpu_ratio.map(Gain::from),
            _ => {
                let of_id = |id: u32| {
                    let mut trials = self.trials.iter();
                    of(trials.find(|t| t.analysis.id == id)?)
                };
                let usable = pairs.usable.iter();
                let values: Vec<(f64, f64)> = usable
                    .filter_map(|(own, base)| Some((of_id(own.id)?, of_id(base.id)?)))
                    .collect();
                let compared = self.cells.iter().filter(|c| {
                    c.stage == stage.name && crate::cells::baseline(stage, c, self.cells).is_some()
                });
                let family = Family {
                    comparisons: compared.count(),
                    sequential: self.sequential,
                };
                gain(&values, is_share, family)
            }
        };
        match (found, value) {
            (Some(gain), _) => (Some(gain.beside(value, base, is_share)), None),
            (None, Some(_)) => (None, Some("no ratio to 0".to_owned())),
            (None, None) => (None, None),
        }
    }

    fn figures(&self, spec: &TableSpec, stage: &Stage, grid: &cells::Grid<'a>) -> Table {
        let mut table = if spec.rows.is_empty() {
            self.figures_down(spec, stage, grid)
        } else {
            self.figures_across(spec, stage, grid)
        };
        let values = || table.rows.iter().flat_map(|row| &row.values);
        let note = gain_note(values().filter_map(|v| v.gain.as_ref()));
        let counted = values()
            .filter_map(|v| v.gain.as_ref())
            .any(|g| g.low.is_none());
        let counted = counted.then(|| {
            "gains of counts are quotients without an interval: counts do not depend on how fast things went"
                .to_owned()
        });
        let absent: Vec<Figure> = spec
            .figures
            .iter()
            .map(|f| f.figure)
            .filter(|f| grid.cells().all(|c| self.nothing(c, *f)))
            .collect();
        table.notes.extend(note);
        table.notes.extend(counted);
        table
            .notes
            .extend(figures::why_absent(&absent, &self.trials));
        table
    }

    fn nothing(&self, cell: &Cell, figure: Figure) -> bool {
        self.of_cell(cell, figure)
            .iter()
            .all(|t| figures::of(t, figure).is_none())
    }

    /// A row for each figure, a column for each combination of levels.
    fn figures_down(&self, spec: &TableSpec, stage: &Stage, grid: &cells::Grid<'a>) -> Table {
        let row = |wanted: &FigureOver| TableRow {
            names: vec![wanted.head()],
            values: grid
                .columns
                .iter()
                .map(|column| match grid.cell(&grid.rows[0], column) {
                    Some(cell) => self.value(cell, stage, *wanted),
                    None => TableValue::nothing(wanted.figure.unit()),
                })
                .collect(),
        };
        let rows = if grid.rows.is_empty() {
            Vec::new()
        } else {
            spec.figures.iter().map(row).collect()
        };
        Table {
            names: vec![String::new()],
            columns: grid
                .columns
                .iter()
                .map(|levels| TableColumn {
                    head: grid.head(levels),
                    group: String::new(),
                    levels: levels.clone(),
                })
                .collect(),
            rows,
            ..Table::default()
        }
    }

    /// A row for each combination of the row factors' levels; the columns are figures by column levels.
    fn figures_across(&self, spec: &TableSpec, stage: &Stage, grid: &cells::Grid<'a>) -> Table {
        let columns = spec
            .figures
            .iter()
            .flat_map(|f| grid.columns.iter().map(move |c| (f, c)));
        let row = |levels: &Levels| TableRow {
            names: grid.names(levels),
            values: columns
                .clone()
                .map(|(wanted, column)| match grid.cell(levels, column) {
                    Some(cell) => self.value(cell, stage, *wanted),
                    None => TableValue::nothing(wanted.figure.unit()),
                })
                .collect(),
        };
        Table {
            names: grid.row_factors.clone(),
            rows: grid.rows.iter().map(row).collect(),
            columns: columns
                .clone()
                .map(|(wanted, levels)| TableColumn {
                    head: match (grid.head(levels), spec.figures.len()) {
                        (head, _) if head.is_empty() => wanted.head(),
                        (head, 1) => head,
                        (head, _) => format!("{} {head}", wanted.head()),
                    },
                    group: wanted.head(),
                    levels: levels.clone(),
                })
                .collect(),
            ..Table::default()
        }
    }
}

impl TableValue {
    fn nothing(unit: &str) -> Self {
        Self {
            unit: unit.to_owned(),
            ..Self::default()
        }
    }

    /// A value of one trial.
    fn one(value: Option<f64>, unit: &str, trial: u32) -> Self {
        Self {
            value,
            unit: unit.to_owned(),
            trials: value.map(|_| trial).into_iter().collect(),
            ..Self::default()
        }
    }
}

impl Gain {
    fn of_counts(change: f64) -> Self {
        Self {
            change,
            low: None,
            high: None,
            pairs: 1,
            follows: true,
        }
    }
}

/// What became of the trials' values.
fn over(values: &[f64], over: Over) -> Option<f64> {
    let spread = spread(values);
    match over {
        Over::Median => median(values),
        Over::Min => spread.map(|s| s.min),
        Over::Mean => mean(values),
        Over::Max => spread.map(|s| s.max),
    }
}

/// The relative change; of shares the difference, because a share that doubled from a thousandth is no news.
fn change(value: f64, base: f64, is_share: bool) -> Option<f64> {
    match is_share {
        true => Some(value - base),
        false => share(value, base).map(|ratio| ratio - 1.0),
    }
}

/// The change over pairs of a value and its baseline's, with its interval.
fn gain(pairs: &[(f64, f64)], is_share: bool, family: Family) -> Option<Gain> {
    if is_share {
        let differences: Vec<f64> = pairs.iter().map(|(value, base)| value - base).collect();
        let (change, interval) = contrast::difference(&differences, family)?;
        return Some(Gain {
            change,
            low: Some(interval.low),
            high: Some(interval.high),
            pairs: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
            follows: false,
        });
    }
    let ratios: Vec<f64> = pairs
        .iter()
        .filter_map(|(value, base)| share(*value, *base))
        .collect();
    let ratio = contrast::ratio(&Sample::pairs(&ratios), family)?;
    ratio.interval().map(|_| Gain::from(ratio))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn gain_note<'a>(gains: impl Iterator<Item = &'a Gain>) -> Option<String> {
    let pairs: Vec<u32> = gains.filter(|g| g.low.is_some()).map(|g| g.pairs).collect();
    let (fewest, most) = (pairs.iter().min()?, pairs.iter().max()?);
    let how_many = match fewest == most {
        true => crate::words::plural(u64::from(*most), "pair"),
        false => format!("{fewest} to {most} pairs"),
    };
    Some(format!(
        "gain: against the baseline with its 95 % interval, over {how_many} of valid trials of one block in which other \
         programs took at most {} core; where that is not the quotient of the two medians, the pairs are named; of shares \
         the difference",
        TrialAnalysis::DISTURBED_CORES
    ))
}

#[cfg(test)]
mod tests;
