//! What is said of each kind of output: made-up texts of each tool, in the forms in which people paste them.

use analysis::diagnose_pasted;
use import::read_pasted;
use record::pasted::Pasted;

fn read(text: &str) -> Pasted {
    read_pasted(&[("paste.txt".to_owned(), text.to_owned())])
}

/// A text, the cause of the first finding, words of what it says, words of the next step.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

fn check(rows: &[Row]) {
    for (text, cause, says, next) in rows {
        let pasted = read(text);
        assert!(!pasted.is_empty(), "refused: {text}");
        let finding = diagnose_pasted(&pasted).findings.remove(0);
        assert_eq!(finding.cause, *cause, "{text}\n{}", finding.why);
        for word in *says {
            assert!(
                finding.why.contains(word),
                "`{word}` of {text}\n{}",
                finding.why
            );
        }
        for word in *next {
            assert!(
                finding.remedy.contains(word),
                "`{word}` of {text}\n{}",
                finding.remedy
            );
        }
        // No mark and no number is left open.
        for open in ["?", "(most at )", "in .", " @"] {
            assert!(!finding.why.contains(open), "`{open}` in {}", finding.why);
        }
    }
}

#[test]
fn generators_say_what_they_counted() {
    check(&[
        (
            "siege -c 8 -t 10S http://a.example\nTransactions:   320 hits\nAvailability:   100.00 %\nResponse time:  0.25 secs\nTransaction rate:  31.90 trans/sec\n",
            "unknown",
            &["with 8 users", "250 ms", "siege shows 31.9 responses"],
            &["strace", "ss -tn"],
        ),
        (
            "Transactions:  90 hits\nAvailability:  30.00 %\nTransaction rate: 9.0 trans/sec\nSuccessful transactions: 90\nFailed transactions: 210\n",
            "unknown",
            &["70 % of the requests failed", "siege"],
            &["curl -si"],
        ),
        (
            "summary +  500 in 00:00:30 =  16.7/s Avg:  80 Min:  2 Max:  900 Err:  0 (0.00%) Active: 300 Started: 300 Finished: 0\nsummary =  900 in 00:01:00 =  15.0/s Avg:  90 Min:  2 Max:  900 Err:  9 (1.00%)\n",
            "unknown",
            &[
                "300 threads",
                "the mean 90 ms",
                "1 % of the requests failed",
            ],
            &["jstack", "top -H"],
        ),
        (
            " Name     # reqs  # fails |  Avg  Min  Max  Median | req/s failures/s\n GET /      200   50(25.00%) |  12   1  300  10 | 20.00  5.00\n Aggregated 200   50(25.00%) |  12   1  300  10 | 20.00  5.00\n\n# occurrences  Error\n 50  GET /: HTTPError('429 Client Error: Too Many Requests for url: /')\n",
            "rate_limit_rejects",
            &["50 of 200 responses", "locust"],
            &["limit_req"],
        ),
        (
            "http.codes.200: ........ 40\nhttp.codes.503: ........ 60\nhttp.request_rate: ..... 10/sec\nhttp.requests: ......... 100\nhttp.response_time:\n  min: ........ 2\n  median: ..... 30.5\n",
            "unknown",
            &["60 of 100 responses", "503 60 times", "artillery shows 10"],
            &["log"],
        ),
        (
            "  Scenarios launched: 100\n  RPS sent: 9.5\n  Request latency:\n    min: 3\n    median: 40.2\n  Codes:\n    200: 20\n  Errors:\n    ETIMEDOUT: 80\n",
            "unknown",
            &["80 % of the requests failed", "artillery"],
            &["curl -si"],
        ),
        (
            "Total: connections 50 requests 50 replies 0 test-duration 20.1 s\nRequest rate: 2.5 req/s (400.0 ms/req)\nReply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (4 samples)\nReply time [ms]: response 0.0 transfer 0.0\nErrors: total 50 client-timo 50 socket-timo 0 connrefused 0 connreset 0\n",
            "unknown",
            &["50 of 50", "50 requests timed out", "httperf"],
            &["nstat"],
        ),
        (
            "> request count          1000 (OK=900    KO=100   )\n> mean response time      250 (OK=250    KO=-     )\n> mean requests/sec     16.67 (OK=15 KO=1.67)\n---- Errors ----\n> status.find.is(200), but actually found 502    100 (100.0%)\n",
            "unknown",
            &[
                "10 % of the requests failed",
                "100 of 1,000 responses",
                "Gatling",
            ],
            &["502"],
        ),
        (
            "[2024-01-16 22:03:20,163] host/WARNING/root: CPU usage above 90%! This may constrain your throughput\n",
            "generator_limited",
            &["above 90 %"],
            &["wrk"],
        ),
        (
            "http_req_duration..........: avg=9ms   min=3ms med=8ms\nhttp_reqs..................: 300    5.0/s\niteration_duration.........: avg=2s    min=1s med=2s\niterations.................: 100    1.7/s\n",
            "unknown",
            &["an iteration takes 2", "1.97 s of it are outside"],
            &["rps", "sleep"],
        ),
        (
            "Response time histogram:\n  0.010 [400] |****\n  0.500 [0] |\n  1.000 [1] |\n  1.500 [90] |*\n  2.000 [10] |\nStatus code distribution:\n  [200] 501 responses\n",
            "unknown",
            &["of two kinds", "80 %"],
            &["http_code"],
        ),
        (
            "Running 10s test @ http://a.example\n100 connections with 10 pipelining factor\n\u{2502} Latency \u{2502} 137 ms \u{2502} 143 ms \u{2502} 169 ms \u{2502} 178 ms \u{2502} 145.8 ms \u{2502} 14.37 ms \u{2502} 293 ms \u{2502}\n900 2xx responses, 100 non 2xx responses\n",
            "unknown",
            &["11 % of the requests failed"],
            &["curl -si"],
        ),
    ]);
}

#[test]
fn heads_and_times_of_curl() {
    check(&[
        (
            "$ for i in 1 2 3; do curl -sI URL; done | grep HTTP\nHTTP/1.1 429 Too Many Requests\nHTTP/1.1 200 OK\nHTTP/1.1 429 Too Many Requests\n",
            "rate_limit_rejects",
            &["2 of 3 responses have the status 429"],
            &["retry-after"],
        ),
        (
            "> GET / HTTP/1.1\n> Connection: close\n>\n< HTTP/1.1 200 OK\n< Content-Type: text/html\n< Connection: close\n< Set-Cookie: a=b\n<\n",
            "unknown",
            &["1 of 1 responses say `Connection: close`", "Set-Cookie 1"],
            &["re-using"],
        ),
        (
            "HTTP/2 200\nx-cache: MISS from edge\nage: 0\ncache-control: private, max-age=0\n",
            "unknown",
            &["did not have the response (1 of 1)"],
            &["curl -sI"],
        ),
        (
            "HTTP/1.1 503 Service Unavailable\nRetry-After: 30\n",
            "unknown",
            &["503 1 times", "30 s"],
            &["log"],
        ),
        (
            "curl -so /dev/null -w '%{http_code} %{time_connect} %{time_starttransfer} %{time_total}\\n' URL\n200 0.001 0.002 0.044\n200 0.001 0.002 0.043\n",
            "unknown",
            &["ends 42 ms later", "delayed acknowledgement"],
            &["TCP_NODELAY", "tcpdump"],
        ),
        (
            "curl -s -F f=@big -w @format URL\ntime_connect: 0.001\ntime_starttransfer: 0.002\ntime_total: 12.5\n",
            "unknown",
            &["100 Continue"],
            &["perf top", "strace"],
        ),
    ]);
}

#[test]
fn databases_and_caches() {
    check(&[
        (
            "1) 1) (integer) 14\n   2) (integer) 1700000000\n   3) (integer) 25000\n   4) 1) \"hgetall\"\n      2) \"big\"\n   5) \"10.0.0.1:5000\"\n   6) \"\"\n2) 1) (integer) 13\n   2) (integer) 1700000000\n   3) (integer) 12000\n   4) 1) \"keys\"\n      2) \"*\"\n",
            "unknown",
            &["2 slow commands", "`hgetall big` (0.025 s)"],
            &["SCAN"],
        ),
        (
            "min: 0, max: 2, avg: 0.2 (1400 samples) -- 15.00 seconds range\nmin: 0, max: 700, avg: 0.9 (1300 samples) -- 15.00 seconds range\n",
            "unknown",
            &["after 700 ms", "1 of 2 ranges"],
            &["latest_fork_usec"],
        ),
        (
            "latest_fork_usec:250000\nevicted_keys:0\nkeyspace_hits:10\nkeyspace_misses:90\n",
            "unknown",
            &["fork of redis took 250 ms", "10 %"],
            &["save"],
        ),
        (
            "cmdstat_keys:calls=10,usec=900000,usec_per_call=90000.00\ncmdstat_get:calls=1000,usec=100000,usec_per_call=100.00\n",
            "unknown",
            &["keys (90 %)"],
            &["SCAN"],
        ),
        (
            "STAT get_hits 99\nSTAT get_misses 1\nSTAT evictions 7\n",
            "unknown",
            &["dropped 7 entries"],
            &["counters twice"],
        ),
        (
            "| Id | User | Host | db | Command | Time | State | Info |\n| 1 | a | h | d | Query | 12 | Waiting for table metadata lock | SELECT 1 |\n| 2 | a | h | d | Query | 90 | Sending data | SELECT x FROM t |\n| 3 | a | h | d | Sleep | 900 | | NULL |\n",
            "unknown",
            &[
                "1 statements wait for a lock",
                "`Sending data: SELECT x FROM t` (90 s)",
            ],
            &["innodb_lock_waits"],
        ),
        (
            "*************************** 1. row ***************************\n     Id: 7\n   User: a\nCommand: Query\n   Time: 33\n  State: Creating sort index\n   Info: SELECT y FROM t ORDER BY z\n",
            "unknown",
            &["`Creating sort index: SELECT y FROM t ORDER BY z` (33 s)"],
            &["EXPLAIN", "index"],
        ),
        (
            "# Query_time: 3.5  Lock_time: 0.0 Rows_sent: 2  Rows_examined: 500000\nSET timestamp=1700000000;\nSELECT q FROM t WHERE w = 1;\n",
            "unknown",
            &["SELECT q FROM t", "500,000 rows to return 2"],
            &["EXPLAIN"],
        ),
        (
            "LOG:  duration: 2500.5 ms  statement: SELECT a FROM b\n",
            "unknown",
            &["`SELECT a FROM b` (2.501 s)"],
            &["EXPLAIN"],
        ),
        (
            " pid | state | wait_event_type | age | query\n 1 | idle in transaction | Client | 00:10:00 | UPDATE t\n 2 | active | Lock | 00:09:00 | UPDATE t SET a = 1\n",
            "unknown",
            &["1 statements wait for a lock"],
            &["pg_blocking_pids"],
        ),
        (
            " Sort  (cost=1..2 rows=1 width=8) (actual time=900.0..910.0 rows=9 loops=1)\n   ->  Seq Scan on things  (cost=0..1 rows=1 width=8) (actual time=0.1..800.0 rows=9 loops=1)\n         Rows Removed by Filter: 99999\n Execution Time: 911.0 ms\n",
            "unknown",
            &["`Seq Scan on things` (0.800 s)"],
            &["index"],
        ),
        (
            "2024-01-01T00:00:00.000+0000 I COMMAND [conn1] query d.c query: { a: 1 } planSummary: COLLSCAN docsExamined:99 nreturned:1 1250ms\n",
            "unknown",
            &["(1.250 s)", "whole table or collection"],
            &["explain"],
        ),
    ]);
}

#[test]
fn dumps_of_threads() {
    check(&[
        (
            "\"a\" #1 prio=5 tid=0x1 nid=0x2 waiting for monitor entry [0x3]\n   java.lang.Thread.State: BLOCKED (on object monitor)\n\tat org.a.B.c(B.java:1)\n\t- waiting to lock <0x01> (a org.a.L)\n\n\"b\" #2 prio=5 tid=0x1 nid=0x3 runnable\n   java.lang.Thread.State: RUNNABLE\n\tat org.a.B.d(B.java:2)\n",
            "unknown",
            &["1 of 2 threads are blocked", "org.a.L", "org.a.B.c"],
            &["jstack", "three times"],
        ),
        (
            "goroutine 7 [semacquire, 5 minutes]:\nsync.runtime_SemacquireMutex(0x1, 0x2)\n\t/go/sema.go:77 +0x2\nexample.org/a.(*Store).Get(0x1)\n\t/a/store.go:9 +0x3\n",
            "unknown",
            &["1 of 1 threads wait for a lock", "(*Store).Get"],
            &["/debug/pprof/goroutine"],
        ),
        (
            "goroutine 7 [semacquire, 5 minutes]:\nsync.(*WaitGroup).Wait(0x1)\n\t/go/wg.go:77 +0x2\nmain.all(0x1)\n\t/a/main.go:9 +0x3\n",
            "unknown",
            &["the others stand in", "main.all"],
            &["three dumps"],
        ),
        (
            "12 @ 0x1 0x2\n#\t0x1\tinternal/poll.runtime_pollWait+0x2\t/go/netpoll.go:3\n#\t0x2\texample.org/a.(*Client).Ask+0x3\t/a/client.go:9\n",
            "unknown",
            &["of 12 threads", "(*Client).Ask"],
            &["three dumps"],
        ),
        (
            "Thread 9 (active): \"MainThread\"\n    recv_into (ssl.py:1)\n    fetch (app/views.py:33)\nThread 10 (idle): \"Pool-0\"\n    wait (threading.py:3)\n    get (queue.py:1)\n",
            "unknown",
            &["of 2 threads 1 wait for work", "fetch (app/views.py:33)"],
            &["py-spy"],
        ),
        (
            "Thread 2 (Thread 0x7f (LWP 12)):\n#0  0x00007f01 in __lll_lock_wait () from /lib/libpthread.so.0\n#1  0x00007f02 in pthread_mutex_lock () from /lib/libpthread.so.0\n#2  0x00007f03 in take_order (a=1) at order.c:12\n",
            "unknown",
            &["1 of 1 threads wait for a lock", "take_order"],
            &["gdb"],
        ),
        (
            "WARNING: Thread Thread[vert.x-eventloop-thread-1,5,main] has been blocked for 5100 ms, time limit is 2000 ms\nio.vertx.core.VertxException: Thread blocked\n\tat java.base/java.lang.Thread.sleep(Native Method)\n\tat org.a.Slow.work(Slow.java:5)\n",
            "event_loop_blocked",
            &["5,100 ms", "org.a.Slow.work"],
            &["pool of workers"],
        ),
        (
            "WARNING: Thread Thread[vert.x-worker-thread-3,5,main] has been blocked for 61000 ms, time limit is 60000 ms\n",
            "unknown",
            &["at one request for 61"],
            &["jstack"],
        ),
        (
            " [JavaScript]:\n   ticks  total  nonlib   name\n    500   50.0%   60.0%  LazyCompile: *render /app/view.js:10:5\n    100   10.0%   12.0%  Function: parse /app/in.js:1:1\n",
            "unknown",
            &["*render /app/view.js:10:5 (50 %)"],
            &["Bottom up"],
        ),
        (
            " [Summary]:\n   ticks  total  nonlib   name\n    100   10.0%   12.0%  JavaScript\n    700   70.0%   80.0%  C++\n    200   20.0%          Shared libraries\n\n [C++ entry points]:\n   ticks    cpp   total   name\n    50   40.0%   15.0%  write\n",
            "unknown",
            &["10 % in JavaScript, 70 % in C++"],
            &["prof-process"],
        ),
        (
            "Thread (0x1A):\n  [Native Frames]\n  System.Private.CoreLib!System.Threading.Monitor.Enter(class System.Object)\n  Shop!Shop.Orders.Save()\n",
            "unknown",
            &["1 of 1 threads wait for a lock", "Shop.Orders.Save()"],
            &["three times"],
        ),
    ]);
}

#[test]
fn interrupts_limits_and_pools() {
    check(&[
        (
            " 26:  9000000  0  0  3   PCI-MSI 1-edge  eth0-TxRx-0\n 27:  8000000  0  0  0   PCI-MSI 2-edge  eth0-TxRx-1\n 14:  5  5000000  0  0   PCI-MSI 3-edge  nvme0q1\n",
            "unknown",
            &["CPU 0 (100 %)", "2 sources", "4 CPUs"],
            &["smp_affinity", "mpstat"],
        ),
        (
            "      NET_RX:   10   900   0   0\n      NET_RX:   20  9900   0   0\n",
            "unknown",
            &["CPU 1 (100 %)"],
            &["RPS"],
        ),
        (
            "00000100 0000000a 00000001 00000000 00000000 00000000 00000000 00000000 00000000\n00000100 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n",
            "unknown",
            &["10 packets were dropped"],
            &["netdev_max_backlog"],
        ),
        (
            "# cat /proc/sys/net/ipv4/tcp_max_orphans\n4096\n# cat /proc/net/sockstat\nTCP: inuse 50 orphan 4090 tw 9 alloc 60 mem 70\n",
            "unknown",
            &["4,090 sockets are orphaned", "4,096"],
            &["orphan"],
        ),
        (
            "HikariPool-1 - Pool stats (total=10, active=10, idle=0, waiting=31)\n",
            "unknown",
            &["all 10 of the pool", "31 wait"],
            &["pg_stat_activity"],
        ),
        (
            "pool stats: {MaxOpenConnections:5 OpenConnections:5 InUse:5 Idle:0 WaitCount:70 WaitDuration:1.5s}\n",
            "unknown",
            &["all 5 of the pool"],
            &["dump of the threads"],
        ),
        (
            "db pool max=8 acquired=8 idle=0 acquire_delta=9000 empty_acquire_delta=8800 avg_acquire_ms=300\n",
            "application_pool_too_small",
            &["8,800 of 9,000", "300 ms"],
            &["larger pool"],
        ),
        (
            "{\"backlog\":3,\"running\":5,\"pool_capacity\":0,\"max_threads\":5}\n",
            "unknown",
            &["all 5 of the pool", "3 wait"],
            &["dump of the threads"],
        ),
        (
            " database | user | cl_active | cl_waiting | sv_active | sv_idle | maxwait\n shop | app | 300 | 40 | 20 | 0 | 1\n",
            "unknown",
            &["40 wait for one of a pool of which 20"],
            &["limit"],
        ),
        (
            "[pool] total=50, active=10, idle=40, waiting=0\n",
            "unknown",
            &["has room (10 in use)"],
            &["while it is slow"],
        ),
    ]);
}

#[test]
fn messages_of_servers() {
    check(&[
        (
            "invalid request block size: 9000 (max 4096)...skip\n",
            "upload_or_head_limit",
            &["9,000 bytes where 4,096"],
            &["buffer-size"],
        ),
        (
            "[error] 1#1: *2 client intended to send too large body: 9000000 bytes\n",
            "upload_or_head_limit",
            &["body"],
            &["client_max_body_size"],
        ),
        (
            "[error] 1#1: *2 upstream sent too big header while reading response header from upstream\n",
            "unknown",
            &["larger head"],
            &["proxy_buffer_size"],
        ),
        (
            "WARNING: [pool www] server reached pm.max_children setting (7), consider raising it\n",
            "thread_pool_too_small",
            &[
                "all of its 7 workers",
                "what the busy ones wait for is not seen",
            ],
            &["slowlog", "strace"],
        ),
        (
            "[03-Mar 10:00:00] WARNING: [pool www] server reached pm.max_children\n",
            "thread_pool_too_small",
            &["all of its workers"],
            &["slowlog"],
        ),
        (
            "[mpm_prefork:error] [pid 3] AH00161: server reached MaxRequestWorkers setting\n",
            "unknown",
            &["all its workers are busy"],
            &["strace"],
        ),
        (
            "[2024-01-01 00:00:00 +0000] [1] [CRITICAL] WORKER TIMEOUT (pid:9)\n",
            "unknown",
            &["`WORKER TIMEOUT`", "killed workers"],
            &["py-spy", "--threads", "gthread"],
        ),
        (
            "Fri Jan 1 10:00:00 2024 - *** HARAKIRI ON WORKER 1 (pid: 7) ***\n",
            "unknown",
            &["killed workers"],
            &["py-spy"],
        ),
        (
            "FATAL:  sorry, too many clients already\n",
            "upstream_refuses",
            &["all are taken"],
            &["pg_stat_activity"],
        ),
        (
            "SQLSTATE[HY000] [1040] Too many connections\n",
            "upstream_refuses",
            &["all are taken"],
            &["pooler"],
        ),
        (
            "Get \"http://a\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)\n",
            "unknown",
            &["time limit (1 while waiting"],
            &["time_starttransfer"],
        ),
        (
            "Unsolicited: http: server closed idle connection\n",
            "unknown",
            &["keep-alive time"],
            &["keep-alive"],
        ),
        (
            "cgroup: fork rejected by pids controller in /system.slice/a.service\n",
            "tasks_limit",
            &["control group"],
            &["pids.max"],
        ),
        (
            "write() failed (28: No space left on device)\n",
            "unknown",
            &["used up"],
            &["df -h"],
        ),
    ]);
}

#[test]
fn messages_that_nobody_knows_are_quoted() {
    check(&[
        (
            "2024-03-01T10:00:00.1Z WARN  store - compaction took 3402 ms\n2024-03-01T10:00:05.1Z WARN  store - compaction took 2100 ms\n2024-03-01T10:00:06.1Z INFO  store - done\n",
            "unknown",
            &["compaction took 3402 ms` (2 times)", "up to 3.4"],
            &["strace"],
        ),
        (
            "ERROR: quota for tenant exceeded\n",
            "unknown",
            &["beyond its limit: `ERROR: quota for tenant exceeded`"],
            &["limits"],
        ),
        (
            "[2024-01-16 22:03:20] ALERT CPU usage above 90% on web-1, limit 80%\n",
            "unknown",
            &["CPU usage above 90%"],
            &["strace"],
        ),
        (
            "Jan 16 22:02:39 host app[1]: lookup of shard 7 timed out after 30 seconds\n",
            "unknown",
            &["up to 30"],
            &["strace"],
        ),
    ]);
}

#[test]
fn prose_and_data_are_refused() {
    for text in [
        "My server is slow, and I get a timeout when the load is full. Errors are rare.\nIt took 30 seconds.\n",
        "error handling is limited in this version: it was reset\n",
        "the pool is full: we swim, total 10 of us\n",
        "1,2,3,4,5,6,7,8\n9,10,11,12,13,14,15,16\n",
        "Time: 12\nState: open\n",
        "\u{fffd}ELF\u{1}\u{2} WARN \u{fffd} exceeded\n",
        "Exception in thread \"main\" org.a.Odd\n\tat org.a.B.c(B.java:1)\n",
    ] {
        let pasted = read(text);
        assert!(pasted.is_empty(), "{text}: {:?}", pasted.contents());
    }
}

#[test]
fn sockets_that_a_command_counted() {
    check(&[
        (
            "# netstat -ant | grep CLOSE_WAIT | wc -l\n412\n",
            "unknown",
            &["412 sockets are in CLOSE-WAIT"],
            &["close-wait"],
        ),
        (
            "$ ss -tan state time-wait | wc -l\n31000\n$ netstat -an | grep -c ESTABLISHED\n12\n",
            "unknown",
            &["31,000 sockets are in TIME-WAIT", "12 established"],
            &["keep-alive"],
        ),
        (
            "$ sudo ss -Htn state syn-recv | wc -l\n256\n",
            "unknown",
            &["256 connections are in SYN-RECV"],
            &["ss -ltn"],
        ),
    ]);
    for text in [
        "$ netstat -an | grep -vc TIME_WAIT\n9000\n",
        "$ ls TIME_WAIT | wc -l\n9000\n",
    ] {
        assert!(read(text).is_empty(), "{text}");
    }
}

#[test]
fn disks_by_program_and_by_a_servers_own_metrics() {
    check(&[
        (
            "  TID  PRIO  USER  DISK READ>  DISK WRITE  COMMAND\n 812 be/4 www   512.00 B/s  4.00 M/s nginx: worker process\n 813 be/4 www  0.00 B/s  4.00 M/s nginx: worker process\n 900 be/4 pg  2.00 M/s 0.00 B/s postgres: writer\n",
            "unknown",
            &["a second", "nginx (80 %)"],
            &["lsof", "strace"],
        ),
        (
            " 812 be/4 www 0.00 B/s 900.00 K/s ?unavailable? mysqld --x\n",
            "unknown",
            &["mysqld (100 %)"],
            &["lsof"],
        ),
        (
            "a_wal_fsync_duration_seconds_bucket{le=\"0.01\"} 40\na_wal_fsync_duration_seconds_bucket{le=\"0.5\"} 95\na_wal_fsync_duration_seconds_bucket{le=\"1\"} 100\na_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 100\n",
            "unknown",
            &[
                "`a_wal_fsync_duration_seconds`",
                "of 100 half",
                "0.5",
                "near 1 ",
            ],
            &["iostat -x 1 5"],
        ),
        (
            "http_duration_seconds_bucket{code=\"200\",le=\"0.1\",} 99 1700000000\nhttp_duration_seconds_bucket{code=\"200\",le=\"0.2\",} 100 1700000000\nhttp_duration_seconds_bucket{code=\"200\",le=\"+Inf\",} 100 1700000000\n",
            "unknown",
            &["`http_duration_seconds`", "99 % at most 0.1"],
            &["twice"],
        ),
        (
            "x_ms_bucket{le=\"100\"} 60\nx_ms_bucket{le=\"+Inf\"} 100\n",
            "unknown",
            &["40 % are above its last bucket", "ends at 100"],
            &["twice"],
        ),
    ]);
}

#[test]
fn commands_that_were_timed() {
    check(&[
        (
            "$ time curl -so /dev/null http://a.example/\n\nreal\t0m2.500s\nuser\t0m0.010s\nsys\t0m0.010s\n",
            "unknown",
            &["this request took 2.5 s", "0.02 s"],
            &["curl -w", "time_starttransfer"],
        ),
        (
            "curl -s http://a.example/  0.01s user 0.01s system 0% cpu 3.250 total\n",
            "unknown",
            &["this request took 3.25 s"],
            &["curl -w"],
        ),
        (
            "$ time php artisan queue\nreal 0m1.5s\nuser 0m0.1s\nsys 0m0.1s\n",
            "unknown",
            &["the command took 1.5 s"],
            &["strace"],
        ),
    ]);
}

#[test]
fn statements_that_wait_and_scan() {
    check(&[
        (
            " query_start | waiting | state | substr\n-----+-----+-----+-----\n 2020-01-01 10:00:05 | t | active | SELECT b\n 2020-01-01 10:00:01 | f | idle in transaction | UPDATE a\n 2020-01-01 10:00:03 | t | active | ALTER TABLE a\n",
            "unknown",
            &[
                "2 statements are waiting",
                "first of them `ALTER TABLE a` (older than it, and not waiting: `UPDATE a`)",
            ],
            &["pg_locks", "pg_blocking_pids"],
        ),
        (
            " state | wait_event_type | count\n active | Lock | 7\n idle | Client | 30\n",
            "unknown",
            &["7 connections of the database are waiting"],
            &["pg_blocking_pids"],
        ),
        (
            " waiting | procpid | current_query\n t | 7 | DELETE FROM a\n f | 8 | <IDLE>\n",
            "unknown",
            &["1 statements are waiting", "`DELETE FROM a`"],
            &["pg_locks"],
        ),
        (
            "2023-01-01T00:00:00 I COMMAND [conn1] command a.b command: find { find: \"b\" } planSummary: COLLSCAN docsExamined:900000 nreturned:2 protocol:op_msg 42437ms\n",
            "unknown",
            &[
                "COLLSCAN: command a.b",
                "42.4 s",
                "900,000 rows to return 2",
            ],
            &["EXPLAIN"],
        ),
        (
            "Seq Scan on big  (cost=0..1 rows=1) (actual time=0.1..12500.0 rows=1 loops=1)\nExecution Time: 12500.5 ms\n",
            "unknown",
            &["Seq Scan on big", "12.5 s"],
            &["EXPLAIN"],
        ),
    ]);
}

#[test]
fn loops_and_locks_of_programs() {
    let woken = "epoll_wait(4, {{EPOLLIN, {u32=3}}}, 1, -1) = 1\n";
    let lost =
        "accept4(3, NULL, NULL, SOCK_CLOEXEC) = -1 EAGAIN (Resource temporarily unavailable)\n";
    let taken = "accept4(3, NULL, NULL, SOCK_CLOEXEC) = 9\n";
    let first = |text: &str| diagnose_pasted(&read(text)).findings.remove(0);
    let herd = first(&format!("{woken}{lost}").repeat(5));
    assert_eq!(herd.cause, "thundering_herd", "{}", herd.why);
    assert!(herd.why.contains("5 of 5 accepts"), "{}", herd.why);
    // With the time of each call, and a loop that accepts until nothing is left.
    let timed = format!("{woken}{lost}").replace('\n', " <0.000010>\n");
    assert_eq!(first(&timed.repeat(5)).cause, "thundering_herd");
    let whole = first(&format!("{woken}{taken}{lost}").repeat(5));
    assert_eq!(whole.cause, "unknown", "{}", whole.why);
    check(&[
        (
            "\"exec-5@33\" daemon prio=5 tid=0x2d nid=NA waiting for monitor entry\n  java.lang.Thread.State: BLOCKED\n\t waiting for exec-6@34 to release lock on <0xd2>(a a.b.Settings)\n\t  at a.b.Settings.get(Settings.java:4)\n",
            "unknown",
            &[
                "1 of 1 threads are blocked",
                "a.b.Settings, held by exec-6@34",
            ],
            &["jstack"],
        ),
        (
            " [C++]:\n   ticks  total  nonlib   name\n   800   80.0%   80.0%  T node::zlib::Inflate(v8::FunctionCallbackInfo<v8::Value> const&)\n   20   2.0%   2.0%  T _write\n",
            "event_loop_blocked",
            &["node::zlib::Inflate (80 %)"],
            &["asynchronous form"],
        ),
        (
            " [C++]:\n   ticks  total  nonlib   name\n   300   30.0%   30.0%  T node::fs::Open(v8::FunctionCallbackInfo<v8::Value> const&)\n   20   2.0%   2.0%  T _write\n",
            "unknown",
            &["node::fs::Open (30 %)"],
            &["Bottom up"],
        ),
        (
            "  40.00%  [kernel]  [k] __inet_check_established\n  10.00%  [kernel]  [k] __inet_hash_connect\n  5.00%  [kernel]  [k] _raw_spin_lock\n",
            "unknown",
            &["50 % of the CPU time is the search for a free local port"],
            &["ss -s", "keep-alive"],
        ),
    ]);
    let go = first(
        "17238135420 18.17% 18.17% 22875766599 24.12%  main.(*Point).MarshalJSON\n12051538220 12.70% 30.88% 26679608822 28.13%  fmt.Sprintf\n",
    );
    assert!(!go.why.contains("Node"), "{}", go.why);
}

#[test]
fn loads_that_show_nothing_else_say_their_times() {
    check(&[
        (
            " Name  # reqs  # fails |  Avg  Min  Max  Median | req/s failures/s\n Aggregated 4000   0(0.00%) |  300   14  17600  66 | 145.00  0.00\n",
            "unknown",
            &[
                "locust shows 145 responses a second, typically in 66 ms and at most in 17,600 ms",
                "longest 17.6 s",
            ],
            &["access log", "py-spy"],
        ),
        (
            "Requests per second:    0.76 [#/sec] (mean)\nConcurrency Level: 80\nComplete requests: 100\nConnection Times (ms)\n              min  mean[+/-sd] median   max\nConnect:        0 10123 4009.8  11487   19334\nProcessing:     0 2586 1574.8   2583    5405\n",
            "unknown",
            &["a connect took up to 19.3 s"],
            &["ss -ltn", "nstat -az TcpExtListenOverflows"],
        ),
    ]);
}
