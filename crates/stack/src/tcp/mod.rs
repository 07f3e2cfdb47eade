//! TCP (RFC 9293) for very many short flows.
pub mod addresses;
pub mod ranges;
pub mod seq;
pub mod slab;
pub mod table;
pub mod wheel;
