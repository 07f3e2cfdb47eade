//! Fleets: agents that wait at a real nats-server, a load over them, and what is left when one of the three is killed,
//! stopped, or has not the right to speak.
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test that is left out says so, helpers included"
)]

use crate::common::{Finished, Origin, finish, finish_child, ours, prony, signal, wait_until};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_prony");
/// Where a test's agents write what they say.
const SAID: &str = "agents.log";

/// What every test has: a directory, and a broker with a fleet. `None` where there is no nats-server.
fn lab(config: &str) -> Option<(tempfile::TempDir, Broker)> {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(dir.path(), config);
    if broker.is_none() {
        eprintln!("skipped: no nats-server here");
    }
    Some((dir, broker?))
}

/// A nats-server of the test's own on a free port of loopback.
struct Broker {
    child: Child,
    config: PathBuf,
    port: u16,
}

impl Broker {
    fn start(dir: &Path, config: &str) -> Option<Self> {
        let file = dir.join("broker.conf");
        // Somebody else may have taken a port that was free.
        for _ in 0..8 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            fs::write(&file, format!("listen: \"127.0.0.1:{port}\"\n{config}\n")).unwrap();
            if let Some(child) = Self::spawn(&file, port)? {
                let config = file;
                return Some(Self {
                    child,
                    config,
                    port,
                });
            }
        }
        panic!("no port for a broker");
    }

    /// `None` where there is no nats-server; none within where it ended before it greeted.
    fn spawn(config: &Path, port: u16) -> Option<Option<Child>> {
        let mut child = Command::new("nats-server")
            .arg("-c")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut ended = false;
        wait_until("the broker greets", || {
            ended = child.try_wait().unwrap().is_some();
            ended || greets(port)
        });
        Some((!ended).then_some(child))
    }

    /// On the same port, with the same configuration; again where a socket of others is there yet.
    fn start_again(&mut self) {
        self.child.wait().unwrap();
        let mut child = None;
        wait_until("the broker is there again", || {
            child = Self::spawn(&self.config, self.port).unwrap();
            child.is_some()
        });
        self.child = child.unwrap();
    }

    fn fleet(&self, name: &str) -> String {
        format!("nats://127.0.0.1:{}/{name}", self.port)
    }
}

/// A broker says first who it is. A connection alone proves nothing: where nobody listens yet, one to a port of the
/// range for clients may have been made to itself.
fn greets(port: u16) -> bool {
    let Ok(mut peer) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut greeting = [0; 4];
    peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    peer.read_exact(&mut greeting).is_ok() && &greeting == b"INFO"
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Agents of a fleet, ended with their runs when dropped.
struct Agents(Vec<Child>);

impl Agents {
    fn start(dir: &Path, count: usize, flags: &[&str]) -> Self {
        let agent = |_| {
            let mut command = prony(dir);
            command.arg("agent").args(flags);
            // A pipe that nobody reads fills up.
            let said = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(dir.join(SAID))
                .unwrap();
            command.stdout(Stdio::null()).stderr(said);
            command.spawn().unwrap()
        };
        Self((0..count).map(agent).collect())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn load(dir: &Path, origin: &Origin, flags: &[&str]) -> Command {
    let mut command = prony(dir);
    command.args(["--quiet", "load", &origin.url, "--json"]);
    command.args(flags);
    command
}

/// Again where the machine was too busy for a valid load, or for all to begin in time. That a send of an open loop was
/// late does not touch how the load is divided: such a load will do.
fn valid(mut make: impl FnMut() -> Command) -> Value {
    let mut why = String::new();
    for _ in 0..8 {
        let done = finish(&mut make());
        assert!([Some(0), Some(3)].contains(&done.code), "{}", done.stderr);
        if done.stdout.is_empty() {
            why = done.stderr;
            continue;
        }
        let document = done.json();
        why = document["verdict"].to_string();
        if done.code == Some(0) || why.contains("the generator sent late by itself") {
            return document;
        }
    }
    panic!("never valid: {why}");
}

fn agents(document: &Value) -> &Vec<Value> {
    document["agents"].as_array().unwrap()
}

fn check(dir: &Path, flags: &[&str]) -> Finished {
    finish(prony(dir).args(["hosts", "check", "--json"]).args(flags))
}

/// Processes that serve a run, of all agents of a test.
fn serving(dir: &Path) -> usize {
    let serves = |pid: &i32| {
        let argv = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        argv.starts_with(BINARY.as_bytes()) && argv.ends_with(b"--allow\0load\0")
    };
    ours(dir).iter().filter(|pid| serves(pid)).count()
}

/// Connections of this test's processes to the origin.
fn connections(origin: &Origin) -> usize {
    let port = origin.url.rsplit(':').next().unwrap();
    let port: u16 = port.trim_end_matches('/').parse().unwrap();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!(" 0100007F:{port:04X} 01 ");
    table.lines().filter(|line| line.contains(&remote)).count()
}

/// A load for a minute and a half from two agents, which are at work. Again where it ended before that: on a busy
/// machine not all begin in time.
fn at_work(dir: &Path, origin: &Origin, fleet: &str) -> Child {
    let flags = ["--fleet", fleet, "--agents", "2", "-c", "4", "-d", "90s"];
    let mut why = String::new();
    for _ in 0..8 {
        let mut child = load(dir, origin, &flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let before = answered(dir, origin);
        let mut ended = false;
        wait_until("the agents are at work", || {
            ended = child.try_wait().unwrap().is_some();
            ended || connections(origin) == 4 && answered(dir, origin) > before + 100
        });
        if !ended {
            return child;
        }
        why = finish_child(child).stderr;
    }
    let said = fs::read_to_string(dir.join(SAID)).unwrap_or_default();
    panic!("never at work: {why}\nagents: {said}");
}

/// Requests that the origin has answered.
fn answered(dir: &Path, origin: &Origin) -> u64 {
    let url = format!("{}/stats", origin.url.trim_end_matches('/'));
    let done = finish(Command::new("curl").current_dir(dir).args(["-s", &url]));
    done.json()["total"]["requests"].as_u64().unwrap()
}

#[test]
fn a_load_from_a_fleet_is_one_load() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let fleet = broker.fleet("lab");
    let _agents = Agents::start(dir.path(), 3, &["--fleet", &fleet]);
    let origin = Origin::start(dir.path(), &[]);
    let flags = [
        "--fleet", &fleet, "--agents", "3", "-c", "7", "-n", "1001", "-t", "3",
    ];
    let document = valid(|| load(dir.path(), &origin, &flags));
    assert_eq!(document["requests"]["completed"], 1_001);
    assert_eq!(document["connections"]["asked"], 7);
    assert_eq!(each_of(&document, "completed"), [334, 334, 333]);
    // What each brought adds up to the whole, bit for bit.
    let mut sum = record::Histogram::new();
    for agent in agents(&document) {
        let own = agent["histogram"].as_str().unwrap();
        sum.merge(&record::Histogram::from_base64(own).unwrap());
    }
    assert!(sum.to_base64() == document["histogram"].as_str().unwrap());
    // An open loop, from the same agents, without a count.
    let flags = ["--fleet", &fleet, "-c", "6", "-R", "300", "-d", "1s"];
    let document = valid(|| load(dir.path(), &origin, &flags));
    assert_eq!(each_of(&document, "completed"), [100, 100, 100]);
    wait_until("nobody serves", || serving(dir.path()) == 0);
}

fn each_of(document: &Value, field: &str) -> Vec<u64> {
    let get = |agent: &Value| agent[field].as_u64().unwrap();
    agents(document).iter().map(get).collect()
}

#[test]
fn twenty_agents_are_found_and_those_of_another_fleet_are_not() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let (fleet, other) = (broker.fleet("lab"), broker.fleet("other"));
    let since = Instant::now();
    let _agents = Agents::start(dir.path(), 20, &["--fleet", &fleet]);
    let done = check(dir.path(), &["--fleet", &fleet, "--agents", "20"]);
    eprintln!(
        "20 agents were started, found and ready in {:?}",
        since.elapsed()
    );
    let since = Instant::now();
    let again = check(dir.path(), &["--fleet", &fleet, "--agents", "20"]);
    eprintln!("and found and ready again in {:?}", since.elapsed());
    for done in [done, again] {
        assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
        let document = done.json();
        let hosts = document["hosts"].as_array().unwrap();
        let ready = hosts.iter().filter(|host| host["state"] == "ready");
        assert_eq!(ready.count(), 20);
        let names: std::collections::BTreeSet<_> = hosts
            .iter()
            .map(|host| host["host"].as_str().unwrap())
            .collect();
        assert_eq!(names.len(), 20, "{names:?}");
    }
    let done = check(dir.path(), &["--fleet", &other]);
    assert_eq!(done.code, Some(4));
    assert!(
        done.stderr.contains("has nobody in fleet other"),
        "{}",
        done.stderr
    );
    let remedy = format!("remedy: start agents: prony agent --fleet {other}");
    assert!(done.stderr.contains(&remedy), "{}", done.stderr);
    let done = check(dir.path(), &["--fleet", &fleet, "--agents", "21"]);
    assert_eq!(done.code, Some(4));
    let words = "has 20 agents that wait in fleet lab, and 21 were asked for";
    assert!(done.stderr.contains(words), "{}", done.stderr);
}

#[test]
fn a_broker_that_dies_ends_the_load_on_all_sides_and_it_does_not_come_back() {
    for (how, what) in [("KILL", "killed"), ("STOP", "stopped")] {
        let Some((dir, mut broker)) = lab("") else {
            return;
        };
        let fleet = broker.fleet("lab");
        let _agents = Agents::start(dir.path(), 2, &["--fleet", &fleet]);
        let origin = Origin::start(dir.path(), &[]);
        let child = at_work(dir.path(), &origin, &fleet);
        let since = Instant::now();
        signal(broker.child.id(), how);
        let done = finish_child(child);
        let conductor = since.elapsed();
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        assert!(
            done.stderr.contains("no host carried its part"),
            "{}",
            done.stderr
        );
        let named = format!("the broker nats://127.0.0.1:{} is gone", broker.port);
        assert!(done.stderr.contains(&named), "{}", done.stderr);
        wait_until("no load is left", || connections(&origin) == 0);
        wait_until("nobody serves", || serving(dir.path()) == 0);
        eprintln!(
            "broker {what}: conductor ended after {conductor:?}, agents after {:?}",
            since.elapsed()
        );
        // Long before the load would have ended by itself.
        assert!(since.elapsed() < Duration::from_secs(60));
        // The broker comes back, and with it the agents, but not their load.
        match how {
            "KILL" => broker.start_again(),
            _ => signal(broker.child.id(), "CONT"),
        }
        let done = check(dir.path(), &["--fleet", &fleet, "--agents", "2"]);
        assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
        assert_eq!(connections(&origin), 0);
        let flags = ["--fleet", &fleet, "--agents", "2", "-c", "4", "-n", "400"];
        let document = valid(|| load(dir.path(), &origin, &flags));
        assert_eq!(document["requests"]["completed"], 400);
    }
}

#[test]
fn an_agent_that_is_killed_is_named_and_the_others_stop() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let fleet = broker.fleet("lab");
    let mut all = Agents::start(dir.path(), 2, &["--fleet", &fleet]);
    let origin = Origin::start(dir.path(), &[]);
    let child = at_work(dir.path(), &origin, &fleet);
    all.0[0].kill().unwrap();
    all.0[0].wait().unwrap();
    let done = finish_child(child);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let document = done.json();
    let why = document["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("did not carry its part"), "{why}");
    let states = agents(&document)
        .iter()
        .map(|agent| agent["state"].as_str().unwrap());
    let mut states: Vec<_> = states.collect();
    states.sort_unstable();
    assert_eq!(states, ["carried", "lost"]);
    wait_until("nobody serves", || serving(dir.path()) == 0);
    // The other one serves on.
    let flags = ["--fleet", &fleet, "-c", "4", "-n", "40"];
    assert_eq!(
        agents(&valid(|| load(dir.path(), &origin, &flags))).len(),
        1
    );
}

#[test]
fn agents_end_the_load_of_a_conductor_that_is_killed_and_serve_another() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let fleet = broker.fleet("lab");
    let _agents = Agents::start(dir.path(), 2, &["--fleet", &fleet]);
    let origin = Origin::start(dir.path(), &[]);
    let mut child = at_work(dir.path(), &origin, &fleet);
    // Whoever comes now is told who is there, and that they are busy.
    let flags = ["--fleet", &fleet, "-c", "4", "-n", "40"];
    let second = finish(&mut load(dir.path(), &origin, &flags));
    assert_eq!(second.code, Some(4));
    assert!(second.stderr.contains("it has served"), "{}", second.stderr);
    assert!(
        second
            .stderr
            .contains("remedy: wait for the end of that load"),
        "{}",
        second.stderr
    );
    assert_eq!(connections(&origin), 4, "the first goes on");
    signal(child.id(), "KILL");
    child.wait().unwrap();
    let since = Instant::now();
    wait_until("the load has ended", || connections(&origin) == 0);
    eprintln!(
        "conductor killed: its load ended after {:?}",
        since.elapsed()
    );
    // Before it would have ended by itself.
    assert!(since.elapsed() < Duration::from_secs(60));
    // Whoever asks for a number of them waits for them.
    let flags = ["--fleet", &fleet, "--agents", "2", "-c", "4", "-n", "40"];
    let document = valid(|| load(dir.path(), &origin, &flags));
    assert_eq!(document["requests"]["completed"], 40);
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_an_agent_that_is_told_to_end_says_so() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let fleet = broker.fleet("lab");
    let all = Agents::start(dir.path(), 2, &["--fleet", &fleet]);
    let origin = Origin::start(dir.path(), &[]);
    let child = at_work(dir.path(), &origin, &fleet);
    std::thread::sleep(Duration::from_millis(800));
    signal(child.id(), "INT");
    let done = finish_child(child);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    let document = done.json();
    assert!(
        agents(&document)
            .iter()
            .all(|agent| agent["state"] == "carried")
    );
    wait_until("nobody serves", || serving(dir.path()) == 0);
    // As a cluster ends a pod.
    let child = at_work(dir.path(), &origin, &fleet);
    signal(all.0[1].id(), "TERM");
    let done = finish_child(child);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let document = done.json();
    let why = document["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("its agent was told to end"), "{why}");
}

#[test]
fn frames_larger_than_a_broker_carries_are_cut() {
    let Some((dir, broker)) = lab("max_payload: 2048") else {
        return;
    };
    let fleet = broker.fleet("lab");
    let _agents = Agents::start(dir.path(), 2, &["--fleet", &fleet]);
    let origin = Origin::start(dir.path(), &[]);
    let body = dir.path().join("body");
    // More than may be under way at one time, too.
    fs::write(&body, vec![b'x'; 200_000]).unwrap();
    let body = body.display().to_string();
    let flags = [
        "--fleet",
        &fleet,
        "--agents",
        "2",
        "-c",
        "2",
        "-n",
        "20",
        "--body-file",
        &body,
    ];
    let document = valid(|| load(dir.path(), &origin, &flags));
    assert_eq!(document["requests"]["succeeded"], 20);
    drop(broker);
    let broker = Broker::start(dir.path(), "max_payload: 512").unwrap();
    let done = check(dir.path(), &["--fleet", &broker.fleet("lab")]);
    assert_eq!(done.code, Some(4));
    assert!(done.stderr.contains("512 bytes at most"), "{}", done.stderr);
    assert!(done.stderr.contains("raise max_payload"), "{}", done.stderr);
}

/// Accounts of a broker as docs/hosts.md shows them.
fn accounts(conductor: &str, agent: &str) -> String {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hosts.md");
    let docs = fs::read_to_string(docs).unwrap();
    let shown = docs
        .split("```")
        .find(|block| block.contains("authorization"));
    let shown = shown.unwrap().split_once('\n').unwrap().1;
    shown
        .replace("UCONDUCTOR", conductor)
        .replace("UAGENT", agent)
}

#[test]
fn accounts_may_do_what_the_documents_give_them_and_no_more() {
    let (conductor, agent) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let config = accounts(&conductor.public_key(), &agent.public_key());
    let Some((dir, broker)) = lab(&config) else {
        return;
    };
    let fleet = broker.fleet("lab");
    let file = |name: &str, seed: &str| {
        let path = dir.path().join(name);
        fs::write(&path, format!("{seed}\n")).unwrap();
        path.display().to_string()
    };
    let conductor = file("conductor.nk", &conductor.seed().unwrap());
    let agent = file("agent.nk", &agent.seed().unwrap());
    let stranger = file("stranger.nk", &nkeys::KeyPair::new_user().seed().unwrap());
    let agent_flags = ["--fleet", &fleet, "--nats-creds", &agent];
    let _agents = Agents::start(dir.path(), 2, &agent_flags);
    let origin = Origin::start(dir.path(), &[]);
    let flags = [
        "--fleet",
        &fleet,
        "--nats-creds",
        &conductor,
        "--agents",
        "2",
        "-c",
        "4",
        "-n",
        "40",
    ];
    let document = valid(|| load(dir.path(), &origin, &flags));
    assert_eq!(document["requests"]["completed"], 40);
    let refused = |flags: &[&str], what: &str| {
        let done = check(dir.path(), &[&["--fleet", &fleet], flags].concat());
        assert_eq!(done.code, Some(4), "{}", done.stdout);
        assert!(done.stderr.contains(what), "{}", done.stderr);
        assert!(done.stderr.contains("remedy:"), "{}", done.stderr);
    };
    refused(&[], "asks for credentials");
    refused(&["--nats-creds", &stranger], "refuses these credentials");
    // An agent's account cannot call a fleet, nor a conductor's be in one.
    refused(&["--nats-creds", &agent], "Permissions Violation");
    let flags = ["agent", "--fleet", &fleet, "--nats-creds", &conductor];
    let done = finish(prony(dir.path()).args(flags));
    assert_eq!(done.code, Some(4));
    assert!(
        done.stderr.contains("Permissions Violation"),
        "{}",
        done.stderr
    );
    let empty = file("empty", "");
    refused(&["--nats-creds", &empty], "neither a JWT nor a seed");
    refused(&["--nats-creds", "/nowhere/at/all"], "/nowhere/at/all");
}

#[test]
fn a_broker_with_tls_is_believed_by_its_certificate_and_believes_by_ours() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display().to_string();
    if !certificates(dir.path()) {
        eprintln!("skipped: no openssl here");
        return;
    }
    let config = format!(
        "tls {{ cert_file: \"{at}/server.pem\", key_file: \"{at}/server.key\", ca_file: \"{at}/ca.pem\", verify: true }}"
    );
    let Some((own, broker)) = lab(&config) else {
        return;
    };
    let fleet = broker.fleet("lab");
    let (ca, cert, key) = (
        format!("{at}/ca.pem"),
        format!("{at}/client.pem"),
        format!("{at}/client.key"),
    );
    let with = [
        "--fleet",
        &fleet,
        "--nats-ca",
        &ca,
        "--nats-cert",
        &cert,
        "--nats-key",
        &key,
    ];
    let _agents = Agents::start(own.path(), 1, &with);
    let done = check(own.path(), &[&with[..], &["--agents", "1"]].concat());
    assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
    // Without our certificate, and without belief in the broker's.
    for flags in [&with[..4], &["--fleet", &fleet]] {
        let done = check(own.path(), flags);
        assert_eq!(done.code, Some(4));
        assert!(done.stderr.contains("cannot be reached"), "{}", done.stderr);
    }
    // TLS that was asked for is not left out.
    let plain = Broker::start(own.path(), "").unwrap();
    let tls = plain.fleet("lab").replace("nats://", "tls://");
    let done = check(own.path(), &["--fleet", &tls]);
    assert_eq!(done.code, Some(4));
    assert!(done.stderr.contains("has TLS"), "{}", done.stderr);
}

/// An authority, a broker's certificate for loopback, and a client's.
fn certificates(dir: &Path) -> bool {
    let openssl = |args: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(dir).args(args.split(' '));
        command
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let authority = openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
    );
    fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    authority
        && ["server", "client"].iter().all(|who| {
            openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={who} -keyout {who}.key -out {who}.csr"
            )) && openssl(&format!(
                "x509 -req -in {who}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {who}.pem"
            ))
        })
}

#[test]
fn an_agent_of_another_build_is_refused() {
    let Some((dir, broker)) = lab("") else {
        return;
    };
    let fleet = broker.fleet("lab");
    // The linker's note, in a copy of the program.
    let mut program = fs::read(BINARY).unwrap();
    let mark = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let note = program
        .windows(mark.len())
        .position(|window| window == mark)
        .unwrap();
    program[note + mark.len()] ^= 1;
    let other = dir.path().join("other");
    fs::write(&other, program).unwrap();
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(&other);
    command
        .env("XDG_STATE_HOME", dir.path())
        .args(["agent", "--fleet", &fleet]);
    let _agent = Agents(vec![command.stderr(Stdio::null()).spawn().unwrap()]);
    let done = check(dir.path(), &["--fleet", &fleet, "--agents", "1"]);
    assert_eq!(done.code, Some(4), "{}\n{}", done.stdout, done.stderr);
    let host = &done.json()["hosts"][0];
    assert!(
        host["why"].as_str().unwrap().contains("another build"),
        "{host}"
    );
    assert!(
        host["remedy"]
            .as_str()
            .unwrap()
            .contains("install the same"),
        "{host}"
    );
}
