//! Everything about the stack that can be set, in one place, with its defaults.

/// Which congestion control a sender uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

/// What is done with a segment that belongs to no connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stray {
    /// Reset, as RFC 9293 asks.
    #[default]
    Reset,
    /// No response.
    Ignore,
}

/// In which order local ports are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortOrder {
    /// One after the other, so that the one taken again was used the longest ago.
    #[default]
    Sequential,
    /// Drawn for each connection (RFC 6056 3.3.1).
    Random,
}

/// The settings. All of them hold for the whole stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Flows that there can be at one time, those in TIME-WAIT included. Memory is reserved, and touched when used.
    pub flows_max: u32,
    /// Largest segment to announce; 0 takes it from the device's MTU.
    pub mss_bytes: u16,
    /// How many segments may be sent before the first acknowledgement (RFC 6928: 10).
    pub initial_window_segments: u32,
    /// Which congestion control.
    pub congestion_control: CongestionControl,
    /// What a peer may send unacknowledged.
    pub receive_window_bytes: u32,
    /// Offer window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Offer timestamps (RFC 7323).
    pub timestamps: bool,
    /// Offer selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Offer ECN (RFC 3168).
    pub ecn: bool,
    /// Hold small segments back while others are unacknowledged (RFC 1122 4.2.3.4).
    pub nagle: bool,
    /// Acknowledge at once when so many full segments have come; RFC 1122 4.2.3.2 asks for 2 at most.
    pub ack_segments: u32,
    /// Acknowledge fewer after this time (RFC 1122: at most 500 ms); 0 acknowledges everything at once.
    pub delayed_ack_ms: u32,
    /// Retransmission timeout before the first round trip was measured (RFC 6298 2.1).
    pub rto_initial_ms: u32,
    /// Its lower bound. RFC 6298 2.4 says 1 s; kernels take 200 ms.
    pub rto_min_ms: u32,
    /// Its upper bound.
    pub rto_max_ms: u32,
    /// Retransmissions of a SYN or SYN-ACK before it is given up.
    pub syn_retries_max: u8,
    /// Retransmissions of anything else, and unanswered probes of a closed window, before a connection is given up.
    pub retries_max: u8,
    /// Duplicate acknowledgements that mean a loss (RFC 5681: 3).
    pub duplicate_threshold: u8,
    /// Silence after which a peer is asked whether it lives; 0 never asks.
    pub keep_alive_idle_ms: u32,
    /// From one such question to the next.
    pub keep_alive_interval_ms: u32,
    /// Unanswered questions before the connection is given up.
    pub keep_alive_probes_max: u8,
    /// How long a connection that we closed first remembers itself (2 MSL).
    pub time_wait_ms: u32,
    /// How long to wait for the peer's FIN after ours was acknowledged and nobody is there to receive; 0 for ever.
    pub fin_wait_2_ms: u32,
    /// Keep what comes out of order; else the peer sends it again.
    pub keep_out_of_order: bool,
    /// Room for what comes out of order over all flows, in chunks of 2 KiB.
    pub reassembly_chunks_max: u32,
    /// Challenge ACKs a second over all flows (RFC 5961 7).
    pub challenge_acks_per_s: u32,
    /// Connections that have not finished their handshake, server side.
    pub syn_received_max: u32,
    /// Of segments that belong to nothing.
    pub stray: Stray,
    /// First and last of the local ports for [`super::Stack::connect`].
    pub ports: (u16, u16),
    /// In which order they are used.
    pub port_order: PortOrder,
    /// Hops that a packet may take.
    pub hop_limit: u8,
    /// Upper six bits: the DSCP of all packets.
    pub traffic_class: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            flows_max: 65_536,
            mss_bytes: 0,
            initial_window_segments: 10,
            congestion_control: CongestionControl::Cubic,
            receive_window_bytes: 1 << 20,
            window_scaling: true,
            timestamps: true,
            sack: true,
            ecn: false,
            nagle: false,
            ack_segments: 2,
            delayed_ack_ms: 40,
            rto_initial_ms: 1_000,
            rto_min_ms: 200,
            rto_max_ms: 120_000,
            syn_retries_max: 6,
            retries_max: 15,
            duplicate_threshold: 3,
            keep_alive_idle_ms: 0,
            keep_alive_interval_ms: 75_000,
            keep_alive_probes_max: 9,
            time_wait_ms: 60_000,
            fin_wait_2_ms: 60_000,
            keep_out_of_order: true,
            reassembly_chunks_max: 16_384,
            challenge_acks_per_s: 100,
            syn_received_max: 65_536,
            stray: Stray::Reset,
            ports: (10_000, 65_535),
            port_order: PortOrder::Sequential,
            hop_limit: 64,
            traffic_class: 0,
        }
    }
}

impl Settings {
    /// By how much our windows are shifted: as little as lets the field hold the receive window.
    pub(super) fn window_shift(&self) -> u8 {
        let mut shift = 0;
        while shift < 14 && self.receive_window_bytes >> shift > 0xffff {
            shift += 1;
        }
        shift
    }
}
