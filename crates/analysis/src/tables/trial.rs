//! A trial with what is said of it, and the parts of its record that several tables read.

use crate::observed::{Case, Window, named};
use crate::{TrialAnalysis, limit};
use plan::Plan;
use record::{
    LoadOutcome, RunRecord, Series, Signature, TargetRecord, TargetSignature, TrialRecord,
};
use std::collections::BTreeMap;

/// Label of prony's own process.
const GENERATOR: &str = crate::observed::GENERATOR;

pub(super) struct Trial<'a> {
    pub record: &'a TrialRecord,
    pub analysis: &'a TrialAnalysis,
    error_limit: f64,
}

/// The trials of a run, each with its analysis.
pub(super) fn trials<'a>(
    record: &'a RunRecord,
    plan: &Plan,
    analysed: &'a [TrialAnalysis],
) -> Vec<Trial<'a>> {
    let with_record = |analysis: &'a TrialAnalysis| {
        let record = record.trials.iter().find(|t| t.id == analysis.id)?;
        Some(Trial {
            record,
            analysis,
            error_limit: plan.error_limit,
        })
    };
    analysed.iter().filter_map(with_record).collect()
}

impl<'a> Trial<'a> {
    pub fn outcome(&self) -> Option<&'a LoadOutcome> {
        self.record.outcome.as_ref()
    }

    /// Answered requests of the measured part.
    pub fn completed(&self) -> Option<f64> {
        let completed = self.outcome()?.requests.completed;
        (completed > 0).then_some(completed as f64)
    }

    /// Length of the measured part, s.
    pub fn seconds(&self) -> Option<f64> {
        let seconds = self.outcome()?.measured().as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    pub fn window(&self) -> Option<Window> {
        self.outcome().map(Window::of)
    }

    /// The target behind the URL, or the named one.
    pub fn target(&self, name: Option<&str>) -> Option<&'a TargetRecord> {
        let targets = &self.record.targets;
        match name {
            Some(name) => targets.iter().find(|t| t.name == name),
            None => {
                let case = Case {
                    outcome: self.outcome()?,
                    series: &self.record.series,
                    spec: &self.record.load,
                    targets,
                    error_limit: self.error_limit,
                };
                limit::addressed(&case.sight())
            }
        }
    }

    /// Shares of the modes of the cores that the loaded target may use, summed, and their number; `None` of a target on
    /// another machine, whose cores were not watched.
    pub fn server_cores(&self) -> Option<(BTreeMap<String, f64>, f64)> {
        let loaded = self.target(None);
        if loaded.is_some_and(|t| t.elsewhere().is_some()) {
            return None;
        }
        let pinned = loaded.map(|t| t.cpus.clone()).unwrap_or_default();
        let mut sum: BTreeMap<String, f64> = BTreeMap::new();
        let mut cores = 0.0;
        for (core, modes) in self.cores() {
            if pinned.is_empty() || pinned.contains(&core) {
                cores += 1.0;
                for (mode, share) in modes {
                    *sum.entry(mode.clone()).or_default() += share;
                }
            }
        }
        (cores > 0.0).then_some((sum, cores))
    }

    /// The modes of each core.
    pub fn cores(&self) -> impl Iterator<Item = (u32, &'a BTreeMap<String, f64>)> {
        let host = self.analysis.usage.iter().filter(|u| u.owner == "host");
        host.filter_map(|u| {
            let core = u.name.strip_prefix("core ")?.parse().ok()?;
            Some((core, &u.by_mode))
        })
    }

    /// The signature, when it counted something.
    pub fn signature(&self) -> Option<&'a Signature> {
        let signature = self.record.examination.as_ref()?.signature.as_ref()?;
        (signature.requests > 0).then_some(signature)
    }

    /// What the loaded (or the named) target did in it.
    pub fn target_signature(&self, name: Option<&str>) -> Option<(&'a TargetSignature, f64)> {
        let signature = self.signature()?;
        let name = name.or_else(|| self.target(None).map(|t| t.name.as_str()));
        let mut targets = signature.targets.iter();
        let found = match name {
            Some(name) => targets.find(|t| t.target == name),
            None => targets.next(),
        };
        Some((found?, signature.requests as f64))
    }

    /// The series of a signal but for prony's own.
    pub fn series(&self, signal: &'static str) -> impl Iterator<Item = &'a Series> {
        named(&self.record.series, signal).filter(|s| s.label("target") != Some(GENERATOR))
    }

    /// Growth of all series of a counter over the measured part.
    pub fn grown(&self, signal: &'static str) -> Option<f64> {
        let window = self.window()?;
        let grown = self
            .series(signal)
            .filter_map(|s| s.delta(window.from, window.to));
        grown.fold(None, |sum, g| Some(sum.unwrap_or(0.0) + g.max(0.0)))
    }

    /// The sum of the largest values that the series of a gauge had in the measured part. What is sampled seldom
    /// may have no sample within a short one, and is then read off between its neighbours.
    pub fn largest(&self, signal: &'static str, keep: impl Fn(&Series) -> bool) -> Option<f64> {
        let window = self.window()?;
        let most = |s: &Series| s.max(window.from, window.to).or(s.value_at(window.to));
        let values = self.series(signal).filter(|s| keep(s)).filter_map(most);
        values.fold(None, |sum, v| Some(sum.unwrap_or(0.0) + v))
    }

    /// How much the largest values of a gauge in the measured part lie above the first sample, which is taken
    /// before the load.
    pub fn above_start(&self, signal: &'static str) -> Option<f64> {
        let first = self.series(signal).filter_map(|s| s.values.first());
        let start = first.fold(None, |sum, v| Some(sum.unwrap_or(0.0) + v))?;
        Some((self.largest(signal, |_| true)? - start).max(0.0))
    }
}
