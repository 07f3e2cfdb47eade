//! Time off the CPU by reason, per request and as a share of a single client's response time.
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
/// Reasons; a thread that is idle or waits for a CPU waits for none of them.
pub(super) const WAITS: [&str; 12] = [
    "disk", "lock", "sleep", "dns", "upstream", "client", "unix", "pipe", "child", "sync", "other",
    "file",
];

/// Of the waits for locks, those for locks on files.
const FILE_LOCK: &str = "file_lock";

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

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["blocked", "sched", "off-CPU", "signature"],
        "time off the CPU was not watched: there was no signature pass with it",
    );
    let signature = material.signature(&sheet.target);
    let blocked = signature.and_then(|s| s.blocked.as_deref());
    let (Some(blocked), Some(requests)) = (blocked, material.signature_requests()) else {
        for name in WAITS.into_iter().chain([FILE_LOCK]) {
            for last in ["us_per_request", "share"] {
                sheet.unknown(&format!("blocked.{name}_{last}"), &reason);
            }
        }
        return;
    };
    let mut waited_ns: BTreeMap<&str, f64> = WAITS.map(|r| (r, 0.0)).into();
    let mut futex_ns = 0.0;
    for wait in blocked {
        match reason_of(wait) {
            Some(reason) => {
                if let Some(sum) = waited_ns.get_mut(reason) {
                    *sum += wait.total_ns as f64;
                }
            }
            None => futex_ns += wait.total_ns as f64,
        }
    }
    let kept = housekeeping_share(material, &sheet.target);
    if let Some(sleep) = waited_ns.get_mut("sleep") {
        *sleep *= 1.0 - kept;
    }
    let parts = futex_parts(material, &sheet.target);
    let told = futex_ns == 0.0 || parts.is_some();
    let parts = parts.unwrap_or_default();
    for (name, share) in [("lock", parts.lock), ("sleep", parts.sleep)] {
        if let Some(ns) = waited_ns.get_mut(name) {
            *ns += futex_ns * share;
        }
    }
    let waits_ns = waited_ns.values().sum::<f64>();
    let locked = blocked.iter().filter(|wait| is_file_lock(&wait.call));
    let file_locks_ns: f64 = locked.map(|wait| wait.total_ns as f64).sum();
    let whole = whole_ns(material, &sheet.target, requests, waits_ns);
    let alone = alone_ns(material, &sheet.target, requests).or(whole);
    // A part of the time in locks, and so in none of the sums.
    waited_ns.insert(FILE_LOCK, file_locks_ns);
    for (name, ns) in &waited_ns {
        if !told && *name == "lock" {
            untold(name, sheet);
            continue;
        }
        if *name == "unix" && asked_over_unix(material, &sheet.target) {
            let reason = "its own clients come over a Unix socket: waiting for them cannot be told from waiting for a service";
            for last in ["us_per_request", "share"] {
                sheet.unknown(&format!("blocked.unix_{last}"), reason);
            }
            continue;
        }
        let us = ns / 1e3 / requests;
        sheet.known(&format!("blocked.{name}_us_per_request"), us, SOURCE);
        // Who waits for a lock waits for others: that is a part of the whole time.
        let whole = match *name {
            "lock" | FILE_LOCK => whole,
            _ => alone,
        };
        let part = Some(ns.min(whole.unwrap_or(*ns)));
        let reason = "there is no response time to hold it against";
        sheet.divided(
            &format!("blocked.{name}_share"),
            part,
            whole,
            SOURCE,
            reason,
        );
    }
}

/// Whether it listens on a Unix socket, whose connections have the class of those that it opened itself.
fn asked_over_unix(material: &Material<'_>, target: &str) -> bool {
    let server = material.server(target);
    let named = server.is_some_and(|s| {
        s.listens
            .iter()
            .any(|l| l.starts_with('/') || l.starts_with('@'))
    });
    // The one behind it knows it by its path as well.
    let servers = material.examination().map(|e| e.servers.as_slice());
    let mut peers = servers
        .unwrap_or_default()
        .iter()
        .flat_map(|s| &s.upstreams);
    named || peers.any(|p| p.target.as_deref() == Some(target) && p.address.starts_with('/'))
}

/// Locks on files, which processes take as well as threads.
fn is_file_lock(call: &str) -> bool {
    matches!(call, "flock" | "fcntl")
}

fn untold(name: &str, sheet: &mut Sheet<'_>) {
    let reason = "threads waited in a futex, and without stacks off the CPU a lock cannot be told from an idle pool";
    for last in ["us_per_request", "share"] {
        sheet.unknown(&format!("blocked.{name}_{last}"), reason);
    }
}

/// What all requests of the pass took, by a single client's mean; the window of the pass without one. Of watched
/// traffic: by the mean turn, and without turns what is seen of it: CPU time, waits and upstreams.
fn whole_ns(material: &Material<'_>, target: &str, requests: f64, waits_ns: f64) -> Option<f64> {
    let window = || {
        let signature = material.examination()?.signature.as_ref()?;
        Some(signature.window_ns as f64)
    };
    let watched = || {
        material.watching()?;
        if let Some(turns) = material.turns(target).filter(|t| t.account.turns > 0) {
            let mean = turns.account.total_ns as f64 / turns.account.turns as f64;
            return Some(mean * requests);
        }
        let signature = material.signature(target)?;
        let cpu = signature.cpu_user_ns? + signature.cpu_system_ns?;
        let upstreams = signature.upstreams.iter().flatten();
        let asked: u64 = upstreams.map(|u| u.wait_ns).sum();
        Some(cpu as f64 + asked as f64 + waits_ns)
    };
    let single_client = material.single_client_mean_ns().map(|ns| ns * requests);
    let known = single_client.or_else(watched).or_else(window);
    known.filter(|ns| *ns > 0.0)
}

/// Of watched traffic: what all requests of the pass would have taken alone, which is what a single client's load tells
/// otherwise.
fn alone_ns(material: &Material<'_>, target: &str, requests: f64) -> Option<f64> {
    material.watching()?;
    let service = crate::ledger::service(material.examination()?, target)?;
    let alone = service.alone_ns + service.sending_ns + service.hidden_ns;
    (alone > 0.0).then_some(alone / service.turns * requests)
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
        // It began before the probes did, in whatever call.
        (_, "", _) => "unseen",
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
