//! Lines that say a number by a fixed wording: one table for all tools. The messages of `logs` are read the same way.
//!
//! In a wording `#` is a number and everything else a word; punctuation between words counts for nothing, so that the
//! same wording finds `net.core.somaxconn = 128`, `somaxconn: 128` and a line of a log around it. The surprise is what
//! ends an artefact: a number that comes a second time belongs to the next call of the tool.

use super::logs::MESSAGES;
use super::pieces::{Piece, pieces, short, value};
use record::pasted::{Artefact, Row};
use std::collections::HashMap;
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
}
use How::{Largest, Once, Sum};

/// Tool, wording, names of its numbers in order (`-` for one that is not kept), how.
type Wording = (&'static str, &'static str, &'static [&'static str], How);

pub(super) const NETSTAT: &str = "netstat -s";
const LOG: &str = "log";
const HAPROXY: &str = "show info";
pub(super) const LOAD: &str = "part of a load generator's output";
const SIEGE: &str = "siege";
const HTTPERF: &str = "httperf";
const GATLING: &str = "Gatling";
const SS: &str = "ss -s";
const INNODB: &str = "InnoDB status";
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
    ("sysctl", "file-nr # # #", &["fs.files", "-", "fs.files_limit"], Once),
    ("sysctl", "net.core.somaxconn #", &["sysctl.somaxconn"], Once),
    ("sysctl", "ip_local_port_range # #", &["sysctl.port_low", "sysctl.port_high"], Once),
    ("sysctl", "tcp_tw_recycle #", &["sysctl.tw_recycle"], Once),
    ("sysctl", "tcp_max_syn_backlog #", &["sysctl.syn_backlog"], Once),
    ("sysctl", "tcp_mem # # #", &["sysctl.tcp_mem_low", "sysctl.tcp_mem_pressure", "sysctl.tcp_mem_high"], Once),
    ("sysctl", "tcp_max_orphans #", &["sysctl.max_orphans"], Once),
    ("sysctl", "tcp_max_tw_buckets #", &["sysctl.max_time_wait"], Once),
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
    (HAPROXY, "maxsocs # maxconn #", &["-", "haproxy.maxconn"], Once),
    (HAPROXY, "current conns # current pipes", &["haproxy.connections"], Once),
    (HAPROXY, "Running tasks # idle #", &["haproxy.run_queue", "haproxy.idle"], Once),
    ("numbers of a pool", "# active connections # inactive connections and # pending acquire requests", &["pool.used", "pool.idle", "pool.waiting"], Largest),
    ("stub_status", "Active connections #", &["nginx.active"], Once),
    ("stub_status", "Reading # Writing # Waiting #", &["nginx.reading", "nginx.writing", "nginx.waiting"], Once),
    ("stub_status", "server accepts handled requests # # #", &["nginx.accepts", "nginx.handled", "nginx.requests"], Once),
    ("server-status", "# requests/sec # kB/second", &["apache.requests_per_s", "-"], Once),
    ("server-status", "# requests/sec # B/second", &["apache.requests_per_s", "-"], Once),
    ("server-status", "# requests/sec # MB/second", &["apache.requests_per_s", "-"], Once),
    ("server-status", "BusyWorkers #", &["apache.busy"], Once),
    ("server-status", "IdleWorkers #", &["apache.idle"], Once),
    ("server-status", "# requests currently being processed # idle workers", &["apache.busy", "apache.idle"], Once),
    (FPM, "request duration #", &["fpm.request_us"], Largest),
    (FPM, "max listen queue #", &["fpm.queue_max"], Once),
    (FPM, "listen queue len #", &["fpm.queue_limit"], Once),
    (FPM, "listen queue #", &["fpm.queue"], Once),
    (FPM, "max active processes #", &["fpm.active_max"], Once),
    (FPM, "total processes #", &["fpm.total"], Once),
    (FPM, "active processes #", &["fpm.active"], Once),
    (FPM, "idle processes #", &["fpm.idle"], Once),
    (FPM, "max children reached #", &["fpm.max_children_reached"], Once),
    (FPM, "phpfpm_listen_queue #", &["fpm.queue"], Once),
    (FPM, "phpfpm_max_listen_queue #", &["fpm.queue_max"], Once),
    (FPM, "phpfpm_listen_queue_length #", &["fpm.queue_limit"], Once),
    (FPM, "phpfpm_active_processes #", &["fpm.active"], Once),
    (FPM, "phpfpm_idle_processes #", &["fpm.idle"], Once),
    (FPM, "phpfpm_total_processes #", &["fpm.total"], Once),
    (FPM, "phpfpm_max_children_reached #", &["fpm.max_children_reached"], Once),
    (LOAD, "finished in # # req/s", &["-", "load.rate_per_s"], Once),
    (LOAD, "requests # total # started # done # succeeded # failed # errored # timeout", &["load.requests", "-", "-", "-", "load.not_answered", "-", "load.timeouts"], Once),
    (LOAD, "Latency # ms # ms # ms # ms # ms # ms # ms", &["-", "load.p50_ms", "-", "load.p99_ms", "load.mean_ms", "-", "load.max_ms"], Once),
    (LOAD, "Req/Sec # # # # # # #", &["-", "-", "-", "-", "load.rate_per_s", "-", "-"], Once),
    (LOAD, "Requests/sec #", &["load.rate_per_s"], Once),
    (LOAD, "Requests per second #", &["load.rate_per_s"], Once),
    (LOAD, "# connections with # pipelining factor", &["load.connections", "load.pipelined"], Once),
    (LOAD, "# threads and # connections", &["-", "load.connections"], Once),
    (LOAD, "# requests in # # read", &["load.requests", "load.duration_s", "-"], Once),
    (LOAD, "Socket errors connect # read # write # timeout #", &["wrk.connect_errors", "wrk.read_errors", "-", "load.timeouts"], Once),
    (LOAD, "Complete requests #", &["load.requests"], Once),
    (LOAD, "Non-2xx responses #", &["load.not_answered"], Once),
    (LOAD, "Time per request # ms mean across all concurrent requests", &["-"], Once),
    (LOAD, "Time per request # ms mean", &["load.mean_ms"], Once),
    (LOAD, "Average # secs", &["load.mean_s"], Once),
    (LOAD, "Average # sec", &["load.mean_s"], Once),
    (LOAD, "Average # ms", &["load.mean_ms"], Once),
    (LOAD, "Slowest # ms", &["load.max_ms"], Once),
    (LOAD, "Fastest # ms", &["load.min_ms"], Once),
    (LOAD, "50% in # secs", &["load.p50_s"], Once),
    (LOAD, "50.00% in # sec", &["load.p50_s"], Once),
    (LOAD, "50.00% in # secs", &["load.p50_s"], Once),
    (LOAD, "99.00% in # secs", &["load.p99_s"], Once),
    (LOAD, "99.00% in # sec", &["load.p99_s"], Once),
    (LOAD, "99% in # secs", &["load.p99_s"], Once),
    (LOAD, "50.00% in # ms", &["load.p50_ms"], Once),
    (LOAD, "# 2xx responses # non 2xx responses", &["load.requests", "load.not_answered"], Once),
    (LOAD, "# errors # timeouts", &["load.not_answered", "load.timeouts"], Once),
    (LOAD, "Success ratio #", &["load.success_percent"], Once),
    (LOAD, "Latency # # # #", &["load.mean_s", "-", "load.max_s", "-"], Once),
    (LOAD, "Latency ms # # #", &["load.mean_ms", "-", "load.max_ms"], Once),
    (SIEGE, "Preparing # concurrent users", &["load.connections"], Once),
    (SIEGE, "Transactions # hits", &["load.requests"], Once),
    (SIEGE, "Availability #", &["load.success_percent"], Once),
    (SIEGE, "Response time # secs", &["load.mean_s"], Once),
    (SIEGE, "Response time # ms", &["load.mean_ms"], Once),
    (SIEGE, "Transaction rate # trans/sec", &["load.rate_per_s"], Once),
    (SIEGE, "Successful transactions #", &["load.succeeded"], Once),
    (SIEGE, "Failed transactions #", &["siege.failed"], Once),
    (SIEGE, "failed_transactions #", &["siege.failed"], Once),
    (SIEGE, "Longest transaction #", &["load.max_s"], Once),
    (SIEGE, "Shortest transaction #", &["load.min_s"], Once),
    (SIEGE, "shortest_transaction #", &["load.min_s"], Once),
    (SIEGE, "transaction_rate #", &["load.rate_per_s"], Once),
    (SIEGE, "longest_transaction #", &["load.max_s"], Once),
    (HTTPERF, "Total connections # requests # replies #", &["-", "load.requests", "-"], Once),
    (HTTPERF, "Request rate # req/s", &["load.offered_per_s"], Once),
    (HTTPERF, "Reply rate replies/s min # avg # max # stddev #", &["-", "load.rate_per_s", "-", "-"], Once),
    (HTTPERF, "Reply time ms response # transfer #", &["load.mean_ms", "-"], Once),
    (HTTPERF, "Connection time ms connect #", &["-"], Once),
    (HTTPERF, "Errors total # client-timo # socket-timo # connrefused # connreset #", &["load.not_answered", "load.timeouts", "-", "load.refused", "load.reset"], Once),
    (HTTPERF, "Errors fd-unavail # addrunavail # ftab-full # other #", &["load.no_descriptors", "load.no_addresses", "-", "-"], Once),
    (GATLING, "request count # OK # KO #", &["load.requests", "-", "load.not_answered"], Once),
    (GATLING, "request count # # #", &["load.requests", "-", "load.not_answered"], Once),
    (GATLING, "request count # #", &["load.requests", "-"], Once),
    (GATLING, "max response time ms #", &["load.max_ms"], Once),
    (GATLING, "max response time #", &["load.max_ms"], Once),
    (GATLING, "mean response time ms #", &["load.mean_ms"], Once),
    (GATLING, "mean response time #", &["load.mean_ms"], Once),
    (GATLING, "response time 50th percentile ms #", &["load.p50_ms"], Once),
    (GATLING, "response time 50th percentile #", &["load.p50_ms"], Once),
    (GATLING, "mean requests/sec #", &["load.rate_per_s"], Once),
    (GATLING, "mean throughput rps #", &["load.rate_per_s"], Once),
    (".NET counters", "ThreadPool Queue Length #", &["dotnet.queue"], Largest),
    (".NET counters", "thread_pool.queue.length work_item #", &["dotnet.queue"], Largest),
    (".NET counters", "ThreadPool Thread Count #", &["dotnet.threads"], Largest),
    (".NET counters", "thread_pool.thread.count thread #", &["dotnet.threads"], Largest),
    (".NET counters", "Time in GC since last GC % #", &["dotnet.gc_percent"], Largest),
    (".NET counters", "Monitor Lock Contention Count Count / # sec #", &["-", "dotnet.contentions"], Largest),
    (".NET counters", "Exception Count Count / # sec #", &["-", "dotnet.exceptions"], Largest),
    (".NET counters", "CPU Usage % #", &["dotnet.cpu_percent"], Largest),
    ("MySQL status", "Threads_running #", &["mysql.running"], Largest),
    ("MySQL status", "Threads_connected #", &["mysql.connected"], Largest),
    ("MySQL status", "Max_used_connections #", &["mysql.connected_most"], Largest),
    ("Envoy clusters", "default_priority max_connections #", &["circuit.connections"], Largest),
    ("Envoy clusters", "high_priority max_connections #", &["-"], Largest),
    ("Envoy clusters", "cx_active #", &["circuit.active"], Largest),
    ("MySQL status", "max_connections #", &["mysql.connections_limit"], Largest),
    ("MySQL status", "Innodb_row_lock_waits #", &["mysql.row_lock_waits"], Largest),
    ("MySQL status", "Innodb_row_lock_time_avg #", &["mysql.row_lock_ms"], Largest),
    ("MySQL status", "Slow_queries #", &["mysql.slow"], Largest),
    (INNODB, "History list length #", &["innodb.history"], Largest),
    (INNODB, "TRX HAS BEEN WAITING # SEC", &["innodb.lock_wait_s"], Largest),
    (INNODB, "for # seconds the semaphore", &["innodb.semaphore_s"], Largest),
    (INNODB, "ACTIVE # sec", &["innodb.active_s"], Largest),
    (INNODB, "Buffer pool hit rate # / #", &["innodb.hits", "innodb.hits_of"], Once),
    (INNODB, "Pending normal aio reads #", &["innodb.pending_reads"], Largest),
    ("event loop", "event loop lag # ms", &["loop.lag_ms"], Largest),
    ("event loop", "event loop lag #", &["loop.lag_s"], Largest),
    ("event loop", "event loop delay # ms", &["loop.lag_ms"], Largest),
    ("event loop", "event loop delay p99 # ms", &["loop.lag_ms"], Largest),
    ("event loop", "event loop delay #", &["loop.lag_s"], Largest),
    ("varnishstat", "sess_dropped #", &["varnish.dropped"], Once),
    ("varnishstat", "sess_queued #", &["varnish.queued"], Once),
    ("varnishstat", "threads_limited #", &["varnish.threads_limited"], Once),
    ("varnishstat", "backend_busy #", &["varnish.backend_busy"], Once),
    ("varnishstat", "backend_fail #", &["varnish.backend_fail"], Once),
    ("varnishstat", "backend_unhealthy #", &["varnish.backend_unhealthy"], Once),
    ("alert", "# throttling of CPU", &["throttle.percent"], Largest),
    ("Envoy stats", "upstream_rq_pending_overflow #", &["overflow.requests"], Largest),
    ("Envoy stats", "upstream_cx_overflow #", &["overflow.connections"], Largest),
    ("Envoy stats", "upstream_cx_connect_fail #", &["overflow.connect_failures"], Largest),
    ("Envoy stats", "upstream_rq_timeout #", &["overflow.timeouts"], Largest),
    ("passenger-status", "Requests in queue #", &["passenger.queue"], Largest),
    ("passenger-status", "Requests in top-level queue #", &["passenger.queue"], Largest),
    ("passenger-status", "Max pool size #", &["passenger.most"], Largest),
    ("sidekiq", "Enqueued #", &["sidekiq.enqueued"], Largest),
    ("uwsgi's queue", "lq #", &["uwsgi.queue"], Largest),
    ("uwsgi's queue", "listen_queue # listen_queue_errors #", &["uwsgi.queue", "-"], Largest),
    ("uwsgi's queue", "listen_queue #", &["uwsgi.queue"], Largest),
    ("tc -s qdisc", "dropped # overlimits # requeues #", &["qdisc.dropped", "-", "qdisc.requeues"], Largest),
    ("sysbench", "transactions # # per sec", &["sysbench.transactions", "sysbench.rate_per_s"], Largest),
    ("sysbench", "events per second #", &["sysbench.rate_per_s"], Largest),
    ("sysbench", "95th percentile #", &["sysbench.p95_ms"], Largest),
    ("fio", "IOPS #", &["fio.iops"], Largest),
    ("fio", "clat usec min # max # avg #", &["-", "fio.longest_us", "fio.mean_us"], Largest),
    ("fio", "clat msec min # max # avg #", &["-", "fio.longest_ms", "fio.mean_ms"], Largest),
    ("statements of Ecto", "db # queue #", &["ecto.longest_s", "ecto.queue_s"], Largest),
    ("statements of Entity Framework", "Executed DbCommand #", &["ef.longest_s"], Largest),
    ("LATENCY DOCTOR", "Worst all time event #", &["doctor.worst_s"], Largest),
    ("OPcache", "oom_restarts #", &["opcache.restarts"], Largest),
    ("memory.events", "oom_kill #", &["memevents.kills"], Largest),
    ("/proc/meminfo", "MemTotal #", &["meminfo.total_kb"], Once),
    ("/proc/meminfo", "MemAvailable #", &["meminfo.available_kb"], Once),
    ("/proc/meminfo", "SwapTotal #", &["meminfo.swap_kb"], Once),
    ("/proc/meminfo", "SwapFree #", &["meminfo.swap_free_kb"], Once),
    ("CloudWatch", "CPUCreditBalance #", &["credits.cpu"], Once),
    ("CloudWatch", "BurstBalance #", &["credits.disk"], Once),
    ("perf stat", "# CPUs utilized", &["perfstat.cpus"], Largest),
    ("perf stat", "# insn per cycle", &["perfstat.per_cycle"], Largest),
    ("perf stat", "# % of all cache refs", &["perfstat.misses_percent"], Largest),
    ("varnishlog", "Timestamp Beresp # # #", &["-", "-", "varnish.backend_s"], Largest),
    ("varnishlog", "Timestamp Resp # # #", &["-", "varnish.whole_s", "-"], Largest),
    ("statistics of Hibernate", "# nanoseconds spent executing # JDBC statements", &["jdbc.ns", "jdbc.statements"], Largest),
    ("statistics of Hibernate", "# nanoseconds spent acquiring # JDBC connections", &["jdbc.acquiring_ns", "-"], Largest),
    ("Elasticsearch", "took # timed_out", &["search.took_ms"], Largest),
    ("Elasticsearch", "took_millis #", &["search.took_ms"], Largest),
    ("MongoDB's operations", "secs_running #", &["operation.running_s"], Largest),
    ("MongoDB's operations", "millis #", &["operation.took_ms"], Largest),
    ("MongoDB's operations", "docsExamined #", &["operation.examined"], Largest),
    ("MongoDB's operations", "nreturned #", &["operation.returned"], Largest),
    ("MongoDB's operations", "totalKeysExamined #", &["operation.keys"], Largest),
    ("MongoDB's operations", "totalDocsExamined #", &["operation.examined"], Largest),
    ("MongoDB's operations", "executionTimeMillis #", &["operation.took_ms"], Largest),
    ("VACUUM VERBOSE", "tuples # removed # remain # are dead but not yet removable", &["vacuum.removed", "vacuum.remain", "vacuum.held"], Largest),
    ("VACUUM VERBOSE", "removable cutoff # which was # XIDs old", &["-", "vacuum.held_behind"], Largest),
    ("Lambda's report", "Duration # ms Billed Duration # ms Memory Size # MB Max Memory Used # MB Init Duration # ms", &["lambda.ms", "-", "lambda.memory_mb", "lambda.used_mb", "lambda.init_ms"], Largest),
    ("Lambda's report", "Duration # ms Billed Duration # ms Memory Size # MB Max Memory Used # MB", &["lambda.ms", "-", "lambda.memory_mb", "lambda.used_mb"], Largest),
    ("thread pool of .NET", "ThreadCount # PendingWorkItemCount #", &["dotnetpool.threads", "dotnetpool.pending"], Largest),
    ("Lambda's report", "Function execution took # ms finished with status timeout", &["lambda.limit_ms"], Largest),
    ("Lambda's report", "Task timed out after # seconds", &["lambda.limit_s"], Largest),
    ("browser", "TTFB # s", &["browser.wait_s"], Largest),
    ("browser", "TTFB # ms", &["browser.wait_ms"], Largest),
    ("browser", "Waiting for server response # s", &["browser.wait_s"], Largest),
    ("browser", "Waiting for server response # ms", &["browser.wait_ms"], Largest),
    ("browser", "Content Download # s", &["browser.download_s"], Largest),
    ("browser", "Content Download # ms", &["browser.download_ms"], Largest),
    ("browser", "Stalled # s", &["browser.stalled_s"], Largest),
    ("browser", "Stalled # ms", &["browser.stalled_ms"], Largest),
    ("atop", "swin # swout #", &["atop.swap_in", "atop.swap_out"], Largest),
    ("atop", "busy # read # write #", &["atop.disk_percent", "-", "-"], Largest),
    ("top", "avg1 # avg5 # avg15 #", &["load.one", "-", "load.fifteen"], Once),
    ("actuator", "hikaricp.connections.pending measurements statistic VALUE value #", &["hikari.waiting"], Largest),
    ("actuator", "http.server.requests measurements statistic COUNT value # statistic TOTAL_TIME value # statistic MAX value #", &["actuator.requests", "actuator.all_s", "actuator.longest_s"], Largest),
    (LOAD, "Total # Req/Sec #", &["load.requests", "load.rate_per_s"], Once),
    (LOAD, "Total Req #", &["load.requests"], Once),
    (LOAD, "Failed Req #", &["load.not_answered"], Once),
    (LOAD, "Server Processing Avg/mean # Median # p 95 #", &["load.mean_s", "-", "-"], Once),
    (LOAD, "benchmark.http_2xx # #", &["load.requests", "load.rate_per_s"], Once),
    (LOAD, "stats request # # # # # # #", &["-", "-", "-", "load.max_ms", "load.min_ms", "load.mean_ms", "load.requests"], Largest),
    // Of h2load, whose rows of times are read by their units: ab's row has the same last word.
    (LOAD, "time for connect # # # # #", &["-"], Once),
    (LOAD, "Concurrency Level #", &["load.connections"], Once),
    (LOAD, "Connect # # # # #", &["-", "-", "-", "-", "load.connect_max"], Once),
    (LOAD, "Non-2xx or 3xx responses #", &["load.not_answered"], Once),
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
pub(super) fn read(lines: &[Vec<Piece<'_>>], raw: &[&str]) -> Vec<Artefact> {
    let mut found = Found::default();
    let mut names: Option<&[Piece<'_>]> = None;
    for ((number, line), raw) in (1_u32..).zip(lines).zip(raw) {
        if let Some(heads) = names.take().filter(|heads| pair(heads, line)) {
            for (name, value_piece) in heads.iter().zip(line) {
                if let (Some(ours), Some(n)) = (counter(name.text), value(value_piece.text)) {
                    found.put(NETSTAT, ours, n, Once, number);
                }
            }
            continue;
        }
        // The head of a table by percentiles has numbers in it: `req/sec 10% 25% 50% 75%`.
        let shares = line.iter().filter(|p| p.text.ends_with('%'));
        if line.len() > 4 && shares.count() + 2 >= line.len() {
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
        // A counter of nstat that has no name of ours.
        if let [name, n, last] = line.as_slice()
            && last.text == "0.0"
            && let Some(n) = value(n.text).filter(|n| *n > 0.0)
        {
            found.put(NETSTAT, &format!("counter.{}", name.text), n, Once, number);
            continue;
        }
        match page_of_fpm(raw) {
            Some(parts) => {
                for part in &parts {
                    worded(&pieces(part), part, number, &mut found);
                }
            }
            None => worded(line, raw, number, &mut found),
        }
    }
    found.done
}

/// Names by which an object in one line is known whose parts are told one by one.
const OBJECTS: [&str; 2] = ["secs_running\"", "\"millis\""];

/// The parts of php-fpm's page where they do not stand as `name: n`: JSON in one line, XML and HTML.
fn page_of_fpm(raw: &str) -> Option<Vec<String>> {
    if raw.contains("\"active processes\":") && raw.contains("\"listen queue\":") {
        return Some(raw.split(',').map(str::to_owned).collect());
    }
    let name = |text: &str| {
        ["listen", "processes", "children"]
            .iter()
            .any(|w| text.contains(w))
    };
    if raw.trim_start().starts_with('{') && OBJECTS.iter().any(|n| raw.contains(n)) {
        return Some(raw.split(',').map(str::to_owned).collect());
    }
    if !raw.contains("</") || !name(raw) {
        return None;
    }
    // `<tr><th>listen queue</th><td>0</td></tr>`, and `<listen-queue>0</listen-queue>`.
    let words = raw.split(['<', '>']).enumerate();
    let words = words.filter(|(i, w)| {
        !w.trim().is_empty() && (i % 2 == 0 || w.contains('-') && !w.starts_with('/'))
    });
    let words: Vec<String> = words.map(|(_, w)| w.replace('-', " ")).collect();
    Some(words.chunks(2).map(|pair| pair.join(" ")).collect())
}

pub(super) fn counter(name: &str) -> Option<&'static str> {
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

/// The wordings, then the messages, as words, split once.
fn split() -> &'static [Vec<&'static str>] {
    static WORDS: OnceLock<Vec<Vec<&'static str>>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let wordings = WORDINGS.iter().map(|(_, wording, ..)| *wording);
        let messages = MESSAGES.iter().map(|(wording, ..)| *wording);
        let all = wordings.chain(messages);
        all.map(|wording| wording.split(' ').collect()).collect()
    })
}

/// The wordings by their longest word in small letters: comparing each with each line took most of a text's time.
fn by_word() -> &'static HashMap<String, Vec<usize>> {
    static BY_WORD: OnceLock<HashMap<String, Vec<usize>>> = OnceLock::new();
    BY_WORD.get_or_init(|| {
        let mut all: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, words) in split().iter().enumerate() {
            let longest = words.iter().filter(|w| **w != "#").max_by_key(|w| w.len());
            let key = longest.map_or_else(String::new, |w| w.to_ascii_lowercase());
            all.entry(key).or_default().push(at);
        }
        all
    })
}

/// The wordings whose longest word stands in the line, in their order.
fn candidates(line: &[Piece<'_>]) -> Vec<usize> {
    let all = by_word();
    let mut found: Vec<usize> = all.get("").into_iter().flatten().copied().collect();
    for piece in line {
        let lower = piece.text.to_ascii_lowercase();
        // A name may end with the word: `net.core.somaxconn`.
        let ends = lower.match_indices(['.', '/']).map(|(at, _)| at + 1);
        for from in std::iter::once(0).chain(ends) {
            found.extend(all.get(&lower[from..]).into_iter().flatten());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn worded(line: &[Piece<'_>], raw: &str, number: u32, found: &mut Found) {
    if line.len() > LONGEST {
        return;
    }
    let candidates = candidates(line);
    let (wordings, messages) =
        candidates.split_at(candidates.partition_point(|at| *at < WORDINGS.len()));
    for at in wordings {
        let (words, (tool, _, names, how)) = (&split()[*at], &WORDINGS[*at]);
        // The fourth number of wrk is a share; plow's first is its shortest time.
        let of_wrk = || words.as_slice() != ["Latency", "#", "#", "#", "#"] || raw.contains('%');
        if let Some(numbers) = matched(line, words).filter(|_| of_wrk()) {
            for (name, n) in kept(names, numbers) {
                found.put(tool, name, n, *how, number);
            }
            return;
        }
    }
    // A generator's list of errors is no log.
    let counted = line.len() == 2 && value(line[1].text).is_some();
    if counted || line.first().is_some_and(|p| p.text.starts_with("errors.")) {
        return;
    }
    for at in messages {
        let (words, (_, count, names)) = (&split()[*at], &MESSAGES[*at - WORDINGS.len()]);
        if let Some(numbers) = matched(line, words) {
            // A number behind the word curl is its error only where curl prints it.
            let by_number =
                words.len() == 2 && words[0] == "curl" && count.starts_with("log.curl_");
            if by_number && !raw.contains("curl: (") {
                continue;
            }
            // Only asyncio's own words are about its loop.
            if *count == "log.callback_slow" && !raw.contains("Executing <") {
                continue;
            }
            let (count, names): (&str, &'static [&'static str]) = match *count {
                "log.loop_blocked" if !of_a_loop(line) => {
                    ("log.stuck_thread", &["log.stuck_thread_ms"])
                }
                count => (count, names),
            };
            let tool = if count.starts_with("load.") {
                LOAD
            } else {
                LOG
            };
            found.put(tool, count, 1.0, Sum, number);
            found.quote(tool, count, around(raw, words));
            for (name, n) in kept(names, numbers) {
                found.put(tool, name, n, Largest, number);
            }
            return;
        }
    }
}

/// A line that says something within this many bytes is quoted from its beginning.
const NEAR: usize = 130;
/// Bytes that are quoted before what a longer one says.
const BEFORE: usize = 80;

/// A line from some words before the wording on, where that stands far behind its beginning.
fn around<'a>(raw: &'a str, words: &[&str]) -> &'a str {
    let last = words.iter().rev().find(|w| **w != "#");
    let at = last.and_then(|w| raw.to_ascii_lowercase().find(&w.to_ascii_lowercase()));
    let Some(at) = at.filter(|at| *at > NEAR) else {
        return raw;
    };
    let begins = |(i, c): &(usize, char)| *i >= at - BEFORE && (c.is_whitespace() || *c == ',');
    let from = raw[..at].char_indices().find(begins);
    from.map_or(raw, |(i, c)| &raw[i + c.len_utf8()..])
}

/// Whether a line is about an event loop, and not about a worker.
fn of_a_loop(line: &[Piece<'_>]) -> bool {
    line.iter().any(|p| {
        let lower = p.text.to_ascii_lowercase();
        lower.contains("eventloop") || lower == "loop"
    })
}

/// Numbers with their names, without those that are not kept.
fn kept(
    names: &'static [&'static str],
    numbers: Vec<f64>,
) -> impl Iterator<Item = (&'static str, f64)> {
    let named = names.iter().copied().zip(numbers);
    named.filter(|(name, _)| *name != "-")
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
        numbers.map(|(_, piece)| count(piece.text)).collect()
    })
}

/// A number; of `46000/0`, as older ss prints it, the first.
fn count(text: &str) -> Option<f64> {
    value(text).or_else(|| {
        let (n, rest) = text.split_once('/')?;
        rest.parse::<u64>().ok()?;
        n.parse().ok()
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
    /// Keeps the first line of a kind of messages, so that an answer has its own words.
    fn quote(&mut self, tool: &str, count: &str, raw: &str) {
        let open = self.done.iter_mut().rev().find(|a| a.tool == tool);
        if let Some(open) = open.filter(|a| a.rows.iter().all(|r| r.place != count)) {
            open.rows.push(Row {
                label: short(raw),
                place: count.to_owned(),
                share: 1.0,
            });
        }
    }

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
            Sum => artefact.add(name, n),
            Largest => artefact.largest(name, n),
        }
    }
}
