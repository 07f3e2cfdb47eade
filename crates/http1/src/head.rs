//! Message heads: what a response or request says about its body and its connection.
//!
//! `httparse` knows the grammar; this file knows what the fields mean together (RFC 9112 6.3 for the
//! body, 9.3 for the connection). Only the fields that matter for that are looked at, in one pass.
//!
//! The surprise: a `Content-Length` that is wrong is not an error until it is the field that decides.
//! An answer to HEAD, a 304 and a chunked message end elsewhere, whatever it says.

use super::{CodecError, Excerpt, Framing};
use httparse::{Header, ParserConfig, Status};
use std::mem::MaybeUninit;

/// Most header fields in a head.
pub const HEADERS_MAX: usize = 96;

/// HTTP/1.1's number in `httparse`: the minor version.
const HTTP_1_1: u8 = 1;

/// A response's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// Status code, 100 to 999. A status of 100 to 199 other than 101 is an interim answer: the next head
    /// follows at once, and only the last one answers the request.
    pub status: u16,
    /// Bytes of the head, its empty line included; the body follows.
    pub head_len: usize,
    /// Where the body ends.
    pub framing: Framing,
    /// The connection may carry another request after this answer.
    pub keep_alive: bool,
}

/// A request's head; it borrows from the buffer that it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead<'a> {
    /// Method, case-sensitive.
    pub method: &'a str,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    /// Request target as sent: mostly a path with its query.
    pub target: &'a str,
    /// The `Host` field; always there in HTTP/1.1.
    pub host: Option<&'a str>,
    /// Where the body ends; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// The connection may carry another request after the answer.
    pub keep_alive: bool,
    /// The client waits for a `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// Bytes of the head, its empty line included; the body follows.
    pub head_len: usize,
}

/// Reads a response's head from the start of `buf`; `None` when it is not complete yet.
///
/// The answer to a CONNECT is not told apart: this codec does not tunnel.
///
/// # Errors
/// Any [`CodecError`] of a head. The connection is of no use after it.
pub fn parse_response(
    buf: &[u8],
    request_was_head: bool,
) -> Result<Option<ResponseHead>, CodecError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        buf,
        &mut headers,
    );
    let Some(head_len) = complete(parsed, buf)? else {
        return Ok(None);
    };
    let status = response.code.unwrap_or(0);
    if status < 100 {
        return Err(CodecError::Status { status });
    }
    let fields = Fields::read(response.headers);
    let framing = if request_was_head || has_no_body(status) {
        Framing::None
    } else {
        fields.response_framing()?
    };
    let keep_alive = framing != Framing::UntilClose
        && status != SWITCHING_PROTOCOLS
        && fields.keep_alive(response.version);
    Ok(Some(ResponseHead {
        status,
        head_len,
        framing,
        keep_alive,
    }))
}

/// Version (`HTTP/1.1`) and header fields of a complete response head, in order, names in lower case; bytes that
/// are not UTF-8 are replaced.
///
/// # Errors
/// As [`for_each_field`].
pub fn response_fields(buf: &[u8]) -> Result<(String, Vec<(String, String)>), CodecError> {
    let mut fields = Vec::new();
    let minor = for_each_field(buf, |name, value| {
        let value = String::from_utf8_lossy(value).into_owned();
        fields.push((name.to_ascii_lowercase(), value));
    })?;
    Ok((format!("HTTP/1.{minor}"), fields))
}

/// Hands out the header fields of a complete response head, in order and as they are, without allocating; returns the
/// minor version.
///
/// # Errors
/// [`CodecError`] when `buf` does not begin with a whole head.
pub fn for_each_field(buf: &[u8], mut note: impl FnMut(&str, &[u8])) -> Result<u8, CodecError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        buf,
        &mut headers,
    );
    if complete(parsed, buf)?.is_none() {
        return Err(CodecError::Truncated { missing: None });
    }
    response
        .headers
        .iter()
        .for_each(|field| note(field.name, field.value));
    Ok(response.version.unwrap_or(0))
}

/// Reads a request's head from the start of `buf`; `None` when it is not complete yet.
///
/// # Errors
/// Any [`CodecError`] of a head: the answer to all of them is 400 and the end of the connection.
pub fn parse_request(buf: &[u8]) -> Result<Option<RequestHead<'_>>, CodecError> {
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let parsed =
        ParserConfig::default().parse_request_with_uninit_headers(&mut request, buf, &mut headers);
    let Some(head_len) = complete(parsed, buf)? else {
        return Ok(None);
    };
    let fields = Fields::read(request.headers);
    Ok(Some(RequestHead {
        method: request.method.unwrap_or_default(),
        target: request.path.unwrap_or_default(),
        minor_version: request.version.unwrap_or(HTTP_1_1),
        host: fields.host(request.version)?,
        framing: fields.request_framing()?,
        keep_alive: fields.keep_alive(request.version),
        // RFC 9110 10.1.1: the expectation of an HTTP/1.0 client is ignored.
        expect_continue: fields.expect_continue && request.version == Some(HTTP_1_1),
        head_len,
    }))
}

/// After this answer the connection speaks something else.
const SWITCHING_PROTOCOLS: u16 = 101;

/// RFC 9112 6.3, rule 1: these end with their head, whatever their fields say.
fn has_no_body(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

/// Length of the head, `None` when more bytes must come.
fn complete(
    parsed: Result<Status<usize>, httparse::Error>,
    buf: &[u8],
) -> Result<Option<usize>, CodecError> {
    match parsed {
        Ok(Status::Complete(head_len)) => Ok(Some(head_len)),
        Ok(Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(CodecError::TooManyHeaders),
        Err(cause) => Err(CodecError::Head {
            cause,
            start: Excerpt::of(buf),
        }),
    }
}

/// What `Transfer-Encoding` says; several lines are one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codings {
    /// No such field.
    Absent,
    /// `chunked` comes last.
    ChunkedLast,
    /// Another coding comes last: only the end of the connection ends the body.
    OtherLast,
    /// `chunked` was applied twice (RFC 9112 6.1: must not).
    ChunkedTwice,
}

/// What `Content-Length` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Absent,
    Bytes(u64),
    Wrong(CodecError),
}

/// The header fields that say where a message ends and what becomes of its connection.
struct Fields<'a> {
    codings: Codings,
    chunked_seen: bool,
    last_coding_line: &'a [u8],
    length: Length,
    close: bool,
    keep_alive: bool,
    expect_continue: bool,
    host: Option<&'a [u8]>,
    hosts: u32,
}

impl<'a> Fields<'a> {
    fn read(headers: &[Header<'a>]) -> Self {
        let mut fields = Self {
            codings: Codings::Absent,
            chunked_seen: false,
            last_coding_line: b"",
            length: Length::Absent,
            close: false,
            keep_alive: false,
            expect_continue: false,
            host: None,
            hosts: 0,
        };
        for header in headers {
            fields.note(header);
        }
        fields
    }

    /// The name's length tells nearly every uninteresting field apart without a comparison.
    fn note(&mut self, header: &Header<'a>) {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            4 if is("host") => self.note_host(header.value),
            6 if is("expect") => {
                self.expect_continue |= header.value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if is("connection") => self.note_connection(header.value),
            14 if is("content-length") => self.note_length(header.value),
            17 if is("transfer-encoding") => self.note_codings(header.value),
            _ => {}
        }
    }

    fn note_host(&mut self, value: &'a [u8]) {
        self.host = Some(value);
        self.hosts += 1;
    }

    fn note_connection(&mut self, value: &[u8]) {
        for option in list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// RFC 9112 6.3, rule 5: the same length said twice is that length.
    fn note_length(&mut self, value: &[u8]) {
        for member in value.split(|&b| b == b',') {
            self.length = match (self.length, parse_length(member.trim_ascii())) {
                (Length::Wrong(error), _) => Length::Wrong(error),
                (_, None) => Length::Wrong(CodecError::ContentLength {
                    value: Excerpt::of(value),
                }),
                (Length::Bytes(first), Some(second)) if first != second => {
                    Length::Wrong(CodecError::ContentLengthConflict { first, second })
                }
                (_, Some(bytes)) => Length::Bytes(bytes),
            };
        }
    }

    fn note_codings(&mut self, value: &'a [u8]) {
        self.last_coding_line = value;
        // A field without a member is still a field that hides the body's length.
        if self.codings == Codings::Absent {
            self.codings = Codings::OtherLast;
        }
        for coding in list(value) {
            let chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.codings = match (self.codings, chunked) {
                (Codings::ChunkedTwice, _) => Codings::ChunkedTwice,
                (_, true) if self.chunked_seen => Codings::ChunkedTwice,
                (_, true) => Codings::ChunkedLast,
                (_, false) => Codings::OtherLast,
            };
            self.chunked_seen |= chunked;
        }
    }

    fn response_framing(&self) -> Result<Framing, CodecError> {
        match self.codings {
            Codings::ChunkedLast => Ok(Framing::Chunked),
            Codings::OtherLast => Ok(Framing::UntilClose),
            Codings::ChunkedTwice => Err(self.codings_error()),
            Codings::Absent => self.length_or(Framing::UntilClose),
        }
    }

    fn request_framing(&self) -> Result<Framing, CodecError> {
        match self.codings {
            Codings::ChunkedLast => Ok(Framing::Chunked),
            // A client that closed could not read the answer: a request cannot last until the close.
            Codings::OtherLast | Codings::ChunkedTwice => Err(self.codings_error()),
            Codings::Absent => self.length_or(Framing::None),
        }
    }

    fn length_or(&self, without: Framing) -> Result<Framing, CodecError> {
        match self.length {
            Length::Absent => Ok(without),
            Length::Bytes(bytes) => Ok(Framing::Length(bytes)),
            Length::Wrong(error) => Err(error),
        }
    }

    fn codings_error(&self) -> CodecError {
        CodecError::TransferEncoding {
            value: Excerpt::of(self.last_coding_line),
        }
    }

    /// RFC 9112 9.3; a doubtful framing costs the connection (6.1 for HTTP/1.0, 6.3 rule 3 for both
    /// fields in one message).
    fn keep_alive(&self, version: Option<u8>) -> bool {
        let http_1_1 = version == Some(HTTP_1_1);
        let doubtful =
            self.codings != Codings::Absent && (!http_1_1 || self.length != Length::Absent);
        !self.close && !doubtful && (http_1_1 || self.keep_alive)
    }

    /// RFC 9112 3.2.
    fn host(&self, version: Option<u8>) -> Result<Option<&'a str>, CodecError> {
        if self.hosts > 1 || (self.hosts == 0 && version == Some(HTTP_1_1)) {
            return Err(CodecError::Host { found: self.hosts });
        }
        match self.host.map(str::from_utf8).transpose() {
            Ok(host) => Ok(host),
            Err(_) => Err(CodecError::Head {
                cause: httparse::Error::HeaderValue,
                start: Excerpt::of(self.host.unwrap_or_default()),
            }),
        }
    }
}

/// Members of a comma-separated list; empty ones are to be ignored (RFC 9110 5.6.1).
fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// Digits only: no sign, no blank, no overflow.
fn parse_length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Framing::{Chunked, Length as Bytes, UntilClose};

    /// A response of these lines; the head must stay incomplete at every byte before its last.
    fn response(lines: &str, request_was_head: bool) -> Result<ResponseHead, CodecError> {
        let text = format!("{}\r\n\r\n", lines.replace('\n', "\r\n"));
        for end in 0..text.len() {
            assert_eq!(
                parse_response(&text.as_bytes()[..end], request_was_head),
                Ok(None),
                "{lines} cut at {end}"
            );
        }
        let body_behind = format!("{text}body");
        let head = parse_response(body_behind.as_bytes(), request_was_head)?;
        let head = head.expect("the head is complete");
        assert_eq!(head.head_len, text.len());
        Ok(head)
    }

    fn check(lines: &str, framing: Framing, keep_alive: bool) {
        let head = response(lines, false).expect(lines);
        assert_eq!(
            (head.framing, head.keep_alive),
            (framing, keep_alive),
            "{lines}"
        );
    }

    #[test]
    fn where_a_response_ends() {
        for (lines, framing) in [
            ("HTTP/1.1 200 OK\nContent-Length: 12", Bytes(12)),
            ("HTTP/1.1 200 OK\ncontent-length:12", Bytes(12)),
            ("HTTP/1.1 200\nContent-Length: 0", Bytes(0)),
            (
                "HTTP/1.1 200 OK\nContent-Length: 18446744073709551615",
                Bytes(u64::MAX),
            ),
            ("HTTP/1.1 200 OK\nContent-Length: 5, 5", Bytes(5)),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 5",
                Bytes(5),
            ),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", Chunked),
            ("HTTP/1.1 200 OK\nTRANSFER-ENCODING: , CHUNKED ,", Chunked),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked", Chunked),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked",
                Chunked,
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked, gzip",
                UntilClose,
            ),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: identity", UntilClose),
            (
                "HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked",
                Chunked,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: x\nTransfer-Encoding: chunked",
                Chunked,
            ),
            ("HTTP/1.1 200 OK", UntilClose),
            ("HTTP/1.1 204 No Content\nContent-Length: 5", Framing::None),
            (
                "HTTP/1.1 304 Not Modified\nContent-Length: x",
                Framing::None,
            ),
            ("HTTP/1.1 100 Continue", Framing::None),
            (
                "HTTP/1.1 103 Early Hints\nTransfer-Encoding: chunked",
                Framing::None,
            ),
            ("HTTP/1.1 206 Partial Content\nContent-Length: 5", Bytes(5)),
            ("HTTP/1.1 500 Oops\nContent-Length: 5", Bytes(5)),
        ] {
            assert_eq!(
                response(lines, false).expect(lines).framing,
                framing,
                "{lines}"
            );
            assert_eq!(response(lines, true).expect(lines).framing, Framing::None);
        }
    }

    #[test]
    fn whether_the_connection_stays() {
        for (lines, framing, keep_alive) in [
            ("HTTP/1.1 200 OK\nContent-Length: 1", Bytes(1), true),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: close",
                Bytes(1),
                false,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: CLOSE",
                Bytes(1),
                false,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: x, Close",
                Bytes(1),
                false,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: x\nConnection: close",
                Bytes(1),
                false,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: closed",
                Bytes(1),
                true,
            ),
            (
                "HTTP/1.1 200 OK\nContent-Length: 1\nConnection: keep-alive, close",
                Bytes(1),
                false,
            ),
            ("HTTP/1.0 200 OK\nContent-Length: 1", Bytes(1), false),
            (
                "HTTP/1.0 200 OK\nContent-Length: 1\nConnection: Keep-Alive",
                Bytes(1),
                true,
            ),
            (
                "HTTP/1.0 200 OK\nContent-Length: 1\nConnection: keep-alive, close",
                Bytes(1),
                false,
            ),
            ("HTTP/1.1 200 OK", UntilClose, false),
            ("HTTP/1.0 200 OK\nConnection: keep-alive", UntilClose, false),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: chunked", Chunked, true),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nContent-Length: 1",
                Chunked,
                false,
            ),
            (
                "HTTP/1.0 200 OK\nTransfer-Encoding: chunked\nConnection: keep-alive",
                Chunked,
                false,
            ),
            ("HTTP/1.1 204 No Content", Framing::None, true),
            (
                "HTTP/1.1 101 Switching Protocols\nUpgrade: x",
                Framing::None,
                false,
            ),
        ] {
            check(lines, framing, keep_alive);
        }
    }

    #[test]
    fn lengths_that_are_none() {
        for value in [
            "",
            "x",
            "-1",
            "+1",
            "1 2",
            "0x10",
            "1,",
            "18446744073709551616",
            "1, x",
        ] {
            let error = response(&format!("HTTP/1.1 200 OK\nContent-Length: {value}"), false);
            let value = Excerpt::of(value.as_bytes());
            assert_eq!(error, Err(CodecError::ContentLength { value }));
        }
        for lines in [
            "HTTP/1.1 200 OK\nContent-Length: 5, 6",
            "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 6",
        ] {
            assert_eq!(
                response(lines, false),
                Err(CodecError::ContentLengthConflict {
                    first: 5,
                    second: 6
                })
            );
        }
    }

    #[test]
    fn responses_that_are_none() {
        for (input, cause) in [
            ("SSH-2.0-OpenSSH_9.2\r\n", httparse::Error::Version),
            ("HTTP/2 200 OK\r\n\r\n", httparse::Error::Version),
            ("HTTP/1.1 2x0 OK\r\n\r\n", httparse::Error::Status),
            (
                "HTTP/1.1 200 OK\r\nA b\r\n\r\n",
                httparse::Error::HeaderName,
            ),
            (
                "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
                httparse::Error::HeaderValue,
            ),
        ] {
            assert_eq!(
                parse_response(input.as_bytes(), false),
                Err(CodecError::Head {
                    cause,
                    start: Excerpt::of(input.as_bytes())
                })
            );
        }
        assert_eq!(
            response(
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked, chunked",
                false
            ),
            Err(CodecError::TransferEncoding {
                value: Excerpt::of(b"chunked, chunked")
            })
        );
        assert_eq!(
            response("HTTP/1.1 099 No", false),
            Err(CodecError::Status { status: 99 })
        );
    }

    #[test]
    fn as_many_fields_as_fit() {
        let with = |fields: usize| format!("HTTP/1.1 204 No{}", "\nA: b".repeat(fields));
        assert!(response(&with(HEADERS_MAX), false).is_ok());
        let one_more = with(HEADERS_MAX + 1).replace('\n', "\r\n") + "\r\n\r\n";
        assert_eq!(
            parse_response(one_more.as_bytes(), false),
            Err(CodecError::TooManyHeaders)
        );
    }

    fn request(text: &str) -> Result<RequestHead<'_>, CodecError> {
        for end in 0..text.len() {
            assert_eq!(
                parse_request(&text.as_bytes()[..end]),
                Ok(None),
                "{text} cut at {end}"
            );
        }
        Ok(parse_request(text.as_bytes())?.expect("the head is complete"))
    }

    #[test]
    fn a_request_in_full() {
        let text = "POST /upload?x=1 HTTP/1.1\r\nhOST: a.example:80\r\nExpect: 100-Continue\r\nContent-Length: 9\r\n\r\n";
        assert_eq!(
            request(text),
            Ok(RequestHead {
                method: "POST",
                target: "/upload?x=1",
                minor_version: 1,
                host: Some("a.example:80"),
                framing: Bytes(9),
                keep_alive: true,
                expect_continue: true,
                head_len: text.len(),
            })
        );
    }

    #[test]
    fn where_a_request_ends() {
        for (fields, framing, keep_alive) in [
            ("", Framing::None, true),
            ("Connection: close\r\n", Framing::None, false),
            ("Content-Length: 3\r\n", Bytes(3), true),
            ("Transfer-Encoding: gzip, chunked\r\n", Chunked, true),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                Chunked,
                false,
            ),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let head = request(&text).expect(fields);
            assert_eq!(
                (head.framing, head.keep_alive),
                (framing, keep_alive),
                "{fields}"
            );
        }
    }

    #[test]
    fn requests_of_http_1_0() {
        for (fields, keep_alive) in [("", false), ("Connection: keep-alive\r\n", true)] {
            let text = format!("GET / HTTP/1.0\r\nExpect: 100-continue\r\n{fields}\r\n");
            let head = request(&text).expect(fields);
            assert_eq!((head.host, head.keep_alive), (None, keep_alive));
            assert!(!head.expect_continue);
        }
    }

    #[test]
    fn requests_that_are_none() {
        let codings = |value: &str| CodecError::TransferEncoding {
            value: Excerpt::of(value.as_bytes()),
        };
        for (fields, error) in [
            ("", CodecError::Host { found: 0 }),
            ("Host: a\r\nHost: b\r\n", CodecError::Host { found: 2 }),
            ("Host: a\r\nTransfer-Encoding: gzip\r\n", codings("gzip")),
            ("Host: a\r\nTransfer-Encoding:\r\n", codings("")),
            (
                "Host: a\r\nTransfer-Encoding: chunked, gzip\r\n",
                codings("chunked, gzip"),
            ),
            (
                "Host: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
                CodecError::ContentLengthConflict {
                    first: 1,
                    second: 2,
                },
            ),
        ] {
            let text = format!("GET / HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(request(&text), Err(error), "{fields}");
        }
        assert!(matches!(
            parse_request(b"\x16\x03\x01\x02\x00\x01"),
            Err(CodecError::Head { .. })
        ));
    }
}
