//! When a second counts as slow: `p99>50ms`, `cpu>90%`, `rate<100`.
//!
//! `SIGNAL>VALUE` or `SIGNAL<VALUE`. A quantile (`p50`, `p90`, `p99`) and the mean are times, `cpu`, `host` and
//! `throttled` shares, all others numbers, a second where they are rates.

use crate::near_miss::near_miss;

/// Signals that a condition may name, with what they are.
pub const WHEN_SIGNALS: [(&str, &str); 13] = [
    ("p50", "time that half of the requests take at least"),
    ("p90", "time that a tenth of the requests takes at least"),
    (
        "p99",
        "time that a hundredth of the requests takes at least",
    ),
    ("mean", "mean time of a request in the server"),
    ("rate", "requests a second"),
    ("segments", "TCP segments sent a second"),
    ("open", "requests that stand in the server"),
    ("connections", "connections of clients"),
    (
        "cpu",
        "share of a core that the server's busiest thread uses",
    ),
    ("host", "share of the host's CPU that is busy"),
    (
        "throttled",
        "share of the time in which a CPU quota stopped it",
    ),
    ("retransmits", "segments retransmitted a second"),
    ("overflows", "overflows of listen queues a second"),
];

/// A condition on one second.
#[derive(Clone, Debug, PartialEq)]
pub struct When {
    /// As it was typed.
    pub text: String,
    /// One of [`WHEN_SIGNALS`].
    pub signal: &'static str,
    /// `>`; otherwise `<`.
    pub above: bool,
    /// Times in ms, shares from 0 to 1.
    pub value: f64,
}

impl When {
    /// Reads a condition.
    ///
    /// # Errors
    /// What it must be, with the near miss of a signal.
    pub fn parse(text: &str) -> Result<Self, String> {
        let must = || format!("`{text}` is no condition such as p99>50ms, cpu>90% or rate<100");
        let at = text.find(['<', '>']).ok_or_else(must)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let above = rest.starts_with('>');
        let value = rest[1..].trim();
        let known = WHEN_SIGNALS.iter().find(|(signal, _)| *signal == name);
        let Some((signal, _)) = known else {
            let names = WHEN_SIGNALS.iter().map(|(signal, _)| *signal);
            let near = near_miss(name, names.clone());
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            let all: Vec<&str> = names.collect();
            return Err(format!(
                "unknown signal `{name}`{near} (one of {})",
                all.join(", ")
            ));
        };
        let number = match *signal {
            "p50" | "p90" | "p99" | "mean" => record::parse_duration(value)
                .ok()
                .map(|time| time.0 as f64 / 1e6),
            "cpu" | "host" | "throttled" => crate::typed::percent(value),
            _ => record::parse_count(value)
                .ok()
                .map(|n| n as f64)
                .or_else(|| value.parse().ok()),
        };
        let number = number.filter(|n: &f64| n.is_finite() && *n >= 0.0);
        Ok(Self {
            text: text.trim().to_owned(),
            signal,
            above,
            value: number.ok_or_else(must)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        for (text, signal, above, value) in [
            ("p99>50ms", "p99", true, 50.0),
            (" mean > 1.5s ", "mean", true, 1_500.0),
            ("cpu>90%", "cpu", true, 0.9),
            ("rate<100", "rate", false, 100.0),
            ("rate<2k", "rate", false, 2_000.0),
            ("open>0", "open", true, 0.0),
        ] {
            let when = When::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!((when.signal, when.above), (signal, above), "{text}");
            assert!((when.value - value).abs() < 1e-9, "{text}: {}", when.value);
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_near_miss() {
        for (text, words) in [
            ("p99", "p99>50ms"),
            ("p99=5ms", "is no condition"),
            ("p99>", "is no condition"),
            ("p99>50%", "is no condition"),
            ("cpu>-1%", "is no condition"),
            ("rate<nan", "is no condition"),
            ("rates<5", "did you mean `rate`"),
            (">5", "unknown signal"),
            ("", "is no condition"),
        ] {
            let error = When::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
