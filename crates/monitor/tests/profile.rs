//! The profiler on real programs: nginx as a distribution builds it, an interpreter, and what is not there.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic as tests do, and say what is left out"
)]

use monitor::probe::ProbeTarget;
use monitor::profile::{ProfileConfig, Profiled, Profiler};
use record::{LoadSpec, Profile, ProfileKind, Stack, WaitState};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn config(kind: ProfileKind, hz: u32, pid: i32) -> ProfileConfig {
    ProfileConfig {
        targets: vec![ProbeTarget {
            target: "server".to_owned(),
            pids: vec![pid],
            listens: Vec::new(),
            ..ProbeTarget::default()
        }],
        kind,
        hz,
    }
}

/// `None`, and a word about it, where the kernel gives no profile to these tests.
fn start(config: &ProfileConfig) -> Option<Profiler> {
    match Profiler::start(config) {
        Ok(profiler) => Some(profiler),
        Err(no) => {
            assert!(no.reason.contains("perf_event_open"), "{no:?}");
            println!("left out: {}: {}", no.what, no.reason);
            None
        }
    }
}

fn symbols<'a>(profile: &'a Profile, stack: &Stack) -> Vec<&'a str> {
    let frames = stack.frames.iter();
    frames
        .map(|&frame| profile.frames[frame as usize].symbol.as_str())
        .collect()
}

struct Nginx {
    child: Child,
    dir: TempDir,
    port: u16,
}

impl Nginx {
    /// `None`, and a word about it, where there is no nginx.
    fn start() -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = TempDir::new().unwrap();
        std::fs::write(dir.path().join("file"), vec![b'x'; 100_000]).unwrap();
        let at = dir.path().display();
        let conf = format!(
            "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\n\
             events {{}}\nhttp {{ access_log off; sendfile on; server {{ listen 127.0.0.1:{port}; root {at}; }} }}\n"
        );
        std::fs::write(dir.path().join("conf"), conf).unwrap();
        // The worker runs as another user, who has to reach the file.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).unwrap();
        let nginx = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
        let Some(nginx) = nginx.into_iter().find(|path| Path::new(path).exists()) else {
            println!("left out: there is no nginx");
            return None;
        };
        let conf = dir.path().join("conf");
        let child = Command::new(nginx).arg("-c").arg(conf).spawn().unwrap();
        let nginx = Self { child, dir, port };
        nginx.wait_until_it_answers();
        Some(nginx)
    }

    fn wait_until_it_answers(&self) {
        let began = Instant::now();
        while self.get().is_none() {
            let log = std::fs::read_to_string(self.dir.path().join("error.log"));
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(20), "no answer: {log:?}");
            std::thread::yield_now();
        }
    }

    fn get(&self) -> Option<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.write_all(b"GET /conf HTTP/1.0\r\n\r\n").ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        line.contains(" 200 ").then_some(())
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn load(&self, requests: u64) {
        let mut spec = LoadSpec::new(format!("http://127.0.0.1:{}/file", self.port));
        spec.connections = 4;
        spec.requests = Some(requests);
        spec.duration = None;
        let outcome = traffic::Load::prepare(&spec)
            .unwrap()
            .start()
            .unwrap()
            .finish();
        assert_eq!(outcome.requests.completed, requests, "{outcome:?}");
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to end, and leaves them behind when it is killed.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn reached_the_root(profiled: &Profiled) -> f64 {
    let profile = &profiled.profile;
    let root = |stack: &&Stack| {
        let root = symbols(profile, stack).first().copied().unwrap_or_default();
        ["_start", "__libc_start", "clone", "__clone"]
            .iter()
            .any(|name| root.starts_with(name))
    };
    let weight = |stacks: &mut dyn Iterator<Item = &Stack>| -> u64 {
        stacks.map(|stack| stack.weight).sum()
    };
    let whole = weight(&mut profile.stacks.iter().filter(root));
    whole as f64 / weight(&mut profile.stacks.iter()).max(1) as f64
}

#[test]
fn stacks_of_a_stripped_server_reach_from_its_start_into_the_kernel() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(profiler) = start(&config(ProfileKind::OnCpu, 499, nginx.pid())) else {
        return;
    };
    nginx.load(10_000);
    let profiled = profiler.stop();
    let profile = &profiled.profile;
    assert!(profile.samples >= 20, "{} samples", profile.samples);
    let weights: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    assert_eq!(weights, profile.samples);
    let unwound = profile.unwound as f64 / profile.samples as f64;
    assert!(unwound >= 0.95, "{unwound} unwound");
    let whole = reached_the_root(&profiled);
    assert!(whole >= 0.95, "{whole} reached the root: {profile:?}");
    let named = |wanted: &str, kernel: bool| {
        let mut frames = profile.frames.iter();
        frames.any(|frame| frame.kernel == kernel && frame.symbol.contains(wanted))
    };
    assert!(named("ngx_", false), "{:?}", profile.frames);
    let hidden = profiled.unavailable.iter();
    if !hidden.clone().any(|gap| gap.what.contains("kernel")) {
        let seen = named("sendfile", true) || named("tcp_", true);
        assert!(seen, "{:?}", profile.frames);
    }
    assert!(profile.stacks.iter().all(|stack| stack.thread == "nginx"));
    assert!(profile.stacks.iter().all(|stack| stack.target == "server"));
    assert!(profiled.cost.events > 0);
    assert!(profiled.cost.measured_ns > Some(0));
}

#[test]
fn a_server_without_work_waits_in_its_event_loop() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(profiler) = start(&config(ProfileKind::OffCpu, 0, nginx.pid())) else {
        return;
    };
    for _ in 0..20 {
        nginx.get().expect("it answered before");
    }
    let profiled = profiler.stop();
    let profile = &profiled.profile;
    let mut waits = profile.stacks.iter().filter(|stack| {
        let symbols = symbols(profile, stack);
        symbols.contains(&"epoll_wait") && stack.weight > 0
    });
    let wait = waits.next().expect("the worker waited for each request");
    if profile
        .frames
        .iter()
        .any(|frame| frame.symbol.contains("ep"))
    {
        assert_eq!(wait.state, Some(WaitState::Sleeping), "{wait:?}");
    }
}

#[test]
fn an_interpreter_that_has_ended_still_shows_its_frames() {
    let script = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n\
                  def busy():\n  for x in range(8_000_000): x * x\nbusy()\n";
    let python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("left out: there is no python3");
        return;
    };
    let mut ready = String::new();
    let mut output = BufReader::new(python.stdout.take().expect("it is piped"));
    output.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let pid = python.id() as i32;
    let profiler = start(&config(ProfileKind::OnCpu, 499, pid));
    python
        .stdin
        .take()
        .expect("it is piped")
        .write_all(b"\n")
        .unwrap();
    python.wait().unwrap();
    let Some(profiler) = profiler else { return };
    let profile = profiler.stop().profile;
    let interpreted = profile.stacks.iter().filter(|stack| {
        let symbols = symbols(&profile, stack);
        symbols.iter().any(|symbol| symbol.contains("Py"))
    });
    let interpreted: u64 = interpreted.map(|stack| stack.weight).sum();
    assert!(profile.samples > 10, "{} samples", profile.samples);
    assert!(interpreted * 10 > profile.samples * 8, "{profile:?}");
}

#[test]
fn a_process_that_does_not_exist_is_said_to_be_missing() {
    let gone = config(ProfileKind::OnCpu, 99, i32::MAX - 1);
    let Err(no) = Profiler::start(&gone) else {
        panic!("there is nothing to profile");
    };
    assert!(no.reason.contains("none of the processes"), "{no:?}");

    let mut both = gone;
    both.targets[0].pids.push(std::process::id() as i32);
    let Some(profiler) = start(&both) else { return };
    let profiled = profiler.stop();
    let gaps = profiled.unavailable.iter();
    let gaps: Vec<_> = gaps
        .filter(|gap| gap.reason.contains("no such process"))
        .collect();
    assert_eq!(gaps.len(), 1, "{:?}", profiled.unavailable);
}
