//! `prony report DIR`: a stored record, analysed again, shown and written as a page or in another form.

use crate::cli::{ReportArgs, ReportFormat};
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::{Against, Diagnosis, RunAnalysis, StoredProof};
use record::{RunRecord, Store, TrialRecord};
use report::json::RunDocument;
use report::text::Style;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the page within a record's directory.
pub const PAGE: &str = "report.html";

/// Runs the verb: a report of one record, or an index of several.
///
/// # Errors
/// [`Failure`] when the directory holds no record that can be read, or the result cannot be written.
pub fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    match args.records.as_slice() {
        [one] if super::index::is_record(one) || !super::index::holds_records(one) => {
            report(args, one)
        }
        several => super::index::run(args, several),
    }
}

fn report(args: &ReportArgs, directory: &Path) -> Result<Exit, Failure> {
    let mut store = DirStore::open(directory);
    let record = RunRecord::load(&store)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let analysis = analyse(&record)?;
    let diagnoses = diagnoses(&store, &record, &analysis)?;
    let judged = Judged {
        record: &record,
        analysis: &analysis,
        diagnoses: &diagnoses,
        against: against(&store)?,
    };
    let written = match (args.form(), &args.out) {
        // The page goes where it was asked to go, and the record stays as it is.
        (Some(ReportFormat::Html), Some(_)) => Ok(()),
        _ => write_html(&mut store, &record, &analysis, &diagnoses),
    };
    match (args.form(), &args.out) {
        (None | Some(ReportFormat::Text), None) => {
            show(directory, &judged, false, written.is_ok())?;
        }
        (Some(ReportFormat::Html), None) if written.is_ok() => {
            terminal::result(&format!("report: {}", directory.join(PAGE).display()))?;
        }
        (Some(ReportFormat::Html), None) => {}
        (form, out) => {
            let form = form.unwrap_or(ReportFormat::Text);
            let text = judged.as_text(directory, form, out.as_deref());
            deliver(&text, out.as_deref())?;
        }
    }
    if let Err(cause) = written {
        return Err(Failure::new(
            Exit::Environment,
            cause,
            "check the free space and the permissions of the directory",
        ));
    }
    // Traffic that was watched has no load whose figures could be valid.
    Ok(if analysis.verdict.valid || judged.is_watch() {
        Exit::Valid
    } else {
        Exit::Invalid
    })
}

/// A result to its file, or to standard output.
///
/// # Errors
/// [`Failure`] when it cannot be written.
pub fn deliver(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = out else {
        return terminal::result(text);
    };
    std::fs::write(path, text).map_err(|e| {
        Failure::new(
            Exit::Environment,
            format!("writing `{}`: {e}", path.display()),
            "give --out a file in a directory that exists and that you may write to",
        )
    })?;
    terminal::result(&format!("report: {}", path.display()))
}

/// Where `to` lies as seen from the file `out`; as it was given where standard output takes the result.
pub fn seen_from(out: Option<&Path>, to: &Path) -> String {
    let Some(out) = out else {
        return to.display().to_string();
    };
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (from, to) = (whole(out), whole(to));
    let from = from.parent().unwrap_or(&from);
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(common).map(|_| "..".into());
    let down = to.components().skip(common);
    let down = down.map(|c| c.as_os_str().to_string_lossy().into_owned());
    let path: Vec<String> = up.chain(down).collect();
    path.join("/")
}

/// The document within a record's directory: what the page's numbers are from.
pub const DOCUMENT: &str = "report.json";

/// Writes the page into the record's directory, and beside it the document that its numbers lead to.
///
/// # Errors
/// What was being done and the system's cause.
pub fn write_html(
    store: &mut DirStore,
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &Diagnoses,
) -> Result<(), String> {
    let document = document(store, record, analysis, ".", diagnoses).map_err(|e| e.message)?;
    let page = report::html::page_of(record, analysis, &document);
    for (name, text) in [(DOCUMENT, super::to_json(&document)), (PAGE, page)] {
        store
            .put(name, text.as_bytes())
            .map_err(|e| format!("writing `{name}`: {e}"))?;
    }
    Ok(())
}

/// The document of a stored record, with what lies beside it.
///
/// # Errors
/// [`Failure`] when that cannot be read.
pub fn document(
    store: &dyn Store,
    record: &RunRecord,
    analysis: &RunAnalysis,
    directory: &str,
    diagnoses: &Diagnoses,
) -> Result<RunDocument, Failure> {
    let judged = Judged {
        record,
        analysis,
        diagnoses,
        against: against(store)?,
    };
    Ok(judged.document(directory))
}

/// The contrast with an earlier record, which may be gone by now.
const AGAINST: &str = "against.json";

/// Stores the contrast with an earlier record.
///
/// # Errors
/// The system's cause.
pub fn save_against(store: &mut dyn Store, against: &Against) -> Result<(), String> {
    store.put(AGAINST, super::to_json(against).as_bytes())
}

/// The contrast that was stored with a record; `None` without one.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub fn against(store: &dyn Store) -> Result<Option<Against>, Failure> {
    beside(store, AGAINST, "the contrast with an earlier record")
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

/// The diagnoses of a record, made anew from its analysis, with what was proved when it was recorded.
///
/// # Errors
/// [`Failure`] when its plan or its proofs cannot be read.
pub fn diagnoses(
    store: &dyn Store,
    record: &RunRecord,
    analysis: &RunAnalysis,
) -> Result<Diagnoses, Failure> {
    let mut diagnoses = analysis::diagnose_run(record, &analysis.trials)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    if let Some(proofs) = beside::<Vec<StoredProof>>(store, PROOFS, "its proofs")? {
        analysis::merge_proofs(&mut diagnoses, proofs);
    }
    Ok(diagnoses)
}

/// What lies in a file beside the record, where there is one; `held` names it for the remedy.
///
/// # Errors
/// [`Failure`] when it cannot be read.
pub fn beside<T: DeserializeOwned>(
    store: &dyn Store,
    file: &str,
    held: &str,
) -> Result<Option<T>, Failure> {
    let unreadable = |cause: String| {
        let what = format!("reading `{file}` of the record: {cause}");
        let remedy = format!("delete the file to judge without {held}");
        Failure::new(Exit::Usage, what, remedy)
    };
    let text = store.get(file).map_err(unreadable)?;
    text.map(|text| serde_json::from_slice(&text).map_err(|e| unreadable(e.to_string())))
        .transpose()
}

/// A record with what is said about it.
pub struct Judged<'a> {
    pub record: &'a RunRecord,
    /// Figures and verdicts.
    pub analysis: &'a RunAnalysis,
    /// Causes.
    pub diagnoses: &'a Diagnoses,
    /// The contrast with an earlier record.
    pub against: Option<Against>,
}

impl Judged<'_> {
    /// Nothing was loaded: traffic that was there was watched.
    fn is_watch(&self) -> bool {
        let trials = &self.record.trials;
        let watching =
            |t: &TrialRecord| t.examination.as_ref().is_some_and(|e| e.watching.is_some());
        trials.iter().any(watching) && trials.iter().all(|t| t.outcome.is_none())
    }

    /// The answer and the figures of a run; a watch has neither.
    fn figures_text(&self, style: Style) -> String {
        if self.is_watch() {
            return String::new();
        }
        let (record, analysis) = (self.record, self.analysis);
        if let Some(run) = &record.traffic {
            let series = record.trials.first().map_or(&[][..], |t| &t.series);
            let document = report::traffic::document(run, series, "");
            return report::traffic::traffic_text(&document, style);
        }
        let answer = analysis::answer(record, analysis, self.diagnoses);
        report::text::answer_text(&answer, &analysis.verdict, style)
            + &report::text::run_text(record, analysis, style)
    }

    fn document(&self, directory: &str) -> RunDocument {
        let (record, analysis) = (self.record, self.analysis);
        let mut document = report::json::run_document(record, analysis, directory, self.diagnoses);
        document.against = self.against.clone();
        document
    }

    /// Slow seconds, and the contrast with an earlier record, for a terminal.
    fn beside_text(&self) -> String {
        let watched = self.document("").watched;
        let watched = watched.as_ref().map(report::text::watched_text);
        let against = self.against.as_ref().map(report::text::against_text);
        watched.into_iter().chain(against).collect()
    }

    /// In one of the forms; `out` is the file that links in it are seen from.
    fn as_text(&self, directory: &Path, form: ReportFormat, out: Option<&Path>) -> String {
        let (record, analysis, diagnoses) = (self.record, self.analysis, self.diagnoses);
        let document = |name: &str| self.document(name);
        match form {
            ReportFormat::Html => report::html::page_of(record, analysis, &document("")),
            ReportFormat::Markdown => {
                let base = seen_from(out, directory);
                report::markdown::run_markdown(record, &document(&base), &base)
            }
            ReportFormat::Csv => report::csv::csv(&[report::csv::Run {
                name: &super::index::name(directory),
                record,
                analysis,
            }]),
            ReportFormat::Json => super::to_json(&document(&directory.display().to_string())),
            ReportFormat::Text => {
                let text = self.figures_text(Style::Plain);
                let text = text + &report::text::causes_text(analysis, record, diagnoses);
                text + &self.beside_text()
            }
        }
    }
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
        ..
    } = judged;
    if json {
        let directory = directory.display().to_string();
        return terminal::result(&super::to_json(&judged.document(&directory)));
    }
    let mut text = judged.figures_text(terminal::style());
    text.push_str(&report::text::causes_text(analysis, record, diagnoses));
    text.push_str(&judged.beside_text());
    terminal::result(&text)?;
    if with_page {
        terminal::result(&format!("report: {}", directory.join(PAGE).display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_seen_from_the_file_that_holds_them() {
        for (out, to, want) in [
            (Some("/a/b/x.md"), "/a/b/run", "run"),
            (Some("/a/x.md"), "/a", ""),
            (Some("/a/b/x.md"), "/c/run", "../../c/run"),
            (Some("/a/run/x.md"), "/a/run", ""),
            (None, "results/run", "results/run"),
        ] {
            assert_eq!(seen_from(out.map(Path::new), Path::new(to)), want);
        }
    }
}
