//! The system calls of a serving thread that the load generator does not make, and the common ones
//! (`crate::sys`) in the shape that a server wants.
//!
//! Everything that would block says so with `None` instead of an error, because for this server that
//! is the ordinary case.

use crate::sys::{self, Descriptor, Errno};
use record::{Clock, Nanos};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Turns a negative result into the error that `errno` names.
fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// `None` for "not now".
fn unless_blocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// The same, for a common call.
fn transferred(result: Result<usize, Errno>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(Errno(libc::EAGAIN)) => Ok(None),
        Err(errno) => Err(errno.to_io()),
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
    transferred(sys::recv(socket.as_raw_fd(), buffer))
}

/// Drops up to `length` received bytes in the kernel, without a copy.
pub fn discard(socket: BorrowedFd<'_>, length: usize) -> io::Result<Option<usize>> {
    transferred(sys::recv_discard(socket.as_raw_fd(), length))
}

/// Sends from a buffer; `None` when the socket takes nothing now.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    transferred(sys::send(socket.as_raw_fd(), bytes))
}

/// The same, when the next send follows at once: what does not fill a segment waits for it.
pub fn send_with_more_to_come(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: pointer and length are those of one slice.
    let result = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_MORE | libc::MSG_NOSIGNAL,
        )
    };
    unless_blocked(check(result))
}

/// Sends a part of `file` without copying it; the thread must have called [`ignore_broken_pipes`].
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    length: usize,
) -> io::Result<Option<usize>> {
    let mut offset = offset as libc::off_t;
    // SAFETY: both descriptors are open while borrowed, and the offset lives for the call.
    let result =
        unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &mut offset, length) };
    unless_blocked(check(result))
}

/// Blocks SIGPIPE for this thread: sendfile(2) has no flag against it, and the process's own handling is
/// not a library's to change.
pub fn ignore_broken_pipes() {
    // SAFETY: a sigset_t is plain bits, and sigemptyset makes it valid whatever they are.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable; SIGPIPE is a signal; no old mask is asked for.
    unsafe {
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, ptr::null_mut());
    }
}

/// An empty file in memory, gone when it is closed.
pub fn memory_file() -> io::Result<OwnedFd> {
    // SAFETY: the name is a string with its zero; it is only for people who look into /proc.
    let fd = check(unsafe { libc::memfd_create(c"origin".as_ptr(), libc::MFD_CLOEXEC) } as isize)?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Ends our direction of a connection; the peer may have gone before, which is no matter.
pub fn shutdown_write(socket: BorrowedFd<'_>) {
    // SAFETY: no memory is involved.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// The time on the clock of the run.
pub fn monotonic() -> Nanos {
    crate::MonotonicClock.now()
}

/// Sleeps for `span`, or until `wake` is readable.
pub fn sleep_unless(wake: BorrowedFd<'_>, span: Nanos) {
    let mut watched = libc::pollfd {
        fd: wake.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd and one timespec, both alive for the call; no signal mask.
    unsafe { libc::ppoll(&mut watched, 1, &sys::timespec(span.0), ptr::null()) };
}

/// What [`Epoll::wait`] reports.
pub type Event = libc::epoll_event;

/// An event before there is one.
pub const NO_EVENT: Event = Event { events: 0, u64: 0 };

/// An epoll instance.
#[derive(Debug)]
pub struct Epoll {
    descriptor: Descriptor,
    /// The kernel has no `epoll_pwait2` (before Linux 5.11).
    milliseconds_only: bool,
}

impl Epoll {
    /// A new instance.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            descriptor: sys::epoll_create().map_err(Errno::to_io)?,
            milliseconds_only: false,
        })
    }

    /// Watches `fd` for `events` under the number `token`; it stops when the descriptor is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        sys::epoll_add(self.descriptor.raw(), fd.as_raw_fd(), events as u32, token)
            .map_err(Errno::to_io)
    }

    /// Changes what `fd` is watched for.
    pub fn modify(&self, fd: BorrowedFd<'_>, events: i32, token: u64) -> io::Result<()> {
        let mut event = Event {
            events: events as u32,
            u64: token,
        };
        // SAFETY: both descriptors are open and the event lives for the call.
        let result = unsafe {
            libc::epoll_ctl(
                self.descriptor.raw(),
                libc::EPOLL_CTL_MOD,
                fd.as_raw_fd(),
                &mut event,
            )
        };
        check(result as isize).map(drop)
    }

    /// Waits for events, at most for `timeout`; how many there are. A signal counts as none.
    pub fn wait(&mut self, events: &mut [Event], timeout: Option<Nanos>) -> usize {
        let result = match timeout {
            None => sys::epoll_wait(self.descriptor.raw(), events, -1),
            Some(Nanos(0)) => sys::epoll_wait(self.descriptor.raw(), events, 0),
            Some(span) => self.wait_ns(events, span),
        };
        match result {
            Ok(n) => n,
            Err(Errno(libc::EINTR)) => 0,
            Err(e) => unreachable!("epoll_wait on our own descriptor and buffer: {}", e.to_io()),
        }
    }

    fn wait_ns(&mut self, events: &mut [Event], span: Nanos) -> Result<usize, Errno> {
        if !self.milliseconds_only {
            match sys::epoll_pwait2(self.descriptor.raw(), events, span.0) {
                Err(Errno(libc::ENOSYS)) => self.milliseconds_only = true,
                result => return result,
            }
        }
        // Rounded up: to wake early would mean to spin until the time has come.
        let ms = span.0.div_ceil(Nanos::MILLI.0);
        sys::epoll_wait(
            self.descriptor.raw(),
            events,
            i32::try_from(ms).unwrap_or(i32::MAX),
        )
    }
}

/// The beginning of a file that nobody shortens, in memory to be read.
#[derive(Debug)]
pub struct Mapped {
    at: ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are only read, and nobody writes them any more.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The first `len` bytes, at least one.
    pub fn new(file: &std::fs::File, len: usize) -> io::Result<Self> {
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping at a place of the kernel's choice; the descriptor is open while borrowed.
        let at = unsafe { libc::mmap(ptr::null_mut(), len, read, shared, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = ptr::NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is so long, lives as long as this value, and the file is not shortened or written.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, and no borrow of it lives.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

/// A flag that wakes every thread that watches it, and stays up.
#[derive(Debug)]
pub struct WakeFlag {
    event: OwnedFd,
    is_up: AtomicBool,
}

impl WakeFlag {
    /// A flag that is down.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let fd =
            check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } as isize)?;
        Ok(Self {
            // SAFETY: the kernel has just given us this descriptor.
            event: unsafe { OwnedFd::from_raw_fd(fd as RawFd) },
            is_up: AtomicBool::new(false),
        })
    }

    /// Whether it is up, for whoever looks often.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    /// Puts the flag up.
    pub fn raise(&self) {
        self.is_up.store(true, Ordering::Relaxed);
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only when the counter is full, and then the flag is up.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

impl std::os::fd::AsFd for WakeFlag {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
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
}
