//! The ledger on profiles and turns whose answer is known.

use super::cpu::{cpu_rows, rules};
use super::latency::{LatencyCase, Which};
use super::*;
use crate::diagnosis::{Catalogue, FactSet, Finding, Station, Status, catalogue, work::works};
use crate::observed::{CoreUse, Observed, TaskUse};
use record::{
    AskedRuntime, Examination, Frame, Place, PlaceTime, PlaceTold, Profile, ProfileKind, Server,
    ServerProcess, SourceLine, Stack, TargetTurns, ThreadTime, Told, ToldState, TurnAccount, Turns,
    Unavailable, UpstreamPeer,
};
use std::collections::{BTreeMap, BTreeSet};

/// A profile of stacks, each `module:symbol` from the root on and its samples; the module `kernel` is the kernel's.
fn profile(stacks: &[(&[&str], u64)]) -> Profile {
    let mut frames: Vec<Frame> = Vec::new();
    let mut index = |text: &&str| {
        let (module, symbol) = text.split_once(':').expect("module:symbol");
        let frame = Frame {
            symbol: symbol.to_owned(),
            module: module.to_owned(),
            kernel: module == "kernel",
        };
        let at = frames.iter().position(|f| *f == frame).unwrap_or_else(|| {
            frames.push(frame);
            frames.len() - 1
        });
        at as u32
    };
    let stacks = stacks.iter().map(|(path, weight)| Stack {
        target: "web".to_owned(),
        pid: 7,
        thread: "web".to_owned(),
        frames: path.iter().map(&mut index).collect(),
        weight: *weight,
        state: None,
    });
    let stacks: Vec<Stack> = stacks.collect();
    let samples = stacks.iter().map(|s| s.weight).sum();
    Profile {
        kind: ProfileKind::OnCpu,
        hz: 99,
        samples,
        lost: 0,
        unwound: samples,
        frames,
        stacks,
    }
}

fn rows(stacks: &[(&[&str], u64)]) -> Vec<(String, String, u64)> {
    let profile = profile(stacks);
    let all: Vec<(&Stack, u64)> = profile.stacks.iter().map(|s| (s, s.weight)).collect();
    let rows = cpu_rows(&profile, &all, "app").into_iter();
    rows.map(|r| (r.kind, r.label, r.samples)).collect()
}

/// The program starts, and what it does is in a library of its name.
#[test]
fn a_library_by_the_programs_name_is_the_program() {
    let of = |module: &str| {
        let work: Vec<String> = ["parse", "plan"]
            .iter()
            .map(|f| format!("{module}:{f}"))
            .collect();
        let found = rows(&[(&["app:main", &work[0]], 30), (&["app:main", &work[1]], 70)]);
        let mut kinds: Vec<String> = found
            .into_iter()
            .map(|(kind, label, _)| format!("{kind} {label}"))
            .collect();
        kinds.sort();
        kinds
    };
    for own in ["libapp.so.18", "libapp-server.so.3"] {
        assert_eq!(of(own), ["function parse", "function plan"], "{own}");
    }
    for other in [
        "libapp2.so",
        "libapplet.so",
        "libap.so.3",
        "lib.so",
        "libother.so",
    ] {
        assert_eq!(of(other), [format!("library {other}")], "{other}");
    }
}

#[test]
fn an_address_is_told_only_where_most_of_the_time_is() {
    let found = |weight: u64| {
        let rows = rows(&[
            (&["app:main", "app:app+0x10"], weight),
            (&["app:main", "app:known"], 100 - weight),
        ]);
        rows.into_iter()
            .map(|(kind, label, _)| (kind, label))
            .collect::<Vec<_>>()
    };
    let row = |kind: &str, label: &str| (kind.to_owned(), label.to_owned());
    let known = row("function", "known");
    assert_eq!(
        found(40),
        [known.clone(), row("functions", "other functions of app")]
    );
    assert_eq!(found(60), [row("function", "app+0x10"), known]);
}

#[test]
fn every_kind_of_a_row_is_a_kind_of_work() {
    assert!(works().work.len() <= 128, "a bit for each");
    let known: BTreeSet<&str> = works().kinds().into_iter().collect();
    let mut keys: BTreeMap<&str, (&str, bool)> = BTreeMap::new();
    for rule in rules() {
        // A row may have several rules, between which others come.
        let said = (rule.label.as_str(), rule.own);
        assert_eq!(*keys.entry(&rule.key).or_insert(said), said, "{}", rule.key);
        for kind in &rule.kinds {
            assert!(known.contains(kind.as_str()), "{}: `{kind}`", rule.key);
        }
    }
}

#[test]
fn causes_name_rows_that_exist() {
    let of_places = [
        "listen_queue",
        "read_paused",
        "starting",
        "stopped",
        "wake_up",
        "run_queue",
        "other_turns",
        "others_blocked",
        "loop",
        "no_free_thread",
        "on_cpu",
        "upstream",
        "upstream_unread",
        "sending",
        "receiving",
        "hidden",
        "lock",
        "pool",
        "limiter",
        "channel",
        "condition",
        "sleep",
        "disk",
        "sync",
        "pipe",
        "unix",
        "dns",
        "child",
        "idle",
        "other",
        "client",
        "path",
        "throttled",
        "steal",
        "beside",
        "foreign",
        "generator",
        "compiled",
        "call",
        "unanswered",
        "unsent",
        "shared",
        "switching",
        "started",
    ];
    let of_rules: Vec<&str> = rules().iter().map(|r| r.key.as_str()).collect();
    for cause in &catalogue().causes {
        let further = cause.rows_where.iter().flat_map(|more| &more.rows);
        for row in cause.rows.iter().chain(further) {
            let known = of_rules.contains(&row.as_str()) || of_places.contains(&row.as_str());
            assert!(known, "{}: `{row}`", cause.name);
        }
    }
}

#[test]
fn the_programs_functions_are_told_where_their_callers_part() {
    let found = rows(&[
        (
            &[
                "app:main",
                "app:loop",
                "app:serve",
                "app:step",
                "app:burn_a",
            ],
            60,
        ),
        (
            &[
                "app:main",
                "app:loop",
                "app:serve",
                "app:step",
                "app:burn_b",
                "libm.so.6:sin",
            ],
            30,
        ),
        (&["app:main", "app:loop", "app:poll"], 1),
        (
            &[
                "app:main",
                "app:loop",
                "kernel:do_syscall_64",
                "kernel:tcp_sendmsg",
            ],
            9,
        ),
    ]);
    let expected = [
        ("function", "burn_a", 60),
        ("function", "burn_b", 30),
        ("net_send", "sending over TCP", 9),
        ("functions", "other functions of app", 1),
    ];
    let expected = expected.map(|(kind, label, n)| (kind.to_owned(), label.to_owned(), n));
    assert_eq!(found, expected);
}

/// A branch has the name of what holds nearly all of it; what is large beside that is not told by that name.
#[test]
fn what_turns_off_from_a_branch_is_told_by_itself_where_it_is_large() {
    let step = ["app:main", "app:serve", "app:step"];
    let with = |more: &'static str| [&step[..], &[more]].concat();
    let (most, large, small) = (with("app:burn_a"), with("app:burn_b"), with("app:burn_c"));
    let (log, poll) = (["app:main", "app:log_line"], ["app:main", "app:poll"]);
    let found = rows(&[
        (&most, 55),
        (&large, 9),
        (&small, 3),
        (&log, 15),
        (&poll, 18),
    ]);
    let expected = [
        ("burn_a", 58),
        ("poll", 18),
        ("log_line", 15),
        ("burn_b", 9),
    ];
    let expected = expected.map(|(name, n)| ("function".to_owned(), name.to_owned(), n));
    assert_eq!(found, expected);
}

#[test]
fn work_that_many_functions_share_is_the_programs_own() {
    let names: Vec<String> = (0..8).map(|n| format!("app:step_{n}")).collect();
    // Below `evaluate` one function has this many of 40 samples, seven have the rest; beside it is other work.
    for (largest, beside, own) in [(5, 60, true), (24, 60, false), (5, 10, false)] {
        let mut paths: Vec<(Vec<&str>, u64)> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let samples = if index == 0 {
                largest
            } else {
                (40 - largest) / 7
            };
            paths.push((vec!["app:main", "app:evaluate", name], samples));
        }
        paths.push((vec!["app:main", "app:poll"], beside));
        let stacks: Vec<(&[&str], u64)> = paths.iter().map(|(p, n)| (p.as_slice(), *n)).collect();
        let profile = profile(&stacks);
        let all: Vec<(&Stack, u64)> = profile.stacks.iter().map(|s| (s, s.weight)).collect();
        let rows = cpu_rows(&profile, &all, "app");
        let of = |label: &str| rows.iter().filter(|r| r.label == label).any(|r| r.own);
        assert_eq!(of("evaluate"), own, "{largest} {beside}: {rows:?}");
    }
}

#[test]
fn what_lies_on_the_way_of_all_requests_is_divided_into_its_parts() {
    let way = ["app:main", "app:queue", "app:dial"];
    let with = |more: &[&'static str]| [&way, more].concat();
    let read = with(&["app:on_read", "kernel:tcp_recvmsg"]);
    let (parse, answer) = (with(&["app:parse"]), with(&["app:answer"]));
    let beside = ["app:main", "app:queue", "app:log_line"];
    let all: [(&[&str], u64); 5] = [
        (&read, 10),
        (&parse, 30),
        (&answer, 30),
        (&way, 5),
        (&beside, 25),
    ];
    let named = |found: Vec<(String, String, u64)>| {
        let of_program = found.into_iter().filter(|(kind, ..)| kind == "function");
        let mut named: Vec<(String, u64)> = of_program.map(|(_, name, n)| (name, n)).collect();
        named.sort();
        named
    };
    let expected = [("answer", 30), ("dial", 5), ("log_line", 25), ("parse", 30)];
    let expected = expected.map(|(name, n)| (name.to_owned(), n));
    assert_eq!(named(rows(&all)), expected);
    // Where nothing is read below it, it is what takes the time.
    let expected = [("dial", 65), ("log_line", 25)].map(|(name, n)| (name.to_owned(), n));
    assert_eq!(named(rows(&all[1..])), expected);
}

/// A rule for each name: one function tries all of them, and no function that it calls takes most of the time.
#[test]
fn what_one_function_does_with_those_it_calls_is_known_together() {
    let below = |read_below: bool| {
        let reads: &[&str] = match read_below {
            true => &["app:main", "app:query", "app:rules", "kernel:tcp_recvmsg"],
            false => &["app:main", "app:query", "kernel:tcp_recvmsg"],
        };
        let stacks: [(&[&str], u64); 4] = [
            (&["app:main", "app:query", "app:rules", "app:labels"], 40),
            (&["app:main", "app:query", "app:rules", "app:compare"], 35),
            (&["app:main", "app:query", "app:rules"], 10),
            (reads, 15),
        ];
        let profile = profile(&stacks);
        let all: Vec<(&Stack, u64)> = profile.stacks.iter().map(|s| (s, s.weight)).collect();
        let rows = cpu_rows(&profile, &all, "app");
        let functions = rows.into_iter().filter(|r| r.kind == "function");
        functions.map(|r| r.below).collect::<Vec<_>>()
    };
    assert_eq!(below(false), ["rules", "rules", "rules"]);
    // What all requests pass is no place of work.
    assert_eq!(below(true), ["", "", ""]);
}

/// What was not seen before an upstream is asked, and behind it, is one place that nobody knows; that of two servers is
/// two.
#[test]
fn hidden_time_at_one_server_is_known_together() {
    let mut latency = account(&[("hidden", 0.25, false), ("hidden", 0.125, false)]);
    for row in &mut latency.rows {
        row.share_error = 0.03;
        row.requests = Some(8.0 * row.share);
    }
    let sum = latency.hidden_at_one().unwrap();
    assert_eq!((sum.share, sum.requests), (0.375, Some(3.0)));
    assert!((sum.share_error - 0.03 * 2_f64.sqrt()).abs() < 1e-9);
    latency.rows[1].server = "app".to_owned();
    assert_eq!(latency.hidden_at_one(), None);
    latency.rows[0].server = "app".to_owned();
    assert!(latency.hidden_at_one().is_some());
    latency.rows[0].cause = Some("queue".to_owned());
    assert_eq!(latency.hidden_at_one(), None);
}

fn branch_of(stacks: &[(&[&str], u64)], ran: &[PlaceTold], told: &[Told]) -> Option<Branch> {
    let profile = profile(stacks);
    let all: Vec<(&Stack, u64)> = profile.stacks.iter().map(|s| (s, s.weight)).collect();
    super::branch::branch(&profile, &all, &ran.iter().collect::<Vec<_>>(), told)
}

#[test]
fn most_of_the_time_is_below_the_narrowest_function_that_still_has_half_of_it() {
    let path = [
        "app:main",
        "app:handle",
        "libmap.so:draw",
        "libmap.so:shapes",
    ];
    let (bounds, read) = (
        [&path[..], &["libgdal.so:get"]].concat(),
        [&path[..], &["kernel:vfs_read"]].concat(),
    );
    let other = ["app:main", "app:handle", "libpng.so:write"];
    let log = ["app:main", "app:log_line"];
    let stacks: [(&[&str], u64); 4] = [(&bounds, 33), (&read, 21), (&other, 26), (&log, 20)];
    let found = branch_of(&stacks, &[], &[]).unwrap();
    assert_eq!(found.words(), "54 % is below shapes < draw < handle < main");
    // What requests are read below is on the way of all of them, and threads begin somewhere.
    let way = ["app:main", "app:handle", "kernel:tcp_recvmsg"];
    let parts = [(&other[..], 45), (&way[..], 5), (&log[..], 50)];
    assert_eq!(branch_of(&parts, &[], &[]).unwrap().function, "log_line");
    let parts = [(&other[..], 45), (&way[..], 15), (&log[..], 40)];
    assert_eq!(branch_of(&parts, &[], &[]), None);
    // Neither few samples nor addresses tell.
    assert_eq!(branch_of(&[(&log, 49)], &[], &[]), None);
    let nameless = ["app:main", "app:app+0x10", "app:app+0x20"];
    assert_eq!(branch_of(&[(&nameless, 100)], &[], &[]), None);
}

#[test]
fn of_an_interpreter_the_functions_of_its_scripts_are_the_branches() {
    let frames = |names: &[&str]| Told {
        runtime: "cpython".to_owned(),
        state: ToldState::Running,
        frames: names.iter().map(|&name| name.to_owned()).collect(),
        ..Told::default()
    };
    let (app, flush) = ("view (app.py:3)", "flush (orm.py:9)");
    let told = [
        frames(&["time.sleep", "compare (orm.py:40)", flush, app]),
        frames(&["insert (orm.py:60)", flush, app]),
        frames(&["render (page.py:7)", app]),
    ];
    let ran: Vec<PlaceTold> = (0..)
        .zip([40, 25, 35])
        .map(|(told, samples)| PlaceTold {
            place: Place::OnCpu,
            told,
            samples,
        })
        .collect();
    let eval = ["python3:main", "python3:_PyEval_EvalFrameDefault"];
    let poll = ["python3:main", "kernel:do_epoll_wait"];
    let stacks: [(&[&str], u64); 2] = [(&eval, 80), (&poll, 20)];
    let found = branch_of(&stacks, &ran, &told).unwrap();
    assert_eq!(found.function, flush);
    assert_eq!(found.callers, [app]);
    assert!((found.share - 0.65 * 0.8).abs() < 1e-9, "{found:?}");
    // Where looks are too few, nothing is known of its scripts, and its own functions say nothing.
    assert_eq!(branch_of(&stacks, &ran[1..2], &told), None);
}

/// In Go most stacks begin in one function of the runtime, and not so many that it were the program's own beginning.
#[test]
fn where_threads_begin_is_no_place_of_work() {
    let found = rows(&[
        (&["app:goexit", "app:serve", "app:handle"], 30),
        (&["app:goexit", "app:unpack", "app:unroll"], 40),
        (&["app:systemstack", "app:mark"], 30),
    ]);
    let named: Vec<(&str, u64)> = found
        .iter()
        .map(|(_, name, n)| (name.as_str(), *n))
        .collect();
    assert_eq!(named, [("unroll", 40), ("handle", 30), ("mark", 30)]);
}

#[test]
fn a_library_is_named_and_a_known_purpose_takes_what_is_below_it() {
    let found = rows(&[
        (&["app:main", "libnjs.so.0:run", "libnjs.so.0:step"], 40),
        (
            &[
                "app:main",
                "app:ngx_http_log_handler",
                "kernel:__x64_sys_write",
                "kernel:vfs_write",
            ],
            25,
        ),
        (
            &["app:main", "kernel:__x64_sys_fsync", "kernel:vfs_fsync"],
            20,
        ),
        (&["app:main", "libz.so.1:deflate", "libc.so.6:memcpy"], 15),
    ]);
    let kinds: Vec<(&str, u64)> = found
        .iter()
        .map(|(kind, _, n)| (kind.as_str(), *n))
        .collect();
    assert_eq!(
        kinds,
        [
            ("library", 40),
            ("logging", 25),
            ("sync", 20),
            ("compression", 15)
        ]
    );
    assert_eq!(found[2].1, "syncing to the disk");
}

/// A program that is started is loaded before any function of it runs: what linked it is part of the start.
#[test]
fn the_loader_is_a_start_of_a_process_and_a_call_through_it_is_not() {
    let loader = [
        "ld-linux-x86-64.so.2:dl_main",
        "ld-linux-x86-64.so.2:_dl_relocate_object",
        "ld-linux-x86-64.so.2:do_lookup_x",
    ];
    let call = [
        "app:answer",
        "ld-linux-x86-64.so.2:_dl_runtime_resolve",
        "ld-linux-x86-64.so.2:do_lookup_x",
    ];
    let rows = rows(&[(&loader, 60), (&call, 40)]);
    let kinds: Vec<(&str, u64)> = rows
        .iter()
        .map(|(kind, _, n)| (kind.as_str(), *n))
        .collect();
    assert_eq!(kinds, [("spawn", 60), ("function", 40)]);
}

#[test]
fn a_program_that_is_started_is_a_row_of_its_own() {
    let mut profile = profile(&[
        (&["serve:main", "serve:answer"], 50),
        (&["serve:main", "serve:answer"], 10),
        (&["unpack:main", "libz.so.1:inflate"], 30),
        (&["unpack:main", "unpack:print"], 10),
    ]);
    let who = [(7, "serve"), (8, "serve"), (9, "unpack"), (10, "unpack")];
    for (stack, (pid, name)) in profile.stacks.iter_mut().zip(who) {
        (stack.pid, stack.thread) = (pid, name.to_owned());
    }
    let process = |pid, role: &str, name: &str| ServerProcess {
        pid,
        role: role.to_owned(),
        name: name.to_owned(),
        ..ServerProcess::default()
    };
    // One was running when the server was looked at, and a child of its own has its name.
    let server = Server {
        processes: vec![process(7, "main", "serve"), process(6, "helper", "unpack")],
        ..Server::default()
    };
    let all = || profile.stacks.iter().map(|s| (s, s.weight)).collect();
    let (started, own) = started::apart(Some(&server), all());
    assert_eq!(own.iter().map(|(_, n)| n).sum::<u64>(), 60);
    let rows = started::rows(&profile, started);
    let [row] = rows.as_slice() else {
        panic!("{rows:#?}");
    };
    assert_eq!((row.kind.as_str(), row.samples), ("started", 40));
    assert_eq!(row.label, "the program unpack, which is started anew");
    assert!(
        row.place
            .starts_with("mostly unpacking what is compressed 75 %"),
        "{}",
        row.place
    );
    assert_eq!(started::apart(None, all()).0.len(), 0);
}

#[test]
fn parameters_are_no_part_of_a_name() {
    for (symbol, name) in [
        ("node::Call(int, v8::Local<v8::Value>*)", "node::Call"),
        (
            "a::(anonymous namespace)::f(std::pair<int, void (*)(int)>) const",
            "a::(anonymous namespace)::f",
        ),
        ("sync.(*Mutex).lockSlow", "sync.(*Mutex).lockSlow"),
        ("main.main.func1", "main.main.func1"),
        ("(unknown)", "(unknown)"),
        ("broken)", "broken)"),
    ] {
        assert_eq!(super::cpu::short(symbol), name);
    }
}

#[test]
fn a_runtimes_own_work_is_told_from_a_librarys() {
    let found = rows(&[
        (&["app:main", "app:v8::internal::Invoke", "jit:[jit]"], 30),
        (
            &["app:main", "app:Builtins_JSEntry", "app:Builtins_ArrayMap"],
            25,
        ),
        (
            &["app:main", "app:Builtins_JSEntry", "addon.so:hash_it"],
            20,
        ),
        (
            &[
                "libjvm.so:Compile::Compile",
                "libjvm.so:PhaseChaitin::Split",
            ],
            15,
        ),
    ]);
    let kinds: Vec<(&str, u64)> = found
        .iter()
        .map(|(kind, _, n)| (kind.as_str(), *n))
        .collect();
    let expected = [
        ("compiled", 30),
        ("interpreter", 25),
        ("library", 20),
        ("compiling", 15),
    ];
    assert_eq!(kinds, expected);
}

/// Code of a Lisp lies in its image, in which nobody finds where a function ends: it is not one of them.
#[test]
fn code_of_an_image_is_no_function() {
    let found = rows(&[
        (&["app:app+?"], 60),
        (&["app:main", "app:app+?"], 20),
        (&["app:main", "app:collect"], 20),
    ]);
    let found: Vec<(&str, &str, u64)> = found
        .iter()
        .map(|(kind, label, n)| (kind.as_str(), label.as_str(), *n))
        .collect();
    let expected = [
        ("compiled", super::cpu::NAMELESS, 80),
        ("function", "collect", 20),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_sample_is_in_one_row() {
    // Any mix of modules and depths, seeded.
    let names = [
        "app:a",
        "app:b",
        "app:c",
        "libz.so.1:deflate",
        "libx.so:y",
        "libc.so.6:memcpy",
        "kernel:tcp_sendmsg",
        "kernel:asm_exc_page_fault",
        "[jit]:[jit]",
        "kernel:__x64_sys_close",
        "app:malloc",
        "app:_PyEval_EvalFrame",
    ];
    let mut seed = 7_u64;
    let mut next = |n: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    for _ in 0..200 {
        let paths: Vec<(Vec<&str>, u64)> = (0..1 + next(12))
            .map(|_| {
                (
                    (0..next(6)).map(|_| names[next(names.len())]).collect(),
                    1 + next(9) as u64,
                )
            })
            .collect();
        let stacks: Vec<(&[&str], u64)> = paths.iter().map(|(p, n)| (p.as_slice(), *n)).collect();
        let total: u64 = stacks.iter().map(|(_, n)| n).sum();
        let told: u64 = rows(&stacks).iter().map(|(.., n)| n).sum();
        assert_eq!(told, total, "{paths:?}");
    }
}

fn place(place: Place, detail: &str, total_ns: u64) -> PlaceTime {
    PlaceTime {
        helper: String::new(),
        place,
        detail: detail.to_owned(),
        waker: String::new(),
        stack: None,
        told: None,
        turns: 100,
        total_ns,
    }
}

fn target(name: &str, places: Vec<PlaceTime>) -> TargetTurns {
    let total_ns = places.iter().map(|p| p.total_ns).sum();
    TargetTurns {
        target: name.to_owned(),
        connections: 10,
        account: TurnAccount {
            tasks: None,
            turns: 100,
            total_ns,
            places,
            ..TurnAccount::default()
        },
        ..TargetTurns::default()
    }
}

fn chain() -> (Examination, Turns) {
    let server = |name: &str, port: u16, to: Option<u16>| Server {
        target: name.to_owned(),
        kind: "generic".to_owned(),
        listens: vec![format!("127.0.0.1:{port}")],
        upstreams: to
            .map(|p| UpstreamPeer {
                address: format!("127.0.0.1:{p}"),
                ..UpstreamPeer::default()
            })
            .into_iter()
            .collect(),
        ..Server::default()
    };
    let examination = Examination {
        servers: vec![
            server("proxy", 80, Some(81)),
            server("app", 81, Some(82)),
            server("db", 82, None),
        ],
        ..Examination::default()
    };
    let turns = Turns {
        window_ns: 1_000_000_000,
        traced_ns: 0,
        sampled_one_in: 1,
        targets: vec![
            target(
                "proxy",
                vec![
                    place(Place::OnCpu, "", 10_000),
                    place(Place::Upstream, "127.0.0.1:81", 990_000),
                ],
            ),
            target(
                "app",
                vec![
                    place(Place::OnCpu, "", 100_000),
                    place(Place::Upstream, "127.0.0.1:82", 800_000),
                ],
            ),
            target(
                "db",
                vec![
                    place(Place::Blocked, "disk", 600_000),
                    place(Place::OnCpu, "", 200_000),
                ],
            ),
        ],
        ..Turns::default()
    };
    (examination, turns)
}

/// The same where the proxy asks the application over a Unix socket.
fn chain_over_unix() -> (Examination, Turns) {
    let (mut examination, mut turns) = chain();
    examination.servers[0].upstreams[0] = UpstreamPeer {
        address: "/run/app.sock".to_owned(),
        target: Some("app".to_owned()),
        ..UpstreamPeer::default()
    };
    examination.servers[1].listens.clear();
    turns.targets[0].account.places[1].detail = "unix:/run/app.sock".to_owned();
    (examination, turns)
}

#[test]
fn a_chain_of_servers_is_followed_to_where_the_time_goes() {
    for (examination, turns) in [chain(), chain_over_unix()] {
        is_followed(examination, &turns);
    }
}

fn is_followed(mut examination: Examination, turns: &Turns) {
    examination.servers[2].kind = "postgres".to_owned();
    let case = LatencyCase {
        unaccepted: 0,
        turns,
        examination: &examination,
    };
    let account = case.account("proxy", true, Which::All).unwrap();
    let share = |label: &str| {
        account
            .rows
            .iter()
            .find(|r| r.label == label)
            .map_or(0.0, |r| r.share)
    };
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(account.closed(), 1.0), "{account:#?}");
    assert_eq!(
        account.rows[0].label,
        "in postgres db: waiting for the disk"
    );
    // By its target, as findings name it.
    assert_eq!(account.rows[0].server, "db");
    assert!(
        near(share("in postgres db: waiting for the disk"), 0.6),
        "{account:#?}"
    );
    assert!(near(share("on the CPU in db"), 0.2), "{account:#?}");
    assert!(near(share("between proxy and app"), 0.09), "{account:#?}");
    assert!(near(account.total, 10.0), "{}", account.total);
    // 1 ms of turns in a window of a second.
    assert!(near(account.requests.unwrap(), 0.001), "{account:#?}");
}

/// Three copies that a balancer asks: each has a third of the wait, unless one of them is the slow one.
#[test]
fn copies_of_a_program_are_one_row_and_a_slow_one_is_its_own() {
    let told = |ns: [u64; 3]| {
        let ports = [9001_u16, 9002, 9003];
        let name = |port: u16| format!("upstream-{port}");
        let address = |port: u16| format!("127.0.0.1:{port}");
        let peers = ports.map(|port| UpstreamPeer {
            address: address(port),
            target: Some(name(port)),
            ..UpstreamPeer::default()
        });
        let copy = |port: u16| Server {
            target: name(port),
            kind: "go".to_owned(),
            exe: "/srv/hall".to_owned(),
            command: vec!["hall".to_owned(), port.to_string()],
            listens: vec![address(port)],
            ..Server::default()
        };
        let front = Server {
            target: "proxy".to_owned(),
            upstreams: peers.to_vec(),
            ..Server::default()
        };
        let waits = ports.iter().zip(ns);
        let waits = waits.map(|(&port, ns)| place(Place::Upstream, &address(port), ns));
        let sleeps = ports.iter().zip(ns);
        let sleeps =
            sleeps.map(|(&port, ns)| target(&name(port), vec![place(Place::Blocked, "sleep", ns)]));
        let examination = Examination {
            servers: std::iter::once(front).chain(ports.map(copy)).collect(),
            ..Examination::default()
        };
        let turns = Turns {
            window_ns: 1_000_000_000,
            sampled_one_in: 1,
            targets: std::iter::once(target("proxy", waits.collect()))
                .chain(sleeps)
                .collect(),
            ..Turns::default()
        };
        let case = LatencyCase {
            unaccepted: 0,
            turns: &turns,
            examination: &examination,
        };
        let account = case.account("proxy", true, Which::All).unwrap();
        assert!((account.closed() - 1.0).abs() < 1e-9, "{account:#?}");
        let first = account.rows[0].clone();
        (first.label, first.server, first.share)
    };
    let (label, server, share) = told([300_000, 400_000, 300_000]);
    assert_eq!(
        label,
        "in go upstream-9001 and 2 like it: asleep until a timer"
    );
    assert_eq!(server, "upstream-9001");
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let (label, server, share) = told([50_000, 900_000, 50_000]);
    assert_eq!(label, "in go upstream-9002: asleep until a timer");
    assert_eq!(server, "upstream-9002");
    assert!((share - 0.9).abs() < 1e-9, "{share}");
}

/// Whether this row of the proxy's is its own work, where its threads did that.
fn is_own(
    examination: &Examination,
    turns: &mut Turns,
    (threads, places): (u64, Vec<PlaceTime>),
    kind: &str,
) -> bool {
    turns.targets[0].threads = Some(ThreadTime {
        threads,
        account: target("", places).account,
        ..ThreadTime::default()
    });
    let case = LatencyCase {
        unaccepted: 0,
        turns,
        examination,
    };
    let account = case.account("proxy", true, Which::All).unwrap();
    let row = account.rows.iter().find(|r| r.kind == kind);
    row.unwrap_or_else(|| panic!("no {kind}: {account:#?}"))
        .own_work
}

/// A runtime that lets one of its threads run at a time, a pool whose threads wait, and two that run on CPUs of their
/// own: of the last two, more threads serve more.
#[test]
fn threads_that_work_in_turn_are_one_worker() {
    let (examination, mut turns) = chain();
    turns.targets[0] = target(
        "proxy",
        vec![
            place(Place::OnCpu, "", 100_000),
            place(Place::NoFreeThread, "", 300_000),
        ],
    );
    let mut own = |places: &[(Place, u64)]| {
        let places = places.iter().map(|(at, ns)| place(*at, "", *ns)).collect();
        is_own(&examination, &mut turns, (2, places), "no_free_thread")
    };
    let in_turn = [
        (Place::Idle, 500_000),
        (Place::OnCpu, 350_000),
        (Place::RunQueue, 150_000),
    ];
    assert!(own(&in_turn));
    assert!(!own(&[(Place::Idle, 500_000), (Place::Blocked, 500_000)]));
    assert!(!own(&[(Place::Idle, 100_000), (Place::OnCpu, 900_000)]));
}

/// A wait that holds a pool's threads is worth the line before them, too; one that holds them for a while is not.
#[test]
fn what_holds_the_threads_holds_the_line_before_them() {
    let row = |kind: &str, share: f64| Row {
        kind: kind.to_owned(),
        share,
        ..Row::default()
    };
    let account = |basis, rows: Vec<Row>| Account {
        target: "web".to_owned(),
        basis,
        rows,
        ..Account::default()
    };
    let slow_log = crate::diagnosis::catalogue().cause("log_consumer_slow");
    let line = |held: f64| {
        let ledger = Ledger {
            rate: Some(account(
                Basis::Threads,
                vec![row("pipe", held), row("on_cpu", 1.0 - held)],
            )),
            latency: Some(account(
                Basis::Requests,
                vec![row("no_free_thread", 0.7), row("pipe", 0.3)],
            )),
            ..Ledger::default()
        };
        super::in_line(&ledger, slow_log.unwrap(), "web", "web")
    };
    assert!((line(0.9) - 0.63).abs() < 1e-9);
    assert_eq!(line(0.4), 0.0);
}

#[test]
fn a_queue_that_chance_makes_is_no_loss_and_a_longer_one_is() {
    let (examination, mut turns) = chain();
    // A worker that is busy half of the time: arrivals by chance wait as long as one takes.
    for (waits, own) in [(90_000, true), (150_000, false)] {
        turns.targets[0] = target(
            "proxy",
            vec![
                place(Place::OnCpu, "", 100_000),
                place(Place::ListenQueue, "", waits),
            ],
        );
        let halves = vec![
            place(Place::OnCpu, "", 100_000),
            place(Place::Idle, "", 100_000),
        ];
        let queue = is_own(&examination, &mut turns, (1, halves), "listen_queue");
        assert_eq!(queue, own, "{waits}");
    }
}

#[test]
fn a_request_alone_takes_its_time_less_its_waits_for_others() {
    let (examination, mut turns) = chain();
    // Of the database's time a half is a queue for its core, and the proxy has one for its worker.
    turns.targets[2] = target(
        "db",
        vec![
            place(Place::RunQueue, "process other", 400_000),
            place(Place::Blocked, "disk", 400_000),
        ],
    );
    turns.targets[0].account.places.extend([
        place(Place::OtherTurns, "", 300_000),
        place(Place::Blocked, "flock", 100_000),
        place(Place::Hidden, "rest of the request", 50_000),
        place(Place::Hidden, "", 20_000),
        place(Place::Sending, "", 30_000),
    ]);
    let case = LatencyCase {
        unaccepted: 0,
        turns: &turns,
        examination: &examination,
    };
    let service = case.service("proxy").unwrap();
    // 990 us at the application, of which 4/9 are the database's queue.
    let queued_behind = 990_000.0 * 4.0 / 9.0;
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1.0, "{a} against {b}: {service:?}");
    near(service.queued_ns, 400_000.0 + queued_behind);
    near(service.alone_ns, 10_000.0 + 990_000.0 - queued_behind);
    near(service.sending_ns, 30_000.0);
    near(service.client_ns, 50_000.0);
    near(service.hidden_ns, 20_000.0);
    assert!(case.service("nobody").is_none());
}

/// The account of all turns of `app`.
fn account_of(turns: &Turns) -> Account {
    let examination = Examination::default();
    let case = LatencyCase {
        unaccepted: 0,
        turns,
        examination: &examination,
    };
    case.account("app", true, Which::All).unwrap()
}

/// The rows of one server whose waits in futexes were told, as label and place.
fn told_rows(all: Vec<Told>, waker: &str) -> Vec<(String, String, String)> {
    let places = (0..all.len()).map(|told| PlaceTime {
        helper: String::new(),
        told: Some(told as u32),
        waker: waker.to_owned(),
        ..place(Place::Blocked, "futex", 1_000 - told as u64)
    });
    let turns = Turns {
        window_ns: 1_000_000_000,
        traced_ns: 0,
        sampled_one_in: 1,
        targets: vec![target("app", places.collect())],
        told: all,
        ..Turns::default()
    };
    let account = account_of(&turns);
    assert!((account.closed() - 1.0).abs() < 1e-9);
    let rows = account.rows.into_iter();
    rows.map(|r| (r.kind, r.label, r.place)).collect()
}

/// A thread that serves nobody has what a request waits for, and sleeps; the request sleeps elsewhere as well.
#[test]
fn what_another_thread_sleeps_for_is_a_row_of_its_own() {
    let places = vec![
        PlaceTime {
            helper: "thread keeper".to_owned(),
            ..place(Place::Blocked, "sleep", 600)
        },
        place(Place::Blocked, "sleep", 400),
    ];
    let turns = Turns {
        window_ns: 1_000_000_000,
        targets: vec![target("app", places)],
        ..Turns::default()
    };
    let account = account_of(&turns);
    let labels = account.rows.iter().map(|row| row.label.as_str());
    let expected = [
        "waiting for thread keeper, which is asleep until a timer",
        "asleep until a timer",
    ];
    assert_eq!(labels.collect::<Vec<_>>(), expected);
}

#[test]
fn what_a_runtime_told_says_which_lock_and_who_has_it() {
    use ToldState as S;
    let told = |state, frames: &[&str], owner: &str| Told {
        runtime: "jvm".to_owned(),
        state,
        frames: frames.iter().map(|f| (*f).to_owned()).collect(),
        owner: owner.to_owned(),
        ..Told::default()
    };
    let found = told_rows(
        vec![
            told(
                S::Lock,
                &["com.example.Plan.withLock", "com.example.Main.run"],
                "thread worker in com.example.Plan.fill",
            ),
            told(
                S::Permit,
                &[
                    "java.util.concurrent.Semaphore.acquire",
                    "com.example.Pool.getConnection",
                ],
                "",
            ),
            // A lock that a library takes for itself is another one than that of the function that called it.
            told(
                S::Lock,
                &["sun.nio.ch.FileChannelImpl.write", "App.log"],
                "",
            ),
            told(
                S::Lock,
                &["java.util.concurrent.locks.ReentrantLock.lock", "App.log"],
                "",
            ),
            told(S::Sleep, &["java.lang.Thread.sleep", "App.pause"], ""),
            // Only its own library: that is said then.
            told(S::Signal, &["java.lang.Object.wait"], ""),
            told(
                S::Result,
                &["java.util.concurrent.FutureTask.get", "App.join"],
                "",
            ),
            told(
                S::Sleep,
                &[
                    "java.lang.Thread.sleep",
                    "com.google.common.util.concurrent.RateLimiter.acquire",
                    "App.serve",
                ],
                "",
            ),
            told(
                S::Signal,
                &[
                    "java.util.concurrent.SynchronousQueue.poll",
                    "com.zaxxer.hikari.util.ConcurrentBag.borrow",
                    "com.zaxxer.hikari.pool.HikariPool.getConnection",
                ],
                "",
            ),
            // The system call says what it waits for.
            told(S::Running, &["App.native"], ""),
        ],
        "thread worker",
    );
    let expected = [
        (
            "lock",
            "waiting for a lock: Plan.withLock",
            "Plan.withLock < Main.run; held by thread worker in com.example.Plan.fill",
        ),
        (
            "lock",
            "waiting for a permit of a semaphore or pool: Pool.getConnection",
            "Semaphore.acquire < Pool.getConnection; woken by thread worker",
        ),
        (
            "lock",
            "waiting for the lock of FileChannelImpl.write: App.log",
            "FileChannelImpl.write < App.log; woken by thread worker",
        ),
        (
            "lock",
            "waiting for a lock: App.log",
            "ReentrantLock.lock < App.log; woken by thread worker",
        ),
        ("sleep", "asleep: App.pause", "Thread.sleep < App.pause"),
        (
            "lock",
            "waiting until another thread signals: Object.wait",
            "Object.wait; woken by thread worker",
        ),
        (
            "lock",
            "waiting for the result of another thread: App.join",
            "FutureTask.get < App.join; woken by thread worker",
        ),
        (
            "limiter",
            "held back by a limiter of a rate: RateLimiter.acquire",
            "Thread.sleep < RateLimiter.acquire < App.serve",
        ),
        (
            "pool",
            "waiting for a free connection of a pool: ConcurrentBag.borrow",
            "SynchronousQueue.poll < ConcurrentBag.borrow < HikariPool.getConnection; woken by thread worker",
        ),
        (
            "lock",
            "waiting in a futex (a lock or a condition)",
            "App.native; woken by thread worker",
        ),
    ];
    let expected =
        expected.map(|(kind, label, place)| (kind.to_owned(), label.to_owned(), place.to_owned()));
    assert_eq!(found, expected);
}

#[test]
fn compiled_code_is_divided_by_function_where_it_has_names() {
    let found = rows(&[
        (&["jit:Interpreter", "jit:Plan.sort"], 60),
        (&["jit:Plan.run", "jit:Plan.sort"], 10),
        (&["jit:Plan.hash"], 20),
        (&["jit:[jit]"], 9),
        (&["jit:Plan.seldom"], 1),
        (&["jit:Plan.run", "jit:Interpreter"], 5),
    ]);
    let found: Vec<(&str, &str, u64)> = found
        .iter()
        .map(|(kind, label, n)| (kind.as_str(), label.as_str(), *n))
        .collect();
    let interpreter = "running scripts: interpreter and built-in functions";
    let expected = [
        ("compiled", "Plan.sort", 70),
        ("compiled", "Plan.hash", 20),
        ("compiled", super::cpu::NAMELESS, 9),
        ("interpreter", interpreter, 5),
        ("compiled", super::cpu::COMPILED, 1),
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_interpreters_row_is_divided_by_what_its_runtime_told_and_adds_up() {
    let told = |function: &str, state| Told {
        runtime: "cpython".to_owned(),
        state,
        frames: vec![function.to_owned(), "main (app.py:1)".to_owned()],
        ..Told::default()
    };
    let all = [
        told("work (app.py:3)", ToldState::Running),
        told("other (app.py:9)", ToldState::Running),
        // Who waits does not run, wherever the trace had it.
        told("enter (app.py:20)", ToldState::Lock),
    ];
    let row = |kind: &str, samples| super::cpu::CpuRow {
        kind: kind.to_owned(),
        label: kind.to_owned(),
        own: true,
        samples,
        ..super::cpu::CpuRow::default()
    };
    for scale in [1, 7, 1_000] {
        let ran: Vec<PlaceTold> = [(0, 61), (1, 20), (2, 500)]
            .into_iter()
            .map(|(told, times)| PlaceTold {
                place: Place::OnCpu,
                told,
                samples: times * scale,
            })
            .collect();
        let rows = vec![row("interpreter", 803), row("net_send", 197)];
        let divided = super::told::divided(rows, &ran.iter().collect::<Vec<_>>(), &all);
        assert_eq!(divided.iter().map(|r| r.samples).sum::<u64>(), 1_000);
        let first = &divided[0];
        assert_eq!(first.label, "running scripts: work (app.py:3)");
        assert_eq!((first.samples, first.kind.as_str()), (604, "interpreter"));
        assert_eq!(first.place, "work (app.py:3) < main (app.py:1)");
        assert!(divided.iter().all(|r| !r.label.contains("enter")));
    }
    // A known kind of work is one row, whichever of its functions ran, and joins what an extension does of it.
    let mut logged = told(
        "Formatter.format (logging/__init__.py:674)",
        ToldState::Running,
    );
    logged.own = Some(1);
    let all = [
        told("work (app.py:3)", ToldState::Running),
        told("print_exception (traceback.py:111)", ToldState::Running),
        told("checkcache (linecache.py:52)", ToldState::Running),
        logged,
    ];
    let ran: Vec<PlaceTold> = (0..4)
        .map(|told| PlaceTold {
            place: Place::OnCpu,
            told,
            samples: 50,
        })
        .collect();
    let mut native = row("stack_trace", 100);
    native.label = "raising exceptions, and taking and formatting stack traces".to_owned();
    let rows = vec![row("interpreter", 800), native, row("net_send", 100)];
    let divided = super::told::divided(rows, &ran.iter().collect::<Vec<_>>(), &all);
    let found: Vec<(&str, u64)> = (divided.iter())
        .map(|r| (r.kind.as_str(), r.samples))
        .collect();
    let expected = [
        ("stack_trace", 500),
        ("interpreter", 200),
        ("logging", 200),
        ("net_send", 100),
    ];
    assert_eq!(found, expected);
    let logging = divided.iter().find(|r| r.kind == "logging").unwrap();
    assert!(!logging.own);
    let for_whom = "Formatter.format (logging/__init__.py:674), for main (app.py:1)";
    assert_eq!(logging.place, for_whom);
    // Of what is made for each request what makes it is told, whatever it was at.
    let made = Told {
        frames: [
            "visit (ql/visitor.py:4)",
            "Schema.__init__ (ql/schema.py:5)",
            "page (app.py:9)",
        ]
        .map(str::to_owned)
        .to_vec(),
        own: Some(2),
        ..told("", ToldState::Running)
    };
    let ran = [PlaceTold {
        place: Place::OnCpu,
        told: 0,
        samples: 50,
    }];
    let rows = vec![row("interpreter", 800)];
    let divided = super::told::divided(rows, &[&ran[0]], &[made]);
    assert_eq!(divided[0].kind, "making");
    let for_whom = "Schema.__init__ (ql/schema.py:5), for page (app.py:9)";
    assert_eq!(divided[0].place, for_whom);
    // Too few say nothing.
    let few = [PlaceTold {
        place: Place::OnCpu,
        told: 0,
        samples: 29,
    }];
    let rows = vec![row("interpreter", 803)];
    assert_eq!(super::told::divided(rows.clone(), &[&few[0]], &all), rows);
}

#[test]
fn what_is_compiled_into_an_interpreter_is_known_by_the_line_that_calls_it() {
    let kinds = [
        "regex",
        "serialization",
        "json",
        "sort",
        "hash",
        "pattern_compiling",
    ];
    for (text, kind) in [
        ("return pickle.loads(pickled)", "serialization"),
        ("copy = Marshal.load(Marshal.dump(order))", "serialization"),
        ("body = json.dumps(rows)", "json"),
        ("rows = sorted(rows, key=by_name)", "sort"),
        ("digest = hashlib.sha256(body)", "hash"),
        ("rule = re.compile(text)", "pattern_compiling"),
        ("names = WORD.findall(text)", "regex"),
        ("total += resorted + marshal", ""),
    ] {
        let told = Told {
            frames: vec!["page (shop.py:3)".to_owned()],
            line: Some(SourceLine {
                number: 5,
                text: text.to_owned(),
            }),
            ..Told::default()
        };
        let found: Vec<&str> = kinds
            .into_iter()
            .filter(|kind| works().scripted(&told, kind))
            .collect();
        assert_eq!(found.join(" "), kind, "{text}");
    }
}

#[test]
fn what_is_made_for_a_request_is_a_kind_of_work_by_the_names_of_what_makes_it() {
    let told = |frames: &[&str], own| Told {
        frames: frames.iter().map(|&frame| frame.to_owned()).collect(),
        own,
        ..Told::default()
    };
    let made = [
        "visit (ql/visitor.py:4)",
        "Schema.__init__ (ql/schema.py:5)",
        "page (shop.py:9)",
    ];
    assert!(works().scripted(&told(&made, Some(2)), "making"));
    // What calls the application is in all that it does.
    let around = ["page (shop.py:9)", "Router.__init__ (web/router.py:7)"];
    assert!(!works().scripted(&told(&around, Some(0)), "making"));
    assert!(works().has_scripts("making"));
    let compiled = |symbol: &str| {
        let frame = Frame {
            symbol: symbol.to_owned(),
            module: "shop".to_owned(),
            kernel: false,
        };
        works().matches(&[&frame], "shop", "making")
    };
    assert!(compiled("shop/web.Views.loadTemplate"));
    assert!(!compiled("shop/web.Views.render"));
    assert!(!compiled(
        "v8::internal::Compiler::Compile(v8::internal::Isolate*)"
    ));
}

/// An embedded database sleeps before a file that another one writes: its interpreter tells the script's function
/// alone.
#[test]
fn a_sleep_in_a_librarys_functions_of_locks_is_one_before_a_lock() {
    let tries = |library: &[&'static str]| {
        let sleeps = ["libc:usleep", "libc:nanosleep", "kernel:hrtimer_nanosleep"];
        let path = [&["app:run_script"], library, &sleeps].concat();
        let elsewhere = ["app:run_script", "app:time_sleep", sleeps[1], sleeps[2]];
        let place = PlaceTime {
            told: Some(0),
            ..place(Place::Blocked, "sleep", 1_000_000)
        };
        let told = Told {
            state: ToldState::Sleep,
            frames: vec!["Database.execute (orm.py:31)".to_owned()],
            ..Told::default()
        };
        let examination = Examination {
            profiles: vec![Profile {
                kind: ProfileKind::OffCpu,
                ..profile(&[(&path, 70), (&elsewhere, 30)])
            }],
            turns: Some(Turns {
                targets: vec![target("web", vec![place.clone()])],
                told: vec![told],
                ..Turns::default()
            }),
            ..Examination::default()
        };
        tries_a_lock(&examination, &place)
    };
    let sqlite = [
        "libsqlite3.so.0:sqlite3PagerSharedLock",
        "libsqlite3.so.0:sqlite3InvokeBusyHandler",
    ];
    assert!(tries(&sqlite));
    assert!(!tries(&["libcurl.so.4:Curl_wait_ms"]));
    // Whoever took it is further out.
    let far = [
        sqlite[0], "app:a", "app:b", "app:c", "app:d", "app:e", "app:f",
    ];
    assert!(!tries(&far));
}

#[test]
fn a_lock_that_is_tried_again_is_one_on_a_file_or_of_a_session_by_its_functions() {
    let near = |frames: &[&str]| {
        super::told::is_near_a_file(&Told {
            state: ToldState::Sleep,
            frames: frames.iter().map(|&frame| frame.to_owned()).collect(),
            ..Told::default()
        })
    };
    assert!(near(&["sleep", "FileLock.lock (cache/lock.py:62)"]));
    assert!(near(&["sleep", "acquire (Apache/Session/Lock.pm:9)"]));
    assert!(!near(&["sleep", "Cache::locked (cacheresource.php:125)"]));
    // Whoever is further out asks for it.
    let asks = [
        "sleep",
        "Cache::locked (c.php:1)",
        "Cache::get (c.php:9)",
        "session (app.php:3)",
    ];
    assert!(!near(&asks));
}

/// The line says what an interpreter does that has no function of its own for it.
#[test]
fn a_row_of_scripts_says_at_which_line_of_the_application_it_is() {
    let met = |frames: &[&str], own, number, text: &str| Told {
        runtime: "cpython".to_owned(),
        frames: frames.iter().map(|f| (*f).to_owned()).collect(),
        own,
        line: Some(SourceLine {
            number,
            text: text.to_owned(),
        }),
        ..Told::default()
    };
    let page = ["page (shop.py:3)", "call (wsgi.py:9)"];
    let all = [
        met(&page, Some(0), 5, "total += price(one)"),
        met(&page, Some(0), 7, "name = SAFE.sub('', name)"),
        // A library's function runs, whatever the line that called it holds.
        met(
            &["loads (json/__init__.py:1)", page[0], page[1]],
            Some(1),
            7,
            "name = SAFE.sub('', name)",
        ),
        met(&page, Some(0), 9, ""),
    ];
    let ran: Vec<PlaceTold> = [(0, 30), (1, 40), (2, 20), (3, 10)]
        .map(|(told, samples)| PlaceTold {
            place: Place::OnCpu,
            told,
            samples,
        })
        .to_vec();
    let whole = super::cpu::CpuRow {
        kind: "interpreter".to_owned(),
        samples: 1_000,
        ..super::cpu::CpuRow::default()
    };
    let rows = super::told::divided(vec![whole], &ran.iter().collect::<Vec<_>>(), &all);
    let found: Vec<(&str, u64, &str)> = (rows.iter())
        .map(|r| (r.kind.as_str(), r.samples, r.place.as_str()))
        .collect();
    let expected = [
        (
            "regex",
            400,
            "page (shop.py:3) < call (wsgi.py:9); at shop.py:7: name = SAFE.sub('', name)",
        ),
        (
            "interpreter",
            400,
            "page (shop.py:3) < call (wsgi.py:9); 75 % at shop.py:5: total += price(one)",
        ),
        (
            "interpreter",
            200,
            "loads (json/__init__.py:1) < page (shop.py:3) < call (wsgi.py:9); \
             at shop.py:7: name = SAFE.sub('', name)",
        ),
    ];
    assert_eq!(found, expected);
    let sleeping = Told {
        state: ToldState::Sleep,
        ..all[0].clone()
    };
    let place = super::told::place(&sleeping, "");
    assert_eq!(
        place,
        "page (shop.py:3) < call (wsgi.py:9); at shop.py:5: total += price(one)"
    );
}

#[test]
fn what_a_runtime_does_not_tell_is_not_visible_with_its_remedy() {
    let examination = Examination {
        runtimes: vec![
            AskedRuntime {
                target: "app".to_owned(),
                unavailable: vec![Unavailable {
                    what: "names of code".to_owned(),
                    reason: "it was not asked".to_owned(),
                    remedy: "--attach".to_owned(),
                }],
                ..AskedRuntime::default()
            };
            2
        ],
        ..Examination::default()
    };
    let facts = FactSet::default();
    let case = LedgerCase {
        examination: Some(&examination),
        observed: None,
        facts: &facts,
        seconds: 1.0,
        requests: None,
    };
    let gaps = case.untold();
    assert_eq!(
        gaps,
        ["names of code (app): it was not asked; remedy: --attach"]
    );
}

#[test]
fn a_server_behind_is_named_by_its_kind_or_its_program() {
    let named = |kind: &str, exe: &str| {
        super::latency::named(&Server {
            target: "upstream-4730".to_owned(),
            kind: kind.to_owned(),
            exe: exe.to_owned(),
            ..Server::default()
        })
    };
    assert_eq!(
        named("redis", "/usr/bin/redis-server"),
        "redis upstream-4730"
    );
    assert_eq!(
        named("generic", "/usr/sbin/gearmand"),
        "gearmand upstream-4730"
    );
    assert_eq!(named("", ""), "upstream-4730");
}

#[test]
fn a_peer_that_was_not_traced_is_named() {
    let (examination, mut turns) = chain();
    turns.targets.truncate(2);
    let case = LatencyCase {
        unaccepted: 0,
        turns: &turns,
        examination: &examination,
    };
    let account = case.account("proxy", true, Which::All).unwrap();
    assert_eq!(
        account.rows[0].label,
        "in app: waiting for 127.0.0.1:82 (db)"
    );
    let largest = account.largest_unlabelled(|_| true).unwrap();
    assert_eq!(largest.kind, "upstream");
}

fn account(rows: &[(&str, f64, bool)]) -> Account {
    let rows = rows.iter().map(|(kind, share, own_work)| Row {
        kind: (*kind).to_owned(),
        label: (*kind).to_owned(),
        share: *share,
        own_work: *own_work,
        ..Row::default()
    });
    Account {
        basis: Basis::Cpu,
        target: "web".to_owned(),
        of: "the time of core 0".to_owned(),
        total: 10.0,
        unit: "us/request".to_owned(),
        requests: None,
        rows: rows.collect(),
        branches: Vec::new(),
        asked: Vec::new(),
    }
}

#[test]
fn a_library_without_names_does_not_say_which_part_of_tls_it_is() {
    let found = rows(&[
        (
            &[
                "app:main",
                "libssl.so.3:SSL_do_handshake",
                "libcrypto.so.3:libcrypto.so.3+0x30",
            ],
            20,
        ),
        (
            &[
                "app:main",
                "libssl.so.3:SSL_write",
                "libcrypto.so.3:libcrypto.so.3+0x40",
            ],
            30,
        ),
        // A stack that was cut.
        (
            &[
                "libcrypto.so.3:libcrypto.so.3+0x20",
                "libcrypto.so.3:libcrypto.so.3+0x30",
            ],
            50,
        ),
    ]);
    let kinds: Vec<(&str, u64)> = found
        .iter()
        .map(|(kind, _, n)| (kind.as_str(), *n))
        .collect();
    assert_eq!(
        kinds,
        [("tls", 50), ("tls_bulk", 30), ("tls_handshake", 20)]
    );
}

/// A load whose requests are the turns of `chain`: 100 of 10 ms each.
fn loaded() -> record::LoadOutcome {
    crate::samples::with_rate(100, record::Nanos::from_millis(10), 0.3)
}

#[test]
fn requests_that_share_connections_have_the_turns_of_servers_behind_alone() {
    let (examination, mut turns) = chain();
    // Ten requests a turn, of 10 us each.
    let load = crate::samples::with_rate(1_000, record::Nanos(10_000), 0.3);
    let share = |turns: &Turns, kind: &str| {
        let examination = &examination;
        let case = LatencyCase {
            unaccepted: 0,
            turns,
            examination,
        };
        let account = case.account("proxy", true, Which::All).unwrap();
        assert!((account.closed() - 1.0).abs() < 1e-9, "{account:#?}");
        assert!((account.total - 10.0).abs() < 0.1, "{account:#?}");
        let rows = account.rows.iter().filter(|r| r.kind == kind);
        rows.map(|r| r.share).sum::<f64>()
    };
    turns.load = Some(load);
    // Of 10 ms in all a hundredth on its CPU, and nine in the servers behind.
    turns.targets[0].account.places[0].total_ns = 100_000;
    turns.targets[1].account.total_ns = 900_000;
    assert!((share(&turns, "shared") - 0.9).abs() < 0.01);
    assert!((share(&turns, "disk") - 0.09 * 2.0 / 3.0).abs() < 0.02);
    // Side by side they take more time than there is.
    turns.targets[1].account.total_ns = 90_000_000;
    assert!(share(&turns, "shared") < 1e-9);
    let case = LatencyCase {
        unaccepted: 0,
        turns: &turns,
        examination: &examination,
    };
    let why = case.account("proxy", true, Which::Tail).unwrap_err();
    assert!(why.contains("share connections"), "{why}");
    assert!(case.service("proxy").is_none());
    assert!(case.service("app").is_some());
}

#[test]
fn connections_that_nobody_answers_stand_in_the_account() {
    let (examination, mut turns) = chain();
    let mut account = |unanswered: u32| {
        let mut load = loaded();
        load.connections.unanswered = unanswered;
        turns.load = Some(load);
        let case = LatencyCase {
            unaccepted: 0,
            turns: &turns,
            examination: &examination,
        };
        case.account("proxy", true, Which::All).unwrap()
    };
    let served = account(0);
    assert!(
        served.rows.iter().all(|r| r.kind != "unanswered"),
        "{served:#?}"
    );
    let starved = account(3);
    let row = starved
        .rows
        .iter()
        .find(|r| r.kind == "unanswered")
        .expect("three wait");
    assert!((row.requests.unwrap() - 3.0).abs() < 1e-9, "{row:?}");
    assert!((starved.closed() - 1.0).abs() < 1e-9, "{starved:#?}");
}

/// Ten connections stood there at every look, and what was traced of them already fills four of these places.
#[test]
fn who_waits_to_be_accepted_without_a_load_stands_there_once() {
    let (examination, mut turns) = chain();
    turns.load = None;
    let mut account = |waiting: u64| {
        let of = &mut turns.targets[0].account;
        of.places.retain(|p| p.place != Place::ListenQueue);
        let ns = waiting * turns.window_ns;
        of.places.push(place(Place::ListenQueue, "", ns));
        let case = LatencyCase {
            unaccepted: 10,
            turns: &turns,
            examination: &examination,
        };
        let account = case.account("proxy", true, Which::All).unwrap();
        let row = account.rows.into_iter().find(|r| r.kind == "unanswered");
        row.map_or(0.0, |row| row.requests.unwrap())
    };
    assert!((account(0) - 10.0).abs() < 1e-9);
    assert!((account(4) - 6.0).abs() < 1e-9);
    assert!(account(10) == 0.0);
}

#[test]
fn what_was_due_and_not_sent_is_no_path() {
    let (examination, mut turns) = chain();
    let mut load = loaded();
    // Due 10 ms before each is sent, whose answer takes 10 ms.
    load.response = record::Histogram::new();
    (0..1_000).for_each(|_| load.response.record(record::Nanos::from_millis(20)));
    turns.load = Some(load);
    let case = LatencyCase {
        unaccepted: 0,
        turns: &turns,
        examination: &examination,
    };
    let account = case.account("proxy", true, Which::All).unwrap();
    let us = |kind: &str| {
        let rows = account.rows.iter().filter(|r| r.kind == kind);
        rows.map(|r| r.share).sum::<f64>() * account.total
    };
    assert!((us("unsent") - 10_000.0).abs() < 50.0, "{account:#?}");
    assert!((account.total - 20_000.0).abs() < 50.0, "{account:#?}");
    assert!((account.closed() - 1.0).abs() < 1e-9, "{account:#?}");
}

#[test]
fn threads_that_hardly_rest_are_what_limits() {
    let (examination, mut turns) = chain();
    let mut serving = |idle: u64| {
        turns.targets[0].threads = Some(ThreadTime {
            threads: 2,
            name: String::new(),
            account: TurnAccount {
                turns: 300,
                total_ns: 2_000_000,
                places: vec![
                    place(Place::Idle, "", idle),
                    place(Place::Blocked, "sync", 2_000_000 - idle),
                ],
                cpu_samples: Vec::new(),
                ..TurnAccount::default()
            },
        });
        let case = LatencyCase {
            unaccepted: 0,
            turns: &turns,
            examination: &examination,
        };
        case.serving("proxy")
    };
    assert_eq!(
        serving(1_000_000),
        None,
        "half of the time they had nothing to do"
    );
    let account = serving(100_000).expect("they had something to do");
    assert_eq!(account.basis, Basis::Threads);
    assert_eq!((account.total, account.unit.as_str()), (2.0, "threads"));
    assert_eq!(account.rows[0].kind, "sync");
    assert!((account.rows[0].share - 0.95).abs() < 1e-9);
    assert!((account.closed() - 1.0).abs() < 1e-9);
}

#[test]
fn small_rows_of_a_server_behind_are_told_together() {
    let (examination, mut turns) = chain();
    let kinds = [
        "disk", "sync", "pipe", "unix", "udp", "child", "flock", "send", "file", "page",
    ];
    let of_db = kinds.map(|kind| place(Place::Blocked, kind, 60_000));
    turns.targets[2] = target("db", of_db.to_vec());
    let case = LatencyCase {
        unaccepted: 0,
        turns: &turns,
        examination: &examination,
    };
    let account = case.account("proxy", true, Which::All).unwrap();
    let of_db = |r: &&Row| r.label.starts_with("in db: ");
    let told: f64 = account.rows.iter().filter(of_db).map(|r| r.share).sum();
    let most = account.rows.iter().filter(of_db).count();
    assert!(
        (told - 0.6).abs() < 1e-9 && most < kinds.len(),
        "{account:#?}"
    );
    assert!(
        account
            .rows
            .iter()
            .any(|r| r.label.ends_with("smaller rows"))
    );
}

#[test]
fn rows_are_cut_and_still_add_up() {
    let many: Vec<(&str, f64, bool)> = (0..20).map(|_| ("x", 0.05, false)).collect();
    let shown = shown(account(&many));
    assert_eq!(shown.rows.len(), ROWS);
    assert!((shown.closed() - 1.0).abs() < 1e-9);
    let rest = &shown.rows[ROWS - 1];
    assert_eq!(rest.label, "11 smaller rows");
    let smaller: f64 = rest.smaller.iter().map(|r| r.share).sum();
    assert_eq!(rest.smaller.len(), 11);
    assert!((smaller - rest.share).abs() < 1e-9);
}

fn finding(cause: &str) -> Finding {
    Finding {
        cause: cause.to_owned(),
        variant: None,
        title: String::new(),
        target: "web".to_owned(),
        confidence: 0.7,
        status: Status::Supported,
        why: String::new(),
        evidence: Vec::new(),
        remedy: String::new(),
        changes: Vec::new(),
        gain_bound: None,
        gain_unknown: None,
        predicted: None,
        calibrated: None,
        worth_changing: true,
        proof: None,
    }
}

#[test]
fn a_cause_gains_no_more_than_its_rows() {
    let catalogue: &Catalogue = catalogue();
    let mut ledger = Ledger {
        cpu: BTreeMap::from([(
            "web".to_owned(),
            account(&[
                ("compression", 0.25, true),
                ("net_send", 0.4, true),
                ("function", 0.35, false),
            ]),
        )]),
        ..Ledger::default()
    };
    let cause = |name: &str| catalogue.cause(name).unwrap();
    assert_eq!(
        bound(&ledger, cause("compression_level"), "web", "web"),
        Some(0.25)
    );
    assert_eq!(
        bound(&ledger, cause("gc_small_heap"), "web", "web"),
        Some(0.0)
    );
    // No rows, no account of waits: nothing is said.
    assert_eq!(
        bound(&ledger, cause("single_worker_saturated"), "web", "web"),
        None
    );
    assert_eq!(bound(&ledger, cause("upstream_slow"), "web", "web"), None);
    label(
        &mut ledger,
        &[finding("compression_level")],
        catalogue,
        "web",
    );
    let rate = &ledger.cpu["web"];
    assert_eq!(rate.rows[0].cause.as_deref(), Some("compression_level"));
    assert_eq!(rate.largest_unlabelled(|_| true).unwrap().kind, "function");
    assert!((rate.unlabelled() - 0.35).abs() < 1e-9);
}

#[test]
fn work_that_no_cause_has_judged_is_not_a_servers_own() {
    let rows = || Ledger {
        cpu: BTreeMap::from([(
            "web".to_owned(),
            account(&[("compression", 0.6, true), ("net_send", 0.4, true)]),
        )]),
        ..Ledger::default()
    };
    let mut judged = rows();
    open_unjudged(&mut judged, catalogue());
    assert_eq!(judged.cpu["web"].largest_unlabelled(|_| true), None);
    let mut without = catalogue().clone();
    without.causes.retain(|c| c.name != "compression_futile");
    let mut open = rows();
    open_unjudged(&mut open, &without);
    assert_eq!(
        open.cpu["web"].largest_unlabelled(|_| true).unwrap().kind,
        "compression"
    );
    // What is done beside the requests holds them up where it takes most of their time.
    for (share, is_open) in [(0.3, false), (0.7, true)] {
        let mut beside = Ledger {
            latency: Some(account(&[
                ("loop", share, true),
                ("on_cpu", 1.0 - share, true),
            ])),
            ..Ledger::default()
        };
        open_unjudged(&mut beside, catalogue());
        let latency = beside.latency.unwrap();
        let found = latency.largest_unlabelled(|_| true);
        assert_eq!(found.is_some(), is_open, "{share}");
    }
    // A name that is mistyped there would open rows for ever.
    for name in rules().iter().flat_map(|rule| &rule.judged_by) {
        assert!(catalogue().cause(name).is_some(), "{name}");
    }
}

#[test]
fn a_constant_of_the_way_is_on_that_to_the_server_behind_and_not_in_it() {
    let nagle = catalogue().cause("nagle_delayed_ack").unwrap();
    let row = |kind: &str, label: &str, share| Row {
        kind: kind.to_owned(),
        label: label.to_owned(),
        share,
        server: "app".to_owned(),
        ..Row::default()
    };
    let mut latency = account(&[("on_cpu", 0.4, true)]);
    latency.rows.extend([
        row("path", "between web and php-fpm app", 0.35),
        row("path", "between app and mysql db", 0.15),
        row("upstream", "in php-fpm app: waiting for db", 0.1),
    ]);
    let ledger = Ledger {
        latency: Some(latency),
        ..Ledger::default()
    };
    assert_eq!(bound(&ledger, nagle, "web", "web"), Some(0.35));
}

#[test]
fn a_wait_that_no_row_shows_gains_nothing_where_nothing_is_hidden() {
    let catalogue: &Catalogue = catalogue();
    let lock = catalogue.cause("lock_contention").unwrap();
    let with = |hidden: f64| Ledger {
        latency: Some(account(&[
            ("sleep", 1.0 - hidden, false),
            ("hidden", hidden, false),
        ])),
        ..Ledger::default()
    };
    assert_eq!(bound(&with(0.05), lock, "web", "web"), Some(0.05));
    assert_eq!(bound(&with(0.4), lock, "web", "web"), None);
    // Nor does anybody queue for a thread where nobody stands in a queue.
    let threads = catalogue.cause("thread_pool_too_small").unwrap();
    assert_eq!(bound(&with(0.05), threads, "web", "web"), Some(0.05));
    assert_eq!(bound(&with(0.4), threads, "web", "web"), None);
    // What is hidden in a server behind hides no wait of this one, by whatever name.
    let mut behind = account(&[("run_queue", 0.6, true), ("hidden", 0.4, false)]);
    behind.rows[1].server = "db".to_owned();
    let behind = Ledger {
        latency: Some(behind),
        ..Ledger::default()
    };
    for cause in [lock, threads] {
        assert_eq!(bound(&behind, cause, "web", "web"), Some(0.0));
    }
}

#[test]
fn what_holds_of_a_server_behind_labels_its_rows_alone() {
    let mut waits = account(&[("lock", 0.5, false), ("lock", 0.4, false)]);
    waits.rows[1].server = "db".to_owned();
    let mut ledger = Ledger {
        latency: Some(waits),
        ..Ledger::default()
    };
    let of = |target: &str| Finding {
        target: target.to_owned(),
        ..finding("lock_contention")
    };
    let causes = |ledger: &Ledger| {
        let rows = &ledger.latency.as_ref().unwrap().rows;
        rows.iter().map(|r| r.cause.clone()).collect::<Vec<_>>()
    };
    label(&mut ledger, &[of("db")], catalogue(), "web");
    let lock = Some("lock_contention".to_owned());
    assert_eq!(causes(&ledger), [None, lock.clone()]);
    label(&mut ledger, &[of("web")], catalogue(), "web");
    assert_eq!(causes(&ledger), [lock.clone(), lock]);
}

#[test]
fn a_pool_is_waited_for_in_whichever_way_its_runtime_waits() {
    let pool = catalogue().cause("application_pool_too_small").unwrap();
    for way in ["lock", "channel", "condition"] {
        let ledger = Ledger {
            latency: Some(account(&[(way, 0.93, false), ("upstream", 0.07, false)])),
            ..Ledger::default()
        };
        assert_eq!(bound(&ledger, pool, "web", "web"), Some(0.93), "{way}");
    }
}

/// One loop serves all: what it does for one request the others stand behind.
#[test]
fn who_stands_behind_a_loop_waits_for_what_the_loop_waits_for() {
    let synced = catalogue().cause("synced_log").unwrap();
    let mut requests = account(&[("other_turns", 0.2, true), ("upstream", 0.6, false)]);
    requests.rows[1].label = "behind a request that is waiting for the database".to_owned();
    let mut thread = account(&[("sync", 0.5, false), ("run_queue", 0.5, true)]);
    thread.basis = Basis::Threads;
    thread.rows[0].server = "db".to_owned();
    let ledger = Ledger {
        rate: Some(thread),
        latency: Some(requests),
        ..Ledger::default()
    };
    assert_eq!(bound(&ledger, synced, "db", "web"), Some(0.4));
    let without = Ledger {
        rate: None,
        ..ledger
    };
    assert_eq!(bound(&without, synced, "db", "web"), Some(0.0));
}

/// Several threads, each with connections of its own: who stands behind what another request waits for wants a thread.
#[test]
fn who_stands_behind_one_of_several_threads_waits_for_a_free_one() {
    let pool = catalogue().cause("thread_pool_too_small").unwrap();
    let ledger = |threads: f64| {
        let mut requests = account(&[("upstream", 0.1, false), ("upstream", 0.8, false)]);
        requests.rows[1].label = "behind a request that is waiting for the database".to_owned();
        Ledger {
            rate: Some(Account {
                basis: Basis::Threads,
                total: threads,
                ..account(&[("upstream", 0.9, false)])
            }),
            latency: Some(requests),
            ..Ledger::default()
        }
    };
    let bound = |threads| bound(&ledger(threads), pool, "web", "web");
    assert_eq!(bound(2.0), Some(0.8));
    assert_eq!(bound(1.0), Some(0.0), "a loop has no other thread");
}

#[test]
fn who_wakes_others_is_told_without_its_number() {
    for (waker, told) in [
        ("thread puma srv tp 013", "a thread puma srv tp"),
        ("thread worker-7", "a thread worker"),
        ("thread main", "thread main"),
        ("thread 12", "thread 12"),
        ("timer", "timer"),
    ] {
        assert_eq!(super::latency::any_of_pool(waker), told);
    }
}

#[test]
fn what_holds_a_pools_threads_holds_the_queue_before_them() {
    let catalogue: &Catalogue = catalogue();
    let slow_log = catalogue.cause("log_consumer_slow").unwrap();
    let mut ledger = Ledger {
        rate: Some(Account {
            basis: Basis::Threads,
            ..account(&[("pipe", 0.9, false), ("on_cpu", 0.1, true)])
        }),
        latency: Some(Account {
            basis: Basis::Requests,
            ..account(&[("no_free_thread", 0.7, false), ("pipe", 0.2, false)])
        }),
        ..Ledger::default()
    };
    let bound = bound(&ledger, slow_log, "web", "web").unwrap();
    assert!((bound - (0.2 + 0.7 * 0.9)).abs() < 1e-9, "{bound}");
    label(
        &mut ledger,
        &[finding("log_consumer_slow")],
        catalogue,
        "web",
    );
    let rows = &ledger.latency.as_ref().unwrap().rows;
    assert!(
        rows.iter()
            .all(|row| row.cause.as_deref() == Some("log_consumer_slow"))
    );
}

#[test]
fn the_account_of_who_is_full_decides() {
    let of_db = Account {
        of: "the time of core 3".to_owned(),
        ..account(&[])
    };
    let ledger = Ledger {
        cpu: BTreeMap::from([("web".to_owned(), account(&[])), ("db".to_owned(), of_db)]),
        latency: Some(Account {
            of: "the mean response time".to_owned(),
            ..account(&[])
        }),
        ..Ledger::default()
    };
    let of = |name: &str, target: &str| {
        let station = Station {
            name: name.to_owned(),
            target: target.to_owned(),
            why: String::new(),
        };
        deciding(&ledger, &station, "web").map(|a| a.of.clone())
    };
    assert_eq!(of("worker", "web").as_deref(), Some("the time of core 0"));
    assert_eq!(of("upstream", "db").as_deref(), Some("the time of core 3"));
    assert_eq!(
        of("upstream", "").as_deref(),
        Some("the mean response time")
    );
    assert_eq!(of("generator", ""), None);
    assert!(
        super::ledger(&LedgerCase {
            examination: None,
            observed: None,
            facts: &FactSet::default(),
            seconds: 1.0,
            requests: None
        })
        .is_none()
    );
}

/// A thread that ran for this share of the time on core 0.
fn on_core_0(owner: &str, pid: i32, busy: f64) -> TaskUse {
    TaskUse {
        owner: owner.to_owned(),
        pid,
        tid: pid,
        name: owner.to_owned(),
        busy,
        user: busy,
        system: 0.0,
        wait: Some(0.3),
        cpus: vec![0],
        elsewhere: None,
        role: String::new(),
        threads: 1.0,
        source: "schedstat",
    }
}

#[test]
fn a_core_that_a_server_and_its_database_fill_is_what_limits() {
    let mut facts = FactSet::default();
    facts.targets = vec!["web".to_owned(), "db".to_owned()];
    let examination = Examination {
        profiles: vec![profile(&[(&["app:main", "app:render"], 100)])],
        ..Examination::default()
    };
    for (database, limits) in [(0.55, Basis::Cpu), (0.1, Basis::CpuUsed)] {
        let used = CoreUse {
            busy: 0.4 + database,
            ..CoreUse::default()
        };
        let mut observed = Observed::default();
        observed.tasks = vec![on_core_0("web", 7, 0.4), on_core_0("db", 8, database)];
        observed.cores = BTreeMap::from([(0, used)]);
        let made = ledger(&LedgerCase {
            examination: Some(&examination),
            observed: Some(&observed),
            facts: &facts,
            seconds: 1.0,
            requests: Some(100.0),
        });
        let rate = made.unwrap().rate.unwrap();
        assert_eq!(rate.basis, limits, "{rate:?}");
        assert!((rate.closed() - 1.0).abs() < 0.03, "{rate:?}");
        let theirs = rate.share_of(|r| r.server == "db");
        let expected = if limits == Basis::Cpu { database } else { 0.0 };
        assert!((theirs - expected).abs() < 0.03, "{rate:?}");
    }
}

#[test]
fn run_time_that_samples_do_not_show_is_told_beyond_chance_alone() {
    for (due, taken, expected) in [
        (1_000.0, 1_000, 1.0),
        (1_000.0, 1_100, 1.0),
        // Three standard errors are 95.
        (1_000.0, 906, 1.0),
        (1_000.0, 680, 0.68),
        (60.0, 40, 1.0),
        (0.0, 0, 1.0),
    ] {
        let seen = super::rate::seen(due, taken);
        assert!((seen - expected).abs() < 1e-9, "{due} {taken}: {seen}");
    }
}
