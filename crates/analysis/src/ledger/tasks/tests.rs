//! Hand-made looks at goroutines, and random ones whose parts must add up.

use super::*;
use record::{Frame, PlaceSamples, ProfileKind, TaskSeen};

/// Stacks of goroutines: what they did, functions from the root on, and how many were seen in a look.
type Seen<'a> = (&'a str, &'a [&'a str], f64);

const LOOKS: u64 = 400;
const WINDOW_NS: f64 = 4e9;

struct Made {
    tasks: Profile,
    on_cpu: Profile,
    samples: TaskSamples,
    account: TurnAccount,
}

fn empty(kind: ProfileKind, hz: u32) -> Profile {
    Profile {
        kind,
        hz,
        samples: 0,
        lost: 0,
        unwound: 0,
        frames: Vec::new(),
        stacks: Vec::new(),
    }
}

fn push(profile: &mut Profile, doing: &str, functions: &[&str], weight: u64) -> u32 {
    let mut frames = Vec::new();
    for symbol in functions {
        frames.push(profile.frames.len() as u32);
        profile.frames.push(Frame {
            symbol: (*symbol).to_owned(),
            module: "app".to_owned(),
            kernel: false,
        });
    }
    profile.stacks.push(Stack {
        target: "app".to_owned(),
        pid: 1,
        thread: doing.to_owned(),
        frames,
        weight,
        state: None,
    });
    profile.stacks.len() as u32 - 1
}

/// Looks with so many hidden turns at each, and samples of the CPU: functions, all of them, and those on turns.
fn made(hidden: f64, running: f64, seen: &[Seen<'_>], ran: &[(&[&str], u64, u64)]) -> Made {
    let mut tasks = empty(ProfileKind::Tasks, 0);
    let mut on_cpu = empty(ProfileKind::OnCpu, 500);
    let looks = LOOKS as f64;
    let seen = seen.iter().map(|(doing, functions, count)| TaskSeen {
        stack: push(&mut tasks, doing, functions, (count * looks) as u64),
        tasks: count * looks,
    });
    let seen: Vec<TaskSeen> = seen.collect();
    let cpu_samples = ran.iter().map(|(functions, all, of_turns)| PlaceSamples {
        place: Place::OnCpu,
        stack: push(&mut on_cpu, "app", functions, *all),
        samples: *of_turns,
    });
    Made {
        samples: TaskSamples {
            looks: LOOKS,
            hidden: hidden * looks,
            running: running * looks,
            blocked: 0.0,
            seen,
        },
        account: TurnAccount {
            cpu_samples: cpu_samples.collect(),
            ..TurnAccount::default()
        },
        tasks,
        on_cpu,
    }
}

impl Made {
    fn divide(&self, hidden_ns: f64, sending_ns: f64) -> Option<Vec<TaskPart>> {
        let divided = self.divide_with_line(hidden_ns, 0.0, sending_ns);
        divided.map(|(parts, _)| parts)
    }

    fn divide_with_line(
        &self,
        hidden_ns: f64,
        in_line_ns: f64,
        sending_ns: f64,
    ) -> Option<(Vec<TaskPart>, bool)> {
        let case = TaskCase {
            target: "app",
            program: "app",
            samples: &self.samples,
            account: &self.account,
            one_in: 1,
            traced_ns: WINDOW_NS,
            tasks: &self.tasks,
            on_cpu: Some(&self.on_cpu),
        };
        case.divide(hidden_ns, in_line_ns, sending_ns)
    }
}

fn share(parts: &[TaskPart], kind: &str) -> f64 {
    let all: f64 = parts.iter().map(|part| part.ns).sum();
    let some = parts.iter().filter(|part| part.kind == kind);
    some.map(|part| part.ns).sum::<f64>() / all
}

const SERVE: &str = "net/http.(*conn).serve";
const ON_CPU: &[(&[&str], u64, u64)] = &[
    (&["runtime.goexit.abi0", SERVE, "main.handler"], 200, 100),
    (
        &["runtime.mcall", "runtime.park_m", "runtime.schedule"],
        90,
        40,
    ),
    (
        &["runtime.goexit.abi0", "main.worker", "main.compute"],
        50,
        30,
    ),
];

#[test]
fn hidden_time_becomes_what_goroutines_of_requests_wait_for() {
    let lock = &[
        SERVE,
        "main.handler",
        "main.locked",
        "sync.(*Mutex).lockSlow",
        "runtime.gopark",
    ][..];
    let made = made(
        10.0,
        0.2,
        &[
            ("sync.Mutex.Lock", lock, 6.0),
            (
                "sleep",
                &[SERVE, "main.handler", "time.Sleep", "runtime.gopark"],
                2.0,
            ),
            ("runnable after sync.Mutex.Lock", &[SERVE], 1.0),
            ("runnable after IO wait", &[SERVE], 3.0),
            ("running", &[SERVE], 1.2),
            // Connections without a request, workers without work, and what waits on its own account.
            ("IO wait", &[SERVE, "runtime.gopark"], 50.0),
            ("chan receive", &["main.worker", "runtime.chanrecv"], 8.0),
            ("sleep", &["main.ticker", "time.Sleep"], 1.0),
            ("select", &["net/http.(*persistConn).writeLoop"], 4.0),
            ("IO wait", &["net/http.(*persistConn).readLoop"], 4.0),
            ("GC worker (idle)", &["runtime.gcBgMarkWorker"], 2.0),
        ],
        ON_CPU,
    );
    let parts = made.divide(1e6, 0.0).unwrap();
    for (kind, expected) in [
        ("lock", 0.6),
        ("sleep", 0.2),
        ("channel", 0.0),
        ("hidden", 0.0),
    ] {
        let found = share(&parts, kind);
        assert!(
            (found - expected).abs() < 0.01,
            "{kind}: {found}\n{parts:#?}"
        );
    }
    let lock = parts.iter().find(|part| part.kind == "lock").unwrap();
    assert_eq!(lock.label, "waiting for a lock: main.locked");
    assert_eq!(
        lock.place,
        "main.locked < main.handler < net/http.(*conn).serve"
    );
    assert!(!lock.own && !lock.ran);
    // Of 1.0 that ran hidden, 100 samples at 500/s in 4 s are 0.05 on a CPU; the rest waited for one.
    let ran: f64 = parts
        .iter()
        .filter(|part| part.ran)
        .map(|part| part.ns)
        .sum();
    assert!((ran / 1e6 - 0.005).abs() < 0.001, "{parts:#?}");
    assert!(
        (share(&parts, "run_queue") - 0.195).abs() < 0.01,
        "{parts:#?}"
    );
}

#[test]
fn what_no_goroutine_explains_is_the_clients_or_stays_hidden() {
    let seen: [Seen<'_>; 2] = [
        ("sleep", &[SERVE, "main.handler"], 2.0),
        ("IO wait", &[SERVE, "runtime.gopark"], 60.0),
    ];
    let made = made(10.0, 0.0, &seen, ON_CPU);
    for (hidden_ns, sending_ns, hidden, sending) in [
        (1e6, 0.0, 0.8, 0.0),
        (0.5e6, 0.5e6, 0.3, 0.5),
        (0.0, 1e6, 0.0, 0.8),
    ] {
        let parts = made.divide(hidden_ns, sending_ns).unwrap();
        let found = (
            share(&parts, "hidden"),
            share(&parts, "sending"),
            share(&parts, "sleep"),
        );
        let off = (found.0 - hidden).abs() + (found.1 - sending).abs() + (found.2 - 0.2).abs();
        assert!(off < 1e-9, "{found:?}");
    }
}

/// Requests that share a connection of HTTP/2 stand in line for it in the process, while their sockets say that
/// somebody was asked. So many tasks are met there, or it was something else.
#[test]
fn who_stands_in_line_for_a_shared_connection_is_told_where_so_many_are_met() {
    for (waiting, told) in [(95.0, true), (20.0, false)] {
        let seen: [Seen<'_>; 2] = [
            ("select", &[SERVE, "main.handler"], waiting),
            ("IO wait", &[SERVE, "runtime.gopark"], 10.0),
        ];
        let made = made(10.0, 0.0, &seen, ON_CPU);
        let (parts, in_line) = made.divide_with_line(1e6, 9e6, 0.0).unwrap();
        let all: f64 = parts.iter().map(|part| part.ns).sum();
        assert_eq!(in_line, told, "{waiting}");
        let expected = if told { 10e6 } else { 1e6 };
        assert!((all - expected).abs() < 1.0, "{waiting}: {all}");
        assert!(share(&parts, "channel") > 0.9, "{parts:#?}");
    }
}

#[test]
fn without_samples_whoever_waits_for_sockets_stands_in_requests() {
    let seen: [Seen<'_>; 4] = [
        ("IO wait", &["main.serve", "runtime.gopark"], 3.0),
        ("sleep", &["main.serve", "main.handler"], 1.0),
        ("sleep", &["main.ticker"], 1.0),
        ("sync.Cond.Wait", &["main.pool"], 5.0),
    ];
    let parts = made(1.0, 0.0, &seen, &[]).divide(1e6, 0.0).unwrap();
    assert_eq!(parts.len(), 1, "{parts:#?}");
    assert_eq!(parts[0].label, "asleep until a timer: main.handler");
    // Nobody who waits for a socket is nobody's request.
    assert_eq!(made(1.0, 0.0, &seen[2..], &[]).divide(1e6, 0.0), None);
    assert_eq!(
        made(0.0, 0.0, &seen, &[]).divide(1e6, 0.0),
        None,
        "nothing was hidden"
    );
}

#[test]
fn reasons_of_all_versions_have_words() {
    for (reason, function, kind, words) in [
        (
            "semacquire",
            "sync.(*Mutex).lockSlow",
            "lock",
            "waiting for a lock: main.f",
        ),
        (
            "semacquire",
            "sync.(*WaitGroup).Wait",
            "join",
            "waiting for other goroutines to end: main.f",
        ),
        (
            "sync.RWMutex.RLock",
            "sync.(*RWMutex).RLock",
            "lock",
            "waiting for a lock (of readers and writers): main.f",
        ),
        (
            "sync.WaitGroup.Wait (durable)",
            "sync.(*WaitGroup).Wait",
            "join",
            "waiting for other goroutines to end: main.f",
        ),
        (
            "chan receive (nil chan)",
            "runtime.chanrecv",
            "channel",
            "waiting to receive from a channel: main.f",
        ),
        (
            "chan send",
            "runtime.chansend",
            "channel",
            "waiting to send to a channel: main.f",
        ),
        (
            "select",
            "runtime.selectgo",
            "channel",
            "waiting for one of several channels: main.f",
        ),
        (
            "sync.Cond.Wait",
            "sync.(*Cond).Wait",
            "condition",
            "waiting for a condition: main.f",
        ),
        (
            "GC assist wait",
            "runtime.gcParkAssist",
            "gc",
            "waiting for the garbage collector: main.f",
        ),
        (
            "GC assist marking",
            "runtime.gcAssistAlloc",
            "gc",
            "marking memory for the garbage collector: main.f",
        ),
        (
            "coroutine",
            "runtime.coroswitch",
            "other",
            "waiting in the runtime (coroutine): main.f",
        ),
    ] {
        let (found, label, place) = waiting(reason, &[function, "main.f", "main.g"]);
        assert_eq!(
            (found, label.as_str(), place.as_str()),
            (kind, words, "main.f < main.g"),
            "{reason}"
        );
    }
    let (kind, label, _) = in_call(&["syscall.Syscall", "syscall.Fdatasync", "main.f"]);
    assert_eq!(
        (kind, label.as_str()),
        ("sync", "waiting until data is on the disk (sync)")
    );
}

#[test]
fn whoever_has_its_answer_is_no_request_any_more() {
    let answered = [
        SERVE,
        "net/http.(*response).finishRequest",
        "net/http.(*connReader).abortPendingRead",
    ];
    let closes = [SERVE, "net/http.(*conn).closeWriteAndWait", "time.Sleep"];
    let handles = [SERVE, "main.handler", "sync.(*Mutex).Lock"];
    let seen = [
        ("sync.Cond.Wait", &answered[..], 6.0),
        ("sleep", &closes[..], 2.0),
        ("sync.Mutex.Lock", &handles[..], 2.0),
    ];
    let parts = made(2.0, 0.1, &seen, ON_CPU).divide(1e6, 0.0).unwrap();
    assert!(share(&parts, "lock") > 0.95, "{parts:#?}");
}

#[test]
fn requests_that_are_all_held_back_are_met_though_none_waits_for_its_socket() {
    let looks = "net/http.(*connReader).backgroundRead";
    let limiter = [
        SERVE,
        "main.handler",
        "golang.org/x/time/rate.(*Limiter).wait",
    ];
    let ran: &[(&[&str], u64, u64)] = &[
        (&["runtime.goexit.abi0", SERVE, "main.handler"], 60, 50),
        (&["runtime.goexit.abi0", looks], 20, 15),
    ];
    let seen = [("select", &limiter[..], 10.0), ("IO wait", &[looks], 10.0)];
    let made = made(10.0, 0.1, &seen, ran);
    let parts = made.divide(1e6, 0.0).unwrap();
    assert!(share(&parts, "limiter") > 0.95, "{parts:#?}");
}

#[test]
fn whoever_waits_in_a_pool_waits_for_a_connection() {
    for reason in ["select", "chan receive", "semacquire", "sync.Cond.Wait"] {
        let names = ["runtime.selectgo", "database/sql.(*DB).conn", "main.f"];
        let (kind, label, _) = waiting(reason, &names);
        assert_eq!(kind, "pool", "{reason}");
        assert_eq!(
            label, "waiting for a free connection of a pool: database/sql.(*DB).conn",
            "{reason}"
        );
    }
    let names = ["database/sql.(*DB).conn", "main.f"];
    assert_eq!(waiting("sleep", &names).0, "sleep");
}

#[test]
fn whoever_comes_too_fast_is_held_back_by_a_limiter() {
    for (reason, function) in [
        ("select", "golang.org/x/time/rate.(*Limiter).wait"),
        ("sleep", "go.uber.org/ratelimit.(*mutexLimiter).Take"),
        ("semacquire", "main.(*TokenBucket).take"),
    ] {
        let (kind, label, _) = waiting(reason, &["runtime.gopark", function, "main.f"]);
        assert_eq!(kind, "limiter", "{function}");
        assert_eq!(
            label,
            format!("held back by a limiter of a rate: {function}")
        );
    }
    // One of how many go on at a time, and what divides text.
    for function in ["main.(*CapacityLimiter).acquire", "main.readDelimiter"] {
        assert_ne!(waiting("semacquire", &[function]).0, "limiter");
    }
}

#[test]
fn parts_add_up_to_the_hidden_time_whatever_is_seen() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let doings = [
        "sync.Mutex.Lock",
        "sleep",
        "chan send",
        "running",
        "syscall",
        "runnable",
        "IO wait",
        "runnable after IO wait",
        "GC assist wait",
        "semacquire",
    ];
    let (mut divided, mut rests) = (0, 0);
    for _ in 0..2_000 {
        let count = 1 + random(6) as usize;
        let picked: Vec<(usize, f64)> = (0..count)
            .map(|_| {
                (
                    random(doings.len() as u64) as usize,
                    random(400) as f64 / 20.0,
                )
            })
            .collect();
        let functions = [SERVE, "main.handler"];
        let mut seen: Vec<Seen<'_>> = picked
            .iter()
            .map(|(doing, n)| (doings[*doing], &functions[..], *n))
            .collect();
        seen.push(("IO wait", &functions[..1], 1.0));
        let mut one = made(
            random(300) as f64 / 10.0,
            random(30) as f64 / 10.0,
            &seen,
            ON_CPU,
        );
        one.samples.blocked = random(200) as f64;
        let (hidden_ns, sending_ns) = (random(1 << 30) as f64, random(1 << 30) as f64);
        let Some(parts) = one.divide(hidden_ns, sending_ns) else {
            continue;
        };
        divided += 1;
        rests += usize::from(parts.iter().any(|part| part.kind == "hidden"));
        let sum: f64 = parts.iter().map(|part| part.ns).sum();
        let all = hidden_ns + sending_ns;
        assert!(
            (sum - all).abs() <= 1e-6 * all,
            "{sum} of {all}: {parts:#?}"
        );
        assert!(parts.iter().all(|part| part.ns > 0.0), "{parts:#?}");
    }
    assert!(divided > 1_000 && rests > 100, "{divided} {rests}");
}
