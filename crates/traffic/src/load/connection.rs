//! One connection slot of a load thread: what state it is in, what travels on it, when it may be opened again.
//!
//! [`super::exchange`] has the lines in which slots stand and decides; here are the facts of one slot. A slot
//! outlives its connections: what counts over all of them (successes, failures in a row) stays.

use super::response::ResponseReader;
use super::tally::Request;
use crate::transport::{Failure, Generation};
use record::FailureKind;
use std::collections::VecDeque;

const BACK_OFF_MIN_NS: u64 = 10_000_000;
const BACK_OFF_MAX_NS: u64 = 1_000_000_000;
/// A request that the server refuses is sent again, unless this slot has been refused so often in a row.
const REFUSALS_MAX: u32 = 5;

/// How connections are used; the same for all threads.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Requests in flight on one connection.
    pub depth: usize,
    /// Requests that one connection carries.
    pub per_connection: u64,
    /// The requests themselves announce the end of the connection, so the server closing is not its idea.
    pub announces_close: bool,
    /// The opening of a connection counts to the response time of its first request.
    pub connect_counts: bool,
    /// The method is HEAD.
    pub head_requests: bool,
    /// Length of one request.
    pub request_bytes: usize,
    /// Slots of one connection.
    pub streams: u32,
    /// The transport decodes responses and counts the bytes that it carries.
    pub is_decoded: bool,
    /// After this long without a complete response a request has failed.
    pub timeout_ns: u64,
}

/// Why a connection ends.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The server announced it with its last response.
    Announced,
    /// The client wants it: the last request has its response.
    Policy,
    /// The server ended it while no request was outstanding.
    IdleEnd,
    /// Bytes came that no request had asked for.
    Stray,
    /// The server says that it has not processed the request.
    Unprocessed(Failure),
    /// The server ended its stream of events, between two of them.
    StreamEnded,
    /// Something failed, and the outstanding requests with it.
    Failed(Failure),
}

/// What has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOut {
    /// The opening of the connection.
    Opening,
    /// The oldest request.
    Request,
}

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    /// Closed, and not to be opened before `since`.
    Resting,
    Opening,
    Open,
    /// Closed for good: its connection has no room for it.
    Parked,
}

/// One connection slot.
#[derive(Debug)]
pub(super) struct Connection {
    pub state: State,
    /// Counts the connections of the slot.
    pub generation: Generation,
    /// Since when it is in this state; for `Resting`, until when.
    pub since: u64,
    pub free_since: u64,
    /// When the first byte of the current response came; 0 before it.
    pub first_byte_at: u64,
    /// How long its opening took, where that counts and no response has had it yet.
    pub connect_ns: u64,
    pub reader: ResponseReader,
    /// Sent, with no response yet, oldest first.
    pub outstanding: VecDeque<Request>,
    /// Bytes of the outstanding requests that the transport has not taken yet.
    pub unsent: usize,
    /// Requests sent on this connection.
    pub issued: u64,
    /// Responses on this connection.
    pub answered: u64,
    /// It stands in the line of free connections.
    pub in_line: bool,
    /// Its client thinks and sends nothing.
    pub thinks: bool,
    /// It has more to read than its last turn allowed.
    pub is_unread: bool,
    /// Not to be opened again before this: the server has asked for it.
    pub reopen_at: u64,
    /// Connections in a row that ended without a response.
    pub consecutive_failures: u32,
    /// Measured successes of the slot.
    pub successes: u64,
    /// Since when its connections wait for a first response, one given up after the other; 0 where none was given up.
    pub in_vain_since: u64,
}

impl Connection {
    pub fn new(depth: usize) -> Self {
        Connection {
            state: State::Closed,
            generation: 0,
            since: 0,
            free_since: 0,
            first_byte_at: 0,
            connect_ns: 0,
            reader: ResponseReader::default(),
            outstanding: VecDeque::with_capacity(depth),
            unsent: 0,
            issued: 0,
            answered: 0,
            in_line: false,
            thinks: false,
            is_unread: false,
            reopen_at: 0,
            consecutive_failures: 0,
            successes: 0,
            in_vain_since: 0,
        }
    }

    /// Requests that can be put on it now.
    #[inline]
    pub fn room(&self, policy: &Policy) -> usize {
        if self.state != State::Open || self.unsent > 0 {
            return 0;
        }
        let left = policy.per_connection - self.issued;
        (policy.depth - self.outstanding.len()).min(usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub fn set_state(&mut self, state: State, since: u64) {
        self.state = state;
        self.since = since;
    }

    /// A new connection is being opened.
    pub fn opening(&mut self, at: u64) -> Generation {
        self.generation = self.generation.wrapping_add(1);
        self.set_state(State::Opening, at);
        self.generation
    }

    /// A new connection stands at its beginning.
    pub fn opened(&mut self, at: u64) {
        self.reader = ResponseReader::default();
        self.first_byte_at = 0;
        self.connect_ns = 0;
        self.unsent = 0;
        self.issued = 0;
        self.answered = 0;
        self.reopen_at = 0;
        self.free_since = at;
        self.set_state(State::Open, at);
    }

    /// The connection has ended. One that ended without a response is not opened again at once: then the slot
    /// rests, for longer from one such end to the next.
    pub fn ended(&mut self, at: u64) {
        self.is_unread = false;
        if self.state == State::Open && self.answered > 0 {
            self.consecutive_failures = 0;
            match self.reopen_at > at {
                true => self.set_state(State::Resting, self.reopen_at),
                false => self.set_state(State::Closed, at),
            }
            return;
        }
        let doublings = self.consecutive_failures.min(7);
        self.consecutive_failures += 1;
        let pause_ns = (BACK_OFF_MIN_NS << doublings).min(BACK_OFF_MAX_NS);
        self.set_state(State::Resting, self.reopen_at.max(at + pause_ns));
    }

    /// What the server refuses to process now it will refuse again.
    pub fn is_refused_for_good(&self) -> bool {
        self.answered == 0 && self.consecutive_failures >= REFUSALS_MAX
    }

    /// It is given up for its silence; another is opened in its place.
    pub fn given_up(&mut self) {
        if let Some(since) = self.silent_since() {
            self.in_vain_since = since;
        }
    }

    /// Since when the slot has asked and had no response.
    pub fn silent_since(&self) -> Option<u64> {
        let silent = self.state == State::Open && self.issued > 0 && self.answered == 0;
        match self.in_vain_since {
            0 => silent.then_some(self.since),
            since => (self.state != State::Open || self.answered == 0).then_some(since),
        }
    }

    /// What has waited since `limit` or longer: the opening of the connection or its oldest request.
    pub fn timed_out(&self, limit: u64) -> Option<TimedOut> {
        match self.state {
            State::Opening if self.since <= limit => Some(TimedOut::Opening),
            State::Open => {
                let oldest = self.outstanding.front()?;
                (oldest.sent_at <= limit).then_some(TimedOut::Request)
            }
            _ => None,
        }
    }
}

/// A failure to connect that the next attempt will most likely meet again: there is no such server, no way
/// to it, or no trust in it. A timeout is none of these, nor is a resource of ours that ran out.
pub(super) fn is_refusal(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::ConnectRefused
            | FailureKind::ConnectFailed
            | FailureKind::Tls
            | FailureKind::NotHttp2
            | FailureKind::ProxyRefused
            | FailureKind::UpgradeRefused
    )
}
