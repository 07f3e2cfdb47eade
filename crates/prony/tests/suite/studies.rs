//! The tables of an experiment from a real run: nginx before the built-in origin, with two settings of its buffers.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{finish, prony};
use serde_json::Value;
use std::fs;

const EXPERIMENT: &str = r#"
question = "How many reads does an answer take?"
[target.backend]
origin = { body = "93067" }
[target.proxy]
adapter = "nginx"
template = "proxy.conf"
[factor]
buffers = ["128 4k", "4 128k"]
[load]
url = "http://proxy/"
connections = 4
[design]
baseline = { buffers = "128 4k" }
repeats = 1
measure = "400ms"
warmup = "100ms"
[[table]]
title = "Rates"
columns = "buffers"
figures = ["rate_per_s", "system_calls_per_request"]
[[table]]
title = "Calls"
kind = "calls"
target = "proxy"
columns = "buffers"
[[table]]
title = "Sizes"
kind = "sizes"
target = "proxy"
columns = "buffers"
"#;

const PROXY: &str = "worker_processes 1;
events { worker_connections 256; }
http {
    access_log off;
    proxy_buffers {{buffers}};
    upstream backend { server {{backend}}; keepalive 16; }
    server {
        listen {{listen}};
        location / {
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }
}
";

fn table<'a>(document: &'a Value, title: &str) -> &'a Value {
    let mut tables = document["tables"].as_array().unwrap().iter();
    let found = tables.find(|t| t["title"] == title);
    found.unwrap_or_else(|| panic!("no {title} in {}", document["tables"]))
}

fn row<'a>(table: &'a Value, name: &str) -> &'a Value {
    let mut rows = table["rows"].as_array().unwrap().iter();
    let found = rows.find(|r| r["names"][0] == name);
    found.unwrap_or_else(|| panic!("no {name} in {table}"))
}

#[test]
fn the_proxy_s_reads_are_counted_by_number_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    fs::write(file("experiment.toml"), EXPERIMENT).unwrap();
    fs::write(file("proxy.conf"), PROXY).unwrap();
    let run = finish(
        prony(&file("state"))
            .arg("run")
            .arg(file("experiment.toml"))
            .arg("--out")
            .arg(file("out"))
            .arg("--json"),
    );
    // 3 is right too: on a busy machine the figures may not be the server's own.
    assert!(matches!(run.code, Some(0 | 3)), "{}", run.stderr);
    let document = run.json();
    if document["diagnosed"]
        .as_array()
        .unwrap()
        .iter()
        .any(|d| d["tier"] == "proc")
    {
        return; // Without CAP_BPF or CAP_PERFMON nobody counts calls, and the notes say so.
    }
    let number = |row: &Value, i: usize| row["values"][i]["value"].as_f64().unwrap();
    let readv = row(table(&document, "Calls"), "readv");
    let (small, large) = (number(readv, 0), number(readv, 1));
    assert!(
        small > 15.0,
        "an answer of 91 KiB in buffers of 4 KiB: {readv}"
    );
    assert!(large < small / 4.0, "and in one of 128 KiB: {readv}");
    let sizes = table(&document, "Sizes");
    let mut rows = sizes["rows"].as_array().unwrap().iter();
    let full = rows.find(|r| r["names"] == serde_json::json!(["readv", "upstream", "4,096"]));
    assert!(full.is_some_and(|r| number(r, 0) > 15.0), "{sizes}");
    let calls = row(table(&document, "Rates"), "calls/req");
    assert!(number(calls, 0) > number(calls, 1));
    let change = calls["values"][1]["gain"]["change"].as_f64().unwrap();
    assert!((change - (number(calls, 1) / number(calls, 0) - 1.0)).abs() < 1e-9);

    let shown = finish(prony(&file("state")).arg("report").arg(file("out")));
    let head = "call         on               calls/req 128 4k  calls/req 4 128k";
    let found = shown.stdout.lines().any(|line| {
        let words = |s: &str| s.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        words(line).starts_with(&words(head))
    });
    assert!(found, "{}", shown.stdout);
}

#[test]
fn a_built_in_experiment_is_known_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = prony(&dir.path().join("state"));
        finish(command.current_dir(dir.path()).arg("run").args(words))
    };
    let plan = run(&["reuseport-threads", "--dry-run"]);
    assert_eq!(plan.code, Some(0), "{}", plan.stderr);
    assert!(
        plan.stdout.contains("several listening threads"),
        "{}",
        plan.stdout
    );
    let slip = run(&["proxy-buffer", "--dry-run"]);
    assert_eq!(slip.code, Some(2));
    assert!(
        slip.stderr.contains("did you mean `proxy-buffers`?"),
        "{}",
        slip.stderr
    );
}
