//! How bytes travel: the seam between the load loop and kernel sockets (epoll, io_uring), TCP in user space, and TLS.
//!
//! The loop speaks of *slots*, numbered from 0; what a slot is (a descriptor, a TLS session, a control
//! block) is the transport's affair. A transport owns its receive memory and lends it out, so that an
//! engine whose kernel chooses the buffer fits as well as one that passes a buffer in. TLS is a
//! transport over a transport, and so are WebSocket and HTTP/2, whose slots are streams.

mod dial;
mod epoll;
mod h2;
mod limited;
mod stack;
pub(crate) mod tls;
pub(crate) mod tunnel;
mod uring;
pub mod websocket;

pub(crate) use self::stack::{Setup, UserSpace};
pub(crate) use dial::Endpoint;
pub use dial::Place;
pub(crate) use epoll::{Epoll, OpenCount};
pub(crate) use h2::{H2, Http2, grpc};
pub(crate) use limited::{Limited, receive_buffer};
pub(crate) use tls::{Tls, Trust, client_config};
pub(crate) use tunnel::Tunnel;
pub(crate) use uring::{Uring, Usage};
pub(crate) use websocket::{Upgrade, WebSocket};

use crate::sys::Errno;
use http1::{CodecError, Excerpt};
use record::{Close, FailureKind};
use std::fmt;

/// Number of a connection within one load thread; of a stream's place where connections carry several.
pub(crate) type Slot = u32;
/// Which of the connections that a slot has had.
pub(crate) type Generation = u32;

/// Why a request or connection failed: the kind to count and the words for the first of its kind.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Under which name it is counted.
    pub kind: FailureKind,
    /// What happened.
    pub detail: Detail,
}

/// The words of a [`Failure`], formatted only when somebody reads them: a load thread may not allocate.
#[derive(Clone, Debug)]
pub(crate) enum Detail {
    /// A system call failed.
    Call(&'static str, Errno),
    /// A fixed text.
    Text(&'static str),
    /// The codec refused the response.
    Codec(CodecError),
    /// TLS failed. This one does allocate: the thread's connections are being refused anyway.
    Tls(Box<rustls::Error>),
    /// A complete response with this status.
    Status(u16),
    /// A proxy refused a tunnel with this status.
    Proxy(u16),
    /// The server ended a stream or a connection with this frame and code.
    Http2(&'static str, u32),
    /// A server refused an upgrade with this status.
    Upgrade(u16),
    /// The server closed a WebSocket with this code, for this reason.
    WebSocketClosed(Option<u16>, Excerpt),
    /// A response's header, which is not to say this.
    Header(&'static str, Excerpt),
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Detail::Call(call, errno) => write!(f, "{call}: {}", errno.to_io()),
            Detail::Text(text) => f.write_str(text),
            Detail::Codec(error) => write!(f, "{error}"),
            Detail::Tls(error) => write!(f, "TLS: {error}"),
            Detail::Status(status) => write!(f, "the server responded with status {status}"),
            Detail::Proxy(status) => {
                write!(f, "the proxy answered CONNECT with status {status}")
            }
            Detail::Http2(frame, code) => {
                write!(f, "the server sent {frame} with {}", h2::name_of(*code))
            }
            Detail::Upgrade(status) => {
                write!(f, "the server answered the upgrade with status {status}")
            }
            Detail::Header(name, value) => write!(f, "the response's {name} is {value}"),
            Detail::WebSocketClosed(None, _) => f.write_str("it sent a close frame without a code"),
            Detail::WebSocketClosed(Some(code), reason) => {
                let name = websocket::name_of(*code);
                write!(f, "it sent a close frame with code {code}{name}")?;
                let said = reason.to_string();
                if said.is_empty() {
                    Ok(())
                } else {
                    write!(f, ": {said}")
                }
            }
        }
    }
}

impl Failure {
    /// A failure with a fixed text.
    pub fn text(kind: FailureKind, text: &'static str) -> Self {
        Failure {
            kind,
            detail: Detail::Text(text),
        }
    }

    /// The server's frame and code.
    pub fn http2(kind: FailureKind, frame: &'static str, code: u32) -> Self {
        Failure {
            kind,
            detail: Detail::Http2(frame, code),
        }
    }

    /// A failed call on an established connection.
    pub fn io(call: &'static str, errno: Errno) -> Self {
        let kind = match errno.0 {
            libc::ECONNRESET | libc::EPIPE => FailureKind::Reset,
            _ => FailureKind::Io,
        };
        Failure {
            kind,
            detail: Detail::Call(call, errno),
        }
    }

    /// A failed call on the way to a connection.
    pub fn connect(call: &'static str, errno: Errno) -> Self {
        let kind = match errno.0 {
            libc::ECONNREFUSED => FailureKind::ConnectRefused,
            libc::ETIMEDOUT => FailureKind::ConnectTimeout,
            libc::EADDRNOTAVAIL => FailureKind::NoLocalPort,
            libc::EMFILE | libc::ENFILE => FailureKind::NoDescriptor,
            _ => FailureKind::ConnectFailed,
        };
        Failure {
            kind,
            detail: Detail::Call(call, errno),
        }
    }
}

/// An event and the connection that it is about. By the time that the loop comes to it, the connection may have ended
/// and its slot may hold the next one: an event in the same batch has closed it. The loop compares the generations.
#[derive(Debug)]
pub(crate) struct Tagged {
    pub slot: Slot,
    /// As given to [`Transport::open`].
    pub generation: Generation,
    /// What happened.
    pub event: Event,
}

/// What a transport reports about a connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// The connection is ready for requests, TLS handshake included.
    Opened,
    /// As `Opened`, on a connection that was opened for another slot.
    Joined,
    /// The server allows no further stream on the slot's connection; the slot is closed for good.
    Parked,
    /// The connection could not be opened; the slot is closed again.
    OpenFailed(Failure),
    /// Something can be done.
    Ready {
        /// There are bytes, an end or an error to receive.
        readable: bool,
        /// Bytes can be sent again.
        writable: bool,
        /// The peer has ended its side: after the bytes there is an end.
        hangup: bool,
    },
}

/// What the loop wants to receive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Want {
    /// Bytes, at most so many.
    Bytes(usize),
    /// To be rid of at most so many; the transport may hand them out all the same.
    Discard(usize),
}

/// What was received.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    /// Bytes, in the transport's memory.
    Data {
        /// At least one.
        bytes: &'a [u8],
        /// More may be waiting.
        more: bool,
    },
    /// So many bytes are gone unseen.
    Discarded {
        /// How many.
        len: usize,
        /// More may be waiting.
        more: bool,
    },
    /// A complete response, decoded by the transport.
    Answer {
        status: u16,
        /// Length of its body.
        body_bytes: u64,
        /// When its head came.
        first_byte_at: u64,
        /// The slot may carry another request.
        goes_on: bool,
    },
    /// The server says that it has not processed the request: it may be sent again. The slot has ended.
    Unprocessed(Failure),
    /// Nothing now; an event will tell.
    Blocked,
    /// The peer has ended the stream.
    End {
        /// In the orderly way of the transport: TLS has its own end mark.
        orderly: bool,
    },
}

/// TLS handshakes so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshakes {
    /// Full ones.
    pub full: u64,
    /// Resumed ones.
    pub resumed: u64,
    /// Protocol that the server chose by ALPN; empty for none.
    pub alpn: String,
}

/// Bytes that have passed below a transport that counts them itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wire {
    pub sent: u64,
    pub received: u64,
}

/// A way to carry byte streams, one per slot. No call blocks but [`Transport::wait`].
pub(crate) trait Transport {
    /// Starts to open a closed slot; [`Event::Opened`] or [`Event::OpenFailed`] follows, and all events of this
    /// connection carry `generation`.
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure>;

    /// Sends a prefix of `bytes` and returns its length; when it is shorter than `bytes`, an event says
    /// when to go on.
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure>;

    /// Receives.
    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure>;

    /// Closes a slot, whatever state it is in.
    fn close(&mut self, slot: Slot, how: Close);

    /// Appends what has happened to `events` (never beyond its capacity), waiting for at most
    /// `timeout_ns` for the first.
    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure>;

    /// System calls so far.
    fn syscalls(&self) -> u64;

    /// When the slot's connection was opened; `None` when the transport knows it no better than who asks.
    fn opened_at(&self, _slot: Slot) -> Option<u64> {
        None
    }

    /// When the bytes came that [`Transport::recv`] is going to lend; `None` as above, or without any.
    fn came_at(&self, _slot: Slot) -> Option<u64> {
        None
    }

    /// Time in which the thread waited without sleeping, on purpose.
    fn spun_ns(&self) -> u64 {
        0
    }

    /// Name of the engine in the record.
    fn name(&self) -> String;

    /// What a TCP in user space has counted so far; `None` over sockets. Asked once, at the end.
    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        None
    }

    /// Sends what has been gathered, before the thread does something else than [`Transport::wait`]; false when news is
    /// waiting already.
    fn flush(&mut self) -> bool {
        true
    }

    /// Bytes since the last question; `None` when those of [`Transport::send`] and [`Transport::recv`] are what passes.
    fn take_wire(&mut self) -> Option<Wire> {
        None
    }

    /// Connections that the server has ended; `None` when a slot is a connection.
    fn closed_by_server(&self) -> Option<u64> {
        None
    }

    /// Messages that came while no answer was awaited.
    fn unasked(&self) -> u64 {
        0
    }

    /// Streams that the server allows on a connection, where that is fewer than there are slots for.
    fn limited_to(&self) -> Option<u32> {
        None
    }

    /// What the server chose by ALPN on this connection, empty for nothing; `None` without TLS.
    fn alpn(&self, _slot: Slot) -> Option<&[u8]> {
        None
    }

    /// TLS handshakes so far; none without TLS.
    fn handshakes(&self) -> Handshakes {
        Handshakes::default()
    }
}

/// A transport that is chosen when a load starts, where the call through a table does not count.
impl Transport for Box<dyn Transport + Send> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        (**self).open(slot, generation)
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        (**self).send(slot, bytes)
    }

    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        (**self).recv(slot, want)
    }

    fn close(&mut self, slot: Slot, how: Close) {
        (**self).close(slot, how);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        (**self).wait(events, timeout_ns)
    }

    fn syscalls(&self) -> u64 {
        (**self).syscalls()
    }

    fn opened_at(&self, slot: Slot) -> Option<u64> {
        (**self).opened_at(slot)
    }

    fn came_at(&self, slot: Slot) -> Option<u64> {
        (**self).came_at(slot)
    }

    fn spun_ns(&self) -> u64 {
        (**self).spun_ns()
    }

    fn name(&self) -> String {
        (**self).name()
    }

    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        (**self).counted()
    }

    fn flush(&mut self) -> bool {
        (**self).flush()
    }

    fn take_wire(&mut self) -> Option<Wire> {
        (**self).take_wire()
    }

    fn closed_by_server(&self) -> Option<u64> {
        (**self).closed_by_server()
    }

    fn unasked(&self) -> u64 {
        (**self).unasked()
    }

    fn limited_to(&self) -> Option<u32> {
        (**self).limited_to()
    }

    fn alpn(&self, slot: Slot) -> Option<&[u8]> {
        (**self).alpn(slot)
    }

    fn handshakes(&self) -> Handshakes {
        (**self).handshakes()
    }
}
