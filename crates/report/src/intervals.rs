//! What the intervals of a stage's ratios are worth, in words: the same on the terminal and in the page.

use analysis::Ratio;
use analysis::words::{percent, plural};
use std::collections::BTreeMap;

/// Coverage that a reader expects of an interval.
const USUAL: f64 = 0.95;

/// How a ratio is formed and what its interval covers, by the number of pairs; empty without a ratio.
pub(crate) fn interval_words(ratios: impl Iterator<Item = Ratio>) -> String {
    let by_pairs: BTreeMap<u32, Ratio> = ratios.map(|r| (r.pairs, r)).collect();
    let few = by_pairs.values().any(|r| r.interval().is_none());
    let with_interval: Vec<&Ratio> = by_pairs
        .values()
        .rev()
        .filter(|r| r.interval().is_some())
        .collect();
    let mut clauses = vec!["median over pairs of trials of the same block".to_owned()];
    if !with_interval.is_empty() {
        clauses.push(format!(
            "its interval covers the true one with a probability of {}",
            covered(&with_interval)
        ));
    }
    if few {
        clauses.push("fewer than three pairs (n) give no interval".to_owned());
    }
    if few || with_interval.iter().any(|r| r.coverage < USUAL) {
        clauses.push(format!("six pairs reach {}", percent(USUAL)));
    }
    match by_pairs.is_empty() {
        true => String::new(),
        false => clauses.join("; "),
    }
}

/// `94 % (5 pairs), 88 % (4 pairs)`.
fn covered(ratios: &[&Ratio]) -> String {
    let each = ratios.iter().map(|r| {
        format!(
            "{} ({})",
            percent(r.coverage),
            plural(u64::from(r.pairs), "pair")
        )
    });
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(pairs: u32, coverage: f64) -> Ratio {
        Ratio {
            ratio: 0.5,
            low: 0.4,
            high: 0.6,
            pairs,
            coverage,
        }
    }

    #[test]
    fn each_number_of_pairs_has_its_coverage() {
        let words = |ratios: &[Ratio]| interval_words(ratios.iter().copied());
        let start = "median over pairs of trials of the same block";
        assert_eq!(words(&[]), "");
        assert_eq!(
            words(&[ratio(1, 0.0)]),
            format!("{start}; fewer than three pairs (n) give no interval; six pairs reach 95 %")
        );
        assert_eq!(
            words(&[ratio(4, 0.875), ratio(5, 0.9375), ratio(5, 0.9375)]),
            format!(
                "{start}; its interval covers the true one with a probability of 94 % (5 pairs), 88 % (4 pairs); \
                 six pairs reach 95 %"
            )
        );
        assert_eq!(
            words(&[ratio(6, 0.96875)]),
            format!(
                "{start}; its interval covers the true one with a probability of 97 % (6 pairs)"
            )
        );
    }
}
