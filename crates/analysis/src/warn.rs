//! What a reader must know beside the verdict: signs that do not make a result invalid, but colour it.

use crate::limit::{self, Limits};
use crate::observed::{Case, Observed, Window};
use crate::stats::share;
use crate::validity::{self, Schedule};
use crate::words::{count, percent, plural};
use crate::{Limit, steady};
use record::{LoadOutcome, LoadSpec, Series, TargetRecord, Warning};

/// Fewer successes than this give no p99.
const FEWEST_SUCCESSES: u64 = 100;
/// Name of the warning about programs outside the experiment.
pub(crate) const FOREIGN_CPU: &str = "foreign_cpu";
/// CPU of foreign processes, in cores, from which runs were seen to differ.
const FOREIGN_CORES: f64 = 0.2;
/// Share of a core that the hypervisor may take.
const STEAL: f64 = 0.02;
/// Share of late requests from which it is worth a word.
const LATE: f64 = 0.01;

/// Warnings about one load; the arguments are those of [`crate::judge_load`]. Those that the load itself
/// stored (`outcome.warnings`) are not repeated here.
pub fn load_warnings(
    outcome: &LoadOutcome,
    series: &[Series],
    spec: &LoadSpec,
    targets: &[TargetRecord],
    error_limit: f64,
) -> Vec<Warning> {
    let case = Case {
        outcome,
        series,
        spec,
        targets,
        error_limit,
    };
    warnings(&case, &Observed::of(&case))
}

pub(crate) fn warnings(case: &Case<'_>, observed: &Observed) -> Vec<Warning> {
    if case.outcome.requests.succeeded == 0 {
        return Vec::new();
    }
    let met = matches!(validity::schedule(case), Schedule::Met | Schedule::None);
    let limits = limit::limits(case, observed, met);
    [
        few_successes(case),
        no_head_room(&limits),
        listen_drops(case, &limits),
        foreign_cpu(observed),
        steal(observed),
        left_its_cpus(case),
        not_steady(case),
        schedule_slipped(case, met),
        starved_connections(case),
        little_open(case),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn few_successes(case: &Case<'_>) -> Option<Warning> {
    let n = case.outcome.requests.succeeded;
    (n < FEWEST_SUCCESSES).then(|| {
        Warning::new(
            "few_successes",
            match case.spec.sse {
                true => format!("only {} came: too few for a p99", plural(n, "event")),
                false => format!("only {} succeeded: too few for a p99", plural(n, "request")),
            },
            "run longer (`measure`, --duration) or with more requests (--requests)",
        )
    })
}

fn no_head_room(limits: &Limits) -> Option<Warning> {
    let generator = limits.generator.as_ref()?;
    (limits.finding.limit == Limit::Server).then(|| {
        Warning::new(
            "generator_without_head_room",
            format!(
                "server and generator were saturated at once, so the server may do somewhat more: {}",
                generator.why
            ),
            "give the generator more threads and cores of its own (`threads`, --threads; `cpus`, --cpus)",
        )
    })
}

fn listen_drops(case: &Case<'_>, limits: &Limits) -> Option<Warning> {
    let window = Window::of(case.outcome);
    let overflows = window.grown(case.series, "tcp.listen_overflows")?;
    (overflows >= 1.0 && limits.finding.resource != "listen_queue").then(|| {
        Warning::new(
            "listen_overflows",
            format!(
                "the listen queue overflowed {}: a client that is dropped waits 1 s or more",
                plural(overflows.round() as u64, "time")
            ),
            "raise the server's backlog and net.core.somaxconn; while its worker is saturated that only moves the wait",
        )
    })
}

/// A server that pins its workers by itself, as nginx's `worker_cpu_affinity auto` does over all CPUs of the host.
fn left_its_cpus(case: &Case<'_>) -> Option<Warning> {
    let strays = case.targets.iter().find_map(|target| {
        let mut processes = target.processes.iter();
        let stray = processes.find(|p| {
            let elsewhere = p.cpus.iter().any(|cpu| !target.cpus.contains(cpu));
            elsewhere && !target.cpus.is_empty()
        })?;
        Some((target, stray))
    });
    let listed = |cpus: &[u32]| {
        let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
        words.join(", ")
    };
    strays.map(|(target, stray)| {
        Warning::new(
            "left_its_cpus",
            format!(
                "target `{}` was given CPU {}, and its process {} may run on CPU {}: it set that by itself",
                target.name,
                listed(&target.cpus),
                stray.pid,
                listed(&stray.cpus)
            ),
            "take the pinning out of its configuration (nginx: `worker_cpu_affinity`), or give it the same CPUs there \
             (`{{cpu_mask}}` in a template)",
        )
    })
}

fn foreign_cpu(observed: &Observed) -> Option<Warning> {
    let cores = observed.foreign_cores()?;
    (cores > FOREIGN_CORES).then(|| {
        Warning::new(
            FOREIGN_CPU,
            format!(
                "processes outside the experiment used {cores:.2} cores during the measurement"
            ),
            "stop them or measure again: results differ from about 0.2 cores on",
        )
    })
}

fn steal(observed: &Observed) -> Option<Warning> {
    let (core, steal) = observed
        .cores
        .iter()
        .map(|(core, used)| (core, used.mode("steal")))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    (steal > STEAL).then(|| {
        Warning::new(
            "steal",
            format!("the hypervisor took {} of core {core}", percent(steal)),
            "measure again at a quieter time, or on a host without neighbours",
        )
    })
}

fn not_steady(case: &Case<'_>) -> Option<Warning> {
    let steady = steady::steady(case.outcome, case.spec)?;
    (!steady.steady).then(|| {
        Warning::new(
            "not_steady",
            format!(
                "the rate of the second half is {} {} that of the first",
                percent(steady.drift.abs()),
                if steady.drift < 0.0 { "below" } else { "above" }
            ),
            "warm up longer (`warmup`, --warmup) or measure longer (`measure`, --duration)",
        )
    })
}

/// A schedule may be met on the whole and still slip for a while, for example when a server freezes.
fn schedule_slipped(case: &Case<'_>, met: bool) -> Option<Warning> {
    let requests = &case.outcome.requests;
    let late = share(requests.late as f64, requests.scheduled as f64).unwrap_or(0.0);
    (met && (requests.dropped > 0 || late > LATE)).then(|| {
        Warning::new(
            "schedule_slipped",
            format!(
                "{} of the requests were sent late and {} never, because all connections were busy; their \
                 wait is part of the response times",
                percent(late),
                count(requests.dropped)
            ),
            "compare response with service time; more connections (`connections`, --connections) show the server alone",
        )
    })
}

fn starved_connections(case: &Case<'_>) -> Option<Warning> {
    let unanswered = case.outcome.connections.unanswered;
    let asked = plural(u64::from(case.outcome.connections.asked), "connection");
    if case.spec.sse && unanswered > 0 {
        return Some(Warning::new(
            "connections_without_an_answer",
            format!("{unanswered} of {asked} never had an event"),
            "see to whom the server sends its events",
        ));
    }
    (unanswered > 0).then(|| {
        Warning::new(
            "connections_without_an_answer",
            format!(
                "{unanswered} of {asked} never had a response: the others' response times look better than the service is"
            ),
            "see how the server shares connections among its workers",
        )
    })
}

/// A closed loop must hold Little's law; where it does not, time was lost that no request accounts for.
fn little_open(case: &Case<'_>) -> Option<Warning> {
    if case.spec.arrival.offered_per_s().is_some() || case.spec.is_probe() {
        return None;
    }
    let little = limit::littles_law(case)?;
    ((little - 1.0).abs() > limit::LITTLE_TOLERANCE).then(|| {
        let meaning = if little < 1.0 {
            "the others were not waiting for an answer, but connecting, failing or between two requests, so \
             that fewer connections loaded the server than were asked"
        } else {
            "more than there are, so either figure is off: too few long requests for the measured time"
        };
        Warning::new(
            "littles_law_open",
            format!(
                "rate x service time accounts for {} of the connections (Little's law): {meaning}",
                percent(little)
            ),
            "look at errors, at the time to connect and at the connections opened, or measure longer \
             (`measure`, --duration)",
        )
    })
}
