//! `prony load`: one load, watched, judged, shown.
//!
//! Its surprise: when the URL is served by processes of this host, they are watched too, so that the
//! verdict can name the worker that limits.

use crate::cli::{Export, LoadArgs};
use crate::executor::drive::{Driven, Instrumentation, drive};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use analysis::Verdict;
use monitor::Watched;
use record::{Clock, LoadOutcome, LoadSpec, TargetRecord, Warning};
use report::export::WallTime;
use report::json::{LoadDocument, SloKept};
use std::net::SocketAddr;
use sut::discover;
use traffic::{Load, LoadError, MonotonicClock};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the load could not start.
pub fn run(args: &LoadArgs) -> Result<Exit, Failure> {
    let spec = args.spec();
    host::check_cpus(&spec.cpus, "the load threads")?;
    let interrupt = Interrupt::install()?;
    let measured = measure(&spec, args.load.error_limit, &interrupt, "")
        .map_err(|e| super::load_failure(&e))?;
    let Measured { outcome, verdict } = &measured;
    let slo = args.slo.as_ref().map(|slo| SloKept {
        asked: slo.to_string(),
        broken: slo.broken(outcome),
    });
    let document = LoadDocument {
        slo: slo.clone(),
        ..report::json::load_document(&spec, outcome, verdict)
    };
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        let style = terminal::style();
        let text = report::text::load_text(&spec, outcome, verdict, style);
        let slo = slo.as_ref().map(|slo| report::text::slo_text(slo, style));
        terminal::result(&(slo.unwrap_or_default() + &text))?;
    }
    export(&args.out, &document, outcome)?;
    let broken = slo.as_ref().map_or(0, |slo| slo.broken.len());
    Ok(match (outcome.interrupted, verdict.valid) {
        (true, _) => Exit::Interrupted,
        // Figures that cannot be used neither keep a service level nor miss it.
        (false, false) => Exit::Invalid,
        (false, true) if broken > 0 => Exit::Failed,
        (false, true) => Exit::Valid,
    })
}

/// A load that has ended, judged.
pub(super) struct Measured {
    pub outcome: LoadOutcome,
    pub verdict: Verdict,
}

/// Makes a load, watches the servers behind it that are of this host, and judges it.
///
/// # Errors
/// [`LoadError`] when the load could not start.
pub(super) fn measure(
    spec: &LoadSpec,
    error_limit: f64,
    interrupt: &Interrupt,
    prefix: &str,
) -> Result<Measured, LoadError> {
    let load = Load::prepare(spec)?;
    let address = load.address();
    let targets = Vec::from_iter(discover::listening_at(address));
    let mut progress = terminal::Progress::new(prefix);
    let Driven {
        mut outcome,
        watched,
        profiled: _,
    } = drive(
        load,
        spec,
        &Instrumentation::watching(targets.iter().map(watched).collect()),
        &mut progress,
        &mut || interrupt.asked(),
    )?;
    let verdict = analysis::judge_load(&outcome, &watched.series, spec, &targets, error_limit);
    let warnings = analysis::load_warnings(&outcome, &watched.series, spec, &targets, error_limit);
    outcome.warnings.extend(warnings);
    if servers_hidden(address, &outcome, &targets) {
        outcome.warnings.push(hidden_server(address));
    }
    Ok(Measured { outcome, verdict })
}

/// Writes the files of `--out`; `-` is standard output.
fn export(all: &[Export], document: &LoadDocument, outcome: &LoadOutcome) -> Result<(), Failure> {
    for Export { format, file } in all {
        let text = report::export::load(*format, document, outcome, wall_time(outcome));
        match file.to_str() {
            Some("-") => terminal::result(&text)?,
            _ => super::write_file(file, &text)?,
        }
    }
    Ok(())
}

/// The run's clock counts from the start of the host.
pub(super) fn wall_time(outcome: &LoadOutcome) -> WallTime {
    let now = jiff::Timestamp::now().as_nanosecond();
    let since = |at| i128::from(MonotonicClock.now().since(at).0);
    let wall = |at| u64::try_from(now - since(at)).unwrap_or(0);
    WallTime {
        from: wall(outcome.measured_from),
        to: wall(outcome.measured_to),
    }
}

fn watched(target: &TargetRecord) -> Watched {
    Watched {
        target: target.name.clone(),
        pids: target.processes.iter().map(|p| p.pid).collect(),
    }
}

/// Whether something of this host has answered whose processes this user may not see.
fn servers_hidden(address: SocketAddr, outcome: &LoadOutcome, seen: &[TargetRecord]) -> bool {
    seen.is_empty() && outcome.requests.completed > 0 && discover::is_local(address)
}

fn hidden_server(address: SocketAddr) -> Warning {
    Warning::new(
        "server_not_seen",
        format!(
            "{address} is on this host, but the server behind it was not watched: this user may not see its processes"
        ),
        "run prony as root or as the server's user",
    )
}
