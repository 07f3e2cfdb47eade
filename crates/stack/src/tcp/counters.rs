//! What one side of the stack counted since its beginning. The names are those of BSD's `tcpstat`, as TRex prints them,
//! so that both can be laid side by side; what TRex has not comes after.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// Counters of one side; see the module.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Counters {
            /// Names and values, in the order of declaration.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Connections begun by us.
    connattempt,
    /// Connections begun by a peer, handshake complete.
    accepts,
    /// Connections established, by either.
    connects,
    /// Established connections that are no more.
    closed,
    /// Established connections that ended by a reset or for want of acknowledgements.
    drops,
    /// Connections that ended before they were established.
    conndrops,
    /// Connections given up because retransmissions were not acknowledged.
    timeoutdrop,
    /// Round trips that were timed.
    segstimed,
    /// Samples that changed the round-trip estimate.
    rttupdated,
    /// Acknowledgements sent when the delay was over.
    delack,
    /// Segments sent, all kinds.
    sndtotal,
    /// Segments sent with payload for the first time; a super-segment counts as the wire sees it.
    sndpack,
    /// Bytes that the program gave to be sent.
    sndbyte,
    /// Payload bytes sent for the first time.
    sndbyte_ok,
    /// SYN, FIN and RST segments sent.
    sndctrl,
    /// Bare acknowledgements sent.
    sndacks,
    /// Segments sent again.
    sndrexmitpack,
    /// Payload bytes sent again.
    sndrexmitbyte,
    /// Probes of a closed window sent.
    sndprobe,
    /// Window updates sent.
    sndwinup,
    /// Retransmission timeouts.
    rexmttimeo,
    /// Of them, of a SYN or SYN-ACK.
    rexmttimeo_syn,
    /// Timeouts that were undone, since nothing was lost (TCPSpuriousRTOs).
    spurious_rtos,
    /// Persist timeouts.
    persisttimeo,
    /// Connections given up because the window stayed closed.
    persistdrop,
    /// Keep-alive timeouts.
    keeptimeo,
    /// Keep-alive probes sent.
    keepprobe,
    /// Connections given up by keep-alive.
    keepdrops,
    /// Segments received, merged ones as one.
    rcvtotal,
    /// Segments received in order with payload.
    rcvpack,
    /// Payload bytes received in order.
    rcvbyte,
    /// Segments that acknowledged something new.
    rcvackpack,
    /// Bytes that they acknowledged.
    rcvackbyte,
    /// Frames received into which several segments were merged.
    rcvoffloads,
    /// Segments that were nothing but the next payload.
    preddat,
    /// Segments that were nothing but a new acknowledgement.
    predack,
    /// Wrong checksum.
    rcvbadsum,
    /// Header that is none.
    rcvbadoff,
    /// Shorter than it says.
    rcvshort,
    /// Segments received again.
    rcvduppack,
    /// Their bytes.
    rcvdupbyte,
    /// Segments received again in part.
    rcvpartduppack,
    /// Bytes of that part.
    rcvpartdupbyte,
    /// Segments received out of order.
    rcvoopack,
    /// Their bytes.
    rcvoobyte,
    /// Out of order and not kept.
    rcvoopackdrop,
    /// Their bytes.
    rcvoobytesdrop,
    /// Segments beyond the window.
    rcvpackafterwin,
    /// Payload for a connection whose owner has gone.
    rcvafterclose,
    /// Probes of our closed window received.
    rcvwinprobe,
    /// Window updates received.
    rcvwinupd,
    /// Duplicate acknowledgements received.
    rcvdupack,
    /// Acknowledgements of what was not sent.
    rcvacktoomuch,
    /// Segments whose timestamp was too old (PAWS).
    pawsdrop,
    /// SYN for a port on which nobody listens, or beyond the limit of half-open connections.
    badsyn,
    /// RST outside the window, or not at its beginning.
    badrst,
    /// Chunks taken for what came out of order.
    reasalloc,
    /// Chunks given back.
    reasfree,
    /// Segments dropped because no chunk or flow was free.
    nombuf,
    /// Recoveries by duplicate acknowledgements or SACK begun.
    sack_recovery_episode,
    /// Segments sent again in them.
    sack_rexmits,
    /// Their bytes.
    sack_rexmit_bytes,
    /// SACK blocks received.
    sack_rcv_blocks,
    /// SACK blocks sent.
    sack_send_blocks,
    /// Blocks for which the scoreboard had no room.
    sack_sboverflow,
    /// Packets received that met congestion.
    ecn_ce,
    /// Packets received with ECT(0).
    ecn_ect0,
    /// Packets received with ECT(1).
    ecn_ect1,
    /// Connections that agreed on ECN.
    ecn_shs,
    /// Windows reduced because of ECN.
    ecn_rcwnd,
    /// Segments that belong to no connection.
    err_no_flow,
    /// IPv4 fragments, and those of IPv6.
    err_fragments_drop,
    /// IP header with a wrong checksum.
    err_l3_cs,
    /// Flows refused for want of room.
    err_flow_overflow,
    /// Challenge ACKs sent.
    challenge_acks,
    /// RSTs that ended a connection.
    rst_rcvd,
    /// RSTs sent.
    rst_sent,
    /// Ports taken again from a connection in TIME-WAIT.
    port_reuse,
    /// TCP checksums received that hold only the pseudo header.
    csum_partial,
    /// Path MTU lowered by ICMP.
    path_mtu_lowered,
    /// Sends that waited because the device was full.
    tx_ring_full,
}
