//! Each tool's output as it prints it, and the numbers that must be read from it; cut off anywhere, nothing breaks.

use analysis::diagnose_pasted;
use import::read_pasted;
use record::pasted::{Artefact, Pasted};
use std::path::Path;

fn read(text: &str) -> Pasted {
    read_pasted(&[("paste.txt".to_owned(), text.to_owned())])
}

/// A tool, what it prints, a figure of it and its value.
const FIGURES: &[(&str, &str, &str, f64)] = &[
    (
        "ps",
        "root          92 35.8  0.0      0     0 ?        S    12:40  82:49 [kswapd0]\nmysql     198808 18.6 10.9 1821488 439632 ?      Ssl  16:29   0:31 /usr/sbin/mysqld\n",
        "ps.kswapd",
        0.358,
    ),
    (
        "netstat -s",
        "Tcp:\n    1234 segments retransmitted\n    50000 segments sent out\nTcpExt:\n    17 times the listen queue of a socket overflowed\n    19 SYNs to LISTEN sockets dropped\n",
        "netstat.listen_overflows",
        17.0,
    ),
    (
        "netstat -s",
        "#kernel\nTcpRetransSegs                  77                 0.0\nTcpExtListenOverflows           12                 0.0\n",
        "netstat.listen_overflows",
        12.0,
    ),
    (
        "netstat -s",
        "TcpExt: SyncookiesSent SyncookiesRecv ListenOverflows ListenDrops\nTcpExt: 5 6 7 8\n",
        "netstat.listen_drops",
        8.0,
    ),
    (
        "sockstat",
        "sockets: used 1234\nTCP: inuse 50 orphan 3 tw 900 alloc 60 mem 70\n",
        "sockets.time_wait",
        900.0,
    ),
    (
        "ss -s",
        "Total: 1543\nTCP:   2345 (estab 100, closed 2200, orphaned 4, timewait 2190)\n",
        "sockets.time_wait",
        2190.0,
    ),
    (
        "conntrack -S",
        "cpu=0 found=5 invalid=1 insert=0 insert_failed=40 drop=40 early_drop=0 error=0 search_restart=9\ncpu=1 found=5 invalid=1 insert=0 insert_failed=2 drop=2 early_drop=0 error=0 search_restart=9\n",
        "conntrack.insert_failed",
        42.0,
    ),
    (
        "sysctl",
        "net.netfilter.nf_conntrack_count = 65530\nnet.netfilter.nf_conntrack_max = 65536\n",
        "conntrack.count",
        65530.0,
    ),
    (
        "sysctl",
        "net.ipv4.ip_local_port_range = 32768\t60999\n",
        "sysctl.port_high",
        60999.0,
    ),
    (
        "top",
        "top - 10:00:00 up 1 day, load average: 9.50, 4.00, 2.00\n%Cpu(s): 12.5 us,  3.1 sy,  0.0 ni, 60.0 id, 20.0 wa,  0.0 hi,  4.4 si,  0.0 st\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n 4711 www       20   0  100000  20000   1000 D  99.7   1.0   1:00.00 nginx\n",
        "cpu.iowait",
        20.0,
    ),
    (
        "top",
        "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n 4711 www       20   0  100000  20000   1000 D  99.7   1.0   1:00.00 nginx\n 4712 www       20   0  100000  20000   1000 D   9.7   1.0   1:00.00 nginx\n",
        "top.in_disk_wait",
        2.0,
    ),
    (
        "iotop",
        " 4807 be/4 daemon      0.00 B/s    0.00 B/s  0.00 % 21.66 % httpd -k restart\n 4808 be/4 daemon      0.00 B/s    0.00 B/s  0.00 % 2.00 % httpd -k restart\n",
        "iotop.waiting",
        21.66,
    ),
    (
        "iostat",
        "Device            r/s     w/s   rkB/s   wkB/s  r_await w_await aqu-sz  %util\nsda             10.00  200.00  100.00 9000.00    1.00   35.00   8.00  99.60\n",
        "disk.busy",
        99.6,
    ),
    (
        "iostat",
        "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           5.00    0.00    2.00   30.00    0.00   63.00\n",
        "cpu.iowait",
        30.0,
    ),
    (
        "mpstat",
        "10:00:01 AM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n10:00:02 AM  all    3.00    0.00    4.00    0.00    0.00   12.00    0.00    0.00    0.00   81.00\n10:00:02 AM    0    1.00    0.00    1.00    0.00    0.00   96.00    0.00    0.00    0.00    2.00\n",
        "cpu.softirq_busiest",
        96.0,
    ),
    (
        "sar",
        "12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n12:10:01 AM     all     10.00      0.00      5.00      0.00     20.00     65.00\n",
        "cpu.steal",
        20.0,
    ),
    (
        "sar -n DEV",
        "12:00:01 AM     IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s\n12:00:02 AM      eth0 250000.00 240000.00  20000.00  20000.00      0.00      0.00      0.00\n",
        "net.received_packets_per_s",
        250_000.0,
    ),
    (
        "pidstat -d",
        "10:00:01      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n10:00:02        0       300   9000.00      0.00      0.00      70  mysqld\n",
        "disk.delay",
        70.0,
    ),
    (
        "show info",
        "Maxconn: 2000\nCurrConns: 1999\nIdle_pct: 40\n",
        "haproxy.connections",
        1999.0,
    ),
    (
        "show profiling",
        "Tasks activity:\n  function                      calls   cpu_tot   cpu_avg   lat_tot   lat_avg\n  process_stream              1000000   10.00s    10.00us   1.00s     1.000us\n  ssl_sock_io_cb               500000   30.00s    60.00us   4.00s     8.000us\n",
        "haproxy.latency_s",
        8e-6,
    ),
    (
        "stub_status",
        "Active connections: 291\nserver accepts handled requests\n 16630948 16630900 31070465\nReading: 6 Writing: 179 Waiting: 106\n",
        "nginx.writing",
        179.0,
    ),
    (
        "access log",
        "1.2.3.4 - - [01/Jan/2024:00:00:00 +0000] \"GET /a HTTP/1.1\" 200 512 \"-\" \"curl/8.0\" 1.250 1.240\n1.2.3.4 - - [01/Jan/2024:00:00:01 +0000] \"GET /b HTTP/1.1\" 200 512 \"-\" \"curl/8.0\" 0.010 0.009\n",
        "access.request_max_s",
        1.25,
    ),
    (
        "HAProxy log",
        "10.0.0.1:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/400/30/69/509 200 2750 - - ---- 1/1/1/1/0 0/0 \"GET /index.html HTTP/1.1\"\n",
        "haproxy.queue_max_s",
        0.4,
    ),
    (
        "curl -w",
        "time_namelookup:  0.004\ntime_connect:  1.009s\ntime_total:  1.020\n",
        "curl.connect_s",
        1.009,
    ),
    (
        "tcpdump",
        "10:00:00.000000 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [S], seq 1, win 64240, length 0\n10:00:01.010000 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [S], seq 1, win 64240, length 0\n",
        "packets.syn_again",
        1.0,
    ),
    (
        "tcpdump",
        "10:00:00.000000 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [P.], seq 1:100, ack 1, win 500, length 99\n10:00:00.040500 IP 10.0.0.1.40000 > 10.0.0.2.80: Flags [.], ack 100, win 500, length 0\n10:00:00.040600 IP 10.0.0.2.80 > 10.0.0.1.40000: Flags [P.], seq 100:150, ack 1, win 500, length 50\n",
        "packets.nagle",
        1.0,
    ),
    (
        "strace -T",
        "[pid 12] 10:00:00 flock(9, LOCK_EX) = 0 <4.500000>\n[pid 12] epoll_wait(3, [], 512, 5000) = 0 <5.000000>\n",
        "strace.row_s",
        4.5,
    ),
    (
        "strace",
        "[pid 1] ppoll([{fd=9, events=POLLIN}], 1, {0, 0}, NULL, 8) = 0 (Timeout)\n[pid 1] ppoll([{fd=9, events=POLLIN}], 1, {0, 0}, NULL, 8) = 0 (Timeout)\n[pid 2] futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>\n[pid 2] <... futex resumed> ) = -1 EAGAIN (Resource temporarily unavailable)\n[pid 2] read(3, \"x\", 1) = 1\n",
        "strace.empty_polls",
        2.0,
    ),
    (
        "histogram",
        "@usecs:\n[256, 512)           100 |@@@@@@@@@@@@|\n[512, 1K)             10 |@           |\n[1M, 2M)               2 |            |\n",
        "histogram.p99",
        1_048_576.0,
    ),
    (
        "GC log",
        "[12.345s][info][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 300M->200M(512M) 10.5ms\n[13.345s][info][gc] GC(4) Pause Full (G1 Compaction Pause) 510M->500M(512M) 900.0ms\n",
        "gc.heap_used_after_full",
        500.0 / 512.0,
    ),
    (
        "Go GC trace",
        "gc 274 @1346.084s 14%: 0.11+2709+0.006 ms clock, 0.33+1026/2050/1121+0.020 ms cpu, 2032->2198->2088 MB, 2032 MB goal, 3 P\n",
        "go.procs",
        3.0,
    ),
    (
        "cpu.stat",
        "nr_periods 1000\nnr_throttled 3\nthrottled_time 150000000\n",
        "throttle.throttled",
        3.0,
    ),
    (
        "list of sockets",
        "State  Recv-Q Send-Q Local Address:Port Peer Address:Port\nLISTEN 129    128    0.0.0.0:8000      0.0.0.0:*\n",
        "listen.queue",
        129.0,
    ),
    (
        "list of sockets",
        "tcp        0      0 10.0.0.1:80      10.0.0.2:4000    CLOSE_WAIT\ntcp        0      0 10.0.0.1:80      10.0.0.2:4001    CLOSE_WAIT\n",
        "sockets.close_wait",
        2.0,
    ),
    (
        "list of sockets",
        "ESTAB 0 0 10.0.0.1:80 10.0.0.2:4000\n\t cubic wscale:7,7 rto:204 rtt:1.5/0.7 cwnd:10 retrans:0/12 rwnd_limited:400ms(62.5%)\n",
        "sockets.window_limited",
        0.625,
    ),
    (
        "part of a load generator's output",
        "Complete requests:      100000\nNon-2xx responses:      100000\n",
        "load.not_answered",
        100_000.0,
    ),
    (
        "log",
        "2024/01/01 00:00:00 [alert] 1#1: 1024 worker_connections are not enough\n",
        "log.worker_connections",
        1.0,
    ),
];

fn artefact<'a>(pasted: &'a Pasted, tool: &str, figure: &str) -> Option<&'a Artefact> {
    let mut all = pasted.artefacts.iter();
    all.find(|a| a.tool == tool && a.value(figure).is_some())
}

/// perf's stacks stand for the first row that only calls others, and below all other rows tell the same time again.
#[test]
fn stacks_below_a_row_of_perf_are_counted_once() {
    let text = "# Children      Self  Command  Shared Object      Symbol\n\
                    24.91%     0.00%  exe      [kernel.kallsyms]  [k] try_charge\n\
                13.63% try_charge;shrink_node;list_lru_count_one\n\
                3.57% try_charge;shrink_node;native_queued_spin_lock_slowpath\n\
                    24.80%     0.00%  exe      [kernel.kallsyms]  [k] shrink_node\n\
                13.63% shrink_node;list_lru_count_one\n\
                    2.10%     2.10%  exe      libc.so.6  [.] memcpy\n\
                2.10% main;copies;memcpy\n";
    let read = read(text);
    let rows = read.artefacts.iter().flat_map(|a| &a.rows);
    let parts = |share: f64| (share * 1e4).round();
    let rows: Vec<(&str, &str, f64)> = rows
        .map(|row| (row.label.as_str(), row.place.as_str(), parts(row.share)))
        .collect();
    assert_eq!(
        rows,
        [
            ("list_lru_count_one", "kernel", 1_363.0),
            ("native_queued_spin_lock_slowpath", "kernel", 357.0),
            ("memcpy", "libc.so.6", 210.0),
        ]
    );
    let profile = read.artefacts[0].profile.as_ref().unwrap();
    let depth: Vec<usize> = profile.stacks.iter().map(|s| s.frames.len()).collect();
    assert_eq!(depth, [3, 3, 1, 1]);
}

#[test]
fn each_tool_is_read_where_it_stands_alone_and_among_prose() {
    for (tool, text, figure, value) in FIGURES {
        let posted = format!(
            "It is slow, see below.\n\n```\nuser@web:~$ {tool}\n{}```\n\nAny idea?\n",
            text.lines().fold(String::new(), |all, l| all + l + "\n")
        );
        for text in [*text, posted.as_str()] {
            let pasted = read(text);
            let found = artefact(&pasted, tool, figure)
                .unwrap_or_else(|| panic!("{tool}: no `{figure}` in {pasted:?}"));
            let seen = found.value(figure).unwrap();
            assert!(
                (seen - value).abs() <= 1e-9 * value.abs(),
                "{tool}: {figure} is {seen}"
            );
        }
    }
}

/// A profile, the function that takes most and its share.
const PROFILES: &[(&str, &str, &str, f64)] = &[
    (
        "perf report",
        "# Overhead  Command  Shared Object        Symbol\n    41.20%  nginx    libz.so.1.2.11       [.] longest_match\n    10.00%  nginx    [kernel.kallsyms]    [k] copy_user_generic_string\n",
        "longest_match",
        0.412,
    ),
    (
        "perf report",
        "  Children      Self  Command  Shared Object  Symbol\n    90.00%     1.00%  nginx    nginx          [.] ngx_worker\n    60.00%    55.00%  nginx    libz.so.1      [.] deflate_slow\n",
        "deflate_slow",
        0.55,
    ),
    (
        "pprof -top",
        "      flat  flat%   sum%        cum   cum%\n    10.97s 15.85% 15.85%     22.71s 32.82%  runtime.scanobject\n     5.83s  8.42% 24.28%      6.28s  9.08%  runtime.findObject\n",
        "runtime.scanobject",
        0.1585,
    ),
    (
        "folded stacks",
        "nginx;main;ngx_worker;deflate 60\nnginx;main;ngx_worker;write 30\nnginx;main;ngx_worker;read 10\n",
        "deflate",
        0.6,
    ),
    (
        "perf script",
        "nginx  1234 [001] 100.100000:     250000 cycles:\n\tffffffff81000001 copy_user+0x5 ([kernel.kallsyms])\n\t    7f0000000001 write+0x10 (/lib/libc.so.6)\n\nnginx  1234 [001] 100.110000:     250000 cycles:\n\t    7f0000000002 deflate+0x10 (/lib/libz.so.1)\n\nnginx  1234 [001] 100.120000:     250000 cycles:\n\t    7f0000000002 deflate+0x10 (/lib/libz.so.1)\n\n",
        "deflate",
        2.0 / 3.0,
    ),
];

#[test]
fn a_profile_names_its_largest_function_and_fills_the_kinds_of_work() {
    for (tool, text, function, share) in PROFILES {
        let pasted = read(text);
        let profile = pasted.artefacts.iter().find(|a| a.profile.is_some());
        let profile = profile.unwrap_or_else(|| panic!("{tool}: {pasted:?}"));
        assert_eq!(profile.tool, *tool);
        assert_eq!(profile.rows[0].label, *function);
        assert!((profile.rows[0].share - share).abs() < 1e-6, "{tool}");
    }
    let diagnosis = diagnose_pasted(&read(PROFILES[1].1));
    assert_eq!(diagnosis.findings[0].cause, "compression_level");
    let share = diagnosis
        .facts
        .iter()
        .find(|f| f.name == "profile.compression_share");
    let share = share.unwrap().value.unwrap();
    assert!((share - 0.55).abs() < 1e-5, "{share}");
}

#[test]
fn two_outputs_of_a_tool_are_two_artefacts_and_counters_grow_between_them() {
    let counters = |n: u32| format!("{n} times the listen queue of a socket overflowed\n");
    let pasted = read(&format!("{}$ sleep 10\n{}", counters(1000), counters(1500)));
    assert_eq!(pasted.contents(), ["2 x netstat -s"]);
    let finding = diagnose_pasted(&pasted).findings.remove(0);
    assert_eq!(finding.cause, "listen_backlog_overflow");
    assert!(finding.why.contains("500"), "{}", finding.why);
    let same = read(&format!("{}{}", counters(1000), counters(1000)));
    assert_eq!(diagnose_pasted(&same).findings[0].cause, "unknown");
}

#[test]
fn what_moved_between_two_profiles_is_named_first() {
    let profile = |spin: f64, parse: f64| {
        format!(
            "  {spin:.2}%  app  app  [.] spin_wait\n  {parse:.2}%  app  app  [.] parse_request\n  1.00%  app  app  [.] other\n\nafter the upgrade, on the same host,\nthe same load,\nthe same command,\nand nothing else was changed:\n\n\n\n\n\n\n\n\n\n\n"
        )
    };
    let pasted = read(&format!("{}{}", profile(2.0, 40.0), profile(45.0, 20.0)));
    let finding = diagnose_pasted(&pasted).findings.remove(0);
    assert_eq!(finding.cause, "unknown");
    assert!(
        finding.why.starts_with(
            "between the two profiles the largest changes are spin_wait (45 %) was 2 %"
        ),
        "{}",
        finding.why
    );
}

#[test]
fn a_vmstat_says_that_processes_wait_for_a_disk_and_not_which_file() {
    let head = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let row = " 0 47      0  20000   2044 169810    0    0  9000  8000  900  642  2  1  7 90  0\n";
    let finding = diagnose_pasted(&read(&format!("{head}{}", row.repeat(6))))
        .findings
        .remove(0);
    assert_eq!(finding.cause, "unknown");
    assert!(
        finding
            .why
            .contains("47 processes wait for a disk, and not which file"),
        "{}",
        finding.why
    );
    assert!(finding.remedy.contains("iostat -x"), "{}", finding.remedy);
}

#[test]
fn the_generator_is_judged_before_the_server() {
    let text = "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n 4711 me        20   0  100000  20000   1000 R  99.9   1.0   1:00.00 ab\n 4712 www       20   0  100000  20000   1000 S  40.0   1.0   1:00.00 nginx\n";
    let finding = diagnose_pasted(&read(text)).findings.remove(0);
    assert_eq!(finding.cause, "generator_limited");
}

/// Every text that stands in the tests, cut off after every line and before every line.
#[test]
fn text_that_is_cut_off_at_either_end_breaks_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut texts: Vec<(String, usize)> = FIGURES
        .iter()
        .map(|(_, t, ..)| ((*t).to_owned(), 1))
        .collect();
    texts.extend(PROFILES.iter().map(|(_, t, ..)| ((*t).to_owned(), 1)));
    // Of hundreds of threads every twelfth line is enough.
    for (folder, each) in [("tools", 1), ("threads", 12)] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            // The list of the threads is no text of theirs.
            if path.extension().is_none_or(|ending| ending != "toml") {
                texts.push((std::fs::read_to_string(path).unwrap(), each));
            }
        }
    }
    let mut parts: Vec<&str> = Vec::new();
    for (n, (text, each)) in texts.iter().enumerate() {
        for (end, _) in text.match_indices('\n').skip(n % each).step_by(*each) {
            let middle = end.saturating_sub(7);
            parts.extend([&text[..end], &text[end..]]);
            parts.push(text.get(..middle).unwrap_or_default());
        }
    }
    let all_are_judged = |first: usize, each: usize| {
        for (n, part) in parts.iter().enumerate().skip(first).step_by(each) {
            let pasted = read(part);
            // Judging takes longer than reading, so every n-th is judged.
            if n % 32 == 0 {
                let diagnosis = diagnose_pasted(&pasted);
                let none = diagnosis.findings.iter().any(|f| f.cause == "none");
                assert!(!none && !diagnosis.findings.is_empty(), "{part}");
            }
        }
    };
    // An odd number, so that each thread has some to judge.
    let threads = std::thread::available_parallelism().map_or(1, usize::from) | 1;
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || all_are_judged(first, threads));
        }
    });
    assert!(parts.len() > 3_000, "{}", parts.len());
}
