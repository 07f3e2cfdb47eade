//! What the tests of the stack share: a device that is two lists of frames, and a program whose bytes are known.
#![allow(dead_code, reason = "each test uses its part")]

pub mod script;
pub mod world;

use stack::device::{Capabilities, Device, DeviceCounters};
use stack::frame::{Frame, TxMeta};
use stack::tcp::{App, Ended, Event, FlowId, Stack};
use std::io;

/// A device that keeps what it is given.
pub struct Port {
    pub capabilities: Capabilities,
    pub sent: Vec<(Vec<u8>, TxMeta)>,
    /// It takes so many frames more before it is full.
    pub room: usize,
}

impl Port {
    pub fn new(last: u8, segments: bool) -> Self {
        Port {
            capabilities: Capabilities {
                name: "test".to_owned(),
                mac: [2, 0, 0, 0, 0, last],
                mtu_bytes: 1_500,
                frame_max_bytes: if segments { 65_535 } else { 1_514 },
                segments,
                checksums: false,
            },
            sent: Vec::new(),
            room: usize::MAX,
        }
    }
}

impl Device for Port {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn receive(&mut self, _: usize, _: &mut dyn FnMut(Frame<'_>)) -> io::Result<usize> {
        Ok(0)
    }

    fn transmit(
        &mut self,
        len_max: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<(usize, TxMeta)>,
    ) -> io::Result<bool> {
        if self.room == 0 {
            return Ok(false);
        }
        let mut frame = vec![0; len_max];
        if let Some((len, meta)) = fill(&mut frame) {
            frame.truncate(len);
            self.sent.push((frame, meta));
            self.room -= 1;
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
}

/// The byte at an offset of a stream: it depends on the whole offset, and on the stream.
pub fn byte(stream: u16, offset: u64) -> u8 {
    let mixed = (offset ^ u64::from(stream) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8 ^ (mixed >> 29) as u8
}

/// One connection of a [`Program`].
#[derive(Debug, Default)]
pub struct Talk {
    pub flow: Option<FlowId>,
    pub up: u16,
    pub down: u16,
    pub to_send: u64,
    pub promised: u64,
    pub acked: u64,
    pub received: u64,
    pub is_open: bool,
    pub peer_closed: bool,
    pub ended: Option<Ended>,
}

/// A program that sends a number of known bytes on each connection, checks those that it gets, and closes.
#[derive(Default)]
pub struct Program {
    pub talks: Vec<Talk>,
    /// Bytes that a server sends on each connection.
    pub answer: u64,
    /// Close when all is sent; else when the peer has closed.
    pub closes_first: bool,
}

impl Program {
    fn feed(&mut self, stack: &mut Stack, user: u32) {
        let talk = &mut self.talks[user as usize];
        let flow = talk.flow.expect("it is open");
        let left = talk.to_send - talk.promised;
        // Not all at once, so that promises come while others are under way.
        let part = left.min(200_000) as usize;
        talk.promised += stack.send(flow, part) as u64;
        if talk.promised == talk.to_send && (self.closes_first || talk.peer_closed) {
            stack.close(flow);
        }
    }

    pub fn is_done(&self) -> bool {
        self.talks.iter().all(|talk| talk.ended.is_some())
    }
}

impl App for Program {
    fn pull(&mut self, _: FlowId, user: u32, offset: u64, into: &mut [u8]) {
        let talk = &self.talks[user as usize];
        assert!(offset >= talk.acked && offset + into.len() as u64 <= talk.promised);
        for (byte_, at) in into.iter_mut().zip(offset..) {
            *byte_ = byte(talk.up, at);
        }
    }

    fn received(&mut self, _: &mut Stack, _: FlowId, user: u32, bytes: &[u8]) {
        let talk = &mut self.talks[user as usize];
        assert!(!talk.peer_closed && talk.ended.is_none());
        for (got, at) in bytes.iter().zip(talk.received..) {
            assert_eq!(*got, byte(talk.down, at), "at {at}");
        }
        talk.received += bytes.len() as u64;
    }

    fn event(&mut self, stack: &mut Stack, flow: FlowId, mut user: u32, event: Event) {
        if event == Event::Accepted {
            user = self.talks.len() as u32;
            stack.set_user(flow, user);
            self.talks.push(Talk {
                to_send: self.answer,
                ..Talk::default()
            });
        }
        let talk = &mut self.talks[user as usize];
        match event {
            Event::Accepted | Event::Connected => {
                let (local, remote) = stack.tuple(flow);
                let stream = local.port().max(remote.port());
                (talk.up, talk.down) = if event == Event::Accepted {
                    (stream, !stream)
                } else {
                    (!stream, stream)
                };
                talk.flow = Some(flow);
                talk.is_open = true;
                self.feed(stack, user);
            }
            Event::Acked { offset } => {
                assert!(offset > talk.acked && offset <= talk.promised);
                talk.acked = offset;
                if talk.promised < talk.to_send && talk.promised - offset < 100_000 {
                    self.feed(stack, user);
                }
            }
            Event::PeerClosed => {
                assert!(!talk.peer_closed);
                talk.peer_closed = true;
                self.feed(stack, user);
            }
            Event::Ended(why) => {
                assert!(talk.ended.replace(why).is_none(), "ends once");
            }
        }
    }
}
