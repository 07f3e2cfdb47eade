//! A search in a few lines: what was found, and the steps that led there.

use analysis::words::{levels, rate};
use analysis::{Limit, Search, SearchStep};
use record::Nanos;

/// Steps that stand on one line.
const STEPS_A_LINE: usize = 4;

/// What a search found, and its steps.
pub fn search_text(search: &Search) -> String {
    let of = match search.levels.is_empty() {
        true => String::new(),
        false => format!("{}: ", levels(&search.levels)),
    };
    let found = match (search.found_per_s, search.bound_per_s) {
        (Some(found), Some(bound)) => format!(
            "highest open-loop rate that holds: {}/s ({:.0} % of the closed loop's {}/s){}",
            rate(found),
            100.0 * found / bound,
            rate(bound),
            above(search.limit_above)
        ),
        _ => "no open-loop rate was found to hold".to_owned(),
    };
    let steps: Vec<String> = search.steps.iter().map(step_words).collect();
    let steps: Vec<String> = steps.chunks(STEPS_A_LINE).map(|s| s.join(", ")).collect();
    match steps.is_empty() {
        true => format!("{of}{found}\n"),
        false => format!(
            "{of}{found}\n  steps of the search: {}\n",
            steps.join(",\n    ")
        ),
    }
}

fn above(limit: Option<Limit>) -> String {
    match limit {
        None => String::new(),
        Some(Limit::Unknown) => "; above it the schedule is not met".to_owned(),
        Some(Limit::OfferedLoad) => {
            "; above it the schedule is not met, with nothing saturated".to_owned()
        }
        Some(limit) => format!("; above it the {} is the limit", limit.name()),
    }
}

fn step_words(step: &SearchStep) -> String {
    let held = match step.held {
        Some(true) => "held",
        Some(false) => "not met",
        None => "disturbed",
    };
    format!("{}/s {held}", rate(step.offered_per_s))
}

/// One step in one line: what a person watching the run wants to know when it ends.
pub fn search_line(stage: &str, step: &SearchStep) -> String {
    let p99 = step.response_ns_p99.map_or_else(String::new, |p99| {
        format!("  p99 {:>6}", Nanos(p99).to_string())
    });
    let held = match step.held {
        Some(true) => "held".to_owned(),
        Some(false) => "not met, the search goes lower".to_owned(),
        None => format!("says nothing and is taken again: {}", step.why),
    };
    format!(
        "{stage}: {:>9}/s offered {:>9}/s achieved{p99}  {held}",
        rate(step.offered_per_s),
        step.achieved_per_s.map_or_else(|| "-".to_owned(), rate),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_was_not_met_reads_as_a_step() {
        let step = |trial, offered: f64, held| SearchStep {
            trial,
            offered_per_s: offered,
            achieved_per_s: Some(offered),
            response_ns_p99: Some(1_200_000),
            held,
            why: "others took the CPU".to_owned(),
            limit: Limit::Server,
        };
        let search = Search {
            stage: "highest rate".to_owned(),
            levels: analysis::Levels::new(),
            bound_per_s: Some(240_000.0),
            steps: vec![
                step(8, 120_000.0, Some(true)),
                step(9, 180_000.0, Some(false)),
                step(10, 150_000.0, None),
            ],
            found_per_s: Some(120_000.0),
            limit_above: Some(Limit::Server),
        };
        assert_eq!(
            search_text(&search),
            "highest open-loop rate that holds: 120,000/s (50 % of the closed loop's 240,000/s); above it the server is the limit\n  \
             steps of the search: 120,000/s held, 180,000/s not met, 150,000/s disturbed\n"
        );
        let line = search_line(&search.stage, &search.steps[1]);
        assert!(line.ends_with("not met, the search goes lower"), "{line}");
        assert!(!line.contains("NOT VALID"));
    }
}
