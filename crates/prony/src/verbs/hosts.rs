//! `prony hosts check`, and the hosts that flags name.

use crate::cli::{HostFlags, HostsAction, HostsArgs, HostsCheckArgs};
use crate::executor::source::unreached;
use crate::exit::{Exit, Failure};
use crate::terminal;
use agent::carrier::{Program, Way};
use agent::nats::{self, Access, Reached};
use agent::{Agent, Fleet, Host, HostError, Right};
use plan::hosts::{HostSpec, HostWay};
use report::hosts::{HostDocument, HostState, HostsDocument};
use std::path::Path;

/// Runs the verb.
///
/// # Errors
/// [`Failure`] when no host is named, or the file cannot be read.
pub fn run(args: &HostsArgs) -> Result<Exit, Failure> {
    match &args.action {
        HostsAction::Check(args) => check(args),
    }
}

fn check(args: &HostsCheckArgs) -> Result<Exit, Failure> {
    let own = own()?;
    let reached = match args.hosts.fleet.access() {
        Some(access) => gathered(&access, args.hosts.agents, &own)?,
        None => {
            let hosts = named(&args.hosts)?;
            let reached = Fleet::try_reach(&hosts, &own, &[Right::Load, Right::Target]);
            hosts
                .into_iter()
                .map(|host| host.name)
                .zip(reached)
                .collect()
        }
    };
    let document = HostsDocument {
        format: report::json::FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: own.build,
        hosts: reached
            .iter()
            .map(|(host, agent)| described(host, agent))
            .collect(),
    };
    if args.json {
        terminal::result(&super::to_json(&document))?;
    } else {
        terminal::result(&report::hosts::hosts_text(&document))?;
    }
    let lacks = reached.iter().any(|(_, agent)| agent.is_err());
    Ok(if lacks {
        Exit::Environment
    } else {
        Exit::Valid
    })
}

/// The agents of a fleet.
fn gathered(access: &Access, count: Option<u32>, own: &Program) -> Result<Vec<Reached>, Failure> {
    let count = count.map(|count| count as usize);
    let gathered = nats::gather(access, count, own);
    gathered.map_err(|e| Failure::new(Exit::Environment, e.to_string(), &e.remedy))
}

/// The agents that flags name, all of which must be had.
///
/// # Errors
/// [`Failure`] for the first that cannot be.
pub fn reach(flags: &HostFlags) -> Result<Fleet, Failure> {
    let own = own()?;
    let agents = match flags.fleet.access() {
        Some(access) => {
            let reached = gathered(&access, flags.agents, &own)?;
            let agents = reached.into_iter().map(|(_, agent)| agent);
            agents.collect::<Result<_, _>>().map(Fleet::of)
        }
        None => Fleet::reach(&named(flags)?, &own),
    };
    agents.map_err(|e| unreached(&e))
}

fn described(host: &str, agent: &Result<Agent, HostError>) -> HostDocument {
    HostDocument {
        host: host.to_owned(),
        state: match agent {
            Err(error) => HostState::Unreachable {
                why: error.what.clone(),
                remedy: error.remedy.clone(),
            },
            Ok(agent) => HostState::Ready {
                hostname: agent.hello.hostname.clone(),
                boot_id: agent.hello.boot_id.clone(),
                kernel: agent.hello.kernel.clone(),
                user: agent.hello.user,
                cpus: agent.hello.cpus.clone(),
                open_files: agent.hello.open_files,
                rights: agent
                    .hello
                    .rights
                    .iter()
                    .map(|r| r.name().to_owned())
                    .collect(),
                clock: agent.clock().seen(),
            },
        },
    }
}

/// The program that is sent, and whose build the agents must have.
pub fn own() -> Result<Program, Failure> {
    Program::own().map_err(|e| {
        Failure::new(
            Exit::Environment,
            format!("reading the program that runs: {e}"),
            "start it by a path that still leads to it",
        )
    })
}

/// The hosts that flags name, those of a file by its words.
///
/// # Errors
/// [`Failure`] for a file that cannot be read, no host, or one named twice.
pub fn named(flags: &HostFlags) -> Result<Vec<Host>, Failure> {
    let known = known(flags.hosts.as_deref())?;
    let hosts = match flags.on.as_slice() {
        [] => known,
        asked => asked
            .iter()
            .map(|word| of_word(word, &known))
            .collect::<Result<_, _>>()?,
    };
    let twice = (hosts.iter().enumerate())
        .find(|(i, host)| hosts[..*i].iter().any(|other| other.name == host.name));
    match (twice, hosts.is_empty()) {
        (Some((_, host)), _) => Err(Failure::new(
            Exit::Usage,
            format!("host {} is named twice", host.name),
            "name each once; --on HOST=THREADS gives one more of the load",
        )),
        (None, true) => Err(Failure::new(
            Exit::Usage,
            "no host is named",
            "name hosts: --on gen1,gen2, --hosts FILE, or --fleet URL",
        )),
        (None, false) => Ok(hosts),
    }
}

/// One host: of the file, or a destination of ssh.
///
/// # Errors
/// [`Failure`] for a file that cannot be read, or a name that is none.
pub fn one(file: Option<&Path>, name: &str) -> Result<Host, Failure> {
    of_word(name, &known(file)?)
}

/// The hosts of a file, if there is one.
fn known(file: Option<&Path>) -> Result<Vec<Host>, Failure> {
    let Some(path) = file else {
        return Ok(Vec::new());
    };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::new(
            Exit::Usage,
            format!("reading `{name}`: {e}"),
            "give a file with [host.NAME] sections; docs/hosts.md shows one",
        )
    })?;
    let hosts = plan::hosts::parse(&text, &name)
        .map_err(|e| Failure::new(Exit::Usage, e.to_string(), e.remedy()))?;
    Ok(hosts.into_iter().map(of_file).collect())
}

/// As a file describes it.
pub fn of_file(spec: HostSpec) -> Host {
    Host {
        name: spec.name,
        way: match spec.way {
            HostWay::Ssh(destination) => Way::Ssh(destination),
            HostWay::Via(argv) => Way::Via(argv),
        },
        binary: spec.binary,
        sudo: spec.sudo,
        threads: spec.threads,
    }
}

/// `NAME` or `NAME=THREADS`: a host of the file, or a destination of ssh.
fn of_word(word: &str, known: &[Host]) -> Result<Host, Failure> {
    let (name, threads) = match word.split_once('=') {
        None => (word, None),
        Some((name, threads)) => (name, Some(threads.parse::<u32>().ok().filter(|n| *n > 0))),
    };
    if name.is_empty() || name.starts_with('-') || threads == Some(None) {
        return Err(Failure::new(
            Exit::Usage,
            format!("`{word}` in --on is no host"),
            "give HOST, or HOST=THREADS with at least 1",
        ));
    }
    let mut host = match known.iter().find(|host| host.name == name) {
        Some(host) => host.clone(),
        None => Host::ssh(name),
    };
    host.threads = threads.flatten().or(host.threads);
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(on: &[&str]) -> Result<Vec<Host>, String> {
        let flags = HostFlags {
            on: on.iter().map(|&word| word.to_owned()).collect(),
            ..HostFlags::default()
        };
        named(&flags).map_err(|failure| failure.message)
    }

    #[test]
    fn hosts_are_destinations_of_ssh_with_threads() {
        let two = hosts(&["gen1", "me@gen2=4"]).unwrap();
        assert_eq!(two[0], Host::ssh("gen1"));
        assert_eq!((two[1].name.as_str(), two[1].threads), ("me@gen2", Some(4)));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for word in ["", "-oProxyCommand=x", "a=0", "a=b", "=3"] {
            assert!(hosts(&[word]).unwrap_err().contains("is no host"), "{word}");
        }
        assert_eq!(hosts(&["a", "a=2"]).unwrap_err(), "host a is named twice");
        assert_eq!(hosts(&[]).unwrap_err(), "no host is named");
    }
}
