//! What each thread did when: it ran, was ready to run, or waited in something for somebody.
//!
//! In the flow: built from the switches and wake-ups of the trace, once, before connections are looked at. The
//! surprise: who wakes is the thread on whose CPU the wake-up ran, which in an interrupt is a bystander. Whether it
//! was one follows from the system call that it was in and from what the sleeper waited for.

use super::told::Meetings;
use super::wire::{CAME, Class, Event, IDLE, KERNEL, Kind, LEFT, PREEMPTED};
use super::{Located, Traced};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A poll that ends in an interrupt is ended by data when data came this shortly before, ns.
const JUST_NOW_NS: u64 = 100_000;
/// The kernel takes a stack this shortly after it says that a thread left, ns.
const STACK_LATE_NS: u64 = 1_000_000;
/// Calls that send a signal: whoever is in one of them sent it, and no interrupt came between.
const SIGNALS: [&str; 6] = [
    "kill",
    "tkill",
    "tgkill",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "pidfd_send_signal",
];

/// What a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitKind {
    Futex,
    Sleep,
    Disk,
    File,
    Sync,
    Pipe,
    /// A pipe that is full.
    PipeWrite,
    Unix,
    Udp,
    Child,
    Page,
    Flock,
    /// One of System V, which processes share.
    Semaphore,
    Poll,
    Accept,
    Send,
    Socket,
    Other,
}

impl WaitKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Sleep => "sleep",
            Self::Disk => "disk",
            Self::File => "file",
            Self::Sync => "sync",
            Self::Pipe => "pipe",
            Self::PipeWrite => "pipe_write",
            Self::Unix => "unix",
            Self::Udp => "udp",
            Self::Child => "child",
            Self::Page => "page",
            Self::Flock => "flock",
            Self::Semaphore => "semaphore",
            Self::Poll => "poll",
            Self::Send => "send",
            Self::Accept | Self::Socket => "socket",
            Self::Other => "other",
        }
    }

    /// Of a thread that left the CPU in `call` with a task state.
    pub(super) fn of(call: &str, event: &Event) -> Self {
        let class = event.class();
        let in_socket = class.is_client() || class.is_upstream();
        match call {
            "fsync" | "fdatasync" | "sync_file_range" | "msync" | "sync" | "syncfs" => Self::Sync,
            "futex" | "futex_wait" | "futex_waitv" => Self::Futex,
            "" | "mmap" | "munmap" | "mprotect" | "madvise" | "brk" | "mremap" => Self::Page,
            "accept" | "accept4" => Self::Accept,
            _ if event.value & 2 != 0 => Self::Disk,
            "nanosleep" | "clock_nanosleep" | "restart_syscall" => Self::Sleep,
            "poll" | "ppoll" | "select" | "pselect6" if event.has(IDLE) => Self::Sleep,
            // A poll of one descriptor waits for that.
            "poll" | "ppoll" if in_socket => Self::Socket,
            "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
            | "epoll_pwait2" | "io_uring_enter" | "io_getevents" | "io_pgetevents" => Self::Poll,
            "flock" | "fcntl" => Self::Flock,
            "semop" | "semtimedop" => Self::Semaphore,
            "wait4" | "waitid" => Self::Child,
            _ if call.starts_with("send") || call.starts_with("write") && in_socket => Self::Send,
            _ if call.starts_with("write") && class == Class::Pipe => Self::PipeWrite,
            _ => match class {
                Class::Client | Class::Upstream => Self::Socket,
                Class::UnixClient | Class::UnixUpstream => Self::Unix,
                Class::Udp => Self::Udp,
                Class::File => Self::File,
                Class::Pipe => Self::Pipe,
                Class::None | Class::Poll | Class::Other => Self::Other,
            },
        }
    }
}

/// A time off the CPU that a thread chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub kind: WaitKind,
    /// Socket that it waits for; 0 for none.
    pub sk: u64,
    pub class: Class,
    /// Who ended it, a name of [`Names`].
    pub waker: u32,
    /// The thread of a target that ended it in a call of its own; 0 for anybody else.
    pub by: u32,
    /// Index into the stacks of the off-CPU profile.
    pub stack: Option<u32>,
    /// Which of [`Threads::met`] met it.
    pub met: Meetings,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Ready, and who ran instead for most of it; the CPU may have been idle, and only be slow to begin.
    Ready {
        who: u32,
        idle: bool,
    },
    Waiting(Wait),
}

/// A part of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub from: u64,
    pub to: u64,
    pub state: State,
}

/// The second text: hidden time of a turn before it asks an upstream.
pub(super) const BEFORE_ASKING: u32 = 1;
const BEFORE_ASKING_TEXT: &str = "before an upstream is asked";

/// Texts by number; 0 is the empty one.
#[derive(Debug)]
pub(super) struct Names {
    ids: HashMap<String, u32>,
    texts: Vec<String>,
}

/// How the names of processes begin.
const PROCESS: &str = "process ";

impl Default for Names {
    fn default() -> Self {
        Self {
            ids: HashMap::from([
                (String::new(), 0),
                (BEFORE_ASKING_TEXT.to_owned(), BEFORE_ASKING),
            ]),
            texts: vec![String::new(), BEFORE_ASKING_TEXT.to_owned()],
        }
    }
}

impl Names {
    /// Those of processes that belong to no target.
    pub(super) fn processes(&self) -> HashSet<u32> {
        let texts = self.texts.iter().enumerate();
        let processes = texts.filter(|(_, text)| text.starts_with(PROCESS));
        processes.map(|(id, _)| id as u32).collect()
    }

    pub(super) fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.texts.len() as u32;
        self.texts.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }

    pub(super) fn text(&self, id: u32) -> &str {
        &self.texts[id as usize]
    }
}

/// Spans of every thread of the targets, by rising time and without a hole.
#[derive(Debug, Default)]
pub(super) struct Threads {
    pub spans: BTreeMap<u32, Vec<Span>>,
    pub tgid: HashMap<u32, u32>,
    /// Samples of threads by time, by thread and time.
    pub met: Vec<Located>,
    /// Those of them that looked at all threads at once: how often one is met so is how long it is there.
    pub met_with_all: Vec<Located>,
}

struct Open {
    since: u64,
    state: State,
    dead: bool,
}

/// Who ran on a CPU, by name: when, and for how long before that.
#[derive(Default)]
struct Core {
    since: u64,
    ran: BTreeMap<u32, Vec<(u64, u64, u64)>>,
}

impl Core {
    /// One of a name ran since the last switch.
    fn ran(&mut self, who: u32, until: u64) {
        let from = std::mem::replace(&mut self.since, until).min(until);
        let runs = self.ran.entry(who).or_default();
        let before = runs
            .last()
            .map_or(0, |(from, to, before)| before + (to - from));
        runs.push((from, until, before));
    }

    /// The name that ran longest in a time; `None` where nobody is known to have.
    fn mostly(&self, from: u64, to: u64) -> Option<u32> {
        let until = |runs: &[(u64, u64, u64)], at: u64| {
            let next = runs.partition_point(|(from, ..)| *from < at);
            let last = next.checked_sub(1).and_then(|last| runs.get(last));
            last.map_or(0, |(from, to, before)| before + at.min(*to) - from)
        };
        let within = |runs: &[(u64, u64, u64)]| until(runs, to) - until(runs, from);
        let each = self.ran.iter().map(|(who, runs)| (within(runs), *who));
        let longest = each.max_by_key(|(ns, _)| *ns)?;
        (longest.0 > 0).then_some(longest.1)
    }
}

struct Builder<'a> {
    traced: &'a Traced,
    names: &'a mut Names,
    calls: &'a HashMap<i32, &'static str>,
    open: HashMap<u32, Open>,
    cores: HashMap<u16, Core>,
    threads: Threads,
    last_arrival: u64,
}

impl Threads {
    /// Of a trace whose events are by rising time.
    pub(super) fn build(
        traced: &Traced,
        waits: &[Located],
        calls: &HashMap<i32, &'static str>,
        names: &mut Names,
    ) -> Self {
        let mut builder = Builder {
            traced,
            names,
            calls,
            open: HashMap::new(),
            cores: HashMap::new(),
            threads: Self::default(),
            last_arrival: 0,
        };
        for event in &traced.events {
            builder.take(event);
        }
        let mut threads = builder.end();
        threads.place(waits);
        threads
    }

    /// Sockets in which a process waited to be asked by another one of its target.
    pub(super) fn asked_within(&self, traced: &Traced) -> HashSet<u64> {
        let mut asked = HashSet::new();
        for (tid, spans) in &self.spans {
            let own = self.tgid.get(tid);
            let target = own.and_then(|tgid| traced.members.get(tgid));
            for span in spans {
                let State::Waiting(wait) = span.state else {
                    continue;
                };
                let other = self.tgid.get(&wait.by).filter(|tgid| Some(*tgid) != own);
                let within = other.and_then(|tgid| traced.members.get(tgid));
                if wait.kind == WaitKind::Unix
                    && wait.sk != 0
                    && within.is_some()
                    && within == target
                {
                    asked.insert(wait.sk);
                }
            }
        }
        asked
    }

    /// How long a thread was ready to run and did not, between two times, ns.
    pub(super) fn queued_ns(&self, tid: u32, from: u64, to: u64) -> u64 {
        let spans = self.spans.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = spans.partition_point(|span| span.to <= from);
        let within = spans[first..].iter().take_while(|span| span.from < to);
        let ready = within.filter(|span| matches!(span.state, State::Ready { .. }));
        ready
            .map(|span| span.to.min(to) - span.from.max(from))
            .sum()
    }

    /// Gives each wait the stack that was taken when it began.
    fn place(&mut self, waits: &[Located]) {
        let mut by_thread: HashMap<u32, Vec<&Located>> = HashMap::new();
        for wait in waits {
            by_thread.entry(wait.tid).or_default().push(wait);
        }
        for (tid, mut stacks) in by_thread {
            stacks.sort_by_key(|located| located.at_ns);
            let Some(spans) = self.spans.get_mut(&tid) else {
                continue;
            };
            for span in spans {
                let State::Waiting(wait) = &mut span.state else {
                    continue;
                };
                let at = stacks.partition_point(|located| located.at_ns < span.from);
                let end = span.to.min(span.from + STACK_LATE_NS);
                let found = stacks.get(at).filter(|located| located.at_ns < end);
                wait.stack = found.map(|located| located.stack);
            }
        }
    }
}

impl Builder<'_> {
    fn take(&mut self, event: &Event) {
        match event.kind() {
            Some(Kind::Arrived) => self.last_arrival = event.at_ns,
            Some(Kind::Switched) => {
                let left = self.who_left(event);
                let core = self.cores.entry(event.port).or_default();
                core.ran(left, event.at_ns);
                if event.has(LEFT) {
                    self.left(event);
                }
                if event.has(CAME) {
                    self.came(event);
                }
            }
            Some(Kind::Waking) => self.woken(event),
            Some(Kind::Forked) => {
                let ready = State::Ready {
                    who: 0,
                    idle: false,
                };
                self.know(event.tid, event.tgid, event.at_ns, ready);
            }
            _ => {}
        }
    }

    fn know(&mut self, tid: u32, tgid: u32, since: u64, state: State) -> &mut Open {
        self.threads.tgid.entry(tid).or_insert(tgid);
        self.open.entry(tid).or_insert(Open {
            since,
            state,
            dead: false,
        })
    }

    /// Ends what a thread does at `at` and begins `next`.
    fn turn(&mut self, tid: u32, at: u64, ended: State, next: State) {
        let Some(open) = self.open.get_mut(&tid) else {
            return;
        };
        let from = open.since;
        open.since = at.max(from);
        open.state = next;
        if at > from {
            self.threads.spans.entry(tid).or_default().push(Span {
                from,
                to: at,
                state: ended,
            });
        }
    }

    fn left(&mut self, event: &Event) {
        let from = self.traced.from_ns.min(event.at_ns);
        self.know(event.tid, event.tgid, from, State::Running);
        let ready = event.has(PREEMPTED) || event.value == 0;
        let next = if ready {
            let who = self.other(event.other_tid, event.other_tgid, event);
            State::Ready {
                who,
                idle: event.other_tid == 0,
            }
        } else {
            let call = self.calls.get(&event.nr).copied().unwrap_or_default();
            State::Waiting(Wait {
                kind: WaitKind::of(call, event),
                sk: event.sk,
                class: event.class(),
                waker: 0,
                by: 0,
                stack: None,
                met: (0, 0),
            })
        };
        let ended = self.open[&event.tid].state;
        // A switch that was lost leaves a thread asleep that must have run.
        let ended = match ended {
            State::Waiting(_) | State::Ready { .. } if event.at_ns > from => State::Running,
            other => other,
        };
        self.turn(event.tid, event.at_ns, ended, next);
        if !ready && event.value & 0xf0 != 0 {
            self.open.get_mut(&event.tid).expect("it is known").dead = true;
        }
    }

    fn came(&mut self, event: &Event) {
        let tid = event.other_tid;
        let from = self.traced.from_ns.min(event.at_ns);
        let unknown = State::Ready {
            who: 0,
            idle: false,
        };
        let open = self.know(tid, event.other_tgid, from, unknown);
        let (state, since) = (open.state, open.since);
        let ended = match state {
            State::Ready { .. } => {
                let core = self.cores.get(&event.port);
                let who = core.and_then(|core| core.mostly(since, event.at_ns));
                match who {
                    Some(who) => State::Ready {
                        who,
                        idle: who == 0,
                    },
                    None => state,
                }
            }
            state => state,
        };
        self.turn(tid, event.at_ns, ended, State::Running);
    }

    fn woken(&mut self, event: &Event) {
        let from = self.traced.from_ns.min(event.at_ns);
        let unseen = State::Waiting(Wait {
            kind: WaitKind::Other,
            sk: 0,
            class: Class::None,
            waker: 0,
            by: 0,
            stack: None,
            met: (0, 0),
        });
        let state = self.know(event.tid, event.tgid, from, unseen).state;
        let State::Waiting(mut wait) = state else {
            return;
        };
        let (waker, told) = self.waker(wait.kind, event);
        let of_target = self.traced.members.contains_key(&event.other_tgid);
        wait.waker = waker;
        wait.by = if told && of_target {
            event.other_tid
        } else {
            0
        };
        let ready = State::Ready {
            who: 0,
            idle: false,
        };
        self.turn(event.tid, event.at_ns, State::Waiting(wait), ready);
    }

    /// Who ran until a switch; 0 where nobody did.
    fn who_left(&mut self, event: &Event) -> u32 {
        // Its name is in the event unless it is a target's, which the list of threads names.
        if event.has(LEFT) {
            self.thread_name(event.tid, event.tgid)
        } else {
            self.other(event.tid, event.tgid, event)
        }
    }

    fn thread_name(&mut self, tid: u32, tgid: u32) -> u32 {
        let name = self.traced.names.get(&tid);
        let name = name.or_else(|| self.traced.names.get(&tgid));
        let text = format!("thread {}", name.map_or("", String::as_str));
        self.names.id(text.trim_end())
    }

    /// The other thread of a switch in words: the target's own threads are threads, all else are processes.
    fn other(&mut self, tid: u32, tgid: u32, event: &Event) -> u32 {
        if tid == 0 {
            return 0;
        }
        if self.traced.members.contains_key(&tgid) {
            return self.thread_name(tid, tgid);
        }
        let name = event.other_name();
        let name = process_name(&name);
        let text = match self.traced.by_process {
            true => format!("{PROCESS}{name} {tgid}"),
            false => format!("{PROCESS}{name}"),
        };
        self.names.id(&text)
    }

    /// Who ended a wait, and whether it was the thread that ran then.
    fn waker(&mut self, kind: WaitKind, event: &Event) -> (u32, bool) {
        let call = self.calls.get(&event.nr).copied().unwrap_or_default();
        let in_call = !call.is_empty();
        let is_kernel = event.has(KERNEL) && event.other_tid != 0;
        let own = event.other_tgid == event.tgid;
        let told = match kind {
            WaitKind::Sleep => false,
            WaitKind::Futex => call.starts_with("futex") || call.starts_with("exit"),
            WaitKind::Disk => is_kernel,
            WaitKind::Sync => is_kernel || own && in_call,
            WaitKind::Page | WaitKind::File | WaitKind::Other => is_kernel || own && in_call,
            WaitKind::Pipe
            | WaitKind::PipeWrite
            | WaitKind::Unix
            | WaitKind::Flock
            | WaitKind::Semaphore
            | WaitKind::Child => in_call,
            WaitKind::Udp
            | WaitKind::Poll
            | WaitKind::Accept
            | WaitKind::Send
            | WaitKind::Socket => {
                let signalled = SIGNALS.contains(&call) && self.are_of_one_target(event);
                in_call && (own || signalled || !self.by_timer(kind, event))
            }
        };
        if told && own {
            let name = self.thread_name(event.other_tid, event.other_tgid);
            return (name, true);
        }
        if told {
            let name = self.other(event.other_tid, event.other_tgid, event);
            return (name, true);
        }
        let by_timer = matches!(kind, WaitKind::Sleep | WaitKind::Futex);
        let name = if by_timer || self.by_timer(kind, event) {
            "timer"
        } else {
            "interrupt"
        };
        (self.names.id(name), false)
    }

    fn are_of_one_target(&self, event: &Event) -> bool {
        let target = |tgid: u32| self.traced.members.get(&tgid);
        target(event.tgid).is_some_and(|own| target(event.other_tgid) == Some(own))
    }

    /// A poll ends in an interrupt by its time when no data came just before; only whole traces know that. The
    /// interrupt of an idle CPU is in the thread that idles there, which is the kernel's.
    fn by_timer(&self, kind: WaitKind, event: &Event) -> bool {
        kind == WaitKind::Poll
            && self.traced.one_in == 1
            && !(event.has(KERNEL) && event.other_tid != 0)
            && event.at_ns.saturating_sub(self.last_arrival) > JUST_NOW_NS
    }

    fn end(mut self) -> Threads {
        let tids: Vec<u32> = self.open.keys().copied().collect();
        for tid in tids {
            let open = &self.open[&tid];
            if !open.dead {
                let state = open.state;
                self.turn(tid, self.traced.to_ns, state, state);
            }
        }
        self.threads
    }
}

/// The number of the process that a waker is, where it was told with it ([`super::TraceConfig::by_process`]).
pub fn process_number(waker: &str) -> Option<i32> {
    let process = waker.strip_prefix(PROCESS)?;
    process.rsplit_once(' ')?.1.parse().ok()
}

/// A process' name without what counts it: `kworker/0:1` is one of many.
fn process_name(name: &str) -> &str {
    let end = name.find(['/', ':']).filter(|&at| at > 0);
    &name[..end.unwrap_or(name.len())]
}
