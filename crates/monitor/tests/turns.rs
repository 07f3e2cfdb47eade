//! The trace of turns against a real nginx, and a script that asks as libraries do, before a server whose delay is
//! known.
//!
//! Where the kernel refuses BPF, or nginx is not installed, the tests check that the reason is given.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use monitor::probe::ProbeTarget;
use monitor::turns::{Stacks, TraceConfig, Tracer};
use record::{Bytes, LoadOutcome, LoadSpec, Nanos, Place, TurnAccount, Turns};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use traffic::Load;
use traffic::origin::{Delay, Origin, OriginSpec};

const CONNECTIONS: u32 = 16;
const DELAY: Nanos = Nanos::from_millis(20);

/// A server with one thread that asks another one.
struct Server {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    /// A proxy with one worker; `None` when nginx is not installed.
    fn nginx_before(upstream: &str) -> Option<Self> {
        let binary = ["/usr/sbin/nginx", "/usr/bin/nginx"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
        let port = free_port();
        let text = format!(
            "daemon off; pid {root}/pid; error_log {root}/error.log; worker_processes 1;
             events {{ worker_connections 256; }}
             http {{
               upstream back {{ server {upstream}; keepalive 64; }}
               access_log off; keepalive_requests 1000000;
               client_body_temp_path {root}/b; proxy_temp_path {root}/p; fastcgi_temp_path {root}/f;
               uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
               server {{
                 listen 127.0.0.1:{port};
                 location / {{
                   proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";
                 }}
                 location /rests {{ keepalive_timeout 50ms; return 200; }}
                 location /ends {{ keepalive_timeout 0; return 200; }}
               }}
             }}"
        );
        let file = dir.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let child = Command::new(binary)
            .args(["-p", root, "-c"])
            .arg(&file)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Some(Self::begun(child, port, dir))
    }

    /// A loop that asks for each request in turn, and waits for the answer in a poll of two descriptors; `None` when
    /// there is no Python.
    fn that_polls_before(upstream: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = dir.path().join("asks.py");
        fs::write(&file, ASKS).unwrap();
        let (host, upstream_port) = upstream.rsplit_once(':').unwrap();
        let mut command = Command::new("python3");
        command
            .arg(&file)
            .args([&port.to_string(), host, upstream_port]);
        let child = command.stderr(Stdio::null()).spawn().ok()?;
        Some(Self::begun(child, port, dir))
    }

    /// Of a server that was just started, when it answers.
    fn begun(child: Child, port: u16, dir: tempfile::TempDir) -> Self {
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::yield_now();
        }
        let server = Self {
            child,
            port,
            _dir: dir,
        };
        server.load(&LoadSpec {
            connections: 1,
            requests: Some(1),
            duration: None,
            ..LoadSpec::new(server.url())
        });
        server
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn load(&self, spec: &LoadSpec) -> LoadOutcome {
        Load::prepare(spec).unwrap().start().unwrap().finish()
    }

    fn target(&self, name: &str) -> ProbeTarget {
        ProbeTarget {
            target: name.to_owned(),
            pids: vec![i32::try_from(self.child.id()).unwrap()],
            listens: vec![self.port],
            ..ProbeTarget::default()
        }
    }

    fn traced(&self, one_in: u32) -> Option<(Turns, LoadOutcome)> {
        self.traced_with(vec![self.target("proxy")], one_in)
    }

    /// A load while turns are traced; `None` where that is refused, and then the refusal says why.
    fn traced_with(&self, targets: Vec<ProbeTarget>, one_in: u32) -> Option<(Turns, LoadOutcome)> {
        self.traced_as(&TraceConfig {
            targets,
            one_in,
            ..TraceConfig::default()
        })
    }

    fn traced_as(&self, config: &TraceConfig) -> Option<(Turns, LoadOutcome)> {
        let tracer = match Tracer::start(config) {
            Ok(tracer) => tracer,
            Err(refused) => {
                assert!(!refused.reason.is_empty() && !refused.remedy.is_empty());
                return None;
            }
        };
        let outcome = self.load(&LoadSpec {
            connections: CONNECTIONS,
            duration: Some(Nanos::from_secs(2)),
            requests: None,
            ..LoadSpec::new(self.url())
        });
        Some((tracer.stop().account(&Stacks::default()), outcome))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// Clients are watched by epoll; an answer is waited for as curl does it, in a poll of its socket and of a pipe.
const ASKS: &str = r"
import os, select, socket, sys

port, host, upstream = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
asked = socket.create_connection((host, upstream))
asked.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
pipe, _ = os.pipe()
answers = select.poll()
answers.register(asked, select.POLLIN)
answers.register(pipe, select.POLLIN)
listener = socket.create_server(('127.0.0.1', port), backlog=64)
clients = select.epoll()
clients.register(listener, select.EPOLLIN)
connections = {}
while True:
    for fd, _ in clients.poll():
        if fd == listener.fileno():
            client, _ = listener.accept()
            connections[client.fileno()] = client
            clients.register(client, select.EPOLLIN)
            continue
        client = connections[fd]
        if not client.recv(65536):
            clients.unregister(client)
            connections.pop(fd).close()
            continue
        asked.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
        answers.poll()
        answer = asked.recv(65536)
        client.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
";

fn delayed_origin() -> Origin {
    let spec = OriginSpec {
        body: Bytes(1_000),
        delay: Some(Delay::Constant(DELAY)),
        ..OriginSpec::new("127.0.0.1:0".parse().unwrap())
    };
    Origin::start(&spec).unwrap()
}

/// The server's account and the client's measurement are of the same requests: their means agree but for what lies
/// between the two, and by Little's law the requests at all places, the client's own included, are the connections.
#[test]
fn the_account_closes_with_the_client() {
    let origin = delayed_origin();
    let upstream = origin.address().to_string();
    let Some(nginx) = Server::nginx_before(&upstream) else {
        return;
    };
    let Some((turns, outcome)) = nginx.traced(1) else {
        return;
    };
    assert_eq!(turns.lost, 0);
    let target = &turns.targets[0];
    let account = &target.account;
    let sum: u64 = account.places.iter().map(|place| place.total_ns).sum();
    assert_eq!(sum, account.total_ns);
    assert_eq!(target.connections, u64::from(CONNECTIONS));
    // Where the host takes the CPU away inside of the call that sends, the next request comes before its end.
    assert!(
        target.irregular * 100 <= account.turns,
        "{} of {}",
        target.irregular,
        account.turns
    );
    let (seen, completed) = (account.turns as f64, outcome.requests.completed as f64);
    assert!(
        seen >= completed && seen <= completed + f64::from(CONNECTIONS),
        "{seen} {completed}"
    );

    let server = account.total_ns as f64 / seen;
    let client = outcome.response.mean_ns().unwrap();
    assert!(
        server <= client * 1.02 && server > client * 0.85,
        "{server} {client}"
    );

    // The trace is armed a little before the load, so its own time is counted from first to last.
    let present = (account.total_ns + target.between_ns) as f64;
    let little = present / outcome.measured().0 as f64;
    let expected = f64::from(CONNECTIONS);
    assert!(
        (little / expected - 1.0).abs() < 0.05,
        "{little} requests and clients"
    );

    let waited = account
        .places
        .iter()
        .find(|p| p.place == Place::Upstream)
        .unwrap();
    assert_eq!(waited.detail, upstream);
    assert!(
        waited.total_ns as f64 > 0.8 * account.total_ns as f64,
        "{account:#?}"
    );
    assert!(
        waited.total_ns as f64 / seen > 0.95 * DELAY.0 as f64,
        "{account:#?}"
    );
}

#[test]
fn some_connections_stand_for_all() {
    let origin = delayed_origin();
    let Some(nginx) = Server::nginx_before(&origin.address().to_string()) else {
        return;
    };
    let Some((turns, outcome)) = nginx.traced(4) else {
        return;
    };
    assert_eq!(turns.sampled_one_in, 4);
    let target = &turns.targets[0];
    // A hash picks them: of sixteen any number may be followed, each of them whole.
    assert!(target.connections < u64::from(CONNECTIONS));
    if target.connections > 0 {
        let each = target.account.turns as f64 / target.connections as f64;
        let all = outcome.requests.completed as f64 / f64::from(CONNECTIONS);
        assert!(
            (each / all - 1.0).abs() < 0.2,
            "{each} {all}: {} turns on {} connections",
            target.account.turns,
            target.connections
        );
        let mean = target.account.total_ns as f64 / target.account.turns as f64;
        assert!(mean > 0.95 * DELAY.0 as f64 && mean < 1.05 * outcome.response.mean_ns().unwrap());
    }
}

/// Behind a proxy the connections are others, and what is asked on one of them is now for a client that is followed and
/// now for one that is not.
#[test]
fn what_a_followed_request_asks_is_followed_at_whom_it_asks() {
    let origin = delayed_origin();
    let Some(back) = Server::nginx_before(&origin.address().to_string()) else {
        return;
    };
    let front = Server::nginx_before(&format!("127.0.0.1:{}", back.port)).unwrap();
    let targets = || vec![front.target("proxy"), back.target("backend")];
    // A hash picks them: sometimes none.
    let some = (0..8).find_map(|_| {
        let (turns, outcome) = front.traced_with(targets(), 2)?;
        (turns.targets[0].connections > 0).then_some((turns, outcome))
    });
    let Some((turns, outcome)) = some else {
        return;
    };
    let [proxy, backend] = &turns.targets[..] else {
        panic!("{:?}", turns.targets.len());
    };
    let (asked, answered) = (proxy.account.turns as f64, backend.account.turns as f64);
    assert!(asked < outcome.requests.completed as f64, "{asked}");
    assert!((answered / asked - 1.0).abs() < 0.1, "{answered} {asked}");
    let mean = |account: &TurnAccount| account.total_ns as f64 / account.turns as f64;
    let (before, behind) = (mean(&proxy.account), mean(&backend.account));
    assert!(
        behind <= before * 1.02 && behind > 0.95 * DELAY.0 as f64,
        "{before} {behind}"
    );
    let longest = backend.lengths.as_ref().and_then(record::Histogram::max);
    assert!(
        longest
            < proxy
                .lengths
                .as_ref()
                .and_then(record::Histogram::max)
                .map(|ns| Nanos(2 * ns.0))
    );
}

/// What is closed with its response is closed at once, and an idle connection after the time that the server gives it.
#[test]
fn a_connection_rests_until_the_server_ends_it() {
    const CONNECTIONS: u64 = 8;
    let origin = delayed_origin();
    let Some(nginx) = Server::nginx_before(&origin.address().to_string()) else {
        return;
    };
    let rested = |path: &str| {
        let config = TraceConfig {
            targets: vec![nginx.target("proxy")],
            one_in: 1,
            ..TraceConfig::default()
        };
        let tracer = Tracer::start(&config).ok()?;
        for _ in 0..CONNECTIONS {
            let mut client = TcpStream::connect(("127.0.0.1", nginx.port)).unwrap();
            write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
        }
        let turns = tracer.stop().account(&Stacks::default());
        let target = &turns.targets[0];
        assert_eq!((target.closed, target.rested), (CONNECTIONS, CONNECTIONS));
        Some(target.rested_ns / CONNECTIONS)
    };
    let (Some(idle), Some(at_once)) = (rested("/rests"), rested("/ends")) else {
        return;
    };
    assert!(idle >= 49_000_000, "{idle}");
    assert!(at_once < idle / 2, "{at_once} {idle}");
}

/// Who stands behind a thread in such a poll waits for what that thread waits for, and not for a loop to wake up.
#[test]
fn a_poll_of_an_upstream_and_a_pipe_waits_for_the_upstream() {
    let origin = delayed_origin();
    let upstream = origin.address().to_string();
    let Some(server) = Server::that_polls_before(&upstream) else {
        return;
    };
    let Some((turns, _)) = server.traced(1) else {
        return;
    };
    let account = &turns.targets[0].account;
    let time = |place: Place| {
        let places = account.places.iter().filter(|p| p.place == place);
        places.map(|p| p.total_ns).sum::<u64>() as f64
    };
    // Of sixteen one asks; the first of each connection waits until it is accepted.
    let accepted = account.total_ns as f64 - time(Place::ListenQueue);
    assert!(time(Place::OthersBlocked) > 0.8 * accepted, "{account:#?}");
    assert!(time(Place::WakeUp) < 0.1 * accepted, "{account:#?}");
    let behind = account
        .places
        .iter()
        .find(|p| p.place == Place::OthersBlocked);
    assert_eq!(behind.unwrap().detail, format!("upstream {upstream}"));
}

/// A queue: whoever asks by HTTP is answered when one who takes by `TAKE` has done it, which takes 5 ms.
const QUEUES: &str = r"
import os, select, socket, sys, time

port = int(sys.argv[1])
listener = socket.create_server(('127.0.0.1', port), backlog=64)
if os.fork() == 0 or os.fork() == 0:
    own = socket.create_connection(('127.0.0.1', port))
    own.sendall(b'TAKE')
    while own.recv(64):
        time.sleep(0.005)
        own.sendall(b'TAKE')
    sys.exit()
clients = select.epoll()
clients.register(listener, select.EPOLLIN)
connections, waiting, free, jobs = {}, [], [], {}
while True:
    for fd, _ in clients.poll():
        if fd == listener.fileno():
            client, _ = listener.accept()
            connections[client.fileno()] = client
            clients.register(client, select.EPOLLIN)
            continue
        got = connections[fd].recv(65536)
        if not got:
            clients.unregister(fd)
            connections.pop(fd).close()
            waiting = [one for one in waiting if one != fd]
        elif got.startswith(b'TAKE'):
            done = connections.get(jobs.pop(fd, None))
            if done:
                done.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
            free.append(fd)
        else:
            waiting.append(fd)
        while waiting and free:
            taker = free.pop(0)
            jobs[taker] = waiting.pop(0)
            connections[taker].sendall(b'work')
";

/// Who takes from a queue what its clients bring is known by the waits that it ends, and what it does is theirs then.
#[test]
fn what_a_queues_consumers_do_is_the_requests() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let file = dir.path().join("queues.py");
    fs::write(&file, QUEUES).unwrap();
    let mut command = Command::new("python3");
    command.arg(&file).arg(port.to_string());
    let Ok(child) = command.stderr(Stdio::null()).spawn() else {
        return;
    };
    let pid = child.id();
    let server = Server::begun(child, port, dir);
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let takers: Vec<i32> = (children.split_whitespace())
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(takers.len(), 2);
    let mut own = server.target("queue");
    own.consumers.clone_from(&takers);
    let config = TraceConfig {
        targets: vec![own],
        one_in: 1,
        ..TraceConfig::default()
    };
    let Some((turns, _)) = server.traced_as(&config) else {
        return;
    };
    let account = &turns.targets[0].account;
    let share = |place: Place, detail: &str| {
        let places = account.places.iter();
        let places = places.filter(|p| p.place == place && p.detail == detail);
        let helped = places.filter(|p| p.helper.starts_with("python"));
        helped.map(|p| p.total_ns).sum::<u64>() as f64 / account.total_ns as f64
    };
    // Of sixteen two are done at a time.
    let (asleep, in_line) = (
        share(Place::Blocked, "sleep"),
        share(Place::NoFreeThread, ""),
    );
    assert!((0.08..0.16).contains(&asleep), "{asleep}: {account:#?}");
    assert!(in_line > 0.6, "{in_line}: {account:#?}");
}

/// What is traced may end at any time.
#[test]
fn a_server_that_ends_is_survived() {
    let origin = delayed_origin();
    let Some(mut nginx) = Server::nginx_before(&origin.address().to_string()) else {
        return;
    };
    let config = TraceConfig {
        targets: vec![nginx.target("proxy")],
        one_in: 1,
        ..TraceConfig::default()
    };
    let Ok(tracer) = Tracer::start(&config) else {
        return;
    };
    nginx.load(&LoadSpec {
        connections: 2,
        requests: Some(20),
        duration: None,
        ..LoadSpec::new(nginx.url())
    });
    // The master takes its worker with it.
    let pid = rustix::process::Pid::from_child(&nginx.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    nginx.child.wait().unwrap();
    let turns = tracer.stop().account(&Stacks::default());
    assert!(turns.targets[0].account.turns >= 20);
}
