//! A plan for `--dry-run`: stages, factors, the order of the trials, the time it takes.

use super::style::Style;
use super::table::{columns, names};
use super::warnings_text;
use analysis::words::{count, levels, percent, plural, rate};
use analysis::{Plan, SearchFor, Stage, TrialPlan};
use record::{Arrival, Http, Nanos};
use std::collections::BTreeSet;

/// What a run of this plan would do.
pub fn plan_text(plan: &Plan, style: Style) -> String {
    let total = plan.trials.iter().fold(Nanos(0), |sum, t| sum + t.time());
    let mut text = format!(
        "{} in {}, about {}\n",
        plural(plan.trials.len() as u64, "trial"),
        plural(plan.stages.len() as u64, "stage"),
        minutes(total)
    );
    if !plan.question.is_empty() {
        text = format!("question: {}\n{text}", plan.question);
    }
    if plan.scales.len() > 1 {
        text += &format!(
            "scale {}, of {} (--scale)\n",
            plan.scale,
            plan.scales.join(", ")
        );
    }
    let limit = percent(plan.error_limit);
    text += &format!(
        "order within each block is shuffled with seed {}; a trial with more than {limit} failed requests is not valid\n",
        plan.seed
    );
    if let Some(until) = plan.until {
        text += &format!(
            "blocks are repeated until every interval is within +-{}, at most {} a stage{}\n",
            percent(until.half_width),
            until.most_repeats,
            until
                .budget
                .map(|b| format!(", {} in all", minutes(b)))
                .unwrap_or_default()
        );
    }
    if let Some(profile) = &plan.tune {
        text += &format!(
            "tuned by {} ({}) while it runs: `prony tune show {}`\n",
            profile.name,
            plural(profile.set.len() as u64, "setting"),
            profile.name
        );
    }
    let placed = plan.trials.iter().flat_map(|trial| {
        let host = |target| Some((target, trial.reached_host(target)?));
        trial.targets.iter().filter_map(host)
    });
    let placed: BTreeSet<String> = placed
        .map(|(t, host)| format!("{} on {host}", t.name))
        .collect();
    if !placed.is_empty() {
        let placed: Vec<String> = placed.into_iter().collect();
        text += &format!("targets on other hosts: {}\n", placed.join(", "));
    }
    for (index, stage) in plan.stages.iter().enumerate() {
        text += &stage_text(plan, index, stage, style);
    }
    match warnings_text(&plan.warnings, style) {
        warnings if warnings.is_empty() => text,
        warnings => text + "\n" + &warnings,
    }
}

/// `45 s`, `3 min 20 s`.
fn minutes(span: Nanos) -> String {
    let seconds = span.as_secs_f64().round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, s) => format!("{s} s"),
        (m, s) => format!("{} min {s} s", count(m)),
    }
}

fn stage_text(plan: &Plan, index: usize, stage: &Stage, style: Style) -> String {
    let trials: Vec<&TrialPlan> = plan.trials.iter().filter(|t| t.stage == index).collect();
    let time = trials.iter().fold(Nanos(0), |sum, t| sum + t.time());
    let many = match stage.search {
        Some(SearchFor::Rate) => format!(
            "search for the highest rate that holds, at most {}",
            plural(u64::from(stage.repeats), "step")
        ),
        None => plural(u64::from(stage.repeats), "repeat"),
    };
    let mut text = format!(
        "\n{}: {many}, {}, about {}\n",
        style.heading(&format!("stage {}", stage.name)),
        plural(trials.len() as u64, "trial"),
        minutes(time)
    );
    for factor in &stage.factors {
        text += &format!("  factor {}: {}\n", factor.name, factor.levels.join(", "));
    }
    if !stage.baseline.is_empty() {
        text += &format!("  baseline {}\n", levels(&stage.baseline));
    }
    let mut rows = vec![
        ["trial", "block", "levels", "load", "targets"]
            .map(str::to_owned)
            .to_vec(),
    ];
    // One row for all steps of a search: they differ in the rate, which nobody knows yet.
    let shown = trials
        .iter()
        .filter(|t| stage.search.is_none() || t.block == 0);
    rows.extend(shown.map(|t| trial_row(t, stage.search.is_some())));
    text + &columns(&rows, names(5))
}

fn trial_row(trial: &TrialPlan, searched: bool) -> Vec<String> {
    let targets: Vec<&str> = trial.targets.iter().map(|t| t.name.as_str()).collect();
    vec![
        format!("  {}", trial.id),
        trial.block.to_string(),
        levels(&trial.levels),
        load(trial, searched),
        match targets.is_empty() {
            true => "-".to_owned(),
            false => targets.join(", "),
        },
    ]
}

fn load(trial: &TrialPlan, searched: bool) -> String {
    let load = &trial.load;
    let mut text = plural(u64::from(load.connections), "connection");
    match (load.arrival, trial.rate_of_capacity) {
        (Arrival::Poisson { .. }, None) if searched => text += ", the rate searched (Poisson)",
        (_, None) if searched => text += ", the rate searched",
        (_, Some(share)) => text += &format!(", {} of capacity", percent(share)),
        (Arrival::Closed, None) => {}
        (Arrival::Constant { .. }, None) if !load.rate_pieces.is_empty() => {
            text += &format!(", {}/s", load.rate_pieces);
        }
        (Arrival::Poisson { .. }, None) if !load.rate_pieces.is_empty() => {
            text += &format!(", {}/s (Poisson)", load.rate_pieces);
        }
        (Arrival::Constant { per_s }, None) => text += &format!(", {}/s", rate(per_s)),
        (Arrival::Poisson { per_s, .. }, None) => text += &format!(", {}/s (Poisson)", rate(per_s)),
    }
    if let Some(n) = load.requests_per_connection {
        text += &format!(", {} each", plural(n, "request"));
    }
    if load.pipeline > 1 {
        text += &format!(", pipelined {} deep", load.pipeline);
    }
    if load.http == Http::Two {
        let streams = plural(u64::from(load.streams), "stream");
        text += &format!(", HTTP/2 with {streams} each");
    }
    text
}
