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
