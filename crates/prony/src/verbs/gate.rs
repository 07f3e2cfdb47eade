//! `prony gate`: whether a level of a run is worse than its baseline by more than is allowed, for CI.

use crate::cli::GateArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::{GateOptions, GateResult};
use record::RunRecord;
use report::gate::{GateDocument, gate_markdown};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] for a directory without a record, or a record without a baseline.
pub fn run(args: &GateArgs) -> Result<Exit, Failure> {
    let record = RunRecord::load(&DirStore::open(&args.record)).map_err(|e| {
        let message = format!("{}: {e}", args.record.display());
        Failure::new(Exit::Usage, message, e.remedy())
    })?;
    let options = GateOptions {
        threshold: args.threshold,
        tolerance: args.tolerance,
    };
    let gate = analysis::gate(&record, &analyse(&record)?, options).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!("{}: the run has no baseline", args.record.display()),
            "give `baseline` in [design] of its experiment; docs/ci.md shows one",
        )
    })?;
    let result = gate.result;
    let document = GateDocument {
        format: report::json::FORMAT,
        question: record.manifest.question.clone(),
        gate,
    };
    match args.json {
        true => terminal::result(&super::to_json(&document))?,
        false => terminal::result(&gate_markdown(&document))?,
    }
    Ok(match result {
        GateResult::Failed => Exit::Failed,
        // A host on which little can be told is no fault of the change.
        GateResult::Passed | GateResult::Undecided => Exit::Valid,
    })
}
