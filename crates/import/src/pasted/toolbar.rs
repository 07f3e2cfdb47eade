//! The panel of statements of Django's debug toolbar: `16.84 ms (75 queries including 67 similar and 64 duplicates )`.
//!
//! Its words are those of the page's language, with the decimal comma of it, so that a line is known by its form: a
//! time, and in brackets two or three numbers of which the first is the largest. One word must still be known.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// How the words for a query, for what is alike and for what is there twice begin, in small letters.
const WORDS: [&str; 18] = [
    "quer",
    "requ",
    "req\u{ea}t",
    "abfrag",
    "consult",
    "zapyt",
    "dotaz",
    "sorgu",
    "interrog",
    "\u{437}\u{430}\u{43f}\u{440}\u{43e}\u{441}",
    "simil",
    "dupli",
    "doubl",
    "\u{e4}hnlich",
    "podobn",
    "\u{434}\u{443}\u{431}\u{43b}",
    "\u{67e5}\u{8be2}",
    "\u{30af}\u{30a8}\u{30ea}",
];
/// Lines above in which the page is named.
const ABOVE: usize = 2;

/// The pages of a text, that with the most statements first.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("Django's toolbar", 0);
    let mut most = Panel::default();
    for (at, line) in lines.iter().enumerate() {
        let Some(panel) = panel(line) else {
            continue;
        };
        found.begin_at(u32::try_from(at + 1).ok()?);
        let above = &lines[at.saturating_sub(ABOVE)..at];
        let page = above.iter().rev().map(|l| l.trim());
        let page = page
            .into_iter()
            .find(|l| l.contains("://") || l.starts_with('/'));
        found.rows.push(Row {
            label: short(page.unwrap_or(line.trim())),
            place: format!(
                "{} statements in {} ms, {} alike",
                panel.all, panel.ms, panel.alike
            ),
            share: panel.all,
        });
        if panel.all > most.all {
            most = panel;
        }
    }
    found.largest_first();
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("ms", most.ms),
        ("queries", most.all),
        ("similar", most.alike),
    ] {
        found.figures.insert(format!("django.{name}"), n);
    }
    told(found)
}

#[derive(Default)]
struct Panel {
    ms: f64,
    all: f64,
    alike: f64,
}

fn panel(line: &str) -> Option<Panel> {
    let (before, behind) = line.split_once(" ms (")?;
    let ms = value(before.split_whitespace().next_back()?)?;
    let inner = behind.split(')').next()?.to_lowercase();
    let words: Vec<&str> = inner.split_whitespace().collect();
    let numbers = words.iter().filter_map(|w| w.parse::<u32>().ok());
    let numbers: Vec<f64> = numbers.map(f64::from).collect();
    let known = words.iter().any(|w| WORDS.iter().any(|k| w.starts_with(k)));
    let begins = words.first().is_some_and(|w| w.parse::<u32>().is_ok());
    let (all, parts) = numbers.split_first()?;
    let alike = parts.iter().copied().fold(0.0, f64::max);
    let fits = known && begins && matches!(parts.len(), 1 | 2) && alike <= *all;
    fits.then_some(Panel {
        ms,
        all: *all,
        alike,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, ms: f64, all: f64, alike: f64) {
        let found = read(&["http://localhost/list/", line]);
        let found = found.unwrap_or_else(|| panic!("nothing in {line}"));
        assert_eq!(found.rows[0].label, "http://localhost/list/");
        for (name, n) in [("ms", ms), ("queries", all), ("similar", alike)] {
            assert_eq!(found.value(&format!("django.{name}")), Some(n), "{line}");
        }
    }

    #[test]
    fn the_panel_is_known_in_any_language() {
        check(
            "default 8123.41 ms (812 queries including 800 similar and 790 duplicates )",
            8123.41,
            812.0,
            800.0,
        );
        check(
            "16,84 ms (75 requ\u{ea}tes including 67 duplicates )",
            16.84,
            75.0,
            67.0,
        );
        check(
            "9,5 ms (31 Abfragen, davon 20 \u{e4}hnlich und 12 du",
            9.5,
            31.0,
            20.0,
        );
        for other in [
            "12 ms (5 threads with 3 connections)",
            "12 ms (5 queries)",
            "12 ms (queries 5 and 3)",
        ] {
            assert!(read(&[other]).is_none(), "{other}");
        }
    }
}
