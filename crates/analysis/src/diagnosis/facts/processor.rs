//! How fast the target's cores can be: their clock, and who runs on the other half of each.
//!
//! A virtual machine mostly shows neither: then both are unknown, with the reason. The surprise: a clock below the
//! highest is usual while a core has time, so that it says nothing unless the core is busy.

use super::{Material, Sheet};
use crate::observed::{Observed, TaskUse};
use std::collections::BTreeSet;

const CLOCK: &str = "/sys/devices/system/cpu/cpuN/cpufreq";
const TOPOLOGY: &str = "/sys/devices/system/cpu/cpuN/topology";

pub(super) fn extract(material: &Material<'_>, sheet: &mut Sheet<'_>) {
    let clock = "this machine does not show its cores' clock";
    let share = own(material, sheet).and_then(|cores| clock_share(material, &cores));
    sheet.maybe("core.own_clock_share", share, CLOCK, clock);
    let name = "core.sibling_busy_share";
    let groups = material.environment("smt_siblings").map(groups);
    let (Some(groups), Some(cores)) = (groups, own(material, sheet)) else {
        sheet.unknown(name, "which CPUs share a core was not read");
        return;
    };
    let others = siblings(&groups, &cores);
    if others.is_empty() {
        sheet.not_applicable(name, "no other CPU shares a core with those of the target");
        return;
    }
    let busy = material
        .observed
        .as_ref()
        .and_then(|o| mean_busy(o, &others));
    sheet.maybe(name, busy, TOPOLOGY, "the cores were not watched");
}

/// The CPUs of the threads that do the target's work.
fn own(material: &Material<'_>, sheet: &Sheet<'_>) -> Option<BTreeSet<u32>> {
    let observed = material.observed.as_ref()?;
    let tasks = observed.tasks.iter().filter(|t| t.owner == sheet.target);
    let tasks: Vec<&TaskUse> = tasks.collect();
    let cores = super::cpu::working_cores(observed, &tasks);
    (!cores.is_empty()).then_some(cores)
}

/// Mean clock of the cores / the highest that they were built for.
fn clock_share(material: &Material<'_>, cores: &BTreeSet<u32>) -> Option<f64> {
    let most_hz = highest_khz(material.environment("frequency_built_khz")?)? * 1e3;
    let window = material.window()?;
    let of_core = |s: &&record::Series| {
        let core = s.label("core").and_then(|c| c.parse().ok());
        core.is_some_and(|core| cores.contains(&core))
    };
    let series = material.series("cpu.frequency_hz", "").filter(of_core);
    let samples = series.flat_map(|s| s.at_ns.iter().zip(&s.values));
    let inside = samples
        .filter(|(at, _)| window.holds(**at))
        .map(|(_, hz)| *hz);
    let all: Vec<f64> = inside.collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64 / most_hz)
}

/// The largest number of a text like `3600000 (CPU 0,1); 2400000 (CPU 2)`.
fn highest_khz(text: &str) -> Option<f64> {
    let values = text.split("; ").filter_map(|part| part.split(' ').next());
    values.filter_map(|khz| khz.parse().ok()).reduce(f64::max)
}

/// The CPUs of each core, of a text like `0,2 (CPU 0,2); 1,3 (CPU 1,3)`.
fn groups(text: &str) -> Vec<BTreeSet<u32>> {
    let lists = text.split("; ").filter_map(|part| part.split(' ').next());
    let group = |list: &str| -> Option<BTreeSet<u32>> {
        let ranges = list.split(',').map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some(from.parse::<u32>().ok()?..=to.parse().ok()?)
        });
        let ranges: Option<Vec<_>> = ranges.collect();
        Some(ranges?.into_iter().flatten().collect())
    };
    lists.filter_map(group).collect()
}

/// CPUs that share a core with one of these and are none of them.
fn siblings(groups: &[BTreeSet<u32>], own: &BTreeSet<u32>) -> BTreeSet<u32> {
    let shared = groups.iter().filter(|group| !group.is_disjoint(own));
    shared
        .flatten()
        .filter(|cpu| !own.contains(cpu))
        .copied()
        .collect()
}

fn mean_busy(observed: &Observed, cpus: &BTreeSet<u32>) -> Option<f64> {
    let busy = cpus.iter().map(|cpu| Some(observed.cores.get(cpu)?.busy));
    let busy: Option<Vec<f64>> = busy.collect();
    busy.map(|busy| busy.iter().sum::<f64>() / busy.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_read_from_the_kernels_lists() {
        for (text, own, expected) in [
            ("0,2 (CPU 0,2); 1,3 (CPU 1,3)", vec![0], vec![2]),
            ("0,2 (CPU 0,2); 1,3 (CPU 1,3)", vec![0, 1, 2], vec![3]),
            // Both halves are its own, and one core alone.
            ("0,2 (CPU 0,2); 1,3 (CPU 1,3)", vec![0, 2], vec![]),
            ("0-1", vec![1], vec![0]),
            // Cores without a second half, and what was not read.
            ("0 (CPU 0); 1 (CPU 1)", vec![0], vec![]),
            ("no such file", vec![0], vec![]),
        ] {
            let own: BTreeSet<u32> = own.into_iter().collect();
            let found = siblings(&groups(text), &own);
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn the_highest_clock_of_unequal_cores() {
        assert_eq!(highest_khz("3600000"), Some(3.6e6));
        assert_eq!(
            highest_khz("2400000 (CPU 2); 3600000 (CPU 0,1)"),
            Some(3.6e6)
        );
        assert_eq!(highest_khz("no driver"), None);
    }
}
