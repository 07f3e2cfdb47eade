//! An origin that has run out of file descriptors waits for some, and neither spins nor gives up.
//!
//! A test program of its own, because the limit is the process's.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use traffic::origin::{Origin, OriginSpec};

/// Sets the soft limit of open files; the one before.
fn limit_open_files(limit: u64) -> u64 {
    let mut both = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is writable for the first call and readable for the second.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut both) };
    let before = both.rlim_cur;
    both.rlim_cur = limit;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &both) }, 0);
    before
}

/// The limit below which exactly one descriptor is free.
fn limit_with_one_free() -> u64 {
    let is_free = |fd: &u64| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_err();
    (0..).find(is_free).expect("descriptors are finite") + 1
}

#[test]
fn accepting_pauses_and_goes_on() {
    let origin = Origin::start(&OriginSpec::new("127.0.0.1:0".parse().unwrap())).unwrap();
    // The client takes the last descriptor, and accept finds none.
    let before = limit_open_files(limit_with_one_free());
    let mut client = TcpStream::connect(origin.address()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    while origin.stats().total.accept_errors == 0 {
        std::thread::yield_now();
    }
    assert_eq!(origin.stats().total.accepted, 0);
    limit_open_files(before);
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    // A loop without a pause would have failed a hundred thousand times.
    assert!(origin.stop().total.accept_errors < 100);
}
