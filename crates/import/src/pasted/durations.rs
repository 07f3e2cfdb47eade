//! Times that a text names, a line each, for a text in which nothing else was found: lines of any logger
//! (`Task sync succeeded in 312.4s`), and lists of parts with their times (`Waiting 5.02 s`).
//!
//! A list is known by its form: few words, then a number with its unit of time, in two lines or more. Prose has
//! longer lines.

use super::events::{artefact, told};
use super::messages::stamped;
use super::pieces::{pieces, seconds, short, time_at, value};
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Words of a line of a list before its time.
const WORDS: usize = 6;
/// A time that a log's line is printed for, in seconds.
pub(super) const LONG_S: f64 = 1.0;
/// A longer line is data.
const LINE: usize = 600;
/// Words before a number that is a time in seconds in a logger that names no unit.
const SECONDS: [&str; 3] = ["elapsed", "request_time", "upstream_response_time"];

/// Words of a log that call a number a time.
const NAMED: [&str; 9] = [
    "took ",
    "spent ",
    "running for",
    "elapsed",
    "Elapsed",
    "duration",
    "request_time",
    "latency",
    "succeeded in",
];

/// The times of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("times", 0);
    let parts = (1_u32..).zip(lines).flat_map(|(number, line)| {
        let mut parts = timings(line);
        parts.extend(of_line(line).filter(|_| parts.is_empty()));
        parts.into_iter().map(move |part| (number, part))
    });
    let parts = listed_by_line(lines, &without_clocks(parts.collect()));
    let parts = without_what_is_well(lines, parts);
    for (number, (took, label)) in parts {
        found.begin_at(number);
        found.add("times.rows", 1.0);
        if lines[number as usize - 1].contains(";dur=") {
            found.add("times.parts", 1.0);
        }
        if NAMED.iter().any(|name| label.contains(name)) {
            found.add("times.named", 1.0);
        }
        found.add("times.sum_s", took);
        found.largest("times.most_s", took);
        found.rows.push(Row {
            label,
            place: written(lines[number as usize - 1], took).unwrap_or_else(|| match took {
                s if s >= 1.0 => format!("{s:.1} s"),
                s if s >= 1e-3 => format!("{:.0} ms", s * 1e3),
                s => format!("{:.0} us", s * 1e6),
            }),
            share: took,
        });
    }
    // Lines with more behind their time are a list where most lines are such.
    let filled = lines.iter().filter(|l| !l.trim().is_empty()).count();
    let loose: Vec<_> = (1_u32..)
        .zip(lines)
        .filter_map(|(n, l)| Some((n, listed(l)?)))
        .collect();
    if found.rows.len() < 2 && loose.len() >= 2 && loose.len() * 2 > filled {
        found.rows.clear();
        found.figures.clear();
        for (number, (took, label)) in loose {
            found.begin_at(number);
            found.add("times.rows", 1.0);
            found.largest("times.most_s", took);
            found.rows.push(Row::new(label, took));
        }
    }
    found.largest_first();
    super::about::add(&mut found, lines);
    // One line alone is told where a log names its time, or where that is long.
    let long = |a: &Artefact| {
        a.value("times.most_s").is_some_and(|s| s >= LONG_S) && stamped(&a.rows[0].label)
    };
    let enough = |a: &Artefact| a.rows.len() >= 2 || a.value("times.named").is_some() || long(a);
    told(found).filter(enough)
}

/// A time as its line has it: rounded, two that are near to each other would be told as one.
fn written(line: &str, took: f64) -> Option<String> {
    let parts = pieces(line);
    let mut times = (0..parts.len()).filter_map(|at| time_at(&parts, at));
    let same = |s: f64| (s - took).abs() <= 1e-9 * took;
    times.find_map(|(s, text, _)| same(s).then_some(text))
}

/// Names of a clock that runs, in small letters.
const CLOCKS: [&str; 6] = ["elapsed", "time", "uptime", "t", "runtime", "since"];
/// A name in so many lines is that of a list.
const FEWEST: usize = 3;

/// A time with its line's number and its name.
type Named = (u32, (f64, String));

/// Times but for those of a clock, which goes on from line to line.
fn without_clocks(parts: Vec<Named>) -> Vec<Named> {
    let runs = |clock: &&&str| {
        let of = parts.iter().map(|(_, named)| named);
        let of = of.filter(|(_, name)| name.eq_ignore_ascii_case(clock));
        let of: Vec<f64> = of.map(|(took, _)| *took).collect();
        let on = of.windows(2).all(|pair| pair[1] >= pair[0]) && of.last() > of.first();
        of.len() >= FEWEST && on
    };
    let clocks: Vec<&str> = CLOCKS.iter().filter(runs).copied().collect();
    let is_clock = |name: &str| clocks.iter().any(|c| name.eq_ignore_ascii_case(c));
    let kept = parts.into_iter().filter(|(_, (_, n))| !is_clock(n));
    kept.collect()
}

/// First words of a line about a run that is as it should be.
const WELL: [&str; 4] = ["healthy", "baseline", "expected", "good"];

/// Times but for those of a run that is called well, where there are others.
fn without_what_is_well(lines: &[&str], parts: Vec<Named>) -> Vec<Named> {
    let well = |(number, _): &Named| {
        let line = lines.get(*number as usize - 1).copied().unwrap_or_default();
        let first = line.split_whitespace().next().unwrap_or_default();
        let first = first.trim_matches(|c: char| !c.is_alphanumeric());
        WELL.iter().any(|w| first.eq_ignore_ascii_case(w))
    };
    match parts.iter().all(well) {
        true => parts,
        false => parts.into_iter().filter(|p| !well(p)).collect(),
    }
}

/// A time whose name stands in line after line is told with its line.
fn listed_by_line(lines: &[&str], parts: &[Named]) -> Vec<Named> {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, (_, name)) in parts {
        *names.entry(name).or_default() += 1;
    }
    let lists = |name: &str| names.get(name).is_some_and(|n| *n >= FEWEST);
    let mut done: Vec<Named> = Vec::new();
    for (number, (took, name)) in parts {
        let line = lines.get(*number as usize - 1).map(|l| l.trim());
        let label = match line.filter(|_| lists(name)) {
            Some(line) => short(line),
            None => name.clone(),
        };
        match done.last_mut() {
            Some((n, (held, l))) if *n == *number && *l == label => *held = held.max(*took),
            _ => done.push((*number, (*took, label))),
        }
    }
    done
}

/// The longest time of a line of a list that has a few words before it and a few behind it, and the line.
fn listed(line: &str) -> Option<(f64, String)> {
    let text = line.trim();
    let parts = pieces(text);
    let named = parts.first()?.text.contains(char::is_alphabetic);
    let sentence = text.ends_with(['.', '?', '!']) || parts.len() > 2 * WORDS;
    let time = |at: usize| {
        let unit = parts.get(at + 1).and_then(|p| unit_of(p.text));
        let apart = || Some(parts[at].text.parse::<f64>().ok()? * unit?);
        seconds(parts[at].text).or_else(apart)
    };
    let times = (0..parts.len()).filter_map(time);
    let took = times.reduce(f64::max).filter(|_| named && !sentence)?;
    Some((took, short(text)))
}

/// `server-timing: db;dur=8123.4, app;dur=412.1`, of a response's head in ms, and parts with their units in any line:
/// `(Views: 810.5ms | ActiveRecord: 3416.9ms)`, `queue=2.3ms db=4.5ms`.
fn timings(line: &str) -> Vec<(f64, String)> {
    let line = line.trim();
    if line.len() >= LINE {
        return Vec::new();
    }
    let timing = |part: &str| {
        let (name, rest) = part.split_once(";dur=")?;
        let n = rest.split(';').next()?.trim();
        let name = name.rsplit([' ', ':']).next()?;
        Some((n.parse::<f64>().ok()? / 1e3, name.to_owned()))
    };
    let of_a_head: Vec<_> = line.split(',').filter_map(timing).collect();
    if !of_a_head.is_empty() {
        return of_a_head;
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || ",|()[]{}".contains(c))
        .flat_map(|w| w.split_inclusive([':', '=']))
        .filter(|w| !w.is_empty())
        .collect();
    let pairs = words.windows(2).filter_map(|pair| {
        let name = pair[0].strip_suffix([':', '='])?.trim_matches('"');
        let took = seconds(pair[1].trim_matches('"'))?;
        let named = name.starts_with(char::is_alphabetic);
        named.then(|| (took, name.to_owned()))
    });
    let pairs: Vec<_> = pairs.collect();
    // One alone is a field of a log, and told with its line.
    match pairs.len() {
        0 | 1 => Vec::new(),
        _ => pairs,
    }
}

/// The longest time of a line, and the line without its stamp or its time.
fn of_line(line: &str) -> Option<(f64, String)> {
    let text = line.trim();
    // A prompt with its command has the times that were asked for.
    let command = ["$ ", "# ", "% ", "\u{276f} "]
        .iter()
        .any(|p| text.starts_with(p));
    if text.is_empty() || text.len() > LINE || command {
        return None;
    }
    let parts = pieces(text);
    let time = |at: usize| {
        let n = parts.get(at)?;
        let unit = parts.get(at + 1).map_or("", |p| p.text);
        let named = || {
            SECONDS
                .contains(&parts.get(at.checked_sub(1)?)?.text)
                .then_some(1.0)
        };
        match unit_of(unit).or_else(named) {
            Some(factor) => Some(value(n.text)? * factor),
            None => seconds(n.text),
        }
    };
    let times = (0..parts.len()).filter_map(|at| Some((at, time(at)?)));
    let (at, took) = times.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    if stamped(text) {
        return Some((took, short(text)));
    }
    // What stands behind the time is its unit alone.
    let unit = parts.get(at + 1).is_some_and(|p| unit_of(p.text).is_some());
    let ends = at + 1 + usize::from(unit) == parts.len();
    let named = parts[..at]
        .iter()
        .any(|p| p.text.starts_with(char::is_alphabetic));
    let told = NAMED.iter().any(|name| text.contains(name)) && text.contains(['=', ':']);
    if told {
        return Some((took, short(text)));
    }
    (ends && named && at <= WORDS).then(|| {
        let words: Vec<&str> = parts[..at].iter().map(|p| p.text).collect();
        (took, short(&words.join(" ")))
    })
}

fn unit_of(word: &str) -> Option<f64> {
    Some(match word {
        "s" | "sec" | "secs" | "seconds" => 1.0,
        "ms" | "msec" | "msecs" | "milliseconds" => 1e-3,
        "us" | "\u{b5}s" | "usec" => 1e-6,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_it_is_written() {
        let found = read(&["Page: 3379ms Template: 3124.5ms", "db: 3381ms"]).unwrap();
        let times: Vec<&str> = found.rows.iter().map(|r| r.place.as_str()).collect();
        assert_eq!(times[0], "3381ms");
        assert!(times.contains(&"3379ms"), "{times:?}");
    }
}
