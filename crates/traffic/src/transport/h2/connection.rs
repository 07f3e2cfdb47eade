//! One HTTP/2 connection: frames in and out, streams in slots; sans-IO.
//!
//! [`super::H2`] moves the bytes; this reads what came, writes what is to go into `out`, and tells the load loop about
//! its slots. A slot is one place for a stream: it carries one request after the other, each a stream of its own.

use super::frame::{self, Head, code, flag, kind, setting};
use super::grpc;
use super::hpack::{Decoder, Said, TABLE_BYTES};
use super::request::Requests;
use crate::transport::{Event, Failure, Generation, Slot, Tagged};
use record::FailureKind;
use std::collections::VecDeque;

/// What has come of a window is given back when it is half of the largest: windows never limit.
const GIVE_BACK: u32 = frame::WINDOW_MAX / 2;
/// More than this is not put behind what waits to be sent.
const OUT_HIGH: usize = 256 * 1024;
/// A peer that makes us write this much without reading any of it is not served.
const OUT_MAX: usize = 16 * 1024 * 1024;
/// The largest header block over several frames.
const BLOCK_MAX: usize = 64 * 1024;

/// What has come of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A complete response.
    Answer,
    /// The server has not processed it, and says so.
    Unprocessed(Failure),
    /// It failed.
    Failed(Failure),
    /// The connection ended without a request on this slot.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The loop has closed the slot.
    Closed,
    /// To be opened when the connection is up.
    Waiting,
    /// Open, without a request on its way.
    Idle,
    /// A request is on its way.
    Active,
}

/// One slot.
#[derive(Debug)]
pub(super) struct Stream {
    pub generation: Generation,
    place: Place,
    id: u32,
    /// Of the body.
    unsent: usize,
    window: i64,
    /// Came of its window and was not given back.
    received: u32,
    pub status: u16,
    /// `grpc-status`, when it was said.
    grpc: Option<u16>,
    /// Of the answer's body, padding and all.
    pub body_bytes: u64,
    pub first_byte_at: u64,
    pub done_at: u64,
    pub outcome: Option<Outcome>,
    /// Frames of the connection when the request was sent.
    frames: u64,
    blocked: bool,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Closed,
    /// The transport below is opening it.
    Connecting,
    /// Our preface is on its way, the server's SETTINGS have not come.
    Greeting,
    Up,
    /// No further requests: the server has said GOAWAY, or the connection has carried all it may.
    Draining,
}

/// What the peer's header table holds of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Empty,
    /// The fields of the first request.
    Filled,
    /// It is smaller than usual and is not used. The peer must be told that we know (RFC 7541 4.2).
    Announce,
    Unused,
}

/// DATA that is passing.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    left: usize,
    stream: u32,
    ends: bool,
}

/// A header block under way over several frames.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    stream: u32,
    ends: bool,
}

/// The connection; see the module.
pub(super) struct Connection {
    pub phase: Phase,
    /// Of the connection below.
    pub generation: Generation,
    first_slot: Slot,
    pub slots: Vec<Stream>,
    /// Frames to be sent, the first `out_from` bytes of which are.
    pub out: Vec<u8>,
    pub out_from: usize,
    partial: Vec<u8>,
    passing: Passing,
    block: Block,
    /// The slot of each active stream, by the low bits of its number.
    index: Box<[(u32, u32)]>,
    next_id: u32,
    active: u32,
    streams_max: u32,
    first_window: i64,
    payload_max: usize,
    window: i64,
    received: u32,
    frames: u64,
    /// Requests that it may still carry.
    left: u64,
    decoder: Decoder,
    table: Table,
    waiting: VecDeque<Slot>,
    blocked: usize,
    /// With which code the server said GOAWAY.
    goaway: Option<u32>,
    /// Its requests are calls of gRPC, so that every response says how the call ended.
    expects_grpc: bool,
}

impl Connection {
    /// A closed connection of so many slots, numbered from `first_slot`.
    pub fn new(first_slot: Slot, streams: u32) -> Self {
        let slot = || Stream {
            generation: 0,
            place: Place::Closed,
            id: 0,
            unsent: 0,
            window: 0,
            received: 0,
            status: 0,
            grpc: None,
            body_bytes: 0,
            first_byte_at: 0,
            done_at: 0,
            outcome: None,
            frames: 0,
            blocked: false,
        };
        // Twice as many places as streams: a stream that is slow seldom stands in the way of a later one.
        let places = (streams as usize * 2).next_power_of_two();
        Connection {
            phase: Phase::Closed,
            generation: 0,
            first_slot,
            slots: (0..streams).map(|_| slot()).collect(),
            out: Vec::with_capacity(1024 + 64 * streams as usize),
            out_from: 0,
            partial: Vec::with_capacity(1024),
            passing: Passing::default(),
            block: Block::default(),
            index: vec![(0, 0); places].into_boxed_slice(),
            next_id: 1,
            active: 0,
            streams_max: u32::MAX,
            first_window: 0,
            payload_max: 0,
            window: 0,
            received: 0,
            frames: 0,
            left: 0,
            decoder: Decoder::new(),
            table: Table::Empty,
            waiting: VecDeque::with_capacity(streams as usize),
            blocked: 0,
            goaway: None,
            expects_grpc: false,
        }
    }

    /// The same, for calls of gRPC or for other requests.
    pub fn of_grpc(mut self, expects_grpc: bool) -> Self {
        self.expects_grpc = expects_grpc;
        self
    }

    fn slot(&mut self, slot: Slot) -> &mut Stream {
        &mut self.slots[(slot - self.first_slot) as usize]
    }

    // ---- Opening ----

    /// The transport below begins to open it.
    pub fn connecting(&mut self) -> Generation {
        self.generation = self.generation.wrapping_add(1);
        self.phase = Phase::Connecting;
        self.generation
    }

    /// The transport below has opened it: it may carry so many requests.
    pub fn greet(&mut self, requests: u64) {
        self.phase = Phase::Greeting;
        self.out.clear();
        self.out_from = 0;
        self.partial.clear();
        self.passing = Passing::default();
        self.block.stream = 0;
        self.index.fill((0, 0));
        self.next_id = 1;
        self.active = 0;
        self.streams_max = u32::MAX;
        self.first_window = i64::from(frame::WINDOW_FIRST);
        self.payload_max = frame::PAYLOAD_MAX;
        self.window = i64::from(frame::WINDOW_FIRST);
        self.received = 0;
        self.frames = 0;
        self.left = requests;
        self.decoder.reset();
        self.table = Table::Empty;
        self.blocked = 0;
        self.goaway = None;
        self.out.extend_from_slice(frame::PREFACE);
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, frame::WINDOW_MAX),
        ];
        frame::put_settings(&mut self.out, &settings);
        let more = frame::WINDOW_MAX - frame::WINDOW_FIRST;
        frame::put_number(&mut self.out, kind::WINDOW_UPDATE, 0, more);
    }

    /// A slot is to be opened. One that cannot be now waits.
    pub fn open(&mut self, slot: Slot, generation: Generation, told: &mut VecDeque<Tagged>) {
        let stream = self.slot(slot);
        stream.generation = generation;
        stream.outcome = None;
        stream.place = Place::Waiting;
        self.waiting.push_back(slot);
        if self.phase == Phase::Up {
            self.admit(Event::Joined, told);
        }
    }

    /// Opens what waits. The slots beyond what the server allows stay closed for good.
    fn admit(&mut self, mut event: Event, told: &mut VecDeque<Tagged>) {
        let is_open = |s: &&Stream| matches!(s.place, Place::Idle | Place::Active);
        let mut open = self.slots.iter().filter(is_open).count() as u32;
        while let Some(slot) = self.waiting.pop_front() {
            let allowed = open < self.streams_max;
            let stream = self.slot(slot);
            let generation = stream.generation;
            stream.blocked = false;
            stream.unsent = 0;
            stream.place = if allowed { Place::Idle } else { Place::Closed };
            open += u32::from(allowed);
            let event = if allowed {
                std::mem::replace(&mut event, Event::Joined)
            } else {
                Event::Parked
            };
            told.push_back(Tagged {
                slot,
                generation,
                event,
            });
        }
    }

    /// A slot waits to be opened.
    pub fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The connection could not be opened, and none of those that wait for it.
    pub fn refuse(&mut self, failure: &Failure, told: &mut VecDeque<Tagged>) {
        self.phase = Phase::Closed;
        while let Some(slot) = self.waiting.pop_front() {
            let stream = self.slot(slot);
            stream.place = Place::Closed;
            let generation = stream.generation;
            let event = Event::OpenFailed(failure.clone());
            told.push_back(Tagged {
                slot,
                generation,
                event,
            });
        }
    }

    // ---- Requests out ----

    /// Sends a request or more of its body; how much of `bytes` was taken.
    pub fn send(
        &mut self,
        slot: Slot,
        bytes: &[u8],
        requests: &mut Requests,
        told: &mut VecDeque<Tagged>,
    ) -> Result<usize, Failure> {
        let at = (slot - self.first_slot) as usize;
        if self.slots[at].place == Place::Active {
            return Ok(self.send_body(at, bytes));
        }
        // Met its fate before all of its body was sent; the loop is about to hear of it.
        if matches!(
            self.slots[at].outcome,
            Some(Outcome::Answer | Outcome::Failed(_))
        ) {
            return Ok(0);
        }
        if self.phase != Phase::Up || self.slots[at].place != Place::Idle {
            let unprocessed = Failure::text(
                FailureKind::StreamRefused,
                "the connection takes no further requests",
            );
            self.slots[at].outcome = Some(Outcome::Unprocessed(unprocessed.clone()));
            return Err(unprocessed);
        }
        if self.active >= self.streams_max || self.out.len() > OUT_HIGH {
            self.block(at);
            return Ok(0);
        }
        let Some(request) = requests.find(bytes) else {
            return Err(Failure::text(
                FailureKind::Io,
                "HTTP/2: what is to be sent is no request",
            ));
        };
        let mut id = self.next_id;
        // A number whose place a slow stream still has is left out; numbers need only rise (RFC 9113 5.1.1).
        while self.index[self.place_of(id)].0 != 0 {
            id += 2;
        }
        let place = self.place_of(id);
        self.index[place] = (id, at as u32);
        let head_bytes = request.head_bytes();
        let has_body = bytes.len() > head_bytes;
        let mut update = &[][..];
        let block = match self.table {
            Table::Filled => &request.indexed,
            Table::Empty if !request.entering.is_empty() => {
                self.table = Table::Filled;
                &request.entering
            }
            Table::Empty | Table::Unused => &request.plain,
            Table::Announce => {
                self.table = Table::Unused;
                // A table of 0 bytes.
                update = &[0x20];
                &request.plain
            }
        };
        put_block(&mut self.out, id, update, block, has_body, self.payload_max);
        let stream = &mut self.slots[at];
        stream.place = Place::Active;
        stream.id = id;
        stream.unsent = bytes.len() - head_bytes;
        stream.window = self.first_window;
        stream.received = 0;
        stream.status = 0;
        stream.grpc = None;
        stream.body_bytes = 0;
        stream.first_byte_at = 0;
        stream.frames = self.frames;
        self.active += 1;
        self.next_id = id + 2;
        self.left -= 1;
        // The index may make a number be left out: the last of them are not used.
        let numbers_end = frame::STREAM_MAX - 2 * self.index.len() as u32;
        let mut taken = head_bytes;
        if has_body {
            taken += self.send_body(at, &bytes[head_bytes..]);
        }
        if self.left == 0 || self.next_id > numbers_end {
            self.drain(told);
        }
        Ok(taken)
    }

    fn send_body(&mut self, at: usize, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.out.len() <= OUT_HIGH {
            let stream = &mut self.slots[at];
            let window = stream.window.min(self.window).max(0) as usize;
            let len = (bytes.len() - taken).min(window).min(self.payload_max);
            if len == 0 {
                break;
            }
            stream.unsent -= len;
            stream.window -= len as i64;
            self.window -= len as i64;
            let flags = if stream.unsent == 0 {
                flag::END_STREAM
            } else {
                0
            };
            frame::put_head(&mut self.out, len, kind::DATA, flags, stream.id);
            self.out.extend_from_slice(&bytes[taken..taken + len]);
            taken += len;
        }
        if taken < bytes.len() {
            self.block(at);
        }
        taken
    }

    fn block(&mut self, at: usize) {
        self.blocked += usize::from(!self.slots[at].blocked);
        self.slots[at].blocked = true;
    }

    /// All that waited to be sent is.
    pub fn sent_all(&mut self, told: &mut VecDeque<Tagged>) {
        let was_full = self.out.len() > OUT_HIGH;
        self.out.clear();
        self.out_from = 0;
        if was_full {
            self.unblock(told);
        }
    }

    /// Something that could not be sent may be now.
    fn unblock(&mut self, told: &mut VecDeque<Tagged>) {
        if self.blocked == 0 {
            return;
        }
        self.blocked = 0;
        for at in 0..self.slots.len() {
            if std::mem::take(&mut self.slots[at].blocked) {
                self.tell(at, false, told);
            }
        }
    }

    fn tell(&self, at: usize, readable: bool, told: &mut VecDeque<Tagged>) {
        told.push_back(Tagged {
            slot: self.first_slot + at as Slot,
            generation: self.slots[at].generation,
            event: Event::Ready {
                readable,
                writable: !readable,
                hangup: false,
            },
        });
    }

    // ---- The ends of requests ----

    #[inline]
    fn place_of(&self, id: u32) -> usize {
        (id as usize / 2) & (self.index.len() - 1)
    }

    fn find(&self, id: u32) -> Option<usize> {
        let (found, at) = self.index[self.place_of(id)];
        (found == id && id != 0).then_some(at as usize)
    }

    /// The stream is over on this side; the slot is free.
    fn release(&mut self, at: usize) {
        let id = self.slots[at].id;
        let place = self.place_of(id);
        self.index[place] = (0, 0);
        self.active -= 1;
        self.slots[at].place = Place::Idle;
    }

    fn settle(&mut self, at: usize, outcome: Outcome, now: u64, told: &mut VecDeque<Tagged>) {
        self.release(at);
        let stream = &mut self.slots[at];
        stream.outcome = Some(outcome);
        stream.done_at = now;
        self.tell(at, true, told);
        if self.active < self.streams_max {
            self.unblock(told);
        }
    }

    fn fail(&mut self, at: usize, failure: Failure, now: u64, told: &mut VecDeque<Tagged>) {
        self.settle(at, Outcome::Failed(failure), now, told);
    }

    /// The server ends a stream.
    fn finish(&mut self, at: usize, now: u64, told: &mut VecDeque<Tagged>) {
        let stream = &self.slots[at];
        if stream.status == 0 {
            let malformed = Failure::text(
                FailureKind::Malformed,
                "HTTP/2: a response without a status",
            );
            return self.fail(at, malformed, now, told);
        }
        let refused = grpc::refused(stream.status, stream.grpc, self.expects_grpc);
        if stream.unsent > 0 {
            // Answered before all of it was sent (RFC 9113 8.1).
            frame::put_number(&mut self.out, kind::RST_STREAM, stream.id, code::CANCEL);
        }
        let outcome = refused.map_or(Outcome::Answer, |words| {
            Outcome::Failed(Failure::text(FailureKind::Grpc, words))
        });
        self.settle(at, outcome, now, told);
    }

    /// The loop closes a slot.
    pub fn close(&mut self, slot: Slot, told: &mut VecDeque<Tagged>) {
        let at = (slot - self.first_slot) as usize;
        match self.slots[at].place {
            Place::Active => {
                let (id, frames) = (self.slots[at].id, self.slots[at].frames);
                frame::put_number(&mut self.out, kind::RST_STREAM, id, code::CANCEL);
                self.release(at);
                self.slots[at].place = Place::Closed;
                // Nothing at all has come since the request: the connection is not trusted with another.
                if frames == self.frames && self.phase == Phase::Up {
                    self.drain(told);
                }
                self.unblock(told);
            }
            Place::Waiting => self.waiting.retain(|&waiting| waiting != slot),
            Place::Idle | Place::Closed => {}
        }
        let stream = &mut self.slots[at];
        self.blocked -= usize::from(std::mem::take(&mut stream.blocked));
        stream.place = Place::Closed;
        stream.outcome = None;
    }

    /// No further requests: those who could send one are told that this connection has ended for them.
    fn drain(&mut self, told: &mut VecDeque<Tagged>) {
        self.phase = Phase::Draining;
        for at in 0..self.slots.len() {
            let stream = &mut self.slots[at];
            if stream.place == Place::Idle && stream.outcome.is_none() {
                stream.outcome = Some(if stream.blocked {
                    Outcome::Unprocessed(Failure::text(
                        FailureKind::StreamRefused,
                        "the connection takes no further requests",
                    ))
                } else {
                    Outcome::End
                });
                self.tell(at, true, told);
            }
        }
    }

    /// Nothing is left to do on it.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Draining && self.active == 0
    }

    /// The server has said that it ends the connection.
    pub fn is_ended_by_server(&self) -> bool {
        self.goaway.is_some()
    }

    /// The connection has ended. Without a failure the server closed it.
    pub fn ended(&mut self, failure: Option<&Failure>, now: u64, told: &mut VecDeque<Tagged>) {
        self.drain(told);
        self.phase = Phase::Closed;
        let goaway = self.goaway.filter(|&code| code != code::NO_ERROR);
        for at in 0..self.slots.len() {
            if self.slots[at].place != Place::Active {
                continue;
            }
            let failure = match (failure, goaway) {
                (_, Some(code)) => Failure::http2(FailureKind::GoAway, "GOAWAY", code),
                (Some(failure), None) => failure.clone(),
                (None, None) if self.slots[at].status == 0 => Failure::text(
                    FailureKind::ClosedEarly,
                    "the server closed the connection before the head of a response",
                ),
                (None, None) => Failure::text(
                    FailureKind::Truncated,
                    "the server closed the connection in the middle of a response",
                ),
            };
            self.fail(at, failure, now, told);
        }
    }

    // ---- Frames in ----

    /// Takes in what came at `now`.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if self.passing.left > 0 {
                let len = self.passing.left.min(bytes.len());
                bytes = &bytes[len..];
                self.passing.left -= len;
                if self.passing.left == 0 {
                    self.passed(now, told);
                }
                continue;
            }
            if self.partial.is_empty() && bytes.len() >= frame::HEAD_BYTES {
                let Some(head) = Head::read(bytes) else { break };
                self.check(head, bytes)?;
                if head.kind == kind::DATA {
                    bytes = &bytes[frame::HEAD_BYTES..];
                    self.data(head, now, told);
                    continue;
                }
                let end = frame::HEAD_BYTES + head.len;
                if let Some(payload) = bytes.get(frame::HEAD_BYTES..end) {
                    self.frame(head, payload, now, told)?;
                    bytes = &bytes[end..];
                    continue;
                }
            }
            bytes = self.gather(bytes, now, told)?;
        }
        if self.received >= GIVE_BACK {
            let received = std::mem::take(&mut self.received);
            frame::put_number(&mut self.out, kind::WINDOW_UPDATE, 0, received);
        }
        if self.out.len() - self.out_from > OUT_MAX {
            return Err(Failure::text(
                FailureKind::Malformed,
                "HTTP/2: the server asks for more replies than it reads",
            ));
        }
        Ok(())
    }

    /// Takes bytes of a frame that is not whole; the rest of the bytes.
    fn gather<'a>(
        &mut self,
        mut bytes: &'a [u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<&'a [u8], Failure> {
        let mut take = |partial: &mut Vec<u8>, until: usize| {
            let len = until.saturating_sub(partial.len()).min(bytes.len());
            partial.extend_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            partial.len() >= until
        };
        let mut partial = std::mem::take(&mut self.partial);
        let mut result = Ok(());
        if take(&mut partial, frame::HEAD_BYTES)
            && let Some(head) = Head::read(&partial)
        {
            result = self.check(head, &partial);
            if head.kind == kind::DATA {
                partial.clear();
                self.data(head, now, told);
            } else if result.is_ok() && take(&mut partial, frame::HEAD_BYTES + head.len) {
                result = self.frame(head, &partial[frame::HEAD_BYTES..], now, told);
                partial.clear();
            }
        }
        self.partial = partial;
        result.map(|()| bytes)
    }

    /// What can be said of a frame by its head. Called again for a head that has come in parts.
    fn check(&self, head: Head, bytes: &[u8]) -> Result<(), Failure> {
        if self.phase == Phase::Greeting
            && (head.kind != kind::SETTINGS || head.stream != 0 || head.has(flag::ACK))
        {
            let text = if http1::peek(bytes).is_some() {
                "the server speaks HTTP/1.1 and not HTTP/2"
            } else {
                "the server does not begin with SETTINGS, so it does not speak HTTP/2"
            };
            return Err(Failure::text(FailureKind::NotHttp2, text));
        }
        if head.len > frame::PAYLOAD_MAX {
            return Err(malformed("HTTP/2: a frame larger than allowed"));
        }
        if self.block.stream != 0
            && (head.kind != kind::CONTINUATION || head.stream != self.block.stream)
        {
            return Err(malformed("HTTP/2: a frame in the middle of a header block"));
        }
        Ok(())
    }

    fn data(&mut self, head: Head, now: u64, told: &mut VecDeque<Tagged>) {
        self.frames += 1;
        self.received += head.len as u32;
        self.passing = Passing {
            left: head.len,
            stream: head.stream,
            ends: head.has(flag::END_STREAM),
        };
        if let Some(at) = self.find(head.stream) {
            let stream = &mut self.slots[at];
            stream.received += head.len as u32;
            stream.body_bytes += head.len as u64;
            if stream.received >= GIVE_BACK && !self.passing.ends {
                let received = std::mem::take(&mut stream.received);
                frame::put_number(&mut self.out, kind::WINDOW_UPDATE, head.stream, received);
            }
        }
        if head.len == 0 {
            self.passed(now, told);
        }
    }

    fn passed(&mut self, now: u64, told: &mut VecDeque<Tagged>) {
        if self.passing.ends
            && let Some(at) = self.find(self.passing.stream)
        {
            self.finish(at, now, told);
        }
    }

    fn frame(
        &mut self,
        head: Head,
        payload: &[u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        self.frames += 1;
        match head.kind {
            kind::HEADERS => {
                let fragment = fragment(head, payload)
                    .ok_or_else(|| malformed("HTTP/2: padding longer than its frame"))?;
                let ends = head.has(flag::END_STREAM);
                if head.has(flag::END_HEADERS) {
                    return self.header_block(head.stream, fragment, ends, now, told);
                }
                self.block.bytes.clear();
                self.block.bytes.extend_from_slice(fragment);
                self.block.stream = head.stream;
                self.block.ends = ends;
            }
            kind::CONTINUATION => return self.continuation(head, payload, now, told),
            kind::RST_STREAM => self.reset(head, payload, now, told)?,
            kind::SETTINGS if !head.has(flag::ACK) => self.settings(payload, told)?,
            kind::PUSH_PROMISE => {
                return Err(malformed("HTTP/2: PUSH_PROMISE although push is disabled"));
            }
            kind::PING if !head.has(flag::ACK) => {
                frame::put_head(&mut self.out, payload.len(), kind::PING, flag::ACK, 0);
                self.out.extend_from_slice(payload);
            }
            kind::GOAWAY => self.goaway(payload, now, told)?,
            kind::WINDOW_UPDATE => self.window_update(head, payload, told)?,
            // PRIORITY says nothing any more (RFC 9113 5.3.2); unknown frames are ignored (4.1).
            _ => {}
        }
        Ok(())
    }

    fn continuation(
        &mut self,
        head: Head,
        payload: &[u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        if self.block.stream == 0 {
            return Err(malformed("HTTP/2: CONTINUATION of nothing"));
        }
        if self.block.bytes.len() + payload.len() > BLOCK_MAX {
            return Err(Failure::text(
                FailureKind::HeadTooLarge,
                "HTTP/2: a header block of more than 64 KiB",
            ));
        }
        self.block.bytes.extend_from_slice(payload);
        if head.has(flag::END_HEADERS) {
            let block = std::mem::take(&mut self.block);
            self.header_block(block.stream, &block.bytes, block.ends, now, told)?;
            self.block.bytes = block.bytes;
        }
        Ok(())
    }

    #[inline]
    fn header_block(
        &mut self,
        id: u32,
        block: &[u8],
        ends: bool,
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        // Also of a stream that nobody waits for any more: the table must stay the server's.
        let Ok(Said { status, grpc }) = self.decoder.decode(block) else {
            return Err(malformed("HTTP/2: a header block that cannot be decoded"));
        };
        let Some(at) = self.find(id) else {
            return Ok(());
        };
        let stream = &mut self.slots[at];
        stream.grpc = grpc.or(stream.grpc);
        let fits = match (status, stream.status) {
            (Some(100..=199), 0) => !ends,
            (Some(status), 0) => {
                stream.status = status;
                stream.first_byte_at = now;
                true
            }
            // Trailers end a response and have no status.
            (None, _) => stream.status != 0 && ends,
            (Some(_), _) => false,
        };
        if !fits {
            frame::put_number(&mut self.out, kind::RST_STREAM, id, code::PROTOCOL_ERROR);
            let failure = malformed("HTTP/2: heads that are no response");
            self.fail(at, failure, now, told);
        } else if ends {
            self.finish(at, now, told);
        }
        Ok(())
    }

    fn reset(
        &mut self,
        head: Head,
        payload: &[u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        let code =
            frame::number(payload).ok_or_else(|| malformed("HTTP/2: RST_STREAM too short"))?;
        let Some(at) = self.find(head.stream) else {
            return Ok(());
        };
        let outcome = if code == code::REFUSED_STREAM {
            Outcome::Unprocessed(Failure::http2(
                FailureKind::StreamRefused,
                "RST_STREAM",
                code,
            ))
        } else {
            Outcome::Failed(Failure::http2(FailureKind::StreamReset, "RST_STREAM", code))
        };
        self.settle(at, outcome, now, told);
        Ok(())
    }

    fn settings(&mut self, payload: &[u8], told: &mut VecDeque<Tagged>) -> Result<(), Failure> {
        if !payload.len().is_multiple_of(6) {
            return Err(malformed(
                "HTTP/2: SETTINGS of a length that they cannot have",
            ));
        }
        for one in payload.chunks_exact(6) {
            let number = u16::from_be_bytes([one[0], one[1]]);
            let value = u32::from_be_bytes([one[2], one[3], one[4], one[5]]);
            match number {
                setting::HEADER_TABLE_SIZE if (value as usize) < TABLE_BYTES => {
                    self.table = Table::Announce;
                }
                setting::MAX_CONCURRENT_STREAMS => self.streams_max = value,
                setting::INITIAL_WINDOW_SIZE if value <= frame::WINDOW_MAX => {
                    // RFC 9113 6.9.2: also for the streams that are open.
                    let change = i64::from(value) - self.first_window;
                    self.first_window = i64::from(value);
                    self.slots.iter_mut().for_each(|s| s.window += change);
                }
                setting::MAX_FRAME_SIZE if value as usize >= frame::PAYLOAD_MAX => {
                    self.payload_max = (value as usize).min(OUT_HIGH);
                }
                setting::INITIAL_WINDOW_SIZE | setting::MAX_FRAME_SIZE => {
                    return Err(malformed(
                        "HTTP/2: SETTINGS with a value that none may have",
                    ));
                }
                _ => {}
            }
        }
        frame::put_head(&mut self.out, 0, kind::SETTINGS, flag::ACK, 0);
        if self.phase == Phase::Greeting {
            self.phase = Phase::Up;
            self.admit(Event::Opened, told);
        }
        self.unblock(told);
        Ok(())
    }

    /// RFC 9113 6.8: what is above the last stream was not processed.
    fn goaway(
        &mut self,
        payload: &[u8],
        now: u64,
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        let (last, code) = frame::number(payload)
            .zip(payload.get(4..).and_then(frame::number))
            .ok_or_else(|| malformed("HTTP/2: GOAWAY too short"))?;
        let last = last & frame::STREAM_MAX;
        self.goaway = Some(code);
        if self.phase == Phase::Up {
            self.drain(told);
        }
        for at in 0..self.slots.len() {
            if self.slots[at].place == Place::Active && self.slots[at].id > last {
                let unprocessed = Failure::http2(FailureKind::GoAway, "GOAWAY", code);
                self.settle(at, Outcome::Unprocessed(unprocessed), now, told);
            }
        }
        Ok(())
    }

    fn window_update(
        &mut self,
        head: Head,
        payload: &[u8],
        told: &mut VecDeque<Tagged>,
    ) -> Result<(), Failure> {
        let more = frame::number(payload)
            .ok_or_else(|| malformed("HTTP/2: WINDOW_UPDATE too short"))?
            & frame::WINDOW_MAX;
        if head.stream == 0 {
            self.window += i64::from(more);
        } else if let Some(at) = self.find(head.stream) {
            self.slots[at].window += i64::from(more);
        }
        self.unblock(told);
        Ok(())
    }

    /// The most streams that the server allows, where that is fewer than there are slots.
    pub fn limited_to(&self) -> Option<u32> {
        (self.streams_max < self.slots.len() as u32).then_some(self.streams_max)
    }
}

fn malformed(text: &'static str) -> Failure {
    Failure::text(FailureKind::Malformed, text)
}

/// The part of a HEADERS frame that is header block.
fn fragment(head: Head, payload: &[u8]) -> Option<&[u8]> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has(flag::PADDED) {
        let (first, tail) = rest.split_first()?;
        (padding, rest) = (usize::from(*first), tail);
    }
    if head.has(flag::PRIORITY) {
        rest = rest.get(5..)?;
    }
    rest.get(..rest.len().checked_sub(padding)?)
}

/// Appends a header block, in one frame where it fits.
fn put_block(
    out: &mut Vec<u8>,
    id: u32,
    update: &[u8],
    block: &[u8],
    has_body: bool,
    payload_max: usize,
) {
    let end_stream = if has_body { 0 } else { flag::END_STREAM };
    let len = update.len() + block.len();
    if len <= payload_max {
        let flags = flag::END_HEADERS | end_stream;
        frame::put_head(out, len, kind::HEADERS, flags, id);
        out.extend_from_slice(update);
        out.extend_from_slice(block);
        return;
    }
    let (first, rest) = block.split_at(payload_max - update.len());
    frame::put_head(out, payload_max, kind::HEADERS, end_stream, id);
    out.extend_from_slice(update);
    out.extend_from_slice(first);
    let mut parts = rest.chunks(payload_max).peekable();
    while let Some(part) = parts.next() {
        let flags = if parts.peek().is_none() {
            flag::END_HEADERS
        } else {
            0
        };
        frame::put_head(out, part.len(), kind::CONTINUATION, flags, id);
        out.extend_from_slice(part);
    }
}
