//! What the command of a load generator asks for, where it stands above the result: a limit of the rate, and the end of
//! the connection behind each response.
//!
//! Both decide what the result can show, and no result says them. The surprise is hey, whose limit is of one worker.

use super::events::artefact;
use super::pieces::short;
use record::pasted::{Artefact, Row};

/// Programs, and their flags for the rate.
#[rustfmt::skip]
const PROGRAMS: [(&str, &[&str]); 9] = [
    ("hey", &["-q"]), ("oha", &["-q", "--qps"]), ("wrk2", &["-R", "--rate"]), ("wrk", &["-R", "--rate"]),
    ("vegeta", &["-rate", "--rate"]), ("bombardier", &["-r", "--rate"]), ("h2load", &[]), ("ab", &[]),
    ("siege", &[]),
];
/// Flags with which connections are not used again.
const CLOSING: [&str; 4] = [
    "-disable-keepalive",
    "--disable-keepalive",
    "-keepalive=false",
    "--keepalive=false",
];

/// The first command of a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line
            .split_whitespace()
            .map(|w| w.trim_matches(['"', '\'']))
            .collect();
        let known = |(at, word): (usize, &&str)| {
            let bare = word.rsplit('/').next().unwrap_or(word);
            let (name, flags) = PROGRAMS.iter().find(|(program, _)| *program == bare)?;
            Some((at, *name, *flags))
        };
        let found = words.iter().enumerate().find_map(known);
        let Some((at, name, flags)) = found.filter(|(at, ..)| *at <= 4) else {
            continue;
        };
        // A sentence has no flags.
        if !words[at..].iter().any(|w| w.starts_with('-')) {
            continue;
        }
        let mut found = artefact("command of the generator", number);
        found.rows.push(Row::new(
            short(line.trim().trim_start_matches(['$', '#', ' '])),
            1.0,
        ));
        if let Some(rate) = flagged(&words[at..], flags) {
            let workers = match name {
                "hey" => flagged(&words[at..], &["-c"]).unwrap_or(50.0),
                _ => 1.0,
            };
            found
                .figures
                .insert("asked.rate_per_s".into(), rate * workers);
        }
        if closes(line, &words[at..]) {
            found.figures.insert("asked.closes".into(), 1.0);
            let errors = lines
                .iter()
                .find(|l| l.trim().starts_with("Socket errors:"));
            if let Some(errors) = errors {
                found.rows[0].place = short(errors);
            }
        }
        if !found.figures.is_empty() {
            done.push(found);
            break;
        }
    }
    done
}

/// Programs whose `-c` is how many requests they send at a time.
const OF_USERS: [&str; 7] = ["hey", "oha", "wrk", "wrk2", "bombardier", "ab", "siege"];

/// How many requests at a time the commands of a text ask for, where all ask for as many.
pub(super) fn users(lines: &[&str]) -> Option<Artefact> {
    let asked = (1_u32..).zip(lines).filter_map(|(number, line)| {
        let words: Vec<&str> = line.split_whitespace().take(30).collect();
        let program = |w: &&str| OF_USERS.contains(&w.rsplit('/').next().unwrap_or(w));
        let at = words.iter().take(5).position(program)?;
        let flags = ["-c", "--connections", "--concurrent"];
        Some((number, flagged(&words[at + 1..], &flags)?))
    });
    let asked: Vec<(u32, f64)> = asked.collect();
    let (number, first) = asked.first()?;
    let same = |n: f64| (n - first).abs() < 0.5;
    asked.iter().all(|(_, n)| same(*n)).then(|| {
        let mut found = artefact("users of the generator's command", *number);
        found.figures.insert("asked.users".into(), *first);
        found
    })
}

/// The number behind a flag, in the next word or behind an equals sign; a rate may be `50/s`.
fn flagged(words: &[&str], flags: &[&str]) -> Option<f64> {
    let number = |text: &str| {
        text.trim_end_matches("/1s")
            .trim_end_matches("/s")
            .parse::<f64>()
            .ok()
    };
    words
        .iter()
        .enumerate()
        .find_map(|(at, word)| {
            let flag = flags.iter().find(|f| word.starts_with(**f))?;
            match &word[flag.len()..] {
                "" => number(words.get(at + 1)?),
                joined => number(joined.trim_start_matches('=')),
            }
        })
        .filter(|n| *n > 0.0)
}

fn closes(line: &str, words: &[&str]) -> bool {
    let lower = line.to_ascii_lowercase().replace(' ', "");
    lower.contains("connection:close") || words.iter().any(|w| CLOSING.contains(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_where_all_commands_ask_for_as_many() {
        let of = |lines: &[&str]| users(lines).and_then(|a| a.value("asked.users"));
        assert_eq!(of(&["$ hey -n 20 -c 1 http://a/"]), Some(1.0));
        assert_eq!(
            of(&["wrk -t2 -c64 http://a/", "wrk -c64 http://b/"]),
            Some(64.0)
        );
        assert_eq!(of(&["wrk -t2 -c64 http://a/", "wrk -c1 http://b/"]), None);
        assert_eq!(of(&["grep -c 1 access.log", "hey http://a/"]), None);
    }

    #[test]
    fn each_programs_flags_are_its_own() {
        let of = |line: &str, name: &str| read(&[line]).first().and_then(|a| a.value(name));
        let rate = "asked.rate_per_s";
        assert_eq!(of("# oha -q 10 -c 100 http://a/", rate), Some(10.0));
        assert_eq!(of("$ hey -q 10 -c 100 http://a/", rate), Some(1000.0));
        assert_eq!(of("./wrk -t2 -c10 -R2000 http://a/", rate), Some(2000.0));
        assert_eq!(
            of("vegeta attack -rate=50/s -duration=3s", rate),
            Some(50.0)
        );
        assert_eq!(
            of("wrk -H \"Connection: Close\" http://a/", "asked.closes"),
            Some(1.0)
        );
        assert_eq!(
            of("hey -disable-keepalive http://a/", "asked.closes"),
            Some(1.0)
        );
        assert_eq!(
            of("I ran hey and it said Connection: close", "asked.closes"),
            None
        );
    }
}
