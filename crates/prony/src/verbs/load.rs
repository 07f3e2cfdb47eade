//! `prony load`: one load, watched, judged, shown.
//!
//! Its surprise: when the URL is served by processes of this host, they are watched too, so that the
//! verdict can name the worker that limits.

use crate::cli::LoadArgs;
use crate::executor::drive::{Driven, Instrumentation, drive};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use monitor::Watched;
use record::{LoadOutcome, TargetRecord, Warning};
use std::net::SocketAddr;
use sut::discover;
use traffic::Load;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the load could not start.
pub fn run(args: &LoadArgs) -> Result<Exit, Failure> {
    let spec = args.spec();
    host::check_cpus(&spec.cpus, "the load threads")?;
    let interrupt = Interrupt::install()?;
    let load = Load::prepare(&spec).map_err(|e| super::load_failure(&e))?;
    let address = load.address();
    let targets = Vec::from_iter(discover::listening_at(address));
    let mut progress = terminal::Progress::new("");
    let Driven {
        mut outcome,
        watched,
        profiled: _,
    } = drive(
        load,
        &spec,
        &Instrumentation::watching(targets.iter().map(watched).collect()),
        &mut progress,
        &mut || interrupt.asked(),
    )
    .map_err(|e| super::load_failure(&e))?;
    let verdict = analysis::judge_load(
        &outcome,
        &watched.series,
        &spec,
        &targets,
        args.load.error_limit,
    );
    outcome.warnings.extend(analysis::load_warnings(
        &outcome,
        &watched.series,
        &spec,
        &targets,
        args.load.error_limit,
    ));
    if servers_hidden(address, &outcome, &targets) {
        outcome.warnings.push(hidden_server(address));
    }
    if args.json {
        let document = report::json::load_document(&spec, &outcome, &verdict);
        terminal::result(&super::to_json(&document))?;
    } else {
        let style = terminal::style();
        terminal::result(&report::text::load_text(&spec, &outcome, &verdict, style))?;
    }
    Ok(match (outcome.interrupted, verdict.valid) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Valid,
        (false, false) => Exit::Invalid,
    })
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
