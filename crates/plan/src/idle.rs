//! Factors that change nothing: a misspelt load field, or a name that no template mentions.
//!
//! Only a warning, because two equal levels are a fair way to measure the noise (A/A).

use crate::load::FIELDS;
use crate::near_miss::near_miss;
use crate::{Factor, Levels, Stage, TWIN, TargetKind, TargetSpec, TrialPlan, template};
use record::{Arrival, LoadSpec, Warning};
use std::collections::BTreeMap;

/// One warning for each factor of a stage whose levels run the very same trials.
pub(crate) fn idle_factors(stages: &[Stage], trials: &[TrialPlan]) -> Vec<Warning> {
    let of_stage = |index: usize| trials.iter().filter(move |t| t.stage == index);
    stages
        .iter()
        .enumerate()
        .flat_map(|(index, stage)| stage.factors.iter().map(move |f| (index, f)))
        .filter(|(_, factor)| factor.name != TWIN)
        .filter(|(index, factor)| factor.levels.len() > 1 && is_idle(factor, of_stage(*index)))
        .map(|(_, factor)| warning(factor))
        .collect()
}

/// What a trial really does, apart from the levels' names and the seed of its arrivals.
#[derive(PartialEq)]
struct Effect {
    load: LoadSpec,
    rate_of_capacity: Option<f64>,
    targets: Vec<TargetSpec>,
}

fn is_idle<'a>(factor: &Factor, trials: impl Iterator<Item = &'a TrialPlan>) -> bool {
    let mut effects: BTreeMap<Levels, Effect> = BTreeMap::new();
    for trial in trials {
        if trial
            .targets
            .iter()
            .any(|t| names(t, &trial.levels, &factor.name))
        {
            return false;
        }
        let mut others = trial.levels.clone();
        others.remove(&factor.name);
        let effect = effect(trial);
        if effects.get(&others).is_some_and(|known| *known != effect) {
            return false;
        }
        effects.insert(others, effect);
    }
    true
}

fn effect(trial: &TrialPlan) -> Effect {
    let mut load = trial.load.clone();
    if let Arrival::Poisson { seed, .. } = &mut load.arrival {
        *seed = 0;
    }
    let mut targets = trial.targets.clone();
    let is_level = |name: &String| trial.levels.contains_key(name);
    for target in &mut targets {
        target.values.retain(|name, _| !is_level(name));
    }
    Effect {
        load,
        rate_of_capacity: trial.rate_of_capacity,
        targets,
    }
}

/// Does a template of the target use this name?
fn names(target: &TargetSpec, levels: &Levels, name: &str) -> bool {
    let values = target.values.iter();
    let added = values.filter(|(value, _)| !levels.contains_key(*value));
    let own: Vec<&String> = match &target.kind {
        TargetKind::Origin { delay, freeze, .. } => delay.iter().chain(freeze).collect(),
        TargetKind::Command { argv } => argv.iter().collect(),
        TargetKind::Adapter { template, .. } => vec![template],
    };
    own.into_iter()
        .chain(&target.wrap)
        .chain(target.env.values())
        .chain(added.map(|(_, text)| text))
        .any(|text| template::names(&target.name, text).is_ok_and(|used| used.contains(name)))
}

fn warning(factor: &Factor) -> Warning {
    let hint = near_miss(&factor.name, FIELDS)
        .map(|field| format!("; did you mean `{field}`?"))
        .unwrap_or_default();
    Warning::new(
        "factor_without_effect",
        format!(
            "factor `{}` changes nothing: its {} levels run the same load against the same servers{hint}",
            factor.name,
            factor.levels.len()
        ),
        "name a field of [load], or use {{the factor}} in a template, a command or the URL",
    )
}
