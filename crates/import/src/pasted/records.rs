//! Records of a structured log, whole or cut off anywhere: JSON a field a line, or one line that is no whole object.
//!
//! A record has fields, of which one may hold a message, one a time, one a status. For those who read messages it
//! becomes one line; with a time it is told by itself. The surprise is the unit of that time, which most loggers leave
//! out: then it is told as it stands.

use super::about;
use super::events::{artefact, told};
use super::pieces::{seconds, short, value};
use super::statements::{TIMES, UNITS, fields};
use record::pasted::{Artefact, Row};
use std::borrow::Cow;

/// Fewer fields are no record.
const FEWEST: usize = 2;
/// A longer line is data.
const LINE: usize = 8_000;
/// Numbers from here on are stamps, in whatever unit.
const STAMP: f64 = 1e9;

/// Names of fields that hold what a record says, the most telling first.
const SAYS: [&str; 10] = [
    "error",
    "err",
    "exception",
    "exception.message",
    "error.message",
    "reason",
    "cause",
    "message",
    "msg",
    "detail",
];
/// Names of its level, and of what it is about.
const LEVELS: [&str; 4] = ["level", "severity", "lvl", "log.level"];
const ABOUT: [&str; 14] = [
    "status",
    "status_code",
    "code",
    "method",
    "path",
    "url",
    "uri",
    "route",
    "handler",
    "action",
    "controller",
    "operation",
    "service",
    "target",
];
/// Names that are no time though they sound like one.
const STAMPS: [&str; 6] = ["date", "stamp", "start", "end_time", "created", "uptime"];

/// A record, its fields in order, and the line that it begins in and the one behind it.
struct Record<'a> {
    first: usize,
    end: usize,
    fields: Vec<(&'a str, &'a str)>,
}

/// `"name": value,` of a line that has nothing else.
fn field(line: &str) -> Option<(&str, &str)> {
    let text = line.trim().strip_prefix('"')?;
    let (name, content) = text.split_once('"')?;
    let content = content.trim_start().strip_prefix(':')?.trim();
    let content = content.trim_end_matches(',').trim();
    // One line with several fields is no field.
    let alone = content.len() < LINE && !content.contains("\":");
    alone.then_some((name, content.trim_matches('"')))
}

/// Records that have a field a line.
fn records<'a>(lines: &[&'a str]) -> Vec<Record<'a>> {
    let mut done: Vec<Record<'a>> = Vec::new();
    let mut open: Option<Record<'a>> = None;
    for (at, line) in lines.iter().enumerate() {
        let text = line.trim();
        let bracket = !text.is_empty() && text.chars().all(|c| "{}[],".contains(c));
        let ends = text.starts_with('}');
        match field(line) {
            // An object within it has its fields told like its own.
            Some((name, content)) => {
                let record = open.get_or_insert_with(|| Record {
                    first: at,
                    end: at + 1,
                    fields: Vec::new(),
                });
                record.end = at + 1;
                if !["{", "["].contains(&content) {
                    record.fields.push((name, content));
                }
            }
            None if bracket && (!ends || text.ends_with(',')) => {
                let begins = text == "{" || text.contains("},");
                if begins && open.as_ref().is_some_and(|r| r.fields.len() >= FEWEST) {
                    done.extend(open.take());
                }
            }
            None => done.extend(open.take()),
        }
    }
    done.extend(open);
    done.retain(|r| r.fields.len() >= FEWEST);
    done
}

fn of<'a>(record: &Record<'a>, names: &[&str]) -> Option<&'a str> {
    let same = |n: &str, name: &str| n.eq_ignore_ascii_case(name);
    names.iter().find_map(|name| {
        let found = record.fields.iter().find(|(n, _)| same(n, name));
        found.map(|(_, content)| *content).filter(|c| !c.is_empty())
    })
}

/// Lines of which each record that says something is one, in the place of its first.
pub(super) fn in_one_line<'a>(lines: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut done: Vec<Cow<'a, str>> = lines.iter().map(|l| Cow::Borrowed(*l)).collect();
    for record in records(lines) {
        let Some(says) = of(&record, &SAYS) else {
            continue;
        };
        let level = of(&record, &LEVELS).map_or_else(String::new, |l| format!("level={l} "));
        done[record.first] = Cow::Owned(format!("{level}{}", plain(says)));
        for line in &mut done[record.first + 1..record.end] {
            *line = Cow::Borrowed("");
        }
    }
    done
}

/// What is quoted in a record's text, without the marks.
fn plain(text: &str) -> String {
    text.replace("\\\"", "'").replace("\\n", " ")
}

/// A field's time: its number for the order, in seconds where its unit is known, and as it is told.
fn time(name: &str, content: &str) -> Option<(f64, String)> {
    let lower = name.to_ascii_lowercase();
    let last = lower.rsplit('.').next().unwrap_or_default();
    let no = STAMPS.iter().any(|s| last.contains(s)) || last.contains("timeout");
    if no || !TIMES.iter().any(|t| last.contains(t)) || content.contains([':', '-', 'T']) {
        return None;
    }
    let unit = UNITS.iter().find(|(end, _)| last.ends_with(end));
    let plain: Option<f64> = content.parse().ok();
    let n = match (plain, unit) {
        (Some(n), Some((_, factor))) => n * factor,
        (Some(n), None) => n,
        (None, _) => seconds(&content.replace(' ', ""))?,
    };
    (n > 0.0 && n < STAMP).then(|| (n, format!("{name} {content}")))
}

/// Records with a time.
pub(super) fn read(lines: &[&str]) -> Option<Artefact> {
    let mut all = records(lines);
    for (at, line) in lines.iter().enumerate() {
        // One line of JSON that is cut off; a whole one has its own readers.
        if line.len() > LINE || line.matches("\":").count() < FEWEST + 1 {
            continue;
        }
        all.push(Record {
            first: at,
            end: at + 1,
            fields: fields(line),
        });
    }
    let mut found = artefact("records of a log", 0);
    let (mut timed, mut failed) = (0.0, 0.0);
    for record in &all {
        let status = of(record, &["status", "status_code", "statuscode", "code"]).and_then(value);
        failed += f64::from(u8::from(
            status.is_some_and(|s| (500.0..600.0).contains(&s)),
        ));
        let times = record.fields.iter().filter_map(|(n, c)| time(n, c));
        let Some((n, label)) = times.reduce(|a, b| if b.0 > a.0 { b } else { a }) else {
            continue;
        };
        timed += 1.0;
        found.begin_at(u32::try_from(record.first + 1).ok()?);
        let is_about = |n: &&str| ABOUT.iter().any(|a| a.eq_ignore_ascii_case(n));
        let about = record.fields.iter();
        let about = about.filter(|(n, c)| is_about(n) && !c.starts_with(['[', '{']));
        let about: Vec<String> = about.map(|(n, c)| format!("{n} {c}")).take(4).collect();
        found.rows.push(Row {
            label: short(&label),
            place: short(&about.join(", ")),
            share: n,
        });
    }
    found.largest_first();
    for (name, n) in [
        ("rows", timed),
        ("all", all.len() as f64),
        ("failed", failed),
    ] {
        found.figures.insert(format!("records.{name}"), n);
    }
    about::add(&mut found, lines);
    told(found)
}

/// Names of a field with a status of HTTP, without marks and in small letters, and of one with a moment.
const STATUSES: [&str; 6] = [
    "status",
    "statuscode",
    "httpstatus",
    "responsecode",
    "responsestatus",
    "code",
];
const MOMENTS: [&str; 4] = ["timestamp", "time", "ts", "date"];
/// Too Many Requests, RFC 6585 4.
const REFUSED: f64 = 429.0;
/// Moments from here on are milliseconds since 1970.
const MILLISECONDS: f64 = 1e12;

/// Records of which most have the status 429, and how near to each other they come.
pub(super) fn refused(lines: &[&str]) -> Option<Artefact> {
    let bare = |name: &str| name.replace(['_', '-', '.'], "").to_ascii_lowercase();
    let mut found = artefact("refusals of a log", 0);
    let (mut all, mut moments) = (0.0, Vec::new());
    for (number, line) in (1_u32..).zip(lines) {
        if line.len() > LINE || !line.contains("\":") {
            continue;
        }
        let fields = fields(line);
        let of = |names: &[&str]| {
            let mut values = fields
                .iter()
                .filter(|(n, _)| names.contains(&bare(n).as_str()));
            values.find_map(|(_, content)| content.parse::<f64>().ok())
        };
        let Some(status) = of(&STATUSES).filter(|s| (100.0..600.0).contains(s)) else {
            continue;
        };
        all += 1.0;
        if (status - REFUSED).abs() > f64::EPSILON {
            continue;
        }
        found.begin_at(number);
        found.rows.push(Row::new(short(line.trim()), 1.0));
        moments.extend(of(&MOMENTS).filter(|at| *at >= STAMP).map(|at| match at {
            at if at >= MILLISECONDS => at / 1e3,
            at => at,
        }));
    }
    moments.sort_by(f64::total_cmp);
    let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
    if let Some(gap) = gaps.reduce(f64::min) {
        found
            .figures
            .insert("refused.gap_ms".into(), (gap * 1e3).round());
    }
    let rows = found.rows.len() as f64;
    found.figures.insert("refused.rows".into(), rows);
    found.figures.insert("refused.all".into(), all);
    told(found).filter(|_| rows * 2.0 > all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_client_are_counted_with_their_gap() {
        let text = "{\"timestamp\": 1770595482263, \"statusCode\": 429},\n{\"timestamp\": 1770595482008, \"statusCode\": 429} // again\n";
        let found = refused(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("refused.rows"), Some(2.0));
        assert_eq!(found.value("refused.gap_ms"), Some(255.0));
        let seconds = "{\"ts\":1770595482.5,\"http_status\":429}\n{\"ts\":1770595484.5,\"http_status\":429}\n";
        let found = refused(&seconds.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.value("refused.gap_ms"), Some(2000.0));
        let mostly = format!("{text}{}", "{\"statusCode\": 200},\n".repeat(3));
        assert!(refused(&mostly.lines().collect::<Vec<_>>()).is_none());
        assert!(refused(&["the status: 429"]).is_none());
    }

    #[test]
    fn a_part_of_a_record_is_enough() {
        let text = "  \"http\": {\n    \"status\": 200,\n    \"path\": \"/api\",\n    \"duration\": 5699.5,\n    \"date_time\": \"2018-05-03T08:51:12Z\"\n  },\n";
        let found = read(&text.lines().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.rows[0].label, "duration 5699.5");
        assert_eq!(found.rows[0].place, "status 200, path /api");
        let cut = "th\":\"/a\",\"status\":502,\"elapsed_ms\":1250,\"user\":\"x";
        let found = read(&[cut]).unwrap();
        assert_eq!(found.rows[0].share, 1.25);
        assert_eq!(found.value("records.failed"), Some(1.0));
        assert!(read(&["\"a\": 1,", "\"b\": \"two\""]).is_none());
    }

    #[test]
    fn a_record_is_one_message() {
        let text = "{\n  \"error\": \"quota exceeded\",\n  \"level\": \"error\",\n  \"msg\": \"call\"\n}\n";
        let lines = in_one_line(&text.lines().collect::<Vec<_>>());
        assert_eq!(lines[1], "level=error quota exceeded");
        assert_eq!(lines[2], "");
    }
}
