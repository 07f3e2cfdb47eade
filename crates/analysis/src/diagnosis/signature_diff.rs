//! Two signatures side by side: the calls per request that differ, as `readv 10 -> 1 per request`.

use record::{FdClass, Signature};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A call whose number per request differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallChange {
    /// Target's name.
    pub target: String,
    /// System call.
    pub call: String,
    /// What its descriptor leads to.
    pub class: FdClass,
    /// Calls per request in the first.
    pub before: f64,
    /// In the second.
    pub after: f64,
    /// Mean bytes of those that returned a size, in the first; `None` without such a call.
    pub mean_bytes_before: Option<f64>,
    /// In the second.
    pub mean_bytes_after: Option<f64>,
}

/// Counts per request repeat within 1 %; twice that differs.
const RELATIVE: f64 = 0.02;
/// Fewer calls per request than this come from start, end and timers.
const ABSOLUTE: f64 = 0.02;

type Calls<'a> = BTreeMap<(&'a str, &'a str, FdClass), (f64, Option<f64>)>;

fn calls(signature: &Signature) -> Calls<'_> {
    let requests = (signature.requests + signature.failed) as f64;
    let mut found = Calls::new();
    if requests == 0.0 {
        return found;
    }
    for target in &signature.targets {
        for call in target.calls.iter().flatten() {
            let failed: u64 = call.errors.values().sum();
            let moved = call.calls.saturating_sub(failed + call.zero);
            let mean = (moved > 0 && call.bytes > 0).then(|| call.bytes as f64 / moved as f64);
            let key = (target.target.as_str(), call.call.as_str(), call.class);
            found.insert(key, (call.calls as f64 / requests, mean));
        }
    }
    found
}

/// Calls per request that differ between two signatures, largest difference first. Targets that only one of them
/// could count are left out: a call that was not counted is not a call that was not made.
pub fn signature_diff(a: &Signature, b: &Signature) -> Vec<CallChange> {
    let counted = |s: &Signature, target: &str| {
        let mut targets = s.targets.iter();
        s.requests + s.failed > 0 && targets.any(|t| t.target == target && t.calls.is_some())
    };
    let (before, after) = (calls(a), calls(b));
    let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let mut changes: Vec<CallChange> = keys
        .into_iter()
        .filter(|(target, ..)| counted(a, target) && counted(b, target))
        .map(|key| {
            let was = before.get(key).copied().unwrap_or((0.0, None));
            let is = after.get(key).copied().unwrap_or((0.0, None));
            CallChange {
                target: key.0.to_owned(),
                call: key.1.to_owned(),
                class: key.2,
                before: was.0,
                after: is.0,
                mean_bytes_before: was.1,
                mean_bytes_after: is.1,
            }
        })
        .filter(|c| {
            let difference = (c.after - c.before).abs();
            difference > ABSOLUTE && difference > RELATIVE * c.before.max(c.after)
        })
        .collect();
    let size = |c: &CallChange| (c.after - c.before).abs();
    changes.sort_by(|a, b| size(b).total_cmp(&size(a)));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{CallStats, TargetSignature};

    fn signature(requests: u64, calls: Option<&[(&str, u64)]>) -> Signature {
        let stats = |(call, n): &(&str, u64)| CallStats {
            call: (*call).to_owned(),
            class: FdClass::Upstream,
            calls: *n,
            ..CallStats::default()
        };
        Signature {
            requests,
            targets: vec![TargetSignature {
                target: "web".into(),
                calls: calls.map(|calls| calls.iter().map(stats).collect()),
                ..TargetSignature::default()
            }],
            ..Signature::default()
        }
    }

    #[test]
    fn calls_that_differ_are_listed_by_size() {
        let a = signature(
            1_000,
            Some(&[("readv", 10_000), ("writev", 2_000), ("close", 3)]),
        );
        let b = signature(
            500,
            Some(&[("readv", 500), ("writev", 1_001), ("brk", 500)]),
        );
        let changes = signature_diff(&a, &b);
        let seen: Vec<_> = changes
            .iter()
            .map(|c| (c.call.as_str(), c.before, c.after))
            .collect();
        assert_eq!(seen, [("readv", 10.0, 1.0), ("brk", 0.0, 1.0)]);
    }

    #[test]
    fn what_was_not_counted_is_no_difference() {
        let a = signature(1_000, Some(&[("readv", 10_000)]));
        for b in [signature(1_000, None), signature(0, Some(&[]))] {
            assert!(signature_diff(&a, &b).is_empty());
        }
    }
}
