//! The transport against a server that plays a script of bytes, over memory and without time.

use super::sending::framed;
use super::*;
use std::cell::RefCell;
use std::rc::Rc;

/// What the two ends of one connection after the other have written.
#[derive(Default)]
struct Lines {
    to_server: Vec<u8>,
    to_client: VecDeque<u8>,
    ended: bool,
    closed: u32,
    news: Vec<Tagged>,
    generation: Generation,
    /// Bytes that a send takes at most.
    room: usize,
    /// Bytes that a receive returns at most.
    piece: usize,
}

/// A transport of bytes over memory, for one connection.
struct Memory(Rc<RefCell<Lines>>, Vec<u8>);

impl Transport for Memory {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let mut lines = self.0.borrow_mut();
        *lines = Lines {
            closed: lines.closed,
            generation,
            room: lines.room,
            piece: lines.piece,
            ..Lines::default()
        };
        lines.news.push(Tagged {
            slot,
            generation,
            event: Event::Opened,
        });
        Ok(())
    }

    fn send(&mut self, _: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        let mut lines = self.0.borrow_mut();
        let len = bytes.len().min(lines.room);
        lines.to_server.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn recv(&mut self, _: Slot, want: Want) -> Result<Received<'_>, Failure> {
        let mut lines = self.0.borrow_mut();
        let (Want::Bytes(most) | Want::Discard(most)) = want;
        let len = lines.to_client.len().min(lines.piece).min(most);
        if len > 0 {
            self.1 = lines.to_client.drain(..len).collect();
            let more = !lines.to_client.is_empty();
            return Ok(Received::Data {
                bytes: &self.1,
                more,
            });
        }
        Ok(if lines.ended {
            Received::End { orderly: true }
        } else {
            Received::Blocked
        })
    }

    fn close(&mut self, _: Slot, _: Close) {
        self.0.borrow_mut().closed += 1;
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, _: u64) -> Result<(), Failure> {
        events.append(&mut self.0.borrow_mut().news);
        Ok(())
    }

    fn syscalls(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

/// What the loop is told.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Opened,
    OpenFailed(FailureKind, String),
    /// Length, and whether the slot goes on.
    Answer(u64, bool),
    Failed(FailureKind, String),
    Writable,
}

struct Play {
    socket: WebSocket<Memory>,
    lines: Rc<RefCell<Lines>>,
}

impl Play {
    fn new() -> Play {
        let lines = Rc::new(RefCell::new(Lines {
            room: usize::MAX,
            piece: usize::MAX,
            ..Lines::default()
        }));
        let memory = Memory(Rc::clone(&lines), Vec::new());
        let upgrade = Upgrade::new(b"GET /chat HTTP/1.1\r\nHost: x\r\n", "");
        let socket = WebSocket::new(memory, 1, Arc::new(upgrade));
        Play { socket, lines }
    }

    /// A WebSocket that is open.
    fn open() -> Play {
        let mut play = Play::new();
        play.agree(b"");
        play
    }

    /// The server agrees and says more at once.
    fn agree(&mut self, behind: &[u8]) {
        self.socket.open(0, 1).unwrap();
        assert_eq!(self.told(), []);
        let head = self.response();
        self.server(&[head.as_bytes(), behind].concat());
        assert_eq!(self.told()[0], Told::Opened);
        self.lines.borrow_mut().to_server.clear();
    }

    /// What agrees to the request that was sent.
    fn response(&self) -> String {
        let request = self.lines.borrow().to_server.clone();
        let request = String::from_utf8(request).unwrap();
        let (_, key) = request.split_once("Sec-WebSocket-Key: ").unwrap();
        let key = key.strip_suffix("\r\n\r\n").unwrap();
        let accept = handshake::accept(key.as_bytes().try_into().unwrap());
        let accept = std::str::from_utf8(&accept).unwrap();
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
    }

    fn news(&mut self, readable: bool, writable: bool) {
        let mut lines = self.lines.borrow_mut();
        let tagged = Tagged {
            slot: 0,
            generation: lines.generation,
            event: Event::Ready {
                readable,
                writable,
                hangup: lines.ended,
            },
        };
        lines.news.push(tagged);
    }

    /// The server writes.
    fn server(&mut self, bytes: &[u8]) {
        self.lines.borrow_mut().to_client.extend(bytes);
        self.news(true, false);
    }

    /// The server ends its side.
    fn end(&mut self) {
        self.lines.borrow_mut().ended = true;
        self.news(true, false);
    }

    /// What the loop hears until there is no news.
    fn told(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        let mut events = Vec::with_capacity(16);
        loop {
            self.socket.wait(&mut events, 0).unwrap();
            if events.is_empty() {
                return told;
            }
            for tagged in events.drain(..) {
                match tagged.event {
                    Event::Opened => told.push(Told::Opened),
                    Event::OpenFailed(f) => {
                        told.push(Told::OpenFailed(f.kind, f.detail.to_string()));
                    }
                    Event::Ready {
                        readable, writable, ..
                    } => {
                        if readable {
                            told.extend(self.recv());
                        }
                        if writable {
                            told.push(Told::Writable);
                        }
                    }
                    event => panic!("{event:?}"),
                }
            }
        }
    }

    fn recv(&mut self) -> Option<Told> {
        match self.socket.recv(0, Want::Bytes(usize::MAX)) {
            Ok(Received::Blocked) => None,
            Ok(Received::Answer {
                status,
                body_bytes,
                goes_on,
                ..
            }) => {
                assert_eq!(status, 0);
                Some(Told::Answer(body_bytes, goes_on))
            }
            Err(failure) => Some(Told::Failed(failure.kind, failure.detail.to_string())),
            Ok(other) => panic!("{other:?}"),
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let frame = framed(payload, false);
        assert_eq!(self.socket.send(0, &frame).unwrap(), frame.len());
    }

    /// First byte and payload of the frames that have come to the server since the last look.
    fn came(&mut self) -> Vec<(u8, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.lines.borrow_mut().to_server);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            assert!(rest[1] & 0x80 != 0, "a client masks its frames");
            let (head, whole) = sending::extent(rest).unwrap();
            let mask = &rest[head - 4..head];
            let payload = rest[head..whole].iter().zip(mask.iter().cycle());
            frames.push((rest[0], payload.map(|(byte, mask)| byte ^ mask).collect()));
            rest = &rest[whole..];
        }
        frames
    }
}

#[test]
fn a_message_is_sent_and_the_next_is_its_answer() {
    let mut play = Play::open();
    for round in 0..3 {
        play.send(b"hello");
        assert_eq!(play.came(), [(0x81, b"hello".to_vec())]);
        assert_eq!(play.told(), []);
        // Two fragments with a ping between them, a byte at a time in the last round.
        play.lines.borrow_mut().piece = if round == 2 { 1 } else { usize::MAX };
        play.server(b"\x01\x03hel\x89\x02hi\x80\x02lo");
        assert_eq!(play.told(), [Told::Answer(5, true)]);
        assert_eq!(play.came(), [(0x8a, b"hi".to_vec())]);
    }
    let wire = play.socket.take_wire().unwrap();
    assert!(wire.sent > 3 * 19 && wire.received > 3 * 14);
    assert_eq!(play.socket.unasked(), 0);
}

#[test]
fn each_connection_has_a_key_and_each_message_a_mask_of_its_own() {
    let mut play = Play::new();
    let mut keys = Vec::new();
    for generation in 1..4 {
        play.socket.open(0, generation).unwrap();
        assert_eq!(play.told(), []);
        let request = std::mem::take(&mut play.lines.borrow_mut().to_server);
        keys.push(request[request.len() - 28..].to_vec());
    }
    keys.dedup();
    assert_eq!(keys.len(), 3);
    let mut play = Play::open();
    let masks: Vec<Vec<u8>> = (0..3)
        .map(|_| {
            play.send(b"");
            std::mem::take(&mut play.lines.borrow_mut().to_server)
        })
        .collect();
    assert!(masks[0] != masks[1] && masks[1] != masks[2]);
}

#[test]
fn a_handshake_may_come_in_any_pieces_and_with_messages_behind_it() {
    for piece in [1, 7, usize::MAX] {
        let mut play = Play::new();
        play.lines.borrow_mut().piece = piece;
        play.socket.open(0, 1).unwrap();
        assert_eq!(play.told(), []);
        let early = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
        let head = early.to_owned() + &play.response();
        play.server(&[head.as_bytes(), b"\x81\x05hello\x89\x00"].concat());
        assert_eq!(play.told(), [Told::Opened]);
        assert_eq!(play.socket.unasked(), 1);
        play.lines.borrow_mut().to_server.clear();
        play.send(b"x");
        play.server(b"\x82\x00");
        assert_eq!(play.told(), [Told::Answer(0, true)]);
    }
    // The request leaves in any pieces, too.
    let mut play = Play::new();
    play.lines.borrow_mut().room = 3;
    play.socket.open(0, 1).unwrap();
    for _ in 0..200 {
        assert_eq!(play.told(), []);
        play.news(false, true);
    }
    play.told();
    let head = play.response();
    play.server(head.as_bytes());
    assert_eq!(play.told(), [Told::Opened]);
}

#[test]
fn a_server_that_does_not_agree_fails_the_opening() {
    let check = |response: &[u8], kind, words: &str| {
        let mut play = Play::new();
        play.socket.open(0, 1).unwrap();
        play.told();
        play.server(response);
        play.end();
        match &play.told()[..] {
            [Told::OpenFailed(found, said)] => {
                assert_eq!(*found, kind);
                assert!(said.contains(words), "{said}");
            }
            told => panic!("{told:?}"),
        }
        assert_eq!(play.lines.borrow().closed, 1);
    };
    let refused = FailureKind::UpgradeRefused;
    check(
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        refused,
        "status 404",
    );
    check(b"HTTP/1.1 200 OK\r\n\r\n", refused, "status 200");
    check(b"HTTP/1.1 101 x\r\n\r\n", refused, "Upgrade: websocket");
    check(b"HTTP/1.1 1", refused, "in place of a response");
    check(b"", refused, "in place of a response");
    check(b"SSH-2.0-x\r\n\r\n", FailureKind::Malformed, "message head");
    let endless = [&b"HTTP/1.1 101 x\r\nA: "[..], &vec![b'a'; 2 * HEAD_BYTES]].concat();
    check(
        &endless,
        FailureKind::HeadTooLarge,
        "larger than the buffer",
    );
}

#[test]
fn a_message_that_is_cut_by_a_full_socket_stays_one_frame() {
    let mut play = Play::open();
    let payload: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
    let frame = framed(&payload, true);
    play.lines.borrow_mut().room = 1_000;
    let mut sent = play.socket.send(0, &frame).unwrap();
    assert_eq!(sent, 1_000);
    // A ping that comes meanwhile is answered behind the message.
    play.server(b"\x89\x01p\x89\x01q");
    assert_eq!(play.told(), []);
    while sent < frame.len() {
        sent += play.socket.send(0, &frame[sent..]).unwrap();
    }
    assert_eq!(play.came(), [(0x82, payload), (0x8a, b"q".to_vec())]);
    // A pong that is cut holds the next message back.
    play.lines.borrow_mut().room = 2;
    play.server(b"\x89\x01r");
    assert_eq!(play.told(), []);
    let frame = framed(b"next", false);
    assert_eq!(play.socket.send(0, &frame).unwrap(), 0);
    play.lines.borrow_mut().room = usize::MAX;
    play.news(false, true);
    assert_eq!(play.told(), [Told::Writable]);
    assert_eq!(play.socket.send(0, &frame).unwrap(), frame.len());
    assert_eq!(
        play.came(),
        [(0x8a, b"r".to_vec()), (0x81, b"next".to_vec())]
    );
}

#[test]
fn a_close_is_answered_and_names_its_code() {
    let mut play = Play::open();
    play.send(b"too large");
    play.came();
    play.server(b"\x88\x09\x03\xf1too big");
    let words = "it sent a close frame with code 1009 (message too big): too big";
    let closed = Told::Failed(FailureKind::WebSocketClosed, words.to_owned());
    assert_eq!(play.told(), [closed]);
    assert_eq!(play.came(), [(0x88, b"\x03\xf1".to_vec())]);
    play.socket.close(0, Close::Fin);
    assert_eq!(play.came(), [], "its close is answered once");
    // Behind an answer it is the end, and the answer counts.
    let mut play = Play::open();
    play.send(b"last");
    play.server(b"\x81\x02ok\x88\x00");
    assert_eq!(play.told(), [Told::Answer(2, false)]);
    // The client's own.
    let mut play = Play::open();
    play.socket.close(0, Close::Fin);
    assert_eq!(play.came(), [(0x88, b"\x03\xe8".to_vec())]);
    let mut play = Play::open();
    play.socket.close(0, Close::Rst);
    assert_eq!(play.came(), []);
}

#[test]
fn what_breaks_off_or_breaks_the_rules_fails_by_its_name() {
    let check = |bytes: &[u8], kind, words: &str| {
        let mut play = Play::open();
        play.send(b"x");
        play.came();
        play.server(bytes);
        play.end();
        match &play.told()[..] {
            [Told::Failed(found, said), ..] => {
                assert_eq!(*found, kind);
                assert!(said.contains(words), "{said}");
            }
            told => panic!("{told:?}"),
        }
        play
    };
    check(b"", FailureKind::ClosedEarly, "without a close frame");
    check(
        b"\x81\x05he",
        FailureKind::Truncated,
        "in the middle of a message",
    );
    check(
        b"\x01\x02he",
        FailureKind::Truncated,
        "in the middle of a message",
    );
    let mut play = check(b"\x81\x85mask", FailureKind::WebSocket, "masked");
    assert_eq!(
        play.came(),
        [(0x88, b"\x03\xea".to_vec())],
        "1002, a protocol error"
    );
    check(b"\xc1\x00", FailureKind::WebSocket, "reserved bits");
    let vast = b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff";
    check(vast, FailureKind::WebSocket, "2^63");
}

#[test]
fn endless_fragments_and_pings_give_others_their_turn() {
    let mut play = Play::open();
    play.send(b"x");
    play.came();
    play.lines.borrow_mut().piece = 2;
    let fragments = [
        b"\x01\x00".to_vec(),
        b"\x00\x00".repeat(500),
        b"\x89\x00".repeat(500),
    ];
    play.server(&fragments.concat());
    let before = play.lines.borrow().to_client.len();
    assert_eq!(play.recv(), None);
    let read = before - play.lines.borrow().to_client.len();
    assert_eq!(read, 2 * READS_MAX as usize);
    // What was left is not forgotten: the rest is read although the transport below says nothing more.
    assert_eq!(play.told(), []);
    assert!(play.lines.borrow().to_client.is_empty());
    assert!(!play.came().is_empty());
    play.server(b"\x80\x00");
    assert_eq!(play.told(), [Told::Answer(0, true)]);
}

#[test]
fn what_nobody_awaited_is_no_answer_to_what_is_sent_later() {
    let mut play = Play::open();
    play.server(b"\x81\x01a\x81\x01b");
    assert_eq!(play.told(), []);
    play.send(b"x");
    play.server(b"\x81\x03yes\x81\x01c");
    assert_eq!(play.told(), [Told::Answer(3, true)]);
    assert_eq!(play.socket.unasked(), 3);
}

#[test]
fn an_event_of_a_connection_that_is_gone_changes_nothing() {
    let mut play = Play::open();
    play.server(b"\x81\x01a");
    play.socket.close(0, Close::Fin);
    assert_eq!(play.told(), []);
    play.lines.borrow_mut().to_client.clear();
    play.agree(b"");
    play.send(b"x");
    play.server(b"\x81\x03yes");
    assert_eq!(play.told(), [Told::Answer(3, true)]);
}

#[test]
fn whatever_a_server_sends_there_is_an_end_to_it() {
    let mut random = Random::seeded(11);
    for _ in 0..500 {
        let mut play = Play::open();
        play.lines.borrow_mut().piece = 1 + random.bits() as usize % 40;
        for _ in 0..4 {
            // Mostly frames, so that what is behind them is reached.
            let len = (random.bits() % 130) as u8;
            let first = [
                0x81,
                0x82,
                0x01,
                0x80,
                0x00,
                0x89,
                0x88,
                random.bits() as u8,
            ];
            let first = first[random.bits() as usize % first.len()];
            let mut bytes = vec![first, len];
            bytes.extend((0..len).map(|_| b'a' + (random.bits() % 26) as u8));
            if play.socket.lines[0].ended.is_none() {
                play.send(b"x");
            }
            play.server(&bytes);
            let ended = |told: &Told| matches!(told, Told::Failed(..) | Told::Answer(_, false));
            if play.told().iter().any(ended) {
                break;
            }
        }
        play.came();
        play.socket.close(0, Close::Fin);
    }
}
