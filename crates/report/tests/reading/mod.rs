//! What the tests read out of a page, and the documents that its numbers are held against.

use analysis::{Diagnosis, RunAnalysis};
use record::{RunRecord, TrialRecord};
use report::json::run_document;
use serde_json::Value;
use std::collections::BTreeMap;

/// Values of an attribute in the order of the page, entities decoded.
pub fn attributes(html: &str, name: &str) -> Vec<String> {
    html.split(&format!(" {name}=\""))
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .map(|value| value.replace("&amp;", "&"))
        .collect()
}

/// Holds every number of the page against the document and the path that it names; how many there were.
pub fn assert_numbers_are_the_records(
    html: &str,
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> usize {
    let documents = documents(record, analysis, diagnoses);
    let (values, origins) = (
        attributes(html, "data-value"),
        attributes(html, "data-from"),
    );
    assert_eq!(values.len(), origins.len());
    for (value, origin) in values.iter().zip(&origins) {
        let (document, pointer) = origin.split_once('#').unwrap();
        let want = documents[document].pointer(pointer);
        let want = want.unwrap_or_else(|| panic!("{origin} does not exist"));
        assert_eq!(value, &want.to_string(), "{origin}");
    }
    values.len()
}

/// What `prony report --json` prints under the empty name, and each trial under its file's.
fn documents(
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> BTreeMap<String, Value> {
    let trial = |t: &TrialRecord| {
        let path = format!("{}/trial.json", TrialRecord::directory(t.id));
        (path, serde_json::to_value(t).unwrap())
    };
    let mut all: BTreeMap<String, Value> = record.trials.iter().map(trial).collect();
    all.insert(
        String::new(),
        serde_json::to_value(run_document(record, analysis, "", diagnoses)).unwrap(),
    );
    all
}
