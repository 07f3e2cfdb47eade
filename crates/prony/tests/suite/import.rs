//! `prony import`: results of other tools become records that `report` and `compare` take, and what is none is named.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, finish, prony};
use std::path::Path;

/// A result of wrk with this rate; its count fits.
fn wrk(per_s: u32, p99: &str) -> String {
    format!(
        "Running 10s test @ http://127.0.0.1:8080/\n  2 threads and 64 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.10ms    2.10ms  30.00ms   90.00%\n    Req/Sec    10.00k     1.00k   12.00k    70.00%\n  Latency Distribution\n     50%  900.00us\n     99%   {p99}\n  {}0 requests in 10.00s, 100.00MB read\nRequests/sec:  {per_s}.00\nTransfer/sec:     10.00MB\n",
        per_s
    )
}

fn import(directory: &Path, args: &[&str]) -> Finished {
    finish(
        prony(directory)
            .current_dir(directory)
            .arg("import")
            .args(args),
    )
}

#[test]
fn imported_records_are_reported_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), wrk(20_000, "5.00ms")).unwrap();
    std::fs::write(dir.path().join("b.txt"), wrk(25_000, "4.00ms")).unwrap();
    let one = import(
        dir.path(),
        &["wrk", "a.txt", "--out", "a", "--level", "build=old"],
    );
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(one.stdout.contains("20,000.00"), "{}", one.stdout);
    let two = import(
        dir.path(),
        &[
            "auto",
            "b.txt",
            "--out",
            "b",
            "--level",
            "build=new",
            "--json",
        ],
    );
    let document = two.json();
    assert_eq!(document["results"][0]["levels"]["build"], "new");
    assert_eq!(document["left_out"], serde_json::json!([]));
    // A record is never overwritten.
    let again = import(dir.path(), &["wrk", "a.txt", "--out", "a"]);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    let verb = |args: &[&str]| finish(prony(dir.path()).current_dir(dir.path()).args(args));
    let compared = verb(&["compare", "a", "b"]);
    assert!(
        compared.stdout.contains("25,000.00 (+25.0 %)"),
        "{}{}",
        compared.stdout,
        compared.stderr
    );
    assert!(
        compared.stdout.contains("4.00ms (-20.0 %"),
        "{}",
        compared.stdout
    );
    let report = verb(&["report", "a"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    assert!(
        report
            .stdout
            .contains("Reported by wrk and not measured here"),
        "{}",
        report.stdout
    );
    let page = std::fs::read_to_string(dir.path().join("a/report.html")).unwrap();
    assert!(page.contains("Reported by other tools") && page.contains("20,000.00"));
}

#[test]
fn several_files_are_cases_or_repeats() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rate) in [
        ("old1", 20_000),
        ("old2", 20_400),
        ("new1", 25_000),
        ("new2", 25_500),
    ] {
        let file = dir.path().join(format!("{name}.txt"));
        std::fs::write(file, wrk(rate, "5.00ms")).unwrap();
    }
    let files = ["old1.txt", "old2.txt", "new1.txt", "new2.txt"];
    let mut args = vec!["wrk"];
    args.extend(files);
    let maps = ["old1=old", "old2=old", "new1=new", "new2=new"].map(|m| ["--map", m]);
    args.extend(maps.iter().flatten());
    args.extend(["--factor", "build", "--out", "r", "--json"]);
    let found = import(dir.path(), &args);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let run = finish(
        prony(dir.path())
            .current_dir(dir.path())
            .args(["report", "r", "--json"]),
    );
    let document = run.json();
    let cells = document["comparisons"].as_array().unwrap();
    assert_eq!(cells.len(), 2);
    assert_eq!(cells[1]["achieved_per_s"]["median"], 25_250.0);
    // Two pairs span no interval.
    assert_eq!(cells[1]["rate_ratio"], serde_json::Value::Null);
    assert_eq!(cells[1]["no_ratio"], "2 pairs of 3");
}

#[test]
fn what_cannot_be_imported_exits_2_with_cause_and_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let whole = wrk(20_000, "5.00ms");
    let cut = whole.split("Requests/sec").next().unwrap();
    for (name, content, format, cause, remedy) in [
        ("empty", "", "auto", "is empty", "standard output"),
        ("binary", "wrk\0", "auto", "not a text", "text"),
        (
            "notes",
            "we ran wrk once\n",
            "auto",
            "to line 1",
            "one of auto, ab",
        ),
        ("cut", cut, "wrk", "lines 1 to 9", "copy the whole result"),
        (
            "other",
            &whole,
            "ab",
            "line 1 begins one of wrk",
            "prony import wrk",
        ),
        (
            "typo",
            &whole,
            "wkr",
            "did you mean `wrk",
            "one of auto, ab",
        ),
    ] {
        std::fs::write(dir.path().join(name), content).unwrap();
        let found = import(dir.path(), &[format, name]);
        assert_eq!(
            found.code,
            Some(2),
            "{name}: {}{}",
            found.stdout,
            found.stderr
        );
        for words in [cause, remedy] {
            assert!(
                found.stderr.contains(words),
                "{name}: `{words}` not in {}",
                found.stderr
            );
        }
    }
    let missing = import(dir.path(), &["wrk", "nowhere.txt"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("nowhere.txt"), "{}", missing.stderr);
}
