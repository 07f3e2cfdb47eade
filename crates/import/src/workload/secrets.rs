//! What of a request is a credential, by its name: headers, fields of a query, of a form and of JSON.
//!
//! Names are all that can be gone by: a password in a field called `x` is not found, and the manual says so.

use super::draft::Call;
use super::url_text;
use record::workload::{Template, WorkloadBody};
use serde_json::Value;
use std::collections::BTreeSet;

/// Between a part's own head and its value (RFC 2046 5.1).
const BLANK_LINE: &str = "\r\n\r\n";
/// Stands where a credential has been, and where one must be written.
pub(super) const FILL_IN: &str = "FILL_IN";

const HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "api-key"];
const WORDS: [&str; 9] = [
    "token",
    "secret",
    "apikey",
    "password",
    "passwd",
    "credential",
    "session",
    "signature",
    "jwt",
];
const FIELDS: [&str; 8] = ["pass", "pwd", "pw", "sid", "otp", "pin", "auth", "key"];

/// A header, by its lower-case name.
pub(super) fn is_header(lower: &str) -> bool {
    HEADERS.contains(&lower) || holds_word(lower) || lower.ends_with("-auth")
}

fn holds_word(lower: &str) -> bool {
    let letters: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    WORDS.iter().any(|word| letters.contains(word))
}

/// A field of a query, a form or JSON.
pub(super) fn is_field(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    FIELDS.contains(&lower.as_str()) || holds_word(&lower)
}

/// Fields of a request that are credentials and hold something.
pub(super) fn fields_of(call: &Call) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Some(target) = call.target.literal() {
        let query = target.split_once('?').map_or("", |(_, query)| query);
        found.extend(form(query).map(|(name, _)| name));
    }
    if let WorkloadBody::Text(body) = &call.body
        && let Some(body) = body.literal()
    {
        if is_form(call) {
            found.extend(form(body).map(|(name, _)| name));
        } else {
            found.extend(json(body).into_iter().map(|(name, _)| name));
            found.extend(parts(body).into_iter().map(|(name, _)| name));
        }
    }
    found
}

/// Puts [`FILL_IN`] in their place.
pub(super) fn fill_in(call: &mut Call) {
    if let Some(target) = call.target.literal()
        && let Some((path, query)) = target.split_once('?')
    {
        call.target = Template::plain(format!("{path}?{}", without(query)));
    }
    let is_form = is_form(call);
    if let WorkloadBody::Text(template) = &mut call.body
        && let Some(body) = template.literal()
    {
        let mut body = body.to_owned();
        if is_form {
            body = without(&body);
        } else {
            for (_, value) in json(&body) {
                body = replaced(&body, &value);
            }
            for (_, range) in parts(&body).into_iter().rev() {
                body.replace_range(range, FILL_IN);
            }
        }
        *template = Template::plain(body);
    }
}

/// A URL without credentials in its query, and whether there were any.
pub(super) fn url(text: &str) -> (String, bool) {
    match text.split_once('?') {
        Some((before, query)) if form(query).next().is_some() => {
            (format!("{before}?{}", without(query)), true)
        }
        _ => (text.to_owned(), false),
    }
}

fn is_form(call: &Call) -> bool {
    let kind = call.header("content-type").map(Template::to_string);
    kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"))
}

/// `a=1&token=x`: names and values of credentials.
fn form(text: &str) -> impl Iterator<Item = (String, &str)> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    let named = pairs.map(|(name, value)| (url_text::decoded(name), value));
    named.filter(|(name, value)| !value.is_empty() && is_field(name))
}

fn without(text: &str) -> String {
    let pairs = text.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_field(&url_text::decoded(name)) => {
            format!("{name}={FILL_IN}")
        }
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Names and values of credentials in a JSON document.
fn json(body: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut rest: Vec<Value> = serde_json::from_str(body).into_iter().collect();
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(values) => rest.extend(values),
            Value::Object(members) => {
                for (name, value) in members {
                    let is_filled = match &value {
                        Value::String(text) => !text.is_empty() && text != FILL_IN,
                        Value::Number(_) => true,
                        _ => false,
                    };
                    match is_filled && is_field(&name) {
                        true => found.push((name, value)),
                        false => rest.push(value),
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// The text with a value of a JSON document replaced wherever it stands, so that all else stays as it was written.
/// Where it is written with other escapes than ours, the document is written anew.
fn replaced(body: &str, secret: &Value) -> String {
    let written = secret.to_string();
    if secret.is_string() && body.contains(&written) {
        return body.replace(&written, &format!("\"{FILL_IN}\""));
    }
    let Ok(mut document) = serde_json::from_str::<Value>(body) else {
        return body.to_owned();
    };
    let mut rest = vec![&mut document];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(values) => rest.extend(values),
            Value::Object(members) => {
                for (name, value) in members {
                    match value == secret && is_field(name) {
                        true => *value = Value::String(FILL_IN.to_owned()),
                        false => rest.push(value),
                    }
                }
            }
            _ => {}
        }
    }
    document.to_string()
}

/// Credentials among the parts of a multipart body (RFC 7578): names and where their values stand, in order.
fn parts(body: &str) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = body[at..].find("form-data; name=\"") {
        let name_at = at + next + "form-data; name=\"".len();
        let Some(name) = body[name_at..].split('"').next() else {
            break;
        };
        let Some((head, rest)) = body[name_at..].split_once(BLANK_LINE) else {
            break;
        };
        let value_at = name_at + head.len() + 4;
        let length = rest.find("\r\n--").unwrap_or(rest.len());
        if length > 0 && is_field(name) {
            found.push((name.to_owned(), value_at..value_at + length));
        }
        at = value_at + length;
    }
    found
}
