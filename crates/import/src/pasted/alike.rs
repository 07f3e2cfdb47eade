//! Statements that a log repeats with other values: one for each row of a list, where one for all would do.
//!
//! Any logger of any framework prints them (`SELECT ... WHERE "id" = 7`), with and without a time. They are alike by
//! their text without its numbers, quoted values and arguments. The surprise is the paste that is cut off in front: the
//! part from its last `WHERE` on is enough.

use super::events::{artefact, told};
use super::pieces::{from_of_query, short};
use record::pasted::{Artefact, Row};

/// Fewer statements are no sequence.
const FEWEST: f64 = 3.0;
/// Of all statements those that are alike are that much at least.
const PART: f64 = 0.5;
/// A longer line is data.
const LINE: usize = 4_000;

/// The statement that a text repeats most.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("statements of a log", 0);
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    let mut all = 0.0;
    for (number, line) in (1_u32..).zip(lines) {
        let Some((table, condition)) = statement(line) else {
            continue;
        };
        found.begin_at(number);
        all += 1.0;
        let common = bare(condition);
        let known = kinds.iter_mut().find(|k| {
            let table_too = k.table.is_empty() || table.is_empty() || k.table == table;
            k.common == common && table_too
        });
        let open = condition.contains(['?', '$']);
        match known {
            Some(kind) if open || !kind.values.contains(&condition) => {
                kind.values.push(condition);
                if kind.table.is_empty() {
                    kind.table = table;
                }
            }
            Some(_) => {}
            None => kinds.push(Kind {
                common,
                table,
                values: vec![condition],
            }),
        }
    }
    let kind = kinds.iter().max_by_key(|k| k.values.len())?;
    let times = kind.values.len() as f64;
    if all < FEWEST || times < 2.0 || times < PART * all {
        return None;
    }
    for (name, n) in [("rows", 1.0), ("all", all), ("times", times)] {
        found.figures.insert(format!("alike.{name}"), n);
    }
    let label = format!("{} {}", kind.table, kind.values[0]);
    found.rows.push(Row::new(short(&label), times));
    told(found)
}

/// Statements with one condition but for its values.
struct Kind<'a> {
    common: String,
    /// From `FROM` on; empty where it is cut off.
    table: &'a str,
    values: Vec<&'a str>,
}

/// The table of a query, and its condition.
fn statement(line: &str) -> Option<(&str, &str)> {
    if line.len() > LINE {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let condition = lower.rfind(" where ");
    // A plan has its conditions apart.
    let condition = condition.filter(|at| line[*at..].contains(['=', '?', '$']))?;
    let from = from_of_query(&lower).filter(|from| *from < condition);
    let table = from.and_then(|from| line.get(from..condition));
    let condition = line.get(condition..)?.trim();
    Some((table.unwrap_or_default().trim(), condition))
}

/// A statement without what differs from one to the next.
fn bare(text: &str) -> String {
    let mut kept = String::new();
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted || c.is_ascii_digit() => {}
            _ => kept.push(c),
        }
    }
    // Arguments and comments stand behind it.
    for mark in ["; args=", " [[", " -- ", "/*", "; params"] {
        if let Some(at) = kept.find(mark) {
            kept.truncate(at);
        }
    }
    kept.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Option<f64> {
        read(&text.lines().collect::<Vec<_>>())?.value("alike.times")
    }

    #[test]
    fn statements_are_alike_but_for_their_values() {
        let text: String = (1..5)
            .map(|i| format!("DEBUG (0.000) SELECT a FROM t WHERE t.id = {i}; args=({i},)\n"))
            .collect();
        assert_eq!(times(&text), Some(4.0));
        // The same statement again and again is another thing, and so are different ones.
        let same = "SELECT a FROM t WHERE t.id = 1\n".repeat(4);
        assert_eq!(times(&same), None);
        let other = "SELECT a FROM t WHERE x = 1\nSELECT b FROM u WHERE y = 1\nSELECT c FROM v WHERE z = 2\n";
        assert_eq!(times(other), None);
    }
}
