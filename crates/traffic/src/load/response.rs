//! Reads the responses of one connection, at any split of the bytes; sans-IO.
//!
//! Two shortcuts make it cheap. A server's heads repeat byte for byte (but for the second in `Date`),
//! so a thread remembers the last head with its meaning: equal bytes mean the same, exactly. And a head
//! that arrives whole, which is nearly always, is never copied.

use crate::transport::{Detail, Failure};
use http1::{BodyDecoder, CodecError, Framing, ResponseHead, parse_response};
use record::FailureKind;

/// Largest head that is understood.
pub(crate) const HEAD_BYTES: usize = 16 * 1024;

/// The last head of this thread, with what it means.
pub(crate) struct HeadCache {
    bytes: Vec<u8>,
    meaning: Option<ResponseHead>,
    /// The request's method was HEAD: no response has a body.
    for_head_request: bool,
}

impl HeadCache {
    /// An empty cache.
    pub fn new(for_head_request: bool) -> Self {
        HeadCache {
            bytes: Vec::with_capacity(HEAD_BYTES),
            meaning: None,
            for_head_request,
        }
    }

    #[inline]
    fn parse(&mut self, input: &[u8]) -> Result<Option<ResponseHead>, CodecError> {
        if let Some(meaning) = self.meaning
            && input.starts_with(&self.bytes)
        {
            return Ok(Some(meaning));
        }
        self.parse_anew(input)
    }

    fn parse_anew(&mut self, input: &[u8]) -> Result<Option<ResponseHead>, CodecError> {
        let parsed = parse_response(input, self.for_head_request)?;
        if let Some(head) = parsed
            && head.head_len <= HEAD_BYTES
        {
            self.bytes.clear();
            self.bytes.extend_from_slice(&input[..head.head_len]);
            self.meaning = parsed;
        }
        Ok(parsed)
    }

    /// Length of the last body, where its head told: the next response is probably alike.
    pub fn expected_body(&self) -> u64 {
        match self.meaning.map(|head| head.framing) {
            Some(Framing::Length(bytes)) => bytes,
            _ => 0,
        }
    }
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    /// The connection may carry another request.
    pub keep_alive: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before or in a head, of which so many bytes lie in the partial buffer.
    Head(usize),
    Body(BodyDecoder, Answer),
}

/// Where one connection stands in its responses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseReader(State);

impl Default for ResponseReader {
    fn default() -> Self {
        ResponseReader(State::Head(0))
    }
}

impl ResponseReader {
    /// Takes bytes off the front of `input`, up to the end of one response; the answer when that end was
    /// reached. `partial` holds this connection's incomplete head between calls.
    pub fn feed(
        &mut self,
        input: &mut &[u8],
        partial: &mut [u8],
        cache: &mut HeadCache,
    ) -> Result<Option<Answer>, Failure> {
        self.feed_with(input, partial, cache, |_| {})
    }

    /// As [`ResponseReader::feed`]; `seen` is shown the content of the body, piece by piece.
    #[inline]
    pub fn feed_with(
        &mut self,
        input: &mut &[u8],
        partial: &mut [u8],
        cache: &mut HeadCache,
        seen: impl FnMut(&[u8]),
    ) -> Result<Option<Answer>, Failure> {
        loop {
            let (mut decoder, answer) = match self.0 {
                State::Body(decoder, answer) => (decoder, answer),
                State::Head(held) => match read_head(held, input, partial, cache)? {
                    Head::Partial(held) => {
                        self.0 = State::Head(held);
                        return Ok(None);
                    }
                    Head::Interim => {
                        self.0 = State::Head(0);
                        continue;
                    }
                    Head::Final(framing, answer) => (BodyDecoder::new(framing), answer),
                },
            };
            let fed = decoder.feed_with(input, seen).map_err(malformed)?;
            *input = &input[fed.consumed..];
            if fed.done {
                self.0 = State::Head(0);
                return Ok(Some(answer));
            }
            self.0 = State::Body(decoder, answer);
            return Ok(None);
        }
    }

    /// Bytes that may be thrown away unseen.
    #[inline]
    pub fn discardable(&self) -> u64 {
        match &self.0 {
            State::Body(decoder, _) => decoder.remaining_length().unwrap_or(0),
            State::Head(_) => 0,
        }
    }

    /// Counts bytes that were thrown away; the answer when they were the last.
    pub fn discarded(&mut self, len: u64) -> Option<Answer> {
        let State::Body(decoder, answer) = &mut self.0 else {
            return None;
        };
        let answer = *answer;
        decoder.discard(len);
        decoder.is_done().then(|| {
            self.0 = State::Head(0);
            answer
        })
    }

    /// Part of a head lies in the partial buffer.
    #[inline]
    pub fn holds(&self) -> bool {
        matches!(self.0, State::Head(1..))
    }

    /// In the middle of a response.
    pub fn is_mid_response(&self) -> bool {
        !matches!(self.0, State::Head(0))
    }

    /// The stream has ended: the answer, when that was its proper end.
    ///
    /// # Errors
    /// `closed_early` before the first byte of a response, `truncated` after it.
    pub fn end(&mut self, orderly: bool) -> Result<Answer, Failure> {
        match &mut self.0 {
            State::Head(0) => Err(Failure::text(
                FailureKind::ClosedEarly,
                "the server closed the connection before the first byte of a response",
            )),
            State::Head(_) => Err(Failure::text(
                FailureKind::Truncated,
                "the server closed the connection in the middle of a response head",
            )),
            State::Body(decoder, answer) => match decoder.finish_at_eof() {
                // RFC 9112 9.8: without TLS's end mark the body may have been cut.
                Ok(()) if !orderly => Err(Failure::text(
                    FailureKind::Truncated,
                    "the connection ended without TLS close_notify, so the body may be cut",
                )),
                Ok(()) => Ok(*answer),
                Err(error) => Err(Failure {
                    kind: FailureKind::Truncated,
                    detail: Detail::Codec(error),
                }),
            },
        }
    }
}

enum Head {
    /// Not whole; so many bytes are in the partial buffer.
    Partial(usize),
    /// A 1xx answer: the real one follows.
    Interim,
    Final(Framing, Answer),
}

const SWITCHING_PROTOCOLS: u16 = 101;

fn read_head(
    held: usize,
    input: &mut &[u8],
    partial: &mut [u8],
    cache: &mut HeadCache,
) -> Result<Head, Failure> {
    let taken = input.len().min(partial.len() - held);
    let parsed = if held == 0 {
        cache.parse(input)
    } else {
        partial[held..held + taken].copy_from_slice(&input[..taken]);
        cache.parse(&partial[..held + taken])
    };
    match parsed.map_err(malformed)? {
        Some(head) if head.head_len > HEAD_BYTES => Err(too_large()),
        Some(head) => {
            *input = &input[head.head_len - held..];
            Ok(understood(head))
        }
        None if held + input.len() >= partial.len() => Err(too_large()),
        None => {
            partial[held..held + taken].copy_from_slice(&input[..taken]);
            *input = &input[taken..];
            Ok(Head::Partial(held + taken))
        }
    }
}

fn understood(head: ResponseHead) -> Head {
    if (100..200).contains(&head.status) && head.status != SWITCHING_PROTOCOLS {
        return Head::Interim;
    }
    let answer = Answer {
        status: head.status,
        keep_alive: head.keep_alive,
    };
    Head::Final(head.framing, answer)
}

fn malformed(error: CodecError) -> Failure {
    Failure {
        kind: FailureKind::Malformed,
        detail: Detail::Codec(error),
    }
}

fn too_large() -> Failure {
    Failure::text(
        FailureKind::HeadTooLarge,
        "the response head is larger than 16 KiB",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Answer = Answer {
        status: 200,
        keep_alive: true,
    };

    struct Line {
        reader: ResponseReader,
        partial: Vec<u8>,
        cache: HeadCache,
    }

    impl Line {
        fn new(for_head_request: bool) -> Self {
            Line {
                reader: ResponseReader::default(),
                partial: vec![0; HEAD_BYTES],
                cache: HeadCache::new(for_head_request),
            }
        }

        /// Feeds pieces; the answers, or the failure's kind.
        fn feed(&mut self, pieces: &[&[u8]]) -> Result<Vec<Answer>, FailureKind> {
            let mut answers = Vec::new();
            for piece in pieces {
                let mut rest = *piece;
                while !rest.is_empty() {
                    let fed = self
                        .reader
                        .feed(&mut rest, &mut self.partial, &mut self.cache);
                    answers.extend(fed.map_err(|failure| failure.kind)?);
                }
            }
            Ok(answers)
        }
    }

    /// The same answers at every split into two, and byte by byte.
    fn check(stream: &[u8], for_head_request: bool, expected: &[Answer]) {
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            let got = Line::new(for_head_request).feed(&[a, b]);
            assert_eq!(got.as_deref(), Ok(expected), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let got = Line::new(for_head_request).feed(&bytes);
        assert_eq!(got.as_deref(), Ok(expected));
    }

    #[test]
    fn answers_end_where_they_end_at_any_split() {
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        check(length, false, &[OK]);
        check(&[&length[..], &length[..]].concat(), false, &[OK, OK]);
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            false,
            &[OK],
        );
        let none = |status| Answer { status, ..OK };
        check(b"HTTP/1.1 204 No Content\r\n\r\n", false, &[none(204)]);
        check(
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            false,
            &[none(304)],
        );
        check(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true, &[OK]);
    }

    #[test]
    fn interim_answers_are_skipped_and_a_switch_is_not() {
        check(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            false,
            &[OK],
        );
        let switched = Answer {
            status: 101,
            keep_alive: false,
        };
        check(
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            false,
            &[switched],
        );
    }

    #[test]
    fn a_remembered_head_does_not_hide_a_changed_one() {
        let mut line = Line::new(false);
        let first = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
        let other = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        let got = line.feed(&[first, other, first, first]);
        assert_eq!(got, Ok(vec![OK; 4]));
        assert_eq!(line.cache.expected_body(), 1);
    }

    #[test]
    fn dropped_bytes_count_towards_the_body() {
        let mut line = Line::new(false);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
        assert_eq!(line.feed(&[head]), Ok(vec![]));
        assert_eq!(line.reader.discardable(), 7);
        assert_eq!(line.reader.discarded(6), None);
        assert_eq!(line.reader.discarded(1), Some(OK));
        assert!(!line.reader.is_mid_response());
    }

    #[test]
    fn the_end_of_the_stream_is_judged_by_where_it_comes() {
        let until_close = b"HTTP/1.1 200 OK\r\n\r\nabc";
        for (stream, orderly, expected) in [
            (&b""[..], true, Err(FailureKind::ClosedEarly)),
            (b"HTTP/1.1 2", true, Err(FailureKind::Truncated)),
            (
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                true,
                Err(FailureKind::Truncated),
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                true,
                Err(FailureKind::Truncated),
            ),
            (until_close, true, Ok(200)),
            (until_close, false, Err(FailureKind::Truncated)),
        ] {
            let mut line = Line::new(false);
            line.feed(&[stream]).unwrap();
            let end = line.reader.end(orderly);
            assert_eq!(
                end.map(|answer| answer.status).map_err(|f| f.kind),
                expected,
                "{}",
                stream.escape_ascii()
            );
        }
    }

    #[test]
    fn what_is_not_http_or_too_large_is_named() {
        let kind = |stream: &[u8]| Line::new(false).feed(&[stream]).unwrap_err();
        assert_eq!(kind(b"SSH-2.0-OpenSSH\r\n"), FailureKind::Malformed);
        assert_eq!(
            kind(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz"),
            FailureKind::Malformed
        );
        let endless = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'a'; HEAD_BYTES]].concat();
        assert_eq!(kind(&endless), FailureKind::HeadTooLarge);
        let pieces: Vec<&[u8]> = endless.chunks(1000).collect();
        assert_eq!(
            Line::new(false).feed(&pieces),
            Err(FailureKind::HeadTooLarge)
        );
    }
}
