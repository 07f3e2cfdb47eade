//! Messages that no reader knows: what a log says plainly, for a text in which nothing else was found.
//!
//! A line is a message by its form (a level, a stamp, a name of an error before a colon) and tells something by its
//! words. Prose has the words and not the form, and so it is left alone.

use super::events::{artefact, told};
use super::pieces::{pieces, seconds, short, value};
use record::pasted::{Artefact, Row};

/// A longer line is data.
pub(super) const LINE: usize = 2_000;

/// How much words tell that make a message of a line without a level or a stamp.
pub(super) const STRONG: f64 = 3.0;

/// Kinds of messages that are told apart.
const KINDS: usize = 200;

const LEVELS: [&str; 20] = [
    "Warning", "WARN", "WARNING", "WRN", "ERROR", "ERR", "FATAL", "CRITICAL", "CRIT", "SEVERE",
    "ALERT", "EMERG", "PANIC", "warning", "error", "crit", "alert", "emerg", "fatal", "warn",
];

/// Words that tell something, the figure that counts them, and how much they tell.
#[rustfmt::skip]
pub(super) const TELLING: [(&str, &str, f64); 76] = [
    ("timeout", "messages.timeouts", 3.0), ("timed out", "messages.timeouts", 3.0), ("time-out", "messages.timeouts", 3.0), ("deadline", "messages.timeouts", 3.0),
    ("refused", "messages.refused", 3.0), ("unreachable", "messages.refused", 3.0), ("unavailable", "messages.refused", 2.0), ("temporarily unavailable", "messages.full", 4.0),
    ("reset", "messages.closed", 2.0), ("closed", "messages.closed", 2.0), ("aborted", "messages.closed", 2.0), ("disconnect", "messages.closed", 2.0), ("broken pipe", "messages.closed", 2.0),
    ("exceeded", "messages.full", 4.0), ("exhausted", "messages.full", 4.0), ("too many", "messages.full", 4.0), ("too large", "messages.full", 4.0), ("full", "messages.full", 2.0),
    ("limit", "messages.full", 2.0), ("overflow", "messages.full", 3.0), ("dropped", "messages.full", 2.0), ("backpressure", "messages.full", 3.0),
    ("blocked", "messages.slow", 4.0), ("blocking call", "messages.slow", 4.0), ("slow", "messages.slow", 3.0), ("stall", "messages.slow", 3.0), ("took", "messages.slow", 2.0), ("deadlock", "messages.slow", 4.0),
    ("could not connect", "messages.refused", 3.0), ("unhealthy", "messages.refused", 2.0), ("insufficient", "messages.full", 3.0),
    ("hung", "messages.slow", 3.0), ("stuck", "messages.slow", 4.0), ("has been running", "messages.slow", 3.0), ("delayed", "messages.slow", 2.0), ("not respond", "messages.timeouts", 3.0),
    ("longer than", "messages.slow", 3.0), ("too long", "messages.slow", 4.0), ("starv", "messages.slow", 4.0), ("contention", "messages.slow", 3.0), ("lagging", "messages.slow", 3.0),
    ("overload", "messages.full", 3.0), ("rejected", "messages.full", 3.0), ("evict", "messages.full", 3.0), ("drop", "messages.full", 2.0), ("backlog", "messages.full", 2.0),
    ("retrying", "messages.timeouts", 2.0), ("fail", "messages.failed", 2.0), ("unable to", "messages.failed", 2.0), ("cannot", "messages.failed", 2.0), ("killed", "messages.failed", 3.0),
    ("lost", "messages.failed", 2.0), ("leak", "messages.full", 3.0), ("out of memory", "messages.full", 4.0),
    ("rate limit", "messages.rate", 5.0), ("rate exceeded", "messages.rate", 5.0), ("retry quota", "messages.rate", 5.0), ("throttl", "messages.rate", 5.0), ("too many requests", "messages.rate", 5.0),
    ("time limit", "messages.time_limits", 5.0), ("timeout value", "messages.time_limits", 5.0), ("execution timeout", "messages.time_limits", 5.0), ("maximum execution time", "messages.time_limits", 5.0),
    ("too many retries", "messages.rate", 4.0), ("maximum number of attempts", "messages.rate", 4.0), ("quota exceeded", "messages.rate", 5.0), ("poorly", "messages.slow", 3.0),
    ("died", "messages.failed", 3.0), ("crash", "messages.failed", 3.0), ("restarting", "messages.failed", 2.0),
    ("reached", "messages.full", 3.0), ("not enough", "messages.full", 4.0), ("oom", "messages.full", 4.0), ("temporary file", "messages.slow", 2.0), ("cannot assign", "messages.failed", 3.0), ("down", "messages.failed", 2.0),
];

/// What is read to its end and not full.
const READS_ALL: [&str; 4] = ["full table", "full collection", "full scan", "full gc"];

/// The messages of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("messages", 0);
    // A message without its numbers, as it was, how much it tells, how often.
    let mut kinds: Vec<(String, String, f64, f64)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((level, text)) = message(line) else {
            continue;
        };
        // The words of a statement (`LIMIT`) say nothing of the program.
        let statement = [" SELECT ", " UPDATE ", " INSERT ", " DELETE "].iter();
        let statement = statement.filter_map(|s| text.find(s)).min();
        let lower = text[..statement.unwrap_or(text.len())].to_ascii_lowercase();
        let telling: Vec<_> = TELLING
            .iter()
            .filter(|(word, _, much)| has(&lower, word, *much >= STRONG))
            // A full scan fills nothing.
            .filter(|(word, ..)| *word != "full" || !READS_ALL.iter().any(|r| lower.contains(r)))
            // A processor is throttled by its own limit.
            .filter(|(word, ..)| *word != "throttl" || !of_a_processor(&lower))
            .collect();
        let much = telling.iter().map(|t| t.2).fold(0.0, f64::max);
        if much + level < 2.0 || level < 0.0 && much < STRONG {
            continue;
        }
        let level = level.max(0.0);
        found.begin_at(number);
        found.add("messages.count", 1.0);
        let mut counted: Vec<&str> = telling.iter().map(|t| t.1).collect();
        counted.dedup();
        for name in counted {
            found.add(name, 1.0);
        }
        if let Some(took) = longest(text) {
            found.largest("messages.longest_s", took);
        }
        let kind: String = lower.chars().filter(|c| !c.is_ascii_digit()).collect();
        match kinds.iter().position(|(k, ..)| *k == kind) {
            Some(at) => kinds[at].3 += 1.0,
            None if kinds.len() < KINDS => {
                let words = telling.iter().filter(|t| t.2 >= much).map(|t| t.0);
                let at = words.filter_map(|w| lower.find(w)).min();
                kinds.push((kind, short(around(text, at)), much + level, 1.0));
            }
            None => {}
        }
    }
    for (_, name, _) in TELLING {
        found.figures.entry(name.to_owned()).or_insert(0.0);
    }
    // The most telling first, and of those the most frequent.
    kinds.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.3.total_cmp(&a.3)));
    found.rows = kinds
        .into_iter()
        .map(|(_, label, _, share)| Row {
            label,
            place: String::new(),
            share,
        })
        .collect();
    told(found)
}

fn of_a_processor(lower: &str) -> bool {
    ["cpu", "clock", "thermal", "temperature"]
        .iter()
        .any(|w| lower.contains(w))
}

/// Bytes before the telling word of a long message from which on it is quoted, and what is long.
const BEFORE: usize = 60;
const LONG: usize = 110;

/// A message from some words before a place on, where that stands far behind its beginning.
fn around(text: &str, at: Option<usize>) -> &str {
    let Some(at) = at.filter(|at| *at > LONG) else {
        return text;
    };
    let begins = |(i, c): &(usize, char)| *i + BEFORE >= at && (c.is_whitespace() || *c == ',');
    let from = text.char_indices().find(begins);
    from.map_or(text, |(i, c)| &text[i + c.len_utf8()..])
}

/// Whether a text has a word, or one that begins with it. A common word that is a part of a name (`full_dirname`,
/// `os.reset()`) is none; a strong one may be one of a constant (`DEADLINE_EXCEEDED`).
pub(super) fn has(lower: &str, word: &str, strong: bool) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let rest = &lower[at + word.len()..];
        let behind = rest.trim_start_matches(|c: char| c.is_ascii_alphabetic());
        // `fully` says nothing of what is full.
        if ["y", "ly"].contains(&&rest[..rest.len() - behind.len()]) {
            return false;
        }
        // `limit: 20` is a field, which every program has that has a limit.
        let field = word == "limit" && rest.trim_start_matches('"').starts_with([':', '=']);
        if field {
            return false;
        }
        let of_a_name = matches!(before, Some('_' | '.')) || behind.starts_with(['_', '(']);
        before.is_none_or(|c| !c.is_ascii_alphabetic()) && (strong || !of_a_name)
    })
}

/// How grave a message is by its level, less than 0 where it is one by its words alone, and its text without the stamp;
/// `None` for a line that is none.
pub(super) fn message(line: &str) -> Option<(f64, &str)> {
    let line = line.trim();
    let odd = |c: char| c == '\u{fffd}' || c.is_control() && c != '\t';
    if line.is_empty() || line.len() > LINE || line.contains(odd) {
        return None;
    }
    let apart = |c: char| c.is_whitespace() || "[]()|:,=\"/".contains(c);
    let head: String = line.chars().take(120).collect();
    let level = head
        .split(apart)
        .find_map(|w| LEVELS.iter().find(|l| **l == w))
        .or_else(|| field_of_level(line));
    let grave = match level.copied() {
        Some("Warning" | "WARN" | "WARNING" | "WRN" | "warning" | "warn") => 1.0,
        Some(_) => 2.0,
        None => 0.0,
    };
    // A small `error` is a level in brackets or behind an equals sign, and else a word of a sentence.
    let small = level.filter(|l| l.starts_with(|c: char| c.is_ascii_lowercase()));
    let marked = small.is_none_or(|l| {
        ["[{}]", "={}", "\"{}\"", "{}:", ":{}]"]
            .iter()
            .any(|form| head.contains(&form.replace("{}", l)))
    });
    if level.is_some() && marked || stamped(line) || thrown(line) {
        return Some((if marked { grave } else { 0.0 }, unstamped(line)));
    }
    if of_the_system(line) {
        return Some((0.0, unstamped(line)));
    }
    printed(line).then(|| (-1.0, unstamped(line)))
}

/// The level of a line of fields, which may stand anywhere: `Level:WARN`, `"severity":"ERROR"`.
fn field_of_level(line: &str) -> Option<&'static &'static str> {
    let lower = line.to_ascii_lowercase();
    let at = ["level", "severity", "lvl"].iter().find_map(|name| {
        let (at, _) = lower.match_indices(name).find(|(at, _)| {
            let behind = lower[at + name.len()..].trim_start_matches('"');
            behind.starts_with([':', '='])
        })?;
        Some(at + name.len())
    })?;
    let marks = [':', '=', '"', ' '];
    let behind = line.get(at..)?.trim_start_matches(marks);
    let word = behind
        .split(|c: char| !c.is_ascii_alphabetic())
        .next()
        .unwrap_or_default();
    LEVELS
        .iter()
        .find(|l| l.eq_ignore_ascii_case(word) && l.chars().all(|c| c.is_ascii_uppercase()))
}

/// Whether a line begins with a day or a time: `2024-01-16 22:02:39`, `[13-May-2019 12:48:55]`, `Jan 16 22:02:39 host`.
pub(super) fn stamped(line: &str) -> bool {
    if kernel(line) || apache(line) {
        return true;
    }
    let mut words = line
        .split_whitespace()
        .take(5)
        .map(|w| w.trim_matches(['[', ']', ',']));
    words.any(is_time)
}

/// `[12345.678901] ...` of dmesg.
fn kernel(line: &str) -> bool {
    let stamp = line.strip_prefix('[').and_then(|l| l.split_once(']'));
    stamp.is_some_and(|(s, _)| s.contains('.') && s.trim().parse::<f64>().is_ok())
}

/// `AH01974: ...`, a number of Apache's own messages.
fn apache(line: &str) -> bool {
    line.match_indices("AH").any(|(at, _)| {
        let rest = line.as_bytes().get(at + 2..at + 8);
        rest.is_some_and(|r| r[..5].iter().all(u8::is_ascii_digit) && r[5] == b':')
    })
}

fn is_time(word: &str) -> bool {
    let word = word.rsplit('T').next().unwrap_or(word);
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() >= 3
        && parts[..2]
            .iter()
            .all(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_digit()))
}

/// `java.util.concurrent.TimeoutException: ...`, `Error: ...`, `panic: ...`.
fn thrown(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let verb = words.any(|w| ["threw", "throws", "raised", "caught"].contains(&w));
    let name = |w: &str| w.ends_with("Exception") || w.ends_with("Error") && w.len() > 5;
    if verb && words.next().is_some_and(name) {
        return true;
    }
    let Some((name, _)) = line.split_once(':') else {
        return false;
    };
    let name = name.rsplit(' ').next().unwrap_or("");
    name.ends_with("Exception")
        || name.ends_with("Error") && name.len() > 5
        || line.starts_with("Error:")
        || line.starts_with("panic:")
        || line.starts_with("Caused by:")
}

/// Words that only a person writes.
pub(super) const PERSON: [&str; 12] = [
    " i ", " my ", " we ", " our ", " you ", " your ", " me ", "i'm", "i've", "please", "thanks",
    "?",
];

/// `TCP: out of memory -- ...`, `[11646] {client} accept() failed; ...`, `accept4() failed (24: ...)`: a program's own
/// message without a level or a stamp.
fn printed(line: &str) -> bool {
    let line = line.trim_start_matches(['-', '*', ' ']);
    let first = line.split_whitespace().next().unwrap_or_default();
    let lower = format!(" {} ", line.to_ascii_lowercase());
    let marked = first.ends_with(':') && first.len() > 2
        || first.starts_with(['[', '{'])
        || first.ends_with("()")
        || line.ends_with("!!!")
        || line.matches(": ").count() >= 2;
    // `Slowest: 2.1 secs` is a number with its name, `RX: errors dropped` the head of a table.
    let behind = line[first.len()..].trim_start();
    let number = first.ends_with(':') && behind.starts_with(|c: char| c.is_ascii_digit());
    marked && !number && !lower.contains("slowest") && !PERSON.iter().any(|w| lower.contains(w))
}

/// What the system says of a call that failed, by which a line is a message whatever stands before it.
const SYSTEM: [&str; 12] = [
    "Resource temporarily unavailable",
    "Too many open files",
    "Connection refused",
    "Connection reset by peer",
    "Connection timed out",
    "Cannot allocate memory",
    "No space left on device",
    "Cannot assign requested address",
    "Address already in use",
    "No buffer space available",
    "Broken pipe",
    "No route to host",
];

fn of_the_system(line: &str) -> bool {
    let lower = format!(" {} ", line.to_ascii_lowercase());
    SYSTEM.iter().any(|s| line.contains(s)) && !PERSON.iter().any(|w| lower.contains(w))
}

/// A line from behind its stamp on.
pub(super) fn unstamped(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..4 {
        let Some((word, behind)) = rest.split_once(' ') else {
            break;
        };
        let word = word.trim_matches(['[', ']', ',']);
        let day = word.starts_with(|c: char| c.is_ascii_digit())
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ":-/.,+TZ".contains(c));
        if !day {
            break;
        }
        rest = behind.trim_start();
    }
    rest
}

/// The longest time of a line, in seconds: `3402 ms`, `took 3.4s`, `after 30 seconds`.
pub(super) fn longest(text: &str) -> Option<f64> {
    let pieces = pieces(text);
    let times = pieces.iter().enumerate().filter_map(|(i, piece)| {
        if let Some(s) = seconds(piece.text) {
            return Some(s);
        }
        let n = value(piece.text)?;
        let factor = match pieces.get(i + 1)?.text {
            "ms" | "milliseconds" | "msec" => 1e-3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "minutes" | "min" => 60.0,
            _ => return None,
        };
        Some(n * factor)
    });
    times.reduce(f64::max)
}
