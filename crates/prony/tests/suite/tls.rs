//! TLS as users set it: who is trusted, who the client is, which name is asked for, whether sessions are resumed.
//! Against nginx, which says what it saw.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Finished, Real, finish, prony};
use std::path::Path;
use std::process::{Command, Stdio};

/// nginx that asks for a client's certificate and returns 403 without one.
fn start_nginx(home: &Path) -> Real {
    Real::nginx(home, |port| {
        format!(
            "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{ client_body_temp_path t1; proxy_temp_path t2;\n\
         fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
         log_format seen '$ssl_server_name $ssl_client_s_dn $host'; access_log seen.log seen;\n\
         server {{ listen 127.0.0.1:{port} ssl; ssl_certificate server.pem;\n\
         ssl_certificate_key server.key; ssl_session_cache shared:s:1m;\n\
         ssl_verify_client optional; ssl_client_certificate client.pem;\n\
         location / {{ if ($ssl_client_verify != SUCCESS) {{ return 403; }} return 200 ok; }} }} }}\n"
        )
    })
}

/// A key and a certificate that it signed itself, for a name.
fn certificate(home: &Path, file: &str, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-keyout",
            &format!("{file}.key"),
            "-out",
            &format!("{file}.pem"),
        ])
        .args(["-subj", &format!("/CN={name}")])
        .args(["-addext", &format!("subjectAltName=DNS:{name}")])
        // Not an authority: a root that is one would not do as a server's own certificate.
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .current_dir(home)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}

fn load(state: &Path, home: &Path, flags: &str, url: &str) -> Finished {
    let home = home.to_str().unwrap();
    let mut command = prony(state);
    command.args(["load", "--json", "-n", "10", "-c", "1", "--timeout", "30s"]);
    for flag in flags.split_whitespace() {
        command.arg(flag.replace('@', home));
    }
    finish(command.arg(url))
}

#[test]
fn trust_identity_and_names_are_the_users_to_say() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificate(home.path(), "server", "server.test");
    certificate(home.path(), "client", "client.test");
    let nginx = start_nginx(home.path());
    let there = format!("--connect-to 127.0.0.1:{}", nginx.port);
    let run = |flags: &str, url: &str| load(state.path(), home.path(), flags, url);
    let both = format!("{there} --cacert @/server.pem --cert @/client.pem --key @/client.key");

    let document = run(&both, "https://server.test/").json();
    assert_eq!(document["requests"]["succeeded"], 10, "{document}");
    let document = run(&both, "https://other.test/").json();
    // How many is a question of time: attempts rest, and the load gives up.
    assert!(document["requests"]["failed"]["tls"].as_u64() > Some(0));
    assert_eq!(document["requests"]["succeeded"], 0, "{document}");
    let named = format!("{both} --sni server.test");
    let document = run(&named, "https://other.test/").json();
    assert_eq!(document["requests"]["succeeded"], 10, "{document}");
    let nobody = format!("{there} --cacert @/server.pem");
    let document = run(&nobody, "https://server.test/").json();
    assert_eq!(document["status"]["403"], 10, "{document}");

    drop(nginx);
    let seen = std::fs::read_to_string(home.path().join("seen.log")).unwrap();
    let of = |line: &str| seen.lines().filter(|seen| *seen == line).count();
    assert_eq!(of("server.test CN=client.test server.test"), 10, "{seen}");
    assert_eq!(of("server.test CN=client.test other.test"), 10, "{seen}");
    assert_eq!(of("server.test - server.test"), 10, "{seen}");
}

#[test]
fn sessions_are_resumed_unless_they_may_not() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificate(home.path(), "server", "server.test");
    certificate(home.path(), "client", "client.test");
    let nginx = start_nginx(home.path());
    let url = format!("https://127.0.0.1:{}/", nginx.port);
    let each = "--insecure --requests-per-connection 1 --cert @/client.pem --key @/client.key";
    let handshakes = |flags: &str| {
        let document = load(state.path(), home.path(), flags, &url).json();
        let count = |name: &str| document["connections"][name].as_u64().unwrap();
        (count("tls_full"), count("tls_resumed"))
    };
    let (full, resumed) = handshakes(each);
    assert_eq!(full + resumed, 10);
    assert!(resumed > 0);
    assert_eq!(handshakes(&format!("{each} --no-resumption")), (10, 0));
}

#[test]
fn files_that_hold_no_certificate_are_refused_by_name() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(home.path().join("empty"), "").unwrap();
    for (flags, path) in [
        ("--cacert @/none", "/none"),
        ("--cacert @/empty", "/empty"),
        ("--insecure --cert @/empty --key @/none", "/none"),
    ] {
        let refused = load(state.path(), home.path(), flags, "https://127.0.0.1:1/");
        assert_eq!(refused.code, Some(2), "{flags}: {}", refused.stderr);
        assert!(refused.stderr.contains(path), "{}", refused.stderr);
        assert!(refused.stderr.contains("remedy: give PEM files"));
    }
    let place = load(state.path(), home.path(), "--connect-to here", "https://a/");
    assert_eq!(place.code, Some(2));
    assert!(
        place.stderr.contains("a host and a port"),
        "{}",
        place.stderr
    );
}
