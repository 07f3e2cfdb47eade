//! PHP, read while it runs: which functions a request is in.
//!
//! In the flow: [`Php::open`] finds `executor_globals`, which every build without threads exports; from the stack's
//! word in it the frames lead to their functions. The surprise: two offsets differ between versions and distributions.
//! The one of the stack's word is decoded from an exported function that reads it; that of a function's file is the
//! one place of its record where a path lies, looked for in the first functions that are met.

use super::source::{Sources, shown};
use super::{Asked, Function, Interpreter, Language, MOST_FRAMES, Names, ReadError, Stack};
use super::{behind, end_of, half, only_thread, still_there, text_of, word};
use crate::process_memory::Memory;
use record::{SourceLine, Told};
use std::io;

/// Of a frame (`zend_execute_data`): its operation, its function and its caller.
const OPERATION: usize = 0;
const FUNCTION: usize = 24;
const CALLER: usize = 48;
const FRAME_BYTES: usize = 56;
/// Of an operation (`zend_op`): its line.
const LINE: u64 = 24;
/// Of a function (`zend_function`): its kind, name and class.
const KIND: usize = 0;
const NAME: usize = 8;
const CLASS: usize = 16;
/// Where the file of a function may lie: 8.3 has it first, 8.4 last. The line follows it.
const FILES: std::ops::RangeInclusive<usize> = 120..=192;
const FUNCTION_BYTES: usize = 208;
/// Kinds of functions: compiled into PHP, of a script.
const INTERNAL: u8 = 1;
const USER: u8 = 2;
const EVAL: u8 = 4;
/// Of a class (`zend_class_entry`): its name.
const CLASS_NAME: u64 = 8;
/// Of a text (`zend_string`): its hash, its length, its letters.
const HASH: usize = 8;
const TEXT_LENGTH: usize = 16;
const TEXT: usize = 24;
/// The first bytes of a function in which its load of the stack's word is looked for.
const CODE_BYTES: usize = 64;
/// Where in `executor_globals` the stack's word may lie.
const STACKS: std::ops::Range<u64> = 256..2048;
/// A script has fewer lines.
const MOST_LINES: u32 = 10_000_000;
/// Directories of installed packages.
const LIBRARIES: [&str; 3] = ["/vendor/", "/share/php/", "/share/pear/"];

/// A PHP without threads, whose layout is known.
#[derive(Debug)]
pub struct Php {
    pid: i32,
    memory: Memory,
    /// Where the word lies that leads to the innermost frame; 0 while no script runs.
    stack: u64,
    /// Offset of a function's file, once one was met.
    file: Option<usize>,
    names: Names<Code>,
    sources: Sources,
}

/// A frame and its function.
type Place = (u64, u64);

/// What tells functions apart: addresses alone are used again where scripts are compiled for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Code {
    function: u64,
    name: u64,
    /// Of the file's path: its address, and the head of the text, with its hash and its length.
    file: u64,
    path: [u8; TEXT],
    line: u32,
}

impl Php {
    /// Finds and checks a process' PHP.
    ///
    /// # Errors
    /// [`ReadError`]: not a PHP, one with threads, or one whose code does not say where its stack is.
    pub fn open(pid: i32) -> Result<Self, ReadError> {
        let asked = Asked {
            language: Language::Php,
            pid,
        };
        let read = |cause| asked.memory(cause);
        let memory = Memory::of(pid);
        let code = memory.symbol("php", "get_active_function_name");
        let code = code.ok_or_else(|| asked.absent())?;
        let globals = memory.symbol("php", "executor_globals");
        let globals = globals.ok_or_else(|| asked.version("with threads (ZTS)".to_owned()))?;
        let mut bytes = [0; CODE_BYTES];
        memory.read(code.address, &mut bytes).map_err(read)?;
        let offset = stack_offset(&bytes, code.address, globals.address);
        let what = "get_active_function_name does not read its stack as known builds do";
        let stack = globals.address + offset.ok_or_else(|| asked.layout(what))?;
        memory.word(stack).map_err(read)?;
        Ok(Self {
            pid,
            memory,
            stack,
            file: None,
            names: Names::default(),
            sources: Sources::of(asked),
        })
    }

    /// Functions of frames, innermost first; half of them may be of a moment later.
    fn chain(&self) -> io::Result<Vec<Place>> {
        let mut frame = self.memory.word(self.stack)?;
        let mut chain = Vec::new();
        while frame != 0 && chain.len() < MOST_FRAMES {
            let mut bytes = [0; FRAME_BYTES];
            self.memory.read(frame, &mut bytes)?;
            chain.push((frame, word(&bytes, FUNCTION)));
            frame = word(&bytes, CALLER);
        }
        Ok(chain)
    }

    fn frames(&mut self) -> io::Result<Stack<Place>> {
        let chain = still_there(
            || self.chain(),
            |first| Ok(self.memory.word(self.stack)? != first.map_or(0, |&(frame, _)| frame)),
        )?;
        let mut named = Vec::new();
        for (frame, function) in chain.into_iter().filter(|&(_, function)| function != 0) {
            let place = (frame, function);
            named.extend(self.function(function)?.map(|function| (place, function)));
        }
        Ok(named)
    }

    fn line(&mut self, stack: &[(Place, Function)]) -> Option<SourceLine> {
        let (place, function) = shown(Language::Php, stack)?;
        let number = line_of(self.memory, *place)?;
        self.sources.line(function, number)
    }

    /// A function's name; `None` for a frame that is no function's.
    fn function(&mut self, address: u64) -> io::Result<Option<Function>> {
        let mut bytes = [0; FUNCTION_BYTES];
        self.memory.read(address, &mut bytes)?;
        let file = match bytes[KIND] {
            INTERNAL => None,
            USER | EVAL => Some(self.file_of(&bytes)?),
            _ => return Ok(None),
        };
        let mut code = Code {
            function: address,
            name: word(&bytes, NAME),
            file: file.map_or(0, |at| word(&bytes, at)),
            path: [0; TEXT],
            line: file.map_or(0, |at| half(&bytes, at + 8)),
        };
        if code.file != 0 {
            self.memory.read(code.file, &mut code.path)?;
            // How often it is used says nothing of what it is.
            code.path[..HASH].fill(0);
        }
        if let Some(known) = self.names.known(&code) {
            return Ok(Some(known));
        }
        let function = match code.name {
            // The code of a file outside of its functions.
            0 => "main".to_owned(),
            name => self.text(name)?,
        };
        let class = match word(&bytes, CLASS) {
            0 => String::new(),
            class => format!("{}::", self.text(self.memory.word(class + CLASS_NAME)?)?),
        };
        let name = format!("{class}{function}");
        let function = match file {
            Some(_) => {
                let path = self.text(code.file)?;
                Function::of_script(&name, &path, code.line.into(), behind(&path, &LIBRARIES))
            }
            None => Function::native(name),
        };
        Ok(Some(self.names.keep(code, function)))
    }

    /// Where a function's file lies: where its record has a path and, behind it, a first and a last line.
    fn file_of(&mut self, function: &[u8; FUNCTION_BYTES]) -> io::Result<usize> {
        let fits = |at: usize| {
            let (first, last) = (half(function, at + 8), half(function, at + 12));
            let path = self.text(word(function, at)).unwrap_or_default();
            let is_path = path.starts_with('/') || path.ends_with(".php");
            is_path && !path.starts_with("/*") && first <= last && last < MOST_LINES
        };
        let at = match self.file {
            Some(at) => Some(at),
            None => FILES.step_by(8).find(|&at| fits(at)),
        };
        self.file = at;
        at.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The end of a text.
    fn text(&self, address: u64) -> io::Result<String> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        if address == 0 || !address.is_multiple_of(8) {
            return Err(wrong());
        }
        let mut head = [0; TEXT];
        self.memory.read(address, &mut head)?;
        let length = word(&head, TEXT_LENGTH);
        if length > 1 << 16 {
            return Err(wrong());
        }
        let bytes = end_of(&self.memory, address + TEXT as u64, length)?;
        // A function without a name is called by its file and line, behind a letter that is none.
        text_of(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
    }
}

impl Interpreter for Php {
    fn language(&self) -> Language {
        Language::Php
    }

    fn pid(&self) -> i32 {
        self.pid
    }

    fn look(&mut self) -> io::Result<Vec<(u32, Told)>> {
        self.memory.word(self.stack)?;
        let frames = self.frames().unwrap_or_default();
        let line = self.line(&frames);
        Ok(only_thread(Language::Php, self.pid, frames, line))
    }
}

/// The line of the operation that a frame noted last, which is that of its last call; `None` where it has left its
/// function meanwhile.
fn line_of(memory: Memory, (frame, function): Place) -> Option<u32> {
    let mut bytes = [0; FRAME_BYTES];
    memory.read(frame, &mut bytes).ok()?;
    if word(&bytes, FUNCTION) != function {
        return None;
    }
    let line = memory.int(word(&bytes, OPERATION) + LINE).ok()?;
    u32::try_from(line).ok().filter(|line| *line < MOST_LINES)
}

/// Where in `executor_globals` the stack's word lies, by the code of a function that reads it: its first load from
/// there, by a register or relative to itself. `None` where there is none, and on other processors.
fn stack_offset(code: &[u8; CODE_BYTES], address: u64, globals: u64) -> Option<u64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let fits = |offset: u64| STACKS.contains(&offset) && offset.is_multiple_of(8);
    // `REX.W mov r/m64, r64`, whose operand has a displacement of 32 bits.
    let loads = (0..CODE_BYTES - 7).filter(|&at| code[at] & 0xf8 == 0x48 && code[at + 1] == 0x8b);
    let offsets = loads.filter_map(|at| {
        let displacement = half(code, at + 3);
        match (code[at + 2] >> 6, code[at + 2] & 7) {
            (2, base) if base != 4 => Some(u64::from(displacement)),
            (0, 5) => {
                let next = address + at as u64 + 7;
                next.checked_add_signed(i64::from(displacement.cast_signed()))?
                    .checked_sub(globals)
            }
            _ => None,
        }
    });
    offsets.into_iter().find(|&offset| fits(offset))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn code(bytes: &[u8]) -> [u8; CODE_BYTES] {
        let mut code = [0x90; CODE_BYTES];
        code[..bytes.len()].copy_from_slice(bytes);
        code
    }

    #[test]
    fn the_stack_is_where_a_function_reads_it() {
        // `lea globals(%rip), %rax; mov 0x1e8(%rax), %rax`, behind a call.
        let by_register = code(&[
            0x48, 0x83, 0xec, 0x08, 0xe8, 0x57, 0xff, 0xff, 0xff, 0x48, 0x8d, 0x05, 0xfc, 0xfe,
            0x29, 0x00, 0x48, 0x8b, 0x80, 0xe8, 0x01, 0x00, 0x00,
        ]);
        assert_eq!(stack_offset(&by_register, 0x1000, 0x9000), Some(0x1e8));
        // `mov globals+0x1e0(%rip), %rcx` of a build that is not relocatable.
        let relative = code(&[0x48, 0x8b, 0x0d, 0xd9, 0x81, 0x00, 0x00]);
        assert_eq!(stack_offset(&relative, 0x1000, 0x9000), Some(0x1e0));
        // A word from the table of addresses is no offset of the stack.
        let by_table = code(&[
            0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, 0x48, 0x8b, 0x90, 0xf0, 0x01, 0x00, 0x00,
        ]);
        assert_eq!(stack_offset(&by_table, 0x1000, 0x9000), Some(0x1f0));
        assert_eq!(stack_offset(&code(&[]), 0x1000, 0x9000), None);
    }
}
