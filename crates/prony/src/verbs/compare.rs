//! `prony compare A B`: two records side by side, as a table and as a gate: the exit code says whether B is worse.

use crate::cli::CompareArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::imported::compare_reported;
use analysis::{CompareOptions, Outcome};
use record::RunRecord;
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when a directory holds no record.
pub fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let (a, b) = (load(&args.before)?, load(&args.after)?);
    let options = CompareOptions {
        tolerance: args.tolerance,
        threshold: args.threshold,
    };
    let comparison = analysis::compare(&a, &b, options);
    let imported = |record: &RunRecord| record.trials.iter().any(|t| t.reported.is_some());
    let reported = match imported(&a) && imported(&b) {
        true => compare_reported(&analyse(&a)?, &analyse(&b)?),
        false => Vec::new(),
    };
    if args.json {
        let document = report::json::compare_document(&comparison, reported);
        terminal::result(&super::to_json(&document))?;
    } else {
        let text = report::text::comparison_text(&comparison, terminal::style());
        terminal::result(&text)?;
        if !reported.is_empty() {
            let text = report::text::reported_text(&reported, terminal::style());
            terminal::result(&text)?;
        }
    }
    Ok(match comparison.outcome {
        Outcome::NoDifference | Outcome::Improvement => Exit::Valid,
        Outcome::Regression | Outcome::OtherCalls => Exit::Failed,
        Outcome::NotComparable | Outcome::NotJudged => Exit::Invalid,
    })
}

fn load(directory: &Path) -> Result<RunRecord, Failure> {
    RunRecord::load(&DirStore::open(directory)).map_err(|e| {
        let message = format!("{}: {e}", directory.display());
        Failure::new(Exit::Usage, message, e.remedy())
    })
}
