//! The state of one connection of a program: 32 bytes of an idle one, and beside it what it needs while something is on
//! its way. What templates have in common lies elsewhere.

use super::requests::RequestReader;
use crate::load::response::ResponseReader;
use stack::tcp::FlowId;
use std::ops::{Index, IndexMut};

/// No connection, session or buffer.
pub(super) const NONE: u32 = u32::MAX;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// The place is free.
    Free,
    /// TCP's handshake.
    Connecting,
    /// TLS's handshake.
    Shaking,
    /// At work.
    Open,
    /// All is done; the ends are on their way.
    Closing,
}

/// Bits of [`Conn::flags`].
pub(super) mod flag {
    /// The peer sends no more.
    pub const PEER_CLOSED: u8 = 1 << 0;
    /// Our end is on its way.
    pub const CLOSED: u8 = 1 << 1;
    /// Its fate is counted.
    pub const COUNTED: u8 = 1 << 2;
    /// It waits for its time.
    pub const PAUSED: u8 = 1 << 3;
    /// A request has no response yet.
    pub const ASKED: u8 = 1 << 4;
    /// To be reset when all of ours has arrived.
    pub const RESET_DUE: u8 = 1 << 5;
    /// The first byte's latency is recorded.
    pub const FIRST: u8 = 1 << 6;
    /// The server's last answer is given: after it the connection is closed.
    pub const LAST: u8 = 1 << 7;
    /// Of a client of HTTP: the body that is coming is not the one that must come.
    pub const WRONG: u8 = LAST;
}

/// What reads the peer's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader {
    /// A client of HTTP.
    Response(ResponseReader),
    /// A server of HTTP.
    Request(RequestReader),
}

/// What every connection costs, idle ones too; see the module.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    /// The number of the stack's flow, or [`NONE`].
    pub flow: u32,
    /// Its [`Busy`] part, or [`NONE`] while it is idle.
    pub busy: u32,
    /// Neighbours in the list of those that wait for the same timeout. While it is paused and idle, which is in no
    /// list, both halves of when it was due.
    pub next: u32,
    /// See `next`.
    pub prev: u32,
    /// When it last went on, milliseconds from the side's beginning.
    pub alive_ms: u32,
    /// Turns of a stream, or exchanges of HTTP, that are done.
    pub step: u32,
    /// Its template.
    pub template: u16,
    /// Client: the number of its target. Server of HTTP: which of the last answers.
    pub target: u16,
    /// Counts the connections of the place.
    pub generation: u16,
    /// Where it stands.
    pub phase: Phase,
    /// See [`flag`].
    pub flags: u8,
}

/// What a connection has beside while something is on its way, or waits for an answer. An idle one has none: all of it
/// follows from its template and its step.
#[derive(Clone, Debug)]
pub(super) struct Busy {
    /// When the connection was due, and then its current request.
    pub due_at: u64,
    /// When the first packet of the current request left; 0 before.
    pub sent_at: u64,
    /// Client: when the first byte of the response came. Server of HTTP: where its last answer begins.
    pub mark: u64,
    /// Payload bytes that the stack, or TLS, has been given.
    pub given: u64,
    /// Bytes of the stream that the peer has acknowledged.
    pub acked: u64,
    /// Payload bytes received. Client of HTTP: of the body that is coming, where one is expected.
    pub received: u64,
    /// HTTP's reader.
    pub reader: Reader,
    /// Its TLS session.
    pub tls: u32,
    /// Its buffer with the beginning of a head.
    pub partial: u32,
}

impl Busy {
    /// Of a connection that has sent and received so much, all of which has arrived.
    pub fn at(sent: u64, received: u64, reader: Reader) -> Self {
        Busy {
            due_at: 0,
            sent_at: 0,
            mark: 0,
            given: sent,
            acked: sent,
            received,
            reader,
            tls: NONE,
            partial: NONE,
        }
    }

    /// It is where [`Busy::at`] with these would begin.
    pub fn is_at(&self, sent: u64, received: u64) -> bool {
        let is_between = match &self.reader {
            Reader::Response(reader) => !reader.is_mid_message(),
            Reader::Request(reader) => !reader.is_mid_message(),
        };
        is_between
            && self.tls == NONE
            && self.partial == NONE
            && (self.given, self.acked, self.received) == (sent, sent, received)
    }
}

/// The busy parts of all connections, each in a place that it gives back.
#[derive(Debug, Default)]
pub(super) struct Busies {
    places: Vec<Busy>,
    free: Vec<u32>,
}

impl Busies {
    /// Takes a place.
    #[inline]
    pub fn take(&mut self, busy: Busy) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = busy;
                place
            }
            None => {
                self.places.push(busy);
                self.places.len() as u32 - 1
            }
        }
    }

    /// Gives a place back.
    #[inline]
    pub fn give(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Bytes of all places that were ever taken.
    pub fn bytes(&self) -> usize {
        self.places.len() * (size_of::<Busy>() + size_of::<u32>())
    }

    /// Places that are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl Index<u32> for Busies {
    type Output = Busy;

    #[inline]
    fn index(&self, place: u32) -> &Busy {
        &self.places[place as usize]
    }
}

impl IndexMut<u32> for Busies {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Busy {
        &mut self.places[place as usize]
    }
}

/// When a paused connection goes on, in twelve bytes: 16 ns from the side's beginning are counted, for 52 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pause {
    high: u32,
    low: u16,
    /// Of the place at the pause's beginning.
    pub generation: u16,
    /// The connection's place.
    pub slot: u32,
}

impl Pause {
    const UNIT_NS: u64 = 16;

    /// Until `at`, rounded up.
    pub fn new(at: u64, begin_ns: u64, slot: u32, generation: u16) -> Self {
        let units = at.saturating_sub(begin_ns).div_ceil(Self::UNIT_NS);
        let units = units.min((1 << 48) - 1);
        Pause {
            high: (units >> 16) as u32,
            low: units as u16,
            generation,
            slot,
        }
    }

    /// When it ends.
    #[inline]
    pub fn at(&self, begin_ns: u64) -> u64 {
        let units = u64::from(self.high) << 16 | u64::from(self.low);
        begin_ns + units * Self::UNIT_NS
    }
}

impl Conn {
    /// A free place.
    pub fn free() -> Self {
        Conn {
            flow: NONE,
            busy: NONE,
            next: NONE,
            prev: NONE,
            alive_ms: 0,
            step: 0,
            template: 0,
            target: 0,
            generation: 0,
            phase: Phase::Free,
            flags: 0,
        }
    }

    /// The stack's flow, while there is one.
    #[inline]
    pub fn flow(&self) -> Option<FlowId> {
        (self.flow != NONE).then(|| FlowId::of_number(self.flow))
    }

    /// It has that flow from now on, or none.
    #[inline]
    pub fn set_flow(&mut self, flow: Option<FlowId>) {
        self.flow = flow.map_or(NONE, FlowId::number);
    }

    /// Keeps when it was due, while it stands in no list.
    pub fn keep_due(&mut self, due_at: u64) {
        (self.next, self.prev) = (due_at as u32, (due_at >> 32) as u32);
    }

    /// What [`Conn::keep_due`] has kept.
    pub fn take_due(&mut self) -> u64 {
        let due_at = u64::from(self.prev) << 32 | u64::from(self.next);
        (self.next, self.prev) = (NONE, NONE);
        due_at
    }

    /// All of these bits are set.
    #[inline]
    pub fn has(&self, bits: u8) -> bool {
        self.flags & bits == bits
    }

    /// Sets bits.
    #[inline]
    pub fn set(&mut self, bits: u8) {
        self.flags |= bits;
    }

    /// Clears bits.
    #[inline]
    pub fn clear(&mut self, bits: u8) {
        self.flags &= !bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_half_a_cache_line() {
        assert_eq!(size_of::<Conn>(), 32);
        assert!(size_of::<Busy>() <= 112, "{}", size_of::<Busy>());
    }

    #[test]
    fn a_paused_connection_keeps_when_it_was_due() {
        let mut conn = Conn::free();
        let due = 0x0123_4567_89ab_cdef;
        conn.keep_due(due);
        assert_eq!(conn.take_due(), due);
        assert_eq!((conn.next, conn.prev), (NONE, NONE));
    }

    #[test]
    fn pauses_end_in_their_order_and_never_too_early() {
        assert_eq!(size_of::<Pause>(), 12);
        let begin = 90_000_000_000_000;
        let mut before = Pause::new(begin, begin, 9, 9);
        assert_eq!(before.at(begin), begin);
        for (slot, ns) in (0..).zip([16, 17, 5_000_000, 1 << 40, 1 << 51]) {
            let pause = Pause::new(begin + ns, begin, slot, 7);
            assert!((ns..ns + 16).contains(&(pause.at(begin) - begin)), "{ns}");
            assert!(before < pause);
            before = pause;
        }
        assert!(Pause::new(u64::MAX, begin, 0, 0) > before);
    }

    #[test]
    fn places_are_given_back() {
        let mut all = Busies::default();
        let reader = || Reader::Response(ResponseReader::default());
        let one = all.take(Busy::at(1, 2, reader()));
        let other = all.take(Busy::at(3, 4, reader()));
        assert!(all[one].is_at(1, 2) && all[other].is_at(3, 4));
        all.give(one);
        assert_eq!(all.taken(), 1);
        assert_eq!(all.take(Busy::at(5, 6, reader())), one);
        all[one].acked = 4;
        assert!(!all[one].is_at(5, 6), "a byte is on its way");
    }
}
