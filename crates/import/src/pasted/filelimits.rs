//! Two limits of open files in one text: what a process has (`Max open files`) and what a shell says of itself
//! (`ulimit -n`).
//!
//! The surprise is that they need not be the same: a limit is each process' own, from whoever started it, or what the
//! program asked for.

use super::events::artefact;
use record::pasted::{Artefact, Row};

pub(super) const TOOL: &str = "two limits of files";

/// Both limits, where they differ.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut own: Option<(u32, &str)> = None;
    let mut shell: Option<&str> = None;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((_, rest)) = line.split_once("Max open files") {
            let soft = rest.split_whitespace().next();
            own = own.or(soft.map(|n| (number, n)));
        } else if asks(line) {
            shell = shell.or(lines.get(number as usize).map(|l| l.trim()));
        }
    }
    let ((line, own), shell) = own.zip(shell)?;
    let (own_n, shell_n): (u64, u64) = (own.parse().ok()?, shell.parse().ok()?);
    let mut found = artefact(TOOL, line);
    found.figures.insert("filelimits.rows".into(), 2.0);
    for (label, n) in [("Max open files", own), ("ulimit -n", shell)] {
        found.rows.push(Row {
            label: label.to_owned(),
            place: n.to_owned(),
            share: 1.0,
        });
    }
    (own_n != shell_n).then_some(found)
}

/// A command that asks for the limit, and sets none.
fn asks(line: &str) -> bool {
    ["ulimit -n", "ulimit -Sn", "ulimit -S -n"]
        .iter()
        .any(|command| line.trim_end().ends_with(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_a_shell_may_have_two_limits() {
        let text = "$ grep open /proc/7/limits\nMax open files            1024                 4096                 files\n# ulimit -n\n500000\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let places: Vec<&str> = found.rows.iter().map(|r| r.place.as_str()).collect();
        assert_eq!(places, ["1024", "500000"]);
        for other in [
            text.replace("500000", "1024"),
            text.replace("ulimit -n", "ulimit -n 500000"),
            text.replace("500000", "unlimited"),
        ] {
            assert!(
                read(&other.lines().collect::<Vec<_>>()).is_none(),
                "{other}"
            );
        }
    }
}
