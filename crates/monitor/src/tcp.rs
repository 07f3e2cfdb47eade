//! `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/sockstat`: the kernel's TCP counters.
//!
//! The surprise: they count for a network namespace, not for a server, and both ends of a connection within one are in
//! them. So those of every namespace in which a target lives are read beside prony's own; the sum over all has
//! both ends of every connection, as it has where all live in one. TIME_WAIT comes from sockstat
//! because `/proc/net/tcp` takes 100 ms when there are many of them.

use crate::fields::{Field, FieldSource, Scale};
use crate::{Signal, Watched};
use linux::{Root, namespace};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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
    snmp("Tcp.InErrs", "tcp.in_errors", "segments"),
    snmp("Udp.InErrors", "udp.in_errors", "packets"),
    snmp("Udp.RcvbufErrors", "udp.rcvbuf_errors", "packets"),
    snmp("Udp.SndbufErrors", "udp.sndbuf_errors", "packets"),
    snmp("Udp.NoPorts", "udp.no_ports", "packets"),
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
    netstat("TcpExt.SyncookiesFailed", "tcp.syncookies_failed"),
    netstat("TcpExt.TCPReqQFullDoCookies", "tcp.req_q_full_cookies"),
    netstat("TcpExt.EmbryonicRsts", "tcp.embryonic_resets"),
    netstat("TcpExt.DelayedACKLost", "tcp.delayed_acks_lost"),
    netstat("TcpExt.DelayedACKLocked", "tcp.delayed_acks_locked"),
    netstat("TcpExt.TCPLostRetransmit", "tcp.lost_retransmits"),
    netstat("TcpExt.TCPFastRetrans", "tcp.fast_retransmits"),
    netstat("TcpExt.TCPSlowStartRetrans", "tcp.slow_start_retransmits"),
    netstat("TcpExt.TCPLossProbes", "tcp.loss_probes"),
    netstat("TcpExt.TCPRetransFail", "tcp.retransmit_fails"),
    netstat("TcpExt.TCPSpuriousRTOs", "tcp.spurious_timeouts"),
    netstat("TcpExt.TCPAbortOnData", "tcp.abort_on_data"),
    netstat("TcpExt.TCPAbortOnClose", "tcp.abort_on_close"),
    netstat("TcpExt.TCPAbortOnMemory", "tcp.abort_on_memory"),
    netstat("TcpExt.TCPAbortOnTimeout", "tcp.abort_on_timeout"),
    netstat("TcpExt.TCPAbortOnLinger", "tcp.abort_on_linger"),
    netstat("TcpExt.TCPAbortFailed", "tcp.abort_failed"),
    netstat("TcpExt.TCPRcvQDrop", "tcp.rcv_q_drop"),
    netstat("TcpExt.TCPOFODrop", "tcp.out_of_order_drop"),
    netstat("TcpExt.RcvPruned", "tcp.rcv_pruned"),
    netstat("TcpExt.TCPZeroWindowDrop", "tcp.zero_window_drop"),
    netstat("TcpExt.TCPToZeroWindowAdv", "tcp.to_zero_window"),
    netstat("TcpExt.TCPFromZeroWindowAdv", "tcp.from_zero_window"),
    netstat("TcpExt.TCPWantZeroWindowAdv", "tcp.want_zero_window"),
    netstat("TcpExt.TCPWinProbe", "tcp.window_probes"),
    netstat("TcpExt.TCPMemoryPressures", "tcp.memory_pressures"),
    netstat("TcpExt.TCPTimeWaitOverflow", "tcp.time_wait_overflow"),
    netstat("TcpExt.TWRecycled", "tcp.tw_recycled"),
    netstat("TcpExt.PAWSActive", "tcp.paws_active"),
    netstat("TcpExt.PAWSEstab", "tcp.paws_established"),
    netstat("TcpExt.PAWSTimewait", "tcp.paws_time_wait"),
    netstat("TcpExt.TCPChallengeACK", "tcp.challenge_acks"),
    netstat("TcpExt.TCPDeferAcceptDrop", "tcp.defer_accept_drop"),
    netstat("TcpExt.TCPAutoCorking", "tcp.auto_corking"),
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

/// Those of [`SOCKSTAT`] that the kernel keeps by namespace; the others are the host's.
const SOCKSTAT_BY_NAMESPACE: &[Field] = &[SOCKSTAT[0], SOCKSTAT[2]];

/// The three files of prony's own namespace, and of every other that a target's processes are in: those are read
/// through one of its processes and labelled with the targets' names.
pub fn sources(root: &Root, targets: &[Watched]) -> Vec<FieldSource> {
    let mut sources = Vec::from(of_namespace(root, "proc/net", SOCKSTAT));
    for (pid, names) in foreign(root, targets) {
        let names: Vec<&str> = names.into_iter().collect();
        let directory = format!("proc/{pid}/net");
        let found = of_namespace(root, &directory, SOCKSTAT_BY_NAMESPACE);
        let names = names.join(", ");
        sources.extend(found.map(|source| source.labelled("namespace", &names)));
    }
    sources
}

/// The files of the namespace that `directory` shows.
fn of_namespace(root: &Root, directory: &str, sockstat: &'static [Field]) -> [FieldSource; 3] {
    let file = |name: &str| format!("{directory}/{name}");
    [
        FieldSource::new("tcp (snmp)", root, &file("snmp"), NEEDS, SNMP, parse_pairs),
        FieldSource::new(
            "tcp (netstat)",
            root,
            &file("netstat"),
            NEEDS,
            NETSTAT,
            parse_pairs,
        ),
        FieldSource::new(
            "tcp (sockstat)",
            root,
            &file("sockstat"),
            NEEDS,
            sockstat,
            parse_sockstat,
        ),
    ]
}

/// One process of each other network namespace, and the targets that live there.
fn foreign<'a>(root: &Root, targets: &'a [Watched]) -> BTreeMap<i32, BTreeSet<&'a str>> {
    let own = namespace::of(root, "self");
    let mut by_name: BTreeMap<PathBuf, (i32, BTreeSet<&str>)> = BTreeMap::new();
    for (pid, target) in targets
        .iter()
        .flat_map(|t| t.pids.iter().map(|pid| (*pid, t.target.as_str())))
    {
        let Some(name) = namespace::of(root, &pid.to_string()) else {
            continue;
        };
        if own.is_some() && own.as_ref() != Some(&name) {
            let (_, names) = by_name.entry(name).or_insert((pid, BTreeSet::new()));
            names.insert(target);
        }
    }
    by_name.into_values().collect()
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
        if protocol == same {
            find_numbers(protocol, names, numbers, fields, &mut found);
        }
    }
    found
}

/// Of one protocol's pair of lines. There are some 130 names, so the fields are narrowed down first.
fn find_numbers(
    protocol: &str,
    names: &str,
    numbers: &str,
    fields: &[Field],
    found: &mut [Option<f64>],
) {
    let wanted: Vec<(usize, &str)> = fields
        .iter()
        .map(split)
        .enumerate()
        .filter_map(|(i, (of, name))| (of == protocol).then_some((i, name)))
        .collect();
    if wanted.is_empty() {
        return;
    }
    let pairs = names
        .split_ascii_whitespace()
        .zip(numbers.split_ascii_whitespace());
    for (name, number) in pairs {
        if let Some((i, _)) = wanted.iter().find(|(_, wanted)| *wanted == name) {
            found[*i] = number.parse().ok();
        }
    }
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
    use crate::{Pass, Recorder, Source};
    use record::Nanos;

    const SNMP_TEXT: &str = "Ip: Forwarding InReceives\nIp: 2 9291\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets \
        CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n\
        Tcp: 1 200 120000 -1 88 2 3 71 4 9117 6012 1 0 79 0\n";

    #[test]
    fn snmp_by_name() {
        let (series, unavailable) = once("proc/net/snmp", SNMP_TEXT, |root| {
            sources(root, &[]).into_iter().next().unwrap()
        });
        // The text has no counters of UDP.
        assert!(unavailable.iter().all(|gap| gap.what.starts_with("udp.")));
        assert_eq!(unavailable.len(), 4);
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
                ("tcp.in_errors", 0.0),
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
            sources(root, &[]).into_iter().next_back().unwrap()
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

    /// A root whose namespaces are those of `(process, namespace)`, each with one passive open a process id.
    fn namespaces(processes: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |directory: &str, opens: &str| {
            let directory = dir.path().join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            let text = format!("Tcp: PassiveOpens\nTcp: {opens}\n");
            std::fs::write(directory.join("snmp"), text).unwrap();
            let text = "TCP: inuse 5 orphan 6 tw 7 alloc 8 mem 9\n";
            std::fs::write(directory.join("sockstat"), text).unwrap();
        };
        put("proc/net", "1");
        for (process, namespace) in processes {
            let ns = dir.path().join(format!("proc/{process}/ns"));
            std::fs::create_dir_all(&ns).unwrap();
            std::os::unix::fs::symlink(namespace, ns.join("net")).unwrap();
            put(&format!("proc/{process}/net"), process);
        }
        dir
    }

    fn watched(target: &str, pids: &[i32]) -> Watched {
        Watched {
            target: target.to_owned(),
            pids: pids.to_vec(),
        }
    }

    /// Signal, label and value of what the sources say of a root.
    fn said(root: &Root, targets: &[Watched], signal: &str) -> Vec<(Option<String>, f64)> {
        let mut out = Recorder::default();
        for mut source in sources(root, targets) {
            source.sample(Nanos(1), Pass::Fast, &mut out);
        }
        let (series, _) = out.finish();
        let found = series.iter().filter(|s| s.signal == signal);
        found
            .map(|s| (s.label("namespace").map(str::to_owned), s.values[0]))
            .collect()
    }

    #[test]
    fn every_namespace_of_a_target_counts_once() {
        let dir = namespaces(&[
            ("self", "net:[1]"),
            ("20", "net:[2]"),
            ("21", "net:[2]"),
            ("30", "net:[2]"),
            ("40", "net:[3]"),
            ("50", "net:[1]"),
        ]);
        let root = Root::new(dir.path());
        let targets = [
            watched("proxy", &[20, 21]),
            watched("cache", &[30]),
            watched("backend", &[40, 99]),
            watched("near", &[50]),
        ];
        let name = |text: &str| Some(text.to_owned());
        assert_eq!(
            said(&root, &targets, "tcp.passive_opens"),
            [
                (None, 1.0),
                (name("cache, proxy"), 20.0),
                (name("backend"), 40.0)
            ]
        );
        assert_eq!(said(&root, &targets, "tcp.in_use").len(), 3);
        // The memory is the host's: a sum over namespaces would count it again.
        assert_eq!(said(&root, &targets, "tcp.memory_bytes").len(), 1);
    }

    #[test]
    fn in_one_namespace_nothing_is_labelled() {
        let dir = namespaces(&[("self", "net:[1]"), ("20", "net:[1]")]);
        let root = Root::new(dir.path());
        let alone = said(&root, &[], "tcp.passive_opens");
        assert_eq!(
            said(&root, &[watched("web", &[20])], "tcp.passive_opens"),
            alone
        );
        assert_eq!(alone, [(None, 1.0)]);
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
