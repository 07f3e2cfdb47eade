//! What was learned of a server beside its timing: who it is, what it does for each request, where its time goes.
//!
//! The timing pass carries only monitors that cost next to nothing. The *signature pass* is a short load of a
//! fixed number of requests with every probe armed; its results are counts and sizes, which do not depend
//! on how slow the probes make the server. No rate and no latency of a signature pass is stored here.

use crate::{LoadOutcome, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was examined in one trial beside its timed load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Examination {
    /// Who serves, by target.
    #[serde(default)]
    pub servers: Vec<Server>,
    /// The container that was named, and the way into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerPath>,
    /// One answer of the URL, as a single client got it.
    #[serde(default)]
    pub answer: Option<Answer>,
    /// A short load over one connection with one request at a time: the response time without queueing.
    #[serde(default)]
    #[serde(alias = "lone")]
    pub single_client: Option<LoadOutcome>,
    /// Counts and sizes per request, from the signature pass.
    #[serde(default)]
    pub signature: Option<Signature>,
    /// Where requests spent their time, from a trace of sockets and threads; `None` when it was not taken.
    #[serde(default)]
    pub turns: Option<crate::Turns>,
    /// The traffic that was there, when it was watched in place of a load of our own.
    #[serde(default)]
    pub watching: Option<crate::Watching>,
    /// The load until runtimes compiled little, before anything was measured; `None` where none compiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warming: Option<Warming>,
    /// Runtimes below the servers, and what they told of themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runtimes: Vec<AskedRuntime>,
    /// What the timing pass' own monitors took.
    #[serde(default)]
    pub monitor_cost: Vec<ProbeCost>,
    /// Stacks: on-CPU from the timing pass, off-CPU from the signature pass. Stored in a file of their own.
    #[serde(skip)]
    pub profiles: Vec<Profile>,
}

/// How servers whose runtimes compile what they run were made warm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warming {
    /// How long they were loaded for that, ns.
    pub loaded_ns: u64,
    /// What compiling took of their CPU time in the last second of it.
    pub compiling_share: f64,
}

/// A container, and how connections come into it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerPath {
    /// Command of the engine that knows it: `podman`, `docker`, `nerdctl`.
    pub engine: String,
    pub name: String,
    /// As the engine numbers it.
    pub id: String,
    /// Main process, as this host numbers it.
    pub pid: i32,
    /// `address:port` that was loaded; empty without a load.
    pub published: String,
    /// Port in the container that it leads to; 0 without a load.
    pub inside: u16,
    pub forwarding: Forwarding,
    /// Target of the program that copies connections; empty where none is known to.
    pub forwarder: String,
    /// The same load without the way through the published port; `None` where there is no other way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct: Option<DirectPath>,
}

/// Loads over the published port and straight to the container, in turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectPath {
    /// `address:port` in the container.
    pub address: String,
    /// It is not reached from this host: the load ran in the container's network namespace, over its loopback.
    pub within: bool,
    /// One after the other, which of both first alternates.
    pub pairs: Vec<PathPair>,
}

/// One load each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathPair {
    pub published: PathFigures,
    pub direct: PathFigures,
}

/// What came of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathFigures {
    /// Successful responses, 1/s.
    pub rate_per_s: f64,
    /// Median response time, ns.
    pub response_ns_p50: u64,
}

/// What stands between a published port and its container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// It was not seen.
    #[default]
    Unknown,
    /// Nothing: the container has the host's network, or its own address was asked.
    None,
    /// The kernel, which rewrites the addresses of packets (DNAT).
    Kernel,
    /// A program, which copies every byte.
    Program,
}

/// A runtime that can say what its own code does: it answered a question, or its memory was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AskedRuntime {
    /// Target's name.
    pub target: String,
    pub pid: i32,
    /// `jvm`, `cpython`, `php`, `perl`, `ruby`.
    pub runtime: String,
    /// What it was asked for, how often: `Thread.print`, `Compiler.perfmap`; `memory` is read without asking.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub asked: BTreeMap<String, u64>,
    /// The longest that one answer took, ns; a thread dump stops all threads for nearly all of it.
    #[serde(default)]
    pub longest_ns: u64,
    /// The lock that only one thread of an interpreter has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<InterpreterLock>,
    /// What it did not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<Unavailable>,
}

/// The lock of an interpreter, looked at through a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterpreterLock {
    /// How often it was looked at.
    pub looks: u64,
    /// Share of these in which a thread had it.
    pub held_share: f64,
    /// How often it went to another thread, 1/s.
    pub switches_per_s: f64,
    /// Threads that waited for it, mean.
    pub waiting: f64,
}

/// A server program behind a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Target's name: `server` for the one behind the URL, `upstream-PORT` for those behind it.
    pub target: String,
    /// `nginx`, `haproxy`, `apache`, `lighttpd`, `varnish`, `squid`, `caddy`, `traefik`, `envoy`, `h2o`, `tomcat`,
    /// `node`, `go`, `python`, `java`, `php-fpm`, `ruby`, `docker-proxy`, `rootlessport`,
    /// `slirp4netns`, `pasta`, `prony`, or `generic`.
    pub kind: String,
    /// As it states it; empty when it does not.
    pub version: String,
    pub exe: String,
    /// Command line of its main process.
    pub command: Vec<String>,
    /// Main process.
    pub main_pid: i32,
    pub processes: Vec<ServerProcess>,
    /// Addresses that it listens on.
    pub listens: Vec<String>,
    /// Peers that it connects to, with the target behind each where that is on this host.
    pub upstreams: Vec<UpstreamPeer>,
    /// Effective configuration, as far as it could be read, in the order in which the server reads it.
    pub directives: Vec<Directive>,
    /// Files that the configuration was read from.
    pub config_files: Vec<String>,
    /// Versions of its program and of the libraries that it has mapped; empty in records of before they were noted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionFact>,
    /// What could not be learned.
    pub unavailable: Vec<Unavailable>,
}

/// The version of a program or library of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionFact {
    /// File name of a library; `program`; the server's kind for what it states of itself.
    pub name: String,
    pub path: String,
    /// Empty when it is not visible.
    pub version: String,
    /// ELF build id, hex; empty when there is none.
    pub build_id: String,
    /// Who says the version: `package libssl3`, `as it states it`.
    pub source: String,
    /// Why something of it is not visible; empty where all is.
    pub reason: String,
}

/// Role of a process of another program that takes from a server what its clients bring, and brings what they wait for.
pub const CONSUMER: &str = "consumer";

/// A process of a server, with what does not change while it is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerProcess {
    /// Process id.
    pub pid: i32,
    pub parent: i32,
    /// `main`, `worker`, `helper`, or [`CONSUMER`].
    pub role: String,
    /// Name as the kernel shows it.
    pub name: String,
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// Nice value; 0 is normal.
    pub nice: i32,
    /// Soft limit of open files.
    pub open_files_limit: Option<u64>,
    /// Its cgroup: the path in each hierarchy, as `/proc/PID/cgroup` shows it.
    pub cgroups: Vec<String>,
    /// Allocator in use: `glibc`, `jemalloc`, `tcmalloc`, `mimalloc`, `musl`, `own`.
    pub allocator: String,
}

/// A peer that a server connects to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamPeer {
    /// `address:port`, or a path for a Unix socket.
    pub address: String,
    /// Established connections when it was looked at.
    pub connections: u64,
    /// Target's name when the peer's processes are on this host and were found.
    pub target: Option<String>,
}

impl Examination {
    /// The target that listens at an address, by whichever server was seen connected to it: `address:port`, or
    /// the path of a Unix socket, with `unix:` before it or not. Of a pool behind sockets of one directory, one that
    /// was begun later is that of the others.
    pub fn target_at(&self, address: &str) -> Option<&str> {
        let bare = address.strip_prefix("unix:").unwrap_or(address);
        let peers = || {
            let all = self.servers.iter().flat_map(|s| &s.upstreams);
            all.filter_map(|peer| Some((peer.address.as_str(), peer.target.as_deref()?)))
        };
        if let Some((_, target)) = peers().find(|(at, _)| *at == bare) {
            return Some(target);
        }
        // At the moment at which connections were looked up its own may have been new.
        let own = |server: &&Server| server.listens.iter().any(|at| at == bare);
        if let Some(server) = self.servers.iter().find(own) {
            return Some(&server.target);
        }
        let (directory, _) = bare.rsplit_once('/')?;
        let is_near = |at: &str| {
            at.rsplit_once('/')
                .is_some_and(|(near, _)| near == directory)
        };
        let mut near = peers()
            .filter(|(at, _)| is_near(at))
            .map(|(_, target)| target);
        let first = near.next()?;
        near.all(|target| target == first).then_some(first)
    }
}

/// One directive of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directive {
    /// Name, as the server spells it: `proxy_buffers`, `maxconn`, `KeepAlive`, `maxThreads`.
    pub name: String,
    /// Arguments, unquoted.
    pub args: Vec<String>,
    /// Enclosing sections, outermost first: `http`, `server`, `location /`.
    pub context: Vec<String>,
    /// File that it stands in; empty for the command line.
    pub file: String,
    /// Line, from 1; 0 for the command line.
    pub line: u32,
}

/// One answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    /// `HTTP/1.1`.
    pub version: String,
    /// Header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body as they came over the wire, without chunk framing.
    pub body_bytes: u64,
}

/// What the probes could use.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// /proc and sock_diag only.
    #[default]
    Proc,
    /// Counters on tracepoints with filters in the kernel, no BPF.
    PerfEvents,
    /// BPF programs.
    Ebpf,
}

impl Tier {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Proc => "proc",
            Tier::PerfEvents => "perf_events",
            Tier::Ebpf => "ebpf",
        }
    }
}

/// Counts and sizes of a fixed number of requests. Everything in it is a total over the pass: divide by `requests`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// Best tier that was in use.
    pub tier: Tier,
    /// Requests completed while the probes were armed; the divisor of everything.
    pub requests: u64,
    /// Requests that got no whole answer meanwhile.
    pub failed: u64,
    /// Connections that the load opened meanwhile.
    pub connections_opened: u64,
    /// Connections of the load.
    pub connections: u32,
    /// Length of the armed window, ns: only for shares of time, never for a rate.
    pub window_ns: u64,
    /// Events that the probes lost; counts are too low when this is not 0.
    pub lost: u64,
    pub targets: Vec<TargetSignature>,
    /// What could not be probed.
    pub unavailable: Vec<Unavailable>,
    /// What each probe took.
    pub cost: Vec<ProbeCost>,
}

/// What one target did in the signature pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetSignature {
    /// Target's name.
    pub target: String,
    /// Requests that it took from its clients: turns from reading to writing on their connections. A TLS handshake
    /// counts as up to two, pipelined requests as one. `None` when turns were not seen.
    #[serde(default)]
    pub requests_taken: Option<u64>,
    /// System calls by number and by what the descriptor led to; `None` when they could not be counted.
    pub calls: Option<Vec<CallStats>>,
    /// Files by name: opens, look-ups, reads, writes.
    pub files: Option<Vec<FileStats>>,
    /// Time off the CPU by reason.
    pub blocked: Option<Vec<Blocked>>,
    /// TCP by connection class.
    pub sockets: Option<Vec<SocketStats>>,
    /// By upstream peer.
    pub upstreams: Option<Vec<UpstreamStats>>,
    /// Answers by which upstreams refused what they were asked, most frequent first; `None` when nobody looked.
    #[serde(default)]
    pub refusals: Option<Vec<Refusal>>,
    /// First bytes of requests and answers as the server wrote and read them, parsed.
    pub heads: Option<Vec<HeadSeen>>,
    /// Calls of the allocator in use.
    pub allocator: Option<AllocatorStats>,
    /// Minor page faults.
    pub minor_faults: Option<u64>,
    /// Major page faults.
    pub major_faults: Option<u64>,
    /// CPU time in user mode, ns; under probes, so only for shares.
    pub cpu_user_ns: Option<u64>,
    /// CPU time in the kernel, ns.
    pub cpu_system_ns: Option<u64>,
    /// Processes and threads started.
    pub forks: Option<u64>,
    /// Programs executed.
    pub execs: Option<u64>,
}

/// What a file descriptor leads to.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FdClass {
    /// The call has no descriptor.
    None,
    /// TCP socket whose local port is one that the target listens on.
    Client,
    /// TCP socket that the target connected.
    Upstream,
    /// Listening TCP socket.
    Listener,
    /// UDP socket.
    Udp,
    /// Unix socket.
    Unix,
    /// Regular file.
    File,
    Pipe,
    /// epoll, eventfd, timerfd, signalfd, inotify.
    Poll,
    /// Directory, device, anything else.
    Other,
    /// The probe could not tell.
    #[default]
    Unknown,
}

impl FdClass {
    /// All of them, in order.
    pub const ALL: [FdClass; 11] = [
        FdClass::None,
        FdClass::Client,
        FdClass::Upstream,
        FdClass::Listener,
        FdClass::Udp,
        FdClass::Unix,
        FdClass::File,
        FdClass::Pipe,
        FdClass::Poll,
        FdClass::Other,
        FdClass::Unknown,
    ];

    /// Name in facts and tables.
    pub const fn name(self) -> &'static str {
        match self {
            FdClass::None => "none",
            FdClass::Client => "client",
            FdClass::Upstream => "upstream",
            FdClass::Listener => "listener",
            FdClass::Udp => "udp",
            FdClass::Unix => "unix",
            FdClass::File => "file",
            FdClass::Pipe => "pipe",
            FdClass::Poll => "poll",
            FdClass::Other => "other",
            FdClass::Unknown => "unknown",
        }
    }
}

/// One system call on one class of descriptors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallStats {
    /// Name: `readv`.
    pub call: String,
    /// What its descriptor led to.
    pub class: FdClass,
    pub calls: u64,
    /// Failures by errno's name: `EAGAIN`.
    pub errors: BTreeMap<String, u64>,
    /// Time between entry and exit, blocking included, ns; `None` when it was not taken.
    pub time_ns: Option<u64>,
    /// Bytes that calls returned, for calls that return a size.
    pub bytes: u64,
    /// Bytes that those calls asked for (buffer or message length); 0 when not known.
    pub asked_bytes: u64,
    /// Calls that returned exactly what they asked for.
    pub full: u64,
    /// Calls that returned more than 0 but less than they asked for.
    pub partial: u64,
    /// Calls that returned 0 (end of file).
    pub zero: u64,
    /// Calls by size: `[i]` counts returns of `2^i` to `2^(i+1) - 1` bytes; empty when not taken.
    pub sizes: Vec<u64>,
    /// The most frequent exact sizes with their counts, most frequent first; at most 16.
    pub top_sizes: Vec<(u64, u64)>,
}

/// What was done with one file name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileStats {
    /// Path as given to the call, or the last component for reads and writes; cut at 96 bytes.
    pub name: String,
    /// Opens that succeeded.
    pub opens: u64,
    /// Opens and look-ups that failed because there is no such file.
    pub missing: u64,
    /// `stat` and its kin, `access`.
    pub stats: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    /// `fsync` and `fdatasync`.
    pub syncs: u64,
    /// It is written with `O_APPEND`, as logs are.
    pub append: bool,
    /// It is open with `O_SYNC` or `O_DSYNC`.
    pub synced: bool,
}

/// Why a thread was off the CPU.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitState {
    /// Waiting for an event (`TASK_INTERRUPTIBLE`).
    Sleeping,
    /// Waiting for a device or a page (`TASK_UNINTERRUPTIBLE`).
    Disk,
    /// Ready, waiting for a CPU: preempted.
    Runnable,
}

/// Time off the CPU for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blocked {
    /// System call that it was in; empty outside any (page fault, preemption).
    pub call: String,
    /// What that call's descriptor led to.
    pub class: FdClass,
    pub state: WaitState,
    pub waits: u64,
    /// Time in them, ns.
    pub total_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
    /// Waits by length: `[i]` counts `2^i` to `2^(i+1) - 1` microseconds; `[0]` holds the shorter ones too.
    pub lengths: Vec<u64>,
}

/// TCP events of one class of connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketStats {
    /// `client` or `upstream`.
    pub class: FdClass,
    /// Connections that reached ESTABLISHED.
    pub established: u64,
    /// This side sent the first FIN.
    pub closed_by_us: u64,
    /// The peer sent the first FIN.
    pub closed_by_peer: u64,
    pub resets_sent: u64,
    /// Of these, on connections on which this side had sent nothing: checks whether a port is open.
    #[serde(default)]
    pub resets_unused: u64,
    pub resets_received: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connection attempts that failed, by errno's name.
    pub connect_errors: BTreeMap<String, u64>,
}

/// One upstream peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpstreamStats {
    /// `address:port`.
    pub address: String,
    pub connects: u64,
    /// Connects that failed, by errno's name (`EINPROGRESS` is not a failure).
    pub connect_errors: BTreeMap<String, u64>,
    /// Requests: turns from writing to reading.
    pub requests: u64,
    /// Time from the last write to the first read that brought data, ns, over all turns.
    pub wait_ns: u64,
    /// Turns by that time: `[i]` counts `2^i` to `2^(i+1) - 1` microseconds.
    pub waits: Vec<u64>,
    /// Time from the last write to the arrival of the first data in the socket, ns, over the turns in `answered`: the
    /// peer's own part of `wait_ns`. The rest is the target's, which was late to read. `None` when arrivals were not
    /// seen.
    #[serde(default)]
    pub answered_ns: Option<u64>,
    /// Turns whose arrival was seen, by that time: `[i]` counts `2^i` to `2^(i+1) - 1` microseconds; `[0]` holds the
    /// shorter ones too.
    #[serde(default)]
    pub answered: Vec<u64>,
    pub written_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// What it was asked, those first that were waited for longest; estimates from some of its turns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Question>,
}

/// What an upstream is asked again and again: its words without values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// `PostgreSQL`, `MySQL`, `Redis`, `memcached`, `MongoDB`, `FastCGI`, `HTTP`, `LDAP`; empty where it was none of
    /// these.
    pub protocol: String,
    /// `SELECT name FROM orders WHERE customer = ?`, `GET user:?`, `GET /price/?`; `*` stands for words that differ.
    /// Empty for all others together.
    pub text: String,
    /// Turns that were looked at.
    pub seen: u64,
    /// Turns that they stand for.
    pub turns: u64,
    /// Time until the first data of the answer was read, ns, over `turns`.
    pub wait_ns: u64,
    /// Of `turns`, those whose answer told how much was found.
    pub told: u64,
    /// Of `told`, those that found nothing: a miss in a cache, no row.
    pub empty: u64,
    /// Rows or values that the answers in `told` held.
    pub rows: u64,
}

impl Question {
    /// How `text` ends of a question that nothing answers: what was waited for is the next one on its connection.
    pub const UNANSWERED: &str = " noreply, and the next";
}

/// An answer that says no, in a protocol that has such: PostgreSQL's `ErrorResponse`, MySQL's `ERR_Packet`, Redis'
/// `-ERR`, memcached's `SERVER_ERROR`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// `PostgreSQL`, `MySQL`, `Redis`, `memcached`.
    pub protocol: String,
    /// SQLSTATE, MySQL's number, Redis' word, or the first letters of memcached's reason; empty where it was not seen.
    pub code: String,
    /// How many there were.
    pub answers: u64,
}

/// A request or status line with what matters of its head, as seen in a server's own buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadSeen {
    /// Connection class: what the target wrote to an upstream is a request.
    pub class: FdClass,
    /// `request` or `response`.
    pub kind: String,
    /// `HTTP/1.0`, `HTTP/1.1`.
    pub version: String,
    /// Method, or status.
    pub what: String,
    /// Values of `connection`, `transfer-encoding`, `content-encoding`, `accept-encoding`, `content-length`,
    /// `cache-control`, `vary`, where present; of `set-cookie`, `cookie`, `authorization`, `expires`, `last-modified`
    /// and `etag` only `present`.
    pub headers: BTreeMap<String, String>,
    /// Its end was not seen: what a program wrote in pieces, or more than is looked at. What it lacks is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// How often a head with these values was seen among those that were looked at.
    pub seen: u64,
}

impl HeadSeen {
    /// Whether it is known if it has this field.
    pub fn tells(&self, field: &str) -> bool {
        !self.cut || self.headers.contains_key(field)
    }

    /// Whether it asks for the end of its connection, or announces it (RFC 9112 9.3).
    pub fn closes(&self) -> bool {
        let says = |word: &str| {
            let connection = self.headers.get("connection");
            connection.is_some_and(|v| v.to_ascii_lowercase().contains(word))
        };
        says("close") || self.version == "HTTP/1.0" && !says("keep-alive")
    }
}

/// Calls of the allocator, counted where they enter it from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocatorStats {
    /// `glibc`, `jemalloc`, ...
    pub allocator: String,
    /// Library that holds it.
    pub library: String,
    /// `malloc`, `calloc`, `realloc`, `posix_memalign`, `aligned_alloc`, `free`: calls.
    pub calls: BTreeMap<String, u64>,
}

/// What a probe or monitor took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Its name: `syscalls`, `profile`, `proc`.
    pub probe: String,
    /// Events that it handled.
    pub events: u64,
    /// CPU time expected beforehand: event rate x cost of an event, as a share of one core (for a profile: of a core
    /// that the target fills); `None` when not computed.
    pub expected_share: Option<f64>,
    /// CPU time that it took by its own account, ns; `None` when it keeps none.
    pub measured_ns: Option<u64>,
}

/// What a profile's weights count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Samples while on a CPU.
    OnCpu,
    /// Nanoseconds off the CPU.
    OffCpu,
    /// Times that a task of the runtime (a goroutine) was seen: waiting, ready or running.
    Tasks,
}

/// Folded stacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// What the weights are.
    pub kind: ProfileKind,
    /// Samples per second of CPU time; 0 where every event was taken.
    pub hz: u32,
    /// Samples taken.
    pub samples: u64,
    /// Samples lost.
    pub lost: u64,
    /// Samples whose user stack could be followed to its root, or that had none.
    pub unwound: u64,
    /// Each frame once.
    pub frames: Vec<Frame>,
    pub stacks: Vec<Stack>,
}

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Function; `module+0x1234` where it has no name.
    pub symbol: String,
    /// File name of its library or program; `kernel`, or a kernel module's name in brackets.
    pub module: String,
    pub kernel: bool,
}

/// One stack and how much fell on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Target's name.
    pub target: String,
    /// Process.
    pub pid: i32,
    /// Thread's name; of a task, what it did in the runtime's own words: `sync.Mutex.Lock`, `sleep`, `runnable`.
    pub thread: String,
    /// Indices into [`Profile::frames`], root first.
    pub frames: Vec<u32>,
    /// Samples, or ns off the CPU.
    pub weight: u64,
    /// Off-CPU: state when it left the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WaitState>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_known_by_who_was_seen_connected_to_it() {
        let peer = |address: &str, target: Option<&str>| UpstreamPeer {
            address: address.to_owned(),
            connections: 1,
            target: target.map(str::to_owned),
        };
        let server = |upstreams| Server {
            upstreams,
            ..Server::default()
        };
        let examination = Examination {
            servers: vec![
                server(vec![
                    peer("10.0.0.1:80", None),
                    peer("/run/apps/a", Some("apps")),
                ]),
                server(vec![
                    peer("10.0.0.1:80", Some("web")),
                    peer("/run/mixed/a", Some("one")),
                    peer("/run/mixed/b", Some("other")),
                ]),
                Server {
                    target: "behind".to_owned(),
                    listens: vec!["10.0.0.1:82".to_owned()],
                    ..Server::default()
                },
            ],
            ..Examination::default()
        };
        for (address, want) in [
            ("10.0.0.1:80", Some("web")),
            ("10.0.0.1:81", None),
            ("10.0.0.1:82", Some("behind")),
            ("unix:/run/apps/a", Some("apps")),
            ("/run/apps/later", Some("apps")),
            ("unix:/run/mixed/b", Some("other")),
            ("unix:/run/mixed/c", None),
            ("unix:/run/others/a", None),
        ] {
            assert_eq!(examination.target_at(address), want, "{address}");
        }
    }
}
