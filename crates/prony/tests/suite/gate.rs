//! The gate for CI, by its script: a slower head fails, one that does not start fails, a base beside itself does not.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

use crate::common::{Finished, finish, prony};
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_prony");

fn gate(dir: &Path, base: &str, head: &str) -> Finished {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ci/gate.sh");
    let mut command = Command::new(script);
    command
        .env("PRONY", BINARY)
        .env("XDG_STATE_HOME", dir)
        .env("GITHUB_STEP_SUMMARY", dir.join("summary.md"))
        .args(["--base", base, "--head", head, "--connections", "4"])
        .args(["--repeats", "3", "--measure", "250ms", "--threshold", "50%"])
        .arg("--out")
        .arg(dir.join("record"));
    finish(&mut command)
}

/// A server in the foreground, with this delay before each answer.
fn origin(delay: &str) -> String {
    format!("{BINARY} --quiet origin --listen {{{{listen}}}} --delay {delay}")
}

#[test]
fn a_head_that_is_slower_fails_and_is_shown_in_the_summary() {
    let dir = tempfile::tempdir().unwrap();
    let done = gate(dir.path(), &origin("1ms"), &origin("9ms"));
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    assert!(done.stdout.contains("**failed**"), "{}", done.stdout);
    assert!(done.stdout.contains("| rate |"), "{}", done.stdout);
    let summary = std::fs::read_to_string(dir.path().join("summary.md")).unwrap();
    assert_eq!(summary, done.stdout);
    let mut again = prony(dir.path());
    again.arg("gate").arg(dir.path().join("record"));
    let document = finish(again.args(["--threshold", "100%", "--json"])).json();
    assert_eq!(document["result"], "failed", "{document}");
    let rate = &document["rows"][0];
    assert_eq!(
        (&rate["figure"], &rate["reading"]),
        (&"rate_per_s".into(), &"worse".into())
    );
    // A delay is no call more.
    assert!(
        document["calls"]
            .as_array()
            .unwrap()
            .iter()
            .all(|c| c["more"] == false)
    );
}

#[test]
fn a_base_beside_itself_never_fails() {
    let dir = tempfile::tempdir().unwrap();
    let done = gate(dir.path(), &origin("1ms"), &origin("1ms"));
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    assert!(!done.stdout.contains("failed"), "{}", done.stdout);
}

#[test]
fn a_head_that_does_not_start_fails_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let done = gate(dir.path(), &origin("1ms"), "/nowhere/at/all");
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stdout.contains("does not run"), "{}", done.stdout);
    assert!(done.stdout.contains("/nowhere/at/all"), "{}", done.stdout);
    let mut none = prony(dir.path());
    let none = finish(none.arg("gate").arg(dir.path().join("none")));
    assert_eq!(none.code, Some(2), "{}", none.stderr);
}
