//! A small blocking GET over the same codec, for readiness probes and the counters of servers.

use http1::{BodyDecoder, CodecError, parse_response};
use record::Nanos;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use url::{Position, Url};

/// Largest response that is taken in.
const MAX_BYTES: usize = 16 << 20;

/// A fetched response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub status: u16,
    /// Its body; the content of chunks without their framing.
    pub body: Vec<u8>,
}

/// Why a fetch failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The URL is not an `http` one.
    #[error("fetching `{url}`: not an http:// URL")]
    Url {
        /// As given.
        url: String,
    },
    /// A socket call failed or took too long.
    #[error("fetching `{url}`: {doing}: {cause}")]
    Io {
        /// As given.
        url: String,
        /// What was being done.
        doing: &'static str,
        /// What the system says.
        cause: io::Error,
    },
    /// What came is not a whole response.
    #[error("fetching `{url}`: {cause}")]
    Response {
        /// As given.
        url: String,
        /// What the codec says.
        cause: CodecError,
    },
    /// The response is larger than a fetch takes in.
    #[error("fetching `{url}`: the response is larger than {MAX_BYTES} bytes")]
    TooLarge {
        /// As given.
        url: String,
    },
}

impl FetchError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            FetchError::Url { .. } => "write it as http://host:port/path",
            FetchError::Io { .. } => "check that the server is running and listens there",
            FetchError::Response { cause, .. } => cause.remedy(),
            FetchError::TooLarge { .. } => "fetch a smaller page",
        }
    }
}

/// Gets a page; all of it must have come within `timeout`.
///
/// # Errors
/// [`FetchError`] when there is no whole response. Any status is a response.
pub fn fetch(url: &str, timeout: Nanos) -> Result<Fetched, FetchError> {
    let until = Instant::now() + Duration::from_nanos(timeout.0);
    let failed = |doing| {
        move |cause| FetchError::Io {
            url: url.to_owned(),
            doing,
            cause,
        }
    };
    let parsed = Url::parse(url).ok().filter(|u| u.scheme() == "http");
    let parsed = parsed.ok_or_else(|| FetchError::Url {
        url: url.to_owned(),
    })?;
    let addresses = parsed.socket_addrs(|| None).map_err(failed("resolving"))?;
    let mut stream = connect(&addresses, until).map_err(failed("connecting"))?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        &parsed[Position::BeforePath..Position::AfterQuery],
        &parsed[Position::BeforeHost..Position::AfterPort],
    );
    limit(&stream, until)
        .and_then(|()| stream.write_all(request.as_bytes()))
        .map_err(failed("sending"))?;
    read_response(url, &mut stream, until)
}

fn connect(addresses: &[std::net::SocketAddr], until: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, left(until)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// A socket call now lasts no longer than what is left of the time.
fn limit(stream: &TcpStream, until: Instant) -> io::Result<()> {
    let left = left(until)?;
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}

/// Calls again what a signal has interrupted, as the kernel does not where a call has a time limit.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn read_response(url: &str, stream: &mut TcpStream, until: Instant) -> Result<Fetched, FetchError> {
    let mut received = Vec::new();
    loop {
        let mut piece = [0; 16 * 1024];
        let read = uninterrupted(|| {
            limit(stream, until)?;
            stream.read(&mut piece)
        });
        let n = read.map_err(|cause| FetchError::Io {
            url: url.to_owned(),
            doing: "receiving",
            cause,
        })?;
        received.extend_from_slice(&piece[..n]);
        let whole = whole_response(&received, n == 0).map_err(|cause| FetchError::Response {
            url: url.to_owned(),
            cause,
        })?;
        if let Some(fetched) = whole {
            return Ok(fetched);
        }
        if received.len() > MAX_BYTES {
            return Err(FetchError::TooLarge {
                url: url.to_owned(),
            });
        }
    }
}

/// The response in `received`, if it is whole; `at_end` when nothing more will come.
fn whole_response(received: &[u8], at_end: bool) -> Result<Option<Fetched>, CodecError> {
    let cut_off = CodecError::Truncated { missing: None };
    let Some(head) = parse_response(received, false)? else {
        return if at_end { Err(cut_off) } else { Ok(None) };
    };
    if (100..200).contains(&head.status) && head.status != 101 {
        return whole_response(&received[head.head_len..], at_end);
    }
    let mut decoder = BodyDecoder::new(head.framing);
    let mut body = Vec::new();
    let mut rest = &received[head.head_len..];
    // The decoder counts and does not hand out: one byte at a time, what is content shows in its count.
    while !rest.is_empty() && !decoder.is_done() {
        let before = decoder.body_bytes();
        let step = decoder.remaining_length().map_or(1, |n| n.max(1));
        let step = usize::try_from(step).unwrap_or(usize::MAX).min(rest.len());
        let fed = decoder.feed(&rest[..step])?;
        if decoder.body_bytes() > before {
            body.extend_from_slice(&rest[..fed.consumed]);
        }
        rest = &rest[fed.consumed..];
    }
    if at_end {
        decoder.finish_at_eof()?;
    }
    let status = head.status;
    Ok(decoder.is_done().then_some(Fetched { status, body }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answer(response: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/stats?x=1", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let n = stream.read(&mut request).unwrap();
            assert!(request[..n].starts_with(b"GET /stats?x=1 HTTP/1.1\r\nHost: 127.0.0.1:"));
            stream.write_all(response).unwrap();
        });
        (url, server)
    }

    #[test]
    fn a_signal_ends_no_read() {
        let mut left = 3;
        let mut read = |end: io::ErrorKind| {
            uninterrupted(|| {
                left -= 1;
                match left {
                    0 => Err::<(), _>(end.into()),
                    _ => Err(io::ErrorKind::Interrupted.into()),
                }
            })
        };
        let cause = read(io::ErrorKind::TimedOut).unwrap_err();
        assert_eq!(cause.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn bodies_of_every_framing_come_out_whole() {
        for response in [
            &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\nhello",
        ] {
            let (url, server) = answer(response);
            let fetched = fetch(&url, Nanos::from_secs(5)).unwrap();
            assert_eq!((fetched.status, &fetched.body[..]), (200, &b"hello"[..]));
            server.join().unwrap();
        }
    }

    #[test]
    fn half_a_response_is_an_error_with_a_cause() {
        let (url, server) = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
        let error = fetch(&url, Nanos::from_secs(5)).unwrap_err();
        assert!(error.to_string().contains("4 bytes too early"), "{error}");
        server.join().unwrap();
        assert!(matches!(
            fetch("ftp://a/", Nanos::from_secs(1)),
            Err(FetchError::Url { .. })
        ));
    }
}
