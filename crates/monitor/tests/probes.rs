//! The probes against real processes and a real nginx, whose calls per request are known.
//!
//! Where the kernel refuses BPF, or nginx is not installed, the tests check that the reason is given.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use linux::Root;
use monitor::probe::{ProbeConfig, ProbeTarget, Probed, Probes};
use record::{Bytes, FdClass, LoadSpec, TargetSignature, Tier};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use traffic::Load;
use traffic::origin::{Origin, OriginSpec};

const REQUESTS: u64 = 300;

fn config(pids: &[i32], listens: &[u16]) -> ProbeConfig {
    ProbeConfig {
        allocator: true,
        targets: vec![ProbeTarget {
            target: "server".to_owned(),
            pids: pids.to_vec(),
            listens: listens.to_vec(),
            ..ProbeTarget::default()
        }],
        best_tier: Tier::Ebpf,
        root: Root::default(),
    }
}

fn id(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

/// The probes, when BPF is allowed; else it has checked that the refusal says why.
fn armed(config: &ProbeConfig) -> Option<Probes> {
    let probes = Probes::arm(config);
    if probes.tier() == Tier::Ebpf {
        return Some(probes);
    }
    let probed = probes.disarm();
    let refusal = probed.unavailable.iter().find(|u| u.what.contains("eBPF"));
    let refusal = refusal.unwrap();
    assert!(!refusal.reason.is_empty() && !refusal.remedy.is_empty());
    assert_eq!(probed.targets[0].calls, None);
    None
}

/// An nginx with one worker and a configuration of its own.
struct Nginx {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Nginx {
    /// `None` when nginx is not installed.
    fn start(upstream: &str, location: &str) -> Option<Self> {
        let binary = ["/usr/sbin/nginx", "/usr/bin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("one.bin"), vec![b'x'; 1024]).unwrap();
        let port = free_port();
        let text = format!(
            "daemon off; pid {root}/pid; error_log {root}/error.log; worker_processes 1;
             user nobody nogroup;
             events {{ worker_connections 256; }}
             http {{
               {upstream}
               access_log off; keepalive_requests 1000000; sendfile on;
               client_body_temp_path {root}/b; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f;
               uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
               server {{ listen 127.0.0.1:{port} sndbuf=1m; root {root}; {location} }}
             }}"
        );
        let file = dir.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let child = Command::new(binary)
            .args(["-p", root, "-c"])
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen");
            std::thread::yield_now();
        }
        let nginx = Self {
            child,
            port,
            _dir: dir,
        };
        // The first answer tells that its worker runs.
        nginx.load("/one.bin", 1);
        Some(nginx)
    }

    fn load(&self, path: &str, requests: u64) -> u64 {
        let spec = LoadSpec {
            connections: 4,
            duration: None,
            requests: Some(requests),
            ..LoadSpec::new(format!("http://127.0.0.1:{}{path}", self.port))
        };
        let outcome = Load::prepare(&spec).unwrap().start().unwrap().finish();
        outcome.requests.completed
    }

    fn probe(&self, path: &str) -> Option<Probed> {
        let probes = armed(&config(&[id(&self.child)], &[self.port]))?;
        assert_eq!(self.load(path, REQUESTS), REQUESTS);
        let probed = probes.disarm();
        // Another user of BPF on a busy core can make the kernel skip a program; that is counted, and rare.
        assert!(probed.lost <= REQUESTS / 20, "{}", probed.lost);
        Some(probed)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SAFETY: a plain system call; the child has not been waited for, so the id is still its own.
        unsafe { libc::kill(id(&self.child), libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Successful calls per request are within 2 %, the few calls of four connections and `slack` a request.
fn check_calls(signature: &TargetSignature, expected: &[(&str, FdClass, f64)], slack: f64) {
    for &(name, class, per_request) in expected {
        let all = signature.calls.as_ref().unwrap();
        let of_it = all.iter().find(|c| c.call == name && c.class == class);
        let ok = of_it.map_or(0, |c| c.calls - c.errors.values().sum::<u64>()) as f64;
        let off = (ok / REQUESTS as f64 - per_request).abs();
        assert!(
            off <= 0.02 * per_request + 6.0 / REQUESTS as f64 + slack,
            "{name} {class:?}: {} instead of {per_request}; all: {all:#?}",
            ok / REQUESTS as f64
        );
    }
}

#[test]
fn the_objects_are_what_their_sources_were_compiled_to() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    for object in ["prony", "turns"] {
        let list = fs::read_to_string(dir.join(format!("{object}.bpf.sha256"))).unwrap();
        let mut names = Vec::new();
        for line in list.lines() {
            let (expected, name) = line.split_once("  ").unwrap();
            let digest = Sha256::digest(fs::read(dir.join(name)).unwrap());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, expected, "{name}: run `make bpf`");
            names.push(name);
        }
        assert_eq!(
            names,
            [format!("{object}.bpf.c"), format!("{object}.bpf.o")]
        );
    }
}

#[test]
fn a_static_file_takes_six_calls_of_nginx() {
    let Some(nginx) = Nginx::start("", "") else {
        return;
    };
    let Some(probed) = nginx.probe("/one.bin") else {
        return;
    };
    let signature = &probed.targets[0];
    check_calls(
        signature,
        &[
            ("recvfrom", FdClass::Client, 1.0),
            ("writev", FdClass::Client, 1.0),
            ("sendfile", FdClass::Client, 1.0),
            ("openat", FdClass::None, 1.0),
            ("newfstatat", FdClass::File, 1.0),
            ("close", FdClass::File, 1.0),
        ],
        0.0,
    );
    let files = signature.files.as_ref().unwrap();
    let file = files.iter().find(|f| f.name.ends_with("/one.bin")).unwrap();
    assert_eq!((file.opens, file.missing), (REQUESTS, 0));
    let read = files.iter().find(|f| f.name == "one.bin").unwrap();
    assert_eq!((read.reads, read.read_bytes), (REQUESTS, REQUESTS * 1024));
    assert_eq!(signature.upstreams.as_deref(), Some(&[][..]));
    let sockets = signature.sockets.as_ref().unwrap();
    assert_eq!(sockets.len(), 1);
    assert_eq!(
        (sockets[0].class, sockets[0].established),
        (FdClass::Client, 4)
    );
    assert_eq!(sockets[0].closed_by_peer, 4);
    assert_eq!(signature.requests_taken, Some(REQUESTS));
    let heads = signature.heads.as_ref().unwrap();
    assert!(heads.iter().any(|h| h.kind == "request" && h.what == "GET"));
    assert!(heads.iter().any(|h| {
        h.kind == "response" && h.headers.get("content-length").is_some_and(|v| v == "1024")
    }));
    // The master slept through the whole window in one call that began before it.
    let blocked = signature.blocked.as_ref().unwrap();
    let longest = blocked.iter().map(|b| b.max_ns).max().unwrap();
    assert!(longest * 10 > probed.window_ns * 9, "{blocked:#?}");
    assert!(
        probed
            .cost
            .iter()
            .any(|c| c.probe == "syscalls" && c.measured_ns > Some(0))
    );
}

/// What is seen of a client that begins at a word, says one when it is done, and ends when its input does; `None`
/// without BPF.
fn probed_from_word_to_word(child: &mut Child) -> Option<Probed> {
    let Some(probes) = armed(&config(&[id(child)], &[])) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"go\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let probed = probes.disarm();
    drop(input);
    child.wait().unwrap();
    Some(probed)
}

/// One answer in two is a refusal, in four protocols; PostgreSQL's stands behind two messages that say that all went
/// well.
#[test]
fn answers_that_refuse_are_counted_by_their_codes() {
    const ASKED: u64 = 10;
    let pg = b"SERROR\0VERROR\0C40001\0Mcould not serialize access due to concurrent update\0\0";
    let mut refused = b"1\0\0\0\x042\0\0\0\x04E".to_vec();
    refused.extend((4 + pg.len() as u32).to_be_bytes());
    refused.extend(pg);
    let mysql = b"\xff\xbd\x04#40001Deadlock found when trying to get lock";
    let mut deadlock = vec![mysql.len() as u8, 0, 0, 1];
    deadlock.extend(mysql);
    let answers: [[Vec<u8>; 2]; 5] = [
        [
            refused,
            b"C\0\0\0\rSELECT 1\0Z\0\0\0\x05I and a row that is long".to_vec(),
        ],
        [deadlock, b"\x07\0\0\x01\0\0\0\x02\0\0\0".to_vec()],
        [
            b"-OOM command not allowed\r\n".to_vec(),
            b"+OK\r\n".to_vec(),
        ],
        [
            b"SERVER_ERROR object too large for cache\r\n".to_vec(),
            b"STORED\r\n".to_vec(),
        ],
        [
            b"HTTP/1.1 500 Error\r\n\r\n".to_vec(),
            b"-- an answer\r\n".to_vec(),
        ],
    ];
    let listeners: Vec<_> = (answers.iter())
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let ports: Vec<String> = (listeners.iter())
        .map(|l| l.local_addr().unwrap().port().to_string())
        .collect();
    let script = "import socket, sys\ninput()\nfor port in sys.argv[1:]:\n    peer = socket.create_connection(('127.0.0.1', int(port)))\n    for _ in range(20):\n        peer.send(b'?'); peer.recv(4096)\nprint('done', flush=True)\nsys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).args(&ports);
    let mut child = (command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()).unwrap();
    let servers: Vec<_> = (listeners.into_iter().zip(answers))
        .map(|(listener, answers)| {
            std::thread::spawn(move || {
                let (mut peer, _) = listener.accept().unwrap();
                let mut asked = 0;
                while peer.read(&mut [0; 16]).unwrap() > 0 {
                    peer.write_all(&answers[asked % 2]).unwrap();
                    asked += 1;
                }
            })
        })
        .collect();
    let Some(probed) = probed_from_word_to_word(&mut child) else {
        eprintln!("skipped: no BPF");
        return;
    };
    servers
        .into_iter()
        .for_each(|server| server.join().unwrap());
    let mut seen: Vec<(&str, &str, u64)> = (probed.targets[0].refusals.iter().flatten())
        .map(|r| (r.protocol.as_str(), r.code.as_str(), r.answers))
        .collect();
    seen.sort_unstable();
    let expected = [
        ("MySQL", "1213", ASKED),
        ("PostgreSQL", "40001", ASKED),
        ("Redis", "OOM", ASKED),
        ("memcached", "object too ", ASKED),
    ];
    assert_eq!(seen, expected);
}

/// What is seen of a client in Python that asks a server once for each element of `questions`, an expression; `None`
/// without BPF.
fn client_asks(questions: &str, answer: fn(&[u8]) -> Vec<u8>) -> Option<Probed> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let script = format!(
        "import socket, struct, sys\ndef m(kind, body): return kind + struct.pack('>I', 4 + len(body)) + body\ninput()\n\
         peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\nfor question in {questions}:\n    \
         peer.send(question); peer.recv(4096)\nprint('done', flush=True)\nsys.stdin.read()"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &script, &port]);
    let mut child = (command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()).unwrap();
    let server = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().unwrap();
        let mut question = [0; 256];
        loop {
            match peer.read(&mut question).unwrap() {
                0 => break,
                read => peer.write_all(&answer(&question[..read])).unwrap(),
            }
        }
    });
    let probed = probed_from_word_to_word(&mut child)?;
    server.join().unwrap();
    Some(probed)
}

/// A cache that is asked for one key after the other and has none of them, and once in four is told something.
#[test]
fn what_an_upstream_is_asked_is_told_without_its_values() {
    const ASKED: u64 = 2000;
    let questions = "(b'set name:%d 0 9 1\\r\\nx\\r\\n' % i if i % 4 == 3 else b'get user:%d\\r\\n' % i for i in range(2000))";
    let answer = |question: &[u8]| match question[0] {
        b's' => b"STORED\r\n".to_vec(),
        _ => b"END\r\n".to_vec(),
    };
    let Some(probed) = client_asks(questions, answer) else {
        eprintln!("skipped: no BPF");
        return;
    };
    let upstream = &probed.targets[0].upstreams.as_ref().unwrap()[0];
    assert_eq!(upstream.requests, ASKED);
    let [get, set] = upstream.asked.as_slice() else {
        panic!("two kinds: {:?}", upstream.asked);
    };
    let (get, set) = if get.text.starts_with("get") {
        (get, set)
    } else {
        (set, get)
    };
    assert_eq!(
        (get.text.as_str(), set.text.as_str()),
        ("get user:?", "set name:?")
    );
    assert_eq!(get.protocol, "memcached");
    assert_eq!(
        (get.told, get.empty, get.rows),
        (get.turns, get.turns, 0),
        "all were missed"
    );
    assert_eq!(set.told, 0, "what is stored is found nowhere");
    // Nearly 110 of the later ones are chosen, each for 16: five standard deviations of their number.
    let all = get.turns + set.turns;
    assert!((1150..2850).contains(&all), "{all} of {ASKED}");
    assert!(get.seen + set.seen < ASKED / 4, "few are looked at");
    let waited = (get.wait_ns + set.wait_ns) as f64 / upstream.wait_ns as f64;
    assert!((0.3..3.0).contains(&waited), "{waited} of the time");
}

/// A statement without a name is prepared in one turn and executed in the next; between them stand plain ones.
#[test]
fn what_a_statement_takes_is_told_with_its_preparation() {
    let questions = "[m(b'P', b'\\0SELECT a FROM slow WHERE b = $1\\0\\0\\0') + m(b'S', b''), m(b'B', bytes(6)) + m(b'E', bytes(5)), \
                     m(b'Q', b'SELECT 7\\0'), m(b'P', b'\\0SELECT b FROM other\\0\\0\\0') + m(b'B', bytes(6))] * 60";
    let answer = |question: &[u8]| {
        if question[0] == b'B' {
            std::thread::sleep(Duration::from_millis(5));
        }
        b"C\0\0\0\rSELECT 1\0Z\0\0\0\x05I".to_vec()
    };
    let Some(probed) = client_asks(questions, answer) else {
        eprintln!("skipped: no BPF");
        return;
    };
    let upstreams = probed.targets[0].upstreams.as_ref().unwrap();
    let upstream = &upstreams[0];
    // A call that the kernel skipped on a busy core may hide a turn.
    let lost = probed.lost;
    let nearly = |turns: u64, all: u64| turns.abs_diff(all) <= lost;
    let seen = format!("{lost} calls lost; {upstreams:?}");
    assert!(nearly(upstream.requests, 240), "{seen}");
    // The slow one first; all of the first 256 are looked at.
    let slow = upstream.asked.first().expect(&seen);
    assert_eq!(slow.text, "SELECT a FROM slow WHERE b = ?", "{seen}");
    assert!(nearly(slow.turns, 120), "{seen}");
    for text in ["SELECT ?", "SELECT b FROM other"] {
        let of_it = upstream.asked.iter().find(|q| q.text == text);
        assert!(of_it.is_some_and(|q| nearly(q.turns, 60)), "{text}: {seen}");
    }
    if lost == 0 {
        assert_eq!(upstream.asked.len(), 3, "{seen}");
    }
    let share = upstream.asked[0].wait_ns as f64 / upstream.wait_ns as f64;
    assert!(share > 0.5, "{share} of the wait");
}

/// What a TLS client sends before its first request asks for nothing, by either version's handshake and however many
/// requests follow.
#[test]
fn a_handshake_is_no_request() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert"), dir.path().join("key"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    for version in ["TLSv1.2", "TLSv1.3"] {
        let port = free_port();
        let (cert, key) = (cert.display(), key.display());
        let listen = format!(
            "listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key}; ssl_protocols {version};"
        );
        let Some(nginx) = Nginx::start("", &listen) else {
            eprintln!("skipped: nginx is not installed");
            return;
        };
        for per_connection in [1, 5] {
            let Some(probes) = armed(&config(&[id(&nginx.child)], &[port])) else {
                eprintln!("skipped: no BPF");
                return;
            };
            let spec = LoadSpec {
                connections: 4,
                duration: None,
                requests: Some(REQUESTS),
                requests_per_connection: Some(per_connection),
                insecure: true,
                ..LoadSpec::new(format!("https://127.0.0.1:{port}/one.bin"))
            };
            let outcome = Load::prepare(&spec).unwrap().start().unwrap().finish();
            assert_eq!(outcome.requests.succeeded, REQUESTS);
            let probed = probes.disarm();
            let taken = probed.targets[0].requests_taken.unwrap();
            // A call that the kernel skipped on a busy core may hide a request or the end of a handshake.
            assert!(
                taken.abs_diff(REQUESTS) <= probed.lost,
                "{version}, {per_connection} a connection: {taken} of {REQUESTS}, {} lost",
                probed.lost
            );
        }
    }
}

#[test]
fn a_proxied_answer_shows_the_buffers() {
    let origin = Origin::start(&OriginSpec {
        body: Bytes(91_000),
        ..OriginSpec::new("127.0.0.1:0".parse().unwrap())
    })
    .unwrap();
    // An answer that nginx meets half-arrived on a busy machine takes a read or a few writes more.
    const HALF_ARRIVED: f64 = 0.5;
    for (buffers, readv, of_4096, writev) in [
        ("", 10.0, Some(8.0), Some(11.0)),
        ("proxy_buffers 128 4k;", 22.0, None, None),
        ("proxy_buffers 4 128k;", 1.0, None, None),
    ] {
        let location = format!(
            "location /p {{ proxy_pass http://back/; {buffers} proxy_http_version 1.1;
               proxy_set_header Connection ''; }}"
        );
        let upstream = format!(
            "upstream back {{ server {}; keepalive 8; }}",
            origin.address()
        );
        let Some(nginx) = Nginx::start(&upstream, &location) else {
            return;
        };
        let Some(probed) = nginx.probe("/p") else {
            return;
        };
        let signature = &probed.targets[0];
        check_calls(signature, &[("writev", FdClass::Upstream, 1.0)], 0.0);
        check_calls(
            signature,
            &[("readv", FdClass::Upstream, readv)],
            HALF_ARRIVED,
        );
        let calls = signature.calls.as_ref().unwrap();
        // The most frequent size of a call, and how many of it there were to a request.
        let most = |name: &str, class: FdClass| {
            let of_it = calls.iter().find(|c| c.call == name && c.class == class);
            let (size, calls) = of_it.unwrap().top_sizes[0];
            (size, calls as f64 / REQUESTS as f64)
        };
        if let Some(exact) = of_4096 {
            let (size, reads) = most("readv", FdClass::Upstream);
            assert!(
                size == 4096 && (reads - exact).abs() < HALF_ARRIVED,
                "{calls:#?}"
            );
        }
        match writev {
            Some(writev) => check_calls(
                signature,
                &[("writev", FdClass::Client, writev)],
                HALF_ARRIVED,
            ),
            // All of the answer at once.
            None => {
                let (size, whole) = most("writev", FdClass::Client);
                assert!(size > 91_000 && (0.9..=1.0).contains(&whole), "{calls:#?}");
            }
        }
        assert!(
            calls.iter().all(|c| c.class != FdClass::Unknown),
            "{calls:#?}"
        );
        let upstreams = signature.upstreams.as_ref().unwrap();
        assert_eq!(upstreams.len(), 1);
        let upstream = &upstreams[0];
        assert_eq!(upstream.address, origin.address().to_string());
        assert_eq!(upstream.requests, REQUESTS);
        assert_eq!(upstream.waits.iter().sum::<u64>(), REQUESTS);
        assert!(upstream.wait_ns > 0);
        // The answer is there before nginx reads it; only what arrived before a socket was first seen is missing.
        let answered = upstream.answered.iter().sum::<u64>();
        assert!(
            (REQUESTS - 4..=REQUESTS).contains(&answered),
            "{upstream:?}"
        );
        let answered_ns = upstream.answered_ns.unwrap();
        assert!(
            answered_ns > 0 && answered_ns < upstream.wait_ns,
            "{upstream:?}"
        );
        assert_eq!(signature.requests_taken, Some(REQUESTS));
        assert!(upstream.read_bytes > REQUESTS * 91_000);
        assert!(upstream.connects <= 4);
        if let Some(allocator) = &signature.allocator {
            let of = |name: &str| allocator.calls[name];
            assert!(
                of("malloc") + of("posix_memalign") >= REQUESTS,
                "{allocator:?}"
            );
            assert!(of("free") >= REQUESTS, "{allocator:?}");
        }
    }
}

#[test]
fn refused_connects_are_told_from_those_in_progress() {
    let location = format!(
        "location /p {{ proxy_pass http://127.0.0.1:{}; }}",
        free_port()
    );
    let Some(nginx) = Nginx::start("", &location) else {
        return;
    };
    let Some(probed) = nginx.probe("/p") else {
        return;
    };
    let signature = &probed.targets[0];
    let upstream = &signature.upstreams.as_ref().unwrap()[0];
    assert_eq!(upstream.connects, REQUESTS);
    let refused = BTreeMap::from([("ECONNREFUSED".to_owned(), REQUESTS)]);
    assert_eq!(upstream.connect_errors, refused);
    let sockets = signature.sockets.as_ref().unwrap();
    let socket = sockets.iter().find(|s| s.class == FdClass::Upstream);
    let socket = socket.unwrap();
    assert_eq!((socket.established, &socket.connect_errors), (0, &refused));
}

/// A shell that runs `script` once it has read a line.
struct Shell(Child);

impl Shell {
    fn start(script: &str) -> Self {
        let child = Command::new("/bin/sh")
            .args(["-c", &format!("read line; {script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn go(&mut self) {
        drop(self.0.stdin.take());
    }

    fn finish(&mut self) {
        self.go();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_child_is_followed_and_a_target_may_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("written");
    let script = format!(
        "(dd if=/dev/zero of={} bs=4096 count=25 oflag=append conv=notrunc 2>/dev/null)",
        file.display()
    );
    let mut shell = Shell::start(&format!("{script}; :"));
    let Some(probes) = armed(&config(&[id(&shell.0)], &[])) else {
        return;
    };
    shell.finish();
    let probed = probes.disarm();
    let signature = &probed.targets[0];
    assert!(signature.forks >= Some(1), "{signature:?}");
    assert_eq!(signature.execs, Some(1));
    let calls = signature.calls.as_ref().unwrap();
    let write = calls
        .iter()
        .find(|c| c.call == "write" && c.class == FdClass::File)
        .unwrap();
    assert_eq!((write.calls, write.full, write.bytes), (25, 25, 25 * 4096));
    assert_eq!(write.top_sizes, [(4096, 25)]);
    let files = signature.files.as_ref().unwrap();
    let written = files.iter().find(|f| f.name == "written").unwrap();
    assert_eq!((written.writes, written.append), (25, true));
    // It is gone, so what only /proc knew is not known, and that is said.
    assert_eq!(signature.minor_faults, None);
    assert!(
        probed
            .unavailable
            .iter()
            .any(|u| u.what.contains("page faults"))
    );
}

#[test]
fn calls_of_others_are_not_counted() {
    let mut watched = Shell::start(":");
    let mut other = Shell::start("cat /etc/passwd; cat /etc/passwd");
    let Some(probes) = armed(&config(&[id(&watched.0)], &[])) else {
        other.finish();
        watched.finish();
        return;
    };
    other.finish();
    let probed = probes.disarm();
    watched.finish();
    assert_eq!(probed.targets[0].calls.as_deref(), Some(&[][..]));
    assert_eq!(probed.targets[0].forks, Some(0));
}

#[test]
fn a_process_that_does_not_exist_is_named() {
    let mut shell = Shell::start(":");
    let pid = id(&shell.0);
    shell.finish();
    let Some(probes) = armed(&config(&[pid], &[])) else {
        return;
    };
    let probed = probes.disarm();
    let named = format!("process {pid} of server");
    assert!(
        probed.unavailable.iter().any(|u| u.what == named),
        "{probed:?}"
    );
}

#[test]
fn a_lower_tier_can_be_asked_for() {
    let own = i32::try_from(std::process::id()).unwrap();
    let probes = Probes::arm(&ProbeConfig {
        best_tier: Tier::Proc,
        ..config(&[own], &[])
    });
    assert_eq!(probes.tier(), Tier::Proc);
    let probed = probes.disarm();
    assert!(probed.targets[0].minor_faults.is_some());
    assert_eq!(probed.targets[0].calls, None);
}
