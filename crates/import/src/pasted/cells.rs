//! A table of any tool, for a text in which nothing else was found: a head of names, and rows with numbers below it.
//!
//! Bars, tabs, commas and gaps part its cells. What is told is the row that is largest by the column that tells most:
//! one that counts what went wrong, then a time, a share, a number. Two rows that are called before and after, or two
//! tables with the same head, are a comparison, of which the measure that changed most is told. The surprise is the
//! unit, which stands in the cell (`249 ms`), behind a bracket in the head (`Query Time (ms)`), or nowhere.

use super::about;
use super::events::{artefact, told};
use super::growths::{POWER, Point, STEP, grown};
use super::pairs::{beside, columns_switched, rows_switched};
use super::pieces::{apart, by_sixties, middle, seconds, short, value};
use record::pasted::{Artefact, Row};

/// More cells than that are data.
const WIDEST: usize = 30;
/// Characters of a name of a column.
const NAME: usize = 60;
/// Cells of a row that are told.
const TOLD: usize = 5;
/// Rows that are told.
const ROWS: usize = 3;
/// A measure changed that is so many times another.
const CHANGED: f64 = 1.15;

/// Words of columns that count what went wrong.
const WRONG: [&str; 20] = [
    "err", "fail", "reject", "drop", "timeout", "refus", "wait", "queue", "block", "pending",
    "backlog", "overflow", "retr", "lost", "miss", "evict", "throttl", "steal", "kill", "5xx",
];
/// Words of columns that name and do not measure.
const NAMES: [&str; 12] = [
    "id", "pid", "tid", "port", "#", "line", "no", "no.", "uid", "user", "date", "version",
];

/// Heads of a time of day.
const CLOCKS: [&str; 5] = ["time", "timestamp", "when", "start", "started"];

/// What a cell measures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Kind {
    Wrong,
    Time,
    Share,
    Number,
}

pub(super) struct Table {
    pub(super) line: u32,
    /// Columns of blanks before its head.
    indent: usize,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The largest rows of a text's tables, and what changed between two of them.
pub(super) fn read(lines: &[&str]) -> Vec<Artefact> {
    let parted = [bars, tabs, commas, gaps, words];
    let tables = parted.iter().map(|by| tables(lines, *by));
    let Some(tables) = tables.into_iter().find(|t| !t.is_empty()) else {
        return Vec::new();
    };
    let mut done = Vec::new();
    done.extend(tables.iter().find_map(by_size));
    let changes = compared(&tables);
    let beside = beside(&tables).filter(|_| changes.is_none());
    done.extend(changes);
    done.extend(beside);
    done.extend(parts(&tables));
    done.extend(scaling(&tables));
    if done.is_empty() {
        done.extend(tables.iter().find_map(first_is_slow));
    }
    let most = tables.iter().max_by_key(|t| t.rows.len());
    done.extend(most.and_then(largest));
    for found in &mut done {
        about::add(found, lines);
    }
    done
}

/// Tables whose cells are parted that way.
fn tables(lines: &[&str], cells: fn(&str) -> Option<Vec<String>>) -> Vec<Table> {
    let mut done: Vec<Table> = Vec::new();
    let mut open: Option<Table> = None;
    for (number, line) in (1_u32..).zip(lines) {
        if is_rule(line) {
            continue;
        }
        let cells = cells(line).filter(|c| c.len() <= WIDEST);
        // Above a rule of bars a row of numbers names its columns too.
        let ruled = lines
            .get(number as usize)
            .is_some_and(|next| is_rule(next) && next.contains('|') && next.contains("--"));
        if ruled && let Some(head) = &cells {
            done.extend(open.replace(Table {
                line: number,
                indent: 0,
                head: head.clone(),
                rows: Vec::new(),
            }));
            continue;
        }
        // A head that begins further to the right has no name for its first column.
        if let (Some(table), Some(cells)) = (open.as_mut(), &cells)
            && table.rows.is_empty()
            && cells.len() == table.head.len() + 1
            && table.indent > indent(line)
            && measure(&cells[0], "").is_none()
            && cells[1..].iter().all(|c| measure(c, "").is_some())
        {
            table.head.insert(0, String::new());
        }
        let fits = |t: &Table| {
            let cells = cells.as_deref()?;
            let measured = cells
                .iter()
                .zip(&t.head)
                .any(|(c, h)| measure(c, h).is_some());
            (cells.len() == t.head.len() && measured).then(|| cells.to_vec())
        };
        if let Some((table, row)) = open.as_mut().and_then(|t| fits(t).map(|row| (t, row))) {
            table.rows.push(row);
            continue;
        }
        done.extend(open.take());
        open = cells.filter(|c| is_head(c)).map(|head| Table {
            line: number,
            indent: indent(line),
            head,
            rows: Vec::new(),
        });
    }
    done.extend(open);
    done.retain(|t| !t.rows.is_empty());
    done
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

/// A line between a head and its rows: `|---|---:|`, `+-----+`.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.len() > 2
        && line
            .chars()
            .all(|c| "-=+|:_ ".contains(c) || ('\u{2500}'..='\u{257f}').contains(&c))
}

/// Whether cells are names: short ones, of which none is a number but the first, which may be what the table is of.
fn is_head(cells: &[String]) -> bool {
    // `100 threads` is a name.
    let counted = |c: &str| {
        let words: Vec<&str> = c.split_whitespace().collect();
        words.len() == 2
            && words[1].len() >= 4
            && words[1].chars().all(char::is_alphabetic)
            && seconds(&words.concat()).is_none()
    };
    let number = |c: &String| {
        c.starts_with(|c: char| c.is_ascii_digit()) && !is_percentile(c) && !counted(c)
    };
    let letters = |c: &String| c.chars().any(char::is_alphabetic);
    let address = |c: &String| c.matches('.').count() == 3;
    cells.len() >= 2
        && !cells.iter().any(|c| c.ends_with(':'))
        && cells.iter().all(|c| c.len() <= NAME)
        && cells.iter().any(letters)
        && !cells[1..].iter().any(number)
        && (!number(&cells[0]) || address(&cells[0]))
}

/// `99%`, `95th`: a head that names what is measured.
fn is_percentile(head: &str) -> bool {
    head.ends_with('%') || head.ends_with("th")
}

fn trimmed(cell: &str) -> String {
    // `---- Global Information ----|---Total---` of Gatling.
    let cell = match cell.contains("--") {
        true => cell.trim_matches(['-', ' ']),
        false => cell,
    };
    cell.trim_matches(|c: char| c.is_whitespace() || "*`\"'".contains(c))
        .to_owned()
}

/// Cells between bars.
pub(super) fn bars(line: &str) -> Option<Vec<String>> {
    let bar = ['|', '\u{2502}', '\u{2503}'];
    let line = line.trim();
    let inner = line.strip_prefix(bar).unwrap_or(line);
    let inner = inner.strip_suffix(bar).unwrap_or(inner);
    let cells: Vec<String> = inner.split(bar).map(trimmed).collect();
    (cells.len() >= 2).then_some(cells)
}

fn tabs(line: &str) -> Option<Vec<String>> {
    let cells: Vec<String> = line.trim().split('\t').map(trimmed).collect();
    (cells.len() >= 2).then_some(cells)
}

fn commas(line: &str) -> Option<Vec<String>> {
    let cells: Vec<String> = line.trim().split([',', ';']).map(trimmed).collect();
    (cells.len() >= 3).then_some(cells)
}

/// Two spaces and more.
fn gaps(line: &str) -> Option<Vec<String>> {
    let cells = line.trim().split("  ").filter(|c| !c.trim().is_empty());
    let cells: Vec<String> = cells.map(trimmed).collect();
    (cells.len() >= 3).then_some(cells)
}

/// A word a cell, where a row has at least as many numbers as words.
fn words(line: &str) -> Option<Vec<String>> {
    let cells: Vec<String> = line.split_whitespace().map(trimmed).collect();
    let numbers = cells.iter().filter(|c| value(c).is_some()).count();
    let named = numbers == 0 && cells.iter().all(|c| c.len() < 20 && !c.ends_with('.'));
    (cells.len() >= 3 && (named || numbers * 2 >= cells.len())).then_some(cells)
}

/// What a cell says under its head; a time is in seconds where its unit is known.
pub(super) fn measure(cell: &str, head: &str) -> Option<(f64, Kind)> {
    let text = cell.trim_start_matches(['~', '<', '>', '+', '\u{2248}', ' ']);
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let head = head.to_ascii_lowercase();
    if NAMES.contains(&head.as_str()) {
        return None;
    }
    let mut parts = text.split_whitespace();
    let (n, unit) = (parts.next()?, parts.next().unwrap_or_default());
    // Of `2.4-2.5s` the larger end, and of `1.3M/sec` the number.
    let n = n.split_once('-').map_or(n, |(_, end)| end);
    let n = n.split_once('/').map_or(n, |(n, _)| n);
    let wrong = WRONG.iter().any(|w| head.contains(w));
    let kind = |kind: Kind| if wrong { Kind::Wrong } else { kind };
    if n.matches(':').count() >= 2 {
        // Under such a head it is the time of day.
        if CLOCKS.contains(&head.as_str()) {
            return None;
        }
        return Some((by_sixties(n)?, kind(Kind::Time)));
    }
    let unit = unit.trim_matches(|c: char| !c.is_alphabetic() && c != '%');
    let timed = seconds(n).or_else(|| seconds(&format!("{n}{unit}")));
    if let Some(s) = timed.filter(|_| n.ends_with(char::is_alphabetic) || !unit.is_empty()) {
        return Some((s, kind(Kind::Time)));
    }
    let plain = value(n)?;
    if n.ends_with('%') || unit == "%" || head.contains('%') || head.contains("percent") {
        return Some((plain, kind(Kind::Share)));
    }
    let has = |words: &[&str]| words.iter().any(|w| head.contains(w));
    if has(&["(ms", "_ms", "ms)", "millis", " ms"]) || head == "ms" {
        return Some((plain / 1e3, kind(Kind::Time)));
    }
    if has(&["(us", "_us", "\u{b5}s", "micro"]) {
        return Some((plain / 1e6, kind(Kind::Time)));
    }
    if has(&[
        "time", "duration", "latency", "elapsed", "(s)", "_s", "sec", "took",
    ]) && !has(&["/s", "per s", "times"])
    {
        return Some((plain, kind(Kind::Time)));
    }
    Some((plain, kind(Kind::Number)))
}

/// The cells of a row that measure nothing.
fn names<'a>(table: &'a Table, row: &'a [String]) -> impl Iterator<Item = &'a str> {
    let cells = row.iter().zip(&table.head);
    let names = cells.filter(|(c, h)| measure(c, h).is_none());
    names.map(|(c, _)| c.as_str())
}

/// The name of a row: its cells that measure nothing.
pub(super) fn name_of(table: &Table, row: &[String]) -> String {
    let names = names(table, row).filter(|c| !c.is_empty());
    let names: Vec<&str> = names.take(ROWS).collect();
    match names.is_empty() {
        true => format!("{} {}", table.head[0], row[0]),
        false => names.join(" "),
    }
}

/// A row as it is told: what it is sorted by, then its other cells, each with its column.
fn told_row(table: &Table, row: &[String], first: usize) -> String {
    let order = std::iter::once(first).chain((0..row.len()).filter(|at| *at != first));
    let cells = order.filter(|at| measure(&row[*at], &table.head[*at]).is_some());
    let cells = cells.map(|at| format!("{} {}", table.head[at], row[at]).trim().to_owned());
    cells.take(TOLD).collect::<Vec<_>>().join(", ")
}

/// The largest rows of a table, by its column that tells most.
fn largest(table: &Table) -> Option<Artefact> {
    let of = |kind: Kind| {
        let cells = table.rows.iter().enumerate().flat_map(|(r, row)| {
            let cells = row.iter().zip(&table.head).enumerate();
            cells.filter_map(move |(c, (cell, head))| {
                let (n, is) = measure(cell, head)?;
                (is == kind).then_some((r, c, n))
            })
        });
        let most = cells.reduce(|a, b| if b.2 > a.2 { b } else { a });
        most.filter(|(_, _, n)| *n > 0.0)
    };
    let kinds = [Kind::Wrong, Kind::Time, Kind::Share, Kind::Number];
    let (kind, (_, column, most)) = kinds.iter().find_map(|k| Some((*k, of(*k)?)))?;
    let mut found = artefact("table", table.line);
    for row in &table.rows {
        let head = &table.head[column];
        if let Some((n, _)) = measure(&row[column], head).filter(|(n, k)| *n > 0.0 && *k == kind) {
            found.rows.push(Row {
                label: short(&name_of(table, row)),
                place: short(&told_row(table, row, column)),
                share: n,
            });
        }
    }
    found.largest_first();
    let is = |wanted: Kind| f64::from(u8::from(kind == wanted));
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("most", most),
        ("wrong", is(Kind::Wrong)),
        ("times", is(Kind::Time)),
    ] {
        found.figures.insert(format!("cells.{name}"), n);
    }
    told(found)
}

/// Words of how much is asked at a time, and of rates. What grows with a size grows by its nature.
const VARIED: [&str; 9] = [
    "conc", "client", "thread", "conn", "pipelin", "users", "vus", "workers", "parallel",
];
pub(super) const RATES: [&str; 9] = [
    "req/s",
    "rps",
    "qps",
    "tps",
    "/s",
    "throughput",
    "per second",
    "ops",
    "rate",
];
/// Values of it that are at least needed, and how far the last is from the first.
const VALUES: usize = 3;
const FAR: f64 = 3.0;
/// The power of what is asked at a time with which a time grows, from which on the rate hardly grows any more; a rate
/// that grows with a lower one does not either.
const IN_LINE: f64 = 0.7;
const HELD: f64 = 0.4;

/// Points of one column by what was varied.
struct Series {
    line: u32,
    varied: String,
    measured: String,
    kind: Kind,
    /// What was varied, what was measured, and how that is written.
    points: Vec<(f64, f64, String)>,
}

/// A time that grows with the load, or a rate that does not: something is full, or is done one after the other.
fn scaling(tables: &[Table]) -> Option<Artefact> {
    let all = tables
        .iter()
        .flat_map(|t| by_column(t).into_iter().chain(by_head(t)));
    let mut found = artefact("scaling", 0);
    for series in all {
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            continue;
        };
        let far = last.0 / first.0.max(1e-9);
        if series.points.len() < VALUES || far < FAR || first.1 <= 0.0 || last.1 <= 0.0 {
            continue;
        }
        let power = (last.1 / first.1).ln() / far.ln();
        let (figure, share) = match series.kind {
            Kind::Time if power >= IN_LINE => ("scaling.in_line", power),
            Kind::Number if power <= HELD => ("scaling.held", 1.0 - power),
            _ => continue,
        };
        found.begin_at(series.line);
        found.add("scaling.rows", 1.0);
        found.add(figure, 1.0);
        found.rows.push(Row {
            label: short(&format!("{} by {}", series.measured, series.varied)),
            place: format!(
                "{} at {}, {} at {}: {:.1} times for {far:.0} times",
                first.2,
                first.0,
                last.2,
                last.0,
                last.1 / first.1
            ),
            share,
        });
    }
    found.largest_first();
    told(found)
}

fn is_varied(head: &str) -> bool {
    let lower = head.to_ascii_lowercase();
    VARIED.iter().any(|w| lower.contains(w))
}

/// What a load is judged by: a time, or a rate by the words that name it; nothing else.
fn time_or_rate(time: bool, words: &str) -> Option<Kind> {
    let rate = RATES.iter().any(|w| words.contains(w));
    match time {
        true => Some(Kind::Time),
        false => rate.then_some(Kind::Number),
    }
}

/// Columns of a table by one that is varied, in runs of rows in which nothing else is.
fn by_column(table: &Table) -> Vec<Series> {
    let varied: Vec<usize> = (0..table.head.len())
        .filter(|at| is_varied(&table.head[*at]))
        .collect();
    let n = |row: &[String], at: usize| measure(&row[at], &table.head[at]);
    let mut done = Vec::new();
    for at in &varied {
        let grows = |a: &Vec<String>, b: &Vec<String>| {
            let alike = varied
                .iter()
                .all(|other| other == at || a[*other] == b[*other]);
            let (a_n, b_n) = (n(a, *at), n(b, *at));
            let more = a_n.zip(b_n).is_some_and(|(a, b)| b.0 > a.0);
            more && alike && names(table, a).eq(names(table, b))
        };
        for run in table.rows.chunk_by(grows) {
            for measured in (0..table.head.len()).filter(|m| !varied.contains(m)) {
                let points: Option<Vec<_>> = run
                    .iter()
                    .map(|row| Some((n(row, *at)?.0, n(row, measured)?, row[measured].clone())))
                    .collect();
                let Some(points) = points else { continue };
                let head = table.head[measured].to_ascii_lowercase();
                let time = head.contains("latency") || points.iter().all(|p| p.1.1 == Kind::Time);
                let Some(kind) = time_or_rate(time, &head) else {
                    continue;
                };
                done.push(Series {
                    line: table.line,
                    varied: table.head[*at].clone(),
                    measured: table.head[measured].clone(),
                    kind,
                    points: points.into_iter().map(|(x, y, w)| (x, y.0, w)).collect(),
                });
            }
        }
    }
    done
}

/// Rows of a table whose heads are what is varied: `1 thread`, `4 threads`.
fn by_head(table: &Table) -> Vec<Series> {
    let columns: Vec<(usize, f64)> = (0..table.head.len())
        .filter(|at| is_varied(&table.head[*at]))
        .filter_map(|at| Some((at, value(table.head[at].split_whitespace().next()?)?)))
        .collect();
    if columns.len() < VALUES {
        return Vec::new();
    }
    let rows = table.rows.iter().filter_map(|row| {
        let points = columns.iter().map(|(at, x)| {
            let (y, kind) = measure(&row[*at], "")?;
            Some(((*x, y, row[*at].clone()), kind))
        });
        let (mut points, kinds): (Vec<_>, Vec<_>) =
            points.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let written = points.first()?.2.to_ascii_lowercase();
        let kind = time_or_rate(kinds.contains(&Kind::Time), &written)?;
        Some(Series {
            line: table.line,
            varied: table.head[columns[0].0]
                .split_whitespace()
                .nth(1)
                .unwrap_or("it")
                .to_owned(),
            measured: row[0].clone(),
            kind,
            points,
        })
    });
    rows.collect()
}

/// Heads of a size, and those of them that are kept in a database.
const SIZES: [&str; 17] = [
    "rows",
    "records",
    "documents",
    "docs",
    "entries",
    "tuples",
    "n",
    "size",
    "items",
    "elements",
    "objects",
    "events",
    "files",
    "keys",
    "nodes",
    "lines",
    "length",
];
const STORED: [&str; 6] = ["rows", "records", "documents", "docs", "entries", "tuples"];

/// A time that grows faster than the size in the first column, where nothing but it parts the rows.
fn by_size(table: &Table) -> Option<Artefact> {
    let head = table.head[0].to_ascii_lowercase();
    let of = |names: &[&str]| {
        head.split_whitespace()
            .next_back()
            .is_some_and(|w| names.contains(&w))
    };
    let named = table
        .rows
        .iter()
        .any(|row| names(table, row).next().is_some());
    let sizes = table.rows.iter().map(|row| value(&row[0]));
    let sizes: Vec<f64> = sizes.collect::<Option<_>>()?;
    let grows = sizes.len() >= 2 && sizes.windows(2).all(|pair| pair[1] >= STEP * pair[0]);
    if !of(&SIZES) || named || !grows {
        return None;
    }
    let (first, last) = (table.rows.first()?, table.rows.last()?);
    let mut found = artefact("times by size", table.line);
    for (at, name) in table.head.iter().enumerate().skip(1) {
        let point = |row: &[String], size: f64| {
            let (took, kind) = measure(&row[at], name)?;
            (kind == Kind::Time).then(|| Point {
                size: (format!("{} {}", row[0], table.head[0]), size),
                took: (row[at].clone(), took),
            })
        };
        let points = point(first, sizes[0]).zip(point(last, sizes[sizes.len() - 1]));
        found
            .rows
            .extend(points.and_then(|(a, b)| grown(name, &a, &b)));
    }
    found.largest_first();
    let steepest = found.rows.first()?.share;
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("power", steepest),
        ("stored", f64::from(u8::from(of(&STORED)))),
    ] {
        found.figures.insert(format!("bysize.{name}"), n);
    }
    told(found).filter(|_| steepest >= POWER)
}

/// Heads of a column that numbers what was done one after the other.
const SERIES: [&str; 9] = [
    "wave", "round", "run", "iter", "request", "attempt", "try", "call", "batch",
];
/// The first of a series is told where it is so many times the others.
const FIRST: f64 = 3.0;

/// A series whose first row is far above the others: what only the first has to do.
fn first_is_slow(table: &Table) -> Option<Artefact> {
    let numbers = |at: usize| -> Vec<f64> {
        let cells = table.rows.iter();
        let cells = cells.map_while(|r| Some(measure(&r[at], &table.head[at])?.0));
        cells.collect()
    };
    let series = table.head.iter().position(|h| {
        let lower = h.to_ascii_lowercase();
        SERIES.iter().any(|s| lower.starts_with(s))
    })?;
    let order: Vec<f64> = numbers(series);
    let next = |pair: &[f64]| (pair[1] - pair[0] - 1.0).abs() < 1e-9;
    if order.len() < 3 || !order.windows(2).all(next) || order[0] > 1.0 {
        return None;
    }
    let mut found = artefact("series", table.line);
    for at in (0..table.head.len()).filter(|at| *at != series) {
        let n = numbers(at);
        let Some((first, rest)) = n.split_first().filter(|_| n.len() == order.len()) else {
            continue;
        };
        let most = rest.iter().copied().fold(0.0, f64::max);
        if most > 0.0 && *first >= FIRST * most {
            let others = table.rows[1..].iter().map(|r| r[at].as_str());
            let others: Vec<&str> = others.take(ROWS).collect();
            found.rows.push(Row {
                label: table.head[at].clone(),
                place: format!("{}, then {}", table.rows[0][at], others.join(", ")),
                share: first / most,
            });
        }
    }
    found.largest_first();
    let most = found.rows.first()?.share;
    let rows = found.rows.len() as f64;
    found.figures.insert("series.rows".into(), rows);
    found.figures.insert("series.most".into(), most);
    told(found)
}

/// Names of what was before a change, and of what is behind it.
pub(super) const BEFORE: [&str; 9] = [
    "before", "old", "baseline", "base", "master", "main", "without", "previous", "current",
];
pub(super) const AFTER: [&str; 12] = [
    "after",
    "new",
    "branch",
    "fix",
    "patch",
    "with ",
    "optimi",
    "this pr",
    "this branch",
    "this change",
    "this commit",
    "now",
];

/// Whether a name begins with one of the words, or has one in brackets.
pub(super) fn is_called(name: &str, words: &[&str]) -> bool {
    let lower = name.trim().to_ascii_lowercase();
    words
        .iter()
        .any(|w| lower.starts_with(w) || lower.contains(&format!("({w}")))
}

/// A measure before and after: its name, its two cells and numbers.
pub(super) type Change = (String, String, String, f64, f64);

/// What changed most between two rows, two columns or two tables.
fn compared(tables: &[Table]) -> Option<Artefact> {
    let line = tables.first()?.line;
    let of = |by: fn(&Table) -> Option<Vec<Change>>| {
        tables
            .iter()
            .find_map(|t| by(t).map(changed).filter(|rows| !rows.is_empty()))
    };
    let rows = of(rows_compared)
        .or_else(|| of(columns_compared))
        .or_else(|| of(columns_switched))
        .or_else(|| of(rows_switched))
        .or_else(|| of(settings_compared))
        .or_else(|| two_tables(tables).map(changed))?;
    comparison(line, rows, usize::MAX)
}

/// Of measures before and after those that changed.
fn changed(changes: Vec<Change>) -> Vec<Row> {
    let rows = changes.into_iter();
    let rows = rows.filter_map(|(name, before, after, a, b)| {
        let times = apart(a, b);
        (times >= CHANGED && a.max(b) > 0.0).then(|| Row {
            label: short(&name),
            place: short(&format!("{before} -> {after}")),
            share: times,
        })
    });
    rows.collect()
}

/// Heads of a column that names the parts of one request or run.
const PARTS: [&str; 7] = [
    "stage",
    "phase",
    "step",
    "span",
    "part",
    "segment",
    "server-timing",
];
/// Fewer rows are no list of parts.
const FEW: usize = 3;

/// A table whose rows are the parts of a request's time, one measure each.
fn parts(tables: &[Table]) -> Option<Artefact> {
    tables.iter().find_map(|table| {
        let head = table.head[0].to_ascii_lowercase();
        let [_, time] = table.head.as_slice() else {
            return None;
        };
        let times = table.rows.iter().filter_map(|row| {
            let (s, kind) = measure(&row[1], time)?;
            let whole = row[1].starts_with(|c: char| c.is_ascii_digit());
            (kind == Kind::Time && whole).then_some((s, row))
        });
        let times: Vec<_> = times.collect();
        if !PARTS.iter().any(|p| head.starts_with(p)) || times.len() < FEW {
            return None;
        }
        let sum: f64 = times.iter().map(|(s, _)| s).sum();
        let mut found = artefact("parts of a request", table.line);
        for (s, row) in &times {
            found.rows.push(Row {
                label: short(&row[0]),
                place: short(&format!("{} {}", row[1], unit_in(time))),
                share: *s,
            });
        }
        found.largest_first();
        for (name, n) in [
            ("rows", times.len() as f64),
            ("sum_s", sum),
            ("first", found.rows[0].share / sum.max(f64::MIN_POSITIVE)),
        ] {
            found.figures.insert(format!("parts.{name}"), n);
        }
        told(found).filter(|_| sum > 0.0)
    })
}

/// A head that is a unit alone: `ms`.
fn unit_in(head: &str) -> &str {
    match seconds(&format!("1{head}")) {
        Some(_) => head,
        None => "",
    }
}

/// Units and names of what a link carries, in small letters.
const BITS: [&str; 6] = ["bit/s", "bits/s", "gbps", "mbps", "kbps", "goodput"];

/// Measures before and after, those that changed most first, each with how many times it changed as its share; `most`
/// of them are kept.
pub(super) fn comparison(line: u32, rows: Vec<Row>, most: usize) -> Option<Artefact> {
    let mut found = artefact("comparison", line);
    found.rows = rows;
    found.largest_first();
    found.rows.truncate(most);
    let first = found.rows.first()?;
    let times = first.share;
    let named = format!("{} {}", first.label, first.place).to_ascii_lowercase();
    let bits = BITS.iter().any(|unit| named.contains(unit));
    for (name, n) in [
        ("rows", found.rows.len() as f64),
        ("most", times),
        ("bits", f64::from(u8::from(bits))),
    ] {
        found.figures.insert(format!("compared.{name}"), n);
    }
    told(found)
}

/// `Before | 578 | 6950` above `After | 21 | 400`.
fn rows_compared(table: &Table) -> Option<Vec<Change>> {
    let called = |words: &[&str]| table.rows.iter().find(|r| is_called(&r[0], words));
    let (before, after) = (called(&BEFORE)?, called(&AFTER)?);
    let columns = (0..table.head.len()).filter_map(|at| {
        let head = &table.head[at];
        let n = |row: &[String]| Some(measure(&row[at], head)?.0);
        Some((
            head.clone(),
            before[at].clone(),
            after[at].clone(),
            n(before)?,
            n(after)?,
        ))
    });
    Some(columns.collect())
}

/// Columns that are called `Before` and `After`.
fn columns_compared(table: &Table) -> Option<Vec<Change>> {
    let called = |words: &[&str]| table.head.iter().position(|h| is_called(h, words));
    let (before, after) = (called(&BEFORE)?, called(&AFTER)?);
    let rows = table.rows.iter().filter_map(|row| {
        let n = |at: usize| Some(measure(&row[at], &table.head[at])?.0);
        Some((
            name_of(table, row),
            row[before].clone(),
            row[after].clone(),
            n(before)?,
            n(after)?,
        ))
    });
    Some(rows.collect()).filter(|_| before != after)
}

/// Columns that are called by the values of one setting, as `2 (default)`, `10`, `100`: the middle of each beside the
/// first's.
fn settings_compared(table: &Table) -> Option<Vec<Change>> {
    let set = |head: &String| {
        let first = head.split_whitespace().next()?;
        value(first).filter(|_| !is_percentile(first))
    };
    let columns: Vec<usize> = (0..table.head.len())
        .filter(|at| set(&table.head[*at]).is_some())
        .collect();
    let of = |at: usize| {
        let cells = table.rows.iter();
        let cells = cells.map(|row| Some((measure(&row[at], "")?.0, &row[at])));
        middle(cells.collect::<Option<Vec<_>>>()?)
    };
    let (first, rest) = columns.split_first()?;
    let (a, before) = of(*first)?;
    let changes = rest.iter().filter_map(|at| {
        let (b, after) = of(*at)?;
        let name = format!("with {} and with {}", table.head[*first], table.head[*at]);
        Some((name, before.clone(), after.clone(), a, b))
    });
    Some(changes.collect()).filter(|c: &Vec<Change>| !c.is_empty())
}

/// Two tables with one head: rows of the same name, by the last column that measures.
fn two_tables(tables: &[Table]) -> Option<Vec<Change>> {
    let [first, second, ..] = tables else {
        return None;
    };
    // The first cell may be what each is of.
    if first.head[1..] != second.head[1..] {
        return None;
    }
    let bare = |table: &Table, row: &[String]| {
        let name = name_of(table, row);
        name.trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
    };
    let changes = first.rows.iter().flat_map(|row| {
        let name = bare(first, row);
        let other = second.rows.iter().find(|r| bare(second, r) == name);
        let columns = (0..row.len()).filter_map(move |at| {
            let (head, other) = (&first.head[at], other?);
            Some((
                format!("{} {head}", name_of(first, row)),
                row[at].clone(),
                other[at].clone(),
                measure(&row[at], head)?.0,
                measure(&other[at], head)?.0,
            ))
        });
        columns.collect::<Vec<_>>()
    });
    Some(changes.collect())
}

#[cfg(test)]
pub(in crate::pasted) mod tests {
    use super::*;

    pub(in crate::pasted) fn rows(text: &str, tool: &str) -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        let found = read(&lines).into_iter().find(|a| a.tool == tool);
        let rows = found.map(|a| a.rows).unwrap_or_default();
        rows.iter()
            .map(|r| format!("{}: {}", r.label, r.place))
            .collect()
    }

    #[test]
    fn the_largest_row_is_told_with_its_columns() {
        let text =
            "| call | count | avg |\n|--|--|--|\n| load | 4 | 12 ms |\n| save | 9 | 1.2 s |\n";
        assert_eq!(rows(text, "table")[0], "save: avg 1.2 s, count 9");
        // What went wrong comes before what is long.
        let text = "node  errors  time(ms)\na  0  900\nb  7  20\n";
        assert_eq!(rows(text, "table"), ["b: errors 7, time(ms) 20"]);
        let csv = "name,calls,ms\nindex,3,40\nshow,1,90\n";
        assert_eq!(rows(csv, "table")[0], "show: ms 90, calls 1");
        assert!(rows("some words\nand some more words\n", "table").is_empty());
    }

    #[test]
    fn a_time_of_day_names_and_a_range_measures_by_its_end() {
        let text = "TIME  COMM  LAT(us)\n04:30:27  kworker  7500\n04:30:31  cadvisor  6891\n";
        assert_eq!(rows(text, "table")[0], "04:30:27 kworker: LAT(us) 7500");
        let text = "page,took,n\n/a,2.4-2.5s,9\n/b,1.0-6.0s,7\n";
        assert_eq!(rows(text, "table")[0], "/b: took 1.0-6.0s, n 7");
    }

    #[test]
    fn what_grows_with_the_load_is_told_and_what_grows_with_a_size_is_not() {
        let text =
            "| clients | latency |\n|--|--|\n| 10 | 5 ms |\n| 20 | 10 ms |\n| 50 | 25 ms |\n";
        let found = rows(text, "scaling");
        assert_eq!(
            found,
            ["latency by clients: 5 ms at 10, 25 ms at 50: 5.0 times for 5 times"]
        );
        assert!(rows(&text.replace("clients", "rows"), "scaling").is_empty());
        let text = "run\t1 threads\t4 threads\t100 threads\nnew\t1M/sec\t1.3M/sec\t1.1M/sec\n";
        assert_eq!(rows(text, "scaling").len(), 1);
        let grows = text.replace("1.3M", "4M").replace("1.1M", "90M");
        let lines: Vec<&str> = grows.lines().collect();
        assert!(read(&lines).iter().all(|a| a.tool != "scaling"), "{grows}");
    }

    #[test]
    fn a_time_that_grows_faster_than_the_rows_is_told() {
        let text = "| rows | eligible | time |\n|---|---|---|\n| 1,000 | 900 | 2s |\n| 4,000 | 3,600 | 32s |\n";
        let found = rows(text, "times by size");
        let told = "time: 2s at 1,000 rows, 32s at 4,000 rows: 16.0 times for 4 times the size";
        assert_eq!(found, [told]);
        assert!(rows(&text.replace("32s", "9s"), "times by size").is_empty());
        // Of other statements each has its own time, and a load is no size.
        let named = text
            .replace("eligible", "table")
            .replace("900", "a")
            .replace("3,600", "b");
        assert!(rows(&named, "times by size").is_empty());
        assert!(rows(&text.replace("rows", "clients"), "times by size").is_empty());
    }

    #[test]
    fn columns_of_a_setting_are_compared_and_percentiles_are_none() {
        let text = "| 2 (default) | 10 |\n|--|--|\n| 8.2 | 7.0 |\n| 8.4 | 6.9 |\n| 8.8 | 7.1 |\n";
        let found = rows(text, "comparison");
        assert_eq!(found, ["with 2 (default) and with 10: 8.4 -> 7.0"]);
        let shares = text
            .replace("2 (default)", "50%")
            .replace("| 10 |", "| 99% |");
        assert!(rows(&shares, "comparison").is_empty());
    }

    #[test]
    fn the_parts_of_a_request_are_told_by_their_share() {
        let text = "| phase | ms |\n|--|--|\n| auth | 12 |\n| render | 310.5 |\n| store | 90 |\n";
        assert_eq!(rows(text, "parts of a request")[0], "render: 310.5 ms");
        assert!(rows(&text.replace("phase", "host"), "parts of a request").is_empty());
    }

    #[test]
    fn two_rows_or_columns_are_compared() {
        let text =
            "| | queries | ms |\n|--|--|--|\n| Before | 578 | 6950 |\n| After | 21 | 400 |\n";
        assert_eq!(
            rows(text, "comparison"),
            ["queries: 578 -> 21", "ms: 6950 -> 400"]
        );
        let text =
            "| what | old | new |\n|--|--|--|\n| p99 | 60 ms | 20 ms |\n| p50 | 9 ms | 9 ms |\n";
        assert_eq!(rows(text, "comparison"), ["p99: 60 ms -> 20 ms"]);
    }
}
