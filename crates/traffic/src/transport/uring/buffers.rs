//! The receive memory of an io_uring: buffers of one size, lent to the kernel through a ring of its own
//! (`io_uring_register_buf_ring(3)`), so that an idle connection holds none.

use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// Bytes of one buffer: an answer of a page or less comes in one piece.
pub(super) const BUFFER_BYTES: usize = 4 * 1024;
/// The one group of buffers.
pub(super) const GROUP: u16 = 0;
/// No buffer.
pub(super) const NONE: u16 = u16::MAX;
/// The kernel wants the ring at the start of a page.
const PAGE_BYTES: usize = 4 * 1024;

/// Memory at the start of a page, all zeroes at first. The kernel writes to it during system calls of the thread that
/// owns it, and at no other time.
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Pages` owns its memory and hands out nothing that could outlive it.
unsafe impl Send for Pages {}

impl Pages {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES)
            .expect("a size far below isize::MAX and a power of two");
        // SAFETY: the layout's size is not zero: there is always at least one buffer.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Pages { start, layout }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nobody uses it any more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The buffers; see the module.
pub(super) struct Buffers {
    ring: Pages,
    memory: Pages,
    /// Of each buffer, the next one that its connection has received; [`NONE`] ends the row.
    next: Vec<u16>,
    /// Of each buffer, how many bytes were received into it.
    filled: Vec<u32>,
    /// Buffers put into the ring so far, modulo 2^16.
    tail: u16,
}

impl Buffers {
    /// `count` buffers, a power of two below 32,769. They must outlive the ring that they are registered with.
    pub fn new(count: u16) -> Self {
        debug_assert!(count.is_power_of_two() && count <= 1 << 15);
        let n = usize::from(count);
        Buffers {
            ring: Pages::new((n * size_of::<BufRingEntry>()).max(PAGE_BYTES)),
            memory: Pages::new(n * BUFFER_BYTES),
            next: vec![NONE; n],
            filled: vec![0; n],
            tail: 0,
        }
    }

    /// Registers the ring with the kernel and lends it all buffers.
    pub fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let count = self.next.len() as u16;
        // SAFETY: the ring is zeroed memory of `count` entries at the start of a page. It lives as long as `self`, and
        // the owner of both drops the io_uring first.
        unsafe {
            submitter.register_buf_ring_with_flags(
                self.ring.start.as_ptr() as u64,
                count,
                GROUP,
                0,
            )?;
        }
        for id in 0..count {
            self.give_back(id);
        }
        Ok(())
    }

    /// Lends a buffer to the kernel again.
    #[inline]
    pub fn give_back(&mut self, id: u16) {
        let mask = self.next.len() - 1;
        let entries = self.ring.start.as_ptr().cast::<BufRingEntry>();
        let at = usize::from(self.tail) & mask;
        // SAFETY: `at` is below the number of entries, and the kernel does not read an entry at or behind the tail.
        let entry = unsafe { &mut *entries.add(at) };
        entry.set_addr(self.address(id) as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the address is that of the first entry of a registered ring, whose tail is an aligned u16 that only
        // this thread writes; the kernel reads it with acquire semantics.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(entries).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }

    fn address(&self, id: u16) -> *mut u8 {
        let offset = usize::from(id) * BUFFER_BYTES;
        // SAFETY: the kernel hands out only the numbers that it was given, and those lie within `memory`.
        unsafe { self.memory.start.as_ptr().add(offset) }
    }

    /// The kernel has received `len` bytes into a buffer.
    #[inline]
    pub fn fill(&mut self, id: u16, len: u32) {
        self.filled[usize::from(id)] = len.min(BUFFER_BYTES as u32);
        self.next[usize::from(id)] = NONE;
    }

    /// Puts a buffer behind another one of the same connection.
    pub fn chain(&mut self, last: u16, id: u16) {
        self.next[usize::from(last)] = id;
    }

    /// The buffer behind this one; [`NONE`] for none.
    #[inline]
    pub fn next(&self, id: u16) -> u16 {
        self.next[usize::from(id)]
    }

    /// What was received into a buffer.
    #[inline]
    pub fn bytes(&self, id: u16) -> &[u8] {
        let len = self.filled[usize::from(id)] as usize;
        // SAFETY: `address` is the start of BUFFER_BYTES initialised bytes, `len` is at most that, and the kernel
        // writes to a buffer only after `give_back`, which takes `self` exclusively.
        unsafe { std::slice::from_raw_parts(self.address(id), len) }
    }
}
