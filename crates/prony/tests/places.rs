//! Where a load connects to: a Unix socket of a real server, and IPv6 written as a literal.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

mod common;

use common::{Finished, Origin, finish, prony, signal, wait_until};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// nginx on a Unix socket only, in a directory of its own; ended on drop.
struct Nginx {
    child: Child,
    socket: PathBuf,
}

impl Nginx {
    fn start(home: &Path) -> Self {
        let socket = home.join("nginx.sock");
        std::fs::create_dir(home.join("files")).unwrap();
        std::fs::write(home.join("files/large"), vec![b'x'; 300_000]).unwrap();
        let config = format!(
            "daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2;\n\
             fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5; sendfile off;\n\
             server {{ listen unix:{0}; root {1}/files;\n\
             location /name {{ return 200 $http_host$request_uri; }} }} }}\n",
            socket.display(),
            home.display()
        );
        std::fs::write(home.join("nginx.conf"), config).unwrap();
        std::fs::set_permissions(home, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let child = Command::new("nginx")
            .args(["-p", home.to_str().unwrap(), "-c", "nginx.conf"])
            .args(["-e", "error.log"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|cause| {
                panic!("this test needs the servers that `make test` installs: {cause}")
            });
        wait_until("nginx listens", || UnixStream::connect(&socket).is_ok());
        Nginx { child, socket }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

fn load(state: &Path, flags: &[&str]) -> Finished {
    let mut command = prony(state);
    finish(
        command
            .args(["load", "--json", "--timeout", "30s"])
            .args(flags),
    )
}

fn warned(document: &Value, name: &str) -> bool {
    let mut warnings = document["warnings"].as_array().unwrap().iter();
    warnings.any(|warning| warning["name"] == name)
}

#[test]
fn a_unix_socket_carries_the_load_and_its_server_is_watched() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nginx = Nginx::start(home.path());
    let socket = nginx.socket.to_str().unwrap();
    // With so many connections a load over TCP would be driven by io_uring.
    let flags = ["-n", "2000", "-c", "150", "-t", "1", "--unix", socket];
    let url = "http://example.test:81/name?a=b";
    let document = load(state.path(), &[&flags[..], &[url]].concat()).json();
    assert_eq!(document["requests"]["succeeded"], 2_000, "{document}");
    assert_eq!(document["generator"]["engine"], "epoll");
    assert_eq!(document["asked"]["unix"], socket);
    // The host and the path are the URL's: as many bytes as nginx has read of them come back.
    let bodies = 2_000 * "example.test:81/name?a=b".len() as u64;
    assert!(document["bytes"]["received"].as_u64().unwrap() > bodies);
    assert!(warned(&document, "unix_socket"), "{document}");
    assert!(!warned(&document, "server_not_seen"), "{document}");
    let flags = ["-n", "50", "-c", "2", "--unix", socket, "http://h/large"];
    let document = load(state.path(), &flags).json();
    assert_eq!(document["requests"]["succeeded"], 50, "{document}");
    assert!(document["bytes"]["received"].as_u64().unwrap() > 50 * 300_000);
    let flags = ["-n", "60", "-c", "2", "--requests-per-connection", "1"];
    let place = ["--unix", socket, "http://h/name"];
    let document = load(state.path(), &[&flags[..], &place].concat()).json();
    assert_eq!(document["requests"]["succeeded"], 60, "{document}");
    assert_eq!(document["connections"]["opened"], 60, "{document}");
}

#[test]
fn a_server_on_a_unix_socket_is_examined_without_a_port() {
    let (state, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let nginx = Nginx::start(home.path());
    let mut command = prony(state.path());
    command
        .args(["diagnose", "--json", "-d", "1s", "-c", "2", "--unix"])
        .arg(&nginx.socket)
        .args(["--url", "http://h/name"]);
    let diagnosed = finish(&mut command);
    let document = diagnosed.json();
    assert_eq!(document["asked"]["unix"], nginx.socket.to_str().unwrap());
    // The processes were found by their socket, and watched under the load, whatever limits it beside other tests.
    let mut facts = document["facts"].as_array().unwrap().iter();
    let busiest = facts.find(|f| f["name"] == "worker.busiest" && f["target"] == "server");
    assert!(
        busiest.is_some_and(|f| f["value"].as_f64() > Some(0.0)),
        "{document}"
    );
}

#[test]
fn a_socket_that_is_not_there_is_no_server() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("none.sock");
    let flags = ["-n", "3", "-c", "1", "--unix"];
    let place = [path.to_str().unwrap(), "http://h/"];
    let document = load(state.path(), &[&flags[..], &place].concat()).json();
    assert_eq!(document["requests"]["succeeded"], 0, "{document}");
    let failed = document["requests"]["failed"]["connect_failed"].as_u64();
    assert!(failed.is_some_and(|n| n > 0), "{document}");
}

#[test]
fn ipv6_is_written_in_brackets() {
    let state = tempfile::tempdir().unwrap();
    let mut command = prony(state.path());
    command.args(["origin", "--listen", "[::1]:0"]);
    let origin = Origin::of(command);
    for engine in ["epoll", "auto"] {
        let flags = ["-n", "200", "-c", "2", "--engine", engine, &origin.url];
        let document = load(state.path(), &flags).json();
        assert_eq!(document["requests"]["succeeded"], 200, "{document}");
        assert!(origin.url.starts_with("http://[::1]:"), "{}", origin.url);
        assert!(!warned(&document, "server_not_seen"), "{document}");
    }
}
