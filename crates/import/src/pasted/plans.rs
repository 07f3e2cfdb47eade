//! Plans of queries without costs or times, in any database's words: SQLite's `SCAN orders`, PostgreSQL's `Seq Scan on
//! orders`, Oracle's `TABLE ACCESS FULL`, MySQL's `type: ALL`, MongoDB's `COLLSCAN`, `spans | FULL SCAN`.
//!
//! A step is known by the words with which its line begins, behind the marks of a tree or a list. The surprise is the
//! version: SQLite says `SCAN TABLE orders` and later `SCAN orders`, and a virtual table or a subquery is scanned
//! without reading a table.

use super::events::{artefact, told};
use super::passed::WHOLE;
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// A longer line is data.
const LINE: usize = 300;

/// What a step of a plan does.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Reads all of a table or an index.
    Whole,
    /// Sorts or groups in memory or on a disk, for want of an order.
    Sorts,
    Other,
}

/// Words with which a step begins, in the letters in which they are printed.
#[rustfmt::skip]
const STEPS: [(&str, Step); 23] = [
    ("SCAN CONSTANT ROW", Step::Other), ("SCAN SUBQUERY", Step::Other), ("SCAN TABLE ", Step::Whole), ("SEARCH TABLE ", Step::Other),
    ("SEARCH ", Step::Other), ("USE TEMP B-TREE FOR ", Step::Sorts),
    ("Seq Scan on ", Step::Whole), ("Parallel Seq Scan on ", Step::Whole), ("Index Scan using ", Step::Other), ("Index Only Scan using ", Step::Other),
    ("Bitmap Heap Scan on ", Step::Other),
    ("TABLE ACCESS FULL", Step::Whole), ("TABLE ACCESS STORAGE FULL", Step::Whole), ("INDEX FULL SCAN", Step::Whole), ("TABLE ACCESS BY INDEX ROWID", Step::Other), ("INDEX RANGE SCAN", Step::Other), ("INDEX UNIQUE SCAN", Step::Other), ("SORT ORDER BY", Step::Sorts),
    ("Table scan on ", Step::Whole), ("Index scan on ", Step::Whole), ("Index lookup on ", Step::Other), ("Single-row index lookup on ", Step::Other),
    ("Table Scan(", Step::Whole),
];
/// Parts of a line that say the same wherever they stand.
const PARTS: [(&str, Step); 10] = [
    ("\"access_type\": \"ALL\"", Step::Whole),
    ("\"access_type\": \"index\"", Step::Whole),
    ("\"stage\": \"COLLSCAN\"", Step::Whole),
    ("\"stage\" : \"COLLSCAN\"", Step::Whole),
    ("stage: 'COLLSCAN'", Step::Whole),
    ("stage: 'IXSCAN'", Step::Other),
    ("\"Node Type\": \"Seq Scan\"", Step::Whole),
    ("Table Scan(OBJECT:", Step::Whole),
    ("Clustered Index Scan(OBJECT:", Step::Whole),
    ("Index Seek(OBJECT:", Step::Other),
];
/// Names of a table near a part: the lines before and behind it.
const NAMES: [&str; 6] = [
    "\"table_name\":",
    "\"Relation Name\":",
    "\"namespace\" :",
    "\"namespace\":",
    "namespace:",
    "\"ns\":",
];
const NEAR: usize = 8;
/// So much of a table is all of it.
const MOSTLY: f64 = 0.9;
/// Names of what was counted, which are told beside a part.
const COUNTS: [&str; 4] = [
    "totalDocsExamined",
    "nReturned",
    "executionTimeMillis",
    "rows_examined_per_scan",
];

/// The steps of a text's plans.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("plan of a query", 0);
    let mut sorts = 0.0;
    let of_sqlite = lines.iter().any(|l| is_sqlites(l));
    for (at, line) in lines.iter().enumerate() {
        if line.len() > LINE {
            continue;
        }
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let Some((step, label)) = step(line, of_sqlite)
            .or_else(|| part(lines, at))
            .or_else(|| vertical(lines, at))
            .or_else(|| spans(line))
            .or_else(|| granules(lines, at))
        else {
            continue;
        };
        found.begin_at(number);
        found.add("plan.steps", 1.0);
        let whole = step == Step::Whole;
        found.add("plan.scans", f64::from(u8::from(whole)));
        sorts += f64::from(u8::from(step == Step::Sorts));
        found.rows.push(Row::new(label, f64::from(u8::from(whole))));
    }
    found.figures.insert("plan.sorts".into(), sorts);
    found.largest_first();
    told(found)
}

/// A line behind the marks of a tree, a list or a table.
fn bare(line: &str) -> &str {
    let marks = |c: char| c.is_whitespace() || "|`+-*>0123456789├└─│".contains(c);
    line.trim().trim_start_matches(marks)
}

/// Whether a line can only be of `EXPLAIN QUERY PLAN`.
fn is_sqlites(line: &str) -> bool {
    let text = bare(line);
    text == "QUERY PLAN"
        || line.contains("EXPLAIN QUERY PLAN")
        || ["SCAN TABLE ", "SEARCH TABLE ", "USE TEMP B-TREE"]
            .iter()
            .any(|s| text.starts_with(s))
        || text.starts_with("SEARCH ") && text.contains(" USING ")
}

fn step(line: &str, of_sqlite: bool) -> Option<(Step, String)> {
    let text = bare(line);
    // Steps with costs and times have their own reader.
    if text.contains("actual time") || text.contains("(cost=") {
        return None;
    }
    // Oracle's table has its cells between bars.
    let name = text.split('|').map(str::trim).filter(|c| !c.is_empty());
    let label = short(&name.take(2).collect::<Vec<_>>().join(" "));
    let squeezed: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let known = STEPS
        .iter()
        .find(|(begins, _)| squeezed.starts_with(begins));
    if let Some((begins, step)) = known {
        // A word that sentences have too is a step beside others alone.
        let sure = *begins != "SEARCH " || of_sqlite;
        return sure.then_some((*step, label));
    }
    let scans = of_sqlite && squeezed.starts_with("SCAN ") && squeezed.split(' ').count() < 12;
    scans.then_some((Step::Whole, label))
}

/// A part of a plan in JSON, with its table's name.
fn part(lines: &[&str], at: usize) -> Option<(Step, String)> {
    let line = lines[at];
    let (words, step) = PARTS.iter().find(|(words, _)| line.contains(words))?;
    let near = at.saturating_sub(NEAR)..(at + NEAR).min(lines.len());
    let name = lines[near].iter().find_map(|l| {
        let begins = NAMES.iter().find(|n| l.contains(**n))?;
        let (_, name) = l.split_once(begins)?;
        Some(name.trim().trim_matches(['"', '\'', ',', ' ']).to_owned())
    });
    let words = words.replace(['"', '\''], "");
    let counts = lines.iter().skip(at).take(2 * NEAR).filter(|l| {
        let name = l.trim().trim_start_matches('"');
        COUNTS.iter().any(|c| name.starts_with(c))
    });
    let counts: Vec<String> = counts.map(|l| l.trim().replace(['"', ','], "")).collect();
    let label = match (name, counts.is_empty()) {
        (Some(name), _) => format!("{name} ({words})"),
        (None, true) => short(line.trim()),
        (None, false) => words,
    };
    let label = match counts.is_empty() {
        true => label,
        false => short(&format!("{label}; {}", counts.join(", "))),
    };
    Some((*step, label))
}

/// `type: ALL` of a plan that MySQL prints a field a line, with its table above it.
fn vertical(lines: &[&str], at: usize) -> Option<(Step, String)> {
    let content = |line: &str, name: &str| {
        let (before, behind) = line.split_once(':')?;
        (before.trim() == name).then(|| behind.trim().to_owned())
    };
    let kind = content(lines[at], "type")?;
    let near = &lines[at.saturating_sub(NEAR)..(at + NEAR).min(lines.len())];
    let of = |name: &str| near.iter().find_map(|l| content(l, name));
    of("select_type").or_else(|| of("possible_keys"))?;
    let step = match WHOLE.contains(&kind.as_str()) {
        true => Step::Whole,
        false => Step::Other,
    };
    let rows = of("rows").map_or_else(String::new, |n| format!(", about {n} rows"));
    let extra = of("Extra").filter(|e| !e.is_empty() && e != "NULL");
    let extra = extra.map_or_else(String::new, |e| format!(", {e}"));
    let table = of("table").unwrap_or_default();
    Some((step, short(&format!("{table} (type {kind}{rows}{extra})"))))
}

/// `spans: FULL SCAN` of CockroachDB, `ALLOW FILTERING` of Cassandra.
fn spans(line: &str) -> Option<(Step, String)> {
    let text = bare(line);
    let whole = text.starts_with("spans") && text.contains("FULL SCAN")
        || text.ends_with("ALLOW FILTERING;")
        || text.ends_with("ALLOW FILTERING");
    whole.then(|| (Step::Whole, short(text)))
}

/// `Granules: 122881/122881` of ClickHouse: what is read of what there is.
fn granules(lines: &[&str], at: usize) -> Option<(Step, String)> {
    let text = bare(lines[at]);
    let (read, all) = text.strip_prefix("Granules: ")?.split_once('/')?;
    let (read, all): (f64, f64) = (read.parse().ok()?, all.trim().parse().ok()?);
    let near = &lines[at.saturating_sub(2 * NEAR)..at];
    let table = near
        .iter()
        .rev()
        .find_map(|l| bare(l).strip_prefix("ReadFromMergeTree"));
    let step = match read >= MOSTLY * all {
        true => Step::Whole,
        false => Step::Other,
    };
    Some((
        step,
        short(&format!("{} {text}", table.unwrap_or_default().trim())),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, steps: f64, scans: f64, first: &str) {
        let found = read(&text.lines().collect::<Vec<_>>());
        let found = found.unwrap_or_else(|| panic!("nothing in {text}"));
        assert_eq!(found.value("plan.steps"), Some(steps), "{text}");
        assert_eq!(found.value("plan.scans"), Some(scans), "{text}");
        assert_eq!(found.rows[0].label, first, "{text}");
    }

    #[test]
    fn each_database_has_its_words_for_reading_all() {
        check("SCAN TABLE records\n", 1.0, 1.0, "SCAN TABLE records");
        check(
            "QUERY PLAN\n|--SEARCH b USING INDEX i (x=?)\n`--SCAN a\n",
            2.0,
            1.0,
            "SCAN a",
        );
        check("  ->  Seq Scan on orders\n", 1.0, 1.0, "Seq Scan on orders");
        check(
            "|   1 |  TABLE ACCESS FULL| ORDERS |  1000 |\n",
            1.0,
            1.0,
            "TABLE ACCESS FULL ORDERS",
        );
        check(
            "  select_type: SIMPLE\n        table: orders\n         type: ALL\n         rows: 120000\n        Extra: Using where\n",
            1.0,
            1.0,
            "orders (type ALL, about 120000 rows, Using where)",
        );
        check(
            "\"stage\" : \"COLLSCAN\",\n",
            1.0,
            1.0,
            "\"stage\" : \"COLLSCAN\",",
        );
        assert!(read(&["SCAN the page", "we search all"]).is_none());
    }
}
