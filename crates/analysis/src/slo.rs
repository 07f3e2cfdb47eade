//! A service level as it is typed, `p99<5ms,errors<0.1%`, and whether a load kept it.
//!
//! The surprise: a figure that was not measured breaks its term. A load without a success has no p99, and keeps none.

use crate::LatencySummary;
use crate::validity::error_share;
use crate::words::{percent, rate};
use record::{LoadOutcome, Nanos, parse_count, parse_duration};
use std::fmt;
use std::str::FromStr;

/// What a term is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    /// A figure of the response time, by its name in results.
    Response(&'static str),
    /// Share of the requests sent that failed or were dropped.
    Errors,
    /// Successes per second.
    Rate,
}

type Pick = fn(&LatencySummary) -> f64;

const RESPONSES: [(&str, Pick); 9] = [
    ("mean", |s| s.mean),
    ("p50", |s| s.p50 as f64),
    ("p75", |s| s.p75 as f64),
    ("p90", |s| s.p90 as f64),
    ("p95", |s| s.p95 as f64),
    ("p99", |s| s.p99 as f64),
    ("p999", |s| s.p999 as f64),
    ("p9999", |s| s.p9999 as f64),
    ("max", |s| s.max as f64),
];

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Term {
    metric: Metric,
    /// The figure has to lie above the bound, not below it.
    above: bool,
    /// In ns, as a share, or per second.
    bound: f64,
}

/// Conditions that a load has to keep, all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Slo(Vec<Term>);

/// Why a text is no service level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a condition such as p99<5ms, errors<0.1% or rate>10k; known are mean, p50, p75, p90, p95, p99, p999, p9999, max, errors and rate"
)]
pub struct BadSlo(String);

impl FromStr for Slo {
    type Err = BadSlo;

    fn from_str(text: &str) -> Result<Self, BadSlo> {
        let terms = text
            .split(',')
            .map(|part| term(part).ok_or_else(|| BadSlo(part.trim().to_owned())));
        terms.collect::<Result<_, _>>().map(Slo)
    }
}

fn term(text: &str) -> Option<Term> {
    let (name, value, above) = match (text.split_once('<'), text.split_once('>')) {
        (Some((name, value)), None) => (name, value, false),
        (None, Some((name, value))) => (name, value, true),
        _ => return None,
    };
    // `<=` is taken for `<`: no figure is exact to its last digit.
    let value = value.trim_start_matches('=').trim();
    let name = name.trim().replace('.', "");
    let response = RESPONSES.iter().find(|(known, _)| *known == name);
    let (metric, bound) = match (response, name.as_str()) {
        // A bare number could be in any unit.
        (Some(_), _) if value.parse::<f64>().is_ok() => return None,
        (Some((known, _)), _) => (
            Metric::Response(known),
            parse_duration(value).ok()?.0 as f64,
        ),
        (None, "errors") => (Metric::Errors, plan::typed::share(value).ok()?),
        (None, "rate") => (Metric::Rate, parse_count(value).ok()? as f64),
        _ => return None,
    };
    // A least latency or a least share of errors is no service level.
    let fits = above == (metric == Metric::Rate);
    fits.then_some(Term {
        metric,
        above,
        bound,
    })
}

impl Term {
    fn measured(self, outcome: &LoadOutcome) -> Option<f64> {
        match self.metric {
            Metric::Rate => outcome.achieved_per_s(),
            Metric::Errors if outcome.event_streams.is_some() => error_share(outcome),
            Metric::Errors => {
                let requests = &outcome.requests;
                let asked = requests.sent + requests.dropped;
                let lost = requests.failures() + requests.dropped;
                (asked > 0).then(|| lost as f64 / asked as f64)
            }
            Metric::Response(name) => {
                let (_, pick) = RESPONSES.iter().find(|(known, _)| *known == name)?;
                LatencySummary::of(&outcome.response).as_ref().map(pick)
            }
        }
    }

    fn words(self, value: f64) -> String {
        match self.metric {
            Metric::Response(_) => Nanos(value.round() as u64).to_string(),
            Metric::Errors => percent(value),
            Metric::Rate => format!("{}/s", rate(value)),
        }
    }

    fn name(self) -> &'static str {
        match self.metric {
            Metric::Response(name) => name,
            Metric::Errors => "errors",
            Metric::Rate => "rate",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.above { '>' } else { '<' };
        write!(f, "{}{sign}{}", self.name(), self.words(self.bound))
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&terms.join(", "))
    }
}

impl Slo {
    /// The share of errors that it allows; `None` when it names none.
    pub fn errors_allowed(&self) -> Option<f64> {
        let errors = self.0.iter().filter(|term| term.metric == Metric::Errors);
        errors.map(|term| term.bound).reduce(f64::min)
    }

    /// It asks for a rate, which a search for a rate cannot take as a condition.
    pub fn asks_for_rate(&self) -> bool {
        self.0.iter().any(|term| term.metric == Metric::Rate)
    }

    /// It asks for response times, which a server-sent event does not have.
    pub fn asks_for_times(&self) -> bool {
        let is_time = |term: &Term| matches!(term.metric, Metric::Response(_));
        self.0.iter().any(is_time)
    }

    /// The conditions that a load did not keep, each with its figure and by how much; empty when all were kept.
    pub fn broken(&self, outcome: &LoadOutcome) -> Vec<String> {
        let each = self.0.iter().filter_map(|term| {
            let Some(value) = term.measured(outcome) else {
                return Some(format!("{term}: not measured, because nothing succeeded"));
            };
            let kept = match term.above {
                true => value > term.bound,
                false => value < term.bound,
            };
            let was = term.words(value);
            (!kept).then(|| match term.bound > 0.0 {
                true => format!(
                    "{term}: it was {was}, {:.2} times the bound",
                    value / term.bound
                ),
                false => format!("{term}: it was {was}"),
            })
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_what_is_none_is_refused() {
        let shown = |text: &str| text.parse::<Slo>().map(|slo| slo.to_string());
        assert_eq!(
            shown("p99<5ms,errors<0.1%"),
            Ok("p99<5.00ms, errors<0.1 %".to_owned())
        );
        assert_eq!(shown("p99.9 <= 250us"), shown("p999<250us"));
        assert_eq!(shown("rate>10k"), Ok("rate>10,000/s".to_owned()));
        let slo: Slo = "p99<5ms,errors<5%".parse().unwrap();
        assert_eq!(
            (slo.errors_allowed(), slo.asks_for_rate()),
            (Some(0.05), false)
        );
        assert!(slo.asks_for_times());
        let slo: Slo = "errors<5%,rate>1".parse().unwrap();
        assert!(!slo.asks_for_times());
        for bad in [
            "", "p99", "p98<1ms", "p99<5", "p99>5ms", "rate<5", "errors<2", "p99<5ms,",
        ] {
            assert!(shown(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_missed_is_said_with_its_figure() {
        let mut outcome = crate::samples::with_rate(1_000, Nanos(4_000_000), 0.1);
        let broken =
            |slo: &str, outcome: &LoadOutcome| slo.parse::<Slo>().map(|s| s.broken(outcome));
        assert_eq!(broken("p99<5ms,errors<1%,rate>1", &outcome), Ok(Vec::new()));
        let said = broken("p99<2ms", &outcome).unwrap_or_default();
        assert_eq!(said, ["p99<2.00ms: it was 4.00ms, 2.00 times the bound"]);
        outcome.requests.dropped = outcome.requests.sent;
        let said = broken("errors<1%", &outcome).unwrap_or_default();
        assert_eq!(said, ["errors<1 %: it was 50 %, 50.00 times the bound"]);
        outcome.response.clear();
        let said = broken("p99<5ms", &outcome).unwrap_or_default();
        assert!(said[0].contains("not measured"));
    }
}
