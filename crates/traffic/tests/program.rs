//! Traffic programs against this host's kernel through a TAP, in a network namespace of the test's own: the client side
//! against nginx, the server side against sockets.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a test that is skipped says why, and one that cannot go on ends"
)]

use record::traffic::{
    Http, Order, Pace, Protocol, Side, TcpSettings, Template, TemplateOutcome, TlsSettings,
    TrafficSpec,
};
use record::{Carrier, Close, Nanos, TrafficOutcome};
use stack::address::Network;
use stack::device::tap::{Settings, Tap};
use stack::link;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use traffic::program::{End, Ends, run};

const NAME: &str = "pronytap1";
const SECOND: u64 = 1_000_000_000;

/// Runs `test` on a thread in a new network namespace with the TAP; all of it goes with the thread.
fn in_namespace(test: impl FnOnce(Tap) + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the call takes an integer only and concerns this thread, which ends here.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                eprintln!("skipped: a network namespace needs root");
                return;
            }
            ip("link set lo up");
            let tap = Tap::open(&Settings {
                name: NAME.to_owned(),
                mtu_bytes: Some(1_500),
                is_offloaded: true,
            });
            match tap {
                Ok(tap) => {
                    ip(&format!("addr add 10.9.0.1/16 dev {NAME}"));
                    test(tap);
                }
                Err(error) => eprintln!("skipped: {error}"),
            }
        });
    });
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {words}");
}

fn side(addresses: &str) -> Side {
    Side {
        transport: Carrier::Tap,
        interface: NAME.to_owned(),
        addresses: vec![addresses.to_owned()],
        order: Order::Random,
        ports: None,
        networks: Vec::new(),
        gateways: Vec::new(),
        coalesce: Nanos(20_000),
        threads: 1,
        cpu: None,
        cpus: Vec::new(),
        tcp: TcpSettings::default(),
        capture: None,
        faults: None,
    }
}

fn end(tap: Tap, addresses: &str) -> End {
    End {
        devices: vec![Box::new(tap)],
        link: link::Settings {
            interface: NAME.to_owned(),
            mac: [2, 0, 0, 0, 0, 1],
            own: vec![addresses.parse().unwrap()],
            networks: vec![Network::new([10, 9, 0, 0].into(), 16).unwrap()],
            gateways: Vec::new(),
        },
    }
}

fn template(name: &str, target: &str, protocol: Protocol, count: u64) -> Template {
    Template {
        name: name.to_owned(),
        targets: vec![target.parse().unwrap()],
        pace: Pace::Concurrent(8),
        concurrent_max: None,
        count: Some(count),
        protocol,
        close: Close::Fin,
        timeout: Nanos(10 * SECOND),
        tls: None,
    }
}

fn http(path: &str, requests: u64) -> Protocol {
    Protocol::Http(Http {
        path: path.to_owned(),
        method: "GET".to_owned(),
        headers: Vec::new(),
        body_bytes: 0,
        requests,
        response_bytes: 10_000,
        think: Nanos(0),
        expect: None,
    })
}

fn client_of(templates: Vec<Template>, tap: Tap) -> TrafficOutcome {
    let addresses = "10.9.1.0-10.9.1.15";
    let spec = TrafficSpec {
        drain: Nanos(SECOND),
        seed: 5,
        client: Some(side(addresses)),
        templates,
        ..TrafficSpec::default()
    };
    let ends = Ends {
        client: Some(end(tap, addresses)),
        server: None,
    };
    run(&spec, ends, &mut || false, &mut |_, _| {}).unwrap()
}

/// nginx in the namespace of the calling thread; it ends with this value.
struct Nginx {
    child: Child,
    /// Its files, for as long as it runs.
    _dir: tempfile::TempDir,
}

impl Nginx {
    fn serve(body: &[u8]) -> Option<Nginx> {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        let made = rcgen::generate_simple_self_signed(vec!["prony.test".to_owned()]).unwrap();
        std::fs::write(dir.path().join("body"), body).unwrap();
        std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let config = format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
             events {{ worker_connections 512; }}
             http {{ access_log off; client_body_temp_path {root}/t1; proxy_temp_path {root}/t2;
               fastcgi_temp_path {root}/t3; uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
               server {{ listen 10.9.0.1:8081; root {root}; keepalive_requests 7; }}
               server {{ listen 10.9.0.1:8080; listen 10.9.0.1:8443 ssl; root {root};
                 ssl_certificate {root}/cert.pem; ssl_certificate_key {root}/key.pem; }} }}"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let child = Command::new("nginx")
            .args(["-p", root, "-c", file.to_str().unwrap(), "-e", "stderr"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            eprintln!("skipped: there is no nginx");
            return None;
        };
        let nginx = Nginx { child, _dir: dir };
        let until = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect("10.9.0.1:8443").is_err() {
            assert!(Instant::now() < until, "nginx does not listen");
            std::thread::yield_now();
        }
        Some(nginx)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn completed(template: &TemplateOutcome) -> [u64; 3] {
    assert_eq!(template.failed, Default::default(), "{}", template.name);
    [
        template.attempted,
        template.completed,
        template.response.count(),
    ]
}

#[test]
fn nginx_answers_each_connection_of_a_client_side() {
    in_namespace(|tap| {
        let body: Vec<u8> = (0..10_000u32).map(|at| (at * 7) as u8).collect();
        let Some(_nginx) = Nginx::serve(&body) else {
            return;
        };
        let mut tls = template("tls", "10.9.0.1:8443", http("/body", 3), 20);
        tls.tls = Some(TlsSettings {
            server_name: Some("prony.test".to_owned()),
            insecure: true,
            certificate: None,
        });
        let mut reset = template("reset", "10.9.0.1:8080", http("/body", 2), 50);
        reset.close = Close::Rst;
        let templates = vec![
            template("each", "10.9.0.1:8080", http("/body", 1), 200),
            template("kept", "10.9.0.1:8080", http("/body", 20), 30),
            template("ended", "10.9.0.1:8081", http("/body", 20), 10),
            template("missing", "10.9.0.1:8080", http("/none", 1), 10),
            template("refused", "10.9.0.1:81", http("/", 1), 5),
            reset,
            tls,
        ];
        let outcome = client_of(templates, tap);
        let [each, kept, ended, missing, refused, reset, tls] = outcome.templates.as_slice() else {
            panic!("seven templates");
        };
        assert_eq!(completed(each), [200, 200, 200]);
        assert!(each.received_bytes > 200 * 10_000);
        assert_eq!(each.statuses, [(200, 200)].into());
        assert_eq!(completed(kept), [30, 30, 600]);
        assert_eq!(completed(ended), [10, 10, 70]);
        assert_eq!((kept.ended_early, ended.ended_early), (0, 10));
        assert_eq!(completed(reset), [50, 50, 100]);
        assert_eq!(completed(tls), [20, 20, 60]);
        assert_eq!(missing.failed, [("status4xx".to_owned(), 10)].into());
        assert_eq!(missing.statuses, [(404, 10)].into());
        assert_eq!(refused.failed, [("connect_refused".to_owned(), 5)].into());
        let client = &outcome.sides[0];
        assert_eq!(client.tcp["connects"], 320);
        assert_eq!(client.tcp["rcvbadsum"], 0);
        assert!(client.cpu_user_ns + client.cpu_system_ns > 0);
    });
}

fn datagrams(response_bytes: u32) -> Protocol {
    Protocol::Udp {
        request_bytes: 100,
        response_bytes,
        exchanges: 3,
        gap: Nanos(0),
    }
}

#[test]
fn the_kernel_answers_datagrams_or_says_that_nobody_listens() {
    in_namespace(|tap| {
        let echo = UdpSocket::bind("10.9.0.1:7").unwrap();
        echo.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 2_000];
            for _ in 0..60 {
                let (len, from) = echo.recv_from(&mut buffer).unwrap();
                echo.send_to(&buffer[..len], from).unwrap();
            }
        });
        let templates = vec![
            template("echo", "10.9.0.1:7", datagrams(0), 20),
            template("nobody", "10.9.0.1:9", datagrams(0), 4),
        ];
        let outcome = client_of(templates, tap);
        answering.join().unwrap();
        assert_eq!(completed(&outcome.templates[0]), [20, 20, 60]);
        assert_eq!(outcome.templates[0].received_bytes, 6_000);
        let nobody = &outcome.templates[1];
        assert_eq!(nobody.failed, [("connect_refused".to_owned(), 4)].into());
        assert_eq!(outcome.sides[0].link["udp_port_unreachable"], 4);
    });
}

/// What a server says to `sent` on one connection, to its end.
fn said(to: &SocketAddr, sent: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut said = Vec::new();
    let end = stream.read_to_end(&mut said);
    assert!(end.is_ok(), "{end:?} after {sent:?}: {} bytes", said.len());
    said
}

#[test]
fn a_server_side_answers_the_kernels_sockets() {
    in_namespace(|tap| {
        let addresses = "10.9.2.0/28";
        let target: SocketAddr = "10.9.2.3:80".parse().unwrap();
        let spec = TrafficSpec {
            drain: Nanos(SECOND),
            server: Some(side(addresses)),
            templates: vec![template("page", &target.to_string(), http("/", 1), 1)],
            ..TrafficSpec::default()
        };
        let ends = Ends {
            client: None,
            server: Some(end(tap, addresses)),
        };
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
                let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
                let both = said(&target, &format!("{get}{last}"));
                let text = String::from_utf8_lossy(&both);
                assert_eq!(text.matches("HTTP/1.1 200 OK\r\n").count(), 2);
                assert_eq!(text.matches("Connection: close\r\n").count(), 1);
                assert!(both.len() > 20_000);
                let head = said(&target, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
                assert!(head.ends_with(b"\r\n\r\n") && head.len() < 200);
                let refused = said(&target, "nonsense\r\n\r\n");
                assert!(refused.starts_with(b"HTTP/1.1 400 "));
                // Any address of the side answers at the port.
                let elsewhere = said(&"10.9.2.9:80".parse().unwrap(), last);
                assert!(elsewhere.starts_with(b"HTTP/1.1 200 "));
                is_done.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            let stop =
                &mut || is_done.load(std::sync::atomic::Ordering::SeqCst) || asking.is_finished();
            run(&spec, ends, stop, &mut |_, _| {}).unwrap()
        });
        let page = &outcome.templates[0];
        assert_eq!((page.accepted, page.exchanges), (4, 4));
        assert_eq!(page.failed, [("malformed".to_owned(), 1)].into());
        assert_eq!(page.completed, 3);
        assert!(outcome.interrupted);
    });
}
