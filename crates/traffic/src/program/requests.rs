//! Reads the requests of one connection of a server side, at any split of the bytes; the mirror of
//! [`crate::load::response`], with the same two shortcuts: the last head is remembered with its meaning, and a head
//! that comes whole is never copied.

use http1::{BodyDecoder, CodecError, Framing, parse_request};

/// Largest head that is understood.
pub(super) const HEAD_BYTES: usize = crate::load::response::HEAD_BYTES;

/// What a head says to the server side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The connection may carry another request.
    pub keep_alive: bool,
    /// The method is HEAD.
    pub is_head: bool,
}

/// The last head, with what it means.
pub(super) struct RequestCache {
    bytes: Vec<u8>,
    meaning: Option<(Asked, Framing)>,
}

impl RequestCache {
    /// Nothing remembered.
    pub fn new() -> Self {
        RequestCache {
            bytes: Vec::with_capacity(HEAD_BYTES),
            meaning: None,
        }
    }

    /// Length and meaning of the head at the front of `input`; `None` when it is not whole.
    #[inline]
    fn parse(&mut self, input: &[u8]) -> Result<Option<(usize, Asked, Framing)>, CodecError> {
        if let Some((asked, framing)) = self.meaning
            && input.starts_with(&self.bytes)
        {
            return Ok(Some((self.bytes.len(), asked, framing)));
        }
        let Some(head) = parse_request(input)? else {
            return Ok(None);
        };
        let asked = Asked {
            keep_alive: head.keep_alive,
            is_head: head.method == "HEAD",
        };
        if head.head_len <= HEAD_BYTES {
            self.bytes.clear();
            self.bytes.extend_from_slice(&input[..head.head_len]);
            self.meaning = Some((asked, head.framing));
        }
        Ok(Some((head.head_len, asked, head.framing)))
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Before or in a head, of which so many bytes lie in the partial buffer.
    Head(usize),
    Body(BodyDecoder, Asked),
}

/// The bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRequest;

/// Where one connection stands in its requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestReader(State);

impl Default for RequestReader {
    fn default() -> Self {
        RequestReader(State::Head(0))
    }
}

impl RequestReader {
    /// Takes bytes off the front of `input`, up to the end of one request; what it asks when that end was reached.
    /// `partial` holds this connection's incomplete head between calls.
    pub fn feed(
        &mut self,
        input: &mut &[u8],
        partial: &mut [u8],
        cache: &mut RequestCache,
    ) -> Result<Option<Asked>, NoRequest> {
        let (mut decoder, asked) = match self.0 {
            State::Body(decoder, asked) => (decoder, asked),
            State::Head(held) => {
                let taken = input.len().min(partial.len() - held);
                let parsed = if held == 0 {
                    cache.parse(input)
                } else {
                    partial[held..held + taken].copy_from_slice(&input[..taken]);
                    cache.parse(&partial[..held + taken])
                };
                match parsed.map_err(|_| NoRequest)? {
                    Some((len, ..)) if len > HEAD_BYTES => return Err(NoRequest),
                    Some((len, asked, framing)) => {
                        *input = &input[len - held..];
                        (BodyDecoder::new(framing), asked)
                    }
                    None if held + input.len() >= partial.len() => return Err(NoRequest),
                    None => {
                        partial[held..held + taken].copy_from_slice(&input[..taken]);
                        *input = &input[taken..];
                        self.0 = State::Head(held + taken);
                        return Ok(None);
                    }
                }
            }
        };
        let fed = decoder.feed(input).map_err(|_| NoRequest)?;
        *input = &input[fed.consumed..];
        if fed.done {
            self.0 = State::Head(0);
            return Ok(Some(asked));
        }
        self.0 = State::Body(decoder, asked);
        Ok(None)
    }

    /// Part of a head lies in the partial buffer.
    #[inline]
    pub fn holds(&self) -> bool {
        matches!(self.0, State::Head(1..))
    }

    /// In the middle of a request.
    pub fn is_mid_request(&self) -> bool {
        !matches!(self.0, State::Head(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(pieces: &[&[u8]]) -> Result<Vec<Asked>, NoRequest> {
        let (mut reader, mut cache) = (RequestReader::default(), RequestCache::new());
        let mut partial = vec![0; HEAD_BYTES];
        let mut all = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                all.extend(reader.feed(&mut rest, &mut partial, &mut cache)?);
            }
        }
        assert!(!reader.is_mid_request());
        Ok(all)
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
            assert_eq!(feed(&[a, b]).as_ref(), Ok(&expected), "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(feed(&bytes), Ok(expected));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(feed(&[b"SSH-2.0-OpenSSH\r\n"]), Err(NoRequest));
        let endless = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; HEAD_BYTES]].concat();
        assert_eq!(feed(&[&endless]), Err(NoRequest));
        let pieces: Vec<&[u8]> = endless.chunks(999).collect();
        assert_eq!(feed(&pieces), Err(NoRequest));
    }
}
