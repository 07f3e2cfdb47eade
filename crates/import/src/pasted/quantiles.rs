//! A table of percentiles by period, version or setting: `| p50 | 3 | 3 |`, `| p95 | 68-95 | 126-153 |`.
//!
//! The surprise is a middle that stays while the tail moves: most requests are as they were, and either those of some
//! kind became slower, or there are more of a kind that was slow all along.

use super::cells::bars;
use super::events::artefact;
use super::pieces::{apart, seconds, short, value};
use record::pasted::{Artefact, Row};

/// The middle stays where it changes less than that, and the tail moves where it changes more.
const STAYS: f64 = 1.25;
const MOVES: f64 = 1.3;

/// The percentile that moved most, where the middle stayed.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("percentiles by period", 0);
    let (mut middle, mut most) = (None, 1.0_f64);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(cells) = bars(line).filter(|c| c.len() >= 3) else {
            continue;
        };
        let Some(percent) = percentile(&cells[0]) else {
            continue;
        };
        let (first, last) = (&cells[1], cells.last()?);
        let (Some(a), Some(b)) = (measured(first), measured(last)) else {
            continue;
        };
        found.begin_at(number);
        let times = apart(a, b);
        if percent <= 50.0 {
            middle = Some(times);
        } else {
            most = most.max(times);
        }
        let share = if percent <= 50.0 { f64::MAX } else { times };
        found.rows.push(Row {
            label: cells[0].clone(),
            place: short(&format!("{first} -> {last}")),
            share,
        });
    }
    found.largest_first();
    found
        .figures
        .insert("quantiles.rows".into(), found.rows.len() as f64);
    found.figures.insert("quantiles.most_times".into(), most);
    (middle? <= STAYS && most >= MOVES).then_some(found)
}

/// `p50`, `P99.9`, `95th`, `90%`.
fn percentile(name: &str) -> Option<f64> {
    let name = name.to_ascii_lowercase();
    if name == "median" {
        return Some(50.0);
    }
    let bare = name.strip_prefix('p').or_else(|| name.strip_suffix("th"));
    let bare = bare.or_else(|| name.strip_suffix('%'))?;
    let n: f64 = bare.parse().ok()?;
    (1.0..100.0).contains(&n).then_some(n)
}

/// A figure, or the larger end of a range.
fn measured(cell: &str) -> Option<f64> {
    let end = cell.rsplit(['-', '\u{2013}']).next()?.trim();
    let end = end.trim_start_matches(['~', '<', '>', ' ']);
    let joined: String = end.split_whitespace().collect();
    seconds(&joined)
        .or_else(|| value(&joined))
        .filter(|n| *n > 0.0)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn a_tail_that_moves_is_told_beside_a_middle_that_stays() {
        let text = "| | v1 | v2 |\n|---|---|---|\n| p50 | 10 ms | 11 ms |\n| p90 | 20 ms | 22 ms |\n| p99 | 100 ms | 400 ms |\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let rows = written(&found);
        assert_eq!(rows[..2], ["p50: 10 ms -> 11 ms", "p99: 100 ms -> 400 ms"]);
        // All of them, or none, is no tail.
        assert!(read(&["| p50 | 10 | 30 |", "| p99 | 100 | 400 |"]).is_none());
        assert!(read(&["| p50 | 10 | 10 |", "| p99 | 100 | 110 |"]).is_none());
    }
}
