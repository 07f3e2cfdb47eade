//! Time series of a trial for the plots: the load in slices, and the CPU by mode of each core.
//!
//! They are thinned to a number of points that shrinks as the trials grow, so that a page of sixty trials
//! stays below a megabyte. Rates become the mean of the slices that a point stands for; latencies, the
//! queue and the generator's utilization keep the largest value, so that no peak is lost.

use analysis::RunAnalysis;
use record::{Interval, LoadOutcome, Nanos, RunRecord, Series, TrialRecord};
use serde::Serialize;
use std::collections::BTreeMap;

/// Most points of a series in a run of few trials.
const POINTS_MAX: usize = 600;
/// Fewest points of a series, however many trials there are.
const POINTS_MIN: usize = 40;
/// Points of one series summed over all trials of the run.
const POINTS_ALL_TRIALS: usize = 2_400;
/// Cores drawn; a page for a host of many cores shows the busiest.
const CORES_MAX: usize = 8;

/// Modes in the order in which they are stacked, each with the signals that it sums up.
pub const MODES: [(&str, &[&str]); 6] = [
    ("user", &["cpu.user_s", "cpu.nice_s"]),
    ("system", &["cpu.system_s"]),
    ("softirq", &["cpu.softirq_s"]),
    ("irq", &["cpu.irq_s"]),
    ("steal", &["cpu.steal_s"]),
    ("iowait", &["cpu.iowait_s"]),
];
const IDLE: &[&str] = &["cpu.idle_s"];

/// One trial's time series; times in s from the start of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialSeries {
    /// Trial's number.
    pub id: u32,
    /// Start and end of the measured part.
    pub measured_s: [f64; 2],
    /// The load; empty lists without intervals.
    pub load: LoadSeries,
    /// CPU by core; empty lists when no core was watched.
    pub cpu: CpuSeries,
}

/// The load over time; all lists as long as `at_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadSeries {
    pub at_s: Vec<f64>,
    /// Successes per second, rounded up.
    pub succeeded_per_s: Vec<u64>,
    /// Failures per second, rounded up: a single one shows.
    pub failed_per_s: Vec<u64>,
    /// Median response time; `None` without a success.
    pub response_ns_p50: Vec<Option<u64>>,
    /// 99th percentile, likewise.
    pub response_ns_p99: Vec<Option<u64>>,
    /// Due requests that waited for a connection.
    pub queued: Vec<u64>,
    /// Busiest load thread's utilization, in thousandths.
    pub generator_permille: Vec<u64>,
}

/// CPU over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CpuSeries {
    /// Middle of the slice between two samples.
    pub at_s: Vec<f64>,
    /// For each core and each of [`MODES`] thousandths of the slice, as long as `at_s`; a mode that the core
    /// was never in is an empty list.
    pub permille: BTreeMap<String, Vec<Vec<u64>>>,
}

/// Points that each series of a trial may have in a run of `trials`.
pub fn points_per_series(trials: usize) -> usize {
    (POINTS_ALL_TRIALS / trials.max(1)).clamp(POINTS_MIN, POINTS_MAX)
}

/// Series of every trial that had a load, of the given cores.
pub fn series(record: &RunRecord, analysis: &RunAnalysis, cores: &[String]) -> Vec<TrialSeries> {
    let points = points_per_series(record.trials.len());
    let loaded = record.trials.iter().filter_map(|trial| {
        let outcome = trial
            .outcome
            .as_ref()
            .filter(|_| !analysis.is_step(trial.id))?;
        Some(trial_series(trial, outcome, cores, points))
    });
    loaded.collect()
}

fn trial_series(
    trial: &TrialRecord,
    outcome: &LoadOutcome,
    cores: &[String],
    points: usize,
) -> TrialSeries {
    let seconds = |at: Nanos| milli(at.since(outcome.started_at).as_secs_f64());
    TrialSeries {
        id: trial.id,
        measured_s: [seconds(outcome.measured_from), seconds(outcome.measured_to)],
        load: load_series(&outcome.intervals, outcome.started_at, points),
        cpu: cpu_series(trial, outcome, cores, points),
    }
}

fn load_series(intervals: &[Interval], started_at: Nanos, points: usize) -> LoadSeries {
    let mut series = LoadSeries::default();
    for slices in intervals.chunks(intervals.len().div_ceil(points).max(1)) {
        let span = slices[slices.len() - 1].to.since(slices[0].from);
        if span == Nanos(0) {
            continue;
        }
        series.push(slices, started_at, span);
    }
    series
}

impl LoadSeries {
    fn push(&mut self, slices: &[Interval], started_at: Nanos, span: Nanos) {
        let from = slices[0].from.since(started_at).as_secs_f64();
        let per_s = |count: fn(&Interval) -> u64| {
            let total: u64 = slices.iter().map(count).sum();
            (total as f64 / span.as_secs_f64()).ceil() as u64
        };
        let largest = |value: fn(&Interval) -> u64| slices.iter().map(value).max().unwrap_or(0);
        let latency = |value: fn(&Interval) -> u64| Some(largest(value)).filter(|&ns| ns > 0);
        self.at_s.push(milli(from + span.as_secs_f64() / 2.0));
        self.succeeded_per_s.push(per_s(|i| i.succeeded));
        self.failed_per_s.push(per_s(|i| i.failed));
        self.response_ns_p50.push(latency(|i| i.response_ns_p50));
        self.response_ns_p99.push(latency(|i| i.response_ns_p99));
        self.queued.push(largest(|i| i.queued));
        self.generator_permille
            .push(largest(|i| u64::from(i.generator_permille)));
    }
}

/// The busiest cores of the run, by number.
pub fn busiest_cores(record: &RunRecord) -> Vec<String> {
    let mut busy_s: BTreeMap<&str, f64> = BTreeMap::new();
    for series in record.trials.iter().flat_map(|t| &t.series) {
        let busy_mode = MODES
            .iter()
            .any(|(_, signals)| signals.contains(&series.signal.as_str()));
        if let (true, Some(core)) = (busy_mode, series.label("core")) {
            let grown =
                series.values.last().unwrap_or(&0.0) - series.values.first().unwrap_or(&0.0);
            *busy_s.entry(core).or_default() += grown;
        }
    }
    let mut cores: Vec<_> = busy_s.into_iter().collect();
    cores.sort_by(|a, b| b.1.total_cmp(&a.1));
    cores.truncate(CORES_MAX);
    let mut names: Vec<String> = cores.into_iter().map(|(core, _)| core.to_owned()).collect();
    names.sort_by_key(|core| (core.parse::<u32>().unwrap_or(u32::MAX), core.clone()));
    names
}

fn cpu_series(
    trial: &TrialRecord,
    outcome: &LoadOutcome,
    cores: &[String],
    points: usize,
) -> CpuSeries {
    let times = sample_times(trial, outcome, points);
    let windows: Vec<(Nanos, Nanos)> = times
        .windows(2)
        .map(|pair| (Nanos(pair[0]), Nanos(pair[1])))
        .collect();
    let middle = |&(from, to): &(Nanos, Nanos)| {
        let middle = Nanos(from.0.midpoint(to.0)).since(outcome.started_at);
        milli(middle.as_secs_f64())
    };
    let of_core = |core: &String| Some((core.clone(), core_permille(trial, core, &windows)?));
    CpuSeries {
        at_s: windows.iter().map(middle).collect(),
        permille: cores.iter().filter_map(of_core).collect(),
    }
}

/// Times of the samples within the load, thinned to at most `points` windows. One monitor reads all cores
/// at once, so any core's times are those of all.
fn sample_times(trial: &TrialRecord, outcome: &LoadOutcome, points: usize) -> Vec<u64> {
    let loaded = outcome.started_at.0..=outcome.measured_to.0;
    let is_clock = |s: &&Series| IDLE.contains(&s.signal.as_str());
    let Some(clock) = trial.series.iter().find(is_clock) else {
        return Vec::new();
    };
    let within: Vec<u64> = clock
        .at_ns
        .iter()
        .copied()
        .filter(|at| loaded.contains(at))
        .collect();
    let step = within.len().div_ceil(points).max(1);
    within.into_iter().step_by(step).collect()
}

/// A core's [`CpuSeries::permille`]; `None` when the core was not watched.
fn core_permille(
    trial: &TrialRecord,
    core: &str,
    windows: &[(Nanos, Nanos)],
) -> Option<Vec<Vec<u64>>> {
    let of_core: Vec<&Series> = trial
        .series
        .iter()
        .filter(|s| s.label("core") == Some(core))
        .collect();
    if of_core.is_empty() {
        return None;
    }
    let mut lists = vec![Vec::new(); MODES.len()];
    for &window in windows {
        let modes = MODES.map(|(_, signals)| spent_s(&of_core, signals, window));
        let all = modes.iter().sum::<f64>() + spent_s(&of_core, IDLE, window);
        for (list, spent) in lists.iter_mut().zip(modes) {
            // Two samples within one tick of the kernel's clock: nothing is known to have been busy.
            let share = if all > 0.0 { spent / all } else { 0.0 };
            list.push((share * 1e3).round() as u64);
        }
    }
    for list in &mut lists {
        if list.iter().all(|permille| *permille == 0) {
            list.clear();
        }
    }
    Some(lists)
}

fn spent_s(of_core: &[&Series], signals: &[&str], (from, to): (Nanos, Nanos)) -> f64 {
    of_core
        .iter()
        .filter(|s| signals.contains(&s.signal.as_str()))
        .filter_map(|s| s.delta(from, to))
        .sum::<f64>()
        .max(0.0)
}

/// Share of the time of these cores that was work, 0 to 1.
pub fn busy(cores: &[&Series], window: (Nanos, Nanos)) -> f64 {
    let work = |(_, signals): &(_, &[&str])| spent_s(cores, signals, window);
    let busy: f64 = MODES.iter().map(work).sum();
    let all = busy + spent_s(cores, IDLE, window);
    if all > 0.0 { busy / all } else { 0.0 }
}

fn milli(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Kind;

    fn intervals(count: u64) -> Vec<Interval> {
        let slice = |i: u64| Interval {
            from: Nanos::from_millis(100 * i),
            to: Nanos::from_millis(100 * (i + 1)),
            succeeded: 10,
            response_ns_p50: 1_000,
            response_ns_p99: if i == 77 { 9_000_000 } else { 2_000 },
            queued: i % 3,
            ..Interval::default()
        };
        (0..count).map(slice).collect()
    }

    #[test]
    fn thinning_keeps_the_mean_rate_and_the_peak() {
        let thin = load_series(&intervals(1_000), Nanos(0), 100);
        assert_eq!(thin.at_s.len(), 100);
        assert!(thin.succeeded_per_s.iter().all(|r| *r == 100));
        let peaks = thin
            .response_ns_p99
            .iter()
            .filter(|v| **v == Some(9_000_000));
        assert_eq!(peaks.count(), 1);
        assert!(thin.queued.iter().all(|q| *q == 2));
        let whole = load_series(&intervals(50), Nanos(0), 100);
        assert_eq!(whole.at_s.len(), 50);
    }

    #[test]
    fn a_slice_without_a_success_has_no_latency() {
        let mut silent = intervals(1);
        silent[0].response_ns_p50 = 0;
        assert_eq!(load_series(&silent, Nanos(0), 9).response_ns_p50, [None]);
    }

    #[test]
    fn points_shrink_with_the_trials() {
        assert_eq!(points_per_series(1), 600);
        assert_eq!(points_per_series(60), 40);
        assert_eq!(points_per_series(10_000), POINTS_MIN);
    }

    #[test]
    fn modes_are_shares_of_all_time() {
        let mut user = Series::new("cpu.user_s", "s", "/proc/stat", Kind::Counter).with("core", 0);
        let mut idle = Series::new("cpu.idle_s", "s", "/proc/stat", Kind::Counter).with("core", 0);
        for s in 0..=2u64 {
            user.push(Nanos::from_secs(s), s as f64 * 0.25);
            idle.push(Nanos::from_secs(s), s as f64 * 0.75);
        }
        let all = [&user, &idle];
        let window = (Nanos(0), Nanos::from_secs(2));
        assert_eq!(spent_s(&all, MODES[0].1, window), 0.5);
        assert_eq!(spent_s(&all, IDLE, window), 1.5);
        assert_eq!(spent_s(&all, MODES[1].1, window), 0.0);
    }
}
