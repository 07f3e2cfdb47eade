//! The diagnoses of a stored run, and what the catalogue predicts of a change.

use crate::diagnosis::{Explains, Moves, catalogue, diagnose};
use crate::{AnalysisError, Diagnosis, Finding, Metric, Proof, status_after};
use plan::Plan;
use record::{RunRecord, TrialRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Diagnoses by trial: of those that were examined, or of all that were loaded when none was.
///
/// # Errors
/// [`AnalysisError`] when the plan in the record cannot be read.
pub fn diagnose_run(record: &RunRecord) -> Result<BTreeMap<u32, Diagnosis>, AnalysisError> {
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
    Ok(trials
        .map(|t| (t.id, diagnose(t, &record.environment, plan.error_limit)))
        .collect())
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
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Fact that moves.
    pub mechanism: String,
    /// It gets smaller.
    pub falls: bool,
    /// Fact that stays.
    pub control: String,
    /// Metrics that may improve, the most telling first.
    pub metrics: Vec<Metric>,
}

/// The prediction of a cause of the catalogue; `None` for a name that is not in it.
pub fn prediction(cause: &str) -> Option<Prediction> {
    let cause = catalogue().causes.iter().find(|c| c.name == cause)?;
    let metrics = match cause.explains {
        Explains::Cpu => vec![Metric::CpuPerRequest, Metric::Rate, Metric::P50],
        Explains::Wait | Explains::Quantum => vec![Metric::P50, Metric::P99, Metric::Rate],
        Explains::Cap => vec![Metric::Rate, Metric::P50, Metric::P99],
        Explains::Errors | Explains::Nothing => Metric::ALL.to_vec(),
    };
    Some(Prediction {
        mechanism: cause.proof.mechanism.clone(),
        falls: cause.proof.moves == Moves::Down,
        control: cause.proof.control.clone(),
        metrics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Station, Status};

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
                changes: Vec::new(),
                evidence: Vec::new(),
                calls: Vec::new(),
            },
        }
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
}
