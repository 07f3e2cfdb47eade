//! Begins and ends that a person counted in a log: `grep -c 'attach: begin'` with its number below, then the same with
//! `end`.
//!
//! The surprise is that neither number says anything alone: more begins than ends are under way at that moment, or were
//! never ended.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Words for the two ends of one thing.
const ENDS: [(&str, &str); 12] = [
    ("begin", "end"),
    ("started", "finished"),
    ("start", "end"),
    ("start", "stop"),
    ("start", "finish"),
    ("opened", "closed"),
    ("open", "close"),
    ("connected", "disconnected"),
    ("connect", "disconnect"),
    ("acquired", "released"),
    ("acquire", "release"),
    ("created", "destroyed"),
];
/// Fewer are under way at any moment.
const LEAST: f64 = 10.0;
/// So large a part of what was begun has not ended.
const PART: f64 = 0.05;

/// The pair of which most have not ended.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut counted: Vec<(u32, &str, f64)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let below = lines.get(at + 1).and_then(|l| l.trim().parse::<u64>().ok());
        if let Some((pattern, n)) = pattern(line).zip(below) {
            let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
            counted.push((number, pattern, n as f64));
        }
    }
    let pairs = counted.iter().flat_map(|first| {
        let others = counted.iter().filter(|o| are_ends(first.1, o.1));
        others.map(move |other| (first, other))
    });
    let missing = |(first, other): &(&(u32, &str, f64), &(u32, &str, f64))| first.2 - other.2;
    let (first, other) = pairs.max_by(|a, b| missing(a).total_cmp(&missing(b)))?;
    let n = first.2 - other.2;
    (n >= LEAST && n >= PART * first.2).then_some(())?;
    let mut found = artefact("begins and ends", first.0);
    for (name, n) in [
        ("begun", first.2),
        ("ended", other.2),
        ("missing", n),
        ("rows", 1.0),
    ] {
        found.figures.insert(format!("imbalance.{name}"), n);
    }
    found.rows.push(Row {
        label: short(first.1),
        place: short(other.1),
        share: n,
    });
    told(found)
}

/// What `grep -c` looks for; in quotes, or the last word before a pipe or the end.
fn pattern(line: &str) -> Option<&str> {
    let (_, behind) = line.split_once("grep ")?;
    let counts = |w: &str| w.starts_with('-') && w.contains('c') && !w.contains('v');
    let counts = behind.split_whitespace().any(counts) || line.contains("wc -l");
    counts.then_some(())?;
    for quote in ['\'', '"'] {
        if let Some((_, rest)) = behind.split_once(quote) {
            return rest.split(quote).next().filter(|p| !p.is_empty());
        }
    }
    let words = behind.split('|').next()?.split_whitespace();
    words.into_iter().find(|w| !w.starts_with('-'))
}

/// Whether the patterns are one but for the words of both ends.
fn are_ends(first: &str, other: &str) -> bool {
    ENDS.iter().any(|(begin, end)| {
        let whole = |text: &str, word: &str| {
            text.split(|c: char| !c.is_alphanumeric())
                .any(|w| w == word)
        };
        whole(first, begin) && whole(other, end) && first.replacen(begin, end, 1) == other
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(text: &str) -> Option<f64> {
        read(&text.lines().collect::<Vec<_>>())?.value("imbalance.missing")
    }

    #[test]
    fn what_has_begun_and_not_ended_is_counted() {
        let text =
            "$ grep -c 'session opened' app.log\n9120\n$ grep -c 'session closed' app.log\n8020\n";
        assert_eq!(missing(text), Some(1100.0));
        assert_eq!(missing(&text.replace("8020", "9119")), None);
        assert_eq!(
            missing(&text.replace("session closed", "user closed")),
            None
        );
        let text =
            "# cat app.log | grep start | wc -l\n500\n# cat app.log | grep stop | wc -l\n100\n";
        assert_eq!(missing(text), Some(400.0));
    }
}
