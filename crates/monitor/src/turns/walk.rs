//! Where a turn was at each nanosecond: the walk over its thread's time.
//!
//! In the flow: called once or twice for each turn; every nanosecond from its arrival to its end is handed out
//! exactly once. The surprise: what a turn waits for while no thread works for it follows from what happened next on
//! it: an upstream's answer that was read, a further piece of the response, or something that no thread shows.

use super::Located;
use super::pieces::{Piece, overlapping, waited};
use super::sockets::{Act, Loose, NONE, Op, Sockets, Turn};
use super::started::{Born, Started};
use super::threads::{BEFORE_ASKING, Names, State, Wait, WaitKind};
use super::told::Meetings;
use record::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A row of an account: place, detail, waker (both of [`Names`]) and stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Row {
    pub place: Place,
    pub detail: u32,
    pub waker: u32,
    pub stack: Option<u32>,
    /// The helper process that it is in, or the thread that it waits for, of [`Names`]; 0 for the server's own.
    pub thread: u32,
    /// What the thread's runtime told of it.
    pub told: Option<u32>,
    /// Samples that met the wait, for as long as the row is a part of one turn.
    pub met: Meetings,
}

impl Row {
    /// Whether nothing is known of where a turn is then but that it is in the process.
    pub(super) fn is_out_of_sight(&self) -> bool {
        self.place == Place::Hidden && is_out_of_sight(self.detail)
    }

    pub(super) fn at(place: Place) -> Self {
        Self::with(place, 0)
    }

    pub(super) fn with(place: Place, detail: u32) -> Self {
        Self {
            place,
            detail,
            waker: 0,
            stack: None,
            thread: 0,
            told: None,
            met: (0, 0),
        }
    }
}

/// Any socket takes so much of a response before its program has to wait until more can be sent: the kernel's smallest
/// send buffer is 4,608 bytes (`SOCK_MIN_SNDBUF`).
const ALWAYS_TAKEN: u64 = 4_096;

/// Threads through whose hands an answer goes at most: who reads it, who makes something of it, who waits for that.
const MOST_HANDS: usize = 3;
/// So long before it waits for the answer a thread has asked at most, or told another to, ns.
const ASKED_BEFORE_NS: u64 = 250_000;
/// A poll that begins this long after data came, ns, has looked at its socket since.
const SURELY_SEEN_NS: u64 = 50_000;

/// What a turn waits for while no thread works for it.
#[derive(Clone, Copy, Debug)]
enum Meantime {
    Upstream {
        detail: u32,
        arrived: u64,
    },
    Sending,
    /// `waker`: what ended it, 0 where that is not known.
    Hidden {
        detail: u32,
        waker: u32,
    },
}

impl Meantime {
    /// Whether the turn is at nothing that its sockets tell of.
    fn is_out_of_sight(self) -> bool {
        matches!(self, Meantime::Hidden { detail, .. } if is_out_of_sight(detail))
    }
}

/// Names that are needed while walking.
#[derive(Debug)]
pub(super) struct Words {
    pub peers: Vec<u32>,
    /// Waits for their answers.
    answers: Vec<u32>,
    pub rest_of_request: u32,
    pub not_read: u32,
    signalled: u32,
    pub timer: u32,
    /// Processes that belong to no target.
    processes: HashSet<u32>,
    kinds: HashMap<&'static str, u32>,
}

impl Words {
    pub(super) fn new(names: &mut Names, sockets: &Sockets) -> Self {
        use WaitKind as W;
        let kinds = [
            W::Futex,
            W::Sleep,
            W::Disk,
            W::File,
            W::Sync,
            W::Pipe,
            W::PipeWrite,
            W::Unix,
            W::Udp,
            W::Child,
            W::Page,
            W::Flock,
            W::Semaphore,
            W::Poll,
            W::Send,
            W::Socket,
            W::Other,
        ];
        let kinds = kinds.map(|kind| (kind.name(), names.id(kind.name())));
        Self {
            peers: sockets.peers.iter().map(|peer| names.id(peer)).collect(),
            answers: (sockets.peers.iter())
                .map(|peer| names.id(&format!("upstream {peer}")))
                .collect(),
            rest_of_request: names.id("rest of the request"),
            not_read: names.id("not yet read"),
            signalled: names.id("signalled"),
            timer: names.id("timer"),
            processes: names.processes(),
            kinds: kinds.into_iter().collect(),
        }
    }

    pub(super) fn kind(&self, kind: WaitKind) -> u32 {
        self.kinds.get(kind.name()).copied().unwrap_or_default()
    }
}

/// A time in which a thread ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub from: u64,
    pub to: u64,
    pub tid: u32,
}

/// When no thread of a pool was free: `(from, to)` by rising time.
#[derive(Debug, Default)]
pub(super) struct Full {
    /// Every one of them had a request.
    pub busy: Vec<(u64, u64)>,
    /// Every one had a request or polled, and some had one. What stands unread then is not in that poll, or it would
    /// have ended it: whoever polls hands over to the others.
    pub polling: Vec<(u64, u64)>,
}

/// Everything that a walk looks at.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub sockets: &'a Sockets,
    pub pieces: BTreeMap<u32, Vec<Piece>>,
    pub words: Words,
    /// Indices of the ops of each turn, one turn after another, and where each begins.
    ops: Vec<u32>,
    begins: Vec<u32>,
    /// Of each target, when no thread of its pool was free.
    pub full: Vec<Full>,
    /// Threads that wait in a poll, and so keep their connections.
    pub loops: HashSet<u32>,
    /// Threads that carry many tasks, which may be anywhere.
    pub green: HashSet<u32>,
    /// Of each target with such threads, by rising time: when none of them polls, and one that runs.
    pub unpolled: Vec<Vec<Ran>>,
    /// Programs that were started for turns.
    pub started: Started,
    /// Processes that came to be meanwhile.
    pub born: Born,
    /// The turn before each on its connection.
    before: Vec<Option<u32>>,
    /// Threads that read the requests of one connection only, each with its target: processes of a database.
    alone: HashMap<u32, usize>,
    /// Who ended a wait for requests by one on a connection, of those by which one was ended.
    askers: HashMap<u32, u32>,
    /// Exchanges that no turn can be told for, of the threads that took the answers, by rising time.
    brought: HashMap<u32, Vec<Loose>>,
    /// Threads of which a runtime told where they were: better than what follows from their wake-ups.
    pub told: HashSet<u32>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        sockets: &'a Sockets,
        pieces: BTreeMap<u32, Vec<Piece>>,
        words: Words,
    ) -> Self {
        let turns = sockets.turns.len();
        let mut begins = vec![0_u32; turns + 1];
        for op in sockets.ops.iter().filter(|op| (op.turn as usize) < turns) {
            begins[op.turn as usize + 1] += 1;
        }
        for index in 0..turns {
            begins[index + 1] += begins[index];
        }
        let mut next = begins.clone();
        let mut ops = vec![0; begins[turns] as usize];
        for (index, op) in (0_u32..).zip(&sockets.ops) {
            if let Some(at) = next
                .get_mut(op.turn as usize)
                .filter(|_| (op.turn as usize) < turns)
            {
                ops[*at as usize] = index;
                *at += 1;
            }
        }
        let mut last = vec![None; sockets.connections.len()];
        let turns = (0..).zip(&sockets.turns);
        let before = turns.map(|(index, turn)| last[turn.connection as usize].replace(index));
        let before = before.collect();
        let loops = pieces.iter().filter(|(_, pieces)| pieces.iter().any(polls));
        let loops = loops.map(|(&tid, _)| tid).collect();
        let mut askers = HashMap::new();
        for turn in &sockets.turns {
            let pieces = pieces.get(&turn.reader).map_or(&[][..], Vec::as_slice);
            let rest = overlapping(pieces, turn.arrived.saturating_sub(1), turn.read);
            if let Some(waker) = rest.iter().find_map(|piece| match piece.state {
                State::Waiting(wait) if polls(piece) || reads(&wait) => Some(wait.waker),
                _ => None,
            }) {
                askers.entry(turn.connection).or_insert(waker);
            }
        }
        let mut brought: HashMap<u32, Vec<Loose>> = HashMap::new();
        for one in sockets.loose.iter().chain(&sockets.unasked) {
            brought.entry(one.tid).or_default().push(*one);
        }
        for exchanges in brought.values_mut() {
            exchanges.sort_unstable_by_key(|one| one.read);
        }
        Self {
            sockets,
            pieces,
            words,
            ops,
            begins,
            full: Vec::new(),
            loops,
            green: HashSet::new(),
            unpolled: Vec::new(),
            started: Started::default(),
            born: Born::default(),
            before,
            alone: of_one_connection(sockets),
            askers,
            brought,
            told: HashSet::new(),
        }
    }

    fn ops_of(&self, turn: u32) -> impl Iterator<Item = &Op> {
        let from = self.begins[turn as usize] as usize;
        let to = self.begins[turn as usize + 1] as usize;
        self.ops[from..to]
            .iter()
            .map(|&op| &self.sockets.ops[op as usize])
    }

    /// The first question of a turn to an upstream and the last answer that it took; `None` for fewer than two answers.
    pub(super) fn asking(&self, turn: u32) -> Option<(u64, u64)> {
        let (mut first, mut last, mut answers, mut open) = (None, 0, 0, false);
        for op in self.ops_of(turn) {
            match op.act {
                Act::Ask => {
                    first.get_or_insert(op.at);
                    open = true;
                }
                Act::Take { .. } => {
                    // A long answer is taken in pieces.
                    answers += u32::from(std::mem::take(&mut open));
                    last = op.at;
                }
                _ => {}
            }
        }
        first.filter(|_| answers > 1).map(|first| (first, last))
    }

    fn pieces_of(&self, tid: u32, from: u64, to: u64) -> &[Piece] {
        let pieces = self.pieces.get(&tid).map_or(&[][..], Vec::as_slice);
        overlapping(pieces, from, to)
    }

    /// What a thread did at a time.
    pub(super) fn piece_at(&self, tid: u32, at_ns: u64) -> Option<&Piece> {
        self.pieces_of(tid, at_ns, at_ns + 1).first()
    }

    /// Whether a sample is of the time in which no thread of its runtime polls, and its own runs.
    pub(super) fn is_unpolled(&self, target: usize, sample: &Located) -> bool {
        let times = self.unpolled.get(target).map_or(&[][..], Vec::as_slice);
        let at = times.partition_point(|ran| ran.to <= sample.at_ns);
        let ran = times.get(at).filter(|ran| ran.from <= sample.at_ns);
        ran.is_some_and(|ran| ran.tid == sample.tid)
    }

    /// The thread that reads a turn's connection reads all of its requests. Where several have read them none keeps it,
    /// polling or not; which of a runtime's own threads runs a task says nothing of the connection.
    pub(super) fn is_pinned(&self, turn: &Turn) -> bool {
        let connection = &self.sockets.connections[turn.connection as usize];
        match (connection.turns, connection.reader) {
            (2.., Some(_)) => true,
            (2.., None) if !self.green.contains(&turn.reader) => false,
            _ => self.loops.contains(&turn.reader),
        }
    }

    /// When no thread of a turn's target was free, in one of the two senses.
    fn full_of(&self, turn: &Turn, of: impl Fn(&Full) -> &Vec<(u64, u64)>) -> &[(u64, u64)] {
        self.full.get(turn.target).map_or(&[], |full| of(full))
    }

    /// Hands out every nanosecond of a turn as a row, from, to.
    pub(super) fn walk(&self, index: u32, give: &mut dyn FnMut(Row, u64, u64)) {
        let turn = &self.sockets.turns[index as usize];
        self.until_read(index, turn, give);
        self.until_end(index, turn, give);
    }

    fn until_read(&self, index: u32, turn: &Turn, give: &mut dyn FnMut(Row, u64, u64)) {
        let (mut from, to) = (turn.arrived, turn.read.min(turn.end));
        let pieces = self.pieces_of(turn.reader, from, to);
        if turn.unaccepted {
            let own = pieces.iter().rev().take_while(|piece| piece.owner == index);
            let own = own.last().map_or(to, |piece| piece.from).max(from);
            let place = match self.born.was_awaited(turn, from, own) {
                true => Place::Starting,
                false => Place::ListenQueue,
            };
            give_some(give, Row::at(place), from, own);
            from = own;
        }
        let pinned = self.is_pinned(turn);
        let green = self.green.contains(&turn.reader);
        if !pinned && !green {
            from = self.after_the_turn_before(index, from, to, give);
        }
        if pinned && !green {
            let until = paused_until(pieces, from).min(to);
            give_some(give, Row::at(Place::ReadPaused), from, until);
            from = from.max(until);
        }
        let full = self.full_of(turn, |full| if green { &full.busy } else { &full.polling });
        let mut at = from;
        for piece in overlapping(pieces, from, to) {
            let (begin, end) = (piece.from.max(at), piece.to.min(to));
            self.until_seen(index, Row::at(Place::WakeUp), (at, begin), give);
            let of_others = match piece.idle {
                _ if pinned => None,
                true => (polls(piece) && !green).then(|| Row::at(Place::WakeUp)),
                false => (piece.owner != index && piece.owner != NONE)
                    .then(|| Row::with(Place::Hidden, self.words.not_read)),
            };
            match of_others {
                Some(row) => by_free(full, begin, end, &mut |free, from, to| {
                    let row = if free {
                        row
                    } else {
                        Row::at(Place::NoFreeThread)
                    };
                    give_some(give, row, from, to);
                }),
                None if piece.idle => {
                    let row = self.of_idle(turn, piece, pinned);
                    self.until_seen(index, row, (begin, end), give);
                }
                None => give_some(give, self.of_queued(piece, index), begin, end),
            }
            at = end.max(at);
        }
        self.until_seen(index, Row::at(Place::WakeUp), (at, to), give);
    }

    /// A time in which the thread that will read a request does not work. Of a runtime whose threads poll as they have
    /// nothing else to do, and none does, the request stands behind what they run.
    fn until_seen(
        &self,
        index: u32,
        row: Row,
        (from, to): (u64, u64),
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let turn = &self.sockets.turns[index as usize];
        let unpolled = match row.place {
            Place::WakeUp if self.green.contains(&turn.reader) => self.unpolled.get(turn.target),
            _ => None,
        };
        let unpolled = unpolled.map_or(&[][..], Vec::as_slice);
        let first = unpolled.partition_point(|ran| ran.to <= from);
        let mut at = from;
        for ran in unpolled[first..].iter().take_while(|ran| ran.from < to) {
            for piece in self.pieces_of(ran.tid, ran.from.max(at), ran.to.min(to)) {
                let (begin, end) = (
                    piece.from.max(ran.from).max(at),
                    piece.to.min(ran.to).min(to),
                );
                give_some(give, row, at, begin);
                give_some(give, self.of_queued(piece, index), begin, end);
                at = end.max(at);
            }
        }
        give_some(give, row, at, to);
    }

    /// Whoever responded has the connection until it is done with that turn: it may write a log before it gives the
    /// connection back to the others. Returns when it does.
    fn after_the_turn_before(
        &self,
        index: u32,
        from: u64,
        to: u64,
        give: &mut dyn FnMut(Row, u64, u64),
    ) -> u64 {
        let mut at = from;
        let Some(before) = self.before[index as usize] else {
            return at;
        };
        let Some(last) = self.ops_of(before).filter(|op| op.act == Act::Write).last() else {
            return at;
        };
        for piece in self.pieces_of(last.tid, from, to) {
            if piece.from > at || piece.owner != before || !piece.after {
                break;
            }
            let end = piece.to.min(to);
            give_some(give, self.of_queued(piece, index), at, end);
            at = end;
        }
        at
    }

    /// Where a request is while the thread that will read it sleeps for want of work. A thread that has the connection
    /// to itself does not fall asleep in front of a request: it wants a lock before it reads.
    fn of_idle(&self, turn: &Turn, piece: &Piece, pinned: bool) -> Row {
        match piece.state {
            State::Waiting(wait)
                if wait.kind == WaitKind::Futex
                    && pinned
                    && piece.from > turn.arrived
                    && !self.green.contains(&turn.reader) =>
            {
                self.blocked(Place::Blocked, &wait)
            }
            _ => Row::at(Place::WakeUp),
        }
    }

    /// Where a request is while its thread is at this piece and has not read it.
    fn of_queued(&self, piece: &Piece, index: u32) -> Row {
        match piece.state {
            State::Running if piece.owner == index => Row::at(Place::OnCpu),
            State::Running if piece.owner == NONE || piece.after => Row::at(Place::Loop),
            State::Running => Row::at(Place::OtherTurns),
            State::Ready { who, idle } => ready(who, idle),
            State::Waiting(wait) if self.is_nobodys(piece, &wait) => {
                self.blocked(Place::Loop, &wait)
            }
            State::Waiting(wait) if piece.owner == index => self.blocked(Place::Blocked, &wait),
            State::Waiting(wait) => self.blocked(Place::OthersBlocked, &wait),
        }
    }

    /// Whether a wait is for no request: its turn has been answered, or is yet to be read and the thread sleeps. A loop
    /// that is woken by a request may see to its timers first. What follows the accepting of a connection is for that
    /// one.
    fn is_nobodys(&self, piece: &Piece, wait: &Wait) -> bool {
        let turn = self.sockets.turns.get(piece.owner as usize);
        let unread = turn.is_some_and(|turn| piece.from < turn.read && !turn.unaccepted);
        piece.owner == NONE || piece.after || unread && wait.kind == WaitKind::Sleep
    }

    fn blocked(&self, place: Place, wait: &Wait) -> Row {
        let peer = self.asked_by(wait);
        let detail = peer.map(|peer| self.words.answers[peer as usize]);
        Row {
            place,
            detail: detail.unwrap_or_else(|| self.words.kind(wait.kind)),
            waker: wait.waker,
            stack: wait.stack,
            thread: 0,
            told: None,
            met: wait.met,
        }
    }

    /// The peer whose answer a thread waits for in its socket.
    fn asked_by(&self, wait: &Wait) -> Option<u32> {
        let peer = self.sockets.peer_of.get(&wait.sk).copied();
        peer.filter(|_| wait.class.is_upstream() && wait.kind != WaitKind::Send)
    }

    /// Whether no more is known of what a thread waits for than the wake-ups say: no runtime told it, and it carries no
    /// tasks.
    fn is_plain(&self, tid: u32) -> bool {
        !self.told.contains(&tid) && !self.green.contains(&tid)
    }

    /// Whether a thread has just asked something, or told another one to: what it waits for now is the answer.
    fn has_asked(&self, tid: u32, piece: &Piece) -> bool {
        let since = piece.from.saturating_sub(ASKED_BEFORE_NS);
        let asks =
            |op: &Op| op.tid == tid && op.act == Act::Ask && (since..piece.from).contains(&op.at);
        let its_own = self.sockets.turns.get(piece.owner as usize);
        its_own.is_some_and(|_| self.ops_of(piece.owner).any(asks))
    }

    /// A wait in a futex whose end tells what it was for. A thread whose runtime tells may wait for a lock of all of
    /// them that another one had meanwhile.
    fn in_futex(&self, tid: u32, piece: &Piece) -> Option<Wait> {
        let wait = waited(piece).filter(|wait| wait.kind == WaitKind::Futex);
        wait.filter(|_| self.is_plain(tid) || self.has_asked(tid, piece))
    }

    /// The exchange whose answer ended a thread's wait in a futex: a thread that serves no request read it and then
    /// signalled who waited, or another one that did (the reactor of a client library, and its pool).
    fn brought_by_others(&self, tid: u32, piece: &Piece) -> Option<&Loose> {
        if self.brought.is_empty() {
            return None;
        }
        let wait = self.in_futex(tid, piece)?;
        let (mut by, mut at) = (wait.by, piece.to);
        for _ in 0..MOST_HANDS {
            let pieces = self.pieces.get(&by)?;
            let before = &pieces[..pieces.partition_point(|piece| piece.from < at)];
            let mut free = before.iter().rev().take_while(|piece| piece.owner == NONE);
            let (woken_by, woken) = free.find_map(|piece| Some((waited(piece)?.by, piece.to)))?;
            let read = self.brought.get(&by).map_or(&[][..], Vec::as_slice);
            let read = &read[..read.partition_point(|one| one.read <= at)];
            if let Some(last) = read.last().filter(|one| one.read >= woken) {
                return Some(last);
            }
            (by, at) = (woken_by, woken);
        }
        None
    }

    /// A wait of a turn's own thread that another one of its server ends, which is with no request itself: what that
    /// one does meanwhile, where it works or waits for something outside. One that is with a request has a lock.
    fn until_signalled(
        &self,
        (tid, piece): (u32, &Piece),
        row: Row,
        (from, to): (u64, u64),
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let by = self.in_futex(tid, piece).map(|wait| wait.by);
        let by = by.filter(|by| *by != tid && !self.green.contains(by));
        let mut at = from;
        for piece in by.map_or(&[][..], |by| self.pieces_of(by, from, to)) {
            let (begin, end) = (piece.from.max(at), piece.to.min(to));
            let found = by.filter(|_| piece.owner == NONE && is_at_something(piece));
            let row_of = |by| match self.of_helper(by, piece) {
                // What the turn's own threads sleep for is another row.
                waits if waits.place == Place::Blocked => Row {
                    thread: row.waker,
                    ..waits
                },
                other => other,
            };
            give_some(give, row, at, begin);
            give_some(give, found.map_or(row, row_of), begin, end);
            at = end.max(at);
        }
        give_some(give, row, at, to);
    }

    /// What a thread does in a part of its time, whoever that is for.
    pub(super) fn of_thread(&self, tid: u32, piece: &Piece) -> Row {
        match piece.state {
            State::Running => Row::at(Place::OnCpu),
            State::Ready { who, idle } => ready(who, idle),
            State::Waiting(_) if piece.idle => Row::at(Place::Idle),
            State::Waiting(wait) if wait.kind == WaitKind::Send && !wait.class.is_upstream() => {
                Row::at(Place::Sending)
            }
            State::Waiting(wait) if self.is_nobodys(piece, &wait) => {
                self.blocked(Place::Loop, &wait)
            }
            State::Waiting(wait) => self.waits_for(tid, piece, &wait),
        }
    }

    /// What a thread waits for: an upstream, whoever of its server asks that, or something else.
    fn waits_for(&self, tid: u32, piece: &Piece, wait: &Wait) -> Row {
        let brought = || Some(self.brought_by_others(tid, piece)?.peer);
        match self.asked_by(wait).or_else(brought) {
            Some(peer) => Row::with(Place::Upstream, self.words.peers[peer as usize]),
            None => self.blocked(Place::Blocked, wait),
        }
    }

    /// What a thread does for requests that no socket of its own tells of.
    pub(super) fn of_helper(&self, tid: u32, piece: &Piece) -> Row {
        match piece.state {
            State::Waiting(wait) => self.waits_for(tid, piece, &wait),
            State::Running => Row::at(Place::OnCpu),
            State::Ready { who, idle } => ready(who, idle),
        }
    }

    fn until_end(&self, index: u32, turn: &Turn, give: &mut dyn FnMut(Row, u64, u64)) {
        let mut ops = self.ops_of(index).peekable();
        let mut at = turn.read.min(turn.end);
        // Peers that do not answer in the turn (logs, metrics) are not waited for.
        let answering = self
            .ops_of(index)
            .filter(|op| matches!(op.act, Act::Take { .. } | Act::GiveUp));
        let answering: Vec<u32> = answering.map(|op| op.peer).collect();
        let mut asked: Vec<u32> = Vec::new();
        let mut written = None;
        while let Some(one) = ops.next() {
            if one.act == Act::Write {
                written = Some(one.written);
            }
            match one.act {
                Act::Ask if answering.contains(&one.peer) && !asked.contains(&one.peer) => {
                    asked.push(one.peer);
                }
                Act::Take { .. } | Act::GiveUp => asked.retain(|&peer| peer != one.peer),
                _ => {}
            }
            let Some(&two) = ops.peek() else {
                break;
            };
            let to = two.at.min(turn.end);
            if to <= at {
                continue;
            }
            let answers = answering.contains(&two.peer);
            let meantime = self.meantime(one, (two, answers), asked.last().copied(), written);
            if one.tid == two.tid {
                let (queued, meantime) = match meantime.is_out_of_sight() {
                    true => self.queued_from(turn, one.tid, (at, to), meantime),
                    false => (to, meantime),
                };
                self.stretch(one.tid, index, at, queued, meantime, give);
                for piece in self.pieces_of(one.tid, queued, to) {
                    let (begin, end) = (piece.from.max(queued), piece.to.min(to));
                    let row = self.of_queued(piece, index);
                    let blocked = row.place == Place::Blocked;
                    let brought = blocked.then(|| self.brought_by_others(one.tid, piece));
                    match brought.flatten() {
                        Some(one) => self.until_brought(index, row, one, (begin, end), give),
                        None if blocked => {
                            self.until_signalled((one.tid, piece), row, (begin, end), give);
                        }
                        None => give_some(give, row, begin, end),
                    }
                }
            } else {
                let left = self.served_until(one.tid, index, at, to);
                let taken = self.served_from(two.tid, index, left, to);
                let meantime = self.brought_between(turn, two.tid, (left, taken), meantime);
                self.stretch(one.tid, index, at, left, meantime, give);
                self.handed_over(two.tid, index, left, taken, meantime, give);
                self.stretch(two.tid, index, taken, to, meantime, give);
            }
            at = to;
        }
        // An end that no action of its own tells.
        give_some(give, Row::at(Place::Hidden), at, turn.end);
    }

    /// `answers`: the peer of `two` responds within the turn; `written`: bytes of the response that are on their way.
    fn meantime(
        &self,
        one: &Op,
        (two, answers): (&Op, bool),
        asked: Option<u32>,
        written: Option<u64>,
    ) -> Meantime {
        let hidden = |detail| Meantime::Hidden { detail, waker: 0 };
        let upstream = |peer: u32, arrived| Meantime::Upstream {
            detail: self.words.peers[peer as usize],
            arrived,
        };
        match (one.act, two.act, asked) {
            (_, Act::Take { arrived }, _) => upstream(two.peer, arrived),
            (Act::Connect, Act::Ask, _) | (_, Act::GiveUp, _) => upstream(two.peer, u64::MAX),
            (_, Act::Read, _) => hidden(self.words.rest_of_request),
            (_, Act::Write, None) if written.is_some_and(|bytes| bytes > ALWAYS_TAKEN) => {
                Meantime::Sending
            }
            (_, _, Some(peer)) => upstream(peer, u64::MAX),
            (_, Act::Connect | Act::Ask, None) if answers => hidden(BEFORE_ASKING),
            _ => hidden(0),
        }
    }

    /// From when on a turn that is at no upstream waits only until its event loop comes to it: since the loop last had
    /// nothing to do. A loop with work left over (tasks, callbacks) does not sleep before it has done it. What ended
    /// that rest is what the turn was waiting for: a timer, or a process that brings it over a connection of its own.
    fn queued_from(
        &self,
        turn: &Turn,
        tid: u32,
        (from, to): (u64, u64),
        meantime: Meantime,
    ) -> (u64, Meantime) {
        if !self.loops.contains(&tid) || self.green.contains(&tid) {
            return (to, meantime);
        }
        let pieces = self.pieces_of(tid, from, to);
        let whole = pieces.first().is_some_and(|piece| piece.from <= from)
            && pieces.last().is_some_and(|piece| piece.to >= to)
            && pieces.windows(2).all(|pair| pair[0].to == pair[1].from);
        if !whole {
            return (to, meantime);
        }
        let asleep = pieces.iter().rev().find(|piece| polls(piece));
        let queued = asleep.map_or(from, |piece| piece.to.clamp(from, to));
        let waker = asleep.and_then(|piece| Some((piece, waited(piece)?)));
        let waker = waker.map_or(0, |(piece, wait)| match self.timer_of(piece) {
            0 => self.bringer_of(turn, from, wait, piece.to),
            timer => timer,
        });
        match meantime {
            Meantime::Hidden { detail, .. } => (queued, Meantime::Hidden { detail, waker }),
            other => (queued, other),
        }
    }

    /// The name of a timer where one ended a wait, else 0.
    fn timer_of(&self, piece: &Piece) -> u32 {
        match piece.state {
            State::Waiting(wait) if wait.waker == self.words.timer => wait.waker,
            _ => 0,
        }
    }

    /// The process that ended a wait at a time, by itself or by what another thread of the server made of it, where it
    /// is another one than asks on the turn's connection: a queue or a broker answers one client with what another one
    /// has brought. What ended before `since`, when the turn was there already, brought it nothing.
    fn bringer_of(&self, turn: &Turn, since: u64, wait: Wait, at: u64) -> u32 {
        let asker = self.askers.get(&turn.connection).copied();
        let mut last = Some((wait, at));
        for _ in 0..MOST_HANDS {
            let Some((wait, at)) = last.filter(|&(_, at)| at > since) else {
                return 0;
            };
            if self.words.processes.contains(&wait.waker) {
                return if asker.is_some_and(|asker| asker != wait.waker) {
                    wait.waker
                } else {
                    0
                };
            }
            last = self.woken_before(wait.by, at);
        }
        0
    }

    /// What a turn waits for between two of its threads, when nothing else is known of that: what ended the last wait
    /// of the second.
    fn brought_between(
        &self,
        turn: &Turn,
        tid: u32,
        (left, taken): (u64, u64),
        meantime: Meantime,
    ) -> Meantime {
        let Meantime::Hidden { detail, waker: 0 } = meantime else {
            return meantime;
        };
        let ended = self.woken_before(tid, taken + 1);
        let waker = ended.map_or(0, |(wait, at)| self.bringer_of(turn, left, wait, at));
        Meantime::Hidden { detail, waker }
    }

    /// The wait whose end let a thread work at a time, and when that was.
    fn woken_before(&self, tid: u32, at: u64) -> Option<(Wait, u64)> {
        let pieces = self
            .pieces
            .get(&tid)
            .filter(|_| !self.green.contains(&tid))?;
        let before = &pieces[..pieces.partition_point(|piece| piece.from < at)];
        let ended = |piece: &Piece| Some((waited(piece).filter(|_| piece.to <= at)?, piece.to));
        before.iter().rev().find_map(ended)
    }

    /// The end of the time in which the thread goes on with the turn.
    fn served_until(&self, tid: u32, index: u32, from: u64, to: u64) -> u64 {
        let pieces = self.pieces_of(tid, from, to).iter();
        let own = pieces.take_while(|piece| piece.owner == index);
        own.last().map_or(from, |piece| piece.to.min(to))
    }

    /// The beginning of the time in which the thread works towards its action for the turn.
    fn served_from(&self, tid: u32, index: u32, from: u64, to: u64) -> u64 {
        let pieces = self.pieces_of(tid, from, to).iter().rev();
        let own = pieces.take_while(|piece| piece.owner == index);
        own.last().map_or(to, |piece| piece.from.max(from))
    }

    /// A thread's time while a turn is with it.
    fn stretch(
        &self,
        tid: u32,
        index: u32,
        from: u64,
        to: u64,
        meantime: Meantime,
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let mut at = from;
        for piece in self.pieces_of(tid, from, to) {
            let (begin, end) = (piece.from.max(at), piece.to.min(to));
            self.wait(index, meantime, 0, at, begin, give);
            at = end.max(at);
            if let Some(row) = self.stands_behind(tid, piece, meantime) {
                give_some(give, row, begin, end);
                continue;
            }
            if piece.owner != index {
                self.wait(index, meantime, self.timer_of(piece), begin, end, give);
                continue;
            }
            match piece.state {
                State::Running => give_some(give, Row::at(Place::OnCpu), begin, end),
                State::Ready { who, idle } => give_some(give, ready(who, idle), begin, end),
                State::Waiting(wait) if wait.kind == WaitKind::Send => {
                    give_some(give, Row::at(Place::Sending), begin, end);
                }
                State::Waiting(wait)
                    if wait.class.is_upstream()
                        && matches!(meantime, Meantime::Upstream { .. }) =>
                {
                    self.wait(index, meantime, 0, begin, end, give);
                }
                State::Waiting(wait) => {
                    let row = self.blocked(Place::Blocked, &wait);
                    match self.brought_by_others(tid, piece) {
                        Some(one) => self.until_brought(index, row, one, (begin, end), give),
                        None => {
                            let own = (tid, piece);
                            let mut rest =
                                |row, from, to| self.meanwhile(index, row, from, to, give);
                            self.until_signalled(own, row, (begin, end), &mut rest);
                        }
                    }
                }
            }
        }
        self.wait(index, meantime, 0, at, to, give);
    }

    /// A wait of a turn's own thread, of which the latter part is one for an upstream that others ask.
    fn until_brought(
        &self,
        index: u32,
        row: Row,
        brought: &Loose,
        (from, to): (u64, u64),
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let asked = brought.asked.clamp(from, to);
        let there = Meantime::Upstream {
            detail: self.words.peers[brought.peer as usize],
            arrived: brought.arrived,
        };
        self.meanwhile(index, row, from, asked, give);
        self.wait(index, there, 0, asked, to, give);
    }

    /// A thread with a connection of its own has nothing but that connection's request to wait for. When one of its
    /// like ends its poll, in the midst of the request, it stood behind that one.
    fn stands_behind(&self, tid: u32, piece: &Piece, meantime: Meantime) -> Option<Row> {
        let State::Waiting(wait) = piece.state else {
            return None;
        };
        let hidden = meantime.is_out_of_sight();
        let own = self.alone.get(&tid);
        let like = wait.by != tid && own.is_some() && self.alone.get(&wait.by) == own;
        (hidden && polls(piece) && like).then(|| Row {
            detail: self.words.signalled,
            ..self.blocked(Place::Blocked, &wait)
        })
    }

    /// Between two threads: nobody has the turn.
    fn handed_over(
        &self,
        tid: u32,
        index: u32,
        from: u64,
        to: u64,
        meantime: Meantime,
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let turn = &self.sockets.turns[index as usize];
        let busy = self.full_of(turn, |full| &full.busy);
        let mut at = from;
        for piece in self.pieces_of(tid, from, to) {
            let (begin, end) = (piece.from.max(at), piece.to.min(to));
            self.wait(index, meantime, 0, at, begin, give);
            let queues = matches!(meantime, Meantime::Hidden { .. }) && piece.owner != NONE;
            by_free(busy, begin, end, &mut |free, from, to| {
                if !free && queues {
                    give_some(give, Row::at(Place::NoFreeThread), from, to);
                } else {
                    self.wait(index, meantime, 0, from, to, give);
                }
            });
            at = end.max(at);
        }
        self.wait(index, meantime, 0, at, to, give);
    }

    /// A time in which a turn's own thread does nothing for it: that of the programs which it has started, as far as
    /// they work or wait for something outside.
    fn meanwhile(
        &self,
        index: u32,
        row: Row,
        from: u64,
        to: u64,
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        let pieces = &self.pieces;
        self.started
            .at(index, pieces, (from, to), &mut |from, to, found| {
                let row = found.map_or(row, |(tid, piece)| self.of_helper(tid, piece));
                give_some(give, row, from, to);
            });
    }

    fn wait(
        &self,
        index: u32,
        meantime: Meantime,
        waker: u32,
        from: u64,
        to: u64,
        give: &mut dyn FnMut(Row, u64, u64),
    ) {
        match meantime {
            Meantime::Upstream { detail, arrived } => {
                let answered = arrived.clamp(from, to.max(from));
                give_some(give, Row::with(Place::Upstream, detail), from, answered);
                give_some(give, Row::with(Place::UpstreamUnread, detail), answered, to);
            }
            Meantime::Sending => self.meanwhile(index, Row::at(Place::Sending), from, to, give),
            Meantime::Hidden {
                detail,
                waker: ended_by,
            } => {
                let row = Row {
                    waker: if waker == 0 { ended_by } else { waker },
                    ..Row::with(Place::Hidden, detail)
                };
                self.meanwhile(index, row, from, to, give);
            }
        }
    }
}

/// Whether a thread works or waits for something outside: not for work, nor for what another thread has.
fn is_at_something(piece: &Piece) -> bool {
    match piece.state {
        State::Running | State::Ready { .. } => true,
        State::Waiting(wait) => matches!(
            wait.kind,
            WaitKind::Sleep
                | WaitKind::Disk
                | WaitKind::File
                | WaitKind::Sync
                | WaitKind::Page
                | WaitKind::Flock
                | WaitKind::Child
        ),
    }
}

/// Until when the thread of a connection does not ask for data that came at `from`: a poll that asked for it would have
/// ended at once. 0 where it always did.
fn paused_until(pieces: &[Piece], from: u64) -> u64 {
    let later = |piece: &&Piece| polls(piece) && piece.from >= from + SURELY_SEEN_NS;
    pieces
        .iter()
        .filter(later)
        .map(|piece| piece.to)
        .max()
        .unwrap_or(0)
}

/// Whether hidden time of that detail is at nothing that sockets tell of.
fn is_out_of_sight(detail: u32) -> bool {
    matches!(detail, 0 | BEFORE_ASKING)
}

fn of_one_connection(sockets: &Sockets) -> HashMap<u32, usize> {
    let mut readers: HashMap<u32, (u32, usize)> = HashMap::new();
    let mut several: HashSet<u32> = HashSet::new();
    for turn in &sockets.turns {
        let first = *(readers.entry(turn.reader)).or_insert((turn.connection, turn.target));
        if first.0 != turn.connection {
            several.insert(turn.reader);
        }
    }
    readers.retain(|tid, _| !several.contains(tid));
    let targets = readers.into_iter().map(|(tid, (_, target))| (tid, target));
    targets.collect()
}

/// When none of these threads waits in a poll, and one of them runs, by rising time.
pub(super) fn unpolled<'p>(threads: impl Iterator<Item = (u32, &'p [Piece])>) -> Vec<Ran> {
    // What ends at a time comes before what begins then; a thread polls or runs.
    let mut edges: Vec<(u64, bool, bool, u32)> = Vec::new();
    for (tid, pieces) in threads {
        for piece in pieces {
            let runs = piece.state == State::Running;
            if runs || polls(piece) {
                edges.extend([(piece.from, true, runs, tid), (piece.to, false, runs, tid)]);
            }
        }
    }
    edges.sort_unstable();
    let (mut polling, mut running, mut since) = (0, BTreeSet::new(), None);
    let mut all = Vec::new();
    for edges in edges.chunk_by(|a, b| a.0 == b.0) {
        let now = edges[0].0;
        for &(_, begins, runs, tid) in edges {
            match (begins, runs) {
                (true, true) => _ = running.insert(tid),
                (false, true) => _ = running.remove(&tid),
                (true, false) => polling += 1,
                (false, false) => polling -= 1,
            }
        }
        let runs = (polling == 0).then(|| running.first().copied()).flatten();
        if since.map(|(_, tid)| tid) == runs {
            continue;
        }
        if let Some((from, tid)) = since {
            all.push(Ran { from, to: now, tid });
        }
        since = runs.map(|tid| (now, tid));
    }
    all
}

/// Divides a time by whether any thread that answers requests of a turn's target was free to take one.
fn by_free(full: &[(u64, u64)], from: u64, to: u64, part: &mut dyn FnMut(bool, u64, u64)) {
    let first = full.partition_point(|&(_, end)| end <= from);
    let mut at = from;
    for &(begin, end) in full[first..].iter().take_while(|(begin, _)| *begin < to) {
        let (begin, end) = (begin.max(at), end.min(to));
        part(true, at, begin);
        part(false, begin, end);
        at = end;
    }
    part(true, at, to);
}

pub(super) fn polls(piece: &Piece) -> bool {
    matches!(piece.state, State::Waiting(wait) if wait.kind == WaitKind::Poll)
}

/// Whether a thread waits for the next request of a connection that it has to itself.
fn reads(wait: &Wait) -> bool {
    matches!(wait.kind, WaitKind::Socket | WaitKind::Unix) && wait.class.is_client()
}

fn ready(who: u32, idle: bool) -> Row {
    if idle {
        Row::at(Place::WakeUp)
    } else {
        Row::with(Place::RunQueue, who)
    }
}

fn give_some(give: &mut dyn FnMut(Row, u64, u64), row: Row, from: u64, to: u64) {
    if to > from {
        give(row, from, to);
    }
}
