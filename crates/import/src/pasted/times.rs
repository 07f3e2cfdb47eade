//! What `time` says of a command: `real 0m7.287s` with `user` and `sys` (bash, sh), or zsh's line with `total`; and the
//! times of the requests of a connection as a person wrote them down.
//!
//! Where the command is a request, its time is that request's. Of several the longest is the case.

use super::events::artefact;
use super::pieces::{seconds, short};
use record::pasted::{Artefact, Row};

/// Lines between `real` and the other two.
const LINES: usize = 4;
/// Programs that make a request.
const REQUESTS: [&str; 5] = ["curl", "wget", "http", "https", "xh"];

/// The longest command of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let found = (0..lines.len()).filter_map(|at| {
        let whole = bash(&lines[at..]).or_else(|| zsh(lines[at]));
        let whole = whole.map(|(real, cpu)| (real, Some(cpu)));
        let (real, cpu) = whole.or_else(|| alone(lines, at))?;
        let mut found = artefact("time", u32::try_from(at + 1).ok()?);
        let request = is_request(lines, at);
        for (name, n) in [
            ("time.real_s", Some(real)),
            ("time.cpu_s", cpu),
            ("time.request", Some(f64::from(u8::from(request)))),
            ("time.requests", asked(lines, at)),
        ] {
            found.figures.extend(n.map(|n| (name.to_owned(), n)));
        }
        Some(found)
    });
    let real = |a: &Artefact| a.value("time.real_s").unwrap_or(0.0);
    let mut found: Vec<Artefact> = found.collect();
    // One that is cut off says less than a whole one beside it.
    let whole = |a: &Artefact| a.value("time.cpu_s").is_some();
    if found.iter().any(whole) {
        found.retain(whole);
    }
    let shortest = found
        .iter()
        .min_by(|a, b| real(a).total_cmp(&real(b)))?
        .clone();
    let mut longest = found
        .into_iter()
        .max_by(|a, b| real(a).total_cmp(&real(b)))?;
    let command = |a: &Artefact| timed(lines, a.line as usize - 1);
    if let (Some(long), Some(short)) = (command(&longest), command(&shortest))
        && real(&longest) >= APART * real(&shortest)
        && let Some((of_long, of_short)) = difference(long, short)
    {
        let by_name = is_address(of_short) && !is_address(of_long);
        for (name, n) in [
            ("timed.rows", 1.0),
            ("timed.other_s", real(&shortest)),
            ("timed.by_name", f64::from(u8::from(by_name))),
        ] {
            longest.figures.insert(name.to_owned(), n);
        }
        longest.rows = [(long, &longest), (short, &shortest)]
            .map(|(command, a)| Row {
                label: self::short(command),
                place: format!("{:.3} s", real(a)),
                share: real(a),
            })
            .to_vec();
    }
    Some(longest)
}

/// Two commands are told beside each other where one takes so many times the other.
const APART: f64 = 2.0;

/// The words in which two commands differ, where that is one.
fn difference<'a>(a: &'a str, b: &'a str) -> Option<(&'a str, &'a str)> {
    let words = |text: &'a str| -> Vec<&'a str> { text.split_whitespace().collect() };
    let (a, b) = (words(a), words(b));
    if a.len() != b.len() {
        return None;
    }
    let mut apart = a.into_iter().zip(b).filter(|(a, b)| a != b);
    let first = apart.next()?;
    apart.next().is_none().then_some(first)
}

/// Whether a word is an address, or has one for its host.
fn is_address(word: &str) -> bool {
    let host = word.split("://").last().unwrap_or(word);
    let host = host.split(['/', ':']).next().unwrap_or(host);
    host.split('.').count() == 4 && host.split('.').all(|p| p.parse::<u8>().is_ok())
}

/// Rows of a list in which requests have numbers.
const FEWEST: usize = 2;

/// `req1 0.4 ms`, `request 2: 41.5ms`, `| req3 | 44.6 ms | 48.8 ms |`: the first request of a connection and those
/// behind it, a person's own list. Of several columns the first is the case.
pub(super) fn numbered(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("times of requests", 0);
    let mut all: Vec<(u32, f64)> = Vec::new();
    for (line, text) in (1_u32..).zip(lines) {
        let lower = text.to_ascii_lowercase();
        // Of the phases of a request the last is the whole.
        let whole = lower.rsplit_once("total").and_then(|(_, t)| first_time(t));
        let Some(took) = whole.or_else(|| first_time(&lower)) else {
            continue;
        };
        if let Some(number) = number_of(&lower) {
            if all.is_empty() {
                found.begin_at(line);
            }
            all.push((number, took * 1e3));
            found
                .rows
                .push(Row::new(short(text.trim().trim_matches('|')), took));
        } else if lower.contains("fresh connection") || lower.contains("new connection") {
            found.figures.insert("numbered.fresh_ms".into(), took * 1e3);
        }
    }
    // They are the requests of one connection when they are counted from one on.
    let counted = (1..)
        .zip(&all)
        .all(|(wanted, (number, _))| *number == wanted);
    let [(_, first), later @ ..] = all.as_slice() else {
        return None;
    };
    if !counted || all.len() < FEWEST {
        return None;
    }
    found.figures.insert("numbered.first_ms".into(), *first);
    for (_, ms) in later {
        found.smallest("numbered.later_least_ms", *ms);
        found.largest("numbered.later_most_ms", *ms);
    }
    Some(found)
}

/// The number of a request in a line that begins with one: `req2`, `request 2`, `request #2`.
fn number_of(lower: &str) -> Option<u32> {
    let text = lower.trim_start_matches(['|', ' ', '-', '*', '\t']);
    let rest = text
        .strip_prefix("request")
        .or_else(|| text.strip_prefix("req"))?;
    let rest = rest.trim_start_matches([' ', '#', '_', '-']);
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|n| *n > 0)
}

/// The first time of a line, in seconds: `0.4 ms`, `41.9ms`, `0.3-0.4 ms`.
fn first_time(lower: &str) -> Option<f64> {
    let words: Vec<&str> = lower
        .split(|c: char| c.is_whitespace() || "|=:,;()".contains(c))
        .filter(|w| !w.is_empty())
        .collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let word = word.split('-').next()?;
        let bare = || {
            let n: f64 = word.parse().ok()?;
            let unit = words.get(at + 1)?;
            let alone = unit.bytes().all(|b| b.is_ascii_alphabetic());
            alone.then_some(())?;
            seconds(&format!("{n}{unit}"))
        };
        seconds(word).or_else(bare)
    })
}

/// The command that was timed: the last one with `time` at or above a line.
fn timed<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    lines[..=at].iter().rev().find_map(|line| {
        let (before, timed) = line.split_once("time ")?;
        // A prompt stands before it, or nothing.
        let begins = before.is_empty() || before.ends_with([' ', '$', '#', '(', '/', '%']);
        begins.then_some(timed)
    })
}

/// `real 0m0.045s` right below the command that was timed, where the rest is cut off.
fn alone(lines: &[&str], at: usize) -> Option<(f64, Option<f64>)> {
    let words: Vec<&str> = lines[at].split_whitespace().collect();
    let ["real", took] = words.as_slice() else {
        return None;
    };
    let near = &lines[at.saturating_sub(LINES)..=at];
    timed(near, near.len() - 1)?;
    Some((clock(took)?, None))
}

/// How many addresses the command that was timed asks one after the other.
fn asked(lines: &[&str], at: usize) -> Option<f64> {
    let timed = timed(lines, at).filter(|t| t.contains("curl "))?;
    let addresses = timed.split_whitespace();
    let addresses = addresses.map(|w| w.trim_matches(['"', '\'']));
    let n = addresses.filter(|w| w.starts_with("http://") || w.starts_with("https://"));
    Some(n.count() as f64).filter(|n| *n >= 1.0)
}

/// Whether the command that was timed is a request.
fn is_request(lines: &[&str], at: usize) -> bool {
    let timed = timed(lines, at);
    // zsh repeats the command in its line.
    let timed = timed.unwrap_or(lines[at]);
    let mut words = timed.split(|c: char| c.is_whitespace() || c == '/');
    words.any(|w| REQUESTS.contains(&w))
}

/// `real 0m7.287s`, then `user` and `sys`: all, and the CPU's.
fn bash(lines: &[&str]) -> Option<(f64, f64)> {
    let of = |line: &str, name: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [first, took] if *first == name => clock(took),
            _ => None,
        }
    };
    let real = of(lines.first()?, "real")?;
    let near = &lines[..lines.len().min(LINES)];
    let user = near.iter().find_map(|l| of(l, "user"))?;
    let system = near.iter().find_map(|l| of(l, "sys"))?;
    Some((real, user + system))
}

/// `curl -s URL  0.01s user 0.01s system 0% cpu 7.287 total`.
fn zsh(line: &str) -> Option<(f64, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [.., user, "user", system, "system", _, "cpu", total, "total"] = words.as_slice() else {
        return None;
    };
    Some((clock(total)?, clock(user)? + clock(system)?))
}

/// `0m7.287s`, `7.287s`, `7,287`, `1:02.5` in seconds.
fn clock(text: &str) -> Option<f64> {
    let text = text.trim_end_matches('s').replace(',', ".");
    let mut all = 0.0;
    for part in text.split(['m', 'h', ':']) {
        let part: f64 = part.parse().ok()?;
        all = all * 60.0 + part;
    }
    (text.contains('.') && all >= 0.0).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(f64, f64)>) {
        let found = read(&text.lines().collect::<Vec<_>>());
        let of = |name: &str| found.as_ref()?.value(name);
        assert_eq!(
            of("time.real_s").zip(of("time.request")),
            expected,
            "{text}"
        );
    }

    #[test]
    fn each_shell_has_its_own_form() {
        let bash = "$ time curl -s http://a/ -o /dev/null\n\nreal\t1m7.5s\nuser\t0m0.000s\nsys\t0m0.003s\n";
        check(bash, Some((67.5, 1.0)));
        check(
            "% time curl -s http://a/\ncurl -s http://a/  0.01s user 0.01s system 0% cpu 7.287 total\n",
            Some((7.287, 1.0)),
        );
        check(
            "# time ls /mnt\nreal 0m0.5s\nuser 0m0.0s\nsys 0m0.1s\n",
            Some((0.5, 0.0)),
        );
        check("the real 0.5s\nreal 3.0\n", None);
        // Where the other two are cut off, the command stands right above it.
        check("$ time ls\nreal\t0m0.250s\n", Some((0.25, 0.0)));
        check("real\t0m0.250s\n", None);
    }
}
