//! A load that finds no file descriptor for a connection names that, request by request.
//!
//! A test program of its own, because the limit is the process's. The load checks the limit before it
//! starts; here it sinks after that.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]

use record::{FailureKind, LoadSpec};
use std::net::TcpListener;
use traffic::Load;

/// One load thread keeps an epoll instance and a timer.
const OF_THE_THREAD: usize = 2;

/// Leaves so many descriptors to open.
fn leave_free(descriptors: usize) {
    let is_free = |fd: &u64| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_err();
    let last = (0..).filter(is_free).nth(descriptors - 1);
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is writable for the length of the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = last.unwrap() + 1;
    // SAFETY: the struct is readable for the length of the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

#[test]
fn each_request_fails_for_want_of_a_descriptor() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = LoadSpec {
        connections: 1,
        duration: None,
        requests: Some(3),
        ..LoadSpec::new(format!("http://{}/", listener.local_addr().unwrap()))
    };
    let load = Load::prepare(&spec).unwrap();
    leave_free(OF_THE_THREAD);
    let outcome = load.start().unwrap().finish();
    assert_eq!(
        outcome.requests.failed,
        [(FailureKind::NoDescriptor, 3)].into_iter().collect()
    );
    let words = &outcome.first_failure[&FailureKind::NoDescriptor];
    assert_eq!(words, "socket: Too many open files (os error 24)");
    assert_eq!(outcome.connections.opened, 0);
}
