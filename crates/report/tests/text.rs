//! The terminal's text against golden files; `BLESS=1` rewrites them.

mod common;
mod diagnoses;

use analysis::Answer;
use common::{golden, loads, plan, run, slice, spec};
use record::{Arrival, LoadSpec, Nanos};
use report::text::{
    Style, against_text, answer_text, diagnosis_text, live_cells, load_text, plan_text,
    progress_line, run_text, trial_line, watched_text,
};
use std::collections::BTreeMap;

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
    let events = LoadSpec {
        sse: true,
        ..spec()
    };
    let mut silent = slice();
    silent.succeeded = 0;
    let lines = [
        progress_line(&spec(), Nanos(0), &slice()),
        progress_line(&open, Nanos::from_secs(2), &slice()),
        progress_line(&spec(), Nanos(0), &silent),
        progress_line(&events, Nanos(0), &slice()),
        progress_line(&events, Nanos(0), &silent),
    ];
    golden("tests/golden/progress.txt", &(lines.join("\n") + "\n"));
}

#[test]
fn a_trial_of_events_has_a_rate_and_no_latency() {
    let analysis = analysis::analyse(&run()).unwrap();
    let mut answered = analysis.trials.into_iter();
    let mut trial = answered.find(|t| t.achieved_per_s.is_some()).unwrap();
    let line = trial_line(&trial);
    assert!(line.contains("/s  p50 "), "{line}");
    trial.response_ns = None;
    let line = trial_line(&trial);
    assert!(line.contains("/s  generator "), "{line}");
    trial.achieved_per_s = None;
    let line = trial_line(&trial);
    assert!(line.contains("no response"), "{line}");
}

#[test]
fn a_run() {
    let record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let answer = analysis::answer(&record, &analysis, &BTreeMap::new());
    golden(
        "tests/golden/run.txt",
        &(answer_text(&answer, &analysis.verdict, Style::Plain)
            + &run_text(&record, &analysis, Style::Plain)),
    );
}

#[test]
fn slow_seconds_and_an_earlier_record() {
    let mut record = run();
    let diagnoses = diagnoses::watched(&mut record, "");
    let analysis = analysis::analyse(&record).unwrap();
    let document = diagnoses::watched_document(&record, &analysis, &diagnoses);
    let watched = watched_text(document.watched.as_ref().unwrap());
    let against = against_text(document.against.as_ref().unwrap());
    golden("tests/golden/watched.txt", &(watched + &against));
}

/// Answers of real runs, as they were stored; the one without a difference is that of the run before it, with every
/// ratio drawn towards 1 as on a quiet host.
#[test]
fn answers_of_each_kind_read_whole() {
    let verdict = common::loads()[0].verdict();
    for name in [
        "proxy_buffers",
        "sweep",
        "too_wide",
        "no_difference",
        "not_answered",
    ] {
        let file = format!("{}/tests/answers/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let stored = std::fs::read_to_string(file).unwrap();
        let answer: Answer = serde_json::from_str(&stored).unwrap();
        let text = answer_text(&answer, &verdict, Style::Plain);
        assert!(!text.contains("NaN") && !text.contains("unknown"), "{text}");
        golden(&format!("tests/golden/answer_{name}.txt"), &text);
    }
}

/// The first line says that the figures may not be used, and the answer does not repeat why.
#[test]
fn an_answer_of_an_invalid_run_begins_with_why() {
    let mut record = run();
    record.trials.clear();
    record.plan["stages"][0]["baseline"] = serde_json::json!({});
    let analysis = analysis::analyse(&record).unwrap();
    let answer = analysis::answer(&record, &analysis, &BTreeMap::new());
    let text = answer_text(&answer, &analysis.verdict, Style::Plain);
    assert!(text.starts_with("NOT VALID: "), "{text}");
    assert_eq!(text.matches(&analysis.verdict.why).count(), 1, "{text}");
}

#[test]
fn the_cells_of_a_stage_while_it_runs() {
    let mut record = run();
    let analysis = analysis::analyse(&record).unwrap();
    let (stage, now) = (
        analysis.cells[0].stage.clone(),
        analysis.cells[1].levels.clone(),
    );
    let at_the_end = live_cells(&analysis, &stage, &now);
    assert_eq!(
        at_the_end
            .iter()
            .filter(|line| line.starts_with('>'))
            .count(),
        1
    );
    // With the first trial alone the other cells have no figures, and none is made up.
    record.trials.truncate(1);
    let analysis = analysis::analyse(&record).unwrap();
    let at_first = live_cells(&analysis, &stage, &now);
    let text = [at_first, at_the_end].map(|lines| lines.join("\n") + "\n");
    golden("tests/golden/live_cells.txt", &text.join("\n"));
}

#[test]
fn a_plan() {
    golden("tests/golden/plan.txt", &plan_text(&plan(), Style::Plain));
}

fn diagnosed() -> [(
    &'static str,
    analysis::Diagnosis,
    Option<record::Examination>,
); 4] {
    [
        ("healthy", diagnoses::healthy(), Some(diagnoses::mended())),
        (
            "one_cause",
            diagnoses::one_cause(),
            Some(diagnoses::examination()),
        ),
        (
            "many_causes",
            diagnoses::many_causes(),
            Some(diagnoses::examination()),
        ),
        ("nothing_visible", diagnoses::nothing_visible(), None),
    ]
}

#[test]
fn diagnoses_in_each_fate() {
    for (name, diagnosis, examination) in diagnosed() {
        let text = diagnosis_text(&diagnosis, examination.as_ref(), Style::Plain);
        assert!(!text.contains("NaN") && !text.contains('\u{1b}'), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
            assert_eq!(line, line.trim_end());
        }
        golden(&format!("tests/golden/diagnosis_{name}.txt"), &text);
    }
}

#[test]
fn the_first_line_names_the_cause() {
    for ((_, diagnosis, examination), first) in diagnosed().iter().zip([
        "none: Healthy: CPU-bound by its own work on server (supported, score 0.90, not",
        "small_proxy_buffers: Proxy buffers smaller than the answers on server (supported,",
        "small_proxy_buffers: Proxy buffers smaller than the answers on server (proved, confidence 0.99)",
        "no cause found: the server's processes are not on this host",
    ]) {
        let text = diagnosis_text(diagnosis, examination.as_ref(), Style::Plain);
        assert!(text.starts_with(first), "{text}");
    }
}

#[test]
fn colour_changes_no_word_of_a_diagnosis() {
    for (_, diagnosis, examination) in diagnosed() {
        let text = |style| diagnosis_text(&diagnosis, examination.as_ref(), style);
        let mut stripped = text(Style::Ansi);
        for code in ["0", "1", "33", "1;31", "1;32"] {
            stripped = stripped.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(stripped, text(Style::Plain));
    }
}
