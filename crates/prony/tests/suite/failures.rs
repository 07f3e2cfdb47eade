//! The failure table: what a load says and which code it exits with when things are wrong.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, Origin, finish, holds_no_number, prony};
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

fn load(state: &Path, args: &[&str]) -> Finished {
    finish(prony(state).arg("load").args(args))
}

/// The text form names the cause first; the JSON form has no rate and no latency.
fn assert_invalid(state: &Path, args: &[&str], kind: &str, words: &str) {
    let text = load(state, args);
    assert_eq!(text.code, Some(3), "{}{}", text.stdout, text.stderr);
    let first = text.stdout.lines().next().unwrap_or_default();
    assert!(first.contains("NOT VALID"), "first line: {first}");
    assert!(
        text.stdout.contains(words),
        "`{words}` not in: {}",
        text.stdout
    );
    for never in ["NaN", "nan", "inf "] {
        assert!(!text.stdout.contains(never), "{never} in {}", text.stdout);
    }
    let json_args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let json = load(state, &json_args);
    assert_eq!(json.code, Some(3));
    let document = json.json();
    assert_eq!(document["verdict"]["valid"], false);
    assert!(
        document["requests"]["failed"][kind].as_u64().unwrap() > 0,
        "{document}"
    );
    assert!(document["rate_per_s"]["achieved"].is_null());
    assert!(holds_no_number(&document["latency_ns"]["response"]));
}

#[test]
fn nothing_listens() {
    let state = tempfile::tempdir().unwrap();
    // Bound and closed again: nothing listens there now.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}/");
    assert_invalid(
        state.path(),
        &[&url, "-d", "500ms"],
        "connect_refused",
        "refused",
    );
}

#[test]
fn every_answer_is_a_500() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let url = format!("{}/status/500", origin.url);
    assert_invalid(state.path(), &[&url, "-d", "500ms"], "status5xx", "500");
}

#[test]
fn it_accepts_and_never_answers() {
    let state = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let args = [&url, "-c", "3", "-d", "700ms", "--timeout", "300ms"];
    assert_invalid(state.path(), &args, "timeout", "timeout");
}

#[test]
fn it_closes_without_an_answer() {
    let state = tempfile::tempdir().unwrap();
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", closing.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in closing.incoming() {
            // Reading the request first makes the close orderly instead of a reset.
            let _ = stream.and_then(|mut s| s.read(&mut [0; 4096]));
        }
    });
    assert_invalid(
        state.path(),
        &[&url, "-d", "500ms"],
        "closed_early",
        "closed",
    );
}

#[test]
fn a_server_that_ends_in_the_middle_is_named() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let url = origin.url.clone();
    let mut child = prony(state.path())
        .args(["load", &url, "-d", "2s", "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    crate::common::wait_until("the load holds connections", || {
        let sockets = std::fs::read_dir(format!("/proc/{}/fd", child.id())).map(Iterator::count);
        sockets.is_ok_and(|n| n > 10) || child.try_wait().unwrap().is_some()
    });
    drop(origin);
    let finished = crate::common::finish_child(child);
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    assert_eq!(finished.json()["verdict"]["valid"], false);
}

#[test]
fn bad_command_lines_exit_2_and_name_the_place() {
    let state = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&["htp://127.0.0.1:1/"][..], "htp"),
        (&["http://"][..], "http://"),
        (
            &["--conections", "3", "http://127.0.0.1:1/"][..],
            "--connections",
        ),
        (&["-d", "fast", "http://127.0.0.1:1/"][..], "fast"),
        (&["-c", "0", "http://127.0.0.1:1/"][..], "at least 1"),
    ] {
        let finished = load(state.path(), args);
        assert_eq!(finished.code, Some(2), "{args:?}: {}", finished.stderr);
        assert!(
            finished.stderr.contains(words),
            "{args:?}: {}",
            finished.stderr
        );
    }
}

#[test]
fn more_connections_than_descriptors_is_said_before_the_load() {
    let state = tempfile::tempdir().unwrap();
    let finished = load(state.path(), &["-c", "50M", "http://127.0.0.1:1/"]);
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    assert!(finished.stderr.contains("50000000"), "{}", finished.stderr);
    assert!(finished.stderr.contains("remedy:"), "{}", finished.stderr);
}

#[test]
fn an_address_that_is_taken_names_it() {
    let state = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let finished = finish(prony(state.path()).args(["origin", "--listen", &address]));
    assert_eq!(finished.code, Some(4));
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
}

#[test]
fn a_duration_beyond_any_clock_is_refused() {
    let state = tempfile::tempdir().unwrap();
    for args in [["-d", "99999999h"], ["--warmup", "99999999h"]] {
        let refused = load(
            state.path(),
            &[&["http://127.0.0.1:9/"][..], &args].concat(),
        );
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused
                .stderr
                .contains("the longest that is taken is 8760 hours")
        );
    }
}
