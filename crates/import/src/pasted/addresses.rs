//! The addresses that runs of a load generator ask: `Running 10s test @ http://a.example/list` of wrk, `Document Path`
//! of ab.
//!
//! The surprise is what two of them make of a comparison: nothing was changed between the two runs, they ask for
//! different work.

use super::events::{artefact, told};
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// One row for each address, in their order.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("addresses of a load", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let Some(address) = address(line.trim()) else {
            continue;
        };
        found.begin_at(number);
        if found.rows.iter().all(|r| r.label != address) {
            found.rows.push(Row::new(short(address), 1.0));
        }
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("addresses.rows".into(), rows);
    told(found).filter(|_| rows > 1.0)
}

fn address(text: &str) -> Option<&str> {
    let of_wrk = || Some(text.strip_prefix("Running ")?.split_once(" test @ ")?.1);
    let address = text.strip_prefix("Document Path:").or_else(of_wrk)?.trim();
    (!address.is_empty() && !address.contains(char::is_whitespace)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_addresses_are_told_and_one_is_none() {
        let text = "Running 5s test @ http://a.example/x\nRunning 5s test @ http://a.example/y\n";
        let rows = |text: &str| read(&text.lines().collect::<Vec<_>>()).map(|a| a.rows.len());
        assert_eq!(rows(text), Some(2));
        assert_eq!(rows(&text.replace("/y", "/x")), None);
        assert_eq!(rows("Document Path:  /a\nDocument Path:  /b\n"), Some(2));
    }
}
