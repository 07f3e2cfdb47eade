//! The best tier: BPF programs on tracepoints and at the allocator's functions, counting in the kernel.
//!
//! In the flow: [`EbpfProbes::arm`] loads the object that `bpf/prony.bpf.c` was compiled to, tells it whose calls
//! count, and attaches it; [`EbpfProbes::disarm`] detaches and hands the maps to `collect`.
//!
//! The surprise: nothing is pinned, so the kernel itself removes everything when the descriptors close, be it
//! by `drop` or by `kill -9`.

use super::error::{EbpfError, chain};
use super::layout::{Call, NO_CALL, TABLE_ENTRIES, Thread};
use super::{ProbeConfig, ProbeTarget, Probed, allocator, calls, collect, kernel, proc};
use aya::maps::{Array, HashMap, Map, MapError};
use aya::programs::{BtfTracePoint, Program, ProgramError, ProgramInfo};
use aya::sys::Stats;
use aya::{Btf, Ebpf};
use linux::Root;
use record::{FdClass, ProbeCost, Tier, Unavailable};
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The compiled kernel's side; a test compares it with the hashes beside it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/prony.bpf.o");

/// A program, its tracepoint, the probe that it belongs to in the table of costs, and what is not seen
/// without it.
struct Attachment {
    program: &'static str,
    tracepoint: &'static str,
    probe: &'static str,
    sees: &'static str,
}

const fn attachment(
    program: &'static str,
    tracepoint: &'static str,
    probe: &'static str,
    sees: &'static str,
) -> Attachment {
    Attachment {
        program,
        tracepoint,
        probe,
        sees,
    }
}

/// Without these the tier is worth nothing.
const REQUIRED: [Attachment; 5] = [
    attachment("forked", "sched_process_fork", "processes", "children"),
    attachment("executed", "sched_process_exec", "processes", "programs"),
    attachment("exited", "sched_process_exit", "processes", "thread ends"),
    attachment("exit_call", "sys_exit", "syscalls", "system calls"),
    attachment("enter_call", "sys_enter", "syscalls", "system calls"),
];

const SOCKETS: [Attachment; 4] = [
    attachment("tcp_state", "inet_sock_set_state", "sockets", "TCP states"),
    attachment("reset_sent", "tcp_send_reset", "sockets", "resets sent"),
    attachment(
        "reset_received",
        "tcp_receive_reset",
        "sockets",
        "resets received",
    ),
    attachment(
        "retransmitted",
        "tcp_retransmit_skb",
        "sockets",
        "retransmits",
    ),
];

/// In order of preference: since 6.3 there is a tracepoint of its own for data that has come.
const ARRIVALS: [Attachment; 2] = [
    attachment(
        "data_ready",
        "sk_data_ready",
        "arrivals",
        "arrival of upstreams' responses",
    ),
    attachment(
        "data_ready_old",
        "tcp_probe",
        "arrivals",
        "arrival of upstreams' responses",
    ),
];

/// In order of preference: since 5.18 the tracepoint itself tells the state.
const OFF_CPU: [Attachment; 2] = [
    attachment("off_cpu", "sched_switch", "off_cpu", "time off the CPU"),
    attachment("off_cpu_old", "sched_switch", "off_cpu", "time off the CPU"),
];

/// Armed programs.
pub(crate) struct EbpfProbes {
    bpf: Ebpf,
    targets: Vec<ProbeTarget>,
    root: Root,
    before: proc::Reading,
    unavailable: Vec<Unavailable>,
    allocators: allocator::Allocators,
    sees_waits: bool,
    sees_sockets: bool,
    sees_arrivals: bool,
    /// While it is open, the kernel keeps account of the programs' time.
    stats: Option<OwnedFd>,
    armed_ns: u64,
}

impl fmt::Debug for EbpfProbes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EbpfProbes")
            .field("targets", &self.targets)
            .field("unavailable", &self.unavailable)
            .finish_non_exhaustive()
    }
}

impl EbpfProbes {
    /// Loads and attaches; the reason why not, when the system does not allow it.
    pub(crate) fn arm(config: &ProbeConfig) -> Result<Self, Unavailable> {
        Self::try_arm(config).map_err(|error| error.unavailable("probes in the kernel (eBPF)"))
    }

    fn try_arm(config: &ProbeConfig) -> Result<Self, EbpfError> {
        if !config.root.is_live() {
            return Err(EbpfError::NotLive);
        }
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(EbpfError::Architecture);
        }
        if proc::in_own_pid_namespace() {
            return Err(EbpfError::PidNamespace);
        }
        allocator::wait_until_detached();
        let btf = kernel::types()?;
        let mut bpf = kernel::load(OBJECT, None)?;
        let root = &config.root;
        let mut unavailable = proc::missing(root, &config.targets);
        let members = proc::members(root, &config.targets).unwrap_or_default();
        tell(&mut bpf, &config.targets, &members)?;
        let stats = aya::sys::enable_stats(Stats::RunTime).ok();

        for attachment in &REQUIRED {
            attach(&mut bpf, btf, attachment)?;
        }
        let mut sees_sockets = true;
        for attachment in &SOCKETS {
            if let Err(error) = attach(&mut bpf, btf, attachment) {
                unavailable.push(error.unavailable(attachment.sees));
                sees_sockets &= attachment.program != "tcp_state";
            }
        }
        let sees_waits = attach_one(&mut bpf, btf, &OFF_CPU, &mut unavailable);
        let sees_arrivals = attach_one(&mut bpf, btf, &ARRIVALS, &mut unavailable);
        let allocators = if config.allocator {
            allocator::arm(&mut bpf, root, &members, &config.targets, &mut unavailable)
        } else {
            unavailable.push(Unavailable {
                what: "calls of the memory allocator".to_owned(),
                reason: "they were not asked for: each costs a trap".to_owned(),
                remedy: "ask for them with --allocator".to_owned(),
            });
            allocator::Allocators::default()
        };
        let before = proc::Reading::take(root, &members);
        Ok(Self {
            bpf,
            targets: config.targets.clone(),
            root: root.clone(),
            before,
            unavailable,
            allocators,
            sees_waits,
            sees_sockets,
            sees_arrivals,
            stats,
            armed_ns: linux::clock::monotonic_ns(),
        })
    }

    /// CPU time of the programs so far, ns; `None` where the kernel keeps no account of it.
    pub(crate) fn spent_ns(&self) -> Option<u64> {
        self.stats.as_ref()?;
        let programs = self.bpf.programs();
        let spent = programs.filter_map(|(_, program)| Some(account(program)?[0]));
        Some(spent.sum())
    }

    /// Requests that the first target has taken so far.
    pub(crate) fn requests_taken(&self) -> Option<u64> {
        let taken = HashMap::<_, u32, u64>::try_from(self.bpf.map("TAKEN")?);
        // No entry is none taken.
        Some(taken.ok()?.get(&0, 0).unwrap_or(0))
    }

    /// Detaches and reads what was counted.
    pub(crate) fn disarm(mut self) -> Probed {
        let ended_ns = linux::clock::monotonic_ns();
        let members = proc::members(&self.root, &self.targets).unwrap_or_default();
        let after = proc::Reading::take(&self.root, &members);
        let mut unavailable = self.unavailable;
        let (cost, misses) = costs(&self.bpf);
        let maps = collect::Maps::take(&mut self.bpf);
        self.allocators.detach(&mut self.bpf);
        // Detaches everything else; the maps that were taken out live on until they are read.
        drop(self.bpf);
        let (mut targets, lost) = match maps {
            Ok(maps) => maps.collect(&self.targets, ended_ns, &self.allocators),
            Err(error) => {
                unavailable.push(error.unavailable("everything that the kernel's side counted"));
                (self.targets.iter().map(proc::empty).collect(), 0)
            }
        };
        for target in &mut targets {
            if !self.sees_waits {
                target.blocked = None;
            }
            if !self.sees_sockets {
                target.sockets = None;
            }
            if !self.sees_arrivals {
                let upstreams = target.upstreams.iter_mut().flatten();
                upstreams.for_each(|upstream| upstream.answered_ns = None);
            }
        }
        unavailable.append(&mut proc::fill(&mut targets, &self.before, &after));
        Probed {
            tier: Tier::Ebpf,
            targets,
            unavailable,
            lost: lost + misses,
            window_ns: ended_ns.saturating_sub(self.armed_ns),
            cost,
        }
    }
}

fn attach(bpf: &mut Ebpf, btf: &Btf, a: &Attachment) -> Result<(), EbpfError> {
    let program = bpf
        .program_mut(a.program)
        .ok_or(EbpfError::Missing(a.program))?;
    let program: &mut BtfTracePoint = program
        .try_into()
        .map_err(|_| EbpfError::Missing(a.program))?;
    let mut go = || -> Result<(), ProgramError> {
        program.load(a.tracepoint, btf)?;
        program.attach()?;
        Ok(())
    };
    go().map_err(|error| EbpfError::Attach {
        tracepoint: a.tracepoint,
        cause: chain(&error),
    })
}

/// Attaches the first of several ways to see the same that the kernel has; none is said with the last one's reason.
fn attach_one(
    bpf: &mut Ebpf,
    btf: &Btf,
    ways: &[Attachment],
    unavailable: &mut Vec<Unavailable>,
) -> bool {
    let mut last = None;
    for way in ways {
        match attach(bpf, btf, way) {
            Ok(()) => return true,
            Err(error) => last = Some(error.unavailable(way.sees)),
        }
    }
    unavailable.extend(last);
    false
}

pub(crate) fn map_error(what: &'static str) -> impl Fn(MapError) -> EbpfError {
    move |error| EbpfError::Map {
        what,
        cause: chain(&error),
    }
}

pub(crate) fn map<'a>(bpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut Map, EbpfError> {
    bpf.map_mut(name).ok_or(EbpfError::Missing(name))
}

/// Tells the kernel's side what the calls mean, whose calls count, and who sleeps already.
fn tell(
    bpf: &mut Ebpf,
    targets: &[ProbeTarget],
    members: &BTreeMap<i32, usize>,
) -> Result<(), EbpfError> {
    let mut table: Array<_, Call> =
        Array::try_from(map(bpf, "TABLE")?).map_err(map_error("calls"))?;
    for (number, name) in calls::all().filter(|&(number, _)| number < TABLE_ENTRIES) {
        let meaning = calls::meaning(name);
        table.set(number, meaning, 0).map_err(map_error("calls"))?;
    }
    let mut ports: HashMap<_, u32, u32> =
        HashMap::try_from(map(bpf, "PORTS")?).map_err(map_error("ports"))?;
    for (index, target) in (0_u32..).zip(targets) {
        for &port in &target.listens {
            let inserted = ports.insert(u32::from(port), index, 0);
            inserted.map_err(map_error("ports"))?;
        }
    }
    let mut tgids: HashMap<_, u32, u32> =
        HashMap::try_from(map(bpf, "TGIDS")?).map_err(map_error("processes"))?;
    for (&pid, &target) in members {
        let inserted = tgids.insert(pid.cast_unsigned(), target as u32, 0);
        inserted.map_err(map_error("processes"))?;
    }
    let mut threads: HashMap<_, u32, Thread> =
        HashMap::try_from(map(bpf, "THREADS")?).map_err(map_error("threads"))?;
    for (tid, thread) in sleeping(members) {
        let inserted = threads.insert(tid.cast_unsigned(), thread, 0);
        inserted.map_err(map_error("threads"))?;
    }
    Ok(())
}

/// The threads that are off the CPU now, as the kernel's side would have noted them.
fn sleeping(members: &BTreeMap<i32, usize>) -> Vec<(i32, Thread)> {
    let root = Root::default();
    let table: BTreeMap<u32, Call> = calls::all()
        .map(|(number, name)| (number, calls::meaning(name)))
        .collect();
    let mut threads = Vec::new();
    for (&pid, &target) in members {
        for tid in root
            .list_ids(&format!("proc/{pid}/task"))
            .unwrap_or_default()
        {
            let task = format!("proc/{pid}/task/{tid}");
            let Ok(stat) = root.read(&format!("{task}/stat")) else {
                continue;
            };
            let state = match linux::procfs::Stat::parse(&stat).map(|stat| stat.state) {
                Some('S') => 0,
                Some('D') => 1,
                _ => continue,
            };
            let call = root.read(&format!("{task}/syscall")).unwrap_or_default();
            let (nr, fd) = parse_call(&call, &table);
            let thread = Thread {
                off_ns: linux::clock::monotonic_ns(),
                target: target as u32,
                nr,
                fd,
                state,
                class: FdClass::None as u8,
                seeded: 1,
                ..Thread::default()
            };
            threads.push((tid, thread));
        }
    }
    threads
}

/// Call and descriptor in the text of `/proc/PID/task/TID/syscall`: the number, six arguments in
/// hexadecimal, stack and instruction pointer; or `running`.
fn parse_call(text: &str, table: &BTreeMap<u32, Call>) -> (i32, i32) {
    let mut words = text.split_ascii_whitespace();
    let Some(nr) = words.next().and_then(|word| word.parse::<i32>().ok()) else {
        return (NO_CALL, -1);
    };
    let argument = u32::try_from(nr)
        .ok()
        .and_then(|nr| usize::from(table.get(&nr)?.fd).checked_sub(1));
    let fd = argument.and_then(|index| {
        let word = words.nth(index)?.strip_prefix("0x")?;
        u64::from_str_radix(word, 16).ok()
    });
    // The upper half of the register means nothing to a descriptor.
    (nr, fd.map_or(-1, |value| (value as u32).cast_signed()))
}

/// CPU time and events by probe as the kernel accounts them, and how often a program could not run because
/// it ran already.
fn costs(bpf: &Ebpf) -> (Vec<ProbeCost>, u64) {
    let mut by_probe: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut misses = 0;
    for (name, program) in bpf.programs() {
        let others = SOCKETS.iter().chain(&OFF_CPU).chain(&ARRIVALS);
        let listed = REQUIRED.iter().chain(others);
        let mut listed = listed.filter(|a| a.program == name);
        let probe = listed.next().map_or("allocator", |a| a.probe);
        if let Some([ns, events, missed]) = account(program) {
            let sum = by_probe.entry(probe).or_default();
            sum.0 += ns;
            sum.1 += events;
            misses += missed;
        }
    }
    let cost = |(probe, (ns, events)): (&str, (u64, u64))| ProbeCost {
        probe: probe.to_owned(),
        events,
        expected_share: None,
        measured_ns: (ns > 0).then_some(ns),
    };
    (by_probe.into_iter().map(cost).collect(), misses)
}

/// Run time (ns), runs and missed runs, which the kernel tells only in the descriptor's fdinfo.
pub(crate) fn account(program: &Program) -> Option<[u64; 3]> {
    let info: ProgramInfo = program.info().ok()?;
    account_of(info.fd().ok()?.as_fd())
}

/// The same of a program's descriptor.
pub(crate) fn account_of(program: BorrowedFd<'_>) -> Option<[u64; 3]> {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    Some(
        ["run_time_ns:", "run_cnt:", "recursion_misses:"].map(|key| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeping_threads_call_is_read() {
        let reads = Call {
            fd: 1,
            ..Call::default()
        };
        let table = BTreeMap::from([(0, reads), (202, Call::default())]);
        for (text, expected) in [
            ("0 0x5 0x7ffd 0x10 0x0 0x0 0x0 0x7ffe 0x7f\n", (0, 5)),
            ("202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f\n", (202, -1)),
            ("running\n", (NO_CALL, -1)),
            ("-1 0x7ffe 0x7f\n", (-1, -1)),
            ("", (NO_CALL, -1)),
        ] {
            assert_eq!(parse_call(text, &table), expected, "{text}");
        }
    }
}
