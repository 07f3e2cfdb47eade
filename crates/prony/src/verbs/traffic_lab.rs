//! `prony traffic --lab` and `--lab-restore`: the laboratory, and what a killed one left.

use crate::cli::TrafficArgs;
use crate::executor;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::lab::program::{self, COALESCE, Placed};
use crate::lab::{self, Size, Work};
use crate::terminal;
use clap::ValueEnum;
use record::{Carrier, Clock, Nanos, TrafficSpec};
use std::collections::BTreeSet;
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
    let distinct: BTreeSet<&str> = args.lab_over.iter().map(|device| device.name()).collect();
    if distinct.len() < args.lab_over.len() {
        return Err(Failure::new(
            Exit::Usage,
            "--lab-over names a device twice".to_owned(),
            "name each once",
        ));
    }
    let interrupt = Interrupt::install()?;
    let launcher = executor::launcher()?;
    let mut progress = terminal::Progress::new("lab: ");
    let began = MonotonicClock.now();
    let size = Size {
        connections: args.connections,
        duration: args.duration.unwrap_or(EACH),
        coalesce: args.coalesce.unwrap_or(COALESCE),
        body: args.lab_body,
        works: args
            .lab_work
            .map_or_else(|| Work::value_variants().to_vec(), |work| vec![work]),
        initial_window: args.lab_initial_window,
        devices: match args.lab_over.as_slice() {
            [] => vec![Carrier::Tap, Carrier::AfXdp],
            named => named.to_vec(),
        },
        rounds: args.lab_rounds,
    };
    let document = lab::run(&launcher, &size, &|| interrupt.asked(), &mut |what| {
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

/// The laboratory around a traffic file, whose sides are placed in it.
///
/// # Errors
/// [`Failure`] when the file cannot run there, or the laboratory cannot be made.
pub fn place(
    args: &TrafficArgs,
    spec: &mut TrafficSpec,
    interrupt: &Interrupt,
) -> Result<Placed, Failure> {
    let device = match args.lab_over.as_slice() {
        [] => None,
        [device] => Some(*device),
        _ => {
            return Err(Failure::new(
                Exit::Usage,
                "a traffic file runs over one device".to_owned(),
                "name one with --lab-over",
            ));
        }
    };
    super::recover();
    let launcher = executor::launcher()?;
    let window = args.lab_initial_window;
    let placed = program::place(&launcher, spec, device, window, &|| interrupt.asked())?;
    if let Some(note) = &placed.note {
        terminal::note(note);
    }
    Ok(placed)
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
