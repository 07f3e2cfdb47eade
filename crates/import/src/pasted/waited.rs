//! Times that a program has added up by counters whose names say what they are and in which unit:
//! `sum(ProfileEvent_GlobalThreadPoolLockWaitMicroseconds): 24515791498`, `mutex_wait_us 91022`.
//!
//! The surprise is their size, which is of all threads together: a minute of load may hold hours of waiting.

use super::about;
use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Units as names end with them, in small letters, in seconds.
const UNITS: [(&str, f64); 9] = [
    ("microseconds", 1e-6),
    ("milliseconds", 1e-3),
    ("nanoseconds", 1e-9),
    ("_usec", 1e-6),
    ("_msec", 1e-3),
    ("_us", 1e-6),
    ("_ms", 1e-3),
    ("_ns", 1e-9),
    ("_seconds_total", 1.0),
];
/// Parts of the names of waits, and of those of them that are for a lock.
const WAITS: [&str; 6] = ["wait", "block", "stall", "lock", "mutex", "throttl"];
const LOCKS: [&str; 2] = ["lock", "mutex"];
/// A longer line is a sentence or data.
const LINE: usize = 200;
/// Fewer such counters are none, and less than so many seconds is little.
const FEWEST: usize = 2;
const LONG_S: f64 = 1.0;

/// The counters of waits, the longest first.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("waits that are added up", 0);
    let mut times = 0;
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() <= LINE) {
        let Some((name, s)) = timed(line) else {
            continue;
        };
        times += 1;
        let lower = name.to_ascii_lowercase();
        if !WAITS.iter().any(|w| lower.contains(w)) {
            continue;
        }
        found.begin_at(number);
        found.largest("waited.most_s", s);
        if LOCKS.iter().any(|l| lower.contains(l)) && !lower.contains("block") {
            found.largest("waited.lock_s", s);
        }
        found.rows.push(Row {
            label: short(name),
            place: format!("{s:.1} s"),
            share: s,
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("waited.rows".into(), rows);
    about::add(&mut found, lines);
    told(found).filter(|a| times >= FEWEST && a.value("waited.most_s") >= Some(LONG_S))
}

/// A name that ends with a unit of time, and its number in seconds.
fn timed(line: &str) -> Option<(&str, f64)> {
    let text = line.trim().trim_matches('|').trim();
    let (name, n) = text.rsplit_once([':', '=', '|', ' ', '\t'])?;
    let n = value(n.trim())?;
    let name = name.trim_matches(|c: char| c.is_whitespace() || ":=|\"'`".contains(c));
    let name = name.strip_suffix(')').map_or(name, |name| {
        name.rsplit_once('(').map_or(name, |(_, inner)| inner)
    });
    let lower = name.to_ascii_lowercase();
    let (_, unit) = UNITS.iter().find(|(unit, _)| lower.ends_with(unit))?;
    let plain = !name.contains(char::is_whitespace);
    plain.then_some((name, n * unit))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn waits_are_told_in_seconds() {
        let text = "pool_jobs: 812\nqueue_wait_us: 2500000\njournal_mutex_wait_ms = 61000\nrun_ms = 90000\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            ["journal_mutex_wait_ms: 61.0 s", "queue_wait_us: 2.5 s"]
        );
        assert_eq!(found.value("waited.lock_s"), Some(61.0));
        let summed = "sum(StorageReadMicroseconds):  90\nsum(PoolLockWaitMicroseconds):  7000000\n";
        let found = read(&summed.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(written(&found), ["PoolLockWaitMicroseconds: 7.0 s"]);
        // Short ones, one alone, and others than waits.
        assert!(read(&["a_wait_us: 90", "b_wait_us: 80"]).is_none());
        assert!(read(&["a_wait_ms: 90000", "b: 80"]).is_none());
        assert!(read(&["a_ms: 90000", "b_ms: 80000"]).is_none());
    }
}
