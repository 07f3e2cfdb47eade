//! A server and the network to it on simulated time, as a [`Transport`] and a [`LoopClock`] over one [`World`].
//!
//! Time passes only in `wait`, `pause` and `spin`, and by what a call costs in the case, so that a case is exact and
//! repeats. The world keeps books of what truly happened, for comparison with what the loop says. What no loop may do
//! (touch a closed connection, send other bytes, turn without time passing) ends the case at once.

use super::timeline::{Timeline, What};
use crate::clock::LoopClock;
use crate::random::Random;
use crate::sys::Errno;
use crate::transport::{Event, Failure, Generation, Received, Slot, Tagged, Transport, Want};
use record::{Clock, Close, Nanos};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// The request of every case.
pub(super) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: simulated\r\n\r\n";
/// Waits in a row without an event, a call or time in between.
const TURNS_MAX: u32 = 50;
/// Calls in one case.
const CALLS_MAX: u64 = 200_000;
/// One turn of a spin.
const SPIN_NS: u64 = 200;

/// How long something takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delay {
    /// Always so long, ns.
    Fixed(u64),
    /// Exponential with this mean, ns.
    Exponential(u64),
    /// Uniform between these, ns.
    Uniform(u64, u64),
}

impl Delay {
    fn draw(self, random: &mut Random) -> u64 {
        match self {
            Delay::Fixed(ns) => ns,
            Delay::Exponential(mean) => (random.exponential() * mean as f64) as u64,
            Delay::Uniform(from, to) => from + (random.unit() * (to - from) as f64) as u64,
        }
    }
}

/// What the server does to a request instead of responding well, or besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Responds with status 503.
    Status,
    /// Responds, and announces the close.
    Announce,
    /// Responds, and closes without a word.
    CloseAfter,
    /// Closes without a response.
    CloseEarly,
    /// Closes in the middle of the response.
    Truncate,
    /// Resets the connection.
    Reset,
    /// Responds, then resets the connection when it is idle.
    ResetAfter,
    /// Never responds.
    Stall,
    /// Responds with what is not HTTP.
    Garbage,
}

impl Mishap {
    pub const ALL: [Mishap; 9] = [
        Mishap::Status,
        Mishap::Announce,
        Mishap::CloseAfter,
        Mishap::CloseEarly,
        Mishap::Truncate,
        Mishap::Reset,
        Mishap::ResetAfter,
        Mishap::Stall,
        Mishap::Garbage,
    ];
}

/// The server of a case.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Until a connection is established.
    pub connect: Delay,
    /// Share of the attempts that are refused.
    pub refused: f64,
    /// Share of the attempts that nothing comes back for.
    pub ignored: f64,
    /// Share of the attempts for which the client's system has no port.
    pub no_port: f64,
    /// From a request to its response.
    pub service: Delay,
    /// One request is served at a time, over all connections.
    pub one_at_a_time: bool,
    /// Serves nothing from the one time to the other, counted from the first request.
    pub frozen: Option<(u64, u64)>,
    /// Share of the requests that a mishap befalls, and which.
    pub mishaps: (f64, Vec<Mishap>),
    /// Share of the responses that come in two pieces, and of the sends that are taken in part.
    pub in_pieces: f64,
    /// Length of a response's body.
    pub body: usize,
}

impl Server {
    /// Responds at once after `service`.
    pub fn healthy(service: Delay) -> Self {
        Server {
            connect: Delay::Fixed(100_000),
            refused: 0.0,
            ignored: 0.0,
            no_port: 0.0,
            service,
            one_at_a_time: false,
            frozen: None,
            mishaps: (0.0, Vec::new()),
            in_pieces: 0.0,
            body: 5,
        }
    }
}

/// What the generator's own machine does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machine {
    /// A thread that sleeps wakes so much later than asked for, at most.
    pub oversleep_ns: u64,
    /// What a call of the transport takes.
    pub call_ns: u64,
}

/// What truly happened.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub opened: u64,
    pub attempts: u64,
    pub open: u32,
    pub peak_open: u32,
    /// For each request on the wire when it was sent, and how many had been lost with their connection by then.
    pub sends: Vec<(u64, u64)>,
    /// When its response was received whole, by number on the wire; 0 for never.
    pub done: Vec<u64>,
    /// Requests whose connection was closed before their response.
    pub lost: u64,
    /// Responses received whole.
    pub responses: u64,
    /// First request at the server.
    pub first_request_at: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Connecting,
    Up,
}

#[derive(Debug)]
struct Link {
    state: State,
    generation: Generation,
    /// Bytes that the loop has sent on this connection.
    sent: u64,
    /// Requests of this connection that have no response: number on the wire, and the end of the response in the
    /// stream once the server has decided it.
    outstanding: VecDeque<(usize, Option<u64>)>,
    /// Bytes that the server has put into the stream, and the loop taken from it.
    written: u64,
    read: u64,
    inbox: Vec<u8>,
    /// The stream is over, by a reset or not.
    over: Option<bool>,
    /// The server has ended it: later requests get nothing.
    server_done: bool,
    /// When the server's last response on this connection leaves.
    last_at: u64,
}

impl Link {
    fn new() -> Self {
        Link {
            state: State::Down,
            generation: 0,
            sent: 0,
            outstanding: VecDeque::new(),
            written: 0,
            read: 0,
            inbox: Vec::new(),
            over: None,
            server_done: false,
            last_at: 0,
        }
    }
}

/// What the network brings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Coming {
    Opened,
    Refused,
    Bytes(Vec<u8>),
    End,
    Reset,
    Writable,
}

/// Ordered by time, then by when it was put there.
type Queued = Reverse<(u64, u64, Slot, Generation, Coming)>;

/// See the module.
#[derive(Debug)]
pub(super) struct World {
    pub now: u64,
    pub books: Books,
    pub timeline: Timeline,
    server: Server,
    body: Vec<u8>,
    machine: Machine,
    random: Random,
    links: Vec<Link>,
    queue: BinaryHeap<Queued>,
    queued: u64,
    /// When the server has served all it was asked, serving one at a time.
    free_at: u64,
    calls: u64,
    turns: u32,
    turned_at: u64,
}

impl World {
    pub fn new(server: Server, machine: Machine, slots: u32, seed: u64) -> Self {
        World {
            // No run's clock begins at 0.
            now: 1_000_000_000,
            books: Books::default(),
            timeline: Timeline::default(),
            body: vec![b'x'; server.body],
            server,
            machine,
            random: Random::seeded(seed),
            links: (0..slots).map(|_| Link::new()).collect(),
            queue: BinaryHeap::new(),
            queued: 0,
            free_at: 0,
            calls: 0,
            turns: 0,
            turned_at: 0,
        }
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.random.unit() <= share
    }

    fn note(&mut self, slot: Slot, what: What) {
        let generation = self.links[slot as usize].generation;
        self.timeline.note(self.now, slot, generation, what);
    }

    /// A call of the loop: it takes its time, and is progress.
    fn call(&mut self) {
        self.now += self.machine.call_ns;
        self.turns = 0;
        self.calls += 1;
        assert!(self.calls < CALLS_MAX, "the load does not end");
    }

    fn up(&self, slot: Slot, what: &str) {
        let state = self.links[slot as usize].state;
        assert!(
            state == State::Up,
            "the loop {what} on connection c{slot}, which is {state:?}"
        );
    }

    fn put(&mut self, at: u64, slot: Slot, coming: Coming) {
        self.queued += 1;
        let generation = self.links[slot as usize].generation;
        self.queue
            .push(Reverse((at, self.queued, slot, generation, coming)));
    }

    // ---- The loop's calls ----

    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        self.call();
        let link = &mut self.links[slot as usize];
        assert!(
            link.state == State::Down,
            "the loop opens connection c{slot}, which is {:?}",
            link.state
        );
        *link = Link {
            generation,
            ..Link::new()
        };
        self.books.attempts += 1;
        self.note(slot, What::Open);
        if self.chance(self.server.no_port) {
            self.note(slot, What::NoPort);
            return Err(Failure::connect("connect", Errno(libc::EADDRNOTAVAIL)));
        }
        self.links[slot as usize].state = State::Connecting;
        let at = self.now + self.server.connect.draw(&mut self.random);
        if self.chance(self.server.refused) {
            self.put(at, slot, Coming::Refused);
        } else if !self.chance(self.server.ignored) {
            self.put(at, slot, Coming::Opened);
        }
        Ok(())
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        self.call();
        self.up(slot, "sends");
        if self.links[slot as usize].over == Some(true) {
            self.note(slot, What::SendFailed);
            return Err(Failure::io("send", Errno(libc::EPIPE)));
        }
        let taken = if self.chance(self.server.in_pieces) {
            self.random.bits() as usize % (bytes.len() + 1)
        } else {
            bytes.len()
        };
        if taken < bytes.len() {
            let at = self.now + 50_000;
            self.put(at, slot, Coming::Writable);
        }
        let began = self.take_bytes(slot, &bytes[..taken]);
        self.note(slot, What::Sent(taken, bytes.len(), began));
        Ok(taken)
    }

    /// The server's side of a send; returns how many requests began in it.
    fn take_bytes(&mut self, slot: Slot, mut bytes: &[u8]) -> u64 {
        let mut began = 0;
        while !bytes.is_empty() {
            let link = &mut self.links[slot as usize];
            let place = (link.sent % REQUEST.len() as u64) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(REQUEST.len() - place));
            assert!(
                REQUEST[place..].starts_with(part),
                "the loop sends other bytes than its request on c{slot}"
            );
            if place == 0 {
                began += 1;
                link.outstanding.push_back((self.books.sends.len(), None));
                self.books.sends.push((self.now, self.books.lost));
                self.books.done.push(0);
            }
            link.sent += part.len() as u64;
            if place + part.len() == REQUEST.len() {
                self.serve(slot);
            }
            bytes = rest;
        }
        began
    }

    /// A whole request is at the server: decides what comes of it and when.
    fn serve(&mut self, slot: Slot) {
        let now = self.now;
        let first = *self.books.first_request_at.get_or_insert(now);
        if self.links[slot as usize].server_done {
            return;
        }
        let took = self.server.service.draw(&mut self.random);
        let mut at = now + took;
        if self.server.one_at_a_time {
            at = now.max(self.free_at) + took;
            self.free_at = at;
        }
        if let Some((from, to)) = self.server.frozen
            && (first + from..first + to).contains(&at)
        {
            at = first + to;
        }
        at = at.max(self.links[slot as usize].last_at);
        self.links[slot as usize].last_at = at;
        let (share, kinds) = &self.server.mishaps;
        let (share, kinds) = (*share, kinds.len());
        let mishap = self.chance(share).then(|| {
            let which = self.random.bits() as usize % kinds;
            self.server.mishaps.1[which]
        });
        self.respond(slot, at, mishap);
    }

    fn respond(&mut self, slot: Slot, at: u64, mishap: Option<Mishap>) {
        let ends = |m| !matches!(m, Mishap::Status);
        self.links[slot as usize].server_done |= mishap.is_some_and(ends);
        let status = match mishap {
            Some(Mishap::Status) => "503 Busy",
            _ => "200 OK",
        };
        let announced = match mishap {
            Some(Mishap::Announce) => "Connection: close\r\n",
            _ => "",
        };
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\n{announced}Content-Length: {}\r\n\r\n",
            self.server.body
        )
        .into_bytes();
        bytes.extend_from_slice(&self.body);
        let is_whole = match mishap {
            Some(Mishap::Stall | Mishap::Reset | Mishap::CloseEarly) => {
                bytes.clear();
                false
            }
            Some(Mishap::Truncate) => {
                bytes.truncate(bytes.len() - 1);
                false
            }
            Some(Mishap::Garbage) => {
                bytes = b"SSH-2.0-OpenSSH\r\n".to_vec();
                false
            }
            _ => true,
        };
        let link = &mut self.links[slot as usize];
        link.written += bytes.len() as u64;
        let written = link.written;
        if is_whole && let Some(asked) = link.outstanding.iter_mut().find(|o| o.1.is_none()) {
            asked.1 = Some(written);
        }
        let cut = if self.chance(self.server.in_pieces) {
            (self.random.unit() * bytes.len() as f64) as usize
        } else {
            0
        };
        let rest = bytes.split_off(cut);
        for piece in [bytes, rest].into_iter().filter(|piece| !piece.is_empty()) {
            self.put(at, slot, Coming::Bytes(piece));
        }
        let idle_at = at + self.random.bits() % 300_000;
        match mishap {
            Some(Mishap::Reset) => self.put(at, slot, Coming::Reset),
            Some(Mishap::ResetAfter) => self.put(idle_at, slot, Coming::Reset),
            Some(Mishap::CloseEarly | Mishap::Truncate | Mishap::Announce) => {
                self.put(at, slot, Coming::End);
            }
            Some(Mishap::CloseAfter) => self.put(idle_at, slot, Coming::End),
            _ => {}
        }
    }

    /// Takes bytes for the loop: how many, into `into` unless they are thrown away.
    fn recv(&mut self, slot: Slot, want: Want, into: &mut Vec<u8>) -> Result<Got, Failure> {
        self.call();
        self.up(slot, "receives");
        let limit = match want {
            Want::Bytes(limit) => limit.min(64 * 1024),
            Want::Discard(limit) => limit,
        };
        into.clear();
        let link = &mut self.links[slot as usize];
        let len = link.inbox.len().min(limit);
        if len == 0 {
            return match link.over {
                None => Ok(Got::Blocked),
                Some(false) => {
                    self.note(slot, What::SawEnd);
                    Ok(Got::End)
                }
                Some(true) => {
                    self.note(slot, What::SawReset);
                    Err(Failure::io("recv", Errno(libc::ECONNRESET)))
                }
            };
        }
        into.extend_from_slice(&link.inbox[..len]);
        link.inbox.drain(..len);
        link.read += len as u64;
        let mut complete = 0;
        while let Some(&(number, Some(end))) = link.outstanding.front()
            && end <= link.read
        {
            link.outstanding.pop_front();
            assert!(
                self.books.done[number] == 0,
                "request {number} has a second response"
            );
            self.books.done[number] = self.now;
            complete += 1;
        }
        self.books.responses += complete;
        self.note(slot, What::Received(len, complete));
        Ok(Got::Bytes(len, len == limit))
    }

    fn close(&mut self, slot: Slot) {
        self.call();
        let link = &mut self.links[slot as usize];
        if link.state == State::Down {
            return;
        }
        self.books.open -= u32::from(link.state == State::Up);
        link.state = State::Down;
        let outstanding = link.outstanding.len() as u64;
        self.books.lost += outstanding;
        self.note(slot, What::Closed(outstanding));
    }

    // ---- Time ----

    /// Lets time pass until something comes, or for so long.
    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) {
        let until = self.now.saturating_add(timeout_ns);
        if self.deliver(events) > 0 {
            return;
        }
        let next = self.queue.peek().map_or(u64::MAX, |queued| queued.0.0);
        if timeout_ns > 0 {
            assert!(
                next.min(until) < u64::MAX,
                "the loop waits for what will never come"
            );
            let oversleep = self.machine.oversleep_ns as f64 * self.random.unit();
            self.now = next.min(until) + oversleep as u64;
        }
        let came = self.deliver(events);
        self.turns = if came == 0 && self.now == self.turned_at {
            self.turns + 1
        } else {
            0
        };
        self.turned_at = self.now;
        assert!(
            self.turns < TURNS_MAX,
            "the loop turns without time passing: it waits for 0 ns again and again"
        );
    }

    /// What has come by now, as one batch of edge-triggered events: one for each connection, in the order in which
    /// they became ready, and for a new connection one more before it.
    fn deliver(&mut self, events: &mut Vec<Tagged>) -> usize {
        struct News {
            slot: Slot,
            opened: Option<Result<(), Failure>>,
            ready: [bool; 3],
        }
        let mut all: Vec<News> = Vec::new();
        while let Some(Reverse((at, ..))) = self.queue.peek()
            && *at <= self.now
        {
            let Some(Reverse((_, _, slot, generation, coming))) = self.queue.pop() else {
                break;
            };
            if self.links[slot as usize].generation != generation
                || self.links[slot as usize].state == State::Down
            {
                continue;
            }
            let place = all.iter().position(|news| news.slot == slot);
            let place = place.unwrap_or_else(|| {
                all.push(News {
                    slot,
                    opened: None,
                    ready: [false; 3],
                });
                all.len() - 1
            });
            let news = &mut all[place];
            match self.arrive(slot, coming) {
                Arrived::Opened(result) => news.opened = Some(result),
                Arrived::Ready(flags) => {
                    for (flag, new) in news.ready.iter_mut().zip(flags) {
                        *flag |= new;
                    }
                }
            }
        }
        let before = events.len();
        for news in all {
            let [readable, writable, hangup] = news.ready;
            let tag = |event| Tagged {
                slot: news.slot,
                generation: self.links[news.slot as usize].generation,
                event,
            };
            events.extend(news.opened.map(|result| match result {
                Ok(()) => tag(Event::Opened),
                Err(failure) => tag(Event::OpenFailed(failure)),
            }));
            if readable || writable || hangup {
                let ready = Event::Ready {
                    readable,
                    writable,
                    hangup,
                };
                events.push(tag(ready));
            }
        }
        events.len() - before
    }

    fn arrive(&mut self, slot: Slot, coming: Coming) -> Arrived {
        let what = match &coming {
            Coming::Opened => What::Opened,
            Coming::Refused => What::Refused,
            Coming::Bytes(bytes) => What::Arrived(bytes.len()),
            Coming::End => What::End,
            Coming::Reset => What::Reset,
            Coming::Writable => What::Writable,
        };
        self.note(slot, what);
        let link = &mut self.links[slot as usize];
        match coming {
            Coming::Opened => {
                link.state = State::Up;
                self.books.opened += 1;
                self.books.open += 1;
                self.books.peak_open = self.books.peak_open.max(self.books.open);
                Arrived::Opened(Ok(()))
            }
            Coming::Refused => {
                link.state = State::Down;
                let errno = Errno(libc::ECONNREFUSED);
                Arrived::Opened(Err(Failure::connect("connect", errno)))
            }
            Coming::Bytes(bytes) => {
                link.inbox.extend_from_slice(&bytes);
                Arrived::Ready([true, false, false])
            }
            Coming::End | Coming::Reset => {
                link.over = Some(coming == Coming::Reset);
                Arrived::Ready([true, coming == Coming::Reset, true])
            }
            Coming::Writable => Arrived::Ready([false, true, false]),
        }
    }
}

enum Arrived {
    Opened(Result<(), Failure>),
    /// Readable, writable, hangup.
    Ready([bool; 3]),
}

enum Got {
    /// So many, and whether there may be more.
    Bytes(usize, bool),
    Blocked,
    End,
}

/// The world as the loop's transport.
pub(super) struct SimTransport {
    world: Rc<RefCell<World>>,
    buffer: Vec<u8>,
}

/// The world as the loop's clock.
pub(super) struct SimClock(Rc<RefCell<World>>);

/// Both ends that the loop holds.
pub(super) fn ends(world: &Rc<RefCell<World>>) -> (SimTransport, SimClock) {
    let transport = SimTransport {
        world: Rc::clone(world),
        buffer: Vec::new(),
    };
    (transport, SimClock(Rc::clone(world)))
}

impl Transport for SimTransport {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        self.world.borrow_mut().open(slot, generation)
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        self.world.borrow_mut().send(slot, bytes)
    }

    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        let got = self.world.borrow_mut().recv(slot, want, &mut self.buffer)?;
        Ok(match (got, want) {
            (Got::Blocked, _) => Received::Blocked,
            (Got::End, _) => Received::End { orderly: true },
            (Got::Bytes(_, more), Want::Bytes(_)) => Received::Data {
                bytes: &self.buffer,
                more,
            },
            (Got::Bytes(len, more), Want::Discard(_)) => Received::Discarded { len, more },
        })
    }

    fn close(&mut self, slot: Slot, _: Close) {
        self.world.borrow_mut().close(slot);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        self.world.borrow_mut().wait(events, timeout_ns);
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        self.world.borrow().calls
    }

    fn name(&self) -> String {
        "simulated".to_owned()
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.borrow().now)
    }
}

impl LoopClock for SimClock {
    fn pause(&self, ns: u64) {
        self.0.borrow_mut().now += ns;
    }

    fn spin(&self) {
        self.0.borrow_mut().now += SPIN_NS;
    }
}
