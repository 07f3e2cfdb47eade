//! The transport against a server that plays a script of bytes, over memory and without time.

use super::frame::{code, flag, kind, put_head, put_number, put_settings, setting};
use super::*;
use crate::transport::Detail;
use std::cell::RefCell;
use std::rc::Rc;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
/// `:status: 200` by the static table.
const OK: &[u8] = &[0x88];

/// What the two ends of one connection after the other have written.
#[derive(Default)]
struct Lines {
    to_server: Vec<u8>,
    to_client: VecDeque<u8>,
    ended: bool,
    broken: bool,
    opened: u32,
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
            opened: lines.opened + 1,
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
        if lines.broken {
            return Err(Failure::text(FailureKind::Reset, "broken"));
        }
        let len = bytes.len().min(lines.room);
        lines.to_server.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn recv(&mut self, _: Slot, _: Want) -> Result<Received<'_>, Failure> {
        let mut lines = self.0.borrow_mut();
        let len = lines.to_client.len().min(lines.piece);
        if len > 0 {
            self.1 = lines.to_client.drain(..len).collect();
            let more = !lines.to_client.is_empty();
            return Ok(Received::Data {
                bytes: &self.1,
                more,
            });
        }
        match (lines.broken, lines.ended) {
            (true, _) => Err(Failure::text(FailureKind::Reset, "broken")),
            (_, true) => Ok(Received::End { orderly: true }),
            _ => Ok(Received::Blocked),
        }
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

/// What the loop is told: of which slot, and what.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Opened(Slot),
    Joined(Slot),
    Parked(Slot),
    OpenFailed(Slot, FailureKind),
    /// With the status, and whether the slot goes on.
    Answer(Slot, u16, bool),
    Unprocessed(Slot, FailureKind),
    Failed(Slot, FailureKind),
    End(Slot),
    Writable(Slot),
}

struct Play {
    h2: H2<Memory>,
    lines: Rc<RefCell<Lines>>,
}

impl Play {
    fn new(streams: u32, per_connection: u64) -> Play {
        Play::of(Http2 {
            streams,
            per_connection,
            scheme: "http",
            grpc: false,
        })
    }

    fn of(asked: Http2) -> Play {
        let lines = Rc::new(RefCell::new(Lines {
            room: usize::MAX,
            piece: usize::MAX,
            ..Lines::default()
        }));
        let memory = Memory(Rc::clone(&lines), Vec::new());
        let h2 = H2::new(memory, 1, asked);
        Play { h2, lines }
    }

    /// A connection that is up, with all its slots open.
    fn up(streams: u32, settings: &[(u16, u32)]) -> Play {
        let mut play = Play::new(streams, u64::MAX);
        play.greet(streams, settings);
        play
    }

    fn greet(&mut self, streams: u32, settings: &[(u16, u32)]) {
        self.open_all(streams);
        assert_eq!(self.told(), []);
        self.server(|out| put_settings(out, settings));
        self.told();
        self.lines.borrow_mut().to_server.clear();
    }

    fn open_all(&mut self, streams: u32) {
        for slot in 0..streams {
            self.h2.open(slot, 1).unwrap();
        }
    }

    /// The server writes.
    fn server(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.lines.borrow_mut().to_client.extend(out);
        self.news(true, false);
    }

    fn news(&mut self, readable: bool, hangup: bool) {
        let mut lines = self.lines.borrow_mut();
        let generation = lines.generation;
        lines.news.push(Tagged {
            slot: 0,
            generation,
            event: Event::Ready {
                readable,
                writable: true,
                hangup,
            },
        });
    }

    /// Turns until nothing is told any more, as the loop does.
    fn told(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        for _ in 0..20 {
            let mut events = Vec::with_capacity(64);
            self.h2.wait(&mut events, 0).unwrap();
            for Tagged { slot, event, .. } in events {
                let told = match event {
                    Event::Opened => Told::Opened(slot),
                    Event::Joined => Told::Joined(slot),
                    Event::Parked => Told::Parked(slot),
                    Event::OpenFailed(failure) => Told::OpenFailed(slot, failure.kind),
                    Event::Ready { readable: true, .. } => match self.recv(slot) {
                        Some(told) => told,
                        None => continue,
                    },
                    Event::Ready { .. } => Told::Writable(slot),
                };
                all.push(told);
            }
        }
        all
    }

    fn recv(&mut self, slot: Slot) -> Option<Told> {
        Some(match self.h2.recv(slot, Want::Bytes(1)) {
            Ok(Received::Answer {
                status, goes_on, ..
            }) => Told::Answer(slot, status, goes_on),
            Ok(Received::Unprocessed(failure)) => Told::Unprocessed(slot, failure.kind),
            Ok(Received::End { .. }) => Told::End(slot),
            Ok(_) => return None,
            Err(failure) => Told::Failed(slot, failure.kind),
        })
    }

    fn send(&mut self, slot: Slot) {
        assert_eq!(self.h2.send(slot, GET).unwrap(), GET.len());
        assert_eq!(self.told(), [], "nothing is told of what was only sent");
    }

    /// Heads of the frames that the server has been sent since it was last asked, as (kind, stream).
    fn sent(&mut self) -> Vec<(u8, u32)> {
        let bytes = std::mem::take(&mut self.lines.borrow_mut().to_server);
        let mut rest = bytes.strip_prefix(frame::PREFACE).unwrap_or(&bytes);
        let mut frames = Vec::new();
        while let Some(head) = frame::Head::read(rest) {
            frames.push((head.kind, head.stream));
            rest = &rest[frame::HEAD_BYTES + head.len..];
        }
        assert!(rest.is_empty(), "whole frames only");
        frames
    }
}

fn head(out: &mut Vec<u8>, stream: u32, block: &[u8], flags: u8) {
    put_head(
        out,
        block.len(),
        kind::HEADERS,
        flag::END_HEADERS | flags,
        stream,
    );
    out.extend_from_slice(block);
}

fn data(out: &mut Vec<u8>, stream: u32, len: usize, flags: u8) {
    put_head(out, len, kind::DATA, flags, stream);
    out.resize(out.len() + len, b'x');
}

fn answer(out: &mut Vec<u8>, stream: u32) {
    head(out, stream, OK, 0);
    data(out, stream, 100, flag::END_STREAM);
}

fn goaway(out: &mut Vec<u8>, last: u32, code: u32) {
    put_head(out, 8, kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
}

#[test]
fn slots_open_when_the_servers_settings_have_come() {
    let mut play = Play::new(3, u64::MAX);
    play.open_all(3);
    assert_eq!(play.told(), []);
    assert_eq!(play.sent(), [(kind::SETTINGS, 0), (kind::WINDOW_UPDATE, 0)]);
    play.server(|out| put_settings(out, &[]));
    let opened = [Told::Opened(0), Told::Joined(1), Told::Joined(2)];
    assert_eq!(play.told(), opened);
    assert_eq!(play.sent(), [(kind::SETTINGS, 0)], "the acknowledgement");
    assert_eq!(play.lines.borrow().opened, 1);
}

#[test]
fn answers_come_in_any_order_and_at_any_split() {
    for piece in [1, 2, 8, 9, 10, 50, usize::MAX] {
        let mut play = Play::up(2, &[]);
        play.lines.borrow_mut().piece = piece;
        play.send(0);
        play.send(1);
        assert_eq!(play.sent(), [(kind::HEADERS, 1), (kind::HEADERS, 3)]);
        play.server(|out| {
            head(out, 3, OK, 0);
            head(out, 1, &[0x89], 0);
            data(out, 3, 300, 0);
            put_head(out, 8, kind::PING, 0, 0);
            out.extend_from_slice(b"12345678");
            data(out, 1, 0, flag::END_STREAM);
            data(out, 3, 20, 0);
            // Trailers.
            head(out, 3, b"\x00\x01a\x01b", flag::END_STREAM);
        });
        let mut told = Vec::new();
        while told.len() < 2 {
            play.news(true, false);
            told.extend(play.told());
        }
        let expected = [Told::Answer(0, 204, true), Told::Answer(1, 200, true)];
        assert_eq!(told, expected, "pieces of {piece}");
        play.send(0);
        assert_eq!(play.sent(), [(kind::PING, 0), (kind::HEADERS, 5)]);
    }
}

/// A response whose trailers say how a call ended, the field as text or entered in the table.
fn called(out: &mut Vec<u8>, stream: u32, code: &[u8], how: u8) {
    head(out, stream, OK, 0);
    data(out, stream, 5, 0);
    let name = b"grpc-status";
    let mut block = vec![how, name.len() as u8];
    block.extend_from_slice(name);
    block.push(code.len() as u8);
    block.extend_from_slice(code);
    head(out, stream, &block, flag::END_STREAM);
}

#[test]
fn how_a_call_ended_stands_in_the_trailers() {
    let mut play = Play::of(Http2 {
        streams: 1,
        per_connection: u64::MAX,
        scheme: "http",
        grpc: true,
    });
    play.greet(1, &[]);
    let failed = [Told::Failed(0, FailureKind::Grpc)];
    play.send(0);
    play.server(|out| called(out, 1, b"0", 0x40));
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
    play.send(0);
    // The name by its place in the table, where the code 0 stands.
    play.server(|out| {
        head(out, 3, OK, 0);
        head(out, 3, b"\x0f\x2f\x0214", flag::END_STREAM);
    });
    assert_eq!(play.told(), failed);
    play.h2.open(0, 2).unwrap();
    play.told();
    play.send(0);
    // The field as a whole by its place.
    play.server(|out| {
        head(out, 5, OK, 0);
        head(out, 5, b"\xbe", flag::END_STREAM);
    });
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
    // Without a body the code stands in the head; a word is no code; a response of something else has none.
    let one_headed = |stream, block: &'static [u8]| {
        move |out: &mut Vec<u8>| head(out, stream, block, flag::END_STREAM)
    };
    let blocks = [
        &b"\x88\x00\x0bgrpc-status\x0212"[..],
        b"\x88\x00\x0bgrpc-status\x02no",
        OK,
    ];
    for (stream, block) in [7, 9, 11].into_iter().zip(blocks) {
        play.send(0);
        play.server(one_headed(stream, block));
        assert_eq!(play.told(), failed, "stream {stream}");
        play.h2.open(0, stream).unwrap();
        play.told();
    }
    // An error of HTTP counts as that.
    play.send(0);
    play.server(one_headed(13, b"\x8d"));
    assert_eq!(play.told(), [Told::Answer(0, 404, true)]);
}

#[test]
fn interim_responses_and_long_header_blocks_are_understood() {
    let mut play = Play::up(1, &[]);
    play.send(0);
    play.server(|out| {
        head(out, 1, b"\x08\x03103", 0);
        put_head(out, 1, kind::HEADERS, flag::END_STREAM, 1);
        out.extend_from_slice(OK);
        put_head(out, 4, kind::CONTINUATION, flag::END_HEADERS, 1);
        out.extend_from_slice(b"\x00\x01a\x00");
    });
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
}

#[test]
fn after_goaway_what_was_not_processed_may_be_sent_again_and_the_rest_is_waited_for() {
    let mut play = Play::up(4, &[]);
    for slot in 0..3 {
        play.send(slot);
    }
    play.server(|out| goaway(out, 3, code::NO_ERROR));
    let told = play.told();
    let expected = [Told::End(3), Told::Unprocessed(2, FailureKind::GoAway)];
    assert_eq!(told, expected);
    // What the loop does with them: closed, and opened anew.
    for slot in [2, 3] {
        play.h2.close(slot, Close::Fin);
        play.h2.open(slot, 2).unwrap();
    }
    assert_eq!(play.told(), []);
    assert_eq!(
        play.lines.borrow().opened,
        1,
        "the old connection is waited for"
    );
    play.server(|out| {
        answer(out, 1);
        answer(out, 3);
    });
    let told = play.told();
    assert_eq!(
        told,
        [Told::Answer(0, 200, false), Told::Answer(1, 200, false)]
    );
    assert_eq!(play.lines.borrow().opened, 2);
    assert_eq!(play.h2.closed_by_server(), Some(1));
    play.server(|out| put_settings(out, &[]));
    assert_eq!(play.told(), [Told::Opened(2), Told::Joined(3)]);
}

#[test]
fn a_goaway_with_an_error_is_a_failure_by_its_name() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.send(1);
    play.server(|out| goaway(out, 1, 11));
    assert_eq!(play.told(), [Told::Unprocessed(1, FailureKind::GoAway)]);
    play.h2.close(1, Close::Fin);
    play.lines.borrow_mut().ended = true;
    play.news(true, true);
    assert_eq!(play.told(), [Told::Failed(0, FailureKind::GoAway)]);
    let detail = Detail::Http2("GOAWAY", 11).to_string();
    assert_eq!(detail, "the server sent GOAWAY with ENHANCE_YOUR_CALM");
}

#[test]
fn refused_and_reset_streams_are_told_apart() {
    let mut play = Play::up(3, &[]);
    for slot in 0..3 {
        play.send(slot);
    }
    play.server(|out| {
        put_number(out, kind::RST_STREAM, 1, code::REFUSED_STREAM);
        head(out, 3, OK, 0);
        data(out, 3, 10, 0);
        put_number(out, kind::RST_STREAM, 3, 2);
        answer(out, 5);
        // After its end a reset changes nothing.
        put_number(out, kind::RST_STREAM, 5, code::NO_ERROR);
    });
    let expected = [
        Told::Unprocessed(0, FailureKind::StreamRefused),
        Told::Failed(1, FailureKind::StreamReset),
        Told::Answer(2, 200, true),
    ];
    assert_eq!(play.told(), expected);
    assert_eq!(
        play.h2.closed_by_server(),
        Some(0),
        "the connection goes on"
    );
}

#[test]
fn slots_beyond_the_servers_limit_stay_closed() {
    let mut play = Play::new(3, u64::MAX);
    play.open_all(3);
    play.told();
    play.server(|out| put_settings(out, &[(setting::MAX_CONCURRENT_STREAMS, 2)]));
    let told = play.told();
    assert_eq!(told, [Told::Opened(0), Told::Joined(1), Told::Parked(2)]);
    assert_eq!(play.h2.limited_to(), Some(2));
}

#[test]
fn a_limit_that_falls_later_holds_requests_back() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.server(|out| put_settings(out, &[(setting::MAX_CONCURRENT_STREAMS, 1)]));
    assert_eq!(play.told(), []);
    assert_eq!(play.h2.send(1, GET).unwrap(), 0);
    assert_eq!(play.told(), []);
    play.server(|out| answer(out, 1));
    let told = play.told();
    assert_eq!(told, [Told::Answer(0, 200, true), Told::Writable(1)]);
    play.send(1);
}

#[test]
fn the_server_closing_is_named_by_where_it_comes() {
    let mut play = Play::up(3, &[]);
    play.send(0);
    play.send(1);
    play.server(|out| {
        head(out, 3, OK, 0);
        data(out, 3, 10, 0);
    });
    assert_eq!(play.told(), []);
    play.lines.borrow_mut().ended = true;
    play.news(true, true);
    let expected = [
        Told::End(2),
        Told::Failed(0, FailureKind::ClosedEarly),
        Told::Failed(1, FailureKind::Truncated),
    ];
    assert_eq!(play.told(), expected);
    assert_eq!(play.h2.closed_by_server(), Some(1));
}

#[test]
fn a_broken_connection_fails_what_is_on_it_and_opens_anew() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.lines.borrow_mut().broken = true;
    // Found out by the next send.
    assert_eq!(play.h2.send(1, GET).unwrap(), GET.len());
    let told = play.told();
    assert_eq!(
        told,
        [
            Told::Failed(0, FailureKind::Reset),
            Told::Failed(1, FailureKind::Reset)
        ]
    );
    play.h2.close(0, Close::Fin);
    play.h2.open(0, 2).unwrap();
    assert_eq!(play.lines.borrow().opened, 2);
}

#[test]
fn a_server_that_speaks_no_http_2_is_refused_by_what_it_says() {
    for greeting in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x01",
    ] {
        let mut play = Play::new(1, u64::MAX);
        play.open_all(1);
        play.told();
        play.server(|out| out.extend_from_slice(greeting));
        assert_eq!(play.told(), [Told::OpenFailed(0, FailureKind::NotHttp2)]);
    }
    let mut silent = Play::new(1, u64::MAX);
    silent.open_all(1);
    silent.told();
    silent.lines.borrow_mut().ended = true;
    silent.news(true, true);
    assert_eq!(
        silent.told(),
        [Told::OpenFailed(0, FailureKind::ClosedEarly)]
    );
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let cases: [fn(&mut Vec<u8>); 6] = [
        |out| put_head(out, 16_385, kind::DATA, 0, 1),
        |out| head(out, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff", 0),
        |out| put_head(out, 0, kind::CONTINUATION, flag::END_HEADERS, 1),
        |out| {
            put_head(out, 1, kind::HEADERS, 0, 1);
            out.extend_from_slice(OK);
            data(out, 1, 1, 0);
        },
        |out| head(out, 1, b"", flag::PADDED),
        |out| {
            put_head(out, 5, kind::SETTINGS, 0, 0);
            out.extend_from_slice(b"12345");
        },
    ];
    for (i, write) in cases.into_iter().enumerate() {
        let mut play = Play::up(1, &[]);
        play.send(0);
        play.sent();
        play.server(write);
        assert_eq!(
            play.told(),
            [Told::Failed(0, FailureKind::Malformed)],
            "case {i}"
        );
        assert_eq!(play.sent(), [(kind::GOAWAY, 0)]);
        assert_eq!(play.lines.borrow().closed, 1);
    }
}

#[test]
fn heads_that_are_no_response_fail_their_request_alone() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.send(1);
    play.server(|out| {
        head(out, 1, b"\x00\x01a\x00", flag::END_STREAM);
        answer(out, 3);
    });
    let expected = [
        Told::Failed(0, FailureKind::Malformed),
        Told::Answer(1, 200, true),
    ];
    assert_eq!(play.told(), expected);
}

#[test]
fn a_connection_carries_as_many_requests_as_it_may() {
    let mut play = Play::new(2, 3);
    play.open_all(2);
    play.told();
    play.server(|out| put_settings(out, &[]));
    play.told();
    play.send(0);
    play.send(1);
    play.server(|out| answer(out, 1));
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
    play.send(0);
    play.server(|out| answer(out, 3));
    assert_eq!(play.told(), [Told::Answer(1, 200, false)]);
    play.h2.close(1, Close::Fin);
    play.sent();
    play.server(|out| answer(out, 5));
    assert_eq!(play.told(), [Told::Answer(0, 200, false)]);
    assert_eq!(play.sent(), [(kind::GOAWAY, 0)], "ours");
    assert_eq!(play.lines.borrow().closed, 1);
    assert_eq!(play.h2.closed_by_server(), Some(0));
}

#[test]
fn a_body_is_sent_as_the_servers_windows_allow() {
    let mut play = Play::up(1, &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    let body = 30;
    let text = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {body}\r\n\r\n");
    let post = [text.as_bytes(), &vec![b'y'; body]].concat();
    let sent = play.h2.send(0, &post).unwrap();
    assert_eq!(sent, text.len() + 10);
    assert_eq!(play.told(), []);
    assert_eq!(play.sent(), [(kind::HEADERS, 1), (kind::DATA, 1)]);
    play.server(|out| put_number(out, kind::WINDOW_UPDATE, 1, 15));
    assert_eq!(play.told(), [Told::Writable(0)]);
    assert_eq!(play.h2.send(0, &post[sent..]).unwrap(), 15);
    play.server(|out| put_settings(out, &[(setting::INITIAL_WINDOW_SIZE, 100)]));
    assert_eq!(play.told(), [Told::Writable(0)]);
    assert_eq!(play.h2.send(0, &post[sent + 15..]).unwrap(), 5);
    play.server(|out| answer(out, 1));
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
}

#[test]
fn an_answer_before_the_end_of_the_body_ends_the_stream() {
    let mut play = Play::up(1, &[(setting::INITIAL_WINDOW_SIZE, 10)]);
    let post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nyyyyyyyyyyyyyyyyyyyy";
    let sent = play.h2.send(0, post).unwrap();
    play.told();
    play.sent();
    play.server(|out| put_number(out, kind::WINDOW_UPDATE, 1, 15));
    play.server(|out| head(out, 1, OK, flag::END_STREAM));
    let mut events = Vec::with_capacity(8);
    play.h2.wait(&mut events, 0).unwrap();
    // The loop goes on with the body before it has heard of the answer.
    assert_eq!(play.h2.send(0, &post[sent..]).unwrap(), 0);
    assert_eq!(play.recv(0), Some(Told::Answer(0, 200, true)));
    play.told();
    assert_eq!(play.sent(), [(kind::RST_STREAM, 1)]);
}

#[test]
fn a_request_that_is_given_up_ends_its_stream_and_not_the_connection() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.send(1);
    play.sent();
    play.server(|out| answer(out, 3));
    play.told();
    play.h2.close(0, Close::Fin);
    play.h2.open(0, 2).unwrap();
    assert_eq!(play.told(), [Told::Joined(0)]);
    assert_eq!(play.sent(), [(kind::RST_STREAM, 1)]);
    play.send(0);
    // What comes for the old stream is nobody's, but its headers are in the table.
    play.server(|out| {
        head(out, 1, b"\x48\x03299", 0);
        data(out, 1, 10, flag::END_STREAM);
        head(out, 5, &[0x80 | 62], flag::END_STREAM);
    });
    assert_eq!(play.told(), [Told::Answer(0, 299, true)]);
}

#[test]
fn a_connection_that_is_silent_when_a_request_is_given_up_gets_no_further_ones() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    play.h2.close(0, Close::Fin);
    assert_eq!(play.told(), [Told::End(1)]);
    play.h2.open(0, 2).unwrap();
    assert_eq!(play.lines.borrow().opened, 2);
}

#[test]
fn a_peer_without_a_table_is_sent_plain_fields() {
    let mut play = Play::up(1, &[(setting::HEADER_TABLE_SIZE, 0)]);
    play.send(0);
    let bytes = std::mem::take(&mut play.lines.borrow_mut().to_server);
    assert_eq!(
        bytes[9..12],
        [0x20, 0x82, 0x86],
        "the table is emptied first"
    );
    play.server(|out| answer(out, 1));
    play.told();
    play.send(0);
    let bytes = std::mem::take(&mut play.lines.borrow_mut().to_server);
    assert_eq!(bytes[9..], *b"\x82\x86\x01\x01x\x84");
}

#[test]
fn what_the_socket_does_not_take_goes_out_later() {
    let mut play = Play::up(1, &[]);
    play.lines.borrow_mut().room = 5;
    play.send(0);
    for _ in 0..10 {
        play.news(false, false);
        play.told();
    }
    assert_eq!(play.sent(), [(kind::HEADERS, 1)]);
    assert!(play.h2.take_wire().unwrap().sent > 20);
}

#[test]
fn a_slow_stream_does_not_stand_in_the_way_of_later_numbers() {
    let mut play = Play::up(2, &[]);
    play.send(0);
    let mut id = 3;
    for _ in 0..50 {
        play.send(1);
        let sent = play.sent();
        let (_, stream) = *sent.iter().rfind(|(k, _)| *k == kind::HEADERS).unwrap();
        assert!(stream >= id);
        id = stream + 2;
        play.server(|out| answer(out, stream));
        assert_eq!(play.told(), [Told::Answer(1, 200, true)]);
    }
    play.server(|out| answer(out, 1));
    assert_eq!(play.told(), [Told::Answer(0, 200, true)]);
}

/// All of a test's chance comes from one number (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// What a server may say of three streams, in every kind of frame.
fn conversation() -> Vec<u8> {
    let mut out = Vec::new();
    put_settings(&mut out, &[(setting::INITIAL_WINDOW_SIZE, 70_000)]);
    head(&mut out, 1, b"\x88\x40\x01a\x01b\xbe", 0);
    data(&mut out, 1, 40, 0);
    put_number(&mut out, kind::WINDOW_UPDATE, 0, 1_000);
    data(&mut out, 1, 5, flag::END_STREAM);
    put_head(&mut out, 1, kind::HEADERS, flag::END_STREAM, 3);
    out.extend_from_slice(OK);
    put_head(&mut out, 4, kind::CONTINUATION, flag::END_HEADERS, 3);
    out.extend_from_slice(b"\x00\x01a\x00");
    put_head(&mut out, 8, kind::PING, 0, 0);
    out.extend_from_slice(b"12345678");
    put_number(&mut out, kind::RST_STREAM, 5, code::CANCEL);
    goaway(&mut out, 5, code::NO_ERROR);
    out
}

/// Plays a server's bytes in pieces of that length to a client of three streams, and says what it was told.
fn played(bytes: &[u8], piece: usize) -> Vec<Told> {
    let mut play = Play::up(3, &[]);
    for slot in 0..3 {
        play.send(slot);
    }
    play.lines.borrow_mut().piece = piece;
    play.server(|out| out.extend_from_slice(bytes));
    let mut told = Vec::new();
    for _ in 0..=bytes.len() / piece.max(1) / 20 + 1 {
        play.news(true, false);
        told.extend(play.told());
    }
    let unsent = play.lines.borrow().to_server.len();
    assert!(unsent < 4_096 + bytes.len() * 4, "{unsent} bytes in return");
    told
}

/// A stream is told of at most once as answered, and nothing panics, whatever a server sends.
fn holds(bytes: &[u8]) {
    for piece in [7, 1 << 20] {
        let told = played(bytes, piece);
        for slot in 0..3 {
            let of_slot = |t: &&Told| matches!(t, Told::Answer(s, ..) if *s == slot);
            assert!(told.iter().filter(of_slot).count() <= 1, "{told:?}");
        }
    }
}

fn mutant(seed: u64) -> Vec<u8> {
    let mut chance = Chance(seed);
    let mut bytes = conversation();
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        let to = (at + chance.below(20)).min(bytes.len());
        match chance.below(5) {
            0 | 1 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..to)),
            _ => {
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn no_mutant_of_a_conversation_breaks_the_client() {
    let answered = Told::Answer(0, 200, true);
    assert!(
        played(&conversation(), 7).contains(&answered),
        "the seed itself is understood"
    );
    let broken = (0..6_000).find(|&seed| {
        let bytes = mutant(seed);
        std::panic::catch_unwind(|| holds(&bytes)).is_err()
    });
    let broken = broken.map(|seed| mutant(seed).escape_ascii().to_string());
    assert_eq!(broken, None, "breaks with this");
}

/// The canary: a fault that is planted must be found.
#[test]
fn the_fuzz_reaches_what_is_behind_the_heads() {
    let breaks_off = |seed: u64| {
        let told = played(&mutant(seed), 1 << 20);
        told.iter().any(|t| matches!(t, Told::Failed(..)))
    };
    assert!((0..500).any(breaks_off));
    assert!((0..500).any(|seed| played(&mutant(seed), 7).contains(&Told::Answer(1, 200, true))));
}
