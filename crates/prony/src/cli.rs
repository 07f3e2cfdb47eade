//! The command line: flags first, their meaning later (in `verbs/`).

use crate::executor::runtimes::Consent;
use crate::lab::Work;
use agent::nats::{Access, Place};
use analysis::Slo;
use clap::{Args, Parser, Subcommand, ValueEnum};
use plan::typed::{self, Course, Misfit, Process, Rate};
use record::{
    Arrival, Body, Bytes, Carrier, Close, Engine, Http, LoadSpec, Nanos, Precision, RatePieces,
    Think, Tier,
};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use traffic::user_space::{AddressRange, BadRange, Network};

const EXIT_CODES: &str = "\
Examples:
  prony load http://127.0.0.1:8080/        what it serves, and what limits it
  prony diagnose --url http://127.0.0.1/   why it is not faster
  prony run                                a whole evaluation, about a minute

Exit codes:
  0    the figures can be used
  1    a threshold or comparison failed: a fix was not proved, a record is
       worse than another
  2    command line or experiment file
  3    the figures can not be used, and the first line says why: no response,
       errors over the limit, the generator was the limit, or the schedule
       was not met
  4    the environment lacks something
  130  interrupted, partial results kept";

/// Loads web servers and reverse proxies, watches both ends, says what limits them.
#[derive(Debug, Parser)]
#[command(name = "prony", version, after_help = EXIT_CODES, max_term_width = 80)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Print results, warnings and errors only: no progress, no notes
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Load a URL, or several, and say what limits the rate.
    Load(Box<LoadArgs>),
    /// ApacheBench's flags and layout; whether its figures can be used on standard error.
    #[command(disable_help_flag = true)]
    Ab(DropInArgs),
    /// wrk's flags and layout; whether its figures can be used on standard error.
    #[command(disable_help_flag = true)]
    Wrk(DropInArgs),
    /// wrk2's flags and layout, always at a rate (-R).
    #[command(disable_help_flag = true)]
    Wrk2(DropInArgs),
    /// weighttp's flags and layouts.
    #[command(disable_help_flag = true)]
    Weighttp(DropInArgs),
    /// Start the built-in HTTP server: a backend, or a reference to calibrate a generator with.
    Origin(OriginArgs),
    /// Carry a part of another prony's load; speaks frames on its standard streams, which that prony joins to its own.
    Agent(AgentArgs),
    /// See whether agents can be started on hosts, and what they may do there.
    Hosts(HostsArgs),
    /// Make traffic with a TCP of prony's own in user space: clients, servers or both, as a file says.
    Traffic(TrafficArgs),
    /// Run an experiment; without a file, the built-in evaluation.
    Run(RunArgs),
    /// Name what limits a running server, with evidence and a fix.
    Diagnose(Box<DiagnoseArgs>),
    /// Compare two records: what got faster or slower, with confidence intervals.
    Compare(CompareArgs),
    /// Say whether a run is worse than its baseline by more than is allowed, as Markdown for CI
    Gate(GateArgs),
    /// Analyse stored records again and write their report, or an index of many.
    Report(ReportArgs),
    /// Check this host's settings against what is advised for a workload.
    Check(CheckArgs),
    /// Apply a profile of kernel and device settings to this host, show it, or restore the old values.
    Tune(TuneArgs),
    /// Turn other tools' output into a record: wrk, ab, strace -c, vmstat, tables of a study, ...
    Import(ImportArgs),
    /// Print what a shell needs to complete prony's command lines.
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Print the manual page of a verb, or write all of them.
    #[command(hide = true)]
    Man(ManArgs),
}

const AGENT_EXAMPLES: &str = "\
Examples:
  prony agent --allow load
      what prony load --on HOST starts on HOST, by ssh and by itself
  prony agent --fleet tls://broker:4222/lab --nats-creds agent.nk
      waits for prony load --fleet on a host that nobody can log in to

In authorized_keys, a key that starts an agent and nothing else:
  restrict,command=\"prony agent --allow load\" ssh-ed25519 AAAA...

It ends with the connection, and 10 s after the last word that came over it; one
of a fleet then waits for the next load.";

/// Flags of `prony agent`.
#[derive(Debug, Args)]
#[command(after_help = AGENT_EXAMPLES)]
pub struct AgentArgs {
    /// What the other side may ask for
    #[arg(
        long,
        value_name = "RIGHTS",
        value_delimiter = ',',
        default_value = "load"
    )]
    pub allow: Vec<AgentRight>,
    /// Whose loads.
    #[command(flatten)]
    pub fleet: FleetFlags,
}

/// Agents that are met at a broker.
#[derive(Debug, Default, Args)]
pub struct FleetFlags {
    /// Meet at this NATS broker, in the fleet of that name: nats://HOST:PORT/NAME, or tls:// [docs/hosts.md]
    #[arg(long, value_name = "URL")]
    pub fleet: Option<Place>,
    /// Credentials for the broker: a .creds file, or a file with an NKEY seed
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub nats_creds: Option<PathBuf>,
    /// Trust the certificate authorities of this PEM file for the broker, and no others
    #[arg(long, value_name = "FILE", requires = "fleet")]
    pub nats_ca: Option<PathBuf>,
    /// Show the broker this client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    pub nats_cert: Option<PathBuf>,
    /// The key of --nats-cert (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["fleet", "nats_cert"])]
    pub nats_key: Option<PathBuf>,
    /// Speak without TLS to a broker that is not of this machine
    #[arg(long, requires = "fleet")]
    pub nats_plain: bool,
}

impl FleetFlags {
    /// The fleet, and what opens its broker.
    pub fn access(&self) -> Option<Access> {
        Some(Access {
            place: self.fleet.clone()?,
            creds: self.nats_creds.clone(),
            ca: self.nats_ca.clone(),
            cert: self.nats_cert.clone().zip(self.nats_key.clone()),
            plain: self.nats_plain,
        })
    }
}

/// What an agent may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AgentRight {
    /// To send a load
    Load,
    /// To start targets of an experiment, to watch and to stop them
    Target,
}

const HOSTS_EXAMPLES: &str = "\
Examples:
  prony hosts check --on gen1,user@gen2
  prony hosts check --hosts lab.toml
  prony hosts check --fleet tls://broker:4222/lab --nats-creds me.nk";

/// Flags of `prony hosts`.
#[derive(Debug, Args)]
#[command(after_help = HOSTS_EXAMPLES)]
pub struct HostsArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: HostsAction,
}

/// What to do with hosts.
#[derive(Debug, Subcommand)]
pub enum HostsAction {
    /// Start an agent on each, and say who it is, what it may do, and how far its clock is from ours.
    #[command(after_help = HOSTS_EXAMPLES)]
    Check(HostsCheckArgs),
}

/// Flags of `prony hosts check`.
#[derive(Debug, Args)]
pub struct HostsCheckArgs {
    /// The hosts.
    #[command(flatten)]
    pub hosts: HostFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Which hosts.
#[derive(Debug, Default, Args)]
pub struct HostFlags {
    /// Send the load from these hosts: names of --hosts, or destinations of ssh; gen1=4 for four load threads there
    #[arg(
        id = "hosts",
        long = "on",
        value_name = "HOST[=THREADS],...",
        value_delimiter = ',',
        conflicts_with = "fleet"
    )]
    pub on: Vec<String>,
    /// A file with [host.NAME] sections: how to get to hosts; without --on, all of them [docs/hosts.md]
    #[arg(
        id = "hosts_file",
        long = "hosts",
        value_name = "FILE",
        conflicts_with = "fleet"
    )]
    pub hosts: Option<PathBuf>,
    /// From agents that wait at a broker.
    #[command(flatten)]
    pub fleet: FleetFlags,
    /// Take so many agents of the fleet, and wait for them up to 20 s; without it, all that are there
    #[arg(long, value_name = "COUNT", requires = "fleet", value_parser = clap::value_parser!(u32).range(1..))]
    pub agents: Option<u32>,
}

impl HostFlags {
    /// Whether the load is sent from other hosts.
    pub fn is_asked(&self) -> bool {
        !self.on.is_empty() || self.hosts.is_some() || self.fleet.fleet.is_some()
    }
}

const DROP_IN_EXAMPLES: &str = "\
Examples:
  prony ab -n 10000 -c 10 -k http://127.0.0.1:8080/
  prony wrk -t2 -c64 -d30s --latency http://127.0.0.1:8080/
  prony wrk2 -t2 -c64 -d30s -R20k --latency http://127.0.0.1:8080/
  prony weighttp -n 10000 -c 64 -t 2 -k http://127.0.0.1:8080/

Defaults and exit codes are the tool's. A flag that cannot be honoured is
refused (exit 2), never ignored. Latencies are of the responses below status 400.";

/// Flags of a tool whose place prony takes.
#[derive(Debug, Args)]
#[command(after_help = DROP_IN_EXAMPLES)]
pub struct DropInArgs {
    /// The tool's own flags and its URL
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    pub args: Vec<String>,
}

/// A result in another tool's form, in a file.
#[derive(Clone, Debug)]
pub struct Export {
    pub format: report::export::Format,
    pub file: PathBuf,
}

fn export(text: &str) -> Result<Export, String> {
    let names = || report::export::Format::ALL.map(|(name, _)| name).join(", ");
    let Some((name, file)) = text.split_once('=').filter(|(_, file)| !file.is_empty()) else {
        return Err(format!("must be FORMAT=FILE, with one of {}", names()));
    };
    let found = report::export::Format::ALL.iter().find(|(n, _)| *n == name);
    let (_, format) =
        found.ok_or_else(|| format!("unknown format `{name}`, known are {}", names()))?;
    Ok(Export {
        format: *format,
        file: PathBuf::from(file),
    })
}

const LOAD_EXAMPLES: &str = "\
Examples:
  prony load http://127.0.0.1:8080/
      closed loop: 10 connections for 10 s, each sends its next request when
      its response has come
  prony load -c 64 -d 30s http://127.0.0.1:8080/
      64 connections for 30 s
  prony load -c 64 -R 20k http://127.0.0.1:8080/
      open loop: 20,000 requests per second, latency from the scheduled send
  prony load -R 1k..20k -d 60s http://127.0.0.1:8080/
      a rate that grows evenly; -R 1k:10s,5k:10s,1k..5k:20s by pieces
  prony load --requests-per-connection 1 http://127.0.0.1:8080/
      a new connection for every request
  prony load -c 8 --http 2 --streams 8 https://127.0.0.1:8443/
      HTTP/2: 8 requests in flight on each of 8 connections
  prony load -c 64 --body ping ws://127.0.0.1:8080/chat
      WebSocket: 64 connections, each sends its next message when the last
      one has its reply
  prony load --sse -c 500 --timeout 30s http://127.0.0.1:8080/events
      server-sent events: 500 streams, events per second and the gap between
      two of a stream; fails where none comes for 30 s
  prony load -n 10000 --json http://127.0.0.1:8080/
      10,000 requests, the result as JSON
  prony load -c 64 --find-max --slo 'p99<5ms,errors<0.1%' http://127.0.0.1:8080/
      the highest rate that holds it, with an interval
  prony load --replay access.log --speed 10 http://127.0.0.1:8080/
      the requests of an access log, ten times as fast as recorded
  prony load --workload shop.toml http://127.0.0.1:8080/
      the requests of a file, results by name; docs/workloads.md
  prony load --on gen1,gen2 -c 400 http://10.0.0.1/
      from two hosts, by ssh, as one load; docs/hosts.md

Exit 0: the figures can be used. Exit 3: they can not, and the first line of
the result says why.";

/// Flags of `prony load`.
#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArgs {
    /// http://, https://, ws:// or wss:// URL; of several, on one server, each gets as many requests
    #[arg(id = "url", value_name = "URL", required_unless_present = "workload")]
    pub urls: Vec<String>,
    /// Requests with weights, or a session of steps, from a file; a URL then replaces its server
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Send the requests of an access log (common or combined format) to the URL's server at their recorded times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "arrivals", "body", "body_file"])]
    pub replay: Option<PathBuf>,
    /// Replay methods other than GET, HEAD and OPTIONS too; POST, PUT and PATCH never, whose bodies are in no log
    #[arg(long, requires = "replay")]
    pub replay_unsafe: bool,
    /// Send a request at each time of a file: one a line, seconds or RFC 3339, counted from the first
    #[arg(long, value_name = "FILE")]
    pub arrivals: Option<PathBuf>,
    /// Replay, or follow --arrivals, so many times as fast as recorded
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = speed)]
    pub speed: f64,
    /// The load.
    #[command(flatten)]
    pub load: LoadFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// What the load has to keep, or exit code 1: mean, p50 to p9999, max, errors, rate: p99<5ms,errors<0.1%
    #[arg(long, value_name = "CONDITIONS")]
    pub slo: Option<Slo>,
    /// Write the result to a file too: hdr, spectrum, csv, series, prometheus, otlp, json or html; repeatable
    #[arg(long, value_name = "FORMAT=FILE", value_parser = export)]
    pub out: Vec<Export>,
    /// The search.
    #[command(flatten)]
    pub search: SearchFlags,
    /// From where.
    #[command(flatten)]
    pub from: HostFlags,
}

/// Flags of a search for a rate.
#[derive(Debug, Args)]
pub struct SearchFlags {
    /// Search the highest open-loop rate that holds --slo; -d is the length of a step, -R the first rate
    #[arg(long, group = "search")]
    pub find_max: bool,
    /// Search the rate from which on p99 is more than ten times that at a low load
    #[arg(long, group = "search")]
    pub find_knee: bool,
    /// The search takes this long at most [default: what its steps take, said before it begins]
    #[arg(long, value_name = "TIME", requires = "search", value_parser = duration_above_zero)]
    pub budget: Option<Nanos>,
    /// Say what the search would do and how long it takes at most, and load nothing
    #[arg(long, requires = "search")]
    pub dry_run: bool,
}

impl SearchFlags {
    /// Whether a rate is searched.
    pub fn is_asked(&self) -> bool {
        self.find_max || self.find_knee
    }
}

impl LoadArgs {
    /// The load that the flags describe.
    pub fn spec(&self) -> LoadSpec {
        let first = self.urls.first().map_or("", String::as_str);
        self.load.spec(first, LoadDefaults::LOAD)
    }
}

/// What a load is when its flags do not say.
#[derive(Clone, Copy, Debug)]
pub struct LoadDefaults {
    connections: u32,
    duration: Nanos,
}

impl LoadDefaults {
    /// `prony load`.
    const LOAD: Self = Self {
        connections: 10,
        duration: Nanos::from_secs(10),
    };
    /// `prony diagnose`: enough connections to keep several workers busy, and no longer than the counts need.
    const DIAGNOSE: Self = Self {
        connections: 50,
        duration: Nanos::from_secs(4),
    };
}

/// Flags that describe a load, the same for every verb that makes one.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// Connections in total [default: 10; diagnose: 50]
    #[arg(short, long, value_parser = count_u32)]
    pub connections: Option<u32>,
    /// Load threads [default: one per two CPUs, at most one per connection]
    #[arg(short, long, value_parser = count_u32)]
    pub threads: Option<u32>,
    /// Measure for this long: 2s, 500ms, 1m [default: 10s unless -n is given; diagnose: 4s; each step of a search: 5s]
    #[arg(short, long, visible_short_alias = 'z', value_parser = duration_above_zero)]
    pub duration: Option<Nanos>,
    /// Stop after this many requests
    #[arg(short = 'n', long, value_parser = count)]
    pub requests: Option<u64>,
    /// Open loop: requests per second over all connections; 1k..10k changes over the whole time, 1k:10s,1k..5k:20s by
    /// pieces
    #[arg(short = 'R', long, value_parser = rate)]
    pub rate: Option<Course>,
    /// Arrivals of the open loop: equal gaps, or exponentially distributed ones
    #[arg(long, value_name = "constant|poisson", default_value = "constant", requires = "rate",
          value_parser = arrival)]
    pub arrival: Process,
    /// How a thread waits for a scheduled send: asleep, asleep but for the last stretch, or spinning on a whole core
    #[arg(long, value_name = "sleep|hybrid|spin", default_value = "hybrid", value_parser = typed::precision)]
    pub precision: Precision,
    /// Seed of random arrivals
    #[arg(long, default_value = "1", hide = true)]
    pub seed: u64,
    /// The client closes a connection after N requests; 1 is a new connection per request, 0 no limit
    #[arg(long, value_name = "N", value_parser = count)]
    pub requests_per_connection: Option<u64>,
    /// How the client closes a connection: orderly, or by a reset, which leaves no TIME_WAIT, uses the socket again and
    /// costs both ends less than a close does
    #[arg(long, value_name = "fin|rst", default_value = "fin", value_parser = typed::close)]
    pub close: Close,
    /// Requests in flight on one connection of HTTP/1.1
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_u32)]
    pub pipeline: u32,
    /// HTTP version; 2 is by ALPN for https://, by prior knowledge (h2c) for http://
    #[arg(long, value_name = "1.1|2", default_value = "1.1", value_parser = typed::http)]
    pub http: Http,
    /// Concurrent streams, and so requests in flight, on one connection of HTTP/2
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_u32)]
    pub streams: u32,
    /// Each request is a unary call of gRPC: the path is /package.Service/Method, --body-file the message as protobuf
    /// encodes it. A grpc-status other than 0 is a failure. Implies --http 2 and POST
    #[arg(long)]
    pub grpc: bool,
    /// Messages over WebSocket (a ws:// or wss:// URL; the message is --body or --body-file) are binary and not text
    #[arg(long)]
    pub ws_binary: bool,
    /// Each connection opens one stream of server-sent events (Accept: text/event-stream) and stays on it; each event
    /// counts. -c says how many streams, -d for how long, or -n how many events; --timeout is for an event to come
    #[arg(long)]
    pub sse: bool,
    /// Kernel interface that drives the sockets; auto takes what costs less for such a load
    #[arg(long, value_name = "auto|uring|epoll", default_value = "auto", value_parser = typed::engine)]
    pub engine: Engine,
    /// Whose TCP carries the load: the kernel's, or prony's own over this kind of device
    #[arg(long, value_name = "kernel|tap|af_xdp|af_packet|dpdk", default_value = "kernel",
          value_parser = typed::transport)]
    pub transport: Carrier,
    /// The interface for a TCP of prony's own; for dpdk a PCI address or a virtual device: net_tap0,iface=tap9
    #[arg(long, value_name = "NAME", value_parser = typed::interface)]
    pub interface: Option<String>,
    /// How long answers may gather before they are looked at: cheaper for this core and the server, and part of every
    /// latency. With a TCP of prony's own 0 spins for the shortest latency [default: 50us with a TCP of prony's own;
    /// otherwise only as much as does not show, while the server is seen to be full]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub coalesce: Option<Nanos>,
    /// Local addresses to connect from, in turn: 127.0.0.2-127.0.0.9 or 127.0.1.0/28
    #[arg(long, value_name = "RANGE", value_parser = sources)]
    pub source: Option<Sources>,
    /// A network behind the interface beside its own, for a TCP of prony's own
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    pub network: Vec<Network>,
    /// The router through which a TCP of prony's own reaches a server outside the interface's networks
    #[arg(long, value_name = "ADDRESS", value_parser = gateways)]
    pub gateway: Option<Sources>,
    /// Pin the load threads to these CPUs, in turn: 0,2-4
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Load before the measured part, which is not counted [default: none; each step of a search: 1s]
    #[arg(long, value_parser = duration)]
    pub warmup: Option<Nanos>,
    /// A request without a complete response after this time has failed
    #[arg(long, default_value = "2s", value_parser = duration_above_zero)]
    pub timeout: Nanos,
    /// Request header, may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = typed::header_line)]
    pub headers: Vec<(String, String)>,
    /// Request method
    #[arg(short, long, visible_short_alias = 'X', default_value = "GET", value_parser = typed::method)]
    pub method: String,
    /// Request body; @FILE is the content of a file
    #[arg(long, conflicts_with = "body_file")]
    pub body: Option<String>,
    /// Request body from a file
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<String>,
    /// Do not verify the server's certificate
    #[arg(long)]
    pub insecure: bool,
    /// Make every TLS handshake a full one: resume no session
    #[arg(long)]
    pub no_resumption: bool,
    /// Trust these certificates in place of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// The client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<String>,
    /// The key of the client's certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<String>,
    /// Name to ask the server for and to verify it by, in place of the URL's
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// Connect there, whatever host and port the URL names
    #[arg(long, value_name = "HOST:PORT", value_parser = typed::connect_to)]
    pub connect_to: Option<String>,
    /// Connect to this Unix socket; the URL names Host and path
    #[arg(long, value_name = "PATH", value_parser = typed::unix)]
    pub unix: Option<String>,
    /// Go through this forward proxy, by a tunnel for https://: http://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = typed::proxy)]
    pub proxy: Option<String>,
    /// Say to the proxy who asks (Basic)
    #[arg(long, value_name = "USER:PASS", value_parser = typed::proxy_user, requires = "proxy")]
    pub proxy_user: Option<String>,
    /// Slow clients: each connection receives at most so many bytes a second and sends at most as many, over TCP, TLS
    /// included. It does not read while it may not, with a receive buffer of a tenth of a second, so that the server
    /// sees the slow client and not a kernel that takes the response for it: 256KiB, 1MB
    #[arg(long, value_name = "RATE", value_parser = typed::limit_rate)]
    pub limit_rate: Option<Bytes>,
    /// Each client waits so long before its next request: 10ms, exponential:10ms (mean)
    #[arg(long, value_name = "TIME", value_parser = think)]
    pub think: Option<Think>,
    /// Share of failed requests above which the result is not valid
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = typed::share)]
    pub error_limit: f64,
    /// Percentiles are always printed; accepted because users of wrk type it
    #[arg(short = 'L', long, hide = true)]
    pub latency: bool,
}

impl LoadFlags {
    /// The load that the flags describe.
    pub fn spec(&self, url: &str, default: LoadDefaults) -> LoadSpec {
        let body = match (&self.body, &self.body_file) {
            (_, Some(file)) => Body::File(file.clone()),
            (Some(text), None) => typed::body(text),
            (None, None) => Body::None,
        };
        let changing = match &self.rate {
            Some(Course::Changing(pieces)) => Some(pieces),
            _ => None,
        };
        let timed = changing.and_then(RatePieces::total);
        let untimed = self.requests.is_none() || changing.is_some() && timed.is_none();
        let mut spec = LoadSpec {
            // An empty one is refused where it is resolved, in the words of that place.
            url: typed::url(url).unwrap_or_default(),
            connections: self.connections.unwrap_or(default.connections),
            threads: self.threads,
            duration: self
                .duration
                .or(timed)
                .or(untimed.then_some(default.duration)),
            requests: self.requests,
            arrival: match (self.rate.as_ref().map(mean_per_s), self.arrival) {
                (None, _) | (_, Process::Closed) => Arrival::Closed,
                (Some(per_s), Process::Constant) => Arrival::Constant { per_s },
                (Some(per_s), Process::Poisson) => Arrival::Poisson {
                    per_s,
                    seed: self.seed,
                },
            },
            requests_per_connection: self.requests_per_connection.filter(|&n| n > 0),
            close: self.close,
            pipeline: self.pipeline,
            http: self.http,
            streams: self.streams,
            grpc: false,
            ws_binary: self.ws_binary,
            sse: self.sse,
            engine: self.engine,
            transport: self.transport,
            interface: self.interface.clone(),
            coalesce: self.coalesce,
            source: self.source.clone().map(|s| s.0).unwrap_or_default(),
            network: self.network.iter().map(ToString::to_string).collect(),
            gateway: self.gateway.clone().map(|s| s.0).unwrap_or_default(),
            cpus: self.cpus.clone().map(|c| c.0).unwrap_or_default(),
            hosts: Vec::new(),
            warmup: self.warmup.unwrap_or_default(),
            timeout: self.timeout,
            method: self.method.clone(),
            headers: self.headers.clone(),
            body,
            insecure: self.insecure,
            no_resumption: self.no_resumption,
            cacert: self.cacert.clone(),
            cert: self.cert.clone(),
            key: self.key.clone(),
            sni: self.sni.clone(),
            connect_to: self.connect_to.clone(),
            unix: self.unix.clone(),
            proxy: self.proxy.clone(),
            proxy_user: self.proxy_user.clone(),
            limit_rate: self.limit_rate,
            precision: self.precision,
            habits: record::Habits::default(),
            workload: None,
            think: self.think.filter(|think| think.mean().0 > 0),
            rate_pieces: RatePieces::default(),
            timetable: None,
        };
        if self.grpc {
            spec.call_grpc();
        }
        if let Some(pieces) = changing {
            spec.change_rate(pieces.clone());
        }
        spec
    }
}

fn think(text: &str) -> Result<Think, String> {
    let think = plan::workload::think(text).map_err(|expected| format!("must be {expected}"))?;
    Ok(think.unwrap_or(Think::Constant(Nanos(0))))
}

const ORIGIN_EXAMPLES: &str = "\
Examples:
  prony origin --listen 127.0.0.1:9000 --threads 2
      serves 1 KiB under / with two threads
  prony origin --freeze 200ms/2s
      sends nothing for 200 ms in every 2 s, as a stop-the-world pause does
  prony origin --delay exponential:5ms
      waits before each response, 5 ms on average
  prony origin --transport tap --interface tap0 --address 10.9.0.0/28 --listen 0.0.0.0:80
      answers on fourteen addresses from a TCP of prony's own

Paths: /bytes/SIZE (/bytes/91KiB), /status/CODE, /upload, /stats (counters as
JSON), and files under --files.";

/// Flags of `prony origin`.
#[derive(Debug, Args)]
#[command(after_help = ORIGIN_EXAMPLES)]
pub struct OriginArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,
    /// Threads, each with a listening socket of its own (SO_REUSEPORT), or a queue of the interface for prony's own TCP
    #[arg(short, long, default_value = "1", value_parser = count_u32)]
    pub threads: u32,
    /// Pin the threads to these CPUs, in turn: 0,2-4
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<Cpus>,
    /// Size of the response to /
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = typed::bytes)]
    pub body: record::Bytes,
    /// Serve the files below this directory too
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Wait before each response: 5ms, exponential:5ms (mean), lognormal:5ms,0.5 (median, sigma)
    #[arg(long, value_name = "DIST")]
    pub delay: Option<String>,
    /// Send nothing for LENGTH in every PERIOD, as a stop-the-world pause does
    #[arg(long, value_name = "LENGTH/PERIOD")]
    pub freeze: Option<String>,
    /// Close each connection after N responses
    #[arg(long, value_name = "N", value_parser = count)]
    pub close_after: Option<u64>,
    /// Whose TCP answers: the kernel's, or prony's own over this kind of device
    #[arg(long, value_name = "kernel|tap|af_xdp|af_packet|dpdk", default_value = "kernel",
          value_parser = typed::transport)]
    pub transport: Carrier,
    /// The interface for a TCP of prony's own; for dpdk a PCI address or a virtual device: net_tap0,iface=tap9
    #[arg(long, value_name = "NAME", value_parser = typed::interface)]
    pub interface: Option<String>,
    /// Addresses that a TCP of prony's own answers on, at the port of --listen: 10.9.0.2-10.9.0.9 or 10.9.0.0/24
    #[arg(long, value_name = "RANGE", value_delimiter = ',', value_parser = address_range)]
    pub address: Vec<AddressRange>,
    /// A network behind the interface beside its own, for a TCP of prony's own
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', value_parser = network)]
    pub network: Vec<Network>,
    /// The router through which a TCP of prony's own reaches clients outside the interface's networks
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub gateway: Vec<IpAddr>,
    /// How long a TCP of prony's own lets packets gather; 0 looks at once
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration)]
    pub coalesce: Nanos,
    /// Print the address and, at the end, the counters as JSON
    #[arg(long)]
    pub json: bool,
}

const TRAFFIC_EXAMPLES: &str = "\
Examples:
  prony traffic page.toml
      the traffic of the file: verdict, templates, latencies, both sides'
      counters under TRex's names
  prony traffic page.toml -d 30s --out results/page
      for 30 s, kept as a record with report.html
  prony traffic page.toml -t 2
      by two threads a side, a queue of the interface and local ports each
  prony traffic page.toml --dry-run
      what would run; what is wrong with the file is said with its line
  prony traffic page.toml --json
      the result as JSON
  prony traffic --lab
      two hosts and wires of its own (needs root): nginx and an emulated server,
      by the kernel's TCP and by prony's own
  prony traffic --lab page.toml
      the file's sides on these wires; nginx answers a file without [server]
  prony traffic --lab --lab-body 32KiB --lab-initial-window 2 --lab-rounds 3
      larger responses, sent as study 004 did; medians of three rounds
  prony traffic --lab-restore
      takes away what a killed laboratory left, as the next start does

A short file, for a server of this host behind a TAP (needs root):
  [client]
  transport = \"tap\"      # or af_xdp, af_packet, dpdk; loopback needs no side
  interface = \"tap0\"
  addresses = \"10.9.0.2-10.9.0.250\"
  [[template]]
  target = \"http://10.9.0.1/\"
  rate = 2000

Exit 0: the figures can be used. Exit 3: they can not, and the first line of
the result says why.";

/// Flags of `prony traffic`.
#[derive(Debug, Args)]
#[command(after_help = TRAFFIC_EXAMPLES)]
pub struct TrafficArgs {
    /// Traffic file; docs/traffic.md lists its keys
    #[arg(required_unless_present_any = ["lab", "lab_restore"])]
    pub file: Option<PathBuf>,
    /// Make namespaces and wires of prony's own, run the file's sides there, and take it all away; without a file, load
    /// nginx and an emulated server by the kernel's TCP and by prony's
    #[arg(long)]
    pub lab: bool,
    /// Take away what a killed laboratory left
    #[arg(long, conflicts_with_all = ["lab", "file"])]
    pub lab_restore: bool,
    /// Connections at one time in the laboratory without a file
    #[arg(short, long, default_value = "256", value_parser = count_u32, requires = "lab", conflicts_with = "file")]
    pub connections: u32,
    /// How long packets may gather at a TCP of prony's own in the laboratory, 50us unless a file says; 0s looks at once
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "lab")]
    pub coalesce: Option<Nanos>,
    /// Size of a response in the laboratory without a file: 100, 32KiB
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = typed::bytes, requires = "lab",
          conflicts_with = "file")]
    pub lab_body: record::Bytes,
    /// What a connection is for in the laboratory without a file; both unless one is named
    #[arg(long, value_name = "WORK", requires = "lab", conflicts_with = "file")]
    pub lab_work: Option<Work>,
    /// What a TCP of prony's own is attached to in the laboratory: tap, af_xdp, af_packet; without a file the first two
    #[arg(long, value_name = "DEVICE", value_delimiter = ',', value_parser = lab_device, requires = "lab")]
    pub lab_over: Vec<Carrier>,
    /// Segments that a server in the laboratory sends before the first acknowledgement, the kernel's as well
    #[arg(long, value_name = "SEGMENTS", value_parser = count_u32, requires = "lab")]
    pub lab_initial_window: Option<u32>,
    /// How often the laboratory without a file runs everything, in turns: medians, and the least and the most
    #[arg(long, value_name = "N", default_value = "1", value_parser = count_u32, requires = "lab",
          conflicts_with = "file")]
    pub lab_rounds: u32,
    /// Instead of the file's duration, or of 2s for each load of the laboratory: 10s, 2m
    #[arg(short, long, visible_short_alias = 'z', value_parser = duration_above_zero)]
    pub duration: Option<Nanos>,
    /// Threads of each side, each with a queue of the interface, instead of the file's
    #[arg(short, long, value_parser = count_u32, conflicts_with_all = ["lab", "lab_restore"])]
    pub threads: Option<u32>,
    /// Instead of the file's seed of addresses, ports and gaps
    #[arg(long)]
    pub seed: Option<u64>,
    /// Directory for the record and report.html; without one nothing is kept
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print what would run, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const RUN_EXAMPLES: &str = "\
Examples:
  prony run
      the built-in evaluation of the built-in server, about a minute
  prony run experiments/nginx-static.toml
      an experiment of your own; experiments/README.md lists the keys
  prony run proxy-buffers
      a built-in experiment by its name
  prony run FILE --dry-run
      what would run, in which order, and for how long
  prony run FILE --scale paper
      the same at the size that [scale.paper] gives it
  prony run FILE --until '±1%'
      repeats blocks until every confidence interval is that narrow
  prony run FILE --out DIR --continue
      the trials that an interrupted run still lacks
  prony run proxy-buffers --on gen1 --address 10.0.0.1
      with the load of another host, which reaches this one there

DIR/report.html is the report, the other files in DIR are the record. Exit 0:
the figures can be used. Exit 3: they can not, and the first line says why.";

/// Flags of `prony run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Experiment file, or the name of one that is built in; without either, the built-in evaluation
    pub file: Option<PathBuf>,
    /// Directory for the record and report.html [default: results/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Size of the experiment: `small`, or a [scale.NAME] of the file
    #[arg(long, value_name = "NAME", default_value = "small")]
    pub scale: String,
    /// Print the plan and its time, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Repeat blocks until the interval of every ratio (without a baseline: of every rate) is this narrow: ±1%, 0.02
    #[arg(long, value_name = "PRECISION", value_parser = half_width)]
    pub until: Option<f64>,
    /// Run only the trials that the record in --out still lacks
    #[arg(long = "continue", requires = "out")]
    pub resume: bool,
    /// Where the loads are sent from.
    #[command(flatten)]
    pub from: HostFlags,
    /// Have targets of loopback listen here: the address under which the hosts of the load reach this one
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  prony diagnose --url http://127.0.0.1:8080/
      find the processes that serve the URL, load them, name the cause
  prony diagnose --url URL -c 500 --prove
      and prove the fix on a copy of the server
  prony diagnose --url URL --prove --put-back
      and that the effect returns with the fault
  prony diagnose --url URL --improve
      diagnose, change and prove until no change helps any more
  prony diagnose --container web
      load the published port of a container, name who forwards it and the cause
  prony diagnose --pod shop/web-0 --server-host root@node3
      the same on the node of a pod, with the load from here
  prony diagnose --listen 8080 --no-load -d 10s
      watch the traffic that is there
  prony diagnose --listen 8080 --no-load --for 10m --when 'p99>50ms'
      and look closer when it is slow
  prony diagnose --listen 8080 --no-load --against results/last-week
      and say what a request takes more of than then
  prony diagnose results/quickstart-20260101-120000
      judge a stored record
  prony diagnose --from strace-c.txt --from wrk.txt
      judge what other tools printed

The first line names the cause; `none` is a healthy server, with what it is
busy with. The running server and its files are never changed: a fix is proved
on a copy.";

/// Flags of `prony diagnose`.
#[derive(Debug, Args)]
#[command(after_help = DIAGNOSE_EXAMPLES)]
pub struct DiagnoseArgs {
    /// A record that `prony run` or `prony diagnose --out` wrote
    #[arg(conflicts_with_all = ["url", "pid", "unit", "listen", "container", "pod", "from"])]
    pub record: Option<PathBuf>,
    /// The URL to load
    #[arg(long)]
    pub url: Option<String>,
    /// A process of the server; its children belong to it [default: whoever listens at the URL's address]
    #[arg(long, value_name = "PID")]
    pub pid: Vec<i32>,
    /// The server's systemd unit
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
    /// The port that the server listens on
    #[arg(long, value_name = "PORT")]
    pub listen: Option<u16>,
    /// The container that the server is in, of podman, docker or nerdctl, or RUNTIME://ID [URL: its published port]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "unit", "listen"])]
    pub container: Option<String>,
    /// The pod that the server is in; its node is this host or --server-host [URL: its only port]
    #[arg(long, value_name = "NS/NAME[/CONTAINER]", conflicts_with_all = ["pid", "unit", "listen", "container"])]
    pub pod: Option<sut::discover::PodName>,
    /// Watch the existing traffic instead of loading the server
    #[arg(long)]
    pub no_load: bool,
    /// The most that watching may take of the host's CPU
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = overhead)]
    pub overhead: f64,
    /// Watch for this long at the lowest cost, and look closer when a second is slow
    #[arg(long = "for", value_name = "TIME", requires = "no_load", value_parser = duration_above_zero)]
    pub lookout: Option<Nanos>,
    /// What makes a second slow: p99>50ms, cpu>90%, rate<100; may be repeated [default: it differs from the others]
    #[arg(long, value_name = "CONDITION", requires = "lookout", value_parser = plan::When::parse)]
    pub when: Vec<plan::When>,
    /// An earlier record of this server: what grew per request since then
    #[arg(long, value_name = "RECORD")]
    pub against: Option<PathBuf>,
    /// Count the calls of memory allocators too, each of which costs a trap
    #[arg(long, requires = "no_load")]
    pub allocator: bool,
    /// Ask runtimes that can answer (a JVM) for thread dumps and names of compiled code, also without a load
    #[arg(long, conflicts_with = "no_attach")]
    pub attach: bool,
    /// Ask no runtime: read only
    #[arg(long)]
    pub no_attach: bool,
    /// What another tool printed (a load generator, perf, strace, ss, netstat, top, logs, ...); may be repeated
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["url", "pid", "unit", "listen", "container", "pod", "no_load"])]
    pub from: Vec<PathBuf>,
    /// Prove the fix: load a changed and an unchanged copy of the server in turn
    #[arg(long, requires = "url")]
    pub prove: bool,
    /// After a proof, put the fault back in a fresh copy: the effect must return
    #[arg(long, requires = "prove")]
    pub put_back: bool,
    /// Make a proof of no change: what this host calls an effect where there is none
    #[arg(long, requires = "url", conflicts_with_all = ["prove", "improve"])]
    pub aa: bool,
    /// Repeat diagnosis, change and proof until nothing is left that helps
    #[arg(long, requires = "url")]
    pub improve: bool,
    /// What `--improve` was called; it is about a server, and `prony tune` about the host.
    #[arg(long, hide = true)]
    pub tune: bool,
    /// Keep the record and a page in this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Best kind of probes to use: ebpf, perf_events, proc
    #[arg(long, value_name = "TIER", default_value = "ebpf", value_parser = tier)]
    pub probes: Tier,
    /// Diagnose on the server's host (a name of --hosts, or a destination of ssh), and send the load from this one
    #[arg(long, value_name = "HOST")]
    pub server_host: Option<String>,
    /// Started by `--server-host`: whoever speaks on the standard streams carries the load and takes the record.
    #[arg(long, hide = true)]
    pub lent: bool,
    /// Where the load is sent from.
    #[command(flatten)]
    pub from_hosts: HostFlags,
    /// The load.
    #[command(flatten)]
    pub load: LoadFlags,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl DiagnoseArgs {
    /// Whether runtimes may be asked: with a load of ours the server is disturbed anyway.
    pub fn consent(&self) -> Consent {
        match (self.no_attach, self.attach || !self.no_load) {
            (true, _) => Consent::Refused,
            (false, true) => Consent::Attach,
            (false, false) => Consent::NotAsked,
        }
    }

    /// The load that the flags describe.
    pub fn spec(&self, url: &str) -> LoadSpec {
        self.load.spec(url, LoadDefaults::DIAGNOSE)
    }
}

fn tier(text: &str) -> Result<Tier, String> {
    [Tier::Ebpf, Tier::PerfEvents, Tier::Proc]
        .into_iter()
        .find(|tier| tier.name() == text)
        .ok_or_else(|| format!("`{text}` is none of ebpf, perf_events, proc"))
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  prony compare before/ after/
      rate, p50, p99, CPU and calls per request of every common cell
  prony compare before/ after/ --threshold 5%
      a gate: exit code 1 only when something got worse by more than 5 %
  prony compare before/ after/ --tolerance 5%
      counts of calls that differ by less than 5 % are equal

A ratio has a confidence interval when both records have three valid trials of
a cell or more; `slower` means that the interval excludes 1 (at 5 % over the
whole table). With fewer trials only --threshold and the calls per request can
judge. The trials of two records never ran in turn: on a noisy host put both
servers into one experiment.

Exit codes: 0 nothing got worse; 1 something did (without --threshold also: a
server does something else for each request); 2 no record; 3 nothing valid to
compare.";

/// Flags of `prony compare`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub struct CompareArgs {
    /// Record that `prony run` or `prony diagnose --out` wrote
    pub before: PathBuf,
    /// Record to hold against it
    pub after: PathBuf,
    /// Largest relative change for the worse that still passes
    #[arg(long, value_name = "SHARE", value_parser = typed::share)]
    pub threshold: Option<f64>,
    /// Counts of calls that differ by less are equal
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = typed::share)]
    pub tolerance: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const GATE_EXAMPLES: &str = "\
Examples:
  prony gate results/pull-request --threshold 5%
      fails when a level is certainly worse than the baseline by more than 5 %
  prony gate results/pull-request --json
      every number

A cell fails when its whole 95 % interval (rate, p99, CPU per request) lies
beyond the threshold, when it makes a system call more for each request, or
when its server does not run and the baseline's does. What the host cannot
tell is said, with the smallest effect that it could have seen, and is no
failure.

Exit codes: 0 passed or not decided; 1 failed; 2 no record or no baseline.";

/// Flags of `prony gate`.
#[derive(Debug, Args)]
#[command(after_help = GATE_EXAMPLES)]
pub struct GateArgs {
    /// Record of one `prony run` with a baseline
    pub record: PathBuf,
    /// Largest relative change for the worse that still passes
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = typed::share)]
    pub threshold: f64,
    /// Calls for each request may grow by this
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = typed::share)]
    pub tolerance: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  prony report results/proxy
      write report.html again and print the tables
  prony report results/proxy --format markdown
      tables and conclusion for a pull request or a wiki
  prony report results/proxy --out proxy.csv
      one row per trial and metric, for R or pandas
  prony report results
      an index of all records below it, results/index.html: each experiment
      over time, regressions marked
  prony report monday tuesday --format markdown
      the same for two records, as Markdown

The format follows from the ending of --out: html, md, csv, json or txt.";

/// Flags of `prony report`.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub struct ReportArgs {
    /// Directory that `prony run` wrote; several, or a directory of such directories, make an index
    #[arg(required = true, value_name = "DIR")]
    pub records: Vec<PathBuf>,
    /// Format of the result [default: text, and report.html in the record's directory]
    #[arg(long, value_enum)]
    pub format: Option<ReportFormat>,
    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON, as --format json does
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

const CHECK_EXAMPLES: &str = "\
Examples:
  prony check
      every setting, what matters most first
  prony check --for connection-per-request
      what matters to a workload with a new connection per request
  prony check --strict --json
      for a script: exit code 1 when something differs

Workloads: keep-alive, connection-per-request, large-bodies, proxy, latency.
It samples the host for a second, measures loopback for 0.2 s, and changes
nothing; `prony tune` applies the profile in the column `tune`.";

/// Flags of `prony check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// Only what matters to this workload
    #[arg(long = "for", value_name = "WORKLOAD")]
    pub workload: Option<String>,
    /// Exit code 1 when something differs from what is advised
    #[arg(long)]
    pub strict: bool,
    /// Directory that holds `proc` and `sys`
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const TUNE_EXAMPLES: &str = "\
Examples:
  prony tune show                    the profiles, and which one is applied
  prony tune show connection-rate    what it would change on this host
  prony tune apply connection-rate   apply it, until it is restored
  prony tune restore                 restore everything that was applied

With `[design] tune = \"connection-rate\"` in an experiment the run applies the
profile and restores the old values at its end. Every change is written to a
journal before it is made, with the old value.";

/// Flags of `prony tune`.
#[derive(Debug, Args)]
#[command(after_help = TUNE_EXAMPLES)]
pub struct TuneArgs {
    /// What to do with the profile.
    #[command(subcommand)]
    pub action: TuneAction,
    /// Directory that holds `proc` and `sys`
    #[arg(long, value_name = "DIR", hide = true, global = true)]
    pub root: Option<PathBuf>,
}

/// What `prony tune` does.
#[derive(Debug, Subcommand)]
pub enum TuneAction {
    /// Apply a profile; its settings stay until they are restored
    Apply(TuneApplyArgs),
    /// Compare a profile with this host; without one, list the profiles and what is applied
    Show(TuneShowArgs),
    /// Restore the old values, the last profile first
    Restore(TuneRestoreArgs),
}

/// Flags of `prony tune apply`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  prony tune apply throughput --dry-run    what it would set here"
)]
pub struct TuneApplyArgs {
    /// Name of a profile, or a file whose name ends in .toml
    pub profile: String,
    /// Show what would be set, set nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `prony tune show`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  prony tune show study-000    its settings beside the host's")]
pub struct TuneShowArgs {
    /// Name of a profile, or a file whose name ends in .toml
    pub profile: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `prony tune restore`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  prony tune restore connection-rate    the values before it was applied"
)]
pub struct TuneRestoreArgs {
    /// The profile; without one, every profile that is applied
    pub profile: Option<String>,
    /// Restore also what somebody else has changed since
    #[arg(long)]
    pub force: bool,
    /// Show what would be restored, change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const IMPORT_EXAMPLES: &str = "\
Formats: auto (by content), ab, wrk, wrk2, weighttp, h2load, oha, vegeta, k6,
fortio, hey, bombardier, dpdk-httpperf, trex, hdr (HdrHistogram log or spectrum),
strace (-c, and sizes counted by uniq -c), vmstat, mpstat, table (tables of
numbers in a text)
Formats that become a workload file for `prony load --workload`: har (a
browser's export), curl (command lines), openapi (OpenAPI 3 as JSON)

Examples:
  wrk --latency -c 100 http://h/ > wrk.txt
  prony import wrk wrk.txt --out before
      one result
  prony import auto study.md --out study
      every result in a text; headings name the cases
  prony import auto study.md --factor path --map 2=proxied --baseline direct
      the second result is the case `proxied` of the factor `path`
  prony import auto study.md --select 1 --out a
  prony compare a b
      the first result alone, compared with another record
  prony import wrk run1.txt run2.txt --name direct --name proxied
      two files, two cases
  prony import har shop.har --out shop.toml
  prony load --workload shop.toml http://127.0.0.1:8080/
      what a browser sent, as a session; docs/workloads.md

A figure is imported as it was printed or not at all: what a tool does not say
is absent, never zero. A result that ends early or contradicts itself is left
out, with its lines and the reason.";

/// Flags of `prony import`.
#[derive(Debug, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArgs {
    /// The tool that printed it, or `auto`
    pub format: String,
    /// Files with its output, `-` for standard input; text around it does no harm
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Directory for the record [default: results/NAME-TIME], or the workload file [default: standard output]
    #[arg(short, long, value_name = "DIR|FILE")]
    pub out: Option<PathBuf>,
    /// Keep credentials in a workload file
    #[arg(long)]
    pub secrets: bool,
    /// Host of a HAR whose requests become the workload [default: that of the first page]; repeatable
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// A level of all results
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = pair)]
    pub level: Vec<(String, String)>,
    /// Rename a case, given by its name or by a result's number; cases of one name become one
    #[arg(long, value_name = "CASE=NAME", value_parser = pair)]
    pub map: Vec<(String, String)>,
    /// Name of the first result's case, then of the second's, ...
    #[arg(long, value_name = "CASE")]
    pub name: Vec<String>,
    /// Factor that the cases are levels of [default: case]
    #[arg(long, value_name = "NAME")]
    pub factor: Option<String>,
    /// Case to compare with [default: the first]
    #[arg(long, value_name = "CASE")]
    pub baseline: Option<String>,
    /// Import only the results with these numbers
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    pub select: Vec<u32>,
    /// Question that the record is to answer
    #[arg(long, value_name = "TEXT")]
    pub question: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  prony completions bash    for /usr/share/bash-completion/completions/prony
  prony completions zsh     for _prony in a directory of $fpath
  prony completions fish    for ~/.config/fish/completions/prony.fish";

/// Flags of `prony completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  prony man load                  the page of a verb, as roff
  prony man tune apply            that of a verb's verb
  prony man --all --out man1      every page, as prony-load.1 and so on";

/// Flags of `prony man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// The verb; without one, prony itself
    pub verb: Vec<String>,
    /// Write every page
    #[arg(long, requires = "out", conflicts_with = "verb")]
    pub all: bool,
    /// Directory that the pages are written to; it is made when it is missing
    #[arg(long, value_name = "DIR", requires = "all")]
    pub out: Option<PathBuf>,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One file with all plots, which needs no network
    Html,
    /// Tables and conclusion, with links to the page and to the record
    #[value(alias = "md")]
    Markdown,
    /// One row for each trial and metric
    Csv,
    /// Every number
    Json,
    /// Tables for a terminal
    Text,
}

impl ReportArgs {
    /// The form that was asked for, or that the name of the output file tells.
    pub fn form(&self) -> Option<ReportFormat> {
        let by_name = || match self.out.as_ref()?.extension()?.to_str()? {
            "html" | "htm" => Some(ReportFormat::Html),
            "md" | "markdown" => Some(ReportFormat::Markdown),
            "csv" => Some(ReportFormat::Csv),
            "json" => Some(ReportFormat::Json),
            _ => None,
        };
        let json = self.json.then_some(ReportFormat::Json);
        self.format.or(json).or_else(by_name)
    }
}

/// A list of CPUs. A newtype, because clap reads a bare `Vec` as a repeated flag.
#[derive(Clone, Debug)]
pub struct Cpus(pub Vec<u32>);

/// A list of source addresses, likewise.
#[derive(Clone, Debug)]
pub struct Sources(pub Vec<IpAddr>);

fn cpus(text: &str) -> Result<Cpus, Misfit> {
    typed::cpus(text).map(Cpus)
}

fn address_range(text: &str) -> Result<AddressRange, String> {
    text.parse().map_err(|e: BadRange| e.to_string())
}

fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|e: BadRange| e.to_string())
}

fn gateways(text: &str) -> Result<Sources, Misfit> {
    typed::gateways(text).map(Sources)
}

fn sources(text: &str) -> Result<Sources, Misfit> {
    typed::sources(text).map(Sources)
}

fn duration(text: &str) -> Result<Nanos, Misfit> {
    typed::duration(text)
}

fn speed(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok();
    let known = factor.filter(|n: &f64| (1e-6..=1e6).contains(n));
    known.ok_or_else(|| "must be a number from 0.000001 to 1000000, such as 10 or 0.5".to_owned())
}

fn duration_above_zero(text: &str) -> Result<Nanos, Misfit> {
    typed::duration_above_zero(text)
}

fn count(text: &str) -> Result<u64, Misfit> {
    typed::count(text, 0)
}

fn count_u32(text: &str) -> Result<u32, Misfit> {
    typed::count32(text, 1)
}

/// A device of the laboratory.
fn lab_device(text: &str) -> Result<Carrier, String> {
    match typed::transport(text) {
        Ok(device @ (Carrier::Tap | Carrier::AfXdp | Carrier::AfPacket)) => Ok(device),
        _ => Err("must be tap, af_xdp or af_packet".to_owned()),
    }
}

/// A share needs stages that measure what it is a share of.
fn rate(text: &str) -> Result<Course, String> {
    match typed::course(text).map_err(|e| e.to_string())? {
        Course::Steady(Rate::OfCapacity(_)) => Err(
            "must be requests per second: a share of the capacity needs an experiment (`prony run`)"
                .to_owned(),
        ),
        course => Ok(course),
    }
}

/// That of a rate which changes is known with the length of the load.
fn mean_per_s(course: &Course) -> f64 {
    match course {
        Course::Steady(Rate::PerSecond(per_s) | Rate::OfCapacity(per_s)) => *per_s,
        Course::Changing(pieces) => pieces.peak_per_s(),
    }
}

fn arrival(text: &str) -> Result<Process, String> {
    match typed::process(text).map_err(|e| e.to_string())? {
        Process::Closed => Err("`closed` is a load without --rate".to_owned()),
        process => Ok(process),
    }
}

fn overhead(text: &str) -> Result<f64, String> {
    let share = typed::percent(text).or_else(|| text.trim().parse().ok());
    match share {
        Some(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!(
            "`{text}` is not a share of the host's CPU such as 1% or 0.01"
        )),
    }
}

fn half_width(text: &str) -> Result<f64, String> {
    plan::parse_half_width(text)
        .ok_or_else(|| format!("`{text}` is not a precision such as ±1% or 0.01"))
}

/// `FACTOR=LEVEL`; what stands behind the first sign of equality is the level.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!(
            "`{text}` is not NAME=VALUE, for example path=direct"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(args: &[&str]) -> LoadSpec {
        let args = ["prony", "load"].iter().chain(args);
        match Cli::try_parse_from(args).unwrap().verb {
            Verb::Load(load) => load.spec(),
            other => panic!("not a load: {other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    /// Flags of a load that are no key of `[load]`, and why.
    const ELSEWHERE: [(&str, &str); 19] = [
        ("hosts_file", "an experiment has [host.NAME] of its own"),
        (
            "fleet",
            "which agents wait there is no part of an experiment",
        ),
        ("agents", "of `fleet`"),
        ("nats_creds", "likewise"),
        ("nats_ca", "likewise"),
        ("nats_cert", "likewise"),
        ("nats_key", "likewise"),
        ("nats_plain", "likewise"),
        ("workload", "an experiment varies one request"),
        (
            "arrivals",
            "the file says how long a load is, and trials are as long as `measure`",
        ),
        ("replay", "likewise, and one request is varied"),
        ("replay_unsafe", "of `replay`"),
        ("speed", "of `arrivals` and `replay`"),
        (
            "duration",
            "`measure` in [design]: all trials of a stage are equally long",
        ),
        (
            "requests",
            "likewise: a trial ends after `measure`, not after a number",
        ),
        ("warmup", "`warmup` in [design]"),
        (
            "error_limit",
            "`errors` in [design]: one limit for the whole run",
        ),
        (
            "seed",
            "`seed` at the top, from which every trial draws its own",
        ),
        ("latency", "says nothing: percentiles are always printed"),
    ];
    /// What is about the command and not about its load.
    const OF_THE_COMMAND: [&str; 10] = [
        "json",
        "out",
        "slo",
        "quiet",
        "help",
        "version",
        "find_max",
        "find_knee",
        "budget",
        "dry_run",
    ];

    #[test]
    fn a_file_takes_what_the_command_line_takes_and_back() {
        use clap::CommandFactory;
        use std::collections::BTreeSet;
        let command = Cli::command();
        let load = command.find_subcommand("load").unwrap();
        let flags: BTreeSet<&str> = load
            .get_arguments()
            .map(|a| a.get_id().as_str())
            .filter(|id| !OF_THE_COMMAND.contains(id))
            .collect();
        let elsewhere = BTreeSet::from(ELSEWHERE.map(|(flag, _)| flag));
        assert!(flags.is_superset(&elsewhere), "an exception for no flag");
        let same: BTreeSet<&str> = &flags - &elsewhere;
        assert_eq!(same, BTreeSet::from(plan::LOAD_FIELDS));
    }

    /// `[load]` of an experiment on an outside address.
    fn file(load: &str) -> Result<LoadSpec, String> {
        let url = match load.contains("url =") {
            true => "",
            false => "url = \"http://h/\"\n",
        };
        let text = format!("question = \"?\"\n[load]\n{url}{load}\n");
        let none = |_: &str| Err("no file".to_owned());
        let plan = plan::Plan::parse(&text, "f", &none).map_err(|e| e.to_string())?;
        Ok(plan.trials[0].load.clone())
    }

    #[test]
    fn a_value_means_the_same_on_the_command_line_and_in_a_file() {
        for (flags, key) in [
            ("-c 1.5k", "connections = \"1.5k\""),
            ("-t 2", "threads = 2"),
            ("-R 0.5", "rate = 0.5"),
            ("-R 20k", "rate = \"20k\""),
            ("-R 1e3", "rate = 1e3"),
            ("-R 1k..5k", "rate = \"1k..5k\""),
            ("--requests-per-connection 0", "requests_per_connection = 0"),
            ("--requests-per-connection 1", "requests_per_connection = 1"),
            ("--precision spin", "precision = \"spin\""),
            ("--close rst", "close = \"rst\""),
            ("--pipeline 4", "pipeline = 4"),
            ("--http 2", "http = \"2\""),
            ("--http 1.1", "http = 1.1"),
            ("--streams 8", "streams = 8"),
            ("--ws-binary", "ws_binary = true"),
            ("--sse", "sse = true"),
            ("--engine epoll", "engine = \"epoll\""),
            ("--transport af_xdp", "transport = \"af_xdp\""),
            ("--interface tap0", "interface = \"tap0\""),
            ("--coalesce 20us", "coalesce = \"20us\""),
            ("--gateway 10.9.0.1", "gateway = \"10.9.0.1\""),
            (
                "--source 127.0.0.2-127.0.0.9",
                "source = \"127.0.0.2-127.0.0.9\"",
            ),
            (
                "--source 127.0.1.0/28,::1",
                "source = [\"127.0.1.0/28\", \"::1\"]",
            ),
            ("--cpus 5,0-2", "cpus = \"5,0-2\""),
            ("--cpus 5,0-2", "cpus = [5, \"0-2\"]"),
            ("--timeout 1.5", "timeout = 1.5"),
            ("--timeout 500ms", "timeout = \"500ms\""),
            ("-m PROPFIND", "method = \"PROPFIND\""),
            (
                "-H Accept:text/html",
                "headers = { Accept = \"text/html\" }",
            ),
            ("--body @f", "body = \"@f\""),
            ("--body text", "body = \"text\""),
            ("--body-file f", "body_file = \"f\""),
            ("--insecure", "insecure = true"),
            ("--no-resumption", "no_resumption = true"),
            ("--cacert ca", "cacert = \"ca\""),
            ("--cert c --key k", "cert = \"c\"\nkey = \"k\""),
            ("--sni name", "sni = \"name\""),
            ("--connect-to [::1]:80", "connect_to = \"[::1]:80\""),
            ("--unix /run/a.sock", "unix = \"/run/a.sock\""),
            (
                "--proxy http://[::1]:3128/ --proxy-user a:b",
                "proxy = \"[::1]:3128\"\nproxy_user = \"a:b\"",
            ),
            ("--limit-rate 256KiB", "limit_rate = \"256KiB\""),
            ("--limit-rate 1MB/s", "limit_rate = 1_000_000"),
        ] {
            let args: Vec<&str> = flags.split(' ').chain(["http://h/"]).collect();
            let typed = LoadSpec {
                warmup: Nanos::SECOND,
                ..load(&args)
            };
            assert_eq!(file(key), Ok(typed), "{flags} | {key}");
        }
        assert_eq!(file("url = \"h:80/x\"").unwrap().url, load(&["h:80/x"]).url);
    }

    #[test]
    fn a_bad_value_is_refused_in_the_same_words() {
        for (flag, key) in [
            ("--connections=0", "connections = 0"),
            ("--connections=1.5", "connections = 1.5"),
            ("--connections=-1", "connections = -1"),
            ("--connections=5 lots", "connections = \"5 lots\""),
            ("--connections=9G", "connections = \"9G\""),
            ("--threads=0", "threads = 0"),
            ("--pipeline=0", "pipeline = 0"),
            ("--streams=0", "streams = 0"),
            ("--http=3", "http = \"3\""),
            ("--http=spdy", "http = \"spdy\""),
            (
                "--requests-per-connection=x",
                "requests_per_connection = \"x\"",
            ),
            ("--rate=0", "rate = 0"),
            ("--rate=nan", "rate = nan"),
            ("--rate=fast", "rate = \"fast\""),
            ("--rate=1x", "rate = \"1x\""),
            ("--rate=1k,2k", "rate = \"1k,2k\""),
            ("--timeout=0s", "timeout = \"0s\""),
            ("--timeout=soon", "timeout = \"soon\""),
            ("--timeout=3 weeks", "timeout = \"3 weeks\""),
            ("--source=here", "source = \"here\""),
            ("--gateway=here", "gateway = \"here\""),
            ("--source=10.0.0.0/0", "source = [\"10.0.0.0/0\"]"),
            ("--cpus=4-2", "cpus = \"4-2\""),
            ("--method=GET /", "method = \"GET /\""),
            ("--header=A b: c", "headers = { \"A b\" = \"c\" }"),
            ("--close=rts", "close = \"rts\""),
            ("--engine=epol", "engine = \"epol\""),
            ("--transport=tab", "transport = \"tab\""),
            ("--interface=eth 0", "interface = \"eth 0\""),
        ] {
            let line = ["prony", "load", "http://h/", flag];
            let typed = Cli::try_parse_from(line).unwrap_err().to_string();
            let words = typed
                .find("must be ")
                .or_else(|| typed.find("unknown value"))
                .map(|at| typed[at..].lines().next().unwrap_or_default());
            let words = words.unwrap_or_else(|| panic!("{flag}: {typed}"));
            let in_file = file(key).unwrap_err();
            assert!(in_file.contains(words), "{flag}: {words} | {in_file}");
        }
    }

    #[test]
    fn every_help_has_an_example_and_fits_eighty_columns() {
        use clap::CommandFactory;
        fn check(command: &mut clap::Command) {
            let help = command.render_help().to_string();
            let name = command.get_name().to_owned();
            if name == "help" {
                return;
            }
            assert!(help.contains("Example"), "{name}");
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            command.get_subcommands_mut().for_each(check);
        }
        let mut command = Cli::command();
        command.build();
        check(&mut command);
    }

    #[test]
    fn wrk_habits_are_understood() {
        let spec = load(&["-t2", "-c64", "-d30s", "--latency", "http://h/"]);
        assert_eq!((spec.connections, spec.threads), (64, Some(2)));
        assert_eq!(spec.duration, Some(Nanos::from_secs(30)));
        assert_eq!(load(&["-z", "5s", "h:80/x"]).url, "http://h:80/x");
        assert_eq!(
            load(&["-R", "20k", "http://h/"]).arrival,
            Arrival::Constant { per_s: 20_000.0 }
        );
        assert_eq!(
            load(&["-R", "0.5", "http://h/"]).arrival,
            Arrival::Constant { per_s: 0.5 }
        );
        for bad in ["-1", "nan", "inf", "1x"] {
            let rate = format!("--rate={bad}");
            assert!(Cli::try_parse_from(["prony", "load", &rate, "http://h/"]).is_err());
        }
        let counted = load(&["-n", "10k", "http://h/"]);
        assert_eq!((counted.requests, counted.duration), (Some(10_000), None));
    }

    #[test]
    fn bodies_and_headers() {
        let spec = load(&["-H", "A: b:c", "--body", "@f", "http://h/"]);
        assert_eq!(spec.headers, [("A".to_owned(), "b:c".to_owned())]);
        assert_eq!(spec.body, Body::File("f".to_owned()));
    }

    #[test]
    fn a_near_miss_is_suggested() {
        let error =
            Cli::try_parse_from(["prony", "load", "--conections", "3", "http://h/"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--connections"));
    }
}
