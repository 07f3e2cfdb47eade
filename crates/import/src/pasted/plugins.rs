//! Performance data of monitoring plug-ins, in the form that Nagios and all after it read:
//! `OK: text | 'busy'=350;0:332;0:346;0;350 'waiting'=347;;;0;350`, each with its warning, its limit, its least and
//! its most.
//!
//! The surprise is what a plug-in adds up: workers that wait for a request are among the busy ones of some.

use super::about;
use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// States of a server's workers, of which a list has several.
const STATES: [&str; 9] = [
    "reading",
    "sending",
    "writing",
    "keepalive",
    "logging",
    "closing",
    "starting",
    "dns_lookup",
    "open",
];
/// Names of workers that wait for work.
const REST: [&str; 3] = ["waiting", "idle", "sleeping"];
/// A longer line is data.
const LINE: usize = 4_000;

/// A measure: its name, its value, its limit, the most that it can be.
struct Measure {
    name: String,
    n: f64,
    limit: Option<f64>,
    most: Option<f64>,
}

/// The measures of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("data of a plug-in", 0);
    let mut all: Vec<Measure> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((_, data)) = line.split_once('|').filter(|_| line.len() <= LINE) else {
            continue;
        };
        let measures: Vec<Measure> = data.split_whitespace().filter_map(measure).collect();
        if !measures.is_empty() {
            found.begin_at(number);
        }
        all.extend(measures);
    }
    let states = all.iter().filter(|m| STATES.contains(&m.name.as_str()));
    let workers = states.count() >= 2;
    let rests = all.iter().filter(|m| REST.contains(&m.name.as_str()));
    let resting: f64 = rests.map(|m| m.n).sum();
    let most = all.iter().map(|m| m.n).fold(0.0, f64::max);
    let share = if workers && most > 0.0 {
        resting / most
    } else {
        0.0
    };
    found.figures.insert("plugin.resting_share".into(), share);
    for measure in all.iter().filter(|m| m.n > 0.0) {
        let beyond = measure.limit.is_some_and(|l| measure.n > l);
        found.add("plugin.beyond", f64::from(u8::from(beyond)));
        let mut place = Vec::new();
        place.extend(measure.limit.map(|l| match beyond {
            true => format!("above its limit of {l}"),
            false => format!("limit {l}"),
        }));
        place.extend(measure.most.map(|m| format!("at most {m}")));
        found.rows.push(Row {
            label: short(&format!("{} {}", measure.name, measure.n)),
            place: place.join(", "),
            share: measure.n + if beyond { 1e12 } else { 0.0 },
        });
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("plugin.rows".into(), rows);
    about::add(&mut found, lines);
    told(found)
}

/// `'name'=value[unit];warning;critical;least;most`, of which two marks at least must be there.
fn measure(word: &str) -> Option<Measure> {
    let (name, data) = word.split_once('=')?;
    let mut parts = data.split(';');
    let n = value(parts.next()?)?;
    let rest: Vec<&str> = parts.collect();
    let range = |part: &&str| {
        part.chars()
            .all(|c| c.is_ascii_digit() || ".:~@-".contains(c))
    };
    if rest.len() < 2 || !rest.iter().all(range) {
        return None;
    }
    // Of `0:332` the end.
    let end = |at: usize| {
        let text: &&str = rest.get(at)?;
        text.rsplit(':').next()?.parse::<f64>().ok()
    };
    let limit = end(0).or_else(|| end(1));
    let name = name.trim_matches(['\'', '"']).to_ascii_lowercase();
    (!name.is_empty()).then(|| Measure {
        name,
        n,
        limit,
        most: end(3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_its_limit_comes_first() {
        let text = "CRITICAL: Slots | 'busy'=350;0:332;0:346;0;350 'waiting'=347;;;0;350 'sending'=3;;;0;350 'reading'=0;;;0;350";
        let found = read(&[text]).unwrap();
        assert_eq!(found.rows[0].label, "busy 350");
        assert_eq!(found.rows[0].place, "above its limit of 332, at most 350");
        assert_eq!(found.rows[1].label, "waiting 347");
        assert!(found.value("plugin.resting_share").unwrap() > 0.9);
        assert!(read(&["a | b=3 c", "SELECT a | b;c"]).is_none());
    }
}
