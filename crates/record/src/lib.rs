//! What a measurement is made of: units, the histogram, samples and series, and the run record
//! with its file format.
//!
//! This crate stands at the bottom of the flow: every other crate speaks in its types. It opens no
//! file, socket or clock; [`run::RunRecord`] turns into named byte strings and back, and the `prony`
//! crate puts those on disk.

pub mod clock;
pub mod examination;
pub mod histogram;
pub mod hosts;
pub mod load;
mod merged;
pub mod pasted;
pub mod rate;
pub mod reported;
pub mod run;
pub mod series;
pub mod timetable;
pub mod traffic;
pub mod turns;
pub mod units;
pub mod watching;
pub mod workload;

pub use clock::{Clock, ManualClock};
pub use examination::{
    AllocatorStats, Answer, AskedRuntime, Blocked, CONSUMER, CallStats, ContainerPath, DirectPath,
    Directive, Examination, FdClass, FileStats, Forwarding, Frame, HeadSeen, InterpreterLock,
    PathFigures, PathPair, ProbeCost, Profile, ProfileKind, Question, Refusal, Server,
    ServerProcess, Signature, SocketStats, Stack, TargetSignature, Tier, UpstreamPeer,
    UpstreamStats, VersionFact, WaitState, Warming,
};
pub use histogram::{Histogram, HistogramError};
pub use hosts::{CarriedPart, ClockSeen, HostEnd, HostPart};
pub use load::{
    Arrival, Body, Carrier, Close, Connections, Contents, Engine, EventStreams, FailureKind,
    GeneratorCost, Habits, Http, Interval, LoadOutcome, LoadSpec, LoggedRequest, Part, Pauses,
    PieceOutcome, Precision, RequestCounts, RequestOutcome, ThreadCost,
};
pub use rate::{RateCourse, RatePiece, RatePieces};
pub use reported::{GainKind, LatencyBase, Reported, ReportedFigure};
pub use run::{
    EnvironmentItem, Manifest, MemoryStore, PROOF_STAGE, ProcessRecord, RanOn, RecordError,
    RunRecord, Store, TargetRecord, TrialRecord, TrialState,
};
pub use series::{Kind, Series, Unavailable};
pub use timetable::Timetable;
pub use traffic::{TrafficOutcome, TrafficRun, TrafficSpec};
pub use turns::{
    Asking, MetTold, NETWORK_WAIT, Place, PlaceSamples, PlaceTime, PlaceTold, SourceLine, Stalls,
    TargetTurns, TaskSamples, TaskSeen, ThreadLooks, ThreadTime, Told, ToldState, TurnAccount,
    TurnTail, Turns, stands_ready,
};
pub use units::{Bytes, Nanos, UnitError, parse_bytes, parse_count, parse_duration};
pub use watching::{Lookout, Overhead, OverheadPart, Second, TimeSpan, Watching};
pub use workload::{Think, Workload};

use serde::{Deserialize, Serialize};

/// Something a reader of a result must know: what was seen, its likely cause, and what to do.
///
/// Warnings are data: they are stored in the record and shown by every output format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Warning {
    /// Stable name, `snake_case`, for scripts.
    pub name: String,
    /// What was seen, with its numbers, and the likely cause. One or two sentences.
    pub seen: String,
    /// What to do about it; empty when nothing can be done.
    pub remedy: String,
}

impl Warning {
    /// A warning from its three parts.
    pub fn new(name: &str, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            seen: seen.into(),
            remedy: remedy.into(),
        }
    }
}
