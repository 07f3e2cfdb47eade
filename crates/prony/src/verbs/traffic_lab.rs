//! `prony traffic --lab` and `--lab-restore`: the laboratory, and what a killed one left.

use crate::cli::TrafficArgs;
use crate::executor;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::lab::{self, Size};
use crate::terminal;
use record::{Clock, Nanos};
use traffic::MonotonicClock;

/// Length of each load, unless another one was asked for.
const EACH: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the laboratory cannot be made or taken away.
pub fn run(args: &TrafficArgs) -> Result<Exit, Failure> {
    let (found, failed) = super::recover();
    if args.lab_restore {
        return restored(found, failed);
    }
    let interrupt = Interrupt::install()?;
    let launcher = executor::launcher()?;
    let mut progress = terminal::Progress::new("lab: ");
    let began = MonotonicClock.now();
    let size = Size {
        connections: args.connections,
        duration: args.duration.unwrap_or(EACH),
        coalesce: args.coalesce,
    };
    let document = lab::run(&launcher, size, &|| interrupt.asked(), &mut |what| {
        let elapsed: Nanos = MonotonicClock.now().since(began);
        progress.show(elapsed, what);
    })?;
    drop(progress);
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::result(&report::lab::text(&document, terminal::style()))?;
    }
    Ok(match () {
        () if document.interrupted => Exit::Interrupted,
        () if document.rows.iter().any(|row| row.requests == 0) => Exit::Invalid,
        () => Exit::Valid,
    })
}

fn restored(found: usize, failed: usize) -> Result<Exit, Failure> {
    if found == 0 {
        terminal::note("nothing was left by a killed prony");
    }
    if failed > 0 {
        return Err(Failure::new(
            Exit::Environment,
            format!("{failed} of {found} changes of this host could not be undone"),
            "see the warnings above, and run it as the user who ran the killed one",
        ));
    }
    Ok(Exit::Valid)
}
