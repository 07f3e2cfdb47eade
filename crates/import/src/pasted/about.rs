//! To which part of a system an unknown text belongs, by its words: who reads it next needs that part's own tools.
//!
//! The words of the rows that are told count more than those of the whole text. The figures are counts under
//! `about.PART`; where there is none, nothing is said of a part.

use record::pasted::Artefact;

/// Names of parts, and words of theirs in small letters.
#[rustfmt::skip]
const PARTS: [(&str, &[&str]); 10] = [
    ("about.database", &["quer", "select ", "insert ", "sql", "mongo", "postgres", "transaction", "innodb", "statement", "database", "rows read", "index", "repo."]),
    ("about.code", &["::", "()", ".py", ".rb", ".js:", ".go:", ".java", ".php", "function", "method", "calls", "frame", "samples", "__", "middleware", "profil", "self", "node_modules", "site-packages"]),
    ("about.memory", &["alloc", "heap", "memory", "rss", "leak", "objects", "garbage", "gc "]),
    ("about.network", &["packet", "retrans", "tcp", "socket", "dns", "rtt", "mtu", "rx_", "tx_", "handshake", "tls", "ssl", "session", "connect", "network", "goodput", "round-trip", "round trip"]),
    ("about.tls", &["tls", "ssl", "handshake", "cipher", "certificate", "negotiat", "x509", "rsa_"]),
    ("about.queue", &["queue", "backlog", "waiting", "pending", "pool", "worker", "thread", "busy", "inflight"]),
    ("about.disk", &["fsync", "iops", "disk", "nvme", "inode", "dentry", "/dev/", "storage", "read_bytes", "flush"]),
    ("about.processor", &["cpu", "%user", "%sys", "softirq", "irq", "cores", "throttl"]),
    ("about.cache", &["cache", " hit", "miss", "bypass", "vary", "etag", "cdn"]),
    ("about.request", &["get /", "post /", "http", "request", "response", "latency", "first byte", "ttfb", "url", "endpoint", "p95", "p99", "page"]),
];

/// Times that a word of a text counts at most.
const MOST: usize = 4;
/// A word of a row that is told counts as so many of the text.
const TOLD: usize = 5;
/// Rows that are told.
const ROWS: usize = 3;

/// Adds what the text and the first rows are about.
pub(super) fn add(found: &mut Artefact, lines: &[&str]) {
    let rows = found.rows.iter().take(ROWS);
    let rows: Vec<String> = rows.map(|r| format!("{} {}", r.label, r.place)).collect();
    let (rows, text) = (
        rows.join("\n").to_ascii_lowercase(),
        lines.join("\n").to_ascii_lowercase(),
    );
    for (part, words) in PARTS {
        let of = |text: &str| -> usize {
            let times = words.iter().map(|w| text.matches(w).take(MOST).count());
            times.sum()
        };
        let n = of(&text) + TOLD * of(&rows);
        if n > 0 {
            found.add(part, n as f64);
        }
    }
}
