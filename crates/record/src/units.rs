//! Newtypes and the text forms of durations, counts and sizes that people type.
//!
//! Durations and counts follow wrk (`10s`, `2m`, `1h`, `10k`, `1M`); sizes follow IEC: `k`, `M`, `G`
//! are powers of 1000, `KiB`, `MiB`, `GiB` powers of 1024. Note: wrk reads a bare number as seconds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A time span or a point on the run's monotonic clock, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema,
)]
#[schemars(transparent)]
pub struct Nanos(pub u64);

/// A size in bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema,
)]
#[schemars(transparent)]
pub struct Bytes(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);
    /// One millisecond.
    pub const MILLI: Nanos = Nanos(1_000_000);
    /// One microsecond.
    pub const MICRO: Nanos = Nanos(1_000);

    /// Whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Nanos(s * 1_000_000_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Nanos(ms * 1_000_000)
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, zero when `earlier` is later.
    pub fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits in the largest fitting unit: `1.23ms`, `41.0us`, `2.00s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{}ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "us"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let digits = if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$}{unit}")
    }
}

impl fmt::Display for Bytes {
    /// Binary units with two decimals, as wrk prints them: `1.21MB` is 1.21 x 2^20.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        match self.0 {
            0..1024 => write!(f, "{}B", self.0),
            1024..1_048_576 => write!(f, "{:.2}KiB", b / 1024.0),
            1_048_576..1_073_741_824 => write!(f, "{:.2}MiB", b / 1_048_576.0),
            _ => write!(f, "{:.2}GiB", b / 1_073_741_824.0),
        }
    }
}

/// Why a typed quantity was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The text has no number in front.
    #[error("`{text}` is not a {what}: it must start with a number, for example {example}")]
    NoNumber {
        /// What was typed.
        text: String,
        /// What was expected: "duration", "count" or "size".
        what: &'static str,
        /// A text that would be understood.
        example: &'static str,
    },
    /// The unit behind the number is unknown.
    #[error("`{text}` is not a {what}: unknown unit `{unit}`; known units are {known}")]
    UnknownUnit {
        /// What was typed.
        text: String,
        /// What was expected.
        what: &'static str,
        /// The unknown unit.
        unit: String,
        /// The known ones.
        known: &'static str,
    },
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

fn scaled(
    text: &str,
    what: &'static str,
    example: &'static str,
    known: &'static str,
    factor: impl Fn(&str) -> Option<f64>,
) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let Ok(value) = number.parse::<f64>() else {
        return Err(UnitError::NoNumber {
            text: text.to_owned(),
            what,
            example,
        });
    };
    let Some(factor) = factor(unit) else {
        return Err(UnitError::UnknownUnit {
            text: text.to_owned(),
            what,
            unit: unit.to_owned(),
            known,
        });
    };
    Ok((value * factor).round() as u64)
}

/// Reads `10s`, `500ms`, `1.5m`, `2h`, `100us`, `50ns`; a bare number is seconds.
///
/// # Errors
/// [`UnitError`] when there is no number or the unit is unknown.
pub fn parse_duration(text: &str) -> Result<Nanos, UnitError> {
    scaled(text, "duration", "10s", "ns, us, ms, s, m, h", |unit| {
        Some(match unit {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "" | "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return None,
        })
    })
    .map(Nanos)
}

/// Reads `250`, `10k`, `1.5M`, `2G` (powers of 1000).
///
/// # Errors
/// [`UnitError`] when there is no number or the suffix is unknown.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    scaled(text, "count", "10k", "k, M, G", |unit| {
        Some(match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" | "m" => 1e6,
            "G" | "g" => 1e9,
            _ => return None,
        })
    })
}

/// Reads `2649`, `91k`, `91KiB`, `1MB`, `1MiB`.
///
/// # Errors
/// [`UnitError`] when there is no number or the unit is unknown.
pub fn parse_bytes(text: &str) -> Result<Bytes, UnitError> {
    scaled(
        text,
        "size",
        "91KiB",
        "B, k, M, G (1000) and KiB, MiB, GiB (1024)",
        |unit| {
            Some(match unit.to_ascii_lowercase().as_str() {
                "" | "b" => 1.0,
                "k" | "kb" => 1e3,
                "m" | "mb" => 1e6,
                "g" | "gb" => 1e9,
                "ki" | "kib" => 1024.0,
                "mi" | "mib" => 1_048_576.0,
                "gi" | "gib" => 1_073_741_824.0,
                _ => return None,
            })
        },
    )
    .map(Bytes)
}

/// In JSON and in files both are plain integers; a name that ends in `_ns` or `_bytes` says the unit.
macro_rules! plain_integer {
    ($($name:ident)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_u64(self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                u64::deserialize(d).map($name)
            }
        }
    )*};
}
plain_integer!(Nanos Bytes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_wrk_reads_them() {
        for (text, ns) in [
            ("10s", 10_000_000_000),
            ("10", 10_000_000_000),
            ("250ms", 250_000_000),
            ("1.5m", 90_000_000_000),
            ("2h", 7_200_000_000_000),
            ("5us", 5_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)), "{text}");
        }
        assert!(parse_duration("fast").is_err());
        assert!(
            parse_duration("3 weeks")
                .unwrap_err()
                .to_string()
                .contains("weeks")
        );
    }

    #[test]
    fn counts_and_sizes() {
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert_eq!(parse_bytes("91KiB"), Ok(Bytes(93_184)));
        assert_eq!(parse_bytes("91k"), Ok(Bytes(91_000)));
        assert!(parse_bytes("91 elephants").is_err());
    }

    #[test]
    fn durations_print_three_digits() {
        for (ns, text) in [
            (7, "7ns"),
            (41_000, "41.0us"),
            (1_234_000, "1.23ms"),
            (180_000_000, "180ms"),
            (2_000_000_000, "2.00s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }
}
