//! Repeating until it is precise, continuing that, and two records as a gate: from the command line to the exit code.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, finish, prony};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// One cell with a twin; two blocks are planned, six are the fewest that have an interval by ranks.
const EXPERIMENT: &str = r#"
question = "Is the origin as fast as itself?"
[target.origin]
origin = { listen = "127.0.0.1:0", body = "1KiB", delay = "2ms" }
[load]
url = "http://origin/"
connections = 4
[design]
aa = true
repeats = 2
measure = "200ms"
warmup = "0s"
examine = false
"#;

fn run(dir: &Path, out: &str, more: &[&str]) -> Finished {
    fs::write(dir.join("experiment.toml"), EXPERIMENT).unwrap();
    let mut command = prony(&dir.join("state"));
    command.arg("run").arg(dir.join("experiment.toml"));
    command
        .arg("--out")
        .arg(dir.join(out))
        .arg("--json")
        .args(more);
    finish(&mut command)
}

fn compare(dir: &Path, a: &str, b: &str, more: &[&str]) -> Finished {
    let mut command = prony(&dir.join("state"));
    command
        .arg("compare")
        .arg(dir.join(a))
        .arg(dir.join(b))
        .args(more);
    finish(&mut command)
}

fn trials(dir: &Path) -> usize {
    let plan: Value = serde_json::from_slice(&fs::read(dir.join("plan.json")).unwrap()).unwrap();
    plan["trials"].as_array().unwrap().len()
}

#[test]
fn blocks_are_repeated_until_the_interval_is_narrow_and_continued_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(dir.path(), "out", &["--until", "±90%"]);
    let result = first.json();
    let stage = &result["fairness"][0];
    assert_eq!(stage["precision"]["met"], true, "{stage}");
    // Six blocks tell an interval at all; a busy machine may need more for a narrow one.
    let blocks = stage["precision"]["blocks"].as_u64().unwrap();
    assert!((6..20).contains(&blocks), "{stage}");
    assert_eq!(stage["twins"].as_u64(), Some(1));
    let planned = trials(&dir.path().join("out"));
    assert_eq!(planned as u64, 2 * blocks);
    assert!(first.stderr.contains("precision: "), "{}", first.stderr);
    // Its last trial is lost, as after a crash: one is owed, and no block more.
    let last = format!("out/trials/{:04}", planned - 1);
    fs::remove_dir_all(dir.path().join(last)).unwrap();
    let again = run(dir.path(), "out", &["--continue"]);
    assert!(
        again.stderr.contains(&format!("[{planned}/{planned}]"))
            && !again
                .stderr
                .contains(&format!("[{}/{planned}]", planned - 1)),
        "{}",
        again.stderr
    );
    assert_eq!(trials(&dir.path().join("out")), planned);
    // Nothing is slower than itself, and with half of the answers it is.
    let same = compare(dir.path(), "out", "out", &[]);
    assert_eq!(same.code, Some(0), "{}{}", same.stdout, same.stderr);
    assert!(
        same.stdout.starts_with("no difference seen"),
        "{}",
        same.stdout
    );
    let json = compare(dir.path(), "out", "out", &["--json", "--threshold", "5%"]);
    assert_eq!(json.json()["outcome"], "no_difference");
    slow_down(&dir.path().join("out"), &dir.path().join("slower"));
    let slower = compare(dir.path(), "out", "slower", &["--threshold", "20%"]);
    assert_eq!(slower.code, Some(1), "{}{}", slower.stdout, slower.stderr);
    assert!(
        slower.stdout.starts_with("regression: "),
        "{}",
        slower.stdout
    );
    let back = compare(dir.path(), "slower", "out", &["--threshold", "20%"]);
    assert_eq!(back.code, Some(0), "{}{}", back.stdout, back.stderr);
}

/// A copy of a record in which half of the answers came.
fn slow_down(from: &Path, to: &Path) {
    for name in [
        "manifest.json",
        "plan.json",
        "experiment.toml",
        "environment.json",
    ] {
        fs::create_dir_all(to).unwrap();
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    for trial in fs::read_dir(from.join("trials")).unwrap() {
        let trial = trial.unwrap().path();
        let copy = to.join("trials").join(trial.file_name().unwrap());
        fs::create_dir_all(&copy).unwrap();
        fs::copy(trial.join("series.json"), copy.join("series.json")).unwrap();
        let mut record: Value =
            serde_json::from_slice(&fs::read(trial.join("trial.json")).unwrap()).unwrap();
        let requests = &mut record["outcome"]["requests"];
        for count in ["scheduled", "sent", "completed", "succeeded"] {
            requests[count] = Value::from(requests[count].as_u64().unwrap() / 2);
        }
        fs::write(copy.join("trial.json"), record.to_string()).unwrap();
    }
}

#[test]
fn a_directory_without_a_record_is_a_mistake_of_usage() {
    let dir = tempfile::tempdir().unwrap();
    let missing = compare(dir.path(), "a", "b", &[]);
    assert_eq!(
        missing.code,
        Some(2),
        "{}{}",
        missing.stdout,
        missing.stderr
    );
}

/// A gate that cannot judge fails, and says why.
#[test]
fn records_with_nothing_in_common_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/tools");
    for name in ["wrk", "vmstat"] {
        let mut command = prony(&dir.path().join("state"));
        command
            .args(["import", "auto"])
            .arg(texts.join(format!("{name}.txt")));
        command.args(["--level", &format!("tool={name}")]);
        let imported = finish(command.arg("--out").arg(dir.path().join(name)));
        assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    }
    let found = compare(dir.path(), "wrk", "vmstat", &[]);
    assert_eq!(found.code, Some(3), "{}{}", found.stdout, found.stderr);
    assert!(
        found.stdout.starts_with("NOT COMPARABLE: "),
        "{}",
        found.stdout
    );
}
