//! The counters of a TCP in user space, under the names that TRex prints and in its order, each with its meaning.
//!
//! What TRex counts too bears TRex's name, `tcps_` included, so that `prony import trex` and `prony traffic` fill one
//! table and can be compared. What TRex has not stands behind it under the stack's own name. The surprise is what is
//! missing: like TRex, a counter that is zero on both sides is left out, and in an imported table such a counter is
//! unknown and not zero.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name in the stack, whether TRex has it as `tcps_NAME`, meaning.
type Known = (&'static str, bool, &'static str);

/// In the order of TRex, then what it has not.
const TCP: [Known; 77] = [
    ("connattempt", true, "connections begun"),
    ("accepts", true, "connections accepted"),
    ("connects", true, "connections established"),
    ("closed", true, "connections closed, drops included"),
    (
        "drops",
        true,
        "established connections that ended by a reset or unacknowledged",
    ),
    (
        "conndrops",
        true,
        "connections that ended before they were established",
    ),
    (
        "timeoutdrop",
        true,
        "connections given up: retransmissions unacknowledged",
    ),
    (
        "segstimed",
        true,
        "segments whose round trip was to be timed",
    ),
    ("rttupdated", true, "round trips that were timed"),
    ("delack", true, "delayed acknowledgements sent"),
    ("sndtotal", true, "segments sent"),
    ("sndpack", true, "segments sent with new payload"),
    ("sndbyte", true, "payload bytes given by the program"),
    ("sndbyte_ok", true, "payload bytes sent for the first time"),
    ("sndctrl", true, "SYN, FIN and RST segments sent"),
    ("sndacks", true, "bare acknowledgements sent"),
    ("sndrexmitpack", true, "segments sent again"),
    ("sndrexmitbyte", true, "payload bytes sent again"),
    ("sndprobe", true, "probes of a closed window sent"),
    ("sndwinup", true, "window updates sent"),
    ("rexmttimeo", true, "retransmission timeouts"),
    (
        "rexmttimeo_syn",
        true,
        "retransmission timeouts of SYN or SYN-ACK",
    ),
    ("persisttimeo", true, "timeouts of a closed window"),
    (
        "persistdrop",
        true,
        "connections given up: the window stayed closed",
    ),
    ("keeptimeo", true, "keep-alive timeouts"),
    ("keepprobe", true, "keep-alive probes sent"),
    ("keepdrops", true, "connections given up by keep-alive"),
    ("rcvtotal", true, "segments received, merged ones as one"),
    (
        "rcvpack",
        true,
        "segments received in sequence with payload",
    ),
    ("rcvbyte", true, "payload bytes received in sequence"),
    (
        "rcvackpack",
        true,
        "segments that acknowledged something new",
    ),
    ("rcvackbyte", true, "payload bytes acknowledged"),
    (
        "rcvoffloads",
        true,
        "frames received into which segments were merged",
    ),
    (
        "preddat",
        true,
        "segments that were nothing but the next payload",
    ),
    (
        "predack",
        true,
        "segments that were nothing but a new acknowledgement",
    ),
    ("rcvbadsum", true, "segments with a wrong checksum"),
    ("rcvbadoff", true, "segments with a header that is none"),
    ("rcvshort", true, "segments shorter than they say"),
    ("rcvduppack", true, "segments received again"),
    ("rcvdupbyte", true, "payload bytes received again"),
    ("rcvpartduppack", true, "segments received again in part"),
    ("rcvpartdupbyte", true, "payload bytes of such a part"),
    ("rcvoopack", true, "segments received out of order"),
    ("rcvoobyte", true, "payload bytes received out of order"),
    (
        "rcvoopackdrop",
        true,
        "segments out of order that were not kept",
    ),
    ("rcvoobytesdrop", true, "payload bytes of such segments"),
    ("rcvpackafterwin", true, "segments beyond the window"),
    (
        "rcvafterclose",
        true,
        "segments with payload after the owner had closed",
    ),
    ("rcvwinprobe", true, "probes of our closed window received"),
    ("rcvwinupd", true, "window updates received"),
    ("rcvdupack", true, "duplicate acknowledgements received"),
    (
        "rcvacktoomuch",
        true,
        "acknowledgements of what was not sent",
    ),
    (
        "pawsdrop",
        true,
        "segments dropped: timestamp too old (PAWS)",
    ),
    (
        "badsyn",
        true,
        "SYN for a port without a listener, or beyond the limit",
    ),
    (
        "badrst",
        true,
        "RST outside the window, or not at its beginning",
    ),
    ("reasalloc", true, "chunks taken for what came out of order"),
    ("reasfree", true, "chunks given back"),
    ("nombuf", true, "segments dropped: no chunk or flow free"),
    (
        "sack_recovery_episode",
        true,
        "recoveries by SACK or duplicate acknowledgements",
    ),
    ("sack_rexmits", true, "segments sent again in recovery"),
    (
        "sack_rexmit_bytes",
        true,
        "payload bytes sent again in recovery",
    ),
    ("sack_rcv_blocks", true, "SACK blocks received"),
    ("sack_send_blocks", true, "SACK blocks sent"),
    (
        "sack_sboverflow",
        true,
        "SACK blocks for which there was no room",
    ),
    ("ecn_ce", true, "packets received that met congestion"),
    ("ecn_ect0", true, "packets received with ECT(0)"),
    ("ecn_ect1", true, "packets received with ECT(1)"),
    ("ecn_shs", true, "connections that agreed on ECN"),
    ("ecn_rcwnd", true, "windows reduced because of ECN"),
    ("err_l3_cs", false, "IP headers with a wrong checksum"),
    ("err_flow_overflow", false, "flows refused for want of room"),
    (
        "err_no_flow",
        false,
        "segments that belong to no connection",
    ),
    ("err_fragments_drop", false, "IP fragments dropped"),
    ("challenge_acks", false, "challenge ACKs sent"),
    ("rst_rcvd", false, "RSTs that ended a connection"),
    ("rst_sent", false, "RSTs sent"),
    ("port_reuse", false, "ports taken again from TIME-WAIT"),
];

/// Of the TCP that TRex has not, of the link and of UDP: name in the stack, name in a table, meaning.
const OTHERS: [(&str, &str, &str); 21] = [
    (
        "csum_partial",
        "csum_partial",
        "checksums received that hold only the pseudo header",
    ),
    (
        "spurious_rtos",
        "spurious_rtos",
        "retransmission timeouts that were undone, since nothing was lost",
    ),
    (
        "path_mtu_lowered",
        "path_mtu_lowered",
        "path MTU lowered by ICMP",
    ),
    (
        "tx_ring_full",
        "tx_ring_full",
        "sends that waited because the device was full",
    ),
    (
        "foreign_frames",
        "foreign_frames",
        "frames and packets for somebody else",
    ),
    (
        "unknown_frames",
        "unknown_frames",
        "frames of types that nobody here speaks",
    ),
    (
        "malformed_frames",
        "malformed_frames",
        "frames too short or impossible",
    ),
    ("asked", "asked", "neighbours asked for (ARP, ND)"),
    (
        "answered",
        "answered",
        "questions for our addresses answered",
    ),
    ("echoes", "echoes", "echo requests answered"),
    ("icmp_errors", "icmp_errors", "ICMP errors about our flows"),
    (
        "answers_dropped",
        "answers_dropped",
        "answers of the link not sent: too many waited",
    ),
    (
        "conflicts",
        "conflicts",
        "times that somebody else had an address of ours",
    ),
    ("udp_sent", "udps_sndpkt", "datagrams sent"),
    (
        "udp_sent_bytes",
        "udps_sndbyte",
        "payload bytes of datagrams sent",
    ),
    ("udp_received", "udps_rcvpkt", "datagrams received"),
    (
        "udp_received_bytes",
        "udps_rcvbyte",
        "payload bytes of datagrams received",
    ),
    (
        "udp_bad_checksums",
        "udp_bad_checksums",
        "datagrams with a wrong checksum",
    ),
    (
        "udp_malformed",
        "udp_malformed",
        "datagrams with a header that is none",
    ),
    (
        "udp_port_unreachable",
        "udp_port_unreachable",
        "datagrams for a port on which nobody listens",
    ),
    (
        "udp_undelivered",
        "udp_undelivered",
        "datagrams that could not be sent",
    ),
];

/// A counter of both sides; a side that was not ours, or of which the source says nothing, has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterRow {
    /// As TRex prints it, or the stack's own name.
    pub name: String,
    pub client: Option<u64>,
    pub server: Option<u64>,
    /// In words; empty for a name that this version does not know.
    pub meaning: String,
}

impl CounterRow {
    /// It says something: not zero on a side.
    pub fn is_told(&self) -> bool {
        self.client.unwrap_or(0) > 0 || self.server.unwrap_or(0) > 0
    }
}

/// What a counter means, by the name in a table; empty for an unknown one.
pub fn meaning(name: &str) -> &'static str {
    let plain = name.strip_prefix("tcps_").unwrap_or(name);
    let tcp = TCP.iter().find(|(known, ..)| *known == plain);
    let other = (OTHERS.iter()).find(|(known, printed, _)| [*known, *printed].contains(&name));
    tcp.map(|(.., meaning)| *meaning)
        .or_else(|| other.map(|(.., meaning)| *meaning))
        .unwrap_or("")
}

/// The name of a stack's counter in a table.
fn printed(name: &str) -> String {
    let is_trex = TCP.iter().any(|(known, trex, _)| *known == name && *trex);
    let other = OTHERS.iter().find(|(known, ..)| *known == name);
    match (is_trex, other) {
        (true, _) => format!("tcps_{name}"),
        (false, Some((_, printed, _))) => (*printed).to_owned(),
        (false, None) => name.to_owned(),
    }
}

/// Place in the table: TRex's order, then ours, then what this version does not know, by name.
fn place(name: &str) -> usize {
    let tcp = TCP.iter().position(|(known, ..)| *known == name);
    let other = || OTHERS.iter().position(|(known, ..)| *known == name);
    tcp.or_else(|| other().map(|at| TCP.len() + at))
        .unwrap_or(TCP.len() + OTHERS.len())
}

/// All counters of both sides as rows of a table, zeros included. A side that was not ours is `None`.
pub fn rows(
    client: Option<&BTreeMap<String, u64>>,
    server: Option<&BTreeMap<String, u64>>,
) -> Vec<CounterRow> {
    let mut names: Vec<&String> = client
        .into_iter()
        .chain(server)
        .flat_map(BTreeMap::keys)
        .collect();
    names.sort_by(|a, b| (place(a), a).cmp(&(place(b), b)));
    names.dedup();
    let value = |side: Option<&BTreeMap<String, u64>>, name: &String| side?.get(name).copied();
    names
        .into_iter()
        .map(|name| CounterRow {
            name: printed(name),
            client: value(client, name),
            server: value(server, name),
            meaning: meaning(name).to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_in_trex_order_under_its_names() {
        let side =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let client: BTreeMap<String, u64> = side(&[
            ("sndtotal", 9),
            ("connattempt", 2),
            ("rst_sent", 1),
            ("zzz", 3),
        ]);
        let server: BTreeMap<String, u64> = side(&[("accepts", 2), ("sndtotal", 7)]);
        let shown: Vec<_> = rows(Some(&client), Some(&server))
            .into_iter()
            .map(|r| (r.name, r.client, r.server))
            .collect();
        let row = |name: &str, client, server| (name.to_owned(), client, server);
        assert_eq!(
            shown,
            [
                row("tcps_connattempt", Some(2), None),
                row("tcps_accepts", None, Some(2)),
                row("tcps_sndtotal", Some(9), Some(7)),
                row("rst_sent", Some(1), None),
                row("zzz", Some(3), None),
            ]
        );
        assert_eq!(
            rows(Some(&client), None)[0].server,
            None,
            "a side of somebody else"
        );
    }

    #[test]
    fn every_counter_of_the_stack_has_a_meaning() {
        for (name, _) in stack::tcp::Counters::default().named() {
            assert!(!meaning(name).is_empty(), "{name}");
        }
        assert_eq!(meaning("tcps_delack"), meaning("delack"));
    }
}
