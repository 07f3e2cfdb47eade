//! The kernel's records, decoded.
//!
//! In the flow: bytes from a [`super::ring`] in, values out; nothing is kept. The layout is perf_event_open(2)'s
//! for the fields that [`super::event`] asks for, and every record beside samples carries [`Trailer`] at its end
//! (`sample_id_all`). The surprise: a sample says how much stack was *asked for* and, after it, how much there was.

use super::event::{REGISTERS, Registers};
use perf_event_open_sys::bindings as sys;

/// One record of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A stack.
    Sample(Sample<'a>),
    /// A process or thread was started.
    Fork {
        /// Its process.
        pid: i32,
        /// The process that started it.
        parent: i32,
        /// Its thread.
        tid: i32,
        /// The thread that started it.
        parent_tid: i32,
    },
    /// A thread ended.
    Exit {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// Time, ns.
        time: u64,
    },
    /// A thread took a name.
    Comm {
        /// Process.
        pid: i32,
        /// Thread.
        tid: i32,
        /// It did so by executing another program, which drops all mappings.
        exec: bool,
        name: String,
    },
    /// Code was mapped.
    Map {
        /// Process.
        pid: i32,
        /// Where.
        mapping: super::maps::Mapping,
    },
    /// A thread came onto a CPU or left it.
    Switch(Switch),
    /// Records that did not fit.
    Lost(u64),
}

/// A stack as the kernel took it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Time, ns on the monotonic clock.
    pub time: u64,
    /// Events that it stands for.
    pub period: u64,
    /// Kernel addresses, leaf first, without markers; empty when it was in user mode.
    pub kernel: Vec<u64>,
    /// User registers; `None` for a kernel thread or a 32-bit process.
    pub registers: Option<Registers>,
    /// Bytes from the stack pointer upwards.
    pub stack: &'a [u8],
    /// It belongs to a process with user memory.
    pub has_user: bool,
}

/// A thread came onto a CPU or left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Time, ns.
    pub time: u64,
    /// It left.
    pub out: bool,
    /// It was still ready to run.
    pub preempted: bool,
}

/// What [`super::event`] asks for at the end of every record but samples: `pid, tid, time`.
const TRAILER_BYTES: usize = 16;

struct Trailer {
    pid: i32,
    tid: i32,
    time: u64,
}

/// Reads a byte string from its start.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.bytes(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn id(&mut self) -> Option<i32> {
        Some(self.u32()? as i32)
    }

    fn text(self) -> String {
        let end = self.0.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&self.0[..end.unwrap_or(self.0.len())]).into_owned()
    }
}

fn trailer(body: &[u8]) -> Option<Trailer> {
    let mut reader = Reader(body.get(body.len().checked_sub(TRAILER_BYTES)?..)?);
    Some(Trailer {
        pid: reader.id()?,
        tid: reader.id()?,
        time: reader.u64()?,
    })
}

/// Process and thread of a sample record, without decoding the rest.
pub fn sample_ids(record: &[u8]) -> Option<(i32, i32)> {
    let mut reader = Reader(record.get(super::ring::HEADER_BYTES..)?);
    Some((reader.id()?, reader.id()?))
}

/// Type of a record.
pub fn kind(record: &[u8]) -> Option<u32> {
    Reader(record).u32()
}

/// Decodes one record; `None` for those without interest and for cut ones.
pub fn decode(record: &[u8]) -> Option<Record<'_>> {
    let misc = u32::from(u16::from_ne_bytes([*record.get(4)?, *record.get(5)?]));
    let body = record.get(super::ring::HEADER_BYTES..)?;
    let mut reader = Reader(body);
    match kind(record)? {
        sys::PERF_RECORD_SAMPLE => decode_sample(body).map(Record::Sample),
        sys::PERF_RECORD_LOST => {
            reader.u64()?;
            Some(Record::Lost(reader.u64()?))
        }
        sys::PERF_RECORD_FORK => Some(Record::Fork {
            pid: reader.id()?,
            parent: reader.id()?,
            tid: reader.id()?,
            parent_tid: reader.id()?,
        }),
        sys::PERF_RECORD_EXIT => {
            let pid = reader.id()?;
            reader.id()?;
            Some(Record::Exit {
                pid,
                tid: reader.id()?,
                time: trailer(body)?.time,
            })
        }
        sys::PERF_RECORD_COMM => Some(Record::Comm {
            pid: reader.id()?,
            tid: reader.id()?,
            exec: misc & sys::PERF_RECORD_MISC_COMM_EXEC != 0,
            name: reader.text(),
        }),
        sys::PERF_RECORD_MMAP2 => decode_map(reader),
        sys::PERF_RECORD_SWITCH | sys::PERF_RECORD_SWITCH_CPU_WIDE => {
            let Trailer { pid, tid, time } = trailer(body)?;
            Some(Record::Switch(Switch {
                pid,
                tid,
                time,
                out: misc & sys::PERF_RECORD_MISC_SWITCH_OUT != 0,
                preempted: misc & sys::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0,
            }))
        }
        _ => None,
    }
}

fn decode_map(mut reader: Reader<'_>) -> Option<Record<'_>> {
    let pid = reader.id()?;
    reader.id()?;
    let start = reader.u64()?;
    let length = reader.u64()?;
    let offset = reader.u64()?;
    // Device, inode and its generation; or a build id, which is not asked for.
    let device = (reader.u32()?, reader.u32()?);
    let inode = reader.u64()?;
    reader.u64()?;
    let protection = reader.u32()?;
    reader.u32()?;
    (protection & libc::PROT_EXEC as u32 != 0).then(|| Record::Map {
        pid,
        mapping: super::maps::Mapping {
            start,
            end: start.saturating_add(length),
            offset,
            device,
            inode,
            path: reader.text(),
        },
    })
}

fn decode_sample(body: &[u8]) -> Option<Sample<'_>> {
    let mut reader = Reader(body);
    let (pid, tid) = (reader.id()?, reader.id()?);
    let time = reader.u64()?;
    let period = reader.u64()?;
    let count = reader.u64()?;
    let mut kernel = Vec::new();
    let mut in_kernel = false;
    for _ in 0..count {
        let address = reader.u64()?;
        if address >= sys::PERF_CONTEXT_MAX {
            in_kernel = address == sys::PERF_CONTEXT_KERNEL;
        } else if in_kernel {
            kernel.push(address);
        }
    }
    let abi = reader.u64()?;
    let mut registers = None;
    if abi != u64::from(sys::PERF_SAMPLE_REGS_ABI_NONE) {
        let mut values = [0; REGISTERS];
        for value in &mut values {
            *value = reader.u64()?;
        }
        registers = (abi == u64::from(sys::PERF_SAMPLE_REGS_ABI_64)).then_some(Registers(values));
    }
    let asked = usize::try_from(reader.u64()?).ok()?;
    let mut stack: &[u8] = &[];
    if asked > 0 {
        stack = reader.bytes(asked)?;
        let there = usize::try_from(reader.u64()?).ok()?;
        stack = &stack[..there.min(asked)];
    }
    Some(Sample {
        pid,
        tid,
        time,
        period,
        kernel,
        registers,
        stack,
        has_user: abi != u64::from(sys::PERF_SAMPLE_REGS_ABI_NONE),
    })
}

/// A sample record without the part of the stack that was asked for and not there; the record as it is when it
/// cannot be read.
pub fn compact(record: &[u8]) -> Box<[u8]> {
    shortened(record).unwrap_or_else(|| record.into())
}

fn shortened(record: &[u8]) -> Option<Box<[u8]>> {
    let sample = decode_sample(record.get(super::ring::HEADER_BYTES..)?)?;
    let there = sample.stack.len();
    if there == 0 {
        return None;
    }
    // The stack stands between its asked size and its true size, which are the record's last fields.
    let start = sample.stack.as_ptr() as usize - record.as_ptr() as usize;
    let mut short = record.get(..start - 8)?.to_vec();
    short.extend_from_slice(&(there as u64).to_ne_bytes());
    short.extend_from_slice(sample.stack);
    short.extend_from_slice(&(there as u64).to_ne_bytes());
    Some(short.into_boxed_slice())
}
