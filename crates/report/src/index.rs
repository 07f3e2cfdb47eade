//! Many records side by side: the history of each experiment over time, with what changed from one record to the
//! next.
//!
//! Records with the same question and factors are one experiment. Neighbours in time are compared as `prony compare`
//! does; a change for the worse is marked. The surprise: the newest record is compared with the one before it and not
//! with the first, so that a slow decline shows as a line that falls and not as a mark.

mod page;
mod words;

pub use page::index_page;
pub use words::{index_markdown, index_text};

use analysis::{
    Cell, CompareOptions, Comparison, FigureCompared, Judgement, Levels, Plan, RunAnalysis, Spread,
    compare,
};
use record::{PROOF_STAGE, RunRecord};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A record with the place that it has on the index.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Name: its directory's.
    pub name: &'a str,
    /// Its directory as seen from the index.
    pub directory: &'a str,
    pub record: &'a RunRecord,
    pub analysis: &'a RunAnalysis,
}

/// What `prony report DIR DIR... --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexDocument {
    /// Version of this document.
    pub format: u32,
    /// Experiments, the one that ran last first.
    pub histories: Vec<History>,
    /// Directories that hold no record that can be read.
    pub unreadable: Vec<Unreadable>,
}

/// A directory that could not be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    pub directory: String,
    pub why: String,
}

/// One experiment over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    pub question: String,
    /// Its records, by their start.
    pub records: Vec<Recorded>,
    /// Its cells, in the order of the newest record that has them.
    pub cells: Vec<CellHistory>,
}

/// A record of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// Name: its directory's.
    pub name: String,
    /// Its directory as seen from the index; `report.html` and `report.json` lie in it.
    pub directory: String,
    /// Start, RFC 3339.
    pub started: String,
    /// Version of prony that made it.
    pub prony: String,
    /// CPU model and kernel, as far as the record tells.
    pub host: String,
    /// Its figures may be used.
    pub valid: bool,
    /// What limits, or why not valid.
    pub why: String,
    /// Highest valid closed-loop rate, per second.
    pub capacity_per_s: Option<f64>,
    /// Trials that ended.
    pub trials: usize,
    /// Those of them that are valid.
    pub trials_valid: usize,
    /// Cells that got worse since the record before.
    pub regressions: usize,
    /// Cells that got better.
    pub improvements: usize,
    /// Cells whose server does other work for a request than before.
    pub other_work: usize,
}

/// A cell over the records of its experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellHistory {
    /// Stage's name.
    pub stage: String,
    pub levels: Levels,
    /// One for each record that has the cell.
    pub points: Vec<Point>,
}

/// A cell in one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Index of the record in the history.
    pub record: usize,
    /// Index of the cell in that record's `comparisons`.
    pub cell: usize,
    /// Valid trials.
    pub valid: usize,
    /// Successes per second; `null` without a valid trial.
    pub rate_per_s: Option<Spread>,
    /// 99th percentile of the response time, ns.
    pub response_ns_p99: Option<Spread>,
    /// Both together and the calls per request, against the record before.
    pub change: Change,
    /// Of the rate alone.
    pub rate_change: Change,
    /// Of p99 alone.
    pub p99_change: Change,
    /// What changed, in words; empty where nothing is shown to have.
    pub why: String,
}

/// What is shown to have become of a cell since the record before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// There is no record before that has the cell, or one of the two has too few valid trials to tell.
    #[default]
    NotCompared,
    /// No difference is shown.
    Same,
    /// The rate fell or the tail grew.
    Worse,
    /// The rate rose or the tail shrank, and neither got worse.
    Better,
    /// Nothing of the timing is shown to have changed, but the server does other work for each request.
    OtherWork,
}

/// The index of `entries`. `tolerance` is the relative difference of a count (0 to 1) that is none.
pub fn index_document(
    entries: &[Entry],
    unreadable: Vec<Unreadable>,
    tolerance: f64,
) -> IndexDocument {
    let mut groups: Vec<(String, Vec<Entry>)> = Vec::new();
    for entry in entries {
        let key = experiment(entry.record);
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, group)) => group.push(*entry),
            None => groups.push((key, vec![*entry])),
        }
    }
    for (_, group) in &mut groups {
        // RFC 3339 in UTC sorts as text.
        group.sort_by(|a, b| started(a).cmp(started(b)));
    }
    groups.sort_by(|(_, a), (_, b)| b.last().map(started).cmp(&a.last().map(started)));
    IndexDocument {
        format: crate::json::FORMAT,
        histories: groups.iter().map(|(_, g)| history(g, tolerance)).collect(),
        unreadable,
    }
}

/// The published schema of [`IndexDocument`].
pub fn index_schema() -> serde_json::Value {
    schemars::schema_for!(IndexDocument).to_value()
}

fn started<'a>(entry: &Entry<'a>) -> &'a str {
    &entry.record.manifest.started
}

/// What makes two records one experiment: the question, and which factors were varied in which stages. Levels may come
/// and go.
fn experiment(record: &RunRecord) -> String {
    let plan = Plan::deserialize(&record.plan).ok();
    let stages = plan.iter().flat_map(|p| &p.stages);
    let stages = stages.filter(|s| s.name != PROOF_STAGE).map(|s| {
        let factors: Vec<&str> = s.factors.iter().map(|f| f.name.as_str()).collect();
        format!("{}({})", s.name, factors.join(","))
    });
    format!(
        "{} {}",
        record.manifest.question,
        stages.collect::<Vec<_>>().join(" ")
    )
}

fn history(entries: &[Entry], tolerance: f64) -> History {
    let options = CompareOptions {
        tolerance,
        threshold: None,
    };
    let compared: Vec<Option<Comparison>> = std::iter::once(None)
        .chain(
            entries
                .windows(2)
                .map(|two| Some(compare(two[0].record, two[1].record, options))),
        )
        .collect();
    let mut names: Vec<(&str, &Levels)> = Vec::new();
    for cell in entries.iter().rev().flat_map(|e| cells(*e)) {
        if !names.contains(&(cell.1.stage.as_str(), &cell.1.levels)) {
            names.push((&cell.1.stage, &cell.1.levels));
        }
    }
    let cell_history = |&(stage, levels): &(&str, &Levels)| CellHistory {
        stage: stage.to_owned(),
        levels: levels.clone(),
        points: points(entries, &compared, stage, levels),
    };
    let cells: Vec<CellHistory> = names.iter().map(cell_history).collect();
    History {
        question: entries
            .last()
            .map_or_else(String::new, |e| e.record.manifest.question.clone()),
        records: entries
            .iter()
            .enumerate()
            .map(|(i, entry)| recorded(entry, i, &cells))
            .collect(),
        cells,
    }
}

fn cells<'a>(entry: Entry<'a>) -> impl Iterator<Item = (usize, &'a Cell)> {
    let all = entry.analysis.cells.iter().enumerate();
    all.filter(|(_, c)| c.stage != PROOF_STAGE)
}

fn recorded(entry: &Entry, i: usize, cells: &[CellHistory]) -> Recorded {
    let manifest = &entry.record.manifest;
    let fact = |group: &str, name: &str| {
        let mut items = entry.record.environment.iter();
        let item = items.find(|e| e.group == group && e.name == name)?;
        item.value.clone()
    };
    let host: Vec<String> = [fact("cpu", "model"), fact("kernel", "release")]
        .into_iter()
        .flatten()
        .collect();
    let changed = |change: Change| {
        let points = cells.iter().flat_map(|c| &c.points);
        points
            .filter(|p| p.record == i && p.change == change)
            .count()
    };
    let trials = &entry.analysis.trials;
    Recorded {
        name: entry.name.to_owned(),
        directory: entry.directory.to_owned(),
        started: manifest.started.clone(),
        prony: manifest.prony.clone(),
        host: host.join(", "),
        valid: entry.analysis.verdict.valid,
        why: entry.analysis.verdict.why.clone(),
        capacity_per_s: entry.analysis.capacity_per_s,
        trials: trials.len(),
        trials_valid: trials.iter().filter(|t| t.verdict.valid).count(),
        regressions: changed(Change::Worse),
        improvements: changed(Change::Better),
        other_work: changed(Change::OtherWork),
    }
}

fn points(
    entries: &[Entry],
    compared: &[Option<Comparison>],
    stage: &str,
    levels: &Levels,
) -> Vec<Point> {
    let find = |entry: usize| {
        let mut all = cells(entries[entry]);
        all.find(|(_, c)| c.stage == stage && c.levels == *levels)
    };
    let point = |i: usize| {
        let (place, cell) = find(i)?;
        let changed = compared[i]
            .as_ref()
            .map_or_else(Changed::default, |comparison| changed(cell, comparison));
        Some(Point {
            record: i,
            cell: place,
            valid: cell.valid.len(),
            rate_per_s: cell.achieved_per_s,
            response_ns_p99: cell.response_ns_p99,
            change: changed.cell,
            rate_change: changed.rate,
            p99_change: changed.p99,
            why: changed.why,
        })
    };
    (0..entries.len()).filter_map(point).collect()
}

/// What became of a cell.
#[derive(Default)]
struct Changed {
    cell: Change,
    rate: Change,
    p99: Change,
    why: String,
}

/// What the comparison of two records shows of a cell.
fn changed(after: &Cell, comparison: &Comparison) -> Changed {
    let compared = comparison
        .cells
        .iter()
        .find(|c| c.stage == after.stage && c.levels == after.levels);
    let figure = |name: &str| compared?.figures.iter().find(|f| f.figure == name);
    let (rate, p99) = (figure("rate_per_s"), figure("response_ns_p99"));
    let calls = compared.and_then(|c| c.changes.first());
    let moved = [("the rate", rate), ("p99", p99)];
    let mut words: Vec<String> = moved.into_iter().filter_map(words_of).collect();
    words.extend(calls.map(|c| {
        format!(
            "{} on {} per request: {:.2} before, {:.2} now",
            c.call,
            c.class.name(),
            c.before,
            c.after
        )
    }));
    let (rate, p99) = (change_of(rate), change_of(p99));
    let either = |change: Change| rate == change || p99 == change;
    let cell = if either(Change::Worse) {
        Change::Worse
    } else if either(Change::Better) {
        Change::Better
    } else if calls.is_some() {
        Change::OtherWork
    } else if either(Change::Same) {
        Change::Same
    } else {
        Change::NotCompared
    };
    Changed {
        cell,
        rate,
        p99,
        why: words.join("; "),
    }
}

fn change_of(figure: Option<&FigureCompared>) -> Change {
    match figure.map_or(Judgement::NotJudged, |f| f.judgement) {
        Judgement::Faster => Change::Better,
        Judgement::Slower => Change::Worse,
        Judgement::NoDifference => Change::Same,
        Judgement::NotJudged => Change::NotCompared,
    }
}

/// `the rate fell to 0.62 of what it was`; nothing where no difference was seen.
fn words_of((name, figure): (&str, Option<&FigureCompared>)) -> Option<String> {
    let figure = figure?;
    let ratio = figure.ratio.ratio;
    matches!(figure.judgement, Judgement::Faster | Judgement::Slower).then(|| {
        let moved = if ratio < 1.0 { "fell" } else { "rose" };
        format!("{name} {moved} to {ratio:.2} of what it was")
    })
}
