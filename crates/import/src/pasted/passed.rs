//! Indexes that are there and that a plan does not use: MySQL's `possible_keys` beside a `key` of NULL, and a cast
//! around a column in PostgreSQL's filter.
//!
//! The surprise is the comparison: a number against a column of text converts each row's text, and an index over that
//! column serves no more, while the plan says nothing of it.

use super::databases::bars;
use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// MySQL's types of a step that reads all of a table or an index.
pub(super) const WHOLE: [&str; 2] = ["ALL", "index"];

/// The steps of MySQL's plans in either form; `wide` is the second one with bars.
pub(super) fn read(lines: &[&str], wide: &[&str]) -> Option<Artefact> {
    let mut found = artefact("indexes that a plan does not use", 0);
    let mut columns: Vec<&str> = Vec::new();
    for (number, line) in (1_u32..).zip(lines.iter().chain(wide)) {
        let cells = bars(line);
        let is_head = ["possible_keys", "key", "table"];
        if is_head.iter().all(|name| cells.contains(name)) {
            columns = cells;
            continue;
        }
        let of = |name: &str| {
            let at = columns.iter().position(|c| *c == name)?;
            cells
                .get(at)
                .copied()
                .filter(|_| cells.len() == columns.len())
        };
        let step = [of("table"), of("type"), of("possible_keys"), of("key")];
        let [Some(table), Some(kind), Some(possible), Some(key)] = step else {
            continue;
        };
        let is_null = |cell: &str| cell.is_empty() || cell.eq_ignore_ascii_case("null");
        if !WHOLE.contains(&kind) || is_null(possible) || !is_null(key) {
            continue;
        }
        let rows = of("rows").and_then(|n| n.parse::<f64>().ok());
        found.begin_at(number);
        found.rows.push(Row {
            label: short(possible),
            place: format!(
                "of {table}, about {:.0} rows by type {kind}",
                rows.unwrap_or(0.0)
            ),
            share: rows.unwrap_or(0.0),
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("passed_over.rows".into(), rows);
    told(found)
}

/// Steps of PostgreSQL that read all of a table.
const SCANS: [&str; 2] = ["Seq Scan on ", "Parallel Seq Scan on "];
/// Casts that are only how a plan writes a comparison with a text: varchar has no operators of its own.
const OF_NO_WEIGHT: [&str; 1] = ["text"];

/// `Filter: ((number)::numeric = '12'::numeric)` below a scan of a whole table.
pub(super) fn casts(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("casts around columns", 0);
    let mut scan = "";
    for (number, line) in (1_u32..).zip(lines) {
        let text = line
            .trim()
            .trim_start_matches(['|', ' '])
            .trim_start_matches("->");
        let text = text.trim();
        if SCANS.iter().any(|s| text.starts_with(s)) {
            scan = text.split("  (").next().unwrap_or(text);
        } else if text.contains("(cost=") || text.contains("(actual ") {
            scan = "";
        } else if let Some(filter) = text.strip_prefix("Filter: ").filter(|_| !scan.is_empty())
            && let Some(cast) = cast(filter)
        {
            found.begin_at(number);
            found.rows.push(Row {
                label: short(cast),
                place: short(scan),
                share: 1.0,
            });
        }
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("cast.rows".into(), rows);
    told(found)
}

/// The first `(column)::type` of a filter that is compared, but for a cast that has no weight.
fn cast(filter: &str) -> Option<&str> {
    filter.match_indices(")::").find_map(|(at, _)| {
        let begin = filter[..at].rfind('(')?;
        let column = &filter[begin + 1..at];
        let is_name = |c: char| c.is_alphanumeric() || "_.\"".contains(c);
        let named = !column.is_empty() && column.chars().all(is_name);
        let behind = &filter[at + 3..];
        let end = behind.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
        let compared = behind[end..].trim_start().starts_with(['=', '<', '>', '~']);
        let of_weight = !OF_NO_WEIGHT.contains(&&behind[..end]);
        (named && compared && of_weight).then(|| &filter[begin..at + 3 + end])
    })
}

#[cfg(test)]
mod tests {
    use super::super::databases::horizontal;
    use super::super::events::written;
    use super::*;

    fn passed(text: &str) -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let wide = horizontal(&lines);
        let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
        read(&lines, &wide).map_or_else(Vec::new, |found| written(&found))
    }

    #[test]
    fn an_index_that_could_serve_and_is_not_used_is_named() {
        let head = "| id | select_type | table | type | possible_keys | key | rows | Extra |\n";
        let row = "| 1 | SIMPLE | parcels | ALL | parcels_code | NULL | 90210 | Using where |\n";
        let expected = ["parcels_code: of parcels, about 90210 rows by type ALL"];
        assert_eq!(passed(&format!("{head}{row}")), expected);
        let text = "*** 1. row ***\n  table: parcels\n  type: ALL\n  possible_keys: parcels_code\n  key: NULL\n  rows: 90210\n";
        assert_eq!(passed(text), expected);
        let used = row.replace("| NULL |", "| parcels_code |");
        assert!(passed(&format!("{head}{used}")).is_empty());
        let none = row.replace("| parcels_code |", "| NULL |");
        assert!(passed(&format!("{head}{none}")).is_empty());
    }

    #[test]
    fn a_cast_around_a_column_below_a_scan_of_all_is_named() {
        let text = "Seq Scan on parcels  (cost=0.00..9.00 rows=9 width=8)\n  Filter: ((code)::numeric = '12'::numeric)\n";
        let found = casts(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(written(&found), ["(code)::numeric: Seq Scan on parcels"]);
        let text = text.replace("numeric", "text");
        assert!(casts(&text.lines().collect::<Vec<_>>()).is_none());
    }
}
