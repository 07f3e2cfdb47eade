//! Where CPython keeps what is read of it, by minor version.
//!
//! In the flow: chosen when a process is opened. The numbers are `offsetof` of the headers of each version
//! (`Include/internal`), all of 64-bit builds with a lock for the interpreter. The surprise: they hold for a minor
//! version
//! only, and a wrong one does not fail: the reader checks what it finds, and refuses versions that are not here.

use super::lines::Table;

/// Offsets, in bytes; of structures that a version does not have they are not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub minor: u8,
    /// The lock's record within the runtime's, or the pointer to it within the interpreter's.
    pub gil: Gil,
    /// First interpreter in the runtime's record.
    pub interpreters: u64,
    /// Length of the runtime's record: the first interpreter and its lock lie in it.
    pub runtime_bytes: u64,
    /// First thread of an interpreter.
    pub threads: u64,
    /// Of a thread: the next, its pthread, its id in the kernel.
    pub next: u64,
    pub pthread: u64,
    pub native: Option<u64>,
    /// Its innermost frame, and one more step to it.
    pub frame: u64,
    pub frame_step: Option<u64>,
    /// Of a frame: the caller, the code, and who owns it.
    pub back: u64,
    pub code: u64,
    pub owner: Option<u64>,
    /// Of a frame: the instruction that runs, by its address or its index; and bytes of an index.
    pub instruction: Instruction,
    /// Of code.
    pub name: u64,
    pub file: u64,
    pub line: u64,
    /// The table of lines, and its kind.
    pub lines: u64,
    pub table: Table,
    /// Of text: where ASCII and where other letters begin.
    pub ascii: u64,
    pub compact: u64,
}

/// How a frame says which instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// Its index at `at`, in units of so many bytes.
    Index { at: u64, bytes: u32 },
    /// Its address at `at`; the code's instructions begin so far behind its own address.
    Address { at: u64, code: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gil {
    InRuntime(u64),
    OfInterpreter(u64),
}

/// Of the lock's record.
pub(super) const GIL_HOLDER: u64 = 8;
pub(super) const GIL_LOCKED: u64 = 16;
pub(super) const GIL_SWITCHES: u64 = 24;
/// Of a text of bytes, which tables are: where they begin.
pub(super) const BYTES: u64 = 32;
/// Of text: its length, and the bits of its form.
pub(super) const TEXT_LENGTH: u64 = 16;
pub(super) const TEXT_STATE: u64 = 32;
pub(super) const COMPACT: u32 = 0x20;
pub(super) const ASCII: u32 = 0x40;
/// A frame that the C stack owns is no function (3.12 and later).
pub(super) const OWNED_BY_C: u8 = 3;

/// Of a version 3.`minor`; `None` for one that is not known.
pub(super) fn of(minor: u8) -> Option<Layout> {
    let old = Layout {
        minor,
        gil: Gil::InRuntime(352),
        interpreters: 32,
        runtime_bytes: 656,
        threads: 8,
        next: 8,
        pthread: 176,
        native: None,
        frame: 24,
        frame_step: None,
        back: 24,
        code: 32,
        owner: None,
        instruction: Instruction::Index { at: 104, bytes: 1 },
        name: 112,
        file: 104,
        line: 40,
        lines: 120,
        table: Table::Increments,
        ascii: 48,
        compact: 72,
    };
    let new = Layout {
        owner: Some(70),
        instruction: Instruction::Address { at: 56, code: 192 },
        name: 128,
        file: 112,
        line: 68,
        lines: 136,
        table: Table::Locations,
        back: 8,
        code: 0,
        ascii: 40,
        compact: 56,
        ..old
    };
    match minor {
        9 => Some(old),
        10 => Some(Layout {
            runtime_bytes: 672,
            instruction: Instruction::Index { at: 96, bytes: 2 },
            table: Table::Ranges,
            ..old
        }),
        11 => Some(Layout {
            gil: Gil::InRuntime(360),
            interpreters: 40,
            runtime_bytes: 166_688,
            threads: 16,
            pthread: 152,
            native: Some(160),
            frame: 56,
            frame_step: Some(8),
            back: 48,
            owner: None,
            instruction: Instruction::Address { at: 56, code: 184 },
            name: 128,
            file: 112,
            line: 72,
            lines: 136,
            table: Table::Locations,
            ..old
        }),
        12 => Some(Layout {
            gil: Gil::OfInterpreter(384),
            interpreters: 40,
            runtime_bytes: 459_944,
            threads: 72,
            pthread: 136,
            native: Some(144),
            frame: 56,
            frame_step: Some(0),
            ..new
        }),
        13 => Some(Layout {
            gil: Gil::OfInterpreter(16),
            interpreters: 632,
            runtime_bytes: 283_320,
            threads: 7_344,
            pthread: 152,
            native: Some(160),
            frame: 72,
            frame_step: None,
            instruction: Instruction::Address { at: 56, code: 200 },
            ..new
        }),
        _ => None,
    }
}
