//! Requests on their way into a workload file: names made unique, headers cleaned, credentials taken out, notes kept.
//!
//! The converters say what a request is; what every workload holds to is seen to here, once for all of them.

use super::{Refusal, secrets};
use record::Nanos;
use record::workload::{Template, WorkloadBody};
use std::collections::BTreeSet;

/// A workload file takes as many.
const CALLS_MAX: usize = 10_000;
/// Longer names would fill the result's table.
const NAME_MAX: usize = 80;
/// Written by the load itself, or of one connection only.
const OF_THE_CONNECTION: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A request of the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    pub name: String,
    pub method: String,
    /// Path and query.
    pub target: Template,
    pub headers: Vec<(String, Template)>,
    pub body: WorkloadBody,
    pub think: Option<Nanos>,
    /// As `check = { status = ... }` takes it.
    pub status: Option<String>,
}

impl Call {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&Template> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// A workload file before it is text.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    /// Steps of a session, or requests of a mix.
    pub is_session: bool,
    pub cookies: bool,
    /// Scheme, host and port.
    pub server: Option<String>,
    pub calls: Vec<Call>,
    pub notes: Vec<String>,
    /// Credentials stay.
    pub keeps_secrets: bool,
    names: BTreeSet<String>,
    /// Names of credentials, of headers and fields.
    left_out: BTreeSet<String>,
    filled_in: BTreeSet<String>,
    kept: BTreeSet<String>,
    unfit: BTreeSet<String>,
}

impl Draft {
    /// Nothing yet.
    pub fn new(keeps_secrets: bool) -> Self {
        Draft {
            keeps_secrets,
            ..Draft::default()
        }
    }

    /// Says something, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// A header of a request; of a name given twice the values are joined, as RFC 9110 5.3 has it.
    pub fn header(&mut self, call: &mut Call, name: &str, value: &Template) {
        let lower = name.to_ascii_lowercase();
        if lower.starts_with(':') || OF_THE_CONNECTION.contains(&lower.as_str()) {
            return;
        }
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let text = value.to_string();
        let has_line_end = text.contains(['\r', '\n', '\0']);
        if name.is_empty() || !name.bytes().all(is_token) || has_line_end {
            self.unfit.insert(name.escape_debug().to_string());
            return;
        }
        let mut value = match value.literal() {
            Some(text) => Template::plain(text.trim()),
            None => value.clone(),
        };
        if secrets::is_header(&lower) {
            if !self.keeps_secrets {
                self.left_out.insert(name.to_owned());
                return;
            }
            self.kept.insert(name.to_owned());
        } else if lower == "referer" && !self.keeps_secrets {
            let without = value.literal().map(secrets::url);
            if let Some((text, true)) = without {
                value = Template::plain(text);
            }
        }
        let mut given = call.headers.iter_mut();
        match given.find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some((_, before)) => {
                let with = if lower == "cookie" { "; " } else { ", " };
                let joined = format!("{before}{with}{value}");
                if let Ok(joined) = Template::parse(&joined) {
                    *before = joined;
                }
            }
            None => call.headers.push((name.to_owned(), value)),
        }
    }

    /// A request as it was sent once, with what may be secret in its URL and body.
    pub fn sent(&mut self, mut call: Call) -> Result<(), Refusal> {
        let fields = secrets::fields_of(&call);
        if self.keeps_secrets {
            self.kept.extend(fields);
        } else if !fields.is_empty() {
            secrets::fill_in(&mut call);
            self.filled_in.extend(fields);
        }
        self.add(call)
    }

    /// A request as it is.
    pub fn add(&mut self, mut call: Call) -> Result<(), Refusal> {
        if self.calls.len() == CALLS_MAX {
            return Err(Refusal::new(
                format!("it has more than {CALLS_MAX} requests"),
                "cut it into parts",
            ));
        }
        let name: String = call.name.chars().filter(|c| !c.is_control()).collect();
        let mut name: String = match name.chars().count() > NAME_MAX {
            true => name
                .chars()
                .take(NAME_MAX - 3)
                .chain("...".chars())
                .collect(),
            false => name,
        };
        if self.names.contains(&name) {
            let numbered = |n: &usize| !self.names.contains(&format!("{name} ({n})"));
            let free = (2..=CALLS_MAX + 1).find(numbered).unwrap_or(CALLS_MAX + 1);
            name = format!("{name} ({free})");
        }
        self.names.insert(name.clone());
        call.name = name;
        self.calls.push(call);
        Ok(())
    }

    /// Headers that are named as credentials hold none, but places for them.
    pub fn holds_places_only(&mut self) {
        self.kept.clear();
    }

    /// What is said at the end, once for all requests.
    pub fn close(mut self) -> Self {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        if !self.left_out.is_empty() {
            let names = list(&self.left_out);
            self.note(format!(
                "left out as credentials: {names}; --secrets keeps them"
            ));
        }
        if !self.filled_in.is_empty() {
            let names = list(&self.filled_in);
            self.note(format!(
                "replaced by {} as credentials: {names}; write a value or a column such as {{{{users.password}}}} \
                 there, or keep them with --secrets",
                secrets::FILL_IN
            ));
        }
        if !self.kept.is_empty() {
            let names = list(&self.kept);
            self.note(format!(
                "holds credentials: {names}; keep this file as you would keep them"
            ));
        }
        if !self.unfit.is_empty() {
            let names = list(&self.unfit);
            self.note(format!("left out as no header of HTTP/1.1: {names}"));
        }
        self
    }
}

/// `METHOD /path`.
pub(super) fn name_of(method: &str, target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or(target);
    format!("{method} {path}")
}
