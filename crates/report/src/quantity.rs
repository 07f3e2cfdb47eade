//! A value of the diagnosis as text, with its unit.
//!
//! The surprise: the unit `1` stands for shares and for plain numbers alike. What a signal is called tells the two
//! apart, and only where it does not, the size of the value does.

use crate::number::{Unit, text, unit_named};

/// How the values of a signal are shown, and the text behind the number.
pub fn unit_of<'a>(signal: &str, unit: &'a str, values: &[f64]) -> (Unit, &'a str) {
    if unit != "1" && !unit.is_empty() {
        return unit_named(unit);
    }
    let name = signal.split('{').next().unwrap_or(signal);
    let is_share = name.ends_with("share") || name.ends_with("utilization");
    // What was shown in pasted output has its unit, or is a count.
    let is_shown = unit.is_empty() && name.starts_with("seen.");
    let is_plain = is_shown || name.contains("per_request") || name.ends_with("count");
    if is_share || (!is_plain && values.iter().all(|v| v.abs() <= 1.0)) {
        (Unit::Share, "")
    } else {
        (Unit::Plain, "")
    }
}

/// A value and its threshold as text. A unit in words stands behind the value alone, which both share; the threshold
/// is a dash when there is none.
pub fn value_and_threshold(
    signal: &str,
    unit: &str,
    value: Option<f64>,
    threshold: Option<f64>,
) -> (String, String) {
    let values: Vec<f64> = value.into_iter().chain(threshold).collect();
    let (shown, behind) = unit_of(signal, unit, &values);
    let number = |v: f64| match v.is_finite() {
        true => text(v, shown),
        false => "-".to_owned(),
    };
    let blank = if behind.is_empty() || behind.starts_with('/') {
        ""
    } else {
        " "
    };
    (
        value.map_or_else(
            || "-".to_owned(),
            |v| format!("{}{blank}{behind}", number(v)),
        ),
        threshold.map_or_else(|| "-".to_owned(), number),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_is_told_from_a_share() {
        for (signal, unit, value, threshold, want) in [
            ("seen.vmstat.b", "", 1.0, Some(1.0), ("1", "1")),
            (
                "read.upstream.per_request",
                "1",
                10.0,
                Some(4.0),
                ("10", "4"),
            ),
            (
                "read.upstream.full_share",
                "1",
                0.9,
                Some(0.5),
                ("90 %", "50 %"),
            ),
            ("connects.per_request", "1", 0.5, None, ("0.500", "-")),
            ("worker.count", "1", 1.0, None, ("1", "-")),
            (
                "thread.utilization{pid=7}",
                "1",
                0.99,
                Some(0.9),
                ("99 %", "90 %"),
            ),
            ("client.fairness", "1", 3.0, Some(0.5), ("3", "0.500")),
            (
                "read.upstream.mean_bytes",
                "bytes",
                4_096.0,
                None,
                ("4.00 KiB", "-"),
            ),
            ("client.rate_per_s", "1/s", 5_000.0, None, ("5,000/s", "-")),
            (
                "cpu.us_per_request",
                "us/request",
                42.0,
                None,
                ("42 us/request", "-"),
            ),
        ] {
            let (value, threshold) = value_and_threshold(signal, unit, Some(value), threshold);
            assert_eq!((value.as_str(), threshold.as_str()), want, "{signal}");
        }
    }
}
