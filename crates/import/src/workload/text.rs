//! A draft as the text of a workload file: notes as comments, then what all requests share, then the requests.
//!
//! TOML by hand, because the file is read and edited by people: strings on one line, keys in the order of the manual.

use super::WorkloadFormat;
use super::draft::{Call, Draft};
use record::workload::{Template, WorkloadBody};
use std::fmt::Write;

/// Width of a comment.
const WIDTH: usize = 100;

/// The file.
pub(super) fn written(draft: &Draft, format: WorkloadFormat, file: &str) -> String {
    let mut text = String::new();
    let title = format!("Made by `prony import {}` of {file}.", format.name());
    comment(&mut text, &title, "");
    for note in &draft.notes {
        comment(&mut text, note, "- ");
    }
    text.push('\n');
    if draft.cookies {
        text += "cookies = true\n\n";
    }
    let common = common(&draft.calls);
    if !common.is_empty() {
        text += "[headers]\n";
        headers(&mut text, common.iter());
        text.push('\n');
    }
    let kind = match draft.is_session {
        true => "step",
        false => "request",
    };
    for (n, call) in draft.calls.iter().enumerate() {
        let server = draft.server.as_deref().filter(|_| n == 0).unwrap_or("");
        request(&mut text, kind, call, server, &common);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Headers that all requests have alike; of a single request they stay with it.
fn common(calls: &[Call]) -> Vec<(String, Template)> {
    let Some((first, rest)) = calls.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return Vec::new();
    };
    let everywhere = |(name, value): &&(String, Template)| {
        rest.iter().all(|call| call.header(name) == Some(value))
    };
    first.headers.iter().filter(everywhere).cloned().collect()
}

fn request(
    text: &mut String,
    kind: &str,
    call: &Call,
    server: &str,
    common: &[(String, Template)],
) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "[[{kind}]]\nname = {}", quoted(&call.name));
    let implied = match call.body {
        WorkloadBody::None => "GET",
        _ => "POST",
    };
    if call.method != implied {
        let _ = writeln!(text, "method = {}", quoted(&call.method));
    }
    let _ = writeln!(
        text,
        "url = {}",
        quoted(&format!("{server}{}", call.target))
    );
    match &call.body {
        WorkloadBody::None => {}
        WorkloadBody::Text(body) => {
            let _ = writeln!(text, "body = {}", quoted(&body.to_string()));
        }
        WorkloadBody::File(file) => {
            let _ = writeln!(text, "body_file = {}", quoted(file));
        }
    }
    if let Some(think) = call.think {
        let (length, unit) = match think.0 % 1_000_000 {
            0 => (think.0 / 1_000_000, "ms"),
            _ => (think.0 / 1_000, "us"),
        };
        let _ = writeln!(text, "think = \"{length}{unit}\"");
    }
    if let Some(status) = &call.status {
        let _ = writeln!(text, "check = {{ status = {} }}", quoted(status));
    }
    let own = |(name, _): &&(String, Template)| {
        let mut common = common.iter();
        !common.any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let own: Vec<_> = call.headers.iter().filter(own).collect();
    if !own.is_empty() {
        let _ = writeln!(text, "[{kind}.headers]");
        headers(text, own.into_iter());
    }
    text.push('\n');
}

fn headers<'a>(text: &mut String, headers: impl Iterator<Item = &'a (String, Template)>) {
    for (name, value) in headers {
        let is_bare = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let key = match name.bytes().all(is_bare) {
            true => name.clone(),
            false => quoted(name),
        };
        let _ = writeln!(text, "{key} = {}", quoted(&value.to_string()));
    }
}

/// A basic string of TOML 1.0.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Lines of a comment, whatever stands in the text.
fn comment(out: &mut String, text: &str, first: &str) {
    let clean: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut line = format!("# {first}");
    let mut width = line.chars().count();
    let mut is_empty = true;
    for word in clean.split_whitespace() {
        let length = word.chars().count();
        if !is_empty && width + 1 + length > WIDTH {
            *out += &line;
            out.push('\n');
            line = format!("# {}", " ".repeat(first.len()));
            width = line.chars().count();
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
            width += 1;
        }
        line += word;
        width += length;
        is_empty = false;
    }
    *out += &line;
    out.push('\n');
}
