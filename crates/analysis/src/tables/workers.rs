//! Each worker's share of the work: does the kernel spread the connections evenly?
//!
//! Requests where the server counts them by worker, else CPU time: workers that do the same work for each request
//! spend it in proportion.

use super::cells::Grid;
use super::trial::Trial;
use super::{Run, Table, TableColumn, TableRow, TableValue};
use crate::stats::share;
use plan::{Levels, TableSpec};
use record::Series;
use std::collections::BTreeMap;

/// More workers than this are summed in one last column.
const MOST_WORKERS: usize = 12;

/// Shares of the workers of one trial, largest first; they sum to one.
pub(super) struct Shares {
    pub values: Vec<f64>,
    /// By requests, else by CPU time.
    pub by_requests: bool,
}

impl Shares {
    pub fn of(trial: &Trial<'_>, target: Option<&str>) -> Option<Self> {
        let target = trial.target(target)?;
        let requests: Vec<f64> = target
            .requests_by_worker
            .values()
            .map(|n| *n as f64)
            .collect();
        let by_requests = !requests.is_empty();
        let work = if by_requests {
            requests
        } else {
            cpu_by_worker(trial, &target.name)?
        };
        let total: f64 = work.iter().sum();
        let mut values: Vec<f64> = work.iter().filter_map(|w| share(*w, total)).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        (!values.is_empty()).then_some(Self {
            values,
            by_requests,
        })
    }

    pub fn largest(&self) -> f64 {
        self.values.first().copied().unwrap_or(0.0)
    }
}

/// CPU time of each worker process; of each thread where there are no workers beside the main process.
fn cpu_by_worker(trial: &Trial<'_>, target: &str) -> Option<Vec<f64>> {
    let window = trial.window()?;
    let record = trial.target(Some(target))?;
    let is_worker = |pid: i32| {
        let process = record.processes.iter().find(|p| p.pid == pid);
        process.is_some_and(|p| p.role == "worker")
    };
    let mut by_task: BTreeMap<(i32, i32), f64> = BTreeMap::new();
    let of_target = |s: &&Series| s.label("target") == Some(target);
    for series in trial.series("thread.run_s").filter(of_target) {
        let number = |label: &str| series.label(label)?.parse::<i32>().ok();
        let grown = series.delta(window.from, window.to);
        if let (Some(pid), Some(tid), Some(grown)) = (number("pid"), number("tid"), grown) {
            by_task.insert((pid, tid), grown.max(0.0));
        }
    }
    if by_task.keys().any(|(pid, _)| is_worker(*pid)) {
        let mut by_process: BTreeMap<i32, f64> = BTreeMap::new();
        for ((pid, _), run) in by_task {
            if is_worker(pid) {
                *by_process.entry(pid).or_default() += run;
            }
        }
        return Some(by_process.into_values().collect());
    }
    (!by_task.is_empty()).then(|| by_task.into_values().collect())
}

/// A row for each combination of levels: the shares, largest first.
pub(super) fn table(run: &Run<'_>, spec: &TableSpec, grid: &Grid<'_>) -> Table {
    let target = spec.target.as_deref();
    let shares: Vec<(&Levels, Option<(u32, Shares)>)> = grid
        .rows
        .iter()
        .map(|levels| (levels, of_cell(run, grid, levels, target)))
        .collect();
    let counts = shares
        .iter()
        .filter_map(|(_, s)| Some(s.as_ref()?.1.values.len()));
    let columns = counts.max().unwrap_or(0).min(MOST_WORKERS);
    let by_requests = shares
        .iter()
        .flat_map(|(_, s)| s)
        .all(|(_, s)| s.by_requests);
    let rows = shares
        .iter()
        .map(|(levels, shares)| row(grid.names(levels), shares.as_ref(), columns));
    let basis = match by_requests {
        true => "share of the requests that the server counted, busiest worker first",
        false => {
            "share of the CPU time (the server does not count by worker), busiest worker first"
        }
    };
    Table {
        names: grid.row_factors.clone(),
        columns: std::iter::once("fair".to_owned())
            .chain((1..=columns).map(|n| format!("worker {n}")))
            .map(|head| TableColumn {
                head,
                ..TableColumn::default()
            })
            .collect(),
        rows: rows.collect(),
        notes: vec![basis.to_owned()],
        ..Table::default()
    }
}

/// Of the last valid trial: shares of several trials cannot be averaged worker by worker, because the workers are
/// others in each.
fn of_cell(
    run: &Run<'_>,
    grid: &Grid<'_>,
    levels: &Levels,
    target: Option<&str>,
) -> Option<(u32, Shares)> {
    let cell = grid.cell(levels, &Levels::new())?;
    let ids = match cell.used() {
        [] => cell.trials.as_slice(),
        used => used,
    };
    let mut trials = run.trials.iter().rev();
    let trial = trials.find(|t| ids.contains(&t.analysis.id))?;
    Some((trial.analysis.id, Shares::of(trial, target)?))
}

fn row(names: Vec<String>, shares: Option<&(u32, Shares)>, columns: usize) -> TableRow {
    let Some((id, shares)) = shares else {
        return TableRow {
            names,
            values: vec![TableValue::nothing("share"); columns + 1],
        };
    };
    let fair = 1.0 / shares.values.len() as f64;
    let shown = (0..columns).map(|n| {
        let is_last = n + 1 == columns;
        match is_last && shares.values.len() > columns {
            true => Some(shares.values[n..].iter().sum()),
            false => shares.values.get(n).copied(),
        }
    });
    TableRow {
        names,
        values: std::iter::once(Some(fair))
            .chain(shown)
            .map(|value| TableValue::one(value, "share", *id))
            .collect(),
    }
}
