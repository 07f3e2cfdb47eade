//! The documents behind `--json`: names that scripts rely on, `null` where there is no value.
//!
//! `schema/load.schema.json`, `schema/run.schema.json` and `schema/diagnose.schema.json` are derived from these
//! types; a test holds them together. A name that ends in `_ns`, `_s`, `_bytes` or `_per_s` says its unit.

use crate::conclusion::{self, Statement};
use crate::signature::{self, CostRow, SignatureTable};
use crate::traffic::TrafficDocument;
use analysis::AgentFigures;
use analysis::imported::{ReportedTable, reported_tables};
use analysis::traffic::{CounterRow, PortFigures};
use analysis::{
    Against, Answer, Cell, Comparison, Diagnosis, FactValue, Fairness, Finding, Improvement, Knee,
    LatencySummary, Ledger, Levels, Plan, Proof, PublishedPath, RateSearch, RuledOut, RunAnalysis,
    Search, ServerVersions, Station, Table, TrialAnalysis, Unseen, Verdict, Watched,
};
use import::{Imported, ImportedResult, LeftOut};
use record::{
    Arrival, Connections, ContainerPath, Examination, FailureKind, Histogram, LoadOutcome,
    LoadSpec, PROOF_STAGE, RatePiece, RunRecord, ThreadCost, Warning,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of all three documents; it rises when a name changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// What `prony load --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadDocument {
    /// Version of this document.
    pub format: u32,
    /// Whether the figures may be used, what limits the load, and why.
    pub verdict: Verdict,
    /// What was asked for.
    pub asked: LoadAsked,
    /// Length of the measured part, s.
    pub measured_s: f64,
    /// A person stopped it before its end.
    pub interrupted: bool,
    /// Requests of the measured part, by fate.
    pub requests: Requests,
    /// The requests of a workload, each by itself; empty without one.
    #[serde(default)]
    pub by_request: Vec<NamedRequests>,
    /// The pieces of a rate that changes (steps, ramps), as far as the load came; empty without them.
    #[serde(default)]
    pub by_piece: Vec<PieceFigures>,
    /// Complete answers by status.
    pub status: BTreeMap<String, u64>,
    pub rate_per_s: Rates,
    /// Payload over the measured part.
    pub bytes: ByteCounts,
    /// Latencies of the successes, ns.
    pub latency_ns: Latencies,
    /// The streams of server-sent events that were the load, whose events are the requests; `null` of another load.
    #[serde(default)]
    pub event_streams: Option<EventStreamFigures>,
    /// Connections over the whole load, warm-up included.
    pub connections: Connections,
    /// What the generator itself cost.
    pub generator: Generator,
    /// The TCP in user space that carried the load; `null` over the kernel's.
    #[serde(default)]
    pub stack: Option<LoadStack>,
    /// What was read for a replay (`--replay`, `--arrivals`); `null` without one.
    #[serde(default)]
    pub replay: Option<Replayed>,
    /// The service level that was asked for with `--slo`; `null` without one.
    #[serde(default)]
    pub slo: Option<SloKept>,
    /// The search that this load is a step of: the newest at the highest rate that held, or else the last load; `null`
    /// without `--find-max` and `--find-knee`.
    #[serde(default)]
    pub search: Option<RateSearch>,
    /// What each host brought, of a load from several (`--on`); empty without them.
    #[serde(default)]
    pub agents: Vec<AgentFigures>,
    /// Response times as HdrHistogram V2 compressed, base64: mergeable with those of other loads.
    pub histogram: String,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

/// Streams of server-sent events. Streams and times to a first event are of the whole load, warm-up included; the rest
/// is of the measured part. An event has no latency: when it was sent only its server knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventStreamFigures {
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
    /// Events per second of a connection's streams; `null` without an event.
    pub events_per_s: Option<PerStream>,
    /// From sending a stream's request to the end of its first event, ns; `null` without one.
    pub first_event_ns: Option<LatencySummary>,
    /// Between the ends of two events of one stream as they were read, ns, and no latency: of events that were read at
    /// once it is 0; `null` without one.
    pub gap_ns: Option<LatencySummary>,
    /// These gaps as HdrHistogram V2 compressed, base64.
    pub gap_histogram: String,
}

/// A rate over streams, 1/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PerStream {
    pub min: f64,
    pub mean: f64,
    pub max: f64,
}

/// Requests, or their times alone, that were read from a file to be sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// The file.
    pub file: String,
    /// `access_log`, or `arrivals` for times alone.
    pub kind: String,
    /// By how much faster than recorded.
    pub speed: f64,
    /// Requests that were to be sent.
    pub requests: u64,
    /// Different ones of them, by method and target; `null` for times alone.
    pub distinct: Option<u64>,
    /// Lines that are not sent, by reason: `malformed`, `target`, `connect`, `body`, `unsafe`.
    pub left_out: BTreeMap<String, u64>,
    /// Statuses that were recorded with those requests; those answered stand in `status`.
    pub recorded_status: BTreeMap<String, u64>,
}

/// A service level and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SloKept {
    /// The conditions.
    pub asked: String,
    /// Those that were not kept, each with its figure and by how much it missed; empty when all were kept.
    pub broken: Vec<String>,
}

/// What came of the requests of one name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedRequests {
    pub name: String,
    pub sent: u64,
    pub completed: u64,
    pub succeeded: u64,
    /// Successes per second; `null` without one.
    pub rate_per_s: Option<f64>,
    /// Failures by kind.
    pub failed: BTreeMap<String, u64>,
    /// Failed checks and captures by name; a response may fail several.
    pub failed_checks: BTreeMap<String, u64>,
    /// Response time of the successes, ns; `null` without one.
    pub response_ns: Option<LatencySummary>,
}

/// What came of the requests that were due in one piece of a rate that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PieceFigures {
    /// Requests per second at its begin.
    pub from_per_s: f64,
    /// Requests per second at its end.
    pub to_per_s: f64,
    /// Its begin, s from that of the measured part.
    pub begin_s: f64,
    /// Its end, likewise.
    pub end_s: f64,
    pub sent: u64,
    /// Sent more than 1 ms after they were due.
    pub late: u64,
    /// Due, but never sent.
    pub dropped: u64,
    pub completed: u64,
    pub succeeded: u64,
    /// Successes per second of its time; `null` without one.
    pub rate_per_s: Option<f64>,
    /// Failures by kind.
    pub failed: BTreeMap<String, u64>,
    /// Response time of the successes, ns; `null` without one.
    pub response_ns: Option<LatencySummary>,
}

/// The load that was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadAsked {
    pub url: String,
    pub method: String,
    /// Connections in total.
    pub connections: u32,
    /// Load threads; `null` leaves it to the generator.
    pub threads: Option<u32>,
    /// Length of the measured part, s; `null` without a limit.
    pub duration_s: Option<f64>,
    /// Number of requests; `null` without a limit.
    pub requests: Option<u64>,
    /// Warm-up before the measured part, s.
    pub warmup_s: f64,
    /// `closed`, `constant`, `poisson` or `listed`.
    pub arrival: String,
    /// How the rate of an open loop changes, piece by piece; empty where it does not.
    #[serde(default)]
    pub rate_pieces: Vec<RatePiece>,
    /// How the load threads wait for a scheduled send: `sleep`, `hybrid` or `spin`.
    #[serde(default)]
    pub precision: String,
    /// Requests that a connection carries; `null` without a limit.
    pub requests_per_connection: Option<u64>,
    /// Requests in flight on one connection of HTTP/1.1.
    pub pipeline: u32,
    /// `1.1` or `2`.
    pub http: String,
    /// Requests in flight on one connection of HTTP/2.
    pub streams: u32,
    /// Requests were unary calls of gRPC; absent where they were not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grpc: bool,
    /// Requests were messages over WebSocket, binary and not text; absent where they were not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ws_binary: bool,
    /// Requests were server-sent events, awaited on one stream a connection; absent where they were not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sse: bool,
    /// The Unix socket that was connected to; absent over TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<String>,
    /// The forward proxy that the load went through, whose speed is part of the figures; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Bytes that each connection received at most in a second, and sent at most; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_rate_bytes_per_s: Option<u64>,
    /// A request without an answer for this long has failed, s.
    pub timeout_s: f64,
}

/// A TCP in user space under a load, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadStack {
    /// `tap`, `af_xdp` or `af_packet`.
    pub transport: String,
    pub interface: String,
    /// How long packets were let gather, ns: it is in every latency.
    pub coalesce_ns: u64,
    /// All counters, zeros included, under TRex's names where it has them; `server` is `null`.
    pub counters: Vec<CounterRow>,
    pub ports: PortFigures,
}

/// Requests by fate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Due within the measured part.
    pub scheduled: u64,
    /// Written to a connection.
    pub sent: u64,
    /// Answered whole, whatever the status.
    pub completed: u64,
    /// Answered whole with a status below 400.
    pub succeeded: u64,
    /// Sent more than 1 ms after they were due (open loop).
    pub late: u64,
    /// Due, but never sent (open loop).
    pub dropped: u64,
    /// Sent again because the server had announced the close of the connection.
    pub retried: u64,
    /// Failures by kind; kinds that did not occur are left out.
    pub failed: BTreeMap<String, u64>,
}

/// Requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Asked for; `null` in a closed loop.
    pub offered: Option<f64>,
    /// Successes; `null` without one.
    pub achieved: Option<f64>,
}

/// Payload in bytes (TCP payload, or TLS plaintext).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByteCounts {
    pub received: u64,
    pub sent: u64,
}

/// Latencies in ns; each is `null` when nothing was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latencies {
    /// From the scheduled send to the end of the answer.
    pub response: Option<LatencySummary>,
    /// From the actual send to the end of the answer.
    pub service: Option<LatencySummary>,
    /// To open a connection, TLS included; warm-up included.
    pub connect: Option<LatencySummary>,
    /// From the actual send to the first byte of the answer; of event streams once each, warm-up included.
    pub first_byte: Option<LatencySummary>,
}

/// The generator's own cost over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// `epoll`, `uring`, with `+tls` behind it for HTTPS.
    pub engine: String,
    /// Load threads.
    pub threads: u32,
    /// CPU time in user mode over all threads, s; spinning before a scheduled send included.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, s. On loopback this contains the peer's receive work.
    pub cpu_system_s: f64,
    /// CPU time spent spinning before a scheduled send, s: part of the two above, but not work.
    pub spin_s: f64,
    /// Share of the time that the busiest thread worked, 0 to 1; `null` where the measured part was not reached.
    pub utilization: Option<f64>,
    /// System calls of the load loop per completed request; `null` without one.
    pub syscalls_per_request: Option<f64>,
    /// CPU time (spinning left out) per completed request, microseconds; `null` without one.
    pub cpu_us_per_request: Option<f64>,
    /// Peak resident set of the process, bytes.
    pub peak_rss_bytes: u64,
    /// How late the generator itself was with due requests, ns; `null` in a closed loop.
    pub schedule_lag_ns: Option<ScheduleLag>,
    /// Pauses that let responses gather while the server was full; `null` where they were not counted.
    pub pauses: Option<GatheringPauses>,
}

/// Pauses of a busy closed loop, made only while the server was known to be full.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatheringPauses {
    /// How many.
    pub count: u64,
    /// Mean length, ns; `null` without one.
    pub mean_ns: Option<f64>,
    /// The most of the mean response time that they can be, 0 to 1; `null` without a success.
    pub response_share_max: Option<f64>,
}

/// The generator's own lateness, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleLag {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

/// What `prony run --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunDocument {
    /// Version of this document.
    pub format: u32,
    /// What the experiment was to answer.
    pub question: String,
    /// What it answers: what the factor does and by which mechanism, or how much is held and what limits it.
    #[serde(default)]
    pub answer: Option<Answered>,
    /// What limits the server at its best, and whether the run answers its question.
    pub verdict: Verdict,
    /// Cells that have figures: the verdict speaks of these.
    #[serde(default)]
    pub cells_answered: u32,
    #[serde(default)]
    pub cells_planned: u32,
    /// Highest valid closed-loop rate, per second; `null` when none was found.
    pub capacity_per_s: Option<f64>,
    /// Searches for the highest open-loop rate that holds, with their steps, which are not among `trials`.
    #[serde(default)]
    pub searches: Vec<Search>,
    /// Every trial that ended.
    pub trials: Vec<TrialAnalysis>,
    /// One entry per stage and combination of levels: medians, spread, ratio to the baseline.
    pub comparisons: Vec<Cell>,
    /// Where the curves bend.
    pub knees: Vec<Knee>,
    /// Causes that hold at the run's best (the examined cell with the highest rate), most likely first; empty when no
    /// cell was examined.
    pub diagnosis: Vec<Finding>,
    /// Every cell that was examined.
    pub diagnosed: Vec<CellDiagnosed>,
    /// How well each stage could compare its cells: noise, smallest detectable effect, warm-up, precision.
    pub fairness: Vec<Fairness>,
    /// What the numbers allow to say, in words: what is best and by how much, what limits, what cannot be said.
    #[serde(default)]
    pub conclusion: Vec<Statement>,
    /// Traffic that was there and was watched: what that took, and which seconds were slow; `null` without.
    #[serde(default)]
    pub watched: Option<Watched>,
    /// What a request takes more of than in an earlier record (`--against`); `null` without one.
    #[serde(default)]
    pub against: Option<Against>,
    /// Traffic of a TCP in user space, its sides and counters; `null` in other runs.
    #[serde(default)]
    pub traffic: Option<TrafficDocument>,
    /// The tables that the experiment asks for.
    pub tables: Vec<Table>,
    /// What other tools reported, for imported trials.
    #[serde(default)]
    pub reported: Vec<ReportedTable>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
    /// Directory of the record.
    pub record: String,
    /// A person stopped the run before its end.
    pub interrupted: bool,
}

/// The answer with its sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answered {
    #[serde(flatten)]
    pub answer: Answer,
    /// The same in three sentences: what, by which mechanism, what to do and how sure.
    pub lines: Vec<Statement>,
}

/// What a diagnosis says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosed {
    /// Causes that hold, most likely first; the first is `none` for a healthy, simply busy or simply idle server.
    pub diagnosis: Vec<Finding>,
    /// Causes that do not hold although something pointed to them.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that could not be judged.
    pub unseen: Vec<Unseen>,
    /// Who is the limit.
    pub station: Station,
    /// Share of the limiting resource's time that no finding explains, 0 to 1; `null` when it cannot be told.
    pub unexplained: Option<f64>,
    /// Where the time went, in two accounts that add up; `null` where none of it was seen.
    #[serde(default)]
    pub ledger: Option<Ledger>,
    /// The container that was named, and the way into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerPath>,
    /// Its published port against the direct path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published_path: Option<PublishedPath>,
    /// Versions of the servers and of the libraries that they run on.
    #[serde(default)]
    pub versions: Vec<ServerVersions>,
    /// Every fact that was known.
    pub facts: Vec<FactValue>,
    /// Calls per request; `null` when none were counted.
    pub signature: Option<SignatureTable>,
    /// What the monitors of the timed load took.
    pub monitor_cost: Vec<CostRow>,
    /// Best tier of the probes: `proc`, `perf_events`, `ebpf`.
    pub tier: String,
}

/// What `prony diagnose --json` prints: the names of the load's document, and the diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnoseDocument {
    #[serde(flatten)]
    pub load: Loaded,
    /// The diagnosis.
    #[serde(flatten)]
    pub diagnosed: Diagnosed,
    /// Traffic that was there and was watched: what that took, and which seconds were slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Watched>,
    /// What a request takes more of than in an earlier record (`--against`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// What `--improve` tried and kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub improvement: Option<Improvement>,
    /// What `--aa` measured: a proof of no change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aa: Option<Proof>,
}

/// What was measured on copies beside the proofs of findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnCopies<'a> {
    /// The path of `--improve`.
    pub improvement: Option<&'a Improvement>,
    /// The proof of no change.
    pub aa: Option<&'a Proof>,
}

/// The load that was diagnosed, or that there was none of ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Loaded {
    /// All names of `prony load --json`.
    Ours(Box<LoadDocument>),
    /// Existing traffic was watched, or output of other tools was read.
    NotOurs {
        /// Version of this document.
        format: u32,
    },
}

/// The diagnosis of one cell of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellDiagnosed {
    pub stage: String,
    /// Level of each factor.
    pub levels: Levels,
    /// Trial that was examined.
    pub trial: u32,
    /// The diagnosis.
    #[serde(flatten)]
    pub diagnosed: Diagnosed,
}

impl Diagnosed {
    fn new(diagnosis: &Diagnosis, examination: Option<&Examination>) -> Self {
        let signature = examination.and_then(|e| e.signature.as_ref());
        let monitors = examination.map_or(&[][..], |e| &e.monitor_cost);
        let container = examination.and_then(|e| e.container.as_ref());
        let direct = container.and_then(|c| c.direct.as_ref());
        Self {
            container: container.cloned(),
            published_path: direct.and_then(analysis::published_path),
            diagnosis: diagnosis.findings.clone(),
            ruled_out: diagnosis.ruled_out.clone(),
            unseen: diagnosis.unseen.clone(),
            station: diagnosis.station.clone(),
            unexplained: diagnosis.unexplained,
            ledger: diagnosis.ledger.clone(),
            versions: examination.map_or_else(Vec::new, |e| analysis::versions_of(&e.servers)),
            facts: diagnosis.facts.clone(),
            signature: signature.and_then(signature::table),
            monitor_cost: monitors.iter().map(CostRow::from).collect(),
            tier: diagnosis.tier.clone(),
        }
    }
}

/// What `prony compare --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompareDocument {
    /// Version of this document.
    pub format: u32,
    /// No difference was seen, in what could be judged.
    pub same: bool,
    #[serde(flatten)]
    pub comparison: Comparison,
    /// What other tools reported of both, side by side; the first record is the baseline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<ReportedTable>,
}

/// The document of a comparison.
pub fn compare_document(comparison: &Comparison, reported: Vec<ReportedTable>) -> CompareDocument {
    CompareDocument {
        format: FORMAT,
        same: comparison.same(),
        comparison: comparison.clone(),
        reported,
    }
}

/// What `prony import --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImportDocument {
    /// Version of this document.
    pub format: u32,
    /// Directory of the record.
    pub record: String,
    /// Results in the order of the texts.
    pub results: Vec<ImportedResult>,
    /// The same side by side.
    pub tables: Vec<ReportedTable>,
    /// What was checked on the way, in words.
    pub notes: Vec<String>,
    /// Lines that looked like a result and were not taken.
    pub left_out: Vec<LeftOut>,
    /// What a reader must know.
    pub warnings: Vec<Warning>,
}

/// The document of an import.
pub fn import_document(
    imported: &Imported,
    analysis: &RunAnalysis,
    directory: &str,
) -> ImportDocument {
    let plan = Plan::deserialize(&imported.record.plan).ok();
    ImportDocument {
        format: FORMAT,
        record: directory.to_owned(),
        results: imported.results.clone(),
        tables: plan.map_or_else(Vec::new, |plan| reported_tables(&plan, analysis)),
        notes: imported.notes.clone(),
        left_out: imported.left_out.clone(),
        warnings: analysis.warnings.clone(),
    }
}

/// The published schema of [`ImportDocument`].
pub fn import_schema() -> serde_json::Value {
    schemars::schema_for!(ImportDocument).to_value()
}

/// The document of one diagnosis. `load` is what was asked, what came of it and its verdict; `None` where the load was
/// not ours.
pub fn diagnose_document(
    load: Option<(&LoadSpec, &LoadOutcome, &Verdict)>,
    examination: Option<&Examination>,
    diagnosis: &Diagnosis,
    on_copies: OnCopies<'_>,
) -> DiagnoseDocument {
    DiagnoseDocument {
        load: match load {
            Some((spec, outcome, verdict)) => {
                Loaded::Ours(Box::new(load_document(spec, outcome, verdict)))
            }
            None => Loaded::NotOurs { format: FORMAT },
        },
        diagnosed: Diagnosed::new(diagnosis, examination),
        watched: None,
        against: None,
        improvement: on_copies.improvement.cloned(),
        aa: on_copies.aa.cloned(),
    }
}

/// The document of one load.
pub fn load_document(spec: &LoadSpec, outcome: &LoadOutcome, verdict: &Verdict) -> LoadDocument {
    LoadDocument {
        format: FORMAT,
        verdict: verdict.clone(),
        asked: asked(spec),
        measured_s: outcome.measured().as_secs_f64(),
        interrupted: outcome.interrupted,
        requests: requests(outcome),
        by_request: by_request(outcome),
        by_piece: by_piece(spec, outcome),
        status: outcome
            .status
            .iter()
            .map(|(code, n)| (code.to_string(), *n))
            .collect(),
        rate_per_s: Rates {
            offered: spec.arrival.offered_per_s(),
            achieved: outcome.achieved_per_s(),
        },
        bytes: ByteCounts {
            received: outcome.received_bytes,
            sent: outcome.sent_bytes,
        },
        latency_ns: Latencies {
            response: LatencySummary::of(&outcome.response),
            service: LatencySummary::of(&outcome.service),
            connect: LatencySummary::of(&outcome.connect),
            first_byte: LatencySummary::of(&outcome.first_byte),
        },
        event_streams: event_streams(outcome),
        connections: outcome.connections.clone(),
        generator: generator(outcome),
        stack: load_stack(spec, outcome),
        replay: None,
        slo: None,
        search: None,
        agents: Vec::new(),
        histogram: outcome.response.to_base64(),
        warnings: outcome.warnings.clone(),
    }
}

/// The streams of a load of events; `None` of another.
pub(crate) fn event_streams(outcome: &LoadOutcome) -> Option<EventStreamFigures> {
    let streams = outcome.event_streams.as_ref()?;
    let seconds = outcome.measured().as_secs_f64();
    let counts = &outcome.successes_per_connection;
    let per_s = |events: Option<&u64>| Some(*events? as f64 / seconds);
    let extremes = per_s(counts.iter().min()).zip(per_s(counts.iter().max()));
    let per_stream = outcome.achieved_per_s().zip(extremes);
    Some(EventStreamFigures {
        opened: streams.opened,
        reopened: streams.reopened,
        ended: streams.ended,
        open: streams.open,
        comments: streams.comments,
        events_per_s: per_stream.map(|(all, (min, max))| PerStream {
            min,
            mean: all / counts.len() as f64,
            max,
        }),
        first_event_ns: LatencySummary::of(&streams.first_event),
        gap_ns: LatencySummary::of(&streams.gap),
        gap_histogram: streams.gap.to_base64(),
    })
}

/// What the stack of a load counted; `None` over the kernel's sockets.
pub fn load_stack(spec: &LoadSpec, outcome: &LoadOutcome) -> Option<LoadStack> {
    let side = outcome.generator.stack.as_ref()?;
    let counted = side.tcp.iter().chain(&side.link);
    let counted: BTreeMap<String, u64> = counted.map(|(name, n)| (name.clone(), *n)).collect();
    Some(LoadStack {
        transport: spec.transport.name().to_owned(),
        interface: spec.interface.clone().unwrap_or_default(),
        coalesce_ns: spec.gathering().unwrap_or_default().0,
        counters: analysis::traffic::rows(Some(&counted), None),
        ports: analysis::traffic::ports(side),
    })
}

fn asked(spec: &LoadSpec) -> LoadAsked {
    LoadAsked {
        url: spec.url.clone(),
        method: spec.method.clone(),
        connections: spec.connections,
        threads: spec.threads,
        duration_s: spec.duration.map(|d| d.as_secs_f64()),
        requests: spec.requests,
        warmup_s: spec.warmup.as_secs_f64(),
        arrival: match spec.arrival {
            _ if spec.timetable.is_some() => "listed",
            Arrival::Closed => "closed",
            Arrival::Constant { .. } => "constant",
            Arrival::Poisson { .. } => "poisson",
        }
        .to_owned(),
        rate_pieces: spec.rate_pieces.0.clone(),
        precision: spec.precision.name().to_owned(),
        requests_per_connection: spec.requests_per_connection,
        pipeline: spec.pipeline,
        http: spec.http.name().to_owned(),
        streams: spec.streams,
        grpc: spec.grpc,
        ws_binary: spec.ws_binary,
        sse: spec.sse,
        unix: spec.unix.clone(),
        proxy: spec.proxy.clone(),
        limit_rate_bytes_per_s: spec.limit_rate.map(|rate| rate.0),
        timeout_s: spec.timeout.as_secs_f64(),
    }
}

fn by_piece(spec: &LoadSpec, outcome: &LoadOutcome) -> Vec<PieceFigures> {
    let pairs = spec.rate_pieces.0.iter().zip(&outcome.by_piece);
    let figures = pairs.map(|(asked, piece)| PieceFigures {
        from_per_s: asked.from_per_s,
        to_per_s: asked.to_per_s,
        begin_s: piece.from.as_secs_f64(),
        end_s: piece.to.as_secs_f64(),
        sent: piece.sent,
        late: piece.late,
        dropped: piece.dropped,
        completed: piece.completed,
        succeeded: piece.succeeded,
        rate_per_s: piece.achieved_per_s(),
        failed: (piece.failed.iter())
            .map(|(kind, n)| (kind.name().to_owned(), *n))
            .collect(),
        response_ns: LatencySummary::of(&piece.response),
    });
    figures.collect()
}

fn by_request(outcome: &LoadOutcome) -> Vec<NamedRequests> {
    let seconds = outcome.measured().as_secs_f64();
    let named = outcome.by_request.iter().map(|named| {
        let failed = named.failed.iter();
        NamedRequests {
            name: named.name.clone(),
            sent: named.sent,
            completed: named.completed,
            succeeded: named.succeeded,
            rate_per_s: (seconds > 0.0 && named.succeeded > 0)
                .then(|| named.succeeded as f64 / seconds),
            failed: failed
                .map(|(kind, n)| (kind.name().to_owned(), *n))
                .collect(),
            failed_checks: named.failed_checks.clone(),
            response_ns: LatencySummary::of(&named.response),
        }
    });
    named.collect()
}

fn requests(outcome: &LoadOutcome) -> Requests {
    let counts = &outcome.requests;
    let failed = counts.failed.iter().filter(|(_, n)| **n > 0);
    Requests {
        scheduled: counts.scheduled,
        sent: counts.sent,
        completed: counts.completed,
        succeeded: counts.succeeded,
        late: counts.late,
        dropped: counts.dropped,
        retried: counts.retried,
        failed: failed
            .map(|(kind, n)| (FailureKind::name(*kind).to_owned(), *n))
            .collect(),
    }
}

fn generator(outcome: &LoadOutcome) -> Generator {
    let (cost, completed) = (&outcome.generator, outcome.requests.completed);
    let sum = |part: fn(&ThreadCost) -> u64| cost.threads.iter().map(part).sum::<u64>();
    let (user, system, spin) = (
        sum(|t| t.cpu_user_ns),
        sum(|t| t.cpu_system_ns),
        sum(|t| t.spin_ns),
    );
    let per_request = |n: f64| (completed > 0).then(|| n / completed as f64);
    Generator {
        engine: cost.engine.clone(),
        threads: u32::try_from(cost.threads.len()).unwrap_or(u32::MAX),
        cpu_user_s: user as f64 / 1e9,
        cpu_system_s: system as f64 / 1e9,
        spin_s: spin as f64 / 1e9,
        utilization: cost.utilization(),
        syscalls_per_request: per_request(cost.syscalls as f64),
        cpu_us_per_request: per_request((user + system).saturating_sub(spin) as f64 / 1e3),
        peak_rss_bytes: cost.peak_rss_bytes,
        schedule_lag_ns: schedule_lag(&cost.schedule_lag),
        pauses: cost.pauses.map(|pauses| GatheringPauses {
            count: pauses.count,
            mean_ns: pauses.mean_ns(),
            response_share_max: outcome.pause_share(),
        }),
    }
}

fn schedule_lag(lag: &Histogram) -> Option<ScheduleLag> {
    Some(ScheduleLag {
        p50: lag.quantile(0.5)?.0,
        p99: lag.quantile(0.99)?.0,
        max: lag.max()?.0,
    })
}

/// The document of a run; `directory` is where its record lies, `diagnoses` holds those of its trials by id.
pub fn run_document(
    record: &RunRecord,
    analysis: &RunAnalysis,
    directory: &str,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> RunDocument {
    let diagnosed = cells_diagnosed(record, analysis, diagnoses);
    // A record of another version may hold another plan; the document then does without it.
    let plan = Plan::deserialize(&record.plan).ok();
    let mut document = RunDocument {
        format: FORMAT,
        question: record.manifest.question.clone(),
        // Traffic has a verdict of its own, and no levels to compare.
        answer: record.traffic.is_none().then(|| Answered {
            answer: analysis::answer(record, analysis, diagnoses),
            lines: Vec::new(),
        }),
        verdict: analysis.verdict.clone(),
        cells_answered: analysis.cells_answered,
        cells_planned: analysis.cells_planned,
        capacity_per_s: analysis.capacity_per_s,
        searches: analysis.searches.clone(),
        trials: analysis.trials.clone(),
        comparisons: analysis.cells.clone(),
        knees: analysis.knees.clone(),
        diagnosis: best(analysis, &diagnosed)
            .map_or_else(Vec::new, |d| d.diagnosed.diagnosis.clone()),
        diagnosed,
        fairness: analysis.fairness.clone(),
        conclusion: Vec::new(),
        watched: plan
            .as_ref()
            .and_then(|plan| analysis::watched(record, plan.error_limit)),
        against: None,
        traffic: record.traffic.as_ref().map(|run| {
            let series = record.trials.first().map_or(&[][..], |t| &t.series);
            crate::traffic::document(run, series, directory)
        }),
        tables: analysis.tables.clone(),
        reported: plan
            .as_ref()
            .map_or_else(Vec::new, |plan| reported_tables(plan, analysis)),
        warnings: analysis.warnings.clone(),
        record: directory.to_owned(),
        interrupted: record.manifest.interrupted,
    };
    if let Some(answered) = &mut document.answer {
        let statements = conclusion::answer_statements(&answered.answer);
        answered.lines = statements;
    }
    if document.traffic.is_some() {
        return document;
    }
    let said = conclusion::sentences(&document, plan.as_ref());
    document.conclusion = said.iter().map(conclusion::Sentence::statement).collect();
    document
}

/// One for each examined cell: its first valid trial's, or its first where none is valid.
fn cells_diagnosed(
    record: &RunRecord,
    analysis: &RunAnalysis,
    diagnoses: &BTreeMap<u32, Diagnosis>,
) -> Vec<CellDiagnosed> {
    let diagnosed = |cell: &Cell| {
        let mut ids = cell.valid.iter().chain(&cell.trials);
        let (id, diagnosis) = ids.find_map(|id| Some((*id, diagnoses.get(id)?)))?;
        let trial = record.trials.iter().find(|t| t.id == id);
        Some(CellDiagnosed {
            stage: cell.stage.clone(),
            levels: cell.levels.clone(),
            trial: id,
            diagnosed: Diagnosed::new(diagnosis, trial.and_then(|t| t.examination.as_ref())),
        })
    };
    analysis.cells.iter().filter_map(diagnosed).collect()
}

/// The examined cell with the highest rate: what limits it, limits the server at its best. A proof's arms are copies.
fn best<'a>(analysis: &RunAnalysis, diagnosed: &'a [CellDiagnosed]) -> Option<&'a CellDiagnosed> {
    let rate = |d: &CellDiagnosed| {
        let mut cells = analysis.cells.iter();
        let cell = cells.find(|c| c.stage == d.stage && c.levels == d.levels);
        cell.and_then(|c| c.achieved_per_s)
            .map_or(0.0, |s| s.median)
    };
    let of_server = diagnosed.iter().filter(|d| d.stage != PROOF_STAGE);
    of_server.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// The published schema of [`LoadDocument`].
pub fn load_schema() -> serde_json::Value {
    schemars::schema_for!(LoadDocument).to_value()
}

/// The published schema of [`RunDocument`].
pub fn run_schema() -> serde_json::Value {
    schemars::schema_for!(RunDocument).to_value()
}

/// The published schema of [`CompareDocument`].
pub fn compare_schema() -> serde_json::Value {
    schemars::schema_for!(CompareDocument).to_value()
}

/// The published schema of [`DiagnoseDocument`].
pub fn diagnose_schema() -> serde_json::Value {
    schemars::schema_for!(DiagnoseDocument).to_value()
}
