//! By which mechanism two cells differ: what one request costs in each, from their trials and their signatures.
//!
//! CPU time and waits are timed, so they are compared over pairs of trials of the same block and carry an interval.
//! Calls, bytes and connections are counted over a fixed number of requests and carry that number. The surprise: a
//! target that takes part in one cell only has no "before"; its calls are what it adds, not what grew.

use crate::contrast::{self, Family};
use crate::diagnosis::{CallChange, signature_diff};
use crate::stats::share;
use crate::{Diagnosis, Finding, RunAnalysis, Status, TrialAnalysis, observed, stats};
use plan::Levels;
use record::{FdClass, RunRecord, Signature, TargetSignature, TrialRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What a change is counted in.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PerRequest {
    /// CPU time of the targets, all modes, us.
    Cpu,
    /// In user mode, us.
    User,
    /// In the kernel for the threads, us.
    System,
    /// In the kernel for the network, on the targets' cores, us.
    Softirq,
    /// Threads ready to run that waited for a CPU, us.
    RunQueue,
    /// Reads of a socket or file.
    Reads,
    Writes,
    /// Other system calls.
    Calls,
    /// Connections opened.
    Connections,
}

impl PerRequest {
    /// Kinds of time that make up the CPU time of a request, or add to it.
    const TIMED: [PerRequest; 5] = [
        PerRequest::Cpu,
        PerRequest::User,
        PerRequest::System,
        PerRequest::Softirq,
        PerRequest::RunQueue,
    ];

    /// Measured in time, and so with an interval.
    pub fn is_timed(self) -> bool {
        Self::TIMED.contains(&self)
    }
}

/// A difference with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Estimate over the pairs, by the method that made the interval.
    pub mean: f64,
    /// Lower end of the 95 % interval: ranks from six pairs on, Student's t below.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs of trials.
    pub pairs: u32,
}

impl Difference {
    /// `None` of fewer than three pairs, or where they cannot differ.
    fn of(pairs: &[f64]) -> Option<Self> {
        let (mean, interval) = contrast::difference(pairs, Family::ONE)?;
        Some(Self {
            mean,
            low: interval.low,
            high: interval.high,
            pairs: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        })
    }

    /// The interval holds no zero.
    pub fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// One quantity of a request that differs between the two cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismChange {
    pub what: PerRequest,
    /// Target; empty for all targets together.
    pub target: String,
    /// System call, or the group of calls (`read`, `write`); empty for times.
    pub call: String,
    /// What the calls' descriptors lead to: `upstream`, `client`; empty for times.
    pub on: String,
    /// Per request in the first cell; `null` where the target takes no part in it.
    pub before: Option<f64>,
    /// Per request in the second; `null` where the target takes no part in it.
    pub after: Option<f64>,
    /// Mean bytes a call in the first; `null` where none is known.
    pub mean_bytes_before: Option<f64>,
    /// In the second.
    pub mean_bytes_after: Option<f64>,
    /// Of a time: the difference over pairs of trials; `null` for a count.
    pub difference: Option<Difference>,
}

impl MechanismChange {
    /// Second less first; a target that takes no part makes no calls.
    pub fn grown(&self) -> f64 {
        match self.difference {
            Some(difference) => difference.mean,
            None => self.after.unwrap_or(0.0) - self.before.unwrap_or(0.0),
        }
    }
}

/// A cause that was named in one of the two cells or in both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CauseSeen {
    /// Name in the catalogue.
    pub cause: String,
    pub title: String,
    /// Target that it concerns; empty for the host, the client or the path between.
    pub target: String,
    /// How far it has been shown, where it was named.
    pub status: Status,
    /// Largest share of the limiting resource's time that its removal could bring; `null` when unknown.
    pub gain_bound: Option<f64>,
    /// What to do.
    pub remedy: String,
    /// Named in the first cell; `null` where that was not examined.
    pub before: Option<bool>,
    /// Named in the second; `null` where that was not examined.
    pub after: Option<bool>,
}

/// What changes for a request from one cell to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestChange {
    /// Levels of the first cell.
    pub before: Levels,
    /// Levels of the second.
    pub after: Levels,
    /// Requests that the calls of the first were counted over; `null` where they were not.
    pub requests_before: Option<u64>,
    /// Of the second.
    pub requests_after: Option<u64>,
    /// Targets that take part in the second cell alone.
    pub joins: Vec<String>,
    /// Targets that take part in the first alone.
    pub leaves: Vec<String>,
    /// System calls of all targets per request in the first; `null` where one of them was not counted.
    pub calls_before: Option<f64>,
    /// In the second.
    pub calls_after: Option<f64>,
    /// What differs: times first, the largest first; then counts, the largest first.
    pub changes: Vec<MechanismChange>,
    /// Causes that were named in either, the surest first.
    pub causes: Vec<CauseSeen>,
    /// Why calls could not be compared; empty where they were.
    pub missing: String,
}

/// Two cells of one stage, by their levels.
pub(crate) struct Pair<'a> {
    pub stage: &'a str,
    pub before: &'a Levels,
    pub after: &'a Levels,
}

/// What a run knows of its trials.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub record: &'a RunRecord,
    pub analysis: &'a RunAnalysis,
    pub diagnoses: &'a std::collections::BTreeMap<u32, Diagnosis>,
}

impl<'a> Known<'a> {
    fn record_of(self, id: u32) -> Option<&'a TrialRecord> {
        self.record.trials.iter().find(|t| t.id == id)
    }

    /// Valid trials of a cell.
    pub fn valid(
        self,
        stage: &'a str,
        levels: &'a Levels,
    ) -> impl Iterator<Item = &'a TrialAnalysis> {
        let of_cell = move |t: &&TrialAnalysis| t.stage == stage && t.levels == *levels;
        let cells = self.analysis.trials.iter();
        cells.filter(of_cell).filter(|t| t.verdict.valid)
    }

    /// The cell's examined trial: its first valid one, else its first.
    pub fn examined(
        self,
        stage: &str,
        levels: &Levels,
    ) -> Option<(&'a TrialRecord, &'a Diagnosis)> {
        let cells = self.analysis.cells.iter();
        let cell = cells
            .into_iter()
            .find(|c| c.stage == stage && c.levels == *levels)?;
        let mut ids = cell.valid.iter().chain(&cell.trials);
        ids.find_map(|id| {
            let record = self.record_of(*id)?;
            record.examination.as_ref()?;
            Some((record, self.diagnoses.get(id)?))
        })
    }

    /// Values of a figure over pairs of valid trials of one block: first, second.
    pub fn paired(
        self,
        pair: &'a Pair<'a>,
        figure: impl Fn(&TrialAnalysis) -> Option<f64>,
    ) -> Vec<(f64, f64)> {
        let after: Vec<&TrialAnalysis> = self.valid(pair.stage, pair.after).collect();
        let both = |a: &TrialAnalysis| {
            let b = after.iter().find(|t| t.block == a.block)?;
            Some((figure(a)?, figure(b)?))
        };
        self.valid(pair.stage, pair.before)
            .filter_map(both)
            .collect()
    }

    /// CPU time or wait of a request, us.
    fn time_us(self, trial: &TrialAnalysis, what: PerRequest) -> Option<f64> {
        let record = self.record_of(trial.id)?;
        let outcome = record.outcome.as_ref()?;
        let of_targets = || {
            let all = trial.usage.iter();
            all.filter(|u| u.owner != "host" && u.owner != observed::GENERATOR)
        };
        let mode = |name: &str| {
            let found = of_targets().filter_map(|u| u.by_mode.get(name));
            found.fold(None, |sum: Option<f64>, v| Some(sum.unwrap_or(0.0) + v))
        };
        let cores = match what {
            PerRequest::Cpu => return trial.target_cpu_us_per_request,
            PerRequest::User => mode("user")?,
            PerRequest::System => mode("system")?,
            PerRequest::Softirq => self.softirq(trial, record)?,
            PerRequest::RunQueue => {
                let waits = of_targets().filter_map(|u| u.run_queue_wait);
                waits.fold(None, |sum: Option<f64>, v| Some(sum.unwrap_or(0.0) + v))?
            }
            _ => return None,
        };
        let per_s = share(
            outcome.requests.completed as f64,
            outcome.measured().as_secs_f64(),
        )?;
        share(cores * 1e6, per_s)
    }

    /// Cores' worth of interrupt work on the cores of the targets (of all, where one is not pinned).
    fn softirq(self, trial: &TrialAnalysis, record: &TrialRecord) -> Option<f64> {
        let pinned = record.targets.iter().all(|t| !t.cpus.is_empty());
        let cpus: BTreeSet<u32> = record.targets.iter().flat_map(|t| t.cpus.clone()).collect();
        let of_core = |u: &&crate::Usage| {
            let core = u.name.strip_prefix("core ").and_then(|n| n.parse().ok());
            u.owner == "host" && core.is_some_and(|c| !pinned || cpus.contains(&c))
        };
        let cores = trial.usage.iter().filter(of_core);
        let busy = |u: &crate::Usage| {
            ["softirq", "irq"]
                .iter()
                .filter_map(|m| u.by_mode.get(*m))
                .sum::<f64>()
        };
        cores.fold(None, |sum, u| Some(sum.unwrap_or(0.0) + busy(u)))
    }
}

/// Smaller differences of a time say nothing that is worth a line, us and share of the first.
const LEAST_US: f64 = 0.1;
const LEAST_SHARE: f64 = 0.02;

/// What changes for a request between two cells.
pub(crate) fn mechanism(known: Known<'_>, pair: &Pair<'_>) -> RequestChange {
    let mut changes = times(known, pair);
    let before = known.examined(pair.stage, pair.before);
    let after = known.examined(pair.stage, pair.after);
    let signature = |found: &Option<(&TrialRecord, &Diagnosis)>| {
        let examination = found.as_ref()?.0.examination.as_ref()?;
        examination.signature.clone().filter(|s| s.requests > 0)
    };
    let (a, b) = (signature(&before), signature(&after));
    let mut found = RequestChange {
        before: pair.before.clone(),
        after: pair.after.clone(),
        requests_before: a.as_ref().map(|s| s.requests),
        requests_after: b.as_ref().map(|s| s.requests),
        joins: Vec::new(),
        leaves: Vec::new(),
        calls_before: a.as_ref().and_then(calls_of_all),
        calls_after: b.as_ref().and_then(calls_of_all),
        changes: Vec::new(),
        causes: causes(before.map(|f| f.1), after.map(|f| f.1)),
        missing: missing(&before, &after, &a, &b),
    };
    if let (Some(a), Some(b)) = (a, b) {
        let (serving_a, serving_b) = (serving(&a), serving(&b));
        found.joins = serving_b.difference(&serving_a).cloned().collect();
        found.leaves = serving_a.difference(&serving_b).cloned().collect();
        changes.extend(counts(&grouped(&a), &grouped(&b), &found));
    }
    found.changes = changes;
    found
}

fn missing(
    before: &Option<(&TrialRecord, &Diagnosis)>,
    after: &Option<(&TrialRecord, &Diagnosis)>,
    a: &Option<Signature>,
    b: &Option<Signature>,
) -> String {
    if before.is_none() || after.is_none() {
        return "not both levels were examined".to_owned();
    }
    let gap = |found: &Option<(&TrialRecord, &Diagnosis)>| {
        let signature = found.as_ref()?.0.examination.as_ref()?.signature.as_ref()?;
        signature.unavailable.first().map(|u| u.reason.clone())
    };
    match (a, b) {
        (Some(_), Some(_)) => String::new(),
        _ => match gap(before).or_else(|| gap(after)) {
            Some(reason) => format!("calls were not counted: {reason}"),
            None => "calls were not counted".to_owned(),
        },
    }
}

/// Times of a request that differ, over pairs of trials, the largest difference first; the whole stands before its
/// parts.
fn times(known: Known<'_>, pair: &Pair<'_>) -> Vec<MechanismChange> {
    let change = |what: PerRequest| {
        let pairs = known.paired(pair, |t| known.time_us(t, what));
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
        let difference = Difference::of(&differences)?;
        let median = |side: fn(&(f64, f64)) -> f64| {
            stats::median(&pairs.iter().map(side).collect::<Vec<_>>())
        };
        let (before, after) = (median(|p| p.0)?, median(|p| p.1)?);
        let least = LEAST_US.max(LEAST_SHARE * before.min(after));
        let worth = difference.is_shown() && difference.mean.abs() >= least;
        // The whole is said even where it stays: that is an answer too.
        (worth || what == PerRequest::Cpu).then(|| MechanismChange {
            what,
            target: String::new(),
            call: String::new(),
            on: String::new(),
            before: Some(before),
            after: Some(after),
            mean_bytes_before: None,
            mean_bytes_after: None,
            difference: Some(difference),
        })
    };
    let mut changes: Vec<MechanismChange> =
        PerRequest::TIMED.into_iter().filter_map(change).collect();
    changes.sort_by(|a, b| {
        let size = |c: &MechanismChange| match c.what {
            PerRequest::Cpu => f64::INFINITY,
            // A wait is no work: it follows.
            PerRequest::RunQueue => 0.0,
            _ => c.grown().abs(),
        };
        size(b).total_cmp(&size(a))
    });
    changes
}

/// Targets that did something for the requests. Fewer than one call in ten requests come from timers.
fn serving(signature: &Signature) -> BTreeSet<String> {
    let busy = |t: &&TargetSignature| {
        let calls: u64 = t.calls.iter().flatten().map(|c| c.calls).sum();
        calls * 10 >= signature.requests
    };
    let targets = signature.targets.iter().filter(busy);
    targets.map(|t| t.target.clone()).collect()
}

fn calls_of_all(signature: &Signature) -> Option<f64> {
    let mut sum = 0;
    for target in &signature.targets {
        sum += target.calls.as_ref()?.iter().map(|c| c.calls).sum::<u64>();
    }
    share(sum as f64, signature.requests as f64)
}

/// The same signature with the calls that read and those that write a descriptor as one each: `readv` at one level and
/// `recv` at the other are both reads. Those that moved nothing are left out of both.
fn grouped(signature: &Signature) -> Signature {
    let mut grouped = signature.clone();
    for calls in grouped.targets.iter_mut().filter_map(|t| t.calls.as_mut()) {
        for call in calls.iter_mut() {
            let group = match group_of(&call.call) {
                PerRequest::Reads => "read",
                PerRequest::Writes => "write",
                _ => continue,
            };
            let idle = call.errors.values().sum::<u64>() + call.zero;
            call.call = group.to_owned();
            call.calls = call.calls.saturating_sub(idle);
            call.errors.clear();
            call.zero = 0;
        }
        calls.sort_by(|a, b| (&a.call, a.class).cmp(&(&b.call, b.class)));
        calls.dedup_by(|more, kept| {
            let same = more.call == kept.call && more.class == kept.class;
            if same {
                kept.calls += more.calls;
                kept.bytes += more.bytes;
                kept.zero += more.zero;
                for (errno, n) in &more.errors {
                    *kept.errors.entry(errno.clone()).or_default() += n;
                }
            }
            same
        });
    }
    grouped
}

fn group_of(call: &str) -> PerRequest {
    if call.contains("read") || call.starts_with("recv") {
        PerRequest::Reads
    } else if call.contains("write") || call.starts_with("send") || call == "splice" {
        PerRequest::Writes
    } else if call.starts_with("accept") || call == "connect" {
        PerRequest::Connections
    } else {
        PerRequest::Calls
    }
}

/// A call that changes by less than this a request explains nothing.
const LEAST_CALLS: f64 = 0.1;

/// Counts that differ, the largest difference first; those of targets that take part in one cell only among them.
fn counts(a: &Signature, b: &Signature, found: &RequestChange) -> Vec<MechanismChange> {
    let alone = |target: &str| {
        let among = |all: &[String]| all.iter().any(|t| t == target);
        (among(&found.joins), among(&found.leaves))
    };
    let change = |c: CallChange| MechanismChange {
        what: group_of(&c.call),
        on: match c.class {
            FdClass::None | FdClass::Unknown => String::new(),
            class => class.name().to_owned(),
        },
        before: (!alone(&c.target).0).then_some(c.before),
        after: (!alone(&c.target).1).then_some(c.after),
        target: c.target,
        call: c.call,
        mean_bytes_before: c.mean_bytes_before,
        mean_bytes_after: c.mean_bytes_after,
        difference: None,
    };
    // A target that takes part in one only has an empty signature in the other.
    let with = |s: &Signature, others: &[String]| {
        let mut all = s.clone();
        all.targets.retain(|t| !others.contains(&t.target));
        all.targets
            .extend(others.iter().map(|name| TargetSignature {
                target: name.clone(),
                calls: Some(Vec::new()),
                ..TargetSignature::default()
            }));
        all
    };
    let changes = signature_diff(&with(a, &found.joins), &with(b, &found.leaves));
    let worth = |c: &CallChange| (c.after - c.before).abs() >= LEAST_CALLS;
    changes.into_iter().filter(worth).map(change).collect()
}

/// Causes that hold in one of the cells and are worth changing, those that differ first.
fn causes(before: Option<&Diagnosis>, after: Option<&Diagnosis>) -> Vec<CauseSeen> {
    let holds =
        |f: &&Finding| f.cause != "none" && f.worth_changing && f.status >= Status::Supported;
    let of = |d: Option<&Diagnosis>| -> Vec<Finding> {
        let all = d.into_iter().flat_map(|d| &d.findings);
        all.filter(holds).cloned().collect()
    };
    let (a, b) = (of(before), of(after));
    // A cause of the second is gone from the first if no finding of any status names it there.
    let named = |d: Option<&Diagnosis>, f: &Finding| {
        let found = &d?.findings;
        Some(
            found
                .iter()
                .any(|o| o.cause == f.cause && o.status > Status::Refuted),
        )
    };
    let mut seen: Vec<CauseSeen> = Vec::new();
    for finding in b.iter().chain(&a) {
        if seen.iter().any(|s| s.cause == finding.cause) {
            continue;
        }
        seen.push(CauseSeen {
            cause: finding.cause.clone(),
            title: finding.title.clone(),
            target: finding.target.clone(),
            status: finding.status,
            gain_bound: finding.gain_bound,
            remedy: finding.remedy.clone(),
            before: named(before, finding),
            after: named(after, finding),
        });
    }
    seen.sort_by_key(|s| (s.before == s.after, std::cmp::Reverse(s.status)));
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::CallStats;

    /// A call, what its descriptor leads to, how often it was made, and the bytes that it moved.
    type Call = (&'static str, FdClass, u64, u64);

    fn signature(targets: &[(&str, &[Call])]) -> Signature {
        let call = |(name, class, calls, bytes): &Call| CallStats {
            call: (*name).to_owned(),
            class: *class,
            calls: *calls,
            bytes: *bytes,
            ..CallStats::default()
        };
        Signature {
            requests: 1_000,
            targets: targets
                .iter()
                .map(|(name, calls)| TargetSignature {
                    target: (*name).to_owned(),
                    calls: Some(calls.iter().map(call).collect()),
                    ..TargetSignature::default()
                })
                .collect(),
            ..Signature::default()
        }
    }

    fn between(a: &Signature, b: &Signature) -> RequestChange {
        let (in_a, in_b) = (serving(a), serving(b));
        let mut found = RequestChange {
            before: Levels::new(),
            after: Levels::new(),
            requests_before: None,
            requests_after: None,
            joins: in_b.difference(&in_a).cloned().collect(),
            leaves: in_a.difference(&in_b).cloned().collect(),
            calls_before: calls_of_all(a),
            calls_after: calls_of_all(b),
            changes: Vec::new(),
            causes: Vec::new(),
            missing: String::new(),
        };
        found.changes = counts(&grouped(a), &grouped(b), &found);
        found
    }

    const UP: FdClass = FdClass::Upstream;

    #[test]
    fn reads_are_counted_together_whatever_the_call() {
        let many = signature(&[(
            "proxy",
            &[
                ("readv", UP, 9_000, 81_000_000),
                ("recvfrom", UP, 1_000, 10_000_000),
            ],
        )]);
        let one = signature(&[("proxy", &[("recvfrom", UP, 1_000, 91_000_000)])]);
        let found = between(&many, &one);
        assert_eq!(found.changes.len(), 1, "{found:?}");
        let reads = &found.changes[0];
        assert_eq!(
            (reads.what, reads.on.as_str()),
            (PerRequest::Reads, "upstream")
        );
        assert_eq!((reads.before, reads.after), (Some(10.0), Some(1.0)));
        assert_eq!(
            (reads.mean_bytes_before, reads.mean_bytes_after),
            (Some(9_100.0), Some(91_000.0))
        );
    }

    /// A read that finds nothing is no read of the response: polling must not hide how it is cut up.
    #[test]
    fn calls_that_moved_nothing_are_left_out() {
        let mut idle = signature(&[("proxy", &[("read", UP, 3_000, 91_000)])]);
        let call = &mut idle.targets[0].calls.as_mut().unwrap()[0];
        call.errors.insert("EAGAIN".into(), 1_500);
        call.zero = 500;
        let busy = signature(&[("proxy", &[("read", UP, 1_000, 91_000)])]);
        assert_eq!(between(&idle, &busy).changes, []);
    }

    #[test]
    fn a_target_that_joins_has_no_before() {
        let direct = signature(&[("origin", &[("recvfrom", FdClass::Client, 1_000, 41_000)])]);
        let proxied = signature(&[
            ("origin", &[("recvfrom", FdClass::Client, 1_000, 41_000)]),
            ("proxy", &[("readv", UP, 10_000, 91_000_000)]),
        ]);
        let found = between(&direct, &proxied);
        assert_eq!(found.joins, ["proxy"]);
        assert_eq!(
            (found.calls_before, found.calls_after),
            (Some(1.0), Some(11.0))
        );
        assert_eq!(
            (found.changes[0].before, found.changes[0].after),
            (None, Some(10.0))
        );
        // The other way round it leaves, and makes no calls any more.
        let back = between(&proxied, &direct);
        assert_eq!(back.leaves, ["proxy"]);
        assert_eq!(
            (back.changes[0].before, back.changes[0].after),
            (Some(10.0), None)
        );
        assert_eq!(back.changes[0].grown(), -10.0);
    }

    #[test]
    fn a_difference_needs_three_pairs_and_an_interval_without_zero() {
        assert_eq!(Difference::of(&[1.0, 1.0]), None);
        let shown = Difference::of(&[1.0, 1.1, 0.9]).unwrap();
        // Mean 1, standard error 0.1 / sqrt(3), t(2, 97.5 %) = 4.3027.
        assert!((shown.low - (1.0 - 0.248_4)).abs() < 1e-3, "{shown:?}");
        assert!(shown.is_shown());
        assert!(!Difference::of(&[1.0, -1.0, 0.5]).unwrap().is_shown());
    }

    fn diagnosis(causes: &[(&str, &str)]) -> Diagnosis {
        let findings: Vec<serde_json::Value> = causes
            .iter()
            .map(|(cause, status)| {
                serde_json::json!({
                    "cause": cause, "title": "", "target": "proxy", "confidence": 0.9, "status": status, "why": "",
                    "evidence": [], "remedy": "", "changes": [], "gain_bound": null, "worth_changing": true,
                    "proof": null,
                })
            })
            .collect();
        let stored = serde_json::json!({
            "station": {"name": "worker", "target": "", "why": ""}, "findings": findings, "ruled_out": [],
            "unseen": [], "unexplained": null, "facts": [], "tier": "ebpf",
        });
        serde_json::from_value(stored).unwrap()
    }

    #[test]
    fn the_cause_that_comes_with_the_level_stands_before_one_of_both() {
        let worse = diagnosis(&[("noise", "supported"), ("small", "supported")]);
        let better = diagnosis(&[("noise", "supported"), ("none", "supported")]);
        let found = causes(Some(&worse), Some(&better));
        let seen: Vec<_> = found
            .iter()
            .map(|c| (c.cause.as_str(), c.before, c.after))
            .collect();
        assert_eq!(
            seen,
            [
                ("small", Some(true), Some(false)),
                ("noise", Some(true), Some(true))
            ]
        );
        // Suspected at the better level is not gone there; a level that was not examined says nothing.
        let suspected = diagnosis(&[("small", "suspected")]);
        assert_eq!(causes(Some(&worse), Some(&suspected))[1].after, Some(true));
        assert_eq!(causes(Some(&worse), None)[0].after, None);
    }
}
