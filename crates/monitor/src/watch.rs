//! The thread that samples while a load runs.
//!
//! [`Watch::start`] takes the first sample before it returns, and [`Watch::stop`] takes the last one, both
//! complete: growth between them is exact whatever the rhythm. In between the thread wakes on an absolute
//! schedule; a sample that comes too late is left out, not made up for. The surprise: nothing here fails.
//! A thread that cannot start, or that panics, becomes a gap beside whatever was measured.

use crate::tree::Members;
use crate::{MonitorError, Pass, RunClock, Sampler};
use linux::Root;
use record::{Nanos, Series, Unavailable};
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Share of one core that sampling may take while something is timed, when nothing else is said. Samples that would
/// take more come less often.
pub const BUDGET: f64 = 0.02;

/// Label `target` of prony's own process.
pub const GENERATOR: &str = "generator";

/// A target's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The target's name in the experiment.
    pub target: String,
    /// Its processes that are known; their descendants, present and future, are found.
    pub pids: Vec<i32>,
}

/// What is watched only when somebody wants to see it: it costs more, or most hosts do not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Data TLB loads and misses of the targets.
    pub tlb: bool,
    /// Slabs of TCP sockets.
    pub slabs: bool,
    /// Queues of the network devices.
    pub queues: bool,
}

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// Where /proc is.
    pub root: Root,
    /// Time between samples.
    pub interval: Nanos,
    /// Time between samples of what is expensive or changes slowly, and between looks for new processes.
    pub slow_interval: Nanos,
    pub targets: Vec<Watched>,
    /// prony's own process, watched without its descendants; `None` does not watch it.
    pub generator: Option<i32>,
    /// Addresses whose listen queues are of interest.
    pub listen: Vec<SocketAddr>,
    /// Network devices of interest; empty: all, up to [`crate::nic::MOST_DEVICES`].
    pub devices: Vec<String>,
    /// What is watched on request.
    pub extras: Extras,
    /// Share of one core that sampling may take.
    pub budget: f64,
}

impl Default for WatchConfig {
    /// The host and prony's own process, every 100 ms; no target.
    fn default() -> Self {
        Self {
            root: Root::default(),
            interval: Nanos::from_millis(100),
            slow_interval: Nanos::SECOND,
            targets: Vec::new(),
            generator: i32::try_from(std::process::id()).ok(),
            listen: Vec::new(),
            devices: Vec::new(),
            extras: Extras::default(),
            budget: BUDGET,
        }
    }
}

/// What the watching itself took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// CPU time that the samples took, s. It is part of the generator's own CPU time.
    pub cpu_s: f64,
    /// Samples taken.
    pub samples: u64,
    /// Share of one core that they were expected to take, from one sample before the run; `None` where none was taken.
    pub expected_share: Option<f64>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The samples.
    pub series: Vec<Series>,
    /// What could not be read, each with its reason.
    pub unavailable: Vec<Unavailable>,
    /// What it took.
    pub cost: Cost,
}

/// By how much the sampling thread gives way: a tenth of the share of a thread that did not.
const NICENESS: i32 = 10;

/// A running observation.
pub struct Watch {
    sampler: Arc<Mutex<Sampler>>,
    /// Dropped to end the thread.
    alive: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Takes the first sample, and a second one that tells what each will cost, and starts the thread that takes the
    /// others.
    pub fn start(config: &WatchConfig, clock: RunClock) -> Self {
        let mut sampler = Sampler::new(config, clock);
        sampler.sample_now(Pass::Edge);
        let took_s = sampler.sample_now(Pass::Fast);
        let mut schedule = Schedule::new(config.interval, config.slow_interval, config.budget);
        schedule.hold_to_budget(Pass::Fast, 0, took_s);
        sampler.expect(took_s / schedule.gap().as_secs_f64());
        let sampler = Arc::new(Mutex::new(sampler));
        let (alive, ended) = mpsc::channel();
        let shared = Arc::clone(&sampler);
        let thread = std::thread::Builder::new()
            .name("monitor".to_owned())
            .spawn(move || sample_until(&ended, schedule, &shared))
            .map_err(|cause| {
                let error = MonitorError::Thread { cause };
                lock(&sampler).unavailable("samples between the first and the last", &error);
            })
            .ok();
        Self {
            sampler,
            alive: Some(alive),
            thread,
        }
    }

    /// Shows the samples taken so far, while others are being taken.
    pub fn look<T>(&self, at: impl FnOnce(&[Series]) -> T) -> T {
        at(lock(&self.sampler).series())
    }

    /// The targets' processes, for others that look at them.
    pub fn members(&self) -> Members {
        lock(&self.sampler).members()
    }

    /// Forgets samples of before `at`, but for the last one of each series before it: a watch without an end stays
    /// small.
    pub fn forget_before(&self, at: Nanos) {
        lock(&self.sampler).forget_before(at);
    }

    /// Ends the thread, takes the last sample, and returns what was seen.
    pub fn stop(mut self) -> Observation {
        self.alive = None;
        let panic = self.thread.take().and_then(|thread| thread.join().err());
        let mut sampler = Arc::into_inner(self.sampler)
            .expect("the thread, the only other owner, has ended")
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match panic {
            None => {
                sampler.sample_now(Pass::Edge);
            }
            Some(cause) => {
                let cause = panic_text(cause.as_ref());
                sampler.unavailable("samples up to the end", &MonitorError::Panicked { cause });
            }
        }
        sampler.finish()
    }
}

/// A panic while the sampler was locked leaves whole samples behind, perhaps with the last one cut.
fn lock(sampler: &Mutex<Sampler>) -> MutexGuard<'_, Sampler> {
    sampler.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// Samples by the schedule until the other end of `ended` is dropped.
fn sample_until(ended: &mpsc::Receiver<()>, mut schedule: Schedule, sampler: &Mutex<Sampler>) {
    // Where it shares a core with the generator, a pass that reads thousands of sockets would delay requests.
    linux::affinity::give_way(NICENESS);
    let began = Instant::now();
    let asked = schedule.interval;
    let (mut tick, mut dearest_s) = (0, 0.0_f64);
    loop {
        tick = schedule.next_after(tick, began.elapsed());
        let wait = schedule.time_of(tick).saturating_sub(began.elapsed());
        match ended.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {
                let pass = schedule.pass(tick);
                let took_s = lock(sampler).sample_now(pass);
                if pass == Pass::Fast {
                    dearest_s = dearest_s.max(took_s);
                }
                schedule.hold_to_budget(pass, tick, took_s);
            }
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if schedule.widest > asked {
        let error = MonitorError::TooDear {
            asked: nanos(asked),
            took: nanos(Duration::from_secs_f64(dearest_s)),
            widest: nanos(schedule.widest),
        };
        lock(sampler).unavailable("sampling", &error);
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Of the budget, what fast samples may take, as much as slow ones, and as those of the table of sockets. The dear ones
/// would take all of it, and nothing that changes fast would be seen.
pub(crate) const PART: f64 = 1.0 / 3.0;

/// Which ticks there are, counted from the start.
#[derive(Debug)]
struct Schedule {
    interval: Duration,
    /// A slow sample comes after so many ticks at the earliest.
    slow_every: u32,
    /// The next tick that is a slow one.
    next_slow: u32,
    /// Ticks from the last sample to the next one: more than one when a tick is too short for what a sample costs.
    step: u32,
    /// The longest time between samples so far.
    widest: Duration,
    /// Share of one core that samples may take.
    budget: f64,
}

impl Schedule {
    fn new(interval: Nanos, slow_interval: Nanos, budget: f64) -> Self {
        // An interval of zero would keep a core busy with nothing but sampling.
        let interval_ns = interval.0.max(Nanos::MILLI.0);
        let slow_every = slow_interval.0.div_ceil(interval_ns).max(1);
        Self {
            interval: Duration::from_nanos(interval_ns),
            slow_every: u32::try_from(slow_every).unwrap_or(u32::MAX),
            next_slow: u32::try_from(slow_every).unwrap_or(u32::MAX),
            step: 1,
            widest: Duration::from_nanos(interval_ns),
            budget,
        }
    }

    /// Time from one sample to the next.
    fn gap(&self) -> Duration {
        self.interval.saturating_mul(self.step)
    }

    /// Chooses the distance of the next sample of its kind by what the last one took, s of CPU, so that each keeps to
    /// its part of the budget.
    fn hold_to_budget(&mut self, pass: Pass, tick: u32, took_s: f64) {
        let ticks = (took_s / (self.budget * PART) / self.interval.as_secs_f64()).ceil();
        match pass {
            Pass::Fast => {
                self.step = (ticks as u32).max(1);
                self.widest = self.widest.max(self.gap());
            }
            Pass::Slow | Pass::Edge => {
                let distance = self.slow_every.max(ticks as u32);
                self.next_slow = tick.saturating_add(distance);
            }
        }
    }

    fn time_of(&self, tick: u32) -> Duration {
        self.interval.saturating_mul(tick)
    }

    /// The tick one step after `tick`, or the first one that is not yet over at `elapsed`.
    fn next_after(&self, tick: u32, elapsed: Duration) -> u32 {
        let passed = elapsed.as_nanos() / self.interval.as_nanos();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX - 1);
        tick.saturating_add(self.step - 1)
            .max(passed)
            .saturating_add(1)
    }

    /// A slow tick that was stepped over is made up for by the next one.
    fn pass(&self, tick: u32) -> Pass {
        if tick >= self.next_slow {
            Pass::Slow
        } else {
            Pass::Fast
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_keep_to_the_schedule_and_late_ones_are_left_out() {
        let schedule = Schedule::new(Nanos::from_millis(100), Nanos::SECOND, BUDGET);
        let ms = Duration::from_millis;
        for (tick, elapsed, next) in [
            (0, ms(0), 1),
            (0, ms(99), 1),
            (1, ms(101), 2),
            // The sample of tick 1 took until 350 ms: 2 and 3 are over, 4 is next.
            (1, ms(350), 4),
            // A wait that ended a little early must not repeat its tick.
            (4, ms(399), 5),
        ] {
            assert_eq!(
                schedule.next_after(tick, elapsed),
                next,
                "{tick} {elapsed:?}"
            );
        }
        assert_eq!(schedule.time_of(4), ms(400));
    }

    /// Ticks and kinds of the first samples of what costs so much.
    fn taken(mut schedule: Schedule, fast_s: f64, slow_s: f64, until: u32) -> Vec<(u32, Pass)> {
        let (mut tick, mut all) = (0, Vec::new());
        loop {
            tick = schedule.next_after(tick, schedule.time_of(tick));
            if tick > until {
                return all;
            }
            let pass = schedule.pass(tick);
            all.push((tick, pass));
            let took_s = if pass == Pass::Slow { slow_s } else { fast_s };
            schedule.hold_to_budget(pass, tick, took_s);
        }
    }

    fn every(interval_ms: u64, slow_ms: u64) -> Schedule {
        let (interval, slow) = (Nanos::from_millis(interval_ms), Nanos::from_millis(slow_ms));
        Schedule::new(interval, slow, BUDGET)
    }

    fn slow(all: &[(u32, Pass)]) -> Vec<u32> {
        let slow = all.iter().filter(|(_, pass)| *pass == Pass::Slow);
        slow.map(|(tick, _)| *tick).collect()
    }

    #[test]
    fn dear_samples_come_less_often() {
        let mut schedule = every(100, 1_000);
        let ms = Duration::from_millis;
        for (took_s, gap_ms, next) in [
            (0.000_6, 100, 1),
            // A third of 2 % of 300 ms.
            (0.001_9, 300, 3),
            (0.016_6, 2_500, 25),
            // Cheap again: the rhythm that was asked for returns, the widest gap is kept.
            (0.000_1, 100, 1),
        ] {
            schedule.hold_to_budget(Pass::Fast, 0, took_s);
            assert_eq!(schedule.gap(), ms(gap_ms), "{took_s}");
            assert_eq!(schedule.next_after(0, ms(0)), next, "{took_s}");
        }
        assert_eq!(schedule.widest, ms(2_500));
        // A slow one that falls between two others is made up for by the next.
        let all = taken(every(100, 1_000), 0.001_9, 0.001, 33);
        assert_eq!(slow(&all), [10, 22], "{all:?}");
    }

    /// After a stall of 20 s the slow samples that it took away are not made up for.
    #[test]
    fn a_stall_is_followed_by_one_slow_sample() {
        let mut schedule = every(100, 1_000);
        let tick = schedule.next_after(5, Duration::from_secs(20));
        let mut passes = Vec::new();
        for tick in tick..tick + 5 {
            let pass = schedule.pass(tick);
            schedule.hold_to_budget(pass, tick, 0.000_1);
            passes.push(pass);
        }
        let slow = passes.iter().filter(|pass| **pass == Pass::Slow);
        assert_eq!(slow.count(), 1, "{passes:?}");
    }

    #[test]
    fn dear_slow_samples_leave_the_fast_ones_their_time() {
        // 17 ms each are two thirds of a per cent of 2.5 s.
        let all = taken(every(100, 1_000), 0.000_5, 0.016_6, 70);
        assert_eq!(slow(&all), [10, 35, 60]);
        assert_eq!(all.len(), 70);
    }

    #[test]
    fn one_tick_a_slow_interval_is_slow() {
        let passes = |interval_ms, slow_ms| slow(&taken(every(interval_ms, slow_ms), 0.0, 0.0, 20));
        assert_eq!(passes(100, 1000), [10, 20]);
        assert_eq!(passes(300, 1000), [4, 8, 12, 16, 20]);
        assert_eq!(passes(2000, 1000).len(), 20);
        assert_eq!(passes(0, 0).len(), 20);
    }
}
