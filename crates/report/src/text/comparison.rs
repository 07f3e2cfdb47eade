//! Two signatures side by side.

use super::style::Style;
use super::table::{columns, names};
use analysis::{CallChange, Comparison};

/// What differs, cell by cell; the verdict first.
pub fn comparison_text(comparison: &Comparison, style: Style) -> String {
    let differing = comparison
        .cells
        .iter()
        .filter(|c| !c.changes.is_empty())
        .count();
    let mut text = match differing {
        0 => format!(
            "{}: {} for each request\n",
            style.good("same"),
            match comparison.cells.len() {
                1 => "the servers do the same".to_owned(),
                cells => format!("in all {cells} cells the servers do the same"),
            }
        ),
        n => format!(
            "{}: in {n} of {} cells a server does something else for each request\n",
            style.bad("different"),
            comparison.cells.len()
        ),
    };
    for cell in &comparison.cells {
        let levels: Vec<String> = cell
            .levels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        if cell.changes.is_empty() && cell.by_timing.is_empty() {
            continue;
        }
        let name = match levels.is_empty() {
            true => cell.stage.clone(),
            false => format!("{} {}", cell.stage, levels.join(" ")),
        };
        text += &format!("\n{}\n", style.heading(&name));
        text += &table(&cell.changes, "calls per request");
        text += &table(&cell.by_timing, "by timing, no regression");
    }
    for cell in &comparison.unmatched {
        text += &format!("only one record has counted: {cell}\n");
    }
    text
}

fn table(changes: &[CallChange], head: &str) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let bytes = |mean: Option<f64>| mean.map_or("-".to_owned(), |b| format!("{b:.0} B"));
    let mut rows = vec![
        [
            &format!("  {head}"),
            "on",
            "of",
            "before",
            "after",
            "mean size",
            "",
        ]
        .map(|s: &str| s.to_owned())
        .to_vec(),
    ];
    rows.extend(changes.iter().map(|c| {
        vec![
            format!("  {}", c.call),
            c.class.name().to_owned(),
            c.target.clone(),
            format!("{:.2}", c.before),
            format!("{:.2}", c.after),
            bytes(c.mean_bytes_before),
            format!("-> {}", bytes(c.mean_bytes_after)),
        ]
    }));
    columns(&rows, names(3))
}
