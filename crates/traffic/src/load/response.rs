//! Responses as messages: what a head says to a load, bodies that are thrown away unseen, and what the end of the
//! stream means.

use crate::messages::{self, Head, Kind, MessageReader, State};
use crate::transport::{Detail, Failure};
use http1::{CodecError, parse_response};
use record::FailureKind;

const SWITCHING_PROTOCOLS: u16 = 101;

/// Responses to requests of one method.
pub(crate) struct Responses {
    /// The request's method was HEAD: no response has a body.
    for_head_request: bool,
}

/// The last head of this thread, with what it means.
pub(crate) type HeadCache = messages::HeadCache<Responses>;

impl HeadCache {
    /// An empty cache.
    pub fn new(for_head_request: bool) -> Self {
        HeadCache::of(Responses { for_head_request })
    }

    /// The next head answers a HEAD request, or another.
    pub fn expect(&mut self, for_head_request: bool) {
        if self.kind().for_head_request != for_head_request {
            self.set_kind(Responses { for_head_request });
        }
    }
}

impl Kind for Responses {
    type Said = Answer;

    fn parse(&self, bytes: &[u8]) -> Result<Option<Head<Answer>>, CodecError> {
        let head = parse_response(bytes, self.for_head_request)?;
        Ok(head.map(|head| {
            let is_interim =
                (100..200).contains(&head.status) && head.status != SWITCHING_PROTOCOLS;
            let answer = Answer {
                status: head.status,
                keep_alive: head.keep_alive,
                body_bytes: 0,
            };
            Head {
                len: head.head_len,
                meaning: (!is_interim).then_some((head.framing, answer)),
            }
        }))
    }

    #[inline]
    fn ended(said: Answer, body_bytes: u64) -> Answer {
        Answer { body_bytes, ..said }
    }
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub status: u16,
    /// The connection may carry another request.
    pub keep_alive: bool,
    /// Length of its body; 0 until that is whole.
    pub body_bytes: u64,
}

/// Where one connection stands in its responses.
pub(crate) type ResponseReader = MessageReader<Answer>;

impl ResponseReader {
    /// Bytes that may be thrown away unseen.
    #[inline]
    pub fn discardable(&self) -> u64 {
        match &self.state {
            State::Body(decoder, _) => decoder.remaining_length().unwrap_or(0),
            State::Head(_) => 0,
        }
    }

    /// Counts bytes that were thrown away; the answer when they were the last.
    pub fn discarded(&mut self, len: u64) -> Option<Answer> {
        let State::Body(decoder, answer) = &mut self.state else {
            return None;
        };
        decoder.discard(len);
        let answer = Responses::ended(*answer, decoder.body_bytes());
        decoder.is_done().then(|| {
            self.state = State::Head(0);
            answer
        })
    }

    /// The stream has ended: the answer, when that was its proper end.
    ///
    /// # Errors
    /// `closed_early` before the first byte of a response, `truncated` after it.
    pub fn end(&mut self, orderly: bool) -> Result<Answer, Failure> {
        match &mut self.state {
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
                Ok(()) => Ok(Responses::ended(*answer, decoder.body_bytes())),
                Err(error) => Err(Failure {
                    kind: FailureKind::Truncated,
                    detail: Detail::Codec(error),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::HEAD_BYTES;

    const OK: Answer = Answer {
        status: 200,
        keep_alive: true,
        body_bytes: 0,
    };

    /// The same with a body of so many bytes.
    const fn with(body_bytes: u64) -> Answer {
        Answer { body_bytes, ..OK }
    }

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
                    answers.extend(fed.map_err(|bad| Failure::from(bad).kind)?);
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
        check(length, false, &[with(5)]);
        check(
            &[&length[..], &length[..]].concat(),
            false,
            &[with(5), with(5)],
        );
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            false,
            &[with(5)],
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
            body_bytes: 0,
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
        assert_eq!(got, Ok(vec![with(1), with(2), with(1), with(1)]));
        assert_eq!(line.cache.expected_body(), 1);
    }

    #[test]
    fn dropped_bytes_count_towards_the_body() {
        let mut line = Line::new(false);
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";
        assert_eq!(line.feed(&[head]), Ok(vec![]));
        assert_eq!(line.reader.discardable(), 7);
        assert_eq!(line.reader.discarded(6), None);
        assert_eq!(line.reader.discarded(1), Some(with(10)));
        assert!(!line.reader.is_mid_message());
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
