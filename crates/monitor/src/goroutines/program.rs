//! What of a running Go program must be known before its goroutines can be read: its version, where the list of
//! goroutines stands, the words for reasons of waits, and the names of functions.
//!
//! In the flow: made once for each process, from its program file as it runs and its mappings. The surprise: a program
//! stripped of symbols still has its table of functions, and the code of one that walks over all goroutines says where
//! their list is. That what stands there is goroutines is checked as for any other program.

use super::layout::{KNOWN, Layout, minor, reasons};
use super::look::Doing;
use super::pclntab::Pclntab;
use linux::memory::{self, Piece};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, ReadCache,
};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

/// A reason's words are at most this long.
const MOST_WORDS: u64 = 64;
/// Reasons that a version may have at most.
const MOST_REASONS: u64 = 128;
/// Variables of the runtime that are looked for.
const ALLGLEN: &str = "runtime.allglen";
const ALLGPTR: &str = "runtime.allgptr";
const REASONS: &str = "runtime.waitReasonStrings";
/// A function that begins with loading the number of goroutines and then their list, in every version that is known.
const USER: &str = "runtime.forEachGRace";

/// Why a process' goroutines cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramError {
    #[error("it is not a Go program")]
    NotGo,
    #[error("{0}")]
    Unreadable(std::io::Error),
    #[error("its program file cannot be read: {0}")]
    File(String),
    #[error("it was built with {0}, and goroutines are known in Go {KNOWN}")]
    Version(String),
    #[error(
        "it was stripped of symbols (-ldflags -s), and its code does not say where its goroutines are"
    )]
    Stripped,
    #[error("what stands where {0} keeps its goroutines is none: {1}")]
    Layout(String, String),
}

impl ProgramError {
    /// What would help; may be empty.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::NotGo => "",
            Self::Unreadable(_) => "run prony as root, or with CAP_SYS_PTRACE",
            Self::File(_) => "run prony as root, in the process namespace of the program",
            Self::Version(_) | Self::Layout(..) => {
                "a later prony; until then /debug/pprof/goroutine of the program shows the same"
            }
            Self::Stripped => {
                "build it without -s, or look at /debug/pprof/goroutine of the program"
            }
        }
    }
}

/// A running Go program.
#[derive(Debug)]
pub(super) struct Program {
    pub pid: i32,
    pub version: String,
    pub layout: Layout,
    /// Addresses in the process of the number of goroutines and of the pointer to their list.
    pub allglen: u64,
    pub allgptr: u64,
    /// Words for reasons of waits, by number.
    pub reasons: Vec<String>,
    pub table: Pclntab,
    /// What is added to an address of the file for one of the process.
    pub bias: u64,
    /// File name of the program.
    pub module: String,
}

impl Program {
    /// Reads what is needed of a process.
    pub(super) fn of(pid: i32) -> Result<Self, ProgramError> {
        let file = File::open(format!("/proc/{pid}/exe")).map_err(ProgramError::Unreadable)?;
        let about = file.metadata().map_err(ProgramError::Unreadable)?;
        let cache = ReadCache::new(file);
        let broken = |error: object::Error| ProgramError::File(error.to_string());
        let elf: ElfFile64<'_, Endianness, _> =
            ElfFile64::parse(&cache).map_err(|_| ProgramError::NotGo)?;
        if !Pclntab::is_in(&elf) {
            return Err(ProgramError::NotGo);
        }
        let about_build = elf
            .section_by_name(".go.buildinfo")
            .ok_or(ProgramError::NotGo)?;
        let version = version(about_build.data().map_err(broken)?)
            .ok_or_else(|| ProgramError::Version("a Go before 1.18".to_owned()))?;
        let layout = minor(&version).and_then(Layout::of);
        let layout = layout.ok_or_else(|| ProgramError::Version(version.clone()))?;
        let symbols: HashMap<&str, (u64, u64)> = elf
            .symbols()
            .filter_map(|symbol| Some((symbol.name().ok()?, (symbol.address(), symbol.size()))))
            .filter(|(name, _)| [ALLGLEN, ALLGPTR, REASONS].contains(name))
            .collect();
        let table = Pclntab::of(&elf);
        let table = table.ok_or_else(|| {
            ProgramError::Layout(version.clone(), "its table of functions".to_owned())
        })?;
        let first = elf.segments().find(|segment| segment.file_range().0 == 0);
        let linked = first.map_or(0, |segment| segment.address());
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(ProgramError::Unreadable)?;
        let loaded = first_mapping(&maps, about.ino());
        let loaded = loaded
            .ok_or_else(|| ProgramError::File("it is not among its own mappings".to_owned()))?;
        let bias = loaded.wrapping_sub(linked);
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let module = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let words = match symbols.get(REASONS) {
            Some(&(address, bytes)) => {
                let found = read_reasons(pid, address.wrapping_add(bias), bytes / 16);
                let found = found.map_err(ProgramError::Unreadable)?;
                let wrong = || ProgramError::Layout(version.clone(), "words for waits".to_owned());
                found.ok_or_else(wrong)?
            }
            None => (minor(&version).and_then(reasons)).ok_or(ProgramError::Stripped)?,
        };
        let named = |name: &str| symbols.get(name).map(|symbol| symbol.0);
        let (allglen, allgptr) = match (named(ALLGLEN), named(ALLGPTR)) {
            (Some(length), Some(pointer)) => (length, pointer),
            _ => {
                let (from, to) = table.range(USER).ok_or(ProgramError::Stripped)?;
                let text = elf.section_by_name(".text");
                let text = text.ok_or(ProgramError::Stripped)?;
                let code = text.data_range(from, to - from).map_err(broken)?;
                loaded_first(code.unwrap_or_default(), from).ok_or(ProgramError::Stripped)?
            }
        };
        Ok(Self {
            pid,
            layout,
            allglen: allglen.wrapping_add(bias),
            allgptr: allgptr.wrapping_add(bias),
            reasons: words,
            table,
            bias,
            module: module.trim_end_matches(" (deleted)").to_owned(),
            version,
        })
    }

    /// Whether a goroutine sleeps until a time.
    pub(super) fn is_sleep(&self, doing: Doing) -> bool {
        matches!(doing, Doing::Waiting(reason) if self.reasons[usize::from(reason)] == "sleep")
    }

    /// The function that holds an address of the process: where it begins, and its name.
    pub(super) fn function(&self, address: u64) -> Option<(u64, &str)> {
        self.table.function(address.wrapping_sub(self.bias))
    }

    /// Whether a function begins at an address of the process.
    pub(super) fn begins(&self, address: u64) -> bool {
        self.table.begins(address.wrapping_sub(self.bias))
    }
}

/// The first two variables that code loads as words, by addresses relative to where it goes on (x86-64).
fn loaded_first(code: &[u8], address: u64) -> Option<(u64, u64)> {
    /// REX.W or REX.WR, the move of a word from memory, and a register beside a relative address.
    fn is_load(bytes: &[u8]) -> bool {
        matches!(bytes, [0x48 | 0x4c, 0x8b, register, ..] if register & 0xc7 == 0x05)
    }
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let loads = code.windows(7).enumerate();
    let mut variables = loads
        .filter(|(_, bytes)| is_load(bytes))
        .filter_map(|(at, bytes)| {
            let distance = i32::from_le_bytes(bytes[3..7].try_into().ok()?);
            Some((address + at as u64 + 7).wrapping_add_signed(distance.into()))
        });
    Some((variables.next()?, variables.next()?))
}

/// The version in `.go.buildinfo` (src/debug/buildinfo): since 1.18 the words themselves stand there.
fn version(section: &[u8]) -> Option<String> {
    let inline = section.starts_with(b"\xff Go buildinf:") && section.get(15)? & 2 != 0;
    let rest = section.get(32..).filter(|_| inline)?;
    let (mut length, mut shift, mut at) = (0_usize, 0, 0);
    loop {
        let byte = *rest.get(at)?;
        length |= usize::from(byte & 0x7f) << shift;
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
        (shift < 28).then_some(())?;
    }
    let text = rest.get(at..at.checked_add(length)?)?;
    String::from_utf8(text.to_vec()).ok()
}

/// Where the file's first bytes are mapped: the program itself, not what it has mapped beside.
fn first_mapping(maps: &str, inode: u64) -> Option<u64> {
    maps.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, _, offset, _, of, ..] = words[..] else {
            return None;
        };
        let first = u64::from_str_radix(offset, 16) == Ok(0) && of.parse() == Ok(inode);
        let start = range.split_once('-')?.0;
        first.then(|| u64::from_str_radix(start, 16).ok()).flatten()
    })
}

/// The words for reasons: a table of Go strings in the process. `None` where they are none.
fn read_reasons(pid: i32, address: u64, count: u64) -> std::io::Result<Option<Vec<String>>> {
    if count == 0 || count > MOST_REASONS {
        return Ok(None);
    }
    let (mut bytes, mut read) = (Vec::new(), Vec::new());
    let whole = Piece {
        address,
        bytes: 16 * count as usize,
    };
    memory::read(pid, &[whole], &mut bytes, &mut read)?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let strings: Vec<Piece> = (0..count as usize)
        .map(|index| Piece {
            address: word(16 * index),
            bytes: word(16 * index + 8).min(MOST_WORDS) as usize,
        })
        .collect();
    let mut text = Vec::new();
    memory::read(pid, &strings, &mut text, &mut read)?;
    let mut words = Vec::new();
    let mut from = 0;
    for (piece, read) in strings.iter().zip(&read) {
        let one = &text[from..from + piece.bytes];
        from += piece.bytes;
        let sound =
            (*read || piece.bytes == 0) && one.iter().all(|byte| (b' '..=b'~').contains(byte));
        if !sound {
            return Ok(None);
        }
        words.push(String::from_utf8_lossy(one).into_owned());
    }
    Ok(words.iter().any(|word| word == "IO wait").then_some(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_stand_in_the_section_with_their_length() {
        let mut section = b"\xff Go buildinf:\x08\x02".to_vec();
        section.resize(32, 0);
        section.push(8);
        section.extend(b"go1.26.8");
        assert_eq!(version(&section).as_deref(), Some("go1.26.8"));
        for length in 0..section.len() {
            assert_eq!(version(&section[..length]), None, "{length}");
        }
        // Before 1.18 there are pointers.
        section[15] = 0;
        assert_eq!(version(&section), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn code_says_which_variables_it_loads() {
        // A compare with a relative address, then two loads with another instruction between.
        let mut code = vec![0x48, 0x39, 0x05, 1, 0, 0, 0];
        code.extend([0x48, 0x8b, 0x0d, 0x10, 0, 0, 0, 0x90]);
        code.extend([0x4c, 0x8b, 0x1d, 0xf0, 0xff, 0xff, 0xff]);
        assert_eq!(loaded_first(&code, 0x1000), Some((0x101e, 0x1006)));
        assert_eq!(loaded_first(&code[..20], 0x1000), None);
        assert_eq!(loaded_first(&[], 0), None);
    }

    #[test]
    fn the_mapping_of_the_first_bytes_is_the_programs() {
        let maps = "\
            7f0000000000-7f0000010000 rw-s 00000000 00:01 9                          /dev/zero (deleted)\n\
            00401000-00500000 r-xp 00001000 fe:01 77                                 /srv/app\n\
            00400000-00401000 r--p 00000000 fe:01 77                                 /srv/app\n";
        assert_eq!(first_mapping(maps, 77), Some(0x40_0000));
        assert_eq!(first_mapping(maps, 78), None);
    }

    #[test]
    fn a_process_without_goroutines_says_so() {
        let own = std::process::id().cast_signed();
        assert!(matches!(Program::of(own), Err(ProgramError::NotGo)));
        assert!(matches!(
            Program::of(i32::MAX - 1),
            Err(ProgramError::Unreadable(_))
        ));
    }
}
