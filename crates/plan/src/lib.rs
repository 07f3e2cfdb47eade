//! Experiment file -> validated [`Plan`]: stages, factors, levels, trials in interleaved order.
//!
//! Pure: templates and files are read through a function that the caller gives. Everything that can be
//! wrong with an experiment is found here, before anything is started. The flow within: `node` (TOML with
//! places) -> `scale` -> `experiment`, `targets` (sections as typed) -> `expand` (cells, `levels`, `load`, `topology`,
//! `order`) -> [`Plan`].

mod adapter;
mod address;
mod again;
mod error;
mod expand;
mod experiment;
mod figure;
pub mod hosts;
mod idle;
mod levels;
mod load;
mod near_miss;
mod node;
mod onload;
mod order;
mod reached;
mod scale;
mod skip;
mod table;
mod target_keys;
mod targets;
pub mod template;
mod topology;
pub mod traffic;
pub mod tuning;
pub mod typed;
mod types;
mod when;
pub mod workload;

pub use adapter::adapters;
pub use address::{reachable, resolve_url};
pub use again::Again;
pub use error::{Fault, PlanError, Problem};
pub use figure::{Figure, FigureOver, Over, UnknownFigure};
pub use load::FIELDS as LOAD_FIELDS;
pub use near_miss::near_miss;
pub use skip::Lack;
pub use table::{Only, TableKind, TableSpec};
pub use types::*;
pub use when::{WHEN_SIGNALS, When};

use record::Nanos;

/// More trials than this in one stage are a typing error: at the shortest they take a day.
pub const MOST_TRIALS: u64 = 50_000;

/// Blocks of a stage after which a run that repeats until it is precise enough gives up, unless the file says
/// otherwise.
pub const MOST_REPEATS: u32 = 50;

/// Steps after which the search of a stage ends with what it has found: halving and bisecting reaches 5 % in seven, and
/// confirming it takes one or two.
pub const SEARCH_STEPS: u32 = 10;

/// Factor that `aa = true` adds to a stage, with the levels [`TWIN_NO`] and [`TWIN_YES`].
pub const TWIN: &str = "twin";
/// Level of every cell of the experiment itself.
pub const TWIN_NO: &str = "no";
/// Level of the second copy of a baseline, which is measured like any other cell: an A/A comparison.
pub const TWIN_YES: &str = "yes";

/// Half the width of an interval, as a person writes it: `±1%`, `+-1%`, `1%` or `0.01`; between 0 and 1, neither
/// included.
pub fn parse_half_width(text: &str) -> Option<f64> {
    let number = text.trim().trim_start_matches(['±', '+', '-']).trim();
    let share = typed::percent(number).or_else(|| number.parse().ok())?;
    (share > 0.0 && share < 1.0).then_some(share)
}

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

    /// Sets the precision that the run has to reach, `half_width` as a share (0.01 is +-1 %). What the file says of
    /// the most repeats and of the budget stays.
    pub fn set_until(&mut self, half_width: f64) {
        self.until = Some(Until {
            half_width,
            ..self.until.unwrap_or(Until {
                half_width,
                most_repeats: MOST_REPEATS,
                budget: None,
            })
        });
    }

    /// The names of the stages that are searches.
    pub fn searches(&self) -> impl Iterator<Item = &str> {
        let searches = self.stages.iter().filter(|s| s.search.is_some());
        searches.map(|s| s.name.as_str())
    }

    /// One more block of a stage: every cell once, in an order of its own. Its trials follow the stage's last one, and
    /// the trials of later stages, which must not have run yet, move back. Returns the block's number.
    pub fn add_block(&mut self, stage: usize) -> u32 {
        expand::add_block(self, stage)
    }

    /// Time that one more block of the stage takes.
    pub fn block_time(&self, stage: usize) -> Nanos {
        let first = self
            .trials
            .iter()
            .filter(|t| t.stage == stage && t.block == 0);
        Nanos(first.map(|t| t.time().0).fold(0, u64::saturating_add))
    }

    /// Time that the whole plan takes: the sum of its trials.
    pub fn time(&self) -> Nanos {
        let sum = self.trials.iter().map(|t| t.time().0);
        Nanos(sum.fold(0, u64::saturating_add))
    }
}
