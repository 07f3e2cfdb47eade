//! HTTP over a program's connections: requests out and responses checked on the client side, as `prony load` checks
//! them; requests read and answered on the server side.
//!
//! What is sent is periodic: request or response number n lies at n times its length. Only a server's last answer
//! differs, and its place is kept.

use super::conn::{Busy, Conn, Phase, Reader, flag};
use super::flows::Program;
use super::requests::Asked;
use super::script::{Expected, HttpWork, Last, Role};
use super::streams::WRONG_BYTES;
use crate::load::response::Answer;
use crate::load::tally::failure_of_status;
use crate::transport::Failure;
use record::{Close, FailureKind, Nanos};
use stack::tcp::Stack;

/// A status other than the one that must come.
pub(super) const WRONG_STATUS: &str = "wrong_status";
/// A body of another length than the one that must come.
pub(super) const WRONG_LENGTH: &str = "wrong_length";

impl Expected {
    /// What is wrong with a response of which so many bytes of the body came, `is_wrong` when one of them differs. A
    /// response to HEAD has none.
    fn failure(
        &self,
        status: u16,
        received: u64,
        is_wrong: bool,
        is_head: bool,
    ) -> Option<&'static str> {
        let of_status = match self.status {
            Some(expected) => (expected != status).then_some(WRONG_STATUS),
            None => failure_of_status(status).map(FailureKind::name),
        };
        let has_length = self.bytes.is_none_or(|bytes| bytes == received) || is_head;
        of_status
            .or(is_wrong.then_some(WRONG_BYTES))
            .or((!has_length).then_some(WRONG_LENGTH))
    }
}

impl Program {
    /// See [`Program::give`].
    pub fn http_goal(&self, conn: &Conn, busy: &Busy, work: &HttpWork) -> u64 {
        let step = u64::from(conn.step);
        if self.role == Role::Client {
            let asked = step + u64::from(conn.has(flag::ASKED));
            return asked * work.request(conn.target).len();
        }
        if conn.has(flag::LAST) {
            return busy.mark + work.last[usize::from(conn.target.min(2))].len();
        }
        step * work.response.len()
    }

    // ---- Client ----

    /// Sends the next request, which was due at `due`.
    pub fn ask(&mut self, stack: &mut Stack, slot: u32, due: u64) {
        let (conn, busy) = self.both(slot);
        (busy.due_at, busy.sent_at, busy.mark) = (due, 0, 0);
        conn.set(flag::ASKED);
        self.touch(slot);
        self.give(stack, slot);
    }

    /// Takes bytes of responses.
    pub fn on_responses(&mut self, stack: &mut Stack, slot: u32, work: &HttpWork, bytes: &[u8]) {
        let generation = self.conns[slot as usize].generation;
        let mut rest = bytes;
        while !rest.is_empty() {
            let conn = &mut self.conns[slot as usize];
            if conn.generation != generation || conn.phase == Phase::Closing {
                return;
            }
            if !conn.has(flag::ASKED) {
                // Nobody has asked for it.
                return self.fail(stack, slot, FailureKind::Malformed.name());
            }
            let (template, busy) = (usize::from(conn.template), &mut self.busies[conn.busy]);
            if busy.mark == 0 {
                busy.mark = self.now;
            }
            let (index, mut buffer) = self.head_buffer(slot);
            let busy = &mut self.busies[self.conns[slot as usize].busy];
            let cache = self.responses[template].as_mut();
            let (Reader::Response(reader), Some(cache)) = (&mut busy.reader, cache) else {
                return;
            };
            let fed = match &work.expected {
                None => reader.feed(&mut rest, &mut buffer, cache),
                Some(expected) => {
                    let (received, mut is_right) = (&mut busy.received, true);
                    let fed = reader.feed_with(&mut rest, &mut buffer, cache, |content| {
                        let body = expected.body.as_ref();
                        is_right &= body.is_none_or(|body| body.matches(*received, content));
                        *received += content.len() as u64;
                    });
                    if !is_right {
                        self.conns[slot as usize].set(flag::WRONG);
                    }
                    fed
                }
            };
            let holds = reader.holds();
            self.give_head_buffer(slot, index, buffer, holds);
            match fed {
                Ok(None) => {}
                Ok(Some(_)) if !rest.is_empty() => {
                    // One request is out at a time: whatever follows its response answers nothing.
                    return self.fail(stack, slot, FailureKind::Malformed.name());
                }
                Ok(Some(answer)) => self.answered(stack, slot, work, answer),
                Err(bad) => return self.fail(stack, slot, Failure::from(bad).kind.name()),
            }
        }
    }

    fn answered(&mut self, stack: &mut Stack, slot: u32, work: &HttpWork, answer: Answer) {
        let conn = &mut self.conns[slot as usize];
        conn.clear(flag::ASKED);
        conn.step += 1;
        let tally = &mut self.tally[usize::from(conn.template)];
        *tally.statuses.entry(answer.status).or_default() += 1;
        tally.exchanges += 1;
        let failure = match &work.expected {
            None => failure_of_status(answer.status).map(FailureKind::name),
            Some(expected) => {
                let received = std::mem::take(&mut self.busies[conn.busy].received);
                let is_wrong = conn.has(flag::WRONG);
                conn.clear(flag::WRONG);
                expected.failure(answer.status, received, is_wrong, work.is_head)
            }
        };
        if let Some(kind) = failure {
            return self.fail(stack, slot, kind);
        }
        let conn = &mut self.conns[slot as usize];
        let busy = &self.busies[conn.busy];
        let tally = &mut self.tally[usize::from(conn.template)];
        let since = |from: u64, to: u64| Nanos(to.saturating_sub(from));
        tally.response.record(since(busy.due_at, self.now));
        tally.first_byte.record(since(busy.sent_at, busy.mark));
        let is_last = u64::from(conn.step) >= work.count;
        let template = usize::from(conn.template);
        match (is_last, answer.keep_alive) {
            (true, keep_alive) | (false, keep_alive @ false) => {
                // RFC 9112 9.6: a server may end a connection with any response that says so.
                tally.ended_early += u64::from(!is_last);
                conn.phase = Phase::Closing;
                let has_closed = conn.has(flag::PEER_CLOSED);
                self.completed(slot);
                self.touch(slot);
                match self.plan.scripts[template].close {
                    // The server has said that it closes: it is waited for, so that TIME-WAIT is its own.
                    Close::Fin if !keep_alive && !has_closed => {}
                    how => self.close(stack, slot, how),
                }
            }
            (false, true) if work.think_ns > 0 => self.pause(slot, self.now + work.think_ns),
            (false, true) => self.ask(stack, slot, self.now),
        }
    }

    /// The server sends no more.
    pub fn on_end_of_responses(&mut self, stack: &mut Stack, slot: u32, work: &HttpWork) {
        let is_orderly = self.is_orderly(slot);
        let (conn, busy) = self.both(slot);
        let end = match &mut busy.reader {
            Reader::Response(reader) if conn.flags & flag::ASKED != 0 => reader.end(is_orderly),
            _ => return self.fail(stack, slot, FailureKind::ClosedEarly.name()),
        };
        match end {
            // A body that lasts until the close.
            Ok(answer) => {
                let last = Answer {
                    keep_alive: false,
                    ..answer
                };
                self.answered(stack, slot, work, last);
            }
            Err(failure) => self.fail(stack, slot, failure.kind.name()),
        }
    }

    // ---- Server ----

    /// Takes bytes of requests, and answers.
    pub fn on_requests(&mut self, stack: &mut Stack, slot: u32, work: &HttpWork, bytes: &[u8]) {
        let mut rest = bytes;
        self.touch(slot);
        while !rest.is_empty() {
            let conn = &self.conns[slot as usize];
            if conn.phase != Phase::Open {
                return;
            }
            if conn.has(flag::LAST) {
                // What follows is not read any more.
                break;
            }
            let (index, mut buffer) = self.head_buffer(slot);
            let busy = &mut self.busies[self.conns[slot as usize].busy];
            let Reader::Request(reader) = &mut busy.reader else {
                return;
            };
            let fed = reader.feed(&mut rest, &mut buffer, &mut self.requests);
            let holds = reader.holds();
            self.give_head_buffer(slot, index, buffer, holds);
            match fed {
                Ok(None) => {}
                Ok(Some(asked)) => self.answer(slot, work, asked),
                Err(_) => {
                    let template = self.conns[slot as usize].template;
                    self.conns[slot as usize].set(flag::COUNTED);
                    self.count_failure(template, FailureKind::Malformed.name());
                    self.last_answer(slot, work, Last::Refusal);
                }
            }
        }
        self.give(stack, slot);
    }

    fn answer(&mut self, slot: u32, work: &HttpWork, asked: Asked) {
        let conn = &mut self.conns[slot as usize];
        self.tally[usize::from(conn.template)].exchanges += 1;
        match (asked.keep_alive, asked.is_head) {
            (true, false) => conn.step += 1,
            (_, true) => self.last_answer(slot, work, Last::Head),
            (false, false) => self.last_answer(slot, work, Last::Whole),
        }
    }

    fn last_answer(&mut self, slot: u32, work: &HttpWork, last: Last) {
        let (conn, busy) = self.both(slot);
        busy.mark = u64::from(conn.step) * work.response.len();
        conn.target = last as u16;
        conn.set(flag::LAST);
    }

    /// Something was answered, and no request is left in the middle.
    pub fn has_answered(&self, slot: u32) -> bool {
        let conn = &self.conns[slot as usize];
        let is_between = match &self.busies[conn.busy].reader {
            Reader::Request(reader) => !reader.is_mid_message(),
            Reader::Response(_) => false,
        };
        is_between && (conn.step > 0 || conn.has(flag::LAST))
    }
}
