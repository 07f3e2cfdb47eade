//! A load through a forward proxy: squid in front of real servers, whole URLs and tunnels.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use crate::common::{Finished, Origin, finish, prony, signal, wait_until};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server of one process, ended on drop.
struct Server(Child);

impl Server {
    fn start(command: &mut Command, port: u16) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|cause| {
                panic!("this test needs the servers that `make test` installs: {cause}")
            });
        wait_until("a server listens", || {
            assert_eq!(child.try_wait().unwrap(), None, "the server has ended");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Server(child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

/// squid that lets everybody through one port, and `me:secret` through the other.
struct Squid {
    _server: Server,
    home: PathBuf,
    open: String,
    closed: String,
}

impl Squid {
    fn start(home: &Path) -> Self {
        // As root it becomes another user.
        std::fs::set_permissions(home, PermissionsExt::from_mode(0o777)).unwrap();
        let (open, closed) = (free_port(), free_port());
        let hash = Command::new("openssl")
            .args(["passwd", "-apr1", "secret"])
            .output()
            .unwrap();
        let hash = String::from_utf8(hash.stdout).unwrap();
        std::fs::write(home.join("users"), format!("me:{hash}")).unwrap();
        let at = home.display();
        let config = format!(
            "http_port 127.0.0.1:{open}\nhttp_port 127.0.0.1:{closed}\n\
             pid_filename none\nnetdb_filename none\ncache deny all\nshutdown_lifetime 0 seconds\n\
             strip_query_terms off\n\
             cache_log {at}/cache.log\ncoredump_dir {at}\naccess_log stdio:{at}/access.log\n\
             auth_param basic program /usr/lib/squid/basic_ncsa_auth {at}/users\n\
             auth_param basic children 1\n\
             acl open localport {open}\nacl known proxy_auth REQUIRED\n\
             http_access allow open\nhttp_access allow known\nhttp_access deny all\n"
        );
        std::fs::write(home.join("squid.conf"), config).unwrap();
        let mut command = Command::new("squid");
        command.args(["-N", "-f"]).arg(home.join("squid.conf"));
        Squid {
            _server: Server::start(&mut command, open),
            home: home.to_owned(),
            open: format!("http://127.0.0.1:{open}"),
            closed: format!("http://127.0.0.1:{closed}"),
        }
    }

    /// Waits until so many requests of this kind stand in the log, and no more.
    fn wait_for(&self, words: &str, n: u64) {
        assert_eq!(self.wait_for_least(words, n), n, "{words}");
    }

    /// Waits until at least so many requests of this kind stand in the log; how many do.
    fn wait_for_least(&self, words: &str, n: u64) -> u64 {
        let count = || {
            let log = std::fs::read_to_string(self.home.join("access.log")).unwrap_or_default();
            log.lines().filter(|line| line.contains(words)).count() as u64
        };
        wait_until(&format!("squid has logged {n} of `{words}`"), || {
            count() >= n
        });
        count()
    }
}

/// nginx with TLS and HTTP/2, on a free port.
fn start_nginx(home: &Path) -> (Server, String) {
    let port = free_port();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=server.test"])
        .args(["-keyout", "server.key", "-out", "server.pem"])
        .current_dir(home)
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let config = format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
         events {{ worker_connections 64; }}\n\
         http {{ client_body_temp_path t1; proxy_temp_path t2; access_log off;\n\
         fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
         server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate server.pem;\n\
         ssl_certificate_key server.key; return 200 $request_uri; }} }}\n"
    );
    std::fs::write(home.join("nginx.conf"), config).unwrap();
    let mut command = Command::new("nginx");
    command
        .args(["-p", home.to_str().unwrap(), "-c", "nginx.conf"])
        .args(["-e", "error.log"]);
    let server = Server::start(&mut command, port);
    (server, format!("https://127.0.0.1:{port}"))
}

fn load(state: &Path, flags: &str, urls: &[&str]) -> Finished {
    let mut command = prony(state);
    command.args(["load", "--json", "--timeout", "30s", "-c", "2"]);
    finish(command.args(flags.split_whitespace()).args(urls))
}

fn warned(document: &Value, name: &str) -> bool {
    let mut warnings = document["warnings"].as_array().unwrap().iter();
    warnings.any(|warning| warning["name"] == name)
}

#[test]
fn a_proxy_is_given_whole_urls_of_each_kind_of_request() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let squid = Squid::start(home.path());
    let origin = Origin::start(state.path(), &["--cpus", "0"]);
    let url = |path: &str| format!("{}{path}", origin.url.trim_end_matches('/'));
    let one = url("/bytes/1KiB?one");
    let flags = format!("-n 50 --proxy {}", squid.open);
    let document = load(state.path(), &flags, &[&one]).json();
    assert_eq!(document["requests"]["succeeded"], 50, "{document}");
    assert_eq!(document["asked"]["proxy"], squid.open["http://".len()..]);
    assert!(warned(&document, "proxy_in_path"), "{document}");
    squid.wait_for(&format!("GET {one}"), 50);
    // Several URLs, and clients that think, write their requests one by one.
    let several = [url("/bytes/2KiB?a"), url("/bytes/2KiB?b")];
    let document = load(state.path(), &flags, &[&several[0], &several[1]]).json();
    assert_eq!(document["requests"]["succeeded"], 50, "{document}");
    squid.wait_for(&format!("GET {}", several[0]), 25);
    squid.wait_for(&format!("GET {}", several[1]), 25);
    // A user is asked for, and said.
    let flags = format!("-n 20 --proxy {}", squid.closed);
    let document = load(state.path(), &flags, &[&one]).json();
    assert_eq!(document["status"]["407"], 20, "{document}");
    let flags = format!("{flags} --proxy-user me:secret --engine uring");
    let document = load(state.path(), &flags, &[&one]).json();
    assert_eq!(document["requests"]["succeeded"], 20, "{document}");
    let wrong = load(state.path(), "--proxy socks5://a:1", &[&one]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("an HTTP proxy"), "{}", wrong.stderr);
}

#[test]
fn a_tunnel_carries_tls_and_a_refusal_has_its_name() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let front = home.path().join("squid");
    std::fs::create_dir(&front).unwrap();
    std::fs::set_permissions(home.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let squid = Squid::start(&front);
    let (_nginx, server) = start_nginx(home.path());
    let url = format!("{server}/a?b");
    let flags = format!(
        "-n 40 --insecure --requests-per-connection 4 --proxy {}",
        squid.open
    );
    let document = load(state.path(), &flags, &[&url]).json();
    assert_eq!(document["requests"]["succeeded"], 40, "{document}");
    assert!(warned(&document, "proxy_in_path"), "{document}");
    let authority = &server["https://".len()..];
    let opened = document["connections"]["opened"].as_u64().unwrap();
    assert!(opened >= 10, "{document}");
    // A tunnel that was there before its TLS when the load ended is in the log alone.
    let tunnels = squid.wait_for_least(&format!("CONNECT {authority}"), opened);
    let asked = document["connections"]["asked"].as_u64().unwrap();
    assert!(tunnels <= opened + asked, "{tunnels}: {document}");
    let flags = format!("-n 40 --insecure --http 2 --proxy {}", squid.closed);
    let known = format!("{flags} --proxy-user me:secret");
    let document = load(state.path(), &known, &[&url]).json();
    assert_eq!(document["requests"]["succeeded"], 40, "{document}");
    assert_eq!(document["connections"]["alpn"], "h2", "{document}");
    let refused = |flags: &str, url: &str, status: &str| {
        let finished = load(state.path(), flags, &[url]);
        let document = finished.json();
        assert_eq!(finished.code, Some(3), "{document}");
        let failed = document["requests"]["failed"]["proxy_refused"].as_u64();
        assert!(failed > Some(0), "{document}");
        let words = format!("the proxy answered CONNECT with status {status}");
        assert!(finished.stdout.contains(&words), "{document}");
    };
    refused(&flags, &url, "407");
    let nobody = format!("https://127.0.0.1:{}/", free_port());
    let flags = format!("-n 10 --insecure --proxy {}", squid.open);
    refused(&flags, &nobody, "503");
}
