//! Validity first, then statistics, knee and limits: a pure function of a stored record.
//!
//! [`analyse`] reads nothing but the record, so an old run can be analysed again by a later version.
//! [`judge_load`] is its heart, and `prony load` calls it alone: may the figures be used, and what
//! limits them?
//!
//! ```text
//! series + outcome -> observed (who was busy) -> limit (who is full) -> validity -> verdict
//! trials -> cells (medians, ratios to the baseline) -> knees -> verdict of the run
//! ```

mod cells;
pub mod diagnosis;
mod error;
mod knee;
mod latency;
mod limit;
mod observed;
mod proof;
mod run;
#[cfg(test)]
mod samples;
mod stats;
mod steady;
mod trial;
mod types;
mod validity;
mod verdict;
mod warn;
pub mod words;

pub use diagnosis::{
    Change, Diagnosis, FactValue, Finding, Proof, ProofRatio, RuledOut, Station, Status, Unseen,
};
pub use error::AnalysisError;
pub use knee::moves_load;
pub use plan::{Factor, Levels, Plan, Stage, TargetKind, TargetSpec, TrialPlan};
pub use proof::{Arm, Blocks, Mechanism, Metric, prove};
pub use run::analyse;
pub use trial::analyse_trial;
pub use types::*;
pub use verdict::judge_load;
pub use warn::load_warnings;
