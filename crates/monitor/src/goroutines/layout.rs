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
    /// Where the program counter of the `go` statement that made it is, before the first address of its function.
    pub(super) const GO_PC_BEFORE_START: usize = 16;

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

/// Words for reasons of waits in the order of their numbers until 1.25, with the minor versions that have them.
const REASONS: [(u32, u32, &str); 48] = [
    (19, 25, ""),
    (19, 25, "GC assist marking"),
    (19, 25, "IO wait"),
    (19, 25, "chan receive (nil chan)"),
    (19, 25, "chan send (nil chan)"),
    (19, 25, "dumping heap"),
    (19, 25, "garbage collection"),
    (19, 25, "garbage collection scan"),
    (19, 25, "panicwait"),
    (19, 25, "select"),
    (19, 25, "select (no cases)"),
    (19, 25, "GC assist wait"),
    (19, 25, "GC sweep wait"),
    (19, 25, "GC scavenge wait"),
    (19, 25, "chan receive"),
    (19, 25, "chan send"),
    (19, 25, "finalizer wait"),
    (19, 25, "force gc (idle)"),
    (25, 25, "GOMAXPROCS updater (idle)"),
    (19, 25, "semacquire"),
    (19, 25, "sleep"),
    (19, 25, "sync.Cond.Wait"),
    (19, 19, "timer goroutine (idle)"),
    (20, 25, "sync.Mutex.Lock"),
    (20, 25, "sync.RWMutex.RLock"),
    (20, 25, "sync.RWMutex.Lock"),
    (24, 25, "sync.WaitGroup.Wait"),
    (19, 25, "trace reader (blocked)"),
    (19, 25, "wait for GC cycle"),
    (19, 25, "GC worker (idle)"),
    (20, 25, "GC worker (active)"),
    (19, 25, "preempted"),
    (19, 25, "debug call"),
    (20, 25, "GC mark termination"),
    (20, 25, "stopping the world"),
    (22, 25, "flushing proc caches"),
    (22, 25, "trace goroutine status"),
    (22, 25, "trace proc status"),
    (22, 25, "page trace flush"),
    (22, 25, "coroutine"),
    (23, 25, "GC weak to strong wait"),
    (24, 25, "synctest.Run"),
    (24, 25, "synctest.Wait"),
    (24, 25, "chan receive (durable)"),
    (24, 25, "chan send (durable)"),
    (24, 25, "select (durable)"),
    (25, 25, "sync.WaitGroup.Wait (durable)"),
    (25, 25, "cleanup wait"),
];
/// The order of 1.26, in which those that mean that a goroutine may never go on stand together.
const REASONS_26: [&str; 47] = [
    "",
    "GC assist marking",
    "IO wait",
    "dumping heap",
    "garbage collection",
    "garbage collection scan",
    "panicwait",
    "GC assist wait",
    "GC sweep wait",
    "GC scavenge wait",
    "finalizer wait",
    "force gc (idle)",
    "GOMAXPROCS updater (idle)",
    "semacquire",
    "sleep",
    "chan receive (nil chan)",
    "chan send (nil chan)",
    "select (no cases)",
    "select",
    "chan receive",
    "chan send",
    "sync.Cond.Wait",
    "sync.Mutex.Lock",
    "sync.RWMutex.RLock",
    "sync.RWMutex.Lock",
    "sync.WaitGroup.Wait",
    "trace reader (blocked)",
    "wait for GC cycle",
    "GC worker (idle)",
    "GC worker (active)",
    "preempted",
    "debug call",
    "GC mark termination",
    "stopping the world",
    "flushing proc caches",
    "trace goroutine status",
    "trace proc status",
    "page trace flush",
    "coroutine",
    "GC weak to strong wait",
    "synctest.Run",
    "synctest.Wait",
    "chan receive (durable)",
    "chan send (durable)",
    "select (durable)",
    "sync.WaitGroup.Wait (durable)",
    "cleanup wait",
];

/// Words for reasons by number, for a program that lost the name of its own table.
pub(super) fn reasons(minor: u32) -> Option<Vec<String>> {
    if minor == 26 {
        return Some(REASONS_26.map(str::to_owned).to_vec());
    }
    let of = REASONS
        .iter()
        .filter(|(from, to, _)| (*from..=*to).contains(&minor));
    let words: Vec<String> = of.map(|(_, _, words)| (*words).to_owned()).collect();
    (!words.is_empty()).then_some(words)
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
        // As many as the tables of their programs hold.
        for (minor, count) in [
            (19, 27),
            (21, 32),
            (22, 37),
            (23, 38),
            (24, 44),
            (25, 47),
            (26, 47),
        ] {
            let words = reasons(minor).unwrap();
            assert_eq!(words.len(), count, "1.{minor}");
            assert_eq!(words[2], "IO wait", "1.{minor}");
        }
        assert_eq!(reasons(18), None);
        assert_eq!(Layout::of(17), None);
        assert_eq!(Layout::of(27), None);
    }
}
