//! What a program or library on disk says about its code: how its frames are left, and what its functions are called.
//!
//! In the flow: one [`Binary`] a file, shared by all processes that map it. Addresses are the file's own.
//! Distributions strip `.symtab`, so a function is named by `.symtab`, or by a debug file of the same build id, or
//! by `.dynsym`; without any of these by where it starts, which `.eh_frame_hdr` knows for every function. The
//! surprise: that table makes stripped code nearly as good to read, as all samples of one function still fall on
//! one name. A program in Go has the table of its own stack traces, whatever was stripped.

use crate::goroutines::pclntab::Pclntab;
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a section and where they lie.
type Section = (Range<u64>, Arc<[u8]>);

/// A file with code.
#[derive(Debug, Default)]
pub struct Binary {
    /// Segments with code: file offsets, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    /// Starts of functions, rising.
    starts: Vec<u64>,
    symbols: Symbols,
    /// Functions of a program in Go.
    go: Option<Pclntab>,
}

/// Functions by rising address.
#[derive(Debug, Default)]
struct Symbols {
    entries: Vec<Entry>,
    /// All names, one after another.
    names: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    bytes: u64,
    name: (u32, u32),
}

impl Binary {
    /// Reads what is needed of a file; `None` when it is not a 64-bit ELF file.
    pub fn of_file(file: File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let mut binary = Self::parse(&cache)?;
        if let Some(debug) = debug_file(&cache)
            && let Ok(file) = File::open(debug)
            && let Some(separate) = Symbols::of(&ReadCache::new(file))
        {
            binary.symbols.extend(&separate);
        }
        binary.symbols.sort();
        Some(binary)
    }

    /// Reads a whole image, as the vdso is one.
    pub fn of_image(image: &[u8]) -> Option<Self> {
        let mut binary = Self::parse(image)?;
        binary.symbols.sort();
        Some(binary)
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let elf = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let endian = elf.endian();
        let segments = elf.elf_program_headers().iter();
        let segments = segments.filter(|segment| {
            segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian) & elf::PF_X != 0
        });
        let segments = segments.map(|segment| {
            let start = segment.p_offset(endian);
            let end = start.saturating_add(segment.p_filesz(endian));
            (start..end, segment.p_vaddr(endian))
        });
        let section = |name| {
            let section = elf.section_by_name(name)?;
            let range = section.address()..section.address().checked_add(section.size())?;
            Some((range, Arc::from(section.data().ok()?)))
        };
        let eh_frame_hdr: Option<Section> = section(".eh_frame_hdr");
        let starts = eh_frame_hdr.as_ref().and_then(function_starts);
        let mut symbols = Symbols::of(data).unwrap_or_default();
        // The entry of an executable is `_start` by convention, also where nothing is left to say so.
        let entry = elf.elf_header().e_entry(endian);
        let is_program = elf.elf_header().e_type(endian) == elf::ET_EXEC
            || elf.section_by_name(".interp").is_some();
        if is_program && entry != 0 {
            symbols.push(entry, 0, "_start");
        }
        // Where it has its symbols, the table knows no more.
        let is_stripped = elf.section_by_name(".symtab").is_none();
        Some(Self {
            segments: segments.collect(),
            eh_frame: section(".eh_frame"),
            eh_frame_hdr,
            starts: starts.unwrap_or_default(),
            symbols,
            go: is_stripped.then(|| Pclntab::of(&elf)).flatten(),
        })
    }

    /// What is to be subtracted from a process' addresses, for a mapping of the file's `offset` at `start`; `None`
    /// when the file has no such segment.
    pub fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // The kernel maps whole pages, so that a mapping may begin before its segment.
        let page = rustix::param::page_size() as u64;
        let begins = |range: &Range<u64>| range.start / page * page;
        let segment = self.segments.iter();
        let mut segment = segment.filter(|(range, _)| (begins(range)..range.end).contains(&offset));
        // Two segments may share a page; the one that begins in it is the one that is mapped from it.
        let (range, address) = segment.next_back()?;
        Some(
            start
                .wrapping_sub(*address)
                .wrapping_sub(offset)
                .wrapping_add(range.start),
        )
    }

    /// What the unwinder needs.
    pub fn unwind_sections(&self) -> framehop::ExplicitModuleSectionInfo<Arc<[u8]>> {
        let range = |section: &Option<Section>| section.as_ref().map(|(range, _)| range.clone());
        let bytes =
            |section: &Option<Section>| section.as_ref().map(|(_, bytes)| Arc::clone(bytes));
        framehop::ExplicitModuleSectionInfo {
            eh_frame_svma: range(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: range(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..Default::default()
        }
    }

    /// Name of the function at an address of the file: demangled, or `module+0x1234` with its start.
    pub fn name(&self, address: u64, module: &str) -> String {
        let start = last_up_to(&self.starts, address, |&start| start).copied();
        if let Some(entry) = last_up_to(&self.symbols.entries, address, |entry| entry.start) {
            let inside = if entry.bytes > 0 {
                address - entry.start < entry.bytes
            } else {
                start.is_none_or(|start| start <= entry.start)
            };
            if inside {
                return demangle(self.symbols.name(entry));
            }
        }
        let of_go = self.go.as_ref().and_then(|table| table.function(address));
        if let Some((_, name)) = of_go {
            return name.to_owned();
        }
        format!("{module}+{:#x}", start.unwrap_or(address))
    }
}

impl Symbols {
    /// Functions of both symbol tables; `None` when it is not a 64-bit ELF file.
    fn of<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let elf = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let mut symbols = Self::default();
        for (table, strings) in [
            (elf.elf_symbol_table(), ".strtab"),
            (elf.elf_dynamic_symbol_table(), ".dynstr"),
        ] {
            let strings = elf.section_by_name(strings);
            if let Some(strings) = strings.and_then(|section| section.data().ok()) {
                symbols.read::<FileHeader64<Endianness>>(table.symbols(), strings, elf.endian());
            }
        }
        Some(symbols)
    }

    fn read<E: FileHeader>(&mut self, table: &[E::Sym], strings: &[u8], endian: E::Endian) {
        for symbol in table {
            let is_code = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => true,
                // Assembly without a type, as in old `_start`s; local ones are marks inside functions.
                elf::STT_NOTYPE => symbol.st_bind() != elf::STB_LOCAL,
                _ => false,
            };
            if !is_code || symbol.is_undefined(endian) {
                continue;
            }
            let name = strings.get(symbol.st_name(endian) as usize..);
            let name = name.and_then(|rest| rest.split(|&byte| byte == 0).next());
            if let Some(Ok(name)) = name.map(str::from_utf8)
                && !name.is_empty()
            {
                let (start, bytes) = (symbol.st_value(endian).into(), symbol.st_size(endian));
                self.push(start, bytes.into(), name);
            }
        }
    }

    fn push(&mut self, start: u64, bytes: u64, name: &str) {
        let first = self.names.len();
        self.names.push_str(name);
        if let (Ok(first), Ok(end)) = (u32::try_from(first), u32::try_from(self.names.len())) {
            let name = (first, end);
            self.entries.push(Entry { start, bytes, name });
        }
    }

    fn extend(&mut self, other: &Symbols) {
        for entry in &other.entries {
            self.push(entry.start, entry.bytes, other.name(entry));
        }
    }

    fn name(&self, entry: &Entry) -> &str {
        &self.names[entry.name.0 as usize..entry.name.1 as usize]
    }

    /// One entry an address: of several names the one that knows its size, then the plainest (`write` before
    /// `__write`).
    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by_cached_key(|entry| {
            let name = self.name(entry);
            let underscores = name.len() - name.trim_start_matches('_').len();
            let rank = (entry.bytes == 0, underscores, name.len());
            (entry.start, rank, name.to_owned())
        });
        entries.dedup_by_key(|entry| entry.start);
        self.entries = entries;
    }
}

/// The last of the sorted `items` whose address is not above `address`.
fn last_up_to<T>(items: &[T], address: u64, start: impl Fn(&T) -> u64) -> Option<&T> {
    let after = items.partition_point(|item| start(item) <= address);
    items[..after].last()
}

/// Starts of all functions from the sorted table of `.eh_frame_hdr` (LSB 5.0, 10.6.2), in the form that every
/// linker writes: pairs of 4-byte offsets from the section's start.
fn function_starts((range, bytes): &Section) -> Option<Vec<u64>> {
    let [1, pointer, 3, 0x3b] = *bytes.first_chunk::<4>()? else {
        return None;
    };
    // The pointer to .eh_frame comes first: 4 bytes in the encodings that are in use.
    if pointer & 0x0f != 0x0b {
        return None;
    }
    let count = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) as usize;
    let pairs = bytes.get(12..)?.chunks_exact(8).take(count);
    let starts = pairs.map(|pair| {
        let offset = i32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
        range.start.wrapping_add_signed(offset.into())
    });
    Some(starts.collect())
}

/// Where distributions put the symbols that they stripped.
fn debug_file<'data, R: ReadRef<'data>>(data: R) -> Option<PathBuf> {
    let elf = ElfFile64::<Endianness, R>::parse(data).ok()?;
    let id = elf.build_id().ok()??;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    Some(PathBuf::from(format!(
        "/usr/lib/debug/.build-id/{first}/{rest}.debug"
    )))
}

/// Without the version that a linker appends: `memcpy@@GLIBC_2.14`. Crystal has an `@` in its names.
fn without_version(name: &str) -> &str {
    let of_version = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let is_version = |rest: &str| rest.trim_start_matches('@').chars().all(of_version);
    match name.split_once('@') {
        Some((plain, rest)) if is_version(rest) => plain,
        _ => name,
    }
}

/// A function's name as its source has it.
pub fn demangle(name: &str) -> String {
    let plain = without_version(name);
    if let Ok(rust) = rustc_demangle::try_demangle(plain) {
        return format!("{rust:#}");
    }
    if plain.starts_with("_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(plain)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    of_haskell(plain).unwrap_or_else(|| plain.to_owned())
}

/// `Web.Scotty.Route.matchRoute` of `scottyzm0zi12_WebziScottyziRoute_matchRoute_info`, as GHC writes package, module,
/// function and part (its manual, "z-encoding"); `None` of another name.
fn of_haskell(name: &str) -> Option<String> {
    const PARTS: [&str; 6] = ["info", "entry", "slow", "fast", "ret", "closure"];
    let (rest, _) = name
        .rsplit_once('_')
        .filter(|(_, part)| PARTS.contains(part))?;
    let rest = rest.strip_suffix("_con").unwrap_or(rest);
    let mut words = rest.split('_');
    let first = words.next()?;
    let is_module = |word: &str| {
        word.split("zi").all(|part| {
            part.starts_with(|c: char| c.is_ascii_uppercase())
                && part.chars().all(|c| c.is_ascii_alphanumeric())
        })
    };
    // The program's own modules have no package before them; libraries in C begin like one of a single word.
    let own = first == "Main" || first.contains("zi") && is_module(first);
    let of_package = first.starts_with(|c: char| c.is_ascii_lowercase());
    let module = match (own, of_package) {
        (true, _) => first,
        (false, true) => words.next()?,
        (false, false) => return None,
    };
    let function = words.next().filter(|f| !f.is_empty())?;
    if words.next().is_some() || !is_module(module) {
        return None;
    }
    Some(format!("{}.{}", unescaped(module)?, unescaped(function)?))
}

/// Letters for the signs that GHC writes as two; `None` where it does not write so.
fn unescaped(name: &str) -> Option<String> {
    const SIGNS: [(char, char); 18] = [
        ('a', '&'),
        ('b', '|'),
        ('c', '^'),
        ('d', '$'),
        ('e', '='),
        ('g', '>'),
        ('h', '#'),
        ('i', '.'),
        ('l', '<'),
        ('m', '-'),
        ('n', '!'),
        ('p', '+'),
        ('q', '\''),
        ('r', '\\'),
        ('s', '/'),
        ('t', '*'),
        ('u', '_'),
        ('v', '%'),
    ];
    const BRACKETS: [(char, char); 5] =
        [('C', ':'), ('L', '('), ('M', '['), ('N', ']'), ('R', ')')];
    let mut text = String::new();
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        let signs: &[(char, char)] = match letter {
            'z' => &SIGNS,
            'Z' => &BRACKETS,
            other => {
                text.push(other);
                continue;
            }
        };
        let next = letters.next()?;
        if next == letter {
            text.push(letter);
            continue;
        }
        text.push(signs.iter().find(|(code, _)| *code == next)?.1);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (mangled, name) in [
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@GLIBC_2.2.5", "memcpy"),
            ("*Int32@Int#to_s<IO>:Nil", "*Int32@Int#to_s<IO>:Nil"),
            (
                "_ZN2v88internal4Heap7CollectEv",
                "v8::internal::Heap::Collect()",
            ),
            (
                "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
                "core::fmt::Write::write_fmt",
            ),
            ("ngx_http_handler", "ngx_http_handler"),
            ("_Z", "_Z"),
            (
                "scottyzm0zi12zmAbC_WebziScottyziRoute_zdwmatchRoute_info",
                "Web.Scotty.Route.$wmatchRoute",
            ),
            ("base_GHCziBase_zpzp_info", "GHC.Base.++"),
            ("Main_usersByzuid_entry", "Main.usersBy_id"),
            ("containerszm0zi6_DataziMap_Bin_con_info", "Data.Map.Bin"),
            ("png_Read_info", "png_Read_info"),
            ("stg_ap_v_fast", "stg_ap_v_fast"),
            ("SSL_CTX_set_info", "SSL_CTX_set_info"),
            ("XML_Parse_info", "XML_Parse_info"),
        ] {
            assert_eq!(demangle(mangled), name);
        }
    }

    #[test]
    fn a_function_without_a_symbol_is_named_by_its_start() {
        let mut symbols = Symbols::default();
        symbols.push(0x1000, 0x20, "__write");
        symbols.push(0x1000, 0x20, "write");
        symbols.push(0x2000, 0, "assembly");
        symbols.sort();
        let binary = Binary {
            starts: vec![0x1000, 0x1020, 0x2000, 0x2100],
            symbols,
            ..Default::default()
        };
        for (address, name) in [
            (0x1008, "write"),
            (0x101f, "write"),
            (0x1030, "nginx+0x1020"),
            (0x2050, "assembly"),
            (0x2100, "nginx+0x2100"),
            (0x10, "nginx+0x10"),
        ] {
            assert_eq!(binary.name(address, "nginx"), name, "{address:#x}");
        }
    }

    #[test]
    fn a_stripped_go_program_names_its_functions() {
        let binary = Binary {
            go: Some(Pclntab::sample(0x1000, &["main.handler", "main.main"])),
            ..Default::default()
        };
        assert_eq!(binary.name(0x1004, "shop"), "main.handler");
        assert_eq!(binary.name(0x1018, "shop"), "main.main");
        assert_eq!(binary.name(0x2000, "shop"), "shop+0x2000");
    }

    /// One that no compiler makes a part of another.
    #[inline(never)]
    fn a_function_of_its_own() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn our_own_program_can_be_read() {
        assert_eq!(
            std::hint::black_box(a_function_of_its_own as fn() -> u64)(),
            7
        );
        let exe = File::open("/proc/self/exe").unwrap();
        let binary = Binary::of_file(exe).unwrap();
        assert!(binary.starts.is_sorted());
        assert!(binary.starts.len() > 100, "{}", binary.starts.len());
        let names = |wanted: &str| {
            let mut entries = binary.symbols.entries.iter();
            entries.any(|entry| demangle(binary.symbols.name(entry)).contains(wanted))
        };
        assert!(names("a_function_of_its_own"));
        assert!(names("_start"));
    }

    #[test]
    fn what_is_no_program_is_left_alone() {
        assert!(Binary::of_image(b"#!/bin/sh\n").is_none());
        assert!(Binary::of_image(b"").is_none());
    }

    #[test]
    fn the_bias_follows_the_segment_that_is_mapped() {
        let binary = Binary {
            segments: vec![
                (0..0x800, 0),
                (0x800..0x3000, 0x1800),
                (0x3000..0x4000, 0x5000),
            ],
            ..Default::default()
        };
        // The second segment begins inside the first page and lies a page higher in memory.
        assert_eq!(binary.bias(0x7000_1000, 0), Some(0x7000_0000));
        assert_eq!(binary.bias(0x7000_5000, 0x3000), Some(0x7000_0000));
        assert_eq!(binary.bias(0x7000_0000, 0x9000), None);
    }
}
