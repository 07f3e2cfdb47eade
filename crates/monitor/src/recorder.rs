//! Where the sources put their samples.
//!
//! A source asks once for a series and keeps its [`SeriesId`]; a sample is then one push, without
//! looking up or building a key. What cannot be read is recorded here too, once.

use crate::MonitorError;
use record::{Kind, Nanos, Series, Unavailable};
use std::collections::BTreeMap;

/// One row of the table of signals in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub name: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// File that it is read from.
    pub source: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
}

impl Signal {
    /// A cumulative signal.
    pub const fn counter(name: &'static str, unit: &'static str, source: &'static str) -> Self {
        Self {
            name,
            unit,
            source,
            kind: Kind::Counter,
        }
    }

    /// A level.
    pub const fn gauge(name: &'static str, unit: &'static str, source: &'static str) -> Self {
        Self {
            name,
            unit,
            source,
            kind: Kind::Gauge,
        }
    }
}

/// A series of one [`Recorder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesId(usize);

/// The series and the gaps of one observation.
#[derive(Debug, Default)]
pub struct Recorder {
    series: Vec<Series>,
    unavailable: Vec<Unavailable>,
}

impl Recorder {
    /// A new, empty series.
    pub fn series(&mut self, signal: &Signal, labels: &[(&str, &str)]) -> SeriesId {
        let mut series = Series::new(signal.name, signal.unit, signal.source, signal.kind);
        for (label, value) in labels {
            series
                .labels
                .insert((*label).to_owned(), (*value).to_owned());
        }
        self.series.push(series);
        SeriesId(self.series.len() - 1)
    }

    /// Appends a sample. One that is not later than the last is left out: times of a series rise.
    pub fn push(&mut self, id: SeriesId, at: Nanos, value: f64) {
        let series = &mut self.series[id.0];
        if series.at_ns.last().is_none_or(|&last| last < at.0) {
            series.push(at, value);
        }
    }

    /// Gives a series another value of a label: a thread names itself after it has started.
    pub fn relabel(&mut self, id: SeriesId, label: &str, value: &str) {
        self.series[id.0]
            .labels
            .insert(label.to_owned(), value.to_owned());
    }

    /// Records why `what` cannot be read. Only the first reason for the same thing is kept.
    pub fn unavailable(&mut self, what: &str, error: &MonitorError) {
        if self.unavailable.iter().all(|known| known.what != what) {
            self.unavailable.push(Unavailable {
                what: what.to_owned(),
                reason: error.to_string(),
                remedy: error.remedy().to_owned(),
            });
        }
    }

    /// The value that was read, if any; the failure is recorded as the reason why `what` is unavailable.
    pub fn value_or_gap<T>(
        &mut self,
        what: &str,
        read: Result<Option<T>, linux::Error>,
    ) -> Option<T> {
        read.unwrap_or_else(|error| {
            self.unavailable(what, &error.into());
            None
        })
    }

    /// What was recorded so far.
    pub fn all(&self) -> &[Series] {
        &self.series
    }

    /// Forgets samples of before `at`, but for the last one of each series before it: growth from `at` on stays known.
    /// A series that ended long ago is emptied, and so left out at the end.
    pub fn forget_before(&mut self, at: Nanos) {
        for series in &mut self.series {
            let after = series.at_ns.partition_point(|&t| t < at.0);
            let ended = after == series.at_ns.len();
            let forgotten = if ended {
                after
            } else {
                after.saturating_sub(1)
            };
            series.at_ns.drain(..forgotten);
            series.values.drain(..forgotten);
        }
    }

    /// What was recorded; a series without a sample is left out.
    pub fn finish(self) -> (Vec<Series>, Vec<Unavailable>) {
        let mut series = self.series;
        series.retain(|series| !series.values.is_empty());
        (series, self.unavailable)
    }
}

/// Series of things of one kind (cores, devices), `N` signals each.
#[derive(Debug)]
pub struct Rows<K, const N: usize> {
    signals: [Signal; N],
    ids: BTreeMap<K, [SeriesId; N]>,
}

impl<K: Ord + Clone, const N: usize> Rows<K, N> {
    /// No rows yet.
    pub fn new(signals: [Signal; N]) -> Self {
        Self {
            signals,
            ids: BTreeMap::new(),
        }
    }

    /// Appends one sample to each of the row's signals. `labels` is asked once for each new row.
    pub fn push(
        &mut self,
        key: &K,
        labels: impl FnOnce() -> Vec<(&'static str, String)>,
        at: Nanos,
        values: [f64; N],
        out: &mut Recorder,
    ) {
        let ids = match self.ids.get(key) {
            Some(ids) => *ids,
            None => {
                let ids = new_row(&self.signals, &labels(), out);
                self.ids.insert(key.clone(), ids);
                ids
            }
        };
        for (id, value) in ids.into_iter().zip(values) {
            out.push(id, at, value);
        }
    }
}

fn new_row<const N: usize>(
    signals: &[Signal; N],
    labels: &[(&'static str, String)],
    out: &mut Recorder,
) -> [SeriesId; N] {
    let labels: Vec<(&str, &str)> = labels.iter().map(|(l, v)| (*l, v.as_str())).collect();
    signals.map(|signal| out.series(&signal, &labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNAL: Signal = Signal::counter("x.calls", "calls", "/proc/x");

    #[test]
    fn times_of_a_series_rise() {
        let mut out = Recorder::default();
        let id = out.series(&SIGNAL, &[("core", "0")]);
        for (at, value) in [(1, 10.0), (1, 11.0), (3, 12.0), (2, 13.0)] {
            out.push(id, Nanos(at), value);
        }
        let (series, _) = out.finish();
        assert_eq!(series[0].at_ns, [1, 3]);
        assert_eq!(series[0].values, [10.0, 12.0]);
        assert_eq!(series[0].label("core"), Some("0"));
    }

    #[test]
    fn what_is_forgotten_leaves_growth_from_then_on() {
        let mut out = Recorder::default();
        let (id, ended) = (out.series(&SIGNAL, &[]), out.series(&SIGNAL, &[]));
        for at in 1..=10 {
            out.push(id, Nanos(at), at as f64 * 2.0);
        }
        out.push(ended, Nanos(2), 1.0);
        out.forget_before(Nanos(7));
        out.push(id, Nanos(11), 22.0);
        let (series, _) = out.finish();
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].at_ns, [6, 7, 8, 9, 10, 11]);
        assert_eq!(series[0].delta(Nanos(7), Nanos(11)), Some(8.0));
    }

    #[test]
    fn a_series_without_a_sample_is_left_out() {
        let mut out = Recorder::default();
        out.series(&SIGNAL, &[]);
        assert_eq!(out.finish().0, []);
    }

    #[test]
    fn rows_keep_their_series() {
        let mut out = Recorder::default();
        let mut rows = Rows::new([SIGNAL]);
        for (at, key) in [(1, 0u32), (1, 1), (2, 0), (2, 1)] {
            let labels = || vec![("core", key.to_string())];
            rows.push(&key, labels, Nanos(at), [f64::from(key)], &mut out);
        }
        let (series, _) = out.finish();
        assert_eq!(series.len(), 2);
        assert_eq!(series[1].values, [1.0, 1.0]);
    }
}
