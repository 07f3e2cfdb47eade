//! First bytes of requests and answers, parsed and counted by what matters of them.
//!
//! The surprise: a head may be cut after its first 512 bytes, and the fields that are whole still count.

use super::layout::{HEAD, class};
use aya::maps::{MapData, RingBuf};
use http1::FirstLine;
use record::HeadSeen;
use std::collections::BTreeMap;

/// Fields whose values are kept.
const KEPT: [&str; 7] = [
    "connection",
    "transfer-encoding",
    "content-encoding",
    "accept-encoding",
    "content-length",
    "cache-control",
    "vary",
];
/// Fields of which it is kept that they were there: their values are somebody's own, or each response's.
const NOTED: [&str; 6] = [
    "set-cookie",
    "cookie",
    "authorization",
    "expires",
    "last-modified",
    "etag",
];
/// What stands for such a value.
const PRESENT: &str = "present";

/// Reads every head in the ring; by target.
pub(crate) fn drain(mut ring: RingBuf<MapData>) -> BTreeMap<u32, Vec<HeadSeen>> {
    let mut by_target: BTreeMap<u32, Vec<HeadSeen>> = BTreeMap::new();
    while let Some(item) = ring.next() {
        if let Some((target, head)) = decode(&item) {
            add(by_target.entry(target).or_default(), head);
        }
    }
    by_target
}

fn add(heads: &mut Vec<HeadSeen>, head: HeadSeen) {
    let same = |other: &&mut HeadSeen| {
        other.class == head.class
            && other.kind == head.kind
            && other.version == head.version
            && other.what == head.what
            && other.cut == head.cut
            && other.headers == head.headers
    };
    match heads.iter_mut().find(same) {
        Some(known) => known.seen += 1,
        None => heads.push(head),
    }
}

/// `struct head`: target, class, direction, length, bytes.
fn decode(item: &[u8]) -> Option<(u32, HeadSeen)> {
    let (target, rest) = item.split_first_chunk()?;
    let (class_number, rest) = rest.split_first_chunk()?;
    let (_direction, rest) = rest.split_first_chunk::<2>()?;
    let (length, bytes) = rest.split_first_chunk()?;
    let length = u32::from_ne_bytes(*length) as usize;
    let mut head = parse(bytes.get(..length.min(HEAD))?)?;
    head.seen = 1;
    head.class = class(u16::from_ne_bytes(*class_number));
    Some((u32::from_ne_bytes(*target), head))
}

/// What is kept of a head; `None` when the first line is none of HTTP/1.
fn parse(bytes: &[u8]) -> Option<HeadSeen> {
    let head = http1::peek(bytes)?;
    let (kind, what) = match head.first {
        FirstLine::Request(method) => ("request", method),
        FirstLine::Response(status) => ("response", status.to_string()),
    };
    let kept = |(name, value): (String, String)| {
        if NOTED.contains(&name.as_str()) {
            return Some((name, PRESENT.to_owned()));
        }
        KEPT.contains(&name.as_str()).then_some((name, value))
    };
    Some(HeadSeen {
        kind: kind.to_owned(),
        version: head.version.to_owned(),
        what,
        headers: head.fields.into_iter().filter_map(kept).collect(),
        cut: !head.whole,
        ..HeadSeen::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_whole_and_cut_are_read() {
        for (bytes, kind, version, what, fields, cut) in [
            (
                "GET / HTTP/1.0\r\nHost: a\r\nConnection: close\r\n\r\n",
                "request",
                "HTTP/1.0",
                "GET",
                vec![("connection", "close")],
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX: y\r\nTransfer-Enco",
                "response",
                "HTTP/1.1",
                "200",
                vec![("content-length", "12")],
                true,
            ),
            (
                "GET / HTTP/1.1\r\nAuthorization: Basic c2VjcmV0\r\nCookie: id=7\r\n\r\n",
                "request",
                "HTTP/1.1",
                "GET",
                vec![("authorization", "present"), ("cookie", "present")],
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nETag: \"7\"\r\nExpires: Thu, 01 Dec 1994 16:00:00 GMT\r\n\r\n",
                "response",
                "HTTP/1.1",
                "200",
                vec![("etag", "present"), ("expires", "present")],
                false,
            ),
            (
                "HTTP/1.1 204 No Content\r\n\r\nConnection: close\r\n",
                "response",
                "HTTP/1.1",
                "204",
                vec![],
                false,
            ),
            (
                "GET / HTTP/1.1\r\n",
                "request",
                "HTTP/1.1",
                "GET",
                vec![],
                true,
            ),
        ] {
            let head = parse(bytes.as_bytes()).unwrap();
            assert_eq!(
                (&*head.kind, &*head.version, &*head.what),
                (kind, version, what)
            );
            let seen: Vec<(&str, &str)> = head
                .headers
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect();
            assert_eq!((seen, head.cut), (fields, cut));
        }
    }

    #[test]
    fn what_is_no_head_is_left_out() {
        for bytes in [
            "GET ",
            "HTTP/2 binary\r\n",
            "POST\0\0\r\n",
            "GET / HTTP/1.1",
        ] {
            assert_eq!(parse(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn equal_heads_are_counted_together() {
        let mut heads = Vec::new();
        for text in ["GET /a HTTP/1.1\r\n\r\n", "GET /b HTTP/1.1\r\n\r\n"] {
            add(
                &mut heads,
                HeadSeen {
                    seen: 1,
                    ..parse(text.as_bytes()).unwrap()
                },
            );
        }
        assert_eq!(heads.len(), 1);
        assert_eq!(heads[0].seen, 2);
    }
}
