//! Text for a terminal: one load, live progress, a run, a plan, a diagnosis. Returned as strings, never printed here.
//!
//! The verdict always comes first, and nothing is shown that was not measured: a load without a success has
//! no rate and no latencies, not zeros.

mod answer;
mod comparison;
mod container;
mod diagnosis;
pub(crate) mod find;
pub(crate) mod imported;
mod improvement;
mod ledger;
mod live;
mod load;
mod plan;
mod prediction;
mod replay;
mod run;
mod search;
mod style;
pub(crate) mod table;
pub(crate) mod tables;
mod trial;
mod watched;
mod wrap;

pub use answer::answer_text;
pub use comparison::comparison_text;
pub use diagnosis::{aa_text, diagnosis_text};
pub use find::{find_line, find_text, load_at_text, search_plan_text};
pub(crate) use imported::{figure_text, gain_text};
pub use imported::{import_text, reported_text};
pub use improvement::{causes_text, improvement_text};
pub use live::live_cells;
pub use load::{load_text, progress_line};
pub use plan::plan_text;
pub use prediction::held;
pub(crate) use prediction::would_bring;
pub use replay::replay_text;
pub use run::run_text;
pub(crate) use run::window_mark;
pub use search::search_line;
pub use style::Style;
pub(crate) use table::columns;
pub use trial::trial_line;
pub use watched::{against_text, watched_text};

use analysis::{Limit, Verdict};
use record::Warning;

/// The verdict's lines: validity, limit and reason on the first, what to do on the second.
pub fn verdict_text(verdict: &Verdict, style: Style) -> String {
    let first = if verdict.valid {
        let limit = limit_words(verdict.limit);
        format!("{}, {limit}: {}", style.good("valid"), verdict.why)
    } else {
        format!("{}: {}", style.bad("NOT VALID"), verdict.why)
    };
    // A valid result needs no remedy, but the same words say what a measurer does next.
    let label = if verdict.valid { "next" } else { "remedy" };
    match verdict.remedy.as_str() {
        "" => first + "\n",
        remedy => format!("{first}\n{label}: {remedy}\n"),
    }
}

/// Whether a service level was kept, and what was not.
pub fn slo_text(slo: &crate::json::SloKept, style: Style) -> String {
    if slo.broken.is_empty() {
        return format!("{}: {}\n", style.good("SLO kept"), slo.asked);
    }
    let missed = slo
        .broken
        .iter()
        .map(|b| format!("{}: {b}\n", style.bad("SLO missed")));
    missed.collect()
}

/// `limited by the server`.
pub(crate) fn limit_words(limit: Limit) -> &'static str {
    match limit {
        Limit::Server => "limited by the server",
        Limit::Generator => "limited by the generator",
        Limit::OfferedLoad => "limited by the offered load",
        Limit::Network => "limited by the network",
        Limit::Unknown => "limit unknown",
    }
}

/// Warnings, each with its remedy; empty without one.
pub fn warnings_text(warnings: &[Warning], style: Style) -> String {
    warnings
        .iter()
        .map(|w| {
            let first = format!("{} {}\n", style.doubtful("warning:"), w.seen);
            match w.remedy.as_str() {
                "" => first,
                remedy => format!("{first}  remedy: {remedy}\n"),
            }
        })
        .collect()
}
