//! WebSocket (RFC 6455) as a transport over a transport of bytes: a slot is a connection.
//!
//! The upgrade belongs to opening, as a TLS handshake does. The load loop sends a message on a slot, as a frame whose
//! mask is still zero (see [`sending`]), and receives a decoded answer: the length of the next message that comes
//! whole. Pings and a close are answered without the loop. What comes while no answer is awaited is counted and
//! otherwise left alone.

pub mod frame;
mod handshake;
pub(crate) mod sending;
#[cfg(test)]
mod tests;

use super::{
    Detail, Event, Failure, Generation, Handshakes, Received, Slot, Tagged, Transport, Want, Wire,
};
use crate::clock::now_ns;
use crate::messages::HEAD_BYTES;
use crate::random::Random;
use frame::{Reader, Said, opcode};
use handshake::Key;
pub(crate) use handshake::Upgrade;
use http1::{Excerpt, parse_response};
use record::{Close, FailureKind};
use ring::rand::{SecureRandom, SystemRandom};
use sending::Control;
use std::collections::VecDeque;
use std::sync::Arc;

/// Masked and sent at once.
const PIECE_BYTES: usize = 64 * 1024;
/// As often a connection is read from before others have their turn.
const READS_MAX: u32 = 16;
/// RFC 6455 7.4.1.
const NORMAL: [u8; 2] = 1000_u16.to_be_bytes();
const PROTOCOL_ERROR: [u8; 2] = 1002_u16.to_be_bytes();

/// What a close's code means (RFC 6455 7.4.1, and IANA's registry for what came later).
pub(super) fn name_of(code: u16) -> &'static str {
    match code {
        1000 => " (normal closure)",
        1001 => " (going away)",
        1002 => " (protocol error)",
        1003 => " (unsupported data)",
        1007 => " (invalid payload data)",
        1008 => " (policy violation)",
        1009 => " (message too big)",
        1010 => " (extension missing)",
        1011 => " (internal error)",
        1012 => " (service restart)",
        1013 => " (try again later)",
        1014 => " (bad gateway)",
        _ => "",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// So many bytes of the request are sent, and so many of a response's head have come.
    Upgrading {
        sent: usize,
        came: usize,
    },
    Open,
}

/// One connection.
struct Line {
    state: State,
    generation: Generation,
    key: Key,
    reader: Reader,
    /// Of the frame under way: its mask, how long its head and all of it are, and how much of it is sent.
    mask: [u8; 4],
    head_len: usize,
    frame_len: usize,
    frame_sent: usize,
    /// A message was sent, or is being sent, and has no answer yet.
    is_awaiting: bool,
    /// Since when the message under way comes.
    began_at: u64,
    /// Length of the answer, and since when it came.
    answer: Option<(u64, u64)>,
    control: Control,
    /// There is a ping to be answered, once `control` is sent.
    pong_due: bool,
    /// The server has ended its side, as far as the transport below says.
    hung_up: bool,
    /// Why there is no more to come.
    ended: Option<Failure>,
}

impl Line {
    fn new() -> Self {
        Line {
            state: State::Closed,
            generation: 0,
            key: [0; handshake::KEY_BYTES],
            reader: Reader::default(),
            mask: [0; 4],
            head_len: 0,
            frame_len: 0,
            frame_sent: 0,
            is_awaiting: false,
            began_at: 0,
            answer: None,
            control: Control::NONE,
            pong_due: false,
            hung_up: false,
            ended: None,
        }
    }

    fn is_mid_frame(&self) -> bool {
        self.frame_sent < self.frame_len
    }

    /// Takes in what came at `at`; returns how many messages nobody awaited.
    fn take_in(&mut self, mut rest: &[u8], at: u64, random: &mut Random) -> u64 {
        let mut unasked = 0;
        while self.ended.is_none() {
            if self.reader.is_at_rest() {
                self.began_at = at;
            }
            match self.reader.feed(&mut rest) {
                Ok(None) => break,
                Ok(Some(Said::Message(bytes))) if self.is_awaiting => {
                    self.is_awaiting = false;
                    self.answer = Some((bytes, self.began_at));
                }
                Ok(Some(Said::Message(_))) => unasked += 1,
                // RFC 6455 5.5.3: of several that wait for an answer, the last is answered.
                Ok(Some(Said::Ping)) => self.pong(random),
                Ok(Some(Said::Close(code))) => {
                    let payload = self.reader.control();
                    let reason = Excerpt::of(payload.get(2..).unwrap_or_default());
                    self.say(opcode::CLOSE, payload.len().min(2), random);
                    self.ended = Some(Failure {
                        kind: FailureKind::WebSocketClosed,
                        detail: Detail::WebSocketClosed(code, reason),
                    });
                }
                Err(words) => {
                    self.control = Control::new(opcode::CLOSE, &PROTOCOL_ERROR, mask(random));
                    self.ended = Some(Failure::text(FailureKind::WebSocket, words));
                }
            }
        }
        unasked
    }

    fn pong(&mut self, random: &mut Random) {
        self.pong_due = self.control.is_under_way();
        if !self.pong_due {
            self.say(opcode::PONG, self.reader.control().len(), random);
        }
    }

    /// Repeats so much of the server's control frame to it.
    fn say(&mut self, opcode: u8, len: usize, random: &mut Random) {
        if !self.control.is_under_way() {
            self.control = Control::new(opcode, &self.reader.control()[..len], mask(random));
        }
    }
}

/// RFC 6455 5.3 asks for a mask that a script in a browser cannot foresee, so that it cannot write what a proxy would
/// take for a request. Nothing here sends a script's bytes: that servers see ever other masks is what matters.
fn mask(random: &mut Random) -> [u8; 4] {
    (random.bits() as u32).to_ne_bytes()
}

/// The transport; see the module.
pub(crate) struct WebSocket<T> {
    inner: T,
    upgrade: Arc<Upgrade>,
    lines: Vec<Line>,
    /// One buffer for an incomplete head per slot. Untouched pages of it cost nothing.
    heads: Vec<u8>,
    /// What is to be sent, masked.
    out: Vec<u8>,
    random: Random,
    told: VecDeque<Tagged>,
    /// Events of the transport below, kept between calls for its capacity.
    below: Vec<Tagged>,
    wire: Wire,
    unasked: u64,
}

impl<T: Transport> WebSocket<T> {
    /// Over `inner`, which has as many slots.
    pub fn new(inner: T, slots: u32, upgrade: Arc<Upgrade>) -> Self {
        let mut seed = [0; 8];
        if SystemRandom::new().fill(&mut seed).is_err() {
            seed = now_ns().to_ne_bytes();
        }
        let slots = slots as usize;
        WebSocket {
            inner,
            lines: (0..slots).map(|_| Line::new()).collect(),
            heads: vec![0; slots * HEAD_BYTES],
            out: Vec::with_capacity(PIECE_BYTES.max(upgrade.len())),
            upgrade,
            random: Random::seeded(u64::from_ne_bytes(seed)),
            told: VecDeque::with_capacity(2048 + 2 * slots),
            below: Vec::with_capacity(1024),
            wire: Wire::default(),
            unasked: 0,
        }
    }

    fn tell(&mut self, slot: Slot, event: Event) {
        let generation = self.lines[slot as usize].generation;
        self.told.push_back(Tagged {
            slot,
            generation,
            event,
        });
    }

    fn tell_readable(&mut self, slot: Slot) {
        let hangup = self.lines[slot as usize].hung_up;
        let event = Event::Ready {
            readable: true,
            writable: false,
            hangup,
        };
        self.tell(slot, event);
    }

    /// What an event of the transport below means.
    fn note(&mut self, tagged: Tagged) {
        let Tagged { slot, event, .. } = tagged;
        let line = &mut self.lines[slot as usize];
        if line.generation != tagged.generation || line.state == State::Closed {
            return;
        }
        if let Event::Ready { hangup, .. } = event {
            line.hung_up |= hangup;
        }
        match (event, line.state) {
            (event @ Event::OpenFailed(_), _) => {
                line.state = State::Closed;
                self.tell(slot, event);
            }
            (_, State::Upgrading { .. }) => match self.go_on_upgrading(slot) {
                Ok(false) => {}
                Ok(true) => {
                    self.tell(slot, Event::Opened);
                    // Frames may have come with the response, or wait.
                    self.tell_readable(slot);
                }
                Err(failure) => {
                    self.close(slot, Close::Fin);
                    self.tell(slot, Event::OpenFailed(failure));
                }
            },
            (event, _) => {
                if matches!(event, Event::Ready { writable: true, .. }) {
                    // What broke is met, with its cause, when it is read from.
                    let _ = self.push_control(slot);
                }
                self.tell(slot, event);
            }
        }
    }

    /// Goes on with the opening handshake; true when the server has agreed.
    fn go_on_upgrading(&mut self, slot: Slot) -> Result<bool, Failure> {
        let line = &mut self.lines[slot as usize];
        let State::Upgrading { sent, came } = &mut line.state else {
            return Ok(false);
        };
        if *sent < self.upgrade.len() {
            self.upgrade.write(&line.key, &mut self.out);
            let taken = self.inner.send(slot, &self.out[*sent..])?;
            self.wire.sent += taken as u64;
            *sent += taken;
        }
        let buffer = slot as usize * HEAD_BYTES;
        let buffer = &mut self.heads[buffer..buffer + HEAD_BYTES];
        // To the last byte, or an end that is told of once would be missed.
        loop {
            let bytes = match self.inner.recv(slot, Want::Bytes(HEAD_BYTES))? {
                Received::Data { bytes, .. } => bytes,
                Received::End { .. } => {
                    let text = "the server closed the connection in place of a response";
                    return Err(Failure::text(FailureKind::UpgradeRefused, text));
                }
                _ => return Ok(false),
            };
            self.wire.received += bytes.len() as u64;
            let at = now_ns();
            let kept = *came;
            let room = (HEAD_BYTES - kept).min(bytes.len());
            let read = if kept == 0 {
                read_head(bytes, &self.upgrade, &line.key)?
            } else {
                buffer[kept..kept + room].copy_from_slice(&bytes[..room]);
                read_head(&buffer[..kept + room], &self.upgrade, &line.key)?
            };
            if let Some(head_len) = read {
                line.state = State::Open;
                let behind = &bytes[head_len - kept..];
                self.unasked += line.take_in(behind, at, &mut self.random);
                return Ok(true);
            }
            if kept == 0 {
                buffer[..room].copy_from_slice(&bytes[..room]);
            }
            *came += room;
            if *came == HEAD_BYTES {
                let text = "the response to the upgrade has a head larger than the buffer";
                return Err(Failure::text(FailureKind::HeadTooLarge, text));
            }
        }
    }

    /// Sends a pong or a close that waits, where no message is under way; true when nothing waits any more.
    fn push_control(&mut self, slot: Slot) -> Result<bool, Failure> {
        let line = &mut self.lines[slot as usize];
        if line.is_mid_frame() {
            return Ok(false);
        }
        loop {
            let unsent = line.control.unsent();
            if !unsent.is_empty() {
                let taken = self.inner.send(slot, unsent)?;
                self.wire.sent += taken as u64;
                line.control.advance(taken);
                if !line.control.unsent().is_empty() {
                    return Ok(false);
                }
            }
            line.control = Control::NONE;
            if !std::mem::take(&mut line.pong_due) {
                return Ok(true);
            }
            line.pong(&mut self.random);
        }
    }

    /// Reads until nothing is left, but not for ever.
    fn read(&mut self, slot: Slot) {
        let line = &mut self.lines[slot as usize];
        let mut reads = 0;
        while line.ended.is_none() {
            if reads == READS_MAX {
                self.tell_readable(slot);
                return;
            }
            reads += 1;
            let came_at = self.inner.came_at(slot);
            match self.inner.recv(slot, Want::Bytes(usize::MAX)) {
                Ok(Received::Data { bytes, more }) => {
                    let at = came_at.unwrap_or_else(now_ns);
                    self.wire.received += bytes.len() as u64;
                    self.unasked += line.take_in(bytes, at, &mut self.random);
                    if !more && !line.hung_up {
                        return;
                    }
                }
                Ok(Received::End { .. }) => {
                    let failure = if line.reader.is_at_rest() {
                        let text = "the server ended the connection without a close frame";
                        Failure::text(FailureKind::ClosedEarly, text)
                    } else {
                        let text = "the server ended the connection in the middle of a message";
                        Failure::text(FailureKind::Truncated, text)
                    };
                    line.ended = Some(failure);
                }
                Ok(_) => return,
                Err(failure) => line.ended = Some(failure),
            }
        }
    }
}

/// Reads the response to an upgrade; its length when it agrees, `None` when more of it must come.
fn read_head(bytes: &[u8], upgrade: &Upgrade, key: &Key) -> Result<Option<usize>, Failure> {
    let mut from = 0;
    loop {
        let head = parse_response(&bytes[from..], false).map_err(|error| Failure {
            kind: FailureKind::Malformed,
            detail: Detail::Codec(error),
        })?;
        match head {
            None => return Ok(None),
            Some(head) if head.status == 101 => {
                upgrade.check(&bytes[from..from + head.head_len], key)?;
                return Ok(Some(from + head.head_len));
            }
            Some(head) if head.status < 200 => from += head.head_len,
            Some(head) => {
                return Err(Failure {
                    kind: FailureKind::UpgradeRefused,
                    detail: Detail::Upgrade(head.status),
                });
            }
        }
    }
}

impl<T: Transport> Transport for WebSocket<T> {
    fn open(&mut self, slot: Slot, generation: Generation) -> Result<(), Failure> {
        let key = handshake::key(self.random.bits(), self.random.bits());
        self.lines[slot as usize] = Line {
            state: State::Upgrading { sent: 0, came: 0 },
            generation,
            key,
            ..Line::new()
        };
        self.inner.open(slot, generation)
    }

    #[inline]
    fn send(&mut self, slot: Slot, bytes: &[u8]) -> Result<usize, Failure> {
        if !self.push_control(slot)? && !self.lines[slot as usize].is_mid_frame() {
            return Ok(0);
        }
        let line = &mut self.lines[slot as usize];
        if !line.is_mid_frame() {
            let Some((head_len, frame_len)) = sending::extent(bytes) else {
                let text = "WebSocket: what is to be sent is no message";
                return Err(Failure::text(FailureKind::Io, text));
            };
            (line.head_len, line.frame_len, line.frame_sent) = (head_len, frame_len, 0);
            line.mask = mask(&mut self.random);
            line.is_awaiting = true;
        }
        let mut taken = 0;
        while taken < bytes.len() && line.is_mid_frame() {
            let len = (line.frame_len - line.frame_sent)
                .min(bytes.len() - taken)
                .min(PIECE_BYTES);
            let piece = &bytes[taken..taken + len];
            self.out.resize(len, 0);
            let (at, head) = (line.frame_sent, line.head_len);
            sending::copy_masked(&mut self.out, piece, line.mask, at, head);
            let sent = self.inner.send(slot, &self.out)?;
            self.wire.sent += sent as u64;
            line.frame_sent += sent;
            taken += sent;
            if sent < len {
                break;
            }
        }
        if !line.is_mid_frame() {
            // A pong that has waited for the message's end.
            self.push_control(slot)?;
        }
        Ok(taken)
    }

    #[inline]
    fn recv(&mut self, slot: Slot, _: Want) -> Result<Received<'_>, Failure> {
        self.read(slot);
        let waits = !self.lines[slot as usize].control.unsent().is_empty();
        let pushed = if waits {
            self.push_control(slot)
        } else {
            Ok(true)
        };
        let line = &mut self.lines[slot as usize];
        if let Err(failure) = pushed
            && line.ended.is_none()
        {
            line.ended = Some(failure);
        }
        if let Some((body_bytes, first_byte_at)) = line.answer.take() {
            return Ok(Received::Answer {
                // A message has none.
                status: 0,
                body_bytes,
                first_byte_at,
                goes_on: line.ended.is_none(),
            });
        }
        match &line.ended {
            Some(failure) => Err(failure.clone()),
            None => Ok(Received::Blocked),
        }
    }

    fn close(&mut self, slot: Slot, how: Close) {
        let line = &mut self.lines[slot as usize];
        let in_order = line.state == State::Open && line.ended.is_none() && !line.is_mid_frame();
        if in_order && how == Close::Fin && !line.control.is_under_way() {
            line.control = Control::new(opcode::CLOSE, &NORMAL, mask(&mut self.random));
            // The connection ends whether or not the server hears of it.
            let _ = self.push_control(slot);
        }
        self.lines[slot as usize].state = State::Closed;
        self.inner.close(slot, how);
    }

    fn wait(&mut self, events: &mut Vec<Tagged>, timeout_ns: u64) -> Result<(), Failure> {
        let mut waited = Ok(());
        if self.told.is_empty() {
            let mut below = std::mem::take(&mut self.below);
            waited = self.inner.wait(&mut below, timeout_ns);
            below.drain(..).for_each(|tagged| self.note(tagged));
            self.below = below;
        }
        let room = events.capacity() - events.len();
        let told = self.told.len().min(room);
        events.extend(self.told.drain(..told));
        waited
    }

    fn flush(&mut self) -> bool {
        self.inner.flush() && self.told.is_empty()
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
        format!("{}+websocket", self.inner.name())
    }

    fn counted(&self) -> Option<record::traffic::SideOutcome> {
        self.inner.counted()
    }

    fn handshakes(&self) -> Handshakes {
        self.inner.handshakes()
    }

    fn take_wire(&mut self) -> Option<Wire> {
        Some(std::mem::take(&mut self.wire))
    }

    fn unasked(&self) -> u64 {
        self.unasked
    }
}
