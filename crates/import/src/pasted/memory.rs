//! `MEMORY STATS` of redis and its kin: a name a line and its number in the next, as redis-cli prints pairs.
//!
//! Without a terminal redis-cli leaves the numbers of the lines and the types out. The surprise is a name inside of a
//! list, which has the numbers of both before it (`18) 1) "overhead.hashtable.main"`).

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};

/// Names of the pairs that are told, those that say most first.
const NAMES: [&str; 9] = [
    "total.allocated",
    "keys.count",
    "keys.bytes-per-key",
    "peak.allocated",
    "dataset.percentage",
    "dataset.bytes",
    "clients.normal",
    "overhead.total",
    "startup.allocated",
];
/// Fewer are a name that somebody wrote.
const FEWEST: usize = 3;

/// What a text says of the memory.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("redis MEMORY STATS", 0);
    let mut rows: Vec<(usize, Row)> = Vec::new();
    for (number, pair) in (1_u32..).zip(lines.windows(2)) {
        let (name, n) = (bare(pair[0]), bare(pair[1]));
        let Some(rank) = NAMES.iter().position(|known| *known == name) else {
            continue;
        };
        if n.parse::<f64>().is_ok() && rows.iter().all(|(of, _)| *of != rank) {
            found.begin_at(number);
            let row = Row {
                label: name.to_owned(),
                place: n.to_owned(),
                share: 1.0,
            };
            rows.push((rank, row));
        }
    }
    rows.sort_by_key(|(rank, _)| *rank);
    found.rows = rows.into_iter().map(|(_, row)| row).collect();
    let rows = found.rows.len();
    found.figures.insert("redismem.rows".into(), rows as f64);
    told(found).filter(|_| rows >= FEWEST)
}

/// A line of redis-cli without its numbers, its type and its quotes.
fn bare(line: &str) -> &str {
    let text = line.trim();
    let text = text.rsplit_once(") ").map_or(text, |(_, behind)| behind);
    text.trim_matches(['"', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_with_and_without_their_numbers() {
        let text = " 1) \"peak.allocated\"\n 2) (integer) 7000\n17) \"db.0\"\n18) 1) \"overhead.hashtable.main\"\n    2) (integer) 17\n21) \"keys.count\"\n22) (integer) 35\n27) \"dataset.percentage\"\n28) \"95.05\"\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let rows = found
            .rows
            .iter()
            .map(|r| format!("{} {}", r.label, r.place));
        let rows: Vec<String> = rows.collect();
        assert_eq!(rows[..2], ["keys.count 35", "peak.allocated 7000"]);
        assert_eq!(rows[2..], ["dataset.percentage 95.05"]);
        let plain = "peak.allocated\n7000\ntotal.allocated\n6000\nkeys.count\n35\n";
        assert!(read(&plain.lines().collect::<Vec<_>>()).is_some());
        assert!(read(&["keys.count", "35"]).is_none());
    }
}
