//! nginx: from a template to a command line that works for root and for an ordinary user alike.
//!
//! The surprise: the template is not run quite as written. nginx's built-in paths (pid file, logs,
//! temporary files) belong to the system's own nginx, so whatever the template leaves open is set to a
//! path in the working directory: main directives by `-g`, those of `http` behind its brace, on the same
//! line so that line numbers in nginx's messages stay right. The result is stored as the configuration
//! as run.

use super::{Adapter, Job, is_root, nothing};
use crate::error::TargetError;
use crate::installed;
use crate::server::{Reload, Server, Values};
use std::path::Path;
use std::process::Command;

pub(super) const ADAPTER: Adapter = Adapter {
    program: |target| installed::program(target, &["nginx"]),
    values: nothing,
    prepare,
};

/// Paths that nginx opens at start or under load, and the module without which there is none.
const TEMPORARY_PATHS: [(&str, Option<&str>); 5] = [
    ("client_body_temp_path", None),
    ("proxy_temp_path", Some("proxy")),
    ("fastcgi_temp_path", Some("fastcgi")),
    ("uwsgi_temp_path", Some("uwsgi")),
    ("scgi_temp_path", Some("scgi")),
];

/// What the installed nginx says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    /// `nginx/1.22.1`.
    pub version: String,
    /// Arguments of its `configure`.
    arguments: String,
}

impl Build {
    /// Asks the program at `path`.
    pub fn ask(target: &str, path: &str) -> Result<Self, TargetError> {
        let output = Command::new(path)
            .arg("-V")
            .output()
            .map_err(|e| installed::spawn_error(target, path, &e))?;
        Ok(Self::parse(&String::from_utf8_lossy(&output.stderr)))
    }

    fn parse(text: &str) -> Self {
        let behind = |label: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(label))
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        Self {
            version: behind("nginx version:"),
            arguments: behind("configure arguments:"),
        }
    }

    /// `-e`, where errors go before the configuration is read, came with 1.19.5; an older nginx writes a
    /// harmless alert instead.
    fn knows_e(&self) -> bool {
        let number = self.version.rsplit('/').next().unwrap_or_default();
        let mut parts = number
            .split(|c: char| !c.is_ascii_digit())
            .map(|p| p.parse().unwrap_or(0));
        let mut part = || parts.next().unwrap_or(0);
        (part(), part(), part()) >= (1u32, 19u32, 5u32)
    }

    fn has(&self, module: &str) -> bool {
        let without = format!("--without-http_{module}_module");
        !self.arguments.split_whitespace().any(|a| a == without)
    }
}

/// Writes the configuration into the working directory and lets nginx check it.
fn prepare(program: &str, job: &Job<'_>) -> Result<Server, TargetError> {
    let build = Build::ask(job.target, program)?;
    let directives = directives(job.text);
    let configuration = within_http(job.text, &directives, &build, job.dir);
    let whole = Job {
        text: &configuration,
        places: job.places.clone(),
        ..*job
    };
    let path = whole.write("nginx.conf")?;
    let argv = command_line(program, &build, &directives, job.dir);
    let mut check = argv.clone();
    check.splice(1..1, ["-t".to_owned(), "-q".to_owned()]);
    job.check(&path, &check, &Values::new(), said)?;
    Ok(Server {
        kind: "nginx".to_owned(),
        version: build.version,
        argv,
        configuration: [("nginx.conf".to_owned(), configuration.clone())].into(),
        workers: workers(&directives),
        reload: Reload::Signal(libc::SIGHUP),
        ..Server::default()
    })
}

fn command_line(program: &str, build: &Build, main: &[Directive<'_>], dir: &Path) -> Vec<String> {
    let dir_text = dir.display();
    let mut argv = vec![
        program.to_owned(),
        "-p".to_owned(),
        format!("{dir_text}/"),
        "-c".to_owned(),
        format!("{dir_text}/nginx.conf"),
    ];
    if build.knows_e() {
        argv.extend(["-e".to_owned(), "stderr".to_owned()]);
    }
    argv.extend(["-g".to_owned(), main_directives(main, dir, is_root())]);
    argv
}

/// The main directives that the template leaves open. Root's workers stay root: the user that nginx
/// would change to may not be able to read the working directory.
fn main_directives(main: &[Directive<'_>], dir: &Path, is_root: bool) -> String {
    let is_open = |name: &str| {
        !main
            .iter()
            .any(|d| d.parent.is_none() && d.words[0] == name)
    };
    let mut text = String::new();
    if is_open("daemon") {
        text.push_str("daemon off; ");
    }
    if is_open("error_log") {
        text.push_str("error_log stderr; ");
    }
    if is_open("pid") {
        text.push_str(&format!("pid \"{}/nginx.pid\"; ", dir.display()));
    }
    if is_root && is_open("user") {
        text.push_str("user root; ");
    }
    text.trim_end().to_owned()
}

/// The configuration with the paths that `http` leaves open.
fn within_http(text: &str, found: &[Directive<'_>], build: &Build, dir: &Path) -> String {
    let is_http = |d: &&Directive<'_>| d.parent.is_none() && d.words[0] == "http" && d.opens;
    let Some(http) = found.iter().find(is_http) else {
        return text.to_owned();
    };
    let is_open = |name: &str| {
        !found
            .iter()
            .any(|d| d.parent == Some("http") && d.depth == 1 && d.words[0] == name)
    };
    let mut added = String::new();
    for (name, module) in TEMPORARY_PATHS {
        if is_open(name) && module.is_none_or(|m| build.has(m)) {
            added.push_str(&format!(" {name} \"{}/{name}\";", dir.display()));
        }
    }
    if is_open("access_log") {
        added.push_str(&format!(" access_log \"{}/access.log\";", dir.display()));
    }
    format!("{}{added}{}", &text[..http.end], &text[http.end..])
}

/// `worker_processes`; with `auto`, or without a number, at least one.
fn workers(main: &[Directive<'_>]) -> usize {
    main.iter()
        .find(|d| d.parent.is_none() && d.words[0] == "worker_processes")
        .and_then(|d| d.words.get(1)?.parse().ok())
        .unwrap_or(1)
}

/// What `nginx -t` says.
fn said(log: &str) -> String {
    log.lines()
        .filter_map(message)
        .collect::<Vec<_>>()
        .join("\n")
}

/// What a line of nginx's log says, without date and process: `[emerg] unknown directive ...`. The
/// summary that `-t` adds says nothing and is left out.
fn message(line: &str) -> Option<String> {
    if line.trim().is_empty() || line.ends_with(" test failed") {
        return None;
    }
    let Some((level, text)) = line.split_once('[').and_then(|(_, l)| l.split_once("] ")) else {
        return Some(line.to_owned());
    };
    let is_process = |word: &str| word.chars().all(|c| c.is_ascii_digit() || c == '#');
    let text = match text.split_once(": ") {
        Some((process, text)) if is_process(process) => text,
        _ => text,
    };
    Some(format!("[{level}] {text}"))
}

/// A directive of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Directive<'a> {
    /// Name and arguments, as written.
    words: Vec<&'a str>,
    /// Blocks around it.
    depth: usize,
    /// Name of the block around it.
    parent: Option<&'a str>,
    /// It opens a block.
    opens: bool,
    /// Byte offset behind its `;` or `{`.
    end: usize,
}

/// The directives of a configuration, in order. Only the grammar that nginx's own parser has
/// (`ngx_conf_read_token`): words, quotes, comments, `;`, braces. What is not closed is left to nginx to refuse.
fn directives(text: &str) -> Vec<Directive<'_>> {
    let mut found = Vec::new();
    let mut blocks: Vec<&str> = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(token) = token(text, at) {
        at = token.end;
        match token.text {
            ";" | "{" => {
                let opens = token.text == "{";
                let name = words.first().copied();
                if !words.is_empty() {
                    found.push(Directive {
                        words: std::mem::take(&mut words),
                        depth: blocks.len(),
                        parent: blocks.last().copied(),
                        opens,
                        end: at,
                    });
                }
                if opens {
                    blocks.push(name.unwrap_or_default());
                }
            }
            "}" => {
                words.clear();
                blocks.pop();
            }
            word => words.push(word),
        }
    }
    found
}

struct Token<'a> {
    text: &'a str,
    end: usize,
}

/// The next token at or behind `from`; comments and white space are passed over.
fn token(text: &str, from: usize) -> Option<Token<'_>> {
    let mut start = from;
    loop {
        start += text[start..].find(|c: char| !c.is_whitespace())?;
        if !text[start..].starts_with('#') {
            break;
        }
        start += text[start..].find('\n')?;
    }
    let length = match text[start..].chars().next()? {
        ';' | '{' | '}' => 1,
        quote @ ('"' | '\'') => quoted_length(&text[start..], quote),
        _ => word_length(&text[start..]),
    };
    let end = start + length;
    Some(Token {
        text: &text[start..end],
        end,
    })
}

/// Length of a quoted word, quotes included; a backslash takes the next character with it.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return i + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Length of a plain word. `${name}` is part of it; any other brace or `;` ends it.
fn word_length(text: &str) -> usize {
    let mut before = ' ';
    let mut in_variable = false;
    for (i, c) in text.char_indices() {
        match c {
            '{' if before == '$' => in_variable = true,
            '}' if in_variable => in_variable = false,
            _ if before == '\\' => {}
            ';' | '{' | '}' => return i,
            c if c.is_whitespace() => return i,
            _ => {}
        }
        before = c;
    }
    text.len()
}

/// What `ngx_http_stub_status_module` says of the requests served: the third line holds accepts, handled and requests.
pub fn stub_status_requests(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.next()?.strip_prefix("Active connections:")?;
    let numbers = lines.nth(1)?;
    numbers.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(arguments: &str) -> Build {
        Build::parse(&format!(
            "nginx version: nginx/1.22.1\nbuilt with OpenSSL\nconfigure arguments: {arguments}\n"
        ))
    }

    #[test]
    fn reads_the_grammar() {
        let text = "worker_processes 2; # a; b {\n\
                    http {\n  log_format x 'a;\\'{b}' \"c}\";\n\
                    server { return 200 \"}\"; set $a ${b}c; }\n}\n";
        let got: Vec<(usize, Option<&str>, Vec<&str>)> = directives(text)
            .into_iter()
            .map(|d| (d.depth, d.parent, d.words))
            .collect();
        assert_eq!(
            got,
            [
                (0, None, vec!["worker_processes", "2"]),
                (0, None, vec!["http"]),
                (
                    1,
                    Some("http"),
                    vec!["log_format", "x", "'a;\\'{b}'", "\"c}\""]
                ),
                (1, Some("http"), vec!["server"]),
                (2, Some("server"), vec!["return", "200", "\"}\""]),
                (2, Some("server"), vec!["set", "$a", "${b}c"]),
            ]
        );
        for (at, _) in text.char_indices() {
            let cut_off = directives(&text[..at]); // nginx will say what is wrong
            assert!(cut_off.len() <= got.len());
        }
    }

    #[test]
    fn sets_only_what_the_template_leaves_open() {
        let dir = Path::new("/w");
        let open = |text: &str, is_root| main_directives(&directives(text), dir, is_root);
        assert_eq!(
            open("events {}", false),
            "daemon off; error_log stderr; pid \"/w/nginx.pid\";"
        );
        assert_eq!(
            open("daemon off; pid x; error_log y; events {}", true),
            "user root;"
        );
        assert_eq!(open("daemon off; pid x; error_log y; user z;", true), "");
        assert_eq!(
            open("http { user z; daemon off; }", true)
                .matches(';')
                .count(),
            4
        );
    }

    #[test]
    fn adds_the_open_paths_of_http_without_moving_a_line() {
        let text = "events {}\nhttp {\n  access_log off;\n  proxy_temp_path p;\n}\n";
        let build = build("--without-http_uwsgi_module");
        let got = within_http(text, &directives(text), &build, Path::new("/w"));
        assert_eq!(
            got,
            "events {}\nhttp { client_body_temp_path \"/w/client_body_temp_path\"; \
             fastcgi_temp_path \"/w/fastcgi_temp_path\"; scgi_temp_path \"/w/scgi_temp_path\";\n  \
             access_log off;\n  proxy_temp_path p;\n}\n"
        );
        let stream = "events {}\nstream { server { listen 1; } }\n";
        assert_eq!(
            within_http(stream, &directives(stream), &build, Path::new("/w")),
            stream
        );
        let logs = within_http("http {}", &directives("http {}"), &build, Path::new("/w"));
        assert!(logs.contains(" access_log \"/w/access.log\";"), "{logs}");
    }

    #[test]
    fn messages_without_date_and_process() {
        for (line, want) in [
            (
                "2026/11/21 08:03:23 [emerg] 350#350: unknown directive \"a\" in x:3",
                Some("[emerg] unknown directive \"a\" in x:3"),
            ),
            (
                "nginx: [emerg] invalid port in [::1]:x",
                Some("[emerg] invalid port in [::1]:x"),
            ),
            ("nginx: configuration file /x test failed", None),
            ("Segmentation fault", Some("Segmentation fault")),
        ] {
            assert_eq!(message(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn versions() {
        let version = |v: &str| Build {
            version: format!("nginx/{v}"),
            arguments: String::new(),
        };
        for (v, want) in [
            ("1.22.1", true),
            ("1.19.5", true),
            ("1.19.4", false),
            ("1.9.15", false),
            ("2.0", true),
        ] {
            assert_eq!(version(v).knows_e(), want, "{v}");
        }
        assert_eq!(build("").version, "nginx/1.22.1");
    }

    #[test]
    fn the_number_of_workers() {
        for (text, want) in [
            ("worker_processes 4;", 4),
            ("worker_processes auto;", 1),
            ("events {}", 1),
        ] {
            assert_eq!(workers(&directives(text)), want, "{text}");
        }
    }

    #[test]
    fn stub_status_as_nginx_prints_it() {
        let text = "Active connections: 1 \nserver accepts handled requests\n 12 12 345 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(stub_status_requests(text), Some(345));
        assert_eq!(stub_status_requests("<html>"), None);
    }
}
