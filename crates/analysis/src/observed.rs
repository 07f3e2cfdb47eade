//! Who was busy in the measured part: cores by mode, threads of the targets, the generator's threads.
//!
//! Everything is a share of one core over the window `measured_from..measured_to`. One surprise: a
//! kernel that accounts interrupt time takes softirq out of a thread's run time, and on loopback the
//! sender's thread does the receiver's softirq work. So a thread at 60 % may own a full core, and the
//! core's softirq share has to be looked at beside it.

use crate::Usage;
use crate::stats::share;
use record::{
    Examination, LoadOutcome, LoadSpec, Nanos, Profile, ProfileKind, Series, Stack, TargetRecord,
    ThreadCost, TimeSpan,
};
use std::collections::BTreeMap;

/// The on-CPU profile of the timing pass, the first of those that were taken.
pub(crate) fn timing_profile(examination: Option<&Examination>) -> Option<&Profile> {
    let mut profiles = examination?.profiles.iter();
    profiles.find(|p| p.kind == ProfileKind::OnCpu)
}

/// Everything that a judgement may look at.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub outcome: &'a LoadOutcome,
    pub series: &'a [Series],
    pub spec: &'a LoadSpec,
    pub targets: &'a [TargetRecord],
    pub error_limit: f64,
}

/// What of it needs no load: the server's side over a window.
#[derive(Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub window: Window,
    pub series: &'a [Series],
    pub spec: &'a LoadSpec,
    pub targets: &'a [TargetRecord],
    /// The load threads; empty without a load of ours.
    pub threads: &'a [ThreadCost],
    /// There was a load of ours.
    pub loaded: bool,
}

impl<'a> Case<'a> {
    /// The server's side of it.
    pub(crate) fn sight(&self) -> Sight<'a> {
        Sight {
            window: Window::of(self.outcome),
            series: self.series,
            spec: self.spec,
            targets: self.targets,
            threads: &self.outcome.generator.threads,
            loaded: true,
        }
    }
}

/// Label of prony's own threads.
pub(crate) const GENERATOR: &str = "generator";
/// A series that covers less of the window than this is divided by the window, not by what it covers:
/// a worker that lived for a moment did not saturate the trial.
const COVERED: f64 = 0.8;
/// Modes of a core that are work, in the order of the signals.
const BUSY_MODES: [&str; 6] = ["user", "nice", "system", "irq", "softirq", "steal"];
const IDLE_MODES: [&str; 2] = ["idle", "iowait"];
/// Threads below this share did not matter.
const WORTH_SHOWING: f64 = 0.005;

/// One core.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreUse {
    pub by_mode: BTreeMap<String, f64>,
    pub busy: f64,
}

impl CoreUse {
    pub(crate) fn mode(&self, mode: &str) -> f64 {
        self.by_mode.get(mode).copied().unwrap_or(0.0)
    }

    /// Work of threads: neither interrupts nor what the hypervisor took.
    pub(crate) fn threads(&self) -> f64 {
        self.busy - self.interrupts() - self.mode("steal")
    }

    /// Interrupt work, which no thread's run time holds.
    pub(crate) fn interrupts(&self) -> f64 {
        self.mode("softirq") + self.mode("irq")
    }
}

/// Who used a set of cores beside the server, as shares of those cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    /// Neither targets nor generator.
    pub foreign: f64,
    /// Load threads that are pinned there.
    pub generator: f64,
}

impl Others {
    pub(crate) fn share(&self) -> f64 {
        self.foreign + self.generator
    }
}

/// One thread of a target (or a whole process, where its threads were not watched and it has one).
#[derive(Clone, Debug)]
pub(crate) struct TaskUse {
    pub owner: String,
    pub pid: i32,
    pub tid: i32,
    pub name: String,
    pub busy: f64,
    pub user: f64,
    pub system: f64,
    pub wait: Option<f64>,
    /// CPUs that it may run on; empty: all.
    pub cpus: Vec<u32>,
    /// Another machine that it ran on, by the host's name: the cores that were watched are none of its.
    pub elsewhere: Option<String>,
    pub role: String,
    /// Threads behind the figure: 1 but for a process whose threads were not watched.
    pub threads: f64,
    pub source: &'static str,
}

impl TaskUse {
    /// Share of the time in which it had work: running or waiting for a CPU.
    pub(crate) fn demand(&self) -> f64 {
        self.busy + self.wait.unwrap_or(0.0)
    }

    /// `nginx worker 1234 on core 0`.
    pub(crate) fn label(&self) -> String {
        let mut label = self.name.clone();
        if !self.role.is_empty() && !self.name.contains(&self.role) {
            label = format!("{label} {}", self.role);
        }
        label = format!("{label} {}", self.pid);
        if self.tid != self.pid {
            label = format!("{label} thread {}", self.tid);
        }
        let host = self.elsewhere.as_deref();
        match (self.cpus.as_slice(), host) {
            ([core], None) => format!("{label} on core {core}"),
            ([core], Some(host)) => format!("{label} on core {core} of {host}"),
            (_, Some(host)) => format!("{label} on {host}"),
            (_, None) => label,
        }
    }

    fn usage_name(&self) -> String {
        if self.tid == self.pid {
            format!("{} {}", self.name, self.pid)
        } else {
            format!("{} {}/{}", self.name, self.pid, self.tid)
        }
    }
}

/// One load thread.
#[derive(Clone, Debug)]
pub(crate) struct LoadThreadUse {
    pub tid: i32,
    pub cpu: Option<u32>,
    /// Where it may run; empty: anywhere.
    pub cpus: Vec<u32>,
    pub busy: f64,
    pub user: f64,
    pub system: f64,
    pub spin: f64,
    pub wait: Option<f64>,
}

impl LoadThreadUse {
    pub(crate) fn label(&self) -> String {
        match self.cpu {
            Some(core) => format!("load thread {} on core {core}", self.tid),
            None => format!("load thread {}", self.tid),
        }
    }
}

/// Who was busy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    pub cores: BTreeMap<u32, CoreUse>,
    /// Threads of the targets, busiest first.
    pub tasks: Vec<TaskUse>,
    pub generator: Vec<LoadThreadUse>,
    /// CPU seconds of all watched target processes; `None` when none was watched.
    pub target_cpu_s: Option<f64>,
    /// There was a load of ours, so that what its threads did is a part of the answer.
    pub loaded: bool,
    /// The load threads ran on other hosts: nothing of them is in the cores.
    elsewhere: bool,
    /// Cores that prony's own process used, its monitors included; 0 when it was not watched.
    own_cores: f64,
}

impl Observed {
    pub(crate) fn of(case: &Case<'_>) -> Self {
        Self::seen(&case.sight())
    }

    /// Who was busy in the window, with or without a load.
    pub(crate) fn seen(sight: &Sight<'_>) -> Self {
        let window = sight.window;
        let (own, mut tasks): (Vec<TaskUse>, Vec<TaskUse>) = tasks(sight, &window)
            .into_iter()
            .partition(|task| task.owner == GENERATOR);
        tasks.sort_by(|a, b| b.busy.total_cmp(&a.busy));
        let target_cpu_s = (!tasks.is_empty())
            .then(|| tasks.iter().map(|t| t.busy).sum::<f64>() * window.seconds());
        Self {
            cores: cores(sight.series, &window),
            tasks,
            generator: load_threads(sight, &window),
            target_cpu_s,
            loaded: sight.loaded,
            elsewhere: !sight.spec.hosts.is_empty(),
            own_cores: own.iter().map(|t| t.busy).sum(),
        }
    }

    /// Adds what the on-CPU profile saw of processes that no sample of /proc met, by its length, or weighed by those
    /// that were met where that is not known: a server that ignores SIGCHLD waits for no child, and the kernel then
    /// adds its time to nobody's.
    pub(crate) fn with_profile(mut self, examination: Option<&Examination>) -> Self {
        let Some(profile) = timing_profile(examination) else {
            return self;
        };
        let mut targets: Vec<&str> = self.tasks.iter().map(|t| t.owner.as_str()).collect();
        targets.sort_unstable();
        targets.dedup();
        // It is taken while turns are traced.
        let turns = examination.and_then(|e| e.turns.as_ref());
        let length_s = turns.map(|turns| turns.traced_ns as f64 / 1e9);
        let length_s = length_s.filter(|s| *s > 0.0);
        let mut found = Vec::new();
        for target in targets {
            let known = || {
                self.tasks
                    .iter()
                    .filter(|t| t.owner == target && t.role != SHORT_LIVED)
            };
            let met = |pid: i32| known().any(|t| t.pid == pid);
            let of_target = profile.stacks.iter().filter(|s| s.target == target);
            let (watched, others): (Vec<&Stack>, Vec<&Stack>) = of_target.partition(|s| met(s.pid));
            let weight = |stacks: &[&Stack]| stacks.iter().map(|s| s.weight).sum::<u64>();
            if weight(&watched) < FEWEST_SAMPLES {
                continue;
            }
            let sampled = weight(&others) as f64;
            let seen = match length_s {
                Some(length_s) => sampled / f64::from(profile.hz.max(1)) / length_s,
                None => known().map(|t| t.busy).sum::<f64>() * sampled / weight(&watched) as f64,
            };
            let counted: f64 = (self.tasks.iter())
                .filter(|t| t.owner == target && t.role == SHORT_LIVED)
                .map(|t| t.busy)
                .sum();
            let most = known().max_by(|a, b| a.busy.total_cmp(&b.busy)).cloned();
            if let Some(of) = most.filter(|_| seen > counted && seen > TICK_NOISE) {
                let in_kernel = |s: &&&Stack| {
                    let leaf = s.frames.last();
                    let leaf = leaf.and_then(|at| profile.frames.get(*at as usize));
                    leaf.is_some_and(|frame| frame.kernel)
                };
                let kernel: u64 = others.iter().filter(in_kernel).map(|s| s.weight).sum();
                let user = 1.0 - kernel as f64 / weight(&others) as f64;
                found.push(short_lived(of, seen, user, "on-CPU profile"));
            }
        }
        let before: f64 = self.tasks.iter().map(|t| t.busy).sum();
        for task in found {
            self.tasks
                .retain(|t| t.owner != task.owner || t.role != SHORT_LIVED);
            self.tasks.push(task);
        }
        let after: f64 = self.tasks.iter().map(|t| t.busy).sum();
        let more = share(after, before).unwrap_or(1.0);
        self.target_cpu_s = self.target_cpu_s.map(|s| s * more);
        self.tasks.sort_by(|a, b| b.busy.total_cmp(&a.busy));
        self
    }

    /// A target's threads were watched.
    pub(crate) fn server_watched(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// The cores that a task may use: those that it is pinned to, or all. None of them is one of another machine's.
    pub(crate) fn cores_of(&self, task: &TaskUse) -> Vec<u32> {
        match task.cpus.as_slice() {
            _ if task.elsewhere.is_some() => Vec::new(),
            [] => self.cores.keys().copied().collect(),
            cpus => cpus.to_vec(),
        }
    }

    /// The targets' threads that took of the cores that were watched.
    pub(crate) fn tasks_here(&self) -> impl Iterator<Item = &TaskUse> {
        self.tasks.iter().filter(|task| task.elsewhere.is_none())
    }

    /// The busiest load thread.
    pub(crate) fn busiest_load_thread(&self) -> Option<&LoadThreadUse> {
        self.generator
            .iter()
            .max_by(|a, b| a.busy.total_cmp(&b.busy))
    }

    /// CPU that neither the targets nor prony (its monitors are not foreign) used, in cores; `None` when cores or
    /// targets were not watched.
    pub(crate) fn foreign_cores(&self) -> Option<f64> {
        if self.cores.is_empty() || !self.server_watched() {
            return None;
        }
        let busy: f64 = self.cores.values().map(CoreUse::threads).sum();
        let targets: f64 = self.tasks_here().map(|t| t.busy).sum();
        let load: f64 = self.load_here().map(|t| t.busy + t.spin).sum();
        Some((busy - targets - load.max(self.own_cores)).max(0.0))
    }

    /// The load threads that took of this host's cores.
    fn load_here(&self) -> impl Iterator<Item = &LoadThreadUse> {
        self.generator.iter().filter(|_| !self.elsewhere)
    }

    /// What others took of these cores; `None` when they were not watched. A thread that may also run
    /// elsewhere is taken to have run here, so that too little is found rather than too much.
    pub(crate) fn others_on(&self, cores: &[u32]) -> Option<Others> {
        let n = cores.len() as f64;
        let used: Vec<&CoreUse> = cores.iter().filter_map(|c| self.cores.get(c)).collect();
        if used.is_empty() || used.len() < cores.len() {
            return None;
        }
        let busy: f64 = used.iter().map(|c| c.threads()).sum();
        let may_run_here = |cpus: &[u32]| cpus.is_empty() || cpus.iter().any(|c| cores.contains(c));
        let targets: f64 = (self.tasks_here().filter(|t| may_run_here(&t.cpus)))
            .map(|t| t.busy)
            .sum();
        let load = |t: &LoadThreadUse| t.busy + t.spin;
        let ours = |t: &&LoadThreadUse| may_run_here(&t.cpus);
        let generator: f64 = self.load_here().filter(ours).map(load).sum();
        // On the whole host the generator has to be somewhere; on fewer cores it is pinned to them.
        let confined = cores.len() < self.cores.len();
        let runs_here =
            |t: &LoadThreadUse| !t.cpus.is_empty() && t.cpus.iter().all(|c| cores.contains(c));
        let pinned = |t: &&LoadThreadUse| confined && runs_here(t);
        let beside: f64 = self.load_here().filter(pinned).map(load).sum();
        Some(Others {
            foreign: ((busy - targets - generator) / n).max(0.0),
            generator: beside / n,
        })
    }

    /// CPU that each of the other targets took on these cores, in cores; threads that may also run elsewhere are left
    /// out.
    pub(crate) fn peers_on(&self, target: &str, cores: &[u32]) -> BTreeMap<&str, f64> {
        let peers = self.tasks_here().filter(|t| t.owner != target);
        let all = self.cores.keys().all(|core| cores.contains(core));
        let these = |t: &TaskUse| !t.cpus.is_empty() && t.cpus.iter().all(|c| cores.contains(c));
        let here = |t: &&TaskUse| all || these(t);
        let mut taken = BTreeMap::new();
        for task in peers.filter(here) {
            *taken.entry(task.owner.as_str()).or_default() += task.busy;
        }
        taken
    }

    /// What the report lists: all cores, the generator's threads, and the target threads that mattered.
    pub(crate) fn usage(&self, sight: &Sight<'_>) -> Vec<Usage> {
        let cores = self.cores.iter().map(|(core, used)| Usage {
            owner: "host".to_owned(),
            name: format!("core {core}"),
            utilization: used.busy,
            by_mode: used.by_mode.clone(),
            run_queue_wait: None,
            requests: None,
        });
        let generator = self.generator.iter().map(|t| Usage {
            owner: GENERATOR.to_owned(),
            name: format!("load thread {}", t.tid),
            utilization: t.busy,
            by_mode: modes(t.user, t.system),
            run_queue_wait: t.wait,
            requests: sight
                .threads
                .iter()
                .find(|cost| cost.tid == t.tid)
                .map(|cost| cost.completed),
        });
        let tasks = self.tasks.iter().filter(|t| t.busy >= WORTH_SHOWING);
        let tasks = tasks.map(|t| Usage {
            owner: t.owner.clone(),
            name: t.usage_name(),
            utilization: t.busy,
            by_mode: modes(t.user, t.system),
            run_queue_wait: t.wait,
            requests: requests_of(t, sight.targets),
        });
        cores.chain(generator).chain(tasks).collect()
    }
}

fn modes(user: f64, system: f64) -> BTreeMap<String, f64> {
    BTreeMap::from([("user".to_owned(), user), ("system".to_owned(), system)])
}

/// Requests by worker are keyed by the worker's name or by its number.
fn requests_of(task: &TaskUse, targets: &[TargetRecord]) -> Option<u64> {
    let target = targets.iter().find(|t| t.name == task.owner)?;
    let names = [task.name.clone(), task.tid.to_string(), task.usage_name()];
    names
        .iter()
        .find_map(|name| target.requests_by_worker.get(name))
        .copied()
}

/// The measured part of a load, or the window in which traffic was watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub from: Nanos,
    pub to: Nanos,
}

impl Window {
    pub(crate) fn of(outcome: &LoadOutcome) -> Self {
        Self {
            from: outcome.measured_from,
            to: outcome.measured_to,
        }
    }

    pub(crate) fn spanning(span: TimeSpan) -> Self {
        Self {
            from: span.from,
            to: span.to,
        }
    }

    /// Whether a sample lies in it.
    pub(crate) fn holds(&self, at: u64) -> bool {
        (self.from.0..=self.to.0).contains(&at)
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.to.since(self.from).as_secs_f64()
    }

    /// A counter of seconds as a share of the window.
    pub(crate) fn share(&self, series: &Series) -> Option<f64> {
        let first = Nanos((*series.at_ns.first()?).max(self.from.0));
        let last = Nanos((*series.at_ns.last()?).min(self.to.0));
        let covered = last.since(first).as_secs_f64();
        let grown = series.delta(first, last)?.max(0.0);
        let whole = self.seconds();
        if covered >= COVERED * whole {
            share(grown, covered)
        } else {
            share(grown, whole)
        }
    }

    /// Growth of all series of a counter; `None` when none was sampled twice.
    pub(crate) fn grown(&self, all: &[Series], signal: &str) -> Option<f64> {
        self.part(all, signal, self.from, self.to)
    }

    /// The same over the second half of the window.
    pub(crate) fn grown_in_second_half(&self, all: &[Series], signal: &str) -> Option<f64> {
        let middle = self.from + Nanos(self.to.since(self.from).0 / 2);
        self.part(all, signal, middle, self.to)
    }

    fn part(&self, all: &[Series], signal: &str, from: Nanos, to: Nanos) -> Option<f64> {
        let grown = named(all, signal).filter_map(|s| s.delta(from, to));
        grown.fold(None, |sum, g| Some(sum.unwrap_or(0.0) + g.max(0.0)))
    }
}

/// The series of a signal.
pub(crate) fn named<'a>(all: &'a [Series], signal: &'a str) -> impl Iterator<Item = &'a Series> {
    #[cfg(test)]
    asked::note(signal);
    all.iter().filter(move |s| s.signal == signal)
}

/// The signals that this thread asked for.
#[cfg(test)]
pub(crate) mod asked {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    thread_local! {
        static ASKED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    pub(super) fn note(signal: &str) {
        ASKED.with_borrow_mut(|asked| asked.insert(signal.to_owned()));
    }

    /// All since the last time.
    pub(crate) fn take() -> BTreeSet<String> {
        ASKED.take()
    }
}

fn cores(all: &[Series], window: &Window) -> BTreeMap<u32, CoreUse> {
    let mut cores: BTreeMap<u32, CoreUse> = BTreeMap::new();
    for mode in BUSY_MODES.iter().chain(&IDLE_MODES) {
        for series in named(all, &format!("cpu.{mode}_s")) {
            let core = series.label("core").and_then(|c| c.parse().ok());
            if let (Some(core), Some(share)) = (core, window.share(series)) {
                let used = cores.entry(core).or_default();
                used.by_mode.insert((*mode).to_owned(), share);
            }
        }
    }
    cores.values_mut().for_each(normalise);
    cores
}

/// The kernel's ticks and our clock disagree by a few per cent over a short window; the modes of a core
/// sum to one by definition.
fn normalise(core: &mut CoreUse) {
    let total: f64 = core.by_mode.values().sum();
    for value in core.by_mode.values_mut() {
        *value = share(*value, total).unwrap_or(0.0);
    }
    core.busy = BUSY_MODES.iter().map(|m| core.mode(m)).sum();
}

type TaskKey = (String, i32, i32);

fn key(series: &Series) -> Option<TaskKey> {
    let number = |label: &str| series.label(label)?.parse().ok();
    let pid: i32 = number("pid")?;
    Some((
        series.label("target")?.to_owned(),
        pid,
        number("tid").unwrap_or(pid),
    ))
}

/// Shares by task and signal, with the task's name.
#[derive(Default)]
struct TaskSignals {
    name: String,
    shares: BTreeMap<&'static str, f64>,
}

const THREAD_SIGNALS: [&str; 4] = [
    "thread.run_s",
    "thread.cpu_user_s",
    "thread.cpu_system_s",
    "thread.run_queue_wait_s",
];
/// A process' time is counted in ticks of 10 ms, its threads' in nanoseconds; below this share of a core
/// their difference says nothing.
const TICK_NOISE: f64 = 0.05;
/// Role of processes that came and went between two samples.
const SHORT_LIVED: &str = "processes that it started and that ended";
/// Fewer samples of what was watched do not weigh what was not.
const FEWEST_SAMPLES: u64 = 20;
const PROCESS_SIGNALS: [&str; 2] = ["process.cpu_user_s", "process.cpu_system_s"];

fn signals(
    all: &[Series],
    names: &[&'static str],
    window: &Window,
) -> BTreeMap<TaskKey, TaskSignals> {
    let mut found: BTreeMap<TaskKey, TaskSignals> = BTreeMap::new();
    for &signal in names {
        for series in named(all, signal) {
            if let (Some(key), Some(share)) = (key(series), window.share(series)) {
                let task = found.entry(key).or_default();
                task.name = series.label("name").unwrap_or_default().to_owned();
                task.shares.insert(signal, share);
            }
        }
    }
    found
}

fn tasks(sight: &Sight<'_>, window: &Window) -> Vec<TaskUse> {
    let threads = signals(sight.series, &THREAD_SIGNALS, window);
    let threads: Vec<TaskUse> = threads
        .iter()
        .map(|(key, found)| thread_use(key, found, sight.targets))
        .collect();
    let rests: Vec<TaskUse> = signals(sight.series, &PROCESS_SIGNALS, window)
        .iter()
        .filter_map(|(key, found)| beside_threads(process_use(key, found, sight), &threads))
        .collect();
    let children = ended_children(sight, window);
    threads.into_iter().chain(rests).chain(children).collect()
}

/// What processes used that a target started, that ended, and that nobody watched because they were too short (a
/// program for each request): the kernel adds it to whoever waited for them. What was watched until its end is in
/// there as well, with its whole life, and is taken off again. One entry for each target, in the name of who waited
/// for most.
fn ended_children(sight: &Sight<'_>, window: &Window) -> Vec<TaskUse> {
    const CHILDREN: [&str; 2] = ["process.children_user_s", "process.children_system_s"];
    let waited = signals(sight.series, &CHILDREN, window);
    let seconds = window.seconds();
    sight
        .targets
        .iter()
        .filter_map(|target| {
            let own = waited
                .iter()
                .filter(|((owner, ..), _)| *owner == target.name);
            let share_of = |found: &TaskSignals| found.shares.values().sum::<f64>();
            let all: f64 = own.clone().map(|(_, found)| share_of(found)).sum();
            let (key, most) = own.max_by(|a, b| share_of(a.1).total_cmp(&share_of(b.1)))?;
            let watched: f64 = (PROCESS_SIGNALS.iter().chain(&CHILDREN))
                .flat_map(|signal| named(sight.series, signal))
                .filter(|s| s.label("target") == Some(target.name.as_str()))
                .filter_map(|s| Some((Nanos(*s.at_ns.last()?), s.values.last()?)))
                .filter(|(at, _)| (window.from..window.to).contains(at))
                .map(|(_, used_s)| used_s)
                .sum();
            let busy = all - watched / seconds;
            let of = idle_task(key, &most.name, sight.targets);
            let user = share(
                most.shares.get(CHILDREN[0]).copied().unwrap_or(0.0),
                share_of(most),
            );
            (busy > TICK_NOISE)
                .then(|| short_lived(of, busy, user.unwrap_or(0.0), "/proc/PID/stat"))
        })
        .collect()
}

/// Processes that a target started and that ended, however many there were, one after the other or at once; `user` of
/// their time in user mode.
fn short_lived(of: TaskUse, busy: f64, user: f64, source: &'static str) -> TaskUse {
    TaskUse {
        busy,
        user: busy * user,
        system: busy * (1.0 - user),
        wait: None,
        role: SHORT_LIVED.to_owned(),
        threads: f64::INFINITY,
        source,
        ..of
    }
}

/// What a process used beyond its threads that were seen: all of it where threads cannot be read, and the
/// work of threads that came and went between two samples (a server with a thread per request).
fn beside_threads(process: TaskUse, threads: &[TaskUse]) -> Option<TaskUse> {
    // Hosts count their processes each from 1.
    let is_own = |t: &&TaskUse| t.pid == process.pid && t.owner == process.owner;
    let mut own = threads.iter().filter(is_own).peekable();
    if own.peek().is_none() {
        return Some(process);
    }
    let seen: f64 = own.map(|t| t.busy).sum();
    let rest = process.busy - seen;
    (rest > TICK_NOISE).then(|| TaskUse {
        busy: rest,
        user: process.user * rest / process.busy,
        system: process.system * rest / process.busy,
        role: "short-lived threads".to_owned(),
        ..process
    })
}

fn thread_use(key: &TaskKey, found: &TaskSignals, targets: &[TargetRecord]) -> TaskUse {
    let get = |signal: &str| found.shares.get(signal).copied();
    let (user, system) = (
        get("thread.cpu_user_s").unwrap_or(0.0),
        get("thread.cpu_system_s").unwrap_or(0.0),
    );
    // schedstat counts nanoseconds, stat counts ticks of 10 ms: the exact one where there is one.
    let run = get("thread.run_s");
    TaskUse {
        busy: run.unwrap_or(user + system),
        user,
        system,
        wait: get("thread.run_queue_wait_s"),
        source: match run {
            Some(_) => "/proc/PID/task/TID/schedstat",
            None => "/proc/PID/task/TID/stat",
        },
        ..idle_task(key, &found.name, targets)
    }
}

fn process_use(key: &TaskKey, found: &TaskSignals, sight: &Sight<'_>) -> TaskUse {
    let get = |signal: &str| found.shares.get(signal).copied().unwrap_or(0.0);
    let (from, to) = (sight.window.from, sight.window.to);
    let mut threads = named(sight.series, "process.threads");
    let threads = threads.find(|s| {
        let is_its = s.label("target").is_none_or(|target| target == key.0);
        is_its && s.label("pid") == Some(&key.1.to_string())
    });
    let (user, system) = (get("process.cpu_user_s"), get("process.cpu_system_s"));
    TaskUse {
        busy: user + system,
        user,
        system,
        threads: threads.and_then(|s| s.max(from, to)).unwrap_or(1.0),
        source: "/proc/PID/stat",
        ..idle_task(key, &found.name, sight.targets)
    }
}

fn idle_task((owner, pid, tid): &TaskKey, name: &str, targets: &[TargetRecord]) -> TaskUse {
    let target = targets.iter().find(|t| t.name == *owner);
    let process = target.and_then(|t| t.processes.iter().find(|p| p.pid == *pid));
    let cpus = match process {
        Some(process) if !process.cpus.is_empty() => process.cpus.clone(),
        _ => target.map(inherited).unwrap_or_default(),
    };
    TaskUse {
        owner: owner.clone(),
        pid: *pid,
        tid: *tid,
        name: match process {
            _ if !name.is_empty() => name.to_owned(),
            Some(process) => process.name.clone(),
            None => owner.clone(),
        },
        busy: 0.0,
        user: 0.0,
        system: 0.0,
        wait: None,
        cpus,
        elsewhere: target.and_then(|t| t.elsewhere().map(str::to_owned)),
        role: process.map(|p| p.role.clone()).unwrap_or_default(),
        threads: 1.0,
        source: "",
    }
}

/// CPUs of a process that nobody had seen before the load: a child has those of its parent, so where all that were seen
/// have the same, it has them too.
fn inherited(target: &TargetRecord) -> Vec<u32> {
    let Some((first, more)) = target.processes.split_first() else {
        return target.cpus.clone();
    };
    let same = target.cpus.is_empty() && more.iter().all(|p| p.cpus == first.cpus);
    if same { &first.cpus } else { &target.cpus }.clone()
}

fn load_threads(sight: &Sight<'_>, window: &Window) -> Vec<LoadThreadUse> {
    let waits = signals(sight.series, &["thread.run_queue_wait_s"], window);
    let wait_of = |tid: i32| {
        waits
            .iter()
            .find(|((owner, _, found), _)| owner == GENERATOR && *found == tid)
            .and_then(|(_, task)| task.shares.values().next().copied())
    };
    sight
        .threads
        .iter()
        .map(|cost| {
            let of_wall = |ns: u64| share(ns as f64, cost.wall_ns as f64).unwrap_or(0.0);
            LoadThreadUse {
                tid: cost.tid,
                cpu: cost.cpu,
                cpus: match cost.cpu {
                    Some(core) => vec![core],
                    None => cost.cpus.clone(),
                },
                busy: cost.utilization(),
                user: of_wall(cost.cpu_user_ns),
                system: of_wall(cost.cpu_system_ns),
                spin: of_wall(cost.spin_ns),
                wait: wait_of(cost.tid),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_is_confined_to_other_cores_took_nothing_of_the_servers() {
        let core = |busy| CoreUse {
            busy,
            ..CoreUse::default()
        };
        let observed = |cpu: Option<u32>, cpus: &[u32]| Observed {
            cores: BTreeMap::from([(0, core(0.9)), (1, core(0.4))]),
            generator: vec![LoadThreadUse {
                tid: 901,
                cpu,
                cpus: cpus.to_vec(),
                busy: 0.4,
                user: 0.1,
                system: 0.3,
                spin: 0.0,
                wait: None,
            }],
            ..Observed::default()
        };
        for (cpu, cpus, foreign, generator) in [
            // It may have been anywhere.
            (None, &[][..], 0.5, 0.0),
            (Some(1), &[1], 0.9, 0.0),
            // Somebody's `taskset`.
            (None, &[1], 0.9, 0.0),
            (None, &[0], 0.5, 0.4),
            (None, &[0, 1], 0.5, 0.0),
        ] {
            let others = observed(cpu, cpus).others_on(&[0]).unwrap();
            let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(
                close(others.foreign, foreign),
                "{cpu:?} {cpus:?}: {others:?}"
            );
            assert!(
                close(others.generator, generator),
                "{cpu:?} {cpus:?}: {others:?}"
            );
        }
    }
}
