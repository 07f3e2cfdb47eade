//! The one place where a number becomes text of a page, a sentence or a table.
//!
//! A view never formats a value that it holds: it names a JSON pointer into the analysis or into a
//! trial's file, and [`Source::number`] reads, formats and labels it. So a number on the page is the
//! record's by construction, and carries its raw value (`data-value`) and its origin (`data-from`).

use analysis::words;
use record::{Bytes, Nanos};
use serde::Serialize;
use serde_json::Value;

/// How a number is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things counted: `48,213`.
    Count,
    /// A rate in 1/s: `48,213`, `12.3`.
    PerSecond,
    /// A time in ns: `1.23 ms`.
    Nanos,
    /// A time in us: `20.7 us`.
    Micros,
    /// A time in s: `1.23 s`.
    Seconds,
    /// A share of 1, as per cent: `98 %`.
    Share,
    /// A ratio: `1.84`.
    Ratio,
    /// A ratio as the change that it is: `+84 %`, `-16 %`.
    Change,
    /// A size: `1.21 MiB`.
    Bytes,
    /// Anything else: three significant digits.
    Plain,
    /// A mean count: one decimal from 1 on, `10.0`; two below.
    Decimal,
}

/// A number as shown, with what it was made from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Number {
    /// Text on the page.
    pub text: String,
    /// The value, exact.
    pub value: String,
    /// File and JSON pointer where the value stands.
    pub from: String,
}

/// A JSON document whose numbers are shown.
#[derive(Debug)]
pub struct Source {
    name: String,
    /// Where `root` stands in the document.
    prefix: String,
    root: Value,
}

impl Source {
    /// `value` under the name `name`, the first part of the origin.
    pub fn new(name: impl Into<String>, value: &impl Serialize) -> Self {
        Self::at(name, "", value)
    }

    /// A part of a document: `value` stands at the pointer `prefix` of it.
    pub fn at(name: impl Into<String>, prefix: impl Into<String>, value: &impl Serialize) -> Self {
        Self {
            name: name.into(),
            prefix: prefix.into(),
            root: serde_json::to_value(value)
                .expect("our types have string keys and finite numbers, so they serialise"),
        }
    }

    /// Name of the document: a path within the record; empty for the analysis.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number at `pointer`; `None` when there is none, so that a gap never looks like a zero.
    pub fn number(&self, pointer: &str, unit: Unit) -> Option<Number> {
        let Value::Number(number) = self.root.pointer(pointer)? else {
            return None;
        };
        Some(Number {
            text: text(number.as_f64()?, unit),
            value: number.to_string(),
            from: format!("{}#{}{pointer}", self.name, self.prefix),
        })
    }
}

/// `value` in `unit`, with the unit where a column head cannot carry it. Counts, rates and shares read as
/// they do in verdicts and on the terminal.
pub fn text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => words::count(value.max(0.0).round() as u64),
        Unit::PerSecond => words::rate(value),
        Unit::Nanos => spaced(&Nanos(value.max(0.0).round() as u64).to_string()),
        Unit::Micros => format!("{} us", significant(value)),
        Unit::Seconds => format!("{} s", significant(value)),
        Unit::Share => words::percent(value),
        Unit::Ratio => format!("{value:.3}"),
        Unit::Change => change(value),
        Unit::Bytes => spaced(&Bytes(value.max(0.0).round() as u64).to_string()),
        Unit::Plain => significant(value),
        Unit::Decimal if value.abs() < 0.995 => format!("{value:.2}"),
        Unit::Decimal => format!("{value:.1}"),
    }
}

/// A ratio as a change in per cent, with its sign; from three times on as a multiple, which reads better.
fn change(ratio: f64) -> String {
    if ratio >= 3.0 {
        return format!("x {}", significant(ratio));
    }
    let sign = if ratio >= 1.0 { "+" } else { "" };
    match words::percent(ratio - 1.0).as_str() {
        // Less than can be shown is no change in either direction.
        "-0 %" => "+0 %".to_owned(),
        percent => format!("{sign}{percent}"),
    }
}

/// One decimal, none when it is zero: for shares of a bar.
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// The unit by the name that an [`analysis::Evidence`] carries, and the text to put behind the number.
pub fn unit_named(name: &str) -> (Unit, &str) {
    match name {
        "1" | "share" => (Unit::Share, ""),
        "ns" => (Unit::Nanos, ""),
        "us" => (Unit::Micros, ""),
        "s" => (Unit::Seconds, ""),
        "bytes" => (Unit::Bytes, ""),
        "1/s" | "per_s" => (Unit::PerSecond, "/s"),
        other => (Unit::Plain, other),
    }
}

/// Three significant digits, whole numbers whole: `0.0123`, `12.3`, `4821`.
fn significant(value: f64) -> String {
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
}

/// A space between the number and its unit: `1.23ms` reads `1.23 ms`.
fn spaced(text: &str) -> String {
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..end], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_like_the_field_writes_them() {
        for (value, unit, want) in [
            (48_213.4, Unit::PerSecond, "48,213"),
            (12.345, Unit::PerSecond, "12.3"),
            (1_230_000.0, Unit::Nanos, "1.23 ms"),
            (980.0, Unit::Nanos, "980 ns"),
            (20.72, Unit::Micros, "20.7 us"),
            (0.9823, Unit::Share, "98 %"),
            (1.8412, Unit::Ratio, "1.841"),
            (1.8412, Unit::Change, "+84 %"),
            (0.954, Unit::Change, "-4.6 %"),
            (0.9999, Unit::Change, "+0 %"),
            (3.2, Unit::Change, "x 3.20"),
            (2_714.0, Unit::Bytes, "2.65 KiB"),
            (1_250.0, Unit::Count, "1,250"),
            (0.012_34, Unit::Plain, "0.0123"),
            (4_821.0, Unit::Plain, "4821"),
            (-0.5, Unit::Plain, "-0.500"),
            (10.02, Unit::Decimal, "10.0"),
            (0.25, Unit::Decimal, "0.25"),
        ] {
            assert_eq!(text(value, unit), want);
        }
    }

    #[test]
    fn a_gap_is_not_a_zero() {
        let source = Source::new(
            "x.json",
            &serde_json::json!({"a": 1.5, "b": null, "c": "1"}),
        );
        assert_eq!(source.number("/a", Unit::Plain).unwrap().value, "1.5");
        assert_eq!(source.number("/a", Unit::Plain).unwrap().from, "x.json#/a");
        assert_eq!(source.number("/b", Unit::Plain), None);
        assert_eq!(source.number("/c", Unit::Plain), None);
        assert_eq!(source.number("/d", Unit::Plain), None);
    }
}
