//! Searches for a rate end to end, against `prony origin` whose capacity follows from arithmetic: connections over
//! delay.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

mod common;

use common::{Finished, Origin, finish, finish_child, prony, signal};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// With eight connections 400 requests a second.
const DELAY: &str = "20ms";
const CAPACITY: f64 = 400.0;
const STEP: [&str; 6] = ["-c", "8", "-d", "500ms", "--warmup", "200ms"];

/// One search at a time: they would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// Searches; again where others took the CPU, which says nothing of the search. `None` on a machine where they did all
/// the time, which a thread of the test's own has to have met too; what the steps say must hold even so.
fn search(state: &Path, origin: &Origin, flags: &[&str]) -> Option<Finished> {
    let over = AtomicBool::new(false);
    let (over, mut told) = (&over, Vec::new());
    let (done, late) = std::thread::scope(|scope| {
        let late = scope.spawn(move || late_wakes(over));
        let done = (0..6).find_map(|_| {
            let mut command = prony(state);
            command.args(["--quiet", "load", &origin.url]).args(STEP);
            let done = finish(command.args(flags).arg("--json"));
            if done.code != Some(3) {
                return Some(done);
            }
            told.push(done.json());
            None
        });
        over.store(true, Ordering::Relaxed);
        (done, late.join().unwrap())
    });
    for document in &told {
        let ended = document["search"]["ended"].as_str().unwrap();
        assert!(["disturbed", "steps", "budget"].contains(&ended), "{ended}");
        for step in steps(document) {
            let offered = step["offered_per_s"].as_f64().unwrap();
            assert!(step["held"] != true || offered < CAPACITY * 1.1, "{step}");
            assert!(!step["why"].as_str().unwrap().is_empty(), "{step}");
        }
    }
    assert!(done.is_some() || late >= 10, "disturbed, and {late} late");
    done
}

/// How often a thread that sleeps for a few milliseconds slept for twice as long.
fn late_wakes(over: &AtomicBool) -> usize {
    const PAUSE: Duration = Duration::from_millis(4);
    std::iter::from_fn(|| {
        let began = Instant::now();
        std::thread::sleep(PAUSE);
        (!over.load(Ordering::Relaxed)).then(|| began.elapsed())
    })
    .filter(|slept| *slept > 2 * PAUSE)
    .count()
}

fn steps(document: &Value) -> &Vec<Value> {
    document["search"]["steps"].as_array().unwrap()
}

#[test]
fn the_rate_that_connections_and_delay_make_is_found() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &["--delay", DELAY]);
    let flags = ["--find-max", "--slo", "p99<1s,errors<2%"];
    let Some(done) = search(dir.path(), &origin, &flags) else {
        return;
    };
    let document = done.json();
    let search = &document["search"];
    assert_eq!(done.code, Some(0), "{search}\n{}", done.stderr);
    let [low, high] =
        ["edge_low_per_s", "edge_high_per_s"].map(|end| search[end].as_f64().unwrap());
    // A busy machine makes it less, nothing makes it much more: short steps let a hundredth stay unanswered.
    assert!(
        high > CAPACITY * 0.5 && low < CAPACITY * 1.1,
        "{low} to {high}"
    );
    let held = search["highest_held_per_s"].as_f64().unwrap();
    assert!(held <= high && held > CAPACITY * 0.2, "{held}");
    // The document is that of the newest step at this rate.
    assert_eq!(document["rate_per_s"]["offered"].as_f64(), Some(held));
    assert_eq!(document["slo"]["broken"], Value::Array(Vec::new()));
    // From a tenth of the closed loop's rate; and what is said to hold has not held by luck.
    let first = steps(&document)[0]["offered_per_s"].as_f64().unwrap();
    let closed = search["closed_loop_per_s"].as_f64().unwrap();
    assert!((first / closed - 0.1).abs() < 0.01, "{first} of {closed}");
    let times = search["held_times"].as_u64().unwrap();
    assert!(search["ended"] != "narrow" || times >= 2, "{search}");
}

#[test]
fn a_level_that_the_lowest_rate_does_not_hold_exits_with_1() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &["--delay", DELAY]);
    let flags = ["--find-max", "--slo", "p99<5ms", "-R", "80"];
    let Some(done) = search(dir.path(), &origin, &flags) else {
        return;
    };
    assert_eq!(done.code, Some(1), "{}{}", done.stdout, done.stderr);
    let document = done.json();
    assert_eq!(document["search"]["found"], "not_held");
    assert_eq!(document["search"]["ended"], "lowest");
    let lowest = steps(&document).last().unwrap();
    assert_eq!(lowest["offered_per_s"].as_f64(), Some(5.0));
    let missed = document["slo"]["broken"][0].as_str().unwrap();
    assert!(missed.starts_with("p99<5.00ms: it was "), "{missed}");
}

#[test]
fn a_plan_is_said_without_a_load_and_what_makes_none_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let plan = |flags: &[&str]| {
        let mut command = prony(state);
        // Nobody listens there.
        command.args(["load", "http://127.0.0.1:1/", "--find-knee"]);
        finish(command.args(flags))
    };
    let dry = plan(&["--dry-run", "--budget", "2m"]);
    assert_eq!(dry.code, Some(0), "{}", dry.stderr);
    assert_eq!(
        dry.stdout,
        "search of the highest rate with p99 at most 10 times that at a low load: from a tenth of a closed loop's rate, \
         which is measured first, on 10 connections; at most 17 steps of 5.0 s after 1.0 s of warm-up; at most 1 min 57 s in all\n"
    );
    let json = plan(&["--dry-run", "--json", "-R", "100"]).json();
    assert_eq!(
        (&json["from_per_s"], &json["most_steps"]),
        (&100.0.into(), &24.into())
    );
    for refused in [
        &["--budget", "10s"][..],
        &["-n", "100"],
        &["--slo", "rate>10"],
        &["--find-max"],
    ] {
        assert_eq!(plan(refused).code, Some(2), "{refused:?}");
    }
    let silent = plan(&["-R", "100", "-d", "200ms", "--warmup", "0s"]);
    assert_eq!(silent.code, Some(3), "{}", silent.stdout);
    let lonely = finish(prony(state).args(["load", "http://127.0.0.1:1/", "--dry-run"]));
    assert_eq!(lonely.code, Some(2));
}

#[test]
fn ctrl_c_prints_what_is_known() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &["--delay", DELAY]);
    let mut command = prony(dir.path());
    command.args(["load", &origin.url, "--find-max", "-R", "50", "--json"]);
    let mut child = command
        .args(STEP)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let said = lines.by_ref().map_while(Result::ok);
    assert!(said.into_iter().any(|line| line.starts_with("step 2: ")));
    signal(child.id(), "INT");
    // Whoever stops to read its messages must not stop it.
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).count());
    let (empty, _) = std::io::pipe().unwrap();
    child.stderr = Some(std::process::ChildStderr::from(std::os::fd::OwnedFd::from(
        empty,
    )));
    let done = finish_child(child);
    rest.join().unwrap();
    assert_eq!(done.code, Some(130), "{}", done.stdout);
    let search = &done.json()["search"];
    assert_eq!(search["ended"], "interrupted");
    assert_eq!(search["steps"][0]["offered_per_s"].as_f64(), Some(50.0));
    assert!(search["steps"].as_array().unwrap().len() >= 2);
}
