//! System calls by cell: how many a request takes, how large they are, and what part of the CPU time they are.
//!
//! Number and size come from the signature pass, the time from the profile of the timed load: the share of the
//! samples within the call, times the CPU time of a request. The surprise: so it is CPU time, and a call that sleeps
//! costs nothing here; a time taken under probes would hold their cost.

use super::cells::Grid;
use super::trial::Trial;
use super::{Run, Table, TableColumn, TableRow, TableValue};
use crate::stats::share;
use plan::{Levels, TableSpec};
use record::{CallStats, FdClass, Profile, ProfileKind, Stack};
use std::collections::BTreeMap;

/// Rows at most.
const MOST_ROWS: usize = 14;
/// Fewer calls per request than this come from start, end and timers.
const WORTH_SHOWING: f64 = 0.02;

/// What one target did in one trial.
struct Counted<'a> {
    trial: u32,
    calls: &'a [CallStats],
    requests: f64,
    /// CPU time per request by call, microseconds; `None` without a profile or a CPU time.
    cpu_us: Option<BTreeMap<String, f64>>,
}

/// One call over all classes of descriptors.
#[derive(Default)]
struct Sum<'a> {
    calls: u64,
    moved: u64,
    bytes: u64,
    classes: Vec<&'a str>,
}

/// Of each column, from its last trial that was counted.
fn counted<'a>(run: &Run<'a>, spec: &TableSpec, grid: &Grid<'a>) -> Vec<Option<Counted<'a>>> {
    grid.columns
        .iter()
        .map(|levels| {
            let cell = grid.cell(&Levels::new(), levels)?;
            let mut trials = run.trials.iter().rev();
            trials.find_map(|trial| {
                let is_of_cell = cell.trials.contains(&trial.analysis.id);
                is_of_cell.then(|| of_trial(trial, spec.target.as_deref()))?
            })
        })
        .collect()
}

fn of_trial<'a>(trial: &Trial<'a>, target: Option<&str>) -> Option<Counted<'a>> {
    let (signature, requests) = trial.target_signature(target)?;
    Some(Counted {
        trial: trial.analysis.id,
        calls: signature.calls.as_deref()?,
        requests,
        cpu_us: cpu_us_by_call(trial, &signature.target),
    })
}

/// A head for each column with a group, so that numbers, sizes and times stand together.
fn columns(grid: &Grid<'_>, groups: &[&str]) -> Vec<TableColumn> {
    let of_group = |group: &&str| {
        let group = (*group).to_owned();
        grid.columns
            .iter()
            .map(move |levels| (group.clone(), levels.clone()))
            .collect::<Vec<_>>()
    };
    let each = groups.iter().flat_map(of_group);
    each.map(|(group, levels)| TableColumn {
        head: match grid.head(&levels) {
            head if head.is_empty() => group.clone(),
            head => format!("{group} {head}"),
        },
        group,
        levels,
    })
    .collect()
}

/// A row for each call, most frequent first: number, mean size and CPU time, by cell.
pub(super) fn calls(run: &Run<'_>, spec: &TableSpec, grid: &Grid<'_>) -> Table {
    let counted = counted(run, spec, grid);
    let sums: Vec<BTreeMap<&str, Sum<'_>>> = counted
        .iter()
        .map(|c| c.as_ref().map(|c| sums(c.calls)).unwrap_or_default())
        .collect();
    let per_request = |i: usize, call: &str| {
        let counted = counted[i].as_ref()?;
        let calls = sums[i].get(call).map_or(0, |s| s.calls);
        share(calls as f64, counted.requests)
    };
    let most = |call: &str| {
        (0..counted.len())
            .filter_map(|i| per_request(i, call))
            .fold(0.0, f64::max)
    };
    let mut names: Vec<&str> = sums.iter().flat_map(BTreeMap::keys).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|call| most(call) >= WORTH_SHOWING);
    names.sort_by(|a, b| most(b).total_cmp(&most(a)));
    names.truncate(MOST_ROWS);
    let with_time = counted.iter().flatten().any(|c| c.cpu_us.is_some());
    let row = |call: &&str| {
        let number = (0..counted.len()).map(|i| value(&counted[i], per_request(i, call), "1"));
        let size = (0..counted.len()).map(|i| {
            let sum = sums[i].get(call);
            let mean = sum
                .and_then(|s| share(s.bytes as f64, s.moved as f64))
                .filter(|b| *b > 0.0);
            value(&counted[i], mean, "bytes")
        });
        let time = (0..counted.len()).filter(|_| with_time).map(|i| {
            let of_call =
                |c: &Counted<'_>| Some(c.cpu_us.as_ref()?.get(*call).copied().unwrap_or(0.0));
            value(&counted[i], counted[i].as_ref().and_then(of_call), "us")
        });
        TableRow {
            names: vec![(*call).to_owned(), on(&sums, call)],
            values: number.chain(size).chain(time).collect(),
        }
    };
    let groups: &[&str] = match with_time {
        true => &["calls/req", "mean size", "CPU/req"],
        false => &["calls/req", "mean size"],
    };
    let mut notes = vec![
        "number and size are counted in a pass of its own with probes, where nothing is timed"
            .to_owned(),
    ];
    notes.push(match with_time {
        true => "CPU/req: samples within the call in the profile of the timed load, times the CPU time of a request"
            .to_owned(),
        false => "time: not available, the timed load was not profiled".to_owned(),
    });
    if counted.iter().all(Option::is_none) {
        notes = vec![not_counted(run)];
    }
    Table {
        names: vec!["call".to_owned(), "on".to_owned()],
        columns: columns(grid, groups),
        rows: names.iter().map(row).collect(),
        notes,
        ..Table::default()
    }
}

fn not_counted(run: &Run<'_>) -> String {
    let signatures = run
        .trials
        .iter()
        .filter_map(|t| t.record.examination.as_ref()?.signature.as_ref());
    let mut gaps = signatures.flat_map(|s| &s.unavailable);
    match gaps.next() {
        Some(gap) => format!("calls were not counted: {}", gap.reason),
        None => "calls were not counted: no trial was examined".to_owned(),
    }
}

fn value(counted: &Option<Counted<'_>>, value: Option<f64>, unit: &str) -> TableValue {
    match counted {
        Some(counted) => TableValue::one(value, unit, counted.trial),
        None => TableValue::nothing(unit),
    }
}

fn sums(calls: &[CallStats]) -> BTreeMap<&str, Sum<'_>> {
    let mut sums: BTreeMap<&str, Sum<'_>> = BTreeMap::new();
    for call in calls {
        let sum = sums.entry(&call.call).or_default();
        let failed: u64 = call.errors.values().sum();
        sum.calls += call.calls;
        sum.moved += call.calls.saturating_sub(failed + call.zero);
        sum.bytes += call.bytes;
        if call.class != FdClass::None && call.class != FdClass::Unknown {
            sum.classes.push(call.class.name());
        }
    }
    sums
}

/// What the call's descriptors led to, in all columns.
fn on(sums: &[BTreeMap<&str, Sum<'_>>], call: &str) -> String {
    let all = sums
        .iter()
        .filter_map(|s| s.get(call))
        .flat_map(|s| &s.classes);
    let mut classes: Vec<&str> = all.copied().collect();
    classes.sort_unstable();
    classes.dedup();
    classes.join("+")
}

/// A row for each frequent size of each call and class: how often a request has it, by cell.
pub(super) fn sizes(run: &Run<'_>, spec: &TableSpec, grid: &Grid<'_>) -> Table {
    let counted = counted(run, spec, grid);
    let mut found: BTreeMap<(&str, &str, u64), Vec<f64>> = BTreeMap::new();
    for (i, counted) in counted.iter().enumerate() {
        let Some(counted) = counted else { continue };
        for call in counted.calls {
            for (size, calls) in &call.top_sizes {
                let key = (call.call.as_str(), call.class.name(), *size);
                let all = found
                    .entry(key)
                    .or_insert_with(|| vec![0.0; grid.columns.len()]);
                all[i] += share(*calls as f64, counted.requests).unwrap_or(0.0);
            }
        }
    }
    let most = |per_request: &[f64]| per_request.iter().copied().fold(0.0, f64::max);
    let mut rows: Vec<_> = found
        .into_iter()
        .filter(|(_, n)| most(n) >= WORTH_SHOWING)
        .collect();
    rows.sort_by(|(_, a), (_, b)| most(b).total_cmp(&most(a)));
    rows.truncate(MOST_ROWS);
    rows.sort_by(|((call, class, a), _), ((other, other_class, b), _)| {
        (call, class, std::cmp::Reverse(a)).cmp(&(other, other_class, std::cmp::Reverse(b)))
    });
    let row = |((call, class, size), per_request): ((&str, &str, u64), Vec<f64>)| TableRow {
        names: vec![call.to_owned(), class.to_owned(), crate::words::count(size)],
        values: per_request
            .into_iter()
            .enumerate()
            .map(|(i, n)| value(&counted[i], Some(n), "1"))
            .collect(),
    };
    let notes = match counted.iter().all(Option::is_none) {
        true => vec![not_counted(run)],
        false => {
            vec!["calls per request with exactly this size; the most frequent sizes".to_owned()]
        }
    };
    Table {
        names: ["call", "on", "bytes"].map(str::to_owned).into(),
        columns: columns(grid, &["calls/req"]),
        rows: rows.into_iter().map(row).collect(),
        notes,
        ..Table::default()
    }
}

/// CPU time per request within each system call, microseconds.
fn cpu_us_by_call(trial: &Trial<'_>, target: &str) -> Option<BTreeMap<String, f64>> {
    let examination = trial.record.examination.as_ref()?;
    let mut profiles = examination.profiles.iter();
    let profile = profiles.find(|p| p.kind == ProfileKind::OnCpu && p.samples > 0)?;
    let of_target = || profile.stacks.iter().filter(|s| s.target == target);
    let total: u64 = of_target().map(|s| s.weight).sum();
    let per_request = target_cpu_us_per_request(trial, target)?;
    let mut by_call: BTreeMap<String, f64> = BTreeMap::new();
    for stack in of_target() {
        if let Some(call) = call_of(profile, stack) {
            let part = share(stack.weight as f64, total as f64)?;
            *by_call.entry(call).or_default() += part * per_request;
        }
    }
    Some(by_call)
}

fn target_cpu_us_per_request(trial: &Trial<'_>, target: &str) -> Option<f64> {
    let window = trial.window()?;
    let run = trial
        .series("thread.run_s")
        .filter(|s| s.label("target") == Some(target));
    let grown = run.filter_map(|s| s.delta(window.from, window.to));
    let seconds = grown.fold(None, |sum: Option<f64>, g| {
        Some(sum.unwrap_or(0.0) + g.max(0.0))
    })?;
    share(seconds * 1e6, trial.completed()?)
}

/// Names of the functions that serve system calls: `__x64_sys_recvfrom` (arch/x86/include/asm/syscall_wrapper.h), or
/// before Linux 4.17 `sys_recvfrom`.
const ENTRIES: [&str; 4] = ["__x64_sys_", "__arm64_sys_", "__se_sys_", "sys_"];
/// Where the kernel dispatches a system call. An entry that only calls on jumps there, and leaves the next function
/// in its place: `do_writev`.
const DISPATCH: [&str; 3] = ["do_syscall_64", "do_syscall_x64", "invoke_syscall"];
const CALLED: [&str; 4] = ["__do_sys_", "__sys_", "ksys_", "do_"];

/// The system call that a stack is in.
fn call_of(profile: &Profile, stack: &Stack) -> Option<String> {
    let frames = stack
        .frames
        .iter()
        .filter_map(|i| profile.frames.get(*i as usize));
    let kernel: Vec<&str> = frames
        .filter(|f| f.kernel)
        .map(|f| f.symbol.as_str())
        .collect();
    let without = |symbol: &&str, prefixes: &[&str]| {
        let name = prefixes
            .iter()
            .find_map(|prefix| symbol.strip_prefix(prefix))?;
        // `newfstat` and `sendfile64` serve `fstat` and `sendfile`.
        let name = name.strip_prefix("new").unwrap_or(name);
        Some(
            if name == "sendfile64" {
                "sendfile"
            } else {
                name
            }
            .to_owned(),
        )
    };
    let entry = kernel.iter().find_map(|symbol| without(symbol, &ENTRIES));
    entry.or_else(|| {
        let dispatch = kernel.iter().position(|symbol| DISPATCH.contains(symbol))?;
        without(kernel.get(dispatch + 1)?, &CALLED)
    })
}
