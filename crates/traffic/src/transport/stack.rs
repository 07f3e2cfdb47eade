//! TCP in user space over a device (TAP, AF_XDP, packet rings): a slot is a flow of [`stack::tcp::Stack`].
//!
//! Bytes to be sent lie in a ring of the slot until they are acknowledged, since the stack keeps none and asks for
//! them again when they were lost. What is received is copied once, out of the device's frame into an arena that
//! lives until the next wait. The surprise: nothing leaves or arrives outside [`Transport::wait`], which is what
//! gathers packets; with `coalesce_ns` it lets them gather on purpose, and that time is in every latency.

use super::{Event, Failure, Generation, OpenCount, Received, Slot, Tagged, Transport, Want};
use crate::clock::now_ns;
use crate::side_report;
use crate::sys::{self, Errno};
use ::stack::device::Device;
use ::stack::error::Error;
use ::stack::host::Host;
use ::stack::link;
use ::stack::tcp::{App, ConnectError, Ended, Event as Happened, FlowId, Settings, Stack};
use record::{Close, FailureKind, Nanos};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Room for what one look at the device brings.
const ARENA_BYTES: usize = 4 << 20;
/// The most that one frame can bring.
const FRAME_BYTES: usize = 64 * 1024;
/// Frames that are taken before the loop has its turn.
const BATCH: usize = 256;
/// No piece, no slot.
const NONE: u32 = u32::MAX;
/// The stack's word for a flow that belongs to no slot any more.
const NOBODY: u32 = NONE;

/// Bytes in the arena that wait for [`Transport::recv`].
#[derive(Clone, Copy)]
struct Piece {
    from: u32,
    to: u32,
    next: u32,
    /// When the last of it came.
    at: u64,
}

/// What a slot has to tell.
#[derive(Clone, Copy, Default)]
struct News {
    is_listed: bool,
    opened: bool,
    readable: bool,
    writable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Connecting,
    Open,
}

/// One slot.
struct Line {
    state: State,
    flow: Option<FlowId>,
    generation: Generation,
    news: News,
    opened_at: u64,
    /// Bytes taken from the loop, and acknowledged, since the connection opened.
    sent: u64,
    acked: u64,
    /// The loop had more than there was room for.
    wants_room: bool,
    first: u32,
    last: u32,
    /// It stands in [`Slots::unread`].
    is_unread: bool,
    peer_closed: bool,
    failure: Option<FailureKind>,
}

/// The program that the stack sees.
struct Slots {
    lines: Vec<Line>,
    /// Rings of all slots, one behind the other.
    rings: Box<[u8]>,
    ring_bytes: usize,
    arena: Box<[u8]>,
    arena_used: usize,
    /// Where unread bytes move to at the next wait.
    other: Box<[u8]>,
    pieces: Vec<Piece>,
    other_pieces: Vec<Piece>,
    /// Slots with news, in order.
    listed: Vec<Slot>,
    /// Slots with unread bytes, each once, and some whose bytes nobody wants any more.
    unread: Vec<Slot>,
    open_count: Arc<OpenCount>,
}

impl Slots {
    fn news(&mut self, slot: Slot) -> &mut News {
        let news = &mut self.lines[slot as usize].news;
        if !news.is_listed {
            news.is_listed = true;
            self.listed.push(slot);
        }
        news
    }

    fn keep(&mut self, slot: Slot, bytes: &[u8]) {
        let (from, to) = (self.arena_used, self.arena_used + bytes.len());
        self.arena[from..to].copy_from_slice(bytes);
        self.arena_used = to;
        self.note_piece(slot, from as u32, to as u32, now_ns());
    }

    fn note_piece(&mut self, slot: Slot, from: u32, to: u32, at: u64) {
        let line = &mut self.lines[slot as usize];
        // The first stays as it is: the first byte has a time of its own.
        if line.last != line.first {
            let last = &mut self.pieces[line.last as usize];
            if last.to == from {
                (last.to, last.at) = (to, at);
                return;
            }
        }
        let index = self.pieces.len() as u32;
        self.pieces.push(Piece {
            from,
            to,
            next: NONE,
            at,
        });
        match line.last {
            NONE => {
                line.first = index;
                if !std::mem::replace(&mut line.is_unread, true) {
                    self.unread.push(slot);
                }
            }
            last => self.pieces[last as usize].next = index,
        }
        self.lines[slot as usize].last = index;
    }

    /// Begins the arena anew; what was not read moves to its beginning.
    fn turn_over(&mut self) {
        let unread = std::mem::take(&mut self.unread);
        let had = std::mem::take(&mut self.arena_used);
        if unread
            .iter()
            .all(|slot| self.lines[*slot as usize].first == NONE)
        {
            self.pieces.clear();
            self.unread = unread;
            for slot in self.unread.drain(..) {
                self.lines[slot as usize].is_unread = false;
            }
            return;
        }
        std::mem::swap(&mut self.arena, &mut self.other);
        std::mem::swap(&mut self.pieces, &mut self.other_pieces);
        self.pieces.clear();
        for slot in &unread {
            let slot = *slot;
            let line = &mut self.lines[slot as usize];
            let mut at = std::mem::replace(&mut line.first, NONE);
            (line.last, line.is_unread) = (NONE, false);
            while at != NONE {
                let piece = self.other_pieces[at as usize];
                let (from, len) = (self.arena_used, (piece.to - piece.from) as usize);
                self.arena[from..from + len]
                    .copy_from_slice(&self.other[piece.from as usize..piece.to as usize]);
                self.arena_used += len;
                self.note_piece(slot, from as u32, (from + len) as u32, piece.at);
                at = piece.next;
            }
        }
        // `note_piece` has filled a list of its own; the longer one is kept.
        if unread.capacity() > self.unread.capacity() {
            let mut kept = unread;
            kept.clear();
            kept.append(&mut self.unread);
            self.unread = kept;
        }
        debug_assert!(self.arena_used <= had);
    }

    /// Bytes that may still be received before the loop must read.
    fn room(&self) -> usize {
        self.arena.len() - self.arena_used
    }
}

impl App for Slots {
    #[inline]
    fn pull(&mut self, _: FlowId, user: u32, offset: u64, into: &mut [u8]) {
        debug_assert!(
            user != NOBODY,
            "a slot that is closed orderly has nothing unacknowledged"
        );
        let ring = self.ring_bytes;
        let base = user as usize * ring;
        let begin = (offset % ring as u64) as usize;
        let first = into.len().min(ring - begin);
        into[..first].copy_from_slice(&self.rings[base + begin..base + begin + first]);
        let rest = into.len() - first;
        into[first..].copy_from_slice(&self.rings[base..base + rest]);
    }

    #[inline]
    fn received(&mut self, _: &mut Stack, _: FlowId, user: u32, bytes: &[u8]) {
        if user != NOBODY {
            self.keep(user, bytes);
            self.news(user).readable = true;
        }
    }

    fn event(&mut self, _: &mut Stack, _: FlowId, user: u32, event: Happened) {
        if user == NOBODY {
            return;
        }
        let line = &mut self.lines[user as usize];
        match event {
            Happened::Connected => {
                line.state = State::Open;
                line.opened_at = now_ns();
                self.open_count.add();
                self.news(user).opened = true;
            }
            Happened::Acked { offset } => {
                line.acked = offset;
                if line.wants_room {
                    line.wants_room = false;
                    self.news(user).writable = true;
                }
            }
            Happened::PeerClosed => {
                line.peer_closed = true;
                self.news(user).readable = true;
            }
            Happened::Ended(why) => {
                line.flow = None;
                line.failure = match why {
                    Ended::Orderly => None,
                    Ended::Refused => Some(FailureKind::ConnectRefused),
                    Ended::Reset => Some(FailureKind::Reset),
                    Ended::TimedOut if line.state == State::Connecting => {
                        Some(FailureKind::ConnectTimeout)
                    }
                    Ended::TimedOut => Some(FailureKind::Timeout),
                    Ended::Unreachable => Some(FailureKind::ConnectFailed),
                };
                line.peer_closed = true;
                self.news(user).readable = true;
            }
            Happened::Accepted => {}
        }
    }
}

fn words(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::ConnectRefused => "the server answered the SYN with a reset",
        FailureKind::Reset => "the server reset the connection",
        FailureKind::ConnectTimeout => "the SYN was not answered",
        FailureKind::Timeout => "what was sent was not acknowledged",
        FailureKind::NoLocalPort => "no local port of this source is free for the server",
        _ => {
            "nobody answers ARP or neighbour discovery for the server, or a router says it is unreachable"
        }
    }
}

/// How a [`UserSpace`] is set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Where to.
    pub server: SocketAddr,
    /// Addresses of ours, used in turn.
    pub sources: Vec<IpAddr>,
    /// The link under the device; the device says its link address.
    pub link: link::Settings,
    /// Of TCP.
    pub settings: Settings,
    /// How long packets may gather before they are looked at; 0 looks at once.
    pub coalesce_ns: u64,
    /// With 0, look without sleeping: there is another CPU for the server.
    pub spins: bool,
    /// The longest run of bytes that the loop hands over at a time.
    pub request_bytes: usize,
    /// Of ports and initial sequence numbers.
    pub seed: u64,
}

/// The transport; see the module.
pub(crate) struct UserSpace<D: Device> {
    host: Host<D>,
    slots: Slots,
    server: SocketAddr,
    sources: usize,
    next_source: usize,
    coalesce_ns: u64,
    /// The thread does not sleep while it waits: packets are looked at as soon as they are there.
    spins: bool,
    spun_ns: u64,
    pauses: u64,
}

impl<D: Device> UserSpace<D> {
    /// A transport of `slots` closed slots over `device`.
    ///
    /// # Errors
    /// The addresses do not fit the link.
    pub fn new(
        slots: u32,
        device: D,
        setup: &Setup,
        open_count: Arc<OpenCount>,
    ) -> Result<Self, Error> {
        let ring_bytes = (setup.request_bytes * 2)
            .next_power_of_two()
            .clamp(256, 64 * 1024);
        let line = |_| Line {
            state: State::Closed,
            flow: None,
            generation: 0,
            news: News::default(),
            opened_at: 0,
            sent: 0,
            acked: 0,
            wants_room: false,
            first: NONE,
            last: NONE,
            is_unread: false,
            peer_closed: false,
            failure: None,
        };
        Ok(UserSpace {
            host: Host::new(
                device,
                &setup.link,
                setup.settings.clone(),
                &setup.sources,
                setup.seed,
                now_ns(),
            )?,
            slots: Slots {
                lines: (0..slots).map(line).collect(),
                rings: vec![0; ring_bytes * slots as usize].into_boxed_slice(),
                ring_bytes,
                arena: vec![0; ARENA_BYTES].into_boxed_slice(),
                arena_used: 0,
                other: vec![0; ARENA_BYTES].into_boxed_slice(),
                pieces: Vec::with_capacity(BATCH * 4),
                other_pieces: Vec::with_capacity(BATCH * 4),
                listed: Vec::with_capacity(slots as usize),
                unread: Vec::with_capacity(slots as usize),
                open_count,
            },
            server: setup.server,
            sources: setup.sources.len(),
            next_source: 0,
            coalesce_ns: setup.coalesce_ns,
            spins: setup.spins && setup.coalesce_ns == 0,
            spun_ns: 0,
            pauses: 0,
        })
    }

    /// Takes what the device has.
    fn receive(&mut self, now: u64) -> std::io::Result<usize> {
        let mut total = 0;
        while total < BATCH {
            let room = (self.slots.room() / FRAME_BYTES).min(BATCH - total);
            if room == 0 {
                break;
            }
            let got = self.host.receive(now, room, &mut self.slots)?;
            total += got;
            if got < room {
                break;
            }
        }
        Ok(total)
    }

    fn look(&mut self, timeout_ns: u64) -> std::io::Result<()> {
        let begin = now_ns();
        self.host.send(begin, &mut self.slots)?;
        let until = begin.saturating_add(timeout_ns);
        let mut gather = self.coalesce_ns;
        let mut idle_since = None;
        loop {
            let now = now_ns();
            if let Some(since) = idle_since.take() {
                self.spun_ns += now.saturating_sub(since);
            }
            if gather == 0 && self.receive(now)? > 0 && self.slots.listed.is_empty() {
                // Nothing for the loop. Where there is, its requests and closes carry the acknowledgements: it comes
                // back here at once.
                self.host.send(now, &mut self.slots)?;
            }
            if !self.slots.listed.is_empty() || now >= until {
                return Ok(());
            }
            let due = self.host.next_deadline_ns().unwrap_or(u64::MAX).min(until);
            let left = due.saturating_sub(now);
            if gather > 0 {
                // One pause a wait, and not beyond what is due.
                self.pauses += 1;
                sys::pause(gather.min(left));
                gather = 0;
                continue;
            }
            if self.spins && left > 0 {
                // Waking up takes longer than many a response: what is asked for by no coalescing is the time itself.
                idle_since = Some(now);
                std::hint::spin_loop();
                continue;
            }
            self.host.wait(left)?;
            let now = now_ns();
            self.host.send(now, &mut self.slots)?;
        }
    }

    fn report(&mut self, events: &mut Vec<Tagged>) {
        let mut done = 0;
        for at in 0..self.slots.listed.len() {
            if events.len() + 2 > events.capacity() {
                break;
            }
            let slot = self.slots.listed[at];
            let line = &mut self.slots.lines[slot as usize];
            let news = std::mem::take(&mut line.news);
            let generation = line.generation;
            done = at + 1;
            let mut tell = |event| {
                events.push(Tagged {
                    slot,
                    generation,
                    event,
                })
            };
            match line.state {
                State::Closed => continue,
                State::Connecting => {
                    if let Some(kind) = line.failure.take() {
                        line.state = State::Closed;
                        tell(Event::OpenFailed(Failure::text(kind, words(kind))));
                    }
                    continue;
                }
                State::Open => {}
            }
            if news.opened {
                tell(Event::Opened);
            }
            if news.readable || news.writable {
                tell(Event::Ready {
                    readable: news.readable,
                    writable: news.writable,
                    hangup: line.peer_closed,
                });
            }
        }
        self.slots.listed.drain(..done);
    }

    /// In latency mode nothing waits for the rest of the loop's turn.
    #[inline]
    fn send_at_once(&mut self) {
        if self.spins {
            // A device that has gone says so at the next wait. What has come meanwhile is taken for its time's sake.
            let now = now_ns();
            let sent = self.host.send(now, &mut self.slots);
            let _ = sent.and_then(|()| self.receive(now));
        }
    }
}

impl<D: Device> Transport for UserSpace<D> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let source = self.next_source % self.sources;
        self.next_source = source + 1;
        let flow = self
            .host
            .stack
            .connect(now_ns(), source, self.server, slot)
            .map_err(|error| match error {
                ConnectError::NoPort => {
                    Failure::text(FailureKind::NoLocalPort, words(FailureKind::NoLocalPort))
                }
                ConnectError::NoFlow => {
                    Failure::text(FailureKind::ConnectFailed, "the stack has no flow left")
                }
                ConnectError::NoSource => Failure::text(
                    FailureKind::ConnectFailed,
                    "no source address of the server's family",
                ),
            })?;
        let line = &mut self.slots.lines[slot as usize];
        line.state = State::Connecting;
        line.flow = Some(flow);
        line.generation = generation;
        (line.sent, line.acked, line.wants_room) = (0, 0, false);
        (line.peer_closed, line.failure) = (false, None);
        self.send_at_once();
        Ok(())
    }

    #[inline]
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let ring = self.slots.ring_bytes;
        let line = &mut self.slots.lines[slot as usize];
        let Some(flow) = line.flow.filter(|_| line.state == State::Open) else {
            let kind = line.failure.unwrap_or(FailureKind::Reset);
            return Err(Failure::text(kind, words(kind)));
        };
        let room = ring - (line.sent - line.acked) as usize;
        let len = bytes.len().min(room);
        let begin = (line.sent % ring as u64) as usize;
        let base = slot as usize * ring;
        let first = len.min(ring - begin);
        self.slots.rings[base + begin..base + begin + first].copy_from_slice(&bytes[..first]);
        self.slots.rings[base..base + len - first].copy_from_slice(&bytes[first..len]);
        let taken = self.host.stack.send(flow, len);
        line.sent += taken as u64;
        line.wants_room = taken < bytes.len();
        self.send_at_once();
        Ok(taken)
    }

    #[inline]
    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        let line = &mut self.slots.lines[slot as usize];
        if line.first == NONE {
            if let Some(kind) = line.failure {
                return Err(Failure::text(kind, words(kind)));
            }
            return Ok(match (line.state, line.peer_closed) {
                (State::Open, true) => Received::End { orderly: true },
                _ => Received::Blocked,
            });
        }
        let piece = &mut self.slots.pieces[line.first as usize];
        let (Want::Bytes(limit) | Want::Discard(limit)) = want;
        let (from, end) = (piece.from as usize, piece.to as usize);
        let to = end.min(from.saturating_add(limit));
        piece.from = to as u32;
        if to == end {
            line.first = piece.next;
            if line.first == NONE {
                line.last = NONE;
            }
        }
        let more = line.first != NONE || line.peer_closed;
        Ok(match want {
            Want::Bytes(_) => Received::Data {
                bytes: &self.slots.arena[from..to],
                more,
            },
            Want::Discard(_) => Received::Discarded {
                len: to - from,
                more,
            },
        })
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let line = &mut self.slots.lines[slot as usize];
        let was = std::mem::replace(&mut line.state, State::Closed);
        if was == State::Open {
            self.slots.open_count.sub();
        }
        // The slot's ring is the next connection's: what the peer has not acknowledged cannot be sent again.
        let is_whole = line.acked == line.sent;
        if let Some(flow) = line.flow.take() {
            self.host.stack.set_user(flow, NOBODY);
            if how == Close::Rst || !is_whole {
                self.host.stack.abort(flow);
            } else {
                self.host.stack.close_and_forget(flow);
            }
        }
        let line = &mut self.slots.lines[slot as usize];
        (line.first, line.last) = (NONE, NONE);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        if self.slots.listed.is_empty() {
            self.slots.turn_over();
            self.look(timeout_ns).map_err(|error| {
                let errno = Errno(error.raw_os_error().unwrap_or(libc::EIO));
                Failure::io("the device", errno)
            })?;
        }
        self.report(events);
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        self.host.device.counters().syscalls + self.pauses
    }

    fn opened_at(&self, slot: Slot) -> Option<u64> {
        Some(self.slots.lines[slot as usize].opened_at)
    }

    #[inline]
    fn came_at(&self, slot: Slot) -> Option<u64> {
        match self.slots.lines[slot as usize].first {
            NONE => None,
            first => Some(self.slots.pieces[first as usize].at),
        }
    }

    fn spun_ns(&self) -> u64 {
        self.spun_ns
    }

    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        Some(record::traffic::SideOutcome {
            side: "client".to_owned(),
            transport: self.name(),
            ..side_report::counted(&self.host, &[::stack::tcp::CLIENT])
        })
    }

    fn name(&self) -> String {
        side_report::transport(&self.host, Nanos(self.coalesce_ns), self.spins)
    }
}

impl<D: Device> Drop for UserSpace<D> {
    fn drop(&mut self) {
        // A peer would else hold what is open until its own timeouts, and meet the next run's numbers with doubt.
        self.host.end(now_ns(), &mut self.slots);
    }
}
