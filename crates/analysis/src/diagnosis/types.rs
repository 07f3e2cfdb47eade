//! What a diagnosis says, as data.

use super::signature_diff::CallChange;
use crate::predict::{Calibrated, Held, WhatIf};
use crate::{Evidence, Metric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a cause has been shown.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A change was measured and the mechanism did not follow.
    Refuted,
    /// Required signals are there, supporting ones are missing or could not be seen.
    Suspected,
    /// Required and supporting signals are there, nothing contradicts.
    Supported,
    /// The change was measured: metric, mechanism and control behaved as predicted.
    Proved,
}

/// One change of a configuration that a remedy proposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Where: `/etc/nginx/nginx.conf:31`; empty when the directive is not set anywhere.
    pub place: String,
    /// Section that it belongs to: `http`, `upstream backend`; empty when that does not matter.
    pub context: String,
    /// That section with those around it, outermost first.
    #[serde(default)]
    pub sections: Vec<String>,
    /// Directive as it is now; empty when it is the server's default.
    pub from: String,
    /// Directive as proposed.
    pub to: String,
}

/// What a measured A/B said of a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// `proved`, `not_proved`, `worse`, `not_possible`, or `stopped` before it could be judged.
    pub result: String,
    /// In one or two sentences, with the numbers.
    pub why: String,
    /// The one metric that decides, named before the first load; `null` where nothing was measured.
    #[serde(default)]
    pub judged_by: Option<JudgedBy>,
    /// The change that was made.
    pub changes: Vec<Change>,
    /// What was measured, by role: the metric, the mechanism's signal, the control, the other metrics, the twins.
    pub evidence: Vec<ProofRatio>,
    /// Calls per request that differ between the two, largest difference first.
    #[serde(default)]
    pub calls: Vec<CallChange>,
    /// What was predicted of the metric, beside what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Held>,
}

/// The metric that a proof is judged by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedBy {
    pub metric: Metric,
    /// Why this one, in a few words: what it follows from.
    pub why: String,
}

/// One quantity of a proof.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofRatio {
    /// `metric` and `against_twin`: what decides, against each copy without the change; `mechanism`, `control`;
    /// `secondary`: a metric that must not get worse; `noise`: the twins (A/A); `put_back`: with the fault back,
    /// against the change.
    pub role: String,
    pub signal: String,
    /// Unit of both values.
    pub unit: String,
    /// Median without the change.
    pub before: f64,
    /// Median with it.
    pub after: f64,
    /// Hodges-Lehmann estimate of after / before over the pairs, or their quotient for counts; `None` when `before`
    /// is 0.
    pub ratio: Option<f64>,
    /// Its interval; `None` when there were too few pairs, or for counts.
    pub interval: Option<(f64, f64)>,
    /// It behaved as the cause predicts.
    pub as_predicted: bool,
}

/// A cause that holds, with everything that speaks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name in the catalogue; `none` for a healthy server, `unlabelled` for a row of the ledger that no cause explains,
    /// `unknown` where the evidence does not reach.
    pub cause: String,
    /// Of `none`: `healthy_cpu_bound`, `healthy_underloaded` or `too_few_connections`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Title in the catalogue.
    pub title: String,
    /// Target that it concerns; empty for the host, the client or the path between.
    pub target: String,
    /// 0 to 1: the share of recorded cases that were right where `calibrated` is there; else the rules' own score,
    /// which is no frequency.
    pub confidence: f64,
    /// The recorded cases that the confidence was learned from; left out where there were too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<Calibrated>,
    /// How far it has been shown.
    pub status: Status,
    /// In one or two sentences with the numbers: what happens and why it costs.
    pub why: String,
    /// The numbers, most telling first.
    pub evidence: Vec<Evidence>,
    /// What to do, in that server's own words.
    pub remedy: String,
    /// The remedy as changes of the configuration, where it could be read.
    pub changes: Vec<Change>,
    /// Largest gain that removing it could bring: share of the limiting resource's time (0 to 1) that it takes;
    /// `None` when no bound is known.
    pub gain_bound: Option<f64>,
    /// Why that bound is not known, where it decides whether a change is worth it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_unknown: Option<String>,
    /// A change would bring enough to be measured. False: true, but not worth changing, or its gain is not known.
    pub worth_changing: bool,
    /// What the change would bring, before anything is changed; left out where no change is worth it.
    #[serde(
        default,
        rename = "prediction",
        skip_serializing_if = "Option::is_none"
    )]
    pub predicted: Option<WhatIf>,
    /// The measured proof.
    pub proof: Option<Proof>,
}

impl Finding {
    /// A change may bring something: enough to be measured, or it is not known how much.
    pub fn may_gain(&self) -> bool {
        self.worth_changing || self.gain_unknown.is_some()
    }
}

/// A cause that was considered and does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// Name in the catalogue.
    pub cause: String,
    /// Title in the catalogue.
    pub title: String,
    /// Target; empty for the host or the client.
    pub target: String,
    /// The number that speaks against it.
    pub why: String,
}

/// A cause that could not be judged, because a signal is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// Name in the catalogue.
    pub cause: String,
    /// Target; empty for the host or the client.
    pub target: String,
    /// Signals that were missing.
    pub signals: Vec<String>,
    /// Why, and what would make them available.
    pub why: String,
}

/// Where the time of a request goes, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Station {
    /// `generator`, `worker`, `core`, `upstream`, `blocked`, `listen_queue`, `client_path`, `limit`, `none`, `unknown`.
    pub name: String,
    /// Target or core; empty when it does not apply.
    pub target: String,
    /// In one sentence with the numbers.
    pub why: String,
}

/// What was found about one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Who is the limit.
    pub station: Station,
    /// Causes that hold, most likely first; the first is `none` for a healthy server, CPU-bound by its own work or
    /// underloaded, `unlabelled` where the largest part of the time is known and no cause explains it, and `unknown`
    /// where the evidence does not reach.
    pub findings: Vec<Finding>,
    /// Causes that do not hold although something pointed to them.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that could not be judged.
    pub unseen: Vec<Unseen>,
    /// Share of the limiting resource's time that no finding explains, 0 to 1; `None` when it cannot be told.
    pub unexplained: Option<f64>,
    /// Where the time went; `None` where none of it was seen.
    #[serde(default)]
    pub ledger: Option<crate::Ledger>,
    /// Every fact that was known, for `--json` and the page.
    pub facts: Vec<FactValue>,
    /// Best tier of the probes, by name.
    pub tier: String,
}

/// A fact with its value, as the rules saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FactValue {
    /// Name: `read.upstream.useful_per_request`.
    pub name: String,
    /// Target; empty for the host, the client and the run.
    pub target: String,
    /// Value; `None` when it could not be known.
    pub value: Option<f64>,
    /// Unit; `1` for a share or a plain number.
    pub unit: String,
    /// Where it comes from, or why there is no value.
    pub source: String,
}
