//! /proc/interrupts, /proc/softirqs and /proc/net/softnet_stat: a row a source or a CPU, whole or a few lines of them.
//!
//! All count from the start of the machine on, so that two outputs in one text are subtracted. The surprise is that a
//! source without a head of columns is told by its numbers alone: as many as there are CPUs.

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    let network = |id: &str, rest: &str| !id.is_empty() && is_network(rest);
    done.extend(sources(lines, "interrupts", &network));
    let received = |id: &str, rest: &str| id == "NET_RX" && rest.is_empty();
    done.extend(sources(lines, "softirqs", &received));
    done.extend(softnet(lines));
    done
}

/// Names of devices and drivers of networks.
fn is_network(rest: &str) -> bool {
    const NAMES: [&str; 13] = [
        "eth", "ens", "enp", "eno", "em1", "em2", "txrx", "mlx", "virtio", "ixgbe", "i40e", "-rx",
        "-tx",
    ];
    let lower = rest.to_ascii_lowercase();
    // A timer or a disk of virtio is no network.
    let other = ["block", "request", "timer", "config", "ahci", "nvme", "usb"];
    // `<constMethodKlass>`, a row of jmap, has a device's letters within a word.
    let begins = |at: usize| !lower[..at].ends_with(|c: char| c.is_ascii_alphabetic());
    let named = |n: &str| {
        let whole = n.starts_with('-') || n == "txrx";
        lower.match_indices(n).any(|(at, _)| whole || begins(at))
    };
    NAMES.iter().any(|n| named(n)) && !other.iter().any(|n| lower.contains(n))
}

/// `27: 356669796 0 0 PCI-MSI 1048577-edge eth0-TxRx-0` and `NET_RX: 12 0 0`.
fn sources(lines: &[&str], tool: &str, wanted: &dyn Fn(&str, &str) -> bool) -> Option<Artefact> {
    let mut found = artefact(&format!("/proc/{tool}"), 0);
    let mut seen: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((id, rest)) = line.trim().split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let counts: Vec<f64> = words
            .iter()
            .map_while(|w| w.parse::<u64>().ok().map(|n| n as f64))
            .collect();
        let name = words[counts.len()..].join(" ");
        if counts.len() < 2 || !wanted(id.trim(), &name) {
            continue;
        }
        found.begin_at(number);
        let held = seen.entry(id.trim());
        let (first, last) = held.or_insert_with(|| (Vec::new(), vec![0.0; counts.len()]));
        *first = std::mem::replace(last, counts);
    }
    let cpus = seen.values().map(|(_, last)| last.len()).max()?;
    let mut each = vec![0.0; cpus];
    for (first, last) in seen.values() {
        for (cpu, (a, b)) in first.iter().zip(last).enumerate() {
            each[cpu] += (b - a).max(0.0);
        }
    }
    shares(&mut found, tool, &each);
    found
        .figures
        .insert(format!("{tool}.queues"), seen.len() as f64);
    Some(found)
}

/// The share of the busiest CPU, and each CPU as a row.
fn shares(found: &mut Artefact, tool: &str, each: &[f64]) {
    let all: f64 = each.iter().sum();
    if all <= 0.0 {
        return;
    }
    for (cpu, n) in each.iter().enumerate().filter(|(_, n)| **n > 0.0) {
        found.rows.push(Row::new(format!("CPU {cpu}"), n / all));
    }
    found.largest_first();
    let first = found.rows.first().map_or(0.0, |r| r.share);
    for (name, n) in [
        ("one_cpu_share", first),
        ("cpus", each.len() as f64),
        ("count", all),
    ] {
        found.figures.insert(format!("{tool}.{name}"), n);
    }
}

/// A CPU a line in hexadecimal: handled, dropped, squeezed.
fn softnet(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("/proc/net/softnet_stat", 0);
    let mut each = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let row = words.len() >= 9 && words.iter().all(|w| w.len() == 8);
        let numbers: Option<Vec<u32>> = words
            .iter()
            .map(|w| u32::from_str_radix(w, 16).ok())
            .collect();
        let Some([handled, dropped, squeezed, ..]) = numbers.as_deref().filter(|_| row) else {
            continue;
        };
        found.begin_at(number);
        each.push(f64::from(*handled));
        found.add("softnet.dropped", f64::from(*dropped));
        found.add("softnet.squeezed", f64::from(*squeezed));
    }
    shares(&mut found, "softnet", &each);
    told(found)
}
