//! Memory, swap, huge pages, NUMA nodes.

use super::facts::{Facts, after, chosen};

const MEMINFO: [(&str, &str); 5] = [
    ("total_bytes", "MemTotal"),
    ("available_bytes", "MemAvailable"),
    ("swap_total_bytes", "SwapTotal"),
    ("swap_free_bytes", "SwapFree"),
    ("huge_page_bytes", "Hugepagesize"),
];

/// Adds the facts.
pub fn describe(facts: &mut Facts) {
    for (name, key) in MEMINFO {
        facts.find(
            "memory",
            name,
            "proc/meminfo",
            "line of that size",
            |text| bytes(text, key),
        );
    }
    facts.find(
        "memory",
        "huge_pages",
        "proc/meminfo",
        "number of huge pages",
        |text| after(text, "HugePages_Total", ':'),
    );
    for name in ["enabled", "defrag"] {
        let relative = format!("sys/kernel/mm/transparent_hugepage/{name}");
        let name = format!("transparent_hugepage.{name}");
        facts.find("memory", &name, &relative, "choice in brackets", chosen);
    }
    facts.file("memory", "numa_nodes", "sys/devices/system/node/online");
}

/// A size of meminfo, which says kB and means KiB.
fn bytes(text: &str, key: &str) -> Option<String> {
    let size = after(text, key, ':')?;
    let kib: u64 = size.strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_bytes() {
        let text = "MemTotal:       8 kB\nHugePages_Total:       3\n";
        assert_eq!(bytes(text, "MemTotal").as_deref(), Some("8192"));
        assert_eq!(bytes(text, "HugePages_Total"), None);
    }
}
