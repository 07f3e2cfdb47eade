//! What was observed of a server or its host: `strace -c`, sizes of calls, vmstat, mpstat.
//!
//! Rows are read as words behind the head that names them, because pages join and wrap lines. What keeps a lost
//! word from shifting all columns is arithmetic: the modes of a CPU must add up to 100 %, and strace's rows to its
//! total.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, Word, count, number, phrase};
use record::pasted::{CallCount, Sizes, StraceSummary, Table};
use record::{CallStats, LatencyBase};
use std::collections::BTreeMap;

/// A call is worth a row of a table from this share of all calls or of the time on.
const TOLD: f64 = 0.01;

/// Something with its first and last line.
pub(crate) type Placed<T> = (T, (u32, u32));

/// All summaries of `strace -c`.
pub(crate) fn straces(words: &[Word<'_>]) -> Vec<Placed<StraceSummary>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        match phrase(words, at, "% time seconds usecs/call calls errors syscall") {
            Some(next) => {
                let (summary, end) = strace_rows(words, next);
                if !summary.rows.is_empty() {
                    found.push((summary, (words[at].line, words[end - 1].line)));
                }
                at = end;
            }
            // ltrace's table of functions has the same columns.
            None if words[at].text == "function" && at > 0 && words[at - 1].text == "calls" => {
                at = strace_rows(words, at + 1).1;
            }
            None => match headless(words, at) {
                Some((summary, end)) => {
                    found.push((summary, (words[at].line, words[end - 1].line)));
                    at = end;
                }
                None => at += 1,
            },
        }
    }
    found
}

/// Rows whose head was left out: the share of the time falls from one to the next, and of fewer than three each one's
/// time a call must be its time divided by its calls.
fn headless(words: &[Word<'_>], start: usize) -> Option<(StraceSummary, usize)> {
    let mut summary = StraceSummary::default();
    let (mut at, mut share) = (start, 100.0);
    while let Some((row, next)) = strace_row(words, at) {
        let line = words[at].line;
        let alone = (at == 0 || words[at - 1].line < line)
            && words[next - 1].line == line
            && words.get(next).is_none_or(|w| w.line > line);
        let decimals = words[at..at + 2].iter().all(|w| w.text.contains('.'));
        let own = number(words[at].text)?.value;
        if !alone || !decimals || own > share {
            break;
        }
        (at, share) = (next, own);
        if row.call == "total" {
            summary.total = Some(row.calls);
            break;
        }
        summary.rows.push(row);
    }
    let exact = || {
        let mut rows = words[start..at].chunk_by(|a, b| a.line == b.line);
        rows.all(divides)
    };
    let enough = summary.rows.len() >= 3 || !summary.rows.is_empty() && exact();
    enough.then_some((summary, at))
}

/// Whether a row's time a call in whole microseconds is its time divided by its calls.
fn divides(row: &[Word<'_>]) -> bool {
    let n = |at: usize| row.get(at).and_then(|w| number(w.text)).map(|n| n.value);
    let (Some(seconds), Some(us), Some(calls)) = (n(1), n(2), n(3)) else {
        return row.last().is_some_and(|w| w.text == "total");
    };
    calls > 0.0 && (seconds * 1e6 / calls - us).abs() <= 1.0
}

/// Rows until the total, or until a word is none of a row.
fn strace_rows(words: &[Word<'_>], mut at: usize) -> (StraceSummary, usize) {
    let mut summary = StraceSummary::default();
    loop {
        let Some((row, next)) = strace_row(words, at) else {
            return (summary, at);
        };
        at = next;
        if row.call == "total" {
            summary.total = Some(row.calls);
            return (summary, at);
        }
        summary.rows.push(row);
    }
}

/// `53.49 4.035007 11 365710 [errors] writev`; the total may lack its time per call.
fn strace_row(words: &[Word<'_>], at: usize) -> Option<(CallCount, usize)> {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let length = (3..=5).find(|n| words.get(at + n).is_some_and(|w| is_name(w.text)))?;
    let numbers: Option<Vec<f64>> = (0..length)
        .map(|i| number(words[at + i].text).map(|n| n.value))
        .collect();
    let numbers = numbers?;
    let call = words[at + length].text;
    if length == 3 && call != "total" {
        return None;
    }
    let calls = words[at + length.min(3)..at + length].first();
    let calls = match length {
        3 => count(words[at + 2].text)?,
        _ => count(calls?.text)?,
    };
    let errors = if length == 5 {
        count(words[at + 4].text)?
    } else {
        0.0
    };
    let row = CallCount {
        call: call.to_owned(),
        share: numbers[0] / 100.0,
        seconds: numbers[1],
        calls: calls as u64,
        errors: errors as u64,
    };
    Some((row, at + length + 1))
}

/// All vmstat outputs; the first row of each is the average since boot and left out.
pub(crate) fn vmstats(words: &[Word<'_>]) -> Vec<Placed<Table>> {
    let mut found: Vec<Placed<Table>> = Vec::new();
    let mut at = 0;
    let mut behind = 0;
    while at < words.len() {
        let Some(columns) = vmstat_head(words, at) else {
            at += 1;
            continue;
        };
        // A long vmstat repeats its head on every screen, right behind the last row, its first line perhaps before it.
        let between = words.get(behind..at).unwrap_or_default();
        let lines = 1 + u32::from(!between.is_empty());
        let again = found
            .last()
            .is_some_and(|(_, (_, last))| words[at].line <= last + lines)
            && between
                .iter()
                .all(|w| w.text.contains("--") || w.text == "procs");
        if !again {
            let table = Table {
                columns: columns.iter().map(|c| (*c).to_owned()).collect(),
                rows: Vec::new(),
            };
            found.push((table, (words[at].line, words[at].line)));
        }
        at += columns.len();
        while let (Some(row), Some((table, lines))) =
            (vmstat_row(words, at, &columns), found.last_mut())
        {
            lines.1 = words[at + columns.len() - 1].line;
            table.rows.push(row);
            at += columns.len();
        }
        behind = at;
    }
    for (table, _) in &mut found {
        if table.rows.len() > 1 {
            table.rows.remove(0);
        }
    }
    found.retain(|(table, _)| !table.rows.is_empty());
    found
}

/// The names of the columns when a head begins at `at`.
fn vmstat_head<'a>(words: &[Word<'a>], at: usize) -> Option<Vec<&'a str>> {
    const KNOWN: [&str; 18] = [
        "r", "b", "swpd", "free", "buff", "cache", "inact", "active", "si", "so", "bi", "bo", "in",
        "cs", "us", "sy", "id", "wa",
    ];
    phrase(words, at, "r b")?;
    let columns: Vec<&str> = words[at..]
        .iter()
        .map(|w| w.text)
        .take_while(|w| KNOWN.contains(w) || ["st", "gu"].contains(w))
        .collect();
    ["us", "sy", "id"]
        .iter()
        .all(|c| columns.contains(c))
        .then_some(columns)
}

fn vmstat_row(words: &[Word<'_>], at: usize, columns: &[&str]) -> Option<Vec<f64>> {
    let row: Option<Vec<f64>> = (0..columns.len())
        .map(|i| count(words.get(at + i)?.text))
        .collect();
    let row = row?;
    let mode = |c: &&str| ["us", "sy", "id", "wa", "st"].contains(c);
    let modes = columns.iter().zip(&row).filter(|(c, _)| mode(c));
    let sum: f64 = modes.map(|(_, v)| v).sum();
    // Each of the five is rounded.
    (sum - 100.0).abs().le(&3.0).then_some(row)
}

/// One block of mpstat: modes by CPU, in per cent; the averages where it prints them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mpstat {
    columns: Vec<String>,
    rows: Vec<MpstatRow>,
}

/// A CPU's name, its modes, and whether they are averages.
type MpstatRow = (String, Vec<Number>, bool);

/// All mpstat outputs.
pub(crate) fn mpstats(words: &[Word<'_>]) -> Vec<Placed<Mpstat>> {
    let mut found: Vec<Placed<Mpstat>> = Vec::new();
    let mut behind: usize = 0;
    let mut at = 0;
    while at < words.len() {
        let Some(columns) = mpstat_head(words, at) else {
            at += 1;
            continue;
        };
        // The next interval's head follows after its time.
        let same = found
            .last()
            .is_some_and(|(last, _)| last.columns == columns && at - behind <= 3);
        if !same {
            let block = Mpstat {
                columns: columns.clone(),
                rows: Vec::new(),
            };
            found.push((block, (words[at].line, words[at].line)));
        }
        at += columns.len() + 1;
        while let (Some((row, next)), Some((block, lines))) =
            (mpstat_row(words, at, columns.len()), found.last_mut())
        {
            lines.1 = words[next - 1].line;
            block.rows.push(row);
            at = next;
        }
        behind = at;
    }
    found.retain(|(block, _)| !block.rows.is_empty());
    found
}

fn mpstat_head(words: &[Word<'_>], at: usize) -> Option<Vec<String>> {
    phrase(words, at, "CPU")?;
    let columns: Vec<String> = words[at + 1..]
        .iter()
        .take_while(|w| w.text.starts_with('%'))
        .map(|w| w.text.trim_start_matches('%').to_owned())
        .collect();
    let all = ["usr", "sys", "idle"]
        .iter()
        .all(|c| columns.iter().any(|x| x == c));
    all.then_some(columns)
}

/// `15:01:08 all 8.99 ...` or `Average: 2 24.28 ...`.
fn mpstat_row(words: &[Word<'_>], at: usize, columns: usize) -> Option<(MpstatRow, usize)> {
    // The time may have a word for its half of the day.
    (0..=2).find_map(|skip| {
        let cpu = words.get(at + skip)?.text;
        let is_cpu = cpu == "all" || cpu.bytes().all(|b| b.is_ascii_digit());
        let numbers: Option<Vec<Number>> = (1..=columns)
            .map(|i| number(words.get(at + skip + i)?.text))
            .collect();
        let numbers = numbers.filter(|_| is_cpu)?;
        let sum: f64 = numbers.iter().map(|n| n.value).sum();
        let first = words[at].text;
        let average =
            skip > 0 && first.ends_with(':') && !first.starts_with(|c: char| c.is_ascii_digit());
        let row = (cpu.to_owned(), numbers, average);
        ((sum - 100.0).abs() <= 1.0).then_some((row, at + skip + columns + 1))
    })
}

/// The results of all kinds of observation, or of one.
pub(crate) fn read(words: &[Word<'_>], sizes: &[Sizes], only: Option<&str>) -> Harvest {
    let wanted = |tool: &str| only.is_none_or(|t| t == tool);
    let mut harvest = Harvest::default();
    if wanted("strace") {
        for (summary, lines) in straces(words) {
            match of_strace(&summary, lines) {
                Ok(found) => harvest.found.push(found),
                Err(why) => harvest.left_out.push((lines.0, lines.1, why)),
            }
        }
        harvest.found.extend(sizes.iter().map(of_sizes));
    }
    if wanted("vmstat") {
        harvest
            .found
            .extend(vmstats(words).iter().map(|(t, lines)| of_vmstat(t, *lines)));
    }
    if wanted("mpstat") {
        harvest
            .found
            .extend(mpstats(words).iter().map(|(m, lines)| of_mpstat(m, *lines)));
    }
    harvest
}

fn observation(tool: &str, lines: (u32, u32)) -> Found {
    let mut found = Found::new(Nature::Observation, tool, LatencyBase::Unknown, lines.0);
    found.reach(lines.1);
    found
}

fn of_strace(summary: &StraceSummary, lines: (u32, u32)) -> Result<Found, String> {
    let mut found = observation("strace -c", lines);
    let calls: u64 = summary.rows.iter().map(|r| r.calls).sum();
    if let Some(total) = summary.total.filter(|t| *t != calls) {
        return Err(format!(
            "a strace -c whose rows make {calls} calls and whose total is {total}"
        ));
    }
    let seconds: f64 = summary.rows.iter().map(|r| r.seconds).sum();
    for row in &summary.rows {
        let told = row.calls as f64 >= TOLD * calls as f64 || row.seconds >= TOLD * seconds;
        if told {
            found.set_count(format!("calls.{}", row.call), row.calls as f64);
            let time = Number {
                value: row.seconds,
                half: 5e-7,
            };
            found.set(format!("call_time_s.{}", row.call), "s", time);
        }
        found.calls.push(CallStats {
            call: row.call.clone(),
            calls: row.calls,
            errors: match row.errors {
                0 => BTreeMap::new(),
                n => BTreeMap::from([("any".to_owned(), n)]),
            },
            time_ns: Some((row.seconds * 1e9).round() as u64),
            ..CallStats::default()
        });
    }
    if summary.total.is_some() {
        found.set_count("calls.all", calls as f64);
        let time = Number {
            value: seconds,
            half: 5e-7 * summary.rows.len() as f64,
        };
        found.set("call_time_s.all", "s", time);
    } else {
        found
            .doubts
            .push("strace -c ends without its total: rows may be missing".to_owned());
    }
    Ok(found)
}

fn of_sizes(sizes: &Sizes) -> Found {
    let mut found = observation(
        "sizes of calls",
        (sizes.line, sizes.line + sizes.counts.len() as u32),
    );
    let call = if sizes.call.is_empty() {
        "unknown"
    } else {
        &sizes.call
    };
    let useful = || sizes.counts.iter().filter(|(size, _)| *size > 0);
    if let Some((size, n)) = useful().max_by_key(|(_, n)| *n) {
        found.set(
            format!("typical_bytes.{call}"),
            "bytes",
            Number::exact(*size as f64),
        );
        found.set_count(format!("typical_bytes_calls.{call}"), *n as f64);
    }
    if let Some((size, _)) = useful().max_by_key(|(size, _)| *size) {
        found.set(
            format!("largest_listed_bytes.{call}"),
            "bytes",
            Number::exact(*size as f64),
        );
    }
    let mut top: Vec<(u64, u64)> = sizes.counts.clone();
    top.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    top.truncate(16);
    found.calls.push(CallStats {
        call: call.to_owned(),
        top_sizes: top,
        ..CallStats::default()
    });
    found
}

fn of_vmstat(table: &Table, lines: (u32, u32)) -> Found {
    const COLUMNS: [(&str, &str, &str); 8] = [
        ("us", "cpu.user", "%"),
        ("sy", "cpu.system", "%"),
        ("id", "cpu.idle", "%"),
        ("wa", "cpu.iowait", "%"),
        ("st", "cpu.steal", "%"),
        ("in", "interrupts_per_s", "1/s"),
        ("cs", "context_switches_per_s", "1/s"),
        ("r", "runnable", "1"),
    ];
    let mut found = observation("vmstat", lines);
    for (theirs, name, unit) in COLUMNS {
        let Some(seen) = table.under_load(theirs) else {
            continue;
        };
        found.set(
            name,
            unit,
            Number {
                value: seen.median,
                half: 0.5,
            },
        );
        if let Some(figure) = found.reported.figures.last_mut() {
            figure.range = Some((seen.min, seen.max));
        }
    }
    found
}

fn of_mpstat(block: &Mpstat, lines: (u32, u32)) -> Found {
    const COLUMNS: [(&str, &str); 7] = [
        ("usr", "user"),
        ("sys", "system"),
        ("soft", "softirq"),
        ("irq", "irq"),
        ("iowait", "iowait"),
        ("steal", "steal"),
        ("idle", "idle"),
    ];
    let mut found = observation("mpstat", lines);
    let averaged = block.rows.iter().any(|(_, _, average)| *average);
    let mut cpus: Vec<&str> = Vec::new();
    for (cpu, _, average) in &block.rows {
        if *average == averaged && !cpus.contains(&cpu.as_str()) {
            cpus.push(cpu);
        }
    }
    for cpu in cpus {
        let rows: Vec<&Vec<Number>> = block
            .rows
            .iter()
            .filter(|(c, _, average)| c == cpu && *average == averaged)
            .map(|(_, numbers, _)| numbers)
            .collect();
        let owner = if cpu == "all" {
            "cpu".to_owned()
        } else {
            format!("cpu{cpu}")
        };
        for (theirs, ours) in COLUMNS {
            let Some(at) = block.columns.iter().position(|c| c == theirs) else {
                continue;
            };
            let values: Vec<Number> = rows.iter().map(|row| row[at]).collect();
            let n = values.len() as f64;
            let mean = Number {
                value: values.iter().map(|v| v.value).sum::<f64>() / n,
                half: values.iter().map(|v| v.half).fold(0.0, f64::max),
            };
            found.set(format!("{owner}.{ours}"), "%", mean);
        }
    }
    found
}
