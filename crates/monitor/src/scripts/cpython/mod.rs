//! CPython, read while it runs: who holds the interpreter's lock, and which functions each thread is in.
//!
//! In the flow: [`Python::open`] finds `_PyRuntime`, which every build exports, and checks what it finds. The
//! surprise: the pointer to the lock's holder stays after it was let go, so that a holder is one only while the lock
//! is taken; and a thread that does not hold it says what it waits for by its system call: the lock's own futex lies
//! in `_PyRuntime`.

mod layout;
mod lines;

use super::source::{Sources, shown};
use super::{Asked, Function, GilState, Interpreter, Language, Names, ReadError, Stack, Tasks};
use super::{MOST_FRAMES, MOST_THREADS, TID_IN_PTHREAD};
use super::{call_of, end_of, half, still_there, told, word};
use crate::process_memory::Memory;
use layout::{
    ASCII, BYTES, COMPACT, GIL_HOLDER, GIL_LOCKED, GIL_SWITCHES, Gil, Instruction, Layout,
};
use layout::{OWNED_BY_C, TEXT_LENGTH, TEXT_STATE};
use record::{SourceLine, Told, ToldState};
use std::io;

/// Of a frame, what is read for its line: as far as the instruction lies in any version.
const FRAME_BYTES: usize = 112;
/// A table of lines is read up to this, in bytes.
const MOST_TABLE: u64 = 1 << 16;

/// A Python whose layout is known.
#[derive(Debug)]
pub struct Python {
    pid: i32,
    memory: Memory,
    tasks: Tasks,
    runtime: u64,
    layout: Layout,
    /// What code is called, by address.
    names: Names<u64>,
    sources: Sources,
}

/// A frame and its code.
type Place = (u64, u64);

impl Python {
    /// Finds and checks a process' Python.
    ///
    /// # Errors
    /// [`ReadError`]: not a Python, a version that is not known, or memory that cannot be read or be what it should.
    pub fn open(pid: i32) -> Result<Self, ReadError> {
        let asked = Asked {
            language: Language::Python,
            pid,
        };
        let memory = Memory::of(pid);
        let found = memory.symbol("python", "_PyRuntime");
        let found = found.ok_or_else(|| asked.absent())?;
        let minor = minor_of(&memory, &found.path);
        let number = || minor.map_or("of an unknown number".to_owned(), |m| format!("3.{m}"));
        let layout = minor.and_then(layout::of);
        let layout = layout.ok_or_else(|| asked.version(number()))?;
        let mut python = Self {
            pid,
            memory,
            tasks: Tasks::of(pid),
            runtime: found.address,
            layout,
            names: Names::default(),
            sources: Sources::of(asked),
        };
        python.check(asked)?;
        Ok(python)
    }

    /// That threads are the process' own, the lock is a lock, and functions have names.
    fn check(&mut self, asked: Asked) -> Result<(), ReadError> {
        let wrong = |what| asked.layout(what);
        let read = |cause| asked.memory(cause);
        let gil = self.gil_address().map_err(read)?;
        let locked = self.memory.int(gil + GIL_LOCKED).map_err(read)?;
        if !(0..=1).contains(&locked) {
            return Err(wrong("its lock is neither taken nor free"));
        }
        let threads = self.threads().map_err(read)?;
        if threads.is_empty() {
            return Err(wrong("its threads are not those of the process"));
        }
        let mut any_frames = false;
        for (thread, _) in threads {
            // A thread may be between two functions.
            let frames = self.frames(thread).unwrap_or_default();
            any_frames |= frames.iter().any(|(_, frame)| is_name(&frame.name));
        }
        if any_frames {
            Ok(())
        } else {
            Err(wrong("no thread is in a function that has a name"))
        }
    }

    fn interpreter(&self) -> io::Result<u64> {
        self.memory.word(self.runtime + self.layout.interpreters)
    }

    fn gil_address(&self) -> io::Result<u64> {
        match self.layout.gil {
            Gil::InRuntime(offset) => Ok(self.runtime + offset),
            Gil::OfInterpreter(offset) => self.memory.word(self.interpreter()? + offset),
        }
    }

    /// The lock now.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn gil(&self) -> io::Result<GilState> {
        let gil = self.gil_address()?;
        let mut bytes = [0; 32];
        self.memory.read(gil, &mut bytes)?;
        let locked = half(&bytes, GIL_LOCKED as usize) == 1;
        let holder = word(&bytes, GIL_HOLDER as usize);
        Ok(GilState {
            holder: Some(holder).filter(|holder| locked && *holder != 0),
            switches: word(&bytes, GIL_SWITCHES as usize),
        })
    }

    /// The id of a thread by its record, as its own namespace counts.
    fn id(&self, thread: u64) -> io::Result<u32> {
        match self.layout.native {
            Some(native) => Ok(self.memory.word(thread + native)? as u32),
            None => {
                let pthread = self.memory.word(thread + self.layout.pthread)?;
                Ok(self.memory.int(pthread + TID_IN_PTHREAD)?.cast_unsigned())
            }
        }
    }

    /// Threads of the first interpreter: their records and their ids; what is no thread of the process is left out.
    fn threads(&mut self) -> io::Result<Vec<(u64, u32)>> {
        let layout = self.layout;
        let mut thread = self.memory.word(self.interpreter()? + layout.threads)?;
        let mut threads = Vec::new();
        for _ in 0..MOST_THREADS {
            if thread == 0 {
                break;
            }
            let tid = self.id(thread)?;
            threads.extend(self.tasks.here(tid).map(|tid| (thread, tid)));
            thread = self.memory.word(thread + layout.next)?;
        }
        Ok(threads)
    }

    fn innermost(&self, thread: u64) -> io::Result<u64> {
        let frame = self.memory.word(thread + self.layout.frame)?;
        match self.layout.frame_step {
            Some(step) if frame != 0 => self.memory.word(frame + step),
            _ => Ok(frame),
        }
    }

    /// Functions of a thread, innermost first.
    fn frames(&mut self, thread: u64) -> io::Result<Stack<Place>> {
        let chain = still_there(
            || self.chain(thread),
            |first| Ok(self.innermost(thread)? != first.map_or(0, |&(frame, _)| frame)),
        )?;
        (chain.into_iter().filter(|&(_, code)| code != 0))
            .map(|(frame, code)| Ok(((frame, code), self.function(code)?)))
            .collect()
    }

    /// Frames of a thread and their code, 0 for one that C owns, innermost first; half of it may be of a moment later.
    fn chain(&self, thread: u64) -> io::Result<Vec<Place>> {
        let mut frame = self.innermost(thread)?;
        let mut chain = Vec::new();
        while frame != 0 && chain.len() < MOST_FRAMES {
            let mut bytes = [0; 80];
            self.memory.read(frame, &mut bytes)?;
            let owner = self.layout.owner.map(|at| bytes[at as usize]);
            let code = match owner == Some(OWNED_BY_C) {
                true => 0,
                false => word(&bytes, self.layout.code as usize),
            };
            chain.push((frame, code));
            frame = word(&bytes, self.layout.back as usize);
        }
        Ok(chain)
    }

    /// What a thread with these functions is told to do.
    fn told(&mut self, stack: Stack<Place>, state: (ToldState, &str)) -> Option<Told> {
        let line = self.line(&stack);
        told(Language::Python, stack, state, line)
    }

    fn line(&mut self, stack: &[(Place, Function)]) -> Option<SourceLine> {
        let (place, function) = shown(Language::Python, stack)?;
        let number = line_of(self.memory, self.layout, *place)?;
        self.sources.line(function, number)
    }

    fn function(&mut self, code: u64) -> io::Result<Function> {
        if let Some(known) = self.names.known(&code) {
            return Ok(known);
        }
        let text = |at: u64| self.text(self.memory.word(code + at)?);
        let (function, path) = (text(self.layout.name)?, text(self.layout.file)?);
        let line = self.memory.int(code + self.layout.line)?;
        let line = u64::from(line.max(0).cast_unsigned());
        let function = Function::of_script(&function, &path, line, in_library(&path));
        Ok(self.names.keep(code, function))
    }

    /// A text of at most some letters, all of them of one byte.
    fn text(&self, address: u64) -> io::Result<String> {
        let length = self.memory.word(address + TEXT_LENGTH)?;
        let state = self.memory.int(address + TEXT_STATE)?.cast_unsigned();
        if state & COMPACT == 0 || length > 1 << 20 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if state & ASCII == 0 {
            return Ok("name in another script".to_owned());
        }
        let bytes = end_of(&self.memory, address + self.layout.ascii, length)?;
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// What a thread without the interpreter's lock waits for, by the system call that it is in.
    fn waits(&self, tid: u32, innermost: &str) -> (ToldState, &'static str) {
        let in_runtime =
            |address| (self.runtime..self.runtime + self.layout.runtime_bytes).contains(&address);
        let call = call_of(self.pid, tid).map(|(call, arguments)| (call, arguments[0]));
        match call {
            Some((libc::SYS_futex, address)) if in_runtime(address) => (ToldState::Lock, GIL),
            Some((libc::SYS_futex, _)) if innermost.contains("wait (threading.py:") => {
                (ToldState::Signal, "")
            }
            Some((libc::SYS_futex, _)) => (ToldState::Lock, ""),
            Some((libc::SYS_clock_nanosleep | libc::SYS_nanosleep, _)) => (ToldState::Sleep, ""),
            // Before 3.11, to sleep is to wait for no descriptors.
            Some((call, 0)) if is_select(call) => (ToldState::Sleep, ""),
            _ => (ToldState::Running, ""),
        }
    }
}

impl Interpreter for Python {
    fn language(&self) -> Language {
        Language::Python
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
        let gil = self.gil()?;
        let threads = self.threads()?;
        let mut all = Vec::new();
        let mut holder = String::new();
        for (thread, tid) in threads {
            let Ok(frames) = self.frames(thread) else {
                continue;
            };
            if frames.is_empty() {
                continue;
            }
            let innermost = frames[0].1.name.clone();
            let state = if gil.holder == Some(thread) {
                holder.clone_from(&innermost);
                (ToldState::Running, "")
            } else {
                self.waits(tid, &innermost)
            };
            all.extend(self.told(frames, state).map(|told| (tid, told)));
        }
        for (_, told) in &mut all {
            if told.object == GIL && !holder.is_empty() {
                told.owner = format!("the thread in {holder}");
            }
        }
        Ok(all)
    }

    fn lock(&self) -> io::Result<Option<GilState>> {
        self.gil().map(Some)
    }

    fn at_lock(&mut self, holder: u64) -> io::Result<Option<(u32, Told)>> {
        let id = self.id(holder)?;
        let Some(tid) = self.tasks.here(id) else {
            return Ok(None);
        };
        let frames = self.frames(holder)?;
        let told = self.told(frames, (ToldState::Running, ""));
        Ok(told.map(|told| (tid, told)))
    }
}

/// The line that a frame is at; `None` where it has left its code meanwhile.
fn line_of(memory: Memory, layout: Layout, (frame, code): Place) -> Option<u32> {
    let mut bytes = [0; FRAME_BYTES];
    memory.read(frame, &mut bytes).ok()?;
    if word(&bytes, layout.code as usize) != code {
        return None;
    }
    let first = memory.int(code + layout.line).ok()?;
    let first = u32::try_from(first).ok()?;
    let offset = match layout.instruction {
        Instruction::Index { at, bytes: unit } => {
            let index = u32::try_from(half(&bytes, at as usize).cast_signed());
            index.ok().and_then(|index| index.checked_mul(unit))
        }
        Instruction::Address { at, code: begin } => {
            let offset = word(&bytes, at as usize).checked_sub(code + begin);
            offset.and_then(|offset| u32::try_from(offset).ok())
        }
    };
    // Before the first instruction.
    let Some(offset) = offset else {
        return Some(first);
    };
    let table = memory.word(code + layout.lines).ok()?;
    let length = memory.word(table + TEXT_LENGTH).ok()?;
    if length > MOST_TABLE {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    memory.read(table + BYTES, &mut bytes).ok()?;
    lines::line(layout.table, &bytes, first, offset)
}

/// The path below the directory of libraries of a file that is Python's own or was installed. A package says what it
/// is for, where half of all files are called `__init__.py`.
fn in_library(path: &str) -> Option<&str> {
    let beyond = |part: &str| path.rfind(part).map(|at| &path[at + part.len()..]);
    let own = || Some(beyond("/lib/python3")?.split_once('/')?.1);
    let compiled_in = || path.contains("<frozen").then_some(path);
    beyond("/site-packages/")
        .or_else(|| beyond("/dist-packages/"))
        .or_else(own)
        .or_else(compiled_in)
}

/// Whether a system call is select(2), whose first argument is how many descriptors it waits for.
fn is_select(call: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if call == libc::SYS_select {
        return true;
    }
    call == libc::SYS_pselect6
}

/// What the interpreter's lock is called.
pub const GIL: &str = "the interpreter's lock (GIL)";

/// Minor version: of the symbol that has it (3.11 and later), or of the file's name.
fn minor_of(memory: &Memory, path: &str) -> Option<u8> {
    let number = memory.symbol("python", "Py_Version");
    let number = number.and_then(|found| memory.word(found.address).ok());
    if let Some(number) = number.filter(|number| number >> 24 == 3) {
        return Some((number >> 16) as u8);
    }
    let name = path.rsplit('/').next()?;
    let rest = name.split("python3.").nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Whether it can be the name of a function: `f (file:1)`.
fn is_name(frame: &str) -> bool {
    let function = frame.split(" (").next().unwrap_or_default();
    let letter = |c: char| c.is_alphanumeric() || "_.<>".contains(c);
    !function.is_empty() && function.chars().all(letter)
}

#[cfg(test)]
mod tests {
    use super::in_library;

    #[test]
    fn a_librarys_file_has_its_packages_name() {
        let check = |path, expected| assert_eq!(in_library(path), expected);
        check("/srv/shop/app.py", None);
        check("app.py", None);
        check("/usr/lib/python3.11/traceback.py", Some("traceback.py"));
        let package = "/usr/lib/python3.11/logging/__init__.py";
        check(package, Some("logging/__init__.py"));
        let debian = "/usr/lib/python3/dist-packages/jinja2/lexer.py";
        check(debian, Some("jinja2/lexer.py"));
        let local = "/opt/venv/lib/python3.12/site-packages/mako/codegen.py";
        check(local, Some("mako/codegen.py"));
        let frozen = "<frozen importlib._bootstrap>";
        check(frozen, Some(frozen));
    }
}
