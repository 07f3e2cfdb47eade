//! A list of times, one a line, when requests came.

use super::{Cut, ReplayError, when};
use record::Timetable;

/// How a line is read: ns since some moment.
type Reads = fn(&[u8]) -> Option<i128>;

/// Reads a list of times.
#[derive(Clone, Debug, Default)]
pub struct ArrivalList {
    line: u64,
    reads: Option<Reads>,
    first: i128,
    /// Since the first, in ns.
    since: Vec<u64>,
}

impl ArrivalList {
    /// Takes the next line, with or without its end. Empty lines count, and say nothing.
    ///
    /// # Errors
    /// [`ReplayError`] when it is no time, or one before the last, or one too many.
    pub fn line(&mut self, line: &[u8]) -> Result<(), ReplayError> {
        self.line += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        let refused = |why| {
            let begin = &line[..line.len().min(60)];
            Err(ReplayError::NoTime {
                line: self.line,
                text: String::from_utf8_lossy(begin).into_owned(),
                why,
            })
        };
        // All are of the first one's kind.
        let is_rfc3339 = when::rfc3339(line).is_some();
        let kind = if is_rfc3339 {
            when::rfc3339
        } else {
            when::decimal
        };
        let reads = *self.reads.get_or_insert(kind);
        let Some(at) = reads(line) else {
            return match kind(line) {
                Some(_) => refused("of another kind than the times before it"),
                None => refused("no time"),
            };
        };
        if self.since.is_empty() {
            self.first = at;
        }
        let since = u64::try_from(at - self.first).ok();
        let last = self.since.last().copied().unwrap_or(0);
        let Some(since) = since.filter(|since| *since >= last) else {
            return refused("before the time above it, or centuries after the first");
        };
        if self.since.len() == Timetable::MAX {
            let (most, what) = (Timetable::MAX, "requests");
            return Err(ReplayError::TooMany { most, what });
        }
        self.since.push(since);
        Ok(())
    }

    /// The timetable.
    ///
    /// # Errors
    /// [`ReplayError`] when there is no time, or they are too far apart.
    pub fn finish(self, cut: Cut) -> Result<Timetable, ReplayError> {
        let due = cut.due(self.since.iter().map(|ns| i128::from(*ns)))?;
        if due.is_empty() {
            let why = format!("{} lines without a time", self.line);
            return Err(ReplayError::Nothing { why });
        }
        Ok(Timetable::new(due, Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Nanos;

    fn read(text: &str, cut: Cut) -> Result<Timetable, String> {
        let mut list = ArrivalList::default();
        for line in text.lines() {
            list.line(line.as_bytes()).map_err(|e| e.to_string())?;
        }
        list.finish(cut).map_err(|e| e.to_string())
    }

    const WHOLE: Cut = Cut {
        speed: 1.0,
        span_ns: None,
        requests: None,
    };

    fn due(table: &Timetable) -> Vec<u64> {
        (0..table.len()).map_while(|i| table.due(i)).collect()
    }

    #[test]
    fn times_count_from_the_first_of_them() {
        let table = read("1700000000.25\n\n1700000000.25\n 1700000001.5 \r\n", WHOLE).unwrap();
        assert_eq!(due(&table), [0, 0, 1_250_000_000]);
        let text = "2026-01-31T23:59:59Z\n2026-02-01T01:00:00.5+01:00";
        let table = read(text, WHOLE).unwrap();
        assert_eq!(due(&table), [0, 1_500_000_000]);
    }

    #[test]
    fn speed_and_cuts_say_what_is_sent() {
        let text = "0\n1\n2\n3\n4\n";
        let cut = Cut {
            speed: 4.0,
            span_ns: Some(Nanos::from_millis(750).0),
            ..WHOLE
        };
        assert_eq!(
            due(&read(text, cut).unwrap()),
            [0, 250_000_000, 500_000_000]
        );
        let cut = Cut {
            requests: Some(2),
            ..WHOLE
        };
        assert_eq!(due(&read(text, cut).unwrap()).len(), 2);
    }

    #[test]
    fn a_line_that_is_no_time_is_named() {
        for (text, said) in [
            ("1\n2\nthree\n", "line 3 is \"three\", which is no time"),
            (
                "5\n4\n",
                "line 2 is \"4\", which is before the time above it",
            ),
            (
                "1\n2026-01-31T00:00:00Z\n",
                "line 2 is \"2026-01-31T00:00:00Z\", which is of another kind",
            ),
            ("\n\n", "2 lines without a time"),
            ("0\n9999999999\n", "more than a year"),
            ("0\n999999999999\n", "centuries after"),
        ] {
            let error = read(text, WHOLE).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
