//! A load from several hosts, end to end: agents behind command lines and behind a real sshd, sums, clocks, and what
//! is left when one end is killed.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

use crate::common::{Finished, Origin, finish, finish_child, ours, prony, signal, wait_until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

const BINARY: &str = env!("CARGO_BIN_EXE_prony");

/// One load at a time: they would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of hosts that are processes of this one, each started by a command.
fn hosts(dir: &Path, all: &[(&str, &[&str])]) -> PathBuf {
    let mut text = String::new();
    for (name, via) in all {
        text += &format!("[host.{name}]\nvia = {via:?}\nbinary = \"{BINARY}\"\n");
    }
    let file = dir.join("hosts.toml");
    fs::write(&file, text).unwrap();
    file
}

fn load(dir: &Path, hosts: &Path, origin: &Origin, flags: &[&str]) -> Command {
    let mut command = prony(dir);
    command.args(["--quiet", "load", &origin.url, "--json", "--hosts"]);
    command.arg(hosts).args(flags);
    command
}

/// Again where the machine was too busy for a valid load. That a send of an open loop was late touches neither how the
/// load is divided nor how its hosts' clocks stand: such a load will do.
fn valid(mut make: impl FnMut() -> Command) -> Finished {
    for _ in 0..8 {
        let done = finish(&mut make());
        if done.code == Some(0) {
            return done;
        }
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        let document = done.json();
        let why = document["verdict"]["why"].as_str().unwrap();
        if why.contains("the generator sent late by itself") {
            return done;
        }
    }
    panic!("never valid");
}

/// A load for a minute and a half from two hosts, `one` and `two`, whose agents are at work; and the agent of `two`.
fn at_work(dir: &Path, origin: &Origin) -> (Child, u32) {
    let file = hosts(dir, &[("one", &["env"]), ("two", &["env", "TWO=1"])]);
    let child = load(dir, &file, origin, &["-c", "4", "-d", "90s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut second = None;
    wait_until("the agents have opened their connections", || {
        second = agent_with(dir, "TWO=1").filter(|pid| sockets(*pid) >= 2);
        second.is_some()
    });
    (child, second.unwrap())
}

fn agents(document: &Value) -> &Vec<Value> {
    document["agents"].as_array().unwrap()
}

#[test]
fn a_load_from_two_hosts_is_one_load() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    // A shell that greets whoever comes is no trouble.
    let greets = ["sh", "-c", "echo Welcome; exec \"$@\"", "greets"];
    let file = hosts(dir.path(), &[("one", &["env"]), ("two", &greets)]);
    let flags = ["-c", "7", "-n", "1001", "-t", "3", "--engine", "epoll"];
    let done = valid(|| load(dir.path(), &file, &origin, &flags));
    let document = done.json();
    assert_eq!(document["requests"]["completed"], 1_001);
    assert_eq!(document["connections"]["asked"], 7);
    assert_eq!(document["generator"]["threads"], 3);
    let agents = agents(&document);
    let each = |field: &str| -> Vec<u64> {
        let get = |agent: &Value| agent[field].as_u64().unwrap();
        agents.iter().map(get).collect()
    };
    assert_eq!(each("threads"), [2, 1]);
    // 1,001 over three threads is 334, 334, 333; 7 connections are 3, 2, 2.
    assert_eq!(each("completed"), [668, 333]);
    let asked = |agent: &Value| agent["connections"]["asked"].as_u64().unwrap();
    assert_eq!(agents.iter().map(asked).collect::<Vec<_>>(), [5, 2]);
    // What each brought adds up to the whole, bit for bit.
    let mut sum = record::Histogram::new();
    for agent in agents {
        let own = agent["histogram"].as_str().unwrap();
        sum.merge(&record::Histogram::from_base64(own).unwrap());
    }
    assert!(sum.to_base64() == document["histogram"].as_str().unwrap());
    let named = |warning: &Value| warning["name"] == "one_machine";
    assert!(document["warnings"].as_array().unwrap().iter().any(named));
    for agent in agents {
        let clock = &agent["clock"];
        let off = clock["offset_ns"].as_i64().unwrap().unsigned_abs();
        assert!(off <= clock["bound_ns"].as_u64().unwrap(), "{clock}");
    }
    assert!(done.stderr.is_empty(), "{}", done.stderr);
}

#[test]
fn an_open_loop_is_divided_and_its_arrivals_interleave() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let file = hosts(dir.path(), &[("one", &["env"]), ("two", &["env"])]);
    let flags = ["-c", "4", "-R", "500", "-d", "2s"];
    let document = valid(|| load(dir.path(), &file, &origin, &flags)).json();
    let scheduled = document["requests"]["scheduled"].as_u64().unwrap();
    assert_eq!(scheduled, 1_000);
    let rate = document["rate_per_s"]["offered"].as_f64().unwrap();
    assert!((rate - 500.0).abs() < 1e-9);
    for agent in agents(&document) {
        assert_eq!(
            agent["completed"].as_u64().unwrap().abs_diff(500),
            0,
            "{agent}"
        );
    }
}

#[test]
fn a_clock_that_shows_another_time_is_known_and_changes_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let unshare = [
        "unshare",
        "--user",
        "--map-root-user",
        "--time",
        "--monotonic",
        "86400",
        "--fork",
    ];
    let can = Command::new(unshare[0])
        .args(&unshare[1..])
        .arg("true")
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no time namespace here");
        return;
    }
    let origin = Origin::start(dir.path(), &[]);
    let file = hosts(dir.path(), &[("now", &["env"]), ("tomorrow", &unshare)]);
    let flags = ["-c", "4", "-R", "500", "-d", "1s"];
    let document = valid(|| load(dir.path(), &file, &origin, &flags)).json();
    let clock = &agents(&document)[1]["clock"];
    let off = clock["offset_ns"].as_i64().unwrap() - 86_400_000_000_000;
    assert!(
        off.unsigned_abs() <= clock["bound_ns"].as_u64().unwrap(),
        "{clock}"
    );
    // The slices of both lie on one line of time, or there would be none for a day.
    assert!((document["measured_s"].as_f64().unwrap() - 1.0).abs() < 0.2);
}

#[test]
fn a_host_that_is_lost_is_named_and_nothing_runs_on() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let (child, second) = at_work(dir.path(), &origin);
    std::thread::sleep(std::time::Duration::from_millis(600));
    signal(second, "KILL");
    let done = finish_child(child);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let document = done.json();
    let why = document["verdict"]["why"].as_str().unwrap();
    assert!(why.starts_with("host two did not carry its part:"), "{why}");
    assert_eq!(agents(&document)[0]["state"], "carried");
    assert_eq!(agents(&document)[1]["state"], "lost");
    wait_until("no agent is left", || agent_with(dir.path(), "").is_none());
}

#[test]
fn agents_end_with_their_conductor() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let (mut child, _) = at_work(dir.path(), &origin);
    signal(child.id(), "KILL");
    child.wait().unwrap();
    wait_until("no agent is left", || agent_with(dir.path(), "").is_none());
}

#[test]
fn agents_end_when_their_conductor_is_stopped_and_reads_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let (mut child, _) = at_work(dir.path(), &origin);
    signal(child.id(), "STOP");
    // Before the load would have ended by itself.
    let since = std::time::Instant::now();
    wait_until("no agent is left", || agent_with(dir.path(), "").is_none());
    assert!(since.elapsed().as_secs() < 80);
    signal(child.id(), "KILL");
    child.wait().unwrap();
}

#[test]
fn ctrl_c_ends_the_load_on_all_hosts_and_keeps_what_was_measured() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let (child, _) = at_work(dir.path(), &origin);
    std::thread::sleep(std::time::Duration::from_millis(800));
    signal(child.id(), "INT");
    let done = finish_child(child);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    let document = done.json();
    assert_eq!(document["interrupted"], true);
    assert!(
        agents(&document)
            .iter()
            .all(|agent| agent["state"] == "carried")
    );
    assert!(document["requests"]["completed"].as_u64().unwrap() > 0);
    wait_until("no agent is left", || agent_with(dir.path(), "").is_none());
}

#[test]
fn what_stands_in_the_way_is_said_before_anything_is_sent() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let error = |via: &[&str], flags: &[&str]| {
        let file = hosts(dir.path(), &[("one", via), ("two", &["env"])]);
        let done = finish(&mut load(dir.path(), &file, &origin, flags));
        (done.code, done.stderr)
    };
    let (code, words) = error(&["sh", "-c", "echo no route >&2; exit 255"], &["-n", "2"]);
    assert_eq!(code, Some(4));
    assert!(
        words.contains("reaching host one: no route") && words.contains("remedy:"),
        "{words}"
    );
    let (code, words) = error(&["env"], &["-c", "1"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("cannot share 1"), "{words}");
    // Pinned to a core that no host has.
    let (code, words) = error(&["env"], &["--cpus", "4000", "-c", "4"]);
    assert_eq!(code, Some(4));
    assert!(
        words.contains("host one: ") && words.contains("4000"),
        "{words}"
    );
    let (code, words) = error(&["env"], &["--unix", "/run/x", "-c", "4"]);
    assert_eq!(code, Some(2));
    assert!(
        words.contains("--unix cannot be given for a load from other hosts"),
        "{words}"
    );
    // Another build: a host of the same name whose prony is none.
    let other = dir.path().join("other");
    fs::write(&other, "#!/bin/sh\necho I am not prony\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let file = dir.path().join("other.toml");
    let text = format!(
        "[host.x]\nvia = [\"env\"]\nbinary = \"{}\"\n",
        other.display()
    );
    fs::write(&file, text).unwrap();
    let done = finish(&mut load(dir.path(), &file, &origin, &[]));
    assert_eq!(done.code, Some(4));
    assert!(
        done.stderr.contains("it said: I am not prony"),
        "{}",
        done.stderr
    );
}

#[test]
fn an_agent_is_nothing_for_a_person_and_gives_no_rights_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let done = finish(prony(dir.path()).arg("agent"));
    // Its input ends at once.
    assert_eq!(done.code, Some(3));
    assert!(done.stdout.starts_with("prony-agent 1\n"));
    assert!(
        done.stderr.contains("the conductor is gone"),
        "{}",
        done.stderr
    );
}

#[test]
fn a_host_is_reached_by_ssh_and_given_a_copy() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let Some(sshd) = Sshd::start(dir.path()) else {
        eprintln!("skipped: no sshd here, or not root");
        return;
    };
    let origin = Origin::start(dir.path(), &[]);
    let check = |flags: &[&str]| {
        let mut command = prony(dir.path());
        command.env("PATH", sshd.path());
        finish(
            command
                .args(["hosts", "check", "--json", "--on", "lab1,lab2"])
                .args(flags),
        )
    };
    let done = check(&[]);
    assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
    let document = done.json();
    for host in document["hosts"].as_array().unwrap() {
        assert_eq!(host["state"], "ready", "{host}");
        assert_eq!(host["rights"][0], "load");
    }
    // The copy lies below the user's cache, by its build.
    let build = document["build"].as_str().unwrap();
    let copy = dir.path().join("cache/prony").join(build).join("prony");
    assert_eq!(fs::read(&copy).unwrap(), fs::read(BINARY).unwrap());
    let before = fs::metadata(&copy).unwrap().modified().unwrap();
    let done = valid(|| {
        let mut command = prony(dir.path());
        command
            .env("PATH", sshd.path())
            .args(["--quiet", "load", &origin.url, "--json"]);
        command.args(["--on", "lab1=2,lab2", "-c", "6", "-n", "600"]);
        command
    });
    let document = done.json();
    assert_eq!(document["requests"]["completed"], 600);
    let agents = agents(&document);
    let completed = agents
        .iter()
        .map(|agent| agent["completed"].as_u64().unwrap());
    assert_eq!(completed.collect::<Vec<_>>(), [400, 200]);
    let after = fs::metadata(&copy).unwrap().modified().unwrap();
    assert_eq!(before, after, "sent once");
}

/// An experiment on an origin of its own, loaded from `hosts`.
fn experiment(dir: &Path, hosts: &Path, names: &str, measure: &str) -> Command {
    let text = format!(
        "question = \"Does it matter?\"\n\
         [target.server]\norigin = {{ body = \"1KiB\" }}\nstatus = \"/stats\"\n\
         [load]\nurl = \"http://server/\"\nconnections = 6\nhosts = [{names}]\n\
         [design]\nmeasure = \"{measure}\"\nwarmup = \"200ms\"\nrepeats = 1\nbudget = \"60s\"\nexamine = false\n{}",
        fs::read_to_string(hosts).unwrap()
    );
    let file = dir.join("experiment.toml");
    fs::write(&file, text).unwrap();
    let mut command = prony(dir);
    command.arg("run").arg(file).args(["--json", "--out"]);
    command.arg(dir.join("record"));
    command
}

#[test]
fn an_experiment_is_loaded_from_hosts_and_the_server_counts_with_them() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let file = hosts(dir.path(), &[("one", &["env"]), ("two", &["env"])]);
    let done = finish(&mut experiment(dir.path(), &file, "\"one\", \"two\"", "1s"));
    let document = done.json();
    let mut again = prony(dir.path());
    again
        .arg("report")
        .arg(dir.path().join("record"))
        .arg("--json");
    assert_eq!(
        finish(&mut again).json()["trials"],
        document["trials"],
        "as it was stored"
    );
    let trial = &document["trials"][0];
    let all = agents(trial);
    assert_eq!(all.len(), 2, "{}", done.stderr);
    let completed = all.iter().map(|agent| agent["completed"].as_u64().unwrap());
    assert!(completed.clone().all(|n| n > 0), "{trial}");
    // Its own count holds against the sum of both.
    let counted = trial["counted_by_server"].as_f64().unwrap();
    assert!((counted - 1.0).abs() < 0.01, "{trial}");
    let page = fs::read_to_string(dir.path().join("record/report.html")).unwrap();
    assert!(page.contains("class=\"lanes\""), "a lane for each host");
}

#[test]
fn a_trial_that_lost_a_host_is_measured_again() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("was-here").display().to_string();
    // The first time it ends in the middle of the load, which is as long: the agent starts before the warm-up does.
    let dies = "[ -e \"$0\" ] && exec \"$@\"; : > \"$0\"; exec timeout -s KILL 4 \"$@\"";
    let dies = ["sh", "-c", dies, &marker];
    let file = hosts(dir.path(), &[("one", &["env"]), ("two", &dies)]);
    let done = finish(&mut experiment(dir.path(), &file, "\"one\", \"two\"", "4s"));
    assert!(done.stderr.contains("a host was lost"), "{}", done.stderr);
    let document = done.json();
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2, "{}", done.stderr);
    let why = trials[0]["verdict"]["why"].as_str().unwrap();
    assert!(why.starts_with("host two did not carry its part"), "{why}");
    assert_eq!(trials[0]["replaced_by"], trials[1]["id"]);
    let states = agents(&trials[1]).iter().map(|agent| &agent["state"]);
    assert!(states.eq(["carried", "carried"]), "{}", trials[1]);
}

#[test]
fn a_server_is_diagnosed_under_a_load_from_another_host() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let file = hosts(dir.path(), &[("one", &["env"]), ("two", &["env"])]);
    let mut command = prony(dir.path());
    command.args(["--quiet", "diagnose", "--url", &origin.url, "-d", "1s"]);
    command.args(["--json", "--hosts"]).arg(&file);
    let done = finish(&mut command);
    let document = done.json();
    assert_eq!(agents(&document).len(), 2, "{}", done.stderr);
    // The passes beside the timed load were made from there too.
    let requests = document["signature"]["requests"].as_u64().unwrap();
    assert!(requests > 0, "{document}");
}

/// A diagnosis on a host that is a process of this one.
fn diagnosis_on(dir: &Path, url: &str, flags: &[&str]) -> Command {
    let file = hosts(dir, &[("sut", &["env"])]);
    let mut command = prony(dir);
    command.args(["--quiet", "diagnose", "--url", url, "--server-host", "sut"]);
    command.arg("--hosts").arg(file).args(flags);
    command
}

#[test]
fn a_server_is_diagnosed_on_its_own_host() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let record = dir.path().join("kept").display().to_string();
    let flags = ["-d", "1s", "--json", "--out", &record];
    let done = finish(&mut diagnosis_on(dir.path(), &origin.url, &flags));
    let document = done.json();
    let trial = &document["trials"][0];
    let trial = if trial.is_null() { &document } else { trial };
    assert_eq!(agents(trial)[0]["state"], "carried", "{}", done.stderr);
    let kept = |file: &str| fs::read_to_string(dir.path().join("kept").join(file)).unwrap();
    // As a person typed it, not as the other prony was started.
    let manifest: Value = serde_json::from_str(&kept("manifest.json")).unwrap();
    let command = manifest["command"].as_array().unwrap();
    assert!(
        command.iter().any(|word| word == "--server-host"),
        "{manifest}"
    );
    assert!(kept("report.html").contains("--server-host"));
    let examination: Value = serde_json::from_str(&kept("trials/0000/examination.json")).unwrap();
    let pid = examination["servers"][0]["main_pid"].as_u64();
    assert_eq!(pid, Some(u64::from(origin.pid())), "found there");
    // What is of this side only is said before anybody is reached.
    for (flag, value) in [("--on", "gen"), ("--against", "kept"), ("--body-file", "f")] {
        let done = finish(&mut diagnosis_on(dir.path(), &origin.url, &[flag, value]));
        assert_eq!(done.code, Some(2), "{flag}: {}", done.stderr);
        assert!(done.stderr.contains("--server-host"), "{}", done.stderr);
    }
}

#[test]
fn a_diagnosis_on_another_host_ends_with_whoever_asked_for_it() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let origin = Origin::start(dir.path(), &[]);
    let mut child = diagnosis_on(dir.path(), &origin.url, &["-d", "90s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lent = || {
        ours(dir.path())
            .into_iter()
            .find(|pid| has_word(*pid, "--lent"))
    };
    wait_until("it is at work there", || lent().is_some());
    signal(child.id(), "KILL");
    child.wait().unwrap();
    wait_until("nothing is left there", || lent().is_none());
}

fn has_word(pid: i32, word: &str) -> bool {
    let argv = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    argv.split(|byte| *byte == 0)
        .any(|own| own == word.as_bytes())
}

/// The agents of a test are told by the place of their journal.
fn agent_with(dir: &Path, word: &str) -> Option<u32> {
    let is_agent = |pid: &i32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let argv = read("cmdline");
        let environment = String::from_utf8_lossy(&read("environ")).into_owned();
        argv.ends_with(b"agent\0")
            && argv.starts_with(BINARY.as_bytes())
            && environment.contains(word)
    };
    ours(dir).into_iter().find(is_agent).map(i32::cast_unsigned)
}

fn sockets(pid: u32) -> usize {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return 0;
    };
    let links = files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok());
    links
        .filter(|link| link.to_string_lossy().starts_with("socket:"))
        .count()
}

/// A real sshd of the test's own on a free port of loopback, and an `ssh` on a PATH that knows where it is.
struct Sshd {
    child: Child,
    bin: PathBuf,
}

impl Sshd {
    fn start(dir: &Path) -> Option<Self> {
        const DAEMON: &str = "/usr/sbin/sshd";
        let is_root = fs::metadata("/proc/self")
            .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        if !Path::new(DAEMON).exists() || !is_root {
            return None;
        }
        // Where sshd of Debian wants its empty directory.
        fs::create_dir_all("/run/sshd").ok()?;
        let home = dir.join("sshd");
        fs::create_dir_all(&home).unwrap();
        for key in ["host", "user"] {
            let file = home.join(key);
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(&file)
                .status();
            assert!(made.unwrap().success());
        }
        let at = home.display();
        fs::copy(home.join("user.pub"), home.join("authorized")).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\nUsePAM no\nStrictModes no\n\
             AuthorizedKeysFile {at}/authorized\nPermitRootLogin prohibit-password\nMaxStartups 10:30:100\n\
             SetEnv XDG_CACHE_HOME={}/cache XDG_STATE_HOME={}\n",
            dir.display(),
            dir.display()
        );
        fs::write(home.join("config"), config).unwrap();
        let mut child = Command::new(DAEMON)
            .args(["-D", "-e", "-f"])
            .arg(home.join("config"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listens = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.contains("listening on"));
        assert!(listens.is_some(), "sshd did not start");
        // Somebody must read what it says, or it waits.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let client = format!(
            "Host lab*\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {at}/user\n \
             StrictHostKeyChecking accept-new\n UserKnownHostsFile {at}/known\n"
        );
        fs::write(home.join("client"), client).unwrap();
        let bin = home.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let wrapper = format!("#!/bin/sh\nexec /usr/bin/ssh -F {at}/client \"$@\"\n");
        fs::write(bin.join("ssh"), wrapper).unwrap();
        fs::set_permissions(bin.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { child, bin })
    }

    fn path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.bin.display())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
