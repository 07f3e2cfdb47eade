//! Raw stacks become folded ones.
//!
//! In the flow: after the load, each kept sample's user stack is followed with the `.eh_frame` of what was mapped, its
//! addresses become functions, and equal stacks become one. The surprise: where a file has no unwind information for an
//! address (Go, code of a JIT compiler) the frame pointer is followed, because such code keeps one.

use super::binary::Binary;
use super::jit::{CodeNames, JitSymbols};
use super::kernel::KernelSymbols;
use super::maps::{self, FileId, Files, Mapping};
use super::owners::Owners;
use super::wire::Sample;
use crate::hotspot;
use crate::turns::Located;
use framehop::{CacheNative, MayAllocateDuringUnwind, Module, Unwinder, UnwinderNative};
use record::{Frame, Profile, ProfileKind, Stack, WaitState};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Frames of a stack at most: corrupt stacks can be followed in circles.
const MOST_FRAMES: usize = 512;

/// Everything that is needed to turn samples into a [`Profile`].
#[derive(Debug)]
pub struct Folder<'a> {
    owners: &'a Owners,
    targets: Vec<String>,
    files: Files,
    names: &'a CodeNames,
    binaries: HashMap<FileId, Option<Rc<Binary>>>,
    vdso: Option<Rc<Binary>>,
    spaces: HashMap<i32, Space>,
    kernel: Arc<KernelSymbols>,
    frames: HashMap<Frame, u32>,
    /// Frames by file and address in it.
    known: HashMap<(FileId, u64), u32>,
    kernel_known: HashMap<u64, u32>,
    /// Weight of each stack, and its number in the order of their coming.
    stacks: HashMap<Key, (u64, u32)>,
    /// Which stack was taken when.
    located: Vec<Located>,
    profile: Profile,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    pid: i32,
    thread: String,
    frames: Vec<u32>,
    state: Option<WaitState>,
}

/// Memory of one process.
struct Space {
    regions: Vec<Region>,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// What a JVM that can be read compiled.
    java: Option<hotspot::Names>,
    /// The latest first.
    jit: Vec<JitSymbols>,
    /// The library whose compiled patterns its code without a file is.
    patterns: Option<String>,
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Space").finish_non_exhaustive()
    }
}

/// A mapping and the file in it.
#[derive(Debug)]
struct Region {
    mapping: Mapping,
    module: String,
    binary: Option<(Rc<Binary>, u64)>,
}

impl<'a> Folder<'a> {
    /// A folder without stacks.
    pub fn new(
        kind: ProfileKind,
        hz: u32,
        owners: &'a Owners,
        targets: Vec<String>,
        (files, names): (Files, &'a CodeNames),
        kernel: Arc<KernelSymbols>,
    ) -> Self {
        Self {
            owners,
            targets,
            files,
            names,
            binaries: HashMap::new(),
            vdso: own_vdso()
                .and_then(|image| Binary::of_image(&image))
                .map(Rc::new),
            spaces: HashMap::new(),
            kernel,
            frames: HashMap::new(),
            known: HashMap::new(),
            kernel_known: HashMap::new(),
            stacks: HashMap::new(),
            located: Vec::new(),
            profile: Profile {
                kind,
                hz,
                samples: 0,
                lost: 0,
                unwound: 0,
                frames: Vec::new(),
                stacks: Vec::new(),
            },
        }
    }

    /// Adds a sample that stands for `count` samples and weighs `weight` in all.
    pub fn add(&mut self, sample: &Sample<'_>, count: u64, weight: u64, state: Option<WaitState>) {
        let mut frames = Vec::new();
        frames.extend(kernel_addresses(sample).map(|address| self.kernel_frame(address)));
        let whole = self.add_user(sample, &mut frames);
        frames.reverse();
        self.profile.samples += count;
        self.profile.unwound += if whole { count } else { 0 };
        let key = Key {
            pid: sample.pid,
            thread: self.owners.name(sample.tid).to_owned(),
            frames,
            state,
        };
        let number = self.stacks.len() as u32;
        let (sum, number) = self.stacks.entry(key).or_insert((0, number));
        *sum += weight;
        self.located.push(Located {
            tid: sample.tid.cast_unsigned(),
            at_ns: sample.time,
            stack: *number,
            count,
        });
    }

    /// The state of a wait that begins with this stack; `None` when neither the switch nor the stack tells.
    pub fn wait_state(&mut self, sample: &Sample<'_>, preempted: bool) -> Option<WaitState> {
        let frames: Vec<u32> = kernel_addresses(sample)
            .map(|address| self.kernel_frame(address))
            .collect();
        let frames = frames
            .iter()
            .map(|&frame| &self.profile.frames[frame as usize]);
        super::waits::state(preempted, frames.map(|frame| frame.symbol.as_str()))
    }

    /// Appends the user frames, leaf first; says whether the root was reached, or there are none.
    fn add_user(&mut self, sample: &Sample<'_>, frames: &mut Vec<u32>) -> bool {
        let Some(registers) = sample.registers else {
            return !sample.has_user;
        };
        let space = self.space(sample.pid);
        let sp = registers.sp();
        let mut read = |address: u64| {
            let offset = usize::try_from(address.wrapping_sub(sp)).map_err(drop)?;
            let word = sample.stack.get(offset..).and_then(<[u8]>::first_chunk);
            word.map(|word| u64::from_ne_bytes(*word)).ok_or(())
        };
        let mut addresses = Vec::new();
        let mut whole = false;
        let unwinding = registers.for_unwinding();
        let mut walk =
            space
                .unwinder
                .iter_frames(registers.ip(), unwinding, &mut space.cache, &mut read);
        while addresses.len() < MOST_FRAMES {
            match walk.next() {
                Ok(Some(frame)) => addresses.push(frame.address_for_lookup()),
                Ok(None) => {
                    whole = true;
                    break;
                }
                Err(_) => break,
            }
        }
        // A walk that ends outside all code has gone astray.
        let root = addresses.last();
        whole &= root.is_some_and(|&root| space.region(root).is_some());
        for (depth, address) in addresses.into_iter().enumerate() {
            // Where a function has no frame of its own yet, the word on top of the stack need be no caller.
            if depth > 0 && self.spaces[&sample.pid].region(address).is_none() {
                continue;
            }
            let java = self.java_frames(sample.pid, address);
            if !java.is_empty() {
                frames.extend(java);
                continue;
            }
            let frame = self.user_frame(sample.pid, address);
            let repeats = frames.last() == Some(&frame) && self.is_jit(frame);
            if !repeats {
                frames.push(frame);
            }
        }
        whole
    }

    /// Functions of Java at an address, innermost first: one and those that were put into it.
    fn java_frames(&mut self, pid: i32, address: u64) -> Vec<u32> {
        let Some(space) = self.spaces.get_mut(&pid) else {
            return Vec::new();
        };
        let is_jit = space.region(address).is_some_and(Region::is_jit);
        let Some(java) = space.java.as_mut().filter(|_| is_jit) else {
            return Vec::new();
        };
        let names = java.at(address);
        let frame = |name: &Arc<str>| self.intern(user(name, super::jit::MODULE));
        names.iter().map(frame).collect()
    }

    fn is_jit(&self, frame: u32) -> bool {
        let symbol = self.profile.frames[frame as usize].symbol.as_str();
        [super::jit::UNNAMED, super::jit::PATTERN].contains(&symbol)
    }

    fn kernel_frame(&mut self, address: u64) -> u32 {
        if let Some(&known) = self.kernel_known.get(&address) {
            return known;
        }
        let frame = self.kernel.frame(address);
        let index = self.intern(frame);
        self.kernel_known.insert(address, index);
        index
    }

    fn user_frame(&mut self, pid: i32, address: u64) -> u32 {
        self.space(pid);
        let Some(region) = self.spaces[&pid].region(address) else {
            return self.intern(user("[unknown]", ""));
        };
        let Some((binary, bias)) = &region.binary else {
            let frame = if region.is_jit() {
                let space = &self.spaces[&pid];
                let name = space.jit.iter().find_map(|map| map.name(address));
                match (name, &space.patterns) {
                    (None, Some(library)) => user(super::jit::PATTERN, library),
                    (name, _) => user(name.unwrap_or(super::jit::UNNAMED), super::jit::MODULE),
                }
            } else {
                user(&format!("{}+?", region.module), &region.module)
            };
            return self.intern(frame);
        };
        let own = address.wrapping_sub(*bias);
        let id = (region.mapping.file(), own);
        if let Some(&known) = self.known.get(&id) {
            return known;
        }
        let frame = user(&binary.name(own, &region.module), &region.module);
        let index = self.intern(frame);
        self.known.insert(id, index);
        index
    }

    fn intern(&mut self, frame: Frame) -> u32 {
        if let Some(&index) = self.frames.get(&frame) {
            return index;
        }
        let index = self.profile.frames.len() as u32;
        self.profile.frames.push(frame.clone());
        self.frames.insert(frame, index);
        index
    }

    fn space(&mut self, pid: i32) -> &mut Space {
        if !self.spaces.contains_key(&pid) {
            let space = self.build_space(pid);
            self.spaces.insert(pid, space);
        }
        self.spaces
            .get_mut(&pid)
            .expect("it has just been inserted")
    }

    fn build_space(&mut self, pid: i32) -> Space {
        let owners = self.owners;
        let mut unwinder = UnwinderNative::new();
        let mut regions = Vec::new();
        for mapping in owners.maps(pid) {
            let binary = self.binary(pid, mapping);
            let binary = binary.and_then(|binary| {
                let bias = binary.bias(mapping.start, mapping.offset)?;
                Some((binary, bias))
            });
            let module = module_name(&mapping.path);
            if let Some((binary, bias)) = &binary {
                let range = mapping.start..mapping.end;
                let sections = binary.unwind_sections();
                unwinder.add_module(Module::new(module.clone(), range, *bias, sections));
            }
            regions.push(Region {
                mapping: mapping.clone(),
                module,
                binary,
            });
        }
        regions.sort_by_key(|region| region.mapping.start);
        let has_jit = regions.iter().any(Region::is_jit);
        let modules = regions.iter().map(|region| region.module.as_str());
        Space {
            patterns: super::jit::patterns(modules.clone()),
            java: (modules.into_iter().any(|module| module == "libjvm.so"))
                .then(|| hotspot::Names::of(pid))
                .flatten(),
            regions,
            unwinder,
            cache: CacheNative::new(),
            jit: if has_jit {
                self.names.of_process(pid)
            } else {
                Vec::new()
            },
        }
    }

    fn binary(&mut self, pid: i32, mapping: &Mapping) -> Option<Rc<Binary>> {
        if mapping.path == "[vdso]" {
            return self.vdso.clone();
        }
        if mapping.inode == 0 {
            return None;
        }
        if let Some(known) = self.binaries.get(&mapping.file()) {
            return known.clone();
        }
        let file = self.files.take(mapping.file());
        // The process may have ended; the others of its target usually see the same file.
        let file = file.or_else(|| {
            let target = self.owners.target(pid);
            let others = self.owners.pids();
            let others = others.into_iter();
            let mut others = others.filter(|&other| self.owners.target(other) == target);
            maps::open(pid, mapping).or_else(|| others.find_map(|other| maps::open(other, mapping)))
        });
        let binary = file.and_then(Binary::of_file).map(Rc::new);
        self.binaries.insert(mapping.file(), binary.clone());
        binary
    }

    /// The profile, stacks by weight, heaviest first; and when each was taken.
    pub fn finish(self, lost: u64) -> (Profile, Vec<Located>) {
        let mut profile = self.profile;
        profile.lost = lost;
        let stacks = self.stacks.into_iter().map(|(key, (weight, number))| {
            let target = self.owners.target(key.pid);
            let stack = Stack {
                target: target.map_or(String::new(), |index| self.targets[index].clone()),
                pid: key.pid,
                thread: key.thread,
                frames: key.frames,
                weight,
                state: key.state,
            };
            (number, stack)
        });
        let mut stacks: Vec<(u32, Stack)> = stacks.collect();
        stacks.sort_by(|(_, a), (_, b)| {
            (b.weight, a.pid, &a.frames).cmp(&(a.weight, b.pid, &b.frames))
        });
        let mut places = vec![0; stacks.len()];
        for (place, (number, _)) in (0_u32..).zip(&stacks) {
            places[*number as usize] = place;
        }
        let mut located = self.located;
        for one in &mut located {
            one.stack = places[one.stack as usize];
        }
        profile.stacks = stacks.into_iter().map(|(_, stack)| stack).collect();
        (profile, located)
    }
}

impl Space {
    fn region(&self, address: u64) -> Option<&Region> {
        let after = self
            .regions
            .partition_point(|region| region.mapping.start <= address);
        let region = self.regions[..after].last()?;
        (address < region.mapping.end).then_some(region)
    }
}

impl Region {
    /// Code that no file holds.
    fn is_jit(&self) -> bool {
        let path = self.mapping.path.as_str();
        let nameless = self.mapping.inode == 0 && !path.starts_with("[v");
        self.binary.is_none() && (nameless || path.starts_with("/memfd:"))
    }
}

/// Addresses to look up, leaf first: all but the first are where a call returns to, so the call is just before them.
fn kernel_addresses(sample: &Sample<'_>) -> impl Iterator<Item = u64> {
    let addresses = sample.kernel.iter().take(MOST_FRAMES).enumerate();
    addresses.map(|(depth, &address)| address - u64::from(depth > 0))
}

fn user(symbol: &str, module: &str) -> Frame {
    Frame {
        symbol: symbol.to_owned(),
        module: module.to_owned(),
        kernel: false,
    }
}

/// File name of a path, without the kernel's remark about a file that is gone.
fn module_name(path: &str) -> String {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.trim_matches(['[', ']']).to_owned()
}

/// The kernel's code for system calls that need no kernel; every 64-bit process has the same.
fn own_vdso() -> Option<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mappings = maps::of_process(std::process::id() as i32);
    let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]")?;
    let mut image = vec![0; usize::try_from(vdso.end - vdso.start).ok()?];
    let memory = std::fs::File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut image, vdso.start).ok()?;
    Some(image)
}
