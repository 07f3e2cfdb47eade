//! Backends of Varnish's VCL: host, port and limits, by the little of its grammar that a declaration needs.
//!
//! The surprise: a `.probe` opens a block of its own within the backend; its attributes have its name in their context.

use super::files::Files;
use super::varnish;
use record::{Directive, Server};
use std::ops::Range;
use std::path::Path;

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    for path in varnish::vcl_files(&server.command) {
        if let Some(text) = files.text(&path) {
            server.directives.extend(backends(&text, &path));
        }
    }
}

/// The text with the paths of includes that begin at the directory of its file (`./x`) written out.
pub(crate) fn with_whole_includes(text: &str, dir: &Path) -> String {
    let tokens = tokens(text);
    let path_of = |at: usize| match tokens.get(at + 1) {
        Some(token) if token.text == "+glob" => tokens.get(at + 2),
        other => other,
    };
    let is_include = |(_, token): &(usize, &Token)| token.text == "include";
    let includes = tokens.iter().enumerate().filter(is_include);
    let paths = includes.filter_map(|(at, _)| path_of(at));
    let paths = paths.filter(|token| token.text.starts_with("./"));
    let places: Vec<Range<usize>> = paths.map(|token| token.at.clone()).collect();
    let mut text = text.to_owned();
    for place in places.into_iter().rev() {
        let path = text[place.clone()]
            .trim_matches('"')
            .trim_start_matches("./");
        let whole = format!("\"{}\"", dir.join(path).display());
        text.replace_range(place, &whole);
    }
    text
}

fn backends(text: &str, path: &Path) -> Vec<Directive> {
    let mut found = Vec::new();
    let mut context: Vec<String> = Vec::new();
    let mut words: Vec<Token> = Vec::new();
    let mut is_backend = false;
    for token in tokens(text) {
        match token.text.as_str() {
            "{" => {
                let names: Vec<&str> = words
                    .iter()
                    .map(|w| w.text.as_str())
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
                if let [name, equals, values @ ..] = words.as_slice()
                    && is_backend
                    && name.text.starts_with('.')
                    && equals.text == "="
                {
                    found.push(Directive {
                        name: name.text.clone(),
                        args: values.iter().map(|value| value.text.clone()).collect(),
                        context: context.clone(),
                        file: path.display().to_string(),
                        line: name.line,
                    });
                }
                words.clear();
            }
            _ => words.push(token),
        }
    }
    found
}

struct Token {
    text: String,
    line: u32,
    at: Range<usize>,
}

/// Words, strings without their quotes, `{`, `}`, `;` and `=`; comments are passed over.
fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1u32);
    while let Some(c) = rest.chars().next() {
        let until = |end: &str, from: usize| {
            rest.get(from..)
                .and_then(|r| r.find(end))
                .map_or(rest.len(), |i| from + i + end.len())
        };
        let is_comment = rest.starts_with("/*") || c == '#' || rest.starts_with("//");
        let length = if rest.starts_with("/*") {
            until("*/", 2)
        } else if is_comment {
            until("\n", 1)
        } else if c == '"' {
            until("\"", 1)
        } else if "{};=".contains(c) || c.is_whitespace() {
            c.len_utf8()
        } else {
            let ends = |c: char| c.is_whitespace() || "{};=\"#".contains(c);
            rest.find(ends).unwrap_or(rest.len())
        };
        if !is_comment && !c.is_whitespace() {
            let begins = text.len() - rest.len();
            found.push(Token {
                text: rest[..length].trim_matches('"').to_owned(),
                line,
                at: begins..begins + length,
            });
        }
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

    #[test]
    fn paths_of_includes_are_written_out_where_they_stand() {
        let text = "include \"./a.vcl\"; include \"b.vcl\"; include +glob \"./c/*.vcl\"; # include \"./d\";\n";
        let whole = with_whole_includes(text, Path::new("/e"));
        let want = text.replace("\"./a", "\"/e/a").replace("\"./c", "\"/e/c");
        assert_eq!(whole, want);
    }
}
