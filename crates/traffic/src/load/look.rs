//! One answer to a prepared load's request, looked at as a whole: its head, and how large its body is.
//!
//! It goes the load's way (same address, same bytes, same TLS), so that what is seen is what the load gets.

use super::Load;
use crate::transport::Place;
use crate::transport::tunnel;
use http1::{BodyDecoder, parse_response, response_fields};
use record::{Answer, Nanos};
use rustls::{ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Read at once.
const PIECE: usize = 64 * 1024;
/// A head that is not complete by then never will be.
const HEAD_MAX: usize = 1 << 20;

/// A stream that may be encrypted.
trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

impl Load {
    /// Sends the load's request once over a connection of its own and reads the whole answer.
    ///
    /// # Errors
    /// The system's, TLS's or the codec's, when no whole answer came within `timeout`.
    pub fn look(&self, timeout: Nanos) -> io::Result<Answer> {
        if self.policy.is_decoded {
            let text = "one response cannot be looked at over HTTP/2 by this version";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let until = Instant::now() + Duration::from_nanos(timeout.0);
        let left = || match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
            left => Ok(left),
        };
        let mut socket: Box<dyn Duplex> = match &self.endpoint.server {
            Place::Tcp(address) => {
                let tcp = TcpStream::connect_timeout(address, left()?)?;
                tcp.set_read_timeout(Some(left()?))?;
                tcp.set_write_timeout(Some(left()?))?;
                Box::new(tcp)
            }
            Place::Unix(path) => {
                let unix = UnixStream::connect(path)?;
                unix.set_read_timeout(Some(left()?))?;
                unix.set_write_timeout(Some(left()?))?;
                Box::new(unix)
            }
        };
        if let Some(request) = &self.tunnel {
            socket.write_all(request)?;
            let (mut answer, mut piece) = (Vec::new(), vec![0; PIECE]);
            let refused =
                |failure: crate::transport::Failure| io::Error::other(failure.detail.to_string());
            while !tunnel::is_granted(&mut answer).map_err(refused)? {
                left()?;
                match socket.read(&mut piece)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => answer.extend_from_slice(&piece[..n]),
                }
            }
        }
        let mut stream: Box<dyn Duplex> = match &self.tls {
            None => socket,
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::new(config.clone()), name.clone())
                    .map_err(io::Error::other)?;
                Box::new(StreamOwned::new(session, socket))
            }
        };
        stream.write_all(&self.requests[..self.policy.request_bytes])?;
        stream.flush()?;
        read_answer(stream.as_mut(), self.policy.head_requests, || {
            left().map(drop)
        })
    }
}

fn read_answer(
    stream: &mut dyn Duplex,
    to_head: bool,
    in_time: impl Fn() -> io::Result<()>,
) -> io::Result<Answer> {
    let mut received = Vec::new();
    let mut piece = vec![0; PIECE];
    let (head, mut rest) = loop {
        in_time()?;
        match parse_response(&received, to_head).map_err(io::Error::other)? {
            Some(head) if (100..200).contains(&head.status) && head.status != 101 => {
                received.drain(..head.head_len);
            }
            Some(head) => break (head, received.split_off(head.head_len)),
            None if received.len() > HEAD_MAX => {
                return Err(io::Error::other("the head of the response does not end"));
            }
            None => match stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => received.extend_from_slice(&piece[..n]),
            },
        }
    };
    let mut body = BodyDecoder::new(head.framing);
    loop {
        while !rest.is_empty() && !body.is_done() {
            let fed = body.feed(&rest).map_err(io::Error::other)?;
            rest.drain(..fed.consumed);
        }
        if body.is_done() {
            break;
        }
        in_time()?;
        match stream.read(&mut piece)? {
            0 => {
                body.finish_at_eof().map_err(io::Error::other)?;
                break;
            }
            n => rest.extend_from_slice(&piece[..n]),
        }
    }
    let (version, headers) = response_fields(&received).map_err(io::Error::other)?;
    Ok(Answer {
        status: head.status,
        version,
        headers,
        body_bytes: body.body_bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::LoadSpec;
    use std::net::TcpListener;

    fn look_at(response: &'static [u8]) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            stream.write_all(response).unwrap();
        });
        let load = Load::prepare(&LoadSpec::new(&url)).unwrap();
        let answer = load.look(Nanos::from_secs(5));
        server.join().unwrap();
        answer
    }

    #[test]
    fn the_head_and_the_size_of_the_body_are_seen() {
        let answer = look_at(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nServer: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        )
        .unwrap();
        assert_eq!((answer.status, answer.body_bytes), (200, 5));
        assert_eq!(answer.version, "HTTP/1.1");
        assert_eq!(answer.headers[0], ("server".to_owned(), "x".to_owned()));
    }

    #[test]
    fn half_an_answer_is_none() {
        assert!(look_at(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").is_err());
        assert!(look_at(b"HTTP/1.1 200").is_err());
    }
}
