//! One trial: start targets, preflight, load and watch, stop, record. Always ends with a [`TrialRecord`];
//! what went wrong is in its state, in the server's own words.

use super::drive::{Driven, Instrumentation};
use super::examine::{self, CpuTimes, Examiner, PROFILE_HZ, PostLoad, PreLoad};
use super::rate::Unresolved;
use super::runtimes::{Consent, Runtimes};
use super::source::Source;
use super::target::{NotStarted, Target, Targets};
use crate::exit::Failure;
use crate::terminal::Progress;
use agent::TargetEnd;
use linux::namespace::{Inside, Namespace};
use monitor::profile::EndedProfile;
use monitor::{Extras, Watched};
use plan::{Figure, Plan, TableKind, TrialPlan};
use record::{
    Arrival, Examination, LoadSpec, Nanos, ProfileKind, Server, TargetRecord, Tier, TrialRecord,
    TrialState, Unavailable, Warning,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use sut::{Launcher, Network, PinnedIrqs, TargetError};

/// Longest wait for a server's own counters.
const STATUS_TIMEOUT: Nanos = Nanos::from_secs(2);

/// What stopped a trial before its load could run.
enum Stopped {
    Failed { error: String, remedy: String },
    Interrupted,
}

impl From<TargetError> for Stopped {
    fn from(e: TargetError) -> Self {
        match e {
            TargetError::Interrupted { .. } => Stopped::Interrupted,
            e => Stopped::Failed {
                error: e.to_string(),
                remedy: e.remedy(),
            },
        }
    }
}

impl From<NotStarted> for Stopped {
    fn from(e: NotStarted) -> Self {
        match e {
            NotStarted::Here(e) => e.into(),
            NotStarted::There(e) => e.into(),
        }
    }
}

impl From<linux::Error> for Stopped {
    fn from(e: linux::Error) -> Self {
        Stopped::Failed {
            error: e.to_string(),
            remedy: e.remedy().to_owned(),
        }
    }
}

impl From<Unresolved> for Stopped {
    fn from(Unresolved { error, remedy }: Unresolved) -> Self {
        Stopped::Failed { error, remedy }
    }
}

impl From<Failure> for Stopped {
    fn from(e: Failure) -> Self {
        Stopped::Failed {
            error: e.message,
            remedy: e.remedy,
        }
    }
}

/// Runs `trial` with the arrivals that its rate comes to; `interrupted` is asked often.
pub fn run(
    plan: &Plan,
    trial: &TrialPlan,
    arrival: Result<Arrival, Unresolved>,
    starter: &mut Targets,
    source: &mut Source,
    progress: &mut Progress,
    interrupted: &dyn Fn() -> bool,
) -> TrialRecord {
    let mut record = TrialRecord {
        id: trial.id,
        stage: plan.stages[trial.stage].name.clone(),
        block: trial.block,
        levels: trial.levels.clone(),
        load: trial.load.clone(),
        state: TrialState::Complete,
        outcome: None,
        reported: None,
        targets: Vec::new(),
        unavailable: Vec::new(),
        warnings: Vec::new(),
        series: Vec::new(),
        hosts: Vec::new(),
        examination: None,
        files: BTreeMap::new(),
    };
    let irqs = PinnedIrqs::apply(&starter.here.journal, &trial.irqs);
    record.unavailable.extend(irqs.unavailable.iter().cloned());
    let mut targets = Vec::new();
    // Before the targets, which end first.
    let mut network = None;
    let result = arrival
        .map_err(Stopped::from)
        .and_then(|arrival| {
            record.load.arrival = arrival;
            network = make_network(trial, &starter.here)?;
            start_targets(trial, starter, network.as_ref(), &mut targets, interrupted)
        })
        .and_then(|addresses| {
            record.load.url = plan::resolve_url(&trial.load.url, &addresses);
            let stage = &plan.stages[trial.stage];
            let ask = Ask {
                examined: stage.examine && trial.block + 1 == stage.repeats,
                extras: extras(plan),
            };
            measure(
                &mut record,
                starter,
                &mut targets,
                ask,
                source,
                progress,
                interrupted,
            )
        });
    match result {
        Ok(()) => {}
        Err(Stopped::Failed { error, remedy }) => {
            record.state = TrialState::Failed { error, remedy };
        }
        Err(Stopped::Interrupted) => record.state = TrialState::Interrupted,
    }
    stop_targets(starter, targets, &mut record);
    drop(network);
    record
}

/// The hosts of a trial, with this thread on the client's.
struct Hosts {
    // Before the network, so that the thread is back where it was when the hosts go.
    _client: Option<Inside>,
    network: Network,
}

/// Makes the trial's hosts, and takes this thread, and so the load's threads, to the client's.
fn make_network(trial: &TrialPlan, launcher: &Launcher) -> Result<Option<Hosts>, Stopped> {
    let Some(topology) = &trial.topology else {
        return Ok(None);
    };
    let network = Network::create(&launcher.journal, topology)?;
    let client = network.client().map(Namespace::enter).transpose()?;
    Ok(Some(Hosts {
        _client: client,
        network,
    }))
}

fn start_targets(
    trial: &TrialPlan,
    starter: &mut Targets,
    hosts: Option<&Hosts>,
    targets: &mut Vec<Target>,
    interrupted: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, SocketAddr>, Stopped> {
    let mut addresses = BTreeMap::new();
    for spec in &trial.targets {
        let host = hosts.zip(spec.host.as_deref());
        let host = host.and_then(|(hosts, name)| hosts.network.host(name));
        let target = starter.start(trial, spec, &addresses, host, interrupted)?;
        addresses.insert(spec.name.clone(), target.address());
        targets.push(target);
    }
    Ok(addresses)
}

/// What a trial is asked beyond its load.
#[derive(Clone, Copy)]
struct Ask {
    /// It is the last of its cell, which is examined too.
    examined: bool,
    /// What is watched on request.
    extras: Extras,
}

/// What the plan's tables show of what is watched on request only.
fn extras(plan: &Plan) -> Extras {
    let shows = |wanted: &[Figure]| {
        let mut figures = plan.tables.iter().flat_map(|t| &t.figures);
        figures.any(|f| wanted.contains(&f.figure))
    };
    Extras {
        tlb: shows(&[Figure::TlbLoadsPerRequest, Figure::TlbMissesPerRequest]),
        slabs: shows(&[Figure::TcpSlabs, Figure::TcpBytesPerConnection]),
        queues: plan.tables.iter().any(|t| t.kind == TableKind::Queues),
    }
}

/// Loads and watches. The last block of each cell is `examined` too: its servers are profiled under the timed
/// load, and what they do for each request is counted beside it.
fn measure(
    record: &mut TrialRecord,
    starter: &mut Targets,
    targets: &mut [Target],
    ask: Ask,
    source: &mut Source,
    progress: &mut Progress,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), Stopped> {
    let Ask { extras, .. } = ask;
    let examined = ask.examined && is_examined_here(targets, record);
    let place = source.prepare(&record.load)?.place();
    let mut servers = if examined {
        servers(targets, place.and_then(|place| place.address()))
    } else {
        Vec::new()
    };
    let spec = record.load.clone();
    let pre_load = if examined {
        examiner(&spec, source, progress, interrupted, None).pre_load(&mut servers, true)?
    } else {
        PreLoad::default()
    };
    let before: Vec<_> = targets.iter().map(RequestCounter::read).collect();
    let around = Instrumentation {
        watch: Some(targets.iter().filter_map(Target::watched).collect()),
        extras,
        profile: (!servers.is_empty())
            .then(|| examine::profile_config(&servers, ProfileKind::OnCpu, PROFILE_HZ)),
    };
    let mut died: BTreeMap<String, String> = BTreeMap::new();
    let mut lost = None;
    let load = source.prepare(&spec)?;
    let watches = starter.watch(targets, extras)?;
    let used = CpuTimes::of(&servers);
    let driven = load.drive(&spec, &around, progress, &mut || {
        for target in targets.iter_mut() {
            if let Err(how) = target.check_alive() {
                died.insert(target.spec.name.clone(), how);
            }
        }
        for end in starter.ended() {
            match end {
                TargetEnd::Died { target, how } => {
                    died.insert(target, how);
                }
                TargetEnd::Lost(error) => lost = Some(error),
            }
        }
        !died.is_empty() || lost.is_some() || interrupted()
    });
    let busy = used.busiest(&servers);
    let there = starter.end_watch(watches, targets);
    died.extend(there.died);
    let driven = driven?;
    let is_whole = driven.is_whole();
    let Driven {
        outcome,
        hosts,
        watched,
        profiled,
    } = driven;
    record.hosts = hosts;
    let after: Vec<_> = targets.iter().map(RequestCounter::read).collect();
    let post_load = if died.is_empty() && lost.is_none() && is_whole {
        examiner(&spec, source, progress, interrupted, busy)
            .post_load(&servers, outcome.answered_per_s())?
    } else {
        PostLoad::default()
    };
    if examined {
        let mut examination = Examination {
            container: None,
            servers,
            answer: pre_load.answer,
            single_client: pre_load.single_client,
            signature: post_load.signature,
            turns: post_load.turns,
            watching: None,
            warming: pre_load.warming,
            runtimes: Vec::new(),
            monitor_cost: vec![examine::sampling_cost(&watched)],
            profiles: Vec::new(),
        };
        examine::take_profile(
            profiled.map(|p| p.map(EndedProfile::fold)),
            &mut examination.profiles,
            &mut examination.monitor_cost,
            &mut record.unavailable,
        );
        examination.profiles.extend(post_load.profiles);
        record.examination = Some(examination);
    }
    record.series = watched.series;
    record.series.extend(there.series);
    record.unavailable.extend(watched.unavailable);
    record.unavailable.extend(there.unavailable);
    record.unavailable.extend(pre_load.unavailable);
    record.unavailable.extend(post_load.unavailable);
    for ((target, before), after) in targets.iter().zip(before).zip(after) {
        let mut seen = target.record();
        seen.died = died.remove(&seen.name);
        count_requests(&mut seen, before, after, record);
        record.targets.push(seen);
    }
    record.state = match lost {
        Some(error) => TrialState::Failed {
            error: format!(
                "host {} was lost under load, with the targets on it: {}",
                error.host, error.what
            ),
            remedy: error.remedy,
        },
        None => end_state(outcome.interrupted, &record.targets),
    };
    record.outcome = Some(outcome);
    Ok(())
}

fn examiner<'a>(
    spec: &'a LoadSpec,
    source: &'a mut Source,
    progress: &'a mut Progress,
    interrupted: &'a dyn Fn() -> bool,
    busy: Option<f64>,
) -> Examiner<'a> {
    Examiner {
        spec,
        source,
        best_tier: Tier::Ebpf,
        // A trial compares cells: what one of them is asked beside its load would be a difference.
        runtimes: Runtimes::new(Consent::NotAsked),
        interrupted,
        progress,
        busy,
    }
}

/// Whether the server that is loaded, which starts last, can be examined from here; what cannot is noted.
fn is_examined_here(targets: &[Target], record: &mut TrialRecord) -> bool {
    let there = targets.iter().filter_map(|t| Some((t, t.host()?)));
    record.unavailable.extend(there.map(|(target, host)| Unavailable {
        what: format!("signature and profiles of `{}`", target.spec.name),
        reason: format!(
            "it ran on host {}, and a server is profiled and its calls are counted only where prony runs",
            host.name
        ),
        remedy: "run prony on that host and send the load from another one (`hosts`, --on), or prony diagnose --server-host"
            .to_owned(),
    }));
    targets.last().is_none_or(|front| front.host().is_none())
}

/// The targets as servers, the one that is loaded first; those on other hosts cannot be looked at.
fn servers(targets: &[Target], loaded: Option<SocketAddr>) -> Vec<Server> {
    let (mut front, behind): (Vec<_>, Vec<_>) = targets
        .iter()
        .partition(|t| loaded.is_some_and(|it| t.address().port() == it.port()));
    front.extend(behind);
    let here = front.into_iter().filter_map(Target::watched);
    here.map(|Watched { target, pids }| {
        examine::with_config(sut::discover::of_pids(&pids, &target))
    })
    .collect()
}

fn end_state(stopped: bool, targets: &[TargetRecord]) -> TrialState {
    match targets.iter().find_map(|t| Some((t, t.died.as_ref()?))) {
        Some((target, how)) => TrialState::Failed {
            error: format!("target `{}` exited under load: {how}", target.name),
            remedy: "see its output in the trial's files".to_owned(),
        },
        None if stopped => TrialState::Interrupted,
        None => TrialState::Complete,
    }
}

/// What a server says that it has served.
struct RequestCounter {
    total: u64,
    by_worker: BTreeMap<String, u64>,
    /// Requests that reading the counter adds to it.
    own: u64,
}

impl RequestCounter {
    /// Asks the target; `None` when it keeps no counter, `Some(Err)` when it did not answer.
    fn read(target: &Target) -> Reading {
        let path = target.spec.status_path.as_deref()?;
        let url = format!("http://{}{path}", plan::reachable(target.address()));
        Some(
            traffic::fetch(&url, STATUS_TIMEOUT)
                .map_err(|e| e.to_string())
                .and_then(|answer| {
                    Self::parse(&String::from_utf8_lossy(&answer.body)).ok_or_else(|| {
                        format!("the response of {url} is neither stub_status nor prony's /stats")
                    })
                }),
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let of_nginx = |total| Self {
            total,
            by_worker: BTreeMap::new(),
            // The request that asks is counted too.
            own: 1,
        };
        sut::stub_status_requests(text)
            .map(of_nginx)
            .or_else(|| Self::parse_origin(text))
    }

    /// `/stats` of `prony origin`, which leaves itself out.
    fn parse_origin(text: &str) -> Option<Self> {
        let stats: traffic::origin::OriginStats = serde_json::from_str(text).ok()?;
        Some(Self {
            total: stats.total.requests,
            by_worker: stats
                .threads
                .iter()
                .map(|t| (t.tid.to_string(), t.counts.requests))
                .collect(),
            own: 0,
        })
    }
}

type Reading = Option<Result<RequestCounter, String>>;

/// The difference of two readings, into the target's record.
fn count_requests(
    seen: &mut TargetRecord,
    before: Reading,
    after: Reading,
    record: &mut TrialRecord,
) {
    match (before, after) {
        (Some(Ok(before)), Some(Ok(after))) => {
            seen.requests_counted = Some(
                after
                    .total
                    .saturating_sub(before.total)
                    .saturating_sub(after.own),
            );
            seen.requests_by_worker = after
                .by_worker
                .into_iter()
                .map(|(worker, count)| {
                    let earlier = before.by_worker.get(&worker).copied().unwrap_or(0);
                    (worker, count.saturating_sub(earlier))
                })
                .collect();
        }
        (Some(Err(cause)), _) | (_, Some(Err(cause))) => record.warnings.push(Warning::new(
            "no_request_counter",
            format!(
                "the request counter of `{}` could not be read: {cause}",
                seen.name
            ),
            "check `status` in the experiment file and the location in the server's configuration",
        )),
        _ => {}
    }
}

fn stop_targets(starter: &mut Targets, targets: Vec<Target>, record: &mut TrialRecord) {
    for target in targets.into_iter().rev() {
        let (files, warning) = starter.stop(target);
        record.files.extend(files);
        record.warnings.extend(warning);
    }
}
