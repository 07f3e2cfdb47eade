//! What other tools reported: levels side by side, gains against the first, and what was read from where.

use super::style::Style;
use super::table::columns;
use crate::json::ImportDocument;
use analysis::imported::{ReportedCell, ReportedGain, ReportedTable};
use analysis::words::{self, count, rate};
use record::{Bytes, Nanos, ReportedFigure};

/// Half a per cent point in the last digit of a gain: below that rounding is not worth a word.
const SHARP: f64 = 0.0005;
/// Notes on single lines that are listed before they are counted.
const LISTED: usize = 12;

/// Tables of what was reported; empty without one.
pub fn reported_text(tables: &[ReportedTable], style: Style) -> String {
    let shown: Vec<String> = tables.iter().map(|t| table_text(t, style)).collect();
    shown.join("\n")
}

fn table_text(table: &ReportedTable, style: Style) -> String {
    let text = columns(&rows(table), |column| column < table.heads.len());
    let (first, body) = text.split_once('\n').unwrap_or((&text, ""));
    format!("stage {}\n{}\n{body}", title(table), style.heading(first))
}

/// Of what, and who reported it.
pub(crate) fn title(table: &ReportedTable) -> String {
    let across = match table.factor.as_str() {
        "" => String::new(),
        factor => format!(", by {factor}"),
    };
    let figure = match table.figure.as_str() {
        "" => String::new(),
        figure => format!(": {figure}"),
    };
    format!(
        "{}{figure}{across}, reported by {}",
        table.stage,
        table.tools.join(", ")
    )
}

/// Head and rows as they are shown; the first `table.heads.len()` columns are words.
pub(crate) fn rows(table: &ReportedTable) -> Vec<Vec<String>> {
    let named = |level: &String| match level.as_str() {
        "" => "reported".to_owned(),
        level => level.to_owned(),
    };
    let heads = table.heads.iter().cloned();
    let head = heads.chain(table.columns.iter().map(named)).collect();
    let body = table.rows.iter().map(|row| {
        let shown = |c: &Option<ReportedCell>| c.as_ref().map_or("-".to_owned(), cell_text);
        let cells = row.cells.iter().map(shown);
        row.head.iter().cloned().chain(cells).collect()
    });
    std::iter::once(head).chain(body).collect()
}

/// `1.11s (+15.1 % ±0.5)`.
fn cell_text(cell: &ReportedCell) -> String {
    let value = figure_text(&cell.figure);
    match &cell.gain {
        Some(gain) => format!("{value} ({})", gain_text(gain)),
        None => value,
    }
}

/// A gain in per cent, with what the rounding of the printed figures leaves open.
pub(crate) fn gain_text(gain: &ReportedGain) -> String {
    let open = (gain.high - gain.low) / 2.0;
    let percent = gain.value * 100.0;
    // A gain of nothing has no sign.
    let percent = if percent.abs() < 0.05 { 0.0 } else { percent };
    match open > SHARP {
        true => format!("{percent:+.1} % ±{:.1}", open * 100.0),
        false => format!("{percent:+.1} %"),
    }
}

/// A figure in the unit that it was printed in, or the nearest, with the digits that were printed; its range behind it.
pub(crate) fn figure_text(figure: &ReportedFigure) -> String {
    let text = |value: f64| value_text(figure, value);
    match figure.range {
        Some((low, high)) => format!("{} [{}..{}]", text(figure.value), text(low), text(high)),
        None => text(figure.value),
    }
}

fn value_text(figure: &ReportedFigure, value: f64) -> String {
    let step = figure.rounding * 2.0;
    match figure.unit.as_str() {
        "ns" if step > 0.0 => {
            let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
            let fits = units.iter().find(|(scale, _)| value.abs() >= *scale);
            let (scale, unit) = fits.copied().unwrap_or((1e6, "ms"));
            format!("{}{unit}", digits(value / scale, step / scale))
        }
        "ns" => Nanos(value.max(0.0).round() as u64).to_string(),
        "bytes" if value < 1_048_576.0 => format!("{} B", count(value.max(0.0).round() as u64)),
        "bytes" => Bytes(value.max(0.0).round() as u64).to_string(),
        "bytes/s" => format!("{}/s", Bytes(value.max(0.0).round() as u64)),
        "bit/s" => {
            let units = [
                (1e9, "Gbit/s"),
                (1e6, "Mbit/s"),
                (1e3, "kbit/s"),
                (1.0, "bit/s"),
            ];
            let fits = units.iter().find(|(scale, _)| value.abs() >= *scale);
            let (scale, unit) = fits.copied().unwrap_or((1.0, "bit/s"));
            format!("{:.2} {unit}", value / scale)
        }
        "1" => count(value.max(0.0).round() as u64),
        "1/s" if step > 0.0 && step < 1.0 => grouped(value, step),
        "1/s" => rate(value),
        "s" => format!("{}s", digits(value, step)),
        "%" => format!("{} %", digits(value, step)),
        "" => digits(value, step),
        unit => format!("{} {unit}", digits(value, step)),
    }
}

/// As many decimals as were printed, at most four; three digits where it was stored in full.
fn digits(value: f64, step: f64) -> String {
    let decimals = if step > 0.0 {
        (-step.log10() - 1e-9).ceil().clamp(0.0, 4.0) as usize
    } else {
        usize::from(value.abs() < 100.0) + usize::from(value.abs() < 10.0)
    };
    format!("{value:.decimals$}")
}

/// Thousands and decimals.
fn grouped(value: f64, step: f64) -> String {
    let text = digits(value, step);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    match fraction {
        "" => whole,
        fraction => format!("{whole}.{fraction}"),
    }
}

/// What `prony import` says: each result with its lines, the tables, what was left out.
pub fn import_text(document: &ImportDocument, style: Style) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for result in &document.results {
        let r = &result.reported;
        let (from, to) = r.lines;
        let lines = if from == to {
            from.to_string()
        } else {
            format!("{from}-{to}")
        };
        let levels = match result.levels.is_empty() {
            true => result.stage.clone(),
            false => format!("{}: {}", result.stage, words::levels(&result.levels)),
        };
        rows.push(vec![
            format!("{}", result.number),
            r.tool.clone(),
            format!("{}:{lines}", r.file),
            levels,
        ]);
    }
    let more = rows.len().saturating_sub(LISTED);
    rows.truncate(LISTED);
    let mut text = columns(&rows, |column| column > 0);
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    text += "\n";
    text += &reported_text(&document.tables, style);
    for note in &document.notes {
        text += &format!("checked: {note}\n");
    }
    for left in &document.left_out {
        let lines = if left.from == left.to {
            format!("line {}", left.from)
        } else {
            format!("lines {} to {}", left.from, left.to)
        };
        text += &format!(
            "{} {}, {lines} left out: {}\n",
            style.doubtful("warning:"),
            left.file,
            left.why
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_the_digits_that_were_printed() {
        for (unit, value, rounding, text) in [
            ("ns", 13.71e6, 5e3, "13.71ms"),
            ("ns", 1.11e9, 5e6, "1.11s"),
            ("ns", 964.53e6, 5e3, "964.53ms"),
            ("ns", 3e6, 5e5, "3ms"),
            ("ns", 0.0, 5e5, "0ms"),
            ("1/s", 24_822.44, 0.005, "24,822.44"),
            ("1/s", 28_471.0, 1.0, "28,471"),
            ("1", 365_710.0, 0.0, "365,710"),
            ("s", 4.035_007, 5e-7, "4.0350s"),
            ("%", 24.28, 0.005, "24.28 %"),
            ("", 3100.0, 0.5, "3100"),
        ] {
            let figure = ReportedFigure::new("x", unit, value, rounding);
            assert_eq!(figure_text(&figure), text);
        }
    }
}
