//! Traffic that is there: watched, counted and profiled within a budget, without a load of ours.
//!
//! ```text
//! look for upstreams -> window of observation (/proc, sock_diag, on-CPU profile) -> counting pass -> turns
//! ```
//! Nothing is loaded, written or reloaded on the server. The samplers run through all passes, so that what was counted
//! can be carried to the window. The surprise: stacks are followed and named when all is over, because that takes more
//! CPU than to sample them.

use super::budget::Budget;
use super::examine::{
    self, PROFILE_HZ, Passes, PostLoad, SCOUT_TIME, SIGNATURE_TIME, Tracing, see_upstreams,
};
use crate::cli::DiagnoseArgs;
use crate::terminal::{self, Progress};
use monitor::probe::{ProbeConfig, Probed, Probes};
use monitor::profile::{EndedProfile, Profiler};
use monitor::{Watch, WatchConfig};
use record::{
    Clock, LoadSpec, Nanos, ProfileKind, Server, Tier, TimeSpan, TrialRecord, Unavailable, Warning,
    Watching,
};
use std::sync::Arc;
use std::time::Duration;
use sut::discover;
use traffic::MonotonicClock;

/// How long traffic is watched, when nothing else is said.
const WATCHED: Nanos = Nanos::from_secs(4);
/// How often a pass with probes is held against the budget.
const LOOK: Duration = Duration::from_millis(50);
/// Of what is left of the budget, the share that the counting pass may take; the rest is for stacks of waits.
const COUNTING: f64 = 0.7;
/// Where the kernel keeps no account of what probes take, they are armed for this long at most.
const UNMEASURED: Nanos = Nanos::from_millis(500);
/// How long turns are traced, with stacks on and off the CPU.
const TURNS_TIME: Nanos = Nanos::from_secs(2);
/// One connection in so many is followed: whoever was to be followed is not asked for how many there are.
const FOLLOWED_ONE_IN: u32 = 4;
/// Share of the budget that looking for upstreams may take.
const LOOKING: f64 = 0.1;

/// A watch of running servers.
pub struct Live<'a> {
    spec: &'a LoadSpec,
    best_tier: Tier,
    allocator: bool,
    overhead: f64,
    interrupted: &'a dyn Fn() -> bool,
    progress: &'a mut Progress,
}

impl<'a> Live<'a> {
    /// As the flags say.
    pub fn new(
        spec: &'a LoadSpec,
        args: &DiagnoseArgs,
        interrupted: &'a dyn Fn() -> bool,
        progress: &'a mut Progress,
    ) -> Self {
        Self {
            spec,
            best_tier: args.probes,
            allocator: args.allocator,
            overhead: args.overhead,
            interrupted,
            progress,
        }
    }

    fn time(&self) -> Nanos {
        self.spec.duration.unwrap_or(WATCHED)
    }

    fn counting_time(&self) -> Nanos {
        self.time().min(SIGNATURE_TIME)
    }

    /// All passes of one window.
    fn whole_time(&self) -> Nanos {
        SCOUT_TIME + self.time() + self.counting_time() + TURNS_TIME
    }

    /// Says what is about to be done, for how long and at which cost.
    pub fn say(&self, servers: &[Server]) {
        terminal::note(&format!(
            "watching {} for {}, then counting what it does for at most {} and its waits for {}: nothing is loaded, \
             written or reloaded, and at most {:.2} % of this host's {} CPUs is taken (--overhead); it ends by itself",
            named(servers),
            self.time(),
            self.counting_time(),
            TURNS_TIME,
            self.overhead * 1e2,
            cpus(),
        ));
    }

    fn budget(&self) -> Budget {
        let spent = linux::clock::process_cpu_ns();
        Budget::new(self.overhead, cpus(), MonotonicClock.now(), spent)
    }

    /// Watches one window and makes the passes behind it.
    pub fn window(&mut self, servers: &mut Vec<Server>) -> TrialRecord {
        let mut budget = self.budget();
        let end = MonotonicClock.now() + self.whole_time();
        self.look_for_upstreams(servers, &budget, end);
        let watch = watch(servers, Nanos::from_millis(100), &budget);
        let dug = self.dig(servers, self.time(), end, &mut budget);
        let watched = watch.stop();
        self.progress.clear();
        dug.into_trial(self, servers, watched, &budget)
    }

    /// A window with its passes, within what is left of the budget until `end`. The samplers run already.
    fn dig(&mut self, servers: &mut [Server], time: Nanos, end: Nanos, budget: &mut Budget) -> Dug {
        let mut dug = Dug::default();
        let hz = budget.on_cpu_hz(PROFILE_HZ);
        let config = examine::profile_config(servers, ProfileKind::OnCpu, hz);
        let profiler = Profiler::start(&config);
        dug.window.from = MonotonicClock.now();
        self.wait("watching", time, &mut || false);
        dug.window.to = MonotonicClock.now();
        dug.on_cpu = Some(profiler.map(|p| ended(p, budget)));
        refresh(servers);
        if !(self.interrupted)() {
            let (probed, span) = self.count(servers, end, budget);
            dug.probed = Some(probed);
            dug.counted = Some(span);
        }
        if !(self.interrupted)() {
            self.turns(servers, end, budget, &mut dug);
        }
        dug
    }

    fn count(&mut self, servers: &[Server], end: Nanos, budget: &mut Budget) -> (Probed, TimeSpan) {
        let time = self.counting_time();
        let probes = Probes::arm(&ProbeConfig {
            targets: examine::probe_targets(servers),
            best_tier: self.best_tier,
            allocator: self.allocator,
            ..ProbeConfig::default()
        });
        let from = MonotonicClock.now();
        let may_ns = (left_ns(budget, end) as f64 * COUNTING) as u64;
        let measured = probes.spent_ns().is_some() || probes.tier() == Tier::Proc;
        let most = if measured { time } else { time.min(UNMEASURED) };
        let mut dear = false;
        self.wait("counting", most, &mut || {
            dear = probes.spent_ns().is_some_and(|spent| spent >= may_ns);
            dear
        });
        let to = MonotonicClock.now();
        if dear {
            budget.note(format!("counting for {} instead of {time}", to.since(from)));
        } else if !measured {
            budget.note(format!(
                "counting for {most}: the kernel keeps no account of what counters take"
            ));
        }
        budget.add_probes(probes.spent_ns().unwrap_or(0));
        (probes.disarm(), TimeSpan { from, to })
    }

    /// Traces where requests spend their time, as far as the budget allows.
    fn turns(&mut self, servers: &[Server], end: Nanos, budget: &mut Budget, dug: &mut Dug) {
        let left = left_ns(budget, end);
        let Some(hz) = budget.off_cpu_hz(left / 2, TURNS_TIME) else {
            dug.post_load.unavailable.push(Unavailable {
                what: "time of requests at the server (turns)".to_owned(),
                reason: "the budget of the host's CPU was spent before".to_owned(),
                remedy: "watch for longer (-d), or allow more (--overhead)".to_owned(),
            });
            return;
        };
        let on_cpu_hz = budget.on_cpu_hz(PROFILE_HZ);
        let tracing = Tracing::start(servers, self.best_tier, FOLLOWED_ONE_IN, on_cpu_hz, hz);
        self.wait("turns", TURNS_TIME, &mut || left_ns(budget, end) < left / 8);
        dug.ended = Some((MonotonicClock.now(), linux::clock::process_cpu_ns()));
        tracing.stop(&mut dug.post_load);
        let turns = dug.post_load.turns.as_ref();
        let costs = turns.map(|t| t.cost.as_slice()).unwrap_or_default();
        budget.add_probes(costs.iter().filter_map(|c| c.measured_ns).sum());
        let profiles = dug.post_load.profiles.iter();
        budget.add_samples(profiles.map(|p| p.samples).sum());
    }

    /// Upstreams are seen while there is traffic; each look goes through the open files of all processes.
    fn look_for_upstreams(&mut self, servers: &mut Vec<Server>, budget: &Budget, end: Nanos) {
        let whole = left_ns(budget, end);
        self.wait("looking for upstreams", SCOUT_TIME, &mut || {
            see_upstreams(servers);
            left_ns(budget, end) < (whole as f64 * (1.0 - LOOKING)) as u64
        });
    }

    /// Waits, asking `enough` all the while, until the time is over or a person has enough.
    fn wait(&mut self, what: &str, time: Nanos, enough: &mut dyn FnMut() -> bool) {
        let began = MonotonicClock.now();
        loop {
            let elapsed = MonotonicClock.now().since(began);
            if elapsed >= time || (self.interrupted)() || enough() {
                break;
            }
            let state = format!("{what}: {elapsed} of {time}");
            self.progress.show(elapsed, &state);
            let left = Duration::from_nanos(time.0.saturating_sub(elapsed.0));
            std::thread::sleep(LOOK.min(left));
        }
    }
}

/// What a window and its passes brought, before stacks are followed.
#[derive(Default)]
struct Dug {
    window: TimeSpan,
    on_cpu: Option<Result<EndedProfile, Unavailable>>,
    probed: Option<Probed>,
    counted: Option<TimeSpan>,
    /// What the turns brought.
    post_load: PostLoad,
    /// When the last pass ended, and the CPU time of this process until then, ns: stacks are followed after it.
    ended: Option<(Nanos, u64)>,
}

impl Dug {
    fn into_trial(
        self,
        live: &Live<'_>,
        servers: &[Server],
        watched: monitor::Observation,
        budget: &Budget,
    ) -> TrialRecord {
        let now = || (MonotonicClock.now(), linux::clock::process_cpu_ns());
        let (ended, spent) = self.ended.unwrap_or_else(now);
        let mut overhead = budget.overhead(ended, spent);
        let mut post_load = self.post_load;
        post_load.signature = self.probed.map(|probed| examine::signature(probed, None));
        let profiled = self.on_cpu.map(|ended| ended.map(EndedProfile::fold));
        overhead.afterwards_ns = linux::clock::process_cpu_ns() - spent;
        let passes = Passes {
            watched,
            profiled,
            post_load,
            watching: Some(Watching {
                window: self.window,
                counted: self.counted,
                overhead: Some(overhead),
                lookout: None,
            }),
            interrupted: (live.interrupted)(),
            ..Passes::default()
        };
        passes.into_trial(live.spec, servers, None)
    }
}

fn ended(profiler: Profiler, budget: &mut Budget) -> EndedProfile {
    let ended = profiler.end();
    budget.add_samples(ended.samples());
    ended
}

fn left_ns(budget: &Budget, end: Nanos) -> u64 {
    budget.left_ns(end, linux::clock::process_cpu_ns())
}

fn watch(servers: &[Server], interval: Nanos, budget: &Budget) -> Watch {
    let config = WatchConfig {
        targets: examine::watched(servers),
        listen: examine::listens(servers),
        interval,
        budget: budget.monitors(),
        ..WatchConfig::default()
    };
    Watch::start(&config, Arc::new(|| MonotonicClock.now()))
}

/// CPUs of the host.
fn cpus() -> u32 {
    // Not those that this process may run on: the budget is a share of the host.
    let online = linux::Root::default().read("sys/devices/system/cpu/online");
    let online = online
        .ok()
        .and_then(|list| plan::typed::cpus(list.trim()).ok());
    online.map_or(1, |list| list.len() as u32)
}

/// `nginx 1.24 (pid 17, 5 processes)`.
fn named(servers: &[Server]) -> String {
    let Some(server) = servers.first() else {
        return "the server".to_owned();
    };
    let processes = match server.processes.len() {
        0 | 1 => String::new(),
        n => format!(", {n} processes"),
    };
    format!("{} (pid {}{processes})", server.kind, server.main_pid)
}

/// A server that restarted is found again by its ports; one that ended is said to have.
fn refresh(servers: &mut [Server]) {
    for server in servers {
        let pids = server.processes.iter().map(|p| p.pid);
        if pids.chain([server.main_pid]).any(discover::exists) {
            continue;
        }
        let ports = server.listens.iter();
        let mut ports = ports.filter_map(|a| a.rsplit_once(':')?.1.parse::<u16>().ok());
        let gone = server.main_pid;
        let gap = match ports.find_map(discover::on_port) {
            Some(found) => {
                let gap = Unavailable {
                    what: format!("{} as one server over the whole time", server.target),
                    reason: format!(
                        "process {gone} ended while it was watched, and process {} serves in its place: counts are \
                         of the new one, growth of the old",
                        found.main_pid
                    ),
                    remedy: "watch it again, now that it runs".to_owned(),
                };
                server.main_pid = found.main_pid;
                server.processes = found.processes;
                gap
            }
            None => Unavailable {
                what: format!("what {} does for a request", server.target),
                reason: format!(
                    "process {gone} ended while it was watched, and nobody serves in its place"
                ),
                remedy: "start it, and watch it again".to_owned(),
            },
        };
        let (reason, remedy) = (gap.reason.clone(), gap.remedy.clone());
        terminal::warning(&Warning::new("server_ended", reason, remedy));
        server.unavailable.push(gap);
    }
}
