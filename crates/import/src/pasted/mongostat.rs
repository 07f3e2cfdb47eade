//! mongostat: a second a line, with or without its head.
//!
//! What waits for one of MongoDB's tickets stands in `qrw` (reads and writes), what has one in `arw`. The surprise is
//! the head, which differs from version to version: the cells have forms of their own and are found by these.

use super::events::{artefact, told};
use super::pieces::value;
use record::pasted::Artefact;

/// The lines of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("mongostat", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(second) = second(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("mongo.seconds", 1.0);
        let [reads, writes] = second.queued;
        if reads + writes >= found.value("mongo.queued").unwrap_or(0.0) {
            found.figures.insert("mongo.queued".into(), reads + writes);
            found.figures.insert("mongo.queued_reads".into(), reads);
            found.figures.insert("mongo.queued_writes".into(), writes);
        }
        found.largest("mongo.active", second.active.iter().sum());
        let of_cache = [("mongo.dirty_percent", 0), ("mongo.used_percent", 1)];
        for (name, at) in of_cache {
            if let Some(percent) = second.cache.get(at) {
                found.largest(name, *percent);
            }
        }
        if let Some(n) = second.connections {
            found.largest("mongo.connections", n);
        }
    }
    told(found)
}

struct Second {
    queued: [f64; 2],
    active: [f64; 2],
    /// Shares of the cache, in percent: dirty, used.
    cache: Vec<f64>,
    connections: Option<f64>,
}

/// `*0 120 *0 *0 0 12|0 0.1% 80.1% 0 1.50G 1.02G 45|3 128|1 50.1k 1.20m 412 Nov 20 10:00:01.123`.
fn second(line: &str) -> Option<Second> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pair = |w: &str| -> Option<[f64; 2]> {
        let (a, b) = w.split_once('|')?;
        Some([a.parse().ok()?, b.parse().ok()?])
    };
    // Operations: five numbers, a star where they came by replication.
    let operation = |w: &&str| w.trim_start_matches('*').parse::<u64>().is_ok();
    if words.len() < 12 || !words.iter().take(5).all(operation) {
        return None;
    }
    let (at, queued, active) = words
        .windows(2)
        .enumerate()
        .rev()
        .find_map(|(at, two)| Some((at, pair(two[0])?, pair(two[1])?)))?;
    // Before version 3.4 the two shares of the cache had no sign, right behind the commands.
    let percent = |w: &&str| w.strip_suffix('%').unwrap_or(w).parse::<f64>().ok();
    let cache = words.iter().skip(6).take(2).filter(|w| w.contains('.'));
    let connections = words.get(at + 4).and_then(|w| value(w));
    Some(Second {
        queued,
        active,
        cache: cache.filter_map(percent).collect(),
        connections: connections.filter(|n| n.fract() == 0.0),
    })
}
