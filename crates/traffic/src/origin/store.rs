//! Where bodies come from: a fixed pattern for sizes on demand, and the given files.
//!
//! Bodies are never made for a request. Small ones are copied behind their head; large ones lie in one
//! file in memory, the [`Store`], and a [`Tail`] says which part of it is to be sent. `sendfile` sends it
//! without a copy: for 91 kB that is 0.7 times the CPU of a send from ordinary memory.

use super::sys;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

/// Longest body that is copied behind its head, to leave in one send with its neighbours.
const COPIED_BODY_MAX: u64 = 16 * 1024;

const PATTERN_BYTES: usize = 64 * 1024;

/// The store begins with so many bytes of pattern, over and over, so that one call can send them all.
const PATTERN_REGION: u64 = 1024 * 1024;

/// Incompressible filling, so that a proxy that compresses finds nothing to save.
static PATTERN: [u8; PATTERN_BYTES] = pattern();

/// Xorshift64 (Marsaglia, 2003), which can run at compile time.
const fn pattern() -> [u8; PATTERN_BYTES] {
    let mut bytes = [0; PATTERN_BYTES];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut at = 0;
    while at < PATTERN_BYTES {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = state.to_le_bytes();
        let mut i = 0;
        while i < word.len() {
            bytes[at + i] = word[i];
            i += 1;
        }
        at += word.len();
    }
    bytes
}

/// A body that can be answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes of the pattern.
    Pattern(u64),
    /// These bytes.
    Small(Vec<u8>),
    /// A part of the store.
    Stored {
        /// From here on.
        offset: u64,
        /// So many bytes.
        length: u64,
    },
}

impl Body {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Body::Pattern(length) | Body::Stored { length, .. } => *length,
            Body::Small(bytes) => bytes.len() as u64,
        }
    }

    /// The bytes of a body that is to be copied; the tail of one that is to be sent from the store.
    pub fn bytes_or_tail(&self) -> Result<&[u8], Tail> {
        match self {
            Body::Small(bytes) => Ok(bytes),
            Body::Pattern(length) if *length <= COPIED_BODY_MAX => Ok(&PATTERN[..*length as usize]),
            Body::Pattern(length) => Err(Tail::new(Place::Pattern, *length)),
            Body::Stored { offset, length } => Err(Tail::new(Place::At(*offset), *length)),
        }
    }
}

/// Where a large body's bytes lie in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the region of the pattern, which has no end: behind its last byte comes its first.
    Pattern,
    /// From this offset on.
    At(u64),
}

/// The part of a large body that has yet to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    place: Place,
    sent: u64,
    length: u64,
}

impl Tail {
    fn new(place: Place, length: u64) -> Self {
        Self {
            place,
            sent: 0,
            length,
        }
    }

    /// Bytes that have yet to be sent.
    pub fn left(self) -> u64 {
        self.length - self.sent
    }

    /// Offset and length of the longest part of the store that comes next.
    pub fn next(self) -> (u64, u64) {
        let left = self.length - self.sent;
        match self.place {
            Place::At(offset) => (offset + self.sent, left),
            Place::Pattern => {
                let offset = self.sent % PATTERN_REGION;
                (offset, left.min(PATTERN_REGION - offset))
            }
        }
    }

    /// `n` more bytes have gone; `None` when that was the last of it.
    pub fn after(self, n: u64) -> Option<Tail> {
        let sent = self.sent + n;
        (sent < self.length).then_some(Tail { sent, ..self })
    }
}

/// A file in memory: the region of the pattern, then all large given files.
#[derive(Debug)]
pub struct Store {
    file: std::fs::File,
    bytes: u64,
    /// Its bytes in memory, for those who copy them; made when the first asks, after the last body was taken in.
    mapped: OnceLock<Option<sys::Mapped>>,
}

impl Store {
    /// A store with the pattern in it.
    pub fn new() -> io::Result<Self> {
        let mut file = std::fs::File::from(sys::memory_file()?);
        for _ in 0..PATTERN_REGION / PATTERN_BYTES as u64 {
            file.write_all(&PATTERN)?;
        }
        Ok(Self {
            file,
            bytes: PATTERN_REGION,
            mapped: OnceLock::new(),
        })
    }

    /// Copies what stands `skip` bytes into the part of a body that `tail` says.
    pub fn copy(&self, tail: Tail, skip: u64, mut into: &mut [u8]) {
        let at = tail.sent + skip;
        match tail.place {
            Place::Pattern => {
                let mut from = (at % PATTERN_BYTES as u64) as usize;
                while !into.is_empty() {
                    let len = into.len().min(PATTERN_BYTES - from);
                    let (part, rest) = into.split_at_mut(len);
                    part.copy_from_slice(&PATTERN[from..from + len]);
                    (into, from) = (rest, 0);
                }
            }
            Place::At(offset) => self.copy_stored(offset + at, into),
        }
    }

    fn copy_stored(&self, offset: u64, into: &mut [u8]) {
        let map = || sys::Mapped::new(&self.file, self.bytes as usize).ok();
        match self.mapped.get_or_init(map) {
            Some(mapped) => {
                let from = offset as usize;
                into.copy_from_slice(&mapped.bytes()[from..from + into.len()]);
            }
            // No room for it in the address space: read instead. The file is ours and whole.
            None => self
                .file
                .read_exact_at(into, offset)
                .expect("a file in memory gives what was written to it"),
        }
    }

    /// Takes in a body.
    pub fn keep(&mut self, bytes: Vec<u8>) -> io::Result<Body> {
        let length = bytes.len() as u64;
        if length <= COPIED_BODY_MAX {
            return Ok(Body::Small(bytes));
        }
        self.file.write_all(&bytes)?;
        let offset = self.bytes;
        self.bytes += length;
        Ok(Body::Stored { offset, length })
    }
}

impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
impl Store {
    /// All of `body`, as the worker would send it.
    pub fn read(&self, body: Result<&[u8], Tail>) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let mut read = Vec::new();
        let mut left = match body {
            Ok(bytes) => return bytes.to_vec(),
            Err(tail) => Some(tail),
        };
        while let Some(tail) = left {
            let (offset, length) = tail.next();
            let mut piece = vec![0; length.min(300_000) as usize];
            self.file.read_exact_at(&mut piece, offset).unwrap();
            read.extend_from_slice(&piece);
            left = tail.after(piece.len() as u64);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_goes_on_at_any_length() {
        let store = Store::new().unwrap();
        for length in [
            0,
            1,
            COPIED_BODY_MAX,
            COPIED_BODY_MAX + 1,
            PATTERN_REGION - 1,
            PATTERN_REGION,
            PATTERN_REGION + 1,
            3_000_003,
        ] {
            let body = Body::Pattern(length);
            let read = store.read(body.bytes_or_tail());
            assert_eq!((read.len() as u64, body.len()), (length, length));
            let expected = PATTERN.iter().cycle().take(length as usize);
            assert!(read.iter().eq(expected), "{length}");
        }
    }

    #[test]
    fn what_is_kept_comes_back() {
        let mut store = Store::new().unwrap();
        for (byte, length) in [
            (1, 0),
            (2, 16_384),
            (3, 16_385),
            (4, 2_000_000),
            (5, 20_000),
        ] {
            let body = store.keep(vec![byte; length]).unwrap();
            assert_eq!(body.len(), length as u64);
            assert_eq!(store.read(body.bytes_or_tail()), vec![byte; length]);
        }
    }
}
