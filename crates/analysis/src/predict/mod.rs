//! What would it bring: for every label, the metric after the change, before anything is changed.
//!
//! ```text
//! facts -> model (a queueing network that says what was measured, or nothing is predicted)
//! finding -> what it takes (CPU by its calls or its row, a wait, slots, cores) -> the network without it
//! recorded cases -> calibration -> how much of it such changes took elsewhere, and how wide the interval is
//! ```
//! The surprise: a bound that does not move with any measured number is no row. Where neither calls, nor a row of the
//! ledger, nor a measured bound tells what a change takes nothing is predicted, and the reason is said.

mod calibration;
mod calls;
mod model;
mod mva;
mod rows;
#[cfg(test)]
mod simulated;
mod what_if;

pub use calibration::{Brought, Calibrated, Calibration, Learned, Named};
pub use what_if::{Held, NextLimit, WhatIf};

pub(crate) use calibration::calibration;

use crate::diagnosis::expression::Expression;
use crate::diagnosis::{Cause, Diagnosis, Explains, FactSet, Finding, Reading, catalogue};
use crate::ledger::{Account, Ledger};
use crate::{Metric, Proof, judged_by};
use calls::Fewer;
use model::{Arrivals, Kind, Model};
use record::Profile;
use rows::Row;
use std::collections::BTreeSet;

/// Kinds of models, in words.
const ACCOUNT: &str = "CPU account";
const CLOSED: &str = "closed queueing network, MVA";
const OPEN: &str = "open queueing network, M/G/1";
/// A row takes at most this: what is left is at least the server's reading and writing.
const MOST: f64 = 0.98;
/// A rate so many times as high as the measured one is out of reach of what was measured.
const FARTHEST: f64 = 10.0;
/// What a place must be busy for at the new rate to be named as full.
const FULL: f64 = 0.9;

/// What a change takes off.
#[derive(Clone, Debug, PartialEq)]
enum Effect {
    /// Shares of a target's CPU time.
    Cpu {
        kind: Work,
        target: String,
        net: f64,
        whole: f64,
    },
    /// Time that is spent waiting.
    Wait { net: Waited },
    /// What sets the pace of responses: a timer, a window.
    Pace,
    /// Whatever lets only so many through.
    Cap { target: String },
    /// A share of what all its cores together could do, that lies idle.
    Cores { target: String, net: f64 },
}

/// Which kind of CPU time it is: kinds are learned from one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// A row of the profile.
    Row,
    /// Calls for the same bytes.
    Calls,
    /// Calls for each connection.
    Connections,
}

/// How much of the waiting goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waited {
    /// A share of a single client's response time.
    OfResponse(f64),
    /// A share of what no CPU time explains.
    OfWaits(f64),
}

/// Adds to every finding that may gain what its change would bring.
pub(crate) fn predict(diagnosis: &mut Diagnosis, facts: &FactSet, profiles: &[Profile]) {
    let (model, capped) = (Model::of(facts), Model::capped(facts));
    let family = family(facts);
    let station = diagnosis.station.name.clone();
    let findings = diagnosis.findings.iter_mut();
    let named = findings.filter(|f| f.may_gain() && f.cause != "none" && f.cause != "unknown");
    for finding in named {
        let Some(cause) = catalogue().cause(&finding.cause) else {
            continue;
        };
        let metric = judged_by(&cause.name, &station, facts).metric;
        let seen = Seen {
            facts,
            profiles,
            ledger: diagnosis.ledger.as_ref(),
        };
        let effect = effect(cause, finding, &seen);
        let said = effect.and_then(|effect| {
            let of_cap = matches!(effect, Effect::Cap { .. });
            let model = if of_cap { &capped } else { &model };
            let mut said = what_if(metric, &effect, model, facts)?;
            learn(&mut said, &effect, model, facts, family);
            Ok(said)
        });
        finding.predicted = Some(said.unwrap_or_else(|why| withheld(metric, why)));
    }
}

/// Puts the share of recorded cases that were right in place of the rules' scores, where enough were recorded of other
/// families of servers.
pub(crate) fn calibrate(diagnosis: &mut Diagnosis, facts: &FactSet) {
    let family = family(facts);
    for (at, finding) in diagnosis.findings.iter_mut().enumerate() {
        let class = match (at, finding.cause.as_str()) {
            (_, "unknown") => continue,
            (0, "none") => "none",
            (0, "unlabelled") => "unlabelled",
            (0, _) => "cause",
            _ => "further",
        };
        let (score, bound) = (finding.confidence, finding.gain_bound);
        finding.calibrated = calibration().confidence(class, score, bound, family);
        if let Some(found) = finding.calibrated {
            finding.confidence = found.frequency();
        }
    }
}

/// The family of the server behind the URL, as calibrations call it.
fn family(facts: &FactSet) -> &str {
    let front = facts.targets.first().map_or("", String::as_str);
    match facts.servers.get(front).map_or("", |s| s.kind.as_str()) {
        "java" => "tomcat",
        "php-fpm" => "php",
        kind => kind,
    }
}

/// The prediction of a finding beside what its proof measured; `None` where neither was there.
pub fn held(finding: &Finding, proof: &Proof) -> Option<Held> {
    let said = finding.predicted.as_ref()?;
    let row = proof.evidence.iter().find(|e| e.role == "metric")?;
    let measured = row.ratio?;
    // A prediction of another metric than the proof's was not put to the test.
    let same = row.signal == said.metric.name();
    let interval = said.interval.filter(|_| same);
    Some(Held {
        metric: said.metric,
        ratio: said.ratio.filter(|_| same),
        interval,
        measured,
        measured_interval: row.interval,
        within: interval.map(|(low, high)| (low..=high).contains(&measured)),
        withheld: match same {
            true => said.withheld.clone(),
            false => Some("the proof was judged by another metric".to_owned()),
        },
    })
}

fn withheld(metric: Metric, why: String) -> WhatIf {
    WhatIf {
        metric,
        ratio: None,
        interval: None,
        net: None,
        rate: None,
        next_limit: None,
        kind: String::new(),
        model: String::new(),
        basis: Vec::new(),
        withheld: Some(why),
    }
}

/// What an effect is told from.
struct Seen<'a> {
    facts: &'a FactSet,
    profiles: &'a [Profile],
    ledger: Option<&'a Ledger>,
}

/// What the change of a finding takes off, or why that cannot be told.
fn effect(cause: &Cause, finding: &Finding, seen: &Seen<'_>) -> Result<Effect, String> {
    let facts = seen.facts;
    let front = facts.targets.first().cloned().unwrap_or_default();
    let target = match finding.target.as_str() {
        "" => front,
        target => target.to_owned(),
    };
    match cause.explains {
        Explains::Errors => {
            return Err("what fails costs other than what would be served instead".to_owned());
        }
        Explains::Nothing => return Err("nothing is to be gained".to_owned()),
        Explains::Cap => return Ok(Effect::Cap { target }),
        Explains::Cpu | Explains::Wait | Explains::Quantum => {}
    }
    let bound = finding
        .gain_bound
        .ok_or("the bound on the gain is not known")?;
    let bounded = bounded_by(cause, facts, &target)?;
    if cause.explains != Explains::Cpu {
        return wait(cause, bound, bounded, seen);
    }
    if cause.proof.metric == Some(Metric::Rate) {
        return match bounded {
            Bounded::Facts => Ok(Effect::Cores {
                target,
                net: bound.min(MOST),
            }),
            _ => Err(NO_ROW.to_owned()),
        };
    }
    let of_calls = Fewer::of(&cause.proof.mechanism);
    let of_calls = of_calls.and_then(|fewer| Some((fewer, calls::stays(facts, &target, fewer)?)));
    let of_rows = seen.cpu_row(cause, &target);
    let (kind, net, whole) = match (of_calls, bounded) {
        (Some((fewer, stays)), _) => {
            let kind = match fewer {
                Fewer::Data => Work::Calls,
                Fewer::Connections(_) => Work::Connections,
            };
            (kind, 1.0 - stays, 1.0 - stays)
        }
        (None, Bounded::Facts) => {
            let row = row_of(cause, &target, seen.profiles).unwrap_or_default();
            let whole = row.share + row.callers + row.error();
            (
                Work::Row,
                bound,
                whole.max(bound).max(of_rows.unwrap_or(0.0)),
            )
        }
        (None, _) => {
            let row = of_rows.ok_or(NO_ROW)?;
            (Work::Row, row, row)
        }
    };
    Ok(Effect::Cpu {
        kind,
        target,
        net: net.min(MOST),
        whole: whole.min(MOST),
    })
}

const NO_ROW: &str = "the bound on the gain is a plain number here, and no measured row";

/// A wait that a change ends.
fn wait(cause: &Cause, bound: f64, bounded: Bounded, seen: &Seen<'_>) -> Result<Effect, String> {
    if cause.explains == Explains::Quantum {
        // A timer or a window sets the pace: whatever is waited for beside CPU time is waited for by it.
        return match bound >= PACED {
            true => Ok(Effect::Pace),
            false => Err(NO_ROW.to_owned()),
        };
    }
    // What waits behind such a wait is no other wait: it goes with it.
    let net = match (seen.waits(cause), bounded) {
        (Some(share), _) => Waited::OfWaits(share),
        (None, Bounded::Facts) => Waited::OfResponse(bound.min(MOST)),
        // More than the catalogue lets it have.
        (None, Bounded::Ceiling) if bound >= NEARLY_ALL => Waited::OfWaits(1.0),
        _ => return Err(NO_ROW.to_owned()),
    };
    Ok(Effect::Wait { net })
}

/// What sets the pace of a response is bounded by at least this.
const PACED: f64 = 0.15;
/// A ceiling of the catalogue from which on a wait is all that there is beside CPU time.
const NEARLY_ALL: f64 = 0.75;
/// Rows that are nobody's work of the server, in an account of cores.
const NOT_ITS_OWN: [&str; 8] = [
    "idle",
    "throttled",
    "steal",
    "beside",
    "foreign",
    "generator",
    "run_queue",
    "rest",
];
/// Rows of a response time that are no wait for anything but a turn.
const TURNS: [&str; 9] = [
    "run_queue",
    "other_turns",
    "on_cpu",
    "loop",
    "wake_up",
    "client",
    "rest",
    "unsent",
    "upstream_unread",
];
/// A row smaller than this was not seen.
const SEEN: f64 = 0.02;

impl Seen<'_> {
    /// Share of a target's own CPU time in the rows that a cause names.
    fn cpu_row(&self, cause: &Cause, target: &str) -> Option<f64> {
        let account = self.ledger?.cpu.get(target)?;
        let own = account.share_of(|r| !NOT_ITS_OWN.contains(&r.kind.as_str()) || r.kind == "rest");
        let named = named(account, cause);
        (own > 0.0 && named >= SEEN).then(|| (named / own).min(1.0))
    }

    /// Share of the waits of a request in the rows that a cause names.
    fn waits(&self, cause: &Cause) -> Option<f64> {
        let account = self.ledger?.latency.as_ref()?;
        let named = named(account, cause);
        let others = account.share_of(|r| {
            let kind = r.kind.as_str();
            !r.own_work && !cause.rows.iter().any(|k| k == kind) && !TURNS.contains(&kind)
        });
        (named >= SEEN).then(|| named / (named + others))
    }
}

fn named(account: &Account, cause: &Cause) -> f64 {
    account.share_of(|r| cause.rows.contains(&r.kind))
}

/// The samples of the kinds of work that a cause's bound is made of.
fn row_of(cause: &Cause, target: &str, profiles: &[Profile]) -> Option<Row> {
    let gain = Expression::parse(cause.gain.as_deref()?).ok()?;
    let names = gain.facts();
    let kinds = names.iter().filter_map(|name| {
        let kind = name.strip_prefix("profile.")?.strip_suffix("_share")?;
        // All of the kernel is no row: only part of it belongs to any cause.
        (!matches!(kind, "kernel" | "syscall" | "top_symbol" | "top_module")).then_some(kind)
    });
    let kinds: BTreeSet<&str> = kinds.collect();
    (!kinds.is_empty()).then(|| rows::row(profiles, target, &kinds))?
}

/// What holds the bound on a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bounded {
    /// A measured number: it moves with one of its facts.
    Facts,
    /// A floor or a ceiling that measured numbers reached.
    Ceiling,
    /// A plain number.
    Number,
}

fn bounded_by(cause: &Cause, facts: &FactSet, target: &str) -> Result<Bounded, String> {
    let Some(text) = &cause.gain else {
        return Ok(Bounded::Number);
    };
    let gain = Expression::parse(text)?;
    let view = facts.view(target);
    let Reading::Known(as_is) = gain.reading(&view) else {
        return Ok(Bounded::Number);
    };
    let names: BTreeSet<&str> = gain.facts().into_iter().collect();
    let known = names.iter().any(|name| view.value(name).is_some());
    let moved = names.into_iter().any(|name| {
        let Some(value) = view.value(name) else {
            return false;
        };
        [0.9, 1.1].iter().any(|factor| {
            let mut other = facts.clone();
            let of = facts.owner(target, name);
            other.known(&of, name, value * factor, "");
            let reading = gain.reading(&other.view(target));
            reading
                .value()
                .is_some_and(|v| (v - as_is).abs() > 1e-6 * as_is.abs())
        })
    });
    Ok(match (moved, known) {
        (true, _) => Bounded::Facts,
        (false, true) => Bounded::Ceiling,
        (false, false) => Bounded::Number,
    })
}

/// The metric without what the change takes, by the row alone and with all that goes with it.
fn what_if(
    metric: Metric,
    effect: &Effect,
    model: &Result<Model, String>,
    facts: &FactSet,
) -> Result<WhatIf, String> {
    let rate = model.as_ref().ok().and_then(|m| rates(effect, m));
    let next_limit = model.as_ref().ok().and_then(next_limit);
    let (net, words) = match (metric, effect) {
        (Metric::P99, _) => {
            return Err("a model of means says nothing of the slowest 1 %".to_owned());
        }
        (Metric::CpuPerRequest, Effect::Cpu { net, whole, .. }) => {
            ((1.0 - net, 1.0 - whole), ACCOUNT)
        }
        (Metric::CpuPerRequest, _) => {
            return Err("what it takes is no CPU time".to_owned());
        }
        (Metric::Rate, _) => {
            let model = model.as_ref().map_err(Clone::clone)?;
            let rate = rate.ok_or("the model has no place for what it takes")?;
            if rate.1 > FARTHEST {
                return Err(format!(
                    "the rate would be {:.0} times as high: what a request costs so far from here was not measured",
                    rate.1
                ));
            }
            (rate, of_arrivals(model))
        }
        (Metric::P50, _) => {
            let model = model.as_ref().map_err(Clone::clone)?;
            shape(facts)?;
            let times = times(effect, model).ok_or("the model has no place for what it takes")?;
            (times, of_arrivals(model))
        }
    };
    let mut basis = model.as_ref().map(|m| m.basis.clone()).unwrap_or_default();
    basis.insert(0, effect.words());
    Ok(WhatIf {
        metric,
        ratio: Some(net.1),
        interval: None,
        net: Some(net),
        rate: (metric != Metric::Rate)
            .then(|| rate.map(|(low, high)| (low * high).sqrt()))
            .flatten(),
        next_limit,
        kind: effect.kind().to_owned(),
        model: words.to_owned(),
        basis,
        withheld: None,
    })
}

/// Median and mean lie so close together that a model of means may speak of the median.
fn shape(facts: &FactSet) -> Result<(), String> {
    let run = facts.view("");
    let of = run.value("client.p50_ms").zip(run.value("client.mean_ms"));
    match of {
        Some((p50, mean)) if (p50 / mean).ln().abs() > (1.0 + model::TOLERANCE).ln() => {
            Err(format!(
                "the median is {p50:.3} ms beside a mean of {mean:.3} ms: a model of means does not tell it"
            ))
        }
        _ => Ok(()),
    }
}

fn of_arrivals(model: &Model) -> &'static str {
    match model.arrivals {
        Arrivals::Closed(_) => CLOSED,
        Arrivals::Open(_) => OPEN,
    }
}

/// Rate with the change / without, by the row alone and with all.
fn rates(effect: &Effect, model: &Model) -> Option<(f64, f64)> {
    let now = model.solve()?.rate_per_s;
    let then = |all| Some(effect.taken_from(model, all)?.solve()?.rate_per_s / now);
    Some((then(false)?, then(true)?))
}

/// Mean response time with the change / without.
fn times(effect: &Effect, model: &Model) -> Option<(f64, f64)> {
    let now = model.solve()?.response_s;
    let then = |all| Some(effect.taken_from(model, all)?.solve()?.response_s / now);
    Some((then(false)?, then(true)?))
}

impl Effect {
    /// What is learned from one another.
    const fn kind(&self) -> &'static str {
        match self {
            Effect::Cpu {
                kind: Work::Row, ..
            } => "row",
            Effect::Cpu {
                kind: Work::Calls, ..
            } => "calls",
            Effect::Cpu {
                kind: Work::Connections,
                ..
            } => "connections",
            Effect::Wait { .. } => "wait",
            Effect::Pace => "pace",
            Effect::Cap { .. } => "cap",
            Effect::Cores { .. } => "cores",
        }
    }

    /// The network without what the change takes; `None` where the network has no such place.
    fn taken_from(&self, model: &Model, all: bool) -> Option<Model> {
        let mut model = model.clone();
        match self {
            Effect::Cpu {
                target, net, whole, ..
            } => {
                let at = model.cpu_of(target)?;
                let share = if all { *whole } else { *net };
                let own = model.places[at].own(target)?;
                let center = &mut model.places[at].center;
                center.demand = (center.demand - share * own).max(center.demand * (1.0 - MOST));
            }
            Effect::Wait { net } => {
                let at = model.wait_place()?;
                let alone = model.alone?;
                let center = &mut model.places[at].center;
                let goes = match net {
                    Waited::OfResponse(share) => share * alone,
                    Waited::OfWaits(share) => share * center.demand,
                };
                center.demand = (center.demand - goes).max(0.0);
            }
            Effect::Pace => {
                let at = model.wait_place()?;
                model.places[at].center.demand = 0.0;
            }
            Effect::Cap { target } => {
                model.places.retain(|p| p.kind != Kind::Cap);
                if let Some(at) = model.cpu_of(target) {
                    let place = &mut model.places[at];
                    if place.held_back {
                        let servers = place.center.servers.unwrap_or(1.0);
                        place.center.servers = Some(servers.max(place.whole));
                    }
                }
            }
            Effect::Cores { target, net } => {
                let at = model.cpu_of(target)?;
                let place = &mut model.places[at];
                let servers = place.center.servers?;
                place.center.servers = Some(servers / (1.0 - net));
            }
        }
        Some(model)
    }

    fn words(&self) -> String {
        let percent = crate::words::percent;
        match self {
            Effect::Cpu {
                kind: Work::Row,
                target,
                net,
                whole,
            } => format!(
                "the row takes {} of the CPU time of {target}, {} with all that belongs to it",
                percent(*net),
                percent(*whole)
            ),
            Effect::Cpu { target, whole, .. } => format!(
                "calls that are not needed take {} of the CPU time of {target}, by their number and time",
                percent(*whole)
            ),
            Effect::Wait {
                net: Waited::OfResponse(share),
            } => format!(
                "the wait takes {} of a single client's response time",
                percent(*share)
            ),
            Effect::Wait {
                net: Waited::OfWaits(share),
            } => format!("it is {} of what requests wait for", percent(*share)),
            Effect::Pace => {
                "it sets the pace: all that requests wait for beside CPU time".to_owned()
            }
            Effect::Cap { .. } => "what caps the rate is taken away".to_owned(),
            Effect::Cores { net, .. } => {
                format!("{} of what all its cores can do lies idle", percent(*net))
            }
        }
    }
}

/// Who is full when what limits now is out of the way, and from which rate on.
fn next_limit(model: &Model) -> Option<NextLimit> {
    let now = model.solve()?.rate_per_s;
    let busy = |at: usize| model.places[at].center.spacing() * now;
    let narrowest = mva::narrowest(&model.centers())?;
    let full = model.slots.is_none() && busy(narrowest) >= FULL;
    // What is full, or what caps, is what goes.
    let mut others = model.centers();
    if full {
        others[narrowest].demand = 0.0;
    }
    let next = mva::narrowest(&others)?;
    let place = &model.places[next];
    Some(NextLimit {
        station: place.kind.station().to_owned(),
        target: match place.kind {
            Kind::Generator | Kind::Wait | Kind::Cap => String::new(),
            _ => place.targets.join(", "),
        },
        at_ratio: 1.0 / (place.center.spacing() * now),
    })
}

/// What such changes took elsewhere of what their rows promised: the number, and its interval.
fn learn(
    said: &mut WhatIf,
    effect: &Effect,
    model: &Result<Model, String>,
    facts: &FactSet,
    family: &str,
) {
    let Some((_, row)) = said.net else {
        return;
    };
    let noise = facts.view("").value("client.rate_spread").unwrap_or(0.0);
    let of_others = |b: &Brought| b.family != family;
    let Some(learned) = calibration().learned(effect.kind(), said.metric.name(), &of_others) else {
        said.ratio = None;
        said.rate = None;
        said.withheld = Some(format!(
            "too few measured changes of other servers are recorded; the model alone says x{row:.2}"
        ));
        return;
    };
    let (ratio, (low, high)) = learned.of(row, noise);
    said.basis.push(learned.words());
    if low < 1.0 && high > 1.0 {
        said.ratio = None;
        said.rate = None;
        said.withheld = Some(format!(
            "changes of this kind on other servers missed by more than this is worth; the model alone says x{row:.2}"
        ));
        return;
    }
    said.interval = Some((low, high));
    if high / low > WIDEST {
        said.ratio = None;
        said.rate = None;
        said.withheld = Some(format!(
            "changes of this kind on other servers leave it between x{low:.2} and x{high:.2}"
        ));
        return;
    }
    said.ratio = Some(ratio);
    if let (Effect::Cpu { kind, target, .. }, Metric::CpuPerRequest, Ok(model)) =
        (effect, said.metric, model)
    {
        let share = (1.0 - ratio).clamp(0.0, 1.0);
        let learned = Effect::Cpu {
            kind: *kind,
            target: target.clone(),
            net: share,
            whole: share,
        };
        said.rate = rates(&learned, model).map(|(_, whole)| whole);
    }
}

/// An interval whose ends are further apart, as a ratio, holds no number worth saying.
pub const WIDEST: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Proof, ProofRatio};

    /// A proxy whose core is full, at 10,000 requests/s: 100 us each, of which 80 its own; the generator takes 30.
    fn facts() -> FactSet {
        let mut facts = FactSet::default();
        facts.targets.push("server".to_owned());
        for (name, value) in [
            ("client.rate_per_s", 10_000.0),
            ("client.connections", 32.0),
            ("client.open_loop", 0.0),
            ("client.pipeline", 1.0),
            ("client.errors_share", 0.0),
            ("client.mean_ms", 3.2),
            ("client.p50_ms", 3.1),
            ("client.single_client_mean_ms", 0.2),
            ("client.generator_utilization", 0.3),
            ("client.rate_spread", 0.02),
        ] {
            facts.known("", name, value, "load");
        }
        for (name, value) in [
            ("cpu.us_per_request", 80.0),
            ("cpu.cores_allowed", 1.0),
            ("core.own_mean", 1.0),
            ("core.own_foreign_share", 0.0),
            ("core.own_generator_share", 0.0),
            ("worker.busiest", 0.8),
            ("profile.compression_share", 0.5),
        ] {
            facts.known("server", name, value, "/proc");
        }
        facts
    }

    fn compression() -> Finding {
        serde_json::from_value(serde_json::json!({
            "cause": "compression_level", "title": "", "target": "server", "confidence": 0.9, "status": "supported",
            "why": "", "evidence": [], "remedy": "", "changes": [], "gain_bound": 0.5, "worth_changing": true,
            "proof": null,
        }))
        .unwrap()
    }

    fn said(facts: &FactSet, metric: Metric, effect: &Effect) -> Result<WhatIf, String> {
        what_if(metric, effect, &Model::of(facts), facts)
    }

    fn cpu(net: f64, whole: f64) -> Effect {
        Effect::Cpu {
            kind: Work::Row,
            target: "server".to_owned(),
            net,
            whole,
        }
    }

    #[test]
    fn the_rate_rises_until_the_next_place_is_full() {
        let facts = facts();
        let found = said(&facts, Metric::Rate, &cpu(0.25, 0.5)).unwrap();
        let (net, whole) = found.net.unwrap();
        // 20 and 40 of 100 us go.
        assert!(
            (net - 1.25).abs() < 0.02 && (whole - 1.0 / 0.6).abs() < 0.03,
            "{found:?}"
        );
        let next = found.next_limit.unwrap();
        assert_eq!(next.station, "generator");
        assert!((next.at_ratio - 10.0 / 3.0).abs() < 0.05, "{next:?}");
        // All of its CPU time: now the generator is what limits, and not a rate five times as high.
        let found = said(&facts, Metric::Rate, &cpu(0.98, 0.98)).unwrap();
        let ratio = found.ratio.unwrap();
        assert!(ratio > 2.5 && ratio < 10.0 / 3.0, "{ratio}");
        let found = said(&facts, Metric::CpuPerRequest, &cpu(0.25, 0.5)).unwrap();
        assert_eq!(found.net, Some((0.75, 0.5)));
        let found = said(&facts, Metric::P50, &cpu(0.25, 0.5)).unwrap();
        assert!((found.net.unwrap().0 - 0.8).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_model_that_does_not_fit_predicts_no_rate() {
        let mut odd = facts();
        // Busy for half of the time, and nothing says what the other half is for.
        odd.known("", "client.mean_ms", 9.0, "load");
        let why = said(&odd, Metric::Rate, &cpu(0.25, 0.5)).unwrap_err();
        assert!(why.contains("9.000 ms were measured"), "{why}");
        // The account of CPU time needs no model.
        assert!(said(&odd, Metric::CpuPerRequest, &cpu(0.25, 0.5)).is_ok());
        let mut failing = facts();
        failing.known("", "client.errors_share", 0.3, "load");
        assert!(said(&failing, Metric::Rate, &cpu(0.25, 0.5)).is_err());
        let mut skewed = facts();
        skewed.known("", "client.p50_ms", 0.4, "load");
        let why = said(&skewed, Metric::P50, &cpu(0.25, 0.5)).unwrap_err();
        assert!(why.contains("median"), "{why}");
        assert!(said(&skewed, Metric::P99, &cpu(0.25, 0.5)).is_err());
    }

    #[test]
    fn a_bound_that_moves_with_no_number_is_no_row() {
        let mut facts = facts();
        let cause = catalogue().cause("compression_level").unwrap();
        let told = |cause, facts: &FactSet| {
            let seen = Seen {
                facts,
                profiles: &[],
                ledger: None,
            };
            effect(cause, &compression(), &seen)
        };
        assert!(told(cause, &facts).is_ok());
        facts.unknown("server", "profile.compression_share", "no profile");
        let why = told(cause, &facts).unwrap_err();
        assert!(why.contains("plain number"), "{why}");
        let failing = catalogue().cause("fd_limit").unwrap();
        assert!(told(failing, &facts).is_err());
    }

    #[test]
    fn slots_and_caps_are_places() {
        let mut facts = facts();
        // Four threads that sleep 10 ms a request: 400/s, whatever waits before them.
        for (name, value) in [
            ("client.rate_per_s", 400.0),
            ("client.mean_ms", 80.0),
            ("client.single_client_mean_ms", 10.0),
            ("client.generator_utilization", 0.01),
        ] {
            facts.known("", name, value, "load");
        }
        for (name, value) in [
            ("cpu.us_per_request", 100.0),
            ("core.own_mean", 0.04),
            ("worker.busiest", 0.01),
            ("blocked.sleep_us_per_request", 9_900.0),
        ] {
            facts.known("server", name, value, "probe");
        }
        let model = Model::of(&facts).unwrap();
        assert!((model.slots.unwrap() - 4.0).abs() < 0.01);
        // Half of the sleep away: twice as many.
        let half = Effect::Wait {
            net: Waited::OfResponse(0.5),
        };
        let found = said(&facts, Metric::Rate, &half).unwrap();
        assert!((found.ratio.unwrap() - 2.0).abs() < 0.1, "{found:?}");
        // As many threads as connections: all 32 sleep at a time.
        let cap = Effect::Cap {
            target: "server".to_owned(),
        };
        let found = what_if(Metric::Rate, &cap, &Model::capped(&facts), &facts).unwrap();
        assert!((found.ratio.unwrap() - 8.0).abs() < 0.3, "{found:?}");
    }

    /// 32 requests that sleep 10 ms each beside 90 us of a core and 30 us of the generator.
    fn sleeping() -> FactSet {
        let mut facts = facts();
        let rate = 32.0 / 10.2e-3;
        for (name, value) in [
            ("client.rate_per_s", rate),
            ("client.mean_ms", 10.2),
            ("client.p50_ms", 10.1),
            ("client.single_client_mean_ms", 10.12),
            ("client.generator_utilization", 30e-6 * rate),
        ] {
            facts.known("", name, value, "load");
        }
        for (name, value) in [
            ("cpu.us_per_request", 80.0),
            ("core.own_mean", 90e-6 * rate),
            ("worker.busiest", 80e-6 * rate),
        ] {
            facts.known("server", name, value, "/proc");
        }
        facts
    }

    #[test]
    fn without_its_wait_a_request_queues_at_the_next_place() {
        let facts = sleeping();
        let of_waits = |share| Effect::Wait {
            net: Waited::OfWaits(share),
        };
        for effect in [of_waits(1.0), Effect::Pace] {
            let found = said(&facts, Metric::P50, &effect).unwrap();
            // 32 at a core that takes 90 us each: asymptotically 2.88 ms of 10.2.
            let (_, whole) = found.net.unwrap();
            assert!((whole - 2.88 / 10.2).abs() < 0.01, "{found:?}");
            let next = found.next_limit.unwrap();
            assert_eq!(
                (next.station.as_str(), next.target.as_str()),
                ("core", "server")
            );
            // 1/90 us is 3.54 times the rate now: the gain ends there.
            assert!(
                (next.at_ratio - 10.2e-3 / (32.0 * 90e-6)).abs() < 0.1,
                "{next:?}"
            );
            assert!((found.rate.unwrap() - next.at_ratio).abs() < 0.05);
        }
        // Half of the wait: 5.1 ms of it stay, and the core is not yet full.
        let found = said(&facts, Metric::P50, &of_waits(0.5)).unwrap();
        let (_, half) = found.net.unwrap();
        assert!(half > 0.5 && half < 0.56, "{half}");
    }

    #[test]
    fn what_recorded_changes_leave_open_is_no_number() {
        let facts = facts();
        let effect = cpu(0.25, 0.5);
        let model = Model::of(&facts);
        let told = |metric, kind: &str| {
            let mut said = what_if(metric, &effect, &model, &facts).unwrap();
            learn(&mut said, &effect, &model, &facts, "no such family");
            assert_eq!(said.kind, kind);
            said
        };
        let found = told(Metric::CpuPerRequest, "row");
        match (found.ratio, found.interval) {
            (Some(ratio), Some((low, high))) => {
                assert!(low <= ratio && ratio <= high && high / low <= WIDEST);
                assert!(high < 1.0 && found.withheld.is_none());
            }
            (None, interval) => {
                assert!(found.withheld.is_some());
                assert!(interval.is_none_or(|(low, high)| high / low > WIDEST));
            }
            other => panic!("{other:?}"),
        }
        // The model's own ratio stays beside it.
        assert_eq!(found.net, Some((0.75, 0.5)));
    }

    #[test]
    fn a_proof_is_held_against_what_was_said() {
        let mut finding = compression();
        let row = |signal: &str, ratio| ProofRatio {
            role: "metric".to_owned(),
            signal: signal.to_owned(),
            unit: String::new(),
            before: 1.0,
            after: ratio,
            ratio: Some(ratio),
            interval: None,
            as_predicted: true,
        };
        let proof = |signal, ratio| Proof {
            result: "proved".to_owned(),
            why: String::new(),
            judged_by: None,
            changes: Vec::new(),
            evidence: vec![row(signal, ratio)],
            calls: Vec::new(),
            predicted: None,
        };
        assert_eq!(held(&finding, &proof("cpu_us_per_request", 0.6)), None);
        let mut said = said(&facts(), Metric::CpuPerRequest, &cpu(0.25, 0.5)).unwrap();
        said.interval = Some((0.45, 0.8));
        finding.predicted = Some(said);
        let within = |signal, ratio| held(&finding, &proof(signal, ratio)).unwrap().within;
        assert_eq!(within("cpu_us_per_request", 0.6), Some(true));
        assert_eq!(within("cpu_us_per_request", 0.9), Some(false));
        assert_eq!(within("rate_per_s", 0.6), None);
    }
}
