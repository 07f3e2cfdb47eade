//! For whom each part of a thread's time was.
//!
//! In the flow: a thread's spans are cut where it acted on a socket, and each part gets the turn that it served. The
//! surprise: the time just before an action was for that action (a thread is woken, runs, and then reads), so a part
//! may get its turn from what came after it. A futex wait is for the turn before it only if the thread goes on with
//! that turn: else it had nothing to do and was parked.

use super::sockets::{Act, NONE, Op, Turn};
use super::threads::{Span, State, Wait, WaitKind};

/// A part of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from: u64,
    pub to: u64,
    pub state: State,
    /// Turn that it was for, [`NONE`], or another constant of `sockets`.
    pub owner: u32,
    /// The thread had nothing to do: no turn was for it.
    pub idle: bool,
    /// Its turn has been answered: the thread tidies up, or does what is no request's.
    pub after: bool,
}

/// Whether a thread waits there for work, whatever it did before.
pub(super) fn is_idle(wait: &Wait, green: bool) -> bool {
    match wait.kind {
        WaitKind::Poll | WaitKind::Accept => true,
        WaitKind::Socket | WaitKind::Unix => wait.class.is_client(),
        // The runtime parks its threads so; who waits there is none of them.
        WaitKind::Futex | WaitKind::Sleep => green,
        _ => false,
    }
}

/// The pieces of one thread; `ops` are its own, by rising time. `timer` is the name of a timer as a waker.
pub(super) fn build(
    spans: &[Span],
    ops: &[Op],
    turns: &[Turn],
    green: bool,
    timer: u32,
) -> Vec<Piece> {
    let mut builder = Builder {
        turns,
        timer,
        pieces: Vec::with_capacity(spans.len() + ops.len()),
        green,
        owner: NONE,
        since_idle: 0,
        since_op: 0,
    };
    let mut ops = ops.iter().peekable();
    for span in spans {
        let mut from = span.from;
        while let Some(op) = ops.next_if(|op| op.at <= span.to) {
            let at = op.at.max(from);
            builder.push(from, at, span.state);
            builder.act(op);
            from = at;
        }
        builder.push(from, span.to, span.state);
        if let State::Waiting(wait) = &span.state
            && is_idle(wait, green)
        {
            builder.rest();
        }
    }
    builder.after_end();
    builder.late_returns();
    builder.pieces
}

struct Builder<'a> {
    turns: &'a [Turn],
    /// The name of a timer that ends a wait.
    timer: u32,
    /// It carries many tasks.
    green: bool,
    pieces: Vec<Piece>,
    owner: u32,
    /// First piece after the thread last had nothing to do.
    since_idle: usize,
    /// First piece after the last action.
    since_op: usize,
}

impl Builder<'_> {
    fn push(&mut self, from: u64, to: u64, state: State) {
        if to > from {
            self.pieces.push(Piece {
                from,
                to,
                state,
                owner: self.owner,
                idle: false,
                after: true,
            });
        }
    }

    fn rest(&mut self) {
        if let Some(last) = self.pieces.last_mut() {
            last.idle = true;
            last.owner = NONE;
        }
        self.owner = NONE;
        self.since_idle = self.pieces.len();
        self.since_op = self.pieces.len();
    }

    fn act(&mut self, op: &Op) {
        if self.owner == NONE {
            let turn = self.turns.get(op.turn as usize);
            let arrived = turn.map_or(0, |turn| turn.arrived);
            let before = self.pieces[..self.since_idle].last();
            let by_timer = before.is_some_and(|piece| self.ended_by_timer(piece));
            let since = &self.pieces[self.since_idle..];
            // What a timer began before the request had come was for none.
            let earlier = since.iter().rposition(|piece| piece.from < arrived);
            let earlier = earlier.filter(|_| by_timer).map_or(0, |last| last + 1);
            self.give(self.since_idle + earlier, op.turn);
        } else if self.owner != op.turn {
            let since = &self.pieces[self.since_op..];
            // Whoever reads is woken to read. What another thread has read and handed over ends no wait by itself: a
            // wait until a timer was in the turn, and without a wait for work the thread went on with the next. A
            // thread of many tasks may have been at any of them.
            let read_here = self
                .turns
                .get(op.turn as usize)
                .is_none_or(|turn| turn.reader == op.tid);
            let handed = !self.green && !read_here && self.is_over(self.owner);
            let parked = |piece: &Piece| is_futex(piece) && !(handed && self.ended_by_timer(piece));
            // Whoever read it woke this thread to it: a wait behind that is for a lock, in the turn.
            let woken = |piece: &Piece| handed && self.is_woken_to(piece, op.turn);
            let parked = since
                .iter()
                .rposition(woken)
                .or_else(|| since.iter().rposition(parked));
            if let Some(parked) = parked {
                let parked = self.since_op + parked;
                self.pieces[parked].idle = true;
                self.pieces[parked].owner = NONE;
                self.give(parked + 1, op.turn);
            } else if handed && let Some(turn) = self.turns.get(op.turn as usize) {
                let later = since.iter().position(|piece| piece.from >= turn.read);
                self.give(self.since_op + later.unwrap_or(since.len()), op.turn);
            }
        }
        if op.act != Act::Read {
            // What was done just before was for a request that was there already.
            for piece in &mut self.pieces[self.since_op..] {
                piece.after = false;
            }
        }
        self.owner = op.turn;
        self.since_op = self.pieces.len();
        if op.turn == NONE {
            self.since_idle = self.pieces.len();
        }
    }

    /// Whether a turn has its answer when the last piece ends.
    fn is_over(&self, turn: u32) -> bool {
        let turn = self.turns.get(turn as usize);
        let now = self.pieces.last().map_or(0, |piece| piece.to);
        turn.is_some_and(|turn| turn.answered && turn.end <= now)
    }

    /// Whether the thread that read a turn ended this wait, after it had read it.
    fn is_woken_to(&self, piece: &Piece, turn: u32) -> bool {
        let turn = self.turns.get(turn as usize);
        let State::Waiting(wait) = piece.state else {
            return false;
        };
        let by_reader = turn.is_some_and(|turn| wait.by == turn.reader && piece.to >= turn.read);
        wait.kind == WaitKind::Futex && by_reader
    }

    fn ended_by_timer(&self, piece: &Piece) -> bool {
        matches!(piece.state, State::Waiting(wait) if wait.waker == self.timer)
    }

    fn give(&mut self, from: usize, turn: u32) {
        for piece in &mut self.pieces[from..] {
            piece.owner = turn;
        }
    }

    /// The way back onto a CPU that was idle belongs to the wait that it ends: without the wait there were none. Of an
    /// answer it is known when it arrived, and what follows is a row of its own.
    fn late_returns(&mut self) {
        for index in 1..self.pieces.len() {
            let before = self.pieces[index - 1];
            let piece = &mut self.pieces[index];
            let slow = matches!(piece.state, State::Ready { idle: true, .. });
            let waited = matches!(before.state, State::Waiting(wait) if !wait.class.is_upstream());
            let same = before.to == piece.from && before.owner == piece.owner;
            if slow && waited && same && !before.idle {
                piece.state = before.state;
            }
        }
    }

    /// What follows the turn's end; a thread that waits in a futex then has nothing to do.
    fn after_end(&mut self) {
        for piece in &mut self.pieces {
            let turn = self.turns.get(piece.owner as usize);
            let ended = turn.is_some_and(|turn| turn.answered && piece.from >= turn.end);
            if ended && is_futex(piece) {
                piece.idle = true;
                piece.owner = NONE;
            }
            piece.after &= ended;
        }
    }
}

/// What a thread waits for there.
pub(super) fn waited(piece: &Piece) -> Option<Wait> {
    match piece.state {
        State::Waiting(wait) => Some(wait),
        State::Running | State::Ready { .. } => None,
    }
}

fn is_futex(piece: &Piece) -> bool {
    matches!(piece.state, State::Waiting(wait) if wait.kind == WaitKind::Futex)
}

/// The pieces that overlap a time, mostly few: their end is looked for next to the first, in steps that double.
pub(super) fn overlapping(pieces: &[Piece], from: u64, to: u64) -> &[Piece] {
    let first = pieces.partition_point(|piece| piece.to <= from);
    let rest = &pieces[first..];
    let mut near = 4;
    while rest.get(near).is_some_and(|piece| piece.from < to) {
        near *= 2;
    }
    let rest = &rest[..near.min(rest.len())];
    &rest[..rest.partition_point(|piece| piece.from < to)]
}
