//! The hidden time of requests, divided by what the runtime's tasks were seen to do.
//!
//! In the flow: where a look at goroutines came with the turns, the time that no thread showed becomes rows: waits by
//! reason and function, readiness without a thread of the runtime, work. By Little's law a mean number of tasks is a
//! time, so that the looks need no link between one task and one request. The surprise: a task that waits for a socket
//! is left out. Between requests it waits so for the next, and within one its upstream's turns own that time.

#[cfg(test)]
mod tests;

use super::cpu::{CpuRow, cpu_rows};
use super::latency::{ON_CPU, mostly, sampled};
use super::told::{AT_LIMITER, LIMITER, are_at_limiter, are_of_pool};
use crate::diagnosis::work::frames;
use record::{NETWORK_WAIT, Place, Profile, Stack, TaskSamples, TurnAccount, stands_ready};
use std::collections::{BTreeMap, BTreeSet};

/// Fewer samples than this do not say whose requests they were for.
const FEWEST_SAMPLES: u64 = 20;
/// A root with a smaller share of the samples is there by accident of a thread that went on with something else.
const SMALLEST_ROOT: f64 = 0.02;
/// Standard errors beyond which what the tasks do not explain stays hidden.
const ERRORS: f64 = 2.0;
/// Tasks that stand in line for a connection are met: at least so many of those that the time asks for.
const MET: f64 = 0.7;
/// Roots of tasks that serve requests without a socket of their own, or that may be met at none where all are held
/// back: then only those that look whether the client goes away wait for sockets.
const SERVING: [&str; 6] = [
    "net/http.(*conn).serve",
    "net/http.(*Server).Serve.",
    "github.com/valyala/fasthttp.(*workerPool).",
    "net/http.(*http2serverConn).runHandler",
    "golang.org/x/net/http2.(*serverConn).runHandler",
    "google.golang.org/grpc.(*Server).",
];
/// Roots of tasks that read and write for the connections of a client, where they wait for work like a pool.
const CLIENTS: [&str; 4] = [
    "net/http.(*persistConn).",
    "net/http.(*http2ClientConn).",
    "golang.org/x/net/http2.(*ClientConn).",
    "google.golang.org/grpc/internal/transport.(*http2Client).",
];
/// Where the task of a connection is when its request has the answer: it waits for the one that looked meanwhile
/// whether the client goes away, or before it closes.
const ANSWERED: [&str; 2] = [
    "net/http.(*connReader).abortPendingRead",
    "net/http.(*conn).closeWriteAndWait",
];
/// Packages whose functions wait for somebody who called them.
const LIBRARY: [&str; 7] = [
    "runtime.",
    "runtime/",
    "internal/",
    "sync.",
    "sync/",
    "time.",
    "syscall.",
];

/// Kind of the rows of those who wait for a free connection.
const POOL: &str = "pool";

/// A part of hidden time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TaskPart {
    pub kind: String,
    pub label: String,
    /// Function and callers.
    pub place: String,
    pub own: bool,
    /// It ran on a CPU there.
    pub ran: bool,
    pub ns: f64,
}

/// What is known of the tasks of one target.
pub(super) struct TaskCase<'a> {
    pub target: &'a str,
    /// File name of the program.
    pub program: &'a str,
    pub samples: &'a TaskSamples,
    pub account: &'a TurnAccount,
    /// One connection in so many was followed.
    pub one_in: u32,
    /// Length of the whole trace, ns.
    pub traced_ns: f64,
    pub tasks: &'a Profile,
    pub on_cpu: Option<&'a Profile>,
}

/// What tasks of one kind were seen to do.
#[derive(Default)]
struct Sums {
    /// By kind, label and place.
    rows: BTreeMap<(&'static str, String, String), f64>,
    /// No thread of the runtime is free to run them.
    ready: f64,
    running: f64,
    calls: BTreeMap<(&'static str, String, String), f64>,
}

impl TaskCase<'_> {
    /// Hidden time, and that between two writes, as parts that add up to both; `None` where the looks tell nothing of
    /// them. What no task explains is the client's, who does not take more, as far as it may be. `in_line_ns` belongs
    /// to it where so many tasks were met: the second value says so.
    pub(super) fn divide(
        &self,
        hidden_ns: f64,
        in_line_ns: f64,
        sending_ns: f64,
    ) -> Option<(Vec<TaskPart>, bool)> {
        let mut all_ns = hidden_ns + sending_ns;
        let mut hidden = self.samples.hidden;
        let roots = self.roots();
        if roots.is_empty() || hidden <= 0.0 || all_ns <= 0.0 {
            return None;
        }
        let sums = self.sums(&roots);
        let mut parts: Vec<TaskPart> = Vec::new();
        let mut add = |(kind, label, place): (&str, String, String), own: bool, tasks: f64| {
            parts.push(TaskPart {
                kind: kind.to_owned(),
                label,
                place,
                own,
                ran: false,
                ns: tasks,
            });
        };
        let mut waiting = 0.0;
        for (key, tasks) in sums.rows {
            waiting += tasks;
            add(key, false, tasks);
        }
        let label = "ready, waiting for a thread of the runtime".to_owned();
        add(("run_queue", label, self.meanwhile()), true, sums.ready);
        // What threads were seen to do for turns is told already; the rest of the tasks that run are hidden.
        let called: f64 = sums.calls.values().sum();
        let beyond = (sums.running + called - self.samples.running - self.samples.blocked).max(0.0);
        let in_calls = (called - self.samples.blocked).clamp(0.0, beyond);
        for (key, tasks) in sums.calls {
            add(key, false, in_calls * tasks / called);
        }
        parts.extend(self.ran(beyond - in_calls, &roots));
        parts.retain(|part| part.ns > 0.0);
        let told: f64 = parts.iter().map(|part| part.ns).sum();
        // A mean number is a time (Little): so many more were there to be met.
        let tasks_in_line = hidden * in_line_ns / all_ns;
        let in_line = in_line_ns > 0.0 && waiting >= tasks_in_line * MET;
        if in_line {
            hidden += tasks_in_line;
            all_ns += in_line_ns;
        }
        let rest = hidden - told;
        let error = hidden * ERRORS / (self.samples.looks.max(1) as f64).sqrt();
        if told <= 0.0 && rest <= error {
            return None;
        }
        let whole = if rest > error { hidden } else { told };
        for part in &mut parts {
            part.ns *= all_ns / whole;
        }
        if rest > error {
            let left_ns = all_ns * rest / whole;
            let mut add = |kind: &str, label: &str, ns: f64| {
                parts.push(TaskPart {
                    kind: kind.to_owned(),
                    label: label.to_owned(),
                    place: String::new(),
                    own: false,
                    ran: false,
                    ns,
                });
            };
            add(
                "sending",
                "sending, until the client takes more",
                left_ns.min(sending_ns),
            );
            let nobody = "inside the process, in no goroutine that was seen";
            add("hidden", nobody, (left_ns - sending_ns).max(0.0));
        }
        parts.retain(|part| part.ns > 0.0);
        Some((parts, in_line))
    }

    /// Functions that the tasks of requests begin with: those that ran while turns were with their threads, and that
    /// also wait for sockets, as whoever reads a request does.
    fn roots(&self) -> BTreeSet<String> {
        let waits: BTreeSet<&str> = (self.tasks.stacks.iter())
            .filter(|stack| stack.target == self.target && stack.thread == NETWORK_WAIT)
            .filter_map(|stack| task_root(self.tasks, stack))
            .collect();
        let serves = |root: &str| {
            let known = |names: &[&str]| names.iter().any(|name| root.starts_with(name));
            (waits.contains(root) || known(&SERVING))
                && !known(&CLIENTS)
                && !root.starts_with("runtime.")
        };
        let mut ran: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, samples) in self.sampled(Place::OnCpu) {
            if let Some(root) = self.on_cpu.and_then(|profile| cpu_root(profile, stack)) {
                *ran.entry(root.to_owned()).or_default() += samples;
            }
        }
        let all: u64 = ran.values().sum();
        if all >= FEWEST_SAMPLES {
            let least = all as f64 * SMALLEST_ROOT;
            let ran = ran
                .into_iter()
                .filter(|(_, samples)| *samples as f64 >= least);
            let found: BTreeSet<String> = ran
                .map(|(root, _)| root)
                .filter(|root| serves(root))
                .collect();
            if !found.is_empty() {
                return found;
            }
        }
        // Hardly anything ran: whoever waits for sockets, and at times for something else.
        let seen = self
            .seen()
            .filter(|(stack, _)| stack.thread != NETWORK_WAIT);
        let roots = seen.filter_map(|(stack, _)| task_root(self.tasks, stack));
        roots
            .filter(|root| serves(root))
            .map(str::to_owned)
            .collect()
    }

    /// Samples of the CPU that fell on a place of the turns.
    fn sampled(&self, place: Place) -> impl Iterator<Item = (&Stack, u64)> {
        let profile = self.on_cpu.into_iter();
        profile.flat_map(move |profile| sampled(profile, self.account, place))
    }

    /// What ran while tasks stood ready; empty where too few samples tell it.
    fn meanwhile(&self) -> String {
        let Some(profile) = self.on_cpu else {
            return String::new();
        };
        let stacks: Vec<(&Stack, u64)> = self.sampled(Place::RunQueue).collect();
        match stacks.iter().map(|(_, samples)| samples).sum::<u64>() {
            ..FEWEST_SAMPLES => String::new(),
            _ => mostly(&cpu_rows(profile, &stacks, self.program)),
        }
    }

    fn seen(&self) -> impl Iterator<Item = (&Stack, f64)> {
        let seen = self.samples.seen.iter();
        seen.filter_map(|seen| Some((self.tasks.stacks.get(seen.stack as usize)?, seen.tasks)))
    }

    fn sums(&self, roots: &BTreeSet<String>) -> Sums {
        let mut sums = Sums::default();
        for (stack, tasks) in self.seen() {
            if !task_root(self.tasks, stack).is_some_and(|root| roots.contains(root)) {
                continue;
            }
            let names: Vec<&str> = (frames(self.tasks, stack).iter().rev())
                .map(|frame| frame.symbol.as_str())
                .collect();
            if names.iter().any(|name| ANSWERED.contains(name)) {
                continue;
            }
            match stack.thread.as_str() {
                // What came over a socket is told by its turn: not yet read.
                network if network.ends_with(NETWORK_WAIT) => {}
                "running" => sums.running += tasks,
                "syscall" => *sums.calls.entry(in_call(&names)).or_default() += tasks,
                ready if stands_ready(ready) => sums.ready += tasks,
                reason => *sums.rows.entry(waiting(reason, &names)).or_default() += tasks,
            }
        }
        sums
    }

    /// Tasks that ran while their request was hidden: by the samples of the CPU that fell on no turn, and, where a
    /// task ran and its thread did not, a wait for a CPU.
    fn ran(&self, tasks: f64, roots: &BTreeSet<String>) -> Vec<TaskPart> {
        let part = |kind: &str, label: String, place: String, ns: f64| TaskPart {
            kind: kind.to_owned(),
            label,
            place,
            own: true,
            ran: kind != "run_queue",
            ns,
        };
        let plain = |tasks| {
            part(
                "on_cpu",
                format!("{ON_CPU}{}", self.target),
                String::new(),
                tasks,
            )
        };
        let Some(profile) = self.on_cpu.filter(|profile| profile.hz > 0) else {
            return vec![plain(tasks)];
        };
        let mut of_turns: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in self
            .account
            .cpu_samples
            .iter()
            .filter(|s| s.place == Place::OnCpu)
        {
            *of_turns.entry(sample.stack).or_default() += sample.samples;
        }
        let ours = |stack: &Stack| {
            let root = cpu_root(profile, stack);
            stack.target == self.target && root.is_some_and(|root| roots.contains(root))
        };
        let left = (0_u32..)
            .zip(&profile.stacks)
            .filter(|(_, stack)| ours(stack));
        let left = left.map(|(index, stack)| {
            let followed = stack.weight / u64::from(self.one_in.max(1));
            (
                stack,
                followed.saturating_sub(of_turns.get(&index).copied().unwrap_or_default()),
            )
        });
        let left: Vec<(&Stack, u64)> = left.filter(|(_, samples)| *samples > 0).collect();
        let samples: u64 = left.iter().map(|(_, samples)| samples).sum();
        if samples < FEWEST_SAMPLES {
            return vec![plain(tasks)];
        }
        let on_cpu = samples as f64 * 1e9 / f64::from(profile.hz) / self.traced_ns.max(1.0);
        // In the same measure as the tasks: summed over the looks.
        let on_cpu = (on_cpu * self.samples.looks as f64).min(tasks);
        let rows: Vec<CpuRow> = cpu_rows(profile, &left, self.program);
        let all: u64 = rows.iter().map(|row| row.samples).sum();
        let mut parts: Vec<TaskPart> = rows
            .into_iter()
            .map(|row| TaskPart {
                own: row.own,
                ..part(
                    &row.kind,
                    format!("{ON_CPU}{}: {}", self.target, row.label),
                    row.place,
                    on_cpu * row.samples as f64 / all as f64,
                )
            })
            .collect();
        parts.push(part(
            "run_queue",
            "waiting for a CPU".to_owned(),
            String::new(),
            tasks - on_cpu,
        ));
        parts
    }
}

/// The function that a task began with.
fn task_root<'a>(profile: &'a Profile, stack: &Stack) -> Option<&'a str> {
    frames(profile, stack)
        .first()
        .map(|frame| frame.symbol.as_str())
}

/// The function that the task of a sample began with; the scheduler's own stacks have none.
fn cpu_root<'a>(profile: &'a Profile, stack: &Stack) -> Option<&'a str> {
    let all = frames(profile, stack);
    let mut users = all.iter().filter(|frame| !frame.kernel);
    let bottom = users.next()?;
    bottom.symbol.starts_with("runtime.goexit").then_some(())?;
    users.next().map(|frame| frame.symbol.as_str())
}

/// The innermost functions that are not the runtime's or the standard library's ways to wait: the nearest one, and it
/// with its callers.
fn of_program(names: &[&str]) -> (String, String) {
    let library = |name: &&&str| LIBRARY.iter().any(|package| name.starts_with(package));
    let own: Vec<&str> = names.iter().skip_while(library).copied().collect();
    let first = own.first().copied().unwrap_or_default().to_owned();
    (
        first,
        own.iter().take(3).copied().collect::<Vec<_>>().join(" < "),
    )
}

/// Kind, words and place of a wait, by the runtime's own reason for it.
fn waiting(reason: &str, names: &[&str]) -> (&'static str, String, String) {
    let calls = |part: &str| names.iter().any(|name| name.contains(part));
    // (durable), (nil chan) and the like are of no matter here.
    let plain = reason.split(" (").next().unwrap_or_default();
    let (kind, words) = match plain {
        "semacquire" | "sync.Mutex.Lock" | "sync.Cond.Wait" | "chan receive" | "chan send"
        | "select" | "sleep"
            if are_at_limiter(names) =>
        {
            (LIMITER, AT_LIMITER)
        }
        "semacquire" if calls("sync.(*WaitGroup)") => {
            ("join", "waiting for other goroutines to end")
        }
        "sync.WaitGroup.Wait" => ("join", "waiting for other goroutines to end"),
        "semacquire" if calls("internal/poll.(*fdMutex)") && calls("os.(*File)") => {
            ("disk", "waiting until another use of the file is over")
        }
        "semacquire" if are_of_pool(names) => (POOL, "waiting for a free connection of a pool"),
        "semacquire" | "sync.Mutex.Lock" => ("lock", "waiting for a lock"),
        "sync.RWMutex.Lock" | "sync.RWMutex.RLock" => {
            ("lock", "waiting for a lock (of readers and writers)")
        }
        "chan receive" | "chan send" | "select" | "sync.Cond.Wait" if are_of_pool(names) => {
            (POOL, "waiting for a free connection of a pool")
        }
        "sync.Cond.Wait" => ("condition", "waiting for a condition"),
        "chan receive" => ("channel", "waiting to receive from a channel"),
        "chan send" => ("channel", "waiting to send to a channel"),
        "select" => ("channel", "waiting for one of several channels"),
        "sleep" => ("sleep", "asleep until a timer"),
        "GC assist marking" => ("gc", "marking memory for the garbage collector"),
        gc if gc.starts_with("GC ") || gc.contains("GC cycle") || gc.contains("garbage") => {
            ("gc", "waiting for the garbage collector")
        }
        _ => ("other", ""),
    };
    let (function, place) = of_program(names);
    let words = if words.is_empty() {
        format!("waiting in the runtime ({plain})")
    } else {
        words.to_owned()
    };
    let label = if function.is_empty() {
        words
    } else {
        format!("{words}: {function}")
    };
    (kind, label, place)
}

/// Kind, words and place of a system call, by the functions around it.
fn in_call(names: &[&str]) -> (&'static str, String, String) {
    let call = names
        .iter()
        .find(|name| !name.starts_with("runtime.") && !name.starts_with("internal/runtime"));
    let calls = |parts: &[&str]| {
        names
            .iter()
            .any(|name| parts.iter().any(|part| name.contains(part)))
    };
    let (kind, words) = if calls(&["Fsync", "Fdatasync", "fsync", "fdatasync"]) {
        (
            "sync",
            "waiting until data is on the disk (sync)".to_owned(),
        )
    } else if calls(&["pread", "Pread"]) {
        ("disk", "waiting for a file".to_owned())
    } else {
        let name = call.copied().unwrap_or("a function of the runtime");
        ("other", format!("in a system call: {name}"))
    };
    let place = names
        .iter()
        .take(3)
        .copied()
        .collect::<Vec<_>>()
        .join(" < ");
    (kind, words, place)
}
