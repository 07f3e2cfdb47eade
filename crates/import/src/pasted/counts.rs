//! How many goroutines, threads, connections or files there are, line by line, for a text in which nothing else was
//! found: a number that grows and does not come back to where it began.
//!
//! The surprise is a word that stands before a number and counts nothing: `thread 12` is its name. Only a plural or a
//! word that begins with num counts.

use super::events::{artefact, told};
use super::pieces::{pieces, short};
use record::pasted::{Artefact, Row};

/// What a program begins and has to end, as a part of a word in small letters.
#[rustfmt::skip]
const KINDS: [&str; 9] = [
    "goroutine", "thread", "connection", "process", "descriptor", "socket", "handle", "fiber", "session",
];
/// Fewer numbers show no course.
const FEWEST: usize = 5;
/// What stays has become so many times what it was at first.
const GROWN: f64 = 1.5;
/// And so many more.
const MORE: f64 = 3.0;
/// A longer line is a sentence or data.
const LINE: usize = 160;

/// The first kind of a text that grows and stays.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    // By word: the line, the number, the whole text.
    let mut all: Vec<(String, Vec<(u32, f64)>)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() <= LINE) {
        if let Some((word, n)) = counted(line) {
            match all.iter_mut().find(|(held, _)| *held == word) {
                Some((_, held)) => held.push((number, n)),
                None => all.push((word, vec![(number, n)])),
            }
        }
    }
    all.into_iter().find_map(|(word, held)| grown(&word, &held))
}

/// What stays in the later half, where it is far above the first.
fn grown(word: &str, held: &[(u32, f64)]) -> Option<Artefact> {
    let ((line, first), (_, last)) = (*held.first()?, *held.last()?);
    let later = held[held.len() / 2..].iter().map(|(_, n)| *n);
    let least = later.reduce(f64::min)?;
    let most = held.iter().map(|(_, n)| *n).fold(first, f64::max);
    let stays = least >= GROWN * first && least >= first + MORE && last >= first + MORE;
    if held.len() < FEWEST || !stays {
        return None;
    }
    let mut found = artefact("counts by time", line);
    for (name, n) in [
        ("rows", 1.0),
        ("count", held.len() as f64),
        ("first", first),
        ("last", last),
        ("most", most),
        ("least_later", least),
    ] {
        found.figures.insert(format!("counts.{name}"), n);
    }
    found.rows.push(Row::new(short(word), last));
    told(found)
}

/// `NumGoroutine: 31`, `open connections=31`, `31 threads`.
fn counted(line: &str) -> Option<(String, f64)> {
    let parts = pieces(line);
    (0..parts.len()).find_map(|at| {
        let word = parts[at].text;
        let lower = word.to_ascii_lowercase();
        let counts =
            lower.ends_with('s') && !lower.ends_with("process") || lower.starts_with("num");
        if !counts || !KINDS.iter().any(|kind| lower.contains(kind)) {
            return None;
        }
        let n = |at: usize| parts.get(at)?.text.parse::<u32>().ok().map(f64::from);
        let n = n(at + 1).or_else(|| n(at.checked_sub(1)?))?;
        Some((word.to_owned(), n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(text: &str) -> Option<[f64; 4]> {
        let found = read(&text.lines().collect::<Vec<_>>())?;
        let of = |name: &str| found.value(&format!("counts.{name}"));
        Some([of("first")?, of("last")?, of("most")?, of("least_later")?])
    }

    #[test]
    fn what_grows_and_stays_is_told() {
        let text = "10:00:00 open connections=4\n10:01:00 open connections=90\n10:02:00 open connections=60\n10:03:00 open connections=62\n10:04:00 open connections=71\n";
        assert_eq!(figures(text), Some([4.0, 71.0, 90.0, 60.0]));
        let before =
            "t=0 10 threads\nt=1 20 threads\nt=2 30 threads\nt=3 40 threads\nt=4 50 threads\n";
        assert_eq!(figures(before), Some([10.0, 50.0, 50.0, 30.0]));
        // What comes back, names by number, too few of them.
        assert_eq!(figures(&text.replace("=71", "=4")), None);
        assert_eq!(figures(&before.replace(" threads", "")), None);
        let names = "thread 1 begins\nthread 20 begins\nthread 30 begins\nthread 40 begins\nthread 50 begins\n";
        assert_eq!(figures(names), None);
        assert_eq!(figures("10 threads\n90 threads\n90 threads\n"), None);
    }
}
