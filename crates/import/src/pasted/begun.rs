//! Runs of load generators that were begun and of which no result is printed: cut off, ended by hand, or hanging.
//!
//! Each generator says what it is about to do before it does it. The surprise is how often that is all: a server that
//! never answers looks the same as a paste that stops too early, and neither has a figure in it.

use super::events::{artefact, told};
use super::pieces::{pieces, short, value};
use record::pasted::{Artefact, Row};

/// A generator: words of the line with which it begins (all of them), and of the lines of a result (any).
type Generator = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

#[rustfmt::skip]
const GENERATORS: [Generator; 7] = [
    ("h2load", &["spawning thread #"], &["finished in", "time for request", "requests: "]),
    ("wrk", &["Running", " test @ "], &["requests in ", "Requests/sec", "Req/Sec", "Latency"]),
    ("ab", &["Benchmarking ", "(be patient)"], &["Requests per second", "Complete requests", "Time per request", "apr_"]),
    ("siege", &["The server is now under siege"], &["Transactions:", "transactions", "siege aborted"]),
    ("k6", &["running (", " VUs, "], &["http_req", "http_reqs", "iterations"]),
    ("httperf", &["httperf ", "--client="], &["Total: connections"]),
    ("bombardier", &["Bombarding "], &["Reqs/sec", "Statistics"]),
];

/// The first generator that began and printed no result.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    GENERATORS
        .iter()
        .find_map(|generator| of_one(generator, lines))
}

fn of_one((tool, head, results): &Generator, lines: &[&str]) -> Option<Artefact> {
    let ended = |line: &&&str| results.iter().any(|r| line.contains(r));
    if lines.iter().find(ended).is_some() {
        return None;
    }
    let mut found = artefact("begun load", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if head.iter().all(|w| line.contains(w)) {
            found.begin_at(number);
            let row = Row {
                label: short(line),
                place: (*tool).to_owned(),
                share: 1.0,
            };
            found.rows = vec![row];
            found.figures.insert("begun.without_result".into(), 1.0);
        }
        // h2load and ab say how far they are.
        let words = pieces(line);
        let done = match words.as_slice() {
            [name, percent, done] if name.text == "progress:" || name.text == "progress" => {
                (done.text == "done").then(|| value(percent.text)).flatten()
            }
            _ => None,
        };
        if let Some(percent) = done {
            found.largest("begun.percent", percent);
        }
    }
    told(found)
}
