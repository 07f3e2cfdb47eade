//! `prony compare A B`: what the servers of two records do for each request, side by side.

use crate::cli::CompareArgs;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use record::RunRecord;
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when a directory holds no record, or the two have no signature in common.
pub fn run(args: &CompareArgs) -> Result<Exit, Failure> {
    let (a, b) = (load(&args.before)?, load(&args.after)?);
    let comparison = analysis::compare(&a, &b, args.tolerance);
    if comparison.cells.is_empty() {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "`{}` and `{}` have no cell in common whose calls were counted",
                args.before.display(),
                args.after.display()
            ),
            "compare records of the same experiment, or of `prony diagnose --out`, made as root",
        ));
    }
    if args.json {
        let document = report::json::compare_document(&comparison);
        terminal::result(&super::to_json(&document))?;
    } else {
        let text = report::text::comparison_text(&comparison, terminal::style());
        terminal::result(&text)?;
    }
    Ok(if comparison.same() {
        Exit::Valid
    } else {
        Exit::Failed
    })
}

fn load(directory: &Path) -> Result<RunRecord, Failure> {
    RunRecord::load(&DirStore::open(directory)).map_err(|e| {
        let message = format!("{}: {e}", directory.display());
        Failure::new(Exit::Usage, message, e.remedy())
    })
}
