//! What GHC's runtime sums up at the end of a program (`+RTS -s`): the time of the program itself and of its collector.
//!
//! The surprise is that its first column of times is CPU time over all threads: a collector that runs in parallel may
//! take most of the CPU and little of the clock.

use super::events::{artefact, told};
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// The sums of a text.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("GHC's runtime", 0);
    for (number, line) in (1_u32..).zip(lines) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((name, cpu, elapsed)) = phase(&words, line) {
            found.begin_at(number);
            found.figures.insert(format!("ghc.{name}_s"), cpu);
            found
                .figures
                .insert(format!("ghc.{name}_elapsed_s"), elapsed);
        }
        if let ["Gen", _, all, "colls,", rest @ ..] = words.as_slice() {
            found.add("ghc.collections", value(all).unwrap_or(0.0));
            let parallel = rest.iter().position(|w| *w == "par");
            let parallel = parallel.and_then(|at| value(rest.get(at.checked_sub(1)?)?));
            found.add("ghc.parallel", parallel.unwrap_or(0.0));
        }
        if let Some((_, rest)) = line.split_once("Parallel GC work balance: ") {
            let percent = rest.split('%').next().and_then(value);
            found
                .figures
                .extend(percent.map(|n| ("ghc.balance_percent".to_owned(), n)));
            found.rows.push(Row::new(short(line), 0.0));
        }
        if let Some((_, rest)) = line.split_once("using -N") {
            let threads = rest.trim_end_matches([')', ' ']).parse().ok();
            found
                .figures
                .extend(threads.map(|n| ("ghc.threads".to_owned(), n)));
        }
    }
    let of = |name: &str| found.value(&format!("ghc.{name}_s"));
    let (program, collector) = (of("mut")?, of("gc")?);
    let elapsed = of("gc_elapsed").filter(|s| *s > 0.0);
    let share = collector / (program + collector).max(f64::MIN_POSITIVE);
    let at_once = elapsed.map_or(1.0, |s| collector / s);
    for (name, n) in [("rows", 1.0), ("gc_share", share), ("gc_at_once", at_once)] {
        found.figures.insert(format!("ghc.{name}"), n);
    }
    told(found)
}

/// `MUT     time    9.90s  (  1.58s elapsed)`.
fn phase(words: &[&str], line: &str) -> Option<(&'static str, f64, f64)> {
    let [name @ ("MUT" | "GC"), "time", cpu, ..] = words else {
        return None;
    };
    let (_, rest) = line.split_once('(')?;
    let elapsed = rest.split("elapsed").next().and_then(|w| value(w.trim()))?;
    let name = if *name == "GC" { "gc" } else { "mut" };
    Some((name, value(cpu)?, elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collectors_cpu_time_is_told_apart_from_its_clock() {
        let text = "  Gen  0       900 colls,   900 par    8.00s    1.00s     0.0010s    0.0168s\n  Parallel GC work balance: 12.50% (serial 0%, perfect 100%)\n  TASKS: 10 (1 bound, 9 peak workers (9 total), using -N8)\n  MUT     time    4.00s  (  2.50s elapsed)\n  GC      time    8.00s  (  1.00s elapsed)\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        let of = |name: &str| found.value(&format!("ghc.{name}")).unwrap();
        assert_eq!(
            [of("gc_at_once"), of("balance_percent"), of("threads")],
            [8.0, 12.5, 8.0]
        );
        assert!((of("gc_share") - 2.0 / 3.0).abs() < 1e-9);
        assert!(read(&["MUT time 4.00s (2.50s elapsed)"]).is_none());
    }
}
