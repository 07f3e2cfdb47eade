//! The host: cores, pressure, memory, the TCP counters, and settings of the kernel.

use super::{Material, Sheet, flag};
use std::collections::BTreeMap;

const STAT: &str = "/proc/stat";
const NETSTAT: &str = "/proc/net/snmp and netstat";

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    cores(material, sheet);
    per_request(material, sheet);
    pressure(material, sheet);
    memory(material, sheet);
    rates(material, sheet);
    tcp(material, sheet);
    network(material, sheet);
    settings(material, sheet);
}

fn cores(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["cpu."], "the cores were not watched");
    let observed = material.observed.as_ref().filter(|o| !o.cores.is_empty());
    let of = |get: &dyn Fn(&crate::observed::Observed) -> Option<f64>| observed.and_then(get);
    let n = |o: &crate::observed::Observed| o.cores.len() as f64;
    let idle = |o: &crate::observed::Observed| {
        let idle = o.cores.values().map(|c| (1.0 - c.busy).max(0.0));
        idle.sum::<f64>()
    };
    let softirq = |o: &crate::observed::Observed| {
        let all: Vec<f64> = o.cores.values().map(|c| c.mode("softirq")).collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        (most, all.iter().sum::<f64>() / all.len() as f64)
    };
    let values = [
        (
            "core.busiest",
            of(&|o| o.cores.values().map(|c| c.busy).reduce(f64::max)),
        ),
        ("core.softirq_busiest", of(&|o| Some(softirq(o).0))),
        (
            "core.steal_share",
            of(&|o| Some(o.cores.values().map(|c| c.mode("steal")).sum::<f64>() / n(o))),
        ),
        ("host.idle_share", of(&|o| Some(idle(o) / n(o)))),
        ("host.idle_cores", of(&|o| Some(idle(o)))),
        ("host.cores", of(&|o| Some(n(o)))),
        ("host.softirq_share", of(&|o| Some(softirq(o).1))),
        ("host.foreign_cores", of(&|o| o.foreign_cores())),
        (
            "core.generator_share",
            material.outcome().and_then(|o| o.generator.utilization()),
        ),
    ];
    for (name, value) in values {
        sheet.maybe(name, value, STAT, &reason);
    }
    let skew = of(&|o| Some(softirq(o).0));
    let mean = of(&|o| Some(softirq(o).1));
    sheet.divided("core.softirq_skew", skew, mean, STAT, &reason);
    let running = material.mean("host.running", "");
    sheet.maybe("host.run_queue", running, STAT, &reason);
    let speeds = speeds(material);
    let few = "too few samples to part";
    sheet.maybe("host.slow_regime", speeds.map(|s| s.ratio), STAT, few);
    sheet.maybe("host.slow_share", speeds.map(|s| s.share), STAT, few);
}

/// The dearer of two stretches of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Speeds {
    /// CPU for an answer in it, over that in the other.
    ratio: f64,
    /// Its share of the run.
    share: f64,
}

fn speeds(material: &Material<'_>) -> Option<Speeds> {
    let outcome = material.outcome()?;
    let cpu = |from, to| {
        let modes = ["cpu.user_s", "cpu.system_s", "cpu.softirq_s"];
        let all = modes.iter().flat_map(|m| material.series(m, ""));
        let grown: Vec<f64> = all.filter_map(|s| s.delta(from, to)).collect();
        (!grown.is_empty()).then(|| grown.iter().sum::<f64>())
    };
    let slices = outcome.intervals.iter().filter(|i| {
        i.from >= outcome.measured_from && i.to <= outcome.measured_to && i.succeeded > 0
    });
    let costs: Vec<f64> = slices
        .filter_map(|i| Some(cpu(i.from, i.to)? / i.succeeded as f64))
        .collect();
    (costs.len() >= 12).then(|| two_speeds(&costs))
}

/// Two stretches of time at the cut that parts them best; a ratio of 1 when there are no two. Single dear slices are
/// noise: three quarters of a stretch must lie beyond three quarters of the other.
fn two_speeds(costs: &[f64]) -> Speeds {
    let quarter = (costs.len() / 4).max(1);
    let apart = |cut: usize| {
        let (before, after) = (sorted(&costs[..cut]), sorted(&costs[cut..]));
        let at =
            |part: &[f64], share: f64| part[((part.len() - 1) as f64 * share).round() as usize];
        let (low, high) = match at(&before, 0.5) < at(&after, 0.5) {
            true => (&before, &after),
            false => (&after, &before),
        };
        let parted = at(low, 0.75) < at(high, 0.25) && at(low, 0.5) > 0.0;
        parted.then(|| Speeds {
            ratio: at(high, 0.5) / at(low, 0.5),
            share: high.len() as f64 / costs.len() as f64,
        })
    };
    // The cut that explains most of the difference between slices.
    let explained = |cut: usize| {
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let (before, after) = costs.split_at(cut);
        let apart = mean(before) - mean(after);
        before.len() as f64 * after.len() as f64 * apart * apart
    };
    let mut cuts: Vec<usize> = (quarter..=costs.len() - quarter).collect();
    cuts.sort_by(|a, b| explained(*b).total_cmp(&explained(*a)));
    cuts.into_iter().find_map(apart).unwrap_or(Speeds {
        ratio: 1.0,
        share: 0.0,
    })
}

fn sorted(costs: &[f64]) -> Vec<f64> {
    let mut sorted = costs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn per_request(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for (name, signal, source) in [
        (
            "host.context_switches_per_request",
            "host.context_switches",
            STAT,
        ),
        ("host.forks_per_request", "host.forks", STAT),
        ("tcp.delayed_acks_per_request", "tcp.delayed_acks", NETSTAT),
        ("tcp.retransmits_per_request", "tcp.retrans_segs", NETSTAT),
        ("tcp.time_wait_per_request", "tcp.tw", NETSTAT),
        ("tcp.resets_out_per_request", "tcp.out_rsts", NETSTAT),
        ("tcp.active_opens_per_request", "tcp.active_opens", NETSTAT),
        (
            "tcp.passive_opens_per_request",
            "tcp.passive_opens",
            NETSTAT,
        ),
    ] {
        let reason = material.reason(&[signal], &format!("`{signal}` was not watched"));
        let grown = material.grown(signal, "");
        sheet.divided(name, grown, material.completed(), source, &reason);
    }
}

fn pressure(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for (name, signal) in [
        ("pressure.cpu_share", "pressure.cpu_some_s"),
        ("pressure.memory_share", "pressure.memory_some_s"),
        ("pressure.memory_full_share", "pressure.memory_full_s"),
        ("pressure.io_share", "pressure.io_some_s"),
        ("pressure.io_full_share", "pressure.io_full_s"),
    ] {
        let reason = material.reason(&["pressure"], &format!("`{signal}` was not watched"));
        sheet.maybe(name, material.per_s(signal, ""), "/proc/pressure", &reason);
    }
}

fn memory(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["memory"], "the host's memory was not watched");
    let total = material.environment("MemTotal").and_then(number);
    let total = total.or(material.environment("memory").and_then(number));
    let total = total.or(material.peak("memory.total_bytes", ""));
    for (name, signal) in [
        ("vm.available_share", "memory.available_bytes"),
        ("vm.dirty_share", "memory.dirty_bytes"),
    ] {
        let level = material.mean(signal, "");
        sheet.divided(name, level, total, "/proc/meminfo", &reason);
    }
}

fn rates(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for (name, signal, source) in [
        ("vm.swap_in_per_s", "vm.swap_in", "/proc/vmstat"),
        ("vm.swap_out_per_s", "vm.swap_out", "/proc/vmstat"),
        ("vm.major_faults_per_s", "vm.major_faults", "/proc/vmstat"),
        ("vm.thp_fault_alloc_per_s", "vm.huge_faults", "/proc/vmstat"),
        (
            "vm.compact_stall_per_s",
            "vm.compact_stalls",
            "/proc/vmstat",
        ),
        ("tcp.syn_cookies_per_s", "tcp.syncookies_sent", NETSTAT),
        ("tcp.syn_drops_per_s", "tcp.req_q_full_drop", NETSTAT),
        (
            "tcp.listen_overflows_per_s",
            "tcp.listen_overflows",
            NETSTAT,
        ),
        ("tcp.listen_drops_per_s", "tcp.listen_drops", NETSTAT),
        ("tcp.timeouts_per_s", "tcp.timeouts", NETSTAT),
        ("tcp.syn_retransmits_per_s", "tcp.syn_retrans", NETSTAT),
        ("tcp.collapsed_per_s", "tcp.rcv_collapsed", NETSTAT),
        ("tcp.pruned_per_s", "tcp.prune_called", NETSTAT),
        ("tcp.backlog_drop_per_s", "tcp.backlog_drop", NETSTAT),
        (
            "softnet.dropped_per_s",
            "softnet.dropped",
            "/proc/net/softnet_stat",
        ),
        (
            "softnet.squeezed_per_s",
            "softnet.time_squeeze",
            "/proc/net/softnet_stat",
        ),
        (
            "conntrack.drops_per_s",
            "conntrack.drops",
            "/proc/net/stat/nf_conntrack",
        ),
    ] {
        let reason = material.reason(&[signal], &format!("`{signal}` was not watched"));
        sheet.maybe(name, material.per_s(signal, ""), source, &reason);
    }
}

fn tcp(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let reason = material.reason(&["tcp."], "the TCP counters were not watched");
    let resent = material.grown("tcp.retrans_segs", "");
    let sent = material.grown("tcp.out_segs", "");
    sheet.divided("tcp.retransmits_share", resent, sent, NETSTAT, &reason);
    let sockstat = "/proc/net/sockstat";
    let waiting = material.peak("tcp.time_wait", "");
    sheet.maybe("tcp.time_wait", waiting, sockstat, &reason);
    sheet.maybe(
        "tcp.orphans",
        material.peak("tcp.orphans", ""),
        sockstat,
        &reason,
    );
    // Ports are used up per destination; with one destination the sum over all is the bound.
    let in_use = material.peak("tcp.in_use", "").unwrap_or(0.0);
    let used = waiting.map(|w| w + in_use);
    sheet.divided(
        "tcp.ports_used_share",
        used,
        port_range(material),
        sockstat,
        &reason,
    );
    let limit = material
        .environment("net.ipv4.tcp_mem")
        .and_then(last_number);
    let limit = limit.map(|pages| pages * 4_096.0);
    let memory = material.peak("tcp.memory_bytes", "");
    sheet.divided("tcp.memory_of_limit", memory, limit, sockstat, &reason);
    let tracked = material.peak("conntrack.entries", "");
    let most = material.environment("net.netfilter.nf_conntrack_max");
    let most = most
        .and_then(number)
        .or(material.peak("conntrack.limit", ""));
    let reason = material.reason(&["conntrack"], "connection tracking was not watched");
    sheet.divided(
        "conntrack.used_share",
        tracked,
        most,
        "/proc/sys/net/netfilter",
        &reason,
    );
}

fn network(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let sum = |signals: [&'static str; 2]| {
        let rates: Vec<f64> = signals
            .iter()
            .filter_map(|s| material.per_s(s, ""))
            .collect();
        (!rates.is_empty()).then(|| rates.iter().sum::<f64>())
    };
    let reason = material.reason(&["nic"], "the network devices were not watched");
    let errors = sum(["nic.rx_errors", "nic.tx_errors"]);
    sheet.maybe("nic.errors_per_s", errors, "/proc/net/dev", &reason);
    let drops = sum(["nic.rx_dropped", "nic.tx_dropped"]);
    sheet.maybe("nic.drops_per_s", drops, "/proc/net/dev", &reason);
    let mut packets: BTreeMap<&str, f64> = BTreeMap::new();
    if let Some(outcome) = material.outcome() {
        for series in material.series("softnet.processed", "") {
            let grown = series.delta(outcome.measured_from, outcome.measured_to);
            if let (Some(core), Some(grown)) = (series.label("core"), grown) {
                *packets.entry(core).or_default() += grown.max(0.0);
            }
        }
    }
    let most = packets.values().copied().reduce(f64::max);
    let mean = most.map(|_| packets.values().sum::<f64>() / packets.len() as f64);
    let source = "/proc/net/softnet_stat";
    let reason = material.reason(&["softnet"], "packets by core were not watched");
    sheet.divided("softnet.core_imbalance", most, mean, source, &reason);
}

fn settings(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let sys = "/proc/sys";
    for (name, setting, read) in [
        (
            "somaxconn",
            "net.core.somaxconn",
            number as fn(&str) -> Option<f64>,
        ),
        ("syn_backlog", "net.ipv4.tcp_max_syn_backlog", number),
        ("tcp_tw_reuse", "net.ipv4.tcp_tw_reuse", number),
        ("wmem_max", "net.ipv4.tcp_wmem", last_number),
        ("rmem_max", "net.ipv4.tcp_rmem", last_number),
        (
            "slow_start_after_idle",
            "net.ipv4.tcp_slow_start_after_idle",
            number,
        ),
    ] {
        let reason = format!("`{setting}` was not read");
        let value = material.environment(setting).and_then(read);
        sheet.maybe(&format!("sysctl.{name}"), value, sys, &reason);
    }
    let reason = "`net.ipv4.ip_local_port_range` was not read";
    sheet.maybe("sysctl.port_range", port_range(material), sys, reason);
    let initcwnd = material.environment("initcwnd").and_then(number);
    sheet.maybe(
        "sysctl.initcwnd",
        initcwnd,
        "ip route",
        "the route's initial window was not read",
    );
    sheet.known(
        "sysctl.initcwnd_known",
        flag(initcwnd.is_some()),
        "ip route",
    );
}

fn port_range(material: &Material<'_>) -> Option<f64> {
    let text = material.environment("net.ipv4.ip_local_port_range")?;
    let mut bounds = text
        .split_whitespace()
        .filter_map(|n| n.parse::<f64>().ok());
    let (low, high) = (bounds.next()?, bounds.next()?);
    (high >= low).then_some(high - low + 1.0)
}

/// The first number of a text; `kB` behind it multiplies.
fn number(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let scale = if words.next() == Some("kB") {
        1_024.0
    } else {
        1.0
    };
    Some(value * scale)
}

fn last_number(text: &str) -> Option<f64> {
    text.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Speeds, two_speeds};

    #[test]
    fn noise_is_no_second_speed() {
        let steady: Vec<f64> = (0..20)
            .map(|i| if i % 3 == 0 { 1.4 } else { 1.0 })
            .collect();
        assert_eq!(two_speeds(&steady).ratio, 1.0);
    }

    #[test]
    fn a_dearer_stretch_is_found_where_it_lies() {
        let mut costs = vec![1.0; 13];
        costs.extend([1.5; 7]);
        costs[4] = 2.0;
        let found = Speeds {
            ratio: 1.5,
            share: 0.35,
        };
        assert_eq!(two_speeds(&costs), found);
    }
}
