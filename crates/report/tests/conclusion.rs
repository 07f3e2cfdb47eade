//! What the conclusion says of comparisons in each fate, and what it must never say.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a fixture that cannot be made must stop the test, and its literals read best by value"
)]

mod common;

use analysis::{Cell, RunAnalysis};
use record::RunRecord;
use report::conclusion::{Said, Statement};
use report::json::run_document;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A ratio with its interval over `pairs` pairs.
fn ratio(ratio: f64, low: f64, high: f64, pairs: u32) -> Value {
    let excludes_one = low > 1.0 || high < 1.0;
    let p = (pairs >= 3).then_some(if excludes_one { 0.01 } else { 0.5 });
    json!({
        "ratio": ratio, "low": low, "high": high, "pairs": pairs, "coverage": 0.96875, "method": "rank",
        "p": p, "p_adjusted": p,
    })
}

/// A cell of the stage `main` by its stored form; `rate` is `null` where no trial is valid.
fn cell(levels: Value, rate: Value, ratio: Value) -> Cell {
    let valid = match rate.is_null() {
        true => vec![],
        false => vec![0, 1, 2],
    };
    let spread = rate
        .as_f64()
        .map(|r| json!({"median": r, "min": r * 0.98, "max": r * 1.02}));
    let verdict = json!({
        "valid": !rate.is_null(), "limit": "server", "resource": "worker", "remedy": "", "evidence": [],
        "why": if rate.is_null() { "the generator was the limit: 99 % busy" } else { "the worker was busy 99 %" },
    });
    let why = "none of 3 trials is valid: the generator was the limit: 99 % busy";
    let two_pairs = ratio["pairs"].as_u64().is_some_and(|pairs| pairs < 3);
    let stored = json!({
        "not_measured": rate.is_null().then_some(why), "no_ratio": two_pairs.then_some("2 pairs of 3"),
        "stage": "main", "levels": levels, "planned": 3, "trials": [0, 1, 2], "valid": valid,
        "achieved_per_s": spread, "verdict": verdict, "rate_ratio": if two_pairs { Value::Null } else { ratio },
    });
    serde_json::from_value(stored).unwrap()
}

/// A run of these cells whose baseline is the allocator `glibc`.
fn conclude(cells: Vec<Cell>) -> Vec<Statement> {
    let (record, analysis) = run_of(cells);
    let document = run_document(&record, &analysis, "", &BTreeMap::new());
    // Every number of a sentence stands in the document.
    let json = serde_json::to_value(&document).unwrap();
    for statement in &document.conclusion {
        for pointer in &statement.from {
            assert!(
                json.pointer(pointer).is_some_and(Value::is_number),
                "{pointer}"
            );
        }
    }
    document.conclusion
}

fn run_of(cells: Vec<Cell>) -> (RunRecord, RunAnalysis) {
    let mut record = common::run();
    record.trials.clear();
    let factors: Vec<&String> = cells.iter().flat_map(|c| c.levels.keys()).collect();
    let factors: Vec<Value> = factors
        .iter()
        .map(|f| json!({"name": f, "levels": ["a", "b"]}))
        .collect();
    record.plan = json!({
        "question": "", "seed": 1, "error_limit": 0.01, "trials": [],
        "stages": [{"name": "main", "repeats": 6, "baseline": {"allocator": "glibc"}, "factors": factors}],
    });
    let analysis = RunAnalysis {
        tables: Vec::new(),
        fairness: Vec::new(),
        verdict: serde_json::from_value(json!({
            "valid": true, "limit": "server", "resource": "worker", "remedy": "", "evidence": [],
            "why": "12,000/s at allocator=jemalloc: the worker was busy 99 %",
        }))
        .unwrap(),
        cells_answered: 0,
        cells_planned: 0,
        capacity_per_s: None,
        searches: Vec::new(),
        cells,
        knees: vec![],
        trials: vec![],
        warnings: vec![],
    };
    (record, analysis)
}

fn of(statements: &[Statement], said: Said) -> Vec<&str> {
    let of_kind = statements.iter().filter(|s| s.said == said);
    of_kind.map(|s| s.text.as_str()).collect()
}

fn allocator(name: &str, rate: impl Into<Value>, ratio: Value) -> Cell {
    cell(json!({"allocator": name}), rate.into(), ratio)
}

/// Cells, and of each kind of sentence how it must begin or what it must hold.
#[test]
fn comparisons_in_each_fate() {
    let base = || allocator("glibc", 10_000.0, Value::Null);
    let better = || allocator("jemalloc", 12_000.0, ratio(1.2, 1.15, 1.26, 6));
    let check = |name: &str, cells: Vec<Cell>, want: &[(Said, &str)], never: &[Said]| {
        let found = conclude(cells);
        for (said, text) in want {
            let sentences = of(&found, *said);
            assert!(
                sentences.iter().any(|s| s.contains(text)),
                "{name}: no {said:?} with `{text}` in {found:#?}"
            );
        }
        for said in never {
            assert_eq!(of(&found, *said), Vec::<&str>::new(), "{name}");
        }
    };
    check(
        "best",
        vec![
            base(),
            better(),
            allocator("slow", 9_000.0, ratio(0.9, 0.88, 0.93, 6)),
        ],
        &[
            (
                Said::Best,
                "allocator=jemalloc is fastest: its rate against allocator=glibc changes by +20 % (+15 % to +26 %; 6 pairs, coverage 97 %).",
            ),
            (
                Said::Limit,
                "At its best it is limited by the server (worker)",
            ),
        ],
        &[Said::Tie, Said::NoDifference],
    );
    check(
        "tie",
        vec![
            base(),
            better(),
            allocator("mimalloc", 11_900.0, ratio(1.19, 1.14, 1.25, 6)),
        ],
        &[
            (Said::Best, "allocator=jemalloc is fastest"),
            (Said::Tie, "allocator=mimalloc, +19 % (+14 % to +25 %;"),
            (Said::Tie, "which of them is better was not shown"),
        ],
        &[Said::NoDifference],
    );
    check(
        "none",
        vec![
            base(),
            allocator("jemalloc", 10_050.0, ratio(1.005, 0.98, 1.03, 6)),
        ],
        &[(
            Said::NoDifference,
            "No level is shown to be better than the baseline allocator=glibc in its rate: allocator=jemalloc +0.5 % (-2 % to +3 %;",
        )],
        &[Said::Best, Said::Tie],
    );
    check(
        "baseline best",
        vec![
            base(),
            allocator("slow", 9_000.0, ratio(0.9, 0.88, 0.93, 6)),
        ],
        &[(
            Said::Best,
            "The baseline allocator=glibc is fastest: the other level is shown to be worse, allocator=slow -10 % (-12 % to -7 %;",
        )],
        &[Said::NoDifference],
    );
    check(
        "invalid",
        vec![base(), allocator("jemalloc", Value::Null, Value::Null)],
        &[(
            Said::CannotSay,
            "Anything of allocator=jemalloc in stage main: none of 3 trials is valid: the generator was the limit: 99 % busy.",
        )],
        &[Said::Best, Said::Tie, Said::NoDifference, Said::Difference],
    );
    check(
        "two pairs",
        vec![
            base(),
            allocator("jemalloc", 12_000.0, ratio(1.2, 1.15, 1.26, 2)),
        ],
        &[(
            Said::CannotSay,
            "Whether allocator=jemalloc of stage main differ from the baseline: 2 pairs of 3; a ratio takes three pairs of valid trials",
        )],
        &[Said::Best, Said::NoDifference],
    );
}

/// A ratio that a damaged or foreign record holds for a cell without a valid trial is not believed.
#[test]
fn no_claim_comes_from_a_cell_without_a_valid_trial() {
    let mut invalid = allocator("jemalloc", Value::Null, ratio(1.9, 1.8, 2.0, 6));
    invalid.valid.clear();
    let found = conclude(vec![allocator("glibc", 10_000.0, Value::Null), invalid]);
    for statement in found.iter().filter(|s| s.said != Said::CannotSay) {
        assert!(!statement.text.contains("+90 %"), "{statement:?}");
    }
}

#[test]
fn each_level_is_summed_up_over_all_settings() {
    let at = |allocator: &str, connections: &str, rate: f64, ratio: Value| {
        let levels = json!({"allocator": allocator, "connections": connections});
        cell(levels, json!(rate), ratio)
    };
    let found = conclude(vec![
        at("glibc", "10", 5_000.0, Value::Null),
        at("glibc", "100", 10_000.0, Value::Null),
        at("jemalloc", "10", 5_000.0, ratio(1.0, 0.97, 1.04, 6)),
        at("jemalloc", "100", 12_000.0, ratio(1.2, 1.15, 1.26, 6)),
    ]);
    assert_eq!(
        of(&found, Said::Difference),
        [
            "allocator=jemalloc against allocator=glibc, by its rate in 2 settings: better in 1, worse in 0, \
             no difference shown in 1; from +0 % (-3 % to +4 %; 6 pairs, coverage 97 %) at connections=10 \
             to +20 % (+15 % to +26 %; 6 pairs, coverage 97 %) at connections=100."
        ]
    );
    // The best is told where the stage is fastest.
    let best = of(&found, Said::Best);
    assert!(
        best[0].starts_with("At connections=100: allocator=jemalloc is fastest"),
        "{best:?}"
    );
}

/// Without a baseline there is no ratio, and so no word about which level is better.
#[test]
fn without_a_baseline_no_level_is_called_better() {
    let record = common::run();
    let analysis = analysis::analyse(&record).unwrap();
    let mut record = record;
    record.plan["stages"][0]["baseline"] = json!({});
    let analysis = RunAnalysis {
        cells: analysis
            .cells
            .into_iter()
            .map(|c| Cell {
                rate_ratio: None,
                p99_ratio: None,
                ..c
            })
            .collect(),
        ..analysis
    };
    let document = run_document(&record, &analysis, "", &BTreeMap::new());
    let found = document.conclusion;
    assert_eq!(of(&found, Said::Best), Vec::<&str>::new());
    let unsaid = of(&found, Said::CannotSay);
    assert!(
        unsaid
            .iter()
            .any(|s| s.starts_with("Which level of keepalive is better in stage sweep")),
        "{unsaid:#?}"
    );
}
