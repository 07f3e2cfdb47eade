//! The cells of a stage as they stand while it runs: how many trials, the rate, and the interval as it narrows.

use super::run::window_mark;
use super::table::{columns, names};
use analysis::words::{levels, rate};
use analysis::{Cell, Levels, RunAnalysis};
use record::Nanos;

/// Most cells that are shown: a screen is not a report.
const MOST: usize = 16;

/// One line for each cell of `stage`, the one that runs `now` marked. Of many, those around it.
pub fn live_cells(analysis: &RunAnalysis, stage: &str, now: &Levels) -> Vec<String> {
    let cells: Vec<&Cell> = analysis.cells.iter().filter(|c| c.stage == stage).collect();
    let at = cells.iter().position(|c| c.levels == *now).unwrap_or(0);
    let from = at
        .saturating_sub(MOST / 2)
        .min(cells.len().saturating_sub(MOST));
    let shown = &cells[from..cells.len().min(from + MOST)];
    let mut rows = vec![
        [
            "",
            "cell",
            "valid",
            "rate/s",
            "[min..max]",
            "p99",
            "ratio",
            "[interval]",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(shown.iter().map(|cell| row(cell, cell.levels == *now)));
    let mut lines: Vec<String> = columns(&rows, names(2))
        .lines()
        .map(str::to_owned)
        .collect();
    if shown.len() < cells.len() {
        lines.push(format!("  {} of {} cells", shown.len(), cells.len()));
    }
    lines
}

fn row(cell: &Cell, runs: bool) -> Vec<String> {
    let none = || "-".to_owned();
    let achieved = cell.achieved_per_s.as_ref();
    let ratio = cell.rate_ratio.as_ref();
    let interval = ratio.and_then(analysis::Ratio::interval);
    vec![
        if runs { ">" } else { " " }.to_owned(),
        levels(&cell.levels),
        format!("{}/{}", cell.valid.len(), cell.planned),
        achieved.map_or_else(none, |s| format!("{}{}", rate(s.median), window_mark(cell))),
        achieved.map_or_else(none, |s| format!("[{}..{}]", rate(s.min), rate(s.max))),
        cell.response_ns_p99
            .as_ref()
            .map_or_else(none, |s| Nanos(s.median as u64).to_string()),
        ratio.map_or_else(none, |r| format!("{:.3}", r.ratio)),
        interval.map_or_else(none, |(low, high)| format!("[{low:.3}..{high:.3}]")),
    ]
}
