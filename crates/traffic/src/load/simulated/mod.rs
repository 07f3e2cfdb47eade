//! The load loop against a simulated server on simulated time: [`super::worker`] and [`super::exchange`] as they are,
//! on a clock and a transport that a seed decides.
//!
//! A [`Case`] is run to its end and its report held against what truly happened ([`world::Books`]) and against
//! arithmetic. Whatever breaks is shown with the case, its seed and a timeline of the last events.

mod cases;
mod flood;
mod timeline;
mod world;

use super::connection::Policy;
use super::exchange::Exchange;
use super::shared::Shared;
use super::slices;
use super::tally::{Tally, Window};
use super::worker::{Report, Task, Worker};
use crate::arrival::{Arrivals, Limits, Share};
use record::{Arrival, Close, FailureKind, Nanos, RateCourse, RatePieces};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use world::{Books, Machine, REQUEST, Server, World};

/// Slices that a thread of a case owns: nobody reads them.
const SLICES: usize = 2;
/// From the end of the grace to the end of the loop: a round of a slow machine.
const LAST_ROUND_NS: u64 = 5_000_000;

/// One load thread, its machine and its server.
#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    arrival: Arrival,
    pieces: RatePieces,
    share: Share,
    slots: u32,
    warmup_ns: u64,
    duration_ns: Option<u64>,
    budget: u64,
    timeout_ns: u64,
    per_connection: u64,
    depth: usize,
    spin_ns: u64,
    /// Whoever watches the server says that it is full.
    known_full: bool,
    coalesce_ns: Option<u64>,
    machine: Machine,
    server: Server,
}

impl Case {
    /// A load of one second over `slots` connections.
    fn new(arrival: Arrival, slots: u32, server: Server) -> Self {
        Case {
            seed: 0,
            arrival,
            pieces: RatePieces::default(),
            share: Share { index: 0, of: 1 },
            slots,
            warmup_ns: 0,
            duration_ns: Some(1_000_000_000),
            budget: u64::MAX,
            timeout_ns: 2_000_000_000,
            per_connection: u64::MAX,
            depth: 1,
            spin_ns: 0,
            known_full: false,
            coalesce_ns: None,
            machine: Machine::default(),
            server,
        }
    }

    fn course(&self) -> Option<Arc<RateCourse>> {
        let warmup = Nanos(self.warmup_ns);
        (!self.pieces.is_empty()).then(|| Arc::new(RateCourse::new(&self.pieces, warmup)))
    }

    fn task(&self) -> Task {
        Task {
            requests: REQUEST.repeat(self.depth).into(),
            arrival: self.arrival,
            course: self.course(),
            timetable: None,
            share: self.share,
            budget: self.budget,
            close: Close::Fin,
            open_first: self.per_connection > 1,
            timeout_ns: self.timeout_ns,
            spin_ns: self.spin_ns,
            coalesce_ns: self.coalesce_ns,
        }
    }

    fn policy(&self) -> Policy {
        Policy {
            depth: self.depth,
            per_connection: self.per_connection,
            connect_counts: false,
            announces_close: false,
            head_requests: false,
            request_bytes: REQUEST.len(),
            timeout_ns: self.timeout_ns,
            streams: 1,
            is_decoded: false,
        }
    }

    /// Due times of this thread from `started_at` to `until`; none in a closed loop.
    fn due(&self, started_at: u64, until: u64) -> Vec<u64> {
        if self.arrival == Arrival::Closed {
            return Vec::new();
        }
        let limits = Limits {
            measured_from: 0,
            until,
            budget: u64::MAX,
        };
        let mut arrivals = Arrivals::new(
            &self.arrival,
            self.course().as_ref(),
            self.share,
            0,
            started_at,
            limits,
        );
        std::iter::from_fn(|| arrivals.take(until)).collect()
    }
}

/// A case that ended.
struct Ended {
    report: Report,
    started_at: u64,
    measured: Window,
    ended_at: u64,
    books: Books,
}

/// Runs a case to its end and checks it; `more` checks what is particular to it.
///
/// # Panics
/// When something broke, with the case and the timeline.
fn check(case: &Case, more: impl FnOnce(&Ended)) {
    let world = World::new(case.server.clone(), case.machine, case.slots, case.seed);
    let world = Rc::new(RefCell::new(world));
    let duration = case.duration_ns;
    let shared = Arc::new(Shared::new(1, case.warmup_ns, duration));
    shared.set_server_full(case.known_full);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let ended = run(case, &world, &shared);
        invariants(case, &ended);
        more(&ended);
    }));
    if let Err(cause) = outcome {
        panic!(
            "{}",
            message(case, &world.borrow(), &shared, cause.as_ref())
        );
    }
}

fn run(case: &Case, world: &Rc<RefCell<World>>, shared: &Arc<Shared>) -> Ended {
    let (slicer, lane) = slices::lane_of(SLICES);
    let exchange = Exchange::new(case.policy(), case.slots, slicer);
    let (transport, clock) = world::ends(world);
    let worker = Worker::new(transport, clock, exchange, case.task(), Arc::clone(shared));
    let report = worker.run();
    drop(lane);
    let started_at = shared
        .started_at()
        .expect("a load that has ended had begun");
    let mut world = world.borrow_mut();
    Ended {
        measured: Window {
            from: shared.window().from.min(report.ended_at),
            to: report.ended_at,
        },
        report,
        started_at,
        ended_at: world.now,
        books: std::mem::take(&mut world.books),
    }
}

/// What holds in every case.
fn invariants(case: &Case, ended: &Ended) {
    let Ended { report, books, .. } = ended;
    let tally = &report.tally;
    same(
        "requests scheduled, and sent or dropped",
        tally.scheduled,
        tally.sent + tally.dropped,
    );
    let in_flight = in_flight(tally);
    let room = u64::from(case.slots) * case.depth as u64;
    assert!(
        in_flight <= room,
        "{in_flight} requests in flight at the stop, room is for {room}"
    );
    same(
        "complete responses, and successes and bad statuses",
        tally.completed,
        tally.succeeded + of_status(tally),
    );
    for (name, histogram) in [
        ("response", &tally.response),
        ("service", &tally.service),
        ("first byte", &tally.first_byte),
    ] {
        same(
            &format!("successes, and times of {name}"),
            tally.succeeded,
            histogram.count(),
        );
    }
    same(
        "connections, and times to connect",
        tally.opened,
        tally.connect.count(),
    );
    same(
        "connections that the loop and the server saw",
        tally.opened,
        books.opened,
    );
    same(
        "successes, and those of all connections",
        tally.succeeded,
        report.successes.iter().sum(),
    );
    assert!(
        tally.completed <= books.responses,
        "{} responses counted, {} received",
        tally.completed,
        books.responses
    );
    assert!(
        books.peak_open <= case.slots,
        "{} connections open, {} asked for",
        books.peak_open,
        case.slots
    );
    let (response, service) = (tally.response.max(), tally.service.max());
    assert!(
        response >= service,
        "response {response:?} below service {service:?}"
    );
    schedule_is_kept(case, ended);
    attempts_are_bounded(case, ended);
    let grace_ns = match case.arrival {
        Arrival::Closed => 0,
        _ => case.timeout_ns.min(2_000_000_000),
    };
    // The stop is slept through as the end of the grace is, which begins where the stop was seen.
    let latest = ended.measured.to + grace_ns + 2 * case.machine.oversleep_ns + LAST_ROUND_NS;
    assert!(
        ended.ended_at <= latest,
        "the loop ends {} after the end of the grace",
        Nanos(ended.ended_at - latest)
    );
}

fn same(what: &str, a: u64, b: u64) {
    assert!(a == b, "{what}: {a} and {b}");
}

fn of_status(tally: &Tally) -> u64 {
    tally.failed[FailureKind::Status4xx as usize] + tally.failed[FailureKind::Status5xx as usize]
}

fn in_flight(tally: &Tally) -> u64 {
    let failed: u64 = tally.failed.iter().sum();
    let settled = tally.completed + failed - of_status(tally);
    let more = "more requests met their fate than were sent";
    tally.sent.checked_sub(settled).expect(more)
}

/// Nothing is sent before it is due, and what came due is counted.
fn schedule_is_kept(case: &Case, ended: &Ended) {
    let sends = &ended.books.sends;
    let early = sends
        .iter()
        .filter(|(at, _)| *at < ended.started_at)
        .count();
    assert!(early == 0, "{early} requests sent before the start");
    let tally = &ended.report.tally;
    if case.arrival == Arrival::Closed {
        same(
            "requests scheduled and sent in a closed loop",
            tally.scheduled,
            tally.sent,
        );
        return;
    }
    // A load that its last request ends may end at the time at which that was due.
    let end = ended.measured.to + u64::from(case.duration_ns.is_none());
    let due = case.due(ended.started_at, end);
    for (number, &(at, lost)) in (1..).zip(sends) {
        // What was lost with its connection may have been sent again.
        let by_then = due.partition_point(|&due| due <= at) as u64;
        assert!(
            number - lost.min(number) <= by_then,
            "request {number} was sent when {by_then} were due and {lost} had been lost"
        );
    }
    let measured = due.iter().filter(|&&due| due >= ended.measured.from);
    let expected = (measured.count() as u64).min(case.budget);
    same(
        "requests due in the measured part, and scheduled",
        expected,
        tally.scheduled,
    );
}

/// A server that refuses is not stormed: the pauses between attempts double from 10 ms on.
fn attempts_are_bounded(case: &Case, ended: &Ended) {
    let books = &ended.books;
    let failed = books.attempts - books.opened;
    let spent_ms = (ended.ended_at - 1_000_000_000) / 1_000_000;
    let most = u64::from(case.slots) * (spent_ms / 10 + 2) + books.responses;
    assert!(
        failed <= most,
        "{failed} attempts to connect failed within {spent_ms} ms"
    );
}

/// What broke, in which case, and the way there.
fn message(case: &Case, world: &World, shared: &Shared, cause: &(dyn Any + Send)) -> String {
    let broken = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message");
    let started_at = shared.started_at();
    let origin = started_at.unwrap_or(world.now);
    let due = case.due(started_at.unwrap_or(u64::MAX), origin.max(world.now));
    let mut text = format!("seed {}: {broken}\n{case:?}\n", case.seed);
    // Writing to a string does not fail.
    let _ = match started_at {
        Some(_) => writeln!(text, "timeline, from the start of the load on:"),
        None => writeln!(text, "timeline, before the start of the load:"),
    };
    text + &world.timeline.show(origin, &due)
}
