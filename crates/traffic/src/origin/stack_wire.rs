//! A flow of a stack in user space as a [`Wire`].
//!
//! Nothing is copied to be sent: an answer's head and small body move here and stay until they are acknowledged, and of
//! a large body only its place in the store is kept, from which the stack pulls what it sends, again when it was lost.
//! What is received is taken from the device's frame; what cannot be taken yet is kept, and closes the window.

use super::content::Content;
use super::store::Tail;
use super::talk::Output;
use super::wire::Wire;
use stack::tcp::{FlowId, Stack};
use std::collections::VecDeque;
use std::io;

/// So much may be sent and not be acknowledged, as much as a kernel holds by default (`net.ipv4.tcp_wmem`).
const AHEAD_BYTES: u64 = 4 << 20;
/// Below so much kept input the peer need not be told to send less.
const KEPT_QUIETLY: usize = 16 * 1024;
/// Larger buffers are given back to the system.
const SPARE_BYTES_MAX: usize = 64 * 1024;

/// Where bytes of our stream come from.
#[derive(Debug)]
enum Source {
    Bytes(Vec<u8>),
    Stored(Tail),
}

/// A part of our stream.
#[derive(Debug)]
struct Run {
    from: u64,
    to: u64,
    source: Source,
}

/// What a flow holds beside its conversation.
#[derive(Debug, Default)]
pub struct Held {
    /// What was taken and is not acknowledged, in order.
    runs: VecDeque<Run>,
    /// Bytes taken to be sent, since the flow began.
    queued: u64,
    /// Of them, acknowledged.
    acked: u64,
    /// More was to be sent than was taken.
    pub was_refused: bool,
    /// Received and not yet taken by the conversation, from here on.
    kept: Vec<u8>,
    kept_from: usize,
    /// The peer was told to send less.
    is_narrow: bool,
    /// The peer sends no more.
    pub peer_closed: bool,
}

/// Buffers that wait for their next use.
pub type Spare = Vec<Vec<u8>>;

impl Held {
    /// The peer has all that was taken.
    pub fn is_acknowledged(&self) -> bool {
        self.acked == self.queued
    }

    /// All before `offset` has arrived.
    pub fn acknowledged(&mut self, offset: u64, spare: &mut Spare) {
        self.acked = offset;
        while let Some(run) = self.runs.pop_front_if(|run| run.to <= offset) {
            if let Source::Bytes(mut bytes) = run.source
                && bytes.capacity() <= SPARE_BYTES_MAX
                && spare.len() < 1_024
            {
                bytes.clear();
                spare.push(bytes);
            }
        }
    }

    /// Fills `into` with what stands at `offset` of our stream.
    pub fn pull(&self, content: &Content, mut offset: u64, mut into: &mut [u8]) {
        for run in &self.runs {
            if run.to <= offset {
                continue;
            }
            let skip = offset - run.from;
            // Both are lengths of what lies in memory here.
            let len = ((run.to - offset) as usize).min(into.len());
            let (part, rest) = std::mem::take(&mut into).split_at_mut(len);
            match &run.source {
                Source::Bytes(bytes) => {
                    let skip = skip as usize;
                    part.copy_from_slice(&bytes[skip..skip + len]);
                }
                Source::Stored(tail) => content.copy(*tail, skip, part),
            }
            offset += len as u64;
            into = rest;
            if into.is_empty() {
                return;
            }
        }
    }

    /// Keeps bytes for later.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Something received waits.
    pub fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Tells the peer how much it may send, when that has changed enough.
    pub fn set_window(&mut self, stack: &mut Stack, flow: FlowId, window_bytes: u32) {
        let kept = self.kept.len() - self.kept_from;
        let narrow = kept >= KEPT_QUIETLY;
        if narrow || self.is_narrow {
            self.is_narrow = narrow;
            let kept = if narrow { kept } else { 0 };
            let kept = u32::try_from(kept).unwrap_or(u32::MAX);
            stack.set_receive_window(flow, window_bytes.saturating_sub(kept));
        }
    }
}

/// A flow that has its turn; see the module.
pub struct FlowWire<'a> {
    /// The flow's stack.
    pub stack: &'a mut Stack,
    /// Which flow.
    pub flow: FlowId,
    /// What it holds.
    pub held: &'a mut Held,
    /// What has just come; behind what is kept, so that one of both is empty.
    pub incoming: &'a [u8],
    /// For bytes that are moved out of the output.
    pub spare: &'a mut Spare,
}

impl FlowWire<'_> {
    /// Keeps what has come and was not taken.
    pub fn keep_rest(&mut self) {
        self.held.keep(std::mem::take(&mut self.incoming));
    }

    fn promise(&mut self, bytes: u64, source: Source) -> io::Result<Option<usize>> {
        // At most AHEAD_BYTES, or what an output holds in memory.
        let taken = self.stack.send(self.flow, bytes as usize);
        if taken as u64 != bytes {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let from = self.held.queued;
        self.held.queued += bytes;
        let to = self.held.queued;
        match (&source, self.held.runs.back_mut()) {
            // One body goes on: its run grows.
            (Source::Stored(next), Some(run)) if run.goes_on_with(next) => run.to = to,
            _ => self.held.runs.push_back(Run { from, to, source }),
        }
        Ok(Some(taken))
    }
}

impl Run {
    fn goes_on_with(&self, next: &Tail) -> bool {
        match self.source {
            Source::Stored(tail) => tail.after(self.to - self.from) == Some(*next),
            Source::Bytes(_) => false,
        }
    }
}

impl Wire for FlowWire<'_> {
    fn send(&mut self, output: &mut Output, _: &Content) -> io::Result<Option<usize>> {
        let room = (self.held.acked + AHEAD_BYTES).saturating_sub(self.held.queued);
        self.held.was_refused = room == 0;
        if room == 0 {
            return Ok(None);
        }
        if let Some(bytes) = output.take_bytes(|| self.spare.pop().unwrap_or_default()) {
            return self.promise(bytes.len() as u64, Source::Bytes(bytes));
        }
        let Some(tail) = output.tail else {
            return Ok(Some(0));
        };
        let taken = self.promise(tail.left().min(room), Source::Stored(tail))?;
        output.took(taken.unwrap_or(0));
        Ok(taken)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        if self.held.has_kept() {
            let kept = &self.held.kept[self.held.kept_from..];
            let n = kept.len().min(into.len());
            into[..n].copy_from_slice(&kept[..n]);
            self.used_kept(n);
            return Ok(Some(n));
        }
        let n = self.incoming.len().min(into.len());
        let (now, rest) = self.incoming.split_at(n);
        into[..n].copy_from_slice(now);
        self.incoming = rest;
        Ok(self.unless_nothing(n))
    }

    fn discard(&mut self, length: usize) -> io::Result<Option<usize>> {
        if self.held.has_kept() {
            let n = (self.held.kept.len() - self.held.kept_from).min(length);
            self.used_kept(n);
            return Ok(Some(n));
        }
        let n = self.incoming.len().min(length);
        self.incoming = &self.incoming[n..];
        Ok(self.unless_nothing(n))
    }

    fn end(&mut self) {
        self.stack.close(self.flow);
    }
}

impl FlowWire<'_> {
    fn used_kept(&mut self, n: usize) {
        self.held.kept_from += n;
        if self.held.kept_from == self.held.kept.len() {
            // An idle connection holds no memory.
            self.held.kept = Vec::new();
            self.held.kept_from = 0;
        }
    }

    fn unless_nothing(&self, n: usize) -> Option<usize> {
        (n > 0 || self.held.peer_closed).then_some(n)
    }
}
