//! Thin wrappers of the system calls that the load generator makes; the crate's load side has its
//! `unsafe` here and nowhere else.
//!
//! Each wrapper is one call, never retries, and reports the error number. Sockets are plain file
//! descriptors because the transport keeps thousands of them in flat arrays; [`Descriptor`] closes one.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// An error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

impl Errno {
    fn last() -> Self {
        Errno(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// The system's words for it.
    pub fn to_io(self) -> io::Error {
        io::Error::from_raw_os_error(self.0)
    }
}

fn check(result: libc::c_int) -> Result<libc::c_int, Errno> {
    if result < 0 {
        Err(Errno::last())
    } else {
        Ok(result)
    }
}

fn check_len(result: libc::ssize_t) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// A file descriptor that is closed when dropped.
#[derive(Debug)]
pub(crate) struct Descriptor(RawFd);

impl Descriptor {
    /// The number.
    pub fn raw(&self) -> RawFd {
        self.0
    }

    /// The number, which somebody else closes.
    pub fn release(self) -> RawFd {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor is owned by `self` and used by nobody after this.
        unsafe { libc::close(self.0) };
    }
}

/// A socket address in the kernel's form.
#[derive(Clone, Copy)]
pub(crate) struct RawAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
}

impl RawAddress {
    /// Its address family.
    pub fn family(&self) -> libc::c_int {
        libc::c_int::from(self.storage.ss_family)
    }

    /// Where it lies and how long it is.
    pub fn parts(&self) -> (*const libc::sockaddr, libc::socklen_t) {
        ((&raw const self.storage).cast(), self.len)
    }
}

impl RawAddress {
    /// No address: to connect to it ends a TCP connection with a reset, and the socket can connect again (connect(2)).
    pub fn none() -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value, with the family AF_UNSPEC.
        let storage = unsafe { std::mem::zeroed() };
        RawAddress {
            storage,
            len: size_of::<libc::sockaddr>() as libc::socklen_t,
        }
    }
}

impl RawAddress {
    /// The path of a Unix socket; `None` when it is longer than the kernel takes, with the NUL behind it.
    pub fn unix(path: &str) -> Option<Self> {
        // SAFETY: sockaddr_un is plain data for which all zeroes is a valid value.
        let mut raw: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        if path.is_empty() || path.len() >= raw.sun_path.len() || path.contains('\0') {
            return None;
        }
        raw.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in raw.sun_path.iter_mut().zip(path.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        // SAFETY: sockaddr_storage is larger than sockaddr_un and aligned for it.
        unsafe { (&raw mut storage).cast::<libc::sockaddr_un>().write(raw) };
        Some(RawAddress {
            storage,
            len: size_of::<libc::sockaddr_un>() as libc::socklen_t,
        })
    }
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let at = &raw mut storage;
        let len = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is larger than sockaddr_in and aligned for it.
                unsafe { at.cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: sockaddr_storage is larger than sockaddr_in6 and aligned for it.
                unsafe { at.cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        RawAddress {
            storage,
            len: len as libc::socklen_t,
        }
    }
}

/// What calls on a socket do when they would have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// They wait; an io_uring waits in their stead.
    Yes,
    /// They fail with `EAGAIN`.
    No,
}

/// A close-on-exec stream socket: of TCP, or a Unix one.
pub(crate) fn stream_socket(family: libc::c_int, blocking: Blocking) -> Result<Descriptor, Errno> {
    let nonblock = match blocking {
        Blocking::Yes => 0,
        Blocking::No => libc::SOCK_NONBLOCK,
    };
    let kind = libc::SOCK_STREAM | nonblock | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed. 0 is the family's own stream protocol.
    check(unsafe { libc::socket(family, kind, 0) }).map(Descriptor)
}

fn set_option<T>(fd: RawFd, level: libc::c_int, name: libc::c_int, value: &T) -> Result<(), Errno> {
    let at = std::ptr::from_ref(value).cast();
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `at` points to `len` readable bytes for the length of the call.
    check(unsafe { libc::setsockopt(fd, level, name, at, len) }).map(drop)
}

/// Sends small writes at once instead of waiting for the acknowledgement of earlier ones.
pub(crate) fn set_no_delay(fd: RawFd) -> Result<(), Errno> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32)
}

/// Lets the next acknowledgement wait for bytes that it can go with, the one that ends the handshake too.
pub(crate) fn set_delayed_acknowledgement(fd: RawFd) -> Result<(), Errno> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, &0_i32)
}

/// Sets the size of the receive buffer, bytes; the kernel takes twice as many, and grows it no more.
pub(crate) fn set_receive_buffer(fd: RawFd, bytes: i32) -> Result<(), Errno> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)
}

/// Makes `close` send a reset instead of a FIN.
pub(crate) fn set_reset_on_close(fd: RawFd) -> Result<(), Errno> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Lets `bind` fix the address alone: the port is chosen by `connect`, so that one port can serve
/// several destinations and sources (Linux 4.2).
pub(crate) fn set_bind_address_no_port(fd: RawFd) -> Result<(), Errno> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, &1_i32)
}

/// Binds a socket.
pub(crate) fn bind(fd: RawFd, address: &RawAddress) -> Result<(), Errno> {
    let (at, len) = address.parts();
    // SAFETY: `at` points to `len` readable bytes for the length of the call.
    check(unsafe { libc::bind(fd, at, len) }).map(drop)
}

/// Starts to connect.
pub(crate) fn connect(fd: RawFd, address: &RawAddress) -> Result<(), Errno> {
    let (at, len) = address.parts();
    // SAFETY: `at` points to `len` readable bytes for the length of the call.
    check(unsafe { libc::connect(fd, at, len) }).map(drop)
}

/// Takes the pending error of a socket, 0 for none.
pub(crate) fn take_error(fd: RawFd) -> Result<Errno, Errno> {
    let mut error: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let at = (&raw mut error).cast();
    // SAFETY: `at` points to `len` writable bytes for the length of the call.
    check(unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, at, &mut len) })?;
    Ok(Errno(error))
}

/// Writes to a socket without waiting and without raising SIGPIPE.
#[inline]
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> Result<usize, Errno> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length are those of a live slice.
    check_len(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Reads from a socket.
#[inline]
pub(crate) fn recv(fd: RawFd, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the pointer and length are those of a live, writable slice.
    check_len(unsafe { libc::recv(fd, into.as_mut_ptr().cast(), into.len(), 0) })
}

/// Throws away up to `at_most` received bytes without copying them: with `MSG_TRUNC` a TCP socket
/// (and only that, see tcp(7)) writes nothing to the buffer.
#[inline]
pub(crate) fn recv_discard(fd: RawFd, at_most: usize) -> Result<usize, Errno> {
    // SAFETY: the kernel does not touch the buffer of a TCP socket under MSG_TRUNC.
    check_len(unsafe { libc::recv(fd, std::ptr::null_mut(), at_most, libc::MSG_TRUNC) })
}

/// A new epoll instance.
pub(crate) fn epoll_create() -> Result<Descriptor, Errno> {
    // SAFETY: no pointers are passed.
    check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Descriptor)
}

/// Registers a descriptor with an epoll instance.
pub(crate) fn epoll_add(epoll: RawFd, fd: RawFd, events: u32, data: u64) -> Result<(), Errno> {
    let mut event = libc::epoll_event { events, u64: data };
    // SAFETY: `event` is a valid epoll_event for the length of the call.
    check(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) }).map(drop)
}

/// Waits for events with a timeout in nanoseconds (Linux 5.11).
pub(crate) fn epoll_pwait2(
    epoll: RawFd,
    events: &mut [libc::epoll_event],
    timeout_ns: u64,
) -> Result<usize, Errno> {
    let timeout = timespec(timeout_ns);
    // SAFETY: events is a live, writable slice of the given length, timeout a valid timespec, and a
    // null signal mask means that the mask is left alone. Called by number: glibc has it from 2.35 on.
    let n = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll,
            events.as_mut_ptr(),
            events.len() as libc::c_int,
            &raw const timeout,
            std::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(n).map_err(|_| Errno::last())
}

/// Waits for events with a timeout in milliseconds; -1 waits forever, 0 only looks.
pub(crate) fn epoll_wait(
    epoll: RawFd,
    events: &mut [libc::epoll_event],
    timeout_ms: i32,
) -> Result<usize, Errno> {
    let len = events.len() as libc::c_int;
    // SAFETY: events is a live, writable slice of the given length.
    let n = check(unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), len, timeout_ms) })?;
    Ok(n as usize)
}

/// A time span in the kernel's form.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// A timer as a descriptor.
pub(crate) fn timerfd_create() -> Result<Descriptor, Errno> {
    let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
    // SAFETY: no pointers are passed.
    check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Descriptor)
}

/// Sets a timer to fire once, `after_ns` from now.
pub(crate) fn timerfd_set(timer: RawFd, after_ns: u64) -> Result<(), Errno> {
    let when = libc::itimerspec {
        it_interval: timespec(0),
        // A value of zero would disarm the timer.
        it_value: timespec(after_ns.max(1)),
    };
    // SAFETY: `when` is a valid itimerspec, and a null old value is not written.
    check(unsafe { libc::timerfd_settime(timer, 0, &when, std::ptr::null_mut()) }).map(drop)
}

/// Lets the calling thread's timers fire within a nanosecond of their time instead of 50 us.
pub(crate) fn set_precise_timers() {
    // SAFETY: no pointers are passed; a failure leaves the default slack, which is only less precise.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Sleeps for `ns`; a signal ends the sleep early.
pub(crate) fn pause(ns: u64) {
    let span = timespec(ns);
    // SAFETY: `span` is a valid timespec, and a null remainder is not written.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &span, std::ptr::null_mut()) };
}

/// Kernel id of the calling thread.
pub(crate) fn thread_id() -> i32 {
    // Not libc's function: the standard library refers to that weakly, and in a static program that is optimised across
    // all crates nothing else then brings it in: the call goes to address 0 (seen with musl).
    // SAFETY: no pointers are passed; the call cannot fail, and its result is a pid_t.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Raises the soft limit of open files to the hard one; returns the limit in force.
pub(crate) fn raise_descriptor_limit() -> Result<u64, Errno> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid, writable rlimit.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is a valid rlimit.
    let raised = check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) });
    Ok(raised.map_or(before, |_| limit.rlim_max))
}

/// User and system CPU time of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
}

/// What the calling thread has used.
pub(crate) fn thread_usage() -> Usage {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut raw: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `raw` is a valid, writable rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut raw) };
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Usage {
        user_ns: ns(raw.ru_utime),
        system_ns: ns(raw.ru_stime),
    }
}
