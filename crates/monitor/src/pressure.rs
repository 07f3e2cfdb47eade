//! `/proc/pressure`: how long tasks were stalled for want of CPU, memory or I/O.
//!
//! The surprise: `full` of the CPU is left out, because for a whole host it is always zero
//! (Documentation/accounting/psi.rst).

use crate::Signal;
use crate::fields::{Field, FieldSource, Scale};
use linux::Root;

const NEEDS: &str = "boot with psi=1 on a kernel with CONFIG_PSI";

const fn stalled(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::Micros,
        signal: Signal::counter(name, "s", "/proc/pressure"),
    }
}

/// Of `/proc/pressure/cpu`.
pub const CPU: &[Field] = &[stalled("some", "pressure.cpu_some_s")];
/// Of `/proc/pressure/memory`.
pub const MEMORY: &[Field] = &[
    stalled("some", "pressure.memory_some_s"),
    stalled("full", "pressure.memory_full_s"),
];
/// Of `/proc/pressure/io`.
pub const IO: &[Field] = &[
    stalled("some", "pressure.io_some_s"),
    stalled("full", "pressure.io_full_s"),
];

/// The three sources.
pub fn sources(root: &Root) -> [FieldSource; 3] {
    [
        ("pressure (cpu)", "proc/pressure/cpu", CPU),
        ("pressure (memory)", "proc/pressure/memory", MEMORY),
        ("pressure (io)", "proc/pressure/io", IO),
    ]
    .map(|(name, relative, fields)| {
        FieldSource::new(name, root, relative, NEEDS, fields, parse).slow()
    })
}

/// Reads lines such as `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`; the numbers are the totals, us.
pub fn parse(text: &str, fields: &[Field]) -> Vec<Option<f64>> {
    fields
        .iter()
        .map(|field| {
            let line = text.lines().find_map(|line| line.strip_prefix(field.key))?;
            let total = line
                .split_ascii_whitespace()
                .find_map(|word| word.strip_prefix("total="));
            total?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{once, values};

    fn of(index: usize) -> impl Fn(&Root) -> FieldSource {
        move |root| sources(root).into_iter().nth(index).unwrap()
    }

    #[test]
    fn totals_in_seconds() {
        let text = "some avg10=5.50 avg60=2.18 avg300=1.31 total=29761544\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n";
        let (series, _) = once("proc/pressure/memory", text, of(1));
        assert_eq!(
            values(&series),
            [
                ("pressure.memory_some_s", 29.761_544),
                ("pressure.memory_full_s", 0.25)
            ]
        );
    }

    #[test]
    fn a_kernel_without_psi_is_a_gap_with_a_remedy() {
        let (series, unavailable) = once("proc/other", "", of(0));
        assert_eq!(series, []);
        assert_eq!(unavailable[0].what, "pressure (cpu)");
        assert!(unavailable[0].reason.contains("No such file or directory"));
        assert!(unavailable[0].remedy.contains("psi=1"));
    }
}
