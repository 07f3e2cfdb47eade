//! The memory of a process that runs on, read.
//!
//! In the flow: what readers of runtimes stand on. Nothing of the process is stopped or changed. The surprise: a wrong
//! address does not fail, it lies. So every read is bounded, and whoever reads checks what was found.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use std::collections::{BTreeSet, HashMap};
use std::io;

/// Data of a file that is read so far, in bytes.
const MOST_DATA: u64 = 16 << 20;

/// The memory of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pid: i32,
}

/// A symbol of a file that is mapped into a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it is in the process.
    pub address: u64,
    /// File that it is in, as the process sees it.
    pub path: String,
}

impl Memory {
    /// Of a process; nothing is read yet.
    pub(crate) fn of(pid: i32) -> Self {
        Self { pid }
    }

    /// Bytes from an address on, all or none.
    pub(crate) fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        linux::memory::read_exact(self.pid, address, into)
    }

    pub(crate) fn word(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    pub(crate) fn int(&self, address: u64) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Ok(i32::from_ne_bytes(bytes))
    }

    /// The first of a process' mapped files that has a symbol of its dynamic table, by a part of the file's name.
    pub(crate) fn symbol(&self, file: &str, symbol: &str) -> Option<Found> {
        let mut files = self.files(file).into_iter();
        files.find_map(|(start, link, path)| {
            let address = self.in_file(&link, start, symbol)?;
            Some(Found { address, path })
        })
    }

    /// Addresses of the symbols that begin with a word, of the dynamic table of the first mapped file that has any,
    /// by a part of the file's name.
    pub(crate) fn symbols(&self, file: &str, begin: &str) -> HashMap<String, u64> {
        let of = |start: u64, link: &str| -> Option<HashMap<String, u64>> {
            let cache = object::ReadCache::new(std::fs::File::open(link).ok()?);
            let elf = object::File::parse(&cache).ok()?;
            let moved = moved_by(&elf, start);
            let symbols = elf.dynamic_symbols().filter(|one| !one.is_undefined());
            let named =
                symbols.filter_map(|one| Some((one.name().ok()?.to_owned(), one.address())));
            let wanted = named.filter(|(name, _)| name.starts_with(begin));
            Some(wanted.map(|(name, at)| (name, at + moved)).collect())
        };
        let files = self.files(file).into_iter();
        let mut found = files.filter_map(|(start, link, _)| of(start, &link));
        found.find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn in_file(&self, link: &str, start: u64, symbol: &str) -> Option<u64> {
        let cache = object::ReadCache::new(std::fs::File::open(link).ok()?);
        let elf = object::File::parse(&cache).ok()?;
        // A module of an interpreter only asks for it.
        let here =
            |one: &object::Symbol<'_, '_, _>| one.name() == Ok(symbol) && !one.is_undefined();
        let found = elf.dynamic_symbols().find(here)?;
        Some(found.address() + moved_by(&elf, start))
    }

    /// Words of the writable data of the mapped files, by a part of their names, without doubles and zeros: what a name
    /// that was stripped may have led to.
    pub(crate) fn data_of(&self, file: &str) -> io::Result<BTreeSet<u64>> {
        let mut words = BTreeSet::new();
        for (start, link, _) in self.files(file) {
            let Ok(opened) = std::fs::File::open(link) else {
                continue;
            };
            let cache = object::ReadCache::new(opened);
            let Ok(elf) = object::File::parse(&cache) else {
                continue;
            };
            let kinds = [SectionKind::Data, SectionKind::UninitializedData];
            let moved = moved_by(&elf, start);
            for section in elf.sections().filter(|s| kinds.contains(&s.kind())) {
                let length = section.size().min(MOST_DATA) & !7;
                let mut bytes = vec![0; length as usize];
                self.read(moved + section.address(), &mut bytes)?;
                let found = bytes
                    .chunks_exact(8)
                    .filter_map(|word| word.try_into().ok());
                words.extend(found.map(u64::from_ne_bytes));
            }
        }
        words.remove(&0);
        Ok(words)
    }

    /// The mapped files with a part of a name, at their beginnings and once each: load address, the link to the file,
    /// and its path as the process sees it. The link is that of the mapping: the path may be another namespace's, or
    /// that of a file which was replaced.
    fn files(&self, file: &str) -> Vec<(u64, String, String)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid));
        let mut files: Vec<(u64, String, String)> = Vec::new();
        for line in maps.unwrap_or_default().lines() {
            let Some((start, end, path)) = first_of_file(line, file) else {
                continue;
            };
            if !files.iter().any(|(.., known)| known == path) {
                // These names have no leading zeros.
                let link = format!("/proc/{}/map_files/{start:x}-{end:x}", self.pid);
                files.push((start, link, path.to_owned()));
            }
        }
        files
    }
}

/// Start, end and path of the mapping of a file's beginning, which is at its load address, if a part of the file's name
/// is this.
fn first_of_file<'a>(line: &'a str, file: &str) -> Option<(u64, u64, &'a str)> {
    // `start-end rights offset device inode path`
    let mut fields = line.split_ascii_whitespace();
    let (range, offset) = (fields.next()?, fields.nth(1)?);
    let path = fields.nth(2)?;
    let fits = path.rsplit('/').next()?.contains(file);
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let first = fits && number(offset)? == 0;
    first.then_some((number(start)?, number(end)?, path))
}

/// What is added to the addresses of a file that is loaded at `start`.
fn moved_by<'a>(elf: &impl Object<'a>, start: u64) -> u64 {
    match elf.kind() {
        object::ObjectKind::Dynamic => start,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_is_read_and_a_wrong_address_is_an_error() {
        let memory = Memory::of(std::process::id() as i32);
        let value = 0x1122_3344_5566_7788_u64;
        assert_eq!(memory.word(&raw const value as u64).unwrap(), value);
        assert!(memory.word(8).is_err());
        assert!(Memory::of(-1).word(&raw const value as u64).is_err());
        assert_eq!(memory.symbol("no-such-file", "main"), None);
    }

    #[test]
    fn a_symbol_of_the_c_library_is_where_it_is() {
        let memory = Memory::of(std::process::id() as i32);
        // A binary that is linked statically maps no C library.
        if let Some(found) = memory.symbol("libc.so", "environ") {
            let own = memory.word(found.address).unwrap();
            assert_eq!(memory.word(own).is_ok(), own != 0);
        }
    }
}
