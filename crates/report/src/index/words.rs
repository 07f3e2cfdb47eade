//! The index as text for a terminal and as Markdown.

use super::{Change, History, IndexDocument, Point};
use crate::markdown::{escaped, table, target};
use crate::number::{Unit, text as number};
use crate::text::{Style, columns};
use analysis::Spread;
use analysis::words::{levels as levels_words, plural};

/// Each experiment with its records and its cells; what got worse stands first.
pub fn index_text(document: &IndexDocument, style: Style) -> String {
    let mut parts: Vec<String> = document
        .histories
        .iter()
        .map(|h| history_text(h, style))
        .collect();
    parts.extend(
        document
            .unreadable
            .iter()
            .map(|u| format!("not shown: {}: {}\n", u.directory, u.why)),
    );
    parts.join("\n")
}

fn history_text(history: &History, style: Style) -> String {
    let question = match history.question.as_str() {
        "" => "without a question",
        question => question,
    };
    let mut text = format!(
        "{}\n{}\n",
        style.heading(question),
        headline(history, style)
    );
    let mut rows = vec![row_of(&[
        "  record",
        "started",
        "valid",
        "capacity/s",
        "change",
    ])];
    rows.extend(history.records.iter().map(|r| {
        vec![
            format!("  {}", r.name),
            r.started.clone(),
            format!("{}/{}", r.trials_valid, r.trials),
            r.capacity_per_s
                .map_or_else(|| "-".to_owned(), |c| number(c, Unit::PerSecond)),
            record_change(r.regressions, r.improvements, r.other_work),
        ]
    }));
    text += &columns(&rows, |column| column < 2 || column == 4);
    let mut rows = vec![row_of(&[
        "  cell",
        "rate/s before",
        "now",
        "p99 before",
        "now",
        "change",
    ])];
    for cell in &history.cells {
        let (now, before) = last_two(&cell.points);
        let Some(now) = now else { continue };
        let rate = |p: Option<&Point>| median(p.and_then(|p| p.rate_per_s), Unit::PerSecond);
        let p99 = |p: Option<&Point>| median(p.and_then(|p| p.response_ns_p99), Unit::Nanos);
        rows.push(vec![
            format!("  {} {}", cell.stage, levels_words(&cell.levels)),
            rate(before),
            rate(Some(now)),
            p99(before),
            p99(Some(now)),
            change_words(now),
        ]);
    }
    text += &columns(&rows, |column| column == 0 || column == 5);
    text
}

fn row_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn headline(history: &History, style: Style) -> String {
    let Some(last) = history.records.last() else {
        return String::new();
    };
    let records = plural(history.records.len() as u64, "record");
    match (last.regressions, history.records.len()) {
        (_, 1) => format!("{records}: nothing to compare with"),
        _ if !newest_compared(history) => {
            format!("{records}: the last could not be compared with the one before, see the cells")
        }
        (0, _) => format!(
            "{records}, the last against the one before: {}",
            style.good("no regression shown")
        ),
        (n, _) => format!(
            "{records}, the last against the one before: {}",
            style.bad(&plural(n as u64, "regression"))
        ),
    }
}

/// Some cell of the newest record was compared with the one before.
pub(super) fn newest_compared(history: &History) -> bool {
    let last = history.records.len().saturating_sub(1);
    let mut points = history.cells.iter().flat_map(|c| &c.points);
    points.any(|p| p.record == last && p.change != Change::NotCompared)
}

pub(super) fn record_change(worse: usize, better: usize, other: usize) -> String {
    let part = |n: usize, words: &str| (n > 0).then(|| format!("{n} {words}"));
    let parts = [
        part(worse, "worse"),
        part(better, "better"),
        part(other, "with other work"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "-".to_owned(),
        false => parts.join(", "),
    }
}

/// The newest point and the one before it.
pub(super) fn last_two(points: &[Point]) -> (Option<&Point>, Option<&Point>) {
    let mut newest = points.iter().rev();
    (newest.next(), newest.next())
}

fn median(spread: Option<Spread>, unit: Unit) -> String {
    spread.map_or_else(|| "-".to_owned(), |s| number(s.median, unit))
}

pub(super) fn change_words(point: &Point) -> String {
    let word = match point.change {
        Change::NotCompared => "not compared",
        Change::Same => "no difference shown",
        Change::Worse => "WORSE",
        Change::Better => "better",
        Change::OtherWork => "other work",
    };
    match point.why.as_str() {
        "" => word.to_owned(),
        why => format!("{word}: {why}"),
    }
}

/// The index as Markdown, with links to the reports.
pub fn index_markdown(document: &IndexDocument) -> String {
    let mut text: String = document.histories.iter().map(history_markdown).collect();
    for unreadable in &document.unreadable {
        text += &format!(
            "- not shown: {}: {}\n",
            escaped(&unreadable.directory),
            escaped(&unreadable.why)
        );
    }
    text
}

fn history_markdown(history: &History) -> String {
    let question = match history.question.as_str() {
        "" => "Without a question",
        question => question,
    };
    let head = ["record", "started", "valid", "capacity, 1/s", "change"];
    let rows: Vec<Vec<String>> = history
        .records
        .iter()
        .map(|r| {
            let page = format!("{}/report.html", r.directory);
            vec![
                format!("[{}]({})", escaped(&r.name), target(&page)),
                escaped(&r.started),
                format!("{}/{}", r.trials_valid, r.trials),
                r.capacity_per_s
                    .map_or_else(|| "–".to_owned(), |c| number(c, Unit::PerSecond)),
                record_change(r.regressions, r.improvements, r.other_work),
            ]
        })
        .collect();
    let records = table(&row_of(&head), &[true, true, false, false, true], &rows);
    let head = [
        "cell",
        "rate before, 1/s",
        "now",
        "p99 before",
        "now",
        "change",
    ];
    let rows: Vec<Vec<String>> = history
        .cells
        .iter()
        .filter_map(|cell| {
            let (now, before) = last_two(&cell.points);
            let now = now?;
            let rate = |p: Option<&Point>| median(p.and_then(|p| p.rate_per_s), Unit::PerSecond);
            let p99 = |p: Option<&Point>| median(p.and_then(|p| p.response_ns_p99), Unit::Nanos);
            let change = escaped(&change_words(now));
            Some(vec![
                escaped(&format!("{} {}", cell.stage, levels_words(&cell.levels))),
                rate(before),
                rate(Some(now)),
                p99(before),
                p99(Some(now)),
                match now.change {
                    Change::Worse => format!("**{change}**"),
                    _ => change,
                },
            ])
        })
        .collect();
    let cells = table(
        &row_of(&head),
        &[true, false, false, false, false, true],
        &rows,
    );
    format!(
        "# {}\n\n{}\n\n{records}{cells}",
        escaped(question),
        headline(history, Style::Plain)
    )
}
