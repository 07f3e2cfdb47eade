//! One self-contained HTML file for a run: record and analysis in, text out.
//!
//! All tables are plain HTML, so that the page can be read without scripts; the plots are drawn by uPlot
//! from one JSON block. Nothing is loaded from anywhere: a content security policy forbids it. The page
//! computes nothing that the analysis says; see `crate::number` for how a number keeps its origin.

mod answer;
mod context;
pub(crate) mod curves;
pub(crate) mod design;
mod figures;
pub(crate) mod flame;
mod gains;
mod heat;
mod hosts;
mod ledger;
mod limits;
mod load;
mod reported;
mod search;
mod series;
mod shares;
mod spectra;
mod stages;
mod tables;
mod traffic;
mod trials;
mod verdict;
mod watched;

use crate::conclusion::{self, Said, Sentence};
use crate::json::{RunDocument, run_document};
use crate::number::{Number, Source, Unit};
use analysis::{Diagnosis, Levels, Plan, RunAnalysis, words};
pub use load::load_page;
use minijinja::{
    AutoEscape, Environment, Output, State, UndefinedBehavior, Value, escape_formatter,
};
use record::{Manifest, RunRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const TEMPLATES: [(&str, &str); 20] = [
    ("report.html", include_str!("../../templates/report.html")),
    ("index.html", include_str!("../../templates/index.html")),
    ("load.html", include_str!("../../templates/load.html")),
    ("macros.html", include_str!("../../templates/macros.html")),
    ("answer.html", include_str!("../../templates/answer.html")),
    ("limits.html", include_str!("../../templates/limits.html")),
    (
        "conclusion.html",
        include_str!("../../templates/conclusion.html"),
    ),
    ("plots.html", include_str!("../../templates/plots.html")),
    (
        "reported.html",
        include_str!("../../templates/reported.html"),
    ),
    ("search.html", include_str!("../../templates/search.html")),
    ("stage.html", include_str!("../../templates/stage.html")),
    ("spectra.html", include_str!("../../templates/spectra.html")),
    ("tables.html", include_str!("../../templates/tables.html")),
    ("traffic.html", include_str!("../../templates/traffic.html")),
    (
        "traffic_tables.html",
        include_str!("../../templates/traffic_tables.html"),
    ),
    ("trials.html", include_str!("../../templates/trials.html")),
    ("context.html", include_str!("../../templates/context.html")),
    ("found.html", include_str!("../../templates/found.html")),
    ("watched.html", include_str!("../../templates/watched.html")),
    ("method.html", include_str!("../../templates/method.html")),
];

/// Trials up to which each of them lists its evidence.
const EVIDENCE_TRIALS: usize = 30;

/// What is laid into the page as it is: our own files and uPlot's, see `assets/uplot/README.md`.
#[derive(Serialize)]
struct Assets {
    report_css: String,
    limits_css: String,
    flame_js: String,
    report_js: String,
    uplot_css: &'static str,
    uplot_js: &'static str,
}

/// Our own files without their comments, and uPlot's as they are.
fn assets() -> Assets {
    Assets {
        report_css: without_comments(include_str!("../../assets/report.css")),
        limits_css: without_comments(include_str!("../../assets/limits.css")),
        flame_js: without_comments(include_str!("../../assets/flame.js")),
        report_js: without_comments(include_str!("../../assets/report.js")),
        uplot_css: include_str!("../../assets/uplot/uPlot.min.css"),
        uplot_js: include_str!("../../assets/uplot/uPlot.iife.min.js"),
    }
}

/// Leaves out the lines that hold nothing but a comment: who reads them has the repository.
fn without_comments(text: &str) -> String {
    let said = |line: &&str| {
        let line = line.trim();
        !(line.starts_with("//") || line.starts_with("/*") && line.ends_with("*/"))
    };
    text.lines().filter(said).collect::<Vec<_>>().join("\n")
}

/// Everything that the templates see.
#[derive(Serialize)]
struct Page<'a> {
    assets: Assets,
    /// Plot data as JSON that cannot end the script element it stands in.
    data: String,
    manifest: &'a Manifest,
    command: String,
    experiment: &'a str,
    again: String,
    plan_seed: Option<Number>,
    design: design::DesignView,
    answer: Option<answer::AnswerView>,
    /// In place of `answer` where nothing was loaded.
    found: Option<watched::FoundView>,
    /// It was found in traffic that was there, and stands for the answer.
    no_load: bool,
    /// In place of `answer`, and of all that is about trials, in a run of traffic.
    traffic: Option<traffic::TrafficView>,
    /// What the numbers say beyond the answer.
    said: Vec<Sentence>,
    unsaid: Vec<Sentence>,
    error_limit: Option<String>,
    knees: Vec<verdict::KneeView>,
    trials_valid: usize,
    cells: Vec<limits::CellRow>,
    limits: Vec<limits::LimitView>,
    watched: Option<watched::WatchedView>,
    searches: Vec<search::SearchView>,
    stages: Vec<stages::StageView>,
    reported: Vec<reported::ReportedView>,
    spectra: Vec<SpectrumOption>,
    tables: Vec<tables::TableView>,
    latency_heads: Vec<&'static str>,
    trials: Vec<trials::TrialView>,
    /// The detail sheets of valid trials list their evidence: not in a run of many, whose page must stay small.
    all_evidence: bool,
    cores: Vec<String>,
    points_max: usize,
    targets: Vec<context::TargetView>,
    files: Vec<context::FileView>,
    files_left_out: usize,
    environment: Vec<context::EnvironmentGroup>,
    unavailable: Vec<context::Noted>,
    warnings: Vec<context::Noted>,
}

/// What the percentile plot can show.
#[derive(Serialize)]
struct SpectrumOption {
    stage: String,
    name: String,
    trial: Option<u32>,
}

/// Data of all plots.
#[derive(Serialize)]
struct PlotData {
    curves: Vec<curves::Curves>,
    spectra: spectra::Spectra,
    trials: Vec<series::TrialSeries>,
    modes: Vec<&'static str>,
}

/// The page for a run; `diagnoses` holds those of its trials by id.
pub fn page(
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> String {
    let document = run_document(record, analysis, "", diagnoses);
    page_of(record, analysis, &document)
}

/// The page for a run whose document is there already.
pub fn page_of(record: &RunRecord, analysis: &RunAnalysis, document: &RunDocument) -> String {
    let source = Source::new(paths::DOCUMENT, document);
    // A record of another version may hold another plan; the page then does without it.
    let plan = Plan::deserialize(&record.plan).ok();
    let cores = series::busiest_cores(record);
    let (unsaid, said) = conclusion::sentences(document, plan.as_ref())
        .into_iter()
        .filter(|s| !s.said.is_in_the_answer() && document.traffic.is_none())
        .partition(|s| s.said == Said::CannotSay);
    let data = PlotData {
        curves: curves::curves(record, analysis),
        spectra: spectra::spectra(record, analysis),
        trials: series::series(record, analysis, &cores),
        modes: series::MODES.map(|(mode, _)| mode).to_vec(),
    };
    let answer = answer::answer(document, &data.curves);
    let found = watched::found(record, document, &source);
    let (files, files_left_out) = context::files(record);
    let page = Page {
        assets: assets(),
        data: script_json(&data),
        manifest: &record.manifest,
        command: context::shell_words(&record.manifest.command),
        experiment: &record.experiment,
        again: design::again(&record.manifest.command),
        plan_seed: Source::new("plan.json", &record.plan).number("/seed", Unit::Plain),
        design: design::design(record, analysis, plan.as_ref(), &source),
        answer,
        no_load: found.is_some() && watched::no_load(record, document),
        found,
        traffic: traffic::traffic(document, &source),
        said,
        unsaid,
        error_limit: plan.as_ref().map(|p| words::percent(p.error_limit)),
        knees: verdict::knees(analysis, &source),
        trials_valid: analysis.trials.iter().filter(|t| t.verdict.valid).count(),
        cells: limits::cells(document, &source),
        limits: limits::limits(record, document, plan.as_ref(), &source),
        watched: watched::watched(document, &source),
        searches: search::searches(analysis, &source),
        stages: stages::stages(record, analysis, plan.as_ref(), &data.curves, &source),
        reported: reported::tables(record, document),
        spectra: spectrum_options(&data.spectra),
        tables: tables::tables(&analysis.tables),
        latency_heads: trials::LATENCY_FIELDS.map(|(head, _)| head).to_vec(),
        trials: trials::trials(record, analysis, &source),
        all_evidence: record.trials.len() <= EVIDENCE_TRIALS,
        cores,
        points_max: series::points_per_series(record.trials.len()),
        targets: context::targets(record),
        files,
        files_left_out,
        environment: context::environment(record),
        unavailable: context::unavailable(record),
        warnings: context::warnings(record, analysis),
    };
    render("report.html", &page)
}

fn spectrum_options(spectra: &spectra::Spectra) -> Vec<SpectrumOption> {
    let option = |s: &spectra::Spectrum| SpectrumOption {
        stage: s.stage.clone(),
        name: s.name.clone(),
        trial: s.trial,
    };
    spectra.items.iter().map(option).collect()
}

/// The template `name` with what it sees.
pub(crate) fn render(name: &str, page: &impl Serialize) -> String {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_trim_blocks(true);
    templates.set_lstrip_blocks(true);
    templates.set_auto_escape_callback(|_| AutoEscape::Html);
    templates.set_formatter(write_escaped);
    templates.add_filter("code", code);
    for (template, text) in TEMPLATES {
        templates
            .add_template(template, text)
            .expect("the templates are part of the program and the tests parse them all");
    }
    templates
        .get_template(name)
        .and_then(|t| t.render(page))
        .expect("the tests render every branch of the templates")
}

/// Escapes as minijinja does, but leaves `/` alone: it cannot end an element or an attribute, and the origin
/// of every number is full of it.
fn write_escaped(out: &mut Output, state: &State, value: &Value) -> Result<(), minijinja::Error> {
    let Some(text) = value.as_str().filter(|_| !value.is_safe()) else {
        return escape_formatter(out, state, value);
    };
    for c in text.chars() {
        match c {
            '&' => out.write_str("&amp;")?,
            '<' => out.write_str("&lt;")?,
            '>' => out.write_str("&gt;")?,
            '"' => out.write_str("&quot;")?,
            '\'' => out.write_str("&#39;")?,
            _ => out.write_char(c)?,
        }
    }
    Ok(())
}

/// Words whose parts between backticks are code, escaped.
fn code(words: &str) -> Value {
    let mut html = String::new();
    for (i, part) in words.split('`').enumerate() {
        let escaped = part
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;")
            .replace('\'', "&#39;");
        html += &match i % 2 {
            0 => escaped,
            _ => format!("<code>{escaped}</code>"),
        };
    }
    Value::from_safe_string(html)
}

/// JSON for a script element: `<` never appears, so that no text in it can end the element.
fn script_json(data: &impl Serialize) -> String {
    serde_json::to_string(data)
        .expect("our types have string keys and finite numbers, so they serialise")
        .replace('<', "\\u003c")
}

/// Levels in one line: `connections=64, path=direct`.
fn levels_text(levels: &Levels) -> String {
    let each = levels
        .iter()
        .map(|(factor, level)| format!("{factor}={level}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Rising numbers with runs drawn together: `0-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(n, want)| **n == *want);
        let run = run.count();
        let separator = if text.is_empty() { "" } else { ", " };
        let written = match run {
            1 => write!(text, "{separator}{first}"),
            _ => write!(text, "{separator}{first}-{}", rest[run - 1]),
        };
        written.expect("writing to a string does not fail");
        rest = &rest[run..];
    }
    text
}

/// Names of the places that numbers come from.
mod paths {
    use record::TrialRecord;

    /// `report.json`, which is written beside the page and is what `prony report --json` prints: no name, because most
    /// numbers are from there.
    pub const DOCUMENT: &str = "";

    /// A trial's file within the record.
    pub fn trial(id: u32) -> String {
        format!("{}/trial.json", TrialRecord::directory(id))
    }

    /// A target's file within the record.
    pub fn file(id: u32, name: &str) -> String {
        format!("{}/files/{name}", TrialRecord::directory(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_numbers_are_drawn_together() {
        for (numbers, want) in [
            (&[][..], ""),
            (&[4], "4"),
            (&[0, 1, 2, 3, 7, 9, 10], "0-3, 7, 9-10"),
        ] {
            assert_eq!(ranges(numbers), want);
        }
    }

    #[test]
    fn text_in_the_data_cannot_end_the_script() {
        assert_eq!(script_json(&"</script><b>"), r#""\u003c/script>\u003cb>""#);
    }
}
