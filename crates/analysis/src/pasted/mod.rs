//! What other tools printed, as facts that the rules see.

mod facts;

pub use facts::pasted_facts;
