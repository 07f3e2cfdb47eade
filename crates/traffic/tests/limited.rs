//! Loads whose connections have a limited bandwidth, against servers that look at what is taken from them.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use record::{Body, Bytes, Engine, FailureKind, LoadOutcome, LoadSpec, Nanos};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;
use traffic::Load;
use traffic::origin::{Origin, OriginSpec};

/// Requests over one connection that carries so many bytes a second.
fn limited(url: impl Into<String>, bytes_per_s: u64, requests: u64) -> LoadSpec {
    LoadSpec {
        connections: 1,
        duration: None,
        requests: Some(requests),
        timeout: Nanos::from_secs(60),
        limit_rate: Some(Bytes(bytes_per_s)),
        ..LoadSpec::new(url)
    }
}

fn run(spec: &LoadSpec) -> LoadOutcome {
    Load::prepare(spec).unwrap().start().unwrap().finish()
}

/// A connection passes so many bytes in no less time than the limit says, its first burst aside.
fn check_time(took: Nanos, bytes: u64, bytes_per_s: u64) {
    let least = bytes as f64 / bytes_per_s as f64;
    assert!(took.as_secs_f64() >= 0.8 * least, "{took} for {bytes} B");
}

fn with_origin(test: impl Fn(&dyn Fn(&str) -> String)) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let origin = Origin::start(&OriginSpec::new(listen)).unwrap();
    test(&|path| format!("http://{}{path}", origin.address()));
    origin.stop();
}

#[test]
fn a_body_comes_at_the_limit_and_whole() {
    const RATE: u64 = 2 << 20;
    with_origin(|url| {
        let outcome = run(&limited(url("/bytes/1MiB"), RATE, 2));
        assert_eq!(outcome.requests.succeeded, 2, "{:?}", outcome.first_failure);
        assert!(outcome.received_bytes >= 2 << 20);
        assert_eq!(outcome.generator.engine, "epoll");
        assert_eq!(outcome.warnings[0].name, "limited_rate");
        check_time(outcome.measured(), 2 << 20, RATE);
        // Both directions, one by one.
        let upload = LoadSpec {
            method: "POST".to_owned(),
            body: Body::Text("x".repeat(1 << 20)),
            ..limited(url("/upload"), RATE, 2)
        };
        let outcome = run(&upload);
        assert_eq!(outcome.requests.succeeded, 2, "{:?}", outcome.first_failure);
        assert!(outcome.sent_bytes >= 2 << 20);
        check_time(outcome.measured(), 2 << 20, RATE);
    });
}

#[test]
fn many_connections_each_have_the_limit() {
    const RATE: u64 = 100_000;
    with_origin(|url| {
        // As many as io_uring would carry without the limit.
        let spec = LoadSpec {
            connections: 200,
            threads: Some(1),
            ..limited(url("/bytes/50k"), RATE, 400)
        };
        let outcome = run(&spec);
        assert_eq!(outcome.requests.succeeded, 400);
        assert_eq!(outcome.connections.opened, 200);
        assert_eq!(outcome.generator.engine, "epoll");
        check_time(outcome.response.quantile(0.01).unwrap(), 50_000, RATE);
    });
}

#[test]
fn small_responses_pass_within_a_burst_and_wait_behind_it() {
    const RATE: u64 = 50_000;
    with_origin(|url| {
        let outcome = run(&limited(url("/bytes/100"), RATE, 200));
        assert_eq!(outcome.requests.succeeded, 200);
        check_time(outcome.measured(), outcome.received_bytes, RATE);
        let fastest = outcome.response.quantile(0.0).unwrap();
        let mean = outcome.measured().0 / 200;
        assert!(fastest.0 < mean, "{fastest} of {mean} ns");
    });
}

/// Answers each connection's first request by `play`; returns the URL.
fn serve(play: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            // A request of one segment comes whole.
            if matches!(stream.read(&mut [0; 1_024]), Ok(1..)) {
                play(stream);
            }
        }
    });
    url
}

/// The end of the stream lies in the kernel while the connection pauses.
#[test]
fn an_end_in_a_pause_ends_the_response() {
    const LEN: u64 = 3_000;
    const RATE: u64 = 4_096;
    let url = serve(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        let _ = stream.write_all(&[b'x'; LEN as usize]);
    });
    let outcome = run(&limited(url, RATE, 3));
    assert_eq!(outcome.requests.succeeded, 3, "{:?}", outcome.first_failure);
    assert_eq!(outcome.connections.closed_by_server, 3);
    assert!(outcome.received_bytes >= 3 * LEN);
    // Each connection begins with a segment's worth.
    check_time(outcome.measured(), 3 * (LEN - 1_460), RATE);
}

#[test]
fn a_request_times_out_in_a_pause() {
    with_origin(|url| {
        let spec = LoadSpec {
            timeout: Nanos::from_millis(100),
            ..limited(url("/bytes/1M"), 10_000, 2)
        };
        let outcome = run(&spec);
        assert_eq!(outcome.requests.failed[&FailureKind::Timeout], 2);
        assert_eq!(outcome.requests.succeeded, 0);
    });
}

/// Bytes that the peer's kernel has not acknowledged yet.
fn unacknowledged(stream: &TcpStream) -> usize {
    let mut queued: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which is TIOCOUTQ, writes one int.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    assert_eq!(asked, 0);
    usize::try_from(queued).unwrap()
}

/// What the server has to send stands in its own send queue, and not in the receive queue of a kernel that takes all of
/// it.
#[test]
fn the_server_sees_a_slow_reader() {
    const LEN: usize = 256 * 1_024;
    const RATE: u64 = 64 * 1_024;
    const PIECE: usize = 4_096;
    let (tell, told) = mpsc::channel();
    let url = serve(move |mut stream| {
        let asked_at = Instant::now();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        for piece in 1..=LEN / PIECE {
            stream.write_all(&[b'x'; PIECE]).unwrap();
            let queued = unacknowledged(&stream);
            let taken = (head.len() + piece * PIECE).saturating_sub(queued);
            tell.send((asked_at.elapsed().as_secs_f64(), taken, queued))
                .unwrap();
        }
        // It closes, when all was taken, only after the client.
        let _ = stream.read(&mut [0]);
    });
    let outcome = run(&limited(url, RATE, 1));
    assert_eq!(outcome.requests.succeeded, 1, "{:?}", outcome.first_failure);
    let samples: Vec<(f64, usize, usize)> = told.try_iter().collect();
    assert_eq!(samples.len(), LEN / PIECE);
    for &(at, taken, _) in &samples {
        // What was read, a burst, and the receive buffer with what the kernel doubles it for.
        let most = 1.25 * RATE as f64 * (at + 0.02 + 0.2);
        assert!((taken as f64) < most, "{taken} B after {at} s");
    }
    let longest = samples.iter().map(|(.., queued)| *queued).max();
    assert!(longest >= Some(LEN / 8), "{longest:?}");
}

#[test]
fn what_cannot_be_limited_is_refused() {
    let url = "http://127.0.0.1:1/";
    let refused = |change: fn(&mut LoadSpec)| {
        let mut spec = limited(url, 1_000, 1);
        change(&mut spec);
        let error = Load::prepare(&spec).err().unwrap();
        assert!(!error.remedy().is_empty());
        error.to_string()
    };
    assert!(refused(|s| s.engine = Engine::Uring).contains("--engine uring with --limit-rate"));
    assert!(refused(|s| s.transport = record::Carrier::Tap).contains("prony's own"));
    assert!(refused(|s| s.limit_rate = Some(Bytes(0))).contains("no byte"));
}
