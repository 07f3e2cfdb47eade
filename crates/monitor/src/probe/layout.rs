//! The maps' keys and values, as `bpf/prony.bpf.c` declares them.
//!
//! The surprise: nothing but equal declarations on both sides holds them together; the loader compares only
//! sizes. So every structure here has no padding that the other side could fill differently.

use record::FdClass;

/// Entries of the table of calls.
pub(crate) const TABLE_ENTRIES: u32 = 1024;
/// Bytes of a file's name.
pub(crate) const NAME: usize = 96;
/// Bytes of a head.
pub(crate) const HEAD: usize = 512;
/// Bytes by which an answer begins, and by which it ends.
pub(crate) const ANSWER_BEGINS: usize = 16;
pub(crate) const ANSWER_ENDS: usize = 32;

/// How the kernel's side learns how much a call asks for.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Asked {
    Not,
    Arg2,
    Iov,
    Msg,
    Arg3,
    Arg4,
}

/// Which way the bytes go.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Dir {
    None,
    Read,
    Write,
}

/// What a call is beside its bytes.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum Kind {
    Plain,
    Open,
    Stat,
    Sync,
    Connect,
    Sendfile,
    Close,
}

/// What a call's arguments mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Call {
    pub fd: u8,
    pub path: u8,
    pub asked: u8,
    pub dir: u8,
    pub kind: u8,
    pub unused: [u8; 3],
}

/// `nr` outside any system call.
pub(crate) const NO_CALL: i32 = -1;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Thread {
    pub entered_ns: u64,
    pub off_ns: u64,
    pub asked: u64,
    pub user: u64,
    pub sk: u64,
    pub target: u32,
    pub nr: i32,
    pub fd: i32,
    pub fd_in: i32,
    pub user_len: u32,
    pub class: u8,
    pub state: u8,
    pub seeded: u8,
    pub asked_known: u8,
    pub vec: u64,
    pub vecs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(crate) struct CallKey {
    pub target: u32,
    pub nr: u16,
    pub class: u16,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct CallCounts {
    pub calls: u64,
    pub time_ns: u64,
    pub bytes: u64,
    pub asked: u64,
    pub full: u64,
    pub partial: u64,
    pub zero: u64,
    pub sizes: [u64; 32],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CountKey {
    pub call: CallKey,
    pub value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(crate) struct WaitKey {
    pub target: u32,
    pub nr: i32,
    pub class: u16,
    pub state: u16,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct WaitCounts {
    pub waits: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    pub lengths: [u64; 32],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FileKey {
    pub target: u32,
    pub name: [u8; NAME],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct FileCounts {
    pub opens: u64,
    pub missing: u64,
    pub stats: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
    pub syncs: u64,
    pub flags: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(crate) struct Peer {
    pub target: u32,
    pub family: u16,
    pub port: u16,
    pub address: [u8; 108],
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct PeerCounts {
    pub connects: u64,
    pub requests: u64,
    pub wait_ns: u64,
    pub written_bytes: u64,
    pub read_bytes: u64,
    pub answered_ns: u64,
    pub waits: [u64; 32],
    pub answered: [u64; 32],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PeerError {
    pub peer: Peer,
    pub error: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ClassKey {
    pub target: u32,
    pub class: u32,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct SockCounts {
    pub established: u64,
    pub closed_by_us: u64,
    pub closed_by_peer: u64,
    pub resets_sent: u64,
    pub resets_unused: u64,
    pub resets_received: u64,
    pub retransmits: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ProcessCounts {
    pub forks: u64,
    pub execs: u64,
}

/// An answer that refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(crate) struct RefusalKey {
    pub target: u32,
    pub protocol: u8,
    pub code: [u8; 11],
}

/// Text mapping of a process' allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Text {
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AllocKey {
    pub target: u32,
    pub site: u32,
}

macro_rules! pod {
    ($($name:ident = $bytes:literal),* $(,)?) => {
        $(
            // SAFETY: `repr(C)`, made of integers and arrays of them, and without padding, which the
            // assertion below holds; any bytes are a value.
            unsafe impl aya::Pod for $name {}
            const _: () = assert!(size_of::<$name>() == $bytes);
        )*
    };
}

pod!(
    Call = 8,
    Thread = 80,
    CallKey = 8,
    CallCounts = 312,
    CountKey = 16,
    WaitKey = 12,
    WaitCounts = 280,
    FileKey = 100,
    FileCounts = 72,
    Peer = 116,
    PeerCounts = 560,
    PeerError = 120,
    ClassKey = 8,
    SockCounts = 56,
    ProcessCounts = 16,
    RefusalKey = 16,
    Text = 16,
    AllocKey = 8,
);

/// The class with this number; the kernel's side numbers them in the order of [`FdClass::ALL`].
pub(crate) fn class(number: u16) -> FdClass {
    let known = FdClass::ALL.get(usize::from(number));
    known.copied().unwrap_or(FdClass::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_the_numbers_of_the_kernels_side() {
        for (number, class_) in (0_u16..).zip(FdClass::ALL) {
            assert_eq!(class(number), class_);
            assert_eq!(u16::from(class_ as u8), number);
        }
        assert_eq!(class(99), FdClass::Unknown);
    }
}
