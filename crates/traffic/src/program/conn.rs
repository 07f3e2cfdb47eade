//! The state of one connection of a program, small because everything that templates have in common lies elsewhere.

use super::requests::RequestReader;
use crate::load::response::ResponseReader;
use stack::tcp::FlowId;

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
}

/// What reads the peer's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader {
    /// A client of HTTP.
    Response(ResponseReader),
    /// A server of HTTP.
    Request(RequestReader),
}

/// A connection; see the module.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    /// The stack's flow, while there is one.
    pub flow: Option<FlowId>,
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
    /// Payload bytes received.
    pub received: u64,
    /// HTTP's reader.
    pub reader: Reader,
    /// Neighbours in the list of those that wait for the same timeout.
    pub next: u32,
    /// See `next`.
    pub prev: u32,
    /// When it last went on, milliseconds from the side's beginning.
    pub alive_ms: u32,
    /// Turns of a stream, or exchanges of HTTP, that are done.
    pub step: u32,
    /// Its TLS session.
    pub tls: u32,
    /// Its buffer with the beginning of a head.
    pub partial: u32,
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

impl Conn {
    /// A free place.
    pub fn free() -> Self {
        Conn {
            flow: None,
            due_at: 0,
            sent_at: 0,
            mark: 0,
            given: 0,
            acked: 0,
            received: 0,
            reader: Reader::Response(ResponseReader::default()),
            next: NONE,
            prev: NONE,
            alive_ms: 0,
            step: 0,
            tls: NONE,
            partial: NONE,
            template: 0,
            target: 0,
            generation: 0,
            phase: Phase::Free,
            flags: 0,
        }
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
    fn a_connection_is_no_larger_than_its_flow() {
        assert!(size_of::<Conn>() <= 136, "{}", size_of::<Conn>());
    }
}
