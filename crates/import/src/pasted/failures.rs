//! Errors as load generators list them, in the system's or the client library's words, with their counts.
//!
//! Each generator has a heading of its own (`Errors:`, `Error distribution:`, `Error Set:`, `# occurrences`), and its
//! entries stand below it. The surprise is what an error is proof of: `EADDRINUSE` of a client means that the
//! generator's machine has no local port left, while a reset or a time limit may have either end for its reason.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// How entries of a list are written.
#[derive(Clone, Copy, PartialEq)]
enum List {
    /// artillery before version 2, bombardier: `ECONNRESET: 12`, `dial tcp 10.0.0.1:80: connect: refused - 12`.
    Behind,
    /// hey, oha: `[12] Get "http://a/": EOF`.
    Bracketed,
    /// vegeta: an error a line, without its count.
    Bare,
    /// locust: `12  GET /a: ConnectionResetError(104, 'Connection reset by peer')`.
    Before,
}

/// What errors say, by their words in small letters: the figure, and what stands in them.
#[rustfmt::skip]
const KINDS: [(&str, &[&str]); 6] = [
    ("failures.no_port", &["eaddrinuse", "eaddrnotavail", "cannot assign requested address", "can't assign requested address", "address already in use", "only one usage of each socket address"]),
    ("failures.no_files", &["emfile", "enfile", "too many open files"]),
    ("failures.names", &["enotfound", "eai_again", "no such host", "name or service not known", "name resolution"]),
    ("failures.refused", &["econnrefused", "connection refused", "actively refused"]),
    ("failures.reset", &["econnreset", "epipe", "connection reset", "broken pipe", "socket hang up", "eof", "forcibly closed", "remotedisconnected", "without response", "connection closed", "server closed"]),
    ("failures.timeouts", &["timedout", "timeout", "timed out", "deadline", "awaiting headers"]),
];

const OTHERS: &str = "failures.others";

/// The figure of an error, by its words.
fn kind(error: &str) -> Option<&'static str> {
    let lower = error.to_ascii_lowercase();
    let is_so = |words: &[&str]| words.iter().any(|w| lower.contains(w));
    let found = KINDS.iter().find(|(_, words)| is_so(words));
    found.map(|(name, _)| *name)
}

/// The list of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("errors of the generator", 0);
    for (number, entry) in (1_u32..).zip(entries(lines)) {
        let Some((label, n)) = entry else { continue };
        found.begin_at(number);
        found.add("failures.all", n);
        found.add(kind(&label).unwrap_or(OTHERS), n);
        found.rows.push(Row::new(short(&label), n));
    }
    let known = KINDS.iter().map(|(name, _)| *name);
    for name in known.chain([OTHERS]) {
        found.figures.entry(name.to_owned()).or_insert(0.0);
    }
    found.settle();
    told(found)
}

/// What each line lists: an error, and how often.
fn entries(lines: &[&str]) -> Vec<Option<(String, f64)>> {
    let mut open: Option<List> = None;
    let of_line = |line: &&str| {
        if let Some(list) = heading(line) {
            open = Some(list);
            return None;
        }
        let listed = open.and_then(|list| entry(list, line));
        let found = listed.or_else(|| alone(line));
        // A rule below a heading and an empty line end no list.
        if found.is_none() && line.chars().any(char::is_alphanumeric) {
            open = None;
        }
        found
    };
    lines.iter().map(of_line).collect()
}

/// Lines that are a generator's own trouble with descriptors or ports: no log of a server has them.
pub(super) fn own_lines(lines: &[&str]) -> Vec<bool> {
    let own = ["failures.no_port", "failures.no_files"];
    let is_own = |label: &str| kind(label).is_some_and(|kind| own.contains(&kind));
    let entries = entries(lines).into_iter();
    entries
        .map(|entry| entry.is_some_and(|(label, _)| is_own(&label)))
        .collect()
}

/// An error that stands in no list.
fn alone(line: &str) -> Option<(String, f64)> {
    dotted(line).or_else(|| said(line))
}

/// k6's `msg="Request Failed" error="Get ...: dial: ..."`, and what ab, siege and wrk print of their own descriptors.
fn said(line: &str) -> Option<(String, f64)> {
    let text = line.trim();
    let of_k6 = || {
        let (_, rest) = text.split_once("Request Failed")?;
        let (_, error) = rest.split_once("error=")?;
        Some(error.trim_matches('"'))
    };
    let error = of_k6().or_else(|| {
        let own = text.starts_with("socket: Too many open files (24)")
            || text.contains(" sock.c:") && text.starts_with("[error]")
            || text.starts_with("unable to create thread ");
        own.then_some(text)
    })?;
    Some((error.to_owned(), 1.0)).filter(|_| kind(error).is_some())
}

fn heading(line: &str) -> Option<List> {
    let text = line.trim();
    match text {
        "Errors:" => Some(List::Behind),
        "Error distribution:" => Some(List::Bracketed),
        "Error Set:" => Some(List::Bare),
        _ if text.starts_with("# occurrences") && text.ends_with("Error") => Some(List::Before),
        _ => None,
    }
}

/// An error and how often.
fn entry(list: List, line: &str) -> Option<(String, f64)> {
    let text = line.trim();
    let n = |text: &str| value(text).filter(|n| *n >= 1.0);
    let (label, n) = match list {
        List::Behind => {
            let (label, count) = text.rsplit_once(": ").or_else(|| text.rsplit_once(" - "))?;
            (label, n(count.trim())?)
        }
        List::Bracketed => {
            let (count, label) = text.strip_prefix('[')?.split_once(']')?;
            (label, n(count)?)
        }
        // An error of a connection, not the prose behind the list.
        List::Bare => kind(text).map(|_| (text, 1.0))?,
        List::Before => {
            let (count, label) = text.split_once(|c: char| c.is_whitespace() || c == '|')?;
            (label.trim_matches(['|', ' ']), n(count)?)
        }
    };
    let label = label.trim().trim_end_matches('.');
    (!label.is_empty()).then(|| (label.to_owned(), n))
}

/// artillery since version 2: `errors.ECONNRESET: ......... 12`.
fn dotted(line: &str) -> Option<(String, f64)> {
    let (label, n) = line.trim().strip_prefix("errors.")?.split_once(':')?;
    let n = value(n.trim_start_matches(['.', ' ']))?;
    Some((label.to_owned(), n))
}
