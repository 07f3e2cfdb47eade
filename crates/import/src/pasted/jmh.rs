//! JMH's results of one benchmark under several headings, as people paste runs of two variants one after the other.
//!
//! A run in the mode of samples prints a mean and then percentiles, a line each. The surprise is its first line, which
//! has no name where there is one benchmark alone: what tells two of them apart is the heading.

use super::events::{artefact, told};
use super::gobench::names;
use super::pieces::{apart, short, value};
use record::pasted::{Artefact, Row};

/// What JMH calls its modes.
pub(super) const MODES: [&str; 5] = ["thrpt", "avgt", "sample", "ss", "all"];
/// Lines that are told apart.
const MOST: usize = 500;
/// Two variants that are nearer to each other differ by chance.
const DIFFERS: f64 = 1.15;

/// One line.
struct Scored<'a> {
    line: u32,
    heading: &'a str,
    name: String,
    unit: &'a str,
    score: f64,
    written: &'a str,
}

/// What differs between benchmarks of one name under two headings.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut all: Vec<Scored<'_>> = Vec::new();
    let mut heading = "";
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((name, score, written, unit)) = scored(line) {
            if all.len() < MOST {
                all.push(Scored {
                    line: number,
                    heading,
                    name,
                    unit,
                    score,
                    written,
                });
            }
        } else if names(line) {
            heading = line.trim().trim_matches(['#', ':', '*', ' ', '`']);
        }
    }
    let mut found = artefact("JMH under headings", all.first()?.line);
    for (at, one) in all.iter().enumerate() {
        let same =
            |o: &&Scored<'_>| o.name == one.name && o.unit == one.unit && o.heading != one.heading;
        let Some(other) = all[at..].iter().find(same) else {
            continue;
        };
        let times = apart(one.score, other.score);
        if times >= DIFFERS && one.score.min(other.score) > 0.0 {
            let under = |of: &Scored<'_>| {
                let heading = of.heading.replace('`', "'");
                format!("{} {} under `{heading}`", of.written, of.unit)
            };
            found.rows.push(Row {
                label: short(&one.name),
                place: short(&format!("{}, {}", under(one), under(other))),
                share: times,
            });
        }
    }
    // The score of a run stands before its percentiles, and is the case.
    let times = found.rows.first()?.share;
    for (name, n) in [("rows", found.rows.len() as f64), ("times", times)] {
        found.figures.insert(format!("jmh.{name}"), n);
    }
    told(found)
}

/// `Map.get  sample  2431418  5.153 ± 0.159  us/op` and `p0.99  sample  4.736  us/op`: name, score, how it is written,
/// its unit.
fn scored(line: &str) -> Option<(String, f64, &str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mode = words.iter().position(|w| MODES.contains(w))?;
    let unit = *words.last()?;
    let per = unit.ends_with("/op") || unit.starts_with("ops/");
    let error = words.iter().position(|w| ["\u{b1}", "+/-"].contains(w));
    let end = error.unwrap_or(words.len() - 1);
    let written = *words.get(end.checked_sub(1)?)?;
    let score = value(written).filter(|_| per && end > mode + 1)?;
    let name = match mode {
        0 => "the benchmark".to_owned(),
        _ => words[..mode].join(" "),
    };
    Some((name, score, written, unit))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn one_benchmark_under_two_headings_is_compared() {
        let text = "with a pool\n\nBenchmark  Mode  Cnt  Score  Error  Units\n  sample  9000  4.5 \u{b1} 0.1  us/op\n\
            p0.99  sample  9.0  us/op\n\nwithout it\n\nBenchmark  Mode  Cnt  Score  Error  Units\n\
            \u{20} sample  9000  9.0 \u{b1} 0.1  us/op\np0.99  sample  9.1  us/op\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            ["the benchmark: 4.5 us/op under `with a pool`, 9.0 us/op under `without it`"]
        );
        assert_eq!(found.value("jmh.times"), Some(2.0));
        let one = text.replace("without it", "");
        assert!(read(&one.lines().collect::<Vec<_>>()).is_none());
        assert!(read(&["the sample of 9 has 4 ops/s"]).is_none());
    }
}
