//! What the way through a published port costs: loads over it and straight to the container, in turn.
//!
//! Both ways were loaded in pairs, so the ratio is that of a block's levels (`contrast`). The surprise: a load whose
//! generator was full is as fast either way, and says nothing about the way.

use crate::contrast::{Family, Sample, ratio};
use crate::stats::median;
use crate::types::Ratio;
use record::{DirectPath, PathFigures, PathPair};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The published port against the direct path: values of the former divided by those of the latter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedPath {
    /// Median rate over the published port, 1/s.
    pub rate_per_s: f64,
    /// Median rate over the direct path, 1/s.
    pub direct_rate_per_s: f64,
    pub rate: Ratio,
    /// Of the median response times.
    pub response_p50: Ratio,
}

/// The contrast; `None` where no pair has figures.
pub fn published_path(path: &DirectPath) -> Option<PublishedPath> {
    let ratios = |of: fn(&PathFigures) -> f64| {
        let pairs = path.pairs.iter();
        let ratios: Vec<f64> = pairs.map(|p| of(&p.published) / of(&p.direct)).collect();
        ratio(&Sample::pairs(&ratios), Family::ONE)
    };
    let rates = |of: fn(&PathPair) -> PathFigures| {
        let rates: Vec<f64> = path.pairs.iter().map(|p| of(p).rate_per_s).collect();
        median(&rates)
    };
    Some(PublishedPath {
        rate_per_s: rates(|p| p.published)?,
        direct_rate_per_s: rates(|p| p.direct)?,
        rate: ratios(|f| f.rate_per_s)?,
        response_p50: ratios(|f| f.response_ns_p50 as f64)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pairs: &[(f64, f64)]) -> DirectPath {
        let figures = |rate_per_s: f64| PathFigures {
            rate_per_s,
            response_ns_p50: (1e9 / rate_per_s) as u64,
        };
        DirectPath {
            pairs: (pairs.iter())
                .map(|(published, direct)| PathPair {
                    published: figures(*published),
                    direct: figures(*direct),
                })
                .collect(),
            ..DirectPath::default()
        }
    }

    #[test]
    fn a_forwarder_that_halves_the_rate_is_seen_and_an_equal_way_is_not() {
        let halved = path(&[
            (500.0, 1000.0),
            (510.0, 1010.0),
            (480.0, 990.0),
            (520.0, 1020.0),
            (505.0, 1005.0),
            (495.0, 1000.0),
        ]);
        let found = published_path(&halved).unwrap();
        assert!((found.rate.ratio - 0.5).abs() < 0.02, "{found:?}");
        assert!(found.rate.high < 1.0 && found.response_p50.low > 1.0);
        assert_eq!((found.rate_per_s, found.direct_rate_per_s), (502.5, 1002.5));
        let equal = path(&[
            (10.0, 11.0),
            (11.0, 10.0),
            (10.0, 10.5),
            (10.5, 10.0),
            (10.0, 10.1),
            (10.1, 10.0),
        ]);
        let found = published_path(&equal).unwrap();
        assert!(found.rate.low < 1.0 && found.rate.high > 1.0, "{found:?}");
        assert_eq!(published_path(&path(&[])), None);
    }
}
