//! The conductor's side: it reaches the agents, divides a load among them, starts them together, and adds up what came.

pub mod targets;

use crate::carrier::{Host, HostError, Link, Program, reach};
use crate::clock::{Estimate, Exchange, Line};
use crate::frame::FrameError;
use crate::message::{Done, File, Hello, Message, Prepare, Refusal, Right, Stored};
use crate::serve::hash;
use crate::together::Together;
use crate::{BEAT, SILENCE};
use linux::clock::monotonic_ns;
use record::{CarriedPart, HostEnd, HostPart, Interval, LoadOutcome, LoadSpec, Nanos, Part};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Hosts that are connected to at one time: sshd drops by chance beyond ten.
const AT_ONCE: usize = 8;
/// Exchanges of a clock's estimate, of which the shortest counts.
const EXCHANGES: usize = 16;
/// From the word to start to the start, at least.
const AHEAD: Duration = Duration::from_millis(250);
/// For each agent that is to be told, and to be woken where they share a machine.
const EACH: Duration = Duration::from_millis(1);
/// Longest wait for an answer that takes no time.
const ANSWER: Duration = Duration::from_secs(10);
/// Between two looks at what came.
const LOOK: Duration = Duration::from_millis(2);

/// One agent, ready for loads.
pub struct Agent {
    pub host: String,
    pub hello: Hello,
    /// Load threads that were asked for on that host.
    threads: Option<u32>,
    link: Link,
    /// Its clock, as last looked at.
    clock: Estimate,
    /// Files that it has.
    files: Vec<String>,
    /// Targets that it told the end of while something else was waited for: name, and how.
    died: Vec<(String, String)>,
}

/// All agents that loads can be sent from.
pub struct Fleet {
    agents: Vec<Agent>,
    /// How each was reached; `None` for agents that were there already.
    ways: Option<Ways>,
    /// Agents that were lost, to be reached anew when a load asks for them.
    lost: BTreeSet<usize>,
    beats: Arc<Beats>,
}

/// How the agents of a fleet were reached.
struct Ways {
    hosts: Vec<Host>,
    /// The program that they have to be.
    own: Program,
    /// What they are asked to allow.
    rights: Vec<Right>,
}

/// Who is told that the conductor lives.
#[derive(Default)]
struct Beats {
    voices: Mutex<Vec<crate::link::Voice>>,
    ended: AtomicBool,
}

/// Why a load on several hosts could not start.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// No agent on a host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An agent does not do it.
    #[error("host {host}: {}", refusal.what)]
    Refused { host: String, refusal: Refusal },
    /// The load cannot be divided.
    #[error("dividing the load: {what}")]
    Divide { what: String, remedy: String },
    /// A file of the load.
    #[error("reading {file}: {cause}")]
    File { file: String, cause: std::io::Error },
}

impl FleetError {
    /// What to do.
    pub fn remedy(&self) -> &str {
        match self {
            FleetError::Host(error) => &error.remedy,
            FleetError::Refused { refusal, .. } => &refusal.remedy,
            FleetError::Divide { remedy, .. } => remedy,
            FleetError::File { .. } => {
                "name a file that can be read here: its content is sent along"
            }
        }
    }

    /// The exit code that an agent gave, where it refused.
    pub fn exit(&self) -> Option<u8> {
        match self {
            FleetError::Refused { refusal, .. } => Some(refusal.exit),
            _ => None,
        }
    }
}

impl Agent {
    fn lost(&self, what: String) -> HostError {
        HostError {
            host: self.host.clone(),
            what,
            remedy: "look at that host and at the connection to it, and repeat the load".to_owned(),
        }
    }

    fn say(&self, message: &Message) -> Result<(), HostError> {
        let said = self.link.voice.say(message);
        said.map_err(|e| self.lost(format!("the connection to its agent: {e}")))
    }

    /// The next message, if one came.
    fn look(&self) -> Result<Option<(Nanos, Message)>, HostError> {
        let lost = |what: String| Err(self.lost(what));
        match self.link.came.try_recv() {
            Ok((at, Ok(Some(message)))) => Ok(Some((at, message))),
            Ok((_, Ok(None))) => lost("its agent ended".to_owned()),
            Ok((_, Err(FrameError::Truncated))) => {
                lost("the connection to its agent was cut".to_owned())
            }
            Ok((_, Err(error))) => lost(format!("the connection to its agent: {error}")),
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                lost("its agent is gone".to_owned())
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => {
                let silence = self.link.heard.silence();
                if silence > SILENCE {
                    return lost(format!("its agent was silent for {} s", silence.as_secs()));
                }
                Ok(None)
            }
        }
    }

    /// Looks at its clock.
    fn look_at_clock(&mut self) -> Result<Estimate, HostError> {
        let mut exchanges = Vec::new();
        for _ in 0..EXCHANGES {
            let since = Instant::now();
            self.say(&Message::ClockAsk {
                asked: Nanos(monotonic_ns()),
            })?;
            loop {
                match self.look()? {
                    Some((returned, Message::ClockAnswer(times))) => {
                        exchanges.push(Exchange {
                            asked: times.asked,
                            received: times.received,
                            answered: times.answered,
                            returned,
                        });
                        break;
                    }
                    Some((_, Message::Refused(refusal))) => return Err(self.lost(refusal.what)),
                    Some((_, Message::Died { target, how })) => self.died.push((target, how)),
                    Some(_) => {}
                    None if since.elapsed() > ANSWER => {
                        return Err(self.lost("its agent does not answer".to_owned()));
                    }
                    None => std::thread::sleep(Duration::from_micros(100)),
                }
            }
        }
        self.clock = Estimate::of(&exchanges).expect("there were several");
        Ok(self.clock)
    }
}

/// What `make` makes of each, several at one time, in their order.
pub(crate) fn each<T: Sync, R: Send>(of: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(of.len()) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Relaxed);
                    let Some(one) = of.get(i) else {
                        return;
                    };
                    let one = make(one);
                    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
                    made.insert(i, one);
                }
            });
        }
    });
    let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.into_values().collect()
}

impl Fleet {
    /// Reaches all hosts.
    ///
    /// # Errors
    /// [`HostError`] of the first host that has no agent.
    pub fn reach(hosts: &[Host], own: &Program) -> Result<Self, HostError> {
        Self::reach_for(hosts, own, &[Right::Load])
    }

    /// The same for agents that are asked to allow `rights`.
    fn reach_for(hosts: &[Host], own: &Program, rights: &[Right]) -> Result<Self, HostError> {
        let each = Self::try_reach(hosts, own, rights);
        let agents = each.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut fleet = Self::of(agents);
        fleet.ways = Some(Ways {
            hosts: hosts.to_vec(),
            own: own.clone(),
            rights: rights.to_vec(),
        });
        Ok(fleet)
    }

    /// Reaches each host that can be reached, in the order of `hosts`, for agents that are asked to allow `rights`.
    pub fn try_reach(
        hosts: &[Host],
        own: &Program,
        rights: &[Right],
    ) -> Vec<Result<Agent, HostError>> {
        each(hosts, |host| {
            let (link, hello) = reach(host, own, rights)?;
            Agent::met(host.name.clone(), host.threads, link, hello)
        })
    }

    /// Agents that are there already.
    pub fn of(agents: Vec<Agent>) -> Self {
        let beats = Arc::new(Beats::default());
        let own = Arc::clone(&beats);
        let beat = move || {
            while !own.ended.load(Relaxed) {
                own.voices().iter().for_each(crate::link::Voice::beat);
                std::thread::park_timeout(BEAT);
            }
        };
        // Without a beat the agents end after their lease, and the load is lost with that reason.
        let _ = std::thread::Builder::new()
            .name("beats".to_owned())
            .spawn(beat);
        let fleet = Self {
            agents,
            ways: None,
            lost: BTreeSet::new(),
            beats,
        };
        fleet.tell_beats();
        fleet
    }

    fn tell_beats(&self) {
        let voices = self.agents.iter().map(|agent| agent.link.voice.clone());
        *self.beats.voices() = voices.collect();
    }

    /// The agents that a load asks for: those that it names, or all.
    fn members(&self, spec: &LoadSpec) -> Result<Vec<usize>, FleetError> {
        if spec.hosts.is_empty() {
            return Ok((0..self.agents.len()).collect());
        }
        let find = |name: &String| {
            let found = self.agents.iter().position(|agent| agent.host == *name);
            found.ok_or_else(|| FleetError::Divide {
                what: format!("no agent is on a host `{name}`"),
                remedy: "name hosts that were reached".to_owned(),
            })
        };
        spec.hosts.iter().map(find).collect()
    }

    /// Reaches those of the agents anew that were lost.
    fn mend(&mut self, members: &[usize]) -> Result<(), HostError> {
        let Some(Ways { hosts, own, rights }) = &self.ways else {
            return Ok(());
        };
        let lost: Vec<usize> = (members.iter().copied())
            .filter(|member| self.lost.contains(member))
            .collect();
        for member in &lost {
            let host = &hosts[*member];
            let (link, hello) = reach(host, own, rights)?;
            self.agents[*member] = Agent::met(host.name.clone(), host.threads, link, hello)?;
            self.lost.remove(member);
        }
        if !lost.is_empty() {
            self.tell_beats();
        }
        Ok(())
    }

    /// The agents, in the order of their hosts.
    pub fn agents(&self) -> &[Agent] {
        &self.agents
    }

    /// Divides a load: to each host whole load threads, the same number unless it was said otherwise.
    ///
    /// # Errors
    /// [`FleetError::Divide`] when a host would have nothing to do.
    pub fn divide(&self, spec: &LoadSpec) -> Result<Vec<Part>, FleetError> {
        let members = self.members(spec)?;
        let agents = || members.iter().map(|member| &self.agents[*member]);
        let hosts = members.len() as u32;
        let most = u64::from(spec.connections).min(spec.requests.unwrap_or(u64::MAX));
        let refused = |what: String| {
            Err(FleetError::Divide {
                what,
                remedy: "ask for more connections and requests, or for fewer threads or hosts"
                    .to_owned(),
            })
        };
        // Half of the CPUs of the smallest, as on one host.
        let cpus = |agent: &Agent| match spec.cpus.len() {
            0 => (agent.hello.cpus.len() as u32 / 2).max(1),
            pinned => pinned as u32,
        };
        let smallest = agents().map(cpus).min().unwrap_or(1);
        let fitting = u32::try_from(most / u64::from(hosts.max(1))).unwrap_or(u32::MAX);
        let each = match spec.threads {
            Some(all) if all < hosts => {
                return refused(format!(
                    "{all} threads cannot be divided among {hosts} hosts"
                ));
            }
            Some(all) => all / hosts,
            None => smallest.min(fitting.max(1)),
        };
        let rest = spec.threads.map_or(0, |all| all % hosts);
        let threads = agents().zip(0..).map(|(agent, i)| {
            let even = each + u32::from(i < rest);
            agent.threads.unwrap_or(even).max(1)
        });
        let threads: Vec<u32> = threads.collect();
        let of = threads.iter().sum();
        if u64::from(of) > most {
            return refused(format!(
                "{of} load threads on {hosts} hosts cannot share {most} connections or requests"
            ));
        }
        let mut first = 0;
        let parts = threads.into_iter().map(|threads| {
            let part = Part { first, threads, of };
            first += threads;
            part
        });
        Ok(parts.collect())
    }

    /// Has the agents make a load ready and starts it on all of them at one time.
    ///
    /// # Errors
    /// [`FleetError`] when one of them does not; the others are told to leave it.
    pub fn start(&mut self, spec: &LoadSpec) -> Result<Flow<'_>, FleetError> {
        let members = self.members(spec)?;
        self.mend(&members)?;
        let parts = self.divide(spec)?;
        let begun = self.begin(spec, &members, &parts);
        let start_at = match begun {
            Ok(start_at) => start_at,
            Err(error) => {
                for member in &members {
                    // One of them may be the reason.
                    let _ = self.agents[*member].say(&Message::Stop);
                }
                if let FleetError::Host(gone) = &error {
                    let of = |agent: &Agent| agent.host == gone.host;
                    self.lost.extend(self.agents.iter().position(of));
                }
                return Err(error);
            }
        };
        let count = members.len();
        Ok(Flow {
            together: Together::new(count),
            ended: (0..count).map(|_| None).collect(),
            parts,
            before: members
                .iter()
                .map(|member| self.agents[*member].clock)
                .collect(),
            members,
            start_at,
            stopped_at: None,
            patience: Duration::from_nanos(spec.timeout.0) + ANSWER,
            intervals: Vec::new(),
            fleet: self,
        })
    }

    fn begin(
        &mut self,
        spec: &LoadSpec,
        members: &[usize],
        parts: &[Part],
    ) -> Result<Nanos, FleetError> {
        let mut asked = spec.clone();
        let mut files = Vec::new();
        for name in asked.files_mut() {
            let content = std::fs::read(&*name).map_err(|cause| FleetError::File {
                file: name.clone(),
                cause,
            })?;
            let hash = hash(&content);
            name.clone_from(&hash);
            files.push(File { hash, content });
        }
        for (member, part) in members.iter().zip(parts) {
            let agent = &mut self.agents[*member];
            for file in &files {
                if !agent.files.contains(&file.hash) {
                    agent.say(&Message::File(file.clone()))?;
                    agent.files.push(file.hash.clone());
                }
            }
            agent.say(&Message::Prepare(Box::new(Prepare {
                spec: asked.clone(),
                part: *part,
                timetable: spec.timetable.clone(),
                proxy_user: spec.proxy_user.clone(),
            })))?;
        }
        let patience = Duration::from_nanos(spec.timeout.0) + ANSWER;
        let since = Instant::now();
        for member in members {
            let agent = &self.agents[*member];
            loop {
                match agent.look()? {
                    Some((_, Message::Ready)) => break,
                    Some((_, Message::Refused(refusal))) => {
                        return Err(FleetError::Refused {
                            host: agent.host.clone(),
                            refusal,
                        });
                    }
                    Some(_) => {}
                    None if since.elapsed() > patience => {
                        let what = format!(
                            "its connections are not open after {} s",
                            patience.as_secs()
                        );
                        return Err(agent.lost(what).into());
                    }
                    None => std::thread::sleep(LOOK),
                }
            }
        }
        let mut worst_ns = 0;
        for member in members {
            let agent = &mut self.agents[*member];
            agent.look_at_clock()?;
            worst_ns = worst_ns.max(agent.clock.round_trip_ns);
        }
        let ahead = AHEAD.max(Duration::from_nanos(worst_ns) * 20);
        let ahead = ahead + EACH * members.len() as u32;
        let start_at = Nanos(monotonic_ns() + ahead.as_nanos() as u64);
        for member in members {
            let agent = &self.agents[*member];
            let theirs = i128::from(start_at.0) + i128::from(agent.clock.offset_ns);
            let at = Nanos(u64::try_from(theirs).unwrap_or(0));
            agent.say(&Message::Start { at })?;
        }
        Ok(start_at)
    }
}

impl Beats {
    fn voices(&self) -> MutexGuard<'_, Vec<crate::link::Voice>> {
        self.voices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.beats.ended.store(true, Relaxed);
        // All at one time: each may take a moment.
        std::thread::scope(|scope| {
            for agent in &mut self.agents {
                scope.spawn(|| agent.link.end());
            }
        });
    }
}

impl Agent {
    /// Over two streams to an agent that runs already; `on_end` is called when the other end is gone, or says that a
    /// person wants the end.
    ///
    /// # Errors
    /// [`HostError`] when it does not say who it is.
    pub fn over(
        host: &Host,
        from: impl Read + Send + 'static,
        to: Box<dyn Write + Send>,
        on_end: impl Fn() + Send + 'static,
    ) -> Result<Self, HostError> {
        let refused = |what: String| HostError {
            host: host.name.clone(),
            what,
            remedy: String::new(),
        };
        let link = Link::over(&host.name, from, to, on_end).map_err(|e| refused(e.to_string()))?;
        match link.came.recv_timeout(ANSWER) {
            Ok((_, Ok(Some(Message::Hello(hello))))) => {
                Self::met(host.name.clone(), host.threads, link, hello)
            }
            Ok((_, other)) => Err(refused(format!("it did not say who it is, but {other:?}"))),
            Err(_) => Err(refused("it says nothing".to_owned())),
        }
    }

    pub(crate) fn met(
        host: String,
        threads: Option<u32>,
        link: Link,
        hello: Hello,
    ) -> Result<Self, HostError> {
        let mut agent = Agent {
            host,
            hello,
            threads,
            link,
            clock: Estimate {
                at: Nanos(0),
                offset_ns: 0,
                round_trip_ns: 0,
            },
            files: Vec::new(),
            died: Vec::new(),
        };
        agent.look_at_clock()?;
        Ok(agent)
    }

    /// Hands a file of a record to whoever had it measured.
    ///
    /// # Errors
    /// [`HostError`] when the stream is gone.
    pub fn hand(&self, stored: Stored) -> Result<(), HostError> {
        self.say(&Message::Stored(stored))
    }

    /// Its clock less ours, as last looked at.
    pub fn clock(&self) -> Estimate {
        self.clock
    }
}

/// A load under way on all hosts.
pub struct Flow<'a> {
    fleet: &'a mut Fleet,
    /// Which agents carry it.
    members: Vec<usize>,
    parts: Vec<Part>,
    together: Together,
    ended: Vec<Option<HostEnd>>,
    before: Vec<Estimate>,
    start_at: Nanos,
    stopped_at: Option<Instant>,
    patience: Duration,
    intervals: Vec<Interval>,
}

/// What became of a load on all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    /// Each part, in the order of the agents.
    pub parts: Vec<HostPart>,
    /// The load in slices of all hosts together.
    pub intervals: Vec<Interval>,
}

impl Flow<'_> {
    /// Waits for the next slice of the load, about a second behind it; `None` when it is over. Times by our clock.
    pub fn next_interval(&mut self) -> Option<Interval> {
        loop {
            let has_come = self.take();
            match self.together.next() {
                Ok(Some(interval)) => {
                    let interval = self.by_our_clock(interval);
                    self.intervals.push(interval);
                    return Some(interval);
                }
                Ok(None) => {}
                Err(i) => {
                    let ended = self.lost("its slices of the load cannot be read".to_owned());
                    self.end(i, ended);
                }
            }
            if self.ended.iter().all(Option::is_some) {
                return None;
            }
            if !has_come {
                std::thread::sleep(LOOK);
            }
        }
    }

    fn by_our_clock(&self, mut interval: Interval) -> Interval {
        interval.from = Nanos(interval.from.0 + self.start_at.0);
        interval.to = Nanos(interval.to.0 + self.start_at.0);
        interval
    }

    /// Ends the load before its end, on all hosts.
    pub fn stop(&mut self) {
        if self.stopped_at.is_none() {
            self.stopped_at = Some(Instant::now());
            self.tell_all(&Message::Stop);
        }
    }

    /// Says whether the server is known to be full.
    pub fn set_server_full(&self, is_full: bool) {
        self.tell_all(&Message::ServerFull { is_full });
    }

    fn tell_all(&self, message: &Message) {
        for (i, ended) in self.ended.iter().enumerate() {
            if ended.is_none() {
                // One that is gone is found when it is listened to.
                let _ = self.agent(i).say(message);
            }
        }
    }

    /// The agent of a part.
    fn agent(&self, i: usize) -> &Agent {
        &self.fleet.agents[self.members[i]]
    }

    /// Takes what came; whether something did. An agent that is lost takes the others along: what they would carry on
    /// is no part of the load that was asked for.
    fn take(&mut self) -> bool {
        let mut has_come = false;
        for i in 0..self.ended.len() {
            if self.ended[i].is_some() {
                continue;
            }
            let ended = match self.agent(i).look() {
                Ok(None)
                    if self
                        .stopped_at
                        .is_some_and(|at| at.elapsed() > self.patience) =>
                {
                    self.lost("its agent did not end the load".to_owned())
                }
                Ok(None) => continue,
                Ok(Some((_, message))) => {
                    has_come = true;
                    match message {
                        Message::Slices(slices) => {
                            self.together.push(i, slices);
                            continue;
                        }
                        Message::Done(done) => self.carried(i, *done),
                        Message::Refused(refusal) => HostEnd::Refused {
                            why: refusal.what,
                            remedy: refusal.remedy,
                        },
                        _ => continue,
                    }
                }
                Err(error) => self.lost(error.what),
            };
            self.end(i, ended);
        }
        has_come
    }

    fn end(&mut self, i: usize, ended: HostEnd) {
        let is_whole = matches!(ended, HostEnd::Carried(_));
        self.ended[i] = Some(ended);
        self.together.end(i, is_whole);
        if !is_whole {
            self.stop();
        }
    }

    fn lost(&self, why: String) -> HostEnd {
        let after = monotonic_ns().saturating_sub(self.start_at.0);
        HostEnd::Lost {
            why,
            after: Nanos(after),
        }
    }

    fn carried(&mut self, i: usize, done: Done) -> HostEnd {
        let member = self.members[i];
        let after = match self.fleet.agents[member].look_at_clock() {
            Ok(after) => after,
            Err(error) => return self.lost(error.what),
        };
        let line = Line::through(self.before[i], after);
        let Done {
            outcome,
            series,
            unavailable,
        } = done;
        let started = i128::from(line.ours(outcome.started_at).0);
        let late = started - i128::from(self.start_at.0);
        let carried = CarriedPart {
            clock: line.seen(line.ours(outcome.measured_from)),
            outcome,
            series,
            unavailable,
            start_late_ns: i64::try_from(late).unwrap_or(i64::MAX),
        };
        HostEnd::Carried(Box::new(carried.on_clock(|theirs| line.ours(theirs))))
    }

    /// Waits for the end of the load.
    pub fn finish(mut self) -> Gathered {
        while self.next_interval().is_some() {}
        let ended = self.parts.into_iter().zip(self.ended);
        let parts = self.members.iter().zip(ended);
        let (fleet, mut lost) = (&*self.fleet, Vec::new());
        let parts = parts.filter_map(|(&member, (part, end))| {
            let agent = &fleet.agents[member];
            if matches!(end, Some(HostEnd::Lost { .. })) {
                lost.push(member);
            }
            Some(HostPart {
                host: agent.host.clone(),
                boot_id: agent.hello.boot_id.clone(),
                part,
                end: end?,
            })
        });
        let gathered = Gathered {
            parts: parts.collect(),
            intervals: self.intervals,
        };
        self.fleet.lost.extend(lost);
        gathered
    }
}

impl Gathered {
    /// The parts that were carried as one load; `None` when none was.
    pub fn sum(&self) -> Option<LoadOutcome> {
        let carried = self.parts.iter().filter_map(HostPart::carried);
        let outcomes: Vec<_> = carried.map(|part| part.outcome.clone()).collect();
        LoadOutcome::of_parts(&outcomes, self.intervals.clone())
    }
}
