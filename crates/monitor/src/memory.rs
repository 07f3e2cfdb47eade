//! `/proc/meminfo` and `/proc/vmstat`: memory that is left, caches, major faults and swapping.
//!
//! The surprise: meminfo says `kB` and means KiB.

use crate::fields::{Field, FieldSource, Scale};
use crate::{Root, Signal};

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

/// Of `/proc/meminfo`.
pub const MEMINFO: &[Field] = &[
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
            parse,
        )
        .slow(),
    ]
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
        assert_eq!(values(&series), [("vm.major_faults", 7.0)]);
        let gaps: Vec<&str> = unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(gaps, ["vm.swap_in", "vm.swap_out"]);
    }
}
