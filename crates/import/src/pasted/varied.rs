//! Lines that are alike, each with a time, and a field by which the times differ: a level, a size, a number of workers
//! (`level=10 time=296ms`), or one that has two values (`cached: 0` against `cached: 1`).
//!
//! A field is a name with a mark (`level=9`, `cached: 1`). Of several numbers the first that goes up or down from line
//! to line is what was varied; what lies beside it came of it. The surprise is a level below zero, which stands for the
//! default and not for less than none.

use super::about;
use super::events::{artefact, told};
use super::pieces::{seconds, short};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Fewer lines of a kind are no list.
const FEWEST: usize = 3;
/// More lines are told by others.
const MOST: usize = 2_000;
/// A longer line is data.
const LINE: usize = 300;
/// The longest time is so many times the shortest.
const APART: f64 = 2.0;
/// Times that are told of a list.
const TOLD: usize = 4;

/// Names of what compresses.
const COMPRESSORS: [&str; 7] = [
    "gzip", "brotli", "zstd", "zlib", "deflate", "compress", "lz4",
];
/// Names of what is varied, which have their number behind a space.
const VARIED: [&str; 14] = [
    "level",
    "size",
    "threads",
    "workers",
    "concurrency",
    "connections",
    "clients",
    "users",
    "batch",
    "depth",
    "quality",
    "shards",
    "partitions",
    "cores",
];

/// A line of a list: its words, its time as it is written and in seconds, its fields.
struct Entry<'a> {
    line: u32,
    kind: String,
    written: String,
    took: f64,
    fields: Vec<(&'a str, &'a str)>,
}

/// The field by which a text's times differ.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut kinds: BTreeMap<String, Vec<Entry<'_>>> = BTreeMap::new();
    for (number, line) in (1_u32..).zip(lines).take(MOST) {
        if let Some(entry) = entry(number, line) {
            kinds.entry(entry.kind.clone()).or_default().push(entry);
        }
    }
    let lists = kinds.values().filter(|l| l.len() >= FEWEST);
    let mut rows: Vec<(f64, u32, bool, Row)> = Vec::new();
    for list in lists {
        let longest = list.iter().map(|e| e.took).fold(0.0, f64::max);
        let by = levels(list).map(|row| (true, row));
        if let Some((levels, row)) = by.or_else(|| two(list).map(|row| (false, row))) {
            rows.push((longest, list[0].line, levels, row));
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (_, line, levels, _) = rows.first()?;
    let compresses = lines.iter().any(|line| {
        let lower = line.to_ascii_lowercase();
        COMPRESSORS.iter().any(|c| lower.contains(c))
    });
    let mut found = artefact("times by a field", *line);
    for (name, n) in [
        ("rows", rows.len() as f64),
        ("levels", f64::from(u8::from(*levels))),
        ("compression", f64::from(u8::from(compresses))),
    ] {
        found.figures.insert(format!("varied.{name}"), n);
    }
    found.rows = rows.into_iter().map(|r| r.3).collect();
    about::add(&mut found, lines);
    told(found)
}

fn entry(line: u32, raw: &str) -> Option<Entry<'_>> {
    let text = raw.trim();
    // What stands in brackets behind it is a remark.
    let remark = text.find('(').filter(|at| *at > 0);
    let text = text[..remark.unwrap_or(text.len())].trim_end();
    if text.len() > LINE {
        return None;
    }
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || ",;|".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    let mut fields = Vec::new();
    let mut took: Option<(f64, String)> = None;
    let mut kind: Vec<&str> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // `level 9: 61.3 ms` and `workers 4 took 19ms`.
        let before = at
            .checked_sub(1)
            .and_then(|at| words.get(at).copied())
            .unwrap_or_default();
        let bare = word.trim_end_matches(':');
        let named = before.len() > 1 && before.chars().all(char::is_alphabetic);
        let varied = VARIED.contains(&before.to_ascii_lowercase().as_str());
        let next = words.get(at + 1).copied().unwrap_or_default();
        if bare.parse::<f64>().is_ok()
            && named
            && (bare != *word || varied)
            && time_of(bare, next).is_none()
        {
            fields.push((before, bare));
            continue;
        }
        let word_at = |at: usize| words.get(at).copied().unwrap_or_default();
        let (name, content, behind) = match word.split_once('=') {
            Some((name, content)) if !content.is_empty() => (name, content, at + 1),
            _ => match word.strip_suffix([':', '=']) {
                Some(name) => (name, word_at(at + 1), at + 2),
                None => ("", *word, at + 1),
            },
        };
        let time = time_of(content, word_at(behind));
        match time {
            Some(time) => {
                if took.as_ref().is_none_or(|t| time.0 > t.0) {
                    took = Some(time);
                }
                kind.push(name);
            }
            None if !name.is_empty() && name.contains(char::is_alphabetic) => {
                fields.push((name, content));
                kind.push(name);
            }
            None if !word.contains(|c: char| c.is_ascii_digit()) => kind.push(word),
            None => {}
        }
    }
    // A value behind its name is no word of the kind.
    let values: Vec<&str> = fields.iter().map(|f| f.1).collect();
    kind.retain(|w| !values.contains(w));
    let (took, written) = took?;
    (!fields.is_empty() && took > 0.0).then(|| Entry {
        line,
        kind: kind.join(" "),
        written,
        took,
        fields,
    })
}

/// `788ms`, and `12` before `milliseconds`.
fn time_of(word: &str, next: &str) -> Option<(f64, String)> {
    if !word.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if word.ends_with(char::is_alphabetic) {
        return seconds(word).map(|s| (s, word.to_owned()));
    }
    let factor = match next {
        "ms" | "msec" | "milliseconds" => 1e-3,
        "s" | "sec" | "secs" | "seconds" => 1.0,
        "us" | "\u{b5}s" | "microseconds" => 1e-6,
        _ => return None,
    };
    let n: f64 = word.parse().ok()?;
    Some((n * factor, format!("{word} {next}")))
}

fn of<'a>(entry: &Entry<'a>, name: &str) -> Option<&'a str> {
    let found = entry.fields.iter().find(|(n, _)| *n == name);
    found.map(|(_, content)| *content)
}

/// A number that goes up or down from line to line, with the times of its ends.
fn levels(list: &[Entry<'_>]) -> Option<Row> {
    let mut names = list[0].fields.iter().map(|(name, _)| *name);
    names.find_map(|name| {
        let all: Option<Vec<(f64, &Entry<'_>)>> = list
            .iter()
            .map(|e| Some((of(e, name)?.parse::<f64>().ok()?, e)))
            .collect();
        let all: Vec<_> = all?.into_iter().filter(|(n, _)| *n >= 0.0).collect();
        let up = all.windows(2).all(|p| p[1].0 > p[0].0);
        let down = all.windows(2).all(|p| p[1].0 < p[0].0);
        if all.len() < FEWEST || !(up || down) {
            return None;
        }
        let least = all.iter().map(|a| a.1.took).fold(f64::MAX, f64::min);
        let mut longest = all.clone();
        longest.sort_by(|a, b| b.1.took.total_cmp(&a.1.took));
        let most = longest[0].1.took;
        // Times that follow their line's number are those of a series.
        if most < APART * least {
            return None;
        }
        let shortest = *longest.last()?;
        let mut named: Vec<_> = longest.into_iter().take(TOLD - 1).collect();
        if named.iter().all(|(n, _)| n.total_cmp(&shortest.0).is_ne()) {
            named.push(shortest);
        }
        let named = named.iter().map(|(n, e)| {
            let beside = e
                .fields
                .iter()
                .filter(|f| f.0 != name && f.1.parse::<f64>().is_ok());
            let beside: Vec<String> = beside.map(|(n, c)| format!("{n} {c}")).take(2).collect();
            match beside.is_empty() {
                true => format!("{} at {n}", e.written),
                false => format!("{} at {n} ({})", e.written, beside.join(", ")),
            }
        });
        Some(Row {
            label: short(name),
            place: short(&named.collect::<Vec<_>>().join(", ")),
            share: most / least,
        })
    })
}

/// A field with two values, of which one has all the long times.
fn two(list: &[Entry<'_>]) -> Option<Row> {
    let names = list[0].fields.iter().map(|(name, _)| *name);
    let rows = names.filter_map(|name| {
        let mut by: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for entry in list {
            by.entry(of(entry, name)?).or_default().push(entry.took);
        }
        let groups: Vec<(&str, Vec<f64>)> = by.into_iter().collect();
        let [a, b] = groups.as_slice() else {
            return None;
        };
        let ends = |times: &[f64]| {
            let least = times.iter().copied().fold(f64::MAX, f64::min);
            (least, times.iter().copied().fold(0.0, f64::max))
        };
        let (slow, fast) = if ends(&a.1).0 > ends(&b.1).0 {
            (a, b)
        } else {
            (b, a)
        };
        let (from, to) = (ends(&fast.1), ends(&slow.1));
        let said = |(least, most): (f64, f64), n: usize| {
            let ms = |s: f64| format!("{}", (s * 1e6).round() / 1e3);
            let lines = if n == 1 { "line" } else { "lines" };
            match least < most {
                true => format!("{} to {} ms in {n} {lines}", ms(least), ms(most)),
                false => format!("{} ms in {n} {lines}", ms(most)),
            }
        };
        (to.0 >= APART * from.1).then(|| Row {
            label: format!("{name} {}", slow.0),
            place: format!(
                "{}; with {}: {}",
                said(to, slow.1.len()),
                fast.0,
                said(from, fast.1.len())
            ),
            share: to.0 / from.1,
        })
    });
    rows.reduce(|a, b| if b.share > a.share { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Option<(String, String)> {
        let found = read(&text.lines().collect::<Vec<_>>())?;
        let row = found.rows.first()?;
        Some((row.label.clone(), row.place.clone()))
    }

    #[test]
    fn a_level_and_a_field_of_two_values_are_told() {
        let levels = "z level=-1 bytes=3 kB time=90ms\nz level=1 bytes=9 kB time=2ms\nz level=2 bytes=8 kB time=4ms\nz level=3 bytes=3 kB time=90ms (DEFAULT)\n";
        let (label, place) = first(levels).unwrap();
        assert_eq!(label, "level");
        assert!(
            place.starts_with("90ms at 3 (bytes 3), 4ms at 2"),
            "{place}"
        );
        let two = "took 12 milliseconds, cipher: A-128, cached: 0\ntook 1 milliseconds, cipher: A-128, cached: 1\ntook 3 milliseconds, cipher: A-128, cached: 1\n";
        assert_eq!(
            first(two).unwrap(),
            (
                "cached 0".to_owned(),
                "12 ms in 1 line; with 1: 1 to 3 ms in 2 lines".to_owned()
            )
        );
        let even = "a n=1 t=5ms\na n=2 t=5ms\na n=3 t=6ms\n";
        assert!(first(even).is_none());
    }
}
