//! CPU by mode beside each level, and how a server's workers share the work: one bar a cell.
//!
//! Both show one trial of the cell, the one in the middle by rate, because medians of single modes would not add up to
//! a whole.

use super::trials::{BUSY_MODES, pointer_token};
use super::{levels_text, paths};
use crate::number::{Number, Source, Unit, trimmed};
use analysis::{Cell, RunAnalysis, TrialAnalysis, Usage};
use record::{RunRecord, TargetRecord, TrialRecord};
use serde::Serialize;

/// CPU by mode of a stage's cells.
#[derive(Debug, Serialize)]
pub struct CpuView {
    cores: Vec<String>,
    /// Cores that were busy and have no column.
    more: usize,
    rows: Vec<CpuRow>,
}

#[derive(Debug, Serialize)]
struct CpuRow {
    index: usize,
    levels: String,
    trial: u32,
    bars: Vec<Option<CpuBar>>,
}

#[derive(Debug, Serialize)]
struct CpuBar {
    busy: Option<Number>,
    modes: Vec<Segment>,
}

/// A part of a bar.
#[derive(Debug, Serialize)]
struct Segment {
    name: String,
    /// Width, per cent of the bar.
    percent: String,
    number: Option<Number>,
}

/// Shares of the workers of a stage's targets.
#[derive(Debug, Serialize)]
pub struct WorkersView {
    rows: Vec<WorkersRow>,
}

#[derive(Debug, Serialize)]
struct WorkersRow {
    index: usize,
    levels: String,
    trial: u32,
    target: String,
    /// `requests` or `CPU time`.
    by: &'static str,
    segments: Vec<Segment>,
    least: Option<Segment>,
    most: Option<Segment>,
}

/// Cores with a column.
const CORES_MAX: usize = 4;

/// The cell's trial in the middle by rate, with its place in the analysis.
fn middle<'a>(cell: &Cell, analysis: &'a RunAnalysis) -> Option<(usize, &'a TrialAnalysis)> {
    let all = analysis.trials.iter().enumerate();
    let mut valid: Vec<(usize, &TrialAnalysis)> =
        all.filter(|(_, t)| cell.used().contains(&t.id)).collect();
    let rate = |t: &TrialAnalysis| t.achieved_per_s.unwrap_or(0.0);
    valid.sort_by(|a, b| rate(a.1).total_cmp(&rate(b.1)));
    valid.get(valid.len().saturating_sub(1) / 2).copied()
}

/// `None` when no core was watched in any trial shown.
pub fn cpu(cells: &[(usize, &Cell)], analysis: &RunAnalysis, source: &Source) -> Option<CpuView> {
    let trials: Vec<(usize, &Cell, (usize, &TrialAnalysis))> = cells
        .iter()
        .filter_map(|(index, cell)| Some((*index, *cell, middle(cell, analysis)?)))
        .collect();
    let mut busy: Vec<(String, f64)> = Vec::new();
    for usage in trials.iter().flat_map(|(_, _, (_, t))| cores_of(t)) {
        match busy.iter_mut().find(|(name, _)| *name == usage.1.name) {
            Some((_, sum)) => *sum += usage.1.utilization,
            None => busy.push((usage.1.name.clone(), usage.1.utilization)),
        }
    }
    busy.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more = busy.len().saturating_sub(CORES_MAX);
    let mut cores: Vec<String> = busy.into_iter().take(CORES_MAX).map(|(n, _)| n).collect();
    cores.sort_by_key(|name| (name.len(), name.clone()));
    let row = |(index, cell, (at, trial)): &(usize, &Cell, (usize, &TrialAnalysis))| CpuRow {
        index: *index,
        levels: levels_text(&cell.levels),
        trial: trial.id,
        bars: cores
            .iter()
            .map(|core| {
                let (n, usage) = cores_of(trial).find(|(_, u)| u.name == *core)?;
                Some(cpu_bar(usage, &format!("/trials/{at}/usage/{n}"), source))
            })
            .collect(),
    };
    let rows = trials.iter().map(row).collect();
    (!cores.is_empty()).then_some(CpuView { cores, more, rows })
}

fn cores_of(trial: &TrialAnalysis) -> impl Iterator<Item = (usize, &Usage)> {
    let all = trial.usage.iter().enumerate();
    all.filter(|(_, u)| u.owner == "host" && u.name.starts_with("core "))
}

fn cpu_bar(usage: &Usage, at: &str, source: &Source) -> CpuBar {
    let mode = |mode: &&str| {
        let share = usage.by_mode.get(*mode).filter(|share| **share > 0.0)?;
        Some(Segment {
            name: (*mode).to_owned(),
            percent: trimmed(100.0 * share),
            number: source.number(&format!("{at}/by_mode/{mode}"), Unit::Share),
        })
    };
    CpuBar {
        busy: source.number(&format!("{at}/utilization"), Unit::Share),
        modes: BUSY_MODES.iter().filter_map(mode).collect(),
    }
}

/// `None` when no target of any trial shown has two workers.
pub fn workers(
    cells: &[(usize, &Cell)],
    record: &RunRecord,
    analysis: &RunAnalysis,
    source: &Source,
) -> Option<WorkersView> {
    let mut rows = Vec::new();
    for (index, cell) in cells {
        let Some((at, trial)) = middle(cell, analysis) else {
            continue;
        };
        let Some(stored) = record.trials.iter().find(|t| t.id == trial.id) else {
            continue;
        };
        for (n, target) in stored.targets.iter().enumerate() {
            let by_requests = by_requests(stored, n, target);
            let (by, parts) = match by_requests.len() {
                0 | 1 => ("CPU time", by_cpu(trial, at, target, source)),
                _ => ("requests", by_requests),
            };
            rows.extend(worker_row((*index, cell), trial.id, target, by, &parts));
        }
    }
    (!rows.is_empty()).then_some(WorkersView { rows })
}

/// A worker with what it did.
struct Worker {
    name: String,
    amount: f64,
    number: Option<Number>,
}

fn by_requests(trial: &TrialRecord, n: usize, target: &TargetRecord) -> Vec<Worker> {
    // Only what is shown is turned into a document: a trial's whole record may be large.
    let own = Source::at(paths::trial(trial.id), format!("/targets/{n}"), target);
    let worker = |(name, count): (&String, &u64)| Worker {
        name: name.clone(),
        amount: *count as f64,
        number: own.number(
            &format!("/requests_by_worker/{}", pointer_token(name)),
            Unit::Count,
        ),
    };
    target.requests_by_worker.iter().map(worker).collect()
}

/// Processes of the target; its threads where it is one process.
fn by_cpu(trial: &TrialAnalysis, at: usize, target: &TargetRecord, source: &Source) -> Vec<Worker> {
    let all = trial.usage.iter().enumerate();
    let own: Vec<(usize, &Usage)> = all.filter(|(_, u)| u.owner == target.name).collect();
    let of = |threads: bool| -> Vec<Worker> {
        own.iter()
            .filter(|(_, u)| is_thread(u) == threads)
            .map(|(n, u)| Worker {
                name: u.name.clone(),
                amount: u.utilization,
                number: source.number(&format!("/trials/{at}/usage/{n}/utilization"), Unit::Share),
            })
            .collect()
    };
    match of(false) {
        processes if processes.len() > 1 => processes,
        _ => of(true),
    }
}

fn is_thread(usage: &Usage) -> bool {
    usage.name.contains('/') || usage.name.contains("thread ")
}

fn worker_row(
    (index, cell): (usize, &Cell),
    trial: u32,
    target: &TargetRecord,
    by: &'static str,
    parts: &[Worker],
) -> Option<WorkersRow> {
    let whole: f64 = parts.iter().map(|w| w.amount).sum();
    if parts.len() < 2 || whole <= 0.0 {
        return None;
    }
    let segment = |worker: &Worker| Segment {
        name: worker.name.clone(),
        percent: trimmed(100.0 * worker.amount / whole),
        number: worker.number.clone(),
    };
    let by_amount = |a: &&Worker, b: &&Worker| a.amount.total_cmp(&b.amount);
    Some(WorkersRow {
        index,
        levels: levels_text(&cell.levels),
        trial,
        target: target.name.clone(),
        by,
        segments: parts.iter().map(segment).collect(),
        least: parts.iter().min_by(by_amount).map(segment),
        most: parts.iter().max_by(by_amount).map(segment),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(name: &str, amount: f64) -> Worker {
        Worker {
            name: name.into(),
            amount,
            number: None,
        }
    }

    #[test]
    fn shares_are_of_all_workers() {
        let cell: Cell = serde_json::from_value(serde_json::json!({
            "stage": "main", "levels": {}, "planned": 1, "trials": [0], "valid": [0],
        }))
        .unwrap();
        let target = TargetRecord::default();
        let row = |parts: &[Worker]| worker_row((0, &cell), 0, &target, "requests", parts);
        let found = row(&[worker("a", 30.0), worker("b", 10.0)]).unwrap();
        let percents: Vec<&str> = found.segments.iter().map(|s| s.percent.as_str()).collect();
        assert_eq!(percents, ["75", "25"]);
        assert_eq!(found.least.unwrap().name, "b");
        assert_eq!(found.most.unwrap().name, "a");
        // One worker shares with nobody, and idle ones share nothing.
        assert!(row(&[worker("a", 30.0)]).is_none());
        assert!(row(&[worker("a", 0.0), worker("b", 0.0)]).is_none());
    }
}
