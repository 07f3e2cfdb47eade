//! Packet scripts for every state and timer, each with the section that asks for it. `common/script.rs` has the
//! language.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

pub mod common;

use common::script::play;

/// All of them, for whoever plays them with another TCP.
#[allow(dead_code, reason = "the tests call them one by one")]
pub const ALL: [fn(); 9] = [
    handshakes,
    servers,
    the_ends,
    resets_and_challenges,
    timeouts,
    losses,
    windows,
    acknowledgements,
    time_wait,
];

/// A client's connection, open at 10 ms, MSS 1000.
const OPEN: &str = "
    0 connect
    0 > S 0:0(0)
    10 < S. 0:0(0) ack 1 win 60000 <mss 1000,sackOK>
    10 > . 1:1(0) ack 1
    10 event Connected
";

fn client(name: &str, script: &str) {
    play(name, |_| (), &format!("{OPEN}{script}"));
}

#[test]
fn handshakes() {
    play(
        "options of a SYN",
        |s| (s.timestamps, s.window_scaling) = (true, true),
        "0 connect
         0 > S 0:0(0) win 65535 <mss 1460,sackOK,TS,wscale 5>
         5 < S. 0:0(0) ack 1 win 1000 <mss 1460,sackOK,TS 77/5000,wscale 3>
         5 > . 1:1(0) ack 1 win 32768 <TS>
         5 event Connected
         5 is Established",
    );
    play(
        "a SYN is retransmitted, and given up (RFC 6298 2.1, 5.5)",
        |s| s.syn_retries_max = 2,
        "0 connect
         0 > S 0:0(0)
         1000 > S 0:0(0)
         3000 > S 0:0(0)
         7002 event Ended(TimedOut)
         7002 count rexmttimeo_syn 3
         7002 empty",
    );
    play(
        "refused (RFC 9293 3.10.7.3)",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         5 < R. 0:0(0) ack 1
         5 event Ended(Refused)
         5 empty",
    );
    play(
        "a reset without our number in it is none",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         5 < R 0:0(0)
         5 is SynSent",
    );
    play(
        "a stray acknowledgement of an earlier life is reset (RFC 9293 figure 9)",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         5 < . 300:300(0) ack 91
         5 > R 91:91(0)
         5 is SynSent
         1000 > S 0:0(0)
         1005 < S. 0:0(0) ack 1 win 60000 <mss 1000>
         1005 > . 1:1(0) ack 1",
    );
    play(
        "both begin at once (RFC 9293 figure 7)",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         5 < S 0:0(0) win 60000 <mss 1000>
         5 > S. 0:0(0) ack 1
         5 is SynReceived
         9 < S. 0:0(0) ack 1 win 60000 <mss 1000>
         9 event Connected
         9 is Established",
    );
    play(
        "unreachable while it opens (RFC 1122 4.2.3.9)",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         4 unreachable
         4 event Ended(Unreachable)
         4 empty",
    );
    play(
        "closed before it was open",
        |_| (),
        "0 connect
         0 > S 0:0(0)
         4 close
         4 empty",
    );
}

#[test]
fn servers() {
    play(
        "accepted",
        |_| (),
        "0 listen
         5 < S 0:0(0) win 60000 <mss 1000,sackOK>
         5 > S. 0:0(0) ack 1 <mss 1460,sackOK>
         9 < . 1:1(0) ack 1 win 60000
         9 event Accepted
         9 is Established
         9 count accepts 1",
    );
    play(
        "a lost SYN-ACK comes again for a repeated SYN, and by its timer",
        |_| (),
        "0 listen
         5 < S 0:0(0) win 60000 <mss 1000>
         5 > S. 0:0(0) ack 1
         700 < S 0:0(0) win 60000 <mss 1000>
         700 > S. 0:0(0) ack 1
         1005 > S. 0:0(0) ack 1
         1009 < . 1:1(0) ack 1 win 60000
         1009 event Accepted",
    );
    play(
        "nobody listens (RFC 9293 3.10.7.1)",
        |_| (),
        "0 < S 0:0(0) win 60000
         0 > R. 0 ack 1
         1 < . 5:5(0) ack 9
         1 > R 9
         2 < R 5:5(0)
         2 quiet
         2 empty",
    );
    play(
        "half-open: an acknowledgement of something else is reset, a reset ends it",
        |_| (),
        "0 listen
         5 < S 0:0(0) win 60000 <mss 1000>
         5 > S. 0:0(0) ack 1
         6 < . 1:1(0) ack 5 win 60000
         6 > R 5:5(0)
         7 < R 1:1(0)
         7 silent
         7 empty",
    );
    play(
        "payload with the last segment of the handshake",
        |_| (),
        "0 listen
         5 < S 0:0(0) win 60000 <mss 1000>
         5 > S. 0:0(0) ack 1
         9 < P. 1:101(100) ack 1 win 60000
         9 event Accepted
         9 got 100
         49 > . 1:1(0) ack 101",
    );
}

#[test]
fn the_ends() {
    client(
        "we close first (RFC 9293 figure 5)",
        "20 close
         20 > F. 1:1(0) ack 1
         20 is FinWait1
         30 < . 1:1(0) ack 2
         30 is FinWait2
         40 < F. 1:1(0) ack 2
         40 > . 2:2(0) ack 2
         40 event PeerClosed
         40 event Ended(Orderly)
         40 is TimeWait
         60 < F. 1:1(0) ack 2
         60 > . 2:2(0) ack 2
         60050 is TimeWait
         60070 empty",
    );
    client(
        "the peer closes first",
        "20 < F. 1:1(0) ack 1
         20 > . 1:1(0) ack 2
         20 event PeerClosed
         20 is CloseWait
         30 send 10
         30 > P. 1:11(10) ack 2
         31 close
         31 > F. 11:11(0) ack 2
         31 is LastAck
         40 < . 2:2(0) ack 12
         40 event Ended(Orderly)
         40 empty",
    );
    client(
        "both close at once (RFC 9293 figure 13)",
        "20 close
         20 > F. 1:1(0) ack 1
         21 < F. 1:1(0) ack 1
         21 > . 2:2(0) ack 2
         21 event PeerClosed
         21 is Closing
         30 < . 2:2(0) ack 2
         30 event Ended(Orderly)
         30 is TimeWait",
    );
    client(
        "payload and FIN in one segment, acknowledged in one",
        "20 send 10
         20 > P. 1:11(10) ack 1
         20 close
         20 > F. 11:11(0) ack 1
         30 < FP. 1:6(5) ack 12
         30 > . 12:12(0) ack 7
         30 got 5
         30 event PeerClosed
         30 event Ended(Orderly)
         30 is TimeWait",
    );
    client(
        "half closed: the peer's bytes go on",
        "20 close
         20 > F. 1:1(0) ack 1
         30 < . 1:1(0) ack 2
         40 < P. 1:501(500) ack 2
         40 got 500
         80 > . 2:2(0) ack 501",
    );
    client(
        "nobody is there any more: bytes are reset (RFC 1122 4.2.2.13)",
        "20 forget
         20 > F. 1:1(0) ack 1
         30 < . 1:1(0) ack 2
         40 < P. 1:501(500) ack 2
         40 > R. 2:2(0) ack 1
         40 silent
         40 count rcvafterclose 1
         40 empty",
    );
    client(
        "nobody is there, and the peer never ends",
        "20 forget
         20 > F. 1:1(0) ack 1
         30 < . 1:1(0) ack 2
         60029 is FinWait2
         60032 empty",
    );
    client(
        "reset by us",
        "20 abort
         20 > R. 1:1(0) ack 1
         20 silent
         20 empty",
    );
    client(
        "reset by us after a retransmission: the number is that of all that was sent",
        "20 send 1000
         20 > P. 1:1001(1000) ack 1
         220 > P. 1:1001(1000) ack 1
         230 < . 1:1(0) ack 1
         230 abort
         230 > R. 1001:1001(0) ack 1
         230 empty",
    );
    client(
        "the program ends while the peer's FIN is not acknowledged yet",
        "20 forget
         20 > F. 1:1(0) ack 1
         30 <+ F. 1:1(0) ack 2
         30 end
         30 > . 2:2(0) ack 2
         30 silent
         30 empty",
    );
    play(
        "the program ends while the handshake is under way: the peer is not left with half of it",
        |_| {},
        "0 connect
         0 > S 0:0(0)
         5 end
         5 > R 1:1(0)
         5 silent
         5 empty",
    );
    play(
        "one connection is given up in the handshake: nothing is sent (RFC 9293 3.10.5)",
        |_| {},
        "0 connect
         0 > S 0:0(0)
         5 abort
         5 silent
         5 empty",
    );
    client(
        "a FIN is retransmitted",
        "20 close
         20 > F. 1:1(0) ack 1
         220 > F. 1:1(0) ack 1
         620 > F. 1:1(0) ack 1
         630 < . 1:1(0) ack 2
         630 is FinWait2",
    );
    client(
        "a FIN behind a hole waits for it",
        "20 < F. 101:201(100) ack 1
         20 > . 1:1(0) ack 1 <sack 101-201>
         20 is Established
         30 < . 1:101(100) ack 1
         30 > . 1:1(0) ack 202
         30 got 200
         30 event PeerClosed",
    );
}

#[test]
fn resets_and_challenges() {
    client(
        "only the exact number resets (RFC 5961 3.2)",
        "20 < R 500:500(0)
         20 > . 1:1(0) ack 1
         20 count challenge_acks 1
         20 is Established
         21 < R 70000:70000(0)
         21 < R 1:1(0)
         21 event Ended(Reset)
         21 empty",
    );
    client(
        "a SYN is challenged (RFC 5961 4.2)",
        "20 < S 100:100(0)
         20 > . 1:1(0) ack 1
         20 is Established",
    );
    play(
        "challenges are limited (RFC 5961 7)",
        |s| s.challenge_acks_per_s = 2,
        &format!(
            "{OPEN}
             20 < R 500:500(0)
             20 > . 1:1(0) ack 1
             21 < R 500:500(0)
             21 > . 1:1(0) ack 1
             22 < R 500:500(0)
             900 quiet
             1100 < R 500:500(0)
             1100 > . 1:1(0) ack 1"
        ),
    );
    client(
        "an acknowledgement of what was not sent is answered (RFC 9293 3.10.7.4)",
        "20 < . 1:1(0) ack 90
         20 > . 1:1(0) ack 1
         20 count rcvacktoomuch 1",
    );
    client(
        "an acknowledgement from before any window is challenged (RFC 5961 5)",
        "20 < . 1:1(0) ack -90000
         20 > . 1:1(0) ack 1
         20 count challenge_acks 1",
    );
    client(
        "what was received before, and what lies beyond the window, is acknowledged",
        "20 < P. 1:101(100) ack 1
         60 > . 1:1(0) ack 101
         70 < P. 1:101(100) ack 1
         70 > . 1:1(0) ack 101
         80 < P. 90000:90010(10) ack 1
         80 > . 1:1(0) ack 101
         80 got 100
         80 count rcvduppack 1
         80 count rcvpackafterwin 1",
    );
}

/// Eight segments in flight, two more a moment later, a timeout, and an acknowledgement of the first one alone: whether
/// the others are lost is in doubt.
const IN_DOUBT: &str = "20 send 8000
         20 > . 1:1001(1000) ack 1
         20 > . 1001:2001(1000) ack 1
         20 > . 2001:3001(1000) ack 1
         20 > . 3001:4001(1000) ack 1
         20 > . 4001:5001(1000) ack 1
         20 > . 5001:6001(1000) ack 1
         20 > . 6001:7001(1000) ack 1
         20 > P. 7001:8001(1000) ack 1
         100 send 9000
         100 > . 8001:9001(1000) ack 1
         100 > . 9001:10001(1000) ack 1
         220 > . 1:1001(1000) ack 1
         230 < . 1:1(0) ack 1001
         230 > . 10001:11001(1000) ack 1
         230 > . 11001:12001(1000) ack 1";

/// The kernel is not played against these: it finds losses by time as well (RACK), and on a clock that runs both race.
#[test]
fn timeouts_in_doubt() {
    client(
        "a timeout that was not needed is undone, by payload that was never out (RFC 5682 3.1)",
        &format!(
            "{IN_DOUBT}
         235 < . 1:1(0) ack 3001
         235 > . 12001:13001(1000) ack 1
         235 count spurious_rtos 1
         235 count rexmttimeo 1"
        ),
    );
    client(
        "a timeout that was needed goes on with what was lost, when payload that was never out has told (RFC 5682 3a)",
        &format!(
            "{IN_DOUBT}
         240 < . 1:1(0) ack 1001 <sack 10001-11001>
         240 > . 1001:2001(1000) ack 1
         240 > . 2001:3001(1000) ack 1
         240 > . 3001:4001(1000) ack 1
         240 count spurious_rtos 0"
        ),
    );
}

#[test]
fn timeouts() {
    client(
        "retransmission backs off, starts small, and is given up in the end (RFC 6298 5)",
        "20 send 1000
         20 > P. 1:1001(1000) ack 1
         220 > P. 1:1001(1000) ack 1
         620 > P. 1:1001(1000) ack 1
         1420 > P. 1:1001(1000) ack 1
         1421 < . 1:1(0) ack 1001
         9000 quiet
         9000 count rexmttimeo 3",
    );
    play(
        "given up",
        |s| s.retries_max = 2,
        &format!(
            "{OPEN}
             20 send 1000
             20 > P. 1:1001(1000) ack 1
             220 > P. 1:1001(1000) ack 1
             620 > P. 1:1001(1000) ack 1
             1425 event Ended(TimedOut)
             1425 count timeoutdrop 1
             1425 empty"
        ),
    );
    client(
        "after a timeout all goes again, one segment first (RFC 5681 3.1)",
        "20 send 3000
         20 > . 1:1001(1000) ack 1
         20 > . 1001:2001(1000) ack 1
         20 > P. 2001:3001(1000) ack 1
         220 > . 1:1001(1000) ack 1
         230 < . 1:1(0) ack 1001
         230 > . 1001:2001(1000) ack 1
         230 > P. 2001:3001(1000) ack 1
         240 < . 1:1(0) ack 3001",
    );
    client(
        "what SACK reported is passed over after a timeout",
        "20 send 4000
         20 > . 1:1001(1000) ack 1
         20 > . 1001:2001(1000) ack 1
         20 > . 2001:3001(1000) ack 1
         20 > P. 3001:4001(1000) ack 1
         30 < . 1:1(0) ack 1 <sack 1001-2001>
         220 > . 1:1001(1000) ack 1
         240 < . 1:1(0) ack 2001
         240 > . 2001:3001(1000) ack 1
         240 > P. 3001:4001(1000) ack 1",
    );
    client(
        "the timeout follows the round trip: 500 + 4 * 250 ms (RFC 6298 2.2)",
        "20 send 10
         20 > P. 1:11(10) ack 1
         220 > P. 1:11(10) ack 1
         520 < . 1:1(0) ack 11
         600 quiet",
    );
    play(
        "keep-alive asks and gives up (RFC 1122 4.2.3.6)",
        |s| {
            (
                s.keep_alive_idle_ms,
                s.keep_alive_interval_ms,
                s.keep_alive_probes_max,
            ) = (1_000, 100, 3)
        },
        &format!(
            "{OPEN}
             1010 > . 0:0(0) ack 1
             1020 < . 1:1(0) ack 1
             2020 > . 0:0(0) ack 1
             2120 > . 0:0(0) ack 1
             2220 > . 0:0(0) ack 1
             2325 event Ended(TimedOut)
             2325 count keepdrops 1
             2325 empty"
        ),
    );
    client(
        "a keep-alive of the peer is answered",
        "20 < . 0:0(0) ack 1
         20 > . 1:1(0) ack 1",
    );
}

#[test]
fn losses() {
    client(
        "SACK: three segments above a hole, and it is filled (RFC 6675)",
        "20 send 6000
         20 > . 1:1001(1000) ack 1
         20 > . 1001:2001(1000) ack 1
         20 > . 2001:3001(1000) ack 1
         20 > . 3001:4001(1000) ack 1
         20 > . 4001:5001(1000) ack 1
         20 > P. 5001:6001(1000) ack 1
         30 < . 1:1(0) ack 1 <sack 1001-2001>
         31 < . 1:1(0) ack 1 <sack 1001-3001>
         32 < . 1:1(0) ack 1 <sack 1001-4001>
         32 > . 1:1001(1000) ack 1
         40 < . 1:1(0) ack 4001
         41 < . 1:1(0) ack 6001
         41 count sack_recovery_episode 1
         900 quiet",
    );
    play(
        "without SACK: three duplicates, and a partial acknowledgement (RFC 6582)",
        |s| s.sack = false,
        &format!(
            "{OPEN}
             20 send 6000
             20 > . 1:1001(1000) ack 1
             20 > . 1001:2001(1000) ack 1
             20 > . 2001:3001(1000) ack 1
             20 > . 3001:4001(1000) ack 1
             20 > . 4001:5001(1000) ack 1
             20 > P. 5001:6001(1000) ack 1
             30 < . 1:1(0) ack 1
             31 < . 1:1(0) ack 1
             32 < . 1:1(0) ack 1
             32 > . 1:1001(1000) ack 1
             40 < . 1:1(0) ack 2001
             40 > . 2001:3001(1000) ack 1
             50 < . 1:1(0) ack 6001
             900 quiet"
        ),
    );
    play(
        "limited transmit: a new segment for each of the first two duplicates (RFC 3042)",
        |s| (s.initial_window_segments, s.sack) = (3, false),
        &format!(
            "{OPEN}
             20 send 9000
             20 > . 1:1001(1000) ack 1
             20 > . 1001:2001(1000) ack 1
             20 > . 2001:3001(1000) ack 1
             30 < . 1:1(0) ack 1
             30 > . 3001:4001(1000) ack 1
             31 < . 1:1(0) ack 1
             31 > . 4001:5001(1000) ack 1
             32 < . 1:1(0) ack 1
             32 > . 1:1001(1000) ack 1"
        ),
    );
    client(
        "out of order: kept, acknowledged at once, the latest block first (RFC 2018 4)",
        "20 < . 1001:2001(1000) ack 1
         20 > . 1:1(0) ack 1 <sack 1001-2001>
         21 < . 3001:4001(1000) ack 1
         21 > . 1:1(0) ack 1 <sack 3001-4001,sack 1001-2001>
         22 < . 1:1001(1000) ack 1
         22 > . 1:1(0) ack 2001 <sack 3001-4001>
         22 got 2000
         23 < . 1501:3501(2000) ack 1
         23 > . 1:1(0) ack 4001
         23 got 4000
         23 count reasalloc 2
         23 count reasfree 2",
    );
    play(
        "out of order: dropped when nothing is kept",
        |s| s.keep_out_of_order = false,
        &format!(
            "{OPEN}
             20 < . 1001:2001(1000) ack 1
             20 > . 1:1(0) ack 1
             20 count rcvoopackdrop 1
             21 < . 1:1001(1000) ack 1
             61 > . 1:1(0) ack 1001
             61 got 1000"
        ),
    );
    client(
        "path MTU: what did not fit goes again in smaller segments (RFC 1191)",
        "20 send 2000
         20 > . 1:1001(1000) ack 1
         20 > P. 1001:2001(1000) ack 1
         25 too_big 640
         25 > . 1:601(600) ack 1
         25 > . 601:1201(600) ack 1
         25 > . 1201:1801(600) ack 1
         25 > P. 1801:2001(200) ack 1
         30 < . 1:1(0) ack 2001
         30 count path_mtu_lowered 1",
    );
}

#[test]
fn windows() {
    client(
        "a closed window is probed, and its opening used (RFC 9293 3.8.6.1)",
        "20 send 2000
         20 > . 1:1001(1000) ack 1
         20 > P. 1001:2001(1000) ack 1
         30 < . 1:1(0) ack 2001 win 0
         40 send 500
         240 > . 2001:2002(1) ack 1
         245 < . 1:1(0) ack 2001 win 0
         640 > . 2001:2002(1) ack 1
         645 < . 1:1(0) ack 2002 win 9000
         645 > P. 2002:2501(499) ack 1
         646 count sndprobe 2",
    );
    play(
        "a window of ours that is full, probed by the peer, and opened",
        |s| s.receive_window_bytes = 2_000,
        &format!(
            "{OPEN}
             20 window 0
             20 < P. 1:1001(1000) ack 1
             20 < P. 1001:2001(1000) ack 1
             20 > . 1:1(0) ack 2001 win 0
             30 < . 2001:2002(1) ack 1
             30 > . 1:1(0) ack 2001 win 0
             30 count rcvwinprobe 1
             40 window 2000
             40 > . 1:1(0) ack 2001 win 2000
             40 got 2000"
        ),
    );
    play(
        "the initial window is what was set (RFC 6928)",
        |s| s.initial_window_segments = 2,
        &format!(
            "{OPEN}
             20 send 5000
             20 > . 1:1001(1000) ack 1
             20 > . 1001:2001(1000) ack 1
             30 < . 1:1(0) ack 2001
             30 > . 2001:3001(1000) ack 1
             30 > . 3001:4001(1000) ack 1
             30 > P. 4001:5001(1000) ack 1"
        ),
    );
    client(
        "our window closes as far as the peer knows it, and opens with an update (RFC 1122 4.2.3.3)",
        "20 window 0
         20 < P. 1:1001(1000) ack 1
         60 > . 1:1(0) ack 1001 win 64535
         70 window 65535
         70 > . 1:1(0) ack 1001 win 65535
         71 < P. 1001:2001(1000) ack 1
         111 > . 1:1(0) ack 2001 win 65535",
    );
    play(
        "Nagle: small segments wait for what is under way (RFC 1122 4.2.3.4)",
        |s| s.nagle = true,
        &format!(
            "{OPEN}
             20 send 10
             20 > P. 1:11(10) ack 1
             21 send 10
             22 send 1000
             22 > . 11:1011(1000) ack 1
             30 < . 1:1(0) ack 1011
             30 > P. 1011:1021(10) ack 1"
        ),
    );
}

#[test]
fn acknowledgements() {
    client(
        "every second segment at once, others after the delay (RFC 1122 4.2.3.2)",
        "20 < P. 1:1001(1000) ack 1
         21 < P. 1001:2001(1000) ack 1
         21 > . 1:1(0) ack 2001
         22 < P. 2001:2101(100) ack 1
         62 > . 1:1(0) ack 2101
         62 count delack 1",
    );
    play(
        "four segments, when that is set",
        |s| s.ack_segments = 4,
        &format!(
            "{OPEN}
             20 < . 1:1001(1000) ack 1
             20 < . 1001:2001(1000) ack 1
             20 < . 2001:3001(1000) ack 1
             20 < . 3001:4001(1000) ack 1
             20 > . 1:1(0) ack 4001"
        ),
    );
    client(
        "with payload of ours they cost nothing",
        "20 < P. 1:101(100) ack 1
         21 send 10
         21 > P. 1:11(10) ack 101
         30 < . 101:101(0) ack 11
         200 quiet
         200 count sndacks 1",
    );
    play(
        "PAWS: an old timestamp is acknowledged and dropped (RFC 7323 5)",
        |s| s.timestamps = true,
        "0 connect
         0 > S 0:0(0)
         5 < S. 0:0(0) ack 1 win 60000 <mss 1000,TS 1000/5000>
         5 > . 1:1(0) ack 1
         10 < P. 1:101(100) ack 1 <TS 1010/5000>
         50 > . 1:1(0) ack 101 <TS>
         51 < P. 101:201(100) ack 1 <TS 900/5000>
         51 > . 1:1(0) ack 101
         51 got 100
         51 count pawsdrop 1",
    );
    play(
        "ECN: agreed, echoed until heard, and a window reduced once (RFC 3168)",
        |s| s.ecn = true,
        "0 connect
         0 > SEW 0:0(0)
         10 < SE. 0:0(0) ack 1 win 60000 <mss 1000>
         10 > . 1:1(0) ack 1
         20 send 4000
         20 > . 1:1001(1000) ack 1 <ect>
         20 > . 1001:2001(1000) ack 1 <ect>
         20 > . 2001:3001(1000) ack 1 <ect>
         20 > P. 3001:4001(1000) ack 1 <ect>
         30 < E. 1:1(0) ack 1001
         31 < E. 1:1(0) ack 2001
         31 count ecn_rcwnd 1
         32 < . 1:1(0) ack 4001
         40 send 100
         40 > PW. 4001:4101(100) ack 1 <ect>
         50 < P. 1:101(100) ack 4101 <ce>
         50 > E. 4101:4101(0) ack 101
         60 < P. 101:201(100) ack 4101
         100 > E. 4101:4101(0) ack 201
         110 < PW. 201:301(100) ack 4101
         150 > . 4101:4101(0) ack 301",
    );
}

#[test]
fn time_wait() {
    play(
        "a new connection follows in TIME-WAIT when its numbers are newer (RFC 9293 3.6.1)",
        |_| (),
        "0 listen
         5 < S 0:0(0) win 60000 <mss 1000>
         5 > S. 0:0(0) ack 1
         9 < . 1:1(0) ack 1 win 60000
         10 close
         10 > F. 1:1(0) ack 1
         11 < F. 1:1(0) ack 2
         11 > . 2:2(0) ack 2
         11 is TimeWait
         20 < S -90000:-90000(0) win 60000 <mss 1000>
         20 > . 2:2(0) ack 2
         21 new
         21 < S 70000:70000(0) win 60000 <mss 1000>
         21 > S. 0:0(0) ack 70001
         21 count port_reuse 1",
    );
    play(
        "a reset ends it",
        |_| (),
        &format!(
            "{OPEN}
             20 close
             20 > F. 1:1(0) ack 1
             21 < F. 1:1(0) ack 2
             21 > . 2:2(0) ack 2
             22 < R 2:2(0)
             22 empty"
        ),
    );
}
