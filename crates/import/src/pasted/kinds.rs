//! Lines that are alike but for their numbers, and lines with a share: what dominates a list without a head, for a text
//! in which nothing else was found.
//!
//! Sockets, calls, processes, messages: whoever prints a line for each, the kind that comes most is what it shows. The
//! surprise is what makes a kind: the words alone, so that addresses, numbers and names with digits do not part it.

use super::about;
use super::events::{artefact, told};
use super::pieces::{seconds, short, value};
use record::pasted::{Artefact, Row};

/// Fewer lines of a kind are no list.
const FEWEST: usize = 3;
/// Of all lines the kind has that much.
const PART: f64 = 0.4;
/// A longer line is data.
const LINE: usize = 1_000;
/// What the share of a sum or of a second column is divided by, so that it stands behind.
const BEHIND: f64 = 1e4;
/// Kinds that are told apart.
const KINDS: usize = 100;

/// The kind of line that a text has most.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut kinds: Vec<(String, u32, &str, f64, &str)> = Vec::new();
    let mut filled = 0.0;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if !text.contains(char::is_alphanumeric) || text.len() > LINE {
            continue;
        }
        filled += 1.0;
        let kind = words_of(text);
        match kinds.iter().position(|(k, ..)| *k == kind) {
            Some(at) => {
                kinds[at].3 += 1.0;
                kinds[at].4 = text;
            }
            None if kinds.len() < KINDS => kinds.push((kind, number, text, 1.0, text)),
            None => {}
        }
    }
    let (_, line, first, n, last) = kinds
        .into_iter()
        .reduce(|a, b| if b.3 > a.3 { b } else { a })?;
    // Sentences are never alike; a line of one word says nothing.
    let says = first.contains(char::is_alphabetic) && first.contains(|c: char| c.is_ascii_digit());
    if n < FEWEST as f64 || n < PART * filled || !says {
        return None;
    }
    let mut found = artefact("lines of a kind", line);
    for (name, n) in [("rows", 1.0), ("times", n), ("all", filled)] {
        found.figures.insert(format!("kinds.{name}"), n);
    }
    found.rows.push(Row::new(short(first), n));
    // What a series comes to is in its last line.
    if last != first {
        found.rows.push(Row::new(short(last), n));
    }
    about::add(&mut found, lines);
    told(found)
}

/// The words of a line that have no digit and are no path: what its kind is.
fn words_of(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || "=,;()[]|\"".contains(c));
    let part = |c: char| c.is_ascii_digit() || c == '/';
    let words = words.filter(|w| w.len() > 1 && !w.contains(part));
    words.collect::<Vec<_>>().join(" ")
}

/// Lines with a share: `81.24%  nginx  ngx_pfree`, `99.99 % agent`, `(29.0%) (marking)`.
pub(super) fn shares(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("lines with shares", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let named = text.split_whitespace().any(|w| {
            let letters = w.chars().filter(|c| c.is_alphabetic()).count();
            letters >= 3 && !w.ends_with(['.', '!', '?'])
        });
        let Some(share) = share(text).filter(|_| named && text.len() <= LINE) else {
            continue;
        };
        found.begin_at(number);
        found.rows.push(Row::new(short(text), share));
    }
    if found.rows.len() < FEWEST - 1 {
        return None;
    }
    found.largest_first();
    let (rows, most) = (found.rows.len() as f64, found.rows[0].share);
    found.figures.insert("shares.rows".into(), rows);
    about::add(&mut found, lines);
    told(found).filter(|_| most > 0.0)
}

/// A list of what took the time, a time and its share a line: `1.260s 38.7% node_modules/ajv`.
pub(super) fn shares_of_times(lines: &[&str]) -> Option<Artefact> {
    let both = |line: &&&str| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        let timed = |w: &&str| seconds(w).is_some() && w.ends_with(char::is_alphabetic);
        words.iter().any(|w| w.ends_with('%')) && words.iter().any(timed)
    };
    let listed: Vec<&str> = lines.iter().filter(both).copied().collect();
    (listed.len() >= FEWEST).then(|| shares(&listed))?
}

/// The first share of a line, in percent; where that is 0 the next one, behind all others.
fn share(text: &str) -> Option<f64> {
    let ends = text.match_indices('%').map(|(at, _)| text[..at].trim_end());
    let shares = ends.filter_map(|before| {
        let number = before.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        // `lat (ms,99%): 12` has a percentile in its name.
        if number.ends_with("s,") {
            return None;
        }
        // Behind such a sign it is how much a figure varies.
        let sign = number.trim_end();
        if sign.ends_with('\u{b1}') || sign.ends_with("+/-") {
            return None;
        }
        value(&before[number.len()..])
    });
    let mut shares = shares.filter(|n| (0.0..=6_400.0).contains(n)).peekable();
    let first = shares.peek().copied()?;
    match first > 0.0 && !text.contains(" total") {
        true => Some(first),
        false => Some(shares.find(|n| *n > 0.0).unwrap_or(0.0) / BEHIND),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_lines_is_told_by_its_first() {
        let text = "head of it\ntcp 0 0 192.0.2.1:80 198.51.100.7:5001 CLOSE_WAIT\ntcp 3 0 192.0.2.1:80 198.51.100.8:5002 CLOSE_WAIT\ntcp 0 0 192.0.2.1:80 198.51.100.9:503 CLOSE_WAIT\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("kinds.times"), Some(3.0));
        assert!(found.rows[0].label.ends_with("CLOSE_WAIT"));
        assert!(read(&["one thing", "two other words", "and a third"]).is_none());
    }

    #[test]
    fn the_largest_share_comes_first() {
        let text = "+ 14.18% hhvm [k] futex_wake\n+ 81.5% nginx [.] pfree\n 0.00 % 99.99 % agent\n";
        let found = shares(&text.lines().collect::<Vec<_>>()).unwrap();
        let labels: Vec<&str> = found.rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(labels[0], "+ 81.5% nginx [.] pfree");
        assert!(shares(&["old 9k (\u{b1} 4.1%) i/s", "new 7k (+/- 6%) i/s"]).is_none());
        assert!(shares(&["a \u{e9}3.7% load", "b \u{e9}2% save"]).is_some());
        // A second column stands behind all that have a first.
        assert_eq!(labels[2], "0.00 % 99.99 % agent");
    }
}
