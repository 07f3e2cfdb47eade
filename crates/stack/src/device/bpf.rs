//! Small eBPF programs, made as bytes and loaded by bpf(2): no compiler and no library for some dozens of instructions.

use super::interface::{checked, owned};
use std::io;
use std::os::fd::OwnedFd;

const PROG_LOAD: libc::c_int = 5;

/// Attributes of bpf(2): fields at the offsets of `union bpf_attr`, the rest zero.
pub(super) struct Attributes([u64; 16]);

impl Attributes {
    /// Numbers of 32 bits by their offset, then those of 64.
    pub(super) fn new(small: &[(usize, u32)], large: &[(usize, u64)]) -> Self {
        let mut bytes = [0u8; 128];
        for (at, value) in small {
            bytes[*at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in large {
            bytes[*at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let (words, _) = bytes.as_chunks::<8>();
        let mut attributes = [0; 16];
        for (to, from) in attributes.iter_mut().zip(words) {
            *to = u64::from_ne_bytes(*from);
        }
        Self(attributes)
    }

    pub(super) fn call(&self, command: libc::c_int) -> io::Result<libc::c_int> {
        let size = std::mem::size_of_val(&self.0);
        // SAFETY: the kernel reads the attributes, whose pointers the callers keep alive through this call.
        checked(
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), size) } as libc::c_int,
        )
    }
}

/// Loads a program of a kind (`BPF_PROG_TYPE_...`).
pub(super) fn load(kind: u32, flags: u32, code: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    let small = [(0, kind), (4, code.len() as u32), (44, flags)];
    let large = [(8, code.as_ptr() as u64), (16, license.as_ptr() as u64)];
    owned(Attributes::new(&small, &large).call(PROG_LOAD)?)
}

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Instructions in the making; a jump's distance is put in when its label's place is known.
#[derive(Default)]
pub(super) struct Code {
    words: Vec<u64>,
    jumps: Vec<(usize, Label)>,
    /// Place of each label.
    places: Vec<usize>,
}

// Operations, as in the instruction set's own document (RFC 9669).
pub(super) const MOVE: u8 = 0xbf;
pub(super) const MOVE_NUMBER: u8 = 0xb7;
pub(super) const ADD_NUMBER: u8 = 0x07;
pub(super) const TO_BIG_ENDIAN: u8 = 0xdc;
pub(super) const LOAD_U8: u8 = 0x71;
pub(super) const LOAD_U16: u8 = 0x69;
pub(super) const LOAD_U32: u8 = 0x61;
pub(super) const LOAD_U64: u8 = 0x79;
pub(super) const JUMP: u8 = 0x05;
pub(super) const JUMP_EQUAL: u8 = 0x15;
pub(super) const JUMP_NOT_EQUAL: u8 = 0x55;
pub(super) const JUMP_ABOVE: u8 = 0x2d;
pub(super) const JUMP_BELOW: u8 = 0xad;
pub(super) const JUMP_NOT_ABOVE: u8 = 0xbd;
/// On 32 bits, where a number is not extended with its sign.
pub(super) const JUMP32_BELOW: u8 = 0xa6;
pub(super) const JUMP32_NOT_ABOVE: u8 = 0xb6;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;
pub(super) const LOAD_NUMBER: u8 = 0x18;

impl Code {
    pub(super) fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, number: u32) {
        self.words.push(
            u64::from(code)
                | u64::from(from << 4 | to) << 8
                | u64::from(offset as u16) << 16
                | u64::from(number) << 32,
        );
    }

    pub(super) fn label(&mut self) -> Label {
        self.places.push(usize::MAX);
        Label(self.places.len() - 1)
    }

    pub(super) fn here(&mut self, label: Label) {
        self.places[label.0] = self.words.len();
    }

    pub(super) fn jump(&mut self, code: u8, left: u8, right: u8, number: u32, to: Label) {
        self.jumps.push((self.words.len(), to));
        self.op(code, left, right, 0, number);
    }

    /// A number of 64 bits, or with `kind` 1 a map by its descriptor.
    pub(super) fn load(&mut self, to: u8, kind: u8, number: u64) {
        self.op(LOAD_NUMBER, to, kind, 0, number as u32);
        self.op(0, 0, 0, 0, (number >> 32) as u32);
    }

    /// Jumps when the packet at register 2 has not so many bytes; uses register 4.
    pub(super) fn needs(&mut self, bytes: u32, otherwise: Label) {
        self.op(MOVE, 4, 2, 0, 0);
        self.op(ADD_NUMBER, 4, 0, 0, bytes);
        self.jump(JUMP_ABOVE, 4, 3, 0, otherwise);
    }

    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let distance = self.places[label.0] as i64 - *at as i64 - 1;
            self.words[*at] |= u64::from(distance as i16 as u16) << 16;
        }
        self.words
    }
}
