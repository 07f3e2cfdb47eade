//! Lines in a tool's own words, where a sentence names them as they stand: a generator's rate and mean time, and the
//! line of `ss -s` about TCP.
//!
//! A number that is rounded for reading is not found again in the output; its line is.

use super::events::{artefact, told};
use super::pieces::{pieces, short, value};
use record::pasted::{Artefact, Row};

/// How the line of a generator's rate begins.
const RATES: [&str; 4] = [
    "Requests/sec",
    "Requests per second",
    "Transaction rate",
    "Reply rate",
];
/// How that of its mean time begins.
const MEANS: [&str; 3] = ["Average:", "Response time:", "Time per request:"];

/// The lines of the first run.
pub(super) fn of_a_generator(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("lines of a generator", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let begins = RATES.iter().chain(&MEANS).find(|l| text.starts_with(**l));
        let numbers = || pieces(text).iter().any(|p| value(p.text).is_some());
        let Some(begins) = begins.filter(|_| numbers()) else {
            continue;
        };
        // A run prints each once; what comes again is the next run's.
        if found.rows.iter().any(|r| r.label.starts_with(*begins)) {
            continue;
        }
        found.begin_at(number);
        found.add("printed.rows", 1.0);
        found.add("printed.means", f64::from(u8::from(MEANS.contains(begins))));
        found.rows.push(Row::new(short(text), 1.0));
    }
    told(found)
}

/// `TCP:   24640 (estab 10833, closed 11470, orphaned 0, timewait 0)`: what is in none of these states opens or closes.
pub(super) fn of_sockets(lines: &[&str]) -> Option<Artefact> {
    let (number, line) = (1_u32..).zip(lines).find(|(_, line)| {
        let text = line.trim();
        text.starts_with("TCP:") && text.contains("estab ") && text.contains("closed ")
    })?;
    let parts = pieces(line);
    let of = |name: &str| {
        let at = parts.iter().position(|p| p.text == name)?;
        // Newer ones print what waits for its time to end as `timewait 5/0`.
        parts
            .get(at + 1)?
            .text
            .split('/')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let (all, closed) = (of("TCP")?, of("closed")?);
    let known = ["estab", "closed", "timewait", "synrecv"];
    let known: f64 = known.iter().filter_map(|name| of(name)).sum();
    let mut found = artefact("line of ss -s", number);
    for (name, n) in [
        ("rows", 1.0),
        ("all", all),
        ("closed", closed),
        ("others", (all - known).max(0.0)),
    ] {
        found.figures.insert(format!("tcp_line.{name}"), n);
    }
    found.rows.push(Row::new(short(line), 1.0));
    told(found)
}
