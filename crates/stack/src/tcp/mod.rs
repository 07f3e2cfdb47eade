//! TCP (RFC 9293) for very many short flows: [`Stack`] takes frames and time, and gives frames and events.
//!
//! | file | holds |
//! |---|---|
//! | `input`, `acks` | a frame to its flow; acknowledgements, SACK, round trips |
//! | `payload` | what was received, in and out of order, to the program |
//! | `output` | what a flow may send now, into a device |
//! | `timers` | deadlines, and what happens at them |
//! | `flow`, `loss`, `reassembly`, `ranges` | the state of one connection, and what it needs only after a loss |
//! | `slab`, `table`, `wheel`, `addresses` | where flows lie, how they are found by tuple and by time |
//! | `congestion`, `seq` | arithmetic |
//! | `settings`, `counters` | what can be set, what was counted |
//!
//! Nothing is buffered to be sent: payload is pulled from the program by its offset in the stream ([`App::pull`]), and
//! again when it was lost. What is received in order is lent as slices of the frame. Calls of the program from inside
//! its own callbacks are safe: they change flags, and what they ask for is done by the next [`Stack::poll`].

mod acks;
mod addresses;
mod congestion;
mod counters;
mod flow;
mod input;
mod loss;
mod output;
mod payload;
mod ranges;
mod reassembly;
mod seq;
mod settings;
mod slab;
mod table;
mod timers;
mod wheel;

pub use counters::Counters;
pub use flow::State;
pub use settings::{CongestionControl, PortOrder, Settings, Stray};

use crate::device::{Capabilities, Device};
use crate::random::Random;
use crate::udp::Datagram;
use addresses::{Addresses, Way};
use flow::{Flow, NONE, bit};
use loss::Loss;
use output::StraySegment;
use reassembly::Pool;
use slab::Slab;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use table::Table;
use wheel::{TICK_SHIFT, Wheel};

/// Responses to segments without a flow that can wait to be sent.
const STRAYS_MAX: usize = 1_024;

/// A connection, from its beginning until [`Event::Ended`] or until the program has let go of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(u32);

impl FlowId {
    /// Below [`Settings::flows_max`]: for programs that keep it in as little room as it takes.
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The flow of a number that [`FlowId::number`] has given.
    #[inline]
    pub fn of_number(number: u32) -> Self {
        FlowId(number)
    }
}

/// Why a connection is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both sides have closed.
    Orderly,
    /// The peer has refused it (RST to our SYN).
    Refused,
    /// The peer has reset it.
    Reset,
    /// Nothing was acknowledged for too long.
    TimedOut,
    /// The peer, or its link address, cannot be reached.
    Unreachable,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Our connection is open.
    Connected,
    /// A peer's connection is open; [`Stack::set_user`] gives it a number.
    Accepted,
    /// All before this offset of our stream has arrived, and will not be pulled again.
    Acked {
        /// Bytes since the beginning of the connection.
        offset: u64,
    },
    /// The peer sends no more.
    PeerClosed,
    /// It is no more. Its number may be used for another from now on.
    Ended(Ended),
}

/// The program above the stack.
pub trait App {
    /// Fills `into` with the payload at `offset` of what was promised by [`Stack::send`]. Lost payload is asked for
    /// again.
    fn pull(&mut self, flow: FlowId, user: u32, offset: u64, into: &mut [u8]);

    /// Takes the next bytes of the peer's stream.
    fn received(&mut self, stack: &mut Stack, flow: FlowId, user: u32, bytes: &[u8]);

    /// Takes note of an event.
    fn event(&mut self, stack: &mut Stack, flow: FlowId, user: u32, event: Event);

    /// Takes a datagram. A program without UDP leaves it.
    fn datagram(&mut self, _: Datagram<'_>) {}

    /// Fills `into` with the payload of the datagram with that tag ([`crate::udp::Outgoing::tag`]).
    fn fill(&mut self, _tag: u64, _into: &mut [u8]) {}

    /// Takes note that a datagram did not arrive: nobody listens there, or there is no way.
    fn undelivered(&mut self, _from: SocketAddr, _to: SocketAddr) {}
}

/// Why a connection could not be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// [`Settings::flows_max`] flows exist, and hardly one is in TIME-WAIT.
    #[error("all flows are taken")]
    NoFlow,
    /// No port of this source is free for this target.
    #[error("no local port is free")]
    NoPort,
    /// There is no such source, or it is not of the target's family.
    #[error("there is no source address of the target's family")]
    NoSource,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// It was TCP for us.
    Taken,
    /// It is something else: ARP, ICMP, another host's.
    Foreign,
}

/// What the stack knows of the link.
#[derive(Clone, Copy, Debug)]
struct Link {
    mac: [u8; 6],
    mtu: usize,
    frame_max: usize,
    segments: bool,
    checksums: bool,
}

/// What may go by without being acted on (RFC 5961 7).
#[derive(Clone, Copy, Debug, Default)]
struct Challenges {
    second: u64,
    left: u32,
}

/// The stack; see the module.
pub struct Stack {
    settings: Settings,
    link: Link,
    secret: [u64; 2],
    flows: Slab<Flow>,
    table: Table,
    wheel: Wheel,
    losses: Slab<Loss>,
    pool: Pool,
    addresses: Addresses,
    next_ports: Vec<u16>,
    /// One bit a port.
    listening: Box<[u64]>,
    random: Random,
    half_open: u32,
    /// Where the search for a flow in TIME-WAIT goes on.
    next_recycled: u32,
    /// [`Stack::abort_all`] was called.
    ends: bool,
    challenges: Challenges,
    line: VecDeque<u32>,
    strays: VecDeque<StraySegment>,
    unresolved: Vec<IpAddr>,
    counters: [Counters; 2],
    now_ns: u64,
}

/// The half of the counters that belongs to connections of ours.
pub const CLIENT: usize = 0;
/// The half that belongs to connections of peers.
pub const SERVER: usize = 1;

impl Stack {
    /// A stack with `locals` as its addresses, over a device that can do `capabilities`. The same `seed` gives the same
    /// ports and initial sequence numbers.
    pub fn new(
        settings: Settings,
        capabilities: &Capabilities,
        locals: &[IpAddr],
        seed: u64,
        now_ns: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        let flows_max = settings.flows_max.min(NONE >> 1);
        let (low, high) = settings.ports;
        let span = u32::from(high.saturating_sub(low)) + 1;
        let ports = locals.iter().map(|_| low + random.below(span) as u16);
        Stack {
            next_ports: ports.collect(),
            secret: [random.next_u64(), random.next_u64()],
            link: Link {
                mac: capabilities.mac,
                mtu: usize::from(capabilities.mtu_bytes),
                frame_max: capabilities.frame_max_bytes as usize,
                segments: capabilities.segments,
                checksums: capabilities.checksums,
            },
            flows: Slab::new(flows_max),
            table: Table::new(flows_max),
            wheel: Wheel::new(wheel::tick(now_ns)),
            losses: Slab::new(flows_max),
            pool: Pool::new(settings.reassembly_chunks_max),
            addresses: Addresses::new(locals, flows_max.saturating_add(1_025)),
            listening: vec![0; 1 << 10].into_boxed_slice(),
            half_open: 0,
            next_recycled: 0,
            ends: false,
            challenges: Challenges::default(),
            line: VecDeque::with_capacity(flows_max as usize),
            strays: VecDeque::with_capacity(STRAYS_MAX),
            unresolved: Vec::new(),
            counters: [Counters::default(); 2],
            now_ns,
            settings,
            random,
        }
    }

    // ---- For the program ----

    /// Begins a connection from the address number `source` to `to`. Frames go out with the next [`Stack::poll`].
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now_ns: u64,
        source: usize,
        to: SocketAddr,
        user: u32,
    ) -> Result<FlowId, ConnectError> {
        self.now_ns = self.now_ns.max(now_ns);
        let local = self.addresses.locals.get(source);
        let ip = *local
            .filter(|ip| ip.is_ipv4() == to.is_ipv4())
            .ok_or(ConnectError::NoSource)?;
        let (port, mut iss) = self.free_port(source, ip, to)?;
        let hash = self.hash(ip, port, to.ip(), to.port());
        let standard = self.initial_number(hash);
        if seq::before(iss.unwrap_or(standard), standard) {
            iss = None;
        }
        let id = self
            .new_flow(source as u32, to, port, hash)
            .ok_or(ConnectError::NoFlow)?;
        let flow = &mut self.flows[id];
        flow.state = State::SynSent;
        flow.user = user;
        begin_at(flow, iss.unwrap_or(standard));
        self.counters[CLIENT].connattempt += 1;
        self.enqueue(id);
        Ok(FlowId(id))
    }

    /// Accepts connections to a port of all our addresses.
    pub fn listen(&mut self, port: u16) {
        self.listening[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    fn listens(&self, port: u16) -> bool {
        self.listening[usize::from(port >> 6)] >> (port & 63) & 1 == 1
    }

    /// Sets the number by which the program knows a connection.
    pub fn set_user(&mut self, flow: FlowId, user: u32) {
        self.flows[flow.0].user = user;
    }

    /// Promises `bytes` more payload. Returns how many were taken: at most 1 GiB may be waiting.
    pub fn send(&mut self, flow: FlowId, bytes: usize) -> usize {
        const WAITING_MAX: u32 = 1 << 30;
        let id = flow.0;
        let flow = &mut self.flows[id];
        if flow.state == State::Closed || flow.flags & (bit::FIN_QUEUED | bit::ABORT) != 0 {
            return 0;
        }
        let waiting = flow.snd_end.wrapping_sub(flow.snd_una);
        let taken = bytes.min(WAITING_MAX.saturating_sub(waiting) as usize);
        flow.snd_end = flow.snd_end.wrapping_add(taken as u32);
        let side = flow.side();
        self.counters[side].sndbyte += taken as u64;
        self.enqueue(id);
        taken
    }

    /// Ends our side after what was promised. The peer's bytes keep coming until its own end.
    pub fn close(&mut self, flow: FlowId) {
        let id = flow.0;
        let flow = &mut self.flows[id];
        let next = match flow.state {
            // Nothing was agreed on yet.
            State::SynSent => {
                flow.set(bit::ABORT);
                State::SynSent
            }
            State::SynReceived | State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            _ => return,
        };
        if flow.state == State::SynReceived {
            // The FIN follows when the handshake is done.
            flow.set(bit::FIN_QUEUED);
            return self.enqueue(id);
        }
        flow.set(bit::FIN_QUEUED);
        flow.state = next;
        self.enqueue(id);
    }

    /// [`Stack::close`], and the program wants to hear no more of it: bytes that still come are answered by a reset.
    pub fn close_and_forget(&mut self, flow: FlowId) {
        self.close(flow);
        let it = &mut self.flows[flow.0];
        it.set(bit::ORPHAN);
        if it.state == State::FinWait2 {
            self.await_peers_fin(flow.0);
        }
    }

    /// Resets a connection. The program hears no more of it.
    pub fn abort(&mut self, flow: FlowId) {
        let it = &mut self.flows[flow.0];
        if it.state != State::Closed {
            it.set(bit::ABORT | bit::ORPHAN);
            self.enqueue(flow.0);
        }
    }

    /// Sets how much the peer may send from here on. What the peer knows already is not taken back.
    pub fn set_receive_window(&mut self, flow: FlowId, bytes: u32) {
        let id = flow.0;
        let flow = &mut self.flows[id];
        flow.rcv_wnd = bytes.min(1 << 30);
        let known = seq::distance(flow.rcv_nxt, flow.rcv_adv);
        // Silly window avoidance (RFC 1122 4.2.3.3): tell of a step that is worth a segment.
        let step = u32::from(flow.mss).min(self.settings.receive_window_bytes / 2);
        if flow.state.receives() && bytes.saturating_sub(known) >= step.max(1) {
            flow.set(bit::ACK_NOW);
            let side = flow.side();
            self.counters[side].sndwinup += 1;
            self.enqueue(id);
        }
    }

    /// State of a connection.
    pub fn state(&self, flow: FlowId) -> State {
        self.flows[flow.0].state
    }

    /// Port of ours and address of the peer.
    pub fn tuple(&self, flow: FlowId) -> (SocketAddr, SocketAddr) {
        let flow = &self.flows[flow.0];
        let local = self.addresses.locals[flow.local as usize];
        let remote = self.addresses.remotes[flow.remote].ip;
        (
            SocketAddr::new(local, flow.local_port),
            SocketAddr::new(remote, flow.remote_port),
        )
    }

    /// Smoothed round trip of a connection, nanoseconds; `None` before the first sample.
    pub fn round_trip_ns(&self, flow: FlowId) -> Option<u64> {
        let srtt = self.flows[flow.0].srtt;
        (srtt > 0).then(|| u64::from(srtt) * 125)
    }

    // ---- For whoever drives it ----

    /// Runs what is due and sends what can be sent. False when the device was full and something is left.
    ///
    /// # Errors
    ///
    /// The device's.
    pub fn poll<D: Device + ?Sized, A: App>(
        &mut self,
        now_ns: u64,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        self.now_ns = self.now_ns.max(now_ns);
        self.run_timers(app);
        let all = self.send_all(device, app)?;
        device.flush()?;
        Ok(all)
    }

    /// When [`Stack::poll`] must be called at the latest, on the clock of `now_ns`; `None` when nothing is to come.
    pub fn next_deadline_ns(&self) -> Option<u64> {
        if !self.line.is_empty() || !self.strays.is_empty() {
            return Some(self.now_ns);
        }
        let due = self.wheel.next_due()?;
        let now = wheel::tick(self.now_ns);
        let ahead = (due.wrapping_sub(now) as i32).max(0) as u64;
        Some(((self.now_ns >> TICK_SHIFT) + ahead) << TICK_SHIFT)
    }

    /// Addresses of peers whose link address is not known, each once.
    pub fn take_unresolved(&mut self) -> Vec<IpAddr> {
        std::mem::take(&mut self.unresolved)
    }

    /// Puts an address back among those of [`Stack::take_unresolved`]: it is being asked for.
    pub fn still_unresolved(&mut self, ip: IpAddr) {
        self.unresolved.push(ip);
    }

    /// Says where frames to a peer go; what waited for it is sent by the next [`Stack::poll`].
    pub fn set_link_address(&mut self, ip: IpAddr, mac: [u8; 6]) {
        let Some(index) = self.addresses.remote(&ip) else {
            return;
        };
        let remote = &mut self.addresses.remotes[index];
        let waited = remote.way == Way::Unknown;
        remote.way = Way::Via(mac);
        remote.is_asked = false;
        if waited {
            self.each_flow_of(index, Stack::enqueue);
        }
    }

    /// Says that a peer's link address cannot be found: its flows end.
    pub fn set_unreachable<A: App>(&mut self, ip: IpAddr, app: &mut A) {
        let Some(index) = self.addresses.remote(&ip) else {
            return;
        };
        self.addresses.remotes[index].is_asked = false;
        let high = self.flows.high();
        for id in 0..high {
            let flow = &self.flows[id];
            if flow.state != State::Closed && flow.remote == index {
                self.end(id, Ended::Unreachable, app);
            }
        }
    }

    fn each_flow_of(&mut self, remote: u32, each: fn(&mut Stack, u32)) {
        for id in 0..self.flows.high() {
            let flow = &self.flows[id];
            if flow.state != State::Closed && flow.remote == remote {
                each(self, id);
            }
        }
    }

    /// Counters of a side: [`CLIENT`] or [`SERVER`].
    pub fn counters(&self, side: usize) -> &Counters {
        &self.counters[side]
    }

    /// Bytes that are held for each flow that there may be: the flow with its timers, its places in the table, in the
    /// line of those that send and in the list of free ones.
    pub fn flow_bytes(&self) -> f64 {
        let lists = 2 * size_of::<u32>();
        let table = self.table.bytes() as f64 / f64::from(self.settings.flows_max.max(1));
        (size_of::<Flow>() + lists) as f64 + table
    }

    /// Flows that exist, those in TIME-WAIT included.
    pub fn flows(&self) -> u32 {
        self.flows.used()
    }

    /// Nothing is held for any flow: no timer, tuple, block or chunk.
    pub fn is_empty(&mut self) -> bool {
        self.flows.used() == 0
            && self.table.used() == 0
            && self.wheel.hanging() == 0
            && self.losses.used() == 0
            && self.pool.used() == 0
            && self.half_open == 0
            && self.addresses.flows() == 0
    }

    /// Resets all flows that exist, for the end of a program: a peer would else hold them until its own timeouts. Also
    /// those whose SYN is not answered yet: the answer will meet nobody, not even somebody who resets it.
    pub fn abort_all(&mut self) {
        self.ends = true;
        for id in 0..self.flows.high() {
            if self.flows[id].state != State::Closed {
                self.abort(FlowId(id));
            }
        }
    }

    // ---- Inside ----

    fn now_us(&self) -> u32 {
        (self.now_ns / 1_000) as u32
    }

    /// Of timestamps (RFC 7323 5.4: between 1 ms and 1 s a step).
    fn now_ms(&self) -> u32 {
        (self.now_ns / 1_000_000) as u32
    }

    fn tick(&self) -> u32 {
        wheel::tick(self.now_ns)
    }

    #[inline]
    fn enqueue(&mut self, id: u32) {
        let flow = &mut self.flows[id];
        if !flow.has(bit::QUEUED) {
            flow.set(bit::QUEUED);
            self.line.push_back(id);
        }
    }

    /// Hash of a tuple, seen from our side.
    #[inline]
    fn hash(&self, local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> u32 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let ports = u64::from(local_port) << 16 | u64::from(remote_port);
        let hash = match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let addresses = u64::from(local.to_bits()) << 32 | u64::from(remote.to_bits());
                fold(addresses ^ self.secret[0], ports ^ self.secret[1])
            }
            (local, remote) => {
                let bits = |ip: IpAddr| match ip {
                    IpAddr::V4(ip) => u128::from(ip.to_bits()),
                    IpAddr::V6(ip) => ip.to_bits(),
                };
                let (local, remote) = (bits(local), bits(remote));
                let mut hash = fold(local as u64 ^ self.secret[0], ports ^ self.secret[1]);
                for part in [(local >> 64) as u64, remote as u64, (remote >> 64) as u64] {
                    hash = fold(hash ^ part, self.secret[1] | 1);
                }
                hash
            }
        };
        (hash ^ hash >> 32) as u32
    }

    /// RFC 6528: a clock of 4 microseconds, and an offset that others cannot guess.
    fn initial_number(&self, hash: u32) -> u32 {
        let clock = (self.now_ns / 4_000) as u32;
        clock.wrapping_add(
            (u64::from(hash) ^ self.secret[1]).wrapping_mul(self.secret[0] | 1) as u32,
        )
    }

    #[inline]
    fn find(
        &self,
        hash: u32,
        local: IpAddr,
        local_port: u16,
        remote: IpAddr,
        port: u16,
    ) -> Option<u32> {
        self.table.find(hash, |id| {
            let flow = &self.flows[id];
            flow.local_port == local_port
                && flow.remote_port == port
                && self.addresses.remotes[flow.remote].ip == remote
                && self.addresses.locals[flow.local as usize] == local
        })
    }

    /// The next port that no connection uses. One that is in TIME-WAIT is taken over, and its successor begins beyond
    /// its last number (RFC 9293 3.6.1 allows it then); ports are used in turn, so it is the oldest.
    fn free_port(
        &mut self,
        source: usize,
        ip: IpAddr,
        to: SocketAddr,
    ) -> Result<(u16, Option<u32>), ConnectError> {
        let (low, high) = self.settings.ports;
        if self.settings.port_order == PortOrder::Random {
            let span = u32::from(high.saturating_sub(low)) + 1;
            self.next_ports[source] = low + self.random.below(span) as u16;
        }
        for _ in low..=high {
            let port = self.next_ports[source];
            self.next_ports[source] = if port >= high { low } else { port + 1 };
            let hash = self.hash(ip, port, to.ip(), to.port());
            match self.find(hash, ip, port, to.ip(), to.port()) {
                None => return Ok((port, None)),
                Some(id) if self.flows[id].state == State::TimeWait => {
                    let beyond = self.flows[id].snd_max.wrapping_add(1 << 16);
                    self.counters[CLIENT].port_reuse += 1;
                    self.release(id);
                    return Ok((port, Some(beyond)));
                }
                Some(_) => {}
            }
        }
        Err(ConnectError::NoPort)
    }

    fn new_flow(&mut self, local: u32, to: SocketAddr, port: u16, hash: u32) -> Option<u32> {
        let Some(remote) = self.addresses.use_remote(to.ip()) else {
            self.counters[CLIENT].err_flow_overflow += 1;
            return None;
        };
        let taken = self.flows.take().or_else(|| {
            self.recycle();
            self.flows.take()
        });
        let Some(id) = taken else {
            self.addresses.leave_remote(remote);
            self.counters[CLIENT].err_flow_overflow += 1;
            return None;
        };
        let flow = &mut self.flows[id];
        (flow.local, flow.remote) = (local, remote);
        (flow.local_port, flow.remote_port) = (port, to.port());
        flow.loss = NONE;
        flow.user = NONE;
        flow.rcv_wnd = self.settings.receive_window_bytes;
        flow.shifts = self.settings.window_shift() << 4;
        flow.ssthresh = u32::MAX;
        self.table.insert(hash, id);
        Some(id)
    }

    /// When all flows are taken, one in TIME-WAIT gives way, if there is one among the next few.
    fn recycle(&mut self) {
        const LOOKED_AT: u32 = 4_096;
        let high = self.flows.high();
        for _ in 0..high.min(LOOKED_AT) {
            let id = self.next_recycled % high;
            self.next_recycled = id + 1;
            if self.flows[id].state == State::TimeWait {
                return self.release(id);
            }
        }
    }

    /// Takes a flow away, with all that was held for it.
    fn release(&mut self, id: u32) {
        self.wheel.remove(self.flows.places(), id);
        self.release_loss(id);
        let (local, remote) = self.tuple(FlowId(id));
        let hash = self.hash(local.ip(), local.port(), remote.ip(), remote.port());
        self.table.remove(hash, id);
        let flow = &mut self.flows[id];
        if flow.state == State::SynReceived {
            self.half_open -= 1;
        }
        flow.state = State::Closed;
        let remote = flow.remote;
        self.addresses.leave_remote(remote);
        self.flows.give(id);
    }

    fn release_loss(&mut self, id: u32) {
        let index = std::mem::replace(&mut self.flows[id].loss, NONE);
        if index != NONE {
            let side = self.flows[id].side();
            let chunks = self.pool.forget(&mut self.losses[index]);
            self.counters[side].reasfree += u64::from(chunks);
            self.losses.give(index);
        }
    }

    /// The flow's loss block, new when it has none; `None` when there is no more.
    fn loss_of(&mut self, id: u32) -> Option<u32> {
        let flow = &mut self.flows[id];
        if flow.loss == NONE {
            let index = self.losses.take()?;
            flow.loss = index;
            let loss = &mut self.losses[index];
            (loss.recover, loss.high_rxt) = (flow.snd_una, flow.snd_una);
        }
        Some(flow.loss)
    }

    /// The loss block goes when nothing in it is needed any more.
    fn settle_loss(&mut self, id: u32) {
        let flow = &self.flows[id];
        if flow.loss != NONE {
            // CUBIC's memory is worth its block as long as payload may follow.
            let keeps_cubic =
                self.losses[flow.loss].cubic.w_max > 0.0 && flow.state != State::TimeWait;
            if self.losses[flow.loss].is_idle(flow, keeps_cubic) {
                self.release_loss(id);
            }
        }
    }

    /// Ends a flow without another segment, and tells its program.
    fn end<A: App>(&mut self, id: u32, why: Ended, app: &mut A) {
        let flow = &self.flows[id];
        // Of a peer's connection that never opened the program has not heard.
        let is_known = flow.state != State::SynReceived || flow.side() == CLIENT;
        let is_told = is_known && !flow.has(bit::ORPHAN);
        let (user, state) = (flow.user, flow.state);
        let counters = &mut self.counters[flow.side()];
        if !state.is_synchronized() {
            counters.conndrops += 1;
        } else if state != State::TimeWait {
            counters.closed += 1;
            counters.drops += u64::from(why != Ended::Orderly);
        }
        self.release(id);
        if is_told && state != State::TimeWait {
            app.event(self, FlowId(id), user, Event::Ended(why));
        }
    }

    fn tell<A: App>(&mut self, id: u32, event: Event, app: &mut A) {
        let flow = &self.flows[id];
        if !flow.has(bit::ORPHAN) {
            let user = flow.user;
            app.event(self, FlowId(id), user, event);
        }
    }
}

/// The first number of a direction: its SYN, and payload after it.
fn begin_at(flow: &mut Flow, iss: u32) {
    flow.snd_una = iss;
    flow.snd_nxt = iss;
    flow.snd_max = iss;
    flow.snd_end = iss.wrapping_add(1);
}
