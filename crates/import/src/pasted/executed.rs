//! Plans of queries that were executed: `EXPLAIN ANALYZE` of PostgreSQL and MySQL, its steps with their times, its
//! blocks, what it writes to files, and the times of several plans.
//!
//! A step's time counts those below it. The surprise is the box: psql, pgcli and mysql draw bars around a plan, and cut
//! its lines off at the terminal's width.

use super::databases::sorted;
use super::events::{artefact, told};
use super::pieces::{short, value};
use super::sections::heading;
use record::pasted::{Artefact, Row};

/// All of them in a text.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let mut done = Vec::new();
    done.extend(plan(lines));
    done.extend(executions(lines));
    done.extend(blocks(lines));
    done.extend(spilled(lines));
    done
}

/// A line of a plan without the box that psql, pgcli and mysql draw around it: `| Limit  (cost=...)   >`.
pub(super) fn unboxed(line: &str) -> &str {
    match line.trim_start().strip_prefix('|') {
        Some(inner) => inner.trim_end().trim_end_matches(['|', '>', '+', ' ']),
        None => line,
    }
}

/// What stands below a step and says what it sorts, looks up or throws away.
const DETAILS: [&str; 7] = [
    "Sort Key:",
    "Group Key:",
    "Index Cond:",
    "Hash Cond:",
    "Merge Cond:",
    "Join Filter:",
    "Filter:",
];

/// Ends of the names of steps that read from one below them.
pub(super) const ABOVE: [&str; 10] = [
    "Limit",
    "Sort",
    "Aggregate",
    "WindowAgg",
    "Unique",
    "Gather",
    "Gather Merge",
    "Join",
    "Nested Loop",
    "Materialize",
];

/// A step of a plan.
struct Step {
    depth: usize,
    ms: f64,
    name: String,
    detail: Option<String>,
}

/// What a line says of a step that was executed.
pub(super) struct Executed<'a> {
    pub depth: usize,
    pub name: &'a str,
    /// Of all loops.
    pub ms: f64,
    pub rows: Option<f64>,
}

/// By what stands before `(actual time=` in a line and behind it.
pub(super) fn executed<'a>(head: &'a str, rest: &str) -> Option<Executed<'a>> {
    // A person may have left the time to the first row out.
    let words = rest.split_whitespace().next().unwrap_or_default();
    let end = words.split_once("..").map_or(words, |(_, end)| end);
    let each = end.trim_end_matches(')').parse::<f64>().ok()?;
    let behind = |mark: &str| {
        let (_, n) = rest.split_once(mark)?;
        n.split([' ', ')']).next()?.parse::<f64>().ok()
    };
    let loops = behind("loops=").unwrap_or(1.0);
    let name = head.split("(cost").next().unwrap_or("").trim();
    Some(Executed {
        depth: head.len() - head.trim_start().len(),
        name: name.trim_start_matches("-> ").trim_start(),
        ms: each * loops,
        rows: behind("rows=").map(|rows| rows * loops),
    })
}

/// `EXPLAIN ANALYZE`: the whole time, and of the steps the one that takes most by itself.
fn plan(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("EXPLAIN ANALYZE", 0);
    let mut steps: Vec<Step> = Vec::new();
    let mut ends_above = false;
    for (number, line) in (1_u32..).zip(lines) {
        let line = unboxed(line);
        let Some((head, rest)) = line.split_once("(actual time=") else {
            if let Some(ms) = whole_ms(line) {
                found.begin_at(number);
                found.largest("database.longest_s", ms / 1e3);
            }
            if let Some((_, n)) = line.split_once("Rows Removed by Filter:")
                && let Some(n) = n.split_whitespace().next().and_then(value)
            {
                found.largest("database.rows_filtered", n);
            }
            // A step that was never executed has no time.
            ends_above &= !line.contains("->");
            let detail = DETAILS.iter().any(|d| line.trim().starts_with(d));
            if let Some(step) = steps.last_mut().filter(|s| detail && s.detail.is_none()) {
                let detail = line.trim_end_matches(['|', '+', ' ']).trim_start();
                step.detail = Some(detail.to_owned());
            }
            continue;
        };
        let Some(Executed {
            depth, name, ms, ..
        }) = executed(head, rest)
        else {
            continue;
        };
        found.begin_at(number);
        if name.contains("Seq Scan") || name.contains("Table scan") {
            found.add("database.scans", 1.0);
        }
        ends_above = ABOVE.iter().any(|above| name.ends_with(above));
        // Of an index of several columns or words nothing may be left, but looking takes no time.
        if name.contains("Index") && rest.contains(" rows=0") && name.contains("Scan") {
            found.largest("plan.index_without_rows_ms", ms);
        }
        steps.push(Step {
            depth,
            ms,
            name: name.to_owned(),
            detail: None,
        });
    }
    for (i, step) in steps.iter().enumerate() {
        // A step's time counts those below it: its own is what is left.
        let below = steps[i + 1..].iter().take_while(|s| s.depth > step.depth);
        let nearest = below.clone().map(|s| s.depth).min();
        let inner: f64 = below
            .filter(|s| Some(s.depth) == nearest)
            .map(|s| s.ms)
            .sum();
        found.largest("database.longest_s", step.ms / 1e3);
        let label = match &step.detail {
            Some(detail) => format!("{}, {detail}", step.name),
            None => step.name.clone(),
        };
        let own = (step.ms - inner).max(0.0) / 1e3;
        found.rows.push(Row::new(short(&label), own));
    }
    if let Some(whole) = found
        .value("database.longest_s")
        .filter(|_| steps.is_empty())
    {
        found.rows.push(Row::new("the whole plan", whole));
    }
    let ends = f64::from(u8::from(ends_above));
    found.figures.insert("plan.ends_above".into(), ends);
    sorted(found)
}

/// The time of a whole plan in a line, in ms.
fn whole_ms(line: &str) -> Option<f64> {
    let (_, behind) = line
        .split_once("Execution Time:")
        .or_else(|| line.split_once("Execution time:"))
        .or_else(|| line.split_once("Total runtime:"))?;
    behind.split_whitespace().next()?.parse().ok()
}

/// The whole times of several plans in one text, each under the heading above it.
fn executions(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("times of plans", 0);
    let mut above = "";
    let mut times: Vec<f64> = Vec::new();
    for (at, (number, line)) in (1_u32..).zip(lines).enumerate() {
        if let Some(ms) = whole_ms(line) {
            found.begin_at(number);
            let (_, written) = line.split_once(':')?;
            let written = unboxed(written).trim().trim_matches('*').to_owned();
            let named = || format!("plan {}", times.len() + 1);
            found.rows.push(Row {
                label: Some(short(above))
                    .filter(|h| !h.is_empty())
                    .unwrap_or_else(named),
                place: short(&written),
                share: ms,
            });
            times.push(ms);
            above = "";
        } else if let Some(new) = heading(lines, at).filter(|h| !h.starts_with("behind the")) {
            above = new;
        }
    }
    let most = times.iter().copied().fold(0.0, f64::max);
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let times_apart = most / least.max(1e-3);
    found
        .figures
        .insert("executions.rows".into(), times.len() as f64);
    found.figures.insert("executions.times".into(), times_apart);
    told(found).filter(|_| times.len() >= 2)
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

/// Steps that say how much they write, and what stands before the size.
const SPILLED: [(&str, &str); 2] = [
    ("Sort Method: external", "Disk:"),
    ("Batches:", "Disk Usage:"),
];
/// Characters between the two.
const WITHIN: usize = 60;

/// Sorts and hashes that do not fit into their memory: `Sort Method: external merge  Disk: 63072kB`. A quotation may
/// have the whole plan in one line.
fn spilled(lines: &[&str]) -> Option<Artefact> {
    let mut found = artefact("sorts on disk", 0);
    for (number, line) in (1_u32..).zip(lines) {
        for (step, before) in SPILLED {
            let sizes = line.match_indices(step).filter_map(|(at, _)| {
                let (named, size) = line[at..].split_once(before)?;
                let size = size.trim_start();
                let end = size.find(|c: char| !c.is_ascii_alphanumeric());
                let size = &size[..end.unwrap_or(size.len())];
                let kb = value(size.strip_suffix("kB")?)?;
                (named.len() <= WITHIN).then(|| Row {
                    label: short(named),
                    place: format!("{size} on disk"),
                    share: kb,
                })
            });
            for row in sizes {
                found.begin_at(number);
                found.rows.push(row);
            }
        }
    }
    found.largest_first();
    let rows = found.rows.len() as f64;
    found.figures.insert("spilled.rows".into(), rows);
    told(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(found: Option<Artefact>) -> Vec<String> {
        let rows = found.map(|a| a.rows).unwrap_or_default();
        rows.iter()
            .map(|r| format!("{}: {} {:.3}", r.label, r.place, r.share))
            .collect()
    }

    #[test]
    fn a_plan_in_a_box_is_a_plan_and_may_end_above_what_it_reads() {
        let text = "+-----+\n| QUERY PLAN   >\n| Limit  (cost=1..2 rows=9 width=6) (actual time=90.0..90.1 rows=9 loops=1)  >\n|   ->  Sort  (cost=1..2 rows=9 width=6) (actual time=90.0..90.0 rows=9 loops=1)  >\n|         Sort Key: at   >\n";
        let whole = format!(
            "{text}|         ->  Seq Scan on t  (cost=1..2 rows=9 width=6) (actual time=0.1..80.0 rows=9 loops=1) |\n|               Rows Removed by Filter: 5000 |\n"
        );
        let found = plan(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("plan.ends_above"), Some(1.0));
        assert_eq!(rows(Some(found))[0], "Sort, Sort Key: at:  0.090");
        let found = plan(&whole.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("plan.ends_above"), Some(0.0));
        assert_eq!(found.value("database.rows_filtered"), Some(5000.0));
        assert_eq!(rows(Some(found))[0], "Seq Scan on t:  0.080");
    }

    #[test]
    fn times_of_several_plans_stand_under_their_headings() {
        let text = "Before:\n  Execution Time: 8877.5 ms\n\nAfter:\n- Execution Time: 107.25 ms\n";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            rows(executions(&lines)),
            ["Before: 8877.5 ms 8877.500", "After: 107.25 ms 107.250"]
        );
        assert_eq!(rows(plan(&lines)), ["the whole plan:  8.877"]);
        assert!(executions(&lines[..2]).is_none());
    }

    #[test]
    fn what_does_not_fit_into_memory_is_told_from_one_line_too() {
        let text = "[(\"Sort  (actual time=1.0..2.0 rows=9 loops=1)\\n  Sort Method: external merge  Disk: 9320kB\\nExecution\")]\nHashAggregate\n  Planned Partitions: 4  Batches: 5  Memory Usage: 4145kB  Disk Usage: 12000kB\nSort Method: quicksort  Memory: 25kB\n";
        let found = spilled(&text.lines().collect::<Vec<_>>());
        assert_eq!(
            rows(found),
            [
                "Batches: 5 Memory Usage: 4145kB: 12000kB on disk 12000.000",
                "Sort Method: external merge: 9320kB on disk 9320.000"
            ]
        );
        assert!(spilled(&["Batches: 1  Memory Usage: 40kB"]).is_none());
    }
}
