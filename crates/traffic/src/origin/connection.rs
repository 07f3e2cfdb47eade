//! One connection: what was read and not used, what waits to be sent; what carries it is lent to it ([`Wire`]).
//!
//! [`Connection::pass`] does as much as it can without blocking, but no more than its share: answers
//! leave in the pass that read their requests, a client that does not read holds nobody up, and one
//! that sends without end gives way to the others.
//!
//! A socket is watched edge-triggered, once, for everything: a short read is taken for an empty
//! socket, which saves the read that would find nothing.

use super::talk::{Output, Service, Talk, Verdict};
use super::wire::{CALL_BYTES_MAX, Wire};
use std::io;
use std::mem::take;

/// Size of a read, and so of what one send can answer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Rounds of reading and sending before other connections have their turn.
const ROUNDS_PER_PASS: usize = 8;

/// What a thread lends to the connection that has its turn.
pub struct Tools {
    /// Where answers come from.
    pub service: Service,
    /// Space to read into, [`SCRATCH_BYTES`] long.
    pub scratch: Box<[u8]>,
    /// An empty output with memory in it, so that idle connections need none of their own.
    pub output: Output,
}

impl Tools {
    /// Those of a thread.
    pub fn new(service: Service) -> Self {
        Self {
            service,
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            output: Output::default(),
        }
    }
}

/// What the worker has to do after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing, until the wire or a timer calls.
    Idle,
    /// Another pass, after the others had theirs.
    Again,
    /// Call [`Connection::answer`] after the delay.
    Delay,
    /// Another pass, and close it if the peer has not done so in a while.
    Linger,
    /// Forget it.
    Closed,
}

/// What the connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Talk(Verdict),
    /// The timer that started with [`Outcome::Delay`].
    Answer,
    /// The peer's end: all is said, and what still comes is dropped.
    Goodbye,
}

/// How far [`Connection::flush`] came.
enum Flushed {
    All,
    WireFull,
    /// Others first.
    ShareUsed,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    talk: Talk,
    next: Next,
    /// Read but not yet used: the start of a head, or requests behind one that waits.
    input: Vec<u8>,
    output: Output,
    /// The wire may hold more input.
    unread: bool,
    /// The peer sends no more: every read must go on until it has seen the end.
    ending: bool,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new() -> Self {
        Self {
            talk: Talk::default(),
            next: Next::Talk(Verdict::NeedInput),
            input: Vec::new(),
            output: Output::default(),
            unread: true,
            ending: false,
        }
    }

    /// Notes what the wire reported: bytes that can be received, or that the peer sends no more.
    pub fn note(&mut self, readable: bool, ending: bool) {
        self.ending |= ending;
        self.unread |= self.ending || readable;
    }

    /// Does what can be done now.
    pub fn pass(&mut self, wire: &mut impl Wire, tools: &mut Tools) -> Outcome {
        if self.output.is_empty() {
            self.output = take(&mut tools.output);
        }
        // A reset is how many clients leave: nothing is left to be done for them.
        let outcome = self.rounds(wire, tools).unwrap_or(Outcome::Closed);
        if self.output.is_empty() {
            tools.output = take(&mut self.output);
        }
        outcome
    }

    /// The delay is over; a pass must follow.
    pub fn answer(&mut self, tools: &Tools) {
        if self.next == Next::Answer {
            self.next = Next::Talk(self.talk.answer(&tools.service, &mut self.output));
            self.reconsider_input();
        }
    }

    /// Behind a delayed answer there may be a whole request in `input` already.
    fn reconsider_input(&mut self) {
        if self.next == Next::Talk(Verdict::NeedInput) && !self.input.is_empty() {
            self.next = Next::Talk(Verdict::NeedOutput);
        }
    }

    fn rounds(&mut self, wire: &mut impl Wire, tools: &mut Tools) -> io::Result<Outcome> {
        for _ in 0..ROUNDS_PER_PASS {
            match self.flush(wire, tools)? {
                Flushed::All => {}
                Flushed::WireFull => return Ok(Outcome::Idle),
                Flushed::ShareUsed => return Ok(Outcome::Again),
            }
            let waits_for = match self.next {
                Next::Answer => Some(Outcome::Idle),
                Next::Goodbye => self.drain(wire, tools)?,
                Next::Talk(Verdict::Delay) => {
                    self.next = Next::Answer;
                    Some(Outcome::Delay)
                }
                Next::Talk(Verdict::Close) => Some(self.say_goodbye(wire)),
                Next::Talk(Verdict::NeedOutput) => {
                    self.use_input(&tools.service);
                    None
                }
                Next::Talk(Verdict::NeedInput) => self.read(wire, tools)?,
            };
            if let Some(outcome) = waits_for {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Again)
    }

    /// Sends what waits. A wire is full when it has refused, not when it took a part: only after a refusal does it
    /// report when it takes more.
    fn flush(&mut self, wire: &mut impl Wire, tools: &Tools) -> io::Result<Flushed> {
        for _ in 0..ROUNDS_PER_PASS {
            if self.output.is_empty() {
                return Ok(Flushed::All);
            }
            let Some(n) = wire.send(&mut self.output, &tools.service.content)? else {
                return Ok(Flushed::WireFull);
            };
            tools.service.counters().sent_bytes.add(n as u64);
        }
        Ok(Flushed::ShareUsed)
    }

    /// Reads once and answers; an outcome when there is nothing to read.
    fn read(&mut self, wire: &mut impl Wire, tools: &mut Tools) -> io::Result<Option<Outcome>> {
        if !self.unread {
            return Ok(Some(Outcome::Idle));
        }
        match self.talk.discardable() {
            Some(left) if left >= SCRATCH_BYTES as u64 => self.drop_body(left, wire, tools),
            _ => self.read_and_answer(wire, tools),
        }
    }

    fn read_and_answer(
        &mut self,
        wire: &mut impl Wire,
        tools: &mut Tools,
    ) -> io::Result<Option<Outcome>> {
        let Tools {
            service, scratch, ..
        } = tools;
        let received = wire.receive(scratch)?;
        let n = match self.received(received, scratch.len(), service) {
            Ok(n) => n,
            Err(outcome) => return Ok(Some(outcome)),
        };
        if self.input.is_empty() {
            let (used, verdict) = self.talk.advance(service, &scratch[..n], &mut self.output);
            self.input.extend_from_slice(&scratch[used..n]);
            self.next = Next::Talk(verdict);
        } else {
            self.input.extend_from_slice(&scratch[..n]);
            self.use_input(service);
        }
        Ok(None)
    }

    fn use_input(&mut self, service: &Service) {
        let (used, verdict) = self.talk.advance(service, &self.input, &mut self.output);
        self.input.drain(..used);
        if self.input.is_empty() {
            // An idle connection holds no memory.
            self.input = Vec::new();
        }
        self.next = Next::Talk(verdict);
    }

    /// Drops a part of a large upload in the wire: it is counted, not looked at.
    fn drop_body(
        &mut self,
        left: u64,
        wire: &mut impl Wire,
        tools: &Tools,
    ) -> io::Result<Option<Outcome>> {
        // The minimum is at most CALL_BYTES_MAX, a usize.
        let asked = left.min(CALL_BYTES_MAX as u64) as usize;
        let received = wire.discard(asked)?;
        match self.received(received, asked, &tools.service) {
            Ok(n) => {
                self.talk.discarded(n as u64);
                self.next = Next::Talk(Verdict::NeedOutput);
                Ok(None)
            }
            Err(outcome) => Ok(Some(outcome)),
        }
    }

    /// Books a read of up to `asked` bytes; the outcome when it brought none.
    fn received(
        &mut self,
        received: Option<usize>,
        asked: usize,
        service: &Service,
    ) -> Result<usize, Outcome> {
        match received {
            None => {
                self.unread = false;
                Err(Outcome::Idle)
            }
            Some(0) => Err(Outcome::Closed),
            Some(n) => {
                self.unread = n == asked || self.ending;
                service.counters().received_bytes.add(n as u64);
                Ok(n)
            }
        }
    }

    /// Closing a socket with unread input resets the connection, and the reset may overtake the last
    /// answer (RFC 9112 9.6): then only our direction is closed, and the rest is dropped until the peer
    /// closes its own.
    fn say_goodbye(&mut self, wire: &mut impl Wire) -> Outcome {
        if self.input.is_empty() && !self.unread {
            return Outcome::Closed;
        }
        wire.end();
        self.next = Next::Goodbye;
        self.unread = true;
        Outcome::Linger
    }

    fn drain(&mut self, wire: &mut impl Wire, tools: &Tools) -> io::Result<Option<Outcome>> {
        let received = wire.discard(CALL_BYTES_MAX)?;
        Ok(self
            .received(received, CALL_BYTES_MAX, &tools.service)
            .err())
    }
}
