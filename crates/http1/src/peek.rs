//! What can be told of a message from its first bytes, for whoever looks on and is no party to it.
//!
//! The surprise: nothing is refused here but what is no HTTP/1. A head may be cut behind any field, and the fields that
//! are whole still count; a length that is none is a field like any other.

use crate::HEADERS_MAX;
use httparse::{EMPTY_HEADER, Header};

/// A head, as far as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// `HTTP/1.0` or `HTTP/1.1`.
    pub version: &'static str,
    /// What the first line says.
    pub first: FirstLine,
    /// Fields that are whole, in order, names in lower case; bytes that are not UTF-8 are replaced.
    pub fields: Vec<(String, String)>,
    /// Its end was there.
    pub whole: bool,
}

/// The first line of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstLine {
    /// With its method.
    Request(String),
    /// With its status.
    Response(u16),
}

/// Reads what is there of a head; `None` when the first line is not whole, or none of HTTP/1.
pub fn peek(buf: &[u8]) -> Option<Peeked> {
    if !buf.contains(&b'\n') {
        return None;
    }
    // The parsers' results tell only whether the head is whole and free of faults; what they read stays in either case.
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(buf);
    if let (Some(minor), Some(status)) = (response.version, response.code) {
        let first = FirstLine::Response(status);
        let whole = parsed.is_ok_and(|status| status.is_complete());
        return Some(peeked(minor, first, response.headers, whole));
    }
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let parsed = request.parse(buf);
    let whole = parsed.is_ok_and(|status| status.is_complete());
    let first = FirstLine::Request(request.method?.to_owned());
    Some(peeked(request.version?, first, request.headers, whole))
}

/// Method and target of a request, of whose first line at least these are there; the end of a target that is cut is not
/// seen. `None` for what is no request of HTTP/1.
pub fn peek_target(buf: &[u8]) -> Option<(String, String)> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    // As above: what was read before a fault or the end stays.
    let parsed = request.parse(buf);
    let method = request.method?.to_owned();
    let cut = || {
        let rest = buf.get(method.len() + 1..)?;
        let is_cut = parsed.is_ok_and(|status| status.is_partial()) && !rest.contains(&b' ');
        is_cut.then(|| String::from_utf8_lossy(rest).into_owned())
    };
    let target = match (request.path, request.version) {
        (Some(path), Some(_)) => path.to_owned(),
        _ => cut()?,
    };
    let is_target = target.starts_with('/') || target.starts_with("http");
    is_target.then_some((method, target))
}

fn peeked(minor: u8, first: FirstLine, headers: &[Header<'_>], whole: bool) -> Peeked {
    let read = headers.iter().take_while(|field| !field.name.is_empty());
    Peeked {
        whole,
        version: if minor == 0 { "HTTP/1.0" } else { "HTTP/1.1" },
        first,
        fields: read
            .map(|field| {
                let value = String::from_utf8_lossy(field.value).into_owned();
                (field.name.to_ascii_lowercase(), value)
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(of: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        of.iter().map(owned).collect()
    }

    #[test]
    fn whole_fields_of_a_cut_head_count() {
        let text = "GET /a HTTP/1.0\r\nHost: a\r\nConnection:  close \r\nContent-Le";
        let found = peek(text.as_bytes()).unwrap();
        assert_eq!(found.version, "HTTP/1.0");
        assert_eq!(found.first, FirstLine::Request("GET".to_owned()));
        assert_eq!(
            found.fields,
            fields(&[("host", "a"), ("connection", "close")])
        );
    }

    #[test]
    fn the_body_is_no_field_and_a_broken_length_is_one() {
        let text = "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\nConnection: close\r\n";
        let found = peek(text.as_bytes()).unwrap();
        assert_eq!(found.first, FirstLine::Response(204));
        assert_eq!(found.fields, fields(&[("content-length", "x")]));
    }

    #[test]
    fn a_target_is_told_as_far_as_it_is_seen() {
        let of = |text: &str| peek_target(text.as_bytes());
        let told = |method: &str, target: &str| Some((method.to_owned(), target.to_owned()));
        assert_eq!(
            of("GET /a?b=1 HTTP/1.1\r\nHost: c\r\n"),
            told("GET", "/a?b=1")
        );
        assert_eq!(of("POST /a/very/lo"), told("POST", "/a/very/lo"));
        for none in [
            "",
            "GET",
            "GET ",
            "PRI * HTTP/2.0\r\n",
            "HTTP/1.1 200 OK\r\n",
            "get a\r\n",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_no_head_is_none() {
        for bytes in [
            "",
            "GET ",
            "GET / HTTP/1.1",
            "HTTP/1.1 200",
            "HTTP/2 binary\r\n",
            "POST\0\0\r\n",
            "SSH-2.0-OpenSSH_9.2\r\n",
        ] {
            assert_eq!(peek(bytes.as_bytes()), None, "{bytes}");
        }
    }
}
