//! Calls of the memory allocator that a process uses, counted where they enter its library from outside.
//!
//! In the flow: a part of arming the best tier. The library is found among the process' mappings (the first
//! of the known replacements, else the C library), its functions by its own symbols.
//!
//! The surprise: allocators call themselves (glibc's `posix_memalign` enters `malloc`, jemalloc's does not), so raw
//! counts of two allocators do not compare. A call whose return address lies in the library is not counted.

use super::ProbeTarget;
use super::error::chain;
use super::layout::Text;
use aya::Ebpf;
use aya::maps::HashMap;
use aya::programs::UProbe;
use aya::programs::uprobe::{
    UProbeAttachLocation, UProbeAttachPoint, UProbeLink, UProbeLinkId, UProbeScope,
};
use linux::Root;
use object::{Object, ObjectSegment, ObjectSymbol};
use record::{AllocatorStats, Unavailable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Functions that are counted, the most called first. A site's number is its index here.
const FUNCTIONS: [&str; 7] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
];

/// Beginnings of the names of libraries, and the allocator in each; the replacements come first.
const LIBRARIES: [(&str, &str); 7] = [
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    ("libc.so", "glibc"),
    ("libc-2.", "glibc"),
    ("ld-musl-", "musl"),
    ("libc.musl-", "musl"),
];

/// The kernel's side of it.
const PROGRAM: &str = "allocated";

/// Different libraries that are probed at most: each costs a breakpoint for every function.
const MOST_LIBRARIES: usize = 8;

/// What is counted where.
#[derive(Debug, Default)]
pub(crate) struct Allocators {
    /// Allocator and library of each target by index, without counts.
    pub by_target: BTreeMap<u32, AllocatorStats>,
    /// What is attached, with its site.
    links: Vec<(u64, UProbeLinkId)>,
}

impl Allocators {
    /// Name of the function at a site.
    pub(crate) fn function(&self, site: u32) -> Option<&'static str> {
        FUNCTIONS.get(site as usize).copied()
    }

    /// Detaches in a thread of its own, the most called functions first: the kernel takes a tenth of a second for
    /// each, in which whoever called this can go on.
    pub(crate) fn detach(&mut self, bpf: &mut Ebpf) {
        let mut attached = std::mem::take(&mut self.links);
        attached.sort_by_key(|&(site, _)| site);
        let Some(program) = bpf.program_mut(PROGRAM) else {
            return;
        };
        let Ok(program): Result<&mut UProbe, _> = program.try_into() else {
            return;
        };
        let links = attached.into_iter();
        let links: Vec<UProbeLink> = links
            .filter_map(|(_, id)| program.take_link(id).ok())
            .collect();
        let thread = std::thread::Builder::new().name("detaching".to_owned());
        // Without a thread they are dropped, and so detached, here.
        let detaching = thread.spawn(move || drop(links));
        *detaching_now() = detaching.ok();
    }
}

/// Waits until what was attached before is detached: counts that are taken anew are then free of it.
pub(crate) fn wait_until_detached() {
    let detaching = detaching_now().take();
    if let Some(detaching) = detaching {
        // It only drops; one that panicked has ended as well.
        let _ = detaching.join();
    }
}

/// The thread that detaches.
fn detaching_now() -> MutexGuard<'static, Option<JoinHandle<()>>> {
    static DETACHING: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
    DETACHING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An allocator's library in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Library {
    /// Device and inode, which tell libraries apart.
    file: (String, u64),
    path: String,
    allocator: &'static str,
    text: Text,
}

/// Finds the allocators of all processes and attaches to them; what fails is in `unavailable`.
pub(crate) fn arm(
    bpf: &mut Ebpf,
    root: &Root,
    members: &BTreeMap<i32, usize>,
    targets: &[ProbeTarget],
    unavailable: &mut Vec<Unavailable>,
) -> Allocators {
    let mut allocators = Allocators::default();
    let mut attached: BTreeMap<(String, u64), bool> = BTreeMap::new();
    let mut told = BTreeSet::new();
    for (&pid, &target) in members {
        let what = format!("allocator of {}", targets[target].target);
        let mut miss = |reason: String| {
            if told.insert((target, reason.clone())) {
                unavailable.push(Unavailable {
                    what: what.clone(),
                    reason,
                    remedy: String::new(),
                });
            }
        };
        let library = match library_of(root, pid) {
            Ok(library) => library,
            Err(reason) => {
                miss(reason);
                continue;
            }
        };
        if !attached.contains_key(&library.file) {
            let done = if attached.len() < MOST_LIBRARIES {
                attach(bpf, root, pid, &library, &mut allocators.links)
            } else {
                Err(format!("only {MOST_LIBRARIES} libraries are probed"))
            };
            attached.insert(library.file.clone(), done.is_ok());
            if let Err(reason) = done {
                miss(reason);
            }
        }
        if attached.get(&library.file) != Some(&true) {
            continue;
        }
        if let Err(reason) = tell(bpf, pid, library.text) {
            miss(reason);
            continue;
        }
        let index = u32::try_from(target).unwrap_or(u32::MAX);
        let stats = allocators.by_target.entry(index).or_default();
        if stats.allocator.is_empty() {
            library.allocator.clone_into(&mut stats.allocator);
            stats.library = library.path;
            stats.calls = FUNCTIONS.map(|name| (name.to_owned(), 0)).into();
        } else if stats.allocator != library.allocator {
            miss(format!(
                "some of its processes use {}, counted together with {}",
                library.allocator, stats.allocator
            ));
        }
    }
    allocators
}

fn tell(bpf: &mut Ebpf, pid: i32, text: Text) -> Result<(), String> {
    let map = bpf.map_mut("TEXTS").ok_or("the object has no TEXTS")?;
    let mut texts: HashMap<_, u32, Text> = HashMap::try_from(map).map_err(|e| chain(&e))?;
    let inserted = texts.insert(pid.cast_unsigned(), text, 0);
    inserted.map_err(|e| chain(&e))
}

/// The library that holds the allocator of a process.
fn library_of(root: &Root, pid: i32) -> Result<Library, String> {
    let maps = root
        .read(&format!("proc/{pid}/maps"))
        .map_err(|e| e.to_string())?;
    let library = find_library(&maps).ok_or(
        "no known allocator is among its libraries: it is statically linked or has its own",
    )?;
    // A program that defines malloc itself never gets to the library's.
    let exe = std::fs::read(root.path(&format!("proc/{pid}/exe"))).map_err(|e| e.to_string())?;
    if defines_malloc(&exe) {
        return Err("the program brings its own allocator".to_owned());
    }
    Ok(library)
}

fn defines_malloc(exe: &[u8]) -> bool {
    object::File::parse(exe).is_ok_and(|file| {
        file.dynamic_symbols()
            .chain(file.symbols())
            .any(|s| s.is_definition() && s.name() == Ok("malloc"))
    })
}

/// The allocator's library in the text of `/proc/PID/maps`, with its executable mapping.
fn find_library(maps: &str) -> Option<Library> {
    let mapped: Vec<Library> = maps.lines().filter_map(parse_mapping).collect();
    LIBRARIES.iter().find_map(|(_, allocator)| {
        let mut of_it = mapped.iter().filter(|l| l.allocator == *allocator);
        let mut library = of_it.next()?.clone();
        for more in of_it.filter(|more| more.file == library.file) {
            library.text.from = library.text.from.min(more.text.from);
            library.text.to = library.text.to.max(more.text.to);
        }
        Some(library)
    })
}

/// An executable mapping of an allocator's library: `from-to perms offset device inode path`.
fn parse_mapping(line: &str) -> Option<Library> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    if !words.next()?.contains('x') {
        return None;
    }
    let device = words.nth(1)?;
    let inode = words.next()?.parse().ok()?;
    let path = words.next()?;
    let name = path.rsplit('/').next()?;
    let (_, allocator) = LIBRARIES
        .iter()
        .find(|(begin, _)| name.starts_with(begin))?;
    Some(Library {
        file: (device.to_owned(), inode),
        path: path.to_owned(),
        allocator,
        text: Text {
            from: u64::from_str_radix(from, 16).ok()?,
            to: u64::from_str_radix(to, 16).ok()?,
        },
    })
}

/// Attaches to every function that the library has.
fn attach(
    bpf: &mut Ebpf,
    root: &Root,
    pid: i32,
    library: &Library,
    links: &mut Vec<(u64, UProbeLinkId)>,
) -> Result<(), String> {
    // The path is that of the process' own root directory, which may be a container's.
    let path = root.path(&format!("proc/{pid}/root{}", library.path));
    // A link into the process' root goes when it ends; the kernel holds on to the inode.
    let bytes = std::fs::read(&path).map_err(|e| format!("reading {}: {e}", library.path))?;
    let sites = sites(&bytes).map_err(|e| format!("reading {}: {e}", library.path))?;
    if sites.is_empty() {
        return Err(format!(
            "{} has none of its functions by name",
            library.path
        ));
    }
    let program = bpf
        .program_mut(PROGRAM)
        .ok_or("the object has no probe for it")?;
    let program: &mut UProbe = program.try_into().map_err(|e| chain(&e))?;
    if program.fd().is_err() {
        program.load().map_err(|e| chain(&e))?;
    }
    for (offset, site) in sites {
        let point = UProbeAttachPoint {
            location: UProbeAttachLocation::AbsoluteOffset(offset),
            cookie: Some(site),
        };
        let attached = program.attach(point, PathBuf::from(&path), UProbeScope::AllProcesses);
        let attached =
            attached.map_err(|e| format!("probing {}: {}", FUNCTIONS[site as usize], chain(&e)));
        links.push((site, attached?));
    }
    Ok(())
}

/// Offset in the file of each function, with its index in [`FUNCTIONS`]. Two names of one function are one.
fn sites(library: &[u8]) -> Result<BTreeMap<u64, u64>, object::Error> {
    let file = object::File::parse(library)?;
    let mut sites = BTreeMap::new();
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        let name = symbol.name().unwrap_or_default();
        let Some(index) = FUNCTIONS.iter().position(|function| *function == name) else {
            continue;
        };
        let address = symbol.address();
        let segment = file
            .segments()
            .find(|s| (s.address()..s.address() + s.size()).contains(&address));
        if let Some(segment) = segment {
            let offset = address - segment.address() + segment.file_range().0;
            sites.entry(offset).or_insert(index as u64);
        }
    }
    Ok(sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0a0000000-55d0a0001000 r-xp 00000000 fe:01 11 /usr/sbin/server
7f0000000000-7f0000026000 r--p 00000000 fe:01 22 /usr/lib/libc.so.6
7f0000026000-7f0000100000 r-xp 00026000 fe:01 22 /usr/lib/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 fe:01 33 /usr/lib/libjemalloc.so.2
7f0000300000-7f0000310000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn a_replacement_comes_before_the_c_library() {
        let library = find_library(MAPS).unwrap();
        assert_eq!(library.allocator, "jemalloc");
        assert_eq!(library.path, "/usr/lib/libjemalloc.so.2");
        let without: String = MAPS
            .lines()
            .filter(|l| !l.contains("jemalloc"))
            .map(|l| format!("{l}\n"))
            .collect();
        let library = find_library(&without).unwrap();
        assert_eq!(library.allocator, "glibc");
        assert_eq!(library.text.from, 0x7f00_0002_6000);
        assert_eq!(find_library("1-2 r-xp 0 fe:01 11 /usr/bin/static\n"), None);
    }
}
