//! One trial: start targets, preflight, load and watch, stop, record. Always ends with a [`TrialRecord`];
//! what went wrong is in its state, in the server's own words.

use super::drive::{Driven, Instrumentation};
use super::examine::{self, Examiner, PROFILE_HZ, PostLoad, PreLoad};
use super::rate::Unresolved;
use super::runtimes::{Consent, Runtimes};
use super::source::Source;
use crate::exit::Failure;
use crate::terminal::Progress;
use linux::namespace::{Inside, Namespace};
use monitor::profile::EndedProfile;
use monitor::{Extras, Watched};
use plan::{Figure, Plan, TableKind, TargetSpec, TrialPlan};
use record::{
    Arrival, Examination, LoadSpec, Nanos, ProfileKind, Server, TargetRecord, Tier, TrialRecord,
    TrialState, Warning,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use sut::{Launcher, Network, PinnedIrqs, RunningTarget, TargetError};

/// Longest wait for a server's own counters.
const STATUS_TIMEOUT: Nanos = Nanos::from_secs(2);

/// A target of this trial that runs.
struct Running {
    spec: TargetSpec,
    server: RunningTarget,
}

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
    launcher: &mut Launcher,
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
    let irqs = PinnedIrqs::apply(&launcher.journal, &trial.irqs);
    record.unavailable.extend(irqs.unavailable.iter().cloned());
    let mut targets = Vec::new();
    // Before the targets, which end first.
    let mut network = None;
    let result = arrival
        .map_err(Stopped::from)
        .and_then(|arrival| {
            record.load.arrival = arrival;
            network = make_network(trial, launcher)?;
            start_targets(trial, launcher, network.as_ref(), &mut targets, interrupted)
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
    stop_targets(targets, &mut record);
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
    launcher: &mut Launcher,
    hosts: Option<&Hosts>,
    targets: &mut Vec<Running>,
    interrupted: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, SocketAddr>, Stopped> {
    let mut addresses = BTreeMap::new();
    for spec in &trial.targets {
        let host = hosts.zip(spec.host.as_deref());
        let host = host.and_then(|(hosts, name)| hosts.network.host(name));
        let running = launcher.start_on(spec, &addresses, host, interrupted)?;
        addresses.insert(spec.name.clone(), running.address());
        targets.push(Running {
            spec: spec.clone(),
            server: running,
        });
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
    targets: &mut [Running],
    ask: Ask,
    source: &mut Source,
    progress: &mut Progress,
    interrupted: &dyn Fn() -> bool,
) -> Result<(), Stopped> {
    let Ask { examined, extras } = ask;
    let place = source.prepare(&record.load)?.place();
    let mut servers = if examined {
        servers(targets, place.and_then(|place| place.address()))
    } else {
        Vec::new()
    };
    let spec = record.load.clone();
    let pre_load = if examined {
        examiner(&spec, source, progress, interrupted).pre_load(&mut servers, true)?
    } else {
        PreLoad::default()
    };
    let before: Vec<_> = targets.iter().map(RequestCounter::read).collect();
    let around = Instrumentation {
        watch: Some(targets.iter().map(watched).collect()),
        extras,
        profile: (!servers.is_empty())
            .then(|| examine::profile_config(&servers, ProfileKind::OnCpu, PROFILE_HZ)),
    };
    let mut died: BTreeMap<String, String> = BTreeMap::new();
    let load = source.prepare(&spec)?;
    let driven = load.drive(&spec, &around, progress, &mut || {
        for target in targets.iter_mut() {
            if let Err(how) = target.server.check_alive() {
                died.insert(target.spec.name.clone(), how);
            }
        }
        !died.is_empty() || interrupted()
    });
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
    let post_load = if died.is_empty() && is_whole {
        examiner(&spec, source, progress, interrupted)
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
    record.unavailable.extend(watched.unavailable);
    record.unavailable.extend(pre_load.unavailable);
    record.unavailable.extend(post_load.unavailable);
    for ((target, before), after) in targets.iter().zip(before).zip(after) {
        let mut seen = target.server.record();
        seen.died = died.remove(&seen.name);
        count_requests(&mut seen, before, after, record);
        record.targets.push(seen);
    }
    record.state = end_state(outcome.interrupted, &record.targets);
    record.outcome = Some(outcome);
    Ok(())
}

fn examiner<'a>(
    spec: &'a LoadSpec,
    source: &'a mut Source,
    progress: &'a mut Progress,
    interrupted: &'a dyn Fn() -> bool,
) -> Examiner<'a> {
    Examiner {
        spec,
        source,
        best_tier: Tier::Ebpf,
        // A trial compares cells: what one of them is asked beside its load would be a difference.
        runtimes: Runtimes::new(Consent::NotAsked),
        interrupted,
        progress,
    }
}

/// The targets as servers, the one that is loaded first.
fn servers(targets: &[Running], loaded: Option<SocketAddr>) -> Vec<Server> {
    let (mut front, behind): (Vec<_>, Vec<_>) = targets
        .iter()
        .partition(|t| loaded.is_some_and(|it| t.server.address().port() == it.port()));
    front.extend(behind);
    front
        .into_iter()
        .map(|target| {
            let pids: Vec<i32> = target.server.processes().iter().map(|p| p.pid).collect();
            examine::with_config(sut::discover::of_pids(&pids, &target.spec.name))
        })
        .collect()
}

fn watched(target: &Running) -> Watched {
    Watched {
        target: target.spec.name.clone(),
        pids: target.server.processes().iter().map(|p| p.pid).collect(),
    }
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
    fn read(target: &Running) -> Reading {
        let path = target.spec.status_path.as_deref()?;
        let url = format!("http://{}{path}", plan::reachable(target.server.address()));
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

fn stop_targets(targets: Vec<Running>, record: &mut TrialRecord) {
    for Running { spec, server } in targets.into_iter().rev() {
        record.files.extend(server.files());
        if let Err(e) = server.stop() {
            record.warnings.push(Warning::new(
                "target_not_stopped",
                format!("stopping `{}`: {e}", spec.name),
                e.remedy(),
            ));
        }
    }
}
