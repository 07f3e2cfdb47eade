//! Backends of Varnish's VCL: host, port and limits, by the little of its grammar that a declaration needs.
//!
//! The surprise: a `.probe` opens a block of its own within the backend; its attributes have its name in their context.

use super::files::{self, Files};
use record::{Directive, Server};
use std::path::Path;

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let cwd = super::working_directory(server.main_pid);
    for path in super::values_of(&server.command, "-f") {
        let path = files::join(&cwd, &path);
        if let Some(text) = files.text(&path) {
            server.directives.extend(backends(&text, &path));
        }
    }
}

fn backends(text: &str, path: &Path) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut context: Vec<String> = Vec::new();
    let mut words: Vec<(String, u32)> = Vec::new();
    let mut is_backend = false;
    for (token, line) in tokens(text) {
        match token.as_str() {
            "{" => {
                let names: Vec<&str> = words
                    .iter()
                    .map(|(w, _)| w.as_str())
                    .filter(|w| *w != "=")
                    .collect();
                is_backend |= context.is_empty() && names.first() == Some(&"backend");
                context.push(names.join(" "));
                words.clear();
            }
            "}" => {
                context.pop();
                is_backend &= !context.is_empty();
                words.clear();
            }
            ";" => {
                if let [(name, line), (equals, _), values @ ..] = words.as_slice()
                    && is_backend
                    && name.starts_with('.')
                    && equals == "="
                {
                    found.push(Directive {
                        name: name.clone(),
                        args: values.iter().map(|(value, _)| value.clone()).collect(),
                        context: context.clone(),
                        file: path.display().to_string(),
                        line: *line,
                    });
                }
                words.clear();
            }
            _ => words.push((token, line)),
        }
    }
    found
}

/// Words, strings without their quotes, `{`, `}`, `;` and `=`, with their lines; comments are passed over.
fn tokens(text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1u32);
    while let Some(c) = rest.chars().next() {
        let until = |end: &str, from: usize| {
            rest.get(from..)
                .and_then(|r| r.find(end))
                .map_or(rest.len(), |i| from + i + end.len())
        };
        let length = if rest.starts_with("/*") {
            until("*/", 2)
        } else if c == '#' || rest.starts_with("//") {
            until("\n", 1)
        } else if c == '"' {
            let length = until("\"", 1);
            found.push((rest[..length].trim_matches('"').to_owned(), line));
            length
        } else if "{};=".contains(c) {
            found.push((c.to_string(), line));
            1
        } else if c.is_whitespace() {
            c.len_utf8()
        } else {
            let ends = |c: char| c.is_whitespace() || "{};=\"#".contains(c);
            let length = rest.find(ends).unwrap_or(rest.len());
            found.push((rest[..length].to_owned(), line));
            length
        };
        line += u32::try_from(rest[..length].matches('\n').count()).unwrap_or(0);
        rest = &rest[length..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listed;

    #[test]
    fn attributes_of_backends_only() {
        let text = "vcl 4.0; # {\nbackend a {\n .host = \"h;\"; /* } */ .port = \"1\";\n .max_connections = 7;\n \
            .probe = { .url = \"/\"; }\n}\nsub vcl_recv { set req.x = \"}\"; .host = \"no\"; }\n";
        let found = listed(&backends(text, Path::new("f")), ",");
        assert_eq!(
            found,
            [
                "backend a|.host|h;|3",
                "backend a|.port|1|3",
                "backend a|.max_connections|7|4",
                "backend a>.probe|.url|/|5",
            ]
        );
        for (at, _) in text.char_indices() {
            assert!(backends(&text[..at], Path::new("f")).len() <= 4);
        }
    }
}
