//! Facts: named numbers of a target or of the run, each with its source or with the reason why it has none.
//!
//! The surprise is the third state. A number may be *without meaning*: the mean size of reads that never
//! happened is neither 0 nor unknown. A rule that compares it is simply false, whereas one that
//! compares an unknown number is undecided.

use super::{Catalogue, FactValue};
use record::{Directive, Server};
use std::collections::BTreeMap;

/// What is known of one expression or fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// A finite number.
    Known(f64),
    /// It has no meaning here, for this reason.
    NotApplicable(String),
    /// It could not be known, for this reason.
    Unknown(String),
}

impl Reading {
    /// The number.
    pub fn value(&self) -> Option<f64> {
        match self {
            Reading::Known(value) => Some(*value),
            _ => None,
        }
    }
}

/// A fact as it is stored.
#[derive(Clone, Debug, PartialEq)]
struct Fact {
    reading: Reading,
    source: String,
}

/// All facts of one trial, by target; the empty target is the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FactSet {
    facts: BTreeMap<(String, String), Fact>,
    /// Readings of names that match a pattern and were not stored: a call that was watched for and never seen.
    families: Vec<(String, String, Fact)>,
    /// Targets in the order in which they are judged; the one behind the URL first.
    pub targets: Vec<String>,
    /// Who serves, by target.
    pub servers: BTreeMap<String, Server>,
}

impl FactSet {
    /// Stores a number; one that is not finite is stored as unknown.
    pub fn known(&mut self, target: &str, name: &str, value: f64, source: &str) {
        let reading = if value.is_finite() {
            Reading::Known(value)
        } else {
            Reading::Unknown("the record holds no finite number for it".to_owned())
        };
        self.put(target, name, reading, source);
    }

    /// Stores that it could not be known.
    pub fn unknown(&mut self, target: &str, name: &str, reason: &str) {
        self.put(target, name, Reading::Unknown(reason.to_owned()), "");
    }

    /// Stores that it has no meaning here.
    pub fn not_applicable(&mut self, target: &str, name: &str, reason: &str) {
        self.put(target, name, Reading::NotApplicable(reason.to_owned()), "");
    }

    pub(crate) fn put(&mut self, target: &str, name: &str, reading: Reading, source: &str) {
        let fact = Fact {
            reading,
            source: source.to_owned(),
        };
        self.facts
            .insert((target.to_owned(), name.to_owned()), fact);
    }

    /// What holds for every name of a pattern that is not stored itself.
    pub(crate) fn family(&mut self, target: &str, pattern: &str, reading: Reading, source: &str) {
        let fact = Fact {
            reading,
            source: source.to_owned(),
        };
        self.families
            .push((target.to_owned(), pattern.to_owned(), fact));
    }

    /// Under which target a rule about `target` finds a fact: its own, or the run's.
    pub(crate) fn owner(&self, target: &str, name: &str) -> String {
        match self.find(target, name) {
            Some(_) => target.to_owned(),
            None => String::new(),
        }
    }

    /// The facts as a rule about this target sees them: the target's own, then those of the run.
    pub fn view<'a>(&'a self, target: &'a str) -> FactView<'a> {
        FactView { set: self, target }
    }

    /// Numbers of a target whose names begin with a prefix, with the rest of the name.
    pub(crate) fn beginning<'a>(
        &'a self,
        target: &'a str,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, f64)> {
        let from = (target.to_owned(), prefix.to_owned());
        let known = self.facts.range(from..);
        let same =
            known.take_while(move |((of, name), _)| of == target && name.starts_with(prefix));
        same.filter_map(move |((_, name), fact)| {
            Some((&name[prefix.len()..], fact.reading.value()?))
        })
    }

    fn find(&self, target: &str, name: &str) -> Option<&Fact> {
        let stored = self.facts.get(&(target.to_owned(), name.to_owned()));
        stored.or_else(|| {
            let mut families = self.families.iter();
            families
                .find(|(of, pattern, _)| of == target && matches_pattern(pattern, name))
                .map(|(_, _, fact)| fact)
        })
    }

    /// Every stored fact, with its unit.
    pub fn values(&self, catalogue: &Catalogue) -> Vec<FactValue> {
        let values = self.facts.iter().map(|((target, name), fact)| FactValue {
            name: name.clone(),
            target: target.clone(),
            value: fact.reading.value(),
            unit: catalogue.unit_of(name).to_owned(),
            source: match &fact.reading {
                Reading::Known(_) => fact.source.clone(),
                Reading::NotApplicable(reason) => format!("does not apply: {reason}"),
                Reading::Unknown(reason) => reason.clone(),
            },
        });
        values.collect()
    }

    /// Names and patterns that were produced, whatever their value.
    #[cfg(test)]
    pub(crate) fn produced(&self) -> std::collections::BTreeSet<String> {
        let stored = self.facts.keys().map(|(_, name)| name.clone());
        let families = self.families.iter().map(|(_, pattern, _)| pattern.clone());
        stored.chain(families).collect()
    }
}

/// Segments are equal, or `*` in the pattern.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.split('.'), name.split('.'));
    loop {
        match (pattern.next(), name.next()) {
            (None, None) => return true,
            (Some(p), Some(n)) if segment_matches(p, n) => {}
            _ => return false,
        }
    }
}

/// A `*` may stand for a whole segment or for a part of one: `*_share`.
fn segment_matches(pattern: &str, segment: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == segment,
        Some((head, tail)) => {
            segment.len() > head.len() + tail.len()
                && segment.starts_with(head)
                && segment.ends_with(tail)
        }
    }
}

/// Facts as seen from one target.
#[derive(Clone, Copy)]
pub struct FactView<'a> {
    set: &'a FactSet,
    pub target: &'a str,
}

impl<'a> FactView<'a> {
    fn find(&self, name: &str) -> Option<&'a Fact> {
        let own = self.set.find(self.target, name);
        own.or_else(|| self.set.find("", name))
    }

    /// The reading of a fact; unknown when nothing produced it.
    pub fn reading(&self, name: &str) -> Reading {
        match self.find(name) {
            Some(fact) => fact.reading.clone(),
            None => Reading::Unknown(format!("nothing that was recorded tells `{name}`")),
        }
    }

    /// The number of a fact, where it is known.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.reading(name).value()
    }

    /// Where a fact was read; empty when it is not known.
    pub fn source(&self, name: &str) -> &'a str {
        self.find(name).map_or("", |fact| fact.source.as_str())
    }

    /// The server behind the target.
    pub fn server(&self) -> Option<&'a Server> {
        self.set.servers.get(self.target)
    }

    /// Directives of the server's configuration; `None` when it was not read.
    pub fn directives(&self) -> Option<&'a [Directive]> {
        let server = self.server()?;
        let read = !server.config_files.is_empty() || !server.directives.is_empty();
        read.then_some(server.directives.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_not_seen_is_a_number() {
        let mut facts = FactSet::default();
        facts.known("", "x", f64::NAN, "test");
        facts.known("", "y", f64::INFINITY, "test");
        for name in ["x", "y", "z"] {
            assert!(matches!(
                facts.view("web").reading(name),
                Reading::Unknown(_)
            ));
        }
    }

    #[test]
    fn a_call_that_was_watched_for_and_not_seen_is_zero() {
        let mut facts = FactSet::default();
        facts.family("web", "call.*.*.per_request", Reading::Known(0.0), "probe");
        facts.known("web", "call.client.readv.per_request", 2.0, "probe");
        let view = facts.view("web");
        assert_eq!(view.value("call.client.readv.per_request"), Some(2.0));
        assert_eq!(view.value("call.file.readv.per_request"), Some(0.0));
        assert_eq!(view.value("call.file.readv.full_share"), None);
        assert_eq!(
            facts.view("other").value("call.file.readv.per_request"),
            None
        );
    }

    #[test]
    fn patterns_match_by_segment() {
        assert!(matches_pattern("profile.*_share", "profile.gc_share"));
        assert!(!matches_pattern("profile.*_share", "profile._share"));
        assert!(!matches_pattern("read.*", "read.client.mean_bytes"));
        assert!(matches_pattern("read.*.*", "read.client.mean_bytes"));
    }
}
