//! Goroutines laid out in this process' own memory, as a runtime keeps them.

use super::layout::Layout;
use super::look::{Doing, Reader};
use super::pclntab::{Pclntab, test_table};
use super::program::{Program, ProgramError};

const TEXT: u64 = 0x40_0000;
const NAMES: [&str; 5] = [
    "runtime.goexit",
    "runtime.gopark",
    "sync.lock",
    "main.handler",
    "main.serve",
];
const REASONS: [&str; 5] = [
    "",
    "IO wait",
    "sync.Mutex.Lock",
    "sleep",
    "chan receive (nil chan)",
];

/// Address in a function of [`NAMES`].
fn pc(name: &str) -> u64 {
    let index = NAMES.iter().position(|one| *one == name).unwrap();
    TEXT + 16 * index as u64 + 5
}

/// A runtime in this process: its goroutines with their stacks.
#[allow(clippy::vec_box, reason = "addresses of the boxes are what is read")]
struct Runtime {
    goroutines: Vec<Box<[u64; 64]>>,
    list: Vec<u64>,
    variables: Box<[u64; 2]>,
    stacks: Vec<Box<[u64; 64]>>,
    layout: Layout,
}

impl Runtime {
    fn new(minor: u32) -> Self {
        Self {
            goroutines: Vec::new(),
            list: Vec::new(),
            variables: Box::new([0; 2]),
            stacks: Vec::new(),
            layout: Layout::of(minor).unwrap(),
        }
    }

    /// One with a status, a reason, and a stack of functions from the innermost on.
    fn add(&mut self, status: u32, reason: u8, calls: &[&str]) -> &mut [u64; 64] {
        let mut stack = Box::new([0_u64; 64]);
        let lo = stack.as_ptr() as u64;
        // Each frame: where the caller's frame is, and where the caller goes on.
        for (index, call) in calls.iter().skip(1).enumerate() {
            let at = 8 + 4 * index;
            stack[at] = if index + 2 < calls.len() {
                lo + 8 * (at as u64 + 4)
            } else {
                0
            };
            stack[at + 1] = pc(call);
        }
        let mut g = Box::new([0_u64; 64]);
        g[0] = lo;
        g[1] = lo + 512;
        g[Layout::SCHED_SP / 8] = lo + 32;
        g[Layout::SCHED_PC / 8] = pc(calls[0]);
        g[self.layout.sched_bp / 8] = lo + 64;
        g[self.layout.status / 8] = u64::from(status);
        g[self.layout.reason / 8] = u64::from(reason);
        g[self.layout.start_pc / 8] = pc("main.serve") - 5;
        self.list.push(g.as_ptr() as u64);
        self.stacks.push(stack);
        self.goroutines.push(g);
        self.goroutines.last_mut().unwrap()
    }

    fn program(&mut self) -> Program {
        *self.variables = [self.list.len() as u64, self.list.as_ptr() as u64];
        let at = self.variables.as_ptr() as u64;
        Program {
            pid: std::process::id().cast_signed(),
            version: "go1.26".to_owned(),
            layout: self.layout,
            allglen: at,
            allgptr: at + 8,
            reasons: REASONS.map(str::to_owned).to_vec(),
            table: Pclntab::parse(test_table(&NAMES), TEXT).unwrap(),
            bias: 0,
            module: "app".to_owned(),
        }
    }
}

fn names(program: &Program, pcs: &[u64]) -> Vec<String> {
    let name = |pc: &u64| program.function(*pc).unwrap().1.to_owned();
    pcs.iter().map(name).collect()
}

#[test]
fn what_goroutines_do_and_where_they_wait() {
    let calls = ["runtime.gopark", "sync.lock", "main.handler", "main.serve"];
    for minor in 18..=26 {
        let mut runtime = Runtime::new(minor);
        runtime.add(4, 2, &calls);
        runtime.add(0x1004, 1, &calls);
        runtime.add(2, 2, &calls);
        runtime.add(1, 2, &calls);
        runtime.add(1, 2, &["main.handler"]);
        runtime.add(6, 0, &calls);
        let program = runtime.program();
        let mut reader = Reader::default();
        reader.check(&program).unwrap();
        let look = reader.look(&program, 0).unwrap();
        let doing: Vec<Doing> = look.seen.iter().map(|seen| seen.doing).collect();
        let expected = [
            Doing::Waiting(2),
            Doing::Waiting(1),
            Doing::Running,
            Doing::Woken(2),
            Doing::Ready,
        ];
        assert_eq!(doing, expected, "1.{minor}");
        assert_eq!(names(&program, &look.seen[0].pcs), calls, "1.{minor}");
        // Who waits for a socket is known by that alone.
        assert_eq!(look.seen[1].pcs.len(), 1);
        assert_eq!((look.stride, reader.torn), (1, 0));
    }
}

#[test]
fn who_waits_for_what_it_has_made_is_where_that_is() {
    let waits = ["runtime.gopark", "main.handler", "main.serve"];
    for minor in [19, 26] {
        let mut runtime = Runtime::new(minor);
        let go_pc = runtime.layout.start_pc - Layout::GO_PC_BEFORE_START;
        // Waits for a channel, and has made one that waits for a lock and one that waits for a socket.
        runtime.add(4, 4, &waits);
        runtime.add(4, 2, &["runtime.gopark", "sync.lock", "main.serve"])[go_pc / 8] =
            pc("main.handler");
        // Made by somebody else.
        runtime.add(4, 3, &["runtime.gopark", "main.serve"])[go_pc / 8] = pc("main.serve");
        let program = runtime.program();
        let look = Reader::default().look(&program, 0).unwrap();
        assert_eq!(look.seen[0].doing, Doing::Waiting(2), "1.{minor}");
        let stack = names(&program, &look.seen[0].pcs);
        let joined = [
            &["runtime.gopark", "sync.lock", "main.serve"][..],
            &waits[..],
        ];
        assert_eq!(stack, joined.concat(), "1.{minor}");
        assert_eq!(look.seen[1].doing, Doing::Waiting(2));
        assert_eq!(look.seen[2].doing, Doing::Waiting(3));
        // One that runs, or waits for its socket, says nothing of where that is.
        for (status, reason) in [(2, 0), (4, 1)] {
            let mut runtime = Runtime::new(minor);
            runtime.add(4, 4, &waits);
            runtime.add(status, reason, &["runtime.gopark", "main.serve"])[go_pc / 8] =
                pc("main.handler");
            let program = runtime.program();
            let look = Reader::default().look(&program, 0).unwrap();
            assert_eq!(look.seen[0].doing, Doing::Waiting(4), "1.{minor}");
            assert_eq!(names(&program, &look.seen[0].pcs), waits);
        }
    }
}

#[test]
fn a_sleep_that_is_over_is_one_for_a_thread() {
    for minor in [22, 26] {
        let now = linux::clock::monotonic_ns();
        for (until, expected) in [
            (now + 3_600_000_000_000, Doing::Waiting(3)),
            (now - 1_000_000, Doing::Overslept),
            (0, Doing::Waiting(3)),
        ] {
            let mut runtime = Runtime::new(minor);
            let timer = Box::new([0, until]);
            let layout = runtime.layout;
            let g = runtime.add(4, 3, &["runtime.gopark", "main.handler"]);
            match layout.sleep {
                super::layout::Sleep::Until(at) => g[at / 8] = until,
                super::layout::Sleep::Timer { pointer, .. } => {
                    g[pointer / 8] = timer.as_ptr() as u64
                }
            }
            let program = runtime.program();
            let look = Reader::default().look(&program, 0).unwrap();
            assert_eq!(look.seen[0].doing, expected, "1.{minor} {until}");
        }
    }
}

/// What makes a goroutine's memory impossible.
type Spoil = fn(&mut [u64; 64], Layout);

#[test]
fn what_does_not_fit_together_is_torn_and_never_believed() {
    let spoil: [(&str, Spoil); 5] = [
        ("status", |g, layout| g[layout.status / 8] = 77),
        ("reason", |g, layout| g[layout.reason / 8] = 200),
        ("no stack", |g, _| g[0] = 0),
        ("stack upside down", |g, _| g.swap(0, 1)),
        ("stack pointer elsewhere", |g, _| {
            g[Layout::SCHED_SP / 8] = 0x1000;
        }),
    ];
    for (what, spoil) in spoil {
        let mut runtime = Runtime::new(26);
        let layout = runtime.layout;
        runtime.add(4, 2, &["runtime.gopark", "main.serve"]);
        spoil(runtime.add(4, 2, &["runtime.gopark", "main.serve"]), layout);
        let program = runtime.program();
        let mut reader = Reader::default();
        let look = reader.look(&program, 0).unwrap();
        assert_eq!((look.seen.len(), reader.torn), (1, 1), "{what}");
        let refused = reader.check(&program);
        assert!(matches!(refused, Err(ProgramError::Layout(..))), "{what}");
    }
    // A root that is no function's beginning is what a wrong offset looks like.
    let mut runtime = Runtime::new(26);
    let at = runtime.layout.start_pc / 8;
    runtime.add(4, 2, &["runtime.gopark", "main.serve"])[at] += 1;
    let program = runtime.program();
    let refused = Reader::default().check(&program).unwrap_err();
    assert!(
        !refused.remedy().is_empty() && refused.to_string().contains("go1.26"),
        "{refused}"
    );
}

#[test]
fn a_stack_that_changed_is_kept_as_far_as_it_goes() {
    let mut runtime = Runtime::new(26);
    runtime.add(
        4,
        2,
        &["runtime.gopark", "sync.lock", "main.handler", "main.serve"],
    );
    // The second frame's return address is no code any more.
    runtime.stacks[0][13] = 0x1234;
    let program = runtime.program();
    let mut reader = Reader::default();
    let look = reader.look(&program, 0).unwrap();
    assert_eq!(
        names(&program, &look.seen[0].pcs),
        ["runtime.gopark", "sync.lock"]
    );
    // Frames that lead in a circle end.
    let lo = runtime.goroutines[0][0];
    runtime.stacks[0][12] = lo + 64;
    runtime.stacks[0][13] = pc("main.handler");
    let look = reader.look(&program, 0).unwrap();
    assert_eq!(look.seen[0].pcs.len(), 3);
}

#[test]
fn a_process_that_ended_is_an_error_and_no_empty_look() {
    let mut runtime = Runtime::new(26);
    runtime.add(4, 2, &["runtime.gopark", "main.serve"]);
    let gone = Program {
        pid: i32::MAX - 1,
        ..runtime.program()
    };
    let failed = Reader::default().check(&gone);
    assert!(
        matches!(failed, Err(ProgramError::Unreadable(_))),
        "{failed:?}"
    );
}
