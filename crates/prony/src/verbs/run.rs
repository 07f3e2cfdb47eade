//! `prony run`: an experiment from its file to its report.

use crate::cli::RunArgs;
use crate::executor::run::{Ended, analyse, run as run_trials};
use crate::executor::source::{self, Source};
use crate::executor::target::Targets;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::store::DirStore;
use crate::verbs::built_in;
use crate::{host, terminal};
use plan::Plan;
use record::run::FORMAT;
use record::{EnvironmentItem, Manifest, RunRecord, Warning};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use sut::Launcher;
use sut::tuning::{Row, State, Tuned, Tuner};

/// The group of the environment's items that the experiment's profile has set.
const TUNE_GROUP: &str = "tune";

/// An experiment file as given.
struct Experiment {
    text: String,
    /// Name for messages.
    name: String,
    /// Directory that its templates are relative to.
    directory: PathBuf,
    built_in: bool,
}

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when the experiment is wrong or the environment lacks something.
pub fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let experiment = read_experiment(args.file.as_deref())?;
    let mut plan = parse(&experiment, &args.scale)?;
    plan.skip(host::lack);
    if let Some(half_width) = args.until {
        plan.set_until(half_width);
    }
    if args.dry_run {
        let style = terminal::style();
        terminal::result(&report::text::plan_text(&plan, style))?;
        return Ok(Exit::Valid);
    }
    check_something_is_left(&plan)?;
    let mut warnings = fit_to_host(&mut plan, experiment.built_in)?;
    let interrupt = Interrupt::install()?;
    super::recover();
    let out = out_directory(args, &experiment);
    // Before the record, so that a refusal leaves no directory behind.
    let mut source = hosts_of(args, &mut plan)?;
    let launcher = crate::executor::launcher()?;
    let mut targets = targets_of(launcher, &mut plan)?;
    // Before the record, whose environment is that of the run.
    let tuned = tune(&plan, &targets.here)?;
    let (mut store, mut record, plan) = open_record(args, &out, &experiment, plan)?;
    if let Some(tuned) = &tuned {
        record.environment.retain(|item| item.group != TUNE_GROUP);
        record
            .environment
            .extend(tuned.rows.iter().map(environment_item));
        warnings.extend(tuned.rows.iter().filter_map(not_tuned));
        save_head(&record, &mut store)?;
    }
    warnings.extend(plan.warnings.iter().cloned());
    warnings.iter().for_each(terminal::warning);
    terminal::note(&format!(
        "{}: {} trials, about {}; record in {}",
        experiment.name,
        plan.trials.len(),
        plan.time(),
        out.display()
    ));
    let interrupted = || interrupt.asked();
    let ended = run_trials(
        &plan,
        record,
        &mut store,
        &mut targets,
        &mut source,
        &interrupted,
    )?;
    if let Some(mut tuned) = tuned {
        for (name, why) in tuned.put_back() {
            terminal::warning(&Warning::new(
                "not_put_back",
                format!("{name} was changed for this run and could not be restored: {why}"),
                "see it with `prony tune show`, and set it by hand",
            ));
        }
    }
    finish(args, ended, &mut store)
}

/// What starts the targets of the plan, on its hosts too; cells that lack something there are skipped.
fn targets_of(launcher: Launcher, plan: &mut Plan) -> Result<Targets, Failure> {
    let hosts = plan.target_hosts().into_iter().cloned();
    let hosts: Vec<agent::Host> = hosts.map(super::hosts::of_file).collect();
    let mut targets = Targets::reach(launcher, &hosts)?;
    let mut gone = None;
    plan.skip(|trial| {
        targets.lack(trial).unwrap_or_else(|failure| {
            gone.get_or_insert(failure);
            None
        })
    });
    match gone {
        Some(failure) => Err(failure),
        None => check_something_is_left(plan).map(|()| targets),
    }
}

/// Where the loads of the plan are sent from; its hosts are reached.
fn hosts_of(args: &RunArgs, plan: &mut Plan) -> Result<Source, Failure> {
    let refused = |what: &str, remedy: &str| Err(Failure::new(Exit::Usage, what, remedy));
    if !args.from.is_asked() {
        if args.address.is_some() {
            return refused(
                "--address is for loads from other hosts, and none is named",
                "name them: --on gen1,gen2, or --hosts FILE",
            );
        }
        let hosts = plan.load_hosts();
        if hosts.is_empty() {
            return Ok(Source::Here);
        }
        for trial in &plan.trials {
            source::check(&trial.load)?;
        }
        let hosts = hosts.into_iter().cloned().map(super::hosts::of_file);
        return Source::reach(&hosts.collect::<Vec<_>>());
    }
    if plan.trials.iter().any(|trial| trial.topology.is_some()) {
        return refused(
            "--on and the experiment's [topology] do not go together: there the load comes from its client",
            "leave one of them out",
        );
    }
    let source = Source::asked(&args.from)?;
    for trial in &mut plan.trials {
        source::check(&trial.load)?;
        trial.load.hosts = source.hosts();
        let loopback = (trial.targets.iter_mut()).filter(|t| t.listen.ip().is_loopback());
        for (target, address) in loopback.zip(args.address.iter().cycle()) {
            target.listen.set_ip(*address);
        }
    }
    Ok(source)
}

/// Sets what the experiment's profile asks for; it is put back when the value is dropped.
fn tune(plan: &Plan, launcher: &Launcher) -> Result<Option<Tuned>, Failure> {
    let Some(profile) = &plan.tune else {
        return Ok(None);
    };
    let tuned = Tuner::default()
        .apply(profile, &launcher.journal)
        .map_err(|e| {
            let what = format!("the journal of what is changed on this host: {e}");
            Failure::new(Exit::Environment, what, e.remedy())
        })?;
    terminal::note(&format!(
        "profile {} is applied during the run; settings changed: {}",
        profile.name,
        tuned.changed()
    ));
    Ok(Some(tuned))
}

/// What a setting was while the experiment ran.
fn environment_item(row: &Row) -> EnvironmentItem {
    let flat = |text: &Option<String>| text.as_deref().unwrap_or_default().replace('\t', " ");
    let value = match row.state {
        State::Set => Some(format!("{} (before: {})", flat(&row.new), flat(&row.old))),
        State::Same => Some(flat(&row.old)),
        _ => None,
    };
    EnvironmentItem {
        group: TUNE_GROUP.to_owned(),
        name: row.name.clone(),
        reason: value.is_none().then(|| format!("not set: {}", row.note)),
        value,
    }
}

/// The run goes on without a setting that this host has but does not let prony make.
fn not_tuned(row: &Row) -> Option<Warning> {
    (row.state == State::Refused).then(|| {
        let seen = format!("{} was not set to {}: {}", row.name, row.wanted, row.note);
        Warning::new("not_tuned", seen, row.remedy.clone())
    })
}

/// A file, or a built-in experiment by its name where there is no such file.
fn read_experiment(file: Option<&Path>) -> Result<Experiment, Failure> {
    let path = file.unwrap_or(Path::new(built_in::QUICKSTART));
    let name = path.display().to_string();
    let is_free = file.is_none() || !path.exists();
    if let Some(text) = built_in::experiment(&name).filter(|_| is_free) {
        return Ok(Experiment {
            text: text.to_owned(),
            name: format!("{name}.toml"),
            directory: PathBuf::from("."),
            built_in: true,
        });
    }
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::new(
            Exit::Usage,
            format!("reading the experiment file `{name}`: {e}"),
            match e.kind() {
                ErrorKind::InvalidData => {
                    "an experiment file is TOML, which is text in UTF-8".to_owned()
                }
                _ => no_such_experiment(&name),
            },
        )
    })?;
    Ok(Experiment {
        text,
        name,
        directory: path.parent().unwrap_or(Path::new(".")).to_owned(),
        built_in: false,
    })
}

fn no_such_experiment(name: &str) -> String {
    let names: Vec<&str> = built_in::names().collect();
    let meant = plan::near_miss(name, names.iter().copied());
    let meant = meant.map_or_else(String::new, |n| format!("did you mean `{n}`? "));
    format!(
        "{meant}give the path of an experiment file, or one of those built in: {}",
        names.join(", ")
    )
}

fn parse(experiment: &Experiment, scale: &str) -> Result<Plan, Failure> {
    let read = |name: &str| match built_in::file(name).filter(|_| experiment.built_in) {
        Some(text) => Ok(text.to_owned()),
        None => std::fs::read_to_string(experiment.directory.join(name)).map_err(|e| e.to_string()),
    };
    Plan::parse_at(&experiment.text, &experiment.name, scale, &read)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))
}

/// When every cell lacks something, the first reason ends the run before it begins.
fn check_something_is_left(plan: &Plan) -> Result<(), Failure> {
    match plan.skipped.first() {
        Some(first) if plan.trials.is_empty() => Err(Failure::new(
            Exit::Environment,
            format!("no cell of the experiment can run here: {}", first.reason),
            first.remedy.clone(),
        )),
        _ => Ok(()),
    }
}

/// Checks the CPUs that the plan pins to. The built-in evaluation runs anywhere: it goes without pinning
/// where the CPUs are not there, and says so.
fn fit_to_host(plan: &mut Plan, built_in: bool) -> Result<Vec<Warning>, Failure> {
    let mut asked: Vec<u32> = plan
        .trials
        .iter()
        .flat_map(|t| {
            // Those of other hosts are checked there.
            let of_load = t.load.cpus.iter().filter(|_| t.load.hosts.is_empty());
            let here = t.targets.iter().filter(|s| t.reached_host(s).is_none());
            of_load.chain(here.flat_map(|s| &s.cpus))
        })
        .copied()
        .collect();
    asked.sort_unstable();
    asked.dedup();
    let Err(missing) = host::check_cpus(&asked, "the experiment") else {
        return Ok(Vec::new());
    };
    if !built_in {
        return Err(too_small(missing, plan));
    }
    for trial in &mut plan.trials {
        trial.load.cpus.clear();
        trial.targets.iter_mut().for_each(|t| t.cpus.clear());
    }
    Ok(vec![Warning::new(
        "not_pinned",
        format!("{}; server and generator share CPUs", missing.message),
        "run on a host with two free CPUs to measure the server alone",
    )])
}

/// A scale for a larger machine is told apart from CPUs that were never there.
fn too_small(missing: Failure, plan: &Plan) -> Failure {
    let smaller: Vec<&str> = plan
        .scales
        .iter()
        .map(String::as_str)
        .filter(|s| *s != plan.scale)
        .collect();
    match (plan.scale.as_str(), smaller.as_slice()) {
        ("small" | "", _) | (_, []) => missing,
        (scale, _) => Failure::new(
            missing.exit,
            format!(
                "this machine is too small for the scale `{scale}`: {}",
                missing.message
            ),
            format!(
                "take another scale (--scale {}), or a machine with these CPUs",
                smaller.join(", --scale ")
            ),
        ),
    }
}

fn out_directory(args: &RunArgs, experiment: &Experiment) -> PathBuf {
    args.out.clone().unwrap_or_else(|| {
        let stem = Path::new(&experiment.name)
            .file_stem()
            .map_or_else(|| "run".to_owned(), |s| s.to_string_lossy().into_owned());
        PathBuf::from("results").join(format!("{stem}-{}", host::timestamp_for_name()))
    })
}

/// A new record, or the one to continue, and the plan to run.
fn open_record(
    args: &RunArgs,
    out: &Path,
    experiment: &Experiment,
    plan: Plan,
) -> Result<(DirStore, RunRecord, Plan), Failure> {
    let existing = out.join("manifest.json").exists();
    if existing && !args.resume {
        return Err(Failure::new(
            Exit::Usage,
            format!("`{}` already holds a record", out.display()),
            "give another directory, or --continue to run the trials that it lacks",
        ));
    }
    let writing = |e: std::io::Error| {
        Failure::new(
            Exit::Environment,
            format!("writing the record to `{}`: {e}", out.display()),
            "give a directory on a disk with space with --out",
        )
    };
    let mut store = DirStore::create(out).map_err(writing)?;
    let (record, plan) = if existing {
        let mut record = continued(&store, experiment, &plan)?;
        let plan = grown(plan, &record);
        record.plan = stored(&plan);
        (record, plan)
    } else {
        (new_record(experiment, &plan), plan)
    };
    save_head(&record, &mut store)?;
    Ok((store, record, plan))
}

fn save_head(record: &RunRecord, store: &mut DirStore) -> Result<(), Failure> {
    record
        .save_head(store)
        .map_err(|e| Failure::new(Exit::Environment, e.to_string(), e.remedy()))
}

fn new_record(experiment: &Experiment, plan: &Plan) -> RunRecord {
    RunRecord {
        manifest: Manifest {
            format: FORMAT,
            prony: env!("CARGO_PKG_VERSION").to_owned(),
            question: plan.question.clone(),
            command: std::env::args().collect(),
            started: host::timestamp(),
            ended: None,
            interrupted: false,
        },
        plan: stored(plan),
        experiment: experiment.text.clone(),
        environment: monitor::environment::collect(&linux::Root::default()),
        trials: Vec::new(),
        traffic: None,
    }
}

/// The record to go on with; refused when it belongs to another experiment.
fn continued(store: &DirStore, experiment: &Experiment, plan: &Plan) -> Result<RunRecord, Failure> {
    let record =
        RunRecord::load(store).map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    if record.experiment != experiment.text {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "`{}` holds a record of another experiment file than `{}`",
                store.root().display(),
                experiment.name
            ),
            "continue with the file that started the record (its copy is experiment.toml there), or give another directory",
        ));
    }
    let scale = record.plan["scale"].as_str().unwrap_or(&plan.scale);
    if scale != plan.scale {
        return Err(Failure::new(
            Exit::Usage,
            format!(
                "`{}` holds a record at the scale `{scale}`, not `{}`",
                store.root().display(),
                plan.scale
            ),
            format!("continue with --scale {scale}, or give another directory"),
        ));
    }
    Ok(record)
}

fn stored(plan: &Plan) -> serde_json::Value {
    serde_json::to_value(plan).expect("a plan is plain data with string keys")
}

/// The plan to go on with: as parsed, because the host may have now what it lacked, and the reverse; but the stored
/// one where an earlier start has added blocks to it. A precision that is asked for now replaces the one that was.
fn grown(plan: Plan, record: &RunRecord) -> Plan {
    let Ok(mut was) = Plan::deserialize(&record.plan) else {
        return plan;
    };
    let blocks = |of: &Plan, stage: usize| {
        let of_stage = of.trials.iter().filter(|t| t.stage == stage);
        of_stage.map(|t| t.block + 1).max().unwrap_or(0)
    };
    let until = plan.until.or(was.until);
    let has_grown = (0..plan.stages.len()).any(|s| blocks(&was, s) > blocks(&plan, s));
    if !has_grown {
        return Plan { until, ..plan };
    }
    was.skip(host::lack);
    Plan { until, ..was }
}

/// Closes the record, writes the report, shows the result.
fn finish(args: &RunArgs, ended: Ended, store: &mut DirStore) -> Result<Exit, Failure> {
    let Ended {
        mut record,
        interrupted,
        store_failed,
    } = ended;
    record.manifest.ended = Some(host::timestamp());
    record.manifest.interrupted = interrupted;
    store.give_up_reserve();
    let closed = record.manifest.save(store);
    let analysis = analyse(&record)?;
    let diagnoses = super::report::diagnoses(&*store, &record, &analysis)?;
    let reported = super::report::write_html(store, &record, &analysis, &diagnoses);
    let judged = super::report::Judged {
        record: &record,
        analysis: &analysis,
        diagnoses: &diagnoses,
        against: None,
    };
    super::report::show(store.root(), &judged, args.json, reported.is_ok())?;
    if let Some(cause) = store_failed
        .or(closed.err().map(|e| e.to_string()))
        .or(reported.err())
    {
        return Err(Failure::new(
            Exit::Environment,
            format!(
                "{cause}; the run ended early; the result above is what was measured until then"
            ),
            "free space, then go on with --continue",
        ));
    }
    Ok(match (interrupted, analysis.verdict.valid) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Valid,
        (false, false) => Exit::Invalid,
    })
}
