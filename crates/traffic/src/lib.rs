//! traffic: filled in next.
