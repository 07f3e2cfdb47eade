//! Runs of dd, each with its command: what was copied, how fast, and whether every block had to reach the disk.
//!
//! `oflag=sync` and `oflag=dsync` wait at every block, `conv=fsync` and `conv=fdatasync` once at the end, `direct` goes
//! past the cache of pages, and without any of them a write is one into memory. The surprise is the time of one block,
//! which a rate hides: 8 KiB in 10 ms are 783 kB/s, and so long takes every commit of a database on that disk.

use super::events::{artefact, told};
use super::pieces::short;
use crate::text::bytes;
use record::pasted::{Artefact, Row};

/// Runs that are told apart.
const MOST: usize = 50;
/// A longer line is data.
const LINE: usize = 300;

/// One run.
struct Run<'a> {
    line: u32,
    command: Option<&'a str>,
    /// The line that stands above the command.
    heading: &'a str,
    bytes: f64,
    took: f64,
    per_s: f64,
    /// Time and rate as they are printed.
    written: String,
    blocks: Option<f64>,
}

/// The runs of a text, the slowest first.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut runs = runs(lines);
    runs.sort_by(|a, b| a.per_s.total_cmp(&b.per_s));
    let (slowest, fastest) = (runs.first()?, runs.last()?);
    let mut found = artefact("dd", runs.iter().map(|r| r.line).min()?);
    let times = fastest.per_s / slowest.per_s.max(f64::MIN_POSITIVE);
    let alike = slowest.options() == fastest.options() && slowest.command.is_some();
    for (name, n) in [
        ("rows", runs.len() as f64),
        ("s", slowest.took),
        ("times", times),
        (
            "synced",
            f64::from(u8::from(slowest.waits_at_every_block())),
        ),
        ("alike", f64::from(u8::from(alike && runs.len() >= 2))),
    ] {
        found.figures.insert(format!("dd.{name}"), n);
    }
    if let Some(blocks) = slowest.blocks {
        let figures = &mut found.figures;
        figures.insert("dd.block_ms".into(), slowest.took / blocks * 1e3);
        figures.insert("dd.block_bytes".into(), slowest.bytes / blocks);
    }
    let same = |run: &Run<'_>| runs.iter().filter(|r| r.command == run.command).count() > 1;
    let rows = runs.iter().map(|run| {
        let under = match run.heading {
            heading if same(run) && !heading.is_empty() => format!(", under `{heading}`"),
            _ => String::new(),
        };
        Row {
            label: short(run.command.unwrap_or("dd")),
            place: short(&format!("{}{under}", run.written)),
            share: run.per_s,
        }
    });
    found.rows = rows.collect();
    told(found)
}

fn runs<'a>(lines: &[&'a str]) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    let (mut command, mut heading, mut above) = (None, "", "");
    let mut blocks = None;
    // Lines of progress follow each other, and the last of them counts.
    let mut fresh = true;
    for (number, line) in (1_u32..).zip(lines).filter(|(_, l)| l.len() <= LINE) {
        if let Some(new) = command_of(line) {
            (command, heading, fresh) = (Some(new), above, true);
        } else if let Some(n) = records(line) {
            fresh = true;
            blocks = n.or(blocks);
        } else if let Some((bytes, took, per_s, written)) = copied(line) {
            if !fresh && runs.last().is_some_and(|last| last.bytes <= bytes) {
                runs.pop();
            }
            let run = Run {
                line: number,
                command,
                heading,
                bytes,
                took,
                per_s,
                written,
                blocks: blocks.take().filter(|n| *n > 0.0),
            };
            if runs.len() < MOST {
                runs.push(run);
            }
            fresh = false;
        } else if !line.trim().is_empty() {
            above = line.trim().trim_matches(['#', ':', '*', ' ']);
        }
    }
    runs
}

impl Run<'_> {
    /// The command but for where it reads and writes.
    fn options(&self) -> Vec<&str> {
        let words = self.command.unwrap_or_default().split_whitespace();
        let mut words: Vec<&str> = words
            .filter(|w| !w.starts_with("if=") && !w.starts_with("of="))
            .collect();
        words.sort_unstable();
        words
    }

    fn waits_at_every_block(&self) -> bool {
        let flags = self
            .options()
            .into_iter()
            .filter_map(|w| w.strip_prefix("oflag="));
        let mut flags = flags.flat_map(|of| of.split(','));
        flags.any(|flag| ["sync", "dsync"].contains(&flag))
    }
}

/// The command of a line, from `dd` on to where the next one begins.
fn command_of(line: &str) -> Option<&str> {
    let at = line.match_indices("dd ").map(|(at, _)| at).find(|at| {
        let before = line[..*at].chars().next_back();
        let rest = &line[*at..];
        before.is_none_or(|c| !c.is_alphanumeric() && c != '-')
            && (rest.contains(" if=") || rest.contains(" of="))
    })?;
    let rest = &line[at..];
    let end = rest
        .find([';', '|', '&', '#', '`', ')'])
        .unwrap_or(rest.len());
    Some(rest[..end].trim())
}

/// `131072+0 records out`: how many blocks, of those that went out.
fn records(line: &str) -> Option<Option<f64>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [count, _, way] = words.as_slice() else {
        return None;
    };
    let (whole, part) = count.split_once('+')?;
    let n = whole.parse::<f64>().ok()? + part.parse::<f64>().ok()?;
    Some((*way == "out").then_some(n))
}

/// `1073741824 bytes (1.1 GB) copied, 6.6794 s, 161 MB/s`, in any language, and BSD's `9 bytes transferred in 6.7 secs
/// (1 bytes/sec)`: bytes, seconds, bytes a second, and the last two as they are printed.
fn copied(line: &str) -> Option<(f64, f64, f64, String)> {
    let line = line.trim().trim_end_matches("^C");
    // A decimal comma, and never one between thousands.
    let n = |text: &str| text.replace(',', ".").parse::<f64>().ok();
    let all = line.split_whitespace().next()?;
    let all = all.parse::<u64>().ok()? as f64;
    if let Some((_, rest)) = line.split_once(" transferred in ") {
        let (took, per_s) = rest.split_once(" secs (")?;
        let per_s = per_s.trim_end_matches(')');
        let rate = n(per_s.strip_suffix(" bytes/sec")?)?;
        return Some((all, n(took)?, rate, format!("{took} s, {per_s}")));
    }
    let mut parts = line.rsplit(", ");
    let (per_s, took) = (parts.next()?, parts.next()?);
    let (rate, unit) = per_s.split_once(' ')?;
    let unit = bytes(&format!(
        "1{}",
        unit.strip_suffix("/s")?.to_ascii_uppercase()
    ))?;
    let (seconds, word) = took.split_once(' ')?;
    let word = word.trim_end_matches('.');
    let known = line.contains('(') && word.starts_with('s');
    let (rate, took_s) = (n(rate)? * unit.value, n(seconds)?);
    // The printed rate is rounded.
    let rate = if took_s > 0.0 { all / took_s } else { rate };
    known.then_some((all, took_s, rate, format!("{took}, {per_s}")))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    fn rows(text: &str) -> (Artefact, Vec<String>) {
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let rows = written(&found);
        (found, rows)
    }

    #[test]
    fn the_slowest_run_is_told_first_with_its_flags_and_the_time_of_a_block() {
        let text = "$ dd if=/dev/zero of=t bs=8k count=100; rm t\n100+0 records in\n100+0 records out\n819200 bytes (819 kB) copied, 0.001 s, 819 MB/s\n$ dd if=/dev/zero of=t bs=8k count=100 oflag=dsync\n100+0 records in\n100+0 records out\n819200 bytes (819 kB) copied, 0.5 s, 1,6 MB/s\n";
        let (found, rows) = rows(text);
        assert_eq!(
            rows,
            [
                "dd if=/dev/zero of=t bs=8k count=100 oflag=dsync: 0.5 s, 1,6 MB/s",
                "dd if=/dev/zero of=t bs=8k count=100: 0.001 s, 819 MB/s"
            ]
        );
        assert_eq!(found.value("dd.synced"), Some(1.0));
        assert_eq!(found.value("dd.block_ms"), Some(5.0));
        assert_eq!(found.value("dd.block_bytes"), Some(8192.0));
        assert_eq!(found.value("dd.alike"), Some(0.0));
    }

    #[test]
    fn the_same_command_at_two_places_has_their_headings() {
        let one = |of: &str, s: &str, rate: &str| {
            format!(
                "{of}:\ndd if=/dev/zero of=./t bs=1M count=9\n9+0 records out\n9437184 bytes (9.4 MB, 9.0 MiB) copied, {s} s, {rate}\n"
            )
        };
        let text = one("On the disk", "0.1", "94.4 MB/s") + &one("In the mount", "2", "4.7 MB/s");
        let (found, rows) = rows(&text);
        assert!(
            rows[0].ends_with(": 2 s, 4.7 MB/s, under `In the mount`"),
            "{rows:?}"
        );
        assert_eq!(found.value("dd.alike"), Some(1.0));
        assert_eq!(found.value("dd.times").map(f64::round), Some(20.0));
    }

    #[test]
    fn of_lines_of_progress_the_last_counts_and_other_systems_have_other_words() {
        let text = "507510784 bytes (508 MB, 484 MiB) copied, 186 s, 2,7 MB/s^C\n511705088 bytes (512 MB, 488 MiB) copied, 232,651 s, 2,2 MB/s\n";
        assert_eq!(rows(text).1, ["dd: 232,651 s, 2,2 MB/s"]);
        let bsd = "1024 bytes transferred in 0.5 secs (2048 bytes/sec)\n";
        assert_eq!(rows(bsd).1, ["dd: 0.5 s, 2048 bytes/sec"]);
        let german = "1024 Bytes (1,0 kB) kopiert, 0,5 s, 2,0 kB/s\n";
        assert_eq!(rows(german).0.value("dd.s"), Some(0.5));
        for other in ["12 rows, 3 s, 4 MB/s", "copied, 3 s, 4 MB/s"] {
            assert!(read(&[other]).is_none(), "{other}");
        }
    }
}
