//! How many descriptors a process has open: counts of /proc/PID/fd and of lsof, and lists of what they lead to.
//!
//! A count alone has no name, so that the command above it gives it one. The surprise is lsof, which lists mapped files
//! and all threads too: its lines are more than the descriptors.

use super::events::{artefact, told};
use record::pasted::{Artefact, Row};

/// All counts of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("descriptors", 0);
    let mut kinds = artefact("descriptors", 0);
    let mut command = Command::None;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some(kind) = linked(line) {
            kinds.begin_at(number);
            kinds.rows.push(Row::new(kind, 1.0));
            continue;
        }
        let text = line.trim();
        if let Some(new) = Command::of(text) {
            command = new;
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let n = |w: &str| w.parse::<u64>().ok().map(|n| n as f64);
        let counted = match (command, words.as_slice()) {
            (Command::Count | Command::Lsof, [count]) => n(count).map(|n| (String::new(), n)),
            (Command::Count, [name @ .., count]) if name.len() == 1 => {
                n(count).map(|n| (name[0].trim_end_matches(':').to_owned(), n))
            }
            (Command::Uniq, [count, name]) => n(count).map(|n| ((*name).to_owned(), n)),
            _ => None,
        };
        let Some((name, n)) = counted else {
            if !text.is_empty() {
                command = Command::None;
            }
            continue;
        };
        found.begin_at(number);
        match command {
            Command::Lsof => found.largest("fds.lsof_lines", n),
            // A kind is no process: their sum is.
            Command::Uniq if name.parse::<u64>().is_err() => {
                kinds.begin_at(number);
                kinds.rows.push(Row::new(kind(&name), n));
            }
            _ => {
                found.largest("fds.count", n);
                if !name.is_empty() {
                    found.rows.push(Row::new(name, n));
                }
            }
        }
    }
    kinds.settle();
    let sum: f64 = kinds.rows.iter().map(|r| r.share).sum();
    if sum > 0.0 {
        let sockets = kinds.rows.iter().filter(|r| r.label == "socket");
        let sockets: f64 = sockets.map(|r| r.share).sum();
        found.begin_at(kinds.line);
        found.figures.insert("fds.listed".into(), sum);
        found.figures.insert("fds.sockets".into(), sockets);
        found.rows = kinds.rows;
    }
    found.largest_first();
    told(found).filter(|a| !a.figures.is_empty())
}

#[derive(Clone, Copy, PartialEq)]
enum Command {
    None,
    /// A number, or a process and a number.
    Count,
    /// A number and what is counted.
    Uniq,
    Lsof,
}

impl Command {
    fn of(line: &str) -> Option<Self> {
        let files = line.contains("/proc/") && (line.contains("/fd") || line.contains("/fdinfo"));
        let counts = line.contains("wc -l");
        match () {
            () if files && line.contains("uniq -c") => Some(Self::Uniq),
            () if files && counts => Some(Self::Count),
            () if line.contains("lsof") && counts => Some(Self::Lsof),
            () => None,
        }
    }
}

/// `socket`, `pipe`, `anon_inode`, or the path.
fn kind(target: &str) -> String {
    let bare = target.split(':').next().unwrap_or(target);
    match ["socket", "pipe", "anon_inode"].contains(&bare) {
        true => bare.to_owned(),
        false => target.to_owned(),
    }
}

/// `lrwx------ 1 root root 64 Nov 20 10:00 10 -> socket:[1234567]` of `ls -l /proc/PID/fd`.
fn linked(line: &str) -> Option<String> {
    let (head, target) = line.split_once(" -> ")?;
    let mode = head.split_whitespace().next()?;
    let is_mode =
        mode.len() >= 10 && mode.starts_with('l') && mode.bytes().all(|b| b"lrwx-.+".contains(&b));
    let number = head.split_whitespace().next_back()?.parse::<u32>().is_ok();
    (is_mode && number).then(|| kind(target.trim()))
}
