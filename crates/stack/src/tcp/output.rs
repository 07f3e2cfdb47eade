//! What may be sent now, into a device: SYN and its repetitions, payload new and lost, FIN, acknowledgements, probes,
//! RST.
//!
//! A flow that has something to say stands in a line; its turn sends all that windows allow, in super-segments where
//! the device cuts them. When the device is full the flow stays at the head of the line.

use super::flow::{Flow, NONE, State, bit};
use super::seq::{before, distance, earlier, later};
use super::timers::is_shut_out;
use super::{App, CLIENT, FlowId, Stack, Way};
use crate::device::Device;
use crate::frame::{PartialChecksum, TxMeta};
use crate::wire::tcp::{CHECKSUM_AT, Segment, flag};
use crate::wire::{checksum, ipv4, ipv6, tcp};
use std::io;
use std::net::IpAddr;

/// Length of an Ethernet header.
pub(super) const ETHERNET_BYTES: usize = 14;
/// Explicit congestion notification: this packet's flow understands it (RFC 3168 5).
const ECT0: u8 = 0b10;

/// A segment to somebody who has no flow here.
#[derive(Clone, Copy, Debug)]
pub(super) struct StraySegment {
    pub local: IpAddr,
    pub remote: IpAddr,
    pub mac: [u8; 6],
    pub segment: Segment,
}

/// A piece of the stream to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    seq: u32,
    len: u32,
    fin: bool,
    /// A hole that is filled in recovery: `snd_nxt` stays where it is.
    fills_hole: bool,
}

/// Who a packet is from and to.
#[derive(Clone, Copy)]
struct Envelope {
    local: IpAddr,
    remote: IpAddr,
    mac: [u8; 6],
    traffic_class: u8,
}

fn ip_header_bytes(ip: &IpAddr) -> usize {
    if ip.is_ipv4() {
        ipv4::HEADER_BYTES
    } else {
        ipv6::HEADER_BYTES
    }
}

impl Stack {
    /// Sends all there is; false when the device was full.
    pub(super) fn send_all<D: Device + ?Sized, A: App>(
        &mut self,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        while let Some(stray) = self.strays.front().copied() {
            let envelope = Envelope {
                local: stray.local,
                remote: stray.remote,
                mac: stray.mac,
                traffic_class: self.settings.traffic_class,
            };
            if !self.transmit(device, envelope, &stray.segment, 0, 0, &mut |_| {})? {
                self.counters[CLIENT].tx_ring_full += 1;
                return Ok(false);
            }
            self.strays.pop_front();
        }
        while let Some(&id) = self.line.front() {
            if !self.send_flow(id, device, app)? {
                let side = self.flows[id].side();
                self.counters[side].tx_ring_full += 1;
                return Ok(false);
            }
            self.line.pop_front();
        }
        Ok(true)
    }

    /// False when the device was full.
    fn send_flow<D: Device + ?Sized, A: App>(
        &mut self,
        id: u32,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        let flow = &self.flows[id];
        // It may have ended while it stood in line.
        if flow.state == State::Closed || !flow.has(bit::QUEUED) {
            return Ok(true);
        }
        let remote = &mut self.addresses.remotes[flow.remote];
        let Way::Via(mac) = remote.way else {
            if !remote.is_asked {
                remote.is_asked = true;
                self.unresolved.push(remote.ip);
            }
            let aborted = flow.has(bit::ABORT);
            self.flows[id].clear(bit::QUEUED);
            if aborted {
                self.forget_aborted(id);
            }
            return Ok(true);
        };
        let envelope = Envelope {
            local: self.addresses.locals[flow.local as usize],
            remote: remote.ip,
            mac,
            traffic_class: self.settings.traffic_class,
        };
        let sent = if flow.has(bit::ABORT) {
            self.send_reset(id, envelope, device)?
        } else if !flow.state.is_synchronized() {
            self.send_syn(id, envelope, device)?
        } else {
            self.send_stream(id, envelope, device, app)?
        };
        if sent && self.flows[id].state != State::Closed {
            self.flows[id].clear(bit::QUEUED);
        }
        Ok(sent)
    }

    fn forget_aborted(&mut self, id: u32) {
        let flow = &self.flows[id];
        let counters = &mut self.counters[flow.side()];
        if flow.state.is_synchronized() {
            counters.closed += u64::from(flow.state != State::TimeWait);
        } else {
            counters.conndrops += 1;
        }
        self.release(id);
    }

    fn send_reset<D: Device + ?Sized>(
        &mut self,
        id: u32,
        envelope: Envelope,
        device: &mut D,
    ) -> io::Result<bool> {
        let flow = &self.flows[id];
        if flow.state == State::TimeWait {
            // Both sides have closed; the peer may still wait for the acknowledgement of its FIN.
            if flow.has(bit::ACK_NOW) {
                let seq = flow.snd_nxt;
                if !self.send_ack(id, envelope, device, seq)? {
                    return Ok(false);
                }
            }
        } else if flow.state != State::SynSent || (self.ends && flow.snd_max != flow.snd_una) {
            // What was sent at most: `snd_nxt` goes back after a timeout, and a peer that has more would not
            // believe it.
            let knows_peer = flow.state != State::SynSent;
            let segment = Segment {
                source_port: flow.local_port,
                destination_port: flow.remote_port,
                seq: flow.snd_max,
                ack: if knows_peer { flow.rcv_nxt } else { 0 },
                flags: flag::RST | if knows_peer { flag::ACK } else { 0 },
                ..Segment::default()
            };
            let side = flow.side();
            if !self.transmit(device, envelope, &segment, 0, 0, &mut |_| {})? {
                return Ok(false);
            }
            let counters = &mut self.counters[side];
            counters.rst_sent += 1;
            counters.sndctrl += 1;
            counters.sndtotal += 1;
        }
        self.forget_aborted(id);
        Ok(true)
    }

    /// The largest segment that we take: of the setting, or what the link carries.
    pub(super) fn own_mss(&self, local: &IpAddr) -> u16 {
        let headers = ip_header_bytes(local) + tcp::HEADER_BYTES;
        let link = self.link.mtu.saturating_sub(headers) as u16;
        match self.settings.mss_bytes {
            0 => link,
            set => set.min(link),
        }
    }

    fn send_syn<D: Device + ?Sized>(
        &mut self,
        id: u32,
        envelope: Envelope,
        device: &mut D,
    ) -> io::Result<bool> {
        let now_ms = self.now_ms();
        let own_mss = self.own_mss(&envelope.local);
        let flow = &self.flows[id];
        if flow.snd_nxt != flow.snd_una {
            // It is out. In SYN-RECEIVED an acknowledgement may be due (RFC 9293 3.10.7.4).
            return if flow.state == State::SynReceived && flow.has(bit::ACK_NOW) {
                self.send_ack(id, envelope, device, flow.snd_nxt)
            } else {
                self.flows[id].clear(bit::ACK_NOW);
                Ok(true)
            };
        }
        let answers = flow.state == State::SynReceived;
        let settings = &self.settings;
        let agreed = |ours: bool, bit: u16| if answers { flow.has(bit) } else { ours };
        let ecn = match (answers, agreed(settings.ecn, bit::ECN)) {
            (true, true) => flag::ECE,
            // RFC 3168 6.1.1: a SYN that is sent again may go without.
            (false, true) if !flow.has(bit::SYN_LOST) => flag::ECE | flag::CWR,
            _ => 0,
        };
        let scales = if answers {
            flow.shifts != 0
        } else {
            settings.window_scaling
        };
        let window = flow.rcv_wnd.min(0xffff);
        let segment = Segment {
            source_port: flow.local_port,
            destination_port: flow.remote_port,
            seq: flow.snd_una,
            ack: if answers { flow.rcv_nxt } else { 0 },
            flags: flag::SYN | ecn | if answers { flag::ACK } else { 0 },
            window: window as u16,
            mss: own_mss,
            window_scale: scales.then(|| settings.window_shift()),
            timestamps: agreed(settings.timestamps, bit::TIMESTAMPS)
                .then_some((now_ms, flow.ts_recent)),
            sack_permitted: agreed(settings.sack, bit::SACK),
            ..Segment::default()
        };
        if !self.transmit(device, envelope, &segment, 0, 0, &mut |_| {})? {
            return Ok(false);
        }
        let now_us = self.now_us();
        let flow = &mut self.flows[id];
        let counters = &mut self.counters[flow.side()];
        counters.sndctrl += 1;
        counters.sndtotal += 1;
        let again = flow.snd_max != flow.snd_una;
        counters.sndrexmitpack += u64::from(again);
        flow.snd_nxt = flow.snd_una.wrapping_add(1);
        flow.snd_max = flow.snd_nxt;
        flow.clear(bit::ACK_NOW);
        if again {
            flow.clear(bit::TIMING);
        } else {
            (flow.rtt_seq, flow.rtt_at) = (flow.snd_max, now_us);
            flow.set(bit::TIMING);
        }
        if answers {
            flow.rcv_adv = flow.rcv_nxt.wrapping_add(window);
            flow.rcv_acked = flow.rcv_nxt;
        }
        if flow.main_at == 0 {
            self.restart_retransmit(id);
        }
        Ok(true)
    }

    fn send_stream<D: Device + ?Sized, A: App>(
        &mut self,
        id: u32,
        envelope: Envelope,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        if self.flows[id].has(bit::PROBE) && !self.send_probe(id, envelope, device, app)? {
            return Ok(false);
        }
        self.restart_when_idle(id);
        while let Some(piece) = self.next_piece(id, &envelope) {
            if !self.send_piece(id, piece, envelope, device, app)? {
                return Ok(false);
            }
        }
        let flow = &self.flows[id];
        if flow.has(bit::ACK_NOW) {
            let seq = flow.snd_nxt;
            if !self.send_ack(id, envelope, device, seq)? {
                return Ok(false);
            }
        }
        let flow = &self.flows[id];
        if flow.main_at == 0 && is_shut_out(flow) {
            self.restart_retransmit(id);
        }
        Ok(true)
    }

    /// RFC 5681 4.1: after a pause of a retransmission timeout the window is what a connection begins with.
    fn restart_when_idle(&mut self, id: u32) {
        let initial = self.settings.initial_window_segments;
        let rto = self.settings.rto_min_ms.saturating_mul(1_000);
        let now_us = self.now_us();
        let flow = &mut self.flows[id];
        let idle_us = now_us.wrapping_sub(flow.rtt_at);
        let timeout = rto.max((flow.srtt >> 3) + flow.rttvar);
        if flow.outstanding() == 0 && before(flow.snd_nxt, flow.snd_end) && idle_us > timeout {
            flow.cwnd = flow
                .cwnd
                .min(super::congestion::initial_window(flow.mss, initial));
        }
    }

    /// Payload of a segment to this peer now: what was agreed on, what the path carries, without room for options.
    fn segment_payload(&self, flow: &Flow, envelope: &Envelope) -> u32 {
        let mut mss = u32::from(flow.mss);
        let path = self.addresses.remotes[flow.remote].path_mtu;
        if path > 0 {
            let stamps = if flow.has(bit::TIMESTAMPS) { 12 } else { 0 };
            let headers = ip_header_bytes(&envelope.local) + tcp::HEADER_BYTES + stamps;
            mss = mss
                .min(u32::from(path).saturating_sub(headers as u32))
                .max(64);
        }
        mss - self.sack_option_bytes(flow) as u32
    }

    fn sack_option_bytes(&self, flow: &Flow) -> usize {
        if flow.loss == NONE || !flow.has(bit::SACK) {
            return 0;
        }
        match self.sack_count(flow) {
            0 => 0,
            count => 4 + 8 * count,
        }
    }

    fn sack_count(&self, flow: &Flow) -> usize {
        let room = if flow.has(bit::TIMESTAMPS) { 3 } else { 4 };
        self.losses[flow.loss].out_of_order.all().len().min(room)
    }

    /// The next piece that may be sent; `None` when there is none or a window is closed.
    fn next_piece(&self, id: u32, envelope: &Envelope) -> Option<Piece> {
        let flow = &self.flows[id];
        let mss = self.segment_payload(flow, envelope);
        let payload_max = self.super_segment(mss, envelope);
        if flow.has(bit::RECOVERY) {
            return self.next_in_recovery(flow, mss, payload_max);
        }
        // What the peer reported by SACK is passed over when all is sent again after a timeout.
        let (mut seq, mut limit, mut sacked_below) = (flow.snd_nxt, flow.snd_end, 0);
        if flow.loss != NONE && !self.losses[flow.loss].sacked.is_empty() {
            let sacked = &self.losses[flow.loss].sacked;
            if let Some((_, end)) = sacked.holding(seq) {
                seq = end;
            }
            if let Some((begin, _)) = sacked.after(seq) {
                limit = earlier(limit, begin);
            }
            let below = sacked.all().iter().filter(|(a, _)| before(*a, seq));
            sacked_below = below.map(|(a, b)| b.wrapping_sub(*a)).sum();
        }
        let in_flight = distance(flow.snd_una, seq).saturating_sub(sacked_below);
        self.new_piece(flow, seq, limit, in_flight, mss, payload_max)
    }

    /// How much payload one frame may carry: a multiple of the segment's.
    fn super_segment(&self, mss: u32, envelope: &Envelope) -> u32 {
        if !self.link.segments {
            return mss;
        }
        let headers = ETHERNET_BYTES + ip_header_bytes(&envelope.local) + 60;
        let most = self.link.frame_max.min(0xffff).saturating_sub(headers) as u32;
        (most / mss * mss).max(mss)
    }

    fn new_piece(
        &self,
        flow: &Flow,
        seq: u32,
        limit: u32,
        in_flight: u32,
        mss: u32,
        payload_max: u32,
    ) -> Option<Piece> {
        let data = distance(seq, limit);
        let at_end = limit == flow.snd_end;
        let window = distance(seq, flow.snd_una.wrapping_add(flow.snd_wnd));
        // Limited transmit (RFC 3042): the first two duplicate acknowledgements let a new segment go each.
        let limited = if flow.has(bit::SACK) {
            0
        } else {
            u32::from(flow.dupacks.min(2)) * mss
        };
        let congestion = (flow.cwnd + limited).saturating_sub(in_flight);
        let room = window.min(congestion);
        let fin_due = flow.has(bit::FIN_QUEUED) && at_end;
        if data == 0 {
            let is_out = seq != flow.snd_end;
            let may = window > 0 || in_flight == 0;
            return (fin_due && !is_out && may).then_some(Piece {
                seq,
                len: 0,
                fin: true,
                fills_hole: false,
            });
        }
        let mut len = data.min(room).min(payload_max);
        let is_all = len == data;
        if !is_all && len >= mss {
            len -= len % mss;
        } else if (!is_all && at_end && in_flight > 0) || len == 0 {
            // Silly window avoidance (RFC 1122 4.2.3.4): wait for room for a segment while others are under way.
            return None;
        } else if is_all && at_end && self.settings.nagle && !fin_due && in_flight > 0 {
            // Nagle: the last part of a segment waits.
            len -= len % mss;
            if len == 0 {
                return None;
            }
        }
        let fin = fin_due && len == data;
        Some(Piece {
            seq,
            len,
            fin,
            fills_hole: false,
        })
    }

    fn next_in_recovery(&self, flow: &Flow, mss: u32, payload_max: u32) -> Option<Piece> {
        let threshold = u32::from(self.settings.duplicate_threshold);
        let loss = &self.losses[flow.loss];
        let has_sack = flow.has(bit::SACK);
        let pipe = if has_sack {
            loss.pipe(flow, threshold)
        } else {
            // Each duplicate acknowledgement is a segment that has left the network (RFC 6582).
            let left = u32::from(flow.dupacks).saturating_mul(mss);
            let again = distance(flow.snd_una, loss.high_rxt);
            flow.outstanding().saturating_sub(left + mss) + again
        };
        let room = flow.cwnd.saturating_sub(pipe);
        if has_sack && loss.head_is_lost_again(flow, threshold) {
            let to = loss
                .sacked
                .after(flow.snd_una)
                .map_or(flow.snd_end, |(from, _)| from);
            let len = distance(flow.snd_una, earlier(to, flow.snd_end)).min(mss);
            if len > 0 {
                return Some(Piece {
                    seq: flow.snd_una,
                    len,
                    fin: false,
                    fills_hole: true,
                });
            }
        }
        // The first hole goes whatever the window says (RFC 6675 5 step 4.3).
        let is_first = loss.high_rxt == flow.snd_una;
        let hole = if has_sack {
            loss.next_hole(flow, threshold)
        } else {
            is_first.then_some(super::loss::Hole {
                from: flow.snd_una,
                to: flow.snd_max,
            })
        };
        if let Some(hole) = hole {
            if room < mss && !is_first {
                return None;
            }
            let data = distance(hole.from, earlier(hole.to, flow.snd_end));
            let most = if has_sack {
                payload_max.min((room / mss).max(1) * mss)
            } else {
                mss
            };
            let len = data.min(most);
            let fin = flow.fin_is_sent() && hole.from.wrapping_add(len) == flow.snd_end;
            return (len > 0 || fin).then_some(Piece {
                seq: hole.from,
                len,
                fin,
                fills_hole: true,
            });
        }
        if room < mss {
            return None;
        }
        let in_flight = flow.cwnd - room;
        let piece = self.new_piece(
            flow,
            flow.snd_nxt,
            flow.snd_end,
            in_flight,
            mss,
            payload_max,
        );
        // RFC 6675 4 NextSeg rule 3: without new payload, what lies below something that has arrived.
        piece.or_else(|| {
            let from = later(loss.high_rxt, flow.snd_una);
            let from = loss.sacked.holding(from).map_or(from, |(_, end)| end);
            let (to, _) = loss.sacked.after(from).filter(|_| has_sack)?;
            let len = distance(from, to).min(mss);
            Some(Piece {
                seq: from,
                len,
                fin: false,
                fills_hole: true,
            })
        })
    }

    /// Acknowledgement, window, timestamps and SACK blocks of a segment of this flow.
    fn fields(&self, flow: &Flow, seq: u32, flags: u8) -> Segment {
        let shift = flow.rcv_shift();
        let wanted = later(flow.rcv_adv, flow.rcv_nxt.wrapping_add(flow.rcv_wnd));
        let window = (distance(flow.rcv_nxt, wanted) >> shift).min(0xffff);
        let ece = if flow.has(bit::ECE_OWED) {
            flag::ECE
        } else {
            0
        };
        let mut segment = Segment {
            source_port: flow.local_port,
            destination_port: flow.remote_port,
            seq,
            ack: flow.rcv_nxt,
            flags: flags | flag::ACK | ece,
            window: window as u16,
            timestamps: flow
                .has(bit::TIMESTAMPS)
                .then(|| (self.now_ms(), flow.ts_recent)),
            ..Segment::default()
        };
        if flow.loss != NONE && flow.has(bit::SACK) {
            self.fill_sack(flow, &mut segment);
        }
        segment
    }

    /// RFC 2018 4: the range of the latest segment first, then its neighbours upwards and around.
    fn fill_sack(&self, flow: &Flow, segment: &mut Segment) {
        let loss = &self.losses[flow.loss];
        let all = loss.out_of_order.all();
        let count = self.sack_count(flow);
        let latest = all
            .iter()
            .position(|(_, b)| before(loss.latest, *b))
            .unwrap_or(0);
        let turned = all.iter().cycle().skip(latest).take(count);
        for (place, edges) in segment.sack.iter_mut().zip(turned) {
            *place = *edges;
        }
        segment.sack_count = count as u8;
    }

    /// What a segment with an acknowledgement settles.
    fn on_ack_sent(&mut self, id: u32, segment: &Segment) {
        let flow = &mut self.flows[id];
        let edge = flow
            .rcv_nxt
            .wrapping_add(u32::from(segment.window) << flow.rcv_shift());
        flow.rcv_adv = later(flow.rcv_adv, edge);
        flow.rcv_acked = flow.rcv_nxt;
        flow.delack_at = 0;
        flow.clear(bit::ACK_NOW);
        let counters = &mut self.counters[flow.side()];
        counters.sack_send_blocks += u64::from(segment.sack_count);
    }

    fn send_ack<D: Device + ?Sized>(
        &mut self,
        id: u32,
        envelope: Envelope,
        device: &mut D,
        seq: u32,
    ) -> io::Result<bool> {
        let flow = &self.flows[id];
        let side = flow.side();
        let segment = self.fields(flow, seq, 0);
        if !self.transmit(device, envelope, &segment, 0, 0, &mut |_| {})? {
            return Ok(false);
        }
        self.counters[side].sndacks += 1;
        self.counters[side].sndtotal += 1;
        self.on_ack_sent(id, &segment);
        Ok(true)
    }

    fn send_piece<D: Device + ?Sized, A: App>(
        &mut self,
        id: u32,
        piece: Piece,
        mut envelope: Envelope,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        let now_us = self.now_us();
        let flow = &self.flows[id];
        let mss = self.segment_payload(flow, &envelope);
        let (user, side) = (flow.user, flow.side());
        let end = piece.seq.wrapping_add(piece.len);
        let is_new = !before(piece.seq, flow.snd_max);
        let mut flags = 0;
        if piece.fin {
            flags |= flag::FIN;
        }
        if end == flow.snd_end && piece.len > 0 {
            flags |= flag::PSH;
        }
        if flow.has(bit::ECN) && is_new && piece.len > 0 {
            envelope.traffic_class |= ECT0;
            if flow.has(bit::CWR_OWED) {
                flags |= flag::CWR;
            }
        }
        let segment = self.fields(flow, piece.seq, flags);
        let offset = flow.snd_off + u64::from(distance(flow.snd_una, piece.seq));
        let cut = if piece.len > mss { mss as u16 } else { 0 };
        let mut pull = |into: &mut [u8]| app.pull(FlowId(id), user, offset, into);
        if !self.transmit(
            device,
            envelope,
            &segment,
            piece.len as usize,
            cut,
            &mut pull,
        )? {
            return Ok(false);
        }
        self.on_ack_sent(id, &segment);
        let packets = u64::from(piece.len.div_ceil(mss).max(1));
        let bytes = u64::from(piece.len);
        let counters = &mut self.counters[side];
        counters.sndtotal += packets;
        counters.sndctrl += u64::from(piece.fin);
        if is_new {
            counters.sndpack += if piece.len > 0 { packets } else { 0 };
            counters.sndbyte_ok += bytes;
        } else {
            counters.sndrexmitpack += packets;
            counters.sndrexmitbyte += bytes;
        }
        if piece.fills_hole {
            counters.sack_rexmits += packets;
            counters.sack_rexmit_bytes += bytes;
        }
        self.on_piece_sent(id, piece, is_new, flags, now_us);
        Ok(true)
    }

    fn on_piece_sent(&mut self, id: u32, piece: Piece, is_new: bool, flags: u8, now_us: u32) {
        let flow = &mut self.flows[id];
        let next = piece.seq.wrapping_add(piece.len + u32::from(piece.fin));
        if piece.fills_hole {
            let loss = &mut self.losses[flow.loss];
            loss.high_rxt = later(loss.high_rxt, next);
            if piece.seq == flow.snd_una {
                loss.head_mark = flow.snd_max;
            }
        } else {
            flow.snd_nxt = next;
        }
        flow.snd_max = later(flow.snd_max, next);
        if flags & flag::CWR != 0 {
            flow.clear(bit::CWR_OWED);
        }
        if !is_new {
            // Karn: an acknowledgement could be of either (RFC 6298 3).
            flow.clear(bit::TIMING);
        } else if !flow.has(bit::TIMING) {
            (flow.rtt_seq, flow.rtt_at) = (next, now_us);
            flow.set(bit::TIMING);
        }
        // RFC 6298 5.1; and a hole that is filled begins anew, as its acknowledgement is a round trip away.
        if flow.main_at == 0 || piece.fills_hole || self.settings.keep_alive_idle_ms > 0 && is_new {
            self.restart_retransmit(id);
        }
    }

    /// A byte beyond a closed window (RFC 9293 3.8.6.1), or a number that has been acknowledged (RFC 1122 4.2.3.6).
    fn send_probe<D: Device + ?Sized, A: App>(
        &mut self,
        id: u32,
        envelope: Envelope,
        device: &mut D,
        app: &mut A,
    ) -> io::Result<bool> {
        let flow = &self.flows[id];
        let (user, offset, side) = (flow.user, flow.snd_off, flow.side());
        let shut_out = is_shut_out(flow);
        let len = u32::from(shut_out && flow.snd_una != flow.snd_end);
        let fin = if shut_out && len == 0 { flag::FIN } else { 0 };
        let seq = if shut_out {
            flow.snd_una
        } else {
            flow.snd_una.wrapping_sub(1)
        };
        let segment = self.fields(flow, seq, fin);
        let mut pull = |into: &mut [u8]| app.pull(FlowId(id), user, offset, into);
        if !self.transmit(device, envelope, &segment, len as usize, 0, &mut pull)? {
            return Ok(false);
        }
        let counters = &mut self.counters[side];
        counters.sndtotal += 1;
        if shut_out {
            counters.sndprobe += 1;
        } else {
            counters.keepprobe += 1;
        }
        self.on_ack_sent(id, &segment);
        let flow = &mut self.flows[id];
        flow.clear(bit::PROBE);
        if shut_out {
            let next = flow.snd_una.wrapping_add(1);
            flow.snd_max = later(flow.snd_max, next);
        }
        Ok(true)
    }

    /// Writes a frame into the device; false when it is full.
    fn transmit<D: Device + ?Sized>(
        &mut self,
        device: &mut D,
        to: Envelope,
        segment: &Segment,
        payload: usize,
        cut: u16,
        pull: &mut dyn FnMut(&mut [u8]),
    ) -> io::Result<bool> {
        let link = self.link;
        let hop_limit = self.settings.hop_limit;
        let ip_bytes = ip_header_bytes(&to.local);
        let tcp_bytes = segment.header_bytes();
        let (tcp_at, headers) = (
            ETHERNET_BYTES + ip_bytes,
            ETHERNET_BYTES + ip_bytes + tcp_bytes,
        );
        let len = headers + payload;
        device.transmit(len, &mut |frame| {
            let frame = &mut frame[..len];
            frame[..6].copy_from_slice(&to.mac);
            frame[6..12].copy_from_slice(&link.mac);
            let tcp_len = tcp_bytes + payload;
            let pseudo = write_ip(&mut frame[12..], &to, hop_limit, tcp_len);
            tcp::write(&mut frame[tcp_at..], segment);
            if payload > 0 {
                pull(&mut frame[headers..]);
            }
            let (field, checksum) = if link.checksums {
                let partial = PartialChecksum {
                    start: tcp_at as u16,
                    offset: CHECKSUM_AT as u16,
                };
                (pseudo.partial(), Some(partial))
            } else {
                (pseudo.bytes(&frame[tcp_at..]).finish(), None)
            };
            let at = tcp_at + CHECKSUM_AT;
            frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
            let meta = TxMeta {
                checksum,
                segment_bytes: cut,
                header_bytes: headers as u16,
                is_ipv6: to.local.is_ipv6(),
            };
            Some((len, meta))
        })
    }
}

/// Writes EtherType and IP header; returns the sum of the pseudo header.
fn write_ip(into: &mut [u8], to: &Envelope, hop_limit: u8, tcp_len: usize) -> checksum::Sum {
    match (to.local, to.remote) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            into[..2].copy_from_slice(&[0x08, 0x00]);
            if let Some(header) = into[2..].first_chunk_mut() {
                ipv4::write(
                    header,
                    local,
                    remote,
                    tcp::PROTOCOL,
                    to.traffic_class,
                    hop_limit,
                    tcp_len,
                );
            }
            checksum::pseudo_v4(local, remote, tcp::PROTOCOL, tcp_len)
        }
        (local, remote) => {
            let v6 = |ip: IpAddr| match ip {
                IpAddr::V6(ip) => ip,
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            };
            let (local, remote) = (v6(local), v6(remote));
            into[..2].copy_from_slice(&[0x86, 0xdd]);
            if let Some(header) = into[2..].first_chunk_mut() {
                ipv6::write(
                    header,
                    &local,
                    &remote,
                    tcp::PROTOCOL,
                    to.traffic_class,
                    hop_limit,
                    tcp_len,
                );
            }
            checksum::pseudo_v6(&local, &remote, tcp::PROTOCOL, tcp_len)
        }
    }
}
