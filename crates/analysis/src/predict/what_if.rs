//! What a change would bring, as data, and whether it did.

use crate::Metric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What taking a finding's row off would bring, said before anything is changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhatIf {
    /// The metric that a proof of the change would be judged by.
    pub metric: Metric,
    /// Metric with the change / without; `null` where nothing can be said.
    pub ratio: Option<f64>,
    /// Interval that should hold the measured ratio nine times in ten; it may be too wide for a number. It is of
    /// changes that mended what was named: a cause that is not the right one brings nothing.
    pub interval: Option<(f64, f64)>,
    /// The ratio by the model alone: when the row alone goes, and with all that belongs to it.
    pub net: Option<(f64, f64)>,
    /// The rate with the change / without, where the metric is another one.
    pub rate: Option<f64>,
    /// Who is full next.
    pub next_limit: Option<NextLimit>,
    /// What it takes: `row`, `calls`, `connections`, `wait`, `pace`, `cap`, `cores`; empty without a prediction.
    #[serde(default)]
    pub kind: String,
    /// How it was computed.
    pub model: String,
    /// The measured numbers that it stands on.
    pub basis: Vec<String>,
    /// Why no number is said; `null` where one is.
    pub withheld: Option<String>,
}

/// The place that is full when what limits now is out of the way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextLimit {
    /// `core`, `upstream`, `generator`, as stations are called.
    pub station: String,
    /// Targets there, comma-separated; empty for the generator.
    pub target: String,
    /// The rate at which it is full / the rate now: no change at the present limit brings more.
    pub at_ratio: f64,
}

/// A prediction beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// The metric of both.
    pub metric: Metric,
    /// Predicted ratio, as it was said before the proof; `null` where it was withheld.
    pub ratio: Option<f64>,
    /// Its interval of 90 %.
    pub interval: Option<(f64, f64)>,
    /// Measured ratio.
    pub measured: f64,
    /// Its interval.
    pub measured_interval: Option<(f64, f64)>,
    /// The measured ratio lies inside the predicted interval; `null` without one.
    pub within: Option<bool>,
    /// Why nothing was predicted.
    pub withheld: Option<String>,
}
