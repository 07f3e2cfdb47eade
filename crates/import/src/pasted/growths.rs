//! Times of an own test beside what was varied in it, for a text in which nothing else was found: a size that grows
//! from line to line, or the latency of the way.
//!
//! What grows faster than its size does some of its work once for each of the others. What grows by many times the
//! latency that was added waits for so many round trips. The surprise is that both are told by two lines of a list,
//! where each time alone says nothing.

use super::events::{artefact, told};
use super::pieces::{pieces, seconds, short, time_at, value};
use record::pasted::{Artefact, Row};

/// Lines of one list, by size.
const FEWEST: usize = 3;
/// Sizes grow by that much at least from line to line.
pub(super) const STEP: f64 = 2.0;
/// The power of its size with which a time grows, from which on that is told.
pub(super) const POWER: f64 = 1.5;
/// Round trips in a time, from which on they are told.
const TRIPS: f64 = 3.0;
/// A longer line is data.
const LINE: usize = 200;

/// A line of a list: its words, its size as it is written and as a number, and times with their names.
struct Sized<'a> {
    line: u32,
    kind: String,
    written: &'a str,
    size: f64,
    times: Vec<(String, String, f64)>,
}

/// Times that grow faster than the size before them.
pub(super) fn by_size(lines: &[&str]) -> Option<Artefact> {
    let listed: Vec<Sized<'_>> = (1_u32..)
        .zip(lines)
        .filter_map(|(n, l)| sized(n, l))
        .collect();
    let grows = |a: &Sized<'_>, b: &Sized<'_>| a.kind == b.kind && b.size >= STEP * a.size;
    let mut found = artefact("times by size", 0);
    let mut longest: Vec<(String, f64)> = Vec::new();
    for run in listed.chunk_by(grows).filter(|r| r.len() >= FEWEST) {
        for column in 0..run[0].times.len() {
            let steps = run.windows(2).filter_map(|pair| {
                let (a, b) = (pair[0].times.get(column)?, pair[1].times.get(column)?);
                let at = |sized: &Sized<'_>, time: &(String, String, f64)| Point {
                    size: (sized.written.to_owned(), sized.size),
                    took: (time.1.clone(), time.2),
                };
                let row = grown(&a.0, &at(&pair[0], a), &at(&pair[1], b))?;
                Some((row, pair[0].line, b.2))
            });
            let Some((row, line, took)) = steps.reduce(|a, b| match b.0.share > a.0.share {
                true => b,
                false => a,
            }) else {
                continue;
            };
            found.begin_at(line);
            // Of several runs the one with the longest time.
            match longest.iter().position(|(held, _)| *held == row.label) {
                None => {
                    longest.push((row.label.clone(), took));
                    found.rows.push(row);
                }
                Some(at) if longest[at].1 < took => {
                    longest[at].1 = took;
                    found.rows[at] = row;
                }
                Some(_) => {}
            }
        }
    }
    found.largest_first();
    let steepest = found.rows.first()?.share;
    let rows = found.rows.len() as f64;
    found.figures.insert("bysize.rows".into(), rows);
    found.figures.insert("bysize.power".into(), steepest);
    told(found).filter(|_| steepest >= POWER)
}

/// A size and the time that it took, each as it is written and as a number.
pub(super) struct Point {
    pub(super) size: (String, f64),
    pub(super) took: (String, f64),
}

/// A time at two sizes as a row, with the power of the size with which it grew as its share; `None` where nothing grew.
pub(super) fn grown(name: &str, a: &Point, b: &Point) -> Option<Row> {
    let (larger, longer) = (b.size.1 / a.size.1, b.took.1 / a.took.1);
    let grew = a.size.1 > 0.0 && a.took.1 > 0.0 && larger > 1.0;
    grew.then(|| Row {
        label: name.to_owned(),
        place: format!(
            "{} at {}, {} at {}: {longer:.1} times for {larger:.0} times the size",
            a.took.0, a.size.0, b.took.0, b.size.0
        ),
        share: longer.ln() / larger.ln(),
    })
}

fn sized(line: u32, text: &str) -> Option<Sized<'_>> {
    let text = text.trim();
    if text.len() > LINE {
        return None;
    }
    let parts = pieces(text);
    let (at, size) = parts
        .iter()
        .enumerate()
        .find_map(|(at, p)| Some((at, size_of(p.text)?)))?;
    let mut times = Vec::new();
    let mut name: Vec<&str> = Vec::new();
    let mut kind: Vec<&str> = Vec::new();
    let mut next = at + 1;
    while let Some(part) = parts.get(next) {
        if let Some((s, written, pieces)) = time_at(&parts, next) {
            times.push((short(&name.join(" ")), written, s));
            name.clear();
            next += pieces;
            continue;
        }
        if value(part.text).is_some_and(|_| part.text.bytes().all(|b| b"0123456789.,".contains(&b)))
        {
            return None;
        }
        name.push(part.text);
        kind.push(part.text);
        next += 1;
    }
    Some(Sized {
        line,
        kind: kind.join(" "),
        written: parts[at].text,
        size,
        times,
    })
    .filter(|s| at <= 2 && !s.times.is_empty())
}

/// `10^3`, `1000`, `10_000`, `1,000`, `1e6`.
fn size_of(text: &str) -> Option<f64> {
    if let Some((base, power)) = text.split_once('^') {
        return Some(base.parse::<f64>().ok()?.powf(power.parse().ok()?));
    }
    let plain = text.replace(['_', ','], "");
    let n: f64 = plain.parse().ok()?;
    (n > 0.0 && text.starts_with(|c: char| c.is_ascii_digit())).then_some(n)
}

/// Words of a head over the latency of the way.
const LATENCIES: [&str; 5] = ["latency", "rtt", "delay", "ping", "distance"];

/// Times of several kinds of requests by the latency of the way, and how many round trips each waits for.
pub(super) fn by_latency(lines: &[&str]) -> Option<Artefact> {
    let split = |l: &str| -> Vec<String> { l.split_whitespace().map(str::to_owned).collect() };
    let (at, head) = (0_usize..).zip(lines).find_map(|(at, line)| {
        let lower = split(&line.to_ascii_lowercase());
        let column = lower
            .iter()
            .position(|w| LATENCIES.iter().any(|l| w.contains(l)))?;
        (lower.len() >= 2 && lower.len() <= 6 && !line.contains(|c: char| c.is_ascii_digit()))
            .then_some((at, (column, lower.len())))
    })?;
    let (column, width) = head;
    // The kind of a row, the latency, the time.
    let mut rows: Vec<(String, f64, f64)> = Vec::new();
    for line in &lines[at + 1..] {
        let cells = split(line);
        if cells.len() != width {
            continue;
        }
        let latency = seconds(&cells[column]);
        let others = cells.iter().enumerate().filter(|(i, _)| *i != column);
        let took = others.clone().find_map(|(_, c)| seconds(c));
        let named = others.filter(|(_, c)| seconds(c).is_none());
        let kind: Vec<&str> = named.map(|(_, c)| c.as_str()).collect();
        if let (Some(latency), Some(took)) = (latency, took) {
            rows.push((kind.join(" "), latency, took));
        }
    }
    let mut kinds: Vec<&str> = rows.iter().map(|r| r.0.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut found = artefact("times by latency", u32::try_from(at).ok()? + 1);
    for kind in kinds {
        let of = |level: f64| {
            let mut times: Vec<f64> = rows
                .iter()
                .filter(|r| r.0 == kind && r.1.total_cmp(&level).is_eq())
                .map(|r| r.2)
                .collect();
            times.sort_by(f64::total_cmp);
            times.get(times.len() / 2).copied()
        };
        let levels = rows.iter().filter(|r| r.0 == kind).map(|r| r.1);
        let (Some(least), Some(most)) = (levels.clone().reduce(f64::min), levels.reduce(f64::max))
        else {
            continue;
        };
        let (Some(a), Some(b)) = (of(least), of(most)) else {
            continue;
        };
        if most <= least {
            continue;
        }
        let trips = (b - a) / (most - least);
        found.rows.push(Row {
            label: match kind {
                "" => "all".to_owned(),
                kind => short(kind),
            },
            place: format!(
                "{:.1} ms at {:.0} ms, {:.1} ms at {:.0} ms: {trips:.0} times what was added",
                a * 1e3,
                least * 1e3,
                b * 1e3,
                most * 1e3
            ),
            share: trips,
        });
    }
    found.largest_first();
    let most = found.rows.first()?.share;
    let rows = found.rows.len() as f64;
    found.figures.insert("bylatency.rows".into(), rows);
    found.figures.insert("bylatency.trips".into(), most);
    told(found).filter(|_| most >= TRIPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_grows_faster_than_its_size_is_told() {
        let text = "10^3: with 5 ms, without 5 ms\n10^4: with 50 ms, without 50 ms\n10^5: with 5000 ms, without 500 ms\n";
        let found = by_size(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("bysize.power"), Some(2.0));
        assert_eq!(found.rows[0].label, "with");
        assert!(
            found.rows[0]
                .place
                .starts_with("50 ms at 10^4, 5000 ms at 10^5")
        );
        let straight = "100 took 5ms\n200 took 10ms\n400 took 20ms\n";
        assert!(by_size(&straight.lines().collect::<Vec<_>>()).is_none());
    }

    #[test]
    fn a_time_that_grows_with_the_latency_waits_for_round_trips() {
        let text = "Duration\tLatency\tProto\n\n4ms\t0s\tA\n9ms\t0s\tB\n\n6ms\t1ms\tA\n44ms\t1ms\tB\n41ms\t1ms\tB";
        let found = by_latency(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "B");
        assert_eq!(found.value("bylatency.trips").map(f64::round), Some(35.0));
    }
}
