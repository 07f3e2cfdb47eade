//! Where the time of requests goes at a server: turns of its connections, each split over places that add up.
//!
//! A *turn* lasts from the arrival of a request's first byte in the socket to the last write of its response. It is
//! taken from a trace of sockets and threads in a pass of its own, whose load is stored with it: the shares are used,
//! and the total is that of the same seconds. Every nanosecond of a turn belongs to exactly one place, so the places
//! of an account add up to its total by construction.

use crate::{Histogram, LoadOutcome, ProbeCost, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one pass saw of the turns of all targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// Length of the window that is accounted for, ns.
    pub window_ns: u64,
    /// Length of the trace with the load's beginning, ns; 0 where that is the window.
    #[serde(default)]
    pub traced_ns: u64,
    /// One connection in so many was followed; 1 is every connection.
    pub sampled_one_in: u32,
    /// What the client saw in the same window; `None` without a load of ours.
    #[serde(default)]
    pub load: Option<LoadOutcome>,
    /// Events that the trace lost; the error of every row widens with it.
    pub lost: u64,
    pub targets: Vec<TargetTurns>,
    /// Where threads were, as their runtimes told: what `told` of places and samples leads to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Told>,
    /// What could not be traced.
    pub unavailable: Vec<Unavailable>,
    /// What the trace took.
    pub cost: Vec<ProbeCost>,
}

/// The turns of one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetTurns {
    /// Target's name.
    pub target: String,
    /// Connections that were followed and had a turn.
    pub connections: u64,
    /// Turns that ended in the window, on the connections that were followed.
    pub account: TurnAccount,
    /// The slowest 1 % of them, or the slowest twenty where these are more; `None` for fewer than four hundred turns.
    #[serde(default)]
    pub tail: Option<TurnTail>,
    /// Turns far longer than the median, by the moments in which they came; `None` where nobody looked.
    #[serde(default)]
    pub stalls: Option<Stalls>,
    /// The time of the threads that read requests, whether they had one or not.
    #[serde(default)]
    pub threads: Option<ThreadTime>,
    /// Length of turns.
    pub lengths: Option<Histogram>,
    /// Time between a turn's end and the next request of its connection: the client's time, summed over turns, ns.
    pub between_ns: u64,
    /// Turns in which reading and writing did not alternate as a request and its response do (pipelining, streaming).
    pub irregular: u64,
    /// Bytes that requests brought and responses took.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// What runtimes told of threads that ran, whatever they ran for: `told` is an index into [`Turns::told`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ran: Vec<PlaceTold>,
    /// Requests to upstreams that were answered, whoever they were for.
    #[serde(default)]
    pub answers: u64,
    /// Turns of tasks of a runtime that asked an upstream as soon as their request was read, and answered as soon as
    /// its answer was, by the upstream's address: whoever reads that for them hands it on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub relayed: BTreeMap<String, u64>,
    /// How long upstreams were waited for on connections that ended before the answer was taken; `None` where none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Histogram>,
    /// CPU time among questions to upstreams; `None` where no request took CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asking: Option<Asking>,
    /// Connections accepted and closed in the window, of those that are followed.
    pub accepted: u64,
    pub closed: u64,
    /// Those of the closed ones that had answered a request.
    #[serde(default)]
    pub rested: u64,
    /// How long these rested from the end of their last response to their own, summed over them, ns.
    #[serde(default)]
    pub rested_ns: u64,
}

impl TurnAccount {
    /// Time at the places that `of` takes, ns.
    pub fn ns_at(&self, of: impl Fn(Place) -> bool) -> u64 {
        let places = self.places.iter().filter(|time| of(time.place));
        places.map(|time| time.total_ns).sum()
    }
}

/// What asking upstreams several times for one request costs whoever asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asking {
    /// CPU time between the first question and the last answer, of requests that asked at least twice, ns.
    pub cpu_ns: u64,
    /// CPU time of all requests, ns.
    pub of_ns: u64,
}

/// What the threads that read requests did in the whole window: the serving station, where each is busy with one
/// request at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// How many there are.
    pub threads: u64,
    /// The name of the only one; empty for several.
    pub name: String,
    /// Their time by place: [`Place::OnCpu`], [`Place::Idle`] and waits.
    /// `turns` counts its parts, and `total_ns` is the
    /// window times `threads`.
    pub account: TurnAccount,
}

impl ThreadTime {
    /// The share of their time in which they had no request, 0 to 1; `None` where there was no time.
    pub fn idle_share(&self) -> Option<f64> {
        let places = self.account.places.iter();
        let idle = places.filter(|place| place.place == Place::Idle);
        let idle: u64 = idle.map(|place| place.total_ns).sum();
        let all = self.account.total_ns;
        (all > 0).then(|| idle as f64 / all as f64)
    }
}

/// A number of turns and where their time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnAccount {
    pub turns: u64,
    /// Sum of their lengths, ns: the sum over `places` too.
    pub total_ns: u64,
    /// Largest first.
    pub places: Vec<PlaceTime>,
    /// Samples of the CPU that fell into places where a thread ran.
    #[serde(default)]
    pub cpu_samples: Vec<PlaceSamples>,
    /// What the tasks of the runtime did meanwhile; `None` where they were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<TaskSamples>,
    /// What runtimes told of threads that ran in those places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_told: Vec<PlaceTold>,
    /// Where the threads that had these turns were, running or not; `None` where no runtime told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadLooks>,
}

/// The slowest turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TurnTail {
    /// A turn at least this long belongs to it, ns.
    pub from_ns: u64,
    /// Separate moments in which slow turns came: at least 100 ms apart.
    pub bursts: u64,
    /// Mean time between the beginnings of bursts, ns; `None` for fewer than three.
    pub period_ns: Option<u64>,
    pub account: TurnAccount,
}

/// Moments in which turns took far longer than at others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// A turn at least this long belongs to one, ns: several times the median, and a good part of the longest.
    pub from_ns: u64,
    /// Turns that were this long, and the sum of their lengths, ns.
    pub turns: u64,
    pub total_ns: u64,
    /// The longest, ns.
    pub longest_ns: u64,
    /// Separate moments: at least 100 ms apart.
    pub moments: u64,
    /// Mean time between the beginnings of moments, ns; `None` for fewer than three.
    pub period_ns: Option<u64>,
    /// Standard deviation of these times / their mean: about 0 for a clock, 1 for chance; `None` likewise.
    pub period_spread: Option<f64>,
}

/// Where a part of a turn is spent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// From the end of the handshake until the connection was accepted, with its first request there.
    ListenQueue,
    /// The same, while more processes were started that accept.
    Starting,
    /// Data was there, and the thread that reads this connection went to sleep in a poll that does not ask for it: the
    /// server takes no more at present.
    ReadPaused,
    /// Data was there and the thread asleep: until the thread was woken, and until a CPU that was idle ran it.
    WakeUp,
    /// A thread was ready and no CPU free for it; `detail` is who ran instead.
    RunQueue,
    /// The event loop ran for other requests.
    OtherTurns,
    /// The event loop was blocked while it served another request; `detail` is the kind of wait.
    OthersBlocked,
    /// The thread ran or waited after the answer to one request and before the next: timers, logs, housekeeping;
    /// `detail` is the kind of wait.
    Loop,
    /// All threads of the pool had a request of their own: those that answer, or those that work for a thread that
    /// reads and answers.
    NoFreeThread,
    /// Its own thread ran for it.
    OnCpu,
    /// Its own thread was blocked in its turn; `detail` is the kind of wait, `signalled` where a thread or process of
    /// the same server that serves another connection ended its poll.
    Blocked,
    /// Waiting for a peer that the server had asked; `detail` is the peer's address, with `udp ` before it for one that
    /// was asked by datagrams.
    Upstream,
    /// The peer had answered, and the server had not read it yet; `detail` is the peer's address.
    UpstreamUnread,
    /// Between the first and the last write, waiting until more could be sent.
    Sending,
    /// In the process, on no thread that was seen: goroutines, callbacks, queues inside the server. `detail` is `rest
    /// of the request` while the client had not sent all of it, `not yet read` while nobody had read any of it,
    /// `before an upstream is asked` until it went to one that answered it; the waker is `timer` where its event loop
    /// slept and a timer ended that.
    Hidden,
    /// The thread had nothing to do; only in the time of threads.
    Idle,
}

/// Time at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceTime {
    pub place: Place,
    /// See [`Place`]. Kinds of wait: `upstream ADDRESS` (for that peer's answer), `futex`, `sleep`, `disk`,
    /// `file`, `sync`, `pipe`, `pipe_write` (a pipe that is full), `unix`, `udp`, `child`, `page`,
    /// `flock`, `poll`, `send`, `socket`, `other`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Who ended the wait: `thread NAME`, `process NAME`, `timer`, `interrupt`; empty when that was not seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub waker: String,
    /// Index into the stacks of the examination's off-CPU profile: where the thread waited. Stacks are taken of some
    /// waits; those without one are shared out to those alike, where these are enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
    /// Index into [`Turns::told`]: where the thread waited, as its runtime said. Runtimes are asked now and then, so
    /// time is shared out as the threads that were met waiting there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<u32>,
    /// The helper process that was at it, of those that talk to no client; empty for the server's own threads. `thread
    /// NAME` is one of these that serves no request, and was at it while the turn's waited for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub helper: String,
    /// Turns that had a part of their time here.
    pub turns: u64,
    pub total_ns: u64,
}

/// Looks at all tasks of a runtime (goroutines) while the turns of an account went on, each look weighted by the part
/// of the hidden turns that the account's are. A mean number of tasks is a sum over the looks' number (Little's law).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSamples {
    /// Looks that were taken.
    pub looks: u64,
    /// Turns of the account that were hidden or between two writes ([`Place::Sending`]), summed over the looks.
    pub hidden: f64,
    /// Turns that a thread was seen to run for, or to be ready for.
    pub running: f64,
    /// Turns whose thread was seen to be blocked in a system call.
    pub blocked: f64,
    /// Most seen first.
    pub seen: Vec<TaskSeen>,
}

/// What a task does that waits for a socket.
pub const NETWORK_WAIT: &str = "IO wait";

/// Whether a task's state (the `thread` of its stacks) is that it could run and no thread of the runtime is free to run
/// it. What came over a socket is told by its turn, as not yet read.
pub fn stands_ready(state: &str) -> bool {
    (state.starts_with("runnable") || state == "preempted") && !state.ends_with(NETWORK_WAIT)
}

/// Tasks with one stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSeen {
    /// Index into the stacks of the pass' profile of tasks.
    pub stack: u32,
    /// Tasks that were seen with it, summed over the looks.
    pub tasks: f64,
}

/// Samples of the on-CPU profile of the same window that fell on turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSamples {
    /// [`Place::OnCpu`], [`Place::OtherTurns`] or [`Place::Loop`]; [`Place::UpstreamUnread`] of what ran while answers
    /// of upstreams were there, and [`Place::RunQueue`] while tasks of the runtime stood ready.
    pub place: Place,
    /// Index into the stacks of the pass' on-CPU profile.
    pub stack: u32,
    /// Samples, weighted by the turns that waited meanwhile.
    pub samples: u64,
}

/// How often a thread was met somewhere that its runtime told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceTold {
    /// [`Place::OnCpu`], [`Place::OtherTurns`] or [`Place::Loop`].
    pub place: Place,
    /// Index into [`Turns::told`].
    pub told: u32,
    /// Times, weighted by the turns that waited meanwhile.
    pub samples: u64,
}

impl PlaceTold {
    /// What it was at, of [`Turns::told`], where it ran there.
    pub fn running<'a>(&self, all: &'a [Told]) -> Option<&'a Told> {
        let told = all.get(self.told as usize);
        told.filter(|told| told.state == ToldState::Running)
    }
}

/// Looks at all threads of a runtime while the turns of an account went on. Looks that met a thread with a turn
/// somewhere / [`ThreadLooks::open`] is the part of the turns' time that they were there (Little's law).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadLooks {
    /// Turns of the account that were open, summed over the looks.
    pub open: u64,
    /// Most looks first.
    pub met: Vec<MetTold>,
}

/// Looks that met a thread with a turn at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetTold {
    /// Index into [`Turns::told`].
    pub told: u32,
    pub looks: u64,
}

/// Where a thread is, in the words of its runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Told {
    /// `jvm`, `cpython`, `php`, `perl`, `ruby`.
    pub runtime: String,
    /// What it does there.
    pub state: ToldState,
    /// Functions, innermost first, as the runtime calls them; bounded.
    pub frames: Vec<String>,
    /// The innermost of them that is the application's own and that a library called; absent where there is none, and
    /// where the runtime does not tell them apart (those of scripts do, by the paths of their files).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<u32>,
    /// The line that this function is at, or without one the innermost of a script; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<SourceLine>,
    /// What is waited for, by its class.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// Who holds that and where: `thread worker in Pool.fill`; empty when the runtime does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
}

impl Told {
    /// The application's innermost function and what that called, innermost first; all where none is known for its.
    pub fn called(&self) -> &[String] {
        let own = self.own.map_or(self.frames.len(), |own| own as usize + 1);
        &self.frames[..own.min(self.frames.len())]
    }

    /// Index of the innermost function of a script, which has its place behind its name; what is compiled in has none.
    pub fn innermost_of_script(&self) -> Option<usize> {
        self.frames.iter().position(|frame| frame.contains(" ("))
    }
}

/// A line of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// From 1 on.
    pub number: u32,
    /// Without its indentation, cut; empty where it may hold a secret, the file was changed since, or there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What a thread does, as its runtime says.
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
pub enum ToldState {
    /// It runs, or is in a call of the system that the runtime knows nothing of.
    #[default]
    Running,
    /// It waits for a lock.
    Lock,
    /// It waits for one of some permits (a semaphore).
    Permit,
    /// It waits until another thread tells it to go on.
    Signal,
    /// It waits for what another thread computes.
    Result,
    /// It sleeps.
    Sleep,
}
