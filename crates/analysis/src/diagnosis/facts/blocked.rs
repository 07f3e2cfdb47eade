//! Time off the CPU by reason, per request and as a share of a lone client's response time.
//!
//! The surprise is the futex: threads of an idle pool wait in it as well as threads that want a lock. The
//! off-CPU stacks tell the two apart; without them time in a futex stays unknown as a wait for a lock. A sleep is
//! ambiguous too: threads that keep house (a runtime's monitor, a pool's trimmer) sleep beside the requests.

use super::calls::POLLS;
use super::{Material, Sheet};
use crate::diagnosis::work;
use record::{Blocked, FdClass, Profile, ProfileKind, WaitState};
use std::collections::{BTreeMap, BTreeSet};

const SOURCE: &str = "signature: sched_switch";
const REASONS: [&str; 14] = [
    "disk", "lock", "sleep", "dns", "upstream", "client", "unix", "pipe", "child", "sync", "idle",
    "runnable", "other", "file",
];
/// Reasons that cost a request nothing: nothing to do, a slow reader, a CPU that others use.
const NO_WAIT: [&str; 3] = ["idle", "runnable", "client"];

/// Kernel functions in which a thread that serves connections is met now and then.
const SOCKETS: [&str; 7] = [
    "sock_",
    "inet_",
    "tcp_",
    "unix_stream",
    "ep_poll",
    "epoll_wait",
    "do_sys_poll",
];

#[derive(Clone, Copy, Default)]
struct Waited {
    ns: f64,
    max_ns: u64,
}

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["blocked", "sched", "off-CPU", "signature"],
        "time off the CPU was not watched: there was no signature pass with it",
    );
    let signature = material.signature(&sheet.target);
    let blocked = signature.and_then(|s| s.blocked.as_deref());
    let (Some(blocked), Some(requests)) = (blocked, material.signature_requests()) else {
        for name in REASONS {
            for last in ["us_per_request", "share", "max_ms"] {
                sheet.unknown(&format!("blocked.{name}_{last}"), &reason);
            }
        }
        sheet.unknown("blocked.total_us_per_request", &reason);
        return;
    };
    let mut waited: BTreeMap<&str, Waited> = REASONS.map(|r| (r, Waited::default())).into();
    let mut futex = Waited::default();
    for wait in blocked {
        let sum = match reason_of(wait) {
            Some(reason) => waited.entry(reason).or_default(),
            None => &mut futex,
        };
        sum.ns += wait.total_ns as f64;
        sum.max_ns = sum.max_ns.max(wait.max_ns);
    }
    let kept = housekeeping_share(material, &sheet.target);
    let slept = waited.get("sleep").map_or(0.0, |w| w.ns) * kept;
    if let Some(sleep) = waited.get_mut("sleep") {
        sleep.ns -= slept;
    }
    if let Some(idle) = waited.get_mut("idle") {
        idle.ns += slept;
    }
    let parts = futex_parts(material, &sheet.target);
    let told = futex.ns == 0.0 || parts.is_some();
    let parts = parts.unwrap_or_default();
    for (name, share) in [("lock", parts.lock), ("sleep", parts.sleep)] {
        if let Some(wait) = waited.get_mut(name).filter(|_| share > 0.0) {
            wait.ns += futex.ns * share;
            wait.max_ns = wait.max_ns.max(futex.max_ns);
        }
    }
    if let Some(idle) = waited.get_mut("idle") {
        idle.ns += futex.ns * (1.0 - parts.lock - parts.sleep);
    }
    let whole = whole_ns(material, requests);
    for (name, wait) in &waited {
        if !told && matches!(*name, "lock" | "idle") {
            untold(name, sheet);
            continue;
        }
        let us = wait.ns / 1e3 / requests;
        sheet.known(&format!("blocked.{name}_us_per_request"), us, SOURCE);
        sheet.known(
            &format!("blocked.{name}_max_ms"),
            wait.max_ns as f64 / 1e6,
            SOURCE,
        );
        let part = Some(wait.ns).map(|ns| ns.min(whole.unwrap_or(ns)));
        let reason = "there is no response time to hold it against";
        sheet.divided(
            &format!("blocked.{name}_share"),
            part,
            whole,
            SOURCE,
            reason,
        );
    }
    let total: f64 = waited
        .iter()
        .filter(|(name, _)| !NO_WAIT.contains(name))
        .map(|(_, w)| w.ns)
        .sum();
    sheet.known(
        "blocked.total_us_per_request",
        total / 1e3 / requests,
        SOURCE,
    );
}

fn untold(name: &str, sheet: &mut Sheet<'_>) {
    let reason = "threads waited in a futex, and without stacks off the CPU a lock cannot be told from an idle pool";
    for last in ["us_per_request", "share", "max_ms"] {
        sheet.unknown(&format!("blocked.{name}_{last}"), reason);
    }
}

/// What all requests of the pass took, by a lone client's mean; the window of the pass without one.
fn whole_ns(material: &Material<'_>, requests: f64) -> Option<f64> {
    let window = || {
        let signature = material.examination()?.signature.as_ref()?;
        Some(signature.window_ns as f64)
    };
    let lone = material.lone_mean_ns().map(|ns| ns * requests);
    lone.or_else(window).filter(|ns| *ns > 0.0)
}

/// `None` for a futex, whose reason the call does not tell.
fn reason_of(wait: &Blocked) -> Option<&'static str> {
    let syncs = [
        "fsync",
        "fdatasync",
        "sync",
        "msync",
        "sync_file_range",
        "syncfs",
    ];
    Some(match (wait.state, wait.call.as_str(), wait.class) {
        (WaitState::Runnable, _, _) => "runnable",
        (_, call, _) if syncs.contains(&call) => "sync",
        (WaitState::Disk, _, _) => "disk",
        (_, "futex" | "futex_wait" | "futex_waitv", _) => return None,
        (_, "flock" | "fcntl" | "semop" | "semtimedop", _) => "lock",
        (_, "nanosleep" | "clock_nanosleep", _) => "sleep",
        (_, "wait4" | "waitid" | "vfork", _) => "child",
        (_, _, FdClass::Udp) => "dns",
        (_, _, FdClass::Upstream) => "upstream",
        (_, _, FdClass::Client) => "client",
        (_, _, FdClass::Unix) => "unix",
        (_, _, FdClass::Pipe) => "pipe",
        (_, _, FdClass::File) => "file",
        (_, _, FdClass::Listener | FdClass::Poll) => "idle",
        (_, call, _) if waits_for_events(call) => "idle",
        _ => "other",
    })
}

fn waits_for_events(call: &str) -> bool {
    let others = [
        "accept",
        "accept4",
        "rt_sigtimedwait",
        "rt_sigsuspend",
        "pause",
    ];
    POLLS.contains(&call) || others.contains(&call)
}

/// Of the time in sleeps, the share of threads that serve nobody: the stack says so, or no stack of a thread of that
/// name ever touches a socket. All of it counts as the requests' without stacks.
fn housekeeping_share(material: &Material<'_>, target: &str) -> f64 {
    let profiles = || material.examination().into_iter().flat_map(|e| &e.profiles);
    let touches = |symbol: &str| SOCKETS.iter().any(|s| symbol.contains(s));
    let mut serving: BTreeSet<&str> = BTreeSet::new();
    for profile in profiles() {
        for stack in profile.stacks.iter().filter(|s| s.target == target) {
            let frames = work::frames(profile, stack);
            if frames.iter().any(|f| f.kernel && touches(&f.symbol)) {
                serving.insert(stack.thread.as_str());
            }
        }
    }
    let (mut house, mut all) = (0.0, 0.0);
    for profile in profiles().filter(|p| p.kind == ProfileKind::OffCpu) {
        for stack in profile.stacks.iter().filter(|s| s.target == target) {
            let frames = work::frames(profile, stack);
            if !frames
                .iter()
                .any(|f| f.kernel && f.symbol.contains("nanosleep"))
            {
                continue;
            }
            all += stack.weight as f64;
            let serves = serving.contains(stack.thread.as_str());
            if !serves || work::works().is(profile, stack, "housekeeping") {
                house += stack.weight as f64;
            }
        }
    }
    if all > 0.0 { house / all } else { 0.0 }
}

/// Shares of the time in futexes; the rest is idle.
#[derive(Clone, Copy, Default)]
struct FutexParts {
    lock: f64,
    /// Runtimes whose sleep is a wait on a condition with a time-out.
    sleep: f64,
}

/// What the stacks of waits in futexes show; `None` without such stacks.
fn futex_parts(material: &Material<'_>, target: &str) -> Option<FutexParts> {
    let profiles = material.examination()?.profiles.iter();
    let mut profiles = profiles.filter(|p| p.kind == ProfileKind::OffCpu);
    let profile: &Profile = profiles.next()?;
    let (mut parts, mut all) = (FutexParts::default(), 0.0);
    for stack in profile.stacks.iter().filter(|s| s.target == target) {
        let frames = work::frames(profile, stack);
        if !frames
            .iter()
            .any(|f| f.kernel && f.symbol.contains("futex"))
        {
            continue;
        }
        let weight = stack.weight as f64;
        all += weight;
        if work::works().is(profile, stack, "sleep_wait") {
            parts.sleep += weight;
        } else if work::works().is(profile, stack, "lock_wait") {
            parts.lock += weight;
        }
    }
    (all > 0.0).then(|| FutexParts {
        lock: parts.lock / all,
        sleep: parts.sleep / all,
    })
}
