//! What one load thread counts: requests by fate, latencies, bytes. Made before the load, merged after.
//!
//! **Which requests count.** A request belongs to the part of the load in which it was *scheduled*:
//! warm-up or measurement. In an open loop its answer may come after the stop, within a short grace;
//! leaving those out would cut the tail off the latencies. In a closed loop an answer after the stop
//! does not count, because the rate is answers over time and the connections would otherwise add one
//! each; such a request stays "in flight at the stop". So in both:
//!
//! ```text
//! sent = completed + failures that are not a status + in flight at the stop
//! ```
//!
//! A connection that cannot be opened is a failure of the request that was to travel on it: it counts as
//! sent and failed. Bytes are counted when they pass within the measured part, whoever's they are.

use super::pieces::Pieces;
use super::response::Answer;
use super::workload::Prepared;
use crate::transport::{Detail, Failure};
use record::{FailureKind, Histogram, LoggedRequest, Nanos};

/// Statuses have three digits.
const STATUSES: usize = 1000;
/// Sent later than this after it was due, a request is late.
pub(super) const LATE_NS: u64 = 1_000_000;

/// The measured part of the load on the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Its first nanosecond.
    pub from: u64,
    /// The first nanosecond behind it.
    pub to: u64,
}

impl Window {
    /// Does a time lie within?
    #[inline]
    pub fn contains(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    /// When it was due.
    pub scheduled_at: u64,
    /// When it was sent.
    pub sent_at: u64,
    /// Which of a workload's it is.
    pub which: u32,
    /// Its length; of a workload's only.
    pub bytes: u32,
}

/// What came of some of the requests.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub sent: u64,
    pub completed: u64,
    pub succeeded: u64,
    pub failed: [u64; FailureKind::ALL.len()],
    pub response: Histogram,
}

impl Counts {
    /// One was answered whole, by `failed` not as it must be.
    pub fn answered(&mut self, failed: Option<FailureKind>, response: Nanos) {
        self.completed += 1;
        match failed {
            Some(kind) => self.failed[kind as usize] += 1,
            None => {
                self.succeeded += 1;
                self.response.record(response);
            }
        }
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Counts) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.succeeded += other.succeeded;
        self.response.merge(&other.response);
        let failed = self.failed.iter_mut().zip(&other.failed);
        failed.for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// Counts of the requests of one name.
#[derive(Clone)]
pub(crate) struct ByName {
    pub counts: Counts,
    pub checks: CheckCounts,
}

/// How often each check and capture of a request failed.
#[derive(Clone)]
pub(crate) struct CheckCounts(pub Vec<u64>);

impl CheckCounts {
    /// Those failed whose bits are set.
    pub fn note(&mut self, failed: u64) {
        if failed != 0 {
            let each = self.0.iter_mut().enumerate();
            each.for_each(|(i, count)| *count += failed >> i & 1);
        }
    }
}

/// One thread's counts; see the module.
pub(crate) struct Tally {
    /// Due within the measured part.
    pub scheduled: u64,
    /// Sent, or given up with the connection that was to carry them.
    pub sent: u64,
    /// Answered whole.
    pub completed: u64,
    /// Answered whole with a status below 400.
    pub succeeded: u64,
    /// Sent more than 1 ms late.
    pub late: u64,
    /// Never sent.
    pub dropped: u64,
    /// Sent again on a new connection.
    pub retried: u64,
    /// Failures, by `FailureKind as usize`.
    pub failed: [u64; FailureKind::ALL.len()],
    /// The first of each kind, warm-up included.
    pub first_failure: [Option<Detail>; FailureKind::ALL.len()],
    /// Answers by status.
    pub status: Box<[u64]>,
    /// Bytes of the answers' bodies.
    pub body_bytes: u64,
    /// Length of the first body.
    pub first_body_bytes: Option<u64>,
    /// Answers with a body of another length.
    pub other_length: u64,
    /// Answered requests one by one, as far as the room goes that was made for them.
    pub log: Vec<LoggedRequest>,
    /// Within the measured part.
    pub received_bytes: u64,
    /// Likewise.
    pub sent_bytes: u64,
    /// From scheduled to done, successes.
    pub response: Histogram,
    /// From sent to done, successes.
    pub service: Histogram,
    /// From sent to the first byte, successes.
    pub first_byte: Histogram,
    /// Time to connect, the whole load.
    pub connect: Histogram,
    /// The generator's own lateness.
    pub schedule_lag: Histogram,
    /// Connections opened, the whole load.
    pub opened: u64,
    /// Connections that the server ended, the whole load.
    pub closed_by_server: u64,
    /// Connections that carried bytes nobody had asked for.
    pub stray: u64,
    /// The requests of a workload, each by itself.
    pub by_name: Vec<ByName>,
    /// By the pieces of a rate that changes; only where there is a count by name.
    pub pieces: Pieces,
}

impl Tally {
    /// All zero, with counts for each request of a workload.
    pub fn of(work: Option<&Prepared>, pieces: Pieces) -> Self {
        let zero = |checks: &[String]| ByName {
            counts: Counts::default(),
            checks: CheckCounts(vec![0; checks.len()]),
        };
        let names = work.into_iter().flat_map(Prepared::names);
        let mut by_name: Vec<ByName> = names.map(|(_, checks)| zero(checks)).collect();
        if by_name.is_empty() && !pieces.is_empty() {
            by_name.push(zero(&[]));
        }
        Tally {
            by_name,
            pieces,
            ..Tally::new()
        }
    }

    /// All zero.
    pub fn new() -> Self {
        Tally {
            scheduled: 0,
            sent: 0,
            completed: 0,
            succeeded: 0,
            late: 0,
            dropped: 0,
            retried: 0,
            failed: [0; FailureKind::ALL.len()],
            first_failure: [const { None }; FailureKind::ALL.len()],
            status: vec![0; STATUSES].into_boxed_slice(),
            body_bytes: 0,
            first_body_bytes: None,
            other_length: 0,
            log: Vec::new(),
            received_bytes: 0,
            sent_bytes: 0,
            response: Histogram::new(),
            service: Histogram::new(),
            first_byte: Histogram::new(),
            connect: Histogram::new(),
            schedule_lag: Histogram::new(),
            opened: 0,
            closed_by_server: 0,
            stray: 0,
            by_name: Vec::new(),
            pieces: Pieces::default(),
        }
    }

    /// A measured request was sent for the first time, by the generator's own fault this late.
    #[inline]
    pub fn note_sent(&mut self, request: Request, lag_ns: Option<u64>) {
        self.count_sent(request);
        self.late += u64::from(request.sent_at > request.scheduled_at + LATE_NS);
        if let Some(lag) = lag_ns {
            self.schedule_lag.record(Nanos(lag));
        }
    }

    /// A measured request was sent, or given up with the connection that was to carry it.
    #[inline]
    pub fn count_sent(&mut self, request: Request) {
        self.sent += 1;
        if let Some(named) = self.by_name.get_mut(request.which as usize) {
            named.counts.sent += 1;
            self.pieces.sent(request);
        }
    }

    /// A measured request was answered whole, by `failed` not as it must be. `connect_ns`: of its connection's opening,
    /// which belongs to its response time.
    #[inline]
    pub fn note_answer(
        &mut self,
        request: Request,
        connect_ns: u64,
        first_byte_at: u64,
        done_at: u64,
        answer: Answer,
        failed: Option<FailureKind>,
    ) {
        let status = answer.status;
        self.completed += 1;
        self.body_bytes += answer.body_bytes;
        let first = *self.first_body_bytes.get_or_insert(answer.body_bytes);
        self.other_length += u64::from(answer.body_bytes != first);
        if self.log.len() < self.log.capacity() {
            self.log.push(LoggedRequest {
                scheduled_at: Nanos(request.scheduled_at),
                sent_at: Nanos(request.sent_at),
                first_byte_at: Nanos(first_byte_at),
                done_at: Nanos(done_at),
                connect_ns,
                status,
            });
        }
        self.status[usize::from(status) % STATUSES] += 1;
        let since = |from: u64, to: u64| Nanos(to.saturating_sub(from));
        let response = Nanos(since(request.scheduled_at, done_at).0 + connect_ns);
        if let Some(named) = self.by_name.get_mut(request.which as usize) {
            named.counts.answered(failed, response);
            self.pieces.answered(request, failed, response);
        }
        match failed {
            Some(kind) => self.failed[kind as usize] += 1,
            None => {
                self.succeeded += 1;
                self.response.record(response);
                self.service.record(since(request.sent_at, done_at));
                self.first_byte
                    .record(since(request.sent_at, first_byte_at));
            }
        }
    }

    /// Keeps the words of the first failure of each kind.
    pub fn keep_words(&mut self, kind: FailureKind, detail: &Detail) {
        let first = &mut self.first_failure[kind as usize];
        if first.is_none() {
            *first = Some(detail.clone());
        }
    }

    /// A measured request failed without a response.
    pub fn note_failure(&mut self, request: Request, failure: &Failure) {
        self.failed[failure.kind as usize] += 1;
        if let Some(named) = self.by_name.get_mut(request.which as usize) {
            named.counts.failed[failure.kind as usize] += 1;
            self.pieces.failed(request, failure.kind);
        }
    }

    /// A measured request that was due at this time was given up unsent.
    pub fn note_dropped(&mut self, scheduled_at: u64) {
        self.dropped += 1;
        self.pieces.dropped(scheduled_at);
    }

    /// Adds another thread's counts.
    pub fn merge(&mut self, other: &Tally) {
        self.pieces.merge(&other.pieces);
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.completed += other.completed;
        self.succeeded += other.succeeded;
        self.late += other.late;
        self.dropped += other.dropped;
        self.retried += other.retried;
        self.body_bytes += other.body_bytes;
        self.first_body_bytes = self.first_body_bytes.or(other.first_body_bytes);
        self.other_length += other.other_length;
        self.log.extend_from_slice(&other.log);
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.opened += other.opened;
        self.closed_by_server += other.closed_by_server;
        self.stray += other.stray;
        self.response.merge(&other.response);
        self.service.merge(&other.service);
        self.first_byte.merge(&other.first_byte);
        self.connect.merge(&other.connect);
        self.schedule_lag.merge(&other.schedule_lag);
        if self.by_name.is_empty() {
            self.by_name.clone_from(&other.by_name);
        } else {
            let pairs = self.by_name.iter_mut().zip(&other.by_name);
            pairs.for_each(|(ours, theirs)| ours.merge(theirs));
        }
        let by_status = self.status.iter_mut().zip(&other.status);
        by_status.for_each(|(ours, theirs)| *ours += theirs);
        for kind in FailureKind::ALL {
            self.failed[kind as usize] += other.failed[kind as usize];
            if let Some(detail) = &other.first_failure[kind as usize] {
                self.keep_words(kind, detail);
            }
        }
    }
}

impl ByName {
    fn merge(&mut self, other: &ByName) {
        self.counts.merge(&other.counts);
        let checks = self.checks.0.iter_mut().zip(&other.checks.0);
        checks.for_each(|(ours, theirs)| *ours += theirs);
    }
}

/// The failure that a status is; `None` below 400. Statuses above 599 do not exist and fail as 5xx.
pub(crate) fn failure_of_status(status: u16) -> Option<FailureKind> {
    match status {
        0..400 => None,
        400..500 => Some(FailureKind::Status4xx),
        _ => Some(FailureKind::Status5xx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scheduled_at: u64, sent_at: u64) -> Request {
        Request {
            scheduled_at,
            sent_at,
            ..Request::default()
        }
    }

    fn answer(status: u16, body_bytes: u64) -> Answer {
        Answer {
            status,
            keep_alive: true,
            body_bytes,
        }
    }

    #[test]
    fn bodies_are_measured_against_the_first_and_requests_are_kept_while_there_is_room() {
        let mut tally = Tally::new();
        tally.log.reserve_exact(1);
        for bytes in [5, 5, 7] {
            tally.note_answer(request(100, 100), 30, 140, 150, answer(200, bytes), None);
        }
        assert_eq!((tally.body_bytes, tally.other_length), (17, 1));
        assert_eq!((tally.log.len(), tally.log[0].connect_ns), (1, 30));
        let longest = |h: &Histogram| h.max().map(|n| n.0);
        assert_eq!(longest(&tally.response), Some(80), "with the opening");
        assert_eq!(longest(&tally.service), Some(50));
    }

    #[test]
    fn response_counts_from_the_schedule_and_service_from_the_send() {
        let mut tally = Tally::new();
        tally.note_answer(request(100, 300), 0, 400, 500, answer(200, 5), None);
        let exact = |h: &Histogram| h.max().map(|n| n.0);
        assert_eq!(exact(&tally.response), Some(400));
        assert_eq!(exact(&tally.service), Some(200));
        assert_eq!(exact(&tally.first_byte), Some(100));
    }

    #[test]
    fn a_bad_status_is_an_answer_and_a_failure_but_no_latency() {
        let mut tally = Tally::new();
        for status in [404, 500, 999] {
            tally.note_answer(
                request(0, 0),
                0,
                1,
                2,
                answer(status, 0),
                failure_of_status(status),
            );
        }
        assert_eq!((tally.completed, tally.succeeded), (3, 0));
        assert_eq!(tally.failed[FailureKind::Status4xx as usize], 1);
        assert_eq!(tally.failed[FailureKind::Status5xx as usize], 2);
        assert_eq!(tally.response.count(), 0);
    }

    #[test]
    fn what_is_sent_a_millisecond_after_its_time_is_late_whoever_was_slow() {
        let mut tally = Tally::new();
        tally.note_sent(request(0, 1_000_000), Some(3));
        assert_eq!(tally.late, 0);
        tally.note_sent(request(0, 1_000_001), None);
        assert_eq!((tally.late, tally.sent), (1, 2));
        assert_eq!(tally.schedule_lag.max(), Some(Nanos(3)));
    }
}
