//! Requests as messages: what a head says to a server side.

use crate::messages::{self, Head, Kind, MessageReader};
use http1::{CodecError, parse_request};

/// What a head says to the server side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The connection may carry another request.
    pub keep_alive: bool,
    /// The method is HEAD.
    pub is_head: bool,
}

/// Requests of any method.
pub(super) struct Requests;

/// The last head of this thread, with what it means.
pub(super) type RequestCache = messages::HeadCache<Requests>;

impl RequestCache {
    /// Nothing remembered.
    pub fn new() -> Self {
        RequestCache::of(Requests)
    }
}

impl Kind for Requests {
    type Said = Asked;

    fn parse(&self, bytes: &[u8]) -> Result<Option<Head<Asked>>, CodecError> {
        let head = parse_request(bytes)?;
        Ok(head.map(|head| {
            let asked = Asked {
                keep_alive: head.keep_alive,
                is_head: head.method == "HEAD",
            };
            Head {
                len: head.head_len,
                meaning: Some((head.framing, asked)),
            }
        }))
    }
}

/// Where one connection stands in its requests.
pub(super) type RequestReader = MessageReader<Asked>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::HEAD_BYTES;

    fn feed(pieces: &[&[u8]]) -> Option<Vec<Asked>> {
        let (mut reader, mut cache) = (RequestReader::default(), RequestCache::new());
        let mut partial = vec![0; HEAD_BYTES];
        let mut all = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                all.extend(reader.feed(&mut rest, &mut partial, &mut cache).ok()?);
            }
        }
        assert!(!reader.is_mid_message());
        Some(all)
    }

    #[test]
    fn requests_end_where_they_end_at_any_split() {
        let get = Asked {
            keep_alive: true,
            is_head: false,
        };
        let stream = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n\
            POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
            HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let last = Asked {
            keep_alive: false,
            is_head: true,
        };
        let expected = vec![get, get, get, last];
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(feed(&[a, b]).as_ref(), Some(&expected), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(feed(&bytes), Some(expected));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(feed(&[b"SSH-2.0-OpenSSH\r\n"]), None);
        let endless = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; HEAD_BYTES]].concat();
        assert_eq!(feed(&[&endless]), None);
        let pieces: Vec<&[u8]> = endless.chunks(999).collect();
        assert_eq!(feed(&pieces), None);
    }
}
