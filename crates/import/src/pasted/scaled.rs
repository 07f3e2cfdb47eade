//! Rates of one test with more and more users, or on more and more of a machine's nodes, a line each, for a text in
//! which nothing else was found: where the rate is highest, and how far it falls behind that.
//!
//! A server that has reached its limit keeps its rate. The surprise is one that loses it: each further user costs the
//! others something, which a queue does not.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Lines of one list.
const FEWEST: usize = 3;
/// Behind its highest the rate falls to so large a part of it, or less.
const FALLEN: f64 = 0.8;
/// A longer line is data.
const LINE: usize = 160;

/// Words for a rate, in small letters.
#[rustfmt::skip]
const RATES: [&str; 11] = [
    "tps", "qps", "rps", "q/s", "req/s", "req/sec", "requests/s", "requests/sec", "ops/s", "ops/sec", "queries/s",
];
/// Words before or behind the number of users.
#[rustfmt::skip]
const USERS: [&str; 11] = [
    "c", "client", "clients", "connections", "conns", "threads", "users", "concurrency", "workers", "vus", "jobs",
];
/// Programs that bind others to a part of the machine.
const BINDING: [&str; 2] = ["numactl", "taskset"];

struct Point {
    line: u32,
    label: String,
    /// Users, or nodes and CPUs.
    size: f64,
    rate: f64,
    bound: bool,
}

/// The list whose rate falls furthest behind its highest.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut column = None;
    let mut points: Vec<Point> = Vec::new();
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() <= LINE) {
        if let Some(at) = cells(line).iter().position(|c| is_rate(c)) {
            column = Some(at);
        }
        points.extend(point(number, line, column));
    }
    let grows = |a: &Point, b: &Point| a.bound == b.bound && b.size > a.size;
    let runs = points.chunk_by(grows).filter(|r| r.len() >= FEWEST);
    let fallen = runs.filter_map(|run| {
        let rate = |p: &&Point| p.rate;
        let most = run.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        let behind = run.iter().filter(|p| p.size > most.size);
        let least = behind.min_by(|a, b| rate(a).total_cmp(&rate(b)))?;
        (least.rate <= FALLEN * most.rate).then_some((most, least))
    });
    let (most, least) = fallen.min_by(|a, b| {
        let part = |(most, least): &(&Point, &Point)| least.rate / most.rate;
        part(a).total_cmp(&part(b))
    })?;
    let mut found = artefact("rates by users", most.line);
    for (name, n) in [
        ("most", most.rate),
        ("least", least.rate),
        ("part", least.rate / most.rate),
        ("bound", f64::from(u8::from(most.bound))),
        ("rows", 2.0),
    ] {
        found.figures.insert(format!("scaled.{name}"), n);
    }
    for point in [most, least] {
        found.rows.push(Row {
            label: point.label.clone(),
            place: format!("{:.0} a second", point.rate),
            share: point.rate,
        });
    }
    told(found)
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_matches('|');
    inner.split(['|', '\t']).map(str::trim).collect()
}

fn is_rate(word: &str) -> bool {
    RATES.contains(&word.to_ascii_lowercase().as_str())
}

fn number(word: &str) -> Option<f64> {
    let word = word.replace(',', "");
    word.starts_with(|c: char| c.is_ascii_digit())
        .then(|| word.parse().ok())?
}

/// `[c50|load] 12:00 tps = 5000`, `clients: 50, 5000 req/s`, `| numactl -N 0,1 ./server | 5000 |` below a head.
fn point(line: u32, text: &str, column: Option<usize>) -> Option<Point> {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || "|=:;[]()".contains(c))
        .map(|w| w.trim_matches(','))
        .filter(|w| !w.is_empty())
        .collect();
    let named = words.iter().position(|w| is_rate(w)).and_then(|at| {
        let behind = words.get(at + 1).and_then(|w| number(w));
        behind.or_else(|| number(words[at.checked_sub(1)?]))
    });
    let of_column = || number(cells(text).get(column?)?.split_whitespace().next()?);
    let rate = named.or_else(of_column).filter(|n| *n > 0.0)?;
    let (label, size, bound) = binding(&words).or_else(|| users(&words))?;
    Some(Point {
        line,
        label: short(&label),
        size,
        rate,
        bound,
    })
}

fn users(words: &[&str]) -> Option<(String, f64, bool)> {
    words.iter().enumerate().find_map(|(at, word)| {
        let lower = word.to_ascii_lowercase();
        let digits = lower.find(|c: char| c.is_ascii_digit())?;
        let (name, n) = lower.split_at(digits);
        let n = number(n)?;
        let is_name = |w: Option<&&str>| {
            w.is_some_and(|w| w.len() > 1 && USERS.contains(&w.to_ascii_lowercase().as_str()))
        };
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let known = match name {
            "" => is_name(before) || is_name(words.get(at + 1)),
            name => USERS.contains(&name),
        };
        let label = match name {
            "" => format!("{word} users"),
            _ => (*word).to_owned(),
        };
        known.then_some((label, n, false))
    })
}

/// `numactl -N 0,1` and `taskset -c 0-7`, with how many that are.
fn binding(words: &[&str]) -> Option<(String, f64, bool)> {
    let at = words.iter().position(|w| BINDING.contains(w))?;
    let list = words[at + 1..]
        .iter()
        .find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let parts = list.split(',').map(|part| match part.split_once('-') {
        Some((from, to)) => Some(to.parse::<f64>().ok()? - from.parse::<f64>().ok()? + 1.0),
        None => part.parse::<f64>().ok().map(|_| 1.0),
    });
    let size: f64 = parts.sum::<Option<f64>>()?;
    let flag = words.get(at + 1)?;
    Some((format!("{} {flag} {list}", words[at]), size, true))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        let found = read(&text.lines().collect::<Vec<_>>());
        found.map_or_else(Vec::new, |found| written(&found))
    }

    #[test]
    fn a_rate_that_falls_with_users_is_told() {
        let text = "clients 8: 4000 tps\nclients 16: 9000 tps\nclients 32: 8000 tps\nclients 64: 3000 tps\n";
        let expected = ["16 users: 9000 a second", "64 users: 3000 a second"];
        assert_eq!(rows(text), expected);
        let labelled = "[c8] 10:00 tps = 9000\n[c16] 10:05 tps = 7000\n[c32] 10:09 tps = 5000\n";
        let expected = ["c8: 9000 a second", "c32: 5000 a second"];
        assert_eq!(rows(labelled), expected);
        assert!(rows(&text.replace("3000", "8900")).is_empty());
    }

    #[test]
    fn a_rate_that_falls_with_nodes_is_told() {
        let text = "| run | Q/s |\n|---|---|\n| numactl -N 0 ./db | 900 |\n| numactl -N 0,1 ./db | 500 |\n| numactl -N 0,1,2 ./db | 400 |\n";
        let expected = [
            "numactl -N 0: 900 a second",
            "numactl -N 0,1,2: 400 a second",
        ];
        assert_eq!(rows(text), expected);
        assert!(rows(&text.replace("numactl -N", "./start")).is_empty());
    }
}
