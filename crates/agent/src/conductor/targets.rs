//! Targets on the conductor's side: on which hosts they are started, what is seen of them, and what is left to be
//! mended where a host was lost.

use super::{ANSWER, Agent, Fleet, FleetError, LOOK};
use crate::carrier::{Host, HostError, Program};
use crate::clock::{Estimate, Line};
use crate::message::{
    File, Message, Refusal, Right, Seen, StartTarget, Started, Stopped, WatchAsked,
};
use crate::serve::hash;
use plan::{FileContent, TargetSpec};
use record::{ClockSeen, Nanos};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A target is given so much longer than it may take to be ready: its files are laid out, its configuration is checked.
const LAYING_OUT: Duration = Duration::from_secs(60);
/// Stopping takes a server's time to end in order, for each of its processes.
const STOPPING: Duration = Duration::from_secs(60);

/// Hosts on which targets are run.
pub struct TargetHosts {
    fleet: Fleet,
    /// What became of targets since it was last asked.
    ended: Vec<TargetEnd>,
}

/// What became of targets while they should run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetEnd {
    /// One has ended by itself.
    Died { target: String, how: String },
    /// Their host, or the way to it, was lost.
    Lost(HostError),
}

/// What was watched of a host and of the targets on it, all times by our clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    pub seen: Seen,
    pub clock: ClockSeen,
}

/// A watch that has begun.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    before: Estimate,
}

impl TargetHosts {
    /// Reaches all hosts.
    ///
    /// # Errors
    /// [`FleetError`] of the first that has no agent, or one that may not run targets.
    pub fn reach(hosts: &[Host], own: &Program) -> Result<Self, FleetError> {
        let fleet = Fleet::reach_for(hosts, own, &[Right::Target])?;
        Self::of(fleet)
    }

    /// Agents that are there already.
    ///
    /// # Errors
    /// [`FleetError::Refused`] for the first that may not run targets.
    pub fn of(fleet: Fleet) -> Result<Self, FleetError> {
        let may_not = |agent: &&Agent| !agent.hello.rights.contains(&Right::Target);
        if let Some(agent) = fleet.agents.iter().find(may_not) {
            return Err(FleetError::Refused {
                host: agent.host.clone(),
                refusal: Refusal {
                    what: "its agent may not run targets".to_owned(),
                    remedy:
                        "let it be started with --allow target there (authorized_keys, sudoers)"
                            .to_owned(),
                    exit: 4,
                },
            });
        }
        Ok(Self {
            fleet,
            ended: Vec::new(),
        })
    }

    /// The boot id of a host's kernel.
    pub fn boot_id(&self, host: &str) -> Option<&str> {
        let mut agents = self.fleet.agents.iter();
        let agent = agents.find(|agent| agent.host == host)?;
        Some(&agent.hello.boot_id)
    }

    fn index(&self, host: &str) -> Result<usize, FleetError> {
        let mut agents = self.fleet.agents.iter();
        agents.position(|agent| agent.host == host).ok_or_else(|| {
            let error = HostError {
                host: host.to_owned(),
                what: "nobody has tried to".to_owned(),
                remedy: "name it in the experiment".to_owned(),
            };
            error.into()
        })
    }

    /// Says a word to an agent and waits for its answer; `take` tells it from others.
    fn ask<T>(
        &mut self,
        host: &str,
        word: &Message,
        patience: Duration,
        interrupted: &dyn Fn() -> bool,
        take: impl Fn(Message) -> Option<T>,
    ) -> Result<T, FleetError> {
        let i = self.index(host)?;
        let answer = self.try_ask(i, word, patience, interrupted, take);
        if let Err(FleetError::Host(_)) = &answer {
            self.fleet.lost.insert(i);
        }
        answer
    }

    fn try_ask<T>(
        &mut self,
        i: usize,
        word: &Message,
        patience: Duration,
        interrupted: &dyn Fn() -> bool,
        take: impl Fn(Message) -> Option<T>,
    ) -> Result<T, FleetError> {
        let agent = &mut self.fleet.agents[i];
        agent.say(word)?;
        let since = Instant::now();
        let mut is_stopped = false;
        loop {
            match agent.look()? {
                Some((_, Message::Refused(refusal))) => {
                    return Err(FleetError::Refused {
                        host: agent.host.clone(),
                        refusal,
                    });
                }
                Some((_, Message::Died { target, how })) => {
                    agent.died.push((target, how));
                }
                Some((_, message)) => {
                    if let Some(answer) = take(message) {
                        return Ok(answer);
                    }
                }
                None if since.elapsed() > patience => {
                    let what = format!("no answer to {:?} from its agent", word.kind());
                    return Err(agent.lost(what).into());
                }
                None => {
                    if !is_stopped && interrupted() {
                        is_stopped = true;
                        agent.say(&Message::Stop)?;
                    }
                    std::thread::sleep(LOOK);
                }
            }
        }
    }

    /// What the target needs and the host does not have.
    ///
    /// # Errors
    /// [`FleetError`] when the host is gone.
    pub fn lack(&mut self, host: &str, spec: &TargetSpec) -> Result<Option<Refusal>, FleetError> {
        let mut spec = spec.clone();
        // Whether it can start is no question of what it serves.
        spec.files.clear();
        let word = Message::CheckTarget(Box::new(spec));
        self.ask(
            host,
            &word,
            LAYING_OUT,
            &|| false,
            |message| match message {
                Message::Lack(lack) => Some(lack),
                _ => None,
            },
        )
    }

    /// Starts a target and waits until it is ready; a host that was lost before is reached anew.
    ///
    /// # Errors
    /// [`FleetError`]; nothing is left running then, or the host was lost and mends itself.
    pub fn start(
        &mut self,
        host: &str,
        spec: &TargetSpec,
        addresses: &BTreeMap<String, SocketAddr>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Started, FleetError> {
        let i = self.index(host)?;
        self.fleet.mend(&[i])?;
        let (spec, files) = by_hash(spec);
        let patience = Duration::from_nanos(spec.ready_timeout.0) + LAYING_OUT;
        let sent = self.send(i, files);
        if let Err(error) = sent {
            self.fleet.lost.insert(i);
            return Err(error.into());
        }
        let word = Message::StartTarget(Box::new(StartTarget {
            spec,
            addresses: addresses.clone(),
        }));
        self.ask(
            host,
            &word,
            patience,
            interrupted,
            |message| match message {
                Message::Started(started) => Some(*started),
                _ => None,
            },
        )
    }

    fn send(&mut self, i: usize, files: Vec<File>) -> Result<(), HostError> {
        let agent = &mut self.fleet.agents[i];
        for file in files {
            if !agent.files.contains(&file.hash) {
                agent.files.push(file.hash.clone());
                agent.say(&Message::File(file))?;
            }
        }
        Ok(())
    }

    /// Begins to watch a host and its targets: the first sample is taken when this returns.
    ///
    /// # Errors
    /// [`FleetError`] when the host is gone.
    pub fn watch(&mut self, host: &str, asked: WatchAsked) -> Result<Watching, FleetError> {
        let word = Message::Watch(asked);
        self.ask(host, &word, ANSWER, &|| false, |message| {
            (message == Message::Watching).then_some(())
        })?;
        let before = self.clock(host)?;
        Ok(Watching { before })
    }

    /// Ends a watch.
    ///
    /// # Errors
    /// [`FleetError`] when the host is gone.
    pub fn end_watch(&mut self, host: &str, watching: Watching) -> Result<Watched, FleetError> {
        let mut seen =
            self.ask(
                host,
                &Message::EndWatch,
                LAYING_OUT,
                &|| false,
                |message| match message {
                    Message::Seen(seen) => Some(*seen),
                    _ => None,
                },
            )?;
        let line = Line::through(watching.before, self.clock(host)?);
        for at in seen.series.iter_mut().flat_map(|series| &mut series.at_ns) {
            *at = line.ours(Nanos(*at)).0;
        }
        let clock = line.seen(watching.before.at);
        Ok(Watched { seen, clock })
    }

    fn clock(&mut self, host: &str) -> Result<Estimate, FleetError> {
        let i = self.index(host)?;
        let looked = self.fleet.agents[i].look_at_clock();
        if looked.is_err() {
            self.fleet.lost.insert(i);
        }
        Ok(looked?)
    }

    /// What became of targets since it was last asked.
    pub fn ended(&mut self) -> Vec<TargetEnd> {
        for (i, agent) in self.fleet.agents.iter_mut().enumerate() {
            if self.fleet.lost.contains(&i) {
                continue;
            }
            loop {
                match agent.look() {
                    Ok(Some((_, Message::Died { target, how }))) => agent.died.push((target, how)),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) => {
                        self.fleet.lost.insert(i);
                        self.ended.push(TargetEnd::Lost(error));
                        break;
                    }
                }
            }
            let died = std::mem::take(&mut agent.died);
            let died = died.into_iter();
            self.ended
                .extend(died.map(|(target, how)| TargetEnd::Died { target, how }));
        }
        std::mem::take(&mut self.ended)
    }

    /// Stops a target; what it left.
    ///
    /// # Errors
    /// [`FleetError`] when the host is gone: it stops its targets by itself.
    pub fn stop(&mut self, host: &str, target: &str) -> Result<Stopped, FleetError> {
        let word = Message::StopTarget {
            target: target.to_owned(),
        };
        self.ask(host, &word, STOPPING, &|| false, |message| match message {
            Message::Stopped(stopped) => Some(*stopped),
            _ => None,
        })
    }
}

impl Drop for TargetHosts {
    /// An agent that was killed leaves what its journal says, which the next one on that host undoes.
    fn drop(&mut self) {
        let lost: Vec<usize> = self.fleet.lost.iter().copied().collect();
        for member in lost {
            // A host that cannot be reached undoes it at the next start of a prony there.
            let _ = self.fleet.mend(&[member]);
        }
    }
}

/// The target with the hashes of its texts, and these as files to be sent.
fn by_hash(spec: &TargetSpec) -> (TargetSpec, Vec<File>) {
    let mut spec = spec.clone();
    let mut files = Vec::new();
    for content in spec.files.values_mut() {
        if let FileContent::Text(text) = content {
            let content = std::mem::take(text).into_bytes();
            let hash = hash(&content);
            text.clone_from(&hash);
            files.push(File { hash, content });
        }
    }
    (spec, files)
}
