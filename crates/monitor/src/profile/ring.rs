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
    /// A copy of the record that is being read.
    record: Vec<u8>,
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
            record: Vec::new(),
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
        let mut record = std::mem::take(&mut self.record);
        while end.saturating_sub(at) >= HEADER_BYTES as u64 {
            // The size is the last of the header's fields.
            self.copy(at, HEADER_BYTES, &mut record);
            let size = u16::from_ne_bytes([record[HEADER_BYTES - 2], record[HEADER_BYTES - 1]]);
            let most = (end - at).min(self.data_bytes as u64);
            if usize::from(size) < HEADER_BYTES || u64::from(size) > most {
                break;
            }
            self.copy(at, size.into(), &mut record);
            take(&record);
            at += u64::from(size);
        }
        self.record = record;
        // The kernel may write over what has been read from here on.
        self.positions().1.store(end, Ordering::Release);
    }

    /// The `length` bytes at the position `at`, which may go over the ring's end.
    fn copy(&self, at: u64, length: usize, into: &mut Vec<u8>) {
        let offset = (at as usize) & (self.data_bytes - 1);
        let straight = length.min(self.data_bytes - offset);
        into.clear();
        into.reserve(length);
        // SAFETY: the data follow the first page, and both stretches lie within the mapping: `offset` is below
        // `data_bytes`, a power of two that `length` does not exceed. Between tail and head the kernel writes nothing
        // until the tail moves, and no reference to memory that it writes is made. `into` has room for `length` bytes,
        // of which all are written.
        unsafe {
            let data = self.page.as_ptr().cast::<u8>().add(self.page_bytes);
            let to = into.as_mut_ptr();
            std::ptr::copy_nonoverlapping(data.add(offset), to, straight);
            std::ptr::copy_nonoverlapping(data, to.add(straight), length - straight);
            into.set_len(length);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;
    use std::os::unix::fs::FileExt;

    /// A ring over a file, which a test writes as the kernel would.
    #[test]
    fn records_are_whole_over_the_rings_end_and_none_is_read_beyond_the_head() {
        let page = rustix::param::page_size();
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * page as u64).unwrap();
        let kernel = file.try_clone().unwrap();
        let record = |size: u16, content: u8| {
            let mut bytes = vec![content; usize::from(size)];
            bytes[..HEADER_BYTES].fill(0);
            bytes[6..8].copy_from_slice(&size.to_ne_bytes());
            bytes
        };
        let write = |at: u64, bytes: &[u8]| {
            for (place, byte) in (at..).zip(bytes) {
                let place = page as u64 + place % page as u64;
                kernel.write_all_at(&[*byte], place).unwrap();
            }
        };
        let set = |field: usize, value: u64| {
            kernel
                .write_all_at(&value.to_ne_bytes(), field as u64)
                .unwrap();
        };
        let (head, tail) = (
            offset_of!(perf_event_mmap_page, data_head),
            offset_of!(perf_event_mmap_page, data_tail),
        );
        let start = 3 * page as u64 - 24;
        write(start, &record(40, 7));
        write(start + 40, &record(16, 8));
        // Of this one the kernel has told only the first half.
        write(start + 56, &record(32, 9));
        set(tail, start);
        set(head, start + 72);
        let mut ring = Ring::map(file.into(), page).unwrap();
        let mut seen = Vec::new();
        ring.drain(|record| seen.push(record.to_vec()));
        assert_eq!(seen, [record(40, 7), record(16, 8)]);
        ring.drain(|_| panic!("the room was given back"));
    }
}
