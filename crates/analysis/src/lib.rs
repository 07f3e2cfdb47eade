//! Validity first, then statistics, knee and limits: a pure function of a stored record.
//!
//! [`analyse`](crate::types::RunAnalysis) reads nothing but the record, so an old run can be analysed
//! again by a later version.

mod types;

pub use types::*;
