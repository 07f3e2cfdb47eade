//! HTTP/2 (RFC 9113) as a transport whose slots are streams.
//!
//! It stands on a transport of bytes: sockets for prior knowledge (h2c), TLS for ALPN. Connection n carries the slots
//! from n * streams on. The load loop sends the bytes of an HTTP/1 request on a slot and receives a decoded response:
//! neither side's text is made only to be parsed again.
//!
//! Frames are gathered and leave in one send a connection when the loop looks for news. News is handed out connection
//! by connection, so that a connection's next requests are on their way before the next connection's responses are
//! read: the server does not idle behind a whole round.

mod connection;
mod frame;
pub(crate) mod grpc;
mod hpack;
mod huffman;
mod request;
#[cfg(test)]
mod tests;

use super::{
    Event, Failure, Generation, Handshakes, Received, Slot, Tagged, Transport, Want, Wire,
};
use crate::clock::now_ns;
pub(super) use frame::name_of;

use connection::{Connection, Outcome, Phase};
use record::{Close, FailureKind};
use request::Requests;
use std::collections::VecDeque;

/// As often a connection is read from before others have their turn.
const READS_MAX: usize = 16;

/// What HTTP/2 is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2 {
    /// Requests in flight on one connection.
    pub streams: u32,
    /// Requests that a connection carries.
    pub per_connection: u64,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The requests are calls of gRPC.
    pub grpc: bool,
}

/// What is to be done for a connection below.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    is_due: bool,
    readable: bool,
    writable: bool,
    hangup: bool,
    /// It has frames to be sent.
    is_dirty: bool,
}

/// The transport; see the module.
pub(crate) struct H2<T> {
    inner: T,
    asked: Http2,
    requests: Requests,
    connections: Vec<Connection>,
    turns: Vec<Turn>,
    due: VecDeque<Slot>,
    dirty: Vec<Slot>,
    told: VecDeque<Tagged>,
    /// Events of the transport below, kept between calls for its capacity.
    below: Vec<Tagged>,
    close: Close,
    wire: Wire,
    closed_by_server: u64,
    limited_to: Option<u32>,
}

impl<T: Transport> H2<T> {
    /// Over `inner`, which has a slot for each of so many connections.
    pub fn new(inner: T, connections: u32, asked: Http2) -> Self {
        let slots = (connections * asked.streams) as usize;
        H2 {
            inner,
            asked,
            requests: Requests::new(asked.scheme),
            connections: (0..connections)
                .map(|n| Connection::new(n * asked.streams, asked.streams).of_grpc(asked.grpc))
                .collect(),
            turns: vec![Turn::default(); connections as usize],
            due: VecDeque::with_capacity(connections as usize),
            dirty: Vec::with_capacity(connections as usize),
            told: VecDeque::with_capacity(2 * slots),
            below: Vec::with_capacity(1024),
            close: Close::Fin,
            wire: Wire::default(),
            closed_by_server: 0,
            limited_to: None,
        }
    }

    fn carrier(&self, slot: Slot) -> Slot {
        slot / self.asked.streams
    }

    /// Frames wait to be sent, perhaps.
    fn touched(&mut self, n: Slot) {
        let connection = &self.connections[n as usize];
        let turn = &mut self.turns[n as usize];
        if !turn.is_dirty && connection.out.len() > connection.out_from {
            turn.is_dirty = true;
            self.dirty.push(n);
        }
    }

    /// Sends what a connection has to send, as far as the transport below takes it.
    fn push(&mut self, n: Slot) -> Result<(), Failure> {
        let connection = &mut self.connections[n as usize];
        let unsent = &connection.out[connection.out_from..];
        if unsent.is_empty() || matches!(connection.phase, Phase::Closed | Phase::Connecting) {
            return Ok(());
        }
        let taken = self.inner.send(n, unsent)?;
        self.wire.sent += taken as u64;
        connection.out_from += taken;
        if connection.out_from == connection.out.len() {
            connection.sent_all(&mut self.told);
        }
        Ok(())
    }

    fn push_all(&mut self) {
        while let Some(n) = self.dirty.pop() {
            self.turns[n as usize].is_dirty = false;
            if self.push(n).is_err() {
                // What came before it broke is read first, and with it the cause.
                let turn = &mut self.turns[n as usize];
                turn.readable = true;
                turn.hangup = true;
                self.take_turn(n);
            }
        }
    }

    fn take_turn(&mut self, n: Slot) {
        let turn = &mut self.turns[n as usize];
        if !turn.is_due {
            turn.is_due = true;
            self.due.push_back(n);
        }
    }

    /// What an event of the transport below means.
    fn note(&mut self, tagged: Tagged) {
        let n = tagged.slot;
        let connection = &mut self.connections[n as usize];
        if connection.generation != tagged.generation || connection.phase == Phase::Closed {
            return;
        }
        match tagged.event {
            Event::Opened | Event::Joined => self.greet(n),
            Event::OpenFailed(failure) => connection.refuse(&failure, &mut self.told),
            Event::Parked => {}
            Event::Ready {
                readable,
                writable,
                hangup,
            } => {
                let turn = &mut self.turns[n as usize];
                turn.readable |= readable;
                turn.writable |= writable;
                turn.hangup |= hangup;
                self.take_turn(n);
            }
        }
    }

    /// RFC 9113 3.3: over TLS the server must have chosen `h2`.
    fn greet(&mut self, n: Slot) {
        let refusal = match self.inner.alpn(n) {
            None | Some(b"h2") => None,
            Some(b"http/1.1") => Some("the server chose http/1.1 by ALPN and not h2"),
            Some(_) => Some("the server chose no protocol by ALPN, so it does not speak HTTP/2"),
        };
        let connection = &mut self.connections[n as usize];
        match refusal {
            Some(text) => {
                let failure = Failure::text(FailureKind::NotHttp2, text);
                self.inner.close(n, Close::Fin);
                connection.refuse(&failure, &mut self.told);
            }
            None => {
                connection.greet(self.asked.per_connection);
                self.touched(n);
            }
        }
    }

    /// Does what is due for a connection.
    fn turn(&mut self, n: Slot) {
        let turn = &mut self.turns[n as usize];
        let Turn {
            readable,
            writable,
            hangup,
            ..
        } = *turn;
        *turn = Turn {
            is_dirty: turn.is_dirty,
            ..Turn::default()
        };
        let phase = self.connections[n as usize].phase;
        if matches!(phase, Phase::Closed | Phase::Connecting) {
            return;
        }
        let pushed = if writable { self.push(n) } else { Ok(()) };
        let ended = match (readable || pushed.is_err(), pushed) {
            (true, pushed) => match self.pull(n, hangup) {
                Pulled::Open => pushed.err().map(Some),
                Pulled::Ended(failure) => Some(failure),
            },
            (false, _) => None,
        };
        match ended {
            Some(failure) => self.ended(n, failure),
            None => self.settle(n),
        }
        self.touched(n);
    }

    /// Reads what has come.
    fn pull(&mut self, n: Slot, hangup: bool) -> Pulled {
        for _ in 0..READS_MAX {
            let (fed, more) = match self.inner.recv(n, Want::Bytes(usize::MAX)) {
                Ok(Received::Data { bytes, more }) => {
                    self.wire.received += bytes.len() as u64;
                    let connection = &mut self.connections[n as usize];
                    (connection.feed(bytes, now_ns(), &mut self.told), more)
                }
                Ok(Received::End { .. }) => return Pulled::Ended(None),
                Err(failure) => return Pulled::Ended(Some(failure)),
                // The transports below lend bytes and nothing else.
                Ok(_) => return Pulled::Open,
            };
            if let Err(failure) = fed {
                let out = &mut self.connections[n as usize].out;
                frame::put_goaway(out, frame::code::PROTOCOL_ERROR);
                // It ends whether or not the server hears why.
                let _ = self.push(n);
                return Pulled::Ended(Some(failure));
            }
            if !(more || hangup) {
                return Pulled::Open;
            }
        }
        let turn = &mut self.turns[n as usize];
        turn.readable = true;
        turn.hangup = hangup;
        self.take_turn(n);
        Pulled::Open
    }

    /// A connection has ended; without a failure the server closed it.
    fn ended(&mut self, n: Slot, failure: Option<Failure>) {
        let by_server = match &failure {
            None => true,
            Some(failure) => failure.kind == FailureKind::Reset,
        };
        let connection = &mut self.connections[n as usize];
        self.inner.close(n, Close::Fin);
        if connection.phase == Phase::Greeting {
            let failure = failure.unwrap_or_else(|| {
                Failure::text(
                    FailureKind::ClosedEarly,
                    "the server closed the connection before its SETTINGS",
                )
            });
            return connection.refuse(&failure, &mut self.told);
        }
        self.closed_by_server += u64::from(by_server || connection.is_ended_by_server());
        connection.ended(failure.as_ref(), now_ns(), &mut self.told);
        self.reopen(n);
    }

    /// Closes a connection on which nothing is left to do.
    fn settle(&mut self, n: Slot) {
        let connection = &mut self.connections[n as usize];
        self.limited_to = self.limited_to.or(connection.limited_to());
        if !connection.is_over() {
            return;
        }
        self.closed_by_server += u64::from(connection.is_ended_by_server());
        if self.close == Close::Fin && !connection.is_ended_by_server() {
            frame::put_goaway(&mut connection.out, frame::code::NO_ERROR);
        }
        // It ends whether or not the server hears of it.
        let _ = self.push(n);
        let connection = &mut self.connections[n as usize];
        connection.ended(None, now_ns(), &mut self.told);
        self.inner.close(n, self.close);
        self.reopen(n);
    }

    /// Opens a connection for which slots wait.
    fn reopen(&mut self, n: Slot) {
        let connection = &mut self.connections[n as usize];
        if !connection.is_awaited() {
            return;
        }
        let generation = connection.connecting();
        if let Err(failure) = self.inner.open(n, generation) {
            self.inner.close(n, Close::Fin);
            self.connections[n as usize].refuse(&failure, &mut self.told);
        }
    }
}

/// What became of reading.
enum Pulled {
    Open,
    /// By the server, or by a failure.
    Ended(Option<Failure>),
}

impl<T: Transport> Transport for H2<T> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let n = self.carrier(slot);
        let connection = &mut self.connections[n as usize];
        connection.open(slot, generation, &mut self.told);
        if connection.phase == Phase::Closed {
            self.reopen(n);
        }
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let n = self.carrier(slot);
        let connection = &mut self.connections[n as usize];
        let sent = connection.send(slot, bytes, &mut self.requests, &mut self.told);
        self.touched(n);
        sent
    }

    #[inline]
    fn recv(&mut self, slot: Slot, _: Want) -> Result<Received<'_>, Failure> {
        let n = self.carrier(slot);
        let connection = &mut self.connections[n as usize];
        let goes_on = connection.phase == Phase::Up;
        let stream = &mut connection.slots[(slot - n * self.asked.streams) as usize];
        match stream.outcome.take() {
            None => Ok(Received::Blocked),
            Some(Outcome::Answer) => Ok(Received::Answer {
                status: stream.status,
                body_bytes: stream.body_bytes,
                first_byte_at: stream.first_byte_at,
                goes_on,
            }),
            Some(Outcome::Unprocessed(failure)) => Ok(Received::Unprocessed(failure)),
            Some(Outcome::Failed(failure)) => Err(failure),
            Some(Outcome::End) => Ok(Received::End { orderly: true }),
        }
    }

    fn close(&mut self, slot: Slot, how: Close) {
        self.close = how;
        let n = self.carrier(slot);
        let connection = &mut self.connections[n as usize];
        connection.close(slot, &mut self.told);
        let opens = matches!(connection.phase, Phase::Connecting | Phase::Greeting);
        if opens && !connection.is_awaited() {
            connection.phase = Phase::Closed;
            self.inner.close(n, Close::Fin);
        } else {
            self.settle(n);
            self.touched(n);
        }
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        self.push_all();
        let mut waited = Ok(());
        if self.told.is_empty() && self.due.is_empty() {
            let mut below = std::mem::take(&mut self.below);
            waited = self.inner.wait(&mut below, timeout_ns);
            below.drain(..).for_each(|tagged| self.note(tagged));
            self.below = below;
        }
        while self.told.is_empty()
            && let Some(n) = self.due.pop_front()
        {
            self.turn(n);
        }
        let room = events.capacity() - events.len();
        let told = self.told.len().min(room);
        events.extend(self.told.drain(..told));
        waited
    }

    fn flush(&mut self) -> bool {
        self.push_all();
        self.told.is_empty() && self.due.is_empty()
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn came_at(&self, slot: Slot) -> Option<u64> {
        let n = self.carrier(slot);
        let connection = &self.connections[n as usize];
        let stream = &connection.slots[(slot - n * self.asked.streams) as usize];
        stream.outcome.is_some().then_some(stream.done_at)
    }

    fn spun_ns(&self) -> u64 {
        self.inner.spun_ns()
    }

    fn name(&self) -> String {
        format!("{}+h2", self.inner.name())
    }

    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        self.inner.counted()
    }

    fn handshakes(&self) -> Handshakes {
        self.inner.handshakes()
    }

    fn take_wire(&mut self) -> Option<Wire> {
        Some(std::mem::take(&mut self.wire))
    }

    fn closed_by_server(&self) -> Option<u64> {
        Some(self.closed_by_server)
    }

    fn limited_to(&self) -> Option<u32> {
        self.limited_to
    }
}
