//! A sampling profiler for servers that were built without frame pointers.
//!
//! In the flow: [`Profiler::start`] before the load, [`Profiler::stop`] after it; the stacks come back folded.
//! While the load runs the kernel copies registers, its own call chain and 8 KiB of user stack into a ring per CPU,
//! and one thread moves them out whenever a ring is half full. Following the stacks and naming the functions is
//! left until the load is over, so that a timing pass is not disturbed; raw samples are bounded to 64 MiB.
//!
//! **Events belong to CPUs, not to threads**, and the reader drops what is nobody's. An event of a thread must be
//! installed and removed at each of its context switches, which a web server has by the ten thousand a second; an
//! event of a CPU costs a process nothing until it is sampled. It sees new threads and children without a race, and
//! takes one descriptor a CPU for any number of threads. Inheriting to children would not change that: the kernel
//! maps the ring of an inherited event only if the event is bound to one CPU (it cannot write from several CPUs
//! into one ring), so there would be threads x CPUs of them. That is what is left for the unprivileged, where
//! `kernel.perf_event_paranoid` refuses events of whole CPUs; the profile is then the same but for the kernel's
//! frames.
//!
//! [`ProfileKind::OffCpu`] takes the stack at each context switch and weighs it with the time until the thread is
//! back on a CPU. With `hz` 0 every switch is taken; otherwise the kernel takes every k-th, with k adapted so that
//! about `hz` stacks a second and CPU are taken, and each counts k times.
//!
//! The surprise: no sample is lost silently and none is thrown away for being unreadable. A stack that could not be
//! followed to its root still has its leaf, and [`Profile::unwound`] says how many were whole.

mod binary;
mod collect;
mod event;
mod fold;
mod jit;
mod kernel;
mod maps;
mod owners;
mod ring;
mod waits;
mod wire;

use crate::probe::ProbeTarget;
use crate::turns::Located;
use collect::{Collected, Ending};
use event::Events;
use fold::Folder;
pub use jit::CodeNames;
use kernel::KernelSymbols;
use maps::Files;
use owners::Owners;
pub(crate) use owners::threads;
use record::Unavailable;
use record::{ProbeCost, Profile, ProfileKind};
use std::sync::Arc;
use std::thread::JoinHandle;
use waits::Waits;
use wire::Record;

/// CPU time that a sample takes from what it interrupts, ns: 8 KiB of stack copied on current x86-64.
pub const SAMPLE_NS: f64 = 13_000.0;
/// The same of a record without a stack, ns: a switch of `perf bench sched pipe` on one core of current x86-64, which
/// writes two, takes a microsecond more with them.
const RECORD_NS: f64 = 500.0;

/// Share of a target's CPU that sampling it may take.
const BUDGET: f64 = 0.01;

/// The highest rate of samples within the budget, per second of CPU time.
pub fn most_hz() -> u32 {
    (BUDGET * 1e9 / SAMPLE_NS) as u32
}

/// That fewer samples are taken than asked.
fn lowered(asked: u32, hz: u32) -> Unavailable {
    Unavailable {
        what: format!("profile at {asked} Hz"),
        reason: format!(
            "it would take {:.1} % of the target's CPU, more than {:.0} %: {hz} Hz are taken",
            f64::from(asked) * SAMPLE_NS / 1e7,
            BUDGET * 1e2
        ),
        remedy: "a longer profile has as many samples".to_owned(),
    }
}

/// What is to be profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileConfig {
    /// Whose stacks.
    pub targets: Vec<ProbeTarget>,
    /// While on a CPU, or off it.
    pub kind: ProfileKind,
    /// On-CPU: samples per second and CPU. Off-CPU: switches that are taken per second and CPU, 0 for all.
    pub hz: u32,
}

/// A profile being taken. Dropping it ends the reader without a result.
#[derive(Debug)]
pub struct Profiler {
    config: ProfileConfig,
    owners: Owners,
    files: Files,
    ending: Arc<Ending>,
    reader: Option<JoinHandle<(Collected, Events)>>,
    unavailable: Vec<Unavailable>,
}

/// Samples that were taken and are not followed yet.
#[derive(Debug)]
pub struct EndedProfile {
    profiler: Profiler,
    collected: Collected,
    /// When the sampling ended, ns.
    end: u64,
}

impl EndedProfile {
    /// CPU time that the kernel took for its samples and other records, ns; estimated by their number.
    pub fn taken_ns(&self) -> u64 {
        let sampled = self.collected.sampled;
        let others = self.collected.events - sampled;
        (sampled as f64 * SAMPLE_NS + others as f64 * RECORD_NS) as u64
    }

    /// Follows the stacks and names them.
    pub fn fold(self) -> Profiled {
        self.fold_with(&CodeNames::default())
    }

    /// The same, with names that runtimes were asked for.
    pub fn fold_with(self, names: &CodeNames) -> Profiled {
        self.profiler.fold(self.collected, self.end, names)
    }
}

/// A profile, what it lacks and what it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiled {
    /// Folded stacks.
    pub profile: Profile,
    /// What could not be seen.
    pub unavailable: Vec<Unavailable>,
    /// What it took of the host's CPUs.
    pub cost: ProbeCost,
    /// When and of which thread each stack was taken, in no order.
    pub located: Vec<Located>,
}

/// Name of a profile of this kind in messages and costs.
fn name(kind: ProfileKind) -> &'static str {
    match kind {
        ProfileKind::OnCpu => "profile on CPU",
        ProfileKind::OffCpu => "profile off CPU",
        ProfileKind::Tasks => "profile of tasks",
    }
}

impl Profiler {
    /// Opens the events, notes what the targets have mapped, and starts to sample.
    ///
    /// # Errors
    /// Why there can be no profile: the kernel refuses perf_event_open(2), none of the processes exists, or the reader
    /// could not be started.
    pub fn start(config: &ProfileConfig) -> Result<Self, Unavailable> {
        let what = || name(config.kind).to_owned();
        let mut config = config.clone();
        let mut too_dear = None;
        if config.kind == ProfileKind::OnCpu && config.hz > most_hz() {
            too_dear = Some(lowered(config.hz, most_hz()));
            config.hz = most_hz();
        }
        let mut files = Files::default();
        let owners = Owners::find(&config.targets, &mut files).map_err(|error| Unavailable {
            what: what(),
            reason: error.to_string(),
            remedy: error.remedy().to_owned(),
        })?;
        let pids = owners.pids();
        if pids.is_empty() {
            return Err(Unavailable {
                what: what(),
                reason: "none of the processes to be profiled exists".to_owned(),
                remedy: "name processes that run, in the process namespace of prony".to_owned(),
            });
        }
        let threads: Vec<i32> = pids.iter().flat_map(|&pid| owners::threads(pid)).collect();
        let remedy = "raise the limits of processes and files (ulimit -u, -n), or free some memory";
        let unread = |cause: std::io::Error| Unavailable {
            what: what(),
            reason: format!("starting the thread that reads the samples: {cause}"),
            remedy: remedy.to_owned(),
        };
        let ending = Ending::new().map_err(unread)?;
        let events = event::open(config.kind, config.hz, &threads)?;
        event::enable(&events).map_err(|cause| Unavailable {
            what: what(),
            reason: format!("starting the events: {cause}"),
            remedy: String::new(),
        })?;
        let mut profiler = Self {
            unavailable: missing(&config, &owners, &events)
                .into_iter()
                .chain(too_dear)
                .collect(),
            config,
            owners,
            files,
            ending: Arc::new(ending),
            reader: None,
        };
        profiler.start_reader(events).map_err(unread)?;
        Ok(profiler)
    }

    fn start_reader(&mut self, mut events: Events) -> std::io::Result<()> {
        let ending = Arc::clone(&self.ending);
        let foreign = self.owners.foreign().clone();
        let reader = std::thread::Builder::new().name("profile".to_owned());
        self.reader = Some(reader.spawn(move || {
            let collected = collect::read_until(&ending, &mut events, &foreign);
            (collected, events)
        })?);
        Ok(())
    }

    /// Ends the sampling, follows the stacks and names them.
    pub fn stop(self) -> Profiled {
        self.end().fold()
    }

    /// Ends the sampling. To follow and name the stacks takes more CPU than to sample them, and can wait.
    pub fn end(mut self) -> EndedProfile {
        let end = linux::clock::monotonic_ns();
        self.ending.end();
        let collected = match self.reader.take().map(JoinHandle::join) {
            Some(Ok((collected, _events))) => collected,
            Some(Err(_)) | None => {
                self.lacks(
                    "samples",
                    "the reader ended early",
                    "report this as a bug of prony",
                );
                Collected::default()
            }
        };
        EndedProfile {
            profiler: self,
            collected,
            end,
        }
    }

    fn fold(mut self, mut collected: Collected, end: u64, names: &CodeNames) -> Profiled {
        let sampled = collected.samples.iter();
        let sampled = sampled
            .filter_map(|kept| wire::sample_ids(&kept.record))
            .collect();
        let tasks = std::mem::take(&mut collected.tasks);
        self.owners.catch_up(tasks, &sampled);
        if collected.stride > 1 {
            let reason = format!(
                "only one sample in {} was kept, to bound memory",
                collected.stride
            );
            self.lacks(
                "samples",
                &reason,
                "profile for a shorter time or at a lower rate",
            );
        }
        let kernel = KernelSymbols::since(end).unwrap_or_else(|unavailable| {
            self.unavailable.push(unavailable);
            Arc::default()
        });
        let targets = self.config.targets.iter();
        let targets = targets.map(|target| target.target.clone()).collect();
        let files = std::mem::take(&mut self.files);
        let mut folder = Folder::new(
            self.config.kind,
            self.config.hz,
            &self.owners,
            targets,
            (files, names),
            kernel,
        );
        let waits = Waits::new(std::mem::take(&mut collected.switches), end);
        for kept in &collected.samples {
            let Some(Record::Sample(sample)) = wire::decode(&kept.record) else {
                continue;
            };
            if self.owners.target(sample.pid).is_none() {
                continue;
            }
            match self.config.kind {
                ProfileKind::OnCpu | ProfileKind::Tasks => {
                    folder.add(&sample, kept.scale, kept.scale, None);
                }
                ProfileKind::OffCpu => {
                    let ended = self.owners.ended(sample.tid);
                    if let Some(wait) = waits.after(sample.tid, sample.time, ended) {
                        let count = kept.scale.saturating_mul(sample.period.max(1));
                        let state = folder.wait_state(&sample, wait.preempted);
                        folder.add(&sample, count, count.saturating_mul(wait.ns), state);
                    }
                }
            }
        }
        let (profile, located) = folder.finish(collected.lost);
        Profiled {
            profile,
            cost: self.cost(&collected),
            unavailable: std::mem::take(&mut self.unavailable),
            located,
        }
    }

    fn cost(&self, collected: &Collected) -> ProbeCost {
        let expected = f64::from(self.config.hz) * SAMPLE_NS / 1e9;
        ProbeCost {
            probe: name(self.config.kind).to_owned(),
            events: collected.events,
            // Off the CPU the rate of events is the server's, unless it is bounded.
            expected_share: (self.config.hz > 0).then_some(expected),
            measured_ns: Some(collected.cpu_ns),
        }
    }

    fn lacks(&mut self, what: &str, reason: &str, remedy: &str) {
        self.unavailable.push(Unavailable {
            what: format!("{}: {what}", name(self.config.kind)),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.ending.end();
    }
}

/// What is known to be missing from the beginning.
fn missing(config: &ProfileConfig, owners: &Owners, events: &Events) -> Vec<Unavailable> {
    let mut unavailable = Vec::new();
    let pids = config.targets.iter().flat_map(|target| &target.pids);
    for pid in pids.filter(|&&pid| owners.target(pid).is_none()) {
        unavailable.push(Unavailable {
            what: format!("{} of process {pid}", name(config.kind)),
            reason: "there is no such process".to_owned(),
            remedy: String::new(),
        });
    }
    if events.user_only {
        unavailable.push(Unavailable {
            what: format!("{}: kernel frames", name(config.kind)),
            reason: "kernel.perf_event_paranoid reserves them for the privileged".to_owned(),
            remedy:
                "run prony as root, or give it CAP_PERFMON, or set kernel.perf_event_paranoid to 1"
                    .to_owned(),
        });
    }
    unavailable
}
