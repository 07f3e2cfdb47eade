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
            &["compaction took 3402 ms` (2 times)", "name is 3.4 s"],
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
            &["name is 30 s"],
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
    ] {
        let pasted = read(text);
        assert!(pasted.is_empty(), "{text}: {:?}", pasted.contents());
    }
}

#[test]
fn a_sentence_of_a_program_is_quoted_with_a_next_step() {
    for (text, quoted, next) in [
        (
            "Exception in thread \"main\" org.a.Odd\n\tat org.a.B.c(B.java:1)\n",
            "org.a.Odd",
            "`grep -C20`",
        ),
        (
            "Application maximum poll interval (300000ms) exceeded by 88ms\n",
            "exceeded by 88ms",
            "max.poll.records",
        ),
        (
            "odd.Pool [worker-3] has 12 items unused. Consider lowering odd.pool.max_items to 4\n",
            "12 items unused",
            "Consider lowering odd.pool.max_items to 4",
        ),
    ] {
        let finding = diagnose_pasted(&read(text)).findings.remove(0);
        assert_eq!(finding.cause, "unknown", "{text}");
        assert!(finding.why.contains(quoted), "{}", finding.why);
        assert!(finding.remedy.contains(next), "{}", finding.remedy);
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
        // A number with its command at most, and not of sockets.
        let pasted = read(text);
        let other = |c: &String| c == "1 x numbers with names";
        assert!(pasted.contents().iter().all(other), "{text}");
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

#[test]
fn generators_of_old_forms_and_cut_off() {
    check(&[
        (
            "Stat         Avg    Stdev   Max\nLatency (ms) 2040.5 300.1   4011\nReq/Sec      24.4   5.2     40\nBytes/Sec    4.2 kB 900 B   6 kB\n\n244 requests in 10s, 42 kB read\n",
            "unknown",
            &["24.4 responses", "2,041 ms", "4,011 ms"],
            &["perf record"],
        ),
        (
            "GET      /api/items                                                                      1500     0(0.00%) |    345      12    9012    120 |   48.20        0.00\nGET      /api/user                                                                       1500     0(0.00%) |     45      12    2012     20 |   48.20        0.00\n",
            "unknown",
            &["locust shows 96.4", "9.01 s"],
            &["access log"],
        ),
        (
            "Response time percentiles (approximated)\nType     Name                                                                                  50%    66%    75%    80%    90%    95%    98%    99%  99.9% 99.99%   100% # reqs\n--------|--------------------------------------------------------------------------------|--------|------|------|------|------|------|------|------|------|------|------|------\nGET      /                                                                                      120    130    150    180    400   1200   3000   9000  12000  12000  12000   1500\n--------|--------------------------------------------------------------------------------|--------|------|------|------|------|------|------|------|------|------|------|------\n         Aggregated                                                                             120    130    150    180    400   1200   3000   9000  12000  12000  12000   1500\n",
            "unknown",
            &["locust", "120 ms", "12,000 ms"],
            &["pidstat"],
        ),
        (
            "Response time distribution:\n  10.00% in 0.0021 secs\n  50.00% in 0.0301 secs\n  95.00% in 0.1301 secs\n  99.00% in 2.0301 secs\n\nDetails (average, fastest, slowest):\n  DNS+dialup:\t0.0023 secs, 0.0001 secs, 1.0123 secs\n",
            "unknown",
            &["30.1 ms", "2,030 ms"],
            &["access log"],
        ),
        (
            "Statistics        Avg      Stdev        Max\n  Reqs/sec     12345.12    1234.12   20123.12\n  Latency       10.12ms     4.12ms      1.21s\n",
            "unknown",
            &["12,345 responses", "1.21 s"],
            &["access log"],
        ),
        (
            "  HTTP codes:\n    1xx - 0, 2xx - 12000, 3xx - 0, 4xx - 0, 5xx - 345\n    others - 12\n  Errors:\n    timeout - 12\n  Throughput:     4.12MB/s\n",
            "unknown",
            &["2.8 % of the requests failed"],
            &["curl -si"],
        ),
        (
            "     http_req_blocked...........: avg=1.2ms  min=1µs  med=3µs max=1.02s p(90)=5µs  p(95)=7µs\n     http_req_duration..........: avg=812ms  min=12ms  med=45ms max=60s p(90)=2.1s  p(95)=5.2s\n",
            "unknown",
            &["45 ms", "60,000 ms"],
            &["access log"],
        ),
        (
            "errors.ETIMEDOUT: .............................................................. 345\nvusers.failed: ................................................................. 345\n",
            "unknown",
            &["345 failed requests"],
            &["curl -si"],
        ),
        (
            "  Latency Distribution\n     50%  250.12ms\n     75%  491.12ms\n     90%  700.00ms\n     99%    5.80s\n",
            "unknown",
            &["250 ms", "5,800 ms"],
            &["access log"],
        ),
    ]);
}

#[test]
fn statistics_of_statements() {
    check(&[
        (
            "# 1.2s user time, 20ms system time, 30.1M rss, 95.2M vsz\n# Overall: 1.19k total, 23 unique, 0.33 QPS, 0.12x concurrency ________\n# Profile\n# Rank Query ID                           Response time   Calls R/Call V/M\n# ==== ================================== =============== ===== ====== ===\n#    1 0x7D1B2F3C4D5E6F70                 410.2032 93.1%   1204 0.3407  0.12 SELECT orders\n#    2 0x1A2B3C4D5E6F7081                  12.1023  2.7%    300 0.0403  0.01 SELECT users\n# MISC 0xMISC                              18.3201  4.2%   9000 0.0020   0.0 <21 ITEMS>\n",
            "unknown",
            &["93 %", "SELECT orders", "1204 times, 341 ms each"],
            &["EXPLAIN"],
        ),
        (
            "# Query 1: 0.5 QPS, 0.31x concurrency, ID 0x7D1B2F3C4D5E6F70 at byte 88120\n# Attribute    pct   total     min     max     avg     95%  stddev  median\n# ============ === ======= ======= ======= ======= ======= ======= =======\n# Count         10    1204\n# Exec time     93    410s   120ms      3s   340ms   800ms   110ms   300ms\n# Lock time      2   110ms    20us   900us    90us   200us    30us    80us\n# Rows sent      5  11.76k      10      10      10      10       0      10\n# Rows examine  88  55.10M  46.8k   47.2k   46.9k  46.68k       0  46.68k\n# Query size    12 120.01k     102     104  102.07  102.22       0   97.36\n# Tables\n#    SHOW TABLE STATUS LIKE 'orders'\\G\n#    SHOW CREATE TABLE `orders`\\G\n# EXPLAIN /*!50100 PARTITIONS*/\nSELECT * FROM orders WHERE customer_email = 'a@example.com' ORDER BY created_at DESC LIMIT 10\\G\n",
            "unknown",
            &["customer_email", "reads 46900 rows to return 10"],
            &["EXPLAIN", "index"],
        ),
        (
            "# Exec time     93    410s   120ms      3s   340ms   800ms   110ms   300ms\n# Lock time      2   110ms    20us   900us    90us   200us    30us    80us\n# Rows sent      5  11.76k      10      10      10      10       0      10\n# Rows examine  88  55.10M  46.8k   47.2k   46.9k  46.68k       0  46.68k\n",
            "unknown",
            &["reads 46900 rows to return 10"],
            &["EXPLAIN"],
        ),
        (
            "Reading mysql slow query log from /var/log/mysql/slow.log\nCount: 240  Time=12.52s (3005s)  Lock=0.00s (0s)  Rows=1.0 (240), shop[shop]@[10.0.0.5]\n  SELECT COUNT(*) FROM orders WHERE status = 'S' AND created > 'S'\n\nCount: 2  Time=2.01s (4s)  Lock=0.00s (0s)  Rows=10.0 (20), shop[shop]@localhost\n  SELECT * FROM users LIMIT N\n",
            "unknown",
            &["SELECT COUNT(*)", "240 times, 12.5 s each"],
            &["EXPLAIN"],
        ),
        (
            " query                                  | calls | total_time | mean_time | rows\n----------------------------------------+-------+------------+-----------+------\n SELECT * FROM events WHERE payload = $1 | 3204  | 4324812.1  | 1349.8    | 3204\n SELECT 1                                | 99999 | 312.2      | 0.003     | 99999\n",
            "unknown",
            &["1.3 s each", "payload = $1"],
            &["EXPLAIN"],
        ),
        (
            "-[ RECORD 1 ]---+----------------------------------\nquery           | SELECT * FROM events WHERE payload = $1\ncalls           | 3204\ntotal_exec_time | 4324812.1\nmean_exec_time  | 1349.8\nrows            | 3204\n",
            "unknown",
            &["1,350 ms on average"],
            &["EXPLAIN"],
        ),
        (
            "  Order Load (3801.4ms)  SELECT \"orders\".* FROM \"orders\" WHERE \"orders\".\"email\" = $1\n  User Load (0.4ms)  SELECT \"users\".* FROM \"users\" WHERE \"users\".\"id\" = $1\n",
            "unknown",
            &["(3.801 s)"],
            &["EXPLAIN"],
        ),
        (
            "(4.201) SELECT \"shop_order\".\"id\" FROM \"shop_order\" WHERE \"shop_order\".\"email\" = 'a'; args=('a',)\n",
            "unknown",
            &["(4.201 s)"],
            &["EXPLAIN"],
        ),
        (
            "*************************** 1. row ***************************\n           id: 1\n  select_type: SIMPLE\n        table: orders\n         type: ALL\npossible_keys: NULL\n          key: NULL\n         rows: 4812345\n        Extra: Using where; Using filesort\n",
            "unknown",
            &["orders (type ALL, key NULL)", "about 4812345 rows"],
            &["index"],
        ),
        (
            " Seq Scan on orders  (cost=0.00..123456.00 rows=1 width=123)\n   Filter: (email = 'a'::text)\n",
            "unknown",
            &["Seq Scan on orders"],
            &["EXPLAIN ANALYZE"],
        ),
        (
            "-[ RECORD 1 ]----+------------------------------\ndatid            | 16384\npid              | 4012\nusename          | app\nstate            | idle in transaction\nwait_event_type  | Client\nwait_event       | ClientRead\nxact_start       | 2023-01-01 10:00:00.123+00\nquery            | UPDATE accounts SET balance = 1 WHERE id = 3\n-[ RECORD 2 ]----+------------------------------\npid              | 4013\nstate            | active\nwait_event_type  | Lock\nwait_event       | transactionid\nxact_start       | 2023-01-01 10:00:05.123+00\nquery            | UPDATE accounts SET balance = 2 WHERE id = 3\n",
            "unknown",
            &[
                "1 statements are waiting",
                "UPDATE accounts SET balance = 1",
            ],
            &["pg_blocking_pids"],
        ),
        (
            " wait_event_type | wait_event | count\n-----------------+------------+-------\n LWLock          | BufferMapping | 45\n Client          | ClientRead | 12\n IO              | DataFileRead | 33\n",
            "unknown",
            &["LWLock BufferMapping (45)"],
            &["pg_stat_activity"],
        ),
        (
            "=====================================\n2023-01-01 10:00:00 0x7f INNODB MONITOR OUTPUT\n=====================================\n------------\nTRANSACTIONS\n------------\nTrx id counter 1234567\nHistory list length 1834012\n---TRANSACTION 1234560, ACTIVE 812 sec\n2 lock struct(s), heap size 1136, 1 row lock(s)\n---TRANSACTION 1234565, ACTIVE 31 sec starting index read\nmysql tables in use 1, locked 1\nLOCK WAIT 2 lock struct(s), heap size 1136, 1 row lock(s)\nMySQL thread id 77, OS thread handle 1, query id 12 10.0.0.2 app updating\nUPDATE accounts SET balance = 1 WHERE id = 3\n------- TRX HAS BEEN WAITING 31 SEC FOR THIS LOCK TO BE GRANTED:\n",
            "unknown",
            &["waited 31 s"],
            &["innodb_lock_waits"],
        ),
        (
            "BUFFER POOL AND MEMORY\nBuffer pool hit rate 812 / 1000, young-making rate 0 / 1000 not 0 / 1000\nPending normal aio reads: [120, 0, 0, 0]\n",
            "unknown",
            &["81 % of the pages"],
            &["iostat"],
        ),
        (
            "LATEST DETECTED DEADLOCK\n------------------------\n*** (1) TRANSACTION:\nTRANSACTION 111, ACTIVE 2 sec starting index read\nUPDATE a SET x=1 WHERE id=1\n*** WE ROLL BACK TRANSACTION (2)\n",
            "unknown",
            &["LATEST DETECTED DEADLOCK"],
            &["SHOW ENGINE INNODB STATUS"],
        ),
        (
            "1) 1) \"fork\"\n   2) (integer) 1700000000\n   3) (integer) 812\n   4) (integer) 1203\n2) 1) \"command\"\n   2) (integer) 1700000011\n   3) (integer) 112\n   4) (integer) 203\n",
            "unknown",
            &["fork (1,203 ms)"],
            &["latest_fork_usec"],
        ),
        (
            "{'id': 12, 'start_time': 1700000000, 'duration': 250015, 'command': b'KEYS session:*'}\n",
            "unknown",
            &["KEYS session:*", "0.250 s"],
            &["SCAN"],
        ),
        (
            "| Threads_running         | 145   |\n| Threads_connected       | 512   |\n| Innodb_row_lock_waits   | 12345 |\n| Slow_queries            | 3210  |\n",
            "unknown",
            &["145 threads running"],
            &["PROCESSLIST"],
        ),
    ]);
}

#[test]
fn dumps_cut_off_and_of_loops() {
    check(&[
        (
            "goroutine profile: total 20544\n",
            "unknown",
            &["20,544 goroutines"],
            &["goroutine?debug=1"],
        ),
        (
            "goroutine 5123 [chan receive, 45 minutes]:\ngithub.com/acme/queue.(*Worker).wait(0xc000123400)\n\t/src/queue/worker.go:77 +0x85\ncreated by github.com/acme/queue.New\n\t/src/queue/worker.go:30 +0x111\n\ngoroutine 5124 [chan receive, 45 minutes]:\ngithub.com/acme/queue.(*Worker).wait(0xc000123500)\n\t/src/queue/worker.go:77 +0x85\ncreated by github.com/acme/queue.New\n\t/src/queue/worker.go:30 +0x111\n",
            "unknown",
            &["45 minutes", "(*Worker).wait"],
            &["leak"],
        ),
        (
            "goroutine 5123 [select, 12 minutes]:\n",
            "unknown",
            &["select, 12 minutes"],
            &["goroutine"],
        ),
        (
            " 1523 @ 0x43b176 0x44b1a5\n #\t0x7e1a2e\tnet/http.(*persistConn).writeLoop+0xee\t/usr/local/go/src/net/http/transport.go:2410\n",
            "unknown",
            &["1,523 of 1,523", "writeLoop"],
            &["again"],
        ),
        (
            "#22 \"ForkJoinPool.commonPool-worker-1\" \n      java.base/java.lang.Object.wait(Object.java:366)\n      java.base/java.net.SocketInputStream.read(SocketInputStream.java:12)\n      com.acme.Client.call(Client.java:33)\n",
            "unknown",
            &["com.acme.Client.call(Client.java:33)"],
            &["jstack"],
        ),
        (
            "[01-Jan-2023 10:00:00]  [pool www] pid 1234\nscript_filename = /var/www/html/index.php\n[0x00007f1234567890] curl_exec() /var/www/html/wp-includes/Requests/cURL.php:162\n[0x00007f1234567800] request() /var/www/html/wp-includes/class-requests.php:379\n",
            "unknown",
            &["curl_exec()"],
            &["three dumps"],
        ),
        (
            "jdk.JavaMonitorEnter {\n  startTime = 10:00:00.123\n  duration = 1.23 s\n  monitorClass = com.acme.Registry (classLoader = app)\n  previousOwner = \"exec-1\" (javaThreadId = 33)\n  eventThread = \"exec-2\" (javaThreadId = 34)\n  stackTrace = [\n    com.acme.Registry.get(String) line: 44\n    com.acme.Api.handle(Request) line: 12\n  ]\n}\n",
            "unknown",
            &["JavaMonitorEnter in com.acme.Registry.get", "1.230 s"],
            &["jfr"],
        ),
        (
            "[123:0x55]     1234 ms: Scavenge 45.1 (60.0) -> 44.1 (61.0) MB, 12.5 / 0.0 ms  (average mu = 0.98, current mu = 0.98) allocation failure\n[123:0x55]     2234 ms: Mark-sweep 145.1 (160.0) -> 144.1 (161.0) MB, 512.5 / 0.0 ms  (average mu = 0.98, current mu = 0.98) allocation failure\n",
            "unknown",
            &["2 collections"],
            &["heap"],
        ),
        (
            "(node:123) Warning: Event loop blocked for 1234ms\n",
            "event_loop_blocked",
            &["1,234 ms"],
            &["--cpu-prof"],
        ),
        (
            "event loop lag: 1532ms\nevent loop delay p99 1532 ms\n",
            "unknown",
            &["1,532 ms late"],
            &["--cpu-prof"],
        ),
        (
            "Thread 7 (idle): \"MainThread\"\n    recv_into (ssl.py:1)\n    get (requests/api.py:5)\n    handler (app/web.py:3)\n    _run_once (asyncio/base_events.py:9)\n",
            "event_loop_blocked",
            &["handler (app/web.py:3)"],
            &["asyncio.to_thread"],
        ),
        (
            "Thread 7 (idle): \"asyncio_0\"\n    recv_into (ssl.py:1)\n    handler (app/web.py:3)\n    run (concurrent/futures/thread.py:9)\n    _run_once (asyncio/base_events.py:9)\n",
            "unknown",
            &["recv_into (ssl.py:1)"],
            &["py-spy"],
        ),
    ]);
}

#[test]
fn proxies_say_how_requests_ended() {
    check(&[
        (
            "Feb  6 12:12:56 localhost haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0\n",
            "unknown",
            &["all 1 sessions"],
            &["show stat"],
        ),
        (
            "haproxy[991]: 203.0.113.7:51234 [10/Mar/2022:14:00:56.123] fe fe/<NOSRV> -1/-1/-1/-1/0 400 187 - - PR-- 4/4/0/0/0 0/0 \"<BADREQ>\"\n",
            "unknown",
            &["PR (1 times: HAProxy ended it"],
            &["log-format"],
        ),
        (
            "haproxy[14387]: 10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/<NOSRV> -1/-1/5007 0 SC 0/0/0/0/3 0/0\n",
            "upstream_errors",
            &["SC"],
            &["show servers state"],
        ),
        (
            "{\"time\":\"2024-01-01T00:00:00Z\",\"status\":504,\"termination_state\":\"sH--\",\"Tq\":0,\"Tw\":0,\"Tc\":1,\"Tr\":-1,\"Tt\":30001,\"backend\":\"api\"}\n",
            "upstream_slow",
            &["sH"],
            &["strace"],
        ),
        (
            "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,weight,act,bck,chkfail,chkdown,lastchg,downtime,qlimit,pid,iid,sid,throttle,lbtot,tracked,type,rate,rate_lim,rate_max,check_status,check_code,check_duration,hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx,hrsp_other,hanafail,req_rate,req_rate_max,req_tot,cli_abrt,srv_abrt,comp_in,comp_out,comp_byp,comp_rsp,lastsess,last_chk,last_agt,qtime,ctime,rtime,ttime,\nhttp-in,FRONTEND,,,2000,2000,2000,512345,1,2,0,0,12,,,,,OPEN,,,,,,,,,1,2,0,,,,0,120,0,400,,,,0,1,2,3,4,0,,120,400,512345,,,0,0,0,0,,,,,,,,\napp,web1,45,120,50,50,50,123456,1,2,,0,,12,34,5,6,UP,1,1,0,1,0,10000,0,,1,3,1,,123456,,2,30,,90,L7OK,200,3,0,1,2,3,512,0,0,,,,123,45,,,,,0,,,1203,1,810,2100,\napp,web2,0,3,0,4,50,56,1,2,,0,,912,34,5,6,DOWN,1,1,0,91,7,10000,0,,1,3,2,,56,,2,0,,9,L4TOUT,,2001,0,1,2,3,912,0,0,,,,3,45,,,,,0,,,0,0,0,0,\napp,BACKEND,45,120,50,54,200,123512,1,2,0,0,,924,68,10,12,UP,1,1,0,,0,10000,0,,1,3,0,,123512,,1,30,,90,,,,0,1,2,3,1424,0,,,,,126,90,0,0,0,0,0,,,1203,1,810,2100,\n",
            "upstream_queue",
            &[
                "up to 45 requests wait",
                "`app/web1` (UP, 50 of 50 sessions",
            ],
            &["maxconn"],
        ),
        (
            "[2023-01-01T10:00:00.123Z] \"GET /api HTTP/1.1\" 503 UO 0 81 0 - \"10.0.0.1\" \"curl\" \"id\" \"app\" \"-\"\n[2023-01-01T10:00:01.123Z] \"GET /api HTTP/1.1\" 503 UO 0 81 0 - \"10.0.0.1\" \"curl\" \"id\" \"app\" \"-\"\n",
            "unknown",
            &["UO (2 times: the limit of a circuit breaker"],
            &["rq_pending_overflow"],
        ),
        (
            "[2023-01-01T10:00:00.123Z] \"POST /api HTTP/1.1\" 0 DC downstream_remote_disconnect - \"-\" 123 0 5012 - \"-\" \"okhttp\" \"id\" \"app\" \"10.0.0.5:8080\"\n",
            "unknown",
            &["DC (1 times: the client closed"],
            &["upstream"],
        ),
        (
            "{\"response_code\":503,\"response_flags\":\"UH\",\"duration\":0,\"upstream_host\":\"-\",\"path\":\"/api\"}\n",
            "unknown",
            &["UH (1 times: no healthy upstream"],
            &["clusters"],
        ),
        (
            "https 2023-01-01T10:00:00.123456Z app/my-alb/50dc6c495c0c9188 10.0.0.1:2817 10.0.0.5:80 0.001 12.048 0.000 200 200 34 366 \"GET https://a.example:443/ HTTP/1.1\" \"curl/7.46.0\" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:x \"Root=1-58337281\" \"-\" \"-\" 1 2023-01-01T10:00:00.000000Z \"forward\" \"-\" \"-\" \"10.0.0.5:80\" \"200\" \"-\" \"-\"\n",
            "upstream_slow",
            &["12 s"],
            &["strace"],
        ),
        (
            "http 2023-01-01T10:00:00.123456Z app/my-alb/50dc6c495c0c9188 10.0.0.1:2817 10.0.0.5:80 -1 -1 -1 502 - 34 366 \"GET http://a.example:80/ HTTP/1.1\" \"curl/7.46.0\" - - arn:aws:x \"Root=1-58337281\" \"-\" \"-\" 1 2023-01-01T10:00:00.000000Z \"forward\" \"-\" \"-\" \"10.0.0.5:80\" \"-\" \"-\" \"-\"\n",
            "unknown",
            &["100 % of the logged requests"],
            &["error log"],
        ),
        (
            "{\"time\":\"2023-01-01T10:00:00+00:00\",\"remote_addr\":\"10.0.0.1\",\"request_method\":\"GET\",\"request_uri\":\"/api/orders\",\"status\":\"504\",\"request_time\":\"60.001\",\"upstream_response_time\":\"60.000\",\"upstream_connect_time\":\"0.001\",\"upstream_addr\":\"10.0.0.5:8080\",\"upstream_status\":\"504\"}\n",
            "upstream_slow",
            &["60 s"],
            &["strace"],
        ),
        (
            "10.0.0.1 - - [01/Jan/2023:10:00:00 +0000] \"GET /api HTTP/1.1\" 504 15 \"-\" \"-\" 123 \"app@docker\" \"http://10.0.0.5:8080\" 30001ms\n",
            "unknown",
            &["30 s"],
            &["error log"],
        ),
        (
            "[pid: 123|app: 0|req: 12/34] 10.0.0.1 () {40 vars in 500 bytes} [Sun Jan 1 10:00:00 2023] GET /orders => generated 5123 bytes in 4312 msecs (HTTP/1.1 200) 5 headers in 200 bytes (1 switches on core 0)\n",
            "unknown",
            &["4.31 s"],
            &["strace"],
        ),
        (
            "[proxy:error] [pid 12] (111)Connection refused: AH00957: HTTP: attempt to connect to 127.0.0.1:8080 (localhost) failed\n[proxy_http:error] [pid 12] [client 1.2.3.4:5555] AH01114: HTTP: failed to make connection to backend: localhost\n",
            "upstream_errors",
            &["Connection refused: AH00957"],
            &["ss -ltnp"],
        ),
        (
            "AH01114: HTTP: failed to make connection to backend: 10.0.0.3\n",
            "unknown",
            &["AH01114"],
            &["ss -ltnp"],
        ),
        (
            "[proxy_http:error] [pid 12:tid 1] (70007)The timeout specified has expired: [client 1.2.3.4:5555] AH01102: error reading status line from remote server 10.0.0.2:8080\n",
            "unknown",
            &["ProxyTimeout"],
            &["slowlog"],
        ),
        (
            "AH01079: failed to make connection to backend: httpd-UDS\n(11)Resource temporarily unavailable: AH02454: FCGI: attempt to connect to Unix domain socket /run/php/php7.4-fpm.sock (*) failed\n",
            "listen_backlog_overflow",
            &["EAGAIN"],
            &["pm.max_children"],
        ),
        (
            "AH03490: scoreboard is full, not at MaxRequestWorkers.Increase ServerLimit.\n",
            "unknown",
            &["AH03490"],
            &["gdb"],
        ),
        (
            "AH01974: could not connect to OCSP responder\n",
            "unknown",
            &["AH01974"],
            &["ss -ltnp"],
        ),
        (
            "MAIN.sess_dropped          1234         0.00 Sessions dropped for thread\nMAIN.threads_limited       123         0.00 Threads hit max\nMAIN.backend_busy          12         0.00 Backend conn. too many\n",
            "unknown",
            &["1,234 sessions"],
            &["varnishstat"],
        ),
    ]);
}

#[test]
fn frameworks_say_where_their_time_goes() {
    check(&[
        (
            "Started GET \"/orders\" for 10.0.0.1 at 2023-01-01 10:00:00 +0000\nCompleted 200 OK in 4312ms (Views: 312.1ms | ActiveRecord: 3801.4ms | Allocations: 1234567)\n",
            "unknown",
            &["88 % is the database's", "GET \"/orders\""],
            &["includes"],
        ),
        (
            "Completed 200 OK in 1234ms (Views: 1100.3ms | ActiveRecord: 12.1ms)\nCompleted 200 OK in 1534ms (Views: 1400.3ms | ActiveRecord: 14.1ms)\n",
            "unknown",
            &["90 % is in views"],
            &["rbspy"],
        ),
        (
            "I, [2023-01-01T10:00:00.123 #12]  INFO -- : Completed 200 OK in 9234ms (Views: 0.3ms | ActiveRecord: 2.1ms)\n",
            "unknown",
            &["9.234 s", "another service"],
            &["rbspy dump"],
        ),
        (
            "method=GET path=/orders format=html controller=OrdersController action=index status=200 duration=4312.10 view=312.10 db=3801.40\n",
            "unknown",
            &["88 %", "/orders"],
            &["EXPLAIN"],
        ),
    ]);
}

#[test]
fn collectors_in_the_words_of_their_logs() {
    check(&[
        (
            "[2020-01-01T10:00:00.123+0000][gc] GC(12) To-space exhausted\n",
            "unknown",
            &["To-space exhausted"],
            &["jmap"],
        ),
        (
            "[5.123s][info][gc] Allocation Stall (http-nio-8080-exec-7) 345.123ms\n[5.200s][info][gc] GC(44) Garbage Collection (Allocation Stall) 3900M(95%)->3800M(93%)\n",
            "unknown",
            &["0.345 s"],
            &["-Xmx"],
        ),
        (
            "[123.456s][info][gc] GC(12) Pause Degenerated GC (Mark) 3800M->3700M(4096M) 456.789ms\n",
            "unknown",
            &["Degenerated"],
            &["-Xmx"],
        ),
        (
            "[gc,start] GC(7) Pause Full (System.gc())\n",
            "unknown",
            &["1 full collections"],
            &["-Xlog:gc*"],
        ),
        (
            "GC(31) Eden regions: 0->0(44)\nGC(31) Survivor regions: 0->0(8)\nGC(31) Old regions: 7->7\nGC(31) Humongous regions: 400->400\n",
            "unknown",
            &["1 lines are of humongous regions"],
            &["-Xlog:gc*"],
        ),
    ]);
}

#[test]
fn machines_without_heads_of_tables() {
    check(&[
        (
            " 2  0      0 123456  78900 456789    0    0     0     0 12345 54321 10  5 85  0  0\n 9  0      0 123456  78900 456789    0    0     0     0 12345 54321 70 25  5  0  0\n",
            "unknown",
            &["54,321 context switches"],
            &["pidstat"],
        ),
        (
            "sda               0.00    12.00    0.00  320.00     0.00  4096.00    25.60    12.10   38.10    0.00   38.10   3.12  99.90\n",
            "unknown",
            &["a disk was busy 100 %"],
            &["pidstat -d"],
        ),
        (
            "10:00:02     all   12.00    0.00    5.00    0.00    0.00   12.00    0.00    0.00    0.00   71.00\n10:00:02       0    2.00    0.00    3.00    0.00    0.00   95.00    0.00    0.00    0.00    0.00\n10:00:02       1   12.00    0.00    5.00    0.00    0.00    0.00    0.00    0.00    0.00   83.00\n",
            "softirq_on_one_core",
            &["95 %"],
            &["/proc/interrupts"],
        ),
        (
            "10:00:02     1000     12345   98.00    2.00    0.00    0.10  100.00     3  node\n10:00:03     1000     12345   97.00    3.00    0.00    0.10  100.00     3  node\n",
            "unknown",
            &["node (100 %)"],
            &["perf top"],
        ),
        (
            "12:00:01        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil\n12:00:02         eth0  81234.00  91234.00 112345.00 119000.00      0.00      0.00      0.00     97.50\n",
            "unknown",
            &["98 % of its speed"],
            &["ethtool"],
        ),
        (
            "12:00:01     active/s passive/s    iseg/s    oseg/s\n12:00:02      5123.00      1.00  20000.00  30000.00\n12:00:01     atmptf/s  estres/s retrans/s isegerr/s   orsts/s\n12:00:02         2.00    120.00   1500.00      0.00     12.00\n",
            "unknown",
            &["1,500 segments a second"],
            &["ss -ti"],
        ),
        (
            "12:00:01        IFACE   rxerr/s   txerr/s    coll/s  rxdrop/s  txdrop/s  txcarr/s  rxfram/s  rxfifo/s  txfifo/s\n12:00:02         eth0      0.00      0.00      0.00    812.00      0.00      0.00      0.00      0.00      0.00\n",
            "unknown",
            &["drops 812"],
            &["ethtool -S"],
        ),
        (
            "12:00:01       proc/s   cswch/s\n12:00:02         1.00 152340.00\n",
            "unknown",
            &["152,340"],
            &["pidstat -wt"],
        ),
        (
            "TcpExtTCPAbortOnTimeout         512                0.0\nTcpExtTCPLostRetransmit         9000               0.0\n",
            "unknown",
            &["TcpExtTCPLostRetransmit 9,000"],
            &["nstat"],
        ),
        (
            "Total: 45123 (kernel 45200)\nTCP:   48230 (estab 1200, closed 46100, orphaned 12, synrecv 0, timewait 46000/0), ports 30000\n",
            "unknown",
            &["46,000 sockets are in TIME-WAIT"],
            &["ss -tan"],
        ),
        (
            "CONTAINER ID   NAME   CPU %     MEM USAGE / LIMIT     MEM %     NET I/O           BLOCK I/O         PIDS\nabc123         app    99.87%    510MiB / 512MiB       99.61%    1.2GB / 3.4GB     12MB / 0B         34\n",
            "unknown",
            &["100 % of the memory"],
            &["memory.events"],
        ),
        (
            "NAME          CPU(cores)   MEMORY(bytes)   \napp-5d9c-1    1998m        512Mi           \napp-5d9c-2    12m          500Mi\n",
            "unknown",
            &["app-5d9c-1 (200 %)"],
            &["cpu.stat"],
        ),
        (
            "[FIRING:1] CPUThrottlingHigh (container=app namespace=prod pod=app-5d9c) 67.3% throttling of CPU in namespace prod for container app in pod app-5d9c.\n",
            "cgroup_cpu_quota",
            &["67 %"],
            &["cpu.stat"],
        ),
        (
            "Events:\n  Type     Reason     Age                   From     Message\n  ----     ------     ----                  ----     -------\n  Warning  Unhealthy  2m (x45 over 30m)     kubelet  Readiness probe failed: Get \"http://10.0.0.5:8080/healthz\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)\n",
            "unknown",
            &["readiness probe failed", "context deadline exceeded"],
            &["timeoutSeconds"],
        ),
        (
            "Warning  FailedScheduling  10s  default-scheduler  0/12 nodes are available: 12 Insufficient cpu.\n",
            "unknown",
            &["Insufficient cpu"],
            &["kubectl"],
        ),
        (
            "[System.Runtime]\n    % Time in GC since last GC (%)                                 45\n    Allocation Rate (B / 1 sec)                        1,234,567,890\n    CPU Usage (%)                                                 12\n    ThreadPool Queue Length                                    3,456\n    ThreadPool Thread Count                                       33\n    Monitor Lock Contention Count (Count / 1 sec)                812\n",
            "unknown",
            &["3,456 work items"],
            &["dotnet-stack"],
        ),
        (
            "# HELP http_requests_total Total requests\n# TYPE http_requests_total counter\nhttp_requests_total{code=\"200\",method=\"get\"} 12345\nhttp_requests_total{code=\"503\",method=\"get\"} 2345\nprocess_open_fds 1020\nprocess_max_fds 1024\ngo_goroutines 45123\n",
            "fd_limit",
            &["1,020 of 1,024"],
            &["LimitNOFILE"],
        ),
        (
            "http_request_duration_seconds{quantile=\"0.5\"} 0.012\nhttp_request_duration_seconds{quantile=\"0.99\"} 4.21\nhttp_request_duration_seconds_sum 1234\nhttp_request_duration_seconds_count 12345\n",
            "unknown",
            &["at 0.99"],
            &["strace"],
        ),
        (
            "hikaricp_connections_active{pool=\"HikariPool-1\",} 10.0\nhikaricp_connections_pending{pool=\"HikariPool-1\",} 45.0\nhikaricp_connections_max{pool=\"HikariPool-1\",} 10.0\nhikaricp_connections_idle{pool=\"HikariPool-1\",} 0.0\n",
            "unknown",
            &["45 wait"],
            &["jstack"],
        ),
        (
            "[12345.678901] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [haproxy:1234]\n",
            "unknown",
            &["soft lockup"],
            &["dmesg"],
        ),
        (
            "[12345.678901] ixgbe 0000:01:00.0 eth0: NIC Link is Down\n[12346.678901] ixgbe 0000:01:00.0 eth0: NIC Link is Up 1 Gbps, Flow Control: RX/TX\n",
            "unknown",
            &["NIC Link is Down"],
            &["ethtool"],
        ),
        (
            "12:00:00.000001 IP 10.0.0.1.443 > 10.0.0.2.5123: Flags [P.], seq 1:1449, ack 1, win 229, length 1448\n12:00:00.212001 IP 10.0.0.1.443 > 10.0.0.2.5123: Flags [P.], seq 1:1449, ack 1, win 229, length 1448\n12:00:00.640001 IP 10.0.0.1.443 > 10.0.0.2.5123: Flags [P.], seq 1:1449, ack 1, win 229, length 1448\n",
            "unknown",
            &["2 segments of data"],
            &["ss -ti"],
        ),
        (
            "   12 0.212001 10.0.0.1 \u{2192} 10.0.0.2 TCP 66 [TCP Dup ACK 10#1] 5123 \u{2192} 443 [ACK] Seq=1 Ack=1 Win=229 Len=0\n   13 0.213001 10.0.0.1 \u{2192} 10.0.0.2 TCP 66 [TCP Dup ACK 10#2] 5123 \u{2192} 443 [ACK] Seq=1 Ack=1 Win=229 Len=0\n",
            "unknown",
            &["2 acknowledgements are repeated"],
            &["tcpdump"],
        ),
        (
            "12:00:00.000001 IP 10.0.0.9 > 10.0.0.1: ICMP 10.0.0.2 unreachable - need to frag (mtu 1400), length 556\n",
            "unknown",
            &["too large for the path"],
            &["tracepath"],
        ),
    ]);
}

#[test]
fn sockets_counted_in_any_form() {
    check(&[
        (
            "{\"ESTABLISHED\": 22, \"CLOSE_WAIT\": 1234, \"TIME_WAIT\": 3}\n",
            "unknown",
            &["1,234 sockets are in CLOSE-WAIT"],
            &["close-wait"],
        ),
        (
            "| CLOSE_WAIT | 1234 |\n| ESTABLISHED | 34 |\n",
            "unknown",
            &["1,234 sockets are in CLOSE-WAIT"],
            &["close-wait"],
        ),
        (
            "ESTABLISHED=120 TIME_WAIT=31000 CLOSE_WAIT=2\n",
            "unknown",
            &["31,000 sockets are in TIME-WAIT"],
            &["keep-alive"],
        ),
        (
            "   1204 tcp 10.0.0.5:8080 CLOSE_WAIT\n",
            "unknown",
            &["1,204 sockets are in CLOSE-WAIT"],
            &["close-wait"],
        ),
    ]);
}

#[test]
fn numbers_with_decimal_commas() {
    check(&[
        (
            "2015-01-15T11:09:15.839+0100: [Full GC [PSYoungGen: 0K->0K(1397760K)] [ParOldGen: 2600000K->2600000K(2796544K)] 2600000K->2600000K(4194304K) [PSPermGen: 60000K->60000K(83968K)], 0,7591600 secs] [Times: user=0,59 sys=0,00, real=0,76 secs]\n",
            "unknown",
            &["up to 0.759 s"],
            &["-Xlog:gc*"],
        ),
        (
            "[12,345s][info][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3,456ms\n",
            "unknown",
            &["longest pause of the collector is 0.00346 s"],
            &["access log"],
        ),
        (
            "$ time curl -s http://a.example/\n\nreal\t0m7,287s\nuser\t0m0,012s\nsys\t0m0,003s\n",
            "unknown",
            &["7.29 s"],
            &["time_connect"],
        ),
        (
            "time_namelookup: 0,004\ntime_connect: 0,005\ntime_starttransfer: 0,459\ntime_total: 0,460\n",
            "unknown",
            &["0.454 s after the request"],
            &["strace"],
        ),
        (
            "Device            r/s     w/s     rkB/s     wkB/s   await  aqu-sz  %util\nsda              0,00  320,00      0,00   4096,00   38,10   12,10  99,90\n",
            "unknown",
            &["a disk was busy 100 %"],
            &["pidstat -d"],
        ),
        (
            "%Cpu(s): 12,5 us,  3,1 sy,  0,0 ni,  4,4 id, 80,0 wa,  0,0 hi,  0,0 si,  0,0 st\n",
            "unknown",
            &["80 %"],
            &["iostat"],
        ),
        (
            "10 packets transmitted, 10 received, 0% packet loss, time 9014ms\nrtt min/avg/max/mdev = 0,045/1,250/9,100/0,700 ms\n",
            "unknown",
            &["takes 1.25 ms"],
            &["time_connect"],
        ),
        (
            "10:00:01     CPU     %user     %nice   %system   %iowait    %steal     %idle\n10:00:02     all      2,00      0,00      3,00     62,50      0,00     32,50\n",
            "unknown",
            &["62 %"],
            &["iostat"],
        ),
        (
            "10:00:02     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n10:00:02     all   12,00    0,00    5,00    0,00    0,00   12,00    0,00    0,00    0,00   71,00\n10:00:02       0    2,00    0,00    3,00    0,00    0,00   95,00    0,00    0,00    0,00    0,00\n10:00:02       1   12,00    0,00    5,00    0,00    0,00    0,00    0,00    0,00    0,00   83,00\n",
            "softirq_on_one_core",
            &["95 %"],
            &["/proc/interrupts"],
        ),
    ]);
    let pidstat = read(
        "10:00:02      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n10:00:03     1000     12345   98,00    2,00    0,00    0,10  100,00     3  node\n",
    );
    assert_eq!(pidstat.pidstats[0].column("%usr"), Some(vec![98.0]));
}

#[test]
fn collections_that_the_space_of_classes_starts() {
    check(&[
        (
            "1,234: [Full GC 1,234: [CMS: 142185K->142185K(2796544K), 0,3110380 secs] 142185K->142185K(4194304K), [CMS Perm : 83967K->83967K(83968K)], 0,3111380 secs] [Times: user=0,53 sys=0,01, real=0,31 secs]\n",
            "unknown",
            &["PermGen", "3.4 % full", "0.311 s"],
            &["MaxPermSize", "leak"],
        ),
        (
            "[1.1s][info][gc] GC(7) Pause Full (Metadata GC Threshold) 100M->90M(1024M) 120.1ms\n[1.4s][info][gc] GC(8) Pause Full (Metadata GC Clear Soft References) 90M->90M(1024M) 130.1ms\n[1.6s][info][gc] GC(9) Pause Full (Metadata GC Threshold) 90M->90M(1024M) 110.1ms\n",
            "unknown",
            &["Metaspace", "3 in this log", "8.8 % full"],
            &["MaxMetaspaceSize"],
        ),
    ]);
}

#[test]
fn errors_in_a_generators_own_words() {
    check(&[
        (
            "  Scenarios launched:  200\n  Mean response/sec: 19.49\n  Response time (msec):\n    min: 3\n    max: 46\n    median: 7\n  Errors:\n    EADDRINUSE: 50\n    ECONNRESET: 3\n",
            "ports_exhausted",
            &["EADDRINUSE` 50 times", "53 errors"],
            &["ip_local_port_range"],
        ),
        (
            "http.requests: ......... 100\nhttp.request_rate: ..... 10/sec\nerrors.ESOCKETTIMEDOUT: .... 40\nerrors.ECONNRESET: .... 2\n",
            "unknown",
            &["42 errors", "ESOCKETTIMEDOUT` 40 times"],
            &["curl -si"],
        ),
        (
            "Summary:\n  Total:\t2.0 secs\n  Slowest:\t0.2 secs\n  Fastest:\t0.1 secs\n  Average:\t0.15 secs\n  Requests/sec:\t50.0\n\nStatus code distribution:\n  [200]\t90 responses\n\nError distribution:\n  [8]\tGet \"http://a.example/\": EOF\n  [2]\tGet \"http://a.example/\": read tcp 10.0.0.1:5->10.0.0.2:80: read: connection reset by peer\n",
            "unknown",
            &["10 errors", "10 connections that the other end closed"],
            &["keep-alive"],
        ),
        (
            "Success       [ratio]                           80.00%\nStatus Codes  [code:count]                      0:20  200:80\nError Set:\nGet \"http://a.example/\": dial tcp 0.0.0.0:0->10.0.0.2:80: bind: address already in use\n",
            "ports_exhausted",
            &["no local port"],
            &["ip_local_port_range"],
        ),
        (
            "# occurrences      Error\n------------------|---------------------\n 17                 GET /a: ConnectionResetError(104, 'Connection reset by peer')\n 3                  GET /b: ReadTimeout(ReadTimeoutError(\"HTTPConnectionPool\"))\n",
            "unknown",
            &["20 errors", "3 time limits", "17 connections"],
            &["ss -ltn"],
        ),
        (
            "WARN[0012] Request Failed  error=\"Get \\\"http://a.example/\\\": dial tcp 10.0.0.2:80: connect: cannot assign requested address\"\n",
            "ports_exhausted",
            &["no local port"],
            &["ip_local_port_range"],
        ),
    ]);
}

#[test]
fn a_generators_output_that_is_cut_off_keeps_its_times() {
    check(&[
        (
            "Summary:\n  Total:\t15.0028 secs\n  Slowest:\t3.6674 secs\n  Fastest:\t0.0024 secs\n  Average:\t0.0062 secs\n  Requests/sec:\t809.2475\n",
            "unknown",
            &["6.2 ms", "3.67 s", "809 responses"],
            &["strace"],
        ),
        (
            "  Slowest:\t3.6674 secs\n  Fastest:\t0.0024 secs\n  Average:\t0.0062 secs\n",
            "unknown",
            &["6.2 ms", "3.67 s"],
            &["strace"],
        ),
    ]);
}

#[test]
fn goroutines_that_read_from_peers() {
    check(&[
        (
            "goroutine profile: total 412\n400 @ 0x43 0x44 0x45\n#\t0x43\tinternal/poll.runtime_pollWait+0x54\t/go/netpoll.go:184\n#\t0x44\tinternal/poll.(*pollDesc).waitRead+0x1ce\t/go/fd.go:92\n#\t0x45\tnet.(*conn).Read+0x68\t/go/net.go:184\n#\t0x46\tbufio.(*Reader).Peek+0x40\t/go/bufio.go:1\n#\t0x47\tnet/http.(*conn).serve+0x70\t/go/server.go:1\n",
            "unknown",
            &[
                "400 of 400 goroutines",
                "net/http.(*conn).serve",
                "send nothing",
            ],
            &["ReadHeaderTimeout", "IdleTimeout"],
        ),
        (
            "goroutine profile: total 30\n25 @ 0x43 0x44 0x45\n#\t0x43\tinternal/poll.runtime_pollWait+0x54\t/go/netpoll.go:184\n#\t0x44\tinternal/poll.(*pollDesc).waitRead+0x1ce\t/go/fd.go:92\n#\t0x45\tnet.(*conn).Read+0x68\t/go/net.go:184\n#\t0x46\texample.org/ndt.(*session).handle+0x40\t/go/a.go:1\n",
            "unknown",
            &["example.org/ndt.(*session).handle"],
            &["SetReadDeadline"],
        ),
    ]);
}

#[test]
fn pools_that_time_out_say_their_size() {
    check(&[
        (
            "sqlalchemy.exc.TimeoutError: QueuePool limit of size 5 overflow 10 reached, connection timed out, timeout 30.00\n",
            "unknown",
            &["pool of 5", "10 beyond"],
            &["pool_size", "max_overflow"],
        ),
        (
            "QueuePool limit of size 1 overflow 0 reached, connection timed out, timeout 30\n",
            "application_pool_too_small",
            &["1 connection(s)"],
            &["pool_size"],
        ),
        (
            "Timed out fetching a new connection from the connection pool. (Current connection pool timeout: 10, connection limit: 5)\n",
            "unknown",
            &["pool of 5"],
            &["connection_limit"],
        ),
        (
            "java.sql.SQLException: Timed out waiting for a free available connection.\n",
            "unknown",
            &["1 times"],
            &["maxConnectionsPerPartition"],
        ),
        (
            "Error: timeout exceeded when trying to connect\n    at /app/node_modules/pg-pool/index.js:45:11\n",
            "unknown",
            &["its own pool"],
            &["`max` (node-pg"],
        ),
        (
            "An attempt by a client to checkout a Connection has timed out.\n",
            "unknown",
            &["its own pool"],
            &["maxPoolSize"],
        ),
    ]);
}

#[test]
fn processes_and_threads_that_were_refused() {
    for text in [
        " start[28101]: /usr/bin/start: 44: /usr/bin/start: Cannot fork\n",
        "bash: fork: retry: Resource temporarily unavailable\n",
        "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached\n",
        "RuntimeError: can't start new thread\n",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 3 of 8: Resource temporarily unavailable\n",
        "runtime: failed to create new OS thread (have 5 already; errno=11)\n",
        "LOG:  could not fork new process for connection: Cannot allocate memory\n",
        "ThreadError: can't create Thread: Resource temporarily unavailable\n",
        "Error: spawn EAGAIN\n",
    ] {
        let finding = diagnose_pasted(&read(text)).findings.remove(0);
        assert_eq!(finding.cause, "unknown", "{text}");
        assert!(finding.why.contains("was refused"), "{}", finding.why);
        for step in ["ulimit -u", "TasksMax", "pids.max", "free -m"] {
            assert!(finding.remedy.contains(step), "{}", finding.remedy);
        }
    }
}

#[test]
fn process_lists_in_other_forms() {
    check(&[
        (
            "  2504 web  localhost  shop  168  Query  Sending SELECT p.ID FROM posts p\n  2517 web  localhost  shop  166  Query  Sending SELECT p.ID FROM posts p\n  2600 web  localhost  shop  5  Sleep\n",
            "unknown",
            &["168 s", "SELECT p.ID"],
            &["EXPLAIN"],
        ),
        (
            "Query  2504  Sending data  web localhost  shop  02:48  SELECT p.ID FROM posts p\n",
            "unknown",
            &["168 s"],
            &["EXPLAIN"],
        ),
        (
            "12 web localhost:5123 shop Query 40 Waiting for table metadata lock ALTER TABLE a ADD b INT\n13 web localhost:5124 shop Query 39 Waiting for table metadata lock SELECT 1 FROM a\n",
            "unknown",
            &["metadata lock"],
            &["INNODB STATUS"],
        ),
        (
            "12\tweb\tlocalhost:5123\tshop\tQuery\t40\tSending data\tSELECT b FROM a\n",
            "unknown",
            &["SELECT b FROM a"],
            &["EXPLAIN"],
        ),
    ]);
}

#[test]
fn what_curl_says_of_its_connection() {
    check(&[
        (
            "< HTTP/1.1 201 Created\n< content-length: 0\n< \n* Connection #0 to host a.example left intact\n* Found bundle for host: 0x65 [serially]\n* Connection 0 seems to be dead\n* Closing connection\n",
            "unknown",
            &["seems to be dead"],
            &["tcpdump", "keep-alive"],
        ),
        (
            "< HTTP/1.1 200 OK\n< Connection: close\n< \n* Closing connection 0\n",
            "unknown",
            &["Connection: close"],
            &["keepalive_timeout"],
        ),
        (
            "< HTTP/1.1 200 OK\n< Content-Length: 2\n< \n* Connection #0 to host a.example left intact\n* Re-using existing connection with host a.example\n< HTTP/1.1 200 OK\n< Content-Length: 2\n< \n* Connection #0 to host a.example left intact\n",
            "unknown",
            &["left intact 2 times", "used again 1 times"],
            &["time_starttransfer"],
        ),
        (
            "> GET / HTTP/1.1\n* Empty reply from server\n* Closing connection 0\n",
            "unknown",
            &["without a response"],
            &["error log"],
        ),
    ]);
}

#[test]
fn probes_scalers_and_further_messages() {
    check(&[
        (
            "50 packets transmitted, 48 received, 4% packet loss, time 9014ms\n",
            "unknown",
            &["lost 4 %"],
            &["mtr"],
        ),
        (
            "NAME  REFERENCE       TARGETS    MINPODS  MAXPODS  REPLICAS  AGE\nweb   Deployment/web  250%/80%   2        10       10        5d\n",
            "unknown",
            &["3.12 times its target"],
            &["maxReplicas"],
        ),
        (
            "web   Deployment/web  cpu: 20%/80%   2        10       3        5d\n",
            "unknown",
            &["has room"],
            &["kubectl describe hpa"],
        ),
        (
            "(node:12) MaxListenersExceededWarning: Possible EventEmitter memory leak detected. 11 close listeners added to [Socket].\n",
            "unknown",
            &["ever more listeners"],
            &["trace-warnings"],
        ),
        (
            "curl: (52) Empty reply from server\n",
            "unknown",
            &["Empty reply"],
            &["log"],
        ),
    ]);
}

#[test]
fn curls_errors_are_told_apart_by_their_number_and_words() {
    check(&[
        (
            "curl: (18) transfer closed with 12345 bytes remaining to read\n",
            "unknown",
            &["before all that was announced"],
            &["error log"],
        ),
        (
            "* transfer closed with outstanding read data remaining\n* Closing connection 0\n",
            "unknown",
            &["before all that was announced"],
            &["tcpdump"],
        ),
        (
            "curl: (35) OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to a.example:443\n",
            "unknown",
            &["handshakes were ended"],
            &["openssl s_client"],
        ),
        (
            "cURL error 35: OpenSSL SSL_connect: Connection reset by peer in connection to a.example:443\n",
            "unknown",
            &["handshakes were ended"],
            &["ss -ltn"],
        ),
        (
            "curl: (35) error:14094410:SSL routines:ssl3_read_bytes:sslv3 alert handshake failure\n",
            "unknown",
            &["by an alert"],
            &["-tls1_2"],
        ),
        (
            "curl: (35) error:1408F10B:SSL routines:ssl3_get_record:wrong version number\n",
            "unknown",
            &["does not speak TLS"],
            &["http://HOST"],
        ),
        (
            "curl: (52) Empty reply from server\ncurl: (52) Empty reply from server\n",
            "unknown",
            &["without a byte of a response (2 times)"],
            &["dmesg"],
        ),
        (
            "curl: (56) OpenSSL SSL_read: Connection reset by peer, errno 104\n",
            "unknown",
            &["reset by their peers"],
            &["tcpdump"],
        ),
        (
            "curl: (56) Received HTTP code 503 from proxy after CONNECT\n",
            "unknown",
            &["status 503", "was not reached"],
            &["--noproxy"],
        ),
        (
            "curl: (60) SSL certificate problem: certificate has expired\n",
            "unknown",
            &["certificate was not accepted"],
            &["-dates"],
        ),
        (
            "curl: (92) HTTP/2 stream 1 was not closed cleanly: INTERNAL_ERROR (err 2)\n",
            "unknown",
            &["streams of HTTP/2"],
            &["--http1.1"],
        ),
        (
            "curl: (22) The requested URL returned error: 502\n",
            "unknown",
            &["status 502"],
            &["curl -si"],
        ),
        (
            "curl: (28) Connection timed out after 5001 milliseconds\n",
            "unknown",
            &["1 while connecting"],
            &["ss -ltn"],
        ),
        (
            "* TLSv1.3 (OUT), TLS handshake, Client hello (1):\n* OpenSSL SSL_connect: Connection reset by peer in connection to a.example:443\n* Closing connection 0\n",
            "unknown",
            &["handshakes were ended by the other end before they were done (1 times)"],
            &["openssl s_client"],
        ),
    ]);
}

#[test]
fn a_path_its_names_and_its_rate_are_read() {
    check(&[
        (
            "64 bytes from 10.0.0.5: icmp_seq=1 ttl=64 time=0.210 ms\n64 bytes from 10.0.0.5: icmp_seq=2 ttl=64 time=203 ms\n64 bytes from 10.0.0.5: icmp_seq=4 ttl=64 time=0.310 ms\n",
            "unknown",
            &["lost 25 %", "from 0.21 to 203 ms"],
            &["mtr"],
        ),
        (
            "    Packets: Sent = 100, Received = 91, Lost = 9 (9% loss),\n    Minimum = 1ms, Maximum = 251ms, Average = 31ms\n",
            "unknown",
            &["lost 9 %", "takes 31 ms"],
            &["TcpRetransSegs"],
        ),
        (
            "  1.|-- 10.0.0.1     0.0%   100    0.4   0.5   0.3   2.1   0.2\n  2.|-- 172.16.1.1  40.0%   100    1.4   1.5   1.3   3.1   0.2\n  3.|-- api.example  7.0%   100   21.4  22.5  20.3  92.1   9.2\n",
            "unknown",
            &["loses 7 %", "`api.example`, from `172.16.1.1` on"],
            &["-T -P PORT"],
        ),
        (
            "  1.|-- 10.0.0.1     0.0%   100    0.4   0.5   0.3   2.1   0.2\n  2.|-- 172.16.1.1  40.0%   100    1.4   1.5   1.3   3.1   0.2\n  3.|-- api.example  0.0%   100   21.4  22.5  20.3  92.1   9.2\n",
            "unknown",
            &["40 % at a hop in between and none at the last", "22.5 ms"],
            &["time_connect"],
        ),
        (
            "[  5]   0.00-10.00  sec   112 MBytes  94.1 Mbits/sec  1834             sender\n[  5]   0.00-10.04  sec   110 MBytes  92.2 Mbits/sec                  receiver\n",
            "unknown",
            &["92.2 Mbit/s", "a link of 100 Mbit/s", "1,834 segments"],
            &["ethtool"],
        ),
        (
            "[SUM]   0.00-10.00  sec   242 MBytes   203 Mbits/sec  250             sender\n[SUM]   0.00-10.00  sec   240 MBytes   201 Mbits/sec                  receiver\n[  7]   0.00-10.00  sec   120 MBytes   100 Mbits/sec                  receiver\n",
            "unknown",
            &["201 Mbit/s", "250 segments"],
            &["ss -ti"],
        ),
        (
            "[  5]   0.00-1.00   sec   129 KBytes  1.06 Mbits/sec  91\n[  5]   0.00-2.04  sec   257 KBytes  1.03 Mbits/sec  0.021 ms  9/181 (5%)  receiver\n",
            "unknown",
            &["5 % of the datagrams", "1.03 Mbit/s"],
            &["UdpRcvbufErrors"],
        ),
        (
            ";; Query time: 2412 msec\n;; SERVER: 10.96.0.10#53(10.96.0.10)\n",
            "unknown",
            &["2,412 ms", "10.96.0.10"],
            &["ndots"],
        ),
        (
            ";; ->>HEADER<<- opcode: QUERY, status: SERVFAIL, id: 1234\n;; Query time: 12 msec\n",
            "unknown",
            &["could not resolve", "SERVFAIL"],
            &["dig +trace"],
        ),
        (
            ";; connection timed out; no servers could be reached\n",
            "unknown",
            &["no response"],
            &["conntrack -S"],
        ),
        (
            "** server can't find api.example: NXDOMAIN\n",
            "unknown",
            &["does not exist"],
            &["resolv.conf"],
        ),
        (
            ";; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 1\n;; Query time: 3 msec\n",
            "unknown",
            &["3 ms", "no reason"],
            &["time_namelookup"],
        ),
        (
            ";; Query time: 1 msec\n;; Query time: 5012 msec\n;; Query time: 0 msec\n",
            "unknown",
            &["5,012 ms", "longest of 3 queries: `Query time: 5012 msec`"],
            &["conntrack -S"],
        ),
    ]);
}

#[test]
fn descriptors_are_counted_under_their_command() {
    check(&[
        (
            "$ ls /proc/1234/fd | wc -l\n1021\n$ grep 'open files' /proc/1234/limits\nMax open files            1024                 524288               files\n",
            "fd_limit",
            &["1,021 of 1,024"],
            &["LimitNOFILE"],
        ),
        (
            "$ ls /proc/1234/fd | wc -l\n1021\n",
            "unknown",
            &["1,021 descriptors"],
            &["/proc/PID/limits"],
        ),
        (
            "$ ls -l /proc/1234/fd | awk '{print $NF}' | sed 's/:.*//' | sort | uniq -c | sort -rn\n    980 socket\n     12 /dev/null\n",
            "unknown",
            &["of 992", "980 are sockets"],
            &["CLOSE-WAIT"],
        ),
        (
            "lrwx------ 1 root root 64 Nov 20 10:00 10 -> socket:[1234567]\nlrwx------ 1 root root 64 Nov 20 10:00 3 -> anon_inode:[eventpoll]\n",
            "unknown",
            &["of 2", "1 are sockets"],
            &["ss -tanp"],
        ),
        (
            "$ lsof -p 1234 | wc -l\n65012\n",
            "unknown",
            &["65,012 lines", "not only descriptors"],
            &["/proc/PID/fd"],
        ),
        (
            "$ cat /proc/sys/fs/file-nr\n98112\t0\t98304\n",
            "unknown",
            &["98,112 of 98,304"],
            &["fs.file-max"],
        ),
        (
            "$ ls /proc/1234/fd | wc -l\n210\nMax open files            65536                65536                files\n",
            "unknown",
            &["210 descriptors open and one may have 65,536"],
            &["ss -tanp"],
        ),
    ]);
}

#[test]
fn cut_rows_and_tails_keep_their_numbers() {
    check(&[
        (
            " 95.12   12.035007        1203     10000      1023 futex\n",
            "unknown",
            &["futex (95 %)"],
            &["strace -f -T"],
        ),
        (
            " 53.49    4.035007          11    365710           writev\n  0.07    0.004944          14       337       337 connect\n",
            "unknown",
            &["writev (53 %)"],
            &["strace -f -T"],
        ),
        (
            "    61.20%  php-fpm  libpcre2-8.so.0.10.4  [.] pcre2_match_8\n",
            "unknown",
            &["pcre2_match_8", "61 %"],
            &["callers"],
        ),
        (
            "time for request:     1.23ms       3.21s     89.12ms     120.33ms    92.10%\ntime for connect:     5.12ms       1.04s     300.12ms     200.33ms    55.10%\n",
            "unknown",
            &["89.1 ms", "3.21 s", "1,040 ms"],
            &["ss -ltn"],
        ),
        (
            "time for request:      123us     32.10ms      4.12ms      12.01ms     22.00ms      5.10ms      3.20ms    71.20%\n",
            "unknown",
            &["4.12 ms", "32.1 ms"],
            &["pidstat"],
        ),
        (
            "status codes: 9000 2xx, 0 3xx, 1000 4xx, 0 5xx\n",
            "unknown",
            &["10 % of the requests"],
            &["curl -si"],
        ),
        (
            "   ✓ http_req_duration..............: avg=412.78ms min=124.41ms med=426.63ms max=666.4ms  p(90)=506.37ms p(95)=526.35ms\n",
            "unknown",
            &["427 ms", "666 ms"],
            &["pidstat"],
        ),
        (
            "     http_req_failed................: 3.20%  ✓ 90        ✗ 2704\n",
            "unknown",
            &["3.2 % of the requests"],
            &["curl -si"],
        ),
    ]);
}

#[test]
fn a_load_that_was_begun_has_no_result() {
    check(&[
        (
            "starting benchmark...\nspawning thread #0: 100 total client(s). 100000 total requests\nApplication protocol: h2\n",
            "unknown",
            &["h2load", "100000 total requests", "without a result"],
            &["curl -so", "ss -tn"],
        ),
        (
            "Benchmarking 127.0.0.1 (be patient)\nCompleted 1000 requests\n",
            "unknown",
            &["ab", "without a result"],
            &["error log"],
        ),
        (
            "** Preparing 50 concurrent users for battle.\nThe server is now under siege...\n",
            "unknown",
            &["siege", "without a result"],
            &["a tenth"],
        ),
    ]);
}

#[test]
fn what_a_generator_counts_apart_is_no_failure() {
    check(&[
        (
            "Transactions:  40 hits\nAvailability:  100.00 %\nResponse time:  0.30 secs\nTransaction rate: 3.29 trans/sec\nSuccessful transactions:  20\nFailed transactions:  0\n",
            "unknown",
            &[
                "of 40 transactions siege counts 20 neither",
                "siege shows 3.29 responses",
            ],
            &["siege -v"],
        ),
        (
            "Running 10s test @ http://a.example/\n  2 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     0.00us    0.00us   0.00us    -nan%\n    Req/Sec     0.00      0.00     0.00    100.00%\n  20 requests in 10.02s, 2.77KB read\n  Socket errors: connect 0, read 0, write 0, timeout 20\nRequests/sec:      2.00\n",
            "unknown",
            &["20 of 20 responses came after wrk's time limit"],
            &["--timeout 30s", "access log"],
        ),
        (
            "Report @ 20:43:09(+0530) 2020-04-28\n  Requests completed:  15\n  Codes:\n    200: 15\n  Errors:\n    ECONNRESET: 1\n\nSummary report @ 20:43:09(+0530) 2020-04-28\n  Scenarios launched:  1\n  Requests completed:  2950\n  Mean response/sec: 1.7\n  Response time (msec):\n    max: 2780\n    median: 237.4\n  Codes:\n    200: 2950\n  Errors:\n    ECONNRESET: 1\n",
            "unknown",
            &["lists 1 errors", "1.7 responses a second"],
            &["error log"],
        ),
        (
            "Linux 5.4.0 (web1) \t11/20/2023 \t_x86_64_\t(4 CPU)\n\nDevice            r/s     w/s   r_await w_await  aqu-sz  %util\nsda             90.00   10.00     99.00   10.00    9.00  97.00\n\nDevice            r/s     w/s   r_await w_await  aqu-sz  %util\nsda              0.00   90.00      0.00   10.89    0.98  92.00\n",
            "unknown",
            &["92 % of the time", "10.9 ms"],
            &["iotop"],
        ),
        (
            "{\"haproxy\":{\"tR\":1,\"Tw\":0,\"Tc\":1,\"Tr\":4312,\"Ta\":4313},\"status_code\":200,\"path\":\"/orders\",\"bytes\":12}\n",
            "upstream_slow",
            &["100 %"],
            &[],
        ),
    ]);
}

#[test]
fn silences_and_numbered_requests_of_a_persons_own() {
    check(&[
        (
            "10:00:00.123 loading user\n10:00:00.130 user loaded\n10:00:05.140 prices loaded\n10:00:05.145 done\n",
            "unknown",
            &[
                "5.01 s of 5.02 s",
                "behind `10:00:00.130 user loaded`, before `10:00:05.140 prices",
            ],
            &["strace -f -tt", "curl -4"],
        ),
        (
            "| req1, first on the connection | 0.4 ms | 1.0 ms |\n| req2 | 41.5 ms | 42.2 ms |\n| req3 | 44.6 ms | 48.8 ms |\n",
            "unknown",
            &["takes 0.4 ms", "41.5 to 44.6 ms", "delayed acknowledgement"],
            &["TCP_NODELAY"],
        ),
        (
            "request 1: 850 ms\nrequest 2: 12 ms\n",
            "unknown",
            &["first request takes 850 ms", "12 to 12 ms"],
            &["re-using"],
        ),
    ]);
}

#[test]
fn databases_and_their_caches_in_summaries() {
    check(&[
        (
            "SLOWLOG LEN                128\nentries matching KEYS a:*  128\ninstantaneous_ops_per_sec  252\n",
            "unknown",
            &["128 entries", "KEYS a:*", "one thread"],
            &["SLOWLOG GET", "SCAN"],
        ),
        (
            "127.0.0.1:6379> SLOWLOG LEN\n(integer) 128\n",
            "unknown",
            &["128 entries", "not in what was shown"],
            &["slowlog-log-slower-than"],
        ),
        (
            "====== SET ======\n  1 requests completed in 102.98 seconds\n  1 parallel clients\n  170000000 bytes payload\n\n====== SET ======\n  1 requests completed in 2.91 seconds\n  1 parallel clients\n  170000000 bytes payload\n",
            "unknown",
            &["102.98 s and then 2.91 s"],
            &["MTU", "ss -tinm"],
        ),
        (
            "SET: 102040.82 requests per second, p50=0.255 msec\n",
            "unknown",
            &["102,041 requests a second", "0.255 ms"],
            &["SLOWLOG"],
        ),
        (
            "    *0   120     *0     *0       0    12|0  0.1% 97.1%       0 1.50G 1.02G 45|3 128|1  50.1k   1.20m  412 Nov 20 10:00:01.123\n",
            "unknown",
            &[
                "45 reads and 3 writes",
                "129 are at work",
                "412 connections",
                "97.1 % used",
            ],
            &["currentOp"],
        ),
        (
            "     0      5      2      0       0      11       0   160m   2.6g   220m      0 app:0.1%          0       0|0     1|1     1k    20k   210   10:00:01\n",
            "unknown",
            &["nothing queues", "210 connections"],
            &["setProfilingLevel"],
        ),
        (
            "Index Scan using a on b  (actual time=603.2 rows=0)\n  Buffers: shared hit=32 read=9822\n  I/O Timings: read=585.374\nExecution Time: 603.671 ms\n",
            "unknown",
            &["97 % of the plan", "read=9822"],
            &["shared_buffers"],
        ),
        (
            "Seq Scan on orders  (actual time=0.020..1523.100 rows=3 loops=1)\n  Rows Removed by Filter: 1999997\n  Buffers: shared hit=120 read=15000\n",
            "unknown",
            &["1,999,997 rows", "read=15000"],
            &["EXPLAIN"],
        ),
    ]);
}

#[test]
fn threads_of_consoles_and_files_that_are_read_again() {
    check(&[
        (
            "Name: exec-62\nState: BLOCKED on java.lang.Class@2437c6dc owned by: exec-44\nTotal blocked: 4  Total waited: 11\n\nStack trace: \nco.example.Agent.ensureInstrumented(Agent.java:700)\nco.example.Web.handle(Web.java:20)\n",
            "unknown",
            &[
                "1 of 1 threads are blocked",
                "java.lang.Class@2437c6dc, held by exec-44",
                "ensureInstrumented",
            ],
            &["jstack"],
        ),
        (
            "\"exec-12\" Id=88 BLOCKED on org.apache.log4j.Logger@4c2f1a owned by \"exec-3\" Id=71\n\tat org.apache.log4j.Category.callAppenders(Category.java:205)\n",
            "unknown",
            &["held by exec-3"],
            &["jstack"],
        ),
        (
            "open(\"/a/b.css\", O_RDONLY) = 11\nread(11, \"a\", 8192) = 8192\nread(11, \"b\", 8192) = 8192\nread(11, \"c\", 8192) = 8192\n",
            "unknown",
            &["3 of these calls read one file, `/a/b.css`", "24.0 KiB"],
            &["strace -c"],
        ),
        (
            "open(\"/etc/passwd\", O_RDONLY) = 5\nread(5, \"a\", 4096) = 4096\nclose(5) = 0\nopen(\"/etc/passwd\", O_RDONLY) = 5\nread(5, \"a\", 4096) = 4096\nclose(5) = 0\nopen(\"/etc/passwd\", O_RDONLY) = 5\nread(5, \"a\", 4096) = 4096\n",
            "unknown",
            &["opened 3 times", "`/etc/passwd`"],
            &["keep it"],
        ),
        (
            "{\"message\":\"backend-endpoint-failed\",\"data\":{\"route-endpoint\":{\"ApplicationId\":\"1f3a6a52-3d9e-4b62-a0a5-0123456789ab\",\"Addr\":\"10.0.0.1:61004\"}},\"error\":\"EOF\",\"attempt\":1}\n",
            "unknown",
            &["closed by its server before the response", "EOF"],
            &["keepalive_timeout"],
        ),
        (
            "time=\"2023-05-24T09:26:55Z\" level=debug msg=\"'502 Bad Gateway' caused by: EOF\"\n",
            "unknown",
            &["closed by its server"],
            &["keepalive_timeout"],
        ),
    ]);
}

#[test]
fn nodes_scalers_swap_keys_and_shares() {
    check(&[
        (
            "NAME     CPU(cores)   CPU%   MEMORY(bytes)   MEMORY%\nnode-1   3920m        98%    12000Mi         80%\nnode-2   300m         7%     3000Mi          20%\n",
            "unknown",
            &["98 % of its CPU", "by memory 80 %"],
            &["kubectl top pod"],
        ),
        (
            "POD    NAME    CPU(cores)   MEMORY(bytes)\nweb-5  nginx   2            480Mi\nweb-5  istio   12m          120Mi\n",
            "unknown",
            &["nginx (200 %)"],
            &["top -H"],
        ),
        (
            "web    Deployment/web   <unknown>/50%   1         10        1          2m\n",
            "unknown",
            &["does not know"],
            &["resources.requests"],
        ),
        (
            "web    Deployment/web   950m/500m   1         10        10          2m\n",
            "unknown",
            &["1.9 times its target"],
            &["maxReplicas"],
        ),
        (
            "web    Deployment/web   cpu: 95%/80%, memory: 40%/70%   1   10   10   2m\n",
            "unknown",
            &["1.19 times its target"],
            &["maxReplicas"],
        ),
        (
            "  resource cpu on pods  (as a percentage of request):  180% (180m) / 50%\nMin replicas:  1\nMax replicas:  10\nDeployment pods: 10 current / 10 desired\n",
            "unknown",
            &["3.6 times its target"],
            &["maxReplicas"],
        ),
        (
            "15:43:02    kbswpfree kbswpused  %swpused  kbswpcad   %swpcad\n15:43:03     29548648   1701780      5.45     41552      2.44\n\n15:44:30     pswpin/s pswpout/s\n15:44:31         0.00      0.00\n",
            "unknown",
            &["1.6 GiB are in swap and none of it moves"],
            &["VmSwap", "numastat"],
        ),
        (
            "15:44:30     pswpin/s pswpout/s\n15:44:31       812.00   1200.00\n15:44:32       700.00      0.00\n",
            "swapping",
            &["1,356 pages a second"],
            &["VmSwap"],
        ),
        (
            "Swap:          29Gi       1.6Gi        28Gi\n",
            "unknown",
            &["5.5 % of the swap space"],
            &["vmstat 1 5"],
        ),
        (
            "rsa 2048 bits 0.000660s 0.000019s   1515.2  52631.6\nrsa 4096 bits 0.004630s 0.000070s    216.0  14285.7\n",
            "unknown",
            &["216 operations a second", "rsa 4096 bits"],
            &["ECDSA"],
        ),
        (
            "Doing 2048 bits private rsa's for 10s: 15152 2048 bits private RSA's in 9.99s\n",
            "unknown",
            &["1,517 operations"],
            &["SslFrontendKeyRate"],
        ),
        (
            "aes-256-gcm     301234.12k   812345.00k  1523411.23k  2100123.00k  2400123.00k  2450123.00k\n",
            "unknown",
            &["2.3 GiB a second"],
            &["sar -n DEV"],
        ),
        (
            "| 39% | JSON.stringify |\n| 18% | bcrypt hashing |\n| 17% | (garbage collector) |\n",
            "template_or_json_work",
            &["39 % of the profile"],
            &["encode once"],
        ),
        (
            "| 60% | (idle) |\n| 35% | JSON.stringify |\n| 5% | (garbage collector) |\n",
            "unknown",
            &["JSON.stringify (35 %)"],
            &["callers"],
        ),
    ]);
}

#[test]
fn dumps_as_json_and_of_gdb() {
    check(&[
        (
            "{\"threads\":[{\"threadName\":\"exec-1\",\"threadId\":31,\"lockName\":\"java.lang.Object@1a\",\"lockOwnerName\":\"exec-2\",\"threadState\":\"BLOCKED\",\"stackTrace\":[{\"methodName\":\"load\",\"fileName\":\"Cache.java\",\"lineNumber\":12,\"className\":\"com.example.Cache\",\"nativeMethod\":false}],\"lockedMonitors\":[],\"lockInfo\":{\"className\":\"java.lang.Object\",\"identityHashCode\":26}},{\"threadName\":\"exec-2\",\"threadState\":\"RUNNABLE\",\"lockName\":null,\"stackTrace\":[{\"methodName\":\"socketRead0\",\"fileName\":\"SocketInputStream.java\",\"lineNumber\":-2,\"className\":\"java.net.SocketInputStream\"},{\"methodName\":\"query\",\"fileName\":\"Repo.java\",\"lineNumber\":42,\"className\":\"com.example.Repo\"}]}]}\n",
            "unknown",
            &[
                "1 of 2 threads are blocked",
                "java.lang.Object@1a, held by exec-2",
                "`com.example.Cache.load(Cache.java:12)` (1)",
            ],
            &["jstack"],
        ),
        (
            "  {\n    \"threadName\": \"http-nio-8080-exec-3\",\n    \"threadState\": \"WAITING\",\n    \"stackTrace\": [\n      {\n        \"className\": \"jdk.internal.misc.Unsafe\",\n        \"fileName\": \"Unsafe.java\",\n        \"lineNumber\": -2,\n        \"methodName\": \"park\"\n      },\n      {\n        \"className\": \"com.zaxxer.hikari.pool.HikariPool\",\n        \"fileName\": \"HikariPool.java\",\n        \"lineNumber\": 181,\n        \"methodName\": \"getConnection\"\n      },\n",
            "unknown",
            &[
                "Unsafe.park(Native Method) < com.zaxxer.hikari.pool.HikariPool.getConnection(HikariPool.java:181)",
            ],
            &["jstack"],
        ),
        (
            "Thread 2 (Thread 0x7f0 (LWP 102) \"worker\"):\n#0  __lll_lock_wait () at lowlevellock.S:135\n#1  0x0000 in __GI___pthread_mutex_lock (mutex=0x5555) at pthread_mutex_lock.c:80\n#2  0x0000 in cache_get (c=0x1) at cache.c:12\n\nThread 1 (Thread 0x7f9 (LWP 101) \"main\"):\n#0  0x00007f in __poll (fds=0x1, nfds=1, timeout=-1) at poll.c:29\n#1  0x0000 in PQgetResult () from /lib/libpq.so.5\n#2  0x0000 in run_query (q=0x1) at db.c:99\n",
            "unknown",
            &["1 of 2 threads wait for a lock, in `__lll_lock_wait < cache_get` (1); who holds"],
            &["__owner"],
        ),
        (
            "#0  0x00007f in __lll_lock_wait () from /lib64/libpthread.so.0\n(gdb) bt\n#0  0x00007f in __lll_lock_wait () from /lib64/libpthread.so.0\n#1  0x00007f in _L_lock_812 () from /lib64/libpthread.so.0\n#2  0x0000 in cache_get (c=0x1) at cache.c:12\n",
            "unknown",
            &["1 of 1 threads wait", "cache_get"],
            &["thread apply all bt"],
        ),
        (
            "  Id   Target Id         Frame\n* 1    Thread 0x7ffff7d8 (LWP 101) \"web\" 0x00007f12 in epoll_wait () from /lib/libc.so.6\n  2    Thread 0x7ffff6d7 (LWP 102) \"web\" __lll_lock_wait (futex=0x5) at lock.c:52\n  3    LWP 103 \"web\" 0x00007f12 in read () from /lib/libc.so.6\n",
            "unknown",
            &["1 of 3 threads wait for a lock"],
            &["__owner"],
        ),
        (
            "PID 100 - process\nTID 100:\n#0  0x00007f3c8e9b4d7f __poll\n#1  0x00007f3c8eb1c2aa PQgetResult\n#2  0x000055d5c1b0a1f0 - 1 run_query\n",
            "unknown",
            &["__poll < PQgetResult"],
            &["three dumps"],
        ),
        (
            "\"qtp-31\" #31 prio=5 tid=0x1 nid=0x2 waiting on condition\n   java.lang.Thread.State: WAITING (parking)\n\tat jdk.internal.misc.Unsafe.park(Native Method)\n\tat org.eclipse.jetty.util.SharedBlockingCallback$Blocker.block(SharedBlockingCallback.java:206)\n\tat org.eclipse.jetty.server.HttpOutput.write(HttpOutput.java:520)\n",
            "unknown",
            &["1 of 1 threads wait while they write", "HttpOutput.write"],
            &["ss -tno", "jstack"],
        ),
        (
            "\"qtp-32\" #32 prio=5 tid=0x1 nid=0x2 waiting on condition\n   java.lang.Thread.State: TIMED_WAITING (parking)\n\tat jdk.internal.misc.Unsafe.park(Native Method)\n\tat org.eclipse.jetty.util.BlockingArrayQueue.poll(BlockingArrayQueue.java:382)\n\tat org.eclipse.jetty.util.thread.QueuedThreadPool$Runner.idleJobPoll(QueuedThreadPool.java:974)\n",
            "unknown",
            &["all 1 threads"],
            &["jstack"],
        ),
    ]);
}

#[test]
fn what_a_generator_lacks_itself() {
    check(&[
        (
            "Summary:\n  Total: 5.5 secs\n  Slowest: 5.3 secs\n  Fastest: 0.001 secs\n  Average: 0.09 secs\n  Requests/sec: 2971.8\nStatus code distribution:\n  [200] 16368 responses\nError distribution:\n  [16] Get http://a/: dial tcp 127.0.0.1:80: socket: too many open files\n",
            "unknown",
            &["16 of its 16 errors", "its own limit of descriptors"],
            &["ulimit -n"],
        ),
        (
            "Benchmarking a (be patient)\nsocket: Too many open files (24)\n",
            "unknown",
            &["its own limit of descriptors"],
            &["ulimit -n"],
        ),
        (
            "[error] socket: unable to create socket sock.c:119: Too many open files\n",
            "unknown",
            &["its own limit of descriptors"],
            &["ulimit -n"],
        ),
        (
            "time=\"2023-01-01T10:00:00Z\" level=warning msg=\"Request Failed\" error=\"Get \\\"http://a/\\\": dial tcp 10.0.0.1:80: socket: too many open files\"\n",
            "unknown",
            &["its own limit of descriptors"],
            &["ulimit -n"],
        ),
        (
            "2023/01/01 10:00:00 http: Accept error: accept tcp [::]:80: accept4: too many open files; retrying in 5ms\n",
            "fd_limit",
            &["refused a descriptor"],
            &["LimitNOFILE"],
        ),
        (
            "accept4(3, 0x7ffc, [128], SOCK_CLOEXEC) = -1 EMFILE (Too many open files)\naccept4(3, 0x7ffc, [128], SOCK_CLOEXEC) = -1 EMFILE (Too many open files)\n",
            "fd_limit",
            &["2 times"],
            &["LimitNOFILE"],
        ),
        (
            "10:00:00.1 accept4(3, 0x7ffc, [128], SOCK_CLOEXEC) = -1 EMFILE (Too many open files) <0.000012>\n",
            "fd_limit",
            &["accept4"],
            &["LimitNOFILE"],
        ),
        (
            "accept(3, 0x7ffc, [16]) = -1 ENFILE (Too many open files in system)\n",
            "fd_limit",
            &["the machine has no descriptor left"],
            &["file-max"],
        ),
        (
            "# oha -q 10 -c 100 http://a/\nSummary:\n  Success rate: 1.0000\n  Total: 19.9 secs\n  Slowest: 19.4 secs\n  Fastest: 0.1 secs\n  Average: 7.47 secs\n  Requests/sec: 10.05\n\nDetails (average, fastest, slowest):\n  DNS+dialup: 5.576 secs, 0.033 secs, 16.1 secs\n  DNS-lookup: 5.431 secs, 0.029 secs, 16.0 secs\n\nStatus code distribution:\n  [200] 200 responses\n",
            "unknown",
            &[
                "5.43 s before it has looked up the name",
                "asks for 10 requests a second",
            ],
            &["-q"],
        ),
        (
            "Summary:\n  Total: 5.5 secs\n  Slowest: 3.1 secs\n  Fastest: 0.001 secs\n  Average: 1.0 secs\n  Requests/sec: 90.0\nDetails (average, fastest, slowest):\n  DNS+dialup: 0.9 secs, 0.0 secs, 3.0 secs\n  DNS-lookup: 0.001 secs, 0.0 secs, 0.01 secs\n  resp wait: 0.01 secs, 0.0 secs, 0.1 secs\nStatus code distribution:\n  [200] 500 responses\n",
            "unknown",
            &["0.9 s until its connection stands"],
            &["ListenOverflows"],
        ),
        (
            "wrk -t2 -c10 -d5s -H \"Connection: close\" http://a/\nRunning 5s test @ http://a/\n  2 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     2.00ms   1.00ms   9.00ms   92.66%\n    Req/Sec     1.00k    10.00     1.20k    72.25%\n  10000 requests in 5.00s, 1.00MB read\n  Socket errors: connect 0, read 9000, write 0, timeout 0\nRequests/sec:   2000.00\nTransfer/sec:    200.00KB\n",
            "unknown",
            &["asks for the end of the connection", "read 9000"],
            &["keep-alive"],
        ),
        (
            "Running 10s test @ http://a/\n  8 threads and 64 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     0.00us    0.00us   0.00us    -nan%\n    Req/Sec     0.00      0.00     0.00      -nan%\n  0 requests in 10.10s, 0.00B read\nRequests/sec:      0.00\nTransfer/sec:       0.00B\n",
            "unknown",
            &["0 requests in 10.1 s with 64 connections"],
            &["curl -sv", "gdb"],
        ),
        (
            "Requests      [total, rate]            100, 50.00\nDuration      [total, attack, wait]    2.5s, 2s, 500ms\nLatencies     [mean, 50, 95, 99, max]  1.58s, 702ms, 1.95s, 2.2s, 2.4s\nBytes In      [total, mean]            9347, 93.47\nSuccess       [ratio]                  98.00%\nStatus Codes  [code:count]             0:2  200:98\n",
            "unknown",
            &[
                "2 % of the requests failed",
                "39.2 responses a second",
                "702 ms",
            ],
            &["curl -si"],
        ),
        (
            "     http_req_blocked...............: avg=1ms      min=4us   med=8us  max=42ms\n     http_req_duration..............: avg=4.04s    min=266ms med=3.24s   max=13.72s\n     http_req_receiving.............: avg=153us min=62us  med=121us max=8.55ms\n",
            "unknown",
            &[
                "4.04 s that a request takes",
                "before the server's first byte",
            ],
            &["top -H"],
        ),
        (
            "     http_req_duration..............: avg=4s    min=266ms med=3.24s   max=13.72s\n     http_req_waiting...............: avg=500ms min=62ms  med=121ms max=900ms\n     http_req_receiving.............: avg=3.5s min=62ms  med=3.1s max=12s\n",
            "unknown",
            &["3.5 s are the transfer"],
            &["--compressed"],
        ),
    ]);
}

#[test]
fn proxies_that_ask_again_queue_and_count() {
    check(&[
        (
            "1.1.1.1 - - [1/Jan/2023:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\" 106 2.999 [a-80] 10.0.0.1:80, 10.0.0.2:80 0, 5 2.997, 0.002 502, 200\n",
            "upstream_failing_retried",
            &[
                "1 of 1 logged requests",
                "`10.0.0.1:80` with status 502",
                "up to 3",
            ],
            &["ADDRESS"],
        ),
        (
            "1.1.1.1 \"GET / HTTP/1.1\" 504 5 upstream_addr=\"10.0.0.1:80, 10.0.0.2:80\" urt=\"5.000, 5.001\" us=\"504, 504\"\n",
            "unknown",
            &["none served them"],
            &["ADDRESS"],
        ),
        (
            "2017/06/27 18:09:24 [error] 22#22: *3 connect() failed (113: No route to host) while connecting to upstream, client: 1.1.1.1, upstream: \"http://10.0.0.1:80/\"\n",
            "unknown",
            &["no way to it"],
            &["ip route get"],
        ),
        (
            "1.1.1.1 [25/Feb/2026:13:16:06.163] http_in backend/b2 2/20007/0/51/20060 200 459 1/1/0/0/0 0/6\n",
            "upstream_queue",
            &["longest 20 s"],
            &["show stat"],
        ),
        (
            "min   lag  infl  ListenOverflows(==Drops)\n14.0   96    1    3378 ...\n15.0   97    3    4111 <- retries\n",
            "listen_backlog_overflow",
            &["overflowed 733 times"],
            &["ss -ltn"],
        ),
        (
            "| minute | ListenDrops |\n|---|---|\n| 1 | 0 |\n| 2 | 0 |\n",
            "unknown",
            &[],
            &[],
        ),
        (
            "maxsock = 20013; maxconn = 10000; maxpipes = 0\nsystem limits: memmax = unlimited\nmaxsocs = 20013; maxconn = 10000; maxpipes = 0\ncurrent conns = 361; current pipes = 0/0; conn rate = 27/sec\nRunning tasks: 1/366; idle = 98 %\n",
            "unknown",
            &["98 % of the time", "361 of 10,000"],
            &["show sess"],
        ),
    ]);
}

#[test]
fn pages_of_php_fpm_in_each_form() {
    check(&[
        (
            "{\"pool\":\"www\",\"process manager\":\"static\",\"listen queue\":0,\"max listen queue\":0,\"listen queue len\":0,\"idle processes\":0,\"active processes\":4,\"total processes\":4,\"max children reached\":0}\n",
            "unknown",
            &["all 4 workers", "Unix socket"],
            &["ss -xl"],
        ),
        (
            "{\"pool\":\"www\",\"listen queue\":0,\"max listen queue\":9,\"listen queue len\":128,\"idle processes\":3,\"active processes\":1,\"max active processes\":4,\"max children reached\":2}\n",
            "unknown",
            &[
                "reached its limit of children 2 times",
                "up to 9 requests",
                "3 idle",
            ],
            &["slowlog"],
        ),
        (
            "pool:                 www\nlisten queue:         0\nmax listen queue:     0\nlisten queue len:     128\nidle processes:       0\nactive processes:     5\nmax active processes: 5\n",
            "unknown",
            &["all 5 workers"],
            &["?full"],
        ),
        (
            "<status>\n<listen-queue>0</listen-queue>\n<max-listen-queue>0</max-listen-queue>\n<listen-queue-len>128</listen-queue-len>\n<idle-processes>0</idle-processes>\n<active-processes>5</active-processes>\n</status>\n",
            "unknown",
            &["all 5 workers"],
            &["?full"],
        ),
        (
            "<tr><th>listen queue</th><td>4</td></tr>\n<tr><th>idle processes</th><td>0</td></tr>\n<tr><th>active processes</th><td>5</td></tr>\n",
            "unknown",
            &["every worker of the pool is busy"],
            &["slow log"],
        ),
        (
            "phpfpm_listen_queue 0\nphpfpm_listen_queue_length 128\nphpfpm_idle_processes 0\nphpfpm_active_processes 6\n",
            "unknown",
            &["all 6 workers"],
            &["?full"],
        ),
    ]);
}

#[test]
fn every_error_of_curl_is_told() {
    check(&[
        (
            "curl: (23) Failure writing output to destination\n",
            "unknown",
            &["could not write what it received"],
            &["df -h"],
        ),
        (
            "curl: (23) Failed writing body (0 != 16384)\n",
            "unknown",
            &["could not write what it received"],
            &["df -h"],
        ),
        (
            "curl: (61) Unrecognized content encoding type. libcurl understands deflate, gzip content encodings.\n",
            "unknown",
            &["cannot decode"],
            &["Accept-Encoding"],
        ),
        (
            "GuzzleHttp\\Exception\\RequestException: cURL error 61: Error while processing content unencoding: incorrect header check\n",
            "unknown",
            &["cannot decode"],
            &["Accept-Encoding"],
        ),
        (
            "curl: (1) Received HTTP/0.9 when not allowed\n",
            "unknown",
            &["does not begin as a response"],
            &["--http0.9"],
        ),
        (
            "curl: (8) Weird server reply\n",
            "unknown",
            &["does not begin as a response"],
            &["--http0.9"],
        ),
        (
            "curl: (33) HTTP server doesn't seem to support byte ranges. Cannot resume.\n",
            "unknown",
            &["taken up again"],
            &["Range"],
        ),
        (
            "curl: (63) Maximum file size exceeded\n",
            "unknown",
            &["limit of size"],
            &["--max-filesize"],
        ),
        (
            "curl: (65) necessary data rewind wasn't possible\n",
            "unknown",
            &["a second time"],
            &["307"],
        ),
        (
            "curl: (96) QUIC connection has been shut down\n",
            "unknown",
            &["HTTP/3"],
            &["udp port 443"],
        ),
        (
            "curl: (77) error setting certificate verify locations\n",
            "unknown",
            &["own TLS settings"],
            &["--cacert"],
        ),
        (
            "curl: (3) URL using bad/illegal format or missing URL\n",
            "unknown",
            &["did not get as far"],
            &["curl --version"],
        ),
        (
            "curl: (90) SSL public key does not match pinned public key\n",
            "unknown",
            &["certificate was not accepted"],
            &["openssl"],
        ),
        (
            "curl: (97) connection to proxy closed\n",
            "unknown",
            &["proxy on the client"],
            &["noproxy"],
        ),
        (
            "curl: (80) Failed to shut down the SSL connection\n",
            "unknown",
            &["its error 80"],
            &["EXIT CODES"],
        ),
    ]);
}

#[test]
fn rows_with_what_they_call_addresses_and_statements_of_go() {
    check(&[
        (
            "# Children      Self  Command  Shared Object      Symbol\n    99.80%     0.00%  nginx    libc.so.6          [.] __libc_start_main\n",
            "unknown",
            &[
                "`__libc_start_main` in libc.so.6 takes",
                "100 % of the samples and itself 0 %",
            ],
            &["--no-children"],
        ),
        (
            "    85.20%    12.10%  nginx    nginx              [.] ngx_http_process_request\n",
            "unknown",
            &["85 % of the samples and itself 12 %"],
            &["--no-children"],
        ),
        (
            "    99.80%     0.00%  web  libc.so.6  [.] __libc_start_main\n    97.20%     0.00%  web  web  [.] run_loop\n",
            "unknown",
            &["`run_loop` in web", "97 %"],
            &["--no-children"],
        ),
        (
            "    99.80%     0.00%  web  libc.so.6  [.] __libc_start_main\n    97.20%    64.00%  web  web  [.] encode_page\n",
            "unknown",
            &["encode_page in web (64 %)"],
            &["callers"],
        ),
        (
            " 0x7f15cb4a41e3 : bn_sqr_comba4+0x26f3/0x88d0 [/lib/libcrypto.so.1.0.0]\n         104\n  0x7f15cb4a4213 : bn_sqr_comba4+0x2723/0x88d0 [/lib/libcrypto.so.1.0.0]\n         103\n",
            "unknown",
            &["of the 207 samples", "bn_sqr_comba4", "handshake"],
            &["openssl s_client"],
        ),
        (
            " 0x40aa : parse_head+0x1/0x8 [/usr/sbin/web]\n\t30\n 0x40bb : write_log+0x1/0x8 [/usr/sbin/web]\n\t10\n",
            "unknown",
            &["of the 40 samples", "parse_head in web (75 %)"],
            &["callers"],
        ),
        (
            " 0x40aa : render_page+0x1/0x8 [/usr/sbin/web]\n 0x40cc : main+0x1/0x8 [/usr/sbin/web]\n\t30\n 0x40bb : write_log+0x1/0x8 [/usr/sbin/web]\n 0x40cc : main+0x1/0x8 [/usr/sbin/web]\n\t10\n",
            "unknown",
            &["render_page in web (75 %)"],
            &["callers"],
        ),
        (
            "2023/01/19 22:02:39 ...action.go:361:GetFeeds() [I] [63c9] [SQL] SELECT * FROM `action` WHERE user_id=4 LIMIT 20 [] - 2m35.22s\n",
            "unknown",
            &["FROM `action`", "155 s"],
            &["EXPLAIN"],
        ),
        (
            "[xorm] [info]  2019/01/01 10:00:00.1 [SQL] SELECT * FROM `a` WHERE b=1 []interface {}{} - took: 2.35s\n",
            "unknown",
            &["FROM `a`", "2.35"],
            &["EXPLAIN"],
        ),
        (
            "2023/01/01 10:00:00 /app/repo.go:42 SLOW SQL >= 200ms\n[2345.678ms] [rows:1] SELECT * FROM \"orders\" WHERE id = 1\n",
            "unknown",
            &["\"orders\"", "2.346 s"],
            &["EXPLAIN"],
        ),
        (
            "time=\"2023-01-01T10:00:00Z\" level=info msg=Query sql=\"SELECT * FROM orders\" time=2.35s\n",
            "unknown",
            &["FROM orders", "2.35"],
            &["EXPLAIN"],
        ),
    ]);
}

#[test]
fn requests_of_any_logger_with_their_units() {
    check(&[
        (
            "10.0.0.9 - - [10/Jan/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 812 \"-\" \"curl/7\" rt=12.412 uct=\"0.001\" uht=\"12.411\" urt=\"12.412\"\n",
            "upstream_slow",
            &["100 % of the response time in the upstream (longest 12.4 s)"],
            &["strace"],
        ),
        (
            "{\"level\":\"info\",\"logger\":\"http.log.access.log0\",\"msg\":\"handled request\",\"request\":{\"remote_ip\":\"10.0.0.9\",\"method\":\"GET\",\"uri\":\"/a\"},\"duration\":12.031234,\"size\":8,\"status\":200}\n",
            "unknown",
            &["took 12 s"],
            &["the path"],
        ),
        (
            "time=\"2026-01-10T10:00:00Z\" level=info msg=\"request handled\" method=GET path=/a status=200 duration=12.41s\n",
            "unknown",
            &["took 12.4 s"],
            &["the path"],
        ),
        (
            "2026-01-10 10:00:00 [info     ] request_finished               code=200 duration_ms=12412 request='GET /a'\n",
            "unknown",
            &["took 12.4 s"],
            &["the path"],
        ),
        (
            "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status sc-substatus sc-win32-status time-taken\n2026-01-10 10:00:01 10.0.0.5 GET /a - 443 - 10.0.0.9 Mozilla/5.0 200 0 0 31203\n2026-01-10 10:00:02 10.0.0.5 GET /b - 443 - 10.0.0.9 Mozilla/5.0 200 0 0 15\n",
            "unknown",
            &["longest of 2 logged requests took 31.2 s"],
            &["the path"],
        ),
    ]);
}

#[test]
fn what_looks_like_another_tools_output_is_not_taken_for_it() {
    check(&[(
        "Summary:\n  Elapsed        10s\n  Count        81234\n  5xx            234\n  RPS       8123.456\n\nStatistics    Min      Mean    StdDev     Max\n  Latency    302\u{b5}s    6.1ms    8.2ms    512.3ms\n  RPS       6012.1   8123.4   412.1    8812.3\n",
        "unknown",
        &["plow", "8,123 responses a second", "6.1 ms", "512"],
        &["prony"],
    )]);
    let ltrace = "% time     seconds  usecs/call     calls      function\n------ ----------- ----------- --------- --------------------\n 62.31    4.123123        1031      4000 malloc\n 20.11    1.330123         332      4000 free\n 10.02    0.663123         165      4000 memcpy\n";
    assert!(read(ltrace).straces.is_empty());
}

#[test]
fn counters_of_devices_and_the_way() {
    check(&[
        (
            "2: eth0: <BROADCAST,UP> mtu 1500 qdisc mq state UP qlen 1000\n    RX: bytes  packets  errors  dropped overrun mcast\n    8612783412 31289012 0       48213   0       0\n    TX: bytes  packets  errors  dropped carrier collsns\n    1209341232 21908123 0       0       0       0\n",
            "unknown",
            &["48,213 lost", "`eth0 RX dropped`"],
            &["ethtool -S"],
        ),
        (
            "eth0: flags=4163<UP,RUNNING>  mtu 1500\n        RX packets 31289012  bytes 8612783412 (8.0 GiB)\n        RX errors 0  dropped 0  overruns 812  frame 0\n",
            "unknown",
            &["812 lost", "`eth0 RX overruns`"],
            &["ethtool"],
        ),
        (
            "NIC statistics:\n     rx_packets: 98237412\n     rx_missed_errors: 0\n",
            "unknown",
            &["no lost and no broken packet"],
            &["nstat"],
        ),
        (
            "traceroute to a.example (203.0.113.9), 30 hops max\n 1  gw (192.168.1.1)  0.5 ms  0.4 ms  0.6 ms\n 2  * * *\n 3  edge.example (203.0.113.1)  182.1 ms  181.9 ms  182.3 ms\n",
            "unknown",
            &["2 hops that respond", "182 ms", "203.0.113.1"],
            &["mtr"],
        ),
        (
            " Sent 81 bytes 8 pkt (dropped 812, overlimits 0 requeues 3)\n",
            "unknown",
            &["dropped 812 packets"],
            &["tc -s qdisc"],
        ),
    ]);
}

#[test]
fn tables_of_queues_calls_and_objects() {
    check(&[
        (
            "Listing queues for vhost / ...\nname\tmessages\tconsumers\norders\t182341\t1\nmails\t0\t4\n",
            "unknown",
            &["182,341 in 2", "`orders` (182341 messages)"],
            &["messages_unacknowledged"],
        ),
        (
            "GROUP    TOPIC   PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG     CONSUMER-ID  HOST       CLIENT-ID\nbilling  orders  0          1203412         1803412         600000  c-1          /10.0.0.7  c\nbilling  orders  1          1203410         1203412         2       c-2          /10.0.0.8  c\n",
            "unknown",
            &["600,002 messages behind", "partition 0"],
            &["kafka-consumer-groups"],
        ),
        (
            "Control Group                    Tasks   %CPU   Memory  Input/s Output/s\n/                                  412  187.3     3.1G        -        -\nsystem.slice                       120  170.1     2.2G        -        -\nsystem.slice/web.service            54  150.2     1.1G        -        -\n",
            "unknown",
            &["goes to `system.slice/web.service` (150.2 % of a core"],
            &["cpu.stat"],
        ),
        (
            "  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n70123412 70012341  99%    0.19K 3339210       21  13356840K dentry\n1203412 1203412 100%    0.10K  30856       39    123424K buffer_head\n",
            "unknown",
            &["`dentry` (13356840K in 70123412 objects)"],
            &["slabtop"],
        ),
        (
            "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn\nTCP  10.96.0.10:80 rr\n  -> 10.244.1.12:8080             Masq    1      812        3\n  -> 10.244.2.13:8080             Masq    1      4          2\n",
            "unknown",
            &["of 2 servers", "`10.244.1.12:8080` (812 connections"],
            &["ipvsadm"],
        ),
        (
            "uwsgi-2.0.18 - req: 8123 - RPS: 12 - lq: 100 - tx: 12.2M\n WID    %       PID     REQ     RPS     EXC     SIG     STATUS  AVG     RSS     VSZ     TX      ReSpwn  HC      RunT    LastSpwn\n 1      52.0    4123    4123    6       0       0       busy    3121ms  0       0       6M      1       0       120000  10:00:00\n 2      48.0    4124    4000    6       3       0       busy    2980ms  0       0       6M      1       0       120000  10:00:00\n",
            "unknown",
            &["2 of 2 workers", "3121ms a request"],
            &["py-spy"],
        ),
        (
            "{\"listen_queue\":100,\"listen_queue_errors\":12,\"load\":2,\"workers\":[]}\n",
            "unknown",
            &["100 requests wait"],
            &["uwsgitop"],
        ),
        (
            "   syscall            calls  errors  total       min       avg       max       stddev\n                                     (msec)    (msec)    (msec)    (msec)        (%)\n   --------------- --------  ------ -------- --------- --------- ---------     ------\n   futex              20341    812 81234.123     0.000     3.993   812.341      1.20%\n   epoll_wait          8123      0 92034.123     0.000     1.481   120.341      1.20%\n",
            "unknown",
            &["`futex` (81234.123 ms in 20341 calls"],
            &["perf lock"],
        ),
        (
            "% time     seconds  usecs/call     calls      function\n------ ----------- ----------- --------- --------------------\n 62.31    4.123123        1031      4000 malloc\n 20.11    1.330123         332      4000 free\n",
            "unknown",
            &["by ltrace -c", "`malloc` (4.123123 s in 4000 calls)"],
            &["perf record"],
        ),
        (
            "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)\n     1200    7.812    0.007    7.812    0.007 {method 'execute' of 'a.cursor' objects}\n     1200    0.203    0.000   12.103    0.010 views.py:33(list_orders)\n",
            "unknown",
            &[
                "by cProfile",
                "{method 'execute' of 'a.cursor' objects}",
                "7.812 s itself",
            ],
            &["slow log"],
        ),
        (
            "Function Name\tCalls\tIncl. Wall Time (microsec)\tExcl. Wall Time (microsec)\nmain()\t1\t1,203,412\t1,203\nPDO::query\t812\t1,003,412\t1,003,412\n",
            "unknown",
            &["by XHProf", "`PDO::query` (1,003,412 us itself, 812 calls)"],
            &["slow log"],
        ),
        (
            "  %Own   %Total  OwnTime  TotalTime  Function (filename)\n 61.00%  61.00%   12.41s    12.41s   recv_into (ssl.py)\n",
            "unknown",
            &["`recv_into (ssl.py)` (61.00% itself)"],
            &["py-spy"],
        ),
        (
            "     TOTAL    (pct)     SAMPLES    (pct)     FRAME\n      4123  (50.8%)        4123  (50.8%)     (garbage collection)\n",
            "unknown",
            &["`(garbage collection)` (4123 samples itself)"],
            &["flame graph"],
        ),
        (
            "Line #      Hits         Time  Per Hit   % Time  Line Contents\n==============================================================\n    33         1         12.0     12.0      0.0  def list_orders():\n    34       812   12041234.0  14829.0     97.1      rows = db.fetch(q)\n",
            "unknown",
            &["`rows = db.fetch(q)` (97.1 % of the time, 812 times)"],
            &["flame graph"],
        ),
        (
            " num     #instances         #bytes  class name\n----------------------------------------------\n   1:       8123412     1203412341  [C\n",
            "unknown",
            &["`[C` (1203412341 bytes in 8123412)"],
            &["jmap -dump"],
        ),
        (
            "  S0     S1     E      O      M     CCS    YGC     YGCT    FGC    FGCT     GCT\n  0.00   0.00 100.00  99.98  95.12  91.20    812   41.203   412  812.341  853.544\n  0.00   0.00 100.00  99.99  95.12  91.20    812   41.203   413  814.341  855.544\n",
            "gc_small_heap",
            &["413 since the start"],
            &["jmap"],
        ),
        (
            // A full collection that frees the heap is none of a heap that is too small.
            "  S0     S1     E      O      M     CCS    YGC     YGCT    FGC    FGCT     GCT\n  0.00   0.00 100.00  99.98  95.12  91.20    812   41.203   412  812.341  853.544\n  0.00   0.00 100.00  20.10  95.12  91.20    812   41.203   413  814.341  855.544\n",
            "unknown",
            &["1 of them between these rows"],
            &["GC log"],
        ),
        (
            "node_name name   active queue rejected\nnode-1    search     13  1000    81234\nnode-1    write       0     0        0\n",
            "unknown",
            &["refused 81,234 times", "`search` (13 active, 1000 queued"],
            &["hot_threads"],
        ),
        (
            "Pool Name                         Active   Pending      Completed   Blocked  All time blocked\nReadStage                             32      8123        8123412         0                 0\n",
            "unknown",
            &["`ReadStage` (32 active, 8123 pending)"],
            &["nodetool"],
        ),
        (
            "TIME     COMM           PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n10:00:00 mysqld         4123   S 0       0         812.34 ib_logfile0\n",
            "unknown",
            &["`ib_logfile0` (S by mysqld, 812.34 ms)"],
            &["biolatency"],
        ),
        (
            "PID    COMM         IP SADDR            DADDR            DPORT LAT(ms)\n4123   php-fpm      4  10.0.0.5         10.0.0.7         3306  1012.34\n",
            "unknown",
            &["up to 1,012 ms", "port 3306 from php-fpm"],
            &["ss -ltn"],
        ),
        (
            "TIME     PID    IP LADDR:LPORT          T> RADDR:RPORT          STATE\n01:55:05 0      4  10.0.0.5:22          R> 10.0.0.9:41232      ESTABLISHED\n01:55:06 0      4  10.0.0.5:80          R> 10.0.0.9:41233      SYN_SENT\n01:55:17 0      4  10.0.0.5:80          R> 10.0.0.9:41236      SYN_SENT\n",
            "unknown",
            &["3 segments", "`SYN_SENT` (2 times)"],
            &["ss -ltn"],
        ),
        (
            "  locktype   | relation | mode                | granted | pid\n-------------+----------+---------------------+---------+------\n relation    | orders   | AccessExclusiveLock | f       | 4123\n relation    | orders   | AccessShareLock     | t       | 4124\n",
            "unknown",
            &["1 of 2 locks"],
            &["pg_blocking_pids"],
        ),
        (
            "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1        40G   40G     0 100% /\ntmpfs           3.9G     0  3.9G   0% /dev/shm\n",
            "unknown",
            &["no room left (`/` (100% of /dev/sda1)"],
            &["du -xh"],
        ),
        (
            "Srv\tPID\tAcc\tM\tCPU\tSS\tReq\tConn\tChild\tSlot\tClient\tVHost\tRequest\n0-0\t4123\t0/12/120\tW\t1.20\t812\t0\t0.0\t0.12\t1.2\t10.0.0.9\ta.example:80\tGET /report HTTP/1.1\n2-0\t4125\t0/10/110\t_\t1.10\t1\t4\t0.0\t0.12\t1.2\t10.0.0.9\ta.example:80\tGET / HTTP/1.1\n",
            "unknown",
            &[
                "of 2 slots of Apache 1 are at a response",
                "state W for 812 s",
            ],
            &["gdb"],
        ),
        (
            "# pxname,svname,qcur,qmax,scur,smax,slim,stot,status\nshop,web1,120,812,100,100,100,812341,UP\nshop,BACKEND,120,812,100,100,100,812341,UP\n",
            "unknown",
            &["`web1` (120 wait, 100 at work of 100, status UP)"],
            &["Tw"],
        ),
        (
            "-        Java Heap (reserved=2048MB, committed=2048MB)\n-           Thread (reserved=2712MB, committed=2712MB)\n                   (thread #2690)\n",
            "unknown",
            &["`Thread` (2712MB), `Java Heap` (2048MB)"],
            &["VM.native_memory"],
        ),
        (
            "  PID USER      PRI  NI  VIRT   RES   SHR S CPU% MEM%   TIME+  Command\n 4123 www-data   20   0 1203M  412M  8120 R 98.7  5.2  1:23.45 php-fpm\n",
            "unknown",
            &["php-fpm"],
            &["perf"],
        ),
    ]);
}

#[test]
fn stacks_with_a_number_and_histograms_of_probes() {
    check(&[
        (
            "     usecs               : count     distribution\n       128 -> 255        : 12       |*         |\n    131072 -> 262143     : 45       |*****     |\n",
            "unknown",
            &["(usecs)", "131,072"],
            &["kstack"],
        ),
        (
            "Tracing block device I/O... Hit Ctrl-C to end.\n^C\n     usecs               : count     distribution\n       128 -> 255        : 1200     |*         |\n    131072 -> 262143     : 45       |*****     |\n",
            "unknown",
            &["1,245 operations of block devices", "131,072 or more"],
            &["biosnoop"],
        ),
        (
            "Tracing run queue latency... Hit Ctrl-C to end.\n^C\n     usecs               : count     distribution\n         2 -> 3          : 742      |*****     |\n      8192 -> 16383      : 809      |******    |\n",
            "unknown",
            &["became ready to run", "8,192 for a CPU"],
            &["vmstat"],
        ),
        (
            "    finish_task_switch\n    schedule\n    futex_wait_queue_me\n    do_futex\n    order_queue_take(Queue*)\n    -                orderd (4123)\n        8123412\n\n    finish_task_switch\n    io_schedule\n    filemap_fault\n    -                orderd (4123)\n        123412\n",
            "unknown",
            &[
                "`futex_wait_queue_me < do_futex < order_queue_take(Queue*)` (orderd (4123), 8123412 us)",
            ],
            &["dumps of the threads"],
        ),
        (
            "@[\n    tcp_drop+1\n    tcp_rcv_established+2\n]: 812\n@[\n    udp_queue_rcv_skb+1\n]: 12\n",
            "unknown",
            &["`tcp_drop+1 < tcp_rcv_established+2` (812 times)"],
            &["funclatency"],
        ),
        (
            "--- 29301000000 ns (47.02%), 2930 samples\n  [ 0] java.util.regex.Pattern$Curly.match\n  [ 1] org.a.UserAgent.parse\n\n--- 9301000000 ns (14.92%), 930 samples\n  [ 0] SpinPause\n",
            "unknown",
            &[
                "`java.util.regex.Pattern$Curly.match < org.a.UserAgent.parse` (47.02 %, 2930 samples)",
            ],
            &["-e wall"],
        ),
        (
            "   98.7% (493.5ms out of 500ms) cpu usage by thread 'node[search][T#3]'\n     10/10 snapshots sharing following 2 elements\n       org.a.Operations.determinize(Operations.java:741)\n       org.a.Query.rewrite(Query.java:60)\n",
            "unknown",
            &["`org.a.Operations.determinize(Operations.java:741) < org.a.Query"],
            &["slow log"],
        ),
        (
            "    812 pthread_cond_wait,take_order,worker_main\n     12 read,recv_all,handle\n",
            "unknown",
            &[
                "of 824 threads",
                "`pthread_cond_wait < take_order < worker_main` (812 threads)",
            ],
            &["pt-pmp"],
        ),
    ]);
}

#[test]
fn reports_of_frameworks_clouds_and_browsers() {
    check(&[
        (
            "Timestamp      Bereq: 1768039200.123500 0.000088 0.000088\nTimestamp      Beresp: 1768039212.123500 12.000088 12.000000\n",
            "upstream_slow",
            &["waited 12 s"],
            &["varnishlog"],
        ),
        (
            "    81234 nanoseconds spent acquiring 1 JDBC connections;\n    8123412341 nanoseconds spent executing 812 JDBC statements;\n",
            "unknown",
            &["812 statements that took 8,123 ms"],
            &["JOIN FETCH"],
        ),
        (
            "default 8123.41 ms (812 queries including 800 similar and 790 duplicates )\n",
            "unknown",
            &["812 statements", "800 of them alike"],
            &["select_related"],
        ),
        (
            "{ \"op\" : \"query\", \"ns\" : \"shop.orders\", \"millis\" : 12412, \"docsExamined\" : 8123412, \"nreturned\" : 1 }\n",
            "unknown",
            &["8,123,412 documents to return 1"],
            &["executionStats"],
        ),
        (
            "{\"took\":12412,\"timed_out\":false,\"hits\":{\"total\":1}}\n",
            "unknown",
            &["12,412 ms"],
            &["hot_threads"],
        ),
        (
            "REPORT RequestId: a7c2-b1\tDuration: 12412.41 ms\tBilled Duration: 12413 ms\tMemory Size: 128 MB\tMax Memory Used: 127 MB\n",
            "unknown",
            &["127 of its 128 MB"],
            &["twice the memory"],
        ),
        (
            "Queueing 1.20 ms\nStalled 2.41 ms\nWaiting (TTFB) 5.02 s\nContent Download 1.20 ms\n",
            "unknown",
            &["5,020 ms for the first byte"],
            &["time_starttransfer"],
        ),
        (
            "Version : 5.3.7\nMax pool size : 6\nRequests in top-level queue : 0\n  Requests in queue: 100\n",
            "unknown",
            &["100 requests wait"],
            &["passenger-status"],
        ),
        (
            "cluster.shop.upstream_rq_pending_overflow: 81234\ncluster.shop.upstream_cx_overflow: 0\n",
            "unknown",
            &["81,234 requests"],
            &["circuit_breakers"],
        ),
        (
            "shop::default_priority::max_connections::1024\nshop::10.0.0.7:8080::cx_active::1024\n",
            "unknown",
            &["1,024 connections", "circuit breaker"],
            &["overflow"],
        ),
        (
            "at=error code=H12 desc=\"Request timeout\" method=GET path=\"/a\" dyno=web.1 connect=1ms service=30001ms status=503 bytes=0\n",
            "unknown",
            &["H12"],
            &["request_id"],
        ),
        (
            "      As of \"01/10/2026 10:00:00 +00:00\", the heartbeat has been running for \"00:00:12\" which is longer than \"00:00:01\".\n",
            "unknown",
            &["heartbeat came late"],
            &["dotnet-counters"],
        ),
        (
            "[2026-01-10 10:00:00,123: INFO/ForkPoolWorker-1] Task shop.sync[a7c2] succeeded in 312.41s: None\n[2026-01-10 10:00:01,123: INFO/ForkPoolWorker-2] Task shop.mail[b7c2] succeeded in 0.41s: None\n",
            "unknown",
            &["names (2)", "Task shop.sync[a7c2]", "(312.41s)"],
            &["py-spy"],
        ),
        (
            "Largest Contentful Paint 8.2 s\nTotal Blocking Time 1,210 ms\nSpeed Index 6.1 s\n",
            "unknown",
            &["`Largest Contentful Paint` (8.2 s)"],
            &["strace"],
        ),
        (
            "server-timing: db;dur=8123.4, app;dur=412.1\n",
            "unknown",
            &["`db` (8.1 s), `app` (412 ms)"],
            &["slow log"],
        ),
    ]);
}

#[test]
fn samples_stacks_of_the_kernel_and_logs_of_frameworks() {
    check(&[
        (
            "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,bytes,Latency,Connect\n1768039200123,12412,orders,200,OK,tg 1-1,text,true,812,12411,1\n1768039201123,12,health,500,No,tg 1-2,text,false,12,11,1\n",
            "unknown",
            &[
                "of 2 samples of JMeter 1 succeeded",
                "`orders` (12412 ms, 200)",
            ],
            &["Latency"],
        ),
        (
            "Label,# Samples,Average,Median,90% Line,Min,Max,Error %,Throughput\norders,8123,4312,4100,8123,12,30012,10.00%,81.2\nTOTAL,8123,4312,4100,8123,12,30012,10.00%,81.2\n",
            "unknown",
            &[
                "slowest of 1 kinds",
                "`orders` (4312 ms on average, 10.00% errors",
            ],
            &["access log"],
        ),
        (
            "  PID WCHAN                    COMMAND\n 4123 nfs_wait_bit_killable    web\n 4124 nfs_wait_bit_killable    web\n",
            "unknown",
            &["`nfs_wait_bit_killable` (2 times)"],
            &["nfsiostat"],
        ),
        (
            "[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]\n[<0>] __wait_on_bit+0x60/0x90\n",
            "unknown",
            &["`nfs_wait_bit_killable < __wait_on_bit`"],
            &["nfsiostat"],
        ),
        (
            "      Request finished HTTP/1.1 GET http://a.example/orders - 200 812 application/json 12412.1234ms\n",
            "unknown",
            &["took 12.4 s"],
            &["dump"],
        ),
        (
            "10:00:12.535 request_id=F7 [info] Sent 200 in 12412ms\n",
            "unknown",
            &["took 12.4 s"],
            &["dump"],
        ),
        (
            "1768039200.123  12412 10.0.0.9 TCP_MISS/200 812 GET http://a.example/orders - HIER_DIRECT/10.0.0.7 text/html\n",
            "unknown",
            &["took 12.4 s"],
            &["dump"],
        ),
        (
            "[debug] QUERY OK source=\"orders\" db=12412.3ms queue=812.1ms idle=12.3ms\n",
            "unknown",
            &["12.4 s in the database", "0.812 s for its connection"],
            &["pool_size"],
        ),
        (
            "      Executed DbCommand (12,412ms) [Parameters=[], CommandType='Text', CommandTimeout='30']\n",
            "unknown",
            &["up to 12.4 s"],
            &["plan"],
        ),
        (
            "1. command: 5 latency spikes (average 300ms, mean deviation 120ms, period 73.40 sec). Worst all time event 500ms.\n",
            "unknown",
            &["up to 0.5 s"],
            &["SLOWLOG"],
        ),
        (
            "low 0\nhigh 81234\nmax 812\noom 12\noom_kill 3\n",
            "unknown",
            &["killed 3 processes"],
            &["memory.max"],
        ),
        (
            "MemTotal:        8123412 kB\nMemFree:          112341 kB\nMemAvailable:     101234 kB\n",
            "unknown",
            &["of 7,933 MiB of memory"],
            &["vmstat"],
        ),
        (
            "Executing (default): SELECT * FROM orders; Elapsed time: 12412 ms\n",
            "unknown",
            &["(12412 ms)"],
            &["slow log"],
        ),
    ]);
}

#[test]
fn other_libraries_have_other_words_for_the_same_error() {
    check(&[
        (
            "2026/01/10 10:00:00 [alert] 29#29: *812 socket() failed (24: No file descriptors available) while connecting to upstream, client: 10.0.0.1\n",
            "fd_limit",
            &["No file descriptors available"],
            &["worker_rlimit_nofile"],
        ),
        (
            "2026/01/10 10:00:00 [crit] 29#29: *812 connect() to 10.0.0.7:80 failed (99: Address not available) while connecting to upstream\n",
            "ports_exhausted",
            &["Address not available"],
            &["keepalive"],
        ),
        (
            "dial tcp 127.0.0.1:8080: connect: can't assign requested address\n",
            "ports_exhausted",
            &["requested address"],
            &[],
        ),
    ]);
}

#[test]
fn trees_of_calls_say_what_took_the_time_itself() {
    check(&[
        (
            "3.004 _run  asyncio/events.py:80\n└─ 3.004 handler  app/web.py:12\n   └─ 3.001 load  app/db.py:9\n      └─ 3.001 recv_into  socket.py:1\n         └─ 3.001 recv_into  <built-in>:0\n",
            "event_loop_blocked",
            &[
                "for 3 s",
                "recv_into <built-in>:0",
                "load app/db.py:9 < handler app/web.py:12",
            ],
            &["to_thread"],
        ),
        (
            "3.004 _run  asyncio/events.py:80\n└─ 3.004 handler  app/web.py:12\n   ├─ 2.801 parse  app/big.py:9\n   └─ 0.203 sleep  <built-in>:0\n",
            "unknown",
            &["`parse app/big.py:9` (2.801 s itself"],
            &["process"],
        ),
        (
            "3.004 _run  asyncio/events.py:80\n└─ 3.004 handler  app/web.py:12\n   └─ 3.001 [await]  app/web.py:12\n",
            "unknown",
            &["`[await] app/web.py:12`"],
            &["py-spy"],
        ),
        (
            "  _     ._   __/__   _ _  _  _ _/_   Recorded: 10:00:00  Samples:  812\nProgram: app.py\n\n12.110 <module>  app.py:1\n├─ 12.012 execute  db/utils.py:66\n└─ 0.098 render  views.py:8\n",
            "unknown",
            &[
                "12.1 s in all",
                "`execute db/utils.py:66` (12.012 s itself, called by <module> app.py:1)",
            ],
            &["slow log"],
        ),
    ]);
}

#[test]
fn a_part_of_nodes_profile_names_the_callers() {
    check(&[
        (
            " [JavaScript]:\n   ticks  total  nonlib   name\n   5120   51.2%   60.1%  LazyCompile: *parse /app/csv.js:3:9\n\n [Bottom up (heavy) profile]:\n  ticks parent  name\n   5120   51.2%  LazyCompile: *parse /app/csv.js:3:9\n   5000   97.7%    LazyCompile: ~load /app/index.js:8:4\n    120    2.3%    LazyCompile: ~test /app/test.js:8:4\n",
            "unknown",
            &["LazyCompile: *parse", "by `load /app/index.js:8:4` 97.7 %"],
            &["--prof-process"],
        ),
        (
            " [C++]:\n   ticks  total  nonlib   name\n   812   41.0%   44.0%  __write\n",
            "unknown",
            &["__write (41 %)"],
            &["Bottom up"],
        ),
    ]);
}

#[test]
fn stacks_in_a_journal_are_stacks() {
    check(&[
        (
            "2026-01-10T10:00:00+0000 web shop[812]: goroutine 12 [sync.RWMutex.RLock, 9 minutes]:\n2026-01-10T10:00:00+0000 web shop[812]: sync.(*RWMutex).RLock(0xc0)\n2026-01-10T10:00:00+0000 web shop[812]:         /go/src/sync/rwmutex.go:71 +0x3a\n2026-01-10T10:00:00+0000 web shop[812]: main.(*Cart).Sum(0xc0)\n",
            "unknown",
            &[
                "1 of 1 threads wait for a lock",
                "sync.(*RWMutex).RLock",
                "main.(*Cart).Sum",
            ],
            &["goroutine?debug=2"],
        ),
        (
            "shop_1  | goroutine 12 [semacquire, 9 minutes]:\nshop_1  | sync.(*Mutex).Lock(0xc0)\nshop_1  | main.(*Cart).Sum(0xc0)\n",
            "unknown",
            &["1 of 1 threads wait for a lock", "main.(*Cart).Sum"],
            &["goroutine?debug=2"],
        ),
    ]);
}

#[test]
fn transfers_of_curl_are_compared() {
    let head = "  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n                                 Dload  Upload   Total   Spent    Left  Speed\n";
    let one = format!(
        "$ curl -O https://a.example/f\n{head}  0  120M    0  512k    0     0   510k      0  0:04:00  0:00:01  0:03:59  510k\r100  120M  100  120M    0     0  1200k      0  0:01:42  0:01:42 --:--:-- 1210k\n"
    );
    let found = read(&one);
    let finding = diagnose_pasted(&found).findings.remove(0);
    assert!(
        finding.why.contains("120.0 MiB came at 1.2 MiB a second"),
        "{}",
        finding.why
    );
    let two = format!(
        "{one}$ curl -4 -O https://a.example/f\n{head}100  120M  100  120M    0     0  12.0M      0  0:00:10  0:00:10 --:--:-- 12.1M\n"
    );
    let finding = diagnose_pasted(&read(&two)).findings.remove(0);
    assert_eq!(finding.cause, "unknown");
    for word in [
        "a factor of 10.2",
        "1200k a second, 102 s by `curl -O",
        "curl -4",
    ] {
        assert!(finding.why.contains(word), "`{word}` of {}", finding.why);
    }
    // What differs is no version of HTTP.
    assert!(!finding.why.contains("64 KiB"), "{}", finding.why);
}

#[test]
fn lists_of_processes_and_descriptors_name_what_stands_out() {
    check(&[
        (
            "USER  PID %CPU %MEM    VSZ   RSS TTY STAT START   TIME COMMAND\nwww   812 98.1  1.0 120000 10000 ?   R    Jan02 8123:11 php-fpm: pool www\nwww   813  0.1  1.0 120000 10000 ?   S    Jan02   8:11 php-fpm: pool www\n",
            "unknown",
            &[
                "1 of 2 processes",
                "`php-fpm: pool www` (PID 812, 98.1 % of a core since Jan02, CPU time 8123:11)",
            ],
            &["gdb -p PID"],
        ),
        (
            "UID   PID  PPID  C STIME TTY          TIME CMD\nroot  812     1  0 Jan02 ?        00:12:01 /usr/sbin/httpd -k start\nroot  900     1  0 Jan02 ?        00:00:01 sshd: /usr/sbin/sshd -D\n",
            "unknown",
            &["most CPU time", "`/usr/sbin/httpd -k start` (PID 812"],
            &["pidstat"],
        ),
        (
            "     12 : st=0x000021(cl R:ra W:Ra) ev=0x000014(heOpI) [nlC] tmask=0x1 umask=0x1 owner=0x7f iocb=0x5(sock_conn_iocb) back=1 cflg=0x300 sv=shop/s1 mux=H1 ctx=0x7f h1c.flg=0x80000200\n",
            "unknown",
            &[
                "1 descriptors of HAProxy, none of them ended",
                "sv=shop/s1 mux=H1",
            ],
            &["show activity"],
        ),
    ]);
}

#[test]
fn what_repeats_without_end_is_told_from_what_works() {
    let wait = "epoll_wait(5, [{EPOLLIN, {u32=9, u64=9}}], 64, -1) = 1\n";
    let end = "recvfrom(9, \"\", 4096, 0, NULL, NULL) = 0\n";
    let spins = format!("{wait}{end}").repeat(5);
    let finding = diagnose_pasted(&read(&spins)).findings.remove(0);
    assert_eq!(finding.cause, "busy_polling", "{}", finding.why);
    assert!(finding.why.contains("told 5 times"), "{}", finding.why);
    // One that closes what has ended works.
    let works = format!("{wait}{end}close(9) = 0\n").repeat(5);
    let finding = diagnose_pasted(&read(&works)).findings.remove(0);
    assert_eq!(finding.cause, "unknown", "{}", finding.why);
    let head = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n";
    let clock = format!(
        "{head} 91.00    0.910000           9     91000           gettimeofday\n  9.00    0.090000           9      9000           epoll_wait\n------ ----------- ----------- --------- --------- ----------------\n100.00    1.000000                100000           total\n"
    );
    let finding = diagnose_pasted(&read(&clock)).findings.remove(0);
    assert_eq!(finding.cause, "clock_calls", "{}", finding.why);
    assert!(finding.why.contains("91,000 of 100,000"), "{}", finding.why);
}

#[test]
fn collections_in_elasticsearchs_log_are_collections() {
    check(&[
        (
            "[2026-01-10T10:00:40,796][WARN ][o.e.m.j.JvmGcMonitorService] [node-1] [gc][old][812][9] duration [12.5s], collections [1]/[13s], total [12.5s]/[1.2m], memory [7.9gb]->[7.8gb]/[8gb], all_pools {[young] [532mb]->[500mb]/[532mb]}{[old] [7.3gb]->[7.2gb]/[7.3gb]}\n",
            "gc_small_heap",
            &["up to 12.5 s", "98 % of the heap"],
            &["jmap -histo"],
        ),
        (
            "[2026-01-10T10:00:40,796][WARN ][o.o.m.j.JvmGcMonitorService] [node-1] [gc][old][812][9] duration [2.5s], collections [1]/[3s], total [2.5s]/[1.2m], memory [7.9gb]->[2gb]/[8gb], all_pools {[young] [532mb]->[1mb]/[532mb]}\n",
            "unknown",
            &["25 % full"],
            &["Xlog:gc"],
        ),
        (
            "[2026-01-10T10:00:07,020][INFO ][o.e.m.j.JvmGcMonitorService] [node-1] [gc][812] overhead, spent [700ms] collecting in the last [1s]\n",
            "unknown",
            &["70 % of a second"],
            &["_nodes/stats"],
        ),
    ]);
}

#[test]
fn a_generators_part_says_what_else_is_wanted() {
    check(&[
        (
            "Transaction rate:  812.51 trans/sec\n",
            "unknown",
            &["`Transaction rate: 812.51 trans/sec`"],
            &["the whole summary"],
        ),
        (
            "Summary:\n  Total:\t20.1 secs\n  Slowest:\t4.9000 secs\n  Fastest:\t3.1000 secs\n  Average:\t4.0247 secs\n  Requests/sec:\t2.4342\n\nLatency distribution:\n  50% in 4.0000 secs\n",
            "unknown",
            &[
                "even the fastest response took 3.1 s",
                "`Average: 4.0247 secs`",
            ],
            &["-n 1 -c 1"],
        ),
        (
            "TCP:   9120 (estab 8000, closed 100, orphaned 0, timewait 20/0)\n",
            "unknown",
            &["1,000 sockets of TCP are neither", "estab 8000"],
            &["ss -tan"],
        ),
    ]);
}

#[test]
fn a_plan_without_times_shows_its_scans() {
    check(&[
        (
            "Limit  (cost=0.00..41.23 rows=10 width=188)\n  ->  Parallel Seq Scan on orders  (cost=0.00..812.16 rows=9000 width=188)\n",
            "unknown",
            &[
                "1 of its 2 steps read a whole table",
                "Parallel Seq Scan on orders",
            ],
            &["EXPLAIN ANALYZE"],
        ),
        (
            "Limit  (cost=0.00..41.23 rows=10 width=188)\n  ->  Index Scan using orders_pkey on orders  (cost=0.00..812.16 rows=9000 width=188)\n",
            "unknown",
            &["no step reads a whole table"],
            &["EXPLAIN ANALYZE"],
        ),
    ]);
}

#[test]
fn what_is_cut_off_and_what_differs_is_told_by_its_form() {
    check(&[
        (
            "  \"status\": 200,\n  \"path\": \"/orders\",\n  \"duration\": 5100.5,\n  \"level\": \"info\"\n },\n",
            "unknown",
            &["`duration 5100.5`", "path /orders"],
            &["pool", "trace"],
        ),
        (
            "QUERY PLAN\n|--SCAN orders\n`--USE TEMP B-TREE FOR ORDER BY\n",
            "unknown",
            &["1 of its 2 steps", "SCAN orders"],
            &["an index"],
        ),
        (
            "render page=/a cache=miss 412ms\nrender page=/b cache=hit 3ms\nrender page=/a cache=hit 4ms\n",
            "unknown",
            &["`cache miss`", "412 ms in 1 line", "with hit: 3 to 4 ms"],
            &["grep -c"],
        ),
        (
            "gzip level 1: 4.1 ms, 120 kB\ngzip level 6: 11.8 ms, 108 kB\ngzip level 9: 61.3 ms, 108 kB\n",
            "unknown",
            &["`level`", "61.3 ms at 9"],
            &["gzip_comp_level"],
        ),
        (
            "COMMAND  PID TYPE SIZE MODE M START END PATH\nphp-fpm 12 FLOCK 1K WRITE 0 0 0 /s/sess_a\nphp-fpm 13 FLOCK 1K WRITE* 0 0 0 /s/sess_a\n",
            "unknown",
            &["/s/sess_a", "held by process 12, 1 waiting"],
            &["session_write_close()"],
        ),
        (
            "used_bytes: 900\nfree_bytes: 0\nmisses: 12\n",
            "unknown",
            &["free_bytes", "0 beside used_bytes 900"],
            &["a larger one"],
        ),
        (
            "age:900\ncache-control:public, max-age=300\ncontent-type:text/css\n",
            "unknown",
            &["900 s by Age", "300 s by max-age"],
            &["curl -sI"],
        ),
        (
            "# Query_time: 0.4\n# Parse_time: 0.001 Compile_time: 0.38\n# Wait_time: 0.02\n# DB: shop\n",
            "unknown",
            &["not in the text", "Compile_time took 0.380 s of it"],
            &["EXPLAIN"],
        ),
        (
            "2024-03-01T10:00:00.123Z 7f1c Task timed out after 10.01 seconds\n",
            "unknown",
            &["time limit of 10"],
            &["connect"],
        ),
    ]);
}

#[test]
fn links_sums_of_goroutines_and_errors_by_their_number() {
    check(&[
        (
            "Settings for eth0:\n\tSupported link modes:   10baseT/Full 100baseT/Full\n\t                        1000baseT/Full\n\tSpeed: 100Mb/s\n\tDuplex: Full\n\tAuto-negotiation: on\n\tLink detected: yes\n",
            "bandwidth_limit",
            &["negotiated at 100 Mbit/s", "Speed: 100Mb/s"],
            &["ethtool DEV", "cable"],
        ),
        (
            "[    5.123456] r8169 0000:02:00.0 enp2s0: Link is Up - 100Mbps/Half - flow control off\n",
            "bandwidth_limit",
            &["half duplex"],
            &["both negotiate"],
        ),
        (
            "Settings for eth0:\n\tSpeed: 10000Mb/s\n\tDuplex: Full\n",
            "unknown",
            &["negotiated at 10,000 Mbit/s"],
            &["sar -n DEV", "iperf3"],
        ),
        (
            "12: sync.Mutex.Lock [5 minutes] [Created by pool.(*Pool).run in goroutine 7 @ pool.go:61]\n    sync   sema.go:95      runtime_SemacquireMutex(0, 0, 0)\n    sync   mutex.go:149    (*Mutex).lockSlow(#1)\n    stats  stats.go:310    (*Sum).Observe(#2, *)\n3: IO wait [Created by http.(*Server).Serve @ server.go:3102]\n    poll   fd_poll_runtime.go:84  (*pollDesc).wait(#3, 0)\n    http   server.go:1997  (*conn).serve(#4, {#5, #6})\n",
            "unknown",
            &["12 of 15", "(*Sum).Observe"],
            &["the holder"],
        ),
        (
            "2024-05-01 10:00:00 ERROR store: connect failed (errno 99) target=192.0.2.2:9001\n2024-05-01 10:00:01 ERROR store: connect failed (errno 99) target=192.0.2.2:9001\n",
            "ports_exhausted",
            &["2 times"],
            &["keep upstream connections open"],
        ),
        (
            "thread 'main' panicked at src/main.rs:9: accept: Os { code: 24, kind: Uncategorized, message: \"Too many open files\" }\nError: Too many open files (os error 24)\n",
            "fd_limit",
            &["refused a descriptor"],
            &["LimitNOFILE"],
        ),
        (
            "Caused by: java.net.SocketException: No buffer space available (maximum connections reached): connect\n\tat java.net.DualStackPlainSocketImpl.connect0(Native Method)\n",
            "connections_not_reused",
            &["no buffer left"],
            &["netstat -ano"],
        ),
        (
            "2024-05-01 10:00:00[Bullet] user: app\nGET /posts\nUSE eager loading detected\n  Post => [:comments]\n  Add to your query: .includes([:comments])\n",
            "many_upstream_turns",
            &["one at a time"],
            &["includes"],
        ),
    ]);
}

#[test]
fn transfers_plans_that_warn_and_rates_that_are_compared() {
    check(&[
        (
            "backup.tar      7%  464MB   8.0MB/s   11:47 ETA\n",
            "unknown",
            &["8.0 MiB a second", "464MB"],
            &["scp -c", "iperf3"],
        ),
        (
            "f.iso  34%[=====>     ]  12.5M  2.50MB/s    eta 12s\n",
            "unknown",
            &["2.5 MiB a second"],
            &["speed_download"],
        ),
        (
            "2025-01-03T19:00:43.9Z NOTICE - database: Slow query [ 8232.717ms] -- SELECT a FROM t WHERE b = 1\n",
            "unknown",
            &["8.2", "SELECT a FROM t"],
            &["EXPLAIN"],
        ),
        (
            "<Warnings><PlanAffectingConvert ConvertIssue=\"Seek Plan\" Expression=\"CONVERT_IMPLICIT(nvarchar(9),[t].[c],0)=[@P0]\"/>\n",
            "unknown",
            &["CONVERT_IMPLICIT(nvarchar(9)", "Seek Plan"],
            &["sendStringParametersAsUnicode", "Index Seek"],
        ),
        (
            "prog 115 root 27u IPv4 71 0t0 TCP h:1->192.0.2.5:2 (CLOSE_WAIT)\n",
            "unknown",
            &["prog 27u", "PID 115"],
            &["trace=close"],
        ),
        (
            "| rows | time |\n|---|---|\n| 1,000 | 2s |\n| 4,000 | 32s |\n",
            "unknown",
            &["faster than what is stored", "16.0 times"],
            &["EXPLAIN QUERY PLAN"],
        ),
        (
            "iperf3 -t30:\n  Baseline:    1.5 Gbps\n  With the fix:  2.8-3.2 Gbps\n",
            "unknown",
            &["1.5 Gbps -> 2.8-3.2 Gbps"],
            &["mpstat -P ALL", "ethtool -k"],
        ),
        (
            "{\"timestamp\": 1770595482263, \"statusCode\": 429},\n{\"timestamp\": 1770595482008, \"statusCode\": 429}\n",
            "rate_limit_rejects",
            &["only 255 ms apart"],
            &["Retry-After"],
        ),
        (
            "Get-8  4.180m \u{b1} 9%  4.146m \u{b1} 8%  ~ (p=0.400 n=8)\n",
            "unknown",
            &["none changed"],
            &["-count 20"],
        ),
    ]);
}

#[test]
fn plans_in_boxes_of_several_times_and_short_ones() {
    check(&[
        (
            "Before:\nExecution Time: 900.5 ms\n\nAfter:\nExecution Time: 30.25 ms\n",
            "unknown",
            &[
                "`Before` (900.5 ms)",
                "`After` (30.25 ms)",
                "`the whole plan`",
            ],
            &["EXPLAIN (ANALYZE, BUFFERS)"],
        ),
        (
            "| QUERY PLAN    >\n|---------------->\n| Limit  (cost=1..2 rows=9 width=6) (actual time=950.0..950.5 rows=9 loops=1)   >\n|   ->  Sort  (cost=1..2 rows=9 width=6) (actual time=950.0..950.1 rows=9 loops=1)   >\n|         Sort Key: due   >\n",
            "unknown",
            &["`Sort, Sort Key: due` (0.950 s)", "ends before"],
            &["index", "pager off"],
        ),
        (
            "Seq Scan on things  (cost=0..1 rows=1 width=8) (actual time=0.1..18.25 rows=9 loops=1)\n",
            "unknown",
            &["takes 18.2 ms", "`Seq Scan on things`"],
            &["pg_stat_statements"],
        ),
    ]);
}

#[test]
fn copies_of_dd_are_told_with_what_they_wait_for() {
    check(&[
        (
            "$ dd if=/dev/zero of=t bs=4k count=1000\n1000+0 records in\n1000+0 records out\n4096000 bytes (4.1 MB) copied, 0.004 s, 1.0 GB/s\n$ dd if=/dev/zero of=t bs=4k count=1000 oflag=dsync\n1000+0 records in\n1000+0 records out\n4096000 bytes (4.1 MB) copied, 9 s, 455 kB/s\n",
            "unknown",
            &[
                "takes 9 ms for a block of 4,096 bytes",
                "455 kB/s",
                "1.0 GB/s",
            ],
            &["trace=fsync,fdatasync", "group commit"],
        ),
        (
            "plain:\n$ dd if=/dev/zero of=/a/t bs=1M count=90\n90+0 records out\n94371840 bytes (94 MB, 90 MiB) copied, 0.9 s, 105 MB/s\nin the mount:\n$ dd if=/dev/zero of=/b/t bs=1M count=90\n90+0 records out\n94371840 bytes (94 MB, 90 MiB) copied, 9 s, 10.5 MB/s\n",
            "unknown",
            &["10 times as slow", "of=/b/t", "10.5 MB/s"],
            &["bs=4M", "FUSE"],
        ),
        (
            "$ dd if=/dev/zero of=t bs=1M count=90 oflag=dsync\n94371840 bytes (94 MB, 90 MiB) copied, 0,9 s, 105 MB/s\n",
            "unknown",
            &["took 0.9 s", "0,9 s, 105 MB/s"],
            &["fio"],
        ),
    ]);
}

#[test]
fn benchmarks_of_go_are_compared_by_heading_and_processors() {
    check(&[
        (
            "goos: linux\nBenchmarkGet      \t 900\t   210 ns/op\nBenchmarkGet-4    \t 500\t   640 ns/op\nPASS\n",
            "unknown",
            &[
                "3.05 times as long instead of less",
                "210 ns/op on 1, 640 on 4",
            ],
            &["-mutexprofile", "shards"],
        ),
        (
            "master:\nBenchmarkParse-8 \t 900\t 4200 ns/op\nfeature:\nBenchmarkParse-8 \t 2000\t 1400.5 ns/op\n",
            "unknown",
            &["4200 ns/op under `master`, 1400.5 under `feature`"],
            &["benchstat", "-benchmem"],
        ),
        (
            "BenchmarkParse-8 \t 900\t 4200 ns/op\n",
            "unknown",
            &["`BenchmarkParse-8` (4200 ns/op)"],
            &["go tool pprof"],
        ),
    ]);
}

#[test]
fn the_longest_parts_of_tests_are_told_with_their_sums() {
    check(&[(
        "==== slowest 2 durations ====\n9.50s setup    tests/test_a.py::test_one\n1.25s call     tests/test_a.py::test_two\n",
        "unknown",
        &["`tests/test_a.py::test_one` (9.50s setup)", "1.25 s call"],
        &["--setup-show"],
    )]);
}

#[test]
fn what_redis_says_of_its_memory_is_told_as_printed() {
    check(&[(
        " 1) \"peak.allocated\"\n 2) (integer) 9000000\n 3) \"total.allocated\"\n 4) (integer) 6000000\n 5) \"keys.count\"\n 6) (integer) 40000\n 7) \"keys.bytes-per-key\"\n 8) (integer) 120\n",
        "unknown",
        &["`total.allocated` (6000000), `keys.count` (40000)"],
        &["SLOWLOG GET", "--bigkeys"],
    )]);
}

#[test]
fn two_limits_of_files_are_told_beside_each_other() {
    check(&[(
        "$ grep 'open files' /proc/812/limits\nMax open files            4096                 4096                 files\n$ ulimit -n\n65536\n",
        "unknown",
        &["`Max open files` (4096)", "`ulimit -n` (65536)"],
        &["prlimit64", "LimitNOFILE"],
    )]);
}

#[test]
fn phases_of_requests_say_what_a_kept_connection_saves() {
    check(&[
        (
            "request 1: connect 0.050s | TLS handshake 0.900s | total 1.000s\nrequest 2: connect 0.000s | TLS handshake 0.000s | total 0.040s\n",
            "unknown",
            &[
                "0.950 s of that to open its connection, 0.900 s of it the TLS handshake",
                "takes 0.040 s",
            ],
            &["tcp-syn", "idle time-outs", "-reconnect"],
        ),
        (
            "| build | goodput |\n|---|---|\n| main | 0.5 MB/s |\n| this branch | 40 MB/s |\n",
            "unknown",
            &["0.5 MB/s -> 40 MB/s"],
            &["retransmits"],
        ),
    ]);
}

#[test]
fn sorts_on_disk_are_told_also_from_one_line() {
    check(&[
        (
            "the plan says\nSort Method: external sort  Disk: 812kB\n",
            "unknown",
            &["`Sort Method: external sort` (812kB on disk)"],
            &["work_mem", "log_temp_files"],
        ),
        (
            "HashAggregate  (cost=1..9 rows=9 width=8) (actual time=900.0..950.0 rows=9 loops=1)\n  Planned Partitions: 8  Batches: 9  Memory Usage: 4145kB  Disk Usage: 9016kB\n  ->  Seq Scan on t  (cost=0..1 rows=1 width=8) (actual time=0.1..100.0 rows=9 loops=1)\nExecution Time: 951.0 ms\n",
            "unknown",
            &["`HashAggregate` (0.850 s)", "9016kB on disk"],
            &["EXPLAIN (ANALYZE, BUFFERS)", "work_mem"],
        ),
    ]);
}

#[test]
fn sums_of_fio_are_set_beside_each_other() {
    check(&[
        (
            "compression on:\n   READ: io=9000MB, aggrb=300MB/s, minb=300MB/s, maxb=300MB/s, mint=30001msec, maxt=30001msec\ncompression off:\n   READ: io=27000MB, aggrb=900MB/s, minb=900MB/s, maxb=900MB/s, mint=30001msec, maxt=30001msec\n",
            "unknown",
            &[
                "differ by 3 times",
                "`READ, compression off` (900MB/s)",
                "`READ, compression on` (300MB/s)",
            ],
            &["iostat -x", "perf c2c"],
        ),
        (
            "Run status group 0 (all jobs):\n  WRITE: bw=12.5MiB/s (13.1MB/s), 12.5MiB/s-12.5MiB/s (13.1MB/s-13.1MB/s), io=376MiB (394MB), run=30001-30001msec\n",
            "unknown",
            &["12.5MiB/s"],
            &["clat percentiles"],
        ),
    ]);
}

#[test]
fn a_table_of_h1load_says_who_opens_a_connection_for_each_request() {
    check(&[
        (
            "$ ./h1load -d 9 -c 200 -r 1 https://a.example/\n#     time conns tot_conn  tot_req      tot_bytes    err  cps  rps  bps   ttfb\n         1   200     1900     1700        14000      0 1k90 1k70 9M70 112.1m\n         2   200     3800     3600        32000      0 1k90 1k90 9M70 104.0m\n",
            "unknown",
            &["200 at a time", "1,900 responses a second", "112 ms"],
            &["ecdsap256", "-reconnect", "without `-r 1`"],
        ),
        (
            "#     time conns tot_conn  tot_req      tot_bytes    err  cps  rps  bps   ttfb\n         1    20       20    90000        14000      0   20 90k0 98M7 212.0u\n         2    20       20   180000        32000      0     0 90k0 98M7 210.0u\n",
            "unknown",
            &["h1load shows 90,000 responses"],
            &["perf record"],
        ),
    ]);
}

#[test]
fn a_control_groups_cache_is_told_from_the_memory_of_its_processes() {
    check(&[
        (
            "cache 900000000\nrss 100000000\nmapped_file 4096\ntotal_cache 900000000\ntotal_rss 100000000\nhierarchical_memory_limit 1000341504\n",
            "unknown",
            &["90 % is page cache (858 MiB)", "95 MiB are of processes"],
            &["inactive_file", "workingset_refault"],
        ),
        (
            "$ grep -E '^(anon|file) ' memory.stat\nanon 900000000\nfile 20000000\nmemory.max: 1000341504\n",
            "unknown",
            &["858 MiB are of processes and 19 MiB page cache"],
            &["memory.events", "heap dump"],
        ),
    ]);
}

#[test]
fn what_the_doctor_of_redis_advises_is_told() {
    check(&[(
        "I have a few advices for you:\n\n- Your fsync policy is set to 'always'. It is very hard to get good performances with such a setup.\n- I detected a non zero amount of anonymous huge pages used by your process. This creates very serious latency events.\n",
        "unknown",
        &[
            "`Your fsync policy is set to 'always'`",
            "anonymous huge pages",
        ],
        &["LATENCY HISTORY", "transparent_hugepage"],
    )]);
}

#[test]
fn replication_slots_are_told_with_what_they_hold() {
    check(&[
        (
            " slot_name | active | xmin    | restart_lsn\n-----------+--------+---------+-------------\n replica_a | t      | 9000000 | 3/40000000\n replica_b | t      | 1000000 | 3/40000000\n",
            "unknown",
            &[
                "8,000,000 older",
                "`replica_b` (active, xmin 1000000, restart_lsn 3/40000000)",
            ],
            &["hot_standby_feedback", "pg_drop_replication_slot"],
        ),
        (
            "-[ RECORD 1 ]-------+-----------\nslot_name           | gone\nactive              | f\nxmin                | \nrestart_lsn         | 1/10000000\n-[ RECORD 2 ]-------+-----------\nslot_name           | here\nactive              | t\nxmin                | \nrestart_lsn         | 1/50000000\n",
            "unknown",
            &["1 of 2 replication slots", "1,024 MiB behind", "`gone`"],
            &["max_slot_wal_keep_size"],
        ),
        (
            "slot_name active xmin restart_lsn\na t 5000 0/500\nb t 5001 0/500\n",
            "unknown",
            &["none holds a transaction that is much older"],
            &["pg_stat_replication"],
        ),
    ]);
}

#[test]
fn what_tools_compare_without_a_test_is_told_from_five_percent_on() {
    check(&[
        (
            "Benchmark              Time       CPU    Time Old   Time New    CPU Old    CPU New\n------\nBM_push/threads:8   -0.4000   +0.0100        1000        600        900        909\nBM_pop              -0.0100   -0.0100         100         99        100         99\n",
            "unknown",
            &[
                "of 2 benchmarks of two runs 1 changed",
                "`BM_push/threads:8` (1000 -> 600, -40.0 %)",
            ],
            &["perf c2c", "in turns"],
        ),
        (
            " name      before ns/iter  after ns/iter  diff ns/iter   diff %  speedup\n a::fetch  1,000           1,012                    12    1.20%   x 0.99\n",
            "unknown",
            &["none changed by 5 %"],
            &["in turns", "prony run"],
        ),
    ]);
}

#[test]
fn websockets_are_left_out_of_response_times() {
    check(&[
        (
            "10.0.0.1 - - [03/Feb/2026:11:49:25 +0000] \"GET /live HTTP/1.1\" 101 2945 \"-\" \"Mozilla\" rt=4000.5\n10.0.0.1 - - [03/Feb/2026:11:49:26 +0000] \"GET / HTTP/1.1\" 200 2945 \"-\" \"Mozilla\" rt=0.010\n",
            "unknown",
            &[
                "1 of 2 logged requests have the status 101",
                "4,001 s",
                "longest of 1 logged requests took 10 ms",
            ],
            &["if=$timed", "message to its response"],
        ),
        (
            "10.0.0.1 - - [03/Feb/2026:11:49:25 +0000] \"GET /live HTTP/1.1\" 101 2945 \"-\" \"Mozilla\"\n",
            "unknown",
            &["without times"],
            &["awk '$9 != 101'"],
        ),
    ]);
}

#[test]
fn two_runs_that_are_alike_show_no_change() {
    let run = |rate: &str| {
        format!(
            "Summary:\n  Total:\t10.0 secs\n  Slowest:\t0.1000 secs\n  Fastest:\t0.0010 secs\n  Average:\t0.0050 secs\n  Requests/sec:\t{rate}\n\n"
        )
    };
    let text = format!("Before:\n\n{}After:\n\n{}", run("9000.5"), run("9300.2"));
    let finding = diagnose_pasted(&read(&text)).findings.remove(0);
    assert_eq!(finding.cause, "unknown");
    assert!(
        finding
            .why
            .contains("9000.5 and 9300.2 responses a second, +3.3 %"),
        "{}",
        finding.why
    );
    assert!(finding.remedy.contains("in turns"), "{}", finding.remedy);
}

#[test]
fn paragraphs_with_the_same_sums_are_compared() {
    check(&[
        (
            "before the index\nWhole time: 61.5 seconds\nSlow pages: 44\n\nwith the index (built in 9s)\nWhole time: 3.0 seconds\nSlow pages: 2\n",
            "unknown",
            &[
                "61.5 seconds under `before the index`",
                "`Slow pages` (44 under",
            ],
            &["what differs between the two"],
        ),
        (
            "**locked**\n\n| size | latency (ms) |\n|---|---|\n| 8 | 90.5 |\n| 64 | 120.5 |\n\n**split**\n\n| size | latency (ms) |\n|---|---|\n| 8 | 30.5 |\n| 64 | 100.0 |\n",
            "unknown",
            &["`size 8 latency (ms)` (90.5 -> 30.5)"],
            &["what differs between the two"],
        ),
    ]);
}

#[test]
fn commands_of_hyperfine_differ_by_more_than_they_vary() {
    let two = "Benchmark 1: app --all\n  Time (mean \u{b1} \u{3c3}):      1.200 s \u{b1}  0.050 s    [User: 0.300 s, System: 0.060 s]\n  Range (min \u{2026} max):    1.100 s \u{2026}  1.300 s    10 runs\n\nBenchmark 2: app --one\n  Time (mean \u{b1} \u{3c3}):     400.0 ms \u{b1}  30.0 ms    [User: 300.0 ms, System: 60.0 ms]\n  Range (min \u{2026} max):    380.0 ms \u{2026} 500.0 ms    10 runs\n";
    let finding = diagnose_pasted(&read(two)).findings.remove(0);
    for word in [
        "3 times as long",
        "`app --all` (1.200 s",
        "30 % of that in CPU",
    ] {
        assert!(finding.why.contains(word), "`{word}` of {}", finding.why);
    }
    assert!(finding.remedy.contains("importtime"), "{}", finding.remedy);
    let alike = two.replace("400.0 ms \u{b1}  30.0 ms", "1.150 s \u{b1} 0.040 s");
    let finding = diagnose_pasted(&read(&alike)).findings.remove(0);
    assert!(finding.why.contains("no more than they vary"));
}

#[test]
fn steps_of_a_request_are_told_with_their_statements() {
    check(&[
        (
            "GET http://a.example/orders  12.0  900.5  +0.0  2 sql  1.5\n  Rendering: orders/index  200.0  880.0  +12.0\n    Rendering: orders/_line  40.0  40.0  +20.0 3 sql  2.0\n    Rendering: orders/_line  41.0  41.0  +60.0 3 sql  2.0\n    Rendering: orders/_line  39.0  39.0  +101.0 4 sql  2.5\n",
            "unknown",
            &[
                "900 ms sends 12 statements",
                "`Rendering: orders/_line` (3 times, 10 statements and 120.0 ms in all)",
            ],
            &["includes", "N+1"],
        ),
        (
            "GET http://a.example/  12.0  900.5  +0.0\n  Executing: show  20.0  880.0  +12.0 1 sql  2.0\n    Net::HTTP GET /x  860.0  860.0  +20.0\n",
            "unknown",
            &["`Net::HTTP GET /x` (860 ms itself"],
            &["calls of other services"],
        ),
    ]);
}

#[test]
fn pings_without_an_answer_are_counted() {
    let answer = "Reply from 10.0.0.1: bytes=32 time=2ms TTL=64\n";
    let lost = "Request timed out.\n";
    let every = [answer, answer, answer, lost].concat().repeat(3);
    let chance = [answer, lost, answer, answer, answer, answer, lost, answer].concat();
    for (text, says) in [
        (
            every.as_str(),
            ["3 of 12 pings", "(25 %)", "about every 4th"],
        ),
        (
            chance.as_str(),
            ["2 of 8 pings", "(25 %)", "no queue grows"],
        ),
        (
            "64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=2.5 ms\nno answer yet for icmp_seq=2\n64 bytes from 10.0.0.1: icmp_seq=3 ttl=64 time=1.5 ms\n",
            ["1 of 3 pings", "33.3 %", "1.5 to 2.5 ms"],
        ),
    ] {
        let finding = diagnose_pasted(&read(text)).findings.remove(0);
        for word in says {
            assert!(finding.why.contains(word), "`{word}` of {}", finding.why);
        }
        assert!(finding.remedy.contains("over a cable"));
    }
}

#[test]
fn a_pods_own_group_is_no_container() {
    check(&[
        (
            "POD     NAME      CPU(cores)   MEMORY(bytes)\nweb-1             100m         300Mi\nweb-1   app       90m          250Mi\nweb-1   sidecar   8m           40Mi\n",
            "unknown",
            &[
                "`web-1` (100m and 300Mi without a name, 98m and 290Mi by the 2 with one)",
                "counts them twice",
                "of 2 containers app (9 %)",
            ],
            &["container!="],
        ),
        (
            "NAME    CPU(cores)   MEMORY(bytes)\nweb-1   100m         300Mi\nweb-2   300m         300Mi\n",
            "unknown",
            &["of 2 containers web-2 (30 %)"],
            &["nr_throttled"],
        ),
    ]);
}

#[test]
fn times_that_a_closed_loop_has_no_room_for_are_corrected_ones() {
    let run = |latency: &str| {
        format!(
            "Running 20s test @ http://a.example\n  2 threads and 4 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency   {latency}    70.00%\n    Req/Sec     2.00k   100.00     3.00k    70.00%\n  80000 requests in 20.00s, 10.00MB read\nRequests/sec:   4000.00\n"
        )
    };
    let finding = diagnose_pasted(&read(&run("  1.50s     1.00s     4.00s ")))
        .findings
        .remove(0);
    for word in ["80,000 responses of 1,500 ms", "1 ms were left", "4,000 ms"] {
        assert!(finding.why.contains(word), "`{word}` of {}", finding.why);
    }
    assert!(finding.remedy.contains("wrk2"), "{}", finding.remedy);
    let plain = diagnose_pasted(&read(&run("  0.98ms    0.10ms  200.00ms")))
        .findings
        .remove(0);
    assert!(!plain.why.contains("no room"), "{}", plain.why);
}

#[test]
fn clocks_and_counts_that_mislead_are_told() {
    check(&[
        (
            "usecs : count distribution\n 0 -> 1 : 40 |****|\n 9007199254740992 -> 18014398509481983 : 0 | |\n 18014398509481984 -> 36028797018963967 : 3 | |\n",
            "unknown",
            &["3 of 43 values", "no time reaches"],
            &["another version of the kernel"],
        ),
        (
            "$ strace -c -p 7\n% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n 60.00    0.000600          60        10           epoll_wait\n 40.00    0.000400          40        10           read\n------ ----------- ----------- --------- --------- ----------------\n100.00    0.001000                    20           total\n",
            "unknown",
            &["all 20 calls together took 1 ms", "10 of them such as wait"],
            &["strace -c -w"],
        ),
    ]);
}

#[test]
fn what_never_comes_to_rest_is_told() {
    check(&[
        (
            "controller_runtime_reconcile_total{controller=\"x\",result=\"requeue\"} 900\ncontroller_runtime_reconcile_total{controller=\"x\",result=\"success\"} 100\n",
            "unknown",
            &["of 1,000 reconciles of a controller 900"],
            &["resourceVersion"],
        ),
        (
            "controller_runtime_reconcile_total{controller=\"x\",result=\"error\"} 900\ncontroller_runtime_reconcile_total{controller=\"x\",result=\"success\"} 100\n",
            "unknown",
            &["900 failed"],
            &["kubectl logs"],
        ),
        (
            "Active connections: 3\nserver accepts handled requests\n 10 10 20\nReading: 0 Writing: 1 Waiting: 2\n\nActive connections: 8\nserver accepts handled requests\n 20 20 30\nReading: 0 Writing: 6 Waiting: 2\n",
            "unknown",
            &["(Writing) went from 1 to 6"],
            &["after a minute without requests"],
        ),
        (
            "[9:0x1] 9000 ms: Mark-Compact 510.0 (530.0) -> 505.5 (531.0) MB, pooled: 2 MB, 310.5 / 0.00 ms (average mu = 0.200, current mu = 0.100) allocation failure;\n",
            "unknown",
            &["had 10 % of the time lately", "506 MB", "up to 310"],
            &["what retains them"],
        ),
        (
            " Bitmap Heap Scan on docs  (actual time=410.2..410.2 rows=0 loops=1)\n   ->  Bitmap Index Scan on docs_tags  (actual time=410.1..410.1 rows=0 loops=1)\n Execution Time: 411.0 ms\n",
            "unknown",
            &["finds no row and takes 410 ms"],
            &["gin_clean_pending_list", "REINDEX"],
        ),
    ]);
}

#[test]
fn waits_of_forty_milliseconds_and_of_a_second_are_told_by_their_time() {
    check(&[
        (
            "$ time curl -s http://127.0.0.1:81/a http://127.0.0.1:81/b http://127.0.0.1:81/c -o /dev/null\nreal\t0m0.085s\nuser\t0m0.004s\nsys\t0m0.003s\n",
            "unknown",
            &[
                "3 requests of one command take 0.085 s",
                "delayed acknowledgement",
            ],
            &["TCP_NODELAY", "%{time_starttransfer}"],
        ),
        (
            "1k   Req/Sec   9.10k   92.57   9.61k   83.00%\n16k  Req/Sec   8.80k   92.57   9.61k   83.00%\n17k  Req/Sec   24.30    3.10   30.00   90.00%\n32k  Req/Sec   24.90    3.10   30.00   90.00%\n",
            "unknown",
            &[
                "2 of 4 runs have 20 to 28",
                "`17k` (24.30 a second, 41 ms each)",
            ],
            &["Nagle", "tcpdump"],
        ),
        (
            "> PUT /upload HTTP/1.1\n> Host: a.example\n> Content-Length: 3000000\n> Expect: 100-continue\n>\n* Done waiting for 100-continue\n< HTTP/1.1 201 Created\n",
            "unknown",
            &["announced the body", "no work of the server"],
            &["-H 'Expect:'", "100 Continue"],
        ),
    ]);
}

#[test]
fn who_writes_and_syncs_is_told_by_file() {
    check(&[
        (
            "fdatasync by descriptor over 30s\n fd 7 -> /var/lib/app/queue.log   288  (96%)\n fd 9 -> /var/lib/app/db   12  (4%)\n",
            "unknown",
            &[
                "of 300 calls that wait for the disk 288",
                "`/var/lib/app/queue.log` (288 of 300 by `fdatasync`, 96 %)",
            ],
            &["fsync,fdatasync"],
        ),
        (
            "cat /proc/4711/io after 2h uptime\nread_bytes: 8192\nwrite_bytes: 7549747200\ncancelled_write_bytes: 0\ncache.db 10 MB\n",
            "unknown",
            &["720 times what its files hold", "1.0 MiB a second"],
            &["pwrite64", "upsert"],
        ),
        (
            "read_bytes: 8192\nwrite_bytes: 7549747200\n",
            "unknown",
            &["wrote 7,549,747,200 bytes"],
            &["twice, a minute apart"],
        ),
    ]);
}

#[test]
fn counters_that_mislead_are_told_with_what_contradicts_them() {
    check(&[
        (
            "STAT curr_connections 12\nSTAT max_connections 4096\nSTAT total_connections 500\nSTAT rejected_connections 498\n",
            "unknown",
            &[
                "counts 498 connections as rejected, and 12 of 4,096",
                "100 % of the 500",
            ],
            &["echo version"],
        ),
        (
            "STAT curr_connections 1020\nSTAT max_connections 1024\nSTAT rejected_connections 77\n",
            "unknown",
            &["counts 77 connections as rejected since"],
            &["who holds them"],
        ),
        (
            "first:\nQueries sent: 20000\nQueries completed: 5000 (25.00%)\nQueries lost: 15000 (75.00%)\n\nsecond:\nQueries sent: 40000\nQueries completed: 40000 (100.00%)\nQueries lost: 0 (0.00%)\n",
            "unknown",
            &["15,000 of 20,000 questions (75 %)", "none of 40,000"],
            &["UdpRcvbufErrors"],
        ),
        (
            "[ ok ] alpha: 50000.5 QPS, avg 2.00ms, p99 4.1ms\n[ ok ] beta: 20.5 QPS, avg 4.00ms, p99 9.9ms\n",
            "unknown",
            &[
                "`ok beta` (20.5 a second, 4.00ms each: 0.1 under way)",
                "100.0 under way",
            ],
            &["one at a time"],
        ),
        (
            "| | before | after |\n|---|---|---|\n| p50 | 20 ms | 21 ms |\n| p95 | 90 ms | 240 ms |\n",
            "unknown",
            &["the middle hardly changes", "`p95` (90 ms -> 240 ms)"],
            &["by kind"],
        ),
    ]);
}

#[test]
fn what_sleeps_and_what_has_ended_is_told() {
    check(&[
        (
            "  900.00 msec task-clock   #    0.090 CPUs utilized\n  90,000      context-switches   #  100.0 K/sec\n",
            "unknown",
            &["90,000 times, 9,000 times a second", "10 us each"],
            &["back off"],
        ),
        (
            "  PID  PPID STAT COMMAND\n    1     0 Ss   node server.js\n   31     1 Z    [sh] <defunct>\n   32     1 Z    [sh] <defunct>\n   40     1 Z    [convert] <defunct>\n",
            "unknown",
            &["3 processes have ended", "`sh` (2), `convert` (1)"],
            &["docker run --init"],
        ),
        (
            "12:00:00.100 [poll] no message\n12:00:05.101 [poll] no message\n12:00:10.103 [poll] no message\n12:00:12.000 published one\n12:00:15.104 [poll] no message\n12:00:20.104 [poll] no message\n",
            "unknown",
            &["5 times, 5 s apart", "only 3.1 s later", "published one"],
            &["linger.ms"],
        ),
        (
            "Antwort von 10.1.2.3: Bytes=32 Zeit=300ms TTL=64\nAntwort von 10.1.2.3: Bytes=32 Zeit=900ms TTL=64\nAntwort von 10.1.2.3: Bytes=32 Zeit=1200ms TTL=64\n",
            "unknown",
            &["no ping takes less than 300 ms", "1,200 ms"],
            &["ethtool -K"],
        ),
        (
            "  Gen  0       800 colls,     0 par    6.00s    6.10s     0.0076s    0.0200s\n  MUT     time    4.00s  (  4.10s elapsed)\n  GC      time    6.00s  (  6.10s elapsed)\n",
            "unknown",
            &["takes 60 % of the CPU time", "800 collections"],
            &["-A64m"],
        ),
        (
            "  Gen  0       500 colls,   500 par   30.00s    2.00s     0.0040s    0.0200s\n  Parallel GC work balance: 5.00% (serial 0%, perfect 100%)\n  MUT     time   10.00s  (  5.00s elapsed)\n  GC      time   30.00s  (  2.00s elapsed)\n",
            "unknown",
            &["75 % of the CPU time", "on 15 threads at a time", "5.00%"],
            &["-qg"],
        ),
    ]);
}

#[test]
fn what_is_limited_asked_for_and_left_behind_is_told() {
    check(&[
        (
            "both pods on one node:\nRecv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n 87380  16384  16384    10.00     9000.00\nthe other on the next node:\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n 87380  16384  16384    10.30       45.00\n",
            "unknown",
            &[
                "200 times apart",
                "`the other on the next node` (45.00 Mbit/s)",
            ],
            &["tc -s qdisc show", "tc filter show"],
        ),
        (
            "Recv   Send    Send\nSize   Size    Size     Time     Throughput\nbytes  bytes   bytes    secs.    10^6bits/sec\n\n 87380  16384  16384    10.00      940.00\nwith jumbo frames\nbytes  bytes   bytes    secs.    10^6bits/sec\n 87380  16384  16384    10.00      941.00\n",
            "unknown",
            &["nearly the same", "`with jumbo frames` (941.00 Mbit/s)"],
            &["ethtool DEV"],
        ),
        (
            "Local /Remote\nSocket Size   Request  Resp.   Elapsed  Trans.\nSend   Recv   Size     Size    Time     Rate\nbytes  Bytes  bytes    bytes   secs.    per sec\n\n16384  87380  1        1       10.00    4000.00\n16384  87380\n",
            "unknown",
            &["4000 a second", "250 us for each"],
            &["ethtool -c DEV"],
        ),
        (
            "connect(5, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr(\"10.1.0.2\")}, 16) = 0\nsendto(5, \"\\21\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\5queue\\3lan\\0\\0\\1\\0\\1\", 27, MSG_NOSIGNAL, NULL, 0) = 27\npoll([{fd=5, events=POLLIN}], 1, 5000) = 1 ([{fd=5, revents=POLLIN}])\nrecvfrom(5, \"\\21\\1\\201\\203\\0\\1\\0\\0\\0\\0\\0\\0\\5queue\\3lan\\0\\0\\1\\0\\1\", 1024, 0, NULL, NULL) = 27\nclose(5) = 0\n",
            "unknown",
            &[
                "questions: 1, again",
                "`queue.lan` (of 10.1.0.2:53)",
                "NXDOMAIN",
            ],
            &["tcpdump -ni any -ttt port 53"],
        ),
        (
            "12:00:00 threads: 12\n12:10:00 threads: 60\n12:20:00 threads: 140\n12:30:00 threads: 220\n12:40:00 threads: 300\n",
            "unknown",
            &["the first is 12", "the last 300", "none is below 140"],
            &["jstack PID", "debug=2"],
        ),
        (
            "NAME CPU(cores) MEMORY(bytes)\noperator-7f 12m 40Mi\nweb-5c 200m 300Mi\n\nwith 5000 config maps\nNAME CPU(cores) MEMORY(bytes)\noperator-7f 15m 420Mi\nweb-5c 210m 301Mi\n",
            "unknown",
            &[
                "of 2 containers",
                "`operator-7f` (40Mi -> 420Mi, 10.5 times)",
            ],
            &["pprof/heap", "selector"],
        ),
        (
            "Reply from 192.168.7.2: bytes=32 time=9ms TTL=64\nReply from 192.168.7.2: bytes=32 time=240ms TTL=64\nReply from 192.168.7.2: bytes=32 time=330ms TTL=64\nPing statistics for 192.168.7.2:\n    Packets: Sent = 3, Received = 3, Lost = 0 (0% loss),\n    Minimum = 9ms, Maximum = 330ms, Average = 193ms\n",
            "unknown",
            &["vary from packet to packet", "time=330ms"],
            &["power_save off"],
        ),
        (
            "round: time marking sweeping gc_count major minor\n1: 900ms 80.0ms 30.0ms 150 20 130\n2: 910ms 82.0ms 31.0ms 151 20 131\n3: 905ms 81.0ms 30.0ms 150 20 130\n",
            "unknown",
            &[],
            &["GC.latest_gc_info"],
        ),
        (
            "our audit log with O_DSYNC: 50 sec, without: 2 sec\n",
            "unknown",
            &["50 sec"],
            &["gathers lines in a buffer"],
        ),
    ]);
}

#[test]
fn what_is_looked_for_in_vain_bound_to_a_cpu_and_held_is_told() {
    check(&[
        (
            "09:00:01.000100 stat(\"/srv/www/a/.htaccess\", 0x7ffd) = -1 ENOENT (No such file or directory) <0.000009>\n09:00:01.000200 stat(\"/srv/www/.htaccess\", 0x7ffd) = -1 ENOENT (No such file or directory) <0.000009>\n09:00:01.000300 stat(\"/srv/www/a/x.css\", {st_mode=S_IFREG|0644, st_size=9}) = 0 <0.000011>\n09:00:01.001100 stat(\"/srv/www/a/.htaccess\", 0x7ffd) = -1 ENOENT (No such file or directory) <0.000009>\n09:00:01.001200 stat(\"/srv/www/.htaccess\", 0x7ffd) = -1 ENOENT (No such file or directory) <0.000009>\n",
            "unknown",
            &[
                "of 5 calls that look for a file",
                "4 find none (ENOENT), 2 of them",
                "`.htaccess` (4 times in 2 directories",
            ],
            &["strace -f -e trace=%file -Z -p PID"],
        ),
        (
            "for p in $(pgrep napi); do taskset -p $p; done\npid 611's current affinity mask: 1\npid 612's current affinity mask: 1\npid 613's current affinity mask: 1\npid 614's current affinity mask: f\n",
            "unknown",
            &["3 may run on one CPU", "`CPU 0` (3: pid 611 to pid 613)"],
            &["taskset -cp", "smp_affinity_list", "threaded"],
        ),
        (
            "# grep . /proc/irq/*/smp_affinity_list\n/proc/irq/40/smp_affinity_list:0\n/proc/irq/41/smp_affinity_list:1\n/proc/irq/42/smp_affinity_list:2\n",
            "unknown",
            &["no CPU has most of them"],
            &["mpstat -P ALL"],
        ),
        (
            "mutex waits above 10 ms\n\n[waited 41 ms for a mutex] tid=77\n    pthread_mutex_lock\n    Guard::Guard(Mutex&)\n    Journal::size() const\n    Replica::report()\n    Replica::run()\n",
            "unknown",
            &["`Journal::size() const` (41 ms, below", "Replica::report"],
            &["who holds it", "readers share"],
        ),
        (
            "$ perf lock contention -ab sleep 5\n contended   total wait     max wait     avg wait         type   caller\n\n       812      1.20 s      44.10 ms      1.47 ms     rwsem:W   vm_mmap_pgoff+0xa3\n        31     20.00 ms      2.00 ms    645.00 us        mutex   pipe_write+0x51\n",
            "unknown",
            &["`vm_mmap_pgoff` (rwsem:W, 812 times", "longest 44"],
            &["perf lock contention"],
        ),
        (
            "10:00:00.000000 IP 127.0.0.1.9000 > 127.0.0.1.41000: Flags [P.], seq 1:90, ack 1, win 512, length 89\n10:00:00.036100 IP 127.0.0.1.41000 > 127.0.0.1.9000: Flags [.], ack 90, win 512, length 0\n10:00:00.036150 IP 127.0.0.1.9000 > 127.0.0.1.41000: Flags [P.], seq 90:120, ack 1, win\n",
            "nagle_delayed_ack",
            &["36"],
            &["TCP_NODELAY"],
        ),
        (
            "release 8:\n\nScan open 52100 ms closed 700 ms\n\nrelease 9:\n\nScan open 512 ms closed 350 ms\n",
            "unknown",
            &["52100 ms under `release 8`, 512 ms under `release 9`"],
            &["perf record"],
        ),
        (
            "| mount | p99 of read |\n|---|---|\n| relatime | 40 us |\n| strictatime | 95 us |\n",
            "unknown",
            &["strictatime"],
            &["findmnt -no OPTIONS"],
        ),
    ]);
}

#[test]
fn what_is_read_in_two_counted_beside_each_other_and_cut_short_is_told() {
    check(&[
        (
            "read(7, \"\\0\\0\\0\\1\", 4) = 4\nread(7, \"{\\\"a\\\": 1\"..., 256) = 256\nwrite(9, \"x\", 1) = 1\nread(7, \"\\0\\0\\0\\2\", 4) = 4\nread(7, \"{\\\"b\\\": 2\"..., 512) = 512\n",
            "unknown",
            &["2 of 4 reads", "ask for 4 bytes alone"],
            &["SSL_CTX_set_read_ahead", "BufferedReader", "strace -c -f"],
        ),
        (
            "Tracing syscalls, printing top 10... Ctrl+C to quit.\n[10:00:01]\nSYSCALL                   COUNT\nsendto                    81223\nepoll_wait                 9120\n",
            "unknown",
            &["`sendto` (81223 calls)"],
            &["a call for each", "ustack", "sendmmsg"],
        ),
        (
            "09:00:01.000001 IP 192.0.2.1.4500 > 192.0.2.9.5000: UDP, bad length 1452 > 1372\n09:00:02.000090 IP 192.0.2.1.4500 > 192.0.2.9.5000: UDP, length 90\n",
            "unknown",
            &["1,452 and 1,372 bytes"],
            &["tracepath", "ping -M do", "mtu 1280"],
        ),
        (
            "| phase | ms |\n|---|---|\n| `auth` | 12 |\n| `render` | 1310.5 |\n| `store` | 90 |\n",
            "unknown",
            &["`render` (1310.5 ms)", "93 % of their sum"],
            &["--cpu-prof", "cache"],
        ),
        (
            "Server-Timing: auth;dur=12.1, render;dur=1310.5\n",
            "unknown",
            &["`Server-Timing`", "render"],
            &["py-spy record", "parts that do not need each other"],
        ),
        (
            "files\tours time\ttheirs time\n1\t0.5 s\t9 s\n8\t0.4 s\t2 s\n",
            "unknown",
            &["18 times at most", "theirs time 9 s against 0.5 s"],
            &["buffer", "strace -c -f -w"],
        ),
        (
            "upload by 20 clients: 90 req/s with 40 timeouts -> **1,800 req/s with 0 timeouts**\n",
            "unknown",
            &["90 req/s -> 1,800 req/s", "40 requests", "2 for each"],
            &["another generator", "WINDOW_UPDATE"],
        ),
        (
            "Running 5s test @ http://a.example/list\n  1 threads and 1 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    60.00ms   1.00ms  69.00ms   91.00%\n    Req/Sec    16.00      4.00    19.00     79.00%\n  80 requests in 5.00s, 33.00KB read\nRequests/sec:     16.00\nTransfer/sec:      3.30KB\n\nRunning 5s test @ http://a.example/one\n  1 threads and 1 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency    90.00ms   1.00ms  99.00ms   91.00%\n    Req/Sec    11.00      4.00    19.00     79.00%\n  55 requests in 5.00s, 33.00KB read\nRequests/sec:     11.00\nTransfer/sec:      3.30KB\n",
            "unknown",
            &["`http://a.example/one` takes 90.0 ms", "takes 60 ms"],
            &["have in common", "slow log", "py-spy record"],
        ),
        (
            "with a pool\n\nBenchmark  Mode  Cnt  Score  Error  Units\n  sample  9000  4.5 \u{b1} 0.1  us/op\n\nwithout it\n\nBenchmark  Mode  Cnt  Score  Error  Units\n  sample  9000  9.0 \u{b1} 0.1  us/op\n",
            "unknown",
            &[
                "4.5 us/op under `with a pool`",
                "9.0 us/op under `without it`",
            ],
            &["-prof gc", "-t 1"],
        ),
        (
            "Comparison:\n                kept:    90000.0 i/s\n              opened:     3000.0 i/s - 30.00x  slower\n",
            "unknown",
            &["takes 30 times as long", "opened: 3000.0 i/s"],
            &["stackprof", "kept from the first"],
        ),
        (
            "goos: linux\nBenchmarkNext-8  90000000  12.0 ns/op\nBenchmarkNextParallel-8  9000000  96.0 ns/op\nPASS\n",
            "unknown",
            &[
                "takes 8 times as long",
                "96.0 ns/op, and 12.0 without Parallel",
            ],
            &["-mutexprofile"],
        ),
    ]);
}

#[test]
fn what_databases_say_of_dead_rows_keys_and_pages_is_told() {
    check(&[
        (
            "INFO:  vacuuming \"public.jobs\"\ntuples: 10 removed, 800000 remain, 300000 are dead but not yet removable\n",
            "unknown",
            &["300,000 dead rows of 800,000"],
            &["pg_replication_slots", "backend_xmin", "pg_prepared_xacts"],
        ),
        (
            "\"nReturned\" : 20,\n\"executionTimeMillis\" : 31,\n\"totalKeysExamined\" : 900,\n\"totalDocsExamined\" : 900,\n",
            "unknown",
            &["reads 900 keys", "to return 20", "45 for each"],
            &["winningPlan", "createIndex"],
        ),
        (
            "(3 rows affected)\nTable 'Orders'. Scan count 1, logical reads 481234, physical reads 0, read-ahead reads 0.\nTable 'Users'. Scan count 1, logical reads 3, physical reads 0, read-ahead reads 0.\n",
            "unknown",
            &["`Orders` (481234 logical reads"],
            &["STATISTICS XML"],
        ),
        (
            "pool_jobs: 812\nqueue_wait_us: 2500000\njournal_mutex_wait_ms: 61000\n",
            "unknown",
            &["`journal_mutex_wait_ms` (61.0 s)"],
            &["perf lock contention"],
        ),
        (
            "Did 300 ECDSA P-256 signing operations in 10000us (30000.0 ops/sec)\nDid 150 RSA 4096 signing operations in 500000us (300.0 ops/sec)\n",
            "unknown",
            &["300 operations a second", "RSA 4096 signing"],
            &["ECDSA"],
        ),
        (
            "| run | Without resumption (s) | With resumption (s) |\n|---|---|---|\n| board | 60.1 | 2.5 |\n",
            "unknown",
            &["60.1 -> 2.5"],
            &["-reconnect", "tickets"],
        ),
    ]);
}

#[test]
fn what_runs_containers_and_works_is_asked_for_something() {
    check(&[
        (
            "Mem: 3012344K used, 990456K free, 1234K shrd, 0K buff, 9000K cached\nCPU:  11% usr   8% sys   0% nic  80% idle   0% io   0% irq   1% sirq\n  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n  301     1 root     S    2110m  31%   1  15% /usr/bin/containerd --log-level warn\n 2210   301 999      S     990m  12%   0   0% postgres\n",
            "unknown",
            &["what runs the containers takes 15 %"],
            &["docker events", "exec probes"],
        ),
        (
            "  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n  301     1 root     S <  21104  31%   1   3% /usr/sbin/hostapd\n 2210   301 root     R    1990m112%   0  44% /usr/bin/tunneld -c /etc/t.conf\n",
            "unknown",
            &["BusyBox' top", "/usr/bin/tunneld", "44 %"],
            &["top -H", "perf"],
        ),
        (
            "top - 10:00:00 up 1 day\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n  900 root      20   0 2000000  90000  40000 S  61.0   1.0 100:00.00 kubelet\n 1900 app       20   0 1000000  90000  40000 S   2.0   1.0   1:00.00 java\n",
            "unknown",
            &["what runs the containers takes 61 %"],
            &["exec probes"],
        ),
    ]);
}

#[test]
fn requests_that_nobody_reads_are_counted() {
    check(&[
        (
            "Proto Recv-Q Send-Q  Local Address          Foreign Address        (state)\ntcp4     211      0  10.0.0.2.9000          10.0.0.7.50011         ESTABLISHED\ntcp4     211      0  10.0.0.2.9000          10.0.0.7.50012         ESTABLISHED\ntcp4       0      0  10.0.0.2.9000          10.0.0.7.50013         ESTABLISHED\ntcp46    198      0  ::1.9000               ::1.50014              ESTABLISHED\n",
            "unknown",
            &["3 of 4 established", "`9000`", "620 bytes"],
            &["netstat -Lan", "workers", "py-spy dump"],
        ),
        (
            "State Recv-Q Send-Q Local Address:Port Peer Address:Port\nESTAB 90 0 10.0.0.2:8081 10.0.0.7:50011\nESTAB 90 0 10.0.0.2:8081 10.0.0.7:50012\nESTAB 90 0 10.0.0.2:8081 10.0.0.7:50013\n",
            "unknown",
            &["3 of 3 established", "`8081`"],
            &["ss -ltn"],
        ),
        (
            "ESTAB 90 0 10.0.0.2:8081 10.0.0.7:50011\nESTAB 0 0 10.0.0.2:8081 10.0.0.7:50012\nESTAB 0 0 10.0.0.2:8081 10.0.0.7:50013\n",
            "unknown",
            &["sockets by state: 3 established."],
            &[],
        ),
    ]);
}

#[test]
fn indexes_that_are_passed_over_and_rows_that_are_dropped_are_told() {
    check(&[
        (
            "mysql> EXPLAIN SELECT * FROM parcels WHERE code = 12\\G\n*************************** 1. row ***************************\n           id: 1\n  select_type: SIMPLE\n        table: parcels\n         type: ALL\npossible_keys: parcels_code\n          key: NULL\n         rows: 90210\n        Extra: Using where\n",
            "unknown",
            &[
                "an index is there and is not used",
                "`parcels_code`",
                "90210",
            ],
            &["SHOW WARNINGS", "quote the value"],
        ),
        (
            "+----+-------------+---------+-------+---------------+------+-------+-------------+\n| id | select_type | table   | type  | possible_keys | key  | rows  | Extra       |\n|  1 | SIMPLE      | parcels | index | by_code       | NULL | 90210 | Using where |\n",
            "unknown",
            &["`by_code`"],
            &["collation"],
        ),
        (
            " Seq Scan on parcels  (cost=0.00..9123.00 rows=900 width=8) (actual time=0.1..412.0 rows=1 loops=1)\n   Filter: ((code)::numeric = '12'::numeric)\n   Rows Removed by Filter: 90209\n",
            "unknown",
            &["converts each row's column", "`(code)::numeric`"],
            &["bound or written as that type"],
        ),
        (
            "-> Filter: ((a.id is not null) or (b.id is not null))  (cost=9 rows=90) (actual time=900..900 rows=3 loops=1)\n    -> Nested loop left join  (cost=9 rows=90) (actual time=1..880 rows=40000 loops=1)\n        -> Nested loop left join  (cost=9 rows=90) (actual time=1..400 rows=40000 loops=1)\n            -> Table scan on o  (cost=9 rows=90) (actual time=1..90 rows=40000 loops=1)\n",
            "unknown",
            &["40,000 rows come up through 2 joins", "3 are left"],
            &["EXISTS", "semi-join"],
        ),
        (
            "Limit  (cost=300000.10..300000.12 rows=9 width=8)\n",
            "unknown",
            &["cost 300000.12", "compiles"],
            &["EXPLAIN (ANALYZE, BUFFERS)"],
        ),
    ]);
}

#[test]
fn lengths_that_differ_are_no_failures() {
    check(&[
        (
            "ab -n 400 -c 8 http://a/now\n...\nComplete requests:      400\nFailed requests:        371\n   (Connect: 0, Receive: 0, Length: 371, Exceptions: 0)\n",
            "unknown",
            &["all 371 requests", "of 400", "another length"],
            &["ab -l"],
        ),
        (
            "Concurrency Level:      8\nComplete requests:      400\nFailed requests:        371\n   (Connect: 0, Receive: 0, Length: 371, Exceptions: 0)\nRequests per second:    90.00 [#/sec] (mean)\n",
            "unknown",
            &["the 371 requests that ab counts as failed only have another length"],
            &["`-c 1`"],
        ),
    ]);
}

#[test]
fn one_connection_tells_work_from_waiting_in_line() {
    check(&[
        (
            "$ oha -n 900 -c 40 http://a/\nRequests/sec:\t250.5\n  Slowest:\t0.9000 secs\n",
            "unknown",
            &["250"],
            &["`-c 1`", "one that falls was a queue"],
        ),
        (
            "$ hey -n 9 -c 1 http://a/\n  Average:\t0.0100 secs\n",
            "unknown",
            &["10 ms"],
            &[
                "a request alone has no line to wait in",
                "a cache that is not used",
            ],
        ),
    ]);
}

#[test]
fn what_people_count_and_compare_themselves_is_told() {
    check(&[
        (
            "$ grep -c 'job started' app.log\n9120\n$ grep -c 'job finished' app.log\n8020\n",
            "unknown",
            &["9,120 lines of a begin", "1,100"],
            &["goroutine", "health checks"],
        ),
        (
            "our numbers:\n8 clients: 4000 qps\n16 clients: 9000 qps\n32 clients: 8000 qps\n64 clients: 3000 qps\n",
            "unknown",
            &["16 users", "3000 a second", "67 % less"],
            &["wait_event", "lock"],
        ),
        (
            "| run | Q/s |\n|---|---|\n| numactl -N 0 ./db | 900 |\n| numactl -N 0,1 ./db | 500 |\n| numactl -N 0,1,2 ./db | 400 |\n",
            "unknown",
            &["`numactl -N 0` (900 a second)", "56 % less"],
            &["numastat", "perf c2c"],
        ),
        (
            "Threads by name, 1,905 threads in all\n\n1,840 s3-client-N-M (96 %)\n   64 http-worker-N\n    1 each: main, Finalizer\n",
            "unknown",
            &["1,840", "s3-client-N-M"],
            &["heap dump", "close()"],
        ),
        (
            "the service waits in io_uring_enter\nCPU3: ~91-99% iowait\nand the disk does nothing\n",
            "unknown",
            &["91 %", "the processor is idle"],
            &["IORING_ENTER_NO_IOWAIT"],
        ),
        (
            "Device r/s w/s rMB/s wMB/s await %util\nnvme0n1 20.0 16000.0 0.1 64.0 0.2 61.0\n",
            "unknown",
            &["16,000 writes", "4.1 KiB"],
            &["write amplification"],
        ),
        (
            "- relay: download went from 2.5 Mbit/s to 80 Mbit/s with a smaller mtu\n",
            "unknown",
            &["2.5 Mbit/s -> 80 Mbit/s"],
            &["MTU"],
        ),
        (
            "conns  req/sec    10%    50%    90%    99%   100%\n4      21.3      0.20   0.21   0.23   0.90   2.30\n8      22.3      0.20   0.21   0.23   0.91   3.30\n9      22.5      0.20   0.21   0.23   0.97   4.30\n",
            "unknown",
            &["`conns 9` (100% 4.30"],
            &[],
        ),
        (
            "before\n  Latency Distribution\n     50%   20.00ms\n     99%   90.00ms\nRequests/sec:   400.00\nafter\n  Latency Distribution\n     50%   35.00ms\n     99%   150.00ms\nRequests/sec:   300.00\n",
            "unknown",
            &["400 responses a second, typically in 20 ms and at most in 90 ms"],
            &[],
        ),
    ]);
}
