//! One outcome of those of the parts that several hosts carried.

use crate::{
    Connections, Contents, GeneratorCost, Interval, LoadOutcome, Nanos, Pauses, PieceOutcome,
    RequestCounts, RequestOutcome, ThreadCost, Warning,
};
use std::collections::BTreeMap;

impl LoadOutcome {
    /// The parts of one load as one, their times on one clock. Counts add up and histograms merge without loss; the
    /// measured part reaches from the first begin to the last end. `intervals` are those of all parts together.
    /// `None` of no part.
    pub fn of_parts(parts: &[LoadOutcome], intervals: Vec<Interval>) -> Option<LoadOutcome> {
        let (first, others) = parts.split_first()?;
        let mut sum = first.clone();
        for part in others {
            sum.add(part);
        }
        // Their ids and CPUs are of other hosts.
        for thread in &mut sum.generator.threads {
            (thread.tid, thread.cpu) = (0, None);
        }
        sum.log.sort_by_key(|request| request.scheduled_at);
        sum.intervals = intervals;
        Some(sum)
    }

    fn add(&mut self, part: &LoadOutcome) {
        self.started_at = self.started_at.min(part.started_at);
        self.measured_from = self.measured_from.min(part.measured_from);
        self.measured_to = self.measured_to.max(part.measured_to);
        self.interrupted |= part.interrupted;
        self.requests.add(&part.requests);
        add_up(&mut self.status, &part.status);
        self.received_bytes += part.received_bytes;
        self.sent_bytes += part.sent_bytes;
        self.response.merge(&part.response);
        self.service.merge(&part.service);
        self.connect.merge(&part.connect);
        self.first_byte.merge(&part.first_byte);
        self.connections.add(&part.connections);
        self.generator.add(&part.generator);
        let successes = &part.successes_per_connection;
        self.successes_per_connection.extend(successes);
        for (kind, words) in &part.first_failure {
            let first = self.first_failure.entry(*kind);
            first.or_insert_with(|| words.clone());
        }
        for warning in &part.warnings {
            let same = |known: &&Warning| known.name == warning.name;
            if !self.warnings.iter().any(|known| same(&known)) {
                self.warnings.push(warning.clone());
            }
        }
        self.contents = match (self.contents.take(), &part.contents) {
            (Some(own), Some(more)) => Some(own.and(more)),
            (one, other) => one.or_else(|| other.clone()),
        };
        self.log.extend(&part.log);
        for (own, more) in self.by_request.iter_mut().zip(&part.by_request) {
            own.add(more);
        }
        if let (Some(own), Some(more)) = (&mut self.event_streams, &part.event_streams) {
            own.merge(more);
        }
        // A part that ended early has fewer.
        let known = self.by_piece.len().min(part.by_piece.len());
        self.by_piece.extend_from_slice(&part.by_piece[known..]);
        for (own, more) in self.by_piece[..known].iter_mut().zip(&part.by_piece) {
            own.add(more);
        }
    }

    /// The same outcome by another clock, which shows `theirs` where this one's shows `ours`.
    #[must_use]
    pub fn on_clock(mut self, ours: impl Fn(Nanos) -> Nanos) -> LoadOutcome {
        let times = [
            &mut self.started_at,
            &mut self.measured_from,
            &mut self.measured_to,
        ];
        times.into_iter().for_each(|time| *time = ours(*time));
        for interval in &mut self.intervals {
            (interval.from, interval.to) = (ours(interval.from), ours(interval.to));
        }
        for request in &mut self.log {
            request.scheduled_at = ours(request.scheduled_at);
            request.sent_at = ours(request.sent_at);
            request.first_byte_at = ours(request.first_byte_at);
            request.done_at = ours(request.done_at);
        }
        self
    }
}

fn add_up<K: Ord + Copy>(sum: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
    for (key, n) in more {
        *sum.entry(*key).or_default() += n;
    }
}

impl RequestCounts {
    fn add(&mut self, part: &RequestCounts) {
        self.scheduled += part.scheduled;
        self.sent += part.sent;
        self.completed += part.completed;
        self.succeeded += part.succeeded;
        self.late += part.late;
        self.dropped += part.dropped;
        self.retried += part.retried;
        add_up(&mut self.failed, &part.failed);
    }
}

impl Connections {
    /// The most open at one time is a sum of what need not have been at one time.
    fn add(&mut self, part: &Connections) {
        self.asked += part.asked;
        self.opened += part.opened;
        self.peak_open += part.peak_open;
        self.closed_by_server += part.closed_by_server;
        self.tls_full += part.tls_full;
        self.tls_resumed += part.tls_resumed;
        self.unanswered += part.unanswered;
        if self.alpn.is_empty() {
            self.alpn.clone_from(&part.alpn);
        }
        let allowed = [self.streams_allowed, part.streams_allowed];
        self.streams_allowed = allowed.into_iter().flatten().min();
    }
}

impl GeneratorCost {
    fn add(&mut self, part: &GeneratorCost) {
        if !self.engine.split(", ").any(|known| known == part.engine) {
            self.engine = format!("{}, {}", self.engine, part.engine);
        }
        self.threads
            .extend_from_slice(&part.threads as &[ThreadCost]);
        self.syscalls += part.syscalls;
        self.pauses = match (self.pauses, part.pauses) {
            (Some(own), Some(more)) => Some(Pauses {
                count: own.count + more.count,
                total_ns: own.total_ns + more.total_ns,
            }),
            _ => None,
        };
        self.peak_rss_bytes += part.peak_rss_bytes;
        self.schedule_lag.merge(&part.schedule_lag);
    }
}

impl Contents {
    fn and(self, part: &Contents) -> Contents {
        Contents {
            body_bytes: self.body_bytes + part.body_bytes,
            first_body_bytes: self.first_body_bytes.or(part.first_body_bytes),
            other_length: self.other_length + part.other_length,
            server: self.server.or_else(|| part.server.clone()),
        }
    }
}

impl PieceOutcome {
    fn add(&mut self, part: &PieceOutcome) {
        self.to = self.to.max(part.to);
        self.sent += part.sent;
        self.late += part.late;
        self.dropped += part.dropped;
        self.completed += part.completed;
        self.succeeded += part.succeeded;
        add_up(&mut self.failed, &part.failed);
        self.response.merge(&part.response);
    }
}

impl RequestOutcome {
    fn add(&mut self, part: &RequestOutcome) {
        self.sent += part.sent;
        self.completed += part.completed;
        self.succeeded += part.succeeded;
        add_up(&mut self.failed, &part.failed);
        for (name, n) in &part.failed_checks {
            *self.failed_checks.entry(name.clone()).or_default() += n;
        }
        self.response.merge(&part.response);
    }
}
