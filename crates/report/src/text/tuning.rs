//! The path of a tuning, and the causes of a run's cells in short.

use super::diagnosis::proof;
use super::style::Style;
use super::wrap::wrapped;
use analysis::words::several_levels;
use analysis::{Change, Diagnosis, Levels, RunAnalysis, Tuning};
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

/// What limits the cells that were examined: one line for those of which the same is said.
pub fn causes_text(
    analysis: &RunAnalysis,
    record: &RunRecord,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> String {
    let examined = |id: &u32| {
        let trial = record.trials.iter().find(|t| t.id == *id);
        trial.is_some_and(|t| t.examination.is_some())
    };
    let mut causes: Vec<((&str, &str), Vec<&Levels>)> = Vec::new();
    for cell in &analysis.cells {
        let of_cell = cell.trials.iter().filter(|id| examined(id));
        let Some(diagnosis) = of_cell.filter_map(|id| diagnoses.get(id)).next() else {
            continue;
        };
        let Some(finding) = diagnosis.findings.first() else {
            continue;
        };
        let said = (finding.cause.as_str(), finding.title.as_str());
        match causes.iter_mut().find(|(cause, _)| *cause == said) {
            Some((_, cells)) => cells.push(&cell.levels),
            None => causes.push((said, vec![&cell.levels])),
        }
    }
    if causes.is_empty() {
        return String::new();
    }
    format!("\ncauses\n{}", cause_lines(causes))
}

/// The cause of most cells stands last, so that it needs no list of them.
fn cause_lines(mut causes: Vec<((&str, &str), Vec<&Levels>)>) -> String {
    let all: usize = causes.iter().map(|(_, cells)| cells.len()).sum();
    causes.sort_by_key(|(_, cells)| cells.len());
    let last = causes.len() - 1;
    let line = |(at, ((cause, title), cells)): (usize, &((&str, &str), Vec<&Levels>))| {
        let place = match (at == last, cells.len()) {
            (true, n) if n == all && n > 1 => format!("in all {n} cells"),
            (true, n) if n > 2 && n < all => format!("in the other {n} cells"),
            _ if cells.iter().all(|c| c.is_empty()) => String::new(),
            _ => format!("at {}", several_levels(cells)),
        };
        let head = format!("{cause} {place}");
        wrapped("  ", &format!("{}: {title}", head.trim_end()), 4)
    };
    causes.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(connections: &str) -> Levels {
        Levels::from([("connections".to_owned(), connections.to_owned())])
    }

    #[test]
    fn equal_causes_are_one_line() {
        let cells: Vec<Levels> = (0..10).map(|n| cell(&n.to_string())).collect();
        let (cells, none): (Vec<&Levels>, _) = (cells.iter().collect(), ("none", "Healthy"));
        assert_eq!(
            cause_lines(vec![(none, cells.clone())]),
            "  none in all 10 cells: Healthy\n"
        );
        let absent = ("open_file_cache_absent", "Every request opens its file");
        assert_eq!(
            cause_lines(vec![
                (absent, cells[1..3].to_vec()),
                (none, cells[2..].to_vec())
            ]),
            "  open_file_cache_absent at connections=1, 2: Every request opens its file\n  \
             none in the other 8 cells: Healthy\n"
        );
        // Where there is nothing to count, the level or nothing.
        assert_eq!(
            cause_lines(vec![(none, cells[..1].to_vec())]),
            "  none at connections=0: Healthy\n"
        );
        let all = Levels::new();
        assert_eq!(cause_lines(vec![(none, vec![&all])]), "  none: Healthy\n");
    }
}
