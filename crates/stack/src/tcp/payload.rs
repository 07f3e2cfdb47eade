//! What was received: in order to the program as slices of the frame, out of order kept until the hole is filled; and
//! the peer's FIN (RFC 9293 3.10.7.4, seventh and eighth).

use super::flow::{NONE, State, bit};
use super::reassembly::{CHUNK_BYTES, gaps};
use super::seq::{before, distance, later};
use super::{App, Event, FlowId, Stack};
use crate::wire::tcp::{Segment, flag};

/// Payload in the pieces in which the device has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Payload<'a> {
    /// What lies behind the headers.
    pub head: &'a [u8],
    /// Further pieces.
    pub rest: &'a [&'a [u8]],
    /// Bytes that count, of all pieces.
    pub len: u32,
}

impl Payload<'_> {
    /// Calls `each` with the bytes from `skip` on, `len` in all, until it says no.
    fn slices(&self, skip: u32, len: u32, mut each: impl FnMut(&[u8]) -> bool) {
        let (mut skip, mut left) = (skip as usize, len as usize);
        for piece in std::iter::once(&self.head).chain(self.rest) {
            let begin = skip.min(piece.len());
            skip -= begin;
            let part = &piece[begin..];
            let part = &part[..part.len().min(left)];
            left -= part.len();
            if !part.is_empty() && !each(part) {
                return;
            }
        }
    }
}

impl Stack {
    pub(super) fn take_payload<A: App>(
        &mut self,
        id: u32,
        segment: &Segment,
        payload: Payload<'_>,
        app: &mut A,
    ) {
        let has_fin = segment.has(flag::FIN);
        if payload.len == 0 && !has_fin {
            return;
        }
        let flow = &mut self.flows[id];
        if !flow.state.receives() {
            // The peer has ended its side: what comes now is a repetition.
            flow.set(bit::ACK_NOW);
            return self.enqueue(id);
        }
        let side = flow.side();
        let end = segment.seq.wrapping_add(payload.len);
        if flow.has(bit::ORPHAN) && before(flow.rcv_nxt, end) {
            // Nobody is there to take it (RFC 1122 4.2.2.13).
            self.counters[side].rcvafterclose += 1;
            flow.set(bit::ABORT);
            return self.enqueue(id);
        }
        let skip = distance(segment.seq, flow.rcv_nxt).min(payload.len);
        if skip > 0 {
            let counters = &mut self.counters[side];
            if skip == payload.len {
                counters.rcvduppack += 1;
                counters.rcvdupbyte += u64::from(skip);
            } else {
                counters.rcvpartduppack += 1;
                counters.rcvpartdupbyte += u64::from(skip);
            }
            flow.set(bit::ACK_NOW);
            self.enqueue(id);
        }
        let flow = &self.flows[id];
        let beyond = distance(flow.rcv_adv, end).min(payload.len - skip);
        if beyond > 0 {
            self.counters[side].rcvpackafterwin += 1;
        }
        let (seq, len) = (segment.seq.wrapping_add(skip), payload.len - skip - beyond);
        if len > 0 {
            if seq == flow.rcv_nxt {
                self.in_order(id, &payload, skip, len, app);
            } else {
                self.out_of_order(id, seq, &payload, skip, len);
            }
        }
        if has_fin && beyond == 0 {
            self.note_fin(id, end);
        }
        let flow = &self.flows[id];
        let in_time = has_fin && beyond == 0 && flow.rcv_nxt == end;
        let kept = flow.loss != NONE && self.losses[flow.loss].fin_at == Some(flow.rcv_nxt);
        if (in_time || kept) && flow.state.receives() && !flow.has(bit::ABORT) {
            self.receive_fin(id, app);
        }
    }

    /// A FIN behind a hole is remembered.
    fn note_fin(&mut self, id: u32, at: u32) {
        if before(self.flows[id].rcv_nxt, at)
            && self.settings.keep_out_of_order
            && let Some(index) = self.loss_of(id)
        {
            self.losses[index].fin_at = Some(at);
        }
    }

    fn receive_fin<A: App>(&mut self, id: u32, app: &mut A) {
        let flow = &mut self.flows[id];
        flow.rcv_nxt = flow.rcv_nxt.wrapping_add(1);
        flow.rcv_adv = later(flow.rcv_adv, flow.rcv_nxt);
        flow.set(bit::ACK_NOW);
        if flow.loss != NONE {
            self.losses[flow.loss].fin_at = None;
        }
        let is_last = flow.state == State::FinWait2;
        flow.state = match flow.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            _ => State::TimeWait,
        };
        self.enqueue(id);
        self.tell(id, Event::PeerClosed, app);
        if is_last && self.flows[id].state == State::TimeWait {
            self.done(id, app);
        }
    }

    fn in_order<A: App>(
        &mut self,
        id: u32,
        payload: &Payload<'_>,
        skip: u32,
        len: u32,
        app: &mut A,
    ) {
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        counters.rcvpack += 1;
        counters.rcvbyte += u64::from(len);
        let has_holes = flow.loss != NONE && !self.losses[flow.loss].out_of_order.is_empty();
        counters.preddat += u64::from(!has_holes);
        flow.rcv_nxt = flow.rcv_nxt.wrapping_add(len);
        let user = flow.user;
        payload.slices(skip, len, |bytes| {
            app.received(self, FlowId(id), user, bytes);
            !self.flows[id].has(bit::ABORT)
        });
        if has_holes {
            self.fill_up(id, app);
        }
        self.owe_ack(id, has_holes);
    }

    /// When to acknowledge what came in order (RFC 1122 4.2.3.2, RFC 5681 4.2).
    fn owe_ack(&mut self, id: u32, has_holes: bool) {
        let flow = &self.flows[id];
        if flow.has(bit::ACK_NOW) {
            return self.enqueue(id);
        }
        let owed = flow.rcv_nxt.wrapping_sub(flow.rcv_acked);
        let limit = self
            .settings
            .ack_segments
            .saturating_mul(u32::from(flow.mss));
        if has_holes || owed >= limit || self.settings.delayed_ack_ms == 0 {
            self.flows[id].set(bit::ACK_NOW);
            self.enqueue(id);
        } else {
            self.delay_ack(id);
        }
    }

    /// A hole was filled: what was kept behind it follows.
    fn fill_up<A: App>(&mut self, id: u32, app: &mut A) {
        let mut spare = [0; CHUNK_BYTES];
        loop {
            let flow = &self.flows[id];
            if flow.loss == NONE || flow.has(bit::ABORT) {
                return;
            }
            let (index, seq, side, user) = (flow.loss, flow.rcv_nxt, flow.side(), flow.user);
            let len = self.pool.next(&mut self.losses[index], seq, &mut spare);
            let Some(len) = len else {
                self.losses[index].out_of_order.forget_before(seq);
                return;
            };
            self.counters[side].reasfree += 1;
            self.counters[side].rcvbyte += len as u64;
            let flow = &mut self.flows[id];
            flow.rcv_nxt = flow.rcv_nxt.wrapping_add(len as u32);
            if len > 0 {
                app.received(self, FlowId(id), user, &spare[..len]);
            }
        }
    }

    fn out_of_order(&mut self, id: u32, seq: u32, payload: &Payload<'_>, skip: u32, len: u32) {
        let flow = &mut self.flows[id];
        let side = flow.side();
        // RFC 5681 4.2: at once, so that the sender learns of the hole.
        flow.set(bit::ACK_NOW);
        self.enqueue(id);
        let counters = &mut self.counters[side];
        counters.rcvoopack += 1;
        counters.rcvoobyte += u64::from(len);
        if !self.settings.keep_out_of_order || !self.keep(id, seq, payload, skip, len) {
            let counters = &mut self.counters[side];
            counters.rcvoopackdrop += 1;
            counters.rcvoobytesdrop += u64::from(len);
        }
    }

    fn keep(&mut self, id: u32, seq: u32, payload: &Payload<'_>, skip: u32, len: u32) -> bool {
        let Some(index) = self.loss_of(id) else {
            return false;
        };
        let side = self.flows[id].side();
        let loss = &mut self.losses[index];
        let end = seq.wrapping_add(len);
        let cuts = loss.out_of_order.all().len() + payload.rest.len() + 1;
        if !self.pool.has_room(len, cuts) {
            self.counters[side].nombuf += 1;
            return false;
        }
        let mut missing = [(0, 0); super::ranges::RANGES_MAX + 1];
        let mut count = 0;
        gaps(loss, seq, end, |from, to| {
            missing[count] = (from, to);
            count += 1;
        });
        loss.latest = seq;
        if !loss.out_of_order.insert(seq, end) {
            return false;
        }
        let before_count = self.pool.used();
        for (from, to) in &missing[..count] {
            let mut at = *from;
            payload.slices(skip + distance(seq, *from), distance(*from, *to), |bytes| {
                self.pool.keep(loss, at, bytes);
                at = at.wrapping_add(bytes.len() as u32);
                true
            });
        }
        self.counters[side].reasalloc += u64::from(self.pool.used() - before_count);
        true
    }
}
