//! The memory of a process that runs on, read.
//!
//! In the flow: what readers of runtimes stand on. Nothing of the process is stopped or changed. The surprise: a wrong
//! address does not fail, it lies. So every read is bounded, and whoever reads checks what was found.

use object::{Object, ObjectSymbol};
use std::io;

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
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).ok()?;
        let mut tried: Vec<&str> = Vec::new();
        for line in maps.lines() {
            // `start-end rights offset device inode path`: the mapping at the file's beginning is its load address.
            let mut fields = line.split_ascii_whitespace();
            let (range, offset) = (fields.next()?, fields.nth(1)?);
            let path = fields.nth(2).unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            if !name.contains(file)
                || tried.contains(&path)
                || u64::from_str_radix(offset, 16) != Ok(0)
            {
                continue;
            }
            tried.push(path);
            let (start, end) = range.split_once('-')?;
            let start = u64::from_str_radix(start, 16).ok()?;
            let end = u64::from_str_radix(end, 16).ok()?;
            // The names of map_files have no leading zeros.
            if let Some(address) = self.in_file(&format!("{start:x}-{end:x}"), start, symbol) {
                return Some(Found {
                    address,
                    path: path.to_owned(),
                });
            }
        }
        None
    }

    fn in_file(&self, range: &str, start: u64, symbol: &str) -> Option<u64> {
        // By the mapping and not by the path: another namespace's, or one that was replaced.
        let file = std::fs::File::open(format!("/proc/{}/map_files/{range}", self.pid)).ok()?;
        let cache = object::ReadCache::new(file);
        let elf = object::File::parse(&cache).ok()?;
        let found = elf.dynamic_symbols().find(|one| one.name() == Ok(symbol))?;
        let moves = elf.kind() == object::ObjectKind::Dynamic;
        Some(found.address() + if moves { start } else { 0 })
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
