//! Lines that say a number by a fixed wording, and messages of logs: one table for all tools.
//!
//! In a wording `#` is a number and everything else a word; punctuation between words counts for nothing, so that the
//! same wording finds `net.core.somaxconn = 128`, `somaxconn: 128` and a line of a log around it. The surprise is what
//! ends an artefact: a number that comes a second time belongs to the next call of the tool.

use super::pieces::{Piece, value};
use record::pasted::Artefact;
use std::sync::OnceLock;

/// How a number goes into an artefact.
#[derive(Clone, Copy, PartialEq)]
enum How {
    /// It stands there once.
    Once,
    /// Several lines add up: one of each CPU, one of each run.
    Sum,
    /// The largest of several.
    Largest,
    /// The line is counted.
    Count,
}
use How::{Count, Largest, Once, Sum};

/// Tool, wording, names of its numbers in order (`-` for one that is not kept), how.
type Wording = (&'static str, &'static str, &'static [&'static str], How);

const NETSTAT: &str = "netstat -s";
const LOG: &str = "log";
const HAPROXY: &str = "show info";
pub(super) const LOAD: &str = "part of a load generator's output";
const SS: &str = "ss -s";
const FPM: &str = "php-fpm status";

#[rustfmt::skip]
const WORDINGS: &[Wording] = &[
    (NETSTAT, "# times the listen queue of a socket overflowed", &["netstat.listen_overflows"], Once),
    (NETSTAT, "# listen queue overflows", &["netstat.listen_overflows"], Once),
    (NETSTAT, "# SYNs to LISTEN sockets", &["netstat.listen_drops"], Once),
    (NETSTAT, "# SYN cookies sent", &["netstat.syn_cookies"], Once),
    (NETSTAT, "# data packets # bytes retransmitted", &["netstat.retransmits", "-"], Once),
    (NETSTAT, "# data packets # bytes", &["netstat.sent", "-"], Once),
    (NETSTAT, "# segments retransmited", &["netstat.retransmits"], Once),
    (NETSTAT, "# segments retransmitted", &["netstat.retransmits"], Once),
    (NETSTAT, "# segments send out", &["netstat.sent"], Once),
    (NETSTAT, "# segments sent out", &["netstat.sent"], Once),
    (NETSTAT, "# packets pruned from receive queue", &["netstat.pruned"], Once),
    (NETSTAT, "# packets collapsed in receive queue", &["netstat.collapsed"], Once),
    (NETSTAT, "# delayed acks sent", &["netstat.delayed_acks"], Once),
    (NETSTAT, "# failed connection attempts", &["netstat.connect_failures"], Once),
    (NETSTAT, "# connection resets received", &["netstat.resets"], Once),
    (NETSTAT, "# passive connections rejected because of time stamp", &["netstat.paws_passive"], Once),
    (NETSTAT, "# packet receive errors", &["netstat.udp_receive_errors"], Once),
    (NETSTAT, "# receive buffer errors", &["netstat.udp_buffer_errors"], Once),
    (NETSTAT, "# TCP sockets finished time wait", &["netstat.time_wait"], Sum),
    ("sockstat", "TCP inuse # orphan # tw # alloc # mem #", &["sockets.used", "sockets.orphans", "sockets.time_wait", "-", "sockets.memory_pages"], Once),
    (SS, "TCP # estab # closed # orphaned # synrecv # timewait #", &["sockets.all", "sockets.established", "-", "sockets.orphans", "sockets.syn_recv", "sockets.time_wait"], Once),
    (SS, "TCP # estab # closed # orphaned # timewait #", &["sockets.all", "sockets.established", "-", "sockets.orphans", "sockets.time_wait"], Once),
    ("conntrack -S", "found # invalid # insert_failed # drop # early_drop #", &["-", "conntrack.invalid", "conntrack.insert_failed", "conntrack.drop", "conntrack.early_drop"], Sum),
    ("conntrack -S", "found # invalid # insert # insert_failed # drop # early_drop #", &["-", "conntrack.invalid", "-", "conntrack.insert_failed", "conntrack.drop", "conntrack.early_drop"], Sum),
    ("conntrack -S", "found # invalid # ignore # insert # insert_failed # drop # early_drop #", &["-", "conntrack.invalid", "-", "-", "conntrack.insert_failed", "conntrack.drop", "conntrack.early_drop"], Sum),
    ("conntrack -S", "found # new # invalid # ignore # delete # delete_list # insert # insert_failed # drop # early_drop #", &["-", "-", "conntrack.invalid", "-", "-", "-", "-", "conntrack.insert_failed", "conntrack.drop", "conntrack.early_drop"], Sum),
    ("sysctl", "nf_conntrack_count #", &["conntrack.count"], Once),
    ("sysctl", "nf_conntrack_max #", &["conntrack.max"], Once),
    ("sysctl", "net.core.somaxconn #", &["sysctl.somaxconn"], Once),
    ("sysctl", "ip_local_port_range # #", &["sysctl.port_low", "sysctl.port_high"], Once),
    ("sysctl", "tcp_tw_recycle #", &["sysctl.tw_recycle"], Once),
    ("sysctl", "tcp_max_syn_backlog #", &["sysctl.syn_backlog"], Once),
    ("sysctl", "tcp_mem # # #", &["sysctl.tcp_mem_low", "sysctl.tcp_mem_pressure", "sysctl.tcp_mem_high"], Once),
    ("sysctl", "tcp_rmem # # #", &["-", "-", "sysctl.tcp_rmem_max"], Once),
    ("limits", "Max open files # #", &["limits.files", "-"], Once),
    ("limits", "open files -n #", &["limits.files"], Once),
    ("cpu.stat", "nr_periods #", &["throttle.periods"], Once),
    ("cpu.stat", "nr_throttled #", &["throttle.throttled"], Once),
    ("cpu.stat", "throttled_time #", &["throttle.time_ns"], Once),
    ("cpu.stat", "throttled_usec #", &["throttle.time_us"], Once),
    ("pressure", "some avg10 # avg60 # avg300 #", &["pressure.some10", "-", "-"], Largest),
    ("pressure", "full avg10 # avg60 # avg300 #", &["pressure.full10", "-", "-"], Largest),
    ("top", "load average # # #", &["load.one", "-", "load.fifteen"], Once),
    ("top", "load averages # # #", &["load.one", "-", "load.fifteen"], Once),
    ("lscpu", "CPU(s) #", &["host.cpus"], Once),
    ("free", "Swap # total # used", &["memory.swap_total", "memory.swap_used"], Once),
    ("free", "Swap # total # free # used", &["memory.swap_total", "-", "memory.swap_used"], Once),
    ("free", "Swap # #", &["memory.swap_total", "memory.swap_used"], Once),
    ("free", "Mem # # # # # #", &["memory.total", "memory.used", "-", "-", "-", "memory.available"], Once),
    (HAPROXY, "Idle_pct #", &["haproxy.idle"], Once),
    (HAPROXY, "Run_queue #", &["haproxy.run_queue"], Once),
    (HAPROXY, "Nbthread #", &["haproxy.threads"], Once),
    (HAPROXY, "Maxconn #", &["haproxy.maxconn"], Once),
    (HAPROXY, "CurrConns #", &["haproxy.connections"], Once),
    (HAPROXY, "CumConns #", &["haproxy.all_connections"], Once),
    (HAPROXY, "CumReq #", &["haproxy.requests"], Once),
    (HAPROXY, "CumSslConns #", &["haproxy.all_tls_connections"], Once),
    (HAPROXY, "SslCacheLookups #", &["haproxy.tls_lookups"], Once),
    (HAPROXY, "SslCacheMisses #", &["haproxy.tls_misses"], Once),
    (HAPROXY, "SslFrontendKeyRate #", &["haproxy.tls_keys_per_s"], Once),
    (HAPROXY, "SslFrontendSessionReuse_pct #", &["haproxy.tls_reuse"], Once),
    (HAPROXY, "ConnRate #", &["haproxy.connections_per_s"], Once),
    (HAPROXY, "PoolFailed #", &["haproxy.pool_failed"], Once),
    ("stub_status", "Active connections #", &["nginx.active"], Once),
    ("stub_status", "Reading # Writing # Waiting #", &["nginx.reading", "nginx.writing", "nginx.waiting"], Once),
    ("stub_status", "server accepts handled requests # # #", &["nginx.accepts", "nginx.handled", "nginx.requests"], Once),
    ("server-status", "BusyWorkers #", &["apache.busy"], Once),
    ("server-status", "IdleWorkers #", &["apache.idle"], Once),
    ("server-status", "# requests currently being processed # idle workers", &["apache.busy", "apache.idle"], Once),
    (FPM, "listen queue #", &["fpm.queue"], Once),
    (FPM, "max listen queue #", &["fpm.queue_max"], Once),
    (FPM, "active processes #", &["fpm.active"], Once),
    (FPM, "idle processes #", &["fpm.idle"], Once),
    (FPM, "max children reached #", &["fpm.max_children_reached"], Once),
    (LOG, "worker_connections are not enough", &["log.worker_connections"], Count),
    (LOG, "Too many open files", &["log.too_many_files"], Count),
    (LOG, "EMFILE", &["log.too_many_files"], Count),
    (LOG, "Cannot assign requested address", &["log.no_local_port"], Count),
    (LOG, "EADDRNOTAVAIL", &["log.no_local_port"], Count),
    (LOG, "Address already in use while connecting", &["log.bind_in_use"], Count),
    (LOG, "Cannot bind to source address before connect", &["log.bind_in_use"], Count),
    (LOG, "upstream timed out 110 Connection timed out while connecting to upstream", &["log.upstream_connect_timeout"], Count),
    (LOG, "upstream timed out 110 Operation timed out while connecting to upstream", &["log.upstream_connect_timeout"], Count),
    (LOG, "upstream timed out", &["log.upstream_timeout"], Count),
    (LOG, "upstream prematurely closed connection", &["log.upstream_closed"], Count),
    (LOG, "recv failed 104 Connection reset by peer while reading response header from upstream", &["log.upstream_closed"], Count),
    (LOG, "no live upstreams", &["log.no_live_upstreams"], Count),
    (LOG, "connect failed 111 Connection refused while connecting to upstream", &["log.upstream_refused"], Count),
    (LOG, "failed 11 Resource temporarily unavailable while connecting to upstream", &["log.unix_backlog"], Count),
    (LOG, "buffered to a temporary file", &["log.buffered_to_file"], Count),
    (LOG, "limiting requests", &["log.limiting_requests"], Count),
    (LOG, "delaying request", &["log.limiting_requests"], Count),
    (LOG, "limiting connections by zone", &["log.limiting_connections"], Count),
    (LOG, "reached pm.max_children", &["log.php_max_children"], Count),
    (LOG, "reached max_children setting", &["log.php_max_children"], Count),
    (LOG, "reached MaxRequestWorkers setting", &["log.apache_workers"], Count),
    (LOG, "reached MaxClients setting", &["log.apache_workers"], Count),
    (LOG, "nf_conntrack table full", &["log.conntrack_full"], Count),
    (LOG, "ip_conntrack table full", &["log.conntrack_full"], Count),
    (LOG, "possible SYN flooding on port", &["log.syn_flood"], Count),
    (LOG, "time wait bucket table overflow", &["log.time_wait_overflow"], Count),
    (LOG, "out of memory consider tuning tcp_mem", &["log.tcp_mem"], Count),
    (LOG, "too many orphaned sockets", &["log.orphans"], Count),
    (LOG, "Out of memory Kill process", &["log.oom"], Count),
    (LOG, "Out of memory Killed process", &["log.oom"], Count),
    (LOG, "oom-kill", &["log.oom"], Count),
    (LOG, "invoked oom-killer", &["log.oom"], Count),
    (LOG, "Tasks state memory values in pages", &["log.oom"], Count),
    (LOG, "Listen queue overflow", &["log.listen_full"], Count),
    (LOG, "scoreboard is full not at MaxRequestWorkers", &["log.apache_scoreboard"], Count),
    (LOG, "neighbour table overflow", &["log.neighbours"], Count),
    (LOG, "neighbor table overflow", &["log.neighbours"], Count),
    (LOG, "blocked for more than # seconds", &["-"], Count),
    (LOG, "Connection is not available request timed out after", &["log.pool_exhausted"], Count),
    (LOG, "Timeout waiting for connection from pool", &["log.pool_exhausted"], Count),
    (LOG, "QueuePool limit of size", &["log.pool_exhausted"], Count),
    (LOG, "Pool exhausted", &["log.pool_exhausted"], Count),
    (LOG, "too many clients already", &["log.database_connections"], Count),
    (LOG, "remaining connection slots are reserved", &["log.database_connections"], Count),
    (LOG, "Too many connections", &["log.database_connections"], Count),
    (LOG, "All threads # are currently busy", &["-"], Count),
    (LOG, "Maximum number of threads # created for connector", &["-"], Count),
    (LOG, "could not be resolved 110 Operation timed out", &["log.dns"], Count),
    (LOG, "Temporary failure in name resolution", &["log.dns"], Count),
    (LOG, "GC overhead limit exceeded", &["log.gc_overhead"], Count),
    (LOG, "uWSGI listen queue of socket", &["log.listen_full"], Count),
    (LOG, "Read from DNS server failed", &["log.dns"], Count),
    (LOG, "53 i/o timeout", &["log.dns"], Count),
    (LOAD, "finished in # # req/s", &["-", "load.rate_per_s"], Once),
    (LOAD, "requests # total # started # done # succeeded # failed # errored # timeout", &["load.requests", "-", "-", "-", "load.not_answered", "-", "load.timeouts"], Once),
    (LOAD, "Latency # ms # ms # ms # ms # ms # ms # ms", &["-", "load.p50_ms", "-", "load.p99_ms", "load.mean_ms", "-", "load.max_ms"], Once),
    (LOAD, "Req/Sec # # # # # # #", &["-", "-", "-", "-", "load.rate_per_s", "-", "-"], Once),
    (LOAD, "Requests/sec #", &["load.rate_per_s"], Once),
    (LOAD, "Requests per second #", &["load.rate_per_s"], Once),
    (LOAD, "# connections with # pipelining factor", &["load.connections", "-"], Once),
    (LOAD, "# threads and # connections", &["-", "load.connections"], Once),
    (LOAD, "# requests in # # read", &["load.requests", "-", "-"], Once),
    (LOAD, "Socket errors connect # read # write # timeout #", &["wrk.connect_errors", "wrk.read_errors", "-", "load.timeouts"], Once),
    (LOAD, "apr_socket_recv Connection reset by peer", &["load.ended_by_error"], Count),
    (LOAD, "apr_socket_connect Connection refused", &["load.ended_by_error"], Count),
    (LOAD, "apr_pollset_poll The timeout specified has expired", &["load.ended_by_error"], Count),
    (LOAD, "Complete requests #", &["load.requests"], Once),
    (LOAD, "Non-2xx responses #", &["load.not_answered"], Once),
    (LOAD, "Concurrency Level #", &["load.connections"], Once),
    (LOAD, "Connect # # # # #", &["-", "-", "-", "-", "load.connect_max"], Once),
    (LOAD, "Non-2xx or 3xx responses #", &["load.not_answered"], Once),
];

/// Messages whose number is no figure, with the name of their count.
const COUNTED: [(&str, &str); 3] = [
    ("blocked for more than # seconds", "log.hung_task"),
    ("All threads # are currently busy", "log.threads_busy"),
    (
        "Maximum number of threads # created for connector",
        "log.threads_busy",
    ),
];

/// Counters of the kernel by its own names, as `nstat`, `netstat -s` and the two files below /proc/net have them.
const COUNTERS: [(&str, &str); 24] = [
    ("ListenOverflows", "netstat.listen_overflows"),
    ("ListenDrops", "netstat.listen_drops"),
    ("SyncookiesSent", "netstat.syn_cookies"),
    ("TCPReqQFullDoCookies", "netstat.syn_queue_full"),
    ("TCPReqQFullDrop", "netstat.syn_drops"),
    ("TCPBacklogDrop", "netstat.backlog_drops"),
    ("PruneCalled", "netstat.pruned"),
    ("TCPRcvCollapsed", "netstat.collapsed"),
    ("TCPTimeouts", "netstat.timeouts"),
    ("TCPSynRetrans", "netstat.syn_retransmits"),
    ("RetransSegs", "netstat.retransmits"),
    ("OutSegs", "netstat.sent"),
    ("AttemptFails", "netstat.connect_failures"),
    ("EstabResets", "netstat.resets"),
    ("DelayedACKs", "netstat.delayed_acks"),
    ("TCPMemoryPressures", "netstat.memory_pressures"),
    ("TCPAbortOnMemory", "netstat.aborted_for_memory"),
    ("TCPTimeWaitOverflow", "netstat.time_wait_overflow"),
    ("PAWSPassive", "netstat.paws_passive"),
    ("TCPToZeroWindowAdv", "netstat.zero_windows"),
    ("TCPWantZeroWindowAdv", "netstat.zero_windows_wanted"),
    ("TCPRcvQDrop", "netstat.receive_drops"),
    ("RcvbufErrors", "netstat.udp_buffer_errors"),
    ("TCPOFOQueue", "netstat.out_of_order"),
];

/// What the lines of a text say, an artefact for each call of a tool.
pub(super) fn read(lines: &[Vec<Piece<'_>>]) -> Vec<Artefact> {
    let mut found = Found::default();
    let mut names: Option<&[Piece<'_>]> = None;
    for (number, line) in (1_u32..).zip(lines) {
        if let Some(heads) = names.take().filter(|heads| pair(heads, line)) {
            for (name, value_piece) in heads.iter().zip(line) {
                if let (Some(ours), Some(n)) = (counter(name.text), value(value_piece.text)) {
                    found.put(NETSTAT, ours, n, Once, number);
                }
            }
            continue;
        }
        if line.len() > 4 && line[1..].iter().all(|p| value(p.text).is_none()) {
            names = Some(line);
        }
        // `TcpExtListenOverflows 12 0.0` and `TCPBacklogDrop: 12`.
        if let [name, number_piece, ..] = line.as_slice()
            && line.len() <= 3
            && let (Some(ours), Some(n)) = (counter(name.text), value(number_piece.text))
        {
            found.put(NETSTAT, ours, n, Once, number);
            continue;
        }
        worded(line, number, &mut found);
    }
    found.done
}

fn counter(name: &str) -> Option<&'static str> {
    let bare = ["TcpExt", "Tcp", "Udp", "IpExt"]
        .iter()
        .find_map(|p| name.strip_prefix(p));
    let known = |name: &str| COUNTERS.iter().find(|(n, _)| *n == name).map(|(_, o)| *o);
    known(name).or_else(|| known(bare?))
}

/// `TcpExt: A B C` above `TcpExt: 1 2 3`.
fn pair(heads: &[Piece<'_>], line: &[Piece<'_>]) -> bool {
    let numbers = line.iter().skip(1).all(|p| value(p.text).is_some());
    heads.len() == line.len() && heads[0].text == line[0].text && numbers
}

/// No tool prints a line of more pieces than this; data in one line does.
const LONGEST: usize = 400;

/// The wordings as words, split once.
fn wordings() -> &'static [Vec<&'static str>] {
    static WORDS: OnceLock<Vec<Vec<&'static str>>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let split = WORDINGS
            .iter()
            .map(|(_, wording, ..)| wording.split(' ').collect());
        split.collect()
    })
}

fn worded(line: &[Piece<'_>], number: u32, found: &mut Found) {
    if line.len() > LONGEST {
        return;
    }
    for ((tool, wording, names, how), words) in WORDINGS.iter().zip(wordings()) {
        let Some(numbers) = matched(line, words) else {
            continue;
        };
        if *how == Count {
            let own = COUNTED.iter().find(|(w, _)| w == wording).map(|(_, n)| *n);
            found.put(tool, own.unwrap_or(names[0]), 1.0, Count, number);
        } else {
            let named = names.iter().zip(numbers).filter(|(name, _)| **name != "-");
            for (name, n) in named {
                found.put(tool, name, n, *how, number);
            }
        }
        return;
    }
}

/// The numbers of a wording that stands somewhere in the line.
fn matched(line: &[Piece<'_>], words: &[&str]) -> Option<Vec<f64>> {
    let last = line.len().checked_sub(words.len())?;
    (0..=last).find_map(|at| {
        let pairs = || words.iter().zip(&line[at..]);
        // Words are compared before a number is parsed.
        if !pairs().all(|(word, piece)| *word == "#" || is_word(piece.text, word)) {
            return None;
        }
        let numbers = pairs().filter(|(word, _)| **word == "#");
        numbers.map(|(_, piece)| value(piece.text)).collect()
    })
}

/// The word itself, or a name that ends with it: `net.core.somaxconn`.
fn is_word(text: &str, word: &str) -> bool {
    text.eq_ignore_ascii_case(word)
        || text
            .strip_suffix(word)
            .is_some_and(|head| head.ends_with(['.', '/']))
}

#[derive(Default)]
struct Found {
    done: Vec<Artefact>,
}

impl Found {
    fn put(&mut self, tool: &str, name: &str, n: f64, how: How, line: u32) {
        let again = |a: &Artefact| how == Once && a.value(name).is_some();
        let open = self.done.iter_mut().rev().find(|a| a.tool == tool);
        let artefact = match open {
            Some(artefact) if !again(artefact) => artefact,
            _ => {
                self.done.push(Artefact {
                    tool: tool.to_owned(),
                    line,
                    ..Artefact::default()
                });
                self.done.last_mut().expect("one was pushed")
            }
        };
        match how {
            Once => {
                artefact.figures.insert(name.to_owned(), n);
            }
            Sum | Count => artefact.add(name, n),
            Largest => artefact.largest(name, n),
        }
    }
}
