//! Real Pythons of every version that is installed, read while they run; nothing is checked where there is none.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use monitor::cpython::{GIL, Python, PythonError, Sampler, is_python};
use record::{Told, ToldState};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "
import sys, threading, time
lock, ready = threading.Lock(), threading.Condition()
def burn():
    number = 0
    while True:
        number = (number + 1) % 1000
def hold():
    with lock:
        time.sleep(1000)
def enter():
    with lock:
        pass
def signalled():
    with ready:
        ready.wait()
class Pool:
    def get(self):
        time.sleep(1000)
lock.acquire(); lock.release()
for one in [hold, enter, signalled, Pool().get] + [burn] * int(sys.argv[1]):
    threading.Thread(target=one, daemon=True).start()
    time.sleep(0.1)
print('ready', flush=True)
sys.stdin.read()
";

struct Running(Child);

impl Running {
    fn start(binary: &Path, burning: u32) -> Option<Self> {
        let mut child = Command::new(binary)
            .args(["-c", PROGRAM, &burning.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Self(child))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Interpreters of 3.9 to 3.13 in the places where they are installed, each version once.
fn installed() -> Vec<PathBuf> {
    let versions = ["3.9", "3.10", "3.11", "3.12", "3.13"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = Vec::new();
    for version in versions {
        let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let home = std::env::var_os("HOME")
            .map(PathBuf::from)
            .unwrap_or_default();
        let built = std::fs::read_dir(home.join(".pyenv/versions"));
        places.extend(
            built
                .into_iter()
                .flatten()
                .flatten()
                .map(|one| one.path().join("bin")),
        );
        // A shim is a script that may start another version.
        let binary = |place: PathBuf| place.join(format!("python{version}"));
        let real =
            |path: &PathBuf| std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
        found.extend(places.into_iter().map(binary).find(real));
    }
    found
}

/// What a thread is told to do that is in a function, once it is.
fn told(python: &mut Python, function: &str) -> Told {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let threads = python.look().unwrap();
        let found = threads.into_iter().find(|(_, told)| {
            told.frames
                .iter()
                .any(|frame| frame.split(" (").next() == Some(function))
        });
        if let Some((_, told)) = found {
            return told;
        }
        assert!(Instant::now() < end, "no thread is in {function}");
    }
}

#[test]
fn threads_are_told_by_function_and_by_what_they_wait_for() {
    for binary in installed() {
        let Some(running) = Running::start(&binary, 0) else {
            continue;
        };
        assert!(is_python(running.pid()));
        let mut python = Python::open(running.pid()).unwrap_or_else(|e| panic!("{binary:?}: {e}"));
        assert_eq!(
            told(&mut python, "enter").state,
            ToldState::Lock,
            "{binary:?}"
        );
        assert_eq!(
            told(&mut python, "signalled").state,
            ToldState::Signal,
            "{binary:?}"
        );
        assert_eq!(
            told(&mut python, "hold").state,
            ToldState::Sleep,
            "{binary:?}"
        );
        let held = told(&mut python, "hold");
        let own = held.own.map(|at| held.frames[at as usize].as_str());
        let named = own.is_some_and(|frame| frame.starts_with("hold ("));
        assert!(named, "{binary:?}: {held:?}");
        let names = told(&mut python, "signalled").frames;
        assert!(
            names.iter().any(|name| name.contains("(threading.py:")),
            "{names:?}"
        );
        // Versions before 3.11 keep no qualified names.
        let method = ["Pool.get", "get"].map(|name| name.to_owned());
        let threads = python.look().unwrap();
        let all: Vec<&str> = threads
            .iter()
            .filter_map(|(_, t)| t.frames[0].split(" (").next())
            .collect();
        assert!(
            method.iter().any(|name| all.contains(&name.as_str())),
            "{all:?}"
        );
        assert_eq!(python.gil().unwrap().holder, None, "nobody runs");
    }
}

#[test]
fn a_lock_that_all_want_is_held_all_the_time_by_one_of_them() {
    for binary in installed() {
        let Some(running) = Running::start(&binary, 3) else {
            continue;
        };
        let python = Python::open(running.pid()).unwrap();
        let sampler = Sampler::start(vec![("app".to_owned(), python)]);
        let began = Instant::now();
        // Long enough for some dozen looks on a machine that does other things; nothing is asserted of how many.
        while began.elapsed() < Duration::from_millis(400) {
            std::thread::yield_now();
        }
        let gathered = sampler.end();
        let lock = gathered.asked[0].lock.clone().unwrap();
        assert!(lock.held_share > 0.5, "{binary:?}: {lock:?}");
        assert!(lock.switches_per_s > 1.0, "{binary:?}: {lock:?}");
        let of = |state: ToldState| {
            let told = gathered.samples.told().iter();
            told.filter(move |told| told.state == state)
                .collect::<Vec<_>>()
        };
        assert!(
            of(ToldState::Running)
                .iter()
                .any(|told| told.frames[0].starts_with("burn ("))
        );
        let waiting = of(ToldState::Lock);
        let mut waiting = waiting.iter().filter(|told| told.object == GIL);
        assert!(
            waiting.any(|told| told.owner.starts_with("the thread in burn (")),
            "{binary:?}"
        );
    }
}

#[test]
fn who_is_no_python_or_has_ended_is_refused() {
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = i32::try_from(sleeper.id()).unwrap();
    assert!(!is_python(pid));
    assert!(matches!(Python::open(pid), Err(PythonError::NotPython(of)) if of == pid));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(Python::open(pid).is_err());
    let Some(binary) = installed().pop() else {
        return;
    };
    let Some(running) = Running::start(&binary, 1) else {
        return;
    };
    let mut python = Python::open(running.pid()).unwrap();
    drop(running);
    assert!(python.look().is_err() && python.gil().is_err());
}
