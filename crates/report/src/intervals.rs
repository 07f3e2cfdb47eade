//! What the intervals of a stage's ratios are worth, in words: the same on the terminal and in the page.

use analysis::words::{percent, plural};
use analysis::{Method, Ratio};
use std::cmp::Ordering;

/// Smaller differences read as none.
const SMALLEST_SHOWN: f64 = 0.001;

/// What a ratio to the baseline takes.
pub(crate) const FEWEST_PAIRS_WORDS: &str = "a ratio takes three pairs of valid trials of one block in which other programs took at most 0.1 core";

/// What a mark behind a rate says.
pub(crate) const WINDOW_WORDS: &str = "Rates marked * leave out a warm-up that reached into the measured part; p50, p99 and CPU of those rows are of all of it.";

/// Whether a ratio shows a difference from 1, and in which direction; `None` where too few pairs tell nothing.
/// The one place where pages, tables and sentences decide that.
pub(crate) fn shown(ratio: Ratio) -> Option<Ordering> {
    Some(match ratio.differs()? {
        true if ratio.ratio > 1.0 => Ordering::Greater,
        true => Ordering::Less,
        false => Ordering::Equal,
    })
}

/// How the ratios of a stage were formed, what their intervals assume, what they were corrected for, and the smallest
/// difference that would have been found; empty without a ratio.
pub(crate) fn interval_words(ratios: impl Iterator<Item = Ratio>) -> String {
    let ratios: Vec<Ratio> = ratios.collect();
    let pairs = || ratios.iter().map(|r| u64::from(r.pairs));
    let (Some(fewest), Some(most)) = (pairs().min(), pairs().max()) else {
        return String::new();
    };
    let pairs = match fewest == most {
        true => plural(most, "pair"),
        false => format!("{fewest} to {most} pairs"),
    };
    let mut clauses = vec![format!(
        "over {pairs} of trials of the same block, not the quotient of the medians"
    )];
    let has = |method: Method| ratios.iter().any(|r| r.method == method);
    if has(Method::Rank) {
        clauses.push(
            "Hodges-Lehmann estimate with the 95 % interval of Wilcoxon's signed ranks, whatever the noise"
                .to_owned(),
        );
    }
    if has(Method::StudentT) {
        clauses.push(
            "mean with the 95 % interval of Student's t, both on logarithms, which takes the noise as normal: too few \
             pairs for ranks"
                .to_owned(),
        );
    }
    let tested = ratios.iter().filter(|r| r.p_adjusted.is_some()).count() as u64;
    if tested > 0 {
        let corrected = match tested {
            1 => String::new(),
            n => format!(", corrected for {} (Holm)", plural(n, "comparison")),
        };
        clauses.push(format!("~ is no difference at the 5 % level{corrected}"));
    }
    let effects = ratios.iter().filter_map(|r| r.smallest_effect);
    if let Some(largest) = effects.reduce(f64::max) {
        clauses.push(format!(
            "a difference of {} would have been found four times in five",
            percent(largest.max(SMALLEST_SHOWN))
        ));
    }
    clauses.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(pairs: u32, method: Method) -> Ratio {
        Ratio {
            ratio: 0.5,
            low: 0.4,
            high: 0.6,
            pairs,
            coverage: 0.95,
            method,
            p: Some(0.01),
            p_adjusted: Some(0.02),
            smallest_effect: Some(0.04),
        }
    }

    #[test]
    fn each_method_says_what_it_assumes() {
        let words = |ratios: &[Ratio]| interval_words(ratios.iter().copied());
        let start = "over 9 pairs of trials of the same block, not the quotient of the medians";
        assert_eq!(words(&[]), "");
        let found = "a difference of 4 % would have been found four times in five";
        assert_eq!(
            words(&[ratio(9, Method::Rank), ratio(9, Method::Rank)]),
            format!(
                "{start}; Hodges-Lehmann estimate with the 95 % interval of Wilcoxon's signed ranks, whatever the noise; \
                 ~ is no difference at the 5 % level, corrected for 2 comparisons (Holm); {found}"
            )
        );
        let by_t = words(&[ratio(3, Method::StudentT), ratio(5, Method::StudentT)]);
        assert!(
            by_t.starts_with("over 3 to 5 pairs") && by_t.contains("takes the noise as normal")
        );
    }
}
