//! Validity first, then statistics, knee and limits: a pure function of a stored record.
//!
//! [`analyse`] reads nothing but the record, so an old run can be analysed again by a later version.
//! [`judge_load`] is its heart, and `prony load` calls it alone: may the figures be used, and what
//! limits them?
//!
//! ```text
//! series + outcome -> observed (who was busy) -> limit (who is full) -> validity -> verdict
//! trials -> cells (medians, ratios to the baseline) -> knees -> verdict of the run
//! all of it + diagnoses -> answer (what the factor does, by which mechanism, what to do)
//! ```

pub mod advice;
mod against;
mod alike;
mod answer;
mod cells;
mod comparison;
mod container;
mod contrast;
mod diagnosed;
pub mod diagnosis;
mod disturbed;
mod edge;
mod error;
mod fairness;
mod find;
mod gate;
pub mod imported;
mod improvement;
mod knee;
mod latency;
mod ledger;
mod limit;
mod mechanism;
mod observed;
mod parts;
mod pasted;
mod predict;
mod proof;
mod rank;
mod run;
#[cfg(test)]
mod samples;
mod search;
mod seconds;
#[cfg(test)]
mod simulated;
mod slo;
mod stats;
mod steady;
mod tables;
pub mod traffic;
mod trial;
mod types;
mod validity;
mod verdict;
mod versions;
mod warn;
mod watched;
pub mod words;

pub use against::AgainstRow;
pub use alike::alike;
pub use answer::{
    Answer, AnswerKind, AnswerMetric, Capacity, Effect, Met, Unanswered, Uncompared, answer,
};
pub use comparison::{
    CellCompared, CompareOptions, Comparison, CpuCompared, FigureCompared, Judgement, Outcome,
    Refused, compare,
};
pub use container::{PublishedPath, published_path};
pub use diagnosed::{
    Prediction, StoredProof, diagnose_run, judged_by, merge_proofs, note_proof, prediction,
};
pub use diagnosis::work::compiles_code;
pub use diagnosis::{
    CallChange, Catalogue, Change, Diagnosis, FactSet, FactValue, Finding, JudgedBy, Proof,
    ProofRatio, RuledOut, Station, Status, Unseen, catalogue, diagnose, diagnose_facts,
    diagnose_judged, facts_of, proposed_changes, signature_diff,
};
pub use disturbed::disturbed;
pub use error::AnalysisError;
pub use fairness::precision;
pub use find::{Aim, BudgetTooShort, Ended, Found, RateSearch, SearchPlan};
pub use gate::{
    Gate, GateCalls, GateFigure, GateOptions, GateReading, GateResult, GateRow, GateSilent, gate,
};
pub use improvement::{Improvement, ImprovementStep};
pub use knee::moves_load;
pub use ledger::{Account, Asked, Basis, Branch, Ledger, Row, ServerLedger};
pub use mechanism::{CauseSeen, Difference, MechanismChange, PerRequest, RequestChange};
pub use parts::{AgentCarried, AgentFigures, AgentState, JudgedParts, judge_parts};
pub use pasted::{PASTED, diagnose_pasted, pasted_facts};
pub use plan::{Factor, Levels, Plan, SearchFor, Stage, TargetKind, TargetSpec, TrialPlan};
pub use predict::{
    Brought, Calibrated, Calibration, Held, Learned, Named, NextLimit, WIDEST, WhatIf, held,
};
pub use proof::{
    Arm, BLOCKS, Blocks, EQUAL, Expected, FEWEST_BLOCKS, Mechanism, Metric, cut_short, prove,
    put_back, read_as_aa, status_after, turn,
};
pub use run::analyse;
pub use search::{Search, SearchStep};
pub use seconds::{SlowDiffers, fulfils, second, slow, spans};
pub use slo::{BadSlo, Slo};
pub use tables::{Gain, Table, TableColumn, TableRow, TableValue};
pub use trial::analyse_trial;
pub use types::*;
pub use verdict::judge_load;
pub use versions::{ServerVersions, VersionChange, versions_of};
pub use warn::load_warnings;
pub use watched::{
    Against, SignalOf, SlowSecond, SlowSeconds, TimelinePoint, Watched, against_earlier, watched,
};
