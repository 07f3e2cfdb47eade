//! `prony report DIR DIR...`: an index of many records, each experiment over time.
//!
//! A directory that is no record stands for the records below it. One that cannot be read is listed with its reason,
//! and the others are shown.

use super::report::{DOCUMENT, PAGE, deliver, diagnoses, seen_from, write_html};
use crate::cli::{ReportArgs, ReportFormat};
use crate::executor::run::analyse;
use crate::exit::{Exit, Failure};
use crate::store::DirStore;
use crate::terminal;
use analysis::RunAnalysis;
use record::RunRecord;
use report::index::{
    Entry, IndexDocument, Unreadable, index_document, index_markdown, index_page, index_text,
};
use std::path::{Path, PathBuf};

/// Name of the page within the directory that holds the records.
const INDEX: &str = "index.html";
/// Levels of directories below a given one that are searched for records.
const DEPTH: usize = 3;
/// Relative difference of a count of calls that is none, as in `prony compare`.
const TOLERANCE: f64 = 0.02;

/// A record with its place.
struct Loaded {
    directory: PathBuf,
    name: String,
    record: RunRecord,
    analysis: RunAnalysis,
}

/// The directory holds a record.
pub fn is_record(directory: &Path) -> bool {
    directory.join("manifest.json").is_file()
}

/// Some directory below holds a record.
pub fn holds_records(directory: &Path) -> bool {
    !records_below(directory, DEPTH).is_empty()
}

/// A record's name in lists: its directory's.
pub fn name(directory: &Path) -> String {
    let whole = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    let last = whole.components().next_back();
    last.map_or_else(String::new, |c| {
        c.as_os_str().to_string_lossy().into_owned()
    })
}

/// Records below a directory, in the order of their names.
fn records_below(directory: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut below: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    below.sort();
    let within = |path: PathBuf| match (is_record(&path), depth) {
        (true, _) => vec![path],
        (false, 0 | 1) => Vec::new(),
        (false, _) if path.is_dir() => records_below(&path, depth - 1),
        (false, _) => Vec::new(),
    };
    below.into_iter().flat_map(within).collect()
}

/// Runs the verb for several records, or a directory of them.
///
/// # Errors
/// [`Failure`] when no record can be read, or the result cannot be written.
pub fn run(args: &ReportArgs, given: &[PathBuf]) -> Result<Exit, Failure> {
    let directories: Vec<PathBuf> = given
        .iter()
        .flat_map(|d| match is_record(d) || !holds_records(d) {
            true => vec![d.clone()],
            false => records_below(d, DEPTH),
        })
        .collect();
    let (mut loaded, mut unreadable) = (Vec::new(), Vec::new());
    for directory in directories {
        match load(&directory) {
            Ok(one) => loaded.push(one),
            Err(why) => unreadable.push(Unreadable {
                directory: directory.display().to_string(),
                why,
            }),
        }
    }
    if loaded.is_empty() {
        let first = unreadable.first();
        return Err(Failure::new(
            Exit::Usage,
            first.map_or_else(String::new, |u| format!("{}: {}", u.directory, u.why)),
            "give directories that `prony run --out` wrote, or one that holds such directories",
        ));
    }
    let form = args.form();
    // Where the result lies decides how its links read; the page has a place of its own.
    let page = match (form, &args.out) {
        (Some(ReportFormat::Html) | None, None) => Some(common(given).join(INDEX)),
        _ => args.out.clone(),
    };
    let places: Vec<String> = loaded
        .iter()
        .map(|l| match seen_from(page.as_deref(), &l.directory) {
            here if here.is_empty() => ".".to_owned(),
            place => place,
        })
        .collect();
    let entries: Vec<Entry> = loaded
        .iter()
        .zip(&places)
        .map(|(l, directory)| Entry {
            name: &l.name,
            directory,
            record: &l.record,
            analysis: &l.analysis,
        })
        .collect();
    let document = index_document(&entries, unreadable, TOLERANCE);
    match (form, &args.out, page) {
        (None, None, Some(page)) => {
            terminal::result(&index_text(&document, terminal::style()))?;
            deliver(&index_page(&document), Some(&page))?;
        }
        (Some(ReportFormat::Html), None, Some(page)) => {
            deliver(&index_page(&document), Some(&page))?;
        }
        (form, out, _) => {
            let form = form.unwrap_or(ReportFormat::Text);
            deliver(&as_text(form, &document, &loaded), out.as_deref())?;
        }
    }
    Ok(Exit::Valid)
}

fn as_text(form: ReportFormat, document: &IndexDocument, loaded: &[Loaded]) -> String {
    match form {
        ReportFormat::Html => index_page(document),
        ReportFormat::Markdown => index_markdown(document),
        ReportFormat::Json => super::to_json(document),
        ReportFormat::Text => index_text(document, report::text::Style::Plain),
        ReportFormat::Csv => {
            let runs: Vec<report::csv::Run> = loaded
                .iter()
                .map(|l| report::csv::Run {
                    name: &l.name,
                    record: &l.record,
                    analysis: &l.analysis,
                })
                .collect();
            report::csv::csv(&runs)
        }
    }
}

/// Reads a record and analyses it; a report that is missing is written, because the index links to it.
fn load(directory: &Path) -> Result<Loaded, String> {
    let mut store = DirStore::open(directory);
    let record = RunRecord::load(&store).map_err(|e| e.to_string())?;
    let analysis = analyse(&record).map_err(|e| e.message)?;
    if ![PAGE, DOCUMENT].iter().all(|f| directory.join(f).is_file()) {
        let diagnoses = diagnoses(&store, &record, &analysis).map_err(|e| e.message)?;
        if let Err(cause) = write_html(&mut store, &record, &analysis, &diagnoses) {
            terminal::note(&format!("{}: {cause}", directory.display()));
        }
    }
    Ok(Loaded {
        directory: directory.to_owned(),
        name: name(directory),
        record,
        analysis,
    })
}

/// The directory that holds all given ones; a directory of records is its own.
fn common(given: &[PathBuf]) -> PathBuf {
    let holder = |d: &PathBuf| {
        let whole = std::path::absolute(d).unwrap_or_else(|_| d.clone());
        match is_record(d) {
            true => whole.parent().map(Path::to_owned).unwrap_or(whole),
            false => whole,
        }
    };
    let mut holders = given.iter().map(holder);
    let first = holders.next().unwrap_or_default();
    let common = holders.fold(first, |common, other| {
        let same = common
            .components()
            .zip(other.components())
            .take_while(|(a, b)| a == b);
        same.map(|(a, _)| a).collect()
    });
    // Shown as it would be typed.
    let here = std::env::current_dir().unwrap_or_default();
    match common.strip_prefix(&here) {
        Ok(below) => below.to_owned(),
        Err(_) => common,
    }
}
