//! Plans of queries that were executed: `EXPLAIN ANALYZE` of PostgreSQL and MySQL, its steps with their times, and
//! its blocks.
//!
//! The surprise is a step's time, which counts those below it.

use super::databases::sorted;
use super::events::artefact;
use super::pieces::{short, value};
use record::pasted::{Artefact, Row};

/// Both in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(plan(lines));
    done.extend(blocks(lines));
    done
}

/// `EXPLAIN ANALYZE`: the whole time, and of the steps the one that takes most by itself.
fn plan(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("EXPLAIN ANALYZE", 0);
    let mut steps: Vec<(usize, f64, String)> = Vec::new();
    for (number, line) in (1_u32..).zip(lines) {
        let Some((head, rest)) = line.split_once("(actual time=") else {
            let total = line
                .split_once("Execution Time:")
                .or_else(|| line.split_once("Total runtime:"));
            if let Some(ms) =
                total.and_then(|(_, t)| t.split_whitespace().next()?.parse::<f64>().ok())
            {
                found.begin_at(number);
                found.largest("database.longest_s", ms / 1e3);
            }
            if let Some((_, n)) = line.split_once("Rows Removed by Filter:")
                && let Some(n) = value(n.trim())
            {
                found.largest("database.rows_filtered", n);
            }
            continue;
        };
        // A person may have left the time to the first row out.
        let words = rest.split_whitespace().next().unwrap_or_default();
        let end = words.split_once("..").map_or(words, |(_, end)| end);
        let Ok(each) = end.trim_end_matches(')').parse::<f64>() else {
            continue;
        };
        let loops = rest
            .split_once("loops=")
            .and_then(|(_, l)| l.split(')').next()?.parse::<f64>().ok());
        found.begin_at(number);
        let depth = head.len() - head.trim_start().len();
        let name = head
            .split("(cost")
            .next()
            .unwrap_or("")
            .trim()
            .trim_start_matches("-> ");
        if name.contains("Seq Scan") || name.contains("Table scan") {
            found.add("database.scans", 1.0);
        }
        steps.push((depth, each * loops.unwrap_or(1.0), name.to_owned()));
    }
    for (i, (depth, ms, name)) in steps.iter().enumerate() {
        // A step's time counts those below it: its own is what is left.
        let below = steps[i + 1..].iter().take_while(|(d, ..)| d > depth);
        let nearest = below.clone().map(|(d, ..)| *d).min();
        let inner: f64 = below
            .filter(|(d, ..)| Some(*d) == nearest)
            .map(|s| s.1)
            .sum();
        found.largest("database.longest_s", ms / 1e3);
        found
            .rows
            .push(Row::new(short(name), (ms - inner).max(0.0) / 1e3));
    }
    sorted(found)
}

/// `Buffers: shared hit=32 read=9822` and `I/O Timings: shared read=5854.374`, of the whole plan or of a step: a step's
/// count those below it, so that the largest is the whole.
fn blocks(lines: &[&str]) -> Option<Artefact> {
    let of = |text: &str, name: &str| {
        let (_, rest) = text.split_once(name)?;
        rest.split([' ', ',']).next()?.parse::<f64>().ok()
    };
    let mut found = artefact("blocks of the plan", 0);
    for (number, line) in (1_u32..).zip(lines) {
        if let Some((_, rest)) = line.split_once("Buffers: shared")
            && let Some(read) = of(rest, " read=")
        {
            found.begin_at(number);
            if read > found.value("plan.blocks_read").unwrap_or(0.0) {
                found.rows = vec![Row::new(short(line), read)];
            }
            found.largest("plan.blocks_read", read);
        }
        if let Some((_, rest)) = line.split_once("I/O Timings:")
            && let Some(ms) = of(rest, " read=")
        {
            found.begin_at(number);
            found.largest("plan.read_ms", ms);
        }
    }
    sorted(found)
}
