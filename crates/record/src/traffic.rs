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
    /// How many threads drive it; each has a queue of the device, a part of the local ports and of the connections.
    #[serde(default = "one")]
    pub threads: u32,
    /// The CPU of the side's first thread.
    pub cpu: Option<u32>,
    /// Of several threads, their CPUs in turn; empty: `cpu` is all that is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Of its TCP.
    pub tcp: TcpSettings,
    /// A file into which all frames of this side are written, at most so many bytes of each.
    pub capture: Option<Capture>,
    /// What is done to the frames on purpose.
    pub faults: Option<Faults>,
}

fn one() -> u32 {
    1
}

impl Side {
    /// The CPU of a thread, by its number from 0 on; `None` where it is the kernel's to choose.
    pub fn cpu_of(&self, thread: usize) -> Option<u32> {
        match self.cpus.as_slice() {
            [] => self.cpu.filter(|_| thread == 0),
            cpus => Some(cpus[thread % cpus.len()]),
        }
    }

    /// All CPUs that its threads are pinned to, each once.
    pub fn pinned(&self) -> Vec<u32> {
        let threads = self.threads.max(1) as usize;
        let mut all: Vec<u32> = (0..threads).filter_map(|n| self.cpu_of(n)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
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
    /// What a response must be; the client side compares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
}

/// What a response must be; what is `None` is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// Its status, whichever it is. Without, 400 and above are failures.
    pub status: Option<u16>,
    /// Bytes of its body, the framing of chunks left out.
    pub bytes: Option<u64>,
    /// Its body.
    pub body: Option<Data>,
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
    /// Open connections at the most; of several threads the sum of what each had at the most.
    pub peak_flows: u64,
    /// Bytes of state of one connection, tables and timers included.
    pub flow_bytes: f64,
    /// CPU time of its threads in user mode.
    pub cpu_user_ns: u64,
    /// And in the kernel; on a TAP or veth the peer's receive work is in it.
    pub cpu_system_ns: u64,
    /// Time in which it looked for packets without a pause and found none (coalescing 0); it is in the CPU time.
    #[serde(default)]
    pub spun_ns: u64,
    /// The first thread's CPU.
    pub cpu: Option<u32>,
    /// Each of several threads; empty when there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<SideThread>,
}

/// One of several threads of a side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideThread {
    /// The CPU that it was pinned to.
    pub cpu: Option<u32>,
    /// CPU time in user mode.
    pub cpu_user_ns: u64,
    /// And in the kernel.
    pub cpu_system_ns: u64,
    /// Of both, time in which it looked for packets without a pause and found none.
    pub spun_ns: u64,
    /// Open connections at the most.
    pub peak_flows: u64,
    /// Frames that it received.
    pub rx_frames: u64,
    /// Frames that it sent.
    pub tx_frames: u64,
    /// Of those that came in by its queue, frames of another thread's connections, which were handed over.
    pub handed_over: u64,
}

impl SideOutcome {
    /// The threads of one side as one, in their order; `None` without any. Counters and CPU times are sums.
    pub fn of_threads(parts: Vec<SideOutcome>) -> Option<SideOutcome> {
        let threads: Vec<SideThread> = match parts.len() {
            0 | 1 => Vec::new(),
            _ => parts.iter().map(SideThread::of).collect(),
        };
        let flows: u64 = parts.iter().map(|part| part.peak_flows).sum();
        let bytes: f64 = (parts.iter())
            .map(|part| part.flow_bytes * part.peak_flows as f64)
            .sum();
        let mut parts = parts.into_iter();
        let mut sum = parts.next()?;
        if flows > 0 {
            sum.flow_bytes = bytes / flows as f64;
        }
        sum.threads = threads;
        for part in parts {
            for (into, from) in [
                (&mut sum.tcp, part.tcp),
                (&mut sum.link, part.link),
                (&mut sum.device, part.device),
            ] {
                for (name, n) in from {
                    *into.entry(name).or_default() += n;
                }
            }
            sum.peak_flows += part.peak_flows;
            sum.cpu_user_ns += part.cpu_user_ns;
            sum.cpu_system_ns += part.cpu_system_ns;
            sum.spun_ns += part.spun_ns;
        }
        Some(sum)
    }
}

impl SideThread {
    fn of(part: &SideOutcome) -> SideThread {
        let device = |name: &str| part.device.get(name).copied().unwrap_or(0);
        SideThread {
            cpu: part.cpu,
            cpu_user_ns: part.cpu_user_ns,
            cpu_system_ns: part.cpu_system_ns,
            spun_ns: part.spun_ns,
            peak_flows: part.peak_flows,
            rx_frames: device("rx_frames"),
            tx_frames: device("tx_frames"),
            handed_over: device("rx_handed_over"),
        }
    }
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

impl TemplateOutcome {
    /// Adds what another thread counted of the same template.
    pub fn merge(&mut self, other: &TemplateOutcome) {
        for (into, from) in [
            (&mut self.scheduled, other.scheduled),
            (&mut self.attempted, other.attempted),
            (&mut self.connected, other.connected),
            (&mut self.completed, other.completed),
            (&mut self.ended_early, other.ended_early),
            (&mut self.late, other.late),
            (&mut self.dropped, other.dropped),
            (&mut self.unfinished, other.unfinished),
            (&mut self.exchanges, other.exchanges),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.received_bytes, other.received_bytes),
            (&mut self.accepted, other.accepted),
        ] {
            *into += from;
        }
        for (kind, count) in &other.failed {
            *self.failed.entry(kind.clone()).or_default() += count;
        }
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (into, from) in [
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.response, &other.response),
        ] {
            into.merge(from);
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up_to_their_side() {
        let part = |n: u64| SideOutcome {
            side: "client".to_owned(),
            tcp: [("connects".to_owned(), n)].into(),
            device: [("rx_handed_over".to_owned(), 10 * n)].into(),
            peak_flows: n,
            flow_bytes: 100.0 * n as f64,
            cpu_user_ns: n,
            cpu_system_ns: 2 * n,
            spun_ns: 3 * n,
            cpu: Some(n as u32),
            ..SideOutcome::default()
        };
        assert_eq!(SideOutcome::of_threads(Vec::new()), None);
        assert_eq!(SideOutcome::of_threads(vec![part(7)]), Some(part(7)));
        let sum = SideOutcome::of_threads(vec![part(1), part(3)]).unwrap();
        assert_eq!((sum.tcp["connects"], sum.peak_flows), (4, 4));
        assert_eq!(
            (sum.cpu_user_ns, sum.cpu_system_ns, sum.spun_ns),
            (4, 8, 12)
        );
        // By the flows that each had: (1 x 100 + 3 x 300) / 4.
        assert!((sum.flow_bytes - 250.0).abs() < 1e-9);
        let threads: Vec<_> = (sum.threads.iter())
            .map(|thread| (thread.cpu, thread.cpu_user_ns, thread.handed_over))
            .collect();
        assert_eq!(threads, [(Some(1), 1, 10), (Some(3), 3, 30)]);
    }

    #[test]
    fn nothing_of_a_template_is_lost_between_two_threads() {
        let part = |n: u64| {
            let mut part = TemplateOutcome {
                name: "page".to_owned(),
                scheduled: n,
                attempted: n,
                connected: n,
                completed: n,
                ended_early: n,
                late: n,
                dropped: n,
                failed: [("reset".to_owned(), n), (format!("kind{n}"), n)].into(),
                unfinished: n,
                statuses: [(200, n), (200 + n as u16, n)].into(),
                exchanges: n,
                sent_bytes: n,
                received_bytes: n,
                accepted: n,
                ..TemplateOutcome::default()
            };
            for histogram in [&mut part.connect, &mut part.first_byte, &mut part.response] {
                (0..n).for_each(|_| histogram.record(Nanos(n)));
            }
            part
        };
        let mut sum = part(2);
        sum.merge(&part(5));
        let value = serde_json::to_value(&sum).unwrap();
        // Every number of a template is a count, so that a new field cannot be forgotten here.
        for (name, value) in value.as_object().unwrap() {
            assert!(value.as_u64().is_none_or(|n| n == 7), "{name} is {value}");
        }
        assert_eq!(
            (
                sum.failed["reset"],
                sum.failed["kind2"],
                sum.failed["kind5"]
            ),
            (7, 2, 5)
        );
        assert_eq!((sum.statuses[&200], sum.statuses[&205]), (7, 5));
        assert_eq!(sum.connect.count() + sum.response.count(), 14);
        assert_eq!(sum.first_byte.max(), Some(Nanos(5)));
    }

    #[test]
    fn threads_take_the_cpus_in_turn() {
        let text = r#"{"transport":"tap","interface":"tap0","addresses":[],"order":"sequential","ports":null,
            "gateways":[],"coalesce":0,"cpu":3,"tcp":{},"capture":null,"faults":null}"#;
        let mut side: Side = serde_json::from_str(text).unwrap();
        assert_eq!(side.threads, 1, "a record of before has one");
        assert_eq!((side.cpu_of(0), side.cpu_of(1)), (Some(3), None));
        side.threads = 3;
        side.cpus = vec![3, 5];
        assert_eq!(
            [0, 1, 2].map(|n| side.cpu_of(n)),
            [Some(3), Some(5), Some(3)]
        );
        assert_eq!(side.pinned(), [3, 5]);
    }
}
