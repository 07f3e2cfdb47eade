//! The plan as every other crate sees it: plain data, stored as `plan.json` in the record.

use crate::hosts::HostSpec;
use crate::{Again, TableSpec};
use record::{Bytes, LoadSpec, Nanos, Warning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// Level of each factor by the factor's name, both as text.
pub type Levels = BTreeMap<String, String>;

/// A validated experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Hosts that loads are sent from or targets run on, and how to get there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostSpec>,
    /// Settings of the host that hold while it runs, and are put back after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tune: Option<crate::tuning::Profile>,
    /// What a reader of the plan must know before it runs.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Tables that the experiment wants beside one table for each stage.
    #[serde(default)]
    pub tables: Vec<TableSpec>,
    /// Size of the experiment that was chosen: `small`, or one of the file's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scale: String,
    /// Sizes that the file has, `small` first; one alone is the only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<String>,
    /// Cells that this host cannot run; their trials are not among the plan's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedCell>,
    /// How precise the result has to be; `None` runs the repeats and no more.
    #[serde(default)]
    pub until: Option<Until>,
    /// Longest that the plan may become, as the file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Nanos>,
    /// Trials that were added because programs outside the experiment took CPU in others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Again>,
}

/// A cell that is left out because the host lacks something that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedCell {
    /// Index into [`Plan::stages`].
    pub stage: usize,
    /// Level of each factor of the stage.
    pub levels: Levels,
    /// What is missing.
    pub reason: String,
    /// What would bring it.
    pub remedy: String,
}

/// Blocks are repeated until every interval is narrow enough: a rule about precision, not about what is found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Until {
    /// Half the width of the interval, as a share of the value: 0.01 is +-1 %.
    pub half_width: f64,
    /// Most blocks of a stage.
    pub most_repeats: u32,
    /// The plan's time (see [`Plan::time`]) may not grow beyond this; `None` leaves it to `most_repeats`.
    pub budget: Option<Nanos>,
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
    /// The last trial of each cell is examined: its servers are profiled, and what they do for a request is counted.
    #[serde(default = "examined")]
    pub examine: bool,
    /// The trials are the steps of a search, `block` being the step: such a stage has no cells and no repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchFor>,
    /// What its levels are compared by in the run's answer; absent: the rate of a closed loop, the p99 of an open one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
}

/// A figure that levels can be compared by, under its name in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// Successes per second.
    #[serde(rename = "rate_per_s")]
    Rate,
    /// The servers' CPU per request.
    #[serde(rename = "cpu_us_per_request")]
    Cpu,
    /// 99th percentile of the response time.
    #[serde(rename = "response_ns_p99")]
    P99,
}

/// What a stage searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchFor {
    /// The highest open-loop rate that holds. The rate of a step stands in its load as 0 until the steps before it
    /// have been judged.
    Rate,
}

fn examined() -> bool {
    true
}

/// What is varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor {
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
    /// Open loop: `load.arrival`'s rate is this share (0.9 = 90 %) of the rate that the last search before it found
    /// to hold, or without a search of the capacity that the closed-loop stages before it found; `None` when the rate
    /// is absolute.
    pub rate_of_capacity: Option<f64>,
    /// Hosts and links that the trial makes for itself; `None` runs where prony runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
    /// Interrupts to pin while the trial runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irqs: Vec<IrqPin>,
}

/// Interrupts of one device, or one interrupt, and the CPUs that shall take them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IrqPin {
    /// Name as /proc/interrupts shows it (`eth0` matches `eth0-rx-1`), or the number of one interrupt.
    pub device: String,
    /// CPUs, sorted.
    pub cpus: Vec<u32>,
}

/// Hosts as network namespaces, and the links between every two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// First address of the /16 that the hosts' addresses are of.
    pub network: Ipv4Addr,
    /// Addresses of the client.
    pub clients: u32,
    /// Names of the hosts, `client` first.
    pub hosts: Vec<String>,
    /// What holds for every link.
    pub all: Link,
    /// What holds for one link instead, by the names of its two hosts: `client-proxy`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Link>,
}

/// A link between two hosts, the same in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Largest packet, bytes; `None`: 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Initial congestion window of the routes over it, segments; `None`: the kernel's own (10, RFC 6928).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initcwnd: Option<u32>,
    /// Rate at which each end may send, bits per second; `None`: as fast as the CPU copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<u64>,
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
    pub kind: TargetKind,
    /// Address to listen on; port 0 takes a free one. Templates see it as `{{listen}}`, `{{address}}`, `{{port}}`.
    pub listen: SocketAddr,
    /// Host of the topology that it runs on; its own name when it is not said. Without a topology a `[host.NAME]` that
    /// is reached; `None` runs it where prony runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// CPUs to pin it to; empty does not pin.
    pub cpus: Vec<u32>,
    /// NUMA node whose CPUs and memory it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// What its control group allows it.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// Environment variables; the values are templates.
    pub env: BTreeMap<String, String>,
    /// Command put before the server's own, for example `["onload", "-p", "latency"]`. The words are
    /// templates, split at white space once filled in: a level may hold a whole wrapper, or none.
    pub wrap: Vec<String>,
    /// Path that answers below 400 when the server is ready; `None`: a listening port is enough.
    pub ready_path: Option<String>,
    /// Longest wait for readiness.
    pub ready_timeout: Nanos,
    /// Path of the server's own request counter: nginx `stub_status`, or prony's `/stats`. `None`: not asked.
    pub status_path: Option<String>,
    /// Files laid into the target's working directory before the start, by relative path.
    pub files: BTreeMap<String, FileContent>,
    /// Names for the template: the levels of all factors and whatever the experiment adds. They are templates too.
    pub values: BTreeMap<String, String>,
}

/// What a target may use at most: CPU time and memory by a control group, open files by its resource limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time in cores: 0.5 is 50 ms in every 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Memory, page cache included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Open files, soft and hard limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

impl Limits {
    /// Nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Content of a file that the experiment lays out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileContent {
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
        /// Distribution of the delay before an answer, in the syntax of `prony origin --delay`; a
        /// template, empty for none.
        delay: Option<String>,
        /// In the syntax of `prony origin --freeze`; a template, empty for none.
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
        /// `nginx`, `haproxy`, ...; see [`crate::adapters`].
        adapter: String,
        /// File name of the template as given, for messages.
        template_name: String,
        /// Text of the configuration template.
        template: String,
    },
}
