//! `[target.NAME]`: one system under test, for each cell, and the names that its templates need.
//!
//! A target is read twice: as it stands in the file, so that what is wrong is found whether or not a cell uses it,
//! and for each cell, because nearly every key may depend on the levels.

use crate::adapter;
use crate::error::{Fault, Found, Place, Report};
use crate::levels::{Cell, variants};
use crate::node::Entry;
use crate::target_keys::{Draft, KEYS, Read, shape};
use crate::template::{self, TEMPLATE_NAMES, is_word};
use crate::{TargetKind, TargetSpec};
use std::collections::{BTreeMap, BTreeSet};

/// A target as the file describes it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Where its name stands in the file.
    pub at: usize,
    name: String,
    keys: Vec<Entry>,
}

/// A target for one cell.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    /// Where its name stands in the file.
    pub at: usize,
    /// What it is, its `values` being only those that the file adds.
    pub spec: TargetSpec,
    /// Names that its templates use, each with the place of its first use.
    pub names: BTreeMap<String, Place>,
}

/// Reads one target; what is wrong goes to the report.
pub(crate) fn read(entry: &Entry, read: Read<'_>, report: &mut Report) -> Option<Target> {
    report.take(check_name(&entry.name, entry.at))?;
    let inside = inside(&entry.name);
    let mut keys = Vec::new();
    for key in report.take(entry.field().table())? {
        if KEYS.contains(&key.name.as_str()) {
            keys.push(key.clone());
        } else {
            report.push(key.field().unknown_key(&inside, &KEYS));
        }
    }
    let target = Target {
        at: entry.at,
        name: entry.name.clone(),
        keys,
    };
    target.check(read, report);
    Some(target)
}

fn inside(name: &str) -> String {
    format!("[target.{name}]")
}

impl Target {
    /// Tries every value that a key may have in some cell.
    fn check(&self, read: Read<'_>, report: &mut Report) {
        let inside = inside(&self.name);
        let of_key: Vec<_> = self
            .keys
            .iter()
            .map(|key| variants(key.field(), shape(&key.name)))
            .collect();
        let most = of_key.iter().map(Vec::len).max().unwrap_or(1);
        for k in 0..most {
            let mut draft = Draft::new(&self.name);
            let mut is_whole = true;
            for (key, variants) in self.keys.iter().zip(&of_key) {
                match &variants[k.min(variants.len() - 1)] {
                    Some(node) => {
                        let field = crate::node::Field {
                            node,
                            ..key.field()
                        };
                        is_whole &= report.take(draft.set(field, &inside, read)).is_some();
                    }
                    None => is_whole = false,
                }
            }
            if is_whole && let Some(spec) = report.take(draft.finish(self.at, &inside, read)) {
                names(&spec, self.at, report);
            }
        }
    }

    /// The target of one cell, and the names that it needs; what is wrong goes to the report.
    pub fn resolve(&self, cell: Cell<'_>, read: Read<'_>, report: &mut Report) -> Option<Resolved> {
        let inside = inside(&self.name);
        let mut draft = Draft::new(&self.name);
        for key in &self.keys {
            let node = report.take(cell.settle(key.field(), shape(&key.name)))?;
            let field = crate::node::Field {
                node: &node,
                ..key.field()
            };
            report.take(draft.set(field, &inside, read))?;
        }
        let spec = report.take(draft.finish(self.at, &inside, read))?;
        let mut names = names(&spec, self.at, report);
        add_names_of_values(&spec, cell, self.at, &mut names, report);
        Some(Resolved {
            at: self.at,
            spec,
            names,
        })
    }
}

impl Resolved {
    /// Names that a template of this target may use beside those of the other targets.
    pub fn known(&self) -> impl Iterator<Item = &str> {
        let own = match &self.spec.kind {
            TargetKind::Adapter { adapter, .. } => {
                adapter::find(adapter).map_or(&[][..], |a| a.names)
            }
            _ => &[],
        };
        TEMPLATE_NAMES
            .into_iter()
            .chain(own.iter().copied())
            .chain(self.spec.values.keys().map(String::as_str))
    }
}

/// Templates and URLs write a target's name as a word, so it must be one.
fn check_name(name: &str, at: usize) -> Result<(), Found> {
    let why = if !is_word(name) {
        "it must consist of letters, digits and `_`, and not start with a digit"
    } else if TEMPLATE_NAMES.contains(&name) {
        "templates have another value under this name"
    } else {
        return Ok(());
    };
    let fault = Fault::Name {
        kind: "target",
        name: name.to_owned(),
        why: why.to_owned(),
    };
    Err(Found::at(at, fault))
}

/// The texts of a target that are templates: name for messages, text.
fn templates(spec: &TargetSpec) -> Vec<(Option<&str>, &str)> {
    let mut texts: Vec<(Option<&str>, &str)> = Vec::new();
    match &spec.kind {
        TargetKind::Origin { delay, freeze, .. } => {
            texts.extend(delay.iter().chain(freeze).map(|t| (None, t.as_str())));
        }
        TargetKind::Command { argv } => texts.extend(argv.iter().map(|a| (None, a.as_str()))),
        TargetKind::Adapter {
            template_name,
            template,
            ..
        } => texts.push((Some(template_name), template)),
    }
    texts.extend(spec.wrap.iter().map(|w| (None, w.as_str())));
    texts.extend(spec.env.values().map(|v| (None, v.as_str())));
    texts
}

/// Names that the target's templates use, with the place of the first use.
fn names(spec: &TargetSpec, at: usize, report: &mut Report) -> BTreeMap<String, Place> {
    let mut names = BTreeMap::new();
    for (file, text) in templates(spec) {
        let place = |line| match file {
            Some(file) => Place::Line(file.to_owned(), line),
            None => Place::Offset(at),
        };
        match template::names(file.unwrap_or(&spec.name), text) {
            Ok(found) => {
                for name in found {
                    let line = template::line_of(text, &name);
                    names.entry(name).or_insert_with(|| place(line));
                }
            }
            Err(e) => {
                let fault = Fault::Template { cause: e.cause() };
                report.push(Found::new(place(e.line()), fault));
            }
        }
    }
    names
}

/// What the values and levels that a template uses name themselves: a level may be a whole command line.
fn add_names_of_values(
    spec: &TargetSpec,
    cell: Cell<'_>,
    at: usize,
    names: &mut BTreeMap<String, Place>,
    report: &mut Report,
) {
    let used: Vec<String> = names.keys().cloned().collect();
    for name in used {
        let Some(text) = spec.values.get(&name).or_else(|| cell.levels.get(&name)) else {
            continue;
        };
        match template::names(&name, text) {
            Ok(found) => {
                for inner in found {
                    names.entry(inner).or_insert(Place::Offset(at));
                }
            }
            Err(e) => report.push(Found::at(at, Fault::Template { cause: e.cause() })),
        }
    }
}

/// The targets that `start` needs, transitively, in the order in which they must start; `start` last.
///
/// # Errors
/// [`Fault::Cycle`] when they need each other.
pub(crate) fn start_order<'a>(
    start: &'a Resolved,
    all: &'a BTreeMap<String, Resolved>,
) -> Result<Vec<&'a Resolved>, Found> {
    let mut order = Vec::new();
    let mut done = BTreeSet::new();
    visit(start, all, &mut Vec::new(), &mut done, &mut order)?;
    Ok(order)
}

fn visit<'a>(
    target: &'a Resolved,
    all: &'a BTreeMap<String, Resolved>,
    path: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
    order: &mut Vec<&'a Resolved>,
) -> Result<(), Found> {
    let name = target.spec.name.as_str();
    if done.contains(name) {
        return Ok(());
    }
    if let Some(from) = path.iter().position(|n| *n == name) {
        path.push(name);
        let targets = path[from..].join(" -> ");
        return Err(Found::at(target.at, Fault::Cycle { targets }));
    }
    path.push(name);
    // A target's own name in its template is its own address, not something to wait for.
    for needed in target.names.keys().filter(|n| *n != name) {
        if let Some(needed) = all.get(needed) {
            visit(needed, all, path, done, order)?;
        }
    }
    path.pop();
    done.insert(name);
    order.push(target);
    Ok(())
}
