//! `prony diagnose` end to end: signatures of a real nginx, the documents, and everything that can be in its way.
//!
//! Counts per request are compared, never times: they are the same on a busy machine, and one test makes it busy. The
//! surprise: where the kernel refuses BPF, or a server is not installed, a test asserts what is said of that instead.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{
    Finished, Origin, Real, finish, finish_child, finish_interrupted, holds_no_number, ours, prony,
    signal, wait_until,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn is_root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// A place for prony's journal and copies, apart from the servers' own files.
struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Servers and prony may run as another user here.
        open_to_all(dir.path());
        Self { dir }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn servers(&self) -> PathBuf {
        self.dir.path().join("servers")
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// `prony diagnose` with a short load.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = prony(&self.state());
        command.arg("diagnose").args(args);
        for (flag, value) in [("-d", "400ms"), ("-c", "8")] {
            if !args.contains(&flag) {
                command.args([flag, value]);
            }
        }
        command
    }

    fn diagnose(&self, args: &[&str]) -> Finished {
        finish(&mut self.command(args))
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn origin(&self, flags: &[&str]) -> Origin {
        Origin::start(&self.servers(), flags)
    }

    /// Directories of copies that exist now.
    fn copies(&self) -> usize {
        let all = fs::read_dir(self.state()).map(|dirs| {
            dirs.flatten()
                .filter(|d| d.file_name().to_string_lossy().starts_with("prony-"))
                .count()
        });
        all.unwrap_or(0)
    }

    /// No process, no directory, no entry of the journal.
    fn assert_nothing_left(&self) {
        wait_until("no process is left", || ours(&self.state()).is_empty());
        assert_eq!(self.copies(), 0, "a copy's directory is left");
        let journal = fs::read_dir(self.state().join("prony"));
        let left = journal.map_or(0, Iterator::count);
        assert_eq!(left, 0, "something is left in the journal");
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An nginx with a configuration of its own, ended on drop.
struct Nginx {
    child: Child,
    dir: tempfile::TempDir,
    url: String,
}

impl Nginx {
    /// Workers, and what stands in `server`; `None` where nginx is not installed.
    fn start(workers: u32, http: &str, server: &str) -> Option<Self> {
        let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];
        let binary = places.into_iter().find(|path| Path::new(path).exists())?;
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let root = dir.path().display();
        let user = if is_root() {
            "user nobody nogroup;"
        } else {
            ""
        };
        let port = free_port();
        let text = format!(
            "daemon off; pid {root}/pid; error_log {root}/error.log; worker_processes {workers};
             {user}
             events {{ worker_connections 1024; }}
             http {{
               {http}
               access_log off; keepalive_requests 100000000;
               client_body_temp_path {root}/b; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f;
               uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
               server {{
                 listen 127.0.0.1:{port};
                 {server}
               }}
             }}
"
        );
        let file = dir.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let child = Command::new(binary)
            .arg("-p")
            .arg(dir.path())
            .arg("-c")
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self {
            child,
            dir,
            url: format!("http://127.0.0.1:{port}/"),
        };
        wait_until("nginx answers", || ask(&nginx.address(), "/").is_some());
        Some(nginx)
    }

    /// In front of an origin, as the study had it, with `buffers` in the location.
    fn proxy(origin: &Origin, buffers: &str) -> Option<Self> {
        let upstream = origin.url.trim_start_matches("http://");
        let http = format!("upstream back {{ server {upstream}; keepalive 64; }}");
        let location = format!(
            "location / {{
               proxy_pass http://back;
               proxy_http_version 1.1;
               proxy_set_header Connection \"\";
               {buffers}
             }}"
        );
        Self::start(1, &http, &location)
    }

    fn address(&self) -> String {
        self.url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned()
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("nginx.conf")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), "TERM");
        }
        let _ = self.child.wait();
    }
}

/// The status line of one answer.
fn ask(address: &str, path: &str) -> Option<String> {
    let address: SocketAddr = address.parse().unwrap();
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect_timeout(&address, limit).ok()?;
    stream.set_read_timeout(Some(limit)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut bytes = [0; 15];
    stream.read_exact(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The probes counted; else it has checked that the document says why they did not.
fn counted(document: &Value) -> bool {
    if document["tier"] == "ebpf" {
        return true;
    }
    let gaps = document["signature"]["unavailable"].as_array().unwrap();
    assert!(
        gaps.iter()
            .any(|gap| gap["what"].as_str().unwrap().contains("eBPF") && is_said(&gap["reason"])),
        "{gaps:?}"
    );
    false
}

fn is_said(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

/// Calls per request that succeeded, over the given classes of descriptors.
fn per_request(document: &Value, call: &str, classes: &[&str]) -> f64 {
    let server = &document["signature"]["targets"][0];
    let rows = server["calls"].as_array().unwrap();
    rows.iter()
        .filter(|row| row["call"] == call && classes.iter().any(|class| row["class"] == *class))
        .map(|row| {
            let errors = row["errors_per_request"].as_object().unwrap();
            let failed: f64 = errors.values().filter_map(Value::as_f64).sum();
            row["per_request"].as_f64().unwrap() - failed
        })
        .sum()
}

/// A fact about the server behind the URL.
fn fact(document: &Value, name: &str) -> Option<f64> {
    let facts = document["facts"].as_array().unwrap();
    let found = facts
        .iter()
        .find(|f| f["name"] == name && f["target"] == "server");
    found?["value"].as_f64()
}

fn first_cause(document: &Value) -> &str {
    document["diagnosis"][0]["cause"].as_str().unwrap_or("")
}

/// 3 is right too: on a busy machine the generator may be what limits.
fn assert_done(finished: &Finished) {
    assert!(
        matches!(finished.code, Some(0 | 3)),
        "{:?}: {}{}",
        finished.code,
        finished.stdout,
        finished.stderr
    );
}

fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

/// The study's three settings with the readv and writev of one response of 91 KB.
const SETTINGS: [(&str, f64, f64); 3] = [
    ("", 10.0, 12.0),
    ("proxy_buffers 128 4k;", 22.0, 2.0),
    ("proxy_buffers 4 128k;", 1.0, 2.0),
];

/// Diagnoses nginx with each of some settings, and checks what it does for a response. `quiet`: nothing of the test
/// takes the CPU away, so a saturated nginx is the limit, and its buffers are the cause.
fn check_signatures(settings: &[(&str, f64, f64)], quiet: bool) {
    let bench = Bench::new();
    let origin = bench.origin(&["--body", "91000"]);
    for &(buffers, readv, writev) in settings {
        let Some(nginx) = Nginx::proxy(&origin, buffers) else {
            return;
        };
        let finished = bench.diagnose(&["--url", &nginx.url, "--json"]);
        assert_done(&finished);
        let document = finished.json();
        if !counted(&document) {
            return;
        }
        let both = ["client", "upstream"];
        for (call, expected) in [("readv", readv), ("writev", writev)] {
            let found = per_request(&document, call, &both);
            assert!(
                (found / expected - 1.0).abs() <= 0.02,
                "`{buffers}`: {call} {found} instead of {expected} per request: {}",
                document["signature"]["targets"][0]
            );
        }
        // On a busy machine another may rightly be first: the origin, or the generator.
        if quiet && buffers.is_empty() && fact(&document, "worker.busiest") >= Some(0.85) {
            assert_eq!(first_cause(&document), "small_proxy_buffers", "{document}");
            let changes = document["diagnosis"][0]["changes"].as_array().unwrap();
            let to = changes.iter().filter_map(|change| change["to"].as_str());
            let to: Vec<&str> = to.collect();
            assert_says(&to.join("; "), &["proxy_buffers ", "proxy_buffer_size "]);
        }
    }
    bench.assert_nothing_left();
}

#[test]
fn the_settings_of_the_study_have_their_signatures() {
    check_signatures(&SETTINGS, true);
}

/// Takes a CPU from everybody until it is dropped, for a minute at most.
struct Burner {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Burner {
    fn start() -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&done);
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
        });
        Self {
            done,
            thread: Some(thread),
        }
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_busy_machine_changes_no_signature() {
    let _burner = Burner::start();
    check_signatures(&SETTINGS[..1], false);
}

#[test]
fn what_is_stored_gives_the_same_diagnosis_and_a_page() {
    let bench = Bench::new();
    let origin = bench.origin(&["--body", "91000"]);
    let Some(nginx) = Nginx::proxy(&origin, "") else {
        return;
    };
    let out = bench.dir.path().join("out");
    let place = out.to_str().unwrap();
    let live = bench.diagnose(&["--url", &nginx.url, "--json", "--out", place]);
    assert_done(&live);
    let live = live.json();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/diagnose.schema.json");
    let schema: Value = serde_json::from_slice(&fs::read(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let violations: Vec<String> = validator
        .iter_errors(&live)
        .map(|e| format!("{}: {e}", e.instance_path()))
        .collect();
    assert_eq!(violations, Vec::<String>::new());
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    let page = page.replace("&#39;", "'");
    let title = live["diagnosis"][0]["title"].as_str().unwrap();
    assert_says(&page, &[title, "<svg"]);

    drop(nginx);
    drop(origin);
    let stored = bench.diagnose(&[place, "--json"]);
    assert_eq!(stored.code, Some(0), "{}", stored.stderr);
    let stored = stored.json();
    for part in [
        "diagnosis",
        "ruled_out",
        "unseen",
        "station",
        "facts",
        "signature",
    ] {
        assert_eq!(stored[part], live[part], "{part}");
    }
    let text = bench.diagnose(&[place]);
    assert_says(&text.stdout, &[first_cause(&live)]);
    let again = bench.diagnose(&["--url", "http://127.0.0.1:1/", "--out", place]);
    assert_eq!(again.code, Some(2));
    assert_says(&again.stderr, &["already holds a record"]);
}

/// Counts of the study's kind: `strace -c` of a proxy with its default buffers, sizes of its reads, vmstat and wrk.
const STRACE: &str = "\
$ timeout 30 strace -c -p $(pgrep -nx nginx)
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 53.49    4.035007          11    365710           writev
 30.32    2.287248           7    305123           readv
  7.61    0.574073           9     60984           recvfrom
  4.57    0.344557          11     30471           write
  1.46    0.110045           3     30516           getsockopt
  1.36    0.102238           3     30879           ioctl
  0.85    0.064290          95       674           epoll_wait
  0.07    0.004944          14       337       337 connect
  0.00    0.000330           4       116        26 accept4
------ ----------- ----------- --------- --------- ----------------
100.00    7.543812           9    827460       363 total
";
const SIZES: &str = "\
$ grep 'readv' output.txt | awk 'BEGIN{FS=\" = \"}; {print $2}' | sort | uniq -c | sort -rn | head
 144120 4096
  18007 36864
  17796 19540
    205 19559
    196 0
";
const VMSTAT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 5  0   7424 1977308   2044 1698108    0    0     0     0 73333  642 15 84  0  0  0
 4  0   7424 1975424   2044 1699728    0    0     0     0 65583  733 15 85  0  0  0
 5  0   7424 1978396   2044 1702180    0    0     0     0 72517  626 16 84  0  0  0
";
const PIDSTAT: &str = "\
Average:      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command
Average:      990   4038174   15.52   75.77    0.00    4.92   91.29     -  nginx
Average:      990   4038175   15.39   74.14    0.00    5.98   89.53     -  nginx
";
const WRK: &str = "\
  4 threads and 500 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    43.34ms   45.88ms   1.11s    97.63%
    Req/Sec     3.23k   463.18     4.62k    76.46%
  Latency Distribution
     50%   37.20ms
     99%  232.57ms
  764342 requests in 1.00m, 66.43GB read
Requests/sec:  12722.92
Transfer/sec:      1.11GB
";

#[test]
fn pasted_artefacts_lead_to_the_buffers() {
    let bench = Bench::new();
    let files = [
        bench.file("strace.txt", STRACE),
        bench.file("readv-sizes.txt", SIZES),
        bench.file("vmstat.txt", VMSTAT),
        bench.file("pidstat.txt", PIDSTAT),
        bench.file("wrk.txt", WRK),
        bench.file("notes.txt", "what I did: nothing\n\n1 2 3\n"),
    ];
    let mut args = vec!["--json"];
    for file in &files {
        args.extend(["--from", file.to_str().unwrap()]);
    }
    let finished = bench.diagnose(&args);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let document = finished.json();
    assert_eq!(first_cause(&document), "small_proxy_buffers", "{document}");
    args.remove(0);
    let text = bench.diagnose(&args);
    assert_says(&text.stdout, &["small_proxy_buffers", "proxy_buffers"]);
    assert_says(&text.stderr, &["1 x strace -c", "1 x vmstat"]);
}

#[test]
fn pasted_output_that_does_not_reach_a_cause_exits_3_and_says_what_to_run() {
    let bench = Bench::new();
    let vmstat = bench.file(
        "vmstat.txt",
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n \
         0 47      0  20000   2044 169810    0    0  9000  8000  900  642  2  1  7 90  0\n",
    );
    let text = bench.diagnose(&["--from", vmstat.to_str().unwrap()]);
    assert_eq!(text.code, Some(3), "{}", text.stderr);
    let first = text.stdout.lines().next().unwrap();
    assert!(
        first.starts_with("unknown: Cannot be told from this"),
        "{first}"
    );
    assert_says(
        &text.stdout,
        &["47 processes wait for a disk", "next:", "iostat"],
    );
    let document = bench.diagnose(&["--json", "--from", vmstat.to_str().unwrap()]);
    assert_eq!(document.code, Some(3));
    assert_eq!(first_cause(&document.json()), "unknown");
    let log = bench.file(
        "error.log",
        "[alert] 1#1: 1024 worker_connections are not enough\n",
    );
    let told = bench.diagnose(&["--json", "--from", log.to_str().unwrap()]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(first_cause(&told.json()), "worker_connections_limit");
}

#[test]
fn what_cannot_be_read_as_pasted_output_is_named() {
    let bench = Bench::new();
    let mut rubbish: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    rubbish.extend_from_slice(b"\n% time     seconds  usecs/call     calls\n\xff\xfe\n");
    let files = [
        bench.file("rubbish", rubbish),
        bench.file("empty", ""),
        bench.file("long-line", "9 ".repeat(400_000)),
    ];
    for file in &files {
        let finished = bench.diagnose(&["--from", file.to_str().unwrap()]);
        assert_eq!(finished.code, Some(2), "{file:?}: {}", finished.stdout);
        assert_says(&finished.stderr, &["nothing in these files", "remedy:"]);
    }
    for (path, words) in [
        (bench.dir.path().to_str().unwrap(), "directory"),
        ("/nowhere/strace.txt", "No such file"),
    ] {
        let finished = bench.diagnose(&["--from", path]);
        assert_eq!(finished.code, Some(2));
        assert_says(&finished.stderr, &[path, words, "remedy:"]);
    }
    let both = bench.diagnose(&["--from", "x", "--url", "http://127.0.0.1:1/"]);
    assert_eq!(both.code, Some(2));
}

#[test]
fn nothing_to_diagnose_exits_2_and_says_what_to_give() {
    let bench = Bench::new();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let gone = ended.id().to_string();
    let empty = tempfile::tempdir().unwrap();
    for (args, words) in [
        (&[][..], "--url"),
        (
            &["--pid", &gone, "--url", "http://127.0.0.1:1/"][..],
            gone.as_str(),
        ),
        (&["--pid", "-7"][..], "-7"),
        (&["--unit", "no-such-unit", "--no-load"][..], "no-such-unit"),
        (
            &["--probes", "best", "--url", "http://127.0.0.1:1/"][..],
            "perf_events",
        ),
        (&[empty.path().to_str().unwrap()][..], "manifest"),
        (
            &["--no-load", "http://127.0.0.1:1/"][..],
            "diagnose --url http://127.0.0.1:1/",
        ),
        (
            &[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")][..],
            "diagnose --from",
        ),
        (&["--prove", "--listen", "80"][..], "--url"),
    ] {
        let finished = bench.diagnose(args);
        assert_eq!(finished.code, Some(2), "{args:?}: {}", finished.stderr);
        assert_says(&finished.stderr, &[words]);
    }
    let port = free_port().to_string();
    let finished = bench.diagnose(&["--listen", &port]);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    assert_says(&finished.stderr, &[&port, "remedy:"]);
}

#[test]
fn nothing_listens() {
    let bench = Bench::new();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let finished = bench.diagnose(&["--url", &url]);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    let first = finished.stdout.lines().next().unwrap();
    assert!(first.starts_with("load_errors"), "{}", finished.stdout);
    assert_says(&finished.stdout, &["refused", "NOT VALID"]);
    let document = bench.diagnose(&["--url", &url, "--json"]).json();
    assert_eq!(document["verdict"]["valid"], false);
    assert!(document["rate_per_s"]["achieved"].is_null());
    assert!(holds_no_number(&document["latency_ns"]["response"]));
}

#[test]
fn errors_alone_are_no_performance() {
    let bench = Bench::new();
    let origin = bench.origin(&[]);
    let url = format!("{}/status/500", origin.url);
    let finished = bench.diagnose(&["--url", &url]);
    assert_eq!(finished.code, Some(3), "{}", finished.stderr);
    let first = finished.stdout.lines().next().unwrap();
    assert!(first.starts_with("load_errors"), "{}", finished.stdout);
    assert_says(&finished.stdout, &["5xx 100 %", "NOT VALID"]);
}

#[test]
fn a_process_that_is_no_server_is_told() {
    let bench = Bench::new();
    let origin = bench.origin(&[]);
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = other.id().to_string();
    let finished = bench.diagnose(&["--url", &origin.url, "--pid", &pid]);
    other.kill().unwrap();
    other.wait().unwrap();
    assert_done(&finished);
    assert_says(&finished.stderr, &[&pid, "do not listen", "remedy:"]);
}

/// Descriptors of a process that lead to what `kind` names: `socket`, `bpf-prog`, `[perf_event]`.
fn descriptors(pid: u32, kind: &str) -> usize {
    let all = fs::read_dir(format!("/proc/{pid}/fd")).map(|fds| {
        fds.flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .filter(|to| to.to_string_lossy().contains(kind))
            .count()
    });
    all.unwrap_or(0)
}

/// Waits until the diagnosis is in its timed pass: the profiler is on. `false` where it ended before.
fn timed(child: &mut Child) -> bool {
    until(child, |pid| descriptors(pid, "perf_event") > 0)
}

fn until(child: &mut Child, mut condition: impl FnMut(u32) -> bool) -> bool {
    let pid = child.id();
    let mut held = false;
    wait_until("a pass begins", || {
        held = held || condition(pid);
        held || child.try_wait().unwrap().is_some()
    });
    held
}

#[test]
fn a_server_that_ends_while_it_is_watched_is_told() {
    let bench = Bench::new();
    let origin = bench.origin(&[]);
    let mut child = bench.start(&["--url", &origin.url, "-d", "1500ms"]);
    let in_time = timed(&mut child);
    drop(origin);
    let finished = finish_child(child);
    assert_done(&finished);
    if in_time {
        assert_eq!(finished.code, Some(3), "{}", finished.stdout);
        assert_says(&finished.stdout, &["NOT VALID"]);
    }
    bench.assert_nothing_left();
}

#[test]
fn a_reload_while_it_is_watched_loses_no_worker() {
    let bench = Bench::new();
    let Some(nginx) = Nginx::start(2, "", "location / { return 200 ok; }") else {
        return;
    };
    let mut child = bench.start(&["--url", &nginx.url, "--json", "-d", "1500ms"]);
    let in_time = timed(&mut child);
    signal(nginx.child.id(), "HUP");
    let finished = finish_child(child);
    assert_done(&finished);
    let document = finished.json();
    if in_time && counted(&document) {
        let writes = per_request(&document, "writev", &["client"]);
        assert!((writes - 1.0).abs() <= 0.02, "{writes}: {document}");
    }
}

/// `prony diagnose` of nginx by a person who may not do much.
fn as_somebody(bench: &Bench, nginx: &Nginx, more: &[&str]) -> Finished {
    let binary = bench.dir.path().join("prony");
    fs::copy(env!("CARGO_BIN_EXE_prony"), &binary).unwrap();
    let state = bench.dir.path().join("theirs");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&binary);
        command
    } else {
        Command::new(&binary)
    };
    command
        .args(["diagnose", "-d", "400ms", "-c", "8", "--json", "--url"])
        .arg(&nginx.url)
        .args(more)
        .env("XDG_STATE_HOME", &state)
        .env("TMPDIR", &state)
        .current_dir(bench.dir.path());
    finish(&mut command)
}

#[test]
fn without_rights_it_goes_on_and_says_what_it_could_not_see() {
    let bench = Bench::new();
    let Some(nginx) = Nginx::start(1, "", "location / { return 200 ok; }") else {
        return;
    };
    fs::set_permissions(nginx.config(), fs::Permissions::from_mode(0o600)).unwrap();
    let finished = as_somebody(&bench, &nginx, &["--prove"]);
    // 1: what was found could not be proved.
    assert!(
        matches!(finished.code, Some(0 | 1 | 3)),
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    let document = finished.json();
    assert_ne!(document["tier"], "ebpf");
    assert!(document["rate_per_s"]["achieved"].as_f64().unwrap() > 0.0);
    let unseen = document["unseen"].as_array().unwrap();
    assert!(
        !unseen.is_empty() && unseen.iter().all(|u| is_said(&u["why"])),
        "{unseen:?}"
    );
    for fact in document["facts"].as_array().unwrap() {
        let name = fact["name"].as_str().unwrap();
        assert!(
            is_said(&fact["source"]),
            "{name} has neither source nor reason"
        );
    }
    if document["signature"].is_object() {
        assert!(!counted(&document));
    }
}

#[test]
fn lower_tiers_can_be_asked_for() {
    let bench = Bench::new();
    let Some(nginx) = Nginx::start(1, "", "location / { return 200 ok; }") else {
        return;
    };
    for probes in ["perf_events", "proc"] {
        let finished = bench.diagnose(&["--url", &nginx.url, "--json", "--probes", probes]);
        assert_done(&finished);
        let document = finished.json();
        let tier = document["tier"].as_str().unwrap();
        assert!(tier == probes || tier == "proc", "{tier}");
        if tier == "perf_events" {
            let rows = document["signature"]["targets"][0]["calls"]
                .as_array()
                .unwrap();
            let writes: f64 = rows
                .iter()
                .filter(|row| row["call"] == "writev")
                .filter_map(|row| row["per_request"].as_f64())
                .sum();
            assert!((writes - 1.0).abs() <= 0.02, "{writes}");
        }
        assert!(!first_cause(&document).is_empty(), "{document}");
    }
}

#[test]
fn without_type_information_the_probes_say_so() {
    let bench = Bench::new();
    let origin = bench.origin(&[]);
    // An empty directory over the kernel's BTF, in a mount namespace that ends with the command.
    let script = format!(
        "mount -t tmpfs none /sys/kernel/btf && exec '{}' diagnose -d 300ms --json --url {}",
        env!("CARGO_BIN_EXE_prony"),
        origin.url
    );
    let mut command = Command::new("unshare");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--mount", "sh", "-c", &script])
        .env("XDG_STATE_HOME", bench.state());
    if !Path::new("/sys/kernel/btf").is_dir() {
        return;
    }
    let finished = finish(&mut command);
    assert_done(&finished);
    assert!(!counted(&finished.json()));
}

/// Children of a process that has one thread.
fn children(pid: u32) -> usize {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.map_or(0, |l| l.split_whitespace().count())
}

#[test]
fn two_hundred_workers_are_watched() {
    let bench = Bench::new();
    let Some(nginx) = Nginx::start(200, "", "location / { return 200 ok; }") else {
        return;
    };
    // The first worker answers long before the last one is there.
    wait_until("every worker is there", || {
        children(nginx.child.id()) >= 200
    });
    let finished = bench.diagnose(&["--url", &nginx.url, "--json", "-c", "200"]);
    assert_done(&finished);
    let document = finished.json();
    let processes = fact(&document, "worker.processes").unwrap();
    assert!((200.0..=201.0).contains(&processes), "{processes}");
    if counted(&document) {
        let writes = per_request(&document, "writev", &["client"]);
        assert!((writes - 1.0).abs() <= 0.02, "{writes}");
    }
}

#[test]
fn traffic_that_is_there_is_watched() {
    let bench = Bench::new();
    let Some(nginx) = Nginx::start(1, "", "location / { return 200 ok; }") else {
        return;
    };
    let port = nginx.address().rsplit_once(':').unwrap().1.to_owned();
    // A debug build takes more of a budget to load its probes than a passes' worth.
    let watch = [
        "--listen",
        &port,
        "--no-load",
        "--overhead",
        "50%",
        "--json",
    ];
    let idle = bench.diagnose(&watch);
    assert_eq!(idle.code, Some(3), "{}", idle.stderr);
    let document = idle.json();
    assert!(document.get("verdict").is_none(), "{document}");
    // Nothing came, so nothing can be said of a request.
    assert_eq!(first_cause(&document), "unknown", "{document}");

    let mut load = prony(&bench.servers())
        .args(["load", &nginx.url, "-c", "8", "-d", "100s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = load.id();
    let connected = until(&mut load, |_| descriptors(pid, "socket") >= 8);
    let busy = bench.diagnose(&watch);
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(connected, "the load ended early");
    // Without a load of its own it may not be able to tell.
    assert!(matches!(busy.code, Some(0 | 3)), "{}", busy.stderr);
    let document = busy.json();
    assert!(!first_cause(&document).is_empty(), "{document}");
    if document["signature"].is_object() && counted(&document) {
        assert!(document["signature"]["requests"].as_u64().unwrap() > 0);
        let writes = per_request(&document, "writev", &["client"]);
        assert!((writes - 1.0).abs() <= 0.05, "{writes}");
    }
}

/// A fact's number in a document.
fn known(document: &Value, name: &str) -> Option<f64> {
    let facts = document["facts"].as_array().unwrap();
    let mut found = facts.iter().filter(|fact| fact["name"] == name);
    found.find_map(|fact| fact["value"].as_f64())
}

/// 600 requests a second by another process: what a load of ours would have shown is known without one.
#[test]
fn somebody_elses_load_is_seen_from_the_servers_side() {
    let bench = Bench::new();
    let origin = bench.origin(&["--threads", "1"]);
    let port = origin
        .url
        .trim_end_matches('/')
        .rsplit_once(':')
        .unwrap()
        .1
        .to_owned();
    let mut load = prony(&bench.servers())
        .args(["load", &origin.url, "-c", "8", "-R", "600", "-d", "100s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = load.id();
    let connected = until(&mut load, |_| descriptors(pid, "socket") >= 8);
    let out = bench.file("out", "");
    fs::remove_file(&out).unwrap();
    let watched = bench.diagnose(&[
        "--listen",
        &port,
        "--no-load",
        "--overhead",
        "50%",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ]);
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(connected, "the load ended early");
    // What it will do is said before it starts.
    assert!(
        watched.stderr.contains("nothing is loaded"),
        "{}",
        watched.stderr
    );
    let document = watched.json();
    assert_ne!(
        document["station"]["name"], "unknown",
        "{}",
        document["station"]
    );
    for name in [
        "cpu.cores_used",
        "worker.busiest",
        "host.idle_cores",
        "tcp.retransmits_share",
    ] {
        assert!(known(&document, name).is_some(), "{name}");
    }
    for name in ["client.generator_utilization", "client.fairness"] {
        assert_eq!(known(&document, name), None, "{name}");
    }
    // By Little's law from where the requests stand, when enough of them were traced: never less than 1.
    let queueing = known(&document, "client.queueing_ratio");
    assert!(queueing.is_none_or(|ratio| ratio >= 1.0), "{queueing:?}");
    if counted(&document) {
        let rate = known(&document, "client.rate_per_s").unwrap();
        assert!((400.0..800.0).contains(&rate), "{rate}");
        let connections = known(&document, "client.connections").unwrap();
        assert!((connections - 8.0).abs() < 0.5, "{connections}");
        assert_eq!(known(&document, "client.tls"), Some(0.0));
        let errors = known(&document, "client.errors_share");
        assert!(errors.is_none_or(|share| share == 0.0), "{errors:?}");
    }
    let stored = fs::read_to_string(out.join("trials/0000/examination.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    let overhead = &stored["watching"]["overhead"];
    assert!(overhead["share"].as_f64().unwrap() > 0.0, "{overhead}");
}

/// Seconds in which the server stalls are found by a condition, and the moment is kept beside the beginning.
#[test]
fn slow_seconds_are_found_and_kept() {
    let bench = Bench::new();
    let origin = bench.origin(&["--threads", "1", "--freeze", "900ms/7s"]);
    let port = origin
        .url
        .trim_end_matches('/')
        .rsplit_once(':')
        .unwrap()
        .1
        .to_owned();
    let mut load = prony(&bench.servers())
        .args(["load", &origin.url, "-c", "32", "-R", "300", "-d", "100s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = load.id();
    let connected = until(&mut load, |_| descriptors(pid, "socket") >= 8);
    // On a host that others keep from its work, requests may not stand in any second but the last, after which nobody
    // looks closer.
    let tries = ["seconds", "again"].map(|name| bench.dir.path().join(name));
    let mut tries = tries.into_iter();
    let (out, done, slow, seconds) = loop {
        let out = tries.next().unwrap();
        let args = [
            "--listen",
            &port,
            "--no-load",
            "--overhead",
            "50%",
            "--for",
            "25s",
            "--when",
            "open>8",
            "-d",
            "1s",
            "--out",
            out.to_str().unwrap(),
        ];
        let done = bench.diagnose(&args);
        assert!(matches!(done.code, Some(0 | 3)), "{}", done.stderr);
        let stored = fs::read_to_string(out.join("trials/0000/examination.json")).unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        let seconds = stored["watching"]["lookout"]["seconds"]
            .as_array()
            .unwrap()
            .clone();
        let slow = seconds.iter().filter(|s| s["slow"] == "open>8").count();
        let dug = out.join("trials/0001").exists();
        if (slow > 0 && dug) || tries.len() == 0 {
            break (out, done, slow, seconds);
        }
    };
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(connected, "the load ended early");
    assert!(done.stdout.contains("slow seconds: "), "{}", done.stdout);
    assert!(seconds.len() >= 10, "{}", seconds.len());
    assert!(
        slow >= 1 && slow < seconds.len() / 2,
        "{slow} of {}",
        seconds.len()
    );
    assert!(
        out.join("trials/0001/trial.json").exists(),
        "the moment that was dug into, of {seconds:#?}"
    );
}

/// Python's file server, which no change of its own helps; ended on drop.
struct Python {
    child: Child,
    url: String,
}

impl Python {
    fn start(directory: &Path) -> Option<Self> {
        let port = free_port();
        let child = Command::new("python3")
            .args(["-m", "http.server", "--bind", "127.0.0.1"])
            .arg(port.to_string())
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let address = format!("127.0.0.1:{port}");
        let python = Self {
            child,
            url: format!("http://{address}/"),
        };
        wait_until("python answers", || ask(&address, "/").is_some());
        Some(python)
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_nothing_can_be_changed_of_is_not_proved_and_says_why() {
    let bench = Bench::new();
    let Some(python) = Python::start(bench.dir.path()) else {
        return;
    };
    let finished = bench.diagnose(&["--url", &python.url, "--prove", "--json"]);
    let document = finished.json();
    let findings = document["diagnosis"].as_array().unwrap();
    let asked = findings
        .iter()
        .find(|f| f["worth_changing"] == true && f["cause"] != "none");
    if let Some(finding) = asked {
        assert_eq!(finding["proof"]["result"], "not_possible", "{finding}");
        assert!(is_said(&finding["proof"]["why"]));
        assert!(matches!(finished.code, Some(1 | 3)), "{:?}", finished.code);
    }
    let record = bench.dir.path().join("improved");
    let out = record.to_str().unwrap();
    let improved = bench.diagnose(&["--url", &python.url, "--improve", "--json", "--out", out]);
    assert_done(&improved);
    // The path is in the record, and whoever reads that sees it.
    let again = bench.diagnose(&[out, "--json"]);
    let path = &improved.json()["improvement"];
    assert_eq!(again.json()["improvement"], *path);
    assert_eq!(path["changes"].as_array().unwrap().len(), 0, "{path}");
    assert!(is_said(&path["ended"]), "{path}");
    // So does whoever reads a record of before the path had that name.
    fs::rename(record.join("improvement.json"), record.join("tuning.json")).unwrap();
    let again = bench.diagnose(&[out, "--json"]);
    assert_eq!(again.json()["improvement"], *path);
    bench.assert_nothing_left();
}

/// A server whose every request allocates ten thousand times: a trap takes microseconds, and one for each stops it.
#[test]
fn a_server_that_allocates_all_the_time_is_counted_without_its_allocations() {
    let script = "\
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_GET(self):
        [bytearray(700) for _ in range(10_000)]
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'ok')
    def log_message(self, *ignored):
        pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
";
    let server = Real::python(script, "python3");
    let bench = Bench::new();
    let url = format!("http://127.0.0.1:{}/", server.port);
    // Few connections and seconds enough that a slow machine answers some requests too: their threads take turns.
    let load = ["--url", &url, "-c", "8", "-d", "3s", "--json"];
    let finished = bench.diagnose(&load);
    let document = finished.json();
    let signature = &document["signature"];
    assert!(
        signature["requests"].as_u64() > Some(0),
        "{signature} {}",
        finished.stderr
    );
    if !is_root() || signature["tier"] != "ebpf" {
        return;
    }
    let gaps = signature["unavailable"].as_array().unwrap();
    let gap = gaps
        .iter()
        .find(|gap| gap["what"] == "calls of the memory allocator");
    match gap {
        Some(gap) => assert!(
            gap["reason"].as_str().unwrap().contains("a trap for each"),
            "{gap}"
        ),
        // A machine whose traps cost little: then they are counted, and there are many.
        None => {
            let calls = &signature["targets"][0]["allocator"]["calls"]["malloc"];
            let requests = signature["requests"].as_u64().unwrap();
            assert!(calls.as_u64() > Some(5_000 * requests), "{signature}");
        }
    }
}

#[test]
fn the_former_name_of_improve_names_the_new_one() {
    let bench = Bench::new();
    let finished = bench.diagnose(&["--url", "http://127.0.0.1:1/", "--tune"]);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("--improve"), "{}", finished.stderr);
    let finished = bench.diagnose(&["--url", "http://127.0.0.1:1/", "--improv"]);
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("--improve"), "{}", finished.stderr);
}

#[test]
fn ctrl_c_ends_every_pass_and_keeps_what_is_known() {
    let bench = Bench::new();
    // A single client of a slow server takes its time.
    let origin = bench.origin(&["--delay", "constant:20ms"]);
    type Pass = fn(u32) -> bool;
    let passes: [(&str, Pass); 3] = [
        ("single_client", |pid| descriptors(pid, "socket") > 0),
        ("timed", |pid| descriptors(pid, "perf_event") > 0),
        ("signature", |pid| descriptors(pid, "bpf-prog") > 0),
    ];
    for (name, begun) in passes {
        let mut child = bench.start(&["--url", &origin.url, "-d", "2s"]);
        if !until(&mut child, begun) {
            // Neither the profiler nor the probes are allowed here.
            assert_done(&finish_child(child));
            continue;
        }
        signal(child.id(), "INT");
        let pid = child.id();
        let finished = finish_child(child);
        assert_eq!(finished.code, Some(130), "{name}: {}", finished.stderr);
        assert!(!finished.stdout.is_empty(), "{name}: nothing was kept");
        assert_no_programs_of(pid);
        bench.assert_nothing_left();
    }
}

/// No BPF program is held by that process any more, where bpftool can tell.
fn assert_no_programs_of(pid: u32) {
    let Ok(listed) = Command::new("bpftool").args(["prog", "show"]).output() else {
        return;
    };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(!text.contains(&format!("({pid})")), "{text}");
}

/// Asks a server all the time, until it is dropped.
struct Visitor {
    done: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: Option<JoinHandle<Vec<Option<String>>>>,
}

impl Visitor {
    fn of(nginx: &Nginx) -> Self {
        let address = nginx.address();
        let done = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let (seen, count) = (Arc::clone(&done), Arc::clone(&answered));
        let thread = std::thread::spawn(move || {
            let mut wrong = Vec::new();
            while !seen.load(Ordering::Relaxed) {
                match ask(&address, "/") {
                    Some(line) if line.ends_with("200") || line.contains(" 200 ") => {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    other => wrong.push(other),
                }
                std::thread::park_timeout(Duration::from_millis(20));
            }
            wrong
        });
        Self {
            done,
            answered,
            thread: Some(thread),
        }
    }

    /// Answers that were not there or not 200.
    fn leave(mut self) -> Vec<Option<String>> {
        self.done.store(true, Ordering::Relaxed);
        assert!(self.answered.load(Ordering::Relaxed) > 0);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}

/// A server that is started with its own words, and ended on drop.
struct Started {
    child: Child,
    dir: tempfile::TempDir,
    url: String,
}

impl Started {
    /// `DIR` and `PORT` are filled in, in words and files. `None` where the program is not installed.
    fn start(words: &[&str], files: &[(&str, &str)]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let port = free_port();
        let root = dir.path().display().to_string();
        let fill = |text: &str| {
            text.replace("DIR", &root)
                .replace("PORT", &port.to_string())
        };
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, fill(text)).unwrap();
        }
        let child = Command::new(words[0])
            .process_group(0)
            .args(words[1..].iter().map(|w| fill(w)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let address = format!("127.0.0.1:{port}");
        let started = Self {
            child,
            dir,
            url: format!("http://{address}/"),
        };
        wait_until("the server answers", || ask(&address, "/").is_some());
        Some(started)
    }

    /// Its own files, by name.
    fn files(&self, of: &[(&str, &str)]) -> Vec<Vec<u8>> {
        let read = |(name, _): &(&str, &str)| fs::read(self.dir.path().join(name)).unwrap();
        of.iter().map(read).collect()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(self.child.id(), "TERM");
        }
        let _ = self.child.wait();
    }
}

/// Two proofs beside each other take the cores that each needs to find its cause, before any copy is made.
fn one_proof_at_a_time() -> std::sync::MutexGuard<'static, ()> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Whether a proof runs to its verdict, or ends when all its copies were examined: what moved is known by then, and
/// the blocks that are left out take half of its time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Verdict,
    Examined,
}

/// `prony diagnose --prove --json` of a server.
fn proving(bench: &Bench, url: &str, until: Until) -> Finished {
    let child = bench.start(&["--url", url, "-c", "8", "--prove", "--json"]);
    let ends_there = until == Until::Examined;
    finish_interrupted(child, move |line| {
        ends_there && (line.contains("warming the twin") || line.contains(": block "))
    })
}

/// A server that closes its connections is proved to be better off without that, on copies that leave nothing behind.
/// Times are not compared: what moved is counted, and whether CPU followed is the proof's own verdict, which noise
/// may make "not proved".
fn check_proof_of_keepalive(words: &[&str], files: &[(&str, &str)], change: &str, until: Until) {
    let _one = one_proof_at_a_time();
    let bench = Bench::new();
    let Some(server) = Started::start(words, files) else {
        return;
    };
    let before = server.files(files);
    // What other tests take of the cores may come first, and there is no proof then: asked again.
    let cause = "server_keepalive_off";
    let asked = (0..5).map(|_| proving(&bench, &server.url, until).json());
    let mut asked = asked.filter(|document| first_cause(document) == cause);
    let document = asked.next().expect("it comes first once in five times");
    let proof = &document["diagnosis"][0]["proof"];
    let result = proof["result"].as_str().unwrap_or_default();
    let is_verdict = matches!(result, "proved" | "not_proved");
    let is_stopped = until == Until::Examined && result == "stopped";
    assert!(is_verdict || is_stopped, "{proof}");
    let evidence = proof["evidence"].as_array().unwrap();
    let mechanism = evidence.iter().find(|e| e["role"] == "mechanism");
    let mechanism = mechanism.unwrap_or_else(|| panic!("{proof}"));
    assert_eq!(mechanism["signal"], "client.connects_per_request");
    assert!(mechanism["before"].as_f64().unwrap() > 0.9, "{mechanism}");
    assert!(mechanism["after"].as_f64().unwrap() < 0.1, "{mechanism}");
    let changes = proof["changes"].as_array().unwrap();
    assert!(changes.iter().any(|c| c["to"] == change), "{proof}");
    assert_eq!(server.files(files), before, "its files were touched");
    bench.assert_nothing_left();
}

fn check_proof_with_apache(until: Until) {
    let modules = "/usr/lib/apache2/modules";
    let user = match is_root() {
        true => "User nobody\nGroup nogroup\n",
        false => "",
    };
    let conf = format!(
        "ServerRoot DIR\nServerName x\nPidFile DIR/pid\nErrorLog DIR/e.log\n{user}Include DIR/ports.conf\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\nLoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule dir_module {modules}/mod_dir.so\nKeepAlive Off\n\
         <VirtualHost *:PORT>\nDocumentRoot DIR/site\nDirectoryIndex a.txt\n<Directory DIR/site>\nRequire all granted\n</Directory>\n</VirtualHost>\n"
    );
    check_proof_of_keepalive(
        &["apache2", "-DFOREGROUND", "-f", "DIR/a.conf"],
        &[
            ("a.conf", &conf),
            ("ports.conf", "Listen 127.0.0.1:PORT\n"),
            ("site/a.txt", "ok"),
        ],
        "KeepAlive On",
        until,
    );
}

#[test]
fn keepalive_moves_connections_on_copies_of_apache() {
    check_proof_with_apache(Until::Examined);
}

#[test]
#[ignore = "long: make proofs-long"]
fn keepalive_is_proved_on_copies_of_apache() {
    check_proof_with_apache(Until::Verdict);
}

/// As Debian lays it out: a part of the configuration is what a program prints.
#[test]
#[ignore = "long: make proofs-long"]
fn keepalive_is_proved_on_copies_of_lighttpd() {
    let conf = "server.document-root = \"DIR/site\"\nserver.bind = \"127.0.0.1\"\nserver.port = PORT\nserver.errorlog = \"DIR/e.log\"\n\
         server.pid-file = \"DIR/pid\"\nindex-file.names = ( \"a.txt\" )\ninclude_shell \"cat DIR/printed.conf\"\n";
    check_proof_of_keepalive(
        &["lighttpd", "-D", "-f", "DIR/l.conf"],
        &[
            ("l.conf", conf),
            ("printed.conf", "server.max-keep-alive-requests = 0\n"),
            ("site/a.txt", "ok"),
        ],
        "server.max-keep-alive-requests = 65535",
        Until::Examined,
    );
}

/// The command lines of all processes in which `part` stands; those of one server are one.
fn commands_with(part: &str) -> BTreeSet<String> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let words = pids.filter_map(|pid| fs::read(pid.path().join("cmdline")).ok());
    let lines = words.map(|words| String::from_utf8_lossy(&words).replace('\0', " "));
    lines.filter(|line| line.contains(part)).collect()
}

/// Requests that sleep, on two threads for eight connections. The change is a word of the command line, and once the
/// copies run it is known whether one of the three has it.
#[test]
#[ignore = "long: make proofs-long"]
fn a_word_is_changed_in_one_of_three_copies_of_a_plain_process() {
    let _one = one_proof_at_a_time();
    let app = "\
import time
def app(environ, start_response):
    time.sleep(0.02)
    start_response('200 OK', [('Content-Length', '2')])
    return [b'ok']
";
    let words =
        "gunicorn --chdir DIR --bind 127.0.0.1:PORT --worker-class gthread --threads 2 app:app";
    let words: Vec<&str> = words.split(' ').collect();
    let files = [("app.py", app)];
    let bench = Bench::new();
    let Some(server) = Started::start(&words, &files) else {
        return;
    };
    let part = format!("--chdir {}", server.dir.path().display());
    let original = commands_with(&part).pop_first().unwrap();
    let mut child = bench.start(&["--url", &server.url, "--prove", "--json"]);
    let mut copies = BTreeSet::new();
    let proved = until(&mut child, |_| {
        copies = commands_with(&part);
        copies.remove(&original);
        copies.len() == 3
    });
    signal(child.id(), "INT");
    let finished = finish_child(child);
    assert!(proved, "no proof began: {}", finished.stdout);
    let document = finished.json();
    assert_eq!(
        first_cause(&document),
        "thread_pool_too_small",
        "{document}"
    );
    let port = |line: &str| {
        let (_, rest) = line.split_once("127.0.0.1:").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    };
    let changed = original.replace("--threads 2", "--threads 8");
    let at_its_port = |line: &String| line.replace(&port(line), &port(&original));
    let moved: Vec<String> = copies.iter().map(at_its_port).collect();
    for (line, times) in [(&original, 2), (&changed, 1)] {
        let found = moved.iter().filter(|copy| *copy == line).count();
        assert_eq!(found, times, "{line}: {moved:?}");
    }
    assert_eq!(server.files(&files), [app.as_bytes()]);
    bench.assert_nothing_left();
}

/// Stops a proof with `how` once its copies run; what was left then, and whether the server noticed.
fn stop_in_a_proof(how: &str) -> Option<(Bench, Finished)> {
    let _one = one_proof_at_a_time();
    let bench = Bench::new();
    // Closing after every answer is told by counts alone, on a busy machine and without probes too.
    let nginx = Nginx::start(1, "keepalive_timeout 0;", "location / { return 200 ok; }")?;
    let config = fs::read(nginx.config()).unwrap();
    let changed = fs::metadata(nginx.config()).unwrap().modified().unwrap();
    let visitor = Visitor::of(&nginx);
    let mut child = bench.start(&["--url", &nginx.url, "--prove"]);
    if !until(&mut child, |_| bench.copies() == 3) {
        panic!("no proof began: {}", finish_child(child).stdout);
    }
    signal(child.id(), how);
    let finished = finish_child(child);
    assert_eq!(visitor.leave(), [], "the running server was disturbed");
    assert_eq!(fs::read(nginx.config()).unwrap(), config);
    let now = fs::metadata(nginx.config()).unwrap().modified().unwrap();
    assert_eq!(now, changed, "its configuration was touched");
    Some((bench, finished))
}

#[test]
fn ctrl_c_in_a_proof_removes_the_copies() {
    let Some((bench, finished)) = stop_in_a_proof("INT") else {
        return;
    };
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    assert_says(&finished.stdout, &["server_keepalive_off"]);
    bench.assert_nothing_left();
}

#[test]
fn after_kill_9_in_a_proof_the_next_start_removes_the_copies() {
    let Some((bench, finished)) = stop_in_a_proof("KILL") else {
        return;
    };
    assert_eq!(finished.code, None);
    assert!(bench.copies() > 0);
    let url = format!("http://127.0.0.1:{}/", free_port());
    let next = bench.diagnose(&["--url", &url, "--probes", "proc"]);
    assert_eq!(next.code, Some(3), "{}", next.stderr);
    assert_says(&next.stderr, &["removed what a killed prony left"]);
    bench.assert_nothing_left();
}
