//! Did a change do what its cause predicts? A verdict over interleaved blocks and two signatures.
//!
//! A block holds three loads in turning order: the server as it is, its identical twin, and the changed one. The
//! twins say what the host does by itself (A/A); the change has to go beyond that. *Proved* needs three
//! things at once: the metric moved for the better beyond the noise (and no other for the worse), the mechanism's own
//! signal moved as predicted, and a control signal did not move. The surprise: a metric that moved while the
//! signature stayed is not a success of the change but of the environment, and is reported as such.

use crate::contrast::{self, Family, Sample};
use crate::stats::median;
use crate::{Change, Proof, ProofRatio, Ratio, Status};

/// A control or an unmoved signature stays within this share of what it was: counts per request repeat
/// within one per cent, and one event per hundred requests is not a mechanism.
const UNMOVED: f64 = 0.10;
/// Events per request below which a count is as good as none.
const FEW: f64 = 0.02;
/// A mechanism has moved when its count changed by at least this share.
const MOVED: f64 = 0.25;
/// Fewer pairs than these have no interval of 95 % that assumes nothing of the noise (see `contrast`).
pub const FEWEST_BLOCKS: usize = 6;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Successes per second, more is better.
    Rate,
    /// CPU time of the server per request, microseconds, less is better.
    CpuPerRequest,
    /// Median response time, ns, less is better.
    P50,
    /// 99th percentile of the response time, ns, less is better.
    P99,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 4] = [
        Metric::Rate,
        Metric::CpuPerRequest,
        Metric::P50,
        Metric::P99,
    ];

    /// Name in the catalogue and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Rate => "rate_per_s",
            Metric::CpuPerRequest => "cpu_us_per_request",
            Metric::P50 => "response_ns_p50",
            Metric::P99 => "response_ns_p99",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Metric::Rate => "1/s",
            Metric::CpuPerRequest => "us",
            Metric::P50 | Metric::P99 => "ns",
        }
    }

    const fn more_is_better(self) -> bool {
        matches!(self, Metric::Rate)
    }
}

/// One load's figures; `None` where it had none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arm {
    /// Successes per second.
    pub rate_per_s: Option<f64>,
    /// CPU of all its processes per request, microseconds.
    pub cpu_us_per_request: Option<f64>,
    /// Median response time, ns.
    pub p50_ns: Option<f64>,
    /// 99th percentile, ns.
    pub p99_ns: Option<f64>,
    /// Share of failed requests.
    pub error_share: f64,
}

impl Arm {
    fn of(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Rate => self.rate_per_s,
            Metric::CpuPerRequest => self.cpu_us_per_request,
            Metric::P50 => self.p50_ns,
            Metric::P99 => self.p99_ns,
        }
    }
}

/// The measured blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    /// The server as it is.
    pub unchanged: Vec<Arm>,
    /// Its twin, in the same blocks.
    pub twin: Vec<Arm>,
    /// With the change, in the same blocks.
    pub changed: Vec<Arm>,
}

/// A signal from the signature passes of both arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    /// Fact's name.
    pub signal: String,
    /// Its unit.
    pub unit: String,
    /// Without the change; `None` when it could not be seen.
    pub before: Option<f64>,
    /// With it.
    pub after: Option<f64>,
    /// Predicted: it falls (`true`) or rises.
    pub falls: bool,
}

/// A metric over the blocks.
struct Measured {
    metric: Metric,
    before: f64,
    after: f64,
    effect: Ratio,
    noise: Ratio,
}

impl Measured {
    fn of(metric: Metric, blocks: &Blocks) -> Option<Self> {
        let pairs = |a: &[Arm], b: &[Arm]| -> Vec<f64> {
            a.iter()
                .zip(b)
                .filter_map(|(a, b)| Some(b.of(metric)? / a.of(metric)?))
                .collect()
        };
        let ratio = |pairs: &[f64]| contrast::ratio(&Sample::pairs(pairs), Family::ONE);
        let values =
            |arms: &[Arm]| -> Vec<f64> { arms.iter().filter_map(|a| a.of(metric)).collect() };
        Some(Self {
            metric,
            before: median(&values(&blocks.unchanged))?,
            after: median(&values(&blocks.changed))?,
            effect: ratio(&pairs(&blocks.unchanged, &blocks.changed))?,
            noise: ratio(&pairs(&blocks.unchanged, &blocks.twin))?,
        })
    }

    /// Largest relative distance of the twins that the interval leaves possible.
    fn noise_floor(&self) -> f64 {
        (self.noise.high - 1.0)
            .abs()
            .max((self.noise.low - 1.0).abs())
    }

    /// Improvement as a factor above 1 (worse: below).
    fn better_by(&self) -> f64 {
        let ratio = self.effect.ratio;
        if self.metric.more_is_better() {
            ratio
        } else {
            1.0 / ratio
        }
    }

    /// The interval excludes 1 and the median lies outside the twins' noise.
    fn beyond_noise(&self) -> bool {
        self.beyond(self.noise_floor())
    }

    fn beyond(&self, noise: f64) -> bool {
        let excludes = self.effect.low > 1.0 || self.effect.high < 1.0;
        excludes && (self.effect.ratio - 1.0).abs() > noise
    }

    fn row(&self, role: &str) -> ProofRatio {
        let (ratio, after) = match role {
            "noise" => (&self.noise, self.before * self.noise.ratio),
            _ => (&self.effect, self.after),
        };
        ProofRatio {
            role: role.to_owned(),
            signal: self.metric.name().to_owned(),
            unit: self.metric.unit().to_owned(),
            before: self.before,
            after,
            ratio: Some(ratio.ratio),
            interval: ratio.interval(),
            as_predicted: match role {
                "noise" => (ratio.low..=ratio.high).contains(&1.0),
                _ => self.beyond_noise() && self.better_by() > 1.0,
            },
        }
    }
}

impl Mechanism {
    fn change(&self) -> Option<(f64, f64)> {
        Some((self.before?, self.after?))
    }

    fn moved_as_predicted(&self) -> Option<bool> {
        let (before, after) = self.change()?;
        let (from, to) = if self.falls {
            (before, after)
        } else {
            (after, before)
        };
        Some(from > FEW && to <= from * (1.0 - MOVED))
    }

    fn stayed(&self) -> Option<bool> {
        let (before, after) = self.change()?;
        let largest = before.abs().max(after.abs());
        Some((after - before).abs() <= (largest * UNMOVED).max(FEW))
    }

    fn row(&self, role: &str, as_predicted: Option<bool>) -> Option<ProofRatio> {
        let (before, after) = self.change()?;
        Some(ProofRatio {
            role: role.to_owned(),
            signal: self.signal.clone(),
            unit: self.unit.clone(),
            before,
            after,
            ratio: (before != 0.0).then(|| after / before),
            interval: None,
            as_predicted: as_predicted.unwrap_or(false),
        })
    }
}

/// Judges a change. `metrics` are those that the cause predicts to improve, the most telling first: one of them must,
/// and none may get worse. `mechanism` is what the change is meant to move, `control` what it must leave alone;
/// `error_limit` is the largest share of failed requests that a change may bring.
pub fn prove(
    blocks: &Blocks,
    metrics: &[Metric],
    mechanism: Option<&Mechanism>,
    control: Option<&Mechanism>,
    changes: Vec<Change>,
    error_limit: f64,
) -> Proof {
    let measured: Vec<Measured> = metrics
        .iter()
        .filter_map(|&metric| Measured::of(metric, blocks))
        .collect();
    let moved = mechanism.and_then(Mechanism::moved_as_predicted);
    let stayed = control.and_then(Mechanism::stayed);
    let mut evidence: Vec<ProofRatio> = Vec::new();
    for m in &measured {
        evidence.push(m.row("metric"));
    }
    evidence.extend(mechanism.and_then(|m| m.row("mechanism", moved)));
    evidence.extend(control.and_then(|c| c.row("control", stayed)));
    for m in &measured {
        evidence.push(m.row("noise"));
    }
    let (result, why) = judge(
        &measured,
        mechanism,
        control,
        new_errors(blocks, error_limit),
    );
    Proof {
        result: result.to_owned(),
        why,
        changes,
        evidence,
        calls: Vec::new(),
    }
}

/// Share of failed requests that the change brought; those that fail without it too are not its fault.
fn new_errors(blocks: &Blocks, error_limit: f64) -> Option<f64> {
    let share = |arms: &[Arm]| median(&arms.iter().map(|a| a.error_share).collect::<Vec<_>>());
    let with_change = share(&blocks.changed)?;
    let without = share(&blocks.unchanged).unwrap_or(0.0);
    (with_change > error_limit && with_change > without).then_some(with_change)
}

/// Notes that a proof was ended after `done` of `asked` blocks. With too few of them nothing is judged: the
/// result is then `stopped`, and the evidence is what was measured.
pub fn cut_short(proof: &mut Proof, done: usize, asked: usize, reason: &str) {
    if done < FEWEST_BLOCKS {
        proof.result = "stopped".to_owned();
        proof.why = format!(
            "{reason} after {done} of {asked} blocks, and fewer than {FEWEST_BLOCKS} say nothing with 95 % confidence"
        );
    } else {
        proof
            .why
            .push_str(&format!("; {reason} after {done} of {asked} blocks"));
    }
}

/// Judges the counter-test of a proved change: `back` has the fault again, in a fresh copy, and ran in turn with
/// `changed`. The metric that proved the change has to get worse again beyond its noise, and the mechanism
/// (`before`: with the change, `after`: with the fault back) has to return; otherwise nothing is proved.
pub fn put_back(proof: &mut Proof, changed: &[Arm], back: &[Arm], mechanism: Option<&Mechanism>) {
    let row_of = |proof: &Proof, role: &str, signal: &str| {
        let mut rows = proof.evidence.iter();
        rows.find(|r| r.role == role && r.signal == signal).cloned()
    };
    let proved = Metric::ALL
        .into_iter()
        .find(|metric| row_of(proof, "metric", metric.name()).is_some_and(|row| row.as_predicted));
    let blocks = Blocks {
        unchanged: changed.to_vec(),
        twin: changed.to_vec(),
        changed: back.to_vec(),
    };
    let Some(measured) = proved.and_then(|metric| Measured::of(metric, &blocks)) else {
        proof.result = "not_proved".to_owned();
        proof
            .why
            .push_str("; with the fault put back no request could be compared");
        return;
    };
    let noise = row_of(proof, "noise", measured.metric.name())
        .and_then(|row| row.interval)
        .map_or(0.0, |(low, high)| (high - 1.0).abs().max((low - 1.0).abs()));
    let returned = measured.beyond(noise) && measured.better_by() < 1.0;
    let mut row = measured.row("put_back");
    row.as_predicted = returned;
    proof.evidence.push(row);
    let rises = mechanism.map(|m| Mechanism {
        falls: !m.falls,
        ..m.clone()
    });
    let followed = rises.as_ref().and_then(Mechanism::moved_as_predicted);
    let rows = rises.as_ref().and_then(|m| m.row("put_back", followed));
    proof.evidence.extend(rows);
    let effect = effect(&measured);
    if returned && followed != Some(false) {
        let words = format!("; with the fault put back the effect returned ({effect})");
        proof.why.push_str(&words);
    } else {
        proof.result = "not_proved".to_owned();
        let words = format!("; but with the fault put back the effect did not return ({effect})");
        proof.why.push_str(&words);
    }
}

/// How far a cause has been shown after `proof`, which was `before`. Only a measurement that contradicts the cause
/// refutes it: not one that could not be made, was stopped, or could not see the mechanism.
pub fn status_after(before: Status, proof: &Proof) -> Status {
    let rows = |role: &'static str| proof.evidence.iter().filter(move |r| r.role == role);
    let improved = rows("metric").any(|r| r.as_predicted);
    let followed = rows("mechanism").next().map(|r| r.as_predicted);
    match proof.result.as_str() {
        "proved" => Status::Proved,
        "worse" => Status::Refuted,
        "not_proved" if !improved || followed == Some(false) => Status::Refuted,
        _ => before,
    }
}

fn judge(
    measured: &[Measured],
    mechanism: Option<&Mechanism>,
    control: Option<&Mechanism>,
    too_many_errors: Option<f64>,
) -> (&'static str, String) {
    if let Some(share) = too_many_errors {
        return (
            "worse",
            format!(
                "with the change {:.1} % of the requests failed",
                share * 100.0
            ),
        );
    }
    let Some(first) = measured.first() else {
        return (
            "not_possible",
            "one of the copies served no request that could be compared".to_owned(),
        );
    };
    let improved = measured
        .iter()
        .find(|m| m.beyond_noise() && m.better_by() > 1.0);
    let worsened = measured
        .iter()
        .find(|m| m.beyond_noise() && m.better_by() < 1.0);
    let moved = mechanism.and_then(Mechanism::moved_as_predicted);
    let stayed = control.and_then(Mechanism::stayed);
    match (improved, worsened, moved, stayed) {
        (Some(m), Some(w), _, _) => (
            "not_proved",
            format!("a trade, not a remedy: {}, but {}", effect(m), effect(w)),
        ),
        (Some(m), _, Some(true), Some(true) | None) => ("proved", proved(m, mechanism, control)),
        (Some(m), _, Some(true), Some(false)) => (
            "not_proved",
            format!(
                "{}, but {} moved too, which this change cannot do by its mechanism: something else changed with it",
                effect(m),
                control.map_or("the control", |c| c.signal.as_str())
            ),
        ),
        (Some(m), _, Some(false), _) => (
            "not_proved",
            format!(
                "{}, but {} did not follow: the environment changed its speed, or the change works another way",
                effect(m),
                mechanism.map_or("the mechanism", |c| c.signal.as_str())
            ),
        ),
        (Some(m), _, None, _) => (
            "not_proved",
            format!(
                "{}, but the mechanism's own signal could not be seen",
                effect(m)
            ),
        ),
        (None, Some(m), _, _) => ("worse", effect(m)),
        (None, None, moved, _) => (
            "not_proved",
            format!(
                "{} stayed within the noise of {:.1} % ({}){}",
                first.metric.name(),
                first.noise_floor() * 100.0,
                effect(first),
                match moved {
                    Some(true) =>
                        "; the mechanism did move, so the change works but is not worth much here",
                    _ => "",
                }
            ),
        ),
    }
}

fn effect(m: &Measured) -> String {
    let interval = m.effect.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({low:.2} to {high:.2})")
    });
    format!("{} x{:.2}{interval}", m.metric.name(), m.effect.ratio)
}

fn proved(m: &Measured, mechanism: Option<&Mechanism>, control: Option<&Mechanism>) -> String {
    let follow = |what: Option<&Mechanism>| {
        what.and_then(|w| {
            let (before, after) = w.change()?;
            Some(format!("{} {before:.2} -> {after:.2}", w.signal))
        })
    };
    let mut why = format!("{}, noise {:.1} %", effect(m), m.noise_floor() * 100.0);
    if let Some(text) = follow(mechanism) {
        why.push_str(&format!("; {text} as predicted"));
    }
    if let Some(text) = follow(control) {
        why.push_str(&format!("; control {text} unmoved"));
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(rate: f64) -> Arm {
        Arm {
            rate_per_s: Some(rate),
            cpu_us_per_request: Some(1e6 / rate),
            p50_ns: Some(1e9 / rate),
            p99_ns: Some(2e9 / rate),
            error_share: 0.0,
        }
    }

    /// Eight blocks; the host wanders by `noise`, the change brings `gain`.
    fn blocks(gain: f64, noise: f64) -> Blocks {
        let wander = |i: usize| 1.0 + noise * [0.0, 1.0, -1.0, 0.5][i % 4];
        let arms = |gain: f64, shift: usize| {
            (0..8)
                .map(|i| arm(1000.0 * gain * wander(i + shift)))
                .collect()
        };
        Blocks {
            unchanged: arms(1.0, 0),
            twin: arms(1.0, 1),
            changed: arms(gain, 2),
        }
    }

    fn mechanism(before: f64, after: f64) -> Mechanism {
        Mechanism {
            signal: "read.upstream.per_request".into(),
            unit: "1".into(),
            before: Some(before),
            after: Some(after),
            falls: true,
        }
    }

    fn result(blocks: &Blocks, mechanism: &Mechanism, control: &Mechanism) -> String {
        let metrics = [Metric::Rate];
        prove(
            blocks,
            &metrics,
            Some(mechanism),
            Some(control),
            vec![],
            0.01,
        )
        .result
    }

    #[test]
    fn proved_needs_metric_mechanism_and_control() {
        let falls = mechanism(10.0, 1.0);
        let stays = mechanism(1.0, 1.01);
        assert_eq!(result(&blocks(1.5, 0.02), &falls, &stays), "proved");
        // Each of the three alone takes it away.
        assert_eq!(result(&blocks(1.0, 0.02), &falls, &stays), "not_proved");
        assert_eq!(result(&blocks(1.5, 0.02), &stays, &stays), "not_proved");
        assert_eq!(result(&blocks(1.5, 0.02), &falls, &falls), "not_proved");
    }

    #[test]
    fn an_effect_within_the_twins_noise_proves_nothing() {
        assert_eq!(
            result(
                &blocks(1.05, 0.2),
                &mechanism(10.0, 1.0),
                &mechanism(1.0, 1.0)
            ),
            "not_proved"
        );
    }

    #[test]
    fn worse_is_said() {
        assert_eq!(
            result(
                &blocks(0.6, 0.02),
                &mechanism(10.0, 1.0),
                &mechanism(1.0, 1.0)
            ),
            "worse"
        );
        let mut failing = blocks(1.5, 0.02);
        failing.changed.iter_mut().for_each(|a| a.error_share = 0.5);
        assert_eq!(
            result(&failing, &mechanism(10.0, 1.0), &mechanism(1.0, 1.0)),
            "worse"
        );
    }

    #[test]
    fn an_unseen_mechanism_proves_nothing() {
        let unseen = Mechanism {
            after: None,
            ..mechanism(10.0, 1.0)
        };
        assert_eq!(
            result(&blocks(1.5, 0.02), &unseen, &mechanism(1.0, 1.0)),
            "not_proved"
        );
        let none = prove(
            &Blocks::default(),
            &[Metric::Rate],
            None,
            None,
            vec![],
            0.01,
        );
        assert_eq!(none.result, "not_possible");
    }

    #[test]
    fn less_is_better_for_costs() {
        let metrics = [Metric::CpuPerRequest, Metric::P50];
        let falls = mechanism(10.0, 1.0);
        let proof = prove(
            &blocks(1.5, 0.02),
            &metrics,
            Some(&falls),
            None,
            vec![],
            0.01,
        );
        assert_eq!(proof.result, "proved");
        assert!(proof.evidence[0].ratio.unwrap() < 0.7);
        assert!(
            proof
                .evidence
                .iter()
                .filter(|e| e.role == "noise")
                .all(|e| e.as_predicted)
        );
    }

    fn proved_proof() -> Proof {
        let (falls, stays) = (mechanism(10.0, 1.0), mechanism(1.0, 1.0));
        let (blocks, metrics) = (blocks(1.5, 0.02), [Metric::Rate]);
        prove(&blocks, &metrics, Some(&falls), Some(&stays), vec![], 0.01)
    }

    #[test]
    fn a_trade_is_no_remedy() {
        let mut trade = blocks(1.5, 0.02);
        for arm in &mut trade.changed {
            arm.p99_ns = arm.p99_ns.map(|ns| ns * 4.0);
        }
        let (falls, metrics) = (mechanism(10.0, 1.0), [Metric::Rate, Metric::P99]);
        let proof = prove(&trade, &metrics, Some(&falls), None, vec![], 0.01);
        assert_eq!(proof.result, "not_proved");
        assert!(proof.why.starts_with("a trade"), "{}", proof.why);
    }

    #[test]
    fn errors_that_were_there_before_are_not_the_changes_fault() {
        let mut mended = blocks(1.5, 0.02);
        mended
            .unchanged
            .iter_mut()
            .for_each(|a| a.error_share = 0.4);
        mended.changed.iter_mut().for_each(|a| a.error_share = 0.05);
        assert_eq!(
            result(&mended, &mechanism(10.0, 1.0), &mechanism(1.0, 1.0)),
            "proved"
        );
    }

    #[test]
    fn a_stopped_proof_keeps_what_it_has() {
        let mut few = proved_proof();
        let evidence = few.evidence.clone();
        cut_short(&mut few, 3, 8, "a person stopped it");
        assert_eq!(few.result, "stopped");
        assert_eq!(few.evidence, evidence);
        let mut enough = proved_proof();
        cut_short(&mut enough, 6, 8, "a person stopped it");
        assert_eq!(enough.result, "proved");
        assert!(
            enough
                .why
                .ends_with("a person stopped it after 6 of 8 blocks")
        );
    }

    #[test]
    fn the_effect_must_return_with_the_fault() {
        let check = |gain: f64, back: f64| {
            let mut proof = proved_proof();
            let turns = blocks(gain, 0.02);
            let mechanism = mechanism(1.0, back);
            put_back(
                &mut proof,
                &turns.unchanged,
                &turns.changed,
                Some(&mechanism),
            );
            let rows = proof.evidence.iter().filter(|r| r.role == "put_back");
            (
                proof.result.clone(),
                rows.map(|r| r.as_predicted).collect::<Vec<_>>(),
            )
        };
        assert_eq!(check(0.66, 10.0), ("proved".into(), vec![true, true]));
        assert_eq!(check(1.0, 10.0), ("not_proved".into(), vec![false, true]));
        assert_eq!(check(0.66, 1.0), ("not_proved".into(), vec![true, false]));
        // Faster still with the fault: whatever it is, it is not the fault.
        assert_eq!(check(1.5, 10.0), ("not_proved".into(), vec![false, true]));
    }

    #[test]
    fn only_a_contradiction_refutes() {
        let check = |proof: &Proof| status_after(Status::Supported, proof);
        let proved = proved_proof();
        assert_eq!(check(&proved), Status::Proved);
        let (falls, stays) = (mechanism(10.0, 1.0), mechanism(1.0, 1.0));
        let judged = |gain, mechanism: Option<&Mechanism>, control: Option<&Mechanism>| {
            let metrics = [Metric::Rate];
            prove(
                &blocks(gain, 0.02),
                &metrics,
                mechanism,
                control,
                vec![],
                0.01,
            )
        };
        assert_eq!(check(&judged(1.0, Some(&falls), None)), Status::Refuted);
        assert_eq!(check(&judged(0.6, Some(&falls), None)), Status::Refuted);
        assert_eq!(check(&judged(1.5, Some(&stays), None)), Status::Refuted);
        // Faster, but by what could not be seen, or something else changed too.
        assert_eq!(check(&judged(1.5, None, None)), Status::Supported);
        assert_eq!(
            check(&judged(1.5, Some(&falls), Some(&falls))),
            Status::Supported
        );
        let mut stopped = proved;
        cut_short(&mut stopped, 1, 8, "a person stopped it");
        assert_eq!(check(&stopped), Status::Supported);
    }
}
