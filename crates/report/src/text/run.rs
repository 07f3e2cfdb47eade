//! A run for a terminal below its answer: a table per stage, the knees, the experiment's own tables, the warnings.

use super::search::search_text;
use super::style::Style;
use super::table::columns;
use super::tables::tables_text;
use super::{reported_text, warnings_text};
use crate::intervals::{FEWEST_PAIRS_WORDS, interval_words};
use analysis::imported::reported_tables;
use analysis::words::{levels, percent, rate, several_levels};
use analysis::{Cell, Knee, Levels, Plan, Ratio, RunAnalysis, Spread, TrialAnalysis};
use record::{Nanos, RunRecord};
use serde::Deserialize;

/// The figures of a run, which stand below its answer.
pub fn run_text(record: &RunRecord, analysis: &RunAnalysis, style: Style) -> String {
    let plan = Plan::deserialize(&record.plan).ok();
    let mut sections = Vec::new();
    let reported = plan
        .as_ref()
        .map_or_else(Vec::new, |p| reported_tables(p, analysis));
    // A stage that others measured has its own table; the columns of ours would be empty.
    let measured = |name: &&String| reported.iter().all(|t| t.stage != **name);
    sections.extend(
        stages(plan.as_ref(), analysis)
            .iter()
            .filter(measured)
            .map(|name| match searches_text(analysis, name) {
                Some(text) => text,
                None => stage_text(plan.as_ref(), analysis, name, style),
            }),
    );
    sections.push(reported_text(&reported, style));
    if !analysis.knees.is_empty() {
        sections.push(analysis.knees.iter().map(knee_text).collect());
    }
    sections.push(tables_text(&analysis.tables, style));
    sections.push(warnings_text(&analysis.warnings, style));
    sections.retain(|s| !s.is_empty());
    sections.join("\n")
}

/// Stages with cells, and the searches where they ran; without a plan they stand first.
fn stages(plan: Option<&Plan>, analysis: &RunAnalysis) -> Vec<String> {
    let mut names: Vec<String> = analysis.searches.iter().map(|s| s.stage.clone()).collect();
    names.extend(analysis.cells.iter().map(|c| c.stage.clone()));
    let place = |name: &String| plan?.stages.iter().position(|s| s.name == *name);
    names.sort_by_key(place);
    names.dedup();
    names
}

/// The searches of a stage; `None` when it is none.
fn searches_text(analysis: &RunAnalysis, stage: &str) -> Option<String> {
    let searches = analysis.searches.iter().filter(|s| s.stage == stage);
    let text: String = searches.map(search_text).collect();
    (!text.is_empty()).then(|| format!("stage {stage}\n{text}"))
}

fn stage_text(plan: Option<&Plan>, analysis: &RunAnalysis, name: &str, style: Style) -> String {
    let cells: Vec<&Cell> = analysis.cells.iter().filter(|c| c.stage == name).collect();
    let shown = Shown::of(&cells, analysis);
    let factors = factors(plan, name, &cells);
    let mut rows = vec![header(&factors, shown)];
    rows.extend(
        cells
            .iter()
            .map(|cell| row(analysis, cell, &factors, shown)),
    );
    let last = rows[0].len() - 1;
    let table = columns(&rows, |column| column < factors.len() || column == last);
    let (head, body) = table.split_once('\n').unwrap_or((&table, ""));
    let notes = footnote(&cells) + &not_measured(&cells);
    let fairness = analysis.fairness.iter().filter(|f| f.stage == name);
    let said: String = fairness
        .flat_map(|f| &f.said)
        .map(|said| format!("{said}\n"))
        .collect();
    format!("stage {name}\n{}\n{body}{notes}{said}", style.heading(head))
}

/// Columns that only some stages have.
#[derive(Clone, Copy)]
struct Shown {
    offered: bool,
    ratio: bool,
    /// A column of zeros would say nothing.
    errors: bool,
}

impl Shown {
    fn of(cells: &[&Cell], analysis: &RunAnalysis) -> Self {
        let failed = |c: &&Cell| {
            trials_of(analysis, c)
                .iter()
                .any(|t| t.error_share > Some(0.0))
        };
        Self {
            offered: cells.iter().any(|c| c.offered_per_s.is_some()),
            ratio: (cells.iter()).any(|c| compared(c).is_some() || c.no_ratio.is_some()),
            errors: cells.iter().any(failed),
        }
    }
}

/// In the order of the file; levels alone do not know it.
fn factors(plan: Option<&Plan>, stage: &str, cells: &[&Cell]) -> Vec<String> {
    let stage = plan.and_then(|p| p.stages.iter().find(|s| s.name == stage));
    match (stage, cells.first()) {
        (Some(stage), _) => stage.factors.iter().map(|f| f.name.clone()).collect(),
        (None, Some(cell)) => cell.levels.keys().cloned().collect(),
        (None, None) => Vec::new(),
    }
}

fn header(factors: &[String], shown: Shown) -> Vec<String> {
    let mut head = factors.to_vec();
    let mut add = |names: &[&str]| head.extend(names.iter().map(|&n| n.to_owned()));
    add(&["valid"]);
    if shown.offered {
        add(&["offered/s"]);
    }
    add(&["rate/s", "[min..max]", "p50", "p99"]);
    if shown.errors {
        add(&["errors"]);
    }
    add(&["CPU/req", "generator"]);
    if shown.ratio {
        let head = match shown.offered {
            true => "CPU ratio",
            false => "ratio",
        };
        add(&[head, "[interval]"]);
    }
    add(&["limit"]);
    head
}

fn row(analysis: &RunAnalysis, cell: &Cell, factors: &[String], shown: Shown) -> Vec<String> {
    let trials = trials_of(analysis, cell);
    let level = |factor: &String| cell.levels.get(factor).cloned().unwrap_or_default();
    let mut row: Vec<String> = factors.iter().map(level).collect();
    row.push(format!("{}/{}", cell.valid.len(), cell.planned));
    if shown.offered {
        row.push(or_dash(cell.offered_per_s, |s| rate(s.median)));
    }
    row.push(or_dash(cell.achieved_per_s, |s| {
        format!("{}{}", rate(s.median), window_mark(cell))
    }));
    row.push(or_dash(cell.achieved_per_s, |s| {
        format!("[{}..{}]", rate(s.min), rate(s.max))
    }));
    row.push(or_dash(cell.response_ns_p50, time));
    row.push(or_dash(cell.response_ns_p99, time));
    if shown.errors {
        row.push(or_dash(largest(&trials, |t| t.error_share), percent));
    }
    row.push(or_dash(cell.target_cpu_us_per_request, |s| {
        format!("{:.1}us", s.median)
    }));
    row.push(or_dash(
        largest(&trials, |t| t.generator_utilization),
        percent,
    ));
    if shown.ratio {
        row.push(or_dash(compared(cell), ratio));
        row.push(match &cell.no_ratio {
            Some(why) => why.clone(),
            None => or_dash(compared(cell), interval),
        });
    }
    row.push(limit(cell));
    row
}

/// What a cell is compared by: its rate; in an open loop, where all are offered the same, the CPU of a request.
fn compared(cell: &Cell) -> Option<Ratio> {
    match cell.offered_per_s {
        None => cell.rate_ratio,
        Some(_) => cell.cpu_ratio,
    }
}

/// `~` stands for "no difference", as readers of benchstat know it.
fn ratio(ratio: Ratio) -> String {
    let same = if ratio.differs() == Some(false) {
        "~ "
    } else {
        ""
    };
    format!("{same}{:.3}", ratio.ratio)
}

fn interval(ratio: Ratio) -> String {
    or_dash(ratio.interval(), |(low, high)| {
        format!("[{low:.3}..{high:.3}]")
    })
}

/// Set behind a rate that is of a shorter window than the row's other columns.
pub(crate) fn window_mark(cell: &Cell) -> &'static str {
    if cell.rate_dropped_s > Some(0.0) {
        "*"
    } else {
        ""
    }
}

fn or_dash<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

fn time(spread: Spread) -> String {
    Nanos(spread.median.round() as u64).to_string()
}

/// The trials behind a cell's figures; all that ended where it has none.
fn trials_of<'a>(analysis: &'a RunAnalysis, cell: &Cell) -> Vec<&'a TrialAnalysis> {
    let ids = match cell.used() {
        [] => cell.trials.as_slice(),
        used => used,
    };
    analysis
        .trials
        .iter()
        .filter(|t| ids.contains(&t.id))
        .collect()
}

fn largest(trials: &[&TrialAnalysis], figure: fn(&TrialAnalysis) -> Option<f64>) -> Option<f64> {
    trials.iter().filter_map(|t| figure(t)).reduce(f64::max)
}

fn limit(cell: &Cell) -> String {
    let Some(verdict) = &cell.verdict else {
        return "not run".to_owned();
    };
    let name = verdict.limit.name();
    let valid = if cell.is_measured() {
        ""
    } else {
        "not measured: "
    };
    let resource = match verdict.resource.as_str() {
        "" => String::new(),
        same if same == name => String::new(),
        // Too few of them are an offered load too small.
        "connections" => return format!("{valid}connections"),
        resource => format!(" ({resource})"),
    };
    format!("{valid}{name}{resource}")
}

/// What the columns hold that their heads are too short for.
fn footnote(cells: &[&Cell]) -> String {
    let of = match cells.iter().any(|c| c.offered_per_s.is_some()) {
        true => "CPU ratio: the servers' CPU per request",
        false => "ratio: rate",
    };
    let ratios = match interval_words(cells.iter().filter_map(|c| compared(c))) {
        words if words.is_empty() => String::new(),
        words => format!("{of} divided by the baseline's, {words}\n"),
    };
    match cells.iter().any(|c| c.no_ratio.is_some()) {
        true => ratios + "no ratio: " + FEWEST_PAIRS_WORDS + "\n",
        false => ratios,
    }
}

/// Why cells have no figures, those with the same reason in one line.
fn not_measured(cells: &[&Cell]) -> String {
    let ended = cells.iter().filter(|c| !c.trials.is_empty());
    let mut reasons: Vec<(&str, Vec<&Levels>)> = Vec::new();
    for (cell, why) in ended.filter_map(|c| Some((c, c.not_measured.as_deref()?))) {
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, alike)) => alike.push(&cell.levels),
            None => reasons.push((why, vec![&cell.levels])),
        }
    }
    let line = |(why, alike): &(&str, Vec<&Levels>)| {
        format!("not measured: {}: {why}\n", several_levels(alike))
    };
    reasons.iter().map(line).collect()
}

fn knee_text(knee: &Knee) -> String {
    let at = match knee.axis.as_str() {
        "connections" => format!("{} connections", knee.at),
        _ => format!("{}/s offered", rate(knee.at)),
    };
    let fixed = match knee.levels.is_empty() {
        true => String::new(),
        false => format!(", {}", levels(&knee.levels)),
    };
    let p99 = knee.response_ns_p99.map_or_else(String::new, |p99| {
        format!(", p99 {}", Nanos(p99.round() as u64))
    });
    format!(
        "knee of stage {}{fixed}: {at}, {}/s{p99} ({})\n",
        knee.stage,
        rate(knee.achieved_per_s),
        knee.method
    )
}
