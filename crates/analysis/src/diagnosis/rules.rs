//! Conditions over facts, and what they say of a cause, in three values: true, false, unknown.
//!
//! Unknown is never 0: an unknown required signal leaves a cause unseen, an unknown supporting or contradicting one
//! leaves it suspected and takes a part of its confidence. One contradiction that is known to hold rules a cause
//! out, whatever else speaks for it.

use super::catalogue::{Cause, Condition, ConfigTest};
use super::expression::{Bounds, Expression, number, unit_of};
use super::fact::{FactView, Reading};
use super::facts::number_of;
use super::{Status, catalogue};
use crate::Evidence;

/// Outcome of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    fn of(is: bool) -> Self {
        if is { Truth::True } else { Truth::False }
    }
}

/// A condition with its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub truth: Truth,
    /// Numbers that it looked at.
    pub evidence: Vec<Evidence>,
    /// Signals that were missing.
    pub missing: Vec<String>,
    /// The number against its threshold, or the reason why there is none.
    pub why: String,
}

/// What can be said of a cause at one target.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Holds {
        confidence: f64,
        status: Status,
        evidence: Vec<Evidence>,
    },
    /// Something pointed to it, and this speaks against it.
    RuledOut {
        why: String,
        /// How near it came: the share of its required signals that are there, one more when only a contradicting
        /// signal stands against it.
        near: f64,
    },
    Unseen {
        signals: Vec<String>,
        why: String,
    },
    /// Nothing points to it.
    Absent,
}

/// What a condition is judged over.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub facts: FactView<'a>,
    /// Station of this target.
    pub station: &'a str,
}

/// Each contradicting signal that is unknown leaves this part of the confidence.
const UNCHECKED: f64 = 0.95;
/// Part of the confidence that required signals carry alone.
const REQUIRED_PART: f64 = 0.6;
/// An unknown supporting signal counts for half of one that holds.
const UNKNOWN_SUPPORT: f64 = 0.5;

/// Judges a cause.
pub(crate) fn judge(cause: &Cause, scene: Scene<'_>) -> Outcome {
    let all = |conditions: &[Condition]| -> Vec<Judged> {
        conditions.iter().map(|c| condition(c, scene)).collect()
    };
    let required = all(&cause.required);
    let count = |truth: Truth| required.iter().filter(|j| j.truth == truth).count();
    let pointed = |others: usize| others > 0 && count(Truth::True) * 2 >= others;
    if let Some(failed) = required.iter().find(|j| j.truth == Truth::False) {
        return if pointed(required.len() - count(Truth::False)) && count(Truth::False) == 1 {
            Outcome::RuledOut {
                why: failed.why.clone(),
                near: count(Truth::True) as f64 / required.len() as f64,
            }
        } else {
            Outcome::Absent
        };
    }
    let contradicting = all(&cause.contradicting);
    if let Some(against) = contradicting.iter().find(|j| j.truth == Truth::True) {
        return if pointed(required.len()) {
            Outcome::RuledOut {
                why: against.why.clone(),
                near: 1.0 + count(Truth::True) as f64 / required.len() as f64,
            }
        } else {
            Outcome::Absent
        };
    }
    if count(Truth::Unknown) > 0 {
        return unseen(&required);
    }
    let supporting = all(&cause.supporting);
    holds(cause, required, supporting, &contradicting)
}

fn unseen(required: &[Judged]) -> Outcome {
    let unknown = || required.iter().filter(|j| j.truth == Truth::Unknown);
    let mut signals: Vec<String> = unknown().flat_map(|j| j.missing.clone()).collect();
    signals.sort();
    signals.dedup();
    let mut reasons: Vec<String> = unknown().map(|j| j.why.clone()).collect();
    reasons.sort();
    reasons.dedup();
    Outcome::Unseen {
        signals,
        why: reasons.join("; "),
    }
}

fn holds(
    cause: &Cause,
    required: Vec<Judged>,
    supporting: Vec<Judged>,
    contradicting: &[Judged],
) -> Outcome {
    let weight = |judged: &Judged| match judged.truth {
        Truth::True => 1.0,
        Truth::Unknown => UNKNOWN_SUPPORT,
        Truth::False => 0.0,
    };
    let support = if supporting.is_empty() {
        1.0
    } else {
        supporting.iter().map(weight).sum::<f64>() / supporting.len() as f64
    };
    let unchecked = contradicting.iter().filter(|j| j.truth == Truth::Unknown);
    let unchecked = unchecked.count();
    let doubt = UNCHECKED.powi(unchecked as i32);
    let carried = REQUIRED_PART + (1.0 - REQUIRED_PART) * support;
    let unknown = supporting.iter().any(|j| j.truth == Truth::Unknown);
    let status = if unknown || unchecked > 0 || support < 0.5 {
        Status::Suspected
    } else {
        Status::Supported
    };
    let seen = supporting.into_iter().filter(|j| j.truth == Truth::True);
    let mut evidence: Vec<Evidence> = Vec::new();
    for found in required.into_iter().chain(seen).flat_map(|j| j.evidence) {
        if !evidence.iter().any(|e| e.signal == found.signal) {
            evidence.push(found);
        }
    }
    Outcome::Holds {
        confidence: (cause.confidence * carried * doubt).clamp(0.0, 1.0),
        status,
        evidence,
    }
}

/// Judges one condition.
pub(crate) fn condition(condition: &Condition, scene: Scene<'_>) -> Judged {
    let mut judged = if let Some(fact) = &condition.fact {
        compare(condition, fact, scene)
    } else if let Some(any) = &condition.any {
        joined(any, scene, Truth::True)
    } else if let Some(all) = &condition.all {
        joined(all, scene, Truth::False)
    } else if let Some(not) = &condition.not {
        let inner = self::condition(not, scene);
        Judged {
            truth: match inner.truth {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            },
            ..inner
        }
    } else if let Some(kinds) = &condition.server {
        server(kinds, scene)
    } else if let Some(test) = &condition.config {
        config(test, scene)
    } else {
        let stations = condition.station.as_deref().unwrap_or_default();
        let why = format!("the station is `{}`", scene.station);
        match scene.station {
            station if stations.iter().any(|s| s == station) => plain(Truth::True, why),
            "unknown" => unknown(vec!["station".to_owned()], why),
            _ => plain(Truth::False, why),
        }
    };
    if let Some(note) = &condition.note {
        judged.why = format!("{note}: {}", judged.why);
    }
    judged
}

fn plain(truth: Truth, why: String) -> Judged {
    Judged {
        truth,
        evidence: Vec::new(),
        missing: Vec::new(),
        why,
    }
}

fn unknown(missing: Vec<String>, why: String) -> Judged {
    Judged {
        missing,
        ..plain(Truth::Unknown, why)
    }
}

/// `any` is decided by one that is true, `all` by one that is false.
fn joined(conditions: &[Condition], scene: Scene<'_>, deciding: Truth) -> Judged {
    let judged: Vec<Judged> = conditions.iter().map(|c| condition(c, scene)).collect();
    let other = if deciding == Truth::True {
        Truth::False
    } else {
        Truth::True
    };
    let truth = if judged.iter().any(|j| j.truth == deciding) {
        deciding
    } else if judged.iter().any(|j| j.truth == Truth::Unknown) {
        Truth::Unknown
    } else {
        other
    };
    let fitting: Vec<Judged> = judged.into_iter().filter(|j| j.truth == truth).collect();
    Judged {
        truth,
        why: fitting
            .iter()
            .map(|j| j.why.clone())
            .collect::<Vec<_>>()
            .join("; "),
        missing: fitting.iter().flat_map(|j| j.missing.clone()).collect(),
        evidence: fitting.into_iter().flat_map(|j| j.evidence).collect(),
    }
}

fn compare(condition: &Condition, fact: &str, scene: Scene<'_>) -> Judged {
    let text = match &condition.ratio_to {
        Some(divisor) => format!("({fact}) / ({divisor})"),
        None => fact.to_owned(),
    };
    let expression = match Expression::parse(&text) {
        Ok(expression) => expression,
        Err(error) => return unknown(vec![text], error),
    };
    let shown = match &condition.ratio_to {
        Some(divisor) => format!("{fact} / {divisor}"),
        None => text,
    };
    match expression.reading(&scene.facts) {
        Reading::Known(value) => known(condition, &expression, &shown, value, scene),
        Reading::NotApplicable(reason) => {
            plain(Truth::False, format!("`{shown}` does not apply: {reason}"))
        }
        Reading::Unknown(reason) => {
            let facts = expression.facts().into_iter();
            let missing = facts.filter(|f| matches!(scene.facts.reading(f), Reading::Unknown(_)));
            let missing = missing.map(str::to_owned).collect();
            let bounds = expression.bounds(&scene.facts);
            match bounds.and_then(|bounds| decided(condition, bounds)) {
                Some((truth, why)) => Judged {
                    evidence: known_facts(&expression, scene),
                    ..plain(truth, format!("{shown} is {why}"))
                },
                None => unknown(missing, reason),
            }
        }
    }
}

/// The facts of an expression that are known.
fn known_facts(expression: &Expression, scene: Scene<'_>) -> Vec<Evidence> {
    let facts = expression.facts().into_iter();
    let known = facts.filter_map(|name| {
        let value = scene.facts.value(name)?;
        let unit = catalogue().unit_of(name);
        let source = scene.facts.source(name);
        Some(Evidence::new(
            signal(name, name, scene),
            value,
            unit,
            None,
            source,
        ))
    });
    known.collect()
}

/// What a comparison says whatever the unknown facts are; `None` when it depends on them.
fn decided(condition: &Condition, (low, high): Bounds) -> Option<(Truth, String)> {
    let holds = |value: f64| checks(condition, value).iter().all(|(met, ..)| *met);
    // The numbers of which all comparisons hold are one stretch: both ends in it, all between.
    let always = holds(low) && holds(high);
    let never = condition.at_least.is_some_and(|t| high < t)
        || condition.above.is_some_and(|t| high <= t)
        || condition.at_most.is_some_and(|t| low > t)
        || condition.below.is_some_and(|t| low >= t)
        || condition
            .between
            .is_some_and(|[from, to]| high < from || low > to);
    let why = match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("between {} and {}", number(low), number(high)),
        (_, true) => format!("at most {}", number(high)),
        _ => format!("at least {}", number(low)),
    };
    (always || never).then_some((Truth::of(always), why))
}

/// Each comparison of a condition: whether it is met, its limit, and its words.
fn checks(condition: &Condition, value: f64) -> Vec<(bool, f64, &'static str)> {
    let checks = [
        condition.at_least.map(|t| (value >= t, t, "at least")),
        condition.at_most.map(|t| (value <= t, t, "at most")),
        condition.above.map(|t| (value > t, t, "above")),
        condition.below.map(|t| (value < t, t, "below")),
        condition
            .between
            .map(|[low, _]| (value >= low, low, "at least")),
        condition
            .between
            .map(|[_, high]| (value <= high, high, "at most")),
    ];
    checks.into_iter().flatten().collect()
}

fn known(
    condition: &Condition,
    expression: &Expression,
    shown: &str,
    value: f64,
    scene: Scene<'_>,
) -> Judged {
    let checks = checks(condition, value);
    let telling = checks.iter().find(|(met, ..)| !met).or(checks.first());
    let first = expression
        .facts()
        .first()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let unit = unit_of(expression).unwrap_or_else(|| "1".to_owned());
    let signal = signal(&first, shown, scene);
    let limit =
        telling.map(|(_, limit, words)| format!(" (threshold: {words} {})", number(*limit)));
    Judged {
        truth: Truth::of(!checks.is_empty() && checks.iter().all(|(met, ..)| *met)),
        why: format!("{shown} is {}{}", number(value), limit.unwrap_or_default()),
        evidence: vec![Evidence::new(
            signal,
            value,
            &unit,
            telling.map(|(_, limit, _)| *limit),
            scene.facts.source(&first),
        )],
        missing: Vec::new(),
    }
}

/// A number's name in the evidence: with its target where `fact` is a target's.
fn signal(fact: &str, shown: &str, scene: Scene<'_>) -> String {
    let target = scene.facts.target;
    let of_run = catalogue().fact(fact).map(|f| f.of) == Some(super::FactOf::Run);
    if target.is_empty() || of_run {
        shown.to_owned()
    } else {
        format!("{shown}{{target={target}}}")
    }
}

fn server(kinds: &[String], scene: Scene<'_>) -> Judged {
    match scene.facts.server() {
        Some(server) => {
            let found = kinds.contains(&server.kind);
            plain(Truth::of(found), format!("the server is `{}`", server.kind))
        }
        None => {
            let why = "the server behind it was not identified";
            unknown(vec!["server".to_owned()], why.to_owned())
        }
    }
}

fn config(test: &ConfigTest, scene: Scene<'_>) -> Judged {
    let name = &test.directive;
    let Some(directives) = scene.facts.directives() else {
        let why = "the server's configuration could not be read";
        return unknown(vec![format!("config.{name}")], why.to_owned());
    };
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    let set: Vec<_> = directives.iter().filter(|d| same(&d.name, name)).collect();
    let any_is = |v: &str| set.iter().any(|d| d.args.iter().any(|a| same(a, v)));
    let number = |holds: &dyn Fn(f64) -> bool| {
        let args = set.iter().filter_map(|d| d.args.get(test.arg));
        args.filter_map(|a| number_of(a)).any(holds)
    };
    let holds = [
        test.is.as_ref().map(|v| any_is(v)),
        test.is_not.as_ref().map(|v| !set.is_empty() && !any_is(v)),
        test.unset.map(|unset| set.is_empty() == unset),
        test.at_most.map(|limit| number(&|n| n <= limit)),
        test.at_least.map(|limit| number(&|n| n >= limit)),
        test.contains.as_ref().map(|text| {
            let mut args = set.iter().flat_map(|d| &d.args);
            args.any(|a| a.contains(text.as_str()))
        }),
    ];
    let mut holds = holds.into_iter().flatten().peekable();
    let truth = Truth::of(holds.peek().is_some() && holds.all(|h| h));
    let why = match set.first() {
        Some(d) => format!("`{} {}` at {}:{}", d.name, d.args.join(" "), d.file, d.line),
        None => format!("`{name}` is not set"),
    };
    plain(truth, why)
}
