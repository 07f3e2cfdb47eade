//! What ab counts as failed and why: `Failed requests: 953`, below it `(Connect: 0, Receive: 0, Length: 953,
//! Exceptions: 0)`.
//!
//! The surprise is `Length`: a body that is not as long as the first one, as any page with a time in it. The line is
//! read wherever it stands, for people leave the rest of ab's output out.

use super::events::{artefact, told};
use super::pieces::value;
use record::pasted::Artefact;

/// The first run that has such a line.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("failures of ab", 0);
    let behind = |line: &str, head: &str| value(line.trim().strip_prefix(head)?.trim());
    for (number, line) in (1_u32..).zip(lines) {
        let run = [
            ("Complete requests:", "lengths.requests"),
            ("Non-2xx responses:", "lengths.no_success"),
            ("Write errors:", "lengths.others"),
        ];
        for (head, name) in run {
            if let Some(n) = behind(line, head) {
                if found.value(name).is_some() {
                    return told(found);
                }
                found.figures.insert(name.to_owned(), n);
            }
        }
        if found.line == 0
            && let Some((length, others)) = kinds(line)
        {
            found.begin_at(number);
            found.figures.insert("lengths.differ".into(), length);
            found.add("lengths.others", others);
        }
    }
    told(found)
}

/// Of the line with the kinds those by length, and all others.
fn kinds(line: &str) -> Option<(f64, f64)> {
    let inner = line.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (mut length, mut others) = (None, 0.0);
    for part in inner.split(',') {
        let (kind, n) = part.split_once(':')?;
        let n = value(n.trim())?;
        match kind.trim() {
            "Length" => length = Some(n),
            "Connect" | "Receive" | "Exceptions" => others += n,
            _ => return None,
        }
    }
    length.map(|n| (n, others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stand_apart_from_what_failed() {
        let text = "...\nComplete requests:  400\nFailed requests:  38\n   (Connect: 0, Receive: 0, Length: 38, Exceptions: 0)\nNon-2xx responses: 3\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("lengths.differ"), Some(38.0));
        assert_eq!(found.value("lengths.others"), Some(0.0));
        assert_eq!(found.value("lengths.no_success"), Some(3.0));
        assert_eq!(
            kinds("(Connect: 2, Length: 5, Exceptions: 1)"),
            Some((5.0, 3.0))
        );
        assert_eq!(kinds("(Count: 2, Length: 5)"), None);
    }
}
