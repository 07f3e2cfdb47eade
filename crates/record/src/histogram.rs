//! The one histogram: an HDR histogram of nanoseconds from 1 ns to one hour at three significant digits.
//!
//! The counts lie as `HdrHistogram` lays them out, and its crate writes and reads the interchange format; range
//! and precision are the same everywhere, so that merging two loses nothing. The surprise: the counts are ours,
//! because they are zero without being written (`calloc`). That crate's are written when they are made: 67 page
//! faults each, two thirds of those of a load of one request. Nothing looks beyond the lowest and highest count.

use crate::Nanos;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

const HIGHEST_NS: u64 = 3_600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Counts of the first bucket, one for each value; of every other the upper half, since its lower half is the bucket
/// before it. Twice the resolution of three digits, so that the lower half is as fine as the upper.
const SUB_BUCKETS: usize = (2 * 10_usize.pow(SIGNIFICANT_DIGITS as u32)).next_power_of_two();
const HALF_BITS: u32 = SUB_BUCKETS.ilog2() - 1;
/// Index of the last count.
const LAST: usize = index_of(HIGHEST_NS) | ((1 << HALF_BITS) - 1);

/// A histogram of latencies in nanoseconds. 264 KiB, of which the kernel hands out what is used; values above one hour
/// count as one hour.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    /// Indices of the lowest and the highest count; crossed when there is none.
    low: usize,
    high: usize,
}

/// Why a stored histogram could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reading a stored histogram (HdrHistogram V2 compressed, base64): {0}")]
pub struct HistogramError(String);

/// Where a value is counted.
#[inline]
const fn index_of(value: u64) -> usize {
    let bucket = (value | (SUB_BUCKETS as u64 - 1)).ilog2() - HALF_BITS;
    ((bucket as usize) << HALF_BITS) + (value >> bucket) as usize
}

/// The values that are counted there.
fn values_at(index: usize) -> RangeInclusive<u64> {
    let bucket = (index >> HALF_BITS).saturating_sub(1);
    let first = ((index - (bucket << HALF_BITS)) as u64) << bucket;
    first..=first + ((1 << bucket) - 1)
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Histogram {
    fn clone(&self) -> Self {
        let mut copy = Self::new();
        copy.merge(self);
        copy
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.total == other.total && self.counted().eq(other.counted())
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            counts: vec![0; LAST + 1].into_boxed_slice(),
            total: 0,
            low: LAST,
            high: 0,
        }
    }

    /// Counts one value; never allocates.
    #[inline]
    pub fn record(&mut self, value: Nanos) {
        self.record_n(value, 1);
    }

    /// Counts one value so many times; never allocates.
    #[inline]
    pub fn record_n(&mut self, value: Nanos, times: u64) {
        if times > 0 {
            self.add(index_of(value.0.min(HIGHEST_NS)), times);
        }
    }

    #[inline]
    fn add(&mut self, index: usize, times: u64) {
        // A stored one may hold any count.
        self.counts[index] = self.counts[index].saturating_add(times);
        self.total = self.total.saturating_add(times);
        self.low = self.low.min(index);
        self.high = self.high.max(index);
    }

    /// Indices and counts of what was recorded, ascending.
    fn counted(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        // Crossed, they leave nothing.
        let used = self.counts.get(self.low..=self.high).unwrap_or_default();
        let each = (self.low..).zip(used.iter().copied());
        each.filter(|&(_, count)| count > 0)
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (index, count) in other.counted() {
            self.add(index, count);
        }
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        if let Some(used) = self.counts.get_mut(self.low..=self.high) {
            used.fill(0);
        }
        (self.total, self.low, self.high) = (0, LAST, 0);
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The value below which `quantile` (0 to 1) of all values lie; `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let wanted = (quantile.min(1.0) * self.total as f64).ceil() as u64;
        let mut rest = wanted.max(1);
        let (index, _) = self.counted().find(|&(_, count)| {
            let found = rest <= count;
            rest = rest.saturating_sub(count);
            found
        })?;
        let (first, last) = values_at(index).into_inner();
        Some(Nanos(if quantile == 0.0 { first } else { last }))
    }

    /// Smallest value; `None` when empty.
    pub fn min(&self) -> Option<Nanos> {
        (self.total > 0).then(|| Nanos(*values_at(self.low).start()))
    }

    /// Largest value; `None` when empty.
    pub fn max(&self) -> Option<Nanos> {
        (self.total > 0).then(|| Nanos(*values_at(self.high).end()))
    }

    /// Counts, with the value in the middle of those that each stands for.
    fn middles(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.counted().map(|(index, count)| {
            let (first, last) = values_at(index).into_inner();
            ((first + (last - first).div_ceil(2)) as f64, count as f64)
        })
    }

    /// Mean in nanoseconds; `None` when empty.
    pub fn mean_ns(&self) -> Option<f64> {
        let total = self.total as f64;
        (self.total > 0).then(|| {
            self.middles()
                .fold(0.0, |sum, (ns, n)| sum + ns * n / total)
        })
    }

    /// Standard deviation in nanoseconds; `None` when empty.
    pub fn stddev_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let squares = (self.middles()).fold(0.0, |sum, (ns, n)| sum + (ns - mean).powi(2) * n);
        Some((squares / self.total as f64).sqrt())
    }

    /// Points of the percentile plot: `(quantile, value)`, ending at quantile 1 = max; at most
    /// `per_half` points for each halving of the distance to 1. Empty when nothing was recorded.
    pub fn spectrum(&self, per_half: u32) -> Vec<(f64, Nanos)> {
        let rows = self.percentile_rows(per_half).into_iter();
        rows.map(|(value, quantile, _)| (quantile, value)).collect()
    }

    /// The same points with the number of values up to each: `(value, quantile, count)`.
    pub fn percentile_rows(&self, per_half: u32) -> Vec<(Nanos, f64, u64)> {
        let mut count = 0;
        self.to_hdr()
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
        ((LAST >> HALF_BITS) as u32, SUB_BUCKETS as u32)
    }

    /// Every value that was recorded, ascending, and how often.
    pub fn recorded(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let all = self.counted();
        all.map(|(index, count)| (Nanos(*values_at(index).end()), count))
    }

    /// Share of the values that lie between two, both included; `None` when empty.
    pub fn share_between(&self, low: Nanos, high: Nanos) -> Option<f64> {
        let range = index_of(low.0.min(HIGHEST_NS))..=index_of(high.0.min(HIGHEST_NS));
        let within = self.counted().filter(|(index, _)| range.contains(index));
        let within: u64 = within.map(|(_, count)| count).sum();
        (self.total > 0).then(|| within as f64 / self.total as f64)
    }

    /// The same in the form of HdrHistogram's own crate.
    fn to_hdr(&self) -> hdrhistogram::Histogram<u64> {
        let mut hdr = hdrhistogram::Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds and the precision are constants that the library accepts");
        for (value, count) in self.recorded() {
            hdr.saturating_record_n(value.0, count);
        }
        hdr
    }

    /// `HdrHistogram` V2 compressed, base64: what `wrk2`'s and `HdrHistogram`'s own tools read and merge.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.to_hdr(), &mut bytes)
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
            ours.record_n(Nanos(v.value_iterated_to()), v.count_at_value());
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

    /// The field's own crate, and ours, of the same values.
    fn both(values: impl Iterator<Item = (u64, u64)>) -> (hdrhistogram::Histogram<u64>, Histogram) {
        let (mut theirs, mut ours) = (Histogram::new().to_hdr(), Histogram::new());
        for (value, times) in values {
            theirs.record_n(value, times).unwrap();
            ours.record_n(Nanos(value), times);
        }
        (theirs, ours)
    }

    #[test]
    fn every_figure_is_the_one_of_the_hdrhistogram_crate() {
        // Of all magnitudes, from a linear congruential generator (Knuth's MMIX).
        let step = |x: &u64| Some(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let random = std::iter::successors(Some(7_u64), step);
        let values = random.map(|x| (((x >> 20) % HIGHEST_NS) >> (x >> 58), 1 + (x >> 17) % 3));
        let edges = [
            0,
            1,
            2047,
            2048,
            2049,
            4095,
            4096,
            HIGHEST_NS - 1,
            HIGHEST_NS,
        ];
        for values in [
            Vec::from_iter(values.take(5_000)),
            Vec::from_iter(edges.map(|ns| (ns, 1))),
            vec![(0, 3)],
            vec![(3_512_345, 1)],
        ] {
            let (theirs, ours) = both(values.iter().copied());
            for i in 0..=1_000 {
                let q = f64::from(i) / 1_000.0;
                let wanted = Nanos(theirs.value_at_quantile(q));
                assert_eq!(ours.quantile(q), Some(wanted), "{q}");
            }
            assert_eq!(ours.min(), Some(Nanos(theirs.min())));
            assert_eq!(ours.max(), Some(Nanos(theirs.max())));
            assert_eq!(ours.mean_ns(), Some(theirs.mean()));
            assert_eq!(ours.stddev_ns(), Some(theirs.stdev()));
            assert_eq!(ours.to_hdr(), theirs);
            let between = theirs.count_between(2_000, 5_000_000) as f64 / theirs.len() as f64;
            let asked = ours.share_between(Nanos(2_000), Nanos(5_000_000));
            assert_eq!(asked, Some(between));
            let each =
                (theirs.iter_recorded()).map(|v| (v.value_iterated_to(), v.count_at_value()));
            assert!(ours.recorded().map(|(ns, n)| (ns.0, n)).eq(each));
        }
        let (theirs, _) = both([].into_iter());
        assert_eq!(theirs.buckets(), Histogram::shape().0 as u8);
        assert_eq!(theirs.distinct_values(), LAST + 1);
    }

    #[test]
    fn counts_that_no_load_has_end_at_the_highest() {
        let mut h = Histogram::new();
        h.record_n(Nanos(700), u64::MAX);
        let other = h.clone();
        h.merge(&other);
        assert_eq!((h.count(), h.quantile(1.0)), (u64::MAX, Some(Nanos(700))));
    }

    #[test]
    fn what_is_cleared_is_as_new() {
        let (_, mut h) = both([(5, 1), (HIGHEST_NS, 2)].into_iter());
        h.clear();
        assert_eq!(h, Histogram::new());
        h.record_n(Nanos(9), 0);
        assert_eq!((h.count(), h.min(), h.max()), (0, None, None));
        h.record(Nanos(700));
        assert_eq!(
            (h.count(), h.min(), h.max()),
            (1, Some(Nanos(700)), Some(Nanos(700)))
        );
        assert_eq!(h.quantile(0.5), Some(Nanos(700)));
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
