//! lighttpd's configuration: assignments, in blocks under conditions.
//!
//! The surprises: `include_shell` would run a program, so it is named and not read; a value may be a list in
//! brackets over many lines, which is kept as one argument; and a condition's block ends with a brace that may be
//! followed by `else`.

use super::files::{self, Files, MOST_DEPTH, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::path::Path;

/// Blocks and lists within each other.
pub(crate) const MOST_NESTING: usize = 64;

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let cwd = super::working_directory(server.main_pid);
    for conf in super::values_of(&server.command, "-f") {
        let path = files::join(&cwd, &conf).display().to_string();
        let mut context = Vec::new();
        file(&path, &mut context, files, &mut server.directives, 0);
    }
}

fn file(
    path: &str,
    context: &mut Vec<String>,
    files: &mut Files,
    out: &mut Vec<Directive>,
    depth: usize,
) {
    let Some(text) = files.text(Path::new(path)) else {
        return;
    };
    let base = Path::new(path)
        .parent()
        .map_or(String::new(), |p| p.display().to_string());
    let outside = context.len();
    for (line, statement) in statements(&text) {
        if out.len() >= MOST_DIRECTIVES {
            break;
        }
        if statement == "}" {
            context.truncate(context.len().saturating_sub(1).max(outside));
        } else if let Some(condition) = statement.strip_suffix('{') {
            if context.len() < MOST_NESTING {
                context.push(condition.trim().to_owned());
            }
        } else if let Some(pattern) = statement.strip_prefix("include_shell") {
            files.say(
                &format!("configuration from include_shell {}", pattern.trim()),
                &format!("{path}:{line} runs a program, which is not done"),
                "",
            );
        } else if let Some(pattern) = statement.strip_prefix("include ") {
            if depth >= MOST_DEPTH {
                files.say(
                    "deeply nested includes",
                    &format!("{path}:{line} is {depth} includes deep"),
                    "look for a file that includes itself",
                );
                continue;
            }
            for found in files.glob(&files::join(&base, &unquoted(pattern))) {
                file(&found.display().to_string(), context, files, out, depth + 1);
            }
        } else if let Some((name, operator, value)) = assignment(&statement) {
            out.push(Directive {
                name: name.to_owned(),
                args: std::iter::once(unquoted(value))
                    .chain((operator != "=").then(|| operator.to_owned()))
                    .collect(),
                context: context.clone(),
                file: path.to_owned(),
                line,
            });
        }
    }
    context.truncate(outside);
}

/// Name, operator (`=`, `+=`, `:=`) and value; the operator stands behind the value when it is not `=`.
pub(crate) fn assignment(statement: &str) -> Option<(&str, &str, &str)> {
    let (left, value) = statement.split_once('=')?;
    let (name, operator) = match left.strip_suffix(['+', ':']) {
        Some(name) if left.ends_with('+') => (name, "+="),
        Some(name) => (name, ":="),
        None => (left, "="),
    };
    let name = name.trim();
    (!name.is_empty()).then(|| (name, operator, value.trim()))
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    match value.strip_prefix('"').and_then(|v| v.strip_suffix('"')) {
        Some(inner) if !inner.contains('"') => inner.to_owned(),
        _ => value.to_owned(),
    }
}

/// Statements with the line they begin at: one ends at a line's end outside brackets, and at a brace.
pub(crate) fn statements(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut current = String::new();
    let (mut first, mut line, mut brackets, mut in_string) = (1u32, 1u32, 0u32, false);
    let mut characters = text.chars().peekable();
    let mut end = |current: &mut String, first: u32| {
        let statement = std::mem::take(current);
        if !statement.trim().is_empty() {
            found.push((first, statement.trim().to_owned()));
        }
    };
    while let Some(c) = characters.next() {
        line += u32::from(c == '\n');
        if current.trim().is_empty() {
            first = line;
        }
        match c {
            '\\' if in_string => {
                current.push(c);
                current.extend(characters.next());
            }
            '"' => {
                in_string = !in_string;
                current.push(c);
            }
            _ if in_string => current.push(c),
            '#' => while characters.next_if(|c| *c != '\n').is_some() {},
            '(' => {
                brackets += 1;
                current.push(c);
            }
            ')' => {
                brackets = brackets.saturating_sub(1);
                current.push(c);
            }
            '{' if brackets == 0 => {
                current.push(c);
                end(&mut current, first);
            }
            '}' if brackets == 0 => {
                end(&mut current, first);
                current.push(c);
                end(&mut current, line);
            }
            '\n' if brackets == 0 => end(&mut current, first),
            '\n' => current.push(' '),
            c => current.push(c),
        }
    }
    end(&mut current, first);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listed;

    #[test]
    fn assignments_conditions_lists() {
        let dir = tempfile::tempdir().unwrap();
        let conf = dir.path().join("l.conf");
        let text = "server.port = 80 # a\nserver.modules += ( \"mod_a\",\n  \"mod_b\" )\n\
            $HTTP[\"url\"] =~ \"^/a#{2}\" {\n  server.x = \"y\"\n} else $HTTP[\"host\"] == \"b\" { server.x = \"z\" }\n\
            include \"i.conf\"\ninclude_shell \"rm -rf x\"\n";
        std::fs::write(&conf, text).unwrap();
        std::fs::write(dir.path().join("i.conf"), "a = 1").unwrap();
        let mut files = Files::ours();
        let mut out = Vec::new();
        file(
            &conf.display().to_string(),
            &mut Vec::new(),
            &mut files,
            &mut out,
            0,
        );
        let found = listed(&out, " ");
        assert_eq!(
            found,
            [
                "|server.port|80|1",
                "|server.modules|( \"mod_a\",   \"mod_b\" ) +=|2",
                "$HTTP[\"url\"] =~ \"^/a#{2}\"|server.x|y|5",
                "else $HTTP[\"host\"] == \"b\"|server.x|z|6",
                "|a|1|1",
            ]
        );
        assert!(files.unavailable[0].what.contains("rm -rf x"));
    }
}
