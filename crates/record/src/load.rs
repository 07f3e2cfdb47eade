//! What load was asked for ([`LoadSpec`]) and what came of it ([`LoadOutcome`]).
//!
//! All times are on the run's monotonic clock. `response` counts from the *scheduled* send, `service`
//! from the actual one; in a closed loop a request is scheduled when it is sent, and the two are equal.

use crate::{Bytes, Histogram, Nanos, RateCourse, RatePieces, Think, Timetable, Warning, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When requests are scheduled. Where the rate changes ([`LoadSpec::has_changing_rate`]), `per_s` is its mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "process", rename_all = "snake_case")]
pub enum Arrival {
    /// Closed loop: the next request is scheduled when an answer has come.
    Closed,
    /// Open loop, equal gaps; `per_s` over all threads.
    Constant { per_s: f64 },
    /// Open loop, exponential gaps; `per_s` over all threads.
    Poisson {
        /// Requests per second in total, on average.
        per_s: f64,
        /// Seed of the gaps; thread `i` uses `seed + i`.
        seed: u64,
    },
}

impl Arrival {
    /// The offered rate per second, `None` for a closed loop.
    pub fn offered_per_s(&self) -> Option<f64> {
        match self {
            Arrival::Closed => None,
            Arrival::Constant { per_s } | Arrival::Poisson { per_s, .. } => Some(*per_s),
        }
    }
}

/// How the client ends a connection that it ends itself.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Close {
    /// Orderly; leaves TIME_WAIT at the side that closes first.
    #[default]
    Fin,
    /// Reset (`SO_LINGER` 0): no TIME_WAIT, but the server sees an aborted connection.
    Rst,
}

/// Which kernel interface drives the sockets.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// The best that this build and host have.
    #[default]
    Auto,
    /// io_uring.
    Uring,
    /// epoll, edge-triggered.
    Epoll,
}

/// Which HTTP a load speaks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Http {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2: by ALPN over TLS, by prior knowledge without.
    #[serde(rename = "2")]
    Two,
}

impl Http {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Http::One => "1.1",
            Http::Two => "2",
        }
    }
}

/// How a load thread waits for the next scheduled send: what precision may cost.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// It sleeps: the least CPU, and late by a wake-up.
    Sleep,
    /// It sleeps and spins for the last stretch, over all sends for a part of the core at most.
    #[default]
    Hybrid,
    /// It spins all the time between two sends: a whole core.
    Spin,
}

impl Precision {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Sleep => "sleep",
            Precision::Hybrid => "hybrid",
            Precision::Spin => "spin",
        }
    }
}

fn one() -> u32 {
    1
}

/// Whose TCP carries a load.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// The kernel's sockets.
    #[default]
    Kernel,
    /// The stack in user space over a TAP device.
    Tap,
    /// The same over an AF_XDP socket.
    AfXdp,
    /// The same over a packet ring.
    AfPacket,
    /// The same over a port of DPDK's.
    Dpdk,
    /// The same over memory, between two sides of one process.
    Loopback,
}

impl Carrier {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Kernel => "kernel",
            Carrier::Tap => "tap",
            Carrier::AfXdp => "af_xdp",
            Carrier::AfPacket => "af_packet",
            Carrier::Dpdk => "dpdk",
            Carrier::Loopback => "loopback",
        }
    }
}

/// A request's body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// No body.
    #[default]
    None,
    Text(String),
    /// The content of this file, read before the load starts.
    File(String),
}

/// One load, completely described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSpec {
    /// `http://`, `https://`, `ws://` or `wss://` URL.
    pub url: String,
    /// Connections in total, at most open at one time.
    pub connections: u32,
    /// Load threads; `None` lets the generator choose.
    pub threads: Option<u32>,
    /// Stop after this time (warm-up not included).
    pub duration: Option<Nanos>,
    /// Stop after this many requests (warm-up not included).
    pub requests: Option<u64>,
    /// When requests are scheduled.
    pub arrival: Arrival,
    /// How the rate of an open loop changes; empty is not at all.
    #[serde(default, skip_serializing_if = "RatePieces::is_empty")]
    pub rate_pieces: RatePieces,
    /// When each request of an open loop is due, where that was read from a file. It is of one load and not stored.
    #[serde(skip)]
    pub timetable: Option<Timetable>,
    /// Requests that a connection carries before the client closes it; `None` is no limit.
    pub requests_per_connection: Option<u64>,
    /// How the client closes.
    pub close: Close,
    /// Requests in flight on one connection of HTTP/1.1.
    pub pipeline: u32,
    /// Which HTTP.
    #[serde(default)]
    pub http: Http,
    /// Requests in flight on one connection of HTTP/2.
    #[serde(default = "one")]
    pub streams: u32,
    /// Requests are unary calls of gRPC, whose message is the body.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// Messages over WebSocket are binary and not text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ws_binary: bool,
    /// Each connection opens one stream of server-sent events and stays on it; a request is an event awaited.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sse: bool,
    /// Kernel interface.
    pub engine: Engine,
    /// Whose TCP.
    #[serde(default)]
    pub transport: Carrier,
    /// The interface that a stack in user space is attached to.
    #[serde(default)]
    pub interface: Option<String>,
    /// How long the generator lets answers gather before it looks at them; 0 looks at once. `None` is the carrier's own
    /// way: 50 us for a stack in user space; for the kernel's sockets none, unless the server is seen to be full.
    #[serde(default)]
    pub coalesce: Option<Nanos>,
    /// Local addresses to connect from, used in turn; empty leaves it to the kernel.
    pub source: Vec<std::net::IpAddr>,
    /// Networks behind the interface beside its own, as typed: a port of DPDK's has none that the kernel knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Routers through which a stack in user space reaches a server outside the interface's networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateway: Vec<std::net::IpAddr>,
    /// CPUs for the load threads, thread `i` on `cpus[i % len]`; empty does not pin.
    pub cpus: Vec<u32>,
    /// Hosts that carry it; empty for this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Load before the measurement, not counted.
    pub warmup: Nanos,
    /// A request without a complete answer for this long has failed.
    pub timeout: Nanos,
    /// Request method.
    pub method: String,
    /// Request headers beyond those that the generator sets (`Host` may be overridden).
    pub headers: Vec<(String, String)>,
    /// Request body.
    pub body: Body,
    /// Do not verify the server's certificate.
    pub insecure: bool,
    /// Every TLS handshake is a full one: no session is resumed.
    #[serde(default)]
    pub no_resumption: bool,
    /// File with the certificates of the authorities that are trusted in place of the system's, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cacert: Option<String>,
    /// File with the client's certificate and those that it is signed by, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// File with the key of the client's certificate, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The name that the server is asked for and verified by, where it is not the URL's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// `host:port` to connect to in place of the URL's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_to: Option<String>,
    /// The Unix socket to connect to in place of the URL's host and port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<String>,
    /// `host:port` of the forward proxy that the load goes through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// `user:password` for the proxy; not in records.
    #[serde(default, skip_serializing)]
    pub proxy_user: Option<String>,
    /// Bytes that each connection receives at most in a second, and sends at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_rate: Option<Bytes>,
    /// How the load threads wait for a scheduled send.
    #[serde(default)]
    pub precision: Precision,
    /// What older tools do and prony does not by itself.
    #[serde(default, skip_serializing_if = "Habits::is_none")]
    pub habits: Habits,
    /// Several requests in place of the one; `url` then names the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// How long a client waits between a response and its next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
}

/// Which threads of a load one host carries: `threads` of `of`, from number `first` on. Connections, requests and due
/// times are divided by threads, so that the parts of several hosts add up exactly and interleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Number of its first thread in the whole load, 0-based.
    pub first: u32,
    /// How many threads it has.
    pub threads: u32,
    /// How many threads the whole load has.
    pub of: u32,
}

impl Part {
    /// All of a load with so many threads.
    pub fn whole(threads: u32) -> Self {
        Self {
            first: 0,
            threads,
            of: threads,
        }
    }

    /// How much of `whole` its threads have together: a thread has as much as any other, the first ones get the rest.
    pub fn of_count(self, whole: u64) -> u64 {
        let numbers = self.first..self.first.saturating_add(self.threads);
        let remainder = (whole % u64::from(self.of)) as u32;
        let extra = remainder.clamp(numbers.start, numbers.end) - numbers.start;
        u64::from(self.threads) * (whole / u64::from(self.of)) + u64::from(extra)
    }
}

/// Habits of older load generators, for those who compare with their figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Habits {
    /// Requests say HTTP/1.0, after which a connection is kept only by its own header.
    pub http_1_0: bool,
    /// The response time of the first request of a connection counts from the attempt to open it.
    pub connect_counts: bool,
    /// Keep so many requests one by one; 0 keeps none.
    pub log_requests: u64,
}

impl Habits {
    /// The load is prony's own.
    pub fn is_none(&self) -> bool {
        *self == Habits::default()
    }
}

impl LoadSpec {
    /// A look at whether and what a server answers, at most ten requests: they have no rate that anything could limit.
    pub fn is_probe(&self) -> bool {
        const MOST: u64 = 10;
        self.arrival == Arrival::Closed && self.requests.is_some_and(|most| most <= MOST)
    }

    /// Makes each request a unary call of gRPC, which is a POST over HTTP/2.
    pub fn call_grpc(&mut self) {
        self.grpc = true;
        self.http = Http::Two;
        "POST".clone_into(&mut self.method);
    }

    /// What a connection of limited bandwidth may carry at once after a rest, and so at its beginning: 20 ms at the
    /// limit, or a segment, which cannot be had in parts.
    pub fn limit_burst(&self) -> Option<Bytes> {
        const SEGMENT: u64 = 1_460;
        let rate = self.limit_rate?;
        Some(Bytes(SEGMENT.max(rate.0 / 50)))
    }

    /// How long answers may gather, asked for or by the carrier's default; `None` leaves it to the loop.
    pub fn gathering(&self) -> Option<Nanos> {
        /// Most of the saving, and part of every latency.
        const STACK: Nanos = Nanos(50_000);
        let default = (self.transport != Carrier::Kernel).then_some(STACK);
        self.coalesce.or(default)
    }

    /// wrk's defaults: 10 connections, 10 s, closed loop, keep-alive, GET; timeout 2 s.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            connections: 10,
            threads: None,
            duration: Some(Nanos::from_secs(10)),
            requests: None,
            arrival: Arrival::Closed,
            rate_pieces: RatePieces::default(),
            timetable: None,
            requests_per_connection: None,
            close: Close::Fin,
            pipeline: 1,
            http: Http::One,
            streams: 1,
            grpc: false,
            ws_binary: false,
            sse: false,
            engine: Engine::Auto,
            transport: Carrier::Kernel,
            interface: None,
            coalesce: None,
            source: Vec::new(),
            network: Vec::new(),
            gateway: Vec::new(),
            cpus: Vec::new(),
            hosts: Vec::new(),
            warmup: Nanos(0),
            timeout: Nanos::from_secs(2),
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Body::None,
            insecure: false,
            no_resumption: false,
            cacert: None,
            cert: None,
            key: None,
            sni: None,
            connect_to: None,
            unix: None,
            proxy: None,
            proxy_user: None,
            limit_rate: None,
            precision: Precision::Hybrid,
            habits: Habits::default(),
            workload: None,
            think: None,
        }
    }

    /// Lets the rate change by these pieces, over the measured part as far as they do not say how long they are; the
    /// load is as long as they are where it has no length of its own.
    pub fn change_rate(&mut self, mut pieces: RatePieces) {
        let duration = self.duration.or(pieces.total()).unwrap_or_default();
        pieces.settle(duration);
        let end_s = duration.as_secs_f64();
        let last = self.requests.map_or(f64::INFINITY, |n| n as f64);
        let course = RateCourse::new(&pieces, Nanos(0));
        let end_s = course.reached(last, &mut 0).min(end_s);
        let mean = pieces.expected(Nanos((end_s * 1e9) as u64)) / end_s;
        match &mut self.arrival {
            Arrival::Closed => return,
            Arrival::Constant { per_s } | Arrival::Poisson { per_s, .. } => *per_s = mean,
        }
        self.duration = Some(duration);
        self.rate_pieces = pieces;
    }

    /// Lets requests be due as `table` says, to its end or for as long as the load is to be.
    pub fn follow(&mut self, table: Timetable) {
        let span = table.span();
        let duration = self.duration.map_or(span, |asked| asked.min(span));
        let asked = self.requests.unwrap_or(u64::MAX);
        let due = (table.expected(duration) as u64).min(asked);
        self.arrival = Arrival::Constant {
            per_s: due as f64 / duration.as_secs_f64(),
        };
        self.duration = Some(duration);
        self.timetable = Some(table);
    }

    /// The same load at one rate, the mean: what a load of another length begins with, because a rate that changes is
    /// that of a stretch of time.
    #[must_use]
    pub fn steady(&self) -> Self {
        LoadSpec {
            rate_pieces: RatePieces::default(),
            timetable: None,
            ..self.clone()
        }
    }

    /// The same from one client, from the first of its hosts.
    #[must_use]
    pub fn single_client(&self) -> Self {
        let mut one = LoadSpec {
            connections: 1,
            threads: Some(1),
            pipeline: 1,
            streams: 1,
            arrival: Arrival::Closed,
            warmup: Nanos(0),
            ..self.steady()
        };
        one.hosts.truncate(1);
        one
    }

    /// The names of the files that the load reads before it starts.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let body = match &mut self.body {
            Body::File(file) => Some(file),
            Body::None | Body::Text(_) => None,
        };
        let keys = [&mut self.cacert, &mut self.cert, &mut self.key];
        let workload = self.workload.iter_mut().flat_map(Workload::files_mut);
        let keys = keys.into_iter().flatten();
        body.into_iter().chain(keys).chain(workload)
    }

    /// The URL's scheme is https or wss.
    pub fn is_tls(&self) -> bool {
        self.has_scheme(["https", "wss"])
    }

    /// The URL's scheme is ws or wss: requests are messages over WebSocket.
    pub fn is_websocket(&self) -> bool {
        self.has_scheme(["ws", "wss"])
    }

    fn has_scheme(&self, schemes: [&str; 2]) -> bool {
        let scheme = self.url.split_once(':').map_or("", |(scheme, _)| scheme);
        schemes.iter().any(|one| one.eq_ignore_ascii_case(scheme))
    }

    /// The rate of the open loop is not one rate.
    pub fn has_changing_rate(&self) -> bool {
        !self.rate_pieces.is_empty() || self.timetable.is_some()
    }

    /// How many requests an open loop has due in the first `elapsed` of the measured part.
    pub fn expected(&self, elapsed: Nanos) -> Option<f64> {
        let per_s = self.arrival.offered_per_s()?;
        Some(match &self.timetable {
            Some(table) => table.expected(elapsed) as f64,
            None if self.rate_pieces.is_empty() => per_s * elapsed.as_secs_f64(),
            None => self.rate_pieces.expected(elapsed),
        })
    }

    /// The most requests that an open loop has due in any stretch of `span`.
    pub fn busiest(&self, span: Nanos) -> Option<f64> {
        let whole = self.expected(self.duration.unwrap_or(span).max(span))?;
        Some(whole.min(self.peak_per_s()? * span.as_secs_f64()))
    }

    /// The highest rate that an open loop comes to.
    pub fn peak_per_s(&self) -> Option<f64> {
        let per_s = self.arrival.offered_per_s()?;
        let table = self.timetable.as_ref().map_or(0.0, Timetable::peak_per_s);
        Some(per_s.max(self.rate_pieces.peak_per_s()).max(table))
    }

    /// Requests in flight on one connection.
    pub fn depth(&self) -> u32 {
        match self.http {
            Http::One => self.pipeline.max(1),
            Http::Two => self.streams.max(1),
        }
    }
}

/// Every way in which a request fails, under its own name.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// `ECONNREFUSED`: nothing listens there.
    ConnectRefused,
    /// No answer to the connection request within the timeout.
    ConnectTimeout,
    /// The network or host cannot be reached, or another error of `connect`.
    ConnectFailed,
    /// `EADDRNOTAVAIL`: no free local port for this source and destination.
    NoLocalPort,
    /// `EMFILE` or `ENFILE`: no file descriptor left.
    NoDescriptor,
    /// The TLS handshake or a TLS record was refused.
    Tls,
    /// No complete response within the timeout.
    Timeout,
    /// `ECONNRESET` or `EPIPE` with a request outstanding.
    Reset,
    /// The server closed the connection before the first byte of a response.
    ClosedEarly,
    /// The server closed, or the body ended, in the middle of a response.
    Truncated,
    /// The response is not HTTP.
    Malformed,
    /// The response head is larger than the generator's buffer.
    HeadTooLarge,
    /// A complete response with a status of 400 to 499.
    Status4xx,
    /// A complete response with a status of 500 to 599.
    Status5xx,
    /// Any other error of a socket call.
    Io,
    /// The server does not speak HTTP/2 on a connection that is to.
    NotHttp2,
    /// The server refused to process the request, again and again.
    StreamRefused,
    /// The server reset the request's stream.
    StreamReset,
    /// The server ended the connection with a code that is an error.
    GoAway,
    /// A complete response that failed a check of its workload.
    Check,
    /// A complete response without a value that later requests need.
    Capture,
    /// A body larger than what is kept for checks and captures.
    BodyTooLarge,
    /// A call of gRPC that ended with another status than OK, or without one.
    Grpc,
    /// The proxy refused the tunnel to the server.
    ProxyRefused,
    /// The server did not agree to speak WebSocket.
    UpgradeRefused,
    /// The server broke the rules of WebSocket's frames.
    #[serde(rename = "websocket")]
    WebSocket,
    /// The server closed a WebSocket in place of an answer.
    #[serde(rename = "websocket_closed")]
    WebSocketClosed,
    /// The response is no stream of server-sent events: another status below 400 than 200, another content type, or
    /// compressed.
    NotEventStream,
}

impl FailureKind {
    /// All kinds, in a fixed order; `FailureKind::ALL[kind as usize] == kind`.
    pub const ALL: [FailureKind; 28] = [
        FailureKind::ConnectRefused,
        FailureKind::ConnectTimeout,
        FailureKind::ConnectFailed,
        FailureKind::NoLocalPort,
        FailureKind::NoDescriptor,
        FailureKind::Tls,
        FailureKind::Timeout,
        FailureKind::Reset,
        FailureKind::ClosedEarly,
        FailureKind::Truncated,
        FailureKind::Malformed,
        FailureKind::HeadTooLarge,
        FailureKind::Status4xx,
        FailureKind::Status5xx,
        FailureKind::Io,
        FailureKind::NotHttp2,
        FailureKind::StreamRefused,
        FailureKind::StreamReset,
        FailureKind::GoAway,
        FailureKind::Check,
        FailureKind::Capture,
        FailureKind::BodyTooLarge,
        FailureKind::Grpc,
        FailureKind::ProxyRefused,
        FailureKind::UpgradeRefused,
        FailureKind::WebSocket,
        FailureKind::WebSocketClosed,
        FailureKind::NotEventStream,
    ];

    /// Name in JSON, tables and the glossary.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::ConnectRefused => "connect_refused",
            FailureKind::ConnectTimeout => "connect_timeout",
            FailureKind::ConnectFailed => "connect_failed",
            FailureKind::NoLocalPort => "no_local_port",
            FailureKind::NoDescriptor => "no_descriptor",
            FailureKind::Tls => "tls",
            FailureKind::Timeout => "timeout",
            FailureKind::Reset => "reset",
            FailureKind::ClosedEarly => "closed_early",
            FailureKind::Truncated => "truncated",
            FailureKind::Malformed => "malformed",
            FailureKind::HeadTooLarge => "head_too_large",
            FailureKind::Status4xx => "status4xx",
            FailureKind::Status5xx => "status5xx",
            FailureKind::Io => "io",
            FailureKind::NotHttp2 => "not_http2",
            FailureKind::StreamRefused => "stream_refused",
            FailureKind::StreamReset => "stream_reset",
            FailureKind::GoAway => "go_away",
            FailureKind::Check => "check",
            FailureKind::Capture => "capture",
            FailureKind::BodyTooLarge => "body_too_large",
            FailureKind::Grpc => "grpc",
            FailureKind::ProxyRefused => "proxy_refused",
            FailureKind::UpgradeRefused => "upgrade_refused",
            FailureKind::WebSocket => "websocket",
            FailureKind::WebSocketClosed => "websocket_closed",
            FailureKind::NotEventStream => "not_event_stream",
        }
    }
}

/// Requests of the measured part, by fate.
///
/// `completed` = answers that arrived whole, whatever their status; `succeeded` = those with a status
/// below 400. `scheduled` = `sent` + `dropped` + those never due before the stop (closed loop: none);
/// `sent` = `completed` + failures that are not a status + requests in flight at the stop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCounts {
    /// Due within the measured part.
    pub scheduled: u64,
    /// Written to a connection, or given up with the attempt to open the one that was to carry it.
    pub sent: u64,
    /// Answered whole.
    pub completed: u64,
    /// Answered whole with a status below 400.
    pub succeeded: u64,
    /// Sent more than 1 ms after they were due (open loop): all connections were busy, or the generator was late.
    pub late: u64,
    /// Never sent: still waiting for a connection at the stop, or for longer than the timeout.
    pub dropped: u64,
    /// Sent again on a new connection because the server announced the close of the old one.
    pub retried: u64,
    pub failed: BTreeMap<FailureKind, u64>,
}

impl RequestCounts {
    /// All failures.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Failures that got no whole answer: all but those by their status.
    pub fn unanswered(&self) -> u64 {
        let refused = self.completed.saturating_sub(self.succeeded);
        self.failures().saturating_sub(refused)
    }
}

/// Connections over the whole load, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Connections {
    pub asked: u32,
    /// Opened successfully in total.
    pub opened: u64,
    /// Most open at one time.
    pub peak_open: u32,
    /// Closed by the server (announced or not).
    pub closed_by_server: u64,
    /// TLS handshakes that were full.
    pub tls_full: u64,
    /// TLS handshakes that resumed a session.
    pub tls_resumed: u64,
    /// ALPN protocol that the server chose; empty without TLS or without a choice.
    pub alpn: String,
    /// Streams that the server allows on a connection, where that is fewer than were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_allowed: Option<u32>,
    /// Connections that never had an answer although they asked for the whole measurement; one that was given up after
    /// the timeout and the next in its place are one.
    pub unanswered: u32,
}

/// One load thread's cost over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadCost {
    /// Kernel thread id.
    pub tid: i32,
    /// CPU it was pinned to.
    pub cpu: Option<u32>,
    /// CPUs that it may run on, by whoever started prony, where these are not all of the host's; empty otherwise, and
    /// in a record of a version that did not look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// CPU time in user mode.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel. On loopback this contains the peer's receive work.
    pub cpu_system_ns: u64,
    /// Length of the measured part.
    pub wall_ns: u64,
    /// Time spent in the deliberate spin before a scheduled send; part of `cpu_user_ns` + `cpu_system_ns`, not work.
    pub spin_ns: u64,
    /// Requests completed by this thread.
    pub completed: u64,
}

impl ThreadCost {
    /// Share of the measured time on a CPU doing work (0 to 1): spinning for precision is not work.
    pub fn utilization(&self) -> f64 {
        if self.wall_ns == 0 {
            0.0
        } else {
            self.busy_ns() as f64 / self.wall_ns as f64
        }
    }

    /// Time on a CPU doing work, ns.
    pub fn busy_ns(&self) -> u64 {
        (self.cpu_user_ns + self.cpu_system_ns).saturating_sub(self.spin_ns)
    }
}

/// Pauses of the load threads in which responses gathered, over the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// Their length in total, over all threads.
    pub total_ns: u64,
}

impl Pauses {
    /// Mean length, ns; `None` without one.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns as f64 / self.count as f64)
    }
}

/// What the generator itself cost over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GeneratorCost {
    /// Engine that ran: `epoll`, `uring`, with `+tls` behind it for HTTPS.
    pub engine: String,
    /// One entry per load thread.
    pub threads: Vec<ThreadCost>,
    /// System calls made by the load loop.
    pub syscalls: u64,
    /// Pauses in which a busy closed loop let responses gather, because the server was full; `None` in a record of a
    /// version that did not count them.
    #[serde(default)]
    pub pauses: Option<Pauses>,
    /// Peak resident set of the process, bytes.
    pub peak_rss_bytes: u64,
    /// Open loop: how late the generator itself was with a due request while a connection was free; the
    /// wait for a busy connection is not in here (that is queueing and belongs to the response time).
    pub schedule_lag: Histogram,
    /// What a TCP in user space counted, warm-up included, over all threads; `None` over the kernel's sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<crate::traffic::SideOutcome>,
}

impl GeneratorCost {
    /// Utilization of the busiest thread, 0 to 1; `None` where no thread ran in the measured part.
    pub fn utilization(&self) -> Option<f64> {
        let ran = self.threads.iter().filter(|t| t.wall_ns > 0);
        ran.map(ThreadCost::utilization).reduce(f64::max)
    }

    /// CPU time of all load threads at work in the measured part, ns; `None` where none ran.
    pub fn busy_ns(&self) -> Option<u64> {
        let ran = self.threads.iter().filter(|t| t.wall_ns > 0);
        ran.map(ThreadCost::busy_ns)
            .reduce(|sum, ns| sum.saturating_add(ns))
    }
}

/// A slice of the load for time series and live progress, about 100 ms to 1 s long. Warm-up included:
/// compare with [`LoadOutcome::measured_from`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Start.
    pub from: Nanos,
    /// End.
    pub to: Nanos,
    /// Requests sent.
    pub sent: u64,
    /// Answered with a status below 400.
    pub succeeded: u64,
    pub failed: u64,
    /// Body and head bytes received.
    pub received_bytes: u64,
    /// Median response time of the successes; 0 when there were none.
    pub response_ns_p50: u64,
    /// 99th percentile, likewise.
    pub response_ns_p99: u64,
    /// Largest, likewise.
    pub response_ns_max: u64,
    /// Due requests waiting for a connection at the end of the slice (open loop).
    pub queued: u64,
    /// Busiest load thread's utilization over the slice, in thousandths.
    pub generator_permille: u32,
}

/// What the responses of the measured part held.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// Bytes of the bodies, the framing of chunks left out.
    pub body_bytes: u64,
    /// Length of a thread's first body; `None` without a response.
    pub first_body_bytes: Option<u64>,
    /// Responses with a body of another length than the first of their thread.
    pub other_length: u64,
    /// The `Server` header of the last response.
    pub server: Option<String>,
}

/// One request of the measured part that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// When it was due.
    pub scheduled_at: Nanos,
    /// When it was sent.
    pub sent_at: Nanos,
    /// When the first byte of its response came.
    pub first_byte_at: Nanos,
    /// When its response was whole.
    pub done_at: Nanos,
    /// How long its connection took to open; 0 for all but the first request of a connection.
    pub connect_ns: u64,
    pub status: u16,
}

/// What came of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Start of the warm-up (or of the measurement without one).
    pub started_at: Nanos,
    /// Start of the measured part.
    pub measured_from: Nanos,
    /// End of the measured part: the stop, not the last straggler.
    pub measured_to: Nanos,
    /// Stopped by a person before its end.
    pub interrupted: bool,
    /// Requests by fate.
    pub requests: RequestCounts,
    /// Complete answers by status.
    pub status: BTreeMap<u16, u64>,
    /// Bytes received (TCP payload, or TLS plaintext).
    pub received_bytes: u64,
    /// Bytes sent, likewise.
    pub sent_bytes: u64,
    /// Response time (from the scheduled send) of the successes.
    pub response: Histogram,
    /// Service time (from the actual send) of the successes.
    pub service: Histogram,
    /// Time to connect, TLS handshake included; warm-up included (keep-alive connects only then).
    pub connect: Histogram,
    /// From the actual send to the first byte of the response, successes only.
    pub first_byte: Histogram,
    pub connections: Connections,
    /// The generator's own cost.
    pub generator: GeneratorCost,
    /// Successes per connection at the end: fairness. One entry per connection slot, unsorted.
    pub successes_per_connection: Vec<u64>,
    /// The load in slices.
    pub intervals: Vec<Interval>,
    /// For each failure kind the first message seen, in the system's words.
    pub first_failure: BTreeMap<FailureKind, String>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// What the responses held; `None` in a record of a version that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
    /// Requests one by one, as many as [`Habits::log_requests`] asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LoggedRequest>,
    /// The requests of a workload, each by itself; empty without one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_request: Vec<RequestOutcome>,
    /// The pieces of a rate that changes, as far as the load came; empty without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_piece: Vec<PieceOutcome>,
    /// The streams of server-sent events that were the load; `None` of another. Their events are the requests, and
    /// `response` and `service` are empty: when an event was sent only its server knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_streams: Option<EventStreams>,
}

/// Streams of server-sent events. Streams and times to a first event are of the whole load, warm-up included; the rest
/// is of the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventStreams {
    /// Responses that were event streams.
    pub opened: u64,
    /// Of these, in place of one that had ended or failed.
    pub reopened: u64,
    /// Ended by the server, orderly and between two events.
    pub ended: u64,
    /// Open when the measured part ended.
    pub open: u64,
    /// Comments, which are no events.
    pub comments: u64,
    /// From sending the request to the end of the stream's first event.
    pub first_event: Histogram,
    /// Between the ends of two events of one stream, as they were read: of events that were read at once it is 0.
    pub gap: Histogram,
}

impl EventStreams {
    /// Adds those of another part of the load.
    pub fn merge(&mut self, part: &EventStreams) {
        self.opened += part.opened;
        self.reopened += part.reopened;
        self.ended += part.ended;
        self.open += part.open;
        self.comments += part.comments;
        self.first_event.merge(&part.first_event);
        self.gap.merge(&part.gap);
    }
}

/// What came of the requests that were due in one piece of a rate that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PieceOutcome {
    /// Its begin, counted from that of the measured part.
    pub from: Nanos,
    /// Its end, likewise; the last piece lasts as long as the load.
    pub to: Nanos,
    /// Written to a connection, or given up with it.
    pub sent: u64,
    /// Sent more than 1 ms after they were due.
    pub late: u64,
    /// Due, but never sent.
    pub dropped: u64,
    /// Answered whole.
    pub completed: u64,
    /// Answered whole with a status below 400, and every check passed.
    pub succeeded: u64,
    pub failed: BTreeMap<FailureKind, u64>,
    /// Response time of the successes.
    pub response: Histogram,
}

impl PieceOutcome {
    /// All failures.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Successes per second of its time; `None` without one.
    pub fn achieved_per_s(&self) -> Option<f64> {
        let seconds = self.to.since(self.from).as_secs_f64();
        (seconds > 0.0 && self.succeeded > 0).then(|| self.succeeded as f64 / seconds)
    }
}

/// What came of the requests of one name, measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestOutcome {
    /// As in the workload.
    pub name: String,
    /// Written to a connection, or given up with it.
    pub sent: u64,
    /// Answered whole.
    pub completed: u64,
    /// Answered whole, with a good status, and every check passed.
    pub succeeded: u64,
    pub failed: BTreeMap<FailureKind, u64>,
    /// Failed checks and captures by name; a response may fail several.
    pub failed_checks: BTreeMap<String, u64>,
    /// Response time of the successes.
    pub response: Histogram,
}

impl RequestOutcome {
    /// All failures.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

impl LoadOutcome {
    /// Length of the measured part.
    pub fn measured(&self) -> Nanos {
        self.measured_to.since(self.measured_from)
    }

    /// Answers per second of the measured part, whatever their status; `None` without an answer or without time.
    pub fn answered_per_s(&self) -> Option<f64> {
        let s = self.measured().as_secs_f64();
        (s > 0.0 && self.requests.completed > 0).then(|| self.requests.completed as f64 / s)
    }

    /// The most of the mean response time that pauses of the generator can be (0 to 1): a response waits for one pause
    /// at the longest. `None` where pauses were not counted or nothing succeeded.
    pub fn pause_share(&self) -> Option<f64> {
        let pauses = self.generator.pauses?;
        let share = pauses.mean_ns().unwrap_or(0.0) / self.response.mean_ns()?;
        Some(share.min(1.0))
    }

    /// Successes per second of the measured part; `None` without a success or without time.
    pub fn achieved_per_s(&self) -> Option<f64> {
        let s = self.measured().as_secs_f64();
        (s > 0.0 && self.requests.succeeded > 0).then(|| self.requests.succeeded as f64 / s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_kinds_have_one_name_each() {
        for (i, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
            assert_eq!(
                serde_json::to_string(&kind).unwrap(),
                format!("\"{}\"", kind.name())
            );
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        for (of, whole) in [(1, 7), (5, 7), (5, 5), (7, 400), (64, 1_000_003), (3, 2)] {
            let part = |first, threads| Part { first, threads, of };
            let by_thread = |part: Part| {
                let numbers = part.first..part.first + part.threads;
                let rest = whole % u64::from(of);
                let each = numbers.map(|n| whole / u64::from(of) + u64::from(u64::from(n) < rest));
                each.sum::<u64>()
            };
            for cut in 0..of {
                let halves = [part(0, cut), part(cut, of - cut)];
                let sum = halves.map(|half| half.of_count(whole));
                assert_eq!(sum, halves.map(by_thread), "{of} threads, {whole}");
                assert_eq!(sum[0] + sum[1], whole);
            }
        }
    }

    #[test]
    fn a_scheme_is_read_in_any_case() {
        for url in ["https://h/", "HTTPS://h/", "Https://h:1/"] {
            assert!(LoadSpec::new(url).is_tls(), "{url}");
        }
        for url in ["http://h/", "HTTP://https:1/", "httpsx://h/"] {
            assert!(!LoadSpec::new(url).is_tls(), "{url}");
        }
    }

    #[test]
    fn a_steady_load_follows_no_course() {
        let ramp = LoadSpec {
            rate_pieces: RatePieces(vec![crate::RatePiece {
                from_per_s: 1_000.0,
                to_per_s: 5_000.0,
                duration: Nanos(1_000_000_000),
            }]),
            connections: 7,
            ..LoadSpec::new("http://h/")
        };
        assert!(ramp.has_changing_rate());
        let steady = ramp.steady();
        assert!(!steady.has_changing_rate());
        assert_eq!(steady.connections, 7);
    }

    #[test]
    fn spinning_is_not_utilization() {
        let t = ThreadCost {
            tid: 1,
            cpu: None,
            cpus: Vec::new(),
            cpu_user_ns: 600,
            cpu_system_ns: 300,
            wall_ns: 1_000,
            spin_ns: 400,
            completed: 1,
        };
        assert!((t.utilization() - 0.5).abs() < 1e-9);
    }
}
