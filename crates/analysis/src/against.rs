//! One server at two times: what a request takes more of, or less.
//!
//! Times are held against the noise of their own record, because there is one window of each: CPU by slices of the
//! window, a kind of work by the number of its samples. The surprise: such an interval holds what differs within a
//! window and cannot hold what differs between two days; records with several trials are compared by `prony compare`.

use crate::contrast::{Family, Sample, ratio};
use crate::diagnosis::{FactSet, catalogue, signature_diff};
use crate::observed::{Window, named};
use record::{Nanos, ProfileKind, TrialRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slices of a window.
const SLICES: u64 = 10;
/// Half of a 95 % interval of the normal distribution.
const HALF: f64 = 1.96;
/// What has no interval differs from this ratio on.
const DIFFERS: f64 = 1.25;
/// And from this many microseconds of a request on.
const LEAST_US: f64 = 1.0;

/// What a request takes at two times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgainstRow {
    /// Target's name.
    pub target: String,
    /// `cpu`, `on CPU: copy`, `waiting for disk`, `readv (client)` ...
    pub row: String,
    pub unit: String,
    pub before: f64,
    pub after: f64,
    /// 95 % interval of after less before; `None` where nothing tells the noise.
    pub interval: Option<(f64, f64)>,
    /// What the interval rests on, or what stands in its place.
    pub noise: String,
    /// It differs by more than the noise.
    pub differs: bool,
}

/// Rows that both trials have, those that differ first, the largest difference of a unit first.
pub fn against(
    before: (&TrialRecord, &FactSet),
    after: (&TrialRecord, &FactSet),
) -> Vec<AgainstRow> {
    let mut rows: Vec<AgainstRow> = Vec::new();
    let both = before
        .1
        .targets
        .iter()
        .filter(|t| after.1.targets.contains(t));
    for target in both {
        let work = cpu(target, before, after);
        rows.extend(work);
        rows.extend(kinds(target, before, after));
        rows.extend(waits(target, before.1, after.1));
    }
    rows.extend(calls(before.0, after.0));
    let size = |row: &AgainstRow| (row.after - row.before).abs();
    rows.sort_by(|a, b| {
        let order = b.differs.cmp(&a.differs).then(b.unit.cmp(&a.unit));
        order.then(size(b).total_cmp(&size(a)))
    });
    rows
}

fn window(trial: &TrialRecord) -> Option<Window> {
    let loaded = trial.outcome.as_ref().map(Window::of);
    let watching = trial.examination.as_ref().and_then(|e| e.watching.as_ref());
    loaded.or_else(|| Some(Window::spanning(watching?.window)))
}

/// CPU of the target per segment that was sent, by slices of the window.
fn slices(trial: &TrialRecord, target: &str) -> Option<Vec<f64>> {
    let window = window(trial)?;
    let slice = window.to.since(window.from).0 / SLICES;
    let costs = (0..SLICES).filter_map(|i| {
        let from = Nanos(window.from.0 + i * slice);
        let to = Nanos(from.0 + slice);
        let used = named(&trial.series, "thread.run_s");
        let used = used.filter(|s| s.label("target") == Some(target));
        let used: f64 = used.filter_map(|s| s.delta(from, to)).sum();
        let sent = Window { from, to }.grown(&trial.series, "tcp.out_segs")?;
        (sent > 0.0 && used > 0.0).then(|| used / sent)
    });
    let costs: Vec<f64> = costs.collect();
    (costs.len() >= 3).then_some(costs)
}

fn cpu(
    target: &str,
    before: (&TrialRecord, &FactSet),
    after: (&TrialRecord, &FactSet),
) -> Option<AgainstRow> {
    let name = "cpu.us_per_request";
    let was = before.1.view(target).value(name)?;
    let is = after.1.view(target).value(name)?;
    let spread = slices(before.0, target)
        .zip(slices(after.0, target))
        .and_then(|(a, b)| {
            // Only the width is taken from it: segments are not requests, and their number may change.
            let ratio = ratio(&Sample::apart(&a, &b), Family::ONE)?;
            Some((ratio.low / ratio.ratio, ratio.high / ratio.ratio))
        });
    let interval = spread.map(|(low, high)| (is * low - was, is * high - was));
    Some(row(
        target,
        "cpu",
        "us",
        (was, is),
        interval,
        "slices of one window each",
    ))
}

/// Samples of the target in its on-CPU profile.
fn samples(trial: &TrialRecord, target: &str) -> Option<f64> {
    let profiles = &trial.examination.as_ref()?.profiles;
    let profile = profiles.iter().find(|p| p.kind == ProfileKind::OnCpu)?;
    let stacks = profile.stacks.iter().filter(|s| s.target == target);
    let samples: u64 = stacks.map(|s| s.weight).sum();
    (samples > 0).then_some(samples as f64)
}

fn kinds(
    target: &str,
    before: (&TrialRecord, &FactSet),
    after: (&TrialRecord, &FactSet),
) -> Vec<AgainstRow> {
    let general = ["kernel", "syscall", "top_symbol", "top_module"];
    let names = before.1.values(catalogue());
    let names = names.into_iter().filter(|fact| fact.target == target);
    let of_kind = |(trial, facts): (&TrialRecord, &FactSet), name: &str| {
        let view = facts.view(target);
        let (share, cpu) = (view.value(name)?, view.value("cpu.us_per_request")?);
        let n = samples(trial, target)?;
        // Binomial; one sample where none was seen, so that nothing is sure to be absent.
        let p = share.max(1.0 / n).min(1.0);
        Some((share * cpu, cpu * (p * (1.0 - p) / n).sqrt()))
    };
    let rows = names.filter_map(|fact| {
        let kind = fact.name.strip_prefix("profile.")?.strip_suffix("_share")?;
        if general.contains(&kind) {
            return None;
        }
        let (was, error_was) = of_kind(before, &fact.name)?;
        let (is, error_is) = of_kind(after, &fact.name)?;
        if was == 0.0 && is == 0.0 {
            return None;
        }
        let half = HALF * error_was.hypot(error_is);
        let interval = Some((is - was - half, is - was + half));
        let label = format!("on CPU: {}", kind.replace('_', " "));
        Some(row(
            target,
            &label,
            "us",
            (was, is),
            interval,
            "numbers of samples",
        ))
    });
    rows.collect()
}

fn waits(target: &str, before: &FactSet, after: &FactSet) -> Vec<AgainstRow> {
    let names = before.values(catalogue());
    let names = names.into_iter().filter(|fact| fact.target == target);
    let rows = names.filter_map(|fact| {
        let reason = fact
            .name
            .strip_prefix("blocked.")?
            .strip_suffix("_us_per_request")?;
        let was = fact.value?;
        let is = after.view(target).value(&fact.name)?;
        let label = format!("waiting for {reason}");
        Some(unsure(
            target,
            &label,
            "us",
            (was, is),
            "one pass each: no interval",
        ))
    });
    rows.collect()
}

fn calls(before: &TrialRecord, after: &TrialRecord) -> Vec<AgainstRow> {
    let of = |trial: &TrialRecord| trial.examination.as_ref()?.signature.clone();
    let (Some(was), Some(is)) = (of(before), of(after)) else {
        return Vec::new();
    };
    let changes = signature_diff(&was, &is).into_iter();
    let rows = changes.map(|change| {
        let label = format!("{} ({})", change.call, change.class.name());
        let noise = "counts per request repeat within 1 %";
        unsure(
            &change.target,
            &label,
            "calls",
            (change.before, change.after),
            noise,
        )
    });
    rows.collect()
}

fn row(
    target: &str,
    label: &str,
    unit: &str,
    (before, after): (f64, f64),
    interval: Option<(f64, f64)>,
    noise: &str,
) -> AgainstRow {
    let Some((low, high)) = interval else {
        return unsure(target, label, unit, (before, after), "no interval");
    };
    AgainstRow {
        differs: low > 0.0 || high < 0.0,
        interval: Some((low, high)),
        ..unsure(target, label, unit, (before, after), noise)
    }
}

/// Without an interval: what is clearly more than noise is shown, and that it has none is said.
fn unsure(
    target: &str,
    label: &str,
    unit: &str,
    (before, after): (f64, f64),
    noise: &str,
) -> AgainstRow {
    let (low, high) = (before.min(after), before.max(after));
    let least = if unit == "us" { LEAST_US } else { 0.0 };
    AgainstRow {
        target: target.to_owned(),
        row: label.to_owned(),
        unit: unit.to_owned(),
        before,
        after,
        interval: None,
        noise: noise.to_owned(),
        differs: high >= low * DIFFERS && high - low > least,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{counter, nginx, outcome, spec, thread};
    use record::{CallStats, Examination, FdClass, Profile, Signature, Stack, TargetSignature};

    /// A trial with so many samples, and `calls` of readv for 1,000 requests.
    fn trial(busy: f64, samples: u64, calls: u64) -> TrialRecord {
        let mut series = thread("web", 7, 7, busy, 0.0);
        series.push(counter("tcp.out_segs", 2_000.0));
        let readv = CallStats {
            call: "readv".into(),
            class: FdClass::Client,
            calls,
            ..CallStats::default()
        };
        let signature = Signature {
            requests: 1_000,
            targets: vec![TargetSignature {
                target: "web".into(),
                calls: Some(vec![readv]),
                ..TargetSignature::default()
            }],
            ..Signature::default()
        };
        let stack = Stack {
            target: "web".into(),
            pid: 7,
            thread: "web".into(),
            frames: vec![],
            weight: samples,
            state: None,
        };
        TrialRecord {
            id: 0,
            stage: "diagnose".into(),
            block: 0,
            levels: std::collections::BTreeMap::new(),
            load: spec(),
            state: record::TrialState::Complete,
            outcome: Some(outcome()),
            reported: None,
            targets: vec![nginx()],
            unavailable: vec![],
            warnings: vec![],
            series,
            hosts: Vec::new(),
            examination: Some(Examination {
                signature: Some(signature),
                profiles: vec![Profile {
                    kind: ProfileKind::OnCpu,
                    hz: 99,
                    samples,
                    lost: 0,
                    unwound: 0,
                    frames: vec![],
                    stacks: vec![stack],
                }],
                ..Examination::default()
            }),
            files: std::collections::BTreeMap::new(),
        }
    }

    fn facts(cpu_us: f64, gzip: f64, disk_us: f64) -> FactSet {
        let mut facts = FactSet::default();
        facts.targets.push("web".into());
        for (name, value) in [
            ("cpu.us_per_request", cpu_us),
            ("profile.compression_share", gzip),
            ("profile.kernel_share", 0.5),
            ("blocked.disk_us_per_request", disk_us),
        ] {
            facts.known("web", name, value, "test");
        }
        facts
    }

    fn differing(rows: &[AgainstRow]) -> Vec<&str> {
        let differ = rows.iter().filter(|row| row.differs);
        differ.map(|row| row.row.as_str()).collect()
    }

    #[test]
    fn what_grew_is_shown_and_what_did_not_is_not() {
        let (before, after) = (trial(0.3, 500, 1_000), trial(0.6, 500, 3_000));
        let (was, is) = (facts(100.0, 0.1, 5.0), facts(200.0, 0.5, 500.0));
        let rows = against((&before, &was), (&after, &is));
        let differ = differing(&rows);
        assert_eq!(
            differ,
            [
                "waiting for disk",
                "cpu",
                "on CPU: compression",
                "readv (client)"
            ]
        );
        let gzip = rows
            .iter()
            .find(|row| row.row.starts_with("on CPU"))
            .unwrap();
        let (low, high) = gzip.interval.unwrap();
        assert!(low < 90.0 && 90.0 < high && low > 70.0, "{gzip:?}");
    }

    #[test]
    fn the_same_twice_differs_in_nothing() {
        let (a, b) = (trial(0.3, 500, 1_000), trial(0.3, 480, 1_010));
        // A share of few samples has a wide interval.
        let (was, is) = (facts(100.0, 0.10, 5.0), facts(100.0, 0.12, 5.5));
        let rows = against((&a, &was), (&b, &is));
        assert_eq!(differing(&rows), [""; 0]);
        assert!(rows.len() >= 3, "{rows:?}");
    }
}
