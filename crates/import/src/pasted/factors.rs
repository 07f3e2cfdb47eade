//! Times whose names differ by one word: `EF Core async: 2803ms` beside `EF Core sync: 50ms`. What is told is the word
//! by which most is lost, in all pairs that it parts.
//!
//! The surprise is that the longest time alone says nothing of it: three rows have that word, and so have their
//! shortest.

use super::about;
use super::events::{artefact, told};
use super::pieces::{pieces, short, time_at};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// A longer line is a sentence.
const LINE: usize = 120;
/// Words of a name.
const WORDS: usize = 6;
/// Lines that are held against each other.
const MOST: usize = 60;
/// Pairs that a word parts, and how far it parts them.
const PAIRS: usize = 2;
const APART: f64 = 2.0;
/// Pairs that are told.
const TOLD: usize = 3;

/// A time with the words of its name, and as it is written.
struct Named<'a> {
    line: u32,
    words: Vec<&'a str>,
    took: f64,
    written: String,
}

/// The word by which the names of slow times differ from those of quick ones.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let all: Vec<Named<'_>> = (1_u32..)
        .zip(lines)
        .filter_map(|(number, line)| named(number, line))
        .take(MOST)
        .collect();
    let mut words: BTreeMap<(&str, &str), Vec<(f64, String)>> = BTreeMap::new();
    for slow in &all {
        for quick in &all {
            let Some((a, b)) = one_word(&slow.words, &quick.words) else {
                continue;
            };
            let rest: Vec<&str> = slow.words.iter().copied().filter(|w| *w != a).collect();
            let pair = format!(
                "{} against {}, {}",
                slow.written,
                quick.written,
                rest.join(" ")
            );
            let ratio = slow.took / quick.took.max(1e-9);
            words.entry((a, b)).or_default().push((ratio, pair));
        }
    }
    let mean = |pairs: &[(f64, String)]| {
        let logs = pairs.iter().map(|(ratio, _)| ratio.max(1e-9).ln());
        (logs.sum::<f64>() / pairs.len() as f64).exp()
    };
    let parts = words
        .into_iter()
        .filter(|(_, pairs)| pairs.len() >= PAIRS && pairs.iter().all(|(ratio, _)| *ratio > 1.0))
        .map(|(of, pairs)| (mean(&pairs), of, pairs));
    let (times, (a, b), mut pairs) = parts
        .filter(|(times, ..)| *times >= APART)
        .reduce(|x, y| if y.0 > x.0 { y } else { x })?;
    pairs.sort_by(|x, y| y.0.total_cmp(&x.0));
    let mut found = artefact("times by a word", all.first()?.line);
    let told_pairs = pairs.iter().take(TOLD).map(|(_, pair)| pair.as_str());
    let told_pairs: Vec<&str> = told_pairs.collect();
    found.rows.push(Row {
        label: format!("{a} against {b}"),
        place: short(&told_pairs.join("; ")),
        share: times,
    });
    for (name, n) in [("rows", 1.0), ("times", times)] {
        found.figures.insert(format!("factors.{name}"), n);
    }
    about::add(&mut found, lines);
    told(found)
}

/// `EF Core async: 2803ms`, `| sync | 12 ms |`: a name and one time.
fn named(line: u32, text: &str) -> Option<Named<'_>> {
    let text = text.trim();
    if text.len() > LINE {
        return None;
    }
    let parts = pieces(text);
    let mut times = (0..parts.len()).filter_map(|at| Some((at, time_at(&parts, at)?)));
    let (at, (took, written, _)) = times.next()?;
    if times.any(|(next, ..)| next > at + 1) {
        return None;
    }
    let words: Vec<&str> = parts[..at].iter().map(|p| p.text).collect();
    let lettered = words.iter().all(|w| w.contains(char::is_alphabetic));
    ((1..=WORDS).contains(&words.len()) && lettered && took > 0.0).then_some(Named {
        line,
        words,
        took,
        written,
    })
}

/// The one word by which two names of the same length differ.
fn one_word<'a>(one: &[&'a str], other: &[&'a str]) -> Option<(&'a str, &'a str)> {
    if one.len() != other.len() {
        return None;
    }
    let mut differ = one.iter().zip(other).filter(|(a, b)| a != b);
    let (a, b) = differ.next()?;
    differ.next().is_none().then_some((*a, *b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_by_which_most_is_lost_is_told() {
        let text = "A async: 2803ms\nA sync: 50ms\nB async: 60ms\nB sync: 23ms\nC async: 2509 ms\nC sync: 12 ms\n";
        let found = read(&text.lines().collect::<Vec<_>>()).expect("a word parts the times");
        assert_eq!(found.rows[0].label, "async against sync");
        assert!(
            found.rows[0].place.starts_with("2509 ms against 12 ms, C"),
            "{:?}",
            found.rows
        );
        for text in [
            "A async: 50ms\nA sync: 40ms\nB async: 45ms\nB sync: 43ms\n",
            "load 12 ms\nsave 900 ms\n",
            "A async: 2803ms\nA sync: 50ms\n",
        ] {
            assert!(read(&text.lines().collect::<Vec<_>>()).is_none(), "{text}");
        }
    }
}
