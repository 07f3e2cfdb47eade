//! Causes: from a stored record to facts, from facts by the catalogue's rules to findings.

mod types;

pub use types::*;
