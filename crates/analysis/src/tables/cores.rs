//! Where the kernel's work falls: the modes of each core, and the packets of each queue of the network devices.

use super::cells::Grid;
use super::trial::Trial;
use super::{Run, Table, TableColumn, TableRow, TableValue};
use crate::stats::{median, share, spread};
use plan::Levels;
use record::Series;
use std::collections::BTreeSet;

/// Modes in the order in which `mpstat` shows them.
const MODES: [&str; 6] = ["user", "system", "softirq", "irq", "steal", "idle"];
/// Signals of a queue, with their heads.
const QUEUE: [(&str, &str); 4] = [
    ("nic.queue_rx_packets", "received/s"),
    ("nic.queue_rx_bytes", "received bytes/s"),
    ("nic.queue_tx_packets", "sent/s"),
    ("nic.queue_tx_bytes", "sent bytes/s"),
];

/// Trials of a row's cell that may give timed figures.
fn valid<'a, 'b>(run: &'b Run<'a>, grid: &Grid<'a>, levels: &Levels) -> Vec<&'b Trial<'a>> {
    let Some(cell) = grid.cell(levels, &Levels::new()) else {
        return Vec::new();
    };
    let is_valid = |t: &&Trial<'_>| cell.used().contains(&t.analysis.id);
    run.trials.iter().filter(is_valid).collect()
}

fn heads(names: impl Iterator<Item = &'static str>) -> Vec<TableColumn> {
    names
        .map(|head| TableColumn {
            head: head.to_owned(),
            ..TableColumn::default()
        })
        .collect()
}

fn with_name(factors: &[String], name: &str) -> Vec<String> {
    let mut names = factors.to_vec();
    names.push(name.to_owned());
    names
}

/// A value for each trial as one of the cell: their median.
fn over(
    trials: &[&Trial<'_>],
    unit: &str,
    value: impl Fn(&Trial<'_>) -> Option<f64>,
) -> TableValue {
    let found: Vec<(u32, f64)> = trials
        .iter()
        .filter_map(|t| Some((t.analysis.id, value(t)?)))
        .collect();
    let values: Vec<f64> = found.iter().map(|(_, v)| *v).collect();
    TableValue {
        value: median(&values),
        unit: unit.to_owned(),
        spread: spread(&values),
        gain: None,
        no_gain: None,
        trials: found.into_iter().map(|(id, _)| id).collect(),
    }
}

/// A row for each core of each cell.
pub(super) fn cores(run: &Run<'_>, grid: &Grid<'_>) -> Table {
    let mut rows = Vec::new();
    for levels in &grid.rows {
        let trials = valid(run, grid, levels);
        let cores: BTreeSet<u32> = trials
            .iter()
            .flat_map(|t| t.cores())
            .map(|(c, _)| c)
            .collect();
        for core in cores {
            let share = |mode: &'static str| {
                over(&trials, "share", |t| {
                    let (_, modes) = t.cores().find(|(c, _)| *c == core)?;
                    modes.get(mode).copied()
                })
            };
            rows.push(TableRow {
                names: with_name(&grid.names(levels), &core.to_string()),
                values: MODES.map(share).into(),
            });
        }
    }
    Table {
        names: with_name(&grid.row_factors, "core"),
        columns: heads(MODES.into_iter()),
        rows,
        ..Table::default()
    }
}

/// A row for each queue of each device of each cell; a note where there is none.
pub(super) fn queues(run: &Run<'_>, grid: &Grid<'_>) -> Table {
    let mut rows = Vec::new();
    let mut seen = 0;
    for levels in &grid.rows {
        let trials = valid(run, grid, levels);
        let names: BTreeSet<(String, u32)> = trials
            .iter()
            .flat_map(|t| {
                QUEUE.map(|(signal, _)| t.series(signal).filter_map(queue).collect::<Vec<_>>())
            })
            .flatten()
            .collect();
        for name in names {
            let rate = |signal: &'static str| {
                over(&trials, "1/s", |t| {
                    let window = t.window()?;
                    let mut of_queue = t
                        .series(signal)
                        .filter(|s| queue(s).as_ref() == Some(&name));
                    let grown = of_queue.next()?.delta(window.from, window.to)?;
                    share(grown, window.seconds())
                })
            };
            let values = QUEUE.map(|(signal, _)| rate(signal));
            seen += 1;
            if values.iter().any(|v| v.value.is_some_and(|n| n > 0.0)) {
                rows.push(TableRow {
                    names: with_name(&grid.names(levels), &format!("{} {}", name.0, name.1)),
                    values: values.into(),
                });
            }
        }
    }
    let note = match (rows.is_empty(), seen) {
        (true, 0) => Some(no_queues(run)),
        (true, _) => Some(
            "no packet went through a queue of a network device: the load stayed within the host"
                .to_owned(),
        ),
        (false, _) => None,
    };
    Table {
        names: with_name(&grid.row_factors, "queue"),
        columns: heads(QUEUE.into_iter().map(|(_, head)| head)),
        rows,
        notes: note.into_iter().collect(),
        ..Table::default()
    }
}

/// Device and number.
fn queue(series: &Series) -> Option<(String, u32)> {
    Some((
        series.label("device")?.to_owned(),
        series.label("queue")?.parse().ok()?,
    ))
}

fn no_queues(run: &Run<'_>) -> String {
    let mut gaps = run.trials.iter().flat_map(|t| &t.record.unavailable);
    match gaps.find(|gap| gap.what.starts_with("nic.queue")) {
        Some(gap) => format!("no queues: {}", gap.reason),
        None => "no queues: no device of this host counts by queue".to_owned(),
    }
}
