//! Samples of a monitor over time, on the run's clock.
//!
//! Counters are stored as read (cumulative), so that a reader can form the difference over any window;
//! [`Series::delta`] and [`Series::rate_per_s`] do that.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the values of a series are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Cumulative: only differences mean something.
    Counter,
    /// A level at a point in time.
    Gauge,
}

/// One signal of one thing, sampled over time. `at_ns` and `values` have the same length; `at_ns` rises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What is measured, for example `cpu.softirq_s`; ARCHITECTURE.md lists the names.
    pub signal: String,
    /// Unit of the values: `s`, `bytes`, `packets`, `calls`, ...
    pub unit: String,
    /// Where it was read, for example `/proc/stat`.
    pub source: String,
    /// Of what, for example `core=0`, or `target=proxy pid=12 name=nginx`.
    pub labels: BTreeMap<String, String>,
    /// Counter or gauge.
    pub kind: Kind,
    /// Times of the samples on the run's clock, ns, rising.
    pub at_ns: Vec<u64>,
    /// The samples.
    pub values: Vec<f64>,
}

impl Series {
    /// An empty series.
    pub fn new(signal: &str, unit: &str, source: &str, kind: Kind) -> Self {
        Self {
            signal: signal.to_owned(),
            unit: unit.to_owned(),
            source: source.to_owned(),
            labels: BTreeMap::new(),
            kind,
            at_ns: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The same with one label more.
    // By value so that a call reads `.with("core", 0)`, without a reference to a literal.
    #[allow(clippy::needless_pass_by_value)]
    #[must_use]
    pub fn with(mut self, label: &str, value: impl ToString) -> Self {
        self.labels.insert(label.to_owned(), value.to_string());
        self
    }

    /// A label's value.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// Appends a sample.
    pub fn push(&mut self, at: Nanos, value: f64) {
        self.at_ns.push(at.0);
        self.values.push(value);
    }

    /// Value at `at`, linearly interpolated between its neighbours; the nearest end outside the range
    /// of the samples. `None` when there is no sample.
    pub fn value_at(&self, at: Nanos) -> Option<f64> {
        let after = self.at_ns.partition_point(|&t| t < at.0);
        if after == 0 {
            return self.values.first().copied();
        }
        if after == self.at_ns.len() {
            return self.values.last().copied();
        }
        let (t0, t1) = (self.at_ns[after - 1] as f64, self.at_ns[after] as f64);
        let (v0, v1) = (self.values[after - 1], self.values[after]);
        if t1 <= t0 {
            return Some(v1);
        }
        Some(v0 + (v1 - v0) * ((at.0 as f64 - t0) / (t1 - t0)))
    }

    /// Growth of a counter between two times; `None` when fewer than two samples exist.
    pub fn delta(&self, from: Nanos, to: Nanos) -> Option<f64> {
        if self.values.len() < 2 {
            return None;
        }
        Some(self.value_at(to)? - self.value_at(from)?)
    }

    /// Growth of a counter per second of the part of the window that the samples cover; `None` when
    /// that part is empty.
    pub fn rate_per_s(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let first = Nanos((*self.at_ns.first()?).max(from.0));
        let last = Nanos((*self.at_ns.last()?).min(to.0));
        let span = last.since(first).as_secs_f64();
        (span > 0.0)
            .then(|| self.delta(first, last).map(|d| d / span))
            .flatten()
    }

    /// Largest sample in the window; `None` when no sample falls into it.
    pub fn max(&self, from: Nanos, to: Nanos) -> Option<f64> {
        self.within(from, to).reduce(f64::max)
    }

    /// Smallest sample in the window; `None` when no sample falls into it.
    pub fn min(&self, from: Nanos, to: Nanos) -> Option<f64> {
        self.within(from, to).reduce(f64::min)
    }

    fn within(&self, from: Nanos, to: Nanos) -> impl Iterator<Item = f64> {
        let all = self.at_ns.iter().zip(&self.values);
        let within = all.filter(move |(t, _)| (from.0..=to.0).contains(t));
        within.map(|(_, v)| *v)
    }
}

/// A monitor, or one of its signals, that could not be read: never shown as zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Unavailable {
    /// The monitor or signal.
    pub what: String,
    /// Why, with the system's own words.
    pub reason: String,
    /// What would make it available; empty when nothing would.
    pub remedy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_over_a_window_between_samples() {
        let mut s = Series::new("x", "calls", "/proc/x", Kind::Counter);
        for t in 0..=10u64 {
            s.push(Nanos::from_secs(t), (t * 100) as f64);
        }
        let (from, to) = (Nanos::from_millis(1_500), Nanos::from_millis(3_500));
        assert_eq!(s.delta(from, to), Some(200.0));
        assert_eq!(s.rate_per_s(from, to), Some(100.0));
        assert_eq!(
            s.rate_per_s(Nanos::from_secs(8), Nanos::from_secs(20)),
            Some(100.0)
        );
        assert_eq!(s.max(from, to), Some(300.0));
    }

    #[test]
    fn nothing_is_not_zero() {
        let s = Series::new("x", "calls", "/proc/x", Kind::Counter);
        assert_eq!(s.delta(Nanos(0), Nanos(9)), None);
        assert_eq!(s.rate_per_s(Nanos(0), Nanos(9)), None);
    }
}
