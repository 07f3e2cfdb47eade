//! Frames in one piece of memory, one after the other: what is handed from one device to another at once.

use crate::frame::{Frame, RxMeta};

/// Frames one after the other.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Longer than what is used of it, so that it is not cleared for each frame.
    bytes: Vec<u8>,
    used: usize,
    /// End of each frame in `bytes`.
    frames: Vec<(usize, RxMeta)>,
}

impl Batch {
    /// How many.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// None; the memory stays.
    pub fn clear(&mut self) {
        self.used = 0;
        self.frames.clear();
    }

    /// Memory behind the last frame.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.used + len;
        if self.bytes.len() < end {
            self.bytes.resize(end.next_power_of_two(), 0);
        }
        &mut self.bytes[self.used..end]
    }

    /// Keeps what was written into [`Batch::room`].
    pub fn push(&mut self, len: usize, meta: RxMeta) {
        self.used += len;
        self.frames.push((self.used, meta));
    }

    /// Keeps a copy of a frame, in one piece.
    pub fn copy(&mut self, frame: &Frame<'_>) {
        let len = frame.len();
        let (head, mut rest) = self.room(len).split_at_mut(frame.head.len());
        head.copy_from_slice(frame.head);
        for piece in frame.rest {
            let (to, behind) = rest.split_at_mut(piece.len());
            to.copy_from_slice(piece);
            rest = behind;
        }
        self.push(len, frame.meta);
    }

    /// Takes all of another, which is empty then.
    pub fn append(&mut self, other: &mut Batch) {
        let base = self.used;
        self.room(other.used)
            .copy_from_slice(&other.bytes[..other.used]);
        self.used += other.used;
        let moved = other.frames.iter().map(|(end, meta)| (base + end, *meta));
        self.frames.extend(moved);
        other.clear();
    }

    /// A frame by its number.
    pub fn frame(&self, number: usize) -> Option<Frame<'_>> {
        let (end, meta) = *self.frames.get(number)?;
        let begin = number.checked_sub(1).map_or(0, |n| self.frames[n].0);
        Some(Frame {
            head: &self.bytes[begin..end],
            rest: &[],
            meta,
        })
    }
}
