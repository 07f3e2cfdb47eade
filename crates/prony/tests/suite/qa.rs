//! The hostile environment: streams that cannot be written, no journal, a person without patience.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Origin, finish, finish_child, prony, signal, wait_until};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

/// One short trial of `target`, a table's line in TOML.
fn experiment(dir: &Path, target: &str) -> std::path::PathBuf {
    let file = dir.join("experiment.toml");
    let text = format!(
        "question = \"What happens?\"\n[target.server]\n{target}\n[load]\nurl = \"http://server/\"\n\
         [design]\nrepeats = 1\nmeasure = \"200ms\"\nwarmup = \"0s\"\n"
    );
    fs::write(&file, text).unwrap();
    file
}

fn full() -> Stdio {
    Stdio::from(File::options().write(true).open("/dev/full").unwrap())
}

#[test]
fn a_result_that_cannot_be_written_is_no_success() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    let output = prony(state.path())
        .args(["load", &origin.url, "-n", "10"])
        .stdout(full())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("standard output"), "{said}");
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let state = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let file = experiment(state.path(), "origin = {}");
    let status = prony(state.path())
        .args(["run", "--dry-run"])
        .arg(file)
        .stdout(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_log_that_cannot_be_written_does_not_end_the_run() {
    let state = tempfile::tempdir().unwrap();
    let file = experiment(state.path(), "origin = {}");
    let out = state.path().join("out");
    let status = prony(state.path())
        .arg("run")
        .arg(file)
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::null())
        .stderr(full())
        .status()
        .unwrap();
    // 3 is right too: on a busy machine the generator may be what limits.
    assert!(matches!(status.code(), Some(0 | 3)), "{status}");
    assert!(out.join("report.html").exists());
}

#[test]
fn without_a_journal_nothing_is_started_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let file = experiment(dir.path(), "origin = {}");
    let out = dir.path().join("out");
    // A file where a directory must be refuses root as well.
    let mut command = prony(dir.path());
    command.env("XDG_STATE_HOME", &file);
    let finished = finish(command.arg("run").arg(&file).arg("--out").arg(&out));
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    for words in ["journal", "remedy: set XDG_STATE_HOME"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
    assert!(!out.exists());
}

#[test]
fn ctrl_c_while_a_target_starts_does_not_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let started = dir.path().join("started");
    let target = format!(
        "command = [\"sh\", \"-c\", \"touch {}; exec sleep 1000\"]\nready_timeout = \"900s\"",
        started.display()
    );
    let file = experiment(dir.path(), &target);
    let child = prony(dir.path())
        .args(["run", "--json"])
        .arg(file)
        .arg("--out")
        .arg(dir.path().join("out"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the target is started", || started.exists());
    signal(child.id(), "INT");
    // The patience of `finish_child` is much shorter than the target's 900 s.
    let finished = finish_child(child);
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    assert!(
        !finished.stderr.contains("not ready"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_server_that_goes_into_the_background_is_told_to_stay() {
    let dir = tempfile::tempdir().unwrap();
    let file = experiment(dir.path(), "command = [\"sh\", \"-c\", \"exit 0\"]");
    let out = dir.path().join("out");
    let finished = finish(prony(dir.path()).arg("run").arg(file).arg("--out").arg(out));
    assert_eq!(finished.code, Some(3));
    assert!(
        finished.stderr.contains("stay in the foreground"),
        "{}",
        finished.stderr
    );
}

#[test]
fn nohup_outlives_its_terminal() {
    let state = tempfile::tempdir().unwrap();
    let mut command = prony(state.path());
    command.args(["origin", "--listen", "127.0.0.1:0"]);
    // SAFETY: signal(2) is async-signal-safe; the closure allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
            Ok(())
        });
    }
    let origin = Origin::of(command);
    signal(origin.pid(), "HUP");
    let finished = finish(prony(state.path()).args(["load", &origin.url, "-n", "10"]));
    assert!(
        matches!(finished.code, Some(0 | 3)),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    assert!(
        finished.stdout.contains("10 succeeded"),
        "{}",
        finished.stdout
    );
}

#[test]
fn an_unreadable_experiment_says_what_it_should_be() {
    let dir = tempfile::tempdir().unwrap();
    let binary = dir.path().join("binary.toml");
    fs::write(&binary, [0xff, 0xfe, 0x00]).unwrap();
    for (file, words) in [
        (binary.as_path(), "TOML"),
        (dir.path(), "one of those built in: quickstart"),
        (Path::new("absent.toml"), "absent.toml"),
    ] {
        let finished = finish(prony(dir.path()).arg("run").arg(file));
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

#[test]
fn a_server_whose_processes_are_hidden_is_said_to_be_unwatched() {
    let state = tempfile::tempdir().unwrap();
    let origin = Origin::start(state.path(), &[]);
    // A /proc that shows nobody but the reader, as another user of a hardened host sees it.
    let hidden = format!(
        "mount -t tmpfs none /proc && exec {} load {} -n 100 --json",
        env!("CARGO_BIN_EXE_prony"),
        origin.url
    );
    let mut command = std::process::Command::new("unshare");
    let finished =
        finish(command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &hidden]));
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let document = finished.json();
    let warnings = document["warnings"].as_array().unwrap();
    let said = warnings.iter().any(|w| w["name"] == "server_not_seen");
    assert!(said, "{document}");
}
