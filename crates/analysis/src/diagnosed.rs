//! The diagnoses of a stored run, and what the catalogue predicts of a change.

use crate::diagnosis::{Explains, Moves, catalogue, diagnose_judged};
use crate::{
    AnalysisError, Diagnosis, FactSet, Finding, JudgedBy, Metric, Proof, TrialAnalysis,
    status_after,
};
use plan::Plan;
use record::{RunRecord, TrialRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Diagnoses by trial: of those that were examined, or of all that were loaded when none was. `analysed` are the
/// trials of the record's analysis, whose verdicts are taken as they are.
///
/// # Errors
/// [`AnalysisError`] when the plan in the record cannot be read.
pub fn diagnose_run(
    record: &RunRecord,
    analysed: &[TrialAnalysis],
) -> Result<BTreeMap<u32, Diagnosis>, AnalysisError> {
    let plan = Plan::deserialize(&record.plan).map_err(|e| AnalysisError::Plan {
        cause: e.to_string(),
    })?;
    let examined = |t: &&TrialRecord| t.examination.is_some();
    // What another tool reported is diagnosed from its text (`prony diagnose --from`), where its gaps are known.
    let own = || record.trials.iter().filter(|t| t.reported.is_none());
    let any = own().any(|t| t.examination.is_some());
    let trials = own().filter(|t| {
        if any {
            examined(t)
        } else {
            t.outcome.is_some()
        }
    });
    let diagnosed = trials.filter_map(|t| {
        let figures = analysed.iter().find(|a| a.id == t.id)?;
        let diagnosis = diagnose_judged(t, &record.environment, plan.error_limit, figures);
        Some((t.id, diagnosis))
    });
    Ok(diagnosed.collect())
}

/// A proof as it is stored beside the record: a diagnosis is made anew from the record whenever it is read, a
/// measurement cannot be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredProof {
    /// Trial whose diagnosis it belongs to.
    pub trial: u32,
    /// Cause in the catalogue.
    pub cause: String,
    /// Target of the finding.
    pub target: String,
    /// What was measured.
    pub proof: Proof,
}

/// Confidence in a cause whose remedy was proved.
const PROVED: f64 = 0.99;

/// Notes in a finding what the measurement of its remedy said.
pub fn note_proof(finding: &mut Finding, proof: Proof) {
    finding.status = status_after(finding.status, &proof);
    if proof.result == "proved" {
        finding.confidence = finding.confidence.max(PROVED);
    }
    finding.proof = Some(proof);
}

/// Notes stored proofs in diagnoses that were made anew. A proof of a cause that a later catalogue does not find any
/// more is left out.
pub fn merge_proofs(diagnoses: &mut BTreeMap<u32, Diagnosis>, proofs: Vec<StoredProof>) {
    for stored in proofs {
        let findings = diagnoses.get_mut(&stored.trial).map(|d| &mut d.findings);
        let mut findings = findings.into_iter().flatten();
        let of_proof = |f: &&mut Finding| f.cause == stored.cause && f.target == stored.target;
        if let Some(finding) = findings.find(of_proof) {
            note_proof(finding, stored.proof);
        }
    }
}

/// What a cause predicts of the change that mends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Fact that moves.
    pub mechanism: String,
    /// It gets smaller.
    pub falls: bool,
    /// Fact that stays; `None` where the mechanism leaves none alone.
    pub control: Option<String>,
    /// The change puts work on cores that the server does not fill without it.
    pub cores: bool,
}

/// The prediction of a cause of the catalogue; `None` for a name that is not in it.
pub fn prediction(cause: &str) -> Option<Prediction> {
    let signals = &catalogue().cause(cause)?.proof;
    Some(Prediction {
        mechanism: signals.mechanism.clone(),
        falls: signals.moves == Moves::Down,
        control: signals.control.clone(),
        cores: signals.cores,
    })
}

/// The metric that a change for `cause` will be judged by, named before the first load: what the cause takes, or caps,
/// at the `station` that limits the server. `facts` are those of the server as it was found.
pub fn judged_by(cause: &str, station: &str, facts: &FactSet) -> JudgedBy {
    let (metric, why) = of_cause(cause).unwrap_or_else(|| of_station(station));
    // Where a clock sends the requests and all are served, the rate is the clock's.
    let is = |name: &str, least: f64| facts.view("").value(name).is_some_and(|v| v >= least);
    let paced = is("client.open_loop", 1.0) && is("client.achieved_of_offered", MET);
    let (metric, why) = match metric {
        Metric::Rate if paced => (Metric::P50, "the load sets the rate, and it is met"),
        _ => (metric, why),
    };
    JudgedBy {
        metric,
        why: why.to_owned(),
    }
}

/// An open loop that gets this share of what it offers is met.
const MET: f64 = 0.97;

/// By what the cause explains, or as the catalogue has it.
fn of_cause(cause: &str) -> Option<(Metric, &'static str)> {
    let cause = catalogue().cause(cause)?;
    let (usual, why) = usual_metric(cause.explains)?;
    match cause.proof.metric {
        Some(Metric::Rate) if cause.explains == Explains::Cpu => Some((
            Metric::Rate,
            "the cause leaves CPU unused, or gives it to others",
        )),
        Some(metric @ Metric::P99) => Some((metric, "the cause makes a few requests wait")),
        Some(metric) => Some((metric, "the cause shows there first")),
        None => Some((usual, why)),
    }
}

/// The metric that follows from what a cause explains; `None` where nothing could be won.
pub(crate) fn usual_metric(explains: Explains) -> Option<(Metric, &'static str)> {
    match explains {
        Explains::Cpu => Some((Metric::CpuPerRequest, "the cause takes CPU time")),
        Explains::Wait | Explains::Quantum => Some((Metric::P50, "the cause makes requests wait")),
        Explains::Cap => Some((Metric::Rate, "the cause caps the rate")),
        Explains::Errors => Some((Metric::Rate, "requests fail that could succeed")),
        Explains::Nothing => None,
    }
}

/// By who is the limit, where no single cause predicts the change.
fn of_station(station: &str) -> (Metric, &'static str) {
    match station {
        "worker" | "core" | "generator" => (Metric::CpuPerRequest, "a core is full"),
        "limit" | "listen_queue" => (Metric::Rate, "something caps the rate"),
        _ => (Metric::P50, "no core is full: requests wait"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{Figures, StageSample, run};
    use crate::{Station, Status};
    use record::Nanos;

    fn finding(cause: &str) -> Finding {
        Finding {
            cause: cause.to_owned(),
            variant: None,
            title: String::new(),
            target: "server".to_owned(),
            confidence: 0.7,
            status: Status::Supported,
            why: String::new(),
            evidence: Vec::new(),
            remedy: String::new(),
            changes: Vec::new(),
            gain_bound: None,
            gain_unknown: None,
            worth_changing: true,
            predicted: None,
            calibrated: None,
            proof: None,
        }
    }

    fn stored(trial: u32, cause: &str, result: &str) -> StoredProof {
        StoredProof {
            trial,
            cause: cause.to_owned(),
            target: "server".to_owned(),
            proof: Proof {
                result: result.to_owned(),
                why: String::new(),
                judged_by: None,
                changes: Vec::new(),
                evidence: Vec::new(),
                calls: Vec::new(),
                predicted: None,
            },
        }
    }

    #[test]
    fn the_metric_is_named_by_cause_and_station() {
        let mut facts = FactSet::default();
        let of =
            |cause: &str, station: &str, facts: &FactSet| judged_by(cause, station, facts).metric;
        for (cause, station, metric) in [
            ("small_proxy_buffers", "worker", Metric::CpuPerRequest),
            ("single_worker_saturated", "worker", Metric::Rate),
            ("rate_limit_delays", "limit", Metric::Rate),
            ("slow_log_disk", "blocked", Metric::P50),
            ("", "core", Metric::CpuPerRequest),
            ("", "limit", Metric::Rate),
            ("", "upstream", Metric::P50),
        ] {
            assert_eq!(of(cause, station, &facts), metric, "{cause} at {station}");
        }
        // A clock that is met sets the rate.
        facts.known("", "client.open_loop", 1.0, "load");
        facts.known("", "client.achieved_of_offered", 0.6, "load");
        assert_eq!(of("rate_limit_delays", "limit", &facts), Metric::Rate);
        facts.known("", "client.achieved_of_offered", 1.0, "load");
        assert_eq!(of("rate_limit_delays", "limit", &facts), Metric::P50);
        assert_eq!(
            of("small_proxy_buffers", "worker", &facts),
            Metric::CpuPerRequest
        );
    }

    #[test]
    fn stored_proofs_find_their_findings() {
        let diagnosis = Diagnosis {
            station: Station {
                name: "worker".to_owned(),
                target: "server".to_owned(),
                why: String::new(),
            },
            findings: vec![finding("a"), finding("b"), finding("c")],
            ruled_out: Vec::new(),
            unseen: Vec::new(),
            unexplained: None,
            ledger: None,
            facts: Vec::new(),
            tier: String::new(),
        };
        let mut diagnoses = BTreeMap::from([(0, diagnosis)]);
        let proofs = vec![
            stored(0, "b", "proved"),
            stored(0, "c", "worse"),
            stored(0, "gone", "proved"),
            stored(7, "a", "proved"),
        ];
        merge_proofs(&mut diagnoses, proofs);
        let said: Vec<_> = diagnoses[&0]
            .findings
            .iter()
            .map(|f| (f.status, f.confidence, f.proof.is_some()))
            .collect();
        assert_eq!(
            said,
            [
                (Status::Supported, 0.7, false),
                (Status::Proved, 0.99, true),
                (Status::Refuted, 0.7, true)
            ]
        );
    }

    #[test]
    fn a_trial_that_was_analysed_is_diagnosed_without_being_judged_again() {
        let stage = StageSample {
            name: "diagnose",
            factors: Vec::new(),
            baseline: Vec::new(),
            repeats: 1,
        };
        let figures = |_: &plan::Levels, _| Figures {
            answers: 20_000,
            service: Nanos::from_millis(1),
            server: 0.99,
            generator: 0.3,
        };
        let record = run(&[stage], figures);
        let judged = || crate::verdict::JUDGED.replace(0);
        judged();
        let analysis = crate::analyse(&record).unwrap();
        assert_eq!(judged(), 1);
        let diagnoses = diagnose_run(&record, &analysis.trials).unwrap();
        assert_eq!((judged(), diagnoses.len()), (0, 1));
        let alone = crate::diagnose(&record.trials[0], &[], 0.01);
        assert_eq!((judged(), &alone), (1, &diagnoses[&0]));
    }
}
