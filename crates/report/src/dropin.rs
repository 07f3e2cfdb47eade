//! The layouts of ab, wrk, wrk2 and weighttp, for people and scripts that read them: one printer a tool.
//!
//! A figure stands where the tool puts it and in its unit; what the tool counts otherwise than prony is said where it
//! is computed. The surprise: latencies are of the successes alone, as everywhere in prony, so that an error is never a
//! fast response.

pub mod ab;
pub mod weighttp;
pub mod wrk;

use record::{Contents, FailureKind, LoadOutcome};

/// Failures by where they happened, as the older tools tell them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SocketFailures {
    /// No connection.
    connect: u64,
    /// A connection that broke before its response was whole.
    read: u64,
    /// No response in time.
    timeout: u64,
    /// Bytes that are no response, and what has no other place.
    other: u64,
}

impl SocketFailures {
    fn of(outcome: &LoadOutcome) -> Self {
        let mut sums = Self::default();
        for (kind, n) in &outcome.requests.failed {
            let sum = match kind {
                FailureKind::ConnectRefused
                | FailureKind::ConnectTimeout
                | FailureKind::ConnectFailed
                | FailureKind::NoLocalPort
                | FailureKind::NoDescriptor
                | FailureKind::Tls => &mut sums.connect,
                FailureKind::Reset | FailureKind::ClosedEarly | FailureKind::Truncated => {
                    &mut sums.read
                }
                FailureKind::Timeout => &mut sums.timeout,
                // A status is an answer.
                FailureKind::Status4xx | FailureKind::Status5xx => continue,
                _ => &mut sums.other,
            };
            *sum += n;
        }
        sums
    }

    fn all(self) -> u64 {
        self.connect + self.read + self.timeout + self.other
    }
}

/// Answers whose status is from `from` to `to`.
fn statuses(outcome: &LoadOutcome, from: u16, to: u16) -> u64 {
    outcome.status.range(from..=to).map(|(_, n)| n).sum()
}

fn contents(outcome: &LoadOutcome) -> Contents {
    outcome.contents.clone().unwrap_or_default()
}

/// Length of the measured part, s; what is divided by it is never divided by nothing.
fn seconds(outcome: &LoadOutcome) -> f64 {
    outcome.measured().as_secs_f64().max(1e-9)
}
