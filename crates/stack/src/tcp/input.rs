//! A frame to its flow: headers, checksums, the tuple, and what RFC 9293 3.10.7 asks for in each state.

use super::flow::{State, bit};
use super::output::{ETHERNET_BYTES, StraySegment};
use super::payload::Payload;
use super::seq::{before, distance, later, until};
use super::settings::Stray;
use super::{
    App, CLIENT, Ended, Event, Input, SERVER, STRAYS_MAX, Stack, Way, begin_at, congestion,
};
use crate::frame::{Checksum, Frame};
use crate::wire::checksum::Sum;
use crate::wire::tcp::{self, Segment, flag};
use crate::wire::{ethernet, ip, ipv4};
use std::net::{IpAddr, SocketAddr};

/// A segment's way here.
#[derive(Clone, Copy)]
struct Arrival {
    local: IpAddr,
    remote: IpAddr,
    /// Link address of whoever sent the frame.
    mac: [u8; 6],
    /// The two bits of ECN.
    ecn: u8,
}

/// An IP packet with TCP in it: who, where TCP begins, and how long it is.
struct Packet {
    arrival: Arrival,
    tcp_at: usize,
    tcp_bytes: usize,
}

impl Packet {
    /// The sum of the pseudo header.
    fn pseudo(&self) -> Sum {
        let Arrival { local, remote, .. } = self.arrival;
        ip::pseudo(remote, local, tcp::PROTOCOL, self.tcp_bytes)
    }
}

impl Stack {
    /// Takes a frame. What the program hears of it, it hears before this returns; what is to be sent goes out
    /// with the next [`Stack::poll`].
    pub fn input<A: App>(&mut self, now_ns: u64, frame: Frame<'_>, app: &mut A) -> Input {
        self.now_ns = self.now_ns.max(now_ns);
        let Some(packet) = self.read_packet(&frame) else {
            return Input::Foreign;
        };
        let Some(packet) = packet else {
            return Input::Taken;
        };
        let head_end = frame.head.len().min(packet.tcp_at + packet.tcp_bytes);
        let bytes = &frame.head[packet.tcp_at..head_end];
        let counters = &mut self.counters[CLIENT];
        let Some((segment, header)) = tcp::read(bytes) else {
            counters.rcvbadoff += 1;
            return Input::Taken;
        };
        if frame.len() < packet.tcp_at + packet.tcp_bytes {
            counters.rcvshort += 1;
            return Input::Taken;
        }
        if frame.meta.segment_bytes > 0 {
            counters.rcvoffloads += 1;
        }
        match frame.meta.checksum {
            Checksum::Valid => {}
            Checksum::Partial => counters.csum_partial += 1,
            Checksum::Unknown => {
                let field =
                    u16::from_be_bytes([bytes[tcp::CHECKSUM_AT], bytes[tcp::CHECKSUM_AT + 1]]);
                if sum_of(&frame, &packet).finish() != 0 {
                    // Kernels on this host leave the sum of the pseudo header to a device that is none.
                    if field != packet.pseudo().partial() {
                        counters.rcvbadsum += 1;
                        return Input::Taken;
                    }
                    counters.csum_partial += 1;
                }
            }
        }
        let payload = Payload {
            head: &bytes[header..],
            rest: frame.rest,
            len: (packet.tcp_bytes - header) as u32,
        };
        self.segment(packet.arrival, segment, payload, app);
        Input::Taken
    }

    /// `None`: not for us or not TCP. `Some(None)`: for us, and nothing to be done with.
    fn read_packet(&mut self, frame: &Frame<'_>) -> Option<Option<Packet>> {
        let bytes = frame.head;
        let link: &[u8; ETHERNET_BYTES] = bytes.first_chunk()?;
        if link[..6] != self.link.mac {
            return None;
        }
        let mut mac = [0; 6];
        mac.copy_from_slice(&link[6..12]);
        let bytes = &bytes[ETHERNET_BYTES..];
        let unverified = frame.meta.checksum == Checksum::Unknown;
        let header: ip::Header = match u16::from_be_bytes([link[12], link[13]]) {
            ethernet::IPV4 => {
                let header = ipv4::read(bytes).filter(|ip| ip.protocol == tcp::PROTOCOL)?;
                if unverified && !ipv4::is_sum_right(bytes, &header) {
                    self.counters[CLIENT].err_l3_cs += 1;
                    return Some(None);
                }
                header.into()
            }
            ether_type => ip::read(ether_type, bytes).filter(|ip| ip.protocol == tcp::PROTOCOL)?,
        };
        let (local, remote, at) = (header.destination, header.source, header.header_bytes);
        self.addresses.local(&local)?;
        if header.is_fragment {
            self.counters[CLIENT].err_fragments_drop += 1;
            return Some(None);
        }
        if at > bytes.len() {
            self.counters[CLIENT].rcvshort += 1;
            return Some(None);
        }
        Some(Some(Packet {
            arrival: Arrival {
                local,
                remote,
                mac,
                ecn: header.traffic_class & 3,
            },
            tcp_at: ETHERNET_BYTES + at,
            tcp_bytes: header.total_bytes - at,
        }))
    }

    fn segment<A: App>(
        &mut self,
        from: Arrival,
        segment: Segment,
        payload: Payload<'_>,
        app: &mut A,
    ) {
        let (local_port, remote_port) = (segment.destination_port, segment.source_port);
        let hash = self.hash(from.local, local_port, from.remote, remote_port);
        let found = self.find(hash, from.local, local_port, from.remote, remote_port);
        let Some(id) = found else {
            return self.without_flow(from, hash, &segment, &payload);
        };
        let flow = &self.flows[id];
        let counters = &mut self.counters[flow.side()];
        counters.rcvtotal += 1;
        match from.ecn {
            1 => counters.ecn_ect1 += 1,
            2 => counters.ecn_ect0 += 1,
            3 => counters.ecn_ce += 1,
            _ => {}
        }
        if flow.has(bit::ABORT) {
            return;
        }
        match flow.state {
            State::SynSent => self.in_syn_sent(id, from, segment, payload, app),
            State::TimeWait => self.in_time_wait(id, from, hash, segment, payload, app),
            State::Closed => {}
            _ => {
                if from.ecn == 3 && flow.has(bit::ECN) {
                    self.flows[id].set(bit::ECE_OWED | bit::ACK_NOW);
                }
                self.synchronized(id, from, segment, payload, app);
            }
        }
    }

    // ---- No flow (RFC 9293 3.10.7.1 and 3.10.7.2) ----

    fn without_flow(&mut self, from: Arrival, hash: u32, segment: &Segment, payload: &Payload<'_>) {
        let is_syn = segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        if is_syn && self.listens(segment.destination_port) {
            return self.accept_syn(from, hash, segment);
        }
        self.counters[SERVER].badsyn += u64::from(is_syn);
        self.counters[CLIENT].err_no_flow += 1;
        self.reset_stray(from, segment, payload.len);
    }

    /// Answers a segment that belongs nowhere with a reset.
    fn reset_stray(&mut self, from: Arrival, segment: &Segment, payload_len: u32) {
        if segment.has(flag::RST)
            || self.settings.stray == Stray::Ignore
            || self.strays.len() == STRAYS_MAX
        {
            return;
        }
        let numbers = u32::from(segment.has(flag::SYN)) + u32::from(segment.has(flag::FIN));
        let end = segment.seq.wrapping_add(payload_len + numbers);
        let (seq, ack, flags) = if segment.has(flag::ACK) {
            (segment.ack, 0, flag::RST)
        } else {
            (0, end, flag::RST | flag::ACK)
        };
        self.counters[CLIENT].rst_sent += 1;
        self.counters[CLIENT].sndctrl += 1;
        self.strays.push_back(StraySegment {
            local: from.local,
            remote: from.remote,
            mac: from.mac,
            segment: Segment {
                source_port: segment.destination_port,
                destination_port: segment.source_port,
                seq,
                ack,
                flags,
                ..Segment::default()
            },
        });
    }

    fn accept_syn(&mut self, from: Arrival, hash: u32, segment: &Segment) {
        if self.half_open >= self.settings.syn_received_max {
            self.counters[SERVER].badsyn += 1;
            return;
        }
        let Some(local) = self.addresses.local(&from.local) else {
            return;
        };
        let to = SocketAddr::new(from.remote, segment.source_port);
        let Some(id) = self.new_flow(local, to, segment.destination_port, hash) else {
            self.counters[SERVER].nombuf += 1;
            return;
        };
        let iss = self.initial_number(hash);
        let remote = self.flows[id].remote;
        self.addresses.remotes[remote].way = Way::Via(from.mac);
        let flow = &mut self.flows[id];
        flow.set(bit::SERVER);
        flow.state = State::SynReceived;
        self.half_open += 1;
        begin_at(flow, iss);
        self.agree(id, segment);
        self.enqueue(id);
    }

    /// Takes over what a SYN says.
    fn agree(&mut self, id: u32, segment: &Segment) {
        let (own_local, now_ms) = (
            self.addresses.locals[self.flows[id].local as usize],
            self.now_ms(),
        );
        let own_mss = self.own_mss(&own_local);
        let settings = &self.settings;
        let flow = &mut self.flows[id];
        flow.rcv_nxt = segment.seq.wrapping_add(1);
        flow.rcv_adv = flow.rcv_nxt;
        flow.rcv_acked = flow.rcv_nxt;
        flow.snd_wl1 = segment.seq;
        // A window in a SYN is not scaled (RFC 7323 2.2).
        flow.snd_wnd = u32::from(segment.window);
        flow.shifts = match segment.window_scale {
            Some(shift) if settings.window_scaling => settings.window_shift() << 4 | shift.min(14),
            _ => 0,
        };
        // RFC 9293 3.7.1: without the option, what any host takes.
        let default = if own_local.is_ipv4() { 536 } else { 1_220 };
        let peers = if segment.mss == 0 {
            default
        } else {
            segment.mss.max(64)
        };
        flow.mss = peers.min(own_mss);
        if let Some((value, _)) = segment.timestamps.filter(|_| settings.timestamps) {
            flow.set(bit::TIMESTAMPS);
            flow.mss -= 12;
            (flow.ts_recent, flow.ts_recent_at) = (value, now_ms);
        }
        if settings.sack && segment.sack_permitted {
            flow.set(bit::SACK);
        }
        let asked = flag::ECE | flag::CWR;
        let ecn = match segment.flags & flag::ACK {
            0 => segment.flags & asked == asked,
            _ => segment.flags & asked == flag::ECE,
        };
        if settings.ecn && ecn {
            flow.set(bit::ECN);
            self.counters[flow.side()].ecn_shs += 1;
        }
        // RFC 5681 3.1: one segment after a lost SYN.
        let segments = if flow.has(bit::SYN_LOST) {
            1
        } else {
            settings.initial_window_segments
        };
        flow.cwnd = congestion::initial_window(flow.mss, segments);
    }

    // ---- SYN-SENT (RFC 9293 3.10.7.3) ----

    fn in_syn_sent<A: App>(
        &mut self,
        id: u32,
        from: Arrival,
        mut segment: Segment,
        payload: Payload<'_>,
        app: &mut A,
    ) {
        let flow = &self.flows[id];
        let has_ack = segment.has(flag::ACK);
        if has_ack && (until(segment.ack, flow.snd_una) || before(flow.snd_max, segment.ack)) {
            // A half-open connection of an earlier life of ours: the reset lets the peer forget it.
            return self.reset_stray(from, &segment, payload.len);
        }
        if segment.has(flag::RST) {
            if has_ack {
                self.counters[CLIENT].rst_rcvd += 1;
                self.end(id, Ended::Refused, app);
            }
            return;
        }
        if !segment.has(flag::SYN) {
            return;
        }
        self.agree(id, &segment);
        if !has_ack {
            // Both began at once: the SYN goes out again, with an acknowledgement.
            let flow = &mut self.flows[id];
            flow.state = State::SynReceived;
            flow.snd_nxt = flow.snd_una;
            self.half_open += 1;
            self.enqueue(id);
            return;
        }
        let flow = &mut self.flows[id];
        flow.rcv_adv = flow.rcv_nxt.wrapping_add(flow.rcv_wnd.min(0xffff));
        flow.state = State::Established;
        flow.set(bit::ACK_NOW);
        self.counters[CLIENT].connects += 1;
        self.handshake_acked(id, &segment);
        self.enqueue(id);
        self.tell(id, Event::Connected, app);
        if payload.len > 0 || segment.has(flag::FIN) {
            segment.seq = segment.seq.wrapping_add(1);
            self.take_payload(id, &segment, payload, app);
        }
    }

    /// Our SYN has arrived.
    fn handshake_acked(&mut self, id: u32, segment: &Segment) {
        self.sample_round_trip(id, segment);
        let flow = &mut self.flows[id];
        flow.snd_una = segment.ack;
        flow.snd_nxt = later(flow.snd_nxt, flow.snd_una);
        flow.backoff = 0;
        flow.main_at = 0;
        self.rearm(id);
    }

    // ---- TIME-WAIT ----

    fn in_time_wait<A: App>(
        &mut self,
        id: u32,
        from: Arrival,
        hash: u32,
        segment: Segment,
        payload: Payload<'_>,
        app: &mut A,
    ) {
        let flow = &self.flows[id];
        let is_syn = segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        let is_newer = before(flow.rcv_nxt, segment.seq)
            || segment.timestamps.is_some_and(|(value, _)| {
                flow.has(bit::TIMESTAMPS) && before(flow.ts_recent, value)
            });
        if is_syn && is_newer && self.listens(segment.destination_port) {
            // A new connection may follow at once (RFC 9293 3.6.1, RFC 6191).
            self.release(id);
            self.counters[SERVER].port_reuse += 1;
            return self.without_flow(from, hash, &segment, &payload);
        }
        if segment.has(flag::RST) {
            if segment.seq == flow.rcv_nxt {
                self.end(id, Ended::Orderly, app);
            }
            return;
        }
        // The peer has missed our last acknowledgement.
        let has_length = payload.len > 0 || segment.flags & (flag::FIN | flag::SYN) != 0;
        if segment.has(flag::FIN) {
            self.rearm(id);
        }
        if has_length {
            self.flows[id].set(bit::ACK_NOW);
            self.enqueue(id);
        }
    }

    // ---- Synchronized states and SYN-RECEIVED (RFC 9293 3.10.7.4) ----

    fn synchronized<A: App>(
        &mut self,
        id: u32,
        from: Arrival,
        mut segment: Segment,
        mut payload: Payload<'_>,
        app: &mut A,
    ) {
        let now_ms = self.now_ms();
        let flow = &mut self.flows[id];
        let is_half_open = flow.state == State::SynReceived;
        if is_half_open && segment.has(flag::SYN) && segment.seq.wrapping_add(1) == flow.rcv_nxt {
            if !segment.has(flag::ACK) {
                // Our SYN-ACK was lost.
                flow.snd_nxt = flow.snd_una;
                return self.enqueue(id);
            }
            // Both began at once, and this is the SYN-ACK.
            segment.flags &= !flag::SYN;
            segment.seq = flow.rcv_nxt;
        }
        if let Some((value, _)) = segment.timestamps
            && flow.has(bit::TIMESTAMPS)
            && before(value, flow.ts_recent)
            && !segment.has(flag::RST)
        {
            const AGE_MAX_MS: u32 = 24 * 24 * 3_600 * 1_000;
            // PAWS (RFC 7323 5.3); a timestamp of 24 days ago says nothing.
            if now_ms.wrapping_sub(flow.ts_recent_at) < AGE_MAX_MS {
                self.counters[flow.side()].pawsdrop += 1;
                flow.set(bit::ACK_NOW);
                return self.enqueue(id);
            }
        }
        if !self.is_acceptable(id, &mut segment, &mut payload) {
            return;
        }
        let flow = &self.flows[id];
        if segment.has(flag::RST) {
            return self.on_reset(id, &segment, app);
        }
        if segment.has(flag::SYN) {
            return self.challenge(id);
        }
        if !segment.has(flag::ACK) {
            return;
        }
        if is_half_open {
            if until(segment.ack, flow.snd_una) || before(flow.snd_max, segment.ack) {
                return self.reset_stray(from, &segment, payload.len);
            }
            self.establish(id, &segment, app);
        }
        if self.acknowledged(id, &segment, payload.len, app) {
            self.take_payload(id, &segment, payload, app);
        }
        // Its program may have done anything meanwhile, but it does not vanish under its own callback.
        if self.flows[id].state != State::Closed && self.flows[id].loss != super::NONE {
            self.settle_loss(id);
        }
    }

    /// RFC 9293 table 6; what is not acceptable is acknowledged, resets excepted.
    fn is_acceptable(&mut self, id: u32, segment: &mut Segment, payload: &mut Payload<'_>) -> bool {
        let flow = &mut self.flows[id];
        let window = distance(flow.rcv_nxt, flow.rcv_adv);
        let len =
            payload.len + u32::from(segment.has(flag::FIN)) + u32::from(segment.has(flag::SYN));
        let end = segment.seq.wrapping_add(len);
        let edge = flow.rcv_nxt.wrapping_add(window);
        let begins_inside = !before(segment.seq, flow.rcv_nxt) && before(segment.seq, edge);
        let ends_inside = before(flow.rcv_nxt, end) && until(end, edge);
        let spans = before(segment.seq, flow.rcv_nxt) && before(edge, end);
        let acceptable = match (len, window) {
            (0, 0) => segment.seq == flow.rcv_nxt,
            // An acknowledgement right behind the window is common, and harmless.
            (0, _) => begins_inside || segment.seq == edge,
            (_, 0) => false,
            _ => begins_inside || ends_inside || spans,
        };
        if acceptable {
            return true;
        }
        let counters = &mut self.counters[flow.side()];
        if segment.has(flag::RST) {
            counters.badrst += 1;
            return false;
        }
        flow.set(bit::ACK_NOW);
        let is_probe = window == 0 && segment.seq == flow.rcv_nxt && !segment.has(flag::SYN);
        if is_probe {
            // RFC 9293 3.10.7.4: behind a closed window acknowledgements are still valid.
            counters.rcvwinprobe += 1;
            payload.len = 0;
            segment.flags &= !flag::FIN;
        } else if before(segment.seq, flow.rcv_nxt) {
            counters.rcvduppack += 1;
            counters.rcvdupbyte += u64::from(payload.len);
        } else {
            counters.rcvpackafterwin += 1;
        }
        self.enqueue(id);
        is_probe
    }

    /// RFC 5961 3.2: only the exact number resets; another one inside the window is challenged.
    fn on_reset<A: App>(&mut self, id: u32, segment: &Segment, app: &mut A) {
        let flow = &self.flows[id];
        let side = flow.side();
        if segment.seq != flow.rcv_nxt {
            self.counters[side].badrst += 1;
            return self.challenge(id);
        }
        self.counters[side].rst_rcvd += 1;
        let why = match flow.state {
            State::SynReceived => Ended::Refused,
            // Both sides had said their last.
            State::Closing | State::LastAck => Ended::Orderly,
            _ => Ended::Reset,
        };
        self.end(id, why, app);
    }

    /// A challenge ACK, unless there were too many in this second (RFC 5961 7).
    pub(super) fn challenge(&mut self, id: u32) {
        let second = self.now_ns / 1_000_000_000;
        if self.challenges.second != second {
            self.challenges.second = second;
            self.challenges.left = self.settings.challenge_acks_per_s;
        }
        if self.challenges.left > 0 {
            self.challenges.left -= 1;
            let flow = &mut self.flows[id];
            flow.set(bit::ACK_NOW);
            self.counters[flow.side()].challenge_acks += 1;
            self.enqueue(id);
        }
    }

    /// SYN-RECEIVED is over.
    fn establish<A: App>(&mut self, id: u32, segment: &Segment, app: &mut A) {
        self.half_open -= 1;
        let flow = &mut self.flows[id];
        let is_server = flow.has(bit::SERVER);
        flow.state = if flow.has(bit::FIN_QUEUED) {
            State::FinWait1
        } else {
            State::Established
        };
        flow.snd_wnd = u32::from(segment.window) << flow.snd_shift();
        flow.snd_wl1 = segment.seq;
        let side = flow.side();
        self.counters[side].connects += 1;
        self.counters[side].accepts += u64::from(is_server);
        self.sample_round_trip(id, segment);
        let flow = &mut self.flows[id];
        // The SYN is no part of the stream.
        flow.snd_una = flow.snd_una.wrapping_add(1);
        flow.snd_nxt = later(flow.snd_nxt, flow.snd_una);
        flow.backoff = 0;
        self.rearm(id);
        let event = if is_server {
            Event::Accepted
        } else {
            Event::Connected
        };
        self.tell(id, event, app);
        self.enqueue(id);
    }

    // ---- ICMP ----

    /// A router says that a packet of ours from `local` to `remote` was too big: it began at `seq`, and `mtu` fits
    /// (RFC 1191, RFC 8201). Believed only for a number that is under way (RFC 5927).
    pub fn too_big(
        &mut self,
        now_ns: u64,
        local: SocketAddr,
        remote: SocketAddr,
        seq: u32,
        mtu: u16,
    ) {
        self.now_ns = self.now_ns.max(now_ns);
        let Some(id) = self.under_way(local, remote, seq) else {
            return;
        };
        let is_v4 = local.is_ipv4();
        // Nothing smaller is taken from anybody (RFC 791: 68; RFC 8200: 1280; kernels take no less than 552 for IPv4).
        let mtu = mtu.max(if is_v4 { 552 } else { 1_280 });
        let remote = &mut self.addresses.remotes[self.flows[id].remote];
        if remote.path_mtu != 0 && remote.path_mtu <= mtu || usize::from(mtu) >= self.link.mtu {
            return;
        }
        remote.path_mtu = mtu;
        let flow = &mut self.flows[id];
        self.counters[flow.side()].path_mtu_lowered += 1;
        if flow.state.is_synchronized() && flow.state != State::TimeWait {
            // What is under way did not fit: it goes again, and that is no sign of congestion.
            flow.snd_nxt = flow.snd_una;
            flow.clear(bit::TIMING);
            self.enqueue(id);
        }
    }

    /// An ICMP error says that a packet of ours did not arrive: a connection that is being opened ends, another goes on
    /// (RFC 1122 4.2.3.9, RFC 5927).
    pub fn unreachable<A: App>(
        &mut self,
        now_ns: u64,
        local: SocketAddr,
        remote: SocketAddr,
        seq: u32,
        app: &mut A,
    ) {
        self.now_ns = self.now_ns.max(now_ns);
        if let Some(id) = self.under_way(local, remote, seq)
            && self.flows[id].state == State::SynSent
        {
            self.end(id, Ended::Unreachable, app);
        }
    }

    /// The flow of a packet of ours, when its number is under way.
    fn under_way(&self, local: SocketAddr, remote: SocketAddr, seq: u32) -> Option<u32> {
        let hash = self.hash(local.ip(), local.port(), remote.ip(), remote.port());
        let id = self.find(hash, local.ip(), local.port(), remote.ip(), remote.port())?;
        let flow = &self.flows[id];
        (!before(seq, flow.snd_una) && before(seq, flow.snd_max)).then_some(id)
    }
}

/// The sum over pseudo header, header and payload, in all pieces.
fn sum_of(frame: &Frame<'_>, packet: &Packet) -> Sum {
    let end = frame.head.len().min(packet.tcp_at + packet.tcp_bytes);
    let head = &frame.head[packet.tcp_at..end];
    let mut sum = packet.pseudo().bytes(head);
    let mut done = head.len();
    for piece in frame.rest {
        let len = piece.len().min(packet.tcp_bytes - done);
        sum = sum.part(Sum::ZERO.bytes(&piece[..len]), done);
        done += len;
    }
    sum
}
