//! From a histogram to the percentiles that every output format shows.

use crate::LatencySummary;
use record::{Histogram, Nanos};

impl LatencySummary {
    /// Summary of a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let at = |q: f64| histogram.quantile(q).map(|Nanos(ns)| ns);
        Some(Self {
            min: histogram.min()?.0,
            mean: histogram.mean_ns()?,
            p50: at(0.5)?,
            p75: at(0.75)?,
            p90: at(0.9)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            p999: at(0.999)?,
            p9999: at(0.9999)?,
            max: histogram.max()?.0,
            stddev: histogram.stddev_ns()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_histogram_has_no_summary() {
        let mut histogram = Histogram::new();
        assert_eq!(LatencySummary::of(&histogram), None);
        histogram.record(Nanos(1_000));
        let one = LatencySummary::of(&histogram).unwrap();
        assert_eq!((one.min, one.p50, one.max), (1_000, 1_000, 1_000));
        assert_eq!(one.stddev, 0.0);
    }
}
