//! The method as this run used it: repeats, lengths, warm-up, order, noise, and the command to repeat it.

use super::context::shell_words;
use super::paths;
use crate::number::{Number, Source, Unit};
use analysis::{Plan, RunAnalysis, TrialAnalysis};
use record::RunRecord;
use serde::Serialize;

/// Design and noise of a run.
#[derive(Debug, Serialize)]
pub struct DesignView {
    stages: Vec<StageDesign>,
    noise: Vec<Noise>,
    unsteady: usize,
    tested: usize,
}

/// A stage as it was laid out; lengths are those of its first trial.
#[derive(Debug, Serialize)]
struct StageDesign {
    name: String,
    index: usize,
    cells: usize,
    repeats: Option<Number>,
    measure: Option<Number>,
    warmup: Option<Number>,
    arrival: &'static str,
    baseline: String,
}

/// The worst of a kind of noise over all valid trials.
#[derive(Debug, Serialize)]
struct Noise {
    name: &'static str,
    note: &'static str,
    number: Number,
    trial: u32,
}

/// What the record tells about how the run was made.
pub fn design(
    record: &RunRecord,
    analysis: &RunAnalysis,
    plan: Option<&Plan>,
    source: &Source,
) -> DesignView {
    let tested = || {
        let steady = analysis.trials.iter().filter(|t| t.verdict.valid);
        steady.filter_map(|t| t.steady.as_ref())
    };
    DesignView {
        stages: plan.map_or_else(Vec::new, |p| stages(record, analysis, p)),
        noise: noise(analysis, source),
        unsteady: tested().filter(|s| !s.steady).count(),
        tested: tested().count(),
    }
}

fn stages(record: &RunRecord, analysis: &RunAnalysis, plan: &Plan) -> Vec<StageDesign> {
    let stored = Source::new("plan.json", &record.plan);
    let stage = |(index, stage): (usize, &analysis::Stage)| {
        let first = record.trials.iter().find(|t| t.stage == stage.name);
        let load = first.map(|t| Source::at(paths::trial(t.id), "/load", &t.load));
        let length = |field: &str| load.as_ref().and_then(|l| l.number(field, Unit::Nanos));
        let open_loop = first.is_some_and(|t| t.load.arrival.offered_per_s().is_some());
        StageDesign {
            name: stage.name.clone(),
            index,
            cells: analysis
                .cells
                .iter()
                .filter(|c| c.stage == stage.name)
                .count(),
            repeats: stored.number(&format!("/stages/{index}/repeats"), Unit::Count),
            measure: length("/duration"),
            warmup: length("/warmup"),
            arrival: if open_loop {
                "open loop"
            } else {
                "closed loop"
            },
            baseline: super::levels_text(&stage.baseline),
        }
    };
    let stages = plan.stages.iter().enumerate();
    stages
        .filter(|(_, s)| s.search.is_none())
        .map(stage)
        .collect()
}

/// The largest of each kind, with the trial that shows it; kinds that nothing was recorded of are left out.
fn noise(analysis: &RunAnalysis, source: &Source) -> Vec<Noise> {
    let worst = |name, note, value: &dyn Fn(&TrialAnalysis) -> Option<(f64, String)>| {
        let trials = analysis.trials.iter().enumerate();
        let (_, place, trial) = trials
            .filter(|(_, t)| t.verdict.valid)
            .filter_map(|(i, t)| {
                let (size, field) = value(t)?;
                Some((size, format!("/trials/{i}/{field}"), t.id))
            })
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        let number = source.number(&place, Unit::Share)?;
        Some(Noise {
            name,
            note,
            number,
            trial,
        })
    };
    let steal = |t: &TrialAnalysis| {
        let cores = t.usage.iter().enumerate();
        let stolen = cores.filter_map(|(n, u)| {
            let share = u.by_mode.get("steal")?;
            Some((*share, format!("usage/{n}/by_mode/steal")))
        });
        stolen.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let steady = |t: &TrialAnalysis, field: &str| {
        let s = t.steady.as_ref()?;
        let size = if field == "drift" {
            s.drift.abs()
        } else {
            s.variation
        };
        Some((size, format!("steady/{field}")))
    };
    [
        worst("Steal", "of a core, taken by the hypervisor", &steal),
        worst("Drift", "of the rate, first half to second", &|t| {
            steady(t, "drift")
        }),
        worst("Variation", "of the rate between slices", &|t| {
            steady(t, "variation")
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The command that repeats the run: as typed, but into another directory, because a record is never overwritten, and
/// not as the continuation that it may have been.
pub fn again(command: &[String]) -> String {
    let mut words = command.to_vec();
    words.retain(|w| w != "--continue");
    for i in 0..words.len() {
        if words[i] == "--out" && i + 1 < words.len() {
            words[i + 1].push_str("-again");
        } else if words[i].starts_with("--out=") {
            words[i].push_str("-again");
        }
    }
    shell_words(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_repeat_goes_elsewhere() {
        for (typed, want) in [
            ("prony run", "prony run"),
            (
                "prony run a.toml --out r/a",
                "prony run a.toml --out r/a-again",
            ),
            ("prony run --out=r --continue", "prony run --out=r-again"),
            ("prony run --out", "prony run --out"),
        ] {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            assert_eq!(again(&words), want);
        }
    }
}
