//! The terminal's text against golden files; `BLESS=1` rewrites them.

mod common;

use common::{golden, loads, plan, run, slice, spec};
use record::{Arrival, Nanos};
use report::text::{Style, load_text, plan_text, progress_line, run_text};

#[test]
fn loads_in_each_fate() {
    for load in loads() {
        let text = load_text(&load.spec, &load.outcome, &load.verdict(), Style::Plain);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        golden(&format!("tests/golden/load_{}.txt", load.name), &text);
    }
}

#[test]
fn the_first_line_answers() {
    for (load, first) in loads().iter().zip([
        "valid, limited by the server: nginx worker 1234 on core 0",
        "NOT VALID: the generator was the limit: load thread 901 on core 1",
        "NOT VALID: no request succeeded: 127.0.0.1:8080 refused all 64 connections",
        "valid, limited by the offered load: the offered 1,000/s",
        "valid, limited by the server: nginx worker 1234",
    ]) {
        let text = load_text(&load.spec, &load.outcome, &load.verdict(), Style::Plain);
        assert!(text.starts_with(first), "{text}");
    }
}

#[test]
fn a_load_without_a_success_has_no_rate() {
    let loads = loads();
    let refused = loads.iter().find(|l| l.name == "refused").unwrap();
    let text = load_text(
        &refused.spec,
        &refused.outcome,
        &refused.verdict(),
        Style::Plain,
    );
    assert!(!text.contains("/s") && !text.contains("p99"), "{text}");
}

#[test]
fn an_interrupted_load_says_so() {
    let mut load = loads().remove(0);
    load.outcome.interrupted = true;
    load.outcome.measured_to = Nanos::from_millis(5_250);
    let text = load_text(&load.spec, &load.outcome, &load.verdict(), Style::Plain);
    assert!(text.contains("3.25s, interrupted"), "{text}");
}

#[test]
fn colour_marks_the_verdict_and_changes_no_word() {
    let load = &loads()[0];
    let text = |style| load_text(&load.spec, &load.outcome, &load.verdict(), style);
    let coloured = text(Style::Ansi);
    assert!(coloured.starts_with("\u{1b}[1;32mvalid\u{1b}[0m"));
    let stripped = coloured
        .replace("\u{1b}[1;32m", "")
        .replace("\u{1b}[0m", "");
    assert_eq!(stripped, text(Style::Plain));
}

#[test]
fn progress_in_one_line() {
    let mut open = spec();
    open.arrival = Arrival::Constant { per_s: 60_000.0 };
    let mut silent = slice();
    silent.succeeded = 0;
    let lines = [
        progress_line(&spec(), Nanos(0), &slice()),
        progress_line(&open, Nanos::from_secs(2), &slice()),
        progress_line(&spec(), Nanos(0), &silent),
    ];
    golden("tests/golden/progress.txt", &(lines.join("\n") + "\n"));
}

#[test]
fn a_run() {
    let record = run();
    let analysis = analysis::analyse(&record).unwrap();
    golden(
        "tests/golden/run.txt",
        &run_text(&record, &analysis, Style::Plain),
    );
}

#[test]
fn a_plan() {
    golden("tests/golden/plan.txt", &plan_text(&plan(), Style::Plain));
}
