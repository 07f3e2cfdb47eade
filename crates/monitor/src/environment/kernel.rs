//! Kernel, boot options, sysctls, and what this process may do.

use super::facts::{Facts, after, one_line};
use crate::cpu::{self, CORE};

/// Boot options that change a server's speed. Those in the first list are stated when absent, too.
const BOOT_ALWAYS: [&str; 3] = ["mitigations", "isolcpus", "nohz_full"];
const BOOT_WHEN_GIVEN: [&str; 17] = [
    "rcu_nocbs",
    "irqaffinity",
    "nosmt",
    "maxcpus",
    "pti",
    "spectre_v2",
    "retbleed",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "intel_pstate",
    "amd_pstate",
    "transparent_hugepage",
    "hugepages",
    "clocksource",
    "psi",
    "iommu",
];

/// Sysctls that a web server's speed depends on.
const SYSCTLS: &[&str] = &[
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.default_qdisc",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_count",
    "net.netfilter.nf_conntrack_buckets",
    "fs.file-max",
    "fs.nr_open",
    "kernel.sched_autogroup_enabled",
    "kernel.numa_balancing",
    "kernel.perf_event_paranoid",
    "net.core.rps_sock_flow_entries",
    "net.core.dev_weight",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.ip_forward",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
    "net.netfilter.nf_conntrack_tcp_timeout_established",
    "kernel.nmi_watchdog",
    "kernel.pid_max",
    "kernel.io_uring_disabled",
    "kernel.unprivileged_bpf_disabled",
    "vm.swappiness",
    "vm.overcommit_memory",
    "vm.max_map_count",
    "vm.nr_hugepages",
    "vm.zone_reclaim_mode",
    "vm.dirty_ratio",
];

const LIMITS: [(&str, &str); 3] = [
    ("open_files", "Max open files"),
    ("processes", "Max processes"),
    ("locked_memory", "Max locked memory"),
];

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    facts.file("kernel", "release", "proc/sys/kernel/osrelease");
    facts.file("kernel", "version", "proc/sys/kernel/version");
    facts.find(
        "kernel",
        "distribution",
        "etc/os-release",
        "PRETTY_NAME",
        |text| {
            Some(
                after(text, "PRETTY_NAME", '=')?
                    .trim_matches('"')
                    .to_owned(),
            )
        },
    );
    describe_boot(facts);
    for name in SYSCTLS {
        let relative = format!("proc/sys/{}", name.replace('.', "/"));
        facts.file("sysctl", name, &relative);
    }
    for (name, key) in LIMITS {
        facts.find(
            "limit",
            name,
            "proc/self/limits",
            "line of that limit",
            |text| limit(text, key),
        );
    }
    describe_state(facts);
}

fn describe_boot(facts: &mut Facts) {
    let line = facts.read("proc/cmdline", "text", |text| Some(one_line(text)));
    for option in BOOT_ALWAYS {
        let fact = match &line {
            Ok(line) => boot_option(line, option).ok_or_else(|| "not given at boot".to_owned()),
            Err(reason) => Err(reason.clone()),
        };
        facts.add("kernel", &format!("boot.{option}"), fact);
    }
    for option in BOOT_WHEN_GIVEN {
        if let Some(value) = line
            .as_deref()
            .ok()
            .and_then(|line| boot_option(line, option))
        {
            facts.add("kernel", &format!("boot.{option}"), Ok(value));
        }
    }
}

/// Value of a boot option, `given` for one without a value. The last one counts, as for the kernel; what
/// follows `--` is for init.
fn boot_option(line: &str, option: &str) -> Option<String> {
    let options = line.split(' ').take_while(|word| *word != "--");
    let value = options
        .filter_map(|word| word.strip_prefix(option))
        .filter(|rest| rest.is_empty() || rest.starts_with('='))
        .last()?;
    Some(
        value
            .strip_prefix('=')
            .filter(|v| !v.is_empty())
            .unwrap_or("given")
            .to_owned(),
    )
}

/// Soft and hard limit of a line of `/proc/self/limits`.
fn limit(text: &str, key: &str) -> Option<String> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
    let mut words = rest.split_whitespace();
    Some(format!("soft {}, hard {}", words.next()?, words.next()?))
}

/// What changes from minute to minute, and who asks.
fn describe_state(facts: &mut Facts) {
    let root = facts.root();
    let balancer = root
        .list_ids("proc")
        .map_err(|e| e.to_string())
        .and_then(|pids| {
            if pids.is_empty() {
                return Err("no process can be seen".to_owned());
            }
            let is_it = |pid: &i32| {
                let name = root.read(&format!("proc/{pid}/comm"));
                name.is_ok_and(|name| name.trim_end() == "irqbalance")
            };
            let runs = pids.iter().any(is_it);
            Ok(if runs { "runs" } else { "does not run" }.to_owned())
        });
    facts.add("host", "irqbalance", balancer);
    facts.find(
        "host",
        "load_average",
        "proc/loadavg",
        "three averages",
        |text| {
            let words: Vec<&str> = text.split_whitespace().take(3).collect();
            (words.len() == 3).then(|| words.join(" "))
        },
    );
    facts.find("host", "uptime_s", "proc/uptime", "time", |text| {
        text.split_whitespace().next().map(str::to_owned)
    });
    facts.find("host", "steal_s", "proc/stat", "line of a core", steal_s);
    for (name, key) in [
        ("effective_uid", "Uid"),
        ("effective_capabilities", "CapEff"),
    ] {
        facts.find(
            "host",
            name,
            "proc/self/status",
            "line of that name",
            |text| {
                let ids = after(text, key, ':')?;
                // Of real, effective, saved and file system user id, the second one.
                let words: Vec<&str> = ids.split_whitespace().collect();
                words
                    .get(1)
                    .or(words.first())
                    .map(|word| (*word).to_owned())
            },
        );
    }
}

/// Time stolen from all cores since boot.
fn steal_s(text: &str) -> Option<String> {
    let steal = CORE
        .iter()
        .position(|signal| signal.name == "cpu.steal_s")?;
    let ticks: f64 = cpu::parse(text)?
        .cores
        .iter()
        .map(|(_, ticks)| ticks[steal])
        .sum();
    let seconds = ticks / rustix::param::clock_ticks_per_second() as f64;
    Some(format!("{seconds:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_options() {
        let line = "mitigations=auto mitigations=off nosmt isolcpus= psi=1 -- idle=poll";
        for (option, value) in [
            ("mitigations", Some("off")),
            ("nosmt", Some("given")),
            ("isolcpus", Some("given")),
            ("psi", Some("1")),
            ("idle", None),
            ("iso", None),
        ] {
            assert_eq!(boot_option(line, option).as_deref(), value, "{option}");
        }
    }

    #[test]
    fn limits_soft_and_hard() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max open files            1024                 unlimited            files     \n";
        assert_eq!(
            limit(text, "Max open files").as_deref(),
            Some("soft 1024, hard unlimited")
        );
        assert_eq!(limit(text, "Max processes"), None);
    }

    #[test]
    fn steal_is_the_sum_over_the_cores() {
        let ticks = rustix::param::clock_ticks_per_second();
        let text = format!("cpu0 1 2 3 4 5 6 7 {ticks} 0 0\ncpu1 1 2 3 4 5 6 7 {ticks} 0 0\n");
        assert_eq!(steal_s(&text).as_deref(), Some("2.00"));
    }
}
