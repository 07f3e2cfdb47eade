//! `prony report DIR`: a stored record, analysed again, shown and written as a page.

use crate::cli::ReportArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::RunAnalysis;
use record::{RunRecord, Store};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the page within a record's directory.
const PAGE: &str = "report.html";

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the directory holds no record that can be read, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let mut store = DirStore::open(&args.record);
    let record = RunRecord::load(&store)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let analysis = analyse(&record)?;
    let written = write_html(&mut store, &record, &analysis);
    show(&args.record, &record, &analysis, args.json, written.is_ok())?;
    if let Err(cause) = written {
        return Err(Failure::new(
            Exit::Environment,
            cause,
            "check the free space and the permissions of the directory",
        ));
    }
    Ok(if analysis.verdict.valid {
        Exit::Valid
    } else {
        Exit::Invalid
    })
}

/// Writes the page into the record's directory.
///
/// # Errors
/// What was being done and the system's cause.
pub fn write_html(
    store: &mut DirStore,
    record: &RunRecord,
    analysis: &RunAnalysis,
) -> Result<(), String> {
    store
        .put(
            PAGE,
            report::html::page(record, analysis, &BTreeMap::new()).as_bytes(),
        )
        .map_err(|e| format!("writing `{PAGE}`: {e}"))
}

/// Shows a run's result; `with_page` says that the page was written.
///
/// # Errors
/// [`Failure`] when standard output cannot be written.
pub fn show(
    directory: &Path,
    record: &RunRecord,
    analysis: &RunAnalysis,
    json: bool,
    with_page: bool,
) -> Result<(), Failure> {
    if json {
        let document = report::json::run_document(
            record,
            analysis,
            &directory.display().to_string(),
            &BTreeMap::new(),
        );
        return terminal::result(&super::to_json(&document));
    }
    let style = terminal::style();
    terminal::result(&report::text::run_text(record, analysis, style))?;
    if with_page {
        terminal::result(&format!("report: {}", directory.join(PAGE).display()))?;
    }
    Ok(())
}
