//! Names of functions from `.gopclntab`, the table that every Go program carries for its own stack traces: it survives
//! stripping.
//!
//! In the flow: read once when a reader of goroutines or a profile begins; asked for each address afterwards. The
//! surprise: the table's own field for the start of the code is 0 in Go 1.26, so the caller says where `.text` begins.

use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, ReadRef};

/// The table's section, and that of a program that can lie anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// A table larger than this is not read, bytes.
const MOST_TABLE: u64 = 256 << 20;
/// First word of the table since Go 1.20, and of 1.18 and 1.19 (src/debug/gosym, "go118magic").
const MAGICS: [u32; 2] = [0xffff_fff1, 0xffff_fff0];
/// More functions than this are no program's.
const MOST_FUNCTIONS: usize = 1 << 24;
/// Longest name of a function: generic ones are long.
const MOST_NAME: usize = 1024;

/// The table of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pclntab {
    bytes: Vec<u8>,
    /// Where the names begin.
    names: usize,
    /// Where the functions' own records begin.
    records: usize,
    /// First address of each function and the offset of its record, by rising address.
    functions: Vec<(u64, u32)>,
    /// Address after the last function.
    end: u64,
}

impl Pclntab {
    /// The table of a program; `None` where there is none that is known.
    pub(crate) fn of<'data, R: ReadRef<'data>>(
        elf: &ElfFile64<'data, Endianness, R>,
    ) -> Option<Self> {
        let section = |name: &&str| elf.section_by_name(name);
        let table = SECTIONS.iter().find_map(section)?;
        let table = Some(table).filter(|table| table.size() <= MOST_TABLE)?;
        let start = |symbol: object::read::elf::ElfSymbol64<'data, '_, Endianness, R>| {
            (symbol.name() == Ok("runtime.text")).then(|| symbol.address())
        };
        let text = elf.symbols().find_map(start);
        let text = text.or_else(|| Some(elf.section_by_name(".text")?.address()));
        Self::parse(table.data().ok()?.to_vec(), text.unwrap_or(0))
    }

    /// Whether a program has such a table.
    pub(crate) fn is_in<'data>(elf: &impl object::Object<'data>) -> bool {
        SECTIONS
            .iter()
            .any(|name| elf.section_by_name(name).is_some())
    }

    /// Reads the section's bytes; `text` is where the program's code begins. `None` when it is none that is known.
    pub(crate) fn parse(bytes: Vec<u8>, text: u64) -> Option<Self> {
        if !MAGICS.contains(&u32_at(&bytes, 0)?) || bytes.get(7) != Some(&8) {
            return None;
        }
        let word = |index: usize| u64_at(&bytes, 8 + 8 * index);
        let count = usize::try_from(word(0)?)
            .ok()
            .filter(|n| *n <= MOST_FUNCTIONS)?;
        let text = match word(2)? {
            0 => text,
            // A relocated program has its link-time address here; the caller's is the same one.
            start => start,
        };
        let names = usize::try_from(word(3)?).ok()?;
        let records = usize::try_from(word(7)?).ok()?;
        let table = bytes.get(records..records.checked_add(8 * count + 4)?)?;
        let mut functions = Vec::with_capacity(count);
        for pair in table.chunks_exact(8).take(count) {
            functions.push((text + u64::from(u32_at(pair, 0)?), u32_at(pair, 4)?));
        }
        let end = text + u64::from(u32_at(table, 8 * count)?);
        let sorted = functions.is_sorted_by_key(|function| function.0);
        (sorted && count > 0).then_some(())?;
        Some(Self {
            names,
            records,
            functions,
            end,
            bytes,
        })
    }

    /// First address and name of the function that holds an address.
    pub(crate) fn function(&self, address: u64) -> Option<(u64, &str)> {
        if address >= self.end {
            return None;
        }
        let after = self
            .functions
            .partition_point(|function| function.0 <= address);
        let (start, record) = *self.functions.get(after.checked_sub(1)?)?;
        let record = self.records.checked_add(record as usize)?;
        let name = u32_at(&self.bytes, record.checked_add(4)?)? as usize;
        let name = self.bytes.get(self.names.checked_add(name)?..)?;
        let name = &name[..name.len().min(MOST_NAME)];
        let length = name.iter().position(|byte| *byte == 0)?;
        Some((start, std::str::from_utf8(&name[..length]).ok()?))
    }

    /// Whether a function begins there.
    pub(crate) fn begins(&self, address: u64) -> bool {
        self.functions
            .binary_search_by_key(&address, |f| f.0)
            .is_ok()
    }

    /// Where the function of a name begins, and the address after it.
    pub(crate) fn range(&self, name: &str) -> Option<(u64, u64)> {
        let named = |at: u64| self.function(at).is_some_and(|function| function.1 == name);
        let index = (self.functions.iter()).position(|function| named(function.0))?;
        let next = self.functions.get(index + 1);
        Some((
            self.functions[index].0,
            next.map_or(self.end, |next| next.0),
        ))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
impl Pclntab {
    /// Functions of 16 bytes each, the first at an address.
    pub(crate) fn sample(first: u64, names: &[&str]) -> Self {
        Self::parse(test_table(names), first).expect("a whole table")
    }
}

/// A table of functions of 16 bytes each, as the linker of Go 1.26 writes it.
#[cfg(test)]
pub(super) fn test_table(names: &[&str]) -> Vec<u8> {
    tests::table(MAGICS[0], 0, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of functions of 16 bytes each, as the linker of a version writes it.
    pub(super) fn table(magic: u32, start: u64, names: &[&str]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut offsets = Vec::new();
        for name in names {
            offsets.push(text.len() as u32);
            text.extend_from_slice(name.as_bytes());
            text.push(0);
        }
        let names_at = 72_u64;
        let records_at = names_at + text.len() as u64;
        let table_bytes = 8 * names.len() as u32 + 4;
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        for word in [names.len() as u64, 0, start, names_at, 0, 0, 0, records_at] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(text);
        for index in 0..names.len() as u32 {
            bytes.extend((16 * index).to_le_bytes());
            bytes.extend((table_bytes + 8 * index).to_le_bytes());
        }
        bytes.extend((16 * names.len() as u32).to_le_bytes());
        for (index, name) in (0_u32..).zip(offsets) {
            bytes.extend((16 * index).to_le_bytes());
            bytes.extend(name.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn functions_by_address_in_both_forms() {
        let names = ["runtime.text", "main.handler", "main.main"];
        for (magic, start) in [(MAGICS[0], 0), (MAGICS[1], 0x40_1000)] {
            let table = Pclntab::parse(table(magic, start, &names), 0x40_1000).unwrap();
            for (address, expected) in [
                (0x40_0fff, None),
                (0x40_1000, Some((0x40_1000, "runtime.text"))),
                (0x40_101f, Some((0x40_1010, "main.handler"))),
                (0x40_102f, Some((0x40_1020, "main.main"))),
                (0x40_1030, None),
            ] {
                assert_eq!(table.function(address), expected, "{address:#x}");
            }
            assert!(table.begins(0x40_1010) && !table.begins(0x40_1011));
        }
    }

    #[test]
    fn what_is_cut_off_or_another_table_is_refused() {
        let whole = table(MAGICS[0], 0, &["a.b", "c.d"]);
        assert!(Pclntab::parse(table(0xffff_fffb, 0, &["a.b"]), 0).is_none());
        for length in 0..whole.len() {
            // A name may be missing at the very end; nothing may be made up or read beyond the end.
            if let Some(table) = Pclntab::parse(whole[..length].to_vec(), 0x1000) {
                for address in [0x1000, 0x1010] {
                    let name = table.function(address).map(|function| function.1);
                    assert!(
                        name.is_none_or(|name| ["a.b", "c.d"].contains(&name)),
                        "{name:?}"
                    );
                }
            }
        }
    }
}
