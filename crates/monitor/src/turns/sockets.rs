//! Connections, their turns, and which upstream was asked for which turn.
//!
//! In the flow: one walk over the events in time, which knows of each thread only whose request it serves now. A turn
//! is what lies between two alternations of reading and writing on a connection. The surprise: an answer may be
//! stamped later than the next request, because a send is seen when it returns, and on a loopback device the client
//! has the answer before that.

use super::Traced;
use super::threads::Threads;
use super::wire::{Class, Event, Kind, LEFT, UNACCEPTED, UNFOLLOWED, UNNAMED};
use std::collections::{HashMap, HashSet, VecDeque};

/// No turn.
pub(super) const NONE: u32 = u32::MAX;
/// A turn of a connection that is not followed.
pub(super) const ELSEWHERE: u32 = u32::MAX - 1;
/// A request that came so long before the end of the last send was pipelined, ns; one that came later answers it.
const SEND_CALL_NS: u64 = 250_000;

/// What a thread did for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Took a part of the request.
    Read,
    /// Put a part of the response.
    Write,
    /// Began to connect to an upstream.
    Connect,
    /// Asked an upstream.
    Ask,
    /// Took a part of an upstream's answer, which had arrived then.
    Take { arrived: u64 },
    /// The connection to an upstream ended before its answer was taken.
    GiveUp,
}

/// An action on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub at: u64,
    pub tid: u32,
    pub act: Act,
    /// Index of its turn, [`NONE`] or [`ELSEWHERE`].
    pub turn: u32,
    /// The peer that was asked, a number of [`Sockets::peers`].
    pub peer: u32,
    /// Bytes of its turn's response that were written then.
    pub written: u64,
}

/// A turn of a client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub target: usize,
    pub connection: u32,
    /// Arrival of its first byte.
    pub arrived: u64,
    /// First read.
    pub read: u64,
    /// Last write.
    pub end: u64,
    /// Who read first.
    pub reader: u32,
    /// The connection had not been accepted when the request arrived.
    pub unaccepted: bool,
    /// It has a response.
    pub answered: bool,
    start: Start,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// End and bytes of the response before the last pause in it that was longer than a farewell takes.
    before_pause: Option<(u64, u64)>,
}

impl Turn {
    /// From its first byte's arrival to its last write.
    pub fn times(&self) -> std::ops::Range<u64> {
        self.arrived..self.end
    }
}

/// What a turn begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Start {
    #[default]
    Request,
    /// What came before the response of the turn before it, and nothing else has come of it: how often that was counted
    /// as irregular.
    LeftOver(u64),
    /// That, and the thread that read it went to rest: it was nothing to answer.
    Nothing,
}

/// Upstream turns that no client's turn can be told for: asked, answered, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loose {
    /// Who took the answer.
    pub tid: u32,
    pub target: usize,
    pub peer: u32,
    pub asked: u64,
    pub arrived: u64,
    pub read: u64,
}

/// A connection to an upstream that many requests share, so that one answer read is the answer for several of them
/// (a client of redis in an event loop, gRPC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shared {
    /// From a question to the next answer that was read.
    pub exchanges: Vec<Loose>,
    taken: u32,
    /// After how many of these several requests that had been read before had their response, with no answer of
    /// another upstream between.
    for_several: u32,
}

impl Shared {
    /// Once or twice it is chance.
    pub(super) fn is_shared(&self) -> bool {
        self.for_several >= 3 && self.is_often()
    }

    fn is_often(&self) -> bool {
        self.for_several >= self.taken / 10
    }

    fn take(&mut self, exchange: Loose) {
        self.taken += 1;
        // Of most connections nobody asks more.
        if self.taken <= UNDECIDED || self.is_often() {
            self.exchanges.push(exchange);
        }
    }
}

/// A client's connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    /// Thread that read every turn; `None` when they differ.
    pub reader: Option<u32>,
    pub turns: u32,
}

/// What one target's connections had beside their turns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub between_ns: u64,
    pub irregular: u64,
    pub accepted: u64,
    pub closed: u64,
    /// Of these, the ones that had answered, and the time from their last response to their end.
    pub rested: u64,
    pub rested_ns: u64,
    /// Requests to upstreams that were answered, of those that were asked in the window.
    pub answers: u64,
    /// Turns of tasks that began with a question to a peer and ended with what came from it, by peer.
    pub relayed: HashMap<u32, u64>,
    /// How long each other of these was waited for, whose connection ended before its answer was taken, ns.
    pub given_up: Vec<u64>,
}

/// Everything about sockets.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub turns: Vec<Turn>,
    /// By rising time.
    pub ops: Vec<Op>,
    pub loose: Vec<Loose>,
    /// What a thread took off a connection that is not a turn's after the first answer: of several questions that went
    /// out before. When they were asked is not known, and told as 0.
    pub unasked: Vec<Loose>,
    /// Every connection to an upstream; [`Shared::is_shared`] tells which are.
    pub shared: HashMap<u64, Shared>,
    pub connections: Vec<Connection>,
    pub peers: Vec<String>,
    /// The last peer of each socket to an upstream.
    pub peer_of: HashMap<u64, u32>,
    pub counts: Vec<Counts>,
    /// Sockets on which consumers take what they do.
    pub consuming: HashSet<u64>,
    /// When each thread that others of its server ask was at that, by rising time.
    pub own_work: HashMap<u32, Vec<OwnWork>>,
}

/// What a thread was asked by others of its server: from the first that it read to the last that it wrote, `None` for
/// not yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnWork {
    sk: u64,
    pub from: u64,
    pub to: Option<u64>,
}

/// A client's socket.
#[derive(Clone, Debug)]
struct Client {
    connection: u32,
    pending: Option<u64>,
    unaccepted: bool,
    turn: u32,
    begun: bool,
    /// Bytes of the last write.
    wrote: u32,
    /// That is as long as TLS's farewell.
    closing: bool,
    /// The server has ended it.
    hung_up: bool,
}

/// A socket to an upstream.
#[derive(Debug, Default)]
struct Upstream {
    peer: u32,
    target: usize,
    turn: u32,
    asked: Option<u64>,
    /// Who asked.
    asker: u32,
    arrived: Option<u64>,
    known: bool,
    /// It was opened for its turn, and nothing has been asked on it.
    opened: bool,
    /// Questions of datagrams that are not answered yet, the oldest first: when they were asked, and for whom. A
    /// resolver asks for many requests on one socket.
    datagrams: VecDeque<(u64, u32)>,
}

/// Questions of datagrams that are kept: what is never answered (a log, figures for a collector) is no question.
const MOST_DATAGRAMS: usize = 256;
/// A datagram that was not answered for this long was lost, as resolvers see it.
const DATAGRAM_LOST_NS: u64 = 5_000_000_000;

/// Answers after which it is known whether a connection is shared.
const UNDECIDED: u32 = 64;
/// What is said so shortly before the end of a connection is a farewell (of a database's protocol, of TLS), and no
/// request, ns. Time in line for a CPU does not count.
const FAREWELL_NS: u64 = 500_000;
/// Bytes of the record with which TLS closes a connection: of ChaCha20 and of AES-GCM in TLS 1.2, of any cipher in 1.3.
const CLOSE_NOTIFY: [u32; 3] = [23, 31, 24];
/// What else may be said before that (GOAWAY of HTTP/2), bytes.
const FAREWELL_BYTES: u64 = 96;
/// Parts of the paths at which runtimes (a JVM, .NET) listen for those who examine them.
const CONTROLS: [&str; 2] = ["/.java_pid", "/dotnet-diagnostic-"];

#[derive(Debug)]
struct Serving {
    /// Turn of the last client's socket that it read from or wrote to, until it sleeps for want of work.
    active: u32,
    /// Turns that it has read and nobody has answered.
    unanswered: Vec<u32>,
    /// The answers of upstreams that it read last.
    brought: Brought,
    /// Its last action, a number of [`Sockets::ops`], where that took more of what had come.
    further: Option<usize>,
}

/// Answers of upstreams that a thread read since it last responded, and the responses since.
#[derive(Debug, Default)]
struct Brought {
    sk: u64,
    at: u64,
    /// They came from several upstreams.
    mixed: bool,
    responses: u32,
}

/// What a thread that carries tasks did last with sockets.
#[derive(Clone, Copy, Debug)]
enum Relay {
    /// Read a request.
    Read(u32),
    /// Took what came from a peer.
    Took(u32),
}

struct Walk<'a> {
    traced: &'a Traced,
    threads: &'a Threads,
    /// Sockets between processes of one target, whose threads are seen themselves.
    inner: HashSet<u64>,
    /// See [`own_clients`].
    own: HashSet<u64>,
    /// See [`asked_by_itself`].
    itself: HashSet<(u16, u16)>,
    sockets: Sockets,
    clients: HashMap<u64, Client>,
    upstreams: HashMap<u64, Upstream>,
    serving: HashMap<u32, Serving>,
    peer_ids: HashMap<String, u32>,
    /// What threads that carry tasks are at.
    relays: HashMap<u32, Relay>,
    /// Whom the first question of a turn was for, of those that are their tasks' alone.
    begun: HashMap<u32, u32>,
    /// Questions of turns that have no answer yet: socket and peer.
    open: HashMap<u32, Vec<(u64, u32)>>,
    /// Peers at which a runtime answers those who examine it: prony itself, `jcmd`.
    controls: HashSet<u32>,
    /// Peer of a socket from a time on; ends with the next of the same socket.
    named: HashMap<u64, Vec<(u64, u32)>>,
}

impl Sockets {
    /// Of a trace whose events are by rising time; `idles` says whether a switch is one of a thread that has nothing
    /// to do.
    pub(super) fn build(
        traced: &Traced,
        idles: &dyn Fn(&Event) -> bool,
        threads: &Threads,
    ) -> Self {
        let itself: Vec<&Event> = asked_by_itself(traced).collect();
        let of_consumers = |event: &&&Event| traced.consumers.contains(&event.tgid);
        let consuming = itself.iter().filter(of_consumers);
        let consuming = consuming.map(|event| event.sk).collect();
        let mut walk = Walk {
            traced,
            threads,
            inner: inner_sockets(traced, &threads.asked_within(traced)),
            own: own_clients(traced),
            // As the accepted end sees its ports.
            itself: (itself.iter())
                .map(|event| (event.peer_port, event.port))
                .collect(),
            sockets: Self {
                consuming,
                counts: vec![Counts::default(); traced.targets.len()],
                ..Self::default()
            },
            clients: HashMap::new(),
            upstreams: HashMap::new(),
            serving: HashMap::new(),
            peer_ids: HashMap::new(),
            relays: HashMap::new(),
            begun: HashMap::new(),
            open: HashMap::new(),
            controls: HashSet::new(),
            named: HashMap::new(),
        };
        for (sk, at, peer) in &traced.peers {
            let id = walk.peer(peer);
            if CONTROLS.iter().any(|control| peer.contains(control)) {
                walk.controls.insert(id);
            }
            walk.named.entry(*sk).or_default().push((*at, id));
        }
        for event in &traced.events {
            walk.take(event, idles);
        }
        // Clients may be slow to close their end.
        for sk in walk.clients.keys().copied().collect::<Vec<_>>() {
            walk.ended(sk);
        }
        let last = |(&sk, named): (&u64, &Vec<(u64, u32)>)| Some((sk, named.last()?.1));
        walk.sockets.peer_of = walk.named.iter().filter_map(last).collect();
        // The last takes of answers in many pieces have moved.
        walk.sockets.ops.sort_by_key(|op| op.at);
        walk.sockets
    }
}

/// Both ends of the sockets on which the processes of a target ask each other; these have no names.
fn inner_sockets(traced: &Traced, asked: &HashSet<u64>) -> HashSet<u64> {
    if asked.is_empty() {
        return HashSet::new();
    }
    let nameless = traced.peers.iter().filter(|(.., peer)| peer == UNNAMED);
    nameless
        .map(|&(sk, ..)| sk)
        .chain(asked.iter().copied())
        .collect()
}

/// TCP connections on which a process of many tasks asks itself (a gateway before gRPC in one program), or a consumer
/// takes what it does from its own target: that is a part of a turn, and many ask at once.
fn asked_by_itself(traced: &Traced) -> impl Iterator<Item = &Event> {
    traced.events.iter().filter(|event| {
        let listener = traced.ports.get(&event.peer_port);
        event.kind() == Some(Kind::Named)
            && event.class() == Class::Upstream
            && (traced.green.contains(&event.tgid) || traced.consumers.contains(&event.tgid))
            && listener.is_some_and(|target| traced.members.get(&event.tgid) == Some(target))
    })
}

/// The accepted ends of Unix sockets at which a server's processes that clients reach over TCP ask others of the same
/// server (a daemon of mod_wsgi): what is read there is a part of a turn, and none of its own.
fn own_clients(traced: &Traced) -> HashSet<u64> {
    let path_of: HashMap<u64, &str> = (traced.peers.iter())
        .map(|(sk, _, path)| (*sk, path.as_str()))
        .collect();
    let (mut over_tcp, mut asks, mut accepted) = (HashSet::new(), HashSet::new(), Vec::new());
    for event in &traced.events {
        let (Some(&target), class) = (traced.members.get(&event.tgid), event.class()) else {
            continue;
        };
        let is_exchange = matches!(event.kind(), Some(Kind::Received | Kind::Sent));
        let path = path_of.get(&event.sk).filter(|path| **path != UNNAMED);
        match (class, path) {
            (Class::Client, _) if is_exchange => _ = over_tcp.insert(target),
            (Class::UnixUpstream, Some(&path)) => _ = asks.insert((target, path)),
            (Class::UnixClient, Some(&path)) => accepted.push((event.sk, target, path)),
            _ => {}
        }
    }
    let own = accepted
        .into_iter()
        .filter(|&(_, target, path)| over_tcp.contains(&target) && asks.contains(&(target, path)));
    own.map(|(sk, ..)| sk).collect()
}

impl Walk<'_> {
    fn peer(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.peer_ids.get(text) {
            return id;
        }
        let id = self.sockets.peers.len() as u32;
        self.sockets.peers.push(text.to_owned());
        self.peer_ids.insert(text.to_owned(), id);
        id
    }

    fn take(&mut self, event: &Event, idles: &dyn Fn(&Event) -> bool) {
        let class = event.class();
        if class == Class::UnixUpstream && self.inner.contains(&event.sk) {
            return;
        }
        if class == Class::UnixClient && self.own.contains(&event.sk) {
            return self.at_work(event);
        }
        if class == Class::Client && self.itself.contains(&(event.port, event.peer_port)) {
            return;
        }
        if class == Class::UnixClient && self.is_control(event) {
            return;
        }
        // An address may be another socket's later.
        if self.sockets.consuming.contains(&event.sk) && self.traced.consumers.contains(&event.tgid)
        {
            return;
        }
        match event.kind() {
            Some(Kind::Arrived) if event.has(UNFOLLOWED) => self.goes_on_unseen(event),
            Some(Kind::Arrived) if class.is_client() => self.request_arrived(event),
            Some(Kind::Arrived) => {
                if let Some(upstream) = self.upstreams.get_mut(&event.sk) {
                    upstream.arrived.get_or_insert(event.at_ns);
                }
            }
            Some(Kind::Received) if event.has(UNFOLLOWED) => {
                self.serving(event.tid).active = ELSEWHERE;
                self.op(event, Act::Read, ELSEWHERE, 0);
            }
            Some(Kind::Received) if class.is_client() => self.read(event),
            Some(Kind::Received) if class.is_upstream() => self.taken(event),
            Some(Kind::Sent) if class.is_client() => self.written(event),
            Some(Kind::Sent) if class.is_upstream() => self.asked(event),
            Some(Kind::Connecting) => self.connecting(event),
            Some(Kind::Established) if class.is_client() => self.accepted(event),
            Some(Kind::Closed) => self.closed(event),
            Some(Kind::Switched) if event.has(LEFT) && idles(event) => self.at_rest(event.tid),
            _ => {}
        }
    }

    /// A thread has nothing to do: what it read last and began nothing with was the end of a request.
    fn at_rest(&mut self, tid: u32) {
        let Some(serving) = self.serving.get_mut(&tid) else {
            return;
        };
        let active = std::mem::replace(&mut serving.active, NONE);
        let turn = self.sockets.turns.get_mut(active as usize);
        let is_left_over = |turn: &&mut Turn| matches!(turn.start, Start::LeftOver(_));
        if let Some(turn) = turn.filter(|turn| !turn.answered && is_left_over(turn)) {
            turn.start = Start::Nothing;
            serving.unanswered.retain(|&open| open != active);
        }
    }

    /// A thread is at what others of its server ask of it, from the first it reads to the last it writes on a
    /// connection. What it reads behind its answer (the end of a body) is nothing to answer, and the next connection
    /// shows that.
    fn at_work(&mut self, event: &Event) {
        let work = self.sockets.own_work.entry(event.tid).or_default();
        match (event.kind(), work.last_mut()) {
            (Some(Kind::Sent), Some(last)) => last.to = Some(event.at_ns),
            (Some(Kind::Received), Some(last)) if last.to.is_none() && last.sk == event.sk => {}
            (Some(Kind::Received), last) => {
                let fresh = OwnWork {
                    sk: event.sk,
                    from: event.at_ns,
                    to: None,
                };
                match last.filter(|last| last.to.is_none()) {
                    Some(unanswered) => *unanswered = fresh,
                    None => work.push(fresh),
                }
            }
            _ => {}
        }
    }

    fn serving(&mut self, tid: u32) -> &mut Serving {
        self.serving.entry(tid).or_insert(Serving {
            active: NONE,
            unanswered: Vec::new(),
            brought: Brought::default(),
            further: None,
        })
    }

    /// What has come may be taken byte by byte: of takes of one answer behind its first, in which nothing came
    /// meanwhile and the thread did nothing else on a socket, the last is kept.
    fn take_on(&mut self, event: &Event, turn: u32, peer: u32) {
        let arrived = event.at_ns;
        let further = self.serving(event.tid).further;
        let last = further.and_then(|at| self.sockets.ops.get_mut(at));
        match last.filter(|op| (op.turn, op.peer) == (turn, peer)) {
            Some(op) => {
                op.at = event.at_ns;
                op.act = Act::Take { arrived };
            }
            None => {
                let next = self.sockets.ops.len();
                self.op(event, Act::Take { arrived }, turn, peer);
                self.serving(event.tid).further = Some(next);
            }
        }
    }

    fn op(&mut self, event: &Event, act: Act, turn: u32, peer: u32) {
        self.serving(event.tid).further = None;
        let own = self.sockets.turns.get(turn as usize);
        let written = own.map_or(0, |turn| turn.written_bytes);
        self.sockets.ops.push(Op {
            at: event.at_ns,
            tid: event.tid,
            act,
            turn,
            peer,
            written,
        });
    }

    fn client(&mut self, sk: u64) -> &mut Client {
        let connections = &mut self.sockets.connections;
        self.clients.entry(sk).or_insert_with(|| {
            connections.push(Connection::default());
            Client {
                connection: connections.len() as u32 - 1,
                pending: None,
                unaccepted: false,
                turn: NONE,
                begun: false,
                wrote: 0,
                closing: false,
                hung_up: false,
            }
        })
    }

    fn request_arrived(&mut self, event: &Event) {
        let unaccepted = event.has(UNACCEPTED);
        let client = self.client(event.sk);
        if client.pending.is_none() {
            client.pending = Some(event.at_ns);
            client.unaccepted = unaccepted;
        }
    }

    /// A connection goes on with what is not followed: the turn before has its answer, whose stamp may be later.
    fn goes_on_unseen(&mut self, event: &Event) {
        let client = self.client(event.sk);
        client.pending = None;
        client.unaccepted = false;
        client.begun = true;
        let old = std::mem::replace(&mut client.turn, NONE);
        let Some(turn) = self.sockets.turns.get_mut(old as usize) else {
            return;
        };
        let reader = turn.reader;
        if !turn.answered {
            turn.answered = true;
            turn.end = event.at_ns.max(turn.read);
        }
        if let Some(serving) = self.serving.get_mut(&reader) {
            serving.unanswered.retain(|&open| open != old);
        }
    }

    fn read(&mut self, event: &Event) {
        let Some(&target) = self.traced.members.get(&event.tgid) else {
            return;
        };
        let client = self.client(event.sk);
        let pending = client.pending.take();
        let (connection, old, begun) = (client.connection, client.turn, client.begun);
        let unaccepted = std::mem::take(&mut client.unaccepted);
        client.begun = true;
        let before = self.sockets.turns.get(old as usize);
        let goes_on = before.is_some_and(|turn| !turn.answered && turn.start != Start::Nothing);
        let turn = if goes_on {
            self.begin_again(old, pending, event.at_ns);
            old
        } else {
            // What had arrived before the trace began has no beginning; what is left of one read was pipelined.
            let arrived = pending.or((begun && old != NONE).then_some(event.at_ns));
            let Some(arrived) = arrived else {
                return;
            };
            let counted = self.end(old, target, arrived, pending.is_none());
            self.sockets.turns.push(Turn {
                target,
                connection,
                arrived,
                read: event.at_ns,
                end: event.at_ns,
                reader: event.tid,
                unaccepted,
                start: counted.map_or(Start::Request, Start::LeftOver),
                ..Turn::default()
            });
            let turn = self.sockets.turns.len() as u32 - 1;
            let connection = &mut self.sockets.connections[connection as usize];
            connection.reader = (connection.turns == 0 || connection.reader == Some(event.tid))
                .then_some(event.tid);
            connection.turns += 1;
            turn
        };
        self.client(event.sk).turn = turn;
        if self.traced.green.contains(&event.tgid) {
            self.relays.insert(event.tid, Relay::Read(turn));
        }
        self.sockets.turns[turn as usize].read_bytes += u64::from(event.value);
        let serving = self.serving(event.tid);
        serving.active = turn;
        if !goes_on {
            serving.unanswered.push(turn);
        }
        self.op(event, Act::Read, turn, 0);
    }

    /// What was read behind a response may be the end of its own request, with nothing to answer (the empty record
    /// that ends the input of FastCGI): then the turn begins with what arrives next.
    fn begin_again(&mut self, index: u32, pending: Option<u64>, now: u64) {
        let turn = &mut self.sockets.turns[index as usize];
        let Start::LeftOver(counted) = std::mem::take(&mut turn.start) else {
            return;
        };
        let Some(arrived) = pending.filter(|arrived| *arrived > turn.read) else {
            return;
        };
        let counts = &mut self.sockets.counts[turn.target];
        counts.between_ns += arrived - turn.read;
        counts.irregular -= counted;
        turn.arrived = arrived;
        turn.read = now;
        turn.end = turn.end.max(now);
        turn.read_bytes = 0;
    }

    /// The next request of a connection has begun: what that says of the turn before. Where it came before the end of
    /// that one: how often that was counted as irregular.
    fn end(&mut self, old: u32, target: usize, arrived: u64, left_over: bool) -> Option<u64> {
        let turn = self.sockets.turns.get_mut(old as usize)?;
        let counts = &mut self.sockets.counts[target];
        if arrived >= turn.end {
            counts.between_ns += arrived - turn.end;
            counts.irregular += u64::from(left_over);
            return left_over.then_some(1);
        }
        if arrived > turn.read && turn.end - arrived < SEND_CALL_NS {
            turn.end = arrived;
            return Some(0);
        }
        counts.irregular += 1;
        Some(1)
    }

    fn written(&mut self, event: &Event) {
        let Some(&target) = self.traced.members.get(&event.tgid) else {
            return;
        };
        let client = self.client(event.sk);
        let (index, begun) = (client.turn, client.begun);
        if index == NONE {
            // A server that speaks first, not a turn that began before the trace.
            self.sockets.counts[target].irregular += u64::from(begun);
            return;
        }
        let turn = &mut self.sockets.turns[index as usize];
        if turn.answered && event.at_ns > turn.end + FAREWELL_NS {
            turn.before_pause = Some((turn.end, turn.written_bytes));
        }
        turn.end = event.at_ns;
        turn.written_bytes += u64::from(event.value);
        let (first, reader, read) = (!turn.answered, turn.reader, turn.read);
        turn.answered = true;
        if first {
            self.relayed(event.tid, target, index);
            self.responded(event.tid, read);
            if let Some(serving) = self.serving.get_mut(&reader) {
                serving.unanswered.retain(|&open| open != index);
            }
        }
        let client = self.client(event.sk);
        // Parts of a stream are often of one size.
        let is_like_the_last = client.wrote == event.value;
        client.closing = CLOSE_NOTIFY.contains(&event.value) && !is_like_the_last;
        client.wrote = event.value;
        self.serving(event.tid).active = index;
        self.op(event, Act::Write, index, 0);
    }

    /// What lay at this address before has ended, if there was anything. What was written last may be TLS's farewell:
    /// that is no part of the response, which was over before the pause (an idle connection that the server closes).
    fn ended(&mut self, sk: u64) {
        if let Some(client) = self.clients.remove(&sk) {
            self.leave_out_farewell(&client);
        }
    }

    /// The server ends a client's connection; what the client sends yet belongs to it.
    fn hung_up(&mut self, event: &Event) {
        let Some(client) = self.clients.get_mut(&event.sk) else {
            return;
        };
        if std::mem::replace(&mut client.hung_up, true) {
            return;
        }
        let client = client.clone();
        self.leave_out_farewell(&client);
        let last = self.sockets.turns.get(client.turn as usize);
        let answered = last.filter(|turn| turn.answered).map(|turn| turn.end);
        let target = last.map(|turn| turn.target);
        let target = target.or_else(|| self.traced.ports.get(&event.port).copied());
        let Some(counts) = target.and_then(|target| self.sockets.counts.get_mut(target)) else {
            return;
        };
        counts.closed += 1;
        if let Some(end) = answered {
            counts.rested += 1;
            counts.rested_ns += event.at_ns.saturating_sub(end);
        }
    }

    fn leave_out_farewell(&mut self, client: &Client) {
        let turn = self.sockets.turns.get_mut(client.turn as usize);
        let Some(turn) = turn.filter(|_| client.closing) else {
            return;
        };
        let Some((end, bytes)) = turn.before_pause else {
            return;
        };
        if turn.written_bytes - bytes > FAREWELL_BYTES {
            return;
        }
        turn.end = end;
        turn.written_bytes = bytes;
        let last = self.sockets.ops.iter_mut().rev();
        for op in last.take_while(|op| op.at > end) {
            if op.turn == client.turn {
                op.turn = NONE;
            }
        }
    }

    /// A thread answers a request: with what it has just taken from the peer that was asked when the request was read?
    fn relayed(&mut self, tid: u32, target: usize, turn: u32) {
        let asked = self.begun.remove(&turn);
        let Some(Relay::Took(peer)) = self.relays.remove(&tid) else {
            return;
        };
        if asked == Some(peer) {
            *self.sockets.counts[target].relayed.entry(peer).or_default() += 1;
        }
    }

    /// A thread gives the first of its response to a request that was read then.
    fn responded(&mut self, tid: u32, read: u64) {
        let brought = &mut self.serving(tid).brought;
        if brought.at == 0 || read > brought.at {
            return;
        }
        brought.responses += 1;
        let (sk, several) = (brought.sk, brought.responses == 2 && !brought.mixed);
        if several && let Some(shared) = self.sockets.shared.get_mut(&sk) {
            shared.for_several += 1;
        }
    }

    /// A thread has read an answer of an upstream.
    fn brought(&mut self, event: &Event, exchange: Loose) {
        let shared = self.sockets.shared.entry(event.sk).or_default();
        shared.take(exchange);
        let brought = &mut self.serving(event.tid).brought;
        if brought.at == 0 || brought.responses > 0 {
            *brought = Brought::default();
            brought.sk = event.sk;
        }
        brought.at = event.at_ns;
        brought.mixed |= brought.sk != event.sk;
    }

    /// The turn that a thread serves now, if that can be told.
    fn served(&mut self, event: &Event) -> u32 {
        if self.traced.green.contains(&event.tgid) {
            return NONE;
        }
        let serving = self.serving(event.tid);
        let (active, waiting) = (serving.active, !serving.unanswered.is_empty());
        let only = match serving.unanswered[..] {
            [only] => only,
            _ => NONE,
        };
        // Nothing is asked for a request that has its response, while others have none.
        let over = self.sockets.turns.get(active as usize);
        match over.is_some_and(|turn| turn.answered) && waiting {
            false if active != NONE => active,
            _ => only,
        }
    }

    /// Peer of an event's socket then.
    fn named_at(&self, event: &Event) -> Option<u32> {
        let named = self.named.get(&event.sk)?;
        let before = named.partition_point(|&(at, _)| at <= event.at_ns + SEND_CALL_NS);
        named[..before].last().map(|&(_, peer)| peer)
    }

    fn is_control(&self, event: &Event) -> bool {
        let control = |peer| self.controls.contains(&peer);
        !self.controls.is_empty() && self.named_at(event).is_some_and(control)
    }

    fn upstream(&mut self, event: &Event) -> &mut Upstream {
        let target = self.traced.members.get(&event.tgid).copied();
        let peer = self.named_at(event);
        let peer = peer.unwrap_or_else(|| self.peer("unknown peer"));
        let upstream = self.upstreams.entry(event.sk).or_default();
        if !upstream.known {
            upstream.known = true;
            upstream.turn = NONE;
            upstream.target = target.unwrap_or_default();
        }
        upstream.peer = peer;
        upstream
    }

    fn connecting(&mut self, event: &Event) {
        let turn = self.served(event);
        let upstream = self.upstream(event);
        *upstream = Upstream {
            turn,
            asker: event.tid,
            peer: upstream.peer,
            target: upstream.target,
            known: true,
            asked: (turn == NONE).then_some(event.at_ns),
            arrived: None,
            opened: turn != NONE,
            datagrams: VecDeque::new(),
        };
        let peer = upstream.peer;
        if turn != NONE {
            self.op(event, Act::Connect, turn, peer);
        }
    }

    fn asked(&mut self, event: &Event) {
        let served = self.served(event);
        if event.class() == Class::Udp {
            return self.asked_by_datagram(event, served);
        }
        let begun = self.upstream(event).turn;
        let open = self.is_open(begun);
        let green = self.traced.green.contains(&event.tgid);
        if let Some(&Relay::Read(read)) = self.relays.get(&event.tid) {
            let peer = self.upstream(event).peer;
            self.begun.entry(read).or_insert(peer);
        }
        let upstream = self.upstream(event);
        // More of the same request, or the first of what the connection was opened for: whoever began it. A loop that
        // is told that it may write is by then at somebody else's. Of a request that has been answered there is no
        // more, nor does another thread go on with it: what nobody answers (a wake-up, a log) is a question of each.
        let same = upstream.asker == event.tid || green;
        let more = upstream.asked.is_some() && open && same;
        let first = upstream.opened && open;
        let peer = upstream.peer;
        let turn = match more || first {
            true => begun,
            false if self.is_anyones(event, served, peer) => NONE,
            false => served,
        };
        if !more {
            self.no_longer_open(begun, event.sk);
            if turn != NONE {
                self.open.entry(turn).or_default().push((event.sk, peer));
            }
        }
        let upstream = self.upstream(event);
        upstream.opened = false;
        upstream.turn = turn;
        if !more {
            upstream.asked = Some(event.at_ns);
            upstream.asker = event.tid;
            let early = upstream
                .arrived
                .filter(|at| at + SEND_CALL_NS < event.at_ns);
            // What lay there unread before is no answer to this.
            if early.is_some() {
                upstream.arrived = None;
            }
        }
        if turn != NONE {
            self.op(event, Act::Ask, turn, peer);
        }
    }

    /// Each datagram is a question of its own, whatever else is asked on its socket.
    fn asked_by_datagram(&mut self, event: &Event, served: u32) {
        let upstream = self.upstream(event);
        if upstream.datagrams.len() == MOST_DATAGRAMS {
            upstream.datagrams.pop_front();
        }
        upstream.datagrams.push_back((event.at_ns, served));
        let peer = upstream.peer;
        if served != NONE {
            self.open.entry(served).or_default().push((event.sk, peer));
            self.op(event, Act::Ask, served, peer);
        }
    }

    /// A loop that has read several requests may ask for all of them after that: one after the other on connections of
    /// their own, while the last that it read has asked already.
    fn is_anyones(&mut self, event: &Event, served: u32, peer: u32) -> bool {
        let several = self.serving(event.tid).unanswered.len() > 1;
        let open = self.open.get(&served).into_iter().flatten();
        let mut others = open.filter(|(sk, _)| *sk != event.sk);
        several && others.any(|(_, asked)| *asked == peer)
    }

    /// A turn that is known and has no response yet.
    fn is_open(&self, turn: u32) -> bool {
        let turn = self.sockets.turns.get(turn as usize);
        turn.is_some_and(|turn| !turn.answered)
    }

    fn taken(&mut self, event: &Event) {
        let upstream = self.upstream(event);
        if event.class() == Class::Udp {
            // Which question it answers lies in the datagram: they are held to be answered in their order, which leaves
            // the mean as it is.
            let lost = |&(at, _): &(u64, u32)| at + DATAGRAM_LOST_NS < event.at_ns;
            while upstream.datagrams.front().is_some_and(lost) {
                upstream.datagrams.pop_front();
            }
            let question = upstream.datagrams.pop_front();
            upstream.asked = question.map(|(at, _)| at);
            upstream.turn = question.map_or(NONE, |(_, turn)| turn);
        }
        let asked = upstream.asked.take();
        let arrived = upstream.arrived.take();
        let (turn, peer, target) = (upstream.turn, upstream.peer, upstream.target);
        if self.traced.green.contains(&event.tgid) {
            self.relays.insert(event.tid, Relay::Took(peer));
        }
        self.no_longer_open(turn, event.sk);
        if let Some(counts) = self.sockets.counts.get_mut(target) {
            let in_window = asked.is_some_and(|asked| asked >= self.traced.begin_ns);
            counts.answers += u64::from(in_window);
        }
        let exchange = asked.map(|asked| Loose {
            tid: event.tid,
            target,
            peer,
            asked,
            arrived: arrived.unwrap_or(event.at_ns).clamp(asked, event.at_ns),
            read: event.at_ns,
        });
        if let Some(exchange) = exchange {
            self.brought(event, exchange);
        }
        let goes_on = asked.is_none() && arrived.is_none();
        if turn == NONE {
            self.sockets.loose.extend(exchange);
            let name = self
                .named_at(event)
                .map(|name| &self.sockets.peers[name as usize]);
            // Whoever wakes a loop of its own process over a nameless pair brings it no answer.
            let named = name.is_some_and(|name| name != UNNAMED);
            let more = (exchange.is_none() && named).then(|| Loose {
                tid: event.tid,
                target,
                peer,
                asked: 0,
                arrived: arrived.unwrap_or(event.at_ns),
                read: event.at_ns,
            });
            self.sockets.unasked.extend(more);
        }
        if goes_on {
            self.take_on(event, turn, peer);
        } else {
            // That nobody waited for it is all that is known where it is no turn's.
            let arrived = arrived.filter(|_| turn != NONE).unwrap_or(event.at_ns);
            self.op(event, Act::Take { arrived }, turn, peer);
        }
        self.serving(event.tid).active = turn;
    }

    fn no_longer_open(&mut self, turn: u32, sk: u64) {
        if let Some(open) = self.open.get_mut(&turn) {
            open.retain(|(asked, _)| *asked != sk);
            if open.is_empty() {
                self.open.remove(&turn);
            }
        }
    }

    fn accepted(&mut self, event: &Event) {
        // Whatever lay at this address before was another connection.
        self.ended(event.sk);
        self.client(event.sk).begun = true;
        let target = self.traced.ports.get(&event.port).copied();
        if let Some(counts) = target.and_then(|target| self.sockets.counts.get_mut(target)) {
            counts.accepted += 1;
        }
    }

    fn closed(&mut self, event: &Event) {
        if event.class().is_client() {
            self.hung_up(event);
        }
        if let Some(upstream) = self.upstreams.remove(&event.sk) {
            self.no_longer_open(upstream.turn, event.sk);
            let shared = self.sockets.shared.get(&event.sk);
            if shared.is_some_and(|shared| !shared.is_shared()) {
                self.sockets.shared.remove(&event.sk);
            }
            self.given_up(&upstream, event.at_ns);
            // Whoever waited for a datagram does so no more.
            let peer = upstream.peer;
            for (_, turn) in upstream
                .datagrams
                .into_iter()
                .filter(|&(_, turn)| turn != NONE)
            {
                self.no_longer_open(turn, event.sk);
                self.sockets.ops.push(Op {
                    at: event.at_ns,
                    tid: event.tid,
                    act: Act::GiveUp,
                    turn,
                    peer,
                    written: 0,
                });
            }
        }
    }

    /// A connection to an upstream has ended, maybe before what was asked on it last was answered.
    fn given_up(&mut self, upstream: &Upstream, at: u64) {
        let waited_ns = |asked: u64| {
            let queued_ns = self.threads.queued_ns(upstream.asker, asked, at);
            at.saturating_sub(asked).saturating_sub(queued_ns)
        };
        let asked = upstream
            .asked
            .filter(|asked| waited_ns(*asked) >= FAREWELL_NS);
        let Some(asked) = asked.filter(|_| upstream.known) else {
            return;
        };
        let (target, peer, turn) = (upstream.target, upstream.peer, upstream.turn);
        let counts = self.sockets.counts.get_mut(target);
        if let Some(counts) = counts.filter(|_| asked >= self.traced.begin_ns) {
            counts.given_up.push(at - asked);
        }
        if turn == NONE {
            self.sockets.loose.push(Loose {
                tid: upstream.asker,
                target,
                peer,
                asked,
                arrived: at,
                read: at,
            });
        } else {
            self.sockets.ops.push(Op {
                at,
                tid: upstream.asker,
                act: Act::GiveUp,
                turn,
                peer,
                written: 0,
            });
        }
    }
}
