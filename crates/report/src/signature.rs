//! The signature pass as figures per request: the one place where totals are divided.
//!
//! The text, the documents and the page show the same rows. The surprise: a call's mean size is over the calls
//! that moved bytes, so that a read which found nothing does not make the others look small.

use record::{CallStats, FdClass, ProbeCost, Signature, TargetSignature, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a server does for one request, as counted in the signature pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SignatureTable {
    /// Requests that were counted; the divisor of every `per_request`.
    pub requests: u64,
    /// Requests that failed meanwhile.
    pub failed: u64,
    /// Events that the probes lost; counts are too low when this is not 0.
    pub lost: u64,
    pub targets: Vec<TargetTable>,
    /// What could not be probed.
    pub unavailable: Vec<Unavailable>,
    /// What each probe took.
    pub cost: Vec<CostRow>,
}

/// One target's calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetTable {
    /// Target's name.
    pub target: String,
    /// System calls, most frequent first; `null` when they could not be counted.
    pub calls: Option<Vec<CallRow>>,
}

/// One system call on one class of descriptors, per request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallRow {
    /// Name: `readv`.
    pub call: String,
    /// What its descriptor led to.
    pub class: FdClass,
    /// Calls per request.
    pub per_request: f64,
    /// Mean size of the calls that moved bytes; `null` where none did.
    pub mean_bytes: Option<f64>,
    /// Most frequent exact size; `null` when not taken.
    pub top_bytes: Option<u64>,
    /// Share of the calls that had that size, 0 to 1.
    pub top_share: Option<f64>,
    /// Share of the calls that moved bytes which moved all that was asked for, 0 to 1; `null` when not known.
    pub full_share: Option<f64>,
    /// Failures per request by errno's name.
    pub errors_per_request: BTreeMap<String, f64>,
    /// Time in the call per request, blocking included, microseconds, under probes; `null` when not taken.
    pub time_us_per_request: Option<f64>,
}

/// What a probe took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    /// Its name.
    pub probe: String,
    /// Events that it handled.
    pub events: u64,
    /// Expected beforehand, as a share of a core; `null` when not computed.
    pub expected_share: Option<f64>,
    /// CPU time by its own account, ns; `null` when it keeps none.
    pub measured_ns: Option<u64>,
}

impl From<&ProbeCost> for CostRow {
    fn from(cost: &ProbeCost) -> Self {
        Self {
            probe: cost.probe.clone(),
            events: cost.events,
            expected_share: cost.expected_share,
            measured_ns: cost.measured_ns,
        }
    }
}

/// The table of a pass; `None` when it counted no request, because then nothing is per request.
pub fn table(signature: &Signature) -> Option<SignatureTable> {
    let requests = (signature.requests > 0).then_some(signature.requests as f64)?;
    let target = |t: &TargetSignature| TargetTable {
        target: t.target.clone(),
        calls: t.calls.as_ref().map(|calls| {
            let mut rows: Vec<CallRow> = calls.iter().map(|c| row(c, requests)).collect();
            rows.sort_by(|a, b| b.per_request.total_cmp(&a.per_request));
            rows
        }),
    };
    Some(SignatureTable {
        requests: signature.requests,
        failed: signature.failed,
        lost: signature.lost,
        targets: signature.targets.iter().map(target).collect(),
        unavailable: signature.unavailable.clone(),
        cost: signature.cost.iter().map(CostRow::from).collect(),
    })
}

fn row(stats: &CallStats, requests: f64) -> CallRow {
    let failed: u64 = stats.errors.values().sum();
    let moved = stats.calls.saturating_sub(failed + stats.zero);
    let sized = stats.full + stats.partial;
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let top = stats.top_sizes.first();
    CallRow {
        call: stats.call.clone(),
        class: stats.class,
        per_request: stats.calls as f64 / requests,
        mean_bytes: (stats.bytes > 0)
            .then(|| share(stats.bytes, moved))
            .flatten(),
        top_bytes: top.map(|(size, _)| *size),
        top_share: top.and_then(|(_, calls)| share(*calls, moved)),
        full_share: share(stats.full, sized),
        errors_per_request: stats
            .errors
            .iter()
            .map(|(errno, calls)| (errno.clone(), *calls as f64 / requests))
            .collect(),
        time_us_per_request: stats.time_ns.map(|ns| ns as f64 / 1e3 / requests),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_over_the_calls_that_moved_bytes() {
        let stats = CallStats {
            call: "readv".into(),
            class: FdClass::Upstream,
            calls: 12,
            errors: BTreeMap::from([("EAGAIN".into(), 2)]),
            bytes: 40_960,
            full: 9,
            partial: 1,
            top_sizes: vec![(4_096, 9)],
            ..CallStats::default()
        };
        let row = row(&stats, 2.0);
        assert_eq!((row.per_request, row.mean_bytes), (6.0, Some(4_096.0)));
        assert_eq!((row.full_share, row.top_share), (Some(0.9), Some(0.9)));
        assert_eq!(row.errors_per_request["EAGAIN"], 1.0);
    }

    #[test]
    fn a_pass_without_a_request_has_no_table() {
        assert_eq!(table(&Signature::default()), None);
    }
}
