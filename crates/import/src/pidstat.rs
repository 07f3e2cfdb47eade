//! pidstat: tables with a line of column names.

use crate::text::number;
use record::pasted::Table;

/// All blocks of pidstat with CPU columns; words in front of the columns (time, UID, PID) are not kept.
pub(crate) fn pidstats(lines: &[&str]) -> Vec<Table> {
    let mut found: Vec<Table> = Vec::new();
    let mut first_column = None;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"%usr") && words.contains(&"%system") {
            let from = words.iter().position(|w| *w == "%usr").unwrap_or(0);
            let to = words.iter().position(|w| *w == "%CPU").unwrap_or(from);
            first_column = Some((from, words.len()));
            found.push(table(&words[from..=to.max(from)]));
        } else if let (Some((from, length)), Some(table)) = (first_column, found.last_mut()) {
            let row: Option<Vec<f64>> = words
                .iter()
                .skip(from)
                .take(table.columns.len())
                .map(|w| number(w).map(|n| n.value))
                .collect();
            match row {
                Some(row) if words.len() == length && row.len() == table.columns.len() => {
                    table.rows.push(row);
                }
                _ => first_column = None,
            }
        }
    }
    found.retain(|table| !table.rows.is_empty());
    found
}

fn table(columns: &[&str]) -> Table {
    Table {
        columns: columns.iter().map(|c| (*c).to_owned()).collect(),
        rows: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmstat_without_its_first_row() {
        let text = "procs -----------memory----------\n r  b   swpd   free   in   cs us sy id wa st\n 1 0 6200 422776 2 3 1 3 96 0 0\n 5 0 6200 380732 33561 2501 10 50 40 0 0\n 9 0 6200 349612 59441 1660 16 82 2 0 0\n```\n9 0 1 1 1 1 1 1 1 1 1\n";
        let found: Vec<Table> = crate::host::vmstats(&crate::text::words(text))
            .into_iter()
            .map(|(table, _)| table)
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].column("in"), Some(vec![33561.0, 59441.0]));
    }

    #[test]
    fn pidstat_with_a_localised_average() {
        let text = "Durchschn.: UID PID %usr %system %guest %wait %CPU CPU Command\nDurchschn.: 990 4038174 15.52 75.77 0.00 4.92 91.29 - nginx\n\n";
        let found = pidstats(&text.lines().collect::<Vec<_>>());
        assert_eq!(found[0].column("%CPU"), Some(vec![91.29]));
        assert_eq!(found[0].column("%wait"), Some(vec![4.92]));
    }
}
