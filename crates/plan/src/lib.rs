//! Experiment file -> validated [`Plan`]: stages, factors, levels, trials in interleaved order.
//!
//! Pure: templates and files are read through a function that the caller gives. Everything that can be
//! wrong with an experiment is found here, before anything is started.

mod types;

pub use types::*;
