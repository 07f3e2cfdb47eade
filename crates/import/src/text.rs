//! Text as it was before a web page, a mail or a person's editor went over it, and its words.
//!
//! Tools print words and numbers in a fixed order; pages lose indentation, join and wrap lines, and make spaces,
//! quotes and dashes pretty. So everything above this module reads a stream of [`Word`]s that know their line, and no
//! columns. The surprise is a number: `764,342`, `764'342` and `764342` are the same count, and how many digits were
//! printed says how sharp it is.

/// A word of the text with its line, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    pub line: u32,
}

/// A printed number: the value and half of its last digit's step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub value: f64,
    pub half: f64,
}

impl Number {
    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            half: self.half * factor,
        }
    }

    /// A count, or a number that was stored in full.
    pub fn exact(value: f64) -> Self {
        Self { value, half: 0.0 }
    }
}

/// The same text with plain spaces, quotes, dashes and line ends.
pub(crate) fn plain(text: &str) -> String {
    let text = entities(text);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        at += 1;
        match c {
            '\r' => {
                if chars.get(at) != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{c}' => out.push('\n'),
            '\u{1b}' => at = past_escape(&chars, at),
            // Thin spaces group digits; between anything else they are spaces.
            '\u{2008}' | '\u{2009}' | '\u{202f}' if groups(&chars, at) => {}
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
                out.push(' ');
            }
            '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => {}
            '“' | '”' | '„' | '«' | '»' => out.push('"'),
            '‘' | '’' | '‚' => out.push('\''),
            '\u{2010}'..='\u{2015}' | '−' => out.push('-'),
            '±' => out.push_str("+/-"),
            'µ' | 'μ' => out.push('u'),
            '：' => out.push(':'),
            '，' => out.push(','),
            '（' => out.push('('),
            '）' => out.push(')'),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Behind an ANSI escape that began before `at`.
fn past_escape(chars: &[char], at: usize) -> usize {
    if chars.get(at) != Some(&'[') {
        return at;
    }
    let end = chars[at + 1..].iter().position(|c| c.is_ascii_alphabetic());
    end.map_or(chars.len(), |n| at + n + 2)
}

/// A thin space before `at` stands between a digit and a group of three.
fn groups(chars: &[char], at: usize) -> bool {
    let digit = |i: usize| chars.get(i).is_some_and(char::is_ascii_digit);
    at >= 2 && digit(at - 2) && (0..3).all(|i| digit(at + i)) && !digit(at + 3)
}

/// What pages write for characters, and the few tags that stand in copied text.
fn entities(text: &str) -> String {
    if !text.contains(['&', '<']) {
        return text.to_owned();
    }
    let mut text = text.to_owned();
    for (from, to) in [
        ("&nbsp;", " "),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
        ("<br>", "\n"),
        ("<br/>", "\n"),
        ("<br />", "\n"),
        ("<pre>", "\n"),
        ("</pre>", "\n"),
        ("<code>", " "),
        ("</code>", " "),
        ("<p>", "\n"),
        ("</p>", "\n"),
    ] {
        text = text.replace(from, to);
    }
    text
}

/// The words of plain text. Marks of Markdown around a word, table bars, rules and code fences are
/// none.
pub(crate) fn words(text: &str) -> Vec<Word<'_>> {
    let mut found = Vec::new();
    for (number, line) in (1_u32..).zip(text.lines()) {
        for piece in line.split(|c: char| c.is_whitespace() || c == '|') {
            let piece = piece.trim_matches(['`', '*']);
            let rule = piece.len() >= 3 && piece.bytes().all(|b| b == b'-' || b == b'=');
            if !piece.is_empty() && piece != ">" && piece != "\\" && !rule {
                found.push(Word {
                    text: piece,
                    line: number,
                });
            }
        }
    }
    found
}

/// Index behind `phrase`, whose words stand at `at`.
pub(crate) fn phrase(words: &[Word<'_>], at: usize, phrase: &str) -> Option<usize> {
    let mut next = at;
    for expected in phrase.split(' ') {
        if !words.get(next)?.text.eq_ignore_ascii_case(expected) {
            return None;
        }
        next += 1;
    }
    Some(next)
}

/// A number with its digits grouped in any of the usual ways. A comma before one, two or more than three last digits
/// is a decimal comma, and so is one behind a zero.
pub(crate) fn number(text: &str) -> Option<Number> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let plain = ungrouped(digits)?;
    let decimals = plain.split_once('.').map_or(0, |(_, d)| d.len());
    let scale = 10_f64.powi(exponent);
    let value = plain.parse::<f64>().ok()? * scale * sign;
    let half = 0.5 * 10_f64.powi(-i32::try_from(decimals).ok()?) * scale;
    value.is_finite().then_some(Number { value, half })
}

/// Digits with at most one point among them.
fn ungrouped(text: &str) -> Option<String> {
    let starts = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let known = |c: char| c.is_ascii_digit() || [',', '.', '\'', '_'].contains(&c);
    if !starts || !text.ends_with(|c: char| c.is_ascii_digit()) || !text.chars().all(known) {
        return None;
    }
    let grouped_by = |mark: char| {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap_or_default();
        // No number begins with an empty group: `0,459` has a decimal comma.
        (1..=3).contains(&first.len())
            && !first.starts_with('0')
            && first.bytes().all(|b| b.is_ascii_digit())
            && parts.clone().count() > 0
            && parts.all(|p| p.len() == 3 && p.bytes().all(|b| b.is_ascii_digit()))
    };
    let without = |mark: char| text.replace(mark, "");
    for mark in ['\'', '_', ','] {
        if grouped_by(mark) {
            return Some(without(mark));
        }
    }
    let (commas, points) = (text.matches(',').count(), text.matches('.').count());
    match (commas, points) {
        (0, 0 | 1) => Some(text.to_owned()),
        (0, _) => grouped_by('.').then(|| without('.')),
        // `12,722.92`: groups, then a point.
        (_, 1) if text.rfind(',') < text.find('.') => {
            let (whole, fraction) = text.split_once('.')?;
            Some(format!("{}.{fraction}", ungrouped(whole)?))
        }
        // `12.722,92`: the same with the marks exchanged.
        (1, _) => {
            let (whole, fraction) = text.split_once(',')?;
            let whole = whole.replace('.', "");
            Some(format!("{whole}.{fraction}"))
        }
        _ => None,
    }
}

/// A count: a whole number, however its digits are grouped. Punctuation behind it is no part of it.
pub(crate) fn count(text: &str) -> Option<f64> {
    let text = text
        .trim_end_matches([',', ';', '.', ')'])
        .trim_start_matches('(');
    let digits: String = text
        .chars()
        .filter(|c| ![',', '\'', '_', '.'].contains(c))
        .collect();
    let grouped = text
        .split([',', '\'', '_', '.'])
        .skip(1)
        .all(|g| g.len() == 3);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (plain && grouped && text.starts_with(|c: char| c.is_ascii_digit()))
        .then(|| digits.parse().ok())?
}

/// A number behind which punctuation may stand.
pub(crate) fn loose(text: &str) -> Option<Number> {
    number(
        text.trim_end_matches([',', ';', ')'])
            .trim_start_matches('('),
    )
}

/// Splits `13.71ms` before its unit.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let at = text.find(|c: char| c.is_ascii_alphabetic() || c == '%')?;
    Some((&text[..at], &text[at..]))
}

/// Nanoseconds of a unit of time.
fn nanos_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "usec" => 1e3,
        "ms" | "msec" => 1e6,
        "s" | "sec" | "secs" | "seconds" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// `13.71ms`, `1.11s`, `1.00m`, Go's `1m40.02s`; ns. Punctuation behind it is no part of it.
pub(crate) fn duration(text: &str) -> Option<Number> {
    let text = text.trim_end_matches([',', ';', ')', ':']);
    let (digits, rest) = split_unit(text)?;
    let first = number(digits)?;
    let end = rest
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let part = first.times(nanos_of(&rest[..end])?);
    if end == rest.len() {
        return Some(part);
    }
    let more = duration(&rest[end..])?;
    Some(Number {
        value: part.value + more.value,
        half: more.half,
    })
}

/// A duration at `at`, its unit in the same word or in the next one; with the index behind it.
pub(crate) fn duration_at(words: &[Word<'_>], at: usize) -> Option<(Number, usize)> {
    let text = words.get(at)?.text;
    if let Some(found) = duration(text) {
        return Some((found, at + 1));
    }
    let value = number(text)?;
    let unit = words
        .get(at + 1)?
        .text
        .trim_end_matches([',', ';', ')', '.']);
    Some((value.times(nanos_of(unit)?), at + 2))
}

/// `66.43GB`, `3.00`+`MiB`: bytes. Load generators that print `KB` without an `i` mean powers of 1024.
pub(crate) fn bytes(text: &str) -> Option<Number> {
    let text = text
        .trim_end_matches([',', ';', ')'])
        .trim_end_matches("/s");
    let (digits, unit) = split_unit(text)?;
    Some(number(digits)?.times(bytes_of(unit)?))
}

fn bytes_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" | "bytes" | "byte" => 1.0,
        "K" | "KB" | "KiB" => 1024.0,
        "M" | "MB" | "MiB" => 1_048_576.0,
        "G" | "GB" | "GiB" => 1_073_741_824.0,
        "T" | "TB" | "TiB" => 1_099_511_627_776.0,
        _ => return None,
    })
}

/// A size at `at`, its unit in the same word or in the next one; with the index behind it.
pub(crate) fn bytes_at(words: &[Word<'_>], at: usize) -> Option<(Number, usize)> {
    let text = words.get(at)?.text;
    if let Some(found) = bytes(text) {
        return Some((found, at + 1));
    }
    let unit = words.get(at + 1)?.text.trim_end_matches([',', ';', ')']);
    Some((number(text)?.times(bytes_of(unit)?), at + 2))
}

/// `61.10%`.
pub(crate) fn percent(text: &str) -> Option<Number> {
    number(text.trim_end_matches([',', ')', ':']).strip_suffix('%')?)
}

/// `111.42k`, `6.36M`: powers of 1000.
pub(crate) fn thousands(text: &str) -> Option<Number> {
    let text = text.trim_end_matches([',', ';']);
    for (suffix, factor) in [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)] {
        if let Some(digits) = text.strip_suffix(suffix) {
            return Some(number(digits)?.times(factor));
        }
    }
    number(text)
}

/// A percentile's name: `p50`, `p99.9`.
pub(crate) fn percentile_name(prefix: &str, percentile: f64) -> String {
    format!("{prefix}.p{}", (percentile * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_however_they_are_grouped() {
        for (text, value) in [
            ("764342", Some(764_342.0)),
            ("764,342", Some(764_342.0)),
            ("764'342", Some(764_342.0)),
            ("1,491,946", Some(1_491_946.0)),
            ("12,722.92", Some(12_722.92)),
            ("12.722,92", Some(12_722.92)),
            ("37,20", Some(37.20)),
            ("1.491.946", Some(1_491_946.0)),
            ("-6", Some(-6.0)),
            ("1.2e+06", Some(1.2e6)),
            ("", None),
            (".", None),
            ("1,2,3", None),
            ("1..2", None),
            ("12a", None),
            ("1.2.3", None),
        ] {
            assert_eq!(number(text).map(|n| n.value), value, "{text}");
        }
        assert_eq!(number("1.11").unwrap().half, 0.005);
        assert_eq!(count("764.342"), Some(764_342.0));
        assert_eq!(count("12.72"), None);
    }

    #[test]
    fn durations_and_sizes_of_every_tool() {
        for (text, ns) in [
            ("13.71ms", 13.71e6),
            ("1.11s,", 1.11e9),
            ("1.00m,", 60e9),
            ("820.00us", 820e3),
            ("1m40.5s", 100.5e9),
            ("2m0s", 120e9),
        ] {
            let found = duration(text).unwrap().value;
            assert!((found / ns - 1.0).abs() < 1e-12, "{text}: {found}");
        }
        assert_eq!(duration("12 parsecs"), None);
        assert_eq!(bytes("1.00KB").unwrap().value, 1024.0);
        let text = "0.0011 secs";
        assert_eq!(duration_at(&words(text), 0).unwrap().0.value.round(), 1.1e6);
    }

    #[test]
    fn a_page_leaves_no_trace() {
        let mangled = "\u{feff}Latency\u{a0}\u{a0}“x”\u{2003}5\u{202f}100\u{202f}000 \u{1b}[1m–3µs\u{1b}[0m\r\nnext &lt;1&gt;\u{200b}\r";
        assert_eq!(plain(mangled), "Latency  \"x\" 5100000 -3us\nnext <1>\n");
    }
}
