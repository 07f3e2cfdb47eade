//! What an output shows, as data (`catalogue/pasted.toml`): conditions, a sentence, the next command, perhaps a cause.

use super::{scene, shown};
use crate::Evidence;
use crate::diagnosis::{Condition, FactSet, Template, Truth, condition};
use record::pasted::Pasted;
use serde::Deserialize;
use std::sync::OnceLock;

/// One reading.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    /// Name, for tests and for its place in the file.
    pub name: String,
    /// `generator` where it is about the load and not about the server.
    #[serde(default)]
    pub of: String,
    /// Cause of the catalogue that this is enough for.
    pub cause: Option<String>,
    /// All must hold.
    pub when: Vec<Condition>,
    /// Template: what is shown.
    pub says: String,
    /// What to run or to change next.
    pub next: String,
    /// Its place among others that hold, 0 to 1.
    pub weight: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    reading: Vec<Reading>,
}

/// A reading that holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// The reading's name; between equal weights it decides.
    pub name: String,
    pub cause: Option<String>,
    pub of_generator: bool,
    pub says: String,
    pub next: String,
    pub weight: f64,
    pub evidence: Vec<Evidence>,
}

/// All of them, in the order of the file.
pub(super) fn readings() -> &'static [Reading] {
    static READINGS: OnceLock<Vec<Reading>> = OnceLock::new();
    READINGS.get_or_init(|| {
        let file: File = toml::from_str(include_str!("../../catalogue/pasted.toml"))
            .expect("a test parses the file that is compiled in");
        file.reading
    })
}

/// Those that hold over these facts.
pub(super) fn hold(pasted: &Pasted, facts: &FactSet) -> Vec<Held> {
    let held = readings().iter().filter_map(|reading| {
        let holds = |c| Some(condition(c, scene(facts))).filter(|j| j.truth == Truth::True);
        let judged: Vec<_> = reading.when.iter().map(holds).collect::<Option<_>>()?;
        let text = |template: &str| {
            let parsed = Template::parse(template);
            let text = parsed.map_or_else(|_| template.to_owned(), |t| t.text(&scene(facts).facts));
            shown::with_rows(&text, pasted)
        };
        let evidence = judged.iter().flat_map(|j| &j.evidence);
        let signals: Vec<&str> = evidence.map(|e| e.signal.as_str()).collect();
        Some(Held {
            name: reading.name.clone(),
            cause: reading.cause.clone(),
            of_generator: reading.of == "generator",
            says: shown::with_quote(text(&reading.says), &signals, pasted),
            next: text(&reading.next),
            weight: reading.weight,
            evidence: judged
                .into_iter()
                .flat_map(|j| j.evidence)
                .filter(|e| !is_absent(e))
                .map(with_unit)
                .collect(),
        })
    });
    held.collect()
}

/// What a text does not show is no evidence of it, though a reading may ask that it is not there.
fn is_absent(evidence: &Evidence) -> bool {
    let is_nothing = |value: f64| value.abs() < f64::EPSILON;
    evidence.source.is_empty() && evidence.value.is_none_or(is_nothing)
}

/// What was shown has its unit in its name, unit last; a plain number has none.
fn with_unit(mut evidence: Evidence) -> Evidence {
    if evidence.signal.contains("seen.") && evidence.unit == "1" {
        evidence.unit = unit_of(&evidence.signal).to_owned();
    }
    evidence
}

/// The unit that a name ends with.
pub(super) fn unit_of(name: &str) -> &'static str {
    let ends = |suffixes: &[&str]| suffixes.iter().any(|s| name.ends_with(s));
    if ends(&["_share", "_busiest", "_limited", ".used"]) {
        "1"
    } else if ends(&["_per_s"]) {
        "1/s"
    } else if ends(&["_ms"]) {
        "ms"
    } else if ends(&["_bytes"]) {
        "bytes"
    } else if ends(&["_s"]) {
        "s"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Expression, catalogue};
    use std::collections::BTreeSet;

    fn compared(condition: &Condition) -> Vec<&str> {
        let own = condition.fact.iter().chain(&condition.ratio_to);
        let inner = condition.any.iter().chain(&condition.all).flatten();
        let inner = inner.chain(condition.not.as_deref()).flat_map(compared);
        own.map(String::as_str).chain(inner).collect()
    }

    #[test]
    fn every_reading_is_well_formed() {
        let mut names = BTreeSet::new();
        for reading in readings() {
            let name = &reading.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(["", "generator"].contains(&reading.of.as_str()), "{name}");
            assert!((0.0..=1.0).contains(&reading.weight), "{name}: weight");
            assert!(!reading.when.is_empty(), "{name}: nothing is needed");
            if let Some(cause) = &reading.cause {
                assert!(catalogue().cause(cause).is_some(), "{name}: `{cause}`");
            }
            for text in reading.when.iter().flat_map(compared) {
                let parsed = Expression::parse(text);
                let parsed = parsed.unwrap_or_else(|e| panic!("{name}: {e}"));
                for fact in parsed.facts() {
                    let known = fact.starts_with("seen.") || catalogue().fact(fact).is_some();
                    assert!(known, "{name}: `{fact}`");
                }
            }
            for text in [&reading.says, &reading.next] {
                Template::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
                assert!(!text.trim().is_empty() && !text.ends_with('.'), "{name}");
            }
            // Where no cause is named, the next step is a command.
            assert!(
                reading.cause.is_some() || reading.next.contains('`'),
                "{name}"
            );
        }
    }
}
