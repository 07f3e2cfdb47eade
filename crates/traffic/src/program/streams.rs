//! Streams of steps: both sides walk the same list, one sends where the other compares.
//!
//! A sender is done with a step when the stack has been given its bytes, a receiver when they have come; so the turn
//! passes without a word beside the stream.

use super::conn::{Busy, Conn, Phase, flag};
use super::flows::Program;
use super::script::{Role, StreamWork, Turn};
use record::{Close, FailureKind, Nanos};
use stack::tcp::{Ended, Stack};
use std::sync::Arc;

/// A byte that differs from what the template says.
pub(super) const WRONG_BYTES: &str = "wrong_bytes";

impl Program {
    /// See [`Program::give`]: the end of the step that is being sent.
    pub fn stream_goal(&self, conn: &Conn, busy: &Busy, work: &StreamWork) -> u64 {
        match work.turns.get(conn.step as usize) {
            Some(Turn::Send { by, end }) if *by == self.role => *end,
            _ => busy.given,
        }
    }

    /// Goes on with the list as far as it can.
    pub fn advance(&mut self, stack: &mut Stack, slot: u32) {
        let plan = Arc::clone(&self.plan);
        let template = usize::from(self.conns[slot as usize].template);
        let super::script::Work::Stream(work) = &plan.scripts[template].work else {
            return;
        };
        let role = self.role;
        loop {
            let (conn, busy) = self.both(slot);
            if conn.phase != Phase::Open || conn.flags & (flag::PAUSED | flag::RESET_DUE) != 0 {
                return;
            }
            let Some(turn) = work.turns.get(conn.step as usize).copied() else {
                return self.stream_done(stack, slot);
            };
            match turn {
                Turn::Send { by, end } if by == role => {
                    self.give(stack, slot);
                    if self.busy(slot).given < end {
                        return;
                    }
                    self.step_done(slot);
                }
                Turn::Send { end, .. } if busy.received < end => return,
                Turn::Send { .. } => self.step_done(slot),
                Turn::Pause { by, ns } if by == role => {
                    return self.pause(slot, self.now.saturating_add(ns));
                }
                Turn::Pause { .. } => conn.step += 1,
                Turn::Close { by, how } if by == role => {
                    conn.step += 1;
                    self.close(stack, slot, how);
                    if how == Close::Rst {
                        return;
                    }
                }
                Turn::Close {
                    how: Close::Rst, ..
                } => return,
                Turn::Close { .. } if !conn.has(flag::PEER_CLOSED) => return,
                Turn::Close { .. } => conn.step += 1,
            }
        }
    }

    fn step_done(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        conn.step += 1;
        self.tally[usize::from(conn.template)].exchanges += 1;
    }

    /// All steps are done; what we have sent may still be on its way.
    fn stream_done(&mut self, stack: &mut Stack, slot: u32) {
        if !self.has_arrived(slot) {
            return;
        }
        let due_at = self.busy(slot).due_at;
        let conn = &mut self.conns[slot as usize];
        let template = usize::from(conn.template);
        conn.phase = Phase::Closing;
        if self.role == Role::Client {
            let took = Nanos(self.now.saturating_sub(due_at));
            self.tally[template].response.record(took);
        }
        let peer_closed = conn.has(flag::PEER_CLOSED);
        self.completed(slot);
        self.touch(slot);
        match self.role {
            Role::Client => self.close(stack, slot, self.plan.scripts[template].close),
            Role::Server if peer_closed => self.close(stack, slot, Close::Fin),
            Role::Server => {}
        }
    }

    /// Takes bytes of the peer, and compares them.
    pub fn on_stream(&mut self, stack: &mut Stack, slot: u32, work: &StreamWork, bytes: &[u8]) {
        let conn = &mut self.conns[slot as usize];
        let busy = &mut self.busies[conn.busy];
        if conn.phase == Phase::Closing {
            // Beyond the last step.
            return;
        }
        if !work.received_by(self.role).matches(busy.received, bytes) {
            return self.fail(stack, slot, WRONG_BYTES);
        }
        busy.received += bytes.len() as u64;
        if self.role == Role::Client && !conn.has(flag::FIRST) {
            conn.set(flag::FIRST);
            if busy.sent_at > 0 {
                let took = Nanos(self.now.saturating_sub(busy.sent_at));
                self.tally[usize::from(conn.template)]
                    .first_byte
                    .record(took);
            }
        }
        if !self.conns[slot as usize].has(flag::PAUSED) {
            self.touch(slot);
        }
        self.advance(stack, slot);
    }

    /// The peer sends no more.
    pub fn on_end_of_stream(&mut self, stack: &mut Stack, slot: u32, work: &StreamWork) {
        let received = self.busy(slot).received;
        if received < work.received_by(self.role).len() {
            let kind = match received {
                0 => FailureKind::ClosedEarly,
                _ => FailureKind::Truncated,
            };
            return self.fail(stack, slot, kind.name());
        }
        self.advance(stack, slot);
    }

    /// The connection's end is one that the steps allow.
    pub fn ends_well(&self, slot: u32, work: &StreamWork, why: Ended) -> bool {
        let conn = &self.conns[slot as usize];
        let expects_reset = matches!(
            work.turns.get(conn.step as usize),
            Some(Turn::Close { by, how: Close::Rst }) if *by != self.role
        );
        let is_done = conn.step as usize >= work.turns.len();
        match why {
            Ended::Reset => expects_reset || is_done && self.role == Role::Server,
            Ended::Orderly => is_done,
            _ => false,
        }
    }
}
