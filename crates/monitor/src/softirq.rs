//! `/proc/softirqs` and `/proc/net/softnet_stat`: which core does the network's work, and whether it
//! keeps up.
//!
//! The surprise: softnet_stat has one line per *online* core, and only newer kernels write the core's
//! number (column 13); with older ones the line's number stands for it.

use crate::recorder::Rows;
use crate::{Pass, Recorder, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

const SOFTNET_FILE: &str = "/proc/net/softnet_stat";

/// Calls of one kind on one core.
pub const SOFTIRQ: [Signal; 1] = [Signal::counter("softirq.calls", "calls", "/proc/softirqs")];

/// The first three columns of a line.
pub const SOFTNET: [Signal; 3] = [
    Signal::counter("softnet.processed", "packets", SOFTNET_FILE),
    Signal::counter("softnet.dropped", "packets", SOFTNET_FILE),
    Signal::counter("softnet.time_squeeze", "calls", SOFTNET_FILE),
];

/// The kernel's names of the kinds that matter for a server, and ours.
const KINDS: [(&str, &str); 5] = [
    ("NET_RX", "net_rx"),
    ("NET_TX", "net_tx"),
    ("TIMER", "timer"),
    ("SCHED", "sched"),
    ("RCU", "rcu"),
];

/// Calls of a kind on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calls {
    pub core: u32,
    /// Kind, as in the table of signals.
    pub kind: &'static str,
    /// Cumulative calls.
    pub calls: f64,
}

/// Reads the text of `/proc/softirqs`; `None` when it has no line of a kind that matters.
pub fn parse_softirqs(text: &str) -> Option<Vec<Calls>> {
    let mut lines = text.lines();
    let cores: Vec<u32> = lines
        .next()?
        .split_ascii_whitespace()
        .map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect::<Option<_>>()?;
    let mut all = Vec::new();
    for line in lines {
        let (name, counts) = line.split_once(':')?;
        let Some((_, kind)) = KINDS.iter().find(|(theirs, _)| *theirs == name.trim()) else {
            continue;
        };
        for (&core, count) in cores.iter().zip(counts.split_ascii_whitespace()) {
            let calls = count.parse().ok()?;
            all.push(Calls { core, kind, calls });
        }
    }
    (!all.is_empty()).then_some(all)
}

/// Reads the text of softnet_stat: each core with its packets processed, packets dropped and squeezes;
/// `None` when a line is not in hexadecimal columns.
pub fn parse_softnet(text: &str) -> Option<Vec<(u32, [f64; 3])>> {
    let mut rows = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let columns: Vec<u32> = line
            .split_ascii_whitespace()
            .map(|word| u32::from_str_radix(word, 16).ok())
            .collect::<Option<_>>()?;
        let core = columns.get(12).copied().unwrap_or(number as u32);
        let value = |i: usize| columns.get(i).copied().map(f64::from);
        rows.push((core, [value(0)?, value(1)?, value(2)?]));
    }
    (!rows.is_empty()).then_some(rows)
}

/// Calls by core and kind.
#[derive(Debug)]
pub struct Softirqs {
    file: Reread,
    rows: Rows<(u32, &'static str), 1>,
}

impl Softirqs {
    /// Reads under `root`.
    pub fn new(root: &Root) -> Self {
        Self {
            file: Reread::new(root, "proc/softirqs", "mount /proc"),
            rows: Rows::new(SOFTIRQ),
        }
    }
}

impl Source for Softirqs {
    fn name(&self) -> &'static str {
        "softirq"
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let all = out.value_or_gap("softirq", self.file.parse("table of calls", parse_softirqs));
        for Calls { core, kind, calls } in all.unwrap_or_default() {
            let labels = || vec![("core", core.to_string()), ("kind", kind.to_owned())];
            self.rows.push(&(core, kind), labels, at, [calls], out);
        }
    }
}

/// Packets by core.
#[derive(Debug)]
pub struct Softnet {
    file: Reread,
    rows: Rows<u32, 3>,
}

impl Softnet {
    /// Reads under `root`.
    pub fn new(root: &Root) -> Self {
        Self {
            file: Reread::new(
                root,
                "proc/net/softnet_stat",
                "use a kernel with CONFIG_NET",
            ),
            rows: Rows::new(SOFTNET),
        }
    }
}

impl Source for Softnet {
    fn name(&self) -> &'static str {
        "softnet"
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let rows = out.value_or_gap(
            "softnet",
            self.file.parse("hexadecimal line of a core", parse_softnet),
        );
        for (core, values) in rows.unwrap_or_default() {
            let labels = || vec![("core", core.to_string())];
            self.rows.push(&core, labels, at, values, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_by_core_and_kind() {
        let text = "                    CPU0       CPU2\n          HI:          7          7\n\
            \x20     NET_RX:       4383       5670\n         RCU:      26586      29067\n";
        let calls = |core, kind, calls| Calls { core, kind, calls };
        assert_eq!(
            parse_softirqs(text).unwrap(),
            [
                calls(0, "net_rx", 4383.0),
                calls(2, "net_rx", 5670.0),
                calls(0, "rcu", 26586.0),
                calls(2, "rcu", 29067.0),
            ]
        );
    }

    #[test]
    fn softnet_takes_the_core_from_its_column_or_from_the_line() {
        let long = "0000000a 1 2 0 0 0 0 0 0 0 0 0 00000000 0 0\n0000244b 0 3 0 0 0 0 0 0 0 0 0 00000005 0 0\n";
        let short = "0000000a 00000001 00000002 0\n0000244b 00000000 00000003 0\n";
        for (text, second) in [(long, 5), (short, 1)] {
            let rows = parse_softnet(text).unwrap();
            assert_eq!(rows[0], (0, [10.0, 1.0, 2.0]));
            assert_eq!(rows[1], (second, [9291.0, 0.0, 3.0]), "{text}");
        }
    }

    #[test]
    fn what_is_not_such_a_table_is_refused() {
        for text in ["", "CPU0\n", "CPU0\nNET_RX: many\n", "cpu\nNET_RX: 1\n"] {
            assert_eq!(parse_softirqs(text), None, "{text:?}");
        }
        for text in ["", "1 2\n", "x y z\n"] {
            assert_eq!(parse_softnet(text), None, "{text:?}");
        }
    }
}
