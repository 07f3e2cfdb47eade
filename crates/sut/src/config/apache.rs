//! Apache's configuration: a directive a line, in nested sections.
//!
//! The surprises: a directive inside `<IfModule>` stands at the level of what is around it, which the context shows
//! all the same, since whether the module is there is not asked; `${NAME}` comes from `Define` or from the
//! environment of the process; and a line that ends in a backslash goes on.

use super::files::{self, Files, MOST_DEPTH, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::collections::BTreeMap;
use std::path::Path;

/// Sections within sections.
const MOST_NESTING: usize = 64;

/// What a line does with sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Opens,
    Closes,
    /// A directive.
    Says,
}

/// A line, those that go on joined, where it is read: included files stand in the place of their `Include`.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// As it is written, without indentation.
    pub text: String,
    pub role: Role,
    /// Empty for the end of a section.
    pub name: String,
    /// Unquoted, variables filled in.
    pub args: Vec<String>,
    /// The arguments as they are written.
    pub raw: Vec<String>,
    pub context: Vec<String>,
    pub file: String,
    pub line: u32,
}

impl Line {
    /// A section as its lines have it in their context.
    pub fn label(&self) -> String {
        let words = std::iter::once(&self.name).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// One reading.
struct Reader<'a> {
    files: &'a mut Files,
    root: String,
    defined: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    context: Vec<String>,
    found: Vec<Line>,
}

/// Reads it for a running server.
pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let (_, lines) = all_lines(server, files);
    server.directives.extend(directives(lines));
}

fn directives(lines: Vec<Line>) -> impl Iterator<Item = Directive> {
    let says = lines.into_iter().filter(|l| l.role != Role::Closes);
    says.map(|l| Directive {
        name: l.name,
        args: l.args,
        context: l.context,
        file: l.file,
        line: l.line,
    })
}

/// The directory that relative paths begin with until a `ServerRoot`, and all lines in the order in which the server
/// reads them: of the file of `-f`, else of the one that was built in (`apache2 -V` prints it and reads no
/// configuration).
pub(crate) fn all_lines(server: &Server, files: &mut Files) -> (String, Vec<Line>) {
    let built_in = crate::discover::ask(Path::new("/proc"), server.main_pid, &server.exe, &["-V"])
        .unwrap_or_default();
    let built = |name: &str| {
        let line = built_in
            .lines()
            .find_map(|l| l.split_once(&format!("{name}=\"")))?;
        line.1.strip_suffix('"').map(str::to_owned)
    };
    let flag = |flag: &str| super::values_of(&server.command, flag).pop();
    let root = flag("-d")
        .or_else(|| built("HTTPD_ROOT"))
        .unwrap_or_else(|| "/etc/apache2".to_owned());
    let conf = flag("-f")
        .or_else(|| built("SERVER_CONFIG_FILE"))
        .unwrap_or_else(|| "conf/httpd.conf".to_owned());
    let environment = crate::discover::words(Path::new("/proc"), server.main_pid, "environ")
        .iter()
        .filter_map(|entry| entry.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut reader = Reader {
        files,
        root: root.clone(),
        defined: BTreeMap::new(),
        environment,
        context: Vec::new(),
        found: Vec::new(),
    };
    // -C comes before the file, -c behind it.
    for line in super::values_of(&server.command, "-C") {
        reader.text(&line, "", 0);
    }
    let path = files::join(&reader.root, &conf).display().to_string();
    reader.file(&path, 0);
    for line in super::values_of(&server.command, "-c") {
        reader.text(&line, "", 0);
    }
    (root, reader.found)
}

/// Lines of a text of its own.
#[cfg(test)]
pub(crate) fn lines(text: &str, files: &mut Files) -> Vec<Line> {
    let mut reader = Reader {
        files,
        root: "/".to_owned(),
        defined: BTreeMap::new(),
        environment: BTreeMap::new(),
        context: Vec::new(),
        found: Vec::new(),
    };
    reader.text(text, "f", 0);
    reader.found
}

impl Reader<'_> {
    fn file(&mut self, path: &str, depth: usize) {
        if depth > MOST_DEPTH {
            self.files.say(
                "deeply nested includes",
                &format!("{path} is {depth} includes deep"),
                "look for a file that includes itself",
            );
            return;
        }
        if let Some(text) = self.files.text(Path::new(path)) {
            self.text(&text, path, depth);
        }
    }

    fn text(&mut self, text: &str, file: &str, depth: usize) {
        let outside = self.context.len();
        for (line, text) in logical_lines(text) {
            if self.found.len() >= MOST_DIRECTIVES {
                break;
            }
            // The command line has no lines.
            let line = if file.is_empty() { 0 } else { line };
            self.line(&text, file, line, depth);
        }
        // A file must close what it opens.
        self.context.truncate(outside);
    }

    fn line(&mut self, text: &str, file: &str, line: u32, depth: usize) {
        if text.starts_with("</") {
            self.context.pop();
            self.found.push(Line {
                text: text.to_owned(),
                role: Role::Closes,
                name: String::new(),
                args: Vec::new(),
                raw: Vec::new(),
                context: self.context.clone(),
                file: file.to_owned(),
                line,
            });
            return;
        }
        let section = text
            .strip_prefix('<')
            .map(|t| t.trim_end().trim_end_matches('>'));
        let mut written = split(section.unwrap_or(text)).into_iter();
        let Some((name, _)) = written.next() else {
            return;
        };
        let name = self.filled_in(&name);
        let (plain, raw): (Vec<String>, Vec<String>) = written.unzip();
        let args: Vec<String> = plain.iter().map(|word| self.filled_in(word)).collect();
        if section.is_none() && name.to_ascii_lowercase().starts_with("include") {
            return self.include(&name, &args, depth);
        }
        if name.eq_ignore_ascii_case("Define") {
            let value = args.get(1).cloned().unwrap_or_default();
            self.defined
                .extend(args.first().map(|a| (a.clone(), value)));
        }
        if name.eq_ignore_ascii_case("ServerRoot") {
            self.root = args.first().cloned().unwrap_or_default();
        }
        let found = Line {
            text: text.to_owned(),
            role: if section.is_some() {
                Role::Opens
            } else {
                Role::Says
            },
            name,
            args,
            raw,
            context: self.context.clone(),
            file: file.to_owned(),
            line,
        };
        if section.is_some() && self.context.len() < MOST_NESTING {
            self.context.push(found.label());
        }
        self.found.push(found);
    }

    /// A directory stands for all files in it; `IncludeOptional` may name what is not there.
    fn include(&mut self, name: &str, args: &[String], depth: usize) {
        let Some(pattern) = args.first() else {
            return;
        };
        let is_optional = name.eq_ignore_ascii_case("IncludeOptional");
        for path in self.files.glob(&files::join(&self.root, pattern)) {
            if is_optional && !self.files.outside(&path).exists() {
                continue;
            }
            let inside = if self.files.is_dir(&path) {
                let entries = self.files.entries(&path);
                entries.into_iter().map(|name| path.join(name)).collect()
            } else {
                vec![path]
            };
            for path in inside {
                self.file(&path.display().to_string(), depth + 1);
            }
        }
    }

    /// `${NAME}`; what is not known stays as it is.
    fn filled_in(&self, word: &str) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some(at) = rest.find("${") {
            let Some(length) = rest[at..].find('}') else {
                break;
            };
            let name = &rest[at + 2..at + length];
            out.push_str(&rest[..at]);
            match self
                .defined
                .get(name)
                .or_else(|| self.environment.get(name))
            {
                Some(value) => out.push_str(value),
                None => out.push_str(&rest[at..=at + length]),
            }
            rest = &rest[at + length + 1..];
        }
        out + rest
    }
}

/// Lines without comments and blank ones, those that go on joined, with the number of the first.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, line) in (1u32..).zip(text.lines()) {
        let (first, mut joined) = open.take().unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                joined.push_str(part);
                open = Some((first, joined));
            }
            None => {
                joined.push_str(line);
                found.push((first, joined));
            }
        }
    }
    found.extend(open);
    found
        .into_iter()
        .map(|(number, line)| (number, line.trim().to_owned()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Words at white space, each with how it is written; quotes join, a backslash before the quote keeps it.
fn split(text: &str) -> Vec<(String, String)> {
    let mut words: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        let is_quoted = matches!(first, '"' | '\'');
        let mut escaped = false;
        let mut end = rest.len();
        for (i, c) in rest.char_indices().skip(usize::from(is_quoted)) {
            if is_quoted && escaped {
                if c != first {
                    word.push('\\');
                }
                word.push(c);
                escaped = false;
            } else if is_quoted && c == '\\' {
                escaped = true;
            } else if (is_quoted && c == first) || (!is_quoted && c.is_whitespace()) {
                end = i + c.len_utf8();
                break;
            } else {
                word.push(c);
            }
        }
        words.push((word, rest[..end].trim_end().to_owned()));
        rest = rest[end..].trim_start();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::listed;

    #[test]
    fn sections_variables_includes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("on")).unwrap();
        std::fs::write(dir.path().join("on/b.conf"), "KeepAlive On\n").unwrap();
        std::fs::write(dir.path().join("on/a.conf"), "Include on/a.conf\n").unwrap();
        let text = "Define D /x\nServerRoot \"ROOT\"\nErrorLog ${D}/${LOG}/${no}\n# c\n<VirtualHost *:80>\n \
                    <IfModule mpm.c>\n  Header set A \"b \\\"c\" \\\n   'd e'\n </IfModule>\n IncludeOptional on/*.conf\n\
                    </VirtualHost>\nTimeout 5\n";
        let root = dir.path().display().to_string();
        let mut files = Files::ours();
        let mut reader = Reader {
            files: &mut files,
            root: "/".to_owned(),
            defined: BTreeMap::new(),
            environment: [("LOG".to_owned(), "log".to_owned())].into(),
            context: Vec::new(),
            found: Vec::new(),
        };
        reader.text(&text.replace("ROOT", &root), "f", 0);
        let directives: Vec<Directive> = directives(reader.found).collect();
        let found = listed(&directives[2..], ",");
        assert_eq!(
            found,
            [
                "|ErrorLog|/x/log/${no}|3",
                "|VirtualHost|*:80|5",
                "VirtualHost *:80|IfModule|mpm.c|6",
                "VirtualHost *:80>IfModule mpm.c|Header|set,A,b \"c,d e|7",
                "VirtualHost *:80|KeepAlive|On|1",
                "|Timeout|5|12",
            ]
        );
        assert_eq!(files.unavailable.len(), 1, "the circle is said once");
    }
}
