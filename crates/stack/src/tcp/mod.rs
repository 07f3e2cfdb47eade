//! TCP (RFC 9293) for very many short flows.
pub mod addresses;
pub mod congestion;
pub mod counters;
pub mod flow;
pub mod loss;
pub mod ranges;
pub mod reassembly;
pub mod seq;
pub mod settings;
pub mod slab;
pub mod table;
pub mod wheel;
