//! What a load asks for when it is more than one request: a mix by weight or a session of steps, with values that are
//! filled in, taken from responses, and checked.
//!
//! A [`Template`] is kept as it is read: its text with `{{...}}` is what a record stores and a person edits. The
//! surprise: files that a workload names (bodies, data) are not part of it; they are read before the load starts.

use crate::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// The most random letters that one value may ask for.
const LETTERS_MAX: u32 = 65_536;

/// The requests of a load and how they follow each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Seed of all that is drawn.
    pub seed: u64,
    /// How one request follows another.
    pub order: Order,
    /// Every client keeps the cookies that it is given.
    #[serde(default)]
    pub cookies: bool,
    /// The most of a response's body that is kept for checks and captures.
    pub body_limit: Bytes,
    /// Tables that values come from.
    #[serde(default)]
    pub data: Vec<Data>,
    /// In the order of the file.
    pub requests: Vec<WorkloadRequest>,
}

impl Workload {
    /// What of a body is kept when nobody says.
    pub const BODY_LIMIT: Bytes = Bytes(64 << 10);

    /// A mix of these requests.
    pub fn mix(requests: Vec<WorkloadRequest>) -> Self {
        Workload {
            seed: 1,
            order: Order::Mix,
            cookies: false,
            body_limit: Self::BODY_LIMIT,
            data: Vec::new(),
            requests,
        }
    }

    /// Puts a directory before the files that are named relative to it.
    pub fn rebase(&mut self, directory: &str) {
        for file in self.files_mut() {
            if !directory.is_empty() && !file.starts_with('/') {
                *file = format!("{directory}/{file}");
            }
        }
    }

    /// The names of the files that it reads.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let bodies = self.requests.iter_mut().filter_map(|request| {
            let WorkloadBody::File(file) = &mut request.body else {
                return None;
            };
            Some(file)
        });
        let tables = self.data.iter_mut().map(|data| &mut data.file);
        tables.chain(bodies)
    }
}

/// How one request follows another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Each by its weight, interleaved evenly.
    #[default]
    Mix,
    /// One after the other on each client, again from the first after the last or after a failure.
    Session,
}

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRequest {
    /// Under which its results are shown.
    pub name: String,
    /// Request method.
    pub method: String,
    /// Path and query, or a URL of the same server.
    pub target: Template,
    /// Beyond those that the generator sets.
    #[serde(default)]
    pub headers: Vec<(String, Template)>,
    /// Request body.
    #[serde(default)]
    pub body: WorkloadBody,
    /// Its part of a mix.
    pub weight: f64,
    /// The client waits for so long after the response; `None` as the load says.
    #[serde(default)]
    pub think: Option<Think>,
    /// What a response must be.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What is taken from a response.
    #[serde(default)]
    pub captures: Vec<Capture>,
}

impl WorkloadRequest {
    /// A GET.
    pub fn get(name: impl Into<String>, target: Template) -> Self {
        WorkloadRequest {
            name: name.into(),
            method: "GET".to_owned(),
            target,
            headers: Vec::new(),
            body: WorkloadBody::None,
            weight: 1.0,
            think: None,
            checks: Vec::new(),
            captures: Vec::new(),
        }
    }
}

/// The body of a request of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadBody {
    /// No body.
    #[default]
    None,
    /// A text with values.
    Text(Template),
    /// The content of a file as it is.
    File(String),
}

/// How long a client waits between a response and its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Think {
    /// Always as long.
    Constant(Nanos),
    /// Exponentially distributed, with this mean.
    Exponential(Nanos),
}

impl Think {
    /// The length, or its mean.
    pub fn mean(self) -> Nanos {
        match self {
            Think::Constant(mean) | Think::Exponential(mean) => mean,
        }
    }
}

/// A table in a file of comma-separated values, whose first line names the columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// As values name it: `{{NAME.COLUMN}}`.
    pub name: String,
    /// The file.
    pub file: String,
    /// Which row a request or a session gets.
    pub pick: Pick,
}

/// Which row of a table is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The next, and the first again after the last.
    #[default]
    InOrder,
    /// Any.
    Random,
    /// One for each client, the same for the whole load.
    PerClient,
}

/// What a response must be, lest it is a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Its status lies in one of these ranges, both ends included; replaces the rule that 400 and above fail.
    Status(Vec<(u16, u16)>),
    /// Its body has so many bytes, both ends included.
    Length(u64, u64),
    /// Its body holds this text.
    Contains(String),
    /// The value at this JSON pointer (RFC 6901) is this, as JSON.
    Json {
        /// RFC 6901; empty is the whole document.
        pointer: String,
        /// A JSON value: text in quotes, a number, true, false or null.
        equals: String,
    },
    /// SHA-256 of its body in lower-case hexadecimal digits.
    Sha256(String),
}

impl Check {
    /// As it is counted.
    pub fn name(&self) -> String {
        match self {
            Check::Status(_) => "status".to_owned(),
            Check::Length(..) => "length".to_owned(),
            Check::Contains(text) => format!("contains {text:?}"),
            Check::Json { pointer, .. } => format!("json {pointer}"),
            Check::Sha256(_) => "sha256".to_owned(),
        }
    }
}

/// A value taken from a response, for later requests of the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// As later values name it.
    pub name: String,
    /// Where it is.
    pub from: CaptureFrom,
}

/// Where a captured value is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureFrom {
    /// The value of this response header.
    Header(String),
    /// The first group of this regular expression in the body, or all that it finds where it has none.
    Regex(String),
    /// The value at this JSON pointer, a text without its quotes.
    Json(String),
    /// The value of the cookie of this name that the response sets.
    Cookie(String),
}

/// Text with values to be filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template(pub Vec<Part>);

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// As it is.
    Text(String),
    /// `{{sequence}}`: 1, 2, 3, ..., each once in the whole load.
    Sequence,
    /// `{{integer 1 100}}`: a random whole number, both ends included.
    Integer {
        /// Smallest.
        from: i64,
        /// Largest.
        to: i64,
    },
    /// `{{letters 8}}`: random lower-case letters and digits.
    Letters(u32),
    /// `{{uuid}}`: a random UUID (RFC 9562, version 4).
    Uuid,
    /// `{{users.name}}`: a column of a table.
    Column {
        /// The table's name.
        data: String,
        /// The column's.
        column: String,
    },
    /// `{{token}}`: a captured value.
    Captured(String),
}

impl Template {
    /// A text without values, whatever is in it.
    pub fn plain(text: impl Into<String>) -> Self {
        let text = text.into();
        match text.is_empty() {
            true => Template(Vec::new()),
            false => Template(vec![Part::Text(text)]),
        }
    }

    /// Reads a text with `{{...}}`.
    ///
    /// # Errors
    /// What is wrong with a value, as the end of "`X` ...".
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            literal += before;
            let Some((inside, behind)) = after.split_once("}}") else {
                return Err(format!("`{{{{{after}` has no `}}}}`"));
            };
            rest = behind;
            match Part::parse(inside.trim())? {
                Part::Text(text) => literal += &text,
                value => {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(value);
                }
            }
        }
        literal += rest;
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Template(parts))
    }

    /// The text, when there is nothing to be filled in.
    pub fn literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }
}

impl Part {
    fn parse(inside: &str) -> Result<Part, String> {
        let words: Vec<&str> = inside.split_whitespace().collect();
        match words.as_slice() {
            ["open"] => Ok(Part::Text("{{".to_owned())),
            ["sequence"] => Ok(Part::Sequence),
            ["uuid"] => Ok(Part::Uuid),
            ["integer", from, to] => match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) if from <= to => Ok(Part::Integer { from, to }),
                _ => Err(format!(
                    "`{{{{{inside}}}}}` must be two whole numbers, the smaller first, such as {{{{integer 1 100}}}}"
                )),
            },
            ["letters", n] => match n.parse() {
                Ok(n) if (1..=LETTERS_MAX).contains(&n) => Ok(Part::Letters(n)),
                _ => Err(format!(
                    "`{{{{{inside}}}}}` must have a number from 1 to {LETTERS_MAX}, such as {{{{letters 8}}}}"
                )),
            },
            ["integer" | "letters", ..] => Err(format!(
                "`{{{{{inside}}}}}` must be written {{{{integer FROM TO}}}} or {{{{letters N}}}}"
            )),
            [name] => match name.split_once('.') {
                Some((data, column)) if !data.is_empty() && !column.is_empty() => {
                    Ok(Part::Column {
                        data: data.to_owned(),
                        column: column.to_owned(),
                    })
                }
                Some(_) => Err(format!("`{{{{{inside}}}}}` must be {{{{TABLE.COLUMN}}}}")),
                None => Ok(Part::Captured((*name).to_owned())),
            },
            _ => Err(format!(
                "`{{{{{inside}}}}}` is no value: known are sequence, integer FROM TO, letters N, uuid, TABLE.COLUMN, a \
                 captured name, and open for two braces"
            )),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => f.write_str(&text.replace("{{", "{{open}}"))?,
                Part::Sequence => f.write_str("{{sequence}}")?,
                Part::Integer { from, to } => write!(f, "{{{{integer {from} {to}}}}}")?,
                Part::Letters(n) => write!(f, "{{{{letters {n}}}}}")?,
                Part::Uuid => f.write_str("{{uuid}}")?,
                Part::Column { data, column } => write!(f, "{{{{{data}.{column}}}}}")?,
                Part::Captured(name) => write!(f, "{{{{{name}}}}}")?,
            }
        }
        Ok(())
    }
}

impl From<Template> for String {
    fn from(template: Template) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "{template}");
        text
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Template, String> {
        Template::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_read_and_written_alike() {
        for text in [
            "",
            "/plain?a={b}",
            "/items/{{integer 1 100}}?n={{sequence}}",
            "{{letters 8}}{{uuid}}",
            "{\"user\": \"{{users.name}}\", \"token\": \"{{token}}\"}",
            "a {{open}} b",
            "{{integer -5 5}}",
        ] {
            let template = Template::parse(text).unwrap();
            assert_eq!(String::from(template.clone()), text);
            let stored = serde_json::to_string(&template).unwrap();
            assert_eq!(serde_json::from_str::<Template>(&stored).unwrap(), template);
        }
        let spaced = Template::parse("{{ uuid }}").unwrap();
        assert_eq!(spaced.0, [Part::Uuid]);
        assert_eq!(
            Template::parse("a{{open}}b").unwrap().literal(),
            Some("a{{b")
        );
        assert_eq!(Template::plain("{{uuid}}").literal(), Some("{{uuid}}"));
        assert_eq!(Template::plain("{{x").to_string(), "{{open}}x");
    }

    #[test]
    fn what_is_no_value_is_said() {
        for (text, said) in [
            ("{{uuid", "has no `}}`"),
            ("{{integer 5 1}}", "the smaller first"),
            ("{{letters 0}}", "from 1 to"),
            ("{{letters}}", "must be written"),
            ("{{a b}}", "is no value"),
            ("{{.a}}", "TABLE.COLUMN"),
            ("{{}}", "is no value"),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn files_are_relative_to_the_workloads() {
        let mut workload = Workload::mix(vec![
            WorkloadRequest {
                body: WorkloadBody::File("a.json".to_owned()),
                ..WorkloadRequest::get("a", Template::plain("/"))
            },
            WorkloadRequest {
                body: WorkloadBody::File("/b.json".to_owned()),
                ..WorkloadRequest::get("b", Template::plain("/"))
            },
        ]);
        workload.rebase("dir");
        let files = workload.requests.iter().map(|r| r.body.clone());
        let expected = ["dir/a.json", "/b.json"].map(|f| WorkloadBody::File(f.to_owned()));
        assert!(files.eq(expected));
    }
}
