//! A line as pieces: words without the punctuation around them, numbers with their units.

use crate::text::{bytes, duration, number, thousands};

/// Methods by which a line of a log or of a list is known.
pub(super) const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD"];

/// A word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
}

/// The pieces of a line. A comma and a point inside a number belong to it, and so do a slash and a point inside a name.
pub(super) fn pieces(line: &str) -> Vec<Piece<'_>> {
    let apart = |c: char| c.is_whitespace() || "=:;()[]\"'|│{}<>`".contains(c);
    let trim = [',', '.', '*', '!', '>', '#', '$'];
    let words = line.split(apart).flat_map(|w| {
        // `1,2` stays a number, in a list of them too, and `a,b` are two words.
        let w = w.strip_suffix(',').unwrap_or(w);
        let is_number = number(w).is_some() || w.contains(',') && seconds(w).is_some();
        let parts: Vec<&str> = match is_number {
            true => vec![w],
            false => w.split(',').collect(),
        };
        parts
    });
    words
        .map(|w| match w {
            "*" | ">" => w,
            w => w.trim_matches(trim),
        })
        .filter(|w| !w.is_empty() && !w.bytes().all(|b| b == b'-' || b == b'='))
        .map(|text| Piece { text })
        .collect()
}

/// Whether a digit stands on either side of a byte of a line.
pub(super) fn is_in_number(line: &str, at: usize) -> bool {
    let digit = |at: usize| line.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    at.checked_sub(1).is_some_and(digit) && digit(at + 1)
}

/// A line at its bars and commas, but for a decimal comma.
pub(super) fn parts(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, mark) in line.match_indices(['|', ',']) {
        if mark != "," || !is_in_number(line, at) {
            found.push(&line[from..at]);
            from = at + 1;
        }
    }
    found.push(&line[from..]);
    found
}

/// A number with what tools put behind it: a percent sign, `s`, `ms` (then seconds), `k`, `MB`.
pub(super) fn value(text: &str) -> Option<f64> {
    let text = text.trim_end_matches('%');
    let plain = number(text).map(|n| n.value);
    plain
        .or_else(|| seconds(text))
        .or_else(|| thousands(text).map(|n| n.value))
        .or_else(|| bytes(text).map(|n| n.value))
        // free and Kubernetes leave the B out.
        .or_else(|| {
            text.ends_with('i').then_some(())?;
            bytes(&format!("{text}B")).map(|n| n.value)
        })
}

/// Seconds, with a unit behind the number.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || ['.', ','].contains(&c));
    if ["m", "h"].contains(&unit) {
        return None;
    }
    duration(text).map(|n| n.value / 1e9)
}

/// The time that begins at a piece of a line, in one (`12ms`) or with its unit behind it (`12 ms`): seconds, as it is
/// written, and how many pieces it has.
pub(super) fn time_at(parts: &[Piece<'_>], at: usize) -> Option<(f64, String, usize)> {
    let text = parts.get(at)?.text;
    if let Some(s) = seconds(text).filter(|_| text.ends_with(char::is_alphabetic)) {
        return Some((s, text.to_owned(), 1));
    }
    let unit = parts.get(at + 1)?.text;
    let plain = text.bytes().all(|b| b"0123456789.,".contains(&b));
    let s = seconds(&format!("{text}{unit}")).filter(|_| plain)?;
    Some((s, format!("{text} {unit}"), 2))
}

/// How many times the smaller of two figures the larger one is.
pub(super) fn apart(a: f64, b: f64) -> f64 {
    a.max(b) / a.min(b).max(1e-9)
}

/// The middle one of figures, with how it is written.
pub(super) fn middle<T>(mut all: Vec<(f64, T)>) -> Option<(f64, T)> {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = all.len() / 2;
    (at < all.len()).then(|| all.swap_remove(at))
}

/// `09:06:54.709978`, `19687:56` or `12.5`: each part between colons counts 60 of the next.
pub(super) fn by_sixties(text: &str) -> Option<f64> {
    let mut parts = text.split(':').map(str::parse::<f64>);
    parts.try_fold(0.0, |all, part| Some(all * 60.0 + part.ok()?))
}

/// Where a query's `from` begins, in a line in small letters.
pub(super) fn from_of_query(lower: &str) -> Option<usize> {
    let query = lower.find("select ")?;
    lower[query..].find(" from ").map(|from| query + from)
}

/// Characters of a statement or a message that are kept.
const KEPT: usize = 160;

/// A statement or a message in one line, cut off where it is long.
pub(super) fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(KEPT).collect()
}
