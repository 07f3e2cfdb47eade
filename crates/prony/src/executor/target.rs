//! A target that runs here, or on another host with an agent. Whoever measures asks here, and does not see which.

use super::source;
use crate::exit::Failure;
use crate::host;
use agent::message::WatchAsked;
use agent::{TargetEnd, TargetHosts, Watching};
use linux::namespace::Namespace;
use monitor::{Extras, GENERATOR, Watched};
use plan::{Lack, TargetSpec, TrialPlan};
use record::{RanOn, Series, TargetRecord, Unavailable, Warning};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use sut::{Launcher, RunningTarget, TargetError};

/// What starts targets: here, and on the hosts that the plan names.
pub struct Targets {
    pub here: Launcher,
    there: Option<TargetHosts>,
}

/// A target that runs.
pub struct Target {
    pub spec: TargetSpec,
    place: Place,
}

enum Place {
    Here(Box<RunningTarget>),
    There {
        host: RanOn,
        address: SocketAddr,
        record: Box<TargetRecord>,
    },
}

/// Why a target could not be started.
pub enum NotStarted {
    Here(TargetError),
    There(Failure),
}

impl Targets {
    /// On this host, and on those of the plan, which are reached.
    ///
    /// # Errors
    /// [`Failure`] of the first that cannot be reached, or whose agent may not run targets.
    pub fn reach(here: Launcher, hosts: &[agent::Host]) -> Result<Self, Failure> {
        let there = match hosts {
            [] => None,
            hosts => {
                let own = crate::verbs::hosts::own()?;
                let reached = TargetHosts::reach(hosts, &own);
                Some(reached.map_err(|e| source::failure(&e))?)
            }
        };
        Ok(Self { here, there })
    }

    fn there(&mut self) -> &mut TargetHosts {
        self.there
            .as_mut()
            .expect("the hosts of a plan's targets are reached before it runs")
    }

    /// What the targets of a trial need that their hosts do not have.
    ///
    /// # Errors
    /// [`Failure`] when a host is gone.
    pub fn lack(&mut self, trial: &TrialPlan) -> Result<Option<Lack>, Failure> {
        for target in &trial.targets {
            let Some(host) = trial.reached_host(target) else {
                continue;
            };
            let lack = self.there().lack(host, target);
            if let Some(lack) = lack.map_err(|e| source::failure(&e))? {
                return Ok(Some(Lack {
                    reason: format!("host {host}: {}", lack.what),
                    remedy: lack.remedy,
                }));
            }
        }
        Ok(None)
    }

    /// Starts a target where the trial has it, and waits until it is ready. `namespace` is its host of a topology.
    ///
    /// # Errors
    /// [`NotStarted`]; nothing is left running then.
    pub fn start(
        &mut self,
        trial: &TrialPlan,
        spec: &TargetSpec,
        addresses: &BTreeMap<String, SocketAddr>,
        namespace: Option<&Namespace>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Target, NotStarted> {
        let place = match trial.reached_host(spec) {
            None => {
                let started = self.here.start_on(spec, addresses, namespace, interrupted);
                Place::Here(Box::new(started.map_err(NotStarted::Here)?))
            }
            Some(host) => {
                let there = self.there();
                let started = there.start(host, spec, addresses, interrupted);
                let started = started.map_err(|e| match interrupted() {
                    true => NotStarted::Here(TargetError::Interrupted {
                        target: spec.name.clone(),
                    }),
                    false => NotStarted::There(source::failure(&e)),
                })?;
                let is_this_machine = there.boot_id(host) == Some(&host::boot_id());
                Place::There {
                    host: RanOn {
                        name: host.to_owned(),
                        is_this_machine,
                    },
                    address: started.address,
                    record: Box::new(started.record),
                }
            }
        };
        Ok(Target {
            spec: spec.clone(),
            place,
        })
    }

    /// Begins to watch the other hosts that the targets run on.
    ///
    /// # Errors
    /// [`Failure`] when one is gone.
    pub fn watch(
        &mut self,
        targets: &[Target],
        extras: Extras,
    ) -> Result<Vec<(String, Watching)>, Failure> {
        let asked = WatchAsked {
            tlb: extras.tlb,
            slabs: extras.slabs,
            queues: extras.queues,
        };
        let mut begun: Vec<(String, Watching)> = Vec::new();
        for host in targets.iter().filter_map(Target::host) {
            if begun.iter().all(|(known, _)| *known != host.name) {
                let watching = self.there().watch(&host.name, asked);
                begun.push((
                    host.name.clone(),
                    watching.map_err(|e| source::failure(&e))?,
                ));
            }
        }
        Ok(begun)
    }

    /// Ends the watches: what was seen of the targets there, and how they stood at the end.
    pub fn end_watch(
        &mut self,
        watches: Vec<(String, Watching)>,
        targets: &mut [Target],
    ) -> SeenThere {
        let mut all = SeenThere::default();
        for (name, watching) in watches {
            let seen = match self.there().end_watch(&name, watching) {
                Ok(watched) => watched.seen,
                Err(error) => {
                    all.unavailable.push(Unavailable {
                        what: format!("targets on host {name}"),
                        reason: error.to_string(),
                        remedy: error.remedy().to_owned(),
                    });
                    continue;
                }
            };
            let of_target = |s: &Series| s.label("target").is_some_and(|t| t != GENERATOR);
            all.series.extend(seen.series.into_iter().filter(of_target));
            // `what` stays: the same that is missing of a target here is told with it.
            let there = seen.unavailable.into_iter().map(|gap| Unavailable {
                reason: format!("on host {name}: {}", gap.reason),
                ..gap
            });
            all.unavailable.extend(there);
            for mut now in seen.targets {
                all.died
                    .extend(now.died.take().map(|how| (now.name.clone(), how)));
                let is_it = |t: &&mut Target| t.spec.name == now.name;
                if let Some(Target {
                    place: Place::There { record, .. },
                    ..
                }) = targets.iter_mut().find(is_it)
                {
                    **record = now;
                }
            }
        }
        all
    }

    /// What became of targets on other hosts since it was last asked.
    pub fn ended(&mut self) -> Vec<TargetEnd> {
        self.there
            .as_mut()
            .map_or_else(Vec::new, TargetHosts::ended)
    }

    /// Stops a target; what it left, by file name, and a warning where it did not end.
    pub fn stop(&mut self, target: Target) -> (BTreeMap<String, String>, Option<Warning>) {
        let name = &target.spec.name;
        let warning = |cause: &str, remedy: &str| {
            let words = format!("stopping `{name}`: {cause}");
            Warning::new("target_not_stopped", words, remedy)
        };
        match target.place {
            Place::Here(server) => {
                let files = server.files();
                let failure = server.stop().err();
                (files, failure.map(|e| warning(&e.to_string(), &e.remedy())))
            }
            Place::There { host, .. } => match self.there().stop(&host.name, name) {
                Ok(stopped) => {
                    let failure = stopped.failure;
                    let failure = failure.map(|e| {
                        let cause = format!("host {}: {}", host.name, e.what);
                        warning(&cause, &e.remedy)
                    });
                    (stopped.files, failure)
                }
                Err(error) => {
                    let remedy = "its agent stops it when it hears nothing; what a killed agent left the next one on that host removes";
                    (BTreeMap::new(), Some(warning(&error.to_string(), remedy)))
                }
            },
        }
    }
}

/// What was seen of targets on other hosts.
#[derive(Default)]
pub struct SeenThere {
    pub series: Vec<Series>,
    pub unavailable: Vec<Unavailable>,
    /// Those that ended by themselves, by name: how.
    pub died: BTreeMap<String, String>,
}

/// The processes of a target of this host.
pub(super) fn watched(name: &str, server: &RunningTarget) -> Watched {
    Watched {
        target: name.to_owned(),
        pids: server.processes().iter().map(|p| p.pid).collect(),
    }
}

impl Target {
    /// Address that it listens on, with the real port.
    pub fn address(&self) -> SocketAddr {
        match &self.place {
            Place::Here(server) => server.address(),
            Place::There { address, .. } => *address,
        }
    }

    /// The other host that it runs on.
    pub fn host(&self) -> Option<&RanOn> {
        match &self.place {
            Place::Here(_) => None,
            Place::There { host, .. } => Some(host),
        }
    }

    /// What the trial's record says of it. The requests that it counted are for the caller to add.
    pub fn record(&self) -> TargetRecord {
        match &self.place {
            Place::Here(server) => server.record(),
            Place::There { host, record, .. } => TargetRecord {
                host: Some(host.clone()),
                ..(**record).clone()
            },
        }
    }

    /// Does its main process still run? One on another host is asked for by [`Targets::ended`].
    ///
    /// # Errors
    /// How it ended, and its last words.
    pub fn check_alive(&mut self) -> Result<(), String> {
        match &mut self.place {
            Place::Here(server) => server.check_alive(),
            Place::There { .. } => Ok(()),
        }
    }

    /// Its processes, where they can be looked at from here: `None` of one on another host.
    pub fn watched(&self) -> Option<Watched> {
        match &self.place {
            Place::Here(server) => Some(watched(&self.spec.name, server)),
            Place::There { .. } => None,
        }
    }
}
