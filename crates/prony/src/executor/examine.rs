//! The examination of servers: who they are, how they answer one client, what they do for each request, where
//! their time goes. Everything but the timed load itself, which it prepares and follows.
//!
//! ```text
//! look (one answer) -> single_client (one client) -> discovery_load (who is behind them) -> the timed load ->
//! signature -> off-CPU
//! ```
//! The surprise: upstreams can only be seen while there is traffic, so a short load comes before the timed one,
//! and its figures are thrown away.

use super::drive::{Instrumentation, drive};
use crate::terminal::Progress;
use monitor::probe::{ProbeConfig, ProbeTarget, Probed, Probes};
use monitor::profile::{Profiled, Profiler};
use monitor::{Observation, Watched};
use record::{
    Answer, Arrival, Examination, LoadOutcome, LoadSpec, Nanos, ProbeCost, ProcessRecord, Profile,
    ProfileKind, Server, Signature, TargetRecord, Tier, TrialRecord, TrialState, Turns,
    Unavailable, UpstreamPeer, Watching,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use sut::discover;
use traffic::{Load, LoadError};

/// Samples per second of CPU time: 13 us each, a quarter of a per cent of a busy core.
pub const PROFILE_HZ: u32 = 199;
/// A single client needs few answers for a median.
const SINGLE_CLIENT_REQUESTS: u64 = 200;
const SINGLE_CLIENT_TIME: Nanos = Nanos::from_millis(700);
pub(super) const SCOUT_TIME: Nanos = Nanos::from_millis(400);
/// Counts per request of so many requests are within one per cent of whole numbers.
const SIGNATURE_REQUESTS: u64 = 3_000;
/// Shares of blocked time want a window that is long against a scheduler's quantum.
const SIGNATURE_WINDOW: f64 = 0.5;
const SIGNATURE_MOST: u64 = 50_000;
pub(super) const SIGNATURE_TIME: Nanos = Nanos::from_secs(3);
pub(super) const OFF_CPU_TIME: Nanos = Nanos::from_millis(700);

/// What an examination works with.
pub struct Examiner<'a> {
    /// The load that is asked for.
    pub spec: &'a LoadSpec,
    /// Best kind of probes that may be used.
    pub best_tier: Tier,
    /// Asked often.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Where progress goes.
    pub progress: &'a mut Progress,
}

/// What the passes before the timed load brought.
#[derive(Default)]
pub struct PreLoad {
    pub answer: Option<Answer>,
    /// A single client's load.
    pub single_client: Option<LoadOutcome>,
    /// What could not be learned.
    pub unavailable: Vec<Unavailable>,
}

/// What the passes after the timed load brought.
#[derive(Default)]
pub struct PostLoad {
    /// Counts per request; `None` when nothing was answered.
    pub signature: Option<Signature>,
    /// Where requests spent their time; `None` when it was not traced.
    pub turns: Option<Turns>,
    /// Off-CPU stacks.
    pub off_cpu: Option<Profile>,
    /// What could not be learned.
    pub unavailable: Vec<Unavailable>,
}

impl Examiner<'_> {
    /// The passes before the timed load. `servers` gains the upstreams that are found on this host, unless they are
    /// `known` already, as those of an experiment are.
    ///
    /// # Errors
    /// [`LoadError`] when a load cannot start; what does not answer is no error here.
    pub fn pre_load(
        &mut self,
        servers: &mut Vec<Server>,
        known: bool,
    ) -> Result<PreLoad, LoadError> {
        let mut found = PreLoad::default();
        match Load::prepare(self.spec)?.look(self.spec.timeout) {
            Ok(answer) => found.answer = Some(answer),
            Err(cause) => found.unavailable.push(Unavailable {
                what: "answer".to_owned(),
                reason: format!("fetching one response: {cause}"),
                remedy: String::new(),
            }),
        }
        let single_client = LoadSpec {
            connections: 1,
            threads: Some(1),
            pipeline: 1,
            arrival: Arrival::Closed,
            warmup: Nanos(0),
            requests: Some(SINGLE_CLIENT_REQUESTS),
            duration: Some(SINGLE_CLIENT_TIME.max(self.spec.timeout.min(Nanos::SECOND))),
            ..self.spec.clone()
        };
        found.single_client = Some(self.drive_and_see(&single_client, servers)?);
        if !known && !(self.interrupted)() {
            let discovery_load = LoadSpec {
                warmup: Nanos(0),
                requests: None,
                duration: Some(SCOUT_TIME),
                ..self.spec.clone()
            };
            self.drive_and_see(&discovery_load, servers)?;
        }
        Ok(found)
    }

    /// A short load during which the upstreams are looked up.
    fn drive_and_see(
        &mut self,
        spec: &LoadSpec,
        servers: &mut Vec<Server>,
    ) -> Result<LoadOutcome, LoadError> {
        let interrupted = self.interrupted;
        let driven = drive(
            Load::prepare(spec)?,
            spec,
            &Instrumentation::default(),
            self.progress,
            &mut || {
                see_upstreams(servers);
                interrupted()
            },
        )?;
        Ok(driven.outcome)
    }

    /// The passes after the timed load, which brought `rate_per_s` answers a second. A server that answers nothing but
    /// errors is counted as well: that is when people ask why.
    ///
    /// # Errors
    /// [`LoadError`] when a load cannot start.
    pub fn post_load(
        &mut self,
        servers: &[Server],
        rate_per_s: Option<f64>,
    ) -> Result<PostLoad, LoadError> {
        let mut brought = PostLoad::default();
        let Some(rate_per_s) = rate_per_s.filter(|_| !servers.is_empty()) else {
            return Ok(brought);
        };
        if (self.interrupted)() {
            return Ok(brought);
        }
        brought.signature = Some(self.signature(servers, rate_per_s)?);
        if !(self.interrupted)() {
            match self.off_cpu(servers)? {
                Ok(profiled) => {
                    brought.unavailable.extend(profiled.unavailable);
                    brought.off_cpu = Some(profiled.profile);
                }
                Err(gap) => brought.unavailable.push(gap),
            }
        }
        Ok(brought)
    }

    fn signature(&mut self, servers: &[Server], rate_per_s: f64) -> Result<Signature, LoadError> {
        let in_window = (rate_per_s * SIGNATURE_WINDOW) as u64;
        let spec = LoadSpec {
            warmup: Nanos(0),
            requests: Some(
                in_window
                    .clamp(SIGNATURE_REQUESTS, SIGNATURE_MOST)
                    .max(20 * u64::from(self.spec.connections)),
            ),
            duration: Some(SIGNATURE_TIME),
            ..self.spec.clone()
        };
        let load = Load::prepare(&spec)?;
        let probes = self.arm(servers);
        let interrupted = self.interrupted;
        let driven = drive(
            load,
            &spec,
            &Instrumentation::default(),
            self.progress,
            &mut || interrupted(),
        );
        let probed = probes.disarm();
        let outcome = driven?.outcome;
        Ok(signature(probed, Some((&spec, &outcome))))
    }

    fn off_cpu(&mut self, servers: &[Server]) -> Result<Result<Profiled, Unavailable>, LoadError> {
        let spec = LoadSpec {
            warmup: Nanos(0),
            requests: None,
            duration: Some(OFF_CPU_TIME),
            ..self.spec.clone()
        };
        let load = Load::prepare(&spec)?;
        let profiler = match Profiler::start(&profile_config(servers, ProfileKind::OffCpu, 0)) {
            Ok(profiler) => profiler,
            Err(gap) => return Ok(Err(gap)),
        };
        let driven = drive(
            load,
            &spec,
            &Instrumentation::default(),
            self.progress,
            &mut || (self.interrupted)(),
        );
        let profiled = profiler.stop();
        driven.map(|_| Ok(profiled))
    }
}

impl Examiner<'_> {
    /// All passes over running servers: before, during and after the timed load. `servers` gains the upstreams that
    /// are found on this host.
    ///
    /// # Errors
    /// [`LoadError`] when a load cannot start; what does not answer is no error here.
    pub fn examine(&mut self, servers: &mut Vec<Server>) -> Result<TrialRecord, LoadError> {
        let load = Load::prepare(self.spec)?;
        let pre_load = self.pre_load(servers, false)?;
        let around = Instrumentation {
            watch: Some(watched(servers)),
            profile: (!servers.is_empty())
                .then(|| profile_config(servers, ProfileKind::OnCpu, PROFILE_HZ)),
            ..Instrumentation::default()
        };
        let interrupted = self.interrupted;
        let driven = drive(load, self.spec, &around, self.progress, &mut || {
            interrupted()
        })?;
        let rate = driven.outcome.answered_per_s();
        let post_load = self.post_load(servers, rate)?;
        let passes = Passes {
            pre_load,
            watched: driven.watched,
            profiled: driven.profiled,
            post_load,
            watching: None,
            interrupted: (self.interrupted)(),
        };
        Ok(passes.into_trial(self.spec, servers, Some(driven.outcome)))
    }

    fn arm(&self, servers: &[Server]) -> Probes {
        Probes::arm(&ProbeConfig {
            targets: probe_targets(servers),
            best_tier: self.best_tier,
            ..ProbeConfig::default()
        })
    }
}

/// What all passes brought beside the load's own outcome.
#[derive(Default)]
pub(super) struct Passes {
    pub pre_load: PreLoad,
    pub watched: Observation,
    pub profiled: Option<Result<Profiled, Unavailable>>,
    pub post_load: PostLoad,
    /// Traffic that was watched in place of a load.
    pub watching: Option<Watching>,
    /// A person had enough; what is missing was not looked for.
    pub interrupted: bool,
}

impl Passes {
    pub(super) fn into_trial(
        self,
        spec: &LoadSpec,
        servers: &[Server],
        outcome: Option<LoadOutcome>,
    ) -> TrialRecord {
        let mut monitor_cost = vec![sampling_cost(&self.watched)];
        let mut unavailable = self.watched.unavailable;
        unavailable.extend(self.pre_load.unavailable);
        unavailable.extend(self.post_load.unavailable);
        unavailable.extend(servers.iter().flat_map(|s| s.unavailable.clone()));
        if servers.is_empty() {
            unavailable.push(no_server(&spec.url));
        }
        let mut profiles = Vec::new();
        take_profile(
            self.profiled,
            &mut profiles,
            &mut monitor_cost,
            &mut unavailable,
        );
        profiles.extend(self.post_load.off_cpu);
        TrialRecord {
            id: 0,
            stage: STAGE.to_owned(),
            block: 0,
            levels: BTreeMap::new(),
            load: spec.clone(),
            // The figures of a load that came to its end stay valid when a later pass was cut short.
            state: if outcome.as_ref().map_or(self.interrupted, |o| o.interrupted) {
                TrialState::Interrupted
            } else {
                TrialState::Complete
            },
            targets: target_records(servers),
            unavailable,
            warnings: Vec::new(),
            series: self.watched.series,
            outcome,
            reported: None,
            examination: Some(Examination {
                servers: servers.to_vec(),
                answer: self.pre_load.answer,
                single_client: self.pre_load.single_client,
                signature: self.post_load.signature,
                turns: self.post_load.turns,
                watching: self.watching,
                monitor_cost,
                profiles,
            }),
            files: BTreeMap::new(),
        }
    }
}

/// What reading /proc and sock_diag took.
pub fn sampling_cost(watched: &Observation) -> ProbeCost {
    ProbeCost {
        probe: "proc".to_owned(),
        events: watched.cost.samples,
        expected_share: watched.cost.expected_share,
        measured_ns: Some((watched.cost.cpu_s * 1e9) as u64),
    }
}

/// A profile of the timed load to where its parts belong.
pub fn take_profile(
    profiled: Option<Result<Profiled, Unavailable>>,
    profiles: &mut Vec<Profile>,
    cost: &mut Vec<ProbeCost>,
    unavailable: &mut Vec<Unavailable>,
) {
    match profiled {
        Some(Ok(profiled)) => {
            unavailable.extend(profiled.unavailable);
            cost.push(profiled.cost);
            profiles.push(profiled.profile);
        }
        Some(Err(gap)) => unavailable.push(gap),
        None => {}
    }
}

/// Name of the one stage of an examination's record.
pub const STAGE: &str = "diagnose";

/// That nothing could be seen of the server.
pub fn no_server(url: &str) -> Unavailable {
    Unavailable {
        what: "the server's processes".to_owned(),
        reason: format!("no process that this user may see listens behind {url}"),
        remedy: "run prony on the server's host, as root or as the server's user".to_owned(),
    }
}

/// Probes' results as a signature. Without a load of ours the requests are those that the server took from its
/// clients.
pub(super) fn signature(probed: Probed, load: Option<(&LoadSpec, &LoadOutcome)>) -> Signature {
    let taken = probed.targets.first().and_then(|t| t.requests_taken);
    Signature {
        tier: probed.tier,
        requests: load.map_or(taken.unwrap_or(0), |(_, o)| o.requests.completed),
        failed: load.map_or(0, |(_, o)| o.requests.unanswered()),
        connections_opened: load.map_or(0, |(_, o)| o.connections.opened),
        connections: load.map_or(0, |(spec, _)| spec.connections),
        window_ns: probed.window_ns,
        lost: probed.lost,
        targets: probed.targets,
        unavailable: probed.unavailable,
        cost: probed.cost,
    }
}

/// Notes the peers that the servers have connections to now; those on this host become servers themselves.
pub(super) fn see_upstreams(servers: &mut Vec<Server>) {
    for (mut peer, server) in discover::upstreams(servers) {
        if let Some(mut server) = server {
            match servers
                .iter()
                .find(|known| known.main_pid == server.main_pid)
            {
                // An experiment has a name of its own for it.
                Some(known) => peer.target = Some(known.target.clone()),
                None => {
                    sut::config::read(&mut server);
                    servers.push(server);
                }
            }
        }
        note_peer(servers, &peer);
    }
}

/// A peer of the first server that is not itself the peer; the largest number of connections seen counts.
fn note_peer(servers: &mut [Server], peer: &UpstreamPeer) {
    let Some(front) = servers.first_mut() else {
        return;
    };
    match front
        .upstreams
        .iter_mut()
        .find(|p| p.address == peer.address)
    {
        Some(known) => known.connections = known.connections.max(peer.connections),
        None => front.upstreams.push(peer.clone()),
    }
}

/// What the profiler is to look at.
pub fn profile_config(
    servers: &[Server],
    kind: ProfileKind,
    hz: u32,
) -> monitor::profile::ProfileConfig {
    monitor::profile::ProfileConfig {
        targets: probe_targets(servers),
        kind,
        hz,
    }
}

pub(super) fn probe_targets(servers: &[Server]) -> Vec<ProbeTarget> {
    servers
        .iter()
        .map(|server| ProbeTarget {
            target: server.target.clone(),
            pids: pids(server),
            listens: server
                .listens
                .iter()
                .filter_map(|address| address.rsplit_once(':')?.1.parse().ok())
                .collect(),
        })
        .collect()
}

fn pids(server: &Server) -> Vec<i32> {
    server.processes.iter().map(|p| p.pid).collect()
}

pub(super) fn listens(servers: &[Server]) -> Vec<SocketAddr> {
    let all = servers.iter().flat_map(|s| &s.listens);
    all.filter_map(|address| address.parse().ok()).collect()
}

/// What the monitors are to look at.
pub fn watched(servers: &[Server]) -> Vec<Watched> {
    servers
        .iter()
        .map(|server| Watched {
            target: server.target.clone(),
            pids: pids(server),
        })
        .collect()
}

/// The servers as targets of a record.
pub fn target_records(servers: &[Server]) -> Vec<TargetRecord> {
    servers
        .iter()
        .map(|server| TargetRecord {
            name: server.target.clone(),
            kind: "running".to_owned(),
            address: server.listens.first().cloned().unwrap_or_default(),
            version: server.version.clone(),
            command: server.command.clone(),
            processes: server
                .processes
                .iter()
                .map(|p| ProcessRecord {
                    pid: p.pid,
                    role: p.role.clone(),
                    name: p.name.clone(),
                    cpus: p.cpus.clone(),
                })
                .collect(),
            ..TargetRecord::default()
        })
        .collect()
}

/// The servers behind an address, with their configuration; none when it is not one of this host, or hidden.
pub fn behind(address: SocketAddr) -> Vec<Server> {
    discover::behind(address)
        .map(with_config)
        .into_iter()
        .collect()
}

/// The server with its configuration read.
pub fn with_config(mut server: Server) -> Server {
    sut::config::read(&mut server);
    server
}
