//! A person's own sum of system calls by descriptor: `fd 15 -> /var/lib/app/events.log   52  (95%)` below a line that
//! names the call.
//!
//! The surprise is that the call stands in a heading or a command, and only the files in the rows.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Calls that wait for the disk.
const SYNCS: [&str; 4] = ["fdatasync", "fsync", "msync", "sync_file_range"];
/// Words before the time that was watched.
const OVER: [&str; 4] = ["over ", "in ", "for ", "within "];

/// Who syncs how often.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("syncs by file", 0);
    let (mut call, mut of_syncs) = ("", false);
    for (number, line) in (1_u32..).zip(lines) {
        let Some((file, n)) = counted(line) else {
            let named = SYNCS.iter().find(|call| line.contains(**call));
            // Rows below a heading of another call are of that.
            of_syncs =
                named.is_some() || of_syncs && !line.contains("write") && !line.contains("read");
            call = named.copied().unwrap_or(call);
            if let Some(s) = named.and_then(|_| watched(line)) {
                found.figures.insert("syncs.s".into(), s);
            }
            continue;
        };
        if of_syncs {
            found.begin_at(number);
            found.rows.push(Row::new(short(file), n));
        }
    }
    found.largest_first();
    let all: f64 = found.rows.iter().map(|r| r.share).sum();
    for row in &mut found.rows {
        let percent = row.share / all * 100.0;
        row.place = format!("{:.0} of {all:.0} by `{call}`, {percent:.0} %", row.share);
    }
    let most = found.rows.first()?.share;
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("all", all),
        ("most", most),
        ("most_share", most / all),
    ] {
        found.figures.insert(format!("syncs.{name}"), n);
    }
    told(found).filter(|_| all > 0.0)
}

/// A file and how often, the number before or behind it: `fd 15 -> PATH  52 (95%)`, `312 fd 7 -> PATH`.
fn counted(line: &str) -> Option<(&str, f64)> {
    let (before, behind) = line.split_once("->")?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let at = words.iter().position(|w| *w == "fd")?;
    words
        .get(at + 1)?
        .trim_end_matches(':')
        .parse::<u32>()
        .ok()?;
    let behind = behind.trim();
    let n = |word: &str| word.parse::<u32>().ok().map(f64::from);
    if let Some(n) = words[..at].first().and_then(|w| n(w)) {
        return Some((behind, n));
    }
    let shared = behind.strip_suffix(')').and_then(|b| b.rsplit_once('('));
    let behind = match shared.filter(|(_, share)| share.ends_with('%') && value(share).is_some()) {
        Some((rest, _)) => rest.trim_end(),
        None => behind,
    };
    let (file, count) = behind.rsplit_once(char::is_whitespace)?;
    Some((file.trim_end(), n(count)?))
}

/// `over 60s`: the seconds that were watched.
fn watched(line: &str) -> Option<f64> {
    OVER.iter().find_map(|word| {
        let (_, rest) = line.split_once(word)?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let unit = rest[end..].trim_start();
        let n: f64 = rest[..end].parse().ok()?;
        unit.starts_with('s').then_some(n).filter(|n| *n > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn the_file_with_most_syncs_stands_first() {
        let text = "fdatasync by file in 30 s:\n  12  fd 9 -> /var/lib/a/db\n 288  fd 7 -> /var/lib/a/queue.log\nwrite by file:\n 900 fd 4 -> /dev/null\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            [
                "/var/lib/a/queue.log: 288 of 300 by `fdatasync`, 96 %",
                "/var/lib/a/db: 12 of 300 by `fdatasync`, 4 %"
            ]
        );
        assert_eq!(found.value("syncs.s"), Some(30.0));
        let behind = read(&["fsync calls: 5", "fd 3 -> /a b (deleted)   4  (80%)"]).unwrap();
        assert_eq!(behind.rows[0].label, "/a b (deleted)");
        assert!(read(&["fd 3 -> /a  4", "fsync later"]).is_none());
    }
}
