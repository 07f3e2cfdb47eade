//! traffic: filled in next.

pub mod http;
pub mod origin;
mod random;
