//! Variants of a benchmark by what benchmark-ips and benchee say of them: `original: 302401.7 i/s - 2.47x slower`.
//!
//! The surprise is the percentage behind each figure, which is how much that varies and no share of anything.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Lines of a comparison, each with how many times as slow it is.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("variants of a benchmark", 0);
    let mut before: Option<(u32, &str)> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if let Some((times, named)) = slower(text) {
            found.begin_at(number);
            // The fastest one has no factor, and stands first.
            if let Some((_, fastest)) = before.take().filter(|_| found.rows.is_empty()) {
                found.rows.push(Row::new(short(fastest), 1.0));
            }
            found.largest("slower.times", times);
            found.rows.push(Row::new(short(named), times));
        } else if !text.is_empty() {
            before = Some((number, text));
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("slower.rows".into(), rows);
    told(found)
}

/// How many times as slow a line says that its variant is, and the line.
fn slower(text: &str) -> Option<(f64, &str)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let dash = words.iter().position(|w| *w == "-")?;
    let times = value(words.get(dash + 1)?.strip_suffix('x')?)?;
    let slower = words[dash..].contains(&"slower");
    (slower && dash > 0 && times >= 1.0).then_some((times, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_variant_stands_first_and_the_fastest_last() {
        let text = "Comparison:\nkept: 90000.0 i/s\nopened: 3000.0 i/s - 30.00x  slower\nasked: 45000.0 i/s - 2.00x  (\u{b1} 0.00) slower\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("slower.times"), Some(30.0));
        let labels: Vec<&str> = found.rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "opened: 3000.0 i/s - 30.00x slower",
                "asked: 45000.0 i/s - 2.00x (\u{b1} 0.00) slower",
                "kept: 90000.0 i/s"
            ]
        );
        let benchee = "flat_map        2.38 K\nmap.flatten     1.22 K - 1.95x slower +0.40 ms\n";
        let found = read(&benchee.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("slower.times"), Some(1.95));
        assert!(read(&["it is 3x slower than before", "and 2x slower"]).is_none());
    }
}
