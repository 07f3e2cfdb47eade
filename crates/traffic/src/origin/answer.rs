//! Writes answers: the head, the field that says what becomes of the connection, and a small body.
//!
//! Answers are written behind those that already wait to be sent, so that a pipeline leaves in one send.

use super::store::{Body, Tail};
use std::io::Write as _;

/// Content type of bytes that mean nothing.
pub const OCTETS: &str = "application/octet-stream";
/// Content type of text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of JSON.
pub const JSON: &str = "application/json";

/// What becomes of the connection, as far as the answer must say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// HTTP/1.1 that stays: nothing to say.
    Omitted,
    /// HTTP/1.0 that stays.
    KeepAlive,
    /// This answer is the last.
    Close,
}

/// A status 200 whose head is known before the request comes.
#[derive(Debug)]
pub struct Page {
    /// The head without its end, which depends on the connection.
    head: Vec<u8>,
    body: Body,
}

impl Page {
    /// A page of this type.
    pub fn new(content_type: &str, body: Body) -> Self {
        let mut head = Vec::new();
        write_head(&mut head, 200, content_type, body.len());
        Self { head, body }
    }
}

/// Writes one answer.
pub struct Answer<'a> {
    out: &'a mut Vec<u8>,
    connection: ConnectionField,
    request_was_head: bool,
}

impl<'a> Answer<'a> {
    /// An answer into `out`.
    pub fn new(out: &'a mut Vec<u8>, connection: ConnectionField, request_was_head: bool) -> Self {
        Self {
            out,
            connection,
            request_was_head,
        }
    }

    /// A short text.
    pub fn text(self, status: u16, text: &str) {
        self.document(status, TEXT, text.as_bytes());
    }

    /// A JSON document.
    pub fn json(self, document: &[u8]) {
        self.document(200, JSON, document);
    }

    /// A status and its name; 204 and 304 have no body and say no length (RFC 9110 8.6).
    pub fn status(mut self, status: u16) {
        match status {
            204 | 304 => {
                write_status(self.out, status);
                self.end_head();
            }
            _ => self.text(status, &format!("{status} {}\n", reason(status))),
        }
    }

    /// A page; what is too large to be copied comes back.
    pub fn page(mut self, page: &Page) -> Option<Tail> {
        self.out.extend_from_slice(&page.head);
        self.end_head();
        self.body(&page.body)
    }

    /// So many bytes of the pattern; what is too large to be copied comes back.
    pub fn pattern(mut self, length: u64) -> Option<Tail> {
        write_head(self.out, 200, OCTETS, length);
        self.end_head();
        self.body(&Body::Pattern(length))
    }

    fn document(mut self, status: u16, content_type: &str, body: &[u8]) {
        write_head(self.out, status, content_type, body.len() as u64);
        self.end_head();
        if !self.request_was_head {
            self.out.extend_from_slice(body);
        }
    }

    fn body(self, body: &Body) -> Option<Tail> {
        if self.request_was_head {
            return None;
        }
        match body.bytes_or_tail() {
            Ok(bytes) => {
                self.out.extend_from_slice(bytes);
                None
            }
            Err(tail) => Some(tail),
        }
    }

    fn end_head(&mut self) {
        self.out.extend_from_slice(match self.connection {
            ConnectionField::Omitted => b"\r\n",
            ConnectionField::KeepAlive => b"Connection: keep-alive\r\n\r\n",
            ConnectionField::Close => b"Connection: close\r\n\r\n",
        });
    }
}

fn write_status(out: &mut Vec<u8>, status: u16) {
    write!(
        out,
        "HTTP/1.1 {status} {}\r\nServer: prony\r\n",
        reason(status)
    )
    .expect("writing to memory does not fail");
}

fn write_head(out: &mut Vec<u8>, status: u16, content_type: &str, length: u64) {
    write_status(out, status);
    write!(
        out,
        "Content-Type: {content_type}\r\nContent-Length: {length}\r\n"
    )
    .expect("writing to memory does not fail");
}

/// The usual words for a status (RFC 9110 15); they mean nothing to a client.
fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::{Framing, parse_response};

    #[test]
    fn statuses_with_a_body_and_without() {
        for (status, framing) in [
            (204, Framing::None),
            (304, Framing::None),
            (503, Framing::Length(24)),
            (599, Framing::Length(11)),
        ] {
            for request_was_head in [false, true] {
                let mut out = Vec::new();
                Answer::new(&mut out, ConnectionField::Omitted, request_was_head).status(status);
                let head = parse_response(&out, false).unwrap().unwrap();
                assert_eq!((head.status, head.framing), (status, framing));
                let body = out.len() - head.head_len;
                assert_eq!(body > 0, framing != Framing::None && !request_was_head);
            }
        }
    }

    #[test]
    fn a_pipeline_is_one_buffer() {
        let page = Page::new(TEXT, Body::Small(b"small".to_vec()));
        let mut out = Vec::new();
        for connection in [ConnectionField::KeepAlive, ConnectionField::Close] {
            assert_eq!(Answer::new(&mut out, connection, false).page(&page), None);
        }
        let mut rest = &out[..];
        for keep_alive in [true, false] {
            let head = parse_response(rest, false).unwrap().unwrap();
            assert_eq!(
                (head.framing, head.keep_alive),
                (Framing::Length(5), keep_alive)
            );
            rest = &rest[head.head_len..];
            assert!(rest.starts_with(b"small"));
            rest = &rest[5..];
        }
        assert!(rest.is_empty());
    }
}
