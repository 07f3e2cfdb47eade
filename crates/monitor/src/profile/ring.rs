//! The buffer that the kernel writes the records of one CPU into.
//!
//! In the flow: [`super::event`] opens the event, the reader of [`super::collect`] empties the ring. The surprise: the
//! kernel never waits for the reader. What does not fit is lost, and a record says how much it was.

use perf_event_open_sys::bindings::{perf_event_header, perf_event_mmap_page};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = size_of::<perf_event_header>();

/// An event's ring, mapped.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    page: NonNull<perf_event_mmap_page>,
    page_bytes: usize,
    data_bytes: usize,
    /// Holds a record that goes over the ring's end.
    joined: Vec<u8>,
}

// SAFETY: the mapping belongs to this value alone and no thread keeps a pointer into it between calls.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps `data_bytes` (a power of two, at least a page) for the event.
    ///
    /// # Errors
    /// What mmap(2) says: EPERM above the limit of locked memory.
    pub fn map(fd: OwnedFd, data_bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        // SAFETY: a fresh mapping at an address of the kernel's choice; the descriptor is open.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                page_bytes + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            fd,
            page,
            page_bytes,
            data_bytes,
            joined: Vec::new(),
        })
    }

    /// The event's descriptor.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Hands over each record that is in the ring, header included, and gives the room back.
    pub fn drain(&mut self, mut take: impl FnMut(&[u8])) {
        let (head, tail) = self.positions();
        // Pairs with the kernel's store: the records before `head` are complete (perf_event_open(2)).
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        let mut joined = std::mem::take(&mut self.joined);
        while at < end {
            let offset = (at as usize) & (self.data_bytes - 1);
            let data = self.data();
            // Records are aligned to 8 bytes, so that a header never goes over the end.
            let size = usize::from(u16::from_ne_bytes([data[offset + 6], data[offset + 7]]));
            if size < HEADER_BYTES {
                break;
            }
            let straight = size.min(self.data_bytes - offset);
            if straight == size {
                take(&data[offset..offset + size]);
            } else {
                joined.clear();
                joined.extend_from_slice(&data[offset..]);
                joined.extend_from_slice(&data[..size - straight]);
                take(&joined);
            }
            at += size as u64;
        }
        self.joined = joined;
        // The kernel may write over what has been read from here on.
        self.positions().1.store(end, Ordering::Release);
    }

    fn positions(&self) -> (&AtomicU64, &AtomicU64) {
        // SAFETY: the page is mapped as long as `self` lives; both fields are aligned and are only ever accessed
        // atomically: the head by the kernel's stores, the tail by ours.
        unsafe {
            let page = self.page.as_ptr();
            (
                AtomicU64::from_ptr(&raw mut (*page).data_head),
                AtomicU64::from_ptr(&raw mut (*page).data_tail),
            )
        }
    }

    fn data(&self) -> &[u8] {
        // SAFETY: the data follow the first page, and the kernel does not write between tail and head, which is all
        // that is read.
        unsafe {
            let start = self.page.as_ptr().cast::<u8>().add(self.page_bytes);
            std::slice::from_raw_parts(start, self.data_bytes)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `map` got, and no reference into it outlives `self`. A failure leaves
        // it mapped.
        unsafe {
            libc::munmap(self.page.as_ptr().cast(), self.page_bytes + self.data_bytes);
        }
    }
}
