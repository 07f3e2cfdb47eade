//! Names with numbers, a line each, for a text in which nothing else was found: `"backlog": 56,`, `evicted_keys:12`,
//! `rx_missed_errors: 22637793`, `  726428  bullet/lib`, `17.2% parse`.
//!
//! What is told is what a name counts that went wrong or waits, then one of several of the same name that stands out,
//! then the largest. The surprise is zero, which most counters are: it tells nothing and is never told.

use super::about;
use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Fewer are no list, unless one counts what went wrong.
const FEWEST: usize = 2;
/// A longer line is a sentence or data.
const LINE: usize = 200;
/// Words of a name.
const WORDS: usize = 5;
/// Lines that hold a number, as a part of all that are not empty.
const PART: f64 = 0.5;
/// Values of a name of which one stands out, and how far.
const SEVERAL: usize = 3;
const OUT: f64 = 4.0;

/// Words of names that count what went wrong or waits.
const WRONG: [&str; 30] = [
    "error",
    "fail",
    "reject",
    "drop",
    "timeout",
    "timed_out",
    "refus",
    "waiting",
    "waiters",
    "queued",
    "backlog",
    "pending",
    "blocked",
    "overflow",
    "retrans",
    "retries",
    "lost",
    "missed",
    "evict",
    "throttl",
    "exceed",
    "exhaust",
    "killed",
    "abort",
    "no_buffer",
    "discard",
    "stuck",
    "slow",
    "oom",
    "unused",
];

struct Amount {
    line: u32,
    name: String,
    /// As printed.
    text: String,
    n: f64,
}

/// What the names of a text count.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut all: Vec<Amount> = Vec::new();
    let (mut holding, mut filled) = (0.0, 0.0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if text.len() < 2 || !text.contains(char::is_alphanumeric) {
            continue;
        }
        filled += 1.0;
        let found = amounts(text, number);
        holding += f64::from(u8::from(!found.is_empty()));
        all.extend(found);
    }
    let wrong: Vec<&Amount> = all
        .iter()
        .filter(|a| a.n > 0.0 && is_wrong(&a.name))
        .collect();
    if holding < PART * filled || all.len() < FEWEST && wrong.is_empty() {
        return None;
    }
    let first = all.first()?;
    let mut found = artefact("numbers with names", first.line);
    let rows = outstanding(&all)
        .into_iter()
        .chain(wrong.iter().map(|a| row(a, "")));
    for row in rows {
        if found.rows.iter().all(|r| r.label != row.label) {
            found.rows.push(row);
        }
    }
    let telling = found.rows.len();
    let mut largest: Vec<&Amount> = all.iter().filter(|a| a.n > 0.0).collect();
    largest.sort_by(|a, b| b.n.total_cmp(&a.n));
    for amount in largest {
        if found.rows.iter().all(|r| r.label != amount.name) {
            found.rows.push(row(amount, ""));
        }
    }
    let most = found.rows.first()?.share;
    for (name, n) in [
        ("rows", all.len() as f64),
        ("wrong", telling as f64),
        ("most", most),
    ] {
        found.figures.insert(format!("amounts.{name}"), n);
    }
    about::add(&mut found, lines);
    told(found)
}

fn row(amount: &Amount, more: &str) -> Row {
    Row {
        label: amount.name.clone(),
        place: format!("{}{more}", amount.text),
        share: amount.n,
    }
}

fn is_wrong(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    WRONG.iter().any(|w| lower.contains(w))
}

/// Of several values of one name the one that is far above the others.
fn outstanding(all: &[Amount]) -> Vec<Row> {
    let mut names: Vec<&str> = all.iter().map(|a| a.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rows = names.into_iter().filter_map(|name| {
        let mut of: Vec<&Amount> = all.iter().filter(|a| a.name == name).collect();
        of.sort_by(|a, b| a.n.total_cmp(&b.n));
        let (most, median) = (of.last()?, of.get(of.len() / 2)?);
        // Numbers of a process or an index stand apart without a meaning.
        let counts = !["pid", "id", "index", "time", "port"].contains(&name);
        let out = of.len() >= SEVERAL && most.n > OUT * median.n.max(0.25) && counts;
        let others = format!(
            " in one, where {} of {} have at most {}",
            of.len() / 2 + 1,
            of.len(),
            median.text
        );
        out.then(|| row(most, &others))
    });
    rows.collect()
}

/// The amounts of a line.
fn amounts(text: &str, line: u32) -> Vec<Amount> {
    if text.len() > LINE {
        return Vec::new();
    }
    let pairs = text.split([',', ';']).filter_map(|part| pair(part, line));
    let pairs: Vec<Amount> = pairs.collect();
    match pairs.is_empty() {
        true => counted(text, line)
            .or_else(|| behind(text, line))
            .into_iter()
            .collect(),
        false => pairs,
    }
}

/// `"name": 56`, `name=56`, `name ....: 56 kB`.
fn pair(part: &str, line: u32) -> Option<Amount> {
    let at = part.find([':', '='])?;
    let (name, behind) = (part[..at].trim(), part[at + 1..].trim());
    let name = name.trim_matches(|c: char| !c.is_alphanumeric() && c != '%');
    let behind = behind.trim_matches(['"', '\'', '}', ']', ')', ' ']);
    let mut words = behind.split_whitespace();
    let (first, rest) = (words.next()?, words.count());
    let named = name.contains(char::is_alphabetic) && name.split_whitespace().count() <= WORDS;
    let n = value(first).filter(|_| named && rest <= 1)?;
    Some(Amount {
        line,
        name: short(name),
        text: behind.to_owned(),
        n,
    })
}

/// `  726428  bullet/lib`, `17.2% parse`, `12 GET /orders 500`.
fn counted(text: &str, line: u32) -> Option<Amount> {
    let (first, name) = text.split_once(char::is_whitespace)?;
    let name = name.trim();
    let named = name.starts_with(|c: char| c.is_alphabetic() || "/_<\"[*".contains(c))
        && name.split_whitespace().count() <= WORDS
        && !name.ends_with('.');
    let n = value(first).filter(|_| named)?;
    Some(Amount {
        line,
        name: short(name),
        text: first.to_owned(),
        n,
    })
}

/// `rx_missed_errors   12` and `Retransmitted segments  12`.
fn behind(text: &str, line: u32) -> Option<Amount> {
    let (name, last) = text.rsplit_once(char::is_whitespace)?;
    let name = name.trim().trim_end_matches(['.', ':', ' ']);
    let named = name.starts_with(char::is_alphabetic) && name.split_whitespace().count() <= WORDS;
    let n = value(last).filter(|_| named)?;
    Some(Amount {
        line,
        name: short(name),
        text: last.to_owned(),
        n,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = read(&text.lines().collect::<Vec<_>>());
        let first = found.map(|a| format!("{}: {}", a.rows[0].label, a.rows[0].place));
        assert_eq!(first.as_deref(), expected, "{text}");
    }

    #[test]
    fn what_went_wrong_comes_before_what_is_large() {
        check(
            "rx_packets: 900000\nrx_missed_errors: 22637\ntx_errors: 0\n",
            Some("rx_missed_errors: 22637"),
        );
        check(
            "  796102  active\n  726428  bullet/lib\n",
            Some("active: 796102"),
        );
        check(
            "{\n \"backlog\": 56\n},\n{\n \"backlog\": 0\n},\n{\n \"backlog\": 0\n}\n",
            Some("backlog: 56 in one, where 2 of 3 have at most 0"),
        );
        check("hits: 0\nerrors: 0\n", None);
        check("I have 3 servers and they are slow\nwhat now\n", None);
    }
}
