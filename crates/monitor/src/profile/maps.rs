//! Which file's code lies where in a process.
//!
//! In the flow: `/proc/PID/maps` before and after the load, and the kernel's records of new mappings between,
//! become one list a process. Files are opened when they are first seen, through `/proc/PID/map_files` or the
//! process' own root, so that containers, and programs that were replaced on disk since, are read as they run. The
//! surprise: code without a file is not an error, it is what a JIT compiler makes.

use std::collections::HashMap;
use std::fs::File;

/// Files that are kept open at most while a profile runs: the load needs descriptors for its connections.
const MOST_FILES: usize = 256;

/// Executable memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// Inode; 0 without a file.
    pub inode: u64,
    /// Path as the process sees it; `[vdso]` and its like, or empty, without a file.
    pub path: String,
}

impl Mapping {
    /// The file, as long as this machine runs.
    pub fn file(&self) -> FileId {
        (self.device, self.inode)
    }

    fn overlaps(&self, other: &Mapping) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Device and inode.
pub type FileId = ((u32, u32), u64);

/// Reads the executable mappings from the text of `/proc/PID/maps`; lines of another form are left out.
pub fn parse(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    Some(Mapping {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        device: (hex(major)? as u32, hex(minor)? as u32),
        inode: words.next()?.parse().ok()?,
        path: words.next().unwrap_or_default().trim_start().to_owned(),
    })
}

/// Adds mappings that are newer than those in `mappings`, which give way where they overlap.
pub fn add(mappings: &mut Vec<Mapping>, newer: Vec<Mapping>) {
    mappings.retain(|old| !newer.iter().any(|new| new.overlaps(old)));
    mappings.extend(newer);
}

/// The executable mappings of a process now; empty when it has ended or is hidden.
pub fn of_process(pid: i32) -> Vec<Mapping> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    parse(&String::from_utf8_lossy(&text))
}

/// The files behind mappings.
#[derive(Debug, Default)]
pub struct Files(HashMap<FileId, File>);

impl Files {
    /// Opens the files of a process' mappings that are not open yet, as far as they can be.
    pub fn open(&mut self, pid: i32, mappings: &[Mapping]) {
        for mapping in mappings.iter().filter(|mapping| mapping.inode != 0) {
            if self.0.len() >= MOST_FILES || self.0.contains_key(&mapping.file()) {
                continue;
            }
            if let Some(file) = open(pid, mapping) {
                self.0.insert(mapping.file(), file);
            }
        }
    }

    /// The file, if it was opened; it is taken out.
    pub fn take(&mut self, id: FileId) -> Option<File> {
        self.0.remove(&id)
    }
}

/// Opens the file of a mapping of a living process.
pub fn open(pid: i32, mapping: &Mapping) -> Option<File> {
    let Mapping {
        start, end, path, ..
    } = mapping;
    // The mapping itself leads to the file even when it was deleted, but asks for CAP_CHECKPOINT_RESTORE.
    File::open(format!("/proc/{pid}/map_files/{start:x}-{end:x}"))
        .or_else(|_| File::open(format!("/proc/{pid}/root{path}")))
        .ok()
        .filter(|file| file.metadata().is_ok_and(|about| about.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0a0000000-55d0a0020000 r--p 00000000 fe:01 1234                       /usr/sbin/nginx
55d0a0020000-55d0a00e0000 r-xp 00020000 fe:01 1234                       /usr/sbin/nginx
7f0000000000-7f0000010000 rwxp 00000000 00:00 0
7f0000020000-7f0000030000 r-xp 00001000 fe:01 99                         /opt/a b.so (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";

    #[test]
    fn executable_mappings_with_and_without_a_file() {
        let maps = parse(MAPS);
        let seen: Vec<_> = maps
            .iter()
            .map(|m| (m.start, m.offset, m.inode, m.path.as_str()))
            .collect();
        let expected = [
            (0x55d0_a002_0000, 0x20000, 1234, "/usr/sbin/nginx"),
            (0x7f00_0000_0000, 0, 0, ""),
            (0x7f00_0002_0000, 0x1000, 99, "/opt/a b.so (deleted)"),
            (0x7ffd_0000_0000, 0, 0, "[vdso]"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(maps[0].device, (0xfe, 1));
    }

    #[test]
    fn newer_mappings_replace_what_they_overlap() {
        let at = |start, end, path: &str| Mapping {
            start,
            end,
            path: path.to_owned(),
            ..Default::default()
        };
        let mut maps = vec![at(0, 10, "old"), at(10, 20, "kept")];
        add(&mut maps, vec![at(5, 10, "new")]);
        assert_eq!(maps, [at(10, 20, "kept"), at(5, 10, "new")]);
    }
}
