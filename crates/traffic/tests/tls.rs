//! HTTPS loads against a small rustls server with a certificate made for the test.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use record::{FailureKind, LoadOutcome, LoadSpec, Nanos};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use traffic::Load;

type Stream = StreamOwned<ServerConnection, TcpStream>;

fn server_config(alpn: &[u8]) -> Arc<ServerConfig> {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    Arc::new(config)
}

/// Calls `play` with each connection, in a thread of its own; returns the URL.
fn serve(play: impl Fn(Stream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let config = server_config(b"http/1.1");
    let play = Arc::new(play);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let play = Arc::clone(&play);
            thread::spawn(move || play(StreamOwned::new(session, stream)));
        }
    });
    url
}

fn read_request(stream: &mut Stream) -> bool {
    let mut tail = [0; 4];
    let mut byte = [0];
    while tail != *b"\r\n\r\n" {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return false;
        }
        tail.rotate_left(1);
        tail[3] = byte[0];
    }
    true
}

/// Answers each request with a body of this length.
fn answering(len: usize) -> String {
    serve(move |mut stream| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n").into_bytes();
        response.resize(response.len() + len, b'x');
        while read_request(&mut stream) && stream.write_all(&response).is_ok() {
            let _ = stream.flush();
        }
    })
}

fn run(spec: &LoadSpec) -> LoadOutcome {
    Load::prepare(spec).unwrap().start().unwrap().finish()
}

fn requests(url: String, n: u64) -> LoadSpec {
    LoadSpec {
        connections: 2,
        duration: None,
        requests: Some(n),
        insecure: true,
        ..LoadSpec::new(url)
    }
}

#[test]
fn https_carries_requests_and_says_what_was_agreed() {
    for len in [5, 300_000] {
        let outcome = run(&requests(answering(len), 40));
        assert_eq!(
            outcome.requests.succeeded, 40,
            "{:?}",
            outcome.first_failure
        );
        assert_eq!(outcome.connections.opened, 2);
        assert_eq!(outcome.connections.alpn, "http/1.1");
        assert_eq!(outcome.generator.engine, "epoll+tls");
        assert!(outcome.received_bytes > 40 * len as u64);
    }
}

#[test]
fn a_limit_below_tls_holds_for_its_records() {
    let spec = LoadSpec {
        limit_rate: Some(record::Bytes(1 << 20)),
        timeout: Nanos::from_secs(60),
        ..requests(answering(300_000), 4)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 4, "{:?}", outcome.first_failure);
    assert_eq!(outcome.generator.engine, "epoll+tls");
    let least_s = 0.8 * 600_000.0 / f64::from(1 << 20);
    assert!(outcome.measured().as_secs_f64() >= least_s);
}

#[test]
fn sessions_are_resumed_and_counted() {
    let spec = LoadSpec {
        connections: 1,
        requests_per_connection: Some(1),
        ..requests(answering(5), 6)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 6, "{:?}", outcome.first_failure);
    let connections = &outcome.connections;
    assert_eq!((connections.tls_full, connections.tls_resumed), (1, 5));
    assert_eq!(outcome.connect.count(), 6);
}

#[test]
fn an_unknown_certificate_is_refused_with_the_reason() {
    let spec = LoadSpec {
        insecure: false,
        timeout: Nanos::from_secs(2),
        connections: 1,
        ..requests(answering(5), 2)
    };
    // A host without any root certificate cannot refuse one: it is told to install them.
    let load = match Load::prepare(&spec) {
        Ok(load) => load,
        Err(error) => return assert!(error.remedy().contains("ca-certificates")),
    };
    let outcome = load.start().unwrap().finish();
    assert_eq!(outcome.requests.failed[&FailureKind::Tls], 2);
    let words = &outcome.first_failure[&FailureKind::Tls];
    assert!(words.contains("certificate"), "{words}");
}

#[test]
fn a_body_cut_without_the_end_mark_of_tls_is_truncated() {
    let cut = serve(|mut stream| {
        if read_request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
            let _ = stream.flush();
        }
    });
    let outcome = run(&requests(cut, 2));
    assert_eq!(outcome.requests.failed[&FailureKind::Truncated], 2);
    let whole = serve(|mut stream| {
        if read_request(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\n\r\nhello");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let outcome = run(&requests(whole, 2));
    assert_eq!(outcome.requests.succeeded, 2, "{:?}", outcome.first_failure);
}

#[test]
fn large_requests_go_out_whole() {
    const LEN: usize = 1_000_000;
    let url = serve(|mut stream| {
        let mut body = vec![0; LEN];
        while read_request(&mut stream) && stream.read_exact(&mut body).is_ok() {
            assert!(body.iter().all(|&b| b == b'x'));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.flush();
        }
    });
    let spec = LoadSpec {
        method: "POST".to_owned(),
        body: record::Body::Text("x".repeat(LEN)),
        timeout: Nanos::from_secs(20),
        ..requests(url, 4)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 4, "{:?}", outcome.first_failure);
}
