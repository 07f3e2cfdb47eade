//! The thread that looks, and what becomes of its looks.
//!
//! In the flow: [`TaskReader::start`] before the load, [`TaskReader::end`] after it; names are looked up when all is
//! over ([`EndedTasks::fold`]). The surprise: the pause between two looks is drawn at random about its mean. A server
//! that stalls every so many milliseconds would else be looked at in the same state each time.

use super::TaskLook;
use super::look::{Doing, Reader, Seen};
use super::program::{Program, ProgramError};
use crate::probe::{ProbeTarget, proc};
use linux::Root;
use record::{Frame, ProbeCost, Profile, ProfileKind, Stack, Unavailable};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two looks at least, ns: what is more looks the same.
const SHORTEST_PAUSE_NS: u64 = 4_000_000;
/// Time between two looks at most, ns: fewer tell nothing of a short window.
const LONGEST_PAUSE_NS: u64 = 250_000_000;
/// Different stacks that are kept; what comes after them is told by its root alone.
const MOST_STACKS: usize = 1 << 15;
/// Processes of a target that are read.
const MOST_PROCESSES: usize = 16;

/// Whose goroutines are read, and what that may take.
#[derive(Clone, Debug)]
pub struct TaskConfig {
    pub targets: Vec<ProbeTarget>,
    /// Share of one core that the reader may take.
    pub share: f64,
}

/// Goroutines being looked at. Dropping it ends the thread without a result.
#[derive(Debug)]
pub struct TaskReader {
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<Collected>>,
    targets: Vec<String>,
    unavailable: Vec<Unavailable>,
    share: f64,
}

/// Looks that have been taken and are not named yet.
#[derive(Debug)]
pub struct EndedTasks {
    collected: Collected,
    targets: Vec<String>,
    unavailable: Vec<Unavailable>,
    share: f64,
}

/// What the looks came to.
#[derive(Debug)]
pub struct Tasks {
    /// Stacks by what their goroutines did ([`Stack::thread`]), weighted by how often they were seen.
    pub profile: Profile,
    pub looks: Vec<TaskLook>,
    pub unavailable: Vec<Unavailable>,
    pub cost: ProbeCost,
}

/// A process that is read.
#[derive(Debug)]
struct Process {
    target: usize,
    program: Program,
    reader: Reader,
}

/// A stack before it has names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Raw {
    process: usize,
    doing: Doing,
    start_pc: u64,
    pcs: Vec<u64>,
}

/// What one look saw: when, the target, stacks with their numbers.
type Look = (u64, usize, Vec<(u32, u32)>);

#[derive(Debug, Default)]
struct Collected {
    processes: Vec<Process>,
    stacks: Vec<Raw>,
    /// By time.
    looks: Vec<Look>,
    seen: u64,
    cpu_ns: u64,
    failed: Option<String>,
}

impl TaskReader {
    /// Finds the Go programs among the targets and begins to look. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(config: &TaskConfig) -> Result<Option<Self>, Unavailable> {
        let members = proc::members(&Root::default(), &config.targets).unwrap_or_default();
        let mut processes: Vec<Process> = Vec::new();
        let mut unavailable = Vec::new();
        for (pid, target) in members {
            let name = &config.targets[target].target;
            if processes.iter().filter(|p| p.target == target).count() >= MOST_PROCESSES {
                continue;
            }
            let mut reader = Reader::default();
            let found = Program::of(pid).and_then(|program| {
                reader.check(&program)?;
                Ok(program)
            });
            match found {
                Ok(program) => processes.push(Process {
                    target,
                    program,
                    reader,
                }),
                // What cannot be opened may be any program: that it is none of Go is not known.
                Err(ProgramError::NotGo | ProgramError::Unreadable(_)) => {}
                Err(error) => unavailable.push(Unavailable {
                    what: format!("what the goroutines of {name} wait for"),
                    reason: format!("process {pid}: {error}"),
                    remedy: error.remedy().to_owned(),
                }),
            }
        }
        if processes.is_empty() && unavailable.is_empty() {
            return Ok(None);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let share = config.share;
        let mut this = Self {
            ended: Arc::clone(&ended),
            reader: None,
            targets: config.targets.iter().map(|t| t.target.clone()).collect(),
            unavailable,
            share,
        };
        if !processes.is_empty() {
            let thread = std::thread::Builder::new().name("goroutines".to_owned());
            let spawned = thread.spawn(move || look_until(&ended, processes, share));
            this.reader = Some(spawned.map_err(|cause| Unavailable {
                what: "what goroutines wait for".to_owned(),
                reason: format!("starting the thread that looks at them: {cause}"),
                remedy: "raise the limit of processes (ulimit -u) or free some memory".to_owned(),
            })?);
        }
        Ok(Some(this))
    }

    /// Ends the looking.
    pub fn end(mut self) -> EndedTasks {
        self.ended.store(true, Ordering::Release);
        let collected = self.reader.take().and_then(|reader| reader.join().ok());
        EndedTasks {
            collected: collected.unwrap_or_default(),
            targets: std::mem::take(&mut self.targets),
            unavailable: std::mem::take(&mut self.unavailable),
            share: self.share,
        }
    }
}

impl Drop for TaskReader {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

/// Looks until `ended`, as often as the share of a core allows.
fn look_until(ended: &AtomicBool, processes: Vec<Process>, share: f64) -> Collected {
    let mut collected = Collected {
        processes,
        ..Collected::default()
    };
    let mut known: HashMap<Raw, u32> = HashMap::new();
    // Any odd number: only that the pauses differ matters.
    let mut random = linux::clock::monotonic_ns() | 1;
    let mut turn = 0;
    while !ended.load(Ordering::Acquire) && collected.failed.is_none() {
        let before = linux::clock::thread_cpu_ns();
        collected.look(&mut known, turn);
        turn += 1;
        let took = (linux::clock::thread_cpu_ns() - before) as f64;
        let mean = ((took / share.max(1e-6)) as u64).clamp(SHORTEST_PAUSE_NS, LONGEST_PAUSE_NS);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        pause(mean / 2 + random % mean, ended);
    }
    collected.cpu_ns = linux::clock::thread_cpu_ns();
    collected
}

/// Sleeps, but never long past the end.
fn pause(ns: u64, ended: &AtomicBool) {
    const STEP_NS: u64 = 20_000_000;
    let mut left = ns;
    while left > 0 && !ended.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_nanos(left.min(STEP_NS)));
        left = left.saturating_sub(STEP_NS);
    }
}

impl Collected {
    fn look(&mut self, known: &mut HashMap<Raw, u32>, turn: u64) {
        let mut by_target: BTreeMap<usize, (u64, Vec<(u32, u32)>)> = BTreeMap::new();
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            let at_ns = linux::clock::monotonic_ns();
            let look = match process.reader.look(&process.program, turn) {
                Ok(look) => look,
                Err(cause) => {
                    self.failed = Some(format!("process {}: {cause}", process.program.pid));
                    return;
                }
            };
            let target = process.target;
            let (at, tasks) = by_target.entry(target).or_default();
            // The middle of the looks at a target's processes.
            *at = if *at == 0 { at_ns } else { *at };
            for seen in look.seen {
                let stack = self.stack(known, index, seen);
                match tasks.iter_mut().find(|task| task.0 == stack) {
                    Some(task) => task.1 += look.stride,
                    None => tasks.push((stack, look.stride)),
                }
                self.seen += 1;
            }
        }
        let looks = by_target.into_iter();
        self.looks
            .extend(looks.map(|(target, (at, tasks))| (at, target, tasks)));
    }

    fn stack(&mut self, known: &mut HashMap<Raw, u32>, process: usize, seen: Seen) -> u32 {
        let mut raw = Raw {
            process,
            doing: seen.doing,
            start_pc: seen.start_pc,
            pcs: seen.pcs,
        };
        if known.len() >= MOST_STACKS && !known.contains_key(&raw) {
            raw.pcs.clear();
        }
        let next = self.stacks.len() as u32;
        *known.entry(raw).or_insert_with_key(|raw| {
            self.stacks.push(raw.clone());
            next
        })
    }
}

impl EndedTasks {
    /// CPU time that the looks took, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.collected.cpu_ns
    }

    /// Names the functions and puts equal stacks together.
    pub fn fold(mut self) -> Tasks {
        let mut folder = Folder::default();
        let raws = std::mem::take(&mut self.collected.stacks);
        let stacks: Vec<u32> = raws.iter().map(|raw| self.name(raw, &mut folder)).collect();
        let mut looks = Vec::with_capacity(self.collected.looks.len());
        for (at_ns, target, tasks) in &self.collected.looks {
            let mut all: BTreeMap<u32, u32> = BTreeMap::new();
            let mut ready = 0;
            for &(raw, count) in tasks {
                let stack = stacks[raw as usize];
                *all.entry(stack).or_default() += count;
                let of = &mut folder.profile.stacks[stack as usize];
                of.weight += u64::from(count);
                if record::stands_ready(&of.thread) {
                    ready += count;
                }
            }
            looks.push(TaskLook {
                at_ns: *at_ns,
                target: self.targets[*target].clone(),
                tasks: all.into_iter().collect(),
                ready,
            });
        }
        let mut profile = folder.profile;
        profile.samples = profile.stacks.iter().map(|stack| stack.weight).sum();
        profile.unwound = profile.samples;
        profile.lost = self.collected.processes.iter().map(|p| p.reader.torn).sum();
        if let Some(failed) = self.collected.failed.take() {
            self.unavailable.push(Unavailable {
                what: "what goroutines wait for, until the end of the window".to_owned(),
                reason: failed,
                remedy: "run prony as root, and look at a process that runs on".to_owned(),
            });
        }
        Tasks {
            profile,
            looks,
            cost: ProbeCost {
                probe: "looks at goroutines".to_owned(),
                events: self.collected.looks.len() as u64,
                expected_share: Some(self.share),
                measured_ns: Some(self.collected.cpu_ns),
            },
            unavailable: self.unavailable,
        }
    }

    fn name(&self, raw: &Raw, folder: &mut Folder) -> u32 {
        let process = &self.collected.processes[raw.process];
        let program = &process.program;
        let symbol = |address: u64| {
            let function = program.function(address);
            function.map_or_else(
                || format!("{}+{address:#x}", program.module),
                |f| f.1.to_owned(),
            )
        };
        let mut names: Vec<String> = Vec::new();
        for (index, &pc) in raw.pcs.iter().enumerate() {
            // The innermost address is where it goes on, the others are behind calls.
            names.push(symbol(if index == 0 { pc } else { pc - 1 }));
        }
        let root = symbol(raw.start_pc);
        while names
            .last()
            .is_some_and(|name| name.starts_with("runtime.goexit"))
        {
            names.pop();
        }
        if names.last() != Some(&root) {
            names.push(root);
        }
        names.reverse();
        let reason = |number: u8| program.reasons[usize::from(number)].clone();
        let doing = match raw.doing {
            Doing::Running => "running".to_owned(),
            Doing::Syscall => "syscall".to_owned(),
            Doing::Waiting(number) => reason(number),
            Doing::Woken(number) => format!("runnable after {}", reason(number)),
            Doing::Overslept => "runnable after sleep".to_owned(),
            Doing::Ready => "runnable".to_owned(),
        };
        folder.stack(
            &self.targets[process.target],
            program.pid,
            doing,
            &program.module,
            names,
        )
    }
}

/// Stacks and frames, each once.
struct Folder {
    profile: Profile,
    frames: HashMap<Frame, u32>,
    stacks: HashMap<(i32, String, Vec<u32>), u32>,
}

impl Default for Folder {
    fn default() -> Self {
        Self {
            profile: Profile {
                kind: ProfileKind::Tasks,
                hz: 0,
                samples: 0,
                lost: 0,
                unwound: 0,
                frames: Vec::new(),
                stacks: Vec::new(),
            },
            frames: HashMap::new(),
            stacks: HashMap::new(),
        }
    }
}

impl Folder {
    fn stack(
        &mut self,
        target: &str,
        pid: i32,
        doing: String,
        module: &str,
        names: Vec<String>,
    ) -> u32 {
        let frames: Vec<u32> = names
            .into_iter()
            .map(|name| self.frame(name, module))
            .collect();
        let next = self.profile.stacks.len() as u32;
        let key = (pid, doing.clone(), frames.clone());
        *self.stacks.entry(key).or_insert_with(|| {
            self.profile.stacks.push(Stack {
                target: target.to_owned(),
                pid,
                thread: doing,
                frames,
                weight: 0,
                state: None,
            });
            next
        })
    }

    fn frame(&mut self, symbol: String, module: &str) -> u32 {
        let frame = Frame {
            symbol,
            module: module.to_owned(),
            kernel: false,
        };
        let next = self.profile.frames.len() as u32;
        *self.frames.entry(frame).or_insert_with_key(|frame| {
            self.profile.frames.push(frame.clone());
            next
        })
    }
}
