//! A run of `prony traffic` that was recorded: its text, its document and its page say what its record says.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod traffic_run;

use common::golden;
use reading::{assert_numbers_are_the_records, attributes};
use report::text::Style;
use report::traffic::{document, schema, traffic_text};
use serde_json::Value;
use std::collections::BTreeMap;
use traffic_run::{record, recorded};

#[test]
fn the_schema_is_that_of_the_types_and_a_run_is_valid() {
    let pretty = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    golden("../../schema/traffic.schema.json", &pretty);
    let json = serde_json::to_value(document(&recorded(), &[], "out")).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let violations: Vec<String> = validator
        .iter_errors(&json)
        .map(|e| e.to_string())
        .collect();
    assert_eq!(violations, Vec::<String>::new());
}

#[test]
fn the_text_of_a_run() {
    let shown = traffic_text(&document(&recorded(), &[], ""), Style::Plain);
    golden("tests/golden/traffic.txt", &shown);
    assert!(!shown.contains("persisttimeo"), "zero on both sides");
}

/// Every number of the document against the record, and the sums that hold between them.
#[test]
fn the_numbers_agree_with_each_other() {
    let run = recorded();
    let json = serde_json::to_value(document(&run, &[], "")).unwrap();
    for (t, said) in run
        .outcome
        .templates
        .iter()
        .zip(json["templates"].as_array().unwrap())
    {
        let n = |name: &str| said[name].as_u64().unwrap();
        let failed: u64 = said["failed"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(kind, _)| !kind.ends_with("_at_server"))
            .map(|(_, n)| n.as_u64().unwrap())
            .sum();
        assert_eq!(
            n("attempted"),
            n("completed") + failed + n("unfinished"),
            "{}",
            t.name
        );
        assert_eq!(n("attempted"), t.attempted);
    }
    let counter = |name: &str, side: &str| {
        let rows = json["counters"].as_array().unwrap();
        let row = rows.iter().find(|r| r["name"] == name).unwrap();
        row[side].as_u64().unwrap()
    };
    let connected: u64 = run.outcome.templates.iter().map(|t| t.connected).sum();
    assert_eq!(counter("tcps_connects", "client"), connected);
    assert_eq!(counter("tcps_accepts", "client"), 0);
    assert!(
        counter("tcps_sndrexmitpack", "client") > 0,
        "the wire loses"
    );
}

#[test]
fn every_number_of_the_page_is_the_records() {
    let record = record();
    let analysis = analysis::analyse(&record).unwrap();
    let html = report::html::page(&record, &analysis, &BTreeMap::new());
    let numbers = assert_numbers_are_the_records(&html, &record, &analysis, &BTreeMap::new());
    assert!(numbers > 100, "{numbers}");
    assert_eq!(numbers, attributes(&html, "data-value").len());
    assert!(html.contains("tcps_sndrexmitpack"));
    assert!(
        !html.contains("id=\"trials\""),
        "its trials are parts of one run"
    );
}

#[test]
fn a_run_compares_with_an_imported_one_by_counter() {
    let record = record();
    let analysis = analysis::analyse(&record).unwrap();
    let tables = analysis::imported::compare_reported(&analysis, &analysis);
    let counters = tables.iter().find(|t| t.stage == "counters").unwrap();
    assert_eq!(counters.columns, ["before", "after"]);
    let document: Value = serde_json::to_value(report::json::run_document(
        &record,
        &analysis,
        "",
        &BTreeMap::new(),
    ))
    .unwrap();
    assert_eq!(document["answer"], Value::Null);
    assert_eq!(document["traffic"]["verdict"], document["verdict"]);
}
