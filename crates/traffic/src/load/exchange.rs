//! Requests and responses of one load thread: which request travels on which connection, and what comes
//! of it. The bookkeeping half of the loop; it makes no system call and reads no clock.
//!
//! [`super::worker`] moves the bytes and tells this what happened; this says when a connection must end
//! and why ([`Ending`]). What happens to the requests of a connection that ends is decided in one place,
//! [`Exchange::ended`].

use super::coalesce::Coalesce;
use super::connection::{Connection, Ending, Policy, State, TimedOut, is_refusal};
use super::event_streams::Streams;
use super::pieces::Pieces;
use super::response::{Answer, HeadCache};
use super::slices::Slicer;
use super::tally::{Request, Tally, Window, failure_of_status};
use super::workload::{Judged, Prepared, Script};
use crate::arrival::Arrivals;
use crate::event_stream::Came;
use crate::messages::{HEAD_BYTES, State as ReaderState};
use crate::transport::{Event, Failure, Generation, Slot, Want, Wire};
use record::{EventStreams, FailureKind, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// A known rest of a body is thrown away in the kernel from this size on; below, copying is cheaper than
/// another call.
const DISCARD_FROM: u64 = 4 * 1024;
/// Most bytes thrown away at once.
const DISCARD_AT_ONCE: u64 = 1 << 20;
/// A response is expected to be large when the last one was larger than this: then only its head is read.
const LARGE_BODY: u64 = 16 * 1024;
/// What is read of a response that is expected to be large.
const HEAD_READ: usize = 4 * 1024;

/// The bookkeeping; see the module.
pub(crate) struct Exchange {
    policy: Policy,
    connections: Vec<Connection>,
    /// One buffer for an incomplete head per slot. Untouched pages of it cost nothing.
    heads: Vec<u8>,
    cache: HeadCache,
    /// Open connections with room, longest free first.
    free: VecDeque<Slot>,
    /// Closed connections that may be opened.
    closed: VecDeque<Slot>,
    opening: u64,
    resting: u64,
    /// An attempt to connect ended otherwise than by a refusal.
    ever_connected: bool,
    /// Requests to send again.
    retries: VecDeque<Request>,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// The measured part.
    pub window: Window,
    /// Responses at this time or later do not count.
    counted_until: u64,
    /// Measured requests that were sent and have not met their fate.
    pub in_flight: u64,
    /// Counts.
    pub tally: Tally,
    /// Time series.
    pub slicer: Slicer,
    /// How long answers may gather.
    pub coalesce: Coalesce,
    /// Several kinds of requests; `None` for one fixed request.
    script: Option<Box<Script>>,
    /// Responses are streams of events, and a request is an event that is awaited.
    streams: Option<Box<Streams>>,
    /// Clients that think, and until when.
    thinking: BinaryHeap<Reverse<(u64, Slot)>>,
}

impl Exchange {
    /// All slots closed, nothing scheduled.
    pub fn new(policy: Policy, slots: u32, slicer: Slicer) -> Self {
        let n = slots as usize;
        Exchange {
            connections: (0..n).map(|_| Connection::new(policy.depth)).collect(),
            heads: vec![0; if policy.is_decoded { 0 } else { n * HEAD_BYTES }],
            cache: HeadCache::new(policy.head_requests),
            free: VecDeque::with_capacity(n),
            closed: (0..slots).collect(),
            opening: 0,
            resting: 0,
            ever_connected: false,
            retries: VecDeque::with_capacity(n * policy.depth),
            arrivals: Arrivals::none(),
            window: Window {
                from: u64::MAX,
                to: u64::MAX,
            },
            counted_until: u64::MAX,
            in_flight: 0,
            tally: Tally::new(),
            slicer,
            coalesce: Coalesce::default(),
            script: None,
            streams: None,
            thinking: BinaryHeap::new(),
            policy,
        }
    }

    /// The last response's head.
    pub fn last_head(&self) -> &[u8] {
        self.cache.last_head()
    }

    /// Counts by the pieces of a rate that changes, too.
    pub fn with_pieces(mut self, pieces: Pieces) -> Self {
        self.tally = Tally::of(None, pieces);
        self
    }

    /// Awaits the events of streams.
    pub fn with_streams(mut self) -> Self {
        self.streams = Some(Box::new(Streams::new(self.slots())));
        self
    }

    /// What came of the streams of events; `None` of other responses.
    pub fn event_streams(&self) -> Option<EventStreams> {
        self.streams.as_deref().map(Streams::counted)
    }

    /// Sends the requests of a workload, for thread `index` of `of`.
    pub fn with_workload(mut self, work: Arc<Prepared>, index: u32, of: u32) -> Self {
        let slots = self.slots();
        if work.thinks() {
            self.thinking = BinaryHeap::with_capacity(slots as usize);
        }
        self.tally = Tally::of(Some(&work), std::mem::take(&mut self.tally.pieces));
        let script = Script::new(work, index, of, slots, self.policy.depth);
        self.script = Some(Box::new(script));
        self
    }

    /// Sets the measured part, which ends the arrivals; returns when the last response counts.
    pub fn set_window(&mut self, window: Window) -> u64 {
        self.window = window;
        self.tally.pieces.begin(window.from);
        self.arrivals.set_until(window.to);
        self.count_until_after(window.to)
    }

    /// The last request went out at `last_sent_at`, which may be after the stop: returns when the last response counts,
    /// the time of that request included.
    pub fn end_sending(&mut self, last_sent_at: u64) -> u64 {
        match self.arrivals {
            Arrivals::Clients(_) => self.counted_until,
            Arrivals::Schedule(_) => self.count_until_after(last_sent_at.max(self.window.to)),
        }
    }

    fn count_until_after(&mut self, stop: u64) -> u64 {
        let grace_ns = self.arrivals.grace_ns(self.policy.timeout_ns);
        self.counted_until = stop.saturating_add(grace_ns);
        self.counted_until
    }

    // ---- Requests out ----

    /// The connection that has been free for the longest.
    #[inline]
    pub fn next_free(&mut self) -> Option<Slot> {
        while let Some(&slot) = self.free.front() {
            if self.connections[slot as usize].room(&self.policy) > 0 {
                return Some(slot);
            }
            self.leave_line(slot);
        }
        None
    }

    fn leave_line(&mut self, slot: Slot) {
        self.free.pop_front();
        self.connections[slot as usize].in_line = false;
    }

    fn join_line(&mut self, slot: Slot) {
        let connection = &mut self.connections[slot as usize];
        if self.streams.is_some() && connection.issued > 0 {
            // A stream is asked for once.
            return;
        }
        if !connection.in_line && !connection.thinks && connection.room(&self.policy) > 0 {
            connection.in_line = true;
            self.free.push_back(slot);
        }
    }

    /// Puts what is due at `now` on the connection at the head of the line; false when nothing is due.
    pub fn issue(&mut self, slot: Slot, now: u64) -> bool {
        let room = self.connections[slot as usize].room(&self.policy);
        let want = self.arrivals.batch(room);
        let mut issued = 0;
        while issued < want {
            let Some((mut request, is_retry)) = self.next_request(slot, now) else {
                break;
            };
            let connection = &mut self.connections[slot as usize];
            if let Some(script) = &mut self.script {
                let rendered = script.render(slot, request.which, issued == 0, now);
                connection.unsent = rendered.unsent;
                request.bytes = rendered.len;
            }
            connection.outstanding.push_back(request);
            if self.window.contains(request.scheduled_at) && !is_retry {
                self.in_flight += 1;
                let Request {
                    scheduled_at,
                    sent_at,
                    ..
                } = request;
                let lag = (self.arrivals).lag_ns(scheduled_at, connection.free_since, sent_at);
                self.tally.note_sent(request, lag);
            }
            issued += 1;
        }
        let connection = &mut self.connections[slot as usize];
        connection.issued += issued as u64;
        // Zero for a workload, whose requests have counted theirs above.
        connection.unsent += issued * self.policy.request_bytes;
        self.slicer.current.sent += issued as u64;
        if issued > 0 {
            self.leave_line(slot);
        }
        issued > 0
    }

    /// The next request to send, and whether it was sent before.
    fn next_request(&mut self, slot: Slot, now: u64) -> Option<(Request, bool)> {
        if let Some(mut request) = self.retries.pop_front() {
            request.sent_at = now;
            return Some((request, true));
        }
        let scheduled_at = self.arrivals.take(now)?;
        let request = Request {
            scheduled_at,
            sent_at: now,
            which: self.script.as_mut().map_or(0, |script| {
                let listed = self.arrivals.last_which();
                listed.unwrap_or_else(|| script.draw(slot))
            }),
            bytes: 0,
        };
        Some((request, false))
    }

    /// Bytes of this connection's requests that wait to be sent.
    #[inline]
    pub fn unsent(&self, slot: Slot) -> usize {
        self.connections[slot as usize].unsent
    }

    /// Of a workload, the unsent bytes of a connection.
    #[inline]
    pub fn written(&self, slot: Slot) -> Option<&[u8]> {
        let script = self.script.as_deref()?;
        Some(script.tail(slot, self.unsent(slot)))
    }

    /// The transport took so many bytes.
    #[inline]
    pub fn on_sent(&mut self, slot: Slot, bytes: usize, at: u64) {
        self.connections[slot as usize].unsent -= bytes;
        if !self.policy.is_decoded && self.window.contains(at) {
            self.tally.sent_bytes += bytes as u64;
        }
        self.join_line(slot);
    }

    /// A transport that counts its bytes itself has carried these.
    pub fn count_wire(&mut self, wire: Wire, at: u64) {
        self.count_received(wire.received as usize, at);
        if self.window.contains(at) {
            self.tally.sent_bytes += wire.sent;
        }
    }

    // ---- Connections ----

    /// A closed connection that should be opened now: one for each request that waits and has none on its way.
    pub fn next_to_open(&mut self, now: u64) -> Option<Slot> {
        if self.closed.is_empty() {
            return None;
        }
        let wanted = self.waiting(now) > self.opening;
        wanted.then(|| self.closed.pop_front()).flatten()
    }

    /// Some connection is closed and may be opened.
    #[inline]
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// A closed connection, wanted or not: to have it open before the load starts.
    pub fn any_closed(&mut self) -> Option<Slot> {
        self.closed.pop_front()
    }

    /// Due requests that wait for a connection.
    pub fn waiting(&mut self, now: u64) -> u64 {
        self.arrivals.waiting(now) + self.retries.len() as u64
    }

    /// The connection is being opened.
    pub fn on_opening(&mut self, slot: Slot, at: u64) -> Generation {
        self.opening += 1;
        self.connections[slot as usize].opening(at)
    }

    /// The event is about the connection that the slot holds now, and fits its state.
    #[inline]
    pub fn is_current(&self, slot: Slot, generation: Generation, event: &Event) -> bool {
        let connection = &self.connections[slot as usize];
        let state = match event {
            Event::Opened | Event::Joined | Event::Parked | Event::OpenFailed(_) => State::Opening,
            Event::Ready { .. } => State::Open,
        };
        connection.generation == generation && connection.state == state
    }

    /// Connections on their way to being open.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    /// The connection can carry requests.
    pub fn on_opened(&mut self, slot: Slot, at: u64) {
        self.opening -= 1;
        self.ever_connected = true;
        self.tally.opened += 1;
        let connection = &mut self.connections[slot as usize];
        let took = at.saturating_sub(connection.since);
        self.tally.connect.record(Nanos(took));
        connection.opened(at);
        if self.policy.connect_counts {
            connection.connect_ns = took;
        }
        if let Some(streams) = &mut self.streams {
            streams.renew(slot);
        }
        self.join_line(slot);
    }

    /// The slot is a place on a connection that another slot has opened.
    pub fn on_joined(&mut self, slot: Slot, at: u64) {
        self.opening -= 1;
        self.connections[slot as usize].opened(at);
        self.join_line(slot);
    }

    /// The slot's connection has no room for it and will have none.
    pub fn on_parked(&mut self, slot: Slot, at: u64) {
        self.opening -= 1;
        self.arrivals.retire();
        self.connections[slot as usize].set_state(State::Parked, at);
    }

    /// The connection could not be opened: the request that it was for fails with it.
    pub fn on_open_failed(&mut self, slot: Slot, failure: &Failure, at: u64) {
        self.opening -= 1;
        self.ever_connected |= !is_refusal(failure.kind);
        self.tally.keep_words(failure.kind, &failure.detail);
        if let Some((request, is_retry)) = self.next_request(slot, at) {
            if self.window.contains(request.scheduled_at) && !is_retry {
                self.in_flight += 1;
                self.tally.count_sent(request);
            }
            self.fail(request, failure);
            if let Some(script) = &mut self.script {
                script.restart(slot);
            }
        }
        self.close(slot, at);
    }

    /// Closes the slot, or lets it rest.
    fn close(&mut self, slot: Slot, at: u64) {
        let connection = &mut self.connections[slot as usize];
        connection.ended(at);
        match connection.state {
            State::Resting => self.resting += 1,
            _ => self.closed.push_back(slot),
        }
    }

    /// A request has failed; its words are kept even outside the measured part.
    fn fail(&mut self, request: Request, failure: &Failure) {
        self.arrivals.freed();
        self.slicer.current.failed += 1;
        if self.window.contains(request.scheduled_at) {
            self.in_flight -= 1;
            self.tally.note_failure(request, failure);
        }
    }

    /// The connection has been closed: decides the fate of its outstanding requests.
    pub fn ended(&mut self, slot: Slot, ending: &Ending, at: u64) {
        let by_server = match ending {
            Ending::Announced => !self.policy.announces_close,
            Ending::IdleEnd | Ending::StreamEnded => true,
            Ending::Failed(failure) => matches!(
                failure.kind,
                FailureKind::ClosedEarly
                    | FailureKind::Truncated
                    | FailureKind::Reset
                    | FailureKind::WebSocketClosed
            ),
            Ending::Policy | Ending::Stray | Ending::Unprocessed(_) => false,
        };
        self.tally.closed_by_server += u64::from(by_server);
        self.tally.stray += u64::from(matches!(ending, Ending::Stray));
        self.close_stream(slot, at);
        match ending {
            Ending::Failed(failure) => self.fail_outstanding(slot, failure),
            Ending::Unprocessed(failure)
                if self.connections[slot as usize].is_refused_for_good() =>
            {
                self.fail_outstanding(slot, failure);
            }
            _ => self.retry_outstanding(slot),
        }
        let connection = &mut self.connections[slot as usize];
        if matches!(ending, Ending::Failed(failure) if failure.kind == FailureKind::Timeout) {
            connection.given_up();
        } else {
            connection.in_vain_since = 0;
        }
        self.close(slot, at);
    }

    fn fail_outstanding(&mut self, slot: Slot, failure: &Failure) {
        self.tally.keep_words(failure.kind, &failure.detail);
        let mut failure = failure.clone();
        if let Some(script) = &mut self.script {
            script.restart(slot);
        }
        while let Some(request) = self.connections[slot as usize].outstanding.pop_front() {
            self.fail(request, &failure);
            if failure.kind == FailureKind::Truncated {
                // Only the first was being answered.
                failure.kind = FailureKind::ClosedEarly;
                self.tally.keep_words(failure.kind, &failure.detail);
            }
        }
    }

    /// RFC 9112 9.3.2: requests behind an announced close were not processed and may be sent again.
    fn retry_outstanding(&mut self, slot: Slot) {
        while let Some(request) = self.connections[slot as usize].outstanding.pop_front() {
            if self.window.contains(request.scheduled_at) {
                self.tally.retried += 1;
            }
            self.retries.push_back(request);
        }
    }

    /// A stream that the server wants to stay away for a time does, for the timeout at most, and so does what is
    /// awaited.
    fn close_stream(&mut self, slot: Slot, at: u64) {
        if let Some(streams) = &mut self.streams {
            let away_ns = streams.close(slot).min(self.policy.timeout_ns);
            let connection = &mut self.connections[slot as usize];
            connection.reopen_at = at.saturating_add(away_ns);
            if let Some(awaited) = connection.outstanding.front_mut() {
                awaited.sent_at = connection.reopen_at;
            }
        }
    }

    // ---- Responses in ----

    /// What to receive next on a connection.
    #[inline]
    pub fn want(&self, slot: Slot) -> Want {
        let connection = &self.connections[slot as usize];
        if self.looks_at_body(slot) {
            return Want::Bytes(usize::MAX);
        }
        let discardable = connection.reader.discardable();
        if discardable >= DISCARD_FROM {
            Want::Discard(discardable.min(DISCARD_AT_ONCE) as usize)
        } else if connection.outstanding.len() == 1
            && !connection.reader.is_mid_message()
            && self.cache.expected_body() > LARGE_BODY
        {
            Want::Bytes(HEAD_READ)
        } else {
            Want::Bytes(usize::MAX)
        }
    }

    /// The body of the next response is looked at.
    #[inline]
    fn looks_at_body(&self, slot: Slot) -> bool {
        if self.streams.is_some() {
            return true;
        }
        let Some(script) = &self.script else {
            return false;
        };
        let oldest = self.connections[slot as usize].outstanding.front();
        oldest.is_some_and(|request| script.needs_body(request.which))
    }

    /// A request is outstanding on this connection.
    #[inline]
    pub fn expects_more(&self, slot: Slot) -> bool {
        !self.connections[slot as usize].outstanding.is_empty()
    }

    /// More may come on this connection, wanted or not: a stream of events goes on when enough of them were awaited.
    #[inline]
    pub fn goes_on(&self, slot: Slot) -> bool {
        self.expects_more(slot) || self.is_endless()
    }

    /// Responses may never end, nor pause.
    #[inline]
    pub fn is_endless(&self) -> bool {
        self.streams.is_some()
    }

    /// The connection has had its turn and has more; true when that is news.
    pub fn leave_unread(&mut self, slot: Slot) -> bool {
        !std::mem::replace(&mut self.connections[slot as usize].is_unread, true)
    }

    /// The connection that had more has another turn; false when it has ended.
    pub fn take_unread(&mut self, slot: Slot) -> bool {
        std::mem::take(&mut self.connections[slot as usize].is_unread)
    }

    /// Bytes arrived.
    #[inline]
    pub fn on_bytes(&mut self, slot: Slot, bytes: &[u8], at: u64) -> Option<Ending> {
        self.count_received(bytes.len(), at);
        if self.streams.is_some() {
            return self.on_stream(slot, bytes, at);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let connection = &mut self.connections[slot as usize];
            if connection.outstanding.is_empty() {
                return Some(Ending::Stray);
            }
            if connection.first_byte_at == 0 {
                connection.first_byte_at = at;
            }
            let head = slot as usize * HEAD_BYTES;
            let partial = &mut self.heads[head..head + HEAD_BYTES];
            let fed = match &mut self.script {
                None => connection.reader.feed(&mut rest, partial, &mut self.cache),
                Some(script) => {
                    let which = connection.outstanding.front().map_or(0, |r| r.which);
                    feed(
                        script,
                        connection,
                        slot,
                        which,
                        &mut rest,
                        partial,
                        &mut self.cache,
                        at,
                    )
                }
            };
            match fed {
                Ok(None) => {}
                Ok(Some(_)) if !rest.is_empty() && connection.outstanding.len() == 1 => {
                    return Some(Ending::Failed(Failure::text(
                        FailureKind::Malformed,
                        "bytes follow a complete response although no further request was sent",
                    )));
                }
                Ok(Some(answer)) => {
                    if let Some(ending) = self.complete(slot, answer, at) {
                        return Some(ending);
                    }
                }
                Err(bad) => return Some(Ending::Failed(bad.into())),
            }
        }
        None
    }

    /// Bytes of a response arrived that is to be a stream of events.
    fn on_stream(&mut self, slot: Slot, bytes: &[u8], at: u64) -> Option<Ending> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let streams = self.streams.as_mut()?;
            let connection = &mut self.connections[slot as usize];
            if connection.issued == 0 {
                return Some(Ending::Stray);
            }
            if connection.first_byte_at == 0 {
                connection.first_byte_at = at;
            }
            let head = slot as usize * HEAD_BYTES;
            let partial = &mut self.heads[head..head + HEAD_BYTES];
            let before_head = matches!(connection.reader.state, ReaderState::Head(_));
            let (mut came, mut content) = (Came::default(), 0);
            let seen = |piece: &[u8]| {
                content += piece.len() as u64;
                streams.feed(slot, piece, &mut came);
            };
            let cache = &mut self.cache;
            let ended = match connection.reader.feed_with(&mut rest, partial, cache, seen) {
                Ok(ended) => ended,
                Err(bad) => return Some(Ending::Failed(bad.into())),
            };
            let said = match connection.reader.state {
                ReaderState::Body(_, answer) => Some(answer),
                ReaderState::Head(_) => ended,
            };
            if let Some(answer) = said.filter(|_| before_head) {
                if let Err(refused) = streams.open(slot, answer.status, self.cache.last_head()) {
                    return Some(Ending::Failed(refused));
                }
                let asked_at = connection.outstanding.front().map_or(at, |r| r.sent_at);
                let took = connection.first_byte_at.saturating_sub(asked_at);
                self.tally.first_byte.record(Nanos(took));
            }
            self.on_events(slot, came, at);
            if self.window.contains(at) {
                self.tally.body_bytes += content;
            }
            if ended.is_some() {
                return Some(self.end_stream(slot));
            }
        }
        None
    }

    /// Events came: each is the one that was awaited, and lets the next be awaited.
    fn on_events(&mut self, slot: Slot, came: Came, at: u64) {
        let Some(streams) = &mut self.streams else {
            return;
        };
        let is_measured = self.window.contains(at) && at < self.counted_until;
        if is_measured {
            streams.note_comments(came.comments);
        }
        let connection = &mut self.connections[slot as usize];
        for _ in 0..came.events {
            let Some(mut awaited) = connection.outstanding.pop_front() else {
                break;
            };
            self.arrivals.freed();
            if is_measured && awaited.scheduled_at < self.window.from {
                // Awaited since the warm-up, and an event of the measured part all the same.
                let Some(scheduled_at) = self.arrivals.take(at) else {
                    break;
                };
                self.arrivals.freed();
                awaited.scheduled_at = scheduled_at;
                self.tally.count_sent(awaited);
                self.in_flight += 1;
            }
            let counts = is_measured && self.window.contains(awaited.scheduled_at);
            if counts {
                self.in_flight -= 1;
                self.tally.completed += 1;
                self.tally.succeeded += 1;
                connection.successes += 1;
            }
            self.slicer.current.succeeded += 1;
            streams.note_event(slot, awaited.sent_at, at, counts);
            connection.answered += 1;
            if let Some(scheduled_at) = self.arrivals.take(at) {
                let next = Request {
                    scheduled_at,
                    sent_at: at,
                    ..Request::default()
                };
                if self.window.contains(scheduled_at) {
                    self.in_flight += 1;
                    self.tally.count_sent(next);
                }
                connection.outstanding.push_back(next);
                self.slicer.current.sent += 1;
            }
        }
    }

    /// The server has ended a stream.
    fn end_stream(&mut self, slot: Slot) -> Ending {
        let awaited = self.expects_more(slot);
        let ended = self.streams.as_mut().map(|s| s.end(slot, awaited));
        match ended {
            Some(Err(failure)) => Ending::Failed(failure),
            _ if awaited => Ending::StreamEnded,
            _ => Ending::IdleEnd,
        }
    }

    fn count_received(&mut self, len: usize, at: u64) {
        self.slicer.current.received_bytes += len as u64;
        if self.window.contains(at) {
            self.tally.received_bytes += len as u64;
        }
    }

    /// Bytes arrived and were thrown away.
    pub fn on_discarded(&mut self, slot: Slot, len: usize, at: u64) -> Option<Ending> {
        self.count_received(len, at);
        let reader = &mut self.connections[slot as usize].reader;
        let answer = reader.discarded(len as u64)?;
        self.complete(slot, answer, at)
    }

    /// A response came that the transport has decoded.
    #[inline]
    pub fn on_answer(
        &mut self,
        slot: Slot,
        answer: Answer,
        first_byte_at: u64,
        at: u64,
    ) -> Option<Ending> {
        self.connections[slot as usize].first_byte_at = first_byte_at;
        self.complete(slot, answer, at)
    }

    /// The server ended the stream.
    pub fn on_end(&mut self, slot: Slot, orderly: bool, at: u64) -> Ending {
        let connection = &mut self.connections[slot as usize];
        if connection.outstanding.is_empty() {
            return Ending::IdleEnd;
        }
        match connection.reader.end(orderly) {
            Ok(_) if self.streams.is_some() => self.end_stream(slot),
            // A body that lasts until the close: its head announced the close.
            Ok(answer) => {
                let announced = Answer {
                    keep_alive: false,
                    ..answer
                };
                self.complete(slot, announced, at)
                    .unwrap_or(Ending::Announced)
            }
            Err(failure) => Ending::Failed(failure),
        }
    }

    /// The connection broke.
    pub fn on_broken(&self, slot: Slot, failure: Failure) -> Ending {
        if self.expects_more(slot) {
            Ending::Failed(failure)
        } else {
            Ending::IdleEnd
        }
    }

    /// The oldest outstanding request of a connection has its answer.
    #[inline]
    fn complete(&mut self, slot: Slot, answer: Answer, at: u64) -> Option<Ending> {
        let connection = &mut self.connections[slot as usize];
        let Some(request) = connection.outstanding.pop_front() else {
            return Some(Ending::Stray);
        };
        let first_byte_at = std::mem::take(&mut connection.first_byte_at);
        let connect_ns = std::mem::take(&mut connection.connect_ns);
        connection.answered += 1;
        connection.free_since = at;
        self.coalesce.observe(request.sent_at, at);
        let mut failed = failure_of_status(answer.status);
        self.arrivals.freed();
        let counts = self.window.contains(request.scheduled_at) && at < self.counted_until;
        if let Some(script) = &mut self.script {
            let named = self.tally.by_name.get_mut(request.which as usize);
            let checks = named.filter(|_| counts).map(|named| &mut named.checks);
            let Judged {
                failed: judged,
                think_ns,
            } = script.judge(slot, request.which, answer.status, failed, checks);
            failed = judged;
            if think_ns > 0 && !connection.thinks {
                connection.thinks = true;
                self.thinking
                    .push(Reverse((at.saturating_add(think_ns), slot)));
            }
        }
        if counts {
            self.in_flight -= 1;
            connection.successes += u64::from(failed.is_none());
            self.tally
                .note_answer(request, connect_ns, first_byte_at, at, answer, failed);
        }
        self.count_in_slice(request, failed, at, answer.status);
        self.after_answer(slot, answer)
    }

    fn count_in_slice(
        &mut self,
        request: Request,
        failed: Option<FailureKind>,
        at: u64,
        status: u16,
    ) {
        let slice = &mut self.slicer.current;
        if let Some(kind) = failed {
            slice.failed += 1;
            use crate::transport::Detail;
            let words = match kind {
                FailureKind::Check => Detail::Text("a response failed a check of its request"),
                FailureKind::Capture => Detail::Text("a response lacks a value that is captured"),
                FailureKind::BodyTooLarge => {
                    Detail::Text("a body is larger than what is kept for checks (body_limit)")
                }
                _ => Detail::Status(status),
            };
            self.tally.keep_words(kind, &words);
        } else {
            slice.succeeded += 1;
            let response = at.saturating_sub(request.scheduled_at);
            slice.response.record(Nanos(response));
        }
    }

    fn after_answer(&mut self, slot: Slot, answer: Answer) -> Option<Ending> {
        let connection = &self.connections[slot as usize];
        let outstanding = connection.outstanding.len();
        let carried_all = outstanding == 0 && connection.issued >= self.policy.per_connection;
        // Answered before all of it was sent: the rest would be taken for the next request.
        let behind = match self.script {
            None => outstanding * self.policy.request_bytes,
            Some(_) => {
                let lengths = connection.outstanding.iter().map(|r| r.bytes as usize);
                lengths.sum()
            }
        };
        let answered_early = connection.unsent > behind;
        if !answer.keep_alive {
            return Some(Ending::Announced);
        }
        if carried_all || answered_early {
            return Some(Ending::Policy);
        }
        self.join_line(slot);
        None
    }

    // ---- Time ----

    /// Lets clients go on whose time to think is over.
    #[inline]
    pub fn end_thinking(&mut self, now: u64) {
        while let Some(&Reverse((until, slot))) = self.thinking.peek()
            && until <= now
        {
            self.thinking.pop();
            let connection = &mut self.connections[slot as usize];
            connection.thinks = false;
            connection.free_since = until;
            self.join_line(slot);
        }
    }

    /// Some client thinks.
    #[inline]
    pub fn is_thinking(&self) -> bool {
        !self.thinking.is_empty()
    }

    /// The connection's time is up: its oldest request, or its opening, has waited for too long.
    pub fn timed_out(&self, slot: Slot, now: u64) -> Option<TimedOut> {
        let limit = now.saturating_sub(self.policy.timeout_ns);
        self.connections[slot as usize].timed_out(limit)
    }

    /// What has not come of a request that timed out.
    pub fn overdue(&self) -> Failure {
        let text = match self.streams {
            Some(_) => "no event within the timeout",
            None => "no complete response within the timeout",
        };
        Failure::text(FailureKind::Timeout, text)
    }

    /// Lets a resting connection be opened again when its pause is over.
    pub fn wake(&mut self, slot: Slot, now: u64) {
        let connection = &mut self.connections[slot as usize];
        if connection.state == State::Resting && connection.since <= now {
            self.resting -= 1;
            connection.set_state(State::Closed, now);
            self.closed.push_back(slot);
        }
    }

    /// Some connection is resting.
    pub fn has_resting(&self) -> bool {
        self.resting > 0
    }

    /// Every connection attempt was refused, and each slot has made one.
    pub fn is_unreachable(&self) -> bool {
        !self.ever_connected && self.connections.iter().all(|c| c.consecutive_failures > 0)
    }

    /// Gives up requests that have waited for a connection for longer than the timeout.
    pub fn expire(&mut self, now: u64) {
        let limit = now.saturating_sub(self.policy.timeout_ns);
        self.drop_due_before(limit);
        while self.retries.front().is_some_and(|r| r.sent_at <= limit) {
            let Some(request) = self.retries.pop_front() else {
                break;
            };
            let failure = Failure::text(
                FailureKind::Timeout,
                "no connection within the timeout to send the request again",
            );
            self.tally.keep_words(failure.kind, &failure.detail);
            self.fail(request, &failure);
        }
    }

    /// Gives up all requests that were due before a time and have not been sent.
    pub fn drop_due_before(&mut self, limit: u64) {
        while let Some(due) = self.arrivals.take_expired(limit) {
            if self.window.contains(due) {
                self.tally.note_dropped(due);
            }
        }
    }

    /// When the next request is due that could be sent or for which a connection could be opened.
    #[inline]
    pub fn wake_at(&mut self, now: u64) -> Option<u64> {
        let due = self.next_due(now);
        match self.thinking.peek() {
            None => due,
            Some(&Reverse((until, _))) => Some(due.map_or(until, |due| due.min(until))),
        }
    }

    fn next_due(&mut self, now: u64) -> Option<u64> {
        if self.next_free().is_some() {
            return self.arrivals.next_due(now);
        }
        if self.closed.is_empty() {
            return None;
        }
        // Each request that waits has a connection on its way: only one more is news.
        if self.waiting(now) > self.opening {
            Some(now)
        } else {
            self.arrivals.next_uncounted()
        }
    }

    /// No request is left to send, and none to wait for.
    #[inline]
    pub fn is_settled(&self, now: u64) -> bool {
        self.in_flight == 0 && self.retries.is_empty() && self.arrivals.is_exhausted(now)
    }

    /// Requests in flight with every pipeline full.
    pub fn capacity(&self) -> u64 {
        let parked = |c: &&Connection| c.state == State::Parked;
        let open = self.connections.len() - self.connections.iter().filter(parked).count();
        (open * self.policy.depth) as u64
    }

    /// How many slots there are.
    pub fn slots(&self) -> Slot {
        self.connections.len() as Slot
    }

    /// The slots of each connection.
    fn by_connection(&self) -> std::slice::Chunks<'_, Connection> {
        self.connections.chunks(self.policy.streams as usize)
    }

    /// Measured successes of each connection.
    pub fn successes(&self) -> Vec<u64> {
        self.by_connection()
            .map(|slots| slots.iter().map(|slot| slot.successes).sum())
            .collect()
    }

    /// Connections that asked before the measurement and were never answered; one that was given up stands for the
    /// next in its place.
    pub fn unanswered(&self) -> u32 {
        let is_silent = |slot: &Connection| {
            let since = slot.silent_since();
            since.is_some_and(|since| since <= self.window.from)
        };
        let has_none = |slots: &&[Connection]| match slots {
            [slot] => is_silent(slot),
            slots => slots.iter().any(is_silent) && slots.iter().all(|slot| slot.answered == 0),
        };
        self.by_connection().filter(has_none).count() as u32
    }
}

/// As [`ResponseReader::feed`], with the script looking on.
#[allow(
    clippy::too_many_arguments,
    reason = "it borrows from several parts of the exchange at once"
)]
fn feed(
    script: &mut Script,
    connection: &mut Connection,
    slot: Slot,
    which: u32,
    rest: &mut &[u8],
    partial: &mut [u8],
    cache: &mut HeadCache,
    at: u64,
) -> Result<Option<Answer>, crate::messages::BadMessage> {
    let before_head = matches!(connection.reader.state, ReaderState::Head(_));
    if before_head {
        cache.expect(script.is_head(which));
        if !connection.reader.is_mid_message() {
            script.begin(slot);
        }
    }
    let seen = |piece: &[u8]| script.body(slot, which, piece);
    let fed = connection.reader.feed_with(rest, partial, cache, seen)?;
    let has_head = fed.is_some() || matches!(connection.reader.state, ReaderState::Body(..));
    if before_head && has_head {
        script.head(slot, which, cache.last_head(), at);
    }
    Ok(fed)
}
