//! The path of a tuning, and the causes of a run's cells in short.

use super::diagnosis::proof;
use super::style::Style;
use super::wrap::wrapped;
use analysis::{Change, Diagnosis, RunAnalysis, Tuning};
use record::RunRecord;
use std::collections::BTreeMap;

/// What was tried, what was kept, the whole gain and the difference of the configuration.
pub fn tuning_text(tuning: &Tuning, style: Style) -> String {
    let mut text = format!("{}\n", style.heading("tuning"));
    for (number, step) in tuning.steps.iter().enumerate() {
        let mark = if step.kept {
            style.good("kept")
        } else {
            style.doubtful("left out")
        };
        text += &format!("{}. {} ({}): {mark}\n", number + 1, step.title, step.cause);
        text += &difference(&step.changes);
        text += &proof(&step.proof, style);
    }
    text += &wrapped("ended: ", &tuning.ended, 2);
    if tuning.changes.is_empty() {
        return text + "the configuration stays as it is\n";
    }
    text += &format!("\n{}\n", style.heading("the whole change"));
    text += &difference(&tuning.changes);
    for row in &tuning.total {
        let interval = row.interval.map_or_else(String::new, |(low, high)| {
            format!(" ({low:.2} to {high:.2})")
        });
        if let Some(ratio) = row.ratio {
            text += &format!("  {} x{ratio:.2}{interval}\n", row.signal);
        }
    }
    text
}

fn difference(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let place = if change.place.is_empty() {
            "not set anywhere"
        } else {
            &change.place
        };
        let context = match change.context.as_str() {
            "" => String::new(),
            context => format!(" ({context})"),
        };
        text += &format!("  {place}{context}\n");
        for (sign, line) in [('-', &change.from), ('+', &change.to)] {
            if !line.is_empty() {
                text += &format!("    {sign} {line}\n");
            }
        }
    }
    text
}

/// One line for each cell that was examined: what limits it.
pub fn causes_text(
    analysis: &RunAnalysis,
    record: &RunRecord,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> String {
    let examined = |id: &u32| {
        let trial = record.trials.iter().find(|t| t.id == *id);
        trial.is_some_and(|t| t.examination.is_some())
    };
    let mut lines: Vec<String> = Vec::new();
    for cell in &analysis.cells {
        let of_cell = cell.trials.iter().filter(|id| examined(id));
        let Some(diagnosis) = of_cell.filter_map(|id| diagnoses.get(id)).next() else {
            continue;
        };
        let Some(finding) = diagnosis.findings.first() else {
            continue;
        };
        let levels: Vec<String> = cell
            .levels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let first = format!("  {}: ", levels.join(" "));
        let words = format!("{}: {}", finding.cause, finding.title);
        lines.push(wrapped(&first, &words, 4));
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("\ncauses\n{}", lines.concat())
}
