//! What a control group counts as memory, of both versions: `memory.stat`'s cache beside the memory of processes, the
//! usage and the limit, however a person lists them.
//!
//! The surprise is the page cache, which the usage counts although the kernel frees it when it needs it: a group that
//! reads files is always near its limit.

use super::events::{artefact, told};
use super::pieces::{pieces, value};
use record::pasted::{Artefact, Row};

/// Names of both versions, with what they are; those of a whole tree go before a group's own.
const NAMES: [(&str, &str); 12] = [
    ("total_cache", "cache_bytes"),
    ("total_rss", "processes_bytes"),
    ("cache", "cache_bytes"),
    ("rss", "processes_bytes"),
    ("file", "cache_bytes"),
    ("anon", "processes_bytes"),
    ("memory.usage_in_bytes", "usage_bytes"),
    ("memory.current", "usage_bytes"),
    ("memory.limit_in_bytes", "limit_bytes"),
    ("hierarchical_memory_limit", "limit_bytes"),
    ("memory.max", "limit_bytes"),
    ("memory.failcnt", "failures"),
];
/// Words that only such a list has; `cache` and `file` alone are anybody's.
const SURE: [&str; 12] = [
    "total_cache",
    "total_rss",
    "mapped_file",
    "total_mapped_file",
    "inactive_file",
    "total_inactive_file",
    "workingset_refault_file",
    "file_mapped",
    "hierarchical_memory_limit",
    "memory.usage_in_bytes",
    "memory.current",
    "memory.stat",
];

/// What a text says of the memory of a group.
pub(super) fn read<L: AsRef<str>>(lines: &[L]) -> Option<Artefact> {
    let mut found = artefact("memory of a control group", 0);
    let mut known: Vec<(usize, &str, String, f64)> = Vec::new();
    let mut sure = false;
    for (number, line) in (1_u32..).zip(lines) {
        let parts = pieces(line.as_ref());
        let bare = |at: usize| -> &str { parts[at].text.rsplit('/').next().unwrap_or_default() };
        sure |= (0..parts.len()).any(|at| SURE.contains(&bare(at)));
        for at in 0..parts.len().saturating_sub(1) {
            let Some(rank) = NAMES.iter().position(|(name, _)| *name == bare(at)) else {
                continue;
            };
            // Bytes are printed whole.
            let written = parts[at + 1].text;
            let whole = written.bytes().all(|b| b.is_ascii_digit() || b == b',');
            let Some(n) = value(written).filter(|_| whole) else {
                continue;
            };
            found.begin_at(number);
            known.push((rank, NAMES[rank].1, written.to_owned(), n));
        }
    }
    known.sort_by_key(|(rank, ..)| *rank);
    for (rank, figure, written, n) in known {
        let figure = format!("groupmem.{figure}");
        if found.value(&figure).is_none() {
            found.figures.insert(figure, n);
            found.rows.push(Row {
                label: NAMES[rank].0.to_owned(),
                place: written,
                share: n,
            });
        }
    }
    let cache = found.value("groupmem.cache_bytes")?;
    let processes = found.value("groupmem.processes_bytes")?;
    let share = cache / (cache + processes).max(1.0);
    let rows = found.rows.len() as f64;
    found.figures.insert("groupmem.rows".into(), rows);
    found.figures.insert("groupmem.cache_share".into(), share);
    told(found).filter(|_| sure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(text: &str, name: &str) -> Option<f64> {
        read(&text.lines().collect::<Vec<_>>())?.value(name)
    }

    #[test]
    fn both_versions_are_read_and_a_tree_goes_before_its_group() {
        let first = "cache 100\nrss 0\nmapped_file 7\ntotal_cache 3000\ntotal_rss 1000\n$ cat memory.failcnt\n";
        assert_eq!(figure(first, "groupmem.cache_share"), Some(0.75));
        assert_eq!(figure(first, "groupmem.processes_bytes"), Some(1000.0));
        let second = "/sys/fs/cgroup/a/memory.max: 4,096\nanon 900\nfile 100\ninactive_file 80\n";
        assert_eq!(figure(second, "groupmem.limit_bytes"), Some(4096.0));
        assert_eq!(figure(second, "groupmem.cache_share"), Some(0.1));
        // A cache and a file of anybody's.
        assert_eq!(figure("cache 100\nrss 4\n", "groupmem.rows"), None);
        assert_eq!(figure("memory.stat file 100\n", "groupmem.rows"), None);
    }
}
