//! What would it bring: for every label, the metric after the change, before anything is changed.
//!
//! ```text
//! facts -> model (a queueing network that says what was measured, or nothing is predicted)
//! finding -> what it takes (CPU by its row and the row's callers, a wait, slots, cores) -> the network without it
//! recorded cases -> calibration -> how wide the interval is
//! ```
//! The surprise: a bound that does not move with any measured number is no row. Where the catalogue bounds a gain by a
//! plain number nothing is predicted, and the reason is said.

mod calibration;
mod model;
mod mva;
mod rows;
#[cfg(test)]
mod simulated;
mod what_if;

pub use calibration::{Brought, Calibrated, Calibration, Named};
pub use what_if::{Held, NextLimit, WhatIf};

pub(crate) use calibration::calibration;

use crate::diagnosis::expression::Expression;
use crate::diagnosis::{Cause, Diagnosis, Explains, FactSet, Finding, Reading, catalogue};
use crate::{Metric, Proof, judged_by};
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
        target: String,
        net: f64,
        whole: f64,
    },
    /// A share of a single client's response time, spent waiting.
    Wait { net: f64 },
    /// Whatever lets only so many through.
    Cap { target: String },
    /// A share of what all its cores together could do, that lies idle.
    Cores { target: String, net: f64 },
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
        let effect = effect(cause, finding, facts, profiles);
        let said = effect.and_then(|effect| {
            let of_cap = matches!(effect, Effect::Cap { .. });
            let model = if of_cap { &capped } else { &model };
            what_if(metric, &effect, model, facts)
        });
        finding.predicted = Some(match said {
            Ok(mut said) => {
                widen(&mut said, facts, family);
                said
            }
            Err(why) => withheld(metric, why),
        });
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
            (0, _) => "cause",
            _ => "further",
        };
        finding.calibrated = calibration().confidence(class, finding.confidence, family);
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
        model: String::new(),
        basis: Vec::new(),
        withheld: Some(why),
    }
}

/// What the change of a finding takes off, or why that cannot be told.
fn effect(
    cause: &Cause,
    finding: &Finding,
    facts: &FactSet,
    profiles: &[Profile],
) -> Result<Effect, String> {
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
    let measured = rests_on_facts(cause, facts, &target)?;
    if !measured {
        return Err("the bound on the gain is a plain number here, and no measured row".to_owned());
    }
    if cause.explains != Explains::Cpu {
        return Ok(Effect::Wait {
            net: bound.min(MOST),
        });
    }
    if cause.proof.metric == Some(Metric::Rate) {
        return Ok(Effect::Cores {
            target,
            net: bound.min(MOST),
        });
    }
    let row = row_of(cause, &target, profiles).unwrap_or_default();
    Ok(Effect::Cpu {
        target,
        net: bound.min(MOST),
        whole: (row.share + row.callers + row.error()).max(bound).min(MOST),
    })
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

/// A bound that is measured changes with one of its facts. One that is held by a floor, a ceiling or a number does not.
fn rests_on_facts(cause: &Cause, facts: &FactSet, target: &str) -> Result<bool, String> {
    let Some(text) = &cause.gain else {
        return Ok(false);
    };
    let gain = Expression::parse(text)?;
    let view = facts.view(target);
    let Reading::Known(as_is) = gain.reading(&view) else {
        return Ok(false);
    };
    let names: BTreeSet<&str> = gain.facts().into_iter().collect();
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
    Ok(moved)
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
        ratio: Some((net.0 * net.1).sqrt()),
        interval: None,
        net: Some(net),
        rate: (metric != Metric::Rate)
            .then(|| rate.map(|(low, high)| (low * high).sqrt()))
            .flatten(),
        next_limit,
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
    /// The network without what the change takes; `None` where the network has no such place.
    fn taken_from(&self, model: &Model, all: bool) -> Option<Model> {
        let mut model = model.clone();
        match self {
            Effect::Cpu { target, net, whole } => {
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
                center.demand = (center.demand - net * alone).max(0.0);
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
            Effect::Cpu { target, net, whole } => format!(
                "the row takes {} of the CPU time of {target}, {} with all that belongs to it",
                percent(*net),
                percent(*whole)
            ),
            Effect::Wait { net } => {
                format!(
                    "the wait takes {} of a single client's response time",
                    percent(*net)
                )
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

/// The interval: the row, widened by what recorded changes of other servers missed.
fn widen(said: &mut WhatIf, facts: &FactSet, family: &str) {
    let (Some(net), Some(point)) = (said.net, said.ratio) else {
        return;
    };
    let noise = facts.view("").value("client.rate_spread").unwrap_or(0.0);
    match calibration().widening(family) {
        Some(widening) => {
            said.interval = Some(widening.around(net, point, noise));
            said.basis.push(format!(
                "the interval's width is that of {} measured changes of other servers",
                widening.changes
            ));
        }
        None => said.basis.push(
            "too few measured changes of other servers are recorded for an interval".to_owned(),
        ),
    }
}
