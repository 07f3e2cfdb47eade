//! Interpreters of scripts, read while they run: which functions they are in, and what their threads wait for.
//!
//! In the flow: [`found_in`] names the interpreters of a process by what it has mapped, [`open`] finds and checks
//! their memory, and a [`Sampler`] looks some hundred times a second through a window. The process is neither stopped
//! nor asked. The surprise: a wrong offset does not fail, it lies. So each reader checks what it finds before it says
//! a word, bounds every walk, and takes of a stack that moved meanwhile only the functions that were in it before and
//! after.

mod cpython;
mod perl;
mod php;
mod ruby;
mod sampler;
mod source;

pub use cpython::{GIL, Python};
pub use perl::Perl;
pub use php::Php;
pub use ruby::Ruby;
pub use sampler::{Gathered, Sampler};

use crate::hotspot::Java;
use crate::jvm::innermost_id;
use crate::process_memory::Memory;
use record::{SourceLine, Told, ToldState, Unavailable};
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;

/// A stack is followed so far: a handler stands below the functions of its framework, and above those of its libraries.
const MOST_FRAMES: usize = 40;
/// Threads that are looked at.
pub(crate) const MOST_THREADS: usize = 256;
/// A name is read so far, in bytes.
const MOST_LETTERS: u64 = 200;
/// Functions whose names are kept; scripts that are compiled anew for each request would fill the memory.
const MOST_NAMES: usize = 1 << 16;
/// Where glibc keeps the kernel's id in what a pthread points to; an interpreter that does not say it is asked so.
#[cfg(target_arch = "x86_64")]
const TID_IN_PTHREAD: u64 = 720;
#[cfg(not(target_arch = "x86_64"))]
const TID_IN_PTHREAD: u64 = 208;

/// Languages whose interpreters are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    Python,
    Php,
    Perl,
    Ruby,
    Java,
}

impl Language {
    const ALL: [Self; 5] = [Self::Python, Self::Php, Self::Perl, Self::Ruby, Self::Java];

    /// As a record names the runtime.
    pub fn runtime(self) -> &'static str {
        match self {
            Self::Python => "cpython",
            Self::Php => "php",
            Self::Perl => "perl",
            Self::Ruby => "ruby",
            Self::Java => "jvm",
        }
    }

    /// As people name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Php => "PHP",
            Self::Perl => "Perl",
            Self::Ruby => "Ruby",
            Self::Java => "Java",
        }
    }

    /// Versions whose layout is known.
    fn versions(self) -> &'static str {
        match self {
            Self::Python => "3.9 to 3.13",
            Self::Php => "7.4 to 8.4, built without threads",
            Self::Perl => "5.30 to 5.40, built with threads, as distributions do",
            Self::Ruby => "3.0 to 3.4",
            Self::Java => "11 to 25 of HotSpot",
        }
    }

    /// A profiler that a person can turn to.
    fn profiler(self) -> &'static str {
        match self {
            Self::Python => "py-spy",
            Self::Php => "phpspy",
            Self::Perl => "Devel::NYTProf",
            Self::Ruby => "rbspy",
            Self::Java => "async-profiler",
        }
    }

    /// Whether a file that a process has mapped is its interpreter, by the file's name.
    fn is_interpreter(self, file: &str) -> bool {
        let version_of = |stem: &str| {
            let rest = file.strip_prefix(stem);
            rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
        };
        match self {
            Self::Python => file.starts_with("python3") || file.starts_with("libpython3"),
            Self::Php => {
                ["php", "php-fpm", "php-cgi"]
                    .iter()
                    .any(|&stem| version_of(stem))
                    || file.starts_with("libphp")
            }
            Self::Perl => version_of("perl") || file.starts_with("libperl.so"),
            Self::Ruby => version_of("ruby") || file.starts_with("libruby"),
            Self::Java => file == "libjvm.so",
        }
    }
}

/// Why an interpreter is not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("process {pid} runs no {}", language.name())]
    Absent { language: Language, pid: i32 },
    #[error("process {pid} runs {} {version}, whose layout is not known", language.name())]
    Version {
        language: Language,
        pid: i32,
        version: String,
    },
    #[error("what was found in process {pid} is not laid out as {} is: {what}", language.name())]
    Layout {
        language: Language,
        pid: i32,
        what: &'static str,
    },
    #[error("reading the memory of process {pid}: {cause}")]
    Memory {
        language: Language,
        pid: i32,
        cause: io::Error,
    },
}

/// A process that is asked for an interpreter: what is wrong with it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    language: Language,
    pid: i32,
}

impl Asked {
    fn absent(self) -> ReadError {
        let Self { language, pid } = self;
        ReadError::Absent { language, pid }
    }

    fn version(self, version: String) -> ReadError {
        let Self { language, pid } = self;
        ReadError::Version {
            language,
            pid,
            version,
        }
    }

    fn layout(self, what: &'static str) -> ReadError {
        let Self { language, pid } = self;
        ReadError::Layout {
            language,
            pid,
            what,
        }
    }

    fn memory(self, cause: io::Error) -> ReadError {
        let Self { language, pid } = self;
        ReadError::Memory {
            language,
            pid,
            cause,
        }
    }
}

impl ReadError {
    /// What would help; may be empty.
    pub fn remedy(&self) -> String {
        match self {
            Self::Absent { .. } => String::new(),
            Self::Version { language, .. } => format!(
                "run it with {} {}, or profile it with {}",
                language.name(),
                language.versions(),
                language.profiler()
            ),
            Self::Layout { language, .. } => format!(
                "profile it with {}, and report this as a bug of prony",
                language.profiler()
            ),
            Self::Memory { .. } => "run prony as root, or as the server's user".to_owned(),
        }
    }

    fn language(&self) -> Language {
        let (Self::Absent { language, .. }
        | Self::Version { language, .. }
        | Self::Layout { language, .. }
        | Self::Memory { language, .. }) = self;
        *language
    }

    /// As a gap of a record.
    pub fn unavailable(&self) -> Unavailable {
        let what = match self.language() {
            Language::Python => {
                "functions of Python, and who holds the interpreter's lock".to_owned()
            }
            other => format!("functions of {}", other.name()),
        };
        Unavailable {
            what,
            reason: self.to_string(),
            remedy: self.remedy(),
        }
    }
}

/// An interpreter whose layout is known.
pub trait Interpreter: Debug + Send {
    /// What it runs.
    fn language(&self) -> Language;

    /// Process id.
    fn pid(&self) -> i32;

    /// Its threads in the words of the record, by their ids; those that are in no function, and those that moved while
    /// they were read, are left out.
    ///
    /// # Errors
    /// When the process has ended.
    fn look(&mut self) -> io::Result<Vec<(u32, Told)>>;

    /// The lock that only one of its threads has, now; `None` where it has none, or none that is known.
    ///
    /// # Errors
    /// When the process has ended.
    fn lock(&self) -> io::Result<Option<GilState>> {
        Ok(None)
    }

    /// Where the thread is that has the lock, by its record in [`GilState::holder`]; `None` where it moved meanwhile.
    ///
    /// # Errors
    /// When the process has ended.
    fn at_lock(&mut self, _holder: u64) -> io::Result<Option<(u32, Told)>> {
        Ok(None)
    }
}

/// The lock of an interpreter at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilState {
    /// The thread that has it, if one has.
    pub holder: Option<u64>,
    /// How often it went from one thread to another since the start.
    pub switches: u64,
}

/// Languages that a process may run, by the names of what it has mapped: a library need not be in use.
pub fn found_in(pid: i32) -> Vec<Language> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = (maps.lines()).filter_map(|line| line.split_ascii_whitespace().nth(5));
    let files: Vec<&str> = paths.filter_map(|path| path.rsplit('/').next()).collect();
    let mapped = |language: &Language| files.iter().any(|file| language.is_interpreter(file));
    Language::ALL.into_iter().filter(mapped).collect()
}

/// Finds and checks a process' interpreter.
///
/// # Errors
/// [`ReadError`]: none of this language, a version that is not known, or memory that cannot be read or be what it
/// should.
pub fn open(language: Language, pid: i32) -> Result<Box<dyn Interpreter>, ReadError> {
    Ok(match language {
        Language::Python => Box::new(Python::open(pid)?),
        Language::Php => Box::new(Php::open(pid)?),
        Language::Perl => Box::new(Perl::open(pid)?),
        Language::Ruby => Box::new(Ruby::open(pid)?),
        Language::Java => Box::new(Java::open(pid)?),
    })
}

/// Whose code a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The application's.
    Own,
    /// The language's, or that of an installed package.
    Library,
    /// Compiled into the interpreter: it is called, and calls nobody that matters here.
    Native,
}

/// A function, as its code says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    /// `Pool.get (pool.py:17)`, of a library `Logger.handle (logging/__init__.py:1646)`: its name and where it begins;
    /// a native one has its name alone.
    name: String,
    origin: Origin,
    /// Of its file, as the runtime knows it; empty for a native one.
    path: String,
}

impl Function {
    /// One of a script: its name, its file, and the line that it begins at; 0 where that is not known.
    fn of_script(name: &str, path: &str, line: u64, library: Option<&str>) -> Self {
        let file = library.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path));
        let line = match line {
            0 => String::new(),
            line => format!(":{line}"),
        };
        Self {
            name: format!("{name} ({file}{line})"),
            origin: library.map_or(Origin::Own, |_| Origin::Library),
            path: path.to_owned(),
        }
    }

    /// One that is compiled into the interpreter.
    fn native(name: String) -> Self {
        Self {
            name,
            origin: Origin::Native,
            path: String::new(),
        }
    }
}

/// Functions, innermost first, each with what its reader finds the line by that it is at.
type Stack<P> = Vec<(P, Function)>;

/// The innermost function of the application that a library called. What stands below the outermost library only
/// started it, as the main program starts an event loop; a program without one is all the application's, and so is a
/// script that begins with each request.
fn own<P>(language: Language, stack: &[(P, Function)]) -> Option<usize> {
    let is = |origin| move |(_, f): &(P, Function)| f.origin == origin;
    let begun = stack.iter().rposition(is(Origin::Library));
    let called = match begun.filter(|_| language != Language::Php) {
        Some(outermost) => &stack[..outermost],
        None => stack,
    };
    called.iter().position(is(Origin::Own))
}

/// What a thread is told to do, and at which line; `None` for one that is in no function.
fn told<P>(
    language: Language,
    stack: Stack<P>,
    (state, object): (ToldState, &str),
    line: Option<SourceLine>,
) -> Option<Told> {
    let own = own(language, &stack).and_then(|own| u32::try_from(own).ok());
    let frames: Vec<String> = stack.into_iter().map(|(_, f)| f.name).collect();
    (!frames.is_empty()).then(|| Told {
        runtime: language.runtime().to_owned(),
        state,
        frames,
        own,
        line,
        object: object.to_owned(),
        owner: String::new(),
    })
}

/// The only thread of a process in the words of the record. What it waits for is a call of the system, which says it
/// better.
fn only_thread<P>(
    language: Language,
    pid: i32,
    stack: Stack<P>,
    line: Option<SourceLine>,
) -> Vec<(u32, Told)> {
    let told = told(language, stack, (ToldState::Running, ""), line);
    let of = |told| (pid.cast_unsigned(), told);
    told.map(of).into_iter().collect()
}

/// Functions that were named before, by what tells them apart.
#[derive(Debug)]
struct Names<K>(HashMap<K, Function>);

impl<K> Default for Names<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Names<K> {
    fn known(&self, code: &K) -> Option<Function> {
        self.0.get(code).cloned()
    }

    /// Keeps a name, and gives it back.
    fn keep(&mut self, code: K, function: Function) -> Function {
        if self.0.len() >= MOST_NAMES {
            self.0.clear();
        }
        self.0.insert(code, function.clone());
        function
    }
}

/// The last stack of each thread with the names of its functions: most looks meet a thread that waits where it did.
#[derive(Debug, Default)]
struct Last<T>(HashMap<u64, (Vec<T>, Stack<T>)>);

impl<T: Clone + PartialEq> Last<T> {
    /// Functions of a thread's stack, where that is the one of the last look.
    fn known(&self, thread: u64, chain: &[T]) -> Option<Stack<T>> {
        let (last, functions) = self.0.get(&thread)?;
        (last == chain).then(|| functions.clone())
    }

    /// Keeps a stack with its functions, and gives these back.
    fn keep(&mut self, thread: u64, chain: Vec<T>, functions: Stack<T>) -> Stack<T> {
        if self.0.len() >= MOST_THREADS {
            self.0.clear();
        }
        self.0.insert(thread, (chain, functions.clone()));
        functions
    }
}

/// Ids of a process' threads as this host knows them, by those that the process knows: in a container they differ.
#[derive(Debug)]
pub(crate) struct Tasks {
    pid: i32,
    /// `None` for an id that is no thread of the process.
    known: HashMap<u32, Option<u32>>,
}

impl Tasks {
    pub(crate) fn of(pid: i32) -> Self {
        Self {
            pid,
            known: HashMap::new(),
        }
    }

    /// The host's id; `None` for one that is no thread of the process.
    pub(crate) fn here(&mut self, there: u32) -> Option<u32> {
        if !self.known.contains_key(&there) {
            // Threads come and go.
            for tid in crate::profile::threads(self.pid) {
                if let Some(there) = self.inside(tid) {
                    self.known.insert(there, Some(tid.cast_unsigned()));
                }
            }
            self.known.entry(there).or_default();
        }
        self.known.get(&there).copied().flatten()
    }

    fn inside(&self, tid: i32) -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{}/task/{tid}/status", self.pid));
        let there = innermost_id(&status.ok()?).unwrap_or(tid);
        Some(there.cast_unsigned())
    }
}

/// Of a stack that went on while it was read, innermost first, the part that it is still in: so the caller of short
/// functions is met as often as that of a long one.
///
/// # Errors
/// When the stack cannot be read, or nothing of it stayed.
fn still_there<T: PartialEq>(
    mut chain: impl FnMut() -> io::Result<Vec<T>>,
    moved: impl FnOnce(Option<&T>) -> io::Result<bool>,
) -> io::Result<Vec<T>> {
    let mut before = chain()?;
    if !moved(before.first())? {
        return Ok(before);
    }
    let after = chain()?;
    let of_both = (before.iter().rev().zip(after.iter().rev())).take_while(|(a, b)| a == b);
    let still = of_both.count();
    if still == 0 {
        return Err(io::ErrorKind::Interrupted.into());
    }
    before.drain(..before.len() - still);
    Ok(before)
}

/// The part of a path behind the last of the directories where packages are installed.
fn behind<'a>(path: &'a str, directories: &[&str]) -> Option<&'a str> {
    let beyond = |part: &&str| path.rfind(part).map(|at| at + part.len());
    let last = directories.iter().filter_map(beyond).max()?;
    Some(&path[last..])
}

/// The part of a path behind its first directories that are of a kind.
fn without_first(mut path: &str, is: impl Fn(&str) -> bool) -> &str {
    while let Some((first, further)) = path.split_once('/') {
        if !is(first) {
            break;
        }
        path = further;
    }
    path
}

/// Whether a directory is that of a version: `5.36`.
fn is_version(directory: &str) -> bool {
    let of_number = |c: char| c.is_ascii_digit() || c == '.';
    directory.chars().all(of_number)
}

/// The last letters of a text: the end of a path says more than its beginning.
fn end_of(memory: &Memory, letters: u64, length: u64) -> io::Result<Vec<u8>> {
    let skip = length.saturating_sub(MOST_LETTERS);
    let mut bytes = vec![0; (length - skip) as usize];
    memory.read(letters + skip, &mut bytes)?;
    Ok(bytes)
}

/// A name or a path of the bytes that were found where one should be.
fn text_of(bytes: &[u8]) -> io::Result<String> {
    match is_text(bytes) {
        true => Ok(String::from_utf8_lossy(bytes).into_owned()),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Whether bytes can be a name or a path: letters of a text, none of them a control character.
fn is_text(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && bytes
            .iter()
            .all(|byte| (0x20..0x7f).contains(byte) || *byte >= 0x80)
}

/// Eight bytes of a record that was read; 0 beyond its end.
pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u64::from_ne_bytes)
}

/// Four bytes of a record that was read; 0 beyond its end.
pub(crate) fn half(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

/// The system call that a thread is in, by which it says what it waits for: its number and its arguments. `None` while
/// it runs.
fn call_of(pid: i32, tid: u32) -> Option<(i64, [u64; 6])> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let mut words = line.split_ascii_whitespace();
    let call = words.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        *argument = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((call, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_what_a_library_called() {
        let of = |language, origins: &[Origin]| {
            let function = |&origin| {
                let function = Function::native("f (file.py:1)".to_owned());
                ((), Function { origin, ..function })
            };
            own(language, &origins.iter().map(function).collect::<Vec<_>>())
        };
        let stack = |origins: &[Origin]| of(Language::Python, origins);
        let (library, app, native) = (Origin::Library, Origin::Own, Origin::Native);
        // A decoder below a handler, below a framework, below the main program.
        assert_eq!(stack(&[library, app, app, library, app]), Some(1));
        // The framework alone: the main program only started it.
        assert_eq!(stack(&[library, library, app]), None);
        // The page that uses it, which each request begins anew.
        assert_eq!(of(Language::Php, &[native, library, app, app]), Some(2));
        assert_eq!(stack(&[library]), None);
        // No framework at all, and what is compiled in is none.
        assert_eq!(stack(&[app, app]), Some(0));
        assert_eq!(stack(&[native, app]), Some(1));
        assert_eq!(stack(&[native, library, app, library]), Some(2));
        assert_eq!(stack(&[]), None);
    }

    #[test]
    fn an_interpreter_is_known_by_its_file_and_a_module_of_it_is_none() {
        let check = |file: &str, expected: Option<Language>| {
            let found = Language::ALL.into_iter().find(|l| l.is_interpreter(file));
            assert_eq!(found, expected, "{file}");
        };
        check("python3.11", Some(Language::Python));
        check("libpython3.12.so.1.0", Some(Language::Python));
        check("php-fpm8.2", Some(Language::Php));
        check("php8.2", Some(Language::Php));
        check("php", Some(Language::Php));
        check("libphp8.2.so", Some(Language::Php));
        check("perl", Some(Language::Perl));
        check("perl5.36.0", Some(Language::Perl));
        check("libperl.so.5.36.0", Some(Language::Perl));
        check("ruby3.1", Some(Language::Ruby));
        check("libruby-3.1.so.3.1.2", Some(Language::Ruby));
        for other in ["opcache.so", "phpunit", "perl-server", "rubyish", "nginx"] {
            check(other, None);
        }
    }

    #[test]
    fn of_a_stack_that_moves_what_stayed_is_told() {
        let mut stacks = vec![vec!["d", "c", "a"], vec!["x", "b", "c", "a"]].into_iter();
        let chain = || Ok(stacks.next().unwrap_or_default());
        let still = still_there(chain, |first| Ok(first == Some(&"d")));
        assert_eq!(still.unwrap(), ["c", "a"]);
        let mut stacks = vec![vec!["d", "a"], vec!["e", "b"]].into_iter();
        let chain = || Ok(stacks.next().unwrap_or_default());
        assert!(still_there(chain, |_| Ok(true)).is_err());
        assert_eq!(still_there(|| Ok(vec![1]), |_| Ok(false)).unwrap(), [1]);
    }
}
