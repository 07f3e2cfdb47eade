//! Drives one prepared load with the monitors around it, on one clock.

use crate::terminal::Progress;
use monitor::{Observation, Watch, WatchConfig, Watched};
use record::{Clock, LoadOutcome, LoadSpec, Nanos};
use std::sync::Arc;
use traffic::{Load, LoadError, MonotonicClock};

/// What a load and the monitors brought.
pub struct Driven {
    /// The load's side.
    pub outcome: LoadOutcome,
    /// The monitors' side.
    pub watched: Observation,
}

/// Runs `load` to its end, or until `stop` says so; it is asked after every slice of the load.
///
/// # Errors
/// [`LoadError`] when the load threads cannot start.
pub fn drive(
    load: Load,
    spec: &LoadSpec,
    targets: Vec<Watched>,
    progress: &mut Progress,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Driven, LoadError> {
    let config = WatchConfig {
        targets,
        listen: vec![load.address()],
        ..WatchConfig::default()
    };
    let watch = Watch::start(&config, Arc::new(|| MonotonicClock.now()));
    let mut running = load.start()?;
    let stopper = running.stopper();
    let mut started: Option<Nanos> = None;
    while let Some(interval) = running.next_interval() {
        let started_at = *started.get_or_insert(interval.from);
        let line = report::text::progress_line(spec, started_at, &interval);
        progress.show(interval.to.since(started_at), &line);
        if stop() {
            stopper.stop();
        }
    }
    let outcome = running.finish();
    let watched = watch.stop();
    progress.clear();
    Ok(Driven { outcome, watched })
}
