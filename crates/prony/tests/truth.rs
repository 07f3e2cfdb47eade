//! Known-answer systems: servers whose rate, latency or counts are known before they are loaded. What
//! `prony load` says of them must be that.
//!
//! Bounds are wide where time is involved: they tell a true answer from a wrong one, not a fast host from
//! a slow one.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

mod common;

use common::{Finished, Origin, finish, prony};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One load at a time: two would take the CPU from each other, and prony would rightly say so.
static ALONE: Mutex<()> = Mutex::new(());

fn load(state: &Path, args: &[&str]) -> Finished {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    finish(prony(state).args(["load", "--json"]).args(args))
}

/// The document of a load that must be valid.
fn valid(state: &Path, args: &[&str]) -> Value {
    let finished = load(state, args);
    assert_eq!(
        finished.code,
        Some(0),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    let document = finished.json();
    assert_eq!(document["verdict"]["valid"], true, "{document}");
    document
}

fn count(document: &Value, group: &str, name: &str) -> u64 {
    document[group][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {group}.{name} in {document}"))
}

fn latency_ms(document: &Value, kind: &str, quantile: &str) -> f64 {
    document["latency_ns"][kind][quantile].as_f64().unwrap() / 1e6
}

/// A counter of the origin, over all its threads. The question itself comes over a connection of its own.
fn origin_counter(state: &Path, origin: &Origin, name: &str) -> u64 {
    let url = format!("{}/stats", origin.url);
    let answer = Command::new("curl")
        .args(["-s", "--max-time", "20", &url])
        .env("HOME", state)
        .output()
        .unwrap();
    let stats: Value = serde_json::from_slice(&answer.stdout).unwrap();
    stats["total"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no total.{name} in {stats}"))
}

#[test]
fn a_freeze_is_seen_by_those_who_had_to_wait() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &["--freeze", "200ms/2s"]);
    let args = [&origin.url, "-R", "500", "-c", "10", "-d", "6s"];
    // Whether such a server's load is valid is not the question here.
    let document = load(state.path(), &args).json();
    // A tenth of the requests comes due in a freeze, spread evenly: the slowest hundredth of all waits
    // for 180 ms and more, half of them not at all.
    let p99 = latency_ms(&document, "response", "p99");
    assert!((120.0..=400.0).contains(&p99), "{document}");
    assert!(latency_ms(&document, "response", "p50") < 20.0);
    // From the send, at most ten of a hundred requests in a freeze are seen to wait: 1 % of all would be
    // the p99. The quantile below shows what a generator hides that waits for the server.
    let (response, service) = (
        latency_ms(&document, "response", "p95"),
        latency_ms(&document, "service", "p95"),
    );
    assert!(
        response > 60.0 && service < response / 4.0,
        "{response} {service}"
    );
    let sent = count(&document, "requests", "sent");
    let dropped = count(&document, "requests", "dropped");
    assert_eq!(sent, count(&document, "requests", "scheduled") - dropped);
    assert_eq!(sent + dropped, 3_000);
}

#[test]
fn a_closed_loop_is_as_fast_as_its_connections_and_the_delay_allow() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &["--delay", "constant:20ms"]);
    let document = valid(state.path(), &[&origin.url, "-c", "4", "-d", "2s"]);
    // Little's law: 4 connections / 20 ms.
    let achieved = document["rate_per_s"]["achieved"].as_f64().unwrap();
    assert!((150.0..=200.5).contains(&achieved), "{achieved}");
    assert_eq!(document["verdict"]["limit"], "offered_load", "{document}");
    assert!(latency_ms(&document, "response", "min") >= 20.0);
}

#[test]
fn an_open_loop_that_the_server_can_follow_gets_what_it_offers() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let args = [&origin.url, "-R", "200", "-d", "2s"];
    // On a host whose CPUs are taken, the true answer is that the generator was late: ask again. A plain thread
    // says whether they were; what is taken of one of two cores for a moment may meet the load alone.
    let mut late_alone = 0;
    for _ in 0..6 {
        let (met, woken_late) = beside_a_sleeper(|| load(state.path(), &args));
        let document = met.json();
        let limit = &document["verdict"]["limit"];
        assert!(limit == "offered_load" || limit == "generator", "{limit}");
        assert_eq!(document["rate_per_s"]["offered"], 200.0);
        let achieved = document["rate_per_s"]["achieved"].as_f64().unwrap();
        assert!((196.0..=204.0).contains(&achieved), "{achieved}");
        assert_eq!(count(&document, "requests", "scheduled"), 400);
        if limit == "offered_load" {
            assert_eq!(met.code, Some(0), "{}", met.stdout);
            return;
        }
        assert_eq!(met.code, Some(3), "{}", met.stdout);
        late_alone += u32::from(woken_late < WOKEN_LATE);
        assert!(
            late_alone < LATE_ALONE,
            "{woken_late} of a plain thread's waits, and {document}"
        );
    }
}

/// Loads that are late while a plain thread is not: so many are the generator's own.
const LATE_ALONE: u32 = 3;
/// A load's p99 is late where at least so many of a plain thread's waits are.
const WOKEN_LATE: f64 = 0.01;

/// What `work` gave, and the share of waits of a thread beside it that ended more than half a millisecond late.
fn beside_a_sleeper<T>(work: impl FnOnce() -> T) -> (T, f64) {
    const WAIT: Duration = Duration::from_millis(2);
    const LATE: Duration = Duration::from_micros(500);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let (mut waits, mut late) = (0.0, 0.0);
            while !is_over.load(Relaxed) {
                let since = Instant::now();
                std::thread::sleep(WAIT);
                waits += 1.0;
                late += f64::from(u8::from(since.elapsed() > WAIT + LATE));
            }
            late / waits
        });
        let done = work();
        is_over.store(true, Relaxed);
        (done, sleeper.join().unwrap())
    })
}

#[test]
fn connections_are_opened_as_often_as_the_policy_says() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let args = ["-n", "203", "-c", "1", "--requests-per-connection", "5"];
    let document = valid(state.path(), &[&[origin.url.as_str()], &args[..]].concat());
    assert_eq!(count(&document, "requests", "completed"), 203);
    // 203 = 40 x 5 + 3.
    assert_eq!(count(&document, "connections", "opened"), 41);
    let asking = 1;
    assert_eq!(
        origin_counter(state.path(), &origin, "accepted"),
        41 + asking
    );
}

#[test]
fn a_number_of_requests_is_sent_exactly() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    // A generator without optimisation may be the limit of so short a load; its counts are exact all the same.
    let finished = load(state.path(), &[&origin.url, "-n", "1000", "-c", "7"]);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let document = finished.json();
    for name in ["scheduled", "sent", "completed", "succeeded"] {
        assert_eq!(count(&document, "requests", name), 1_000, "{name}");
    }
    assert_eq!(count(&document, "connections", "peak_open"), 7);
    assert_eq!(origin_counter(state.path(), &origin, "requests"), 1_000);
}

#[test]
fn bodies_arrive_whole() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("body");
    std::fs::write(&file, vec![b'x'; 70_000]).unwrap();
    let file = file.to_str().unwrap();
    for (flag, body, bytes) in [
        ("--body", "twelve bytes", 12_u64),
        ("--body-file", file, 70_000),
    ] {
        let origin = Origin::start(state.path(), &[]);
        let url = format!("{}/upload", origin.url);
        let args = [&url, "-m", "POST", flag, body, "-n", "50", "-c", "3"];
        let document = valid(state.path(), &args);
        assert_eq!(count(&document, "requests", "succeeded"), 50, "{flag}");
        let received = origin_counter(state.path(), &origin, "upload_bytes");
        assert_eq!(received, 50 * bytes, "{flag}");
    }
}

// ---- HTTPS, against nginx ----

/// A copy of nginx of our own in a directory of its own, ended on drop.
struct Nginx {
    child: Child,
    url: String,
}

impl Nginx {
    fn start(home: &Path) -> Self {
        certificate(home);
        // Closed before nginx opens it; should somebody else take it first, nginx says so and ends.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let config = format!(
            "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 64; }}\n\
             http {{\n\
             access_log off; client_body_temp_path t1; proxy_temp_path t2;\n\
             fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate cert.pem;\n\
             ssl_certificate_key key.pem; ssl_session_cache shared:s:1m;\n\
             location / {{ return 200 ok; }} }} }}\n"
        );
        std::fs::write(home.join("nginx.conf"), config).unwrap();
        let mut child = Command::new("nginx")
            .args(["-p", home.to_str().unwrap(), "-c", "nginx.conf"])
            .args(["-e", "error.log"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        common::wait_until("nginx listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "nginx has ended");
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Nginx {
            child,
            url: format!("https://127.0.0.1:{port}/"),
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGTERM, so that the master ends its worker too.
        common::signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

fn certificate(home: &Path) {
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .args([
            "-subj",
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .current_dir(home)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}

/// HTTPS is about real servers; where none is installed, there is nothing to test.
fn has(program: &str, flag: &str) -> bool {
    Command::new(program)
        .arg(flag)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn https_is_refused_without_trust_and_counted_with_it() {
    assert!(
        has("nginx", "-v") && has("openssl", "version"),
        "this test needs nginx and openssl: apt-get install nginx openssl (make test does)"
    );
    let state = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(home.path());
    let untrusted = load(state.path(), &[&nginx.url, "-n", "5", "-c", "1"]);
    assert_eq!(untrusted.code, Some(3), "{}", untrusted.stderr);
    let document = untrusted.json();
    assert_eq!(document["requests"]["failed"]["tls"], 5, "{document}");
    assert_eq!(count(&document, "requests", "succeeded"), 0);

    let kept = ["--insecure", "-n", "50", "-c", "2"];
    let document = valid(state.path(), &[&[nginx.url.as_str()], &kept[..]].concat());
    assert_eq!(document["connections"]["alpn"], "http/1.1", "{document}");
    assert_eq!(count(&document, "requests", "succeeded"), 50);
    assert_eq!(count(&document, "connections", "tls_full"), 2);

    let each = [
        "--insecure",
        "-n",
        "20",
        "-c",
        "1",
        "--requests-per-connection",
        "1",
    ];
    let document = valid(state.path(), &[&[nginx.url.as_str()], &each[..]].concat());
    let full = count(&document, "connections", "tls_full");
    let resumed = count(&document, "connections", "tls_resumed");
    assert_eq!(full + resumed, 20);
    assert!(resumed > 0, "{document}");
}
