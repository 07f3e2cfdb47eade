//! The path of an improvement (`diagnose --improve`): what was found, what was changed, what the change brought, and
//! where it ended.

use crate::{Change, Proof, ProofRatio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImprovementStep {
    /// Cause that led to it.
    pub cause: String,
    pub title: String,
    /// What was changed.
    pub changes: Vec<Change>,
    /// What the measurement said.
    pub proof: Proof,
    /// It helped and was kept.
    pub kept: bool,
}

/// Diagnosis, change and proof, until nothing was left that helps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Improvement {
    /// Changes tried, in order.
    pub steps: Vec<ImprovementStep>,
    /// Changes kept: together the difference between the server's configuration and the improved one.
    pub changes: Vec<Change>,
    /// The improved server against the server as it was, measured once more at the end; empty when nothing was kept.
    pub total: Vec<ProofRatio>,
    /// Why it ended.
    pub ended: String,
}
