//! The journal after `kill -9`: the next start ends what the killed one had started, and nothing else.
//!
//! The test starts its own binary again as the process that is killed.

use crate::bench::{Bench, lives, spec};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use sut::{Change, Journal, Launcher};

/// Set, the test [`HOLDER`] is the process that is killed, with its state and work in this directory.
const DIRECTORY: &str = "PRONY_TEST_DIRECTORY";
const HOLDER: &str = "recover::a_killed_owner_leaves_nothing_after_the_next_start";

/// Ignores SIGTERM, as the death signal is one: only the journal can end it.
const DEAF: &str = "command = [\"python3\", \"-c\", \"import signal, http.server as h; \
    signal.signal(signal.SIGTERM, signal.SIG_IGN); \
    h.HTTPServer(('{{address}}', {{port}}), h.BaseHTTPRequestHandler).serve_forever()\"]\n\
    ready_timeout = \"60s\"";

/// What the killed process does: starts targets, says so, and waits for its end.
fn hold(dir: &str) -> ! {
    let launcher = Launcher {
        journal: Journal::open(&Path::new(dir).join("state")).expect("a journal"),
        prony: "/nonexistent/prony".into(),
        work_dir: Path::new(dir).join("work"),
    };
    let start = |section| {
        launcher
            .start(&spec(section, ""), &[].into(), &|| false)
            .expect("it starts")
    };
    let (deaf, nginx) = (start(DEAF), start("adapter = \"nginx\""));
    let mut pids: Vec<String> = Vec::new();
    for target in [&deaf, &nginx] {
        pids.extend(target.processes().iter().map(|p| p.pid.to_string()));
    }
    writeln!(std::io::stdout(), "running {}", pids.join(" ")).expect("its starter listens");
    loop {
        std::thread::park();
    }
}

/// The holding process, and the pids of its targets: the deaf server, nginx's master, nginx's worker.
fn holding(dir: &Path) -> (Child, Vec<i32>) {
    let mut child = Command::new(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", HOLDER, "--nocapture"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test's binary runs");
    let stdout = BufReader::new(child.stdout.take().expect("piped above"));
    let pids = stdout
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, pids) = line.split_once("running ")?;
            pids.split(' ')
                .map(|p| p.parse().ok())
                .collect::<Option<Vec<i32>>>()
        })
        .expect("the holding process says what it has started");
    (child, pids)
}

fn kill(pid: i32) {
    // SAFETY: a system call on integers; the pid is one that this test has started.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
}

fn entries(dir: &Path) -> usize {
    std::fs::read_dir(dir).expect("a directory").count()
}

#[test]
fn a_killed_owner_leaves_nothing_after_the_next_start() {
    if let Ok(dir) = std::env::var(DIRECTORY) {
        hold(&dir);
    }
    let dir = tempfile::tempdir().unwrap();
    let (state, work) = (dir.path().join("state"), dir.path().join("work"));
    let (mut owner, pids) = holding(dir.path());
    let [deaf, master, worker] = pids[..] else {
        panic!("{pids:?}")
    };
    let bench = Bench::new();
    let bystander = bench.start(&spec(DEAF, "")).unwrap();

    assert_eq!(Journal::recover(&state), [], "the owner lives");
    assert!(pids.iter().all(|pid| lives(*pid)));

    // The hardest case: nginx's worker has neither its master nor the marker left.
    kill(master);
    while lives(master) {
        std::thread::yield_now();
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(lives(deaf) && lives(worker));

    let recovered = Journal::recover(&state);
    assert!(
        recovered.iter().all(|r| r.failed.is_none()),
        "{recovered:?}"
    );
    let mut killed: Vec<i32> = recovered.iter().flat_map(|r| r.killed.clone()).collect();
    killed.sort_unstable();
    let mut want = vec![deaf, worker];
    want.sort_unstable();
    assert_eq!(killed, want);
    let directories = recovered
        .iter()
        .filter(|r| matches!(r.change, Change::Directory { .. }));
    assert_eq!(directories.count(), 2);
    assert!(!pids.iter().any(|pid| lives(*pid)));
    assert_eq!((entries(&state), entries(&work)), (0, 0));
    assert_eq!(Journal::recover(&state), [], "once is enough");
    let bystander_pid = bystander.processes()[0].pid;
    assert!(lives(bystander_pid), "another prony's server is left alone");
    kill(bystander_pid); // deaf to the polite way, which would take its time
}

/// Ctrl-C or a panic: the death signal alone ends servers that heed it.
#[test]
fn a_server_that_heeds_the_death_signal_ends_with_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (mut owner, pids) = holding(dir.path());
    owner.kill().unwrap();
    owner.wait().unwrap();
    while pids[1..].iter().any(|pid| lives(*pid)) {
        std::thread::yield_now();
    }
    assert_eq!(Journal::recover(&dir.path().join("state")).len(), 4);
    assert!(!lives(pids[0]));
}
