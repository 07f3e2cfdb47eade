//! A real JVM that is asked and read while it runs; nothing is checked where there is no java.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use monitor::attach::{AttachError, Dumper, Jvm, is_jvm};
use monitor::hotspot;
use monitor::scripts::Interpreter as _;
use record::ToldState;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "import java.util.concurrent.Semaphore;
public class Waits {
  static final Object one = new Object(); static final Semaphore none = new Semaphore(0); static volatile long sum;
  static void hold() throws Exception { synchronized (one) { Thread.sleep(1000000); } }
  static void withLock() { synchronized (one) { sum++; } }
  static void getConnection() throws Exception { none.acquire(); }
  interface Body { void run() throws Exception; }
  static void start(String name, Body body) {
    Thread thread = new Thread(() -> { try { body.run(); } catch (Exception e) { } }, name);
    thread.setDaemon(true); thread.start();
  }
  public static void main(String[] arguments) throws Exception {
    start(\"holder\", Waits::hold);
    Thread.sleep(200);
    start(\"waiter\", Waits::withLock); start(\"pool\", Waits::getConnection);
    start(\"burner\", () -> { long end = System.nanoTime() + 1500000000L; while (System.nanoTime() < end) once(); });
    Thread.sleep(1600);
    System.out.println(\"ready\"); System.in.read();
  }
  static void once() { for (int i = 0; i < 100000; i++) sum += i ^ sum; }
}";

struct Java {
    child: Child,
    /// A directory that everybody may read.
    _dir: tempfile::TempDir,
}

impl Java {
    /// Of flags and, as root, of another user; `None` without java.
    fn start(flags: &[&str], user: Option<u32>) -> Option<Self> {
        Self::of(Path::new("java"), flags, user)
    }

    fn of(java: &Path, flags: &[&str], user: Option<u32>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("Waits.java");
        std::fs::write(&source, PROGRAM).unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), all).unwrap();
        let mut command = Command::new(java);
        command.args(["-Xmx64m", "-XX:+UseSerialGC"]).args(flags);
        command.arg(&source).current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Self { child, _dir: dir })
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn tmp(&self, name: &str) -> PathBuf {
        Path::new("/tmp").join(name.replace("PID", &self.pid().to_string()))
    }

    fn lives(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for name in ["perf-PID.map", ".java_pidPID", ".attach_pidPID"] {
            let _ = std::fs::remove_file(self.tmp(name));
        }
    }
}

fn tells_where_its_threads_are(java: &mut Java) {
    let jvm = Jvm::attach(java.pid()).unwrap();
    let map = java.tmp("perf-PID.map");
    for _ in 0..2 {
        let threads = jvm.thread_dump().unwrap();
        let of = |name: &str| threads.iter().find(|thread| thread.name == name).unwrap();
        assert_eq!(of("waiter").frames[0], "Waits.withLock");
        assert!(of("waiter").state.starts_with("BLOCKED"));
        let (lock, _) = of("waiter").waits_for.clone().unwrap();
        assert!(of("holder").holds.contains(&lock));
        let names = jvm.code_names().unwrap();
        assert!(names.contains(" void Waits.once()"), "{}", names.len());
        assert!(
            !map.exists(),
            "what it was made to write is taken away again"
        );
    }
    assert!(!java.tmp(".attach_pidPID").exists());
    assert!(java.lives());
}

#[test]
fn a_jvm_tells_who_waits_where_and_what_it_compiled_and_nothing_is_left() {
    let Some(mut java) = Java::start(&[], None) else {
        return;
    };
    assert!(is_jvm(java.pid()));
    tells_where_its_threads_are(&mut java);
}

#[test]
fn a_jvm_of_another_user_is_asked_as_that_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some(mut java) = Java::start(&[], Some(65_534)) else {
        return;
    };
    tells_where_its_threads_are(&mut java);
}

#[test]
fn a_map_that_is_there_is_left_and_that_of_an_agent_is_taken() {
    let Some(java) = Java::start(&[], None) else {
        return;
    };
    let jvm = Jvm::attach(java.pid()).unwrap();
    let map = java.tmp("perf-PID.map");
    std::fs::write(&map, "7f0000 10 Agent::function\n").unwrap();
    assert_eq!(jvm.code_names().unwrap(), "7f0000 10 Agent::function\n");
    assert_eq!(
        std::fs::read_to_string(&map).unwrap(),
        "7f0000 10 Agent::function\n"
    );
    // That of a process which had the id before is nobody's: it is written anew, and stays.
    let file = std::fs::File::options().write(true).open(&map).unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_modified(old).unwrap();
    assert!(jvm.code_names().unwrap().contains("Waits.once"));
    assert!(map.exists());
    // The JVM would write to whatever a link leads to.
    std::fs::remove_file(&map).unwrap();
    std::os::unix::fs::symlink("/dev/null", &map).unwrap();
    let refused = jvm.code_names().unwrap_err();
    assert!(matches!(refused, AttachError::Map { .. }), "{refused}");
}

#[test]
fn a_jvm_that_may_not_be_asked_lives_on_unasked() {
    let flag = "-XX:+DisableAttachMechanism";
    let Some(mut java) = Java::start(&[flag], None) else {
        return;
    };
    let refused = Jvm::attach(java.pid()).unwrap_err();
    assert!(matches!(refused, AttachError::Disabled(_)), "{refused}");
    assert!(refused.remedy().contains("without"), "{refused}");
    assert!(java.lives());
    assert!(!java.tmp(".attach_pidPID").exists());
}

#[test]
fn a_jvm_that_takes_no_signals_listens_from_its_start() {
    let Some(mut java) = Java::start(&["-Xrs"], None) else {
        return;
    };
    let jvm = Jvm::attach(java.pid()).unwrap();
    assert!(!jvm.thread_dump().unwrap().is_empty());
    assert!(java.lives());
}

#[test]
fn dumps_end_with_the_jvm_and_say_so() {
    let Some(mut java) = Java::start(&[], None) else {
        return;
    };
    let pid = java.pid();
    let dumper = Dumper::start(vec![("app".to_owned(), Jvm::attach(pid).unwrap())]);
    let until = |enough: &dyn Fn() -> bool| {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !enough() {
            assert!(std::time::Instant::now() < end);
            std::thread::yield_now();
        }
    };
    until(&|| dumper.taken() >= 2);
    java.child.kill().unwrap();
    java.child.wait().unwrap();
    until(&|| dumper.is_over());
    let dumped = dumper.end();
    assert_eq!(dumped.asked.len(), 1);
    let asked = &dumped.asked[0];
    assert!(asked.asked["Thread.print"] >= 2);
    let gap = &asked.unavailable[0];
    assert!(
        gap.reason.contains("ended") && !gap.remedy.is_empty(),
        "{gap:?}"
    );
    let permits = dumped.samples.told().iter();
    let permits = permits.filter(|told| told.state == ToldState::Permit);
    let frames: Vec<&str> = permits.map(|told| told.frames[1].as_str()).collect();
    assert_eq!(frames, ["Waits.getConnection"]);
}

/// Programs of the JVMs that are installed and can compile what they are to run.
fn installed() -> Vec<PathBuf> {
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten();
    let programs = homes.flatten().map(|home| home.path().join("bin"));
    let whole = programs.filter(|programs| programs.join("javac").exists());
    let programs = whole.filter_map(|programs| programs.join("java").canonicalize().ok());
    let mut programs: Vec<PathBuf> = programs.collect();
    programs.sort();
    programs.dedup();
    programs
}

/// Memory that was read says what the JVM itself would: the same functions of the same threads, for the same reason.
fn is_read_as_it_tells(program: &Path, flags: &[&str]) {
    let Some(java) = Java::of(program, flags, None) else {
        return;
    };
    let what = format!("{} {flags:?}", program.display());
    let mut read = hotspot::Java::open(java.pid()).unwrap_or_else(|e| panic!("{what}: {e:?}"));
    let jvm = Jvm::attach(java.pid()).unwrap();
    let (seen, dump) = (read.look().unwrap(), jvm.thread_dump().unwrap());
    for (name, state) in [
        ("holder", ToldState::Sleep),
        ("waiter", ToldState::Lock),
        ("pool", ToldState::Permit),
    ] {
        let thread = dump.iter().find(|thread| thread.name == name).unwrap();
        let told = seen.iter().find(|(tid, _)| *tid == thread.tid);
        let told = &told
            .unwrap_or_else(|| panic!("{what}: no {name} in {seen:?}"))
            .1;
        assert_eq!(
            (told.state, told.runtime.as_str()),
            (state, "jvm"),
            "{what}: {told:?}"
        );
        assert!(
            thread.frames.ends_with(&told.frames),
            "{what}: {told:?} and {thread:?}"
        );
        let class = thread.waits_for.as_ref().map_or("", |(_, class)| class);
        let plain = !flags.contains(&"-XX:+UseZGC");
        // Of objects that cannot be read the class is that of a function, if any.
        let same = if plain {
            told.object == class
        } else {
            class.starts_with(&told.object)
        };
        assert!(same, "{what}: {name} waits for {class}: {told:?}");
        let owner = if plain && name == "waiter" {
            "thread holder in Waits.hold"
        } else {
            ""
        };
        assert_eq!(told.owner, owner, "{what}: {name}");
    }
    let Ok(map) = jvm.code_names() else {
        return;
    };
    let mut names = hotspot::Names::of(java.pid()).unwrap();
    let mut same = 0;
    for line in map.lines().filter(|line| line.ends_with("Waits.once()")) {
        let start = line.split(' ').next().unwrap().trim_start_matches("0x");
        let start = u64::from_str_radix(start, 16).unwrap();
        let found = names.at(start + 16);
        same += usize::from(found.last().is_some_and(|name| &**name == "Waits.once"));
        assert!(names.at(1).is_empty());
    }
    assert!(same > 0, "{what}: {map}");
}

#[test]
fn a_jvm_is_read_as_it_would_tell_whatever_its_version_and_its_collector() {
    for program in installed() {
        for flags in [
            &[][..],
            &["-XX:-UseSerialGC", "-XX:+UseG1GC"],
            &[
                "-XX:-UseSerialGC",
                "-XX:+UseParallelGC",
                "-XX:-UseCompressedOops",
            ],
            &["-XX:-UseSerialGC", "-XX:+UseZGC"],
            &["-XX:CompileThresholdScaling=0.02"],
        ] {
            is_read_as_it_tells(&program, flags);
        }
    }
}

#[test]
fn what_is_no_jvm_is_not_read_as_one() {
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(hotspot::Java::open(own).is_err());
    assert!(hotspot::Names::of(own).is_none());
}
