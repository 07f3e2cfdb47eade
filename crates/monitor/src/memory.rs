//! `/proc/meminfo` and `/proc/vmstat`: memory that is left, caches, major faults and swapping.
//!
//! The surprise: meminfo says `kB` and means KiB.

use crate::Signal;
use crate::fields::{Field, FieldSource, Scale};
use linux::Root;

/// Kept by zone since Linux 4.8.
const ALLOCSTALL: &str = "allocstall";

const fn level(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::Kib,
        signal: Signal::gauge(name, "bytes", "/proc/meminfo"),
    }
}

const fn event(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::One,
        signal: Signal::counter(name, "pages", "/proc/vmstat"),
    }
}

const fn stall(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::One,
        signal: Signal::counter(name, "calls", "/proc/vmstat"),
    }
}

/// Of `/proc/meminfo`.
pub const MEMINFO: &[Field] = &[
    level("MemTotal", "memory.total_bytes"),
    level("MemAvailable", "memory.available_bytes"),
    level("Slab", "memory.slab_bytes"),
    level("Cached", "memory.cached_bytes"),
    level("Dirty", "memory.dirty_bytes"),
];

/// Of `/proc/vmstat`.
pub const VMSTAT: &[Field] = &[
    event("pgmajfault", "vm.major_faults"),
    event("pswpin", "vm.swap_in"),
    event("pswpout", "vm.swap_out"),
    event("pgfault", "vm.faults"),
    event("pgscan_direct", "vm.direct_scans"),
    event("pgsteal_direct", "vm.direct_reclaimed"),
    event("workingset_refault_file", "vm.refaults_file"),
    event("workingset_refault_anon", "vm.refaults_anon"),
    stall(ALLOCSTALL, "vm.direct_reclaims"),
    stall("compact_stall", "vm.compact_stalls"),
    stall("thp_fault_alloc", "vm.huge_faults"),
    stall("thp_fault_fallback", "vm.huge_fallbacks"),
    stall("thp_collapse_alloc", "vm.huge_collapses"),
];

/// The two sources.
pub fn sources(root: &Root) -> [FieldSource; 2] {
    [
        FieldSource::new(
            "memory",
            root,
            "proc/meminfo",
            "mount /proc",
            MEMINFO,
            parse,
        )
        .slow(),
        FieldSource::new(
            "vm",
            root,
            "proc/vmstat",
            "use a kernel with CONFIG_VM_EVENT_COUNTERS",
            VMSTAT,
            parse_vmstat,
        )
        .slow(),
    ]
}

/// Reads vmstat. Counters that newer kernels keep by zone (`allocstall_normal`) are summed under the name
/// without the zone, which is what older kernels write.
pub fn parse_vmstat(text: &str, fields: &[Field]) -> Vec<Option<f64>> {
    let mut found = parse(text, fields);
    for (field, value) in fields.iter().zip(&mut found) {
        if value.is_none() && field.key == ALLOCSTALL {
            *value = by_zone(text, field.key);
        }
    }
    found
}

fn by_zone(text: &str, key: &str) -> Option<f64> {
    let zones = text.lines().filter_map(|line| {
        let (zone, number) = line.strip_prefix(key)?.split_once(' ')?;
        zone.starts_with('_').then(|| number.trim().parse().ok())?
    });
    zones.reduce(|a: f64, b| a + b)
}

/// Reads lines of a name (with or without a colon), a number, and perhaps a unit.
pub fn parse(text: &str, fields: &[Field]) -> Vec<Option<f64>> {
    let mut found = vec![None; fields.len()];
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(number)) = (words.next(), words.next()) else {
            continue;
        };
        let name = name.trim_end_matches(':');
        if let Some(i) = fields.iter().position(|f| f.key == name) {
            found[i] = number.parse().ok();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{once, values};

    #[test]
    fn meminfo_in_bytes() {
        let text = "MemTotal:  8000 kB\nMemAvailable:  4000 kB\nCached:  12 kB\nSwapCached:  99 kB\nDirty:  1 kB\nSlab:  3 kB\n";
        let (series, unavailable) = once("proc/meminfo", text, |root| {
            sources(root).into_iter().next().unwrap()
        });
        assert_eq!(unavailable, []);
        assert_eq!(
            values(&series),
            [
                ("memory.total_bytes", 8_192_000.0),
                ("memory.available_bytes", 4_096_000.0),
                ("memory.slab_bytes", 3072.0),
                ("memory.cached_bytes", 12_288.0),
                ("memory.dirty_bytes", 1024.0),
            ]
        );
    }

    #[test]
    fn vmstat_without_swap_has_no_swap_signals() {
        let (series, unavailable) = once("proc/vmstat", "pgfault 1000\npgmajfault 7\n", |root| {
            sources(root).into_iter().next_back().unwrap()
        });
        assert_eq!(
            values(&series),
            [("vm.major_faults", 7.0), ("vm.faults", 1000.0)]
        );
        let gaps: Vec<&str> = unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(gaps[..2], ["vm.swap_in", "vm.swap_out"]);
    }

    #[test]
    fn stalls_are_summed_over_zones() {
        for (text, expected) in [
            ("allocstall 5\n", Some(5.0)),
            (
                "allocstall_dma 1\nallocstall_normal 2\nallocstall_movable 4\n",
                Some(7.0),
            ),
            ("allocstallx 3\npgfault 1\n", None),
        ] {
            let found = parse_vmstat(text, VMSTAT);
            let at = VMSTAT.iter().position(|f| f.key == ALLOCSTALL).unwrap();
            assert_eq!(found[at], expected, "{text}");
        }
    }
}
