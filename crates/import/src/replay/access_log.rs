//! The lines of an access log as one load: its different requests, and when each of them is due.

use super::line::{self, Logged};
use super::{Cut, ReplayError, when};
use record::workload::{Check, Template, WorkloadRequest};
use record::{Timetable, Workload};
use std::collections::{BTreeMap, HashMap};

/// The most different requests: each is made ready before the load, in about a kilobyte.
const DISTINCT_MAX: usize = 200_000;

/// Why a line is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOutLine {
    /// It is not of the format, or its request is none.
    Malformed,
    /// Its target is no path that can be sent.
    Target,
    /// CONNECT asks for a tunnel.
    Connect,
    /// Its method has a body, which the log does not hold.
    Body,
    /// Its method may change what the server holds.
    Unsafe,
}

impl LeftOutLine {
    /// As it is counted.
    pub fn name(self) -> &'static str {
        match self {
            LeftOutLine::Malformed => "malformed",
            LeftOutLine::Target => "target",
            LeftOutLine::Connect => "connect",
            LeftOutLine::Body => "body",
            LeftOutLine::Unsafe => "unsafe",
        }
    }
}

/// One request of the log, in little room.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: i64,
    which: u32,
    status: u16,
}

/// Reads an access log.
#[derive(Clone, Debug, Default)]
pub struct AccessLog {
    takes_unsafe: bool,
    numbers: HashMap<String, u32>,
    entries: Vec<Entry>,
    left_out: BTreeMap<LeftOutLine, u64>,
}

/// What an access log is as a load.
#[derive(Clone, Debug)]
pub struct Replay {
    /// When which request is due.
    pub timetable: Timetable,
    /// The requests.
    pub workload: Workload,
    /// Lines that are not sent.
    pub left_out: BTreeMap<LeftOutLine, u64>,
    /// Statuses that were recorded with what is sent.
    pub status: BTreeMap<u16, u64>,
}

impl AccessLog {
    /// A log without a line; methods beyond GET, HEAD and OPTIONS are sent if `takes_unsafe`.
    pub fn new(takes_unsafe: bool) -> Self {
        AccessLog {
            takes_unsafe,
            ..AccessLog::default()
        }
    }

    /// Takes the next line, with or without its end. Empty lines say nothing.
    ///
    /// # Errors
    /// [`ReplayError::TooMany`].
    pub fn line(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let logged = match line::read(line, self.takes_unsafe) {
            Ok(logged) => logged,
            Err(reason) => {
                self.leave_out(reason);
                return Ok(());
            }
        };
        let Logged {
            at,
            mut method,
            target,
            status,
        } = logged;
        method.push(' ');
        method.push_str(&target);
        let next = self.numbers.len();
        let which = match self.numbers.get(&method) {
            Some(which) => *which,
            None if next == DISTINCT_MAX => {
                let (most, what) = (DISTINCT_MAX, "different requests");
                return Err(ReplayError::TooMany { most, what });
            }
            None => *self.numbers.entry(method).or_insert(next as u32),
        };
        if self.entries.len() == Timetable::MAX {
            let (most, what) = (Timetable::MAX, "requests");
            return Err(ReplayError::TooMany { most, what });
        }
        self.entries.push(Entry { at, which, status });
        Ok(())
    }

    /// Counts a line that could not be read at all.
    pub fn leave_out(&mut self, reason: LeftOutLine) {
        *self.left_out.entry(reason).or_default() += 1;
    }

    /// The load. Servers write a line when the response has gone, so that lines are put in the order of their times
    /// first; those of one second are spread evenly over it.
    ///
    /// # Errors
    /// [`ReplayError`] when nothing can be sent, or its times are too far apart.
    pub fn finish(mut self, cut: Cut) -> Result<Replay, ReplayError> {
        self.entries.sort_by_key(|entry| entry.at);
        let due = cut.due(spread(&self.entries))?;
        if due.is_empty() {
            let each = self.left_out.iter();
            let each = each.map(|(reason, n)| format!("lines left out as {}: {n}", reason.name()));
            let why = Some(each.collect::<Vec<_>>().join(", ")).filter(|why| !why.is_empty());
            let why = why.unwrap_or_else(|| "no line".to_owned());
            return Err(ReplayError::Nothing { why });
        }
        self.entries.truncate(due.len());
        let mut status = BTreeMap::new();
        // Numbers again, of those alone that are sent.
        let mut renumbered: Vec<Option<u32>> = vec![None; self.numbers.len()];
        let mut kept = 0;
        let mut refusals: Vec<Vec<u16>> = Vec::new();
        let which = self.entries.iter().map(|entry| {
            *status.entry(entry.status).or_insert(0_u64) += 1;
            let number = *renumbered[entry.which as usize].get_or_insert_with(|| {
                refusals.push(Vec::new());
                kept += 1;
                kept - 1
            });
            let refusals = &mut refusals[number as usize];
            if (400..500).contains(&entry.status) && !refusals.contains(&entry.status) {
                refusals.push(entry.status);
            }
            number
        });
        let which: Vec<u32> = which.collect();
        let mut requests: Vec<Option<WorkloadRequest>> = vec![None; refusals.len()];
        for (name, number) in self.numbers {
            if let Some(number) = renumbered[number as usize] {
                let refusals = &refusals[number as usize];
                requests[number as usize] = Some(request(name, refusals));
            }
        }
        Ok(Replay {
            timetable: Timetable::new(due, which),
            workload: Workload::mix(requests.into_iter().flatten().collect()),
            left_out: self.left_out,
            status,
        })
    }
}

/// A request as it is sent. An answer that refuses it as the recorded one did is no failure.
fn request(name: String, refusals: &[u16]) -> WorkloadRequest {
    let (method, target) = name.split_once(' ').unwrap_or(("GET", "/"));
    let (method, target) = (method.to_owned(), Template::plain(target));
    let accepted = refusals.iter().map(|status| (*status, *status));
    let accepted = Vec::from_iter([(100, 399)].into_iter().chain(accepted));
    WorkloadRequest {
        method,
        checks: match refusals.is_empty() {
            true => Vec::new(),
            false => vec![Check::Status(accepted)],
        },
        ..WorkloadRequest::get(name, target)
    }
}

/// Times since the first of entries in order, in ns, those of a second evenly over it.
fn spread(entries: &[Entry]) -> impl Iterator<Item = i128> {
    let first = entries.first().map_or(0, |entry| entry.at);
    let seconds = entries.chunk_by(|a, b| a.at == b.at);
    seconds.flat_map(move |second| {
        let n = second.len() as i128;
        let begins = i128::from(second[0].at - first) * when::SECOND;
        (0..n).map(move |k| begins + k * when::SECOND / n)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Cut = Cut {
        speed: 1.0,
        span_ns: None,
        requests: None,
    };

    fn line(second: u32, request: &str, status: u16) -> String {
        format!(r#"::1 - - [01/Jan/1970:00:00:{second:02} +0000] "{request}" {status} 5"#)
    }

    fn read(lines: &[String], cut: Cut) -> Replay {
        let mut log = AccessLog::new(false);
        lines.iter().for_each(|l| log.line(l.as_bytes()).unwrap());
        log.finish(cut).unwrap()
    }

    fn table(replay: &Replay) -> Vec<(u64, u32)> {
        let table = &replay.timetable;
        let each = (0..table.len()).map(|i| (table.due(i).unwrap(), table.which(i).unwrap()));
        each.collect()
    }

    #[test]
    fn the_requests_of_a_second_are_spread_over_it() {
        let lines = [
            line(10, "GET /a HTTP/1.1", 200),
            line(12, "GET /b HTTP/1.1", 404),
            // Written late.
            line(10, "HEAD /a HTTP/1.1", 200),
            line(10, "GET /a HTTP/1.1", 500),
            line(10, "GET /a HTTP/1.1", 200),
            line(12, "POST /a HTTP/1.1", 200),
            "nonsense".to_owned(),
        ];
        let replay = read(&lines, WHOLE);
        let quarter = 250_000_000;
        let expected = [(0, 0), (1, 1), (2, 0), (3, 0), (8, 2)];
        assert_eq!(
            table(&replay),
            expected.map(|(at, which)| (at * quarter, which))
        );
        let names: Vec<&str> = replay
            .workload
            .requests
            .iter()
            .map(|r| r.name.as_str())
            .collect();
        assert_eq!(names, ["GET /a", "HEAD /a", "GET /b"]);
        assert_eq!(
            replay.status,
            BTreeMap::from([(200, 3), (404, 1), (500, 1)])
        );
        let left_out = [(LeftOutLine::Malformed, 1), (LeftOutLine::Body, 1)];
        assert_eq!(replay.left_out, BTreeMap::from(left_out));
        // What was refused may be refused again; what failed at the server may not.
        assert_eq!(replay.workload.requests[0].checks, []);
        let accepted = Check::Status(vec![(100, 399), (404, 404)]);
        assert_eq!(replay.workload.requests[2].checks, [accepted]);
    }

    #[test]
    fn what_is_cut_off_is_neither_sent_nor_counted() {
        let lines = [
            line(1, "GET /a HTTP/1.1", 200),
            line(3, "GET /c HTTP/1.1", 404),
            line(2, "GET /b HTTP/1.1", 200),
        ];
        let cut = Cut {
            speed: 2.0,
            span_ns: Some(600_000_000),
            ..WHOLE
        };
        let replay = read(&lines, cut);
        assert_eq!(table(&replay), [(0, 0), (500_000_000, 1)]);
        assert_eq!(replay.status, BTreeMap::from([(200, 2)]));
        let names: Vec<&str> = replay
            .workload
            .requests
            .iter()
            .map(|r| r.name.as_str())
            .collect();
        assert_eq!(names, ["GET /a", "GET /b"]);
    }

    #[test]
    fn a_log_of_nothing_says_what_it_holds() {
        let mut log = AccessLog::new(false);
        log.line(line(1, "DELETE /a HTTP/1.1", 200).as_bytes())
            .unwrap();
        log.line(b"x").unwrap();
        let error = log.finish(WHOLE).unwrap_err().to_string();
        let said = "lines left out as malformed: 1, lines left out as unsafe: 1";
        assert!(error.contains(said), "{error}");
        let mut log = AccessLog::new(true);
        log.line(line(1, "DELETE /a HTTP/1.1", 200).as_bytes())
            .unwrap();
        assert_eq!(log.finish(WHOLE).unwrap().timetable.len(), 1);
    }
}
