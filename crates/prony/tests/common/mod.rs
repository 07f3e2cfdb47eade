//! What the end-to-end tests share: the built binary, a running origin, and bounded waiting.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "in a test, helpers included, a panic is the report"
)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time that any command of a test may take before the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// The binary under test, with a journal of its own so that tests do not see each other.
pub fn prony(state: &Path) -> Command {
    std::fs::create_dir_all(state).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
    command
        .env("XDG_STATE_HOME", state)
        .env("TMPDIR", state)
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    command
}

/// A finished command.
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    fn from(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs to the end; kills and fails the test when that takes too long.
pub fn finish(command: &mut Command) -> Finished {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish_child(child)
}

/// The same for a command that runs already.
pub fn finish_child(child: Child) -> Finished {
    finish_interrupted(child, |_| false)
}

/// As `finish_child`, with an interrupt at the first line of standard error that is so. Both pipes are read all the
/// time: a command waits for whoever leaves one full.
pub fn finish_interrupted(
    mut child: Child,
    at: impl Fn(&str) -> bool + Send + 'static,
) -> Finished {
    let out = drain(child.stdout.take().unwrap());
    let (id, mut errors) = (child.id(), BufReader::new(child.stderr.take().unwrap()));
    let err = std::thread::spawn(move || {
        let (mut bytes, mut seen, mut sent) = (Vec::new(), 0, false);
        while errors.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            if !sent && at(&String::from_utf8_lossy(&bytes[seen..])) {
                signal(id, "INT");
                sent = true;
            }
            seen = bytes.len();
        }
        bytes
    });
    wait_until("a command ends", || child.try_wait().unwrap().is_some());
    Finished::from(&Output {
        status: child.wait().unwrap(),
        stdout: out.join().unwrap(),
        stderr: err.join().unwrap(),
    })
}

fn drain(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        bytes
    })
}

/// Waits for a condition, without a fixed sleep deciding anything.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// `prony origin` on a free port, ended on drop.
pub struct Origin {
    child: Child,
    pub url: String,
}

impl Origin {
    pub fn start(state: &Path, flags: &[&str]) -> Self {
        let mut command = prony(state);
        command
            .args(["origin", "--listen", "127.0.0.1:0"])
            .args(flags);
        Self::of(command)
    }

    /// Starts `command`, which is an origin's, and waits for its address.
    pub fn of(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stderr.as_mut().unwrap())
            .read_line(&mut first)
            .unwrap();
        let url = first
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .unwrap_or_else(|| panic!("no address in `{first}`"))
            .to_owned();
        Self { child, url }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real server of the test's own on a free port, ended on drop.
pub struct Real {
    child: Child,
    pub port: u16,
}

impl Real {
    /// A script for Python that prints its port on its first line and ends with its standard input; it stands on
    /// `library`, a package of Debian's.
    pub fn python(script: &str, library: &str) -> Self {
        let mut child = Command::new("/usr/bin/python3")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It complains of connections that the end of a load cuts.
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port = line.trim().parse();
        let port = port.unwrap_or_else(|_| panic!("{library}, which `make test` installs: {line}"));
        Self::listening("the script", child, port)
    }

    /// nginx in `home`, by the configuration that `config` makes for its port.
    pub fn nginx(home: &Path, config: impl FnOnce(u16) -> String) -> Self {
        // Free a moment ago; should somebody else take it first, nginx says so and ends.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        fs::write(home.join("nginx.conf"), config(port)).unwrap();
        let child = Command::new("nginx")
            .args(["-p", home.to_str().unwrap(), "-c", "nginx.conf"])
            .args(["-e", "error.log"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self::listening("nginx", child, port)
    }

    fn listening(name: &str, mut child: Child, port: u16) -> Self {
        wait_until(&format!("{name} listens"), || {
            assert_eq!(child.try_wait().unwrap(), None, "{name} has ended");
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self { child, port }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

/// Sends a signal to one process that the test started.
pub fn signal(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{signal}"), &pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Processes that work below this test's state directory, hold a file in it open, or whose environment names it: prony
/// and its children (nginx overwrites its environment, and a copy works where its original does).
pub fn ours(state: &Path) -> Vec<i32> {
    let mark = format!("XDG_STATE_HOME={}", state.display());
    let leads_there = |link: &Path| fs::read_link(link).is_ok_and(|path| path.starts_with(state));
    let works_there = |pid: &i32| {
        let open = fs::read_dir(format!("/proc/{pid}/fd"));
        leads_there(Path::new(&format!("/proc/{pid}/cwd")))
            || open.is_ok_and(|all| all.flatten().any(|fd| leads_there(&fd.path())))
    };
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|&b| b == 0)
                .any(|variable| variable == mark.as_bytes())
                || works_there(pid)
        })
        .filter(|pid| {
            // A zombie has ended; only its parent has not yet looked.
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .trim()
                .starts_with('Z')
        })
        .collect()
}

/// Neither the value nor anything in it is a number.
pub fn holds_no_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => false,
        Value::Array(all) => all.iter().all(holds_no_number),
        Value::Object(all) => all.values().all(holds_no_number),
        _ => true,
    }
}
