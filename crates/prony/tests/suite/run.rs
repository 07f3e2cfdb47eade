//! `prony run` end to end: real nginx, faults in the middle, interruption, `kill -9`, a full disk.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::common::{Finished, finish, finish_child, ours, prony, signal, wait_until};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory with an experiment, the record to be and the journal.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(experiment: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("experiment.toml"), experiment).unwrap();
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, more: &[&str]) -> Command {
        let mut command = prony(&self.file("state"));
        command
            .arg("run")
            .arg(self.file("experiment.toml"))
            .arg("--out")
            .arg(self.file("out"))
            .args(more);
        command
    }

    fn run(&self, more: &[&str]) -> Finished {
        finish(&mut self.command(more))
    }

    fn trials_saved(&self) -> usize {
        fs::read_dir(self.file("out/trials")).map_or(0, |dirs| {
            dirs.filter(|d| d.as_ref().unwrap().path().join("trial.json").exists())
                .count()
        })
    }
}

const NGINX: &str = r#"
question = "Does nginx count what prony counts?"
[target.web]
adapter = "nginx"
status = "/stub_status"
files = { "html/page" = { size = 2649 } }
[factor]
reuse = ["keepalive", "per_request"]
[load]
url = "http://web/page"
connections = 8
requests_per_connection = { keepalive = 0, per_request = 1 }
[design]
baseline = { reuse = "keepalive" }
repeats = 2
measure = "500ms"
warmup = "100ms"
"#;

fn trials(document: &Value) -> &Vec<Value> {
    document["trials"].as_array().unwrap()
}

#[test]
fn nginx_counts_what_prony_counts() {
    let bench = Bench::new(NGINX);
    let finished = bench.run(&["--json"]);
    // 3 is right too: on a busy machine the generator may be what limits.
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(trials(&document).len(), 4);
    for trial in trials(&document) {
        let counted = trial["counted_by_server"].as_f64().unwrap();
        assert!(
            (0.98..1.02).contains(&counted),
            "counted x{counted}: {trial}"
        );
        assert!(trial["achieved_per_s"].as_f64().unwrap() > 0.0);
    }
    let page = fs::read_to_string(bench.file("out/report.html")).unwrap();
    assert!(page.contains("Does nginx count what prony counts?"));
    assert!(bench.file("out/manifest.json").exists());
    assert!(!bench.file("out/.reserve").exists());
    let again = finish(
        prony(&bench.file("state"))
            .args(["report", "--json"])
            .arg(bench.file("out")),
    );
    assert_eq!(again.json()["trials"], document["trials"]);
    the_record_has_every_form(&bench);
}

/// Each form of the report, and an index of the directory that holds the record.
fn the_record_has_every_form(bench: &Bench) {
    let report = |args: &[&str]| {
        let mut command = prony(&bench.file("state"));
        finish(command.current_dir(bench.file("")).arg("report").args(args))
    };
    let markdown = report(&["out", "--format", "markdown"]).stdout;
    assert!(
        markdown.starts_with("# Does nginx count what prony counts?"),
        "{markdown}"
    );
    assert!(markdown.contains("(out/report.html)"), "{markdown}");
    // The ending of the file tells its form.
    report(&["out", "--out", "run.csv"]);
    let csv = fs::read_to_string(bench.file("run.csv")).unwrap();
    assert!(
        csv.starts_with("record,started,stage,cell,factor_reuse,block,"),
        "{csv}"
    );
    let document: Value =
        serde_json::from_slice(&fs::read(bench.file("out/report.json")).unwrap()).unwrap();
    assert!(document["conclusion"].is_array());
    let index = report(&["."]);
    assert_eq!(index.code, Some(0), "{}", index.stderr);
    let page = fs::read_to_string(bench.file("index.html")).unwrap();
    assert!(page.contains("href=\"./out/report.html\""));
    let refused = report(&["state"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("remedy: give"),
        "{}",
        refused.stderr
    );
}

/// Not examined, which takes longer than its trials do: what is counted and traced is held by the tests of nginx and of
/// hosts.
const ORIGIN: &str = r#"
question = "What stays when it is stopped?"
[target.server]
origin = { threads = 1, body = "1KiB" }
[factor]
connections = [1, 2, 4, 8]
[load]
url = "http://server/"
[design]
repeats = 3
measure = "300ms"
warmup = "0s"
examine = false
"#;

#[test]
fn an_interrupted_run_keeps_what_is_complete_and_goes_on() {
    let bench = Bench::new(ORIGIN);
    let child = bench
        .command(&[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("two trials are saved", || bench.trials_saved() >= 2);
    signal(child.id(), "INT");
    let finished = finish_child(child);
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    assert!(bench.file("out/report.html").exists());
    let kept = bench.trials_saved();
    assert!(kept < 12, "interrupted too late to show anything");

    let refused = bench.run(&[]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--continue"), "{}", refused.stderr);

    let continued = bench.run(&["--continue", "--json"]);
    assert!(
        matches!(continued.code, Some(0 | 3)),
        "{}",
        continued.stderr
    );
    assert_eq!(trials(&continued.json()).len(), 12);
}

#[test]
fn a_record_of_another_experiment_is_not_continued() {
    let bench = Bench::new(ORIGIN);
    fs::write(
        bench.file("experiment.toml"),
        ORIGIN.replace("repeats = 3", "repeats = 1"),
    )
    .unwrap();
    assert!(matches!(bench.run(&[]).code, Some(0 | 3)));
    fs::write(bench.file("experiment.toml"), ORIGIN).unwrap();
    let refused = bench.run(&["--continue"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("another experiment"),
        "{}",
        refused.stderr
    );
}

#[test]
fn after_kill_9_the_next_start_leaves_nothing() {
    let bench = Bench::new(NGINX);
    let mut child = bench
        .command(&[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let state = bench.file("state");
    wait_until("nginx runs with its worker", || ours(&state).len() >= 3);
    signal(child.id(), "KILL");
    child.wait().unwrap();
    let next = Bench::new(&ORIGIN.replace("repeats = 3", "repeats = 1"));
    let finished = finish(
        prony(&state)
            .arg("run")
            .arg(next.file("experiment.toml"))
            .arg("--out")
            .arg(next.file("out")),
    );
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    wait_until("no process of ours is left", || ours(&state).is_empty());
    let journal = state.join("prony");
    let left: Vec<_> = fs::read_dir(&journal)
        .map(|entries| entries.map(|e| e.unwrap().path()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "left in the journal: {left:?}");
    let directories = fs::read_dir(&state).unwrap().count();
    assert_eq!(
        directories, 1,
        "something beside the journal is left in {state:?}"
    );
}

#[test]
fn a_level_that_the_server_refuses_is_shown_and_the_others_run() {
    let bench = Bench::new(
        r#"
question = "Which level works?"
[target.web]
adapter = "nginx"
template = "web.conf"
[factor]
buffers = ["8 4k", "no such number"]
[load]
url = "http://web/"
connections = 2
[design]
repeats = 1
measure = "300ms"
warmup = "0s"
examine = false
"#,
    );
    fs::write(
        bench.file("web.conf"),
        "pid nginx.pid;\nevents {}\nhttp {\n  access_log off;\n  server {\n    listen {{listen}};\n    \
         output_buffers {{buffers}};\n    return 200 ok;\n  }\n}\n",
    )
    .unwrap();
    let finished = bench.run(&["--json"]);
    assert!(
        finished.stderr.contains("invalid number of arguments")
            || finished.stderr.contains("invalid value"),
        "nginx's own words: {}",
        finished.stderr
    );
    let document = finished.json();
    let achieved: Vec<bool> = trials(&document)
        .iter()
        .map(|t| t["achieved_per_s"].is_number())
        .collect();
    assert_eq!(achieved.iter().filter(|ok| **ok).count(), 1, "{document}");
}

#[test]
fn a_port_that_is_taken_is_named_with_its_holder() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let bench = Bench::new(
        &ORIGIN
            .replace(
                "threads = 1,",
                &format!("threads = 1, listen = \"{address}\","),
            )
            .replace("repeats = 3", "repeats = 1"),
    );
    let finished = bench.run(&[]);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert!(finished.stderr.contains(&address), "{}", finished.stderr);
    let holder = std::process::id().to_string();
    assert!(
        finished.stderr.contains(&holder),
        "pid {holder}: {}",
        finished.stderr
    );
}

#[test]
fn a_wrong_experiment_exits_2_with_place_and_near_miss() {
    let bench = Bench::new(&ORIGIN.replace("repeats", "repeat_s"));
    let finished = bench.run(&[]);
    assert_eq!(finished.code, Some(2));
    assert!(
        finished.stderr.contains("experiment.toml:10"),
        "{}",
        finished.stderr
    );
    assert!(finished.stderr.contains("`repeats`"), "{}", finished.stderr);
}

#[test]
fn a_dry_run_starts_nothing() {
    let bench = Bench::new(ORIGIN);
    let finished = bench.run(&["--dry-run"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.contains("12 trials"), "{}", finished.stdout);
    assert!(!bench.file("out").exists());
}

#[test]
fn a_full_disk_loses_nothing_that_was_measured() {
    let bench = Bench::new(ORIGIN);
    fs::create_dir(bench.file("out")).unwrap();
    // A disk of 9 MiB, most of it the reserve, in a mount namespace of its own: it is gone with the last process in it.
    let script = format!(
        "mount -t tmpfs -o size=9m prony-test '{out}' && \
         '{prony}' run '{file}' --out '{out}'; code=$?; \
         ls '{out}/trials' | wc -l; exit $code",
        out = bench.file("out").display(),
        file = bench.file("experiment.toml").display(),
        prony = env!("CARGO_BIN_EXE_prony"),
    );
    fs::write(
        bench.file("experiment.toml"),
        // Enough trials to fill what the reserve leaves.
        ORIGIN
            .replace("repeats = 3", "repeats = 100")
            .replace("300ms", "50ms"),
    )
    .unwrap();
    let finished = finish(
        Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .env("XDG_STATE_HOME", bench.file("state")),
    );
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("No space left"),
        "{}",
        finished.stderr
    );
    // The table of what was measured is on standard output all the same.
    assert!(
        finished.stdout.contains("connections"),
        "{}",
        finished.stdout
    );
}

const LEVELS: &str = r#"
question = "Which levels can run here?"
[target.server]
origin = { threads = "{{workers}}" }
wrap = { plain = [], missing = ["no-such-wrapper", "-x"] }
env = { LD_PRELOAD = { glibc = "", absent = "libno-such-allocator.so.7" } }
[factor]
workers = [1, 2]
stack = ["plain", "missing"]
allocator = ["glibc", "absent"]
[load]
url = "http://server/"
connections = 2
[design]
repeats = 1
measure = "100ms"
warmup = "0s"
examine = false
[scale.paper.factor]
workers = [1, 2, 4, 8]
[scale.paper.target.server]
cpus = "0-1000"
"#;

#[test]
fn what_is_not_installed_is_skipped_and_said() {
    let bench = Bench::new(LEVELS);
    let planned = bench.run(&["--dry-run"]);
    assert!(planned.stdout.contains("2 trials"), "{}", planned.stdout);
    let said = [
        "4 cells are skipped (stack=missing): cannot start target `server`: no-such-wrapper is not installed",
        "2 cells are skipped (allocator=absent, stack=plain): cannot start target `server`: \
         libno-such-allocator.so.7 cannot be preloaded: cannot open shared object file",
    ];
    for words in said {
        assert!(
            planned.stdout.contains(words),
            "{words}: {}",
            planned.stdout
        );
    }
    let finished = bench.run(&["--json"]);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    assert_eq!(trials(&finished.json()).len(), 2);
    let page = fs::read_to_string(bench.file("out/report.html")).unwrap();
    let plan = fs::read_to_string(bench.file("out/plan.json")).unwrap();
    for words in [
        "no-such-wrapper is not installed",
        "libno-such-allocator.so.7",
    ] {
        assert!(page.contains(words), "the page says {words}");
        assert!(plan.contains(words), "the plan says {words}");
    }
}

#[test]
fn an_experiment_of_which_nothing_can_run_ends_before_it_begins() {
    let bench = Bench::new(
        &LEVELS
            .replace("[\"plain\", \"missing\"]", "[\"missing\"]")
            .replace("plain = [], ", ""),
    );
    let finished = bench.run(&[]);
    assert_eq!(finished.code, Some(4), "{}", finished.stderr);
    assert!(
        finished
            .stderr
            .contains("no cell of the experiment can run here"),
        "{}",
        finished.stderr
    );
    assert!(!bench.file("out").exists());
}

#[test]
fn a_scale_is_chosen_and_one_for_a_larger_machine_says_so() {
    let bench = Bench::new(LEVELS);
    let paper = bench.run(&["--dry-run", "--scale", "paper"]);
    assert!(paper.stdout.contains("4 trials"), "{}", paper.stdout);
    assert!(
        paper.stdout.contains("scale paper, of small, paper"),
        "{}",
        paper.stdout
    );
    let large = bench.run(&["--scale", "paper"]);
    assert_eq!(large.code, Some(4), "{}", large.stderr);
    assert!(
        large
            .stderr
            .contains("this machine is too small for the scale `paper`")
            && large.stderr.contains("--scale small"),
        "{}",
        large.stderr
    );
    let slip = bench.run(&["--scale", "papr"]);
    assert_eq!(slip.code, Some(2));
    assert!(
        slip.stderr.contains("did you mean `paper`?"),
        "{}",
        slip.stderr
    );
}

const HOSTS: &str = r#"
question = "Does a proxy on a host of its own cost more?"
[target.backend]
origin = { body = "1KiB" }
[target.proxy]
adapter = "nginx"
template = "proxy.conf"
limits = { cpu = "none", memory = "256MiB" }
[factor]
path = ["direct", "proxied"]
[topology]
client_addresses = 4
initcwnd = { direct = 2, proxied = "none" }
rate = "1Gbit"
[load]
url = { direct = "http://backend/", proxied = "http://proxy/" }
connections = 8
requests_per_connection = 1
[design]
repeats = 1
measure = "300ms"
warmup = "0s"
"#;

const PROXY: &str = "pid nginx.pid;\nevents {}\nhttp {\n  access_log off;\n  server {\n    listen {{listen}};\n    \
    location / { proxy_pass http://{{backend}}; }\n  }\n}\n";

/// A bench with the topology; `None`, and why, where namespaces cannot be made.
fn hosts(experiment: &str) -> Option<Bench> {
    let bench = Bench::new(experiment);
    fs::write(bench.file("proxy.conf"), PROXY).unwrap();
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Some(bench);
    }
    let refused = bench.run(&[]);
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("made by root only"),
        "{}",
        refused.stderr
    );
    None
}

/// Namespaces and control groups that a process has made.
fn made_by(pid: u32) -> Vec<String> {
    let mark = format!("prony-{pid}-");
    let dirs = [
        "/run/netns",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/unified",
    ];
    dirs.iter()
        .flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&mark))
        .collect()
}

#[test]
fn three_hosts_are_made_measured_and_removed() {
    let Some(bench) = hosts(HOSTS) else {
        return;
    };
    let child = bench
        .command(&["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let finished = finish_child(child);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let document = finished.json();
    for trial in trials(&document) {
        assert!(
            trial["achieved_per_s"].as_f64().unwrap() > 0.0,
            "{trial}\n{}",
            finished.stderr
        );
    }
    // Sockets are looked at where the servers live, not where prony runs.
    let gaps: Vec<&str> = document["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|w| w["seen"].as_str())
        .filter(|seen| seen.contains("listen.queue") || seen.contains("socket"))
        .collect();
    assert_eq!(gaps, Vec::<&str>::new());
    assert_eq!(made_by(pid), Vec::<String>::new());
    // Where they listen is how the trace of turns knows whose requests it sees.
    let examined = fs::read_dir(bench.file("out/trials")).unwrap();
    let listens: Vec<String> = examined
        .filter_map(|trial| fs::read(trial.unwrap().path().join("examination.json")).ok())
        .map(|text| serde_json::from_slice::<serde_json::Value>(&text).unwrap())
        .flat_map(|e| e["servers"].as_array().unwrap().clone())
        .map(|server| server["listens"].to_string())
        .collect();
    assert!(listens.len() >= 2, "{listens:?}");
    assert!(!listens.contains(&"[]".to_owned()), "{listens:?}");
}

#[test]
fn hosts_and_groups_go_after_ctrl_c_and_after_kill_9() {
    let long = HOSTS
        .replace("300ms", "100s")
        .replace("[\"direct\", \"proxied\"]", "[\"proxied\"]");
    let long = long
        .replace("direct = \"http://backend/\", ", "")
        .replace("direct = 2, ", "");
    for ending in ["INT", "KILL"] {
        let Some(bench) = hosts(&long) else {
            return;
        };
        let mut child = bench
            .command(&[])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let state = bench.file("state");
        wait_until("nginx runs on its host", || ours(&state).len() >= 4);
        assert!(made_by(pid).len() >= 3, "{:?}", made_by(pid));
        signal(pid, ending);
        child.wait().unwrap();
        if ending == "KILL" {
            assert!(made_by(pid).len() >= 3, "nobody has removed them yet");
            let next = Bench::new(&ORIGIN.replace("repeats = 3", "repeats = 1"));
            let mut command = prony(&state);
            command.arg("run").arg(next.file("experiment.toml"));
            let finished = finish(command.arg("--out").arg(next.file("out")));
            assert!(
                finished.stderr.contains("network namespace prony-"),
                "{}",
                finished.stderr
            );
        }
        assert_eq!(made_by(pid), Vec::<String>::new(), "after SIG{ending}");
        wait_until("no process of ours is left", || ours(&state).is_empty());
    }
}

#[test]
fn a_record_is_continued_at_its_own_scale() {
    let bench = Bench::new(&LEVELS.replace("\"0-1000\"", "\"0\""));
    assert!(matches!(bench.run(&[]).code, Some(0 | 3)));
    let refused = bench.run(&["--continue", "--scale", "paper"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("at the scale `small`, not `paper`"),
        "{}",
        refused.stderr
    );
}

/// Prints the limits that it was started with.
const LIMITS: &str = r#"
question = "Under which limits does a server run?"
[target.s]
origin = { body = "1KiB" }
wrap = ["sh", "SCRIPT"]
limits = { open_files = { started = "none", named = 123 } }
[factor]
files = ["started", "named"]
[load]
url = "http://s/"
connections = 2
[design]
repeats = 2
warmup = "50ms"
measure = "100ms"
examine = false
"#;

#[test]
fn servers_of_all_trials_run_under_the_limits_that_prony_was_started_with() {
    use std::os::unix::process::CommandExt;
    let bench = Bench::new("");
    let script = bench.file("limits.sh");
    fs::write(&script, "cat /proc/self/limits\nexec \"$@\"\n").unwrap();
    let experiment = LIMITS.replace("SCRIPT", &script.display().to_string());
    fs::write(bench.file("experiment.toml"), experiment).unwrap();
    let mut command = bench.command(&[]);
    let lower = || {
        let mut files = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the struct is writable for the first call and readable for the second.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut files);
            files.rlim_cur = 400;
            libc::setrlimit(libc::RLIMIT_NOFILE, &files);
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(lower) };
    finish(&mut command);
    let mut seen = Vec::new();
    for id in 0..4 {
        let dir = bench.file(&format!("out/trials/{id:04}"));
        let trial: Value =
            serde_json::from_slice(&fs::read(dir.join("trial.json")).unwrap()).unwrap();
        let limits = fs::read_to_string(dir.join("files/s.stdout")).unwrap();
        let files = limits.lines().find(|l| l.starts_with("Max open files"));
        let soft = files.unwrap().split_whitespace().nth(3).unwrap().to_owned();
        seen.push((trial["levels"]["files"].as_str().unwrap().to_owned(), soft));
    }
    seen.sort();
    let pair = |level: &str, soft: &str| (level.to_owned(), soft.to_owned());
    assert_eq!(
        seen,
        [
            pair("named", "123"),
            pair("named", "123"),
            pair("started", "400"),
            pair("started", "400")
        ]
    );
}

/// Keeps a core busy until it is dropped: a program outside the experiment.
struct Neighbour {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Neighbour {
    fn new() -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = stop.clone();
        let busy = move || {
            while !seen.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Self {
            stop,
            thread: Some(std::thread::spawn(busy)),
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn a_trial_that_another_program_disturbed_is_measured_again_and_gives_no_gain() {
    let experiment = ORIGIN
        .replace("connections = [1, 2, 4, 8]", "connections = [1, 2]")
        .replace(
            "[design]",
            "[design]\nbudget = \"14s\"\nbaseline = { connections = 1 }",
        )
        .replace("repeats = 3", "repeats = 2")
        .replace("300ms", "1.2s");
    let bench = Bench::new(&experiment);
    let neighbour = Neighbour::new();
    let finished = bench.run(&["--json"]);
    drop(neighbour);
    let document = finished.json();
    // Four trials of 2.2 s; the budget leaves time for a trial and its baseline.
    assert_eq!(trials(&document).len(), 6, "{}", finished.stderr);
    assert!(
        finished.stderr.contains("measured again"),
        "{}",
        finished.stderr
    );
    let replaced: Vec<&Value> = (trials(&document).iter())
        .filter(|t| !t["replaced_by"].is_null())
        .collect();
    assert!(!replaced.is_empty());
    assert!(replaced[0]["foreign_cores"].as_f64().unwrap() > 0.1);
    let plan: Value =
        serde_json::from_slice(&fs::read(bench.file("out/plan.json")).unwrap()).unwrap();
    assert_eq!(plan["again"].as_array().unwrap().len(), 2);
    let cells = document["comparisons"].as_array().unwrap();
    let compared = cells.iter().find(|c| !c["no_ratio"].is_null()).unwrap();
    assert!(compared["rate_ratio"].is_null(), "{compared}");
    // What was measured again is part of the record: there is nothing to continue.
    let continued = bench.run(&["--continue", "--json"]);
    assert_eq!(trials(&continued.json()).len(), 6, "{}", continued.stderr);
}
