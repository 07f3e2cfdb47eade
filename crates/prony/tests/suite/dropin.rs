//! `prony ab`, `wrk`, `wrk2` and `weighttp` against a server: the tools' own lines, exit codes and refusals, and beside
//! the tools themselves where they are installed.

use crate::common::{Finished, Origin, finish, prony};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

fn run(state: &Path, tool: &str, flags: &str, url: &str) -> Finished {
    let flags = flags.split_whitespace();
    finish(prony(state).arg(tool).args(flags).arg(url))
}

/// What a tool of this host prints; `None` where it is not installed.
fn real(tool: &str, flags: &str, url: &str) -> Option<String> {
    let mut command = Command::new(tool);
    command.args(flags.split_whitespace()).arg(url);
    let output = command.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What stands before the colon of a line, and the words of a table's head: everything but values.
fn fields(text: &str) -> BTreeSet<String> {
    let field = |line: &str| match line.split_once(':') {
        Some((name, _)) => Some(name.trim().to_owned()),
        None => {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_name = |w: &&&str| !w.chars().any(|c| c.is_ascii_digit()) || w.ends_with('%');
            let names: Vec<&str> = words.iter().filter(is_name).copied().collect();
            (!names.is_empty()).then(|| names.join(" "))
        }
    };
    text.lines().filter_map(field).collect()
}

#[test]
fn abs_fields_are_all_there_in_its_order() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    for flags in [
        "-q -n 200 -c 4",
        "-q -k -n 200 -c 4",
        "-q -i -n 20",
        "-q -S -d -n 20",
        "-q -l -n 20",
    ] {
        let ours = run(dir.path(), "ab", flags, &origin.url);
        assert_eq!(ours.code, Some(0), "{}", ours.stderr);
        assert!(ours.stderr.starts_with("prony: "), "{}", ours.stderr);
        let own = fields(&ours.stdout);
        assert!(own.contains("Requests per second"), "{}", ours.stdout);
        let Some(theirs) = real("ab", flags, &origin.url) else {
            continue;
        };
        let its = fields(&theirs);
        // Its own name and licence, its progress, and doubts that depend on the values.
        let about_itself = |f: &&String| {
            let words = [
                "ApacheBench",
                "Copyright",
                "Licensed",
                "Benchmarking",
                "ERROR",
                "WARNING",
                "deviation",
                "not that reliable",
            ];
            !words.iter().any(|w| f.contains(w))
        };
        let missing: Vec<_> = its.difference(&own).filter(about_itself).collect();
        let more: Vec<_> = own.difference(&its).filter(about_itself).collect();
        assert!(
            missing.is_empty() && more.is_empty(),
            "{flags}: {missing:?} {more:?}\n{theirs}"
        );
    }
}

#[test]
fn wrks_fields_are_all_there() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    let flags = "-t2 -c4 -d1 --latency";
    let ours = run(dir.path(), "wrk", flags, &origin.url);
    assert_eq!(ours.code, Some(0), "{}", ours.stderr);
    assert!(ours.stderr.starts_with("prony: "), "{}", ours.stderr);
    assert!(
        ours.stdout
            .starts_with(&format!("Running 1s test @ {}", origin.url))
    );
    assert!(ours.stdout.contains("\n  2 threads and 4 connections\n"));
    for line in [
        "    Latency  ",
        "    Req/Sec  ",
        "  Latency Distribution\n     50%",
        "\nTransfer/sec: ",
    ] {
        assert!(ours.stdout.contains(line), "{line}: {}", ours.stdout);
    }
    if let Some(theirs) = real("wrk", flags, &origin.url) {
        let names = |text: &str| -> Vec<String> {
            let letters = |line: &str| {
                let words = line.split_whitespace();
                let is_name = |w: &&str| {
                    !w.starts_with(|c: char| c.is_ascii_digit())
                        || w.ends_with('%') && !w.contains('.')
                };
                words.filter(is_name).collect::<Vec<_>>().join(" ")
            };
            text.lines().map(letters).collect()
        };
        assert_eq!(names(&ours.stdout), names(&theirs), "{theirs}");
    }
    let errors = run(
        dir.path(),
        "wrk",
        "-t1 -c2 -d1",
        &format!("{}status/404", origin.url),
    );
    assert_eq!(errors.code, Some(0), "wrk exits with 0");
    assert!(
        errors.stderr.starts_with("prony: NOT VALID: "),
        "{}",
        errors.stderr
    );
    assert!(errors.stdout.contains("  Non-2xx or 3xx responses: "));
}

#[test]
fn wrk2_and_weighttp_print_their_lines() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    let wrk2 = run(dir.path(), "wrk2", "-t1 -c4 -d1 -R200 -U", &origin.url);
    assert_eq!(wrk2.code, Some(0), "{}", wrk2.stderr);
    for line in [
        "  Thread calibration: mean lat.: ",
        "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%",
        "  Latency Distribution (HdrHistogram - Uncorrected Latency",
        "       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
        "#[Max     = ",
    ] {
        assert!(wrk2.stdout.contains(line), "{line}: {}", wrk2.stdout);
    }
    assert_eq!(
        run(dir.path(), "wrk2", "-d1", &origin.url).code,
        Some(1),
        "it must have a rate"
    );
    let text = run(dir.path(), "weighttp", "-n100 -c4 -t2 -k", &origin.url);
    assert!(text.stdout.contains("\nrequests: 100 total, 100 started, 100 done, 100 succeeded, 0 failed, 0 errored\nstatus codes: 100 2xx, 0 3xx, 0 4xx, 0 5xx\ntraffic: "), "{}", text.stdout);
    assert!(
        text.stdout.contains(", 102400 bytes data"),
        "{}",
        text.stdout
    );
    let json = run(dir.path(), "weighttp", "-n100 -c4 -q", &origin.url).json();
    assert_eq!(json["traffic"]["bytes_body"], 102_400);
    assert_eq!(
        json["connect_times"]["num"], 100,
        "a connection each without -k"
    );
}

#[test]
fn exit_codes_are_the_tools_and_refusals_are_ours() {
    let dir = tempdir().unwrap();
    let closed = "http://127.0.0.1:1/";
    for (tool, flags, url, code) in [
        ("ab", "-n 2", closed, 111),
        ("ab", "-n 2 -r", closed, 0),
        ("ab", "-n 2", "http://127.0.0.1:1", 22),
        ("ab", "-n 2 -X 127.0.0.1:2", closed, 2),
        ("wrk", "-d1 -c2", closed, 1),
        ("wrk", "-s x.lua", closed, 2),
        ("weighttp", "-F -n 1", closed, 2),
    ] {
        let ended = run(dir.path(), tool, flags, url);
        assert_eq!(
            ended.code,
            Some(code),
            "{tool} {flags} {url}: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{tool} {flags} {url}");
        assert!(ended.stderr.contains("remedy: "), "{}", ended.stderr);
    }
}

#[test]
fn what_each_prints_of_a_load_is_read_back_by_its_importer() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    for (tool, flags, connections) in [
        ("ab", "-q -k -n 200 -c 4", Some(4.0)),
        ("wrk", "-t1 -c4 -d1s --latency", Some(4.0)),
        ("wrk2", "-t1 -c4 -d1s -R500 --latency", Some(4.0)),
        // It does not print them.
        ("weighttp", "-n 200 -c 4 -k", None),
    ] {
        let printed = run(dir.path(), tool, flags, &origin.url);
        let file = dir.path().join(format!("{tool}.txt"));
        std::fs::write(&file, &printed.stdout).unwrap();
        let mut import = prony(dir.path());
        import.args(["import", "auto", "--json", "--out"]);
        let read = finish(import.arg(dir.path().join(tool)).arg(&file));
        assert_eq!(
            read.code,
            Some(0),
            "{tool}: {}\n{}",
            read.stderr,
            printed.stdout
        );
        let document = read.json();
        assert_eq!(document["left_out"], serde_json::json!([]), "{tool}");
        let reported = &document["results"][0]["reported"];
        assert_eq!(reported["tool"], tool);
        let figure = |name: &str, part: &str| {
            let figures = reported["figures"].as_array().unwrap().iter();
            let mut named = figures.filter(|figure| figure["name"] == name);
            named.next().map(|figure| figure[part].as_f64().unwrap())
        };
        let value = |name: &str| figure(name, "value");
        assert_eq!(value("connections"), connections, "{tool}");
        let (requests, duration_s) = (value("requests").unwrap(), value("duration_s").unwrap());
        let rate = value("rate_per_s").unwrap();
        // A short load's time is printed in whole milliseconds: the rate tells it better.
        let rounding_s = figure("duration_s", "rounding").unwrap();
        let apart_s = (requests / rate - duration_s).abs();
        assert!(
            apart_s < 0.01 * duration_s + rounding_s,
            "{tool}: {reported}"
        );
        if tool != "wrk" && tool != "wrk2" {
            assert_eq!(
                (requests, value("failed.all")),
                (200.0, Some(0.0)),
                "{tool}"
            );
        }
        if tool != "weighttp" {
            let [p50, p90, p99] = ["p50", "p90", "p99"].map(|q| value(&format!("latency_ns.{q}")));
            // ab's are whole milliseconds, of which there may be none.
            let rise = p50.is_some() && p50 <= p90 && p90 <= p99;
            assert!(rise, "{tool}: {reported}");
        }
    }
}

#[test]
fn abs_files_are_written() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    let (csv, tsv) = (dir.path().join("e.csv"), dir.path().join("g.tsv"));
    let flags = format!("-q -n 50 -c 2 -e {} -g {}", csv.display(), tsv.display());
    let ended = run(dir.path(), "ab", &flags, &origin.url);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
    assert_eq!((lines(&csv), lines(&tsv)), (102, 51));
}

#[test]
fn a_missed_service_level_is_exit_code_1_and_says_by_how_much() {
    let dir = tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let load = |slo: &str| {
        let flags = ["load", "-c", "2", "-d", "1s", "-R", "200", "--slo", slo];
        finish(prony(dir.path()).args(flags).arg(&origin.url))
    };
    let kept = load("p99<5s,errors<50%,rate>1");
    assert!(
        kept.stdout.starts_with("SLO kept: p99<5"),
        "{}{}",
        kept.stdout,
        kept.stderr
    );
    assert_ne!(kept.code, Some(1), "{}", kept.stdout);
    let missed = load("p50<1ns");
    assert!(
        missed.stdout.starts_with("SLO missed: p50<1"),
        "{}",
        missed.stdout
    );
    let is_valid = missed
        .stdout
        .lines()
        .nth(1)
        .is_some_and(|l| l.starts_with("valid"));
    assert_eq!(
        missed.code,
        Some(if is_valid { 1 } else { 3 }),
        "{}",
        missed.stdout
    );
    assert_eq!(load("p98<1ms").code, Some(2));
}

#[test]
fn a_load_is_written_in_other_tools_forms() {
    let dir = tempdir().unwrap();
    let mut origin = Origin::start(dir.path(), &[]);
    origin.url += "/";
    let out = |name: &str| dir.path().join(name);
    let flags = ["hdr", "csv", "series", "prometheus", "otlp", "json"];
    let flags = flags.map(|f| format!("--out={f}={}", out(f).display()));
    let mut command = prony(dir.path());
    command
        .args(["load", "-n", "300", "-c", "2", "--json"])
        .args(flags)
        .arg(&origin.url);
    let document = finish(&mut command).json();
    let text = |name: &str| std::fs::read_to_string(out(name)).unwrap();
    assert!(text("prometheus").contains("fate=\"succeeded\"} 300\n"));
    assert!(text("otlp").contains("prony.response.duration"));
    assert!(text("hdr").contains(document["histogram"].as_str().unwrap()));
    assert!(text("series").lines().count() > 1);
    let written: serde_json::Value = serde_json::from_str(&text("json")).unwrap();
    assert_eq!(written, document);
    let unknown = finish(prony(dir.path()).args(["load", "--out", "xls=x", &origin.url]));
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown.stderr.contains("known are hdr, "),
        "{}",
        unknown.stderr
    );
}
