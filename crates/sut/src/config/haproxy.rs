//! HAProxy's configuration: lines of words, in sections that begin at their keyword.
//!
//! The surprises: indentation means nothing, so a section ends where the next one begins; and a proxy inherits from
//! the last `defaults` section before it, or from the one that it names, not from all of them.

use super::files::{self, Files, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::ops::Range;
use std::path::Path;

/// Keywords that begin a section.
pub(crate) const SECTIONS: [&str; 21] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "userlist",
    "resolvers",
    "peers",
    "cache",
    "program",
    "mailers",
    "ring",
    "http-errors",
    "fcgi-app",
    "log-forward",
    "crt-store",
    "traces",
    "acme",
    "haproxy",
    "dynamic-update",
    "crt-list",
];

/// A line with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub words: Vec<String>,
    /// As written, without the end of the line.
    pub text: String,
    pub file: String,
    pub line: u32,
}

impl Line {
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    pub fn opens_section(&self) -> bool {
        SECTIONS.contains(&self.name())
    }

    /// How a directive's context names the section: keyword and name, without `from`.
    pub fn label(&self) -> String {
        let words: Vec<&str> = self.words.iter().take(2).map(String::as_str).collect();
        words.join(" ")
    }
}

/// Words of a line; `#` begins a comment, quotes and backslashes join.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(characters.next());
            }
            (None, '#') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

pub(crate) fn lines(text: &str, file: &str) -> Vec<Line> {
    text.lines()
        .zip(1u32..)
        .filter_map(|(text, line)| {
            let words = split(text);
            (!words.is_empty()).then(|| Line {
                words,
                text: text.to_owned(),
                file: file.to_owned(),
                line,
            })
        })
        .take(MOST_DIRECTIVES)
        .collect()
}

/// Configuration files in the order in which HAProxy reads them. A directory stands for its `*.cfg` files.
pub(crate) fn paths(command: &[String], cwd: &str, files: &Files) -> Vec<String> {
    let base = super::values_of(command, "-C").pop().unwrap_or_default();
    let base = files::join(cwd, &base).display().to_string();
    // What follows `--` are configuration files as well.
    let rest = command.iter().skip_while(|w| *w != "--").skip(1).cloned();
    super::values_of(command, "-f")
        .into_iter()
        .chain(rest)
        .flat_map(|path| {
            let path = files::join(&base, &path);
            if files.is_dir(&path) {
                files.glob(&path.join("*.cfg"))
            } else {
                vec![path]
            }
        })
        .map(|path| path.display().to_string())
        .collect()
}

/// All lines of all files.
pub(crate) fn all_lines(server: &Server, files: &mut Files) -> Vec<Line> {
    let cwd = super::working_directory(server.main_pid);
    let mut all = Vec::new();
    for path in paths(&server.command, &cwd, files) {
        if let Some(text) = files.text(Path::new(&path)) {
            all.extend(lines(&text, &path));
        }
    }
    all
}

pub(crate) fn directives(lines: &[Line]) -> Vec<Directive> {
    let mut context = Vec::new();
    let mut found = Vec::new();
    for line in lines {
        if line.opens_section() {
            context.clear();
        }
        found.push(Directive {
            name: line.name().to_owned(),
            args: line.words[1..].to_vec(),
            context: context.clone(),
            file: line.file.clone(),
            line: line.line,
        });
        if line.opens_section() {
            context = vec![line.label()];
        }
    }
    found
}

pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let lines = all_lines(server, files);
    server.directives.extend(directives(&lines));
}

/// Where the directives of the `defaults` section stand that the section `context` inherits from.
pub(crate) fn defaults_of(directives: &[Directive], context: &[String]) -> Option<Range<usize>> {
    const HEIRS: [&str; 3] = ["frontend", "backend", "listen"];
    let (keyword, name) = context.first()?.split_once(' ')?;
    if !HEIRS.contains(&keyword) {
        return None;
    }
    let is_section = |d: &Directive| d.context.is_empty() && SECTIONS.contains(&d.name.as_str());
    let at = directives.iter().position(|d| {
        is_section(d) && d.name == keyword && d.args.first().is_some_and(|a| a == name)
    })?;
    let from = directives[at]
        .args
        .iter()
        .skip_while(|a| *a != "from")
        .nth(1);
    let start = directives[..at].iter().rposition(|d| {
        is_section(d) && d.name == "defaults" && (from.is_none() || d.args.first() == from)
    })?;
    let length = directives[start + 1..]
        .iter()
        .take_while(|d| !is_section(d))
        .count();
    Some(start + 1..start + 1 + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::effective;

    const TEXT: &str = "global\n maxconn 100 # most\n\ndefaults\n timeout client 5s\n mode http\n\
        defaults slow\n timeout client 50s\nfrontend a\nbind :80\n  timeout client 1s\n\
        frontend b from slow\n bind \"unix@/a b\" \nlisten c\n bind :81\nbackend d\n http-request set-header x a\\ b\n";

    #[test]
    fn sections_and_words() {
        let all = directives(&lines(TEXT, "f"));
        let of = |name: &str| all.iter().find(|d| d.name == name).unwrap();
        assert_eq!(
            (of("maxconn").args[0].as_str(), of("maxconn").line),
            ("100", 2)
        );
        assert_eq!(of("maxconn").context, ["global"]);
        assert_eq!(of("http-request").args, ["set-header", "x", "a b"]);
        let binds: Vec<&str> = all
            .iter()
            .filter(|d| d.name == "bind")
            .map(|d| d.args[0].as_str())
            .collect();
        assert_eq!(binds, [":80", "unix@/a b", ":81"]);
        assert_eq!(split("a 'b # \"c' \"d\\\"\" #e"), ["a", "b # \"c", "d\""]);
    }

    #[test]
    fn a_proxy_inherits_from_its_own_defaults() {
        let all = directives(&lines(TEXT, "f"));
        let value = |name: &str, section: &str| {
            let found = effective(&all, name, &[section.to_owned()]);
            found.first().map(|d| d.args.join(" "))
        };
        assert_eq!(value("timeout", "frontend a").as_deref(), Some("client 1s"));
        assert_eq!(
            value("timeout", "frontend b").as_deref(),
            Some("client 50s")
        );
        assert_eq!(value("mode", "frontend b"), None);
        assert_eq!(value("timeout", "backend d").as_deref(), Some("client 50s"));
        assert_eq!(value("timeout", "global"), None);
    }

    #[test]
    fn files_and_directories_in_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["2.cfg", "1.cfg", "3.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let d = dir.path().display().to_string();
        let command: Vec<String> = ["haproxy", "-W", "-f", "x.cfg", "-f", &d, "--", "y.cfg"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            paths(&command, "/w", &Files::ours()),
            [
                "/w/x.cfg".to_owned(),
                format!("{d}/1.cfg"),
                format!("{d}/2.cfg"),
                "/w/y.cfg".to_owned()
            ]
        );
    }
}
