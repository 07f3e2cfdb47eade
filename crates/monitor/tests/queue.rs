//! The trace of turns against a real Redis, at which one client waits for what another one brings.
//!
//! Where the kernel refuses BPF, or Redis is not installed, the test checks that the reason is given.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use monitor::probe::ProbeTarget;
use monitor::turns::{Stacks, TraceConfig, Tracer};
use record::{Place, PlaceTime};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Brings an element every 20 ms, fifty times.
const BRINGS: &str = r"
import socket, sys, time

redis = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
for _ in range(50):
    time.sleep(0.02)
    redis.sendall(b'LPUSH queue x\r\n')
    redis.recv(4096)
";

/// A server that ends with it.
struct Redis {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.args(["--save", "", "--dir", dir.path().to_str().unwrap()]);
        let child = command.stdout(Stdio::null()).spawn().ok()?;
        let redis = Self {
            child,
            port,
            _dir: dir,
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen");
            std::thread::yield_now();
        }
        Some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A queue says nothing, and answers when somebody else has brought something: that is no client who takes no more, and
/// who brings it is told.
#[test]
fn who_brings_what_another_client_waits_for_is_told() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let config = TraceConfig {
        targets: vec![ProbeTarget {
            target: "redis".to_owned(),
            pids: vec![i32::try_from(redis.child.id()).unwrap()],
            listens: vec![redis.port],
            ..ProbeTarget::default()
        }],
        one_in: 1,
        ..TraceConfig::default()
    };
    let tracer = match Tracer::start(&config) {
        Ok(tracer) => tracer,
        Err(refused) => {
            assert!(!refused.reason.is_empty() && !refused.remedy.is_empty());
            return;
        }
    };
    let mut waits = TcpStream::connect(("127.0.0.1", redis.port)).unwrap();
    let mut brings = Command::new("python3");
    brings.args(["-c", BRINGS, &redis.port.to_string()]);
    let mut brings = brings.spawn().unwrap();
    for _ in 0..50 {
        waits.write_all(b"BLPOP queue 5\r\n").unwrap();
        assert!(waits.read(&mut [0; 4096]).unwrap() > 0);
    }
    assert!(brings.wait().unwrap().success());
    let account = tracer.stop().account(&Stacks::default());
    let account = &account.targets[0].account;
    let sum = |of: &dyn Fn(&PlaceTime) -> bool| {
        let places = account.places.iter().filter(|p| of(p));
        places.map(|p| p.total_ns).sum::<u64>() as f64
    };
    let all = account.total_ns as f64;
    let brought = sum(&|p| p.place == Place::Hidden && p.waker.starts_with("process python"));
    assert!(brought > 0.6 * all, "{account:#?}");
    assert!(
        sum(&|p| p.place == Place::Sending) < 0.01 * all,
        "{account:#?}"
    );
}
