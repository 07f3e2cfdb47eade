//! CPython, read while it runs: who holds the interpreter's lock, and which functions each thread is in.
//!
//! In the flow: [`Python::open`] finds `_PyRuntime`, which every build exports, and checks what it finds; [`Sampler`]
//! looks some hundred times a second through a window. The process is neither stopped nor asked. The surprise: the
//! pointer to the lock's holder stays after it was let go, so that a holder is one only while the lock is taken; and a
//! thread that does not hold it says what it waits for by its system call: the lock's own futex lies in `_PyRuntime`.

mod layout;
mod sampler;

pub use sampler::{Gathered, Sampler};

use crate::process_memory::Memory;
use layout::{ASCII, COMPACT, GIL_HOLDER, GIL_LOCKED, GIL_SWITCHES, Gil, Layout};
use layout::{OWNED_BY_C, TEXT_LENGTH, TEXT_STATE};
use record::{Told, ToldState, Unavailable};
use std::collections::HashMap;
use std::io;

/// A stack is followed so far: a handler stands below the functions of its framework, and above those of its libraries.
const MOST_FRAMES: usize = 40;
/// Threads that are looked at.
const MOST_THREADS: usize = 256;
/// A name is read so far.
const MOST_LETTERS: u64 = 200;
/// Where glibc keeps the kernel's id in what a pthread points to; a version of Python that does not say it is asked so.
#[cfg(target_arch = "x86_64")]
const TID_IN_PTHREAD: u64 = 720;
#[cfg(not(target_arch = "x86_64"))]
const TID_IN_PTHREAD: u64 = 208;

/// Why a Python is not read.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    #[error("process {0} maps no CPython with the symbol _PyRuntime")]
    NotPython(i32),
    #[error("process {pid} runs Python {version}, whose layout is not known")]
    Version { pid: i32, version: String },
    #[error("what was found in process {pid} is not laid out as Python 3.{minor} is: {what}")]
    Layout {
        pid: i32,
        minor: u8,
        what: &'static str,
    },
    #[error("reading the memory of process {pid}: {cause}")]
    Memory { pid: i32, cause: io::Error },
}

impl PythonError {
    /// What would help; may be empty.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NotPython(_) => "",
            Self::Version { .. } => "run it with Python 3.9 to 3.13, or profile it with py-spy",
            Self::Layout { .. } => "profile it with py-spy, and report this as a bug of prony",
            Self::Memory { .. } => "run prony as root, or as the server's user",
        }
    }

    /// As a gap of a record.
    pub fn unavailable(&self) -> Unavailable {
        Unavailable {
            what: "functions of Python, and who holds the interpreter's lock".to_owned(),
            reason: self.to_string(),
            remedy: self.remedy().to_owned(),
        }
    }
}

/// Whether a process runs CPython, by the names of what it has mapped.
pub fn is_python(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut paths = maps
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().nth(5));
    paths.any(|path| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.starts_with("python3") || name.starts_with("libpython3")
    })
}

/// A Python whose layout is known.
#[derive(Debug)]
pub struct Python {
    pid: i32,
    memory: Memory,
    runtime: u64,
    layout: Layout,
    /// What code is called, by address.
    names: HashMap<u64, Function>,
}

/// A function, as its code says.
#[derive(Clone, Debug)]
struct Function {
    /// `Pool.get (pool.py:17)`, of a library `Logger.handle (logging/__init__.py:1646)`: its name and where it begins.
    name: String,
    /// Its file is Python's own, or was installed with a package.
    of_library: bool,
}

/// The interpreter's lock at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilState {
    /// The thread that has it, if one has.
    pub holder: Option<u64>,
    /// How often it went from one thread to another since the start.
    pub switches: u64,
}

impl Python {
    /// Finds and checks a process' Python.
    ///
    /// # Errors
    /// [`PythonError`]: not a Python, a version that is not known, or memory that cannot be read or be what it should.
    pub fn open(pid: i32) -> Result<Self, PythonError> {
        let memory = Memory::of(pid);
        let found = memory.symbol("python", "_PyRuntime");
        let found = found.ok_or(PythonError::NotPython(pid))?;
        let minor = minor_of(&memory, &found.path);
        let layout = minor
            .and_then(layout::of)
            .ok_or_else(|| PythonError::Version {
                pid,
                version: minor.map_or("of an unknown number".to_owned(), |m| format!("3.{m}")),
            })?;
        let mut python = Self {
            pid,
            memory,
            runtime: found.address,
            layout,
            names: HashMap::new(),
        };
        python.check()?;
        Ok(python)
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// That threads are the process' own, the lock is a lock, and functions have names.
    fn check(&mut self) -> Result<(), PythonError> {
        let (pid, minor) = (self.pid, self.layout.minor);
        let wrong = |what| PythonError::Layout { pid, minor, what };
        let read = |cause| PythonError::Memory { pid, cause };
        let gil = self.gil_address().map_err(read)?;
        let locked = self.memory.int(gil + GIL_LOCKED).map_err(read)?;
        if !(0..=1).contains(&locked) {
            return Err(wrong("its lock is neither taken nor free"));
        }
        let threads = self.threads().map_err(read)?;
        let tasks = crate::profile::threads(pid);
        let own = |tid: &u32| tasks.contains(&tid.cast_signed());
        if threads.is_empty() || !threads.iter().any(|(_, tid)| own(tid)) {
            return Err(wrong("its threads are not those of the process"));
        }
        let mut any_frames = false;
        for (thread, _) in threads {
            // A thread may be between two functions.
            let frames = self.frames(thread).unwrap_or_default();
            any_frames |= frames.iter().any(|frame| is_name(&frame.name));
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
        let word = |at: u64| {
            let at = at as usize;
            u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
        };
        let locked = word(GIL_LOCKED) as u32 == 1;
        Ok(GilState {
            holder: locked
                .then(|| word(GIL_HOLDER))
                .filter(|holder| *holder != 0),
            switches: word(GIL_SWITCHES),
        })
    }

    /// Threads of the first interpreter: their records and their ids.
    fn threads(&self) -> io::Result<Vec<(u64, u32)>> {
        let layout = &self.layout;
        let mut thread = self.memory.word(self.interpreter()? + layout.threads)?;
        let mut threads = Vec::new();
        while thread != 0 && threads.len() < MOST_THREADS {
            let tid = match layout.native {
                Some(native) => self.memory.word(thread + native)? as u32,
                None => {
                    let pthread = self.memory.word(thread + layout.pthread)?;
                    self.memory.int(pthread + TID_IN_PTHREAD)?.cast_unsigned()
                }
            };
            threads.push((thread, tid));
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

    /// Functions of a thread, innermost first. Of a thread that went on meanwhile those that it is still in: so the
    /// caller of short functions is met as often as that of a long one.
    fn frames(&mut self, thread: u64) -> io::Result<Vec<Function>> {
        let mut chain = self.chain(thread)?;
        let innermost = chain.first().map_or(0, |&(frame, _)| frame);
        if self.innermost(thread)? != innermost {
            let later = self.chain(thread)?;
            let of_both = (chain.iter().rev().zip(later.iter().rev())).take_while(|(a, b)| a == b);
            let still = of_both.count();
            if still == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            chain.drain(..chain.len() - still);
        }
        let codes = chain.into_iter().map(|(_, code)| code);
        codes
            .filter(|&code| code != 0)
            .map(|code| self.function(code))
            .collect()
    }

    /// Frames of a thread and their code, 0 for one that C owns, innermost first; half of it may be of a moment later.
    fn chain(&self, thread: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut frame = self.innermost(thread)?;
        let mut chain = Vec::new();
        while frame != 0 && chain.len() < MOST_FRAMES {
            let mut bytes = [0; 80];
            self.memory.read(frame, &mut bytes)?;
            let word = |at: u64| {
                let at = at as usize;
                u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
            };
            let owned_by_c = self
                .layout
                .owner
                .is_some_and(|at| bytes[at as usize] == OWNED_BY_C);
            chain.push((
                frame,
                if owned_by_c {
                    0
                } else {
                    word(self.layout.code)
                },
            ));
            frame = word(self.layout.back);
        }
        Ok(chain)
    }

    fn function(&mut self, code: u64) -> io::Result<Function> {
        if let Some(known) = self.names.get(&code) {
            return Ok(known.clone());
        }
        let text = |at: u64| self.text(self.memory.word(code + at)?);
        let (function, path) = (text(self.layout.name)?, text(self.layout.file)?);
        let line = self.memory.int(code + self.layout.line)?;
        let library = in_library(&path);
        let file = library.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(&path));
        let function = Function {
            name: format!("{function} ({file}:{line})"),
            of_library: library.is_some(),
        };
        self.names.insert(code, function.clone());
        Ok(function)
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
        // The end of a path says more than its beginning.
        let skip = length.saturating_sub(MOST_LETTERS);
        let mut bytes = vec![0; (length - skip) as usize];
        self.memory
            .read(address + self.layout.ascii + skip, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// All threads in the words of the record, by their ids; those that moved while they were read are left out.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
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
            let own = own(&frames);
            let frames: Vec<String> = frames.into_iter().map(|f| f.name).collect();
            let holds = gil.holder == Some(thread);
            if holds {
                holder.clone_from(&frames[0]);
            }
            let (state, object) = if holds {
                (ToldState::Running, "")
            } else {
                self.waits(tid, &frames)
            };
            let told = Told {
                runtime: "cpython".to_owned(),
                state,
                frames,
                own,
                object: object.to_owned(),
                owner: String::new(),
            };
            all.push((tid, told));
        }
        for (_, told) in &mut all {
            if told.object == GIL && !holder.is_empty() {
                told.owner = format!("the thread in {holder}");
            }
        }
        Ok(all)
    }

    /// What a thread without the interpreter's lock waits for, by the system call that it is in.
    fn waits(&self, tid: u32, frames: &[String]) -> (ToldState, &'static str) {
        let path = format!("/proc/{}/task/{tid}/syscall", self.pid);
        let line = std::fs::read_to_string(path).unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let call = words.next().and_then(|number| number.parse::<i64>().ok());
        let first = words
            .next()
            .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        let in_runtime =
            |address| (self.runtime..self.runtime + self.layout.runtime_bytes).contains(&address);
        match (call, first) {
            (Some(libc::SYS_futex), Some(address)) if in_runtime(address) => (ToldState::Lock, GIL),
            (Some(libc::SYS_futex), _) if frames[0].contains("wait (threading.py:") => {
                (ToldState::Signal, "")
            }
            (Some(libc::SYS_futex), _) => (ToldState::Lock, ""),
            (Some(libc::SYS_clock_nanosleep | libc::SYS_nanosleep), _) => (ToldState::Sleep, ""),
            // Before 3.11, to sleep is to wait for no descriptors.
            (Some(call), Some(0)) if is_select(call) => (ToldState::Sleep, ""),
            _ => (ToldState::Running, ""),
        }
    }
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

/// The innermost function of the application that a library called. What stands below the outermost library only
/// started it, as the main program starts an event loop; a program without one is all the application's.
fn own(frames: &[Function]) -> Option<u32> {
    let called = match frames.iter().rposition(|f| f.of_library) {
        Some(outermost) => &frames[..outermost],
        None => frames,
    };
    let innermost = called.iter().position(|f| !f.of_library)?;
    u32::try_from(innermost).ok()
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
    use super::{Function, in_library, own};

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

    #[test]
    fn the_application_is_what_a_library_called() {
        let stack = |of_library: &[bool]| {
            let function = |&of_library| Function {
                name: "f (file.py:1)".to_owned(),
                of_library,
            };
            own(&of_library.iter().map(function).collect::<Vec<_>>())
        };
        let (library, app) = (true, false);
        // A decoder below a handler, below a framework, below the main program.
        assert_eq!(stack(&[library, app, app, library, app]), Some(1));
        // The framework alone: the main program only started it.
        assert_eq!(stack(&[library, library, app]), None);
        assert_eq!(stack(&[library]), None);
        // No framework at all.
        assert_eq!(stack(&[app, app]), Some(0));
        assert_eq!(stack(&[]), None);
    }
}
