//! Arming the kernel's side of the trace, and the thread that takes its events out of the ring.
//!
//! In the flow: [`Tracer::start`] before the load, [`Tracer::stop`] after it; the events are accounted for
//! afterwards. The surprise: the reader is not woken. It looks every two milliseconds, so that the servers' system
//! calls do not pay for waking it; a reader that dies leaves a full ring, whose further events are counted as lost
//! and hold nobody up.

use super::Traced;
use super::wire::{Event, Kind, NAMED_BYTES};
use crate::goroutines::pclntab::Pclntab;
use crate::probe::ProbeTarget;
use crate::probe::calls;
use crate::probe::error::{EbpfError, chain};
use crate::probe::{ebpf, kernel, proc};
use aya::maps::{Array, HashMap as BpfMap, MapData, PerCpuArray, RingBuf};
use aya::programs::{BtfTracePoint, ProgramFd};
use aya::sys::Stats;
use aya::{Btf, Ebpf};
use linux::Root;
use record::{ProbeCost, Unavailable};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The compiled kernel's side; a test compares it with the hashes beside it.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../bpf/turns.bpf.o");
/// Events that are kept at most, 64 bytes each; the window ends where they are full.
const MOST_EVENTS: usize = 3 << 20;
/// The reader looks this often.
const LOOK: Duration = Duration::from_millis(2);
/// A system call that waits in a poll of an array of descriptors, or in select(2): the kernel's side knows them.
const CALL_POLL: u8 = 10;
const CALL_SELECT: u8 = 11;
/// What the kernel's side knows of a port and of a process, in its numbers.
const PORT_LISTENS: u32 = 1;
const MANY_TASKS: u32 = 1 << 31;
/// The kernel keeps an account of what the programs take for so long, or for so many events.
const METERED_NS: u64 = 100_000_000;
const METERED_EVENTS: usize = 1_000;
/// Program and tracepoint, for turns and for what threads do meanwhile.
const SOCKETS: [(&str, &str); 4] = [
    ("arrived", "sk_data_ready"),
    ("received", "sock_recv_length"),
    ("sent", "sock_send_length"),
    ("state_changed", "inet_sock_set_state"),
];
const THREADS: [(&str, &str); 4] = [
    ("switched", "sched_switch"),
    ("waking", "sched_waking"),
    ("forked", "sched_process_fork"),
    ("ended", "sched_process_exit"),
];
const WHAT: &str = "time of requests at the server (turns)";

/// What is to be traced.
#[derive(Clone, Debug, Default)]
pub struct TraceConfig {
    pub targets: Vec<ProbeTarget>,
    /// One client connection in so many is followed; rounded up to a power of two.
    pub one_in: u32,
    /// Wakers of no target are told with the number of their process: `process NAME PID`.
    pub by_process: bool,
}

/// A trace being taken. Dropping it takes the kernel's side away without a result.
#[derive(Debug)]
pub struct Tracer {
    config: TraceConfig,
    bpf: Ebpf,
    ended: Arc<AtomicBool>,
    reader: Option<JoinHandle<Collected>>,
    unavailable: Vec<Unavailable>,
    asleep: Vec<Event>,
    names: HashMap<u32, String>,
    members: HashMap<u32, usize>,
    /// Those of the members whose threads carry many tasks.
    green: HashSet<u32>,
    /// Those of the members that are clients of others.
    consumers: HashSet<u32>,
    armed_ns: u64,
}

/// What the reader took out of the ring.
#[derive(Debug, Default)]
struct Collected {
    events: Vec<Event>,
    /// Peers of sockets from a time on.
    peers: Vec<(u64, u64, String)>,
    /// When the memory was full.
    full_at_ns: Option<u64>,
    cpu_ns: u64,
    cost: Vec<ProbeCost>,
    /// How often a program could not run because it ran already.
    misses: u64,
}

/// What the kernel's side takes. The kernel's own account of it costs as much as a program that has nothing to do, so
/// it is kept for a moment only, which stands for the whole trace.
#[derive(Debug)]
struct Meter {
    /// Descriptors of the programs at sockets and at threads.
    programs: [Vec<ProgramFd>; 2],
    /// While it is open the kernel keeps the account.
    stats: Option<OwnedFd>,
    began_ns: u64,
    /// How long the account was kept, ns, and what it was then.
    read: Option<(u64, [[u64; 3]; 2])>,
}

impl Tracer {
    /// Loads and attaches the kernel's side and starts to read.
    ///
    /// # Errors
    /// Why there can be no trace: the kernel refuses BPF or has no such tracepoint (before Linux 6.3).
    pub fn start(config: &TraceConfig) -> Result<Self, Unavailable> {
        Self::try_start(config).map_err(|error| error.unavailable(WHAT))
    }

    fn try_start(config: &TraceConfig) -> Result<Self, EbpfError> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(EbpfError::Architecture);
        }
        if proc::in_own_pid_namespace() {
            return Err(EbpfError::PidNamespace);
        }
        let btf = kernel::types()?;
        let one_in = config.one_in.max(1).next_power_of_two();
        let mut bpf = kernel::load(OBJECT, Some(one_in.trailing_zeros()))?;
        let root = Root::default();
        let unavailable = proc::missing(&root, &config.targets);
        let members = proc::members(&root, &config.targets).unwrap_or_default();
        let green = green(&by_tgid(&members));
        tell(&mut bpf, &config.targets, &members, &green)?;
        let ring = bpf.take_map("EVENTS").ok_or(EbpfError::Missing("EVENTS"))?;
        let ring = RingBuf::try_from(ring).map_err(ebpf::map_error("events"))?;
        for (program, tracepoint) in SOCKETS.into_iter().chain(THREADS) {
            attach(&mut bpf, btf, program, tracepoint)?;
        }
        let meter = Meter::begin(&bpf);
        let mut names = HashMap::new();
        let asleep = asleep(&members, &mut names);
        let mut tracer = Self {
            config: config.clone(),
            bpf,
            ended: Arc::new(AtomicBool::new(false)),
            reader: None,
            unavailable,
            asleep,
            names,
            members: by_tgid(&members),
            green,
            consumers: consumers(&config.targets),
            armed_ns: linux::clock::monotonic_ns(),
        };
        let ended = Arc::clone(&tracer.ended);
        let reader = std::thread::Builder::new().name("turns".to_owned());
        let spawned = reader.spawn(move || read_until(&ended, ring, meter));
        tracer.reader = Some(spawned.map_err(|cause| EbpfError::Load(cause.to_string()))?);
        Ok(tracer)
    }

    /// Takes the kernel's side away; what was written down is still to be accounted for.
    pub fn stop(mut self) -> Traced {
        let stopped_ns = linux::clock::monotonic_ns();
        let members = proc::members(&Root::default(), &self.config.targets).unwrap_or_default();
        // Threads that began in the trace have their names now.
        let _ = asleep(&members, &mut self.names);
        let lost = self.lost();
        self.ended.store(true, Ordering::Release);
        let collected = match self.reader.take().map(JoinHandle::join) {
            Some(Ok(collected)) => collected,
            Some(Err(_)) | None => {
                self.unavailable.push(Unavailable {
                    what: WHAT.to_owned(),
                    reason: "the reader of the trace ended early".to_owned(),
                    remedy: "report this as a bug of prony".to_owned(),
                });
                Collected::default()
            }
        };
        let mut cost = collected.cost;
        cost.push(ProbeCost {
            probe: "reader of the turn trace".to_owned(),
            events: collected.events.len() as u64,
            expected_share: None,
            measured_ns: Some(collected.cpu_ns),
        });
        let mut fresh = by_tgid(&members);
        fresh.retain(|tgid, _| !self.members.contains_key(tgid));
        self.green.extend(green(&fresh));
        self.members.extend(fresh);
        let mut events = std::mem::take(&mut self.asleep);
        events.extend(collected.events);
        events.sort_by_key(|event| event.at_ns);
        Traced {
            targets: self
                .config
                .targets
                .iter()
                .map(|t| t.target.clone())
                .collect(),
            ports: ports(&self.config.targets),
            green: std::mem::take(&mut self.green),
            consumers: std::mem::take(&mut self.consumers),
            by_process: self.config.by_process,
            members: std::mem::take(&mut self.members),
            names: std::mem::take(&mut self.names),
            peers: collected.peers,
            from_ns: self.armed_ns,
            begin_ns: self.armed_ns,
            to_ns: collected.full_at_ns.unwrap_or(stopped_ns).min(stopped_ns),
            one_in: self.config.one_in.max(1).next_power_of_two(),
            lost: lost + collected.misses,
            events,
            unavailable: std::mem::take(&mut self.unavailable),
            cost,
        }
    }

    fn lost(&mut self) -> u64 {
        let map = self.bpf.map("LOST");
        let map = map.and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let values = map.and_then(|map| map.get(&0, 0).ok());
        values.map_or(0, |values| values.iter().sum())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

fn attach(
    bpf: &mut Ebpf,
    btf: &Btf,
    program: &'static str,
    tracepoint: &'static str,
) -> Result<(), EbpfError> {
    let found = bpf
        .program_mut(program)
        .ok_or(EbpfError::Missing(program))?;
    let found: &mut BtfTracePoint = found.try_into().map_err(|_| EbpfError::Missing(program))?;
    let mut go = || -> Result<(), aya::programs::ProgramError> {
        found.load(tracepoint, btf)?;
        found.attach()?;
        Ok(())
    };
    go().map_err(|error| EbpfError::Attach {
        tracepoint,
        cause: chain(&error),
    })
}

/// Tells the kernel's side whose threads and ports count, and which argument of a call is a descriptor.
fn tell(
    bpf: &mut Ebpf,
    targets: &[ProbeTarget],
    members: &BTreeMap<i32, usize>,
    green: &HashSet<u32>,
) -> Result<(), EbpfError> {
    let mut table: Array<_, u8> =
        Array::try_from(ebpf::map(bpf, "CALLS")?).map_err(ebpf::map_error("calls"))?;
    let entries = table.len();
    for (number, name) in calls::all().filter(|&(number, _)| number < entries) {
        let value = match name {
            "poll" | "ppoll" => CALL_POLL,
            "select" | "pselect6" => CALL_SELECT,
            // What they wait for is a set of descriptors that is not theirs.
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => 0,
            _ => calls::meaning(name).fd.min(2),
        };
        table
            .set(number, value, 0)
            .map_err(ebpf::map_error("calls"))?;
    }
    let mut ports: Array<_, u32> =
        Array::try_from(ebpf::map(bpf, "PORTS")?).map_err(ebpf::map_error("ports"))?;
    for &port in targets.iter().flat_map(|target| &target.listens) {
        let set = ports.set(u32::from(port), PORT_LISTENS, 0);
        set.map_err(ebpf::map_error("ports"))?;
    }
    let mut tgids: BpfMap<_, u32, u32> =
        BpfMap::try_from(ebpf::map(bpf, "TGIDS")?).map_err(ebpf::map_error("processes"))?;
    let mut words: BTreeMap<u32, u64> = BTreeMap::new();
    for (&pid, &target) in members {
        let pid = pid.cast_unsigned();
        let many = if green.contains(&pid) { MANY_TASKS } else { 0 };
        let inserted = tgids.insert(pid, target as u32 | many, 0);
        inserted.map_err(ebpf::map_error("processes"))?;
        *words.entry(pid / 64).or_default() |= 1 << (pid % 64);
    }
    let mut ours: Array<_, u64> =
        Array::try_from(ebpf::map(bpf, "OURS")?).map_err(ebpf::map_error("processes"))?;
    let words_of_kernel = ours.len();
    for (word, bits) in words {
        let set = ours.set(word % words_of_kernel, bits, 0);
        set.map_err(ebpf::map_error("processes"))?;
    }
    Ok(())
}

fn by_tgid(members: &BTreeMap<i32, usize>) -> HashMap<u32, usize> {
    let members = members.iter();
    members
        .map(|(&pid, &target)| (pid.cast_unsigned(), target))
        .collect()
}

/// Which target listens where; the first of several.
fn ports(targets: &[ProbeTarget]) -> HashMap<u16, usize> {
    let mut ports = HashMap::new();
    for (index, target) in targets.iter().enumerate() {
        for &port in &target.listens {
            ports.entry(port).or_insert(index);
        }
    }
    ports
}

/// The targets' consumers with what they have started.
fn consumers(targets: &[ProbeTarget]) -> HashSet<u32> {
    let of = |target: &ProbeTarget| ProbeTarget {
        pids: target.consumers.clone(),
        ..ProbeTarget::default()
    };
    let all: Vec<ProbeTarget> = targets.iter().map(of).collect();
    let members = proc::members(&Root::default(), &all).unwrap_or_default();
    members.keys().map(|pid| pid.cast_unsigned()).collect()
}

/// Processes of the Go runtime, by a section that its linker always writes.
fn green(members: &HashMap<u32, usize>) -> HashSet<u32> {
    let pids = members.keys().copied();
    pids.filter(|pid| is_go(&format!("/proc/{pid}/exe")))
        .collect()
}

fn is_go(path: &str) -> bool {
    let Ok(file) = std::fs::File::open(path) else {
        return false;
    };
    let cache = object::ReadCache::new(file);
    object::File::parse(&cache).is_ok_and(|elf| Pclntab::is_in(&elf))
}

/// The threads that are off the CPU now, as if they had just left it; all threads' names.
fn asleep(members: &BTreeMap<i32, usize>, names: &mut HashMap<u32, String>) -> Vec<Event> {
    let root = Root::default();
    let mut events = Vec::new();
    for &pid in members.keys() {
        let threads = root.list_ids(&format!("proc/{pid}/task"));
        for tid in threads.unwrap_or_default() {
            let task = format!("proc/{pid}/task/{tid}");
            let Ok(stat) = root.read(&format!("{task}/stat")) else {
                continue;
            };
            let Some(stat) = linux::procfs::Stat::parse(&stat) else {
                continue;
            };
            let name = root.read(&format!("{task}/comm")).unwrap_or_default();
            names.insert(tid.cast_unsigned(), name.trim_end().to_owned());
            let value = match stat.state {
                'S' => 1,
                'D' => 2,
                _ => continue,
            };
            let call = root.read(&format!("{task}/syscall")).unwrap_or_default();
            let call = call.split_ascii_whitespace().next();
            events.push(Event {
                at_ns: linux::clock::monotonic_ns(),
                tid: tid.cast_unsigned(),
                tgid: pid.cast_unsigned(),
                nr: call.and_then(|nr| nr.parse().ok()).unwrap_or(-1),
                value,
                kind: Kind::Switched as u8,
                flags: super::wire::LEFT,
                ..Event::default()
            });
        }
    }
    events
}

/// Empties the ring until `ended`, and once more after that.
fn read_until(ended: &AtomicBool, mut ring: RingBuf<MapData>, mut meter: Meter) -> Collected {
    let mut collected = Collected::default();
    loop {
        let last = ended.load(Ordering::Acquire);
        while let Some(item) = ring.next() {
            collected.take(&item);
        }
        let metered = collected.events.len() >= METERED_EVENTS
            || linux::clock::monotonic_ns() >= meter.began_ns + METERED_NS;
        if last || metered {
            meter.keep();
        }
        if last {
            (collected.cost, collected.misses) = meter.end();
            collected.cpu_ns = linux::clock::thread_cpu_ns();
            return collected;
        }
        std::thread::sleep(LOOK);
    }
}

impl Collected {
    fn take(&mut self, bytes: &[u8]) {
        let Some(event) = Event::read(bytes) else {
            return;
        };
        if self.full_at_ns.is_some() {
            return;
        }
        if self.events.len() >= MOST_EVENTS {
            self.full_at_ns = Some(event.at_ns);
            return;
        }
        if event.kind() == Some(Kind::Named) {
            let path = bytes.get(size_of::<Event>()..NAMED_BYTES);
            let peer = event.peer(path.unwrap_or_default());
            self.peers.push((event.sk, event.at_ns, peer));
        }
        self.events.push(event);
    }
}

impl Meter {
    fn begin(bpf: &Ebpf) -> Self {
        let mut programs = [Vec::new(), Vec::new()];
        for (name, program) in bpf.programs() {
            let at_socket = SOCKETS.iter().any(|&(program, _)| program == name);
            let fd = program.info().and_then(|info| info.fd()).ok();
            programs[usize::from(!at_socket)].extend(fd);
        }
        Self {
            programs,
            stats: aya::sys::enable_stats(Stats::RunTime).ok(),
            began_ns: linux::clock::monotonic_ns(),
            read: None,
        }
    }

    /// Run time (ns), runs and missed runs until now.
    fn now(&self) -> (u64, [[u64; 3]; 2]) {
        let sums = self.programs.each_ref().map(|programs| {
            let accounts = programs
                .iter()
                .filter_map(|fd| ebpf::account_of(fd.as_fd()));
            accounts.fold([0; 3], |sum: [u64; 3], one| {
                std::array::from_fn(|field| sum[field] + one[field])
            })
        });
        (linux::clock::monotonic_ns() - self.began_ns, sums)
    }

    /// What was taken until now stands for the rest.
    fn keep(&mut self) {
        if self.read.is_none() {
            self.read = Some(self.now());
            self.stats = None;
        }
    }

    /// Run time and events of the whole trace, and the runs that were missed.
    fn end(mut self) -> (Vec<ProbeCost>, u64) {
        self.keep();
        let (whole_ns, last) = self.now();
        let (kept_ns, kept) = self.read.unwrap_or((whole_ns, last));
        let times = whole_ns as f64 / kept_ns.max(1) as f64;
        let cost = |(probe, [ns, events, _]): (&str, [u64; 3])| ProbeCost {
            probe: probe.to_owned(),
            events: (events as f64 * times) as u64,
            expected_share: None,
            measured_ns: (ns > 0).then_some((ns as f64 * times) as u64),
        };
        let names = ["turns: sockets", "turns: threads"];
        let costs = names.into_iter().zip(kept).map(cost).collect();
        (costs, last.iter().map(|[_, _, missed]| missed).sum())
    }
}
