//! On which CPUs threads and interrupts may run: `taskset -p`, `taskset -cp`, `Cpus_allowed_list` of /proc/PID/status,
//! and /proc/irq/N/smp_affinity with its name before it.
//!
//! The surprise is a mask, which is a number of sixteen with a bit for each CPU: `8` is the fourth CPU alone.

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Fewer say nothing of how they are spread.
const FEWEST: usize = 3;
/// Of those that are bound to one CPU so many share it.
const SHARE: f64 = 0.6;

/// Those that may run on one CPU alone, by that CPU.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("affinity", 0);
    let mut cpus: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let (mut all, mut bound) = (0_usize, 0_usize);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((who, on)) = allowed(line) else {
            continue;
        };
        found.begin_at(number);
        all += 1;
        if let [cpu] = on.as_slice() {
            bound += 1;
            cpus.entry(*cpu).or_default().push(who);
        }
    }
    for (cpu, of) in &cpus {
        found.rows.push(Row {
            label: format!("CPU {cpu}"),
            place: match of.as_slice() {
                [one] => format!("1: {one}"),
                [first, .., last] => format!("{}: {first} to {last}", of.len()),
                [] => String::new(),
            },
            share: of.len() as f64,
        });
    }
    found.largest_first();
    let most = found.rows.first().map_or(0.0, |r| r.share);
    let one = most / bound.max(1) as f64 >= SHARE && most >= FEWEST as f64;
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("all", all as f64),
        ("bound", bound as f64),
        ("most", most),
        ("on_one", f64::from(u8::from(one))),
    ] {
        found.figures.insert(format!("affinity.{name}"), n);
    }
    told(found).filter(|_| all >= FEWEST)
}

/// Who may run on which CPUs.
fn allowed(line: &str) -> Option<(String, Vec<u32>)> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("pid ") {
        let (pid, rest) = rest.split_once("'s ")?;
        let rest = rest
            .strip_prefix("current ")
            .or_else(|| rest.strip_prefix("new "))?;
        let (kind, on) = rest.strip_prefix("affinity ")?.split_once(':')?;
        pid.parse::<u32>().ok()?;
        return Some((format!("pid {pid}"), cpus(kind, on.trim())?));
    }
    if let Some(on) = line.strip_prefix("Cpus_allowed_list:") {
        return Some(("a process".to_owned(), cpus("list", on.trim())?));
    }
    // `grep . /proc/irq/*/smp_affinity_list`, or `cat` with the name from the command.
    let (_, rest) = line.split_once("/proc/irq/")?;
    let (irq, rest) = rest.split_once('/')?;
    irq.parse::<u32>().ok()?;
    let (file, on) = rest.split_once([':', ' '])?;
    let kind = match file {
        "smp_affinity" | "effective_affinity" => "mask",
        "smp_affinity_list" | "effective_affinity_list" => "list",
        _ => return None,
    };
    Some((format!("irq {irq}"), cpus(kind, on.trim())?))
}

/// `0,2-3`, or a mask in groups of 32 bits: `00000000,00000008`.
fn cpus(kind: &str, on: &str) -> Option<Vec<u32>> {
    if kind == "mask" {
        let digits: String = on.trim_start_matches("0x").replace(',', "");
        let mut found = Vec::new();
        for (at, digit) in digits.chars().rev().enumerate() {
            let digit = digit.to_digit(16)?;
            let bits = (0..4).filter(|bit| digit >> bit & 1 == 1);
            found.extend(bits.map(|bit| at as u32 * 4 + bit));
        }
        return Some(found).filter(|f| !f.is_empty());
    }
    let mut found = Vec::new();
    for part in on.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        // Two of them tell that it is more than one.
        found.extend([from]);
        found.extend((to > from).then_some(to));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn masks_and_lists_tell_what_may_run_on_one_cpu_alone() {
        let text = "pid 41's current affinity mask: 10\npid 42's current affinity mask: 10\n\
            pid 43's current affinity mask: 10\npid 44's current affinity mask: ff\n\
            /proc/irq/30/smp_affinity:00000001,00000000\n";
        let found = read(&text.lines().collect::<Vec<_>>()).expect("five are told");
        assert_eq!(
            written(&found),
            ["CPU 4: 3: pid 41 to pid 43", "CPU 32: 1: irq 30"]
        );
        let of = |name: &str| found.value(&format!("affinity.{name}"));
        assert_eq!(
            ["all", "bound", "most", "on_one"].map(of),
            [5.0, 4.0, 3.0, 1.0].map(Some)
        );
        let spread = "pid 1's current affinity list: 0\npid 2's current affinity list: 1\npid 3's current affinity list: 2-3\n";
        let found = read(&spread.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("affinity.on_one"), Some(0.0));
        assert!(read(&["pid 1's current affinity list: 0", "a pid 2's own: 3"]).is_none());
    }
}
