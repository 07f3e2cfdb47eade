//! A load that finds no file descriptor for a connection names that, request by request.
//!
//! A test program of its own, because the limit is the process's. The load checks the limit before it
//! starts; here it sinks after that.

#![allow(
    clippy::unwrap_used,
    reason = "a test may fail by panicking, in its helpers too"
)]
#![allow(
    clippy::print_stderr,
    reason = "a test says what it could not try here"
)]

use record::{Engine, FailureKind, LoadSpec};
use std::net::TcpListener;
use traffic::{Load, LoadError};

/// What one load thread keeps: an epoll instance and a timer, or a ring.
const OF_THE_THREAD: [(Engine, usize); 2] = [(Engine::Epoll, 2), (Engine::Uring, 1)];

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
    for (engine, of_the_thread) in OF_THE_THREAD {
        let spec = LoadSpec {
            connections: 1,
            duration: None,
            requests: Some(3),
            engine,
            ..LoadSpec::new(format!("http://{}/", listener.local_addr().unwrap()))
        };
        let load = match Load::prepare(&spec) {
            Err(LoadError::Engine { cause }) => {
                eprintln!("without io_uring, which is refused here: {cause}");
                continue;
            }
            load => load.unwrap(),
        };
        leave_free(of_the_thread);
        let outcome = load.start().unwrap().finish();
        assert_eq!(
            outcome.requests.failed,
            [(FailureKind::NoDescriptor, 3)].into_iter().collect()
        );
        let words = &outcome.first_failure[&FailureKind::NoDescriptor];
        assert_eq!(words, "socket: Too many open files (os error 24)");
        assert_eq!(outcome.connections.opened, 0);
    }
}
