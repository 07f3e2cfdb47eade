//! The examination of servers: who they are, how they answer one client, what they do for each request, where
//! their time goes. Everything but the timed load itself, which it prepares and follows.
//!
//! ```text
//! look (one answer) -> single_client (one client) -> discovery_load (who is behind them, and whose consumers) -> warm
//! (where a runtime compiles, with another single_client) -> the timed load -> signature -> turns, with stacks on and
//! off the CPU
//! ```
//! The surprise: upstreams can only be seen while there is traffic, so a short load comes before the timed one,
//! and its figures are thrown away.

use super::consumers::Scout;
use super::drive::Instrumentation;
use super::runtimes::{Read, Runtimes};
use super::source::Source;
use super::warm::{compiles, not_warm};
use crate::exit::Failure;
use crate::terminal::Progress;
use crate::verbs;
use monitor::goroutines::{EndedTasks, TaskConfig, TaskReader};
use monitor::probe::{ProbeConfig, ProbeTarget, Probed, Probes};
use monitor::profile::{EndedProfile, Profiled, Profiler};
use monitor::turns::{Stacks, TraceConfig, Traced, Tracer};
use monitor::{Observation, Watched};
use record::{
    Answer, Arrival, AskedRuntime, CONSUMER, Examination, LoadOutcome, LoadSpec, Nanos, ProbeCost,
    ProcessRecord, Profile, ProfileKind, Server, Signature, TargetRecord, Tier, TrialRecord,
    TrialState, Turns, Unavailable, UpstreamPeer, Warming, Watching,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use sut::discover;
use traffic::{Load, Place};

/// Samples per second of CPU time: 13 us each, a quarter of a per cent of a busy core.
pub const PROFILE_HZ: u32 = 199;
/// The same where one server is examined and nothing is compared: half a per cent of a busy core. A row of a third is
/// then known to two points after four seconds. A server that leaves its core idle gets as many in the same time (see
/// [`often`]).
const EXAMINED_HZ: u32 = 399;
/// A single client needs few answers for a median.
const SINGLE_CLIENT_REQUESTS: u64 = 200;
const SINGLE_CLIENT_TIME: Nanos = Nanos::from_millis(700);
pub(super) const SCOUT_TIME: Nanos = Nanos::from_millis(400);
/// Counts per request of so many requests are within one per cent of whole numbers.
const SIGNATURE_REQUESTS: u64 = 3_000;
/// Shares of blocked time want a window that is long against a scheduler's quantum.
const SIGNATURE_WINDOW: f64 = 0.5;
const SIGNATURE_MOST: u64 = 50_000;
pub(super) const SIGNATURE_TIME: Nanos = Nanos::from_millis(2_500);
/// What a load does first, all connections at once, is no part of the account.
const TURNS_WARMUP: Nanos = Nanos::from_millis(200);
/// The turn trace lasts as long as the slowest 1 % take to be a hundred requests, within bounds.
const TURNS_TAIL: f64 = 10_000.0;
const TURNS_LEAST: Nanos = Nanos::from_secs(2);
const TURNS_MOST: Nanos = Nanos::from_secs(5);
/// Requests a second that are followed at most: above it, one connection in two, four, ... is.
const TURNS_PER_S: f64 = 100_000.0;
/// Connections that are followed at least, where there are so many.
const TURNS_CONNECTIONS: u32 = 16;
/// Samples per second of CPU time in the turn trace, whose total no figure is taken from.
const TURNS_HZ: u32 = 499;
/// Stacks of threads that leave a CPU, per second and CPU, in the turn trace.
const TURNS_WAITS_HZ: u32 = 999;

/// CPU time that the turn trace takes of a server for each request, with its stacks, ns; measured of nginx with a
/// connection for each: 46 us a request became 68.
const TRACED_NS: f64 = 22_000.0;
/// Cores that a server uses from which on its queues grow fast with what it does.
const QUEUES_FROM: f64 = 0.6;

/// Share of a core that looking at goroutines may take in the turn trace.
const TURNS_TASKS: f64 = 0.03;

/// What an examination works with.
pub struct Examiner<'a> {
    /// The load that is asked for.
    pub spec: &'a LoadSpec,
    /// Where its loads are sent from.
    pub source: &'a mut Source,
    /// Best kind of probes that may be used.
    pub best_tier: Tier,
    /// What runtimes below the servers tell.
    pub runtimes: Runtimes,
    /// Asked often.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Where progress goes.
    pub progress: &'a mut Progress,
    /// Cores that the busiest server used in the load before the timed one; unknown until then.
    pub busy: Option<f64>,
}

/// What the passes before the timed load brought.
#[derive(Default)]
pub struct PreLoad {
    pub answer: Option<Answer>,
    /// A single client's load.
    pub single_client: Option<LoadOutcome>,
    /// The load until runtimes compiled little; `None` where none does.
    pub warming: Option<Warming>,
    /// What could not be learned.
    pub unavailable: Vec<Unavailable>,
}

/// What the passes after the timed load brought.
#[derive(Default)]
pub struct PostLoad {
    /// Counts per request; `None` when nothing was answered.
    pub signature: Option<Signature>,
    /// Where requests spent their time; `None` when it was not traced.
    pub turns: Option<Turns>,
    /// Stacks of the turns' window: off the CPU, and on it.
    pub profiles: Vec<Profile>,
    /// What could not be learned.
    pub unavailable: Vec<Unavailable>,
}

impl Examiner<'_> {
    /// The passes before the timed load. `servers` gains the upstreams that are found on this host, unless they are
    /// `known` already, as those of an experiment are.
    ///
    /// # Errors
    /// [`Failure`] when a load cannot start; what does not answer is no error here.
    pub fn pre_load(&mut self, servers: &mut Vec<Server>, known: bool) -> Result<PreLoad, Failure> {
        let mut found = PreLoad::default();
        // What one answer looks like is seen from here, wherever the load comes from.
        let look = LoadSpec {
            source: Vec::new(),
            ..self.spec.clone()
        };
        let look = Load::prepare(&look).map_err(|e| verbs::load_failure(&e))?;
        match look.look(self.spec.timeout) {
            Ok(answer) => found.answer = Some(answer),
            Err(cause) => found.unavailable.push(Unavailable {
                what: "answer".to_owned(),
                reason: format!("fetching one response: {cause}"),
                remedy: String::new(),
            }),
        }
        let single_client = LoadSpec {
            requests: Some(SINGLE_CLIENT_REQUESTS),
            duration: Some(SINGLE_CLIENT_TIME.max(self.spec.timeout.min(Nanos::SECOND))),
            ..self.spec.single_client()
        };
        // What a runtime answers that still compiles is of no use.
        if known || !compiles(servers) {
            found.single_client = Some(self.drive_and_see(&single_client, servers)?);
        }
        if !known && !(self.interrupted)() {
            let discovery_load = LoadSpec {
                warmup: Nanos(0),
                requests: None,
                duration: Some(SCOUT_TIME),
                ..self.spec.steady()
            };
            let before = CpuTimes::of(servers);
            self.drive_and_see(&discovery_load, servers)?;
            self.busy = before.busiest(servers);
            self.find_consumers(&discovery_load, servers)?;
            found.warming = self.warm(servers)?;
            if found.warming.is_some() && !(self.interrupted)() {
                found.single_client = Some(self.drive_and_see(&single_client, servers)?);
            }
        }
        Ok(found)
    }

    /// A short load during which the upstreams are looked up.
    pub(super) fn drive_and_see(
        &mut self,
        spec: &LoadSpec,
        servers: &mut Vec<Server>,
    ) -> Result<LoadOutcome, Failure> {
        let interrupted = self.interrupted;
        let driven = self.source.prepare(spec)?.drive(
            spec,
            &Instrumentation::default(),
            self.progress,
            &mut || {
                see_upstreams(servers);
                interrupted()
            },
        )?;
        Ok(driven.outcome)
    }

    /// Another short load where others are connected to the servers behind the first: some may be consumers.
    fn find_consumers(
        &mut self,
        spec: &LoadSpec,
        servers: &mut Vec<Server>,
    ) -> Result<(), Failure> {
        if (self.interrupted)() {
            return Ok(());
        }
        if let Some(scout) = Scout::start(servers, self.best_tier) {
            self.drive_and_see(spec, servers)?;
            scout.end(servers);
        }
        Ok(())
    }

    /// The passes after the timed load, which brought `rate_per_s` answers a second. A server that answers nothing but
    /// errors is counted as well: that is when people ask why.
    ///
    /// # Errors
    /// [`Failure`] when a load cannot start.
    pub fn post_load(
        &mut self,
        servers: &[Server],
        rate_per_s: Option<f64>,
    ) -> Result<PostLoad, Failure> {
        let mut brought = PostLoad::default();
        let Some(rate_per_s) = rate_per_s.filter(|_| !servers.is_empty()) else {
            return Ok(brought);
        };
        if (self.interrupted)() {
            return Ok(brought);
        }
        brought.signature = Some(self.signature(servers, rate_per_s)?);
        if !(self.interrupted)() {
            self.turns(servers, rate_per_s, &mut brought)?;
        }
        Ok(brought)
    }

    fn signature(&mut self, servers: &[Server], rate_per_s: f64) -> Result<Signature, Failure> {
        let in_window = (rate_per_s * SIGNATURE_WINDOW) as u64;
        let spec = LoadSpec {
            warmup: Nanos(0),
            requests: Some(
                in_window
                    .clamp(SIGNATURE_REQUESTS, SIGNATURE_MOST)
                    .max(20 * u64::from(self.spec.connections)),
            ),
            duration: Some(SIGNATURE_TIME),
            ..self.spec.steady()
        };
        let (probed, outcome) = self.probed(servers, &spec, true)?;
        let asked = spec.requests.unwrap_or(u64::MAX) as f64;
        let expected = asked.min(rate_per_s * SIGNATURE_TIME.0 as f64 / 1e9);
        let trapped = allocations(&probed);
        let held_up = is_held_up(outcome.requests.completed, expected) && trapped > 0;
        if !held_up || (self.interrupted)() {
            return Ok(signature(probed, Some((&spec, &outcome))));
        }
        let (mut probed, again) = self.probed(servers, &spec, false)?;
        probed.unavailable.retain(|gap| gap.what != ALLOCATOR_CALLS);
        probed.unavailable.push(Unavailable {
            what: ALLOCATOR_CALLS.to_owned(),
            reason: format!(
                "a trap for each of them ({trapped} in {:.1} s) left the server time for {} of {expected:.0} requests; \
                 they were counted again without it",
                probed.window_ns as f64 / 1e9,
                outcome.requests.completed
            ),
            remedy: "what allocating takes is in the profile".to_owned(),
        });
        Ok(signature(probed, Some((&spec, &again))))
    }

    /// A load while probes count.
    fn probed(
        &mut self,
        servers: &[Server],
        spec: &LoadSpec,
        allocator: bool,
    ) -> Result<(Probed, LoadOutcome), Failure> {
        let load = self.source.prepare(spec)?;
        let probes = Probes::arm(&ProbeConfig {
            targets: probe_targets(servers),
            best_tier: self.best_tier,
            allocator,
            ..ProbeConfig::default()
        });
        let interrupted = self.interrupted;
        let driven = load.drive(
            spec,
            &Instrumentation::default(),
            self.progress,
            &mut || interrupted(),
        );
        let probed = probes.disarm();
        Ok((probed, driven?.outcome))
    }

    /// A load of its own while turns are traced and stacks are taken.
    fn turns(
        &mut self,
        servers: &[Server],
        rate_per_s: f64,
        brought: &mut PostLoad,
    ) -> Result<(), Failure> {
        let seconds = TURNS_TAIL / rate_per_s.max(1.0);
        let spec = LoadSpec {
            warmup: TURNS_WARMUP,
            requests: None,
            duration: Some(Nanos((seconds * 1e9) as u64).clamp(TURNS_LEAST, TURNS_MOST)),
            arrival: as_full(self.spec.arrival, rate_per_s, self.busy),
            ..self.spec.steady()
        };
        let load = self.source.prepare(&spec)?;
        let one_in = followed_one_in(rate_per_s, spec.connections);
        let tracing = Tracing::start(
            servers,
            self.best_tier,
            one_in,
            often(TURNS_HZ, self.busy),
            TURNS_WAITS_HZ,
            TURNS_TASKS,
        );
        let reading = self.runtimes.read();
        let interrupted = self.interrupted;
        let driven = load.drive(
            &spec,
            &Instrumentation::default(),
            self.progress,
            &mut || interrupted(),
        );
        let mut ended = tracing.end();
        let read = self.runtimes.take(reading);
        self.runtimes.name_code();
        if let Ok(driven) = &driven {
            ended.only(&driven.outcome);
        }
        ended.bring(brought, &self.runtimes, read);
        let outcome = driven?.outcome;
        if let Some(turns) = &mut brought.turns {
            turns.load = Some(outcome);
        }
        Ok(())
    }
}

/// How often a server that uses `busy` cores is sampled per second of CPU time, where one that fills a core is sampled
/// `hz` times: as often in a second of the clock. Rows of a server that is at rest for most of the time are then known
/// as well as a full one's, and the samples take no more of its time, up to the profiler's own bound.
fn often(hz: u32, busy: Option<f64>) -> u32 {
    let times = busy.map_or(1.0, |cores| (1.0 / cores).max(1.0));
    ((f64::from(hz) * times) as u32).min(monitor::profile::most_hz().max(hz))
}

/// The arrivals with which a server that uses `busy` cores at `rate_per_s` is as full as it was, although to be traced
/// takes its time: near its capacity, queues of the trace's own making would be all that is seen.
fn as_full(arrival: Arrival, rate_per_s: f64, busy: Option<f64>) -> Arrival {
    let Some(busy) = busy.filter(|cores| *cores >= QUEUES_FROM) else {
        return arrival;
    };
    let own_ns = busy * 1e9 / rate_per_s.max(1.0);
    let part = own_ns / (own_ns + TRACED_NS);
    match arrival {
        Arrival::Closed => arrival,
        Arrival::Constant { per_s } => Arrival::Constant {
            per_s: per_s * part,
        },
        Arrival::Poisson { per_s, seed } => Arrival::Poisson {
            per_s: per_s * part,
            seed,
        },
    }
}

/// CPU time of processes at a moment, ns.
pub(super) struct CpuTimes {
    at_ns: u64,
    pub(super) of: BTreeMap<i32, u64>,
}

impl CpuTimes {
    pub(super) fn of(servers: &[Server]) -> Self {
        let all = servers.iter().flat_map(pids);
        Self {
            at_ns: linux::clock::monotonic_ns(),
            of: all
                .filter_map(|pid| Some((pid, linux::clock::cpu_ns_of(pid)?)))
                .collect(),
        }
    }

    /// Cores that the busiest of the servers has used since then; `None` where nothing ran.
    pub(super) fn busiest(&self, servers: &[Server]) -> Option<f64> {
        let now = Self::of(servers);
        let seconds_ns = now.at_ns.saturating_sub(self.at_ns) as f64;
        // Processes that were not known before have run for an unknown time before that.
        let ran = |pid: i32| Some(now.of.get(&pid)?.saturating_sub(*self.of.get(&pid)?) as f64);
        let used = servers.iter().map(|server| {
            let all = pids(server).into_iter().filter_map(ran);
            all.sum::<f64>() / seconds_ns
        });
        used.filter(|cores| *cores > 0.0).max_by(f64::total_cmp)
    }
}

/// One connection in how many is followed at such a rate.
fn followed_one_in(rate_per_s: f64, connections: u32) -> u32 {
    let by_rate = (rate_per_s / TURNS_PER_S).ceil().max(1.0) as u32;
    by_rate.clamp(1, (connections / TURNS_CONNECTIONS).max(1))
}

/// The turn trace and the two profilers of its window.
pub(super) struct Tracing {
    tracer: Result<Tracer, Unavailable>,
    off_cpu: Result<Profiler, Unavailable>,
    /// Only with turns that its samples could fall on.
    on_cpu: Option<Result<Profiler, Unavailable>>,
    /// Where a target has goroutines, and turns to join them with.
    tasks: Option<Result<TaskReader, Unavailable>>,
}

impl Tracing {
    /// Starts what the system allows; what it does not is said when it ends.
    pub(super) fn start(
        servers: &[Server],
        best_tier: Tier,
        one_in: u32,
        hz: u32,
        waits_hz: u32,
        tasks_share: f64,
    ) -> Self {
        let profiler = |kind, hz| Profiler::start(&profile_config(servers, kind, hz));
        let tracer = if best_tier >= Tier::Ebpf {
            Tracer::start(&TraceConfig {
                targets: probe_targets(servers),
                one_in,
                by_process: false,
            })
        } else {
            Err(Unavailable {
                what: "time of requests at the server (turns)".to_owned(),
                reason: "probes in the kernel were not asked for".to_owned(),
                remedy: String::new(),
            })
        };
        // Without turns the stacks off the CPU are all there is: every one is taken.
        let waits_hz = if tracer.is_ok() { waits_hz } else { 0 };
        Self {
            off_cpu: profiler(ProfileKind::OffCpu, waits_hz),
            on_cpu: tracer.is_ok().then(|| profiler(ProfileKind::OnCpu, hz)),
            tasks: tracer
                .is_ok()
                .then(|| tasks(servers, tasks_share))
                .flatten(),
            tracer,
        }
    }

    /// Ends all three; stacks are followed later.
    pub(super) fn end(self) -> EndedTracing {
        EndedTracing {
            traced: self.tracer.map(Tracer::stop),
            off_cpu: self.off_cpu.map(Profiler::end),
            on_cpu: self.on_cpu.map(|profiler| profiler.map(Profiler::end)),
            tasks: self.tasks.map(|reader| reader.map(TaskReader::end)),
        }
    }
}

/// Begins to look at goroutines; `None` where no target has any.
fn tasks(servers: &[Server], share: f64) -> Option<Result<TaskReader, Unavailable>> {
    let config = TaskConfig {
        targets: probe_targets(servers),
        share,
    };
    TaskReader::start(&config).transpose()
}

/// A trace that has ended, before its stacks are followed.
pub(super) struct EndedTracing {
    traced: Result<Traced, Unavailable>,
    off_cpu: Result<EndedProfile, Unavailable>,
    on_cpu: Option<Result<EndedProfile, Unavailable>>,
    tasks: Option<Result<EndedTasks, Unavailable>>,
}

impl EndedTracing {
    /// Leaves out what was not measured by the load of that time.
    fn only(&mut self, outcome: &LoadOutcome) {
        let (from, to) = (outcome.measured_from, outcome.measured_to);
        if from < to
            && let Ok(traced) = &mut self.traced
        {
            traced.only(from.0, to.0);
        }
    }

    /// Whether the trace met no connection that it follows.
    pub(super) fn saw_nothing(&self) -> bool {
        self.traced.as_ref().is_ok_and(Traced::is_empty)
    }

    /// CPU time that the programs in the kernel took, ns.
    pub(super) fn probes_ns(&self) -> u64 {
        let costs = self.traced.as_ref().map(Traced::cost);
        let costs = costs.unwrap_or_default().iter();
        costs.filter_map(|cost| cost.measured_ns).sum()
    }

    /// CPU time that the kernel took for stacks and switches, ns; estimated.
    pub(super) fn taken_ns(&self) -> u64 {
        let off_cpu = self.off_cpu.iter();
        let on_cpu = self.on_cpu.iter().flatten();
        off_cpu.chain(on_cpu).map(EndedProfile::taken_ns).sum()
    }

    /// Brings the results of all three together, with what runtimes told meanwhile.
    pub(super) fn bring(self, brought: &mut PostLoad, runtimes: &Runtimes, read: Read) {
        let mut costs = read.cost;
        let profiles = [Some(self.off_cpu), self.on_cpu];
        let [waits, samples] = profiles.map(|ended| match ended {
            Some(Ok(ended)) => {
                let profiled = ended.fold_with(runtimes.names());
                brought.unavailable.extend(profiled.unavailable);
                brought.profiles.push(profiled.profile);
                costs.push(profiled.cost);
                profiled.located
            }
            Some(Err(gap)) => {
                brought.unavailable.push(gap);
                Vec::new()
            }
            None => Vec::new(),
        });
        let mut unread = Vec::new();
        let looks = match self.tasks {
            Some(Ok(ended)) => {
                let tasks = ended.fold();
                unread = tasks.unavailable.clone();
                brought.unavailable.extend(tasks.unavailable);
                brought.profiles.push(tasks.profile);
                costs.push(tasks.cost);
                tasks.looks
            }
            Some(Err(gap)) => {
                brought.unavailable.push(gap);
                Vec::new()
            }
            None => Vec::new(),
        };
        let stacks = Stacks {
            waits,
            samples,
            looks,
            told: read.samples,
        };
        match self.traced {
            Ok(traced) => {
                let mut turns = traced.account(&stacks);
                turns.cost.extend(costs);
                turns.unavailable.extend(unread);
                brought.turns = Some(turns);
            }
            Err(gap) => brought.unavailable.push(gap),
        }
    }
}

impl Examiner<'_> {
    /// All passes over running servers: before, during and after the timed load. `servers` gains the upstreams that
    /// are found on this host.
    ///
    /// # Errors
    /// [`Failure`] when a load cannot start; what does not answer is no error here.
    pub fn examine(&mut self, servers: &mut Vec<Server>) -> Result<TrialRecord, Failure> {
        let pre_load = self.pre_load(servers, false)?;
        self.runtimes.find(servers);
        self.runtimes.name_code();
        let around = Instrumentation {
            watch: Some(watched(servers)),
            profile: (!servers.is_empty()).then(|| {
                profile_config(servers, ProfileKind::OnCpu, often(EXAMINED_HZ, self.busy))
            }),
            ..Instrumentation::default()
        };
        let interrupted = self.interrupted;
        let load = self.source.prepare(self.spec)?;
        let driven = load.drive(self.spec, &around, self.progress, &mut || interrupted())?;
        self.runtimes.name_code();
        let names = self.runtimes.names();
        let rate = match driven.is_whole() {
            true => driven.outcome.answered_per_s(),
            // What a pass would load with is lost.
            false => None,
        };
        let profiled = driven.profiled.map(|p| p.map(|p| p.fold_with(names)));
        let post_load = self.post_load(servers, rate)?;
        let passes = Passes {
            pre_load,
            watched: driven.watched,
            profiled,
            post_load,
            runtimes: self.runtimes.record(),
            watching: None,
            interrupted: (self.interrupted)(),
        };
        let mut trial = passes.into_trial(self.spec, servers, Some(driven.outcome));
        trial.hosts = driven.hosts;
        Ok(trial)
    }
}

/// What a gap of the signature without counts of allocators is called.
const ALLOCATOR_CALLS: &str = "calls of the memory allocator";
/// A pass that answers less than this part of what it would without probes is no longer of that server.
const HELD_UP: f64 = 0.1;

/// Whether probes took the time that requests would have had.
fn is_held_up(completed: u64, expected: f64) -> bool {
    (completed as f64) < HELD_UP * expected
}

/// Calls of allocators that were counted.
fn allocations(probed: &Probed) -> u64 {
    let counted = probed.targets.iter().filter_map(|t| t.allocator.as_ref());
    counted.flat_map(|a| a.calls.values()).sum()
}

/// What all passes brought beside the load's own outcome.
#[derive(Default)]
pub(super) struct Passes {
    pub pre_load: PreLoad,
    pub watched: Observation,
    pub profiled: Option<Result<Profiled, Unavailable>>,
    pub post_load: PostLoad,
    pub runtimes: Vec<AskedRuntime>,
    /// Traffic that was watched in place of a load.
    pub watching: Option<Watching>,
    /// A person had enough; what is missing was not looked for.
    pub interrupted: bool,
}

impl Passes {
    pub(super) fn into_trial(
        self,
        spec: &LoadSpec,
        servers: &[Server],
        outcome: Option<LoadOutcome>,
    ) -> TrialRecord {
        let mut monitor_cost = vec![sampling_cost(&self.watched)];
        let mut unavailable = self.watched.unavailable;
        unavailable.extend(self.pre_load.unavailable);
        unavailable.extend(self.post_load.unavailable);
        unavailable.extend(servers.iter().flat_map(|s| s.unavailable.clone()));
        if servers.is_empty() {
            unavailable.push(no_server(&spec.url));
        }
        let warnings = self.pre_load.warming.iter().filter_map(not_warm);
        let mut profiles = Vec::new();
        take_profile(
            self.profiled,
            &mut profiles,
            &mut monitor_cost,
            &mut unavailable,
        );
        profiles.extend(self.post_load.profiles);
        TrialRecord {
            id: 0,
            stage: STAGE.to_owned(),
            block: 0,
            levels: BTreeMap::new(),
            load: spec.clone(),
            // The figures of a load that came to its end stay valid when a later pass was cut short.
            state: if outcome.as_ref().map_or(self.interrupted, |o| o.interrupted) {
                TrialState::Interrupted
            } else {
                TrialState::Complete
            },
            targets: target_records(servers),
            unavailable,
            warnings: warnings.collect(),
            series: self.watched.series,
            hosts: Vec::new(),
            outcome,
            reported: None,
            examination: Some(Examination {
                container: None,
                servers: servers.to_vec(),
                answer: self.pre_load.answer,
                single_client: self.pre_load.single_client,
                signature: self.post_load.signature,
                turns: self.post_load.turns,
                watching: self.watching,
                warming: self.pre_load.warming,
                runtimes: self.runtimes,
                monitor_cost,
                profiles,
            }),
            files: BTreeMap::new(),
        }
    }
}

/// What reading /proc and sock_diag took.
pub fn sampling_cost(watched: &Observation) -> ProbeCost {
    ProbeCost {
        probe: "proc".to_owned(),
        events: watched.cost.samples,
        expected_share: watched.cost.expected_share,
        measured_ns: Some((watched.cost.cpu_s * 1e9) as u64),
    }
}

/// A profile of the timed load to where its parts belong.
pub fn take_profile(
    profiled: Option<Result<Profiled, Unavailable>>,
    profiles: &mut Vec<Profile>,
    cost: &mut Vec<ProbeCost>,
    unavailable: &mut Vec<Unavailable>,
) {
    match profiled {
        Some(Ok(profiled)) => {
            unavailable.extend(profiled.unavailable);
            cost.push(profiled.cost);
            profiles.push(profiled.profile);
        }
        Some(Err(gap)) => unavailable.push(gap),
        None => {}
    }
}

/// Name of the one stage of an examination's record.
pub const STAGE: &str = "diagnose";

/// That nothing could be seen of the server.
pub fn no_server(url: &str) -> Unavailable {
    Unavailable {
        what: "the server's processes".to_owned(),
        reason: format!("no process that this user may see listens behind {url}"),
        remedy: "run prony on the server's host, as root or as the server's user".to_owned(),
    }
}

/// Probes' results as a signature. Without a load of ours the requests are those that the server took from its
/// clients.
pub(super) fn signature(probed: Probed, load: Option<(&LoadSpec, &LoadOutcome)>) -> Signature {
    let taken = probed.targets.first().and_then(|t| t.requests_taken);
    Signature {
        tier: probed.tier,
        requests: load.map_or(taken.unwrap_or(0), |(_, o)| o.requests.completed),
        failed: load.map_or(0, |(_, o)| o.requests.unanswered()),
        connections_opened: load.map_or(0, |(_, o)| o.connections.opened),
        connections: load.map_or(0, |(spec, _)| spec.connections),
        window_ns: probed.window_ns,
        lost: probed.lost,
        targets: probed.targets,
        unavailable: probed.unavailable,
        cost: probed.cost,
    }
}

/// Notes the peers that the servers have connections to now; those on this host become servers themselves.
pub(super) fn see_upstreams(servers: &mut Vec<Server>) {
    meet(servers, discover::upstreams(servers));
}

/// Questions to an address that were counted, from which on it is one that requests ask.
const ASKED: u64 = 20;

/// Notes the peers on this host that were asked while calls were counted, and were met at no look.
pub(super) fn see_counted(servers: &mut Vec<Server>, probed: &Probed) {
    let known = |at: &SocketAddr| {
        let mut peers = servers.iter().flat_map(|s| &s.upstreams);
        peers.any(|p| p.target.is_some() && p.address == at.to_string())
    };
    let asked = probed
        .targets
        .iter()
        .flat_map(|t| t.upstreams.iter().flatten());
    let asked = asked.filter(|u| u.requests >= ASKED);
    let asked = asked.filter_map(|u| u.address.parse::<SocketAddr>().ok());
    let asked: Vec<SocketAddr> = asked.filter(|at| !known(at)).collect();
    if !asked.is_empty() {
        meet(servers, discover::listening_at_any(servers, &asked));
    }
}

fn meet(servers: &mut Vec<Server>, found: Vec<(UpstreamPeer, Option<Server>)>) {
    for (mut peer, server) in found {
        if let Some(mut server) = server {
            match servers
                .iter()
                .find(|known| known.main_pid == server.main_pid)
            {
                // An experiment has a name of its own for it.
                Some(known) => peer.target = Some(known.target.clone()),
                None => {
                    sut::config::read(&mut server);
                    discover::note_versions(&mut server);
                    servers.push(server);
                }
            }
        }
        note_peer(servers, &peer);
    }
}

/// A peer of the first server that is not itself the peer; the largest number of connections seen counts.
fn note_peer(servers: &mut [Server], peer: &UpstreamPeer) {
    let Some(front) = servers.first_mut() else {
        return;
    };
    match front
        .upstreams
        .iter_mut()
        .find(|p| p.address == peer.address)
    {
        Some(known) => known.connections = known.connections.max(peer.connections),
        None => front.upstreams.push(peer.clone()),
    }
}

/// What the profiler is to look at.
pub fn profile_config(
    servers: &[Server],
    kind: ProfileKind,
    hz: u32,
) -> monitor::profile::ProfileConfig {
    monitor::profile::ProfileConfig {
        targets: probe_targets(servers),
        kind,
        hz,
    }
}

pub(super) fn probe_targets(servers: &[Server]) -> Vec<ProbeTarget> {
    servers
        .iter()
        .map(|server| ProbeTarget {
            target: server.target.clone(),
            pids: pids(server),
            listens: server
                .listens
                .iter()
                .filter_map(|address| address.rsplit_once(':')?.1.parse().ok())
                .collect(),
            consumers: (server.processes.iter())
                .filter(|process| process.role == CONSUMER)
                .map(|process| process.pid)
                .collect(),
        })
        .collect()
}

pub(super) fn pids(server: &Server) -> Vec<i32> {
    server.processes.iter().map(|p| p.pid).collect()
}

pub(super) fn listens(servers: &[Server]) -> Vec<SocketAddr> {
    let all = servers.iter().flat_map(|s| &s.listens);
    all.filter_map(|address| address.parse().ok()).collect()
}

/// What the monitors are to look at.
pub fn watched(servers: &[Server]) -> Vec<Watched> {
    servers
        .iter()
        .map(|server| Watched {
            target: server.target.clone(),
            pids: pids(server),
        })
        .collect()
}

/// The servers as targets of a record.
pub fn target_records(servers: &[Server]) -> Vec<TargetRecord> {
    servers
        .iter()
        .map(|server| TargetRecord {
            name: server.target.clone(),
            kind: "running".to_owned(),
            address: server.listens.first().cloned().unwrap_or_default(),
            version: server.version.clone(),
            command: server.command.clone(),
            processes: server
                .processes
                .iter()
                .map(|p| ProcessRecord {
                    pid: p.pid,
                    role: p.role.clone(),
                    name: p.name.clone(),
                    cpus: p.cpus.clone(),
                })
                .collect(),
            ..TargetRecord::default()
        })
        .collect()
}

/// The servers behind a place, with their configuration; none when it is not one of this host, or hidden.
pub fn behind(place: &Place) -> Vec<Server> {
    let found = match place {
        Place::Tcp(address) => discover::behind(*address),
        Place::Unix(path) => discover::behind_unix(Path::new(path)),
    };
    found.map(with_config).into_iter().collect()
}

/// The server with its configuration read.
pub fn with_config(mut server: Server) -> Server {
    sut::config::read(&mut server);
    discover::note_versions(&mut server);
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_at_rest_is_sampled_as_often_a_second_as_a_full_one() {
        let most = monitor::profile::most_hz();
        for (busy, expected) in [
            (None, 199),
            (Some(4.0), 199),
            (Some(1.0), 199),
            (Some(0.5), 398),
            (Some(0.01), most),
            (Some(0.0), most),
        ] {
            assert_eq!(often(199, busy), expected, "{busy:?}");
        }
        assert_eq!(
            often(most + 1, Some(0.1)),
            most + 1,
            "what was asked for anyway"
        );
    }

    #[test]
    fn a_server_near_its_capacity_is_asked_less_while_it_is_traced() {
        let constant = |per_s| Arrival::Constant { per_s };
        // 78 us of its own for a request, and 22 for the trace.
        let traced = as_full(constant(10_000.0), 10_000.0, Some(0.78));
        assert!(matches!(traced, Arrival::Constant { per_s } if (per_s - 7_800.0).abs() < 1e-6));
        let poisson = Arrival::Poisson {
            per_s: 10_000.0,
            seed: 7,
        };
        let traced = as_full(poisson, 10_000.0, Some(0.78));
        assert!(
            matches!(traced, Arrival::Poisson { per_s, seed: 7 } if (per_s - 7_800.0).abs() < 1e-6)
        );
        for (arrival, busy) in [
            (constant(100.0), Some(0.5)),
            (constant(100.0), None),
            (Arrival::Closed, Some(1.0)),
        ] {
            assert_eq!(as_full(arrival, 100.0, busy), arrival, "{busy:?}");
        }
    }

    #[test]
    fn the_busiest_of_several_servers_counts_and_one_that_began_later_does_not() {
        let server = |pids: &[i32]| Server {
            processes: (pids.iter())
                .map(|&pid| record::ServerProcess {
                    pid,
                    ..record::ServerProcess::default()
                })
                .collect(),
            ..Server::default()
        };
        let own = std::process::id().cast_signed();
        let servers = [server(&[]), server(&[own])];
        let before = CpuTimes::of(&servers);
        let mut sum = 0_u64;
        while before.busiest(&servers).is_none() {
            sum = sum.wrapping_add(1);
        }
        assert!(before.busiest(&servers).unwrap() > 0.0, "{sum}");
        let unknown = CpuTimes {
            of: BTreeMap::new(),
            ..before
        };
        assert_eq!(unknown.busiest(&servers), None);
    }
}
