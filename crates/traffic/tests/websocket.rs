//! Loads over WebSocket against small servers, of which most do what a server must not.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

#[path = "websocket/server.rs"]
mod server;

use record::{Arrival, Body, Close, Engine, FailureKind, LoadOutcome, LoadSpec, Nanos};
use server::{echo, frame, serve};
use std::io::{Read, Write};
use std::net::TcpStream;
use traffic::Load;

/// Ten messages over two connections.
fn messages(url: &str) -> LoadSpec {
    LoadSpec {
        connections: 2,
        threads: Some(1),
        duration: None,
        requests: Some(10),
        timeout: Nanos::from_secs(20),
        body: Body::Text("hello".to_owned()),
        ..LoadSpec::new(url)
    }
}

fn run(spec: &LoadSpec) -> LoadOutcome {
    Load::prepare(spec).unwrap().start().unwrap().finish()
}

/// All of them fail, in this way, and the words of the first.
fn all_fail(spec: &LoadSpec, kind: FailureKind) -> String {
    let outcome = run(spec);
    assert_eq!(outcome.requests.succeeded, 0);
    let failed = &outcome.requests.failed;
    assert_eq!(failed.get(&kind), Some(&10), "{failed:?}");
    outcome.first_failure[&kind].clone()
}

#[test]
fn messages_come_back_over_either_engine_whatever_their_length() {
    let url = serve(echo);
    for engine in [Engine::Auto, Engine::Epoll, Engine::Uring] {
        for len in [0, 5, 126, 70_000, 3_000_000] {
            for each in [None, Some(1), Some(3)] {
                let spec = LoadSpec {
                    engine,
                    body: Body::Text("x".repeat(len)),
                    requests_per_connection: each,
                    ..messages(&url)
                };
                let load = match Load::prepare(&spec) {
                    // Where the kernel refuses it there is nothing to try.
                    Err(traffic::LoadError::Engine { .. }) => continue,
                    load => load.unwrap(),
                };
                let outcome = load.start().unwrap().finish();
                assert_eq!(outcome.requests.succeeded, 10, "{engine:?} {len} {each:?}");
                assert_eq!(outcome.contents.unwrap().body_bytes, 10 * len as u64);
                assert!(outcome.received_bytes >= 10 * (len as u64 + 2));
                assert!(outcome.sent_bytes >= 10 * (len as u64 + 6));
                assert!(outcome.status.is_empty(), "a message has no status");
                let opened = outcome.connections.opened;
                match each {
                    None => assert_eq!(opened, 2),
                    Some(n) => assert!(opened >= 10 / n, "{opened} by {n}"),
                }
            }
        }
    }
}

#[test]
fn messages_are_sent_by_the_clock_too() {
    let url = serve(echo);
    let spec = LoadSpec {
        arrival: Arrival::Constant { per_s: 200.0 },
        requests: None,
        duration: Some(Nanos::from_secs(1)),
        warmup: Nanos(200_000_000),
        close: Close::Rst,
        ..messages(&url)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.scheduled, 200);
    assert_eq!(outcome.requests.succeeded + outcome.requests.dropped, 200);
    assert!(outcome.response.count() > 0);
}

#[test]
fn texts_of_a_workload_are_the_messages() {
    use record::workload::{Template, Workload, WorkloadBody, WorkloadRequest};
    let url = serve(|mut stream| {
        while let Some((_, payload)) = frame(&mut stream) {
            let text = String::from_utf8(payload).unwrap();
            let number = text.strip_prefix("n=").and_then(|n| n.parse::<u64>().ok());
            let answer: &[u8] = match number {
                Some(1..=10) => b"\x81\x02ok",
                _ => b"\x88\x00",
            };
            stream.write_all(answer).unwrap();
        }
    });
    let request = |target: &str| WorkloadRequest {
        body: WorkloadBody::Text(Template::parse("n={{sequence}}").unwrap()),
        ..WorkloadRequest::get("numbered", Template::parse(target).unwrap())
    };
    let spec = LoadSpec {
        workload: Some(Workload::mix(vec![request("/"), request("/")])),
        ..messages(&url)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 10);
    assert_eq!(outcome.by_request.len(), 2);
    let elsewhere = LoadSpec {
        workload: Some(Workload::mix(vec![request("/"), request("/b")])),
        ..spec
    };
    let refused = Load::prepare(&elsewhere).err().unwrap().to_string();
    assert!(refused.contains("several paths"), "{refused}");
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_sent() {
    let refused = |change: fn(&mut LoadSpec)| {
        let mut spec = LoadSpec::new("ws://127.0.0.1:1/");
        change(&mut spec);
        let error = Load::prepare(&spec).err().unwrap();
        assert!(!error.remedy().is_empty());
        error.to_string()
    };
    assert!(refused(|s| s.http = record::Http::Two).contains("RFC 8441"));
    assert!(refused(|s| s.call_grpc()).contains("RFC 8441"));
    assert!(refused(|s| s.pipeline = 2).contains("several messages"));
    assert!(refused(|s| s.streams = 2).contains("several streams"));
    assert!(refused(|s| s.method = "POST".to_owned()).contains("method"));
    assert!(refused(|s| s.habits.http_1_0 = true).contains("another tool"));
    let with = |name: &str| {
        let headers = vec![(name.to_owned(), "x".to_owned())];
        let spec = LoadSpec {
            headers,
            ..LoadSpec::new("wss://127.0.0.1:1/")
        };
        Load::prepare(&spec).err().unwrap().to_string()
    };
    assert!(with("sec-websocket-key").contains("handshake itself"));
    assert!(with("Sec-WebSocket-Extensions").contains("extension"));
    let binary = LoadSpec {
        ws_binary: true,
        ..LoadSpec::new("http://127.0.0.1:1/")
    };
    let refused = Load::prepare(&binary).err().unwrap().to_string();
    assert!(refused.contains("binary messages"), "{refused}");
}

/// Answers the first message of each connection with these bytes and closes.
fn answering_once(bytes: &'static [u8]) -> String {
    serve(move |mut stream| {
        if frame(&mut stream).is_some() {
            // The client may have gone already.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    })
}

#[test]
fn what_a_server_must_not_send_fails_by_its_name() {
    for (bytes, kind, words) in [
        (&b"\x81\x85abcdhello"[..], FailureKind::WebSocket, "masked"),
        (
            b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
            FailureKind::WebSocket,
            "2^63",
        ),
        (b"\x81\x01\xff", FailureKind::WebSocket, "UTF-8"),
        (
            b"\x88\x02\x03\xf0",
            FailureKind::WebSocketClosed,
            "1008 (policy violation)",
        ),
        (b"\x81\x05he", FailureKind::Truncated, "in the middle"),
        (b"", FailureKind::ClosedEarly, "without a close frame"),
    ] {
        let said = all_fail(&messages(&answering_once(bytes)), kind);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_server_that_never_ends_its_message_meets_the_timeout() {
    let endless = |fill: &'static [u8]| {
        serve(move |mut stream| {
            frame(&mut stream);
            let mut out = b"\x01\x00".to_vec();
            out.extend(fill.repeat(1_000));
            while stream.write_all(&out).is_ok() {
                out = fill.repeat(1_000);
            }
        })
    };
    let byte_by_byte = serve(|mut stream: TcpStream| {
        frame(&mut stream);
        let _ = stream.write_all(b"\x82\x7f\x00\x00\xff\xff\xff\xff\xff\xff");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    for url in [endless(b"\x00\x00"), endless(b"\x89\x00"), byte_by_byte] {
        let spec = LoadSpec {
            timeout: Nanos(200_000_000),
            ..messages(&url)
        };
        let failed = run(&spec).requests.failed;
        // On a busy host the next connection may not be open within as short a time, either.
        let late = failed.get(&FailureKind::ConnectTimeout).unwrap_or(&0);
        assert!(failed[&FailureKind::Timeout] > 0, "{failed:?}");
        assert_eq!(failed[&FailureKind::Timeout] + late, 10, "{failed:?}");
    }
}

#[test]
fn a_server_that_speaks_only_http_is_refused_with_its_status() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4_096]);
            let _ = stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let said = all_fail(&messages(&url), FailureKind::UpgradeRefused);
    assert!(said.contains("status 403"), "{said}");
}
