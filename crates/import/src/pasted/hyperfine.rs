//! hyperfine: how long a command takes from its start to its end, with how much that varies from run to run.
//!
//! A paste of it often has no names: then what stands above a run names it. The surprise is the deviation, which is of
//! single runs: two commands whose means are further apart than both vary differ, however few the runs were.

use super::events::{artefact, told};
use super::pieces::{apart, seconds, short};
use super::sections::heading;
use record::pasted::{Artefact, Row};

/// One command.
#[derive(Default)]
struct Run {
    name: String,
    written: String,
    mean: f64,
    deviation: f64,
}

/// Whether a line is hyperfine's own with a mean.
pub(super) fn is_mean(line: &str) -> bool {
    line.contains("(mean \u{b1}") || line.contains("(mean +/-")
}

/// The commands of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("hyperfine", 0);
    let mut all: Vec<Run> = Vec::new();
    let mut above = String::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = named(line) {
            above = short(name);
        } else if let Some(run) = run(line) {
            found.begin_at(u32::try_from(at).ok()? + 1);
            let name = match std::mem::take(&mut above) {
                name if name.is_empty() => format!("run {}", all.len() + 1),
                name => name,
            };
            all.push(Run { name, ..run });
        } else if let Some(name) = heading(lines, at) {
            above = short(name);
        }
    }
    all.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let (slow, fast) = (all.first()?, all.last()?);
    let varies = slow.deviation + fast.deviation;
    for (name, n) in [
        ("rows", all.len() as f64),
        ("times", apart(slow.mean, fast.mean)),
        (
            "deviations",
            (slow.mean - fast.mean) / varies.max(f64::MIN_POSITIVE),
        ),
    ] {
        found.figures.insert(format!("hyperfine.{name}"), n);
    }
    found.rows = all
        .into_iter()
        .map(|run| Row {
            label: run.name,
            place: run.written,
            share: run.mean,
        })
        .collect();
    told(found)
}

/// `Benchmark 1: fd -e jpg` and `Benchmark #1: fd -e jpg`.
fn named(line: &str) -> Option<&str> {
    let (n, name) = line.trim().strip_prefix("Benchmark ")?.split_once(": ")?;
    n.trim_start_matches('#').parse::<u32>().ok()?;
    Some(name.trim())
}

/// `Time (mean ± σ):  1.803 s ±  0.108 s  [User: 1.586 s, System: 0.192 s]`; of a single run there is no deviation.
fn run(line: &str) -> Option<Run> {
    let single = line.contains("Time (abs \u{2261})");
    let (_, rest) = line
        .split_once("):")
        .filter(|_| single || is_mean(line) && line.trim_start().starts_with("Time"))?;
    let (times, processor) = rest.split_once('[').unwrap_or((rest, ""));
    let words: Vec<&str> = times.split_whitespace().collect();
    let time = |at: usize| seconds(&format!("{}{}", words.get(at)?, words.get(at + 1)?));
    let mean = time(0)?;
    let of = |name: &str| {
        let (_, rest) = processor.split_once(name)?;
        let mut words = rest.split_whitespace();
        let (n, unit) = (words.next()?, words.next()?);
        seconds(&format!("{n}{}", unit.trim_end_matches([',', ']'])))
    };
    let computes = of("User:").zip(of("System:"));
    let computes = computes.map(|(user, system)| {
        let share = (user + system) / mean.max(f64::MIN_POSITIVE) * 100.0;
        format!(", with {share:.0} % of that in CPU time")
    });
    Some(Run {
        written: short(&format!(
            "{}{}",
            words.join(" "),
            computes.unwrap_or_default()
        )),
        mean,
        deviation: time(3).unwrap_or(0.0),
        ..Run::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    #[test]
    fn commands_are_told_by_name_or_by_what_stands_above_them() {
        let text = "Benchmark 1: ./a --fast\n  Time (mean \u{b1} \u{3c3}):      40.0 ms \u{b1}   2.0 ms    [User: 10.0 ms, System: 10.0 ms]\n  Range (min \u{2026} max):    38.0 ms \u{2026}  44.0 ms    60 runs\n\nWith the cache:\n\n  Time (mean \u{b1} \u{3c3}):     120.0 ms \u{b1}  18.0 ms    [User: 110.0 ms, System: 4.0 ms]\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(
            written(&found),
            [
                "With the cache: 120.0 ms \u{b1} 18.0 ms, with 95 % of that in CPU time",
                "./a --fast: 40.0 ms \u{b1} 2.0 ms, with 50 % of that in CPU time"
            ]
        );
        let deviations = found.value("hyperfine.deviations").unwrap();
        assert!((deviations - 4.0).abs() < 1e-9, "{deviations}");
        assert!(read(&["Time: 40 ms", "mean \u{b1} 3"]).is_none());
    }
}
