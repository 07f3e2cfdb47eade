//! The plan as every other crate sees it: plain data, stored as `plan.json` in the record.

use record::{Bytes, LoadSpec, Nanos, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Level of each factor by the factor's name, both as text.
pub type Levels = BTreeMap<String, String>;

/// A validated experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What the experiment is to answer.
    pub question: String,
    /// Stages in the order in which they run. A stage's blocks are done before the next stage starts.
    pub stages: Vec<Stage>,
    /// Trials in the order in which they run.
    pub trials: Vec<TrialPlan>,
    /// Seed of the order within the blocks.
    pub seed: u64,
    /// Largest share of failed requests (0 to 1) for a trial to be valid.
    pub error_limit: f64,
    /// What a reader of the plan must know before it runs.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

/// Trials that belong together and are compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Name; `main` when the file has no stages.
    pub name: String,
    /// Factors in the order of the file.
    pub factors: Vec<Factor>,
    /// Levels of the baseline: a subset of the factors. A cell is compared with the cell that has these
    /// levels and is otherwise equal. Empty: nothing to compare with.
    pub baseline: Levels,
    /// Trials per cell, one per block.
    pub repeats: u32,
}

/// What is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
    /// Name.
    pub name: String,
    /// Levels as text, in the order of the file.
    pub levels: Vec<String>,
}

/// One trial, completely resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialPlan {
    /// Number, from 0, unique in the plan; also the order.
    pub id: u32,
    /// Index into [`Plan::stages`].
    pub stage: usize,
    /// Block (repeat), from 0.
    pub block: u32,
    /// Level of each factor of the stage.
    pub levels: Levels,
    /// Targets to run, in the order in which they start (a proxy after its backend).
    pub targets: Vec<TargetSpec>,
    /// The load. Its URL names a target (`http://backend/`) or an outside address.
    pub load: LoadSpec,
    /// Open loop: `load.arrival`'s rate is this share (0.9 = 90 %) of the capacity found by the earlier
    /// closed-loop stages of this run; `None` when the rate is absolute.
    pub rate_of_capacity: Option<f64>,
}

impl TrialPlan {
    /// Time that the trial takes by plan: warm-up, measurement, and a second to start and stop.
    pub fn time(&self) -> Nanos {
        self.load.warmup + self.load.duration.unwrap_or(Nanos::from_secs(10)) + Nanos::SECOND
    }
}

/// A system under test, or a part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// Name in the experiment; the host part of a URL may name it.
    pub name: String,
    /// What it is.
    pub kind: TargetKind,
    /// Address to listen on; port 0 takes a free one. Templates see it as `{{listen}}`, `{{address}}`, `{{port}}`.
    pub listen: SocketAddr,
    /// CPUs to pin it to; empty does not pin.
    pub cpus: Vec<u32>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Command put before the server's own, for example `["onload", "-p", "latency"]`.
    pub wrap: Vec<String>,
    /// Path that answers below 400 when the server is ready; `None`: a listening port is enough.
    pub ready_path: Option<String>,
    /// Longest wait for readiness.
    pub ready_timeout: Nanos,
    /// Path of the server's own request counter: nginx `stub_status`, or prony's `/stats`. `None`: not asked.
    pub status_path: Option<String>,
    /// Files laid into the target's working directory before the start, by relative path.
    pub files: BTreeMap<String, FileContent>,
    /// Names for the template: the levels of all factors and whatever the experiment adds.
    pub values: BTreeMap<String, String>,
}

/// Content of a file that the experiment lays out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
    /// This text.
    Text(String),
    /// This many bytes of incompressible filling.
    Size(Bytes),
}

/// What kind of target it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TargetKind {
    /// The built-in server, `prony origin`, as a process of its own.
    Origin {
        /// Threads; each has its own listening socket.
        threads: u32,
        /// Distribution of the delay before an answer, in the syntax of `prony origin --delay`.
        delay: Option<String>,
        /// In the syntax of `prony origin --freeze`.
        freeze: Option<String>,
        /// Size of the answer to `/`.
        body: Bytes,
    },
    /// Any command that serves in the foreground; its words are templates.
    Command {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// A server that prony knows how to start, watch and stop.
    Adapter {
        /// `nginx`.
        adapter: String,
        /// File name of the template as given, for messages.
        template_name: String,
        /// Text of the configuration template.
        template: String,
    },
}
