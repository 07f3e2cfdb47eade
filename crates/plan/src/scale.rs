//! `[scale.NAME]`: another size of the same experiment, laid over what stands at the top level.
//!
//! The top level is the size `small`. A scale gives only what differs: factors, fields of the load, of the design and
//! of the topology, keys of targets, or the stages as a whole. The surprise: it is laid over the tree of the file
//! before any section is read, so that all that is said of a section holds for a scaled one, places included.

use crate::error::{Found, Report, unknown};
use crate::node::{Entry, Field, Value};

/// Name of the size that stands at the top level.
pub(crate) const SMALL: &str = "small";

/// What a scale may change.
const KEYS: [&str; 6] = ["factor", "load", "design", "topology", "target", "stage"];

/// The sizes of a file.
pub(crate) struct Scales {
    /// The file without its scales.
    top: Vec<Entry>,
    scales: Vec<Entry>,
}

impl Scales {
    /// Takes the scales out of the file; what is wrong goes to the report.
    pub fn of(entries: Vec<Entry>, report: &mut Report) -> Self {
        let (scale, top): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|e| e.name == "scale");
        let mut scales = Vec::new();
        for entry in &scale {
            for entry in report.take(entry.field().table()).unwrap_or_default() {
                if report.take(check(entry)).is_some() {
                    scales.push(entry.clone());
                }
            }
        }
        Self { top, scales }
    }

    /// Their names, `small` first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(SMALL).chain(self.scales.iter().map(|s| s.name.as_str()))
    }

    /// The entries of the file at this scale.
    ///
    /// # Errors
    /// A name that the file does not have, with the near miss.
    pub fn at(&self, name: &str) -> Result<Vec<Entry>, Found> {
        if name == SMALL {
            return Ok(self.top.clone());
        }
        let scale = self.scales.iter().find(|s| s.name == name);
        let scale =
            scale.ok_or_else(|| unknown(0, "scale", name, "the experiment", self.names()))?;
        let mut entries = self.top.clone();
        for change in scale.field().table()? {
            lay_over(&mut entries, change);
        }
        Ok(entries)
    }
}

fn check(scale: &Entry) -> Result<(), Found> {
    let inside = format!("[scale.{}]", scale.name);
    if scale.name == SMALL {
        return Err(scale
            .field()
            .must_be("another name than `small`, which is what stands at the top level"));
    }
    for f in scale.field().table()?.iter().map(Entry::field) {
        match f.name {
            "stage" => {}
            "target" => each_table(f)?,
            _ if KEYS.contains(&f.name) => {
                f.table()?;
            }
            _ => return Err(f.unknown_key(&inside, &KEYS)),
        }
    }
    Ok(())
}

fn each_table(field: Field<'_>) -> Result<(), Found> {
    field
        .table()?
        .iter()
        .try_for_each(|e| e.field().table().map(|_| ()))
}

/// One section of a scale over the file.
fn lay_over(entries: &mut Vec<Entry>, change: &Entry) {
    // A factor of the scale that sets a field of the load replaces that field, and the reverse.
    let rival = match change.name.as_str() {
        "factor" => Some("load"),
        "load" => Some("factor"),
        _ => None,
    };
    if let (Some(rival), Value::Table(changed)) = (rival, &change.node.value)
        && let Some(other) = entries.iter_mut().find(|e| e.name == rival)
        && let Value::Table(fields) = &mut other.node.value
    {
        fields.retain(|f| changed.iter().all(|c| c.name != f.name));
    }
    let Some(base) = entries.iter_mut().find(|e| e.name == change.name) else {
        entries.push(change.clone());
        return;
    };
    match (&mut base.node.value, &change.node.value) {
        (Value::Table(base), Value::Table(changed)) if change.name == "target" => {
            for target in changed {
                lay_over(base, target);
            }
        }
        (Value::Table(base), Value::Table(changed)) => {
            for field in changed {
                match base.iter_mut().find(|f| f.name == field.name) {
                    // It keeps its place among the others: the order of factors is that of the tables.
                    Some(old) => *old = field.clone(),
                    None => base.push(field.clone()),
                }
            }
        }
        (base, changed) => *base = changed.clone(),
    }
}
