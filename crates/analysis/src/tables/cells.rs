//! Which cell stands where: the levels of the rows, those of the columns, and the cells at their crossings.
//!
//! A factor that the table does not name and that varies would put several cells into one place, so it names rows
//! too (columns, where the figures are the rows).

use super::Run;
use crate::Cell;
use crate::words::{count, levels as levels_words};
use plan::{Levels, Stage, TableKind, TableSpec};

pub(super) struct Grid<'a> {
    /// Factors whose levels name the rows.
    pub row_factors: Vec<String>,
    /// Factors whose levels name the columns.
    pub column_factors: Vec<String>,
    /// Levels of each row, in the order of the file; one empty one without row factors.
    pub rows: Vec<Levels>,
    /// Levels of each column, likewise.
    pub columns: Vec<Levels>,
    cells: Vec<&'a Cell>,
}

impl<'a> Grid<'a> {
    pub fn of(run: &Run<'a>, spec: &TableSpec, stage: &Stage) -> Self {
        let kept = |c: &&Cell| c.stage == stage.name && spec.keeps(&c.levels);
        let cells: Vec<&Cell> = run.cells.iter().filter(kept).collect();
        let varies = |factor: &str| {
            let mut levels = cells.iter().map(|c| c.levels.get(factor));
            let first = levels.next();
            levels.any(|level| Some(level) != first)
        };
        let left_over = || {
            let names = stage.factors.iter().map(|f| f.name.clone());
            names.filter(|f| !spec.rows.contains(f) && !spec.columns.contains(f) && varies(f))
        };
        // Where the rows are figures, calls or sizes, everything else stands above.
        let is_down = match spec.kind {
            TableKind::Figures => spec.rows.is_empty(),
            TableKind::Calls | TableKind::Sizes => true,
            TableKind::Workers | TableKind::Cores | TableKind::Queues => false,
        };
        let (mut row_factors, mut column_factors) = (spec.rows.clone(), spec.columns.clone());
        if is_down {
            column_factors.splice(0..0, row_factors.drain(..));
            column_factors.extend(left_over());
        } else {
            row_factors.extend(left_over());
        }
        if matches!(
            spec.kind,
            TableKind::Workers | TableKind::Cores | TableKind::Queues
        ) {
            row_factors.append(&mut column_factors);
        }
        Self {
            rows: distinct(&cells, &row_factors),
            columns: distinct(&cells, &column_factors),
            row_factors,
            column_factors,
            cells,
        }
    }

    pub fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().copied()
    }

    /// The cell with the levels of both.
    pub fn cell(&self, row: &Levels, column: &Levels) -> Option<&'a Cell> {
        let holds = |c: &&&Cell| {
            let mut wanted = row.iter().chain(column);
            wanted.all(|(factor, level)| c.levels.get(factor) == Some(level))
        };
        self.cells.iter().find(holds).copied()
    }

    /// Names of a row.
    pub fn names(&self, levels: &Levels) -> Vec<String> {
        let level = |f: &String| levels.get(f).cloned().unwrap_or_default();
        self.row_factors.iter().map(level).collect()
    }

    /// Head of a column: its levels alone, in the order of the table.
    pub fn head(&self, levels: &Levels) -> String {
        let each = self.column_factors.iter().filter_map(|f| levels.get(f));
        each.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Cells that are not measured, with the first reason.
    pub fn not_measured(&self) -> Option<String> {
        let without = || self.cells.iter().filter(|c| !c.is_measured());
        let first = without().next()?;
        Some(format!(
            "{} of {} cells are not measured, so nothing timed of them; {}: {}",
            without().count(),
            count(self.cells.len() as u64),
            levels_words(&first.levels),
            first.not_measured.as_deref().unwrap_or_default()
        ))
    }
}

fn distinct(cells: &[&Cell], factors: &[String]) -> Vec<Levels> {
    let mut found: Vec<Levels> = Vec::new();
    for cell in cells {
        let levels: Levels = factors
            .iter()
            .filter_map(|f| Some((f.clone(), cell.levels.get(f)?.clone())))
            .collect();
        if !found.contains(&levels) {
            found.push(levels);
        }
    }
    found
}
