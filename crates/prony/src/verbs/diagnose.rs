//! `prony diagnose`: name what limits a server, show the evidence, prove the remedy.
//!
//! The server may be running (found behind a URL, by pid, unit or port), stored (a record), or known only by what
//! other tools printed of it. A running server is watched and loaded, never changed.

use crate::cli::DiagnoseArgs;
use crate::executor::budget::overhead_text;
use crate::executor::change::{Changes, Measured};
use crate::executor::contained::Contained;
use crate::executor::examine::{self, Examiner};
use crate::executor::live::Live;
use crate::executor::run::analyse;
use crate::executor::runtimes::Runtimes;
use crate::executor::single::as_record;
use crate::executor::source::Source;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::interrupt::Interrupt;
use crate::store::DirStore;
use crate::terminal::{self, Progress};
use analysis::{Against, Diagnosis, Improvement, RunAnalysis, StoredProof, TrialAnalysis, Watched};
use record::{
    EnvironmentItem, PROOF_STAGE, RunRecord, Server, Store, TrialRecord, Unavailable, Warning,
};
use report::json::{Loaded, OnCopies};
use std::path::Path;
use sut::discover;
use traffic::Place;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when there is nothing to diagnose, or the load could not start.
pub fn run(args: &DiagnoseArgs) -> Result<Exit, Failure> {
    if args.tune {
        return Err(Failure::new(
            Exit::Usage,
            "`prony diagnose` has no --tune",
            "use --improve for changes of the server's configuration; `prony tune` is about settings of the host",
        ));
    }
    if let Some(directory) = &args.record {
        is_a_record(directory)?;
        return stored(args, directory);
    }
    if !args.from.is_empty() {
        return super::pasted::run(args);
    }
    if args.no_load && args.from_hosts.is_asked() {
        return Err(Failure::new(
            Exit::Usage,
            "--no-load and --on cannot both be given: no load is sent",
            "leave one of them out",
        ));
    }
    if let Some(host) = &args.server_host {
        return super::server_host::run(args, host);
    }
    let interrupt = Interrupt::install()?;
    super::recover();
    let scratch = args.lent.then(tempfile::tempdir).transpose();
    let scratch = scratch.map_err(|e| not_stored(&std::env::temp_dir(), &e.to_string()))?;
    let out = scratch.as_ref().map(tempfile::TempDir::path);
    let mut store = out.or(args.out.as_deref()).map(new_record).transpose()?;
    let started = host::timestamp();
    let mut contained = match (&args.container, &args.pod) {
        (Some(name), _) => Some(Contained::named(name)?),
        (None, Some(pod)) => Some(Contained::of_pod(pod)?),
        (None, None) => None,
    };
    let mut servers = named_servers(args)?;
    let mut progress = Progress::new("");
    let mut spec = args.spec(&url(args, contained.as_ref())?);
    if spec.is_websocket() {
        return Err(Failure::new(
            Exit::Usage,
            "`prony diagnose` examines no server by WebSocket: its passes count requests of HTTP",
            "load it with `prony load`, and watch it meanwhile with `prony diagnose --no-load --pid PID`",
        ));
    }
    if spec.sse {
        return Err(Failure::new(
            Exit::Usage,
            "`prony diagnose` examines no server by its events: its passes count requests and their responses",
            "load it with `prony load --sse`, and watch it meanwhile with `prony diagnose --no-load --pid PID`",
        ));
    }
    let mut source = match args.lent {
        true => Source::caller(&mut spec, &interrupt)?,
        false => Source::of(&args.from_hosts, &mut spec)?,
    };
    if let Some(contained) = &mut contained {
        let place = match args.no_load {
            true => None,
            false => source.prepare(&spec)?.place(),
        };
        servers = contained.servers(place.and_then(|place| place.address()));
    } else if servers.is_empty()
        && let Some(place) = source.prepare(&spec)?.place()
    {
        servers.extend(examine::behind(&place));
    }
    if args.url.is_some()
        && (!args.pid.is_empty() || args.unit.is_some())
        && let Some(Place::Tcp(address)) = source.prepare(&spec)?.place()
    {
        note_elsewhere(&mut servers, address.port());
    }
    let interrupted = || interrupt.asked();
    let earlier = args.against.as_deref().map(stored_trial).transpose()?;
    let mut trials = if args.no_load {
        if servers.is_empty() {
            let gap = examine::no_server(&spec.url);
            return Err(Failure::new(Exit::Environment, gap.reason, gap.remedy));
        }
        let mut live = Live::new(&spec, args, &interrupted, &mut progress);
        live.say(&servers, args.lookout);
        match args.lookout {
            Some(time) => live.lookout(&mut servers, time),
            None => vec![live.window(&mut servers)],
        }
    } else {
        let mut examiner = Examiner {
            spec: &spec,
            source: &mut source,
            best_tier: args.probes,
            runtimes: Runtimes::new(args.consent()),
            interrupted: &interrupted,
            progress: &mut progress,
            busy: None,
        };
        vec![examiner.examine(&mut servers)?]
    };
    if let Some(mut contained) = contained {
        // Other hosts reach no container but by its published port.
        if !args.no_load && spec.hosts.is_empty() && !interrupt.asked() {
            contained.hold_against_direct(&spec, &mut progress, &interrupted)?;
        }
        contained.note(&mut trials);
    }
    if interrupt.asked() {
        let cut = Warning::new(
            "interrupted",
            "it was interrupted: what is said is of the time until then, and the passes that were left are missing",
            "let it end by itself for all of them",
        );
        terminal::warning(&cut);
        for trial in &mut trials {
            trial.warnings.push(cut.clone());
        }
    }
    let command = std::env::args().collect();
    let mut record = as_record(command, args.load.error_limit, started, trials);
    record.manifest.interrupted |= interrupt.asked();
    // The one judgement of the trial: diagnosis, text, page and exit code are all made from it.
    let analysis = analyse(&record)?;
    let figures = &analysis.trials[0];
    let mut diagnosis = diagnosis_of(args, &record, figures);
    let mut change = Changes {
        args,
        record: &record,
        source: &mut source,
        interrupt: &interrupt,
        progress: &mut progress,
    };
    let (mut improvement, mut aa, mut measured) = (None, None, Measured::default());
    if args.improve {
        let (path, of_path) = change.improve(&diagnosis)?;
        (improvement, measured) = (Some(path), of_path);
    } else if args.aa {
        let (proof, of_proof) = change.aa(&diagnosis)?;
        (aa, measured) = (Some(proof), of_proof);
    } else if args.prove {
        measured = change.prove(&mut diagnosis)?;
    }
    let proofs = measured.into_record(&mut record);
    record.manifest.ended = Some(host::timestamp());
    record.manifest.interrupted |= interrupt.asked();
    // Shown first: what was measured is not lost when it cannot be stored.
    let on_copies = OnCopies {
        improvement: improvement.as_ref(),
        aa: aa.as_ref(),
    };
    let limit = args.load.error_limit;
    let watched = analysis::watched(&record, limit);
    let against = earlier.map(|earlier| against(&record, &earlier, limit));
    let beside = Beside {
        on_copies,
        watched: watched.as_ref(),
        against: against.as_ref(),
    };
    if !args.lent {
        show(args, &record, figures, &diagnosis, &beside)?;
    }
    let exit = exit(&record, figures, &diagnosis, &interrupt);
    if let Some(store) = &mut store {
        let analysis = match record.trials.len() {
            1 => analysis,
            // The loads of proofs have joined it.
            _ => analyse(&record)?,
        };
        save(store, &record, &analysis, &proofs, &beside)?;
        let page = store.root().join(super::report::PAGE);
        if args.lent {
            source.hand(store)?;
        } else if !args.json {
            terminal::result(&format!("report: {}", page.display()))?;
        }
    }
    let differs = aa.is_some_and(|proof| proof.result != analysis::EQUAL);
    Ok(match exit {
        Exit::Valid if differs => Exit::Failed,
        exit => exit,
    })
}

/// Says it when the processes that were named do not listen where the load goes.
fn note_elsewhere(servers: &mut [Server], port: u16) {
    let Some(server) = servers.first_mut() else {
        return;
    };
    let behind = format!(":{port}");
    if server.listens.iter().any(|a| a.ends_with(&behind)) {
        return;
    }
    let gap = Unavailable {
        what: "what the named processes have to do with the load".to_owned(),
        reason: format!(
            "process {} and its children do not listen on port {port}, as far as this user can see",
            server.main_pid
        ),
        remedy: "omit --pid and --unit to have the server found, or name its main process"
            .to_owned(),
    };
    terminal::warning(&Warning::new(
        "not_behind_url",
        gap.reason.clone(),
        gap.remedy.clone(),
    ));
    server.unavailable.push(gap);
}

/// The diagnosis of the record's one trial, with the verdict on its load.
fn diagnosis_of(args: &DiagnoseArgs, record: &RunRecord, figures: &TrialAnalysis) -> Diagnosis {
    let (trial, environment) = (&record.trials[0], &record.environment);
    analysis::diagnose_judged(trial, environment, args.load.error_limit, figures)
}

/// The URL to load: as given, or the port's root. Nothing of it matters where no load is made.
fn url(args: &DiagnoseArgs, contained: Option<&Contained>) -> Result<String, Failure> {
    let is_named = !args.pid.is_empty() || args.unit.is_some() || contained.is_some();
    match (&args.url, args.listen, contained) {
        (Some(url), ..) => Ok(url.clone()),
        (None, Some(port), _) => Ok(format!("http://127.0.0.1:{port}/")),
        (None, None, _) if args.no_load && is_named => Ok("http://localhost/".to_owned()),
        (None, None, Some(contained)) => contained.url(),
        (None, None, None) => Err(Failure::new(
            Exit::Usage,
            "no server, record or file was given",
            "give --url URL, --listen PORT, --container NAME, --pod NS/NAME, a record, or --from FILE",
        )),
    }
}

/// The servers that the flags name; empty: whoever is behind the URL.
fn named_servers(args: &DiagnoseArgs) -> Result<Vec<Server>, Failure> {
    let unknown = |e: sut::TargetError| Failure::new(Exit::Usage, e.to_string(), e.remedy());
    let named = if let Some(unit) = &args.unit {
        Some(discover::of_unit(unit).map_err(unknown)?)
    } else if !args.pid.is_empty() {
        if let Some(gone) = args.pid.iter().find(|&&pid| !discover::exists(pid)) {
            return Err(Failure::new(
                Exit::Usage,
                format!("there is no process {gone}"),
                "give the pid of the server's main process, or omit --pid to have it found",
            ));
        }
        Some(discover::of_pids(&args.pid, "server"))
    } else if let Some(port) = args.listen {
        let found = discover::on_port(port).ok_or_else(|| {
            Failure::new(
                Exit::Invalid,
                format!("no process that this user may see listens on port {port}"),
                "start the server, or run prony as root or as the server's user",
            )
        })?;
        Some(found)
    } else {
        None
    };
    Ok(named.map(examine::with_config).into_iter().collect())
}

/// The examined trial of an earlier record.
struct Earlier {
    /// As it was named.
    directory: String,
    started: String,
    trial: TrialRecord,
    environment: Vec<EnvironmentItem>,
}

fn stored_trial(directory: &Path) -> Result<Earlier, Failure> {
    let record = RunRecord::load(&DirStore::open(directory))
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let mut trials = record.trials.into_iter().rev();
    let examined = trials.find(|t| t.examination.is_some() && t.stage != PROOF_STAGE);
    let trial = examined.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            format!(
                "`{}` has no trial in which a server was examined",
                directory.display()
            ),
            "give a record of `prony diagnose --out` or `prony run`",
        )
    })?;
    Ok(Earlier {
        directory: directory.display().to_string(),
        started: record.manifest.started,
        trial,
        environment: record.environment,
    })
}

/// What a request takes more of than in the record of `--against`.
fn against(record: &RunRecord, earlier: &Earlier, error_limit: f64) -> Against {
    analysis::against_earlier(
        (&earlier.directory, &earlier.started),
        (&earlier.trial, &earlier.environment),
        (&record.trials[0], &record.environment),
        error_limit,
    )
}

/// What stands beside the diagnosis on a terminal: slow seconds, and the contrast with an earlier record.
fn show_beside(beside: &Beside<'_>) -> Result<(), Failure> {
    let seconds = beside.watched.map(report::text::watched_text);
    if let Some(text) = seconds.filter(|text| !text.is_empty()) {
        terminal::result(&text)?;
    }
    match beside.against {
        Some(against) => terminal::result(&report::text::against_text(against)),
        None => Ok(()),
    }
}

/// A URL, or what another tool printed, where other tools take theirs.
fn is_a_record(given: &Path) -> Result<(), Failure> {
    let said = given.display().to_string();
    let (what, flag) = match (said.contains("://"), given.is_file()) {
        (true, _) => ("a URL", "--url"),
        (false, true) => ("a file", "--from"),
        (false, false) => return Ok(()),
    };
    Err(Failure::new(
        Exit::Usage,
        format!("`{said}` is {what}, and no directory of a record"),
        format!("prony diagnose {flag} {said}"),
    ))
}

/// A stored record: the diagnosis of every trial that was examined, the run's best first.
pub(super) fn stored(args: &DiagnoseArgs, directory: &Path) -> Result<Exit, Failure> {
    let store = DirStore::open(directory);
    let record = RunRecord::load(&store)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    let analysis = analyse(&record)?;
    let mut diagnoses = super::report::diagnoses(&store, &record, &analysis)?;
    // The copies of a proof are not what was asked about, unless there is nothing else.
    let of_proof = |id: &u32| {
        let mut trials = record.trials.iter();
        trials.any(|t| t.id == *id && t.stage == PROOF_STAGE)
    };
    if !diagnoses.keys().all(of_proof) {
        diagnoses.retain(|id, _| !of_proof(id));
    }
    let Some((id, diagnosis)) = diagnoses.first_key_value() else {
        return Err(Failure::new(
            Exit::Usage,
            format!("`{}` has no trial with a load", directory.display()),
            "give the directory of a run in which at least one trial ended",
        ));
    };
    if diagnoses.len() == 1 {
        let only = RunRecord {
            trials: record.trials.into_iter().filter(|t| t.id == *id).collect(),
            ..record
        };
        let path = |name| super::report::beside::<Improvement>(&store, name, "what was improved");
        let improvement = match path(IMPROVEMENT)? {
            None => path(FORMER_IMPROVEMENT)?,
            found => found,
        };
        let against = super::report::against(&store)?;
        let watched = analysis::watched(&only, args.load.error_limit);
        let beside = Beside {
            on_copies: OnCopies {
                improvement: improvement.as_ref(),
                aa: None,
            },
            watched: watched.as_ref(),
            against: against.as_ref(),
        };
        let figures = analysis.trials.iter().find(|t| t.id == *id);
        let figures = figures.expect("the analysis has every trial of the record");
        show(args, &only, figures, diagnosis, &beside)?;
        return Ok(Exit::Valid);
    }
    if args.json {
        let directory = directory.display().to_string();
        let document = super::report::document(&store, &record, &analysis, &directory, &diagnoses)?;
        terminal::result(&super::to_json(&document))?;
    } else {
        for (id, diagnosis) in &diagnoses {
            let trial = record.trials.iter().find(|t| t.id == *id);
            let examination = trial.and_then(|t| t.examination.as_ref());
            let line = analysis.trials.iter().find(|t| t.id == *id);
            let head = line.map(report::text::trial_line).unwrap_or_default();
            let text = report::text::diagnosis_text(diagnosis, examination, terminal::style());
            terminal::result(&format!("trial {id}: {head}\n{text}\n"))?;
        }
        let watched = analysis::watched(&record, args.load.error_limit);
        show_beside(&Beside {
            watched: watched.as_ref(),
            against: super::report::against(&store)?.as_ref(),
            ..Beside::default()
        })?;
    }
    Ok(Exit::Valid)
}

pub(super) fn not_stored(out: &Path, cause: &str) -> Failure {
    Failure::new(
        Exit::Environment,
        format!("writing the record to `{}`: {cause}", out.display()),
        "give a directory on a disk with space with --out",
    )
}

/// The directory of a record to be, before anything is measured for it.
pub(super) fn new_record(out: &Path) -> Result<DirStore, Failure> {
    if out.join("manifest.json").exists() {
        return Err(Failure::new(
            Exit::Usage,
            format!("`{}` already holds a record", out.display()),
            "give another directory",
        ));
    }
    DirStore::create(out).map_err(|e| not_stored(out, &e.to_string()))
}

/// What `--improve` tried and kept, in a record.
const IMPROVEMENT: &str = "improvement.json";
/// The same in records of before it had that name.
const FORMER_IMPROVEMENT: &str = "tuning.json";

/// Stores the record, what was proved, the path of the improvement, and its page.
fn save(
    store: &mut DirStore,
    record: &RunRecord,
    analysis: &RunAnalysis,
    proofs: &[StoredProof],
    beside: &Beside<'_>,
) -> Result<(), Failure> {
    let out = store.root().to_owned();
    let failed = |cause: String| not_stored(&out, &cause);
    record.save(store).map_err(|e| failed(e.to_string()))?;
    super::report::save_proofs(store, proofs).map_err(failed)?;
    if let Some(improvement) = beside.on_copies.improvement {
        let text = super::to_json(improvement);
        store.put(IMPROVEMENT, text.as_bytes()).map_err(failed)?;
    }
    if let Some(against) = beside.against {
        super::report::save_against(store, against).map_err(failed)?;
    }
    store.give_up_reserve();
    let diagnoses = super::report::diagnoses(store, record, analysis)?;
    super::report::write_html(store, record, analysis, &diagnoses).map_err(failed)
}

/// What is said beside a diagnosis.
#[derive(Clone, Copy, Default)]
struct Beside<'a> {
    on_copies: OnCopies<'a>,
    watched: Option<&'a Watched>,
    against: Option<&'a Against>,
}

fn show(
    args: &DiagnoseArgs,
    record: &RunRecord,
    figures: &TrialAnalysis,
    diagnosis: &Diagnosis,
    beside: &Beside<'_>,
) -> Result<(), Failure> {
    let on_copies = beside.on_copies;
    let trial = &record.trials[0];
    let examination = trial.examination.as_ref();
    if args.json {
        let outcome = trial.outcome.as_ref();
        let load = outcome.map(|outcome| (&trial.load, outcome, &figures.verdict));
        let mut document = report::json::diagnose_document(load, examination, diagnosis, on_copies);
        if let Loaded::Ours(load) = &mut document.load {
            load.agents.clone_from(&figures.agents);
        }
        document.watched = beside.watched.cloned();
        document.against = beside.against.cloned();
        return terminal::result(&super::to_json(&document));
    }
    let style = terminal::style();
    let mut text = report::text::diagnosis_text(diagnosis, examination, style);
    if let Some(proof) = on_copies.aa {
        text = format!("{}\n{text}", report::text::aa_text(proof, style));
    }
    if let Some(improvement) = on_copies.improvement {
        text = format!(
            "{}\n{text}",
            report::text::improvement_text(improvement, style)
        );
    }
    let watching = examination.and_then(|e| e.watching.as_ref());
    if let Some(overhead) = watching.and_then(|w| w.overhead.as_ref()) {
        text.push_str(&format!("\n{}\n", overhead_text(overhead)));
    }
    if trial.outcome.is_some() {
        text.push_str(&format!("\nload: {}\n", report::text::trial_line(figures)));
        text.push_str(&report::hosts::agents_text(&figures.agents));
    }
    terminal::result(&text)?;
    show_beside(beside)
}

fn exit(
    record: &RunRecord,
    figures: &TrialAnalysis,
    diagnosis: &Diagnosis,
    interrupt: &Interrupt,
) -> Exit {
    if interrupt.asked() {
        Exit::Interrupted
    } else if record.trials[0].outcome.is_some() && !figures.verdict.valid
        || diagnosis
            .findings
            .first()
            .is_some_and(|f| f.cause == "unknown")
    {
        Exit::Invalid
    } else if diagnosis
        .findings
        .iter()
        .any(|f| f.proof.as_ref().is_some_and(|p| p.result != "proved"))
    {
        Exit::Failed
    } else {
        Exit::Valid
    }
}
