//! What a statement read of each table, as SQL Server says with `SET STATISTICS IO ON`: `Table 'Orders'. Scan count 1,
//! logical reads 4812, ...`.
//!
//! The surprise is `Worktable`, which is no table of anybody: the server wrote rows there for itself and reads them
//! again.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Tables by the pages that were read of them.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("STATISTICS IO", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((table, scans, pages)) = table(line) else {
            continue;
        };
        found.begin_at(number);
        found.add("logical.pages", pages);
        if table == "Worktable" {
            found.add("logical.own_pages", pages);
        }
        let place = format!("{pages:.0} logical reads, {scans:.0} scans");
        match found.rows.iter_mut().find(|r| r.label == table) {
            Some(row) if row.share >= pages => {}
            Some(row) => (row.place, row.share) = (place, pages),
            None => found.rows.push(Row {
                label: short(table),
                place,
                share: pages,
            }),
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("logical.rows".into(), rows);
    told(found).filter(|a| a.value("logical.pages") > Some(0.0))
}

fn table(line: &str) -> Option<(&str, f64, f64)> {
    let (_, rest) = line.split_once("Table '")?;
    let (table, rest) = rest.split_once("'. Scan count ")?;
    let (scans, rest) = rest.split_once(", logical reads ")?;
    Some((
        table,
        value(scans)?,
        value(rest.split([',', '.']).next()?.trim())?,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn tables_are_told_by_the_pages_that_were_read() {
        let text = "Table 'Orders'. Scan count 1, logical reads 48, physical reads 0.\n\
            Table 'Worktable'. Scan count 90, logical reads 4800, physical reads 0.\n(3 rows affected)\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            [
                "Worktable: 4800 logical reads, 90 scans",
                "Orders: 48 logical reads, 1 scans"
            ]
        );
        assert_eq!(found.value("logical.own_pages"), Some(4800.0));
        assert!(
            read(&["Table 'Orders'. Scan count 0, logical reads 0, physical reads 0."]).is_none()
        );
    }
}
