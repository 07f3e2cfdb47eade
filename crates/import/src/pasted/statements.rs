//! A statement whose time stands in a field beside it, in any tool's form: a row of names and values (`\G`, `Row 1:` of
//! ClickHouse), `db.statement="..." elapsed=4.49s` of a logger, the same as JSON; a line of a log that calls its
//! statement slow (`Slow query [ 312.7ms] -- SELECT ...`); and statements without a time.
//!
//! Names of fields say what they hold, and a field with a statement is known by its first word. The surprise is the
//! unit, which stands behind the number (`4.49s`) or at the name's end (`query_duration_ms`); without either the number
//! is none.

use super::databases::statement;
use super::events::{artefact, told};
use super::messages::longest;
use super::pieces::{from_of_query, seconds, short, value};
use record::pasted::{Artefact, Row};

/// A longer line is data.
const LINE: usize = 8_000;
/// Lines with a statement, as a part of all, in a log of statements.
const PART: f64 = 0.5;

/// Words with which a statement begins.
const BEGINS: [&str; 9] = [
    "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ", "REPLACE ", "MERGE ", "CALL ", "CREATE ",
];
/// Names of a field that holds one, the last of its parts.
const TEXTS: [&str; 7] = [
    "query",
    "statement",
    "sql",
    "query_text",
    "sql_text",
    "raw_sql",
    "stmt",
];
/// Parts of a name of a field that holds its time.
pub(super) const TIMES: [&str; 6] = ["duration", "elapsed", "took", "time", "latency", "cost"];
/// Ends of such a name, and seconds of one.
pub(super) const UNITS: [(&str, f64); 10] = [
    ("_ms", 1e-3),
    ("millis", 1e-3),
    ("milliseconds", 1e-3),
    ("_us", 1e-6),
    ("microseconds", 1e-6),
    ("_ns", 1e-9),
    ("nanos", 1e-9),
    ("_s", 1.0),
    ("_secs", 1.0),
    ("seconds", 1.0),
];
/// Names of counts of rows, and ours.
const ROWS: [(&str, &str); 7] = [
    ("read_rows", "database.rows_read"),
    ("rows_read", "database.rows_read"),
    ("rows_examined", "database.rows_read"),
    ("docsexamined", "database.rows_read"),
    ("result_rows", "database.rows_sent"),
    ("rows_returned", "database.rows_sent"),
    ("rows_sent", "database.rows_sent"),
];

/// Statements with their times in fields.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("statements with their fields", 0);
    let mut open: Option<Record<'_>> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if begins_a_row(text) {
            add(&mut found, open.replace(Record::at(number)));
            continue;
        }
        if let Some(row) = &mut open {
            if let Some((name, content)) = text.split_once(':').or_else(|| text.split_once('|')) {
                row.take(name.trim(), content.trim());
            }
            continue;
        }
        if text.len() > LINE || !BEGINS.iter().any(|b| has_ignoring_case(text, b)) {
            continue;
        }
        let mut row = Record::at(number);
        for (name, content) in fields(text) {
            row.take(name, content);
        }
        match slow(text).filter(|_| row.text.is_none() || row.took.is_none()) {
            Some((took, text)) => statement(&mut found, number, took, text),
            None => add(&mut found, Some(row)),
        }
    }
    add(&mut found, open);
    found.largest_first();
    told(found)
}

/// What a log calls a statement that took long, in small letters.
const SLOW: [&str; 7] = [
    "slow query",
    "slow sql",
    "slow statement",
    "slow database query",
    "long query",
    "long-running query",
    "long running query",
];
/// How a statement begins behind such words: those of prose (`with`, `call`) are in capital letters.
const PLAIN: [&str; 4] = ["select ", "insert into ", "update ", "delete from "];

/// `NOTICE - database: Slow query [ 312.7ms] -- SELECT ...`: the time and the statement behind it. Of a limit and a
/// time the time is the longer.
fn slow(text: &str) -> Option<(f64, &str)> {
    let begins = BEGINS.iter().chain(&PLAIN);
    let at = begins.filter_map(|b| text.find(b)).min()?;
    let (before, statement) = text.split_at(at);
    let lower = before.to_ascii_lowercase();
    SLOW.iter().find(|s| lower.contains(**s))?;
    Some((longest(before)?, statement))
}

/// `Row 1:`, `*** 1. row ***`, `-[ RECORD 1 ]--`.
fn begins_a_row(text: &str) -> bool {
    let numbered = || {
        let n = text.strip_prefix("Row ")?.strip_suffix(':')?;
        n.parse::<u32>().ok()
    };
    text.starts_with("-[ RECORD")
        || text.starts_with("***") && text.contains(". row *")
        || numbered().is_some()
}

/// What the fields of one statement say.
struct Record<'a> {
    line: u32,
    text: Option<&'a str>,
    took: Option<f64>,
    rows: Vec<(&'static str, f64)>,
}

impl<'a> Record<'a> {
    fn at(line: u32) -> Self {
        Self {
            line,
            text: None,
            took: None,
            rows: Vec::new(),
        }
    }

    fn take(&mut self, name: &str, content: &'a str) {
        let lower = name.to_ascii_lowercase();
        let last = lower.rsplit('.').next().unwrap_or_default();
        if self.text.is_none() && TEXTS.contains(&last) {
            let content = content.trim_start_matches("\\n").trim();
            let begins = BEGINS.iter().any(|b| begins_with(content, b));
            self.text = begins.then_some(content);
        } else if TIMES.iter().any(|t| last.contains(t)) {
            let ends = UNITS.iter().find(|(end, _)| last.ends_with(end));
            let named = ends.and_then(|(_, s)| Some(content.parse::<f64>().ok()? * s));
            let took = named.or_else(|| seconds(content));
            // A threshold and the time of a part are less than the whole.
            let limit = last.contains("threshold") || last.contains("limit");
            self.took = match (self.took, took.filter(|_| !limit)) {
                (Some(a), Some(b)) => Some(a.max(b)),
                (a, b) => a.or(b),
            };
        } else if let Some((_, ours)) = ROWS.iter().find(|(name, _)| *name == last) {
            self.rows.extend(value(content).map(|n| (*ours, n)));
        }
    }
}

fn add(found: &mut Artefact, row: Option<Record<'_>>) {
    let Some(row) = row else {
        return;
    };
    let (Some(text), Some(took)) = (row.text, row.took) else {
        return;
    };
    statement(found, row.line, took, text);
    for (name, n) in row.rows {
        found.largest(name, n);
    }
}

/// `name=value`, `name="value"`, `"name": value` of a line, in order.
pub(super) fn fields(line: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = line[from..].find(['=', ':']).map(|at| from + at) {
        let before = line[from..at].trim_end_matches('"');
        let begins = before.rfind(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c));
        let name = &before[begins.map_or(0, |b| {
            b + before[b..].chars().next().map_or(1, char::len_utf8)
        })..];
        let behind = line[at + 1..].trim_start();
        let start = line.len() - behind.len();
        let end = match behind.strip_prefix('"') {
            Some(inner) => start + 1 + closing(inner),
            None => {
                let apart = |c: char| c.is_whitespace() || c == ',' || c == '}';
                start + behind.find(apart).unwrap_or(behind.len())
            }
        };
        // What is no field is passed over by its mark alone.
        if name.is_empty() {
            from = at + 1;
            continue;
        }
        found.push((name, line[start..end].trim_start_matches('"')));
        from = end.max(at + 1);
    }
    found
}

/// Where a quoted text ends.
fn closing(inner: &str) -> usize {
    let mut escaped = false;
    for (at, c) in inner.char_indices() {
        match c {
            '\\' => escaped = !escaped,
            '"' if !escaped => return at,
            _ => escaped = false,
        }
    }
    inner.len()
}

fn begins_with(text: &str, word: &str) -> bool {
    let head = text.get(..word.len());
    head.is_some_and(|h| h.eq_ignore_ascii_case(word))
}

fn has_ignoring_case(text: &str, word: &str) -> bool {
    let windows = text.as_bytes().windows(word.len());
    windows
        .into_iter()
        .any(|w| w.eq_ignore_ascii_case(word.as_bytes()))
}

/// Statements of a log that names no times, by the table that they ask.
pub(super) fn untimed(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("statements without times", 0);
    let (mut filled, mut all) = (0.0, 0.0);
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        if text.is_empty() || text.len() > LINE {
            continue;
        }
        filled += 1.0;
        let lower = text.to_ascii_lowercase();
        let from = from_of_query(&lower).map(|at| at + " from ".len());
        let table = from.and_then(|at| text.get(at..)?.split_whitespace().next());
        // A name in quotes, a condition or an end make it a statement and no sentence.
        let is_one = || {
            let marks = ["`", "\"", " where ", " limit ", ";", "?"];
            marks.iter().any(|m| lower.contains(m)) && !lower.ends_with('.')
        };
        let Some(table) = table.filter(|_| is_one()) else {
            continue;
        };
        found.begin_at(number);
        all += 1.0;
        let label = short(table.trim_end_matches([';', ',', ')']));
        match found.rows.iter_mut().find(|r| r.label == label) {
            Some(row) => row.share += 1.0,
            None => found.rows.push(Row::new(label, 1.0)),
        }
    }
    if all < PART * filled || all < 2.0 {
        return None;
    }
    found.largest_first();
    for row in &mut found.rows {
        row.place = format!("{:.0} of them", row.share);
    }
    found.figures.insert("untimed.rows".into(), all);
    told(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(text: &str) -> Option<f64> {
        let lines: Vec<&str> = text.lines().collect();
        read(&lines)?.value("database.longest_s")
    }

    #[test]
    fn a_time_stands_in_a_field_beside_its_statement() {
        let row = "Row 1:\n\u{2500}\u{2500}\nquery_duration_ms: 71877\nread_rows: 6505\nquery: SELECT min(t) FROM e\n";
        assert_eq!(longest(row), Some(71.877));
        let logged = "slow statement summary=\"SELECT a \u{2026}\" db.statement=\"\\nSELECT \\\"a\\\" FROM t\" elapsed=4.5s slow_threshold=9s\n";
        assert_eq!(longest(logged), Some(4.5));
        let json = "{\"level\":\"warn\",\"sql\":\"select a from t\",\"elapsed_ms\":250}\n";
        assert_eq!(longest(json), Some(0.25));
        // A number without a unit is none.
        assert_eq!(longest("sql=\"SELECT 1 FROM t\" duration=12\n"), None);
        assert_eq!(longest("took=4s\nWe SELECT it by hand: query=7\n"), None);
    }

    #[test]
    fn a_log_calls_its_statement_slow() {
        let logged = "2025-01-03T19:00:43.9Z NOTICE - db: Slow query [ 8232.7ms] -- SELECT \"a\" FROM t WHERE b = 1\n";
        assert_eq!(longest(logged).map(f64::round), Some(8.0));
        // Of the limit and the time the time.
        let limit = "warn: SLOW SQL >= 200ms [312ms] [rows:4] UPDATE t SET a = 1\n";
        assert_eq!(longest(limit), Some(0.312));
        assert_eq!(longest("a slow query of 3s with an index\n"), None);
        assert_eq!(longest("took 3s: SELECT a FROM t\n"), None);
    }

    #[test]
    fn statements_without_times_are_counted_by_their_table() {
        let log = "q SELECT a FROM `u` WHERE id = ?\nq SELECT b FROM `u` LIMIT ?\nq SELECT b FROM `v` LIMIT ?\n";
        let found = untimed(&log.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("untimed.rows"), Some(3.0));
        assert_eq!(found.rows[0].label, "`u`");
        assert!(untimed(&["you select one from the list", "and select two from it"]).is_none());
    }
}
