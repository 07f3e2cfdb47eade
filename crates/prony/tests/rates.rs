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

#[test]
fn listed_arrivals_come_when_the_file_says() {
    let state = tempfile::tempdir().unwrap();
    let (url, came) = stamps();
    let list = state.path().join("times");
    // 100 at once, a pause, 50 evenly: in the file four times as slow.
    let late = (0..50).map(|i| format!("{}\n", 1_700_000_004.0 + f64::from(i) * 0.04));
    let times = "1700000000.0\n".repeat(100) + &late.collect::<String>();
    std::fs::write(&list, times).unwrap();
    let list = list.to_str().unwrap();
    let flags = ["--json", "-c", "8", "-t", "3", "--arrivals", list];
    let flags = [&flags[..], &["--speed", "4", &url]].concat();
    let document = load(state.path(), &flags).json();
    assert_eq!(document["requests"]["scheduled"], 150, "{document}");
    assert_eq!(document["asked"]["arrival"], "listed");
    assert_eq!(document["replay"]["requests"], 150);
    let offered = document["rate_per_s"]["offered"].as_f64().unwrap();
    let measured_s = document["asked"]["duration_s"].as_f64().unwrap();
    assert!((offered * measured_s - 150.0).abs() < 1e-6, "{document}");
    let mut came = came.lock().unwrap().clone();
    came.sort_unstable();
    let came = &came[came.len() - 150..];
    let since = |n: usize| (came[n] - came[0]).as_secs_f64();
    // The middle of each group, with a tolerance for a busy machine.
    assert!(since(50) < 0.4, "{}", since(50));
    assert!((since(125) - 1.25).abs() < 0.4, "{}", since(125));

    std::fs::write(list, "1\n2\nsoon\n").unwrap();
    let refused = load(state.path(), &["--arrivals", list, &url]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("line 3 is \"soon\""),
        "{}",
        refused.stderr
    );
    let refused = load(state.path(), &["--speed", "2", &url]);
    assert!(refused.stderr.contains("--arrivals"), "{}", refused.stderr);
}

#[test]
fn an_access_log_is_replayed_with_its_requests_and_its_statuses() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let line = |second: u32, request: &str, status: u16| {
        format!(
            "::1 - - [31/Dec/2025:23:59:{second:02} +0100] \"{request}\" {status} 7 \"-\" \"a \\\"b\\\"\"\n"
        )
    };
    let mut log = String::new();
    for second in 50..54 {
        for _ in 0..20 {
            log += &line(second, "GET /bytes/7?a HTTP/1.1", 200);
        }
        log += &line(second, "HEAD / HTTP/2.0", 200);
        log += &line(second, "GET /status/404 HTTP/1.1", 404);
        log += &line(second, "POST /upload HTTP/1.1", 200);
        log += &line(second, "DELETE / HTTP/1.1", 200);
        log += &line(second, "CONNECT a:443 HTTP/1.1", 405);
        log += "nonsense\n";
    }
    let file = state.path().join("access.log");
    std::fs::write(&file, log).unwrap();
    let file = file.to_str().unwrap();
    let flags = [
        "-c",
        "8",
        "-t",
        "2",
        "--replay",
        file,
        "--speed",
        "4",
        &origin.url,
    ];
    let document = load(state.path(), &[&["--json"], &flags[..]].concat()).json();
    assert_eq!(document["requests"]["scheduled"], 88, "{document}");
    let replay = &document["replay"];
    let left_out = serde_json::json!({"malformed": 4, "connect": 4, "body": 4, "unsafe": 4});
    assert_eq!(replay["left_out"], left_out);
    assert_eq!(
        replay["recorded_status"],
        serde_json::json!({"200": 84, "404": 4})
    );
    assert_eq!(replay["distinct"], 3);
    // Those that a busy machine drops are not answered; none is answered otherwise than it was recorded.
    let answered = |status: &str| document["status"][status].as_u64().unwrap_or(0);
    let dropped = document["requests"]["dropped"].as_u64().unwrap();
    assert_eq!(
        answered("200") + answered("404") + dropped,
        88,
        "{document}"
    );
    assert!(
        document["requests"]["failed"]["status_4xx"].is_null(),
        "{document}"
    );
    let sent = |i: usize| document["by_request"][i]["sent"].as_u64().unwrap();
    assert_eq!(sent(0) + sent(1) + sent(2) + dropped, 88);
    assert!(sent(1) <= 4 && sent(2) <= 4, "{document}");
    let text = load(state.path(), &flags).stdout;
    for said in [
        "status recorded  200: 84, 404: 4",
        "status answered",
        "whose body is not in the log: 4",
        "as listed",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let all = [&["--json", "--replay-unsafe", "-n", "30"], &flags[..]].concat();
    let document = load(state.path(), &all).json();
    assert_eq!(document["requests"]["scheduled"], 30, "{document}");
    assert_eq!(document["replay"]["requests"], 30);
    assert!(document["replay"]["left_out"]["unsafe"].is_null());
    let refused = load(state.path(), &["-R", "9", "--replay", file, &origin.url]);
    assert!(refused.stderr.contains("--rate"), "{}", refused.stderr);
}
