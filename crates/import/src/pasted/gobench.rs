//! `go test -bench`: times of functions, of several variants under headings, and with more and more processors.
//!
//! `BenchmarkGet-8` ran on eight processors, and without a number on one. The surprise is what more of them should do:
//! a benchmark that runs in parallel has its time divided by them, so that one that takes longer waits for something
//! that all share.

use super::events::{artefact, told};
use super::messages::longest;
use super::pieces::{apart, short};
use record::pasted::{Artefact, Row};

/// Characters of a heading.
const HEADING: usize = 90;
/// Benchmarks that are told apart.
const MOST: usize = 500;
/// With more processors an operation may take so many times as long by chance.
const SLOWER: f64 = 1.2;
/// An operation of less is none.
const LEAST_NS: f64 = 0.3;
/// Two variants that are nearer to each other differ by chance.
const DIFFERS: f64 = 1.15;

/// One line.
struct Timed<'a> {
    heading: &'a str,
    name: &'a str,
    processors: u32,
    ns: f64,
    written: &'a str,
}

impl Timed<'_> {
    fn label(&self) -> String {
        match self.processors {
            1 => self.name.to_owned(),
            n => format!("{}-{n}", self.name),
        }
    }

    fn under(&self) -> String {
        match self.heading {
            "" => String::new(),
            heading => format!(" under `{}`", heading.replace('`', "'")),
        }
    }
}

/// The benchmarks of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("go test -bench", 0);
    let mut all: Vec<Timed<'_>> = Vec::new();
    let mut logged: Option<(f64, &str)> = None;
    let mut heading = "";
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((name, processors, ns, written)) = timed(line) {
            found.begin_at(number);
            found.largest("gobench.longest_ns", ns);
            if all.len() < MOST {
                all.push(Timed {
                    heading,
                    name,
                    processors,
                    ns,
                    written,
                });
            }
        } else if let Some(text) = of_its_log(line) {
            let longer = longest(text).filter(|s| logged.is_none_or(|(most, _)| *s > most));
            logged = longer.map(|s| (s, text)).or(logged);
        } else if names(line) {
            heading = line.trim().trim_matches(['#', ':', '*', ' ', '(', ')']);
        }
    }
    all.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    let (slower, by_processors) = by_processors(&all);
    let variants = variants(&all);
    found.figures.insert("gobench.slower".into(), slower);
    let times = variants.first().map_or(1.0, |row| row.share);
    found.figures.insert("gobench.times".into(), times);
    let log = logged.map(|(s, text)| Row {
        label: short(text),
        place: "printed by the benchmark itself".into(),
        share: s,
    });
    // What is compared is told before what stands alone.
    let compared: Vec<Row> = match slower >= SLOWER {
        true => by_processors.into_iter().take(1).chain(variants).collect(),
        false => variants.into_iter().chain(by_processors).collect(),
    };
    let few = if log.is_some() { 2 } else { usize::MAX };
    found.rows = compared.into_iter().take(few).chain(log).collect();
    if found.rows.is_empty() {
        found.rows = alone(&all);
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("gobench.rows".into(), rows);
    told(found)
}

/// Benchmarks as they are, each once however often it ran.
fn alone(all: &[Timed<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for one in all {
        let label = one.label();
        if rows.iter().all(|row| row.label != label) {
            rows.push(Row {
                label,
                place: format!("{} ns/op", one.written),
                share: one.ns,
            });
        }
    }
    rows
}

/// `BenchmarkGet-8   30000000   455 ns/op   16 B/op`: name, processors, ns and how they are written.
fn timed(line: &str) -> Option<(&str, u32, f64, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    // As Go's own rule has it, no small letter follows.
    let behind = words.first()?.strip_prefix("Benchmark")?;
    let name = words
        .first()
        .filter(|_| !behind.starts_with(char::is_lowercase))?;
    let at = words.iter().position(|w| *w == "ns/op")?;
    let written = words.get(at.checked_sub(1)?)?;
    let ns = written.parse().ok()?;
    let split = name.rsplit_once('-');
    let split = split.and_then(|(name, n)| Some((name, n.parse::<u32>().ok()?)));
    let (name, processors) = split.unwrap_or((name, 1));
    Some((name, processors, ns, written))
}

/// `    counters_test.go:142: 99th percentile: 3.6us`: what a benchmark says itself.
fn of_its_log(line: &str) -> Option<&str> {
    let (place, text) = line.trim_start().split_once(": ")?;
    let (file, number) = place.rsplit_once(':')?;
    let own = file.ends_with("_test.go") && number.parse::<u32>().is_ok();
    own.then(|| text.trim())
}

/// Whether a line stands above benchmarks as their name, and is none of what go prints beside them.
pub(super) fn names(line: &str) -> bool {
    const GO: [&str; 10] = [
        "goos:",
        "goarch:",
        "pkg:",
        "cpu:",
        "PASS",
        "ok ",
        "ok\t",
        "---",
        "```",
        "Benchmark",
    ];
    let text = line.trim();
    let own = GO.iter().any(|g| text.starts_with(g)) || text.contains("go test");
    let said = text.contains(char::is_alphabetic) && text.len() <= HEADING;
    said && !own && !text.starts_with(['$', '%'])
}

/// Benchmarks of one name and heading on more and more processors: how many times as long an operation takes on the
/// most of them, at most, and a row for each.
fn by_processors(all: &[Timed<'_>]) -> (f64, Vec<Row>) {
    let mut rows: Vec<Row> = Vec::new();
    for one in all {
        let of = all
            .iter()
            .filter(|o| o.name == one.name && o.heading == one.heading);
        let (Some(few), Some(many)) = (
            of.clone().min_by_key(|o| o.processors),
            of.max_by_key(|o| o.processors),
        ) else {
            continue;
        };
        // `BenchmarkGet/size-10` has its size there and no processors.
        let sizes = one.name.contains('/') && few.processors > 1;
        // Each name once.
        if sizes || few.processors == many.processors || !std::ptr::eq(one, many) {
            continue;
        }
        rows.push(Row {
            label: one.name.to_owned(),
            place: format!(
                "{} ns/op on {}, {} on {}{}",
                few.written,
                few.processors,
                many.written,
                many.processors,
                one.under()
            ),
            share: many.ns / few.ns.max(f64::MIN_POSITIVE),
        });
    }
    rows.extend(in_parallel(all));
    rows.sort_by(|a, b| b.share.total_cmp(&a.share));
    (rows.first().map_or(0.0, |row| row.share), rows)
}

/// How a benchmark is called that does the same on all processors at once.
const PARALLEL: &str = "Parallel";

/// Benchmarks beside those of the same name that run in parallel, where these take longer for an operation: their time
/// is divided by the processors.
fn in_parallel(all: &[Timed<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for many in all.iter().filter(|o| o.processors > 1) {
        let Some(name) = many.name.strip_suffix(PARALLEL) else {
            continue;
        };
        let alone = all.iter().find(|o| {
            let same = o.name == name && o.processors == many.processors;
            // What the compiler has taken out takes no time.
            same && o.heading == many.heading && o.ns >= LEAST_NS
        });
        if let Some(alone) = alone.filter(|one| many.ns >= SLOWER * one.ns) {
            rows.push(Row {
                label: many.label(),
                place: format!(
                    "{} ns/op, and {} without Parallel{}",
                    many.written,
                    alone.written,
                    many.under()
                ),
                share: many.ns / alone.ns,
            });
        }
    }
    rows
}

/// Benchmarks of one name under two headings, those that differ most first.
fn variants(all: &[Timed<'_>]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for (at, slow) in all.iter().enumerate() {
        let same = |o: &&Timed<'_>| {
            o.name == slow.name && o.processors == slow.processors && o.heading != slow.heading
        };
        // They are sorted, so that the slower one of a pair comes first.
        let Some(fast) = all[at..].iter().rfind(same) else {
            continue;
        };
        let (times, label) = (apart(slow.ns, fast.ns), slow.label());
        if times >= DIFFERS && rows.iter().all(|row| row.label != label) {
            rows.push(Row {
                label,
                place: short(&format!(
                    "{} ns/op{}, {}{}",
                    slow.written,
                    slow.under(),
                    fast.written,
                    fast.under()
                )),
                share: times,
            });
        }
    }
    rows.sort_by(|a, b| b.share.total_cmp(&a.share));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::events::written;
    use super::*;

    fn rows(text: &str) -> (Artefact, Vec<String>) {
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let rows = written(&found);
        (found, rows)
    }

    #[test]
    fn more_processors_that_make_it_slower_are_told() {
        let text = "goos: linux\nBenchmarkGet 200 90 ns/op\nBenchmarkGet-4 100 200.5 ns/op\nBenchmarkSet-4 100 7 ns/op\nPASS\n";
        let (found, told) = rows(text);
        assert_eq!(told, ["BenchmarkGet: 90 ns/op on 1, 200.5 on 4"]);
        assert!(found.value("gobench.slower") > Some(2.2));
        let (found, _) = rows(&text.replace("200.5", "30"));
        assert!(found.value("gobench.slower") < Some(1.0));
        let sizes = "BenchmarkGet/size-10 200 90 ns/op\nBenchmarkGet/size-1000 100 900 ns/op\n";
        assert_eq!(rows(sizes).0.value("gobench.slower"), Some(0.0));
    }

    #[test]
    fn variants_stand_under_headings_and_a_benchmark_may_say_more() {
        let text = "(one lock)\nBenchmarkAdd-8\t300\t455 ns/op\t16 B/op\n--- BENCH: BenchmarkAdd-8\n\tadd_test.go:14: 99th: 547ns\n\tadd_test.go:14: 99th of more: 1.4ms\nPASS\n\nMany locks:\n$ go test -bench=.\nBenchmarkAdd-8\t900\t49.9 ns/op\n";
        let (found, told) = rows(text);
        assert_eq!(
            told,
            [
                "BenchmarkAdd-8: 455 ns/op under `one lock`, 49.9 under `Many locks`",
                "99th of more: 1.4ms: printed by the benchmark itself"
            ]
        );
        assert_eq!(found.value("gobench.longest_ns"), Some(455.0));
        assert!(found.value("gobench.times") > Some(9.0));
    }

    #[test]
    fn times_that_stand_alone_are_told_as_they_are() {
        let text = "BenchmarkA\t100000\t19571 ns/op\t36 B/op\nBenchmarkB/x-y 1 3205607 ns/op\nBenchmarkB/x-y 1 3205600 ns/op\n";
        let (found, told) = rows(text);
        assert_eq!(told.len(), 2);
        assert_eq!(told[0], "BenchmarkB/x-y: 3205607 ns/op");
        assert_eq!(found.value("gobench.times"), Some(1.0));
        assert!(read(&["Benchmarks take 12 ns/op or so"]).is_none());
    }
}
