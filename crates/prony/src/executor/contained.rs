//! A container that was named: which servers are examined for it, and what the record says of the way into it.
//!
//! The surprise: with a program on the way, that program is the server behind the URL, and the one in the container its
//! upstream. It comes first then, as any proxy would.

use super::drive::Instrumentation;
use super::examine::with_config;
use super::source::Source;
use crate::exit::{Exit, Failure};
use crate::terminal::Progress;
use linux::namespace::{Home, Namespace};
use record::{
    ContainerPath, DirectPath, Forwarding, LoadOutcome, LoadSpec, Nanos, PathFigures, PathPair,
    Server, TrialRecord, Unavailable,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;
use sut::discover::{self, Container, PodName};

/// Pairs of loads, published and direct: the fewest with which ranks can tell them apart (see `analysis`).
const PAIRS: usize = 6;
/// Each load of a pair.
const PAIR_TIME: Nanos = Nanos::from_millis(500);
const PAIR_WARMUP: Nanos = Nanos::from_millis(100);
/// How long the container may take to take a connection at its own address.
const REACHED: Duration = Duration::from_millis(500);

/// A running container.
pub struct Contained {
    container: Container,
    path: ContainerPath,
    /// Addresses that its server listens on.
    listens: Vec<SocketAddr>,
    unavailable: Vec<Unavailable>,
}

/// A container or pod that cannot be had.
pub fn unknown(error: &sut::TargetError) -> Failure {
    Failure::new(Exit::Usage, error.to_string(), error.remedy())
}

impl Contained {
    /// The one of this name or id.
    ///
    /// # Errors
    /// [`Failure`] when no engine knows it, or it does not run here.
    pub fn named(name: &str) -> Result<Self, Failure> {
        discover::container(name)
            .map(Self::of)
            .map_err(|e| unknown(&e))
    }

    /// That of a pod on this node.
    ///
    /// # Errors
    /// [`Failure`] when the cluster does not know it, or it runs elsewhere.
    pub fn of_pod(name: &PodName) -> Result<Self, Failure> {
        let here = discover::pod(name).and_then(|pod| pod.here());
        here.map(Self::of).map_err(|e| unknown(&e))
    }

    fn of(container: Container) -> Self {
        let path = ContainerPath {
            engine: container.engine.clone(),
            name: container.name.clone(),
            id: container.id.clone(),
            pid: container.pid,
            ..ContainerPath::default()
        };
        Self {
            container,
            path,
            listens: Vec::new(),
            unavailable: Vec::new(),
        }
    }

    /// The root of its only published port.
    ///
    /// # Errors
    /// [`Failure`] when it has none, or several.
    pub fn url(&self) -> Result<String, Failure> {
        url(&self.container)
    }

    /// Who is examined when the load goes to this address, in the order in which a request meets them; without a load
    /// the server first, as nobody knows which way the clients come.
    pub fn servers(&mut self, goes_to: Option<SocketAddr>) -> Vec<Server> {
        let inside = goes_to.map(|address| self.container.inside(address.port()));
        let server = self.container.server(inside);
        let Some(address) = goes_to else {
            let mut servers = vec![with_config(server)];
            servers.extend(self.container.forwarder().map(with_config));
            return servers;
        };
        let way = self.container.way(address);
        self.path.published = address.to_string();
        self.path.inside = inside.unwrap_or_default();
        self.path.forwarding = way.forwarding;
        self.unavailable.extend(way.unavailable);
        self.listens = server
            .listens
            .iter()
            .filter_map(|a| a.parse().ok())
            .collect();
        let mut servers = Vec::new();
        if way.forwarding == Forwarding::Program
            && let Some(forwarder) = way.forwarder
        {
            self.path.forwarder.clone_from(&forwarder.target);
            servers.push(with_config(forwarder));
        }
        servers.push(with_config(server));
        servers
    }

    /// The same load over the published port and straight to the container, in turn.
    ///
    /// # Errors
    /// [`Failure`] when a load cannot start.
    pub fn hold_against_direct(
        &mut self,
        spec: &LoadSpec,
        progress: &mut Progress,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        if self.path.forwarding == Forwarding::None {
            return Ok(());
        }
        let Some((address, within)) = self.direct(spec) else {
            self.unavailable.push(Unavailable {
                what: "the published port against the direct path".to_owned(),
                reason: "the container is reached at no address of its own, or the load has a way of its own \
                         (--connect-to, --proxy, --source)"
                    .to_owned(),
                remedy: "run prony as root, which may enter the container's network".to_owned(),
            });
            return Ok(());
        };
        let short = LoadSpec {
            warmup: PAIR_WARMUP,
            requests: None,
            duration: Some(PAIR_TIME),
            ..spec.steady()
        };
        let direct = LoadSpec {
            connect_to: Some(address.to_string()),
            ..short.clone()
        };
        let namespace = within.then(|| Namespace::of_process(self.container.pid));
        let mut path = DirectPath {
            address: address.to_string(),
            within,
            pairs: Vec::new(),
        };
        for n in 0..PAIRS {
            let mut one = |spec: &LoadSpec, namespace: Option<&Namespace>| {
                load(spec, namespace, progress, interrupted)
            };
            let (published, direct) = if n % 2 == 0 {
                let published = one(&short, None)?;
                (published, one(&direct, namespace.as_ref())?)
            } else {
                let direct = one(&direct, namespace.as_ref())?;
                (one(&short, None)?, direct)
            };
            if interrupted() {
                break;
            }
            let figures = figures(published.as_ref()).zip(figures(direct.as_ref()));
            let pair = figures.map(|(published, direct)| PathPair { published, direct });
            path.pairs.extend(pair);
        }
        self.path.direct = Some(path);
        Ok(())
    }

    /// Where the server is reached without the published port, and whether only in its own network.
    fn direct(&self, spec: &LoadSpec) -> Option<(SocketAddr, bool)> {
        let has_its_way = spec.connect_to.is_some()
            || spec.proxy.is_some()
            || spec.unix.is_some()
            || !spec.source.is_empty();
        if has_its_way {
            return None;
        }
        let inside = self.path.inside;
        let own = self.container.addresses.iter();
        let mut own = own.map(|ip| SocketAddr::new(*ip, inside));
        let reached = |address: &SocketAddr| TcpStream::connect_timeout(address, REACHED).is_ok();
        if let Some(address) = own.find(reached) {
            return Some((address, false));
        }
        let listens = self.listens.iter().find(|a| a.port() == inside)?;
        let ip = match listens.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let namespace = Namespace::of_process(self.container.pid);
        let may_enter = namespace.within(|| ()).is_ok();
        may_enter.then_some((SocketAddr::new(ip, inside), true))
    }

    /// Writes it into the examinations.
    pub fn note(self, trials: &mut [TrialRecord]) {
        for trial in trials {
            trial.unavailable.extend(self.unavailable.clone());
            if let Some(examination) = &mut trial.examination {
                examination.container = Some(self.path.clone());
            }
        }
    }
}

/// The root of a container's only published port.
///
/// # Errors
/// [`Failure`] when it has none, or several.
pub fn url(container: &Container) -> Result<String, Failure> {
    let port = container.only_port().map_err(|e| unknown(&e))?;
    // What listens on another port than TLS's own says itself what it speaks, by --url.
    let scheme = if port.inside == 443 { "https" } else { "http" };
    Ok(format!("{scheme}://{}/", port.address))
}

/// A load from this thread's network, or from that of a namespace; `None` when that is gone.
fn load(
    spec: &LoadSpec,
    namespace: Option<&Namespace>,
    progress: &mut Progress,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<LoadOutcome>, Failure> {
    let mut run = || {
        let around = Instrumentation::default();
        let mut here = Source::Here;
        let load = here.prepare(spec)?;
        let driven = load.drive(spec, &around, progress, &mut || interrupted())?;
        Ok(driven.outcome)
    };
    let Some(namespace) = namespace else {
        return run().map(Some);
    };
    let home = Home::here().ok();
    let outcome = namespace.within(&mut run).ok().transpose()?;
    // A thread that found no way back must not load the published port from elsewhere.
    let is_back = home.is_some_and(|home| home.check().is_ok());
    Ok(outcome.filter(|_| is_back))
}

fn figures(outcome: Option<&LoadOutcome>) -> Option<PathFigures> {
    let outcome = outcome?;
    Some(PathFigures {
        rate_per_s: outcome.achieved_per_s()?,
        response_ns_p50: outcome.response.quantile(0.5)?.0,
    })
}
