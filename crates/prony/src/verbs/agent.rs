//! `prony agent`: serves the prony at the other end of the standard streams, or waits for one in a fleet.

use crate::cli::{AgentArgs, AgentRight};
use crate::executor::carry::Loads;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::{host, terminal};
use agent::carrier::Program;
use agent::nats::{self, Access, Told};
use agent::{Hello, Right};
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use sut::{Change, ChangeId, Journal};

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when there is nobody to talk to, or when the other end was lost.
pub fn run(args: &AgentArgs) -> Result<Exit, Failure> {
    if let Some(access) = args.fleet.access() {
        return wait(&access, args);
    }
    if std::io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Usage,
            "an agent is not for people: its standard input is a terminal",
            "start the load elsewhere, it starts the agent here: prony load --on THIS-HOST URL; or wait at a broker: --fleet",
        ));
    }
    let own = |what: &str, e: &dyn std::fmt::Display| {
        Failure::new(Exit::Environment, format!("{what}: {e}"), "")
    };
    // Whatever is sent along is gone with the agent.
    let files = tempfile::Builder::new().prefix("prony-").tempdir();
    let files = files.map_err(|e| {
        let what = "making a directory for the files that are sent";
        let remedy = "set TMPDIR to a directory that may be written to";
        Failure::new(Exit::Environment, format!("{what}: {e}"), remedy)
    })?;
    let program = Program::own().map_err(|e| own("reading the program that runs", &e))?;
    let rights: Vec<Right> = args.allow.iter().map(|right| right_of(*right)).collect();
    let journalled = match rights.contains(&Right::Target) {
        true => Some(journal(files.path())?),
        false => None,
    };
    let hello = hello(&program.build, rights);
    let output = Box::new(std::io::stdout());
    let directory = files.path().to_owned();
    let give_up = move || give_up(&directory);
    let (input, generator) = (std::io::stdin(), Arc::new(Loads));
    let served = agent::serve(input, output, &hello, files.path(), generator, give_up);
    drop(files);
    if let Some((journal, id)) = journalled {
        // Not noted, the next start finds that it is gone.
        let _ = journal.undone(id);
    }
    match served {
        Ok(()) => Ok(Exit::Valid),
        Err(e) => Err(lost(&e)),
    }
}

/// Undoes what an agent that was killed left here, and notes the directory of this one's files.
fn journal(files: &Path) -> Result<(Journal, ChangeId), Failure> {
    // What cannot be undone is tried again by the next start, and said by one that a person makes.
    Journal::recover(&sut::state_dir());
    let journal = crate::executor::launcher()?.journal;
    let path = files.to_owned();
    let noted = journal.record(Change::Directory { path });
    let id = noted.map_err(|e| Failure::new(Exit::Environment, e.to_string(), e.remedy()))?;
    Ok((journal, id))
}

/// What this process is as an agent.
pub fn hello(build: &str, rights: Vec<Right>) -> Hello {
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build.to_owned(),
        hostname: host::kernel("hostname"),
        boot_id: host::boot_id(),
        kernel: host::kernel("osrelease"),
        user: rustix::process::geteuid().as_raw(),
        cpus: host::allowed_cpus(),
        open_files: open_files(),
        rights,
    }
}

/// Waits in a fleet, and serves each conductor by a process of its own.
fn wait(access: &Access, args: &AgentArgs) -> Result<Exit, Failure> {
    let interrupt = Interrupt::install()?;
    let rights: Vec<&str> = args.allow.iter().map(|r| right_of(*r).name()).collect();
    let rights = rights.join(",");
    let command = || {
        // The program may have been replaced since, and all of a fleet are of one build.
        let mut command = Command::new("/proc/self/exe");
        let name = std::env::args_os().next().unwrap_or_default();
        command
            .arg0(name)
            .args(["--quiet", "agent", "--allow", &rights]);
        command
    };
    let mut tell = |told: Told| match told {
        Told::Waits => terminal::note(&format!("waits in fleet {}", access.place)),
        Told::Serves(host) => terminal::note(&format!("serves {host}")),
        Told::Served("") => terminal::note("served it"),
        Told::Served(words) => terminal::note(&format!("served it: {words}")),
        Told::Lost(why) => terminal::note(&format!("is in no fleet: {why}; tries again")),
    };
    let ended = nats::wait(access, &command, &mut tell, &|| interrupt.asked());
    match ended {
        Ok(()) => Ok(Exit::Interrupted),
        Err(e) => Err(Failure::new(Exit::Environment, e.to_string(), &e.remedy)),
    }
}

/// Ends the process, and with it the load: another thread hangs in a pipe that nobody reads.
#[allow(
    clippy::exit,
    reason = "no return value reaches a thread that hangs in the kernel"
)]
fn give_up(files: &Path) {
    // They were the load's.
    let _ = std::fs::remove_dir_all(files);
    terminal::failure(&lost(&agent::ServeError::Silent));
    std::process::exit(i32::from(Exit::Invalid.code()));
}

fn lost(error: &agent::ServeError) -> Failure {
    Failure::new(Exit::Invalid, format!("{error}; the load was stopped"), "")
}

fn right_of(right: AgentRight) -> Right {
    match right {
        AgentRight::Load => Right::Load,
        AgentRight::Target => Right::Target,
    }
}

/// Files that this process may have open when it raises its limit; `u64::MAX` without one.
fn open_files() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.maximum.unwrap_or(u64::MAX)
}
