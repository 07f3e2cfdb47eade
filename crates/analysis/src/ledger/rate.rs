//! What limits the rate, when that is CPU: the time of the full cores, or of the one full thread, as rows.
//!
//! The total is wall time that the kernel counted; samples only say how the server's own part of it is divided. So
//! the rows add up whatever the sampler missed. What it cannot see is a row: a sample that comes due while interrupts
//! are off is taken when they are on again, and what a thread runs on its way off a CPU that then rests is taken for
//! that rest.

use super::cpu::{CpuRow, cpu_rows};
use super::types::{Account, Basis, Branch, Row};
use super::{beside, branch, need, started, told};
use crate::diagnosis::{FactSet, cpu_wanted_by_itself};
use crate::limit::core_list;
use crate::observed::{Observed, TaskUse, timing_profile};
use record::{Examination, PlaceTold, Profile, Server, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// A thread with this demand has no time off.
const FULL: f64 = 0.9;
/// A target that uses this share of its cores is limited by them, and not by one thread.
const CORES: f64 = 0.8;
/// Fewer samples than this say nothing about rows of a tenth.
const FEWEST: u64 = 50;
/// A thread below this share takes no part.
const ACTIVE: f64 = 0.02;
/// Programs that are started for a request from which on they are told by themselves.
const STARTS: f64 = 0.05;
/// A row with this part of a branch is all of it, up to chance.
const NEARLY: f64 = 0.9;
/// Standard errors by which samples must fall short of the run time.
const SURE: f64 = 3.0;

/// What the CPU account of a target is made of.
pub(super) struct CpuCase<'a> {
    pub target: &'a str,
    pub observed: &'a Observed,
    pub examination: Option<&'a Examination>,
    pub facts: &'a FactSet,
    /// Length of the window, s, and requests in it.
    pub seconds: f64,
    pub requests: Option<f64>,
}

/// The account of a target's CPU, or why there is none.
pub(super) fn cpu_account(case: &CpuCase<'_>) -> Result<Account, String> {
    let tasks: Vec<&TaskUse> = case
        .observed
        .tasks
        .iter()
        .filter(|t| t.owner == case.target)
        .collect();
    if tasks.is_empty() {
        return Err(format!(
            "CPU of {}: its threads were not watched",
            case.target
        ));
    }
    // Many threads that do little each may fill a core together.
    let run: f64 = tasks.iter().map(|t| t.busy).sum();
    let active: Vec<&TaskUse> = tasks.iter().filter(|t| t.busy >= ACTIVE).copied().collect();
    let active = if active.is_empty() { tasks } else { active };
    let cores: BTreeSet<u32> = active
        .iter()
        .flat_map(|t| case.observed.cores_of(t))
        .collect();
    let cores: Vec<u32> = cores.into_iter().collect();
    let scope = Scope::of(case, &active, &cores, run);
    let profile = timing_profile(case.examination)
        .ok_or_else(|| format!("CPU of {} by function: no profile was taken", case.target))?;
    let stacks = scope.stacks(profile, case.target);
    let samples: u64 = stacks.iter().map(|(_, weight)| weight).sum();
    if samples < FEWEST {
        let why = "too few for rows";
        return Err(format!(
            "CPU of {} by function: {samples} samples, {why}",
            case.target
        ));
    }
    let server = server(case.examination, case.target);
    let starts = case.facts.view(case.target).value("exec.per_request");
    let (started, stacks) = started::apart(server.filter(|_| starts >= Some(STARTS)), stacks);
    let parts = cpu_rows(profile, &stacks, server.map_or("", program_of));
    let turns = case.examination.and_then(|e| e.turns.as_ref());
    let own = turns.iter().flat_map(|turns| &turns.targets);
    let own = own.filter(|t| t.target == case.target);
    let ran: Vec<&PlaceTold> = own.flat_map(|t| &t.ran).collect();
    let told = turns.map_or(&[][..], |turns| &turns.told);
    let parts = told::divided(parts, &ran, told);
    let branch = branch::branch(profile, &stacks, &ran, told);
    let parts = [parts, started::rows(profile, started)].concat();
    let seen = match scope {
        Scope::Used(run) => {
            let due = run * case.seconds * f64::from(profile.hz);
            seen(due, samples + profile.lost)
        }
        // Where nothing rests, what one thread's samples miss is another's of the same core.
        Scope::Cores { .. } | Scope::Thread(_) => 1.0,
    };
    let mut account = scope.account(case, &parts, (samples, seen));
    // A row that is all of it has its callers.
    let shares = account.rows.iter().map(|row| row.share);
    let largest = shares.reduce(f64::max).unwrap_or_default();
    let branch = branch.map(|branch| Branch {
        share: branch.share * scope.part(seen),
        ..branch
    });
    let branches = branch.into_iter();
    account.branches = branches
        .filter(|branch| largest < NEARLY * branch.share)
        .collect();
    need::measure(&mut account.rows, &case.facts.view(case.target));
    Ok(account)
}

/// The part of the run time that samples show: what was `taken` of those `due`, where it is less beyond chance.
pub(super) fn seen(due: f64, taken: u64) -> f64 {
    let taken = taken as f64;
    if due - taken > SURE * due.sqrt() {
        taken / due
    } else {
        1.0
    }
}

/// File name of a target's program; empty when it is not known.
pub(super) fn program(examination: Option<&Examination>, target: &str) -> String {
    server(examination, target)
        .map_or("", program_of)
        .to_owned()
}

fn server<'a>(examination: Option<&'a Examination>, target: &str) -> Option<&'a Server> {
    let servers = examination.map_or(&[][..], |e| &e.servers);
    servers.iter().find(|s| s.target == target)
}

/// File name of a server's program, also of one that was replaced while it ran.
pub(crate) fn program_of(server: &Server) -> &str {
    let name = server.exe.rsplit('/').next().unwrap_or_default();
    name.trim_end_matches(" (deleted)")
}

/// What the account divides.
enum Scope<'a> {
    /// All time of some cores, as shares of one core.
    Cores {
        cores: Vec<u32>,
        own: f64,
        /// By the other targets that ran there.
        peers: BTreeMap<&'a str, f64>,
        others: Vec<(&'static str, &'static str, f64)>,
    },
    /// All time of one thread.
    Thread(&'a TaskUse),
    /// The CPU time that it used, where nothing of it was full.
    Used(f64),
}

impl<'a> Scope<'a> {
    fn of(case: &CpuCase<'a>, active: &[&'a TaskUse], cores: &[u32], run: f64) -> Self {
        let n = cores.len() as f64;
        let busiest = active[0];
        let used: Vec<_> = cores
            .iter()
            .filter_map(|c| case.observed.cores.get(c))
            .collect();
        let watched = used.len() == cores.len() && !cores.is_empty();
        let interrupts: f64 = used.iter().map(|c| c.interrupts()).sum();
        let busy: f64 = used.iter().map(|c| c.busy).sum();
        // Whoever it asks on the same cores leaves it as little of them as its own work does.
        let beside: f64 = case.observed.peers_on(case.target, cores).values().sum();
        let served = run + interrupts + beside;
        let no_room = watched && served >= CORES * n * FULL && busy >= FULL * n;
        // Who waits for a CPU waits for a full one.
        let wanted = cpu_wanted_by_itself(&case.facts.view(case.target));
        let waited_for = watched && busy >= CORES * n && wanted >= Some(FULL);
        if no_room || waited_for || watched && cores.len() == 1 && busiest.demand() >= FULL {
            return Self::of_cores(case, cores, run);
        }
        if busiest.threads <= 1.0 && busiest.demand() >= FULL {
            return Scope::Thread(busiest);
        }
        Scope::Used(run)
    }

    fn of_cores(case: &CpuCase<'a>, cores: &[u32], run: f64) -> Self {
        let n = cores.len() as f64;
        let used = || cores.iter().filter_map(|c| case.observed.cores.get(c));
        let sum = |mode: &str| used().map(|c| c.mode(mode)).sum::<f64>();
        let steal = sum("steal");
        let idle: f64 = used().map(|c| (1.0 - c.busy).max(0.0)).sum();
        let interrupts: f64 = used().map(|c| c.interrupts()).sum();
        let all = case.observed.others_on(cores);
        let peers = case.observed.peers_on(case.target, cores);
        let beside: f64 = peers.values().sum();
        let throttled = case.facts.view(case.target).value("cgroup.throttled_share");
        let throttled = throttled.unwrap_or(0.0).min(idle / n) * n;
        let mut others = vec![
            ("idle", "idle: nothing was there to do", idle - throttled),
            ("throttled", "stopped by its CPU quota", throttled),
            ("steal", "taken by the hypervisor", steal),
            (
                "foreign",
                "programs outside the test on the same cores",
                all.map_or(0.0, |o| o.foreign * n),
            ),
            (
                "generator",
                "the load generator on the same cores",
                all.map_or(0.0, |o| o.generator * n),
            ),
        ];
        // Kernels that count interrupts as run time of the thread that they hit have them twice here.
        let rest = n - beside - others.iter().map(|(.., share)| share).sum::<f64>();
        let own = (run + interrupts).min(rest).max(run.min(n));
        let short = n - beside - own - others.iter().map(|(.., share)| share).sum::<f64>();
        // What the ticks of /proc/stat and the threads' own clocks differ by.
        if let Some(idle) = others.first_mut() {
            idle.2 = (idle.2 + short).max(0.0);
        }
        Scope::Cores {
            cores: cores.to_vec(),
            own,
            peers,
            others,
        }
    }

    /// The stacks that belong to it.
    fn stacks<'p>(&self, profile: &'p Profile, target: &str) -> Vec<(&'p Stack, u64)> {
        let of_target = profile.stacks.iter().filter(|s| s.target == target);
        let of_target: Vec<(&Stack, u64)> = of_target.map(|s| (s, s.weight)).collect();
        let Scope::Thread(task) = self else {
            return of_target;
        };
        // A profile knows threads by name: where several have it, their mix stands for the one.
        let of_thread = |(s, _): &&(&Stack, u64)| s.pid == task.pid && s.thread == task.name;
        let own: Vec<(&Stack, u64)> = of_target.iter().filter(of_thread).copied().collect();
        let known = own.iter().map(|(_, w)| w).sum::<u64>() >= FEWEST;
        if known { own } else { of_target }
    }

    /// What a part of the run time is of the total.
    fn part(&self, of_run: f64) -> f64 {
        of_run
            * match self {
                Scope::Cores { cores, own, .. } => own / cores.len() as f64,
                Scope::Thread(task) => task.busy.min(1.0),
                Scope::Used(_) => 1.0,
            }
    }

    /// `sampled`: samples, and the part of the run time that they show.
    fn account(&self, case: &CpuCase<'_>, parts: &[CpuRow], sampled: (u64, f64)) -> Account {
        let (of, whole, others) = match self {
            Scope::Cores { cores, others, .. } => {
                let of = format!("the time of {}", core_list(cores));
                (of, cores.len() as f64, others.clone())
            }
            Scope::Thread(task) => {
                let wait = task.wait.unwrap_or(0.0).min(1.0 - task.busy);
                let rest = vec![
                    ("run_queue", "ready, and no CPU free for it", wait),
                    (
                        "idle",
                        "asleep: nothing was there to do",
                        (1.0 - task.busy - wait).max(0.0),
                    ),
                ];
                (format!("the time of {}", task.label()), 1.0, rest)
            }
            Scope::Used(run) => {
                let of = "the CPU time that it used (no core and no thread was full)";
                (of.to_owned(), *run, Vec::new())
            }
        };
        let (samples, seen) = sampled;
        let n = samples as f64;
        let part = self.part(seen);
        let mut rows: Vec<Row> = parts
            .iter()
            .map(|p| {
                let share = p.samples as f64 / n;
                Row {
                    kind: p.kind.clone(),
                    label: p.label.clone(),
                    share: share * part,
                    share_error: 2.0 * (share * (1.0 - share) / n).sqrt() * part,
                    place: p.place.clone(),
                    source: "on-CPU profile, scaled to the run time of the threads".to_owned(),
                    own_work: p.own,
                    below: p.below.clone(),
                    ..Row::default()
                }
            })
            .collect();
        if seen < 1.0 {
            rows.push(unseen(self.part(1.0 - seen), n));
        }
        let counted = others.into_iter().filter(|(.., share)| *share > 0.0);
        rows.extend(counted.map(|(kind, label, share)| Row {
            kind: kind.to_owned(),
            label: label.to_owned(),
            share: share / whole,
            share_error: 0.01,
            source: "/proc/stat, /proc/PID/task/TID/schedstat".to_owned(),
            // Idle time is no work of anybody's; it takes nothing from the server either.
            own_work: kind == "idle",
            ..Row::default()
        }));
        if let Scope::Cores { peers, .. } = self {
            rows.extend(
                peers
                    .iter()
                    .map(|(peer, cores)| beside::row(peer, cores / whole)),
            );
        }
        let per_request = case.requests.filter(|r| *r > 0.0);
        let (total, unit) = match per_request {
            Some(requests) => (whole * case.seconds * 1e6 / requests, "us/request"),
            None => (whole, "cores"),
        };
        Account {
            target: case.target.to_owned(),
            of,
            total,
            unit: unit.to_owned(),
            requests: None,
            rows,
            basis: match self {
                Scope::Used(_) => Basis::CpuUsed,
                Scope::Cores { .. } | Scope::Thread(_) => Basis::Cpu,
            },
            branches: Vec::new(),
            asked: Vec::new(),
        }
    }
}

/// The run time that no sample shows.
fn unseen(share: f64, samples: f64) -> Row {
    Row {
        kind: "switching".to_owned(),
        label: "switching threads onto a resting CPU and off it".to_owned(),
        share,
        share_error: 2.0 * (1.0 - share) / samples.sqrt(),
        source: "run time of the threads, less their samples: interrupts are off meanwhile"
            .to_owned(),
        // Whoever is not busy all the time rests between its requests.
        own_work: true,
        ..Row::default()
    }
}
