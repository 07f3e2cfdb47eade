//! Experiment file -> validated [`Plan`]: stages, factors, levels, trials in interleaved order.
//!
//! Pure: templates and files are read through a function that the caller gives. Everything that can be
//! wrong with an experiment is found here, before anything is started. The flow within: `node` (TOML with
//! places) -> `scale` -> `experiment`, `targets` (sections as typed) -> `expand` (cells, `levels`, `load`, `topology`,
//! `order`) -> [`Plan`].

mod adapter;
mod address;
mod error;
mod expand;
mod experiment;
mod idle;
mod levels;
mod load;
mod node;
mod order;
mod scale;
mod skip;
mod target_keys;
mod targets;
pub mod template;
mod topology;
mod types;

pub use adapter::adapters;
pub use address::{reachable, resolve_url};
pub use error::{Fault, PlanError, Problem, near_miss};
pub use skip::Lack;
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
        Self::parse_at(text, file, scale::SMALL, read)
    }

    /// The same at one of the file's scales; `small` is what stands at the top level.
    ///
    /// # Errors
    /// [`PlanError`], also for a scale that the file does not have. The other scales are read too, so that what is
    /// wrong with one is known before somebody needs it.
    pub fn parse_at(
        text: &str,
        file: &str,
        scale: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Plan, PlanError> {
        let mut report = error::Report::default();
        let parsed = node::parse(text);
        if let Some(entries) = report.take(parsed) {
            let scales = scale::Scales::of(entries, &mut report);
            for name in scales.names().filter(|n| *n != scale) {
                if let Some(entries) = report.take(scales.at(name)) {
                    experiment::read(&entries, read, &mut report);
                }
            }
            if let Some(entries) = report.take(scales.at(scale)) {
                let experiment = experiment::read(&entries, read, &mut report);
                if report.is_empty() {
                    let mut plan = expand::plan(&experiment, read, &mut report);
                    if report.is_empty() {
                        plan.scale = scale.to_owned();
                        plan.scales = scales.names().map(str::to_owned).collect();
                        return Ok(plan);
                    }
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
