//! The live view: a screen on a terminal that leaves it clean, lines in a log, nothing with `--quiet`.
//!
//! The terminal is that of script(1); what a person would have seen at the end is computed from its bytes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{Finished, Origin, finish, prony, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const EXPERIMENT: &str = r#"
question = "Is it seen?"
[target.server]
origin = { threads = 1, body = "1KiB" }
[factor]
connections = [1, 4]
[load]
url = "http://server/"
[design]
baseline = { connections = 1 }
repeats = 1
measure = "800ms"
warmup = "0s"
"#;

/// Rows and columns of the terminal that is computed: nothing scrolls off it.
const SIZE: (u16, u16) = (400, 500);

/// What stands on a terminal after these bytes.
fn seen(bytes: &[u8]) -> String {
    let mut terminal = vt100::Parser::new(SIZE.0, SIZE.1, 0);
    terminal.process(bytes);
    terminal.screen().contents()
}

/// A command on a terminal.
struct OnTerminal {
    child: std::process::Child,
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: std::thread::JoinHandle<()>,
}

impl OnTerminal {
    fn start(dir: &Path, arguments: &str) -> Self {
        let state = dir.join("state");
        fs::create_dir_all(&state).unwrap();
        let command = format!("'{}' {arguments}", env!("CARGO_BIN_EXE_prony"));
        let mut child = Command::new("script")
            .args([
                "--quiet",
                "--return",
                "--flush",
                "--command",
                &command,
                "/dev/null",
            ])
            .env("XDG_STATE_HOME", &state)
            .env("TMPDIR", &state)
            .env("TERM", "xterm")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut from = child.stdout.take().unwrap();
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self {
            child,
            bytes,
            reader,
        }
    }

    fn says(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).contains(text)
    }

    /// Exit code and all bytes.
    fn end(mut self) -> (Option<i32>, Vec<u8>) {
        wait_until("the command on the terminal ends", || {
            self.child.try_wait().unwrap().is_some()
        });
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        (
            code,
            Arc::into_inner(self.bytes).unwrap().into_inner().unwrap(),
        )
    }
}

fn logged(dir: &Path, more: &[&str]) -> Finished {
    let mut command = prony(&dir.join("state"));
    command.arg("run").arg(dir.join("x.toml")).args(more);
    command.current_dir(dir);
    finish(&mut command)
}

#[test]
fn a_terminal_gets_a_screen_and_is_left_clean() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x.toml"), EXPERIMENT).unwrap();
    let terminal = OnTerminal::start(dir.path(), "run x.toml --out out");
    let (code, bytes) = terminal.end();
    let raw = String::from_utf8_lossy(&bytes);
    assert!(matches!(code, Some(0 | 3)), "{raw}");
    // While it ran: what is left, the cells with their figures, what runs now.
    for live in ["left, ends about", "[min..max]", ">  connections=", "p50"] {
        assert!(raw.contains(live), "no `{live}` in {raw}");
    }
    let at_last = seen(&bytes);
    assert!(!at_last.contains("ends about"), "{at_last}");
    assert!(at_last.contains("[2/2] main"), "the trials stay: {at_last}");
    assert!(
        at_last.contains("Is it seen?") && at_last.contains("report: out"),
        "{at_last}"
    );
}

#[test]
fn a_log_gets_lines_and_quiet_gets_none() {
    let dir = tempfile::tempdir().unwrap();
    let short = EXPERIMENT
        .replace("800ms", "200ms")
        .replace("[1, 4]", "[1]")
        .replace("repeats = 2", "repeats = 1");
    fs::write(dir.path().join("x.toml"), short).unwrap();
    let log = logged(dir.path(), &["--out", "a"]);
    assert!(log.stderr.contains("[1/1] main"), "{}", log.stderr);
    assert!(
        !log.stderr.contains('\u{1b}') && !log.stderr.contains('\r'),
        "{}",
        log.stderr
    );
    let quiet = logged(dir.path(), &["--out", "b", "--quiet", "--json"]);
    assert_eq!(quiet.json()["trials"].as_array().unwrap().len(), 1);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn ctrl_c_leaves_the_terminal_clean_and_drawing_is_rare() {
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(&dir.path().join("state"), &[]);
    let began = Instant::now();
    let mut terminal = OnTerminal::start(dir.path(), &format!("load -c 2 -d 60s {}", origin.url));
    wait_until("the load is seen", || terminal.says("p50"));
    let shown_first = terminal.bytes.lock().unwrap().len();
    wait_until("it is seen again", || {
        terminal.bytes.lock().unwrap().len() > shown_first + 40
    });
    terminal
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\x03")
        .unwrap();
    let (code, bytes) = terminal.end();
    let took = began.elapsed().as_secs_f64();
    let at_last = seen(&bytes);
    assert_eq!(code, Some(130), "{at_last}");
    assert!(
        !at_last.contains("  errors "),
        "the live line is gone: {at_last}"
    );
    assert!(
        at_last.contains("response time"),
        "the result stands there: {at_last}"
    );
    let drawn = String::from_utf8_lossy(&bytes).matches("  errors ").count() as f64;
    assert!(drawn <= 2.0 * took + 2.0, "{drawn} drawings in {took} s");
}
