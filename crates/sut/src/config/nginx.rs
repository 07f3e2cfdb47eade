//! nginx's configuration, by its own grammar (`ngx_conf_read_token`).
//!
//! A tree is kept, not a list, because a copy is written from it. The surprises: an escape is undone for
//! quotes, backslashes and white space only; `${name}` does not end a word; a `*_by_lua_block` holds Lua, in
//! which braces may stand in strings and comments; and the files of `include` are relative to the directory of
//! the configuration while most other paths are relative to the prefix.

use super::files::{self, Files, MOST_DEPTH, MOST_DIRECTIVES};
use record::{Directive, Server};
use std::path::Path;

/// A directive with what its block holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub name: String,
    /// Arguments, unquoted.
    pub args: Vec<String>,
    /// Arguments as written.
    pub raw: Vec<String>,
    pub body: Body,
    pub file: String,
    pub line: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Body {
    #[default]
    None,
    Block(Vec<Node>),
    /// Another language, as written.
    Text(String),
}

impl Node {
    pub fn new(name: &str, args: &[String]) -> Self {
        Self {
            name: name.to_owned(),
            args: args.to_vec(),
            raw: args.iter().map(|a| quoted(a)).collect(),
            ..Self::default()
        }
    }

    /// How an enclosed directive's context names this one.
    pub fn label(&self) -> String {
        label(&self.name, &self.args)
    }
}

pub(crate) fn label(name: &str, args: &[String]) -> String {
    std::iter::once(name)
        .chain(args.iter().map(String::as_str))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A word in quotes where it needs them.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !";{}\"'\\#".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word {
        text: String,
        raw: String,
        line: u32,
    },
    End,
    Open,
    Close,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        self.line += u32::from(c == '\n');
        Some(c)
    }

    fn next(&mut self) -> Option<Token> {
        loop {
            match self.peek()? {
                '#' => while self.bump().is_some_and(|c| c != '\n') {},
                c if c.is_whitespace() => {
                    self.bump();
                }
                _ => break,
            }
        }
        let (start, line) = (self.at, self.line);
        match self.peek()? {
            ';' => self.bump().map(|_| Token::End),
            '{' => self.bump().map(|_| Token::Open),
            '}' => self.bump().map(|_| Token::Close),
            quote @ ('"' | '\'') => {
                self.bump();
                let text = self.until(|c| c == quote, true);
                Some(Token::Word {
                    text,
                    raw: self.text[start..self.at].to_owned(),
                    line,
                })
            }
            _ => {
                let text = self.until(|c| c.is_whitespace() || c == ';' || c == '{', false);
                Some(Token::Word {
                    text,
                    raw: self.text[start..self.at].to_owned(),
                    line,
                })
            }
        }
    }

    /// Up to a character that ends the word; a quote is taken in, the end of a plain word is left.
    fn until(&mut self, ends: impl Fn(char) -> bool, takes_end: bool) -> String {
        let mut word = String::new();
        let mut before = ' ';
        while let Some(c) = self.peek() {
            if c == '\\' {
                self.bump();
                match self.bump() {
                    Some(e @ ('"' | '\'' | '\\')) => word.push(e),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some('n') => word.push('\n'),
                    Some(e) => word.extend(['\\', e]),
                    None => word.push('\\'),
                }
                before = '\\';
                continue;
            }
            let is_variable = !takes_end && c == '{' && before == '$';
            if ends(c) && !is_variable {
                if takes_end {
                    self.bump();
                }
                break;
            }
            word.push(c);
            before = c;
            self.bump();
        }
        word
    }

    /// The text of a Lua block up to its closing brace, which is taken in.
    fn lua(&mut self) -> String {
        let start = self.at;
        let mut depth = 1usize;
        while let Some(c) = self.peek() {
            let rest = &self.text[self.at..];
            if rest.starts_with("--") && long_bracket(&rest[2..]).is_none() {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.bump();
                }
                continue;
            }
            if let Some(level) = long_bracket(rest) {
                let close = format!("]{}]", "=".repeat(level));
                let length = rest.find(&close).map_or(rest.len(), |i| i + close.len());
                let end = self.at + length;
                while self.at < end && self.bump().is_some() {}
                continue;
            }
            self.bump();
            match c {
                '"' | '\'' => self.lua_string(c),
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth == 0 {
                        return self.text[start..self.at - 1].to_owned();
                    }
                }
                _ => {}
            }
        }
        self.text[start..].to_owned()
    }

    fn lua_string(&mut self, quote: char) {
        while let Some(c) = self.bump() {
            match c {
                '\\' => {
                    self.bump();
                }
                c if c == quote || c == '\n' => return,
                _ => {}
            }
        }
    }
}

/// Level of the long bracket (`[[`, `[=[`) that Lua text begins with.
fn long_bracket(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('[')?;
    let level = rest.bytes().take_while(|b| *b == b'=').count();
    rest[level..].starts_with('[').then_some(level)
}

/// Blocks within blocks; nginx's own are at most some five deep.
const MOST_NESTING: usize = 64;

/// The tree of one text. What is not closed ends with the text, and a stray brace is passed over.
pub(crate) fn parse(text: &str, file: &str) -> Vec<Node> {
    let mut lexer = Lexer {
        text,
        at: 0,
        line: 1,
    };
    let mut count = 0;
    let mut nodes = block(&mut lexer, file, 0, &mut count);
    // A closing brace too many ends the block above; what follows is still read.
    while lexer.at < text.len() && count < MOST_DIRECTIVES {
        nodes.extend(block(&mut lexer, file, 0, &mut count));
    }
    nodes
}

fn block(lexer: &mut Lexer<'_>, file: &str, depth: usize, count: &mut usize) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut node: Option<Node> = None;
    while let Some(token) = lexer.next() {
        match token {
            Token::Word { text, raw, line } => match &mut node {
                Some(node) => {
                    node.args.push(text);
                    node.raw.push(raw);
                }
                None => {
                    node = Some(Node {
                        name: text,
                        file: file.to_owned(),
                        line,
                        ..Node::default()
                    });
                }
            },
            Token::End => nodes.extend(node.take()),
            Token::Open => {
                let mut opened = node.take().unwrap_or_default();
                opened.body = if opened.name.ends_with("_by_lua_block") {
                    Body::Text(lexer.lua())
                } else if depth >= MOST_NESTING {
                    continue;
                } else {
                    Body::Block(block(lexer, file, depth + 1, count))
                };
                nodes.push(opened);
            }
            Token::Close => break,
        }
        *count += 1;
        if *count >= MOST_DIRECTIVES {
            lexer.at = lexer.text.len();
        }
    }
    nodes.extend(node);
    nodes
}

/// Where an nginx process has its configuration from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Paths {
    pub prefix: String,
    pub conf: String,
    /// Directives of `-g`.
    pub global: String,
}

impl Paths {
    /// From the command line (a title in which the words are separated by blanks) and what was built in.
    pub fn of(command: &[String], built_in: &str, cwd: &str) -> Self {
        let configured = |name: &str| {
            built_in
                .split_whitespace()
                .find_map(|a| a.strip_prefix(name)?.strip_prefix('='))
                .map(|v| v.trim_matches(['\'', '"']).to_owned())
        };
        let given = |flag: &str| option(command, flag);
        let prefix = given("-p")
            .or_else(|| configured("--prefix"))
            .unwrap_or_else(|| "/usr/local/nginx".to_owned());
        let prefix = files::join(cwd, &prefix).display().to_string();
        let conf = given("-c")
            .or_else(|| configured("--conf-path"))
            .unwrap_or_else(|| "conf/nginx.conf".to_owned());
        Self {
            conf: files::join(&prefix, &conf).display().to_string(),
            prefix,
            global: given("-g").unwrap_or_default(),
        }
    }

    /// Directory that `include` is relative to.
    pub fn conf_dir(&self) -> String {
        let dir = Path::new(&self.conf).parent();
        dir.map(|d| d.display().to_string()).unwrap_or_default()
    }
}

/// Value of a flag. In a title the value of `-g` holds blanks and ends at the next flag.
fn option(command: &[String], flag: &str) -> Option<String> {
    let is_title = command.first().is_some_and(|w| w.starts_with("nginx: "));
    let words: Vec<&str> = if is_title {
        command.iter().flat_map(|w| w.split_whitespace()).collect()
    } else {
        command.iter().map(String::as_str).collect()
    };
    let at = words.iter().position(|w| w.starts_with(flag))?;
    let glued = &words[at][flag.len()..];
    if !glued.is_empty() {
        return Some(glued.to_owned());
    }
    const FLAGS: [&str; 8] = ["-p", "-c", "-e", "-g", "-q", "-t", "-T", "-s"];
    let values = words[at + 1..].iter().copied();
    let value: Vec<&str> = if is_title && flag == "-g" {
        values.take_while(|w| !FLAGS.contains(w)).collect()
    } else {
        values.take(1).collect()
    };
    (!value.is_empty()).then(|| value.join(" "))
}

/// The arguments of `configure`, which `nginx -V` prints; it reads no configuration.
pub(crate) fn built_in(server: &Server) -> Option<String> {
    let text = crate::discover::ask(Path::new("/proc"), server.main_pid, &server.exe, &["-V"])?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("configure arguments:"))?;
    Some(line.to_owned())
}

pub(crate) fn paths(server: &Server) -> Paths {
    let cwd = super::working_directory(server.main_pid);
    Paths::of(&server.command, &built_in(server).unwrap_or_default(), &cwd)
}

/// The whole tree, with the files of `include` in their places.
pub(crate) fn tree(paths: &Paths, files: &mut Files) -> Vec<Node> {
    let mut nodes = parse(&paths.global, "");
    for node in &mut nodes {
        node.line = 0;
    }
    nodes.extend(included(&paths.conf, &paths.conf_dir(), files, 0));
    nodes
}

fn included(path: &str, base: &str, files: &mut Files, depth: usize) -> Vec<Node> {
    match files.text(Path::new(path)) {
        Some(text) => expand(parse(&text, path), base, files, depth),
        None => Vec::new(),
    }
}

fn expand(nodes: Vec<Node>, base: &str, files: &mut Files, depth: usize) -> Vec<Node> {
    let mut found = Vec::new();
    for mut node in nodes {
        if node.name == "include" && node.body == Body::None {
            if depth >= MOST_DEPTH {
                files.say(
                    "deeply nested includes",
                    &format!("{}:{} is {depth} includes deep", node.file, node.line),
                    "look for a file that includes itself",
                );
                continue;
            }
            let pattern = files::join(base, node.args.first().map_or("", String::as_str));
            for path in files.glob(&pattern) {
                found.extend(included(
                    &path.display().to_string(),
                    base,
                    files,
                    depth + 1,
                ));
            }
            continue;
        }
        if let Body::Block(inner) = node.body {
            node.body = Body::Block(expand(inner, base, files, depth));
        }
        found.push(node);
    }
    found
}

/// The tree as a list; a block stands before what it holds.
pub(crate) fn flat(nodes: &[Node]) -> Vec<Directive> {
    fn walk(nodes: &[Node], context: &[String], out: &mut Vec<Directive>) {
        for node in nodes {
            if out.len() >= MOST_DIRECTIVES {
                return;
            }
            out.push(Directive {
                name: node.name.clone(),
                args: node.args.clone(),
                context: context.to_vec(),
                file: node.file.clone(),
                line: node.line,
            });
            if let Body::Block(inner) = &node.body {
                // The pairs of these blocks are data, not directives.
                if matches!(
                    node.name.as_str(),
                    "types" | "map" | "geo" | "split_clients"
                ) {
                    continue;
                }
                let mut inside = context.to_vec();
                inside.push(node.label());
                walk(inner, &inside, out);
            }
        }
    }
    let mut out = Vec::new();
    walk(nodes, &[], &mut out);
    out
}

/// Reads it for a running server.
pub(crate) fn read(server: &mut Server, files: &mut Files) {
    let paths = paths(server);
    server.directives.extend(flat(&tree(&paths, files)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        flat(&parse(text, "f"))
            .iter()
            .map(|d| {
                format!(
                    "{} | {} {}:{}",
                    d.context.join(" > "),
                    label(&d.name, &d.args),
                    d.file,
                    d.line
                )
            })
            .collect()
    }

    #[test]
    fn the_grammar() {
        let text = "worker_processes 2; # a; b {\nhttp {\n log_format x 'a;\\'{b}' \"c}\";\n \
                    map $a $b { default 1; }\n server { return 200 \"}\"; set $a ${b}c; \
                    location ~ \"^/a{2}\\.php$\" { } }\n}\n";
        assert_eq!(
            list(text),
            [
                " | worker_processes 2 f:1",
                " | http f:2",
                "http | log_format x a;'{b} c} f:3",
                "http | map $a $b f:4",
                "http | server f:5",
                "http > server | return 200 } f:5",
                "http > server | set $a ${b}c f:5",
                "http > server | location ~ ^/a{2}\\.php$ f:5",
            ]
        );
    }

    #[test]
    fn lua_holds_braces_of_its_own() {
        let text = "location / { content_by_lua_block {\n local a = '}' -- }\n local t = {[[ } ]], \"}\"}\n }\n root x; }\na b;";
        assert_eq!(
            list(text),
            [
                " | location / f:1",
                "location / | content_by_lua_block f:1",
                "location / | root x f:5",
                " | a b f:6",
            ]
        );
    }

    #[test]
    fn paths_from_a_title_and_from_what_was_built_in() {
        let built_in =
            "--prefix=/usr/share/nginx --conf-path=/etc/nginx/nginx.conf --with-x='-g -c'";
        let title = |t: &str| vec![t.to_owned()];
        let plain = Paths::of(&title("nginx: master process nginx"), built_in, "/");
        assert_eq!(plain.conf, "/etc/nginx/nginx.conf");
        let given = Paths::of(
            &title(
                "nginx: master process nginx -p /w/ -c a/b.conf -g daemon off; user x; -e stderr",
            ),
            built_in,
            "/",
        );
        assert_eq!(
            (given.prefix.as_str(), given.conf.as_str()),
            ("/w/", "/w/a/b.conf")
        );
        assert_eq!(given.global, "daemon off; user x;");
        assert_eq!(given.conf_dir(), "/w/a");
        let relative = Paths::of(&title("nginx: master process ./nginx -p ."), "", "/srv");
        assert_eq!(relative.conf, "/srv/./conf/nginx.conf");
    }

    #[test]
    fn includes_take_their_place_and_a_circle_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(
            path("n.conf"),
            "a 1;\ninclude d/*.conf;\nb 1;\ninclude none;",
        )
        .unwrap();
        std::fs::write(path("d/1.conf"), "c 1;").unwrap();
        std::fs::write(path("d/2.conf"), "d 1; include d/2.conf;").unwrap();
        let paths = Paths {
            conf: path("n.conf"),
            ..Paths::default()
        };
        let mut files = Files::ours();
        let nodes = tree(&paths, &mut files);
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        assert_eq!(names[..3], ["a", "c", "d"]);
        assert_eq!(names.last(), Some(&"b"));
        assert_eq!(names.iter().filter(|n| **n == "d").count(), MOST_DEPTH);
        let said: Vec<&str> = files.unavailable.iter().map(|u| u.what.as_str()).collect();
        assert_eq!(said.len(), 2, "{said:?}");
    }
}
