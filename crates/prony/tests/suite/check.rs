//! `prony check` end to end: here, against its schema, and on a laid-out root.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, finish, prony};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn check(dir: &Path, args: &[&str]) -> Finished {
    finish(prony(&dir.join("state")).arg("check").args(args))
}

fn entry<'a>(document: &'a Value, id: &str) -> &'a Value {
    let checks = document["checks"].as_array().unwrap();
    let found = checks.iter().find(|c| c["id"] == id);
    found.unwrap_or_else(|| panic!("no `{id}` in {document}"))
}

#[test]
fn this_host_is_checked_and_the_document_is_valid_against_its_schema() {
    let dir = tempfile::tempdir().unwrap();
    let finished = check(dir.path(), &["--json"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let document = finished.json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/check.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    assert!(
        document["checks"].as_array().unwrap().len() > 50,
        "{document}"
    );
    assert!(entry(&document, "loopback")["found"].is_string());
    // What is not known says why, and what is known says nothing of the kind.
    for check in document["checks"].as_array().unwrap() {
        let is_known = check["found"].is_string();
        assert!(
            is_known == check["reason"].as_str().unwrap().is_empty(),
            "{check}"
        );
        assert!(is_known || check["standing"] != "differs", "{check}");
    }
}

#[test]
fn a_laid_out_host_differs_where_it_was_laid_out_so() {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/net/core/somaxconn", "128\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535\n"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
        ),
    ] {
        let path = dir.path().join("root").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = dir.path().join("root").display().to_string();
    let args = |more: &[&str]| -> Finished {
        let all = [&["--root", &root, "--json"], more].concat();
        check(dir.path(), &all)
    };
    let all = args(&[]).json();
    assert_eq!(entry(&all, "somaxconn")["standing"], "differs");
    assert_eq!(entry(&all, "local_ports")["standing"], "fine");
    assert_eq!(entry(&all, "thp")["standing"], "differs");
    assert_eq!(entry(&all, "syncookies")["standing"], "unknown");
    let tune = entry(&all, "somaxconn")["tune"].as_array().unwrap();
    assert!(tune.iter().any(|p| p == "connection-rate"), "{tune:?}");

    let strict = args(&["--strict", "--for", "latency"]);
    assert_eq!(strict.code, Some(1), "{}", strict.stderr);
    let ids: Vec<String> = strict.json()["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["id"].as_str().unwrap().to_owned())
        .collect();
    assert!(ids.contains(&"thp".to_owned()) && !ids.contains(&"somaxconn".to_owned()));
}

#[test]
fn where_nothing_can_be_read_prony_cannot_work() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let finished = check(dir.path(), &["--root", &empty.display().to_string()]);
    assert_eq!(finished.code, Some(4), "{}", finished.stdout);
    assert!(
        finished.stderr.contains("mount /proc"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_workload_that_is_not_there_is_named_with_the_near_miss() {
    let dir = tempfile::tempdir().unwrap();
    let finished = check(dir.path(), &["--for", "latencies"]);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("`latency`"), "{}", finished.stderr);
}
