//! The index as one HTML file: for each experiment its records, and a line of small figures for each cell.
//!
//! Like the report it loads nothing; unlike it it has no scripts at all, because the figures are SVG.

use super::words::{change_words, last_two, newest_compared, record_change};
use super::{CellHistory, Change, History, IndexDocument, Point, Recorded, Unreadable};
use crate::html::flame::escaped;
use crate::html::render;
use crate::number::{Number, Source, Unit, text};
use analysis::Spread;
use analysis::words::levels as levels_words;
use serde::Serialize;
use std::fmt::Write as _;

#[derive(Serialize)]
struct IndexPage<'a> {
    report_css: &'static str,
    histories: Vec<HistoryView<'a>>,
    unreadable: &'a [Unreadable],
}

#[derive(Serialize)]
struct HistoryView<'a> {
    question: &'a str,
    records: Vec<RecordView<'a>>,
    cells: Vec<CellView>,
    regressions: usize,
    compared: bool,
}

#[derive(Serialize)]
struct RecordView<'a> {
    record: &'a Recorded,
    href: String,
    capacity: Option<Number>,
    change: String,
    /// The host is another one than that of the record before.
    moved: bool,
}

#[derive(Serialize)]
struct CellView {
    name: String,
    /// Rate and p99: figure, value before, value now.
    metrics: Vec<MetricView>,
    change: String,
    tone: &'static str,
    /// The newest record's cell.
    from: String,
}

#[derive(Serialize)]
struct MetricView {
    svg: Option<String>,
    before: Option<Number>,
    now: Option<Number>,
}

/// The page of an index; links are relative to the place where it lies.
pub fn index_page(document: &IndexDocument) -> String {
    render(
        "index.html",
        &IndexPage {
            report_css: include_str!("../../assets/report.css"),
            histories: document.histories.iter().map(history).collect(),
            unreadable: &document.unreadable,
        },
    )
}

fn history(history: &History) -> HistoryView<'_> {
    HistoryView {
        question: &history.question,
        records: history
            .records
            .iter()
            .enumerate()
            .map(|(i, record)| RecordView {
                record,
                href: href(&record.directory),
                capacity: Source::at(
                    document_of(record),
                    "",
                    &serde_json::json!({"capacity_per_s": record.capacity_per_s}),
                )
                .number("/capacity_per_s", Unit::PerSecond),
                change: record_change(record.regressions, record.improvements, record.other_work),
                moved: i > 0 && history.records[i - 1].host != record.host,
            })
            .collect(),
        cells: history
            .cells
            .iter()
            .filter_map(|c| cell(c, &history.records))
            .collect(),
        compared: newest_compared(history),
        regressions: history.records.last().map_or(0, |r| r.regressions),
    }
}

/// A relative link. A directory whose name has a colon would otherwise read as a scheme.
fn href(directory: &str) -> String {
    let path = crate::markdown::target(&format!("{directory}/report.html"));
    match path.starts_with(['/', '.']) {
        true => path,
        false => format!("./{path}"),
    }
}

fn document_of(record: &Recorded) -> String {
    format!("{}/report.json", record.directory)
}

fn cell(cell: &CellHistory, records: &[Recorded]) -> Option<CellView> {
    let (now, before) = last_two(&cell.points);
    let now = now?;
    let number = |point: &Point, field: &str, value: Option<Spread>, unit| {
        let at = format!("/comparisons/{}/{field}", point.cell);
        let source = Source::at(document_of(&records[point.record]), at, &value);
        source.number("/median", unit)
    };
    let metric = |field: &str, unit, of: Figure, change: fn(&Point) -> Change| MetricView {
        svg: sparkline(&cell.points, records, unit, (of, change)),
        before: before.and_then(|p| number(p, field, of(p), unit)),
        now: number(now, field, of(now), unit),
    };
    Some(CellView {
        name: format!("{} {}", cell.stage, levels_words(&cell.levels)),
        metrics: vec![
            metric(
                "achieved_per_s",
                Unit::PerSecond,
                |p| p.rate_per_s,
                |p| p.rate_change,
            ),
            metric(
                "response_ns_p99",
                Unit::Nanos,
                |p| p.response_ns_p99,
                |p| p.p99_change,
            ),
        ],
        change: match (now.change, now.why.as_str()) {
            // The badge before it says which way.
            (Change::Worse | Change::Better, why) => why.to_owned(),
            _ => change_words(now),
        },
        tone: match now.change {
            Change::Worse => "invalid",
            Change::Better => "valid",
            Change::NotCompared | Change::Same | Change::OtherWork => "",
        },
        from: format!(
            "{}#/comparisons/{}",
            document_of(&records[now.record]),
            now.cell
        ),
    })
}

/// A figure of a cell in one record.
type Figure = fn(&Point) -> Option<Spread>;

/// Height of a sparkline, CSS pixels.
const HEIGHT: f64 = 36.0;

/// Medians over the records with the range of their trials, from zero; `None` where nothing was measured.
fn sparkline(
    points: &[Point],
    records: &[Recorded],
    unit: Unit,
    (of, change): (Figure, fn(&Point) -> Change),
) -> Option<String> {
    let most = points.iter().filter_map(|p| Some(of(p)?.max));
    let most = most.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let last = records.len().saturating_sub(1).max(1) as f64;
    let x = |p: &Point| 4.0 + 92.0 * p.record as f64 / last;
    let y = |value: f64| 3.0 + (HEIGHT - 6.0) * (1.0 - value / most);
    let mut line = String::new();
    let mut marks = String::new();
    for point in points {
        let Some(s) = of(point) else { continue };
        let (x, record) = (x(point), &records[point.record]);
        write!(line, "{x:.1},{:.1} ", y(s.median)).expect("writing to a string does not fail");
        let class = match change(point) {
            Change::Worse => "worse",
            Change::Better => "better",
            Change::NotCompared | Change::Same | Change::OtherWork => "same",
        };
        let title = escaped(&format!(
            "{}, {}: {} ({} to {})",
            record.name,
            record.started,
            text(s.median, unit),
            text(s.min, unit),
            text(s.max, unit)
        ));
        write!(
            marks,
            "<line x1=\"{x:.1}%\" x2=\"{x:.1}%\" y1=\"{:.1}\" y2=\"{:.1}\"/><circle class=\"{class}\" cx=\"{x:.1}%\" cy=\"{:.1}\" r=\"{}\"><title>{title}</title></circle>",
            y(s.max),
            y(s.min),
            y(s.median),
            if class == "same" { 2.5 } else { 4.5 },
        )
        .expect("writing to a string does not fail");
    }
    // The line alone is stretched to the width; its marks and their letters keep their shape.
    Some(format!(
        "<svg class=\"spark\" data-figure=\"spark\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"over time\"><svg width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 100 {HEIGHT}\" preserveAspectRatio=\"none\"><polyline points=\"{}\"/></svg>{marks}</svg>",
        line.trim_end()
    ))
}
