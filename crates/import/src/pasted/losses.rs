//! What generators of datagrams say of their questions: so many sent, so many answered, so many lost.
//!
//! The surprise is that a loss says as much of the generator as of the server: one that sends without waiting loses
//! what nobody can take so fast, and one beside it that waits loses nothing.

use super::events::artefact;
use super::pieces::{pieces, short, value};
use record::pasted::{Artefact, Row};

/// Names of the three numbers, in small letters.
const NAMES: [(&str, &[&str]); 3] = [
    (
        "sent",
        &["sent", "queries sent", "packets sent", "requests sent"],
    ),
    (
        "answered",
        &[
            "received",
            "completed",
            "queries completed",
            "answered",
            "responses received",
        ],
    ),
    (
        "lost",
        &["lost", "queries lost", "packets lost", "timed out"],
    ),
];
/// Lines that lie between two of the three at most.
const LINES: u32 = 3;

/// A run's numbers.
#[derive(Default)]
struct Run {
    line: u32,
    last: u32,
    of: [Option<f64>; 3],
}

/// The run that lost most, and whether one beside it lost nothing.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut runs: Vec<Run> = Vec::new();
    for (line, text) in (1_u32..).zip(lines) {
        let Some((which, n)) = counted(text) else {
            continue;
        };
        let goes_on = |run: &&mut Run| run.of[which].is_none() && line - run.last <= LINES;
        match runs.last_mut().filter(goes_on) {
            Some(run) => {
                run.of[which] = Some(n);
                run.last = line;
            }
            None => {
                let mut run = Run {
                    line,
                    last: line,
                    ..Run::default()
                };
                run.of[which] = Some(n);
                runs.push(run);
            }
        }
    }
    let whole = runs.iter().filter_map(|run| {
        let [Some(sent), Some(answered), Some(lost)] = run.of else {
            return None;
        };
        // What is still under way at the end is neither.
        let sums = sent > 0.0 && answered + lost <= sent * 1.01 && answered + lost >= sent * 0.9;
        sums.then_some((run.line, sent, answered, lost))
    });
    let whole: Vec<_> = whole.collect();
    let share = |run: &(u32, f64, f64, f64)| run.3 / run.1;
    let (line, sent, answered, lost) =
        *whole.iter().max_by(|a, b| share(a).total_cmp(&share(b)))?;
    let mut found = artefact("questions without an answer", line);
    let other = whole.iter().find(|run| run.3 <= 0.0 && run.0 != line);
    for (name, n) in [
        ("rows", 1.0),
        ("sent", sent),
        ("answered", answered),
        ("lost", lost),
        ("lost_share", lost / sent),
        ("others_sent", other.map_or(0.0, |run| run.1)),
    ] {
        found.figures.insert(format!("lost.{name}"), n);
    }
    found
        .rows
        .push(Row::new(short(lines[line as usize - 1]), lost));
    Some(found).filter(|_| lost > 0.0)
}

/// `Sent....: 10000;`, `Queries completed:    71775 queries (99.9%)`.
fn counted(line: &str) -> Option<(usize, f64)> {
    let (name, rest) = line.split_once(':')?;
    let name = name.trim().trim_end_matches('.').to_ascii_lowercase();
    let which = NAMES
        .iter()
        .position(|(_, names)| names.contains(&name.as_str()))?;
    let first = pieces(rest).into_iter().next()?;
    let whole = first.text.bytes().all(|b| b.is_ascii_digit() || b == b',');
    Some((which, value(first.text).filter(|_| whole)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_its_three_numbers() {
        let text = "Statistics:\n\n  Queries sent:         5000\n  Queries completed:    4000 (80.00%)\n  Queries lost:         1000 (20.00%)\n\nSent: 300\nReceived: 300\nLost: 0\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let of = |name: &str| found.value(&format!("lost.{name}")).unwrap();
        assert_eq!(
            [of("lost"), of("lost_share"), of("others_sent")],
            [1000.0, 0.2, 300.0]
        );
        assert!(read(&["Sent: 30", "Received: 12"]).is_none());
        assert!(read(&["Sent: 30 MB", "Received: 12 MB", "Lost: 7"]).is_none());
    }
}
