//! Loads against small servers that play exact byte scripts, one for each way in which a server can
//! answer or fail. Every outcome also passes [`check_books`], which holds the counts against each other.
//! The engine under test is the parent's.

use record::{Arrival, Body, Close, FailureKind, LoadOutcome, LoadSpec, Nanos};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use traffic::{Load, Running};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Calls `play` with each connection, in a thread of its own; returns the URL.
fn serve(play: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let play = Arc::new(play);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let play = Arc::clone(&play);
            thread::spawn(move || play(stream));
        }
    });
    url
}

/// Reads one request without a body; false at the end of the stream.
fn read_request(stream: &mut TcpStream) -> bool {
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

/// Answers each request on a connection with these bytes.
fn answering(response: &'static [u8]) -> String {
    serve(
        move |mut stream| {
            while read_request(&mut stream) && stream.write_all(response).is_ok() {}
        },
    )
}

/// Answers the first request on each connection with these bytes, then closes.
fn answering_once(response: &'static [u8]) -> String {
    serve(move |mut stream| {
        if read_request(&mut stream) {
            // The client may have gone away already: that is one of the cases.
            let _ = stream.write_all(response);
        }
    })
}

/// A load by the engine under test.
fn load(url: impl Into<String>) -> LoadSpec {
    LoadSpec {
        engine: super::engine(),
        ..LoadSpec::new(url)
    }
}

/// A closed loop of `n` requests over one connection.
fn requests(url: &str, n: u64) -> LoadSpec {
    LoadSpec {
        connections: 1,
        duration: None,
        requests: Some(n),
        ..load(url)
    }
}

fn start(spec: &LoadSpec) -> Running {
    Load::prepare(spec).unwrap().start().unwrap()
}

fn run(spec: &LoadSpec) -> LoadOutcome {
    let outcome = start(spec).finish();
    check_books(spec, &outcome);
    outcome
}

/// The equations in the documentation of `record::RequestCounts` and what follows from them. Returns the
/// requests in flight at the stop.
fn check_books(spec: &LoadSpec, outcome: &LoadOutcome) -> u64 {
    let requests = &outcome.requests;
    let failed = |kind| requests.failed.get(&kind).copied().unwrap_or(0);
    let of_status = failed(FailureKind::Status4xx) + failed(FailureKind::Status5xx);
    let settled = requests.completed + requests.failures() - of_status;
    let in_flight = requests
        .sent
        .checked_sub(settled)
        .expect("more fates than requests");
    assert!(in_flight <= u64::from(spec.connections * spec.pipeline));
    assert_eq!(requests.scheduled, requests.sent + requests.dropped);
    assert_eq!(requests.completed, requests.succeeded + of_status);
    assert_eq!(outcome.status.values().sum::<u64>(), requests.completed);
    for histogram in [&outcome.response, &outcome.service, &outcome.first_byte] {
        assert_eq!(histogram.count(), requests.succeeded);
    }
    let by_connection = outcome.successes_per_connection.iter().sum::<u64>();
    assert_eq!(by_connection, requests.succeeded);
    assert_eq!(
        outcome.successes_per_connection.len(),
        spec.connections as usize
    );
    assert_eq!(outcome.connect.count(), outcome.connections.opened);
    assert!(outcome.connections.peak_open <= spec.connections);
    let in_slices = outcome.intervals.iter().map(|i| i.succeeded).sum::<u64>();
    assert!(in_slices >= requests.succeeded);
    for pair in outcome.intervals.windows(2) {
        assert_eq!(pair[0].to, pair[1].from);
    }
    let by_thread = outcome
        .generator
        .threads
        .iter()
        .map(|t| t.completed)
        .sum::<u64>();
    assert_eq!(by_thread, requests.completed);
    for kind in requests.failed.keys() {
        assert!(!outcome.first_failure[kind].is_empty());
    }
    in_flight
}

fn failures(pairs: &[(FailureKind, u64)]) -> BTreeMap<FailureKind, u64> {
    pairs.iter().copied().collect()
}

// ---- Answers ----

#[test]
fn every_framing_is_read_to_its_end() {
    let head_only = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let table: &[(&str, &str, &'static [u8], u16)] = &[
        ("length", "GET", OK, 200),
        (
            "chunked",
            "GET",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            200,
        ),
        (
            "interim",
            "GET",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
        ),
        ("no content", "GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (
            "not modified",
            "GET",
            b"HTTP/1.1 304 Not Modified\r\n\r\n",
            304,
        ),
        ("head", "HEAD", head_only, 200),
    ];
    for &(name, method, response, status) in table {
        let spec = LoadSpec {
            method: method.to_owned(),
            ..requests(&answering(response), 20)
        };
        let outcome = run(&spec);
        assert_eq!(outcome.requests.succeeded, 20, "{name}");
        assert_eq!(outcome.status, BTreeMap::from([(status, 20)]), "{name}");
        assert_eq!(outcome.connections.opened, 1, "{name}");
        assert_eq!(outcome.received_bytes, 20 * response.len() as u64, "{name}");
    }
}

#[test]
fn a_body_that_lasts_until_the_close_costs_a_connection_each() {
    let url = answering_once(b"HTTP/1.0 200 OK\r\n\r\nhello");
    let outcome = run(&requests(&url, 5));
    assert_eq!(outcome.requests.succeeded, 5);
    assert_eq!(outcome.connections.opened, 5);
    assert_eq!(outcome.connections.closed_by_server, 5);
}

#[test]
fn large_bodies_are_read_to_the_last_byte() {
    const LEN: usize = 300_000;
    let url = serve(|mut stream| {
        let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n").into_bytes();
        response.extend_from_slice(&[b'x'; LEN]);
        while read_request(&mut stream) && stream.write_all(&response).is_ok() {}
    });
    let outcome = run(&requests(&url, 20));
    assert_eq!(outcome.requests.succeeded, 20);
    assert!(outcome.received_bytes > 20 * LEN as u64);
}

#[test]
fn large_requests_go_out_whole() {
    const LEN: usize = 2_000_000;
    let url = serve(|mut stream| {
        let mut body = vec![0; LEN];
        while read_request(&mut stream)
            && stream.read_exact(&mut body).is_ok()
            && body.iter().all(|&b| b == b'x')
            && stream.write_all(OK).is_ok()
        {}
    });
    let spec = LoadSpec {
        method: "POST".to_owned(),
        body: Body::Text("x".repeat(LEN)),
        ..requests(&url, 5)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 5);
    assert_eq!(outcome.connections.opened, 1);
    assert!(outcome.sent_bytes > 5 * LEN as u64);
}

#[test]
fn an_announced_close_is_no_failure() {
    let url = answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let outcome = run(&requests(&url, 5));
    assert_eq!(outcome.requests.succeeded, 5);
    assert_eq!(outcome.requests.failures(), 0);
    assert_eq!(outcome.connections.closed_by_server, 5);
    assert_eq!(outcome.requests.retried, 0);
}

// ---- Failures ----

#[test]
fn every_failure_has_its_own_name() {
    let too_large =
        Box::leak(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(20_000)).into_boxed_str());
    let table: &[(FailureKind, &'static [u8])] = &[
        (FailureKind::ClosedEarly, b""),
        (FailureKind::Truncated, b"HTTP/1.1 200 OK\r\nContent-Le"),
        (
            FailureKind::Truncated,
            b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        ),
        (
            FailureKind::Truncated,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe",
        ),
        (FailureKind::Malformed, b"SSH-2.0-OpenSSH_9.2\r\n"),
        (
            FailureKind::Malformed,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        ),
        (
            FailureKind::Malformed,
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello",
        ),
        (FailureKind::HeadTooLarge, too_large.as_bytes()),
    ];
    for &(kind, response) in table {
        let outcome = run(&requests(&answering_once(response), 3));
        let shown = response[..response.len().min(40)].escape_ascii();
        assert_eq!(outcome.requests.failed, failures(&[(kind, 3)]), "{shown}");
        assert_eq!((outcome.requests.sent, outcome.requests.completed), (3, 0));
    }
}

#[test]
fn bad_statuses_are_answers_and_failures_without_a_latency() {
    for (response, status, kind) in [
        (
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            404,
            FailureKind::Status4xx,
        ),
        (
            b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            500,
            FailureKind::Status5xx,
        ),
    ] {
        let outcome = run(&requests(&answering(response), 5));
        assert_eq!(outcome.requests.failed, failures(&[(kind, 5)]));
        assert_eq!(
            (outcome.requests.completed, outcome.requests.succeeded),
            (5, 0)
        );
        assert_eq!(outcome.status, BTreeMap::from([(status, 5)]));
        assert_eq!(outcome.achieved_per_s(), None);
        assert!(outcome.first_failure[&kind].contains(&status.to_string()));
    }
}

#[test]
fn a_reset_is_told_from_a_close() {
    // A socket closed with unread bytes sends a reset (RFC 1122 4.2.2.13).
    let url = serve(|stream| {
        let _ = stream.peek(&mut [0]);
    });
    let outcome = run(&requests(&url, 3));
    assert_eq!(
        outcome.requests.failed,
        failures(&[(FailureKind::Reset, 3)])
    );
}

#[test]
fn a_closed_port_is_refused_request_by_request_without_a_storm() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let outcome = run(&requests(&format!("http://{address}/"), 4));
    let kind = FailureKind::ConnectRefused;
    assert_eq!(outcome.requests.failed, failures(&[(kind, 4)]));
    // Pauses double from 10 ms on: the four failures cannot lie closer together than this.
    assert!(outcome.measured() >= Nanos::from_millis(60));
}

#[test]
fn a_full_accept_queue_is_a_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: listening again on a live listening socket only shortens its queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().unwrap();
    let _waiting = TcpStream::connect(address).unwrap();
    let spec = LoadSpec {
        timeout: Nanos::from_millis(60),
        ..requests(&format!("http://{address}/"), 2)
    };
    let outcome = run(&spec);
    let kind = FailureKind::ConnectTimeout;
    assert_eq!(outcome.requests.failed, failures(&[(kind, 2)]));
    assert_eq!(outcome.connections.opened, 0);
}

#[test]
fn a_server_that_never_answers_times_out_and_the_run_ends() {
    let url = serve(|mut stream| while read_request(&mut stream) {});
    for (arrival, in_flight_at_most) in [
        (Arrival::Closed, 4),
        // In an open loop the grace lasts as long as the timeout: no request stays undecided.
        (Arrival::Constant { per_s: 100.0 }, 0),
    ] {
        let spec = LoadSpec {
            connections: 4,
            duration: Some(Nanos::from_millis(400)),
            timeout: Nanos::from_millis(100),
            arrival,
            ..load(&url)
        };
        let outcome = start(&spec).finish();
        assert!(check_books(&spec, &outcome) <= in_flight_at_most);
        let kinds: Vec<_> = outcome.requests.failed.keys().collect();
        assert_eq!(kinds, [&FailureKind::Timeout]);
        assert_eq!(outcome.requests.succeeded, 0);
    }
}

#[test]
fn silent_connections_are_counted() {
    let url = serve(|mut stream| while read_request(&mut stream) {});
    let spec = LoadSpec {
        connections: 3,
        duration: Some(Nanos::from_millis(150)),
        ..load(&url)
    };
    let outcome = start(&spec).finish();
    assert_eq!(outcome.connections.unanswered, 3);
    assert_eq!(check_books(&spec, &outcome), 3, "in flight at the stop");
    // One that is given up, and opened again, is as silent.
    let spec = LoadSpec {
        timeout: Nanos::from_millis(60),
        ..spec
    };
    let outcome = start(&spec).finish();
    assert!(outcome.connections.opened > 3);
    assert_eq!(outcome.connections.unanswered, 3);
}

#[test]
fn tls_against_a_plain_server_is_a_tls_failure() {
    let url = answering_once(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let spec = LoadSpec {
        insecure: true,
        timeout: Nanos::from_millis(200),
        ..requests(&url.replace("http", "https"), 2)
    };
    // The script waits for the end of a head, which a handshake does not hold: no answer comes.
    let outcome = run(&spec);
    let kind = FailureKind::ConnectTimeout;
    assert_eq!(outcome.requests.failed, failures(&[(kind, 2)]));
    let at_once = serve(|mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let outcome = run(&LoadSpec {
        url: at_once.replace("http", "https"),
        ..spec
    });
    assert_eq!(outcome.requests.failed, failures(&[(FailureKind::Tls, 2)]));
}

// ---- Connection policies ----

/// A server that counts connections, with its URL.
fn counting(response: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    let url = serve(move |mut stream| {
        count.fetch_add(1, SeqCst);
        while read_request(&mut stream) && stream.write_all(response).is_ok() {}
    });
    (url, accepted)
}

#[test]
fn twenty_connections_over_seven_threads_are_twenty() {
    let (url, accepted) = counting(OK);
    let spec = LoadSpec {
        connections: 20,
        threads: Some(7),
        ..requests(&url, 2_000)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 2_000);
    assert_eq!(outcome.generator.threads.len(), 7);
    assert_eq!(outcome.connections.peak_open, 20);
    assert_eq!(accepted.load(SeqCst), 20);
}

#[test]
fn a_connection_carries_as_many_requests_as_asked_for() {
    for close in [Close::Fin, Close::Rst] {
        for (per_connection, opened) in [(1, 12), (3, 4), (5, 3), (100, 1)] {
            let (url, accepted) = counting(OK);
            let spec = LoadSpec {
                requests_per_connection: Some(per_connection),
                close,
                ..requests(&url, 12)
            };
            let outcome = run(&spec);
            assert_eq!(outcome.requests.succeeded, 12);
            assert_eq!(outcome.connections.opened, opened, "{per_connection} each");
            assert_eq!(accepted.load(SeqCst) as u64, opened);
            assert_eq!(outcome.connections.closed_by_server, 0);
        }
    }
}

#[test]
fn pipelining_keeps_its_depth_and_order() {
    let (url, _) = counting(OK);
    let spec = LoadSpec {
        pipeline: 8,
        connections: 2,
        ..requests(&url, 1_000)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 1_000);
    assert_eq!(outcome.connections.opened, 2);
}

#[test]
fn requests_behind_an_announced_close_are_sent_again() {
    let url = answering_once(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let spec = LoadSpec {
        pipeline: 4,
        ..requests(&url, 10)
    };
    let outcome = run(&spec);
    assert_eq!(
        (outcome.requests.sent, outcome.requests.succeeded),
        (10, 10)
    );
    assert!(outcome.requests.retried > 0);
    assert_eq!(outcome.connections.opened, 10);
}

#[test]
fn source_addresses_are_used_in_turn() {
    let (send, seen) = std::sync::mpsc::channel();
    let url = serve(move |mut stream| {
        send.send(stream.peer_addr().unwrap().ip()).unwrap();
        while read_request(&mut stream) && stream.write_all(OK).is_ok() {}
    });
    let sources: Vec<_> = (1..=3)
        .map(|i| std::net::IpAddr::from([127, 0, 9, i]))
        .collect();
    let spec = LoadSpec {
        connections: 6,
        source: sources.clone(),
        ..requests(&url, 60)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.succeeded, 60);
    let mut seen: Vec<_> = seen.try_iter().collect();
    seen.sort_unstable();
    let twice: Vec<_> = sources.iter().flat_map(|&ip| [ip, ip]).collect();
    assert_eq!(seen, twice);
}

// ---- Arrivals, windows, stops ----

#[test]
fn an_open_loop_sends_exactly_its_schedule() {
    for threads in [1, 3] {
        let spec = LoadSpec {
            connections: 5,
            threads: Some(threads),
            duration: Some(Nanos::from_millis(500)),
            arrival: Arrival::Constant { per_s: 400.0 },
            ..load(answering(OK))
        };
        let outcome = run(&spec);
        assert_eq!(outcome.requests.scheduled, 200);
        assert_eq!(outcome.requests.succeeded, 200);
        assert_eq!(outcome.generator.schedule_lag.count(), 200);
        assert_eq!(outcome.connections.opened, 5);
        let used = outcome.successes_per_connection.iter().filter(|&&n| n > 0);
        assert_eq!(used.count(), 5, "arrivals spread over the connections");
    }
}

#[test]
fn a_number_of_requests_ends_an_open_loop() {
    let spec = LoadSpec {
        arrival: Arrival::Poisson {
            per_s: 500.0,
            seed: 3,
        },
        warmup: Nanos::from_millis(50),
        ..requests(&answering(OK), 40)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.scheduled, 40);
    assert_eq!(outcome.requests.succeeded, 40);
    assert!(outcome.measured_from >= outcome.started_at + spec.warmup);
}

#[test]
fn a_busy_connection_queues_requests_and_the_response_time_shows_it() {
    // 20 ms of service at 100 per second over one connection: half of what is asked for.
    let url = serve(|mut stream| {
        while read_request(&mut stream) {
            thread::sleep(std::time::Duration::from_millis(20));
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    let spec = LoadSpec {
        connections: 1,
        duration: Some(Nanos::from_millis(600)),
        timeout: Nanos::from_millis(200),
        arrival: Arrival::Constant { per_s: 100.0 },
        ..load(url)
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.scheduled, 60);
    assert!(outcome.requests.dropped > 0);
    assert!(outcome.requests.late > 0);
    let (response, service) = (outcome.response.max(), outcome.service.max());
    assert!(response.unwrap().0 > 2 * service.unwrap().0);
    // The wait was for the connection: none of it was the generator's.
    let lag = outcome.generator.schedule_lag.quantile(0.5).unwrap();
    assert!(lag.0 * 4 < outcome.response.quantile(0.5).unwrap().0);
    assert!(outcome.intervals.iter().any(|interval| interval.queued > 0));
}

#[test]
fn an_open_loop_without_a_server_charges_its_requests_with_the_cause() {
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let spec = LoadSpec {
        connections: 2,
        duration: Some(Nanos::from_millis(300)),
        arrival: Arrival::Constant { per_s: 100.0 },
        ..load(format!("http://{address}/"))
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.scheduled, 30);
    assert_eq!(outcome.requests.succeeded, 0);
    let refused = outcome.requests.failed[&FailureKind::ConnectRefused];
    assert_eq!(refused + outcome.requests.dropped, 30);
}

#[test]
fn the_warm_up_is_left_out_of_the_counts_and_shown_in_the_slices() {
    let spec = LoadSpec {
        connections: 2,
        warmup: Nanos::from_millis(200),
        duration: Some(Nanos::from_millis(200)),
        arrival: Arrival::Constant { per_s: 500.0 },
        ..load(answering(OK))
    };
    let outcome = run(&spec);
    assert_eq!(outcome.requests.scheduled, 100);
    assert_eq!(outcome.measured(), Nanos::from_millis(200));
    let in_slices: u64 = outcome.intervals.iter().map(|i| i.sent).sum();
    assert_eq!(in_slices, 200);
}

#[test]
fn a_stop_keeps_what_was_measured() {
    let spec = LoadSpec {
        connections: 3,
        threads: Some(3),
        duration: Some(Nanos::from_secs(3_600)),
        ..load(answering(OK))
    };
    let mut running = start(&spec);
    assert_eq!(running.thread_ids().len(), 3);
    assert!(running.next_interval().is_some());
    running.stopper().stop();
    let outcome = running.finish();
    check_books(&spec, &outcome);
    assert!(outcome.interrupted);
    assert!(outcome.requests.succeeded > 0);
    assert!(outcome.measured() < Nanos::from_secs(60));
}

#[test]
fn a_stop_before_the_measurement_leaves_nothing_measured() {
    let spec = LoadSpec {
        warmup: Nanos::from_secs(3_600),
        ..load(answering(OK))
    };
    let mut running = start(&spec);
    assert!(running.next_interval().is_some());
    running.stopper().stop();
    let outcome = running.finish();
    assert!(outcome.interrupted);
    assert_eq!((outcome.requests.sent, outcome.measured()), (0, Nanos(0)));
}

// ---- Giving up ----

/// A port at which nothing listens: bound and closed again.
fn closed_port() -> String {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Bound but not listening, until the process ends: no other test's server can be given this port.
    std::mem::forget(socket);
    format!("http://{address}/")
}

#[test]
fn a_load_without_a_server_ends_early_and_says_so() {
    let asked = Nanos::from_secs(3_600);
    for (arrival, duration, requests) in [
        (Arrival::Closed, Some(asked), None),
        (Arrival::Closed, None, Some(1_000_000)),
        (Arrival::Constant { per_s: 50.0 }, Some(asked), None),
    ] {
        let spec = LoadSpec {
            connections: 4,
            threads: Some(2),
            arrival,
            duration,
            requests,
            ..load(closed_port())
        };
        let outcome = run(&spec);
        let given_up = |w: &record::Warning| {
            w.name == "gave_up" && w.seen.starts_with("every connection attempt failed for 1")
        };
        assert!(
            outcome.warnings.iter().any(given_up),
            "{:?}",
            outcome.warnings
        );
        assert!(!outcome.interrupted, "it was not interrupted");
        assert!(outcome.measured() >= Nanos::from_secs(1));
        assert!(outcome.measured() < Nanos::from_secs(60));
        let refused = outcome.requests.failed[&FailureKind::ConnectRefused];
        assert_eq!(
            refused + outcome.requests.dropped,
            outcome.requests.scheduled
        );
        // Pauses double from 10 ms on: seven attempts of each connection in a second, not thousands.
        assert!(refused <= 4 * 16, "{refused} attempts are a storm");
    }
}

#[test]
fn a_server_that_accepted_one_connection_is_not_given_up() {
    // One connection is accepted, then nothing listens any more: the rest of the load is refused.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        read_request(&mut stream) && stream.write_all(OK).is_ok()
    });
    let asked = Nanos::from_millis(1_500);
    let spec = LoadSpec {
        connections: 1,
        duration: Some(asked),
        ..load(url)
    };
    let outcome = run(&spec);
    assert!(server.join().unwrap());
    assert_eq!(outcome.requests.succeeded, 1);
    assert_eq!(outcome.measured(), asked);
    assert!(outcome.warnings.is_empty(), "{:?}", outcome.warnings);
}
