//! `/proc/sys/net/netfilter`: connections that the packet filter tracks, and how many it may.
//!
//! The surprise: a full table drops packets of new connections without any error at either end, which looks like
//! loss. Most hosts of containers track; a kernel without the module has no such files, and then nothing can fill
//! up: that is no gap.

use crate::{Pass, Recorder, SeriesId, Signal, Source};
use linux::Reread;
use linux::Root;
use record::Nanos;

/// Tracked now, and at most.
pub const CONNTRACK: [Signal; 2] = [
    Signal::gauge(
        "conntrack.entries",
        "connections",
        "/proc/sys/net/netfilter/nf_conntrack_count",
    ),
    Signal::gauge(
        "conntrack.limit",
        "connections",
        "/proc/sys/net/netfilter/nf_conntrack_max",
    ),
];

/// Packets that tracking threw away: no room, no memory, or the same connection twice.
pub const DROPS: [Signal; 1] = [Signal::counter(
    "conntrack.drops",
    "packets",
    "/proc/net/stat/nf_conntrack",
)];

/// Columns of the table that are such packets; `early_drop` is an entry that made room.
const DROP_COLUMNS: [&str; 2] = ["drop", "insert_failed"];

const FILES: [&str; 2] = ["nf_conntrack_count", "nf_conntrack_max"];

/// The source.
#[derive(Debug)]
pub struct Conntrack {
    files: Option<[Reread; 2]>,
    ids: Option<[SeriesId; 2]>,
    table: Reread,
    drops: Option<SeriesId>,
}

impl Conntrack {
    /// Reads under `root`, unless connections are not tracked there.
    pub fn new(root: &Root) -> Self {
        let relative = |name| format!("proc/sys/net/netfilter/{name}");
        let tracks = root.path(&relative(FILES[0])).exists();
        let files = FILES.map(|name| Reread::new(root, &relative(name), ""));
        Self {
            files: tracks.then_some(files),
            ids: None,
            table: Reread::new(
                root,
                "proc/net/stat/nf_conntrack",
                "use a kernel with CONFIG_NF_CONNTRACK_PROCFS",
            ),
            drops: None,
        }
    }
}

impl Source for Conntrack {
    fn name(&self) -> &'static str {
        "conntrack"
    }

    fn due(&self, pass: Pass) -> bool {
        self.files.is_some() && pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        let Some([count, limit]) = &mut self.files else {
            return;
        };
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let count = out.value_or_gap(CONNTRACK[0].name, count.parse("number", number));
        let limit = out.value_or_gap(CONNTRACK[1].name, limit.parse("number", number));
        let ids = *self
            .ids
            .get_or_insert_with(|| CONNTRACK.map(|signal| out.series(&signal, &[])));
        for (id, value) in ids.into_iter().zip([count, limit]) {
            if let Some(value) = value {
                out.push(id, at, value);
            }
        }
        let dropped = out.value_or_gap(DROPS[0].name, self.table.parse("columns", parse_drops));
        if let Some(dropped) = dropped {
            let id = self.drops.get_or_insert_with(|| out.series(&DROPS[0], &[]));
            out.push(*id, at, dropped);
        }
    }
}

/// Sum over the CPUs, a line each, in hexadecimal, below a line of names; `None` without such columns.
fn parse_drops(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let columns: Vec<usize> = DROP_COLUMNS
        .iter()
        .filter_map(|column| names.iter().position(|name| name == column))
        .collect();
    if columns.is_empty() {
        return None;
    }
    let mut sum = 0;
    for line in lines {
        let numbers: Vec<&str> = line.split_ascii_whitespace().collect();
        for &column in &columns {
            sum += u64::from_str_radix(numbers.get(column)?, 16).ok()?;
        }
    }
    Some(sum as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tracked_and_a_kernel_that_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        assert!(!Conntrack::new(&root).due(Pass::Edge));
        let directory = root.path("proc/sys/net/netfilter");
        std::fs::create_dir_all(&directory).unwrap();
        for (name, value) in FILES.iter().zip(["17\n", "262144\n"]) {
            std::fs::write(directory.join(name), value).unwrap();
        }
        let table = root.path("proc/net/stat/nf_conntrack");
        std::fs::create_dir_all(table.parent().unwrap()).unwrap();
        let text = "entries  insert_failed drop early_drop\n11 1 0000000a 3\n11 0 00000010 0\n";
        std::fs::write(table, text).unwrap();
        let mut source = Conntrack::new(&root);
        assert!(source.due(Pass::Slow) && !source.due(Pass::Fast));
        let mut out = Recorder::default();
        source.sample(Nanos(1), Pass::Slow, &mut out);
        let (series, unavailable) = out.finish();
        assert_eq!(unavailable, []);
        let values: Vec<_> = series.iter().map(|s| s.values[0]).collect();
        assert_eq!(values, [17.0, 262_144.0, 27.0]);
    }
}
