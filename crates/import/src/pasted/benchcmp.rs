//! Two runs of benchmarks as tools compare them without a test of the difference: Google Benchmark's `compare.py`,
//! `cargo benchcmp`, Go's old `benchcmp`.
//!
//! A row has both times and what they changed by. The surprise is a name with spaces and commas in it, so that a row is
//! read from its end.

use super::events::{artefact, told};
use super::pieces::short;
use crate::text::number;
use record::pasted::{Artefact, Row};

/// In percent: what a benchmark changed by that is told.
const CHANGED: f64 = 5.0;

#[derive(Clone, Copy)]
enum Form {
    /// Changes of both clocks as parts of one, then the old and the new time of each.
    Google,
    /// Old, new, perhaps the difference, then the change in percent.
    Percent,
}

/// The tables of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("benchmarks of two runs", 0);
    let mut form = None;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some(new) = headed(line) {
            form = Some(new);
            continue;
        }
        let row = match form {
            Some(Form::Google) => google(line),
            Some(Form::Percent) => percent(line),
            None => None,
        };
        let Some((name, old, new, change)) = row else {
            continue;
        };
        found.begin_at(number);
        found.add("benchcmp.lines", 1.0);
        if change.abs() >= CHANGED {
            found.rows.push(Row {
                label: short(&name),
                place: format!("{old} -> {new}, {change:+.1} %"),
                share: change.abs(),
            });
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("benchcmp.rows".into(), rows);
    told(found)
}

/// A head that names both times.
fn headed(line: &str) -> Option<Form> {
    let lower = line.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().all(|w| lower.contains(w));
    if has(&["time old", "time new", "cpu old"]) {
        return Some(Form::Google);
    }
    let units = has(&["ns/iter", "diff %"]) || has(&["old ns/op", "new ns/op", "delta"]);
    units.then_some(Form::Percent)
}

/// A row's name, both times as they are written, and the change in percent.
type Compared = (String, String, String, f64);

fn words(line: &str) -> Vec<&str> {
    let apart = |c: char| c.is_whitespace() || c == '|';
    line.split(apart).filter(|w| !w.is_empty()).collect()
}

/// `BM_memcpy/32  +0.0020  -0.1500  36  36  40  34`.
fn google(line: &str) -> Option<Compared> {
    let words = words(line);
    let (name, numbers) = words.split_at(words.len().checked_sub(6)?);
    let [time, cpu, old, new, cpu_old, cpu_new] = numbers else {
        return None;
    };
    let signed = |w: &&&str| w.starts_with(['+', '-']);
    let change = |w: &&str| Some(number(Some(w).filter(signed)?)?.value);
    let (time, cpu) = (change(time)?, change(cpu)?);
    let times = [old, new, cpu_old, cpu_new];
    let right = times.iter().all(|w| number(w).is_some()) && !name.is_empty();
    // Waits count in the time alone, and threads add up in the CPU's.
    let (kind, old, new, by) = match cpu.abs() > time.abs() {
        true => (", CPU", cpu_old, cpu_new, cpu),
        false => ("", old, new, time),
    };
    right.then(|| {
        let name = format!("{}{kind}", name.join(" "));
        (name, (*old).to_owned(), (*new).to_owned(), by * 100.0)
    })
}

/// `pool::spawn  4,651,455 (22 MB/s)  4,140,478 (25 MB/s)  -510,977  -10.99%   x 1.12`, `BenchmarkGet-8  523  68.6
/// -86.88%`.
fn percent(line: &str) -> Option<Compared> {
    let mut plain = line.to_owned();
    while let Some((at, end)) = plain.find('(').zip(plain.find(')')).filter(|(a, e)| a < e) {
        plain.replace_range(at..=end, " ");
    }
    let words = words(&plain);
    let at = words.iter().rposition(|w| w.ends_with('%'))?;
    let change = number(words[at].strip_suffix('%')?)?.value;
    let before = &words[..at];
    let numbers = before.iter().rev().take_while(|w| number(w).is_some());
    let first = before.len() - numbers.count().min(3);
    let (name, times) = before.split_at(first);
    let [old, new, ..] = times else {
        return None;
    };
    (!name.is_empty()).then(|| (name.join(" "), (*old).to_owned(), (*new).to_owned(), change))
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    fn rows(text: &str) -> (Option<f64>, Vec<String>) {
        let found = read(&text.lines().collect::<Vec<_>>());
        let lines = found.as_ref().and_then(|a| a.value("benchcmp.lines"));
        (lines, found.map(|a| written(&a)).unwrap_or_default())
    }

    #[test]
    fn each_tools_rows_are_read_from_their_end() {
        let text = "Comparing old to new\nBenchmark                 Time             CPU      Time Old      Time New       CPU Old       CPU New\n------\nBM_get/8, warm            -0.2000         -0.1900           100            80            99            80\nBM_put                    +0.0100         -0.5000            10            10            40            20\nOVERALL_GEOMEAN           -0.0100         -0.0100             0             0             0             0\n";
        let (lines, found) = rows(text);
        assert_eq!(lines, Some(3.0));
        assert_eq!(
            found,
            [
                "BM_put, CPU: 40 -> 20, -50.0 %",
                "BM_get/8, warm: 100 -> 80, -20.0 %"
            ]
        );
        let text = " name        old.txt ns/iter      new.txt ns/iter    diff ns/iter  diff %  speedup\n a::parse    2,000 (500 MB/s)     3,000 (333 MB/s)   1,000   50.00%   x 0.67\n a::print    900                  910                10       1.11%   x 0.99\n";
        let (lines, found) = rows(text);
        assert_eq!(lines, Some(2.0));
        assert_eq!(found, ["a::parse: 2,000 -> 3,000, +50.0 %"]);
        let text = "benchmark           old ns/op     new ns/op     delta\nBenchmarkGet-8      523           68.6          -86.88%\n";
        assert_eq!(rows(text).1, ["BenchmarkGet-8: 523 -> 68.6, -86.9 %"]);
        assert_eq!(rows("a 12 13 8%\n").0, None);
    }
}
