//! The whole server over loopback, on ports of the system's choice.

use super::*;
use http1::{BodyDecoder, ResponseHead, parse_response};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

fn spec() -> OriginSpec {
    OriginSpec::new("127.0.0.1:0".parse().unwrap())
}

/// A client that reads answers one by one; no wait is longer than 20 s.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn connect(origin: &Origin) -> Self {
        let stream = TcpStream::connect(origin.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Reads more; `false` at the end of the stream.
    fn more(&mut self) -> bool {
        let mut piece = [0; 65_536];
        let n = self.stream.read(&mut piece).unwrap();
        self.buffer.extend_from_slice(&piece[..n]);
        n > 0
    }

    fn answer(&mut self, is_head: bool) -> (ResponseHead, Vec<u8>) {
        let head = loop {
            if let Some(head) = parse_response(&self.buffer, is_head).unwrap() {
                break head;
            }
            assert!(self.more(), "ended in a head");
        };
        self.buffer.drain(..head.head_len);
        let mut decoder = BodyDecoder::new(head.framing);
        let mut body = Vec::new();
        loop {
            let fed = decoder.feed(&self.buffer).unwrap();
            body.extend(self.buffer.drain(..fed.consumed));
            if fed.done {
                return (head, body);
            }
            assert!(self.more(), "ended in a body");
        }
    }

    fn get(&mut self, target: &str) -> (ResponseHead, Vec<u8>) {
        self.send(&get(target));
        self.answer(false)
    }

    /// The server has closed, and nothing was left to read.
    fn ended(&mut self) -> bool {
        self.buffer.is_empty() && !self.more()
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn every_path_on_one_connection() {
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("page.html"), vec![b'x'; 50_000]).unwrap();
    let origin = Origin::start(&OriginSpec {
        files: Some(files.path().to_owned()),
        body: Bytes(2649),
        ..spec()
    })
    .unwrap();
    let mut client = Client::connect(&origin);
    for (target, status, length) in [
        ("/", 200, 2649),
        ("/bytes/91KiB", 200, 93_184),
        ("/bytes/0", 200, 0),
        ("/bytes/8MiB", 200, 8 << 20),
        ("/status/204", 204, 0),
        ("/status/503", 503, 24),
        ("/page.html", 200, 50_000),
        ("/upload", 200, 19),
    ] {
        let (head, body) = client.get(target);
        assert_eq!((head.status, body.len()), (status, length), "{target}");
        assert!(head.keep_alive, "{target}");
    }
    for (target, status) in [("/nowhere", 404), ("/bytes/x", 400), ("/status/1", 400)] {
        assert_eq!(client.get(target).0.status, status, "{target}");
    }
    client.send("HEAD /bytes/1M HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.answer(true).1.is_empty());
    let total = origin.stop().total;
    assert_eq!((total.requests, total.accepted), (12, 1));
    assert_eq!(
        total.responses,
        Responses {
            status_2xx: 8,
            status_3xx: 0,
            status_4xx: 3,
            status_5xx: 1
        }
    );
}

#[test]
fn a_pipeline_of_small_and_large_answers() {
    let origin = Origin::start(&spec()).unwrap();
    let mut client = Client::connect(&origin);
    let targets = [
        "/",
        "/bytes/300k",
        "/",
        "/bytes/16384",
        "/status/404",
        "/bytes/16385",
    ];
    for _ in 0..3 {
        client.send(&targets.map(get).concat());
    }
    for _ in 0..3 {
        for length in [1024, 300_000, 1024, 16_384, 14, 16_385] {
            assert_eq!(client.answer(false).1.len(), length);
        }
    }
    assert_eq!(origin.stats().total.requests, 18);
}

#[test]
fn a_request_in_single_bytes() {
    let origin = Origin::start(&spec()).unwrap();
    let mut client = Client::connect(&origin);
    client.stream.set_nodelay(true).unwrap();
    for byte in get("/bytes/7").bytes() {
        client.stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(client.answer(false).1.len(), 7);
}

#[test]
fn uploads_of_any_framing() {
    let origin = Origin::start(&spec()).unwrap();
    let mut client = Client::connect(&origin);
    let post = |fields: &str| format!("POST /upload HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
    let large = "x".repeat(3_000_001);
    for (request, bytes) in [
        (post("Content-Length: 5") + "hello", 5),
        (post("Content-Length: 3000001") + &large, 3_000_001),
        (
            post("Transfer-Encoding: chunked") + "5;e\r\nhello\r\n2\r\n, \r\n0\r\nT: x\r\n\r\n",
            7,
        ),
        (
            post("Transfer-Encoding: chunked") + "2dc6c1\r\n" + &large + "\r\n0\r\n\r\n",
            3_000_001,
        ),
    ] {
        client.send(&request);
        let (_, body) = client.answer(false);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            format!("{{\"upload_bytes\":{bytes}}}\n")
        );
    }
    client.send(&post("Content-Length: 2\r\nExpect: 100-continue"));
    assert_eq!(client.answer(false).0.status, 100);
    client.send("ok");
    assert_eq!(client.answer(false).0.status, 200);
    let total = origin.stop().total;
    assert_eq!((total.requests, total.upload_bytes), (5, 6_000_016));
}

#[test]
fn who_closes_the_connection() {
    let origin = Origin::start(&OriginSpec {
        close_after: Some(2),
        ..spec()
    })
    .unwrap();
    let mut client = Client::connect(&origin);
    assert!(client.get("/").0.keep_alive);
    assert!(!client.get("/").0.keep_alive);
    assert!(client.ended());
    for request in [
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let mut client = Client::connect(&origin);
        client.send(request);
        assert!(!client.answer(false).0.keep_alive);
        assert!(client.ended(), "{request}");
    }
}

#[test]
fn unread_input_does_not_destroy_the_last_answer() {
    let origin = Origin::start(&OriginSpec {
        close_after: Some(1),
        ..spec()
    })
    .unwrap();
    let mut client = Client::connect(&origin);
    client.send(&(get("/bytes/1M") + &"x".repeat(200_000)));
    assert_eq!(client.answer(false).1.len(), 1_000_000);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert!(client.ended());
}

#[test]
fn a_client_that_half_closes_is_answered() {
    let origin = Origin::start(&OriginSpec {
        delay: Some(Delay::Constant(record::Nanos::MILLI)),
        ..spec()
    })
    .unwrap();
    let mut client = Client::connect(&origin);
    client.send(&get("/bytes/5").repeat(3));
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..3 {
        assert_eq!(client.answer(false).1.len(), 5);
    }
    assert!(client.ended());
}

#[test]
fn a_client_that_does_not_read_holds_nobody_up() {
    let origin = Origin::start(&spec()).unwrap();
    let mut lazy = Client::connect(&origin);
    lazy.send(&get("/bytes/1G"));
    let mut flood = Client::connect(&origin);
    flood.send(&get("/bytes/16k").repeat(2_000));
    let mut other = Client::connect(&origin);
    for _ in 0..100 {
        assert_eq!(other.get("/").1.len(), 1024);
    }
    for _ in 0..2_000 {
        assert_eq!(flood.answer(false).1.len(), 16_000);
    }
    origin.stop();
}

#[test]
fn stats_count_the_load_and_not_themselves() {
    let origin = Origin::start(&OriginSpec {
        threads: 3,
        ..spec()
    })
    .unwrap();
    let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(&origin)).collect();
    for client in &mut clients {
        for target in ["/", "/bytes/1k", "/stats", "/status/500"] {
            client.get(target);
        }
    }
    let stats: OriginStats = serde_json::from_slice(&clients[0].get("/stats").1).unwrap();
    assert_eq!((stats.total.requests, stats.total.stats_requests), (90, 31));
    assert_eq!(
        (
            stats.total.responses.status_2xx,
            stats.total.responses.status_5xx
        ),
        (60, 30)
    );
    assert_eq!((stats.total.accepted, stats.total.open), (30, 30));
    assert_eq!(
        stats.threads.iter().map(|t| t.counts.requests).sum::<u64>(),
        90
    );
    assert!(stats.threads.iter().all(|t| t.tid > 0));
    drop(clients);
    assert_eq!(origin.stop().total.stats_requests, 31);
}

#[test]
fn bytes_are_those_on_the_wire() {
    let origin = Origin::start(&spec()).unwrap();
    let mut client = Client::connect(&origin);
    let (head, body) = client.get("/bytes/3M");
    let sent = (head.head_len + body.len()) as u64;
    let total = origin.stop().total;
    assert_eq!(
        (total.sent_bytes, total.received_bytes),
        (sent, get("/bytes/3M").len() as u64)
    );
}

#[test]
fn a_delay_is_never_cut_short_and_blocks_nobody() {
    let delay = record::Nanos::from_millis(30);
    let origin = Origin::start(&OriginSpec {
        delay: Some(Delay::Constant(delay)),
        ..spec()
    })
    .unwrap();
    let before = sys::monotonic();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&origin)).collect();
    clients.iter_mut().for_each(|c| c.send(&get("/").repeat(2)));
    // The first of two pipelined requests takes one delay, the second another one.
    for delays in 1..=2 {
        for client in &mut clients {
            assert_eq!(client.answer(false).0.status, 200);
            assert!(sys::monotonic().since(before).0 >= delays * delay.0);
        }
    }
    assert_eq!(origin.stats().total.requests, 16);
}

#[test]
fn a_frozen_server_serves_after_the_freeze_and_stops_in_it() {
    let origin = Origin::start(&OriginSpec {
        threads: 2,
        freeze: Some(
            Freeze::new(
                record::Nanos::from_millis(20),
                record::Nanos::from_millis(21),
            )
            .unwrap(),
        ),
        ..spec()
    })
    .unwrap();
    let mut client = Client::connect(&origin);
    for _ in 0..5 {
        assert_eq!(client.get("/").0.status, 200);
    }
    origin.stop();
    // Frozen for all but the first nanosecond of an hour: only a stop that ends a freeze returns.
    let hour = record::Nanos::from_secs(3600);
    let origin = Origin::start(&OriginSpec {
        freeze: Some(Freeze::new(record::Nanos(hour.0 - 1), hour).unwrap()),
        ..spec()
    })
    .unwrap();
    Client::connect(&origin).send(&get("/"));
    origin.stop();
}

#[test]
fn stop_closes_the_connections_and_frees_the_port() {
    let origin = Origin::start(&OriginSpec {
        threads: 2,
        ..spec()
    })
    .unwrap();
    let address = origin.address();
    let mut client = Client::connect(&origin);
    client.get("/");
    origin.stop();
    assert!(client.ended());
    let again = Origin::start(&OriginSpec::new(address)).unwrap();
    assert_eq!(again.address(), address);
    drop(again);
    std::net::TcpListener::bind(address).unwrap();
}

#[test]
fn a_taken_port_is_refused_even_from_another_origin() {
    let origin = Origin::start(&spec()).unwrap();
    let address = origin.address();
    let error = Origin::start(&OriginSpec::new(address)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: address in use")
    );
    assert!(
        error
            .remedy()
            .contains(&format!("sport = :{}", address.port()))
    );
}

#[test]
fn what_cannot_be_started_says_why() {
    for (spec, text) in [
        (
            OriginSpec {
                threads: 0,
                ..spec()
            },
            "0 threads",
        ),
        (
            OriginSpec {
                cpus: vec![1023],
                ..spec()
            },
            "CPU 1023",
        ),
        (
            OriginSpec {
                cpus: vec![u32::MAX],
                ..spec()
            },
            "CPU 4294967295",
        ),
        (
            OriginSpec {
                files: Some("/nonexistent".into()),
                ..spec()
            },
            "/nonexistent",
        ),
        (
            OriginSpec::new("192.0.2.1:80".parse().unwrap()),
            "192.0.2.1:80",
        ),
    ] {
        let error = Origin::start(&spec).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.remedy().is_empty());
    }
}

#[test]
fn threads_are_pinned_where_asked() {
    // CPU 0 is on every machine, but a container may not be allowed to use it.
    let spec = OriginSpec {
        threads: 2,
        cpus: vec![0],
        ..spec()
    };
    match Origin::start(&spec) {
        Ok(origin) => {
            assert!(origin.stats().threads.iter().all(|t| t.cpu == Some(0)));
        }
        Err(error) => assert!(matches!(error, OriginError::Pin { cpu: 0, .. })),
    }
}
