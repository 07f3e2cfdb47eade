//! What another tool reported of a load or of a host: a summary, without the histogram that it was made of.
//!
//! An imported trial carries this in the place of an outcome. The rule of the whole type: what the tool did not say
//! is absent. So a figure is a row of a list and not a field with a default, and who reads one asks for it by name.
//! The surprise is [`ReportedFigure::rounding`]: a tool prints `1.11s`, which stands for anything from 1.105 s to
//! 1.115 s, and a gain computed from such figures cannot be sharper than that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool's latencies count from. Where it is not known, comparing them with response times is a guess.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LatencyBase {
    /// From the scheduled send: queueing in front of the server is inside (wrk2, vegeta).
    Scheduled,
    /// From the actual send of a closed loop: while the server stands still nothing is sent, and nothing is counted.
    Sent,
    /// From the actual send, with samples added afterwards for the requests that were not sent meanwhile (wrk).
    Corrected,
    /// The tool or the text does not say.
    #[default]
    Unknown,
}

impl LatencyBase {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            LatencyBase::Scheduled => "from the scheduled send",
            LatencyBase::Sent => "from the actual send, so a stall of the server counts once",
            LatencyBase::Corrected => "from the actual send, corrected afterwards",
            LatencyBase::Unknown => "from a point that is not stated",
        }
    }
}

/// How a change of a figure is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GainKind {
    /// `new / old - 1`: positive is more.
    #[default]
    Change,
    /// `old / new - 1`: positive is less, as a speed-up of a latency is given.
    SpeedUp,
}

/// One number that the tool printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportedFigure {
    /// Name: `rate_per_s`, `latency_ns.p99`, `failed.timeout`, `cpu.user`; the glossary lists them.
    pub name: String,
    /// Unit of the numbers: `1/s`, `ns`, `bytes`, `bytes/s`, `s`, `1` for counts, `%`; as in the text when unknown.
    pub unit: String,
    /// As printed, turned into `unit`.
    pub value: f64,
    /// Half of the last printed digit, in `unit`: the value was anywhere within this of the printed one.
    pub rounding: f64,
    /// Smallest and largest over several runs, where the source gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// How its change is given.
    #[serde(default)]
    pub gain: GainKind,
}

impl ReportedFigure {
    /// A figure without a range.
    pub fn new(name: impl Into<String>, unit: &str, value: f64, rounding: f64) -> Self {
        Self {
            name: name.into(),
            unit: unit.to_owned(),
            value,
            rounding,
            range: None,
            gain: GainKind::Change,
        }
    }
}

/// The summary of one result of another tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    /// `wrk`, `ab`, `vmstat`, ...; `table` for a table of a text. Several observed one load: joined by ` + `.
    pub tool: String,
    /// File that it was read from, as given.
    pub file: String,
    /// First and last line in the file, from 1.
    pub lines: (u32, u32),
    /// Command line found before it; empty when there was none.
    pub command: String,
    /// What its latencies count from.
    pub latency_base: LatencyBase,
    /// Everything that it said, in its order.
    pub figures: Vec<ReportedFigure>,
}

impl Reported {
    /// The figure of that name.
    pub fn figure(&self, name: &str) -> Option<&ReportedFigure> {
        self.figures.iter().find(|f| f.name == name)
    }

    /// Its value.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figure(name).map(|f| f.value)
    }

    /// Failed requests by all names that the tool has for them; `None` when it counts none at all.
    pub fn failures(&self) -> Option<f64> {
        let failed: Vec<f64> = self
            .figures
            .iter()
            .filter(|f| f.name.starts_with("failed."))
            .map(|f| f.value)
            .collect();
        (!failed.is_empty()).then(|| failed.iter().sum())
    }

    /// Requests that came to an end: as counted, else answers by status and failures; `None` when it counts neither.
    pub fn ended(&self) -> Option<f64> {
        let counted = |f: &&ReportedFigure| f.name.starts_with("status.");
        let answers: Vec<f64> = self
            .figures
            .iter()
            .filter(counted)
            .map(|f| f.value)
            .collect();
        let failures = self.failures();
        self.value("requests").or_else(|| {
            let any = !answers.is_empty() || failures.is_some();
            any.then(|| answers.iter().sum::<f64>() + failures.unwrap_or(0.0))
        })
    }

    /// Share of the requests that failed, 0 to 1; `None` when the tool does not say.
    pub fn error_share(&self) -> Option<f64> {
        if let Some(percent) = self.value("failed_share") {
            return Some(percent / 100.0);
        }
        let (failed, ended) = (self.failures()?, self.ended()?);
        let all = ended.max(failed);
        (all > 0.0).then_some(failed / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_said_is_absent() {
        let mut wrk = Reported::default();
        assert_eq!(wrk.value("rate_per_s"), None);
        assert_eq!((wrk.failures(), wrk.error_share()), (None, None));
        wrk.figures = vec![
            ReportedFigure::new("requests", "1", 200.0, 0.0),
            ReportedFigure::new("failed.timeout", "1", 3.0, 0.0),
            ReportedFigure::new("failed.non_2xx", "1", 1.0, 0.0),
        ];
        assert_eq!(wrk.failures(), Some(4.0));
        assert_eq!(wrk.error_share(), Some(0.02));
        let read: Reported = serde_json::from_str(&serde_json::to_string(&wrk).unwrap()).unwrap();
        assert_eq!(read, wrk);
    }
}
