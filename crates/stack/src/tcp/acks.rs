//! What an acknowledgement tells: bytes that arrived, a round trip, room in the peer's window, holes.

use super::flow::{NONE, State, bit};
use super::seq::{before, distance, earlier, later, until};
use super::timers::is_shut_out;
use super::{App, Ended, Event, Stack, congestion};
use crate::wire::tcp::{Segment, flag};

/// What an acknowledgement says of the timeout before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing is in doubt.
    Open,
    /// Nothing was lost.
    Spurious,
    /// Something was lost.
    Needed,
    /// Payload that was never out will tell.
    Ask,
}

impl Stack {
    /// Takes the acknowledgement of a segment; false when the flow is no more or the segment is not to be looked at
    /// further.
    pub(super) fn acknowledged<A: App>(
        &mut self,
        id: u32,
        segment: &Segment,
        payload: u32,
        app: &mut A,
    ) -> bool {
        let flow = &mut self.flows[id];
        let side = flow.side();
        if before(flow.snd_max, segment.ack) {
            self.counters[side].rcvacktoomuch += 1;
            flow.set(bit::ACK_NOW);
            self.enqueue(id);
            return false;
        }
        // RFC 5961 5: older than any window that there can have been.
        let behind = distance(segment.ack, flow.snd_una);
        if behind > 0xffff << flow.snd_shift() {
            self.challenge(id);
            return false;
        }
        self.note_timestamp(id, segment);
        if behind > 0 {
            return true;
        }
        if segment.sack_count > 0 && self.flows[id].has(bit::SACK) {
            self.note_sack(id, segment);
        }
        let flow = &mut self.flows[id];
        if flow.has(bit::ECN) && segment.has(flag::CWR) {
            flow.clear(bit::ECE_OWED);
        }
        let window = u32::from(segment.window) << flow.snd_shift();
        let acked = distance(flow.snd_una, segment.ack);
        let was_shut = is_shut_out(flow);
        let is_update = self.note_window(id, segment, window);
        let flow = &mut self.flows[id];
        if acked > 0 {
            if !self.advance(id, segment, acked, payload, app) {
                return false;
            }
        } else if payload == 0
            && !is_update
            && flow.outstanding() > 0
            && segment.flags & (flag::SYN | flag::FIN) == 0
        {
            self.duplicate(id);
        } else if flow.outstanding() == 0 && self.settings.keep_alive_idle_ms > 0 {
            // A sign of life.
            flow.backoff = 0;
            self.rearm(id);
        }
        if segment.has(flag::ECE) && self.flows[id].has(bit::ECN) {
            self.congestion_met(id);
        }
        let flow = &mut self.flows[id];
        if was_shut && !is_shut_out(flow) {
            // The window has opened: what comes is no probe.
            flow.backoff = 0;
            self.rearm(id);
            self.enqueue(id);
        } else if was_shut {
            // The peer lives: it is only slow (RFC 9293 3.8.6.1).
            flow.backoff = flow.backoff.min(self.settings.retries_max / 2);
        }
        let flow = &self.flows[id];
        let pending = before(flow.snd_nxt, flow.snd_end)
            || flow.snd_nxt != flow.snd_max
            || flow.has(bit::RECOVERY)
            || (flow.has(bit::FIN_QUEUED) && !flow.fin_is_sent());
        if (acked > 0 || is_update || flow.dupacks > 0) && pending {
            self.enqueue(id);
        }
        true
    }

    /// RFC 7323 4.3: the timestamp to echo is that of the segment that ends at the last acknowledgement.
    fn note_timestamp(&mut self, id: u32, segment: &Segment) {
        let now_ms = self.now_ms();
        let flow = &mut self.flows[id];
        if let Some((value, _)) = segment.timestamps
            && flow.has(bit::TIMESTAMPS)
            && !before(value, flow.ts_recent)
            && until(segment.seq, flow.rcv_acked)
        {
            (flow.ts_recent, flow.ts_recent_at) = (value, now_ms);
        }
    }

    /// True when the window has changed.
    fn note_window(&mut self, id: u32, segment: &Segment, window: u32) -> bool {
        let flow = &mut self.flows[id];
        let is_later = before(flow.snd_una, segment.ack)
            || before(flow.snd_wl1, segment.seq)
            || (flow.snd_wl1 == segment.seq && window > flow.snd_wnd);
        if !is_later {
            return false;
        }
        let changed = flow.snd_wnd != window;
        flow.snd_wl1 = segment.seq;
        flow.snd_wnd = window;
        let pure = changed && flow.snd_una == segment.ack;
        self.counters[flow.side()].rcvwinupd += u64::from(pure);
        changed
    }

    fn note_sack(&mut self, id: u32, segment: &Segment) {
        let Some(index) = self.loss_of(id) else {
            return;
        };
        let flow = &self.flows[id];
        let loss = &mut self.losses[index];
        let counters = &mut self.counters[flow.side()];
        for (from, to) in segment.sack_blocks() {
            counters.sack_rcv_blocks += 1;
            let floor = later(segment.ack, flow.snd_una);
            // A block below is a duplicate that the peer reports (RFC 2883); one beyond is made up.
            let is_sane = before(*from, *to) && before(floor, *from) && until(*to, flow.snd_max);
            if is_sane && !loss.sacked.insert(*from, *to) {
                counters.sack_sboverflow += 1;
            }
        }
    }

    /// Something new was acknowledged. False when the flow is no more.
    fn advance<A: App>(
        &mut self,
        id: u32,
        segment: &Segment,
        acked: u32,
        payload: u32,
        app: &mut A,
    ) -> bool {
        self.sample_round_trip(id, segment);
        let verdict = self.judge_timeout(id, segment);
        let now_us = self.now_us();
        let control = self.settings.congestion_control;
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        let fin_acked = flow.fin_is_sent() && segment.ack == flow.snd_max;
        let bytes = acked - u32::from(fin_acked);
        counters.rcvackpack += 1;
        counters.rcvackbyte += u64::from(bytes);
        counters.predack += u64::from(payload == 0 && flow.loss == NONE);
        let in_flight = flow.snd_nxt.wrapping_sub(flow.snd_una);
        flow.snd_una = segment.ack;
        flow.snd_off += u64::from(bytes);
        flow.snd_nxt = later(flow.snd_nxt, segment.ack);
        flow.backoff = 0;
        let mut left_recovery = false;
        if flow.loss != NONE {
            let loss = &mut self.losses[flow.loss];
            loss.sacked.forget_before(flow.snd_una);
            loss.high_rxt = later(loss.high_rxt, flow.snd_una);
            // When the next hole was sent again is not known; at the latest just now.
            loss.head_mark = flow.snd_max;
            if flow.has(bit::RECOVERY) {
                if before(flow.snd_una, loss.recover) {
                    // A partial acknowledgement: without SACK, the next hole begins right there (RFC 6582 3.2).
                    if !flow.has(bit::SACK) {
                        loss.high_rxt = flow.snd_una;
                        let gone = acked / u32::from(flow.mss);
                        flow.dupacks = flow.dupacks.saturating_sub(gone.min(255) as u8);
                    }
                } else {
                    flow.clear(bit::RECOVERY);
                    flow.cwnd = flow.ssthresh;
                    left_recovery = true;
                }
            }
        }
        if !flow.has(bit::RECOVERY) {
            flow.dupacks = 0;
            // RFC 7661: a window that was not used says nothing about what the path carries.
            let slow_start = flow.cwnd < flow.ssthresh;
            let used = if slow_start {
                in_flight.saturating_mul(2)
            } else {
                in_flight + u32::from(flow.mss)
            };
            if !left_recovery && used >= flow.cwnd {
                let index = flow.loss;
                let cubic = match control {
                    super::CongestionControl::Cubic if index != NONE => {
                        Some(&mut self.losses[index].cubic)
                    }
                    _ => None,
                };
                let flow = &mut self.flows[id];
                flow.cwnd = congestion::on_acked(flow, bytes, now_us, cubic).min(1 << 30);
            }
        }
        self.settle_timeout(id, verdict);
        self.enter_recovery_if_lost(id);
        let flow = &self.flows[id];
        let offset = flow.snd_off;
        if fin_acked {
            self.fin_acknowledged(id);
        }
        self.rearm(id);
        if bytes > 0 {
            self.tell(id, Event::Acked { offset }, app);
        }
        let flow = &self.flows[id];
        if fin_acked && flow.state == State::LastAck {
            self.end(id, Ended::Orderly, app);
            return false;
        }
        if fin_acked && flow.state == State::TimeWait {
            self.done(id, app);
            return false;
        }
        true
    }

    /// Was the last timeout needed? By timestamps: not when what arrived was sent before it (RFC 3522 3.2). Without
    /// them: not when something arrived that was not sent again (RFC 5682 2.1 and 3.1); to find that out, payload is
    /// sent that was never out.
    fn judge_timeout(&self, id: u32, segment: &Segment) -> Verdict {
        let flow = &self.flows[id];
        if flow.loss == NONE {
            return Verdict::Open;
        }
        let loss = &self.losses[flow.loss];
        let Some(doubt) = &loss.doubt else {
            return Verdict::Open;
        };
        if let Some((_, echo)) = segment.timestamps
            && flow.has(bit::TIMESTAMPS)
        {
            return match echo != 0 && before(echo, doubt.at_ms) {
                true => Verdict::Spurious,
                false => Verdict::Needed,
            };
        }
        let again_until = doubt.again_until.unwrap_or(flow.snd_nxt);
        let to = earlier(segment.ack, doubt.high);
        let from = later(again_until, flow.snd_una);
        let arrived = distance(from, to) > loss.sacked.within(from, to);
        let is_all = !before(segment.ack, doubt.high);
        if doubt.again_until.is_some() {
            return if arrived {
                Verdict::Spurious
            } else {
                Verdict::Needed
            };
        }
        // Without SACK it could have arrived before the timeout, and nobody would have heard.
        if arrived && !is_all && flow.has(bit::SACK) {
            return Verdict::Spurious;
        }
        let edge = segment.ack.wrapping_add(flow.snd_wnd);
        let room = distance(flow.snd_max, earlier(edge, flow.snd_end));
        let is_worth = room >= u32::from(flow.mss) || (room > 0 && !before(edge, flow.snd_end));
        match !is_all && is_worth {
            true => Verdict::Ask,
            false => Verdict::Needed,
        }
    }

    fn settle_timeout(&mut self, id: u32, verdict: Verdict) {
        let flow = &mut self.flows[id];
        if verdict == Verdict::Open {
            return;
        }
        let mss = u32::from(flow.mss);
        let loss = &mut self.losses[flow.loss];
        let Some(mut doubt) = loss.doubt.take() else {
            return;
        };
        match verdict {
            Verdict::Spurious => {
                flow.cwnd = doubt.cwnd;
                flow.ssthresh = doubt.ssthresh;
                loss.cubic = doubt.cubic;
                loss.recover = flow.snd_una;
                flow.snd_nxt = flow.snd_max;
                self.counters[flow.side()].spurious_rtos += 1;
            }
            Verdict::Ask => {
                doubt.again_until = Some(flow.snd_nxt);
                loss.doubt = Some(doubt);
                let sacked = loss.sacked.within(flow.snd_una, flow.snd_max);
                // Two segments, whatever the window says; what it was is known.
                flow.cwnd = flow.outstanding() - sacked + 2 * mss;
                flow.snd_nxt = flow.snd_max;
            }
            Verdict::Needed if doubt.again_until.is_some() => {
                flow.snd_nxt = flow.snd_una;
                flow.cwnd = 3 * mss;
                loss.recover = flow.snd_max;
            }
            Verdict::Needed | Verdict::Open => {}
        }
    }

    fn fin_acknowledged(&mut self, id: u32) {
        let flow = &mut self.flows[id];
        flow.state = match flow.state {
            State::FinWait1 => State::FinWait2,
            State::Closing => State::TimeWait,
            other => other,
        };
    }

    /// TIME-WAIT has begun: the program hears the end, the flow remembers for a while.
    pub(super) fn done<A: App>(&mut self, id: u32, app: &mut A) {
        self.release_loss(id);
        self.rearm(id);
        let flow = &mut self.flows[id];
        flow.delack_at = 0;
        let (user, told) = (flow.user, flow.has(bit::ORPHAN));
        flow.set(bit::ORPHAN);
        self.counters[flow.side()].closed += 1;
        if !told {
            app.event(self, super::FlowId(id), user, Event::Ended(Ended::Orderly));
        }
    }

    /// RFC 6298 2, with the sample in microseconds: of the segment that was timed, or by timestamps when something
    /// was sent again meanwhile.
    pub(super) fn sample_round_trip(&mut self, id: u32, segment: &Segment) {
        let (now_us, now_ms) = (self.now_us(), self.now_ms());
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        let sample = if flow.has(bit::TIMING) {
            if before(segment.ack, flow.rtt_seq) {
                return;
            }
            flow.clear(bit::TIMING);
            counters.segstimed += 1;
            now_us.wrapping_sub(flow.rtt_at)
        } else {
            match segment.timestamps {
                Some((_, echo))
                    if flow.has(bit::TIMESTAMPS)
                        && echo != 0
                        && before(flow.snd_una, segment.ack) =>
                {
                    now_ms.wrapping_sub(echo).min(1 << 20) * 1_000
                }
                _ => return,
            }
        };
        // Eighths and quarters: 60 s at most, so that they fit.
        let sample = sample.clamp(1, 60_000_000);
        counters.rttupdated += 1;
        if flow.srtt == 0 {
            flow.srtt = sample << 3;
            flow.rttvar = sample << 1;
            return;
        }
        let error = (i64::from(sample) - i64::from(flow.srtt >> 3)).unsigned_abs() as u32;
        flow.rttvar = flow.rttvar - (flow.rttvar >> 2) + error;
        flow.srtt = flow.srtt - (flow.srtt >> 3) + sample;
    }

    fn duplicate(&mut self, id: u32) {
        let flow = &mut self.flows[id];
        self.counters[flow.side()].rcvdupack += 1;
        flow.dupacks = flow.dupacks.saturating_add(1);
        if flow.loss != NONE
            && let Some(doubt) = &self.losses[flow.loss].doubt
            && doubt.again_until.is_some()
        {
            // RFC 5682 2.1 step 3a: what was sent beyond the losses arrives without them.
            self.settle_timeout(id, Verdict::Needed);
        }
        self.enter_recovery_if_lost(id);
        self.enqueue(id);
    }

    /// RFC 6675 5 steps 1 to 4; without SACK, RFC 6582 3.2.
    fn enter_recovery_if_lost(&mut self, id: u32) {
        let flow = &self.flows[id];
        let threshold = self.settings.duplicate_threshold;
        let by_count = flow.dupacks >= threshold;
        if flow.has(bit::RECOVERY) || (!by_count && flow.loss == NONE) || flow.outstanding() == 0 {
            return;
        }
        let Some(index) = self.loss_of(id) else {
            return;
        };
        let flow = &mut self.flows[id];
        let loss = &mut self.losses[index];
        let has_sack = flow.has(bit::SACK);
        let by_sack = has_sack && loss.head_is_lost(flow, u32::from(threshold));
        let is_lost = by_sack || (by_count && (!has_sack || !loss.sacked.is_empty()));
        // One reduction a window: not for what was out before the last one (RFC 6582 3.2 step 2).
        if !is_lost || before(flow.snd_una, loss.recover) {
            return;
        }
        congestion::reduce(flow, loss, self.settings.congestion_control);
        flow.snd_nxt = flow.snd_max;
        flow.set(bit::RECOVERY);
        if flow.has(bit::ECN) {
            flow.set(bit::CWR_OWED);
        }
        loss.high_rxt = flow.snd_una;
        self.counters[flow.side()].sack_recovery_episode += 1;
        self.enqueue(id);
    }

    /// RFC 3168 6.1.2: as after a loss, once a window.
    fn congestion_met(&mut self, id: u32) {
        let Some(index) = self.loss_of(id) else {
            return;
        };
        let flow = &mut self.flows[id];
        let loss = &mut self.losses[index];
        if flow.has(bit::RECOVERY) || before(flow.snd_una, loss.recover) || flow.outstanding() == 0
        {
            return;
        }
        congestion::reduce(flow, loss, self.settings.congestion_control);
        flow.set(bit::CWR_OWED);
        self.counters[flow.side()].ecn_rcwnd += 1;
    }
}
