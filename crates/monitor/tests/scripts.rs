//! Real interpreters, of Python every version that is installed, read while they run; nothing is checked of one that is
//! not there.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use monitor::scripts::{self, GIL, Interpreter, Language, Python, ReadError, Sampler};
use record::{SourceLine, Told, ToldState};
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

/// The same program in three languages: a function of the application that calls a library's, which calls one that
/// burns, or sleeps.
const PHP: (&str, &str) = (
    "shop.php",
    "<?php
require __DIR__ . '/vendor/lib/Router.php';
class Page {
    function burn() { $n = 0; while (true) { $n = ($n + 1) % 1000; } }
    function show($what) { $what === 'burn' ? $this->burn() : sleep(1000); }
}
Router::call(fn() => (new Page)->show($argv[1]));
",
);
const PERL: (&str, &str) = (
    "shop.pl",
    "use FindBin; use lib \"$FindBin::Bin/vendor_perl\"; use Router;
sub burn { my $n = 0; while (1) { $n = ($n + 1) % 1000; } }
sub show { my $what = shift;
    $what eq 'burn' ? burn() : sleep(1000); }
our $what = $ARGV[0];
Router::call(sub { show($what); 1 });
",
);
const RUBY: (&str, &str) = (
    "shop.rb",
    "require_relative 'gems/router-1.0/lib/router'
class Page
  def burn; n = 0; n = (n + 1) % 1000 while true; end
  def show(what)
    what == 'burn' ? burn : sleep(1000)
  end
end
Thread.new { Router.call { Page.new.show(ARGV[0]); 1 } }
Thread.new { n = 0; n = (n + 1) % 1000 while true } if ARGV[0] == 'burn'
def shut(queue)
  queue.pop
end
Thread.new { shut(Queue.new) }
$stdin.read
",
);
const LIBRARIES: [(&str, &str); 3] = [
    (
        "vendor/lib/Router.php",
        "<?php class Router { static function call($f) { echo \"ready\\n\"; return $f(); } }\n",
    ),
    (
        "vendor_perl/Router.pm",
        "package Router; sub call { $| = 1; print \"ready\\n\"; my $r = $_[0]->(); return $r }\n1;\n",
    ),
    (
        "gems/router-1.0/lib/router.rb",
        "class Router; def self.call; puts 'ready'; $stdout.flush; r = yield; return r; end; end\n",
    ),
];

struct Running(Child);

impl Running {
    fn start(binary: &Path, burning: u32) -> Option<Self> {
        let mut command = Command::new(binary);
        command.args(["-c", PROGRAM, &burning.to_string()]);
        Self::of(command)
    }

    /// A program, once it says that it is ready; `None` where it is not installed.
    fn of(mut command: Command) -> Option<Self> {
        let mut child = command
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
fn told(interpreter: &mut dyn Interpreter, function: &str) -> Told {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let threads = interpreter.look().unwrap();
        let found = threads.into_iter().find(|(_, told)| {
            told.frames.iter().any(|frame| {
                let name = frame.split(" (").next().unwrap_or_default();
                name.rsplit("::").next() == Some(function)
            })
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
        assert_eq!(scripts::found_in(running.pid()), [Language::Python]);
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
        let mut python = Python::open(running.pid()).unwrap();
        // The one that has the lock is met by itself too; a thread that gives it on may move while it is read.
        let met = (0..1_000).find_map(|_| {
            let holder = python.gil().unwrap().holder?;
            python.at_lock(holder).ok().flatten()
        });
        let (tid, told) = met.unwrap_or_else(|| panic!("{binary:?}: nobody"));
        assert_eq!(told.state, ToldState::Running);
        assert!(told.frames[0].starts_with("burn ("), "{binary:?}: {told:?}");
        let task = format!("/proc/{}/task/{tid}", running.pid());
        assert!(std::path::Path::new(&task).exists(), "{binary:?}: {task}");
        let sampler = Sampler::start(vec![("app".to_owned(), Box::new(python))]);
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
    assert_eq!(scripts::found_in(pid), []);
    for language in [
        Language::Python,
        Language::Php,
        Language::Perl,
        Language::Ruby,
    ] {
        let refused = scripts::open(language, pid);
        assert!(matches!(refused, Err(ReadError::Absent { pid: of, .. }) if of == pid));
    }
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

/// Runs one of the programs above in a directory of its own.
fn script_of(
    binary: &str,
    (file, text): (&str, &str),
    what: &str,
) -> Option<(tempfile::TempDir, Running)> {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in LIBRARIES.iter().chain(&[(file, text)]) {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let mut command = Command::new(binary);
    command.arg(directory.path().join(file)).arg(what);
    Some((directory, Running::of(command)?))
}

/// What such a program is told to do where a function is met.
fn script(language: Language, binary: &str, program: (&str, &str), what: &str) -> Option<Told> {
    let (_directory, running) = script_of(binary, program, what)?;
    assert_eq!(scripts::found_in(running.pid()), [language]);
    let opened = scripts::open(language, running.pid());
    let mut interpreter = opened.unwrap_or_else(|e| panic!("{binary}: {e}"));
    let function = if what == "burn" { "burn" } else { "show" };
    Some(told(interpreter.as_mut(), function))
}

#[test]
fn threads_of_a_ruby_wait_for_its_lock_or_for_each_other() {
    let Some(running) = script_of("ruby", RUBY, "burn") else {
        return;
    };
    let mut ruby = scripts::open(Language::Ruby, running.1.pid()).unwrap();
    // Of two that burn one has the lock; a queue that stays empty is waited for without it.
    let end = Instant::now() + Duration::from_secs(20);
    let mut met = [false; 3];
    while met != [true; 3] {
        for (_, told) in ruby.look().unwrap() {
            if ["burn ", "block in <main>"]
                .iter()
                .any(|own| told.frames[0].starts_with(own))
            {
                met[0] |= told.state == ToldState::Running;
                met[1] |= told.object == GIL;
            }
            let mut frames = told.frames.iter();
            let shut = frames.any(|frame| frame.starts_with("shut "));
            met[2] |= shut && told.state == ToldState::Signal;
        }
        assert!(Instant::now() < end, "{met:?}");
    }
}

#[test]
fn functions_of_scripts_have_names_places_and_an_application() {
    for (language, binary, program, names) in [
        (
            Language::Php,
            "php",
            PHP,
            [
                "Page::burn (shop.php:4)",
                "Page::show (shop.php:5)",
                "Router::call (lib/Router.php:1)",
                "main (shop.php:1)",
            ],
        ),
        (
            Language::Perl,
            "perl",
            PERL,
            [
                "burn (shop.pl:2)",
                "show (shop.pl:3)",
                "call (Router.pm:1)",
                "main (shop.pl:1)",
            ],
        ),
        (
            Language::Ruby,
            "ruby",
            RUBY,
            [
                "burn (shop.rb:3)",
                "show (shop.rb:4)",
                "call (router.rb:1)",
                "block in <main> (shop.rb:8)",
            ],
        ),
    ] {
        let class = |name: &str| name.replace("Page::", "").replace("Router::", "");
        let Some(burns) = script(language, binary, program, "burn") else {
            continue;
        };
        assert_eq!(burns.runtime, language.runtime());
        let waits = burns.state == ToldState::Lock && burns.object == GIL;
        let may = burns.state == ToldState::Running || (waits && language == Language::Ruby);
        assert!(may, "{burns:?}");
        // The functions in their order; between them lie those that have no name of their own.
        let frames: Vec<String> = burns.frames.iter().map(|f| class(f)).collect();
        let mut rest = frames.iter();
        for name in names {
            assert!(rest.any(|frame| *frame == class(name)), "{name}: {burns:?}");
        }
        if language == Language::Php {
            assert_eq!(burns.frames[0], names[0]);
        }
        // What the library called, and not what called the library.
        assert_eq!(burns.own, Some(0), "{burns:?}");
        let sleeps = script(language, binary, program, "sleep").unwrap();
        assert!(
            sleeps
                .frames
                .iter()
                .any(|frame| class(frame) == class(names[1])),
            "{sleeps:?}"
        );
    }
}

/// A function that sleeps on the line after many others, so that its table of lines is long.
fn long(begin: &str, filler: &str, sleep: &str, end: &str) -> (String, SourceLine) {
    let line = SourceLine {
        number: FILLED + 2,
        text: sleep.trim().to_owned(),
    };
    let fillers = format!("{filler}\n").repeat(FILLED as usize);
    (format!("{begin}\n{fillers}{sleep}\n{end}\n"), line)
}

const FILLED: u32 = 300;

#[test]
fn the_line_that_a_function_is_at_is_told_with_its_text() {
    let python = long(
        "def page(n):",
        "    n = n + 1",
        "    time.sleep(1000)",
        "import time\nprint('ready', flush=True)\npage(1)",
    );
    let php = long(
        "<?php function page($n) {",
        "$n = $n + 1;",
        "  sleep(1000); }",
        "echo \"ready\\n\"; page(1);",
    );
    let perl = long(
        "sub page { my $n = 1;",
        "$n = $n + 1;",
        "  sleep(1000); }",
        "$| = 1; print \"ready\\n\"; page(); 1;",
    );
    let ruby = long(
        "def page(n)",
        "  n = n + 1",
        "  sleep(1000)",
        "end\nputs 'ready'; $stdout.flush\npage(1)",
    );
    let pythons = installed().into_iter();
    let mut all: Vec<_> = pythons.map(|p| (Language::Python, p, &python)).collect();
    all.push((Language::Php, "php".into(), &php));
    all.push((Language::Perl, "perl".into(), &perl));
    all.push((Language::Ruby, "ruby".into(), &ruby));
    for (language, binary, (text, expected)) in all {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(&binary);
        command.arg(&file);
        let Some(running) = Running::of(command) else {
            continue;
        };
        let opened = scripts::open(language, running.pid());
        let mut interpreter = opened.unwrap_or_else(|e| panic!("{binary:?}: {e}"));
        // It may not have come to its sleep yet.
        let end = Instant::now() + Duration::from_secs(20);
        let mut line = None;
        while line.as_ref() != Some(expected) {
            assert!(Instant::now() < end, "{binary:?}: {line:?}");
            line = told(interpreter.as_mut(), "page").line;
        }
    }
}

/// Runs a command in a pid namespace of its own; `None` where that is not allowed, or it is not installed.
fn contained(mut command: Command) -> Option<Running> {
    let allowed = Command::new("unshare")
        .args(["--pid", "--fork", "true"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    command = Command::new("unshare");
    // The signal that ends unshare ends what it started.
    command
        .args(["--pid", "--fork", "--kill-child=SIGKILL"])
        .arg(program)
        .args(arguments);
    Running::of(command)
}

/// The only child of a process.
fn child_of(pid: i32) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children
        .split_ascii_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

/// In a container threads know themselves by other ids than those of the host.
#[test]
fn threads_of_a_container_have_the_hosts_ids() {
    for (language, binary) in [(Language::Python, "python3"), (Language::Ruby, "ruby")] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        let text = match language {
            Language::Python => {
                "import threading, time
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
print('ready', flush=True)
time.sleep(1000)
"
            }
            _ => {
                "Thread.new { sleep 1000 }
puts 'ready'; $stdout.flush
sleep 1000
"
            }
        };
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(binary);
        command.arg(&file);
        let Some(running) = contained(command) else {
            continue;
        };
        let pid = child_of(running.pid());
        let mut interpreter =
            scripts::open(language, pid).unwrap_or_else(|e| panic!("{binary}: {e}"));
        let tasks: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/task"))
            .unwrap()
            .map(|task| task.unwrap().file_name().to_string_lossy().parse().unwrap())
            .collect();
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let looked = interpreter.look().unwrap();
            assert!(
                looked.iter().all(|(tid, _)| tasks.contains(tid)),
                "{binary}: {tasks:?}"
            );
            if looked.len() >= 2 {
                break;
            }
            assert!(Instant::now() < end, "{binary}: {looked:?}");
        }
    }
}

/// A worker is forked from a process that was read at its start, and its main thread's record has the parent's id.
#[test]
fn a_forked_worker_is_read() {
    for (language, binary, text) in [
        (
            Language::Ruby,
            "ruby",
            "def burn; n = 0; n = (n + 1) % 1000 while true; end
fork { puts 'ready'; $stdout.flush; burn }
sleep 1000
",
        ),
        (
            Language::Perl,
            "perl",
            "$| = 1; sub burn { my $n = 0; while (1) { $n = ($n + 1) % 1000; } }
if (!fork()) { print \"ready\\n\"; burn(); 1 }
sleep 1000;
",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("program");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(binary);
        command.arg(&file);
        let Some(running) = Running::of(command) else {
            continue;
        };
        let worker = Worker(child_of(running.pid()));
        let mut interpreter =
            scripts::open(language, worker.0).unwrap_or_else(|e| panic!("{binary}: {e}"));
        assert!(told(interpreter.as_mut(), "burn").frames[0].starts_with("burn ("));
    }
}

/// A process that a program of ours forked.
struct Worker(i32);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-9", &self.0.to_string()])
            .status();
    }
}
