//! Tables of numbers in a text: a client sweep with minimum, mean and maximum, dpdk-httpperf's table, and tables with
//! a caption whose rows and columns are levels.
//!
//! A sweep's head and rows are words, so that a mail that lost all its line ends is still read. A captioned table
//! needs the marks between its cells (tabs or bars), because heads of several words cannot be told apart
//! without them. The surprise is a column that a table calls a gain: it is computed again from the figures and
//! compared, not imported.

use super::found::{Found, Harvest, Nature};
use super::text::{Number, Word, count, duration, number, percent, percentile_name, thousands};
use record::{GainKind, LatencyBase, ReportedFigure};

/// What a column of a sweep holds.
#[derive(Clone, Debug, PartialEq)]
enum Column {
    /// A level.
    Axis(&'static str),
    Min,
    Mean,
    Max,
    /// A latency, by the name behind the point.
    Latency(String),
    /// A time of day.
    Clock,
    /// User and system share of a side, `99+1`.
    Cpu(&'static str),
}

fn column(word: &str) -> Option<Column> {
    let name = word.trim_end_matches([',', ':']).to_ascii_lowercase();
    Some(match name.as_str() {
        "clients" => Column::Axis("clients"),
        "connections" | "conns" | "conn" | "concurrency" => Column::Axis("connections"),
        "proc" | "procs" | "processes" => Column::Axis("processes"),
        "threads" => Column::Axis("threads"),
        "workers" => Column::Axis("workers"),
        "min" => Column::Min,
        "avg" | "ave" | "average" | "mean" | "rpsavg" | "req/s" | "rps" => Column::Mean,
        "max" | "rpsmax" => Column::Max,
        "time" => Column::Clock,
        "cpu_c" => Column::Cpu("generator"),
        "cpu_s" => Column::Cpu("server"),
        "latmax" => Column::Latency("max".to_owned()),
        "latavg" => Column::Latency("mean".to_owned()),
        latency => {
            let percentile = latency.strip_prefix("lat")?.parse::<f64>().ok()?;
            Column::Latency(
                percentile_name("", percentile)
                    .trim_start_matches('.')
                    .to_owned(),
            )
        }
    })
}

/// All sweeps.
pub(crate) fn sweeps(words: &[Word<'_>]) -> Harvest {
    let mut harvest = Harvest::default();
    let mut at = 0;
    while at < words.len() {
        let columns: Vec<Column> = words[at..].iter().map_while(|w| column(w.text)).collect();
        let has = |c: &Column| columns.contains(c);
        let axes = columns
            .iter()
            .filter(|c| matches!(c, Column::Axis(_)))
            .count();
        let starts = matches!(columns.first(), Some(Column::Axis(_)));
        if !starts || !has(&Column::Mean) || columns.len() < 3 || axes > 3 {
            at += 1;
            continue;
        }
        at = sweep(words, at, &columns, &mut harvest);
    }
    harvest
}

/// Reads one sweep whose head begins at `head`; the index behind it.
fn sweep(words: &[Word<'_>], head: usize, columns: &[Column], harvest: &mut Harvest) -> usize {
    let latencies = columns.iter().any(|c| matches!(c, Column::Latency(_)));
    let tool = if latencies { "dpdk-httpperf" } else { "table" };
    let context = &words[head.saturating_sub(14)..head];
    let is_rate = |w: &Word<'_>| {
        let word = w.text.to_ascii_lowercase();
        word.contains("second") || word.contains("req/s") || word.contains("rps")
    };
    let rate = latencies
        || context.iter().any(is_rate)
        || words[head..head + columns.len()].iter().any(is_rate);
    let label = label(words, head);
    let first = head + columns.len();
    let mut at = first;
    while let Some(cells) = row(words, at, columns) {
        let line = words[at].line;
        let next = at + columns.len();
        let mut found = Found::new(Nature::Cell, tool, LatencyBase::Unknown, line);
        found.reach(words[next - 1].line);
        found.levels.extend(label.clone());
        match fill(&mut found, columns, &cells) {
            Ok(()) if rate => harvest.found.push(found),
            Ok(()) => {
                let why =
                    "a row of a table that does not say that its figures are rates".to_owned();
                harvest.left_out.push((line, line, why));
            }
            Err(why) => harvest.left_out.push((line, line, why)),
        }
        at = next;
    }
    if at == first {
        let line = words[head].line;
        let why = "the head of a table without a row behind it".to_owned();
        harvest.left_out.push((line, line, why));
    }
    at
}

/// One cell: a number, or two of a sum.
#[derive(Clone, Copy)]
enum Cell {
    Number(Number),
    Sum(Number, Number),
    Clock,
}

fn row(words: &[Word<'_>], at: usize, columns: &[Column]) -> Option<Vec<Cell>> {
    let cells = columns.iter().enumerate().map(|(i, column)| {
        let text = words.get(at + i)?.text.trim_end_matches([',', ';']);
        Some(match column {
            Column::Axis(_) => Cell::Number(Number::exact(count(text)?)),
            Column::Min | Column::Mean | Column::Max => Cell::Number(thousands(text)?),
            Column::Latency(_) => Cell::Number(duration(text)?),
            Column::Clock => {
                let parts: Option<Vec<f64>> = text.split(':').map(count).collect();
                parts.filter(|p| p.len() >= 2)?;
                Cell::Clock
            }
            Column::Cpu(_) => {
                let (user, system) = text.split_once('+')?;
                Cell::Sum(number(user)?, number(system)?)
            }
        })
    });
    cells.collect()
}

fn fill(found: &mut Found, columns: &[Column], cells: &[Cell]) -> Result<(), String> {
    let (mut mean, mut range) = (None, (None, None));
    for (column, cell) in columns.iter().zip(cells) {
        match (column, *cell) {
            (Column::Axis(name), Cell::Number(n)) => {
                found.levels.push(((*name).to_owned(), n.value.to_string()));
                let figure = if *name == "clients" {
                    "connections"
                } else {
                    name
                };
                found.set_count(figure, n.value);
            }
            (Column::Min, Cell::Number(n)) => range.0 = Some(n.value),
            (Column::Mean, Cell::Number(n)) => mean = Some(n),
            (Column::Max, Cell::Number(n)) => range.1 = Some(n.value),
            (Column::Latency(which), Cell::Number(n)) => {
                found.set_ns(format!("latency_ns.{which}"), n);
            }
            (Column::Cpu(side), Cell::Sum(user, system)) => {
                found.set(format!("{side}_cpu.user"), "%", user);
                found.set(format!("{side}_cpu.system"), "%", system);
            }
            _ => {}
        }
    }
    let mean = mean.ok_or("a row without a mean")?;
    found.set("rate_per_s", "1/s", mean);
    let low = range.0.unwrap_or(mean.value);
    let high = range.1.unwrap_or(mean.value);
    if low > mean.value + mean.half || high < mean.value - mean.half {
        return Err(format!(
            "a row whose mean of {} is not between {low} and {high}",
            mean.value
        ));
    }
    // One end alone is a figure of its own.
    match range {
        (Some(low), Some(high)) => {
            for figure in found
                .reported
                .figures
                .iter_mut()
                .filter(|f| f.name == "rate_per_s")
            {
                figure.range = Some((low, high));
            }
        }
        (None, Some(high)) => {
            found.set(
                "rate_per_s.max",
                "1/s",
                Number {
                    value: high,
                    half: mean.half,
                },
            );
        }
        _ => {}
    }
    if mean.value <= 0.0 {
        // Times of no answer.
        found
            .reported
            .figures
            .retain(|f| !f.name.starts_with("latency_ns."));
    }
    found.consistent(0.0)
}

/// `2 driverthreads:` in front of a sweep: level 2 of the factor driverthreads; any other words are a case.
fn label(words: &[Word<'_>], head: usize) -> Option<(String, String)> {
    const FAR: usize = 12;
    let from = head.saturating_sub(FAR);
    let end = (from..head).rev().find(|i| words[*i].text.ends_with(':'))?;
    let ends = |w: &Word<'_>| w.text.ends_with(['.', ';', ',', ':']);
    let start = (from..end)
        .rev()
        .take_while(|i| !ends(&words[*i]) && words[*i].line == words[end].line)
        .last()
        .unwrap_or(end);
    let label: Vec<&str> = words[start..=end].iter().map(|w| w.text).collect();
    match label.as_slice() {
        [n, what] if count(n).is_some() => {
            let what = what
                .trim_end_matches(':')
                .trim_end_matches('s')
                .to_lowercase();
            Some((format!("{what}s"), (*n).to_owned()))
        }
        words => Some((
            "case".to_owned(),
            words.join(" ").trim_end_matches(':').to_owned(),
        )),
    }
}

/// The cells of a line that is separated by tabs or bars; `None` for any other line.
fn cells(line: &str) -> Option<Vec<&str>> {
    let line = line.trim_matches([' ', '\r']);
    let split: Vec<&str> = if line.contains('|') {
        line.trim_matches('|').split('|').map(str::trim).collect()
    } else {
        line.split('\t').map(str::trim).collect()
    };
    (split.len() >= 2).then_some(split)
}

/// What the figures of a captioned table are.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    factor: f64,
}

impl Quantity {
    fn of(caption: &str) -> Self {
        let caption = caption.to_lowercase();
        let has = |word: &str| caption.contains(word);
        let latency = has("latency") || has("response time");
        let (name, unit, factor) = if latency {
            let words: Vec<&str> = caption.split(|c: char| !c.is_alphanumeric()).collect();
            let unit = |names: &[&str]| names.iter().any(|n| words.contains(n));
            if unit(&["ms", "milliseconds"]) {
                ("latency_ns", "ns", 1e6)
            } else if unit(&["us", "microseconds"]) {
                ("latency_ns", "ns", 1e3)
            } else {
                ("latency", "", 1.0)
            }
        } else if has("gbps") || has("gbit/s") {
            ("transfer_bits_per_s", "bit/s", 1e9)
        } else if has("mbps") || has("mbit/s") {
            ("transfer_bits_per_s", "bit/s", 1e6)
        } else if has("per second") || has("req/s") || has("/sec") || has("rps") {
            ("rate_per_s", "1/s", 1.0)
        } else {
            ("value", "", 1.0)
        };
        Self { name, unit, factor }
    }
}

/// All captioned tables; levels of the columns belong to the factor `case`.
pub(crate) fn grids(text: &str) -> Harvest {
    let mut harvest = Harvest::default();
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        match head(lines[at]) {
            Some(columns) => at = grid(&lines, at, &columns, &mut harvest),
            None => at += 1,
        }
    }
    harvest
}

fn head(line: &str) -> Option<Vec<&str>> {
    let cells = cells(line)?;
    let name = |c: &&str| !c.is_empty() && c.chars().any(char::is_alphabetic);
    (cells.len() >= 3 && cells.iter().all(name)).then_some(cells)
}

/// A row: its level, and a cell for each further column that has one.
fn grid_row(line: &str, columns: usize) -> Option<(Number, Vec<&str>)> {
    let cells = cells(line)?;
    let level = number(cells[0])?;
    let some = cells[1..].iter().any(|c| number(c).is_some());
    (some && cells.len() <= columns).then(|| (level, cells[1..].to_vec()))
}

fn is_rule(line: &str) -> bool {
    let marks = |c: char| ['|', '-', ':', ' ', '+', '='].contains(&c);
    line.trim().is_empty() || line.chars().all(marks)
}

fn grid(lines: &[&str], head: usize, columns: &[&str], harvest: &mut Harvest) -> usize {
    let mut rows: Vec<(usize, Number, Vec<&str>)> = Vec::new();
    let mut at = head + 1;
    while let Some(line) = lines.get(at) {
        if let Some((level, cells)) = grid_row(line, columns.len()) {
            rows.push((at, level, cells));
        } else if !is_rule(line) {
            break;
        }
        at += 1;
    }
    // Two numbers side by side stand in many texts; a table has rows.
    if rows.len() < 2 {
        return head + 1;
    }
    let last = rows.last().map_or(head, |r| r.0);
    let caption = caption(lines, head);
    let gains = gains(columns, &rows);
    let quantity = Quantity::of(&caption);
    let mut noted = gains.note();
    for (line, level, cells) in &rows {
        for (i, name) in columns.iter().enumerate().skip(1) {
            let value = cells.get(i - 1).and_then(|c| number(c));
            let (Some(value), false) = (value, gains.is_gain(i)) else {
                continue;
            };
            let line = u32::try_from(line + 1).unwrap_or(u32::MAX);
            let mut found = Found::new(Nature::Cell, "table", LatencyBase::Unknown, line);
            found.stage = Some(caption.clone());
            found.levels = vec![
                (factor_name(columns[0]), plain_level(level.value)),
                ("case".to_owned(), (*name).to_owned()),
            ];
            axis(&mut found, columns[0], *level);
            let scaled = value.times(quantity.factor);
            let mut figure =
                ReportedFigure::new(quantity.name, quantity.unit, scaled.value, scaled.half);
            figure.gain = gains.kind;
            found.reported.figures.push(figure);
            found.notes.extend(noted.take());
            harvest.found.push(found);
        }
    }
    last + 1
}

fn plain_level(value: f64) -> String {
    value.to_string()
}

/// A first column that is a load makes the row's load known.
fn axis(found: &mut Found, head: &str, level: Number) {
    let head = head.to_lowercase();
    if head.contains("per second") || head.contains("req/s") {
        found.set("offered_per_s", "1/s", level);
    } else if ["clients", "connections", "concurrency"].contains(&head.as_str()) {
        found.set_count("connections", level.value);
    }
}

/// `Worker processes` as a factor: `worker_processes`.
fn factor_name(head: &str) -> String {
    let name: String = head
        .to_lowercase()
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' })
        .collect();
    match name.trim_matches('_') {
        "requests_per_second" => "offered_per_s".to_owned(),
        name => name.to_owned(),
    }
}

/// The text in front of a table, `Table 1:` taken away.
fn caption(lines: &[&str], head: usize) -> String {
    let before = lines[head.saturating_sub(4)..head].iter().rev();
    let line = before
        .map(|l| l.trim())
        .find(|l| !l.is_empty() && !is_rule(l));
    let line = line.unwrap_or("table").trim_start_matches('#').trim();
    let numbered = line.split_once(':').filter(|(head, rest)| {
        let head = head.to_lowercase();
        (head.starts_with("table") || head.starts_with("figure")) && !rest.trim().is_empty()
    });
    numbered
        .map_or(line, |(_, rest)| rest.trim())
        .trim_end_matches(':')
        .to_owned()
}

/// Columns that repeat what follows from the others.
struct Gains {
    /// Index of a gain's column and of the one that it is about.
    of: Vec<(usize, usize)>,
    kind: GainKind,
    printed: usize,
    agree: usize,
}

impl Gains {
    fn is_gain(&self, column: usize) -> bool {
        self.of.iter().any(|(gain, _)| *gain == column)
    }

    fn note(&self) -> Option<String> {
        let how = match self.kind {
            GainKind::Change => "value / first column - 1",
            GainKind::SpeedUp => "first column / value - 1",
        };
        (self.printed > 0).then(|| {
            format!(
                "{} printed gains computed again as {how}: {} agree within one per cent point, {} do not",
                self.printed,
                self.agree,
                self.printed - self.agree
            )
        })
    }
}

fn gains(columns: &[&str], rows: &[(usize, Number, Vec<&str>)]) -> Gains {
    let of = columns.iter().enumerate().filter_map(|(i, name)| {
        let name = name.to_lowercase();
        let about = ["gain", "change", "speedup", "improvement"]
            .iter()
            .find_map(|word| name.strip_suffix(word))?;
        let about = about.trim();
        let column = columns.iter().position(|c| c.to_lowercase() == about)?;
        (column > 1).then_some((i, column))
    });
    let of: Vec<(usize, usize)> = of.collect();
    let agreeing = |kind: GainKind| -> (usize, usize) {
        let (mut printed, mut agree) = (0, 0);
        for (_, _, cells) in rows {
            for (gain, column) in &of {
                let cell = |i: usize| cells.get(i - 1).copied();
                let said = cell(*gain).and_then(percent);
                let (base, value) = (cell(1).and_then(number), cell(*column).and_then(number));
                let (Some(said), Some(base), Some(value)) = (said, base, value) else {
                    continue;
                };
                let computed = match kind {
                    GainKind::Change => value.value / base.value - 1.0,
                    GainKind::SpeedUp => base.value / value.value - 1.0,
                };
                printed += 1;
                agree += usize::from((computed * 100.0 - said.value).abs() < 1.0);
            }
        }
        (printed, agree)
    };
    let (change, speed_up) = (agreeing(GainKind::Change), agreeing(GainKind::SpeedUp));
    let kind = if speed_up.1 > change.1 {
        GainKind::SpeedUp
    } else {
        GainKind::Change
    };
    let (printed, agree) = if kind == GainKind::SpeedUp {
        speed_up
    } else {
        change
    };
    Gains {
        of,
        kind,
        printed,
        agree,
    }
}
