//! What the tests read out of a page, and the documents that its numbers are held against.

#![allow(dead_code, reason = "each test file uses some of them")]

use analysis::{Diagnosis, RunAnalysis};
use record::{MemoryStore, RunRecord, TrialRecord};
use report::json::{RunDocument, run_document};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
    assert_numbers_are_of(html, record, &run_document(record, analysis, "", diagnoses))
}

/// The same for a page whose document holds more than the record tells.
pub fn assert_numbers_are_of(html: &str, record: &RunRecord, document: &RunDocument) -> usize {
    let documents = documents(record, document);
    // A number's value and its origin stand side by side; words have an origin alone.
    let values = attributes(html, "data-value");
    let origins: Vec<String> = html
        .split(" data-value=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once("\" data-from=\"")?.1.split('"').next())
        .map(|origin| origin.replace("&amp;", "&"))
        .collect();
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
fn documents(record: &RunRecord, document: &RunDocument) -> BTreeMap<String, Value> {
    let trial = |t: &TrialRecord| {
        let path = format!("{}/trial.json", TrialRecord::directory(t.id));
        (path, serde_json::to_value(t).unwrap())
    };
    let mut all: BTreeMap<String, Value> = record.trials.iter().map(trial).collect();
    all.insert("plan.json".into(), record.plan.clone());
    all.insert(String::new(), serde_json::to_value(document).unwrap());
    all
}

/// Elements that have no end.
const VOID: [&str; 7] = ["meta", "br", "hr", "img", "input", "link", "wbr"];
/// Elements too large for an origin of their own to tell anything.
const TOO_LARGE: [&str; 4] = ["html", "body", "main", "section"];

/// Texts with a number in them that no element around them traces: neither to a file of the record (`data-from`) nor
/// to the page's own words (`data-own`).
pub fn untraced(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Each open element, and whether it says where its text is from.
    let mut open: Vec<(String, bool)> = Vec::new();
    let mut rest = html.split_once("<html").map_or("", |(_, rest)| rest);
    while let Some((text, tag_and_rest)) = rest.split_once('<') {
        let skipped = open
            .last()
            .is_some_and(|(name, _)| ["script", "style"].contains(&name.as_str()));
        let traced = open.iter().any(|(_, traced)| *traced);
        if !skipped && !traced && text.chars().any(|c| c.is_ascii_digit()) {
            found.push(text.trim().to_owned());
        }
        let (tag, after) = tag_and_rest.split_once('>').unwrap();
        rest = after;
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if tag.starts_with('/') {
            // Ends what it names; a paragraph may have been ended by what came in it.
            while open.pop().is_some_and(|(open, _)| open != name) {}
        } else if !tag.ends_with('/') && !tag.starts_with('!') && !VOID.contains(&name.as_str()) {
            let says = tag.contains(" data-from=\"") || tag.contains(" data-own");
            let large = TOO_LARGE.contains(&name.as_str());
            open.push((name.clone(), says && !large));
            if name == "script" || name == "style" {
                let (_, end) = rest.split_once(&format!("</{name}")).unwrap();
                rest = end.split_once('>').unwrap().1;
                open.pop();
            }
        }
    }
    found
}

/// Every origin on the page leads to a file of the record, or to a place in the document that lies beside the page.
pub fn assert_origins_exist(
    html: &str,
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) {
    assert_origins_exist_in(html, record, &run_document(record, analysis, "", diagnoses));
}

/// The same for a page whose document holds more than the record tells.
pub fn assert_origins_exist_in(html: &str, record: &RunRecord, document: &RunDocument) {
    let mut store = MemoryStore::default();
    record.save(&mut store).unwrap();
    let document = serde_json::to_vec(document).unwrap();
    store.0.insert("report.json".into(), document);
    let mut parsed: BTreeMap<String, Value> = BTreeMap::new();
    let origins: BTreeSet<String> = attributes(html, "data-from").into_iter().collect();
    for origin in origins {
        let (file, pointer) = origin.split_once('#').unwrap_or((&origin, ""));
        let file = if file.is_empty() { "report.json" } else { file };
        let bytes = store.0.get(file);
        let bytes = bytes.unwrap_or_else(|| panic!("{origin}: no such file in the record"));
        if !pointer.is_empty() {
            let value = parsed
                .entry(file.to_owned())
                .or_insert_with(|| serde_json::from_slice(bytes).unwrap());
            assert!(value.pointer(pointer).is_some(), "{origin} does not exist");
        }
    }
}
