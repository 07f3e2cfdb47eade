//! `prony report DIR`: a stored record, analysed again, shown and written as a page.

use crate::cli::ReportArgs;
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::{Diagnosis, RunAnalysis, StoredProof};
use record::{RunRecord, Store};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the page within a record's directory.
pub const PAGE: &str = "report.html";

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the directory holds no record that can be read, or the page cannot be written.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    let mut store = DirStore::open(&args.record);
    let record = RunRecord::load(&store)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let analysis = analyse(&record)?;
    let diagnoses = diagnoses(&store, &record)?;
    let written = write_html(&mut store, &record, &analysis, &diagnoses);
    let judged = Judged {
        record: &record,
        analysis: &analysis,
        diagnoses: &diagnoses,
    };
    show(&args.record, &judged, args.json, written.is_ok())?;
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
    diagnoses: &Diagnoses,
) -> Result<(), String> {
    store
        .put(
            PAGE,
            report::html::page(record, analysis, diagnoses).as_bytes(),
        )
        .map_err(|e| format!("writing `{PAGE}`: {e}"))
}

/// Diagnoses by trial.
pub type Diagnoses = BTreeMap<u32, Diagnosis>;

/// Measured proofs of a record's causes.
const PROOFS: &str = "proofs.json";

/// Stores what was proved beside the record; nothing when nothing was.
///
/// # Errors
/// The system's cause.
pub fn save_proofs(store: &mut dyn Store, proofs: &[StoredProof]) -> Result<(), String> {
    if proofs.is_empty() {
        return Ok(());
    }
    let text = serde_json::to_vec_pretty(proofs).map_err(|e| format!("{PROOFS}: {e}"))?;
    store.put(PROOFS, &text)
}

/// The diagnoses of a record, made anew, with what was proved when it was recorded.
///
/// # Errors
/// [`Failure`] when its plan or its proofs cannot be read.
pub fn diagnoses(store: &dyn Store, record: &RunRecord) -> Result<Diagnoses, Failure> {
    let mut diagnoses = analysis::diagnose_run(record)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let unreadable = |cause: String| {
        let what = format!("reading `{PROOFS}` of the record: {cause}");
        Failure::new(
            Exit::Usage,
            what,
            "delete the file to judge without its proofs",
        )
    };
    if let Some(text) = store.get(PROOFS).map_err(unreadable)? {
        let proofs: Vec<StoredProof> =
            serde_json::from_slice(&text).map_err(|e| unreadable(e.to_string()))?;
        analysis::merge_proofs(&mut diagnoses, proofs);
    }
    Ok(diagnoses)
}

/// A record with what is said about it.
pub struct Judged<'a> {
    /// The record.
    pub record: &'a RunRecord,
    /// Figures and verdicts.
    pub analysis: &'a RunAnalysis,
    /// Causes.
    pub diagnoses: &'a Diagnoses,
}

/// Shows a run's result; `with_page` says that the page was written.
///
/// # Errors
/// [`Failure`] when standard output cannot be written.
pub fn show(
    directory: &Path,
    judged: &Judged<'_>,
    json: bool,
    with_page: bool,
) -> Result<(), Failure> {
    let Judged {
        record,
        analysis,
        diagnoses,
    } = judged;
    if json {
        let directory = directory.display().to_string();
        let document = report::json::run_document(record, analysis, &directory, diagnoses);
        return terminal::result(&super::to_json(&document));
    }
    let style = terminal::style();
    let mut text = report::text::run_text(record, analysis, style);
    text.push_str(&report::text::causes_text(analysis, record, diagnoses));
    terminal::result(&text)?;
    if with_page {
        terminal::result(&format!("report: {}", directory.join(PAGE).display()))?;
    }
    Ok(())
}
