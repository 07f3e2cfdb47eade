//! The one HTTP/1.x codec, for both sides of the wire: the load loop reads responses with it, the
//! origin reads requests, and who only looks on [`peek`]s.
//!
//! It is sans-IO: it looks at bytes that somebody else has read, keeps no buffer and allocates nothing.
//! A message is a head ([`parse_response`], [`parse_request`]) that says by its [`Framing`] where the
//! body ends, and a body that a [`BodyDecoder`] walks over, at any split of the input.
//!
//! The surprise: a body is counted, never handed out. Neither side needs its content, and a caller that
//! knows the rest of a body by length may drop it in the kernel and only say so.

mod body;
mod head;
mod peek;

pub use body::{BodyDecoder, Fed};
pub use head::{
    HEADERS_MAX, RequestHead, ResponseHead, for_each_field, parse_request, parse_response,
    response_fields,
};
pub use peek::{FirstLine, Peeked, peek, peek_target};

use std::fmt;

/// Where a message's body ends (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk and the trailers.
    Chunked,
    /// Where the server closes the connection; responses only.
    UntilClose,
}

/// Why a message is not HTTP/1.x, or not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The head breaks the grammar.
    #[error("reading a message head: {cause}; it starts with `{start}`")]
    Head {
        /// What the parser says.
        cause: httparse::Error,
        /// First bytes of the head.
        start: Excerpt,
    },
    /// More header fields than [`HEADERS_MAX`].
    #[error("reading a message head: more than {HEADERS_MAX} header fields")]
    TooManyHeaders,
    /// The status is below 100.
    #[error("reading a response head: {status} is not a status code")]
    Status {
        /// The number found.
        status: u16,
    },
    /// A length that is not a number, or does not fit 64 bits.
    #[error("reading a message head: Content-Length `{value}` is not a length")]
    ContentLength {
        /// The field's value.
        value: Excerpt,
    },
    /// Two different lengths.
    #[error("reading a message head: Content-Length is both {first} and {second}")]
    ContentLengthConflict {
        /// The one met first.
        first: u64,
        /// Another one.
        second: u64,
    },
    /// `chunked` is applied twice, or a request's last transfer coding is not `chunked`.
    #[error("reading a message head: Transfer-Encoding `{value}` does not say where the body ends")]
    TransferEncoding {
        /// The value of the field's last line.
        value: Excerpt,
    },
    /// An HTTP/1.1 request has no `Host` field, or more than one.
    #[error("reading a request head: HTTP/1.1 asks for one Host field, found {found}")]
    Host {
        /// How many there were.
        found: u32,
    },
    /// A byte that cannot stand there in the framing of a chunked body.
    #[error("reading a chunked body: byte 0x{byte:02x} where {expected} must be")]
    Chunk {
        /// The byte found.
        byte: u8,
        /// What belongs there.
        expected: &'static str,
    },
    /// A chunk's size does not fit 64 bits.
    #[error("reading a chunked body: a chunk of 2^64 bytes or more")]
    ChunkTooLarge,
    /// The connection ended before the body did.
    #[error("reading a body: the connection ended {}", Missing(*missing))]
    Truncated {
        /// Bytes that were still to come, where the framing tells.
        missing: Option<u64>,
    },
}

impl CodecError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            CodecError::Head { .. } => {
                "check that the port speaks HTTP/1 in clear text: use https:// for a TLS port"
            }
            CodecError::TooManyHeaders => "send fewer header fields",
            CodecError::Truncated { .. } => {
                "look into the peer's log: it crashed, timed out, or was stopped in the middle of a message"
            }
            CodecError::Status { .. }
            | CodecError::ContentLength { .. }
            | CodecError::ContentLengthConflict { .. }
            | CodecError::TransferEncoding { .. }
            | CodecError::Host { .. }
            | CodecError::Chunk { .. }
            | CodecError::ChunkTooLarge => {
                "the peer, or a proxy in front of it, breaks RFC 9112: capture one message and repair its sender"
            }
        }
    }
}

/// The end of the text of [`CodecError::Truncated`].
struct Missing(Option<u64>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) => write!(f, "{bytes} bytes too early"),
            None => f.write_str("before the last chunk"),
        }
    }
}

/// The first bytes of something malformed, for a message: held inline, because a load thread may not
/// allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Excerpt::MAX],
    len: u8,
    cut: bool,
}

impl Excerpt {
    const MAX: usize = 30;

    /// The start of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let len = bytes.len().min(Self::MAX);
        let mut held = [0; Self::MAX];
        held[..len].copy_from_slice(&bytes[..len]);
        Self {
            bytes: held,
            len: len as u8,
            cut: bytes.len() > Self::MAX,
        }
    }
}

impl fmt::Display for Excerpt {
    /// Printable ASCII as it is, the rest escaped; `...` where it was cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dots = if self.cut { "..." } else { "" };
        write!(
            f,
            "{}{dots}",
            self.bytes[..usize::from(self.len)].escape_ascii()
        )
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_found() {
        let tls_alert = Excerpt::of(b"\x15\x03\x03\x00\x02\x02\x16");
        for (error, text) in [
            (
                CodecError::Head {
                    cause: httparse::Error::Version,
                    start: tls_alert,
                },
                "reading a message head: invalid HTTP version; it starts with `\\x15\\x03\\x03\\x00\\x02\\x02\\x16`",
            ),
            (
                CodecError::Truncated { missing: Some(7) },
                "reading a body: the connection ended 7 bytes too early",
            ),
            (
                CodecError::Truncated { missing: None },
                "reading a body: the connection ended before the last chunk",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert!(!error.remedy().is_empty());
        }
    }

    #[test]
    fn an_excerpt_is_cut_visibly() {
        assert_eq!(Excerpt::of(&[b'x'; 31]).to_string(), "x".repeat(30) + "...");
        assert_eq!(Excerpt::of(&[b'x'; 30]).to_string(), "x".repeat(30));
    }
}
