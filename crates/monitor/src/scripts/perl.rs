//! Perl, read while it runs: which subroutines it is in.
//!
//! In the flow: [`Perl::open`] follows `PL_curinterp`, which builds with threads export, to the interpreter that the
//! process began with; its contexts are the stack. The surprise: a context keeps the statement that called and the
//! subroutine that was called; the package of a subroutine is not read: the path of its file says as much.

use super::source::{Sources, shown};
use super::{Asked, Function, Interpreter, Language, Last, MOST_FRAMES, Names, ReadError, Stack};
use super::{behind, half, is_version, only_thread, still_there, text_of, without_first, word};
use crate::process_memory::Memory;
use record::{SourceLine, Told};
use std::io;

/// Of a stack (`PERL_SI`): its contexts, the stack that it interrupted, the index of its innermost context.
const CONTEXTS: usize = 8;
const INTERRUPTED: usize = 16;
const INNERMOST: usize = 32;
const STACK_BYTES: usize = 40;
/// Of a context: its kind, the statement that called, the subroutine.
const KIND: usize = 0;
const STATEMENT: usize = 16;
const KIND_MASK: u8 = 15;
const SUBROUTINE: u8 = 9;
/// Contexts that are read at once.
const MOST_CONTEXTS: usize = 4 * MOST_FRAMES;
/// Of a statement (`COP`): its kind, its line and its file.
const STATEMENT_KIND: usize = 32;
const STATEMENT_KIND_MASK: u16 = 511;
const LINE: usize = 36;
const FILE: usize = 48;
const STATEMENT_BYTES: usize = 56;
/// Of a subroutine's body (`XPVCV`): its first statement, its name's holder, its file, its flags.
const FIRST: usize = 40;
const NAMED_BY: usize = 56;
const WRITTEN_IN: usize = 64;
const FLAGS: usize = 92;
const BODY_BYTES: usize = 96;
/// The holder is the name itself.
const IS_NAMED: u32 = 0x8000;
/// Of a glob's body: its name.
const GLOB_NAME: u64 = 32;
/// Of a name (`HEK`): its length and its letters.
const NAME_LENGTH: u64 = 4;
const NAME: u64 = 8;
const LONGEST: usize = 256;
/// Directories of what is installed.
const LIBRARIES: [&str; 5] = [
    "/perl5/",
    "/perl-base/",
    "/perl/5.",
    "/site_perl/",
    "/vendor_perl/",
];

/// Where a version keeps what is read of it, by `offsetof` of its headers, built with threads as distributions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Of the interpreter: its stack and its statement.
    stack: u64,
    statement: u64,
    /// Of a context: its subroutine, and its length.
    subroutine: usize,
    context_bytes: usize,
    /// Kinds of statements: plain, and under a debugger.
    kinds: [u16; 2],
}

/// Of a version 5.`minor`; `None` for one that is not known.
fn layout(minor: u8) -> Option<Layout> {
    let newest = Layout {
        stack: 224,
        statement: 208,
        subroutine: 72,
        context_bytes: 104,
        kinds: [198, 199],
    };
    let older = Layout {
        kinds: [195, 196],
        ..newest
    };
    let before_34 = Layout {
        stack: 240,
        statement: 224,
        ..older
    };
    match minor {
        30 => Some(Layout {
            subroutine: 64,
            context_bytes: 96,
            ..before_34
        }),
        32 => Some(before_34),
        34 | 36 => Some(older),
        38 | 40 => Some(newest),
        _ => None,
    }
}

/// A Perl with threads, whose layout is known.
#[derive(Debug)]
pub struct Perl {
    pid: i32,
    memory: Memory,
    /// Where the word lies that leads to the interpreter.
    interpreter: u64,
    layout: Layout,
    last: Last<(u64, u64)>,
    names: Names<Code>,
    sources: Sources,
}

/// The statement that a subroutine is at, 0 for the one that runs, and the subroutine.
type Place = (u64, u64);

/// What tells subroutines apart; closures are made anew for each call and share these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code {
    first: u64,
    named_by: u64,
    flags: u32,
}

impl Perl {
    /// Finds and checks a process' Perl.
    ///
    /// # Errors
    /// [`ReadError`]: not a Perl, a version that is not known, one without threads, or memory that cannot be read or be
    /// what it should.
    pub fn open(pid: i32) -> Result<Self, ReadError> {
        let asked = Asked {
            language: Language::Perl,
            pid,
        };
        let read = |cause| asked.memory(cause);
        let memory = Memory::of(pid);
        let number = memory.symbol("perl", "PL_version");
        let number = number.ok_or_else(|| asked.absent())?;
        let mut minor = [0];
        memory.read(number.address, &mut minor).map_err(read)?;
        let layout = layout(minor[0]).ok_or_else(|| asked.version(format!("5.{}", minor[0])))?;
        let without_threads = || asked.version(format!("5.{} without threads", minor[0]));
        let found = memory.symbol("perl", "PL_thr_key");
        let interpreter = found.and_then(|_| memory.symbol("perl", "PL_curinterp"));
        let interpreter = interpreter.ok_or_else(without_threads)?.address;
        if memory.word(interpreter).map_err(read)? == 0 {
            // The library is there, and nobody runs Perl.
            return Err(asked.absent());
        }
        let perl = Self {
            pid,
            memory,
            interpreter,
            layout,
            last: Last::default(),
            names: Names::default(),
            sources: Sources::of(asked),
        };
        let wrong = |_| asked.layout("its statement is in no file");
        let interpreter = perl.memory.word(interpreter).map_err(read)?;
        let statement = perl.memory.word(interpreter + layout.statement);
        let statement = statement.map_err(read)?;
        perl.place_of(statement).map_err(wrong)?;
        Ok(perl)
    }

    /// Where the stack of the interpreter is now.
    fn stack(&self) -> io::Result<u64> {
        let interpreter = self.memory.word(self.interpreter)?;
        self.memory.word(interpreter + self.layout.stack)
    }

    /// Where the interpreter is: its words up to the stack's, the operation that runs among them.
    fn at(&self) -> io::Result<Vec<u8>> {
        let interpreter = self.memory.word(self.interpreter)?;
        let mut bytes = vec![0; self.layout.stack as usize + 8];
        self.memory.read(interpreter, &mut bytes)?;
        Ok(bytes)
    }

    /// Statements that called and subroutines that were called, innermost first; of a moment each.
    fn chain(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut stack = self.stack()?;
        let mut chain = Vec::new();
        let length = self.layout.context_bytes;
        while stack != 0 && chain.len() < MOST_FRAMES {
            let mut bytes = [0; STACK_BYTES];
            self.memory.read(stack, &mut bytes)?;
            let number = usize::try_from(half(&bytes, INNERMOST).cast_signed() + 1).unwrap_or(0);
            let read = number.min(MOST_CONTEXTS);
            let mut contexts = vec![0; read * length];
            let from = word(&bytes, CONTEXTS) + ((number - read) * length) as u64;
            self.memory.read(from, &mut contexts)?;
            let calls = (contexts.rchunks_exact(length))
                .filter(|one| one[KIND] & KIND_MASK == SUBROUTINE)
                .map(|one| (word(one, STATEMENT), word(one, self.layout.subroutine)));
            chain.extend(calls);
            stack = word(&bytes, INTERRUPTED);
        }
        chain.truncate(MOST_FRAMES);
        Ok(chain)
    }

    fn frames(&mut self) -> io::Result<Stack<Place>> {
        let before = self.at()?;
        let chain = still_there(|| self.chain(), |_| Ok(self.at()? != before))?;
        if let Some(known) = self.last.known(0, &chain) {
            return Ok(known);
        }
        let functions = self.named(&chain)?;
        Ok(self.last.keep(0, chain, functions))
    }

    /// Functions of a chain and the places that they are at.
    fn named(&mut self, chain: &[(u64, u64)]) -> io::Result<Stack<Place>> {
        let mut at = 0;
        let mut frames = Vec::with_capacity(chain.len() + 1);
        for &(called_from, subroutine) in chain {
            frames.push(((at, subroutine), self.function(subroutine)?));
            at = called_from;
        }
        // The program itself is in no context.
        if let Ok((path, _)) = self.place_of(at) {
            let main = Function::of_script("main", &path, 1, library(&path));
            frames.push(((at, 0), main));
        }
        Ok(frames)
    }

    fn line(&mut self, stack: &[(Place, Function)]) -> Option<SourceLine> {
        let ((statement, _), function) = shown(Language::Perl, stack)?;
        let number = self.line_of(*statement)?;
        self.sources.line(function, number)
    }

    /// The line of a statement, or of the one that runs; a statement that is gone has none.
    fn line_of(&self, statement: u64) -> Option<u32> {
        let statement = match statement {
            0 => {
                let interpreter = self.memory.word(self.interpreter).ok()?;
                self.memory.word(interpreter + self.layout.statement).ok()?
            }
            called_from => called_from,
        };
        Some(self.place_of(statement).ok()?.1)
    }

    /// File and line of a statement.
    fn place_of(&self, statement: u64) -> io::Result<(String, u32)> {
        let mut bytes = [0; STATEMENT_BYTES];
        self.memory.read(statement, &mut bytes)?;
        let kind = (half(&bytes, STATEMENT_KIND) & 0xffff) as u16 & STATEMENT_KIND_MASK;
        // A statement that is about to run, as the interpreter's own are before the first, has no kind.
        if kind != 0 && !self.layout.kinds.contains(&kind) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let path = self.text(word(&bytes, FILE), LONGEST)?;
        Ok((path, half(&bytes, LINE)))
    }

    fn function(&mut self, subroutine: u64) -> io::Result<Function> {
        let body = self.memory.word(subroutine)?;
        let mut bytes = [0; BODY_BYTES];
        self.memory.read(body, &mut bytes)?;
        let code = Code {
            first: word(&bytes, FIRST),
            named_by: word(&bytes, NAMED_BY),
            flags: half(&bytes, FLAGS),
        };
        if let Some(known) = self.names.known(&code) {
            return Ok(known);
        }
        let name = if code.named_by == 0 {
            // Its glob is gone.
            "__ANON__".to_owned()
        } else if code.flags & IS_NAMED != 0 {
            self.name(code.named_by)?
        } else {
            let glob = self.memory.word(code.named_by)?;
            self.name(self.memory.word(glob + GLOB_NAME)?)?
        };
        // It may begin with what is no statement, as one with a signature does.
        let first = self.place_of(code.first);
        let (path, line) = match first {
            Ok(place) => place,
            Err(_) => (self.text(word(&bytes, WRITTEN_IN), LONGEST)?, 0),
        };
        let function = Function::of_script(&name, &path, line.into(), library(&path));
        Ok(self.names.keep(code, function))
    }

    fn name(&self, address: u64) -> io::Result<String> {
        let length = self.memory.int(address + NAME_LENGTH)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if !(1..=LONGEST).contains(&length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.text(address + NAME, length)
    }

    /// A text that a zero ends, of at most some letters.
    fn text(&self, address: u64, most: usize) -> io::Result<String> {
        let mut bytes = vec![0; most];
        // It may lie at the end of what is mapped.
        let to_page = (4096 - address % 4096) as usize;
        let first = most.min(to_page);
        self.memory.read(address, &mut bytes[..first])?;
        if !bytes[..first].contains(&0) && first < most {
            self.memory
                .read(address + first as u64, &mut bytes[first..])?;
        }
        text_of(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

impl Interpreter for Perl {
    fn language(&self) -> Language {
        Language::Perl
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
        self.stack()?;
        let frames = self.frames().unwrap_or_default();
        let line = self.line(&frames);
        Ok(only_thread(Language::Perl, self.pid, frames, line))
    }
}

/// The path below the directory of modules of a file that was installed: `JSON/PP.pm`.
fn library(path: &str) -> Option<&str> {
    // `5.36/` of a version.
    Some(without_first(behind(path, &LIBRARIES)?, is_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_file_has_its_packages_name() {
        let check = |path, expected| assert_eq!(library(path), expected, "{path}");
        check("/usr/share/perl/5.36/JSON/PP.pm", Some("JSON/PP.pm"));
        check("/usr/share/perl5/Plack/Runner.pm", Some("Plack/Runner.pm"));
        check(
            "/usr/lib/x86_64-linux-gnu/perl5/5.36/DBI.pm",
            Some("DBI.pm"),
        );
        check(
            "/usr/lib/x86_64-linux-gnu/perl-base/List/Util.pm",
            Some("List/Util.pm"),
        );
        check(
            "/usr/local/lib/x86_64-linux-gnu/perl/5.36.0/A/B.pm",
            Some("A/B.pm"),
        );
        check("/srv/shop/lib/Shop.pm", None);
        check("app.psgi", None);
    }
}
