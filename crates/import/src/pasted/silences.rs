//! Where a log is silent: the longest time between two of its lines, for a text in which nothing else was found.
//!
//! Own debug logs have words that no reader knows, and stamps that all know. The surprise is the line behind the
//! silence: it says what was done by then, and so what was waited for stands between the two.

use super::events::artefact;
use super::pieces::short;
use record::pasted::{Artefact, Row};
use std::collections::BTreeMap;

/// Fewer stamped lines are no log, but where the silence is long.
const FEWEST: usize = 4;
/// A silence that is told between two lines alone, in seconds.
const LONG_S: f64 = 1.0;
/// A shorter silence is none, in seconds.
const LEAST_S: f64 = 0.1;
/// The silence is that much of the log's whole time at least.
const PART: f64 = 0.4;
/// A longer one is between two events that have nothing to do with each other.
const MOST_S: f64 = 600.0;
/// Steps of one and the same message that differ by less are even.
const EVEN: f64 = 1.5;
/// A day in seconds, for logs that pass midnight.
const DAY_S: f64 = 86_400.0;

/// The longest silence of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let stamped: Vec<(u32, f64, &str)> = (1_u32..)
        .zip(lines)
        .filter_map(|(number, line)| Some((number, stamp(line)?, *line)))
        .collect();
    let gap = |a: f64, b: f64| if b < a { b + DAY_S - a } else { b - a };
    let gaps: Vec<f64> = stamped
        .windows(2)
        .map(|pair| gap(pair[0].1, pair[1].1))
        .collect();
    let all: f64 = gaps.iter().sum();
    let (at, longest) = gaps
        .iter()
        .copied()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    // Lines of several clocks are in no order.
    let enough = stamped.len() >= FEWEST || longest >= LONG_S;
    // What comes again and again at even steps is waited for by nobody.
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let texts: Vec<String> = stamped.iter().map(|(.., line)| unnumbered(line)).collect();
    let repeats =
        texts.len() > 2 && texts.iter().all(|t| *t == texts[0]) && longest <= EVEN * median;
    let told =
        enough && !repeats && longest >= LEAST_S && longest >= PART * all && longest <= MOST_S;
    told.then(|| {
        let mut found = artefact("silence of a log", stamped[at].0);
        let figures = [
            ("longest_s", longest),
            ("all_s", all),
            ("lines", stamped.len() as f64),
        ];
        for (name, n) in figures {
            found.figures.insert(format!("silence.{name}"), n);
        }
        if let Some(limit) = time_limit(longest) {
            found.figures.insert("silence.limit_s".into(), limit);
        }
        let sides = [stamped[at].2, stamped[at + 1].2];
        found.rows = (["behind", "before"].iter().zip(sides))
            .map(|(place, line)| Row {
                label: short(line),
                place: (*place).to_owned(),
                share: longest,
            })
            .collect();
        found
    })
}

/// Lines of one kind that come at one distance, and the share of all distances that are that one.
const BEATS: usize = 4;
const MOSTLY: f64 = 0.5;
/// By how much distances of one timer differ, and the shortest that is told, in seconds.
const JITTER: f64 = 0.03;
const SHORTEST_S: f64 = 0.2;

/// The same line again and again at one distance: a timer, or a wait that ends with its time limit. A line of another
/// kind between two of them is told with how long it was until the next.
pub(super) fn beats(lines: &[&str]) -> Option<Artefact> {
    let stamped = (1_u32..).zip(lines);
    let stamped =
        stamped.filter_map(|(number, line)| Some((number, stamp(line)?, *line, unnumbered(line))));
    let stamped: Vec<_> = stamped.collect();
    let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, (.., kind)) in stamped.iter().enumerate() {
        kinds.entry(kind).or_default().push(at);
    }
    let (kind, of_kind) = kinds.into_iter().max_by_key(|(_, places)| places.len())?;
    let gaps = of_kind
        .windows(2)
        .map(|pair| stamped[pair[1]].1 - stamped[pair[0]].1);
    let gaps: Vec<f64> = gaps.collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let every = *sorted.get(sorted.len() / 2).filter(|s| **s >= SHORTEST_S)?;
    let even = gaps
        .iter()
        .filter(|gap| (**gap - every).abs() <= JITTER * every)
        .count();
    if even + 1 < BEATS || (even as f64) < MOSTLY * gaps.len() as f64 {
        return None;
    }
    let (line, _, text, _) = &stamped[of_kind[0]];
    let mut found = artefact("lines at one distance", *line);
    found.rows.push(Row::new(short(text), every));
    for (name, n) in [
        ("rows", 1.0),
        ("every_s", every),
        ("times", even as f64 + 1.0),
    ] {
        found.figures.insert(format!("beats.{name}"), n);
    }
    let other = (of_kind[0]..stamped.len()).find(|at| stamped[*at].3 != kind);
    let between = other.and_then(|at| {
        let next = of_kind.iter().find(|next| **next > at)?;
        let waited = stamped[*next].1 - stamped[at].1;
        (waited > 0.0).then_some((at, waited))
    });
    if let Some((at, waited)) = between {
        found.figures.insert("beats.waited_s".into(), waited);
        found.rows.push(Row::new(short(stamped[at].2), waited));
    }
    Some(found)
}

/// Seconds to which time limits are set, and by how much a wait that ends with one is longer.
const LIMITS: [f64; 12] = [
    5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 90.0, 100.0, 120.0, 180.0, 300.0,
];
const LONGER: f64 = 1.04;

/// The time limit with which a wait of so many seconds ended, where it looks so.
fn time_limit(s: f64) -> Option<f64> {
    LIMITS.into_iter().find(|l| (*l..=l * LONGER).contains(&s))
}

/// A line without its digits.
fn unnumbered(line: &str) -> String {
    line.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Words before which a stamp stands.
const WORDS: usize = 3;

/// Seconds of a day, or since some start: `10:00:05.140`, `2024-01-01T10:00:05,140Z`, `[12345.678901]`, `0:219`.
fn stamp(line: &str) -> Option<f64> {
    // Chrome's net log: `t=14969 [st=6655]`, in milliseconds.
    if let Some((ms, _)) = line
        .trim_start()
        .strip_prefix("t=")
        .and_then(|l| l.split_once('['))
        && let Ok(ms) = ms.trim().parse::<f64>()
    {
        return Some(ms / 1e3);
    }
    let marks = ['[', ']', ',', '(', ')', '+', 's'];
    let mut words = line.split_whitespace().take(WORDS);
    words.find_map(|word| {
        let word = word.trim_matches(marks);
        // `10:00:05.140|DEBUG|...`
        let word = word.split('|').next().unwrap_or(word);
        let clock = word.rsplit(['T', '_']).next().unwrap_or(word);
        let clock = clock.trim_end_matches('Z').replace(',', ".");
        let clock = clock.split('+').next().unwrap_or_default();
        of_clock(clock).or_else(|| of_seconds(word))
    })
}

/// Digits behind the point of a stamp in seconds; a table's numbers have fewer.
const DIGITS: usize = 6;
/// Seconds since 1970 are more than this.
const EPOCH_S: f64 = 1e9;

/// `10:00:05.140` and `10:00:05:140`; `0:219` has seconds and their thousandths.
fn of_clock(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    let digits = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    let n = |w: &str| w.parse::<f64>().ok();
    let two = |w: &&str| w.len() == 2 && digits(w);
    match parts.as_slice() {
        [seconds, thousandths]
            if digits(seconds) && digits(thousandths) && thousandths.len() == 3 =>
        {
            Some(n(seconds)? + n(thousandths)? / 1e3)
        }
        [hours, minutes, seconds, rest @ ..] if two(hours) && two(minutes) => {
            let parts = match rest {
                [] => 0.0,
                [thousandths] if digits(thousandths) => n(thousandths)? / 1e3,
                _ => return None,
            };
            let bare = seconds.split('.').next().unwrap_or_default();
            two(&bare).then_some(())?;
            Some(n(hours)? * 3_600.0 + n(minutes)? * 60.0 + n(seconds)? + parts)
        }
        _ => None,
    }
}

/// `12345.678901`, and `1700000000.123` since 1970.
fn of_seconds(text: &str) -> Option<f64> {
    let (whole, parts) = text.split_once('.')?;
    let digits = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    let seconds: f64 = text
        .parse()
        .ok()
        .filter(|_| digits(whole) && digits(parts))?;
    (parts.len() >= DIGITS || seconds >= EPOCH_S).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silence_has_its_two_lines() {
        let text = "10:00:00.123 a\n10:00:00.130 b\n10:00:05.140 c\n10:00:05.145 d\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert!((found.value("silence.longest_s").unwrap() - 5.01).abs() < 1e-9);
        assert!(found.rows[1].label.ends_with('c'));
        // Even steps are no silence, and numbers without a stamp are no log.
        let even: String = (0..9).map(|i| format!("10:00:0{i}.000 a\n")).collect();
        assert!(read(&even.lines().collect::<Vec<_>>()).is_none());
        assert!(read(&["1.5 a", "2.5 b", "9.5 c", "10.5 d"]).is_none());
    }

    #[test]
    fn lines_at_one_distance_are_a_timer() {
        let text = "10:00:00.000 poll: 0 events\n10:00:00.500 poll: 0 events\n10:00:01.001 poll: 0 events\n10:00:01.100 queued\n10:00:01.502 poll: 1 events\n10:00:02.002 poll: 0 events\n";
        let found = beats(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("beats.times"), Some(5.0));
        let of = |name: &str| (found.value(name).unwrap() * 1e3).round();
        assert_eq!([of("beats.every_s"), of("beats.waited_s")], [501.0, 402.0]);
        let uneven = text.replace("01.001", "00.900").replace("01.502", "01.120");
        assert!(beats(&uneven.lines().collect::<Vec<_>>()).is_none());
    }

    #[test]
    fn stamps_come_in_several_forms() {
        let s = |line: &str| stamp(line).map(|s| (s * 1e3).round());
        assert_eq!(s("  0:219 [tid:1] select"), Some(219.0));
        assert_eq!(s("2024-01-01T00:00:05,140Z INFO"), Some(5_140.0));
        assert_eq!(s("[   12.345678] eth0: up"), Some(12_346.0));
        assert_eq!(s("2024-01-01 00:01:05.5 x"), Some(65_500.0));
        assert_eq!(s("total 12:30 lunch"), None);
    }
}
