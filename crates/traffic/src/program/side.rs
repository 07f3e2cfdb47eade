//! One side: a thread that drives a host and the program above it, and says about once a second how far it is.
//!
//! A turn is: begin what is due, send, let packets gather, receive; when nothing came, wait. With a coalescing of 0
//! nothing gathers, and on a CPU of its own the thread does not wait either but looks again and again: then a packet's
//! time is its own, not a wake-up's.

use super::ProgramError;
use super::flows::{Beginning, Program};
use super::script::{Plan, Role, Work};
use super::settings;
use crate::clock::now_ns;
use crate::load::cost::{Cost, Snapshot};
use crate::{side_report, sys};
use record::traffic::{Side, SideOutcome, TemplateOutcome};
use record::{Nanos, Pauses, TrafficSpec, Warning};
use stack::device::Device;
use stack::host::Host;
use stack::link;
use stack::tcp::{CLIENT, SERVER};
use std::io;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// Frames that are taken before the program has its turn.
const BATCH: usize = 256;
/// The longest wait: whoever stops a run is heard after it.
const WAIT_MAX_NS: u64 = 50_000_000;
/// How long a server side goes on for the ends of connections after the client side has gone.
const LINGER_NS: u64 = 1_000_000_000;
/// From the last side's readiness to the beginning.
const AHEAD_NS: u64 = 2_000_000;

/// What the sides and whoever waits for them share.
#[derive(Debug)]
pub(super) struct Control {
    sides: u32,
    ready: AtomicU32,
    /// When the run begins; 0 before that is known.
    begin_at: AtomicU64,
    /// When it ends at the latest.
    stop_at: AtomicU64,
    /// Raised when a figure is wanted.
    pub tick: AtomicU64,
    /// The client side has come to its end.
    pub client_gone: AtomicBool,
    /// A side cannot begin: nobody does.
    pub is_off: AtomicBool,
}

impl Control {
    /// For so many sides.
    pub fn new(sides: u32) -> Self {
        Control {
            sides,
            ready: AtomicU32::new(0),
            begin_at: AtomicU64::new(0),
            stop_at: AtomicU64::new(u64::MAX),
            tick: AtomicU64::new(0),
            client_gone: AtomicBool::new(false),
            is_off: AtomicBool::new(false),
        }
    }

    /// When the run begins, or began; `None` while a side is not ready.
    pub fn begin_at(&self) -> Option<u64> {
        Some(self.begin_at.load(SeqCst)).filter(|at| *at > 0)
    }

    /// Ends the run at `at`, unless it ends sooner.
    pub fn stop(&self, at: u64) {
        self.stop_at.fetch_min(at, SeqCst);
    }

    fn is_ready(&self) -> Option<u64> {
        if self.ready.fetch_add(1, SeqCst) + 1 == self.sides {
            self.begin_at.store(now_ns() + AHEAD_NS, SeqCst);
        }
        loop {
            if self.is_off.load(SeqCst) {
                return None;
            }
            if let Some(at) = self.begin_at() {
                return Some(at);
            }
            sys::pause(100_000);
        }
    }
}

/// How far a side is.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Which wish for figures this answers.
    pub tick: u64,
    pub at: u64,
    pub open: u64,
    pub tx_frames: u64,
    pub rx_frames: u64,
    pub tx_bytes: u64,
    pub rx_bytes: u64,
    pub retransmitted: u64,
    pub templates: Vec<TemplateOutcome>,
}

/// What a side ends with.
pub(super) struct Finished {
    pub outcome: SideOutcome,
    pub progress: Progress,
    pub warnings: Vec<Warning>,
}

/// What a side's thread is given.
pub(super) struct Task<'a> {
    pub role: Role,
    pub spec: &'a TrafficSpec,
    pub side: &'a Side,
    pub plan: Arc<Plan>,
    pub link: link::Settings,
    pub device: Box<dyn Device + Send>,
    /// It may look without waiting.
    pub polls: bool,
    pub control: &'a Control,
    pub progress: &'a Mutex<Progress>,
}

type AnyHost = Host<Box<dyn Device + Send>>;

/// A side in its thread.
struct Driver<'a> {
    host: AnyHost,
    program: Program,
    task: Driven<'a>,
    begin_at: u64,
    until: u64,
    ticked: u64,
    spun_ns: u64,
    /// When the last look was over, and the segments that were sent by then.
    looked: (u64, u64),
    pauses: Pauses,
}

/// What of the task is still needed.
struct Driven<'a> {
    role: Role,
    spec: &'a TrafficSpec,
    side: &'a Side,
    polls: bool,
    control: &'a Control,
    progress: &'a Mutex<Progress>,
}

/// Drives a side to its end. `None` when the other one could not begin.
pub(super) fn drive(task: Task<'_>) -> Result<Option<Finished>, ProgramError> {
    let side_name = task.role.name();
    if let Some(cpu) = task.side.cpu {
        linux::affinity::pin_to(cpu).map_err(|cause| ProgramError::Pin {
            side: side_name,
            cpu,
            cause,
        })?;
    }
    sys::set_precise_timers();
    let locals = settings::addresses(task.side, task.role)?;
    let tcp = settings::tcp(task.side, task.spec);
    let (flows_max, ports) = (tcp.flows_max, tcp.ports);
    let seed = task.spec.seed ^ (task.role as u64) << 32;
    let host = Host::new(task.device, &task.link, tcp, &locals, seed, now_ns());
    let mut host = host.map_err(|cause| ProgramError::Stack {
        side: side_name,
        cause,
    })?;
    if task.role == Role::Server {
        for script in &task.plan.scripts {
            let is_tcp = !matches!(script.work, Work::Udp(_));
            for target in script.targets.iter().filter(|_| is_tcp) {
                host.stack.listen(target.port());
            }
        }
    }
    let Some(begin_at) = task.control.is_ready() else {
        return Ok(None);
    };
    let spec = task.spec;
    let length = spec.duration.map_or(u64::MAX, |duration| duration.0);
    let until = begin_at.saturating_add(length);
    let from = Beginning {
        locals: &locals,
        order: task.side.order,
        ports,
        seed: spec.seed,
        begin_ns: begin_at,
        until_ns: until,
        ramp_ns: spec.ramp.0,
        clock: now_ns,
    };
    let mut driver = Driver {
        program: Program::new(task.role, task.plan, flows_max, &from),
        host,
        begin_at,
        until,
        ticked: 0,
        spun_ns: 0,
        looked: (begin_at, 0),
        pauses: Pauses::default(),
        task: Driven {
            role: task.role,
            spec,
            side: task.side,
            polls: task.polls,
            control: task.control,
            progress: task.progress,
        },
    };
    let from = driver.snapshot();
    let driven = driver.run();
    let ended_at = now_ns();
    driver.program.now = ended_at;
    driver.program.count_unfinished();
    let to = driver.snapshot();
    let cost = Cost::between(&from, &to);
    // The other side of a pair may have gone with its device.
    driver.host.end(ended_at, &mut driver.program);
    driver.host.device.sync();
    driven.map_err(|cause| ProgramError::Device {
        side: side_name,
        after: Nanos(ended_at.saturating_sub(begin_at)),
        cause,
    })?;
    Ok(Some(driver.finished(cost)))
}

impl Driver<'_> {
    fn snapshot(&self) -> Snapshot {
        let syscalls = self.host.device.counters().syscalls;
        Snapshot::take(now_ns(), self.spun_ns, self.pauses, syscalls)
    }

    fn run(&mut self) -> io::Result<()> {
        let coalesce = self.task.side.coalesce.0;
        let mut was_full = false;
        while now_ns() < self.begin_at {
            self.look(false)?;
        }
        loop {
            let now = now_ns();
            let end_at = self.until.min(self.task.control.stop_at.load(Relaxed));
            let may_begin = now < end_at;
            self.send(now, may_begin)?;
            if self.is_over(now, end_at) {
                return Ok(());
            }
            self.publish(now);
            if coalesce > 0 && !was_full {
                let left = self.next_at(may_begin).saturating_sub(now).min(coalesce);
                if left > 0 {
                    sys::pause(left);
                    self.pauses.count += 1;
                    self.pauses.total_ns += now_ns() - now;
                }
            }
            was_full = self.look(may_begin)? >= BATCH;
        }
    }

    /// One turn of beginning and sending.
    fn send(&mut self, now: u64, may_begin: bool) -> io::Result<()> {
        self.program.now = now;
        self.program.turn(&mut self.host.stack, may_begin);
        for datagram in self.program.outbox() {
            self.host.udp.queue(datagram);
        }
        self.host.send(now, &mut self.program)
    }

    /// Takes what has come, and waits for something when that is nothing.
    fn look(&mut self, may_begin: bool) -> io::Result<usize> {
        let now = now_ns();
        self.program.now = now;
        let got = self.host.receive(now, BATCH, &mut self.program)?;
        if got == 0 {
            let next = self.next_at(may_begin).min(now + WAIT_MAX_NS);
            let left = next.saturating_sub(now);
            if self.task.polls {
                self.note_spin();
            } else {
                self.host.wait(left)?;
            }
        } else if self.task.polls {
            self.looked = (now_ns(), self.sent());
        }
        Ok(got)
    }

    /// Nothing came. When nothing was sent either, the turn was a spin.
    fn note_spin(&mut self) {
        std::hint::spin_loop();
        let (now, sent) = (now_ns(), self.sent());
        if sent == self.looked.1 {
            self.spun_ns += now.saturating_sub(self.looked.0);
        }
        self.looked = (now, sent);
    }

    /// Packets that the side has sent.
    fn sent(&self) -> u64 {
        let stack = &self.host.stack;
        let segments = stack.counters(CLIENT).sndtotal + stack.counters(SERVER).sndtotal;
        segments + self.host.udp.counters().sent
    }

    /// When something is to be done without a packet.
    fn next_at(&mut self, may_begin: bool) -> u64 {
        let host = self.host.next_deadline_ns().unwrap_or(u64::MAX);
        let next = host.min(self.program.next_at(may_begin));
        match may_begin {
            true => next.min(self.until),
            false => next,
        }
    }

    fn is_over(&self, now: u64, end_at: u64) -> bool {
        let drain = self.task.spec.drain.0;
        let open = self.program.open;
        let control = self.task.control;
        match self.task.role {
            Role::Client if now >= end_at => open == 0 || now >= end_at.saturating_add(drain),
            Role::Client => open == 0 && self.program.has_begun_all(),
            Role::Server if self.task.spec.client.is_some() => {
                if !control.client_gone.load(Relaxed) {
                    return false;
                }
                // Noted by whoever waits for both: the time from which the ends are waited for.
                open == 0 || now >= control.stop_at.load(Relaxed).saturating_add(LINGER_NS)
            }
            Role::Server => now >= end_at && (open == 0 || now >= end_at.saturating_add(drain)),
        }
    }

    fn publish(&mut self, now: u64) {
        let tick = self.task.control.tick.load(Relaxed);
        if tick == self.ticked {
            return;
        }
        self.ticked = tick;
        self.program.count_scheduled();
        let progress = self.progress(now);
        let mut place = (self.task.progress.lock()).unwrap_or_else(PoisonError::into_inner);
        *place = progress;
    }

    fn progress(&self, now: u64) -> Progress {
        let device = self.host.device.counters();
        let sides = [CLIENT, SERVER].map(|side| self.host.stack.counters(side));
        Progress {
            tick: self.ticked,
            at: now,
            open: self.program.open,
            tx_frames: device.tx_frames,
            rx_frames: device.rx_frames,
            tx_bytes: device.tx_bytes,
            rx_bytes: device.rx_bytes,
            retransmitted: sides.iter().map(|counters| counters.sndrexmitpack).sum(),
            templates: self.program.tally.clone(),
        }
    }

    fn finished(self, cost: Cost) -> Finished {
        let progress = self.progress(self.program.now);
        let host = &self.host;
        let mut outcome = SideOutcome {
            side: self.task.role.name().to_owned(),
            transport: side_report::transport(host, self.task.side.coalesce, self.task.polls),
            peak_flows: self.program.peak,
            cpu: self.task.side.cpu,
            ..side_report::with_cost(host, &[CLIENT, SERVER], &cost)
        };
        outcome.flow_bytes += self.program.conn_bytes();
        let udp = host.udp.counters().named();
        (outcome.link).extend(udp.map(|(name, n)| (name.to_owned(), n)));
        let warnings = self.warnings(&outcome);
        Finished {
            outcome,
            progress,
            warnings,
        }
    }

    fn warnings(&self, outcome: &SideOutcome) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let side = self.task.role.name();
        if let Some((ip, mac)) = self.host.link.conflict() {
            warnings.push(Warning::new(
                "address_conflict",
                format!(
                    "{} says to have {ip}, which is an address of the {side} side",
                    stack::wire::ethernet::shown(mac)
                ),
                "use addresses that nobody has",
            ));
        }
        if let Some(target) = self.program.unanswered {
            warnings.push(Warning::new(
                "target_unanswered",
                format!(
                    "connections to {target} failed because its host, or the router to it, answered no ARP or \
                     neighbour solicitation or said that it cannot be reached"
                ),
                "see whether the host is up and the addresses of the client side are in its network",
            ));
        }
        if let Some(trouble) = self.host.device.trouble() {
            warnings.push(Warning::new(
                "device_trouble",
                format!("the {side} side: {trouble}"),
                "make room where `capture` is written, or keep fewer bytes of each packet with `snap`",
            ));
        }
        let dropped = outcome.device.get("rx_dropped").copied().unwrap_or(0);
        if dropped > 0 {
            warnings.push(Warning::new(
                "device_drops",
                format!(
                    "the device of the {side} side lost {dropped} frames before they were taken: the side did not \
                     keep up"
                ),
                "offer less, let packets gather for a shorter time, or give the side a CPU of its own",
            ));
        }
        let (late, attempted) =
            (self.program.tally.iter()).fold((0, 0), |(l, a), t| (l + t.late, a + t.attempted));
        if late * 100 > attempted {
            warnings.push(Warning::new(
                "connections_late",
                format!(
                    "{late} of {attempted} connections began more than 1 ms after they were due: a cap held them \
                     back, or the side did not keep up"
                ),
                "offer less, raise the cap, or give the client side a CPU of its own",
            ));
        }
        warnings
    }
}
