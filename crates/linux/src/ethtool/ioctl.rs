//! The ethtool ioctl: one request, one buffer of 32-bit words that the kernel fills in (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `SIOCETHTOOL` of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// A socket to ask through; of which family does not matter.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Opens the socket.
    pub fn open() -> io::Result<Self> {
        // SAFETY: the call takes plain numbers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just opened and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends `words`, whose first one is the command, to `device`; the kernel's answer replaces them.
    ///
    /// The caller gives as many words as the command's structure has, the variable part included.
    pub fn ask(&self, device: &str, words: &mut [u32]) -> io::Result<i32> {
        // SAFETY: ifreq is plain data for which all zero bytes are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let name = device.as_bytes();
        if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains(&0) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: `request` lives until the call returns and points to `words`; the kernel reads and writes at
        // most the structure of the command, which the callers in this crate size by linux/ethtool.h.
        let answer = unsafe { libc::ioctl(self.0.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(answer)
    }
}
