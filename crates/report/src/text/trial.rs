//! One trial in one line: what a person watching a run wants to know when it ends.

use analysis::words::{percent, rate};
use analysis::{Limit, TrialAnalysis, Verdict};
use record::Nanos;

/// Levels, rate, latency, the limit or why the trial is not valid.
pub fn trial_line(trial: &TrialAnalysis) -> String {
    let levels: Vec<String> = trial
        .levels
        .iter()
        .map(|(factor, level)| format!("{factor} {level}"))
        .collect();
    // Events come at a rate and have no latency.
    let latency = trial.response_ns.map_or_else(String::new, |latency| {
        format!(
            "  p50 {:>6}  p99 {:>6}",
            Nanos(latency.p50).to_string(),
            Nanos(latency.p99).to_string()
        )
    });
    let figures = match trial.achieved_per_s {
        Some(per_s) => format!(
            "{:>9}/s{latency}  generator {:>5}",
            rate(per_s),
            trial
                .generator_utilization
                .map_or_else(|| "-".to_owned(), percent)
        ),
        None => "no response".to_owned(),
    };
    let disturbed = trial.foreign_cores.filter(|_| trial.is_disturbed());
    let disturbed = disturbed.map_or_else(String::new, |cores| {
        format!("; other programs took {cores:.1} cores")
    });
    format!(
        "{}: {:<24} {figures}  {}{disturbed}",
        trial.stage,
        levels.join(", "),
        outcome(&trial.verdict)
    )
}

fn outcome(verdict: &Verdict) -> String {
    if !verdict.valid {
        return format!("NOT VALID: {}", verdict.why);
    }
    match (verdict.limit, verdict.resource.as_str()) {
        (Limit::OfferedLoad, _) => "limited by the offered load".to_owned(),
        (Limit::Unknown, _) => "limit unknown".to_owned(),
        (limit, "") => format!("limited by the {limit:?}").to_lowercase(),
        (limit, resource) => format!("limited by the {limit:?} ({resource})").to_lowercase(),
    }
}
