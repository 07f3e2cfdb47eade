//! Loads of server-sent events against small servers, of which most do what a server must not.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

#[path = "sse/server.rs"]
mod server;

use record::{
    Arrival, Body, Engine, EventStreams, FailureKind, Http, LoadOutcome, LoadSpec, Nanos,
};
use server::{CHUNKED, chunk, endless, serve};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use traffic::Load;

const UNTIL_CLOSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// Twelve events over two streams.
fn events(url: &str) -> LoadSpec {
    LoadSpec {
        sse: true,
        connections: 2,
        threads: Some(1),
        duration: None,
        requests: Some(12),
        timeout: Nanos::from_secs(20),
        ..LoadSpec::new(url)
    }
}

fn run(spec: &LoadSpec) -> LoadOutcome {
    Load::prepare(spec).unwrap().start().unwrap().finish()
}

fn streams(outcome: &LoadOutcome) -> &EventStreams {
    outcome.event_streams.as_ref().unwrap()
}

/// Sends `out` and closes in order, when the client has.
fn play(mut stream: TcpStream, out: &str) {
    // The client may have gone already.
    let _ = stream.write_all(out.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// All of twelve fail, in this way; the words of the first.
fn all_fail(out: &'static str, kind: FailureKind) -> String {
    let outcome = run(&events(&serve(move |stream, _| play(stream, out))));
    assert_eq!(outcome.requests.succeeded, 0, "{out}");
    let failed = &outcome.requests.failed;
    assert_eq!(failed.get(&kind), Some(&12), "{out} {failed:?}");
    outcome.first_failure[&kind].clone()
}

#[test]
fn events_are_counted_over_either_engine_and_by_several_threads() {
    let url = serve(endless);
    for engine in [Engine::Auto, Engine::Epoll, Engine::Uring] {
        for (connections, threads) in [(1, 1), (4, 1), (4, 2)] {
            let spec = LoadSpec {
                engine,
                connections,
                threads: Some(threads),
                requests: Some(5_000),
                ..events(&url)
            };
            let load = match Load::prepare(&spec) {
                // Where the kernel refuses it there is nothing to try.
                Err(traffic::LoadError::Engine { .. }) => continue,
                load => load.unwrap(),
            };
            let outcome = load.start().unwrap().finish();
            let each = u64::from(connections);
            assert_eq!(outcome.requests.succeeded, 5_000);
            assert_eq!(outcome.requests.sent, 5_000);
            assert_eq!(outcome.requests.failures(), 0);
            assert_eq!(outcome.connections.opened, each);
            let streams = streams(&outcome);
            assert_eq!((streams.opened, streams.open), (each, each));
            assert_eq!((streams.reopened, streams.ended), (0, 0));
            assert_eq!(streams.first_event.count(), each);
            assert_eq!(outcome.first_byte.count(), each);
            assert_eq!(streams.gap.count(), 5_000 - each);
            // No latency is made up.
            assert_eq!(outcome.response.count() + outcome.service.count(), 0);
            assert!(outcome.status.is_empty(), "an event has no status");
            assert!(outcome.intervals.iter().all(|i| i.response_ns_max == 0));
        }
    }
}

#[test]
fn a_request_asks_for_events_as_it_was_given() {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    let url = serve(move |mut stream, head| {
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        seen.lock().unwrap().push(head.to_owned() + &body);
        endless(stream, "");
    });
    let spec = LoadSpec {
        connections: 1,
        method: "POST".to_owned(),
        body: Body::Text("topic".to_owned()),
        headers: vec![("Last-Event-ID".to_owned(), "7".to_owned())],
        ..events(&url)
    };
    assert_eq!(run(&spec).requests.succeeded, 12);
    let head = heads.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST / HTTP/1.1\r\n"), "{head}");
    for line in ["Accept: text/event-stream", "Last-Event-ID: 7"] {
        assert!(head.contains(&format!("{line}\r\n")), "{head}");
    }
    assert!(head.ends_with("topic"), "{head}");
}

#[test]
fn a_stream_that_ends_between_two_events_is_opened_anew() {
    let three = "retry: 1\n: alive\ndata: 1\n\nevent: x\ndata: 2\n\ndata: 3\n\n";
    let until_close = UNTIL_CLOSE.to_owned() + three;
    let chunked = CHUNKED.to_owned() + &chunk(three) + "0\r\n\r\n";
    // A line, its end and a chunk may be cut anywhere.
    let bytewise: String = three.chars().map(|c| chunk(&c.to_string())).collect();
    let bytewise = CHUNKED.to_owned() + &bytewise + "0\r\n\r\n";
    for out in [until_close, chunked, bytewise] {
        let outcome = run(&events(&serve(move |stream, _| play(stream, &out))));
        assert_eq!(outcome.requests.succeeded, 12);
        assert_eq!(
            outcome.requests.failures(),
            0,
            "{:?}",
            outcome.first_failure
        );
        let streams = streams(&outcome);
        assert!((4..=6).contains(&streams.opened), "{}", streams.opened);
        assert!(streams.reopened >= streams.opened - 2);
        assert!((2..=streams.opened).contains(&streams.ended));
        assert!(streams.comments >= 4);
        assert_eq!(outcome.requests.retried, outcome.connections.opened - 2);
        assert_eq!(streams.first_event.count(), streams.opened);
        assert_eq!(streams.gap.count() + streams.opened, 12);
    }
}

#[test]
fn a_server_may_keep_a_stream_away_for_a_time_up_to_the_timeout() {
    let ended = Arc::new(Mutex::new(Vec::new()));
    let opened = Arc::new(Mutex::new(Vec::new()));
    let (at_end, at_open) = (Arc::clone(&ended), Arc::clone(&opened));
    let url = serve(move |stream, _| {
        at_open.lock().unwrap().push(Instant::now());
        at_end.lock().unwrap().push(Instant::now());
        play(stream, &(UNTIL_CLOSE.to_owned() + "retry: 60\ndata: x\n\n"));
    });
    let spec = LoadSpec {
        connections: 1,
        requests: Some(4),
        ..events(&url)
    };
    assert_eq!(run(&spec).requests.succeeded, 4);
    let (ended, opened) = (ended.lock().unwrap(), opened.lock().unwrap());
    for (end, next) in ended.iter().zip(&opened[1..]) {
        assert!(*next - *end >= Duration::from_millis(60));
    }
    let an_hour = "retry: 3600000\ndata: x\n\n";
    let url = serve(move |stream, _| play(stream, &(UNTIL_CLOSE.to_owned() + an_hour)));
    let spec = LoadSpec {
        timeout: Nanos(100_000_000),
        ..events(&url)
    };
    assert_eq!(run(&spec).requests.succeeded, 12);
}

#[test]
fn what_is_no_stream_or_breaks_off_fails_by_its_name() {
    for (out, kind, words) in [
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            FailureKind::Status4xx,
            "404",
        ),
        (
            "HTTP/1.1 503 Later\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n",
            FailureKind::Status5xx,
            "503",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 0\r\n\r\n",
            FailureKind::NotEventStream,
            "302",
        ),
        (
            "HTTP/1.1 204 No Content\r\n\r\n",
            FailureKind::NotEventStream,
            "204",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\ndata: x\n\n",
            FailureKind::NotEventStream,
            "application/json",
        ),
        ("", FailureKind::ClosedEarly, "before the first byte"),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\nevent: x\n\n",
            FailureKind::ClosedEarly,
            "before its first event",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n",
            FailureKind::Truncated,
            "in the middle of an event",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n: a",
            FailureKind::Truncated,
            "",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            FailureKind::Malformed,
            "chunk",
        ),
        ("data: x\n\n", FailureKind::Malformed, "HTTP"),
    ] {
        let said = all_fail(out, kind);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_stream_without_an_event_meets_the_timeout_however_much_comes() {
    let endless = |begin: &'static str, fill: &'static str| {
        serve(move |mut stream, _| {
            let mut out = UNTIL_CLOSE.to_owned() + begin;
            while stream.write_all(out.as_bytes()).is_ok() {
                out = fill.repeat(1_000);
            }
        })
    };
    for (begin, fill) in [
        ("", ": alive\n\n"),
        ("", "event: x\n\n"),
        ("data: ", "an endless line"),
        ("", "data: x\n"),
    ] {
        let spec = LoadSpec {
            timeout: Nanos(200_000_000),
            requests: Some(4),
            ..events(&endless(begin, fill))
        };
        let outcome = run(&spec);
        let failed = &outcome.requests.failed;
        // On a busy host the next connection may not be open within as short a time, either.
        let late = failed.get(&FailureKind::ConnectTimeout).unwrap_or(&0);
        assert_eq!(failed[&FailureKind::Timeout] + late, 4, "{failed:?}");
        let words = &outcome.first_failure[&FailureKind::Timeout];
        assert_eq!(words, "no event within the timeout");
    }
}

#[test]
fn a_stream_that_is_refused_is_tried_again_beside_the_others() {
    let count = Arc::new(Mutex::new(0));
    let url = serve(move |stream, _| {
        let mut count = count.lock().unwrap();
        *count += 1;
        if *count % 2 == 0 {
            return play(stream, "HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n");
        }
        drop(count);
        endless(stream, "");
    });
    let spec = LoadSpec {
        requests: Some(100_000),
        ..events(&url)
    };
    let outcome = run(&spec);
    let failures = outcome.requests.failures();
    assert!(failures > 0, "{:?}", outcome.requests);
    assert_eq!(outcome.requests.succeeded + failures, 100_000);
}

#[test]
fn events_that_were_awaited_since_the_warm_up_count_when_they_come() {
    let url = serve(|mut stream, _| {
        let mut out = CHUNKED.to_owned();
        while stream.write_all(out.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            out = chunk("data: x\n\n");
        }
    });
    let spec = LoadSpec {
        requests: None,
        warmup: Nanos(300_000_000),
        duration: Some(Nanos(700_000_000)),
        ..events(&url)
    };
    let outcome = run(&spec);
    let requests = &outcome.requests;
    let streams = streams(&outcome);
    assert_eq!(requests.scheduled, requests.sent);
    assert!(requests.sent - requests.completed <= 2, "{requests:?}");
    // The first events came in the warm-up, and so each event that counts ends a gap.
    assert_eq!(streams.gap.count(), requests.succeeded);
    assert!(requests.succeeded > 2, "{requests:?}");
}

#[test]
fn servers_that_flood_their_streams_hold_up_neither_each_other_nor_the_end() {
    let flood = CHUNKED.to_owned() + &chunk(&"data: x\n\n".repeat(100_000));
    let more = chunk(&"data: x\n\n".repeat(100_000));
    let url = serve(move |mut stream, _| {
        let mut out = flood.as_bytes();
        while stream.write_all(out).is_ok() {
            out = more.as_bytes();
        }
    });
    for engine in [Engine::Epoll, Engine::Auto] {
        let spec = LoadSpec {
            engine,
            connections: 4,
            requests: None,
            duration: Some(Nanos::from_secs(1)),
            ..events(&url)
        };
        // A stream that is read for as long as it has something would keep the load from its end.
        let outcome = run(&spec);
        let each = &outcome.successes_per_connection;
        assert!(each.iter().all(|events| *events > 0), "{each:?}");
    }
}

#[test]
fn a_load_that_is_stopped_keeps_its_events() {
    let spec = LoadSpec {
        requests: None,
        duration: Some(Nanos::from_secs(600)),
        threads: Some(2),
        ..events(&serve(endless))
    };
    let mut running = Load::prepare(&spec).unwrap().start().unwrap();
    while running.next_interval().unwrap().succeeded == 0 {}
    running.stopper().stop();
    let outcome = running.finish();
    assert!(outcome.interrupted && outcome.requests.succeeded > 0);
    assert_eq!(streams(&outcome).open, 2);
}

#[test]
fn parts_of_a_load_add_up() {
    let part = run(&events(&serve(endless)));
    let sum = LoadOutcome::of_parts(&[part.clone(), part.clone()], Vec::new()).unwrap();
    assert_eq!(sum.requests.succeeded, 24);
    let (one, both) = (streams(&part), streams(&sum));
    assert_eq!((both.opened, both.open), (2 * one.opened, 2 * one.open));
    assert_eq!(both.gap.count(), 2 * one.gap.count());
    assert_eq!(both.first_event.count(), 2 * one.first_event.count());
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_sent() {
    let refused = |change: fn(&mut LoadSpec)| {
        let mut spec = events("http://127.0.0.1:1/");
        change(&mut spec);
        let error = Load::prepare(&spec).err().unwrap();
        assert!(!error.remedy().is_empty());
        error.to_string()
    };
    assert!(refused(|s| s.http = Http::Two).contains("HTTP/1.1 alone"));
    assert!(refused(|s| s.call_grpc()).contains("HTTP/1.1 alone"));
    assert!(refused(|s| s.url = "ws://127.0.0.1:1/".to_owned()).contains("WebSocket"));
    assert!(refused(|s| s.arrival = Arrival::Constant { per_s: 10.0 }).contains("a rate"));
    assert!(refused(|s| s.pipeline = 2).contains("pipelined"));
    assert!(refused(|s| s.requests_per_connection = Some(1)).contains("per connection"));
    assert!(refused(|s| s.method = "HEAD".to_owned()).contains("HEAD"));
    assert!(refused(|s| s.habits.http_1_0 = true).contains("another tool"));
    assert!(refused(|s| s.ws_binary = true).contains("binary messages"));
}
