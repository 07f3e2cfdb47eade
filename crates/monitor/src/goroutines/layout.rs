//! Where the runtime of each Go version keeps what is read of a goroutine.
//!
//! Offsets in `runtime.g` (src/runtime/runtime2.go) of 64-bit programs: 1.19 and 1.21 to 1.26 as their compilers' own
//! debugging information states them, 1.18 and 1.20 as that file's fields add up. A version that is not here is
//! refused: a wrong offset does not fail, it lies. The reasons of waits are numbered anew in nearly every version, so
//! their words are read from the program itself, and only for programs without symbols from a table.

/// Offsets of fields of a goroutine, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub sched_bp: usize,
    pub syscall_pc: usize,
    /// Kept beside the syscall's program counter since 1.23.
    pub syscall_bp: Option<usize>,
    pub status: usize,
    pub reason: usize,
    pub start_pc: usize,
    pub sleep: Sleep,
}

/// Where it stands until when a goroutine sleeps, ns on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// In the goroutine.
    Until(usize),
    /// In the timer that the goroutine points to.
    Timer { pointer: usize, when: u64 },
}

impl Layout {
    pub(super) const STACK_LO: usize = 0;
    pub(super) const STACK_HI: usize = 8;
    pub(super) const SCHED_SP: usize = 56;
    pub(super) const SCHED_PC: usize = 64;

    /// Of a minor version of Go 1.
    pub(super) fn of(minor: u32) -> Option<Self> {
        let old = Self {
            sched_bp: 104,
            syscall_pc: 120,
            syscall_bp: None,
            status: 144,
            reason: 176,
            start_pc: 312,
            sleep: Sleep::Timer {
                pointer: 368,
                when: 8,
            },
        };
        match minor {
            18..=20 => Some(old),
            21 | 22 => Some(Self {
                start_pc: 296,
                sleep: Sleep::Timer {
                    pointer: 352,
                    when: 8,
                },
                ..old
            }),
            23 | 24 => Some(Self {
                syscall_bp: Some(128),
                status: 152,
                reason: 184,
                start_pc: 304,
                sleep: Sleep::Until(368),
                ..old
            }),
            25 | 26 => Some(Self {
                sched_bp: 96,
                syscall_pc: 112,
                syscall_bp: Some(120),
                start_pc: if minor == 25 { 296 } else { 304 },
                sleep: Sleep::Until(if minor == 25 { 360 } else { 368 }),
                ..old
            }),
            _ => None,
        }
    }

    /// Bytes that are read of each goroutine.
    pub(super) fn bytes(self) -> usize {
        let sleep = match self.sleep {
            Sleep::Until(at) | Sleep::Timer { pointer: at, .. } => at,
        };
        self.start_pc.max(sleep) + 8
    }
}

/// The versions that are known, for messages.
pub(super) const KNOWN: &str = "1.18 to 1.26";

/// The minor version of `go1.22.12`, `go1.26.8 X:nodwarf5`.
pub(super) fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_known_or_refused() {
        for (text, expected) in [
            ("go1.26.8", Some(26)),
            ("go1.19.8", Some(19)),
            ("go1.22rc1", Some(22)),
            ("go1.25 X:nodwarf5", Some(25)),
            ("devel go1.27-1a2b3c", None),
            ("gccgo", None),
            ("go2.0", None),
        ] {
            assert_eq!(minor(text), expected, "{text}");
        }
        assert!((18..=26).all(|minor| Layout::of(minor).is_some()));
        assert_eq!(Layout::of(17), None);
        assert_eq!(Layout::of(27), None);
    }
}
