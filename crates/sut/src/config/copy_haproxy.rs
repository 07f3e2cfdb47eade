//! A copy of HAProxy's configuration: one file with the lines of all.
//!
//! The surprise: most lines are kept as they are written, quotes and variables included; only those that name what two
//! instances would share are written anew.

use super::copy::{ChangeAction, ConfigChange, Moves, meant, nothing_to_change, refused};
use super::files::Files;
use super::haproxy::{self, Line};
use crate::error::TargetError;
use record::Server;

/// Directives of which there may be several, one for each first argument.
const KEYED: [&str; 8] = [
    "timeout", "option", "no", "server", "stats", "log", "acl", "bind",
];

/// Name and text of the file, and the command line.
pub(crate) fn copied(
    server: &Server,
    changes: &[ConfigChange],
    files: &mut Files,
    moves: &mut Moves,
) -> Result<(&'static str, String, Vec<String>), TargetError> {
    const NAME: &str = "haproxy.cfg";
    let mut lines = haproxy::all_lines(server, files);
    if lines.iter().any(|l| l.name() == "peers") {
        let cause = "it has a `peers` section, whose members a copy would disturb";
        return Err(refused(server, cause, ""));
    }
    for change in changes {
        if !apply(&mut lines, change) {
            return Err(nothing_to_change(server, change));
        }
    }
    move_away(&mut lines, moves);
    let text = lines.iter().map(|l| format!("{}\n", l.text)).collect();
    let mut argv = vec![server.exe.clone(), "-db".to_owned()];
    for flag in ["-n", "-N", "-m", "-C"] {
        let value = super::values_of(&server.command, flag).pop();
        argv.extend(value.map(|v| [flag.to_owned(), v]).into_iter().flatten());
    }
    let file = moves.dir.join(NAME).display().to_string();
    argv.extend(["-f".to_owned(), file]);
    Ok((NAME, text, argv))
}

fn move_away(lines: &mut Vec<Line>, moves: &mut Moves) {
    const SHARED: [&str; 6] = [
        "daemon",
        "master-worker",
        "pidfile",
        "server-state-file",
        "server-state-base",
        "hard-stop-after",
    ];
    let mut section = String::new();
    lines.retain_mut(|line| {
        if line.opens_section() {
            section = line.name().to_owned();
            return true;
        }
        let words: Vec<&str> = line.words.iter().map(String::as_str).collect();
        match (section.as_str(), words.as_slice()) {
            ("global", [name, ..]) if SHARED.contains(name) => false,
            ("global", ["stats", "socket" | "bind-process", ..]) => {
                moves.notes.push(format!("left out: {}", line.text.trim()));
                false
            }
            ("frontend" | "listen", ["bind", address, rest @ ..]) => match bind(address, moves) {
                Some(new) => {
                    let rest: Vec<String> = rest.iter().map(|w| word(w)).collect();
                    *line = written("bind", &[vec![new], rest].concat());
                    true
                }
                None => {
                    moves.notes.push(format!("left out: {}", line.text.trim()));
                    false
                }
            },
            _ => true,
        }
    });
    // The same address may stand for several in the copy.
    let mut taken: Vec<String> = Vec::new();
    lines.retain(|l| {
        let is_new = l.name() != "bind" || l.words.get(1).is_none_or(|a| !taken.contains(a));
        if l.name() == "bind" {
            taken.extend(l.words.get(1).cloned());
        }
        is_new
    });
}

/// The moved address of a `bind`: the first of a list that has a port.
fn bind(address: &str, moves: &mut Moves) -> Option<String> {
    let moved: Vec<String> = address
        .split(',')
        .filter_map(|one| {
            if let Some(path) = one
                .strip_prefix("unix@")
                .or_else(|| one.starts_with('/').then_some(one))
            {
                return Some(moves.path(path));
            }
            let one = ["ipv4@", "ipv6@"]
                .iter()
                .fold(one, |o, p| o.strip_prefix(p).unwrap_or(o));
            let (host, port) = one.rsplit_once(':')?;
            let ip = host.trim_matches(['[', ']']).parse().ok();
            Some(moves.address(ip, port.parse().ok()?)?.to_string())
        })
        .collect();
    let mut unique: Vec<String> = Vec::new();
    for address in moved {
        if !unique.contains(&address) {
            unique.push(address);
        }
    }
    (!unique.is_empty()).then(|| unique.join(","))
}

/// A word in quotes where it needs them.
fn word(text: &str) -> String {
    if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || "\"'\\#".contains(c)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn written(name: &str, args: &[String]) -> Line {
    let words: Vec<String> = std::iter::once(name.to_owned())
        .chain(args.iter().cloned())
        .collect();
    Line {
        text: format!("    {}", words.join(" ")),
        words,
        file: String::new(),
        line: 0,
    }
}

/// Applies it in every section of that name; false when it found no place.
fn apply(lines: &mut Vec<Line>, change: &ConfigChange) -> bool {
    let keyed = KEYED.contains(&change.name.as_str());
    let args: Vec<String> = change.args.iter().map(|a| word(a)).collect();
    let new = written(&change.name, &args);
    let mut touched = false;
    let mut at = 0;
    while at < lines.len() {
        let is_section = lines[at].opens_section() && change.context == [lines[at].label()];
        at += 1;
        if !is_section {
            continue;
        }
        let length = lines[at..]
            .iter()
            .take_while(|l| !l.opens_section())
            .count();
        let section = lines[at..at + length].iter();
        let found = meant(change, section.map(|l| (l.name(), &l.words[1..])), keyed);
        match (change.action, found.first()) {
            (ChangeAction::Add, _) | (ChangeAction::Set, None) => {
                lines.insert(at + length, new.clone())
            }
            (ChangeAction::Remove, Some(_)) => {
                for i in found.into_iter().rev() {
                    lines.remove(at + i);
                }
            }
            (_, Some(i)) => lines[at + *i] = new.clone(),
            (_, None) => continue,
        }
        touched = true;
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_find_their_section_and_subject() {
        let text =
            "defaults\n timeout client 5s\n timeout server 5s\nbackend b\n server s 127.0.0.1:1\n";
        let change = |action, context: &str, name: &str, args: &[&str]| ConfigChange {
            action,
            context: vec![context.to_owned()],
            name: name.to_owned(),
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            from: Vec::new(),
        };
        let mut lines = haproxy::lines(text, "");
        assert!(apply(
            &mut lines,
            &change(ChangeAction::Set, "defaults", "timeout", &["server", "9s"])
        ));
        assert!(apply(
            &mut lines,
            &change(ChangeAction::Add, "backend b", "http-reuse", &["always"])
        ));
        assert!(!apply(
            &mut lines,
            &change(ChangeAction::Replace, "backend b", "balance", &["x"])
        ));
        assert!(!apply(
            &mut lines,
            &change(ChangeAction::Set, "backend c", "balance", &["x"])
        ));
        let got: Vec<&str> = lines.iter().map(|l| l.text.trim()).collect();
        assert_eq!(
            got,
            [
                "defaults",
                "timeout client 5s",
                "timeout server 9s",
                "backend b",
                "server s 127.0.0.1:1",
                "http-reuse always"
            ]
        );
    }
}
