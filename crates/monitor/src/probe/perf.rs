//! The tier without BPF: counters on the tracepoints at the exit of each system call, with filters in the kernel.
//!
//! A counter has a filter on the call's result (`ret==-11`) and counts one number; so each error, each size class
//! and each exact size is a counter, and an open file, of its own. Bytes are exact all the same: one counter for each
//! bit of the result (`ret&4096`) gives their sum. Descriptors cannot be told apart, nor times, files and stacks.
//!
//! Two ways to attach. By thread: a counter for each thread, inherited by whatever it starts. By CPU: a counter for
//! each CPU, filtered by thread id, which does not grow with the threads but misses those that start later. The first
//! is used while the files suffice, the second for programs with many threads.
//!
//! The surprise: no tracepoint has a number before tracefs is read, and on many hosts tracefs is not mounted. It is
//! mounted here without a place in the file tree, so that nothing is left behind.

use super::proc::{self, Reading};
use super::{ProbeConfig, Probed};
use record::{CallStats, FdClass, ProbeCost, TargetSignature, Tier, Unavailable};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

/// Most counters of all targets.
const MOST_COUNTERS: usize = 2000;
/// Open files that are left to the load.
const LEFT_TO_THE_LOAD: usize = 256;
/// The kernel takes a filter up to the length of a page.
const LONGEST_FILTER: usize = 4000;
/// Bits of a result that are summed up: calls of more than 64 MiB are not expected of a server.
const BITS: u32 = 26;
/// Size classes; the last one has no upper end.
const BINS: u32 = 22;
/// Sizes that are told apart exactly: those of buffers.
const EXACT: [u64; 5] = [1024, 4096, 8192, 16_384, 32_768];

/// What the results of a call say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Results {
    /// A size, and `EAGAIN`.
    Size,
    /// Only success or failure, with these errors told apart.
    Errors(&'static [(&'static str, i32)]),
}

const NO_FILE: Results = Results::Errors(&[("ENOENT", libc::ENOENT)]);
const ACCEPT: Results = Results::Errors(&[("EAGAIN", libc::EAGAIN), ("EMFILE", libc::EMFILE)]);
const CONNECT: Results = Results::Errors(&[
    ("EINPROGRESS", libc::EINPROGRESS),
    ("ECONNREFUSED", libc::ECONNREFUSED),
    ("EADDRNOTAVAIL", libc::EADDRNOTAVAIL),
]);
const PLAIN: Results = Results::Errors(&[]);

/// Calls by their own name, the tracepoint's name and their results. A call that this machine does not have has no
/// tracepoint and is left out.
const CALLS: &[(&str, &str, Results)] = &[
    ("read", "read", Results::Size),
    ("readv", "readv", Results::Size),
    ("recvfrom", "recvfrom", Results::Size),
    ("recvmsg", "recvmsg", Results::Size),
    ("pread64", "pread64", Results::Size),
    ("preadv", "preadv", Results::Size),
    ("write", "write", Results::Size),
    ("writev", "writev", Results::Size),
    ("sendto", "sendto", Results::Size),
    ("sendmsg", "sendmsg", Results::Size),
    ("pwrite64", "pwrite64", Results::Size),
    ("pwritev", "pwritev", Results::Size),
    ("sendfile", "sendfile64", Results::Size),
    ("splice", "splice", Results::Size),
    ("accept", "accept", ACCEPT),
    ("accept4", "accept4", ACCEPT),
    ("connect", "connect", CONNECT),
    ("open", "open", NO_FILE),
    ("openat", "openat", NO_FILE),
    ("stat", "newstat", NO_FILE),
    ("lstat", "newlstat", NO_FILE),
    ("newfstatat", "newfstatat", NO_FILE),
    ("statx", "statx", NO_FILE),
    ("access", "access", NO_FILE),
    ("faccessat", "faccessat", NO_FILE),
    ("fstat", "newfstat", PLAIN),
    ("close", "close", PLAIN),
    ("socket", "socket", PLAIN),
    ("shutdown", "shutdown", PLAIN),
    ("setsockopt", "setsockopt", PLAIN),
    ("getsockopt", "getsockopt", PLAIN),
    ("ioctl", "ioctl", PLAIN),
    ("fcntl", "fcntl", PLAIN),
    ("epoll_wait", "epoll_wait", PLAIN),
    ("epoll_pwait", "epoll_pwait", PLAIN),
    ("epoll_ctl", "epoll_ctl", PLAIN),
    ("poll", "poll", PLAIN),
    ("select", "select", PLAIN),
    ("futex", "futex", PLAIN),
    ("nanosleep", "nanosleep", PLAIN),
    ("clock_nanosleep", "clock_nanosleep", PLAIN),
    ("sched_yield", "sched_yield", PLAIN),
    ("brk", "brk", PLAIN),
    ("mmap", "mmap", PLAIN),
    ("munmap", "munmap", PLAIN),
    ("madvise", "madvise", PLAIN),
    ("fsync", "fsync", PLAIN),
    ("fdatasync", "fdatasync", PLAIN),
    ("unlink", "unlink", PLAIN),
    ("wait4", "wait4", PLAIN),
];

/// How much is counted of each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// Calls and errors.
    Counts,
    /// Also the sum of bytes, ends of file and exact sizes.
    Bytes,
    /// Also size classes.
    Sizes,
}

/// What one counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Calls,
    Error(&'static str),
    Failures,
    Zero,
    Exact(u64),
    Bit(u32),
    Bin(u32),
    Forks,
    Execs,
}

/// One number that is to be counted.
#[derive(Clone, Debug)]
struct Item {
    /// Name of the call; empty for forks and execs.
    call: &'static str,
    tracepoint: u64,
    what: What,
    /// Condition on the result; empty counts all.
    filter: String,
}

/// The conditions on the results of a call.
fn conditions(results: Results, detail: Detail) -> Vec<(What, String)> {
    let mut conditions = vec![
        (What::Calls, String::new()),
        (What::Failures, "ret<0".to_owned()),
    ];
    let errors = match results {
        Results::Size => &[("EAGAIN", libc::EAGAIN)],
        Results::Errors(errors) => errors,
    };
    conditions.extend(
        errors
            .iter()
            .map(|(name, errno)| (What::Error(name), format!("ret==-{errno}"))),
    );
    if results != Results::Size {
        return conditions;
    }
    if detail >= Detail::Bytes {
        conditions.push((What::Zero, "ret==0".to_owned()));
        conditions.extend(EXACT.map(|size| (What::Exact(size), format!("ret=={size}"))));
        let bit = |bit: u32| (What::Bit(bit), format!("ret>0&&ret&{}", 1u64 << bit));
        conditions.extend((0..BITS).map(bit));
    }
    if detail >= Detail::Sizes {
        let bin = |bin: u32| {
            let upper = match bin + 1 {
                BINS => String::new(),
                next => format!("&&ret<{}", 1u64 << next),
            };
            (What::Bin(bin), format!("ret>={}{upper}", 1u64 << bin))
        };
        conditions.extend((0..BINS).map(bin));
    }
    conditions
}

/// Everything that can be counted here at this detail.
fn items(ids: &BTreeMap<&'static str, u64>, detail: Detail) -> Vec<Item> {
    let mut items = Vec::new();
    for (call, tracepoint, results) in CALLS {
        let Some(&id) = ids.get(tracepoint) else {
            continue;
        };
        items.extend(
            conditions(*results, detail)
                .into_iter()
                .map(|(what, filter)| Item {
                    call,
                    tracepoint: id,
                    what,
                    filter,
                }),
        );
    }
    for (name, what) in [(FORK, What::Forks), (EXEC, What::Execs)] {
        items.extend(ids.get(name).map(|&tracepoint| Item {
            call: "",
            tracepoint,
            what,
            filter: String::new(),
        }));
    }
    items
}

const FORK: &str = "sched_process_fork";
const EXEC: &str = "sched_process_exec";

/// How the counters are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attach {
    Threads,
    Cpus,
}

/// The best way that keeps to the number of counters: following new threads is worth more than size classes, and
/// bytes more than following. `counters` is how many items there are at each detail.
fn choose(
    counters: impl Fn(Detail) -> usize,
    threads: usize,
    cpus: usize,
    budget: usize,
    cpus_possible: bool,
) -> Option<(Attach, Detail)> {
    let ways = [
        (Attach::Threads, Detail::Sizes),
        (Attach::Threads, Detail::Bytes),
        (Attach::Cpus, Detail::Sizes),
        (Attach::Cpus, Detail::Bytes),
        (Attach::Threads, Detail::Counts),
        (Attach::Cpus, Detail::Counts),
    ];
    ways.into_iter().find(|(attach, detail)| match attach {
        Attach::Threads => counters(*detail) * threads <= budget,
        Attach::Cpus => cpus_possible && counters(*detail) * cpus <= budget,
    })
}

/// A condition for a set of threads; runs of consecutive ids become ranges.
fn thread_condition(tids: &BTreeSet<i32>) -> String {
    let mut runs: Vec<(i32, i32)> = Vec::new();
    for &tid in tids {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == tid => *last = tid,
            _ => runs.push((tid, tid)),
        }
    }
    let run = |(first, last): (i32, i32)| {
        if first == last {
            format!("common_pid=={first}")
        } else {
            format!("(common_pid>={first}&&common_pid<={last})")
        }
    };
    let runs: Vec<String> = runs.into_iter().map(run).collect();
    format!("({})", runs.join("||"))
}

/// Both conditions.
fn and(threads: &str, result: &str) -> String {
    if result.is_empty() {
        threads.to_owned()
    } else {
        format!("{threads}&&({result})")
    }
}

/// An open counter.
#[derive(Debug)]
struct Counter {
    target: usize,
    item: usize,
    file: File,
}

/// Armed counters.
#[derive(Debug)]
pub(crate) struct PerfProbes {
    config: ProbeConfig,
    counters: Vec<Counter>,
    items: Vec<Item>,
    attach: Attach,
    detail: Detail,
    threads: BTreeMap<i32, usize>,
    before: Reading,
    unavailable: Vec<Unavailable>,
    armed_ns: u64,
}

impl PerfProbes {
    /// Attaches to every thread that the targets have now.
    ///
    /// # Errors
    /// Why no counter can be had, with what would help.
    pub(crate) fn arm(config: &ProbeConfig) -> Result<Self, Unavailable> {
        if !config.root.is_live() {
            return Err(refused(
                "the processes are not those of the running kernel",
                "",
            ));
        }
        let members = proc::members(&config.root, &config.targets)
            .map_err(|error| refused(&error.to_string(), error.remedy()))?;
        let threads = threads(config, &members);
        if threads.is_empty() {
            return Err(refused(
                "the targets have no process",
                "name processes that run",
            ));
        }
        let ids = tracepoint_ids()?;
        let by_target = conditions_by_target(&threads, config.targets.len());
        let online = online_cpus();
        let budget = budget();
        // A filter compares the kernel's own ids, which are others than those seen inside of a pid namespace.
        let other_ids = proc::in_own_pid_namespace();
        let short = by_target
            .iter()
            .all(|condition| condition.len() <= LONGEST_FILTER - 64);
        let way = |possible| {
            choose(
                |detail| items(&ids, detail).len(),
                threads.len(),
                online.len() * config.targets.len(),
                budget,
                possible,
            )
        };
        let (attach, detail) = way(short && !other_ids).ok_or_else(|| {
            if way(short).is_some() {
                let reason = format!(
                    "{} threads need counters by CPU, and prony runs in a pid namespace of its own, whose ids the counters' filters do not know",
                    threads.len()
                );
                return refused(
                    &reason,
                    "run prony in the host's pid namespace (docker run --pid=host), or raise the limit of open files (ulimit -n)",
                );
            }
            let reason = format!(
                "{} threads need more than the {budget} open files that are left",
                threads.len()
            );
            refused(
                &reason,
                "raise the limit of open files (ulimit -n), or name fewer processes",
            )
        })?;
        let mut probes = Self {
            config: config.clone(),
            counters: Vec::new(),
            items: items(&ids, detail),
            attach,
            detail,
            before: Reading::take(&config.root, &members),
            unavailable: proc::missing(&config.root, &config.targets),
            threads,
            armed_ns: 0,
        };
        match attach {
            Attach::Threads => probes.open_for_threads()?,
            Attach::Cpus => probes.open_for_cpus(&by_target, &online)?,
        }
        for counter in &probes.counters {
            sys::enable(&counter.file).map_err(|cause| refused_open(&cause))?;
        }
        probes.armed_ns = linux::clock::monotonic_ns();
        Ok(probes)
    }

    fn open_for_threads(&mut self) -> Result<(), Unavailable> {
        for (&tid, &target) in &self.threads {
            for (item, wanted) in self.items.iter().enumerate() {
                match sys::open(wanted.tracepoint, tid, -1, &wanted.filter) {
                    Ok(file) => self.counters.push(Counter { target, item, file }),
                    // It has ended since it was listed.
                    Err(cause) if cause.raw_os_error() == Some(libc::ESRCH) => break,
                    Err(cause) => return Err(refused_open(&cause)),
                }
            }
        }
        Ok(())
    }

    fn open_for_cpus(&mut self, conditions: &[String], cpus: &[i32]) -> Result<(), Unavailable> {
        for (target, threads) in conditions.iter().enumerate() {
            for (item, wanted) in self.items.iter().enumerate() {
                let filter = and(threads, &wanted.filter);
                for &cpu in cpus {
                    let file = sys::open(wanted.tracepoint, -1, cpu, &filter)
                        .map_err(|cause| refused_open(&cause))?;
                    self.counters.push(Counter { target, item, file });
                }
            }
        }
        Ok(())
    }

    /// Reads and closes the counters.
    pub(crate) fn disarm(mut self) -> Probed {
        let window_ns = linux::clock::monotonic_ns().saturating_sub(self.armed_ns);
        let counts = self.read();
        let targets = &self.config.targets;
        let mut signatures: Vec<TargetSignature> = targets.iter().map(proc::empty).collect();
        for (signature, counts) in signatures.iter_mut().zip(&counts) {
            self.fill(signature, counts);
        }
        let members = proc::members(&self.config.root, targets).unwrap_or_default();
        let after = Reading::take(&self.config.root, &members);
        let mut unavailable = std::mem::take(&mut self.unavailable);
        unavailable.append(&mut proc::fill(&mut signatures, &self.before, &after));
        unavailable.extend(self.gaps(&threads(&self.config, &members)));
        let calls = signatures.iter().flat_map(|s| s.calls.iter().flatten());
        let cost = ProbeCost {
            probe: "perf counters".to_owned(),
            events: calls.map(|call| call.calls).sum(),
            expected_share: None,
            measured_ns: None,
        };
        Probed {
            tier: Tier::PerfEvents,
            targets: signatures,
            unavailable,
            lost: 0,
            window_ns,
            cost: vec![cost],
        }
    }

    /// Counts by target and item. A counter that cannot be read becomes a gap.
    fn read(&mut self) -> Vec<Vec<u64>> {
        let mut counts = vec![vec![0; self.items.len()]; self.config.targets.len()];
        for counter in &mut self.counters {
            let mut bytes = [0; 8];
            match counter.file.read_exact(&mut bytes) {
                Ok(()) => counts[counter.target][counter.item] += u64::from_ne_bytes(bytes),
                Err(cause) => self.unavailable.push(Unavailable {
                    what: format!(
                        "some calls of {}",
                        self.config.targets[counter.target].target
                    ),
                    reason: format!("reading a counter: {cause}"),
                    remedy: String::new(),
                }),
            }
        }
        counts
    }

    fn fill(&self, signature: &mut TargetSignature, counts: &[u64]) {
        let mut calls: BTreeMap<&str, CallStats> = BTreeMap::new();
        for (item, &count) in self.items.iter().zip(counts) {
            match item.what {
                What::Forks => signature.forks = Some(count),
                What::Execs => signature.execs = Some(count),
                what => {
                    let call = calls.entry(item.call).or_insert_with(|| CallStats {
                        call: item.call.to_owned(),
                        class: FdClass::Unknown,
                        ..CallStats::default()
                    });
                    add(call, what, count);
                }
            }
        }
        let mut calls: Vec<CallStats> = calls.into_values().filter(|c| c.calls > 0).collect();
        for call in &mut calls {
            call.top_sizes
                .sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        }
        signature.calls = Some(calls);
    }

    /// What this tier cannot see.
    fn gaps(&self, now: &BTreeMap<i32, usize>) -> Vec<Unavailable> {
        let bpf = "run prony as root on a kernel with BPF and BTF";
        let gap = |what: &str, reason: &str, remedy: &str| Unavailable {
            what: what.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        };
        let mut gaps = vec![
            gap(
                "descriptor classes, times and asked sizes of calls, files, waits, sockets, upstreams, heads, allocator",
                "counters on tracepoints have a number each and no memory; these need BPF",
                bpf,
            ),
            gap(
                "sizes other than 1024, 4096, 8192, 16384 and 32768 bytes, errors other than the usual",
                "each needs a counter of its own",
                bpf,
            ),
        ];
        let few = "each needs an open file, and too few are left for the threads of the targets";
        if self.detail < Detail::Sizes {
            gaps.push(gap(
                "size classes of calls",
                few,
                "raise the limit of open files (ulimit -n)",
            ));
        }
        if self.detail < Detail::Bytes {
            gaps.push(gap(
                "bytes of calls",
                few,
                "raise the limit of open files (ulimit -n)",
            ));
        }
        let late = now
            .keys()
            .filter(|tid| !self.threads.contains_key(tid))
            .count();
        if self.attach == Attach::Cpus && late > 0 {
            let reason = format!(
                "{late} threads started after the counters were set, and are not in their filters"
            );
            gaps.push(gap("calls of new threads", &reason, bpf));
        }
        gaps
    }
}

fn add(call: &mut CallStats, what: What, count: u64) {
    match what {
        What::Calls => call.calls = count,
        // Failures come before the errors that are told apart, which are then taken off.
        What::Failures => {
            if count > 0 {
                call.errors.insert(OTHER.to_owned(), count);
            }
        }
        What::Error(name) => {
            if count > 0 {
                call.errors.insert(name.to_owned(), count);
                let other = call.errors.remove(OTHER).unwrap_or(0).saturating_sub(count);
                if other > 0 {
                    call.errors.insert(OTHER.to_owned(), other);
                }
            }
        }
        What::Zero => call.zero = count,
        What::Exact(size) => {
            if count > 0 {
                call.top_sizes.push((size, count));
            }
        }
        What::Bit(bit) => call.bytes += count << bit,
        What::Bin(_) => call.sizes.push(count),
        What::Forks | What::Execs => {}
    }
}

/// Errors that have no counter of their own.
const OTHER: &str = "other";

/// The thread ids of the members, each with its target.
fn threads(config: &ProbeConfig, members: &BTreeMap<i32, usize>) -> BTreeMap<i32, usize> {
    let of = |(&pid, &target): (&i32, &usize)| {
        // A process that has ended has none.
        let tids = config
            .root
            .list_ids(&format!("proc/{pid}/task"))
            .unwrap_or_default();
        tids.into_iter().map(move |tid| (tid, target))
    };
    members.iter().flat_map(of).collect()
}

fn conditions_by_target(threads: &BTreeMap<i32, usize>, targets: usize) -> Vec<String> {
    let of = |target| {
        threads
            .iter()
            .filter(move |(_, t)| **t == target)
            .map(|(tid, _)| *tid)
    };
    // No thread has the id -1: a target without any counts nothing.
    (0..targets)
        .map(|target| of(target).collect::<BTreeSet<i32>>())
        .map(|tids| {
            if tids.is_empty() {
                BTreeSet::from([-1])
            } else {
                tids
            }
        })
        .map(|tids| thread_condition(&tids))
        .collect()
}

/// Counters that may be opened.
fn budget() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    limit
        .saturating_sub(open + LEFT_TO_THE_LOAD)
        .min(MOST_COUNTERS)
}

/// From `0-3,8`; CPU 0 alone when the file cannot be read.
fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    };
    let cpus: Vec<i32> = text.trim().split(',').filter_map(range).flatten().collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The numbers of the tracepoints that this kernel has.
fn tracepoint_ids() -> Result<BTreeMap<&'static str, u64>, Unavailable> {
    let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let mounted = mounted
        .into_iter()
        .find(|path| path.join("events").is_dir());
    // Held until the numbers are read: the mount goes with its last file.
    let detached;
    let tracefs = match mounted {
        Some(path) => path,
        None => {
            detached = sys::mount_tracefs().map_err(|cause| {
                refused(
                    &format!("the tracepoints' numbers are in tracefs, which is not readable here; mounting it: {cause}"),
                    "run prony as root (CAP_SYS_ADMIN), or mount tracefs at /sys/kernel/tracing readable for it",
                )
            })?;
            PathBuf::from(format!("/proc/self/fd/{}", detached.as_raw_fd()))
        }
    };
    let id = |event: String| {
        let text = std::fs::read_to_string(tracefs.join("events").join(event).join("id")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let calls = CALLS.iter().map(|(_, name, _)| *name);
    let calls = calls.filter_map(|name| Some((name, id(format!("syscalls/sys_exit_{name}"))?)));
    let mut ids: BTreeMap<&'static str, u64> = calls.collect();
    if ids.is_empty() {
        return Err(refused(
            "tracefs lists no tracepoints of system calls",
            "use a kernel with CONFIG_FTRACE_SYSCALLS, and run prony as root",
        ));
    }
    for name in [FORK, EXEC] {
        ids.extend(id(format!("sched/{name}")).map(|id| (name, id)));
    }
    Ok(ids)
}

fn refused(reason: &str, remedy: &str) -> Unavailable {
    Unavailable {
        what: "counters on tracepoints".to_owned(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    }
}

fn refused_open(cause: &io::Error) -> Unavailable {
    let paranoid =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let remedy = match cause.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "run prony as root, or give it CAP_PERFMON; in a container allow perf_event_open in its seccomp profile"
        }
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files (ulimit -n)",
        Some(libc::ENOSYS) => "use a kernel with CONFIG_PERF_EVENTS",
        _ => "",
    };
    let reason = format!(
        "perf_event_open: {cause} (kernel.perf_event_paranoid is {})",
        paranoid.trim()
    );
    refused(&reason, remedy)
}

/// The system calls that have no safe wrapper.
mod sys {
    use super::{AsRawFd, CString, File, FromRawFd, OwnedFd, io};

    const PERF_TYPE_TRACEPOINT: u32 = 2;
    const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
    const DISABLED: u64 = 1;
    const INHERIT: u64 = 1 << 1;
    const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
    const PERF_EVENT_IOC_SET_FILTER: libc::c_ulong = 0x4008_2406;

    /// `struct perf_event_attr` in its first published size, 64 bytes, which every kernel takes.
    #[repr(C)]
    #[derive(Default)]
    struct Attr {
        kind: u32,
        size: u32,
        config: u64,
        sample_period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        wakeup_events: u32,
        bp_type: u32,
        config1: u64,
    }

    /// Opens a disabled counter on a tracepoint, for a thread with its children or for a CPU.
    pub(super) fn open(tracepoint: u64, tid: i32, cpu: i32, filter: &str) -> io::Result<File> {
        let attr = Attr {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attr>() as u32,
            config: tracepoint,
            flags: if tid >= 0 {
                DISABLED | INHERIT
            } else {
                DISABLED
            },
            ..Attr::default()
        };
        // SAFETY: `attr` outlives the call and says its own size; the kernel only reads it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attr,
                tid,
                cpu,
                -1,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        let file = File::from(owned(fd)?);
        if !filter.is_empty() {
            let filter = CString::new(filter)?;
            // SAFETY: the filter is a string that ends in zero and outlives the call, which copies it.
            let set = unsafe {
                libc::ioctl(
                    file.as_raw_fd(),
                    PERF_EVENT_IOC_SET_FILTER as _,
                    filter.as_ptr(),
                )
            };
            checked(libc::c_long::from(set))?;
        }
        Ok(file)
    }

    /// Lets a counter count.
    pub(super) fn enable(counter: &File) -> io::Result<()> {
        // SAFETY: the descriptor is open as long as `counter`; the operation takes no pointer.
        let set = unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_ENABLE as _, 0) };
        checked(libc::c_long::from(set)).map(|_| ())
    }

    /// tracefs without a place in the file tree; it is gone when the descriptor is closed.
    pub(super) fn mount_tracefs() -> io::Result<OwnedFd> {
        // FSOPEN_CLOEXEC, FSCONFIG_CMD_CREATE, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY (include/uapi/linux/mount.h).
        const CLOEXEC: libc::c_uint = 1;
        const CREATE: libc::c_uint = 6;
        const READ_ONLY: libc::c_uint = 1;
        // SAFETY: the name is a string that ends in zero and lives for ever.
        let context =
            owned(unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), CLOEXEC) })?;
        let null = std::ptr::null::<libc::c_char>();
        // SAFETY: this command takes neither key nor value, both have to be null.
        let created = unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                context.as_raw_fd(),
                CREATE,
                null,
                null,
                0,
            )
        };
        checked(created)?;
        // SAFETY: no pointers; the descriptor is open as long as `context`.
        owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOEXEC, READ_ONLY) })
    }

    fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(result)
    }

    fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
        let fd = checked(result)? as i32;
        // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_threads_become_a_range() {
        for (tids, expected) in [
            (vec![7], "(common_pid==7)"),
            (
                vec![7, 8, 9, 12],
                "((common_pid>=7&&common_pid<=9)||common_pid==12)",
            ),
        ] {
            assert_eq!(thread_condition(&tids.into_iter().collect()), expected);
        }
        assert_eq!(and("(common_pid==7)", "ret<0"), "(common_pid==7)&&(ret<0)");
        assert_eq!(and("(common_pid==7)", ""), "(common_pid==7)");
    }

    #[test]
    fn the_way_follows_the_number_of_threads() {
        let counters = |detail| match detail {
            Detail::Counts => 100,
            Detail::Bytes => 500,
            Detail::Sizes => 900,
        };
        for (threads, cpus, budget, possible, expected) in [
            (1, 2, 2000, true, Some((Attach::Threads, Detail::Sizes))),
            (4, 2, 2000, true, Some((Attach::Threads, Detail::Bytes))),
            (50, 2, 2000, true, Some((Attach::Cpus, Detail::Sizes))),
            (15, 64, 2000, true, Some((Attach::Threads, Detail::Counts))),
            (50, 2, 2000, false, None),
            (1, 1, 99, true, None),
        ] {
            assert_eq!(choose(counters, threads, cpus, budget, possible), expected);
        }
    }

    #[test]
    fn errors_without_a_counter_are_the_rest_of_the_failures() {
        let mut call = CallStats::default();
        for (what, count) in [
            (What::Calls, 20),
            (What::Failures, 5),
            (What::Error("EAGAIN"), 3),
            (What::Error("ENOENT"), 0),
            (What::Bit(0), 2),
            (What::Bit(12), 4),
        ] {
            add(&mut call, what, count);
        }
        let errors = [("EAGAIN".to_owned(), 3), ("other".to_owned(), 2)];
        assert_eq!(call.errors, BTreeMap::from(errors));
        assert_eq!(call.bytes, 2 + 4 * 4096);
    }
}
