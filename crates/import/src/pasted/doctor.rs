//! What redis' doctors advise (`LATENCY DOCTOR`, `MEMORY DOCTOR`): plain sentences behind a mark, below a line in which
//! it speaks to somebody.
//!
//! The surprise is that they say nothing of a time: what redis found set, it advises against.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Sentences with which advice begins, in small letters (`latency.c`, `object.c`).
const BEGINS: [&str; 3] = [
    "i have a few advices for you",
    "i detected a few issues in this redis instance",
    "i detected a few issues in this valkey instance",
];

/// The advice of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let begins = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        BEGINS.iter().any(|b| lower.contains(b))
    };
    let at = lines.iter().position(begins)?;
    let mut found = artefact("advice of redis' doctor", u32::try_from(at).ok()? + 1);
    for line in &lines[at + 1..] {
        let text = line.trim();
        if let Some(advice) = text.strip_prefix(['-', '*']) {
            let first = advice.split_once(". ").map_or(advice, |(first, _)| first);
            let label = short(first.trim_end_matches('.'));
            found.rows.push(Row::new(label, 1.0));
        } else if text.starts_with(['$', '#']) {
            break;
        }
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("advised.rows".into(), rows);
    told(found).filter(|_| rows > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_told_by_its_first_sentences() {
        let text = "Dave, I have observed latency spikes in this Redis instance.\n\n1. fork: 4 latency spikes (average 300ms).\n\nI have a few advices for you:\n\n- Check your Slow Log to understand what is slow. Please check it.\n- Your fsync policy is set to 'always'.\n$ exit\n- no more\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let labels: Vec<&str> = found.rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "Check your Slow Log to understand what is slow",
                "Your fsync policy is set to 'always'"
            ]
        );
        let of_memory = "Sam, I detected a few issues in this Redis instance memory implants:\n\n * High fragmentation: 1.9.\n";
        assert!(read(&of_memory.lines().collect::<Vec<_>>()).is_some());
        assert!(read(&["- I have advice", "- a point"]).is_none());
    }
}
