//! Drives one prepared load with the monitors around it, on one clock.

use crate::terminal::Progress;
use linux::Root;
use monitor::profile::{EndedProfile, ProfileConfig, Profiler};
use monitor::{Extras, Full, Observation, Watch, WatchConfig, Watched};
use record::{Clock, HostPart, Interval, LoadOutcome, LoadSpec, Nanos, Unavailable};
use std::net::SocketAddr;
use std::sync::Arc;
use traffic::{MonotonicClock, Running};

/// What stands around a load.
#[derive(Default)]
pub struct Instrumentation {
    /// The targets' processes to be sampled; `None` watches nothing at all, not even the host.
    pub watch: Option<Vec<Watched>>,
    /// What is watched on request.
    pub extras: Extras,
    /// The profile to be taken.
    pub profile: Option<ProfileConfig>,
}

impl Instrumentation {
    /// The monitors alone.
    pub fn watching(targets: Vec<Watched>) -> Self {
        Self {
            watch: Some(targets),
            ..Self::default()
        }
    }
}

/// What a load and the monitors brought.
pub struct Driven<T = LoadOutcome> {
    /// The load's side.
    pub outcome: T,
    /// What each host brought, of a load from others.
    pub hosts: Vec<HostPart>,
    /// The monitors' side.
    pub watched: Observation,
    /// The profile, when one was asked for, before its stacks are followed; or why there is none.
    pub profiled: Option<Result<EndedProfile, Unavailable>>,
}

impl<T> Driven<T> {
    /// No host of the load was lost.
    pub fn is_whole(&self) -> bool {
        self.hosts.iter().all(|part| part.carried().is_some())
    }
}

/// A load under way, wherever its threads are.
pub trait UnderWay {
    /// What comes of it.
    type Outcome;

    /// Waits for the next slice; `None` when the load is over.
    fn next_interval(&mut self) -> Option<Interval>;
    /// Ends it before its end.
    fn stop(&mut self);
    /// Says whether the server is known to be full.
    fn set_server_full(&mut self, is_full: bool);
    /// Waits for its end.
    fn finish(self) -> Self::Outcome;
}

impl UnderWay for Running {
    type Outcome = LoadOutcome;

    fn next_interval(&mut self) -> Option<Interval> {
        Running::next_interval(self)
    }

    fn stop(&mut self) {
        self.stopper().stop();
    }

    fn set_server_full(&mut self, is_full: bool) {
        Running::set_server_full(self, is_full);
    }

    fn finish(self) -> LoadOutcome {
        Running::finish(self)
    }
}

impl UnderWay for agent::Flow<'_> {
    type Outcome = agent::Gathered;

    fn next_interval(&mut self) -> Option<Interval> {
        agent::Flow::next_interval(self)
    }

    fn stop(&mut self) {
        agent::Flow::stop(self);
    }

    fn set_server_full(&mut self, is_full: bool) {
        agent::Flow::set_server_full(self, is_full);
    }

    fn finish(self) -> Self::Outcome {
        agent::Flow::finish(self)
    }
}

/// Runs a load to `address` that `start` starts, to its end or until `stop` says so; it is asked after every slice.
///
/// # Errors
/// Those of `start`.
pub fn drive_any<T: UnderWay, E>(
    address: Option<SocketAddr>,
    start: impl FnOnce() -> Result<T, E>,
    spec: &LoadSpec,
    around: &Instrumentation,
    progress: &mut Progress,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Driven<T::Outcome>, E> {
    progress.keep_off(&spec.cpus);
    let watch = around.watch.as_ref().map(|targets| {
        let config = WatchConfig {
            targets: targets.clone(),
            listen: Vec::from_iter(address),
            extras: around.extras,
            ..WatchConfig::default()
        };
        Watch::start(&config, Arc::new(|| MonotonicClock.now()))
    });
    let profiler = around.profile.as_ref().map(Profiler::start);
    let mut running = start()?;
    // A server that is full changes how a closed loop waits; an open one sees its responses at once.
    let may_gather = spec.arrival.offered_per_s().is_none();
    let mut full = (watch.as_ref().filter(|_| may_gather))
        .map(|watch| Full::new(Root::default(), watch.members(), MonotonicClock.now()));
    let mut started: Option<Nanos> = None;
    while let Some(interval) = running.next_interval() {
        let started_at = *started.get_or_insert(interval.from);
        let line = report::text::progress_line(spec, started_at, &interval);
        progress.show(interval.to.since(started_at), &line);
        if let Some(full) = &mut full {
            running.set_server_full(full.look(MonotonicClock.now()));
        }
        if stop() {
            running.stop();
        }
    }
    let outcome = running.finish();
    let profiled = profiler.map(|started| started.map(Profiler::end));
    let watched = watch.map(Watch::stop).unwrap_or_default();
    progress.clear();
    Ok(Driven {
        outcome,
        hosts: Vec::new(),
        watched,
        profiled,
    })
}
