//! The TOML document as a tree that keeps places and the order of the file.
//!
//! The `toml` crate's own tree sorts its keys; the order of factors and levels is meaningful here, so
//! tables become lists of entries in the order in which they were written.

use crate::error::{Fault, Found, unknown};
use crate::typed::{self, Misfit};
use record::{Bytes, Nanos};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    /// Byte offset in the file.
    pub at: usize,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub name: String,
    /// Byte offset of the name.
    pub at: usize,
    pub node: Node,
}

/// A value and the name under which messages speak of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub name: &'a str,
    /// Byte offset of the name (of the value, for an item of a list).
    pub name_at: usize,
    pub node: &'a Node,
}

/// The file's entries, or the parser's first complaint.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, Found> {
    let table = DeTable::parse(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        let cause = e.message().to_owned();
        Found::at(at, Fault::Syntax { cause })
    })?;
    entries(table.into_inner())
}

fn entries(table: DeTable<'_>) -> Result<Vec<Entry>, Found> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        entries.push(Entry {
            at: key.span().start,
            name: key.into_inner().into_owned(),
            node: node(value.span().start, value.into_inner())?,
        });
    }
    entries.sort_by_key(|e| e.at);
    Ok(entries)
}

fn node(at: usize, value: DeValue<'_>) -> Result<Node, Found> {
    let number = |text: &str, cause: &dyn ToString| {
        let cause = format!("the number `{text}`: {}", cause.to_string());
        Found::at(at, Fault::Syntax { cause })
    };
    let value = match value {
        DeValue::String(s) => Value::Text(s.into_owned()),
        DeValue::Integer(i) => Value::Integer(
            i64::from_str_radix(i.as_str(), i.radix()).map_err(|e| number(i.as_str(), &e))?,
        ),
        DeValue::Float(x) => Value::Float(x.as_str().parse().map_err(|e| number(x.as_str(), &e))?),
        DeValue::Boolean(b) => Value::Boolean(b),
        DeValue::Datetime(d) => Value::Date(d.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .into_iter()
                .map(|item| node(item.span().start, item.into_inner()))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => Value::Table(entries(table)?),
    };
    Ok(Node { at, value })
}

impl Entry {
    pub fn field(&self) -> Field<'_> {
        Field {
            name: &self.name,
            name_at: self.at,
            node: &self.node,
        }
    }
}

impl Node {
    /// The value in words, for "must be ..., not ...".
    fn in_words(&self) -> String {
        match &self.value {
            Value::Text(s) => format!("\"{s}\""),
            Value::Integer(i) => i.to_string(),
            Value::Float(x) => x.to_string(),
            Value::Boolean(b) => b.to_string(),
            Value::Date(d) => format!("the date {d}"),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

impl<'a> Field<'a> {
    /// "`name` must be EXPECTED, not what it is".
    pub fn must_be(&self, expected: impl Into<String>) -> Found {
        let fault = Fault::Unexpected {
            what: self.name.to_owned(),
            expected: expected.into(),
            found: self.node.in_words(),
        };
        Found::at(self.node.at, fault)
    }

    pub fn unknown_key(&self, inside: &str, known: &[&str]) -> Found {
        unknown(
            self.name_at,
            "key",
            self.name,
            inside,
            known.iter().copied(),
        )
    }

    pub fn text(&self) -> Result<&'a str, Found> {
        match &self.node.value {
            Value::Text(s) => Ok(s),
            _ => Err(self.must_be("text in quotes")),
        }
    }

    pub fn boolean(&self) -> Result<bool, Found> {
        match self.node.value {
            Value::Boolean(b) => Ok(b),
            _ => Err(self.must_be("true or false")),
        }
    }

    /// The entries of a table.
    pub fn table(&self) -> Result<&'a [Entry], Found> {
        match &self.node.value {
            Value::Table(entries) => Ok(entries),
            _ => Err(self.must_be("a table")),
        }
    }

    /// The items of a list, each under the list's name.
    pub fn list(&self) -> Result<impl Iterator<Item = Field<'a>> + use<'a>, Found> {
        let name = self.name;
        match &self.node.value {
            Value::List(items) => Ok(items.iter().map(move |node| Field {
                name,
                name_at: node.at,
                node,
            })),
            _ => Err(self.must_be("a list in brackets")),
        }
    }

    /// A list of texts.
    pub fn words(&self) -> Result<Vec<String>, Found> {
        self.list()?.map(|f| f.text().map(str::to_owned)).collect()
    }

    /// A text, number or boolean as it is shown in tables and filled into templates.
    pub fn plain(&self) -> Result<String, Found> {
        match &self.node.value {
            Value::Text(s) => Ok(s.clone()),
            Value::Integer(i) => Ok(i.to_string()),
            Value::Float(x) if x.is_finite() => Ok(x.to_string()),
            Value::Boolean(b) => Ok(b.to_string()),
            _ => Err(self.must_be("text, a number, true or false")),
        }
    }

    /// A table of plain values.
    pub fn plain_table(&self) -> Result<BTreeMap<String, String>, Found> {
        self.table()?
            .iter()
            .map(|e| Ok((e.name.clone(), e.field().plain()?)))
            .collect()
    }

    /// The value that a parser of [`typed`] made, or what is wrong with it here.
    pub fn fitting<T>(&self, value: Result<T, Misfit>) -> Result<T, Found> {
        value.map_err(|misfit| match misfit {
            Misfit::MustBe(expected) => self.must_be(expected),
            Misfit::Unknown(fault) => Found::at(self.node.at, *fault),
        })
    }

    /// A text, or a number as it was typed, read by a parser of [`typed`].
    pub fn typed<T>(&self, parse: impl Fn(&str) -> Result<T, Misfit>) -> Result<T, Found> {
        self.fitting(match &self.node.value {
            Value::Text(text) => parse(text),
            Value::Integer(n) => parse(&n.to_string()),
            Value::Float(x) => parse(&x.to_string()),
            // No value is empty: the parser says what it must be.
            _ => parse(""),
        })
    }

    /// The same for a list, which may also be typed as one text: `[0, 2]` or `"0,2"`.
    pub fn typed_list<T>(
        &self,
        parse: impl Fn(&str) -> Result<Vec<T>, Misfit>,
    ) -> Result<Vec<T>, Found> {
        match self.node.value {
            Value::List(_) => {
                let lists: Result<Vec<Vec<T>>, Found> =
                    self.list()?.map(|item| item.typed(&parse)).collect();
                Ok(lists?.into_iter().flatten().collect())
            }
            _ => self.typed(parse),
        }
    }

    /// A whole number of at least `least`, typed as a number or with an SI suffix.
    pub fn count(&self, least: u64) -> Result<u64, Found> {
        self.typed(|text| typed::count(text, least))
    }

    /// Like [`Field::count`], for what is counted in 32 bits.
    pub fn count32(&self, least: u64) -> Result<u32, Found> {
        self.typed(|text| typed::count32(text, least))
    }

    /// A duration: text with a unit, or a number of seconds.
    pub fn duration(&self) -> Result<Nanos, Found> {
        self.typed(typed::duration)
    }

    pub fn duration_above_zero(&self) -> Result<Nanos, Found> {
        self.typed(typed::duration_above_zero)
    }

    pub fn bytes(&self) -> Result<Bytes, Found> {
        self.typed(typed::bytes)
    }

    /// A limit: `"none"` for a level without one.
    pub fn limit<T>(&self, value: impl Fn(&Self) -> Result<T, Found>) -> Result<Option<T>, Found> {
        match &self.node.value {
            Value::Text(s) if s == "none" => Ok(None),
            _ => value(self).map(Some),
        }
    }

    /// CPU time in cores: 0.5 is half of one.
    pub fn cores(&self) -> Result<f64, Found> {
        let cores = match &self.node.value {
            Value::Float(x) => Some(*x),
            Value::Integer(i) => Some(*i as f64),
            Value::Text(s) => s.trim().parse().ok(),
            _ => None,
        };
        // The kernel's shortest quota is 1 ms of a period of 100 ms.
        cores
            .filter(|c| c.is_finite() && *c >= 0.01)
            .ok_or_else(|| self.must_be("a number of cores of at least 0.01, such as 0.5"))
    }

    /// Bits per second: a number, or text such as `"1Gbit"`, in powers of ten as links are sold.
    pub fn bit_rate(&self) -> Result<u64, Found> {
        const UNITS: [(&str, f64); 4] = [("kbit", 1e3), ("Mbit", 1e6), ("Gbit", 1e9), ("bit", 1.0)];
        let expected = || self.must_be("a rate such as \"100Mbit\", of at least 8kbit");
        let bits = match &self.node.value {
            Value::Integer(i) => *i as f64,
            Value::Text(s) => UNITS
                .iter()
                .find_map(|(unit, factor)| {
                    let number = s.trim().strip_suffix(unit)?;
                    Some(number.trim().parse::<f64>().ok()? * factor)
                })
                .ok_or_else(expected)?,
            _ => return Err(expected()),
        };
        // Above 2^53 the number is no longer whole, and no link is as fast.
        if bits.is_finite() && (8e3..9e15).contains(&bits) {
            Ok(bits as u64)
        } else {
            Err(expected())
        }
    }

    /// A share of one: `"1%"` or `0.01`.
    pub fn share(&self) -> Result<f64, Found> {
        self.typed(typed::share)
    }

    /// Half the width of an interval: `"±1%"`, `"1%"` or `0.01`.
    pub fn half_width(&self) -> Result<f64, Found> {
        let share = match &self.node.value {
            Value::Text(s) => crate::parse_half_width(s),
            Value::Float(x) => Some(*x).filter(|x| *x > 0.0 && *x < 1.0),
            _ => None,
        };
        share.ok_or_else(|| self.must_be("a precision such as \"1%\", above 0 and below 100 %"))
    }

    /// A set of CPUs, rising: `[0, 2]` or `"0-3,6"`, as taskset writes them.
    pub fn cpus(&self) -> Result<Vec<u32>, Found> {
        let mut cpus = self.typed_list(typed::cpus)?;
        cpus.sort_unstable();
        cpus.dedup();
        Ok(cpus)
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Found> {
        self.fitting(typed::choice(self.name, self.text()?, choices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_the_order_of_the_file() {
        let names =
            |text| -> Vec<String> { parse(text).unwrap().into_iter().map(|e| e.name).collect() };
        assert_eq!(names("b = 1\na = 2\n[z]\n[c]\n"), ["b", "a", "z", "c"]);
    }
}
