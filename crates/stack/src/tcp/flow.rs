//! One flow: everything that an idle connection costs, in two cache lines.
//!
//! The first line is what each segment needs, the second what timers and round trips need. What only a connection
//! with a loss needs is in a block of its own ([`super::loss::Loss`]). Sequence numbers of a stream: SYN, payload,
//! FIN; [`Flow::snd_end`] is where the payload ends that the program has promised, and the FIN's own number.

/// No flow, block or chunk.
pub const NONE: u32 = u32::MAX;

/// The states of RFC 9293 3.3.2 that a flow can be in; LISTEN is a port's, CLOSED is a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// There is no connection.
    #[default]
    Closed,
    /// Our SYN is out.
    SynSent,
    /// Both SYNs have been seen, ours not acknowledged.
    SynReceived,
    /// Open.
    Established,
    /// Our FIN is out.
    FinWait1,
    /// It is acknowledged.
    FinWait2,
    /// The peer's FIN has come.
    CloseWait,
    /// Both FINs are out, neither acknowledged.
    Closing,
    /// The peer's FIN has come, and ours is out.
    LastAck,
    /// All is done, and remembered for a while.
    TimeWait,
}

impl State {
    /// Payload may still be received.
    pub fn receives(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// The handshake is complete and the connection has not come to its end.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::SynSent | State::SynReceived)
    }
}

/// Bits of [`Flow::flags`].
pub mod bit {
    /// It stands in the line of flows that have something to send.
    pub const QUEUED: u16 = 1 << 0;
    /// An acknowledgement is due now.
    pub const ACK_NOW: u16 = 1 << 1;
    /// The program has closed: FIN after the payload.
    pub const FIN_QUEUED: u16 = 1 << 2;
    /// To be reset and forgotten.
    pub const ABORT: u16 = 1 << 3;
    /// Timestamps are in use.
    pub const TIMESTAMPS: u16 = 1 << 4;
    /// SACK is in use.
    pub const SACK: u16 = 1 << 5;
    /// ECN is in use.
    pub const ECN: u16 = 1 << 6;
    /// Congestion was met on the way here: say so until the peer has heard.
    pub const ECE_OWED: u16 = 1 << 7;
    /// Say with the next payload that the window was reduced.
    pub const CWR_OWED: u16 = 1 << 8;
    /// A loss is being recovered from (fast recovery).
    pub const RECOVERY: u16 = 1 << 9;
    /// A round trip is being timed.
    pub const TIMING: u16 = 1 << 10;
    /// It began with the peer's SYN.
    pub const SERVER: u16 = 1 << 11;
    /// Its program has let go of it: no more calls.
    pub const ORPHAN: u16 = 1 << 12;
    /// It hangs in the timer wheel.
    pub const TIMED: u16 = 1 << 13;
    /// A probe (closed window, keep-alive) is due.
    pub const PROBE: u16 = 1 << 14;
    /// The SYN was sent more than once.
    pub const SYN_LOST: u16 = 1 << 15;
}

/// A flow; see the module.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct Flow {
    /// Oldest number that is not acknowledged.
    pub snd_una: u32,
    /// Next to be sent; behind `snd_max` while what was lost is sent again.
    pub snd_nxt: u32,
    /// One after the highest that was ever sent.
    pub snd_max: u32,
    /// One after the payload that the program has promised.
    pub snd_end: u32,
    /// Next expected.
    pub rcv_nxt: u32,
    /// Right edge of the window that the peer knows.
    pub rcv_adv: u32,
    /// The peer's window, bytes.
    pub snd_wnd: u32,
    /// Congestion window, bytes.
    pub cwnd: u32,
    /// Slow start ends here, bytes.
    pub ssthresh: u32,
    /// Index of our address.
    pub local: u32,
    /// Index of the peer's address.
    pub remote: u32,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// State.
    pub state: State,
    /// Shift of the peer's windows in the lower half, of ours in the upper.
    pub shifts: u8,
    /// See [`bit`].
    pub flags: u16,
    /// Largest payload of a segment to the peer, options taken off.
    pub mss: u16,
    /// Timeouts in a row.
    pub backoff: u8,
    /// Duplicate acknowledgements in a row.
    pub dupacks: u8,
    /// Loss block, or [`NONE`].
    pub loss: u32,
    /// The program's own number.
    pub user: u32,
    // ---- second line ----
    /// Next in the wheel's slot.
    pub timer_next: u32,
    /// Previous, or the slot itself.
    pub timer_prev: u32,
    /// Tick for which it hangs in the wheel; never later than the earliest of its deadlines.
    pub timer_due: u32,
    /// Deadline of retransmission, persist, keep-alive or TIME-WAIT, whichever its state has. Tick, 0 for none.
    pub main_at: u32,
    /// Deadline of a delayed acknowledgement. Tick, 0 for none.
    pub delack_at: u32,
    /// Smoothed round trip, eighths of a microsecond; 0 before the first sample.
    pub srtt: u32,
    /// Its variation, quarters of a microsecond.
    pub rttvar: u32,
    /// The window that we want to offer, bytes.
    pub rcv_wnd: u32,
    /// Timestamp to be echoed.
    pub ts_recent: u32,
    /// When it came, ms.
    pub ts_recent_at: u32,
    /// Number of the segment that last set `snd_wnd`.
    pub snd_wl1: u32,
    /// Last acknowledgement sent.
    pub rcv_acked: u32,
    /// Offset in the stream of `snd_una`.
    pub snd_off: u64,
    /// The timed round trip ends when this is acknowledged.
    pub rtt_seq: u32,
    /// When it began, microseconds.
    pub rtt_at: u32,
}

impl Flow {
    /// All of these bits are set.
    #[inline]
    pub fn has(&self, bits: u16) -> bool {
        self.flags & bits == bits
    }

    /// Sets bits.
    #[inline]
    pub fn set(&mut self, bits: u16) {
        self.flags |= bits;
    }

    /// Clears bits.
    #[inline]
    pub fn clear(&mut self, bits: u16) {
        self.flags &= !bits;
    }

    /// Shift of the peer's windows.
    #[inline]
    pub fn snd_shift(&self) -> u8 {
        self.shifts & 15
    }

    /// Shift of our windows.
    #[inline]
    pub fn rcv_shift(&self) -> u8 {
        self.shifts >> 4
    }

    /// 0 for a client, 1 for a server: which counters are its own.
    #[inline]
    pub fn side(&self) -> usize {
        usize::from(self.flags & bit::SERVER != 0)
    }

    /// Sent and not acknowledged, in numbers.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.snd_max.wrapping_sub(self.snd_una)
    }

    /// Our FIN has been sent at least once.
    #[inline]
    pub fn fin_is_sent(&self) -> bool {
        self.has(bit::FIN_QUEUED) && self.snd_max == self.snd_end.wrapping_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_two_cache_lines() {
        assert_eq!(size_of::<Flow>(), 128);
        assert_eq!(std::mem::offset_of!(Flow, timer_next), 64);
    }
}
