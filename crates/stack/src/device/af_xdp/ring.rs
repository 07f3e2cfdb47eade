//! A ring that a socket shares with the kernel: one side produces, the other consumes, each moves its own counter.

use crate::device::mapping::Mapping;
use crate::device::option::Plain;
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// A packet's piece in a ring (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub options: u32,
}

/// Where in its mapping a ring has what (`struct xdp_ring_offset`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Offsets {
    producer: u64,
    consumer: u64,
    entries: u64,
    flags: u64,
}

// SAFETY: it is four integers.
unsafe impl Plain for Offsets {}

/// A ring of `T`.
#[derive(Debug)]
pub struct Ring<T> {
    mapping: Mapping,
    offsets: Offsets,
    mask: u32,
    _entries: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps the ring of `entries`, which are a power of two.
    pub fn map(fd: &OwnedFd, offsets: Offsets, entries: u32, at: i64) -> io::Result<Self> {
        let len = offsets.entries as usize + entries as usize * size_of::<T>();
        Ok(Self {
            mapping: Mapping::new(Some(fd), len, at)?,
            offsets,
            mask: entries - 1,
            _entries: PhantomData,
        })
    }

    fn word(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has said that a word of 32 bits lies there; both sides touch it atomically.
        unsafe {
            &*self
                .mapping
                .start()
                .add(offset as usize)
                .cast::<AtomicU32>()
        }
    }

    fn entry(&self, index: u32) -> *mut T {
        let at = self.offsets.entries as usize + (index & self.mask) as usize * size_of::<T>();
        // SAFETY: the index is below the number of entries.
        unsafe { self.mapping.start().add(at).cast() }
    }

    /// The kernel sleeps, and wants a system call before it looks at the ring.
    pub fn needs_wakeup(&self) -> bool {
        self.word(self.offsets.flags).load(Ordering::Relaxed) & 1 != 0
    }

    /// How many entries are to be consumed.
    pub fn filled(&self) -> u32 {
        let producer = self.word(self.offsets.producer).load(Ordering::Acquire);
        producer.wrapping_sub(self.word(self.offsets.consumer).load(Ordering::Acquire))
    }

    /// How many entries may be produced.
    pub fn room(&self) -> u32 {
        self.mask + 1 - self.filled()
    }

    /// The entry `ahead` of the first that is to be consumed; the caller knows that it is filled.
    pub fn peek(&self, ahead: u32) -> T {
        let consumer = self.word(self.offsets.consumer).load(Ordering::Relaxed);
        // SAFETY: produced by the kernel before the producer's counter was read.
        unsafe { self.entry(consumer.wrapping_add(ahead)).read() }
    }

    /// Gives entries back that were looked at.
    pub fn consume(&mut self, count: u32) {
        let consumer = self.word(self.offsets.consumer);
        let now = consumer.load(Ordering::Relaxed).wrapping_add(count);
        consumer.store(now, Ordering::Release);
    }

    /// Adds entries; the caller knows that there is room.
    pub fn produce(&mut self, entries: &[T]) {
        let producer = self.word(self.offsets.producer);
        let from = producer.load(Ordering::Relaxed);
        for (entry, ahead) in entries.iter().zip(0u32..) {
            // SAFETY: there is room, so the kernel does not look at it until the counter says so.
            unsafe { self.entry(from.wrapping_add(ahead)).write(*entry) };
        }
        producer.store(from.wrapping_add(entries.len() as u32), Ordering::Release);
    }
}
