//! What people paste leads to a cause: figures as a study of a proxy printed them.

use analysis::{diagnose_facts, pasted_facts};
use import::read_pasted;

const STRACE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 53.49    4.035007          11    365710           writev
 30.32    2.287248           7    305123           readv
  7.61    0.574073           9     60984           recvfrom
  4.57    0.344557          11     30471           write
  1.46    0.110045           3     30516           getsockopt
  1.36    0.102238           3     30879           ioctl
  0.85    0.064290          95       674           epoll_wait
  0.11    0.008300          29       286           close
  0.07    0.004944          14       337       337 connect
------ ----------- ----------- --------- --------- ----------------
100.00    7.543812           9    827460       363 total
";
const SIZES: &str = "\
$ grep 'readv' out | sort | uniq -c | sort -rn | head
 144120 4096
  18007 36864
  17796 19540
    205 19559
    196 0
$ grep 'writev' out | sort | uniq -c | sort -rn | head
 126115 8192
  36032 4096
  18028 143
";
const WRK: &str = "\
  4 threads and 500 connections
     50%   37.20ms
     99%  232.57ms
  764342 requests in 1.00m, 66.43GB read
Requests/sec:  12722.92
";

fn vmstat(interrupts: u32) -> String {
    let row = |i: u32| format!(" 5 0 7424 1977308 2044 1698108 0 0 0 0 {i} 642 16 82 2 0 0\n");
    let head = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let body: String = (0..8).map(|i| row(interrupts + 100 * i)).collect();
    format!("{head}{}{body}", row(1))
}

fn first_cause(texts: &[&str]) -> String {
    let named: Vec<(String, String)> = texts
        .iter()
        .map(|t| ("paste.txt".to_owned(), (*t).to_owned()))
        .collect();
    let diagnosis = diagnose_facts(&pasted_facts(&read_pasted(&named)), "pasted");
    diagnosis.findings[0].cause.clone()
}

#[test]
fn counts_and_sizes_of_a_proxy_lead_to_its_buffers() {
    let cause = first_cause(&[STRACE, SIZES, &vmstat(71_000), WRK]);
    assert_eq!(cause, "small_proxy_buffers");
    assert_eq!(first_cause(&[STRACE, SIZES]), "small_proxy_buffers");
}

#[test]
fn the_same_processors_doing_other_amounts_of_work_point_outside() {
    let cause = first_cause(&[&vmstat(59_000), &vmstat(70_000)]);
    assert_eq!(cause, "host_outside_guest");
    assert_ne!(
        first_cause(&[&vmstat(70_000), &vmstat(70_500)]),
        "host_outside_guest"
    );
}

/// The first finding of these texts, each a file of its own: its cause, and what it says.
fn said(texts: &[&str]) -> (String, String) {
    let named: Vec<(String, String)> = texts
        .iter()
        .map(|t| ("paste.txt".to_owned(), (*t).to_owned()))
        .collect();
    let finding = analysis::diagnose_pasted(&read_pasted(&named))
        .findings
        .remove(0);
    (finding.cause, finding.why)
}

fn check_says(texts: &[&str], expected: &[&str], unexpected: &[&str]) {
    let (cause, why) = said(texts);
    assert_eq!(cause, "unknown", "{why}");
    for words in expected {
        assert!(why.contains(words), "{words:?} is not in: {why}");
    }
    for words in unexpected {
        assert!(!why.contains(words), "{words:?} is in: {why}");
    }
}

#[test]
fn of_two_requests_the_phase_that_grew_is_named() {
    let run = |connect: &str, total: &str| {
        format!("Establish Connection: {connect}s\nTTFB: {total}s\nTotal: {total}s\n")
    };
    let (old, new) = (run("0.017", "0.095"), run("0.202", "0.280"));
    let both = ["connect: 0.202 s in the second, 0.017 s in the first"];
    check_says(&[&old, &new], &both, &[]);
    check_says(&[&format!("{old}\n{new}")], &both, &[]);
    check_says(
        &[&old, &run("0.018", "0.096")],
        &[],
        &["between the two requests"],
    );
}

#[test]
fn of_two_straces_without_a_common_measure_the_shares_are_compared() {
    let before = "47.71 0.847578 3 267281 3192 lstat\n19.86 0.352825 10 35063 4101 open\n8.28 0.147049 2 66478 16474 access\n";
    let after = "58.80 5.179350 31 166219 12408 open\n12.51 1.101776 5 223492 4308 read\n2.76 0.242768 1 233763 20582 lstat\n";
    let changes = ["lstat (3.7 %) was 63 %", "open (79 %) was 26 %"];
    check_says(&[before, after], &changes, &[]);
    check_says(&[&format!("{before}\n{after}")], &changes, &[]);
}

#[test]
fn of_two_task_profiles_the_task_that_grew_is_named() {
    let head = "Tasks activity:\n  function   calls   cpu_tot   cpu_avg   lat_tot   lat_avg\n";
    let profile = |stream: &str, tls: &str| {
        format!(
            "{head}  process_stream  1000  {stream}  3us  1s  2us <- a@b.c:1 wakeup\n  ssl_sock_io_cb  1000  {tls}  3us  1s  2us\n  h1_timeout_task  7  -  -  1s  2us\n"
        )
    };
    let (old, new) = (profile("8.0s", "2.0s"), profile("8.0s", "2.0m"));
    check_says(&[&old, &new], &["ssl_sock_io_cb (94 %) was 20 %"], &[]);
    check_says(
        &[&old, &old],
        &["process_stream (80 %)"],
        &["between the two"],
    );
}

#[test]
fn of_two_logs_the_time_that_grew_is_named() {
    let line = |request: &str, upstream: &str| {
        format!("1.2.3.4 - - [01/Jan/2024:00:00:00 +0000] \"GET /a HTTP/1.1\" 200 512 \"-\" \"x\" {request} {upstream}\n").repeat(4)
    };
    let (old, new) = (line("0.010", "0.008"), line("0.012", "0.009"));
    let slow = line("0.300", "0.009");
    check_says(
        &[&old, &slow],
        &["the median request took 0.300 s and before 0.010 s"],
        &["wait for the upstream took"],
    );
    check_says(&[&old, &new], &[], &["between the two logs"]);
}
