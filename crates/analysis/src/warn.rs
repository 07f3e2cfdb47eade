//! What a reader must know beside the verdict: signs that do not make a result invalid, but colour it.

use crate::limit::{self, Limits};
use crate::observed::{Case, Observed, Window};
use crate::validity::{self, Schedule};
use crate::words::{percent, plural};
use crate::{Limit, steady};
use record::{LoadOutcome, LoadSpec, Series, TargetRecord, Warning};

/// Fewer successes than this give no p99.
const FEWEST_SUCCESSES: u64 = 100;
/// CPU of foreign processes, in cores, from which runs were seen to differ.
const FOREIGN_CORES: f64 = 0.2;
/// Share of a core that the hypervisor may take.
const STEAL: f64 = 0.02;
/// Connections in use by Little's law may differ this much from those asked.
const LITTLE_TOLERANCE: f64 = 0.1;

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
        not_steady(case),
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
            format!(
                "only {}: too few for a p99",
                plural(n, "request") + " succeeded"
            ),
            "run longer (--duration) or with more requests (--requests)",
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
            "give the generator more threads and cores of its own (--threads, --cpus)",
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

fn foreign_cpu(observed: &Observed) -> Option<Warning> {
    let cores = observed.foreign_cores()?;
    (cores > FOREIGN_CORES).then(|| {
        Warning::new(
            "foreign_cpu",
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
    let steady = steady::steady(case.outcome)?;
    (!steady.steady).then(|| {
        Warning::new(
            "not_steady",
            format!(
                "the rate of the second half differs from the first by {}",
                percent(steady.drift)
            ),
            "warm up longer (--warmup) or measure longer (--duration)",
        )
    })
}

fn starved_connections(case: &Case<'_>) -> Option<Warning> {
    let unanswered = case.outcome.connections.unanswered;
    (unanswered > 0).then(|| {
        Warning::new(
            "connections_without_an_answer",
            format!(
                "{} of {} never had an answer: the others' response times look better than the service is",
                unanswered,
                plural(u64::from(case.outcome.connections.asked), "connection")
            ),
            "see how the server shares connections among its workers",
        )
    })
}

/// A closed loop must hold Little's law; where it does not, time was lost that no request accounts for.
fn little_open(case: &Case<'_>) -> Option<Warning> {
    if case.spec.arrival.offered_per_s().is_some() {
        return None;
    }
    let little = limit::littles_law(case)?;
    ((little - 1.0).abs() > LITTLE_TOLERANCE).then(|| {
        Warning::new(
            "littles_law_open",
            format!(
                "rate x service time accounts for {} of the connections: the rest were connecting, failing or idle",
                percent(little)
            ),
            "look at errors, at the time to connect and at the connections opened",
        )
    })
}
