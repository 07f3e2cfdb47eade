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
/// A longer line is a sentence or data, but where it is an object in one line.
const LINE: usize = 200;
const OBJECT: usize = 4_000;
/// A text of no more lines, each of which holds a number, may hold one alone.
const SHORT: f64 = 4.0;
/// Words of a name.
const WORDS: usize = 5;
/// Lines that hold a number, as a part of all that are not empty.
const PART: f64 = 0.5;
/// Values of a name of which one stands out, and how far.
const SEVERAL: usize = 3;
const OUT: f64 = 4.0;

/// Words of names that count what went wrong or waits.
const WRONG: [&str; 29] = [
    "error",
    "fail",
    "reject",
    "drop",
    "timeout",
    "timed_out",
    "refus",
    "wait",
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

/// Words of names that are a limit, and the part of it that is full.
const LIMITS: [&str; 6] = ["max", "limit", "maximum", "capacity", "hard", "soft"];
const FULL: f64 = 0.95;

/// Words of names of what is left, and of what is used beside it.
const LEFT: [&str; 5] = ["free", "available", "idle", "remaining", "left"];
const USED: [&str; 6] = ["used", "use", "busy", "active", "allocated", "in"];
/// Ends of names of files with lines.
const SOURCES: [&str; 19] = [
    "php", "py", "js", "ts", "rb", "go", "java", "c", "cc", "cpp", "h", "rs", "cs", "ex", "exs",
    "lua", "kt", "scala", "mjs",
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
    let mut before: Option<&str> = None;
    // Lines that begin with their number, one below the other.
    let (mut run, mut longest) = (0, 0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if text.len() < 2 || !text.contains(char::is_alphanumeric) {
            continue;
        }
        filled += 1.0;
        // `# ss -t state close-wait | wc -l` with its number below.
        if let Some(command) = before.filter(|_| value(text).is_some()) {
            holding += 2.0;
            all.extend(pair(&format!("{command}: {text}"), number).map(|a| Amount {
                name: short(command),
                ..a
            }));
            before = None;
            continue;
        }
        before = text
            .find(['$', '#', '%'])
            .filter(|at| text[at + 1..].starts_with(' '))
            .map(|at| text[at + 1..].trim());
        let found = amounts(text, number);
        holding += f64::from(u8::from(!found.is_empty()));
        let begins = text.starts_with(|c: char| c.is_ascii_digit());
        run = if begins && !found.is_empty() {
            run + 1
        } else {
            0
        };
        longest = longest.max(run);
        all.extend(found);
    }
    let wrong: Vec<&Amount> = all
        .iter()
        .filter(|a| a.n > 0.0 && is_wrong(&a.name))
        .collect();
    let listed = holding >= PART * filled || longest >= FEWEST;
    let alone = filled <= SHORT && holding >= filled;
    let enough = all.len() >= FEWEST || !wrong.is_empty() || alone;
    if !listed || !enough {
        return None;
    }
    let first = all.first()?;
    let mut found = artefact("numbers with names", first.line);
    let nothing_left = nothing_left(&all);
    let full = nothing_left.len() as f64;
    let rows = nothing_left
        .into_iter()
        .chain(limits(&all))
        .chain(outstanding(&all))
        .chain(wrong.iter().map(|a| row(a, "")));
    for row in rows {
        if found.rows.iter().all(|r| r.label != row.label) {
            found.rows.push(row);
        }
    }
    let telling = found.rows.len();
    let mut largest: Vec<&Amount> = all.iter().filter(|a| a.n > 0.0).collect();
    largest.sort_by(|a, b| b.n.total_cmp(&a.n));
    // Beside what went wrong the others tell nothing.
    for amount in largest.into_iter().filter(|_| telling == 0) {
        if found.rows.iter().all(|r| r.label != amount.name) {
            found.rows.push(row(amount, ""));
        }
    }
    let most = found.rows.first()?.share;
    for (name, n) in [
        ("rows", all.len() as f64),
        ("wrong", telling as f64),
        ("most", most),
        ("full", full),
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

/// The words of an amount's name, in small letters.
fn words_of(amount: &Amount) -> Vec<String> {
    let lower = amount.name.to_ascii_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric());
    words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

/// What has nothing left: `Free memory 0` beside `Used memory 536868960`.
fn nothing_left(all: &[Amount]) -> Vec<Row> {
    let apart = |a: &Amount, names: &[&str]| -> Option<Vec<String>> {
        let (own, rest): (Vec<String>, Vec<String>) = words_of(a)
            .into_iter()
            .partition(|w| names.contains(&w.as_str()));
        (!own.is_empty()).then_some(rest)
    };
    let rows = all.iter().filter(|a| a.n.abs() < f64::EPSILON);
    let rows = rows.filter_map(|free| {
        let rest = apart(free, &LEFT)?;
        let used = all
            .iter()
            .find(|u| u.n > 0.0 && apart(u, &USED).as_ref() == Some(&rest))?;
        Some(Row {
            label: free.name.clone(),
            place: format!("0 beside {} {}", used.name, used.text),
            share: used.n,
        })
    });
    rows.collect()
}

/// What is at its limit: `open_fds 1023` beside `max_fds 1024`.
fn limits(all: &[Amount]) -> Vec<Row> {
    let rows = all.iter().flat_map(|limit| {
        let (ends, of): (Vec<String>, Vec<String>) = words_of(limit)
            .into_iter()
            .partition(|w| LIMITS.contains(&w.as_str()));
        let full = |a: &&Amount| {
            let words = words_of(a);
            a.n >= FULL * limit.n
                && (2.0..=limit.n).contains(&a.n)
                && of.iter().all(|w| words.contains(w))
                && !words.iter().any(|w| LIMITS.contains(&w.as_str()))
        };
        let full = all.iter().filter(full);
        let known = !ends.is_empty() && !of.is_empty();
        full.filter(move |_| known)
            .map(|a| row(a, &format!(" of {} {}", limit.name, limit.text)))
            .collect::<Vec<_>>()
    });
    rows.collect()
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
    let most = match text.starts_with(['{', '[']) {
        true => OBJECT,
        false => LINE,
    };
    if text.len() > most {
        return Vec::new();
    }
    // `[05:10:41.445] requests: 12`.
    let stamped = text
        .strip_prefix('[')
        .filter(|t| t.starts_with(|c: char| c.is_ascii_digit()));
    let text = match stamped.and_then(|t| t.split_once("] ")) {
        Some((_, behind)) => behind,
        None => text,
    };
    if let Some(n) = with_thousands(text, line) {
        return vec![n];
    }
    let parts = parted(text).into_iter().enumerate();
    // `200000 total, 172254 failed`: from the second part on the number may stand first.
    let pairs = parts.filter_map(|(at, part)| {
        let counted = || counted(part.trim(), line).filter(|_| at > 0);
        pair(part, line).or_else(counted)
    });
    let pairs: Vec<Amount> = pairs.collect();
    match pairs.is_empty() {
        true => counted(text, line)
            .or_else(|| behind(text, line))
            .into_iter()
            .collect(),
        false => pairs,
    }
}

/// A line at its commas and semicolons, but for a comma between thousands: `17,147,795,601  PROGRAM TOTALS`.
fn parted(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    // Groups of three behind a first one of up to three.
    let groups = |at: usize| {
        let before = bytes[..at].iter().rev();
        let number = before.take_while(|b| b.is_ascii_digit() || **b == b',');
        let number: Vec<u8> = number.copied().collect();
        let first = number.rsplit(|b| *b == b',').next().unwrap_or_default();
        (1..=3).contains(&first.len()) && (1..4).all(|n| digit(at + n)) && !digit(at + 4)
    };
    let mut found = Vec::new();
    let mut from = 0;
    for (at, mark) in text.match_indices([',', ';']) {
        if mark != "," || !groups(at) {
            found.push(&text[from..at]);
            from = at + 1;
        }
    }
    found.push(&text[from..]);
    found
}

/// `"name": 56`, `name=56`, `name ....: 56 kB`.
fn pair(part: &str, line: u32) -> Option<Amount> {
    let at = part.find([':', '='])?;
    let (name, behind) = (part[..at].trim(), part[at + 1..].trim());
    // `Loader.php:1285` is a place.
    let extension = name.rsplit('.').next().unwrap_or_default();
    if name.contains('.') && SOURCES.contains(&extension) {
        return None;
    }
    let name = name.trim_matches(|c: char| !c.is_alphanumeric() && c != '%');
    let behind = behind.trim_matches(['"', '\'', '}', ']', ')', ' ']);
    // `api.request:3201|ms` of StatsD.
    let behind = behind.replace('|', " ");
    let mut words = behind.split_whitespace();
    let (first, rest) = (words.next()?, words.count());
    let named = name.contains(char::is_alphabetic) && name.split_whitespace().count() <= WORDS;
    let unit = rest <= 3 && !behind.ends_with(['.', '?', '!']);
    let n = value(first).filter(|_| named && unit)?;
    Some(Amount {
        line,
        name: short(name),
        text: behind.clone(),
        n,
    })
}

/// `requests: 3,291,870`, which is one number.
fn with_thousands(text: &str, line: u32) -> Option<Amount> {
    let (_, behind) = text.split_once([':', '='])?;
    let groups = behind.trim().split(',').skip(1);
    let mut groups = groups.map(|g| g.len() == 3 && g.bytes().all(|b| b.is_ascii_digit()));
    let one = behind.contains(',') && groups.all(|g| g);
    pair(text, line).filter(|_| one)
}

/// `  726428  bullet/lib`, `17.2% parse`, `12 GET /orders 500`.
fn counted(text: &str, line: u32) -> Option<Amount> {
    let (first, name) = text.split_once(char::is_whitespace)?;
    // A row of numbers ends with its name.
    let name = name.trim_start_matches(|c: char| c.is_ascii_digit() || " .,%\t".contains(c));
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
        check(
            "process_open_fds 1023\nprocess_max_fds 1024\ncpu 7\n",
            Some("process_open_fds: 1023 of process_max_fds 1024"),
        );
        check(
            "[05:10:41] Requests: 3,291,870\n[05:10:41] Cores: 12\n",
            Some("Requests: 3,291,870"),
        );
        check(
            "17,147,795,601  PROGRAM TOTALS\n5,671,628,114  strlen\n",
            Some("PROGRAM TOTALS: 17,147,795,601"),
        );
        check("hits: 0\nerrors: 0\n", None);
        check("I have 3 servers and they are slow\nwhat now\n", None);
    }
}
