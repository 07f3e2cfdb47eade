//! `prony origin --transport`: the kernel's TCP and the programs on it as clients of the emulated server, proxies in
//! front of it, and servers that meet a load over prony's own TCP. Every response and every byte is counted.
//!
//! Needs root and `ip`; without, each test says so and ends.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says why it is skipped"
)]

use crate::common::{Finished, finish};
use crate::wires::{PRONY, Wire, file, has};
use serde_json::Value;
use std::fs;

fn total(stats: &Value, name: &str) -> u64 {
    stats["total"][name].as_u64().unwrap()
}

fn requests(done: &Finished, name: &str) -> u64 {
    let result = done.json();
    let count = result["requests"][name].as_u64();
    count.unwrap_or_else(|| panic!("no {name}: {}", result["requests"]))
}

#[test]
fn curl_wrk_and_load_get_every_byte_from_the_origin_over_a_tap() {
    if let Some(wire) = Wire::tap("otap") {
        every_client(&wire, "stack over tap (segments)");
    }
}

#[test]
fn curl_wrk_and_load_get_every_byte_from_the_origin_over_af_xdp() {
    if let Some(wire) = Wire::veth("oxdp", "af_xdp") {
        every_client(&wire, "stack over af_xdp");
        wire.expect_no_program();
    }
}

fn every_client(wire: &Wire, transport: &str) {
    let temp = tempfile::tempdir().unwrap();
    let large: Vec<u8> = (0..700_001u32).map(|i| (i * 31 + i / 251) as u8).collect();
    file(temp.path(), "large.bin", &large);
    let files = temp.path().to_str().unwrap();
    let origin = wire.origin(&format!("--files {files}"));
    assert!(
        origin.said.contains("for 10.9.0.2-10.9.0.5"),
        "{}",
        origin.said
    );
    let mut sent = 0;

    // Small and large, copied and pulled from the store, on every address.
    let got = temp.path().join("got");
    let get = |url: &str| {
        let out = got.to_str().unwrap();
        let code = wire.run(&format!("curl -s -S -o {out} -w %{{http_code}} {url}"));
        assert_eq!(code, "200", "{url}");
        fs::read(&got).unwrap()
    };
    let pattern = get("http://10.9.0.2/bytes/65536");
    for (at, bytes) in [0, 1, 1_448, 16_384, 16_385, 300_000, 8_000_001]
        .into_iter()
        .enumerate()
    {
        let body = get(&format!("http://10.9.0.{}/bytes/{bytes}", 2 + at % 4));
        assert_eq!(body.len(), bytes);
        assert!(
            body.iter().eq(pattern.iter().cycle().take(bytes)),
            "{bytes}"
        );
        sent += 1;
    }
    assert!(get("http://10.9.0.3/large.bin") == large);
    sent += 2;

    // Uploads of both framings, larger than the window.
    let upload = file(temp.path(), "upload", vec![b'u'; 5_000_000]);
    for framing in ["", "-H Transfer-Encoding:chunked"] {
        let answer = wire.run(&format!(
            "curl -s -S {framing} --data-binary @{upload} http://10.9.0.4/upload"
        ));
        assert_eq!(answer, "{\"upload_bytes\":5000000}\n");
        sent += 1;
    }

    // Loads of the kernel's TCP.
    for (path, bytes, n, flags) in [
        ("/bytes/1024", 1_024, 4_000, "-c 32"),
        (
            "/bytes/1024",
            1_024,
            3_000,
            "-c 32 --requests-per-connection 1",
        ),
        (
            "/bytes/1024",
            1_024,
            1_000,
            "-c 8 --requests-per-connection 1 --close rst",
        ),
        ("/bytes/1024", 1_024, 4_000, "-c 8 --pipeline 8"),
        ("/bytes/1048576", 1 << 20, 100, "-c 8"),
        (
            "/large.bin",
            700_001,
            50,
            "-c 4 --requests-per-connection 1",
        ),
    ] {
        let line =
            format!("{PRONY} load --json -n {n} --timeout 10s {flags} http://10.9.0.5{path}");
        let done = finish(&mut wire.kernels(&line));
        assert_eq!(requests(&done, "succeeded"), n, "{flags}: {}", done.stderr);
        let received = done.json()["bytes"]["received"].as_u64().unwrap();
        let bodies = n * bytes;
        assert!(
            received > bodies && received < bodies + n * 200,
            "{flags}: {received}"
        );
        sent += n;
    }

    let stats: Value = serde_json::from_str(&wire.run("curl -s http://10.9.0.2/stats")).unwrap();
    assert_eq!(total(&stats, "requests"), sent);
    assert_eq!(total(&stats, "upload_bytes"), 10_000_000);

    if has("wrk") {
        let text = wire.run("wrk -t1 -c16 -d1s http://10.9.0.2/bytes/2000");
        assert!(
            !text.contains("Non-2xx") && !text.contains("Socket errors"),
            "{text}"
        );
        let counted = text.lines().find(|l| l.contains(" requests in ")).unwrap();
        let answered: u64 = counted.trim().split(' ').next().unwrap().parse().unwrap();
        let stats: Value =
            serde_json::from_str(&wire.run("curl -s http://10.9.0.2/stats")).unwrap();
        // What wrk had in flight at its end is answered, and not counted by it.
        let beyond = total(&stats, "requests") - sent - answered;
        assert!(answered > 100 && beyond <= 16, "{answered} and {beyond}");
    }
    let stats = origin.stop();
    let stack = &stats["stack"];
    assert!(
        stack["transport"].as_str().unwrap().starts_with(transport),
        "{stack}"
    );
    assert_eq!(
        stack["tcp"]["accepts"].as_u64().unwrap(),
        total(&stats, "accepted")
    );
    assert_eq!(total(&stats, "open"), 0);
    wire.expect_no_socket();
}

#[test]
fn delays_freezes_and_closing_hold_over_the_stack_too() {
    let Some(wire) = Wire::tap("odelay") else {
        return;
    };
    let load = |flags: &str| {
        let line = format!("{PRONY} load --json --timeout 10s {flags} http://10.9.0.2/");
        finish(&mut wire.kernels(&line))
    };
    let origin = wire.origin("--delay 30ms --close-after 3");
    let done = load("-n 120 -c 8 --pipeline 3");
    assert_eq!(requests(&done, "succeeded"), 120, "{}", done.stderr);
    let least = done.json()["latency_ns"]["response"]["min"].as_f64();
    assert!(least >= Some(30e6), "{}", done.stdout);
    let stats = origin.stop();
    assert_eq!(
        (total(&stats, "requests"), total(&stats, "accepted")),
        (120, 40)
    );

    let origin = wire.origin("--freeze 300ms/700ms");
    let done = load("-d 2s -R 200 -c 8");
    assert_eq!(
        requests(&done, "succeeded"),
        requests(&done, "sent"),
        "{}",
        done.stderr
    );
    let most = done.json()["latency_ns"]["response"]["max"].as_f64();
    assert!(most > Some(200e6) && most < Some(600e6), "{}", done.stdout);
    origin.stop();
    wire.expect_no_socket();
}

#[test]
fn ctrl_c_resets_what_is_open_and_a_kill_leaves_no_program() {
    let Some(wire) = Wire::veth("oend", "af_xdp") else {
        return;
    };
    for ends_by_itself in [true, false] {
        let origin = wire.origin("--delay 60s");
        let mut waiting = wire
            .kernels("curl -s -S -m 20 http://10.9.0.2/")
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        while wire.run("ss -Htan state established").is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        if ends_by_itself {
            let stats = origin.stop();
            assert_eq!(total(&stats, "open"), 1);
            let status = waiting.wait().unwrap();
            assert_eq!(status.code(), Some(56), "curl was not told of the reset");
            wire.expect_no_socket();
        } else {
            origin.kill();
            let _ = waiting.kill();
            let _ = waiting.wait();
        }
        wire.expect_no_program();
    }
}

#[test]
fn proxies_carry_every_byte_of_the_emulated_server() {
    // Behind the wire in time: its servers write there until their end.
    let temp = tempfile::tempdir().unwrap();
    let Some(mut wire) = Wire::tap("oproxy") else {
        return;
    };
    let origin = wire.origin("");
    let mut proxies = Vec::new();
    if has("nginx") {
        let pid = temp.path().join("nginx.pid");
        let config = format!(
            "daemon off; pid {}; error_log stderr;\nevents {{}}\nhttp {{ access_log off; proxy_temp_path {dir};\n\
             client_body_temp_path {dir}; fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
             upstream o {{ server 10.9.0.2:80; server 10.9.0.3:80; keepalive 16; }}\n\
             server {{ listen 127.0.0.1:8081; location / {{ proxy_pass http://o; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; }} }} }}\n",
            pid.display(),
            dir = temp.path().display()
        );
        let path = file(temp.path(), "nginx.conf", config);
        wire.server(&format!("nginx -c {path} -e stderr"), 8081);
        proxies.push(8081);
    }
    if has("haproxy") {
        let config = "defaults\n mode http\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n\
                      frontend f\n bind 127.0.0.1:8082\n default_backend b\n\
                      backend b\n server one 10.9.0.4:80\n server two 10.9.0.5:80\n";
        let path = file(temp.path(), "haproxy.cfg", config);
        wire.server(&format!("haproxy -q -db -f {path}"), 8082);
        proxies.push(8082);
    }
    let mut sent = 0;
    for port in &proxies {
        let body = |url: &str| {
            let out = temp.path().join("got");
            wire.run(&format!("curl -s -S -o {} {url}", out.display()));
            fs::read(out).unwrap()
        };
        let direct = body("http://10.9.0.2/bytes/3000000");
        assert!(body(&format!("http://127.0.0.1:{port}/bytes/3000000")) == direct);
        sent += 2;
        for (path, n, flags) in [
            ("/bytes/1024", 2_000, "-c 16"),
            ("/bytes/1024", 1_000, "-c 16 --requests-per-connection 1"),
            ("/bytes/100000", 300, "-c 8"),
            ("/status/503", 200, "-c 4"),
        ] {
            let line = format!(
                "{PRONY} load --json -n {n} --timeout 10s --error-limit 100% {flags} http://127.0.0.1:{port}{path}"
            );
            let done = finish(&mut wire.kernels(&line));
            assert_eq!(requests(&done, "completed"), n, "{path}: {}", done.stderr);
            let result = done.json();
            let status = if path == "/status/503" { "503" } else { "200" };
            assert_eq!(result["status"][status].as_u64(), Some(n), "{path}");
            sent += n;
        }
    }
    let stats = origin.stop();
    assert_eq!(total(&stats, "requests"), sent, "{proxies:?}");
    wire.expect_no_socket();
}

#[test]
fn nginx_apache_and_haproxy_answer_a_load_over_the_stack() {
    // Behind the wire in time: its servers write there until their end.
    let temp = tempfile::tempdir().unwrap();
    let Some(mut wire) = Wire::tap("oserve") else {
        return;
    };
    let dir = temp.path().to_str().unwrap().to_owned();
    file(temp.path(), "small", vec![b's'; 1_024]);
    file(temp.path(), "large", vec![b'l'; 1 << 20]);
    // A server's own user must be able to read them.
    assert!(
        std::process::Command::new("chmod")
            .args(["755", &dir])
            .status()
            .unwrap()
            .success()
    );
    let mut servers = Vec::new();
    if has("nginx") {
        let config = format!(
            "daemon off; pid {dir}/n.pid; error_log stderr;\nevents {{}}\nhttp {{ access_log off; proxy_temp_path {dir};\n\
             client_body_temp_path {dir}; fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};\n\
             server {{ listen 10.9.0.1:8081; root {dir}; keepalive_requests 1000000; }} }}\n"
        );
        let path = file(temp.path(), "nginx.conf", config);
        wire.server(&format!("nginx -c {path} -e stderr"), 8081);
        servers.push((8081, &["/small", "/large"][..]));
    }
    if has("apache2") {
        // An ETag is two bytes longer in the second in which its file was written (`W/`).
        let config = format!(
            "ServerRoot {dir}\nFileETag None\nPidFile {dir}/a.pid\nListen 10.9.0.1:8082\nServerName x\nErrorLog /dev/null\n\
             LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
             LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
             User www-data\nGroup www-data\nMaxKeepAliveRequests 0\nDocumentRoot {dir}\n\
             DefaultRuntimeDir {dir}\nMutex sem\n"
        );
        let path = file(temp.path(), "apache.conf", config);
        wire.server(&format!("apache2 -f {path} -D FOREGROUND"), 8082);
        servers.push((8082, &["/small", "/large"][..]));
    }
    if has("haproxy") {
        let config = "defaults\n mode http\n timeout connect 5s\n timeout client 10s\n timeout server 10s\n\
                      frontend f\n bind 10.9.0.1:8083\n http-request return status 200 content-type text/plain string small\n";
        let path = file(temp.path(), "haproxy.cfg", config);
        wire.server(&format!("haproxy -q -db -f {path}"), 8083);
        servers.push((8083, &["/"][..]));
    }
    for (port, paths) in servers {
        for path in paths {
            let n = if *path == "/large" { 60 } else { 2_000 };
            let load = |n: u64, flags: &str| {
                let done = wire.load(&format!(
                    "--source 10.9.0.2-10.9.0.5 --timeout 10s -n {n} {flags} http://10.9.0.1:{port}{path}"
                ));
                assert_eq!(
                    requests(&done, "succeeded"),
                    n,
                    "{port}{path}: {}",
                    done.stderr
                );
                done.json()["bytes"]["received"].as_u64().unwrap()
            };
            for flags in ["-c 16", "-c 16 --requests-per-connection 1"] {
                let one = load(1, &flags.replace("16", "1"));
                assert_eq!(load(n, flags), n * one, "{port}{path} {flags}");
            }
        }
    }
    wire.expect_no_socket();
}
