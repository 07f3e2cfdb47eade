//! A proof: the server as it is, its twin and the changed one, loaded in turn on copies.
//!
//! The copies have the server's binary, user, CPUs and configuration, a directory and a port of their own. The
//! running server and its files are only read. All copies stay up for the whole proof, so that a block is
//! three short loads in a row; the order turns from block to block.
//!
//! ```text
//! three copies -> fill their caches -> examine unchanged (is it like the server?) -> examine changed -> warm the twin
//!              -> blocks -> verdict -> with --put-back: a fresh copy with the fault, in turn with the changed one
//! ```
//! The surprise: the copies are examined before the blocks, so that all three are warm when the first begins, and so
//! that a proof which a person stops already knows the mechanism.

use super::drive::Instrumentation;
use super::examine::{Examiner, with_config};
use super::runtimes::{Consent, Runtimes};
use super::source::Source;
use crate::exit::Failure;
use crate::terminal::Progress;
use analysis::{
    Arm, BLOCKS, Blocks, Change, Diagnosis, Expected, FactSet, JudgedBy, Mechanism, Prediction,
    Proof,
};
use monitor::Watched;
use record::{
    Clock, EnvironmentItem, LoadSpec, Nanos, PROOF_STAGE, Server, Tier, TrialRecord, TrialState,
    Warning,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use sut::config::{ChangeAction, ConfigChange};
use sut::{Launcher, RunningTarget, TargetError};
use traffic::MonotonicClock;
use url::Url;

/// The fault put back has to undo an effect that is known by then.
const PUT_BACK_BLOCKS: usize = analysis::FEWEST_BLOCKS;
const SLOT: Nanos = Nanos::from_secs(1);
const SLOT_WARMUP: Nanos = Nanos::from_millis(200);
/// A copy is examined for less long than the server was: its signature matters, not its rate.
const EXAMINED: Nanos = Nanos::from_secs(2);
/// All passes of an examination together, as they usually take.
const EXAMINATION: Nanos = Nanos::from_secs(7);
/// The twin is not examined, so it is warmed by a load of the same length; a cache is filled for as long.
const WARM: Nanos = Nanos::from_secs(3);
/// Starting three copies, as it usually takes.
const STARTING: Nanos = Nanos::from_secs(2);
/// A proof that takes this many times as long as expected is ended with what it has.
const PATIENCE: u64 = 2;

/// Levels of the factor `arm` in a proof's trials.
pub const ARMS: [&str; 3] = ["unchanged", "twin", "changed"];
/// The arm of the counter-test.
pub const PUT_BACK: &str = "put_back";

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// A copy could not be made or started.
    #[error(transparent)]
    Copy(#[from] TargetError),
    /// A load could not start.
    #[error("{}", .0.message)]
    Load(Failure),
    /// A copy ended while it was loaded.
    #[error("a copy ended under the load: {0}")]
    Died(String),
    /// A copy does not serve the URL as the server does.
    #[error("the unchanged copy does not behave like the server: {0}")]
    NotAlike(String),
    /// The change puts work on cores that the changed copy does not have.
    #[error("{0}")]
    NoCores(String),
    /// A person stopped it.
    #[error("stopped")]
    Interrupted,
}

impl From<Failure> for ProofError {
    fn from(failure: Failure) -> Self {
        Self::Load(failure)
    }
}

/// Makes proofs about one server.
pub struct Prover<'a> {
    /// The server as found.
    pub server: &'a Server,
    /// What it was diagnosed from: a copy must do the same.
    pub original: &'a TrialRecord,
    /// The load that it was diagnosed under.
    pub spec: &'a LoadSpec,
    /// Where the load is sent from.
    pub source: &'a mut Source,
    /// A change that was proved is undone in a fresh copy, and the effect must return.
    pub put_back: bool,
    /// Starts the copies.
    pub launcher: &'a Launcher,
    /// Best kind of probes.
    pub best_tier: Tier,
    /// Largest share of failed requests.
    pub error_limit: f64,
    /// Facts about the host.
    pub environment: &'a [EnvironmentItem],
    /// Asked often.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Where progress goes.
    pub progress: &'a mut Progress,
}

/// A copy that runs.
struct Copy {
    running: RunningTarget,
    spec: LoadSpec,
}

impl Prover<'_> {
    /// The metric that a change for `cause` is going to be judged by.
    pub fn judged_by(&self, cause: &str, station: &str) -> JudgedBy {
        analysis::judged_by(cause, station, &self.facts(self.original))
    }

    /// Measures `changes` on top of those in `base`; `judged_by` is the metric that decides, named before.
    ///
    /// # Errors
    /// [`ProofError`]; nothing is left running.
    pub fn prove(
        &mut self,
        base: &[Change],
        (cause, judged_by): (&str, JudgedBy),
        changes: &[Change],
    ) -> Result<Proved, ProofError> {
        let time = Time::begin(expected(self.put_back));
        self.progress.restart();
        let with_change: Vec<Change> = base.iter().chain(changes).cloned().collect();
        self.step(&time, cause, "starting three copies");
        let mut arms = [
            self.copy(ARMS[0], base)?,
            self.copy(ARMS[1], base)?,
            self.copy(ARMS[2], &with_change)?,
        ];
        let predicted = analysis::prediction(cause);
        if predicted.as_ref().is_some_and(|p| p.cores) {
            self.has_cores(&arms[0], &arms[2])?;
        }
        if self.keeps_responses() {
            self.step(&time, cause, "filling the caches of the copies");
            for arm in &mut arms {
                self.load(arm, WARM)?;
            }
        }
        self.step(&time, cause, "examining the unchanged copy");
        let before = self.examined_whole(&arms[0])?;
        if base.is_empty() {
            analysis::alike(self.original, &before, self.error_limit)
                .map_err(ProofError::NotAlike)?;
        }
        self.step(&time, cause, "examining the changed copy");
        let after = self.examined_whole(&arms[2])?;
        self.step(&time, cause, "warming the twin");
        self.warm(&mut arms[1])?;
        let mut measured = self.turns(&mut arms, BLOCKS, &time, cause)?;
        let judge = Judge {
            judged_by,
            predicted,
            before: self.facts(&before),
            after: self.facts(&after),
        };
        let mut proof = judge.prove(&measured.figures(), changes, self.error_limit);
        proof.calls = calls_that_differ(&before, &after);
        if let Some(reason) = measured.ended {
            analysis::cut_short(&mut proof, measured.blocks(), BLOCKS, reason);
        }
        if let Some(unlike) = arms.iter().find_map(|arm| unlike(&arm.running)) {
            proof.why.push_str(&format!("; {}", unlike.seen));
        }
        measured.keep_examination(0, before);
        measured.keep_examination(2, after);
        let mut trials = measured.into_trials(&ARMS);
        if self.put_back && proof.result == "proved" && !(self.interrupted)() {
            let [_, _, changed] = arms;
            match self.counter_test(base, changed, &judge, &mut proof, (&time, cause)) {
                Ok(more) => trials.extend(more),
                // What was proved before stays proved.
                Err(cause) => {
                    let words = format!("; the fault was not put back: {cause}");
                    proof.why.push_str(&words);
                }
            }
        }
        self.progress.prefix("");
        self.progress.clear();
        Ok(Proved { proof, trials })
    }

    /// The fault put back in a fresh copy, in turn with the changed one.
    fn counter_test(
        &mut self,
        base: &[Change],
        changed: Copy,
        judge: &Judge,
        proof: &mut Proof,
        (time, cause): (&Time, &str),
    ) -> Result<Vec<TrialRecord>, ProofError> {
        self.step(time, cause, "putting the fault back in a fresh copy");
        let mut fresh = self.copy(PUT_BACK, base)?;
        self.fill(&mut fresh)?;
        let back = self.examined_whole(&fresh)?;
        let mut arms = [changed, fresh];
        let mut measured = self.turns(&mut arms, PUT_BACK_BLOCKS, time, cause)?;
        if let Some(reason) = measured.ended {
            let words = format!("; {reason} while the fault was put back");
            proof.why.push_str(&words);
        } else {
            let mechanism = judge.returned(&self.facts(&back));
            let (changed, back) = (measured.arm(0), measured.arm(1));
            analysis::put_back(proof, &changed, &back, mechanism.as_ref());
        }
        measured.keep_examination(1, back);
        let trials = measured.into_trials(&[ARMS[2], PUT_BACK]);
        // The changed one's are in the record already, from the blocks of the proof.
        let of_fresh = |t: &TrialRecord| t.levels.get("arm").is_some_and(|arm| arm == PUT_BACK);
        Ok(trials.into_iter().filter(of_fresh).collect())
    }

    /// What is being done, and how long it will still take.
    fn step(&mut self, time: &Time, cause: &str, what: &str) {
        let words = format!("proof of {cause}, {}: {what}", time.left());
        self.progress.show(time.elapsed(), &words);
        self.progress.prefix(&format!("{words}: "));
    }

    /// The diagnosis of a copy with `changes`.
    ///
    /// # Errors
    /// [`ProofError`]; nothing is left running.
    pub fn diagnose(&mut self, changes: &[Change]) -> Result<Diagnosis, ProofError> {
        let mut copy = self.copy("changed", changes)?;
        self.fill(&mut copy)?;
        let trial = self.examined(&copy)?;
        Ok(analysis::diagnose(
            &trial,
            self.environment,
            self.error_limit,
        ))
    }

    /// Starts a copy with `changes`.
    fn copy(&mut self, name: &str, changes: &[Change]) -> Result<Copy, ProofError> {
        if self.spec.proxy.is_some() {
            let why = "a copy is loaded directly, and the load goes through a proxy";
            return Err(ProofError::NotAlike(why.to_owned()));
        }
        let place = self.source.prepare(self.spec)?.place();
        let serves = place.and_then(|place| place.address()).ok_or_else(|| {
            ProofError::NotAlike(
                "a copy listens on TCP, and the load goes over a Unix socket".to_owned(),
            )
        })?;
        let running = self.launcher.start_copy(
            name,
            self.server,
            &as_config(changes),
            serves,
            // Other hosts reach it where they reach the server.
            match self.spec.hosts.is_empty() {
                true => IpAddr::V4(Ipv4Addr::LOCALHOST),
                false => serves.ip(),
            },
            self.interrupted,
        )?;
        let spec = redirected(self.spec, running.address());
        Ok(Copy { running, spec })
    }

    /// `blocks` times every arm in turn, until a person or the clock has enough: then the whole blocks that there are.
    fn turns<const N: usize>(
        &mut self,
        arms: &mut [Copy; N],
        blocks: usize,
        time: &Time,
        cause: &str,
    ) -> Result<Measured<N>, ProofError> {
        let mut measured = Measured::default();
        for block in 0..blocks {
            self.progress.prefix("");
            self.step(time, cause, &format!("block {} of {blocks}", block + 1));
            let mut slots: [Option<(Arm, TrialRecord)>; N] = [const { None }; N];
            for turn in 0..N {
                let at = analysis::turn(block, turn, N);
                slots[at] = Some(self.slot(&mut arms[at], block)?);
                if (self.interrupted)() {
                    measured.ended = Some("interrupted");
                    return Ok(measured);
                }
            }
            for (arm, slot) in measured.arms.iter_mut().zip(slots) {
                arm.extend(slot);
            }
            if time.is_over() && block + 1 < blocks {
                measured.ended = Some("stopped at its time limit");
                return Ok(measured);
            }
        }
        Ok(measured)
    }

    /// One short load of one copy.
    fn slot(&mut self, copy: &mut Copy, block: usize) -> Result<(Arm, TrialRecord), ProofError> {
        let mut trial = self.load(copy, SLOT)?;
        trial.block = u32::try_from(block).unwrap_or(u32::MAX);
        if block == 0 {
            trial.warnings.extend(unlike(&copy.running));
        }
        let (figures, _) = analysis::analyse_trial(&trial, self.error_limit);
        let arm = Arm {
            rate_per_s: figures.achieved_per_s,
            cpu_us_per_request: figures.target_cpu_us_per_request,
            p50_ns: figures.response_ns.map(|r| r.p50 as f64),
            p99_ns: figures.response_ns.map(|r| r.p99 as f64),
            error_share: figures.error_share.unwrap_or(0.0),
        };
        Ok((arm, trial))
    }

    /// A load of one copy, watched.
    fn load(&mut self, copy: &mut Copy, duration: Nanos) -> Result<TrialRecord, ProofError> {
        let spec = LoadSpec {
            warmup: SLOT_WARMUP,
            requests: None,
            duration: Some(duration),
            ..copy.spec.steady()
        };
        let around = Instrumentation::watching(vec![copy.watched()]);
        let driven =
            self.source
                .prepare(&spec)?
                .drive(&spec, &around, self.progress, &mut || {
                    (self.interrupted)() || copy.running.check_alive().is_err()
                })?;
        copy.running.check_alive().map_err(ProofError::Died)?;
        let mut trial = blank(&spec, copy.running.record());
        trial.series = driven.watched.series;
        trial.unavailable = driven.watched.unavailable;
        if driven.outcome.interrupted {
            trial.state = TrialState::Interrupted;
        }
        trial.outcome = Some(driven.outcome);
        trial.hosts = driven.hosts;
        Ok(trial)
    }

    /// As warm as an examination leaves the others.
    fn warm(&mut self, copy: &mut Copy) -> Result<(), ProofError> {
        self.load(copy, WARM)?;
        self.examiner(&copy.spec).warm(&mut vec![copy.server()])?;
        copy.running.check_alive().map_err(ProofError::Died)
    }

    /// Whether the changed copy has a core for work that the unchanged one puts on the cores that it fills.
    fn has_cores(&self, unchanged: &Copy, changed: &Copy) -> Result<(), ProofError> {
        let filled = self
            .facts(self.original)
            .view(SERVER)
            .value("cpu.cores_used");
        let (has, load) = (changed.cores(), &self.spec.cpus);
        match enough_cores(&has, load, filled.unwrap_or(1.0)) {
            true => Ok(()),
            false => Err(ProofError::NoCores(no_cores(
                &has,
                load,
                &unchanged.cores(),
            ))),
        }
    }

    /// Fills the cache of a copy, where the server keeps responses.
    fn fill(&mut self, copy: &mut Copy) -> Result<(), ProofError> {
        if self.keeps_responses() {
            self.load(copy, WARM)?;
        }
        Ok(())
    }

    /// Whether the server keeps responses: the cache of a copy is empty, and it does other work until it is filled.
    fn keeps_responses(&self) -> bool {
        let facts = self.facts(self.original);
        facts.view(SERVER).value("server.caches") == Some(1.0)
    }

    /// What a copy does for each request.
    fn facts(&self, examined: &TrialRecord) -> FactSet {
        analysis::facts_of(examined, self.environment, self.error_limit)
    }

    /// A copy, examined to the end.
    fn examined_whole(&mut self, copy: &Copy) -> Result<TrialRecord, ProofError> {
        let trial = self.examined(copy)?;
        match (self.interrupted)() {
            true => Err(ProofError::Interrupted),
            false => Ok(trial),
        }
    }

    /// A copy, examined as the server was.
    fn examined(&mut self, copy: &Copy) -> Result<TrialRecord, ProofError> {
        let mut servers = vec![with_config(copy.server())];
        let spec = LoadSpec {
            duration: Some(EXAMINED),
            ..copy.spec.steady()
        };
        Ok(self.examiner(&spec).examine(&mut servers)?)
    }

    fn examiner<'s>(&'s mut self, spec: &'s LoadSpec) -> Examiner<'s> {
        Examiner {
            spec,
            source: self.source,
            best_tier: self.best_tier,
            runtimes: Runtimes::new(Consent::NotAsked),
            interrupted: self.interrupted,
            progress: self.progress,
            busy: None,
        }
    }
}

/// Says it when a copy does not run under all the conditions of the server.
fn unlike(copy: &RunningTarget) -> Option<Warning> {
    let missing = copy.missing();
    (!missing.is_empty()).then(|| {
        Warning::new(
            "copy_unlike_server",
            format!(
                "the copies run without what the server has: {}",
                missing.join("; ")
            ),
            "run prony as root, or as the server's user in a shell with the server's limits",
        )
    })
}

/// A proof with the trials that it was made of; their ids are still to be given.
pub struct Proved {
    /// The verdict.
    pub proof: Proof,
    /// Loads in turn. Those of the first block carry the examination of their copy.
    pub trials: Vec<TrialRecord>,
}

/// How long a proof usually takes.
pub fn expected(put_back: bool) -> Nanos {
    let slot = SLOT + SLOT_WARMUP;
    let blocks = Nanos(slot.0 * (BLOCKS * ARMS.len()) as u64);
    let proof = STARTING + EXAMINATION + EXAMINATION + WARM + blocks;
    match put_back {
        true => proof + EXAMINATION + Nanos(slot.0 * (PUT_BACK_BLOCKS * 2) as u64),
        false => proof,
    }
}

/// How long a proof takes at most, the loads that are under way then excepted.
pub fn longest(put_back: bool) -> Nanos {
    Nanos(expected(put_back).0 * PATIENCE)
}

/// How far a proof is in its time.
struct Time {
    began: Nanos,
    expected: Nanos,
}

impl Time {
    fn begin(expected: Nanos) -> Self {
        Self {
            began: MonotonicClock.now(),
            expected,
        }
    }

    fn elapsed(&self) -> Nanos {
        MonotonicClock.now().since(self.began)
    }

    fn is_over(&self) -> bool {
        self.elapsed().0 > self.expected.0 * PATIENCE
    }

    /// In words.
    fn left(&self) -> String {
        match self.expected.0.checked_sub(self.elapsed().0) {
            Some(left) => format!("about {} s left", left.div_ceil(Nanos::SECOND.0)),
            None => "longer than expected".to_owned(),
        }
    }
}

/// What the arms' loads brought, whole blocks only.
struct Measured<const N: usize> {
    arms: [Vec<(Arm, TrialRecord)>; N],
    /// Why it ended before all blocks were measured.
    ended: Option<&'static str>,
}

impl<const N: usize> Default for Measured<N> {
    fn default() -> Self {
        Self {
            arms: [const { Vec::new() }; N],
            ended: None,
        }
    }
}

impl<const N: usize> Measured<N> {
    fn blocks(&self) -> usize {
        self.arms[0].len()
    }

    fn arm(&self, at: usize) -> Vec<Arm> {
        self.arms[at].iter().map(|(arm, _)| *arm).collect()
    }

    /// The first block's trial of an arm carries what was examined of its copy.
    fn keep_examination(&mut self, at: usize, examined: TrialRecord) {
        if let Some((_, first)) = self.arms[at].first_mut() {
            first.examination = examined.examination;
        }
    }

    /// All trials in the order in which blocks ran, with the names of their arms.
    fn into_trials(self, names: &[&str; N]) -> Vec<TrialRecord> {
        let named = self.arms.into_iter().zip(names).flat_map(|(arm, name)| {
            arm.into_iter().map(|(_, mut trial)| {
                trial.levels.insert("arm".to_owned(), (*name).to_owned());
                trial
            })
        });
        let mut trials: Vec<TrialRecord> = named.collect();
        trials.sort_by_key(|t| t.block);
        trials
    }
}

impl Measured<3> {
    fn figures(&self) -> Blocks {
        Blocks {
            unchanged: self.arm(0),
            twin: self.arm(1),
            changed: self.arm(2),
        }
    }
}

/// What a cause predicts, with the facts of both copies.
struct Judge {
    judged_by: JudgedBy,
    predicted: Option<Prediction>,
    before: FactSet,
    after: FactSet,
}

impl Judge {
    fn prove(&self, blocks: &Blocks, changes: &[Change], error_limit: f64) -> Proof {
        let predicted = self.predicted.as_ref();
        let signal = |name: &str, falls| moved(name, falls, &self.before, &self.after);
        let control = predicted.and_then(|p| p.control.as_deref());
        let expected = Expected {
            judged_by: self.judged_by.clone(),
            mechanism: predicted.map(|p| signal(&p.mechanism, p.falls)),
            control: control.map(|name| signal(name, true)),
        };
        analysis::prove(blocks, &expected, changes.to_vec(), error_limit)
    }

    /// The mechanism on its way back to the fault.
    fn returned(&self, back: &FactSet) -> Option<Mechanism> {
        let predicted = self.predicted.as_ref()?;
        Some(moved(
            &predicted.mechanism,
            predicted.falls,
            &self.after,
            back,
        ))
    }
}

fn moved(name: &str, falls: bool, before: &FactSet, after: &FactSet) -> Mechanism {
    Mechanism {
        signal: name.to_owned(),
        unit: analysis::catalogue().unit_of(name).to_owned(),
        before: before.view(SERVER).value(name),
        after: after.view(SERVER).value(name),
        falls,
    }
}

/// Calls that differ and are shown; more nobody reads.
const CALLS_KEPT: usize = 8;

fn calls_that_differ(before: &TrialRecord, after: &TrialRecord) -> Vec<analysis::CallChange> {
    let signature = |t: &TrialRecord| t.examination.as_ref()?.signature.clone();
    let (Some(before), Some(after)) = (signature(before), signature(after)) else {
        return Vec::new();
    };
    let mut changes = analysis::signature_diff(&before, &after);
    changes.truncate(CALLS_KEPT);
    changes
}

/// Name of the server behind the URL in records.
const SERVER: &str = "server";

impl Copy {
    fn server(&self) -> record::Server {
        let pids: Vec<i32> = self.running.processes().iter().map(|p| p.pid).collect();
        sut::discover::of_pids(&pids, SERVER)
    }

    fn watched(&self) -> Watched {
        Watched {
            target: SERVER.to_owned(),
            pids: self.running.processes().iter().map(|p| p.pid).collect(),
        }
    }

    /// Cores that its workers may run on: those of its threads, without a main process that only starts others.
    fn cores(&self) -> Vec<u32> {
        let processes = self.running.processes();
        let starts_others = processes.len() > 1;
        let workers = processes
            .iter()
            .filter(|p| !starts_others || p.role != "main");
        let mut cores: Vec<u32> = workers
            .flat_map(|p| linux::affinity::of_threads(p.pid))
            .collect();
        cores.sort_unstable();
        cores.dedup();
        cores
    }
}

/// Cores of their own for the workers that a change adds: more than the server fills without it, and none that the
/// load's threads are pinned to.
fn enough_cores(has: &[u32], load: &[u32], filled: f64) -> bool {
    let free = has.iter().filter(|core| !load.contains(core)).count();
    free as f64 >= filled.round().max(1.0) + 1.0
}

fn no_cores(has: &[u32], load: &[u32], before: &[u32]) -> String {
    let list = |cores: &[u32]| {
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        cores.join(",")
    };
    let taken: Vec<u32> = has.iter().copied().filter(|c| load.contains(c)).collect();
    let why = match (taken.is_empty(), has == before) {
        (false, _) => format!("the load's threads are pinned to {}", list(&taken)),
        (true, true) => "the change gives it no other cores".to_owned(),
        (true, false) => format!("without the change it has {}", list(before)),
    };
    format!(
        "the changed copy has no core for more work: it may run on {}, and {why}; give the server more cores, or the load \
         others with --cpus",
        list(has)
    )
}

/// A trial of a proof with nothing in it yet.
pub(super) fn blank(spec: &LoadSpec, target: record::TargetRecord) -> TrialRecord {
    TrialRecord {
        id: 0,
        stage: PROOF_STAGE.to_owned(),
        block: 0,
        levels: BTreeMap::new(),
        load: spec.clone(),
        state: TrialState::Complete,
        outcome: None,
        reported: None,
        targets: vec![record::TargetRecord {
            name: SERVER.to_owned(),
            ..target
        }],
        unavailable: Vec::new(),
        warnings: Vec::new(),
        series: Vec::new(),
        hosts: Vec::new(),
        examination: None,
        files: BTreeMap::new(),
    }
}

/// The same load for a copy: its address, but the host that the server knows itself by.
fn redirected(spec: &LoadSpec, address: SocketAddr) -> LoadSpec {
    let mut spec = spec.clone();
    let Ok(mut url) = Url::parse(&spec.url) else {
        return spec;
    };
    let authority = url[url::Position::BeforeHost..url::Position::AfterPort].to_owned();
    let named = |name: &str| {
        spec.headers
            .iter()
            .any(|(n, _)| n.eq_ignore_ascii_case(name))
    };
    if !named("host") {
        spec.headers.push(("Host".to_owned(), authority));
    }
    // Both succeed for a URL that the load has accepted.
    let moved = url.set_ip_host(address.ip()).is_ok() && url.set_port(Some(address.port())).is_ok();
    if moved {
        // The certificate names the server's own address.
        spec.insecure = true;
        spec.url = url.into();
    }
    spec
}

/// The changes as directives. One that stands somewhere is replaced there; one that does not is added. A section's
/// name may stand for several sections, in each of which the same is to be done: once is enough.
fn as_config(changes: &[Change]) -> Vec<ConfigChange> {
    let mut all: Vec<ConfigChange> = Vec::new();
    for change in changes.iter().map(as_directive) {
        if !all.contains(&change) {
            all.push(change);
        }
    }
    all
}

fn as_directive(change: &Change) -> ConfigChange {
    let mut from = words(&change.from).into_iter();
    let mut to = words(&change.to).into_iter();
    let section = change.sections.clone();
    match (from.next(), to.next()) {
        (Some(name), None) => ConfigChange {
            action: ChangeAction::Remove,
            context: section,
            name,
            args: from.collect(),
            from: Vec::new(),
        },
        (_, name) => ConfigChange {
            action: ChangeAction::Set,
            context: section,
            name: name.unwrap_or_default(),
            args: to.collect(),
            from: from.collect(),
        },
    }
}

/// Words of a directive; quotes hold several together, and may hold none.
fn words(line: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.trim().trim_end_matches(';').chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => found.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    found.extend(word);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn directives_are_split_as_servers_split_them() {
        assert_eq!(
            words("proxy_buffers 4 128k;"),
            ["proxy_buffers", "4", "128k"]
        );
        assert_eq!(
            words("proxy_set_header Connection \"\";"),
            ["proxy_set_header", "Connection", ""]
        );
        assert_eq!(words("log_format x 'a b'"), ["log_format", "x", "a b"]);
    }

    #[test]
    fn every_arm_takes_every_place() {
        for arms in [2, 3] {
            let mut seen = vec![vec![0; arms]; arms];
            for block in 0..BLOCKS {
                for turn in 0..arms {
                    seen[analysis::turn(block, turn, arms)][turn] += 1;
                }
            }
            for (arm, places) in seen.iter().enumerate() {
                assert_eq!(places.iter().sum::<usize>(), BLOCKS, "arm {arm}");
                assert!(places.iter().all(|&n| n >= BLOCKS / arms - 1), "{seen:?}");
            }
        }
    }

    /// A worker that was added ran beside the first on its core, and the change was "not proved".
    #[test]
    fn a_worker_that_is_added_needs_a_core() {
        assert!(enough_cores(&[0, 1], &[], 0.98));
        assert!(!enough_cores(&[0], &[], 0.98));
        assert!(!enough_cores(&[0, 1], &[1], 0.98));
        assert!(enough_cores(&[0, 1, 2], &[1], 0.98));
        assert!(!enough_cores(&[0, 1], &[], 1.9));
        let why = no_cores(&[0, 1], &[1], &[0, 1]);
        assert!(
            why.contains("may run on 0,1, and the load's threads are pinned to 1;"),
            "{why}"
        );
        let why = no_cores(&[0], &[1], &[0]);
        assert!(
            why.contains("may run on 0, and the change gives it no other cores;"),
            "{why}"
        );
    }

    #[test]
    fn trials_of_a_proof_are_named_by_arm_and_carry_the_examination_once() {
        let trial = |block| {
            let mut trial = blank(&LoadSpec::new("http://h/"), record::TargetRecord::default());
            trial.block = block;
            (Arm::default(), trial)
        };
        let mut measured = Measured {
            arms: [(); 2].map(|()| vec![trial(0), trial(1)]),
            ended: None,
        };
        let mut examined = trial(0).1;
        examined.examination = Some(record::Examination::default());
        measured.keep_examination(1, examined);
        let trials = measured.into_trials(&["unchanged", "changed"]);
        let said: Vec<_> = trials
            .iter()
            .map(|t| (t.block, t.levels["arm"].as_str(), t.examination.is_some()))
            .collect();
        assert_eq!(
            said,
            [
                (0, "unchanged", false),
                (0, "changed", true),
                (1, "unchanged", false),
                (1, "changed", false)
            ]
        );
    }

    #[test]
    fn a_proof_says_how_long_it_takes() {
        assert!(expected(true) > expected(false));
        assert!(expected(false) < Nanos::from_secs(60));
        let time = Time::begin(Nanos::from_secs(60));
        assert_eq!(time.left(), "about 60 s left");
        assert!(!time.is_over());
        let late = Time {
            began: Nanos(0),
            expected: Nanos(0),
        };
        assert_eq!(late.left(), "longer than expected");
        assert!(late.is_over());
    }

    #[test]
    fn a_copy_is_asked_by_the_name_that_the_server_knows() {
        let spec = redirected(
            &LoadSpec::new("http://shop.test:8080/a?b"),
            "127.0.0.1:99".parse().unwrap(),
        );
        assert_eq!(spec.url, "http://127.0.0.1:99/a?b");
        assert_eq!(
            spec.headers,
            [("Host".to_owned(), "shop.test:8080".to_owned())]
        );
    }

    /// A server that runs with one configuration, for what only a running one tells.
    struct Running {
        child: std::process::Child,
        dir: tempfile::TempDir,
        address: SocketAddr,
    }

    impl Running {
        fn start(program: &str, args: &[&str], file: &str, text: &str) -> Running {
            let dir = tempfile::tempdir().unwrap();
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let at = dir.path().display().to_string();
            let fill = |t: &str| {
                t.replace("PORT", &address.port().to_string())
                    .replace("DIR", &at)
            };
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, fill(text)).unwrap();
            // Apache's prefork ends its whole process group, which would be the test's.
            let child = std::process::Command::new(program)
                .process_group(0)
                .args(args.iter().map(|a| fill(a)))
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let begun = std::time::Instant::now();
            while std::net::TcpStream::connect(address).is_err() {
                assert!(begun.elapsed().as_secs() < 30, "{program} does not listen");
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            Running {
                child,
                dir,
                address,
            }
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let pid = i32::try_from(self.child.id()).unwrap();
            // SAFETY: a system call on integers; the child has not been waited for.
            unsafe { libc::kill(pid, libc::SIGTERM) };
            let _ended = self.child.wait();
        }
    }

    /// What a server's own check can judge.
    fn in_files(changes: &[Change]) -> Vec<ConfigChange> {
        let all = as_config(changes).into_iter();
        all.filter(|change| !change.is_of_limits()).collect()
    }

    /// Applies each cause's changes to a copy and lets the server's own check judge it; the causes that changed
    /// something.
    fn checked(running: &Running, check: &[&str]) -> std::collections::BTreeSet<String> {
        let pid = i32::try_from(running.child.id()).unwrap();
        let server = with_config(sut::discover::of_pids(&[pid], SERVER));
        let mut facts = analysis::FactSet::default();
        facts.targets.push(SERVER.to_owned());
        for fact in analysis::catalogue().facts() {
            facts.known("", &fact.name, 91_000.0, "a number");
        }
        // It stands for many in the list of facts.
        facts.known("", "read.upstream.bytes_per_request", 91_000.0, "a number");
        // A Java machine that is told of thousands of cores makes as many of all that it has for each.
        for name in [
            "client.connections",
            "cpu.cores_allowed",
            "cgroup.quota_cores",
        ] {
            facts.known("", name, 2.0, "a number");
        }
        // With less no Java machine starts.
        facts.known("", "jvm.heap_max_bytes", 64.0 * 1048576.0, "a number");
        facts.servers.insert(SERVER.to_owned(), server.clone());
        let mut changed = std::collections::BTreeSet::new();
        for cause in &analysis::catalogue().causes {
            let changes = analysis::proposed_changes(cause, &facts.view(SERVER));
            if changes.is_empty() {
                continue;
            }
            // HAProxy would read the `4` of `4,096` and say nothing.
            let grouped = changes.iter().find(|c| c.to.contains(','));
            assert_eq!(grouped, None, "{}", cause.name);
            let dir = tempfile::tempdir().unwrap();
            let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let listen = free.local_addr().unwrap();
            drop(free);
            let copy = sut::config::copy(
                &server,
                &in_files(&changes),
                dir.path(),
                running.address,
                listen,
            )
            .unwrap_or_else(|e| panic!("{}: {e}", cause.name));
            // varnishd does not check in the foreground.
            let words = copy.argv[1..].iter().filter(|w| *w != "-F");
            let program = copy.argv[0].rsplit('/').next().unwrap();
            let validated = |w: &String| match (program, w.as_str()) {
                ("caddy", "run") => "validate".to_owned(),
                ("java", "start") => "configtest".to_owned(),
                _ => w.clone(),
            };
            let words = words.map(validated);
            let out = std::process::Command::new(&copy.argv[0])
                .args(words)
                .args(check)
                .current_dir(&copy.directory)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            // lighttpd and Tomcat only warn of a setting that they do not know, lighttpd as of those of a module that
            // is not installed.
            let unknown = said.contains("unknown config-key") && !said.contains("dlopen() failed")
                || said.contains("failed to set property");
            assert!(
                out.status.success() && !unknown,
                "{}: {said}\n{}",
                cause.name,
                std::fs::read_to_string(&copy.file).unwrap()
            );
            changed.insert(cause.name.clone());
        }
        changed
    }

    const MINIMAL: &str = "daemon off; pid DIR/pid; error_log DIR/e.log;\nevents { }\n\
        http { upstream b { server 127.0.0.1:9; } server { listen 127.0.0.1:PORT; location / { proxy_pass http://b; } } }\n";
    /// Everything that a remedy takes out or replaces is set, some of it several times and far inside.
    const FULL: &str = "daemon off; pid DIR/pid; error_log DIR/e.log debug; worker_cpu_affinity 1; worker_priority 1;\n\
        events { worker_connections 64; multi_accept on; }\nhttp { http2_max_concurrent_streams 4;\n\
        limit_req_zone $binary_remote_addr zone=r:1m rate=1r/s; limit_conn_zone $binary_remote_addr zone=c:1m;\n\
        limit_conn_zone $server_name zone=d:1m; access_log DIR/a.log; proxy_temp_file_write_size 16k;\n\
        upstream a { server 127.0.0.1:9; keepalive 1; keepalive_requests 5; }\n\
        upstream b { ip_hash; server 127.0.0.1:9; keepalive 1; }\n\
        server { listen 127.0.0.1:PORT backlog=1; limit_conn c 1; limit_conn d 2; limit_req zone=r; keepalive_timeout 0;\n\
        location / { proxy_pass http://a; proxy_buffers 8 4k; proxy_set_header Host x; proxy_buffering off; limit_rate 1k; }\n\
        location /b { proxy_pass http://b; proxy_busy_buffers_size 8k; proxy_set_header Connection close; }\n\
        location /c { ssi on; sub_filter a b; sub_filter c d; gzip on; gzip_comp_level 9; directio 512; sendfile_max_chunk 4k;\n\
        disable_symlinks on; client_body_in_file_only on; rewrite_log on; } }\n\
        server { listen 127.0.0.1:PORT; server_name x; location / { limit_req zone=r; proxy_pass http://a; } } }\n";

    #[test]
    fn nginx_takes_every_change_of_the_catalogue() {
        let mut changed = std::collections::BTreeSet::new();
        for text in [MINIMAL, FULL] {
            let args = ["-p", "DIR", "-c", "DIR/n.conf", "-e", "DIR/e.log"];
            let running = Running::start("nginx", &args, "n.conf", text);
            changed.extend(checked(&running, &["-t"]));
            assert!(running.dir.path().join("n.conf").exists());
        }
        has_all(&changed, "nginx");
    }

    #[test]
    fn haproxy_takes_every_change_of_the_catalogue() {
        const HEAD: &str =
            "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n";
        const TAIL: &str = "frontend f\n bind 127.0.0.1:PORT\n default_backend b\n";
        let minimal = format!("global\n{HEAD}{TAIL}backend b\n server s 127.0.0.1:9\n");
        let full = format!(
            "global\n nbthread 2\n cpu-map 1 0\n cpu-map 2 0\n busy-polling\n tune.comp.maxlevel 9\n tune.sndbuf.client 4096\n tune.rcvbuf.client 4096\n tune.rcvbuf.server 4096\n \
             tune.ssl.maxrecord 1024\n{HEAD} rate-limit sessions 10\n option httpclose\n{TAIL} maxconn 5\n\
             backend b\n option http-server-close\n http-reuse never\n balance source\n server s 127.0.0.1:9\n"
        );
        let compressed = format!("{minimal} compression algo gzip\n compression type text/html\n");
        let mut changed = std::collections::BTreeSet::new();
        for text in [&minimal, &full, &compressed] {
            let running = Running::start("haproxy", &["-db", "-f", "DIR/h.cfg"], "h.cfg", text);
            changed.extend(checked(&running, &["-c"]));
        }
        has_all(&changed, "haproxy");
    }

    #[test]
    fn apache_takes_every_change_of_the_catalogue() {
        let modules = |names: &[&str]| -> String {
            let line =
                |m: &&str| format!("LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n");
            names.iter().map(line).collect()
        };
        const HEAD: &str = "ServerRoot DIR\nServerName x\nListen 127.0.0.1:PORT\nPidFile DIR/pid\nErrorLog DIR/e.log\n";
        const USED: [&str; 5] = ["authz_core", "filter", "deflate", "ssl", "proxy"];
        let event = modules(&["mpm_event"]) + &modules(&USED);
        let prefork = modules(&["mpm_prefork"]) + &modules(&USED);
        // Everything that a remedy replaces is set, some of it under a condition or in a virtual host.
        let full = format!(
            "{HEAD}{event}<IfModule mpm_event_module>\nThreadLimit 8\nServerLimit 2\nThreadsPerChild 4\nMaxRequestWorkers 8\n\
             </IfModule>\nKeepAlive Off\nMaxKeepAliveRequests 1\nEnableMMAP On\nEnableSendfile Off\nListenBackLog 1\nSendBufferSize 4096\n\
             ReceiveBufferSize 4096\nDeflateCompressionLevel 9\nProxyIOBufferSize 8192\nProxyReceiveBufferSize 4096\nLogLevel debug\n\
             BufferedLogs Off\n<VirtualHost *:PORT>\nkeepalive off\nHostnameLookups Double\nCustomLog DIR/a.log \"%h \\\"%r\\\"\"\n\
             <Directory DIR>\nAllowOverride All\n</Directory>\n</VirtualHost>\n<Directory />\nAllowOverride None\n</Directory>\n"
        );
        let directory = "<Directory />\nAllowOverride All\n</Directory>\n";
        let minimal = format!("{HEAD}{event}{directory}");
        let processes = format!("{HEAD}{prefork}ServerLimit 1\nMaxRequestWorkers 1\n{directory}");
        let mut changed = std::collections::BTreeSet::new();
        for text in [&minimal, &full, &processes] {
            let args = ["-DFOREGROUND", "-f", "DIR/a.conf"];
            let running = Running::start("apache2", &args, "a.conf", text);
            changed.extend(checked(&running, &["-t"]));
        }
        has_all(&changed, "apache");
    }

    #[test]
    fn lighttpd_takes_every_change_of_the_catalogue() {
        const HEAD: &str = "server.modules = ( \"mod_deflate\" )\nserver.bind = \"127.0.0.1\"\nserver.port = PORT\n\
            server.document-root = \"DIR\"\nserver.errorlog = \"DIR/e.log\"\ninclude_shell \"true\"\n";
        // Everything that a remedy replaces is set, some of it under a condition.
        const SET: &str = "deflate.compression-level = 9\nserver.max-keep-alive-requests = 0\nserver.listen-backlog = 1\n\
            server.max-fds = 64\nserver.max-connections = 8\nconnection.kbytes-per-second = 1\nserver.kbytes-per-second = 1\n\
            server.stream-response-body = 2\nserver.network-backend = \"write\"\ndebug.log-request-handling = \"enable\"\n\
            server.max-worker = 1\n$SERVER[\"socket\"] == \"127.0.0.2:PORT\" {\n$HTTP[\"url\"] =~ \"^/a\" {\n\
            server.max-keep-alive-requests = 0\nconnection.kbytes-per-second = 1\n} else { server.stream-response-body = 1 }\n}\n";
        let full = format!("{HEAD}{SET}");
        let mut changed = std::collections::BTreeSet::new();
        for text in [HEAD, &full] {
            let running = Running::start("lighttpd", &["-D", "-f", "DIR/l.conf"], "l.conf", text);
            changed.extend(checked(&running, &["-tt"]));
        }
        has_all(&changed, "lighttpd");
    }

    #[test]
    fn varnish_takes_every_change_of_the_catalogue() {
        const VCL: &str = "vcl 4.1;\nbackend default none;\n";
        let args = |parameters: &str| {
            let fixed = "-F -j none -n DIR/n -a 127.0.0.1:PORT -s malloc,1m -f DIR/v.vcl";
            let words = fixed.split(' ').chain(parameters.split_whitespace());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        // Everything that a remedy replaces is set.
        let full = "-p thread_pool_min=5 -p thread_pool_max=8 -p listen_depth=1 -ptimeout_idle=1 -p gzip_level=9 \
            -p fetch_chunksize=4k";
        let mut changed = std::collections::BTreeSet::new();
        for parameters in ["", full] {
            let args = args(parameters);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let running = Running::start("varnishd", &args, "v.vcl", VCL);
            changed.extend(checked(&running, &["-C"]));
        }
        has_all(&changed, "varnish");
    }

    #[test]
    fn caddy_takes_every_change_of_the_catalogue() {
        const HEAD: &str = "{\n admin off\n debug\n}\n:PORT {\n bind 127.0.0.1\n encode gzip\n";
        let minimal = format!("{HEAD} reverse_proxy 127.0.0.1:9\n}}\n");
        let full = format!(
            "{HEAD} encode {{\n gzip 9\n }}\n reverse_proxy 127.0.0.1:9 {{\n transport http {{\n keepalive off\n \
             keepalive_idle_conns_per_host 1\n }}\n }}\n}}\n"
        );
        let mut changed = std::collections::BTreeSet::new();
        for text in [&minimal, &full] {
            let args = ["GOMAXPROCS=1", "caddy", "run", "--config", "DIR/Caddyfile"];
            let running = Running::start("env", &args, "Caddyfile", text);
            changed.extend(checked(&running, &[]));
        }
        has_all(&changed, "caddy");
    }

    #[test]
    fn tomcat_takes_every_change_of_the_catalogue() {
        // Everything that a remedy replaces is set; each check starts a Java machine.
        const TEXT: &str = "<Server port=\"-1\"><Service name=\"Catalina\"><Executor name=\"e\" maxThreads=\"2\" minSpareThreads=\"1\"/>\
            <Connector port=\"PORT\" address=\"127.0.0.1\" maxThreads=\"2\" acceptCount=\"1\" maxConnections=\"8\" \
            maxKeepAliveRequests=\"1\" keepAliveTimeout=\"1\" compression=\"on\" enableLookups=\"true\" useSendfile=\"false\" \
            tcpNoDelay=\"false\"/><Engine name=\"Catalina\" defaultHost=\"h\"><Host name=\"h\"/></Engine></Service></Server>";
        const JARS: &str =
            "/usr/share/tomcat10/bin/bootstrap.jar:/usr/share/tomcat10/bin/tomcat-juli.jar";
        let args = [
            "-XX:TieredStopAtLevel=1",
            "-XX:ActiveProcessorCount=1",
            "-Dcatalina.home=/usr/share/tomcat10",
            "-Dcatalina.base=DIR",
            "-cp",
            JARS,
            "org.apache.catalina.startup.Bootstrap",
            "start",
        ];
        let running = Running::start("java", &args, "conf/server.xml", TEXT);
        has_all(&checked(&running, &[]), "tomcat");
    }

    fn has_all(changed: &std::collections::BTreeSet<String>, kind: &str) {
        for cause in &analysis::catalogue().causes {
            let has = cause.change.iter().any(|c| c.server == kind);
            assert!(
                !has || changed.contains(&cause.name),
                "{} changed nothing",
                cause.name
            );
        }
    }
}
