//! A tunnel through a forward proxy (RFC 9110 9.3.6), as a transport over a transport.
//!
//! CONNECT belongs to opening: who stands above hears of [`Event::Opened`] when the proxy has said yes, and of the
//! status in words when it has said no. From then on the bytes pass as they are.

use super::{
    Detail, Event, Failure, Generation, Handshakes, Received, Slot, Tagged, Transport, Want,
};
use http1::parse_response;
use record::{Close, FailureKind};
use std::sync::Arc;

/// The head of a proxy's answer that is longer is none.
const ANSWER_MAX: usize = 16 * 1024;
/// Read at once of an answer.
const PIECE: usize = 4 * 1024;

enum State {
    Closed,
    Asking { sent: usize, answer: Vec<u8> },
    Open,
}

/// The transport; see the module.
pub(crate) struct Tunnel<T> {
    inner: T,
    request: Arc<[u8]>,
    states: Vec<State>,
    /// Events of the transport below, kept between calls for its capacity.
    below: Vec<Tagged>,
}

/// Reads the answer to a CONNECT; `false` when more of it must come.
pub(crate) fn is_granted(answer: &mut Vec<u8>) -> Result<bool, Failure> {
    let malformed = |text| Failure::text(FailureKind::Malformed, text);
    loop {
        let head = parse_response(answer, false)
            .map_err(|_| malformed("the proxy's answer to CONNECT is not HTTP"))?;
        match head {
            Some(head) if head.status < 200 && head.status != 101 => {
                answer.drain(..head.head_len);
            }
            Some(head) if !(200..300).contains(&head.status) => {
                return Err(Failure {
                    kind: FailureKind::ProxyRefused,
                    detail: Detail::Proxy(head.status),
                });
            }
            // A server waits for the client's hello.
            Some(head) if head.head_len < answer.len() => {
                return Err(malformed("bytes follow the proxy's answer to CONNECT"));
            }
            Some(_) => return Ok(true),
            None if answer.len() > ANSWER_MAX => {
                return Err(malformed("the proxy's answer to CONNECT does not end"));
            }
            None => return Ok(false),
        }
    }
}

impl<T: Transport> Tunnel<T> {
    /// Tunnels over `inner`, each asked for by `request`.
    pub fn new(inner: T, slots: u32, request: Arc<[u8]>) -> Self {
        Tunnel {
            inner,
            request,
            states: (0..slots).map(|_| State::Closed).collect(),
            below: Vec::with_capacity(1024),
        }
    }

    /// Goes on with a tunnel's opening; true when the proxy has granted it.
    fn ask(&mut self, slot: Slot) -> Result<bool, Failure> {
        let State::Asking { sent, answer } = &mut self.states[slot as usize] else {
            return Ok(false);
        };
        if *sent < self.request.len() {
            *sent += self.inner.send(slot, &self.request[*sent..])?;
        }
        // To the last byte, or an end that is told of once would be missed.
        loop {
            match self.inner.recv(slot, Want::Bytes(PIECE))? {
                Received::Data { bytes, .. } => answer.extend_from_slice(bytes),
                Received::End { .. } => {
                    return Err(Failure::text(
                        FailureKind::ProxyRefused,
                        "the proxy closed the connection in place of an answer to CONNECT",
                    ));
                }
                _ => return Ok(false),
            }
            if is_granted(answer)? {
                self.states[slot as usize] = State::Open;
                return Ok(true);
            }
        }
    }

    /// What an event of the transport below means above; `None` while the proxy is being asked.
    fn translate(&mut self, slot: Slot, event: Event) -> Option<Event> {
        let state = &mut self.states[slot as usize];
        match (&event, &state) {
            (Event::OpenFailed(_), _) => *state = State::Closed,
            (Event::Opened | Event::Ready { .. }, State::Asking { .. }) => {
                return match self.ask(slot) {
                    Ok(true) => Some(Event::Opened),
                    Ok(false) => None,
                    Err(failure) => {
                        self.close(slot, Close::Fin);
                        Some(Event::OpenFailed(failure))
                    }
                };
            }
            _ => {}
        }
        Some(event)
    }
}

impl<T: Transport> Transport for Tunnel<T> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        self.states[slot as usize] = State::Asking {
            sent: 0,
            answer: Vec::new(),
        };
        self.inner.open(slot, generation)
    }

    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        self.inner.send(slot, bytes)
    }

    fn recv(&mut self, slot: Slot, want: Want) -> Result<Received<'_>, Failure> {
        self.inner.recv(slot, want)
    }

    fn close(&mut self, slot: Slot, how: Close) {
        self.states[slot as usize] = State::Closed;
        self.inner.close(slot, how);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let mut below = std::mem::take(&mut self.below);
        let waited = self.inner.wait(&mut below, timeout_ns);
        for tagged in below.drain(..) {
            let event = self.translate(tagged.slot, tagged.event);
            events.extend(event.map(|event| Tagged { event, ..tagged }));
        }
        self.below = below;
        waited
    }

    fn syscalls(&self) -> u64 {
        self.inner.syscalls()
    }

    fn came_at(&self, slot: Slot) -> Option<u64> {
        self.inner.came_at(slot)
    }

    fn spun_ns(&self) -> u64 {
        self.inner.spun_ns()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }

    fn handshakes(&self) -> Handshakes {
        self.inner.handshakes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> Result<bool, String> {
        is_granted(&mut text.as_bytes().to_vec()).map_err(|failure| failure.detail.to_string())
    }

    #[test]
    fn the_answer_to_connect_is_a_status_and_nothing_behind_it() {
        assert_eq!(
            answered("HTTP/1.1 200 Connection established\r\n\r\n"),
            Ok(true)
        );
        assert_eq!(
            answered("HTTP/1.1 102 x\r\n\r\nHTTP/1.0 200 y\r\nVia: z\r\n\r\n"),
            Ok(true)
        );
        assert_eq!(answered("HTTP/1.1 200 Conn"), Ok(false));
        let refused = answered("HTTP/1.1 407 no\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(
            refused.unwrap_err(),
            "the proxy answered CONNECT with status 407"
        );
        let stray = answered("HTTP/1.1 200 OK\r\n\r\nabc").unwrap_err();
        assert!(stray.contains("bytes follow"), "{stray}");
        assert!(answered("SSH-2.0-x\r\n").unwrap_err().contains("not HTTP"));
        let endless = "HTTP/1.1 200 OK\r\nA: ".to_owned() + &"a".repeat(ANSWER_MAX);
        assert!(answered(&endless).is_err());
    }
}
