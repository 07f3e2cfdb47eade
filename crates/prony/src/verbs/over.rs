//! A load that other hosts carry, measured and judged as one.

use super::load::Measured;
use crate::executor::drive::{Driven, Instrumentation, drive_any};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::terminal;
use agent::clock::Estimate;
use agent::{Ended, Fleet, FleetError, Gathered};
use analysis::{HostPart, PartEnd, Verdict};
use record::{Carrier, LoadOutcome, LoadSpec, Part};
use report::hosts::{AgentCarried, AgentFigures, AgentState, ClockSeen};
use sut::discover;

/// Makes a load from the hosts of `fleet`, watches the servers behind it that are of this host, and judges it.
///
/// # Errors
/// [`Failure`] when an agent does not start its part, or none carried it to its end.
pub fn measure(
    fleet: &mut Fleet,
    spec: &LoadSpec,
    error_limit: f64,
    interrupt: &Interrupt,
    prefix: &str,
) -> Result<Measured, Failure> {
    let hosts = fleet.agents().iter();
    let hosts = hosts.map(|agent| (agent.host.clone(), agent.hello.boot_id.clone()));
    let hosts: Vec<(String, String)> = hosts.collect();
    let address = traffic::address_of(spec);
    let targets = Vec::from_iter(address.and_then(discover::listening_at));
    let watching = targets.iter().map(super::load::watched).collect();
    let mut progress = terminal::Progress::new(prefix);
    let driven = drive_any(
        address,
        || fleet.start(spec),
        spec,
        &Instrumentation::watching(watching),
        &mut progress,
        &mut || interrupt.asked(),
    );
    let Driven {
        outcome: gathered,
        watched,
        ..
    } = driven.map_err(|e| failure(&e))?;
    let Some(mut outcome) = gathered.sum() else {
        return Err(none(&hosts, &gathered));
    };
    // A host that was lost stops the others, which is no person's doing.
    outcome.interrupted = interrupt.asked();
    let sum = analysis::judge_load(&outcome, &watched.series, spec, &targets, error_limit);
    let warnings = analysis::load_warnings(&outcome, &watched.series, spec, &targets, error_limit);
    outcome.warnings.extend(warnings);
    let parts: Vec<_> = (hosts.iter().zip(&gathered.parts))
        .map(|((host, boot_id), (part, ended))| HostPart {
            host,
            boot_id,
            part: *part,
            end: end(ended),
        })
        .collect();
    let (verdict, verdicts, warnings) = analysis::judge_parts(sum, &parts, spec, error_limit);
    outcome.warnings.extend(warnings);
    let agents = hosts.iter().zip(&gathered.parts).zip(verdicts);
    let agents = agents.map(|(((host, _), (part, ended)), verdict)| {
        figures(host, *part, ended, verdict, &outcome)
    });
    Ok(Measured {
        agents: agents.collect(),
        outcome,
        verdict,
    })
}

/// Refuses what only one host can send.
///
/// # Errors
/// [`Failure`] that names the flag.
pub fn check(spec: &LoadSpec, is_search: bool) -> Result<(), Failure> {
    let refused = |what: &str, why: &str| {
        Err(Failure::new(
            Exit::Usage,
            format!("{what} cannot be given for a load from other hosts: {why}"),
            "leave one of them out",
        ))
    };
    if spec.transport != Carrier::Kernel {
        return refused("--transport", "agents use the TCP of their kernels");
    }
    if spec.unix.is_some() {
        return refused("--unix", "the socket is a file of one host");
    }
    if spec.habits.log_requests > 0 {
        return refused("a log of every request", "it stays on the hosts");
    }
    if is_search {
        return refused("a search", "its steps are sent from one host");
    }
    Ok(())
}

fn failure(error: &FleetError) -> Failure {
    let exit = match error {
        FleetError::Divide { .. } | FleetError::File { .. } => Exit::Usage,
        FleetError::Refused { refusal, .. } => Exit::of(refusal.exit),
        FleetError::Host(_) => Exit::Environment,
    };
    Failure::new(exit, error.to_string(), error.remedy())
}

/// No host carried its part to the end.
fn none(hosts: &[(String, String)], gathered: &Gathered) -> Failure {
    let whys = hosts
        .iter()
        .zip(&gathered.parts)
        .map(|((host, _), (_, ended))| match end(ended) {
            PartEnd::Not(why) => format!("{host}: {why}"),
            PartEnd::Carried { .. } => format!("{host}: carried"),
        });
    Failure::new(
        Exit::Invalid,
        format!(
            "no host carried its part: {}",
            whys.collect::<Vec<_>>().join("; ")
        ),
        "look at the hosts and at the connections to them, and repeat the load",
    )
}

fn end(ended: &Ended) -> PartEnd<'_> {
    match ended {
        Ended::Done(carried) => PartEnd::Carried {
            outcome: &carried.done.outcome,
            series: &carried.done.series,
            start_late_ns: carried.start_late_ns,
            clock_bound_ns: carried.line.bound_ns(),
        },
        Ended::Refused(refusal) => PartEnd::Not(refusal.what.clone()),
        Ended::Lost { what, after } => PartEnd::Not(format!("{what}, {after} after the start")),
    }
}

/// A clock as it was looked at once.
pub fn clock(seen: &Estimate) -> ClockSeen {
    ClockSeen {
        offset_ns: seen.offset_ns,
        bound_ns: seen.bound_ns(),
        rate_ppm: None,
        round_trip_ns: seen.round_trip_ns,
    }
}

fn figures(
    host: &str,
    part: Part,
    ended: &Ended,
    verdict: Option<Verdict>,
    sum: &LoadOutcome,
) -> AgentFigures {
    let state = match ended {
        Ended::Done(carried) => {
            let outcome = &carried.done.outcome;
            let share = |own: u64, all: u64| own as f64 / all.max(1) as f64;
            AgentState::Carried(Box::new(AgentCarried {
                connections: outcome.connections.clone(),
                completed: outcome.requests.completed,
                succeeded: outcome.requests.succeeded,
                failed: outcome.requests.failures(),
                achieved_per_s: outcome.achieved_per_s(),
                share_of_requests: share(outcome.requests.completed, sum.requests.completed),
                response_ns: analysis::LatencySummary::of(&outcome.response),
                histogram: outcome.response.to_base64(),
                utilization: outcome.generator.utilization(),
                start_late_ns: carried.start_late_ns,
                clock: ClockSeen {
                    offset_ns: carried.line.offset_ns(outcome.measured_from),
                    bound_ns: carried.line.bound_ns(),
                    rate_ppm: Some(carried.line.rate_ppm()),
                    round_trip_ns: carried.line.round_trip_ns(),
                },
                verdict,
                unavailable: carried.done.unavailable.clone(),
            }))
        }
        Ended::Refused(refusal) => AgentState::Refused {
            why: refusal.what.clone(),
            remedy: refusal.remedy.clone(),
        },
        Ended::Lost { what, after } => AgentState::Lost {
            why: what.clone(),
            after_s: after.as_secs_f64(),
        },
    };
    AgentFigures {
        host: host.to_owned(),
        threads: part.threads,
        state,
    }
}
