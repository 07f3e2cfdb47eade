//! A process held by a descriptor (pidfd_open(2)): its number cannot come to mean another process
//! between the look and the signal, and its end can be waited for without being its parent.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The descriptor.
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Of the process that has this number now.
    ///
    /// # Errors
    /// `ESRCH` when there is no such process.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: the call takes two integers and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// `ESRCH` when it has ended and was waited for, `EPERM` when it is not ours.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a null `info` is allowed and means an ordinary signal; the descriptor is open.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal,
                no_info,
                0,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Waits until the process has ended, at most for `longest`; true when it has.
    pub fn wait(&self, longest: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: self.0.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout_ms = i32::try_from(longest.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one pollfd, which lives through the call.
        unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
    }
}
