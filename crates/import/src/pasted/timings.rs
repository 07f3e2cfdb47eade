//! The tree of a request as MiniProfiler lists it: a step a line, with its own time, its time with what is below it,
//! when it began, and its statements: `Rendering: posts/_row  45.0  45.0  +1701.0 8 sql  5.7`.
//!
//! A paste ends anywhere, also within a line. The surprise is a step that comes again and again with statements of its
//! own: each is short, and together they are what the page takes.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Steps of one name from which on they are a list.
const AGAIN: usize = 3;

/// A line.
struct Step<'a> {
    name: &'a str,
    own_ms: f64,
    whole_ms: f64,
    statements: f64,
    sql_ms: f64,
}

/// The tree of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("steps of a request", 0);
    let mut all: Vec<Step<'_>> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        if let Some(step) = step(line) {
            found.begin_at(number);
            found.largest("timings.whole_ms", step.whole_ms);
            found.add("timings.statements", step.statements);
            found.add("timings.sql_ms", step.sql_ms);
            all.push(step);
        }
    }
    let mut by_name: BTreeMap<&str, Vec<&Step<'_>>> = BTreeMap::new();
    for step in &all {
        by_name.entry(step.name).or_default().push(step);
    }
    by_name.retain(|_, steps| steps.len() >= AGAIN);
    let sum = |of: &[&Step<'_>], n: fn(&Step<'_>) -> f64| of.iter().map(|s| n(s)).sum::<f64>();
    let again = by_name.values().max_by(|a, b| {
        let asked = |of: &[&Step<'_>]| sum(of, |s| s.statements);
        (asked(a).total_cmp(&asked(b))).then(a.len().cmp(&b.len()))
    });
    if let Some(steps) = again {
        let statements = sum(steps, |s| s.statements);
        found
            .figures
            .insert("timings.again".into(), steps.len() as f64);
        found
            .figures
            .insert("timings.again_statements".into(), statements);
        found.rows.push(Row {
            label: short(steps[0].name),
            place: format!(
                "{} times, {statements:.0} statements and {:.1} ms in all",
                steps.len(),
                sum(steps, |s| s.own_ms)
            ),
            share: statements,
        });
    }
    let mut largest: Vec<&Step<'_>> = all.iter().collect();
    largest.sort_by(|a, b| b.own_ms.total_cmp(&a.own_ms));
    let listed = |s: &&&Step<'_>| again.is_none_or(|of| of[0].name != s.name);
    for step in largest.iter().filter(listed) {
        let statements = match step.statements {
            0.0 => String::new(),
            n => format!(", {n:.0} statements"),
        };
        found.rows.push(Row {
            label: short(step.name),
            place: format!(
                "{} ms itself, {} ms with what is below it{statements}",
                step.own_ms, step.whole_ms
            ),
            share: step.own_ms,
        });
    }
    let rows = all.len() as f64;
    found.figures.insert("timings.rows".into(), rows);
    told(found).filter(|_| all.len() >= AGAIN)
}

/// The two times, the plus sign, and the statements with their time where there are any.
fn step(line: &str) -> Option<Step<'_>> {
    let (before, behind) = line.split_once(" +")?;
    let mut behind = behind.split_whitespace();
    behind.next()?.parse::<f64>().ok()?;
    let statements = behind.next().and_then(|n| n.parse::<f64>().ok());
    let statements = statements.filter(|_| behind.next() == Some("sql"));
    let sql_ms = behind.next().and_then(|n| n.parse().ok());
    let (rest, whole) = before.trim_end().rsplit_once(char::is_whitespace)?;
    let (name, own) = rest.trim_end().rsplit_once(char::is_whitespace)?;
    let n = |text: &str| text.parse::<f64>().ok().filter(|_| text.contains('.'));
    let (own_ms, whole_ms) = (n(own)?, n(whole)?);
    Some(Step {
        name: name.trim(),
        own_ms,
        whole_ms,
        statements: statements.unwrap_or(0.0),
        sql_ms: sql_ms.unwrap_or(0.0),
    })
    .filter(|s| s.name.contains(char::is_alphabetic) && own_ms <= whole_ms)
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn what_comes_again_with_statements_stands_first() {
        let text = "GET http://a.example/  10.0  400.0  +0.0\n Rendering: list  300.5  390.0  +5.0 2 sql  1.0\n  Rendering: _row  30.0  30.0  +9.0 3 sql  1.5\n  Rendering: _row  29.0  29.0  +40.0 3 sql  1.5\n  Rendering: _row  30.5  30.5  +70.0 3 sql";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found)[..2],
            [
                "Rendering: _row: 3 times, 9 statements and 89.5 ms in all",
                "Rendering: list: 300.5 ms itself, 390 ms with what is below it, 2 statements"
            ]
        );
        assert_eq!(found.value("timings.statements"), Some(11.0));
        assert!(read(&["a 1.0 2.0 +3.0", "b 5.0 2.0 +3.0", "1.0 2.0 +3.0"]).is_none());
    }
}
