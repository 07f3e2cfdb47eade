//! Latency by percentile: the HDR plot's points for every cell (its valid trials merged) and every trial.
//!
//! All of them share one list of quantiles, spaced evenly on the plot's axis log10(1/(1-q)), so that a
//! run of many trials stays small. A point is left out where fewer than one value lies above it: a
//! percentile beyond the count would only repeat the maximum.

use super::levels_text;
use analysis::RunAnalysis;
use record::{Histogram, LoadOutcome, RunRecord};
use serde::Serialize;

/// Points for each tenfold step towards 1.
const POINTS_PER_DECADE: u32 = 10;
/// The plot ends at 1 - 10^-5, p99.999.
const DECADES: u32 = 5;

/// The HDR plot's data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spectra {
    /// Quantiles, rising.
    pub quantiles: Vec<f64>,
    /// What can be shown.
    pub items: Vec<Spectrum>,
}

/// The distribution of one cell or trial; lists as long as [`Spectra::quantiles`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spectrum {
    /// Stage's name.
    pub stage: String,
    /// The cell's levels, or `trial 3: ...`.
    pub name: String,
    /// Trial's number; `None` for a cell.
    pub trial: Option<u32>,
    /// Response time at each quantile, ns.
    pub response: Vec<Option<u64>>,
    /// Service time at each quantile, ns; `None` where it is the response time (closed loop).
    pub service: Option<Vec<Option<u64>>>,
}

/// Distributions of all measured cells and of all trials with a success.
pub fn spectra(record: &RunRecord, analysis: &RunAnalysis) -> Spectra {
    let quantiles = quantiles();
    let outcome = |id: u32| -> Option<&LoadOutcome> {
        let trial = record.trials.iter().find(|t| t.id == id)?;
        trial.outcome.as_ref().filter(|o| o.requests.succeeded > 0)
    };
    let cells = analysis.cells.iter().filter_map(|cell| {
        let outcomes: Vec<_> = cell.used().iter().filter_map(|&id| outcome(id)).collect();
        let service = merged(outcomes.iter().map(|o| &o.service))?;
        let response = merged(outcomes.iter().map(|o| &o.response))?;
        Some(Spectrum {
            stage: cell.stage.clone(),
            name: levels_text(&cell.levels),
            trial: None,
            response: at(&response, &quantiles),
            service: unless_equal(&service, &response, &quantiles),
        })
    });
    let trials = record.trials.iter().filter_map(|trial| {
        let outcome = outcome(trial.id).filter(|_| !analysis.is_step(trial.id))?;
        Some(Spectrum {
            stage: trial.stage.clone(),
            name: format!("trial {}: {}", trial.id, levels_text(&trial.levels)),
            trial: Some(trial.id),
            response: at(&outcome.response, &quantiles),
            service: unless_equal(&outcome.service, &outcome.response, &quantiles),
        })
    });
    Spectra {
        items: cells.chain(trials).collect(),
        quantiles,
    }
}

/// 0 to p99.999, and exactly the median.
fn quantiles() -> Vec<f64> {
    let steps = (0..=DECADES * POINTS_PER_DECADE)
        .map(|i| 1.0 - 10f64.powf(-f64::from(i) / f64::from(POINTS_PER_DECADE)));
    let mut quantiles: Vec<f64> = steps.chain([0.5]).collect();
    quantiles.sort_by(f64::total_cmp);
    quantiles
}

fn merged<'a>(mut histograms: impl Iterator<Item = &'a Histogram>) -> Option<Histogram> {
    let mut sum = histograms.next()?.clone();
    histograms.for_each(|h| sum.merge(h));
    Some(sum)
}

fn unless_equal(
    service: &Histogram,
    response: &Histogram,
    quantiles: &[f64],
) -> Option<Vec<Option<u64>>> {
    (service != response).then(|| at(service, quantiles))
}

fn at(histogram: &Histogram, quantiles: &[f64]) -> Vec<Option<u64>> {
    let count = histogram.count() as f64;
    // A hair below 1, because 1 - 0.999 is not quite 0.001 in binary.
    let something_above = |q: f64| count * (1.0 - q) >= 1.0 - 1e-6;
    quantiles
        .iter()
        .map(|&q| {
            histogram
                .quantile(q)
                .filter(|_| something_above(q))
                .map(|v| v.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;

    #[test]
    fn percentiles_beyond_the_count_are_left_out() {
        let mut h = Histogram::new();
        (1..=1_000).for_each(|us| h.record(Nanos(us * 1_000)));
        let quantiles = quantiles();
        let values = at(&h, &quantiles);
        let value = |q: f64| {
            let i = quantiles.iter().position(|x| (x - q).abs() < 1e-9).unwrap();
            values[i]
        };
        assert_eq!(value(0.5), h.quantile(0.5).map(|v| v.0));
        assert_eq!(value(0.99), h.quantile(0.99).map(|v| v.0));
        assert!(value(0.999).is_some());
        assert_eq!(value(0.9999), None);
    }
}
