//! Experiment file -> validated [`Plan`]: stages, factors, levels, trials in interleaved order.
//!
//! Pure: templates and files are read through a function that the caller gives. Everything that can be
//! wrong with an experiment is found here, before anything is started. The flow within: `node` (TOML with
//! places) -> `experiment`, `targets` (sections as typed) -> `expand` (cells, `load`, `order`) -> [`Plan`].

mod adapter;
mod address;
mod error;
mod expand;
mod experiment;
mod idle;
mod load;
mod node;
mod order;
mod targets;
pub mod template;
mod types;

pub use adapter::adapters;
pub use address::{reachable, resolve_url};
pub use error::{Fault, PlanError, Problem, near_miss};
pub use types::*;

use record::Nanos;

/// More trials than this in one stage are a typing error: at the shortest they take a day.
pub const MOST_TRIALS: u64 = 50_000;

impl Plan {
    /// Reads an experiment file. `file` is its name for messages; `read` gives the text of a file that
    /// the experiment names, relative to the experiment.
    ///
    /// # Errors
    /// [`PlanError`] with every problem that was found: place, fact, near miss, remedy.
    pub fn parse(
        text: &str,
        file: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Plan, PlanError> {
        let mut report = error::Report::default();
        let parsed = node::parse(text);
        if let Some(entries) = report.take(parsed) {
            let experiment = experiment::read(&entries, read, &mut report);
            if report.is_empty() {
                let plan = expand::plan(&experiment, &mut report);
                if report.is_empty() {
                    return Ok(plan);
                }
            }
        }
        Err(report.into_error(file, text))
    }

    /// Time that the whole plan takes: the sum of its trials.
    pub fn time(&self) -> Nanos {
        let sum = self.trials.iter().map(|t| t.time().0);
        Nanos(sum.fold(0, u64::saturating_add))
    }
}
