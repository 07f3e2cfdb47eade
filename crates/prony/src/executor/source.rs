//! Where loads are sent from: this process, or agents on other hosts. Whoever loads asks here, and does not see which.

use super::drive::{Driven, Instrumentation, drive_any};
use crate::cli::HostFlags;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::store::DirStore;
use crate::terminal::Progress;
use crate::{host, verbs};
use agent::message::Stored;
use agent::{Agent, Fleet, FleetError, Host, HostError};
use record::{Carrier, HostPart, LoadSpec, Store};
use std::net::SocketAddr;
use traffic::{Load, Place};

/// Where loads are sent from.
pub enum Source {
    /// From this process.
    Here,
    /// From other hosts, those that a load names.
    Hosts(Box<Fleet>),
}

/// A load that can be started.
pub enum Ready<'a> {
    /// Its threads are this process's.
    Here(Box<Load>),
    /// Hosts carry it.
    Hosts {
        fleet: &'a mut Fleet,
        /// Where it goes, as seen from here.
        address: Option<SocketAddr>,
    },
}

impl Source {
    /// What the flags say; hosts are reached, and named in the load.
    ///
    /// # Errors
    /// [`Failure`] when a host cannot be reached, or the load is one that only this host can send.
    pub fn of(flags: &HostFlags, spec: &mut LoadSpec) -> Result<Self, Failure> {
        if !flags.is_asked() {
            host::check_cpus(&spec.cpus, "the load threads")?;
            return Ok(Self::Here);
        }
        check(spec)?;
        let source = Self::asked(flags)?;
        spec.hosts = source.hosts();
        Ok(source)
    }

    /// The hosts that the flags name, reached.
    ///
    /// # Errors
    /// [`Failure`] of the first that cannot be reached.
    pub fn asked(flags: &HostFlags) -> Result<Self, Failure> {
        Ok(Self::Hosts(Box::new(verbs::hosts::reach(flags)?)))
    }

    /// The names of the hosts; none for this process.
    pub fn hosts(&self) -> Vec<String> {
        match self {
            Self::Here => Vec::new(),
            Self::Hosts(fleet) => fleet.agents().iter().map(|a| a.host.clone()).collect(),
        }
    }

    /// Reaches hosts.
    ///
    /// # Errors
    /// [`Failure`] of the first that cannot be reached.
    pub fn reach(hosts: &[Host]) -> Result<Self, Failure> {
        let own = verbs::hosts::own()?;
        let fleet = Fleet::reach(hosts, &own).map_err(|e| unreached(&e))?;
        Ok(Self::Hosts(Box::new(fleet)))
    }

    /// From the host that started this process to diagnose a server here: it speaks on the standard streams. What ends
    /// there ends here: `interrupt` is asked.
    ///
    /// # Errors
    /// [`Failure`] when nobody speaks.
    pub fn caller(spec: &mut LoadSpec, interrupt: &Interrupt) -> Result<Self, Failure> {
        let host = Host::ssh("caller");
        let interrupt = interrupt.clone();
        let (input, output) = (std::io::stdin(), Box::new(std::io::stdout()));
        let agent = Agent::over(&host, input, output, move || interrupt.ask());
        let mut agent = agent.map_err(|e| unreached(&e))?;
        // As the person there calls it.
        agent.host.clone_from(&agent.hello.hostname);
        spec.hosts = vec![agent.host.clone()];
        Ok(Self::Hosts(Box::new(Fleet::of(vec![agent]))))
    }

    /// Hands the files of a record to that host, but for its page, which is made there.
    ///
    /// # Errors
    /// [`Failure`] when a file cannot be read, or the way is cut.
    pub fn hand(&self, store: &DirStore) -> Result<(), Failure> {
        let Self::Hosts(fleet) = self else {
            return Ok(());
        };
        let failed = |e: String| {
            Failure::new(
                Exit::Environment,
                format!("handing the record over: {e}"),
                "",
            )
        };
        let all = store.list("").map_err(failed)?;
        // By the manifest a record is known to be there.
        let (last, first): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|path| path == "manifest.json");
        for path in first.into_iter().chain(last) {
            if path.starts_with("report.") || path.starts_with('.') {
                continue;
            }
            let content = store.get(&path).map_err(failed)?.unwrap_or_default();
            let handed = fleet.agents()[0].hand(Stored { path, content });
            handed.map_err(|e| unreached(&e))?;
        }
        Ok(())
    }

    /// Makes a load ready.
    ///
    /// # Errors
    /// [`Failure`] when it cannot be made from there.
    pub fn prepare(&mut self, spec: &LoadSpec) -> Result<Ready<'_>, Failure> {
        match self {
            Self::Here => {
                let load = Load::prepare(spec).map_err(|e| verbs::load_failure(&e))?;
                Ok(Ready::Here(Box::new(load)))
            }
            Self::Hosts(fleet) => {
                let address = traffic::address_of(spec);
                let is_own = |address: &SocketAddr| address.ip().is_loopback();
                let here = host::boot_id();
                let far = fleet.agents().iter().find(|a| a.hello.boot_id != here);
                match (address.filter(is_own), far) {
                    (Some(address), Some(far)) => Err(Failure::new(
                        Exit::Usage,
                        format!(
                            "{address} is an address of whichever host it is used on, and {} would load itself",
                            far.host
                        ),
                        "give the address under which the hosts of the load reach the server, and have the server listen there",
                    )),
                    _ => Ok(Ready::Hosts { fleet, address }),
                }
            }
        }
    }
}

impl Ready<'_> {
    /// Where it goes; `None` for a name that is not known here.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Here(load) => Some(load.place().clone()),
            Self::Hosts { address, .. } => address.map(Place::Tcp),
        }
    }

    /// Makes the load, with the monitors of this host around it, to its end or until `stop` says so; it is asked after
    /// every slice.
    ///
    /// # Errors
    /// [`Failure`] when the load could not start, or no host carried it to its end.
    pub fn drive(
        self,
        spec: &LoadSpec,
        around: &Instrumentation,
        progress: &mut Progress,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Driven, Failure> {
        let (fleet, address) = match self {
            Self::Here(load) => {
                let address = load.address();
                let driven = drive_any(address, || load.start(), spec, around, progress, stop);
                return driven.map_err(|e| verbs::load_failure(&e));
            }
            Self::Hosts { fleet, address } => (fleet, address),
        };
        let mut stopped = false;
        let Driven {
            outcome: gathered,
            watched,
            profiled,
            ..
        } = drive_any(
            address,
            || fleet.start(spec),
            spec,
            around,
            progress,
            &mut || {
                stopped |= stop();
                stopped
            },
        )
        .map_err(|e| failure(&e))?;
        let mut outcome = gathered.sum().ok_or_else(|| none(&gathered.parts))?;
        // A host that was lost stops the others, which is no person's doing.
        outcome.interrupted = stopped;
        Ok(Driven {
            outcome,
            hosts: gathered.parts,
            watched,
            profiled,
        })
    }
}

/// Refuses what only one host can send.
///
/// # Errors
/// [`Failure`] that names the flag.
pub fn check(spec: &LoadSpec) -> Result<(), Failure> {
    let refused = |what: &str, why: &str| {
        Err(Failure::new(
            Exit::Usage,
            format!("{what} cannot be given for a load from other hosts: {why}"),
            "leave one of them out",
        ))
    };
    if spec.transport != Carrier::Kernel {
        return refused("--transport", "agents use the TCP of their kernels");
    }
    if spec.unix.is_some() {
        return refused("--unix", "the socket is a file of one host");
    }
    if spec.habits.log_requests > 0 {
        return refused("a log of every request", "it stays on the hosts");
    }
    Ok(())
}

/// A host that has no agent.
pub fn unreached(error: &HostError) -> Failure {
    Failure::new(Exit::Environment, error.to_string(), &error.remedy)
}

/// What could not be done on another host.
pub fn failure(error: &FleetError) -> Failure {
    let exit = match error {
        FleetError::Divide { .. } | FleetError::File { .. } => Exit::Usage,
        FleetError::Refused { refusal, .. } => Exit::of(refusal.exit),
        FleetError::Host(_) => Exit::Environment,
    };
    Failure::new(exit, error.to_string(), error.remedy())
}

/// No host carried its part to the end.
fn none(parts: &[HostPart]) -> Failure {
    let whys = parts.iter().map(|part| {
        let why = part.failure().unwrap_or_default();
        format!("{}: {why}", part.host)
    });
    Failure::new(
        Exit::Invalid,
        format!(
            "no host carried its part: {}",
            whys.collect::<Vec<_>>().join("; ")
        ),
        "look at the hosts and at the connections to them, and repeat the load",
    )
}
