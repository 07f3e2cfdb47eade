//! Parts of a load that other hosts carried.

use crate::{LoadOutcome, Nanos, Part, Series, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of one host's part of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostPart {
    /// Its name.
    pub host: String,
    /// Of the kernel that ran it: two hosts with one are one machine.
    pub boot_id: String,
    /// Which load threads.
    pub part: Part,
    pub end: HostEnd,
}

/// How a host's part ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
// Not by a field among the others: serde reads no map with numbers for keys behind one.
#[serde(rename_all = "snake_case")]
pub enum HostEnd {
    /// It was carried to its end.
    Carried(Box<CarriedPart>),
    /// The host's prony would not.
    Refused { why: String, remedy: String },
    /// The host, or the connection to it, was lost.
    Lost {
        why: String,
        /// From the start of the load.
        after: Nanos,
    },
}

/// A part that was carried, all times by the clock of the host that asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarriedPart {
    pub outcome: LoadOutcome,
    /// What was watched of that host.
    pub series: Vec<Series>,
    /// What could not be watched there.
    pub unavailable: Vec<Unavailable>,
    /// By how much it started later than agreed, ns; negative for earlier.
    pub start_late_ns: i64,
    pub clock: ClockSeen,
}

/// A host's clock (CLOCK_MONOTONIC) against that of the host that asks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockSeen {
    /// Theirs less ours.
    pub offset_ns: i64,
    /// The offset is wrong by at most this.
    pub bound_ns: u64,
    /// By how much theirs runs faster, parts per million; `null` where it was looked at only once.
    pub rate_ppm: Option<f64>,
    /// The shortest way there and back.
    pub round_trip_ns: u64,
}

impl CarriedPart {
    /// A part whose times are of another clock, by ours.
    #[must_use]
    pub fn on_clock(mut self, ours: impl Fn(Nanos) -> Nanos) -> Self {
        self.outcome = self.outcome.on_clock(&ours);
        for at in self.series.iter_mut().flat_map(|series| &mut series.at_ns) {
            *at = ours(Nanos(*at)).0;
        }
        self
    }
}

impl HostPart {
    /// The part, when it was carried to its end.
    pub fn carried(&self) -> Option<&CarriedPart> {
        match &self.end {
            HostEnd::Carried(carried) => Some(carried),
            HostEnd::Refused { .. } | HostEnd::Lost { .. } => None,
        }
    }

    /// Why it was not carried to its end.
    pub fn failure(&self) -> Option<String> {
        match &self.end {
            HostEnd::Carried(_) => None,
            HostEnd::Refused { why, .. } => Some(why.clone()),
            HostEnd::Lost { why, after } => Some(format!("{why}, {after} after the start")),
        }
    }
}
