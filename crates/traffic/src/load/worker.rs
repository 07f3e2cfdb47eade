//! The load loop: one thread, one transport, many connections. There is no other.
//!
//! Once around: send what is due on connections that are free, wait, and for each connection with news
//! receive all of it and at once send what is due next. Reading all connections first and then sending
//! on all costs 8 % more CPU per request and leaves the server idle in between (nginx, 64 connections).
//! Times are read from the clock once per send and once per receive. A busy closed loop lets responses gather
//! before it looks for them, see [`super::coalesce`].
//!
//! Phases: open the connections; wait for the other threads; warm up; measure; a short grace for the responses
//! that still count. Everything is allocated before the first phase.
//!
//! Clock and transport are parameters, so that the same loop runs against a simulated server on simulated time.

use super::connection::{Ending, TimedOut};
use super::cost::{Cost, Snapshot};
use super::exchange::Exchange;
use super::response::Answer;
use super::shared::Shared;
use super::slices::Edges;
use super::tally::{Tally, Window};
use crate::arrival::{Arrivals, Limits, Share};
use crate::clock::LoopClock;
use crate::transport::{Event, Failure, Handshakes, Received, Slot, Tagged, Transport};
use record::{Arrival, Close, EventStreams, FailureKind, Pauses, RateCourse, Timetable};
use std::sync::Arc;

/// The longest time between two looks at timeouts and at the stop; the stop is announced further ahead.
const TICK_MAX_NS: u64 = 100_000_000;
/// The shortest, and the one while connections rest before another attempt.
const TICK_MIN_NS: u64 = 1_000_000;
const RESTING_TICK_NS: u64 = 10_000_000;
/// A measurement in which every connection attempt has failed for this long will not become one. With the pauses
/// between attempts each connection has been tried about seven times by then.
pub(crate) const GIVE_UP_NS: u64 = 1_000_000_000;
/// The longest deliberate spin before a scheduled send: waking from a sleep takes 20 to 70 us here.
pub(crate) const SPIN_MAX_NS: u64 = 80_000;
/// So much is read from a stream of events before others, and the clock, have their turn.
const TURN_BYTES: usize = 64 * 1024;
/// While spinning, look for answers this often.
const SPIN_POLL_NS: u64 = 2_000;

/// What a thread does, beyond the connection policy.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// As many copies of the request as one connection may have in flight.
    pub requests: Arc<[u8]>,
    /// When requests are due.
    pub arrival: Arrival,
    /// How their rate changes.
    pub course: Option<Arc<RateCourse>>,
    /// When each of them is due, where that was read.
    pub timetable: Option<Timetable>,
    /// This thread's part.
    pub share: Share,
    /// This thread's part of the number of requests; `u64::MAX` without one.
    pub budget: u64,
    /// How connections are closed.
    pub close: Close,
    /// Open all connections before the load starts.
    pub open_first: bool,
    /// A request without an answer for this long has failed.
    pub timeout_ns: u64,
    /// Spin for this long before scheduled sends; 0 only sleeps.
    pub spin_ns: u64,
    /// How long responses may gather before the loop looks for them; `None` lets the loop find out, while the server is
    /// full and the loop closed.
    pub coalesce_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    WarmUp,
    Measured,
    Grace,
    Done,
}

/// What a thread leaves behind.
pub(crate) struct Report {
    /// Counts.
    pub tally: Tally,
    /// Cost of the measured part.
    pub cost: Cost,
    /// End of the measured part for this thread.
    pub ended_at: u64,
    /// System calls of the measured part.
    pub syscalls: u64,
    /// Measured successes of each connection slot.
    pub successes: Vec<u64>,
    /// See [`record::Connections::unanswered`].
    pub unanswered: u32,
    /// Connections that the server ended, the whole load.
    pub closed_by_server: u64,
    /// Streams that the server allows on a connection, where that is fewer than were asked for.
    pub streams_allowed: Option<u32>,
    /// TLS handshakes.
    pub handshakes: Handshakes,
    /// Messages that came while no answer was awaited, the whole load.
    pub unasked: u64,
    /// Streams of events, of a load that awaits them.
    pub event_streams: Option<EventStreams>,
    /// The last response's head.
    pub last_head: Vec<u8>,
    /// The transport's name.
    pub engine: String,
    /// What a TCP in user space counted.
    pub stack: Option<record::traffic::SideOutcome>,
}

/// One load thread; see the module.
pub(crate) struct Worker<T, C> {
    transport: T,
    clock: C,
    exchange: Exchange,
    task: Task,
    shared: Arc<Shared>,
    phase: Phase,
    events: Vec<Tagged>,
    /// Streams of events with more to read, and the place of the next such list.
    unread: Vec<Slot>,
    unread_next: Vec<Slot>,
    edges: Edges,
    slice_edge: u64,
    tick_at: u64,
    grace_until: u64,
    /// The server cannot be reached, as far as this thread can see, and the others know it.
    is_unreachable: bool,
    /// The earliest of all times at which something other than an event must be done.
    next_edge: u64,
    spun_ns: u64,
    /// Responses may gather now.
    gathers: bool,
    /// Sleeps that let responses gather, one system call each.
    pauses: Pauses,
    /// CPU time and spin at the last cut.
    cut_at: Snapshot,
    from: Snapshot,
    to: Option<Snapshot>,
}

impl<T: Transport, C: LoopClock> Worker<T, C> {
    /// A worker that has allocated all it will need.
    pub fn new(
        transport: T,
        clock: C,
        exchange: Exchange,
        task: Task,
        shared: Arc<Shared>,
    ) -> Self {
        let streams = match exchange.is_endless() {
            true => 2 * exchange.slots() as usize,
            false => 0,
        };
        Worker {
            unread: Vec::with_capacity(streams),
            unread_next: Vec::with_capacity(streams),
            transport,
            clock,
            exchange,
            task,
            shared,
            phase: Phase::WarmUp,
            events: Vec::with_capacity(2048),
            edges: Edges::new(0, None),
            slice_edge: 0,
            tick_at: 0,
            grace_until: u64::MAX,
            is_unreachable: false,
            next_edge: 0,
            spun_ns: 0,
            gathers: false,
            pauses: Pauses::default(),
            cut_at: Snapshot::default(),
            from: Snapshot::default(),
            to: None,
        }
    }

    /// What the threads share.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Runs the load.
    pub fn run(mut self) -> Report {
        self.open_connections();
        let started_at = self.await_start();
        self.begin(started_at);
        while self.phase != Phase::Done {
            self.send_due();
            if (self.phase == Phase::Grace || self.task.budget != u64::MAX) && self.end_if_settled()
            {
                break;
            }
            self.wait_for_events();
            self.handle_events();
            self.read_on();
            let now = self.now();
            if let Some(wire) = self.transport.take_wire() {
                self.exchange.count_wire(wire, now);
            }
            if now >= self.next_edge {
                self.cross_edges(now);
            }
        }
        self.report()
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now().0
    }

    // ---- Before the load ----

    fn open_connections(&mut self) {
        while self.task.open_first
            && let Some(slot) = self.exchange.any_closed()
        {
            self.open(slot);
        }
        let give_up_at = self.now().saturating_add(self.task.timeout_ns);
        while self.exchange.opening() > 0 && self.now() < give_up_at && !self.shared.is_stopped() {
            self.wait(TICK_MAX_NS / 10);
            self.handle_events();
        }
        self.shared.thread_is_ready(self.now());
    }

    fn await_start(&mut self) -> u64 {
        loop {
            let started_at = self.shared.started_at();
            let now = self.now();
            match started_at {
                Some(at) if now >= at => return at,
                Some(at) => self.wait(at - now),
                None => self.wait(TICK_MIN_NS),
            }
            self.handle_events();
        }
    }

    fn begin(&mut self, started_at: u64) {
        let window = self.shared.window();
        let limits = Limits {
            measured_from: window.from,
            until: window.to,
            budget: self.task.budget,
        };
        let Task {
            arrival,
            course,
            timetable,
            share,
            ..
        } = &self.task;
        let clients = self.exchange.capacity();
        self.exchange.arrivals = match timetable {
            Some(table) => Arrivals::listed(table, *share, started_at, limits),
            None => Arrivals::new(
                arrival,
                course.as_ref(),
                *share,
                clients,
                started_at,
                limits,
            ),
        };
        self.grace_until = self.exchange.set_window(window);
        self.edges = Edges::new(started_at, self.shared.total_ns());
        self.exchange.slicer.current.from = started_at;
        self.slice_edge = self.edges.after(started_at);
        self.cut_at = self.snapshot();
        self.cross_edges(self.now());
    }

    // ---- Once around ----

    /// Sends what is due on connections that are free, and opens connections for what has none.
    #[inline]
    fn send_due(&mut self) {
        if self.exchange.is_thinking() {
            let now = self.now();
            self.exchange.end_thinking(now);
        }
        while let Some(slot) = self.exchange.next_free() {
            let now = self.now();
            if !self.exchange.issue(slot, now) {
                break;
            }
            self.transmit(slot, now);
        }
        if self.exchange.has_closed() {
            let now = self.now();
            while let Some(slot) = self.exchange.next_to_open(now) {
                self.open(slot);
            }
        }
    }

    /// Hands a connection's unsent bytes to the transport.
    fn transmit(&mut self, slot: Slot, now: u64) {
        let sent = match self.exchange.written(slot) {
            // All requests are the same bytes, so what is unsent is always a tail of the copies.
            None => {
                let start = self.task.requests.len() - self.exchange.unsent(slot);
                self.transport.send(slot, &self.task.requests[start..])
            }
            Some(unsent) => self.transport.send(slot, unsent),
        };
        match sent {
            Ok(taken) => self.exchange.on_sent(slot, taken, now),
            Err(failure) => self.send_failed(slot, failure),
        }
    }

    /// The server may have answered and closed before it had the whole request: look first.
    fn send_failed(&mut self, slot: Slot, failure: Failure) {
        if !self.receive(slot, true) {
            let ending = self.exchange.on_broken(slot, failure);
            self.end(slot, &ending);
        }
    }

    fn open(&mut self, slot: Slot) {
        let now = self.now();
        let generation = self.exchange.on_opening(slot, now);
        if let Err(failure) = self.transport.open(slot, generation) {
            self.transport.close(slot, Close::Fin);
            self.exchange.on_open_failed(slot, &failure, now);
        }
    }

    fn end(&mut self, slot: Slot, ending: &Ending) {
        self.transport.close(slot, self.task.close);
        self.exchange.ended(slot, ending, self.now());
    }

    fn wait_for_events(&mut self) {
        if !self.unread.is_empty() {
            return self.wait(0);
        }
        let now = self.now();
        let due = self.exchange.wake_at(now).unwrap_or(u64::MAX);
        let until = due.min(self.next_edge);
        let mut left = until.saturating_sub(now);
        let spin_ns = self.task.spin_ns;
        if let Some(pause) = self.pause_ns(left.saturating_sub(spin_ns))
            && self.transport.flush()
        {
            self.clock.pause(pause);
            let paused_ns = self.now() - now;
            self.pauses.count += 1;
            self.pauses.total_ns += paused_ns;
            left = left.saturating_sub(paused_ns);
        }
        if spin_ns == 0 || due > self.next_edge || left == 0 {
            self.wait(left);
        } else if left > spin_ns {
            self.wait(left - spin_ns);
        } else {
            self.spin(now, until);
        }
    }

    /// How long answers may gather before the next look, at most `left`.
    fn pause_ns(&self, left: u64) -> Option<u64> {
        let pause = match self.task.coalesce_ns {
            Some(asked) => asked,
            None if self.gathers => self.exchange.coalesce.pause_ns()?,
            None => return None,
        };
        let pause = pause.min(left);
        (pause > 0).then_some(pause)
    }

    fn wait(&mut self, timeout_ns: u64) {
        if let Err(failure) = self.transport.wait(&mut self.events, timeout_ns) {
            // Without its events the thread would turn in circles until the end.
            self.exchange
                .tally
                .keep_words(failure.kind, &failure.detail);
            self.shared.stop(self.now());
        }
    }

    /// Burns the last stretch before a scheduled send, for a send on time.
    fn spin(&mut self, started_at: u64, until: u64) {
        let mut now = started_at;
        let mut poll_at = started_at;
        while now < until && self.events.is_empty() {
            if now >= poll_at {
                self.wait(0);
                poll_at = now + SPIN_POLL_NS;
            }
            self.clock.spin();
            now = self.now();
        }
        self.spun_ns += now - started_at;
    }

    fn handle_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        for tagged in events.drain(..) {
            let Tagged {
                slot,
                generation,
                event,
            } = tagged;
            // An earlier event of this batch may have ended the connection, and its slot may hold the next one.
            if !self.exchange.is_current(slot, generation, &event) {
                continue;
            }
            match event {
                Event::Opened => {
                    let at = self.transport.opened_at(slot);
                    self.exchange
                        .on_opened(slot, at.unwrap_or_else(|| self.now()));
                }
                Event::Joined => self.exchange.on_joined(slot, self.now()),
                Event::Parked => self.exchange.on_parked(slot, self.now()),
                Event::OpenFailed(failure) => {
                    self.exchange.on_open_failed(slot, &failure, self.now());
                }
                Event::Ready {
                    readable,
                    writable,
                    hangup,
                } => {
                    let ended = readable && self.receive(slot, hangup);
                    if writable && !ended && self.exchange.unsent(slot) > 0 {
                        self.transmit(slot, self.now());
                    }
                    self.send_due();
                }
            }
        }
        self.events = events;
    }

    /// Goes on with the streams that had more than their turn.
    fn read_on(&mut self) {
        if self.unread.is_empty() {
            return;
        }
        std::mem::swap(&mut self.unread, &mut self.unread_next);
        let mut unread = std::mem::take(&mut self.unread_next);
        for slot in unread.drain(..) {
            if self.exchange.take_unread(slot) {
                self.receive(slot, false);
            }
        }
        self.unread_next = unread;
    }

    /// Receives until nothing is left; true when the connection ended with it.
    #[inline]
    fn receive(&mut self, slot: Slot, hangup: bool) -> bool {
        let mut read = 0;
        loop {
            let came_at = self.transport.came_at(slot);
            let received = self.transport.recv(slot, self.exchange.want(slot));
            let at = came_at.unwrap_or_else(|| self.clock.now().0);
            let (ending, more) = match received {
                Ok(Received::Data { bytes, more }) => {
                    read += bytes.len();
                    (self.exchange.on_bytes(slot, bytes, at), more)
                }
                Ok(Received::Discarded { len, more }) => {
                    (self.exchange.on_discarded(slot, len, at), more)
                }
                Ok(Received::Answer {
                    status,
                    body_bytes,
                    first_byte_at,
                    goes_on,
                }) => {
                    let answer = Answer {
                        status,
                        body_bytes,
                        keep_alive: goes_on,
                    };
                    let ending = self.exchange.on_answer(slot, answer, first_byte_at, at);
                    (ending, false)
                }
                Ok(Received::Unprocessed(failure)) => (Some(Ending::Unprocessed(failure)), false),
                Ok(Received::Blocked) => return false,
                Ok(Received::End { orderly }) => {
                    (Some(self.exchange.on_end(slot, orderly, at)), false)
                }
                Err(failure) => (Some(self.exchange.on_broken(slot, failure)), false),
            };
            if let Some(ending) = ending {
                self.end(slot, &ending);
                return true;
            }
            // After the last answer nothing more is due; an end would be an edge of its own.
            let go_on = hangup || (more && self.exchange.goes_on(slot));
            if !go_on {
                return false;
            }
            // What comes before an end is not endless.
            if read >= TURN_BYTES && !hangup && self.exchange.is_endless() {
                if self.exchange.leave_unread(slot) {
                    self.unread.push(slot);
                }
                return false;
            }
        }
    }

    // ---- Times other than events ----

    fn cross_edges(&mut self, now: u64) {
        if now >= self.tick_at {
            self.tick(now);
        }
        let window = self.exchange.window;
        if self.phase == Phase::WarmUp && now >= window.from {
            self.phase = Phase::Measured;
            self.from = self.snapshot();
        }
        if self.phase == Phase::Measured && now >= window.to {
            self.stop_measuring();
        }
        if self.phase == Phase::Grace && now >= self.grace_until {
            self.tick(now);
            self.phase = Phase::Done;
        }
        if now >= self.slice_edge && self.slice_edge < window.to {
            self.cut_slice(now);
        }
        let boundary = match self.phase {
            Phase::WarmUp => window.from,
            Phase::Measured => window.to,
            Phase::Grace | Phase::Done => self.grace_until,
        };
        self.next_edge = boundary.min(self.tick_at);
        if self.phase != Phase::Grace {
            self.next_edge = self.next_edge.min(self.slice_edge);
        }
    }

    /// Timeouts, pauses, and the stop, which may have been brought forward.
    fn tick(&mut self, now: u64) {
        for slot in 0..self.exchange.slots() {
            match self.exchange.timed_out(slot, now) {
                Some(TimedOut::Opening) => {
                    self.transport.close(slot, Close::Fin);
                    let failure = Failure::text(
                        FailureKind::ConnectTimeout,
                        "no connection within the timeout",
                    );
                    self.exchange.on_open_failed(slot, &failure, now);
                }
                Some(TimedOut::Request) => {
                    let failure = self.exchange.overdue();
                    self.end(slot, &Ending::Failed(failure));
                }
                None => self.exchange.wake(slot, now),
            }
        }
        self.exchange.expire(now);
        self.check_unreachable(now);
        self.gathers = self.task.arrival == Arrival::Closed && self.shared.is_server_full();
        if self.phase < Phase::Grace {
            self.grace_until = self.exchange.set_window(self.shared.window());
        }
        let period = if self.exchange.has_resting() {
            RESTING_TICK_NS
        } else {
            TICK_MAX_NS
        };
        self.tick_at = now + period.min(self.task.timeout_ns / 16).max(TICK_MIN_NS);
    }

    fn check_unreachable(&mut self, now: u64) {
        let is_unreachable = self.phase == Phase::Measured
            && now >= self.exchange.window.from + GIVE_UP_NS
            && self.exchange.is_unreachable();
        if is_unreachable != self.is_unreachable {
            self.is_unreachable = is_unreachable;
            self.shared.set_unreachable(is_unreachable, now);
        }
    }

    fn cut_slice(&mut self, now: u64) {
        self.exchange.slicer.current.queued = self.exchange.waiting(now);
        self.close_slice();
        // Edges that were slept through are skipped by all threads alike.
        let mut edge = self.slice_edge;
        while self.edges.after(edge) <= now {
            edge = self.edges.after(edge);
        }
        self.exchange.slicer.cut(edge);
        self.slice_edge = self.edges.after(edge);
    }

    fn close_slice(&mut self) {
        let now = self.snapshot();
        self.exchange.slicer.current.busy_ns += now.busy_ns_since(&self.cut_at);
        self.cut_at = now;
    }

    fn snapshot(&self) -> Snapshot {
        let syscalls = self.transport.syscalls() + self.pauses.count;
        let spun_ns = self.spun_ns + self.transport.spun_ns();
        Snapshot::take(self.now(), spun_ns, self.pauses, syscalls)
    }

    // ---- The end ----

    /// The stop: nothing more is scheduled. What is due and has a free connection still goes out.
    fn stop_measuring(&mut self) {
        self.send_due();
        let to = self.exchange.window.to;
        self.exchange.slicer.current.queued = self.exchange.waiting(to);
        self.exchange.drop_due_before(to);
        self.grace_until = self.exchange.end_sending(self.now());
        self.close_slice();
        self.to = Some(self.snapshot());
        self.phase = Phase::Grace;
    }

    /// With a number of requests, or after the stop, the end has come when all have met their fate.
    fn end_if_settled(&mut self) -> bool {
        let now = self.now();
        if self.phase == Phase::WarmUp || !self.exchange.is_settled(now) {
            return false;
        }
        if self.phase == Phase::Measured {
            self.exchange.window.to = now;
            self.exchange.waiting(now);
            self.close_slice();
            self.to = Some(self.snapshot());
        }
        true
    }

    fn report(mut self) -> Report {
        let Window { to: ended_at, .. } = self.exchange.window;
        self.exchange.tally.scheduled = self.exchange.arrivals.scheduled();
        let to = self.to.unwrap_or_else(|| self.snapshot());
        let report = Report {
            cost: Cost::between(&self.from, &to),
            ended_at,
            syscalls: to.syscalls_since(&self.from),
            successes: self.exchange.successes(),
            unanswered: self.exchange.unanswered(),
            closed_by_server: (self.transport.closed_by_server())
                .unwrap_or(self.exchange.tally.closed_by_server),
            streams_allowed: self.transport.limited_to(),
            handshakes: self.transport.handshakes(),
            unasked: self.transport.unasked(),
            event_streams: self.exchange.event_streams(),
            last_head: self.exchange.last_head().to_vec(),
            engine: self.transport.name(),
            stack: self.transport.counted(),
            tally: self.exchange.tally,
        };
        self.exchange.slicer.finish(ended_at);
        report
    }
}
