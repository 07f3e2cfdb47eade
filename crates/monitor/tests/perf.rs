//! The tier of counters on tracepoints, with real nginx: what it does for a request is a whole number.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says why")]

use linux::Root;
use monitor::probe::{ProbeConfig, ProbeTarget, Probed, Probes};
use record::{CallStats, Tier};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const REQUESTS: u64 = 500;

/// nginx in the foreground with one process; ended with its owner.
struct Nginx {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Nginx {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let at = directory.path().display();
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error;\nevents {{}}\n\
             http {{ access_log off; sendfile on; keepalive_requests 100000;\n\
             server {{ listen 127.0.0.1:{port}; root {at}; }} }}\n"
        );
        std::fs::write(directory.path().join("conf"), text).unwrap();
        std::fs::write(directory.path().join("1k"), [b'x'; 1024]).unwrap();
        let child = Command::new("nginx")
            .args(["-p", &at.to_string(), "-c", "conf", "-e", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self {
            child,
            port,
            _directory: directory,
        };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        nginx
    }

    fn requests(&self, count: u64) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut buffer = [0; 4096];
        for _ in 0..count {
            stream
                .write_all(b"GET /1k HTTP/1.1\r\nHost: x\r\n\r\n")
                .unwrap();
            let mut answer = Vec::new();
            loop {
                let read = stream.read(&mut buffer).unwrap();
                assert_ne!(read, 0, "nginx closed");
                answer.extend_from_slice(&buffer[..read]);
                let head = answer.windows(4).position(|w| w == b"\r\n\r\n");
                if head.is_some_and(|head| answer.len() == head + 4 + 1024) {
                    break;
                }
            }
        }
    }
}

fn arm(pids: Vec<i32>) -> Probes {
    Probes::arm(&ProbeConfig {
        targets: vec![ProbeTarget {
            target: "web".to_owned(),
            pids,
            listens: Vec::new(),
            ..ProbeTarget::default()
        }],
        best_tier: Tier::PerfEvents,
        allocator: false,
        root: Root::default(),
    })
}

/// Whether counters were refused here, and then said so.
fn refused(probed: &Probed) -> bool {
    if probed.tier == Tier::PerfEvents {
        return false;
    }
    let gap = probed
        .unavailable
        .iter()
        .find(|gap| gap.what == "counters on tracepoints");
    let gap = gap.expect("a tier that was refused has a reason");
    assert!(!gap.reason.is_empty() && !gap.remedy.is_empty(), "{gap:?}");
    eprintln!("skipped: {}", gap.reason);
    true
}

fn call<'a>(probed: &'a Probed, name: &str) -> &'a CallStats {
    let calls = probed.targets[0].calls.as_ref().unwrap();
    calls
        .iter()
        .find(|call| call.call == name)
        .unwrap_or_else(|| panic!("{name}: {calls:?}"))
}

#[test]
fn a_static_file_takes_whole_numbers_of_calls() {
    if !Path::new("/usr/sbin/nginx").exists() {
        eprintln!("skipped: no nginx here");
        return;
    }
    let nginx = Nginx::start();
    nginx.requests(3);
    let probes = arm(vec![nginx.child.id() as i32]);
    nginx.requests(REQUESTS);
    let probed = probes.disarm();
    if refused(&probed) {
        return;
    }
    for name in ["recvfrom", "writev", "sendfile", "openat"] {
        let per_request = call(&probed, name).calls as f64 / REQUESTS as f64;
        assert!((per_request - 1.0).abs() < 0.02, "{name}: {per_request}");
    }
    let sendfile = call(&probed, "sendfile");
    assert_eq!(sendfile.bytes, REQUESTS * 1024);
    assert_eq!(sendfile.top_sizes, [(1024, REQUESTS)]);
    assert_eq!(sendfile.sizes[10], REQUESTS);
    assert!(probed.targets[0].cpu_system_ns.is_some());
    assert!(probed.targets[0].files.is_none());
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    let probed = arm(vec![i32::MAX - 1]).disarm();
    assert_eq!(probed.tier, Tier::Proc);
    let reasons = probed
        .unavailable
        .iter()
        .filter(|gap| gap.reason.contains("no"));
    assert!(reasons.count() >= 2, "{:?}", probed.unavailable);
    assert_eq!(probed.targets[0].calls, None);
}

#[test]
fn a_target_that_ends_while_it_is_counted_keeps_its_counts() {
    let mut child = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut byte = [0];
    // After an answer it is past its start, and its own calls are one read and one write a byte.
    let mut turn = || {
        input.write_all(b"x").unwrap();
        output.read_exact(&mut byte).unwrap();
    };
    turn();
    let probes = arm(vec![child.id() as i32]);
    for _ in 0..50 {
        turn();
    }
    drop(input);
    child.wait().unwrap();
    let probed = probes.disarm();
    if refused(&probed) {
        return;
    }
    assert_eq!(call(&probed, "write").calls, 50);
    assert_eq!(call(&probed, "write").bytes, 50);
    assert_eq!(call(&probed, "read").zero, 1);
    let gaps: Vec<_> = probed
        .unavailable
        .iter()
        .map(|gap| gap.what.as_str())
        .collect();
    assert!(
        gaps.contains(&"page faults and CPU time of web"),
        "{gaps:?}"
    );
}

#[test]
fn a_program_of_many_threads_is_counted_by_cpu() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    let idle: Vec<_> = (0..60)
        .map(|_| {
            let ended = ended.clone();
            std::thread::spawn(move || ended.lock().unwrap().recv().is_err())
        })
        .collect();
    let mut null = std::fs::File::create("/dev/null").unwrap();
    let probes = arm(vec![std::process::id() as i32]);
    for _ in 0..100 {
        null.write_all(&[0; 8192]).unwrap();
    }
    let probed = probes.disarm();
    drop(end);
    for thread in idle {
        assert!(thread.join().unwrap());
    }
    if refused(&probed) {
        return;
    }
    let sizes = &call(&probed, "write").top_sizes;
    assert!(sizes.contains(&(8192, 100)), "{sizes:?}");
}
