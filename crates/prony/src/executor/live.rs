//! Traffic that is there: watched, counted and profiled within a budget, without a load of ours.
//!
//! ```text
//! wait while a runtime compiles -> look for upstreams -> window of observation (/proc, sock_diag, on-CPU profile) ->
//! counting pass -> turns
//! --for: these once, then seconds of samplers alone -> a slow one -> the passes again -> seconds ...
//! ```
//! Nothing is loaded, written or reloaded on the server. The samplers run through all passes, so that what was counted
//! can be carried to the window. The surprise: stacks are followed and named when all is over, because that takes more
//! CPU than to sample them.

use super::budget::Budget;
use super::consumers::Scout;
use super::examine::{
    self, EndedTracing, PROFILE_HZ, Passes, PostLoad, SCOUT_TIME, SIGNATURE_TIME, Tracing,
    see_counted, see_upstreams,
};
use super::runtimes::{Read, Runtimes};
use super::warm::until_little_is_compiled;
use crate::cli::DiagnoseArgs;
use crate::terminal::{self, Progress};
use monitor::probe::{ProbeConfig, Probed, Probes};
use monitor::profile::{EndedProfile, Profiler};
use monitor::{Watch, WatchConfig};
use plan::When;
use record::{
    Clock, LoadSpec, Lookout, Nanos, Overhead, ProfileKind, Second, Server, Tier, TimeSpan,
    TrialRecord, Unavailable, Warning, Watching,
};
use std::sync::Arc;
use std::time::Duration;
use sut::discover;
use traffic::MonotonicClock;

/// How long traffic is watched, when nothing else is said.
const WATCHED: Nanos = Nanos::from_secs(4);
/// A runtime that still compiles what it runs is left alone before, in steps of a time and for a time at most.
const COLD: (Nanos, Nanos) = (Nanos::from_millis(500), Nanos::from_secs(2));
/// How often a pass with probes is held against the budget.
const LOOK: Duration = Duration::from_millis(50);
/// Of what is left of the budget, the share that the counting pass may take; the rest is for stacks of waits.
const COUNTING: f64 = 0.7;
/// So many requests, over so long, are enough to count: a server that is full loses half of its core to it.
const COUNTED: (u64, Nanos) = (4_000, Nanos::from_millis(100));
/// Where the kernel keeps no account of what probes take, they are armed for this long at most.
const UNMEASURED: Nanos = Nanos::from_millis(500);
/// How long turns are traced, with stacks on and off the CPU.
const TURNS_TIME: Nanos = Nanos::from_secs(2);
/// How long they are traced for at most, where requests are few, and how long some of many are rather than all for a
/// shorter time, where the server can bear it.
const TURNS_MOST: Nanos = Nanos::from_millis(2_500);
const TURNS_LEAST: Nanos = Nanos::from_millis(500);
/// For so long whatever the server can bear, and where the first look met none that it followed.
const TURNS_SHORTEST: Nanos = Nanos::from_millis(200);
/// Where all of them can be followed for so long, that is done while the server is watched: what comes once a second is
/// seen four times.
const TURNS_WITHIN: Nanos = Nanos::from_secs(5);
/// Turns that tell of the slowest of them, too.
const TURNS_WANTED: f64 = 500.0;
/// CPU time of a request that is followed, ns: its events in the kernel and their way out, on current x86-64.
const FOLLOWED_NS: f64 = 8_000.0;
/// What a request takes that is not followed while others are, ns.
const PASSED_NS: f64 = 500.0;
/// What its server loses of a request while others are followed, whether it is or not, ns: the way into a program and
/// back takes most of it.
const TURNS_SERVER_NS: f64 = 2_000.0;
/// So much of a core a server may lose to that over the longest time for which it is traced: where it loses more, it is
/// for a shorter time.
const TURNS_OF_SERVER: f64 = 0.02;
/// One connection in so many to hold the budget: fewer still say little of the rest.
const MOST_LEFT_OUT: u32 = 32;
/// One connection in so many is followed where nobody knows how many requests there are.
const FOLLOWED_ONE_IN: u32 = 4;
/// Time between samples of a longer watch.
const LOOKOUT_STEP: Nanos = Nanos::from_millis(250);
/// Slow seconds that are looked at more closely.
const MOST_DIGS: usize = 3;
/// Of what is left of the budget, the part that the passes of one moment may take.
const DIG_PART: f64 = 0.3;
/// Samples of a longer watch that are kept before a slow second.
const KEPT: Nanos = Nanos::from_secs(20);
/// Share of the budget that looking for upstreams may take.
const LOOKING: f64 = 0.1;
/// Whoever is found is looked at, too, up to this time.
const SCOUT_MOST: Nanos = Nanos::from_millis(1_600);
/// Looks that find nobody new, at least: a connection of each request's own is there for moments.
const LOOKS_IN_VAIN: u32 = 3;

/// A watch of running servers.
pub struct Live<'a> {
    spec: &'a LoadSpec,
    best_tier: Tier,
    allocator: bool,
    overhead: f64,
    when: Vec<When>,
    runtimes: Runtimes,
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
            when: args.when.clone(),
            runtimes: Runtimes::new(args.consent()),
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
    pub fn say(&self, servers: &[Server], lookout: Option<Nanos>) {
        if let Some(time) = lookout {
            let slow = match self.when.as_slice() {
                [] => "one differs from the others".to_owned(),
                when => when
                    .iter()
                    .map(|w| w.text.as_str())
                    .collect::<Vec<_>>()
                    .join(" or "),
            };
            terminal::note(&format!(
                "watching {} for {time} by samples of /proc and sock_diag, and looking closer for some seconds at the \
                 beginning and at most {MOST_DIGS} times when {slow}: nothing is loaded, written or reloaded, and at \
                 most {:.2} % of this host's {} CPUs is taken (--overhead); it ends by itself",
                named(servers),
                self.overhead * 1e2,
                cpus(),
            ));
            return;
        }
        terminal::note(&format!(
            "counting what {} does for at most {}, then watching it for {} and its waits for {} to {}: nothing is \
             loaded, written or reloaded; the budget is {:.2} % of this host's {} CPUs (--overhead), and to load the \
             probes may take more than that of so short a time; it ends by itself",
            named(servers),
            self.counting_time(),
            self.time(),
            TURNS_TIME,
            TURNS_WITHIN,
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
        let Ok(_) = until_little_is_compiled(servers, COLD, |_| {
            self.wait("its runtime still compiles", COLD.0, &mut || false);
            Ok::<bool, std::convert::Infallible>(!(self.interrupted)())
        });
        let mut budget = self.budget();
        let end = MonotonicClock.now() + self.whole_time();
        self.look_for_upstreams(servers, &budget, end);
        let interval = Nanos::from_millis(100);
        let within = Within::part(1.0, &budget, end);
        let (samplers, counted) = self.meet_all(servers, interval, within, &mut budget);
        let dug = self.dig(servers, counted, self.time(), within, &mut budget);
        let watched = samplers.stop();
        self.progress.clear();
        let overhead = overhead(&budget);
        dug.into_trial(self, servers, watched, overhead)
    }

    /// Watches for a longer time at the lowest cost and makes the passes where a second is slow. The first trial is of
    /// the first slow seconds; the one of the beginning, to hold them against, is the last.
    pub fn lookout(&mut self, servers: &mut Vec<Server>, time: Nanos) -> Vec<TrialRecord> {
        let mut budget = self.budget();
        let began = MonotonicClock.now();
        let end = began + time;
        self.look_for_upstreams(servers, &budget, end);
        let mut seen = Seconds::new(servers, self.when.clone());
        let within = Within::part(DIG_PART, &budget, end);
        let (mut samplers, counted) = self.meet_all(servers, LOOKOUT_STEP, within, &mut budget);
        seen.from = counted.began;
        let first = self.dig(servers, counted, self.time().min(time), within, &mut budget);
        seen.calibrate(&samplers, &first);
        let mut slow = seen.catch_up(&samplers, first.passes());
        let mut dug = vec![(first, samplers.stop())];
        samplers = watch(servers, LOOKOUT_STEP, &budget);
        seen.from = MonotonicClock.now();
        while MonotonicClock.now() < end && !(self.interrupted)() {
            if !slow {
                let left = end.since(MonotonicClock.now()).min(Nanos::SECOND);
                self.wait(&seen.progress(time), left, &mut || false);
                slow = seen.catch_up(&samplers, None);
            }
            let may_dig = dug.len() <= MOST_DIGS && end.since(MonotonicClock.now()) > Nanos::SECOND;
            if slow && may_dig && !(self.interrupted)() {
                let within = Within::part(DIG_PART, &budget, end);
                let counted = self.count(servers, within, &mut budget);
                let of = self.dig(servers, counted, Nanos::SECOND, within, &mut budget);
                slow = seen.catch_up(&samplers, of.passes());
                dug.push((of, samplers.stop()));
                samplers = watch(servers, LOOKOUT_STEP, &budget);
                seen.from = MonotonicClock.now();
            } else {
                slow = false;
                samplers.forget_before(Nanos(MonotonicClock.now().0.saturating_sub(KEPT.0)));
            }
        }
        let rest = samplers.stop();
        self.progress.clear();
        let overhead = overhead(&budget);
        // The last of the list is the beginning: what was normal.
        dug.rotate_left(1);
        let mut trials: Vec<TrialRecord> = Vec::new();
        for (of, watched) in dug {
            let mut trial = of.into_trial(self, servers, watched, overhead.clone());
            trial.id = trials.len() as u32;
            trials.push(trial);
        }
        if let Some(last) = trials.last_mut() {
            last.levels
                .insert("seconds".to_owned(), "at the beginning".to_owned());
        }
        let slow = trials.len() - 1;
        for trial in &mut trials[..slow] {
            trial.levels.insert("seconds".to_owned(), "slow".to_owned());
        }
        let gaps = seen.not_visible(&rest.unavailable);
        if let Some(watching) = trials[0]
            .examination
            .as_mut()
            .and_then(|e| e.watching.as_mut())
        {
            watching.lookout = Some(Lookout {
                when: self
                    .when
                    .iter()
                    .map(|w| w.text.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
                seconds: seen.all,
                unavailable: gaps,
            });
        }
        trials
    }

    /// Samples, and counts calls. Whoever was asked meanwhile and met at no look is met now, with those whom they ask,
    /// and both begin again with them.
    fn meet_all(
        &mut self,
        servers: &mut Vec<Server>,
        interval: Nanos,
        within: Within,
        budget: &mut Budget,
    ) -> (Watch, Counted) {
        let samplers = watch(servers, interval, budget);
        let counted = self.count(servers, within, budget);
        let known = servers.len();
        see_counted(servers, &counted.probed);
        let more = servers.len() > known && !(self.interrupted)();
        if more {
            see_upstreams(servers);
        }
        let rate_per_s = requests_per_s(&counted.probed);
        let consumers = self.find_consumers(servers, rate_per_s, within, budget);
        if !more && !consumers {
            return (samplers, counted);
        }
        samplers.stop();
        let samplers = watch(servers, interval, budget);
        let counted = self.count(servers, within, budget);
        (samplers, counted)
    }

    /// Looks whether others that are connected to the servers behind the first are consumers, as far as the budget
    /// allows. Returns whether there are some.
    fn find_consumers(
        &mut self,
        servers: &mut [Server],
        rate_per_s: Option<f64>,
        within: Within,
        budget: &mut Budget,
    ) -> bool {
        let Some(rate) = rate_per_s else {
            return false;
        };
        let may_ns = within.may_ns(budget).max(budget.of_pass_ns(SCOUT_TIME)) / 2;
        let affordable_s = may_ns as f64 / cost_per_s(rate, 1);
        let time = SCOUT_TIME.min(Nanos((affordable_s * 1e9) as u64));
        if time < TURNS_SHORTEST || (self.interrupted)() {
            return false;
        }
        let Some(scout) = Scout::start(servers, self.best_tier) else {
            return false;
        };
        self.wait("looking for consumers", time, &mut || false);
        let (any, spent_ns) = scout.end(servers);
        budget.add_probes(spent_ns);
        any
    }

    /// The passes of a window that follow on counting. The samplers run already.
    fn dig(
        &mut self,
        servers: &mut [Server],
        counted: Counted,
        time: Nanos,
        within: Within,
        budget: &mut Budget,
    ) -> Dug {
        let Counted {
            probed,
            span,
            began,
        } = counted;
        let mut dug = Dug {
            began,
            ..Dug::default()
        };
        let rate_per_s = requests_per_s(&probed);
        dug.probed = Some(probed);
        dug.counted = Some(span);
        self.runtimes.find(servers);
        self.runtimes.name_code();
        let all = TURNS_WITHIN.min(time + Nanos::SECOND);
        let left_ns = within.may_ns(budget).max(budget.of_pass_ns(all));
        let all = can_follow_all(rate_per_s, all, left_ns / 2).then_some(all);
        let hz = budget.on_cpu_hz(PROFILE_HZ);
        let config = examine::profile_config(servers, ProfileKind::OnCpu, hz);
        let profiler = Profiler::start(&config);
        dug.window.from = MonotonicClock.now();
        if let Some(all) = all.filter(|_| !(self.interrupted)()) {
            let what = ("watching, and turns", 1, all);
            (dug.turns, dug.read) = self.turns(servers, what, within.may_ns(budget), budget);
            dug.ended = Some(MonotonicClock.now());
        }
        let gone = MonotonicClock.now().since(dug.window.from);
        self.wait(
            "watching",
            Nanos(time.0.saturating_sub(gone.0)),
            &mut || false,
        );
        dug.window.to = MonotonicClock.now();
        dug.on_cpu = Some(profiler.map(|p| ended(p, budget)));
        self.runtimes.name_code();
        refresh(servers);
        if dug.turns.is_none() && !(self.interrupted)() {
            let may_ns = within.may_ns(budget);
            let (one_in, time) =
                followed(rate_per_s, may_ns.max(budget.of_pass_ns(TURNS_TIME)) / 2);
            if time < TURNS_TIME {
                budget.note(format!("turns for {time} instead of {TURNS_TIME}"));
            }
            (dug.turns, dug.read) = self.turns(servers, ("turns", one_in, time), may_ns, budget);
            // Whoever asks may be at one connection of many, and that one not among those that were followed.
            if one_in > 1 && saw_nothing(dug.turns.as_ref()) && !(self.interrupted)() {
                let time = all_of_them(rate_per_s, may_ns / 2);
                budget.note(format!(
                    "turns of all connections for {time} instead of {TURNS_TIME}"
                ));
                let what = ("turns of all connections", 1, time);
                (dug.turns, dug.read) = self.turns(servers, what, may_ns, budget);
            }
            dug.ended = Some(MonotonicClock.now());
        }
        dug
    }

    fn count(&mut self, servers: &[Server], within: Within, budget: &mut Budget) -> Counted {
        let began = MonotonicClock.now();
        let time = self.counting_time();
        let probes = Probes::arm(&ProbeConfig {
            targets: examine::probe_targets(servers),
            best_tier: self.best_tier,
            allocator: self.allocator,
            ..ProbeConfig::default()
        });
        let from = MonotonicClock.now();
        // To load the programs took a part of it.
        let left_ns = (within.may_ns(budget) as f64 * COUNTING) as u64;
        let may_ns = left_ns.max(budget.of_pass_ns(time));
        let measured = probes.spent_ns().is_some() || probes.tier() == Tier::Proc;
        let most = if measured { time } else { time.min(UNMEASURED) };
        let mut dear = false;
        self.wait("counting", most, &mut || {
            dear = probes.spent_ns().is_some_and(|spent| spent >= may_ns);
            dear || is_counted(&probes, MonotonicClock.now().since(from))
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
        Counted {
            probed: probes.disarm(),
            span: TimeSpan { from, to },
            began,
        }
    }

    /// Traces where requests of one connection in `one_in` spend their time, as far as the budget allows.
    fn turns(
        &mut self,
        servers: &[Server],
        (what, one_in, time): (&str, u32, Nanos),
        left_ns: u64,
        budget: &mut Budget,
    ) -> (Option<Result<EndedTracing, Unavailable>>, Read) {
        let time_or_more = time.max(TURNS_TIME);
        let may_ns = left_ns.max(budget.of_pass_ns(time_or_more));
        // Half of it is for stacks.
        let Some(hz) = budget.off_cpu_hz(may_ns / 2, time_or_more) else {
            let gap = Unavailable {
                what: "time of requests at the server (turns)".to_owned(),
                reason: "the budget of the host's CPU was spent before".to_owned(),
                remedy: "watch for longer (-d), or allow more (--overhead)".to_owned(),
            };
            return (Some(Err(gap)), Read::default());
        };
        let on_cpu_hz = budget.on_cpu_hz(PROFILE_HZ);
        let tracing = Tracing::start(
            servers,
            self.best_tier,
            one_in,
            on_cpu_hz,
            hz,
            budget.tasks(MonotonicClock.now(), time),
        );
        let reading = self.runtimes.read();
        let from = linux::clock::process_cpu_ns();
        self.wait(what, time, &mut || {
            linux::clock::process_cpu_ns() - from > may_ns
        });
        let ended = tracing.end();
        budget.add_probes(ended.probes_ns());
        budget.add_samples(ended.taken_ns());
        let read = self.runtimes.take(reading);
        self.runtimes.name_code();
        (Some(Ok(ended)), read)
    }

    /// Upstreams are seen while there is traffic; each look goes through the open files of all processes.
    fn look_for_upstreams(&mut self, servers: &mut Vec<Server>, budget: &Budget, end: Nanos) {
        let whole = left_ns(budget, end);
        let began = MonotonicClock.now();
        let mut in_vain = 0;
        self.wait("looking for upstreams", SCOUT_MOST, &mut || {
            let known = servers.len();
            see_upstreams(servers);
            // Whoever was found may ask others, and not at this moment. To ask programs for their versions takes longer
            // than to look.
            in_vain = match servers.len() > known {
                true => 0,
                false => in_vain + 1,
            };
            let is_spent = left_ns(budget, end) < (whole as f64 * (1.0 - LOOKING)) as u64;
            let is_over = MonotonicClock.now().since(began) >= SCOUT_TIME;
            in_vain >= LOOKS_IN_VAIN && is_spent || in_vain > 0 && is_over
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

/// Requests that the servers' clients sent while calls were counted.
fn requests_per_s(probed: &Probed) -> Option<f64> {
    let taken = probed.targets.iter().filter_map(|t| t.requests_taken);
    let taken = taken.reduce(|all, more| all + more)?;
    (probed.window_ns > 0).then(|| taken as f64 * 1e9 / probed.window_ns as f64)
}

/// Whether probes have counted enough requests after so long.
fn is_counted(probes: &Probes, after: Nanos) -> bool {
    let (requests, time) = COUNTED;
    after >= time && probes.requests_taken().is_some_and(|n| n >= requests)
}

/// Whether `may_ns` is enough to follow all connections for `time`, and the server can bear it.
fn can_follow_all(rate_per_s: Option<f64>, time: Nanos, may_ns: u64) -> bool {
    rate_per_s.is_some_and(|rate| {
        bearable_s(rate) >= TURNS_MOST.as_secs_f64()
            && cost_per_s(rate, 1) * time.as_secs_f64() <= may_ns as f64
    })
}

/// How long a server can bear to be traced, s.
fn bearable_s(rate_per_s: f64) -> f64 {
    let lost = rate_per_s.max(1.0) * TURNS_SERVER_NS / 1e9;
    TURNS_MOST.as_secs_f64() * TURNS_OF_SERVER / lost
}

/// CPU time (ns) of a second of turns.
fn cost_per_s(rate_per_s: f64, one_in: u32) -> f64 {
    let passed = if one_in > 1 { PASSED_NS } else { 0.0 };
    (rate_per_s * (FOLLOWED_NS / f64::from(one_in) + passed)).max(1.0)
}

/// One connection in how many is followed, and for how long, so that its server can bear it and it takes no more than
/// `may_ns`: some of many rather than all for a moment, as what comes once a second is met only by a long look, and
/// whom those ask is followed with them.
fn followed(rate_per_s: Option<f64>, may_ns: u64) -> (u32, Nanos) {
    let Some(rate) = rate_per_s else {
        return (FOLLOWED_ONE_IN, TURNS_TIME);
    };
    let may = may_ns as f64;
    let bearable = bearable_s(rate).max(TURNS_SHORTEST.as_secs_f64());
    let least = bearable.min(TURNS_LEAST.as_secs_f64());
    let mut one_in = 1;
    while cost_per_s(rate, one_in) * least > may && one_in < MOST_LEFT_OUT {
        one_in *= 2;
    }
    let wanted = TURNS_WANTED / rate.max(1.0) * f64::from(one_in);
    let wanted = wanted.clamp(TURNS_TIME.as_secs_f64(), TURNS_MOST.as_secs_f64());
    let affordable = may / cost_per_s(rate, one_in);
    (
        one_in,
        Nanos((wanted.min(affordable).min(bearable) * 1e9) as u64),
    )
}

/// How long all connections are followed at least, whatever it takes: `may_ns` or the shortest time that tells
/// something.
fn all_of_them(rate_per_s: Option<f64>, may_ns: u64) -> Nanos {
    let affordable = rate_per_s.map(|rate| may_ns as f64 / cost_per_s(rate, 1));
    let affordable = affordable.map_or(TURNS_SHORTEST, |seconds| Nanos((seconds * 1e9) as u64));
    affordable.clamp(TURNS_SHORTEST, TURNS_LEAST)
}

fn saw_nothing(turns: Option<&Result<EndedTracing, Unavailable>>) -> bool {
    turns.is_some_and(|ended| ended.as_ref().is_ok_and(EndedTracing::saw_nothing))
}

/// Calls that were counted, when, and since when probes were loaded for it.
struct Counted {
    probed: Probed,
    span: TimeSpan,
    began: Nanos,
}

/// What a window and its passes brought, before stacks are followed.
#[derive(Default)]
struct Dug {
    began: Nanos,
    window: TimeSpan,
    on_cpu: Option<Result<EndedProfile, Unavailable>>,
    probed: Option<Probed>,
    counted: Option<TimeSpan>,
    turns: Option<Result<EndedTracing, Unavailable>>,
    /// What runtimes told meanwhile.
    read: Read,
    /// When the last pass ended.
    ended: Option<Nanos>,
}

impl Dug {
    /// The time in which more was done than to sample: probes were loaded and armed.
    fn passes(&self) -> Option<TimeSpan> {
        let counted = self.counted?;
        Some(TimeSpan {
            from: self.began,
            to: self.ended.unwrap_or(counted.to),
        })
    }

    fn into_trial(
        self,
        live: &Live<'_>,
        servers: &[Server],
        watched: monitor::Observation,
        mut overhead: Overhead,
    ) -> TrialRecord {
        let spent = linux::clock::process_cpu_ns();
        let mut post_load = PostLoad {
            signature: self.probed.map(|probed| examine::signature(probed, None)),
            ..PostLoad::default()
        };
        match self.turns {
            Some(Ok(ended)) => ended.bring(&mut post_load, &live.runtimes, self.read),
            Some(Err(gap)) => post_load.unavailable.push(gap),
            None => {}
        }
        let names = live.runtimes.names();
        let profiled = self.on_cpu.map(|ended| ended.map(|e| e.fold_with(names)));
        overhead.afterwards_ns = linux::clock::process_cpu_ns() - spent;
        let passes = Passes {
            watched,
            profiled,
            post_load,
            runtimes: live.runtimes.record(),
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

/// What was taken so far.
fn overhead(budget: &Budget) -> Overhead {
    budget.overhead(MonotonicClock.now(), linux::clock::process_cpu_ns())
}

/// The seconds of a lookout while they come in.
struct Seconds {
    front: String,
    when: Vec<When>,
    requests_per_segment: Option<f64>,
    /// Start of the next second.
    from: Nanos,
    all: Vec<Second>,
}

impl Seconds {
    fn new(servers: &[Server], when: Vec<When>) -> Self {
        Self {
            front: servers.first().map_or(String::new(), |s| s.target.clone()),
            when,
            requests_per_segment: None,
            from: MonotonicClock.now(),
            all: Vec::new(),
        }
    }

    /// Requests that the probes counted for each segment that was sent meanwhile.
    fn calibrate(&mut self, samplers: &Watch, dug: &Dug) {
        let taken = dug
            .probed
            .as_ref()
            .and_then(|p| p.targets.first()?.requests_taken);
        let (Some(taken), Some(span)) = (taken.filter(|n| *n > 0), dug.counted) else {
            return;
        };
        let second = samplers.look(|all| analysis::second(all, span, &self.front, None));
        let segments = second
            .values
            .get("segments")
            .map(|s| s * span.length().as_secs_f64());
        let segments = segments.filter(|n| *n > 0.0);
        self.requests_per_segment = segments.map(|n| taken as f64 / n);
    }

    /// Judges the seconds that are over; whether one of them was slow. Probes were armed in `probed`.
    fn catch_up(&mut self, samplers: &Watch, probed: Option<TimeSpan>) -> bool {
        // The newest sample may be as old as two steps.
        let until = Nanos(MonotonicClock.now().0.saturating_sub(2 * LOOKOUT_STEP.0));
        let mut any = false;
        for span in analysis::spans(self.from, until) {
            self.from = span.to;
            let mut second = samplers
                .look(|all| analysis::second(all, span, &self.front, self.requests_per_segment));
            second.probed = probed.is_some_and(|p| p.from < span.to && span.from < p.to);
            if !second.probed {
                second.slow = analysis::slow(&self.all, &second, &self.when);
            }
            any |= !second.slow.is_empty();
            self.all.push(second);
        }
        any
    }

    fn progress(&self, time: Nanos) -> String {
        let slow = self.all.iter().filter(|s| !s.slow.is_empty()).count();
        let seen = self.all.len();
        format!("watching for {time}: {seen} seconds, {slow} slow")
    }

    /// Conditions that no second could be held against, beside what the samplers could not read.
    fn not_visible(&self, gaps: &[Unavailable]) -> Vec<Unavailable> {
        let invisible = |when: &&When| {
            self.all
                .iter()
                .all(|s| analysis::fulfils(s, when).is_none())
        };
        let mut all: Vec<Unavailable> = (self.when.iter().filter(invisible))
            .map(|when| Unavailable {
                what: format!("not visible: {}", when.text),
                reason: match self.requests_per_segment {
                    None => "no request was counted at the beginning, so that there is no rate".to_owned(),
                    Some(_) => format!("`{}` could not be read in any second", when.signal),
                },
                remedy: "run prony as root on a kernel with BPF, or give a condition on cpu, segments or open"
                    .to_owned(),
            })
            .collect();
        all.extend(gaps.iter().cloned());
        all
    }
}

fn ended(profiler: Profiler, budget: &mut Budget) -> EndedProfile {
    let ended = profiler.end();
    budget.add_samples(ended.taken_ns());
    ended
}

/// What a window may take of the budget until `end`.
#[derive(Clone, Copy)]
struct Within {
    end: Nanos,
    keep_ns: u64,
}

impl Within {
    /// Not a share of what is left, but that share less is left at its end.
    fn part(part: f64, budget: &Budget, end: Nanos) -> Self {
        let keep_ns = (left_ns(budget, end) as f64 * (1.0 - part)) as u64;
        Self { end, keep_ns }
    }

    fn may_ns(self, budget: &Budget) -> u64 {
        left_ns(budget, self.end).saturating_sub(self.keep_ns)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_all_followed_while_the_server_is_watched() {
        // 500/s x 8 us x 5 s = 20 ms.
        assert!(can_follow_all(Some(500.0), TURNS_WITHIN, 20_000_000));
        assert!(!can_follow_all(Some(501.0), TURNS_WITHIN, 20_000_000));
        assert!(!can_follow_all(None, TURNS_WITHIN, u64::MAX));
        assert!(!can_follow_all(Some(20_000.0), TURNS_WITHIN, u64::MAX));
    }

    #[test]
    fn all_connections_are_followed_where_the_server_can_bear_it_and_some_for_longer_elsewhere() {
        let may_ns = 20_000_000;
        // Few requests: all of them, for long enough to see the slowest.
        assert_eq!(
            followed(Some(200.0), may_ns),
            (1, Nanos::from_millis(2_500))
        );
        assert_eq!(followed(Some(1_000.0), may_ns), (1, TURNS_TIME));
        assert_eq!(followed(Some(0.0), may_ns), (1, TURNS_MOST));
        // 3,000/s x 8 us = 24 ms/s.
        let (one_in, time) = followed(Some(3_000.0), may_ns);
        assert_eq!(one_in, 1);
        assert!(time >= TURNS_LEAST && time < Nanos::SECOND, "{time}");
        // 2 us of each request are 2 % of a core at 10,000/s, and of 2.5 s 50 ms at any rate.
        let enough = 1_000_000_000;
        assert_eq!(followed(Some(10_000.0), enough), (1, TURNS_TIME));
        assert_eq!(followed(Some(25_000.0), enough), (1, Nanos::SECOND));
        assert_eq!(followed(Some(500_000.0), enough), (1, TURNS_SHORTEST));
        // 250 ms of them within the budget: 150 ms/s, of which what is passed over takes 50.
        let (one_in, time) = followed(Some(100_000.0), 50_000_000);
        assert_eq!((one_in, time), (8, Nanos::from_millis(250)));
        assert_eq!(followed(None, may_ns), (FOLLOWED_ONE_IN, TURNS_TIME));
    }

    #[test]
    fn all_connections_are_followed_for_as_long_as_the_budget_allows_and_not_too_short() {
        // 20 ms / (10,000/s x 8 us) = 250 ms.
        assert_eq!(
            all_of_them(Some(10_000.0), 20_000_000),
            Nanos::from_millis(250)
        );
        assert_eq!(all_of_them(Some(100_000.0), 20_000_000), TURNS_SHORTEST);
        assert_eq!(all_of_them(Some(1.0), 20_000_000), TURNS_LEAST);
        assert_eq!(all_of_them(None, 20_000_000), TURNS_SHORTEST);
    }
}
