//! One look at all goroutines of a process: what each does, and the stack of those that wait.
//!
//! In the flow: called some hundred times in a window. Three reads: the list, the goroutines, the stacks of those that
//! wait. The surprise: the process runs on meanwhile, so each goroutine is a sample of its own moment. What does not
//! fit together (a stack pointer outside of its stack, a status that there is not) is counted as torn and left out;
//! of a stack that changed, what was followed until there is kept.

use super::layout::{Layout, Sleep};
use super::made;
use super::program::{Program, ProgramError};
use linux::memory::{self, Piece};
use std::io;

/// Goroutines that are read in one look at most: of more, every second, third, ... is.
const MOST_READ: usize = 4096;
/// A list longer than this is none.
const MOST_GOROUTINES: u64 = 1 << 26;
/// Bytes of a stack that are read from its end on: some twenty frames.
const STACK_BYTES: u64 = 2048;
/// Frames of a stack.
const MOST_FRAMES: usize = 24;
/// A garbage collector that looks at a goroutine adds this to its status.
const SCANNED: u32 = 0x1000;
/// Nobody will wake it, as the garbage collector of 1.26 finds (src/runtime/runtime2.go).
const LEAKED: u32 = 10;

/// What a goroutine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Doing {
    /// It runs on a thread, which may itself wait for a CPU.
    Running,
    /// It is in a system call.
    Syscall,
    /// It waits; a number of the program's table of reasons.
    Waiting(u8),
    /// The time until which it sleeps is over, and the runtime has not seen that.
    Overslept,
    /// What it waited for is there, and no thread of the runtime is free to run it.
    Woken(u8),
    /// It could go on or begin, and no thread of the runtime is free to run it.
    Ready,
}

/// One goroutine in a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub doing: Doing,
    /// First address of the function that it began with.
    pub start_pc: u64,
    /// Address in the function that made it.
    pub go_pc: u64,
    /// Addresses from the innermost on; only of those that wait or are in a system call.
    pub pcs: Vec<u64>,
}

/// Reads looks of one process; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Reader {
    list: Vec<u64>,
    bytes: Vec<u8>,
    read: Vec<bool>,
    stacks: Vec<u8>,
    stacks_read: Vec<bool>,
    pieces: Vec<Piece>,
    /// Goroutines whose fields did not fit together.
    pub torn: u64,
}

/// What one look brought.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub seen: Vec<Seen>,
    /// Goroutines that each stands for.
    pub stride: u32,
}

impl Reader {
    /// Looks once. `turn` decides which goroutines are read when there are too many for one look.
    pub(super) fn look(&mut self, program: &Program, turn: u64) -> io::Result<Look> {
        self.list_now(program)?;
        let stride = self.list.len().div_ceil(MOST_READ).max(1);
        let layout = program.layout;
        self.pieces.clear();
        let chosen = self
            .list
            .iter()
            .skip(turn as usize % stride)
            .step_by(stride);
        self.pieces.extend(chosen.map(|&address| Piece {
            address,
            bytes: layout.bytes(),
        }));
        memory::read(program.pid, &self.pieces, &mut self.bytes, &mut self.read)?;
        let mut look = Look {
            seen: Vec::new(),
            stride: stride as u32,
        };
        let now_ns = linux::clock::monotonic_ns();
        let mut stacks: Vec<(usize, Piece, u64)> = Vec::new();
        let mut timers: Vec<(usize, Piece)> = Vec::new();
        for (one, read) in self.bytes.chunks_exact(layout.bytes()).zip(&self.read) {
            let found = if *read {
                Goroutine(one).seen(program)
            } else {
                None
            };
            match found {
                Some(Some((seen, frame))) => {
                    if let Some((piece, bp)) = frame {
                        stacks.push((look.seen.len(), piece, bp));
                    }
                    let (index, sleeps) = (look.seen.len(), program.is_sleep(seen.doing));
                    look.seen.push(seen);
                    match layout.sleep {
                        Sleep::Until(at) if sleeps && oversleeps(u64_at(one, at), now_ns) => {
                            look.seen[index].doing = Doing::Overslept;
                        }
                        Sleep::Timer { pointer, when } if sleeps => {
                            let address = u64_at(one, pointer).wrapping_add(when);
                            timers.push((index, Piece { address, bytes: 8 }));
                        }
                        _ => {}
                    }
                }
                Some(None) => {}
                None => self.torn += 1,
            }
        }
        self.read_more(program.pid, stacks.iter().map(|stack| stack.1))?;
        let mut from = 0;
        for ((index, piece, bp), read) in stacks.iter().zip(&self.stacks_read) {
            let bytes = &self.stacks[from..from + piece.bytes];
            from += piece.bytes;
            if *read {
                follow(
                    bytes,
                    piece.address,
                    *bp,
                    program,
                    &mut look.seen[*index].pcs,
                );
            }
        }
        if !timers.is_empty() {
            self.read_more(program.pid, timers.iter().map(|timer| timer.1))?;
            for (index, ((seen, _), read)) in timers.iter().zip(&self.stacks_read).enumerate() {
                if *read && oversleeps(u64_at(&self.stacks, 8 * index), now_ns) {
                    look.seen[*seen].doing = Doing::Overslept;
                }
            }
        }
        if stride == 1 {
            made::follow(&mut look.seen, program);
        }
        Ok(look)
    }

    /// Reads stacks, or timers.
    fn read_more(&mut self, pid: i32, pieces: impl Iterator<Item = Piece>) -> io::Result<()> {
        self.pieces.clear();
        self.pieces.extend(pieces);
        memory::read(pid, &self.pieces, &mut self.stacks, &mut self.stacks_read)
    }

    /// The list of goroutines, which only grows.
    fn list_now(&mut self, program: &Program) -> io::Result<()> {
        let word = |address| Piece { address, bytes: 8 };
        let pieces = [word(program.allglen), word(program.allgptr)];
        memory::read(program.pid, &pieces, &mut self.bytes, &mut self.read)?;
        let count = u64_at(&self.bytes, 0).min(MOST_GOROUTINES) as usize;
        let first = u64_at(&self.bytes, 8);
        if count == self.list.len() {
            return Ok(());
        }
        let all = Piece {
            address: first,
            bytes: 8 * count,
        };
        memory::read(program.pid, &[all], &mut self.bytes, &mut self.read)?;
        if self.read.first() == Some(&true) {
            self.list = (0..count)
                .map(|index| u64_at(&self.bytes, 8 * index))
                .collect();
        }
        Ok(())
    }

    /// Whether what is read is goroutines: looks once and accepts no contradiction.
    ///
    /// # Errors
    /// [`ProgramError::Layout`] when nothing fits, [`ProgramError::Unreadable`] when the process may not be read.
    pub(super) fn check(&mut self, program: &Program) -> Result<(), ProgramError> {
        /// A goroutine may change while it is read; three looks in a row do not all meet one that does.
        const LOOKS: usize = 3;
        let mut wrong = "there is none".to_owned();
        for turn in 0..LOOKS {
            let torn = self.torn;
            let look = self
                .look(program, turn as u64)
                .map_err(ProgramError::Unreadable)?;
            let foreign = look
                .seen
                .iter()
                .filter(|seen| !program.begins(seen.start_pc))
                .count();
            let torn = self.torn - torn;
            if !look.seen.is_empty() && torn == 0 && foreign == 0 {
                return Ok(());
            }
            if torn > 0 || foreign > 0 {
                let all = look.seen.len() as u64 + torn;
                wrong = format!(
                    "{} of {all} have fields that none can have",
                    torn + foreign as u64
                );
            }
        }
        Err(ProgramError::Layout(program.version.clone(), wrong))
    }
}

/// The bytes of one goroutine.
struct Goroutine<'a>(&'a [u8]);

/// The stack that is to be read, and where its first frame is.
type Frame = (Piece, u64);

impl Goroutine<'_> {
    fn word(&self, at: usize) -> u64 {
        u64_at(self.0, at)
    }

    /// What it does; `Some(None)` for one that is free, `None` for one whose fields do not fit together.
    fn seen(&self, program: &Program) -> Option<Option<(Seen, Option<Frame>)>> {
        let layout = program.layout;
        let status = self.word(layout.status) as u32 & !SCANNED;
        let reason = *self.0.get(layout.reason)?;
        let (lo, hi) = (self.word(Layout::STACK_LO), self.word(Layout::STACK_HI));
        let (sp, pc) = (self.word(Layout::SCHED_SP), self.word(Layout::SCHED_PC));
        let known = usize::from(reason) < program.reasons.len();
        let start_pc = self.word(layout.start_pc);
        let doing = match status {
            // Just made, free for the next one, or (11, since 1.26) kept for threads of C.
            0 | 5 | 6 | 7 | 11 => return Some(None),
            1 if self.is_parked(program, pc) && known => Doing::Woken(reason),
            1 => Doing::Ready,
            // A stack that is being moved belongs to one that runs.
            2 | 8 => Doing::Running,
            3 => Doing::Syscall,
            4 | 9 | LEAKED if known => Doing::Waiting(reason),
            _ => return None,
        };
        if lo == 0 || lo >= hi {
            return None;
        }
        let mut seen = Seen {
            doing,
            start_pc,
            go_pc: self.word(layout.start_pc - Layout::GO_PC_BEFORE_START),
            pcs: Vec::new(),
        };
        let frame = match doing {
            Doing::Waiting(_) if sp <= lo || sp >= hi => return None,
            Doing::Waiting(reason) => {
                seen.pcs.push(pc);
                // Who waits for a socket is told by its turns, and there may be many thousands.
                let stack = program.reasons[usize::from(reason)] != "IO wait";
                let bytes = (hi - sp).min(STACK_BYTES) as usize;
                stack.then_some((Piece { address: sp, bytes }, self.word(layout.sched_bp)))
            }
            Doing::Syscall => {
                seen.pcs.push(self.word(layout.syscall_pc));
                let bp = layout.syscall_bp.map(|at| self.word(at));
                let bp = bp.filter(|bp| (lo..hi).contains(bp));
                bp.map(|bp| {
                    let bytes = (hi - bp).min(STACK_BYTES) as usize;
                    (Piece { address: bp, bytes }, bp)
                })
            }
            _ => None,
        };
        Some(Some((seen, frame)))
    }

    /// Whether it left its thread by waiting, and not by being held up.
    fn is_parked(&self, program: &Program, pc: u64) -> bool {
        program
            .function(pc)
            .is_some_and(|function| function.1 == "runtime.gopark")
    }
}

/// Whether a time has passed; one that is further away than a year was read while it changed.
fn oversleeps(until_ns: u64, now_ns: u64) -> bool {
    const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;
    until_ns < now_ns && now_ns - until_ns < YEAR_NS && until_ns > 0
}

/// Return addresses from frame to frame, as far as they lie in what was read.
fn follow(bytes: &[u8], address: u64, bp: u64, program: &Program, pcs: &mut Vec<u64>) {
    let mut at = bp;
    while pcs.len() < MOST_FRAMES {
        let Some(offset) = at.checked_sub(address).map(|offset| offset as usize) else {
            return;
        };
        if offset.checked_add(16).is_none_or(|end| end > bytes.len()) {
            return;
        }
        let (next, back) = (u64_at(bytes, offset), u64_at(bytes, offset + 8));
        // The address after a call belongs to the caller even when the call is its last instruction.
        if program.function(back.wrapping_sub(1)).is_none() {
            return;
        }
        pcs.push(back);
        if next <= at {
            return;
        }
        at = next;
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    u64::from_le_bytes(word.unwrap_or_default())
}
