//! One module a verb: flags to work to output.

mod agent;
mod built_in;
mod check;
mod compare;
mod completions;
pub(crate) mod diagnose;
mod dropin;
mod find;
mod gate;
pub(crate) mod hosts;
mod import;
mod import_workload;
mod index;
mod load;
mod man;
mod origin;
mod pasted;
mod replay;
mod report;
mod run;
mod server_host;
mod traffic;
mod traffic_lab;
mod tune;

use crate::cli::Verb;
use crate::exit::{Exit, Failure};
use crate::terminal;
use ::traffic::LoadError;
use record::Warning;
use serde::Serialize;
use sut::tuning::SettingChange;
use sut::{Change, Journal, Recovered};

/// Does what the command line asks.
///
/// # Errors
/// [`Failure`] when the work could not be done; a result that is not valid is not a failure but an [`Exit`].
pub fn run(verb: &Verb) -> Result<Exit, Failure> {
    match verb {
        Verb::Load(args) => load::run(args),
        Verb::Ab(args) => dropin::ab::run(&args.args),
        Verb::Wrk(args) => dropin::wrk::run(&args.args),
        Verb::Wrk2(args) => dropin::wrk::run_2(&args.args),
        Verb::Weighttp(args) => dropin::weighttp::run(&args.args),
        Verb::Origin(args) => origin::run(args),
        Verb::Agent(args) => agent::run(args),
        Verb::Hosts(args) => hosts::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Gate(args) => gate::run(args),
        Verb::Diagnose(args) => diagnose::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Check(args) => check::run(args),
        Verb::Tune(args) => tune::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Traffic(args) => traffic::run(args),
        Verb::Completions(args) => completions::run(args),
        Verb::Man(args) => man::run(args),
    }
}

/// Undoes what a killed prony left on this host, and says so; how many changes there were, and how many of them could
/// not be undone.
fn recover() -> (usize, usize) {
    let recovered = Journal::recover(&sut::state_dir());
    let failed = recovered.iter().filter(|r| r.failed.is_some()).count();
    let count = recovered.len();
    for undone in recovered {
        let what = match &undone.change {
            Change::Directory { path } => format!("directory {}", path.display()),
            Change::Processes { .. } => format!("{} process(es)", undone.killed.len()),
            Change::Cgroup { path } => format!("control group {}", path.display()),
            Change::Namespace { name } => format!("network namespace {name}"),
            Change::File { path, before } => format!("{} set back to {before}", path.display()),
            Change::Setting(setting) => {
                recovered_setting(setting, &undone);
                continue;
            }
        };
        match undone.failed {
            None => terminal::note(&format!("removed what a killed prony left: {what}")),
            Some(cause) => terminal::warning(&Warning::new(
                "not_recovered",
                format!("a killed prony left {what}, which cannot be removed: {cause}"),
                "the next start tries again; run it as the user who ran the killed one",
            )),
        }
    }
    (count, failed)
}

/// Says what became of a setting that a killed prony had changed.
fn recovered_setting(setting: &SettingChange, undone: &Recovered) {
    let name = &setting.name;
    match (&undone.left, &undone.failed) {
        (Some(why), _) => terminal::warning(&Warning::new(
            "setting_left",
            format!("a killed prony had changed {name}, and it was left so: {why}"),
            format!(
                "it was `{}` before; set it by hand if you want it back",
                setting.old
            ),
        )),
        (None, Some(cause)) => terminal::warning(&Warning::new(
            "not_recovered",
            format!("a killed prony has changed {name}, which cannot be put back: {cause}"),
            format!(
                "the next start tries again; it was `{}` before",
                setting.old
            ),
        )),
        (None, None) => terminal::note(&format!(
            "put back what a killed prony left: {name} = {}",
            setting.old
        )),
    }
}

/// Pretty JSON of one of our documents.
fn to_json(document: &impl Serialize) -> String {
    serde_json::to_string_pretty(document)
        .expect("our documents have string keys and finite numbers, so they serialise")
}

/// Writes a result to a file.
fn write_file(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|e| {
        Failure::new(
            Exit::Environment,
            format!("writing {}: {e}", path.display()),
            "choose a path in a directory that exists and can be written",
        )
    })
}

/// The exit code that an error of the load has.
pub(crate) fn load_failure(error: &LoadError) -> Failure {
    let exit = match error {
        // Nothing answers under a name that has no address.
        LoadError::Resolve { .. } => Exit::Invalid,
        LoadError::Url { .. }
        | LoadError::Scheme { .. }
        | LoadError::Credentials { .. }
        | LoadError::NoAddressOfFamily { .. }
        | LoadError::SourceFamily { .. }
        | LoadError::Method { .. }
        | LoadError::Workload { .. }
        | LoadError::Header { .. }
        | LoadError::BodyFile { .. }
        | LoadError::Http { .. }
        | LoadError::Sse { .. }
        | LoadError::Pem { .. }
        | LoadError::NotPositive { .. }
        | LoadError::Timeout { .. }
        | LoadError::TooLong { .. }
        | LoadError::NoEnd => Exit::Usage,
        _ => Exit::Environment,
    };
    Failure::new(exit, error.to_string(), error.remedy())
}
