//! Values that depend on a factor's level, settled for one cell.
//!
//! Wherever a section takes a value it may take a table with one value for each level of one factor, and texts that
//! are needed before anything runs may name factors: `threads = "{{threads}}"`. [`Cell::settle`] replaces both, so
//! that what reads a section sees plain values only. The surprise: such a table names no factor; the factor is
//! the one whose levels are the table's keys.

use crate::error::{Fault, Found};
use crate::node::{Entry, Field, Node, Value};
use crate::{Factor, Levels, template};

/// One combination of levels, with the factors that they are of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    pub factors: &'a [Factor],
    pub levels: &'a Levels,
}

/// What may stand at a place of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A value; a table here is keyed by levels. Its texts are filled in now.
    Now,
    /// The same, its texts being templates that are filled in when the target starts.
    Later,
    /// A table with known keys; the shape of each.
    Table(fn(&str) -> Shape),
    /// A table with free names, which may be keyed by levels as a whole.
    Map(&'static Shape),
}

impl<'a> Cell<'a> {
    /// The entry of a keyed table for the cell's level, under the field's own name.
    pub fn choose<'b>(self, field: Field<'b>, entries: &'b [Entry]) -> Result<Field<'b>, Found> {
        let matching = self.keyed_by(entries);
        let factor = match matching.as_slice() {
            [factor] => factor,
            [] => return Err(keyed_by_none(field, entries, self.factors)),
            several => return Err(keyed_by_several(field, several)),
        };
        let level = self.levels.get(&factor.name);
        let entry = entries.iter().find(|e| Some(&e.name) == level);
        let entry =
            entry.expect("every cell has a level of each factor, and every level has an entry");
        Ok(Field {
            node: &entry.node,
            ..field
        })
    }

    /// The factors whose levels are just the keys of the table; where there is none, those whose levels are all among
    /// them, because a stage may have a part of a factor's levels.
    fn keyed_by(self, entries: &[Entry]) -> Vec<&'a Factor> {
        let has = |factor: &&Factor| {
            let mut levels = factor.levels.iter();
            levels.all(|level| entries.iter().any(|e| e.name == *level))
        };
        let found: Vec<&'a Factor> = self.factors.iter().filter(has).collect();
        let is_just = |factor: &&Factor| factor.levels.len() == entries.len();
        let just: Vec<&'a Factor> = found.iter().copied().filter(is_just).collect();
        if just.is_empty() { found } else { just }
    }

    /// The field with every choice made, as a value of its own.
    ///
    /// # Errors
    /// Keys that are no factor's levels, or a text that names something other than a factor.
    pub fn settle(self, field: Field<'_>, shape: Shape) -> Result<Node, Found> {
        match (shape, &field.node.value) {
            (Shape::Now | Shape::Later, Value::Table(entries)) => {
                let chosen = self.choose(field, entries)?;
                match chosen.node.value {
                    // One level of choice: a table of tables is a mistake, which the reader of the value names.
                    Value::Table(_) => Ok(chosen.node.clone()),
                    _ => self.settle(chosen, shape),
                }
            }
            (Shape::Now, _) => self.filled_in(field.node),
            (Shape::Table(shape_of), Value::Table(entries)) => {
                self.each(field.node.at, entries, shape_of)
            }
            (Shape::Map(inner), Value::Table(entries)) => {
                let is_whole = !entries.is_empty()
                    && entries
                        .iter()
                        .all(|e| matches!(e.node.value, Value::Table(_)))
                    && !self.keyed_by(entries).is_empty();
                if is_whole {
                    let chosen = self.choose(field, entries)?;
                    return match &chosen.node.value {
                        Value::Table(entries) => self.each(chosen.node.at, entries, |_| *inner),
                        _ => Ok(chosen.node.clone()),
                    };
                }
                self.each(field.node.at, entries, |_| *inner)
            }
            _ => Ok(field.node.clone()),
        }
    }

    fn each(
        self,
        at: usize,
        entries: &[Entry],
        shape_of: impl Fn(&str) -> Shape,
    ) -> Result<Node, Found> {
        let settled: Result<Vec<Entry>, Found> = entries
            .iter()
            .map(|e| {
                Ok(Entry {
                    node: self.settle(e.field(), shape_of(&e.name))?,
                    ..e.clone()
                })
            })
            .collect();
        let value = Value::Table(settled?);
        Ok(Node { at, value })
    }

    /// The texts of a value with the levels filled in.
    fn filled_in(self, node: &Node) -> Result<Node, Found> {
        let value = match &node.value {
            Value::Text(text) if is_template(text) => {
                let text = template::render("value", text, self.levels).map_err(|e| {
                    let cause = e.cause();
                    Found::at(node.at, Fault::Template { cause })
                })?;
                Value::Text(text)
            }
            Value::List(items) => {
                let items: Result<_, _> = items.iter().map(|i| self.filled_in(i)).collect();
                Value::List(items?)
            }
            other => other.clone(),
        };
        Ok(Node { at: node.at, value })
    }
}

pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// The values that a field can have over all cells, one at a time, before the factors are known: so that what is
/// wrong with one is found even if no cell uses it. `None` for a value that only a cell can tell.
pub(crate) fn variants(field: Field<'_>, shape: Shape) -> Vec<Option<Node>> {
    (0..choices(field.node, shape))
        .map(|k| variant(field.node, shape, k))
        .collect()
}

fn choices(node: &Node, shape: Shape) -> usize {
    let Value::Table(entries) = &node.value else {
        return 1;
    };
    let most = |shape_of: &dyn Fn(&str) -> Shape| {
        let of = entries.iter().map(|e| choices(&e.node, shape_of(&e.name)));
        of.max().unwrap_or(1)
    };
    match shape {
        Shape::Now | Shape::Later => entries.len().max(1),
        Shape::Table(shape_of) => most(&shape_of),
        Shape::Map(inner) => most(&|_| *inner),
    }
}

fn variant(node: &Node, shape: Shape, k: usize) -> Option<Node> {
    let each = |entries: &[Entry], shape_of: &dyn Fn(&str) -> Shape| {
        let chosen = entries.iter().map(|e| {
            let node = variant(&e.node, shape_of(&e.name), k)?;
            Some(Entry { node, ..e.clone() })
        });
        let value = Value::Table(chosen.collect::<Option<_>>()?);
        Some(Node { at: node.at, value })
    };
    match (shape, &node.value) {
        (Shape::Now | Shape::Later, Value::Table(entries)) => {
            let chosen = &entries.get(k.min(entries.len().checked_sub(1)?))?.node;
            match chosen.value {
                Value::Table(_) => Some(chosen.clone()),
                _ => variant(chosen, shape, 0),
            }
        }
        (Shape::Now, _) if has_template(node) => None,
        (Shape::Table(shape_of), Value::Table(entries)) => each(entries, &shape_of),
        // Keyed as a whole or each: only the factors can tell.
        (Shape::Map(Shape::Now | Shape::Later), Value::Table(entries))
            if entries
                .iter()
                .any(|e| matches!(e.node.value, Value::Table(_))) =>
        {
            None
        }
        (Shape::Map(inner), Value::Table(entries)) => each(entries, &|_| *inner),
        _ => Some(node.clone()),
    }
}

fn has_template(node: &Node) -> bool {
    match &node.value {
        Value::Text(text) => is_template(text),
        Value::List(items) => items.iter().any(has_template),
        _ => false,
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn keyed_by_none(field: Field<'_>, entries: &[Entry], factors: &[Factor]) -> Found {
    let shared = |f: &&Factor| {
        entries
            .iter()
            .filter(|e| f.levels.contains(&e.name))
            .count()
    };
    let closest = factors.iter().max_by_key(shared).filter(|f| shared(f) > 0);
    let fault = Fault::Keyed {
        field: field.name.to_owned(),
        keys: quoted(entries.iter().map(|e| e.name.as_str())),
        factor: closest.map(|f| (f.name.clone(), quoted(f.levels.iter().map(String::as_str)))),
    };
    Found::at(field.node.at, fault)
}

fn keyed_by_several(field: Field<'_>, factors: &[&Factor]) -> Found {
    let fault = Fault::KeyedBySeveral {
        field: field.name.to_owned(),
        factors: quoted(factors.iter().map(|f| f.name.as_str())),
    };
    Found::at(field.node.at, fault)
}
