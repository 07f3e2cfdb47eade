//! From a record to facts: one extractor a source, each a pure function that produces every one of its names.
//!
//! ```text
//! outcome, spec, single_client, answer -> client      series -> cpu, host, socket, resources
//! signature -> calls, files, blocked, upstream, service      profiles -> profile      directives -> config
//! ```
//! An extractor never leaves a name out: what it cannot know it stores as unknown, with the reason from the
//! record where there is one. The tests hold the produced names against the declared ones.

mod blocked;
mod calls;
mod client;
mod config;
mod cpu;
mod files;
mod host;
mod processor;
mod profile;
mod questions;
mod resources;
mod service;
mod socket;
mod tasks;
mod traffic;
mod turns;
mod upstream;

use super::fact::{FactSet, Reading};
use crate::Verdict;
use crate::observed::{Case, GENERATOR, Observed, Sight, Window};
use crate::verdict::{judge, judge_watched};
use record::{
    EnvironmentItem, Examination, LoadOutcome, Series, Server, TargetSignature, TargetTurns,
    TrialRecord, Unavailable, Watching,
};

pub(crate) use config::number_of;

/// Everything that the extractors read.
pub(crate) struct Material<'a> {
    pub trial: &'a TrialRecord,
    pub environment: &'a [EnvironmentItem],
    pub error_limit: f64,
    pub observed: Option<Observed>,
    /// On its load, or on the traffic that was watched.
    pub verdict: Option<Verdict>,
}

/// Facts of a trial.
pub(crate) fn extract(material: &Material<'_>) -> FactSet {
    let mut set = FactSet::default();
    set.targets = material.targets();
    let servers = material.examination().map(|e| e.servers.as_slice());
    for server in servers.unwrap_or_default() {
        set.servers.insert(server.target.clone(), server.clone());
    }
    client::extract(material, &mut Sheet::new(&mut set, ""));
    host::extract(material, &mut Sheet::new(&mut set, ""));
    let seen_here = Reading::NotApplicable("this was measured, and not pasted".to_owned());
    Sheet::new(&mut set, "").family("pasted.*", seen_here, "");
    for (index, target) in set.targets.clone().iter().enumerate() {
        let sheet = &mut Sheet::new(&mut set, target);
        cpu::extract(material, sheet);
        processor::extract(material, sheet);
        calls::extract(material, sheet);
        files::extract(material, sheet);
        blocked::extract(material, sheet);
        socket::extract(material, sheet);
        resources::extract(material, sheet);
        turns::extract(material, sheet);
        profile::extract(material, sheet);
        tasks::extract(material, sheet, target);
        config::extract(material, sheet, index == 0);
    }
    // Looks at the facts of the peers' targets, so it comes last.
    for target in set.targets.clone() {
        upstream::extract(material, &mut Sheet::new(&mut set, &target));
        questions::extract(material, &mut Sheet::new(&mut set, &target));
        service::extract(material, &mut Sheet::new(&mut set, &target));
    }
    traffic::extract(material, &mut Sheet::new(&mut set, ""));
    set
}

impl<'a> Material<'a> {
    pub(crate) fn new(
        trial: &'a TrialRecord,
        environment: &'a [EnvironmentItem],
        error_limit: f64,
        verdict: Option<Verdict>,
    ) -> Self {
        let mut material = Self {
            trial,
            environment,
            error_limit,
            observed: None,
            verdict,
        };
        if let Some(case) = material.case() {
            let observed = Observed::of(&case).with_profile(trial.examination.as_ref());
            let verdict = material.verdict.take();
            material.verdict = Some(verdict.unwrap_or_else(|| judge(&case, &observed)));
            material.observed = Some(observed);
        } else if let Some(sight) = material.sight() {
            let observed = Observed::seen(&sight).with_profile(trial.examination.as_ref());
            material.verdict = Some(judge_watched(&sight, &observed));
            material.observed = Some(observed);
        }
        material
    }

    pub(crate) fn outcome(&self) -> Option<&'a LoadOutcome> {
        self.trial.outcome.as_ref()
    }

    pub(crate) fn case(&self) -> Option<Case<'a>> {
        Some(Case {
            outcome: self.outcome()?,
            series: &self.trial.series,
            spec: &self.trial.load,
            targets: &self.trial.targets,
            error_limit: self.error_limit,
        })
    }

    /// The traffic that was watched, where no load was made.
    pub(crate) fn watching(&self) -> Option<&'a Watching> {
        match self.outcome() {
            Some(_) => None,
            None => self.examination()?.watching.as_ref(),
        }
    }

    /// The server's side of the load, or of the traffic that was watched.
    pub(crate) fn sight(&self) -> Option<Sight<'a>> {
        if let Some(case) = self.case() {
            return Some(case.sight());
        }
        Some(Sight {
            window: self.window()?,
            series: &self.trial.series,
            spec: &self.trial.load,
            targets: &self.trial.targets,
            threads: &[],
            loaded: false,
        })
    }

    /// The measured part of the load, or the window of observation.
    pub(crate) fn window(&self) -> Option<Window> {
        let loaded = self.outcome().map(Window::of);
        loaded.or_else(|| Some(Window::spanning(self.watching()?.window)))
    }

    /// Length of that window, s.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.window().map(|w| w.seconds())
    }

    /// The server behind the URL.
    pub(crate) fn front(&self) -> Option<String> {
        self.targets().into_iter().next()
    }

    pub(crate) fn turns(&self, target: &str) -> Option<&'a TargetTurns> {
        let turns = self.examination()?.turns.as_ref()?;
        turns.targets.iter().find(|t| t.target == target)
    }

    /// Mean of a series over the window.
    pub(crate) fn mean_of(&self, series: &Series) -> Option<f64> {
        let window = self.window()?;
        let samples = series.at_ns.iter().zip(&series.values);
        let inside: Vec<f64> = samples
            .filter(|(at, _)| window.holds(**at))
            .map(|(_, value)| *value)
            .collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    }

    pub(crate) fn examination(&self) -> Option<&'a Examination> {
        self.trial.examination.as_ref()
    }

    /// The load of a single client, when anything came of it.
    pub(crate) fn single_client(&self) -> Option<&'a LoadOutcome> {
        let single_client = self.examination()?.single_client.as_ref()?;
        (single_client.requests.succeeded > 0).then_some(single_client)
    }

    /// Mean response time without queueing, ns: a single client's.
    pub(crate) fn single_client_mean_ns(&self) -> Option<f64> {
        self.single_client()?.response.mean_ns()
    }

    pub(crate) fn server(&self, target: &str) -> Option<&'a Server> {
        let mut servers = self.examination()?.servers.iter();
        servers.find(|s| s.target == target)
    }

    /// The target at an address, whichever server asks there.
    pub(crate) fn target_at(&self, address: &str) -> Option<&'a str> {
        self.examination()?.target_at(address)
    }

    pub(crate) fn signature(&self, target: &str) -> Option<&'a TargetSignature> {
        self.signatures().find(|t| t.target == target)
    }

    /// Those of all targets.
    pub(crate) fn signatures(&self) -> impl Iterator<Item = &'a TargetSignature> {
        let signature = self.examination().and_then(|e| e.signature.as_ref());
        signature.into_iter().flat_map(|s| &s.targets)
    }

    /// Requests of the signature pass, whatever their fate. Of requests that make many calls the budget lets a watched
    /// server's end only few while these are counted: what was counted is then a part of each that was open.
    pub(crate) fn signature_requests(&self) -> Option<f64> {
        let signature = self.examination()?.signature.as_ref()?;
        let requests = (signature.requests + signature.failed) as f64;
        let by_turns = || Some(self.turns_per_s()? * signature.window_ns as f64 / 1e9);
        let few = self.watching().is_some() && requests < turns::FEWEST as f64;
        let requests = few.then(by_turns).flatten().unwrap_or(requests);
        (requests > 0.0).then_some(requests)
    }

    /// Requests a second at the front server, by those that ended while turns were traced; `None` for too few.
    pub(crate) fn turns_per_s(&self) -> Option<f64> {
        let traced = self.examination()?.turns.as_ref()?;
        let ended = self.turns(&self.front()?)?.account.turns;
        let enough = ended >= turns::FEWEST && traced.window_ns > 0;
        let all = ended as f64 * f64::from(traced.sampled_one_in.max(1));
        enough.then(|| all * 1e9 / traced.window_ns as f64)
    }

    /// Answered requests of the timing pass, or of the window in which traffic was watched.
    pub(crate) fn completed(&self) -> Option<f64> {
        match self.outcome() {
            Some(outcome) => {
                let completed = outcome.requests.completed;
                (completed > 0).then_some(completed as f64)
            }
            None => traffic::requests(self).map(|(requests, _)| requests),
        }
    }

    /// The one behind the URL first, then in the order of the record.
    fn targets(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let sight = self.sight();
        let addressed = sight.as_ref().and_then(crate::limit::addressed);
        let front = addressed.map(|t| t.name.clone());
        let servers = self.examination().map(|e| e.servers.as_slice());
        let servers = servers.unwrap_or_default().iter();
        let known = self.trial.targets.iter().map(|t| t.name.clone());
        let all = front.into_iter().chain(servers.map(|s| s.target.clone()));
        for name in all.chain(known) {
            if name != GENERATOR && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Why something is missing: the record's own words where it has some about `what`, else `usual`.
    pub(crate) fn reason(&self, what: &[&str], usual: &str) -> String {
        let examination = self.examination();
        let signature = examination.and_then(|e| e.signature.as_ref());
        let signature = signature.map(|s| s.unavailable.as_slice());
        let recorded = self.trial.unavailable.iter();
        let found = recorded
            .chain(signature.unwrap_or_default())
            .find(|u| what.iter().any(|word| u.what.contains(word)));
        found.map_or_else(|| usual.to_owned(), words)
    }

    /// Series of a signal, of one target when it is not empty.
    pub(crate) fn series(
        &self,
        signal: &'a str,
        target: &'a str,
    ) -> impl Iterator<Item = &'a Series> + use<'a> {
        let all = crate::observed::named(&self.trial.series, signal);
        all.filter(move |s| target.is_empty() || s.label("target") == Some(target))
    }

    /// Growth over the measured part, summed over the series; `None` when none was sampled twice.
    pub(crate) fn grown(&self, signal: &'a str, target: &'a str) -> Option<f64> {
        let window = self.window()?;
        let grown = self
            .series(signal, target)
            .filter_map(|s| s.delta(window.from, window.to));
        grown.fold(None, |sum, g| Some(sum.unwrap_or(0.0) + g.max(0.0)))
    }

    /// Growth per second of the measured part.
    pub(crate) fn per_s(&self, signal: &'a str, target: &'a str) -> Option<f64> {
        let seconds = self.seconds()?;
        (seconds > 0.0).then(|| self.grown(signal, target).map(|g| g / seconds))?
    }

    /// Largest sum of a gauge over the series, at the times of the longest of them.
    pub(crate) fn peak(&self, signal: &'a str, target: &'a str) -> Option<f64> {
        self.levels(signal, target).into_iter().reduce(f64::max)
    }

    /// Mean of that sum.
    pub(crate) fn mean(&self, signal: &'a str, target: &'a str) -> Option<f64> {
        let levels = self.levels(signal, target);
        (!levels.is_empty()).then(|| levels.iter().sum::<f64>() / levels.len() as f64)
    }

    /// The sum at each sample within the measured part; the last sample when none falls into it.
    pub(crate) fn levels(&self, signal: &'a str, target: &'a str) -> Vec<f64> {
        let all: Vec<&Series> = self.series(signal, target).collect();
        let Some(longest) = all.iter().max_by_key(|s| s.values.len()) else {
            return Vec::new();
        };
        let window = self.window();
        let inside = |at: &&u64| window.is_none_or(|w| w.holds(**at));
        let mut times: Vec<u64> = longest.at_ns.iter().filter(inside).copied().collect();
        if times.is_empty() {
            times.extend(longest.at_ns.last());
        }
        let sum = |at: u64| {
            all.iter()
                .filter_map(move |s| s.value_at(record::Nanos(at)))
        };
        times.into_iter().map(|at| sum(at).sum()).collect()
    }

    /// A value of the environment.
    pub(crate) fn environment(&self, name: &str) -> Option<&'a str> {
        let item = self.environment.iter().find(|i| i.name == name)?;
        item.value.as_deref()
    }
}

fn words(unavailable: &Unavailable) -> String {
    if unavailable.remedy.is_empty() {
        unavailable.reason.clone()
    } else {
        format!("{} (remedy: {})", unavailable.reason, unavailable.remedy)
    }
}

/// The facts of one target while they are written.
pub(crate) struct Sheet<'a> {
    pub set: &'a mut FactSet,
    pub target: String,
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(set: &'a mut FactSet, target: &str) -> Self {
        Self {
            set,
            target: target.to_owned(),
        }
    }

    /// A number.
    pub(crate) fn known(&mut self, name: &str, value: f64, source: &str) {
        self.set.known(&self.target, name, value, source);
    }

    /// A number, or the reason why there is none.
    pub(crate) fn maybe(&mut self, name: &str, value: Option<f64>, source: &str, reason: &str) {
        match value {
            Some(value) => self.known(name, value, source),
            None => self.unknown(name, reason),
        }
    }

    /// `part / whole`; no part or no whole is unknown, a whole of 0 has no meaning.
    pub(crate) fn divided(
        &mut self,
        name: &str,
        part: Option<f64>,
        whole: Option<f64>,
        source: &str,
        reason: &str,
    ) {
        match (part, whole) {
            (Some(_), Some(0.0)) => self.not_applicable(name, "there was nothing of it"),
            (Some(part), Some(whole)) => self.known(name, part / whole, source),
            _ => self.unknown(name, reason),
        }
    }

    pub(crate) fn unknown(&mut self, name: &str, reason: &str) {
        self.set.unknown(&self.target, name, reason);
    }

    pub(crate) fn not_applicable(&mut self, name: &str, reason: &str) {
        self.set.not_applicable(&self.target, name, reason);
    }

    pub(crate) fn family(&mut self, pattern: &str, reading: Reading, source: &str) {
        self.set.family(&self.target, pattern, reading, source);
    }

    /// A fact that was already written for this target.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.set.view(&self.target).value(name)
    }
}

/// 1 for true.
pub(crate) fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}
