//! What the analysis says, as data: every output format shows these values and computes none.

use crate::{AgentFigures, AgentState};
use plan::Levels;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which side limits a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The server, one of its workers, its backend or its queue.
    Server,
    /// prony's own load threads.
    Generator,
    /// Nothing: the offered load was met with room to spare, or a closed loop with too few connections to
    /// saturate anything.
    OfferedLoad,
    /// The path between the two.
    Network,
    /// No evidence names one side.
    Unknown,
}

impl Limit {
    /// Name in JSON, tables and the glossary.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Server => "server",
            Limit::Generator => "generator",
            Limit::OfferedLoad => "offered_load",
            Limit::Network => "network",
            Limit::Unknown => "unknown",
        }
    }
}

/// A number that carries a conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Signal, by the name of the series or of the result, with its labels: `thread.utilization{name=nginx,pid=7}`.
    pub signal: String,
    /// Value; `null` where it could not be had.
    pub value: Option<f64>,
    /// Unit of value and threshold; `1` for a share.
    pub unit: String,
    /// What it was held against; `None` when it only informs.
    pub threshold: Option<f64>,
    /// Where it was read.
    pub source: String,
}

/// What limits one trial (or one `prony load`), and whether its figures may be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The figures may be used as the server's.
    pub valid: bool,
    /// The limiting side.
    pub limit: Limit,
    /// One or two sentences with the numbers: what limits, or why the result is not valid. Names the
    /// worker, backend or queue when one is known.
    pub why: String,
    /// What to do next; empty when nothing follows.
    pub remedy: String,
    /// The resource that limits: `worker`, `backend`, `listen_queue`, `connections`, `generator`, `host_cpu`, ...;
    /// empty when unknown.
    pub resource: String,
    /// The numbers behind it, most telling first.
    pub evidence: Vec<Evidence>,
}

/// Summary of a latency distribution, ns. All zero never happens: without a success there is no summary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Smallest.
    pub min: u64,
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// 99.99th percentile.
    pub p9999: u64,
    /// Largest.
    pub max: u64,
    /// Standard deviation.
    pub stddev: f64,
}

/// CPU of one thing over the measured part of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Target's name, or `generator`, or `host`.
    pub owner: String,
    /// `core 0`, `nginx 1234` (a process), `nginx 1234/1240` (a thread).
    pub name: String,
    /// Share of one core busy, 0 to 1 (more than 1 for a process with several threads).
    pub utilization: f64,
    /// Share by mode: `user`, `system`, and for cores `softirq`, `irq`, `steal`, `idle`, `iowait`, `nice`.
    pub by_mode: BTreeMap<String, f64>,
    /// Share of the time that it waited for a CPU; `None` for cores.
    pub run_queue_wait: Option<f64>,
    /// Requests that it served, when the server counts by worker.
    pub requests: Option<u64>,
}

/// Whether the measured part was in steady state, once the warm-up that reached into it is cut off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Steady {
    /// Tested and found steady.
    pub steady: bool,
    /// Relative change of the rate from the first to the second half.
    pub drift: f64,
    /// Coefficient of variation of the rate over the intervals.
    pub variation: f64,
    /// Warm-up at the start of the measured part that is not counted in `rate_per_s`, s (MSER-5); always 0 in an open
    /// loop.
    #[serde(default)]
    pub dropped_s: f64,
    /// Successes per second of the rest; `null` without one.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
}

/// One trial's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialAnalysis {
    /// Number in the plan.
    pub id: u32,
    /// Stage's name.
    pub stage: String,
    pub block: u32,
    /// Level of each factor.
    pub levels: Levels,
    /// Whether it may be used and what limits it.
    pub verdict: Verdict,
    /// Requests per second that were offered; `None` in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Successes per second of the steady part (see [`Steady`]); `None` without one.
    pub achieved_per_s: Option<f64>,
    /// Response time (from the scheduled send); `None` without a success.
    pub response_ns: Option<LatencySummary>,
    /// Service time (from the actual send).
    pub service_ns: Option<LatencySummary>,
    /// Share of failed requests, 0 to 1; `None` where no request came to an end, or no tool counted them.
    pub error_share: Option<f64>,
    /// The generator's CPU per completed request, microseconds; spinning left out.
    pub generator_cpu_us_per_request: Option<f64>,
    /// The most of the mean response time that the generator's pauses can be, 0 to 1; `None` where they were not
    /// counted.
    pub pause_share: Option<f64>,
    /// CPU of all target processes per completed request, microseconds.
    pub target_cpu_us_per_request: Option<f64>,
    /// The generator's busiest thread, 0 to 1; `None` where no thread of ours has loaded.
    pub generator_utilization: Option<f64>,
    /// CPU that programs outside the experiment took while it measured, in cores; `None` where that was not watched, or
    /// for too short a time to tell.
    #[serde(default)]
    pub foreign_cores: Option<f64>,
    /// The trial that measured this one again, because programs outside the experiment took CPU in it; its figures
    /// stand in the cell in place of these.
    #[serde(default)]
    pub replaced_by: Option<u32>,
    /// A person stopped it before its end: it speaks neither for its cell nor against it.
    #[serde(default)]
    pub interrupted: bool,
    /// Requests that the server counted divided by those that the generator completed, warm-up included;
    /// `None` when the server does not count.
    pub counted_by_server: Option<f64>,
    /// What each host brought, of a load from several; empty for one of this host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentFigures>,
    /// Cores, processes and threads that mattered.
    pub usage: Vec<Usage>,
    /// Steady state; `None` when the trial is too short to test.
    pub steady: Option<Steady>,
    /// What another tool reported, for an imported trial: its figures are that tool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<record::Reported>,
    /// Little's law: connections in use by rate x service time, divided by connections asked (closed loop);
    /// 1 when it closes.
    pub littles_law: Option<f64>,
}

impl TrialAnalysis {
    /// CPU of other programs, in cores, above which a trial is measured again and no gain is taken from it.
    pub const DISTURBED_CORES: f64 = 0.1;

    /// Programs outside the experiment took so much CPU that its figures are not those of the experiment alone, or a
    /// host of the load was lost: it is worth measuring again.
    pub fn is_disturbed(&self) -> bool {
        self.foreign_cores > Some(Self::DISTURBED_CORES) || self.has_lost_host()
    }

    /// A host did not carry its part of the load.
    pub fn has_lost_host(&self) -> bool {
        let lost = |agent: &AgentFigures| !matches!(agent.state, AgentState::Carried(_));
        self.agents.iter().any(lost)
    }
}

/// Median and spread over the valid trials of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Too few trials for any.
    None,
    /// Hodges-Lehmann estimate with the interval of Wilcoxon's signed ranks (pairs) or rank sum (two records): assumes
    /// nothing of the noise.
    Rank,
    /// Mean of the logarithms with the interval of Student's t (Welch's for two records), where the ranks of so few
    /// trials cannot reach 5 %: assumes normal noise.
    StudentT,
}

/// Ratio to the baseline over paired trials of the same block, or of the trials of one record to those of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Estimate of the ratio, by the method that made the interval; without one that of Hodges and Lehmann.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Pairs; for two records the trials of the one that has fewer.
    pub pairs: u32,
    /// Probability that the interval covers the true ratio: at least 0.95 from three pairs on, 0 with fewer, whose
    /// `low` and `high` are their range.
    pub coverage: f64,
    /// How the interval was made.
    #[serde(default = "no_method")]
    pub method: Method,
    /// Probability of a ratio as far from 1, both ways, where nothing differs; `null` with fewer than three pairs.
    #[serde(default)]
    pub p: Option<f64>,
    /// The same for the most conspicuous of all comparisons of its family, by Holm's procedure: a difference is seen
    /// where this is at most 0.05.
    #[serde(default)]
    pub p_adjusted: Option<f64>,
    /// Relative difference that this design would have found four times in five (0.02: a ratio of 1.02 or 1/1.02), at
    /// the level that the correction for the family leaves.
    #[serde(default)]
    pub smallest_effect: Option<f64>,
}

fn no_method() -> Method {
    Method::None
}

impl Ratio {
    /// Two pairs span an interval that covers the true ratio every other time, and one pair spans none.
    const FEWEST_PAIRS: u32 = 3;

    /// Lower and upper end, when there are pairs enough to speak of an interval.
    pub fn interval(&self) -> Option<(f64, f64)> {
        (self.pairs >= Self::FEWEST_PAIRS).then_some((self.low, self.high))
    }

    /// Half the width of the interval as a relative difference: 0.01 for a ratio that is known to 1 %.
    pub fn half_width(&self) -> Option<f64> {
        let (low, high) = self.interval()?;
        (low > 0.0).then(|| (high / low).sqrt() - 1.0)
    }

    /// A difference that is there after the correction for several comparisons; `None` where none could be tested.
    pub fn differs(&self) -> Option<bool> {
        self.p_adjusted.map(|p| p <= crate::contrast::ALPHA)
    }
}

/// All trials with the same stage and levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Stage's name.
    pub stage: String,
    pub levels: Levels,
    /// Trials planned.
    pub planned: u32,
    /// Trials that ended.
    pub trials: Vec<u32>,
    /// Those of them that are valid and were not measured again; the figures below are theirs alone.
    pub valid: Vec<u32>,
    /// Those in whose place another trial stands, because programs outside the experiment took CPU in them.
    #[serde(default)]
    pub replaced: Vec<u32>,
    /// Why the cell has no figures: fewer than half of its trials are valid, or fewer than three (of fewer trials: not
    /// all). Invalid trials are those in which more went wrong, so the few that are left would be a selection. `null`
    /// where it has figures.
    #[serde(default)]
    pub not_measured: Option<String>,
    pub offered_per_s: Option<Spread>,
    /// Successes per second, of the steady part of each trial (see [`Steady`]).
    pub achieved_per_s: Option<Spread>,
    /// Longest warm-up within the measured part that the rates of the used trials leave out, s. Where it is above 0,
    /// the rate is of a shorter window than p50, p99 and CPU, which are of the whole measured part; 0: all are of one
    /// window; `null`: no trial was long enough to be tested.
    #[serde(default)]
    pub rate_dropped_s: Option<f64>,
    /// Median response time, ns.
    pub response_ns_p50: Option<Spread>,
    /// 99th percentile of the response time, ns.
    pub response_ns_p99: Option<Spread>,
    /// CPU of the targets per request, microseconds.
    pub target_cpu_us_per_request: Option<Spread>,
    /// What limits the cell's trials: the verdict of the median trial (by rate) among those that name the
    /// limit on which at least four of five agree, else `unknown`;
    /// of the first invalid trial where the cell is not measured.
    pub verdict: Option<Verdict>,
    /// Why there are no ratios below although there is a baseline: fewer than three pairs of valid trials in which no
    /// more than 0.1 core was taken by other programs. `null` where there are, and for the baseline itself.
    #[serde(default)]
    pub no_ratio: Option<String>,
    /// Rate divided by the baseline's; `None` for the baseline itself and without one.
    pub rate_ratio: Option<Ratio>,
    /// p99 divided by the baseline's.
    pub p99_ratio: Option<Ratio>,
    /// Median response time divided by the baseline's.
    #[serde(default)]
    pub p50_ratio: Option<Ratio>,
    /// CPU of the targets per request divided by the baseline's.
    #[serde(default)]
    pub cpu_ratio: Option<Ratio>,
}

impl Cell {
    /// It has figures.
    pub fn is_measured(&self) -> bool {
        self.not_measured.is_none()
    }

    /// The trials that its figures are of; none where it is not measured.
    pub fn used(&self) -> &[u32] {
        if self.is_measured() { &self.valid } else { &[] }
    }

    /// Trials that count for it: those that ended, but for those that were measured again.
    pub fn counted(&self) -> usize {
        self.trials.len() - self.replaced.len()
    }
}

/// Where a stage's curve bends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// Stage's name.
    pub stage: String,
    /// Levels of the factors that stay the same along the curve.
    pub levels: Levels,
    /// `connections` (closed loop) or `offered_per_s` (open loop).
    pub axis: String,
    /// The last load at which more load still paid.
    pub at: f64,
    pub achieved_per_s: f64,
    /// p99 there, ns; `null` where no latency is known, as of some results of other tools.
    pub response_ns_p99: Option<f64>,
    /// How it was found, in one sentence.
    pub method: String,
}

/// How well a stage could compare its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Stage's name.
    pub stage: String,
    /// Cells whose rate was tested against the baseline's: the family that p-values are corrected for.
    pub comparisons: u32,
    /// The largest of the smallest differences of the rate that its comparisons would have found (see [`Ratio`]).
    pub smallest_effect: Option<f64>,
    /// Relative standard deviation of a trial's rate, from the distances between successive trials of one cell.
    pub trial_noise: Option<f64>,
    /// A/A comparisons: twins of a baseline.
    pub twins: u32,
    /// Those of them that differ, which is the host's doing.
    pub twins_differ: u32,
    /// The twin that is farthest from its baseline.
    pub twin_ratio: Option<Ratio>,
    /// Largest share of the CPU that the hypervisor took in a trial; `null` when it was not watched.
    pub steal: Option<f64>,
    /// How far the mean CPU frequency differs between trials; `null` where the host does not show it.
    pub frequency_spread: Option<f64>,
    /// Warm-up at the start of the measured parts that is not in the rates, s, over all valid trials.
    pub dropped_s: f64,
    /// Length of their measured parts, s.
    pub measured_s: f64,
    /// Valid trials that were not in steady state.
    pub unsteady: Vec<u32>,
    /// Valid trials too short to be tested for it.
    pub untested: u32,
    /// How far a run that repeats until it is precise has come; `null` for any other.
    pub precision: Option<Precision>,
    /// All of it that a reader should know, in sentences.
    pub said: Vec<String>,
}

/// How precise a stage is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// Half the width that every interval shall have, as a share (0.01 is +-1 %).
    pub asked: f64,
    /// Half the width of the widest; `null` before there is an interval.
    pub reached: Option<f64>,
    /// Levels of the cell that has it.
    pub widest: Levels,
    /// Blocks that were run.
    pub blocks: u32,
    /// Blocks that it takes about, from the width so far.
    pub blocks_needed: Option<u32>,
    /// Every interval is narrow enough, and there are six blocks or more.
    pub met: bool,
    /// No cell is valid often enough to have an interval: more blocks will not help.
    pub hopeless: bool,
    /// The same in words.
    pub why: String,
}

/// A run's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunAnalysis {
    /// Overall: what limits the server at its best, and whether the run answers its question.
    pub verdict: Verdict,
    /// Cells that have figures.
    #[serde(default)]
    pub cells_answered: u32,
    /// Cells of the plan; the arms of a proof are none.
    #[serde(default)]
    pub cells_planned: u32,
    /// Highest valid closed-loop rate (median of its cell), per second.
    pub capacity_per_s: Option<f64>,
    /// Searches for the highest open-loop rate that holds. Their steps are not among `trials`.
    #[serde(default)]
    pub searches: Vec<crate::Search>,
    /// One entry per stage and combination of levels, in the order of the file.
    pub cells: Vec<Cell>,
    /// Knees found.
    pub knees: Vec<Knee>,
    /// Trials, by id.
    pub trials: Vec<TrialAnalysis>,
    /// How well each stage could compare its cells.
    #[serde(default)]
    pub fairness: Vec<Fairness>,
    /// What a reader of the run must know.
    pub warnings: Vec<record::Warning>,
    /// Tables that the experiment asks for, in the order of the file.
    #[serde(default)]
    pub tables: Vec<crate::Table>,
}
