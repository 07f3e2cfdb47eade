//! Targets on a host of their own, end to end: an agent in a network namespace starts, watches and stops them, and
//! leaves nothing, whatever ends first.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "in a test, helpers included, a panic is the report; a skipped one says why"
)]

mod common;
#[path = "common/wires.rs"]
mod wires;

use common::{Finished, finish, finish_child, signal, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wires::{PRONY, Wire};

/// One run at a time: they would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// Two hosts: prony's, and one that is reached by a command.
struct Hosts {
    wire: Wire,
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Hosts {
    /// `None`, with the reason said, where the system allows no namespaces.
    fn make() -> Option<Self> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let wire = Wire::veth("targets", "")?;
        let dir = tempfile::tempdir().unwrap();
        for state in ["here", "there"] {
            fs::create_dir(dir.path().join(state)).unwrap();
        }
        Some(Self {
            wire,
            dir,
            _alone: alone,
        })
    }

    fn state(&self, of: &str) -> PathBuf {
        self.dir.path().join(of)
    }

    /// `[host.far]`, where prony is started with these words behind the program's name; empty: as the conductor says.
    fn far(&self, words: &str) -> String {
        let there = self.state("there").display().to_string();
        let run = match words {
            "" => "exec \"$@\"".to_owned(),
            words => format!("exec {PRONY} {words}"),
        };
        let environment = format!("export XDG_STATE_HOME={there} TMPDIR={there} FAR=1; {run}");
        let via = [
            "ip",
            "netns",
            "exec",
            &self.wire.kernel,
            "sh",
            "-c",
            &environment,
            "sh",
        ];
        format!("[host.far]\nvia = {via:?}\nbinary = \"{PRONY}\"\n")
    }

    /// `prony run` of an experiment, where the generator is.
    fn run(&self, experiment: &str) -> Command {
        let file = self.dir.path().join("experiment.toml");
        fs::write(&file, experiment).unwrap();
        let record = self.dir.path().join("record");
        let _ = fs::remove_dir_all(&record);
        let mut command = self.wire.stacks(PRONY);
        command
            .env("XDG_STATE_HOME", self.state("here"))
            .env("TMPDIR", self.state("here"))
            .stdin(Stdio::null())
            .args(["run", "--json"])
            .arg(file)
            .arg("--out")
            .arg(record);
        command
    }

    /// The same for one closed loop on `target`, whose keys beside its host are these.
    fn one(&self, target: &str, measure: &str) -> Command {
        self.run(&format!(
            "question = \"Does it run there?\"\n[target.web]\nhost = \"far\"\nlisten = \"10.9.0.1:8080\"\n{target}\n\
             [load]\nurl = \"http://web/\"\nconnections = 4\n\
             [design]\nrepeats = 1\nmeasure = \"{measure}\"\nwarmup = \"0s\"\nexamine = false\n{}",
            self.far("")
        ))
    }

    /// Processes in the namespace of the other host.
    fn there(&self) -> Vec<u32> {
        let mut pids = Command::new("ip");
        let pids = finish(pids.args(["netns", "pids", &self.wire.kernel])).stdout;
        pids.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Nothing of ours runs there, and no directory of a target's is left.
    fn expect_nothing_there(&self) {
        wait_until("nothing runs there", || self.there().is_empty());
        let left = fs::read_dir(self.state("there")).unwrap().flatten();
        let left = left.map(|entry| entry.file_name().into_string().unwrap());
        let left: Vec<String> = left.filter(|name| name != "prony").collect();
        assert_eq!(left, [""; 0]);
    }

    /// A run under way, whose target on the other host serves.
    fn at_work(&self) -> Child {
        let child = self
            .one("origin = {}", "90s")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the load is under way", || {
            let sockets = "ss -Htn state established sport = :8080";
            // Those of the load: one alone may ask whether it is ready.
            finish(&mut self.wire.kernels(sockets))
                .stdout
                .lines()
                .count()
                >= 4
        });
        child
    }

    fn agent(&self) -> u32 {
        let is_agent = |pid: &u32| {
            let argv = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            argv.starts_with(PRONY.as_bytes()) && argv.ends_with(b"agent\0--allow\0target\0")
        };
        self.there().into_iter().find(is_agent).unwrap()
    }
}

fn trials(document: &Value) -> &Vec<Value> {
    document["trials"].as_array().unwrap()
}

fn why(done: &Finished) -> String {
    let document = done.json();
    let why = trials(&document)[0]["verdict"]["why"].as_str();
    why.unwrap_or_else(|| panic!("{document}")).to_owned()
}

/// A proxy on this host, its backend with these keys.
fn proxied(backend: &str, host: &str) -> String {
    format!(
        "question = \"Does the proxy cost a request?\"\n\
         [target.backend]\norigin = {{ delay = \"10ms\", body = \"1KiB\" }}\n{backend}\n\
         files = {{ \"about.txt\" = {{ text = \"sent along\" }} }}\n\
         [target.proxy]\nadapter = \"nginx\"\ntemplate = \"proxy.conf\"\n\
         [factor]\nthrough = [\"direct\", \"proxy\"]\n\
         [load]\nurl = {{ direct = \"http://backend/\", proxy = \"http://proxy/\" }}\nconnections = 8\n\
         [design]\nbaseline = {{ through = \"direct\" }}\nrepeats = 1\nmeasure = \"1s\"\nwarmup = \"200ms\"\n{host}"
    )
}

const PROXY: &str = "daemon off;\nmaster_process on;\nworker_processes 1;\npid {{root}}/pid;\nerror_log stderr;\n\
    events {}\nhttp {\naccess_log off;\n upstream b { server {{backend}}; keepalive 32; }\n\
    server { listen {{listen}}; location / { proxy_http_version 1.1; proxy_set_header Connection \"\";\n\
    proxy_pass http://b; } }\n}\n";

#[test]
fn a_backend_on_a_host_of_its_own_is_measured_and_watched_there() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    if !wires::has("nginx") && !Path::new("/usr/sbin/nginx").exists() {
        return;
    }
    fs::write(hosts.dir.path().join("proxy.conf"), PROXY).unwrap();
    let far = "host = \"far\"\nlisten = \"10.9.0.1:0\"";
    let there = finish(&mut hosts.run(&proxied(far, &hosts.far(""))));
    hosts.expect_nothing_there();
    let trial_files = |id: usize| {
        let file = hosts
            .dir
            .path()
            .join(format!("record/trials/{id:04}/trial.json"));
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{e}: {}", there.stderr));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    for id in 0..2 {
        let trial = trial_files(id);
        let targets = trial["targets"].as_array().unwrap();
        let backend = targets.iter().find(|t| t["name"] == "backend").unwrap();
        assert_eq!(backend["host"]["name"], "far", "{trial}");
        assert_eq!(backend["host"]["is_this_machine"], true);
        assert!(backend["processes"][0]["pid"].as_u64().unwrap() > 0);
        assert!(
            backend["requests_counted"].as_u64().unwrap() > 0,
            "{backend}"
        );
        // What could not be looked at there is said, and why.
        let gaps = trial["unavailable"].as_array().unwrap();
        let gap = gaps
            .iter()
            .find(|gap| gap["what"] == "signature and profiles of `backend`");
        let reason = gap.unwrap()["reason"].as_str().unwrap();
        assert!(reason.contains("it ran on host far"), "{reason}");
    }
    let series = hosts.dir.path().join("record/trials/0000/series.json");
    let series: Value = serde_json::from_str(&fs::read_to_string(series).unwrap()).unwrap();
    let of_backend = series.as_array().unwrap().iter().filter(|s| {
        s["labels"]["target"] == "backend" && s["signal"].as_str().unwrap().starts_with("thread.")
    });
    assert!(of_backend.count() > 0, "its threads were watched");
    // The same with the backend beside the proxy: whose host it is changes no verdict.
    let near = proxied("listen = \"127.0.0.1:0\"", "examine = false\n");
    let near = finish(&mut hosts.run(&near));
    let verdicts = |done: &Finished| -> Vec<(Value, Value, Value)> {
        let document = done.json();
        let mut all: Vec<_> = trials(&document)
            .iter()
            .map(|t| {
                let verdict = &t["verdict"];
                let of = |field: &str| verdict[field].clone();
                (t["levels"]["through"].clone(), of("valid"), of("limit"))
            })
            .collect();
        all.sort_by_key(|(through, ..)| through.to_string());
        all
    };
    assert_eq!(verdicts(&there), verdicts(&near), "{}", there.stderr);
    for trial in trials(&there.json()) {
        assert!(
            trial["target_cpu_us_per_request"].as_f64().unwrap() > 0.0,
            "{trial}"
        );
    }
}

#[test]
fn what_stands_in_the_way_there_is_said_with_its_remedy() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    let refused = |mut command: Command, words: &[&str]| {
        let done = finish(&mut command);
        assert_eq!(done.code, Some(4), "{}{}", done.stdout, done.stderr);
        for word in words.iter().chain(&["remedy:"]) {
            assert!(done.stderr.contains(word), "{word}: {}", done.stderr);
        }
        hosts.expect_nothing_there();
    };
    refused(
        hosts.one("command = [\"no-such-server\", \"{{port}}\"]", "1s"),
        &["host far: cannot start target `web`: no-such-server is not installed"],
    );
    refused(
        hosts.one("origin = {}\ncpus = [4000]", "1s"),
        &["host far: ", "4000"],
    );
    // What is planned where is told without a word to the host.
    let done = finish(hosts.one("origin = {}", "1s").arg("--dry-run"));
    let planned = "targets on other hosts: web on far";
    assert!(
        done.stdout.contains(planned),
        "{}{}",
        done.stdout,
        done.stderr
    );
    // Whoever may only load may not start programs.
    let text = fs::read_to_string(hosts.dir.path().join("experiment.toml")).unwrap();
    let text = text.replace(&hosts.far(""), &hosts.far("agent --allow load"));
    refused(hosts.run(&text), &["may not run targets", "--allow target"]);
    let text = text.replace("exec ", "echo no way there >&2; exit 255; ");
    refused(hosts.run(&text), &["reaching host far: no way there"]);
}

#[test]
fn a_target_that_cannot_be_or_ends_there_makes_its_trial_not_valid() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    let not_valid = |mut command: Command, words: &[&str]| {
        let done = finish(&mut command);
        assert_eq!(done.code, Some(3), "{}{}", done.stdout, done.stderr);
        let why = why(&done);
        for word in words {
            assert!(why.contains(word), "{word}: {why}");
        }
        hosts.expect_nothing_there();
    };
    let mut holder = (hosts.wire)
        .kernels(&format!("{PRONY} origin --listen 10.9.0.1:8080"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the port is taken", || {
        let listens = "ss -Hltn sport = :8080";
        !finish(&mut hosts.wire.kernels(listens)).stdout.is_empty()
    });
    let done = finish(&mut hosts.one("origin = {}", "1s"));
    assert!(
        why(&done).contains("10.9.0.1:8080 is in use by pid"),
        "{}",
        why(&done)
    );
    wires::end(&mut holder, "-INT");
    not_valid(
        hosts.one(
            "command = [\"sh\", \"-c\", \"echo no license >&2; exit 7\"]",
            "1s",
        ),
        &[
            "host far: target `web` ended while it was starting (exit status: 7); it said: no license",
        ],
    );
    let dies = format!(
        "command = [\"timeout\", \"-s\", \"KILL\", \"3\", \"{PRONY}\", \"origin\", \"--listen\", \"{{{{listen}}}}\"]"
    );
    not_valid(
        hosts.one(&dies, "60s"),
        &["target `web` exited under load: ", "signal: 9"],
    );
}

#[test]
fn nothing_is_left_there_when_the_agent_is_killed() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    let child = hosts.at_work();
    signal(hosts.agent(), "KILL");
    let done = finish_child(child);
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    let why = why(&done);
    assert!(why.starts_with("host far was lost under load"), "{why}");
    // What the killed one's journal says is undone by the one that is started at the end.
    hosts.expect_nothing_there();
}

#[test]
fn nothing_is_left_there_when_the_conductor_is_killed_or_stopped() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    for end in ["KILL", "STOP"] {
        let mut child = hosts.at_work();
        signal(child.id(), end);
        // A stopped one is silent: its agent's lease ends before the load would.
        hosts.expect_nothing_there();
        signal(child.id(), "KILL");
        child.wait().unwrap();
    }
}

#[test]
fn ctrl_c_ends_a_target_there_and_keeps_what_was_measured() {
    let Some(hosts) = Hosts::make() else {
        return;
    };
    let child = hosts.at_work();
    signal(child.id(), "INT");
    let done = finish_child(child);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    hosts.expect_nothing_there();
}
