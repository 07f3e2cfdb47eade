//! Memory that is shared with the kernel, given back when nobody has it any more.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Memory that the kernel has mapped for us.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: a mapping is not bound to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps a part of a descriptor, or memory of our own.
    pub fn new(fd: Option<&OwnedFd>, len: usize, offset: i64) -> io::Result<Self> {
        let shared = match fd {
            Some(_) => libc::MAP_SHARED,
            None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        };
        // SAFETY: no address is asked for, so nothing that exists is mapped over.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                shared | libc::MAP_POPULATE,
                fd.map_or(-1, AsRawFd::as_raw_fd),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast();
        Ok(Self { start, len })
    }

    /// Its first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The same as a number.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of it, or none when they reach beyond its end.
    pub fn bytes(&self, at: usize, len: usize) -> &[u8] {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return &[];
        }
        // SAFETY: within the mapping, and the kernel does not write to a piece that it has handed to us.
        unsafe { std::slice::from_raw_parts(self.start.add(at), len) }
    }

    /// Bytes of it to write to, or none when they reach beyond its end.
    pub fn bytes_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return &mut [];
        }
        // SAFETY: within the mapping, and the kernel does not touch a piece that it was not given.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, and nobody has a reference any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
