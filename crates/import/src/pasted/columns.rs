//! Counters of the kernel as columns of a table that somebody made: a head with `ListenOverflows`, a row a minute.
//!
//! Each row is a call of `netstat -s`, so that what it grew by is told. The surprise is what a person puts there:
//! dashes for what was not measured, remarks behind a row, a formula behind a name.

use super::events::artefact;
use super::lines::{NETSTAT, counter};
use record::pasted::Artefact;

/// Fewer rows show no growth.
const FEWEST: usize = 2;

/// The rows of all such tables.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let columns = columns(line);
        if columns.is_empty() {
            continue;
        }
        let below = (2_u32..).zip(lines.iter().skip(at + 1));
        let rows = below.filter(|(_, l)| l.contains(|c: char| c.is_ascii_digit()) || l.is_empty());
        let rows = rows.map_while(|(number, row)| {
            let cells = cells(row);
            let mut found = artefact(NETSTAT, u32::try_from(at).unwrap_or(0) + number);
            for (column, name) in &columns {
                let n = cells.get(*column)?.replace(',', "").parse().ok()?;
                found.figures.insert((*name).to_owned(), n);
            }
            Some(found)
        });
        let rows: Vec<Artefact> = rows.collect();
        if rows.len() >= FEWEST {
            done.extend(rows);
        }
    }
    done
}

fn cells(line: &str) -> Vec<&str> {
    let apart = |c: char| c.is_whitespace() || c == '|';
    line.split(apart).filter(|w| !w.is_empty()).collect()
}

/// Where the counters stand in a head; the kernel's own files have their names in a line that begins with a group.
fn columns(line: &str) -> Vec<(usize, &'static str)> {
    let words = cells(line);
    let grouped = words.first().is_none_or(|w| w.ends_with(':'));
    if grouped || words.iter().any(|w| w.parse::<f64>().is_ok()) {
        return Vec::new();
    }
    let name = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_alphanumeric());
        counter(&word[..end.unwrap_or(word.len())])
    };
    let named = words.iter().enumerate();
    named.filter_map(|(at, w)| Some((at, name(w)?))).collect()
}
