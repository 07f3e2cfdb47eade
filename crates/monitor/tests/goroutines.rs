//! The reader of goroutines against real Go programs.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

use monitor::goroutines::{TaskConfig, TaskLook, TaskReader, Tasks};
use monitor::probe::ProbeTarget;
use record::Unavailable;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Goroutines that wait in ways and in numbers that are known.
const SOURCE: &str = r#"
package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

var mu sync.Mutex
var queue = make(chan int)

//go:noinline
func locks() { mu.Lock(); defer mu.Unlock(); fmt.Print() }

//go:noinline
func naps() { time.Sleep(time.Hour) }

//go:noinline
func receives() { <-queue }

//go:noinline
func accepts() { l, _ := net.Listen("tcp", "127.0.0.1:0"); l.Accept() }

func main() {
	mu.Lock()
	for i := 0; i < 5; i++ {
		go locks()
	}
	for i := 0; i < 4; i++ {
		go naps()
	}
	for i := 0; i < 3; i++ {
		go receives()
	}
	go accepts()
	time.Sleep(100 * time.Millisecond)
	fmt.Println("ready")
	time.Sleep(time.Minute)
}
"#;

/// Ended with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn go() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    dirs.push("/usr/local/go/bin".into());
    dirs.iter().map(|dir| dir.join("go")).find(|go| go.exists())
}

/// The program, built with more flags; `None` where there is no compiler.
fn build(dir: &Path, flags: &[&str]) -> Option<PathBuf> {
    let Some(go) = go() else {
        eprintln!("skipped: go is not installed (apt-get install golang-go)");
        return None;
    };
    let source = dir.join("main.go");
    std::fs::write(&source, SOURCE).unwrap();
    let program = dir.join("app");
    let built = Command::new(go)
        .args(["build", "-o"])
        .arg(&program)
        .args(flags)
        .arg(&source)
        .env("GO111MODULE", "off")
        // Of all tests, and of later runs: Go's own library is compiled once for each way of linking.
        .env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go-cache"))
        .env("CGO_ENABLED", "0")
        .status()
        .unwrap();
    assert!(built.success());
    Some(program)
}

fn start(program: &Path) -> Running {
    let mut child = Command::new(program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let running = Running(child);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    running
}

fn config(pid: u32) -> TaskConfig {
    TaskConfig {
        targets: vec![ProbeTarget {
            target: "app".to_owned(),
            pids: vec![pid.cast_signed()],
            listens: Vec::new(),
            ..ProbeTarget::default()
        }],
        share: 0.05,
    }
}

/// What some looks brought.
fn looked(pid: u32) -> Result<Option<Tasks>, Unavailable> {
    let Some(reader) = TaskReader::start(&config(pid))? else {
        return Ok(None);
    };
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        std::thread::yield_now();
    }
    Ok(Some(reader.end().fold()))
}

/// Holds what was seen of [`SOURCE`] against what it does.
fn check(flags: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build(dir.path(), flags) else {
        return;
    };
    let running = start(&program);
    let Some(tasks) = looked(running.0.id()).unwrap() else {
        eprintln!("skipped: no right to read the memory of other processes");
        return;
    };
    assert_eq!(tasks.unavailable, []);
    assert!(tasks.looks.len() >= 2, "{}", tasks.looks.len());
    assert_eq!(tasks.profile.lost, 0);
    for look in &tasks.looks {
        let waits = waits(&tasks, look);
        let of = |doing: &str, function: &str| {
            let key = (doing.to_owned(), function.to_owned());
            waits.get(&key).copied().unwrap_or_default()
        };
        // Before Go 1.20 a mutex is a semaphore.
        let locks = of("sync.Mutex.Lock", "main.locks") + of("semacquire", "main.locks");
        assert_eq!(locks, 5, "{waits:?}");
        assert_eq!(of("sleep", "main.naps"), 4, "{waits:?}");
        assert_eq!(of("chan receive", "main.receives"), 3, "{waits:?}");
        assert_eq!(of("IO wait", "main.accepts"), 1, "{waits:?}");
    }
    let took = tasks.cost.measured_ns.unwrap();
    assert!(took > 0 && tasks.cost.events == tasks.looks.len() as u64);
}

/// Goroutines of one look by what they did and the first function of the program.
fn waits(tasks: &Tasks, look: &TaskLook) -> BTreeMap<(String, String), u32> {
    let mut waits = BTreeMap::new();
    for &(stack, count) in &look.tasks {
        let stack = &tasks.profile.stacks[stack as usize];
        let frames = stack.frames.iter();
        let mut names = frames.map(|frame| &tasks.profile.frames[*frame as usize].symbol);
        if let Some(name) = names.find(|name| name.starts_with("main.")) {
            *waits
                .entry((stack.thread.clone(), name.clone()))
                .or_default() += count;
        }
    }
    waits
}

#[test]
fn waits_of_a_real_program_by_reason_and_function() {
    check(&[]);
}

#[test]
fn a_program_without_symbols_is_read_by_its_code() {
    check(&["-ldflags=-s -w"]);
}

#[test]
fn a_program_that_is_loaded_anywhere_is_read_there() {
    check(&["-buildmode=pie"]);
}

#[test]
fn what_is_no_go_program_has_no_goroutines() {
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    let running = Running(child);
    assert!(looked(running.0.id()).unwrap().is_none());
}

#[test]
fn a_program_that_ends_while_it_is_looked_at_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = build(dir.path(), &[]) else {
        return;
    };
    let running = start(&program);
    let Ok(Some(reader)) = TaskReader::start(&config(running.0.id())) else {
        panic!("it is a Go program");
    };
    drop(running);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(400) {
        std::thread::yield_now();
    }
    let tasks = reader.end().fold();
    let gap = tasks.unavailable.first().expect("a gap");
    assert!(gap.what.contains("until the end of the window"), "{gap:?}");
}
