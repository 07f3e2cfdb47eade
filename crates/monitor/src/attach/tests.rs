//! Dumps as two versions of the JVM printed them, and processes that must not be signalled.
//!
//! What a real JVM answers is in `tests/attach.rs`; here is what needs the inside of the module.

use super::dump::{parse, stopper, told};
use super::{AttachError, Jvm, become_user, may_signal};
use record::{Told, ToldState};
use std::process::{Child, Command, Stdio};

const OF_17: &str = include_str!("dumps/openjdk17.txt");
const OF_25: &str = include_str!("dumps/openjdk25.txt");

/// What a dump tells of a thread.
fn of(text: &str, name: &str) -> Told {
    let threads = parse(text);
    let thread = threads.iter().find(|thread| thread.name == name);
    let thread = thread.unwrap_or_else(|| panic!("no {name}"));
    let all = told(&threads);
    let found = all.iter().find(|(tid, _)| *tid == thread.tid);
    found
        .unwrap_or_else(|| panic!("{name} has no stack"))
        .1
        .clone()
}

#[test]
fn waits_of_each_kind_are_told_apart() {
    use ToldState as S;
    for text in [OF_17, OF_25] {
        for (name, state, innermost, object) in [
            ("main", S::Running, "java.io.FileInputStream.readBytes", ""),
            ("burn", S::Running, "L.burn", ""),
            ("mon-1", S::Lock, "L.withMonitor", "java.lang.Object"),
            (
                // A name may hold what looks like the rest of the line.
                "lock \"q\" nid=0x7 -1",
                S::Lock,
                "java.util.concurrent.locks.ReentrantLock$Sync.lock",
                "java.util.concurrent.locks.ReentrantLock$NonfairSync",
            ),
            (
                "sem",
                S::Permit,
                "java.util.concurrent.Semaphore.acquire",
                "java.util.concurrent.Semaphore$NonfairSync",
            ),
            (
                "tsem",
                S::Permit,
                "java.util.concurrent.Semaphore.tryAcquire",
                "java.util.concurrent.Semaphore$NonfairSync",
            ),
            ("pause", S::Sleep, "L.pause", ""),
            (
                "latch",
                S::Result,
                "java.util.concurrent.CountDownLatch.await",
                "java.util.concurrent.CountDownLatch$Sync",
            ),
            (
                "pool-1-thread-1",
                S::Signal,
                "java.util.concurrent.ForkJoinPool.unmanagedBlock",
                "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
            ),
        ] {
            let told = of(text, name);
            assert_eq!(told.state, state, "{name}");
            assert_eq!(told.frames[0], innermost, "{name}");
            assert_eq!(told.object, object, "{name}");
            assert!(
                !told.frames.iter().any(|f| f.contains("Lambda$")),
                "{told:?}"
            );
        }
        assert_eq!(of(text, "holder").state, S::Sleep);
        assert_eq!(of(text, "wait").state, S::Signal);
        assert_eq!(of(text, "fut").state, S::Result);
    }
}

#[test]
fn a_promise_of_any_library_is_the_result_of_another_thread() {
    let java = "java.util.concurrent.CountDownLatch$Sync";
    assert!(OF_17.contains(java));
    for class in [
        "scala.concurrent.impl.Promise$CompletionLatch",
        "org.example.SettableFuture",
        "io.netty.util.concurrent.DefaultPromise",
    ] {
        let text = OF_17.replace(java, class);
        assert_eq!(of(&text, "latch").state, ToldState::Result, "{class}");
    }
    let text = OF_17.replace(java, "org.example.Turnstile");
    assert_eq!(of(&text, "latch").state, ToldState::Lock);
}

#[test]
fn the_one_who_has_a_monitor_is_named_and_one_who_waits_for_a_signal_has_it_not() {
    for text in [OF_17, OF_25] {
        assert_eq!(of(text, "mon-1").owner, "thread holder in L.holdMonitor");
        let threads = parse(text);
        let waits = threads.iter().find(|t| t.name == "wait").unwrap();
        assert!(
            waits.waits_for.is_some() && waits.holds.is_empty(),
            "{waits:?}"
        );
        // The JVM's own threads run no code of Java.
        let all = told(&threads);
        assert!(!threads.iter().any(|t| t.name == "VM Thread"));
        assert!(
            all.iter()
                .all(|(tid, told)| *tid > 0 && !told.frames.is_empty())
        );
        assert_ne!(stopper(text), None);
    }
    assert_eq!(stopper(OF_17), Some(0x766f));
}

#[test]
fn a_dump_that_is_cut_anywhere_says_no_nonsense() {
    for at in (0..OF_17.len())
        .step_by(37)
        .filter(|&at| OF_17.is_char_boundary(at))
    {
        for (_, told) in told(&parse(&OF_17[..at])) {
            assert!(
                told.frames
                    .iter()
                    .all(|f| !f.is_empty() && !f.contains('\n'))
            );
        }
    }
    assert!(parse("no dump at all\n\"\n\"x\" nid=\n").is_empty());
}

struct Process(Child);

impl Process {
    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).unwrap()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that would die of SIGQUIT, also where the tests were started in the background, which ignores it.
fn sleeper() -> Process {
    let process = Process(
        Command::new("env")
            .args(["--default-signal=QUIT", "sleep", "1000"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let comm = format!("/proc/{}/comm", process.pid());
    while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
        std::thread::yield_now();
    }
    process
}

#[test]
fn who_would_die_of_the_question_is_not_asked() {
    let mut sleeper = sleeper();
    let pid = sleeper.pid();
    assert!(matches!(Jvm::attach(pid), Err(AttachError::NotJvm(of)) if of == pid));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    // Whatever is mapped into it: SIGQUIT would end it.
    let refused = may_signal(pid, &status).unwrap_err();
    assert!(refused.to_string().contains("not caught"), "{refused}");
    let line = |name: &str, mask: &str| format!("Name:\tx\n{name}:\t{mask}\n");
    for (status, how) in [
        (line("SigIgn", "0000000000000004"), "ignored"),
        (line("SigCgt", "0000000000000002"), "not caught"),
    ] {
        let refused = may_signal(pid, &status).unwrap_err();
        assert!(refused.to_string().contains(how), "{refused}");
        assert!(!refused.remedy().is_empty());
    }
    assert!(may_signal(pid, &line("SigCgt", "0000000000000004")).is_ok());
    assert!(sleeper.lives());
}

#[test]
fn a_signal_that_every_thread_blocks_is_not_sent() {
    let process = Process(
        Command::new("env")
            .args(["--block-signal=QUIT", "sleep", "1000"])
            .spawn()
            .unwrap(),
    );
    let mask = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("SigBlk"));
        let mask = line.and_then(|line| line.split('\t').nth(1).map(str::to_owned));
        mask.map_or(0, |mask| u64::from_str_radix(&mask, 16).unwrap())
    };
    while mask(process.pid()) & 4 == 0 {
        std::thread::yield_now();
    }
    let refused = may_signal(process.pid(), "SigCgt:\t0000000000000004\n").unwrap_err();
    assert!(
        refused.to_string().contains("blocked in every thread"),
        "{refused}"
    );
}

#[test]
fn another_users_process_is_refused_by_that_reason() {
    let sleeper = sleeper();
    let pid = sleeper.pid();
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let refused = std::thread::spawn(move || {
        become_user(65_534, 65_534).unwrap();
        Jvm::attach(pid).unwrap_err()
    });
    let refused = refused.join().unwrap();
    assert!(
        matches!(
            refused,
            AttachError::User {
                theirs: 0,
                ours: 65_534,
                ..
            }
        ),
        "{refused}"
    );
    assert!(refused.remedy().contains("as root"));
}

#[test]
fn who_has_ended_is_said_to_have() {
    let mut sleeper = sleeper();
    let pid = sleeper.pid();
    sleeper.0.kill().unwrap();
    sleeper.0.wait().unwrap();
    assert!(matches!(Jvm::attach(pid), Err(AttachError::Ended(of)) if of == pid));
}
