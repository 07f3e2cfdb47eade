//! HTTP/2 against real servers: nginx, HAProxy, nghttpd and Apache. What is asked here is what each does differently:
//! ends of connections, limits of streams, header tables, bodies.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Origin, finish, prony, signal, wait_until};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server of ours in a directory of its own, ended on drop.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(command: &mut Command, port: u16) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quiet.spawn().unwrap_or_else(|cause| {
            panic!("this test needs the servers that `make test` installs: {cause}")
        });
        wait_until("the server listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "the server has ended");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Server { child, port }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago; should somebody else take it first, the server says so and ends.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// nginx; `{port}` in the server section stands for its port.
fn nginx(home: &Path, server: &str) -> Server {
    let port = free_port();
    let server = server.replace("{port}", &port.to_string());
    let config = format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log access.log; client_body_temp_path t1; proxy_temp_path t2;\n\
         fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
         {server} }}\n"
    );
    std::fs::write(home.join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command
        .args(["-p", home.to_str().unwrap(), "-c", "nginx.conf"])
        .args(["-e", "error.log"]);
    Server::start(&mut command, port)
}

fn load(state: &Path, url: &str, flags: &[&str]) -> Value {
    let mut command = prony(state);
    command
        .args(["load", "--json", "--http", "2", "--timeout", "30s"])
        .args(flags)
        .arg(url);
    finish(&mut command).json()
}

fn count(document: &Value, group: &str, name: &str) -> u64 {
    document[group][name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {group}.{name} in {document}"))
}

/// All of them succeeded, and none failed.
fn all_succeeded(document: &Value, requests: u64) {
    assert_eq!(
        count(document, "requests", "succeeded"),
        requests,
        "{document}"
    );
    assert_eq!(
        document["requests"]["failed"],
        serde_json::json!({}),
        "{document}"
    );
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn nginx_answers_by_prior_knowledge_and_connections_are_not_streams() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let section = "server { listen 127.0.0.1:{port} http2; location / { return 200 ok; } }";
    let server = nginx(home.path(), section);
    let flags = ["-n", "1000", "-c", "3", "--streams", "5"];
    let document = load(state.path(), &server.url(), &flags);
    all_succeeded(&document, 1_000);
    assert_eq!(count(&document, "connections", "asked"), 3);
    assert_eq!(count(&document, "connections", "opened"), 3);
    assert_eq!(count(&document, "connections", "peak_open"), 3);
    assert_eq!(document["asked"]["http"], "2");
    assert_eq!(document["asked"]["streams"], 5);
    assert_eq!(document["generator"]["engine"], "epoll+h2");
}

/// nginx ends a connection by GOAWAY after so many requests. None may be lost, and none processed twice.
#[test]
fn no_request_is_lost_or_doubled_when_the_server_ends_connections() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let section = "keepalive_requests 20;\n\
                   server { listen 127.0.0.1:{port} http2; location / { return 200 ok; } }";
    let server = nginx(home.path(), section);
    let flags = ["-n", "600", "-c", "2", "--streams", "4"];
    let document = load(state.path(), &server.url(), &flags);
    all_succeeded(&document, 600);
    let opened = count(&document, "connections", "opened");
    assert!((30..=40).contains(&opened), "{document}");
    drop(server);
    assert_eq!(lines(&home.path().join("access.log")), 600);
}

/// The same from our side: every connection carries as many as were asked for.
#[test]
fn connections_are_closed_after_as_many_requests_as_were_asked_for() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let section = "log_format n '$connection';\n\
                   server { listen 127.0.0.1:{port} http2; access_log each.log n;\n\
                   location / { return 200 ok; } }";
    let server = nginx(home.path(), section);
    let flags = ["-n", "120", "-c", "2", "--streams", "3"];
    let each = ["--requests-per-connection", "6"];
    let document = load(state.path(), &server.url(), &[&flags[..], &each].concat());
    all_succeeded(&document, 120);
    assert_eq!(document["connections"]["closed_by_server"], 0, "{document}");
    drop(server);
    let log = std::fs::read_to_string(home.path().join("each.log")).unwrap();
    let mut carried = std::collections::BTreeMap::new();
    for connection in log.lines() {
        *carried.entry(connection).or_insert(0) += 1;
    }
    assert!(carried.values().all(|&n| n <= 6), "{carried:?}");
    // The last of each place may end with the load.
    assert!(
        carried.values().filter(|&&n| n == 6).count() >= 18,
        "{carried:?}"
    );
}

/// HAProxy before an origin that takes its time: requests in flight are rate x service time (Little's law), so
/// the law says whether every stream of every connection carried requests all the time.
#[test]
fn every_stream_of_every_connection_carries_requests() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let origin = Origin::start(state.path(), &["--delay", "constant:20ms"]);
    let port = free_port();
    let config = format!(
        "defaults\n mode http\n timeout connect 30s\n timeout client 30s\n timeout server 30s\n\
         frontend f\n bind 127.0.0.1:{port} proto h2\n default_backend b\n\
         backend b\n server s {}\n",
        origin
            .url
            .trim_start_matches("http://")
            .trim_end_matches('/')
    );
    let file = home.path().join("haproxy.cfg");
    std::fs::write(&file, config).unwrap();
    let server = Server::start(Command::new("haproxy").arg("-f").arg(&file), port);
    let flags = ["-d", "2s", "--warmup", "500ms", "-c", "8", "--streams", "8"];
    let document = load(state.path(), &server.url(), &flags);
    let rate = document["rate_per_s"]["achieved"].as_f64().unwrap();
    let service_s = document["latency_ns"]["service"]["mean"].as_f64().unwrap() / 1e9;
    let in_flight = rate * service_s;
    assert!((58.0..=66.0).contains(&in_flight), "{in_flight} {document}");
    assert_eq!(count(&document, "connections", "opened"), 8);
}

#[test]
fn nghttpd_may_allow_fewer_streams_than_were_asked_for() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("index.html"), "x".repeat(100_000)).unwrap();
    let port = free_port();
    let mut command = Command::new("nghttpd");
    command
        .args(["--no-tls", "-m", "3", "-a", "127.0.0.1", "-d"])
        .arg(home.path())
        .arg(port.to_string());
    let server = Server::start(&mut command, port);
    let flags = ["-n", "200", "-c", "2", "--streams", "10"];
    let document = load(state.path(), &server.url(), &flags);
    all_succeeded(&document, 200);
    assert_eq!(count(&document, "connections", "streams_allowed"), 3);
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains("fewer_streams"), "{warnings}");
    // Frames on the wire: the bodies, and not much more.
    let received = count(&document, "bytes", "received");
    assert!((20_000_000..20_400_000).contains(&received), "{received}");
}

#[test]
fn apache_answers_by_prior_knowledge() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("index.html"), "hello").unwrap();
    let port = free_port();
    let modules = "/usr/lib/apache2/modules";
    let root = home.path().display();
    let config = format!(
        "ServerRoot {root}\nPidFile {root}/pid\nServerName localhost\nListen 127.0.0.1:{port}\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\n\
         LoadModule dir_module {modules}/mod_dir.so\n\
         LoadModule http2_module {modules}/mod_http2.so\n\
         Protocols h2c http/1.1\nDocumentRoot {root}\nErrorLog {root}/error.log\n"
    );
    let file = home.path().join("apache.conf");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new("apache2");
    command.arg("-f").arg(&file).arg("-DFOREGROUND");
    let server = Server::start(&mut command, port);
    let flags = ["-n", "500", "-c", "2", "--streams", "10"];
    all_succeeded(&load(state.path(), &server.url(), &flags), 500);
}

#[test]
fn bodies_arrive_whole() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let origin = Origin::start(state.path(), &[]);
    let upload = format!("{}/upload", origin.url.trim_end_matches('/'));
    let section = format!(
        "client_max_body_size 10m;\nserver {{ listen 127.0.0.1:{{port}} http2;\n\
         location / {{ proxy_pass {upload}; }} }}"
    );
    let server = nginx(home.path(), &section);
    let body = home.path().join("body");
    std::fs::write(&body, vec![b'y'; 300_000]).unwrap();
    let body = body.to_str().unwrap();
    let flags = ["-n", "40", "-c", "2", "--streams", "4", "-m", "POST"];
    let flags = [&flags[..], &["--body-file", body]].concat();
    let document = load(state.path(), &server.url(), &flags);
    all_succeeded(&document, 40);
    let sent = count(&document, "bytes", "sent");
    assert!((12_000_000..12_100_000).contains(&sent), "{sent}");
    let stats = format!("{}/stats", origin.url.trim_end_matches('/'));
    let answer = Command::new("curl").args(["-s", &stats]).output().unwrap();
    let stats: Value = serde_json::from_slice(&answer.stdout).unwrap();
    assert_eq!(stats["total"]["upload_bytes"], 12_000_000, "{stats}");
}

/// The limit is of the connection: its streams share it.
#[test]
fn streams_share_the_limit_of_their_connection() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("large"), vec![b'x'; 100_000]).unwrap();
    let section = format!(
        "server {{ listen 127.0.0.1:{{port}} http2; root {}; }}",
        home.path().display()
    );
    let access = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(), access).unwrap();
    let server = nginx(home.path(), &section);
    let url = format!("{}large", server.url());
    let flags = [
        "-n",
        "16",
        "-c",
        "2",
        "--streams",
        "4",
        "--limit-rate",
        "1M",
    ];
    let document = load(state.path(), &url, &flags);
    all_succeeded(&document, 16);
    let took_s = document["measured_s"].as_f64().unwrap();
    assert!(took_s >= 0.8 * 0.8, "800 kB at 1 MB/s each: {document}");
}

#[test]
fn over_tls_the_server_must_choose_it() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=x"])
        .current_dir(home.path())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
    let section = |http2: &str| {
        format!(
            "server {{ listen 127.0.0.1:{{port}} ssl{http2}; ssl_certificate cert.pem;\n\
             ssl_certificate_key key.pem; location / {{ return 200 ok; }} }}"
        )
    };
    let flags = ["-n", "300", "-c", "2", "--streams", "4", "--insecure"];
    let chosen = nginx(home.path(), &section(" http2"));
    let url = chosen.url().replace("http:", "https:");
    let document = load(state.path(), &url, &flags);
    all_succeeded(&document, 300);
    assert_eq!(document["connections"]["alpn"], "h2", "{document}");
    assert_eq!(count(&document, "connections", "tls_full"), 2);
    drop(chosen);

    let other = nginx(home.path(), &section(""));
    let url = other.url().replace("http:", "https:");
    let document = load(state.path(), &url, &["-n", "4", "-c", "1", "--insecure"]);
    assert_eq!(document["requests"]["failed"]["not_http2"], 4, "{document}");
    let why = document["verdict"]["why"].to_string();
    assert!(why.contains("chose http/1.1 by ALPN"), "{why}");
}

#[test]
fn what_http_2_has_not_is_refused_by_name_before_anything_is_sent() {
    let state = tempfile::tempdir().unwrap();
    for (flags, cause) in [
        (
            &["--http", "2", "--pipeline", "2"][..],
            "pipelined requests",
        ),
        (&["--streams", "2"], "several streams on a connection"),
        (
            &["--http", "2", "-H", "Connection: close"],
            "the header Connection",
        ),
        (
            &["--http", "2", "-H", "Transfer-Encoding: chunked"],
            "Transfer-Encoding",
        ),
        (&["--http", "3"], "QUIC"),
    ] {
        let mut command = prony(state.path());
        let finished = finish(command.arg("load").args(flags).arg("http://127.0.0.1:1/"));
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(cause), "{}", finished.stderr);
        assert!(finished.stdout.is_empty());
    }
}
