//! What the host offers: CPUs that may be used, the journal's place, the clock on the wall.

use crate::exit::{Exit, Failure};
use plan::{Lack, TrialPlan};
use record::Nanos;
use std::path::PathBuf;
use std::sync::OnceLock;
use sut::Network;

/// What the kernel says of itself below `/proc/sys/kernel`; empty where it cannot be read.
pub fn kernel(name: &str) -> String {
    let text = linux::Root::default().read(&format!("proc/sys/kernel/{name}"));
    text.unwrap_or_default().trim().to_owned()
}

/// Of the kernel that runs: two hosts with one are one machine.
pub fn boot_id() -> String {
    kernel("random/boot_id")
}

/// CPUs that this process may run on, rising.
pub fn allowed_cpus() -> Vec<u32> {
    linux::affinity::of(0).unwrap_or_else(|_| vec![0])
}

/// The same as it was when first asked: a thread that is pinned later does not change it.
pub fn allowed_cpus_at_start() -> &'static [u32] {
    static AT_START: OnceLock<Vec<u32>> = OnceLock::new();
    AT_START.get_or_init(allowed_cpus)
}

/// Refuses CPUs that are not there, before anything is started.
///
/// # Errors
/// A [`Failure`] of the environment that names them.
pub fn check_cpus(asked: &[u32], what: &str) -> Result<(), Failure> {
    let allowed = allowed_cpus();
    let missing: Vec<String> = asked
        .iter()
        .filter(|cpu| !allowed.contains(cpu))
        .map(u32::to_string)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        Exit::Environment,
        format!(
            "cannot pin {what} to CPU {}: this process may run on {} CPUs: {}",
            missing.join(", "),
            allowed.len(),
            allowed
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
        "change `cpus`, or run on a machine (or in a cgroup) with more CPUs",
    ))
}

/// What a trial needs and this host does not have: a server, a wrapper, a library to preload, control groups,
/// the right to make namespaces.
pub fn lack(trial: &TrialPlan) -> Option<Lack> {
    // What other hosts lack they are asked for when they are reached.
    let here = || (trial.targets.iter()).filter(|target| trial.reached_host(target).is_none());
    let targets = || here().find_map(sut::lacks);
    let topology = || Network::check(trial.topology.as_ref()?).err();
    let missing = targets().or_else(topology)?;
    Some(Lack {
        reason: missing.to_string(),
        remedy: missing.remedy(),
    })
}

/// Now, RFC 3339 with seconds, in UTC.
pub fn timestamp() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// The time of day in so many seconds, as the person at the terminal reads it.
pub fn time_of_day_in(span: Nanos) -> String {
    let seconds = i64::try_from(span.0 / 1_000_000_000).unwrap_or(i64::MAX);
    let now = jiff::Zoned::now();
    let then = now
        .checked_add(jiff::SignedDuration::from_secs(seconds))
        .unwrap_or(now);
    then.strftime("%H:%M:%S").to_string()
}

/// Now, for a directory's name.
pub fn timestamp_for_name() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// The running binary, which the built-in origin is started from.
///
/// # Errors
/// A [`Failure`] when the system does not tell.
pub fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|e| {
        Failure::new(
            Exit::Environment,
            format!("finding prony's own binary, to start the built-in origin from: {e}"),
            "mount /proc",
        )
    })
}
