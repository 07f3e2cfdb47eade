//! The program above a side's stack: its connections from beginning to end, whatever they carry.
//!
//! It makes no system call: whoever drives it sets [`Program::now`], and gives a clock by which a client side times
//! what comes and leaves within a turn, so that a long turn makes no latency shorter. What connections carry is in
//! `http`, `streams` and `exchanges`; here is what they have in common: places, timeouts, pauses, TLS, and what is
//! counted. The surprise: [`App::pull`] makes bytes out of a template and an offset, and a connection holds none.

use super::conn::{Busies, Busy, Conn, NONE, Pause, Phase, Reader, flag};
use super::exchanges::Exchanges;
use super::part::Threads;
use super::requests::{RequestCache, RequestReader};
use super::script::{Plan, Role, Script, Work};
use super::tls::{PLAIN_BYTES, Session};
use crate::arrival::{Arrivals, Limits, Pacer, Share};
use crate::load::response::{HeadCache, ResponseReader};
use crate::messages::HEAD_BYTES;
use crate::random::Random;
use record::traffic::{Order, Pace, TemplateOutcome};
use record::{Close, FailureKind, Nanos};
use stack::tcp::{App, ConnectError, Ended, Event, FlowId, Stack};
use stack::udp::{Datagram, Outgoing};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Begun later than this after it was due, a connection is late.
const LATE_NS: u64 = 1_000_000;
/// A closed template that could not begin a connection tries again after this.
const REST_NS: u64 = 10_000_000;
/// Connections that are begun before packets have their turn.
const BEGIN_BATCH: usize = 256;
/// Timeouts are looked for this often.
const EXPIRE_NS: u64 = 5_000_000;
/// Received plaintext of TLS that is handed on at a time.
const PLAIN_ROOM: usize = 4 * PLAIN_BYTES;

/// The connections of a template that wait for the same timeout, longest silent first.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// What is the client side's alone.
pub(super) struct Begins {
    /// When connections of each template begin.
    pub arrivals: Vec<Arrivals>,
    /// Open ones of each template, datagram exchanges too.
    pub open: Vec<u64>,
    /// A template rests until then.
    not_before: Vec<u64>,
    /// This thread's part of each template; `None` when it has none.
    shares: Vec<Option<Share>>,
    /// The target that is next.
    next_target: Vec<usize>,
    /// Numbers of the IPv4 and IPv6 addresses among the side's, and which is next.
    sources: [Vec<u32>; 2],
    next_source: [usize; 2],
    order: Order,
    random: Random,
    begin_ns: u64,
    ramp_ns: u64,
}

impl Begins {
    /// The number of the next address of a family; `None` when there is none.
    pub fn source(&mut self, is_ipv4: bool) -> Option<usize> {
        let family = usize::from(!is_ipv4);
        let count = self.sources[family].len();
        if count == 0 {
            return None;
        }
        let at = match self.order {
            Order::Sequential => {
                let at = self.next_source[family];
                self.next_source[family] = if at + 1 == count { 0 } else { at + 1 };
                at
            }
            Order::Random => (self.random.bits() % count as u64) as usize,
        };
        Some(self.sources[family][at] as usize)
    }

    /// The number of the next connection's target.
    pub fn target(&mut self, template: usize, script: &Script) -> u16 {
        let count = script.targets.len();
        match self.order {
            Order::Sequential => {
                // The connections of all threads together have one target after the other.
                let at = self.next_target[template];
                let stride = self.shares[template].map_or(1, |share| share.of as usize);
                self.next_target[template] = (at + stride) % count;
                at as u16
            }
            Order::Random => (self.random.bits() % count as u64) as u16,
        }
    }

    /// How many more of a template this thread may have open at `now`: with a ramp a closed one grows to its number.
    pub fn room(&self, template: usize, script: &Script, now: u64) -> u64 {
        let Some(share) = self.shares[template] else {
            return 0;
        };
        let most = match script.pace {
            Pace::Concurrent(n) if self.ramp_ns > 0 => {
                let part = now.saturating_sub(self.begin_ns) as f64 / self.ramp_ns as f64;
                let grown = (f64::from(n) * part) as u64 + 1;
                grown.min(script.concurrent_max)
            }
            _ => script.concurrent_max,
        };
        share.of_count(most).saturating_sub(self.open[template])
    }
}

/// See the module.
pub(super) struct Program {
    pub role: Role,
    pub plan: Arc<Plan>,
    /// The time, set before each turn of the host.
    pub now: u64,
    clock: fn() -> u64,
    /// When the side began.
    begin_ns: u64,
    pub conns: Vec<Conn>,
    /// Of those with something on its way.
    pub busies: Busies,
    /// The first free place; each names the next one as its neighbour.
    free: u32,
    conns_max: usize,
    lists: Vec<List>,
    next_expiry: u64,
    /// When paused connections go on.
    pauses: BinaryHeap<Reverse<Pause>>,
    /// The most of them.
    pauses_high: usize,
    sessions: Vec<Option<Box<Session>>>,
    free_sessions: Vec<u32>,
    plain: Box<[u8]>,
    record: Box<[u8]>,
    /// Buffers for heads that came in part.
    heads: Vec<Box<[u8]>>,
    free_heads: Vec<u32>,
    pub responses: Vec<Option<HeadCache>>,
    pub requests: RequestCache,
    /// What was counted of each template.
    pub tally: Vec<TemplateOutcome>,
    /// The client side's.
    pub begins: Option<Begins>,
    /// A target whose link address, or that of its router, nobody has told.
    pub unanswered: Option<SocketAddr>,
    /// UDP.
    pub exchanges: Exchanges,
    /// Connections and datagram exchanges that are open.
    pub open: u64,
    /// The most of them.
    pub peak: u64,
}

/// How a client side begins.
pub(super) struct Beginning<'a> {
    pub locals: &'a [IpAddr],
    pub order: Order,
    pub ports: (u16, u16),
    pub seed: u64,
    pub threads: Threads,
    pub begin_ns: u64,
    pub until_ns: u64,
    pub ramp_ns: u64,
    pub clock: fn() -> u64,
}

impl Program {
    /// A program without connections, with room for `conns_max`.
    pub fn new(role: Role, plan: Arc<Plan>, conns_max: u32, from: &Beginning<'_>) -> Self {
        let count = plan.scripts.len();
        let named = |script: &Script| TemplateOutcome {
            name: script.name.clone(),
            ..TemplateOutcome::default()
        };
        let cache = |script: &Script| match &script.work {
            Work::Http(work) if role == Role::Client => Some(HeadCache::new(work.is_head)),
            _ => None,
        };
        let list = List {
            head: NONE,
            tail: NONE,
        };
        Program {
            role,
            now: from.begin_ns,
            clock: from.clock,
            begin_ns: from.begin_ns,
            conns: Vec::with_capacity(conns_max as usize),
            busies: Busies::default(),
            free: NONE,
            conns_max: conns_max as usize,
            lists: vec![list; count],
            next_expiry: 0,
            pauses: BinaryHeap::with_capacity(1_024),
            pauses_high: 0,
            sessions: Vec::new(),
            free_sessions: Vec::new(),
            plain: vec![0; PLAIN_ROOM].into_boxed_slice(),
            record: vec![0; PLAIN_BYTES].into_boxed_slice(),
            heads: Vec::new(),
            free_heads: Vec::new(),
            responses: plan.scripts.iter().map(cache).collect(),
            requests: RequestCache::new(),
            tally: plan.scripts.iter().map(named).collect(),
            begins: (role == Role::Client).then(|| begins(&plan, from)),
            unanswered: None,
            exchanges: Exchanges::new(count, from.locals, from.ports),
            open: 0,
            peak: 0,
            plan,
        }
    }

    // ---- Time ----

    /// Begins what is due, lets go on what has paused, ends what has been silent for too long.
    pub fn turn(&mut self, stack: &mut Stack, may_begin: bool) {
        if may_begin {
            self.begin_due(stack);
        }
        while let Some(&Reverse(pause)) = self.pauses.peek() {
            let at = pause.at(self.begin_ns);
            if at > self.now {
                break;
            }
            self.pauses.pop();
            let conn = &self.conns[pause.slot as usize];
            if conn.generation == pause.generation && conn.has(flag::PAUSED) {
                self.wake(pause.slot);
                self.conns[pause.slot as usize].clear(flag::PAUSED);
                self.goes_on(stack, pause.slot, at);
                self.settle(pause.slot);
            }
        }
        self.udp_turn();
        if self.now >= self.next_expiry {
            self.next_expiry = self.now + EXPIRE_NS;
            self.expire(stack);
        }
    }

    /// When [`Program::turn`] has something to do at the latest.
    pub fn next_at(&mut self, may_begin: bool) -> u64 {
        let mut next = self.exchanges.next_at();
        if let Some(Reverse(pause)) = self.pauses.peek() {
            next = next.min(pause.at(self.begin_ns));
        }
        if self.open > 0 {
            next = next.min(self.next_expiry);
        }
        let Some(begins) = self.begins.as_ref().filter(|_| may_begin) else {
            return next;
        };
        for (template, script) in self.plan.scripts.iter().enumerate() {
            let due = begins.arrivals[template].next_due(self.now);
            let Some(due) = due else { continue };
            let at = if begins.room(template, script, self.now) > 0 {
                due
            } else if begins.ramp_ns > 0 {
                // The next one that the ramp lets in.
                self.now + 1_000_000
            } else {
                continue;
            };
            next = next.min(at.max(begins.not_before[template]));
        }
        next
    }

    /// No connection will be begun any more, because all are.
    pub fn has_begun_all(&self) -> bool {
        let begun = |begins: &Begins| {
            let mut arrivals = begins.arrivals.iter();
            arrivals.all(|arrivals| arrivals.is_exhausted(self.now))
        };
        self.begins.as_ref().is_none_or(begun)
    }

    fn begin_due(&mut self, stack: &mut Stack) {
        let plan = Arc::clone(&self.plan);
        for (template, script) in plan.scripts.iter().enumerate() {
            for _ in 0..BEGIN_BATCH {
                let Some(begins) = &mut self.begins else {
                    return;
                };
                let may = begins.not_before[template] <= self.now
                    && begins.room(template, script, self.now) > 0;
                let taken = may.then(|| begins.arrivals[template].take(self.now));
                let Some(due) = taken.flatten() else {
                    break;
                };
                let target = begins.target(template, script);
                self.begin(stack, template, script, target, due);
            }
        }
    }

    fn begin(
        &mut self,
        stack: &mut Stack,
        template: usize,
        script: &Script,
        target: u16,
        due: u64,
    ) {
        let tally = &mut self.tally[template];
        tally.attempted += 1;
        tally.late += u64::from(self.now > due + LATE_NS);
        let to = script.targets[usize::from(target)];
        if let Work::Udp(_) = script.work {
            return self.begin_exchange(template as u16, to, due);
        }
        let Some(begins) = &mut self.begins else {
            return;
        };
        let source = begins.source(to.is_ipv4());
        let slot = self.take(template as u16);
        let (Some(source), Some(slot)) = (source, slot) else {
            match slot {
                Some(slot) => self.release(slot),
                None => begins_freed(&mut self.begins, template),
            }
            return self.not_begun(template, FailureKind::ConnectFailed);
        };
        match stack.connect(self.now, source, to, slot) {
            Ok(flow) => {
                let (conn, busy) = self.both(slot);
                conn.set_flow(Some(flow));
                conn.phase = Phase::Connecting;
                conn.target = target;
                busy.due_at = due;
                self.touch(slot);
            }
            Err(error) => {
                self.release(slot);
                let kind = match error {
                    ConnectError::NoPort => FailureKind::NoLocalPort,
                    ConnectError::NoFlow | ConnectError::NoSource => FailureKind::ConnectFailed,
                };
                self.not_begun(template, kind);
            }
        }
    }

    /// A connection could not even be begun.
    pub fn not_begun(&mut self, template: usize, kind: FailureKind) {
        self.count_failure(template as u16, kind.name());
        self.rest(template);
    }

    /// A template whose connections fail at once waits a moment, when it would else begin the next one at once.
    fn rest(&mut self, template: usize) {
        let is_closed = matches!(self.plan.scripts[template].pace, Pace::Concurrent(_));
        if let Some(begins) = self.begins.as_mut().filter(|_| is_closed) {
            begins.not_before[template] = self.now + REST_NS;
        }
    }

    fn expire(&mut self, stack: &mut Stack) {
        let plan = Arc::clone(&self.plan);
        for (template, script) in plan.scripts.iter().enumerate() {
            let patience = match self.role {
                Role::Client => script.timeout_ns,
                Role::Server => script.patience_ns(),
            };
            let patience_ms = patience / 1_000_000;
            let now_ms = u64::from(self.ms());
            loop {
                let slot = self.lists[template].head;
                if slot == NONE
                    || u64::from(self.conns[slot as usize].alive_ms) + patience_ms > now_ms
                {
                    break;
                }
                self.timed_out(stack, slot);
            }
        }
    }

    fn timed_out(&mut self, stack: &mut Stack, slot: u32) {
        self.wake(slot);
        let (role, (conn, busy)) = (self.role, self.both(slot));
        let between = match (role, &busy.reader, conn.phase) {
            // Nobody waits for anything.
            (Role::Server, Reader::Request(reader), Phase::Open) => !reader.is_mid_message(),
            _ => false,
        };
        let kind = match conn.phase {
            Phase::Connecting | Phase::Shaking => FailureKind::ConnectTimeout,
            _ => FailureKind::Timeout,
        };
        if between {
            self.conns[slot as usize].set(flag::COUNTED);
        }
        self.fail(stack, slot, kind.name());
    }

    fn ms(&self) -> u32 {
        (self.now.saturating_sub(self.begin_ns) / 1_000_000) as u32
    }

    /// The connection has gone on: its timeout begins anew.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        let now_ms = self.ms();
        let conn = &self.conns[slot as usize];
        let list = self.lists[usize::from(conn.template)];
        // At the same millisecond its place is as good as the last one.
        if conn.alive_ms == now_ms && (conn.prev != NONE || list.head == slot) {
            return;
        }
        self.unlink(slot);
        let conn = &mut self.conns[slot as usize];
        conn.alive_ms = now_ms;
        let list = &mut self.lists[usize::from(conn.template)];
        conn.prev = list.tail;
        conn.next = NONE;
        match std::mem::replace(&mut list.tail, slot) {
            NONE => list.head = slot,
            last => self.conns[last as usize].next = slot,
        }
    }

    /// No timeout runs for it.
    #[inline]
    pub fn unlink(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        let (prev, next, template) = (conn.prev, conn.next, usize::from(conn.template));
        (conn.prev, conn.next) = (NONE, NONE);
        let list = &mut self.lists[template];
        if prev == NONE && list.head != slot {
            return;
        }
        match prev {
            NONE => list.head = next,
            prev => self.conns[prev as usize].next = next,
        }
        match next {
            NONE => self.lists[template].tail = prev,
            next => self.conns[next as usize].prev = prev,
        }
    }

    /// The connection waits until `at`.
    pub fn pause(&mut self, slot: u32, at: u64) {
        self.unlink(slot);
        let conn = &mut self.conns[slot as usize];
        conn.set(flag::PAUSED);
        let pause = Pause::new(at, self.begin_ns, slot, conn.generation);
        self.pauses.push(Reverse(pause));
        self.pauses_high = self.pauses_high.max(self.pauses.len());
    }

    fn goes_on(&mut self, stack: &mut Stack, slot: u32, at: u64) {
        self.touch(slot);
        let template = usize::from(self.conns[slot as usize].template);
        match self.plan.scripts[template].work {
            Work::Http(_) => self.ask(stack, slot, at),
            Work::Stream(_) => {
                self.conns[slot as usize].step += 1;
                self.advance(stack, slot);
            }
            Work::Udp(_) => {}
        }
    }

    // ---- Places ----

    fn take(&mut self, template: u16) -> Option<u32> {
        let slot = match self.free {
            NONE if self.conns.len() < self.conns_max => {
                self.conns.push(Conn::free());
                self.conns.len() as u32 - 1
            }
            NONE => return None,
            slot => {
                self.free = self.conns[slot as usize].next;
                slot
            }
        };
        let generation = self.conns[slot as usize].generation;
        self.conns[slot as usize] = Conn {
            template,
            generation,
            ..Conn::free()
        };
        let busy = Busy::at(0, 0, self.reader(template));
        self.conns[slot as usize].busy = self.busies.take(busy);
        self.opened(template);
        Some(slot)
    }

    /// What reads the peer's bytes, between two messages.
    fn reader(&self, template: u16) -> Reader {
        match (self.role, &self.plan.scripts[usize::from(template)].work) {
            (Role::Server, Work::Http(_)) => Reader::Request(RequestReader::default()),
            _ => Reader::Response(ResponseReader::default()),
        }
    }

    /// Both parts of a connection that is awake.
    #[inline]
    pub fn both(&mut self, slot: u32) -> (&mut Conn, &mut Busy) {
        let conn = &mut self.conns[slot as usize];
        let busy = &mut self.busies[conn.busy];
        (conn, busy)
    }

    /// What a connection that is awake has beside the rest.
    #[inline]
    pub fn busy(&self, slot: u32) -> &Busy {
        &self.busies[self.conns[slot as usize].busy]
    }

    /// What an idle connection of this template and step has sent and received.
    #[inline]
    fn at_rest(&self, conn: &Conn) -> (u64, u64) {
        match &self.plan.scripts[usize::from(conn.template)].work {
            Work::Http(work) => (work.sent(self.role, conn.target, conn.step), 0),
            Work::Stream(work) => work.done(self.role, conn.step),
            Work::Udp(_) => (0, 0),
        }
    }

    /// Before anything is done with a connection: an idle one is again what it was.
    #[inline]
    fn wake(&mut self, slot: u32) {
        let conn = &self.conns[slot as usize];
        if conn.busy == NONE && conn.phase != Phase::Free {
            self.wake_idle(slot);
        }
    }

    fn wake_idle(&mut self, slot: u32) {
        let conn = &self.conns[slot as usize];
        let (sent, received) = self.at_rest(conn);
        let mut busy = Busy::at(sent, received, self.reader(conn.template));
        let conn = &mut self.conns[slot as usize];
        match (
            self.role,
            &self.plan.scripts[usize::from(conn.template)].work,
        ) {
            (Role::Server, Work::Http(_)) => busy.mark = u64::MAX,
            (Role::Client, Work::Stream(_)) => busy.due_at = conn.take_due(),
            _ => {}
        }
        conn.busy = self.busies.take(busy);
    }

    /// After something was done: a connection of which nothing is on its way needs its busy part no more.
    #[inline]
    fn settle(&mut self, slot: u32) {
        const AT_WORK: u8 = flag::CLOSED | flag::RESET_DUE | flag::ASKED | flag::LAST;
        let conn = &self.conns[slot as usize];
        if conn.phase != Phase::Open || conn.busy == NONE || conn.flags & AT_WORK != 0 {
            return;
        }
        // A client that does not pause will go on at once, or is timed by its busy part.
        if self.role == Role::Client && !conn.has(flag::PAUSED) {
            return;
        }
        let (sent, received) = self.at_rest(conn);
        let busy = &self.busies[conn.busy];
        if !busy.is_at(sent, received) {
            return;
        }
        let is_stream = matches!(
            self.plan.scripts[usize::from(conn.template)].work,
            Work::Stream(_)
        );
        let due_at = busy.due_at;
        if self.role == Role::Client && is_stream {
            if busy.sent_at > 0 && !conn.has(flag::FIRST) {
                // The first byte of the peer is timed from it.
                return;
            }
            self.conns[slot as usize].keep_due(due_at);
        }
        let conn = &mut self.conns[slot as usize];
        self.busies.give(std::mem::replace(&mut conn.busy, NONE));
    }

    /// One more is open.
    pub fn opened(&mut self, template: u16) {
        self.open += 1;
        self.peak = self.peak.max(self.open);
        if let Some(begins) = &mut self.begins {
            begins.open[usize::from(template)] += 1;
        }
    }

    /// One less is open.
    pub fn ended(&mut self, template: u16) {
        self.open -= 1;
        if let Some(begins) = &mut self.begins {
            begins.open[usize::from(template)] -= 1;
            begins.arrivals[usize::from(template)].freed();
        }
    }

    /// The place is free for the next one.
    pub fn release(&mut self, slot: u32) {
        self.unlink(slot);
        let conn = &mut self.conns[slot as usize];
        conn.phase = Phase::Free;
        conn.set_flow(None);
        conn.flags = 0;
        conn.generation = conn.generation.wrapping_add(1);
        let template = conn.template;
        let place = std::mem::replace(&mut conn.busy, NONE);
        let Busy { tls, partial, .. } = self.busies[place];
        self.busies.give(place);
        if tls != NONE {
            self.sessions[tls as usize] = None;
            self.free_sessions.push(tls);
        }
        if partial != NONE {
            self.free_heads.push(partial);
        }
        self.conns[slot as usize].next = std::mem::replace(&mut self.free, slot);
        self.ended(template);
    }

    /// The buffer of a connection for the beginning of a head, or one that it may have.
    pub fn head_buffer(&mut self, slot: u32) -> (u32, Box<[u8]>) {
        let held = self.busy(slot).partial;
        let index = match held {
            NONE => self.free_heads.pop().unwrap_or_else(|| {
                self.heads.push(vec![0; HEAD_BYTES].into_boxed_slice());
                self.heads.len() as u32 - 1
            }),
            held => held,
        };
        (index, std::mem::take(&mut self.heads[index as usize]))
    }

    /// Gives the buffer back; it stays the connection's when it `holds` something.
    pub fn give_head_buffer(&mut self, slot: u32, index: u32, buffer: Box<[u8]>, holds: bool) {
        self.heads[index as usize] = buffer;
        let (_, busy) = self.both(slot);
        if holds {
            busy.partial = index;
        } else {
            busy.partial = NONE;
            self.free_heads.push(index);
        }
    }

    // ---- Fates ----

    /// Counts a failure of a template.
    pub fn count_failure(&mut self, template: u16, kind: &str) {
        let failed = &mut self.tally[usize::from(template)].failed;
        match failed.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                failed.insert(kind.to_owned(), 1);
            }
        }
    }

    /// The connection has failed: it is counted, reset and forgotten.
    pub fn fail(&mut self, stack: &mut Stack, slot: u32, kind: &str) {
        let conn = &self.conns[slot as usize];
        let (template, phase) = (conn.template, conn.phase);
        if !conn.has(flag::COUNTED) {
            self.count_failure(template, kind);
            if phase == Phase::Connecting {
                self.rest(usize::from(template));
            }
        }
        self.abort(stack, slot);
    }

    /// Resets and forgets.
    fn abort(&mut self, stack: &mut Stack, slot: u32) {
        if let Some(flow) = self.conns[slot as usize].flow() {
            stack.abort(flow);
        }
        self.release(slot);
    }

    /// All of the template was done.
    pub fn completed(&mut self, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        if !conn.has(flag::COUNTED) {
            conn.set(flag::COUNTED);
            self.tally[usize::from(conn.template)].completed += 1;
        }
    }

    /// Ends our side as `how` says, when all that was given has arrived for a reset.
    pub fn close(&mut self, stack: &mut Stack, slot: u32, how: Close) {
        let (conn, busy) = self.both(slot);
        if conn.has(flag::CLOSED) {
            return;
        }
        match how {
            Close::Fin => {
                conn.set(flag::CLOSED);
                let (flow, tls) = (conn.flow(), busy.tls);
                if tls != NONE
                    && let Some(session) = &mut self.sessions[tls as usize]
                {
                    session.end_sending();
                    self.promise(stack, slot);
                }
                if let Some(flow) = flow {
                    stack.close(flow);
                }
            }
            Close::Rst => {
                conn.set(flag::RESET_DUE);
                self.reset_when_due(stack, slot);
            }
        }
    }

    fn reset_when_due(&mut self, stack: &mut Stack, slot: u32) {
        if self.has_arrived(slot) {
            self.completed(slot);
            self.abort(stack, slot);
        }
    }

    /// All that was given has been acknowledged.
    pub fn has_arrived(&self, slot: u32) -> bool {
        let busy = self.busy(slot);
        busy.acked >= self.stream_end(busy)
    }

    fn stream_end(&self, busy: &Busy) -> u64 {
        match busy.tls {
            NONE => busy.given,
            tls => self.sessions[tls as usize]
                .as_ref()
                .map_or(0, |session| session.end()),
        }
    }

    // ---- What is sent ----

    /// Gives the stack what may be sent by now, and closes behind the server's last answer.
    pub fn give(&mut self, stack: &mut Stack, slot: u32) {
        let goal = self.goal(slot);
        let (conn, busy) = self.both(slot);
        let Some(flow) = conn.flow() else { return };
        let before = busy.given;
        if busy.tls == NONE {
            while busy.given < goal {
                let ask = usize::try_from(goal - busy.given).unwrap_or(usize::MAX);
                let taken = stack.send(flow, ask.min(1 << 30)) as u64;
                busy.given += taken;
                if taken == 0 {
                    break;
                }
            }
        } else {
            self.give_tls(stack, slot, goal);
        }
        let given = self.busy(slot).given;
        let conn = &mut self.conns[slot as usize];
        self.tally[usize::from(conn.template)].sent_bytes += given - before;
        if given == goal && conn.has(flag::LAST) && self.role == Role::Server {
            conn.phase = Phase::Closing;
            self.close(stack, slot, Close::Fin);
        }
    }

    fn give_tls(&mut self, stack: &mut Stack, slot: u32, goal: u64) {
        let mut plain = std::mem::take(&mut self.record);
        let tls = self.busy(slot).tls as usize;
        loop {
            let given = self.busy(slot).given;
            let has_room = self.sessions[tls].as_ref().is_some_and(|s| s.has_room());
            if given >= goal || !has_room {
                break;
            }
            let len = (goal - given).min(PLAIN_BYTES as u64) as usize;
            self.plaintext(slot, given, &mut plain[..len]);
            if let Some(session) = &mut self.sessions[tls] {
                session.send(&plain[..len]);
            }
            self.both(slot).1.given += len as u64;
        }
        self.record = plain;
        self.promise(stack, slot);
    }

    /// Promises the stack the records that TLS has made.
    fn promise(&mut self, stack: &mut Stack, slot: u32) {
        let (conn, busy) = self.both(slot);
        let (Some(flow), tls) = (conn.flow(), busy.tls) else {
            return;
        };
        if let Some(session) = &mut self.sessions[tls as usize] {
            let more = session.end() - session.promised;
            session.promised += stack.send(flow, more as usize) as u64;
        }
    }

    /// Where what may be sent by now ends.
    fn goal(&self, slot: u32) -> u64 {
        let conn = &self.conns[slot as usize];
        let busy = &self.busies[conn.busy];
        match &self.plan.scripts[usize::from(conn.template)].work {
            Work::Http(work) => self.http_goal(conn, busy, work),
            Work::Stream(work) => self.stream_goal(conn, busy, work),
            Work::Udp(_) => 0,
        }
    }

    /// Makes the payload at `offset` of a connection, and notes when a request's first byte leaves.
    #[inline]
    fn plaintext(&mut self, slot: u32, offset: u64, into: &mut [u8]) {
        let conn = &self.conns[slot as usize];
        let busy = &mut self.busies[conn.busy];
        match &self.plan.scripts[usize::from(conn.template)].work {
            Work::Http(work) if self.role == Role::Client => {
                let request = work.request(conn.target);
                let begin = u64::from(conn.step) * request.len();
                if busy.sent_at == 0 && offset <= begin && begin < offset + into.len() as u64 {
                    busy.sent_at = (self.clock)();
                }
                request.fill_round(offset, into);
            }
            Work::Http(work) => {
                let before = busy.mark.saturating_sub(offset).min(into.len() as u64) as usize;
                let (round, last) = into.split_at_mut(before);
                work.response.fill_round(offset, round);
                if !last.is_empty() {
                    let from = offset.saturating_sub(busy.mark);
                    work.last[usize::from(conn.target.min(2))].fill(from, last);
                }
            }
            Work::Stream(work) => {
                if busy.sent_at == 0 && offset == 0 {
                    busy.sent_at = (self.clock)();
                }
                work.sent_by(self.role).fill(offset, into);
            }
            Work::Udp(_) => {}
        }
    }

    // ---- What is received ----

    fn plain_received(&mut self, stack: &mut Stack, slot: u32, bytes: &[u8]) {
        let conn = &mut self.conns[slot as usize];
        let tally = &mut self.tally[usize::from(conn.template)];
        tally.received_bytes += bytes.len() as u64;
        let plan = Arc::clone(&self.plan);
        match &plan.scripts[usize::from(conn.template)].work {
            Work::Http(work) if self.role == Role::Client => {
                self.on_responses(stack, slot, work, bytes);
            }
            Work::Http(work) => self.on_requests(stack, slot, work, bytes),
            Work::Stream(work) => self.on_stream(stack, slot, work, bytes),
            Work::Udp(_) => {}
        }
    }

    fn tls_received(&mut self, stack: &mut Stack, slot: u32, mut bytes: &[u8]) {
        let generation = self.conns[slot as usize].generation;
        let index = self.busy(slot).tls as usize;
        let mut plain = std::mem::take(&mut self.plain);
        while let Some(session) = &mut self.sessions[index] {
            let before = bytes.len();
            let received = session.receive(&mut bytes, &mut plain);
            let is_done = !session.is_handshaking() && !session.is_told;
            let Ok(len) = received else {
                self.promise(stack, slot);
                self.fail(stack, slot, FailureKind::Tls.name());
                break;
            };
            session.is_told |= is_done;
            self.promise(stack, slot);
            if is_done {
                self.established(stack, slot);
            }
            let is_same = |it: &Self| it.conns[slot as usize].generation == generation;
            if len > 0 && is_same(self) {
                self.plain_received(stack, slot, &plain[..len]);
            }
            if !is_same(self) || len == 0 && bytes.len() == before {
                break;
            }
        }
        self.plain = plain;
        let conn = &self.conns[slot as usize];
        let has_ended = (self.sessions[index].as_ref()).is_some_and(|session| session.has_ended);
        if conn.generation == generation && has_ended && !conn.has(flag::PEER_CLOSED) {
            // What TLS says is as good as TCP's end, which follows.
            self.peer_closed(stack, slot);
        }
    }

    // ---- Events ----

    /// TCP's connection is there; with TLS its handshake begins.
    fn connected(&mut self, stack: &mut Stack, slot: u32) {
        let template = usize::from(self.conns[slot as usize].template);
        let Some(tls) = &self.plan.scripts[template].tls else {
            return self.established(stack, slot);
        };
        let session = match self.role {
            Role::Client => tls.client(),
            Role::Server => tls.server(),
        };
        let Some(mut session) = session else {
            return self.fail(stack, slot, FailureKind::Tls.name());
        };
        session.begin();
        let index = self.free_sessions.pop().unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() as u32 - 1
        });
        self.sessions[index as usize] = Some(Box::new(session));
        let (conn, busy) = self.both(slot);
        busy.tls = index;
        conn.phase = Phase::Shaking;
        self.promise(stack, slot);
    }

    /// The connection can carry payload.
    fn established(&mut self, stack: &mut Stack, slot: u32) {
        let (conn, busy) = self.both(slot);
        conn.phase = Phase::Open;
        let (template, due) = (usize::from(conn.template), busy.due_at);
        let tally = &mut self.tally[template];
        tally.connected += 1;
        if self.role == Role::Client {
            let took = self.now.saturating_sub(due);
            tally.connect.record(Nanos(took));
        }
        self.touch(slot);
        match self.plan.scripts[template].work {
            Work::Http(_) if self.role == Role::Client => self.ask(stack, slot, due),
            Work::Http(_) => self.both(slot).1.mark = u64::MAX,
            Work::Stream(_) => self.advance(stack, slot),
            Work::Udp(_) => {}
        }
    }

    fn accepted(&mut self, stack: &mut Stack, flow: FlowId) {
        let (local, _) = stack.tuple(flow);
        let script = self.plan.script_at(false, &local);
        let Some(template) = script.filter(|_| self.role == Role::Server) else {
            return stack.abort(flow);
        };
        self.tally[usize::from(template)].accepted += 1;
        let Some(slot) = self.take(template) else {
            return stack.abort(flow);
        };
        stack.set_user(flow, slot);
        let now = self.now;
        let (conn, busy) = self.both(slot);
        conn.set_flow(Some(flow));
        busy.due_at = now;
        self.touch(slot);
        self.connected(stack, slot);
        self.settle(slot);
    }

    fn peer_closed(&mut self, stack: &mut Stack, slot: u32) {
        let conn = &mut self.conns[slot as usize];
        conn.set(flag::PEER_CLOSED);
        match conn.phase {
            Phase::Closing => self.close(stack, slot, Close::Fin),
            Phase::Shaking => self.fail(stack, slot, FailureKind::Tls.name()),
            _ => {
                let template = usize::from(conn.template);
                let plan = Arc::clone(&self.plan);
                match &plan.scripts[template].work {
                    Work::Http(work) if self.role == Role::Client => {
                        self.on_end_of_responses(stack, slot, work);
                    }
                    Work::Http(_) => {
                        self.conns[slot as usize].phase = Phase::Closing;
                        self.close(stack, slot, Close::Fin);
                    }
                    Work::Stream(work) => self.on_end_of_stream(stack, slot, work),
                    Work::Udp(_) => {}
                }
            }
        }
    }

    /// The peer's bytes have ended as they should, as far as TLS can tell.
    pub fn is_orderly(&self, slot: u32) -> bool {
        match self.busy(slot).tls {
            NONE => true,
            tls => (self.sessions[tls as usize].as_ref()).is_some_and(|session| session.has_ended),
        }
    }

    fn acknowledged(&mut self, stack: &mut Stack, slot: u32, offset: u64) {
        let (conn, busy) = self.both(slot);
        busy.acked = offset;
        let (tls, phase, given) = (busy.tls, conn.phase, busy.given);
        if tls != NONE
            && let Some(session) = &mut self.sessions[tls as usize]
        {
            session.acknowledged(offset);
        }
        if self.conns[slot as usize].has(flag::RESET_DUE) {
            return self.reset_when_due(stack, slot);
        }
        if phase != Phase::Open {
            return;
        }
        if given < self.goal(slot) {
            self.give(stack, slot);
        }
        let template = usize::from(self.conns[slot as usize].template);
        if let Work::Stream(_) = self.plan.scripts[template].work {
            if !self.conns[slot as usize].has(flag::PAUSED) {
                self.touch(slot);
            }
            self.advance(stack, slot);
        }
    }

    fn flow_ended(&mut self, stack: &mut Stack, slot: u32, why: Ended) {
        let conn = &mut self.conns[slot as usize];
        conn.set_flow(None);
        let (template, phase) = (usize::from(conn.template), conn.phase);
        if conn.has(flag::COUNTED) {
            return self.release(slot);
        }
        let plan = Arc::clone(&self.plan);
        if why == Ended::Unreachable && self.role == Role::Client {
            let target = usize::from(conn.target);
            self.unanswered = Some(plan.scripts[template].targets[target]);
        }
        let is_done = match &plan.scripts[template].work {
            Work::Stream(work) => self.ends_well(slot, work, why),
            Work::Http(_) => self.role == Role::Server && self.has_answered(slot),
            Work::Udp(_) => false,
        };
        if is_done {
            self.completed(slot);
            return self.release(slot);
        }
        let kind = match (why, phase) {
            (Ended::Refused, _) => FailureKind::ConnectRefused,
            (Ended::Reset, _) => FailureKind::Reset,
            (Ended::TimedOut, Phase::Connecting) => FailureKind::ConnectTimeout,
            (Ended::TimedOut, _) => FailureKind::Timeout,
            (Ended::Unreachable, _) => FailureKind::ConnectFailed,
            (Ended::Orderly, _) => FailureKind::ClosedEarly,
        };
        self.fail(stack, slot, kind.name());
    }

    /// What is open and not done when all is over.
    pub fn count_unfinished(&mut self) {
        for conn in &self.conns {
            if conn.phase != Phase::Free && !conn.has(flag::COUNTED) {
                self.tally[usize::from(conn.template)].unfinished += 1;
            }
        }
        self.count_unfinished_exchanges();
        let Some(begins) = &mut self.begins else {
            return;
        };
        for (template, arrivals) in begins.arrivals.iter_mut().enumerate() {
            let waiting = arrivals.waiting(self.now);
            let tally = &mut self.tally[template];
            tally.scheduled = arrivals.scheduled();
            if !matches!(self.plan.scripts[template].pace, Pace::Concurrent(_)) {
                tally.dropped = waiting;
            }
        }
    }
}

/// A connection that took no place has met its fate.
fn begins_freed(begins: &mut Option<Begins>, template: usize) {
    if let Some(begins) = begins {
        begins.arrivals[template].freed();
    }
}

/// What a thread begins, and when.
pub(super) fn begins(plan: &Plan, from: &Beginning<'_>) -> Begins {
    let count = plan.scripts.len();
    let numbered = || plan.scripts.iter().enumerate();
    let share = |(number, script): (usize, &Script)| from.threads.share(number, script);
    let shares: Vec<Option<Share>> = numbered().map(share).collect();
    let arrivals = numbered().map(|(number, script)| {
        let Some(share) = shares[number] else {
            return Arrivals::none();
        };
        let limits = Limits {
            measured_from: 0,
            until: from.until_ns,
            budget: share.of_count(script.count),
        };
        let seed = (from.seed).wrapping_add((number as u64).wrapping_mul(0x9e37_79b9));
        match script.pace {
            Pace::Constant(per_s) => {
                let pacer = Pacer::constant(per_s, share, from.begin_ns);
                Arrivals::ramped(pacer, from.ramp_ns, limits)
            }
            Pace::Poisson(per_s) => {
                let pacer = Pacer::poisson(per_s, seed, share, from.begin_ns);
                Arrivals::ramped(pacer, from.ramp_ns, limits)
            }
            Pace::Concurrent(n) => Arrivals::clients(share.of_count(u64::from(n)), limits),
        }
    });
    let of_family = |is_ipv4: bool| {
        let numbered = (0u32..).zip(from.locals);
        let family = numbered.filter(|(_, ip)| ip.is_ipv4() == is_ipv4);
        family.map(|(number, _)| number).collect()
    };
    let sources: [Vec<u32>; 2] = [of_family(true), of_family(false)];
    let Threads { thread, count: of } = from.threads;
    let first_target = |(script, share): (&Script, &Option<Share>)| {
        let index = share.map_or(0, |share| share.index as usize);
        index % script.targets.len()
    };
    Begins {
        arrivals: arrivals.collect(),
        open: vec![0; count],
        not_before: vec![0; count],
        next_target: (plan.scripts.iter().zip(&shares))
            .map(first_target)
            .collect(),
        shares,
        // Each has ports of its own, so that two may use one address; they begin apart.
        next_source: [0, 1].map(|family| sources[family].len() * thread / of),
        sources,
        order: from.order,
        random: Random::seeded(from.seed.wrapping_add(from.threads.salt())),
        begin_ns: from.begin_ns,
        ramp_ns: from.ramp_ns,
    }
}

impl App for Program {
    #[inline]
    fn pull(&mut self, _: FlowId, slot: u32, offset: u64, into: &mut [u8]) {
        if slot as usize >= self.conns.len() || self.conns[slot as usize].phase == Phase::Free {
            return;
        }
        self.wake(slot);
        let tls = self.busy(slot).tls;
        if tls == NONE {
            return self.plaintext(slot, offset, into);
        }
        if let Some(session) = &self.sessions[tls as usize] {
            session.fill(offset, into);
        }
        // TLS says of which request a record is; what leaves after it was made is at most a turn later.
        let now = self.now;
        let (conn, busy) = self.both(slot);
        if busy.sent_at == 0 && conn.phase == Phase::Open {
            busy.sent_at = now;
        }
    }

    #[inline]
    fn received(&mut self, stack: &mut Stack, _: FlowId, slot: u32, bytes: &[u8]) {
        self.look_at_clock();
        if slot as usize >= self.conns.len() || self.conns[slot as usize].phase == Phase::Free {
            return;
        }
        self.wake(slot);
        if self.busy(slot).tls == NONE {
            self.plain_received(stack, slot, bytes);
        } else {
            self.tls_received(stack, slot, bytes);
        }
        self.settle(slot);
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, slot: u32, event: Event) {
        if event == Event::Accepted {
            return self.accepted(stack, flow);
        }
        if slot as usize >= self.conns.len() || self.conns[slot as usize].phase == Phase::Free {
            return;
        }
        self.wake(slot);
        match event {
            Event::Connected => {
                self.look_at_clock();
                self.connected(stack, slot);
            }
            Event::Acked { offset } => self.acknowledged(stack, slot, offset),
            Event::PeerClosed => {
                if !self.conns[slot as usize].has(flag::PEER_CLOSED) {
                    self.peer_closed(stack, slot);
                }
            }
            Event::Ended(why) => self.flow_ended(stack, slot, why),
            Event::Accepted => {}
        }
        self.settle(slot);
    }

    fn datagram(&mut self, datagram: Datagram<'_>) {
        self.look_at_clock();
        self.on_datagram(datagram);
    }

    fn fill(&mut self, tag: u64, into: &mut [u8]) {
        self.fill_datagram(tag, into);
    }

    fn undelivered(&mut self, from: SocketAddr, _: SocketAddr) {
        self.on_undelivered(from);
    }
}

impl Program {
    /// What comes now is timed now; a server side times nothing.
    #[inline]
    fn look_at_clock(&mut self) {
        if self.role == Role::Client {
            self.now = (self.clock)();
        }
    }

    /// The time as it is, not as it was at the beginning of the turn.
    pub fn time(&self) -> u64 {
        (self.clock)()
    }

    /// Counts what has come due until now, begun or not.
    pub fn count_scheduled(&mut self) {
        let Some(begins) = &mut self.begins else {
            return;
        };
        for (arrivals, tally) in begins.arrivals.iter_mut().zip(&mut self.tally) {
            arrivals.waiting(self.now);
            tally.scheduled = arrivals.scheduled();
        }
    }

    /// Bytes of state of one connection here, on average over the most that there were: its own, those of the busy ones
    /// and the places among those that pause; TLS has more.
    pub fn conn_bytes(&self) -> f64 {
        let own = size_of::<Conn>();
        let beside = self.busies.bytes() + self.pauses_high * size_of::<Pause>();
        own as f64 + beside as f64 / self.conns.len().max(1) as f64
    }

    /// Datagrams that wait to be sent.
    pub fn outbox(&mut self) -> std::vec::Drain<'_, Outgoing> {
        self.exchanges.outbox.drain(..)
    }
}
