//! The cost of PostgreSQL's plans that were not executed, from which on the statement is compiled before it runs.
//!
//! The surprise is that an estimate decides: a plan without fresh statistics may be held for dear, is compiled for
//! seconds, and then runs for some milliseconds.

use super::events::{artefact, told};
use super::executed::{ABOVE, unboxed};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// The plan's first step, and whether the text ends above what it reads from.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let steps = (1_u32..).zip(lines).filter_map(|(number, line)| {
        let (name, cost) = unboxed(line).split_once("(cost=")?;
        let (_, whole) = cost.split(' ').next()?.split_once("..")?;
        let name = name.trim().trim_start_matches("->").trim();
        (!line.contains("actual time")).then_some((number, name, whole))
    });
    let steps: Vec<(u32, &str, &str)> = steps.collect();
    let ((number, name, whole), (_, last, _)) = (steps.first()?, steps.last()?);
    let mut found = artefact("cost of a plan", *number);
    found
        .figures
        .insert("cost.most".into(), whole.parse().ok()?);
    found.figures.insert("cost.rows".into(), 1.0);
    if ABOVE.iter().any(|above| last.ends_with(above)) {
        found.figures.insert("plan.ends_above".into(), 1.0);
    }
    found.rows.push(Row {
        label: short(name),
        place: format!("cost {whole}"),
        share: 0.0,
    });
    told(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_ends_above_what_it_reads_has_its_cost() {
        let text = "Limit  (cost=1.0..250000.5 rows=9 width=8)\n";
        let found = read(&[text]).unwrap();
        assert_eq!(found.value("cost.most"), Some(250_000.5));
        assert_eq!(found.value("plan.ends_above"), Some(1.0));
        let whole = [text, "  ->  Seq Scan on t  (cost=0.0..9.0 rows=9 width=8)"];
        assert_eq!(read(&whole).unwrap().value("plan.ends_above"), None);
        assert!(
            read(&["Limit  (cost=1..2 rows=9 width=8) (actual time=1..2 rows=9 loops=1)"])
                .is_none()
        );
    }
}
