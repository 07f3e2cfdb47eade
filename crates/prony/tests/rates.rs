//! Rates that change, end to end: every piece has its number of requests, and they arrive when the integral says.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

mod common;

use common::{Finished, Origin, finish, prony};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

fn load(state: &Path, flags: &[&str]) -> Finished {
    finish(prony(state).args(["--quiet", "load"]).args(flags))
}

/// A server that writes down when each request has come.
fn stamps() -> (String, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let came = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&came);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let came = Arc::clone(&shared);
            thread::spawn(move || stamp(stream, &came));
        }
    });
    (url, came)
}

fn stamp(mut stream: TcpStream, came: &Mutex<Vec<Instant>>) {
    let reader = BufReader::new(stream.try_clone().unwrap());
    for line in reader.lines().map_while(Result::ok) {
        if line.is_empty() {
            came.lock().unwrap().push(Instant::now());
            let sent = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            if sent.is_err() {
                return;
            }
        }
    }
}

#[test]
fn every_piece_has_its_number_of_requests_and_its_figures() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let course = "100:1s,0:0.2s,100..500:1s";
    let flags = ["-c", "8", "-t", "2", "-R", course, &origin.url];
    let document = load(state.path(), &[&["--json"], &flags[..]].concat()).json();
    assert_eq!(document["requests"]["scheduled"], 400, "{document}");
    let pieces = document["by_piece"].as_array().unwrap();
    let number = |i: usize, name: &str| pieces[i][name].as_f64().unwrap();
    let due = [0, 1, 2].map(|i| number(i, "sent") + number(i, "dropped"));
    assert_eq!(due, [100.0, 0.0, 300.0], "{document}");
    let spans = [0, 1, 2].map(|i| (number(i, "begin_s"), number(i, "from_per_s")));
    assert_eq!(spans, [(0.0, 100.0), (1.0, 0.0), (1.2, 100.0)]);
    assert!(pieces[0]["response_ns"]["p99"].as_u64().unwrap() > 0);
    assert!(pieces[1]["rate_per_s"].is_null(), "a pause has no rate");
    let offered = document["rate_per_s"]["offered"].as_f64().unwrap();
    assert!((offered - 400.0 / 2.2).abs() < 1e-6, "{offered}");
    let warnings = document["warnings"].to_string();
    assert!(!warnings.contains("not_steady"), "{warnings}");
    let text = load(state.path(), &flags).stdout;
    for said in ["rate asked", "100:1s", "0:0.2s", "100..500:1s", course] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn requests_of_a_ramp_arrive_when_the_integral_of_the_rate_says() {
    let state = tempfile::tempdir().unwrap();
    let (url, came) = stamps();
    let flags = ["-c", "8", "-t", "2", "-R", "0..400", "-d", "1s", &url];
    let done = load(state.path(), &flags);
    let mut came = came.lock().unwrap().clone();
    came.sort_unstable();
    // What is asked of a server before a load is not of the schedule; it comes first.
    let scheduled = 200;
    assert!(came.len() >= scheduled, "{}: {}", came.len(), done.stdout);
    let came = &came[came.len() - scheduled..];
    // At 0..400 in a second, number n is due after sqrt(n / 200) seconds; half of them come in the last 0.3 s.
    let mut off: Vec<f64> = (0..scheduled)
        .map(|n| {
            let due_s = (n as f64 / 200.0).sqrt();
            (came[n] - came[0]).as_secs_f64() - due_s
        })
        .collect();
    off.sort_by(f64::total_cmp);
    // A tolerance for a busy machine: at a constant rate the middle one would come 0.2 s too early.
    let middle = off[scheduled / 2];
    assert!(middle.abs() < 0.1, "{middle} s off");
}
