//! Rates before and after a change, a line each, for a text in which nothing else was found: `Baseline: 1.9 Gbps` and
//! `With the patch: 3.4-3.6 Gbps`.
//!
//! A line is known by its rate with a unit, and by a name that says which of the two it is. The surprise is a range,
//! which stands for several runs: its middle is the rate.

use super::about;
use super::cells::{AFTER, BEFORE, comparison, is_called};
use super::events::told;
use super::pieces::{Piece, apart, pieces, short};
use crate::text::number;
use record::pasted::{Artefact, Row};

/// A longer line is a sentence or data.
const LINE: usize = 160;
/// Lines between the two.
const NEAR: u32 = 4;
/// A rate that changed is so many times the other.
const CHANGED: f64 = 1.15;

/// Units in small letters, what they count, and how much of it.
#[rustfmt::skip]
const UNITS: [(&str, Unit, f64); 30] = [
    ("gbps", Unit::Bits, 1e9), ("mbps", Unit::Bits, 1e6), ("kbps", Unit::Bits, 1e3),
    ("gbit/s", Unit::Bits, 1e9), ("mbit/s", Unit::Bits, 1e6), ("kbit/s", Unit::Bits, 1e3),
    ("gbits/s", Unit::Bits, 1e9), ("mbits/s", Unit::Bits, 1e6), ("kbits/s", Unit::Bits, 1e3),
    ("gbits/sec", Unit::Bits, 1e9), ("mbits/sec", Unit::Bits, 1e6), ("kbits/sec", Unit::Bits, 1e3),
    ("gb/s", Unit::Bytes, 1e9), ("mb/s", Unit::Bytes, 1e6), ("kb/s", Unit::Bytes, 1e3),
    ("gib/s", Unit::Bytes, 1_073_741_824.0), ("mib/s", Unit::Bytes, 1_048_576.0), ("kib/s", Unit::Bytes, 1_024.0),
    ("req/s", Unit::Times, 1.0), ("reqs/s", Unit::Times, 1.0), ("req/sec", Unit::Times, 1.0), ("requests/s", Unit::Times, 1.0),
    ("requests/sec", Unit::Times, 1.0), ("rps", Unit::Times, 1.0), ("qps", Unit::Times, 1.0), ("tps", Unit::Times, 1.0),
    ("ops/s", Unit::Times, 1.0), ("ops/sec", Unit::Times, 1.0), ("msg/s", Unit::Times, 1.0), ("pps", Unit::Times, 1.0),
];

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Bits,
    Bytes,
    Times,
}

struct Rate<'a> {
    line: u32,
    name: &'a str,
    written: String,
    unit: Unit,
    n: f64,
}

/// A rate before and one after a change.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let all = (1_u32..).zip(lines).filter_map(|(n, line)| rate(n, line));
    let all: Vec<Rate<'_>> = all.collect();
    let before = all.iter().find(|r| is_called(r.name, &BEFORE))?;
    let after = all.iter().find(|r| {
        let other = r.line != before.line && !is_called(r.name, &BEFORE);
        let near = r.line.abs_diff(before.line) <= NEAR;
        other && near && r.unit == before.unit && is_called(r.name, &AFTER)
    })?;
    let times = apart(before.n, after.n);
    let row = Row {
        label: short(&format!("{} against {}", before.name, after.name)),
        place: format!("{} -> {}", before.written, after.written),
        share: times,
    };
    let mut found = comparison(before.line, vec![row], 1)?;
    about::add(&mut found, lines);
    told(found).filter(|_| times >= CHANGED && before.n.min(after.n) > 0.0)
}

/// `upload went from 0.4 Mbit/s to 70 Mbit/s`: both in one line, the first one before the change.
pub(super) fn in_a_sentence(lines: &[&str]) -> Option<Artefact> {
    let (line, row) = (1_u32..).zip(lines).find_map(|(number, text)| {
        let at = text.find(" from ").filter(|_| text.len() <= LINE)?;
        let (name, rest) = (&text[..at], &text[at + " from ".len()..]);
        let (before, after) = rest.split_once(" to ")?;
        let (before, after) = (pieces(before), pieces(after));
        let (n, unit, written) = rate_at(&before, 0)?;
        let (later, same, then) = rate_at(&after, 0)?;
        let times = apart(n, later);
        let row = Row {
            label: short(name.trim().trim_start_matches(['-', '*', ' '])),
            place: format!("{written} -> {then}"),
            share: times,
        };
        let changed = unit == same && times >= CHANGED && n.min(later) > 0.0;
        changed.then_some((number, row))
    })?;
    let mut found = comparison(line, vec![row], 1)?;
    about::add(&mut found, lines);
    told(found)
}

/// The first rate of a line that has a name before it.
fn rate(line: u32, text: &str) -> Option<Rate<'_>> {
    let text = text.trim().trim_start_matches(['-', '*', ' ']);
    let parts = pieces(text);
    let (n, unit, written) = (0..parts.len()).find_map(|at| rate_at(&parts, at))?;
    let first = written.split_whitespace().next()?;
    let name = text[..text.find(first)?].trim_end_matches([' ', ':', '=', '|', '-', '~']);
    let named = name.starts_with(char::is_alphabetic) && text.len() <= LINE;
    named.then_some(Rate {
        line,
        name,
        written,
        unit,
        n,
    })
}

/// `1.92 Gbps`, `3.4-3.6 Gbps`, `94.1Mbit/s`.
fn rate_at(parts: &[Piece<'_>], at: usize) -> Option<(f64, Unit, String)> {
    let text = parts.get(at)?.text;
    let ends = text.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (digits, unit) = text.split_at(ends);
    let (unit, written) = match unit {
        "" => {
            let unit = parts.get(at + 1)?.text;
            (unit, format!("{digits} {unit}"))
        }
        unit => (unit, text.to_owned()),
    };
    let lower = unit.to_ascii_lowercase();
    let (_, unit, factor) = UNITS.iter().find(|(name, ..)| *name == lower)?;
    let n = match digits.split_once('-') {
        Some((low, high)) => (number(low)?.value + number(high)?.value) / 2.0,
        None => number(digits)?.value,
    };
    Some((n * factor, *unit, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Option<(String, String)> {
        let found = read(&text.lines().collect::<Vec<_>>())?;
        let row = found.rows.first()?;
        Some((row.label.clone(), row.place.clone()))
    }

    #[test]
    fn two_rates_are_compared_by_what_they_are_called() {
        let text = "iperf3 -P4:\n  Baseline (no fix):    1.5 Gbps\n  With the fix:  2.8-3.2 Gbps (~100% more)\n";
        let (label, place) = row(text).unwrap();
        assert_eq!(label, "Baseline (no fix) against With the fix");
        assert_eq!(place, "1.5 Gbps -> 2.8-3.2 Gbps");
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("compared.most"), Some(2.0));
        assert_eq!(found.value("compared.bits"), Some(1.0));
        let said = in_a_sentence(&["- relay: download went from 2.5 Mbit/s to 80 Mbit/s"]);
        let said = said.map(|a| (a.rows[0].label.clone(), a.rows[0].place.clone()));
        let expected = ("relay: download went", "2.5 Mbit/s -> 80 Mbit/s");
        assert_eq!(said, Some((expected.0.into(), expected.1.into())));
        assert!(in_a_sentence(&["it went from 2.5 Mbit/s to 2.6 Mbit/s"]).is_none());
        let rates = "before: 900 req/s\nafter: 2,700 req/s\n";
        assert_eq!(row(rates).unwrap().1, "900 req/s -> 2,700 req/s");
        // Other units, names that say nothing, next to no change.
        assert_eq!(row("before: 900 req/s\nafter: 2 Gbps\n"), None);
        assert_eq!(row("a: 900 req/s\nb: 2700 req/s\n"), None);
        assert_eq!(row("before: 900 req/s\nafter: 950 req/s\n"), None);
    }
}
