//! Numbers of a pool in any library's words: what is in use, the most, what is idle, who waits.
//!
//! `max_conns=4 acquired_conns=4 idle_conns=0`, `(total=10, active=10, idle=0, waiting=50)`, `InUse:10 Idle:0`. The
//! words mean something only together, and so they are gathered over neighbouring lines; the fullest pool is the
//! case.

use super::events::artefact;
use super::pieces::{seconds, value};
use record::pasted::Artefact;

/// Lines that a message with such numbers has at most.
const LINES: usize = 3;

/// Names without punctuation and without the words below, and what they are.
#[rustfmt::skip]
const NAMES: [(&str, &[&str]); 7] = [
    ("pool.used", &["active", "acquired", "inuse", "busy", "used", "borrowed", "checkedout", "leased", "numused", "running"]),
    ("pool.max", &["max", "maxopen", "maxtotal", "maxactive", "maxsize", "maximum", "maximumsize", "total", "limit", "size", "capacity", "maxidle"]),
    ("pool.idle", &["idle", "available", "avail", "free", "numfree"]),
    ("pool.waiting", &["waiting", "pending", "waiters", "queued", "queue", "awaiting", "pendingacquires", "waitqueue", "pendingacquire", "queuedtasks", "wait", "backlog"]),
    ("pool.acquired", &["acquiredelta", "acquire", "acquires"]),
    ("pool.waited", &["emptyacquiredelta", "emptyacquire"]),
    ("pool.wait", &["avgacquirems", "waitduration", "acquirems", "waitms", "avgwaitms"]),
];
/// Words of a name that say only what is pooled.
const WORDS: [&str; 14] = [
    "connections",
    "connection",
    "conns",
    "conn",
    "threads",
    "workers",
    "clients",
    "current",
    "count",
    "pool",
    "hikaricp",
    "db_",
    "resources",
    "objects",
];

/// The fullest pool of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut worst: Option<Artefact> = None;
    for (number, at) in (1_u32..).zip(0..lines.len()) {
        let mut found = artefact("numbers of a pool", number);
        // What is in use stands in the first line.
        let end = (at + LINES).min(lines.len());
        for (i, line) in lines[at..end].iter().enumerate() {
            for (name, n) in figures(line) {
                found.figures.entry(name.to_owned()).or_insert(n);
            }
            if i == 0 && found.figures.is_empty() {
                break;
            }
        }
        let named = lines[at..end].iter().any(|l| is_about_a_pool(l));
        let rank = |a: &Artefact| a.value("pool.full").unwrap_or(0.0) * 1e9 + waiting(a);
        if named && judged(&mut found) && worst.as_ref().is_none_or(|w| rank(&found) > rank(w)) {
            worst = Some(found);
        }
    }
    worst
}

fn waiting(found: &Artefact) -> f64 {
    found
        .value("pool.waiting")
        .or_else(|| found.value("pool.waited"))
        .unwrap_or(0.0)
}

fn is_about_a_pool(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    ["pool", "conn", "acquire", "inuse", "in_use"]
        .iter()
        .any(|w| lower.contains(w))
}

/// Whether the numbers make a pool, and whether that is full.
fn judged(found: &mut Artefact) -> bool {
    let of = |name: &str| found.value(name);
    let Some(used) = of("pool.used").filter(|n| *n >= 1.0) else {
        return false;
    };
    let full = match (of("pool.max"), of("pool.idle")) {
        (Some(max), idle) if max >= 1.0 => used >= max && idle.unwrap_or(0.0) < 1.0,
        (_, Some(idle)) => idle < 1.0 && waiting(found) >= 1.0,
        _ => return false,
    };
    found
        .figures
        .insert("pool.full".into(), f64::from(u8::from(full)));
    true
}

/// The numbers of a line, with what they are.
fn figures(line: &str) -> Vec<(&'static str, f64)> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':']) {
        let (name, behind) = (&rest[..at], &rest[at + 1..]);
        rest = behind;
        let start = name
            .rfind([',', '(', '[', '{', '=', ';', '"', ':'])
            .map_or(0, |i| i + 1);
        let name = match name.trim_end().strip_suffix('"') {
            Some(quoted) => quoted.rsplit('"').next().unwrap_or(""),
            None => &name[start..],
        };
        let text = behind.trim_start();
        let end = text
            .find(|c: char| c.is_whitespace() || ",;)]}\"/".contains(c))
            .unwrap_or(text.len());
        let text = text[..end].trim_end_matches('.');
        let Some(n) = value(text) else { continue };
        if let Some(ours) = ours(name) {
            let ours = match ours {
                "pool.wait" => "pool.wait_ms",
                ours => ours,
            };
            // A time with its unit is in seconds.
            let n = match seconds(text).filter(|_| ours == "pool.wait_ms") {
                Some(s) => s * 1e3,
                None => n,
            };
            found.push((ours, n));
        }
    }
    found
}

/// The last words of a name that are one: `HikariPool-1 - Pool stats (total` is cut before, `active threads` is not.
fn ours(name: &str) -> Option<&'static str> {
    let words: Vec<&str> = name.split_whitespace().collect();
    (0..words.len().min(3)).find_map(|n| {
        let name = words[words.len() - 1 - n..].concat().to_ascii_lowercase();
        // Puma's name for the threads that are free.
        if name.trim_matches('"') == "pool_capacity" {
            return Some("pool.idle");
        }
        let name = WORDS.iter().fold(name, |name, word| name.replace(word, ""));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let found = NAMES
            .iter()
            .find(|(_, names)| names.contains(&name.as_str()));
        found.map(|(ours, _)| *ours)
    })
}
