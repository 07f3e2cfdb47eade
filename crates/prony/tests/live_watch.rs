//! `prony diagnose --no-load` of a server that ends, is replaced, is reloaded or that nobody may look into: each leaves
//! what is known until then, and says why there is no more.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{Finished, Origin, Real, finish, finish_child, ours, prony, signal, wait_until};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Somebody's load, until it is dropped.
struct Somebody(Child);

impl Somebody {
    fn loads(state: &Path, url: &str) -> Self {
        let load = prony(state)
            .args(["load", url, "-c", "4", "-R", "300", "-d", "100s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let fds = format!("/proc/{}/fd", load.id());
        wait_until("the load is connected", || {
            let fds = fs::read_dir(&fds).into_iter().flatten().flatten();
            let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
            links
                .filter(|to| to.to_string_lossy().contains("socket"))
                .count()
                >= 4
        });
        Self(load)
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server under somebody's load, and prony's own place apart from both.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn origin(&self, port: u16) -> Origin {
        let mut command = prony(&self.path("servers"));
        command.args(["origin", "--listen", &format!("127.0.0.1:{port}")]);
        Origin::of(command)
    }

    fn arguments(port: u16) -> Vec<String> {
        let all = format!("diagnose --listen {port} --no-load --overhead 50% -d 2s");
        all.split(' ').map(str::to_owned).collect()
    }

    /// Starts to watch, and waits until it says that it does.
    fn watch(&self, port: u16) -> Child {
        let child = prony(&self.path("state"))
            .args(Self::arguments(port))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id();
        // Samplers and the profiler are threads of their own.
        wait_until("it watches", || {
            fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |all| all.count() > 1)
        });
        child
    }

    fn assert_nothing_left(&self) {
        let state = self.path("state");
        wait_until("no process is left", || ours(&state).is_empty());
        let journal = fs::read_dir(state.join("prony"));
        assert_eq!(journal.map_or(0, Iterator::count), 0);
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A partial answer: something was said of what was seen, and nothing that was not seen is called healthy.
#[track_caller]
fn assert_partial(finished: &Finished, why: &[&str]) {
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    assert!(
        finished.stdout.contains("worker.busiest") || finished.stdout.contains("could not be"),
        "{}",
        finished.stdout
    );
    assert!(!finished.stdout.starts_with("none"), "{}", finished.stdout);
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for word in why {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
}

#[test]
fn a_server_that_ends_leaves_what_was_seen_and_why_there_is_no_more() {
    let (scene, port) = (Scene::new(), free_port());
    let origin = scene.origin(port);
    let load = Somebody::loads(&scene.path("load"), &origin.url);
    let watching = scene.watch(port);
    drop(origin);
    let finished = finish_child(watching);
    drop(load);
    assert_eq!(finished.code, Some(3), "{}", finished.stdout);
    let why = [
        "ended while it was watched",
        "nobody serves in its place",
        "remedy: start it",
    ];
    assert_partial(&finished, &why);
    scene.assert_nothing_left();
}

#[test]
fn a_server_that_is_replaced_is_followed_and_said() {
    let (scene, port) = (Scene::new(), free_port());
    let origin = scene.origin(port);
    let old = origin.pid();
    let load = Somebody::loads(&scene.path("load"), &origin.url);
    let watching = scene.watch(port);
    drop(origin);
    let next = scene.origin(port);
    let finished = finish_child(watching);
    drop(load);
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    let (gone, new) = (
        format!("process {old} ended while it was watched"),
        format!("process {} serves in its place", next.pid()),
    );
    assert!(finished.stderr.contains(&gone), "{}", finished.stderr);
    assert!(finished.stderr.contains(&new), "{}", finished.stderr);
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    scene.assert_nothing_left();
}

#[test]
fn ctrl_c_keeps_what_was_watched_until_then() {
    let (scene, port) = (Scene::new(), free_port());
    let origin = scene.origin(port);
    let load = Somebody::loads(&scene.path("load"), &origin.url);
    let watching = scene.watch(port);
    signal(watching.id(), "INT");
    let finished = finish_child(watching);
    drop(load);
    assert_eq!(finished.code, Some(130), "{}", finished.stderr);
    assert_partial(
        &finished,
        &["it was interrupted", "remedy: let it end by itself"],
    );
    scene.assert_nothing_left();
}

#[test]
fn a_reload_is_no_end_of_the_server() {
    let (scene, port) = (Scene::new(), free_port());
    let dir = scene.path("nginx");
    fs::create_dir_all(&dir).unwrap();
    let config = dir.join("nginx.conf");
    let text = format!(
        "daemon off;\npid {dir}/pid;\nerror_log {dir}/error.log;\nworker_processes 2;\nevents {{}}\n\
         http {{\naccess_log off;\nserver {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }}\n}}\n",
        dir = dir.display()
    );
    fs::write(&config, text).unwrap();
    let mut nginx = Command::new("nginx");
    nginx.arg("-c").arg(&config).stderr(Stdio::null());
    let Ok(mut nginx) = nginx.spawn() else {
        return;
    };
    let url = format!("http://127.0.0.1:{port}/");
    wait_until("nginx answers", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let load = Somebody::loads(&scene.path("load"), &url);
    let watching = scene.watch(port);
    signal(nginx.id(), "HUP");
    let finished = finish_child(watching);
    drop(load);
    signal(nginx.id(), "TERM");
    nginx.wait().unwrap();
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    assert!(
        !finished.stderr.contains("ended while"),
        "{}",
        finished.stderr
    );
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
    scene.assert_nothing_left();
}

/// Asks the server at the port `PORT` on a connection of its own for each request.
const ASKS_ANEW: &str = r#"
import socket, threading
def serve(client):
    while client.recv(65536):
        with socket.create_connection(("127.0.0.1", PORT)) as asked:
            asked.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            asked.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
listener = socket.create_server(("127.0.0.1", 0), backlog=128)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Such a connection is gone at every look but for a chance; the questions on it are counted.
#[test]
fn whoever_is_asked_on_connections_of_one_request_is_met() {
    let (scene, port) = (Scene::new(), free_port());
    let behind = scene.origin(port);
    let front = Real::python(&ASKS_ANEW.replace("PORT", &port.to_string()), "python3");
    let url = format!("http://127.0.0.1:{}/", front.port);
    let load = Somebody::loads(&scene.path("load"), &url);
    let record = scene.path("record");
    let mut watch = prony(&scene.path("state"));
    watch.args(Scene::arguments(front.port));
    let finished = finish(watch.arg("--out").arg(&record));
    drop(load);
    let stored = fs::read_to_string(record.join("trials/0000/examination.json")).unwrap();
    let stored: serde_json::Value = serde_json::from_str(&stored).unwrap();
    if stored["signature"]["tier"] != "ebpf" {
        return;
    }
    let servers = stored["servers"].as_array().unwrap();
    let pids: Vec<u64> = servers
        .iter()
        .filter_map(|s| s["main_pid"].as_u64())
        .collect();
    assert!(
        pids.contains(&u64::from(behind.pid())),
        "{pids:?}: {}",
        finished.stdout
    );
    let peer = &servers[0]["upstreams"][0];
    assert_eq!(peer["address"], format!("127.0.0.1:{port}"), "{servers:?}");
    assert!(peer["target"].is_string(), "{servers:?}");
    // Its own passes are those of a server: its requests were counted and traced with the front's.
    let traced = stored["turns"]["targets"].as_array().unwrap();
    assert_eq!(traced.len(), 2, "{}", finished.stdout);
    scene.assert_nothing_left();
}

#[test]
fn without_bpf_the_rows_that_are_missing_are_said() {
    if !Path::new("/sys/kernel/btf").is_dir() {
        return;
    }
    let (scene, port) = (Scene::new(), free_port());
    let origin = scene.origin(port);
    let load = Somebody::loads(&scene.path("load"), &origin.url);
    // An empty directory over the kernel's BTF, in a mount namespace that ends with the command.
    let script = format!(
        "mount -t tmpfs none /sys/kernel/btf && exec '{}' {}",
        env!("CARGO_BIN_EXE_prony"),
        Scene::arguments(port).join(" ")
    );
    let mut command = Command::new("unshare");
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        command.args(["--user", "--map-root-user"]);
    }
    command
        .args(["--mount", "sh", "-c", &script])
        .env("XDG_STATE_HOME", scene.path("state"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let finished = finish_child(command.spawn().unwrap());
    drop(load);
    if finished.stderr.contains("unshare") {
        return;
    }
    assert!(matches!(finished.code, Some(0 | 3)), "{}", finished.stderr);
    assert_partial(
        &finished,
        &["not visible: latency", "turns were not traced"],
    );
    scene.assert_nothing_left();
}
