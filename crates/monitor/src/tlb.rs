//! Data TLB loads and misses of the targets, from the CPU's own counters through perf_event_open(2).
//!
//! Only on request ([`crate::Extras`]): many machines have no such counter, virtual ones above all, and a gap in
//! every record would teach nobody anything. The surprise: a counter belongs to one thread, and a CPU has few of
//! them, so the kernel gives each event its turn; counts are scaled to the whole time as perf does.

use crate::recorder::Rows;
use crate::tree::Members;
use crate::{MonitorError, Pass, Recorder, Signal, Source};
use linux::Root;
use perf_event_open_sys as perf;
use perf_event_open_sys::bindings as sys;
use record::Nanos;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

const SOURCE: &str = "perf_event_open(2)";

/// Of one target.
pub const TLB: [Signal; 2] = [
    Signal::counter("tlb.loads", "calls", SOURCE),
    Signal::counter("tlb.misses", "calls", SOURCE),
];

/// Threads that are counted; each costs two descriptors.
const MOST_THREADS: usize = 256;

/// `PERF_TYPE_HW_CACHE`: the cache, the operation and the result, a byte each.
const fn cache_event(result: u32) -> u64 {
    let result = result as u64;
    sys::PERF_COUNT_HW_CACHE_DTLB as u64
        | (sys::PERF_COUNT_HW_CACHE_OP_READ as u64) << 8
        | result << 16
}

const EVENTS: [(u32, u64); 2] = [
    (
        sys::PERF_TYPE_HW_CACHE,
        cache_event(sys::PERF_COUNT_HW_CACHE_RESULT_ACCESS),
    ),
    (
        sys::PERF_TYPE_HW_CACHE,
        cache_event(sys::PERF_COUNT_HW_CACHE_RESULT_MISS),
    ),
];

/// A counter of one thread.
#[derive(Debug)]
struct Counter {
    file: File,
    /// What it stood at when it was last read: a thread that ends keeps what it counted.
    last: f64,
}

impl Counter {
    fn open(kind: u32, config: u64, tid: i32) -> io::Result<Self> {
        let mut attr = sys::perf_event_attr {
            type_: kind,
            size: size_of::<sys::perf_event_attr>() as u32,
            config,
            read_format: u64::from(
                sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING,
            ),
            ..sys::perf_event_attr::default()
        };
        attr.set_exclude_hv(1);
        // SAFETY: `attr` is initialised, states its own size, and outlives the call.
        let fd = unsafe {
            perf::perf_event_open(&raw mut attr, tid, -1, -1, sys::PERF_FLAG_FD_CLOEXEC.into())
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
        let file = unsafe { File::from_raw_fd(fd) };
        Ok(Self { file, last: 0.0 })
    }

    /// The count so far, scaled to the time in which it was not on a CPU's counter.
    fn read(&mut self) -> f64 {
        let mut words = [0u8; 24];
        if let Ok(24) = self.file.read(&mut words) {
            let word = |i: usize| {
                words[i * 8..]
                    .first_chunk()
                    .map_or(0, |b| u64::from_ne_bytes(*b))
            };
            self.last = scaled(word(0), word(1), word(2)).unwrap_or(self.last);
        }
        self.last
    }
}

/// The count times enabled over running time; `None` while it never ran.
fn scaled(count: u64, enabled: u64, running: u64) -> Option<f64> {
    (running > 0).then(|| count as f64 * (enabled as f64 / running as f64))
}

/// The source.
#[derive(Debug)]
pub struct Tlb {
    root: Root,
    members: Members,
    slow_interval: Nanos,
    /// Of each thread, with the index of its target.
    counters: BTreeMap<i32, (usize, [Counter; 2])>,
    rows: Rows<usize, 2>,
    gave_up: bool,
}

impl Tlb {
    /// The threads of `members`.
    pub fn new(root: &Root, members: Members, slow_interval: Nanos) -> Self {
        Self {
            root: root.clone(),
            members,
            slow_interval,
            counters: BTreeMap::new(),
            rows: Rows::new(TLB),
            gave_up: false,
        }
    }

    /// Counts the threads that are not counted yet.
    fn join(&mut self, at: Nanos) -> Result<(), MonitorError> {
        for (pid, target) in self.members.at(at, self.slow_interval)? {
            // A process that has ended meanwhile has no threads left to count.
            let tids = self
                .root
                .list_ids(&format!("proc/{pid}/task"))
                .unwrap_or_default();
            for tid in tids {
                if self.counters.contains_key(&tid) || self.counters.len() >= MOST_THREADS {
                    continue;
                }
                match open(tid) {
                    Ok(counters) => {
                        self.counters.insert(tid, (target, counters));
                    }
                    Err(cause) if cause.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(cause) => return Err(MonitorError::NoCounter { cause }),
                }
            }
        }
        Ok(())
    }
}

fn open(tid: i32) -> io::Result<[Counter; 2]> {
    let [loads, misses] = EVENTS;
    Ok([
        Counter::open(loads.0, loads.1, tid)?,
        Counter::open(misses.0, misses.1, tid)?,
    ])
}

impl Source for Tlb {
    fn name(&self) -> &'static str {
        "tlb"
    }

    fn due(&self, pass: Pass) -> bool {
        pass != Pass::Fast
    }

    fn sample(&mut self, at: Nanos, _pass: Pass, out: &mut Recorder) {
        if self.gave_up {
            return;
        }
        if let Err(error) = self.join(at) {
            self.gave_up = true;
            out.unavailable("tlb.loads", &error);
            return;
        }
        let targets = self.members.targets();
        let mut sums: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
        for (target, counters) in self.counters.values_mut() {
            let sum = sums.entry(*target).or_default();
            for (sum, counter) in sum.iter_mut().zip(counters) {
                *sum += counter.read();
            }
        }
        for (target, sum) in sums {
            let name = targets.get(target).cloned().unwrap_or_default();
            let labels = || vec![("target", name)];
            self.rows.push(&target, labels, at, sum, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Watched;

    #[test]
    fn a_count_is_scaled_to_the_whole_time() {
        for (count, enabled, running, want) in [
            (100, 10, 10, Some(100.0)),
            (100, 10, 5, Some(200.0)),
            (0, 10, 0, None),
        ] {
            assert_eq!(scaled(count, enabled, running), want);
        }
    }

    /// The same path with an event that every kernel has: this thread's time on a CPU.
    #[test]
    fn a_counter_counts_its_thread() {
        let event = u64::from(sys::PERF_COUNT_SW_TASK_CLOCK);
        let Ok(mut counter) = Counter::open(sys::PERF_TYPE_SOFTWARE, event, 0) else {
            return; // Neither root nor allowed by kernel.perf_event_paranoid.
        };
        let before = counter.read();
        assert_eq!(std::hint::black_box(0..10_000_u64).sum::<u64>(), 49_995_000);
        assert!(counter.read() > before);
    }

    /// Either it counts, or it says once why it cannot; never neither.
    #[test]
    fn counts_or_a_reason() {
        let own = Watched {
            target: "own".to_owned(),
            pids: vec![std::process::id().cast_signed()],
        };
        let root = Root::default();
        let members = Members::new(&root, &[own], None);
        let mut source = Tlb::new(&root, members, Nanos::SECOND);
        let mut out = Recorder::default();
        for at in 1..=2 {
            source.sample(Nanos(at), Pass::Edge, &mut out);
        }
        let (series, unavailable) = out.finish();
        match unavailable.as_slice() {
            [] => assert_eq!(series.len(), 2),
            [gap] => {
                assert_eq!((gap.what.as_str(), series.len()), ("tlb.loads", 0));
                assert!(gap.reason.contains("hardware counter"), "{}", gap.reason);
            }
            more => panic!("{more:?}"),
        }
    }
}
