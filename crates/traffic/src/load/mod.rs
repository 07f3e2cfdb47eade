//! The load generator: [`Load::prepare`] checks and builds everything, [`Load::start`] runs it,
//! [`Running`] is watched and finished.
//!
//! | file | holds |
//! |---|---|
//! | `request`, `limits` | the request's bytes; what the host must have |
//! | `way` | what stands between the load and its server |
//! | `worker` | the one loop: phases, sends, receives, time |
//! | `exchange`, `connection`, `response` | its bookkeeping: requests on connections, one slot, responses in bytes |
//! | `event_streams` | responses that are streams of events, each an answer |
//! | `user_space` | what a TCP of our own needs beside its attachment |
//! | `tally`, `slices`, `cost` | what is counted, over the whole and over time |
//! | `workload` | several kinds of requests: values, checks, captures, cookies |
//! | `look` | one answer as a whole, before a load |
//! | `outcome` | the threads' reports as one [`LoadOutcome`] |
//!
//! How a server is reached is a transport, when requests are due an arrival process; neither is here.

mod coalesce;
mod connection;
pub(crate) mod cost;
mod engine;
mod error;
mod event_streams;
mod exchange;
mod limits;
mod look;
mod outcome;
mod pieces;
pub(crate) mod request;
pub(crate) mod response;
mod shared;
#[cfg(test)]
mod simulated;
mod slices;
pub(crate) mod tally;
mod user_space;
mod way;
mod worker;
mod workload;

pub use error::LoadError;

use crate::arrival::Share;
use crate::clock::{MonotonicClock, now_ns};
use crate::sys::{self, RawAddress};
use crate::transport::{
    Endpoint, Epoll, H2, Http2, Limited, Place, Setup, Tls, Transport, Trust, Tunnel, Upgrade,
    Uring, Usage, UserSpace, WebSocket, client_config, receive_buffer,
};
use crate::user_space::AnyDevice;
use connection::Policy;
use exchange::Exchange;
use pieces::Pieces;
use record::{
    Carrier, Close, Engine, Histogram, Http, Interval, LoadOutcome, LoadSpec, Nanos, Part,
    Precision, RateCourse, Warning,
};
use rustls::ClientConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use shared::{Shared, StopOnPanic};
use slices::{Merger, Polled, Slicer};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use url::{Position, Url};
use worker::{Report, Task, Worker};
use workload::Prepared;

/// Below this a timeout could not be told from the loop's own rounds.
const TIMEOUT_MIN_NS: u64 = 1_000_000;
/// The longest duration and warm-up. 64 bits of nanoseconds end after 584 years: an absurd `-d` must not wrap.
const SPAN_MAX: Nanos = Nanos::from_secs(365 * 24 * 3_600);
/// A request up to this size leaves in one segment on any path.
const ONE_SEGMENT_BYTES: usize = 1_200;
/// The most streams over all connections.
const PLACES_MAX: u64 = 1 << 22;
/// How long an address of a name with several may take to accept a connection.
const PROBE: Duration = Duration::from_secs(1);

/// Where a load thread belongs, and what it shares with the others.
struct Seat {
    /// Its number among the threads of this process.
    index: u32,
    /// Its part of the whole load.
    share: Share,
    slicer: Slicer,
    shared: Arc<Shared>,
    /// Takes its kernel id, or the CPU that it could not be pinned to.
    identify: Identify,
}

type Identify = mpsc::Sender<(u32, Result<i32, u32>)>;

/// A load that can start: everything that can be checked has been.
pub struct Load {
    spec: LoadSpec,
    /// Which of the load's threads are here.
    part: Part,
    /// Of sockets; never [`Engine::Auto`].
    engine: Engine,
    endpoint: Endpoint,
    /// What asks a proxy for a tunnel.
    tunnel: Option<Arc<[u8]>>,
    /// Set up for a TCP of our own.
    user_space: Option<Setup>,
    tls: Option<(ClientConfig, ServerName<'static>)>,
    /// What asks for a WebSocket.
    upgrade: Option<Arc<Upgrade>>,
    policy: Policy,
    requests: Arc<[u8]>,
    workload: Option<Arc<Prepared>>,
    /// How the rate changes.
    course: Option<Arc<RateCourse>>,
    spin_ns: u64,
    warnings: Vec<Warning>,
}

impl Load {
    /// Checks a load and prepares all of it: resolves the name, builds the request, reads the body and
    /// the certificates, raises the limit of open files.
    ///
    /// # Errors
    /// [`LoadError`], each variant before anything has been sent.
    pub fn prepare(spec: &LoadSpec) -> Result<Load, LoadError> {
        Self::prepare_part(spec, None)
    }

    /// The same for the part of a load that this process carries; `None` is all of it.
    ///
    /// # Errors
    /// [`LoadError`], as of [`Load::prepare`].
    pub fn prepare_part(spec: &LoadSpec, part: Option<Part>) -> Result<Load, LoadError> {
        check_quantities(spec)?;
        let url = request::parse_url(&spec.url)?;
        let request = request::build(spec, &url)?;
        if spec.http == Http::Two && !matches!(http1::parse_request(&request.bytes), Ok(Some(_))) {
            return Err(LoadError::Http {
                what: "this request over HTTP/2",
                why: "it has too many headers, or not one Host",
                remedy: "leave headers out",
            });
        }
        let allowed = linux::affinity::allowed();
        limits::check_cpus(&spec.cpus, &allowed)?;
        let mut part = part.unwrap_or_else(|| Part::whole(thread_count(spec, allowed.len())));
        let mut warnings = Vec::new();
        way::check(&url, spec, &mut warnings)?;
        let place = place(&url, spec, &mut warnings)?;
        if spec.transport == Carrier::Kernel {
            limits::check_descriptors(part.of_count(spec.connections.into()) as u32)?;
        }
        if let (Carrier::Kernel, Some(server)) = (spec.transport, place.address()) {
            limits::check_sources(&spec.source, server)?;
            let ports = limits::LocalPorts::read(Path::new("/proc"), server);
            warnings.extend(limits::check_ports(spec, server, ports)?);
        }
        let tls = prepare_tls(&url, spec, &mut warnings)?;
        let workload = prepare_workload(spec, &url)?;
        let policy = policy(spec, &request, workload.as_deref());
        let largest = (workload.as_deref()).map_or(request.bytes.len(), Prepared::largest);
        let reused = policy.per_connection > 1 || largest > ONE_SEGMENT_BYTES;
        let upgrade = request::upgrade(spec, &url)?;
        let opening = upgrade.as_ref().map_or(0, Upgrade::len);
        let bytes = opening.max(largest * spec.depth() as usize);
        let user_space = match (spec.transport, place.address()) {
            (Carrier::Kernel, _) | (_, None) => None,
            (_, Some(server)) => {
                part = Part::whole(user_space::threads(spec));
                Some(user_space::prepare(spec, server, bytes, tls.is_some())?)
            }
        };
        let engine = match spec.transport {
            Carrier::Kernel => engine::choose(spec, part.of, &mut warnings)?,
            _ => Engine::Epoll,
        };
        Ok(Load {
            user_space,
            engine,
            endpoint: Endpoint {
                server: place,
                sources: spec.source.clone(),
                one_segment: !reused
                    && tls.is_none()
                    && upgrade.is_none()
                    && spec.http == Http::One,
                receive_buffer: spec.limit_rate.map(|rate| receive_buffer(rate.0)),
            },
            tunnel: way::connect_request(spec, &url),
            upgrade: upgrade.map(Arc::new),
            requests: request.bytes.repeat(policy.depth).into(),
            workload,
            course: (!spec.rate_pieces.is_empty())
                .then(|| Arc::new(RateCourse::new(&spec.rate_pieces, spec.warmup))),
            spin_ns: spin_ns(spec, part.of, allowed.len()),
            spec: spec.clone(),
            part,
            tls,
            policy,
            warnings,
        })
    }

    /// Where the load will go.
    pub fn place(&self) -> &Place {
        &self.endpoint.server
    }

    /// The address of TCP where the load will go; `None` over a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        self.endpoint.server.address()
    }

    /// The bytes of one request.
    pub fn request(&self) -> &[u8] {
        &self.requests[..self.policy.request_bytes]
    }

    /// Starts the load threads. They open the connections first, and begin together.
    ///
    /// # Errors
    /// [`LoadError::Start`] when the system refuses a thread or an epoll instance, [`LoadError::Cpu`] when
    /// a thread cannot be pinned.
    pub fn start(self) -> Result<Running, LoadError> {
        self.start_over(|shared| shared)
    }

    /// The same, but they begin when [`Running::begin_at`] says so.
    ///
    /// # Errors
    /// [`LoadError`], as of [`Load::start`].
    pub fn start_held(self) -> Result<Running, LoadError> {
        self.start_over(Shared::held)
    }

    fn start_over(self, hold: impl FnOnce(Shared) -> Shared) -> Result<Running, LoadError> {
        let duration = self.spec.duration.map(|duration| duration.0);
        let Part {
            first,
            threads: count,
            of,
        } = self.part;
        let shared = Arc::new(hold(Shared::new(count, self.spec.warmup.0, duration)));
        let (identify, identities) = mpsc::channel();
        let mut lanes = Vec::new();
        let mut threads = Vec::new();
        let mut devices = match &self.user_space {
            Some(setup) => user_space::open(&self.spec, setup, count)?,
            None => Vec::new(),
        }
        .into_iter();
        for index in 0..count {
            let (slicer, lane) = slices::lane();
            lanes.push(lane);
            let seat = Seat {
                index,
                share: Share {
                    index: first + index,
                    of,
                },
                slicer,
                shared: Arc::clone(&shared),
                identify: identify.clone(),
            };
            let spawned = self.spawn(devices.next(), seat);
            if spawned.is_err() {
                shared.stop(now_ns());
                (threads.len() as u32..count).for_each(|_| shared.thread_is_ready(now_ns()));
            }
            threads.push(spawned?);
        }
        drop(identify);
        let mut thread_ids = vec![0; threads.len()];
        for (index, identity) in identities {
            match identity {
                Ok(id) => thread_ids[index as usize] = id,
                Err(cpu) => {
                    shared.stop(now_ns());
                    let allowed = linux::affinity::allowed();
                    return Err(LoadError::Cpu { cpu, allowed });
                }
            }
        }
        Ok(Running {
            part: self.part,
            stopper: Stopper(shared),
            thread_ids,
            threads,
            merger: Merger::new(lanes),
            intervals: Vec::new(),
            spec: self.spec,
            workload: self.workload,
            warnings: self.warnings,
        })
    }

    fn spawn(
        &self,
        over: Option<(AnyDevice, Setup)>,
        seat: Seat,
    ) -> Result<JoinHandle<Report>, LoadError> {
        let slots = seat.share.of_count(u64::from(self.spec.connections)) as u32;
        let open_count = Arc::clone(&seat.shared.open_count);
        if let Some((device, setup)) = over {
            let attachment = user_space::attachment(&self.spec, setup.server)?;
            let transport = UserSpace::new(slots, device, &setup, open_count)
                .map_err(|cause| attachment.refused(cause))?;
            return self.spawn_over(transport, seat);
        }
        let source = seat.index as usize;
        let started = |what| move |cause| LoadError::Start { what, cause };
        if self.engine == Engine::Uring {
            let usage = Usage {
                requests: Arc::clone(&self.requests),
                prompt: self.spec.arrival.offered_per_s().is_some(),
                kept: self.policy.per_connection > 1,
            };
            let transport = Uring::new(slots, &self.endpoint, source, usage, open_count)
                .map_err(started("an io_uring"))?;
            return self.spawn_over(transport, seat);
        }
        let transport = Epoll::new(slots, &self.endpoint, source, open_count)
            .map_err(|errno| started("epoll_create")(errno.to_io()))?;
        let limit = self.spec.limit_rate.zip(self.spec.limit_burst());
        if limit.is_none() && self.tunnel.is_none() {
            return self.spawn_over(transport, seat);
        }
        // Slow clients and proxies are called through a table: a load loop for each would be 300 KB more of code.
        let mut transport: Box<dyn Transport + Send> = match limit {
            None => Box::new(transport),
            Some((rate, burst)) => Box::new(Limited::new(
                transport,
                MonotonicClock,
                slots,
                rate.0,
                burst.0,
            )),
        };
        if let Some(request) = &self.tunnel {
            transport = Box::new(Tunnel::new(transport, slots, Arc::clone(request)));
        }
        self.spawn_over(transport, seat)
    }

    /// A load thread over a transport, or over TLS over it.
    fn spawn_over<T: Transport + Send + 'static>(
        &self,
        transport: T,
        seat: Seat,
    ) -> Result<JoinHandle<Report>, LoadError> {
        let connections = seat.share.of_count(u64::from(self.spec.connections)) as u32;
        match &self.tls {
            None => self.spawn_speaking(transport, seat),
            Some((config, name)) => {
                let transport = Tls::new(
                    transport,
                    connections,
                    config,
                    name.clone(),
                    !self.spec.no_resumption,
                );
                self.spawn_speaking(transport, seat)
            }
        }
    }

    /// A load thread that speaks HTTP/1.1, HTTP/2 or WebSocket over a transport of bytes.
    fn spawn_speaking<T: Transport + Send + 'static>(
        &self,
        transport: T,
        seat: Seat,
    ) -> Result<JoinHandle<Report>, LoadError> {
        let Seat {
            index,
            share,
            slicer,
            shared,
            identify,
        } = seat;
        let connections = share.of_count(u64::from(self.spec.connections)) as u32;
        let slots = connections * self.policy.streams;
        let mut exchange = Exchange::new(self.policy.clone(), slots, slicer);
        if self.course.is_some() {
            exchange = exchange.with_pieces(Pieces::of(&self.spec));
        }
        if let Some(work) = &self.workload {
            exchange = exchange.with_workload(Arc::clone(work), share.index, share.of);
        }
        if self.spec.sse {
            exchange = exchange.with_streams();
        }
        let logged = share.of_count(self.spec.habits.log_requests);
        exchange.tally.log = Vec::with_capacity(logged as usize);
        let task = self.task(share);
        let cpu = pick_cpu(&self.spec.cpus, index);
        match (&self.upgrade, self.spec.http) {
            (Some(upgrade), _) => {
                let transport = WebSocket::new(transport, connections, Arc::clone(upgrade));
                spawn_thread(
                    (index, cpu),
                    identify,
                    Worker::new(transport, MonotonicClock, exchange, task, shared),
                )
            }
            (None, Http::One) => spawn_thread(
                (index, cpu),
                identify,
                Worker::new(transport, MonotonicClock, exchange, task, shared),
            ),
            (None, Http::Two) => {
                let transport = H2::new(transport, connections, self.http2());
                spawn_thread(
                    (index, cpu),
                    identify,
                    Worker::new(transport, MonotonicClock, exchange, task, shared),
                )
            }
        }
    }

    fn http2(&self) -> Http2 {
        Http2 {
            streams: self.policy.streams,
            per_connection: self.spec.requests_per_connection.unwrap_or(u64::MAX),
            scheme: if self.tls.is_some() { "https" } else { "http" },
            grpc: self.spec.grpc,
        }
    }

    fn task(&self, share: Share) -> Task {
        Task {
            requests: Arc::clone(&self.requests),
            arrival: self.spec.arrival,
            course: self.course.clone(),
            timetable: self.spec.timetable.clone(),
            share,
            budget: self.spec.requests.map_or(u64::MAX, |n| share.of_count(n)),
            close: self.spec.close,
            open_first: self.policy.per_connection > 1,
            timeout_ns: self.policy.timeout_ns,
            spin_ns: self.spin_ns,
            coalesce_ns: self.spec.coalesce.map(|time| time.0),
        }
    }
}

fn pick_cpu(cpus: &[u32], index: u32) -> Option<u32> {
    (!cpus.is_empty()).then(|| cpus[index as usize % cpus.len()])
}

fn spawn_thread<T: Transport + Send + 'static>(
    (index, cpu): (u32, Option<u32>),
    identify: Identify,
    worker: Worker<T, MonotonicClock>,
) -> Result<JoinHandle<Report>, LoadError> {
    std::thread::Builder::new()
        .name(format!("load-{index}"))
        .spawn(move || {
            let _guard = StopOnPanic(worker.shared());
            let pinned = cpu.map_or(Ok(()), |cpu| linux::affinity::pin_to(cpu).map_err(|_| cpu));
            sys::set_precise_timers();
            // Nobody listens any more when another thread could not start.
            let _ = identify.send((index, pinned.map(|()| sys::thread_id())));
            drop(identify);
            worker.run()
        })
        .map_err(|cause| LoadError::Start {
            what: "a load thread",
            cause,
        })
}

fn check_quantities(spec: &LoadSpec) -> Result<(), LoadError> {
    let zero = |what| {
        Err(LoadError::NotPositive {
            what,
            value: "0".to_owned(),
        })
    };
    if let Some(per_s) = spec.arrival.offered_per_s()
        && !(per_s > 0.0 && per_s.is_finite())
    {
        return Err(LoadError::NotPositive {
            what: "the rate",
            value: per_s.to_string(),
        });
    }
    if spec.timeout.0 < TIMEOUT_MIN_NS {
        return Err(LoadError::Timeout {
            timeout: spec.timeout,
        });
    }
    let spans = [
        ("the duration", spec.duration.unwrap_or_default()),
        ("the warm-up", spec.warmup),
    ];
    if let Some(&(what, asked)) = spans.iter().find(|(_, span)| *span > SPAN_MAX) {
        return Err(LoadError::TooLong { what, asked });
    }
    check_http(spec)?;
    check_websocket(spec)?;
    event_streams::check_spec(spec)?;
    match spec {
        LoadSpec { connections: 0, .. } => zero("the number of connections"),
        LoadSpec { pipeline: 0, .. } => zero("the pipelining depth"),
        LoadSpec { streams: 0, .. } => zero("the number of streams"),
        LoadSpec {
            threads: Some(0), ..
        } => zero("the number of threads"),
        LoadSpec {
            requests: Some(0), ..
        } => zero("the number of requests"),
        LoadSpec {
            duration: Some(Nanos(0)),
            ..
        } => zero("the duration"),
        LoadSpec {
            requests_per_connection: Some(0),
            ..
        } => zero("the number of requests per connection"),
        LoadSpec {
            duration: None,
            requests: None,
            ..
        } => Err(LoadError::NoEnd),
        _ => Ok(()),
    }
}

/// What one HTTP has and the other has not.
fn check_http(spec: &LoadSpec) -> Result<(), LoadError> {
    let refused = |what, why, remedy| Err(LoadError::Http { what, why, remedy });
    let has = |name: &str| {
        let mut headers = spec.headers.iter();
        headers.any(|(given, _)| given.eq_ignore_ascii_case(name))
    };
    let per_connection = spec.requests_per_connection.unwrap_or(u64::MAX);
    let places = u64::from(spec.connections) * u64::from(spec.streams);
    match spec.http {
        Http::One if spec.streams > 1 => refused(
            "several streams on a connection",
            "HTTP/1.1 has none",
            "add --http 2, or use --pipeline for requests behind one another",
        ),
        Http::Two if spec.pipeline > 1 => refused(
            "pipelined requests",
            "HTTP/2 sends requests side by side, as streams",
            "use --streams in place of --pipeline",
        ),
        Http::Two if per_connection < u64::from(spec.streams) => refused(
            "fewer requests per connection than streams",
            "the streams beyond them would never carry one",
            "use as many --streams as --requests-per-connection, or fewer",
        ),
        Http::Two if places > PLACES_MAX => refused(
            "more than 4194304 streams in total",
            "each is a place for a request in memory",
            "use fewer --connections or --streams",
        ),
        Http::One if spec.grpc => refused(
            "a call of gRPC",
            "gRPC stands on HTTP/2",
            "leave out --http 1.1",
        ),
        Http::Two if spec.grpc && spec.workload.is_some() => refused(
            "calls of gRPC in a workload",
            "one message is sent again and again",
            "give one URL and --body-file",
        ),
        Http::Two if has("connection") => refused(
            "the header Connection",
            "HTTP/2 has none (RFC 9113 8.2.2)",
            "leave it out; --requests-per-connection 1 closes after each request",
        ),
        Http::Two if has("transfer-encoding") => refused(
            "the header Transfer-Encoding",
            "HTTP/2 has none (RFC 9113 8.2.2)",
            "leave it out: a body's length is known from its frames",
        ),
        _ => Ok(()),
    }
}

/// What has no sense over WebSocket, or is not there yet.
fn check_websocket(spec: &LoadSpec) -> Result<(), LoadError> {
    const OURS: [&str; 5] = [
        "connection",
        "upgrade",
        "sec-websocket-key",
        "sec-websocket-version",
        "sec-websocket-accept",
    ];
    let refused = |what, why, remedy| Err(LoadError::WebSocket { what, why, remedy });
    let has = |names: &[&str]| {
        let mut given = spec.headers.iter();
        given.any(|(name, _)| names.iter().any(|one| one.eq_ignore_ascii_case(name)))
    };
    if !spec.is_websocket() {
        return if spec.ws_binary {
            refused(
                "binary messages",
                "they are of WebSocket, and the URL is not",
                "give a ws:// or wss:// URL, or leave out --ws-binary",
            )
        } else {
            Ok(())
        };
    }
    if spec.http == Http::Two {
        return refused(
            "WebSocket over HTTP/2",
            "few servers speak it (RFC 8441), and this version does not",
            "use --http 1.1 and leave out --grpc",
        );
    }
    if spec.pipeline > 1 {
        return refused(
            "several messages in flight on a connection",
            "nothing in WebSocket says which message answers which",
            "use more --connections in place of --pipeline",
        );
    }
    if spec.method != "GET" {
        return refused(
            "another method than GET",
            "a WebSocket is opened by a GET (RFC 6455 4.1), and messages have no method",
            "leave out --method",
        );
    }
    if has(&OURS) {
        return refused(
            "a header of the handshake itself",
            "prony makes its own for each connection",
            "leave out Connection, Upgrade and Sec-WebSocket-Key, -Version and -Accept",
        );
    }
    if has(&["sec-websocket-extensions"]) {
        return refused(
            "an extension",
            "prony offers none: compressed messages would measure the compression",
            "leave out Sec-WebSocket-Extensions",
        );
    }
    if !spec.habits.is_none() {
        return refused(
            "WebSocket in another tool's place",
            "that tool does not speak it",
            "use prony load",
        );
    }
    Ok(())
}

/// What the load connects to. Over a Unix socket most of what is known of TCP is not; that is said.
fn place(url: &Url, spec: &LoadSpec, warnings: &mut Vec<Warning>) -> Result<Place, LoadError> {
    let Some(path) = &spec.unix else {
        return resolve(url, spec).map(Place::Tcp);
    };
    let refused = |what, why, remedy| Err(LoadError::Unix { what, why, remedy });
    if RawAddress::unix(path).is_none() {
        return refused(
            "this path",
            "the kernel takes 1 to 107 bytes",
            "give a shorter path, for example relative to the directory",
        );
    }
    if spec.transport != Carrier::Kernel {
        return refused(
            "a TCP of prony's own",
            "a Unix socket is the kernel's",
            "leave out --transport",
        );
    }
    if !spec.source.is_empty() || spec.connect_to.is_some() {
        return refused(
            "--source and --connect-to",
            "a Unix socket has no address but its path",
            "leave them out",
        );
    }
    if spec.close == Close::Rst {
        return refused(
            "--close rst",
            "a Unix socket knows no reset, and no TIME_WAIT that one would save",
            "leave it out",
        );
    }
    if spec.engine == Engine::Uring {
        return refused(
            "--engine uring",
            "this engine throws bodies away as only TCP can",
            "leave it out: epoll drives Unix sockets",
        );
    }
    warnings.push(Warning::new(
        "unix_socket",
        format!(
            "the load goes over the Unix socket {path}: segments, retransmissions, TIME_WAIT and the accept queue of TCP say nothing about it, and how full the socket's own queue is, is not known; when that queue is full a connection fails at once"
        ),
        "load a TCP port of the server for what the kernel counts of TCP",
    ));
    Ok(Place::Unix(path.clone()))
}

/// Of several addresses of a name, the first that accepts a connection: `localhost` may have one that
/// the server does not listen on.
/// The address of the server of a load that others will carry, as this host knows it; `None` where it does not.
pub fn address_of(spec: &LoadSpec) -> Option<SocketAddr> {
    let url = request::parse_url(&spec.url).ok()?;
    lookup(&url, spec).1.ok()?.first().copied()
}

/// Where the load's connections lead, as it is typed, and the addresses of that.
fn lookup(url: &Url, spec: &LoadSpec) -> (String, std::io::Result<Vec<SocketAddr>>) {
    match spec.proxy.as_ref().or(spec.connect_to.as_ref()) {
        Some(place) => (
            place.clone(),
            place.to_socket_addrs().map(Iterator::collect),
        ),
        None => (
            url.host_str().unwrap_or_default().to_owned(),
            url.socket_addrs(|| None),
        ),
    }
}

fn resolve(url: &Url, spec: &LoadSpec) -> Result<SocketAddr, LoadError> {
    let (host, found) = lookup(url, spec);
    let mut addresses = found.map_err(|cause| LoadError::Resolve {
        host: host.clone(),
        cause,
    })?;
    if let Some(source) = spec.source.first() {
        addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
    }
    match (addresses.as_slice(), spec.source.first()) {
        ([], Some(&source_address)) => Err(LoadError::NoAddressOfFamily {
            host,
            source_address,
        }),
        ([], None) => Err(LoadError::Resolve {
            host,
            cause: std::io::Error::other("the name has no address"),
        }),
        ([only], _) => Ok(*only),
        (several, _) => Ok(several
            .iter()
            .find(|address| TcpStream::connect_timeout(address, PROBE).is_ok())
            .copied()
            .unwrap_or(several[0])),
    }
}

type PreparedTls = Option<(ClientConfig, ServerName<'static>)>;

fn prepare_tls(
    url: &Url,
    spec: &LoadSpec,
    warnings: &mut Vec<Warning>,
) -> Result<PreparedTls, LoadError> {
    if !spec.is_tls() {
        return Ok(None);
    }
    let host = (spec.sni.as_deref()).unwrap_or_else(|| url.host_str().unwrap_or_default());
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(host.clone())
        .map_err(|_| LoadError::ServerName { host: host.clone() })?;
    let (mut config, roots) =
        client_config(trust(spec)?).map_err(|cause| LoadError::Tls { host, cause })?;
    if spec.http == Http::Two {
        // With a second choice the server names what it speaks instead of ending the handshake without a word.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    if let Some(path) = spec
        .cacert
        .clone()
        .filter(|_| !spec.insecure && roots.found == 0)
    {
        let cause = "it holds no certificate that can be used".to_owned();
        return Err(LoadError::Pem { path, cause });
    }
    if !spec.insecure && roots.found == 0 {
        return Err(LoadError::NoRoots {
            complaints: roots.complaints,
        });
    }
    if let Some(first) = roots.complaints.first() {
        warnings.push(Warning::new(
            "root_certificates_incomplete",
            format!(
                "{} of the system's root certificates could not be read, the first because: {first}",
                roots.complaints.len()
            ),
            "repair the package ca-certificates, or set SSL_CERT_FILE",
        ));
    }
    Ok(Some((config, name)))
}

/// Reads the files of `--cacert`, `--cert` and `--key`.
fn trust(spec: &LoadSpec) -> Result<Trust, LoadError> {
    let refused = |path: &str, cause: pem::Error| LoadError::Pem {
        path: path.to_owned(),
        cause: cause.to_string(),
    };
    let certificates = |path: &String| {
        CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|cause| refused(path, cause))
    };
    let identity = match (&spec.cert, &spec.key) {
        (Some(cert), Some(key)) => {
            let read = PrivateKeyDer::from_pem_file(key).map_err(|cause| refused(key, cause))?;
            Some((certificates(cert)?, read))
        }
        (None, None) => None,
        (Some(path), None) | (None, Some(path)) => {
            return Err(LoadError::Pem {
                path: path.clone(),
                cause: "a certificate and its key are given together".to_owned(),
            });
        }
    };
    Ok(Trust {
        insecure: spec.insecure,
        authorities: spec.cacert.as_ref().map(certificates).transpose()?,
        identity,
    })
}

/// The requests of a load that has more than one kind of them, or whose clients think.
fn prepare_workload(spec: &LoadSpec, url: &Url) -> Result<Option<Arc<Prepared>>, LoadError> {
    let refused = |what: &str, cause: &str, remedy: &str| {
        Err(LoadError::Workload {
            what: what.to_owned(),
            cause: cause.to_owned(),
            remedy: remedy.to_owned(),
        })
    };
    let single;
    let workload = match (&spec.workload, spec.think) {
        (Some(workload), _) => workload,
        (None, Some(_)) => {
            single = workload::single(spec, url);
            &single
        }
        (None, None) => return Ok(None),
    };
    let prepared = Prepared::new(spec, workload, url)?;
    if prepared.reads_answers() && spec.http == Http::Two {
        return refused(
            "the checks, captures or cookies of a workload over HTTP/2",
            "of an answer over HTTP/2 only the status and the length are looked at",
            "use --http 1.1, or leave them out: a check of the status can stay",
        );
    }
    if prepared.reads_answers() && spec.is_websocket() {
        return refused(
            "the checks, captures or cookies of a workload over WebSocket",
            "of a message that answers only the length is looked at",
            "leave them out",
        );
    }
    if !prepared.is_all_at(&url[Position::BeforePath..Position::AfterQuery]) && spec.is_websocket()
    {
        return refused(
            "several paths, or headers of a request, over WebSocket",
            "its messages go over connections that were opened at the load's one URL",
            "give each request the URL's path, a body of its own, and headers by -H",
        );
    }
    if prepared.is_stateful() && spec.pipeline > 1 {
        return refused(
            "pipelining",
            "a client of a session, with cookies or with time to think has one request at a time",
            "leave out --pipeline",
        );
    }
    if prepared.thinks() && spec.arrival.offered_per_s().is_some() {
        return refused(
            "time to think",
            "a rate says already when requests are due",
            "leave out --rate, or the time to think",
        );
    }
    Ok(Some(Arc::new(prepared)))
}

fn policy(
    spec: &LoadSpec,
    request: &request::PreparedRequest,
    workload: Option<&Prepared>,
) -> Policy {
    if spec.http == Http::Two {
        return Policy {
            depth: 1,
            // The transport counts them, over all streams of a connection.
            per_connection: u64::MAX,
            announces_close: false,
            connect_counts: false,
            head_requests: false,
            request_bytes: workload.map_or(request.bytes.len(), |_| 0),
            streams: spec.streams,
            is_decoded: true,
            timeout_ns: spec.timeout.0,
        };
    }
    if spec.is_websocket() {
        return Policy {
            depth: 1,
            per_connection: spec.requests_per_connection.unwrap_or(u64::MAX),
            announces_close: false,
            connect_counts: false,
            head_requests: false,
            request_bytes: workload.map_or(request.bytes.len(), |_| 0),
            streams: 1,
            is_decoded: true,
            timeout_ns: spec.timeout.0,
        };
    }
    // A request that announces the close is the last on its connection, whatever was asked for.
    let announces_close = workload.map_or(request.announces_close, Prepared::announces_close);
    let per_connection = if announces_close && workload.is_none() {
        1
    } else {
        spec.requests_per_connection.unwrap_or(u64::MAX)
    };
    let depth = u64::from(spec.pipeline).min(per_connection);
    Policy {
        depth: depth as usize,
        per_connection,
        announces_close,
        connect_counts: spec.habits.connect_counts,
        head_requests: spec.method == "HEAD",
        request_bytes: workload.map_or(request.bytes.len(), |_| 0),
        streams: 1,
        is_decoded: false,
        timeout_ns: spec.timeout.0,
    }
}

/// As many as asked for or as pinned, else half of the CPUs: the other half is left to the server when
/// it runs on the same host. Never more than there are connections or requests.
fn thread_count(spec: &LoadSpec, allowed_cpus: usize) -> u32 {
    let default = match spec.cpus.len() {
        0 => (allowed_cpus / 2).max(1),
        pinned => pinned,
    };
    let asked = spec.threads.unwrap_or(default as u32);
    let requests = u32::try_from(spec.requests.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
    asked.min(spec.connections).min(requests)
}

/// How long to spin before each send: as long as a wake-up takes, but over all sends at most a part of the
/// core; 0 in a closed loop, without a second CPU, and where that part is too short to matter.
fn spin_ns(spec: &LoadSpec, threads: u32, allowed_cpus: usize) -> u64 {
    const SHARE_MAX: f64 = 0.6;
    const SHORTEST_NS: u64 = 5_000;
    let Some(per_s) = spec.peak_per_s().filter(|_| allowed_cpus > 1) else {
        return 0;
    };
    match spec.precision {
        Precision::Sleep => return 0,
        Precision::Spin => return u64::MAX,
        Precision::Hybrid => {}
    }
    let affordable = (SHARE_MAX * 1e9 * f64::from(threads) / per_s) as u64;
    let spin = affordable.min(worker::SPIN_MAX_NS);
    if spin < SHORTEST_NS { 0 } else { spin }
}

/// Ends a load early; what was measured is kept.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Ends the measurement within about a tenth of a second. A load that has ended is left alone.
    pub fn stop(&self) {
        self.0.stop(now_ns());
    }
}

/// A load under way. Dropping it stops the load without waiting for it.
pub struct Running {
    part: Part,
    stopper: Stopper,
    thread_ids: Vec<i32>,
    threads: Vec<JoinHandle<Report>>,
    merger: Merger,
    intervals: Vec<Interval>,
    spec: LoadSpec,
    workload: Option<Arc<Prepared>>,
    warnings: Vec<Warning>,
}

impl Running {
    /// A handle that stops this load, for a signal handler's thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Says whether the server is known to be full. While it is, a busy closed loop lets responses gather before it
    /// looks for them; see `coalesce.rs`. Without a word it is not.
    pub fn set_server_full(&self, is_full: bool) {
        self.stopper.0.set_server_full(is_full);
    }

    /// Every thread has opened its connections, or has given that up for now.
    pub fn is_ready(&self) -> bool {
        self.stopper.0.is_ready()
    }

    /// Begins a load that was started held, warm-up first, a few ms from now or later; the first time given stands.
    pub fn begin_at(&self, at: Nanos) {
        self.stopper.0.start_at(at.0);
    }

    /// Kernel ids of the load threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.thread_ids.clone()
    }

    /// Start of the measured part on the run's clock; `None` while the connections are being opened.
    pub fn measured_from(&self) -> Option<Nanos> {
        let shared = &self.stopper.0;
        shared.started_at().map(|_| Nanos(shared.window().from))
    }

    /// Waits for the next slice of the load; `None` when it is over. Warm-up included.
    pub fn next_interval(&mut self) -> Option<Interval> {
        // The load threads must not be slowed down by a wake-up of theirs, nor by a reader that looks all the time.
        // A load that is over at once should be seen at once.
        const LONGEST: Duration = Duration::from_millis(5);
        let mut pause = match self.intervals.is_empty() {
            true => Duration::from_micros(50),
            false => LONGEST,
        };
        loop {
            match self.merger.poll() {
                Polled::Ready(interval) => {
                    self.intervals.push(interval);
                    return Some(interval);
                }
                Polled::Over => return None,
                Polled::Pending => std::thread::sleep(pause),
            }
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Response times of the slice that [`Running::next_interval`] returned last.
    pub fn slice_response(&self) -> &Histogram {
        &self.merger.response
    }

    /// Waits for the end of the load and returns what came of it.
    ///
    /// # Panics
    /// When a load thread has panicked, with its panic.
    pub fn finish(mut self) -> LoadOutcome {
        while self.next_interval().is_some() {}
        let threads = std::mem::take(&mut self.threads);
        let reports: Vec<Report> = threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(report) => report,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        outcome::merge(outcome::Parts {
            spec: &self.spec,
            part: self.part,
            workload: self.workload.as_deref(),
            shared: &self.stopper.0,
            thread_ids: &self.thread_ids,
            reports,
            intervals: std::mem::take(&mut self.intervals),
            warnings: std::mem::take(&mut self.warnings),
            finished_at: now_ns(),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Arrival;

    fn spec(change: impl FnOnce(&mut LoadSpec)) -> LoadSpec {
        let mut spec = LoadSpec::new("http://127.0.0.1:1/");
        change(&mut spec);
        spec
    }

    #[test]
    fn loads_that_are_none_are_refused() {
        let refused = |change: fn(&mut LoadSpec)| {
            Load::prepare(&spec(change))
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        assert!(refused(|s| s.connections = 0).contains("connections is 0"));
        assert!(refused(|s| s.pipeline = 0).contains("depth is 0"));
        assert!(refused(|s| s.duration = None).contains("never end"));
        assert!(refused(|s| s.timeout = Nanos(10)).contains("timeout is 10ns"));
        assert!(refused(|s| s.arrival = Arrival::Constant { per_s: f64::NAN }).contains("NaN"));
        assert!(refused(|s| s.cpus = vec![9_999]).contains("CPU 9999"));
        assert!(refused(|s| s.url = "http://".to_owned()).contains("reading the URL"));
    }

    #[test]
    fn what_a_unix_socket_does_not_have_is_refused_over_it() {
        let refused = |change: fn(&mut LoadSpec)| {
            let mut spec = spec(|s| s.unix = Some("/run/a.sock".to_owned()));
            change(&mut spec);
            let refused = Load::prepare(&spec).err();
            refused.map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(|_| {}), "");
        assert!(refused(|s| s.close = Close::Rst).contains("no reset"));
        assert!(refused(|s| s.engine = Engine::Uring).contains("--engine uring"));
        assert!(refused(|s| s.transport = Carrier::Tap).contains("TCP of prony's own"));
        assert!(refused(|s| s.source = vec![[127, 0, 0, 2].into()]).contains("--source"));
        assert!(refused(|s| s.connect_to = Some("a:1".to_owned())).contains("--connect-to"));
        let long = |s: &mut LoadSpec| s.unix = Some("x".repeat(108));
        assert!(refused(long).contains("107 bytes"));
        let mut load = spec(|s| s.unix = Some("/run/a.sock".to_owned()));
        // As many as io_uring would carry over TCP.
        (load.connections, load.threads) = (200, Some(1));
        let load = Load::prepare(&load).unwrap();
        assert_eq!((load.engine, load.address()), (Engine::Epoll, None));
        assert_eq!(load.warnings[0].name, "unix_socket");
    }

    #[test]
    fn what_http_2_does_not_show_is_not_checked_over_it() {
        use record::workload::{Check, Template, WorkloadRequest};
        let refused = |checks: Vec<Check>| {
            let request = WorkloadRequest {
                checks,
                ..WorkloadRequest::get("a", Template::plain("/"))
            };
            let spec = spec(|s| s.http = Http::Two);
            let spec = LoadSpec {
                workload: Some(record::Workload::mix(vec![request])),
                ..spec
            };
            let url = request::parse_url(&spec.url).unwrap();
            prepare_workload(&spec, &url).err().map(|e| e.to_string())
        };
        assert_eq!(refused(vec![Check::Status(vec![(200, 204)])]), None);
        let words = refused(vec![Check::Contains("welcome".to_owned())]).unwrap();
        assert!(words.contains("over HTTP/2"), "{words}");
    }

    #[test]
    fn a_duration_that_the_clock_cannot_hold_is_refused() {
        let refused = |change: fn(&mut LoadSpec)| {
            let error = check_quantities(&spec(change)).unwrap_err();
            (error.to_string(), error.remedy())
        };
        let (text, remedy) = refused(|s| s.duration = Some(Nanos(u64::MAX)));
        assert_eq!(
            text,
            "reading the load: the duration is 5124095 hours, and the longest that is taken is 8760 hours (a year)"
        );
        assert!(remedy.starts_with("shorten the duration;"));
        let (text, _) = refused(|s| s.warmup = Nanos(u64::MAX - 1));
        assert!(text.contains("the warm-up is 5124095 hours"));
        assert!(check_quantities(&spec(|s| s.duration = Some(SPAN_MAX))).is_ok());
    }

    #[test]
    fn threads_are_bounded_by_connections_and_requests() {
        let count = |change: fn(&mut LoadSpec)| thread_count(&spec(change), 8);
        assert_eq!(count(|_| {}), 4);
        assert_eq!(count(|s| s.threads = Some(7)), 7);
        assert_eq!(count(|s| s.connections = 2), 2);
        assert_eq!(count(|s| s.requests = Some(3)), 3);
        assert_eq!(count(|s| s.cpus = vec![1]), 1);
        assert_eq!(thread_count(&spec(|_| {}), 1), 1);
    }

    #[test]
    fn spinning_takes_a_part_of_the_core_at_most() {
        let at = |per_s| spec(|s| s.arrival = Arrival::Constant { per_s });
        assert_eq!(spin_ns(&at(1_000.0), 1, 2), worker::SPIN_MAX_NS);
        assert_eq!(spin_ns(&at(1_000.0), 1, 1), 0, "the only CPU");
        assert_eq!(spin_ns(&at(20_000.0), 1, 2), 30_000);
        assert_eq!(spin_ns(&at(20_000.0), 8, 16), worker::SPIN_MAX_NS);
        assert_eq!(spin_ns(&at(200_000.0), 1, 2), 0);
        assert_eq!(spin_ns(&spec(|_| {}), 1, 2), 0, "a closed loop");
        let with = |precision| LoadSpec {
            precision,
            ..at(1_000.0)
        };
        assert_eq!(spin_ns(&with(Precision::Sleep), 1, 2), 0);
        assert_eq!(spin_ns(&with(Precision::Spin), 1, 2), u64::MAX);
        assert_eq!(spin_ns(&with(Precision::Spin), 1, 1), 0, "the only CPU");
    }

    #[test]
    fn a_request_that_announces_the_close_is_the_last_of_its_connection() {
        let spec = spec(|s| {
            s.headers = vec![("Connection".to_owned(), "close".to_owned())];
            s.pipeline = 4;
        });
        let url = request::parse_url(&spec.url).unwrap();
        let request = request::build(&spec, &url).unwrap();
        let policy = policy(&spec, &request, None);
        assert_eq!((policy.per_connection, policy.depth), (1, 1));
    }
}
