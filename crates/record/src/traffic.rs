//! What traffic a TCP in user space was asked to make ([`TrafficSpec`]) and what came of it ([`TrafficOutcome`]).
//!
//! A run has a client side, a server side or both. *Templates* say what a connection carries; the client side begins
//! connections of each at its rate or keeps a number of them open, the server side answers them. All times are on one
//! monotonic clock; latencies of an open arrival count from the *scheduled* begin of the connection.

use crate::{Carrier, Close, Histogram, Nanos, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run of `prony traffic`, completely described; see the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficSpec {
    /// Ends after this time; `None` when all counts are reached.
    pub duration: Option<Nanos>,
    /// From nothing to the full rate and number of connections, at the beginning.
    pub ramp: Nanos,
    /// After the end no connection is begun, and those that are open may finish for at most so long.
    pub drain: Nanos,
    /// Of all that is drawn: addresses, ports, gaps, initial numbers.
    pub seed: u64,
    /// Who begins connections.
    pub client: Option<Side>,
    /// Who answers them.
    pub server: Option<Side>,
    /// What connections carry.
    pub templates: Vec<Template>,
}

/// One end: a device, addresses and the settings of its TCP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Which device.
    pub transport: Carrier,
    /// The interface it is attached to.
    pub interface: String,
    /// Ranges of addresses as typed: `10.9.0.0/24`, `10.9.0.5-10.9.0.9`, or one address.
    pub addresses: Vec<String>,
    /// How the client side takes addresses and ports.
    pub order: Order,
    /// First and last local port of the client side.
    pub ports: Option<(u16, u16)>,
    /// Networks behind the interface beside its own, as typed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Routers, for targets outside the interface's network.
    pub gateways: Vec<std::net::IpAddr>,
    /// How long packets may gather before they are looked at; 0 looks without a pause.
    pub coalesce: Nanos,
    /// The CPU of the side's thread.
    pub cpu: Option<u32>,
    /// Of its TCP.
    pub tcp: TcpSettings,
    /// A file into which all frames of this side are written, at most so many bytes of each.
    pub capture: Option<Capture>,
    /// What is done to the frames on purpose.
    pub faults: Option<Faults>,
}

/// In which order addresses and ports are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after the other.
    #[default]
    Sequential,
    /// Drawn by the run's seed.
    Random,
}

/// Settings of TCP; `None` is the stack's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TcpSettings {
    /// Largest segment to announce, bytes.
    pub mss_bytes: Option<u16>,
    /// Initial window, segments.
    pub initial_window: Option<u32>,
    /// What the peer may send unacknowledged, bytes.
    pub receive_window_bytes: Option<u32>,
    /// Congestion control: `cubic` or `new_reno`.
    pub congestion: Option<Congestion>,
    /// Delay of acknowledgements, milliseconds; 0 acknowledges at once.
    pub delayed_ack_ms: Option<u32>,
    /// Hold small segments back (Nagle).
    pub nagle: Option<bool>,
    /// Selective acknowledgements.
    pub sack: Option<bool>,
    /// Timestamps.
    pub timestamps: Option<bool>,
    /// Window scaling.
    pub window_scaling: Option<bool>,
    /// Explicit congestion notification.
    pub ecn: Option<bool>,
    /// Least retransmission timeout, milliseconds.
    pub rto_min_ms: Option<u32>,
    /// How long a closed connection is remembered, milliseconds.
    pub time_wait_ms: Option<u32>,
    /// Silence after which the peer is asked whether it lives, milliseconds.
    pub keep_alive_ms: Option<u32>,
    /// Hops that a packet may take.
    pub hop_limit: Option<u8>,
    /// DSCP and ECN bits of all packets.
    pub traffic_class: Option<u8>,
    /// Connections that there may be at one time, those in TIME-WAIT included.
    pub flows_max: Option<u32>,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 and RFC 6582.
    NewReno,
}

/// Frames of a side in a file that Wireshark and tcpdump read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The file.
    pub path: String,
    /// Bytes kept of each frame.
    pub snap_bytes: u32,
}

/// Faults of a wire, drawn by the run's seed. Shares are 0 to 1 of the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Frames that vanish.
    pub loss: f64,
    /// Frames that come twice.
    pub duplicate: f64,
    /// Frames that are overtaken by the next ones.
    pub reorder: f64,
    /// Frames of which a bit is wrong.
    pub corrupt: f64,
    /// How long each frame takes longer.
    pub delay: Nanos,
    /// By how much that varies, evenly.
    pub jitter: Nanos,
    /// What the wire carries, bits a second; 0 is no limit.
    pub rate_bits_per_s: u64,
}

/// What connections of one kind carry, and how many there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// For tables and the record.
    pub name: String,
    /// Where the client side connects to; with a port range in the file one template stands for each.
    pub targets: Vec<std::net::SocketAddr>,
    /// When connections begin.
    pub pace: Pace,
    /// At most so many open at one time; what is due beyond waits, and is counted as late.
    pub concurrent_max: Option<u32>,
    /// Exactly so many in the whole run; `None` is no limit.
    pub count: Option<u64>,
    /// What is carried.
    pub protocol: Protocol,
    /// How the client ends.
    pub close: Close,
    /// A connection that has not gone on for so long has failed: its handshake, an HTTP request without its whole
    /// response, a stream in silence, a question of UDP without its answer. Zero waits for ever.
    pub timeout: Nanos,
    /// A TLS client or server under the protocol.
    pub tls: Option<TlsSettings>,
}

/// When connections of a template begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// So many a second, equal gaps: open, whatever the peer does.
    Constant(f64),
    /// So many a second, exponential gaps.
    Poisson(f64),
    /// So many are kept open: one that ends is followed by the next.
    Concurrent(u32),
}

/// TLS of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsSettings {
    /// The name that the client asks for.
    pub server_name: Option<String>,
    /// The client does not verify.
    pub insecure: bool,
    /// The server's certificate chain, PEM, and key: text, not paths. `None`: one is made for the run.
    pub certificate: Option<(String, String)>,
}

/// What a connection carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1 requests, each response parsed and checked as in `prony load`.
    Http(Http),
    /// Bytes in the order written, both sides.
    Stream(Vec<Step>),
    /// Datagrams: the client sends, the server answers each, `exchanges` times.
    Udp {
        /// Payload of a question, bytes.
        request_bytes: u32,
        /// Payload of an answer, bytes.
        response_bytes: u32,
        /// Questions of one exchange of addresses.
        exchanges: u32,
        /// From one question to the next.
        gap: Nanos,
    },
}

/// HTTP of a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Http {
    /// Path and query.
    pub path: String,
    /// Method.
    pub method: String,
    /// Further header fields.
    pub headers: Vec<(String, String)>,
    /// Bytes of the request's body.
    pub body_bytes: u64,
    /// Requests of one connection.
    pub requests: u64,
    /// What the server side answers: bytes of the body.
    pub response_bytes: u64,
    /// Pause of the client before the next request.
    pub think: Nanos,
}

/// One step of a stream, seen by both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The client sends, the server receives and compares.
    ClientSends(Data),
    /// The server sends, the client receives and compares.
    ServerSends(Data),
    /// Both wait; the one whose turn is next does.
    Pause(Nanos),
    /// The client closes its side.
    ClientCloses(Close),
    /// The server closes its side.
    ServerCloses(Close),
}

/// Bytes of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// These.
    Bytes(Vec<u8>),
    /// So many of a pattern that both sides know.
    Pattern(u64),
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficOutcome {
    /// Of the sides that were ours.
    pub sides: Vec<SideOutcome>,
    /// Of each template, in the order of the spec.
    pub templates: Vec<TemplateOutcome>,
    /// About a second each, from the beginning.
    pub intervals: Vec<TrafficInterval>,
    /// From the first connection's due time to the end, draining included.
    pub wall_ns: u64,
    /// The run was stopped before it was done.
    pub interrupted: bool,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

/// A run as it stands in its record: what was asked, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficRun {
    /// Asked.
    pub spec: TrafficSpec,
    /// Happened.
    pub outcome: TrafficOutcome,
}

/// One side of ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SideOutcome {
    /// `client` or `server`.
    pub side: String,
    /// Device as it describes itself, and coalescing.
    pub transport: String,
    /// TCP's counters, by TRex's names where it has them; see the stack's documentation.
    pub tcp: BTreeMap<String, u64>,
    /// The link layer's and UDP's.
    pub link: BTreeMap<String, u64>,
    /// The device's: frames, bytes, drops by ring.
    pub device: BTreeMap<String, u64>,
    /// Open connections at the most.
    pub peak_flows: u64,
    /// Bytes of state of one connection, tables and timers included.
    pub flow_bytes: f64,
    /// CPU time of its thread in user mode.
    pub cpu_user_ns: u64,
    /// And in the kernel; on a TAP or veth the peer's receive work is in it.
    pub cpu_system_ns: u64,
    /// Time in which it looked for packets without a pause and found none (coalescing 0); it is in the CPU time.
    #[serde(default)]
    pub spun_ns: u64,
    /// The thread's CPU.
    pub cpu: Option<u32>,
}

/// One template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TemplateOutcome {
    /// Its name.
    pub name: String,
    /// Connections due.
    pub scheduled: u64,
    /// Begun.
    pub attempted: u64,
    /// Established.
    pub connected: u64,
    /// All of the template was done, and every byte was right.
    pub completed: u64,
    /// Of them, HTTP: the server announced its close before all requests of the connection were made.
    #[serde(default)]
    pub ended_early: u64,
    /// Begun more than 1 ms late.
    pub late: u64,
    /// Never begun.
    pub dropped: u64,
    /// Connections by the names of [`crate::FailureKind`], and `wrong_bytes`; what the server side alone saw ends in
    /// `_at_server` when both sides are ours. Of the client side `attempted` = `completed` + these + `unfinished`.
    pub failed: BTreeMap<String, u64>,
    /// Open and not done when the drain was over, or at a Ctrl-C.
    #[serde(default)]
    pub unfinished: u64,
    /// HTTP: responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// HTTP responses, UDP answers, or steps done.
    pub exchanges: u64,
    /// Payload.
    pub sent_bytes: u64,
    /// Payload.
    pub received_bytes: u64,
    /// From the due time to the established connection.
    pub connect: Histogram,
    /// From the request's first packet to the response's first.
    pub first_byte: Histogram,
    /// From the due time of the request to its last byte.
    pub response: Histogram,
    /// Connections that the server side accepted for it, when that is ours.
    pub accepted: u64,
}

/// A slice of the run for series and live progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrafficInterval {
    /// Start.
    pub from: Nanos,
    /// End.
    pub to: Nanos,
    /// Connections begun.
    pub attempted: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections completed.
    pub completed: u64,
    /// Connections failed.
    pub failed: u64,
    /// Exchanges.
    pub exchanges: u64,
    /// Open at its end.
    pub open: u64,
    /// Frames sent and received by our sides.
    pub tx_frames: u64,
    /// Received.
    pub rx_frames: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Bytes of them.
    pub rx_bytes: u64,
    /// Segments sent again.
    pub retransmitted: u64,
}
