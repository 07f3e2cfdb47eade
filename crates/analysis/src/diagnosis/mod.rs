//! Causes: from a stored record to facts, from facts by the catalogue's rules to findings.
//!
//! ```text
//! record -> facts (every number with its source, or why there is none) -> station (who is the limit)
//! facts + catalogue -> rules (true, false, unknown) -> rank (station, bound on the gain, confidence)
//! ```
//! Rules know mechanisms and no case; what differs between servers is their remedies. "Healthy" needs facts
//! of its own; where neither holds, what limits the server cannot be told.

mod catalogue;
mod change;
pub(crate) mod expression;
mod fact;
mod facts;
#[cfg(test)]
mod fewer_probes;
#[cfg(test)]
mod practice;
mod rank;
mod rules;
mod signature_diff;
mod station;
#[cfg(test)]
mod tests;
mod types;
pub(crate) mod work;

pub use catalogue::{
    Catalogue, Cause, CauseFile, ChangeTemplate, Condition, ConfigTest, Explains, FactDeclaration,
    FactOf, FactTier, Moves, ProofSignals, Scope, catalogue, use_catalogue,
};
pub use change::proposed_changes;
pub(crate) use expression::{Expression, Template};
pub use fact::{FactSet, FactView, Reading};
pub use rank::fact_text;
pub(crate) use rules::{Scene, Truth, condition};
pub use signature_diff::{CallChange, signature_diff};
pub(crate) use station::cpu_wanted_by_itself;
pub use types::*;
pub(crate) use work::{frames, works};

use crate::ledger::{self, Ledger, LedgerCase};
use crate::{Evidence, Limit, TrialAnalysis, Verdict};
use facts::Material;
use record::{EnvironmentItem, TrialRecord, TrialState};

/// Diagnoses a trial. `error_limit` is the largest share of failed requests, 0 to 1, that a valid load may have.
///
/// It reads nothing but its arguments; the same record always gives the same diagnosis.
pub fn diagnose(
    trial: &TrialRecord,
    environment: &[EnvironmentItem],
    error_limit: f64,
) -> Diagnosis {
    of_material(&Material::new(trial, environment, error_limit, None))
}

/// The same for a trial that was analysed already, whose verdict is taken as it is.
pub fn diagnose_judged(
    trial: &TrialRecord,
    environment: &[EnvironmentItem],
    error_limit: f64,
    analysed: &TrialAnalysis,
) -> Diagnosis {
    // Of a load that did not come to its end the analysis says that alone.
    let whole = trial.outcome.is_some() && trial.state == TrialState::Complete;
    let verdict = whole.then(|| analysed.verdict.clone());
    of_material(&Material::new(trial, environment, error_limit, verdict))
}

/// A verdict that found nobody full, where the turns of the examination say that requests wait for a server's own CPU
/// all the time: processes that live shorter than the kernel's books are kept fill no thread and no core there.
pub(crate) fn full_of_requests(
    trial: &TrialRecord,
    error_limit: f64,
    verdict: &Verdict,
) -> Option<Verdict> {
    trial.examination.as_ref()?.turns.as_ref()?;
    let nobody = verdict.limit == Limit::OfferedLoad && verdict.resource == "connections";
    if !(verdict.valid && nobody) {
        return None;
    }
    let judged = Some(verdict.clone());
    let facts = facts::extract(&Material::new(trial, &[], error_limit, judged));
    let (target, wanted) = station::full_of_requests(&facts)?;
    let front = facts.targets.first().is_some_and(|front| front == target);
    let mut evidence = vec![Evidence::new(
        format!("turn.cpu_share{{{target}}}"),
        wanted,
        "1",
        Some(station::SATURATED),
        "turns: sockets and threads, traced",
    )];
    evidence.extend(verdict.evidence.iter().cloned());
    Some(Verdict {
        valid: true,
        limit: Limit::Server,
        resource: if front { "worker" } else { "backend" }.to_owned(),
        why: station::wait_for_its_cpu(target, wanted),
        remedy: "this is what the server does with this CPU: add cores, or make a request cheaper"
            .to_owned(),
        evidence,
    })
}

fn of_material(material: &Material<'_>) -> Diagnosis {
    let facts = facts::extract(material);
    let tier = material.examination().and_then(|e| e.signature.as_ref());
    let tier = tier.map(|s| s.tier).unwrap_or_default();
    let ledger = ledger::ledger(&LedgerCase {
        examination: material.examination(),
        observed: material.observed.as_ref(),
        facts: &facts,
        seconds: material.seconds().unwrap_or(0.0),
        requests: material.completed(),
    });
    let seen = Seen::Measured(ledger.map(Box::new));
    let mut diagnosis = conclude(&facts, material.verdict.as_ref(), seen, tier.name());
    let profiles = material.examination().map(|e| e.profiles.as_slice());
    crate::predict::predict(&mut diagnosis, &facts, profiles.unwrap_or_default());
    crate::predict::calibrate(&mut diagnosis, &facts);
    diagnosis
}

/// What there is to account for.
pub(crate) enum Seen {
    /// A trial was measured; `None` where no account of it could be made.
    Measured(Option<Box<Ledger>>),
    /// Other tools printed it.
    Pasted,
}

/// Diagnoses facts that come from elsewhere: what other tools printed. Without a load there is no verdict, and the
/// station is what the facts say of who was busy.
pub fn diagnose_facts(facts: &FactSet, tier: &str) -> Diagnosis {
    conclude(facts, None, Seen::Pasted, tier)
}

/// Facts of a trial, for what needs single numbers: proofs and comparisons.
pub fn facts_of(trial: &TrialRecord, environment: &[EnvironmentItem], error_limit: f64) -> FactSet {
    facts::extract(&Material::new(trial, environment, error_limit, None))
}

fn conclude(facts: &FactSet, verdict: Option<&Verdict>, seen: Seen, tier: &str) -> Diagnosis {
    let latency = match &seen {
        Seen::Measured(Some(ledger)) => ledger.latency.as_ref(),
        _ => None,
    };
    let station = station::find(facts, verdict, latency);
    let catalogue = &*rank::fitted(catalogue(), facts, &station);
    let mut ranked = rank::rank(catalogue, facts, &station, verdict, seen);
    let errors = facts.view("").value("client.errors_share");
    let failed = verdict
        .filter(|v| !v.valid)
        .zip(errors.filter(|e| *e >= 1.0));
    if let Some((verdict, share)) = failed {
        ranked
            .findings
            .retain(|f| f.cause != "none" && f.cause != "unknown");
        let explained = ranked.findings.first().is_some_and(|f| {
            let cause = catalogue.cause(&f.cause);
            cause.is_some_and(|c| c.explains == Explains::Errors)
        });
        let at = usize::from(explained);
        ranked
            .findings
            .insert(at, rank::nothing_answered(verdict, share));
    }
    Diagnosis {
        station,
        findings: ranked.findings,
        ruled_out: ranked.ruled_out,
        unseen: ranked.unseen,
        unexplained: ranked.unexplained,
        ledger: ranked.ledger,
        facts: facts.values(catalogue),
        tier: tier.to_owned(),
    }
}
