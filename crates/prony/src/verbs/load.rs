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
use record::{LoadOutcome, ProcessRecord, TargetRecord, Warning};
use std::net::{SocketAddr, UdpSocket};
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
    let servers = local_servers(address);
    let mut progress = terminal::Progress::new("");
    let Driven {
        mut outcome,
        watched,
        profiled: _,
    } = drive(
        load,
        &spec,
        &Instrumentation::watching(servers.iter().map(|s| s.watched.clone()).collect()),
        &mut progress,
        &mut || interrupt.asked(),
    )
    .map_err(|e| super::load_failure(&e))?;
    let targets: Vec<TargetRecord> = servers.into_iter().map(|s| s.record).collect();
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

/// A server on this host that listens where the load goes.
struct LocalServer {
    watched: Watched,
    record: TargetRecord,
}

/// The processes that listen on `address`, when it is one of this host and they may be seen.
fn local_servers(address: SocketAddr) -> Vec<LocalServer> {
    // A local server on the same port is a stranger when the load goes to another host.
    let pids = if is_local(address) {
        sut::holder_of(address)
    } else {
        Vec::new()
    };
    if pids.is_empty() {
        return Vec::new();
    }
    vec![LocalServer {
        record: TargetRecord {
            name: "server".to_owned(),
            kind: "running".to_owned(),
            address: address.to_string(),
            processes: pids.iter().map(|&pid| describe(pid)).collect(),
            ..TargetRecord::default()
        },
        watched: Watched {
            target: "server".to_owned(),
            pids,
        },
    }]
}

/// Whether the address is one of this host: only those can be bound.
fn is_local(address: SocketAddr) -> bool {
    UdpSocket::bind((address.ip(), 0)).is_ok()
}

/// Whether something of this host has answered whose processes this user may not see.
fn servers_hidden(address: SocketAddr, outcome: &LoadOutcome, seen: &[TargetRecord]) -> bool {
    seen.is_empty() && outcome.requests.completed > 0 && is_local(address)
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

/// A process that listens. Which of several is the main one is not known from outside, so all are workers.
fn describe(pid: i32) -> ProcessRecord {
    ProcessRecord {
        pid,
        role: "worker".to_owned(),
        name: std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .map(|name| name.trim_end().to_owned())
            .unwrap_or_default(),
        cpus: linux::affinity::of(pid).unwrap_or_default(),
    }
}
