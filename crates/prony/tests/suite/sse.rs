//! Server-sent events of Python's http.server, alone and behind nginx, which passes them on in chunks of its own.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Real, finish, finish_child, prony, signal, wait_until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// An event every few milliseconds on each stream; `/ten` ends its streams after ten events, `/cut` in the middle of
/// the third, `/gzip` says that it is compressed, and `/none` is not found.
const SERVER: &str = r#"
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Events(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *words):
        pass
    def do_GET(self):
        if self.path == "/none":
            return self.send_error(404)
        if self.headers["Accept"] != "text/event-stream":
            return self.send_error(406)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-store")
        if self.path == "/gzip":
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            self.say(b": welcome\n\n")
            n = 0
            while self.path != "/ten" or n < 10:
                n += 1
                if self.path == "/cut" and n == 3:
                    self.say(b"data: cut")
                    break
                self.say(b"id: %d\r\nevent: tick\r\ndata: {\"n\": %d}\r\n\r\n" % (n, n))
                time.sleep(0.002)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
    def say(self, what):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(what), what))

server = ThreadingHTTPServer(("127.0.0.1", 0), Events)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
"#;

fn start_server() -> Real {
    Real::python(SERVER, "python3")
}

/// nginx before it, with TLS.
fn start_nginx(home: &Path, behind: &Real) -> Real {
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=x"])
        .current_dir(home)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let upstream = behind.port;
    Real::nginx(home, |port| {
        format!(
            "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 256; }}\n\
             http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2;\n\
             fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             server {{ listen 127.0.0.1:{port} ssl; ssl_certificate cert.pem;\n\
             ssl_certificate_key key.pem;\n\
             location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1;\n\
             proxy_set_header Connection ''; proxy_buffering off; }} }} }}\n"
        )
    })
}

fn load(state: &Path, url: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let mut command = prony(state);
    command
        .args(["load", "--sse", "--json", "-c", "4", "--timeout", "30s"])
        .args(flags)
        .arg(url);
    let finished = finish(&mut command);
    (finished.code, finished.json())
}

/// So many events came and nothing failed; the streams.
fn all_came(document: &Value, events: u64) -> &Value {
    assert_eq!(document["requests"]["succeeded"], events, "{document}");
    assert_eq!(document["requests"]["failed"], json!({}), "{document}");
    assert_eq!(document["status"], json!({}), "an event has no status");
    assert_eq!(document["latency_ns"]["response"], Value::Null);
    assert_eq!(document["latency_ns"]["service"], Value::Null);
    assert_eq!(document["asked"]["sse"], true);
    &document["event_streams"]
}

#[test]
fn events_of_a_server_are_counted_with_their_gaps() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    for flags in [
        &["-n", "200"][..],
        &["-n", "200", "-t", "2", "--engine", "epoll"],
        &["-n", "200", "--limit-rate", "64KiB"],
    ] {
        let (code, document) = load(state.path(), &url("/"), flags);
        assert!(matches!(code, Some(0 | 3)), "{document}");
        let streams = all_came(&document, 200);
        assert_eq!(
            (&streams["opened"], &streams["open"]),
            (&json!(4), &json!(4))
        );
        assert_eq!(streams["comments"], 4, "{document}");
        let each = &streams["events_per_s"];
        assert!(each["min"].as_f64() <= each["mean"].as_f64(), "{document}");
        assert!(each["mean"].as_f64() <= each["max"].as_f64(), "{document}");
        // The server waits 2 ms between two, and the mean is over all of 196.
        assert!(streams["gap_ns"]["mean"].as_f64() > Some(1_900_000.0));
        assert!(streams["first_event_ns"]["min"].as_u64() > Some(0));
    }
    let (_, document) = load(state.path(), &url("/ten"), &["-n", "200"]);
    let streams = all_came(&document, 200);
    assert!(streams["opened"].as_u64() >= Some(20), "{document}");
    assert!(streams["reopened"].as_u64() >= Some(16), "{document}");
    assert!(streams["ended"].as_u64() >= Some(16), "{document}");
}

#[test]
fn through_nginx_and_tls_events_pass() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start_server();
    let nginx = start_nginx(home.path(), &server);
    let url = |path: &str| format!("https://127.0.0.1:{}{path}", nginx.port);
    let flags = ["--insecure", "-n", "200"];
    let (_, document) = load(state.path(), &url("/"), &flags);
    let streams = all_came(&document, 200);
    assert_eq!(streams["opened"], 4, "{document}");
    assert_eq!(document["connections"]["tls_full"], 4, "{document}");
    let (_, document) = load(state.path(), &url("/ten"), &flags);
    let streams = all_came(&document, 200);
    assert!(streams["opened"].as_u64() >= Some(20), "{document}");
}

#[test]
fn what_is_no_stream_or_breaks_off_is_said_first() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = |path: &str| format!("http://127.0.0.1:{}{path}", server.port);
    for (path, flags, kind, words) in [
        ("/none", &[][..], "status4xx", "status 404"),
        ("/", &["-H", "Accept: */*"], "status4xx", "status 406"),
        ("/gzip", &[], "not_event_stream", "content encoding is gzip"),
        ("/cut", &[], "truncated", "in the middle of an event"),
    ] {
        let flags = [&["-n", "12"], flags].concat();
        let (code, document) = load(state.path(), &url(path), &flags);
        assert_eq!(code, Some(3), "{document}");
        let failed = document["requests"]["failed"][kind].as_u64();
        assert!(failed > Some(0), "{document}");
        let why = document["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn ctrl_c_keeps_the_events_that_came() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let mut command = prony(state.path());
    let child = command
        .args(["load", "--sse", "--json", "-d", "90s", &url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Ten streams, and some time to hear events on them.
    let sockets = || {
        let files = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let links = files.into_iter().flatten().flatten();
        let links = links.filter_map(|file| fs::read_link(file.path()).ok());
        links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count()
    };
    wait_until("the streams are open", || sockets() >= 10);
    std::thread::sleep(std::time::Duration::from_millis(800));
    signal(child.id(), "INT");
    let done = finish_child(child);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    let document = done.json();
    assert_eq!(document["interrupted"], true);
    assert!(
        document["requests"]["succeeded"].as_u64() > Some(0),
        "{document}"
    );
    assert_eq!(document["event_streams"]["open"], 10, "{document}");
}

#[test]
fn streams_of_two_hosts_are_one_load() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let hosts = state.path().join("hosts.toml");
    let binary = env!("CARGO_BIN_EXE_prony");
    let host = |name: &str| format!("[host.{name}]\nvia = [\"env\"]\nbinary = \"{binary}\"\n");
    fs::write(&hosts, host("one") + &host("two")).unwrap();
    let flags = ["-n", "200", "--hosts", hosts.to_str().unwrap()];
    let (_, document) = load(state.path(), &url, &flags);
    let streams = all_came(&document, 200);
    assert_eq!(streams["opened"], 4, "{document}");
    assert_eq!(document["agents"].as_array().unwrap().len(), 2);
}

#[test]
fn what_asks_for_times_or_rates_is_refused_with_a_way_out() {
    let state = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (&["load", "--sse", "-R", "10"][..], "a rate"),
        (&["load", "--sse", "--find-max"], "a search"),
        (&["load", "--sse", "--slo", "p99<5ms"], "response times"),
        (&["load", "--sse", "--http", "2"], "HTTP/1.1 alone"),
        (&["diagnose", "--sse", "--url"], "--no-load"),
    ] {
        let mut command = prony(state.path());
        let finished = finish(command.args(flags).arg("http://127.0.0.1:1/"));
        assert_eq!(finished.code, Some(2), "{}", finished.stderr);
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
        assert!(finished.stderr.contains("remedy"), "{}", finished.stderr);
    }
}
