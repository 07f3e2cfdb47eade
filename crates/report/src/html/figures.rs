//! Small figures as SVG without scripts: bars against a threshold, intervals of ratios, sizes of reads and writes.
//!
//! All stand in per cent of their width, so that they fit a phone and their letters keep their size.

use super::flame::escaped;
use analysis::words;
use record::{Bytes, CallStats};
use std::fmt::Write as _;

/// A bar for `value` with a mark at `threshold`; `None` where either cannot be drawn.
pub fn threshold_bar(value: f64, threshold: Option<f64>) -> Option<String> {
    let threshold = threshold?;
    let whole = 1.25 * value.max(threshold);
    if !(whole.is_finite() && whole > 0.0 && value >= 0.0 && threshold >= 0.0) {
        return None;
    }
    let (value, threshold) = (100.0 * value / whole, 100.0 * threshold / whole);
    Some(format!(
        "<svg class=\"bar-at\" width=\"100%\" height=\"12\" aria-hidden=\"true\"><rect class=\"back\" width=\"100%\" height=\"12\"/><rect class=\"value\" width=\"{value:.1}%\" height=\"12\"/><line class=\"mark\" x1=\"{threshold:.1}%\" x2=\"{threshold:.1}%\" y1=\"0\" y2=\"12\"/></svg>"
    ))
}

/// A ratio with its interval against 1, logarithmic from a half to twice; further out it ends at the edge.
pub fn interval(ratio: f64, (low, high): (f64, f64)) -> Option<String> {
    if !(low > 0.0 && ratio > 0.0 && high.is_finite()) {
        return None;
    }
    let at = |r: f64| (50.0 + 50.0 * r.log2()).clamp(1.0, 99.0);
    let (low, high, ratio) = (at(low), at(high), at(ratio));
    Some(format!(
        "<svg class=\"interval\" width=\"100%\" height=\"16\" aria-hidden=\"true\"><line class=\"one\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"16\"/><line class=\"range\" x1=\"{low:.1}%\" x2=\"{high:.1}%\" y1=\"8\" y2=\"8\"/><circle cx=\"{ratio:.1}%\" cy=\"8\" r=\"4\"/></svg>"
    ))
}

/// Height of the bars, CSS pixels.
const BARS: f64 = 90.0;
/// Exact sizes that are marked.
const MARKED: usize = 3;

/// Calls by size in powers of two, with the most frequent exact sizes marked; `None` when no size was taken.
pub fn sizes(stats: &[&CallStats], requests: u64) -> Option<String> {
    let bins = stats.iter().map(|s| s.sizes.len()).max()?;
    let mut by_size = vec![0u64; bins];
    for (bin, calls) in stats.iter().flat_map(|s| s.sizes.iter().enumerate()) {
        by_size[bin] += calls;
    }
    let first = by_size.iter().position(|n| *n > 0)?;
    let last = by_size.iter().rposition(|n| *n > 0)?;
    // One empty bin on each side, so that a single size does not fill the figure.
    let (from, to) = (first.saturating_sub(1), last + 2);
    let most = by_size.iter().copied().max().unwrap_or(1) as f64;
    let width = 100.0 / (to - from) as f64;
    let place = |log2: f64| (log2 - from as f64) * width;
    let mut svg = format!(
        "<svg class=\"sizes\" width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"calls by size\">",
        BARS + 34.0
    );
    let every = (to - from).div_ceil(5);
    for bin in from..to {
        let calls = by_size.get(bin).copied().unwrap_or(0);
        let height = BARS * calls as f64 / most;
        let per_request = calls as f64 / requests.max(1) as f64;
        if calls > 0 {
            write!(
                svg,
                "<rect class=\"value\" x=\"{:.2}%\" y=\"{:.1}\" width=\"{:.2}%\" height=\"{height:.1}\"><title>{} to {}: {per_request:.2} per request</title></rect>",
                place(bin as f64) + width * 0.04,
                14.0 + BARS - height,
                width * 0.92,
                Bytes(1 << bin.min(62)),
                Bytes((1 << (bin.min(62) + 1)) - 1),
            )
            .expect("writing to a string does not fail");
        }
        if (bin - from).is_multiple_of(every) && bin < 63 && bin > from {
            write!(
                svg,
                "<text class=\"tick\" x=\"{:.2}%\" y=\"{:.0}\">{}</text>",
                place(bin as f64),
                BARS + 30.0,
                power(bin)
            )
            .expect("writing to a string does not fail");
        }
    }
    for (size, _) in top(stats) {
        let x = place((size as f64).log2());
        write!(
            svg,
            "<line class=\"mark\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"6\" y2=\"{:.0}\"/>",
            14.0 + BARS
        )
        .expect("writing to a string does not fail");
    }
    write!(
        svg,
        "<line class=\"axis\" x1=\"0\" x2=\"100%\" y1=\"{0:.0}\" y2=\"{0:.0}\"/></svg>",
        14.0 + BARS
    )
    .expect("writing to a string does not fail");
    Some(svg)
}

/// `4 KiB`: a power of two in its largest whole unit.
fn power(bin: usize) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    format!("{} {}", 1u64 << (bin % 10), units[(bin / 10).min(6)])
}

/// The most frequent exact sizes over all calls, with their counts.
fn top(stats: &[&CallStats]) -> Vec<(u64, u64)> {
    let mut all = std::collections::BTreeMap::<u64, u64>::new();
    for (size, calls) in stats.iter().flat_map(|s| &s.top_sizes) {
        *all.entry(*size).or_default() += calls;
    }
    let mut all: Vec<(u64, u64)> = all.into_iter().filter(|(size, _)| *size > 0).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(MARKED);
    all
}

/// The marked sizes in words: `8,192 bytes 10.0 per request`.
pub fn top_words(stats: &[&CallStats], requests: u64) -> String {
    let each = top(stats).into_iter().map(|(size, calls)| {
        let per_request = calls as f64 / requests.max(1) as f64;
        format!("{} bytes {per_request:.2} per request", words::count(size))
    });
    escaped(&each.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_and_its_mark_are_to_scale() {
        let svg = threshold_bar(10.0, Some(5.0)).unwrap();
        assert!(
            svg.contains("width=\"80.0%\"") && svg.contains("x1=\"40.0%\""),
            "{svg}"
        );
        assert_eq!(threshold_bar(10.0, None), None);
        assert_eq!(threshold_bar(0.0, Some(0.0)), None);
        assert_eq!(threshold_bar(f64::NAN, Some(1.0)), None);
    }

    #[test]
    fn an_interval_stands_against_one() {
        let svg = interval(1.0, (0.5, 2.0_f64.sqrt())).unwrap();
        assert!(
            svg.contains("x1=\"1.0%\" x2=\"75.0%\"") && svg.contains("cx=\"50.0%\""),
            "{svg}"
        );
        assert_eq!(interval(1.0, (0.0, 2.0)), None);
    }

    #[test]
    fn sizes_fall_into_powers_of_two() {
        let mut bins = vec![0; 14];
        bins[12] = 30;
        bins[13] = 10;
        let stats = CallStats {
            sizes: bins,
            top_sizes: vec![(4_096, 30), (9_000, 10)],
            ..CallStats::default()
        };
        let svg = sizes(&[&stats], 10).unwrap();
        assert!(
            svg.contains("3.00 per request") && svg.contains("1.00 per request"),
            "{svg}"
        );
        assert!(svg.contains("4 KiB"), "{svg}");
        assert_eq!(
            top_words(&[&stats], 10),
            "4,096 bytes 3.00 per request, 9,000 bytes 1.00 per request"
        );
        assert_eq!(sizes(&[&CallStats::default()], 10), None);
    }
}
