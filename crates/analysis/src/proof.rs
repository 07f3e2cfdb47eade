//! Did a change do what its cause predicts? A verdict over interleaved blocks and two signatures.
//!
//! A block holds three loads, one of each copy: the server as it is (U), its identical twin (T), and the changed
//! one (C). *Proved* needs three things at once: the one metric that was named before the first load moved for the
//! better beyond the noise (and no other for the worse), the mechanism's own signal moved as predicted, and a control
//! signal did not move. The surprise: a metric that moved while the signature stayed is not a success of the change
//! but of the environment, and is reported as such.
//!
//! **The test.** All ratios are Hodges-Lehmann estimates on logarithms with Wilcoxon's intervals (see `contrast`), so
//! half and twice are equally far from equal. With `c = ln C/U`, `d = ln C/T`, `a = ln T/U` over the blocks, signs
//! turned so that above 0 is better, the metric has improved when
//!
//! ```text
//! low(c) > 0  and  low(d) > 0            both 95 % intervals exclude "no better"
//! min(c, d) > |a|                        and the change is further from either copy than these are from each other
//! ```
//!
//! The first line is the min test for a treatment that must beat each of several others (Laska and Meisner 1989), an
//! intersection-union test (Berger 1982): each part has the level 2.5 % on its side, so the whole has at most 2.5 %,
//! and no correction is due. Each part assumes only that two equal copies could change places inside a block. The
//! pooled contrast `ln C - (ln U + ln T)/2` would use the twin with a smaller variance (1.5 instead of 2 of a
//! load's), but its sign is not symmetric where noise is not (one slow load in a block makes it positive for two of
//! three arms), and in simulations it proved up to 9 % of changes that did nothing.
//!
//! The second line is what the twin adds. A copy differs from its like by where its memory came to lie (Mytkowicz et
//! al. 2009), and by as much in every block, so no number of blocks shows it. Two copies have one degree of freedom
//! for that: a test by Student's t would ask for 5.5 times their distance and find nothing. Once the distance holds 5
//! % as long as copies differ by no more than two thirds of one load's noise (`simulated::proofs`; `bench/README.md`
//! has what copies of a real server differ by).
//!
//! Simulated, a proof of [`BLOCKS`] blocks calls a change that does nothing an improvement in at most 1 % of the cases,
//! whatever drifts, changes its speed or has outliers, and finds a true effect of 10 % nine times in ten at 3 % of
//! noise a load, and seven times in ten at 5 %.
//!
//! **The other metrics** cannot prove. They are tested for having become worse in the same way, corrected by Holm's
//! procedure among themselves, because any of them takes the proof away.
//!
//! Sources: E. Laska, M. Meisner: Testing Whether an Identified Treatment Is Best, Biometrics 45(4), 1989. R. Berger:
//! Multiparameter Hypothesis Testing and Acceptance Sampling, Technometrics 24(4), 1982. T. Mytkowicz, A. Diwan, M.
//! Hauswirth, P. Sweeney: Producing Wrong Data Without Doing Anything Obviously Wrong, ASPLOS 2009.

use crate::contrast::{self, ALPHA, Family, Sample};
use crate::stats::median;
use crate::{Change, JudgedBy, Proof, ProofRatio, Ratio, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A control or an unmoved signature stays within this share of what it was: counts per request repeat
/// within one per cent, and one event per hundred requests is not a mechanism.
const UNMOVED: f64 = 0.10;
/// Events per request below which a count is as good as none.
const FEW: f64 = 0.02;
/// A mechanism has moved when its count changed by at least this share.
const MOVED: f64 = 0.25;
/// Below this improvement nothing is named as what limits a server (see `rank`): an interval that leaves more possible
/// speaks against no cause.
const WORTH: f64 = 1.10;
/// Blocks of a proof; the figures in the module's head are for so many.
pub const BLOCKS: usize = 8;
/// Fewer pairs than these have no interval of 95 % that assumes nothing of the noise (see `contrast`).
pub const FEWEST_BLOCKS: usize = 6;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Metric {
    /// Successes per second, more is better.
    #[serde(rename = "rate_per_s")]
    Rate,
    /// CPU time of the server per request, microseconds, less is better.
    #[serde(rename = "cpu_us_per_request")]
    CpuPerRequest,
    /// Median response time, ns, less is better.
    #[serde(rename = "response_ns_p50")]
    P50,
    /// 99th percentile of the response time, ns, less is better.
    #[serde(rename = "response_ns_p99")]
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

    /// As people call it.
    pub const fn words(self) -> &'static str {
        match self {
            Metric::Rate => "the rate",
            Metric::CpuPerRequest => "CPU time per request",
            Metric::P50 => "the median response time",
            Metric::P99 => "the 99th percentile of the response time",
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

    /// Metrics that must not get worse where this one decides. CPU per request is none of them: whoever waits less, or
    /// runs on more cores, may well spend more of it.
    const fn secondary(self) -> &'static [Metric] {
        match self {
            Metric::CpuPerRequest => &[Metric::Rate, Metric::P50],
            Metric::Rate => &[Metric::P50, Metric::P99],
            Metric::P50 => &[Metric::P99, Metric::Rate],
            Metric::P99 => &[Metric::P50, Metric::Rate],
        }
    }

    /// A log ratio with its sign turned so that above 0 is better.
    fn better(self, ratio: f64) -> f64 {
        if self.more_is_better() {
            ratio.ln()
        } else {
            -ratio.ln()
        }
    }
}

/// One load's figures; `None` where it had none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arm {
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

/// Whose turn it is in a block: every arm is first, second and last equally often and follows every other one equally
/// often (six blocks of three are Williams' design); odd blocks run backwards.
pub fn turn(block: usize, turn: usize, arms: usize) -> usize {
    let at = if block.is_multiple_of(2) {
        turn
    } else {
        arms - 1 - turn
    };
    (at + block / 2) % arms
}

/// A signal from the signature passes of both arms.
#[derive(Clone, Debug, PartialEq)]
pub struct Mechanism {
    /// Fact's name.
    pub signal: String,
    pub unit: String,
    /// Without the change; `None` when it could not be seen.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Predicted: it falls (`true`) or rises.
    pub falls: bool,
}

/// What a proof must see, all but the figures of the two signatures named before the first load.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The one metric that decides.
    pub judged_by: JudgedBy,
    /// What the change is meant to move; `None` where no single cause predicts it.
    pub mechanism: Option<Mechanism>,
    /// What it must leave alone; `None` where there is no such signal.
    pub control: Option<Mechanism>,
}

/// Where a metric went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shift {
    Better,
    Worse,
    /// Not beyond the noise.
    Neither,
}

/// A metric over the blocks.
struct Measured {
    metric: Metric,
    before: f64,
    twin: f64,
    after: f64,
    effect: Ratio,
    against_twin: Ratio,
    noise: Ratio,
}

impl Measured {
    fn of(metric: Metric, blocks: &Blocks) -> Option<Self> {
        let middle = |arms: &[Arm]| {
            let values: Vec<f64> = arms.iter().filter_map(|a| a.of(metric)).collect();
            median(&values)
        };
        Some(Self {
            metric,
            before: middle(&blocks.unchanged)?,
            twin: middle(&blocks.twin)?,
            after: middle(&blocks.changed)?,
            effect: ratio(metric, &blocks.unchanged, &blocks.changed)?,
            against_twin: ratio(metric, &blocks.twin, &blocks.changed)?,
            noise: ratio(metric, &blocks.unchanged, &blocks.twin)?,
        })
    }

    /// Beyond both copies without the change, and further from each than they are from each other.
    fn shift(&self) -> Shift {
        let noise = self.noise.ratio;
        let of_each = [&self.effect, &self.against_twin].map(|r| shift(self.metric, r, noise));
        match of_each {
            [a, b] if a == b => a,
            _ => Shift::Neither,
        }
    }

    /// Probability of having become so much worse against both copies by chance, not yet corrected.
    fn p_of_worse(&self) -> f64 {
        let of_each = [&self.effect, &self.against_twin].map(|r| {
            let worse = self.metric.better(r.ratio) < 0.0;
            r.p.filter(|_| worse).unwrap_or(1.0)
        });
        of_each[0].max(of_each[1])
    }

    fn row(&self, role: &str, ratio: &Ratio, as_predicted: bool) -> ProofRatio {
        let (before, after) = match role {
            NOISE => (self.before, self.twin),
            AGAINST_TWIN => (self.twin, self.after),
            _ => (self.before, self.after),
        };
        ProofRatio {
            role: role.to_owned(),
            signal: self.metric.name().to_owned(),
            unit: self.metric.unit().to_owned(),
            before,
            after,
            ratio: Some(ratio.ratio),
            interval: ratio.interval(),
            as_predicted,
        }
    }

    /// The two comparisons that decide.
    fn deciding(&self) -> [ProofRatio; 2] {
        let row = |role, ratio| {
            let shift = shift(self.metric, ratio, self.noise.ratio);
            self.row(role, ratio, shift == Shift::Better)
        };
        [
            row(METRIC, &self.effect),
            row(AGAINST_TWIN, &self.against_twin),
        ]
    }

    /// The twins: nothing was changed between them, so their interval holds 1.
    fn twins(&self) -> ProofRatio {
        let equal = (self.noise.low..=self.noise.high).contains(&1.0);
        self.row(NOISE, &self.noise, equal)
    }
}

/// Roles of evidence.
const METRIC: &str = "metric";
const AGAINST_TWIN: &str = "against_twin";
const SECONDARY: &str = "secondary";
const MECHANISM: &str = "mechanism";
const CONTROL: &str = "control";
const NOISE: &str = "noise";
const PUT_BACK: &str = "put_back";

/// The metric of `to` over that of `from`, block by block.
fn ratio(metric: Metric, from: &[Arm], to: &[Arm]) -> Option<Ratio> {
    let pairs: Vec<f64> = from
        .iter()
        .zip(to)
        .filter_map(|(a, b)| Some(b.of(metric)? / a.of(metric)?))
        .collect();
    contrast::ratio(&Sample::pairs(&pairs), Family::ONE)
}

/// One comparison: its interval excludes 1, and its estimate is further from 1 than the twins' on logarithms.
fn shift(metric: Metric, ratio: &Ratio, noise: f64) -> Shift {
    let significant = ratio.p.is_some_and(|p| p <= ALPHA);
    let by = metric.better(ratio.ratio);
    match significant && by.abs() > noise.ln().abs() {
        true if by > 0.0 => Shift::Better,
        true => Shift::Worse,
        false => Shift::Neither,
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

/// Judges a change by what was expected of it before; `error_limit` is the largest share of failed requests that it may
/// bring.
pub fn prove(
    blocks: &Blocks,
    expected: &Expected,
    changes: Vec<Change>,
    error_limit: f64,
) -> Proof {
    let metric = expected.judged_by.metric;
    let primary = Measured::of(metric, blocks);
    let others: Vec<Measured> = metric
        .secondary()
        .iter()
        .filter_map(|&metric| Measured::of(metric, blocks))
        .collect();
    let worse = worsened(&others);
    let (mechanism, control) = (expected.mechanism.as_ref(), expected.control.as_ref());
    let mut evidence: Vec<ProofRatio> = Vec::new();
    evidence.extend(primary.iter().flat_map(Measured::deciding));
    let moved = mechanism.and_then(Mechanism::moved_as_predicted);
    evidence.extend(mechanism.and_then(|m| m.row(MECHANISM, moved)));
    let stayed = control.and_then(Mechanism::stayed);
    evidence.extend(control.and_then(|c| c.row(CONTROL, stayed)));
    for (m, worse) in others.iter().zip(&worse) {
        evidence.push(m.row(SECONDARY, &m.effect, !worse));
    }
    evidence.extend(primary.iter().chain(&others).map(Measured::twins));
    let (result, why) = match new_errors(blocks, error_limit) {
        Some(share) => {
            let why = format!(
                "with the change {:.1} % of the requests failed",
                share * 100.0
            );
            ("worse", why)
        }
        None => {
            let worst = others.iter().zip(&worse).find(|(_, worse)| **worse);
            judge(primary.as_ref(), worst.map(|(m, _)| m), expected)
        }
    };
    Proof {
        result: result.to_owned(),
        why,
        judged_by: Some(expected.judged_by.clone()),
        changes,
        evidence,
        calls: Vec::new(),
        predicted: None,
    }
}

/// Which of the secondary metrics became worse, after Holm's correction and beyond the twins' noise.
fn worsened(others: &[Measured]) -> Vec<bool> {
    let mut tested: Vec<Ratio> = others
        .iter()
        .map(|m| Ratio {
            p: Some(m.p_of_worse()),
            ..m.effect
        })
        .collect();
    contrast::correct(&mut tested.iter_mut().collect::<Vec<_>>(), false);
    let tested = others.iter().zip(tested);
    tested
        .map(|(m, corrected)| corrected.differs() == Some(true) && m.shift() == Shift::Worse)
        .collect()
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

/// Result of a proof of no change whose copies were found to be equal.
pub const EQUAL: &str = "equal";

/// Reads a proof of no change: the third copy is `equal` to the others by the metric that decides, or `differs`, which
/// may happen in 5 % of the cases.
pub fn read_as_aa(proof: &mut Proof) {
    if !matches!(proof.result.as_str(), "not_proved" | "worse") {
        return;
    }
    let decides = |r: &&ProofRatio| r.role == METRIC || r.role == AGAINST_TWIN;
    let better = proof
        .evidence
        .iter()
        .filter(decides)
        .all(|r| r.as_predicted);
    proof.result = match better || proof.result == "worse" {
        true => "differs",
        false => EQUAL,
    }
    .to_owned();
    if let Some((numbers, _)) = proof.why.split_once(", but the mechanism's own signal") {
        proof.why = numbers.to_owned();
    }
}

/// Judges the counter-test of a proved change: `back` has the fault again, in a fresh copy, and ran in turn with
/// `changed`. The metric that the proof was judged by has to get worse again beyond the twins' noise, and the mechanism
/// (`before`: with the change, `after`: with the fault back) has to return; otherwise nothing is proved.
pub fn put_back(proof: &mut Proof, changed: &[Arm], back: &[Arm], mechanism: Option<&Mechanism>) {
    let Some(metric) = proof.judged_by.as_ref().map(|j| j.metric) else {
        return;
    };
    let middle = |arms: &[Arm]| {
        let values: Vec<f64> = arms.iter().filter_map(|a| a.of(metric)).collect();
        median(&values)
    };
    let measured = ratio(metric, changed, back).zip(middle(changed).zip(middle(back)));
    let Some((ratio, (before, after))) = measured else {
        proof.result = "not_proved".to_owned();
        proof
            .why
            .push_str("; with the fault put back no request could be compared");
        return;
    };
    let mut rows = proof.evidence.iter();
    let twins = rows.find(|r| r.role == NOISE && r.signal == metric.name());
    let noise = twins.and_then(|row| row.ratio).unwrap_or(1.0);
    let returned = shift(metric, &ratio, noise) == Shift::Worse;
    proof.evidence.push(ProofRatio {
        role: PUT_BACK.to_owned(),
        signal: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        before,
        after,
        ratio: Some(ratio.ratio),
        interval: ratio.interval(),
        as_predicted: returned,
    });
    let rises = mechanism.map(|m| Mechanism {
        falls: !m.falls,
        ..m.clone()
    });
    let followed = rises.as_ref().and_then(Mechanism::moved_as_predicted);
    let rows = rises.as_ref().and_then(|m| m.row(PUT_BACK, followed));
    proof.evidence.extend(rows);
    let effect = format!("{} {}", metric.name(), words(&ratio));
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
/// refutes it: not one that could not be made, was stopped, could not see the mechanism, or left an improvement
/// possible that would have been worth the change.
pub fn status_after(before: Status, proof: &Proof) -> Status {
    let decides = |r: &&ProofRatio| r.role == METRIC || r.role == AGAINST_TWIN;
    let deciding: Vec<&ProofRatio> = proof.evidence.iter().filter(decides).collect();
    let improved = !deciding.is_empty() && deciding.iter().all(|r| r.as_predicted);
    let open = !improved && deciding.iter().any(|r| leaves_an_improvement(r));
    let mut rows = proof.evidence.iter();
    let followed = rows.find(|r| r.role == MECHANISM).map(|r| r.as_predicted);
    match proof.result.as_str() {
        "proved" => Status::Proved,
        "worse" => Status::Refuted,
        "not_proved" if improved && followed == Some(false) => Status::Refuted,
        "not_proved" if !improved && !open => Status::Refuted,
        _ => before,
    }
}

/// The interval holds an improvement that would have been worth the change.
fn leaves_an_improvement(row: &ProofRatio) -> bool {
    let metric = Metric::ALL.into_iter().find(|m| m.name() == row.signal);
    let ends = metric.zip(row.interval);
    ends.is_some_and(|(m, (low, high))| m.better(low).max(m.better(high)) > WORTH.ln())
}

fn judge(
    primary: Option<&Measured>,
    worse: Option<&Measured>,
    expected: &Expected,
) -> (&'static str, String) {
    let Some(m) = primary else {
        return (
            "not_possible",
            "one of the copies served no request that could be compared".to_owned(),
        );
    };
    let (mechanism, control) = (expected.mechanism.as_ref(), expected.control.as_ref());
    let moved = mechanism.and_then(Mechanism::moved_as_predicted);
    let stayed = control.and_then(Mechanism::stayed);
    match (m.shift(), worse) {
        (Shift::Better, Some(w)) => (
            "not_proved",
            format!("a trade, not a remedy: {}, but {}", effect(m), effect(w)),
        ),
        (Shift::Better, None) => match (moved, stayed) {
            (Some(true), Some(true) | None) => ("proved", proved(m, mechanism, control)),
            (Some(true), Some(false)) => (
                "not_proved",
                format!(
                    "{}, but {} moved too, which this change cannot do by its mechanism: something else changed with it",
                    effect(m),
                    control.map_or("the control", |c| c.signal.as_str())
                ),
            ),
            (Some(false), _) => (
                "not_proved",
                format!(
                    "{}, but {} did not follow: the environment changed its speed, or the change works another way",
                    effect(m),
                    mechanism.map_or("the mechanism", |c| c.signal.as_str())
                ),
            ),
            (None, _) => (
                "not_proved",
                format!(
                    "{}, but the mechanism's own signal could not be seen",
                    effect(m)
                ),
            ),
        },
        (Shift::Worse, _) => ("worse", effect(m)),
        (Shift::Neither, Some(w)) => ("worse", format!("{}; {}", within_noise(m), effect(w))),
        (Shift::Neither, None) => (
            "not_proved",
            format!(
                "{}{}",
                within_noise(m),
                match moved {
                    Some(true) =>
                        "; the mechanism did move, so the change works but is not worth much here",
                    _ => "",
                }
            ),
        ),
    }
}

fn within_noise(m: &Measured) -> String {
    format!(
        "{} is not better than both copies without the change by more than they differ from each other ({})",
        m.metric.name(),
        numbers(m)
    )
}

fn effect(m: &Measured) -> String {
    format!("{} {}", m.metric.name(), numbers(m))
}

/// `x0.78 (0.74 to 0.81), against the twin x0.79 (0.75 to 0.82), the twins x1.01`.
fn numbers(m: &Measured) -> String {
    format!(
        "{}, against the twin {}, the twins x{:.2}",
        words(&m.effect),
        words(&m.against_twin),
        m.noise.ratio
    )
}

fn words(ratio: &Ratio) -> String {
    let interval = ratio.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({low:.2} to {high:.2})")
    });
    format!("x{:.2}{interval}", ratio.ratio)
}

fn proved(m: &Measured, mechanism: Option<&Mechanism>, control: Option<&Mechanism>) -> String {
    let follow = |what: Option<&Mechanism>| {
        what.and_then(|w| {
            let (before, after) = w.change()?;
            Some(format!("{} {before:.2} -> {after:.2}", w.signal))
        })
    };
    let mut why = effect(m);
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

    fn expected(
        metric: Metric,
        mechanism: Option<&Mechanism>,
        control: Option<&Mechanism>,
    ) -> Expected {
        Expected {
            judged_by: JudgedBy {
                metric,
                why: "a test".into(),
            },
            mechanism: mechanism.cloned(),
            control: control.cloned(),
        }
    }

    fn judged(
        blocks: &Blocks,
        metric: Metric,
        mechanism: Option<&Mechanism>,
        control: Option<&Mechanism>,
    ) -> Proof {
        let expected = expected(metric, mechanism, control);
        prove(blocks, &expected, vec![], 0.01)
    }

    fn result(blocks: &Blocks, mechanism: &Mechanism, control: &Mechanism) -> String {
        judged(blocks, Metric::Rate, Some(mechanism), Some(control)).result
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
        let none = judged(&Blocks::default(), Metric::Rate, None, None);
        assert_eq!(none.result, "not_possible");
    }

    #[test]
    fn less_is_better_for_costs() {
        let falls = mechanism(10.0, 1.0);
        let proof = judged(
            &blocks(1.5, 0.02),
            Metric::CpuPerRequest,
            Some(&falls),
            None,
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
        let blocks = blocks(1.5, 0.02);
        judged(&blocks, Metric::Rate, Some(&falls), Some(&stays))
    }

    #[test]
    fn a_trade_is_no_remedy() {
        let mut trade = blocks(1.5, 0.02);
        for arm in &mut trade.changed {
            arm.p99_ns = arm.p99_ns.map(|ns| ns * 4.0);
        }
        let falls = mechanism(10.0, 1.0);
        let proof = judged(&trade, Metric::Rate, Some(&falls), None);
        assert_eq!(proof.result, "not_proved");
        assert!(proof.why.starts_with("a trade"), "{}", proof.why);
    }

    /// Any of several metrics used to prove, each at 5 % by itself.
    #[test]
    fn a_metric_that_was_not_named_before_proves_nothing() {
        let mut faster = blocks(1.0, 0.02);
        for arm in &mut faster.changed {
            arm.p50_ns = arm.p50_ns.map(|ns| ns / 2.0);
            arm.p99_ns = arm.p99_ns.map(|ns| ns / 2.0);
        }
        let (falls, stays) = (mechanism(10.0, 1.0), mechanism(1.0, 1.0));
        assert_eq!(result(&faster, &falls, &stays), "not_proved");
        let named = judged(&faster, Metric::P50, Some(&falls), Some(&stays));
        assert_eq!(named.result, "proved");
        assert_eq!(named.judged_by.unwrap().metric, Metric::P50);
    }

    /// Blocks of one speed each, so that every ratio is exact.
    fn steady(unchanged: f64, twin: f64, changed: f64) -> Blocks {
        let arms = |rate: f64| (0..8).map(|_| arm(rate)).collect();
        Blocks {
            unchanged: arms(unchanged),
            twin: arms(twin),
            changed: arms(changed),
        }
    }

    /// On a linear scale x2 is twice as far from 1 as x0.5, and a noise of 60 % lay between the two.
    #[test]
    fn half_and_twice_are_equally_far_from_the_noise() {
        let falls = mechanism(10.0, 1.0);
        for (noise, found) in [
            (1.3, true),
            (1.0 / 1.3, true),
            (2.2, false),
            (1.0 / 2.2, false),
        ] {
            let of = |changed: f64, metric| {
                let middle = f64::sqrt(noise);
                let blocks = steady(1_000.0, 1_000.0 * noise, 1_000.0 * middle * changed);
                judged(&blocks, metric, Some(&falls), None).result
            };
            let (better, worse) = match found {
                true => ("proved", "worse"),
                false => ("not_proved", "not_proved"),
            };
            assert_eq!(of(2.0, Metric::Rate), better, "{noise}");
            assert_eq!(of(0.5, Metric::Rate), worse, "{noise}");
            assert_eq!(of(2.0, Metric::CpuPerRequest), better, "{noise}");
            assert_eq!(of(0.5, Metric::CpuPerRequest), worse, "{noise}");
        }
    }

    #[test]
    fn better_than_one_of_the_twins_is_not_better() {
        let falls = mechanism(10.0, 1.0);
        // 30 % faster than the server as it is, and no faster than its twin.
        let proof = judged(
            &steady(1_000.0, 1_300.0, 1_300.0),
            Metric::Rate,
            Some(&falls),
            None,
        );
        assert_eq!(proof.result, "not_proved");
        let said: Vec<_> = proof
            .evidence
            .iter()
            .take(2)
            .map(|r| r.role.as_str())
            .collect();
        assert_eq!(said, ["metric", "against_twin"]);
    }

    /// Three secondary metrics of which one is worse at 3 %: with so many one stands out by chance.
    #[test]
    fn the_other_metrics_are_corrected_for_their_number() {
        let worse = |p: f64| {
            let ratio = |value: f64| Ratio {
                p: Some(p),
                ..contrast::ratio(&Sample::pairs(&[value]), Family::ONE).unwrap()
            };
            let of = |metric, value| Measured {
                metric,
                before: 1.0,
                twin: 1.0,
                after: value,
                effect: ratio(value),
                against_twin: ratio(value),
                noise: ratio(1.0),
            };
            worsened(&[of(Metric::P50, 1.5), of(Metric::P99, 0.9)])
        };
        assert_eq!(worse(0.02), [true, false]);
        assert_eq!(worse(0.03), [false, false]);
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
    fn copies_of_the_same_are_equal_or_differ() {
        let check = |gain: f64| {
            let mut proof = judged(&blocks(gain, 0.02), Metric::Rate, None, None);
            read_as_aa(&mut proof);
            assert!(!proof.why.contains("mechanism"), "{}", proof.why);
            proof.result
        };
        assert_eq!(check(1.0), EQUAL);
        assert_eq!(check(1.5), "differs");
        assert_eq!(check(0.6), "differs");
    }

    #[test]
    fn a_stopped_proof_keeps_what_it_has() {
        let mut few = proved_proof();
        let evidence = few.evidence.clone();
        cut_short(&mut few, 3, 8, "it was interrupted");
        assert_eq!(few.result, "stopped");
        assert_eq!(few.evidence, evidence);
        let mut enough = proved_proof();
        cut_short(&mut enough, 6, 8, "it was interrupted");
        assert_eq!(enough.result, "proved");
        assert!(
            enough
                .why
                .ends_with("it was interrupted after 6 of 8 blocks")
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
            judged(&blocks(gain, 0.02), Metric::Rate, mechanism, control)
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
        // Too noisy a host to see an improvement that would have been worth it.
        let loud = super::tests::judged(&blocks(1.0, 0.4), Metric::Rate, Some(&falls), None);
        assert_eq!(loud.result, "not_proved");
        assert_eq!(check(&loud), Status::Supported);
        let mut stopped = proved;
        cut_short(&mut stopped, 1, 8, "it was interrupted");
        assert_eq!(check(&stopped), Status::Supported);
    }
}
