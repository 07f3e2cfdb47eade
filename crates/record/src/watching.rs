//! What was watched of traffic that was there already, in place of a load of our own.
//!
//! The *window of observation* stands where a load has its measured part: growth of counters is taken over it. Nothing
//! but samplers ran in it. Requests are counted in a pass of its own behind it, and carried to the window by a counter
//! that ran through both, so that no rate is one of a server with probes.

use crate::{Nanos, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Traffic that was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Watching {
    /// The window of observation, on the run's clock.
    pub window: TimeSpan,
    /// The pass that counted requests; `None` when none was made.
    #[serde(default)]
    pub counted: Option<TimeSpan>,
    /// What watching took of the host's CPU; `None` when it was not measured.
    #[serde(default)]
    pub overhead: Option<Overhead>,
    /// What was looked for over the time, second by second; `None` when one window was watched.
    #[serde(default)]
    pub lookout: Option<Lookout>,
}

/// From one time to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSpan {
    /// Start.
    pub from: Nanos,
    /// End.
    pub to: Nanos,
}

impl TimeSpan {
    /// Its length.
    pub fn length(&self) -> Nanos {
        self.to.since(self.from)
    }

    /// Whether a time lies in it, its ends included.
    pub fn holds(&self, at: u64) -> bool {
        (self.from.0..=self.to.0).contains(&at)
    }
}

/// What watching took of the host's CPU, against what it may take. Shares are of all CPUs of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overhead {
    /// The most that it may take.
    pub budget: f64,
    /// What it took over the whole time: the sum of `parts`.
    pub share: f64,
    /// CPUs of the host.
    pub cpus: u32,
    /// Time over which it was spent, ns.
    pub elapsed_ns: u64,
    /// Where it went.
    pub parts: Vec<OverheadPart>,
    /// CPU time of this process after the watching, in which stacks are followed and named; not in `share`, ns.
    pub afterwards_ns: u64,
    /// What was done to hold the budget, in words.
    pub held_by: Vec<String>,
}

/// A part of what watching took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OverheadPart {
    /// `process`: prony's own threads; `probes`: BPF programs in the kernel; `samples`: stacks that the kernel copied.
    pub what: String,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// How it is known: `measured`, or `estimated` from the number of events.
    pub known: String,
}

/// A watch over a longer time, second by second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lookout {
    /// What makes a second slow, as a person gave it; empty: a second that differs from the others.
    pub when: String,
    /// The seconds, oldest first.
    pub seconds: Vec<Second>,
    /// What could not be seen by the second.
    pub unavailable: Vec<Unavailable>,
}

/// One second (or a little more, where sampling was late).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// When.
    pub span: TimeSpan,
    /// Values by signal; a signal that could not be read is absent.
    pub values: std::collections::BTreeMap<String, f64>,
    /// It was slow: why, in words; empty for a normal one.
    #[serde(default)]
    pub slow: String,
    /// Probes were armed in it, so that its times are not the server's own.
    #[serde(default)]
    pub probed: bool,
}
