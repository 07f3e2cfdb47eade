//! Deadlines: retransmission (RFC 6298), persist and keep-alive (RFC 1122 4.2.2.17, 4.2.3.6), delayed acknowledgement
//! (RFC 1122 4.2.3.2), FIN-WAIT-2 and TIME-WAIT.
//!
//! A flow has two: one for acknowledgements, and one for whatever its state may wait for. Which of them that is
//! follows from the state when it fires, so nothing has to be kept in step.

use super::flow::{Flow, NONE, State, bit};
use super::loss::Doubt;
use super::seq::before;
use super::wheel::{ticks_of_ms, ticks_of_us};
use super::{App, Ended, Stack, congestion};

/// What the main deadline of a flow stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// An acknowledgement of something sent.
    Retransmit,
    /// A window that opens.
    Persist,
    /// The peer to end its side, nobody being there for its bytes.
    PeersFin,
    /// The end of TIME-WAIT.
    TimeWait,
    /// A sign of life.
    KeepAlive,
}

fn waits(flow: &Flow) -> Waits {
    match flow.state {
        State::TimeWait => Waits::TimeWait,
        State::SynSent | State::SynReceived => Waits::Retransmit,
        _ if is_shut_out(flow) => Waits::Persist,
        _ if flow.outstanding() > 0 => Waits::Retransmit,
        State::FinWait2 if flow.has(bit::ORPHAN) => Waits::PeersFin,
        _ => Waits::KeepAlive,
    }
}

/// There is payload to send, nothing under way but probes, and the peer's window is closed. A FIN alone is simply sent.
pub(super) fn is_shut_out(flow: &Flow) -> bool {
    flow.state.is_synchronized()
        && flow.snd_wnd == 0
        && flow.snd_nxt == flow.snd_una
        && before(flow.snd_nxt, flow.snd_end)
}

impl Stack {
    /// The retransmission timeout of a flow, with its back-off (RFC 6298 2 and 5.5).
    fn rto_ticks(&self, flow: &Flow) -> u32 {
        let settings = &self.settings;
        let us = if flow.srtt == 0 {
            // RFC 6298 5.7: after a lost SYN and no sample, 3 s.
            let lost_syn = flow.has(bit::SYN_LOST) && flow.state.is_synchronized();
            let ms = settings.rto_initial_ms;
            if lost_syn { ms.max(3_000) } else { ms }.saturating_mul(1_000)
        } else {
            let variation = flow.rttvar.max(1 << 10);
            (flow.srtt >> 3).saturating_add(variation)
        };
        let (min, max) = (
            u64::from(settings.rto_min_ms) * 1_000,
            u64::from(settings.rto_max_ms) * 1_000,
        );
        let base = u64::from(us).clamp(min.min(max), max);
        let backed_off = (base << u32::from(flow.backoff.min(20))).min(max);
        ticks_of_us(u32::try_from(backed_off).unwrap_or(u32::MAX))
    }

    /// Restarts the main deadline for something that is under way.
    pub(super) fn restart_retransmit(&mut self, id: u32) {
        let ticks = self.rto_ticks(&self.flows[id]);
        self.set_main(id, ticks);
    }

    /// After a change: what does the main deadline wait for now?
    pub(super) fn rearm(&mut self, id: u32) {
        let flow = &self.flows[id];
        match waits(flow) {
            Waits::Retransmit | Waits::Persist => self.restart_retransmit(id),
            Waits::KeepAlive if self.settings.keep_alive_idle_ms > 0 => {
                self.set_main(id, ticks_of_ms(self.settings.keep_alive_idle_ms));
            }
            Waits::KeepAlive => self.flows[id].main_at = 0,
            Waits::PeersFin => self.await_peers_fin(id),
            Waits::TimeWait => self.set_main(id, ticks_of_ms(self.settings.time_wait_ms)),
        }
    }

    pub(super) fn await_peers_fin(&mut self, id: u32) {
        if self.settings.fin_wait_2_ms > 0 {
            self.set_main(id, ticks_of_ms(self.settings.fin_wait_2_ms));
        }
    }

    pub(super) fn set_main(&mut self, id: u32, ticks: u32) {
        // 0 means none.
        let at = self.tick().wrapping_add(ticks).max(1);
        self.flows[id].main_at = at;
        self.hang(id, at);
    }

    pub(super) fn delay_ack(&mut self, id: u32) {
        if self.flows[id].delack_at == 0 {
            let ticks = ticks_of_ms(self.settings.delayed_ack_ms);
            let at = self.tick().wrapping_add(ticks).max(1);
            self.flows[id].delack_at = at;
            self.hang(id, at);
        }
    }

    /// A deadline that comes before the tick for which the flow hangs moves it; a later one is seen when it fires.
    fn hang(&mut self, id: u32, at: u32) {
        let flow = &self.flows[id];
        if !flow.has(bit::TIMED) || before(at, flow.timer_due) {
            self.wheel.set(self.flows.places(), id, at);
        }
    }

    pub(super) fn run_timers<A: App>(&mut self, app: &mut A) {
        let now = self.tick();
        while let Some(id) = self.wheel.pop(self.flows.places(), now) {
            self.fire(id, now, app);
        }
    }

    fn fire<A: App>(&mut self, id: u32, now: u32, app: &mut A) {
        let has_come = |at: u32| at != 0 && !before(now, at);
        let flow = &mut self.flows[id];
        if has_come(flow.delack_at) {
            flow.delack_at = 0;
            flow.set(bit::ACK_NOW);
            let side = flow.side();
            self.counters[side].delack += 1;
            self.enqueue(id);
        }
        let flow = &mut self.flows[id];
        if has_come(flow.main_at) {
            flow.main_at = 0;
            if !self.main_has_come(id, app) {
                return;
            }
        }
        let flow = &self.flows[id];
        let deadlines = [flow.main_at, flow.delack_at];
        let earliest = deadlines.into_iter().filter(|at| *at != 0);
        if let Some(at) = earliest.reduce(super::seq::earlier) {
            self.hang(id, at);
        }
    }

    /// False when the flow is no more.
    fn main_has_come<A: App>(&mut self, id: u32, app: &mut A) -> bool {
        match waits(&self.flows[id]) {
            Waits::Retransmit => return self.retransmit(id, app),
            Waits::Persist => return self.persist(id, app),
            Waits::KeepAlive if self.settings.keep_alive_idle_ms > 0 => {
                return self.keep_alive(id, app);
            }
            Waits::KeepAlive => {}
            Waits::PeersFin | Waits::TimeWait => {
                self.end(id, Ended::Orderly, app);
                return false;
            }
        }
        true
    }

    fn retransmit<A: App>(&mut self, id: u32, app: &mut A) -> bool {
        let flow = &self.flows[id];
        let side = flow.side();
        let is_syn = !flow.state.is_synchronized();
        let max = if is_syn {
            self.settings.syn_retries_max
        } else {
            self.settings.retries_max
        };
        self.counters[side].rexmttimeo += 1;
        self.counters[side].rexmttimeo_syn += u64::from(is_syn);
        if flow.backoff >= max {
            self.counters[side].timeoutdrop += 1;
            self.end(id, Ended::TimedOut, app);
            return false;
        }
        if is_syn {
            self.flows[id].set(bit::SYN_LOST);
        } else {
            self.fall_back(id);
        }
        let flow = &mut self.flows[id];
        flow.backoff += 1;
        flow.snd_nxt = flow.snd_una;
        flow.dupacks = 0;
        flow.clear(bit::RECOVERY | bit::TIMING);
        self.restart_retransmit(id);
        self.enqueue(id);
        true
    }

    /// RFC 5681 3.1: a timeout leaves one segment and half of what was under way, once for all timeouts in a row.
    /// What was
    /// reported by SACK is passed over when it is sent again, and is no longer trusted after the second (RFC 2018 8:
    /// the peer may have thrown it away).
    fn fall_back(&mut self, id: u32) {
        let index = self.loss_of(id).unwrap_or(NONE);
        let flow = &mut self.flows[id];
        let control = self.settings.congestion_control;
        let (out, mss) = (flow.outstanding(), u32::from(flow.mss));
        let now_ms = (self.now_ns / 1_000_000) as u32;
        if index == NONE {
            flow.ssthresh = congestion::after_loss(flow, out, control, None);
            flow.cwnd = mss;
            return;
        }
        let loss = &mut self.losses[index];
        // Not in a recovery, whose own losses are no question, and not twice for what is out (RFC 5682 2.1 step 1).
        let is_first = flow.backoff == 0 && loss.doubt.is_none();
        let in_recovery = flow.has(bit::RECOVERY) || before(flow.snd_una, loss.recover);
        loss.doubt = (is_first && !in_recovery).then_some(Doubt {
            at_ms: now_ms,
            high: flow.snd_max,
            again_until: None,
            cwnd: flow.cwnd,
            ssthresh: flow.ssthresh,
            cubic: loss.cubic,
        });
        if flow.backoff == 0 {
            flow.ssthresh = congestion::after_loss(flow, out, control, Some(&mut loss.cubic));
        } else {
            loss.sacked.clear();
        }
        flow.cwnd = mss;
        loss.recover = flow.snd_max;
        loss.high_rxt = flow.snd_una;
    }

    fn persist<A: App>(&mut self, id: u32, app: &mut A) -> bool {
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        counters.persisttimeo += 1;
        if flow.backoff >= self.settings.retries_max {
            counters.persistdrop += 1;
            self.end(id, Ended::TimedOut, app);
            return false;
        }
        flow.backoff += 1;
        flow.set(bit::PROBE);
        self.restart_retransmit(id);
        self.enqueue(id);
        true
    }

    fn keep_alive<A: App>(&mut self, id: u32, app: &mut A) -> bool {
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        counters.keeptimeo += 1;
        if flow.backoff >= self.settings.keep_alive_probes_max {
            counters.keepdrops += 1;
            self.end(id, Ended::TimedOut, app);
            return false;
        }
        flow.backoff += 1;
        flow.set(bit::PROBE);
        self.set_main(id, ticks_of_ms(self.settings.keep_alive_interval_ms));
        self.enqueue(id);
        true
    }
}
