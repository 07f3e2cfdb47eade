//! Functions of Java at an address of compiled code.
//!
//! In the flow: asked for each address that a profile or a thread's stack holds; nothing else of the heap of code is
//! read. The surprise: a compiled function holds those that were put into it. Which ones, the compiler wrote down for
//! the places where a thread may stop, so the next such place behind an address tells them.

use super::layout::{CodeAt, FieldsAt, Layout, ScopesAt};
use crate::process_memory::Memory;
use crate::scripts::{half, word};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Heaps of code, and functions that were put into one, at most.
const MOST_HEAPS: i32 = 16;
const MOST_INLINED: usize = 64;
/// Entries of a table of places at most.
const MOST_PLACES: u64 = 1 << 16;
/// Segments that a walk to the beginning of a block takes.
const MOST_STEPS: usize = 1 << 12;
/// A segment that belongs to nobody.
const FREE: u8 = 0xff;
const MOST_LETTERS: u16 = 512;
/// Words of a frame at most.
const MOST_WORDS: u64 = 1 << 16;
/// Names and places that are kept.
const MOST_KNOWN: usize = 1 << 16;
/// Fields of a class at most.
const MOST_FIELDS: usize = 1 << 10;

fn wrong() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// What stands at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Functions, innermost first; they share a frame of some words.
    Compiled { words: u64 },
    /// The function is told by the frame.
    Interpreter,
    /// Where the virtual machine called Java.
    Entry,
    /// Code of the virtual machine's own.
    Stub { words: u64 },
}

/// Code at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub kind: Kind,
    /// Names, innermost first.
    pub names: Vec<Arc<str>>,
    /// Where, in bytes from the top of its frame, such code keeps where it was before it was given up.
    pub before: Option<u64>,
}

/// One heap of code.
#[derive(Clone, Copy, Debug)]
struct Heap {
    low: u64,
    end: u64,
    segments: u64,
    shift: u32,
}

/// Compiled code of one JVM.
#[derive(Debug)]
pub(super) struct Code {
    pub memory: Memory,
    pub layout: Layout,
    heaps: Vec<Heap>,
    methods: HashMap<u64, Arc<str>>,
    known: HashMap<u64, Option<Arc<Found>>>,
}

impl Code {
    pub(super) fn new(memory: Memory, layout: Layout) -> io::Result<Self> {
        let mut code = Self {
            memory,
            layout,
            heaps: Vec::new(),
            methods: HashMap::new(),
            known: HashMap::new(),
        };
        code.read_heaps()?;
        Ok(code)
    }

    /// Heaps grow, and code comes and goes: what is known of addresses is forgotten.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.known.clear();
        self.read_heaps()
    }

    fn read_heaps(&mut self) -> io::Result<()> {
        let (memory, layout) = (&self.memory, &self.layout);
        let list = memory.word(layout.heaps)?;
        let number = memory.int(list + layout.list_length)?;
        let data = memory.word(list + layout.list_data)?;
        let heap = |index: i32| -> io::Result<Heap> {
            let heap = memory.word(data + 8 * u64::from(index.cast_unsigned()))?;
            let space = heap + layout.heap_memory;
            Ok(Heap {
                low: memory.word(space + layout.space_low)?,
                end: memory.word(space + layout.space_end)?,
                segments: memory.word(heap + layout.heap_segments + layout.space_low)?,
                shift: memory.int(heap + layout.heap_shift)?.cast_unsigned() & 31,
            })
        };
        self.heaps = (0..number.clamp(0, MOST_HEAPS))
            .map(heap)
            .collect::<io::Result<_>>()?;
        Ok(())
    }

    /// The code at an address that a thread is at or, of a call, just before the one it returns to.
    pub(super) fn at(&mut self, address: u64) -> Option<Arc<Found>> {
        if let Some(known) = self.known.get(&address) {
            return known.clone();
        }
        let found = self.find(address).ok().flatten().map(Arc::new);
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(address, found.clone());
        found
    }

    fn find(&mut self, address: u64) -> io::Result<Option<Found>> {
        let within = |heap: &&Heap| (heap.low..heap.end).contains(&address);
        let Some(&heap) = self.heaps.iter().find(within) else {
            return Ok(None);
        };
        let mut segment = (address - heap.low) >> heap.shift;
        let mut steps = 0;
        loop {
            let mut back = [0];
            self.memory.read(heap.segments + segment, &mut back)?;
            match back[0] {
                0 => break,
                FREE => return Ok(None),
                back => segment = segment.checked_sub(back.into()).ok_or_else(wrong)?,
            }
            steps += 1;
            if steps > MOST_STEPS {
                return Err(wrong());
            }
        }
        let block = heap.low + (segment << heap.shift);
        let mut used = [0];
        self.memory
            .read(block + self.layout.block_used, &mut used)?;
        if used[0] == 0 {
            return Ok(None);
        }
        self.blob(block + self.layout.block_bytes, address)
            .map(Some)
    }

    fn blob(&mut self, blob: u64, address: u64) -> io::Result<Found> {
        let mut bytes = vec![0; self.layout.blob_bytes as usize];
        self.memory.read(blob, &mut bytes)?;
        let word = |at: u64| word(&bytes, at as usize);
        let half = |at: u64| half(&bytes, at as usize);
        let name = self.text(word(self.layout.blob_name))?;
        let words = u64::from(half(self.layout.blob_frame));
        let (begin, end) = match self.layout.blob_code {
            CodeAt::Addresses(begin, end) => (word(begin), word(end)),
            CodeAt::Offsets(begin, end) => {
                (blob + u64::from(half(begin)), blob + u64::from(half(end)))
            }
        };
        let found = |kind: Kind, names: Vec<Arc<str>>| Found {
            kind,
            names,
            before: None,
        };
        let kind = match name.as_str() {
            "Interpreter" => Some(Kind::Interpreter),
            stubs if stubs.starts_with("StubRoutines") => Some(Kind::Entry),
            function if function.ends_with("nmethod") => None,
            _ => Some(Kind::Stub { words }),
        };
        let outside = !(begin..end).contains(&address) || words > MOST_WORDS;
        if let Some(kind) = kind.or(outside.then_some(Kind::Stub { words })) {
            return Ok(found(kind, vec![name.into()]));
        }
        let itself = self.method(word(self.layout.blob_method))?;
        // Where nobody wrote down what was put into it, the function itself is known.
        let scopes = self.layout.scopes;
        let inlined = scopes.and_then(|at| self.inlined(at, blob, &bytes, address - begin).ok());
        let kind = Kind::Compiled { words };
        match inlined {
            // Another one at the root is none that this code has.
            Some(names) if names.last() == Some(&itself) => Ok(found(kind, names)),
            // Code that was given up returns to where it has no function.
            Some(names) if names.is_empty() => Ok(Found {
                before: Some(half(self.layout.blob_before).into()),
                ..found(kind, vec![itself])
            }),
            _ => Ok(found(kind, vec![itself])),
        }
    }

    /// Functions at a distance from the beginning of compiled code, innermost first.
    fn inlined(
        &mut self,
        scopes: ScopesAt,
        blob: u64,
        bytes: &[u8],
        distance: u64,
    ) -> io::Result<Vec<Arc<str>>> {
        let word = |at: u64| word(bytes, at as usize);
        let half = |at: u64| u64::from(half(bytes, at as usize));
        let (table, end, data, methods) = match scopes {
            ScopesAt::Blob {
                data,
                table,
                end,
                methods,
            } => (
                blob + half(table),
                blob + half(end),
                word(data),
                blob + half(methods),
            ),
            ScopesAt::Apart {
                fixed,
                table,
                data,
                variable,
                relocations,
            } => {
                let fixed = word(fixed);
                let (table, data) = (fixed + half(table), fixed + half(data));
                (table, data, data, word(variable) + half(relocations))
            }
        };
        let each = self.layout.scope_bytes;
        let number = end.saturating_sub(table) / each;
        if number > MOST_PLACES {
            return Err(wrong());
        }
        // The table is in order: the first place behind the address.
        let (mut low, mut high) = (0, number);
        while low < high {
            let middle = low.midpoint(high);
            let place = self.memory.int(table + middle * each)?;
            match u64::try_from(place).is_ok_and(|place| place > distance) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        if low >= number {
            return Err(wrong());
        }
        let mut at = self.memory.int(table + low * each + 4)?;
        let mut names = Vec::new();
        while at > 0 && names.len() < MOST_INLINED {
            let mut packed = [0; 16];
            self.memory
                .read(data + u64::from(at.cast_unsigned()), &mut packed)?;
            let mut packed = Packed::new(&packed, self.layout.major);
            let (sender, method) = (packed.next(), packed.next());
            let (Some(sender), Some(method @ 1..)) = (sender, method) else {
                return Err(wrong());
            };
            let method = self.memory.word(methods + 8 * u64::from(method - 1))?;
            names.push(self.method(method)?);
            at = sender.cast_signed();
        }
        Ok(names)
    }

    /// `java.lang.String.equals` of a function's record.
    pub(super) fn method(&mut self, method: u64) -> io::Result<Arc<str>> {
        if let Some(known) = self.methods.get(&method) {
            return Ok(Arc::clone(known));
        }
        let layout = &self.layout;
        let code = self.memory.word(method + layout.method_code)?;
        let pool = self.memory.word(code + layout.code_pool)?;
        let class = self.memory.word(pool + layout.pool_class)?;
        let mut index = [0; 2];
        self.memory.read(code + layout.code_name, &mut index)?;
        let name = self.pool_text(pool, u16::from_ne_bytes(index))?;
        let class = self.class(class)?;
        let name: Arc<str> = format!("{class}.{name}").into();
        if self.methods.len() >= MOST_KNOWN {
            self.methods.clear();
        }
        self.methods.insert(method, Arc::clone(&name));
        Ok(name)
    }

    /// `java.lang.String` of a class's record.
    pub(super) fn class(&self, class: u64) -> io::Result<String> {
        let name = self.memory.word(class + self.layout.class_name)?;
        let name = self.symbol(name)?.replace('/', ".");
        // Hidden classes carry an address.
        let plain = name
            .split_once("+0x")
            .map_or(name.as_str(), |(plain, _)| plain);
        Ok(plain.to_owned())
    }

    /// A text that a pool of constants holds at an index.
    fn pool_text(&self, pool: u64, index: u16) -> io::Result<String> {
        let entry = pool + self.layout.pool_bytes + 8 * u64::from(index);
        self.symbol(self.memory.word(entry)? & !1)
    }

    fn symbol(&self, symbol: u64) -> io::Result<String> {
        let mut length = [0; 2];
        self.memory
            .read(symbol + self.layout.text_length, &mut length)?;
        let length = u16::from_ne_bytes(length);
        if length == 0 || length > MOST_LETTERS {
            return Err(wrong());
        }
        let mut letters = vec![0; length.into()];
        self.memory
            .read(symbol + self.layout.text_letters, &mut letters)?;
        if letters.iter().any(|letter| *letter < 0x20) {
            return Err(wrong());
        }
        String::from_utf8(letters).map_err(|_| wrong())
    }

    /// A short text of the virtual machine's own.
    fn text(&self, address: u64) -> io::Result<String> {
        let mut letters = [0; 24];
        self.memory.read(address, &mut letters)?;
        let text = letters
            .split(|letter| *letter == 0)
            .next()
            .unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    /// Where the objects of a class have a field that the class itself declares.
    pub(super) fn field(&self, class: u64, name: &str) -> io::Result<Option<u64>> {
        let memory = &self.memory;
        let pool = memory.word(class + self.layout.class_pool)?;
        match self.layout.class_fields {
            FieldsAt::Numbers { list, count } => {
                let list = memory.word(class + list)?;
                let mut number = [0; 2];
                memory.read(class + count, &mut number)?;
                for index in 0..u64::from(u16::from_ne_bytes(number)) {
                    let mut field = [0; 12];
                    memory.read(list + 4 + 12 * index, &mut field)?;
                    let part = |at: usize| u16::from_ne_bytes([field[2 * at], field[2 * at + 1]]);
                    if self
                        .pool_text(pool, part(1))
                        .is_ok_and(|found| found == name)
                    {
                        let packed = u64::from(part(5)) << 16 | u64::from(part(4));
                        return Ok(Some(packed >> 2));
                    }
                }
                Ok(None)
            }
            FieldsAt::Stream(stream) => {
                let stream = memory.word(class + stream)?;
                let length = memory.int(stream)?;
                let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(1 << 16)];
                memory.read(stream + 4, &mut bytes)?;
                let mut packed = Packed::new(&bytes, self.layout.major);
                let mut next = || packed.next().ok_or_else(wrong);
                let (own, _injected) = (next()?, next()?);
                for _ in 0..(own as usize).min(MOST_FIELDS) {
                    let (index, _kind, at, _access, flags) =
                        (next()?, next()?, next()?, next()?, next()?);
                    // A value that it begins with, a generic type, a group of contention.
                    for bit in [0, 2, 4] {
                        if flags >> bit & 1 == 1 {
                            next()?;
                        }
                    }
                    let index = u16::try_from(index).map_err(|_| wrong())?;
                    if self.pool_text(pool, index).is_ok_and(|found| found == name) {
                        return Ok(Some(at.into()));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Numbers of one to five bytes each: those of the compiler's notes and of classes.
struct Packed<'a> {
    bytes: &'a [u8],
    /// Since version 20 no byte is zero.
    least: u32,
}

impl<'a> Packed<'a> {
    fn new(bytes: &'a [u8], major: i32) -> Self {
        Self {
            bytes,
            least: u32::from(major >= 20),
        }
    }

    fn next(&mut self) -> Option<u32> {
        let last = 256 - 64 - self.least;
        let mut sum = 0_u32;
        for place in 0..5 {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            let part = u32::from(byte).checked_sub(self.least)?;
            sum = sum.wrapping_add(part << (6 * place));
            if part < last {
                break;
            }
        }
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_those_of_their_version() {
        let read = |bytes: &[u8], major| Packed::new(bytes, major).next();
        assert_eq!(read(&[0], 17), Some(0));
        assert_eq!(read(&[191], 17), Some(191));
        assert_eq!(read(&[192, 0], 17), Some(192));
        assert_eq!(read(&[193, 1], 17), Some(193 + 64));
        assert_eq!(read(&[1], 25), Some(0));
        assert_eq!(read(&[191], 25), Some(190));
        assert_eq!(read(&[192, 1], 25), Some(191));
        assert_eq!(read(&[193, 2], 25), Some(192 + 64));
        assert_eq!(read(&[0], 25), None);
        assert_eq!(read(&[200], 17), None);
        assert!(read(&[255; 5], 17).is_some());
    }
}
