//! CPU of a target: per request, by mode, by worker, and who else uses its cores.

use super::{Material, Sheet, flag};
use crate::observed::{Observed, TaskUse};
use std::collections::{BTreeMap, BTreeSet};

const TASKS: &str = "/proc/PID/task/TID/stat and schedstat";
const STAT: &str = "/proc/stat";
/// Share of a core from which a thread took part.
const ACTIVE: f64 = 0.05;
/// Share of a core from which a thread is one of those that do the work.
const BUSY: f64 = 0.2;

const NAMES: [&str; 29] = [
    "cpu.us_per_request",
    "cpu.user_share",
    "cpu.system_share",
    "cpu.cores_used",
    "cpu.cores_allowed",
    "cpu.use_of_allowed",
    "cpu.idle_allowed",
    "cpu.main_cores",
    "worker.count",
    "worker.busiest",
    "worker.mean",
    "worker.active",
    "worker.imbalance",
    "worker.run_queue_wait_share",
    "worker.wait_of_demand",
    "worker.shared_core",
    "worker.pinned_cores",
    "worker.nice",
    "worker.processes",
    "worker.generations",
    "worker.main_share",
    "worker.threads",
    "core.own_softirq_share",
    "core.own_foreign_share",
    "core.own_steal_share",
    "core.own_busiest",
    "core.own_generator_share",
    "core.own_peers_share",
    "core.own_mean",
];

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(
        &["thread", "process", "stat"],
        "the target's threads were not watched",
    );
    for name in NAMES {
        sheet.unknown(name, &reason);
    }
    processes(material, sheet);
    generations(material, sheet);
    main_share(material, sheet);
    let Some(observed) = &material.observed else {
        return;
    };
    let target = sheet.target.clone();
    let tasks: Vec<&TaskUse> = observed
        .tasks
        .iter()
        .filter(|t| t.owner == target)
        .collect();
    if tasks.is_empty() {
        return;
    }
    totals(material, observed, &tasks, sheet);
    workers(&tasks, sheet);
    own_cores(material, observed, &tasks, sheet);
}

/// What its processes are, as they were looked at beside the load.
fn processes(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let Some(server) = material.server(&sheet.target) else {
        return;
    };
    if server.processes.is_empty() {
        return;
    }
    let proc = "/proc/PID";
    sheet.known("worker.processes", server.processes.len() as f64, proc);
    let working = server.processes.iter().filter(|p| p.role != "main");
    let nicest = working.map(|p| p.nice).max();
    let nice = nicest.or(server.processes.iter().map(|p| p.nice).max());
    sheet.maybe(
        "worker.nice",
        nice.map(f64::from),
        proc,
        "no process was seen",
    );
    let main = server.processes.iter().find(|p| p.pid == server.main_pid);
    let cores = main.map(|p| p.cpus.len() as f64).filter(|n| *n > 0.0);
    sheet.maybe(
        "cpu.main_cores",
        cores,
        proc,
        "the main process was not seen",
    );
}

/// How often its processes were replaced: all that were seen, over the most that were there at one time.
fn generations(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    let Some(window) = material.window() else {
        return;
    };
    let lives = material
        .series("process.rss_bytes", &target)
        .filter_map(|s| {
            let mut inside = s.at_ns.iter().copied().filter(|at| window.holds(*at));
            let first = inside.next()?;
            Some((first, inside.next_back().unwrap_or(first)))
        });
    let lives: Vec<(u64, u64)> = lives.collect();
    sheet.maybe(
        "worker.generations",
        replaced(&lives),
        "/proc/PID/statm",
        "its processes were not sampled",
    );
}

/// All lives over the most that there were at one time; each is its first and last moment.
fn replaced(lives: &[(u64, u64)]) -> Option<f64> {
    let at_once = |at: u64| lives.iter().filter(|l| l.0 <= at && at <= l.1).count();
    let most = lives.iter().map(|l| at_once(l.0)).max()?;
    Some(lives.len() as f64 / most as f64)
}

/// What the main process takes of the CPU, where others serve.
fn main_share(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    let name = "worker.main_share";
    let Some(server) = material.server(&target) else {
        return;
    };
    if server.processes.len() < 2 {
        sheet.not_applicable(name, "it has one process, which serves");
        return;
    }
    let main = server.main_pid.to_string();
    let Some(window) = material.window() else {
        return;
    };
    let grown = |of: &dyn Fn(&str) -> bool| {
        let signals = ["process.cpu_user_s", "process.cpu_system_s"];
        let all = signals.iter().flat_map(|s| material.series(s, &target));
        let all = all.filter(|s| s.label("pid").is_some_and(of));
        let grown: Vec<f64> = all
            .filter_map(|s| s.delta(window.from, window.to))
            .collect();
        (!grown.is_empty()).then(|| grown.iter().sum::<f64>())
    };
    let none = "its processes were not sampled";
    let of_main = grown(&|pid| pid == main);
    sheet.divided(name, of_main, grown(&|_| true), "/proc/PID/stat", none);
}

fn totals(material: &Material<'_>, observed: &Observed, tasks: &[&TaskUse], sheet: &mut Sheet<'_>) {
    let used: f64 = tasks.iter().map(|t| t.busy).sum();
    let seconds = material.seconds();
    let cpu_us = seconds.map(|s| used * s * 1e6);
    let none = "no response arrived";
    sheet.divided(
        "cpu.us_per_request",
        cpu_us,
        material.completed(),
        TASKS,
        none,
    );
    sheet.known("cpu.cores_used", used, TASKS);
    let (user, system): (f64, f64) = tasks
        .iter()
        .fold((0.0, 0.0), |(u, s), t| (u + t.user, s + t.system));
    let both = Some(user + system);
    sheet.divided("cpu.user_share", Some(user), both, TASKS, none);
    sheet.divided("cpu.system_share", Some(system), both, TASKS, none);
    let cores = allowed(observed, tasks);
    if cores.is_empty() {
        return;
    }
    let n = cores.len() as f64;
    sheet.known("cpu.cores_allowed", n, TASKS);
    sheet.known("cpu.use_of_allowed", used / n, TASKS);
    let idle = cores.iter().filter_map(|c| observed.cores.get(c));
    let idle: Vec<f64> = idle.map(|c| (1.0 - c.busy).max(0.0)).collect();
    if idle.len() == cores.len() {
        sheet.known("cpu.idle_allowed", idle.iter().sum(), STAT);
    }
}

fn allowed(observed: &Observed, tasks: &[&TaskUse]) -> BTreeSet<u32> {
    let cores = tasks.iter().flat_map(|t| observed.cores_of(t));
    cores.collect()
}

/// The cores of the threads that do the work: others may be allowed to run anywhere.
pub(super) fn working_cores(observed: &Observed, tasks: &[&TaskUse]) -> BTreeSet<u32> {
    let busy: Vec<&TaskUse> = tasks.iter().filter(|t| t.busy >= ACTIVE).copied().collect();
    allowed(observed, if busy.is_empty() { tasks } else { &busy })
}

fn workers(tasks: &[&TaskUse], sheet: &mut Sheet<'_>) {
    let busiest = tasks[0];
    sheet.known("worker.busiest", busiest.busy, TASKS);
    sheet.known(
        "worker.threads",
        tasks.iter().map(|t| t.threads).sum(),
        TASKS,
    );
    let main = |t: &&&TaskUse| t.role == "main";
    let workers: Vec<&&TaskUse> = tasks.iter().filter(|t| !main(t)).collect();
    let workers = if workers.is_empty() {
        tasks.iter().collect()
    } else {
        workers
    };
    let count = workers.len() as f64;
    let mean = workers.iter().map(|t| t.busy).sum::<f64>() / count;
    sheet.known("worker.count", count, TASKS);
    sheet.known("worker.mean", mean, TASKS);
    let active = tasks.iter().filter(|t| t.busy >= ACTIVE).count();
    sheet.known("worker.active", active as f64, TASKS);
    let most = workers.iter().map(|t| t.busy).fold(0.0, f64::max);
    sheet.divided("worker.imbalance", Some(most), Some(mean), TASKS, "");
    if let Some(wait) = busiest.wait {
        sheet.known("worker.run_queue_wait_share", wait, TASKS);
        let demand = Some(busiest.demand());
        sheet.divided("worker.wait_of_demand", Some(wait), demand, TASKS, "");
    }
    let mut on_one: BTreeMap<u32, u32> = BTreeMap::new();
    for task in tasks.iter().filter(|t| t.busy >= BUSY) {
        if let [core] = task.cpus.as_slice() {
            *on_one.entry(*core).or_default() += 1;
        }
    }
    let shared = on_one.values().any(|n| *n >= 2);
    sheet.known("worker.shared_core", flag(shared), TASKS);
    sheet.known("worker.pinned_cores", on_one.len() as f64, TASKS);
}

fn own_cores(
    material: &Material<'_>,
    observed: &Observed,
    tasks: &[&TaskUse],
    sheet: &mut Sheet<'_>,
) {
    let cores: Vec<u32> = working_cores(observed, tasks).into_iter().collect();
    let used: Vec<_> = cores.iter().filter_map(|c| observed.cores.get(c)).collect();
    if used.is_empty() || used.len() < cores.len() {
        let reason = material.reason(&["cpu."], "the cores were not watched");
        for name in NAMES.iter().filter(|n| n.starts_with("core.")) {
            sheet.unknown(name, &reason);
        }
        return;
    }
    let n = used.len() as f64;
    let mean = |mode: &str| used.iter().map(|c| c.mode(mode)).sum::<f64>() / n;
    let interrupts = used.iter().map(|c| c.interrupts()).sum::<f64>() / n;
    sheet.known("core.own_softirq_share", interrupts, STAT);
    sheet.known("core.own_steal_share", mean("steal"), STAT);
    let busiest = used.iter().map(|c| c.busy).fold(0.0, f64::max);
    sheet.known("core.own_busiest", busiest, STAT);
    sheet.known(
        "core.own_mean",
        used.iter().map(|c| c.busy).sum::<f64>() / n,
        STAT,
    );
    let peers = observed.peers_on(&sheet.target, &cores);
    let peers = peers.values().sum::<f64>() / n;
    sheet.known("core.own_peers_share", peers.min(1.0), TASKS);
    let others = observed.others_on(&cores);
    let reason = "the cores were not watched";
    let foreign = others.map(|o| o.foreign);
    sheet.maybe("core.own_foreign_share", foreign, STAT, reason);
    let generator = others.map(|o| o.generator);
    sheet.maybe("core.own_generator_share", generator, STAT, reason);
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn a_pool_that_grows_has_one_generation_and_reloads_make_more() {
        type Lives = &'static [(u64, u64)];
        let cases: [(Lives, Option<f64>); 4] = [
            (&[], None),
            // A main process and its worker, to the end.
            (&[(0, 9), (0, 9)], Some(1.0)),
            // A worker more every while, and none ends.
            (&[(0, 9), (2, 9), (4, 9), (6, 9)], Some(1.0)),
            // One after the other below the same main process.
            (&[(0, 9), (0, 2), (3, 5), (6, 9)], Some(2.0)),
        ];
        for (lives, expected) in cases {
            assert_eq!(replaced(lives), expected, "{lives:?}");
        }
    }
}
