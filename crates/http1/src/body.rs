//! Finds the end of a body, byte ranges in, counts out.
//!
//! [`BodyDecoder`] is fed whatever part of the body has arrived, in pieces of any size, and says how
//! much of it belongs to the body. Chunk sizes and trailers are walked over byte by byte; the content
//! of chunks, which is nearly everything, is skipped in one step.

use super::{CodecError, Framing};

/// Where the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Done,
    /// So many bytes to come.
    Length(u64),
    UntilClose,
    /// At the start of a chunk size: at least one digit must come.
    Size,
    /// In a chunk size of this value so far.
    SizeDigits(u64),
    /// Behind the chunk size, in white space or an extension.
    Extension(u64),
    /// Behind the CR of a chunk size line.
    SizeLf(u64),
    /// In a chunk, so many bytes to come.
    Data(u64),
    DataCr,
    DataLf,
    /// At the start of a line behind the last chunk.
    Trailer,
    TrailerField,
    /// Behind the CR of a trailer field.
    TrailerLf,
    /// Behind the CR of the empty line that ends the message.
    EndLf,
}

/// What [`BodyDecoder::feed`] did with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// So many of them belong to this body; the rest is the next message's.
    pub consumed: usize,
    /// The body is complete.
    pub done: bool,
}

/// Walks over one body.
#[derive(Clone, Copy, Debug)]
pub struct BodyDecoder {
    state: State,
    body_bytes: u64,
}

impl BodyDecoder {
    /// A decoder at the first byte behind the head.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(n) => State::Length(n),
            Framing::Chunked => State::Size,
            Framing::UntilClose => State::UntilClose,
        };
        Self {
            state,
            body_bytes: 0,
        }
    }

    /// Takes in the next bytes of the connection, up to the end of the body.
    ///
    /// # Errors
    /// [`CodecError::Chunk`] and [`CodecError::ChunkTooLarge`] when a chunked body breaks its framing.
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, CodecError> {
        self.feed_with(input, |_| {})
    }

    /// As [`BodyDecoder::feed`]; `seen` is shown the content, piece by piece, without the framing of chunks.
    ///
    /// # Errors
    /// As [`BodyDecoder::feed`].
    #[inline]
    pub fn feed_with(
        &mut self,
        input: &[u8],
        mut seen: impl FnMut(&[u8]),
    ) -> Result<Fed, CodecError> {
        let mut consumed = 0;
        while consumed < input.len() && self.state != State::Done {
            consumed += match self.content_to_come() {
                Some(left) => {
                    let taken = self.skip_content(left, input.len() - consumed);
                    seen(&input[consumed..consumed + taken]);
                    taken
                }
                None => {
                    self.state = step(self.state, input[consumed])?;
                    1
                }
            };
        }
        Ok(Fed {
            consumed,
            done: self.is_done(),
        })
    }

    /// Bytes still to come of a body delimited by length: the caller may drop up to that many unseen, and
    /// report them to [`BodyDecoder::discard`]. `None` for every other framing.
    pub fn remaining_length(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Counts `n` content bytes that the caller dropped elsewhere.
    ///
    /// # Panics
    /// In debug builds, when `n` is more than [`BodyDecoder::remaining_length`] allows.
    pub fn discard(&mut self, n: u64) {
        debug_assert!(
            self.remaining_length().is_some_and(|left| n <= left) || n == 0,
            "{n} bytes dropped in {:?}",
            self.state
        );
        if let State::Length(left) = self.state {
            self.took(n.min(left), left);
        }
    }

    /// Says that the connection has ended: the regular end of a body that lasts until then.
    ///
    /// # Errors
    /// [`CodecError::Truncated`] when the body is not complete.
    pub fn finish_at_eof(&mut self) -> Result<(), CodecError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Length(left) => Err(CodecError::Truncated {
                missing: Some(left),
            }),
            _ => Err(CodecError::Truncated { missing: None }),
        }
    }

    /// The body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes of content so far, the framing of chunks left out.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Content bytes that may be skipped in one step; `None` inside the framing of chunks.
    fn content_to_come(&self) -> Option<u64> {
        match self.state {
            State::Length(left) | State::Data(left) => Some(left),
            State::UntilClose => Some(u64::MAX),
            _ => None,
        }
    }

    fn skip_content(&mut self, left: u64, available: usize) -> usize {
        // The minimum is at most `available`, a usize, so the cast back loses nothing.
        let n = left.min(available as u64);
        self.took(n, left);
        n as usize
    }

    /// Counts `n` of the `left` content bytes of this stretch.
    fn took(&mut self, n: u64, left: u64) {
        self.body_bytes += n;
        self.state = match self.state {
            State::Length(_) if n == left => State::Done,
            State::Length(_) => State::Length(left - n),
            State::Data(_) if n == left => State::DataCr,
            State::Data(_) => State::Data(left - n),
            other => other,
        };
    }
}

/// One byte of the framing of chunks (RFC 9112 7.1).
///
/// Line ends must be CR LF. RFC 9112 2.2 lets a recipient take a lone LF for a line end, but in chunks
/// that leniency is how two parsers come to disagree about where a message ends.
fn step(state: State, byte: u8) -> Result<State, CodecError> {
    let refuse = |expected| Err(CodecError::Chunk { byte, expected });
    Ok(match (state, byte) {
        (State::Size, _) => match hex(byte) {
            Some(digit) => State::SizeDigits(digit),
            None => return refuse("a chunk size"),
        },
        (State::SizeDigits(size), b'\r') => State::SizeLf(size),
        // White space before the extension is "bad" (BWS) but allowed; some servers pad sizes with it.
        (State::SizeDigits(size), b' ' | b'\t' | b';') => State::Extension(size),
        (State::SizeDigits(size), _) => match hex(byte) {
            Some(digit) => State::SizeDigits(append_digit(size, digit)?),
            None => return refuse("a hexadecimal digit, `;` or CR"),
        },
        (State::Extension(size), b'\r') => State::SizeLf(size),
        (State::Extension(_), b'\n') => return refuse("CR before LF"),
        (State::Extension(size), _) => State::Extension(size),
        (State::SizeLf(0), b'\n') => State::Trailer,
        (State::SizeLf(size), b'\n') => State::Data(size),
        (State::DataCr, b'\r') => State::DataLf,
        (State::DataCr, _) => return refuse("CR behind a chunk"),
        (State::DataLf, b'\n') => State::Size,
        (State::Trailer, b'\r') => State::EndLf,
        (State::Trailer | State::TrailerField, b'\n') => return refuse("CR before LF"),
        (State::TrailerField, b'\r') => State::TrailerLf,
        (State::Trailer | State::TrailerField, _) => State::TrailerField,
        (State::TrailerLf, b'\n') => State::Trailer,
        (State::EndLf, b'\n') => State::Done,
        (State::SizeLf(_) | State::DataLf | State::TrailerLf | State::EndLf, _) => {
            return refuse("LF behind CR");
        }
        // Content is skipped, not stepped through; a complete body takes no bytes.
        (State::Done | State::Length(_) | State::UntilClose | State::Data(_), _) => state,
    })
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

fn append_digit(size: u64, digit: u64) -> Result<u64, CodecError> {
    match size.checked_mul(16) {
        Some(shifted) => Ok(shifted + digit),
        None => Err(CodecError::ChunkTooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content bytes, bytes consumed, done.
    type Outcome = Result<(u64, usize, bool), CodecError>;

    fn decode(framing: Framing, pieces: &[&[u8]]) -> Outcome {
        let mut decoder = BodyDecoder::new(framing);
        let mut consumed = 0;
        for piece in pieces {
            consumed += decoder.feed(piece)?.consumed;
        }
        Ok((decoder.body_bytes(), consumed, decoder.is_done()))
    }

    /// At once, in single bytes, and in two pieces split at every place.
    fn check(framing: Framing, input: &[u8], expected: Outcome) {
        let shown = input.escape_ascii();
        assert_eq!(decode(framing, &[input]), expected, "{shown}");
        let bytes: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(decode(framing, &bytes), expected, "{shown} in bytes");
        for at in 0..=input.len() {
            let (a, b) = input.split_at(at);
            assert_eq!(decode(framing, &[a, b]), expected, "{shown} at {at}");
        }
    }

    fn chunk_error(byte: u8, expected: &'static str) -> Outcome {
        Err(CodecError::Chunk { byte, expected })
    }

    #[test]
    fn by_length() {
        check(Framing::None, b"HTTP", Ok((0, 0, true)));
        check(Framing::Length(0), b"HTTP", Ok((0, 0, true)));
        check(Framing::Length(4), b"bodyHTTP", Ok((4, 4, true)));
        check(Framing::Length(5), b"body", Ok((4, 4, false)));
        check(Framing::UntilClose, b"body", Ok((4, 4, false)));
    }

    #[test]
    fn chunks() {
        for (input, content, consumed, done) in [
            ("0\r\n\r\n", 0, 5, true),
            ("5\r\nhello\r\n0\r\n\r\n", 5, 15, true),
            ("5\r\nhello\r\n0\r\n\r\nHTTP/1.1", 5, 15, true),
            (
                "A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
                20,
                35,
                true,
            ),
            ("1;x=y\r\nh\r\n0;last\r\n\r\n", 1, 20, true),
            ("1 ;x=\"a;b\"\r\nh\r\n0\r\n\r\n", 1, 20, true),
            ("1  \r\nh\r\n000\r\n\r\n", 1, 15, true),
            ("0\r\nDigest: x\r\nB: y\r\n\r\n", 0, 22, true),
            ("0\r\nDigest: x\r\n", 0, 14, false),
            ("2\r\n\r\n\r\n0\r\n\r\n", 2, 12, true),
            (
                "00000000000000000000000000001\r\nh\r\n0\r\n\r\n",
                1,
                39,
                true,
            ),
            ("ffffffffffffffff\r\nh", 1, 19, false),
        ] {
            check(
                Framing::Chunked,
                input.as_bytes(),
                Ok((content, consumed, done)),
            );
        }
    }

    #[test]
    fn broken_chunks() {
        for (input, expected) in [
            ("\r\n", chunk_error(b'\r', "a chunk size")),
            ("g\r\n", chunk_error(b'g', "a chunk size")),
            ("-1\r\n", chunk_error(b'-', "a chunk size")),
            (
                "0x5\r\n",
                chunk_error(b'x', "a hexadecimal digit, `;` or CR"),
            ),
            (
                "5\nhello",
                chunk_error(b'\n', "a hexadecimal digit, `;` or CR"),
            ),
            ("5;x\nhello", chunk_error(b'\n', "CR before LF")),
            ("5\rhello", chunk_error(b'h', "LF behind CR")),
            ("5\r\nhello!", chunk_error(b'!', "CR behind a chunk")),
            ("5\r\nhello\r0", chunk_error(b'0', "LF behind CR")),
            ("0\r\n\n", chunk_error(b'\n', "CR before LF")),
            ("0\r\nA: b\n", chunk_error(b'\n', "CR before LF")),
            ("0\r\nA: b\rc", chunk_error(b'c', "LF behind CR")),
            ("0\r\n\r\r", chunk_error(b'\r', "LF behind CR")),
            ("10000000000000000\r\n", Err(CodecError::ChunkTooLarge)),
            ("fffffffffffffffff", Err(CodecError::ChunkTooLarge)),
        ] {
            check(Framing::Chunked, input.as_bytes(), expected);
        }
    }

    #[test]
    fn the_end_of_the_connection() {
        for (framing, input, expected) in [
            (Framing::None, "", Ok(())),
            (Framing::Length(4), "body", Ok(())),
            (
                Framing::Length(4),
                "bo",
                Err(CodecError::Truncated { missing: Some(2) }),
            ),
            (Framing::UntilClose, "", Ok(())),
            (Framing::UntilClose, "body", Ok(())),
            (Framing::Chunked, "0\r\n\r\n", Ok(())),
            (
                Framing::Chunked,
                "5\r\nhello\r\n0\r\n",
                Err(CodecError::Truncated { missing: None }),
            ),
        ] {
            let mut decoder = BodyDecoder::new(framing);
            decoder.feed(input.as_bytes()).unwrap();
            assert_eq!(decoder.finish_at_eof(), expected, "{framing:?} {input}");
            assert_eq!(decoder.is_done(), expected.is_ok());
        }
    }

    #[test]
    fn content_dropped_elsewhere_counts() {
        let mut decoder = BodyDecoder::new(Framing::Length(100));
        decoder.feed(&[0; 10]).unwrap();
        assert_eq!(decoder.remaining_length(), Some(90));
        decoder.discard(89);
        assert_eq!(
            (decoder.remaining_length(), decoder.is_done()),
            (Some(1), false)
        );
        decoder.discard(1);
        assert_eq!((decoder.body_bytes(), decoder.is_done()), (100, true));
        assert_eq!(decoder.remaining_length(), None);
        for framing in [Framing::Chunked, Framing::UntilClose] {
            assert_eq!(BodyDecoder::new(framing).remaining_length(), None);
        }
    }
}
