//! One examined trial as a record of its own, as `prony diagnose` makes it.

use super::examine::STAGE;
use crate::host;
use plan::{Plan, Stage, TrialPlan};
use record::run::FORMAT;
use record::{Manifest, RunRecord, TrialRecord, TrialState};
use std::collections::BTreeMap;

/// The trials as a record of their own, which can be stored, reported and diagnosed again: one of a load, or those of
/// the moments of a longer watch.
pub fn as_record(
    command: Vec<String>,
    error_limit: f64,
    started: String,
    trials: Vec<TrialRecord>,
) -> RunRecord {
    let url = trials.first().map_or("", |trial| trial.load.url.as_str());
    let question = format!("What limits {url}?");
    let plan = Plan {
        question: question.clone(),
        stages: vec![Stage {
            name: STAGE.to_owned(),
            factors: Vec::new(),
            baseline: BTreeMap::new(),
            repeats: 1,
            examine: true,
            search: None,
            metric: None,
        }],
        trials: trials
            .iter()
            .map(|trial| TrialPlan {
                id: trial.id,
                stage: 0,
                block: trial.block,
                levels: trial.levels.clone(),
                targets: Vec::new(),
                load: trial.load.clone(),
                rate_of_capacity: None,
                topology: None,
                irqs: Vec::new(),
            })
            .collect(),
        seed: 0,
        error_limit,
        tune: None,
        warnings: Vec::new(),
        ..Plan::default()
    };
    RunRecord {
        manifest: Manifest {
            format: FORMAT,
            prony: env!("CARGO_PKG_VERSION").to_owned(),
            question,
            command,
            started,
            ended: Some(host::timestamp()),
            interrupted: (trials.iter()).any(|trial| trial.state == TrialState::Interrupted),
        },
        plan: serde_json::to_value(plan).expect("a plan is plain data with string keys"),
        experiment: String::new(),
        environment: monitor::environment::collect(&linux::Root::default()),
        trials,
        traffic: None,
    }
}
