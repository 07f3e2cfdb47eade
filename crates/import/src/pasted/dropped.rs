//! Rows that come up through the joins of a plan and that its last steps drop: `EXPLAIN ANALYZE` of MySQL and
//! PostgreSQL.
//!
//! A join that finds many rows for a result of few has worked for nothing. The surprise is the LEFT JOIN that is only
//! tested for whether it found something: it keeps every row of the other side, and each further one joins them all
//! again.

use super::events::{artefact, told};
use super::executed::{executed, unboxed};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// So many rows are worth a word.
const MANY: f64 = 1_000.0;
/// So large a part of them is left at most.
const LEFT: f64 = 0.1;
/// So large a part of the plan's time is below the join.
const PART: f64 = 0.3;
/// Steps that make fewer rows of many and use them all.
const GATHER: [&str; 7] = [
    "Aggregate",
    "Group",
    "Unique",
    "Temporary",
    "Window",
    "deduplicate",
    "duplicates",
];

/// A step that was executed.
struct Step<'a> {
    line: u32,
    depth: usize,
    name: &'a str,
    rows: f64,
    ms: f64,
    /// Dropped by a filter of its own.
    removed: f64,
}

impl Step<'_> {
    fn is_join(&self) -> bool {
        let lower = self.name.to_ascii_lowercase();
        lower.contains("join") || lower.starts_with("nested loop")
    }
}

/// The joins of the first plan of a text whose rows are dropped above them.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let steps = steps(lines);
    let first = steps.first()?;
    let one = steps.iter().skip(1).position(|s| s.depth <= first.depth);
    let steps = &steps[..one.map_or(steps.len(), |at| at + 1)];
    let at = steps.iter().position(Step::is_join)?;
    let above = &steps[..at];
    let join = &steps[at];
    // From the join upwards each step reads from the next one alone.
    let chain = above.is_sorted_by(|a, b| a.depth < b.depth)
        && above.last().is_none_or(|s| s.depth < join.depth);
    let gathers = above
        .iter()
        .any(|s| GATHER.iter().any(|g| s.name.contains(g)));
    let rows = join.rows + join.removed;
    let left = first.rows;
    let long = join.ms >= PART * first.ms;
    if !chain || gathers || !long || rows < MANY || left > LEFT * rows {
        return None;
    }
    // The lowest step that lets few through.
    let drops = above.iter().rev().find(|s| s.rows <= LEFT * rows);
    let drops = drops.filter(|_| join.rows > LEFT * rows).unwrap_or(join);
    let alike = steps[at..].iter().scan(None, |before, step| {
        let deeper = before.is_none_or(|depth| step.depth > depth);
        *before = Some(step.depth);
        (deeper && step.name == join.name).then_some(())
    });
    let mut found = artefact("rows that a plan drops", join.line);
    for (name, n) in [
        ("in", rows),
        ("out", left),
        ("joins", alike.count() as f64),
        ("join_ms", join.ms),
        ("rows", 1.0),
    ] {
        found.figures.insert(format!("thrown.{name}"), n);
    }
    found.rows.push(Row {
        label: short(drops.name),
        place: join.name.to_owned(),
        share: rows,
    });
    told(found)
}

fn steps<'a>(lines: &[&'a str]) -> Vec<Step<'a>> {
    let mut done: Vec<Step<'_>> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let line = unboxed(line);
        let Some((head, rest)) = line.split_once("(actual time=") else {
            let removed = line.split_once("Rows Removed by Filter:");
            let removed =
                removed.and_then(|(_, n)| n.split_whitespace().next()?.parse::<f64>().ok());
            if let Some((step, n)) = done.last_mut().zip(removed) {
                step.removed += n;
            }
            continue;
        };
        let Some((step, rows)) = executed(head, rest).and_then(|s| s.rows.map(|rows| (s, rows)))
        else {
            continue;
        };
        done.push(Step {
            line: number,
            depth: step.depth,
            name: step.name,
            rows,
            ms: step.ms,
            removed: 0.0,
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(text: &str) -> Option<(String, f64, f64, f64)> {
        let found = read(&text.lines().collect::<Vec<_>>())?;
        let n = |name: &str| found.value(&format!("thrown.{name}")).unwrap_or_default();
        let label = found.rows[0].label.clone();
        Some((label, n("in"), n("out"), n("joins")))
    }

    #[test]
    fn joins_whose_rows_a_filter_drops_are_counted() {
        let text = "-> Limit: 20 row(s)  (cost=9 rows=20) (actual time=900..900 rows=3 loops=1)\n    -> Filter: (t.id is not null)  (cost=9 rows=90) (actual time=900..900 rows=3 loops=1)\n        -> Nested loop left join  (cost=9 rows=90) (actual time=1..880 rows=40000 loops=1)\n            -> Nested loop left join  (cost=9 rows=90) (actual time=1..400 rows=40000 loops=1)\n                -> Table scan on o  (cost=9 rows=90) (actual time=1..90 rows=40000 loops=1)\n";
        let label = "Filter: (t.id is not null)".to_owned();
        assert_eq!(dropped(text), Some((label, 40000.0, 3.0, 2.0)));
        let grouped = text.replace("Filter: (t.id is not null)", "Group aggregate: count(0)");
        assert_eq!(dropped(&grouped), None);
        assert_eq!(dropped(&text.replace("rows=3 ", "rows=39000 ")), None);
    }

    #[test]
    fn a_join_may_filter_itself() {
        let text = " Limit  (cost=1..2 rows=9 width=6) (actual time=90.0..90.1 rows=5 loops=1)\n   ->  Hash Left Join  (cost=1..2 rows=9 width=6) (actual time=1.0..90.0 rows=5 loops=1)\n         Filter: (t.id IS NOT NULL)\n         Rows Removed by Filter: 70000\n         ->  Seq Scan on o  (cost=1..2 rows=9 width=6) (actual time=1.0..9.0 rows=70005 loops=1)\n";
        let label = "Hash Left Join".to_owned();
        assert_eq!(dropped(text), Some((label, 70005.0, 5.0, 1.0)));
    }
}
