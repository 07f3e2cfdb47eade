//! Ruby, read while it runs: which methods each thread is in.
//!
//! In the flow: [`Ruby::open`] finds the record of the machine, from which the threads are linked in a circle; each
//! has its frames on a stack of its own. The surprise: distributions strip the name of the word that leads to that
//! record. So every word of the interpreter's own data is asked whether it leads to a record whose main thread leads
//! back to it.

use super::source::{Sources, shown};
use super::{Asked, Function, Interpreter, Language, Last, Names, ReadError, Stack, Tasks};
use super::{GIL, MOST_FRAMES, MOST_THREADS, TID_IN_PTHREAD, behind, call_of, end_of, half};
use super::{is_version, still_there, text_of, told, without_first, word};
use crate::process_memory::Memory;
use record::{SourceLine, Told, ToldState};
use std::io;

/// Of the machine (`rb_vm_t`): how many interpreters run in it, and its main thread.
const INTERPRETERS: usize = 24;
const MAIN_THREAD: usize = 40;
const MACHINE_BYTES: usize = 48;
const MOST_INTERPRETERS: u32 = 64;
/// Of a thread: the next in the circle, and its machine.
const NEXT: usize = 0;
const MACHINE: usize = 32;
const THREAD_BYTES: usize = 248;
/// Statuses of a thread: it runs, or would if it had the interpreter's lock; it is stopped, for some time or until
/// somebody wakes it.
const STATUS_MASK: u8 = 3;
const RUNNABLE: u8 = 0;
const STOPPED: u8 = 1;
const STOPPED_FOREVER: u8 = 2;
/// Which argument of a futex' call is its limit of time.
const FUTEX_TIMEOUT: usize = 3;
/// Of what a thread executes (`rb_execution_context_t`): its stack, the stack's length in words, its innermost frame.
const STACK: usize = 0;
const STACK_WORDS: usize = 8;
const FRAME: usize = 16;
/// Of a frame: its next instruction, and its code; frames of C have none.
const NEXT_INSTRUCTION: usize = 0;
const CODE: usize = 16;
/// Of code (`rb_iseq_t`): its body; of that, where it is written: file, name and line.
const BODY: u64 = 16;
const LOCATION: u64 = 64;
/// Of the body: where its instructions begin.
const INSTRUCTIONS: u64 = 8;
const FILE: usize = 0;
const NAME: usize = 16;
const LINE: usize = 24;
/// Of every object: its kind, in the lowest bits of its flags.
const KIND_MASK: u64 = 0x1f;
const STRING: u64 = 5;
const ARRAY: u64 = 7;
/// A text's letters lie elsewhere; an array's members lie in it.
const USER_1: u64 = 1 << 13;
/// Of the table of lines: its entries, how many they are, and which instructions they begin with.
const ENTRIES: usize = 0;
const NUMBER_OF_ENTRIES: usize = 16;
const BEGINNINGS: usize = 24;
/// Of the beginnings (`succ_index_table`): the first of them in words of nine numbers of seven bits, the others in
/// blocks of 512 bits: how many there were before the block, the same within it for each of its words in nine bits, the
/// bits.
const AT_ONCE: u64 = 54;
const NUMBERS: u64 = 9;
const NUMBER_BITS: u64 = 7;
const BLOCK: u64 = 512;
const BLOCK_BYTES: u64 = 80;
const WITHIN: usize = 8;
const BITS: usize = 16;
/// Directories of what is installed.
const LIBRARIES: [&str; 2] = ["/gems/", "/lib/ruby/"];

/// Where a version keeps what is read of it, by `offsetof` of its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Of a thread: what it executes.
    executes: usize,
    /// Where its kernel's id is.
    tid: Tid,
    /// Of a thread: whether it could run, in the lowest bits.
    status: usize,
    frame_bytes: usize,
    /// The line of code is an object, not a number.
    line_is_object: bool,
    /// A text's length is a word of its own, wherever its letters are.
    length_is_word: bool,
    lines: Lines,
}

/// Where the table of lines is in code's body, and the length of one of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    at: u64,
    entry_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tid {
    /// In the pthread that the thread leads to.
    Pthread(usize),
    Thread(usize),
    /// In what the thread's native thread says.
    Native {
        native: usize,
        tid: u64,
    },
}

/// Of a version 3.`minor`; `None` for one that is not known.
fn layout(minor: u8) -> Option<Layout> {
    let first = Layout {
        executes: 40,
        tid: Tid::Pthread(80),
        status: 88,
        frame_bytes: 56,
        line_is_object: true,
        length_is_word: false,
        lines: Lines {
            at: 120,
            entry_bytes: 8,
        },
    };
    let native = |tid, status| Layout {
        executes: 48,
        tid: Tid::Native { native: 40, tid },
        status,
        frame_bytes: 56,
        line_is_object: false,
        length_is_word: true,
        lines: Lines {
            at: 112,
            entry_bytes: 12,
        },
    };
    match minor {
        0 => Some(first),
        1 => Some(Layout {
            tid: Tid::Thread(88),
            status: 92,
            frame_bytes: 64,
            lines: Lines {
                entry_bytes: 12,
                ..first.lines
            },
            ..first
        }),
        2 => Some(Layout {
            frame_bytes: 64,
            ..native(16, 112)
        }),
        3 | 4 => Some(native(24, 240)),
        _ => None,
    }
}

/// A Ruby whose layout is known.
#[derive(Debug)]
pub struct Ruby {
    pid: i32,
    memory: Memory,
    machine: u64,
    layout: Layout,
    tasks: Tasks,
    last: Last<Place>,
    /// What code is called, by its address and that of its body.
    names: Names<(u64, u64)>,
    sources: Sources,
}

/// A frame and its code.
type Place = (u64, u64);

/// What is read of a thread.
#[derive(Clone, Copy, Debug)]
struct Thread {
    tid: u32,
    executes: u64,
    status: u8,
}

impl Ruby {
    /// Finds and checks a process' Ruby.
    ///
    /// # Errors
    /// [`ReadError`]: not a Ruby, a version that is not known, or memory that cannot be read or be what it should.
    pub fn open(pid: i32) -> Result<Self, ReadError> {
        let asked = Asked {
            language: Language::Ruby,
            pid,
        };
        let read = |cause| asked.memory(cause);
        let wrong = |what| asked.layout(what);
        let memory = Memory::of(pid);
        let version = memory.symbol("ruby", "ruby_version");
        let version = version.ok_or_else(|| asked.absent())?;
        let mut bytes = [0; 8];
        memory.read(version.address, &mut bytes).map_err(read)?;
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        let minor = text
            .strip_prefix("3.")
            .and_then(|rest| rest.split('.').next());
        let layout = minor.and_then(|minor| layout(minor.parse().ok()?));
        let layout = layout.ok_or_else(|| asked.version(text.to_string()))?;
        let data = memory.data_of("ruby").map_err(read)?;
        let machine = data.into_iter().find(|&found| is_machine(&memory, found));
        let machine = machine.ok_or_else(|| wrong("no word of its data leads to its machine"))?;
        let mut ruby = Self {
            pid,
            memory,
            machine,
            layout,
            tasks: Tasks::of(pid),
            last: Last::default(),
            names: Names::default(),
            sources: Sources::of(asked),
        };
        let threads = ruby.threads().map_err(read)?;
        if threads.is_empty() {
            return Err(wrong("its threads are not those of the process"));
        }
        let named = threads
            .iter()
            .any(|&thread| ruby.frames(thread).is_ok_and(|f| !f.is_empty()));
        if !named {
            return Err(wrong("no thread is in a method that has a name"));
        }
        Ok(ruby)
    }

    /// Threads of the machine: they are linked in a circle, with one link that is no thread's. What is no thread of the
    /// process is left out.
    fn threads(&mut self) -> io::Result<Vec<Thread>> {
        let first = self.memory.word(self.machine + MAIN_THREAD as u64)?;
        let (mut address, mut threads) = (first, Vec::new());
        for _ in 0..MOST_THREADS {
            let mut bytes = [0; THREAD_BYTES];
            self.memory.read(address, &mut bytes)?;
            if word(&bytes, MACHINE) == self.machine
                && let Some(tid) = self.task(&bytes, address == first)
            {
                threads.push(Thread {
                    tid,
                    executes: word(&bytes, self.layout.executes),
                    status: bytes[self.layout.status] & STATUS_MASK,
                });
            }
            address = word(&bytes, NEXT);
            if address == first || address == 0 {
                break;
            }
        }
        Ok(threads)
    }

    /// The host's id of a thread. Of a process that was forked the main thread's record has the parent's.
    fn task(&mut self, thread: &[u8], is_main: bool) -> Option<u32> {
        match is_main {
            true => Some(self.pid.cast_unsigned()),
            false => self.tasks.here(self.tid_of(thread).ok()?),
        }
    }

    fn tid_of(&self, thread: &[u8]) -> io::Result<u32> {
        match self.layout.tid {
            Tid::Thread(at) => Ok(half(thread, at)),
            Tid::Pthread(at) => {
                let pthread = word(thread, at);
                Ok(self.memory.int(pthread + TID_IN_PTHREAD)?.cast_unsigned())
            }
            // A thread that waits for its turn may have no native thread.
            Tid::Native { native, tid } => {
                Ok(self.memory.int(word(thread, native) + tid)?.cast_unsigned())
            }
        }
    }

    /// Frames of a thread, outermost at the highest address: theirs and their codes', innermost first.
    fn chain(&self, executes: u64) -> io::Result<Vec<Place>> {
        let mut bytes = [0; FRAME + 8];
        self.memory.read(executes, &mut bytes)?;
        let length = self.layout.frame_bytes;
        let (innermost, end) = (
            word(&bytes, FRAME),
            word(&bytes, STACK).saturating_add(word(&bytes, STACK_WORDS).saturating_mul(8)),
        );
        let number = end.saturating_sub(innermost) / length as u64;
        // Frames of C lie between those of methods.
        let number = usize::try_from(number).unwrap_or(0).min(2 * MOST_FRAMES);
        let mut frames = vec![0; number * length];
        self.memory.read(innermost, &mut frames)?;
        let at = (0..).map(|index| innermost + index * length as u64);
        let coded = (at.zip(frames.chunks_exact(length)))
            .map(|(at, frame)| (at, word(frame, CODE)))
            .filter(|&(_, code)| code != 0);
        Ok(coded.take(MOST_FRAMES).collect())
    }

    /// Where a thread is: its innermost frame and its code, of C as well.
    fn at(&self, executes: u64) -> io::Result<Place> {
        let frame = self.memory.word(executes + FRAME as u64)?;
        Ok((frame, self.memory.word(frame + CODE as u64)?))
    }

    /// Methods of a thread, innermost first.
    fn frames(&mut self, thread: Thread) -> io::Result<Stack<Place>> {
        let executes = thread.executes;
        let before = self.at(executes)?;
        let moved = |_: Option<&_>| Ok(self.at(executes)? != before);
        let chain = still_there(|| self.chain(executes), moved)?;
        if let Some(known) = self.last.known(executes, &chain) {
            return Ok(known);
        }
        let named = |&(frame, code): &Place| Some(((frame, code), self.function(code).ok()?));
        let functions = chain.iter().filter_map(named).collect();
        Ok(self.last.keep(executes, chain, functions))
    }

    fn function(&mut self, code: u64) -> io::Result<Function> {
        let body = self.memory.word(code + BODY)?;
        if let Some(known) = self.names.known(&(code, body)) {
            return Ok(known);
        }
        let mut location = [0; 32];
        self.memory.read(body + LOCATION, &mut location)?;
        let (name, path) = (
            self.text(word(&location, NAME))?,
            self.path(word(&location, FILE))?,
        );
        let line = match self.layout.line_is_object {
            true => word(&location, LINE) >> 1,
            false => half(&location, LINE).into(),
        };
        let function = match path.starts_with("<internal:") {
            // What is written in Ruby of the interpreter itself is as good as compiled in.
            true => Function::native(name),
            false => Function::of_script(&name, &path, line, library(&path)),
        };
        Ok(self.names.keep((code, body), function))
    }

    fn line(&mut self, stack: &[(Place, Function)]) -> Option<SourceLine> {
        let (place, function) = shown(Language::Ruby, stack)?;
        let number = self.line_of(*place)?;
        self.sources.line(function, number)
    }

    /// The line that a frame is at; `None` where it has left its code meanwhile, or its code has no lines.
    fn line_of(&self, (frame, code): Place) -> Option<u32> {
        let memory = self.memory;
        let mut bytes = [0; CODE + 8];
        memory.read(frame, &mut bytes).ok()?;
        if word(&bytes, CODE) != code {
            return None;
        }
        let body = memory.word(code + BODY).ok()?;
        let begin = memory.word(body + INSTRUCTIONS).ok()?;
        let next = word(&bytes, NEXT_INSTRUCTION).checked_sub(begin)? / 8;
        let mut table = [0; 32];
        memory.read(body + self.layout.lines.at, &mut table).ok()?;
        let (entries, number) = (word(&table, ENTRIES), half(&table, NUMBER_OF_ENTRIES));
        let before = self.begun(word(&table, BEGINNINGS), next.saturating_sub(1));
        let at = before.ok()?.checked_sub(1)?;
        if at >= number.into() {
            return None;
        }
        let line = memory.int(entries + at * self.layout.lines.entry_bytes);
        u32::try_from(line.ok()?).ok()
    }

    /// How many entries of a table begin up to an instruction, by its index.
    fn begun(&self, beginnings: u64, instruction: u64) -> io::Result<u64> {
        let Some(beyond) = instruction.checked_sub(AT_ONCE) else {
            let numbers = self.memory.word(beginnings + instruction / NUMBERS * 8)?;
            return Ok(numbers >> (instruction % NUMBERS * NUMBER_BITS) & 0x7f);
        };
        let block = beginnings + AT_ONCE / NUMBERS * 8 + beyond / BLOCK * BLOCK_BYTES;
        let mut bytes = [0; BLOCK_BYTES as usize];
        self.memory.read(block, &mut bytes)?;
        let (of_word, bit) = (beyond % BLOCK / 64, beyond % 64);
        let within = match of_word {
            0 => 0,
            later => word(&bytes, WITHIN) >> ((later - 1) * 9) & 0x1ff,
        };
        let bits = word(&bytes, BITS + of_word as usize * 8) << (63 - bit);
        Ok(u64::from(half(&bytes, 0)) + within + u64::from(bits.count_ones()))
    }

    /// A path: a text, or the first of two (as it was asked for, and where it is).
    fn path(&self, address: u64) -> io::Result<String> {
        let mut bytes = [0; 40];
        self.memory.read(address, &mut bytes)?;
        let flags = word(&bytes, 0);
        match flags & KIND_MASK {
            STRING => self.text(address),
            ARRAY if flags & USER_1 != 0 => self.text(word(&bytes, 16)),
            ARRAY => self.text(self.memory.word(word(&bytes, 32))?),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// The end of a text.
    fn text(&self, address: u64) -> io::Result<String> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let mut bytes = [0; 32];
        self.memory.read(address, &mut bytes)?;
        let flags = word(&bytes, 0);
        if flags & KIND_MASK != STRING {
            return Err(wrong());
        }
        let elsewhere = flags & USER_1 != 0;
        let (length, letters) = match (elsewhere, self.layout.length_is_word) {
            (true, _) => (word(&bytes, 16), word(&bytes, 24)),
            (false, true) => (word(&bytes, 16), address + 24),
            (false, false) => (flags >> 14 & 0x1f, address + 16),
        };
        if length > 1 << 16 {
            return Err(wrong());
        }
        text_of(&end_of(&self.memory, letters, length)?)
    }

    /// What a thread waits for, by its status and the system call that it is in. One that comes back from a call of
    /// the system is still called stopped while it waits for the interpreter's lock, which it does without a limit;
    /// one that is stopped with a limit sleeps, or waits for another: who woke it says more.
    fn waits(&self, thread: Thread) -> (ToldState, &'static str) {
        let in_futex = match call_of(self.pid, thread.tid) {
            Some((libc::SYS_futex, arguments)) => Some(arguments[FUTEX_TIMEOUT] != 0),
            _ => None,
        };
        match (thread.status, in_futex) {
            (RUNNABLE, Some(_)) | (STOPPED, Some(false)) => (ToldState::Lock, GIL),
            (STOPPED_FOREVER, _) => (ToldState::Signal, ""),
            _ => (ToldState::Running, ""),
        }
    }
}

impl Interpreter for Ruby {
    fn language(&self) -> Language {
        Language::Ruby
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
        let mut all = Vec::new();
        for thread in self.threads()? {
            let state = self.waits(thread);
            let frames = self.frames(thread).unwrap_or_default();
            let line = self.line(&frames);
            all.extend(told(Language::Ruby, frames, state, line).map(|told| (thread.tid, told)));
        }
        Ok(all)
    }
}

/// Whether there is a machine: its main thread says so.
fn is_machine(memory: &Memory, address: u64) -> bool {
    let mut bytes = [0; MACHINE_BYTES];
    if !address.is_multiple_of(8) || memory.read(address, &mut bytes).is_err() {
        return false;
    }
    let main = word(&bytes, MAIN_THREAD);
    (1..=MOST_INTERPRETERS).contains(&half(&bytes, INTERPRETERS))
        && main.is_multiple_of(8)
        && memory.word(main + MACHINE as u64).ok() == Some(address)
}

/// The path of a file that was installed, below its package: `rack/handler.rb`.
fn library(path: &str) -> Option<&str> {
    let rest = behind(path, &LIBRARIES)?;
    if let Some((_, below)) = rest.split_once("/lib/") {
        return Some(below);
    }
    // `vendor_ruby/`, and `3.1.0/` of a version.
    let own = |first: &str| first.ends_with("_ruby") || is_version(first);
    Some(without_first(rest, own))
}

#[cfg(test)]
mod tests {
    use super::library;

    #[test]
    fn a_gems_file_has_its_packages_name() {
        let check = |path, expected| assert_eq!(library(path), expected, "{path}");
        let gem = "/var/lib/gems/3.1.0/gems/puma-5.6.5/lib/puma/server.rb";
        check(gem, Some("puma/server.rb"));
        check(
            "/usr/lib/ruby/vendor_ruby/rack/lint.rb",
            Some("rack/lint.rb"),
        );
        check("/usr/lib/ruby/3.1.0/logger.rb", Some("logger.rb"));
        let integrated = "/usr/share/rubygems-integration/all/gems/erubi-1.9/lib/erubi.rb";
        check(integrated, Some("erubi.rb"));
        check("/srv/shop/app.rb", None);
        check("config.ru", None);
    }
}
