//! Real traffic becomes a load: an access log, or a list of times.
//!
//! ```text
//! lines -> AccessLog -> Replay (timetable, requests) -> a load
//! lines -> ArrivalList -> timetable -> a load
//! ```
//! Lines come one by one, so that a log is never held as text. The rule: a line that cannot be sent as it was is
//! counted by its reason, and never made into something else. The surprise: most servers write a request's second and
//! no more, so the requests of a second are spread evenly over it.

mod access_log;
mod arrivals;
mod line;
mod when;

pub use access_log::{AccessLog, LeftOutLine, Replay};
pub use arrivals::ArrivalList;

/// Why lines cannot become a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// A line of a list of times is none.
    #[error("line {line} is {text:?}, which is {why}")]
    NoTime {
        /// From 1.
        line: u64,
        /// Its beginning.
        text: String,
        /// What of it.
        why: &'static str,
    },
    /// There is nothing to send.
    #[error("it holds no request that can be sent ({why})")]
    Nothing {
        /// What it holds.
        why: String,
    },
    /// More than is taken.
    #[error("it holds more than {most} {what}")]
    TooMany {
        most: usize,
        /// `requests`, `different requests`.
        what: &'static str,
    },
    /// Its times are further apart than a load can be long.
    #[error("its times span more than a year at this speed")]
    TooLong,
}

impl ReplayError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            ReplayError::NoTime { .. } => {
                "write one time a line, in order: seconds as a decimal number, or RFC 3339 (2026-01-31T12:00:00.5Z)"
            }
            ReplayError::Nothing { .. } => {
                "give an access log in the common or the combined format, or a list of times to --arrivals"
            }
            ReplayError::TooMany { .. } => "cut the file: take an hour of it, or every n-th line",
            ReplayError::TooLong => {
                "check the times of the first and the last line, or raise --speed"
            }
        }
    }
}

/// Which part of what was read is sent, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// Times as fast as recorded.
    pub speed: f64,
    /// Only what is due in so many ns of the load.
    pub span_ns: Option<u64>,
    /// Only so many requests.
    pub requests: Option<u64>,
}

impl Cut {
    /// Due times from what was recorded, as far as they are sent.
    fn due(&self, recorded: impl Iterator<Item = i128>) -> Result<Vec<u64>, ReplayError> {
        const YEAR_NS: u64 = 365 * 24 * 3_600 * 1_000_000_000;
        let most = self.requests.map_or(usize::MAX, |n| n as usize);
        let mut due = Vec::new();
        for at in recorded.take(most) {
            // Beyond 2^53 ns, 104 days, digits are lost, of which none was recorded.
            let at = match self.speed == 1.0 {
                true => u64::try_from(at).unwrap_or(u64::MAX),
                false => (at as f64 / self.speed).round() as u64,
            };
            if self.span_ns.is_some_and(|span| at >= span) {
                break;
            }
            if at > YEAR_NS {
                return Err(ReplayError::TooLong);
            }
            due.push(at);
        }
        Ok(due)
    }
}
