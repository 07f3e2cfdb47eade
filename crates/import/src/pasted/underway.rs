//! Rates of several servers or settings with the mean time of each, a line each: by Little's law how many requests were
//! under way at each.
//!
//! The surprise is a low rate with short times: nobody was slow there, the generator waited for responses that never
//! came.

use super::events::{artefact, told};
use super::pieces::{pieces, short, time_at, value};
use record::pasted::{Artefact, Row};

/// Units of a rate, in small letters.
const RATES: [&str; 9] = [
    "qps",
    "rps",
    "tps",
    "req/s",
    "ops/s",
    "requests/s",
    "queries/s",
    "req/sec",
    "ops/sec",
];
/// Words before a mean.
const MEANS: [&str; 3] = ["avg", "mean", "average"];

/// All such lines of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("rates with their times", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let parts = pieces(line);
        let lower = |at: usize| parts.get(at).map(|p| p.text.to_ascii_lowercase());
        let rate = (0..parts.len()).find_map(|at| {
            lower(at + 1).filter(|w| RATES.contains(&w.as_str()))?;
            Some((at, value(parts[at].text)?))
        });
        let mean = (0..parts.len()).find_map(|at| {
            lower(at).filter(|w| MEANS.contains(&w.as_str()))?;
            time_at(&parts, at + 1)
        });
        let (Some((at, rate)), Some((mean, written, _))) = (rate, mean) else {
            continue;
        };
        let name: Vec<&str> = parts[..at].iter().map(|p| p.text).collect();
        let under_way = rate * mean;
        found.begin_at(number);
        found.smallest("underway.least", under_way);
        found.largest("underway.most", under_way);
        found.rows.push(Row {
            label: short(&name.join(" ")),
            place: format!(
                "{} a second, {written} each: {under_way:.1} under way",
                parts[at].text
            ),
            share: under_way,
        });
    }
    // What waits for nobody stands first.
    found.rows.sort_by(|a, b| a.share.total_cmp(&b.share));
    found
        .figures
        .insert("underway.rows".into(), found.rows.len() as f64);
    told(found).filter(|a| a.rows.len() >= 2)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn who_has_hardly_any_under_way_stands_first() {
        let text =
            "alpha: 2000.0 req/s, mean 10 ms, p99 30 ms\nbeta: 10.0 req/s, mean 5ms, p99 9 ms\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            [
                "beta: 10.0 a second, 5ms each: 0.1 under way",
                "alpha: 2000.0 a second, 10 ms each: 20.0 under way"
            ]
        );
        assert_eq!(found.value("underway.least"), Some(0.05));
        assert!(read(&["alpha: 2000.0 req/s, mean 10 ms"]).is_none());
    }
}
