//! On the running kernel: what is read is there, rises, and fits the time that passed.

use monitor::{Observation, Pass, RunClock, Sampler, Watch, WatchConfig, Watched};
use record::{Nanos, Series};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn monotonic() -> Nanos {
    Nanos(linux::clock::monotonic_ns())
}

fn sampler(targets: Vec<Watched>) -> Sampler {
    let config = WatchConfig {
        targets,
        ..WatchConfig::default()
    };
    Sampler::new(&config, Arc::new(monotonic))
}

fn target(name: &str, pid: u32) -> Watched {
    Watched {
        target: name.to_owned(),
        pids: vec![pid as i32],
    }
}

fn of<'a>(seen: &'a Observation, signal: &str) -> Vec<&'a Series> {
    seen.series.iter().filter(|s| s.signal == signal).collect()
}

fn growth(series: &Series) -> f64 {
    series.values[series.values.len() - 1] - series.values[0]
}

/// Watches this process until the clock was read `reads` times, busy all the while.
fn watch_busily(reads: usize) -> Observation {
    let (tell, told) = mpsc::channel();
    let clock: RunClock = Arc::new(move || {
        // The receiver is gone once enough was seen.
        let _ = tell.send(());
        monotonic()
    });
    let config = WatchConfig {
        interval: Nanos::from_millis(20),
        slow_interval: Nanos::from_millis(100),
        ..WatchConfig::default()
    };
    let watch = Watch::start(&config, clock);
    for _ in 0..reads {
        told.recv_timeout(Duration::from_secs(60))
            .expect("the monitor's thread samples");
        std::hint::black_box((0..10_000u64).fold(0, u64::wrapping_add));
    }
    watch.stop()
}

#[test]
fn cores_account_for_the_time_that_passed() {
    let seen = watch_busily(300);
    assert!(seen.cost.samples >= 10, "{:?}", seen.cost);
    assert!(seen.cost.cpu_s > 0.0);
    let idle = of(&seen, "cpu.idle_s");
    assert!(!idle.is_empty());
    for core in idle {
        assert_eq!(core.at_ns.len() as u64, seen.cost.samples);
        let label = core.label("core");
        let modes = seen
            .series
            .iter()
            .filter(|s| s.signal.starts_with("cpu.") && s.label("core") == label);
        let accounted_s: f64 = modes.map(growth).sum();
        let passed_s = (core.at_ns[core.at_ns.len() - 1] - core.at_ns[0]) as f64 / 1e9;
        // Wide: ticks are 10 ms, and a guest that the host suspends loses time.
        assert!(
            accounted_s > 0.2 * passed_s,
            "{accounted_s} s of {passed_s} s"
        );
        assert!(
            accounted_s < 3.0 * passed_s + 0.5,
            "{accounted_s} s of {passed_s} s"
        );
    }
}

#[test]
fn a_sampling_thread_that_dies_leaves_a_gap_and_what_was_measured() {
    let (tell, told) = mpsc::channel();
    let here = std::thread::current().id();
    let clock: RunClock = Arc::new(move || {
        if std::thread::current().id() != here {
            // Ignored: the test has what it waits for after the first message.
            let _ = tell.send(());
            panic!("the clock stopped");
        }
        monotonic()
    });
    let config = WatchConfig {
        interval: Nanos::from_millis(1),
        ..WatchConfig::default()
    };
    let watch = Watch::start(&config, clock);
    told.recv_timeout(Duration::from_secs(60))
        .expect("the monitor's thread samples");
    let seen = watch.stop();
    // Both that are taken before the thread starts.
    assert_eq!(seen.cost.samples, 2);
    assert!(!of(&seen, "cpu.idle_s").is_empty());
    let gap = seen
        .unavailable
        .iter()
        .find(|u| u.what == "samples up to the end")
        .unwrap();
    assert!(gap.reason.contains("the clock stopped"), "{gap:?}");
}

#[test]
fn counters_of_this_process_rise() {
    let seen = watch_busily(200);
    let run: f64 = of(&seen, "thread.run_s").into_iter().map(growth).sum();
    assert!(
        run > 0.0
            || seen
                .unavailable
                .iter()
                .any(|u| u.what.contains("thread.run_s"))
    );
    for signal in [
        "process.cpu_user_s",
        "process.minor_faults",
        "host.context_switches",
    ] {
        let series = of(&seen, signal);
        assert_eq!(series.len(), 1, "{signal}");
        assert!(series[0].values.is_sorted(), "{signal}");
        assert!(series[0].at_ns.is_sorted_by(|a, b| a < b), "{signal}");
    }
    assert!(growth(of(&seen, "host.context_switches")[0]) > 0.0);
    assert!(of(&seen, "process.cpu_user_s")[0].label("target") == Some("generator"));
    let names: BTreeSet<&str> = of(&seen, "thread.cpu_user_s")
        .iter()
        .filter_map(|s| s.label("name"))
        .collect();
    assert!(names.contains("monitor"), "{names:?}");
}

/// A shell that runs a script, and its input.
fn shell(script: &str) -> (Child, ChildStdin) {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = command.spawn().expect("a shell starts");
    let input = shell.stdin.take().expect("its input is a pipe");
    (shell, input)
}

/// The first line that it says to a line.
fn said_to(shell: &mut Child, input: &mut ChildStdin, line: &str) -> String {
    input.write_all(line.as_bytes()).expect("it reads");
    let mut said = String::new();
    BufReader::new(shell.stdout.take().expect("its output is a pipe"))
        .read_line(&mut said)
        .expect("it says a line");
    said
}

#[test]
fn a_targets_child_is_watched_until_it_ends() {
    // A shell that runs `cat` as its child; an echoed line proves that it runs.
    let (mut shell, mut input) = shell("cat; true");
    assert_eq!(said_to(&mut shell, &mut input, "here\n"), "here\n");

    let mut sampler = sampler(vec![target("proxy", shell.id())]);
    sampler.sample_now(Pass::Edge);
    drop(input);
    shell.wait().unwrap();
    sampler.sample_now(Pass::Edge);

    let seen = sampler.finish();
    let mut watched: Vec<(&str, &str, usize)> = of(&seen, "process.threads")
        .into_iter()
        .map(|s| {
            (
                s.label("target").unwrap(),
                s.label("name").unwrap(),
                s.values.len(),
            )
        })
        .filter(|(target, ..)| *target != "generator")
        .collect();
    watched.sort_unstable();
    assert_eq!(watched, [("proxy", "cat", 1), ("proxy", "sh", 1)]);
    let gaps = seen.unavailable.iter().filter(|u| u.what.contains("proxy"));
    assert_eq!(gaps.count(), 0, "{:?}", seen.unavailable);
}

#[test]
fn a_child_that_begins_within_the_watch_counts_from_its_beginning() {
    let (mut shell, mut input) = shell(
        "read go; sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; cat'; true",
    );
    let mut sampler = sampler(vec![target("app", shell.id())]);
    sampler.sample_now(Pass::Edge);
    assert_eq!(said_to(&mut shell, &mut input, "go\n"), "done\n");
    // The only sample of it that there is: it had worked before.
    sampler.sample_now(Pass::Edge);
    drop(input);
    shell.wait().unwrap();

    let seen = sampler.finish();
    let (app, parent) = (Some("app"), shell.id().to_string());
    let of_child = |signal: &str| -> f64 {
        let all = of(&seen, signal).into_iter();
        let is_child = |s: &&Series| s.label("target") == app && s.label("pid") != Some(&parent);
        all.filter(is_child).map(growth).sum()
    };
    assert!(of_child("thread.run_s") > 0.0);
    assert!(of_child("process.cpu_user_s") > 0.0);
    let levels = of(&seen, "process.threads");
    let zeros = levels.iter().flat_map(|s| &s.values).filter(|v| **v < 1.0);
    assert_eq!(zeros.count(), 0, "a level has no beginning");
}

#[test]
fn what_an_ordinary_user_may_not_read_is_a_gap_and_the_rest_is_there() {
    let mut sampler = sampler(vec![target("init", 1)]);
    sampler.sample_now(Pass::Edge);
    let seen = sampler.finish();
    let has = |signal: &str| {
        of(&seen, signal)
            .iter()
            .any(|s| s.label("target") == Some("init") && s.label("pid") == Some("1"))
    };
    let gap = |signal: &str| {
        seen.unavailable
            .iter()
            .any(|u| u.what.contains(signal) && u.what.ends_with("of init"))
    };
    assert!(has("process.cpu_user_s") && has("thread.cpu_user_s"));
    for signal in ["process.read_calls", "process.open_files", "thread.run_s"] {
        assert!(
            has(signal) != gap(signal),
            "{signal}: {:?}",
            seen.unavailable
        );
    }
    assert!(rustix::process::geteuid().is_root() || gap("process.read_calls"));
    for gap in &seen.unavailable {
        assert!(!gap.reason.is_empty(), "{gap:?}");
    }
}

#[test]
fn an_empty_root_is_nothing_but_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let config = WatchConfig {
        root: linux::Root::new(dir.path()),
        targets: vec![target("proxy", 7)],
        ..WatchConfig::default()
    };
    let mut sampler = Sampler::new(&config, Arc::new(monotonic));
    sampler.sample_now(Pass::Edge);
    sampler.sample_now(Pass::Edge);
    let seen = sampler.finish();
    assert_eq!(seen.series, []);
    let what: BTreeSet<&str> = seen.unavailable.iter().map(|u| u.what.as_str()).collect();
    assert_eq!(what.len(), seen.unavailable.len(), "each once");
    for source in [
        "cpu",
        "softirq",
        "softnet",
        "nic",
        "memory",
        "vm",
        "children of the targets",
    ] {
        assert!(what.contains(source), "{source} in {what:?}");
    }
    for gap in &seen.unavailable {
        assert!(gap.reason.contains("No such file or directory"), "{gap:?}");
    }
}

/// Without the right to make a namespace this holds nothing. What is made here goes with the child and the thread.
#[test]
fn a_servers_own_namespace_is_counted_beside_pronys() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call takes an integer only and concerns this thread, which ends here.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return;
            }
            let lo = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            if !lo.is_ok_and(|status| status.success()) {
                return;
            }
            let mut server = Command::new("sleep").arg("60").spawn().unwrap();
            let mut sampler = sampler(vec![target("web", server.id())]);
            sampler.sample_now(Pass::Edge);
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = (0..7)
                .map(|_| {
                    (
                        std::net::TcpStream::connect(address).unwrap(),
                        listener.accept().unwrap(),
                    )
                })
                .collect();
            sampler.sample_now(Pass::Edge);
            drop(clients);
            server.kill().unwrap();
            server.wait().unwrap();
            let seen = sampler.finish();
            let opens = of(&seen, "tcp.passive_opens");
            let inside = opens.iter().find(|s| s.label("namespace") == Some("web"));
            assert_eq!(growth(inside.expect("the server's namespace")), 7.0);
            assert!(
                opens.iter().any(|s| s.label("namespace").is_none()),
                "prony's own"
            );
        });
    });
}
