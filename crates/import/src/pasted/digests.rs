//! Statistics of statements: which one takes most of a database's time, by whatever counts them.
//!
//! pt-query-digest (its profile and its parts by query), mysqldumpslow, pgBadger's lists, `pg_stat_statements` and
//! `sys.statement_analysis`. All become the same: a statement with its share, calls, times and rows; the one with most
//! time is the case. The surprise is pt-query-digest's own form, whose parts are comments with the statement below
//! them, and which a paste often ends before.

use super::events::{artefact, told};
use super::pieces::{by_sixties, short, value};
use record::pasted::{Artefact, Row};

/// What is known of a statement.
#[derive(Clone, Debug, Default)]
struct Statement {
    line: u32,
    text: String,
    /// Of the time of all.
    share: Option<f64>,
    calls: Option<f64>,
    total_s: Option<f64>,
    mean_s: Option<f64>,
    /// Of its whole time what it waited for blocks to be read and written.
    io_s: Option<f64>,
    rows_read: Option<f64>,
    rows_sent: Option<f64>,
}

impl Statement {
    fn at(line: u32) -> Self {
        Self {
            line,
            ..Self::default()
        }
    }

    /// What it takes of the whole, as far as that is known.
    fn weight(&self) -> f64 {
        let product = || Some(self.mean_s? * self.calls?);
        let known = self.total_s.or_else(product).or(self.share);
        known.or(self.mean_s).unwrap_or(0.0)
    }

    fn is_known(&self) -> bool {
        self.total_s.or(self.mean_s).or(self.share).is_some()
    }

    /// `1204 times, 0.34 s each, reads 46900 rows to return 10`.
    fn told(&self) -> String {
        let mut parts = Vec::new();
        if let Some(n) = self.calls {
            parts.push(format!("{n:.0} times"));
        }
        if let Some(s) = self.mean_s {
            parts.push(match s {
                s if s < 1.0 => format!("{} ms each", trimmed(s * 1e3)),
                s => format!("{} s each", trimmed(s)),
            });
        }
        let io = self.io_s.zip(self.total_s.filter(|s| *s > 0.0));
        if let Some((io, all)) = io {
            let share = io / all * 100.0;
            parts.push(format!("{share:.0} % of that for blocks from the disk"));
        }
        if let Some(read) = self.rows_read {
            let sent = self.rows_sent.map(|n| format!(" to return {n:.0}"));
            parts.push(format!("reads {read:.0} rows{}", sent.unwrap_or_default()));
        }
        parts.join(", ")
    }
}

fn trimmed(n: f64) -> String {
    let text = match n {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 1.0 => format!("{n:.1}"),
        n => format!("{n:.3}"),
    };
    text.trim_end_matches(".0").to_owned()
}

/// The statistics of a text; `wide` is what the databases' reader made horizontal of it.
pub(super) fn read(lines: &[&str], wide: &[&str]) -> Option<Artefact> {
    let mut all = profile(lines);
    let parts = queries(lines);
    // The profile has shortened texts, and a part has the rows.
    match parts.is_empty() {
        true => {}
        false if all.is_empty() => all = parts,
        false => {
            for part in parts {
                let same = all.iter_mut().find(|s| {
                    s.total_s
                        .zip(part.total_s)
                        .is_some_and(|(a, b)| (a - b).abs() <= 0.02 * a)
                });
                match same {
                    Some(held) => {
                        *held = Statement {
                            share: held.share,
                            ..part
                        }
                    }
                    None => all.push(part),
                }
            }
        }
    }
    all.extend(dumped(lines));
    all.extend(listed(lines));
    all.extend(outliers(lines));
    all.extend(tables(lines));
    all.extend(tables(wide));
    all.retain(Statement::is_known);
    told(summary(&mut all))
}

fn summary(all: &mut [Statement]) -> Artefact {
    let mut found = artefact("statistics of statements", 0);
    all.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let whole: f64 = all.iter().map(Statement::weight).sum();
    let several = all.len() > 1 && whole > 0.0;
    let Some(first) = all.first() else {
        return found;
    };
    found.begin_at(first.line);
    let share = first.share.or(several.then(|| first.weight() / whole));
    let known = [
        ("digest.count", Some(all.len() as f64)),
        ("digest.share", share),
        ("digest.calls", first.calls),
        ("digest.mean_s", first.mean_s),
        ("digest.rows_read", first.rows_read),
        ("digest.rows_sent", first.rows_sent),
    ];
    for (name, n) in known {
        if let Some(n) = n {
            found.figures.insert(name.to_owned(), n);
        }
    }
    for statement in all.iter() {
        found.rows.push(Row {
            label: short(&statement.text),
            place: statement.told(),
            share: statement.weight(),
        });
    }
    found
}

/// `# 1 0x7D1B2F3C 410.2032 93.1% 1204 0.3407 0.12 SELECT orders` of pt-query-digest's profile.
fn profile(lines: &[&str]) -> Vec<Statement> {
    let row = |(number, line): (u32, &&str)| {
        let words: Vec<&str> = line.trim().strip_prefix('#')?.split_whitespace().collect();
        let [rank, id, total, share, calls, each, rest @ ..] = words.as_slice() else {
            return None;
        };
        rank.parse::<u32>().ok()?;
        id.starts_with("0x").then_some(())?;
        let share: f64 = share.strip_suffix('%')?.parse().ok()?;
        // The index of dispersion stands before the statement, and in older ones another number behind it.
        let text: Vec<&str> = rest
            .iter()
            .copied()
            .skip_while(|w| w.parse::<f64>().is_ok())
            .collect();
        Some(Statement {
            text: match text.is_empty() {
                true => (*id).to_owned(),
                false => text.join(" "),
            },
            share: Some(share / 100.0),
            calls: calls.parse().ok(),
            total_s: total.parse().ok(),
            mean_s: each.parse().ok(),
            ..Statement::at(number)
        })
    };
    (1_u32..).zip(lines).filter_map(row).collect()
}

/// `# Query 1: 0.5 QPS, ... ID 0x7D1B`, its attributes, and the statement below.
fn queries(lines: &[&str]) -> Vec<Statement> {
    let mut done: Vec<Statement> = Vec::new();
    let mut open: Option<Statement> = None;
    for (number, line) in (1_u32..).zip(lines) {
        let text = line.trim();
        let Some(comment) = text.strip_prefix('#') else {
            // The statement, which a paste may end before.
            if let Some(mut statement) = open.take_if(|s| s.is_known() && !text.is_empty()) {
                text.trim_end_matches("\\G").clone_into(&mut statement.text);
                done.push(statement);
            }
            continue;
        };
        let words: Vec<&str> = comment.split_whitespace().collect();
        if let ["Query", n, ..] = words.as_slice()
            && n.trim_end_matches(':').parse::<u32>().is_ok()
        {
            done.extend(open.take().filter(Statement::is_known));
            let id = words
                .iter()
                .position(|w| *w == "ID")
                .and_then(|i| words.get(i + 1));
            let id = id.map_or_else(|| format!("query {n}"), |id| format!("query {id}"));
            open = Some(Statement {
                text: id,
                ..Statement::at(number)
            });
            continue;
        }
        attribute(&words, number, &mut open);
    }
    done.extend(open.filter(Statement::is_known));
    done
}

/// `Exec time 93 410s 120ms 3s 340ms`: share, sum, least, most, mean.
fn attribute(words: &[&str], number: u32, open: &mut Option<Statement>) {
    let (name, numbers) = match words {
        ["Count", rest @ ..] => ("Count", rest),
        ["Exec", "time", rest @ ..] => ("Exec", rest),
        ["Rows", "sent", rest @ ..] => ("sent", rest),
        ["Rows", "examine", rest @ ..] => ("examine", rest),
        _ => return,
    };
    let at = |i: usize| numbers.get(i).and_then(|w| amount(w));
    if at(1).is_none() {
        return;
    }
    let statement = open.get_or_insert_with(|| Statement {
        text: "the statement".to_owned(),
        ..Statement::at(number)
    });
    match name {
        "Count" => statement.calls = at(1),
        "Exec" => {
            statement.share = at(0).map(|n| n / 100.0);
            statement.total_s = at(1);
            statement.mean_s = at(4);
        }
        "sent" => statement.rows_sent = at(4),
        _ => statement.rows_read = at(4),
    }
}

/// `340ms`, `3s`, `55.10M`, `1.39k` as seconds or as a count.
fn amount(word: &str) -> Option<f64> {
    let bare = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let n: f64 = bare.replace(',', "").parse().ok()?;
    let factor = match &word[bare.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "ns" => 1e-9,
        "ps" => 1e-12,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        _ => return None,
    };
    Some(n * factor)
}

/// mysqldumpslow: `Count: 240  Time=12.52s (3005s)  Lock=0.00s (0s)  Rows=1.0 (240), user`, the statement below.
fn dumped(lines: &[&str]) -> Vec<Statement> {
    let row = |(i, line): (usize, &&str)| {
        let (_, rest) = line.split_once("Count: ")?;
        let (calls, rest) = rest.trim_start().split_once(' ')?;
        let (_, time) = rest.split_once("Time=")?;
        let mut times = time.split_whitespace();
        let mean_s = amount(times.next()?)?;
        let total_s = amount(times.next()?.trim_matches(['(', ')']))?;
        let rows = rest
            .split_once("Rows=")
            .and_then(|(_, r)| r.split_whitespace().next()?.parse().ok());
        let below = lines[i + 1..]
            .iter()
            .map(|l| l.trim())
            .find(|l| !l.is_empty());
        Some(Statement {
            text: below.unwrap_or("the statement").to_owned(),
            calls: calls.parse().ok(),
            total_s: Some(total_s),
            mean_s: Some(mean_s),
            rows_sent: rows,
            ..Statement::at(u32::try_from(i + 1).ok()?)
        })
    };
    lines.iter().enumerate().filter_map(row).collect()
}

/// pgBadger's lists: rank, whole time, calls, shortest, longest, mean, statement, apart by tabs or bars.
fn listed(lines: &[&str]) -> Vec<Statement> {
    let row = |(number, line): (u32, &&str)| {
        if !line.contains(['\t', '|']) {
            return None;
        }
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split(['\t', '|'])
            .map(str::trim)
            .collect();
        let times: Vec<(usize, f64)> = cells
            .iter()
            .enumerate()
            .filter_map(|(i, c)| Some((i, long(c)?)))
            .collect();
        let [(total, total_s), .., (last, mean_s)] = times.as_slice() else {
            return None;
        };
        cells.first()?.trim_start_matches('#').parse::<u32>().ok()?;
        let text = cells.get(last + 1).filter(|c| c.contains(' '))?;
        let calls = cells[total + 1..*last]
            .iter()
            .find_map(|c| c.replace(',', "").parse().ok());
        (times.len() >= 3).then(|| Statement {
            text: (*text).to_owned(),
            calls,
            total_s: Some(*total_s),
            mean_s: Some(*mean_s),
            ..Statement::at(number)
        })
    };
    (1_u32..).zip(lines).filter_map(row).collect()
}

/// `heroku pg:outliers`, whose head is often left out: ` 00:06:22.8 | 11.1% | 10 | 00:04:58.7 | UPDATE ...`, the whole
/// time, its share, calls, the time for blocks, and the statement behind or before them.
fn outliers(lines: &[&str]) -> Vec<Statement> {
    let row = |(number, line): (u32, &&str)| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        let cells: Vec<&str> = cells.into_iter().map(str::trim).collect();
        let share = cells.iter().position(|c| c.ends_with('%'))?;
        let time = |at: usize| by_sixties(cells.get(at)?).filter(|_| cells[at].contains(':'));
        let total_s = time(share.checked_sub(1)?)?;
        let calls: f64 = cells.get(share + 1)?.replace(',', "").parse().ok()?;
        let text = cells.get(share + 3).filter(|c| !c.is_empty());
        let text = text.or_else(|| cells.first().filter(|_| share == 2));
        Some(Statement {
            text: text.map_or("the statement", |t| t).to_owned(),
            share: value(cells[share]).map(|p| p / 100.0),
            calls: Some(calls),
            total_s: Some(total_s),
            mean_s: Some(total_s / calls.max(1.0)),
            io_s: Some(time(share + 2)?),
            ..Statement::at(number)
        })
    };
    (1_u32..).zip(lines).filter_map(row).collect()
}

/// `1h12m4s`, `9s104ms`, `812ms`: at least one number with its unit.
fn long(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let behind = &rest[digits..];
        let unit = behind
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(behind.len());
        sum += amount(&rest[..digits + unit])?;
        rest = &behind[unit..];
    }
    (!text.is_empty()).then_some(sum)
}

/// Names of columns, and what they are; times are in ms unless their cell has a unit.
const COLUMNS: [(&str, Column); 31] = [
    ("query", Column::Text),
    ("digest_text", Column::Text),
    ("short_query", Column::Text),
    ("substring", Column::Text),
    ("substr", Column::Text),
    ("left", Column::Text),
    ("calls", Column::Calls),
    ("exec_count", Column::Calls),
    ("count_star", Column::Calls),
    ("total_time", Column::Total),
    ("total_exec_time", Column::Total),
    ("total_ms", Column::Total),
    ("total", Column::Total),
    ("total_latency", Column::Total),
    ("sum_timer_wait", Column::Total),
    ("mean_time", Column::Mean),
    ("mean_exec_time", Column::Mean),
    ("mean_ms", Column::Mean),
    ("avg_time", Column::Mean),
    ("avg_ms", Column::Mean),
    ("mean", Column::Mean),
    ("avg", Column::Mean),
    ("avg_latency", Column::Mean),
    ("avg_timer_wait", Column::Mean),
    ("rows", Column::Sent),
    ("rows_sent_avg", Column::Sent),
    ("rows_examined_avg", Column::Read),
    ("percent", Column::Share),
    ("percentage_cpu", Column::Share),
    ("percent_overall", Column::Share),
    ("pct", Column::Share),
];

#[derive(Clone, Copy, PartialEq)]
enum Column {
    Text,
    Calls,
    Total,
    Mean,
    Sent,
    Read,
    Share,
}

/// `pg_stat_statements` and `sys.statement_analysis` with bars between their columns.
fn tables(lines: &[&str]) -> Vec<Statement> {
    let mut done = Vec::new();
    let mut columns: Vec<Option<Column>> = Vec::new();
    let known = |name: &str| {
        let found = COLUMNS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, column)| *column)
    };
    for (number, line) in (1_u32..).zip(lines) {
        if !line.contains('|') {
            continue;
        }
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let heads: Vec<Option<Column>> = cells.iter().map(|c| known(c)).collect();
        let has = |of: &[Column]| heads.iter().flatten().any(|c| of.contains(c));
        if has(&[Column::Text]) && has(&[Column::Total, Column::Mean]) {
            columns = heads;
            continue;
        }
        if cells.len() != columns.len() {
            continue;
        }
        let at = |of: Column| {
            let at = columns.iter().position(|c| *c == Some(of))?;
            cells.get(at).copied()
        };
        let n = |of: Column| at(of).and_then(value);
        let seconds = |of: Column| {
            let cell = at(of)?;
            let spaced = cell.split_once(' ').map(|(n, unit)| format!("{n}{unit}"));
            let plain = cell.replace(',', "").parse::<f64>().ok().map(|ms| ms / 1e3);
            plain.or_else(|| amount(&spaced.unwrap_or_else(|| cell.to_owned())))
        };
        let calls = n(Column::Calls);
        done.push(Statement {
            text: at(Column::Text).unwrap_or_default().to_owned(),
            share: n(Column::Share).map(|p| p / 100.0),
            calls,
            total_s: seconds(Column::Total),
            mean_s: seconds(Column::Mean).or_else(|| Some(seconds(Column::Total)? / calls?)),
            rows_read: n(Column::Read),
            // pg_stat_statements sums them over the calls.
            rows_sent: n(Column::Sent).map(|rows| match columns.contains(&Some(Column::Read)) {
                true => rows,
                false => rows / calls.unwrap_or(1.0).max(1.0),
            }),
            ..Statement::at(number)
        });
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str) -> Artefact {
        read(&text.lines().collect::<Vec<_>>(), &[]).expect("statistics")
    }

    #[test]
    fn outliers_are_read_without_their_head() {
        let row = " 00:10:00.5 | 40.0% | 1,200 | 00:05:00.25 | SELECT a FROM b WHERE c = $1";
        let found = first(row);
        assert_eq!(found.rows[0].label, "SELECT a FROM b WHERE c = $1");
        assert_eq!(
            found.rows[0].place,
            "1200 times, 500 ms each, 50 % of that for blocks from the disk"
        );
        let older = first("SELECT a FROM b | 01:00:00 | 9.5% | 10 | 00:00:36\n");
        assert_eq!(
            older.rows[0].place,
            "10 times, 360 s each, 1 % of that for blocks from the disk"
        );
        let others = "| 10:00 | 40% | 12 | fine |\n| a | 00:10:00 | 40% | many | 00:01:00 |\n";
        assert!(read(&others.lines().collect::<Vec<_>>(), &[]).is_none());
    }

    #[test]
    fn a_part_by_query_has_the_rows_that_the_profile_has_not() {
        let text = "\
# Rank Query ID   Response time Calls R/Call V/M
#    1 0x7D1B     410.2032 93.1%  1204 0.3407 0.12 SELECT orders
# Query 1: 0.5 QPS, 0.31x concurrency, ID 0x7D1B at byte 88120
# Count         10    1204
# Exec time     93    410s   120ms      3s   340ms   800ms
# Rows sent      5  11.76k      10      10      10      10
# Rows examine  88  55.10M  46.8k   47.2k   46.9k  46.68k
# EXPLAIN /*!50100 PARTITIONS*/
SELECT a FROM orders WHERE b = 1\\G
";
        let found = first(text);
        assert_eq!(found.rows.len(), 1);
        assert_eq!(found.rows[0].label, "SELECT a FROM orders WHERE b = 1");
        assert_eq!(
            found.rows[0].place,
            "1204 times, 340 ms each, reads 46900 rows to return 10"
        );
        let share = found.value("digest.share").unwrap();
        assert!((share - 0.931).abs() < 1e-9, "{share}");
    }

    #[test]
    fn times_are_in_ms_unless_they_have_a_unit() {
        let text = " query | calls | total_time | mean_time\n SELECT a | 10 | 9000 | 900\n SELECT b | 10 | 1000 | 100\n";
        let found = first(text);
        assert_eq!(found.value("digest.mean_s"), Some(0.9));
        assert_eq!(found.value("digest.share"), Some(0.9));
        let text = "| query | exec_count | total_latency | avg_latency |\n| SELECT a | 2 | 2.15 m | 1.1 s |\n";
        assert_eq!(first(text).value("digest.mean_s"), Some(1.1));
        assert_eq!(long("1h12m4s"), Some(4_324.0));
        assert_eq!(long("9s104ms"), Some(9.104));
        assert_eq!(long("h"), None);
    }
}
