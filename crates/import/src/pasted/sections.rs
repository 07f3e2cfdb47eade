//! Parts of a text under headings of a person's own, with the same lines in each: what differs most between two of
//! them.
//!
//! `running with localhost` above `complete: 45 in 2190ms`, `with 127.0.0.1` above `complete: 45 in 128ms`. The
//! surprise is the heading, which has no form but that it holds no figure of its own and that what follows comes again
//! elsewhere. Where even that is not so, paragraphs are parts in which all lines but the first come again.

use super::about;
use super::cells::comparison;
use super::pieces::{apart, middle, pieces, seconds, short, time_at, value};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// A longer heading is a sentence.
const HEADING: usize = 90;
/// A longer line is data.
const LINE: usize = 300;
/// Headings that are looked at; more are entries of a log.
const MOST: usize = 12;
/// A figure changed that is so many times another.
const CHANGED: f64 = 1.5;
/// So many figures of a kind in each part are runs, of which none of the one may lie among those of the other: then a
/// smaller change is none by chance.
const RUNS: usize = 4;
const CHANGED_OF_RUNS: f64 = 1.02;
/// Rows that are told.
const ROWS: usize = 4;

/// A part: its heading, and by kind of line and place in it the figures with how they are written.
#[derive(Default)]
struct Section<'a> {
    line: u32,
    heading: &'a str,
    figures: BTreeMap<(String, usize), Vec<(f64, String)>>,
}

/// What differs most between two parts, or what sentences say of before and after.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut sections = sections(lines);
    if sections.len() < 2 {
        sections = paragraphs(lines);
    }
    let mut rows: Vec<Row> = lines.iter().flat_map(|line| in_words(line)).collect();
    if (2..=MOST).contains(&sections.len()) {
        for (at, first) in sections.iter().enumerate() {
            for second in &sections[at + 1..] {
                rows.extend(differs(first, second));
            }
        }
    }
    let line = sections.first().map_or(1, |s| s.line);
    let mut found = comparison(line, rows, ROWS)?;
    failures(lines, &mut found);
    about::add(&mut found, lines);
    Some(found)
}

/// `78207 ms -> 4812 ms`, `87 ms instead of 1465 ms`: a figure before and behind a change, in a line of words.
fn in_words(line: &str) -> Vec<Row> {
    let line = line.trim();
    if line.len() > LINE {
        return Vec::new();
    }
    let figure = |words: &mut dyn Iterator<Item = &str>, back: bool| {
        let two: Vec<&str> = words.take(2).collect();
        let n = |w: &str| value(w.trim_matches(|c: char| !c.is_alphanumeric()));
        let lone = two.first().and_then(|w| Some((n(w)?, (*w).to_owned())));
        // Behind the mark the unit comes second, before it first.
        let [a, b] = two.as_slice() else {
            return lone;
        };
        let (number, unit) = if back { (b, a) } else { (a, b) };
        let plain = unit.chars().all(|c| c.is_alphabetic() || "%/".contains(c));
        let united = n(number)
            .filter(|_| plain)
            .map(|x| (x, format!("{number} {unit}")));
        if back {
            lone.or(united)
        } else {
            united.or(lone)
        }
    };
    let mut rows = Vec::new();
    for (mark, turned) in [
        (" -> ", false),
        (" => ", false),
        (" \u{2192} ", false),
        (" instead of ", true),
    ] {
        for (at, _) in line.match_indices(mark) {
            let before = figure(&mut line[..at].split_whitespace().rev(), true);
            let behind = figure(&mut line[at + mark.len()..].split_whitespace(), false);
            let (Some(a), Some(b)) = (before, behind) else {
                continue;
            };
            let a = of_its_unit(&line[..at], &b.1).unwrap_or(a);
            let (old, new) = if turned { (b, a) } else { (a, b) };
            let times = apart(old.0, new.0);
            // States and steps have no unit.
            let measured = [&old.1, &new.1];
            let measured = measured
                .iter()
                .any(|of| of.contains(|c: char| c.is_alphabetic() || c == '%'));
            if old.0.min(new.0) > 0.0 && times >= CHANGED && measured {
                rows.push(Row {
                    label: short(&unmarked(line)),
                    place: format!("{} -> {}", old.1, new.1).replace('*', ""),
                    share: times,
                });
            }
        }
    }
    rows
}

/// The last figure of a text that has the unit of another one behind it: of `117 req/s with 50 errors` the rate, where
/// `5,141 req/s` is behind the mark.
fn of_its_unit(text: &str, other: &str) -> Option<(f64, String)> {
    let bare = |w: &str| w.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let unit = bare(other.split_whitespace().nth(1)?);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut pairs = words.windows(2).rev();
    pairs.find_map(|pair| {
        let n = value(&bare(pair[0])).filter(|_| bare(pair[1]) == unit)?;
        Some((n, format!("{} {unit}", bare(pair[0]))))
    })
}

/// Words of what failed, and of who asks, in small letters.
const FAILED: [&str; 6] = [
    "error",
    "errors",
    "failures",
    "failed",
    "timeouts",
    "time-outs",
];
const ASK: [&str; 6] = [
    "clients",
    "connections",
    "users",
    "vus",
    "workers",
    "streams",
];

/// What failed in the lines that compare, and how many asked: where one is as many as the other, each stood still once.
fn failures(lines: &[&str], found: &mut Artefact) {
    for line in lines.iter().filter(|l| !in_words(l).is_empty()) {
        let parts = pieces(line);
        let most = |words: &[&str]| {
            let counted = (1..parts.len()).filter(|at| {
                let word = parts[*at].text.to_ascii_lowercase();
                words.contains(&word.as_str())
            });
            counted
                .filter_map(|at| value(parts[at - 1].text))
                .reduce(f64::max)
        };
        let Some(failed) = most(&FAILED).filter(|n| *n > 0.0) else {
            continue;
        };
        found.largest("compared.failed", failed);
        if let Some(clients) = most(&ASK).filter(|n| (failed % n).abs() < 1e-9 && *n > 0.0) {
            found.largest("compared.failed_each", failed / clients);
        }
    }
}

/// A line without the marks of a list and of what is bold.
fn unmarked(line: &str) -> String {
    let line = line.strip_prefix("- ").unwrap_or(line);
    line.replace("**", "").replace('`', "'")
}

fn sections<'a>(lines: &[&'a str]) -> Vec<Section<'a>> {
    let mut all: Vec<Section<'a>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim();
        if let Some(heading) = heading(lines, at) {
            // A part without lines of its own gives its name to the next.
            match all.last_mut().filter(|s| s.figures.is_empty()) {
                Some(open) => open.heading = heading,
                None => all.push(Section {
                    line: at as u32 + 1,
                    heading,
                    ..Section::default()
                }),
            }
            continue;
        }
        if all.is_empty() && !text.is_empty() {
            all.push(Section {
                line: at as u32 + 1,
                heading: "the first part",
                ..Section::default()
            });
        }
        let Some(open) = all.last_mut().filter(|_| text.len() <= LINE) else {
            continue;
        };
        let (kind, figures) = figures(text);
        for (place, figure) in figures.into_iter().enumerate() {
            let key = (kind.clone(), place);
            open.figures.entry(key).or_default().push(figure);
        }
    }
    all.retain(|s| !s.figures.is_empty());
    all
}

/// Lines below a paragraph's first that come again in each of them.
const AGAIN: usize = 2;

/// Paragraphs that have the same lines below their first, with figures in all of them.
fn paragraphs<'a>(lines: &[&'a str]) -> Vec<Section<'a>> {
    let mut all: Vec<Section<'a>> = Vec::new();
    let mut begins = true;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if text.is_empty() {
            begins = true;
            continue;
        }
        if std::mem::take(&mut begins) {
            all.push(Section {
                line: number,
                heading: text,
                ..Section::default()
            });
            continue;
        }
        let (kind, figures) = figures(text);
        let Some(open) = all.last_mut().filter(|_| !figures.is_empty()) else {
            return Vec::new();
        };
        for (place, figure) in figures.into_iter().enumerate() {
            let key = (kind.clone(), place);
            open.figures.entry(key).or_default().push(figure);
        }
    }
    let alike = |a: &Section<'a>, b: &Section<'a>| a.figures.keys().eq(b.figures.keys());
    let same = all.windows(2).all(|pair| alike(&pair[0], &pair[1]));
    let short = all.iter().all(|s| s.heading.len() <= HEADING);
    let enough = all.len() >= 2 && all[0].figures.len() >= AGAIN;
    if same && short && enough {
        all
    } else {
        Vec::new()
    }
}

/// A line that stands above others as their name: with a colon or a mark of a heading, above a blank line, or a rule.
pub(super) fn heading<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let text = lines[at].trim();
    if text.len() >= 4 && text.chars().all(|c| "-=*_#".contains(c)) {
        return Some("behind the rule");
    }
    let bare = text.trim_matches(|c: char| "#*=-: `".contains(c));
    let marked = text.starts_with('#') || text.starts_with("**") || text.starts_with("==");
    let behind = lines.get(at + 1).is_none_or(|l| l.trim().is_empty());
    let above = at == 0 || lines[at - 1].trim().is_empty();
    let named = text.ends_with(':') && (above || behind) || marked || above && behind;
    let words = bare.split_whitespace().count();
    let letters = bare.chars().filter(|c| c.is_alphabetic()).count();
    let parts = pieces(bare);
    let unit = |text: &str| text.ends_with(|c: char| c.is_alphabetic());
    // `41209 ms`, too, with its unit apart.
    let measures = (0..parts.len()).any(|at| {
        let apart = time_at(&parts, at).is_some_and(|(_, written, _)| unit(&written));
        apart || seconds(parts[at].text).is_some() && unit(parts[at].text)
    });
    (named && text.len() <= HEADING && (1..=12).contains(&words) && letters >= 2 && !measures)
        .then_some(bare)
}

/// The words of a line without its figures, and these. Numbers with a unit go before bare ones, which may be names.
fn figures(text: &str) -> (String, Vec<(f64, String)>) {
    let parts = pieces(text);
    let mut kind: Vec<&str> = Vec::new();
    let (mut measured, mut bare) = (Vec::new(), Vec::new());
    for (at, part) in parts.iter().enumerate() {
        if !part.text.starts_with(|c: char| c.is_ascii_digit()) {
            kind.push(part.text);
        } else if let Some((s, written, _)) = time_at(&parts, at) {
            measured.push((s, written));
        } else if let Some(n) = value(part.text) {
            bare.push((n, part.text.to_owned()));
        }
    }
    // Cells of a table without a word are named by its head.
    if kind.is_empty() && text.contains('|') {
        return (String::new(), Vec::new());
    }
    (
        kind.join(" "),
        if measured.is_empty() { bare } else { measured },
    )
}

/// The largest difference of each kind of line between two parts, by the middle one of its figures.
fn differs(first: &Section<'_>, second: &Section<'_>) -> Vec<Row> {
    let alike = first.figures.iter().filter_map(|(key, of)| {
        let others = second.figures.get(key)?;
        let (a, before) = middle(of.clone())?;
        let (b, after) = middle(others.clone())?;
        let times = apart(a, b);
        let apart = are_apart(of, others) && times >= CHANGED_OF_RUNS;
        let (before, after) = match times >= CHANGED {
            true => (before, after),
            false => (among(&before, of), among(&after, others)),
        };
        (a.min(b) > 0.0 && (times >= CHANGED || apart)).then(|| Row {
            label: match key.0.as_str() {
                "" => "the number".to_owned(),
                words => short(words),
            },
            place: short(&format!(
                "{before} under `{}`, {after} under `{}`",
                first.heading, second.heading
            )),
            share: times,
        })
    });
    alike.collect()
}

/// The least and the largest of figures.
fn ends(of: &[(f64, String)]) -> (f64, f64) {
    let figures = || of.iter().map(|f| f.0);
    (
        figures().fold(f64::INFINITY, f64::min),
        figures().fold(f64::NEG_INFINITY, f64::max),
    )
}

/// Whether both are several runs, of which the slowest of the one is beyond the fastest of the other.
fn are_apart(a: &[(f64, String)], b: &[(f64, String)]) -> bool {
    let (of_a, of_b) = (ends(a), ends(b));
    a.len() >= RUNS && b.len() >= RUNS && (of_a.1 < of_b.0 || of_b.1 < of_a.0)
}

/// The middle one of several runs, with how many they are.
fn among(middle: &str, of: &[(f64, String)]) -> String {
    format!("{middle} in the middle of {}", of.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let found = read(&text.lines().collect::<Vec<_>>());
        let rows = found.map(|a| a.rows).unwrap_or_default();
        rows.iter()
            .map(|r| format!("{}: {}", r.label, r.place))
            .collect()
    }

    #[test]
    fn the_same_lines_under_two_headings_are_compared() {
        let text = "with `a.example` url:\n\ndone: 45 (33 bytes in 2190ms)\ndone: 46 (33 bytes in 2000ms)\n\nwith `b.example` url:\n\ndone: 45 (33 bytes in 128ms)\n";
        let found = rows(text);
        assert!(
            found[0].contains("2190ms under `with `a.example` url`"),
            "{found:?}"
        );
        assert!(
            found[0].contains("128ms under `with `b.example` url`"),
            "{found:?}"
        );
    }

    #[test]
    fn a_rule_parts_too_and_the_middle_figure_is_taken() {
        let text = "Rate: 36\nRate: 11\nRate: 9\n-------\nRate: 80\nRate: 79\nRate: 10\n";
        assert_eq!(
            rows(text),
            ["Rate: 11 under `the first part`, 79 under `behind the rule`"]
        );
    }

    #[test]
    fn sentences_say_what_was_before_and_after() {
        let text = "**Mean** 78207 ms -> 4812 ms (16x)\nAt 100 at a time: 87 ms instead of 1465 ms.\na -> b\nstate 1 -> 3\n";
        let found = rows(text);
        assert!(found[0].ends_with(": 1465 -> 87 ms"), "{found:?}");
        assert!(found[1].ends_with("78207 ms -> 4812 ms"), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_rate_is_held_against_a_rate_and_failures_stand_beside_it() {
        let text =
            "upload by 20 clients: 90 req/s with 40 timeouts -> **1,800 req/s with 0 timeouts**\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].place, "90 req/s -> 1,800 req/s");
        assert_eq!(found.value("compared.failed"), Some(40.0));
        assert_eq!(found.value("compared.failed_each"), Some(2.0));
        let other = text.replace("40", "41");
        let found = read(&other.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("compared.failed_each"), None);
    }

    #[test]
    fn paragraphs_with_the_same_lines_are_parts() {
        let text = "cold\nTook in all: 41.5 seconds\nLate requests: 12\n\nwarm, after 10s\nTook in all: 4.0 seconds\nLate requests: 3\n";
        assert_eq!(
            rows(text),
            [
                "Took in all seconds: 41.5 seconds under `cold`, 4.0 seconds under `warm, after 10s`",
                "Late requests: 12 under `cold`, 3 under `warm, after 10s`"
            ]
        );
        let other = text.replace("Late requests: 3", "Failed ones: 3");
        assert!(rows(&other).is_empty(), "{:?}", rows(&other));
        assert!(rows(&text.replace("41.5 seconds", "long")).is_empty());
    }

    #[test]
    fn runs_of_two_parts_that_lie_apart_differ_by_little() {
        let text = "## main\n\n  1000.5\n  1010.5\n  1005.0\n  990.0\n\n## change\n\n  1060.0\n  1055.5\n  1050.0\n  1071.5\n";
        assert_eq!(
            rows(text),
            [
                "the number: 1005.0 in the middle of 4 under `main`, 1060.0 in the middle of 4 under `change`"
            ]
        );
        // One of the second lies among those of the first, or they are too few.
        assert!(rows(&text.replace("1050.0", "1008.0")).is_empty());
        assert!(rows(&text.replace("  1050.0\n", "")).is_empty());
    }

    #[test]
    fn parts_without_the_same_lines_are_not_compared() {
        for text in [
            "Before:\n\n| 8 | 90 |\n\nAfter:\n\n| 8 | 30 |\n",
            "Before:\n\nrate 12\n\nAfter:\n\nrate 13\n",
            "first:\n\nalpha 12\n\nsecond:\n\nbeta 40\n",
            "rate 12\nrate 40\n",
        ] {
            assert!(rows(text).is_empty(), "{text}: {:?}", rows(text));
        }
    }
}
