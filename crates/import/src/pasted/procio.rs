//! `/proc/PID/io`: what a process read and wrote since its start.
//!
//! The surprise is that a count says little before the text says how long the process has run, or how large its files
//! are: a hundred times their sizes is the same written again.

use super::events::{artefact, told};
use super::pieces::{pieces, value};
use crate::text::bytes;
use record::pasted::Artefact;

/// Names of the kernel, and ours.
const NAMES: [(&str, &str); 3] = [
    ("read_bytes", "procio.read_bytes"),
    ("write_bytes", "procio.write_bytes"),
    ("cancelled_write_bytes", "procio.cancelled_bytes"),
];

/// The counters of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    if !lines.iter().any(|line| line.contains(NAMES[1].0)) {
        return None;
    }
    let mut found = artefact("/proc/PID/io", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let (name, rest) = line.split_once(':').unwrap_or(("", line));
        let known = NAMES.iter().find(|(theirs, _)| *theirs == name.trim());
        let n = pieces(rest).first().and_then(|p| value(p.text));
        if let (Some((_, ours)), Some(n)) = (known, n) {
            found.begin_at(number);
            found.figures.insert((*ours).to_owned(), n);
            continue;
        }
        if line.to_ascii_lowercase().contains("uptime") {
            found
                .figures
                .extend(running(line).map(|s| ("procio.s".to_owned(), s)));
        }
        if let Some(n) = files(line) {
            found.add("procio.files_bytes", n);
        }
    }
    // A generator's or a database's own counters may have one of these names.
    let both = NAMES[..2]
        .iter()
        .all(|(_, ours)| found.value(ours).is_some());
    let written = found.value("procio.write_bytes").filter(|_| both)?;
    found.figures.insert("procio.rows".into(), 1.0);
    if let Some(s) = found.value("procio.s").filter(|s| *s > 0.0) {
        found
            .figures
            .insert("procio.written_per_s".into(), written / s);
    }
    if let Some(n) = found.value("procio.files_bytes").filter(|n| *n > 0.0) {
        found
            .figures
            .insert("procio.times_its_files".into(), written / n);
    }
    told(found)
}

/// `19h 44m uptime`, `uptime: 3d 2h`: seconds.
fn running(line: &str) -> Option<f64> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let part = |word: &str| {
        let end = word.find(|c: char| !c.is_ascii_digit())?;
        let n: f64 = word[..end].parse().ok()?;
        let unit = match &word[end..] {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" | "min" => 60.0,
            "s" => 1.0,
            _ => return None,
        };
        Some(n * unit)
    };
    let all: f64 = words.filter_map(part).sum();
    (all > 0.0).then_some(all)
}

/// The sizes of files with their names: `telemetry.db 66 MB, telemetry.db-wal 4 MB`.
fn files(line: &str) -> Option<f64> {
    let parts = pieces(line);
    let file = |at: usize| {
        let name = parts.get(at)?.text;
        let named = name.contains('.') && name.contains(char::is_alphabetic);
        let (n, unit) = (
            parts.get(at + 1)?.text,
            parts.get(at + 2).map_or("", |p| p.text),
        );
        let size = bytes(n).or_else(|| bytes(&format!("{n}{unit}")));
        size.map(|n| n.value).filter(|_| named)
    };
    let sizes: Vec<f64> = (0..parts.len()).filter_map(file).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_told_by_its_time_and_its_files() {
        let text = "uptime: 1h 40m\nrchar: 5\nread_bytes: 4096\nwrite_bytes: 6291456000\ncancelled_write_bytes: 0\napp.db 20 MB, app.db-wal 10 MB\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("procio.written_per_s"), Some(1_048_576.0));
        assert_eq!(found.value("procio.times_its_files"), Some(200.0));
        assert!(read(&["write_bytes: 12"]).is_none());
    }
}
