//! A HotSpot JVM, read while it runs: the functions of compiled code, and where its threads wait.
//!
//! In the flow: [`Names`] is asked by a profile for addresses that no file holds, [`Java`] is looked at through a
//! window as an interpreter is. Both read the memory of the process by the layout that its `libjvm.so` tells
//! (`layout`); the JVM is neither asked nor stopped. The surprise: a thread leaves its stack in order only where it
//! leaves Java, so one that runs Java code has no stack here, and one that waits has a whole one.

mod code;
mod layout;

use crate::attach::dump::{self, DumpedThread};
use crate::process_memory::Memory;
use crate::scripts::{Interpreter, Language, MOST_THREADS, ReadError, Tasks, half, word};
use code::{Code, Kind};
use layout::{Layout, Missing};
use record::Told;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Functions of a stack that are kept, and frames that are followed for them.
const MOST_FUNCTIONS: usize = 64;
const MOST_FRAMES: usize = 256;
/// Bytes of a stack that are read at once, and in all.
const STACK_PIECE: usize = 4 << 10;
const MOST_STACK: u64 = 512 << 10;
/// What is known of code is asked for again after this time: code comes and goes.
const KEPT_FOR: Duration = Duration::from_millis(500);
/// States of a thread (`JavaThreadState`) in which its stack is in order.
const IN_ORDER: [i32; 3] = [4, 6, 10];
/// Words of a frame of the interpreter, from its frame pointer: the function, and the stack of who called it.
const INTERPRETED_METHOD: i64 = -3;
const INTERPRETED_SENDER: i64 = -1;
/// Of a frame by which the virtual machine called Java: what it keeps for that.
const ENTRY_WRAPPER: i64 = -6;
/// A monitor leads to its object by a handle since this version.
const OBJECT_IS_HANDLE_SINCE: i32 = 16;

fn open(pid: i32) -> Result<Code, ReadError> {
    let language = Language::Java;
    let memory = Memory::of(pid);
    let read = |cause| ReadError::Memory {
        language,
        pid,
        cause,
    };
    let layout = Layout::of(&memory).map_err(|missing| match missing {
        Missing::Library => ReadError::Absent { language, pid },
        Missing::Memory(cause) => read(cause),
        Missing::Field(what) => ReadError::Layout {
            language,
            pid,
            what,
        },
    })?;
    Code::new(memory, layout).map_err(read)
}

/// Names of what a JVM compiled.
#[derive(Debug)]
pub struct Names(Code);

impl Names {
    /// Of a process; `None` where it is no JVM that can be read.
    pub fn of(pid: i32) -> Option<Self> {
        open(pid).ok().map(Self)
    }

    /// Functions at an address, innermost first: one and those that were put into it.
    pub fn at(&mut self, address: u64) -> Vec<Arc<str>> {
        let found = self.0.at(address);
        found.map_or_else(Vec::new, |found| found.names.clone())
    }
}

/// The class that made a thread park, by the functions it is in: where objects cannot be read.
fn by_functions(functions: &[Arc<str>]) -> Option<(String, String)> {
    let condition = (functions.iter()).find(|function| function.contains("ConditionObject."));
    let asked = || (functions.iter()).find(|function| !dump::is_inner(function));
    let (class, _) = condition.or_else(asked)?.rsplit_once('.')?;
    Some((String::new(), class.to_owned()))
}

/// A JVM whose threads are looked at.
#[derive(Debug)]
pub struct Java {
    pid: i32,
    code: Code,
    /// When what is known of code was asked for.
    asked: Instant,
    tasks: Tasks,
    /// Where an object of `java.lang.Thread` or of a class below says what it is parked for, by its class.
    blockers: HashMap<u64, Option<u64>>,
}

/// What is read of a thread, in its own record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    address: u64,
    anchor: Anchor,
    state: i32,
    task: u64,
    object: u64,
    enters: u64,
    waits: u64,
    owner_id: u64,
    /// Its own stack: a monitor that was taken there in passing knows its owner by it.
    stack: (u64, u64),
}

impl Thread {
    fn owns(&self, owner: u64) -> bool {
        owner == self.owner_id || (self.stack.0..self.stack.1).contains(&owner)
    }
}

/// Owner of a monitor that whoever locked its object in passing does not know of yet.
const SOMEBODY: u64 = 1;
/// Objects that a thread locks in passing at most.
const MOST_LOCKS: usize = 8;

/// Where a thread left Java; all zero where it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Anchor {
    sp: u64,
    pc: u64,
    fp: u64,
}

/// A stack, read in pieces from its top on.
struct Stack<'a> {
    memory: &'a Memory,
    from: u64,
    bytes: Vec<u8>,
}

impl Stack<'_> {
    fn word(&mut self, address: u64) -> io::Result<u64> {
        let at = address
            .checked_sub(self.from)
            .filter(|at| *at < MOST_STACK && at.is_multiple_of(8));
        let at = at.ok_or(io::ErrorKind::InvalidData)? as usize;
        while self.bytes.len() < at + 8 {
            let begin = self.from + self.bytes.len() as u64;
            // The last page of a stack ends it.
            let page = (STACK_PIECE as u64 - begin % STACK_PIECE as u64) as usize;
            let mut piece = vec![0; page];
            self.memory.read(begin, &mut piece)?;
            self.bytes.extend(piece);
        }
        Ok(word(&self.bytes, at))
    }
}

impl Java {
    /// Finds and checks a process' JVM.
    ///
    /// # Errors
    /// [`ReadError`]: not a HotSpot JVM, one that does not tell its layout, or memory that cannot be read or be what it
    /// should.
    pub fn open(pid: i32) -> Result<Self, ReadError> {
        let language = Language::Java;
        let mut java = Self {
            pid,
            code: open(pid)?,
            asked: Instant::now(),
            tasks: Tasks::of(pid),
            blockers: HashMap::new(),
        };
        let threads = java.threads().map_err(|cause| ReadError::Memory {
            language,
            pid,
            cause,
        })?;
        let has_stack = |java: &mut Self, thread: &Thread| {
            let stack = java.stack(thread.anchor);
            stack.is_ok_and(|functions| !functions.is_empty())
        };
        let readable = threads
            .iter()
            .any(|thread| java.task(thread).is_some() && has_stack(&mut java, thread));
        match readable {
            true => Ok(java),
            false => Err(ReadError::Layout {
                language,
                pid,
                what: "no thread of the process is in a function that has a name",
            }),
        }
    }

    fn threads(&self) -> io::Result<Vec<Thread>> {
        let (memory, layout) = (&self.code.memory, &self.code.layout);
        let list = memory.word(layout.threads)?;
        let number = memory.int(list + layout.threads_length)?;
        let number = usize::try_from(number).unwrap_or(0).min(MOST_THREADS);
        let data = memory.word(list + layout.threads_data)?;
        let mut addresses = vec![0; 8 * number];
        memory.read(data, &mut addresses)?;
        let all = (0..number).map(|index| self.thread(word(&addresses, 8 * index)));
        // One that has ended since is not there any more.
        Ok(all.flatten().collect())
    }

    fn thread(&self, address: u64) -> io::Result<Thread> {
        let layout = &self.code.layout;
        let places = [
            layout.thread_sp,
            layout.thread_pc,
            layout.thread_fp,
            layout.thread_state,
            layout.thread_task,
            layout.thread_object,
            layout.thread_enters,
            layout.thread_waits,
            layout.thread_owner_id.unwrap_or(0),
            layout.thread_stack,
            layout.thread_stack_bytes,
        ];
        let bytes = places.iter().max().map_or(0, |last| last + 8);
        if bytes > STACK_PIECE as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; bytes as usize];
        self.code.memory.read(address, &mut bytes)?;
        let word = |at: u64| word(&bytes, at as usize);
        Ok(Thread {
            address,
            anchor: Anchor {
                sp: word(layout.thread_sp),
                pc: word(layout.thread_pc),
                fp: word(layout.thread_fp),
            },
            state: half(&bytes, layout.thread_state as usize).cast_signed(),
            task: word(layout.thread_task),
            object: word(layout.thread_object),
            enters: word(layout.thread_enters),
            waits: word(layout.thread_waits),
            owner_id: layout.thread_owner_id.map_or(address, word),
            stack: (
                word(layout.thread_stack).saturating_sub(word(layout.thread_stack_bytes)),
                word(layout.thread_stack),
            ),
        })
    }

    /// The host's id of a thread.
    fn task(&mut self, thread: &Thread) -> Option<u32> {
        let at = thread.task + self.code.layout.task_id;
        let there = self.code.memory.int(at).ok()?;
        self.tasks.here(there.cast_unsigned())
    }

    /// Functions from where a thread left Java, innermost first.
    fn stack(&mut self, anchor: Anchor) -> io::Result<Vec<Arc<str>>> {
        let Anchor {
            mut sp,
            mut pc,
            mut fp,
        } = anchor;
        let mut functions: Vec<Arc<str>> = Vec::new();
        let memory = self.code.memory;
        let mut stack = Stack {
            memory: &memory,
            from: sp.saturating_sub(8),
            bytes: Vec::new(),
        };
        for _ in 0..MOST_FRAMES {
            if sp == 0 {
                break;
            }
            if pc == 0 {
                pc = stack.word(sp - 8)?;
            }
            let Some(mut found) = self.code.at(pc.wrapping_sub(1)) else {
                break;
            };
            if let Some(before) = found.before
                && let Ok(before) = stack.word(sp + before)
                && let Some(there) = self.code.at(before.wrapping_sub(1))
                && there.names.last() == found.names.last()
            {
                found = there;
            }
            if functions.len() >= MOST_FUNCTIONS {
                break;
            }
            let beside = |words: i64| fp.wrapping_add_signed(8 * words);
            match found.kind {
                Kind::Compiled { words } | Kind::Stub { words } => {
                    if matches!(found.kind, Kind::Compiled { .. }) {
                        functions.extend(found.names.iter().cloned());
                    }
                    let sender = sp + 8 * words;
                    // Code of the machine's own without a frame leads nowhere.
                    if words < 2 {
                        break;
                    }
                    (sp, pc, fp) = (sender, stack.word(sender - 8)?, stack.word(sender - 16)?);
                }
                Kind::Interpreter => {
                    let method = stack.word(beside(INTERPRETED_METHOD))?;
                    functions.push(self.code.method(method)?);
                    let sender = stack.word(beside(INTERPRETED_SENDER))?;
                    (sp, pc, fp) = (sender, stack.word(beside(1))?, stack.word(fp)?);
                }
                Kind::Entry => {
                    let wrapper = stack.word(beside(ENTRY_WRAPPER))?;
                    let layout = &self.code.layout;
                    let anchor = wrapper + layout.wrapper_anchor;
                    sp = memory.word(anchor + layout.anchor_sp)?;
                    pc = memory.word(anchor + layout.anchor_pc)?;
                    fp = memory.word(anchor + layout.anchor_fp)?;
                }
            }
        }
        Ok(functions)
    }

    /// An object that a handle leads to, or that is there itself.
    fn object(&self, at: u64, is_handle: bool) -> io::Result<u64> {
        match is_handle && at != 0 {
            true => self.code.memory.word(at),
            false => Ok(at),
        }
    }

    /// The record of an object's class.
    fn class_of(&self, object: u64) -> io::Result<u64> {
        let layout = &self.code.layout;
        if object == 0 || !layout.objects_are_plain {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.pointer(object + layout.object_class, layout.short_class)
    }

    /// An address in an object: a word, or a half of one with a base and a shift; 0 for nothing.
    fn pointer(&self, at: u64, short: Option<(u64, u32)>) -> io::Result<u64> {
        let Some((base, shift)) = short else {
            return self.code.memory.word(at);
        };
        let short = u64::from(self.code.memory.int(at)?.cast_unsigned());
        Ok(if short == 0 {
            0
        } else {
            base + (short << shift)
        })
    }

    /// Address and class of an object, as a dump shows them.
    fn named(&self, object: u64) -> Option<(String, String)> {
        let class = self.class_of(object).ok()?;
        let class = self.code.class(class).ok()?;
        Some((format!("0x{object:x}"), class))
    }

    /// The object of a monitor.
    fn of_monitor(&self, monitor: u64) -> io::Result<u64> {
        let layout = &self.code.layout;
        let object = self.code.memory.word(monitor + layout.monitor_object)?;
        self.object(object, layout.major >= OBJECT_IS_HANDLE_SINCE)
    }

    /// Address and class of a monitor's object.
    fn named_of_monitor(&self, monitor: u64) -> Option<(String, String)> {
        self.named(self.of_monitor(monitor).ok()?)
    }

    /// What a thread is parked for.
    fn blocker(&mut self, thread: &Thread) -> Option<(String, String)> {
        let object = self
            .object(thread.object, self.code.layout.thread_object_is_handle)
            .ok()?;
        let class = self.class_of(object).ok()?;
        let known = self.blockers.get(&class).copied();
        let at = known.or_else(|| {
            let at = self.blocker_of(class).ok()?;
            self.blockers.insert(class, at);
            Some(at)
        })??;
        let blocker = self.pointer(object + at, self.code.layout.short_object);
        self.named(blocker.ok()?)
    }

    /// Where objects of a class that extends `java.lang.Thread` have it.
    fn blocker_of(&self, mut class: u64) -> io::Result<Option<u64>> {
        for _ in 0..16 {
            if class == 0 {
                break;
            }
            if self.code.class(class)? == "java.lang.Thread" {
                return self.code.field(class, "parkBlocker");
            }
            class = self
                .code
                .memory
                .word(class + self.code.layout.class_above)?;
        }
        Ok(None)
    }

    /// A thread in the words of a dump; `None` for one that runs Java, or moved while it was read.
    fn dumped(&mut self, thread: &Thread) -> Option<DumpedThread> {
        if !IN_ORDER.contains(&thread.state) {
            return None;
        }
        let tid = self.task(thread)?;
        let functions = self.stack(thread.anchor).ok()?;
        let is = |at: usize, name: &str| functions.get(at).is_some_and(|f| f.starts_with(name));
        let parked = functions
            .first()
            .is_some_and(|f| f.ends_with("Unsafe.park"));
        let (state, waits_for) = if thread.enters != 0 {
            (
                "BLOCKED (on object monitor)",
                self.named_of_monitor(thread.enters),
            )
        } else if is(0, "java.lang.Object.wait") {
            (
                "WAITING (on object monitor)",
                self.named_of_monitor(thread.waits),
            )
        } else if is(0, "java.lang.Thread.sleep") {
            ("TIMED_WAITING (sleeping)", None)
        } else if parked {
            let is_timed = ["parkNanos", "parkUntil"]
                .iter()
                .any(|how| is(1, &format!("java.util.concurrent.locks.LockSupport.{how}")));
            let state = match is_timed {
                true => "TIMED_WAITING (parking)",
                false => "WAITING (parking)",
            };
            let blocker = match self.code.layout.objects_are_plain {
                true => self.blocker(thread),
                false => by_functions(&functions),
            };
            (state, blocker)
        } else {
            ("RUNNABLE", None)
        };
        let again = self.thread(thread.address).ok()?;
        (again.anchor == thread.anchor && again.state == thread.state).then(|| DumpedThread {
            name: self.name(tid),
            tid,
            state: state.to_owned(),
            frames: functions.iter().filter_map(|f| dump::function(f)).collect(),
            waits_for,
            holds: Vec::new(),
        })
    }

    /// A thread's name, as far as the kernel keeps it.
    fn name(&self, tid: u32) -> String {
        let name = std::fs::read_to_string(format!("/proc/{}/task/{tid}/comm", self.pid));
        name.unwrap_or_default().trim_end().to_owned()
    }

    /// Objects that a thread locked in passing.
    fn locks(&self, thread: &Thread) -> io::Result<Vec<u64>> {
        let Some((first, end)) = self.code.layout.thread_locks else {
            return Ok(Vec::new());
        };
        let end = self.code.memory.int(thread.address + end)?;
        let bytes = u64::from(end.cast_unsigned()).saturating_sub(first);
        let mut locks = vec![0; (bytes as usize).min(8 * MOST_LOCKS)];
        self.code.memory.read(thread.address + first, &mut locks)?;
        let objects = (0..locks.len()).step_by(8);
        Ok(objects.map(|at| word(&locks, at)).collect())
    }

    /// Who owns a monitor, as threads are known to it.
    fn owner(&self, monitor: u64) -> Option<u64> {
        let owner = self
            .code
            .memory
            .word(monitor + self.code.layout.monitor_owner);
        owner.ok().filter(|owner| *owner != 0)
    }
}

impl Interpreter for Java {
    fn language(&self) -> Language {
        Language::Java
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
        if self.asked.elapsed() > KEPT_FOR {
            self.code.forget()?;
            self.asked = Instant::now();
        }
        let threads = self.threads()?;
        let mut dumped: Vec<(&Thread, DumpedThread)> = Vec::new();
        let mut held: Vec<(u64, u64, String)> = Vec::new();
        for thread in &threads {
            let Some(one) = self.dumped(thread) else {
                continue;
            };
            if thread.enters != 0
                && let Some(owner) = self.owner(thread.enters)
                && let Some((object, _)) = &one.waits_for
            {
                held.push((thread.enters, owner, object.clone()));
            }
            dumped.push((thread, one));
        }
        for (monitor, owner, object) in held {
            let in_passing = (owner == SOMEBODY).then(|| self.of_monitor(monitor));
            let owns = |thread: &Thread| match &in_passing {
                Some(Ok(object)) => self.locks(thread).is_ok_and(|locks| locks.contains(object)),
                Some(Err(_)) => false,
                None => thread.owns(owner),
            };
            let holders = dumped.iter_mut().filter(|(thread, _)| owns(thread));
            holders.for_each(|(_, holder)| holder.holds.push(object.clone()));
        }
        let dumped: Vec<DumpedThread> = dumped.into_iter().map(|(_, one)| one).collect();
        Ok(dump::told(&dumped))
    }
}
