//! Results of load generators as the facts take them.

use record::Reported;

/// What a load generator printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadResult {
    /// `wrk`, `ab`, ...
    pub tool: String,
    /// Connections, when it says.
    pub connections: Option<f64>,
    /// Answers.
    pub requests: Option<f64>,
    /// Answers per second.
    pub rate_per_s: Option<f64>,
    /// Answers that are not successes, and requests that failed.
    pub errors: f64,
    /// Percentile (50, 99, ...) and latency, ms.
    pub percentiles_ms: Vec<(f64, f64)>,
    /// Bytes received for each answer.
    pub bytes_per_request: Option<f64>,
}

impl LoadResult {
    /// Of an imported result.
    pub(super) fn of(reported: &Reported) -> Self {
        let percentiles = reported.figures.iter().filter_map(|f| {
            let which = f.name.strip_prefix("latency_ns.p")?.parse().ok()?;
            Some((which, f.value / 1e6))
        });
        let requests = reported.value("requests");
        Self {
            tool: reported.tool.clone(),
            connections: reported.value("connections"),
            requests,
            rate_per_s: reported.value("rate_per_s"),
            errors: reported.failures().unwrap_or(0.0),
            percentiles_ms: percentiles.collect(),
            bytes_per_request: reported
                .value("received_bytes")
                .zip(requests)
                .filter(|(_, n)| *n > 0.0)
                .map(|(bytes, n)| bytes / n),
        }
    }
}
