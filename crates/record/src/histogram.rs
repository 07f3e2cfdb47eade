//! The one histogram: an HDR histogram of nanoseconds from 1 ns to one hour at three significant digits.
//!
//! It wraps the `hdrhistogram` crate so that range and precision are the same everywhere (merging two of
//! them loses nothing) and so that recording never allocates: the range is fixed when it is made.

use crate::Nanos;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

const HIGHEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What a new histogram is a copy of: copying is a tenth of making one.
static EMPTY: LazyLock<hdrhistogram::Histogram<u64>> = LazyLock::new(|| {
    hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds and the precision are constants that the library accepts")
});

/// A histogram of latencies in nanoseconds. About 300 KiB; values above one hour count as one hour.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// Why a stored histogram could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading a stored histogram (HdrHistogram V2 compressed, base64): {0}")]
pub struct HistogramError(String);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self(EMPTY.clone())
    }

    /// Counts one value; never allocates.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.0.saturating_record(value.0);
    }

    /// Counts one value so many times; never allocates.
    pub fn record_n(&mut self, value: Nanos, times: u64) {
        self.0.saturating_record_n(value.0, times);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0
            .add(&other.0)
            .expect("all our histograms have the same range and precision");
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value below which `quantile` (0 to 1) of all values lie; `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| Nanos(self.0.value_at_quantile(quantile)))
    }

    /// Smallest value; `None` when empty.
    pub fn min(&self) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| Nanos(self.0.min()))
    }

    /// Largest value; `None` when empty.
    pub fn max(&self) -> Option<Nanos> {
        (!self.0.is_empty()).then(|| Nanos(self.0.max()))
    }

    /// Mean in nanoseconds; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// Standard deviation in nanoseconds; `None` when empty.
    pub fn stddev_ns(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.stdev())
    }

    /// Points of the percentile plot: `(quantile, value)`, ending at quantile 1 = max; at most
    /// `per_half` points for each halving of the distance to 1. Empty when nothing was recorded.
    pub fn spectrum(&self, per_half: u32) -> Vec<(f64, Nanos)> {
        self.0
            .iter_quantiles(per_half)
            .map(|v| (v.quantile_iterated_to(), Nanos(v.value_iterated_to())))
            .collect()
    }

    /// The same points with the number of values up to each: `(value, quantile, count)`.
    pub fn percentile_rows(&self, per_half: u32) -> Vec<(Nanos, f64, u64)> {
        let mut count = 0;
        self.0
            .iter_quantiles(per_half)
            .map(|v| {
                count += v.count_since_last_iteration();
                let value = Nanos(v.value_iterated_to());
                (value, v.quantile_iterated_to(), count)
            })
            .collect()
    }

    /// Number of buckets, and of the counts in each: what HdrHistogram's text form ends with.
    pub fn shape() -> (u32, u32) {
        // Twice the resolution, so that the lower half of a bucket is as fine as its upper.
        let fine = 2 * 10_u32.pow(u32::from(SIGNIFICANT_DIGITS));
        (u32::from(EMPTY.buckets()), fine.next_power_of_two())
    }

    /// Every value that was recorded, ascending, and how often.
    pub fn recorded(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let all = self.0.iter_recorded();
        all.map(|v| (Nanos(v.value_iterated_to()), v.count_at_value()))
    }

    /// Share of the values that lie between two, both included; `None` when empty.
    pub fn share_between(&self, low: Nanos, high: Nanos) -> Option<f64> {
        let within = self.0.count_between(low.0, high.0);
        (!self.0.is_empty()).then(|| within as f64 / self.0.len() as f64)
    }

    /// `HdrHistogram` V2 compressed, base64: what `wrk2`'s and `HdrHistogram`'s own tools read and merge.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .expect("writing to memory does not fail and the counts fit the format");
        STANDARD.encode(bytes)
    }

    /// The reverse of [`Histogram::to_base64`].
    ///
    /// # Errors
    /// [`HistogramError`] when the text is not base64 or not such a histogram.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|e| HistogramError(e.to_string()))?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| HistogramError(e.to_string()))?;
        // A foreign histogram may have another range; folding it into ours keeps merging total.
        let mut ours = Self::new();
        for v in read.iter_recorded() {
            ours.0
                .saturating_record_n(v.value_iterated_to(), v.count_at_value());
        }
        Ok(ours)
    }
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_base64())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Self::from_base64(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut h = Histogram::new();
        for us in 1..=10_000u64 {
            h.record(Nanos(us * 1_000));
        }
        for (q, want) in [(0.5, 5_000_000.0), (0.99, 9_900_000.0), (1.0, 1e7)] {
            let got = h.quantile(q).unwrap().0 as f64;
            assert!((got / want - 1.0).abs() < 1.1e-3, "{q}: {got}");
        }
        assert!((h.mean_ns().unwrap() / 5_000_500.0 - 1.0).abs() < 1e-3);
    }

    #[test]
    fn empty_has_no_numbers() {
        let h = Histogram::new();
        assert_eq!(
            (h.quantile(0.5), h.min(), h.max(), h.mean_ns()),
            (None, None, None, None)
        );
    }

    #[test]
    fn base64_round_trip_and_merge() {
        let mut a = Histogram::new();
        a.record(Nanos(1_000));
        a.record(Nanos(7_200_000_000_000)); // two hours: counts as one
        let mut b = Histogram::from_base64(&a.to_base64()).unwrap();
        assert_eq!(b.count(), 2);
        assert_eq!(b.max(), a.max());
        b.merge(&a);
        assert_eq!(b.count(), 4);
        assert!(Histogram::from_base64("no").is_err());
    }
}
