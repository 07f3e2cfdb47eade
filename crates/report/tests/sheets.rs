//! Markdown and CSV against golden files (`BLESS=1` rewrites them), and what readers of them rely on.

#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made must stop the test"
)]

mod common;
mod reading;

use common::{golden, run};
use record::{TrialRecord, TrialState};
use report::csv::{Run, csv};
use report::index::{
    Change, Entry, Unreadable, index_document, index_markdown, index_page, index_schema,
};
use report::json::run_document;
use report::markdown::run_markdown;
use std::collections::BTreeMap;

#[test]
fn markdown_of_a_run() {
    let record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let document = run_document(&record, &analysis, "", &BTreeMap::new());
    let text = run_markdown(&record, &document, "results/keepalive");
    golden("tests/golden/run.md", &text);
    assert!(text.contains("(results/keepalive/report.html)"));
    // Every row of a table has as many cells as its head.
    for lines in text.lines().collect::<Vec<_>>().windows(2) {
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        if lines.iter().all(|l| l.starts_with('|')) {
            assert_eq!(cells(lines[0]), cells(lines[1]), "{lines:?}");
        }
    }
}

#[test]
fn csv_of_a_run() {
    let record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let runs = [Run {
        name: "keepalive",
        record: &record,
        analysis: &analysis,
    }];
    let text = csv(&runs);
    let trials = |text: &str, ids: [&str; 2]| -> String {
        let keep = |line: &&str| {
            let fields: Vec<&str> = line.split(',').collect();
            fields[0] == "record" || ids.contains(&fields[8])
        };
        text.lines()
            .filter(keep)
            .map(|l| format!("{l}\n"))
            .collect()
    };
    // One trial that ran and the one whose server did not start: the others are alike.
    golden("tests/golden/run.csv", &trials(&text, ["0", "3"]));
    let columns = text.lines().next().unwrap().split(',').count();
    assert!(text.lines().all(|l| l.split(',').count() == columns));
    assert!(!text.contains("NaN") && !text.contains("inf"));
    // Each trial has its rate, the one that did not run an empty one.
    let rates: Vec<&str> = text
        .lines()
        .filter(|l| l.contains(",achieved_per_s,"))
        .collect();
    assert_eq!(rates.len(), record.trials.len());
    let empty = rates.iter().filter(|l| l.ends_with(",achieved_per_s,,1/s"));
    assert_eq!(empty.count(), 1);
}

/// The same experiment four times: the second as the first, the third slower, the fourth without a valid trial.
#[test]
fn an_index_marks_what_got_worse() {
    let records: Vec<_> = (0..4)
        .map(|i| {
            let mut record = run();
            record.manifest.started = format!("2026-01-0{}T00:00:00Z", i + 1);
            let of_cell = analysis::analyse(&record).unwrap().cells[1].trials.clone();
            for trial in record.trials.iter_mut().filter(|t| of_cell.contains(&t.id)) {
                match i {
                    2 => halve(trial),
                    3 => trial.state = TrialState::Interrupted,
                    _ => {}
                }
            }
            let analysis = analysis::analyse(&record).unwrap();
            (record, analysis)
        })
        .collect();
    let names = ["first", "second", "third", "fourth"];
    // Given in any order, shown by their start.
    let mut entries: Vec<Entry> = names
        .iter()
        .zip(&records)
        .map(|(name, (record, analysis))| Entry {
            name,
            directory: name,
            record,
            analysis,
        })
        .collect();
    entries.reverse();
    let unreadable = vec![Unreadable {
        directory: "broken".into(),
        why: "`plan.json` is missing".into(),
    }];
    let document = index_document(&entries, unreadable, 0.02);
    assert_eq!(document.histories.len(), 1);
    let history = &document.histories[0];
    let found: Vec<&str> = history.records.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(found, names);
    let changes: Vec<Change> = history.cells[1].points.iter().map(|p| p.change).collect();
    assert_eq!(
        changes,
        [
            Change::NotCompared,
            Change::Same,
            Change::Worse,
            Change::NotCompared
        ]
    );
    assert_eq!(history.records[2].regressions, 1);
    // A cell without a valid trial has no figure, however the record came by one.
    assert_eq!(history.cells[1].points[3].rate_per_s, None);
    golden("tests/golden/index.md", &index_markdown(&document));
    let schema = index_schema();
    let pretty = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    golden("../../schema/index.schema.json", &pretty);
    let value = serde_json::to_value(&document).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&value));
    let page = index_page(&document);
    for want in [
        "href=\"./third/report.html\"",
        "circle class=\"worse\"",
        "third/report.json#/comparisons/1/achieved_per_s/median",
        "<code>broken</code>",
    ] {
        assert!(page.contains(want), "missing: {want}");
    }
    assert_eq!(reading::untraced(&page), Vec::<String>::new());
}

/// Half as many answers in the same time.
fn halve(trial: &mut TrialRecord) {
    let outcome = trial.outcome.as_mut().unwrap();
    let counts = &mut outcome.requests;
    for count in [
        &mut counts.scheduled,
        &mut counts.sent,
        &mut counts.completed,
        &mut counts.succeeded,
    ] {
        *count /= 2;
    }
}

/// One trial against one has no interval, however far they lie apart: no mark.
#[test]
fn one_trial_marks_nothing() {
    let mut record = run();
    let ids = analysis::analyse(&record).unwrap().cells[1].trials.clone();
    record.trials.retain(|t| !ids[1..].contains(&t.id));
    let mut slower = record.clone();
    slower
        .trials
        .iter_mut()
        .filter(|t| t.id == ids[0])
        .for_each(halve);
    let fast = analysis::analyse(&record).unwrap();
    let slow = analysis::analyse(&slower).unwrap();
    let entry = |name, record, analysis| Entry {
        name,
        directory: name,
        record,
        analysis,
    };
    let both = [entry("a", &record, &fast), entry("b", &slower, &slow)];
    let document = index_document(&both, vec![], 0.02);
    assert_eq!(document.histories[0].records[1].regressions, 0);
}
