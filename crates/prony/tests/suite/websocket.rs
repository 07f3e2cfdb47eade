//! WebSocket against the library that most servers in Python stand on, alone and behind nginx.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Real, finish, prony};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sends each message back as what it is; on other paths it closes, pushes, or pings all the time.
const SERVER: &str = r#"
import asyncio, sys, websockets

async def serve(socket, path):
    if path == "/close":
        await socket.recv()
        await socket.close(1008, "not today")
    if path == "/push":
        for _ in range(3):
            await socket.send("unasked")
    if path == "/types":
        async for message in socket:
            await socket.send("binary" if isinstance(message, bytes) else "text")
    async for message in socket:
        if path == "/ping":
            await (await socket.ping())
        await socket.send(message)

async def main():
    options = dict(subprotocols=["chat"], max_size=1000000)
    async with websockets.serve(serve, "127.0.0.1", 0, **options) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_event_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"#;

fn start_server() -> Real {
    Real::python(SERVER, "python3-websockets")
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
             ssl_certificate_key key.pem; location /none {{ return 404; }}\n\
             location / {{ proxy_pass http://127.0.0.1:{upstream}; proxy_http_version 1.1;\n\
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }} }} }}\n"
        )
    })
}

fn load(state: &Path, url: &str, flags: &[&str]) -> (Option<i32>, Value) {
    load_of("200", state, url, flags)
}

fn load_of(messages: &str, state: &Path, url: &str, flags: &[&str]) -> (Option<i32>, Value) {
    let mut command = prony(state);
    command
        .args([
            "load",
            "--json",
            "-n",
            messages,
            "-c",
            "4",
            "--timeout",
            "30s",
        ])
        .args(flags)
        .arg(url);
    let finished = finish(&mut command);
    (finished.code, finished.json())
}

fn all_succeeded(document: &Value) {
    assert_eq!(document["requests"]["succeeded"], 200, "{document}");
    let none = serde_json::json!({});
    assert_eq!(document["requests"]["failed"], none, "{document}");
    assert_eq!(document["status"], none, "a message has no status");
}

#[test]
fn messages_are_echoed_and_each_connection_has_a_handshake() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = |path: &str| format!("ws://127.0.0.1:{}{path}", server.port);
    let (code, document) = load(state.path(), &url("/"), &["--body", "hello"]);
    assert!(matches!(code, Some(0 | 3)), "{document}");
    all_succeeded(&document);
    assert_eq!(document["connections"]["opened"], 4);
    let engine = document["generator"]["engine"].to_string();
    assert!(engine.contains("+websocket"), "{document}");
    // "binary" is two letters more than "text".
    let received = |flags: &[&str]| {
        let (_, document) = load(state.path(), &url("/types"), flags);
        all_succeeded(&document);
        document["bytes"]["received"].as_u64().unwrap()
    };
    assert_eq!(received(&["--ws-binary"]), received(&[]) + 200 * 2);
    let large = "x".repeat(100_000);
    let (_, document) = load(state.path(), &url("/ping"), &["--body", &large]);
    all_succeeded(&document);
    assert!(document["bytes"]["received"].as_u64() > Some(200 * 100_000));
    let each = ["--requests-per-connection", "1", "--body", "hello"];
    let (_, document) = load(state.path(), &url("/"), &each);
    all_succeeded(&document);
    assert_eq!(document["connections"]["opened"], 200, "{document}");
    let (_, document) = load(state.path(), &url("/push"), &["--body", "hello"]);
    all_succeeded(&document);
    assert!(
        document["warnings"]
            .to_string()
            .contains("unasked_messages")
    );
    let chat = ["-H", "Sec-WebSocket-Protocol: chat"];
    let (_, document) = load(state.path(), &url("/"), &chat);
    all_succeeded(&document);
}

#[test]
fn a_close_and_a_message_that_is_too_large_name_their_codes() {
    let state = tempfile::tempdir().unwrap();
    let server = start_server();
    let url = |path: &str| format!("ws://127.0.0.1:{}{path}", server.port);
    let large = state.path().join("large");
    std::fs::write(&large, vec![b'x'; 2_000_000]).unwrap();
    for (path, flags, words) in [
        ("/close", &[][..], "1008 (policy violation): not today"),
        (
            "/",
            &["--body-file", large.to_str().unwrap()],
            "1009 (message too big)",
        ),
    ] {
        let (code, document) = load_of("8", state.path(), &url(path), flags);
        assert_eq!(code, Some(3), "{document}");
        let failed = &document["requests"]["failed"]["websocket_closed"];
        assert_eq!(failed, 8, "{document}");
        let why = document["verdict"]["why"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn through_nginx_and_tls_messages_pass_and_a_refusal_has_its_status() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = start_server();
    let nginx = start_nginx(home.path(), &server);
    let url = |path: &str| format!("wss://127.0.0.1:{}{path}", nginx.port);
    let flags = ["--insecure", "--body", "hello"];
    let (_, document) = load(state.path(), &url("/"), &flags);
    all_succeeded(&document);
    assert_eq!(document["connections"]["tls_full"], 4, "{document}");
    let (code, document) = load_of("8", state.path(), &url("/none"), &flags);
    assert_eq!(code, Some(3), "{document}");
    let failed = document["requests"]["failed"]["upgrade_refused"].as_u64();
    assert!(failed > Some(0), "{document}");
    let why = document["verdict"]["why"].as_str().unwrap();
    assert!(why.contains("status 404"), "{why}");
}

#[test]
fn a_diagnosis_by_messages_is_refused_with_the_way_to_have_one() {
    let state = tempfile::tempdir().unwrap();
    let finished = finish(prony(state.path()).args(["diagnose", "--url", "ws://127.0.0.1:1/"]));
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("--no-load"), "{}", finished.stderr);
}
