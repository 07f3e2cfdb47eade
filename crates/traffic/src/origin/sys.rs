//! The system calls of a serving thread, each behind a safe function.
//!
//! Everything that would block says so with `None` instead of an error, because for this server that
//! is the ordinary case.

use record::Nanos;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Turns a negative result into the error that `errno` names.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `None` for "not now": would block, or interrupted before anything happened and to be tried later.
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// Accepts a connection, not blocking and closed on exec; `None` when none waits.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    // SAFETY: the kernel writes no address through null pointers; the descriptor is open while borrowed.
    let result = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            ptr::null_mut(),
            ptr::null_mut(),
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    };
    let accepted = unless_blocked(check(result as isize))?;
    // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
    Ok(accepted.map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
}

/// Reads into `buffer`; `Some(0)` is the end of the stream, `None` that nothing is there.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: pointer and length are those of one exclusive slice.
    let result = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
        )
    };
    unless_blocked(check(result))
}

/// Drops up to `length` received bytes in the kernel, without a copy (tcp(7), `MSG_TRUNC`).
pub fn discard(socket: BorrowedFd<'_>, length: usize) -> io::Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, so it may be null.
    let result =
        unsafe { libc::recv(socket.as_raw_fd(), ptr::null_mut(), length, libc::MSG_TRUNC) };
    unless_blocked(check(result))
}

/// Sends from one buffer; `None` when the socket takes nothing now.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: pointer and length are those of one slice.
    let result = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
        )
    };
    unless_blocked(check(result))
}

/// Sends from several buffers in one call.
pub fn send_vectored(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
    // SAFETY: a msghdr of zeros is valid: no name, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice has the layout of iovec by its documentation; sendmsg only reads through it.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the message points to `parts`, which outlive the call.
    let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    unless_blocked(check(result))
}

/// Ends our direction of a connection; the peer may have gone before, which is no matter.
pub fn shutdown_write(socket: BorrowedFd<'_>) {
    // SAFETY: no memory is involved.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// The monotonic clock.
pub fn monotonic() -> Nanos {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a timespec that the call may write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    Nanos(now.tv_sec as u64 * Nanos::SECOND.0 + now.tv_nsec as u64)
}

fn timespec(span: Nanos) -> libc::timespec {
    libc::timespec {
        tv_sec: (span.0 / Nanos::SECOND.0) as libc::time_t,
        tv_nsec: (span.0 % Nanos::SECOND.0) as _,
    }
}

/// Sleeps for `span`, or until `wake` is readable.
pub fn sleep_unless(wake: BorrowedFd<'_>, span: Nanos) {
    let mut watched = libc::pollfd {
        fd: wake.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd and one timespec, both alive for the call; no signal mask.
    unsafe { libc::ppoll(&mut watched, 1, &timespec(span), ptr::null()) };
}

/// Kernel id of this thread.
pub fn thread_id() -> i32 {
    // SAFETY: gettid has no argument and cannot fail.
    unsafe { libc::gettid() }
}

/// Pins this thread to one CPU.
pub fn pin(cpu: u32) -> io::Result<()> {
    // SAFETY: a cpu_set_t is plain bits; zeros are the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cpu >= libc::CPU_SETSIZE as u32 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: the index is below the size of the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the set is valid for its size; thread 0 is the caller.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    check(result as isize).map(drop)
}

/// Makes this thread's timeouts exact: by default the kernel may add 50 us to save wake-ups.
pub fn exact_timeouts() {
    // SAFETY: PR_SET_TIMERSLACK takes a number; a failure leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// What [`Epoll::wait`] reports.
pub type Event = libc::epoll_event;

/// An event before there is one.
pub const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    fd: OwnedFd,
    /// The kernel has no `epoll_pwait2` (before Linux 5.11).
    milliseconds_only: bool,
}

impl Epoll {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } as isize)?;
        Ok(Self {
            // SAFETY: the kernel has just given us this descriptor.
            fd: unsafe { OwnedFd::from_raw_fd(fd as RawFd) },
            milliseconds_only: false,
        })
    }

    /// Watches `fd` for `events` under the number `token`; it stops when the descriptor is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }

    /// Changes what `fd` is watched for.
    pub fn modify(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }

    fn control(&self, what: i32, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        let mut event = Event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open and the event lives for the call.
        let result =
            unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), what, fd.as_raw_fd(), &mut event) };
        check(result as isize).map(drop)
    }

    /// Waits for events, at most for `timeout`; how many there are. A signal counts as none.
    pub fn wait(&mut self, events: &mut [Event], timeout: Option<Nanos>) -> usize {
        let result = match timeout {
            None => self.wait_ms(events, -1),
            Some(Nanos(0)) => self.wait_ms(events, 0),
            Some(span) => self.wait_ns(events, span),
        };
        match result {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            Err(e) => unreachable!("epoll_wait on our own descriptor and buffer: {e}"),
        }
    }

    fn wait_ms(&self, events: &mut [Event], timeout_ms: i32) -> io::Result<usize> {
        // SAFETY: pointer and length are those of one exclusive slice.
        let result = unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                timeout_ms,
            )
        };
        check(result as isize)
    }

    fn wait_ns(&mut self, events: &mut [Event], span: Nanos) -> io::Result<usize> {
        if self.milliseconds_only {
            // Rounded up: to wake early would mean to spin until the time has come.
            let ms = span.0.div_ceil(Nanos::MILLI.0);
            return self.wait_ms(events, i32::try_from(ms).unwrap_or(i32::MAX));
        }
        let timeout = timespec(span);
        // SAFETY: as for epoll_wait; the timeout lives for the call and there is no signal mask. The raw
        // number, because glibc has no wrapper before 2.35.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as i32,
                &raw const timeout,
                ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        match check(result as isize) {
            Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => {
                self.milliseconds_only = true;
                self.wait_ns(events, span)
            }
            result => result,
        }
    }
}

/// A flag that wakes every thread that watches it, and stays up.
#[derive(Debug)]
pub struct WakeFlag(OwnedFd);

impl WakeFlag {
    /// A flag that is down.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd =
            check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } as isize)?;
        // SAFETY: the kernel has just given us this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
    }

    /// Puts the flag up.
    pub fn raise(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only when the counter is full, and then the flag is up.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

impl std::os::fd::AsFd for WakeFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_raised_flag_ends_every_wait() {
        let flag = WakeFlag::new().unwrap();
        let mut epoll = Epoll::new().unwrap();
        epoll.add(flag.as_fd(), libc::EPOLLIN, 42).unwrap();
        let mut events = [NO_EVENT; 4];
        assert_eq!(epoll.wait(&mut events, Some(Nanos(0))), 0);
        assert_eq!(epoll.wait(&mut events, Some(Nanos::MICRO)), 0);
        flag.raise();
        for _ in 0..2 {
            assert_eq!(epoll.wait(&mut events, None), 1);
            assert_eq!({ events[0].u64 }, 42);
        }
        sleep_unless(flag.as_fd(), Nanos::from_secs(3600));
    }

    #[test]
    fn a_timeout_is_not_early() {
        let mut epoll = Epoll::new().unwrap();
        for milliseconds_only in [false, true] {
            epoll.milliseconds_only = milliseconds_only;
            let before = monotonic();
            assert_eq!(epoll.wait(&mut [NO_EVENT; 1], Some(Nanos(1_300_000))), 0);
            assert!(monotonic().since(before) >= Nanos(1_300_000));
        }
    }

    #[test]
    fn an_impossible_cpu_is_refused() {
        assert!(pin(u32::MAX).is_err());
    }
}
