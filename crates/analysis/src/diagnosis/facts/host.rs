//! The host: cores, pressure, memory, the TCP counters, and settings of the kernel.

use super::{Material, Sheet};
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
        ("core.softirq_busiest", of(&|o| Some(softirq(o).0))),
        (
            "core.steal_share",
            of(&|o| Some(o.cores.values().map(|c| c.mode("steal")).sum::<f64>() / n(o))),
        ),
        ("host.idle_share", of(&|o| Some(idle(o) / n(o)))),
        ("host.idle_cores", of(&|o| Some(idle(o)))),
        ("host.cores", of(&|o| Some(n(o)))),
        ("host.foreign_cores", of(&|o| o.foreign_cores())),
    ];
    for (name, value) in values {
        sheet.maybe(name, value, STAT, &reason);
    }
    let skew = of(&|o| Some(softirq(o).0));
    let mean = of(&|o| Some(softirq(o).1));
    sheet.divided("core.softirq_skew", skew, mean, STAT, &reason);
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
        ("tcp.delayed_acks_per_request", "tcp.delayed_acks", NETSTAT),
        ("tcp.retransmits_per_request", "tcp.retrans_segs", NETSTAT),
        ("tcp.time_wait_per_request", "tcp.tw", NETSTAT),
    ] {
        let reason = material.reason(&[signal], &format!("`{signal}` was not watched"));
        let grown = material.grown(signal, "");
        sheet.divided(name, grown, material.completed(), source, &reason);
    }
}

fn pressure(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for (name, signal) in [
        ("pressure.memory_share", "pressure.memory_some_s"),
        ("pressure.io_share", "pressure.io_some_s"),
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
    let available = material.mean("memory.available_bytes", "");
    let name = "vm.available_share";
    sheet.divided(name, available, total, "/proc/meminfo", &reason);
}

fn rates(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    for (name, signal, source) in [
        ("vm.swap_in_per_s", "vm.swap_in", "/proc/vmstat"),
        ("vm.swap_out_per_s", "vm.swap_out", "/proc/vmstat"),
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
        ("tcp.timeouts_per_s", "tcp.timeouts", NETSTAT),
        ("tcp.syn_retransmits_per_s", "tcp.syn_retrans", NETSTAT),
        ("tcp.collapsed_per_s", "tcp.rcv_collapsed", NETSTAT),
        ("tcp.pruned_per_s", "tcp.prune_called", NETSTAT),
        ("tcp.backlog_drop_per_s", "tcp.backlog_drop", NETSTAT),
        (
            "tcp.memory_pressures_per_s",
            "tcp.memory_pressures",
            NETSTAT,
        ),
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
    // The receiver counts a segment that it had as a delayed acknowledgement that was lost.
    let known = material.grown("tcp.delayed_acks_lost", "");
    let name = "tcp.resent_in_vain_share";
    sheet.divided(name, known, resent, NETSTAT, &reason);
    let sockstat = "/proc/net/sockstat";
    let waiting = material.peak("tcp.time_wait", "");
    sheet.maybe("tcp.time_wait", waiting, sockstat, &reason);
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
    let mut packets: BTreeMap<&str, f64> = BTreeMap::new();
    if let Some(window) = material.window() {
        for series in material.series("softnet.processed", "") {
            let grown = series.delta(window.from, window.to);
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
    let reason = "`net.ipv4.ip_local_port_range` was not read";
    sheet.maybe(
        "sysctl.port_range",
        port_range(material),
        "/proc/sys",
        reason,
    );
    let name = "net.ipv4.tcp_slow_start_after_idle";
    let forgets = material.environment(name).and_then(number);
    let reason = format!("`{name}` was not read");
    sheet.maybe(
        "sysctl.slow_start_after_idle",
        forgets,
        "/proc/sys",
        &reason,
    );
    let initcwnd = material.environment("initcwnd").and_then(number);
    sheet.maybe(
        "sysctl.initcwnd",
        initcwnd,
        "ip route",
        "the route's initial window was not read",
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
