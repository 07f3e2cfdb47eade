//! `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/sockstat`: the kernel's TCP counters.
//!
//! The surprise: they count for the network namespace that prony runs in, not for a server, and both
//! ends of a loopback connection are in them. TIME_WAIT comes from sockstat because `/proc/net/tcp` takes
//! 100 ms when there are many of them.

use crate::fields::{Field, FieldSource, Scale};
use crate::{Root, Signal};

const SNMP_FILE: &str = "/proc/net/snmp";
const NETSTAT_FILE: &str = "/proc/net/netstat";
const SOCKSTAT_FILE: &str = "/proc/net/sockstat";
const NEEDS: &str = "use a kernel with CONFIG_INET";

const fn snmp(key: &'static str, name: &'static str, unit: &'static str) -> Field {
    Field {
        key,
        scale: Scale::One,
        signal: Signal::counter(name, unit, SNMP_FILE),
    }
}

const fn netstat(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::One,
        signal: Signal::counter(name, "calls", NETSTAT_FILE),
    }
}

const fn sockets(key: &'static str, name: &'static str) -> Field {
    Field {
        key,
        scale: Scale::One,
        signal: Signal::gauge(name, "sockets", SOCKSTAT_FILE),
    }
}

/// Of `/proc/net/snmp` (RFC 4022 names).
pub const SNMP: &[Field] = &[
    snmp("Tcp.ActiveOpens", "tcp.active_opens", "connections"),
    snmp("Tcp.PassiveOpens", "tcp.passive_opens", "connections"),
    snmp("Tcp.AttemptFails", "tcp.attempt_fails", "connections"),
    snmp("Tcp.EstabResets", "tcp.estab_resets", "connections"),
    snmp("Tcp.InSegs", "tcp.in_segs", "segments"),
    snmp("Tcp.OutSegs", "tcp.out_segs", "segments"),
    snmp("Tcp.RetransSegs", "tcp.retrans_segs", "segments"),
    snmp("Tcp.OutRsts", "tcp.out_rsts", "segments"),
    Field {
        key: "Tcp.CurrEstab",
        scale: Scale::One,
        signal: Signal::gauge("tcp.established", "connections", SNMP_FILE),
    },
];

/// Of `/proc/net/netstat` (net/ipv4/proc.c names).
pub const NETSTAT: &[Field] = &[
    netstat("TcpExt.ListenOverflows", "tcp.listen_overflows"),
    netstat("TcpExt.ListenDrops", "tcp.listen_drops"),
    netstat("TcpExt.SyncookiesSent", "tcp.syncookies_sent"),
    netstat("TcpExt.TCPReqQFullDrop", "tcp.req_q_full_drop"),
    netstat("TcpExt.DelayedACKs", "tcp.delayed_acks"),
    netstat("TcpExt.TCPTimeouts", "tcp.timeouts"),
    netstat("TcpExt.TCPSynRetrans", "tcp.syn_retrans"),
    netstat("TcpExt.TCPRcvCollapsed", "tcp.rcv_collapsed"),
    netstat("TcpExt.PruneCalled", "tcp.prune_called"),
    netstat("TcpExt.TW", "tcp.tw"),
    netstat("TcpExt.TCPBacklogDrop", "tcp.backlog_drop"),
];

/// Of `/proc/net/sockstat`.
pub const SOCKSTAT: &[Field] = &[
    sockets("TCP.inuse", "tcp.in_use"),
    sockets("TCP.orphan", "tcp.orphans"),
    sockets("TCP.tw", "tcp.time_wait"),
    Field {
        key: "TCP.mem",
        scale: Scale::Pages,
        signal: Signal::gauge("tcp.memory_bytes", "bytes", SOCKSTAT_FILE),
    },
];

/// The three sources.
pub fn sources(root: &Root) -> [FieldSource; 3] {
    [
        FieldSource::new(
            "tcp (snmp)",
            root,
            "proc/net/snmp",
            NEEDS,
            SNMP,
            parse_pairs,
        ),
        FieldSource::new(
            "tcp (netstat)",
            root,
            "proc/net/netstat",
            NEEDS,
            NETSTAT,
            parse_pairs,
        ),
        FieldSource::new(
            "tcp (sockstat)",
            root,
            "proc/net/sockstat",
            NEEDS,
            SOCKSTAT,
            parse_sockstat,
        ),
    ]
}

/// Splits `Tcp.InSegs`; the keys are constants of this file, so all have the dot.
fn split(field: &Field) -> (&'static str, &'static str) {
    field.key.split_once('.').unwrap_or((field.key, ""))
}

/// Reads snmp and netstat: a line of names, then a line of numbers, both with the protocol in front.
pub fn parse_pairs(text: &str, fields: &[Field]) -> Vec<Option<f64>> {
    let mut found = vec![None; fields.len()];
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, numbers))) =
            (names.split_once(':'), numbers.split_once(':'))
        else {
            continue;
        };
        if protocol != same {
            continue;
        }
        let numbers = names
            .split_ascii_whitespace()
            .zip(numbers.split_ascii_whitespace());
        for (name, number) in numbers {
            if let Some(i) = fields.iter().position(|f| split(f) == (protocol, name)) {
                found[i] = number.parse().ok();
            }
        }
    }
    found
}

/// Reads sockstat: a protocol, then names and numbers in turn.
pub fn parse_sockstat(text: &str, fields: &[Field]) -> Vec<Option<f64>> {
    fields
        .iter()
        .map(|field| {
            let (protocol, name) = split(field);
            let line = text.lines().find_map(|line| {
                let (found, rest) = line.split_once(':')?;
                (found == protocol).then_some(rest)
            })?;
            let mut words = line
                .split_ascii_whitespace()
                .skip_while(|word| *word != name);
            words.nth(1)?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{once, values};

    const SNMP_TEXT: &str = "Ip: Forwarding InReceives\nIp: 2 9291\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n\
        Tcp: 1 200 120000 -1 88 2 3 71 4 9117 6012 1 0 79 0\n";

    #[test]
    fn snmp_by_name() {
        let (series, unavailable) = once("proc/net/snmp", SNMP_TEXT, |root| {
            sources(root).into_iter().next().unwrap()
        });
        assert_eq!(unavailable, []);
        assert_eq!(
            values(&series),
            [
                ("tcp.active_opens", 88.0),
                ("tcp.passive_opens", 2.0),
                ("tcp.attempt_fails", 3.0),
                ("tcp.estab_resets", 71.0),
                ("tcp.in_segs", 9117.0),
                ("tcp.out_segs", 6012.0),
                ("tcp.retrans_segs", 1.0),
                ("tcp.out_rsts", 79.0),
                ("tcp.established", 4.0),
            ]
        );
    }

    #[test]
    fn netstat_takes_the_protocols_own_counter() {
        // `TCPTimeouts` is asked of TcpExt; another protocol's counter of that name must not answer.
        let text = "MPTcpExt: TCPTimeouts TW\nMPTcpExt: 99 98\nTcpExt: TW TCPTimeouts ListenOverflows\nTcpExt: 7 5 3\n";
        let found = parse_pairs(text, NETSTAT);
        let value = |key: &str| found[NETSTAT.iter().position(|f| f.key == key).unwrap()];
        assert_eq!(value("TcpExt.TW"), Some(7.0));
        assert_eq!(value("TcpExt.TCPTimeouts"), Some(5.0));
        assert_eq!(value("TcpExt.ListenOverflows"), Some(3.0));
        assert_eq!(value("TcpExt.ListenDrops"), None);
    }

    #[test]
    fn sockstat_in_sockets_and_bytes() {
        let text =
            "sockets: used 20\nTCP: inuse 1 orphan 2 tw 30 alloc 4 mem 5\nUDP: inuse 9 mem 9\n";
        let (series, _) = once("proc/net/sockstat", text, |root| {
            sources(root).into_iter().next_back().unwrap()
        });
        let memory = 5.0 * rustix::param::page_size() as f64;
        assert_eq!(
            values(&series),
            [
                ("tcp.in_use", 1.0),
                ("tcp.orphans", 2.0),
                ("tcp.time_wait", 30.0),
                ("tcp.memory_bytes", memory),
            ]
        );
    }

    #[test]
    fn a_strange_text_finds_nothing() {
        for text in [
            "",
            "Tcp: InSegs\n",
            "Tcp: InSegs\nUdp: 5\n",
            "Tcp: InSegs\nTcp: many\n",
        ] {
            assert!(
                parse_pairs(text, SNMP).iter().all(Option::is_none),
                "{text:?}"
            );
        }
        for text in ["", "TCP: inuse\n", "TCP inuse 5\n"] {
            assert!(
                parse_sockstat(text, SOCKSTAT).iter().all(Option::is_none),
                "{text:?}"
            );
        }
    }
}
