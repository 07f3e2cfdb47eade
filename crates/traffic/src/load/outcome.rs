//! The threads' reports as one [`LoadOutcome`]: arithmetic after the load.

use super::shared::Shared;
use super::tally::Tally;
use super::worker::Report;
use super::workload::Prepared;
use crate::transport::Handshakes;
use linux::procfs::PROC;
use record::traffic::SideOutcome;
use record::{
    Connections, Contents, FailureKind, GeneratorCost, Interval, LoadOutcome, LoadSpec, Nanos,
    Part, Pauses, RequestCounts, RequestOutcome, ThreadCost, Warning,
};
use std::path::Path;

/// What an outcome is made of.
pub(crate) struct Parts<'a> {
    /// What was asked for.
    pub spec: &'a LoadSpec,
    /// Which threads of it were here.
    pub part: Part,
    /// What it asked for, when that was more than one request.
    pub workload: Option<&'a Prepared>,
    /// When it started, whether it was stopped.
    pub shared: &'a Shared,
    /// Kernel ids, by thread.
    pub thread_ids: &'a [i32],
    /// One per thread.
    pub reports: Vec<Report>,
    /// The slices so far.
    pub intervals: Vec<Interval>,
    /// From the preparation.
    pub warnings: Vec<Warning>,
    /// Now.
    pub finished_at: u64,
}

/// Merges the threads' reports.
pub(crate) fn merge(parts: Parts<'_>) -> LoadOutcome {
    let mut tally = Tally::new();
    for report in &parts.reports {
        tally.merge(&report.tally);
    }
    let started_at = parts.shared.started_at().unwrap_or(parts.finished_at);
    let ends = parts.reports.iter().map(|report| report.ended_at);
    let measured_to = ends.max().unwrap_or(started_at);
    let measured_from = parts.shared.window().from.min(measured_to);
    let connections = connections(&parts, &tally);
    let generator = generator_cost(&parts, &tally);
    let successes = parts.reports.iter().flat_map(|r| r.successes.iter());
    let contents = contents(&parts.reports, &tally);
    let measured = Nanos(measured_to.saturating_sub(measured_from));
    let given_up = parts.shared.has_given_up().then(|| gave_up(measured));
    let fewer_streams = connections
        .streams_allowed
        .map(|allowed| fewer_streams(parts.spec.streams, allowed));
    let by_request = by_request(&parts, &tally);
    let mut streams = parts.reports.iter().filter_map(|r| r.event_streams.clone());
    let event_streams = streams.next().map(|mut sum| {
        streams.for_each(|more| sum.merge(&more));
        sum
    });
    let unasked = unasked(parts.reports.iter().map(|report| report.unasked).sum());
    let warnings = parts.warnings.into_iter().chain(stray(&tally));
    let warnings = warnings.chain(unasked);
    let warnings = warnings.chain(given_up).chain(fewer_streams).collect();
    LoadOutcome {
        started_at: Nanos(started_at),
        measured_from: Nanos(measured_from),
        measured_to: Nanos(measured_to),
        interrupted: parts.shared.is_stopped(),
        requests: request_counts(&tally),
        status: by_status(&tally.status),
        received_bytes: tally.received_bytes,
        sent_bytes: tally.sent_bytes,
        first_failure: first_failures(&tally),
        warnings,
        successes_per_connection: successes.copied().collect(),
        intervals: parts.intervals,
        response: tally.response,
        service: tally.service,
        connect: tally.connect,
        first_byte: tally.first_byte,
        connections,
        generator,
        contents: Some(contents),
        log: tally.log,
        by_request,
        by_piece: tally.pieces.outcomes(measured),
        event_streams,
    }
}

/// Messages that a server pushes.
fn unasked(count: u64) -> Option<Warning> {
    (count > 0).then(|| {
        Warning::new(
            "unasked_messages",
            format!(
                "{count} messages came over WebSocket while no reply was awaited; they are not counted, but one that came after a message was sent counted as the reply to it"
            ),
            "load a path whose server only replies, for the response times of its replies",
        )
    })
}

fn contents(reports: &[Report], tally: &Tally) -> Contents {
    let server = reports.iter().find_map(|report| {
        let (_, headers) = http1::response_fields(&report.last_head).ok()?;
        let mut named = headers.into_iter();
        Some(named.find(|(name, _)| name == "server")?.1)
    });
    Contents {
        body_bytes: tally.body_bytes,
        first_body_bytes: tally.first_body_bytes,
        other_length: tally.other_length,
        server,
    }
}

/// The requests of a workload, each by itself.
fn by_request(parts: &Parts<'_>, tally: &Tally) -> Vec<RequestOutcome> {
    let (Some(work), Some(_)) = (parts.workload, &parts.spec.workload) else {
        return Vec::new();
    };
    let pairs = work.names().zip(&tally.by_name);
    let outcomes = pairs.map(|((name, checks), counted)| {
        let checks = checks.iter().zip(&counted.checks.0);
        let failed_checks = checks.filter(|(_, n)| **n > 0);
        RequestOutcome {
            name: name.to_owned(),
            sent: counted.counts.sent,
            completed: counted.counts.completed,
            succeeded: counted.counts.succeeded,
            failed: by_kind(&counted.counts.failed),
            failed_checks: failed_checks.map(|(name, n)| (name.clone(), *n)).collect(),
            response: counted.counts.response.clone(),
        }
    });
    outcomes.collect()
}

/// The failures that there were.
pub(super) fn by_kind(
    failed: &[u64; FailureKind::ALL.len()],
) -> std::collections::BTreeMap<FailureKind, u64> {
    let counted = FailureKind::ALL.map(|kind| (kind, failed[kind as usize]));
    counted.into_iter().filter(|&(_, n)| n > 0).collect()
}

fn request_counts(tally: &Tally) -> RequestCounts {
    let failed = by_kind(&tally.failed);
    RequestCounts {
        scheduled: tally.scheduled,
        sent: tally.sent,
        completed: tally.completed,
        succeeded: tally.succeeded,
        late: tally.late,
        dropped: tally.dropped,
        retried: tally.retried,
        failed,
    }
}

fn by_status(counts: &[u64]) -> std::collections::BTreeMap<u16, u64> {
    // What has no status, a message over WebSocket, is counted as 0.
    let numbered = (0_u16..).zip(counts.iter().copied()).skip(1);
    numbered.filter(|&(_, n)| n > 0).collect()
}

fn first_failures(tally: &Tally) -> std::collections::BTreeMap<FailureKind, String> {
    FailureKind::ALL
        .into_iter()
        .filter_map(|kind| {
            let words = tally.first_failure[kind as usize].as_ref()?;
            Some((kind, words.to_string()))
        })
        .collect()
}

fn connections(parts: &Parts<'_>, tally: &Tally) -> Connections {
    let mut handshakes = Handshakes::default();
    for report in &parts.reports {
        handshakes.full += report.handshakes.full;
        handshakes.resumed += report.handshakes.resumed;
        if handshakes.alpn.is_empty() {
            handshakes.alpn.clone_from(&report.handshakes.alpn);
        }
    }
    Connections {
        asked: parts.part.of_count(parts.spec.connections.into()) as u32,
        opened: tally.opened,
        peak_open: parts.shared.open_count.peak(),
        closed_by_server: parts.reports.iter().map(|r| r.closed_by_server).sum(),
        tls_full: handshakes.full,
        tls_resumed: handshakes.resumed,
        alpn: handshakes.alpn,
        streams_allowed: parts.reports.iter().filter_map(|r| r.streams_allowed).min(),
        unanswered: parts.reports.iter().map(|r| r.unanswered).sum(),
    }
}

fn generator_cost(parts: &Parts<'_>, tally: &Tally) -> GeneratorCost {
    let cpus = &parts.spec.cpus;
    let confined = linux::affinity::confined();
    let threads = parts
        .reports
        .iter()
        .enumerate()
        .map(|(i, report)| ThreadCost {
            tid: parts.thread_ids[i],
            cpu: (!cpus.is_empty()).then(|| cpus[i % cpus.len()]),
            cpus: confined.clone(),
            cpu_user_ns: report.cost.user_ns,
            cpu_system_ns: report.cost.system_ns,
            wall_ns: report.cost.wall_ns,
            spin_ns: report.cost.spin_ns,
            completed: report.tally.completed,
        });
    GeneratorCost {
        engine: parts
            .reports
            .first()
            .map(|report| report.engine.clone())
            .unwrap_or_default(),
        threads: threads.collect(),
        syscalls: parts.reports.iter().map(|r| r.syscalls).sum(),
        pauses: Some(pauses(&parts.reports)),
        peak_rss_bytes: own_peak_rss_bytes(),
        schedule_lag: tally.schedule_lag.clone(),
        stack: stack(&parts.reports),
    }
}

/// The stacks of all threads as one side.
fn stack(reports: &[Report]) -> Option<SideOutcome> {
    let sides = reports.iter().filter_map(|report| report.stack.clone());
    SideOutcome::of_threads(sides.collect()).map(|sum| SideOutcome {
        // What each thread cost stands beside it.
        threads: Vec::new(),
        ..sum
    })
}

/// Zero where `/proc` is not mounted, and nothing else of the host can be said either.
fn own_peak_rss_bytes() -> u64 {
    let own = std::process::id().cast_signed();
    linux::procfs::peak_rss_bytes(Path::new(PROC), own).unwrap_or(0)
}

fn pauses(reports: &[Report]) -> Pauses {
    let each = reports.iter().map(|report| report.cost.pauses);
    each.fold(Pauses::default(), |sum, one| Pauses {
        count: sum.count + one.count,
        total_ns: sum.total_ns + one.total_ns,
    })
}

fn stray(tally: &Tally) -> Option<Warning> {
    (tally.stray > 0).then(|| {
        Warning::new(
            "stray_bytes",
            format!(
                "{} connections carried bytes that no request had asked for and were closed; the server sends more than its responses announce",
                tally.stray
            ),
            "compare Content-Length with what the server sends",
        )
    })
}

fn fewer_streams(asked: u32, allowed: u32) -> Warning {
    Warning::new(
        "fewer_streams",
        format!(
            "the server allows {allowed} concurrent streams on a connection, so no connection had the {asked} that were asked for"
        ),
        format!(
            "use --streams {allowed} with more connections, or raise the server's limit (SETTINGS_MAX_CONCURRENT_STREAMS)"
        ),
    )
}

fn gave_up(measured: Nanos) -> Warning {
    Warning::new(
        "gave_up",
        format!("every connection attempt failed for {measured}, so the load ended there"),
        "start the server first, and check the host, the port and the scheme of the URL",
    )
}
