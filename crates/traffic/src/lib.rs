//! traffic: filled in next.

pub mod http;
