//! From a diagnosis to measured changes: `--prove` for its findings, `--improve` until nothing is left that helps.

use super::prove::{self, ProofError, Proved, Prover};
use super::source::Source;
use crate::cli::DiagnoseArgs;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Progress};
use analysis::words::plural;
use analysis::{
    Change, Diagnosis, Factor, Finding, Improvement, ImprovementStep, Plan, Proof, Stage,
    StoredProof, TrialPlan,
};
use record::{Nanos, PROOF_STAGE, RunRecord, Server, TrialRecord};
use serde::Deserialize;
use std::collections::BTreeMap;

/// More changes than these nobody would read.
const MOST_STEPS: usize = 8;
/// Findings that `--prove` measures: most of a minute each.
const MOST_PROOFS: usize = 3;

/// Factor of a proof's trials: the cause that the change is to mend.
const CAUSE: &str = "cause";
/// Its level where nothing is changed.
const NO_CAUSE: &str = "no change";
/// Its level for all changes that were kept, together.
const ALL_CHANGES: &str = "all changes";

/// What `--prove` or `--improve` measured.
#[derive(Default)]
pub struct Measured {
    /// One for each finding that was tried.
    pub proofs: Vec<StoredProof>,
    /// The loads that they are made of, without ids.
    pub trials: Vec<TrialRecord>,
}

impl Measured {
    /// Adds the proof of a finding of the record's first trial, and says what it came to.
    fn add(&mut self, record: &RunRecord, finding: &Finding, proved: Proved) -> Proof {
        let Proved { mut proof, trials } = proved;
        proof.predicted = analysis::held(finding, &proof);
        terminal::note(&format!("  {}: {}", proof.result, proof.why));
        if let Some(held) = &proof.predicted {
            terminal::note(&format!("  {}", report::text::held(held)));
        }
        self.add_trials(&finding.cause, trials);
        self.proofs.push(StoredProof {
            trial: record.trials[0].id,
            cause: finding.cause.clone(),
            target: finding.target.clone(),
            proof: proof.clone(),
        });
        proof
    }

    /// Adds the loads of one proof. A cause that has been tried before is told from itself by a number.
    fn add_trials(&mut self, cause: &str, mut trials: Vec<TrialRecord>) {
        let taken = |level: &String| {
            let mut others = self.trials.iter();
            others.any(|t| t.levels.get(CAUSE) == Some(level))
        };
        let mut level = cause.to_owned();
        for again in 2.. {
            if !taken(&level) {
                break;
            }
            level = format!("{cause} ({again})");
        }
        for trial in &mut trials {
            trial.levels.insert(CAUSE.to_owned(), level.clone());
        }
        self.trials.extend(trials);
    }

    /// Adds the proofs' trials to the record that they belong to, as a stage of its plan.
    pub fn into_record(self, record: &mut RunRecord) -> Vec<StoredProof> {
        // The plan is our own, made a moment ago; a record without it is still worth keeping.
        if let Ok(mut plan) = Plan::deserialize(&record.plan)
            && !self.trials.is_empty()
        {
            plan.stages.push(stage(&self.trials));
            let stage = plan.stages.len() - 1;
            for (id, mut trial) in (next_id(record)..).zip(self.trials) {
                trial.id = id;
                plan.trials.push(TrialPlan {
                    id,
                    stage,
                    block: trial.block,
                    levels: trial.levels.clone(),
                    targets: Vec::new(),
                    load: trial.load.clone(),
                    rate_of_capacity: None,
                    topology: None,
                    irqs: Vec::new(),
                });
                record.trials.push(trial);
            }
            if let Ok(plan) = serde_json::to_value(plan) {
                record.plan = plan;
            }
        }
        self.proofs
    }
}

fn next_id(record: &RunRecord) -> u32 {
    record.trials.iter().map(|t| t.id + 1).max().unwrap_or(0)
}

/// The stage that the trials make up: every arm beside the unchanged one of the same cause.
fn stage(trials: &[TrialRecord]) -> Stage {
    let factor = |name: &str| {
        let mut levels: Vec<String> = Vec::new();
        for level in trials.iter().filter_map(|t| t.levels.get(name)) {
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        Factor {
            name: name.to_owned(),
            levels,
        }
    };
    Stage {
        name: PROOF_STAGE.to_owned(),
        factors: vec![factor(CAUSE), factor("arm")],
        baseline: BTreeMap::from([("arm".to_owned(), prove::ARMS[0].to_owned())]),
        repeats: trials.iter().map(|t| t.block + 1).max().unwrap_or(0),
        examine: true,
        search: None,
        metric: None,
    }
}

/// Measures changes of the server of a record.
pub struct Changes<'a> {
    /// The flags.
    pub args: &'a DiagnoseArgs,
    /// What was examined; its first trial.
    pub record: &'a RunRecord,
    /// Where loads are sent from.
    pub source: &'a mut Source,
    /// Ctrl-C.
    pub interrupt: &'a Interrupt,
    /// Where progress goes.
    pub progress: &'a mut Progress,
}

impl Changes<'_> {
    /// Measures the remedies of the findings that are worth it, and notes the results in them.
    ///
    /// # Errors
    /// [`Failure`] when no copy can be started at all.
    pub fn prove(&mut self, diagnosis: &mut Diagnosis) -> Result<Measured, Failure> {
        let launcher = super::launcher()?;
        let worth: Vec<usize> = (0..diagnosis.findings.len())
            .filter(|&i| provable(&diagnosis.findings[i]))
            .take(MOST_PROOFS)
            .collect();
        match worth.len() {
            0 => {
                terminal::note(
                    "nothing to prove: no finding comes with a change of a configuration",
                );
                let asked = diagnosis.findings.iter_mut().find(|f| is_cause(f));
                if let Some(finding) = asked {
                    finding.proof = Some(not_possible(NO_CHANGE, Vec::new()).proof);
                }
            }
            n => terminal::note(&announced(n as u64, self.args.put_back)),
        }
        let mut measured = Measured::default();
        for at in worth {
            if self.interrupt.asked() {
                break;
            }
            let finding = diagnosis.findings[at].clone();
            let station = &diagnosis.station.name;
            let proved = self.measure(&launcher, &[], &finding, ("proving", station));
            let proof = measured.add(self.record, &finding, proved);
            analysis::note_proof(&mut diagnosis.findings[at], proof);
        }
        Ok(measured)
    }

    /// Diagnose, change, prove, until nothing is left that helps. What was measured of causes of the first diagnosis
    /// comes as its proofs.
    ///
    /// # Errors
    /// [`Failure`] when no copy can be started at all.
    pub fn improve(&mut self, first: &Diagnosis) -> Result<(Improvement, Measured), Failure> {
        let launcher = super::launcher()?;
        terminal::note(&format!(
            "improving: at most {MOST_STEPS} changes, about {} s each",
            seconds(prove::expected(false))
        ));
        let mut path = Improvement::default();
        let mut measured = Measured::default();
        let mut diagnosis = first.clone();
        for _ in 0..MOST_STEPS {
            if self.interrupt.asked() {
                path.ended = "stopped by hand".to_owned();
                return Ok((path, measured));
            }
            let tried = |f: &Finding| path.steps.iter().any(|s| s.changes == f.changes);
            let Some(finding) = diagnosis
                .findings
                .iter()
                .find(|f| provable(f) && !tried(f))
                .cloned()
            else {
                path.ended = ended(&diagnosis);
                break;
            };
            let station = diagnosis.station.name.clone();
            let proved = self.measure(&launcher, &path.changes, &finding, ("trying", &station));
            let proof = measured.add(self.record, &finding, proved);
            let kept = proof.result == "proved";
            if kept {
                path.changes.extend(finding.changes.iter().cloned());
                let refreshed = self.again(&launcher, &path.changes);
                if let Some(refreshed) = refreshed {
                    diagnosis = refreshed;
                }
            }
            path.steps.push(ImprovementStep {
                cause: finding.cause,
                title: finding.title,
                changes: finding.changes,
                proof,
                kept,
            });
        }
        if path.ended.is_empty() {
            path.ended = format!("{MOST_STEPS} changes were tried");
        }
        if !path.changes.is_empty() {
            let (total, trials) = self.total(&launcher, &path.changes, &first.station.name);
            path.total = total;
            measured.add_trials(ALL_CHANGES, trials);
        }
        Ok((path, measured))
    }

    /// A proof of no change: the server as it is, its twin, and a third copy of the same.
    ///
    /// # Errors
    /// [`Failure`] when no copy can be started at all.
    pub fn aa(&mut self, diagnosis: &Diagnosis) -> Result<(Proof, Measured), Failure> {
        let launcher = super::launcher()?;
        let nothing = Finding {
            cause: NO_CAUSE.to_owned(),
            title: String::new(),
            target: self.server().map(|s| s.target.clone()).unwrap_or_default(),
            confidence: 0.0,
            status: analysis::Status::Suspected,
            why: String::new(),
            evidence: Vec::new(),
            remedy: String::new(),
            changes: Vec::new(),
            gain_bound: None,
            gain_unknown: None,
            worth_changing: false,
            predicted: None,
            calibrated: None,
            variant: None,
            proof: None,
        };
        let mut proved = self.measure(
            &launcher,
            &[],
            &nothing,
            ("measuring", &diagnosis.station.name),
        );
        analysis::read_as_aa(&mut proved.proof);
        let mut measured = Measured::default();
        let proof = measured.add(self.record, &nothing, proved);
        Ok((proof, measured))
    }

    fn server(&self) -> Option<&Server> {
        let examination = self.record.trials[0].examination.as_ref()?;
        examination.servers.first()
    }

    fn with_prover<T>(
        &mut self,
        launcher: &sut::Launcher,
        server: &Server,
        work: impl FnOnce(&mut Prover<'_>) -> T,
    ) -> T {
        let interrupt = self.interrupt;
        let interrupted = || interrupt.asked();
        work(&mut Prover {
            server,
            original: &self.record.trials[0],
            spec: &self.record.trials[0].load,
            source: self.source,
            put_back: self.args.put_back,
            launcher,
            best_tier: self.args.probes,
            error_limit: self.args.load.error_limit,
            environment: &self.record.environment,
            interrupted: &interrupted,
            progress: self.progress,
        })
    }

    /// One proof; what stands in its way is its result.
    fn measure(
        &mut self,
        launcher: &sut::Launcher,
        base: &[Change],
        finding: &Finding,
        (what, station): (&str, &str),
    ) -> Proved {
        let changes = finding.changes.clone();
        terminal::note(&format!("{what} {}: {}", finding.cause, wanted(&changes)));
        let Some(server) = self.server().cloned() else {
            return not_possible("the server's processes were not seen", changes);
        };
        if finding.target != server.target {
            let why = format!(
                "the cause lies in {}, which is not the server behind the URL: load it alone and prove it there",
                finding.target
            );
            return not_possible(&why, changes);
        }
        let cause = finding.cause.as_str();
        let proved = self.with_prover(launcher, &server, |p| {
            let judged_by = p.judged_by(cause, station);
            terminal::note(&format!(
                "  judged by {}, because {}",
                judged_by.metric.words(),
                judged_by.why
            ));
            p.prove(base, (cause, judged_by), &changes)
        });
        match proved {
            Ok(proved) => proved,
            Err(ProofError::Interrupted) => {
                unmeasured("stopped", "interrupted before the first block", changes)
            }
            Err(ProofError::Copy(e)) => not_possible(&format!("{e}; {}", e.remedy()), changes),
            Err(e) => not_possible(&e.to_string(), changes),
        }
    }

    /// The diagnosis of a copy with the changes that were kept.
    fn again(&mut self, launcher: &sut::Launcher, changes: &[Change]) -> Option<Diagnosis> {
        let server = self.server()?.clone();
        self.with_prover(launcher, &server, |p| p.diagnose(changes))
            .ok()
    }

    /// The improved server against the server as it was.
    fn total(
        &mut self,
        launcher: &sut::Launcher,
        changes: &[Change],
        station: &str,
    ) -> (Vec<analysis::ProofRatio>, Vec<TrialRecord>) {
        let Some(server) = self.server().cloned() else {
            return (Vec::new(), Vec::new());
        };
        // No single cause predicts the whole, so no mechanism is asked for.
        let proved = self.with_prover(launcher, &server, |p| {
            let judged_by = p.judged_by("", station);
            p.prove(&[], ("", judged_by), changes)
        });
        let Ok(Proved { proof, trials }) = proved else {
            return (Vec::new(), Vec::new());
        };
        let mut evidence = proof.evidence;
        evidence.retain(|e| e.role == "metric" || e.role == "secondary");
        (evidence, trials)
    }
}

/// Why there is no proof of a finding without changes.
const NO_CHANGE: &str = "the remedy is no change of a configuration that prony can make on a copy: make it by hand \
                         on a copy of your own, and compare the two with `prony run`";

/// A finding that names something to be mended.
fn is_cause(finding: &Finding) -> bool {
    finding.may_gain() && finding.cause != "none"
}

/// A finding that a change of a configuration may fix, and that is worth it or of unknown worth.
fn provable(finding: &Finding) -> bool {
    finding.may_gain() && !finding.changes.is_empty()
}

fn wanted(changes: &[Change]) -> String {
    let words: Vec<&str> = changes.iter().map(|c| c.to.as_str()).collect();
    words.join("; ")
}

fn ended(diagnosis: &Diagnosis) -> String {
    match diagnosis.findings.first() {
        Some(left) if left.cause != "none" => format!(
            "nothing is left that a change of the configuration helps; what remains is {}: {}",
            left.cause, left.why
        ),
        _ => "nothing is left that helps: the server is healthy".to_owned(),
    }
}

/// How many proofs there will be and how long they take, said before the first.
fn announced(proofs: u64, put_back: bool) -> String {
    let all = |each: Nanos| seconds(Nanos(each.0 * proofs));
    format!(
        "{} to make on copies of the server: about {} s, at most {} s",
        plural(proofs, "proof"),
        all(prove::expected(put_back)),
        all(prove::longest(put_back))
    )
}

fn seconds(time: Nanos) -> u64 {
    time.0.div_ceil(Nanos::SECOND.0)
}

fn not_possible(why: &str, changes: Vec<Change>) -> Proved {
    unmeasured("not_possible", why, changes)
}

fn unmeasured(result: &str, why: &str, changes: Vec<Change>) -> Proved {
    Proved {
        proof: Proof {
            result: result.to_owned(),
            why: why.to_owned(),
            judged_by: None,
            changes,
            evidence: Vec::new(),
            calls: Vec::new(),
            predicted: None,
        },
        trials: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{LoadSpec, TargetRecord};

    #[test]
    fn a_proof_becomes_a_stage_of_its_record() {
        let trial = |block, arm: &str| {
            let mut trial = prove::blank(&LoadSpec::new("http://h/"), TargetRecord::default());
            trial.block = block;
            trial.levels.insert("arm".to_owned(), arm.to_owned());
            trial
        };
        let first = TrialRecord {
            stage: "diagnose".to_owned(),
            levels: std::collections::BTreeMap::new(),
            ..trial(0, "")
        };
        let mut record =
            crate::executor::single::as_record(Vec::new(), 0.01, String::new(), vec![first]);
        let arms = ["unchanged", "changed"];
        let trials = || (0..2).flat_map(|block| arms.map(|arm| trial(block, arm)));
        let mut measured = Measured::default();
        measured.add_trials("c", trials().collect());
        // The same cause with another change, as `--improve` may come to.
        let mut twice = Measured::default();
        twice.add_trials("c", trials().collect());
        twice.add_trials("c", trials().collect());
        let causes: std::collections::BTreeSet<_> = twice
            .trials
            .iter()
            .map(|t| t.levels[CAUSE].as_str())
            .collect();
        assert_eq!(causes.into_iter().collect::<Vec<_>>(), ["c", "c (2)"]);
        measured.into_record(&mut record);
        let ids: Vec<u32> = record.trials.iter().map(|t| t.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
        let analysis = analysis::analyse(&record).unwrap();
        let cells: Vec<_> = analysis
            .cells
            .iter()
            .map(|c| (c.stage.as_str(), c.planned, c.levels.get("arm").cloned()))
            .collect();
        assert_eq!(
            cells,
            [
                ("diagnose", 1, None),
                (PROOF_STAGE, 2, Some("unchanged".to_owned())),
                (PROOF_STAGE, 2, Some("changed".to_owned()))
            ]
        );
        // Nothing is said to be missing.
        assert!(analysis.warnings.iter().all(|w| w.name != "trials_not_run"));
    }

    #[test]
    fn a_proof_is_announced_with_its_bound() {
        let text = announced(2, false);
        assert!(text.starts_with("2 proofs to make"), "{text}");
        assert_eq!(seconds(Nanos(1_500_000_000)), 2);
    }
}
