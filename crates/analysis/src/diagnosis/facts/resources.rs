//! What a target is allowed and how much of it is used: control group, memory, files, a JVM's heap.

use super::{Material, Sheet};

const CGROUP: &str = "cgroup v1 or v2";
const JVM: &str = "the JVM's own counters";
const PROC: &str = "/proc/PID";

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    cgroup(material, sheet);
    memory(material, sheet);
    files(material, sheet);
    jvm(material, sheet);
}

fn cgroup(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    let reason = material.reason(&["cgroup"], "the target's control group was not watched");
    let watched = !material.levels("cgroup.cpu_s", &target).is_empty()
        || !material.levels("cgroup.periods", &target).is_empty();
    let throttled = material.per_s("cgroup.throttled_s", &target);
    // A group without a quota counts no periods: it was watched, and nothing was throttled.
    let none = watched.then_some(0.0);
    sheet.maybe(
        "cgroup.throttled_share",
        throttled.or(none),
        CGROUP,
        &reason,
    );
    let periods = material.grown("cgroup.periods", &target);
    let stopped = material.grown("cgroup.throttled_periods", &target);
    let name = "cgroup.throttled_periods_share";
    sheet.divided(name, stopped, periods, CGROUP, &reason);
    let quota = material.mean("cgroup.quota_cores", &target);
    if quota.is_none() && watched {
        for name in ["cgroup.quota_cores", "cgroup.quota_used_share"] {
            sheet.not_applicable(name, "its control group has no CPU quota");
        }
    } else {
        sheet.maybe("cgroup.quota_cores", quota, CGROUP, &reason);
        let used = material.per_s("cgroup.cpu_s", &target);
        let used = used.or_else(|| sheet.value("cpu.cores_used"));
        sheet.divided("cgroup.quota_used_share", used, quota, CGROUP, &reason);
    }
    let tasks = material.peak("cgroup.pids", &target);
    let most = material.mean("cgroup.pids_limit", &target);
    if most.is_none() && watched {
        sheet.not_applicable(
            "cgroup.pids_share",
            "its control group has no limit of tasks",
        );
    } else {
        sheet.divided("cgroup.pids_share", tasks, most, CGROUP, &reason);
    }
    disks(material, watched, sheet);
    let memory = material.peak("cgroup.memory_bytes", &target);
    let limit = material.mean("cgroup.memory_limit_bytes", &target);
    if limit.is_none() && memory.is_some() {
        let name = "cgroup.memory_limit_share";
        sheet.not_applicable(name, "its control group has no memory limit");
    } else {
        sheet.divided("cgroup.memory_limit_share", memory, limit, CGROUP, &reason);
    }
    for (name, signal) in [
        (
            "cgroup.memory_high_events_per_s",
            "cgroup.memory_high_events",
        ),
        ("cgroup.memory_max_events_per_s", "cgroup.memory_limit_hits"),
        ("cgroup.reclaim_per_s", "cgroup.reclaimed_pages"),
    ] {
        sheet.maybe(name, material.per_s(signal, &target), CGROUP, &reason);
    }
    let kills = material.grown("cgroup.oom_kills", &target);
    sheet.maybe("cgroup.oom_kills", kills, CGROUP, &reason);
    let shares = material.mean("cgroup.shares", &target);
    sheet.maybe("cgroup.shares", shares, CGROUP, &reason);
}

/// Of the limits of disk use of its group and those above, the one that is used most.
fn disks(material: &Material<'_>, watched: bool, sheet: &mut Sheet<'_>) {
    let name = "cgroup.io_used_share";
    let target = sheet.target.clone();
    let shares = material.window().map(|window| {
        let limits: Vec<_> = material.series("cgroup.io_limit_per_s", &target).collect();
        let used = material.series("cgroup.io_used", &target);
        let share = |used: &record::Series| {
            let limit = limits.iter().find(|l| l.labels == used.labels)?;
            let per_s = used.delta(window.from, window.to)? / window.seconds();
            limit.values.last().map(|limit| per_s / limit)
        };
        used.filter_map(share).reduce(f64::max)
    });
    match shares.flatten() {
        Some(share) => sheet.known(name, share, CGROUP),
        None if watched => {
            sheet.not_applicable(name, "its control group has no limit of disk use");
        }
        None => sheet.unknown(name, "the target's control group was not watched"),
    }
}

fn memory(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    let reason = material.reason(&["process"], "the target's processes were not watched");
    let levels = material.levels("process.rss_bytes", &target);
    let seconds = material.seconds();
    let growth = levels.first().zip(levels.last()).map(|(a, b)| b - a);
    let growth = growth.filter(|_| levels.len() >= 2);
    sheet.divided("memory.rss_growth_per_s", growth, seconds, PROC, &reason);
    let swap = material.peak("process.swap_bytes", &target);
    sheet.maybe("memory.swap_bytes", swap, PROC, &reason);
}

/// Of the process that is nearest to its own limit.
fn files(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    let reason = material.reason(&["open_files", "fd"], "open files were not watched");
    let server = material.server(&target);
    let limit_of = |pid: &str| {
        let mut limits = crate::observed::named(&material.trial.series, "process.open_files_limit");
        let sampled = limits.find(|s| s.label("pid") == Some(pid));
        let sampled = sampled.and_then(|s| s.values.last().copied());
        let process = server.and_then(|s| s.processes.iter().find(|p| p.pid.to_string() == pid));
        sampled.or(process.and_then(|p| p.open_files_limit).map(|n| n as f64))
    };
    let fullest = material
        .series("process.open_files", &target)
        .filter_map(|s| {
            let most = s.values.iter().copied().reduce(f64::max)?;
            let limit = limit_of(s.label("pid")?).filter(|l| *l > 0.0)?;
            Some(most / limit)
        });
    let fullest = fullest.reduce(f64::max);
    sheet.maybe("limit.files_used_share", fullest, PROC, &reason);
    let limits = server.map(|s| s.processes.iter().filter_map(|p| p.open_files_limit));
    let least = limits.and_then(Iterator::min).map(|n| n as f64);
    sheet.maybe("limit.files_limit", least, PROC, &reason);
    let connections = match material.watching() {
        None => Some(f64::from(material.trial.load.connections)),
        Some(_) => sheet.set.view("").value("client.connections"),
    };
    sheet.divided(
        "limit.connections_of_files",
        connections,
        least,
        PROC,
        &reason,
    );
}

fn jvm(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let target = sheet.target.clone();
    const NAMES: [&str; 7] = [
        "jvm.gc_share",
        "jvm.gc_per_s",
        "jvm.gc_pause_ms",
        "jvm.heap_used_share",
        "jvm.heap_max_bytes",
        "jvm.full_gc_per_s",
        "jvm.classes_per_s",
    ];
    let kind = material.server(&target).map(|s| s.kind.as_str());
    if kind.is_some_and(|k| !matches!(k, "java" | "tomcat" | "generic")) {
        for name in NAMES {
            sheet.not_applicable(name, "the server is no JVM");
        }
        return;
    }
    let reason = material.reason(&["jvm"], "no counters of a JVM were read");
    let paused = material.grown("jvm.gc_s", &target);
    let count = material.grown("jvm.gc_count", &target);
    sheet.maybe(
        "jvm.gc_share",
        material.per_s("jvm.gc_s", &target),
        JVM,
        &reason,
    );
    sheet.maybe(
        "jvm.gc_per_s",
        material.per_s("jvm.gc_count", &target),
        JVM,
        &reason,
    );
    let paused_ms = paused.map(|s| s * 1e3);
    sheet.divided("jvm.gc_pause_ms", paused_ms, count, JVM, &reason);
    let used = material.peak("jvm.heap_used_bytes", &target);
    let most = material.mean("jvm.heap_max_bytes", &target);
    sheet.divided("jvm.heap_used_share", used, most, JVM, &reason);
    sheet.maybe("jvm.heap_max_bytes", most, JVM, &reason);
    let full = material.per_s("jvm.full_gc_count", &target);
    sheet.maybe("jvm.full_gc_per_s", full, JVM, &reason);
    let classes = material.per_s("jvm.classes_loaded", &target);
    sheet.maybe("jvm.classes_per_s", classes, JVM, &reason);
}
