//! Lines of wrk's `Req/Sec` that a person put a label before: `b=4097 n=10   Req/Sec  26.67  18.68  121.00  93.33%`.
//!
//! The surprise is a rate that falls to some tens a second for one label and stays there whatever the others say: each
//! response then waits for a timer, and nothing is full.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Responses a second of a connection that waits 36 to 50 ms for each.
const OF_A_TIMER: std::ops::RangeInclusive<f64> = 20.0..=28.0;
/// Fewer lines are none.
const FEWEST: usize = 4;

/// The slowest and the fastest lines.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("rates by label", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((label, rest)) = line.split_once("Req/Sec") else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let mean = words.first().and_then(|w| value(w)).filter(|n| *n > 0.0);
        let label = label.split_whitespace().collect::<Vec<_>>().join(" ");
        let (Some(mean), true) = (
            mean,
            words.len() >= 3 && label.contains(char::is_alphanumeric),
        ) else {
            continue;
        };
        found.begin_at(number);
        if OF_A_TIMER.contains(&mean) {
            found.add("labelled.of_a_timer", 1.0);
        }
        found.largest("labelled.most_per_s", mean);
        found.smallest("labelled.least_per_s", mean);
        found.rows.push(Row {
            label: short(&label),
            place: format!("{} a second, {} each", words[0], each(mean)),
            share: mean,
        });
    }
    // The slowest, then the fastest beside it.
    found.rows.sort_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(fastest) = found.rows.pop().filter(|_| !found.rows.is_empty()) {
        found.rows.insert(1, fastest);
    }
    found
        .figures
        .insert("labelled.rows".into(), found.rows.len() as f64);
    told(found).filter(|a| a.rows.len() >= FEWEST)
}

/// How long one takes where one is asked at a time.
fn each(per_s: f64) -> String {
    match 1e3 / per_s {
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn the_slowest_stands_beside_the_fastest() {
        let text = "1 kB  Req/Sec  8.00k  10.0  9.00k  70.00%\n2 kB  Req/Sec  7.50k  10.0  9.00k  70.00%\n3 kB  Req/Sec  24.50  3.0  40.00  70.00%\n4 kB  Req/Sec  24.80  3.0  40.00  70.00%\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found)[..2],
            [
                "3 kB: 24.50 a second, 41 ms each",
                "1 kB: 8.00k a second, 0.12 ms each"
            ]
        );
        assert_eq!(found.value("labelled.of_a_timer"), Some(2.0));
        assert!(read(&["    Req/Sec   396.50  17.48   497.00   70.00%"; 5]).is_none());
    }
}
