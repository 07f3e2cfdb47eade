//! HTTP over a program's connections: requests out and responses checked on the client side, as `prony load` checks
//! them; requests read and answered on the server side.
//!
//! What is sent is periodic: request or response number n lies at n times its length. Only a server's last answer
//! differs, and its place is kept.

use super::conn::{Conn, Phase, Reader, flag};
use super::flows::Program;
use super::requests::Asked;
use super::script::{HttpWork, Last, Role};
use crate::load::response::Answer;
use crate::load::tally::failure_of_status;
use crate::transport::Failure;
use record::{Close, FailureKind, Nanos};
use stack::tcp::Stack;

impl Program {
    /// See [`Program::give`].
    pub fn http_goal(&self, conn: &Conn, work: &HttpWork) -> u64 {
        let step = u64::from(conn.step);
        if self.role == Role::Client {
            let asked = step + u64::from(conn.has(flag::ASKED));
            return asked * work.request(conn.target).len();
        }
        if conn.has(flag::LAST) {
            return conn.mark + work.last[usize::from(conn.target.min(2))].len();
        }
        step * work.response.len()
    }

    // ---- Client ----

    /// Sends the next request, which was due at `due`.
    pub fn ask(&mut self, stack: &mut Stack, slot: u32, due: u64) {
        let conn = &mut self.conns[slot as usize];
        (conn.due_at, conn.sent_at, conn.mark) = (due, 0, 0);
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
            if conn.mark == 0 {
                conn.mark = self.now;
            }
            let (index, mut buffer) = self.head_buffer(slot);
            let conn = &mut self.conns[slot as usize];
            let cache = self.responses[usize::from(conn.template)].as_mut();
            let (Reader::Response(reader), Some(cache)) = (&mut conn.reader, cache) else {
                return;
            };
            let fed = reader.feed(&mut rest, &mut buffer, cache);
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
        if let Some(kind) = failure_of_status(answer.status) {
            return self.fail(stack, slot, kind.name());
        }
        let since = |from: u64, to: u64| Nanos(to.saturating_sub(from));
        tally.response.record(since(conn.due_at, self.now));
        tally.first_byte.record(since(conn.sent_at, conn.mark));
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
        let conn = &mut self.conns[slot as usize];
        let end = match &mut conn.reader {
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
            let Reader::Request(reader) = &mut self.conns[slot as usize].reader else {
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
        let conn = &mut self.conns[slot as usize];
        conn.mark = u64::from(conn.step) * work.response.len();
        conn.target = last as u16;
        conn.set(flag::LAST);
    }

    /// Something was answered, and no request is left in the middle.
    pub fn has_answered(&self, slot: u32) -> bool {
        let conn = &self.conns[slot as usize];
        let is_between = match &conn.reader {
            Reader::Request(reader) => !reader.is_mid_request(),
            Reader::Response(_) => false,
        };
        is_between && (conn.step > 0 || conn.has(flag::LAST))
    }
}
